//! Checks that the emulator has the CPU that a variant asks for.
//!
//! QEMU leaves out features that it cannot emulate and only warns. A named model without some of
//! its features is still a CPU to measure on. But if the user asks for a feature by name, the
//! experiment is about this feature.

use super::Tools;
use crate::machine::state::OfFiles;
use opcost_base::exit::{HasStatus, Status};
use opcost_record::Architecture;
use std::io::Write;
use std::process::{Command, Stdio};

/// The emulator does not have the CPU.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum CpuError {
    /// QEMU does not know the model or a feature.
    #[error("CPU '{model}': {said}; see: {program} -cpu help")]
    Unknown {
        /// The CPU asked for.
        model: String,
        /// QEMU's message.
        said: String,
        /// The program that was asked.
        program: String,
    },
    /// QEMU knows a feature but cannot emulate it.
    #[error(
        "CPU '{model}': QEMU {version} cannot emulate {} and would leave it out; drop it, or use \
         another QEMU",
        features.join(", ")
    )]
    Left {
        /// The CPU asked for.
        model: String,
        /// QEMU's version.
        version: String,
        /// The features that cannot be emulated.
        features: Vec<String>,
    },
    /// QEMU cannot be asked.
    #[error("CPU '{model}': cannot ask '{program}': {said}")]
    Silent {
        /// The CPU asked for.
        model: String,
        /// The program that was to be asked.
        program: String,
        /// The reason.
        said: String,
    },
}

impl HasStatus for CpuError {
    fn status(&self) -> Status {
        match self {
            CpuError::Unknown { .. } => Status::Usage,
            CpuError::Left { .. } | CpuError::Silent { .. } => Status::Missing,
        }
    }
}

/// Checks that a machine can have this CPU with every feature that is asked for by name.
///
/// `model`: in QEMU's syntax, for example `max,-erms`. Makes a machine that never starts. Returns the model's features that QEMU
/// leaves out.
///
/// # Errors
/// [`CpuError`] names the model or the features.
pub(super) fn check(tools: &Tools, model: &str) -> Result<Vec<String>, CpuError> {
    static LEFT_OUT: OfFiles<Vec<String>> = OfFiles::new();
    let left_out = LEFT_OUT.get(&tools.qemu, model, || features_left_out(tools, model))?;
    let features = asked_for(&left_out, model);
    match features.is_empty() {
        true => Ok(left_out),
        false => Err(CpuError::Left {
            model: model.into(),
            version: tools.qemu_version.clone(),
            features,
        }),
    }
}

/// The features of a model that QEMU leaves out by its own words.
fn features_left_out(tools: &Tools, model: &str) -> Result<Vec<String>, CpuError> {
    let program = tools.qemu.display().to_string();
    let (ended_well, said) = make_machine(tools, model).map_err(|error| CpuError::Silent {
        model: model.into(),
        program: program.clone(),
        said: error.to_string(),
    })?;
    if ended_well {
        return Ok(left_out(&said));
    }
    let line = said.lines().last().unwrap_or_default();
    let said = match line.split_once(": ") {
        _ if line.contains(NOT_64_BIT) => "it is a 32-bit CPU, and guests are 64-bit".into(),
        Some((_, what)) => what.to_string(),
        None => line.to_string(),
    };
    Err(CpuError::Unknown { model: model.into(), said, program })
}

/// The error of a QEMU that counts a program without a kernel and refused its CPU, which is otherwise the program's failure.
///
/// `stderr`: what QEMU and the program printed.
pub(super) fn refused(tools: &Tools, model: &str, stderr: &str) -> Option<CpuError> {
    let line = stderr.lines().last()?;
    let name = tools.qemu.file_name()?.to_str()?;
    let said = line.strip_prefix(name)?.strip_prefix(": ")?;
    let is_property = said.contains("Property '") && said.ends_with("' not found");
    (is_property || said.starts_with("unable to find CPU model")).then(|| CpuError::Unknown {
        model: model.into(),
        said: said.into(),
        program: tools.qemu.display().to_string(),
    })
}

/// A property that QEMU's 64-bit Arm CPUs have, and QEMU's words for a CPU without it. A 32-bit CPU would start a 64-bit kernel and
/// never end.
const IS_64_BIT: &str = ",aarch64=on";
const NOT_64_BIT: &str = "-cpu.aarch64' not found";

/// Makes a stopped machine and ends it; returns whether this succeeded, and QEMU's messages.
fn make_machine(tools: &Tools, model: &str) -> std::io::Result<(bool, String)> {
    let more = if tools.architecture == Architecture::Aarch64 { IS_64_BIT } else { "" };
    let mut child = Command::new(&tools.qemu)
        .args(["-accel", "tcg", "-no-user-config", "-nodefaults", "-display", "none", "-S"])
        .args([
            "-qmp",
            "stdio",
            "-cpu",
            &format!("{model}{more}"),
            "-machine",
            tools.architecture.row().machine_line,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    // A QEMU that has ended already printed the reason to standard error.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(b"{\"execute\":\"qmp_capabilities\"}{\"execute\":\"quit\"}");
    }
    let output = child.wait_with_output()?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The features that QEMU leaves out by its warnings.
///
/// A warning: `TCG doesn't support requested feature: CPUID.07H:EDX.fsrm [bit 4]`.
fn left_out(said: &str) -> Vec<String> {
    let features = said.lines().filter_map(|line| {
        let (_, feature) = line.split_once("support requested feature: ")?;
        feature.split(['.', ' ']).nth(2)
    });
    let mut names: Vec<String> = Vec::new();
    // CPUID reports some features of AMD's twice.
    for name in features.map(String::from) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the features in a list that a model's words ask for by name.
fn asked_for(left_out: &[String], model: &str) -> Vec<String> {
    // `+name`, `name=on` and `name=true` ask for a feature (QEMU's manual, -cpu).
    let asked: Vec<&str> = model
        .split(',')
        .skip(1)
        .filter_map(|property| match property.strip_prefix('+') {
            Some(name) => Some(name),
            None => property.strip_suffix("=on").or_else(|| property.strip_suffix("=true")),
        })
        .collect();
    let same = |one: &str, other: &str| one.replace('_', "-") == other.replace('_', "-");
    let is_asked = |name: &&String| asked.iter().any(|asked| same(asked, name));
    left_out.iter().filter(is_asked).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "qemu: warning: TCG doesn't support requested feature: CPUID.07H:EDX.fsrm [bit 4]\n\
        qemu: warning: TCG doesn't support requested feature: CPUID.01H:ECX.tsc-deadline [bit 24]\n";

    #[test]
    fn only_what_was_asked_for_by_name_counts() {
        let all = left_out(&format!("{SAID}{SAID}"));
        assert_eq!(all, ["fsrm", "tsc-deadline"]);
        assert_eq!(asked_for(&all, "max,+fsrm,-erms"), ["fsrm"]);
        assert_eq!(asked_for(&all, "max,fsrm=on,tsc_deadline=true"), ["fsrm", "tsc-deadline"]);
        assert!(asked_for(&all, "Skylake-Client-v1").is_empty(), "the model's own features");
        assert!(asked_for(&all, "max,-fsrm,tsc-deadline=off,+erms").is_empty());
        assert!(left_out("").is_empty());
        // QEMU 11.1 words its warnings otherwise.
        let newer = "qemu: warning: TCG doesn't support requested feature: \
                     CPUID[eax=0Dh,ecx=01h].EAX.xsaves [bit 3]";
        assert_eq!(left_out(newer), ["xsaves"]);
    }

    fn tools(folder: &std::path::Path, script: &str) -> Tools {
        use std::os::unix::fs::PermissionsExt;
        let qemu = folder.join("qemu");
        std::fs::write(&qemu, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&qemu, PermissionsExt::from_mode(0o755)).unwrap();
        let other = folder.to_path_buf();
        Tools {
            architecture: Architecture::X86_64,
            qemu,
            qemu_version: "7.2.22".into(),
            plugin: other.clone(),
            guest: other,
        }
    }

    #[test]
    fn errors_name_the_cpu_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let said = |script: &str| {
            let tools = tools(folder.path(), script);
            let error = check(&tools, "max,+fsrm").unwrap_err();
            (error.status(), error.to_string())
        };
        let warn = format!("cat >&2 <<'end'\n{SAID}end");
        let (status, text) = said(&warn);
        assert_eq!(status, Status::Missing);
        assert_eq!(
            text,
            "CPU 'max,+fsrm': QEMU 7.2.22 cannot emulate fsrm and would leave it out; drop it, or \
             use another QEMU"
        );
        let (status, text) = said("echo \"qemu: unable to find CPU model 'maxx'\" >&2; exit 1");
        assert_eq!(status, Status::Usage);
        assert!(text.contains("unable to find CPU model 'maxx'; see: "), "{text}");
        assert_eq!(check(&tools(folder.path(), "exit 0"), "max,+fsrm"), Ok(vec![]));
        assert_eq!(check(&tools(folder.path(), &warn), "max").unwrap(), ["fsrm", "tsc-deadline"]);
        let said = "echo \"qemu: can't apply global a15-arm-cpu.aarch64=on: Property 'a15-arm-cpu.aarch64' not found\" >&2";
        let mut arm =
            tools(folder.path(), &format!("echo $* | grep -q a15,aarch64=on && {said}; exit 1"));
        arm.architecture = Architecture::Aarch64;
        let text = check(&arm, "a15").unwrap_err().to_string();
        assert!(
            text.starts_with("CPU 'a15': it is a 32-bit CPU, and guests are 64-bit;"),
            "{text}"
        );
        let qemu = tools(folder.path(), "");
        let refused = |stderr: &str| refused(&qemu, "max,-x", stderr).map(|why| why.to_string());
        let said = refused("warning\nqemu: Property 'max-x86_64-cpu.x' not found\n").unwrap();
        assert!(said.starts_with("CPU 'max,-x': Property 'max-x86_64-cpu.x' not found; see: "));
        assert!(refused("qemu: unable to find CPU model 'max'").is_some());
        assert_eq!(refused("qemu: uncaught target signal 11"), None);
        assert_eq!(refused("Property 'x' not found"), None);
        let mut gone = tools(folder.path(), "");
        gone.qemu = "/nonexistent/qemu".into();
        let text = check(&gone, "max").unwrap_err().to_string();
        assert!(text.starts_with("CPU 'max': cannot ask '/nonexistent/qemu'"), "{text}");
    }
}
