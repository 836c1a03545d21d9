//! The line of option sets between two ends: each point has one difference more than the point before it.
//!
//! The changes of all steps of the line add up to the whole change. The change of an option alone,
//! added to the good end, differs from its step by the option's interaction with the options before it.

use super::walk::{How, Point};
use super::{BisectArgs, Ends, begin, count_ends, recipe_files, report, unless_ended};
use crate::gate::WorkingDirectory;
use crate::gate::measure::store_path;
use anyhow::{Context, Result};
use clap::ValueEnum;
use opcost_base::exit::{HasStatus, Status, WithStatus, cause, fail};
use opcost_command::globals::Globals;
use opcost_gate::gate::bisect::{Alone, BisectStep, Bisection, Suspect, SuspectKind};
use opcost_gate::gate::edits::{Edit, edits, is_setting, with_edits};
use opcost_gate::gate::search::Found;
use opcost_gate::gate::suite::Case;
use opcost_kernel::{KernelError, RepositoryCommit, digest, options_of};
use opcost_model::experiment::KernelRecipe;
use opcost_model::plan::guest::Question;
use opcost_sys::xdg;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The sort of options that the search is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum OptionKind {
    /// Kernel configurations: two files, whole or fragments.
    KernelConfig,
    /// Options of the kernel's command line.
    Boot,
    /// CPU models with features: `max` and `max,-avx2`.
    Cpu,
    /// Compiler flags, which the build sees in CFLAGS.
    Cflags,
}

impl OptionKind {
    fn kind(self) -> SuspectKind {
        match self {
            OptionKind::KernelConfig => SuspectKind::Option,
            _ => SuspectKind::Word,
        }
    }

    /// The question that sets of such options put.
    fn question(self, command: bool) -> Question {
        let kernels = matches!(self, OptionKind::KernelConfig | OptionKind::Boot);
        Question::of(kernels, self == OptionKind::Cpu, command)
    }

    fn separator(self) -> char {
        if self == OptionKind::Cpu { ',' } else { ' ' }
    }
}

/// `opcost bisect --options`.
pub(super) fn bisect(globals: &Globals, args: &BisectArgs, kind: OptionKind) -> Result<Bisection> {
    let bad = args.bad.as_deref().unwrap_or_default();
    let own = args.own_case()?;
    let needs_revision = own.as_ref().is_none_or(|case| case.build.is_some());
    if kind == OptionKind::Cpu && args.cpu_model.is_some() {
        let why = "--options cpu: --good and --bad name the CPUs; leave out --cpu-model";
        return Err(fail(Status::Usage, why));
    }
    if kind == OptionKind::Cflags && !needs_revision {
        let why =
            "--options cflags: nothing is built; give a case that is, or --build and a command";
        return Err(fail(Status::Usage, why));
    }
    let cache = xdg::cache_folder().status(Status::Usage)?;
    let home = cache.join("bisect");
    let recordings = home.join("recordings.sqlite");
    let (interrupt, top, repository) = match needs_revision {
        true => {
            let WorkingDirectory { interrupt, repository, .. } = WorkingDirectory::find()?;
            (interrupt, repository.top.clone(), Some(repository))
        }
        false => WorkingDirectory::here().map(|(interrupt, here)| (interrupt, here, None))?,
    };
    let mut case = match (own, &repository) {
        (Some(case), _) => case,
        (None, Some(repository)) => args.case(repository)?,
        (None, None) => return Err(fail(Status::Usage, "give a case, a workload or a command")),
    };
    args.check_exact(&case)?;
    let question = kind.question(case.is_command());
    case.ask(question);
    let head = repository.as_ref().map(|of| of.commit("HEAD").map_err(HasStatus::carried));
    let line = line(args, kind, &case, head.transpose()?.as_ref(), &home, bad)?;
    let place = (store_path(globals, recordings)?, top);
    let walk = begin(globals, &interrupt, repository.as_ref(), place, args, &case, kind.kind());
    let mut bisection = search(globals, args, walk, line)?;
    bisection.notes.extend(args.contains_ticks(&case, question));
    Ok(bisection)
}

fn search<'a>(
    globals: &'a Globals,
    args: &BisectArgs,
    walk: super::Walk<'a>,
    line: Line,
) -> Result<Bisection> {
    let Line { points, alone, ends: names } = line;
    let refusal = match args.options {
        Some(OptionKind::Cflags) => {
            "the flags have no effect on it, perhaps since the Makefile sets CFLAGS itself (then write \
             build = 'make CFLAGS=\"$CFLAGS\"'); see another figure with --metric or --function"
        }
        _ => "the options have no effect on it; see another figure with --metric or --function",
    };
    let mut ends = count_ends(walk, globals, &points, [&names[0], &names[1]], refusal)?;
    let found = ends.walk.search(&mut ends.worker, &points, ends.search.clone())?;
    let mut bisection = report(&ends, &found, &points);
    bisection.ends = names.map(|id| Suspect { id, ..Suspect::default() });
    let name = bisection.figure.name.clone();
    let good = bisection.figure.values[0];
    let mut steps = std::mem::take(&mut bisection.steps);
    for (step, found) in steps.iter_mut().zip(found.steps()) {
        if found.to - found.from == 1 && bisection.ended.is_none() {
            let looked = look_at(&mut ends, (&points, &alone), &found, (&name, good), step);
            unless_ended(&mut bisection, looked)?;
        }
    }
    bisection.steps = steps;
    bisection.known = ends.walk.known;
    Ok(bisection)
}

/// Checks the culprit of a step, and counts it alone.
///
/// `figure`: the figure's name, and its value at the good end.
fn look_at(
    ends: &mut Ends<'_>,
    (points, alone): (&[Point], &[Point]),
    found: &Found,
    figure: (&str, u64),
    step: &mut BisectStep,
) -> Result<()> {
    let Ends { walk, worker, .. } = ends;
    // Check the points as they were counted: without options that need later ones.
    let mut counted = [found.from, found.to].map(|at| points[at].clone());
    for point in &mut counted {
        if let Ok(reading) = walk.read(worker, point, How::kept("checked"))? {
            point.case = reading.case;
        }
    }
    let [before, culprit] = &counted;
    walk.explain(worker, [before, culprit], step)?;
    step.check = Some(walk.check(worker, [before, culprit], step.change, &step.functions)?);
    // The first step starts at the good end, so it shows its option alone.
    step.alone = if found.from == 0 {
        Some(Alone::Moves(step.change))
    } else {
        let point = &alone[found.to - 1];
        let reading = walk.read(worker, point, How::kept("alone"))?;
        reading.ok().and_then(|reading| {
            if reading.case != point.case {
                return Some(Alone::NeedsOthers);
            }
            let value = *walk.figures(&reading).get(figure.0)?;
            Some(Alone::Moves(i128::from(value) - i128::from(figure.1)))
        })
    };
    Ok(())
}

/// Points from one set of options to another, and each option alone on top of the first set.
struct Line {
    points: Vec<Point>,
    alone: Vec<Point>,
    /// The names of the ends.
    ends: [String; 2],
}

fn line(
    args: &BisectArgs,
    kind: OptionKind,
    case: &Case,
    revision: Option<&RepositoryCommit>,
    home: &Path,
    bad: &str,
) -> Result<Line> {
    let good = args.good.as_str();
    let point = |suspect: Suspect, case: Case| Point {
        suspect,
        case: Arc::new(case),
        revision: revision.cloned(),
    };
    let end = |id: &str| Suspect { id: id.into(), ..Suspect::default() };
    let ends = [good, bad].map(|end| match end.trim() {
        "" => "(none)".to_string(),
        words => words.to_string(),
    });
    let same = |what: &str| {
        let [good, bad] = &ends;
        let why = format!("{good} and {bad}: {what}, so there is nothing to search");
        fail(Status::NotComparable, why)
    };
    if kind == OptionKind::KernelConfig {
        let files = recipe_files(&[good, bad].map(PathBuf::from))?;
        let [from, to] = [&files[0], &files[1]].map(|path| options_of(path));
        let [from, to] = [from.map_err(HasStatus::carried)?, to.map_err(HasStatus::carried)?];
        let fragments = recipe_files(&args.kernel_config)?;
        let source = args.kernel_source.as_ref().map(std::path::absolute).transpose();
        let source = source.context("--kernel-source").status(Status::Usage)?;
        let differing = differing(&from, &to);
        if differing.is_empty() {
            return Err(same("both files set the same options"));
        }
        // Forbid from the start what only the second end forbids: the first end stays the same, and no defaults creep in.
        let forbidden =
            to.iter().filter(|(name, value)| *value == "n" && !from.contains_key(*name));
        let mut common = from.clone();
        common.extend(forbidden.map(|(name, value)| (name.clone(), value.clone())));
        let set = |chosen: &[&Differing]| {
            let mut options = common.clone();
            for one in chosen {
                match &one.to {
                    Some(value) => options.insert(one.name.clone(), value.clone()),
                    None => options.remove(&one.name),
                };
            }
            with_config(case, home, &fragments, source.as_ref(), &options)
        };
        let suspect = |one: &Differing| Suspect {
            id: format!("CONFIG_{}", one.name),
            title: format!("{} → {}", shown(one.from.as_ref()), shown(one.to.as_ref())),
            author: None,
        };
        let mut points = vec![point(end(&ends[0]), set(&[])?)];
        let mut alone = Vec::new();
        for (at, one) in differing.iter().enumerate() {
            let chosen: Vec<&Differing> = differing[..=at].iter().collect();
            points.push(point(suspect(one), set(&chosen)?));
            alone.push(point(suspect(one), set(&[one])?));
        }
        return Ok(Line { points, alone, ends });
    }
    let separator = kind.separator();
    let words = |text: &str| -> Vec<String> {
        let words = text.split(separator).map(str::trim).filter(|word| !word.is_empty());
        words.map(str::to_string).collect()
    };
    let (from, to) = (words(good), words(bad));
    let found = edits(&from, &to, |one, other| kind != OptionKind::Cpu && is_setting(one, other));
    if found.is_empty() {
        return Err(same("both have the same words"));
    }
    let of = |applied: &[bool]| {
        let text = with_edits(&from, &found, applied).join(&separator.to_string());
        with_words(case, kind, &text)
    };
    let suspect =
        |edit: &Edit| Suspect { id: edit.word().into(), title: edit.title(), author: None };
    let mut points = vec![point(end(&ends[0]), of(&vec![false; found.len()]))];
    let mut alone = Vec::new();
    for (at, edit) in found.iter().enumerate() {
        let applied: Vec<bool> = (0..found.len()).map(|other| other <= at).collect();
        points.push(point(suspect(edit), of(&applied)));
        let only: Vec<bool> = (0..found.len()).map(|other| other == at).collect();
        alone.push(point(suspect(edit), of(&only)));
    }
    Ok(Line { points, alone, ends })
}

fn shown(value: Option<&String>) -> &str {
    value.map_or("not said", String::as_str)
}

/// An option that two configurations set to different values.
struct Differing {
    name: String,
    from: Option<String>,
    to: Option<String>,
}

fn differing(from: &BTreeMap<String, String>, to: &BTreeMap<String, String>) -> Vec<Differing> {
    let mut names: Vec<&String> = from.keys().chain(to.keys()).collect();
    names.sort();
    names.dedup();
    let off = |value: Option<&String>| value.is_none_or(|value| value == "n");
    let differing = names.into_iter().filter_map(|name| {
        let (one, other) = (from.get(name), to.get(name));
        let same = one == other || (off(one) && off(other));
        (!same).then(|| Differing { name: name.clone(), from: one.cloned(), to: other.cloned() })
    });
    differing.collect()
}

/// A case on a kernel with these options over the fragments that all points have.
fn with_config(
    case: &Case,
    home: &Path,
    fragments: &[PathBuf],
    source: Option<&PathBuf>,
    options: &BTreeMap<String, String>,
) -> Result<Case> {
    let mut text = String::new();
    for (name, value) in options {
        let _ = match value.as_str() {
            "n" => writeln!(text, "# CONFIG_{name} is not set"),
            value => writeln!(text, "CONFIG_{name}={value}"),
        };
    }
    let name = format!("options-{}", &digest(text.as_bytes())[..12]);
    let folder = home.join("configs");
    let path = folder.join(format!("{name}.config"));
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&path, text))
        .with_context(|| format!("cannot write '{}'", path.display()))
        .status(Status::Missing)?;
    let config = fragments.iter().cloned().chain([path]).collect();
    let source = source.cloned();
    let mut case = case.clone();
    case.experiment.kernel_config.clear();
    case.experiment.kernel = vec![name.clone()];
    let recipe = KernelRecipe { source, config, ..KernelRecipe::default() };
    case.experiment.kernels = [(name, recipe)].into();
    Ok(case)
}

/// The case without the options that its kernel cannot have yet, because they need options that come later.
///
/// `None`: the error is about something else.
pub(super) fn softened(case: &Case, error: &anyhow::Error) -> Result<Option<Case>> {
    let Some(KernelError::Options(lines)) = cause::<KernelError>(error) else { return Ok(None) };
    let refused = lines.iter().filter_map(|line| {
        let rest = line.trim_start().trim_start_matches("# ").strip_prefix("CONFIG_")?;
        let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_');
        Some(rest[..end.unwrap_or(rest.len())].to_string())
    });
    let refused: Vec<String> = refused.collect();
    let Some((_, recipe)) = case.experiment.kernels.iter().next() else { return Ok(None) };
    let Some((path, fragments)) = recipe.config.split_last() else { return Ok(None) };
    let mut options = options_of(path).map_err(HasStatus::carried)?;
    let before = options.len();
    options.retain(|name, _| !refused.contains(name));
    if options.len() == before {
        return Ok(None);
    }
    let home = path.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    with_config(case, home, fragments, recipe.source.as_ref(), &options).map(Some)
}

/// A case with these words as boot options, CPU or compiler flags.
fn with_words(case: &Case, kind: OptionKind, words: &str) -> Case {
    let mut case = case.clone();
    match kind {
        OptionKind::Boot => case.experiment.boot = vec![words.to_string()],
        OptionKind::Cpu => case.experiment.cpu_model = vec![words.to_string()],
        OptionKind::Cflags => {
            let quoted =
                shlex::try_quote(words).map_or_else(|_| String::new(), |word| word.into_owned());
            case.build = case.build.map(|build| format!("export CFLAGS={quoted}; {build}"));
        }
        OptionKind::KernelConfig => {}
    }
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_model::experiment::{Command as CommandText, Variant};

    #[test]
    fn options_of_a_kernel_ask_what_its_paths_cost() {
        let path = |kind: OptionKind, command| kind.question(command) == Question::KernelPath;
        for command in [false, true] {
            assert!(path(OptionKind::Boot, command) && path(OptionKind::KernelConfig, command));
            assert!(!path(OptionKind::Cflags, command));
        }
        // A program may take other code on another CPU.
        assert!(path(OptionKind::Cpu, false) && !path(OptionKind::Cpu, true));
        let work = Variant {
            command: Some(CommandText::Line("./words sort".into())),
            ..Variant::default()
        };
        let mut case = Case::of_variant("command", work, None);
        case.ask(OptionKind::Cpu.question(case.is_command()));
        assert_eq!(case.usual_metric(), "instructions");
        case.ask(OptionKind::Boot.question(case.is_command()));
        assert_eq!(case.usual_metric(), "instructions-synchronous:k");
        case.experiment.kernel = vec!["none".into()];
        case.ask(Question::KernelPath);
        assert_eq!(case.experiment.primary, None);
    }

    #[test]
    fn options_that_need_later_ones_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let case = Case::of_variant("syscall", Variant::default(), None);
        let options = |text: &[(&str, &str)]| {
            text.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let fragments = [PathBuf::from("/kernels/base.config")];
        let with = |wanted: &[(&str, &str)]| {
            with_config(&case, folder.path(), &fragments, None, &options(wanted)).unwrap()
        };
        let asked = with(&[("XEN", "y"), ("XEN_PV", "y"), ("NET", "n")]);
        let refused = |lines: &[&str]| {
            let lines = lines.iter().map(|line| line.to_string()).collect();
            Err::<(), _>(KernelError::Options(lines)).status(Status::Usage).unwrap_err()
        };
        let lines = ["CONFIG_XEN=y: it depends on HYPERVISOR_GUEST", "CONFIG_XEN_PV=y: it is 'n'"];
        assert_eq!(softened(&asked, &refused(&lines)).unwrap(), Some(with(&[("NET", "n")])));
        // Options of the fragments that all points have, and other errors, stay errors.
        assert_eq!(softened(&asked, &refused(&["CONFIG_SLUB=y: not set"])).unwrap(), None);
        assert_eq!(softened(&asked, &fail(Status::WorkFailed, "no gcc")).unwrap(), None);
    }
}
