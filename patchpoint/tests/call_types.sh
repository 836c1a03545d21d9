#!/usr/bin/env bash
# clang's checks of calls through pointers: the types of functions with link-time optimisation (-fsanitize=cfi), and for all calls
# without it (-fsanitize=kcfi, from clang 16 on, which need not be the default one). The library calls handlers, visitors and its
# probe; it is compiled here with the checks, and so are the programs.
set -euo pipefail
cd "$(dirname "$0")"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export PATCHPOINT_TORTURE_SECONDS=1
library=("$PWD"/../src/*.c "$PWD"/../src/arch/x86_64*.c)

# build_and_run NAME CLANG FLAG...: the library once, then the programs that call most.
build_and_run() {
    local name=$1 clang=$2 program sources
    shift 2
    mkdir "$place/$name"
    (cd "$place/$name" && "$clang" -std=gnu11 -O2 -fvisibility=hidden "$@" -I"$OLDPWD/../include" -c "${library[@]}")
    for program in conformance torture variants users; do
        sources=("$program.c")
        if [ $program = variants ]; then sources+=(variants_other.c); fi
        "$clang" -std=gnu11 -O2 -fvisibility=hidden "$@" -I"$PWD/../include" -pthread -o "$place/$program" "${sources[@]}" "$place/$name"/*.o
        "$place/$program" >"$place/log" 2>&1 || { echo "call_types: $name, $clang: $program"; cat "$place/log"; exit 1; }
    done
    "$place/torture" traps >"$place/log" 2>&1 || { echo "call_types: $name, $clang: torture traps"; cat "$place/log"; exit 1; }
    # The check is there: a call of another type ends the program.
    "$clang" -std=gnu11 -O2 -fvisibility=hidden "$@" -o "$place/wrong" wrong_type.c
    if "$place/wrong" 2>/dev/null; then echo "call_types: $name, $clang: a call of another type was let through"; exit 1; fi
    echo "call_types: $name, $clang: passed"
}

newest=
for clang in clang-{25..16} clang; do
    if echo 'int main(void) { return 0; }' | "$clang" -fsanitize=kcfi -x c -o "$place/taken" - 2>/dev/null; then newest=$clang && break; fi
done
if [ -n "$newest" ]; then
    build_and_run kcfi "$newest" -fsanitize=kcfi
else
    echo 'SKIPPED: -fsanitize=kcfi needs clang 16 or later' >&2
fi
if echo 'int main(void) { return 0; }' | clang -flto -fsanitize=cfi -fuse-ld=lld -fvisibility=hidden -x c -o "$place/taken" - 2>/dev/null; then
    build_and_run cfi clang -flto -fsanitize=cfi -fuse-ld=lld
else
    echo 'SKIPPED: -fsanitize=cfi needs clang and lld' >&2
fi
