//! Runs the [`probe`] before the first use of an emulator with a plugin, and keeps the result.

use super::flight::{Files, Flight};
use super::probe::{self, Filters, ProbeError};
use super::{Emulated, Emulator, Tools, cache_folder, command_line, probe_aarch64};
use crate::machine::state::tool_state;
use anyhow::{Context, Result};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_record::Architecture;
use opcost_record::emulation::{API_NEWEST, API_VARIABLE};
use opcost_sys::interrupt::Interrupt;
use opcost_sys::spawn::{EndedBy, Spawn};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The limit for a probe, which takes much less.
const LIMIT: Duration = Duration::from_secs(60);

/// The first line of a kept result: the API version that the plugin has to declare.
const API_LINE: &str = "api ";

/// The report that is kept of a processor without string instructions.
const NO_FILTERS: &[u8] = b"no filters\n";

/// The facts about a QEMU that counting depends on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Learned {
    /// The version of QEMU's plugin API, if the plugin must be told.
    api: Option<i32>,
    /// The filters that count the iterations of string instructions.
    pub(super) filters: Filters,
}

impl Learned {
    /// The environment for this QEMU.
    ///
    /// A whole machine needs no other variables. Under user-mode emulation, the program would see
    /// the variable, but QEMUs that need it run no program with a plugin.
    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        environment(self.api)
    }

    /// Parses a kept result.
    fn parse(kept: &[u8]) -> Option<Learned> {
        let (api, report) = match kept.strip_prefix(API_LINE.as_bytes()) {
            Some(rest) => {
                let end = rest.iter().position(|byte| *byte == b'\n')?;
                let version = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
                (Some(version), &rest[end + 1..])
            }
            None => (None, kept),
        };
        let filters =
            if report == NO_FILTERS { Filters::default() } else { probe::derive(report).ok()? };
        Some(Learned { api, filters })
    }

    /// The bytes of a result to keep; `report`: the report from which the filters were derived.
    fn format(&self, report: &[u8]) -> Vec<u8> {
        let line = self.api.map(|version| format!("{API_LINE}{version}\n")).unwrap_or_default();
        [line.as_bytes(), report].concat()
    }
}

/// Why a QEMU cannot count, and what to do about it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what}; {remedy}")]
pub struct Unusable {
    /// The problem.
    pub what: String,
    /// The advice.
    pub remedy: String,
}

impl HasStatus for Unusable {
    fn status(&self) -> Status {
        Status::Missing
    }
}

impl From<ProbeError> for Unusable {
    fn from(error: ProbeError) -> Unusable {
        let remedy = match error {
            ProbeError::Report(_) | ProbeError::Missing(_) => {
                "build all of opcost with script/build"
            }
            ProbeError::Wrong { .. } | ProbeError::NoFilter { .. } => {
                "use another QEMU: 7.2, 10.0 and 11.1 are known to count exactly"
            }
        };
        Unusable { what: error.to_string(), remedy: remedy.into() }
    }
}

fn environment(api: Option<i32>) -> Vec<(OsString, OsString)> {
    api.map(|version| (API_VARIABLE.into(), version.to_string().into())).into_iter().collect()
}

/// Learns how to count with this QEMU and this plugin; the result is kept.
///
/// `folder`: for temporary files; `say` is called if the test has to run.
///
/// # Errors
/// As for [`test()`].
pub(super) fn learn(
    tools: &Tools,
    emulator: Emulator,
    folder: &Path,
    interrupt: &Interrupt,
    say: &mut dyn FnMut(&str, Option<&str>),
) -> Result<Learned> {
    let kept = kept_report(tools)?;
    if let Ok(result) = fs::read(&kept)
        && let Some(learned) = Learned::parse(&result)
    {
        return Ok(learned);
    }
    say("testing whether this QEMU counts exactly", None);
    let (learned, report) = test(tools, emulator, folder, interrupt)?;
    // Without a cache, the test runs again next time.
    let _ = kept.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        let fresh = kept.with_extension(format!("{}.new", std::process::id()));
        fs::write(&fresh, learned.format(&report))?;
        fs::rename(&fresh, &kept)
    });
    Ok(learned)
}

/// Runs the probe under this QEMU with this plugin.
///
/// Returns the facts learned, and the report that they follow from.
///
/// # Errors
/// [`Unusable`]: the emulator does not run, takes no plugin, or does not count exactly.
pub(super) fn test(
    tools: &Tools,
    emulator: Emulator,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<(Learned, Vec<u8>)> {
    let mut test = SelfTest { tools, emulator, folder, interrupt, api: None };
    let program = folder.join("probe");
    let arm = tools.architecture == Architecture::Aarch64;
    let expected = match arm {
        true => probe_aarch64::expected().to_vec(),
        false => probe::expected(emulator == Emulator::System).to_vec(),
    };
    let code = match emulator {
        Emulator::System if arm => probe_aarch64::image(),
        Emulator::System => probe::system_image(),
        Emulator::User if arm => probe_aarch64::user_program(),
        Emulator::User => probe::user_program(),
    };
    fs::write(&program, code)
        .and_then(|()| fs::set_permissions(&program, executable()))
        .with_context(|| format!("cannot write '{}'", program.display()))
        .status(Status::Missing)?;
    let probing: &[String] = if arm { &[] } else { &["probe=on".into()] };
    let first = match test.run("learn", &program, probing)? {
        Ended::Wants(version) if version <= API_NEWEST => {
            test.api = Some(version);
            test.run("learn-again", &program, probing)?
        }
        ended => ended,
    };
    let refused = |error: ProbeError| Unusable::from(error).carried();
    let first = test.report(first).map_err(HasStatus::carried)?;
    if arm {
        probe::verify(&first, &expected).map_err(refused)?;
        return Ok((Learned { api: test.api, filters: Filters::default() }, NO_FILTERS.into()));
    }
    let filters = probe::derive(&first).map_err(refused)?;
    let second = test.run("verify", &program, &filters.arguments())?;
    let second = test.report(second).map_err(HasStatus::carried)?;
    probe::verify(&second, &expected).map_err(refused)?;
    Ok((Learned { api: test.api, filters }, first))
}

fn executable() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}

/// The path of the result for this QEMU and this plugin; its name has the hashes of both.
fn kept_report(tools: &Tools) -> Result<PathBuf> {
    let hash = |path: &Path| {
        tool_state(path)
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
    api: Option<i32>,
}

/// The end of a run of the probe.
enum Ended {
    /// The plugin's report.
    Report(Vec<u8>),
    /// QEMU wants the plugin to declare at least this version of its API.
    Wants(i32),
    /// No report; QEMU's messages.
    Silent(String),
}

impl SelfTest<'_> {
    /// Runs the probe once, with its files in the folder `name`.
    fn run(&self, name: &str, program: &Path, arguments: &[String]) -> Result<Ended> {
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
                let row = self.tools.architecture.row();
                match self.tools.architecture {
                    Architecture::X86_64 => {
                        argv.extend(probe::SYSTEM_ARGUMENTS.map(OsString::from));
                    }
                    Architecture::Aarch64 => argv.extend(
                        ["-machine", row.machine_line, "-cpu", row.cpu_model].map(OsString::from),
                    ),
                }
                argv.extend(["-kernel".into(), program.into()]);
            }
            Emulator::User => argv.push(program.into()),
        }
        let spawn =
            Spawn { env: Some(environment(self.api)), ..Spawn::new(&self.tools.qemu, argv) };
        let mut flight = Flight::launch(spawn, files)?;
        let exit = flight.wait_in_preparation(LIMIT, self.interrupt)?;
        if exit.ended_by == EndedBy::Timeout {
            let limit = LIMIT.as_secs();
            let what = format!("the emulator's self-test did not end within {limit} s");
            return Err(fail(Status::Missing, what));
        }
        let said = flight.files.tail("stderr");
        Ok(match (fs::read(&report), probe::api_wanted(&said)) {
            (Ok(report), _) => Ended::Report(report),
            (Err(_), Some(version)) => Ended::Wants(version),
            (Err(_), None) => Ended::Silent(said),
        })
    }

    /// The report of a run, or the problem with advice.
    fn report(&self, ended: Ended) -> Result<Vec<u8>, Unusable> {
        let (qemu, version) = (self.tools.qemu.display(), &self.tools.qemu_version);
        let (what, remedy) = match ended {
            Ended::Report(report) => return Ok(report),
            Ended::Wants(wanted) => (
                format!(
                    "{qemu} ({version}) takes plugins from API version {wanted} on, and this opcost \
                     knows versions up to {API_NEWEST}"
                ),
                "use QEMU 7.2 to 11.1, or a later opcost",
            ),
            Ended::Silent(said) if takes_no_plugin(&said) => (
                format!("{qemu} ({version}) was built without plugins"),
                match self.emulator {
                    Emulator::System => {
                        "use one that was configured with --enable-plugins, as Debian's is"
                    }
                    Emulator::User => "run the command in a booted guest: --kernel debian:cloud",
                },
            ),
            Ended::Silent(said) => (
                format!(
                    "the self-test of {qemu} ({version}) failed, it did not run the plugin ({}): {}",
                    self.tools.plugin.display(),
                    said.trim_end()
                ),
                "build all of opcost with script/build, or use QEMU 7.2 to 11.1",
            ),
        };
        Err(Unusable { what, remedy: remedy.into() })
    }
}

/// Whether a QEMU's message means that it does not know `-plugin`.
fn takes_no_plugin(said: &str) -> bool {
    // In user mode, then for a machine (`linux-user/main.c` and `system/vl.c` of QEMU).
    ["unknown option 'plugin'", "-plugin: invalid option"].iter().any(|text| said.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// The error of the self-test for a QEMU that only prints a message.
    fn refusal(emulator: Emulator, says: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let qemu = folder.path().join("qemu");
        fs::write(&qemu, format!("#!/bin/sh\necho \"{says}\" >&2\nexit 1\n")).unwrap();
        fs::set_permissions(&qemu, PermissionsExt::from_mode(0o755)).unwrap();
        let (plugin, guest) = (folder.path().join("plugin"), folder.path().join("guest"));
        fs::write(&plugin, "").unwrap();
        let tools = Tools {
            architecture: Architecture::X86_64,
            qemu,
            qemu_version: "12.0".into(),
            plugin,
            guest,
        };
        let interrupt = Interrupt::none();
        let error = learn(&tools, emulator, folder.path(), &interrupt, &mut |_, _| ()).unwrap_err();
        format!("{error:#}")
    }

    #[test]
    fn a_qemu_that_cannot_be_used_is_told_with_what_to_do() {
        let newer =
            "plugin requires API version 2, but this QEMU supports only a minimum version of 8";
        let told = refusal(Emulator::System, newer);
        assert!(told.contains("from API version 8 on, and this opcost knows versions up to 7"));
        assert!(told.contains("(12.0)") && told.contains("use QEMU 7.2 to 11.1"), "{told}");
        let told = refusal(Emulator::User, "qemu: unknown option 'plugin'");
        assert!(told.ends_with(
            "built without plugins; run the command in a booted guest: --kernel debian:cloud"
        ));
        let told = refusal(Emulator::System, "qemu-system-x86_64: -plugin: invalid option");
        assert!(told.ends_with("configured with --enable-plugins, as Debian's is"), "{told}");
        let told = refusal(Emulator::System, "no bios");
        assert!(told.contains("did not run the plugin") && told.contains(": no bios; "), "{told}");
    }

    #[test]
    fn what_was_learned_is_kept_with_the_version_to_declare() {
        let report = probe::tests::report_of_7_2();
        let filters = probe::derive(&report).unwrap();
        for api in [None, Some(7)] {
            let learned = Learned { api, filters: filters.clone() };
            assert_eq!(Learned::parse(&learned.format(&report)), Some(learned));
        }
        assert_eq!(Learned::parse(b"api x\n"), None);
        assert_eq!(Learned::parse(b"api 7"), None);
        assert_eq!(Learned::parse(b""), None);
    }
}
