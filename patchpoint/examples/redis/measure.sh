#!/usr/bin/env bash
# The limiter with keys of patchpoint and with plain variables: checks that both decide the same, and measures.
# Usage: measure.sh --check BUILD | --count OPCOST KERNEL BUILD | --time OPCOST PAIRS BUILD     BUILD: the folder of a built patchpoint
#   --check: also in redis-server, if it is installed: changes settings by commands while redis-benchmark runs
#   --count: instructions of one request on opcost's emulated machine, exact; KERNEL as opcost takes it (debian:cloud)
#   --time: ratio of processor times on this host, interleaved by opcost
# CHANGES: how many changes --check makes in redis-server (1000 unless set).
set -euo pipefail
usage() { sed -n '3,7s/^# //p' "$0" >&2; exit 2; }
mode=${1:-}
case $mode in
--check) [ $# -eq 2 ] || usage ;;
--count) [ $# -eq 4 ] || usage ;;
--time) [ $# -eq 4 ] || usage ;;
*) usage ;;
esac
build=$(cd "${*: -1}/examples" && pwd)
plain=$build/limiter_driver_plain sites=$build/limiter_driver_sites
place=$(mktemp -d)
server='' load=''
end() {
    kill $server $load 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$place"
}
trap end EXIT

if [ "$mode" = --count ]; then
    # Two numbers of requests: their difference leaves out the start. In user-mode QEMU, without a kernel, no site is patched.
    few=1000 many=101000
    for settings in '' 'trace_enter=on trace_found=on trace_filled=on trace_decided=on trace_taken=on trace_leave=on' 'policy=always price=blocks observe=count'; do
        variants=()
        for requests in $few $many; do
            variants+=(--variant "plain.$requests=$plain $requests $settings" --variant "sites.$requests=$sites $requests $settings")
        done
        "$2" compare --machine emulated --kernel "$3" --pairs 2 --warmup 0 --seed 1 --store "$place/store" -q --export-csv "$place/runs.csv" \
            "${variants[@]}" >"$place/log" 2>&1 || { cat "$place/log" >&2; exit 1; }
        awk -F, -v of="${settings:-as at the start}" -v few=$few -v many=$many '
            FNR == 1 { for (i = 1; i <= NF; i++) if ($i == "emulator instructions:u") column = i; next }
            $6 != "finished" || $7 != 0 { print "failed: " $0; failed = 1 }
            { count[$3, ++runs[$3]] = $column }
            # The start differs by a few instructions from run to run, the cost of a request does not.
            function each(form, run) { return (count[form "." many, run] - count[form "." few, run]) / (many - few) }
            END {
                for (form in runs)
                    if (runs[form] != 2) { print "not two runs of " form; failed = 1 }
                printf "%s: %.2f plain, %.2f with sites, %+.1f %%\n", of, each("plain", 1), each("sites", 1),
                    100 * (each("sites", 1) / each("plain", 1) - 1)
                for (i = split("plain sites", forms, " "); i > 0; i--)
                    if (sprintf("%.2f", each(forms[i], 1)) != sprintf("%.2f", each(forms[i], 2))) {
                        print "not the same twice: " forms[i] ": " each(forms[i], 1) " and " each(forms[i], 2)
                        failed = 1
                    }
                exit failed
            }' "$place/runs.csv"
    done
    exit
fi
if [ "$mode" = --time ]; then
    "$2" compare --pairs "$3" --seed 1 --store "$place/store" -q --primary task-clock --variant "plain=$plain 3000000" \
        --variant "sites=$sites 3000000" 2>&1 | grep '^  task-clock '
    exit
fi

for settings in '' 'policy=credit largest=3' 'policy=always price=blocks observe=count trace_taken=on' 'enabled=off refill=1 burst=5' 'maintenance=on' \
    'dry_run=on histogram=on sample=on audit=on'; do
    read -ra words <<<"$settings"
    "$plain" 100000 "${words[@]}" >"$place/plain"
    "$sites" 100000 "${words[@]}" >"$place/sites"
    cmp "$place/plain" "$place/sites"
done
for word in limit=1 policy=strict=1 refill=-1 refill=1x refill=99999999999999999999 audit=1; do
    if "$sites" 1 "$word" 2>/dev/null; then echo "the setting '$word' was taken"; exit 1; fi
done
echo "limiter: both forms decide the same"

if ! command -v redis-server >/dev/null || ! command -v redis-benchmark >/dev/null; then
    echo "SKIPPED: no redis-server or no redis-tools here: the module was not loaded" >&2
    exit 0
fi
cd "$place"
redis-server --port 0 --unixsocket "$place/socket" --save '' --dir "$place" --loadmodule "$build/limiter_sites.so" >log 2>&1 &
server=$!
ask() { redis-cli -s "$place/socket" "$@"; }
for _ in $(seq 100); do
    [ "$(ask ping 2>/dev/null)" = PONG ] && break
    kill -0 $server || { cat log; exit 1; }
    sleep 0.1
done
[ "$(ask limiter.take me 10)" = 999990 ]
ask limiter.set sites 1 | grep -q "^ERR no setting 'sites'"
ask limiter.set audit 1 | grep -q "^ERR 'audit' takes no such value"
ask limiter.set trace_taken off extra | grep -q '^ERR wrong number of arguments'
ask limiter.take me many | grep -q '^ERR the amount is not a number'
(while :; do redis-benchmark -s "$place/socket" -q -c 8 -n 2000 limiter.take user 1 || exit; done) >/dev/null 2>&1 &
load=$!
# Every kind of key in turn, through one connection.
changes=${CHANGES:-1000}
awk -v changes="$changes" 'BEGIN {
    of[0] = "trace_taken on"; of[1] = "largest 70000"; of[2] = "policy credit"; of[3] = "price blocks"; of[4] = "observe count"
    of[5] = "trace_taken off"; of[6] = "largest 100000"; of[7] = "policy strict"; of[8] = "price itself"; of[9] = "observe nothing"
    for (i = 0; i < changes; i++) print "limiter.set " of[i % 10]
}' | ask >answers
[ "$(grep -c '^OK$' answers)" -eq "$changes" ] || { sort answers | uniq -c; ask limiter.status; exit 1; }
ask limiter.set maintenance on >/dev/null
[ "$(ask limiter.take me 1)" = -1 ]
ask limiter.set maintenance off >/dev/null
ask limiter.set policy always >/dev/null
ask limiter.set largest 5 >/dev/null
[ "$(ask limiter.take me 10)" = -1 ]
ask limiter.set enabled off >/dev/null
[ "$(ask limiter.take me 10)" -ge 0 ]
blocked=$(cat /proc/$server/task/*/status | grep -c '^SigBlk:.*f$')
[ "$blocked" -ge 2 ]
ask limiter.status | tail -n 2 >status
sites=$(sed -n 's/.*sites \([0-9]*\),.*/\1/p' status)
[ "$sites" -ge 20 ] && grep -q ' refused 0, ' status && grep -Eq 'traced [1-9]' status && grep -Eq 'observed [1-9]' status
kill -0 $server
echo "limiter: $changes changes in redis-server under redis-benchmark, $blocked threads that block every signal; $(tr '\n' ';' <status)"
