//! Whether other programs compete for the CPUs now.

use opcost_model::plan::{MachineKind, Plan};
use opcost_sys::affinity::parse_cpu_list;
use std::fs;
use std::path::Path;

/// Tasks waited for a CPU often if they waited in more than this share of the last ten seconds.
const PRESSURE_PERCENT_MAX: f64 = 10.0;

/// The load of this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The load average of a minute.
    pub average: f64,
    /// The number of CPUs online.
    pub cpus: usize,
    /// The share of the last ten seconds in which a task waited for a CPU, percent; `None` on kernels that do not say.
    pub waiting_percent: Option<f64>,
}

impl Load {
    /// Reads the load; `None` if the kernel does not say.
    ///
    /// `root`: the root of the file system, `/`; tests use another.
    pub fn read(root: &Path) -> Option<Load> {
        let read = |path: &str| fs::read_to_string(root.join(path)).ok();
        let average = read("proc/loadavg")?.split_whitespace().next()?.parse().ok()?;
        let online = read("sys/devices/system/cpu/online");
        let cpus =
            online.and_then(|list| parse_cpu_list(&list)).map_or(1, |cpus| cpus.len().max(1));
        // Documentation/accounting/psi.rst: some avg10=1.23 avg60=…
        let waiting_percent = read("proc/pressure/cpu").and_then(|text| {
            text.strip_prefix("some avg10=")?.split_whitespace().next()?.parse().ok()
        });
        Some(Load { average, cpus, waiting_percent })
    }

    /// Whether times measured now are doubtful. The load average includes load that is over by now; pressure is newer.
    pub fn is_high(&self) -> bool {
        let high = self.average > self.cpus as f64 / 2.0;
        self.waiting_percent.map_or(high, |percent| percent > PRESSURE_PERCENT_MAX)
    }

    /// What the load means for the times of a plan, and what would help; `None` if it means nothing.
    pub fn advice(&self, plan: &Plan) -> Option<String> {
        let host = plan.machine() == MachineKind::Host;
        if !host || plan.real_time() || !self.is_high() {
            return None;
        }
        let owned = "or give the runs a CPU of their own (--priority real-time)";
        let means = match plan.primary.name.as_str() {
            "task-clock" => format!(
                "task-clock decides, the time that the runs have on a CPU. For elapsed time: --primary wall on a quiet machine, {owned}"
            ),
            "wall" => format!(
                "elapsed time is partly that of other programs. Stop them, choose --primary task-clock, {owned}"
            ),
            _ => return None,
        };
        Some(format!("the machine is busy ({}): {means}", self.in_words()))
    }

    /// The load in words.
    pub fn in_words(&self) -> String {
        let cpus = if self.cpus == 1 { "CPU" } else { "CPUs" };
        let average = format!("load average {:.2} on {} {cpus}", self.average, self.cpus);
        match self.waiting_percent {
            None => average,
            Some(percent) => {
                format!("{average}; tasks waited for a CPU in {percent:.0} % of the last 10 s")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_high_where_tasks_wait() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Load::read(dir.path()), None);
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let read = || Load::read(dir.path()).unwrap();
        write("proc/loadavg", "1.20 0.10 0.01 3/200 4000\n");
        write("sys/devices/system/cpu/online", "0-1\n");
        assert!(read().is_high());
        assert_eq!(read().in_words(), "load average 1.20 on 2 CPUs");
        write("proc/pressure/cpu", "some avg10=9.00 avg60=50.00 avg300=0.00 total=1\n");
        assert!(!read().is_high());
        write("proc/pressure/cpu", "some avg10=11.00 avg60=0.00 avg300=0.00 total=1\n");
        assert!(read().is_high());
        assert!(read().in_words().ends_with("tasks waited for a CPU in 11 % of the last 10 s"));
    }
}
