//! `opcost profile`.

mod source;

use crate::command::annotate::{AnnotateArgs, of_samples};
use crate::command::subject::{SubjectArgs, Taken};
use anyhow::Result;
use clap::Args;
use opcost_analysis::comparison::call_tree::{CallTree, Counted};
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_command::exports::printed_by;
use opcost_command::function_option::the_function;
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_command::profile_exports::ProfileExports;
use opcost_model::plan::OpsPattern;
use opcost_page::document::Mark;
use opcost_page::writer::text::text;
use opcost_profile::annotate::{AnnotateError, hottest};
use opcost_profile::distortion::distortions;
use opcost_profile::read::about::{About, EventAbout};
use opcost_profile::read::{self, ReadProfile};
use opcost_profile::symbolise::{Sampled, Why, symbolise};
use opcost_profile::table::FunctionTable;
use opcost_record::{Failure, Function, Unit};
use opcost_report::render::annotated as annotated_page;
use opcost_report::render::sampled as page;
use opcost_symbols::debug_package::DebugPackage;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use source::SourceArgs;

/// The package with a file's symbols is named if the file has one sample in this many.
const ADVICE_PARTS: u64 = 100;

pub(crate) const EXAMPLES: &str = "Examples:
  opcost profile 'gzip -9 -c data'
  opcost profile --call-graph dwarf --callers './prog --fast'
  opcost profile -w mmap:ops=100000
  opcost profile -a --duration 10s --export-flamegraph machine.svg
  opcost profile --input perf.data
  opcost profile --input perf.data --callers --limit 5
  opcost profile --input callgrind.out.4711 --function memcpy
  opcost profile --input perf.data --annotate memcpy
  perf record -o - -g ./work | opcost profile --input -
  opcost profile --input cpu.pb.gz --event cpu
  opcost profile --input perf.data --export-flamegraph profile.svg";

/// Arguments of `opcost profile`.
#[derive(Args, Clone, Debug)]
pub struct ProfileArgs {
    #[command(flatten)]
    subject: SubjectArgs,

    /// Show an existing profile in any format listed below; - reads it from standard input
    #[arg(long, short = 'i', value_name = "FILE", help_heading = "Profiles in files",
          conflicts_with_all = ["command", "workload", "pid", "all"])]
    input: Option<PathBuf>,

    #[command(flatten)]
    source: SourceArgs,

    /// Show the call paths to each function below it
    #[arg(long)]
    callers: bool,

    /// Show this function with all its call paths; FILE:NAME if several have the name
    #[arg(long, value_name = "NAME")]
    function: Option<String>,

    /// Functions to show one by one, the most expensive first
    #[arg(long, value_name = "N", default_value_t = 30)]
    limit: usize,

    /// How functions are sorted
    #[arg(long, value_name = "COLUMN", default_value_t, value_enum)]
    sort: page::Sort,

    /// Operations that the work performed, or a regular expression that finds their number in what the
    /// command prints (one match, one group); opcost then shows costs per operation
    #[arg(long, value_name = "N|REGEX")]
    ops: Option<Ops>,

    #[command(flatten)]
    annotate: AnnotateArgs,

    /// Show function names in full. Otherwise opcost shortens C++ and Rust names that do not fit,
    /// and drops template arguments, parameters and namespaces first
    #[arg(long)]
    full_names: bool,

    /// Print JSON on standard output; it has every function; --json - is the same
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    exports: ProfileExports,
}

/// The number of operations, or where it is printed.
#[derive(Clone, Debug)]
enum Ops {
    Number(NonZeroU64),
    Printed(OpsPattern),
}

impl FromStr for Ops {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Ops, String> {
        match text.parse::<u64>().map(NonZeroU64::new) {
            Ok(Some(number)) => Ok(Ops::Number(number)),
            Ok(None) => Err("nothing can be divided by 0 operations".into()),
            Err(_) => text.parse().map(Ops::Printed),
        }
    }
}

/// The formats of files with profiles, for help texts.
pub fn formats_help() -> String {
    let of_perf = ("perf.data", "what perf record writes, also a folder of --threads");
    let formats = read::FORMATS.iter().map(|format| (format.name, format.help));
    let lines = [of_perf].into_iter().chain(formats);
    let lines = lines.map(|(name, help)| format!("  {name}: {help}"));
    format!(
        "Formats of files with profiles, recognised by their contents, also packed by gzip, zstd or xz:\n{}",
        lines.collect::<Vec<_>>().join("\n")
    )
}

/// `opcost profile`.
///
/// # Errors
/// The file is at fault, there is no such function, or a file cannot be written.
pub fn profile(globals: &Globals, args: &ProfileArgs) -> Result<Status> {
    // The word behind --annotate is the command, if nothing else is to be profiled.
    if args.annotate.is_given() && args.input.is_none() && !args.subject.is_given() {
        let mut args = args.clone();
        if let Some(word) = args.annotate.take_word() {
            args.subject.set_command(word);
            return profile(globals, &args);
        }
    }
    args.exports.check(printed_by(None, args.json).as_deref())?;
    let Subject { name, profile, ops, failure } = subject(globals, args)?;
    if args.annotate.is_given() {
        return annotated(globals, args, &name, &profile);
    }
    if !args.exports.is_empty() {
        let ReadProfile { about, table, sampled, .. } = &profile;
        match sampled {
            Some(sampled) => args.exports.write_tree(&call_tree(about, sampled, &name, ops))?,
            None => args.exports.write_table(table, &about.event, &name)?,
        }
    }
    let distortions = distortions(&profile);
    let function = args
        .function
        .as_deref()
        .map(|name| find("--function", &profile.table, name))
        .transpose()?;
    let view = page::View {
        name: &name,
        profile: &profile,
        distortions: &distortions,
        ops,
        limit: args.limit,
        callers: args.callers,
        function,
        order: args.sort.order(&profile.table),
        naming: profile.table.naming(),
    };
    if args.exports.printing().is_some() {
        // An export uses standard output in place of the table.
    } else if args.json {
        print(&opcost_base::json::document(&page::json(&view), "profile")?)?;
    } else {
        let style = globals.style().with_full_names(args.full_names);
        let mut document = page::document(&view);
        let stripped = profile.sampled.iter().flat_map(|sampled| {
            let total = sampled.samples_total();
            let stripped = sampled.unnamed.iter().filter(|unnamed| unnamed.why == Why::Stripped);
            stripped.filter(move |unnamed| unnamed.samples.saturating_mul(ADVICE_PARTS) >= total)
        });
        for package in DebugPackage::of_files(stripped.map(|unnamed| unnamed.module.as_str())) {
            document.say(Mark::Note, package.to_string());
        }
        print(&text(&document, &style))?;
    }
    if failure.is_none() && profile.table.total == 0 {
        return Err(fail(
            Status::WorkFailed,
            page::without_samples(&name, &profile, args.input.is_some()),
        ));
    }
    match failure {
        Some(failure) => Err(fail(
            Status::WorkFailed,
            format!("{name}: {}", opcost_base::failure::in_words(&failure)),
        )),
        None => Ok(Status::Done),
    }
}

/// Shows a function by line.
fn annotated(
    globals: &Globals,
    args: &ProfileArgs,
    name: &str,
    profile: &ReadProfile,
) -> Result<Status> {
    let sources = args.source.sources(globals);
    let shown =
        |function: &Function| of_samples(&[profile], function, &sources, args.annotate.all_roots());
    let (annotation, hidden) = match args.annotate.function() {
        Some(wanted) => {
            let at = find("--annotate", &profile.table, wanted)?;
            (shown(&profile.table.functions[at].function)?, None)
        }
        None => {
            hottest(profile, shown).ok_or(AnnotateError::NoAddresses).status(Status::Usage)??
        }
    };
    let view = annotated_page::View {
        name,
        event: &profile.about.event,
        unit: profile.about.sampling.as_ref().map_or(Unit::Count, EventAbout::unit),
        counted: profile.sampled.is_none(),
        annotation: &annotation,
    };
    let json = args.json.then(|| annotated_page::json(&view));
    let mut document = annotated_page::document(&view, args.full_names);
    if let Some(hidden) = hidden {
        document.say(Mark::Doubt, hidden);
    }
    args.annotate.show(globals, args.full_names, &document, json)
}

/// A profile, and facts about its work.
struct Subject {
    name: String,
    profile: ReadProfile,
    ops: Option<u64>,
    failure: Option<Failure>,
}

/// Reads the profile of a file, or samples the work.
fn subject(globals: &Globals, args: &ProfileArgs) -> Result<Subject> {
    let (given, printed) = match &args.ops {
        Some(Ops::Number(number)) => (Some(number.get()), None),
        Some(Ops::Printed(pattern)) => (None, Some(pattern)),
        None => (None, None),
    };
    if let (Some(pattern), false) = (printed, args.subject.is_command()) {
        let why =
            format!("--ops '{pattern}': only a command prints its operations; give their number");
        return Err(fail(Status::Usage, why));
    }
    if let Some(path) = &args.input {
        let profile = args.source.read(globals, path)?;
        return Ok(Subject { name: display_name(path), profile, ops: given, failure: None });
    }
    if !args.subject.is_given() {
        let why = "what is to be profiled? Give a command, a workload (-w), a process (-p), \
                   everything (-a), or a file with a profile (--input)";
        return Err(fail(Status::Usage, why));
    }
    let Taken { about, recorded, name, ops, failure } = args.subject.take(printed)?;
    let recorded = recorded.taken_here();
    let profile = read::sampled(about, symbolise(&recorded, &args.source.sources(globals)));
    Ok(Subject { name, profile, ops: given.or(ops), failure })
}

/// A file's name for a heading.
pub(crate) fn display_name(path: &Path) -> String {
    if path == Path::new(read::STANDARD_INPUT) {
        return "standard input".into();
    }
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The index of the one function of this name.
fn find(option: &str, table: &FunctionTable, name: &str) -> Result<usize> {
    let functions: Vec<&Function> = table.functions.iter().map(|cost| &cost.function).collect();
    the_function(option, "the profile", &functions, name)
}

/// The call tree, for export to other tools.
fn call_tree(about: &About, sampled: &Sampled, name: &str, ops: Option<u64>) -> CallTree {
    let sampling = about.sampling.as_ref();
    let counted = Counted::sampled(
        &about.event,
        sampling.map_or(Unit::Count, EventAbout::unit),
        sampling.and_then(|sampling| sampling.period),
        sampling.and_then(|sampling| sampling.frequency_hz),
    );
    CallTree::of_profile(counted, name.to_string(), &sampled.profile, ops)
}
