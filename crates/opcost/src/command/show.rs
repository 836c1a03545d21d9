//! `opcost show`: shows a recording again.

use crate::command::annotate::{AnnotateArgs, find_function, line_costs, of_variant};
use crate::command::profile::SourceArgs;
use anyhow::Result;
use clap::Args;
use opcost_analysis::comparison;
use opcost_analysis::comparison::address_runs::AddressRuns;
use opcost_analysis::comparison::call_tree::VariantOf;
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_command::globals::Globals;
use opcost_command::output::{OutputArgs, present_unless, print};
use opcost_command::profile_exports::{ProfileExports, find_variant};
use opcost_command::share::ShareArgs;
use opcost_command::steps;
use opcost_model::plan::{self, SameFile};
use opcost_model::recording::Recording;
use opcost_page::writer::text::text;
use opcost_profile::annotate::AnnotateError;
use opcost_record::Unit;
use opcost_report::render::annotated as page;
use opcost_store::store::{Store, StoreError};

/// Arguments of `opcost show`.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The recording: its identifier, the identifier's beginning, or last
    #[arg(default_value = "last")]
    pub id: String,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub profiles: ProfileExports,

    /// Variant to show and whose profile to export, by name or position; may be repeated [default:
    /// all variants]
    #[arg(long, value_name = "NAME", help_heading = "Profiles")]
    pub variant: Vec<String>,

    /// Waive a rule of the comparability ledger; opcost prints the waiver; may be repeated
    #[arg(long, value_name = "RULE")]
    pub allow: Vec<String>,

    /// Compare the functions of the baseline's file OLD with those of the variant's file NEW, each
    /// given by path or name; may be repeated [default: opcost matches files by path, name or role]
    #[arg(long = "match", value_name = "OLD=NEW")]
    pub matches: Vec<SameFile>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub annotate: AnnotateArgs,

    /// Show only the operation that --steps recorded, with all its lines
    #[arg(long, conflicts_with = "annotate")]
    pub steps: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub share: ShareArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
}

/// `opcost show`.
pub fn show(globals: &Globals, args: &ShowArgs) -> Result<Status> {
    for rule in &args.allow {
        plan::find_rule(rule)?;
    }
    args.output.check()?;
    args.profiles.check(args.output.printing().as_deref())?;
    let mut recording = Store::open_for_reading(&globals.store_path()?)
        .and_then(|store| store.read(&args.id))
        .map_err(StoreError::carried)?;
    recording.plan.allow.extend(args.allow.iter().cloned());
    take_matches(&mut recording, &args.matches)?;
    let replacer = args.share.apply(globals, std::slice::from_mut(&mut recording))?;
    let named = |name: &String| replacer.as_ref().map_or(name.clone(), |made| made.text(name));
    let variants: Vec<String> = args.variant.iter().map(named).collect();
    if args.annotate.is_given() {
        return annotated(globals, args, &recording, &variants);
    }
    if args.steps {
        return stepped(globals, args, &recording);
    }
    args.profiles.write(&recording, &variants, |variant| {
        line_costs(variant, &SourceArgs::default().sources(globals))
    })?;
    let taken = args.profiles.printing().is_some();
    let shown = match args.profiles.is_empty() {
        true => positions(&recording, &variants)?,
        false => Vec::new(),
    };
    let presented = present_unless(taken, globals, &recording, &shown, &args.output);
    // The process ends anyway, so its memory goes back at once: freeing 100,000 runs piece by piece takes time.
    std::mem::forget(recording);
    presented
}

/// Shows the operation of each comparison step by step.
fn stepped(globals: &Globals, args: &ShowArgs, recording: &Recording) -> Result<Status> {
    let (mut comparison, _) = comparison::compare(recording);
    if comparison.steps.is_empty() {
        let why = format!(
            "--steps: recording {} has no steps; record it with --machine emulated --steps",
            recording.id
        );
        return Err(fail(Status::Usage, why));
    }
    steps::add_lines(&mut comparison, recording, globals.read_limit_bytes());
    if args.output.json || args.output.format.as_deref() == Some("json") {
        let steps: Vec<_> = comparison.steps.iter().map(opcost_steps::json).collect();
        return print(&opcost_base::json::document(&steps, "steps")?).map(|()| Status::Done);
    }
    let style = globals.style().with_full_names(args.output.full_names);
    for found in &comparison.steps {
        print(&text(&opcost_steps::whole(found), &style))?;
    }
    Ok(Status::Done)
}

/// Shows a function of a variant by line.
fn annotated(
    globals: &Globals,
    args: &ShowArgs,
    recording: &Recording,
    variants: &[String],
) -> Result<Status> {
    let variant = match variants {
        [] => VariantOf { recording, variant: 0 },
        [first, ..] => find_variant(recording, first)?,
    };
    let runs = AddressRuns::of(variant).map_err(HasStatus::carried)?;
    let functions = runs.in_files();
    let wanted = args.annotate.function();
    let dearest = || functions.iter().max_by_key(|one| one.cost).map(|one| one.number);
    let function = match wanted {
        Some(name) => find_function(variant, &functions, name)?,
        None => dearest().ok_or(AnnotateError::NoAddresses).status(Status::Usage)?,
    };
    let sources = SourceArgs::default().sources(globals);
    let annotation = of_variant(variant, &runs, function, &sources, args.annotate.all_roots())?;
    let view = page::View {
        name: &format!("{}, recording {}", variant.name(), recording.id),
        event: "instructions",
        unit: Unit::Count,
        counted: true,
        annotation: &annotation,
    };
    let json = (args.output.json || args.output.format.as_deref() == Some("json"))
        .then(|| page::json(&view));
    let document = page::document(&view, args.output.full_names);
    args.annotate.show(globals, args.output.full_names, &document, json)
}

/// The positions of these variants, which are compared with another.
fn positions(recording: &Recording, names: &[String]) -> Result<Vec<usize>> {
    let compared = recording.comparisons();
    let position = |name: &String| {
        let position = find_variant(recording, name)?.variant;
        match compared.iter().any(|(_, variant)| *variant == position) {
            true => Ok(position),
            false => {
                let why =
                    format!("--variant {name}: the others are compared with it; name one of them");
                Err(fail(Status::Usage, why))
            }
        }
    };
    names.iter().map(position).collect()
}

/// Adds pairs of files that count as the same file to a recording, which must have both files.
///
/// # Errors
/// The first pair with a file that the recording lacks.
pub(crate) fn take_matches(recording: &mut Recording, matches: &[SameFile]) -> Result<()> {
    let stored = std::mem::replace(&mut recording.plan.matches, matches.to_vec());
    comparison::check_matches(recording).map_err(HasStatus::carried)?;
    recording.plan.matches.extend(stored);
    Ok(())
}
