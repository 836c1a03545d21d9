#!/usr/bin/env bash
# The programs in C of the guide and of both README files compile, run and end well. Arguments: the C compiler, the static library, the project's root.
set -euo pipefail
cc=$1 library=$2 root=$3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# block FILE: the first block of C in a document.
block() { awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$1"; }
# build NAME: without warnings, and runs it.
build() {
    "$cc" -std=gnu11 -O2 -Wall -Wextra -Werror -I"$root/patchpoint/include" -o "$place/$1" "$place/$1.c" "$library" -pthread
    "$place/$1"
}
for document in patchpoint/README.md docs/patchpoint.md; do
    block "$root/$document" >"$place/whole.c"
    grep -q 'int main' "$place/whole.c"
    build whole
done

# The other one is a part of a program: what stands behind "…" belongs into a function.
block "$root/README.md" >"$place/part"
grep -q patchpoint_set_branch "$place/part"
{
    printf '#include <patchpoint.h>\nlong work(long n);\nstatic long traced(long n) { return -n; }\n'
    sed 's/^\/\* … \*\/$/int main(void) { int error = work(3) != 6;/' "$place/part"
    echo 'return error || work(3) != -3; }'
} >"$place/part.c"
build part
