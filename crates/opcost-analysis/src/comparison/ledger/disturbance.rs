//! Rules about disturbances of the runs themselves: migrations, faults that wait for a disk, turns that other tasks had.

use crate::comparison::Severity::{Doubtful, Fine};
use crate::comparison::columns::blocks;
use crate::comparison::ledger::{Evidence, Finding, unknown};
use opcost_base::listing::few;
use opcost_record::{Domain, MetricKey};
use opcost_stats::Paired;

/// A difference that chance makes less often than this is due to the variants, not to the moment.
const CHANCE_MAX: f64 = 0.01;
/// Migrations per run by which variants may differ: each costs some microseconds and cold caches.
const MIGRATIONS_A_RUN_MAX: f64 = 0.5;
/// Faults per run that may wait for a disk: one takes as long as many system calls.
const MAJOR_FAULTS_A_RUN_MAX: f64 = 0.5;
/// Turns per second that other tasks may have. A task that is never idle takes more, whatever the scheduler's slice. Kernel threads
/// take about ten.
const SWITCHES_A_SECOND_MAX: f64 = 50.0;

pub(super) fn migrations(evidence: &Evidence<'_>) -> Finding {
    if let Some(cpu) = evidence.recording.plan.cpu {
        return Finding::Seen(Fine, format!("every run stayed on CPU {cpu}"));
    }
    let key = MetricKey::new("cpu-migrations", Domain::All, "perf_event");
    let Some(metric) = evidence.recording.dictionary.id(&key).map(usize::from) else {
        return unknown("moves were not counted");
    };
    let plan = &evidence.recording.plan;
    let means = evidence.means(&key.name, &key.source);
    let apart: Vec<String> = evidence
        .recording
        .comparisons()
        .into_iter()
        .filter(|(one, other)| {
            let columns = &evidence.columns.by_metric[metric];
            let blocks = blocks(&columns[*one], &columns[*other], plan);
            let chance = Paired::new(&blocks).map_or(1.0, |paired| paired.p());
            let difference = match (means[*one], means[*other]) {
                (Some(one), Some(other)) => (one - other).abs(),
                _ => 0.0,
            };
            chance <= CHANCE_MAX && difference > MIGRATIONS_A_RUN_MAX
        })
        .map(|(one, other)| {
            let figure = |side: usize| {
                format!("{:.1} in '{}'", means[side].unwrap_or(0.0), plan.variants[side].name)
            };
            format!("{} against {}", figure(one), figure(other))
        })
        .collect();
    if apart.is_empty() {
        return Finding::Seen(Fine, "variants were moved between CPUs alike".into());
    }
    let text = format!(
        "variants were moved between CPUs differently, times a run: {}; pin them (--cpu)",
        few(&apart)
    );
    Finding::Seen(Doubtful, text)
}

pub(super) fn faults(evidence: &Evidence<'_>) -> Finding {
    let means = evidence.means("major-faults", "rusage");
    if means.iter().all(Option::is_none) {
        return unknown("faults that wait for a disk were not counted");
    }
    let high: Vec<String> = evidence
        .recording
        .plan
        .variants
        .iter()
        .zip(&means)
        .filter_map(|(variant, mean)| {
            let mean = mean.filter(|mean| *mean > MAJOR_FAULTS_A_RUN_MAX)?;
            Some(format!("{mean:.1} in '{}'", variant.name))
        })
        .collect();
    if high.is_empty() {
        return Finding::Seen(Fine, "next to no page had to be read from a disk".into());
    }
    let text = format!(
        "pages were read from a disk, times a run: {}; that is a cold cache, not the work: \
         --warmup, or --prepare for both alike",
        few(&high)
    );
    Finding::Seen(Doubtful, text)
}

pub(super) fn switches(evidence: &Evidence<'_>) -> Finding {
    let switches = evidence.total("involuntary-switches", "rusage");
    let (Some(switches), Some(wall_ns)) = (switches, evidence.total("wall", "clock")) else {
        return unknown("turns of others were not counted");
    };
    if wall_ns == 0.0 {
        return Finding::Seen(Fine, "runs took no time".into());
    }
    let rate = switches / (wall_ns / 1e9);
    let text = format!("other tasks had {rate:.0} turns a second on the work's CPU");
    if rate > SWITCHES_A_SECOND_MAX {
        return Finding::Seen(Doubtful, format!("{text}; stop them, or {}", evidence.quiet_cpu()));
    }
    Finding::Seen(Fine, text)
}

pub(super) fn left_behind(evidence: &Evidence<'_>) -> Finding {
    let left = evidence.raw("processes-left", "conditions");
    if left.is_empty() {
        return unknown("nobody looked for processes that runs left behind");
    }
    let variants = &evidence.recording.plan.variants;
    // The runs stand variant by variant.
    let found: Vec<String> = left
        .chunk_by(|(one, _), (next, _)| one == next)
        .filter_map(|own| {
            let counts = own.iter().map(|(_, count)| *count);
            let with: Vec<f64> = counts.filter(|count| *count > 0.0).collect();
            let most = with.iter().copied().reduce(f64::max)?;
            Some(format!("{} runs of '{}', up to {most}", with.len(), variants[own[0].0].name))
        })
        .collect();
    if found.is_empty() {
        return Finding::Seen(Fine, "no run left a process behind".into());
    }
    let remaining = evidence.total("processes-unended", "conditions").unwrap_or(0.0);
    let after = if remaining == 0.0 {
        "opcost ended them with the run".to_string()
    } else {
        format!("{remaining} of them could not be ended and may have disturbed later runs")
    };
    let text = format!(
        "processes were left behind by {}; what they still did is in no figure, and {after}: wait \
         for them in the command, or start in --setup what is to stay",
        few(&found)
    );
    Finding::Seen(Doubtful, text)
}
