//! Runs a built-in workload in a process of its own: the same code as on the host, once, or several
//! times while it switches code paths.

use crate::error::JobError;
use crate::reply::{Channel, send, send_exit};
use opcost_record::channel::{FrameKind, GuestExit};
use opcost_record::request::{self, GuestJob, GuestRequest};
use opcost_record::{Report, Unit};
use opcost_work::{Markers, Measured, WORKLOADS, WorkloadSpec, measure, measure_paths};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

/// The argument with which this program becomes the working process; the request's path and the seed of its regions' phases
/// follow.
pub(crate) const JOB: &str = "work";

/// This program in the guest.
const INIT: &str = "/init";

/// The file of the working process's standard error.
const STDERR: &str = "/opcost/stderr";

/// Runs the workload of the request in a process of its own, and sends its reports.
///
/// `env`: the whole environment of that process; `phase_seed`: decides when regions begin within a tick of the clock.
pub(crate) fn run(
    channel: &mut Channel,
    env: Vec<(OsString, OsString)>,
    phase_seed: u64,
) -> Result<(), JobError> {
    let stderr = File::create(STDERR).map_err(JobError::system(format!("write {STDERR}")))?;
    let mut child = Command::new(INIT)
        // The seed's text has one length, so that it moves no stack.
        .args([JOB, request::PATH, &format!("{phase_seed:020}")])
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .map_err(JobError::system(format!("start {INIT} {JOB}")))?;
    let mut sent = Vec::new();
    let mut pipe = child.stdout.take().expect("it was just made a pipe");
    let read = pipe.read_to_end(&mut sent);
    let status = child.wait().map_err(JobError::system("wait for the workload"))?;
    send_exit(channel, exit_of(status))?;
    read.map_err(JobError::system("read the workload's report"))?;
    match Report::decode_all(&sent) {
        (reports, None) if !reports.is_empty() => send(channel, FrameKind::Report, &sent),
        (_, error) => {
            let error = error.unwrap_or_else(Report::missing);
            let complaint = fs::read_to_string(STDERR).unwrap_or_default();
            Err(JobError::Work(format!("{error} {complaint}").trim_end().to_string()))
        }
    }
}

fn exit_of(status: ExitStatus) -> GuestExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => GuestExit::Code(code),
        // A process that was waited for has either a code or a signal.
        (None, signal) => GuestExit::Signal(signal.unwrap_or_default()),
    }
}

/// The working process: does the work and writes a report of each run to standard output.
///
/// `request`: a file with the request; `phase_seed`: as [`run`] wrote it; without it, the work waits for no
/// deferred work. The status is 0 if all work was done.
pub(crate) fn serve(request: &Path, phase_seed: Option<&OsStr>) -> ExitCode {
    let (bytes, code) = match perform(request, phase_seed) {
        Ok(reports) => (reports, ExitCode::SUCCESS),
        Err(error) => (Report::encode_error(&error), ExitCode::FAILURE),
    };
    let mut stdout = std::io::stdout();
    match stdout.write_all(&bytes).and_then(|()| stdout.flush()) {
        Ok(()) => code,
        Err(_) => ExitCode::FAILURE,
    }
}

fn perform(path: &Path, phase_seed: Option<&OsStr>) -> Result<Vec<u8>, String> {
    let mut meter = match phase_seed {
        Some(text) => text.to_str().and_then(|text| text.parse().ok()).map(Markers::seeded),
        None => Some(Markers::default()),
    }
    .ok_or("the seed of phases is no number")?;
    let request = fs::read(path)
        .map_err(|error| format!("cannot read the request {}: {error}", path.display()))?;
    let request = GuestRequest::decode(&request).map_err(|error| error.to_string())?;
    let GuestJob::Workload { name, params, seed, paths, .. } = request.job else {
        return Err("the request is not for a workload".into());
    };
    let spec = WorkloadSpec::find(&name).ok_or_else(|| {
        let known: Vec<&str> = WORKLOADS.iter().map(|spec| spec.name).collect();
        format!("unknown workload '{name}'; this guest has {}", known.join(", "))
    })?;
    let params = spec.resolve(&params).map_err(|error| error.to_string())?;
    let mut reports = Vec::new();
    let done = match paths.as_slice() {
        [] => measure(spec, &params, seed, &mut meter).map(|done| reports = report(done)),
        paths => measure_paths(spec, &params, seed, paths, &mut meter, &mut |meter, done| {
            meter.end_run();
            reports.extend(report(done));
        }),
    };
    done.map(|()| reports).map_err(|error| error.to_string())
}

/// The report of one run.
fn report(Measured { ops, invariants, figures: mut readings }: Measured) -> Vec<u8> {
    // Times by the guest's clock are the emulation's, so they are left out.
    readings.retain(|reading| ![Unit::Ns, Unit::Ticks].contains(&reading.key.row().unit));
    Report { ops: Some(ops), readings, invariants }.encode()
}
