//! opcost's own cost: for a run of a command, beside perf stat and hyperfine; for showing a large recording, for comparing the
//! sizes of large programs, and for sampling.
//!
//! `cargo bench --bench harness` measures; run by `cargo test`, or with `--tiny`, the same code goes
//! through sizes that take a moment; with `--sampling` or `--workers` that part alone is done. Nothing is asserted
//! about times.

use object::write::{Object, StandardSection, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SymbolFlags, SymbolKind, SymbolScope};
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::resolve::resolve;
use opcost_model::experiment::{Command, Experiment, Seed, Variant};
use opcost_model::plan::Plan;
use opcost_model::recording::{MachineState, State};
use opcost_record::{Domain, METRICS, MetricKey, MetricRow, Outcome, Reading, Record, Report};
use opcost_source::sampling::{CallGraph, Recorder, SamplingPlan, process_clock};
use opcost_stats::Random;
use opcost_stats::summary::median;
use opcost_store::store::Store;
use opcost_sys::affinity::allowed_cpus;
use opcost_sys::clock::monotonic_ns;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::perf::SamplingTarget;
use opcost_sys::spawn::{Exit, Held, Running, Spawn, Status, find_program};
use std::ffi::{OsStr, OsString};
use std::path::Path;

const OPCOST: &str = env!("CARGO_BIN_EXE_opcost");

struct Sizes {
    /// Times that each tool is started.
    rounds: usize,
    /// Runs of `true` that each tool makes each time; even.
    runs: usize,
    /// Runs of the large recording.
    recorded: u32,
    /// Size of each of two programs that are compared, bytes.
    program_bytes: usize,
    /// Runs with and without sampling, and what each of them counts to.
    sampled: (usize, u64),
    /// Processes that record at the same time, one number after the other, and the runs of each process; even.
    workers: (&'static [usize], usize),
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let sizes = if has("--bench") && !has("--tiny") {
        Sizes {
            rounds: 11,
            runs: 200,
            recorded: 100_000,
            program_bytes: 50_000_000,
            sampled: (60, 400_000),
            workers: (&[1, 4, 16, 64], 40),
        }
    } else {
        Sizes {
            rounds: 2,
            runs: 4,
            recorded: 400,
            program_bytes: 100_000,
            sampled: (2, 1000),
            workers: (&[1, 4], 4),
        }
    };
    if has("--sampling") {
        return sampling_cost(&sizes);
    }
    let dir = tempfile::tempdir().expect("a folder for stores");
    if has("--workers") {
        return workers(&sizes, dir.path());
    }
    cost_per_run(&sizes, dir.path());
    show_large(&sizes, dir.path(), sizes.recorded, 15);
    show_large(&sizes, dir.path(), sizes.recorded / 10, 40);
    size_large(&sizes, dir.path());
    sampling_cost(&sizes);
    workers(&sizes, dir.path());
}

/// Runs a second that many processes record together: in one store, and each in a store of its own.
fn workers(sizes: &Sizes, dir: &Path) {
    let (counts, runs) = sizes.workers;
    println!("processes that record at the same time, {runs} runs of `true` each");
    for &count in counts {
        let mut rates = Vec::new();
        for is_shared in [true, false] {
            let folder = dir.join(format!("workers-{count}-{is_shared}"));
            std::fs::create_dir(&folder).expect("a folder for stores");
            let stores: Vec<String> = (0..count)
                .map(|worker| if is_shared { 0 } else { worker })
                .map(|number| folder.join(format!("{number}.sqlite")).display().to_string())
                .collect();
            let begun_ns = monotonic_ns();
            let running: Vec<Running> = stores.iter().map(|store| recorder(runs, store)).collect();
            let ended = running.into_iter().map(|mut running| {
                let exit = running.wait(None, &Interrupt::none()).expect("an end");
                exit.status == Status::Code(0)
            });
            let failed = ended.filter(|is_well| !is_well).count();
            let seconds = (monotonic_ns() - begun_ns) as f64 / 1e9;
            rates.push((count * runs) as f64 / seconds);
            assert_eq!(failed, 0, "recorders that could not write");
        }
        println!(
            "  {count:>3} processes: {:.0} runs a second in one store, {:.0} in own stores",
            rates[0], rates[1]
        );
    }
}

/// Starts an opcost that records `true`.
fn recorder(runs: usize, store: &str) -> Running {
    let pairs = (runs / 2).to_string();
    let argv =
        ["compare", "true", "/bin/true", "-n", &pairs, "--warmup", "0", "-q", "--store", store];
    let spawn = Spawn::new(OPCOST, [OPCOST].iter().chain(&argv).map(OsString::from));
    spawn.hold().and_then(Held::release).expect("opcost starts")
}

/// Runs a tool to its end.
fn execute(argv: &[&str]) -> Option<Exit> {
    let here = std::env::current_dir().ok()?;
    let path = std::env::var_os("PATH");
    let program = find_program(OsStr::new(argv[0]), path.as_deref(), &here).ok()?;
    let spawn = Spawn::new(program, argv.iter().map(OsString::from));
    let exit = spawn.hold().ok()?.release().ok()?.wait(None, &Interrupt::none()).ok()?;
    assert_eq!(exit.status, Status::Code(0), "{argv:?}");
    Some(exit)
}

/// Elapsed and CPU time of one run of `true` under each tool, the tools in turn.
fn cost_per_run(sizes: &Sizes, dir: &Path) {
    let store = dir.join("harness.sqlite");
    let (runs, pairs) = (sizes.runs.to_string(), (sizes.runs / 2).to_string());
    let store = store.to_str().expect("a temporary path is text");
    let tools: [(&str, Vec<&str>); 3] = [
        (
            "opcost",
            vec![
                OPCOST,
                "compare",
                "true",
                "/bin/true",
                "-n",
                &pairs,
                "--warmup",
                "0",
                "-q",
                "--store",
                store,
            ],
        ),
        ("perf stat", vec!["perf", "stat", "-r", &runs, "true"]),
        ("hyperfine", vec!["hyperfine", "-N", "--warmup", "0", "--runs", &runs, "true"]),
    ];
    println!(
        "cost of one run of `true`, {} runs each time, {} times in turn",
        sizes.runs, sizes.rounds
    );
    let mut costs: Vec<Vec<(f64, f64)>> = vec![Vec::new(); tools.len()];
    for _ in 0..sizes.rounds {
        for (tool, (_, argv)) in tools.iter().enumerate() {
            if let Some(exit) = execute(argv) {
                let per_run = |ns: u64| ns as f64 / sizes.runs as f64 / 1000.0;
                let cpu_ns = exit.rusage.user_ns + exit.rusage.system_ns;
                costs[tool].push((per_run(exit.ended_ns - exit.started_ns), per_run(cpu_ns)));
            }
        }
    }
    let of = |pairs: &[(f64, f64)], pick: fn(&(f64, f64)) -> f64| {
        median(&pairs.iter().map(pick).collect::<Vec<_>>())
    };
    for (tool, (name, _)) in tools.iter().enumerate() {
        let (Some(wall), Some(cpu)) = (of(&costs[tool], |c| c.0), of(&costs[tool], |c| c.1)) else {
            println!("  {name:<10} not installed here");
            continue;
        };
        let ratios: Vec<f64> =
            costs[0].iter().zip(&costs[tool]).map(|(ours, theirs)| ours.0 / theirs.0).collect();
        let ratio = median(&ratios).unwrap_or(f64::NAN);
        println!(
            "  {name:<10} {wall:7.0} µs elapsed {cpu:7.0} µs CPU   opcost takes {ratio:.2} × this"
        );
    }
}

/// Time and memory to show a recording of many runs.
fn show_large(sizes: &Sizes, dir: &Path, runs: u32, metrics: usize) {
    let store = dir.join(format!("{metrics}.sqlite"));
    record_many(&store, runs, metrics);
    let store = store.to_str().expect("a temporary path is text");
    let exits: Vec<Exit> = (0..sizes.rounds)
        .filter_map(|_| execute(&[OPCOST, "show", "last", "--store", store]))
        .collect();
    let wall_ms: Vec<f64> =
        exits.iter().map(|exit| (exit.ended_ns - exit.started_ns) as f64 / 1e6).collect();
    let rss_bytes_max = exits.iter().map(|exit| exit.rusage.rss_bytes_max).max().unwrap_or(0);
    println!(
        "opcost show of {runs} runs × {metrics} metrics: {:.0} ms (median of {}), {:.0} MB at most",
        median(&wall_ms).unwrap_or(f64::NAN),
        wall_ms.len(),
        rss_bytes_max as f64 / 1e6
    );
}

/// Time and memory to compare the sizes of two large programs, beside listing the symbols of both.
fn size_large(sizes: &Sizes, dir: &Path) {
    // The copied bytes beside the symbols are only read, like a kernel's data.
    let paths = ["one", "two"].map(|name| dir.join(name));
    for (variant, path) in (0u64..).zip(&paths) {
        std::fs::write(path, program(sizes.program_bytes, variant)).expect("a program");
    }
    let [one, two] = paths.each_ref().map(|path| path.to_str().expect("a temporary path is text"));
    let tools: [(&str, Vec<&str>); 2] =
        [("opcost size", vec![OPCOST, "size", one, two]), ("nm -S", vec!["nm", "-S", one, two])];
    println!("sizes of two programs of {:.0} MB with symbols", sizes.program_bytes as f64 / 1e6);
    for (name, argv) in &tools {
        let exits: Vec<Exit> = (0..sizes.rounds).filter_map(|_| execute(argv)).collect();
        let wall_ms: Vec<f64> =
            exits.iter().map(|exit| (exit.ended_ns - exit.started_ns) as f64 / 1e6).collect();
        match (median(&wall_ms), exits.iter().map(|exit| exit.rusage.rss_bytes_max).max()) {
            (Some(wall_ms), Some(rss)) => {
                println!("  {name:<12} {wall_ms:7.0} ms, {:.0} MB at most", rss as f64 / 1e6);
            }
            _ => println!("  {name:<12} not installed here"),
        }
    }
}

/// Measures what sampling at 1000 Hz costs a program: ratios of neighbouring runs with and without sampling, in mirrored order.
fn sampling_cost(sizes: &Sizes) {
    let (runs, count) = sizes.sampled;
    let script = format!("i=0; while [ $i -lt {count} ]; do i=$((i+1)); done");
    let plan = SamplingPlan::new(Some(1000), Some(CallGraph::Fp), None).expect("a plan");
    let run = |sampled: bool| -> Option<(f64, f64)> {
        let argv = ["sh", "-c", &script].map(OsString::from);
        let held = Spawn::new("/bin/sh", argv).hold().ok()?;
        let collecting = if sampled {
            let target = SamplingTarget::Threads(vec![held.pid()]);
            let cpus = allowed_cpus().ok()?;
            let recorder = Recorder::open(&plan, &process_clock(), &target, true, &cpus).ok()?;
            let intake = recorder.intake();
            Some(recorder.collect(intake, false).ok()?)
        } else {
            None
        };
        let exit = held.release().ok()?.wait(None, &Interrupt::none()).ok()?;
        if let Some(collecting) = collecting {
            collecting.stop().ok()?;
        }
        let cpu_ns = exit.rusage.user_ns + exit.rusage.system_ns;
        Some((cpu_ns as f64, (exit.ended_ns - exit.started_ns) as f64))
    };
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    for pair in 0..runs {
        let first = run(pair % 2 == 0);
        let (Some(one), Some(two)) = (first, run(pair % 2 == 1)) else {
            println!("sampling: not allowed here");
            return;
        };
        let (with, without) = if pair % 2 == 0 { (one, two) } else { (two, one) };
        cpu.push(with.0 / without.0);
        wall.push(with.1 / without.1);
    }
    let cost = |ratios: &[f64]| (median(ratios).unwrap_or(f64::NAN) - 1.0) * 100.0;
    println!(
        "sampling at 1000 Hz costs a shell's loop {:+.2} % of its CPU time, {:+.2} % elapsed \
         (medians of {runs} pairs)",
        cost(&cpu),
        cost(&wall)
    );
}

/// An object file of about `bytes` bytes, a tenth of them symbols, as in a kernel; `variant`
/// changes the size of every hundredth function.
fn program(bytes: usize, variant: u64) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let text = object.section_id(StandardSection::Text);
    object.append_section_data(text, &vec![0x90; bytes / 10 * 9], 16);
    // A symbol takes 24 bytes and its name.
    let count = (bytes / 10 / 44) as u64;
    let slot = (bytes as u64 / 10 * 9) / count.max(1);
    for number in 0..count {
        let shorter = if number % 100 == 0 { variant } else { 0 };
        object.add_symbol(Symbol {
            name: format!("function_number_{number}").into_bytes(),
            value: number * slot,
            size: slot - shorter,
            kind: SymbolKind::Text,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(text),
            flags: SymbolFlags::None,
        });
    }
    object.write().expect("an object file")
}

/// The metrics that a workload on a machine with counters gives, then the others of the table.
fn keys(metrics: usize) -> Vec<MetricKey> {
    let usual = [
        "task-clock",
        "page-faults",
        "context-switches",
        "cycles",
        "instructions",
        "branches",
        "user-time",
        "system-time",
        "minor-faults",
        "voluntary-switches",
        "peak-rss",
        "wall",
        "tsc",
        "steal",
        "machine-busy",
    ];
    let others = METRICS.iter().map(|row| row.name).filter(|name| !usual.contains(name));
    let rows = usual.into_iter().chain(others).filter_map(MetricRow::find).take(metrics);
    rows.map(|row| MetricKey::new(row.name, Domain::All, row.source)).collect()
}

fn record_many(store: &Path, runs: u32, metrics: usize) {
    let command =
        |line: &str| Variant { command: Some(Command::Line(line.into())), ..Variant::default() };
    let experiment = Experiment {
        pairs: Some(runs / 2),
        warmup: Some(0),
        seed: Some(Seed::Number(1)),
        variants: vec![command("true"), command("/bin/true")],
        ..Experiment::default()
    };
    let plan: Plan = resolve(&experiment, &HostSurroundings).expect("a plan");
    let store = Store::open_for_writing(store).expect("a store");
    let mut writer = store.begin(&plan, &MachineState::default(), 1).expect("a recording");
    let (keys, mut random) = (keys(metrics), Random::new(1));
    for slot in plan.slots() {
        let readings = keys
            .iter()
            .map(|key| Reading::plain(key.clone(), 1_000_000 + random.below(20_000)))
            .collect();
        let record = Record {
            slot: slot.slot,
            variant: slot.variant,
            block: slot.compared_in(),
            started_unix_ns: 1_700_000_000_000_000_000 + u64::from(slot.slot) * 1_000_000,
            outcome: Outcome::Finished,
            exit_code: Some(0),
            ops: None,
            samples: writer.samples(&Report { readings, ..Report::default() }),
            invariants: Vec::new(),
        };
        writer.append(&[(record, None)]).expect("a stored run");
    }
    writer.end(State::Finished).expect("the end");
}
