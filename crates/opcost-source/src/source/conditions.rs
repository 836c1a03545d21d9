//! The state of the machine while a run was made: other load, temperature and clock rate.
//!
//! Conditions are read before the process is created and after it has ended. Files stay open, so each reading is one system call.

use super::{Source, SourceContext};
use anyhow::Result;
use opcost_record::{Domain, MetricKey, Reading};
use opcost_sys::affinity::allowed_cpus;
use opcost_sys::clock::monotonic_ns;
use opcost_sys::presence::Presence;
use opcost_sys::spawn::Exit;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(super) const NAME: &str = "conditions";

/// The largest size read from a file other than `/proc/stat`.
const SMALL_BYTES: usize = 256;
/// Room for the lines of a thousand CPUs, which are at the start of `/proc/stat`.
const STAT_BYTES: usize = 1 << 17;

struct Conditions {
    files: Files,
    begun_ns: u64,
    window_ns: u64,
    runnable: Option<u64>,
    others: Option<u64>,
    before: Counters,
    after: Counters,
    frequency_khz: Option<u64>,
    temperature: Option<u64>,
}

/// The files that exist on this machine, kept open.
struct Files {
    loadavg: Option<File>,
    presence: Option<Presence>,
    /// CPU, memory, I/O: Documentation/accounting/psi.rst. That of the CPU is the control group's, if there is one of version 2: tasks
    /// of other groups may wait where the work does not.
    pressure: [Option<File>; 3],
    /// Throttling events of the CPUs that may run the work: Documentation/admin-guide/thermal.
    throttles: Vec<File>,
    /// `cpu.stat` of the control groups with a CPU quota that opcost is in: Documentation/scheduler/sched-bwc.rst,
    /// Documentation/admin-guide/cgroup-v2.rst.
    quotas: Vec<File>,
    frequencies: Vec<File>,
    temperatures: Vec<File>,
    stat: Option<File>,
    /// CPUs that share a core with the CPU to which the run is pinned.
    siblings: Vec<usize>,
}

/// Counters that only increase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counters {
    /// Time during which some and all tasks stalled, microseconds: CPU, memory, I/O.
    pressure_us: [Option<Pressure>; 3],
    throttles: Option<u64>,
    /// Time in which a CPU quota stopped the tasks of a control group, nanoseconds.
    quota_stall_ns: Option<u64>,
    sibling_ticks: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Pressure {
    some_us: u64,
    /// Absent for the CPU before Linux 5.13.
    full_us: Option<u64>,
}

pub(super) fn make(context: &SourceContext<'_>) -> Box<dyn Source> {
    let cpus = match context.cpu {
        Some(cpu) => vec![cpu],
        None => allowed_cpus().unwrap_or_default(),
    };
    let mut files = Files::open(Path::new("/"), &cpus, context.cpu);
    files.presence = Presence::open().ok();
    Box::new(Conditions::new(files))
}

impl Files {
    /// Opens the files of `cpus`, and finds the siblings of the CPU `pinned`.
    fn open(root: &Path, cpus: &[usize], pinned: Option<usize>) -> Files {
        let file = |path: &str| File::open(root.join(path)).ok();
        let of_cpus = |names: &[&str]| -> Vec<File> {
            let path = |cpu: &usize, name: &&str| format!("sys/devices/system/cpu/cpu{cpu}/{name}");
            cpus.iter()
                .flat_map(|cpu| names.iter().filter_map(move |name| file(&path(cpu, name))))
                .collect()
        };
        let siblings = pinned.map_or(Vec::new(), |cpu| siblings(root, cpu));
        Files {
            loadavg: file("proc/loadavg"),
            presence: None,
            pressure: ["cpu", "memory", "io"].map(|what| {
                let group = (what == "cpu").then(|| group_pressure(root)).flatten();
                group.or_else(|| file(&format!("proc/pressure/{what}")))
            }),
            throttles: of_cpus(&[
                "thermal_throttle/core_throttle_count",
                "thermal_throttle/package_throttle_count",
            ]),
            quotas: quotas(root),
            frequencies: of_cpus(&["cpufreq/scaling_cur_freq"]),
            temperatures: (0..16)
                .map_while(|zone| file(&format!("sys/class/thermal/thermal_zone{zone}/temp")))
                .collect(),
            stat: file("proc/stat").filter(|_| !siblings.is_empty()),
            siblings,
        }
    }

    fn counters(&self) -> Counters {
        let pressure = |file: &Option<File>| parse_pressure(&text(file.as_ref()?, SMALL_BYTES)?);
        Counters {
            pressure_us: self.pressure.each_ref().map(pressure),
            throttles: sum(&self.throttles),
            quota_stall_ns: (!self.quotas.is_empty()).then(|| {
                let stalls = self.quotas.iter().map(|file| text(file, 2 * SMALL_BYTES));
                stalls.flatten().filter_map(|stat| quota_stall_ns(&stat)).sum()
            }),
            sibling_ticks: self
                .stat
                .as_ref()
                .and_then(|file| text(file, STAT_BYTES))
                .and_then(|stat| self.siblings.iter().map(|cpu| busy_ticks(&stat, *cpu)).sum()),
        }
    }
}

/// The CPUs that share a core with `cpu`.
fn siblings(root: &Path, cpu: usize) -> Vec<usize> {
    let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let list = std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let all = opcost_sys::affinity::parse_cpu_list(&list).unwrap_or_default();
    all.into_iter().filter(|sibling| *sibling != cpu).collect()
}

/// The files that say how long a quota stopped this process's control group, or one above it; none if no group can have a quota.
fn quotas(root: &Path) -> Vec<File> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = |line: &str| -> Option<(Vec<&str>, String)> {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let mounts = match controllers {
            "" => vec!["sys/fs/cgroup", "sys/fs/cgroup/unified"],
            _ if controllers.split(',').any(|one| one == "cpu") => {
                vec!["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"]
            }
            _ => return None,
        };
        Some((mounts, group.trim_start_matches('/').to_string()))
    };
    let with_quota = |file: &File| {
        text(file, 2 * SMALL_BYTES).is_some_and(|stat| quota_stall_ns(&stat).is_some())
    };
    for (mounts, group) in groups.lines().filter_map(mounts) {
        for mount in mounts {
            let folders = Path::new(&group).ancestors();
            let paths = folders.map(|folder| root.join(mount).join(folder).join("cpu.stat"));
            let found: Vec<File> =
                paths.filter_map(|path| File::open(path).ok()).filter(with_quota).collect();
            if !found.is_empty() {
                return found;
            }
        }
    }
    Vec::new()
}

/// The CPU pressure of this process's control group of version 2, below the root, which has none of its own.
fn group_pressure(root: &Path) -> Option<File> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = ["sys/fs/cgroup", "sys/fs/cgroup/unified"].into_iter();
    let file = |mount| File::open(root.join(mount).join(group).join("cpu.pressure")).ok();
    let known =
        |file: &File| text(file, SMALL_BYTES).is_some_and(|text| parse_pressure(&text).is_some());
    mounts.filter_map(file).find(known)
}

/// The time in a group's `cpu.stat` in which its quota stopped it: `throttled_time` in nanoseconds, `throttled_usec` in version 2.
fn quota_stall_ns(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_time", ns) => ns.trim().parse().ok(),
        ("throttled_usec", us) => us.trim().parse::<u64>().ok().map(|us| us * 1000),
        _ => None,
    })
}

fn text(file: &File, bytes_max: usize) -> Option<String> {
    let mut bytes = vec![0u8; bytes_max];
    let length = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}

fn number(file: &File) -> Option<u64> {
    text(file, SMALL_BYTES)?.trim().parse().ok()
}

fn sum(files: &[File]) -> Option<u64> {
    (!files.is_empty()).then(|| files.iter().filter_map(number).sum())
}

/// Reads the line `some avg10=… total=MICROSECONDS` and the equivalent line `full`.
fn parse_pressure(text: &str) -> Option<Pressure> {
    let total = |kind: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        line.split_once("total=")?.1.trim().parse().ok()
    };
    Some(Pressure { some_us: total("some ")?, full_us: total("full ") })
}

/// The number of runnable tasks in `0.52 0.10 0.01 RUNNABLE/TASKS LAST`, this process included.
fn parse_runnable(text: &str) -> Option<u64> {
    text.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}

/// The ticks of a CPU in `/proc/stat` without those of idling and waiting.
fn busy_ticks(stat: &str, cpu: usize) -> Option<u64> {
    let head = format!("cpu{cpu} ");
    let fields: Vec<u64> = stat
        .lines()
        .find_map(|line| line.strip_prefix(&head))?
        .split_whitespace()
        .filter_map(|field| field.parse().ok())
        .collect();
    let [user, nice, system, _idle, _iowait, irq, softirq] = *fields.first_chunk()?;
    Some(user + nice + system + irq + softirq)
}

impl Conditions {
    fn new(files: Files) -> Conditions {
        Conditions {
            files,
            begun_ns: 0,
            window_ns: 0,
            runnable: None,
            others: None,
            before: Counters::default(),
            after: Counters::default(),
            frequency_khz: None,
            temperature: None,
        }
    }

    /// Every figure that both readings have.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        const US_NS: u64 = 1_000;
        let mut figures = vec![("run-window", self.window_ns)];
        let mut add = |name, value: Option<u64>| figures.extend(value.map(|value| (name, value)));
        add("machine-runnable", self.runnable);
        add("other-recordings", self.others);
        let since = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        let names = [
            ("cpu-pressure", None),
            ("memory-pressure", Some("memory-pressure-full")),
            ("io-pressure", Some("io-pressure-full")),
        ];
        for ((some, full), (before, after)) in
            names.into_iter().zip(self.before.pressure_us.iter().zip(&self.after.pressure_us))
        {
            let (Some(before), Some(after)) = (before, after) else { continue };
            add(some, since(Some(before.some_us), Some(after.some_us)).map(|us| us * US_NS));
            if let Some(full) = full {
                add(full, since(before.full_us, after.full_us).map(|us| us * US_NS));
            }
        }
        add("thermal-throttles", since(self.before.throttles, self.after.throttles));
        add("quota-stall", since(self.before.quota_stall_ns, self.after.quota_stall_ns));
        let busy = since(self.before.sibling_ticks, self.after.sibling_ticks);
        add("sibling-busy", busy.map(|ticks| ticks * super::procfs::TICK_NS));
        add("cpu-frequency-khz", self.frequency_khz);
        add("temperature-millidegrees", self.temperature);
        figures
    }
}

impl Source for Conditions {
    fn start(&mut self) -> Result<()> {
        self.runnable =
            self.files.loadavg.as_ref().and_then(|file| parse_runnable(&text(file, SMALL_BYTES)?));
        self.others = self.files.presence.as_ref().and_then(|presence| presence.others().ok());
        self.before = self.files.counters();
        self.begun_ns = monotonic_ns();
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.window_ns = monotonic_ns().saturating_sub(self.begun_ns);
        // The CPU that ran the work has the highest clock rate, which drops as soon as the CPU is idle.
        self.frequency_khz = self.files.frequencies.iter().filter_map(number).max();
        self.temperature = self.files.temperatures.iter().filter_map(number).max();
        self.after = self.files.counters();
        Ok(())
    }

    fn read(&mut self, region: &str, _: Option<&Exit>, readings: &mut Vec<Reading>) -> Result<()> {
        readings.extend(self.figures().into_iter().map(|(name, value)| {
            let key =
                MetricKey { region: region.to_string(), ..MetricKey::new(name, Domain::All, NAME) };
            Reading::plain(key, value)
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    const CPU: &str = "sys/devices/system/cpu";

    #[test]
    fn everything_readable_is_read_before_and_after() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let cpu = |name: &str| format!("{CPU}/cpu2/{name}");
        let (core, package) = (
            cpu("thermal_throttle/core_throttle_count"),
            cpu("thermal_throttle/package_throttle_count"),
        );
        let (khz, list) = (cpu("cpufreq/scaling_cur_freq"), cpu("topology/thread_siblings_list"));
        let pressure = |us: u64| {
            format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\nfull avg10=0.00 total=7\n")
        };
        let heat = "sys/class/thermal/thermal_zone0/temp";
        write(
            root,
            &[
                ("proc/loadavg", "0.52 0.10 0.01 3/200 4000\n"),
                ("proc/self/cgroup", "3:memory:/m\n1:cpu:/a/b\n0::/\n"),
                ("sys/fs/cgroup/cpu/cpu.stat", "nr_periods 0\n"),
                ("sys/fs/cgroup/cpu/a/cpu.stat", "nr_throttled 1\nthrottled_time 400\n"),
                ("sys/fs/cgroup/cpu/a/b/cpu.stat", "nr_throttled 0\nthrottled_time 0\n"),
                ("proc/pressure/cpu", &pressure(100)),
                ("proc/pressure/io", "some avg10=0.00 total=5\n"),
                ("proc/stat", "cpu 9 9 9 9\ncpu2 1 1 1 90 9 1 1 0\ncpu6 5 0 5 90 9 0 0 0\n"),
                (&core, "10\n"),
                (&package, "20\n"),
                (&khz, "2400000\n"),
                (&list, "2,6\n"),
                (heat, "55000\n"),
            ],
        );
        let mut source = Conditions::new(Files::open(root, &[2], Some(2)));
        source.start().unwrap();
        write(
            root,
            &[
                ("proc/pressure/cpu", &pressure(350)),
                ("proc/pressure/io", "some avg10=0.00 total=6\n"),
                ("sys/fs/cgroup/cpu/a/cpu.stat", "nr_throttled 3\nthrottled_time 500\n"),
                ("proc/stat", "cpu 9 9 9 9\ncpu2 9 9 9 90 9 1 1 0\ncpu6 7 0 6 99 9 0 0 0\n"),
                (&core, "11\n"),
                (&khz, "2500000\n"),
                (heat, "61000\n"),
            ],
        );
        source.stop().unwrap();
        let figures = source.figures();
        assert_eq!(figures[0].0, "run-window");
        let expected = [
            ("machine-runnable", 3),
            ("cpu-pressure", 250_000),
            ("io-pressure", 1_000),
            ("thermal-throttles", 1),
            ("quota-stall", 100),
            ("sibling-busy", 30_000_000),
            ("cpu-frequency-khz", 2_500_000),
            ("temperature-millidegrees", 61_000),
        ];
        assert_eq!(figures[1..], expected);
    }

    #[test]
    fn the_pressure_of_opcost_s_own_control_group_comes_before_the_machine_s() {
        let line = |us: u64| format!("some avg10=0.00 total={us}\nfull avg10=0.00 total=0\n");
        for (group, mount, expected) in [
            ("3:cpu:/a\n0::/user/one\n", "sys/fs/cgroup", 7),
            ("0::/user/one\n", "sys/fs/cgroup/unified", 7),
            ("0::/\n", "sys/fs/cgroup", 5),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let own = format!("{mount}/user/one/cpu.pressure");
            let (all, own_line) = (line(5), line(7));
            let files =
                [("proc/self/cgroup", group), ("proc/pressure/cpu", &all), (&own, &own_line)];
            write(dir.path(), &files);
            let pressure = Files::open(dir.path(), &[0], None).counters().pressure_us[0];
            assert_eq!(pressure.unwrap().some_us, expected, "{group}");
        }
    }

    #[test]
    fn every_figure_is_a_metric_of_this_source_and_none_is_judged() {
        for name in [
            "run-window",
            "machine-runnable",
            "other-recordings",
            "cpu-pressure",
            "memory-pressure",
            "memory-pressure-full",
            "io-pressure",
            "io-pressure-full",
            "thermal-throttles",
            "quota-stall",
            "sibling-busy",
            "cpu-frequency-khz",
            "temperature-millidegrees",
        ] {
            let row = opcost_record::MetricRow::find(name).expect(name);
            assert_eq!((row.source, row.family), (NAME, opcost_record::Family::Control), "{name}");
            assert!(!row.per_op, "{name} does not grow with the operations");
        }
    }

    #[test]
    fn what_the_machine_does_not_say_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        let mut source = Conditions::new(Files::open(dir.path(), &[0], Some(0)));
        source.start().unwrap();
        source.stop().unwrap();
        assert_eq!(source.figures().len(), 1, "the time between the readings alone");
        assert_eq!(quota_stall_ns("usage_usec 7\nthrottled_usec 5\n"), Some(5000));
        assert_eq!(quota_stall_ns("usage_usec 7\n"), None);
        assert_eq!(parse_pressure("some avg10=0.00"), None);
        assert_eq!(parse_runnable("0.52 0.10"), None);
        assert_eq!(busy_ticks("cpu2 1 2 3\n", 2), None);
        assert_eq!(busy_ticks("cpu22 1 2 3 4 5 6 7\n", 2), None);
    }
}
