//! `opcost doctor --calibrate-core FILE`: a core's file, measured on this CPU.

use super::gauge;
use anyhow::{Context, Result};
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_base::phases::Phases;
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_lab::calibration::{Calibrated, calibrate};
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::resolve::Surroundings;
use opcost_page::document::{Document, Mark, Tone};
use opcost_page::writer::text::text;
use opcost_sys::interrupt::Interrupt;
use serde_json::json;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Processes that time the loops.
const PROCESSES: usize = 3;

/// Measures this CPU and writes a core's file.
///
/// `begin`: the core to begin with, a file or a name; `None`: the core that fits best.
///
/// # Errors
/// The file exists already or cannot be made, the machine is too loaded, or a signal interrupts.
pub(super) fn calibrate_core(
    globals: &Globals,
    path: &Path,
    begin: Option<&str>,
    json: bool,
) -> Result<Status> {
    // The file is made at the end, so that a calibration that fails leaves nothing behind.
    if path.symlink_metadata().is_ok() {
        return Err(fail(Status::Usage, exists(path)));
    }
    let begin = begin.map(|name| HostSurroundings.core(name)).transpose()?;
    let interrupt = Interrupt::install().context("cannot catch signals").status(Status::Missing)?;
    let program = gauge::find()?;
    let mut phases = Phases::still(globals.quiet);
    let mut reports = Vec::new();
    for process in 0..PROCESSES {
        phases.report(
            "timing instructions on this CPU",
            Some(&format!("{} of {PROCESSES}", process + 1)),
        );
        reports.push(gauge::run(&program, "loops", &[], &interrupt)?);
    }
    phases.end();
    let begin = begin.as_ref().map(|core| (core.name.as_str(), core.text.as_str()));
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let calibrated = calibrate(&reports, &name, begin).map_err(|error| {
        fail(Status::Missing, format!("the measured figures make no core: {error}"))
    })?;
    write(path, &calibrated.text)?;
    let cpu = reports[0].cpu.to_string();
    let said = if json {
        let Calibrated { base, why, measured, changed, unclean, .. } = &calibrated;
        let outcome = json!({
            "schema": 1, "file": path, "name": name, "cpu": cpu, "base": base, "why": why, "measured": measured,
            "changed": changed, "unclean": unclean,
        });
        opcost_base::json::document(&outcome, "the outcome")?
    } else {
        text(&document(&calibrated, &cpu, path), &globals.style())
    };
    print(&said)?;
    Ok(Status::Done)
}

fn exists(path: &Path) -> String {
    format!("{} is there already; name another file, or remove this one first", path.display())
}

/// Writes a new file; never replaces a file that came into being meanwhile.
fn write(path: &Path, text: &str) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut file = match File::create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(fail(Status::Usage, exists(path)));
        }
        made => made.with_context(cannot).status(Status::Usage)?,
    };
    file.write_all(text.as_bytes()).with_context(cannot).status(Status::Missing)
}

fn document(calibrated: &Calibrated, cpu: &str, path: &Path) -> Document {
    let Calibrated { base, why, measured, changed, unclean, .. } = calibrated;
    let mut document = Document::titled(format!("core of {cpu}"));
    document.say(Mark::None, format!("began as {base}: {why}"));
    document.gap();
    let differ = changed.len();
    document.say(
        Mark::None,
        format!("{measured} rows measured; {differ} figures are not those of {base}"),
    );
    changed.iter().for_each(|change| document.say(Mark::Item(1), change));
    if !unclean.is_empty() {
        document.gap();
        document.say(Mark::Doubt, format!("not clear, so {base}'s figures stand:"));
        unclean.iter().for_each(|one| document.say(Mark::Item(1), one));
    }
    document.gap();
    let path = path.display();
    let written =
        format!("{path} is written: opcost compare --machine emulated --cycles --core {path} …");
    document.say_in(Mark::Conclusion, Tone::Better, written);
    let next = format!("opcost doctor --validate --core {path} says how good it is");
    document.say_in(Mark::Conclusion, Tone::Plain, next);
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_page::style::Style;

    #[test]
    fn a_file_that_is_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        write(&path, "one").unwrap();
        let error = write(&path, "two").unwrap_err().to_string();
        assert!(error.contains("is there already"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        let error = write(&folder.path().join("none/mine.toml"), "one").unwrap_err();
        assert!(error.to_string().starts_with("cannot write "), "{error}");
    }

    #[test]
    fn the_page_says_what_changed_and_what_did_not_come_out_clean() {
        let calibrated = Calibrated {
            text: String::new(),
            base: "zen4".into(),
            why: "it is of AuthenticAMD family 0x19, as this CPU".into(),
            measured: 90,
            changed: vec!["class.alu.latency: 1 → 2".into()],
            unclean: vec!["latency of locked: add 5.63".into()],
        };
        let document = document(&calibrated, "a CPU", Path::new("mine.toml"));
        let text = text(&document, &Style::plain());
        for part in [
            "began as zen4",
            "90 rows measured; 1 figures",
            "1 → 2",
            "add 5.63",
            "--validate --core mine.toml",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
