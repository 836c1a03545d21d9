//! `opcost callgrind`: runs a program in place of Valgrind's callgrind. QEMU replaces this process, so the program has its number, its
//! files, its signals and its exit status.

use crate::cli::{command, words};
use anyhow::{Context as _, Result};
use opcost_base::exit::{Status, WithStatus as _, fail, in_words, status_of};
use opcost_base::message::write;
use opcost_callgrind::options::{Asked, OptionError, parse};
use opcost_callgrind::program::{Program, program};
use opcost_callgrind::settings::Settings;
use opcost_command::output::show_text;
use opcost_lab::machine::emulated::{Emulator, Tools};
use opcost_record::Architecture;
use opcost_sys::spawn::find_program;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `opcost callgrind`.
#[derive(Debug, clap::Args)]
pub struct CallgrindArgs {
    /// Valgrind's options, then the program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTIONS PROGRAM ARGUMENTS"
    )]
    words: Vec<OsString>,
}

/// Acts as Valgrind if this program was called by that name, or for `opcost callgrind` with nothing before it; clap would take some
/// options for its own. Returns the exit status, or `None` for other commands.
pub fn in_place_of_valgrind() -> Option<Status> {
    let mut given = std::env::args_os();
    let name = given.next().unwrap_or_default();
    let is_valgrind = Path::new(&name).file_name() == Some(OsStr::new("valgrind"));
    if !is_valgrind && given.next().as_deref() != Some(OsStr::new("callgrind")) {
        return None;
    }
    let arguments: Vec<OsString> = given.collect();
    Some(run(&arguments, is_valgrind).unwrap_or_else(|error| {
        write(format_args!("{}", in_words(&error)));
        status_of(&error).unwrap_or(Status::Missing)
    }))
}

/// Runs a program as callgrind does.
///
/// # Errors
/// An option is wrong, or something is missing.
pub fn callgrind(args: &CallgrindArgs) -> Result<Status> {
    run(&args.words, false)
}

fn run(arguments: &[OsString], is_valgrind: bool) -> Result<Status> {
    let asked = parse(&defaults(), arguments, is_valgrind)
        .map_err(|OptionError(why)| fail(Status::Usage, why))?;
    match asked {
        Asked::Run(settings, program, arguments) => start(&settings, &program, &arguments),
        Asked::Version => {
            // Programs that ask read the number of Valgrind whose options these are.
            show_text(concat!("valgrind-3.19.0 (opcost ", env!("CARGO_PKG_VERSION"), ")\n"))
        }
        Asked::Help => {
            let mut all = command();
            all.build();
            let help =
                all.find_subcommand_mut("callgrind").map(|own| own.render_long_help().to_string());
            show_text(&help.unwrap_or_default())
        }
    }
}

/// The options that are always given (Valgrind manual, "Setting Default Options"); files that others can write to are not read.
fn defaults() -> Vec<String> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let file = |path: PathBuf| {
        let about = std::fs::metadata(&path).ok()?;
        let is_own =
            about.uid() == opcost_sys::user::effective() && about.permissions().mode() & 0o002 == 0;
        is_own.then(|| std::fs::read_to_string(&path).ok()).flatten()
    };
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".valgrindrc"));
    let texts =
        [home.and_then(file), std::env::var("VALGRIND_OPTS").ok(), file(".valgrindrc".into())];
    let words = texts.iter().flatten().flat_map(|text| text.split_whitespace());
    words.map(str::to_owned).collect()
}

/// Replaces this process by QEMU with the program.
fn start(settings: &Settings, name: &OsStr, arguments: &[OsString]) -> Result<Status> {
    let search = std::env::var_os("PATH");
    let path = find_program(name, search.as_deref(), Path::new(".")).status(Status::Usage)?;
    let kind = program(&path)
        .with_context(|| format!("cannot read {}", path.display()))
        .status(Status::Usage)?;
    let (shown, path, before) = match kind {
        Program::Native => (name.to_os_string(), path.into_os_string(), Vec::new()),
        Program::Script(interpreter, argument) => {
            (interpreter.clone(), interpreter, argument.into_iter().chain([path.into()]).collect())
        }
        Program::Other => {
            let path = words(&[path.into_os_string()]).join("");
            return Err(fail(
                Status::Usage,
                format!(
                    "{path} is no program of 64-bit x86 and no script, so callgrind cannot count it; opcost measure --machine emulated counts programs of arm64"
                ),
            ));
        }
    };
    let tools = Tools::find(Emulator::User, Architecture::X86_64)?;
    let command = tools.user_command(Some(&settings.encode()));
    let error = Command::new(&tools.qemu)
        .args(&command[1..])
        .arg("-0")
        .args([shown, path])
        .args(before)
        .args(arguments)
        .exec();
    Err(error)
        .with_context(|| format!("cannot start {}", tools.qemu.display()))
        .status(Status::Missing)
}
