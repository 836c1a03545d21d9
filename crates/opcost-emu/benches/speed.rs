//! The cost of counting, compared with QEMU without a plugin and with callgrind.
//!
//! `cargo bench --bench speed` measures. `cargo test` and `--tiny` run the same code with sizes that take a moment. Every figure is
//! a ratio of CPU times (user and system) of runs that were taken in turn; no time is asserted. Only `cargo bench` boots machines:
//! with the kernels that OPCOST_TEST_KERNEL and OPCOST_TEST_KERNEL_ARM64 name.

#[path = "../tests/it/emulator/mod.rs"]
#[allow(dead_code, reason = "tests use more")]
mod emulator;
#[path = "../tests/it/guest/mod.rs"]
#[allow(dead_code, reason = "tests use more")]
mod guest;
#[path = "../../../patchpoint/tests/skip.rs"]
mod skip;

use emulator::{Emulator, Run, USER};
use guest::{Guest, MODEL_AARCH64};
use opcost_core_model::Core;
use opcost_record::Domain;
use opcost_record::emulation::Emulation;
use opcost_record::symbols::Symbols;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::spawn::{Spawn, Status, find_program};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// The plugin's argument that has it model the caches and predictors of the default core.
const MODEL: &str =
    concat!("model=", env!("CARGO_MANIFEST_DIR"), "/../opcost-core-model/cores/zen4.toml");

/// The longest that one run may take.
const LIMIT: Duration = Duration::from_secs(600);

/// One way to do the work, with its command line.
struct Way {
    name: &'static str,
    argv: Vec<String>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let full = has("--bench") && !has("--tiny");
    let (rounds, bytes) = if full { (5, 6_000_000) } else { (1, 20_000) };
    let folder = tempfile::tempdir().expect("a folder for inputs and reports");
    program(rounds, bytes, folder.path());
    core(rounds, bytes, folder.path());
    calls(rounds, if full { 200 } else { 1 });
    if full {
        guests(rounds, 40_000);
    }
}

/// Measures `gzip -9` of one file.
fn program(rounds: usize, bytes: usize, folder: &Path) {
    let input = folder.join("input");
    std::fs::write(&input, text(bytes)).expect("an input");
    let input = input.to_str().expect("a temporary path is text");
    let work = ["gzip", "-9", "-k", "-f", input];
    let Some(gzip) = path_of(work[0]) else {
        return skip("gzip is not installed");
    };
    let gzip = [&[gzip.as_str()], &work[1..]].concat();
    let counted =
        |name, more: &str| way(name, &["qemu-x86_64", "-plugin", &plugin(folder, more)], &gzip);
    let callgrind = |name, more: &[&str]| {
        let quiet = ["valgrind", "-q", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
        way(name, &[&quiet[..], more].concat(), &gzip)
    };
    println!("gzip -9 of {bytes} bytes, CPU time of {rounds} rounds in turn");
    let caches = ["--cache-sim=yes", "--branch-sim=yes"];
    compare(
        rounds,
        &[
            way("QEMU", &["qemu-x86_64"], &gzip),
            counted("QEMU, counting", ",window=whole"),
            counted("QEMU, counting and models", &format!(",window=whole,{MODEL}")),
            callgrind("callgrind", &[]),
            callgrind("callgrind, caches and branches", &caches),
            counted("QEMU, counting totals", ",window=whole,profile=off"),
        ],
        &[(3, 1), (4, 2), (1, 0), (2, 0), (5, 0)],
    );
}

/// Measures `gzip -6` of one file on a modelled core: nanoseconds of CPU time for each instruction of gzip.
fn core(rounds: usize, bytes: usize, folder: &Path) {
    let input = folder.join("input");
    let input = input.to_str().expect("a temporary path is text");
    let (Some(gzip), Some(_)) = (path_of("gzip"), path_of("qemu-x86_64")) else {
        return skip("gzip or qemu-x86_64 is not installed");
    };
    let gzip = [gzip.as_str(), "-6", "-k", "-f", input];
    let table = folder.join("core.toml");
    let text = Core::shipped_text("zen4").expect("the core ships");
    std::fs::write(&table, text).expect("the core's file");
    let modelled = format!(",window=whole,cycles={}", table.display());
    println!("gzip -6 of {bytes} bytes, CPU time of {rounds} rounds in turn");
    let slices = format!("{modelled},one-in=16");
    let ways = [",window=whole", &modelled, &slices].map(|more| plugin(folder, more));
    let mut each: Vec<[f64; 3]> = Vec::new();
    for _ in 0..rounds {
        each.push(ways.each_ref().map(|plugin| {
            let way = way("", &["qemu-x86_64", "-plugin", plugin], &gzip);
            let ns = cpu_ns(&way.argv).unwrap_or(f64::NAN);
            ns / instructions(&folder.join("report"))
        }));
    }
    let median = |of: &dyn Fn(&[f64; 3]) -> f64| {
        let mut all: Vec<f64> = each.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[rounds / 2]
    };
    let [counting, modelling, sliced] = [0, 1, 2].map(|way| median(&|ns| ns[way]));
    println!("  counting takes {counting:.1} ns an instruction, a modelled core {modelling:.1} ns");
    println!("  one slice in 16 takes {sliced:.1} ns");
    let [whole, part] = [1, 2].map(|way| median(&|ns| ns[way] / ns[0]));
    println!(
        "  a modelled core takes {whole:.2} × the time of counting, one slice in 16 {part:.2} ×"
    );
}

/// Returns the number of executed instructions in a report.
fn instructions(report: &Path) -> f64 {
    let bytes = std::fs::read(report).expect("the plugin writes a report");
    let report = Emulation::decode(&bytes).expect("the report is whole");
    let counted = report.runs[0][0].count("instructions", Domain::All);
    counted.expect("instructions are counted") as f64
}

/// A guest's work for the kernel: null calls, mappings, pipes and processes.
const GUEST: &str = r#"
static int ends[2];
static void ask(void) { call(SYS_getppid, 0, 0, 0); }
static void pages(void) {
    char *at = map(65536);
    for (int page = 0; page < 4; page++) at[page * 4096] = 1;
    call(SYS_munmap, at, 65536, 0);
}
static void pass(void) {
    char byte = 0;
    call(SYS_write, ends[1], &byte, 1);
    call(SYS_read, ends[0], &byte, 1);
}
static void child(void) {
    long child = FORK;
    if (!child) call(SYS_exit, 0, 0, 0);
    call(SYS_wait4, child, 0, 0);
}
void program(char **arguments) {
    PIPE(ends);
    START();
    for (int turn = 0; turn < TURNS; turn++) {
        for (int call = 0; call < 10; call++) ask();
        pages();
        pass();
        if (turn % 20 == 0) child();
    }
    STOP();
}
"#;

/// Measures guests of both architectures.
fn guests(rounds: usize, turns: usize) {
    let turns = format!("#define TURNS {turns}\n");
    if let Some(guest) = Guest::find() {
        let names =
            "#define FORK call(SYS_fork, 0, 0, 0)\n#define PIPE(ends) call(SYS_pipe, ends, 0, 0)\n";
        let work = guest.work(&[names, &turns, GUEST].concat(), &[]);
        measure("x86-64 guest", rounds, &|options| work.run(options));
    }
    if let Some(guest) = Guest::find_aarch64() {
        let names = "#define FORK fork()\n#define PIPE(ends) call(SYS_pipe2, ends, 0, 0)\n";
        let source = [names, &turns, GUEST].concat();
        let work = guest.work_aarch64(&source, MODEL_AARCH64, "");
        measure("arm64 guest", rounds, &|options| work.run(options));
    }
}

/// A program of many short functions: recursion, and comparisons by a pointer.
const PROGRAM: &str = r#"
static unsigned numbers[1 << 12];
static int less(unsigned a, unsigned b) { return a < b; }
static int more(unsigned a, unsigned b) { return a > b; }
static void swap(unsigned *a, unsigned *b) { unsigned c = *a; *a = *b; *b = c; }
static unsigned count(unsigned number) { return number < 2 ? number : count(number - 1) + count(number - 2); }
static void sort(unsigned *from, long length, int (*before)(unsigned, unsigned)) {
    if (length < 2) return;
    long kept = 0;
    for (long at = 1; at < length; at++)
        if (before(from[at], from[0])) swap(&from[++kept], &from[at]);
    swap(&from[0], &from[kept]);
    sort(from, kept, before);
    sort(from + kept + 1, length - kept - 1, before);
}
static unsigned work(void) {
    unsigned seed = 1, sum = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        for (int at = 0; at < 1 << 12; at++) numbers[at] = seed = seed * 1664525 + 1013904223;
        sort(numbers, 1 << 12, turn & 1 ? less : more);
        sum += numbers[7] + count(18);
    }
    return sum;
}
void _start(void) {
    __asm__ volatile("syscall" : : "a"(60), "D"(work() & 0));
    for (;;);
}
"#;

/// Measures a program without a kernel.
fn calls(rounds: usize, turns: usize) {
    let Some(emulator) = Emulator::find(USER) else { return };
    let source = format!("#define TURNS {turns}\n{PROGRAM}");
    let options = [
        "-O1",
        "-fno-inline",
        "-fno-optimize-sibling-calls",
        "-fno-pic",
        "-no-pie",
        "-Wl,-z,separate-code",
    ];
    let Some(program) = emulator.build("calls.c", &source, &options) else { return };
    let contents = std::fs::read(&program).expect("the program was built");
    let mut symbols = Symbols::default();
    guest::name(&mut symbols, &program, &contents, "program");
    let symbols = format!("symbols={}", emulator.file("symbols", &symbols.encode()));
    measure("program with many calls", rounds, &|options| match options {
        Some(options) => {
            emulator.run(&[&["window=whole", &symbols], options].concat(), &[&program])
        }
        None => emulator.run_plain(&[&program]),
    });
}

/// Measures work without the plugin, with functions, with totals, and with functions but without stubs, in mirrored order.
fn measure(name: &str, rounds: usize, work: &dyn Fn(Option<&[&str]>) -> Run) {
    const WAYS: [(&str, Option<&[&str]>); 4] = [
        ("plain", None),
        ("with functions", Some(&[])),
        ("totals only", Some(&["profile=off"])),
        ("with functions, without stubs", Some(&["stubs=off"])),
    ];
    let mut costs: Vec<[f64; WAYS.len()]> = Vec::new();
    for round in 0..rounds {
        let mut cost = [0.0; WAYS.len()];
        let mut order: Vec<usize> = (0..WAYS.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for way in order {
            let before = children_ticks();
            work(WAYS[way].1);
            cost[way] = children_ticks() - before;
        }
        costs.push(cost);
    }
    println!("{name}: speed relative to QEMU without the plugin, CPU time of {rounds} rounds");
    for way in 1..WAYS.len() {
        let mut found: Vec<f64> = costs.iter().map(|cost| cost[0] / cost[way]).collect();
        found.sort_by(f64::total_cmp);
        let (least, median, most) = (found[0], found[rounds / 2], found[rounds - 1]);
        println!("  {}: {median:.2} ({least:.2} to {most:.2})", WAYS[way].0);
    }
}

/// Returns the CPU time of all ended children, in clock ticks (proc(5), fields 16 and 17 of /proc/self/stat).
fn children_ticks() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("proc is mounted");
    let fields = stat.rsplit(") ").next().expect("fields follow the name").split(' ');
    fields.skip(13).take(2).map(|ticks| ticks.parse::<f64>().expect("a number")).sum()
}

fn way(name: &'static str, tool: &[&str], work: &[&str]) -> Way {
    Way { name, argv: [tool, work].concat().into_iter().map(str::to_owned).collect() }
}

/// Returns the `-plugin` argument: the plugin that cargo built beside this program, with its own arguments.
fn plugin(folder: &Path, more: &str) -> String {
    let own = std::env::current_exe().expect("a path of this program");
    let plugin = own.with_file_name("libopcost_emu.so");
    format!("{},out={}{more}", plugin.display(), folder.join("report").display())
}

/// Does the work in every way, in turn, and prints the median of each ratio in `ratios`.
///
/// A pair in `ratios` holds the places in `ways` of the numerator and the denominator.
fn compare(rounds: usize, ways: &[Way], ratios: &[(usize, usize)]) {
    let mut costs: Vec<Vec<f64>> = Vec::new();
    for _ in 0..rounds {
        costs.push(ways.iter().map(|way| cpu_ns(&way.argv).unwrap_or(f64::NAN)).collect());
    }
    for (above, below) in ratios {
        let mut found: Vec<f64> = costs.iter().map(|round| round[*above] / round[*below]).collect();
        found.sort_by(f64::total_cmp);
        let (above, below, ratio) = (ways[*above].name, ways[*below].name, found[rounds / 2]);
        match ratio.is_nan() {
            true => skip(&format!("{above} or {below} is not installed")),
            false => println!("  {above} takes {ratio:.2} × the time of {below}"),
        }
    }
}

fn path_of(program: &str) -> Option<String> {
    let here = std::env::current_dir().ok()?;
    let path = std::env::var_os("PATH");
    let found = find_program(OsStr::new(program), path.as_deref(), &here).ok()?;
    found.to_str().map(str::to_owned)
}

/// Returns the CPU time of one run, or `None` if the program is not installed.
fn cpu_ns(argv: &[String]) -> Option<f64> {
    let spawn = Spawn::new(path_of(&argv[0])?, argv.iter().map(OsString::from));
    let mut run = spawn.hold().ok()?.release().ok()?;
    let exit = run.wait(Some(LIMIT), &Interrupt::none()).ok()?;
    assert_eq!(exit.status, Status::Code(0), "{argv:?}");
    Some((exit.rusage.user_ns + exit.rusage.system_ns) as f64)
}

/// Returns words in an order that repeats as a text's words do, the same in every run.
fn text(bytes: usize) -> String {
    let words = "the of count and block to cost is that it when as kernel where stack with page";
    let words: Vec<&str> = words.split(' ').collect();
    let (mut text, mut seed) = (String::with_capacity(bytes + 16), 1u64);
    while text.len() < bytes {
        // Knuth's MMIX generator; its upper bits are the good ones.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = (seed >> 33) as usize;
        let _ = match draw % 8 {
            0 => writeln!(text, "{:x};", draw >> 3),
            _ => write!(text, "{} ", words[(draw >> 3) % words.len()]),
        };
    }
    text
}

fn skip(why: &str) {
    skip::skip!("{why}");
}
