#!/usr/bin/env bash
# Instructions of each form per operation, counted one by one on opcost's emulated machine: exact, the same on any host.
# Arguments: patchpoint_bench, opcost, a kernel image to boot (docs/emulation.md), and --tiny for two forms only.
set -euo pipefail
bench=$1 opcost=$2 kernel=$3 tiny=${4:-}
passes=100000
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cp "$bench" "$place/bench"

# Two runs that execute nothing carry what is not the operations: starting, and patching.
variants=(--variant "patched=$place/bench --run 00 000000" --variant "compiled=$place/bench --run 00 000000 --as-compiled")
names=()
while IFS=$'\t' read -r number group name reads; do
    [ "$reads" -eq 1 ] || continue
    if [ "$tiny" = --tiny ] && [ "${number#0}" -gt 1 ]; then continue; fi
    variants+=(--variant "patched.$number=$place/bench --run $number $passes")
    names+=("patched.$number"$'\t'"$group"$'\t'"$name")
    case $name in patched*)
        variants+=(--variant "compiled.$number=$place/bench --run $number $passes --as-compiled")
        names+=("compiled.$number"$'\t'"$group"$'\t'"${name/#patched/as compiled}")
        ;;
    esac
done < <("$bench" --list)

"$opcost" compare --machine emulated --kernel "$kernel" --pairs 2 --warmup 0 --seed 1 --store "$place/store" -q \
    --export-csv "$place/runs.csv" "${variants[@]}" >"$place/log" 2>&1 || { cat "$place/log" >&2; exit 1; }

printf '%s\n' "${names[@]}" | awk -F '\t' -v passes="$passes" '
    FILENAME != "-" {
        split($0, field, ",")
        if (FNR == 1) {
            for (i in field) if (field[i] == "emulator instructions:u") column = i
            next
        }
        if (field[6] != "finished" || field[7] != 0) { print "failed: " $0; failed = 1 }
        if ((field[3] in count) && count[field[3]] != field[column]) { print "not the same twice: " field[3]; failed = 1 }
        count[field[3]] = field[column]
        next
    }
    FNR == 1 { print "user-mode instructions per operation, the loop around it included; counted, the same in every run" }
    $2 != group { group = $2; print group }
    {
        base = substr($1, 1, index($1, ".") - 1)
        printf "  %-44s %9.2f\n", $3, (count[$1] - count[base]) / passes
    }
    END { exit failed }' "$place/runs.csv" -
