//! How much of a region is the workloads' own loop, counted to the instruction by the emulator.
//!
//! Work that needs no kernel is counted without one. Patched code needs one: the user-mode emulator
//! keeps executing its translation of the old code.

use crate::lab::Lab;
use crate::{boot, needs};
use opcost_record::emulation::RegionCost;
use opcost_record::request::GuestJob;
use opcost_record::{Domain, TWIN, WORK};

/// The largest share of opcost's own loop in a region's instructions, percent.
const SHARE_MAX: f64 = 2.0;

/// A workload and its parameters, as `--workload` takes them, and the largest share of its loop.
type Row = (&'static str, f64);

/// Locks without contention, of each kind, and of each shape that is not patched.
const LOCKS: [Row; 9] = [
    ("lock:ops=6400", SHARE_MAX),
    ("lock:ops=6400,kind=tas", SHARE_MAX),
    ("lock:ops=6400,kind=byte", SHARE_MAX),
    ("lock:ops=6400,kind=mcs", SHARE_MAX),
    ("lock:ops=6400,kind=queued", SHARE_MAX),
    ("lock:ops=6400,kind=pthread", SHARE_MAX),
    ("lock:ops=6400,shape=direct", SHARE_MAX),
    ("lock:ops=6400,shape=table", SHARE_MAX),
    ("lock:ops=6400,shape=wrapper", SHARE_MAX),
];

/// Paths that are not patched; docs/workloads.md has the reasons of those that miss the limit.
const UNPATCHED: [Row; 7] = [
    ("immediate:ops=1000", SHARE_MAX),
    ("immediate:ops=100,reads=4096", SHARE_MAX),
    ("immediate:ops=4000,reads=32", 3.2),
    ("pvops:ops=25600", SHARE_MAX),
    ("pvops:ops=25600,path=retpoline", SHARE_MAX),
    ("pvops:ops=25600,path=compiled-in", 9.0),
    ("pvops:ops=25600,sites=cold", 60.0),
];

const PATCHED: [Row; 8] = [
    ("lock:ops=6400,shape=patched", SHARE_MAX),
    ("immediate:ops=2000,path=immediate", SHARE_MAX),
    ("immediate:ops=2000,path=branch", SHARE_MAX),
    ("pvops:ops=25600,path=direct", SHARE_MAX),
    ("pvops:ops=25600,path=inlined", SHARE_MAX),
    ("copy:ops=12800", SHARE_MAX),
    ("copy:ops=12800,path=rep-movsb", SHARE_MAX),
    ("copy:ops=12800,size=real", 5.0),
];

const CALLS: [Row; 7] = [
    ("syscall:ops=12800", SHARE_MAX),
    ("syscall:ops=12800,call=read", SHARE_MAX),
    ("syscall:ops=12800,call=clock_gettime", SHARE_MAX),
    ("syscall:ops=12800,call=clock_gettime-vdso", SHARE_MAX),
    ("pipe:ops=2000", SHARE_MAX),
    ("futex:ops=2000", SHARE_MAX),
    ("mmap:ops=20000", SHARE_MAX),
];

const FILES: [Row; 7] = [
    ("mapfile:ops=50", SHARE_MAX),
    ("mapfile:ops=50,access=read", SHARE_MAX),
    ("mapfile:ops=20,stride=4096", SHARE_MAX),
    ("fileio:ops=300,mib=1", SHARE_MAX),
    ("fileio:ops=1000,phase=write", SHARE_MAX),
    ("fileio:ops=1000,phase=read", SHARE_MAX),
    ("fileio:ops=1000,phase=seeks", 3.5),
];

/// The name and the parameters of a workload.
fn parts(work: &str) -> (String, Vec<(String, String)>) {
    let (name, params) = work.split_once(':').unwrap();
    let pair = |text: &str| text.split_once('=').map(|(key, value)| (key.into(), value.into()));
    (name.to_string(), params.split(',').map(|text| pair(text).unwrap()).collect())
}

/// The counts of a workload: user instructions of opcost's own loop, and all instructions of the work. A tick
/// of the guest's clock, some 13,000 instructions of the kernel, falls into one region or the other by chance.
struct Counted {
    own: u64,
    all: u64,
}

impl Counted {
    fn of(work: &str, regions: &[RegionCost]) -> Counted {
        let count = |name: &str, domain| {
            let region = regions.iter().find(|region| region.region == name);
            let region = region.unwrap_or_else(|| panic!("{work} has no region {name}"));
            region.count("instructions", domain).unwrap()
        };
        Counted { own: count(TWIN, Domain::User), all: count(WORK, Domain::All) }
    }
}

fn check(rows: &[Row], mut count: impl FnMut(&str) -> Option<Counted>) {
    for (work, share_max) in rows {
        let Some(counted) = count(work) else { return };
        assert!(counted.own > 0, "{work} has no loop");
        let share = 100.0 * counted.own as f64 / counted.all as f64;
        assert!(share <= *share_max, "{work}: our own loop is {share:.2} %, above {share_max} %");
        // A workload that meets the limit has no place among the exceptions.
        let excepted = *share_max > SHARE_MAX;
        assert_eq!(share > SHARE_MAX, excepted, "{work}: our own loop is {share:.2} %");
    }
}

fn work_alone(work: &str) -> Option<boot::Ended> {
    let (name, params) = parts(work);
    let (paths, env) = (Vec::new(), Vec::new());
    boot::work_counted(&GuestJob::Workload { name, params, seed: 1, paths, env }.into())
}

fn without_a_kernel(work: &str) -> Option<Counted> {
    let ended = work_alone(work)?;
    assert!(ended.succeeded, "{work}: {:?}", ended.report);
    Some(Counted::of(work, &ended.regions))
}

/// Checks each workload in a run of a guest; all guests continue from one boot. Variants do the same kind of
/// work, so each kind has a recording of its own.
fn check_in_guests(rows: &[Row]) {
    let Some(kernel) = needs::kernel() else { return };
    for kind in rows.chunk_by(|(one, _), (two, _)| parts(one).0 == parts(two).0) {
        let lab = Lab::new();
        let variant = |(at, (work, _)): (usize, &Row)| format!("--variant=w{at}=workload:{work}");
        let variants: Vec<String> = kind.iter().enumerate().map(variant).collect();
        let how = ["--machine", "emulated", "--kernel", &kernel, "--seed", "1"];
        let (words, rest) = match kind {
            [(work, _)] => (vec!["measure", "--runs", "1", "-w", work], Vec::new()),
            _ => (
                vec!["compare", "--pairs", "1", "--warmup", "0"],
                variants.iter().map(String::as_str).collect(),
            ),
        };
        // The status of the comparison does not matter, as the parameters differ.
        let ended = lab.run(&[&words[..], &how, &rest].concat());
        let runs = lab.runs("last");
        check(kind, |work| {
            let at = kind.iter().position(|(one, _)| *one == work).unwrap();
            let run = runs.iter().find(|run| kind.len() == 1 || run[2].1 == format!("w{at}"));
            let run = run.unwrap_or_else(|| panic!("{work}: {}", ended.stderr));
            let cell = |name: &str| {
                let found = run.iter().find(|(head, _)| head == name);
                found.and_then(|(_, cell)| cell.parse().ok())
            };
            let counted = |name: &str| {
                cell(name).unwrap_or_else(|| panic!("{work}: no {name}: {}", ended.stderr))
            };
            Some(Counted {
                own: counted("emulator instructions:u (twin)"),
                all: counted("emulator instructions"),
            })
        });
    }
}

#[test]
fn a_lock_costs_the_lock() {
    check(&LOCKS, without_a_kernel);
}

#[test]
fn a_path_costs_what_is_on_it() {
    check(&UNPATCHED, without_a_kernel);
}

#[test]
fn patched_code_costs_itself() {
    check_in_guests(&PATCHED);
}

#[test]
fn calls_cost_what_the_kernel_does() {
    check_in_guests(&CALLS);
}

#[test]
fn files_cost_what_the_kernel_does_with_them() {
    check_in_guests(&FILES);
}

#[test]
fn paths_are_refused_where_no_code_can_be_patched() {
    for work in ["copy:path=rep-movsb", "copy:ops=10", "immediate:path=branch", "pvops:path=direct"]
    {
        let Some(ended) = work_alone(work) else { return };
        assert!(!ended.succeeded, "{work}: {:?}", ended.report);
        let error = ended.report.unwrap_err().to_string();
        assert!(error.contains("needs patched code, which cannot be had here"), "{error}");
    }
}

#[test]
#[should_panic(expected = "made:up=1: our own loop is 3.00 %, above 2 %")]
fn a_loop_that_grew_is_told_of() {
    check(&[("made:up=1", SHARE_MAX)], |_| Some(Counted { own: 3, all: 100 }));
}
