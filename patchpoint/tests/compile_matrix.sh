#!/usr/bin/env bash
# Small functions compiled in many ways must be recognised; sites compiled in many ways must keep stack and registers.
# Arguments: the compiler, the static library.
set -euo pipefail
cc=$1 library=$2
cd "$(dirname "$0")"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
failed=0 bodies=0 sites=0 refused=()

# Whether the compiler (and linker) accept some flags at all.
takes() {
    echo 'int main(void) { return 0; }' | "$cc" -Werror "$@" -x c -o "$place/taken" - 2>/dev/null
}

"$cc" -std=c11 -O1 -c -o "$place/main.o" -I../include bodies_main.c
variants=('' '-fcf-protection' '-fno-omit-frame-pointer' '-fno-omit-frame-pointer -fcf-protection' '-pg -mfentry'
    '-pg -mfentry -mrecord-mcount -mnop-mcount -fno-pic -no-pie' '-mfunction-return=thunk-extern' '-fpatchable-function-entry=5'
    '-fzero-call-used-regs=used-gpr' '-fPIC' '-mno-red-zone')
for variant in "${variants[@]}"; do
    read -ra flags <<<"$variant"
    # Tested on an object file, since the thunk and the entry hook are in bodies_main.c.
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

# build NAME FLAGS...: builds the program of sites with the files in `with`, the library as a rule; then runs it.
with=("$library")
build() {
    local name=$1 run=0
    shift
    "$cc" -std=gnu11 -Wall -Wextra -Werror "$@" -I../include -o "$place/stack" stack.c inference.c "${with[@]}" -pthread || run=$?
    if [ "$run" -eq 0 ]; then "$place/stack" || run=$?; fi
    if [ "$run" -ne 0 ]; then
        echo "sites: $cc $name"
        failed=1
    fi
    sites=$((sites + 1))
}

variants=('' '-fPIC' '-fno-pic -no-pie' '-fno-omit-frame-pointer' '-ffunction-sections -Wl,--gc-sections' '-flto'
    '-flto -ffunction-sections -Wl,--gc-sections' '-fuse-ld=lld -ffunction-sections -Wl,--gc-sections' '-fuse-ld=gold'
    '-fuse-ld=mold' '-fuse-ld=lld -Wl,--icf=all -ffunction-sections' '-march=x86-64-v3' '-fcf-protection=none' '-fcf-protection=full'
    '-fcf-protection=full -mshstk -Wl,-z,ibt,-z,shstk' '-fstack-protector-all' '-fuse-ld=lld -flto' '-static'
    '-fipa-pta -fno-inline' '-mllvm -enable-ipra')
# The program is run, so these need a processor with AVX-512.
if grep -qw avx512f /proc/cpuinfo; then variants+=('-mavx512f' '-march=native'); fi
for variant in "${variants[@]}"; do
    read -ra flags <<<"$variant"
    if ! takes "${flags[@]}"; then
        refused+=("$variant")
        continue
    fi
    levels=(-O2)
    case $variant in '' | -flto | -mavx512f) levels=(-O0 -O1 -O2 -O3 -Os) ;; esac
    for level in "${levels[@]}"; do
        build "$level $variant" "$level" "${flags[@]}"
    done
done

# Functions with variants.
for variant in '-O0' '-O1' '-O3' '-Os' '-O0 -fPIC' '-O2 -flto' '-O2 -fno-inline' '-O2 -fipa-icf -ffunction-sections -Wl,--gc-sections'; do
    read -ra flags <<<"$variant"
    if ! takes "${flags[@]}"; then continue; fi
    if ! "$cc" -std=gnu11 -Wall -Wextra -Werror "${flags[@]}" -I../include -o "$place/variants" variants.c variants_other.c "$library" \
        -pthread || ! "$place/variants" quick; then
        echo "variants: $cc $variant"
        failed=1
    fi
    sites=$((sites + 1))
done

# The compiler sees the library's own code: in the same link-time optimisation, and in the same file.
mapfile -t with < <(printf '%s\n' ../src/*.c ../src/arch/x86_64*.c)
for level in -O1 -O2 -O3; do
    if takes -flto; then build "$level -flto, the library too" "$level" -flto; fi
done
for source in inference.c "${with[@]}"; do echo "#include \"$PWD/$source\""; done >"$place/all.c"
for level in -O1 -O2; do
    "$cc" -std=gnu11 -D_GNU_SOURCE= -Wall -Wextra -Werror "$level" -I../include -o "$place/stack" stack.c "$place/all.c" -pthread
    "$place/stack" || { echo "sites: $cc $level, the library in the same file"; failed=1; }
    sites=$((sites + 1))
done

# With a profile of the program's own run.
with=("$library")
if takes -fprofile-generate -fprofile-update=atomic; then
    build '-O2 -fprofile-generate' -O2 -fprofile-generate="$place/profile" -fprofile-update=atomic
    if [[ $cc == *clang* ]]; then
        merge=$(command -v llvm-profdata || find /usr/bin -name 'llvm-profdata-*' | tail -1)
        if [ -n "$merge" ]; then
            "$merge" merge -o "$place/merged" "$place"/profile/*
            build '-O2 -fprofile-use' -O2 -fprofile-use="$place/merged" -Wno-profile-instr-unprofiled
        fi
    else
        build '-O2 -fprofile-use' -O2 -fprofile-use="$place/profile" -Wno-missing-profile
    fi
fi
echo "compile matrix: $bodies ways for functions, $sites for sites; not taken by $cc: ${refused[*]:-none}"
exit $failed
