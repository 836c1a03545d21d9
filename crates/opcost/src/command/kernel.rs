//! `opcost kernel`.

use crate::command::kernel_states::{self, ForgetArgs};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use opcost_base::exit::{HasStatus, Status, WithStatus};
use opcost_base::phases::Phases;
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_kernel::{
    Description, KernelSpec, Recipe, Revision, Toolchain, default_cache, find_revision, kept,
    prepare, short,
};
use opcost_lab::shipped::Shipped;
use opcost_page::document::{Cell, Column, Document, Mark, Row, Table};
use opcost_page::names::cut;
use opcost_page::writer::text::text;
use opcost_record::Architecture;
use opcost_sys::interrupt::Interrupt;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `opcost kernel`.
#[derive(Args, Debug)]
pub struct KernelArgs {
    #[command(subcommand)]
    what: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build a kernel from source and keep it under a name for --kernel NAME
    #[command(after_help = BUILD_EXAMPLES)]
    Build(BuildArgs),
    /// List the kernels that opcost built or downloaded, and the kept states of booted guests
    List(ListArgs),
    /// Remove kernels, with the kept states of their guests, from the cache
    Forget(ForgetArgs),
}

const BUILD_EXAMPLES: &str = "Examples:
  opcost kernel build --config base.config native.config --name native
  opcost kernel build --config my.config --source ~/linux --patch cure.patch --name cured
  opcost kernel build --config base.config native.config --source /usr/src/linux-source-6.12.tar.xz
  opcost kernel build --config base.config native.config --llvm --name clang
  opcost kernel build --source ~/linux --revision v6.12";

#[derive(Args, Debug)]
struct BuildArgs {
    /// Configuration fragments on top of tinyconfig, in order: files, or names of those that ship with
    /// opcost, such as base.config; a later fragment wins
    ///
    /// With --revision also one whole .config; without --config opcost's own small configuration.
    #[arg(long, value_name = "FRAGMENT", required_unless_present = "revision", num_args = 1..)]
    config: Vec<PathBuf>,

    /// Kernel source: a tree, to which opcost does not write, or a tarball [default: Debian's
    /// linux-source package; of several, the one that the release has as its own]
    #[arg(long, value_name = "SOURCE")]
    source: Option<PathBuf>,

    /// Build this revision of the git tree --source, in a worktree of opcost's own, as compare
    /// --kernel-tree does
    #[arg(long, value_name = "REV", requires = "source", conflicts_with_all = ["patch", "name"])]
    revision: Option<String>,

    /// Patches to apply to a copy of the source before the build (patch -p1), in order
    #[arg(long, value_name = "FILE", num_args = 1..)]
    patch: Vec<PathBuf>,

    /// Name of the kernel [default: the files' names, as in base+native]
    #[arg(long)]
    name: Option<String>,

    /// Build for guests of this architecture, x86-64 or arm64 (--config arm64.config), with the cross compiler
    #[arg(long, value_name = "NAME", default_value_t)]
    architecture: Architecture,

    /// Build with clang, lld and LLVM's other tools
    #[arg(long, conflicts_with = "cc")]
    llvm: bool,

    /// Build with another compiler, and binutils [default: gcc]
    #[arg(long, value_name = "PROGRAM")]
    cc: Option<String>,
}

#[derive(Args, Debug)]
struct ListArgs {
    /// List the kept states of booted guests alone
    #[arg(long)]
    states: bool,

    /// Print JSON on standard output; --json - is the same
    #[arg(long)]
    json: bool,
}

/// `opcost kernel`.
///
/// # Errors
/// The same as those of [`prepare`].
pub fn kernel(globals: &Globals, args: &KernelArgs) -> Result<Status> {
    match &args.what {
        Action::Build(args) => build_kernel(globals, args),
        Action::List(args) if args.states => kernel_states::list(globals, args.json),
        Action::List(args) => list_kernels(globals, args),
        Action::Forget(args) => kernel_states::forget(args),
    }
}

fn build_kernel(globals: &Globals, args: &BuildArgs) -> Result<Status> {
    let shipped = Shipped::here();
    let found = |files: &[PathBuf]| {
        files.iter().map(|file| shipped.recipe_file(Path::new(""), file)).collect()
    };
    let (config, patches): (Vec<PathBuf>, Vec<PathBuf>) = (found(&args.config), found(&args.patch));
    let toolchain = match &args.cc {
        Some(program) => Toolchain::Cc(program.clone()),
        None if args.llvm => Toolchain::Llvm,
        None => Toolchain::Gcc,
    };
    let spec = match (&args.revision, &args.source) {
        (Some(revision), Some(source)) => {
            let found = find_revision(source, revision, &config).map_err(HasStatus::carried)?;
            KernelSpec::Revision(Revision { toolchain, ..found })
        }
        _ => KernelSpec::Recipe(Recipe {
            name: (args.name.clone()).unwrap_or_else(|| Recipe::default_name(&config, &patches)),
            source: args.source.clone(),
            config,
            patches,
            toolchain,
        }),
    };
    let cache = default_cache().map_err(HasStatus::carried)?;
    let interrupt = Interrupt::install()
        .context("cannot install the signal handler")
        .status(Status::Missing)?;
    let mut shown = Phases::new(globals.quiet);
    let built = prepare(&spec, args.architecture, &cache, false, &interrupt, &mut |phase, done| {
        shown.report(phase, done)
    });
    shown.end();
    let kernel = built.map_err(HasStatus::carried)?;
    let release = kernel.release.as_deref().unwrap_or("unknown release");
    let of = kept(&cache).into_iter().find(|(path, _)| kernel.image.starts_with(path));
    let of = of.and_then(|(_, entry)| entry.made_from.into_iter().next());
    let of = of.map_or(String::new(), |source| format!(" of {source}"));
    print(&format!("{}: Linux {release}{of}, {}\n", kernel.name, kernel.image.display()))?;
    Ok(Status::Done)
}

fn list_kernels(globals: &Globals, args: &ListArgs) -> Result<Status> {
    let entries = kept(&default_cache().map_err(HasStatus::carried)?);
    let text = if args.json {
        let rows: Vec<Value> = entries
            .iter()
            .map(|(path, entry)| {
                json!({
                    "name": entry.shown_name(),
                    "revision": entry.commit.as_ref().map(|_| &entry.name),
                    "commit": entry.commit,
                    "release": entry.release,
                    "key": entry.key,
                    "digest": entry.digest,
                    "image_bytes": entry.image_bytes,
                    "made_from": entry.made_from,
                    "compiler": entry.compiler,
                    "made_unix_ns": entry.made_unix_ns,
                    "build_ns": entry.build_ns,
                    "folder": path,
                })
            })
            .collect();
        opcost_base::json::document(&rows, "list")?
    } else {
        let kernels: Vec<Description> = entries.into_iter().map(|(_, entry)| entry).collect();
        let mut document = document(&kernels);
        kernel_states::summary(&mut document);
        text(&document, &globals.style())
    };
    print(&text)?;
    Ok(Status::Done)
}

/// Maximum width of the files that a kernel was made from, in columns.
const MADE_FROM_WIDTH: usize = 72;

/// The list of kernels; a name is whole, as one that was cut off would select no kernel.
fn document(entries: &[Description]) -> Document {
    let mut document = Document::default();
    if entries.is_empty() {
        let none = "no kernels yet; make one with opcost kernel build --config …, or use --kernel debian:cloud";
        document.say(Mark::None, none);
    }
    let row = |entry: &Description| {
        Row::of(vec![
            Cell::text(entry.shown_name()),
            Cell::text(entry.release.as_deref().unwrap_or("?")),
            Cell::text(short(&entry.key)),
            Cell::figure(format!("{:.1} MB", entry.image_bytes as f64 / 1e6)),
            Cell::text(day(entry.made_unix_ns)),
            Cell::text(format!("of {}", cut(&entry.made_from.join(", "), MADE_FROM_WIDTH))),
        ])
    };
    let heads = ["name", "release", "key", "size", "made"].map(Column::fixed);
    document.table(Table {
        caption: None,
        columns: heads.into_iter().chain([Column::below("of")]).collect(),
        rows: entries.iter().map(row).collect(),
    });
    document
}

/// A day in UTC.
pub(super) fn day(unix_ns: u64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(unix_ns))
        .map_or_else(|_| "?".into(), |time| time.strftime("%Y-%m-%d").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_page::style::Style;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn the_table_has_eighty_columns() {
        let entry = Description {
            name: "base+paravirt+no-identity-patching".into(),
            names: Vec::new(),
            commit: None,
            same_commits: Vec::new(),
            configured: None,
            key: "0123456789abcdef".into(),
            release: Some("6.1.0-56-cloud-amd64".into()),
            digest: "00".into(),
            image_bytes: 2_999_296,
            made_from: vec!["linux-source-6.1.tar.xz".into(), "base.config".into()],
            compiler: None,
            made_unix_ns: 1_700_000_000_000_000_000,
            build_ns: None,
            objects: None,
        };
        let long = Description { made_from: vec!["x".repeat(200)], release: None, ..entry.clone() };
        let text = text(&document(&[entry, long]), &Style::plain());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "name                      release               key             size  made",
                "base+paravirt+no-identity-patching",
                "                          6.1.0-56-cloud-amd64  0123456789ab  3.0 MB  2023-11-14",
                "    of linux-source-6.1.tar.xz, base.config",
            ]
        );
        assert!(lines.iter().all(|line| line.width() <= 80), "{text}");
        assert_eq!(document(&[]).facts(), Vec::<String>::new());
    }
}
