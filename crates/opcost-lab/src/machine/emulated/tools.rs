//! Finds the tools that emulation needs: QEMU, the plugin, the guest's init.

use crate::machine::state::OfFiles;
use crate::shipped::{Shipped, VARIABLE};
use opcost_base::exit::{HasStatus, Status};
use opcost_kernel::{KernelSpec, default_cache, kept};
use opcost_model::plan::guest::DEFAULT_KERNEL;
use opcost_record::Architecture;
use opcost_sys::spawn::find_program;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The oldest QEMU that was tried and whose plugin interface has everything that opcost uses.
const QEMU_OLDEST: (u32, u32) = (7, 2);

/// The oldest QEMU for machines with several CPUs: older ones hang or number the CPUs differently.
const QEMU_OLDEST_FOR_SEVERAL: (u32, u32) = (10, 0);

/// A part of opcost in a separate file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Artefact {
    /// The plugin that counts instructions.
    Plugin,
    /// The guest's init.
    Guest(Architecture),
    /// The kernel that boots if no other is asked for.
    Kernel,
}

impl Artefact {
    /// The name of the file.
    pub fn file_name(self) -> &'static str {
        match self {
            Artefact::Plugin => "libopcost_emu.so",
            Artefact::Guest(architecture) => architecture.row().guest,
            Artefact::Kernel => "opcost-kernel",
        }
    }
}

/// The kind of emulator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Emulator {
    /// A whole computer.
    System,
    /// One program; the host executes its system calls.
    User,
}

impl Emulator {
    fn program(self, architecture: Architecture) -> String {
        let machine = architecture.row().machine;
        match self {
            Emulator::System => format!("qemu-system-{machine}"),
            Emulator::User => format!("qemu-{machine}"),
        }
    }

    fn package(self, architecture: Architecture) -> &'static str {
        match self {
            Emulator::System => architecture.row().qemu_package,
            Emulator::User => "qemu-user",
        }
    }
}

/// The files for one kind of emulation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tools {
    /// The architecture of the emulated processor.
    pub architecture: Architecture,
    /// QEMU.
    pub qemu: PathBuf,
    /// QEMU's own text about its version.
    pub qemu_version: String,
    /// The plugin.
    pub plugin: PathBuf,
    /// The guest's init.
    pub guest: PathBuf,
}

/// A tool for emulation is missing or unsuitable. The message is [`what`](Self::what), then
/// [`remedy`](Self::remedy).
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}; {}", self.what(), self.remedy())]
pub enum ToolError {
    /// QEMU is not installed.
    NoQemu {
        /// The program's name.
        program: String,
        /// The Debian package that contains it.
        package: &'static str,
    },
    /// QEMU cannot be asked for its version.
    NoVersion {
        /// The program.
        path: PathBuf,
        /// QEMU's output.
        said: String,
        /// The Debian package that contains it.
        package: &'static str,
    },
    /// QEMU is older than opcost supports.
    Old {
        /// The program.
        path: PathBuf,
        /// The text of its version.
        found: String,
        /// The Debian package that contains it.
        package: &'static str,
    },
    /// QEMU is too old for machines with several CPUs.
    OldForSeveral {
        /// The program.
        path: PathBuf,
        /// The text of its version.
        found: String,
    },
    /// A part of opcost is missing.
    NoArtefact {
        /// The file.
        name: &'static str,
        /// The folders that were searched.
        looked: String,
    },
    /// The kernel for commands is missing.
    NoKernel,
}

impl ToolError {
    /// The problem.
    pub fn what(&self) -> String {
        match self {
            ToolError::NoQemu { program, .. } => format!("{program} is not installed"),
            ToolError::NoVersion { path, said, .. } => {
                format!("'{} --version' does not say which version it is: {said}", path.display())
            }
            ToolError::Old { path, found, .. } => {
                let (major, minor) = QEMU_OLDEST;
                format!(
                    "{} is version {found}, and emulation needs {major}.{minor} or later",
                    path.display()
                )
            }
            ToolError::OldForSeveral { path, found } => {
                let (major, minor) = QEMU_OLDEST_FOR_SEVERAL;
                format!(
                    "{} is version {found}, and guests with several CPUs need {major}.{minor} or \
                     later: earlier ones hang",
                    path.display()
                )
            }
            ToolError::NoArtefact { name, looked } => {
                format!("{name} is not beside opcost (looked in {looked})")
            }
            ToolError::NoKernel => {
                "there is no kernel yet for the guests that commands run in".to_string()
            }
        }
    }

    /// The advice.
    pub fn remedy(&self) -> String {
        match self {
            ToolError::NoQemu { package, .. } => {
                format!("install Debian's package {package}, or put it on PATH")
            }
            ToolError::NoVersion { package, .. } => format!("reinstall Debian's package {package}"),
            ToolError::Old { package, .. } => format!("upgrade {package}"),
            ToolError::OldForSeveral { .. } => "on Debian 12 install it from backports (apt-get \
                 install -t bookworm-backports qemu-system-x86), or give --cpus 1"
                .to_string(),
            ToolError::NoKernel => {
                "build it once with script/kernel in opcost's source (some minutes), \
                or name another, as in --kernel debian:cloud; --kernel none counts a command alone"
                    .to_string()
            }
            ToolError::NoArtefact { name, .. }
                if *name == Artefact::Guest(Architecture::Aarch64).file_name() =>
            {
                format!(
                    "it is built where a cross compiler is: script/setup arm64, then script/build, or say where it is \
                     with {VARIABLE}=FOLDER"
                )
            }
            ToolError::NoArtefact { .. } => format!(
                "build all of opcost with script/build, unpack or install all of its package, or say \
                 where it is with {VARIABLE}=FOLDER"
            ),
        }
    }
}

impl HasStatus for ToolError {
    fn status(&self) -> Status {
        Status::Missing
    }
}

impl Tools {
    /// The emulator's command for one program, up to the program: `-0`, its name and its path follow.
    ///
    /// `settings`: the choices of callgrind, as the plugin reads them; with `None`, nothing is counted.
    pub fn user_command(&self, settings: Option<&str>) -> Vec<OsString> {
        let row = self.architecture.row();
        let cpu = format!("{}{}", row.cpu_model, row.cpu_properties);
        let qemu = self.qemu.clone().into_os_string();
        let mut command = vec![qemu, "-cpu".into(), cpu.into(), "-seed".into(), "1".into()];
        if let Some(settings) = settings {
            let mut plugin = OsString::from("file=");
            plugin.push(self.plugin.to_string_lossy().replace(',', ",,"));
            plugin.push(format!(",callgrind={settings}"));
            command.extend(["-plugin".into(), plugin]);
        }
        command
    }

    /// Finds all tools.
    ///
    /// # Errors
    /// [`ToolError`] names the first problem and gives advice.
    pub fn find(emulator: Emulator, architecture: Architecture) -> Result<Tools, ToolError> {
        let (program, package) = (emulator.program(architecture), emulator.package(architecture));
        let path = std::env::var_os("PATH");
        let qemu = find_program(OsStr::new(&program), path.as_deref(), Path::new("/"))
            .map_err(|_| ToolError::NoQemu { program, package })?;
        static VERSIONS: OfFiles<String> = OfFiles::new();
        let qemu_version = VERSIONS.get(&qemu, "", || version_of(&qemu, package))?;
        if version_number(&qemu_version).is_some_and(|found| found < QEMU_OLDEST) {
            return Err(ToolError::Old { path: qemu, found: qemu_version, package });
        }
        Ok(Tools {
            architecture,
            qemu,
            qemu_version,
            plugin: artefact(Artefact::Plugin)?,
            guest: artefact(Artefact::Guest(architecture))?,
        })
    }

    /// Checks that a machine may have this number of CPUs.
    ///
    /// # Errors
    /// [`ToolError::OldForSeveral`]: QEMU is too old for more than one.
    pub fn check_cpus(&self, cpus: u32) -> Result<(), ToolError> {
        let found = version_number(&self.qemu_version);
        if cpus > 1 && found.is_some_and(|found| found < QEMU_OLDEST_FOR_SEVERAL) {
            let (path, found) = (self.qemu.clone(), self.qemu_version.clone());
            return Err(ToolError::OldForSeveral { path, found });
        }
        Ok(())
    }
}

/// Finds a part of opcost: where the environment says, beside this program, or in `../lib/opcost`.
///
/// # Errors
/// [`ToolError::NoArtefact`] lists the folders that were searched.
pub fn artefact(which: Artefact) -> Result<PathBuf, ToolError> {
    let name = which.file_name();
    Shipped::here().part(name).map_err(|folders| not_there(name, &folders))
}

fn not_there(name: &'static str, folders: &[PathBuf]) -> ToolError {
    let looked: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    ToolError::NoArtefact { name, looked: looked.join(", ") }
}

/// The kernel for commands: the one shipped with opcost, else a kernel built under its name.
///
/// # Errors
/// [`ToolError::NoKernel`]: there is no such kernel.
pub fn default_kernel() -> Result<KernelSpec, ToolError> {
    if let Ok(image) = artefact(Artefact::Kernel) {
        return Ok(KernelSpec::Image(image));
    }
    let entries = default_cache().map(|cache| kept(&cache)).unwrap_or_default();
    match entries.iter().any(|(_, entry)| entry.is_meant_by(DEFAULT_KERNEL)) {
        true => Ok(KernelSpec::Built(DEFAULT_KERNEL.to_string())),
        false => Err(ToolError::NoKernel),
    }
}

fn version_of(qemu: &Path, package: &'static str) -> Result<String, ToolError> {
    let said = match std::process::Command::new(qemu).arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => error.to_string(),
    };
    let line = said.lines().next().unwrap_or_default();
    match line.split_once(" version ") {
        Some((_, version)) if version_number(version).is_some() => Ok(version.trim().to_string()),
        _ => {
            Err(ToolError::NoVersion { path: qemu.to_path_buf(), said: line.to_string(), package })
        }
    }
}

/// Major and minor number of a version text, for example `7.2.22 (Debian 1:7.2+dfsg-7)`.
fn version_number(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("qemu");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(version_number("7.2.22 (Debian 1:7.2+dfsg-7)"), Some((7, 2)));
        assert_eq!(version_number("10.0.2"), Some((10, 0)));
        assert_eq!(version_number("unknown"), None);
        let folder = tempfile::tempdir().unwrap();
        let qemu = script(folder.path(), "echo 'qemu-x86_64 version 8.1.0 (v8.1.0)'");
        assert_eq!(version_of(&qemu, "qemu-user").unwrap(), "8.1.0 (v8.1.0)");
        let qemu = script(folder.path(), "echo 'qemu: broken'");
        let error = version_of(&qemu, "qemu-user").unwrap_err();
        assert!(error.what().ends_with("qemu: broken"), "{error}");
        assert_eq!(error.remedy(), "reinstall Debian's package qemu-user");
        assert_eq!(error.to_string(), format!("{}; {}", error.what(), error.remedy()));
        assert!((5, 2) < QEMU_OLDEST && (10, 0) > QEMU_OLDEST);
    }

    #[test]
    fn several_cpus_need_a_later_emulator() {
        let tools = |qemu_version: &str| Tools {
            architecture: Architecture::X86_64,
            qemu: "/usr/bin/qemu".into(),
            qemu_version: qemu_version.into(),
            plugin: "/p".into(),
            guest: "/g".into(),
        };
        for (version, cpus) in [("7.2.22 (Debian)", 1), ("10.0.2", 2), ("11.1.3", 8)] {
            tools(version).check_cpus(cpus).unwrap();
        }
        for version in ["7.2.22 (Debian)", "9.2.0"] {
            let error = tools(version).check_cpus(2).unwrap_err();
            assert!(error.to_string().contains("bookworm-backports"), "{error}");
        }
    }

    #[test]
    fn each_architecture_has_its_qemu_and_its_guest() {
        let names = |architecture| {
            let program = Emulator::System.program(architecture);
            let guest = Artefact::Guest(architecture).file_name();
            (program, Emulator::System.package(architecture), guest)
        };
        let x86 = ("qemu-system-x86_64".into(), "qemu-system-x86", "opcost-guest");
        assert_eq!(names(Architecture::X86_64), x86);
        let arm = ("qemu-system-aarch64".into(), "qemu-system-arm", "opcost-guest-arm64");
        assert_eq!(names(Architecture::Aarch64), arm);
    }

    #[test]
    fn a_missing_part_is_named_with_the_places() {
        let folders = ["/usr/bin".into(), "/usr/lib/opcost".into()];
        let error = not_there(Artefact::Plugin.file_name(), &folders).to_string();
        assert!(error.starts_with("libopcost_emu.so is not beside opcost"), "{error}");
        assert!(error.contains("looked in /usr/bin, /usr/lib/opcost"), "{error}");
        assert!(error.contains("script/build") && !error.contains("arm64"), "{error}");
        let guest = Artefact::Guest(Architecture::Aarch64).file_name();
        let error = not_there(guest, &folders).to_string();
        assert!(error.contains("script/setup arm64, then script/build"), "{error}");
    }
}
