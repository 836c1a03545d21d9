//! Information about this machine's counters in sysfs and procfs.

use std::fs;
use std::path::Path;

/// Whether the kernel has a driver for the CPU's own counters.
///
/// `sysfs_root`: where sysfs is mounted, usually `/sys`. Without a driver no hardware event and no cache event can be opened, only
/// software events.
///
/// Source: the names that the kernel's PMU drivers register (arch/*/events, drivers/perf).
pub fn has_cpu_pmu(sysfs_root: &Path) -> bool {
    // Hybrid x86 has cpu_core and cpu_atom; Arm names follow the core (armv8_cortex_a72,
    // armv8_pmuv3_0); s390 has the counter facility cpum_cf.
    let exact = ["cpu", "cpu_core", "cpu_atom", "cpum_cf"];
    let prefixes = ["armv6_", "armv7_", "armv8_", "armv9_", "apple_"];
    let Ok(devices) = fs::read_dir(sysfs_root.join("bus/event_source/devices")) else {
        return false;
    };
    devices.flatten().any(|device| {
        let name = device.file_name();
        let name = name.to_string_lossy();
        exact.contains(&&*name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
    })
}

/// Returns the level of `kernel.perf_event_paranoid`, -1 to 4; `None` if the kernel has no perf events.
///
/// `proc_root`: where procfs is mounted, usually `/proc`.
pub fn perf_event_paranoid(proc_root: &Path) -> Option<i32> {
    let text = fs::read_to_string(proc_root.join("sys/kernel/perf_event_paranoid")).ok()?;
    text.trim().parse().ok()
}

/// Whether the NMI watchdog is on; `None` if the kernel does not say. The watchdog takes one hardware counter of each CPU.
///
/// `proc_root`: where procfs is mounted, usually `/proc`.
pub fn nmi_watchdog(proc_root: &Path) -> Option<bool> {
    let text = fs::read_to_string(proc_root.join("sys/kernel/nmi_watchdog")).ok()?;
    match text.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_devices(names: &[&str]) -> bool {
        let root = tempfile::tempdir().unwrap();
        for name in names {
            fs::create_dir_all(root.path().join("bus/event_source/devices").join(name)).unwrap();
        }
        has_cpu_pmu(root.path())
    }

    #[test]
    fn drivers_of_cpu_counters_are_recognised() {
        for name in ["cpu", "cpu_core", "armv8_pmuv3_0", "armv8_cortex_a72", "cpum_cf"] {
            assert!(with_devices(&["software", name]), "{name}");
        }
        assert!(!with_devices(&["software", "tracepoint", "uncore_imc_0", "power", "cpufoo"]));
        assert!(!with_devices(&[]));
    }

    #[test]
    fn settings_are_read() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(perf_event_paranoid(root.path()), None);
        assert_eq!(nmi_watchdog(root.path()), None);
        let kernel = root.path().join("sys/kernel");
        fs::create_dir_all(&kernel).unwrap();
        for (text, level) in [("-1\n", Some(-1)), ("4\n", Some(4)), ("high\n", None)] {
            fs::write(kernel.join("perf_event_paranoid"), text).unwrap();
            assert_eq!(perf_event_paranoid(root.path()), level);
        }
        for (text, on) in [("0\n", Some(false)), ("1\n", Some(true)), ("\n", None)] {
            fs::write(kernel.join("nmi_watchdog"), text).unwrap();
            assert_eq!(nmi_watchdog(root.path()), on);
        }
    }
}
