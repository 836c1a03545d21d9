#!/usr/bin/env bash
# Compares the table of bytes in the guide with this build: the guide must have a row, word for word, for each form. Sites of the same
# bytes are one form, named after the first of them.
# Arguments: the build folder, the guide; or the build folder and --print, which writes the rows.
set -euo pipefail
build=$1 guide=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
if ! command -v objdump >/dev/null; then
    echo "SKIPPED: no objdump here" >&2
    exit 0
fi
missing=0 rows=0
declare -A seen
while IFS=$'\t' read -r key before after bytes; do
    read -ra words <<<"$bytes"
    # The first byte is left out: all forms of a site have it, and it means nothing.
    printf '%b' "$(printf '\\x%s' "${words[@]:1}")" >"$place/bytes"
    text=$(objdump -D -b binary -m i386:x86-64 --no-show-raw-insn "$place/bytes" | sed -n 's/^ *0:\t//p' |
        sed 's/ *$//; s/  */ /g')
    # If the bytes depend on addresses, so does the operand.
    case $after in *..*) text="${text%%0x*}TARGET" ;; esac
    form="$before $after $text"
    if [ -n "${seen[$form]:-}" ]; then continue; fi
    seen[$form]=1
    row="| \`$key\` | \`$before\` | \`$after\` | \`$text\` |"
    rows=$((rows + 1))
    if [ "$guide" = --print ]; then
        echo "$row"
    elif ! grep -qxF "$row" "$guide"; then
        echo "not in the guide: $row"
        missing=$((missing + 1))
    fi
done < <("$build/tests/forms" | sort)
[ "$rows" -ge 14 ] || { echo "only $rows forms"; exit 1; }
[ "$missing" -eq 0 ]
