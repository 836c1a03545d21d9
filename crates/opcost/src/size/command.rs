//! `opcost size`.

use super::difference::{Measured, compare};
use super::function::compare_function;
use super::input;
use crate::action::print;
use crate::cli::Cli;
use crate::exit::{HasStatus, Status};
use crate::render::Style;
use crate::render::size as page;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::Value;

/// Arguments of `opcost size`.
#[derive(Args, Debug)]
pub struct SizeArgs {
    /// The file or kernel to compare with
    #[arg(value_name = "A")]
    baseline: String,

    /// The file or kernel that changed
    #[arg(value_name = "B")]
    variant: String,

    /// Show this function's code in both, instruction by instruction; FILE:NAME of several alike
    #[arg(long, value_name = "NAME")]
    function: Option<String>,

    /// Rows to show one by one, the largest changes first
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,

    /// Show names of functions whole; else names of C++ and Rust are shortened where there is no room:
    /// template arguments, parameters and namespaces are left out first
    #[arg(long)]
    full_names: bool,

    /// What to print [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,

    /// Print JSON, with every symbol that differs; --json - is the same
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
/// [`SizeError`](super::SizeError), and what is wrong with a kernel.
pub fn size(cli: &Cli, args: &SizeArgs) -> Result<Status> {
    let bytes = [input::open(&args.baseline, cli.quiet)?, input::open(&args.variant, cli.quiet)?];
    let read = |name: &str, bytes| Measured::read(name, bytes).map_err(HasStatus::carried);
    let baseline = read(&args.baseline, &bytes[0])?;
    let variant = read(&args.variant, &bytes[1])?;
    let format = if args.json { Format::Json } else { args.format.unwrap_or(Format::Text) };
    let style = Style::detect(cli.no_color).with_full_names(args.full_names);
    if let Some(function) = &args.function {
        let difference =
            compare_function([&baseline, &variant], function).map_err(HasStatus::carried)?;
        let text = match format {
            Format::Text => page::code_text(&difference, &style),
            Format::Markdown => page::code_markdown(&difference),
            Format::Json => document(&page::code_json(&difference))?,
        };
        print(&text)?;
        return Ok(Status::Done);
    }
    let difference = compare([&baseline, &variant]).map_err(HasStatus::carried)?;
    let text = match format {
        Format::Text => page::text(&difference, args.limit, &style),
        Format::Markdown => page::markdown(&difference, args.limit),
        Format::Json => document(&page::json(&difference))?,
    };
    print(&text)?;
    Ok(Status::Done)
}

fn document(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value).context("sizes to JSON")? + "\n")
}
