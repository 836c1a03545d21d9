//! The metrics of a plan: its events, its primary metric, and the number of blocks that decides them all.

use super::Surroundings;
use anyhow::{Context, Result};
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_model::experiment::Experiment;
use opcost_model::plan::guest::{GuestPlan, Question};
use opcost_model::plan::judged::{is_planned, metrics_judged};
use opcost_model::plan::{
    EmulationPlan, EventPlan, Priority, Unavailable, VariantPlan, WorkPlan, guest,
};
use opcost_record::metric::EMULATOR;
use opcost_record::{Domain, Family, MetricKey, MetricRow, WORKLOAD};
use opcost_source::source::perf_event::syntax;
use opcost_source::source::{self, Scope};
use opcost_stats::multiple::Budget;
use opcost_stats::power::blocks_min;
use opcost_sys::perf::Refusal;
use opcost_sys::perf::constants::KIND_SOFTWARE;
use opcost_work::WorkloadSpec;
use std::path::Path;

/// The metrics of a plan.
pub(super) struct Measured {
    pub(super) events: Vec<EventPlan>,
    pub(super) unavailable: Vec<Unavailable>,
    /// The metrics for which the number of pairs is planned.
    pub(super) metrics: Vec<MetricKey>,
    pub(super) primary: MetricKey,
    /// The metric that decides instead if the warm-up runs were disturbed.
    pub(super) primary_if_busy: Option<MetricKey>,
}

pub(super) fn measured_by_host(
    experiment: &Experiment,
    scope: Scope,
    surroundings: &dyn Surroundings,
) -> Result<Measured> {
    let primary = experiment.primary.clone().or_else(|| surroundings.primary());
    let experiment = &Experiment { primary, ..experiment.clone() };
    let (events, unavailable) = resolve_events(experiment, scope, surroundings)?;
    let primary = resolve_primary(experiment, &events, &unavailable, surroundings)?;
    // The warm-up runs of shards are made on several computers, which may disagree.
    let may_change = experiment.primary.is_none() && experiment.shard.is_none();
    let may_change = may_change && primary.name != IF_BUSY && !owns_cpu(experiment);
    let primary_if_busy = events.iter().map(|event| &event.key).find(|key| key.label() == IF_BUSY);
    let primary_if_busy = primary_if_busy.filter(|_| may_change).cloned();
    let chosen: Vec<MetricKey> = events.iter().map(|event| event.key.clone()).collect();
    let mut metrics = metrics_judged(&events, scope, &primary);
    metrics.retain(|key| is_planned(key, &chosen));
    Ok(Measured { metrics, events, unavailable, primary, primary_if_busy })
}

pub(super) fn measured_by_emulator(
    experiment: &Experiment,
    emulation: &EmulationPlan,
    variants: &[VariantPlan],
) -> Result<Measured> {
    let boots =
        |variant: &VariantPlan| variant.guest.as_ref().is_some_and(|guest| guest.kernel.is_some());
    let kernel = boots(&variants[0]);
    if variants.iter().any(|variant| boots(variant) != kernel) {
        return Err(fail(
            Status::Usage,
            "some variants boot a kernel and others do not; their counts cannot be compared",
        ));
    }
    let cpus = guest::fewest_cpus(variants.iter().map(|variant| variant.guest.as_ref()));
    let mut metrics = guest::metrics(emulation, kernel, cpus);
    let usual = question(variants).metric(guest::counts_apart(kernel, emulation.no_functions));
    let wanted = experiment.primary.as_ref().unwrap_or(&usual);
    let found = metrics
        .iter()
        .find(|key| key.label() == *wanted)
        .or_else(|| metrics.iter().find(|key| key.name == *wanted));
    let Some(primary) = found.cloned() else {
        let labels: Vec<String> = metrics.iter().map(MetricKey::label).collect();
        return Err(fail(
            Status::Usage,
            format!(
                "--primary {wanted}: not counted on this emulated machine; there are {}",
                labels.join(", ")
            ),
        ));
    };
    let chosen = guest::metrics_chosen(emulation, kernel, cpus);
    metrics.retain(|key| is_planned(key, &chosen));
    let (events, unavailable) = (Vec::new(), Vec::new());
    Ok(Measured { events, unavailable, metrics, primary, primary_if_busy: None })
}

/// The question that variants put by the differences of their machines.
fn question(variants: &[VariantPlan]) -> Question {
    let guests: Vec<_> = variants.iter().filter_map(|variant| variant.guest.as_ref()).collect();
    let differ = |alike: fn(&GuestPlan, &GuestPlan) -> bool| {
        guests.iter().any(|guest| !alike(guests[0], guest))
    };
    let kernels = differ(|one, other| (&one.kernel, &one.boot) == (&other.kernel, &other.boot));
    let cpus = differ(|one, other| one.cpu_model == other.cpu_model);
    let command = variants.iter().any(|variant| matches!(variant.work, WorkPlan::Command { .. }));
    Question::of(kernels, cpus, command)
}

/// Parses and probes the events; events that cannot be counted are listed with the reason.
fn resolve_events(
    experiment: &Experiment,
    scope: Scope,
    surroundings: &dyn Surroundings,
) -> Result<(Vec<EventPlan>, Vec<Unavailable>)> {
    let asked = !experiment.events.is_empty();
    let texts: Vec<&str> = if asked {
        experiment.events.iter().map(String::as_str).collect()
    } else {
        source::perf_event::DEFAULT_EVENTS.to_vec()
    };
    let mut events = syntax::parse(&texts, &surroundings.sysfs()).status(Status::Usage)?;
    if let Some(primary) = &experiment.primary {
        add_primary(primary, &mut events, &surroundings.sysfs())?;
    }
    let mut wanted: Vec<EventPlan> = Vec::new();
    for event in events {
        if !wanted.iter().any(|other| other.key == event.key) {
            wanted.push(event);
        }
    }
    let refusals = surroundings.refusals(&wanted);
    let refused = wanted.iter().zip(&refusals).filter(|(_, refusal)| refusal.is_some());
    let users: Vec<EventPlan> = refused.filter_map(|(event, _)| user_part(event)).collect();
    let can_be_had = users.iter().zip(surroundings.refusals(&users));
    let mut users: Vec<&EventPlan> =
        can_be_had.filter(|(_, refusal)| refusal.is_none()).map(|(user, _)| user).collect();
    let mut unavailable = not_in_scope(&texts, scope);
    let mut available: Vec<EventPlan> = Vec::new();
    for (event, refusal) in wanted.iter().zip(refusals) {
        let Some(Refusal { mut reason, remedy }) = refusal else {
            available.push(event.clone());
            continue;
        };
        if let Some(at) = users.iter().position(|user| user.key.name == event.key.name)
            && event.key.domain == Domain::All
        {
            let user = users.remove(at);
            reason += &format!("; {} is counted instead", user.key);
            if !wanted.iter().any(|other| other.key == user.key) {
                available.push(user.clone());
            }
        }
        unavailable.push(Unavailable { key: event.key.clone(), reason, remedy });
    }
    Ok((available, unavailable))
}

/// The user-mode part of an event over both modes, for counting where the kernel's part is not allowed.
fn user_part(event: &EventPlan) -> Option<EventPlan> {
    // Switches and migrations happen in the kernel, so their user part is always 0.
    let divisible = event.kind != KIND_SOFTWARE || event.key.name.ends_with("-faults");
    if event.key.domain != Domain::All || !divisible {
        return None;
    }
    let key = MetricKey { domain: Domain::User, ..event.key.clone() };
    // The part has no group, as other members of the group may be missing.
    Some(EventPlan { key, group: None, ..event.clone() })
}

/// Metrics named by `-e` that another source reads, but not for this kind of work.
fn not_in_scope(texts: &[&str], scope: Scope) -> Vec<Unavailable> {
    let rows = texts.iter().flat_map(|text| text.split(',')).filter_map(MetricRow::find);
    rows.filter(|row| row.source != source::perf_event::NAME)
        .filter(|row| !source::reads_always(row, scope))
        .map(|row| {
            let (reason, remedy) = if row.source == EMULATOR {
                ("counted on the emulated machine only", "add --machine emulated")
            } else if row.source == WORKLOAD {
                ("told by workloads that have it, without being asked", "leave it out")
            } else {
                (
                    "read by workloads around their operations, not around another program",
                    "compare a workload",
                )
            };
            let key = MetricKey::new(row.name, Domain::All, row.source);
            Unavailable { key, reason: reason.into(), remedy: remedy.into() }
        })
        .collect()
}

/// Adds the primary metric to the events if it is a perf event that `-e` does not list.
fn add_primary(primary: &str, events: &mut Vec<EventPlan>, sysfs: &Path) -> Result<()> {
    let other_source =
        MetricRow::find(primary).is_some_and(|row| row.source != source::perf_event::NAME);
    if !other_source && !events.iter().any(|event| event.key.label() == primary) {
        events.extend(syntax::parse(&[primary], sysfs).context("--primary").status(Status::Usage)?);
    }
    Ok(())
}

/// The metric that decides on a busy machine.
const IF_BUSY: &str = "task-clock";

fn owns_cpu(experiment: &Experiment) -> bool {
    experiment.priority == Some(Priority::RealTime)
}

/// The primary metric where the user names none: time on a CPU if other programs compete for the CPUs, since elapsed time then is
/// mostly their turns; else elapsed time.
fn primary_default(
    experiment: &Experiment,
    events: &[EventPlan],
    surroundings: &dyn Surroundings,
) -> &'static str {
    let is_counted = events.iter().any(|event| event.key.label() == IF_BUSY);
    let is_busy = || surroundings.load().is_some_and(|load| load.is_high());
    if !owns_cpu(experiment) && is_counted && is_busy() { IF_BUSY } else { "wall" }
}

fn resolve_primary(
    experiment: &Experiment,
    events: &[EventPlan],
    unavailable: &[Unavailable],
    surroundings: &dyn Surroundings,
) -> Result<MetricKey> {
    let name = match &experiment.primary {
        Some(name) => name,
        None => primary_default(experiment, events, surroundings),
    };
    if let Some(row) = MetricRow::find(name).filter(|row| row.source != source::perf_event::NAME) {
        if row.family == Family::Control {
            return Err(fail(
                Status::Usage,
                format!("--primary {name} is no result: {}; see opcost list events", row.help),
            ));
        }
        return Ok(MetricKey::new(row.name, Domain::All, row.source));
    }
    // Parsing replaced an alias by the metric's own name.
    let wanted = syntax::canonical(name);
    if let Some(event) = events.iter().find(|event| event.key.label() == wanted) {
        return Ok(event.key.clone());
    }
    let refused = unavailable.iter().find(|missing| missing.key.label() == wanted);
    Err(match refused {
        Some(missing) => fail(
            Status::Missing,
            format!(
                "the primary metric {wanted} cannot be counted here: {}; {}",
                missing.reason, missing.remedy
            ),
        ),
        None => fail(
            Status::Usage,
            format!("--primary {name}: name one metric, for example wall or instructions:u"),
        ),
    })
}

/// The metrics that workloads report about their own work.
pub(super) fn figures_reported(variants: &[VariantPlan]) -> Vec<MetricKey> {
    let mut names: Vec<&str> = Vec::new();
    for variant in variants {
        if let WorkPlan::Workload { name, params } = &variant.work
            && let Some(spec) = WorkloadSpec::find(name)
        {
            names.extend(spec.figures_with(params));
        }
    }
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| MetricKey::new(name, Domain::All, WORKLOAD)).collect()
}

/// The fewest blocks with which each of these metrics can reach its corrected level.
pub(super) fn fewest_blocks(
    metrics: &[MetricKey],
    primary: &MetricKey,
    comparisons: usize,
    budget: &Budget,
) -> u32 {
    let count = |family| {
        metrics.iter().filter(|key| *key != primary && key.row().family == family).count()
            * comparisons
    };
    let needed = [
        (budget.primary, comparisons),
        (budget.headline, count(Family::Headline)),
        (budget.rest, count(Family::Rest)),
    ];
    needed.iter().map(|(level, tests)| blocks_min(*level, *tests)).max().unwrap_or(0)
}
