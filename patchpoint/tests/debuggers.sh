#!/usr/bin/env bash
# Runs debuggers and probes at a program whose sites change all the time: no thread dies or sees a wrong value, whatever becomes
# of its traps. Each part runs for PATCHPOINT_DEBUGGER_SECONDS (3 unless set).
# Argument: the build folder.
set -euo pipefail
subject=$1/tests/subject
seconds=${PATCHPOINT_DEBUGGER_SECONDS:-3}
place=$(mktemp -d)
pid=
trap 'rm -rf "$place"; [ -z "$pid" ] || kill "$pid" 2>/dev/null || true' EXIT

fail() {
    echo "debuggers: $1"
    cat "$place/log" "$place/said" 2>/dev/null | tail -20
    exit 1
}

# start [quiet]: starts the subject in the background.
start() {
    "$subject" 1000 "$@" >"$place/said" 2>&1 &
    pid=$!
    sleep 0.2
}

# finish WHAT: ends the subject, which must have changed keys meanwhile.
finish() {
    kill "$pid" || fail "the program died: $1"
    wait "$pid" || fail "the program died: $1"
    pid=
    grep -qE '^[1-9][0-9]* changes$' "$place/said" || fail "no key changed: $1"
    echo "debuggers: $1, $(tail -1 "$place/said")"
}

# gdb stops at a trap that it did not set, and "continue" does not give the signal to the program.
if command -v gdb >/dev/null; then
    cat >"$place/continue.py" <<'PYTHON'
import gdb, time

gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set debuginfod enabled off")
ended, stops = [], 0
gdb.events.exited.connect(lambda event: ended.append(getattr(event, "exit_code", None)))
gdb.execute("run")
while not ended:
    gdb.execute("continue", to_string=True)
    stops += 1
print(f"exit code {ended[0]}, {stops} stops")
PYTHON
    timeout $((seconds * 10 + 60)) gdb -q -batch -x "$place/continue.py" --args "$subject" "$seconds" traps >"$place/log" 2>&1 || fail 'gdb'
    grep -qE '^exit code 0, [1-9][0-9]* stops$' "$place/log" || fail 'gdb, continue: the program died, or never stopped'
    echo "debuggers: gdb, continue: $(grep '^exit code' "$place/log")"

    # gdb interrupts threads with every signal blocked, steps them and lets them go, while their pages come and go.
    "$subject" 1000 blocked >"$place/said" 2>&1 &
    pid=$!
    sleep 0.2
    attached=0 until=$((SECONDS + seconds))
    while [ "$SECONDS" -lt "$until" ]; do
        timeout 60 gdb -q -batch -ex 'set debuginfod enabled off' -ex 'thread 2' -ex 'stepi 20' -ex 'thread 3' -ex 'stepi 20' \
            -ex detach -p "$pid" >"$place/log" 2>&1 || fail "gdb, attached $attached times to threads that block signals"
        attached=$((attached + 1))
    done
    finish "gdb attached $attached times to threads that block signals"

    # gdb attaches while a change waits for a thread, steps the thread that changes, lets it go on to its next stop (a breakpoint of
    # the library's, or the interrupt), and goes away.
    "$subject" 1000 waits >"$place/said" 2>&1 &
    pid=$!
    sleep 0.2
    attached=0 until=$((SECONDS + seconds))
    while [ "$SECONDS" -lt "$until" ]; do
        interrupt="python import os, threading; threading.Timer(0.3, os.kill, ($pid, 2)).start()"
        timeout 60 gdb -q -batch -ex 'set debuginfod enabled off' -ex 'thread 1' -ex 'stepi 50' -ex 'step' -ex "$interrupt" -ex 'continue' \
            -ex 'thread 1' -ex 'stepi 50' -ex detach -p "$pid" >"$place/log" 2>&1 || fail "gdb, attached $attached times while changes wait"
        attached=$((attached + 1))
    done
    finish "gdb attached $attached times while changes wait"

    # Breakpoints on sites: changes are refused while they stand there, and stepping over them meets the same instruction.
    cat >"$place/break.py" <<'PYTHON'
import gdb

gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set debuginfod enabled off")
ended = []
gdb.events.exited.connect(lambda event: ended.append(getattr(event, "exit_code", None)))
points = [gdb.Breakpoint(name) for name in ("probed_narrow", "probed_wide", "probed_branch", "probed_switch")]
gdb.execute("run")
for i in range(200):
    if i == 100:
        for point in points:
            point.delete()
    if not ended:
        gdb.execute("stepi" if i % 3 == 1 else "continue", to_string=True)
while not ended:
    gdb.execute("continue", to_string=True)
print(f"exit code {ended[0]}, {sum(point.hit_count for point in points if point.is_valid())} hits left")
PYTHON
    timeout $((seconds * 10 + 60)) gdb -q -batch -x "$place/break.py" --args "$subject" "$seconds" quiet >"$place/log" 2>&1 ||
        fail 'gdb, breakpoints on sites'
    grep -qE '^exit code 0, ' "$place/log" || fail 'gdb, breakpoints on sites: the program died'
    echo 'debuggers: gdb, breakpoints on sites'
else
    echo 'SKIPPED: no gdb here' >&2
fi

# A tracer that goes away between a trap and its signal.
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    start
    attached=0 until=$((SECONDS + seconds))
    while [ "$SECONDS" -lt "$until" ]; do
        timeout -s INT 0.03 strace -f -p "$pid" -o /dev/null 2>/dev/null || true
        attached=$((attached + 1))
        kill -0 "$pid" 2>/dev/null || fail "strace, attached $attached times: the program died"
    done
    finish "strace attached and detached $attached times"
else
    echo 'SKIPPED: strace cannot trace here' >&2
fi

probed=(probed_narrow probed_wide probed_branch probed_switch probed_call probed_saved)
# Uprobes on functions that begin with their sites: when one is removed, the kernel puts back the first byte of the file.
if command -v bpftrace >/dev/null && timeout 20 bpftrace -e 'BEGIN { exit(); }' >/dev/null 2>&1; then
    start quiet
    for function in "${probed[@]}"; do
        for _ in {1..20}; do
            timeout -k 5 30 bpftrace -e "uprobe:$subject:$function { @hits = count(); } interval:ms:300 { exit(); }" \
                >"$place/log" 2>&1 || fail "bpftrace, $function"
            ! grep -qE '@hits: [1-9]' "$place/log" || break
        done
        grep -qE '@hits: [1-9]' "$place/log" || fail "bpftrace, $function: no hit"
    done
    finish 'bpftrace on each function, in turn'
else
    echo 'SKIPPED: bpftrace cannot trace here' >&2
fi
if command -v perf >/dev/null && perf probe -q -x "$subject" 'patchpoint_tested=probed_branch' 2>"$place/log"; then
    perf probe -q -d 'probe_subject:*' 2>/dev/null || true
    start quiet
    for function in "${probed[@]}"; do
        perf probe -q -x "$subject" "patchpoint_tested=$function" 2>"$place/log" || fail "perf probe, $function"
        # On a busy machine the program may not run at all for a while.
        for _ in {1..50}; do
            perf stat -e 'probe_subject:patchpoint_tested' -p "$pid" sleep 0.2 2>"$place/log" || fail "perf stat, $function"
            ! grep -qE '[1-9][0-9,]* +probe_subject' "$place/log" || break
        done
        perf probe -q -d 'probe_subject:patchpoint_tested' 2>/dev/null
        grep -qE '[1-9][0-9,]* +probe_subject' "$place/log" || fail "perf probe, $function: no hit"
    done
    finish 'perf probe on each function, in turn'
else
    echo "SKIPPED: perf cannot set probes here: $(head -c 100 "$place/log" 2>/dev/null | tr '\n' ' ')" >&2
fi
