#!/usr/bin/env bash
# What the examples' functions are in memory at the end of a run: whole functions, disassembled.
# Arguments: the build folder, the compiler's name.
set -euo pipefail
build=$1 compiler=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
if ! command -v objdump >/dev/null; then
    echo "SKIPPED: no objdump here" >&2
    exit 0
fi

# code EXAMPLE FUNCTION [ARGUMENT]: the function's instructions, one a line, without the calls that are never made.
code() {
    local program=$build/examples/example_$1 address size cold
    read -r address size < <(nm -S "$program" | sed -n "s/ [Tt] $2\$//p")
    cold=$(printf '%x' "0x$(nm "$program" | sed -n 's/ [Tt] patchpoint_cold$//p')")
    "$build/tests/live_text" "$place/text" "$address" "$size" "$program" "${@:3}" || exit 1
    objdump -D -b binary -m i386:x86-64 --no-show-raw-insn --adjust-vma="0x$address" "$place/text" |
        sed -n 's/^ *[0-9a-f]*:\t//p' | grep -v "call *0x$cold\$" | sed 's/ *#.*//; s/ *$//'
}

# expect NUMBER PATTERN TEXT WHAT: so many lines match.
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
text=$(code tracepoint sum_to)
expect 1 '^nopl +0x0\(%rax,%rax,1\)$' "$(sed '/ret/q' <<<"$text")" 'tracepoint off'
expect 0 '^(jmp|j[a-z]+|cmp|test|call|push)' "$(sed '/ret/q' <<<"$text")" 'tracepoint off'
echo "tracepoint off, $compiler:"
sed '/ret/q' <<<"$text"
text=$(code tracepoint sum_to on)
expect 1 '^jmp' "$(sed '/ret/q' <<<"$text")" 'tracepoint on'

text=$(code ops_table copy_table native)
expect 2 '^cs cs cs mov %rdi,%rax$' "$text" 'ops table, native'
expect 1 '^nopw +0x0\(%rax,%rax,1\)$' "$(grep -v 'cs nopw' <<<"$text" | sed '/ret/q')" 'ops table, native'
expect 0 '^(addr32 )?call' "$text" 'ops table, native'
expect 0 "$saved_pushed" "$text" 'ops table, native'
echo "ops table, native, $compiler:"
sed '/ret/q' <<<"$text"
text=$(code ops_table copy_table)
expect 3 '^addr32 call' "$text" 'ops table, virtual'

text=$(code lock add_one)
expect 1 '^movl +.0x0,\(%rdi\)$' "$text" 'lock, spinning'
expect 1 '^addr32 call' "$text" 'lock, spinning'
echo "lock, spinning, $compiler:"
echo "$text"
