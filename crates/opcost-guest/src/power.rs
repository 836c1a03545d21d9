//! Ends the machine.

use opcost_sys::devices;
use rustix::system::{RebootCommand, reboot};
use std::path::Path;

/// Ends the machine: QEMU exits when it is switched off and, with `-no-reboot`, when it restarts.
///
/// Without ACPI, a kernel would halt for ever instead of switching off (kernel/reboot.c,
/// LINUX_REBOOT_CMD_POWER_OFF), so there the machine restarts.
pub(crate) fn end() -> ! {
    // A device tree says that firmware switches the machine off (PSCI).
    let switches_off = ["/sys/firmware/acpi", "/sys/firmware/devicetree/base/psci"];
    let commands = if switches_off.iter().any(|path| Path::new(path).exists()) {
        [RebootCommand::PowerOff, RebootCommand::Restart]
    } else {
        [RebootCommand::Restart, RebootCommand::PowerOff]
    };
    for command in commands {
        // This returns only on failure; then the next command is tried.
        let _ = reboot(command);
    }
    devices::end();
    loop {
        std::thread::park();
    }
}
