//! Runs a program that was packed into the initramfs.

use crate::error::JobError;
use crate::log;
use crate::reply::{Channel, send, send_exit};
use crate::service;
use opcost_record::channel::{FrameKind, GuestExit, OUTPUT_BYTES_MAX};
use opcost_record::request::{GuestCommand, GuestOutput};
use opcost_sys::capability::{self, Capability};
use opcost_sys::deferred::PHASES_NS;
use opcost_sys::spawn::{Output, Spawn, Status};
use opcost_work::Random;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Files of the program's standard output and error; the initramfs is in memory.
const OUTPUTS: [(FrameKind, &str); 2] =
    [(FrameKind::Stdout, "/opcost/stdout"), (FrameKind::Stderr, "/opcost/stderr")];

/// Runs the program between markers, then sends its output, if asked for or if it failed, and its exit status.
///
/// `phase_seed`: decides when the program begins within a tick of the clock.
pub(crate) fn run(
    channel: &mut Channel,
    request: &GuestCommand,
    phase_seed: u64,
) -> Result<(), JobError> {
    let [stdout, stderr] = OUTPUTS.map(|(_, path)| {
        File::create(path)
            .map(|file| Output::File(file.into()))
            .map_err(JobError::system(format!("write {path}")))
    });
    let mut spawn = Spawn::new(&request.program, request.argv.iter().cloned());
    spawn.env = Some(request.env.clone());
    spawn.cwd = Some(request.cwd.clone());
    // A guest has no terminal to leave.
    spawn.own_session = false;
    (spawn.stdout, spawn.stderr) = (stdout?, stderr?);
    match &request.output {
        GuestOutput::Kept => {}
        GuestOutput::Null => spawn.stdout = Output::Null,
        GuestOutput::File(path) => {
            let write = JobError::system(format!("write {} in the guest", path.display()));
            spawn.stdout = Output::File(File::create(path).map_err(write)?.into());
        }
    }
    if let Some(path) = &request.input {
        let read = JobError::system(format!("read {} in the guest", path.display()));
        spawn.stdin = Some(File::open(path).map_err(read)?.into());
    }
    // With ports, or with /init's memory, a program could write /init's messages itself.
    for capability in [Capability::RawIo, Capability::Ptrace] {
        capability::keep_from_programs(capability)
            .map_err(JobError::system("keep capabilities from the program"))?;
    }
    log::ask_for_traps();
    let service = service::set_up()?;
    let phase_ns = Random::seeded(phase_seed).draw() % PHASES_NS;
    let exit = match spawn.run_marked(Some(phase_ns))? {
        Status::Code(code) => GuestExit::Code(code),
        Status::Signal(signal) => GuestExit::Signal(signal),
    };
    if let Some(service) = service {
        service.end(channel)?;
    }
    // What a program said before it failed is part of how it failed.
    let failed = !matches!(exit, GuestExit::Code(0));
    let is_sent = |kind| request.sends || failed && kind == FrameKind::Stderr;
    for (kind, path) in OUTPUTS.into_iter().filter(|(kind, _)| is_sent(*kind)) {
        let path = match (&request.output, kind) {
            (GuestOutput::File(file), FrameKind::Stdout) => file.as_path(),
            _ => Path::new(path),
        };
        let read = JobError::system(format!("read {}", path.display()));
        let (bytes, dropped) = start_of(path).map_err(read)?;
        send(channel, kind, &bytes)?;
        if dropped > 0 {
            let stream = if kind == FrameKind::Stdout { "stdout" } else { "stderr" };
            let note = format!(
                "{dropped} bytes of {stream} were dropped: only the first {OUTPUT_BYTES_MAX} are kept"
            );
            send(channel, FrameKind::Note, note.as_bytes())?;
        }
    }
    send_exit(channel, exit)
}

/// Returns the start of a file and the number of bytes left out.
fn start_of(path: &Path) -> io::Result<(Vec<u8>, u64)> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok((bytes, length.saturating_sub(OUTPUT_BYTES_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_cut_and_counted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path();
        file.as_file().set_len(OUTPUT_BYTES_MAX).unwrap();
        let (bytes, dropped) = start_of(path).unwrap();
        assert_eq!((bytes.len() as u64, dropped), (OUTPUT_BYTES_MAX, 0));
        file.as_file().set_len(OUTPUT_BYTES_MAX + 7).unwrap();
        let (bytes, dropped) = start_of(path).unwrap();
        assert_eq!((bytes.len() as u64, dropped), (OUTPUT_BYTES_MAX, 7));
    }
}
