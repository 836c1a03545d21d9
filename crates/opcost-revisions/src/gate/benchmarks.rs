//! A case of a gate that has the benchmarks of a framework: each is a figure, with the functions that changed.

use super::held::{Gate, Standard, is_changed, metrics_of, of_case, recipe};
use crate::trees::Built;
use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_bench::{Change, FunctionShare, Measured, Runner, changes, find, measure};
use opcost_gate::gate::baseline::{Baseline, BaselineFigure};
use opcost_gate::gate::counts::{Count, PER_OPERATIONS};
use opcost_gate::gate::exact::ExactChange;
use opcost_gate::gate::judge::{Held, judge};
use opcost_gate::gate::key::FigureKey;
use opcost_gate::gate::report::{CaseReport, FigureReport};
use opcost_gate::gate::suite::Case;
use opcost_gate::gate::trailer::Accepted;
use opcost_kernel::{RepositoryCommit, digest};
use opcost_model::experiment::Command;
use opcost_record::emulation::COUNTING_VERSION;
use opcost_record::{Architecture, Better, Unit};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// How long one run of a benchmark may take, if the case does not say it.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The digits of a digest in a key.
const DIGITS: usize = 12;
/// A figure is a whole number, so it is that of so many iterations.
const ITERATIONS: f64 = 1e6;

fn scaled(per_iteration: f64) -> u64 {
    (per_iteration * ITERATIONS).round().max(0.0) as u64
}

/// The benchmarks of a case on one side, and what their counts depend on.
struct Counted {
    all: Vec<Measured>,
    /// One for each benchmark.
    keys: Vec<FigureKey>,
}

impl Gate<'_> {
    /// Counts the benchmarks of a case, and judges them.
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
        self.phases.report(&format!("counting the benchmarks of {}", case.name), None);
        let now = match of_case(self.counted(case, &words, tip))? {
            Ok(now) => now,
            Err(failure) => {
                report.failure = Some(failure);
                return Ok(());
            }
        };
        for (one, key) in now.all.iter().zip(&now.keys) {
            if let Ok(cost) = &one.cost {
                let (value, key) = (scaled(cost.instructions), key.clone());
                let figure = BaselineFigure { value, floor: None, key };
                self.updated.insert((case.name.clone(), metric(&one.name)), figure);
            }
        }
        report.key = now.keys.first().cloned().unwrap_or_default();
        match &self.standard {
            Standard::Base(commit) => {
                let commit = commit.clone();
                match of_case(self.counted_of(case, &words, &commit))? {
                    Ok(before) => self.against_base_benchmarks(case, &before, &now, report),
                    Err(failure) => report.failure = Some(self.on_base(case, failure)),
                }
            }
            Standard::Baseline { held, written, .. } => {
                let written = written.clone();
                report.figures = against_file(case, held, &now, &self.trailers_of(case));
                if report.figures.iter().any(is_changed) {
                    self.explain_benchmarks(case, &words, written.as_ref(), &now, report)?;
                }
            }
        }
        for one in &now.all {
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

    fn against_base_benchmarks(
        &self,
        case: &Case,
        before: &Counted,
        now: &Counted,
        report: &mut CaseReport,
    ) {
        let trailers = self.trailers_of(case);
        let changes = changes(&before.all, &now.all);
        for change in &changes {
            let [before, now] = change.sides.map(|side| {
                count(&change.name, side.ok_or_else(|| change.why.clone().unwrap_or_default()))
            });
            let key = FigureKey::default();
            report.figures.push(judge(&now, &key, &Held::Base(&before), case.limit, &trailers));
        }
        report.exact = (functions(&changes), 1);
    }

    /// Counts the revision that wrote the baseline, for the functions of a change.
    fn explain_benchmarks(
        &mut self,
        case: &Case,
        words: &[OsString],
        written: Option<&RepositoryCommit>,
        now: &Counted,
        report: &mut CaseReport,
    ) -> Result<()> {
        let before = self.writer_of_baseline(
            written,
            report,
            is_changed,
            |gate, commit| gate.counted_of(case, words, commit),
            |before| before.all.iter().map(value).collect(),
        )?;
        if let Some(before) = before {
            report.exact = (functions(&changes(&before.all, &now.all)), 1);
        }
        Ok(())
    }

    fn counted_of(
        &mut self,
        case: &Case,
        words: &[OsString],
        commit: &RepositoryCommit,
    ) -> Result<Counted> {
        let base = self.trees.built(commit, "base", recipe(case), &mut self.phases)?;
        self.phases.report(&format!("counting the benchmarks of {} on the base", case.name), None);
        self.counted(case, words, &base)
    }

    fn counted(&self, case: &Case, words: &[OsString], built: &Built) -> Result<Counted> {
        let runner = Runner::new(self.bench.interrupt, TIMEOUT)?;
        let folder = built.site.below(case.experiment.cwd.as_deref());
        let names = case.bench.clone().unwrap_or_default();
        let found = find(&runner, words, Path::new(&folder), &names).map_err(|error| {
            // A suite whose benchmarks a revision lacks is no mistake of the command line.
            fail(Status::WorkFailed, error)
        })?;
        let measured: Result<Vec<Measured>> =
            found.iter().map(|benchmark| measure(&runner, benchmark)).collect();
        let all = measured?;
        let keys = found.iter().zip(&all).map(|(benchmark, one)| {
            let own = benchmark.program().into_iter().chain([built.site.folder.as_path()]);
            let mut parts = vec![
                ("arch".to_string(), Architecture::X86_64.row().machine.to_string()),
                ("emulator".into(), runner.emulator_version().into()),
                ("opcost".into(), COUNTING_VERSION.to_string()),
                ("compiler".into(), built.site.compiler.clone().unwrap_or_default()),
                ("framework".into(), one.framework.clone()),
            ];
            parts.extend(files(one, &own.collect::<Vec<&Path>>()));
            FigureKey::new(parts)
        });
        let keys = keys.collect();
        Ok(Counted { all, keys })
    }
}

/// The files that execute a benchmark and are no part of the revision, with digests of their contents, as other figures' keys have them.
fn files(one: &Measured, own: &[&Path]) -> Vec<(String, String)> {
    let Ok(cost) = &one.cost else { return Vec::new() };
    let modules: BTreeSet<&Path> =
        cost.functions.iter().map(|share| Path::new(&share.module)).collect();
    let others = modules.into_iter().filter(|path| !own.iter().any(|own| path.starts_with(own)));
    let parts = others.filter_map(|path| {
        let bytes = std::fs::read(path).ok()?;
        let name = path.file_name()?.to_string_lossy();
        Some((format!("file:{name}"), digest(&bytes)[..DIGITS].to_string()))
    });
    parts.collect()
}

/// Judges the benchmarks by the lines of a baseline file.
fn against_file(
    case: &Case,
    held: &Baseline,
    now: &Counted,
    trailers: &[Accepted],
) -> Vec<FigureReport> {
    let known = metrics_of(held, &case.name);
    let of_now = now.all.iter().zip(&now.keys).map(|(one, key)| {
        let cost = one.cost.as_ref().map(|cost| cost.instructions).map_err(Clone::clone);
        (count(&one.name, cost), key)
    });
    let mut all: Vec<(Count, FigureKey)> =
        of_now.map(|(count, key)| (count, key.clone())).collect();
    // A case may have other benchmarks than those of its file.
    let gone = known.iter().filter(|metric| !all.iter().any(|(count, _)| count.metric == **metric));
    let gone: Vec<Count> = gone
        .filter_map(|metric| metric.strip_suffix(PER_OPERATIONS))
        .map(|name| count(name, Err("no such benchmark now; --update drops it".into())))
        .collect();
    all.extend(gone.into_iter().map(|count| (count, FigureKey::default())));
    let judged = all.iter().map(|(count, key)| {
        let figure = held.figure(&case.name, &count.metric);
        let standard = figure.map_or_else(|| Held::NoBaseline(known.clone()), Held::Baseline);
        judge(count, key, &standard, case.limit, trailers)
    });
    judged.collect()
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

/// The name of a benchmark's figure.
fn metric(name: &str) -> String {
    format!("{name}{PER_OPERATIONS}")
}

fn count(name: &str, cost: std::result::Result<f64, String>) -> Count {
    Count {
        metric: metric(name),
        unit: Unit::Count,
        better: Better::Lower,
        value: cost.map(scaled),
        floor: None,
        in_layouts: Vec::new(),
        is_beside: false,
    }
}

/// The name of a benchmark's figure, and its value.
fn value(one: &Measured) -> (String, Option<u64>) {
    (metric(&one.name), one.cost.as_ref().ok().map(|cost| scaled(cost.instructions)))
}

/// The functions of all changes, the largest change first.
fn functions(changes: &[Change]) -> Vec<ExactChange> {
    let several = changes.len() > 1;
    let mut all: Vec<ExactChange> =
        changes.iter().flat_map(|change| exact(change, several)).collect();
    all.sort_by_key(|change| std::cmp::Reverse(change.change().unsigned_abs()));
    all
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
