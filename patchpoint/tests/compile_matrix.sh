#!/usr/bin/env bash
# Small functions compiled in many ways must be recognised; sites compiled in many ways must keep stack and registers.
# Arguments: the compiler, the static library.
set -euo pipefail
cc=$1 library=$2
cd "$(dirname "$0")"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
failed=0 bodies=0 sites=0 refused=()

# Whether the compiler (and linker) take some flags at all.
takes() {
    echo 'int main(void) { return 0; }' | "$cc" -Werror "$@" -x c -o "$place/taken" - 2>/dev/null
}

"$cc" -O1 -c -o "$place/main.o" -I../include bodies_main.c
variants=('' '-fcf-protection' '-fno-omit-frame-pointer' '-fno-omit-frame-pointer -fcf-protection' '-pg -mfentry'
    '-pg -mfentry -mrecord-mcount -mnop-mcount -fno-pic -no-pie' '-mfunction-return=thunk-extern' '-fpatchable-function-entry=5'
    '-fzero-call-used-regs=used-gpr' '-fPIC' '-mno-red-zone')
for variant in "${variants[@]}"; do
    read -ra flags <<<"$variant"
    # Judged as an object: the thunk and the entry hook are in bodies_main.c.
    if ! echo 'int f(void) { return 0; }' | "$cc" -Werror "${flags[@]}" -x c -c -o "$place/taken.o" - 2>/dev/null; then
        refused+=("$variant")
        continue
    fi
    pie=()
    case $variant in *-no-pie*) pie=(-no-pie) ;; esac
    for level in -O0 -O1 -O2 -O3 -Os; do
        optimised=optimised
        case "$level $variant" in -O0* | -Os* | *thunk*) optimised='' ;; esac
        "$cc" "$level" "${flags[@]}" -c -o "$place/bodies.o" bodies.c 2>/dev/null
        "$cc" "${pie[@]}" -o "$place/bodies" "$place/main.o" "$place/bodies.o" "$library"
        "$place/bodies" $optimised || { echo "bodies: $cc $level $variant"; failed=1; }
        bodies=$((bodies + 1))
    done
done

variants=('' '-fPIC' '-fno-pic -no-pie' '-fno-omit-frame-pointer' '-ffunction-sections -Wl,--gc-sections' '-flto'
    '-flto -ffunction-sections -Wl,--gc-sections' '-fuse-ld=lld -ffunction-sections -Wl,--gc-sections' '-fuse-ld=gold'
    '-march=x86-64-v3' '-fcf-protection=none' '-fcf-protection=full' '-fcf-protection=full -mshstk -Wl,-z,ibt,-z,shstk' '-fstack-protector-all' '-fuse-ld=lld -flto' '-static')
for variant in "${variants[@]}"; do
    read -ra flags <<<"$variant"
    if ! takes "${flags[@]}"; then
        refused+=("$variant")
        continue
    fi
    levels=(-O2)
    case $variant in '' | -fPIC | -flto | *lld*sections) levels=(-O0 -O1 -O2 -O3 -Os) ;; esac
    for level in "${levels[@]}"; do
        "$cc" -std=c11 -Wall -Wextra -Werror "$level" "${flags[@]}" -I../include -o "$place/stack" stack.c "$library" -pthread
        "$place/stack" || { echo "sites: $cc $level $variant"; failed=1; }
        sites=$((sites + 1))
    done
done
echo "compile matrix: $bodies ways for functions, $sites for sites; not taken by $cc: ${refused[*]:-none}"
exit $failed
