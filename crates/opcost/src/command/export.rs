//! `opcost export`.

use anyhow::{Context, Result};
use clap::Args;
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::message::announce;
use opcost_base::number::figure;
use opcost_base::scratch::Scratch;
use opcost_command::exports::is_standard_output;
use opcost_command::globals::Globals;
use opcost_command::output::{print_bytes, write_whole};
use opcost_command::share::ShareArgs;
use opcost_record::Unit;
use opcost_store::store::{Arrival, Store, StoreError, is_packed, unpacked};
use opcost_sys::clock::unix_ns;
use opcost_sys::foreign_file;
use std::fs;
use std::path::{Path, PathBuf};

/// The extension of files that hold a recording.
pub const SUFFIX: &str = "opcost";

/// Arguments of `opcost export`.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// The recording: its identifier, the identifier's beginning, or last
    #[arg(default_value = "last")]
    pub id: String,

    /// Where to write it; - is standard output [default: ID.opcost]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub share: ShareArgs,
}

/// Writes a recording as one file, which `opcost import` reads into another store.
///
/// # Errors
/// Usage: no such recording, or it is still being made. Missing: the file cannot be written.
pub fn export(globals: &Globals, args: &ExportArgs) -> Result<Status> {
    let mut store = Store::open_for_reading(&globals.store_path()?).map_err(StoreError::carried)?;
    let mut id = store.whole_id(&args.id).map_err(StoreError::carried)?;
    let scratch = scratch()?;
    if args.share.share {
        let mut recording = store.read(&id).map_err(StoreError::carried)?;
        args.share.apply(globals, std::slice::from_mut(&mut recording))?;
        (store, id) = Store::open_for_writing(&scratch.path().join("shared.sqlite"))
            .and_then(|store| store.keep(&recording))
            .map_err(StoreError::carried)?;
    }
    let bytes = store.pack(&id, scratch.path()).map_err(StoreError::carried)?;
    let path = args.output.clone().unwrap_or_else(|| format!("{id}.{SUFFIX}").into());
    if is_standard_output(&path) {
        print_bytes(&bytes)?;
        return Ok(Status::Done);
    }
    // A recording has the environment of its runs.
    write_whole(&path, &bytes, 0o600)
        .with_context(|| format!("cannot write '{}'", path.display()))
        .status(Status::Missing)?;
    if !globals.quiet {
        let size = figure(bytes.len() as f64, Unit::Bytes);
        announce!("recording {id} is in {}, {size}; opcost import reads it", path.display());
    }
    Ok(Status::Done)
}

/// Whether a file holds a recording that was exported.
pub(super) fn is_recording(path: &Path) -> bool {
    let mut begin = [0; 32];
    let read = |mut file: fs::File| std::io::Read::read(&mut file, &mut begin);
    foreign_file::open(path, u64::MAX).and_then(read).is_ok_and(|read| is_packed(&begin[..read]))
}

/// Copies the recordings of an exported file into a store.
///
/// Returns each recording's identifier, and what became of the recording.
///
/// # Errors
/// Missing: a file cannot be read, or is damaged; the store cannot be written.
pub(super) fn take_over(
    store: &mut Store,
    path: &Path,
    limit_bytes: u64,
) -> Result<Vec<(String, Arrival)>> {
    let read = |packed: &Store| store.take_over(packed, unix_ns()).map_err(StoreError::carried);
    unpacked_file(path, limit_bytes, read)
}

/// Calls `read` with the store in an exported file; the file stays unpacked until `read` returns.
///
/// `limit_bytes`: what reading the file may take ([`Budget`](opcost_sys::budget::Budget)).
///
/// # Errors
/// Missing: the file cannot be read, or is damaged. Also every error of `read`.
pub(super) fn unpacked_file<T>(
    path: &Path,
    limit_bytes: u64,
    read: impl FnOnce(&Store) -> Result<T>,
) -> Result<T> {
    let scratch = scratch()?;
    let file = foreign_file::open(path, u64::MAX)
        .with_context(|| format!("cannot read '{}'", path.display()))
        .status(Status::Missing)?;
    let store = unpacked(path, file, scratch.path(), limit_bytes).map_err(StoreError::carried)?;
    read(&store)
}

/// Makes a store of the exported recordings in a folder, for as long as the result lives.
///
/// `limit_bytes`: what reading one file may take; `tell`: receives each file that cannot be read; the other files are copied.
///
/// # Errors
/// Usage: the folder cannot be read or has no such file. Missing: no room for temporary files.
pub(super) fn store_of_folder(
    folder: &Path,
    limit_bytes: u64,
    tell: impl Fn(&Path, &anyhow::Error),
) -> Result<(Scratch, Store)> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    };
    let mut paths = read()
        .with_context(|| format!("cannot read the folder '{}'", folder.display()))
        .status(Status::Usage)?;
    paths.retain(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX));
    paths.sort();
    if paths.is_empty() {
        let why = format!(
            "folder '{}' has no file *.{SUFFIX}; opcost export writes them",
            folder.display()
        );
        return Err(fail(Status::Usage, why));
    }
    let scratch = scratch()?;
    let mut store = Store::open_for_writing(&scratch.path().join("gathered.sqlite"))
        .map_err(StoreError::carried)?;
    for path in paths {
        if let Err(error) = take_over(&mut store, &path, limit_bytes) {
            tell(&path, &error);
        }
    }
    Ok((scratch, store))
}

fn scratch() -> Result<Scratch> {
    Scratch::new().context("cannot make a temporary folder; set TMPDIR").status(Status::Missing)
}
