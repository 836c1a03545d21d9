#!/usr/bin/env bash
# patchpoint-dump on a file and on a running process, as text and as JSON, and its refusals.
# Argument: the build folder.
set -euo pipefail
build=$1
dump=$build/patchpoint-dump
place=$(mktemp -d)
trap 'rm -rf "$place"; kill "$pid" 2>/dev/null || true' EXIT
fail() {
    echo "dump: $1"
    exit 1
}

"$dump" "$build/tests/forms" >"$place/file"
grep -qE '^ *0x[0-9a-f]+  value   file +number +8b 05( [0-9a-f]{2}){4}  /' "$place/file" || fail 'no value site in the file'
"$dump" "$build/tests/forms" --json >"$place/file.json"
grep -q '"kind": "branch".*"state": "file".*"bytes_now": null' "$place/file.json" || fail 'no branch site in the JSON'

# Waits, patched, until its input ends.
mkfifo "$place/input" "$place/output"
"$build/tests/forms" wait <"$place/input" >"$place/output" &
pid=$!
exec 3>"$place/input" 4<"$place/output"
read -r _ <&4
"$dump" "$pid" >"$place/process"
grep -qE 'value +immediate +number +8b 05( [0-9a-f]{2}){4}  ->  c7 c0 2a 00 00 00' "$place/process" || fail 'no immediate'
grep -qE 'branch +nop +unlikely_off +e9( [0-9a-f]{2}){4}  ->  0f 1f 44 00 00' "$place/process" || fail 'no nop'
grep -qE 'call +thunk +direct_saved +67 e8' "$place/process" || fail 'no thunk'
grep -qE 'call +stub +far +ff 15( [0-9a-f]{2}){4}  ->  67 e8' "$place/process" || fail 'no stub'
grep -qx 'operations: 7' "$place/process" || fail 'no operations'
"$dump" --json "$pid" >"$place/process.json"
grep -q '"ops": 7}' "$place/process.json" || fail 'no operations in the JSON'
grep -q '"ops": null}' "$place/file.json" || fail 'operations of a file'
exec 3>&-
cat <&4 >/dev/null
wait "$pid"
if command -v python3 >/dev/null; then
    python3 - "$place/file.json" "$place/process.json" <<'PYTHON'
import json, sys
for path in sys.argv[1:]:
    found = json.load(open(path))
    assert found["schema"] == 1 and found["transaction_open"] is False and found["sites"]
    keys = {"key", "kind", "address", "object", "state", "bytes_original", "bytes_now"}
    assert all(set(site) == keys for site in found["sites"])
PYTHON
else
    echo "SKIPPED: no python3 here to read the JSON" >&2
fi

"$dump" --help | grep -q '^usage: patchpoint-dump' || fail 'no help'
status=0
"$dump" >/dev/null 2>&1 || status=$?
[ $status -eq 2 ] || fail "without arguments: status $status"
status=0
"$dump" "$place/file" 2>"$place/error" || status=$?
[ $status -eq 4 ] || fail "a text file: status $status"
grep -q 'not an ELF file' "$place/error" || fail 'a text file: another message'
head -c 4096 "$build/tests/forms" >"$place/cut"
"$dump" "$place/cut" >/dev/null 2>&1 || true
