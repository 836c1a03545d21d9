//! A sample of every format: each is recognised, read, and read without harm after any damage.

use super::*;
use opcost_sys::budget::LIMIT_BYTES;
use std::collections::BTreeSet;

/// The format, a file of `tests/data`, its total, and the function of the greatest own cost with that cost: the figures of the
/// tool that wrote the file, or of Python's `pstats`, `json` and `re` on it.
const SAMPLES: &[(&str, &str, u64, &str, u64)] = &[
    ("gperftools", "gperftools.prof", 230_000_000, "[deleted]", 230_000_000),
    ("gperftools heap", "gperftools.heap", 12_750_000, "[deleted]", 12_750_000),
    ("cProfile", "work.pstats", 12_171_645, "fib", 11_192_583),
    ("pprof", "go-old.pb.gz", 160_000_000, "runtime.memmove", 70_000_000),
    ("Firefox raw", "firefox-raw.json", 3, "[deleted]", 2),
    ("Firefox Profiler", "samply.json.gz", 77, "[text]", 55),
    ("speedscope", "py-spy.speedscope.json", 760_000_000, "spin", 500_000_000),
    ("V8 CPU profile", "node.cpuprofile", 141_207_000, "(garbage collector)", 61_259_000),
    ("V8 heap profile", "node.heapprofile", 1_557_408, "row", 1_111_976),
    ("stackprof", "stackprof.json", 64_000_000, "Enumerable#inject", 22_000_000),
    ("Chrome trace", "node.trace.json.gz", 354_757_000, "(program)", 101_926_000),
    ("Instruments", "instruments.xml", 5_000_000, "[text]", 3_000_000),
    ("callgrind.out", "callgrind/callgrind.out.77", 42_015, "spin", 42_015),
    ("callgrind.out", "callgrind/callgrind.out.77-01", 21_005, "spin", 21_005),
    ("callgrind.out", "callgrind/callgrind.out.78", 42_015, "spin", 42_015),
    ("callgrind.out", "callgrind/callgrind.plain", 12_017, "hash", 11_683),
    ("callgrind.out", "cachegrind.out", 12_020, "hash", 11_683),
    ("jfr print", "java.jfr.txt", 12, "Work.scan(int)", 6),
    ("bpftrace", "bpftrace.txt", 11, "__x64_sys_pread64", 3),
    ("pmcstat", "pmcstat.txt", 12, "copy", 9),
    ("DTrace", "dtrace.txt", 22, "copyout", 12),
    ("deep copy", "deep-copy.txt", 20_000_000, "scan(int*)", 16_000_000),
    ("text of perf script", "plain.script", 38_500_000, "leaf", 7_500_000),
    ("folded stacks", "py-spy.folded", 181, "total.<locals>.<genexpr> (work.py:4)", 124),
    ("folded stacks", "py-spy.folded.xz", 181, "total.<locals>.<genexpr> (work.py:4)", 124),
    ("folded stacks", "py-spy.folded.zst", 181, "total.<locals>.<genexpr> (work.py:4)", 124),
];

fn data(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).join(name)
}

/// Names functions without a file of this computer.
fn nameless(file: &CodeFile, addresses: FileAddresses<'_>, _: Option<SystemTime>) -> LookedUp {
    let name = |at: &u64| {
        vec![opcost_record::Function::new(
            format!("f{at:x}"),
            &*String::from_utf8_lossy(&file.path),
        )]
    };
    LookedUp { stacks: addresses.places().iter().map(name).collect(), why: None, unchecked: true }
}

fn sources() -> Sources {
    Sources {
        kernel: crate::symbolise::KernelSource::Nothing,
        debug_files: "/nonexistent".into(),
        build_id_cache: None,
        inlined: false,
        limit_bytes: LIMIT_BYTES,
    }
}

#[test]
fn every_format_has_a_sample_that_is_read_as_its_tool_reads_it() {
    let names: BTreeSet<&str> = SAMPLES.iter().map(|(name, ..)| *name).collect();
    let formats: BTreeSet<&str> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(names, formats, "each format has a row with a sample");
    for (name, file, total, symbol, own) in SAMPLES {
        let path = data(file);
        let bytes = unpack::unpacked(std::fs::read(&path).unwrap(), &Budget::default()).unwrap();
        if !bytes.is_empty() {
            let contents = Contents::of(&bytes, &Budget::default()).map(|contents| {
                FORMATS.iter().find(|format| (format.detect)(&contents)).map(|found| found.name)
            });
            assert_eq!(contents, Ok(Some(*name)), "{file}");
        }
        let table = read(&path, &Wanted::default(), &sources()).unwrap().table;
        let first = &table.functions[0];
        assert_eq!(table.total, *total, "{file}");
        assert_eq!((first.function.symbol.as_str(), first.own), (*symbol, *own), "{file}");
    }
}

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

#[test]
fn no_damage_to_a_sample_ends_the_program_or_breaks_the_sums() {
    let budget = Budget::default();
    let mut numbers = Numbers(7);
    for (_, file, ..) in SAMPLES {
        let whole = unpack::unpacked(std::fs::read(data(file)).unwrap(), &budget).unwrap();
        let pieces: [&[u8]; 8] =
            [b"\0", b"\xff\xff\xff\xff", b"[", b"{", b"\"", b"\n", b"18446744073709551616", b"-1"];
        for change in 0..25 {
            let mut bytes = whole.clone();
            for _ in 0..=change % 3 {
                let at = numbers.below(bytes.len());
                match change % 5 {
                    0 => bytes.truncate(at),
                    1 => bytes
                        .iter_mut()
                        .skip(at)
                        .take(1)
                        .for_each(|byte| *byte ^= 1 << (change % 8)),
                    2 => {
                        let piece = pieces[numbers.below(pieces.len())];
                        bytes.splice(at..at, piece.iter().copied());
                    }
                    3 => {
                        let end = (at + numbers.below(40)).min(bytes.len());
                        bytes.drain(at..end);
                    }
                    _ => {
                        let end = (at + numbers.below(80)).min(bytes.len());
                        let copy = bytes[at..end].to_vec();
                        bytes.splice(at..at, copy);
                    }
                }
            }
            for format in FORMATS {
                let Ok(profile) = format.read(&bytes, &Wanted::default(), &nameless, &budget)
                else {
                    continue;
                };
                let own: u64 = profile.table.functions.iter().map(|cost| cost.own).sum();
                assert_eq!(
                    own + profile.table.unattributed,
                    profile.table.total,
                    "{}",
                    format.name
                );
                assert!(profile.about.events.contains(&profile.about.event), "{}", format.name);
            }
        }
    }
}

#[test]
fn text_of_windows_shells_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let text = "main;füße 7\n";
    let units =
        |bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
    let marked = |mark: &[u8], bytes: Vec<u8>| [mark.to_vec(), bytes].concat();
    for bytes in [
        marked(b"\xff\xfe", units(u16::to_le_bytes)),
        marked(b"\xfe\xff", units(u16::to_be_bytes)),
        marked(b"\xef\xbb\xbf", text.into()),
        text.replace('\n', "\r\n").into(),
    ] {
        let path = folder.path().join("stacks");
        std::fs::write(&path, bytes).unwrap();
        let table = read(&path, &Wanted::default(), &sources()).unwrap().table;
        assert_eq!((table.functions[0].function.symbol.as_str(), table.total), ("füße", 7));
    }
    // A name that is no UTF-8 keeps its other letters.
    let path = folder.path().join("latin");
    std::fs::write(&path, b"main;f\xfc\xdfe 7\n").unwrap();
    let table = read(&path, &Wanted::default(), &sources()).unwrap().table;
    assert_eq!(table.functions[0].function.symbol, "f\u{fffd}\u{fffd}e");
}

#[test]
fn parts_of_another_run_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = |pid: u32, cost: u32| {
        format!(
            "# callgrind format\nversion: 1\npid: {pid}\ncmd: ./a\nevents: Ir\nfn=(1) main\n1 {cost}\n"
        )
    };
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    write("out.7", &text(7, 1));
    write("out.7.1", &text(7, 10));
    write("out.7.2-03", &text(7, 100));
    write("out.7-1", &text(7, 1000));
    write("out.7.3", &text(8, 10_000));
    write("out.7.old", &text(7, 100_000));
    write("out.71", &text(7, 1_000_000));
    let of = |name: &str| read(&path(name), &Wanted::default(), &sources());
    let read_all = of("out.7").unwrap();
    assert_eq!((read_all.table.total, read_all.about.files), (1111, 4));
    assert_eq!(of("out.7.1").unwrap().table.total, 10);
    write("out.7-1", &text(7, 1000).replace("1 1000", "rubbish"));
    let error = of("out.7").unwrap_err().to_string();
    assert!(error.contains("in its part out.7-1: line 7 is none of callgrind's"), "{error}");
    write("empty", "");
    assert!(of("empty").unwrap_err().to_string().contains("is empty"));
    write("empty.1", &text(7, 5));
    assert_eq!(of("empty").unwrap().table.total, 5);
}
