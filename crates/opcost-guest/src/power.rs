//! Ends the machine.

use opcost_record::channel::EXIT_PORT;
use opcost_sys::port::Port;
use rustix::system::{RebootCommand, reboot};
use std::io::Write;
use std::path::Path;

/// Ends the machine: QEMU exits when it is switched off and, with `-no-reboot`, when it restarts.
///
/// Without ACPI, a kernel would halt for ever instead of switching off (kernel/reboot.c,
/// LINUX_REBOOT_CMD_POWER_OFF), so there the machine restarts.
pub(crate) fn end() -> ! {
    let commands = if Path::new("/sys/firmware/acpi").exists() {
        [RebootCommand::PowerOff, RebootCommand::Restart]
    } else {
        [RebootCommand::Restart, RebootCommand::PowerOff]
    };
    for command in commands {
        // This returns only on failure; then the next command is tried.
        let _ = reboot(command);
    }
    if let Ok(mut port) = Port::open(EXIT_PORT) {
        let _ = port.write_all(&[0]);
    }
    loop {
        std::thread::park();
    }
}
