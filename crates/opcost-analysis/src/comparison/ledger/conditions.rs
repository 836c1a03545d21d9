//! Rules about the machine while the runs were made: other tasks, heat, clock rate.

use crate::comparison::Severity::{Doubtful, Fine};
use crate::comparison::ledger::{Evidence, Finding, unknown};
use opcost_base::listing::few;
use opcost_stats::summary::median;
use opcost_sys::affinity::parse_cpu_list;

/// With more other tasks than this for each CPU, on average, a run shares its CPU. On two CPUs the limit is one task that never
/// sleeps: one CPU is left for the run.
const OTHERS_PER_CPU_MAX: f64 = 0.5;

/// Above this share of the time with tasks that wait for a CPU, runs wait too.
const CPU_PRESSURE_MAX: f64 = 0.10;
/// If memory is enough, nothing waits for it; otherwise times are those of reclaim.
const MEMORY_PRESSURE_MAX: f64 = 0.01;
/// Above this share of the time with tasks that wait for a disk, some of the waiting is not the work's.
const IO_PRESSURE_MAX: f64 = 0.10;

/// Above this share of the time in which a quota stopped the work, elapsed time is the quota's.
const QUOTA_STALL_MAX: f64 = 0.01;
/// Variants whose typical clock rates differ by more than this do not run on the same machine.
const FREQUENCY_BETWEEN_MAX: f64 = 0.01;
/// Rates within one variant that differ by more than this are avoidable noise.
const FREQUENCY_WITHIN_MAX: f64 = 0.10;

/// Above this busy share of the core's other thread, its work shows in the figures.
const SIBLING_BUSY_MAX: f64 = 0.05;

const NAME: &str = "conditions";

pub(super) fn load(evidence: &Evidence<'_>) -> Finding {
    let cpus = evidence
        .recording
        .machine
        .first()
        .and_then(|state| parse_cpu_list(state.cpus_online.as_deref()?))
        .map_or(0, |cpus| cpus.len());
    let others = evidence.raw("other-recordings", NAME);
    let beside = others.iter().filter(|(_, recordings)| *recordings > 0.0).count();
    if beside > 0 {
        let text = format!(
            "another opcost made a recording when {beside} of {} looks were taken; make recordings one after the other",
            others.len()
        );
        return Finding::Seen(Doubtful, text);
    }
    let runnable = evidence.raw("machine-runnable", NAME);
    if runnable.is_empty() || cpus == 0 {
        return unknown("the kernel does not say how many tasks can run");
    }
    // One of the runnable tasks is the reader itself.
    let others: f64 = runnable.iter().map(|(_, tasks)| (tasks - 1.0).max(0.0)).sum();
    let others = others / runnable.len() as f64;
    let text = format!(
        "when a run began, {others:.1} other tasks could run, on average, on {cpus} CPU{}",
        if cpus == 1 { "" } else { "s" }
    );
    if evidence.recording.plan.real_time() {
        return Finding::Seen(
            Fine,
            format!("{text}, and none before the runs, which had real-time priority"),
        );
    }
    if others / cpus as f64 > OTHERS_PER_CPU_MAX {
        return Finding::Seen(Doubtful, format!("{text}; stop them, or {}", evidence.quiet_cpu()));
    }
    Finding::Seen(Fine, text)
}

pub(super) fn pressure(evidence: &Evidence<'_>) -> Finding {
    let Some(window) = evidence.total("run-window", NAME).filter(|window| *window > 0.0) else {
        return unknown("no run says how long its conditions were read");
    };
    let kinds = [
        ("cpu-pressure", "a CPU", CPU_PRESSURE_MAX),
        ("memory-pressure", "memory", MEMORY_PRESSURE_MAX),
        ("io-pressure", "a disk", IO_PRESSURE_MAX),
    ];
    let shares: Vec<(f64, &str, f64)> = kinds
        .into_iter()
        // Ordinary tasks wait while a run has real-time priority.
        .filter(|(metric, ..)| *metric != "cpu-pressure" || !evidence.recording.plan.real_time())
        .filter_map(|(metric, what, limit)| {
            // The kernel updates its totals only now and then, so a share may exceed 1.
            Some(((evidence.total(metric, NAME)? / window).min(1.0), what, limit))
        })
        .collect();
    if shares.is_empty() {
        return unknown("this kernel has no /proc/pressure");
    }
    let say = |shares: &[&(f64, &str, f64)]| {
        let parts: Vec<String> = shares
            .iter()
            .map(|(share, what, _)| format!("for {what} in {:.1} %", share * 100.0))
            .collect();
        format!("tasks waited {} of the time", parts.join(", "))
    };
    let high: Vec<_> = shares.iter().filter(|(share, _, limit)| share > limit).collect();
    match high.as_slice() {
        [] => Finding::Seen(Fine, say(&shares.iter().collect::<Vec<_>>())),
        high => Finding::Seen(Doubtful, say(high) + "; what waits is not only the work"),
    }
}

pub(super) fn throttling(evidence: &Evidence<'_>) -> Finding {
    let window = evidence.total("run-window", NAME).filter(|window| *window > 0.0);
    if let (Some(stall), Some(window)) = (evidence.total("quota-stall", NAME), window)
        && stall / window > QUOTA_STALL_MAX
    {
        let text = format!(
            "a CPU quota of the control group stopped the work in {:.1} % of the time; raise the quota \
             (cpu.max), or measure outside of the container",
            (100.0 * stall / window).min(100.0)
        );
        return Finding::Seen(Doubtful, text);
    }
    let throttles = evidence.raw("thermal-throttles", NAME);
    if throttles.is_empty() {
        return unknown("no counter of it here (usual in a virtual machine)");
    }
    let times: f64 = throttles.iter().map(|(_, times)| times).sum();
    let runs = throttles.iter().filter(|(_, times)| *times > 0.0).count();
    let hottest = evidence
        .raw("temperature-millidegrees", NAME)
        .into_iter()
        .map(|(_, temperature)| temperature / 1000.0)
        .reduce(f64::max);
    let heat = hottest.map_or(String::new(), |heat| format!("; up to {heat:.0} °C"));
    if runs == 0 {
        return Finding::Seen(Fine, format!("no CPU was too hot{heat}"));
    }
    let text = format!(
        "CPUs were slowed down because of heat {times:.0} times, in {runs} of {} runs{heat}; let \
         the machine cool, or limit its clock",
        throttles.len()
    );
    Finding::Seen(Doubtful, text)
}

pub(super) fn frequency(evidence: &Evidence<'_>) -> Finding {
    let rates = evidence.raw("cpu-frequency-khz", NAME);
    let medians: Vec<(&str, f64)> = evidence
        .recording
        .plan
        .variants
        .iter()
        .enumerate()
        .filter_map(|(variant, plan)| {
            let own: Vec<f64> =
                rates.iter().filter(|(of, _)| *of == variant).map(|(_, rate)| *rate).collect();
            Some((plan.name.as_str(), median(&own)?))
        })
        .collect();
    let all: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
    let Some(typical) = median(&all).filter(|typical| *typical > 0.0) else {
        return unknown("no clock rate in sight (usual in a virtual machine)");
    };
    let spread = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) =
            values.fold((f64::MAX, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        (high - low) / typical
    };
    if spread(&mut medians.iter().map(|(_, rate)| *rate)) > FREQUENCY_BETWEEN_MAX {
        let each: Vec<String> = medians
            .iter()
            .map(|(name, rate)| format!("{:.0} MHz in '{name}'", rate / 1000.0))
            .collect();
        return Finding::Seen(
            Doubtful,
            format!(
                "the CPU's clock differed between variants: {}; compare cycles, not times",
                few(&each)
            ),
        );
    }
    let within = spread(&mut all.iter().copied());
    let text = format!("the CPU's clock varied by {:.1} % between runs", within * 100.0);
    if within > FREQUENCY_WITHIN_MAX {
        return Finding::Seen(Doubtful, text + "; fix it: cpupower frequency-set -g performance");
    }
    Finding::Seen(Fine, text)
}

pub(super) fn siblings(evidence: &Evidence<'_>) -> Finding {
    let (busy, window) = (evidence.total("sibling-busy", NAME), evidence.total("run-window", NAME));
    let (Some(busy), Some(window)) = (busy, window.filter(|window| *window > 0.0)) else {
        return unknown("runs are not pinned to a CPU that shares its core");
    };
    let share = busy / window;
    let text = format!("what shares the run's core was busy {:.1} % of the time", share * 100.0);
    if share > SIBLING_BUSY_MAX {
        return Finding::Seen(
            Doubtful,
            text + "; keep it idle: echo off > /sys/devices/system/cpu/smt/control",
        );
    }
    Finding::Seen(Fine, text)
}
