#!/usr/bin/env bash
# Under Valgrind and user-mode QEMU, which execute translations of the code, nothing is patched and everything works.
# Under the thread sanitizer sites are patched, and the sanitizer finds no race. Arguments: the build folder, the compiler.
set -euo pipefail
build=$1 cc=$2
cd "$(dirname "$0")"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# refused WHY COMMAND...: conformance must pass, and say why nothing was patched.
refused() {
    local why=$1
    shift
    if ! command -v "$1" >/dev/null; then
        echo "SKIPPED: no $1 here" >&2
        return
    fi
    PATCHPOINT_EMULATED=1 timeout 100 "$@" "$place/conformance" >"$place/log" 2>&1 || { cat "$place/log"; exit 1; }
    grep -q "$why" "$place/log" || { cat "$place/log"; exit 1; }
}
# Strips the debugging information, since Valgrind cannot read all of it.
objcopy --strip-debug "$build/tests/conformance_static" "$place/conformance"
refused 'running under Valgrind' valgrind -q --error-exitcode=9
refused 'running under Valgrind' valgrind -q --smc-check=all
refused 'changed code is not what is executed' qemu-x86_64

flags=(-std=c11 -g -O1 -fsanitize=thread -I../include)
if echo 'int main(void) { return 0; }' | "$cc" "${flags[@]}" -x c -o "$place/taken" - 2>/dev/null && "$place/taken"; then
    "$cc" "${flags[@]}" -o "$place/torture" torture.c ../src/*.c ../src/arch/x86_64*.c -pthread
    PATCHPOINT_TORTURE_SECONDS=1 timeout 100 "$place/torture" >"$place/log" 2>&1 || { cat "$place/log"; exit 1; }
else
    echo "SKIPPED: $cc has no thread sanitizer here" >&2
fi
