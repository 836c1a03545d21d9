#!/usr/bin/env bash
# Builds programs in many ways: with another libc, in another assembler syntax, with the library as a part of another CMake
# project, and with linkers that drop unused code.
# Arguments: the build folder, the C compiler, the C++ compiler.
set -euo pipefail
build=$1 cc=$2 cxx=$3
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
library=("$here"/../src/*.c "$here"/../src/arch/x86_64*.c)
fail() {
    echo "builds: $1"
    tail -5 "$place/log" 2>/dev/null
    exit 1
}

# -masm=intel, of a program and of the library itself.
for language in c c++; do
    compiler=("$cc" -std=c11) source=$here/consumer/consumer.c
    if [ $language = c++ ]; then compiler=("$cxx" -std=c++17) source=$here/consumer/consumer.cpp; fi
    for level in -O0 -O2; do
        "${compiler[@]}" -Wall -Wextra -Werror -masm=intel "$level" -I"$here/../include" -o "$place/intel" "$source" \
            "$build/libpatchpoint.a" -pthread 2>"$place/log" || fail "-masm=intel, $language"
        "$place/intel" || fail "-masm=intel, $language: the program"
    done
done
"$cc" -std=gnu11 -masm=intel -O2 -I"$here/../include" -o "$place/intel" "$here/names.c" "${library[@]}" -pthread 2>"$place/log" ||
    fail '-masm=intel, the library'
"$place/intel" || fail '-masm=intel, the library: the program'

# musl, shared and static: its headers may refuse sources, and it may lack functions. musl-gcc is gcc, whatever $cc is.
if [[ $cc == *clang* ]]; then
    :
elif command -v musl-gcc >/dev/null; then
    mkdir "$place/musl_library"
    (cd "$place/musl_library" && musl-gcc -std=gnu11 -Wall -Wextra -Werror -O2 -fPIE -I"$here/../include" -c "${library[@]}") \
        2>"$place/log" || fail 'musl, the library'
    for kind in -static -pie; do
        musl-gcc -std=gnu11 -Wall -Wextra -Werror -O2 -fPIE $kind -I"$here/../include" -o "$place/musl" "$here/conformance.c" \
            "$place"/musl_library/*.o -pthread 2>"$place/log" || fail "musl, $kind"
        "$place/musl" >"$place/log" 2>&1 || fail "musl, $kind: conformance"
    done
    musl-gcc -std=gnu11 -O2 -static -I"$here/../include" -o "$place/musl" "$here/torture.c" "$place"/musl_library/*.o -pthread \
        2>"$place/log" || fail 'musl, torture'
    PATCHPOINT_TORTURE_SECONDS=1 "$place/musl" >"$place/log" 2>&1 || fail 'musl: torture'
else
    echo 'SKIPPED: no musl-gcc here' >&2
fi

# As a part of another project: the library is built, and the project gets neither its tests nor its warnings.
mkdir "$place/project"
cp "$here/consumer/consumer.c" "$here/consumer/consumer.cpp" "$place/project"
cat >"$place/project/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.16)
project(outer LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 17)
if(FETCH)
	include(FetchContent)
	FetchContent_Declare(patchpoint SOURCE_DIR "$here/..")
	FetchContent_MakeAvailable(patchpoint)
else()
	add_subdirectory("$here/.." patchpoint)
endif()
enable_testing()
add_executable(outer_c consumer.c)
target_link_libraries(outer_c patchpoint::static)
add_executable(outer_cxx consumer.cpp)
target_link_libraries(outer_cxx patchpoint::patchpoint)
get_target_property(options outer_c COMPILE_OPTIONS)
if(options)
	message(FATAL_ERROR "options came along: \${options}")
endif()
CMAKE
# FetchContent does the same with each compiler, so it is tested with one.
ways=(OFF)
if [[ $cc != *clang* ]]; then ways+=(ON); fi
for fetch in "${ways[@]}"; do
    { cmake -G Ninja -S "$place/project" -B "$place/outer$fetch" -DFETCH="$fetch" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" &&
        cmake --build "$place/outer$fetch"; } >"$place/log" 2>&1 || fail "a part of another project, FetchContent $fetch"
    for program in outer_c outer_cxx; do
        "$place/outer$fetch/$program" || fail "a part of another project, FetchContent $fetch: $program"
    done
    tests=$(ctest --test-dir "$place/outer$fetch" -N | sed -n 's/^Total Tests: //p')
    [ "$tests" -eq 0 ] || fail "the other project has $tests tests of the library"
done

# lld, and GNU ld with -z start-stop-gc, drop a function that nobody calls with its sites; other linkers keep it, and it works.
cat >"$place/dead.c" <<'SOURCE'
#include <patchpoint.h>
PATCHPOINT_DECLARE_BRANCH(tracing);
PATCHPOINT_DEFINE_BRANCH(tracing, false);
long dead_function(long a);
long dead_function(long a) { return patchpoint_unlikely(tracing) ? a : -a; }
long live_function(long a);
long live_function(long a) { return patchpoint_unlikely(tracing) ? a : -a; }
int main(void) { return live_function(3) != -3 || patchpoint_set_branch(tracing, true) || live_function(3) != 3; }
SOURCE
for linker in 'bfd' 'bfd -Wl,-z,start-stop-gc' lld gold mold; do
    read -ra flags <<<"-fuse-ld=$linker"
    if ! "$cc" -O2 -ffunction-sections -I"$here/../include" "${flags[@]}" -Wl,--gc-sections -o "$place/dead" "$place/dead.c" \
        "$build/libpatchpoint.a" -pthread 2>"$place/log"; then
        echo "SKIPPED: $cc cannot link with $linker here: $(head -1 "$place/log")" >&2
        continue
    fi
    "$place/dead" || fail "--gc-sections with $linker: the program"
    dead=$(nm "$place/dead" | grep -c dead_function || true)
    case $linker in
    lld | *start-stop-gc) [ "$dead" -eq 0 ] || fail "--gc-sections with $linker: a dead function stayed" ;;
    esac
done
