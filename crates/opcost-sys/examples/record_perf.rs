//! Records the answers of this machine's kernel about performance counters, as a transcript on standard output: `cargo run
//! --example record_perf > my-machine.txt`.
//!
//! The example opens each generic event in user mode. It then counts the group {cycles, instructions} around a small loop:
//! together, inherited, and pinned with more members than the hardware has counters. The transcript names kernel, CPU and settings,
//! and nothing of the user.

#[path = "../tests/it/transcript/mod.rs"]
mod transcript;

use opcost_sys::perf::{
    EventAttr, LivePerf, OpenContext, PerfKernel, generic_event, generic_events, nmi_watchdog,
};
use std::fs;
use std::hint::black_box;
use std::io;
use std::path::Path;
use transcript::RecordingPerf;

fn main() {
    let recorder = RecordingPerf::new(LivePerf::new());
    describe_machine(&recorder);
    recorder.note("each generic event by itself, user mode");
    for row in generic_events() {
        recorder.note(row.name);
        if let Ok(id) = recorder.open(&user_mode(row.name), 0, -1, None) {
            // The transcript holds all answers, including the errors; it needs both.
            let _ = recorder.read(id);
            recorder.close(id);
        }
    }
    recorder.note("the group {cycles, instructions} around a loop");
    let group = ["cycles", "instructions"];
    let _ = count(&recorder, &group, |attr| attr);
    recorder.note("the same, inherited");
    let inherit = |attr| EventAttr { inherit: true, ..attr };
    let _ = count(&recorder, &group, inherit);
    recorder.note("the same, pinned");
    let pinned = |attr| EventAttr { pinned: true, ..attr };
    let _ = count(&recorder, &group, pinned);
    recorder.note("the software group {task-clock, page-faults} around a loop");
    let _ = count(&recorder, &["task-clock", "page-faults"], |attr| attr);
    print!("{}", recorder.into_transcript());
}

fn describe_machine<K: PerfKernel>(recorder: &RecordingPerf<K>) {
    let (proc, sys) = (Path::new("/proc"), Path::new("/sys"));
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.unwrap_or("unknown").trim_start_matches(['\t', ' ', ':']);
    let context = OpenContext::detect(proc, sys);
    recorder.note(&format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()));
    recorder.note(&format!("architecture {}, CPU {model}", std::env::consts::ARCH));
    recorder.note(&format!("{context:?}"));
    recorder.note(&format!("NMI watchdog {:?}", nmi_watchdog(proc)));
}

fn user_mode(name: &str) -> EventAttr {
    let event = generic_event(name).expect("a generic event");
    EventAttr {
        kind: event.kind,
        config: event.config,
        exclude_kernel: true,
        exclude_hv: true,
        disabled: true,
        ..EventAttr::default()
    }
}

/// Counts a group of events around a loop; ends at the first error. The transcript holds the error.
fn count(
    perf: &dyn PerfKernel,
    names: &[&str],
    change: impl Fn(EventAttr) -> EventAttr,
) -> io::Result<()> {
    let mut ids = Vec::new();
    for name in names {
        let mut attr = change(user_mode(name));
        if !ids.is_empty() {
            // Only a leader may be stopped or pinned; members follow the leader.
            (attr.disabled, attr.pinned) = (false, false);
        }
        ids.push(perf.open(&attr, 0, -1, ids.first().copied())?);
    }
    perf.enable(ids[0], true)?;
    let mut sum = 0u64;
    for number in 0..10_000u64 {
        sum = black_box(sum.wrapping_add(number));
    }
    perf.disable(ids[0], true)?;
    for id in &ids {
        // A pinned group without a place answers with a short read, which the transcript should have.
        let _ = perf.read(*id);
    }
    for id in ids.into_iter().rev() {
        perf.close(id);
    }
    Ok(())
}
