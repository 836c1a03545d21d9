//! `opcost size`.

use crate::command::measured_file;
use anyhow::Result;
use clap::{Args, ValueEnum};
use opcost_base::exit::{HasStatus, Status, fail};
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_page::writer::{markdown::markdown, text::text};
use opcost_report::render::size as page;
use opcost_size::{Measured, Names, compare, compare_function, sizes};
use opcost_symbols::debug_files::{DebugFiles, Moved};
use opcost_symbols::debug_package::DebugPackage;
use serde_json::Value;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "Examples:
  opcost size prog
  opcost size old/prog new/prog
  opcost size libold.a libnew.a --limit 50
  opcost size native paravirt
  opcost size ~/linux-a ~/linux-b --function copy_page_range";

/// Arguments of `opcost size`.
#[derive(Args, Debug)]
pub struct SizeArgs {
    /// The file or kernel to compare with, or the only one, shown by section and symbol
    #[arg(value_name = "A")]
    baseline: String,

    /// The file or kernel that changed [default: none, A is shown by itself]
    #[arg(value_name = "B")]
    variant: Option<String>,

    /// Show this function's code in both, instruction by instruction; FILE:NAME of several alike; parts
    /// and copies that the compiler made (NAME.isra.0) are found by the function's name
    #[arg(long, value_name = "NAME")]
    function: Option<String>,

    /// Rows to show one by one, the largest changes first; of one file, the largest symbols
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,

    /// Show function names in full. Otherwise opcost shortens C++ and Rust names that do not fit,
    /// and drops template arguments, parameters and namespaces first
    #[arg(long)]
    full_names: bool,

    /// What to print on standard output [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,

    /// Print JSON on standard output; it has every symbol that differs; --json - is the same
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Json,
}

/// `opcost size`.
///
/// # Errors
/// [`SizeError`](opcost_size::SizeError), and the errors of preparing a kernel.
pub fn size(globals: &Globals, args: &SizeArgs) -> Result<Status> {
    let Some(name_of_variant) = &args.variant else { return alone(globals, args) };
    let [one, other] =
        [&args.baseline, name_of_variant].map(|name| measured_file::open(name, globals.quiet));
    let files = [one?, other?];
    let moved = files.each_ref().map(|file| moved(globals, file));
    let read = |name: &str, side: usize| {
        let (_, bytes) = &files[side];
        Measured::with_moved(name, bytes, Some(&moved[side])).map_err(HasStatus::carried)
    };
    let baseline = read(&args.baseline, 0)?;
    let variant = read(name_of_variant, 1)?;
    let format = format_of(args);
    let style = globals.style().with_full_names(args.full_names);
    if let Some(function) = &args.function {
        let difference =
            compare_function([&baseline, &variant], function).map_err(HasStatus::carried)?;
        let text = match format {
            Format::Text => text(&page::code_document(&difference), &style),
            Format::Markdown => markdown(&page::code_document(&difference), &style),
            Format::Json => document(&page::code_json(&difference))?,
        };
        print(&text)?;
        return Ok(Status::Done);
    }
    let mut difference = compare([&baseline, &variant]).map_err(HasStatus::carried)?;
    difference.notes.extend(packages([&baseline, &variant].into_iter().zip(&files)));
    let text = match format {
        Format::Text => text(&page::document(&difference, args.limit), &style),
        Format::Markdown => markdown(&page::document(&difference, args.limit), &style),
        Format::Json => document(&page::json(&difference))?,
    };
    print(&text)?;
    Ok(Status::Done)
}

/// Finds the files that have a file's symbols or debug information.
fn moved(globals: &Globals, (path, bytes): &(PathBuf, Vec<u8>)) -> Moved {
    let places = DebugFiles::of_environment(Some(globals.announcer()));
    places.moved(path, bytes, globals.read_limit_bytes())
}

/// Names the packages with the symbols of files that have not all.
fn packages<'f>(
    files: impl Iterator<Item = (&'f Measured<'f>, &'f (PathBuf, Vec<u8>))>,
) -> impl Iterator<Item = String> {
    let stripped = files.filter(|(file, _)| file.inventory.names != Names::Full);
    let paths = stripped.filter_map(|(_, (path, _))| path.to_str());
    DebugPackage::of_files(paths).into_iter().map(|package| package.to_string())
}

fn format_of(args: &SizeArgs) -> Format {
    if args.json { Format::Json } else { args.format.unwrap_or(Format::Text) }
}

/// Shows one file by itself.
fn alone(globals: &Globals, args: &SizeArgs) -> Result<Status> {
    if let Some(function) = &args.function {
        let why = format!(
            "--function {function}: it shows the code of two files side by side; give the other file, too"
        );
        return Err(fail(Status::Usage, why));
    }
    let found = measured_file::open(&args.baseline, globals.quiet)?;
    let moved = moved(globals, &found);
    let file = Measured::with_moved(&args.baseline, &found.1, Some(&moved));
    let file = file.map_err(HasStatus::carried)?;
    let mut sizes = sizes(&file);
    sizes.notes.extend(packages([(&file, &found)].into_iter()));
    let style = globals.style().with_full_names(args.full_names);
    print(&match format_of(args) {
        Format::Text => text(&page::alone_document(&sizes, args.limit), &style),
        Format::Markdown => markdown(&page::alone_document(&sizes, args.limit), &style),
        Format::Json => document(&page::alone_json(&sizes))?,
    })?;
    Ok(Status::Done)
}

fn document(value: &Value) -> Result<String> {
    opcost_base::json::document(value, "sizes")
}
