#!/usr/bin/env bash
# Conformance and a short torture under the address and undefined behaviour sanitizers.
# Argument: the compiler.
set -euo pipefail
cc=$1
cd "$(dirname "$0")"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
flags=(-std=c11 -g -O1 -fsanitize=address -fsanitize=undefined -fno-sanitize-recover=all -pthread -I"$PWD/../include")
if ! echo 'int main(void) { return 0; }' | "$cc" "${flags[@]}" -x c -o "$place/taken" - 2>/dev/null; then
    echo "SKIPPED: $cc has no sanitizers here" >&2
    exit 0
fi
library=("$PWD"/../src/*.c "$PWD"/../src/arch/x86_64*.c)
mkdir "$place/library"
(cd "$place/library" && "$cc" "${flags[@]}" -c "${library[@]}")
for test in conformance torture; do
    "$cc" "${flags[@]}" -o "$place/$test" "$test.c" "$place"/library/*.o
    PATCHPOINT_TORTURE_SECONDS=1 "$place/$test"
done
"$cc" "${flags[@]}" -DFUZZ_ROUNDS=200000 -o "$place/recognise" ../fuzz/recognise.c "$place"/library/x86_64_*.o
"$place/recognise"
if [[ $cc == *clang* ]] && echo 'int LLVMFuzzerTestOneInput(const char *a, long b); int LLVMFuzzerTestOneInput(const char *a, long b) { (void)a; (void)b; return 0; }' |
    "$cc" -fsanitize=fuzzer -x c -o "$place/taken" - 2>/dev/null; then
    "$cc" -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -o "$place/fuzz" ../fuzz/recognise.c ../src/arch/x86_64_*.c
    "$place/fuzz" -max_total_time=3 -seed=1 >"$place/log" 2>&1 || { cat "$place/log"; exit 1; }
fi
