#!/usr/bin/env bash
# The guide's script shows a process's live text, and gdb does, where the file shows sites as compiled.
# Arguments: the build folder, the guide.
set -euo pipefail
program=$(realpath "$1/tests/forms") guide=$(realpath "$2")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
fail() {
    echo "disassemblers: $1"
    exit 1
}
sed -n '/^# live-text PID FILE FOLDER/,/^```$/p' "$guide" | sed '/^```/d' >"$place/live-text"
grep -q '^    dd if=' "$place/live-text" || fail 'the guide has no script'

mkfifo "$place/input" "$place/output"
"$program" wait <"$place/input" >"$place/output" &
pid=$!
exec 3>"$place/input" 4<"$place/output"
read -r _ <&4
mkdir "$place/folder"
bash "$place/live-text" "$pid" "$program" "$place/folder"
address=$("$1/patchpoint-dump" "$pid" | sed -n 's/^ *\(0x[0-9a-f]*\) .* number .*/\1/p')
if command -v gdb >/dev/null && gdb -q -batch -p "$pid" -ex "x/1i $address" >"$place/gdb" 2>&1; then
    grep -q "mov  *[$]0x2a,%eax" "$place/gdb" || { cat "$place/gdb" && fail 'gdb shows no patched site'; }
else
    echo 'SKIPPED: no gdb here, or it may not trace' >&2
fi
exec 3>&-
cat <&4 >/dev/null
wait "$pid"
patched="40 c7 c0 2a 00 00 00 .*mov +[$]0x2a,%eax"
objdump -d "$place/folder$program" >"$place/live"
objdump -d "$program" >"$place/file"
grep -qE "$patched" "$place/live" || fail 'the copy has no patched site'
! grep -qE "$patched" "$place/file" || fail 'the file has a patched site'
