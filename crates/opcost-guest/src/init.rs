//! The flow of process 1, which never ends by itself and never fails in silence.

use crate::error::JobError;
use crate::reply::{Channel, send};
use crate::{command, disk, kernel, mounts, power, workload};
use opcost_record::channel::{FrameKind, PORT};
use opcost_record::request::{self, GuestRequest};
use opcost_sys::port::Port;
use std::fs;
use std::io;

/// Does the job and ends the machine.
pub(crate) fn run() -> ! {
    let odd = mounts::make();
    match Port::open(PORT).and_then(Channel::start) {
        Ok(mut channel) => {
            report_panics();
            // Port I/O has no error that could be reported elsewhere.
            let _ = serve(&mut channel, &odd).and_then(|()| channel.end());
        }
        // The console is all that is left, and the host shows its last lines.
        Err(error) => eprintln!(
            "opcost-guest: cannot write to port {PORT:#x}: {error}; the kernel needs \
             CONFIG_X86_IOPL_IOPERM or CONFIG_DEVPORT"
        ),
    }
    power::end()
}

fn serve(channel: &mut Channel, odd: &[String]) -> io::Result<()> {
    for text in odd {
        channel.send(FrameKind::Note, text.as_bytes())?;
    }
    channel.send(FrameKind::Uname, kernel::uname().as_bytes())?;
    channel.send(FrameKind::Cpuinfo, kernel::cpuinfo().as_bytes())?;
    match perform(channel) {
        Ok(()) => Ok(()),
        Err(error) => channel.send(FrameKind::Error, error.to_string().as_bytes()),
    }
}

fn perform(channel: &mut Channel) -> Result<(), JobError> {
    let text = fs::read_to_string(request::PATH)
        .map_err(JobError::system(format!("read the request {}", request::PATH)))?;
    let request = GuestRequest::parse(&text)?;
    if disk::set_up()? {
        send(channel, FrameKind::Modules, kernel::modules()?.as_bytes())?;
    }
    match request {
        GuestRequest::Symbols => send(channel, FrameKind::Kallsyms, &kernel::functions()?),
        GuestRequest::Workload { env, .. } => workload::run(channel, env),
        GuestRequest::Command(request) => command::run(channel, &request),
    }
}

/// Makes a panic the last thing on the channel, and the machine's end.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(port) = Port::open(PORT) {
            let mut channel = Channel::resume(port);
            let text = format!("the guest's init failed: {panic}");
            // Nobody is left to hear of a failure to say so.
            let _ = channel.send(FrameKind::Error, text.as_bytes());
            let _ = channel.end();
        }
        power::end()
    }));
}
