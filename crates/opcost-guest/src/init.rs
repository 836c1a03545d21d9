//! The flow of process 1, which never returns and reports every failure.
//!
//! **The guest sleeps to be rid of deferred work.** With one CPU, `membarrier` waits for nothing. A sleep of six seconds
//! costs the emulator little, because its clock skips idle time.

use crate::error::JobError;
use crate::reply::{Channel, send};
use crate::{command, disk, kernel, large_files, log, mounts, power, request, variation, workload};
use opcost_record::channel::FrameKind;
use opcost_record::request::{GuestJob, GuestRequest};
use opcost_sys::{devices, loopback};
use std::io;
use std::path::Path;

/// Does the job and ends the machine.
pub(crate) fn run() -> ! {
    let odd = mounts::make();
    // If the kernel has no loopback network, a program that needs it reports the error.
    // A user's kernel made its first connection long ago.
    let _ = loopback::up().and_then(|()| loopback::refused_connection());
    // The request is read first: everything on the channel belongs to the run that sent it.
    let asked = large_files::write().map_err(JobError::from).and_then(|()| {
        let modules = disk::set_up()?;
        Ok(Asked { modules, request: request::obtain()? })
    });
    match devices::Channel::open().map(Channel::new) {
        Ok(mut channel) => {
            report_panics();
            // If port I/O fails, there is no other way to report the error.
            let _ = serve(&mut channel, &odd, asked).and_then(|()| channel.end());
        }
        // Only the console is left; the host shows its last lines.
        Err(error) => eprintln!(
            "opcost-guest: cannot write to the channel: {error}; the kernel needs {}",
            devices::NEEDED
        ),
    }
    power::end()
}

/// The state of a guest that is ready, with its request.
struct Asked {
    /// Whether modules were loaded for the disk.
    modules: bool,
    request: GuestRequest,
}

fn serve(channel: &mut Channel, odd: &[String], asked: Result<Asked, JobError>) -> io::Result<()> {
    for text in odd {
        channel.send(FrameKind::Note, text.as_bytes())?;
    }
    channel.send(FrameKind::Uname, kernel::uname().as_bytes())?;
    let root = Path::new("/");
    let log = log::lines().unwrap_or_default();
    channel.send(FrameKind::Cpuinfo, kernel::cpuinfo(root).as_bytes())?;
    for (kind, text) in [
        (FrameKind::Vulnerabilities, kernel::vulnerabilities(root)),
        (FrameKind::Clocksource, kernel::clocksource(root)),
        (FrameKind::UnknownOptions, kernel::unknown_options(&log)),
        (FrameKind::Detected, kernel::detected(&log)),
    ] {
        // A kernel that does not say leaves no frame.
        if let Some(text) = text {
            channel.send(kind, text.as_bytes())?;
        }
    }
    match asked.and_then(|asked| perform(channel, asked)) {
        Ok(()) => Ok(()),
        Err(error) => channel.send(FrameKind::Error, error.to_string().as_bytes()),
    }
}

fn perform(channel: &mut Channel, asked: Asked) -> Result<(), JobError> {
    let Asked { modules, request } = asked;
    if modules {
        send(channel, FrameKind::Modules, kernel::modules()?.as_bytes())?;
    }
    if let Some(cpus) = request.cpus {
        kernel::check_cpus(cpus)?;
    }
    let (padding, phase_seed) = match &request.variation {
        Some(variation) => {
            let (padding, phase_seed) = variation::apply(variation)?;
            (Some(padding), phase_seed)
        }
        None => (None, variation::of_boot(&kernel::command_line())?),
    };
    match request.job {
        GuestJob::Symbols => send(channel, FrameKind::Kallsyms, &kernel::functions()?),
        GuestJob::Workload { mut env, .. } => {
            env.extend(padding);
            workload::run(channel, env, phase_seed)
        }
        GuestJob::Command(mut command) => {
            command.env.extend(padding);
            command::run(channel, &command, phase_seed)
        }
    }
}

/// Reports a panic as the last frame on the channel and ends the machine.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(port) = devices::Channel::open() {
            let mut channel = Channel::new(port);
            let text = format!("the guest's init failed: {panic}");
            // If this fails, there is no other way to report the panic.
            let _ = channel.send(FrameKind::Error, text.as_bytes());
            let _ = channel.end();
        }
        power::end()
    }));
}
