//! A case of a gate that has the benchmarks of a framework: each is a figure, with the functions that changed.

use super::held::{Gate, Standard, of_case, recipe};
use crate::trees::Built;
use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_bench::{Change, FunctionShare, Measured, Runner, changes, find, measure};
use opcost_gate::gate::counts::{Count, PER_OPERATIONS};
use opcost_gate::gate::exact::ExactChange;
use opcost_gate::gate::judge::{Held, judge};
use opcost_gate::gate::key::FigureKey;
use opcost_gate::gate::report::{CaseFailure, CaseReport};
use opcost_gate::gate::suite::Case;
use opcost_model::experiment::Command;
use opcost_record::{Better, Unit};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// How long one run of a benchmark may take, if the case does not say it.
const TIMEOUT: Duration = Duration::from_secs(120);
/// A figure is a whole number, so it is that of so many iterations.
const ITERATIONS: f64 = 1e6;

fn scaled(per_iteration: f64) -> u64 {
    (per_iteration * ITERATIONS).round().max(0.0) as u64
}

impl Gate<'_> {
    /// Counts the benchmarks of a case on both sides, and judges them.
    pub(super) fn benchmarks(
        &mut self,
        case: &Case,
        tip: &Built,
        report: &mut CaseReport,
    ) -> Result<()> {
        let words = words(case)?;
        let shown: Vec<String> =
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        report.work = format!("benchmarks of {}", shown.join(" "));
        let Standard::Base(commit) = &self.standard else {
            report.failure = Some(CaseFailure::Refused(
                "a baseline file holds no benchmarks; compare with a revision (--base)".into(),
            ));
            return Ok(());
        };
        let commit = commit.clone();
        self.phases.report(&format!("counting the benchmarks of {}", case.name), None);
        let now = match of_case(self.counted(case, &words, tip))? {
            Ok(now) => now,
            Err(failure) => {
                report.failure = Some(failure);
                return Ok(());
            }
        };
        let built = self.trees.built(&commit, "base", recipe(case), &mut self.phases);
        self.phases.report(&format!("counting the benchmarks of {} on the base", case.name), None);
        let before = match of_case(built.and_then(|base| self.counted(case, &words, &base)))? {
            Ok(before) => before,
            Err(failure) => {
                report.failure = Some(self.on_base(case, failure));
                return Ok(());
            }
        };
        let trailers = self.trailers_of(case);
        let changes = changes(&before, &now);
        for change in &changes {
            let [before, now] = change.sides.map(|side| count(change, side));
            let key = FigureKey::default();
            report.figures.push(judge(&now, &key, &Held::Base(&before), case.limit, &trailers));
        }
        let several = changes.len() > 1;
        let functions = changes.iter().flat_map(|change| exact(change, several));
        let mut functions: Vec<ExactChange> = functions.collect();
        functions.sort_by_key(|change| std::cmp::Reverse(change.change().unsigned_abs()));
        report.exact = (functions, 1);
        for one in &now {
            let untold = one.cost.as_ref().is_ok_and(|cost| cost.is_line == Some(false));
            if untold {
                self.notes.push(format!("{}: {} is not linear in iterations", case.name, one.name));
            }
            self.notes.extend(
                one.notes.iter().map(|note| format!("{}: {}: {note}", case.name, one.name)),
            );
        }
        Ok(())
    }

    fn counted(&self, case: &Case, words: &[OsString], built: &Built) -> Result<Vec<Measured>> {
        let runner = Runner::new(self.bench.interrupt, TIMEOUT)?;
        let folder = built.site.below(case.experiment.cwd.as_deref());
        let names = case.bench.clone().unwrap_or_default();
        let found = find(&runner, words, Path::new(&folder), &names).map_err(|error| {
            // A suite whose benchmarks a revision lacks is no mistake of the command line.
            fail(Status::WorkFailed, error)
        })?;
        found.iter().map(|benchmark| measure(&runner, benchmark)).collect()
    }
}

/// The words of a case's command.
fn words(case: &Case) -> Result<Vec<OsString>> {
    let command = case.experiment.variants.first().and_then(|variant| variant.command.as_ref());
    let texts = |words: Vec<String>| words.into_iter().map(OsString::from).collect();
    let words: Option<Vec<OsString>> = match command {
        Some(Command::Words(words)) => Some(words.clone()),
        Some(Command::Argv(words)) => Some(texts(words.clone())),
        Some(Command::Line(line)) => shlex::split(line).map(texts),
        None => None,
    };
    words.ok_or_else(|| {
        fail(Status::Usage, format!("case '{}': its command cannot be split into words", case.name))
    })
}

fn count(change: &Change, side: Option<f64>) -> Count {
    Count {
        metric: format!("{}{PER_OPERATIONS}", change.name),
        unit: Unit::Count,
        better: Better::Lower,
        value: side.map(scaled).ok_or_else(|| change.why.clone().unwrap_or_default()),
        floor: None,
        in_layouts: Vec::new(),
        is_beside: false,
    }
}

/// The functions of a change; with the benchmark's name if there are several.
fn exact(change: &Change, several: bool) -> Vec<ExactChange> {
    let of = |(share, instructions, calls): &(FunctionShare, f64, f64)| ExactChange {
        function: match several {
            true => format!("{} ({})", share.symbol, change.name),
            false => share.symbol.clone(),
        },
        own: [scaled(share.instructions - instructions), scaled(share.instructions)],
        calls: [scaled(share.calls - calls), scaled(share.calls)],
        is_kernel: false,
    };
    change.functions.iter().map(of).filter(|change| change.own[0] != change.own[1]).collect()
}
