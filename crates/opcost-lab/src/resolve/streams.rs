//! Standard input and output of a variant.

use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_model::experiment::{Experiment, Variant};
use opcost_model::plan::{GuestPlan, OutputPlan, WorkPlan};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The word for no input.
const NULL: &str = "null";

/// The source of a variant's standard input and the destination of its output.
///
/// # Errors
/// A workload, which has neither; an unreadable input; an output that a guest does not have.
pub(super) fn resolve_streams(
    experiment: &Experiment,
    variant: &Variant,
    (work, guest, cwd): (&WorkPlan, Option<&GuestPlan>, &Path),
) -> Result<(Option<PathBuf>, Option<OutputPlan>)> {
    let input = variant.input.as_deref().filter(|input| *input != NULL);
    if let (WorkPlan::Workload { name, .. }, true) =
        (work, input.is_some() || variant.output.is_some())
    {
        let option = if input.is_some() { "--input" } else { "--output" };
        let why = format!("{option}: workload {name} neither reads nor prints; leave it out");
        return Err(fail(Status::Usage, why));
    }
    let input = match input {
        Some(text) => {
            // A hook may create the file. Whether it did is checked before a process starts.
            let is_made = !experiment.setup.is_empty()
                || !experiment.prepare.is_empty()
                || variant.setup.is_some()
                || variant.prepare.is_some();
            Some(resolve_input(is_made, text, cwd)?)
        }
        None => None,
    };
    let output = variant.output.as_deref().map(|text| OutputPlan::of_text(text, cwd));
    let ops = variant.ops.is_some() || experiment.ops.is_some();
    check_output(experiment, guest, output.as_ref(), ops)?;
    Ok((input, output))
}

fn resolve_input(is_made: bool, text: &str, cwd: &Path) -> Result<PathBuf> {
    let path: PathBuf = cwd.join(text).components().collect();
    let wrong = match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Some("it is a folder".to_string()),
        // Opening a named pipe would wait for its writer.
        Ok(metadata) if metadata.is_file() => {
            File::open(&path).err().map(|error| error.to_string())
        }
        Ok(_) => None,
        Err(_) if is_made => None,
        Err(error) => Some(error.to_string()),
    };
    match wrong {
        Some(why) => Err(fail(
            Status::Usage,
            format!("--input {text}: cannot read '{}': {why}", path.display()),
        )),
        None => Ok(path),
    }
}

fn check_output(
    experiment: &Experiment,
    guest: Option<&GuestPlan>,
    output: Option<&OutputPlan>,
    ops: bool,
) -> Result<()> {
    let Some(output) = output else { return Ok(()) };
    let boots = guest.is_some_and(|guest| guest.kernel.is_some());
    let why = match output {
        OutputPlan::Pipe if boots => {
            "in a guest nothing runs beside the command that could read a pipe; give null, inherit, or a file \
             of the guest such as /disk/out"
        }
        OutputPlan::Pipe if ops => {
            "--ops reads what the command prints from a file; leave --output out, or give a file"
        }
        OutputPlan::Null | OutputPlan::Pipe | OutputPlan::File(_) if experiment.show_output => {
            "--show-output shows it; leave one of both out"
        }
        _ => return Ok(()),
    };
    Err(fail(Status::Usage, format!("--output {}: {why}", output.text())))
}

/// The name that distinguishes a variant's streams from the others', if they differ.
pub(super) fn name_by_streams(
    (input, output): (&Option<PathBuf>, &Option<OutputPlan>),
    all: &[(Option<PathBuf>, Option<OutputPlan>)],
    cwd: &Path,
) -> Option<String> {
    let below = |path: &Path| path.strip_prefix(cwd).unwrap_or(path).display().to_string();
    let from = all.iter().any(|(other, _)| other != input).then(|| match input {
        Some(path) => below(path),
        None => "no input".into(),
    });
    let to = all.iter().any(|(_, other)| other != output).then(|| match output {
        Some(OutputPlan::File(path)) => format!("to {}", below(path)),
        Some(output) => format!("to {}", output.text()),
        None => "no output".into(),
    });
    let parts: Vec<String> = from.into_iter().chain(to).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::fixture::{FakeSurroundings, commands};
    use crate::resolve::resolve;
    use opcost_model::plan::MachineKind;

    fn asked(output: &str) -> Experiment {
        Experiment { output: vec![output.into()], ..commands(&["/bin/cat", "/bin/cat -"]) }
    }

    #[test]
    fn words_and_paths_are_told_apart() {
        let output = |text: &str| {
            let here = FakeSurroundings { dir: "/tmp".into(), ..FakeSurroundings::default() };
            resolve(&asked(text), &here).unwrap().variants[1].output.clone().unwrap()
        };
        assert_eq!(output("null"), OutputPlan::Null);
        assert_eq!(output("pipe"), OutputPlan::Pipe);
        assert_eq!(output("./pipe"), OutputPlan::File("/tmp/pipe".into()));
        for text in ["null", "pipe", "inherit", "/tmp/a b"] {
            assert_eq!(output(text).text(), text);
        }
    }

    #[test]
    fn nothing_reads_a_pipe_in_a_guest() {
        let emulated = |output, kernel: &str| {
            let machine = Some(MachineKind::Emulated);
            let asked = Experiment { machine, kernel: vec![kernel.into()], ..asked(output) };
            resolve(&asked, &FakeSurroundings::default())
        };
        let error = format!("{:#}", emulated("pipe", "k").unwrap_err());
        assert!(error.contains("--output pipe: in a guest nothing runs beside"), "{error}");
        assert!(emulated("/disk/out", "k").is_ok());
        assert!(emulated("pipe", "none").is_ok());
    }
}
