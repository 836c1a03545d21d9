//! Formats that people give and that are not read, each with what to give instead.

/// Returns what contents are, and the remedy.
pub(super) fn find(bytes: &[u8], text: &str) -> Option<(&'static str, &'static str)> {
    let lines = || text.lines().take(400);
    let starts = |prefix: &str| text.starts_with(prefix);
    let has = |part: &str| lines().any(|line| line.contains(part));
    let begins = |words: &str| lines().any(|line| line.trim_start().starts_with(words));
    // Version 1 has another magic, and each computer its own order of bytes.
    let perf_1 = bytes.starts_with(b"PERFFILE") || bytes.starts_with(b"ELIFFREP");
    Some(match () {
        () if perf_1 => (
            "a perf.data file of version 1, which perf wrote until 2011",
            "give the text of 'perf script', printed where it was recorded, or record it again",
        ),
        () if bytes.starts_with(b"FLR\0") => (
            "a Java flight recording",
            "give the text of 'jfr print --events jdk.ExecutionSample --stack-depth 64 FILE'",
        ),
        () if bytes.starts_with(b"gmon") => (
            "a profile of gprof",
            "record the program with 'perf record -g' or 'valgrind --tool=callgrind'",
        ),
        () if has("Samples | Source code & Disassembly") || has("Source code & Disassembly of") => {
            (
                "text of 'perf annotate', which has shares and no costs",
                "give the perf.data file itself, or the text of 'perf script'",
            )
        }
        () if has("# Overhead ") || has("# Samples: ") || has("# Children  ") => (
            "text of 'perf report', which has shares and no costs",
            "give the perf.data file itself, or the text of 'perf script'",
        ),
        () if has("Showing nodes accounting for") || (starts("Total: ") && has(" samples")) => (
            "a table that pprof printed, without calls",
            "give the profile itself, as pprof got it",
        ),
        () if starts("# started on ") || has("Performance counter stats for") => (
            "text of 'perf stat', which has no functions",
            "compare such results with 'opcost import'",
        ),
        () if has("v8-version,") && has("shared-library,") => {
            ("a log of 'node --prof'", "record with 'node --cpu-prof'")
        }
        () if bytes.starts_with(b"SIMPLEPERF")
            || bytes.starts_with(b"SLOW\xf3\0")
            || starts("*version\n") =>
        {
            (
                "a recording of Android",
                "record with simpleperf, and give what its report_sample.py prints",
            )
        }
        () if bytes.starts_with(b"Nettrace") => (
            "a trace of .NET",
            "give what 'dotnet-trace convert --format Speedscope FILE' makes of it",
        ),
        () if bytes.starts_with(b"PK\x03\x04") => {
            ("a ZIP archive", "unpack it; give of Instruments what 'xctrace export' writes")
        }
        () if starts("{\"version\":") && text.contains("\"instrumentTypes\"") => {
            ("a recording of Safari", "open it with speedscope, and give the JSON that it exports")
        }
        () if has("\"rts_arguments\"") => {
            ("a profile of GHC", "open it with speedscope, and give the JSON that it exports")
        }
        () if has("\"profileJSONWithSymbolicationTable") => {
            ("a profile of an old Firefox", "open it with profiler.firefox.com, and save it there")
        }
        () if has("\"dhatFileVersion\"") => {
            ("a profile of DHAT", "count calls with 'valgrind --tool=callgrind'")
        }
        () if LEGACY.iter().any(|head| text.trim_start().starts_with(head)) => (
            "an old text of pprof",
            "give what 'go tool pprof -proto -output=FILE.pb.gz FILE' makes of it",
        ),
        () => match CONVERTED.iter().find(|(mark, ..)| begins(mark)) {
            Some((_, what, cure)) => (*what, *cure),
            None => return drawing(bytes, text),
        },
    })
}

/// The first words of texts that pprof reads beside its own format.
const LEGACY: [&str; 6] = [
    "--- heapz ",
    "--- contentionz ",
    "--- contention:",
    "--- threadz ",
    "goroutine profile: total",
    "threadcreate profile: total",
];

/// Texts for which there are converters: words in one, what it is, and the remedy.
const CONVERTED: [(&str, &str, &str); 8] = [
    (
        "Time and Allocation Profiling Report",
        "a profile of GHC",
        "give what inferno-collapse-ghcprof makes of it",
    ),
    (
        "Analysis of sampling ",
        "text of macOS's sample",
        "give what inferno-collapse-sample makes of it",
    ),
    ("Function Stack,CPU Time", "a table of VTune", "give what inferno-collapse-vtune makes of it"),
    (
        "Level,Function Name,Number of Calls",
        "a table of Visual Studio",
        "give what inferno-collapse-vsprof makes of it",
    ),
    ("Full thread dump ", "stacks of jstack", "give what stackcollapse-jstack.pl makes of them"),
    ("TID ", "stacks of eu-stack", "give what stackcollapse-elfutils.pl makes of them"),
    ("Thread 1 (", "stacks of gdb", "give what stackcollapse-gdb.pl makes of them"),
    ("MOJ\x03", "a profile of Austin in its own form", "give what mojo2austin makes of it"),
];

fn drawing(bytes: &[u8], text: &str) -> Option<(&'static str, &'static str)> {
    let has = |part: &str| text.lines().take(400).any(|line| line.contains(part));
    Some(match () {
        () if has("<svg") => ("a drawing", "give the file that it was drawn from"),
        // Ruby's Marshal, a dictionary.
        () if bytes.starts_with(b"\x04\x08{") && text.contains("missed_samples") => {
            ("a stackprof profile as Ruby stores it", "give what 'stackprof --json FILE' prints")
        }
        () => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_named_with_its_remedy() {
        let of =
            |text: &str| find(text.as_bytes(), text).map(|(what, cure)| format!("{what}; {cure}"));
        let named = [
            ("PERFFILE\0", "version 1", "perf script"),
            ("ELIFFREP\0", "version 1", "perf script"),
            ("FLR\0\0", "flight recording", "jfr print"),
            ("gmon\x01", "gprof", "perf record"),
            ("\x04\x08{\x0d:\x13missed_samplesi\0", "stackprof", "stackprof --json"),
            (
                " Percent |      Source code & Disassembly of busy for cpu-clock\n",
                "perf annotate",
                "perf.data",
            ),
            (
                "# To display\n# Total Lost Samples: 0\n# Samples: 77  of event 'cpu-clock'\n",
                "perf report",
                "perf script",
            ),
            ("# Overhead  Command  Shared Object\n", "perf report", "perf script"),
            (
                "Total: 23 samples\n      23 100.0% 100.0%       23 100.0% hash\n",
                "pprof printed",
                "itself",
            ),
            (
                "Type: cpu\nShowing nodes accounting for 160ms, 100% of 160ms total\n",
                "pprof printed",
                "itself",
            ),
            ("\n Performance counter stats for 'true':\n", "perf stat", "opcost import"),
            (
                "v8-version,11,3\nshared-library,/usr/bin/node,0x4,0x5\n",
                "node --prof",
                "--cpu-prof",
            ),
            ("SIMPLEPERF\0", "Android", "report_sample.py"),
            ("Nettrace\x14", ".NET", "--format Speedscope"),
            ("PK\x03\x04", "ZIP", "xctrace export"),
            ("{\"version\":1,\"recording\":{\"instrumentTypes\":[]}}", "Safari", "speedscope"),
            ("{\n\"rts_arguments\": []}", "GHC", "speedscope"),
            ("{\n\"format\": \"profileJSONWithSymbolicationTable,1\"}", "Firefox", "save it"),
            ("{\n\"dhatFileVersion\": 2}", "DHAT", "callgrind"),
            ("--- contention:\ncycles/second = 9\n", "pprof", "go tool pprof -proto"),
            ("\tTime and Allocation Profiling Report  (Final)\n", "GHC", "ghcprof"),
            ("PID 7 - process\nTID 7:\n#0  0x1 read\n", "eu-stack", "elfutils"),
            ("<?xml version=\"1.0\"?>\n<svg width=\"9\">", "a drawing", "drawn from"),
        ];
        for (text, what, cure) in named {
            let found = of(text).unwrap_or_default();
            assert!(found.contains(what) && found.contains(cure), "{text}: {found}");
        }
        assert_eq!(of("A page of prose.\n"), None);
    }
}
