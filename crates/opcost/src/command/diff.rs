//! `opcost diff`.

use crate::command::annotate::{AnnotateArgs, of_samples, of_two_variants};
use crate::command::profile::{SourceArgs, display_name};
use anyhow::Result;
use clap::{Args, ValueEnum};
use opcost_analysis::annotation::Annotation;
use opcost_analysis::comparison::annotated::AnnotatedDifference;
use opcost_analysis::comparison::call_tree::{CallTree, VariantOf};
use opcost_analysis::comparison::call_tree::{FunctionContext, function_context};
use opcost_analysis::comparison::check_matches_of;
use opcost_analysis::comparison::kernel_sources::{KernelFiles, Owners};
use opcost_analysis::comparison::profile_files::{
    EVENT_RULE, ProfileOf, annotated_difference, profile_difference,
};
use opcost_analysis::comparison::recorded_profiles::{DifferenceError, WORK_RULE, difference};
use opcost_analysis::comparison::two_recordings::compare_recordings;
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_command::function_option::{on_both_sides, the_function};
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_command::profile_exports::find_variant;
use opcost_lab::patch_sites;
use opcost_model::plan::{SameFile, find_rule};
use opcost_model::recording::Recording;
use opcost_page::document::{Document, Mark};
use opcost_page::writer;
use opcost_profile::annotate::{AnnotateError, FirstShown, first_shown, hot};
use opcost_profile::parallel;
use opcost_profile::read::about::EventAbout;
use opcost_record::{Function, Unit};
use opcost_report::render::annotated::difference as annotated_page;
use opcost_report::render::{self, Style, diff as page, sampled};
use opcost_store::store::{Store, StoreError};
use opcost_symbols::elf::{WHOLE_BYTES_MAX, source_files};
use opcost_sys::foreign_file;
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) const EXAMPLES: &str = "Examples:
  opcost diff
  opcost diff last --variant native --variant paravirt --format mail
  opcost diff 261121-69 261122-7d --variant paravirt
  opcost diff --function copy_page_range
  opcost diff --annotate=sort_rows old/perf.data new/perf.data
  opcost diff old/perf.data new/perf.data --ops 100000
  opcost diff --baseline old/*.data --variant new/*.data";

/// Arguments of `opcost diff`.
#[derive(Args, Clone, Debug)]
pub struct DiffArgs {
    /// The recording: its identifier, the identifier's beginning, or last. Or a file with a profile
    /// in a format listed below [default: last]
    id: Option<String>,

    /// The recording to compare it with [default: two variants of the first are compared], or the
    /// second file
    #[arg(value_name = "ID")]
    other: Option<String>,

    /// Files with profiles of the baseline, one file for each run; several may follow. --variant
    /// names the files of the other side. opcost then judges functions by files
    #[arg(long, value_name = "FILE")]
    baseline: Vec<PathBuf>,

    /// For files: operations that the work of each file performed, once for both sides or once for
    /// each side. opcost then compares costs per operation; otherwise it compares shares
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    ops: Vec<u64>,

    #[command(flatten)]
    source: SourceArgs,

    /// The variant, by name or position; give it twice for the baseline and the variant [default:
    /// the only choice, if there is one]. With --baseline: the files of the variant; several may
    /// follow
    #[arg(long, value_name = "NAME")]
    variant: Vec<String>,

    /// Show the callers and callees of this function; FILE:NAME if several have the name
    #[arg(long, value_name = "NAME")]
    function: Option<String>,

    #[command(flatten)]
    annotate: AnnotateArgs,

    /// Functions to show one by one, the largest changes first [default: all; 30 in mails and for
    /// files]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Waive a rule of the comparability ledger; here work is one, too, and for files event
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,

    /// Compare the functions of the baseline's file OLD with those of the variant's file NEW, each
    /// given by path or name; may be repeated [default: opcost matches files by path, name or role]
    #[arg(long = "match", value_name = "OLD=NEW")]
    matches: Vec<SameFile>,

    /// Show function names in full. Otherwise opcost shortens C++ and Rust names that do not fit,
    /// and drops template arguments, parameters and namespaces first
    #[arg(long)]
    full_names: bool,

    /// Show every metric of two recordings. Otherwise the table has the primary metric and the metrics
    /// that changed, and one line for each verdict names the others
    #[arg(long)]
    all: bool,

    /// What to print on standard output; mail lists the causes by weight, in 72 columns [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,

    /// Print JSON on standard output; it has every function; --json - is the same
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    Text,
    Mail,
    Markdown,
    Json,
}

/// `opcost diff`.
///
/// # Errors
/// [`DifferenceError`], an error of the store, or no such variant or function.
pub fn diff(globals: &Globals, args: &DiffArgs) -> Result<Status> {
    // The word behind --annotate is the first file, if one is missing.
    let is_missing = args.other.is_none() && args.baseline.is_empty();
    if is_missing && args.annotate.function().is_some_and(is_file) {
        let mut args = args.clone();
        let word = args.annotate.take_word();
        args.other = args.id.take();
        args.id = word;
        return diff(globals, &args);
    }
    if !args.baseline.is_empty() {
        if let Some(id) = args.id.as_ref().or(args.other.as_ref()) {
            let why =
                format!("{id}: with --baseline every file stands behind --baseline or --variant");
            return Err(fail(Status::Usage, why));
        }
        let variant: Vec<PathBuf> = args.variant.iter().map(PathBuf::from).collect();
        return files(globals, args, [&args.baseline, &variant]);
    }
    let id = args.id.as_deref().unwrap_or("last");
    if let Some(other) = &args.other
        && (is_file(id) || is_file(other))
    {
        if !args.variant.is_empty() {
            let why = "--variant: with files, give the baseline's files with --baseline and the variant's with --variant";
            return Err(fail(Status::Usage, why));
        }
        return files(globals, args, [&[PathBuf::from(id)], &[PathBuf::from(other)]]);
    }
    if !args.ops.is_empty() {
        let why = "--ops is for files with profiles; recordings know their operations";
        return Err(fail(Status::Usage, why));
    }
    for rule in args.allow.iter().filter(|rule| *rule != WORK_RULE) {
        find_rule(rule)?;
    }
    let format = if args.json { Format::Json } else { args.format.unwrap_or(Format::Text) };
    if args.function.is_some() && format == Format::Mail {
        return Err(fail(
            Status::Usage,
            "--format mail lists functions; with --function, choose text, markdown or json",
        ));
    }
    if let Some(path) =
        [Some(id), args.other.as_deref()].into_iter().flatten().find(|name| name.contains('/'))
    {
        let why = format!("'{path}' is no file, and identifiers of recordings have no '/'");
        return Err(fail(Status::Usage, why));
    }
    let store = Store::open_for_reading(&globals.store_path()?).map_err(StoreError::carried)?;
    let read = |id: &str| store.read(id).map_err(StoreError::carried);
    let mut first = read(id)?;
    let other = args.other.as_deref().map(read).transpose()?;
    // Both sides may be variants of the first recording.
    let given = variants(&first, other.as_ref(), &args.variant)?;
    check_matches_of(given, &args.matches).map_err(HasStatus::carried)?;
    first.plan.matches.extend(args.matches.iter().cloned());
    let variants = variants(&first, other.as_ref(), &args.variant)?;
    if args.annotate.is_given() {
        // The rules of the difference by function hold here, too.
        difference(variants, &args.allow).map_err(HasStatus::carried)?;
        let found = of_two_variants(&args.annotate, variants, &args.source.sources(globals))?;
        return show_lines(globals, args, "instructions", Unit::Count, found);
    }
    let style = globals.style().with_full_names(args.full_names);
    // Two recordings are first compared metric by metric, unless the output is about one function.
    let whole_page = args.function.is_none();
    let metrics = match variants[0].recording.id != variants[1].recording.id && whole_page {
        true => Some(compare_recordings(variants, &args.allow).map_err(HasStatus::carried)?),
        false => None,
    };
    let made = difference(variants, &args.allow);
    if let (Some(metrics), Err(DifferenceError::NoProfile(_))) = (&metrics, &made) {
        let text = match format {
            Format::Json => document(&render::across::json(metrics))?,
            _ => written(&render::across::document(metrics, args.all), format, &style),
        };
        print(&text)?;
        return Ok(Status::Done);
    }
    let mut difference = made.map_err(HasStatus::carried)?;
    if args.function.is_none() {
        difference.owners = owners(variants);
        let limit_bytes = globals.read_limit_bytes();
        difference.patch_sites = patch_sites::between(variants, &difference.functions, limit_bytes);
    }
    let context = match &args.function {
        Some(name) => Some(context(&difference.tree, name)?),
        None => None,
    };
    let text = match (&context, format) {
        (Some(context), Format::Json) => document(&page::function_json(&difference, context))?,
        (Some(context), _) => {
            written(&page::function_document(&difference, context), format, &style)
        }
        (None, Format::Json) => {
            let mut value = page::json(&difference);
            if let Some(metrics) = &metrics {
                value["metrics"] = render::across::json(metrics)["metrics"].take();
            }
            document(&value)?
        }
        (None, _) => {
            let limit = match format {
                // If no function is known to have changed, every sampled function is a cause.
                Format::Mail => page::causes(&difference, args.limit.unwrap_or(FUNCTIONS_SHOWN)),
                _ => args.limit.unwrap_or(usize::MAX),
            };
            let functions = page::document(&difference, limit);
            let whole = metrics.map_or(functions.clone(), |metrics| {
                let mut whole = render::across::document(&metrics, args.all);
                whole.gap();
                whole.mail = functions.mail.clone();
                whole.append(functions);
                whole
            });
            written(&whole, format, &style)
        }
    };
    print(&text)?;
    Ok(Status::Done)
}

/// Default number of functions of files, and in mails, that are shown one by one.
const FUNCTIONS_SHOWN: usize = 30;

/// Whether the name is that of a file, or of a folder that perf wrote with several threads.
fn is_file(name: &str) -> bool {
    let path = Path::new(name);
    path.is_file() || path.join("data").is_file()
}

/// Compares files with profiles, one a side or several.
fn files(globals: &Globals, args: &DiffArgs, paths: [&[PathBuf]; 2]) -> Result<Status> {
    if args.function.is_some() {
        let why = "--function: for recordings, not for files (opcost profile has it for one file)";
        return Err(fail(Status::Usage, why));
    }
    if paths[1].is_empty() {
        let why = "--baseline names the files of one side; name those of the other with --variant";
        return Err(fail(Status::Usage, why));
    }
    if let Some(rule) = args.allow.iter().find(|rule| *rule != EVENT_RULE) {
        let why = format!("--allow {rule}: of files only the rule {EVENT_RULE} can be waived");
        return Err(fail(Status::Usage, why));
    }
    let ops = match args.ops[..] {
        [] => [None; 2],
        [both] => [Some(both); 2],
        [one, two] => [Some(one), Some(two)],
        _ => {
            return Err(fail(Status::Usage, "--ops is given more than twice: there are two sides"));
        }
    };
    if paths.iter().any(|side| side.len() > 1) {
        refuse_repeated(paths)?;
    }
    let all: Vec<&PathBuf> = paths.into_iter().flatten().collect();
    // Names are looked up anew for each file, which takes longer than reading its samples.
    let read = parallel::map(all, usize::MAX, |path| args.source.read(globals, path));
    let mut read = read.into_iter().collect::<Result<Vec<_>>>()?;
    let of_variant = read.split_off(paths[0].len());
    let profiles = [read, of_variant];
    let names = file_names(paths);
    let side = |at: usize| -> Vec<ProfileOf<'_>> {
        let files = names[at].iter().zip(&profiles[at]);
        files.map(|(name, profile)| ProfileOf { name, profile, ops: ops[at] }).collect()
    };
    let side_names = names.each_ref().map(|side| match side.as_slice() {
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
        [] => String::new(),
    });
    let sides = [&*side(0), &*side(1)];
    if args.annotate.is_given() {
        return annotated_files(globals, args, sides, side_names);
    }
    let difference = profile_difference(sides, side_names, &args.allow, &args.matches)
        .map_err(HasStatus::carried)?;
    let format = if args.json { Format::Json } else { args.format.unwrap_or(Format::Text) };
    let text = match format {
        Format::Json => document(&sampled::difference::json(&difference))?,
        _ => {
            let limit = args.limit.unwrap_or(FUNCTIONS_SHOWN);
            let style = globals.style().with_full_names(args.full_names);
            written(&sampled::difference::document(&difference, limit), format, &style)
        }
    };
    print(&text)?;
    Ok(Status::Done)
}

/// Shows a function of files with profiles by line.
fn annotated_files(
    globals: &Globals,
    args: &DiffArgs,
    sides: [&[ProfileOf<'_>]; 2],
    names: [String; 2],
) -> Result<Status> {
    let sources = args.source.sources(globals);
    let shown = |functions: [&Function; 2]| -> Result<[Annotation; 2]> {
        let annotation = |side: usize| {
            let profiles: Vec<_> = sides[side].iter().map(|file| file.profile).collect();
            of_samples(&profiles, functions[side], &sources, args.annotate.roots(side))
        };
        Ok([annotation(0)?, annotation(1)?])
    };
    let (annotations, hidden) = match args.annotate.function() {
        Some(name) => (shown(named_on_both(name, sides)?)?, None),
        None => {
            let about = |([_, function], change): ([&Function; 2], f64)| {
                let symbol = &function.symbol;
                format!("{symbol} changed by {:+.2} % of the profile", 100.0 * change)
            };
            let changed = by_change(sides).into_iter();
            let found = first_shown(changed, |(functions, _)| shown(functions), about);
            found.ok_or(AnnotateError::NothingInCommon).status(Status::Usage)??
        }
    };
    let difference =
        annotated_difference(sides, names, annotations, &args.allow).map_err(HasStatus::carried)?;
    let about = &sides[1][0].profile.about;
    let unit = about.sampling.as_ref().map_or(Unit::Count, EventAbout::unit);
    show_lines(globals, args, &about.event, unit, (difference, hidden))
}

/// Shows the difference of a function by line, and why that of another one is not shown.
fn show_lines(
    globals: &Globals,
    args: &DiffArgs,
    event: &str,
    unit: Unit,
    (difference, hidden): FirstShown<AnnotatedDifference>,
) -> Result<Status> {
    let view = annotated_page::View { event, unit, difference: &difference };
    let is_json = args.json || args.format == Some(Format::Json);
    let json = is_json.then(|| annotated_page::json(&view));
    let mut document = annotated_page::document(&view, args.full_names);
    if let Some(hidden) = hidden {
        document.say(Mark::Doubt, hidden);
    }
    args.annotate.show(globals, args.full_names, &document, json)
}

/// The function of each side that a name means.
fn named_on_both<'a>(name: &str, sides: [&[ProfileOf<'a>]; 2]) -> Result<[&'a Function; 2]> {
    let functions = sides.map(|files| {
        let table = &files[0].profile.table;
        table.functions.iter().map(|cost| &cost.function).collect::<Vec<_>>()
    });
    on_both_sides(name, |side, name| {
        the_function("--annotate", sides[side][0].name, &functions[side], name)
            .map(|at| functions[side][at])
    })
}

/// The functions of both sides with the change of their part of the profile, the largest change first.
fn by_change<'a>(sides: [&[ProfileOf<'a>]; 2]) -> Vec<([&'a Function; 2], f64)> {
    let (old, new) = (hot(sides[0][0].profile), hot(sides[1][0].profile));
    // The file of another build usually has another path.
    let both = new.iter().filter_map(|(function, share)| {
        let (before, old) = old.iter().find(|(old, _)| old.symbol == function.symbol)?;
        Some(([*before, *function], share - old))
    });
    let mut both: Vec<_> = both.collect();
    both.sort_by(|one, two| two.1.abs().total_cmp(&one.1.abs()));
    both
}

/// Refuses a file that is given twice: it would count as two strangely similar runs.
fn refuse_repeated(paths: [&[PathBuf]; 2]) -> Result<()> {
    let mut known: Vec<PathBuf> = Vec::new();
    for path in paths.into_iter().flatten() {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if known.contains(&real) {
            let why = format!(
                "{} is given twice; each run is one file, and each file is given once",
                path.display()
            );
            return Err(fail(Status::Usage, why));
        }
        known.push(real);
    }
    Ok(())
}

/// A name for each file: the file's name, or the whole path if several files have one name.
fn file_names(paths: [&[PathBuf]; 2]) -> [Vec<String>; 2] {
    let short = paths.map(|side| side.iter().map(|path| display_name(path)).collect::<Vec<_>>());
    let mut all: Vec<&String> = short.iter().flatten().collect();
    all.sort();
    let distinct = all.windows(2).all(|two| two[0] != two[1]);
    match distinct {
        true => short,
        false => paths.map(|side| side.iter().map(|path| path.display().to_string()).collect()),
    }
}

/// The source files of the functions of the variants' kernels, as far as the cache has them.
fn owners(variants: [VariantOf<'_>; 2]) -> Owners {
    let cache = opcost_kernel::default_cache().ok();
    let of = |variant: VariantOf<'_>| {
        let state = variant.recording.machine.first()?;
        let kernel = state.kernels.iter().find(|kernel| kernel.variant == variant.variant)?;
        let files = || {
            let cache = cache.as_deref()?;
            // Builds write down whole paths; symbol tables have names only.
            if let Some(files) = opcost_kernel::functions_of(cache, &kernel.digest) {
                return Some(files);
            }
            let vmlinux = opcost_kernel::vmlinux_of(cache, &kernel.digest)?;
            source_files(&foreign_file::read(&vmlinux, WHOLE_BYTES_MAX).ok()?).ok()
        };
        Some(KernelFiles { kernel: kernel.name.clone(), files: files() })
    };
    Owners::of(variants.into_iter().filter_map(of).collect())
}

/// A document in a format for people.
fn written(report: &Document, format: Format, style: &Style) -> String {
    match format {
        Format::Mail => writer::mail::mail(report, style),
        Format::Markdown => writer::markdown::markdown(report, style),
        Format::Text | Format::Json => writer::text::text(report, style),
    }
}

fn document(value: &Value) -> Result<String> {
    opcost_base::json::document(value, "difference")
}

/// The baseline and the variant that the arguments name.
fn variants<'a>(
    first: &'a Recording,
    other: Option<&'a Recording>,
    named: &[String],
) -> Result<[VariantOf<'a>; 2]> {
    let other = other.filter(|other| other.id != first.id);
    let recordings = [first, other.unwrap_or(first)];
    match (named, other) {
        ([one, two], _) => {
            Ok([find_variant(recordings[0], one)?, find_variant(recordings[1], two)?])
        }
        ([both], Some(_)) => {
            Ok([find_variant(recordings[0], both)?, find_variant(recordings[1], both)?])
        }
        // A single name is compared with the baseline.
        ([one], None) => {
            Ok([VariantOf { recording: first, variant: 0 }, find_variant(first, one)?])
        }
        ([], None) if first.plan.variants.len() == 2 => {
            Ok([0, 1].map(|variant| VariantOf { recording: first, variant }))
        }
        ([], Some(_)) if recordings.iter().all(|recording| recording.plan.variants.len() == 1) => {
            Ok(recordings.map(|recording| VariantOf { recording, variant: 0 }))
        }
        ([], _) => Err(fail(Status::Usage, which(recordings))),
        _ => Err(fail(
            Status::Usage,
            "--variant is given more than twice; opcost diff compares one baseline with one variant",
        )),
    }
}

/// The message that lists the variants to choose from.
fn which(recordings: [&Recording; 2]) -> String {
    let names = |recording: &Recording| -> String {
        let variants = recording.plan.variants.iter();
        variants.map(|variant| variant.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let [one, two] = recordings;
    let mut text =
        format!("say which variants with --variant NAME; recording {} has {}", one.id, names(one));
    if one.id != two.id {
        text += &format!(", {} has {}", two.id, names(two));
    }
    text
}

/// The callers and callees of the one function of this name.
fn context(tree: &CallTree, name: &str) -> Result<FunctionContext> {
    let functions: Vec<&Function> = tree.functions.iter().collect();
    Ok(function_context(tree, the_function("--function", "the profile", &functions, name)?))
}
