//! Sends results of a job to the host.

use crate::error::JobError;
use crate::log;
use opcost_record::channel::{ChannelWriter, FrameKind, GuestExit};
use opcost_sys::devices;

/// The channel to the host.
pub(crate) type Channel = ChannelWriter<devices::Channel>;

/// Sends a frame as part of a job.
pub(crate) fn send(channel: &mut Channel, kind: FrameKind, body: &[u8]) -> Result<(), JobError> {
    channel.send(kind, body).map_err(JobError::system("write to the channel"))
}

/// Sends a program's exit status. If the program failed and the kernel killed a process, perhaps a child
/// of the program, for lack of memory or for an instruction that the CPU does not have, sends the
/// kernel's messages about it first.
pub(crate) fn send_exit(channel: &mut Channel, exit: GuestExit) -> Result<(), JobError> {
    if exit != GuestExit::Code(0) {
        for text in log::killings() {
            send(channel, FrameKind::Note, text.as_bytes())?;
        }
    }
    send(channel, FrameKind::Exit(exit), &[])
}
