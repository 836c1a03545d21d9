//! Copies of sysfs from several kinds of machines, for tests.

use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A sysfs of its own; removed when dropped.
pub(super) struct Sysfs(TempDir);

impl Sysfs {
    /// A machine without a PMU: only the events of every kernel with perf events.
    pub(super) fn without_pmu() -> Sysfs {
        let sysfs = Sysfs(tempfile::tempdir().unwrap());
        for (pmu, kind) in [("software", "1"), ("tracepoint", "2"), ("breakpoint", "5")] {
            sysfs.pmu(pmu, kind, &[]);
        }
        sysfs.pmu("msr", "9", &[("format/event", "config:0-63"), ("events/tsc", "event=0x00")]);
        sysfs
    }

    /// An Intel core of the Ice Lake family, with a memory controller and energy counters.
    pub(super) fn intel() -> Sysfs {
        let sysfs = Sysfs::without_pmu();
        sysfs.pmu("cpu", "4", INTEL_FORMAT);
        sysfs.pmu("cpu", "4", INTEL_EVENTS);
        sysfs.pmu(
            "uncore_imc_0",
            "14",
            &[
                ("cpumask", "0"),
                ("format/event", "config:0-7"),
                ("format/umask", "config:8-15"),
                ("events/cas_count_read", "event=0x04,umask=0x03"),
                ("events/cas_count_read.scale", "6.103515625e-5"),
                ("events/cas_count_read.unit", "MiB"),
            ],
        );
        sysfs.pmu(
            "power",
            "13",
            &[
                ("cpumask", "0,16"),
                ("format/event", "config:0-7"),
                ("events/energy-pkg", "event=0x02"),
                ("events/energy-pkg.scale", "2.3283064365386962890625e-10"),
                ("events/energy-pkg.unit", "Joules"),
            ],
        );
        sysfs
    }

    /// An AMD core of the Zen family, whose event codes have twelve bits.
    pub(super) fn amd() -> Sysfs {
        let sysfs = Sysfs::without_pmu();
        sysfs.pmu(
            "cpu",
            "4",
            &[
                ("format/event", "config:0-7,32-35"),
                ("format/umask", "config:8-15"),
                ("format/edge", "config:18"),
                ("format/inv", "config:23"),
                ("format/cmask", "config:24-31"),
                ("events/cpu-cycles", "event=0x76"),
                ("events/instructions", "event=0xc0"),
                ("events/stalled-cycles-frontend", "event=0xa9"),
            ],
        );
        sysfs
    }

    /// A hybrid Intel machine of the Raptor Lake family: two PMUs, neither of them `cpu`.
    pub(super) fn hybrid() -> Sysfs {
        let sysfs = Sysfs::without_pmu();
        for (pmu, kind, cpus) in [("cpu_core", "4", "0-15"), ("cpu_atom", "10", "16-23")] {
            sysfs.pmu(pmu, kind, &[("cpus", cpus)]);
            sysfs.pmu(pmu, kind, INTEL_FORMAT);
            sysfs.pmu(pmu, kind, INTEL_EVENTS);
        }
        sysfs.write("bus/event_source/devices/cpu_core/events/slots", "event=0x00,umask=0x4");
        sysfs
    }

    /// An Arm machine with one kind of core.
    pub(super) fn arm() -> Sysfs {
        let sysfs = Sysfs::without_pmu();
        sysfs.pmu(
            "armv8_cortex_a72",
            "8",
            &[
                ("cpus", "0-3"),
                ("format/event", "config:0-15"),
                ("format/long", "config1:0"),
                ("events/cpu_cycles", "event=0x0011"),
                ("events/l2d_cache", "event=0x0016"),
            ],
        );
        sysfs
    }

    /// Adds tracepoints at the current mount point of tracefs, or at the mount point of old kernels.
    pub(super) fn with_tracepoints(self, old_place: bool) -> Sysfs {
        let root = if old_place { "kernel/debug/tracing" } else { "kernel/tracing" };
        for (tracepoint, id) in [
            ("syscalls/sys_enter_getpid", "309"),
            ("syscalls/sys_exit_getpid", "308"),
            ("sched/sched_switch", "316"),
        ] {
            self.write(&format!("{root}/events/{tracepoint}/id"), id);
        }
        self
    }

    /// Adds files to a PMU's folder.
    pub(super) fn pmu(&self, name: &str, kind: &str, files: &[(&str, &str)]) {
        let dir = format!("bus/event_source/devices/{name}");
        self.write(&format!("{dir}/type"), kind);
        for (file, text) in files {
            self.write(&format!("{dir}/{file}"), text);
        }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

const INTEL_FORMAT: &[(&str, &str)] = &[
    ("format/event", "config:0-7"),
    ("format/umask", "config:8-15"),
    ("format/edge", "config:18"),
    ("format/pc", "config:19"),
    ("format/inv", "config:23"),
    ("format/cmask", "config:24-31"),
    ("format/ldlat", "config1:0-15"),
    ("format/offcore_rsp", "config1:0-63"),
    ("format/frontend", "config1:0-23"),
];

const INTEL_EVENTS: &[(&str, &str)] = &[
    ("events/branch-instructions", "event=0xc4"),
    ("events/cpu-cycles", "event=0x3c"),
    ("events/instructions", "event=0xc0"),
    ("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("events/topdown-retiring", "event=0x00,umask=0x80"),
    ("events/topdown-total-slots", "event=0x3c,umask=0x0"),
    ("events/topdown-total-slots.scale", "4"),
];
