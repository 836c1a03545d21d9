#!/usr/bin/env bash
# Programs outside the tree, in C and C++17, built against an installed prefix through pkg-config and through CMake.
# Arguments: the build folder, the C compiler, the C++ compiler.
set -euo pipefail
build=$1 cc=$2 cxx=$3
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/prefix" >/dev/null

# The prefix is not the configured one: the file finds its prefix from its own place.
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$place/prefix/lib/x86_64-linux-gnu/pkgconfig:$place/prefix/lib/pkgconfig:$place/prefix/lib64/pkgconfig
    flags=$(pkg-config --cflags --libs patchpoint)
    libdir=$(pkg-config --variable=libdir patchpoint)
    # shellcheck disable=SC2086 # flags are words
    "$cc" -std=c11 -Wall -Wextra -Werror -pedantic -O2 -o "$place/c" "$here/consumer/consumer.c" $flags
    # shellcheck disable=SC2086
    "$cxx" -std=c++17 -Wall -Wextra -Werror -pedantic -O2 -o "$place/cxx" "$here/consumer/consumer.cpp" $flags
    # shellcheck disable=SC2086
    "$cxx" -std=c++17 -Wall -Wextra -Werror -pedantic -O2 -o "$place/keys" "$here/consumer/consumer_keys.cpp" $flags
    LD_LIBRARY_PATH=$libdir "$place/c"
    LD_LIBRARY_PATH=$libdir "$place/keys"
    LD_LIBRARY_PATH=$libdir "$place/cxx"
    static=$(pkg-config --static --cflags --libs patchpoint)
    # shellcheck disable=SC2086
    "$cc" -std=c11 -Wall -Wextra -Werror -static -O2 -o "$place/c_static" "$here/consumer/consumer.c" $static 2>"$place/log" ||
        { cat "$place/log"; exit 1; }
    "$place/c_static"
else
    echo "SKIPPED: no pkg-config here" >&2
fi

cmake -S "$here/consumer" -B "$place/build" -DCMAKE_PREFIX_PATH="$place/prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
cmake --build "$place/build" >/dev/null
for program in consumer_c consumer_cxx consumer_keys consumer_static; do
    "$place/build/$program"
done
