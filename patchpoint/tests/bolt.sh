#!/usr/bin/env bash
# A program that BOLT rewrote: the library and the tool say so, and the program's results stay right. With the guide's list of
# functions BOLT leaves sites alone, and every site that runs is patched.
# Arguments: the build folder, the C compiler.
set -euo pipefail
build=$1 cc=$2
bolt=
for name in llvm-bolt llvm-bolt-{22,21,20,19,18,17,16,15,14}; do
    if command -v "$name" >/dev/null; then bolt=$name && break; fi
done
if [ -z "$bolt" ]; then
    echo 'SKIPPED: no llvm-bolt here' >&2
    exit 0
fi
cd "$(dirname "$0")"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

fail() {
    echo "bolt: $1"
    cat "$place"/*.said "$place/log" 2>/dev/null
    exit 1
}

link() {
    "$cc" -std=gnu11 -O2 -I"$PWD/../include" -o "$place/$1" bolt.c "$build/libpatchpoint.a" -pthread -Wl,-z,now "${@:2}"
}

# With the relocations BOLT moves functions. The sites are where they were, and what runs reads the keys.
link plain -Wl,-q
"$bolt" "$place/plain" -o "$place/moved" -reorder-blocks=ext-tsp -reorder-functions=hfsort >"$place/log" 2>&1 || fail "$bolt, with relocations"
"$place/plain" >"$place/plain.said" || fail 'the program'
"$place/moved" >"$place/moved.said" || fail 'the program with moved functions'
[ "$(head -2 "$place/plain.said")" = "$(head -2 "$place/moved.said")" ] || fail 'other results with moved functions'
grep -qx 'text: ' "$place/plain.said" || fail 'the program as it was linked'
grep -q '^text: .*moved: another tool (BOLT) moved its functions' "$place/moved.said" || fail 'the status says nothing of moved functions'
"$build/patchpoint-dump" "$place/moved" >/dev/null 2>"$place/dump.said" || fail 'patchpoint-dump'
grep -q 'another tool (BOLT) moved functions' "$place/dump.said" || fail 'patchpoint-dump says nothing of moved functions'
"$build/patchpoint-dump" "$place/plain" >/dev/null 2>"$place/dump.said" || fail 'patchpoint-dump'
[ ! -s "$place/dump.said" ] || fail 'patchpoint-dump warns of a program that BOLT has not seen'

# Without relocations it writes functions in their places, with shorter instructions: such a site is refused, by name. (It leaves
# out code to which only the tests of a branch jump, so there is no branch here: the program would end before a key changes.)
link whole -DWITHOUT_BRANCHES
"$bolt" "$place/whole" -o "$place/rewritten" -reorder-blocks=ext-tsp >"$place/log" 2>&1 || fail "$bolt, in place"
"$place/rewritten" >"$place/rewritten.said" || fail 'the program that was rewritten in place'
grep -q '^refused: ' "$place/rewritten.said" || fail 'no change was refused'
grep -qE "^text: the site of '(amount|operation)' at 0x[0-9a-f]+ holds [0-9a-f ]+$" "$place/rewritten.said" || fail 'the status does not name the site'

# The guide's function: everything else is moved or rewritten.
eval "$(sed -n '/^bolt_skip() {$/,/^}$/p' ../docs/patchpoint.md)"
export PATH=$build:$PATH
for level in -O1 -O2 -Os '-O2 -g -flto'; do
    for moves in yes no; do
        read -ra flags <<<"$level"
        options=(-reorder-blocks=ext-tsp -skip-funcs-file="$place/list")
        if [ $moves = yes ]; then flags+=('-Wl,-q') options+=(-reorder-functions=hfsort -split-functions); fi
        here="$level, functions are moved: $moves"
        link plain "${flags[@]}"
        bolt_skip "$place/plain" >"$place/list"
        "$bolt" "$place/plain" -o "$place/kept" "${options[@]}" >"$place/log" 2>&1 || fail "$bolt with a list, $here"
        ! cmp -s "$place/plain" "$place/kept" || fail "$bolt changed nothing, $here"
        "$place/plain" | grep -v '^text: ' >"$place/plain.said" || fail "the program, $here"
        "$place/kept" | grep -v '^text: ' >"$place/kept.said" || fail "the program with a list, $here"
        cmp "$place/plain.said" "$place/kept.said" || fail "other results or sites with a list, $here"
        grep -q 'in what runs$' "$place/kept.said" || fail "no site runs, $here"
        if grep -qE '^refused|elsewhere$' "$place/kept.said"; then fail "sites that are not what runs, $here"; fi
    done
done
echo "bolt: $bolt: moved functions and rewritten ones are reported; functions in the list keep their sites"
