//! Runs opcost-gauge, which measures this CPU.

use anyhow::{Context, Result};
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_lab::shipped::{Shipped, VARIABLE};
use opcost_record::gauge::GaugeReport;
use opcost_sys::interrupt::Interrupt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The path of opcost-gauge.
///
/// # Errors
/// opcost-gauge did not come with this opcost.
pub(super) fn find() -> Result<PathBuf> {
    Shipped::here().part("opcost-gauge").map_err(|looked| {
        let folders: Vec<String> = looked.iter().map(|it| it.display().to_string()).collect();
        fail(
            Status::Missing,
            format!(
                "opcost-gauge, which measures this CPU, is not in {}; build it with script/build, install opcost's whole package, or \
                 name its folder with {VARIABLE}",
                folders.join(" or ")
            ),
        )
    })
}

/// Runs opcost-gauge once and reads its report. `job`: `time` or `loops`; `options`: the kernels to run.
///
/// # Errors
/// opcost-gauge cannot be run, or it measured nothing; the error then has its own words.
pub(super) fn run(
    gauge: &Path,
    job: &str,
    options: &[&str],
    interrupt: &Interrupt,
) -> Result<GaugeReport> {
    let mut command = Command::new(gauge);
    command.arg(job).args(options).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", gauge.display()))
        .status(Status::Missing)?;
    if interrupt.is_set() {
        return Err(fail(Status::Interrupted, "interrupted while opcost-gauge was running"));
    }
    GaugeReport::decode(&output.stdout).map_err(|error| {
        let ended = match output.status.success() || !output.stdout.is_empty() {
            true => String::new(),
            false => format!(" ({})", output.status),
        };
        fail(Status::Missing, format!("nothing was measured: {error}{ended}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::gauge::Cpu;

    #[test]
    fn what_the_program_says_is_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let script = |text: &str| {
            let path = folder.path().join("gauge");
            // A child writes the file. Another test may fork at this moment, and its child would hold the file open (ETXTBSY).
            let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#;
            let mut shell = std::process::Command::new("/bin/sh");
            assert!(shell.args(["-c", write]).arg(&path).arg(text).status().unwrap().success());
            run(&path, "time", &[], &Interrupt::none())
        };
        let sent = folder.path().join("sent");
        let says = |bytes: Vec<u8>, status: i32| {
            std::fs::write(&sent, bytes).unwrap();
            script(&format!("cat '{}'; exit {status}", sent.display()))
        };
        let error = says(GaugeReport::encode_error("it is too loaded"), 1);
        assert_eq!(error.unwrap_err().to_string(), "nothing was measured: it is too loaded");
        let error = script("exit 3").unwrap_err().to_string();
        assert!(error.contains("reported nothing (exit status: 3)"), "{error}");
        let cpu = Cpu { family: 25, brand: "An EPYC".into(), ..Cpu::default() };
        let measured = GaugeReport { cpu, ..GaugeReport::default() };
        assert_eq!(says(measured.encode(), 0).unwrap(), measured);
    }

    #[test]
    fn a_program_that_cannot_be_run_is_named() {
        let error = run(Path::new("/nowhere/gauge"), "time", &[], &Interrupt::none()).unwrap_err();
        assert!(error.to_string().contains("/nowhere/gauge"), "{error}");
    }
}
