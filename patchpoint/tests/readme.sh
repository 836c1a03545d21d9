#!/usr/bin/env bash
# The programs in C of the guide and of the README compile, run and end well. Arguments: the C compiler, the static library, patchpoint's folder.
set -euo pipefail
cc=$1 library=$2 root=$3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# block FILE: the first block of C in a document.
block() { awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$1"; }
# build NAME: without warnings, and runs it.
build() {
    "$cc" -std=gnu11 -O2 -Wall -Wextra -Werror -I"$root/include" -o "$place/$1" "$place/$1.c" "$library" -pthread
    "$place/$1"
}
for document in README.md docs/patchpoint.md; do
    block "$root/$document" >"$place/whole.c"
    grep -q 'int main' "$place/whole.c"
    build whole
done
