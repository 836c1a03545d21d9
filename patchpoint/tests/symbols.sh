#!/usr/bin/env bash
# The shared library exports what its version map names, and nothing else. The archive, which a program links as it is, has no
# name that could be the program's: all begin with patchpoint_, and names outside the API are hidden.
# The library's soname and the version of its symbols are that of its ABI.
# Arguments: the shared library, its map, the archive, the ABI's version.
set -euo pipefail
soname=$(readelf -d "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
if [ "$soname" != "libpatchpoint.so.$4" ]; then
    echo "the soname is $soname, the ABI $4"
    exit 1
fi
wanted=$(sed -n '/global:/,/local:/s/^\t\t\([a-z_0-9]*\);$/\1/p' "$2" | sort)
found=$(nm -D --defined-only "$1" | sed -n 's/.* [TDRB] \(patchpoint[a-z_0-9]*\)@.*/\1/p' | sort)
others=$(nm -D --defined-only "$1" | grep -v ' A ' | grep -v "@@PATCHPOINT_$4" || true)
if [ "$wanted" != "$found" ] || [ -n "$others" ]; then
    diff <(echo "$wanted") <(echo "$found") || true
    echo "exported without a version: $others"
    exit 1
fi
foreign=$(nm --defined-only --extern-only "$3" | sed -n 's/^[0-9a-f]* [A-Z] //p' | grep -v '^patchpoint_' || true)
if [ -n "$foreign" ]; then
    echo "names of the archive that may be a program's (src/private_names.h): $foreign"
    exit 1
fi
visible=$(readelf -Ws "$3" | awk '$5 == "GLOBAL" && $6 == "DEFAULT" && $7 != "UND" { print $8 }' | sort -u)
if [ "$visible" != "$wanted" ]; then
    echo "names of the archive that are visible and not the API's, or the other way round:"
    diff <(echo "$wanted") <(echo "$visible")
    exit 1
fi
