#!/usr/bin/env bash
# Disassembles whole functions of the examples and loops of the benchmark, as they are in memory at the end of a run.
# Arguments: the build folder, the compiler's name.
set -euo pipefail
build=$1 compiler=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
if ! command -v objdump >/dev/null; then
    echo "SKIPPED: no objdump here" >&2
    exit 0
fi

# Removes the mark: objdump writes an empty REX prefix before other prefixes as a line of its own.
without_mark() {
    sed '/^rex$/d; s/^rex //; s/^data16 mova/mova/'
}

# code PROGRAM FUNCTION [ARGUMENT...]: prints the function's instructions, one a line, without the calls that are never made.
code() {
    local program=$build/$1 address size cold
    read -r address size < <(nm -S "$program" | sed -n "s/ [Tt] $2\$//p")
    cold=$(printf '%x' "0x$(nm "$program" | sed -n 's/ [Tt] patchpoint_cold$//p')")
    "$build/tests/live_text" "$place/text" "$address" "$size" "$program" "${@:3}" || exit 1
    objdump -D -b binary -m i386:x86-64 --no-show-raw-insn --adjust-vma="0x$address" "$place/text" |
        sed -n 's/^ *[0-9a-f]*:\t//p' | grep -v "call *0x$cold\$" | sed 's/ *#.*//; s/ *$//' | without_mark
}

# expect NUMBER PATTERN TEXT WHAT: NUMBER lines must match.
expect() {
    local found
    found=$(grep -cE "$2" <<<"$3" || true)
    if [ "$found" -ne "$1" ]; then
        echo "$4: $found lines match '$2', wanted $1:"
        echo "$3"
        exit 1
    fi
}

saved_pushed='push +%(rbx|rbp|r1[2-5])'
text=$(code examples/example_tracepoint sum_to)
expect 1 '^nopl +0x0\(%rax,%rax,1\)$' "$(sed '/ret/q' <<<"$text")" 'tracepoint off'
expect 0 '^(jmp|j[a-z]+|cmp|test|call|push)' "$(sed '/ret/q' <<<"$text")" 'tracepoint off'
echo "tracepoint off, $compiler:"
sed '/ret/q' <<<"$text"
text=$(code examples/example_tracepoint sum_to on)
expect 1 '^jmp' "$(sed '/ret/q' <<<"$text")" 'tracepoint on'

text=$(sed '/ret/q' <<<"$(code examples/example_tracepoints run_task)")
expect 2 '^nopl +0x0\(%rax,%rax,1\)$' "$text" 'tracepoints off'
expect 0 '^(jmp|j[a-z]+|cmp|test|(addr32 )?call)' "$text" 'tracepoints off'
echo "tracepoints off, $compiler:"
echo "$text"
text=$(sed '/ret/q' <<<"$(code examples/example_tracepoints run_task on)")
expect 1 '^nopl' "$text" 'one tracepoint on'
expect 1 '^jmp' "$text" 'one tracepoint on'

text=$(code examples/example_ops_table copy_table native)
expect 2 '^cs cs cs mov %rdi,%rax$' "$text" 'ops table, native'
expect 1 '^nopw +0x0\(%rax,%rax,1\)$' "$(grep -v 'cs nopw' <<<"$text" | sed '/ret/q')" 'ops table, native'
expect 0 '^(addr32 )?call' "$text" 'ops table, native'
expect 0 "$saved_pushed" "$text" 'ops table, native'
echo "ops table, native, $compiler:"
sed '/ret/q' <<<"$text"
text=$(code examples/example_ops_table copy_table)
expect 3 '^addr32 call' "$text" 'ops table, virtual'

text=$(code examples/example_lock add_one)
expect 1 '^movl +.0x0,\(%rdi\)$' "$text" 'lock, spinning'
expect 1 '^addr32 call' "$text" 'lock, spinning'
echo "lock, spinning, $compiler:"
echo "$text"

# loop FUNCTION: prints the instructions of the benchmark's loop, from where its last jump leads to that jump.
loop() {
    local address size program=$build/bench/patchpoint_bench head
    read -r address size < <(nm -S "$program" | sed -n "s/ [Tt] $1\$//p")
    "$build/tests/live_text" "$place/text" "$address" "$size" "$program" --patch || exit 1
    objdump -D -b binary -m i386:x86-64 --no-show-raw-insn --adjust-vma="0x$address" "$place/text" |
        sed -n 's/^ *\([0-9a-f]*\):\t/\1 /p' >"$place/code"
    head=$(sed -n 's/.* jne *0x//p' "$place/code" | head -1)
    sed -n "/^$head /,/ jne /p" "$place/code" | sed 's/^[0-9a-f]* //; s/ *$//' | without_mark
}

# beside HAND PATCHED GCC CLANG SITE: the patched loop may have at most GCC or CLANG instructions more than the loop written by
# hand, the site's among them, and none that uses the stack.
beside() {
    local hand patched more=$3
    if [ "$compiler" = Clang ]; then more=$4; fi
    hand=$(loop "$1") patched=$(loop "$2")
    expect 1 "$5" "$patched" "$2"
    expect 0 '\(%r[sb]p' "$patched" "$2"
    if [ $(($(wc -l <<<"$patched") - $(wc -l <<<"$hand"))) -gt "$more" ]; then
        printf '%s, more than %s instructions more than %s:\n%s\n\n%s\n' "$2" "$more" "$1" "$patched" "$hand"
        exit 1
    fi
}

beside identity_inlined identity_saved 1 2 '^cs cs cs mov %rdi,%rax$'
beside empty_inlined empty_saved 1 1 '^nopw +0x0\(%rax,%rax,1\)$'
beside mix_direct mix_patched 0 0 '^addr32 call'
beside branch_none unlikely_off 1 1 '^nopl +0x0\(%rax,%rax,1\)$'
# clang adds from memory, but an immediate must be in a register: one mov, and one to keep the sum.
beside value_64_plain value_64_patched 0 2 '^movabs .0x500000005,%r'
