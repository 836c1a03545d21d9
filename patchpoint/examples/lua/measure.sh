#!/usr/bin/env bash
# Lua 5.4 of Debian's sources, as it is and with lua5.4.patch: fetches, applies, builds, checks that both do the same, and measures.
# Usage: measure.sh --check | --count OPCOST KERNEL | --time OPCOST PAIRS, then the folder of a built patchpoint.
#   --count: instructions of user space on opcost's emulated machine, the same in every run; KERNEL as opcost takes it (debian:cloud)
#   --time: ratio of processor times on this host, interleaved by opcost
# LUA_SOURCE=FOLDER: unpacked source with Debian's patches, instead of fetching it. CC: the compiler. WORK=FOLDER: where to build.
set -euo pipefail
mode=${1:-}
case $mode in
--check) build=${2:?the folder of a built patchpoint is missing} ;;
--count | --time) opcost=${2:?opcost is missing} parameter=${3:?a kernel, or the number of pairs, is missing}
    build=${4:?the folder of a built patchpoint is missing} ;;
*)
    sed -n '3,6s/^# //p' "$0" >&2
    exit 2
    ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$build" && pwd)
place=${WORK:-}
if [ -z "$place" ]; then
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
fi
mkdir -p "$place"
cd "$place"

# Asks the machine's own Debian mirror for sources; nothing of the machine's configuration changes.
fetch() {
    mkdir -p lists/partial
    sed -n 's/^Types: deb$/Types: deb-src/; /./p; /^$/q' /etc/apt/sources.list.d/debian.sources >source.sources
    options=(-o Dir::Etc::sourcelist="$place/source.sources" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$place/lists"
        -o APT::Sandbox::User=root)
    timeout 90 apt-get "${options[@]}" update && timeout 60 apt-get "${options[@]}" source lua5.4
}
if [ -n "${LUA_SOURCE:-}" ]; then
    cp -r "$LUA_SOURCE" plain
elif [ ! -d plain ]; then
    if ! fetch >fetch.log 2>&1; then
        echo "SKIPPED: the source of lua5.4 cannot be fetched here: $(tail -1 fetch.log); give it with LUA_SOURCE=FOLDER" >&2
        exit 0
    fi
    mv lua5.4-*/ plain
fi
rm -rf sites
cp -r plain sites
patch -s -d sites -p1 <"$here/lua5.4.patch"

# Built as Debian does, but without the shared library, and with the same settings for both. A build for --check need not be fast.
optimised=(-O2 -g)
if [ "$mode" = --check ]; then optimised=(-O1); fi
echo '#define DEB_HOST_MULTIARCH "x86_64-linux-gnu"' >lua5.4-deb-multiarch.h
compile() {
    local name=$1 sources
    mapfile -t sources < <(find "$name/src" -name '*.c' ! -name luac.c | sort)
    "${CC:-gcc}" -std=gnu99 "${optimised[@]}" -DLUA_USE_LINUX -DLUA_COMPAT_5_3 -I. -I"$name/src" -I"$here/../../include" -o "lua_$name" \
        "${sources[@]}" "${@:2}" -lm -ldl -pthread -Wl,-E
}
compile plain
compile sites "$build/libpatchpoint.a"

# Checks that both do the same: hooks of every kind, stacks that move, an endless loop that SIGINT ends with a traceback.
for script in hooks stack; do
    for name in plain sites; do "./lua_$name" "$here/$script.lua" 2>&1 | sed 's/0x[0-9a-f]*/ADDRESS/' >"$name.$script"; done
    cmp "plain.$script" "sites.$script"
done
for name in plain sites; do
    "./lua_$name" -e 'io.write("ready\n") io.flush() while true do end' >"$name.ready" 2>"$name.interrupted" &
    lua=$!
    until grep -q ready "$name.ready"; do sleep 0.05; done
    kill -INT "$lua"
    wait "$lua" && { echo "lua_$name was not interrupted"; exit 1; }
    sed -i 's/^[^ ]*lua_[a-z]*: //' "$name.interrupted"
    grep -q 'interrupted!' "$name.interrupted"
done
cmp plain.interrupted sites.interrupted
sites=$("$build/patchpoint-dump" lua_sites | grep -c 'branch')
echo "lua5.4: both builds do the same; $sites sites of the key lua_hooks"
[ "$mode" = --check ] && exit 0

programs=(loop fib sieve bodies calls strings)
if [ "$mode" = --count ]; then
    # A run of size 1 measures the rest: starting, patching, compiling the script.
    sizes=(20000 100 200 300 20000 1000)
    variants=()
    for i in "${!programs[@]}"; do
        for name in plain sites; do
            for size in 1 "${sizes[i]}"; do
                variants+=(--variant "$name.${programs[i]}.$size=$place/lua_$name $here/bench.lua ${programs[i]} $size")
            done
        done
    done
    "$opcost" compare --machine emulated --kernel "$parameter" --pairs 2 --warmup 0 --seed 1 --store "$place/store" -q \
        --pack "$here/bench.lua" --export-csv "$place/runs.csv" "${variants[@]}" >"$place/log" 2>&1 || { cat "$place/log" >&2; exit 1; }
    awk -F, 'FNR == 1 { for (i = 1; i <= NF; i++) if ($i == "emulator instructions:u") column = i; next }
        $6 != "finished" || $7 != 0 { print "failed: " $0; failed = 1 }
        ($3 in count) && count[$3] != $column { print "not the same twice: " $3 ": " count[$3] " and " $column }
        { count[$3] = $column; split($3, part, "."); if (part[3] > 1) size[part[2]] = part[3] }
        END {
            for (program in size) {
                n = size[program]
                plain = count["plain." program "." n] - count["plain." program ".1"]
                sites = count["sites." program "." n] - count["sites." program ".1"]
                printf "%-8s %12.2f %12.2f  %+.2f %%\n", program, plain / (n - 1), sites / (n - 1), 100 * (sites / plain - 1)
            }
            exit failed
        }' "$place/runs.csv"
else
    sizes=(4000000 80000 10000 40000 3000000 100000)
    for i in "${!programs[@]}"; do
        echo "${programs[i]} ${sizes[i]}:"
        "$opcost" compare --pairs "$parameter" --seed 1 --store "$place/store" -q --primary task-clock \
            --variant "plain=$place/lua_plain $here/bench.lua ${programs[i]} ${sizes[i]}" \
            --variant "sites=$place/lua_sites $here/bench.lua ${programs[i]} ${sizes[i]}" 2>&1 | grep '^  task-clock '
    done
fi
