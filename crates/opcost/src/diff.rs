//! `opcost diff`.

use crate::action::{print, store_path};
use crate::cli::Cli;
use crate::comparison::call_tree::{CallTree, VariantOf};
use crate::comparison::difference::{Difference, WORK_RULE, difference};
use crate::comparison::function_context::{FunctionContext, function_context, functions_named};
use crate::comparison::ledger;
use crate::comparison::owner::{KernelFiles, Owners};
use crate::exit::{HasStatus, Status, fail};
use crate::kernel;
use crate::nearest::nearest;
use crate::render::profile::find_variant;
use crate::render::{Style, diff as page};
use crate::store::{Recording, Store, StoreError};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use opcost_profile::symbols::elf::source_files;
use serde_json::Value;

/// Arguments of `opcost diff`.
#[derive(Args, Debug)]
pub struct DiffArgs {
    /// The recording: its identifier, the beginning of it, or last
    #[arg(default_value = "last")]
    id: String,

    /// The recording to compare it with [default: two variants of the first are compared]
    #[arg(value_name = "ID")]
    other: Option<String>,

    /// The variant, by name or position; twice for the baseline and the variant [default: where
    /// there is no choice, that]
    #[arg(long, value_name = "NAME")]
    variant: Vec<String>,

    /// Show the callers and callees of this function; FILE:NAME of several alike
    #[arg(long, value_name = "NAME")]
    function: Option<String>,

    /// Functions to show one by one, the largest changes first [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Compare all the same although this rule is broken: one of the ledger's, or work
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,

    /// What to print; mail: the causes by weight, in 72 columns [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,

    /// Print JSON, with every function; --json - is the same
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
/// [`DifferenceError`](crate::comparison::difference::DifferenceError), what is wrong with the
/// store, no such variant or function.
pub fn diff(cli: &Cli, args: &DiffArgs) -> Result<Status> {
    for rule in args.allow.iter().filter(|rule| *rule != WORK_RULE) {
        ledger::find_rule(rule)?;
    }
    let format = if args.json { Format::Json } else { args.format.unwrap_or(Format::Text) };
    if args.function.is_some() && format == Format::Mail {
        return Err(fail(
            Status::Usage,
            "--format mail is a list of functions; with --function there is text, markdown and json",
        ));
    }
    let store = Store::open_for_reading(&store_path(cli)?).map_err(StoreError::carried)?;
    let read = |id: &str| store.read(id).map_err(StoreError::carried);
    let first = read(&args.id)?;
    let other = args.other.as_deref().map(read).transpose()?;
    let variants = variants(&first, other.as_ref(), &args.variant)?;
    let mut difference = difference(variants, &args.allow).map_err(HasStatus::carried)?;
    if args.function.is_none() {
        difference.owners = owners(variants);
    }
    let style = Style::detect(cli.no_color);
    let text = match &args.function {
        Some(name) => {
            let context = context(&difference.tree, name)?;
            of_function(&difference, &context, format, &style)?
        }
        None => whole(&difference, args.limit.unwrap_or(usize::MAX), format, &style)?,
    };
    print(&text)?;
    Ok(Status::Done)
}

/// The source files of the functions of the variants' kernels, as far as the cache has them.
fn owners(variants: [VariantOf<'_>; 2]) -> Owners {
    let cache = kernel::default_cache().ok();
    let of = |variant: VariantOf<'_>| {
        let state = variant.recording.machine.first()?;
        let kernel = state.kernels.iter().find(|kernel| kernel.variant == variant.variant)?;
        let files = || {
            let vmlinux = kernel::vmlinux_of(cache.as_deref()?, &kernel.digest)?;
            source_files(&std::fs::read(vmlinux).ok()?).ok()
        };
        Some(KernelFiles { kernel: kernel.name.clone(), files: files() })
    };
    Owners::of(variants.into_iter().filter_map(of).collect())
}

fn whole(difference: &Difference, limit: usize, format: Format, style: &Style) -> Result<String> {
    Ok(match format {
        Format::Text => page::text(difference, limit, style),
        Format::Mail => page::mail(difference, limit),
        Format::Markdown => page::markdown(difference, limit),
        Format::Json => document(&page::json(difference))?,
    })
}

fn of_function(
    difference: &Difference,
    context: &FunctionContext,
    format: Format,
    style: &Style,
) -> Result<String> {
    Ok(match format {
        Format::Text | Format::Mail => page::function_text(difference, context, style),
        Format::Markdown => page::function_markdown(difference, context),
        Format::Json => document(&page::function_json(difference, context))?,
    })
}

fn document(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value).context("difference to JSON")? + "\n")
}

/// The baseline and the variant.
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
        // Against the baseline.
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
            "--variant is given more than twice: a baseline and a variant are compared",
        )),
    }
}

/// What to choose from.
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

/// The one function of this name.
fn context(tree: &CallTree, name: &str) -> Result<FunctionContext> {
    let found = functions_named(tree, name);
    let described = |function: &usize| {
        let function = &tree.functions[*function];
        format!("{}:{}", function.module, function.symbol)
    };
    match found.as_slice() {
        [one] => Ok(function_context(tree, *one)),
        [] => {
            let near =
                nearest(name, tree.functions.iter().map(|function| function.symbol.as_str()));
            let why = format!("--function {name}: no profile has it{near}");
            Err(fail(Status::Usage, why))
        }
        many => {
            let many: Vec<String> = many.iter().map(described).collect();
            let why = format!("--function {name}: there are several; say {}", many.join(" or "));
            Err(fail(Status::Usage, why))
        }
    }
}
