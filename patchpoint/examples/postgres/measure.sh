#!/usr/bin/env bash
# The guard with keys of patchpoint and with plain variables: checks that both decide the same, and measures.
# Usage: measure.sh --check BUILD | --count OPCOST KERNEL BUILD | --time OPCOST PAIRS BUILD     BUILD: the folder of a built patchpoint
#   --check: also in a PostgreSQL server, if it is installed: changes parameters by SQL while pgbench runs
#   --count: instructions of one statement and of one row on opcost's emulated machine, exact; KERNEL as opcost takes it (debian:cloud)
#   --time: ratios of times on this host, interleaved by opcost: of the guard alone, and of pgbench with two servers
# CHANGES: how many changes --check makes in the server (1000 unless set).
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
plain=$build/guard_driver_plain sites=$build/guard_driver_sites
place=$(mktemp -d)
chmod 755 "$place"
servers=() load=''
end() {
    kill $load "${servers[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$place"
}
trap end EXIT
traced='trace_start=1 trace_run=1 trace_row=1 trace_end=1 kinds=1 histogram=1'
other='policy=1 weight=1 observer=1'

if [ "$mode" = --count ]; then
    # Differences leave out the start of the program, and the statement's share of its rows. In user-mode QEMU no site is patched.
    for settings in '' "$traced" "$other"; do
        variants=()
        for work in '1000 1' '101000 1' '1000 101'; do
            variants+=(--variant "plain ${work/ /x}=$plain $work $settings" --variant "sites ${work/ /x}=$sites $work $settings")
        done
        "$2" compare --machine emulated --kernel "$3" --pairs 2 --warmup 0 --seed 1 --store "$place/store" -q --export-csv "$place/runs.csv" \
            "${variants[@]}" >"$place/log" 2>&1 || { cat "$place/log" >&2; exit 1; }
        awk -F, -v of="${settings:-as at the start}" '
            FNR == 1 { for (i = 1; i <= NF; i++) if ($i == "emulator instructions:u") column = i; next }
            $6 != "finished" || $7 != 0 { print "failed: " $0; failed = 1 }
            { count[$3, ++runs[$3]] = $column }
            function statement(form, run) { return (count[form " 101000x1", run] - count[form " 1000x1", run]) / 100000 }
            function row(form, run) { return (count[form " 1000x101", run] - count[form " 1000x1", run]) / 100000 }
            END {
                for (variant in runs)
                    if (runs[variant] != 2) { print "not two runs of " variant; failed = 1 }
                printf "%s: a statement of one row: %.2f plain, %.2f with sites, %+.1f %%; each further row: %.2f plain, %.2f with sites, %+.1f %%\n", of,
                    statement("plain", 1), statement("sites", 1), 100 * (statement("sites", 1) / statement("plain", 1) - 1),
                    row("plain", 1), row("sites", 1), 100 * (row("sites", 1) / row("plain", 1) - 1)
                for (i = split("plain sites", forms, " "); i > 0; i--)
                    if (sprintf("%.2f %.2f", statement(forms[i], 1), row(forms[i], 1)) != sprintf("%.2f %.2f", statement(forms[i], 2), row(forms[i], 2))) {
                        print "not the same twice: " forms[i]
                        failed = 1
                    }
                exit failed
            }' "$place/runs.csv"
    done
    exit
fi

# The server refuses to run as root, so root becomes the package's user.
user=()
if [ "$(id -u)" -eq 0 ]; then user=(setpriv --reuid=postgres --regid=postgres --clear-groups env HOME="$place"); fi
programs=$(pg_config --bindir 2>/dev/null || true)

# serve FORM: starts a server with that form of the extension, its socket in $place/FORM.
serve() {
    local here=$place/$1
    mkdir "$here"
    cp "$build/guard_$1.so" "$here/guard.so"
    if [ "$(id -u)" -eq 0 ]; then chown postgres "$here"; fi
    "${user[@]}" "$programs/initdb" -D "$here/data" --no-sync -U owner -A trust -E UTF8 --locale=C >"$here/log" 2>&1 || { cat "$here/log" >&2; exit 1; }
    "${user[@]}" "$programs/postgres" -D "$here/data" -k "$here" -c listen_addresses= -c fsync=off -c autovacuum=off \
        -c "shared_preload_libraries=$here/guard.so" >"$here/log" 2>&1 &
    servers+=($!)
    for _ in $(seq 150); do
        if PGHOST=$here psql -U owner -d postgres -Atqc 'select 1' >/dev/null 2>&1; then return; fi
        kill -0 "${servers[-1]}" 2>/dev/null || break
        sleep 0.1
    done
    cat "$here/log" >&2
    exit 1
}

if [ "$mode" = --time ]; then
    "$2" compare --pairs "$3" --seed 1 --store "$place/store" -q --primary task-clock --variant "plain=$plain 3000000 10" \
        --variant "sites=$sites 3000000 10" 2>&1 | grep '^  task-clock '
    if [ ! -f "$build/guard_sites.so" ] || [ ! -x "$programs/postgres" ]; then
        echo "measure.sh: no PostgreSQL server, so pgbench was not run" >&2
        exit 0
    fi
    for form in plain sites; do
        serve $form
        pgbench -h "$place/$form" -U owner -i -q -s 1 postgres >/dev/null 2>&1
    done
    echo 'select aid, bid, abalance from pgbench_accounts where aid <= 10000' >"$place/rows.sql"
    for work in '-S -t 20000' "-f $place/rows.sql -t 200"; do
        echo "pgbench ${work/$place\//}"
        "$2" compare --pairs "$3" --seed 1 --store "$place/store" -q --primary wall \
            --variant "plain=pgbench -n -M prepared -c 1 -h $place/plain -U owner $work postgres" \
            --variant "sites=pgbench -n -M prepared -c 1 -h $place/sites -U owner $work postgres" 2>&1 | grep '^  wall '
    done
    exit
fi

for settings in '' "$traced" "$other" 'cost_max=500 trace_refused=1' 'cost_max=500 enabled=0' 'cost_max=500 dry_run=1' 'cost_max=500 policy=1' \
    'cost_max=500 policy=2' 'cost_max=500 weight=1' 'read_only=1 audit=1' 'rows_max=2 width_max=2 widths=1' 'sample=1 sample_mask=7 large=1 large_rows=3'; do
    read -ra words <<<"$settings"
    "$plain" 100000 5 "${words[@]}" >"$place/plain.out"
    "$sites" 100000 5 "${words[@]}" >"$place/sites.out"
    cmp "$place/plain.out" "$place/sites.out"
done
[ "$("$sites" 100000 5 cost_max=500 | cut -d' ' -f1)" -lt 100000 ]
[ "$("$sites" 100000 5 rows_max=2 | cut -d' ' -f2)" -eq 200000 ]
for word in limit=1 policy=3 trace_start; do
    if "$sites" 1 1 "$word" 2>/dev/null; then echo "the setting '$word' was taken"; exit 1; fi
done
echo "guard: both forms decide the same"

if [ ! -f "$build/guard_sites.so" ] || [ ! -x "$programs/postgres" ] || ! command -v pgbench >/dev/null; then
    echo "SKIPPED: no PostgreSQL 13 to 17 with its headers and pgbench (postgresql, postgresql-server-dev-all) here: the extension was not loaded" >&2
    exit 0
fi
serve sites
export PGHOST=$place/sites PGUSER=owner PGDATABASE=postgres
# ask ARGUMENT...: answers and errors of psql.
ask() { psql -Atq "$@" 2>&1 || true; }
# field NAME: a number of guard_status().
field() { ask -c 'select guard_status()' | sed -n "s/.*[ ,;]$1 \\([0-9]*\\).*/\\1/p"; }
ask -c "create function guard_status() returns text as '$place/sites/guard.so' language c"
ask -c 'set guard.trace_start = 7' | grep -q 'requires a Boolean value'
ask -c 'set guard.rows_max = -1' | grep -q 'outside the valid range'
ask -c "set guard.policy = 'never'" | grep -q 'Available values: each, saved, open'
ask -c "load '$build/guard_plain.so'" | grep -q 'must be loaded by shared_preload_libraries'
[ "$(ask -c 'set guard.rows_max = 3' -c 'select count(*) from generate_series(1, 10)')" = 10 ]
ask -c 'set guard.rows_max = 3' -c 'select generate_series(1, 10)' | grep -q 'the guard refuses row 4 of a statement'
ask -c 'set guard.cost_max = 5' -c 'select count(*) from generate_series(1, 10000)' | grep -q 'the guard refuses a statement of cost '
ask -c 'set guard.cost_max = 5' -c "set guard.policy = 'open'" -c 'select count(*) from generate_series(1, 10000)' | grep -qx 10000
# The end of a transaction takes back what it set.
[ "$(ask -c 'begin' -c 'set local guard.rows_max = 3' -c 'rollback' -c 'select generate_series(1, 10)' | wc -l)" = 10 ]
ask -c 'create table t (n int)' -c 'set guard.read_only = on' -c 'insert into t values (1)' | grep -q 'the guard refuses a statement'

# Every kind of key in turn, in all processes: the clients' sessions exist before, and execute sites all the time.
pgbench -i -q -s 1 postgres >/dev/null 2>&1
(while :; do pgbench -n -M prepared -S -c 4 -j 2 -T 600 postgres || exit; done) >"$place/pgbench.log" 2>&1 &
load=$!
sleep 1
changes=${CHANGES:-1000} before=$(field changes)
awk -v changes="$changes" 'BEGIN {
    of[0] = "trace_row = on"; of[1] = "rows_max = 70000"; of[2] = "policy = saved"; of[3] = "weight = thousands"; of[4] = "observer = count"
    of[5] = "trace_row = off"; of[6] = "rows_max = 100000"; of[7] = "policy = each"; of[8] = "weight = itself"; of[9] = "observer = nothing"
    for (i = 0; i < changes; i++) {
        # Each session changes its own code; each tenth change concerns every process.
        print "set guard." of[i % 10] ";\nselect count(*) from generate_series(1, 3);"
        if (i % 10 == 9) print "alter system set guard." of[int(i / 10) % 10] ";\nselect pg_reload_conf();"
    }
}' >"$place/changes.sql"
psql -Atq -v ON_ERROR_STOP=1 -f "$place/changes.sql" >"$place/answers" || { tail "$place/answers" "$place/sites/log" >&2; exit 1; }
[ "$(grep -cx 3 "$place/answers")" -eq "$changes" ]
# The clients' sessions follow: all of them are refused a second row, and none a first.
made=$(($(field changes) - before))
[ "$made" -ge "$changes" ] && [ "$(field refused)" -eq 0 ]
ask -c 'alter system set guard.cost_max = 0' -c 'select pg_reload_conf()' >/dev/null
for _ in $(seq 100); do
    if [ "$(grep -c 'the guard refuses a statement of cost' "$place/pgbench.log" || true)" -ge 4 ]; then break; fi
    sleep 0.1
done
[ "$(grep -c 'the guard refuses a statement of cost' "$place/pgbench.log")" -ge 4 ] || { tail "$place/pgbench.log"; exit 1; }
ask -c "set guard.enabled = off" -c 'alter system reset guard.cost_max' -c 'select pg_reload_conf()' >/dev/null
[ "$(field started)" -eq 0 ] && [ "$(field rows)" -gt 0 ] && [ "$(field observed)" -gt 0 ]
status=$(ask -c 'select guard_status()')
sites=$(sed -n 's/.*sites \([0-9]*\),.*/\1/p' <<<"$status")
[ "$sites" -ge 20 ]
if grep -Eq 'PANIC|terminated by signal|is not changed' "$place/sites/log"; then cat "$place/sites/log"; exit 1; fi
kill -0 "${servers[0]}"
echo "guard: $made changes in PostgreSQL's processes under pgbench; $status"
