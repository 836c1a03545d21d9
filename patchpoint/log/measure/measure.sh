#!/usr/bin/env bash
# Measures the cost of disabled log statements for html5ever, whose tokeniser traces every character: with the macros of `log`,
# with those of patchpoint-log, and with the statements removed at compile time. Fetches html5ever from the registry.
# Usage: measure.sh --check | --count OPCOST KERNEL | --time OPCOST PAIRS
#   --count: instructions of user space on opcost's emulated machine, the same in every run; KERNEL as opcost takes it (debian:cloud)
#   --time: ratio of processor times on this host, interleaved by opcost
# WORK=FOLDER: where to build; it is kept then.
set -euo pipefail
mode=${1:-}
case $mode in
--check) ;;
--count | --time) opcost=${2:?opcost is missing} parameter=${3:?a kernel, or the number of pairs, is missing} ;;
*)
    sed -n '4,7s/^# //p' "$0" >&2
    exit 2
    ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
place=${WORK:-}
if [ -z "$place" ]; then
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
fi
mkdir -p "$place"
cd "$place"

# project NAME HTML5EVER LOG: makes one program, with its own dependencies.
project() {
    mkdir -p "$1/src"
    cp "$here/main.rs" "$1/src/main.rs"
    cat >"$1/Cargo.toml" <<CARGO
[package]
name = "parse"
version = "0.1.0"
edition = "2021"
[features]
sites = []
[dependencies]
html5ever = $2
$3
[profile.release]
codegen-units = 1
debug = "line-tables-only"
[workspace]
CARGO
}
project plain '"=0.27.0"' ''
project none '"=0.27.0"' 'log = { version = "0.4", features = ["max_level_off"] }'
if ! cargo vendor --quiet --manifest-path plain/Cargo.toml vendor >fetch.log 2>&1; then
    echo "SKIPPED: html5ever cannot be fetched here: $(tail -1 fetch.log)" >&2
    exit 0
fi
rm -rf html5ever
cp -r vendor/html5ever html5ever
# This is the whole change of the library: its macros come from patchpoint-log.
grep -rlE 'use log::' html5ever/src | xargs sed -i 's/use log::/use patchpoint_log::/'
printf '\n[dependencies.patchpoint-log]\npath = "%s"\n' "$here/.." >>html5ever/Cargo.toml
project sites '{ path = "../html5ever" }' "patchpoint-log = { path = \"$here/..\" }"

declare -A features=([sites]='--features sites')
programs=(plain sites none)
page=$place/vendor/html5ever/data/bench/medium-fragment.html
for name in "${programs[@]}"; do
    # shellcheck disable=SC2086 # two words or none
    RUSTFLAGS=-Awarnings CARGO_TARGET_DIR=$place/target/$name cargo build --quiet --release --manifest-path "$name/Cargo.toml" ${features[$name]:-}
    cp "target/$name/release/parse" "parse_$name"
    "./parse_$name" "$page" 3 >"$name.tokens"
    cmp plain.tokens "$name.tokens"
done
echo "html5ever: three builds find the same $(($(cat plain.tokens) / 3)) tokens in $(wc -c <"$page") bytes"
[ "$mode" = --check ] && exit 0

if [ "$mode" = --count ]; then
    # The difference between two numbers of passes excludes starting and patching.
    variants=()
    for name in "${programs[@]}"; do
        for passes in 10 20; do variants+=(--variant "$name.$passes=$place/parse_$name $page $passes"); done
    done
    "$opcost" compare --machine emulated --kernel "$parameter" --pairs 2 --warmup 0 --seed 1 --store "$place/store" -q \
        --pack "$page" --export-csv "$place/runs.csv" "${variants[@]}" >"$place/log" 2>&1 || { cat "$place/log" >&2; exit 1; }
    awk -F, -v bytes="$(wc -c <"$page")" '
        FNR == 1 { for (i = 1; i <= NF; i++) if ($i == "emulator instructions:u") column = i; next }
        $6 != "finished" || $7 != 0 { print "failed: " $0; failed = 1 }
        ($3 in count) && count[$3] != $column { print "not the same twice: " $3 ": " count[$3] " and " $column }
        { count[$3] = $column }
        END {
            plain = count["plain.20"] - count["plain.10"]
            split("plain sites none", names, " ")
            for (i = 1; i <= 3; i++) {
                passes = count[names[i] ".20"] - count[names[i] ".10"]
                printf "%-6s %10.2f instructions a byte  %+.2f %%\n", names[i], passes / 10 / bytes, 100 * (passes / plain - 1)
            }
            exit failed
        }' "$place/runs.csv"
else
    for name in sites none; do
        echo "$name against plain:"
        "$opcost" compare --pairs "$parameter" --seed 1 --store "$place/store" -q --primary task-clock \
            --variant "plain=$place/parse_plain $page 1500" --variant "$name=$place/parse_$name $page 1500" 2>&1 |
            grep '^  task-clock '
    done
fi
