//! Benchmarks that are written for a framework, counted exactly and as they are: `opcost bench`.
//!
//! ```text
//! command ─ subject ─▶ programs ─ frameworks ─▶ trials ─ runner ─▶ counts ─ line ─▶ instructions an iteration
//! ```
//!
//! **Two numbers of iterations are counted, and the difference is the benchmark.** What a framework does around its loop is the same in
//! both. Where a framework chooses the number by time, the program gets a clock whose steps opcost chooses (`clock`); the loop is found
//! between two readings of that clock, by their numbers. A further number of iterations has to lie on the line of these two.

#![forbid(unsafe_code)]

mod clock;
mod compare;
mod frameworks;
mod line;
pub mod page;
mod runner;
mod subject;

pub use compare::{Change, Limit, changes};
pub use frameworks::{FRAMEWORKS, Framework};
pub use line::{FunctionShare, Slope};
pub use runner::Runner;

use anyhow::Result;
use frameworks::{Steadiness, Subject};
use opcost_base::exit::{Status, fail, in_words, status_of};
use opcost_record::nearest::did_you_mean;
use runner::Trial;
use std::ffi::OsString;
use std::path::Path;

/// The most instructions that a number of iterations may cost, so that a further one is worth its time.
const INSTRUCTIONS_MAX: u64 = 3_000_000_000;
/// The same for the largest number, which is a check only.
const CHECK_INSTRUCTIONS_MAX: u64 = 300_000_000;

/// A benchmark, found.
#[derive(Clone, Debug)]
pub struct Benchmark {
    /// Its name: that of its framework, behind its program's if there are several.
    pub name: String,
    subject: Subject,
    own_name: String,
    place: usize,
}

impl Benchmark {
    /// The name of its framework.
    pub fn framework(&self) -> &'static str {
        self.subject.framework.name
    }

    /// The program that was built for it; `None` if an interpreter runs it.
    pub fn program(&self) -> Option<&Path> {
        let Subject { framework, invocation, .. } = &self.subject;
        (!framework.is_interpreted).then_some(&invocation.program)
    }

    /// The version of its framework, if its program has it.
    pub fn version(&self) -> Option<&str> {
        self.subject.version.as_deref()
    }

    /// Why the framework's version may be read wrongly; `None` if that version was tried.
    pub fn untried(&self) -> Option<String> {
        let Framework { name, tried, .. } = self.subject.framework;
        let version = self.version().filter(|version| !tried.contains(version))?;
        Some(format!("{name} {version} was not tried with opcost; {} was", tried.join(", ")))
    }
}

/// A benchmark and its cost, or why there is none.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The benchmark's name.
    pub name: String,
    /// Its framework and version.
    pub framework: String,
    /// Its cost.
    pub cost: std::result::Result<Slope, String>,
    /// What a reader should know about the figure.
    pub notes: Vec<String>,
}

/// Finds the benchmarks of a command.
///
/// `words`: the command; `folder`: where it runs; `names`: the wanted ones, whole or as parts of names; all, if empty.
///
/// # Errors
/// The build failed, no framework knows the program, there is no benchmark, or a name matches none.
pub fn find(
    runner: &Runner<'_>,
    words: &[OsString],
    folder: &Path,
    names: &[String],
) -> Result<Vec<Benchmark>> {
    let subjects = subject::subjects(runner, words, folder)?;
    let mut found: Vec<(Subject, Vec<String>)> = Vec::new();
    for subject in subjects {
        let names = (subject.framework.list)(runner, &subject)?;
        if !names.is_empty() {
            found.push((subject, names));
        }
    }
    let several = found.len() > 1;
    let mut all = Vec::new();
    for (subject, names) in found {
        for (place, own_name) in names.into_iter().enumerate() {
            let name =
                if several { format!("{}: {own_name}", subject.prefix) } else { own_name.clone() };
            all.push(Benchmark { name, subject: subject.clone(), own_name, place });
        }
    }
    if all.is_empty() {
        let known: Vec<&str> = FRAMEWORKS.iter().map(|row| row.name).collect();
        return Err(fail(
            Status::Usage,
            format!(
                "the command has no benchmark of a framework that opcost knows ({})",
                known.join(", ")
            ),
        ));
    }
    for name in names {
        if !all.iter().any(|benchmark| is_meant(benchmark, name)) {
            let known: Vec<&str> = all.iter().map(|benchmark| benchmark.name.as_str()).collect();
            let near = did_you_mean(name, known.iter().copied());
            return Err(fail(
                Status::Usage,
                format!(
                    "no benchmark has '{name}' in its name{near}; --list shows all {}",
                    known.len()
                ),
            ));
        }
    }
    all.retain(|benchmark| names.is_empty() || names.iter().any(|name| is_meant(benchmark, name)));
    Ok(all)
}

fn is_meant(benchmark: &Benchmark, name: &str) -> bool {
    benchmark.name.contains(name)
}

/// Counts a benchmark.
///
/// # Errors
/// The user interrupted, or the emulator cannot be started. A failure of the benchmark is in the result.
pub fn measure(runner: &Runner<'_>, benchmark: &Benchmark) -> Result<Measured> {
    let Benchmark { name, subject, own_name, place } = benchmark;
    runner.take_threads();
    let framework = match benchmark.version() {
        Some(version) => format!("{} {version}", subject.framework.name),
        None => subject.framework.name.to_owned(),
    };
    let mut notes = Vec::new();
    let trials = (subject.framework.trials)(runner, subject, own_name, *place);
    let cost = match trials.and_then(|trials| counted(runner, subject, &trials, &mut notes)) {
        Ok(slope) => Ok(slope),
        Err(error) if status_of(&error) == Some(Status::WorkFailed) => Err(in_words(&error)),
        Err(error) => return Err(error),
    };
    let threads = runner.take_threads();
    if threads > 0 {
        notes.push(format!(
            "it starts {threads} threads; only the thread that its framework times is counted"
        ));
    }
    notes.extend(benchmark.untried());
    Ok(Measured { name: name.clone(), framework, cost, notes })
}

/// Counts the trials, and draws the line.
fn counted(
    runner: &Runner<'_>,
    subject: &Subject,
    trials: &[Trial],
    notes: &mut Vec<String>,
) -> Result<Slope> {
    let mut counts = counts_of(runner, trials)?;
    let steadiness = subject.framework.steadiness;
    let is_exact = |count: &line::Count| {
        count.functions.keys().all(|name| steadiness(name) == Steadiness::Exact)
    };
    if !counts.iter().all(is_exact) {
        let again = counts_of(runner, trials)?;
        let mut dropped = line::keep_steady(&mut counts, &again, steadiness);
        dropped.retain(|(_, each)| each.abs() >= 1.0);
        dropped.sort_by(|one, other| other.1.total_cmp(&one.1));
        let names =
            dropped.iter().take(3).map(|((name, _), each)| format!("{name} (about {each:.0})"));
        let names: Vec<String> = names.collect();
        if !names.is_empty() {
            notes.push(format!("not counted, as they vary: {}", names.join(", ")));
        }
    }
    let slope = line::slope(&counts);
    slope
        .filter(|slope| slope.points.last().is_some_and(|(_, instructions)| *instructions > 0))
        .ok_or_else(|| {
            fail(
                Status::WorkFailed,
                "no instructions were counted between the framework's readings of the clock",
            )
        })
}

/// Counts the trials, as many as are worth their time.
fn counts_of(runner: &Runner<'_>, trials: &[Trial]) -> Result<Vec<line::Count>> {
    let mut counts = Vec::new();
    for (number, trial) in trials.iter().enumerate() {
        let each = counts
            .last()
            .map_or(0, |count: &line::Count| count.instructions / count.iterations.max(1));
        let limit = if number < 3 { INSTRUCTIONS_MAX } else { CHECK_INSTRUCTIONS_MAX };
        if number > 1 && each.saturating_mul(trial.iterations) > limit {
            break;
        }
        let mut count = runner.count(trial)?;
        count.instructions = count.functions.values().map(|(own, _)| own).sum();
        counts.push(count);
    }
    // The first iteration has to make ready what later ones find; it counts only where there is no other check.
    if counts.len() > 3 {
        counts.remove(0);
    }
    Ok(counts)
}
