#!/usr/bin/env bash
# The library that script/test-servers preloads into servers: it changes every key in a small program of threads that block all
# signals, sees nothing wrong, and a process that is not told to begin changes nothing.
# Usage: server_preload.sh LIBRARY
set -euo pipefail
library=$1
command -v python3 >/dev/null || { echo "SKIPPED: no python3 here" >&2; exit 0; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# serve SECONDS: waits for events and writes, in three threads, until the report is there.
serve() {
    LD_PRELOAD=$library SERVER_PRELOAD_CHANGES=300 SERVER_PRELOAD_START=$folder/start SERVER_PRELOAD_REPORT=$folder/report python3 -c '
import os, select, signal, sys, threading, time
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
end, report = time.monotonic() + float(sys.argv[1]), sys.argv[2]
def work():
    quiet = os.open("/dev/null", os.O_WRONLY)
    while time.monotonic() < end and not os.path.exists(report):
        select.poll().poll(1)
        os.write(quiet, b"x")
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()' "$1" "$folder/report"
}
serve 0.2
if [ -e "$folder/report" ]; then echo "keys were changed without a start" >&2; exit 1; fi
touch "$folder/start"
serve 60
cat "$folder/report"
grep -q ' changes=300 refusals=0 error=0 wrong=0 executed=' "$folder/report"
grep -Eq ' executed_blocked=[1-9][0-9]* .* protocol=(move|trap|copy) ' "$folder/report"
if [ -e "$folder/start" ]; then echo "the file that starts is still there" >&2; exit 1; fi
