//! The cost of counting, compared with QEMU without a plugin and with callgrind.
//!
//! `cargo bench --bench speed` measures. `cargo test` and `--tiny` run the same code with sizes that take a moment. Every figure is
//! a ratio of CPU times (user and system) of runs that were taken in turn; no time is asserted. Only `cargo bench` boots a machine:
//! with the kernel that OPCOST_TEST_KERNEL names and, if set, the symbols that OPCOST_TEST_SYMBOLS names. The kernel has no
//! initramfs and runs until it panics for the lack of one.

#[path = "../../../patchpoint/tests/skip.rs"]
mod skip;

use opcost_core_model::Core;
use opcost_record::Domain;
use opcost_record::emulation::Emulation;
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
    if full {
        machine(rounds, folder.path());
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

/// Measures the boot of a kernel.
fn machine(rounds: usize, folder: &Path) {
    let Some(kernel) = std::env::var("OPCOST_TEST_KERNEL").ok().filter(|path| !path.is_empty())
    else {
        return skip("OPCOST_TEST_KERNEL names no kernel image to boot");
    };
    let mut symbols = String::new();
    if let Ok(path) = std::env::var("OPCOST_TEST_SYMBOLS") {
        let _ = write!(symbols, ",symbols={path}");
    }
    let append = "quiet panic=-1 nokaslr nolapic_timer no_timer_check norandmaps";
    let boot: Vec<&str> = "-accel tcg,thread=single -icount shift=0,sleep=off -rtc \
                           base=2020-01-01T00:00:00,clock=vm -nodefaults -no-reboot -display none \
                           -cpu max -m 512 -seed 1"
        .split_whitespace()
        .chain(["-kernel", &kernel, "-append", append])
        .collect();
    // No program marks a region, so the report is an error; the work is the same.
    let counted = |name, more: &str| {
        let plugin = plugin(folder, &format!("{symbols}{more}"));
        way(name, &["qemu-system-x86_64", "-plugin", &plugin], &boot)
    };
    println!("boot of a kernel, CPU time of {rounds} rounds in turn");
    compare(
        rounds,
        &[
            way("QEMU", &["qemu-system-x86_64"], &boot),
            counted("QEMU, counting", ",window=whole"),
            counted("QEMU, counting and models", &format!(",window=whole,{MODEL}")),
            counted("QEMU, counting between markers", ",window=markers"),
            counted("QEMU, counting totals between markers", ",window=markers,profile=off"),
        ],
        &[(0, 1), (0, 2), (0, 3), (0, 4)],
    );
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
