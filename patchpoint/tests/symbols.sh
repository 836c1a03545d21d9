#!/usr/bin/env bash
# The shared library exports what its version map names, and nothing else.
# Arguments: the library, the map.
set -euo pipefail
wanted=$(sed -n '/global:/,/local:/s/^\t\t\([a-z_0-9]*\);$/\1/p' "$2" | sort)
found=$(nm -D --defined-only "$1" | sed -n 's/.* [TDRB] \(patchpoint[a-z_0-9]*\)@.*/\1/p' | sort)
others=$(nm -D --defined-only "$1" | grep -v ' A ' | grep -v '@@PATCHPOINT_1' || true)
if [ "$wanted" != "$found" ] || [ -n "$others" ]; then
    diff <(echo "$wanted") <(echo "$found") || true
    echo "exported without a version: $others"
    exit 1
fi
