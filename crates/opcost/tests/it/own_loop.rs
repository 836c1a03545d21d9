//! How much of a region is the workloads' own loop, counted to the instruction by the emulator.
//!
//! What needs no kernel is counted without one. Patched code does, since the user-mode emulator goes
//! on with what it translated before.

use crate::boot;
use opcost::machine::emulated::initramfs::{Initramfs, WorkloadPack};
use opcost_record::channel::{FrameKind, GuestExit};
use opcost_record::emulation::RegionCost;
use opcost_record::request::GuestJob;
use opcost_record::{Domain, TWIN, WORK};

/// What our own loop may be of a region's instructions, percent.
const SHARE_MAX: f64 = 2.0;

/// A workload and its parameters, as `--workload` takes them, and what its share may be.
type Row = (&'static str, f64);

/// Locks that nobody else wants, by kind, and one in every shape that is not patched.
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

/// Paths that are not patched, and those of which docs/workloads.md says that they miss it, and why.
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

/// Name and parameters.
fn parts(work: &str) -> (String, Vec<(String, String)>) {
    let (name, params) = work.split_once(':').unwrap();
    let pair = |text: &str| text.split_once('=').map(|(key, value)| (key.into(), value.into()));
    (name.to_string(), params.split(',').map(|text| pair(text).unwrap()).collect())
}

/// Our own loop's part of the work's instructions, percent. The loop is user code: a tick of the guest's
/// clock, some 13,000 instructions of the kernel, falls into the one region or the other by chance.
fn share(work: &str, regions: &[RegionCost]) -> f64 {
    let of = |name: &str, domain| {
        let region = regions.iter().find(|region| region.region == name);
        let region = region.unwrap_or_else(|| panic!("{work} has no region {name}"));
        region.count("instructions", domain).unwrap() as f64
    };
    let own = of(TWIN, Domain::User);
    assert!(own > 0.0, "{work} has no loop");
    100.0 * own / of(WORK, Domain::All)
}

fn check(rows: &[Row], mut count: impl FnMut(&str) -> Option<Vec<RegionCost>>) {
    for (work, share_max) in rows {
        let Some(regions) = count(work) else { return };
        let share = share(work, &regions);
        assert!(share <= *share_max, "{work}: our own loop is {share:.2} %, above {share_max} %");
        // What misses the limit no longer has no place among the exceptions.
        let excepted = *share_max > SHARE_MAX;
        assert_eq!(share > SHARE_MAX, excepted, "{work}: our own loop is {share:.2} %");
    }
}

fn work_alone(work: &str) -> Option<boot::Ended> {
    let (name, params) = parts(work);
    let (paths, env) = (Vec::new(), Vec::new());
    boot::work_counted(&GuestJob::Workload { name, params, seed: 1, paths, env }.into())
}

fn without_a_kernel(work: &str) -> Option<Vec<RegionCost>> {
    let ended = work_alone(work)?;
    assert!(ended.succeeded, "{work}: {}", ended.text);
    Some(ended.regions)
}

fn in_a_guest(work: &str) -> Option<Vec<RegionCost>> {
    let (kernel, guest) = boot::machine()?;
    let (name, params) = parts(work);
    let initramfs =
        Initramfs::for_workload(&guest, &name, &params, 1, &WorkloadPack::default()).unwrap();
    let (frames, regions) = boot::boot_counted(&kernel, &initramfs)?;
    let exit = frames.iter().find(|frame| frame.kind == FrameKind::Exit).expect("it ended");
    assert_eq!(exit.text().parse(), Ok(GuestExit::Code(0)), "{work}: {frames:?}");
    Some(regions)
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
    check(&PATCHED, in_a_guest);
}

#[test]
fn calls_cost_what_the_kernel_does() {
    check(&CALLS, in_a_guest);
}

#[test]
fn files_cost_what_the_kernel_does_with_them() {
    check(&FILES, in_a_guest);
}

#[test]
fn paths_are_refused_where_no_code_can_be_patched() {
    for work in ["copy:path=rep-movsb", "copy:ops=10", "immediate:path=branch", "pvops:path=direct"]
    {
        let Some(ended) = work_alone(work) else { return };
        assert!(!ended.succeeded, "{work}: {}", ended.text);
        assert!(
            ended.text.contains("needs patched code, which cannot be had here"),
            "{}",
            ended.text
        );
    }
}

#[test]
#[should_panic(expected = "made:up=1: our own loop is 3.00 %, above 2 %")]
fn a_loop_that_grew_is_told_of() {
    let region = |name: &str, instructions: u64| RegionCost {
        region: name.into(),
        counts: [Domain::User, Domain::All]
            .map(|domain| ("instructions".into(), domain, instructions))
            .into(),
        ..RegionCost::default()
    };
    check(&[("made:up=1", SHARE_MAX)], |_| Some(vec![region(WORK, 100), region(TWIN, 3)]));
}
