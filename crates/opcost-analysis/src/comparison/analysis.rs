//! Turns a recording into a comparison.

use super::columns::{Column, Columns, WALL, blocks, operations_of, per_second, same_in_each_unit};
use super::ledger::Repeats;
use super::ratios::per_megabyte;
use super::{
    Change, Comparison, Figures, InvariantRow, Layouts, RATIO_LEVEL, Row, TwinRow, VariantSummary,
    Verdict, Warning, carry_over, conclusion, cycles, function_changes, guests, imported, ledger,
    observations, one_variant, ranking, steps, threads_max, variant_differences,
};
use opcost_attribution::function_costs::check_matches;
use opcost_base::{failure, number};
use opcost_model::plan::judged::SideMetrics;
use opcost_model::plan::{MachineKind, Plan, Unavailable, WorkPlan, shell_syntax};
use opcost_model::recording::{Recording, State};
use opcost_profile::parallel;
use opcost_record::metric::{
    CALLS, DEFERRED, DEFERRED_AFTER, EMULATOR, FOOTPRINT, SYNCHRONOUS, TICK,
};
use opcost_record::{Event, Family, MetricKey, Outcome, Record, TWIN, Unit, WORK};
use opcost_source::source;
use opcost_source::source::Scope;
use opcost_stats::{
    Block, Budget, Paired, bootstrap, early, exact, multiple, power, relevance, summary,
};
use std::borrow::Cow;
use std::collections::HashMap;

/// Analyses a recording.
///
/// The result depends on the recording alone. Facts that a reader should know beside the result are returned as warnings.
pub fn compare(recording: &Recording) -> (Comparison, Vec<Warning>) {
    let plan = &recording.plan;
    if let Some(import) = plan.imported() {
        return imported::compare(recording, import);
    }
    let mut finished = compared_runs(recording);
    for runs in &mut finished {
        runs.retain(|record| record.outcome == Outcome::Finished);
    }
    let invariants = invariants(&finished);
    let columns = Columns::of(recording, &finished);
    let mut carried = carry_over::examine(recording, &columns);
    let (mut ledger, mut warnings) =
        ledger::examine(recording, &finished, &invariants, &columns, carried.as_ref());
    let refusal =
        ledger.iter().find(|entry| entry.severity == super::Severity::Refuse && !entry.waived);
    let mut rows = rows(recording, &columns);
    let refused = refusal.map(|entry| format!("refused by the ledger: {}", entry.rule));
    let pairs_for_all = match &refused {
        Some(reason) => {
            refuse(&mut rows, reason);
            None
        }
        None => judge(&mut rows, recording),
    };
    if let (Some(carried), None) = (&mut carried, &refused) {
        carried.doubt(recording, &rows);
        carried.say(&mut ledger, recording, &rows);
    }
    let is_waived = ledger.iter().any(|entry| entry.rule == carry_over::RULE && entry.waived);
    let withheld = carried.as_ref().filter(|_| !is_waived);
    if let (Some(carried), None) = (withheld, &refused) {
        carried.withhold(&mut rows);
    }
    cycles::weigh(&mut rows, recording);
    let kernels = recording.machine.first().map_or(&[][..], |state| &state.kernels);
    warnings.extend(pairs_for_all.and_then(|pairs| too_few_pairs(recording, &rows, pairs)));
    if let Err(unknown) = check_matches(recording) {
        warnings.push(Warning::Matches(unknown));
    }
    warnings.extend(short_runs(plan, &rows, &finished));
    warnings.extend(for_a_shell(plan));
    let stopped = conclusion::stopped(recording, &rows, pairs_for_all);
    let named = plan.variants.iter().enumerate();
    let guests: Vec<_> = named
        .filter_map(|(index, variant)| Some((variant.name.as_str(), recording.guest(index)?)))
        .collect();
    let mut comparison = Comparison {
        recording: recording.id.clone(),
        experiment: plan.experiment.clone(),
        question: plan.question.clone(),
        heading: heading(recording, &finished),
        variants: variants(recording, &finished),
        comparisons: recording.comparisons(),
        functions: function_changes::functions(recording, &rows, refused.as_deref()),
        cycles: cycles::functions(recording, &rows),
        kernel_commits: Vec::new(),
        patch_sites: Vec::new(),
        steps: steps::stepped(recording),
        function_costs: one_variant::function_costs(recording),
        cycle_costs: is_alone(plan).then(|| one_variant::cycle_costs(recording)).flatten(),
        guests: guests::describe(&guests),
        differences: variant_differences::kernel_differences(recording, kernels),
        sizes: variant_differences::size_rows(recording, recording.machine.first()),
        twin: twin(recording, &columns, &rows),
        per_megabyte: per_megabyte(recording, &finished),
        rows,
        unavailable: unavailable(recording, &finished),
        invariants,
        ledger,
        stopped,
        pairs_for_all,
        observations: Vec::new(),
        carry_over: Vec::new(),
        imported: None,
        conclusions: Vec::new(),
        ranking: None,
    };
    // Runs of the emulated machine, and of several computers, are made at the same time: they have neither drift nor neighbours.
    let in_turn = [MachineKind::Host, MachineKind::Attached].contains(&plan.machine());
    if in_turn && plan.computers().is_none() {
        let names: Vec<String> =
            comparison.variants.iter().map(|variant| variant.name.clone()).collect();
        comparison.observations = observations::observations(&comparison.rows, &names);
    }
    if let Some(carried) = withheld {
        carried.withhold_functions(&mut comparison.functions, &comparison.comparisons);
    }
    comparison.carry_over = carried.map_or(Vec::new(), |carried| carried.made);
    comparison.conclusions = conclusion::conclusions(&comparison);
    if !comparison.refused() && comparison.conclusions.len() == comparison.comparisons.len() {
        for index in 0..comparison.comparisons.len() {
            if let Some(why) = guests::no_effect(recording, &comparison, index) {
                comparison.conclusions[index] += &format!("; {why}");
            }
        }
    }
    comparison.ranking = ranking::ranking(&comparison, plan);
    (comparison, warnings)
}

/// The runs of each variant that are no warm-up.
fn compared_runs(recording: &Recording) -> Vec<Vec<&Record>> {
    let mut runs = vec![Vec::new(); recording.plan.variants.len()];
    for record in recording.records.iter().filter(|record| record.block.is_some()) {
        if let Some(runs) = runs.get_mut(usize::from(record.variant)) {
            runs.push(record);
        }
    }
    runs
}

/// The runs of a variant that count: finished runs that are no warm-up.
pub(super) fn finished_runs(recording: &Recording, variant: usize) -> Vec<&Record> {
    recording
        .records
        .iter()
        .filter(|record| usize::from(record.variant) == variant && record.block.is_some())
        .filter(|record| record.outcome == Outcome::Finished)
        .collect()
}

/// Whether a plan has only one variant, which is compared with no other.
pub(super) fn is_alone(plan: &Plan) -> bool {
    plan.variants.len() == 1
}

fn heading(recording: &Recording, finished: &[Vec<&Record>]) -> Vec<String> {
    let plan = &recording.plan;
    let mut parts = Vec::new();
    match (plan.attachment(), &plan.variants[0].work) {
        (Some(attachment), _) => {
            let period = number::figure(attachment.period_ns as f64, Unit::Ns);
            parts.push(format!("{} in periods of {period}", plan.experiment));
            parts.push(attachment.words().into());
        }
        (None, WorkPlan::Workload { name, .. }) => parts.push(name.clone()),
        (None, WorkPlan::Command { .. }) if is_alone(plan) => parts.push("command".into()),
        (None, WorkPlan::Command { .. }) => parts.push("commands".into()),
    }
    let ops = || finished.iter().flatten().filter_map(|record| record.ops);
    if let (Some(least), Some(most), None) = (ops().min(), ops().max(), plan.attachment()) {
        let range = match least == most {
            true => number::grouped(least),
            false => format!("{} to {}", number::grouped(least), number::grouped(most)),
        };
        parts.push(match plan.variants.iter().any(|variant| variant.ops.is_some()) {
            true => format!("per op, from the program's output: {range} ops a run"),
            false => format!("{range} ops a run"),
        });
    }
    parts.push(plan.machine().words().into());
    let made = recording.pairs_made();
    parts.push(match is_alone(plan) {
        true if made == 1 => "1 run".into(),
        true => format!("{} runs", number::grouped(made.into())),
        false if made == 1 => "1 pair".into(),
        false => format!("{made} pairs"),
    });
    if let Some(build) = plan.build() {
        let blocks = plan.blocks_of_pairs(recording.pairs_made());
        parts.push(format!("{} builds", blocks.div_ceil(build.blocks)));
    }
    if let Some(process) = &plan.in_process {
        let blocks = plan.blocks_of_pairs(recording.pairs_made());
        parts.push(match blocks.div_ceil(process.blocks) {
            1 => "in one process".into(),
            processes => format!("in {processes} processes"),
        });
    }
    if let Some(computers) = plan.computers() {
        parts.push(format!("on {computers} computers"));
    }
    let why = recording.primary_reason().map_or(String::new(), |why| format!(", as {why}"));
    parts.push(format!("primary: {}{why}", plan.primary.label()));
    parts
}

fn variants(recording: &Recording, finished: &[Vec<&Record>]) -> Vec<VariantSummary> {
    let (compared, failed) = (compared_runs(recording), recording.failed_variants());
    let summary = |(index, variant): (usize, &opcost_model::plan::VariantPlan)| {
        let runs = &compared[index];
        VariantSummary {
            name: variant.name.clone(),
            work: variant.work.describe(),
            runs_finished: finished[index].len(),
            runs_failed: runs.len() - finished[index].len(),
            failure: failed.get(&index).and_then(|run| match &run.outcome {
                Outcome::Failed(failure) => {
                    Some(format!("run {}: {}", run.slot, failure::in_words(failure)))
                }
                Outcome::Finished => None,
            }),
            ops: finished[index].first().and_then(|record| record.ops),
            totals: totals(recording, &finished[index]),
            exit_codes: runs.iter().map(|record| record.exit_code).collect(),
        }
    };
    recording.plan.variants.iter().enumerate().map(summary).collect()
}

/// Times of whole runs, by metric, where runs differ in their operations, so that figures per operation do not give them.
fn totals(recording: &Recording, runs: &[&Record]) -> Vec<(String, Figures)> {
    if runs.iter().all(|run| run.ops == runs[0].ops) {
        return Vec::new();
    }
    let keys = recording.dictionary.keys().iter().enumerate();
    let times = keys.filter(|(_, key)| key.region == WORK && key.row().unit == Unit::Ns);
    let of_metric = |(id, key): (usize, &MetricKey)| {
        let samples = runs.iter().filter_map(|run| run.sample(id as u16));
        let mut column = Column::default();
        column.values.extend(samples.map(|sample| sample.value as f64));
        Some((key.name.clone(), summarise(&column)?))
    };
    times.filter_map(of_metric).collect()
}

/// The metrics that could not be opened, and those that were planned but found in no run.
fn unavailable(recording: &Recording, finished: &[Vec<&Record>]) -> Vec<Unavailable> {
    let plan = &recording.plan;
    let mut missing = plan.unavailable.clone();
    // Without a run nothing is known.
    if finished.iter().all(Vec::is_empty) {
        return missing;
    }
    // The emulator counts every metric it is asked for, or the run fails, except the parts of the kernel's work.
    let emulated = plan.machine() == MachineKind::Emulated;
    for key in plan.metrics() {
        let reason = match emulated {
            true => reason_untold(&key.name).map(Cow::Borrowed).or_else(|| reason_of_event(&key)),
            false => Some(source::reason_absent(key.row(), plan.scope()).into()),
        };
        if let Some(reason) = reason.filter(|_| recording.dictionary.id(&key).is_none()) {
            let reason = reason.to_string();
            missing.push(Unavailable { key, reason, remedy: String::new() });
        }
    }
    missing
}

/// Why a part of the kernel's instructions is missing; `None` for other metrics.
fn reason_untold(name: &str) -> Option<&'static str> {
    match name {
        SYNCHRONOUS | DEFERRED | TICK => Some(
            "the kernel's symbols do not name its softirqs, its threads and its idle loop, or the runs \
             did not keep calling contexts apart",
        ),
        _ if FOOTPRINT.contains(&name) => Some(
            "its operations cannot be told apart: no call near the start of the work is made once to four times in each; the \
             rows with -region are of all together",
        ),
        DEFERRED_AFTER => Some("the guest could not wait for work that its kernel had deferred"),
        _ if name.starts_with(CALLS) => Some(
            "the symbols of the kernel and the programs name no such function; a function that the compiler inlined everywhere \
             has no calls: count its callers, or build it with __attribute__((noinline)) or #[inline(never)]",
        ),
        _ => None,
    }
}

/// Why an event has no figure.
fn reason_of_event(key: &MetricKey) -> Option<Cow<'static, str>> {
    let event = Event::find(&key.name).filter(|event| event.key() == *key)?;
    Some(event.reason_missing().into())
}

/// Whether a metric is an event that symbols may lack, or the calls of a function.
fn is_counted_by_name(key: &MetricKey) -> bool {
    key.name.starts_with(CALLS) || key.source == EMULATOR && Event::find(&key.name).is_some()
}

/// Every invariant with the values that each variant's runs had.
fn invariants(finished: &[Vec<&Record>]) -> Vec<InvariantRow> {
    let mut rows: Vec<InvariantRow> = Vec::new();
    for (variant, records) in finished.iter().enumerate() {
        for invariant in records.iter().flat_map(|record| &record.invariants) {
            let known = rows.iter().position(|row| row.name == invariant.name);
            let at = known.unwrap_or_else(|| {
                rows.push(InvariantRow {
                    name: invariant.name.clone(),
                    values: vec![Vec::new(); finished.len()],
                    holds: true,
                });
                rows.len() - 1
            });
            let values = &mut rows[at].values[variant];
            if !values.contains(&invariant.value) {
                values.push(invariant.value.clone());
            }
        }
    }
    for row in &mut rows {
        let ran = row.values.iter().zip(finished).filter(|(_, records)| !records.is_empty());
        let mut values = ran.map(|(values, _)| values);
        let first = values.next().cloned().unwrap_or_default();
        row.holds = first.len() == 1 && values.all(|other| *other == first);
    }
    rows
}

/// The rows without verdicts, the primary metric first, then in the order of the table of metrics.
fn rows(recording: &Recording, columns: &Columns) -> Vec<Row> {
    let keys = recording.dictionary.keys();
    let planned = recording.plan.metrics();
    // A pattern may mean many functions that nothing called; their rows would only fill the table.
    let is_idle = |key: &MetricKey, columns: &[Column]| {
        let mut values = columns.iter().flat_map(|column| &column.values);
        is_counted_by_name(key) && !planned.contains(key) && values.all(|calls| *calls == 0.0)
    };
    let shown = keys
        .iter()
        .zip(&columns.by_metric)
        .filter(|(key, _)| is_shown(&recording.plan, key) && key.row().family != Family::Control)
        .filter(|(key, _)| recording.plan.judges(key))
        .filter(|(key, columns)| !is_idle(key, columns))
        // If figures are per second, the wall time itself is no figure.
        .filter(|(key, _)| !(per_second(&recording.plan) && key.name == WALL))
        .collect();
    let (repeats, compared) = (Repeats::of(recording), recording.comparisons());
    let mut rows = parallel::map(shown, threads_max(is_large(recording)), |(key, columns)| {
        row(recording, (&repeats, &compared), key, columns)
    });
    let place = |key: &MetricKey| {
        let listed = opcost_record::METRICS.iter().position(|row| row.name == key.name);
        (listed.unwrap_or(usize::MAX), key.clone())
    };
    // A program's own regions stand together, in the order in which the program began them.
    let of_region = |key: &MetricKey| {
        key.is_of_program_region().then(|| recording.dictionary.id(key)).flatten()
    };
    rows.sort_by_key(|row| (!row.primary, of_region(&row.key), place(&row.key)));
    rows
}

/// Whether a metric has a row: metrics of the work, and the primary metric of each region that the program marks.
fn is_shown(plan: &Plan, key: &MetricKey) -> bool {
    let decides = key.name == plan.primary.name && key.domain == plan.primary.domain;
    key.region == WORK || key.is_of_program_region() && decides
}

/// Whether the analysis is long enough to justify a second thread.
fn is_large(recording: &Recording) -> bool {
    recording.records.len() > 5_000
}

fn row(
    recording: &Recording,
    (repeats, compared): (&Repeats<'_>, &[(usize, usize)]),
    key: &MetricKey,
    columns: &[Column],
) -> Row {
    let plan = &recording.plan;
    let described = key.row();
    let twice = recording.dictionary.keys().iter().any(|other| {
        other.region == key.region && other.label() == key.label() && other.source != key.source
    });
    let own = key.is_of_program_region();
    let has_ops = recording.records.iter().any(|record| record.ops.is_some());
    let mut values: Vec<Option<Figures>> = columns.iter().map(summarise).collect();
    if is_alone(plan) {
        for figures in values.iter_mut().flatten() {
            figures.interval = one_variant::interval(figures);
        }
    }
    let changes = compared.iter().copied().map(|(baseline, variant)| {
        if let Some(why) = plan.apart((baseline, variant)) {
            let (verdict, reason) = (Verdict::NotComparable, why.to_string());
            return Change { verdict, reason, ..Change::default() };
        }
        let medians = [baseline, variant].map(|side| values[side].as_ref().map(Figures::center));
        let metric = recording.dictionary.id(key);
        let repeat = [baseline, variant]
            .iter()
            .all(|side| metric.is_some_and(|metric| repeats.hold(*side, metric)));
        let sides = [&columns[baseline], &columns[variant]];
        let mut change = change(plan, sides, medians, *key == plan.primary, repeat);
        if is_counted_by_name(key) && change.verdict == Verdict::Unavailable {
            change.reason =
                "one side has no such function, or the compiler inlined it there".into();
        }
        change
    });
    let per = if per_second(plan) && described.per_op { "/s" } else { "" };
    Row {
        key: key.clone(),
        label: if twice {
            format!("{}{per} ({})", key.label(), key.source)
        } else {
            key.label() + per
        },
        primary: *key == plan.primary,
        unit: described.unit,
        kind: described.kind,
        better: described.better,
        // Additional regions must not make the correction of the headline metrics stricter.
        family: if own { Family::Rest } else { described.family },
        per_op: match own {
            true => operations_of(recording, key).is_some(),
            false => described.per_op && has_ops,
        },
        exact: columns.iter().all(|column| column.alike().is_some()),
        accuracy: None,
        changes: changes.collect(),
        values,
    }
}

fn summarise(column: &Column) -> Option<Figures> {
    let spread = summary::Spread::of(&column.values)?;
    Some(Figures {
        median: Some(spread.median),
        mean: spread.mean,
        sd: spread.sd,
        min: Some(spread.min),
        max: Some(spread.max),
        n: column.values.len(),
        multiplexed: column.multiplexed,
        values: column.values.clone(),
        interval: None,
    })
}

/// The change of one metric without p values, interval and verdict, which depend on all other metrics. `repeat`: whether the counts
/// of both sides repeat.
fn change(
    plan: &Plan,
    [baseline, variant]: [&Column; 2],
    medians: [Option<f64>; 2],
    primary: bool,
    repeat: bool,
) -> Change {
    let multiplexed = baseline.multiplexed + variant.multiplexed;
    let mut change = Change {
        step: baseline.first.map_or(0.0, |total| 1.0 / total.ops.get() as f64),
        ..Change::default()
    };
    if baseline.values.is_empty() || variant.values.is_empty() {
        change.verdict = Verdict::Unavailable;
        change.reason = "no finished run has it".into();
        return change;
    }
    if multiplexed > 0 {
        change.verdict = Verdict::NotComparable;
        change.reason = format!(
            "multiplexed in {multiplexed} of {} runs, so not a full count; count fewer events at once",
            baseline.values.len() + variant.values.len()
        );
    }
    if let [Some(one), Some(two)] = medians {
        change.ratio_of_medians =
            (one != 0.0).then(|| two / one - 1.0).or((one == two).then_some(0.0));
    }
    let units = blocks(baseline, variant, plan);
    match Paired::new(&units) {
        Err(error) => {
            change.verdict = Verdict::Unavailable;
            change.reason = error.to_string();
        }
        Ok(paired) => {
            change.n_pairs = paired.n_pairs();
            // Counts of the host have one layout only, or noise of their own that the test allows for.
            if plan.machine() == MachineKind::Emulated {
                change.relevance_floor_ratio = relevance_floor([baseline, variant], &paired);
                let known = change.relevance_floor_ratio.is_some();
                change.relevance_floor_layouts =
                    if known { baseline.drawn.min(variant.drawn) } else { 0 };
            }
            change.change_ratio = paired.change_ratio();
            if plan.machine() == MachineKind::Emulated && plan.in_process.is_none() {
                change.layouts = repeat.then(|| layouts(plan, &units, &paired));
                let shown = repeat || paired.differences().len() >= 2;
                if shown && same_in_each_unit(&units) {
                    change.identical = true;
                    change.change_ratio = Some(0.0);
                    change.ratio_of_medians = Some(0.0);
                }
            }
            if let (Some(one), Some(two)) = (baseline.alike(), variant.alike()) {
                let exactness = exact(&one, &two);
                change.change_ratio = exactness.change_ratio();
                change.ratio_of_medians = exactness.change_ratio();
                change.identical |= exactness.change_ratio() == Some(0.0);
            }
            change.paired = Some(paired);
            if primary {
                change.plain = Paired::plain(&units).ok();
                change.difference = change.plain.as_ref().map(Paired::estimate);
                let ratio = bootstrap::ratio_of_medians(&units, RATIO_LEVEL, plan.seed);
                let ci = ratio.and_then(|ratio| ratio.ci);
                change.ratio_of_medians_ci = ci.map(|(low, high)| (low - 1.0, high - 1.0));
            }
        }
    }
    change
}

/// The layouts that were run, each as one unit.
fn layouts(plan: &Plan, units: &[Block<'_>], paired: &Paired) -> Layouts {
    // The early look covers the same blocks whatever was run after them.
    let looked_at = plan.stop.look_pairs.map_or(units.len(), |look| look as usize);
    let complete = units.iter().take(looked_at).filter(|block| block.complete());
    let (one, two): (Vec<f64>, Vec<f64>) = complete
        .flat_map(|block| block.baseline.iter().copied().zip(block.variant.iter().copied()))
        .unzip();
    Layouts { early_p: early::p(&one, &two), ..Layouts::of(paired) }
}

/// How far seeds and layouts alone shift the figure, as a share of the baseline's median: the larger floor of the two variants,
/// each computed over its own blocks.
fn relevance_floor(sides: [&Column; 2], paired: &Paired) -> Option<f64> {
    floor_of(sides.map(|column| column.values.as_slice()), paired)
}

/// The relevance floor of two lists of runs, as in [`relevance_floor`]. Too few layouts show no floor; if they move one side farther
/// than the change, their range is enough to call the change theirs.
pub(super) fn floor_of(sides: [&[f64]; 2], paired: &Paired) -> Option<f64> {
    let largest = |of: fn(&[f64]) -> Option<f64>| {
        let [one, two] = sides.map(of);
        paired.step_ratio(one?.max(two?)).map(f64::abs)
    };
    largest(relevance::floor).or_else(|| {
        let (seen, change) = (largest(relevance::seen)?, paired.change_ratio()?);
        (change.abs() < seen).then_some(seen)
    })
}

/// Withholds the verdict on every change.
pub(super) fn refuse(rows: &mut [Row], reason: &str) {
    let changes = rows.iter_mut().flat_map(|row| &mut row.changes);
    for change in changes.filter(|change| change.verdict != Verdict::Unavailable) {
        change.verdict = Verdict::NotComparable;
        change.reason = reason.to_string();
    }
}

/// Gives every change its corrected p value, interval and verdict.
///
/// Returns the number of pairs that would give every metric an interval, if the pairs made are too few for some metric.
fn judge(rows: &mut [Row], recording: &Recording) -> Option<u32> {
    let (plan, large) = (&recording.plan, is_large(recording));
    let budget = plan.stop.error_budget();
    let pairs_made = recording.pairs_made();
    // Every corrected p value is reported on this scale, whatever the metric's share of the budget.
    let rate = Budget::default().total();
    // Counts of an emulated machine that neither seed nor padding changes need no test.
    let settled = |row: &Row| plan.machine() == MachineKind::Emulated && row.exact;
    let side_metrics = SideMetrics::of([plan], recording.comparisons().len());
    let mut pairs_for_all = None;
    for family in multiple::Family::ALL {
        let members: Vec<(bool, bool, &mut Change)> = rows
            .iter_mut()
            .filter(|row| family_of(row) == Some(family) && !settled(row))
            .flat_map(|row| {
                let side = family == multiple::Family::Rest && side_metrics.contains(&row.key);
                let exact = row.exact;
                row.changes.iter_mut().map(move |change| (exact, side, change))
            })
            // A metric with the same integer in every run on both sides cannot raise a false alarm.
            .filter(|(_, _, change)| change.paired.is_some() && !change.identical)
            .filter(|(_, _, change)| change.verdict != Verdict::NotComparable)
            .collect();
        let sides: Vec<bool> = members.iter().map(|(_, side, _)| *side).collect();
        let weights = side_metrics.weights(&sides);
        let p: Vec<f64> = members
            .iter()
            .zip(&weights)
            .map(|((_, _, change), weight)| {
                (change.paired.as_ref().map_or(1.0, Paired::p) / weight).min(1.0)
            })
            .collect();
        let adjusted = family.adjust(&p);
        let level = family.decision_level(&p, budget.level(family));
        let tests = members.len();
        let looks = (family == multiple::Family::Primary).then(|| early_level(recording)).flatten();
        let looks = looks.map(|level| level / tests as f64);
        // As many tests as would give each this level; rounding does not make them one more.
        let needed = |weight: f64| {
            let tests = (tests as f64 / weight - 1e-6).ceil() as usize;
            plan.pairs_of_units(power::blocks_min(budget.level(family), tests))
        };
        // A change has one of two weights, and the blocks of thousands of variants are long.
        let mut pairs_needed: HashMap<u64, u32> = HashMap::new();
        for weight in &weights {
            pairs_needed.entry(weight.to_bits()).or_insert_with(|| needed(*weight));
        }
        let members = members.into_iter().zip(adjusted).zip(weights).collect();
        let lack = parallel::map(
            members,
            threads_max(large),
            |(((exact, _, change), adjusted), weight)| {
                let pairs_needed = pairs_needed[&weight.to_bits()];
                decide(change, exact, level * weight, plan.seed);
                if !exact {
                    change.p_adjusted = Some((adjusted * rate / budget.level(family)).min(1.0));
                }
                if change.verdict != Verdict::Inconclusive {
                    return None;
                }
                let few = change.layouts.filter(|layouts| layouts.count == pairs_made as usize);
                if pairs_made >= pairs_needed {
                    let (has, made) = (change.n_pairs, number::grouped(pairs_made.into()));
                    change.reason = format!("in {has} of {made} pairs");
                } else if let Some((layouts, level)) =
                    few.zip(looks).filter(|(l, level)| l.early_p <= *level)
                {
                    change.verdict = Verdict::Changed;
                    change.p_adjusted = Some((layouts.early_p * rate / level).min(1.0));
                    change.reason = format!("farther apart than {} shift it", layouts.words());
                } else if let Some(layouts) = few {
                    change.verdict = Verdict::FewLayouts;
                    change.p_adjusted = None;
                    change.reason = format!("exact, {}", layouts.words());
                    change.pairs_needed = Some(pairs_needed);
                } else {
                    change.reason = match plan.computers() {
                        Some(_) => {
                            format!("needs {} computers", plan.computers_of_pairs(pairs_needed))
                        }
                        None => format!("needs {pairs_needed} pairs"),
                    };
                    change.pairs_needed = Some(pairs_needed);
                }
                // For side metrics beyond those planned for, opcost asks for no more pairs.
                (pairs_made < pairs_needed && weight >= 1.0).then_some(pairs_needed)
            },
        );
        pairs_for_all = pairs_for_all.max(lack.into_iter().flatten().max());
    }
    for row in rows {
        let settled = settled(row);
        let open = row.changes.iter_mut().filter(|change| change.verdict == Verdict::Inconclusive);
        for change in open {
            if change.identical {
                change.verdict = Verdict::Unchanged;
                change.reason = match change.layouts.filter(|_| !row.exact) {
                    Some(layouts) => format!("same, {}", layouts.words()),
                    None => "the same in every run".into(),
                };
            } else if settled && change.paired.is_some() {
                change.verdict = Verdict::Changed;
                change.reason = "exact: each side the same in every run".into();
            }
        }
        for change in &mut row.changes {
            change.note_floor();
        }
    }
    pairs_for_all
}

/// The level at which an early look at exact counts decides the primary metric. If the plan has a look and the look ended the
/// recording, this is the part of the budget reserved for the look. Without a look in the plan, it is the primary metric's whole
/// budget, which applies if pairs are too few for the signed-rank test.
fn early_level(recording: &Recording) -> Option<f64> {
    match (recording.plan.stop.look_pairs, recording.state) {
        (Some(_), State::StoppedSettled) => Some(early::LEVEL),
        (Some(_), _) => None,
        (None, _) => Some(recording.plan.stop.error_budget().primary),
    }
}

pub(super) fn family_of(row: &Row) -> Option<multiple::Family> {
    match (row.primary, row.family) {
        (true, _) => Some(multiple::Family::Primary),
        (_, Family::Headline) => Some(multiple::Family::Headline),
        (_, Family::Rest) => Some(multiple::Family::Rest),
        (_, Family::Control) => None,
    }
}

/// Gives a change its interval and its verdict at the level that decides for its family. A change is real exactly if its interval
/// does not contain 0. It is inconclusive if the units are too few to reach the level.
fn decide(change: &mut Change, exact: bool, level: f64, seed: u64) {
    let Some(paired) = &change.paired else { return };
    let reachable = paired.p_floor() <= level;
    let changed = paired.p() <= level;
    // The minimal detectable effect is computed only if no change was found, as it takes longest.
    let (interval, shift) = if reachable && !changed {
        paired.interval_and_detectable(level, seed)
    } else {
        (paired.interval(1.0 - level), None)
    };
    change.ci_level = 1.0 - level;
    if !exact {
        change.ci = interval.and_then(|interval| paired.ratios(interval));
    }
    if changed && !exact {
        let interval = change.plain.as_ref().and_then(|plain| plain.interval(1.0 - level));
        change.difference_ci = interval.filter(|(low, high)| *low > 0.0 || *high < 0.0);
    }
    change.verdict = if changed {
        if exact {
            change.reason = "the same in every run of a variant".into();
        }
        Verdict::Changed
    } else if !reachable {
        Verdict::Inconclusive
    } else {
        // A change of less than one per run cannot exist.
        let ratio = shift.and_then(|shift| paired.ratio(shift)).map(f64::abs);
        let step_ratio = paired.step_ratio(change.step).map_or(0.0, f64::abs);
        change.mde_ratio = ratio.map(|ratio| ratio.max(step_ratio));
        change.mde_difference =
            shift.filter(|_| ratio.is_none()).map(|shift| shift.abs().max(change.step));
        Verdict::Unchanged
    };
}

fn twin(recording: &Recording, columns: &Columns, rows: &[Row]) -> Vec<TwinRow> {
    let mut twins = Vec::new();
    for row in rows.iter().filter(|row| row.per_op) {
        let key = MetricKey { region: TWIN.into(), ..row.key.clone() };
        let Some(metric) = recording.dictionary.id(&key) else { continue };
        let median = |column: &Column| {
            Some(&column.values)
                .filter(|_| column.multiplexed == 0)
                .and_then(|all| summary::median(all))
        };
        twins.push(TwinRow {
            label: row.label.clone(),
            unit: row.unit,
            values: columns.by_metric[usize::from(metric)].iter().map(median).collect(),
        });
    }
    twins
}

/// The warning that names the number of pairs which would decide the changes left open.
fn too_few_pairs(recording: &Recording, rows: &[Row], fewest: u32) -> Option<Warning> {
    // An exact difference already is an answer.
    let mut open = rows
        .iter()
        .flat_map(|row| &row.changes)
        .filter(|change| change.verdict != Verdict::FewLayouts);
    if !open.any(|change| change.pairs_needed.is_some()) {
        return None;
    }
    let plan = &recording.plan;
    Some(match plan.computers() {
        Some(computers) => {
            Warning::TooFewComputers { computers, fewest: plan.computers_of_pairs(fewest) }
        }
        None => Warning::TooFewPairs { pairs: recording.pairs_made(), fewest },
    })
}

/// Commands that seem to be meant for a shell.
fn for_a_shell(plan: &Plan) -> Option<Warning> {
    let pieces = plan.variants.iter().filter_map(|variant| {
        Some((variant.name.clone(), shell_syntax::in_work(&variant.work)?.to_string()))
    });
    let variants: Vec<(String, String)> = pieces.collect();
    (!variants.is_empty()).then_some(Warning::ShellSyntax { variants })
}

/// Commands that end so soon that their start is most of the time measured.
fn short_runs(plan: &Plan, rows: &[Row], finished: &[Vec<&Record>]) -> Option<Warning> {
    const SHORT_NS: f64 = 5e6;
    if plan.scope() != Scope::Command {
        return None;
    }
    let wall = rows.iter().find(|row| row.key.name == "wall")?;
    let figures = plan.variants.iter().zip(&wall.values).zip(finished);
    let medians = figures.filter_map(|((variant, figures), runs)| {
        let ops = runs.first()?.ops.filter(|_| wall.per_op).unwrap_or(1);
        let median = figures.as_ref()?.center() * ops as f64;
        (median < SHORT_NS).then(|| (variant.name.clone(), median as u64))
    });
    let variants: Vec<(String, u64)> = medians.collect();
    (!variants.is_empty()).then_some(Warning::ShortRuns { variants })
}
