#!/usr/bin/env bash
# patchpoint.hpp costs what the macros cost: the same functions are the same bytes, with the same records, in all three forms of
# cxx_code.cpp. It also compiles without a warning under the options of strict projects.
# Arguments: C++ compilers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for tool in objdump readelf; do
    command -v "$tool" >/dev/null || { echo "SKIPPED: no $tool here" >&2; exit 0; }
done
functions=(leaf loop read real choose nothing)
compared=0 compiled=0 failed=0


# form COMPILER NUMBER FLAGS...: writes the bytes of each function, and its relocations. The forms have other names for keys and thunks.
form() {
    local compiler=$1 number=$2 object=$place/$2.o
    shift 2
    "$compiler" -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Werror -ffunction-sections -DFORM="$number" "$@" -I"$here/../include" \
        -c -o "$object" "$here/cxx_code.cpp"
    # The first lines name the file.
    objdump -s "${functions[@]/#/--section=.text.}" "$object" | tail -n +3 >"$place/$number"
    readelf -W -r "$object" | awk '/^Relocation section/ { section = $3 }
        section ~ /text\.(leaf|loop|read|real|choose|nothing)/ && /R_X86/ { print section, $1, $3, $5, $6, $7 }' |
        sed -E 's/ patchpoint_key_/ /; s/ patchpoint_saved_/ thunk of /
            s/ _ZN10patchpoint6detail5thunkIL_?Z[0-9]+([a-z]+)EEEvv/ thunk of \1/' >>"$place/$number"
    # Counts the sections of records, without those of the thunks, which in C are in another file.
    readelf -W -S "$object" | awk '$0 ~ / patchpoint_sites / { n++ } $0 ~ / [.]text[.]_ZN10patchpoint6detail5thunk/ { n-- }
        END { print n, "sites" }' >>"$place/$number"
}

for compiler in "$@"; do
    command -v "$compiler" >/dev/null || { echo "SKIPPED: no $compiler here" >&2; continue; }
    for flags in -O1 -O2 -O3 -Os '-O2 -fPIC' '-O2 -fno-omit-frame-pointer' '-O2 -masm=intel' '-O2 -fcf-protection=full' '-O2 -std=c++20' \
        '-O2 -DPATCHPOINT_OPS'; do
        read -ra words <<<"$flags"
        for number in 0 1 2; do form "$compiler" "$number" "${words[@]}"; done
        for number in 1 2; do
            compared=$((compared + 1))
            if ! cmp -s "$place/0" "$place/$number"; then
                echo "$compiler $flags: form $number differs from the macros:"
                diff "$place/0" "$place/$number" | head -6
                failed=1
            fi
        done
    done
    # All of these warnings that the compiler knows, at once: none needs the absence of another.
    warnings=()
    for warning in -Wshadow -Wsign-conversion -Wcast-qual -Wundef -Wold-style-cast -Wmissing-declarations -Wnon-virtual-dtor \
        -Wuseless-cast; do
        if echo 'int main() { return 0; }' | "$compiler" -Werror "$warning" -x c++ -fsyntax-only - 2>/dev/null; then
            warnings+=("$warning")
        fi
    done
    for flags in '-O1 -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables' -Og '-O0 -fPIC' '-O1 -std=c++20' \
        '-O1 -DPATCHPOINT_PORTABLE'; do
        read -ra words <<<"$flags"
        for number in 1 2; do
            compiled=$((compiled + 1))
            "$compiler" -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Werror "${warnings[@]}" -DFORM="$number" "${words[@]}" \
                -I"$here/../include" -c -o "$place/object" "$here/cxx_code.cpp" 2>"$place/log" ||
                { echo "$compiler $flags, form $number:"; head -5 "$place/log"; failed=1; }
        done
    done
done
echo "C++: $compared objects compared with the macros', $compiled ways to compile"
exit $failed
