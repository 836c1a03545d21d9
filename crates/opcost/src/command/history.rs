//! `opcost history`.

use crate::command::export::store_of_folder;
use anyhow::{Context, Result};
use clap::Args;
use opcost_analysis::comparison::limit::{FailOn, Watched};
use opcost_analysis::history::{Question, history};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail, in_words};
use opcost_base::message::announce;
use opcost_command::chosen::{ChosenArgs, none_chosen};
use opcost_command::exports::{check_apart, check_file};
use opcost_command::globals::Globals;
use opcost_command::output::{print, write_whole};
use opcost_gate::gate::notes::NotesHistory;
use opcost_kernel::{Repository, short_commit};
use opcost_model::recording::Recording;
use opcost_page::writer::text::text;
use opcost_record::nearest::did_you_mean;
use opcost_report::render::html::timeline::Timeline;
use opcost_report::render::{gate, history as page};
use opcost_store::store::{Choice, Listed, RecordingHead, Store, StoreError, StoreErrorKind};
use std::path::{Path, PathBuf};

/// Arguments of `opcost history`.
#[derive(Args, Debug)]
pub struct HistoryArgs {
    /// The experiment: its name, as opcost list recordings shows it; with --notes a case of opcost.toml
    pub experiment: String,

    /// Show what opcost gate --notes kept of a case in this repository, commit by commit up to HEAD
    #[arg(long, conflicts_with_all = ["variant", "fail_on", "last", "label"])]
    pub notes: bool,

    /// Read the recordings that opcost export wrote into this folder, in place of the store
    #[arg(long, value_name = "DIR", conflicts_with = "notes")]
    pub folder: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub chosen: ChosenArgs,

    /// The metric, as tables show it; may be repeated [default: the primary one]
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<String>,

    /// The variant [default: the baseline of the newest recording]
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,

    /// Print JSON on standard output; --json - is the same
    #[arg(long)]
    pub json: bool,

    /// Write the figures over time as a page with charts, for a browser; it needs no server
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the newest figure and its change as a badge, a picture (SVG) for a README
    #[arg(long, value_name = "FILE")]
    pub badge: Option<PathBuf>,

    /// End with status 1 if a series ends on a worse level than before and the environment did not
    /// change with it. With LIMIT (0.5%, 10000, 2ms, '0.5% or 2ms'), the level must be worse by
    /// more than LIMIT
    #[arg(long, value_name = "WHAT[=LIMIT]")]
    pub fail_on: Option<FailOn>,
}

/// Shows the recordings of an experiment over time.
pub fn show(globals: &Globals, args: &HistoryArgs) -> Result<Status> {
    if let Some(fail_on) = args.fail_on.as_ref().filter(|fail_on| fail_on.what != Watched::Primary)
    {
        let why = format!(
            "--fail-on {fail_on}: opcost history takes regression or regression=LIMIT; --metric names the metric"
        );
        return Err(fail(Status::Usage, why));
    }
    if let Some(path) = &args.html {
        check_file("--html", path)?;
    }
    if let Some(path) = &args.badge {
        check_file("--badge", path)?;
        if let Some(html) = &args.html {
            check_apart(("--html", html), ("--badge", path))?;
        }
    }
    if args.notes {
        return show_notes(globals, args);
    }
    let (_scratch, store) = match &args.folder {
        Some(folder) => {
            let tell = |path: &Path, error: &anyhow::Error| {
                announce!("{} is left out: {}", path.display(), in_words(error));
            };
            let (scratch, store) = store_of_folder(folder, globals.read_limit_bytes(), tell)?;
            (Some(scratch), store)
        }
        None => {
            let store = Store::open_for_reading(&globals.store_path()?);
            (None, store.map_err(StoreError::carried)?)
        }
    };
    let choice = Choice { by_date: true, ..args.chosen.choice(Some(&args.experiment)) };
    let Listed { heads, damaged } = store.list_chosen(&choice).map_err(StoreError::carried)?;
    for damaged in &damaged {
        report_damaged(&damaged.name, &damaged.why);
    }
    let mut recordings: Vec<Recording> = Vec::new();
    for head in &heads {
        match store.read(&head.id) {
            Ok(recording) => recordings.push(recording),
            // One damaged recording must not hide the others.
            Err(StoreError { kind: StoreErrorKind::Damaged { recording, why }, .. }) => {
                report_damaged(&recording, &why);
            }
            Err(error) => return Err(error.carried()),
        }
    }
    if recordings.is_empty() {
        return Err(none_chosen(&store, &choice)?);
    }
    let question = Question { metrics: args.metric.clone(), variant: args.variant.clone() };
    let mut history = history(recordings, &question)?;
    if let Some(note) = set_back(&heads) {
        history.series.iter_mut().for_each(|series| series.notes.push(note.clone()));
    }
    let unit = args.fail_on.as_ref().and_then(|fail_on| fail_on.limit?.absolute?.unit);
    if let Some(unit) = unit
        && let Some(series) = history.series.iter().find(|series| series.unit != unit)
    {
        let why = format!(
            "--fail-on: the figures of {} are in {}, and the limit is in another unit",
            series.metric,
            series.unit.symbol()
        );
        return Err(fail(Status::Usage, why));
    }
    write_pictures(args, &Timeline::of_recordings(&history))?;
    let text = match args.json {
        true => page::json(&history)?,
        false => text(&page::document(&history), &globals.style()),
    };
    print(&text)?;
    let failed = args.fail_on.as_ref().is_some_and(|fail_on| history.regressed_by(fail_on.limit));
    Ok(if failed { Status::Regression } else { Status::Done })
}

/// Says that the computer's clock was set back between recordings that were made here; `heads`: in the order of their dates.
fn set_back(heads: &[RecordingHead]) -> Option<String> {
    let here = heads.iter().filter(|head| head.arrived_unix_ns.is_none() && !head.imported);
    let here: Vec<&RecordingHead> = here.collect();
    let pairs: Vec<&[&RecordingHead]> =
        here.windows(2).filter(|pair| pair[1].number < pair[0].number).collect();
    let pair = pairs.first()?;
    let more = match pairs.len() - 1 {
        0 => String::new(),
        1 => " (and between two others)".into(),
        more => format!(" (and between {more} other pairs)"),
    };
    Some(format!(
        "{} was made after {} and has an earlier date, as the clock was set back{more}: rows stand in the order of \
         dates, which may hide or make a change; opcost list recordings has the order in which they were made",
        pair[0].id, pair[1].id
    ))
}

/// Shows a case's figures from the notes of commits.
fn show_notes(globals: &Globals, args: &HistoryArgs) -> Result<Status> {
    let here = std::env::current_dir()
        .context("cannot read the working directory")
        .status(Status::Missing)?;
    let repository = Repository::find(&here).map_err(HasStatus::carried)?;
    let noted = repository.noted("HEAD").map_err(HasStatus::carried)?;
    let noted: Vec<(&str, &str, &str)> =
        noted.iter().map(|commit| (&*commit.id, &*commit.subject, &*commit.note)).collect();
    let (history, unreadable) = NotesHistory::of(&noted, &args.experiment, &args.metric);
    for (commit, why) in &unreadable {
        announce!("the note of {} is left out: {why}", short_commit(commit));
    }
    if history.series.is_empty() {
        let known = history.known.iter().map(String::as_str);
        let near = did_you_mean(&args.experiment, known);
        let why = format!(
            "no commit up to HEAD has a note of such a figure of case '{}'{near}; opcost gate --notes writes \
             them, and git fetch origin 'refs/notes/opcost:refs/notes/opcost' fetches those of others",
            args.experiment
        );
        return Err(fail(Status::Usage, why));
    }
    write_pictures(args, &Timeline::of_notes(&history))?;
    print(&match args.json {
        true => history.json(),
        false => text(&gate::notes::document(&history), &globals.style()),
    })?;
    Ok(Status::Done)
}

/// Writes the page and the badge that the arguments ask for.
fn write_pictures(args: &HistoryArgs, timeline: &Timeline) -> Result<()> {
    let write = |path: &Path, text: String| {
        write_whole(path, text.as_bytes(), 0o666)
            .with_context(|| format!("cannot write '{}'", path.display()))
            .status(Status::Missing)
    };
    if let Some(path) = &args.html {
        write(path, timeline.page())?;
    }
    if let Some(path) = &args.badge {
        let badge = timeline.badge().with_context(|| {
            format!("--badge: no recording of '{}' has a figure to show", args.experiment)
        });
        write(path, badge.status(Status::NotComparable)?)?;
    }
    Ok(())
}

/// Reports a damaged recording that is left out, on standard error.
fn report_damaged(recording: &str, why: &str) {
    announce!("recording {recording} is damaged and left out: {why}");
}
