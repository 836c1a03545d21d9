//! Flags of hyperfine, perf stat and benchstat that opcost lacks, and what does the same here.

/// Flags of one meaning, and the sentence that answers them. `hyperfine's` or `perf's` tells two meanings of a letter apart.
const FLAGS: &[(&[&str], &str)] = &[
    // hyperfine 1.20
    (
        &["-M", "--max-runs"],
        "give -n N with --budget TIME or --until-width WIDTH; perf's metrics are events: -e",
    ),
    (&["-r", "--repeat"], "give -n N, the runs of each variant"),
    (&["-s"], "give --setup CMD"),
    (
        &["--reference"],
        "the first command is the baseline; --pairs-of-variants all compares every two",
    ),
    (&["--reference-name", "--command-name"], "give --variant NAME=COMMAND"),
    (
        &["-p"],
        "give --prepare CMD; to watch a process, opcost profile --pid PID or opcost attach PID",
    ),
    (&["-c"], "give --cleanup CMD"),
    (&["-C"], "give --conclude CMD, or --cpu N for perf's CPU"),
    (&["-S"], "give --shell=SHELL, or --prepare sync for perf's sync"),
    (&["-N"], "leave it out: no shell runs the commands unless --shell is given"),
    (&["--style", "--color"], "give --no-color; a bar is shown on a terminal only"),
    (
        &["-u", "--time-unit"],
        "leave it out: each row has the unit that fits it; --export-csv and --json are in ns and s",
    ),
    (
        &["--export-asciidoc", "--export-orgmode"],
        "give --export-markdown FILE, which pandoc converts",
    ),
    (&["--min-benchmarking-time"], "give --budget TIME"),
    (&["--debug-mode"], "give --dry-run, which prints the plan"),
    // perf stat 6.x
    (&["-a", "--all-cpus"], "run opcost top, or opcost profile --all"),
    (
        &[
            "-A",
            "--no-aggr",
            "--per-core",
            "--per-cluster",
            "--per-cache",
            "--per-die",
            "--per-socket",
            "--per-node",
            "--percore-show-thread",
        ],
        "give --cpu N for one CPU; opcost counts the work on all CPUs together",
    ),
    (&["-B", "--big-num"], "leave it out: numbers are always grouped"),
    (
        &[
            "-b",
            "--bpf-prog",
            "--bpf-counters",
            "--bpf-attr-map",
            "-G",
            "--cgroup",
            "--for-each-cgroup",
            "--filter",
        ],
        "leave it out: opcost counts the processes of a run and no others",
    ),
    (
        &["-d", "--detailed"],
        "give -e EVENTS (opcost list events); caches and predictors of a model: --machine emulated --model",
    ),
    (&["--delay"], "mark what is to be counted: --regions"),
    (&["-g", "--group"], "give -e '{A,B}'"),
    (
        &["-I", "--interval-print", "--interval-count", "--interval-clear", "--summary"],
        "run opcost top, which shows what runs now; a run has one figure",
    ),
    (&["--no-inherit"], "leave it out: opcost counts a command with all its children"),
    (&["--json-output"], "give --json"),
    (
        &[
            "--metrics",
            "--metric-only",
            "--metric-no-group",
            "--metric-no-merge",
            "--metric-no-threshold",
        ],
        "give -e EVENTS; ratios such as instructions per cycle: --format percent",
    ),
    (
        &["--null"],
        "leave it out: wall time is always measured, and opcost doctor says what counters cost",
    ),
    (&["-o"], "give --export-csv FILE, --export-json FILE or --export-markdown FILE"),
    (
        &["--append"],
        "leave it out: every recording is kept (opcost list recordings, opcost history)",
    ),
    (&["--log-fd"], "redirect standard output; --json prints JSON"),
    (
        &["--pid", "-t", "--tid", "--per-thread"],
        "run opcost profile --pid PID, or opcost attach PID",
    ),
    (&["--sync"], "give --prepare sync"),
    (
        &["-T", "--transaction"],
        "give -e tx-start,tx-abort,cycles-t where opcost list events has them",
    ),
    (&["-v"], "give --verbose"),
    (&["-x", "--field-separator", "--no-csv-summary"], "give --export-csv FILE"),
    (&["--all-kernel"], "give events with :k, for example -e instructions:k"),
    (&["--all-user"], "give events with :u, for example -e instructions:u"),
    (&["--control"], "mark what is to be counted: --regions"),
    (&["--cputype", "--hybrid-merge", "--no-merge"], "name the PMU: -e cpu_core/cycles/"),
    (&["--iostat", "--smi-cost"], "give the events themselves: -e EVENTS (opcost list events)"),
    (&["--post"], "give --conclude CMD"),
    (&["--pre"], "give --prepare CMD"),
    (
        &["--scale", "--no-scale"],
        "leave it out: a multiplexed counter is reported and never scaled",
    ),
    (
        &["--topdown", "--td-level", "--record-tpebs"],
        "give --machine emulated --cycles, which says what a modelled core's cycles were spent on",
    ),
    // benchstat, of 2023 and before
    (
        &["-alpha", "--alpha", "-confidence", "--confidence"],
        "leave it out: one error rate of 0.05 holds for a whole report",
    ),
    (
        &["-col", "--col", "-row", "--row", "-ignore", "--ignore", "-split", "--split"],
        "name the sides: opcost import FILE FILE --baseline NAME; each benchmark has rows of its own",
    ),
    (&["--table", "-table"], "give --export-csv FILE, which has a row for each run"),
    (
        &["-filter"],
        "give -e EVENTS and --primary METRIC for the metrics; opcost import takes whole files",
    ),
    (&["-format"], "give --format FORMAT"),
    (&["-csv", "--csv"], "give --export-csv FILE"),
    (&["-html"], "give --export-html FILE"),
    (&["-sort"], "give --sort ORDER"),
    (
        &["-geomean", "--geomean"],
        "leave it out: opcost judges each benchmark by itself, since a mean hides which one changed",
    ),
    (&["-norange", "--norange"], "leave it out: a change without its interval cannot be judged"),
    (&["-delta-test", "--delta-test"], "leave it out: opcost tests every metric by itself"),
];

/// The name of a flag as given: without its value.
pub(crate) fn name(word: &str) -> &str {
    word.split(['=', ' ']).next().unwrap_or_default()
}

/// The sentence for a flag of another tool.
pub(crate) fn answer(flag: &str) -> Option<&'static str> {
    FLAGS.iter().find(|(flags, _)| flags.contains(&flag)).map(|(_, answer)| *answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cli, cure};
    use clap::Command;
    use std::collections::BTreeSet;

    /// `hyperfine --help` of 1.20, with its hidden flags.
    const HYPERFINE: &str = "-w --warmup -m --min-runs -M --max-runs -r --runs -s --setup --reference --reference-name -p --prepare \
        -C --conclude -c --cleanup -P --parameter-scan -D --parameter-step-size -L --parameter-list -S --shell -N -i --ignore-failure \
        --style --sort -u --time-unit --export-asciidoc --export-csv --export-json --export-markdown --export-orgmode --show-output \
        --output --input -n --command-name --color --min-benchmarking-time --debug-mode -h --help -V --version";

    /// `perf stat -h` of 6.1 and 6.12.
    const PERF_STAT: &str = "-a --all-cpus -A --no-aggr -B --big-num -b --bpf-prog --bpf-counters --bpf-attr-map -C --cpu -D --delay -d \
        --detailed -e --event -G --cgroup -g --group -I --interval-print -i --no-inherit -j --json-output -M --metrics -n --null -o \
        --output -p --pid -r --repeat -S --sync -t --tid -T --transaction -v --verbose -x --field-separator --all-kernel --all-user \
        --append --control --cputype --filter --for-each-cgroup --hybrid-merge --interval-clear --interval-count --iostat --log-fd \
        --metric-no-group --metric-no-merge --metric-no-threshold --metric-only --no-csv-summary --no-merge --per-cache --per-cluster \
        --per-core --per-die --per-node --per-socket --per-thread --percore-show-thread --post --pre --quiet --record-tpebs --scale \
        --no-scale --smi-cost --summary --table --td-level --timeout --topdown";

    /// `benchstat -h` of 2023, and of the version before it.
    const BENCHSTAT: &str = "-alpha -col -confidence -filter -format -ignore -row -table -csv -delta-test -geomean -html -norange -sort \
        -split";

    /// Flags that opcost has for something else, and where that is said.
    const OTHERWISE: [(&str, &str); 8] = [
        ("-w", "of hyperfine warm-up runs; the answer to a workload that is a number"),
        ("-n", "of hyperfine a name, of perf no counters; the answer to runs that are no number"),
        ("-D", "of perf a delay; it requires --parameter-scan"),
        ("-i", "of perf no children; docs/hyperfine.md"),
        ("-j", "of perf JSON; it takes a number"),
        ("--output", "of perf a file for the figures; docs/hyperfine.md"),
        ("--cpu", "of perf the CPUs that are watched; opcost runs the work there"),
        ("--timeout", "of perf it ends the work and prints; opcost calls the run failed"),
    ];

    fn flags_of(command: &Command) -> BTreeSet<String> {
        let mut flags = BTreeSet::new();
        for arg in command.get_arguments() {
            flags.extend(
                arg.get_long_and_visible_aliases()
                    .into_iter()
                    .flatten()
                    .map(|long| format!("--{long}")),
            );
            flags.extend(
                arg.get_short_and_visible_aliases()
                    .into_iter()
                    .flatten()
                    .map(|short| format!("-{short}")),
            );
        }
        flags
    }

    fn declared() -> BTreeSet<String> {
        let mut command = cli::command();
        command.build();
        command.get_subcommands().flat_map(flags_of).collect()
    }

    #[test]
    fn every_flag_of_the_three_tools_is_taken_or_answered() {
        let mut command = cli::command();
        command.build();
        let compare = command.find_subcommand("compare").unwrap();
        let taken = flags_of(compare);
        for flag in
            [HYPERFINE, PERF_STAT, BENCHSTAT].iter().flat_map(|flags| flags.split_whitespace())
        {
            if taken.contains(flag) {
                continue;
            }
            for given in [
                vec![flag.to_string()],
                vec![flag.to_string(), "7".into()],
                vec![format!("{flag}=7")],
            ] {
                let mut words = vec!["opcost", "compare"];
                words.extend(given.iter().map(String::as_str));
                words.extend(["sleep 1", "sleep 2"]);
                let error = cli::command().try_get_matches_from(&words).expect_err(flag);
                let said = cure::of_arguments(&error, &words)
                    .unwrap_or_else(|| panic!("nothing for {words:?}: {error}"));
                assert!(said.contains(&format!("no {flag};")), "{words:?}: {said}");
            }
        }
    }

    #[test]
    fn answers_name_flags_that_exist_and_no_flag_twice() {
        let declared = declared();
        let mut seen = BTreeSet::new();
        let known: BTreeSet<&str> = [HYPERFINE, PERF_STAT, BENCHSTAT]
            .iter()
            .flat_map(|flags| flags.split_whitespace())
            .collect();
        for (flags, answer) in FLAGS {
            for flag in *flags {
                assert!(seen.insert(*flag), "{flag} has two answers");
                let with_one_dash = flag.replacen("--", "-", 1);
                assert!(
                    known.contains(flag) || known.contains(with_one_dash.as_str()),
                    "no tool has {flag}"
                );
            }
            let words = answer.split([' ', ',', ';', '(', ')', '=']);
            for word in words.filter(|word| word.starts_with('-')) {
                assert!(declared.contains(word.trim_end_matches(':')), "'{answer}' names {word}");
            }
        }
        for (flag, why) in OTHERWISE {
            assert!(declared.contains(flag) && answer(flag).is_none(), "{flag}: {why}");
        }
    }
}
