#!/usr/bin/env bash
# A patched site executes as one instruction, by exact counts of the benchmark's rows of sixteen. The switch is left out, since the
# compiler may need a jump of its own around it. A function with variants executes what a function that is compiled for its settings
# by hand executes. A disabled probe costs less than the other ways to have one. Argument: patchpoint_bench.
set -euo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$1" --instructions --quick >"$log"
if ! grep -q '^16 in a row' "$log"; then
    exit 0 # the benchmark has said why on stderr
fi
awk '
    /^16 in a row/ { group = $0; first = ""; next }
    /^a disabled probe / { probe = 1; next }
    /^[^ ]/ { group = ""; hand = ""; probe = 0; next }
    probe {
        sub(/ as compiled .*/, "")
        if (/ patched /) { disabled = $NF; next }
        if (disabled == "") next
        if (disabled >= $NF) { print "a disabled probe: " disabled "; " $0; failed = 1 }
        probes++
        next
    }
    / compiled for it by hand / { hand = $NF; next }
    / patched, variants / {
        sub(/ as compiled .*/, "")
        if ($NF != hand) { print "variants: " $0 "; by hand " hand; failed = 1 }
        cases++
        next
    }
    group == "" { next }
    {
        sub(/ as compiled .*/, "")
        if (first == "") { first = $NF; next }
        if ($0 !~ /^  patched/ || /switch/) next
        extra = group ~ /nothing$/ ? 1 : 0
        if ($NF - first != extra) { print "not one instruction: " group ": " $0 "; by hand " first; failed = 1 }
        checked++
    }
    END {
        if (checked != 6 || cases != 8 || probes != 3) {
            print checked + 0 " forms found, not 6, or " cases + 0 " cases, not 8, or " probes + 0 " probes, not 3"
            failed = 1
        }
        exit failed
    }' "$log" || { cat "$log"; exit 1; }
