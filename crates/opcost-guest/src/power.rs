//! The end of the machine.

use opcost_record::channel::EXIT_PORT;
use opcost_sys::port::Port;
use rustix::system::{RebootCommand, reboot};
use std::io::Write;
use std::path::Path;

/// Ends the machine: QEMU ends when it is switched off and, with `-no-reboot`, when it restarts.
///
/// A kernel without ACPI cannot switch off and would halt instead, for ever (kernel/reboot.c,
/// LINUX_REBOOT_CMD_POWER_OFF), so there a restart is the way.
pub(crate) fn end() -> ! {
    let commands = if Path::new("/sys/firmware/acpi").exists() {
        [RebootCommand::PowerOff, RebootCommand::Restart]
    } else {
        [RebootCommand::Restart, RebootCommand::PowerOff]
    };
    for command in commands {
        // It returns only if it failed; then the next one is tried.
        let _ = reboot(command);
    }
    if let Ok(mut port) = Port::open(EXIT_PORT) {
        let _ = port.write_all(&[0]);
    }
    loop {
        std::thread::park();
    }
}
