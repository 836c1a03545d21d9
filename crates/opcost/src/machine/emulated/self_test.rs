//! Runs the [`probe`] before the first use of an emulator with a plugin, and keeps its answer.

use super::flight::{Files, Flight};
use super::probe::{self, Filters};
use super::{Emulated, Emulator, Tools, cache_folder, command_line};
use crate::exit::{Status, WithStatus, fail};
use crate::machine::state::program_state;
use anyhow::{Context, Result};
use opcost_sys::interrupt::Interrupt;
use opcost_sys::spawn::{EndedBy, Spawn};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The probe is over long before.
const LIMIT: Duration = Duration::from_secs(60);

/// Learns how to count with this QEMU and this plugin, or refuses to.
///
/// `folder`: for temporary files; `say` is told if the test has to be made.
///
/// # Errors
/// The emulator does not run, or does not count exactly.
pub(super) fn filters(
    tools: &Tools,
    emulator: Emulator,
    folder: &Path,
    interrupt: &Interrupt,
    say: &mut dyn FnMut(&str, Option<&str>),
) -> Result<Filters> {
    let kept = kept_report(tools)?;
    if let Ok(report) = fs::read_to_string(&kept)
        && let Ok(filters) = probe::derive(&report)
    {
        return Ok(filters);
    }
    say("testing whether this QEMU counts exactly", None);
    let test = SelfTest { tools, emulator, folder, interrupt };
    let program = folder.join("probe");
    let code = match emulator {
        Emulator::System => probe::system_image(),
        Emulator::User => probe::user_program(),
    };
    fs::write(&program, code)
        .and_then(|()| fs::set_permissions(&program, executable()))
        .with_context(|| format!("cannot write '{}'", program.display()))
        .status(Status::Missing)?;
    let first = test.run("learn", &program, &["probe=on".into()])?;
    let filters = probe::derive(&first).status(Status::Missing)?;
    let second = test.run("verify", &program, &filters.arguments())?;
    probe::verify(&second, emulator == Emulator::System).status(Status::Missing)?;
    // Without a cache it is tested again next time.
    let _ = kept.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        let fresh = kept.with_extension(format!("{}.new", std::process::id()));
        fs::write(&fresh, &first)?;
        fs::rename(&fresh, &kept)
    });
    Ok(filters)
}

fn executable() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}

/// Where the answer for this QEMU and this plugin is kept: named by what both contain.
fn kept_report(tools: &Tools) -> Result<PathBuf> {
    let hash = |path: &Path| {
        program_state(path)
            .map(|state| state.sha256[..16].to_string())
            .ok_or_else(|| fail(Status::Missing, format!("cannot read '{}'", path.display())))
    };
    let name = format!("{}-{}.probe", hash(&tools.qemu)?, hash(&tools.plugin)?);
    Ok(cache_folder()?.join("probes").join(name))
}

struct SelfTest<'a> {
    tools: &'a Tools,
    emulator: Emulator,
    folder: &'a Path,
    interrupt: &'a Interrupt,
}

impl SelfTest<'_> {
    /// Runs the probe once, with its files in the folder `name`, and gives the plugin's report.
    fn run(&self, name: &str, program: &Path, arguments: &[String]) -> Result<String> {
        let files = Files::new(self.folder, name)?;
        let report = files.path("report");
        let mut arguments = arguments.to_vec();
        arguments.push("window=markers".into());
        arguments.push(Emulated::mode_argument(self.emulator));
        let mut argv: Vec<OsString> = vec![self.tools.qemu.clone().into()];
        argv.extend(command_line::plugin(&self.tools.plugin, &arguments, &[("out", &report)]));
        match self.emulator {
            Emulator::System => {
                argv.extend(command_line::BARE.map(OsString::from));
                argv.extend(probe::SYSTEM_ARGUMENTS.map(OsString::from));
                argv.extend(["-kernel".into(), program.into()]);
            }
            Emulator::User => argv.push(program.into()),
        }
        let spawn = Spawn { env: Some(Vec::new()), ..Spawn::new(&self.tools.qemu, argv) };
        let mut flight = Flight::launch(spawn, files)?;
        let exit = flight.wait_in_preparation(LIMIT, self.interrupt)?;
        if exit.ended_by == EndedBy::Timeout {
            let limit = LIMIT.as_secs();
            let what = format!("the emulator's self-test did not end within {limit} s");
            return Err(fail(Status::Missing, what));
        }
        fs::read_to_string(&report).map_err(|_| {
            let said = flight.files.tail("stderr");
            let qemu = self.tools.qemu.display();
            fail(
                Status::Missing,
                format!(
                    "the emulator's self-test failed: {qemu} did not run the plugin ({}): {}",
                    self.tools.plugin.display(),
                    said.trim_end()
                ),
            )
        })
    }
}
