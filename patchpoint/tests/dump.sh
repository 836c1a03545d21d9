#!/usr/bin/env bash
# Tests patchpoint-dump on a file and on a running process, as text and as JSON, and its refusals.
# Arguments: the build folder, the architecture of its sites.
set -euo pipefail
build=$1 arch=$2
dump=$build/patchpoint-dump
place=$(mktemp -d)
trap 'rm -rf "$place"; kill "$pid" 2>/dev/null || true' EXIT
fail() {
    echo "dump: $1"
    exit 1
}

byte='[0-9a-f]{2}'
"$dump" "$build/tests/forms" >"$place/file"
case $arch in
x86_64) line="value   file +number +40 8b 05( $byte){4}  /" ;;
aarch64) line="branch  file +unlikely_off +($byte ){3}1[4-7]  /" ;;
esac
grep -qE "^ *0x[0-9a-f]+  $line" "$place/file" || fail "not in the file: $line"
"$dump" "$build/tests/forms" --json >"$place/file.json"
grep -q '"kind": "branch".*"state": "file".*"bytes_now": null' "$place/file.json" || fail 'no branch site in the JSON'

# The program is patched and waits until its input ends.
mkfifo "$place/input" "$place/output"
"$build/tests/forms" wait <"$place/input" >"$place/output" &
pid=$!
exec 3>"$place/input" 4<"$place/output"
read -r _ <&4
"$dump" "$pid" >"$place/process"
case $arch in
x86_64) lines=("value +immediate +number +40 8b 05( $byte){4}  ->  40 c7 c0 2a 00 00 00"
    "branch +nop +unlikely_off +40 e9( $byte){4}  ->  40 0f 1f 44 00 00" 'call +thunk +direct_saved +40 67 e8'
    "call +stub +far +40 ff 15( $byte){4}  ->  40 67 e8") ;;
aarch64) lines=("branch +nop +unlikely_off +($byte ){3}1[4-7]  ->  1f 20 03 d5"
    "branch +jump +unlikely_on +($byte ){3}1[4-7]  ->  ($byte ){3}1[4-7]  /"
    "call +nop +identity_64 +($byte ){3}9[4-7]  ->  1f 20 03 d5" "call +trap +null_trap +($byte ){3}9[4-7]  ->  00 7d 20 d4"
    "call +call +direct +($byte ){3}9[4-7]  ->  ($byte ){3}9[4-7]  /" 'call +thunk +direct_saved '
    "call +stub +far +($byte ){3}9[4-7]  ->  ($byte ){3}9[4-7]  /") ;;
esac
for line in "${lines[@]}"; do
    grep -qE "$line" "$place/process" || { cat "$place/process"; fail "not in the process: $line"; }
done
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
    # The code to which branches and switches lead as compiled has symbols of its own.
    nm --print-size "$build/tests/forms" >"$place/symbols"
    python3 - "$place/file.json" "$place/symbols" <<'PYTHON'
import json, sys
spans = [line.split() for line in open(sys.argv[2]) if " patchpoint_unpatched." in line]
spans = [(int(start, 16), int(size, 16)) for start, size, *_ in spans]
assert spans and all(size for _, size in spans), spans
led = 0
for site in json.load(open(sys.argv[1]))["sites"]:
    original, address = bytes.fromhex(site["bytes_original"]), int(str(site["address"]), 0)
    if site["kind"] in ("branch", "switch"):
        if len(original) == 6:
            target = address + 6 + int.from_bytes(original[2:], "little", signed=True)
        else:
            distance = int.from_bytes(original, "little") & 0x3ffffff
            target = address + 4 * (distance - (distance >> 25 << 26))
        assert any(start == target for start, _ in spans), site
        led += 1
assert led >= 5, led
PYTHON
elif [ -z "${PATCHPOINT_GUEST:-}" ]; then
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

# Damaged files: the tool answers in time, and prints nothing that a terminal obeys.
if command -v python3 >/dev/null; then
    python3 - "$build/tests/forms" "$place" <<'PYTHON'
import struct, sys

good = open(sys.argv[1], "rb").read()
table, = struct.unpack_from("<Q", good, 32)
count, = struct.unpack_from("<H", good, 56)

def write(name, damaged):
    open(f"{sys.argv[2]}/{name}", "wb").write(damaged)

# Program headers that begin at an odd place.
odd = bytearray(good)
odd += b"\0" * (1 + len(odd) % 2) + good[table:table + 56 * count]
struct.pack_into("<Q", odd, 32, len(odd) - 56 * count)
write("odd", odd)

# Relocations that are said to be longer than any file: once around all addresses.
segments = [struct.unpack_from("<IIQQQQQQ", good, table + 56 * i) for i in range(count)]
place, size = next((segment[2], segment[5]) for segment in segments if segment[0] == 2)
circle = bytearray(good)
for at in range(place, place + size, 16):
    if struct.unpack_from("<Q", circle, at)[0] == 8:
        struct.pack_into("<Q", circle, at + 8, 2**64 - 24)
write("circle", circle)

# A key's name that clears the screen, begins another line and turns the writing around.
write("name", good.replace(b"unlikely_off\0", b"u\x1b[2J\n\xe2\x80\xaexyz\0"))
PYTHON
    "$dump" "$place/odd" >"$place/found" || fail 'program headers at an odd place'
    diff <(grep -c . "$place/file") <(grep -c . "$place/found") || fail 'program headers at an odd place: other sites'
    status=0
    timeout 20 "$dump" "$place/circle" >"$place/found" 2>&1 || status=$?
    [ $status -lt 100 ] || fail "relocations in a circle: status $status"
    "$dump" "$place/name" >"$place/found" || fail 'a strange name'
    ! LC_ALL=C grep -q '[[:cntrl:]]' "$place/found" || fail 'control characters of a name'
    ! grep -q "$(printf '\u202e')" "$place/found" || fail 'a name that turns the writing around'
    diff <(grep -c . "$place/file") <(grep -c . "$place/found") || fail 'a strange name: other lines'
    "$dump" --json "$place/name" | python3 -c 'import json, sys; json.load(sys.stdin)' || fail 'a strange name in the JSON'
fi

# A process whose file is gone.
cp "$build/tests/forms" "$place/forms"
"$place/forms" wait <"$place/input" >"$place/output" &
pid=$!
exec 3>"$place/input" 4<"$place/output"
read -r _ <&4
rm "$place/forms"
"$dump" "$pid" >"$place/removed" || fail 'a process whose file is gone'
diff <(grep -c . "$place/process") <(grep -c . "$place/removed") || fail 'a process whose file is gone: other sites'
exec 3>&-
cat <&4 >/dev/null
wait "$pid"

# A program without sites says so, and is no error.
"$dump" "$dump" >"$place/none" 2>"$place/error" || fail 'a program without sites'
if [ -s "$place/none" ] || ! grep -q "has no sites" "$place/error"; then fail "a program without sites: no message"; fi
"$dump" --json "$dump" 2>/dev/null | tr -d ' \n' | grep -q '"sites":\[\]' || fail 'a program without sites: JSON'
