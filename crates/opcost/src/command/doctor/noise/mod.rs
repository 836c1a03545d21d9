//! `opcost doctor --cpus`: how much time each CPU takes from a thread that never wants to stop, and
//! who takes it.
//!
//! opcost listens to one CPU after the other, because a thread that spins on one CPU disturbs others.

mod gaps;
mod interrupts;
mod page;
mod probe;

use anyhow::Result;
use gaps::Gaps;
use interrupts::Source;
use opcost_base::exit::{Status, fail};
use opcost_base::phases::Phases;
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::resolve::Surroundings;
use opcost_page::writer::text::text;
use opcost_sys::affinity::parse_cpu_list;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// A CPU that takes more than this share of the time is disturbed.
const LOST_MAX: f64 = 0.01;
/// A CPU that stops a thread for longer than this is disturbed, too: a short run takes as long.
const GAP_NS_MAX: u64 = 2_000_000;

/// All CPUs, in the form of the JSON output.
#[derive(Debug, Serialize)]
struct NoiseMap {
    /// Version of this form.
    schema: u32,
    /// How long each CPU was listened to.
    seconds: f64,
    cpus: Vec<CpuNoise>,
    /// The CPU that took the least; `None` if none could be listened to.
    quietest: Option<usize>,
}

/// The noise of one CPU.
#[derive(Debug, Serialize)]
struct CpuNoise {
    cpu: usize,
    /// Taken from the scheduler at boot (`isolcpus=`).
    isolated: bool,
    /// Without a tick while one task runs (`nohz_full=`).
    nohz_full: bool,
    /// CPUs that share its core.
    siblings: Vec<usize>,
    #[serde(flatten)]
    heard: Option<Heard>,
    /// Why opcost could not listen to the CPU.
    refused: Option<String>,
}

/// The disturbances on one CPU.
#[derive(Clone, Debug, Serialize)]
struct Heard {
    #[serde(flatten)]
    gaps: Gaps,
    /// How often another task ran instead; `None` if the kernel does not say.
    switches: Option<u64>,
    /// Time that the hypervisor gave to others; `None` if the kernel does not say.
    stolen_ns: Option<u64>,
    /// Interrupts by source, the most frequent first.
    interrupts: Vec<Source>,
    /// Work that the kernel put off until after an interrupt, by kind.
    softirqs: Vec<Source>,
}

impl Heard {
    fn interrupts_count(&self) -> u64 {
        self.interrupts.iter().map(|source| source.count).sum()
    }

    fn disturbed(&self) -> bool {
        self.gaps.lost_share() > LOST_MAX || self.gaps.longest_ns > GAP_NS_MAX
    }

    /// The causes of the lost time, in words, the likeliest first.
    fn causes(&self) -> Vec<String> {
        /// The most interrupts that are named.
        const NAMED: usize = 3;
        let rate = |count: u64| self.gaps.rate(count);
        let mut causes = Vec::new();
        if let Some(stolen) = self.stolen_ns.filter(|stolen| *stolen > 0) {
            causes.push(format!("the hypervisor ({} ms stolen)", stolen / 1_000_000));
        }
        if let Some(switches) = self.switches.filter(|switches| *switches > 0) {
            causes.push(format!("other tasks ({} turns/s)", rate(switches)));
        }
        for source in self.interrupts.iter().take(NAMED) {
            causes.push(format!("{} ({}/s)", source.name, rate(source.count)));
        }
        // A gap that leaves no trace in the kernel comes from below the kernel.
        let told = self.interrupts_count() + self.switches.unwrap_or(0);
        if self.gaps.gaps > told {
            let untold = rate(self.gaps.gaps - told);
            causes.push(format!("{untold} gaps/s without an interrupt: firmware or hypervisor"));
        }
        causes
    }
}

/// Listens to every CPU that this process may use, for `seconds` each.
pub(super) fn noise(globals: &Globals, seconds: f64, json: bool) -> Result<Status> {
    let cpus = HostSurroundings.allowed_cpus();
    if cpus.is_empty() {
        return Err(fail(Status::Missing, "the kernel does not say which CPUs may be used"));
    }
    let root = Path::new("/");
    let mut phases = Phases::still(globals.quiet);
    let mut map = NoiseMap { schema: 1, seconds, cpus: Vec::new(), quietest: None };
    for cpu in &cpus {
        phases.report("listening to CPUs", Some(&format!("{cpu}, {} in all", cpus.len())));
        let heard = probe::listen(root, *cpu, Duration::from_secs_f64(seconds));
        map.cpus.push(place(root, *cpu, heard));
    }
    phases.end();
    map.quietest = quietest(&map.cpus);
    let text = if json {
        opcost_base::json::document(&map, "the map")?
    } else {
        text(&page::document(&map), &globals.style())
    };
    print(&text)?;
    Ok(Status::Done)
}

/// The noise of a CPU, with the kernel's settings for the CPU.
fn place(root: &Path, cpu: usize, heard: std::io::Result<Heard>) -> CpuNoise {
    let list = |path: &str| {
        let text = std::fs::read_to_string(root.join("sys/devices/system/cpu").join(path));
        text.ok().and_then(|text| parse_cpu_list(&text)).unwrap_or_default()
    };
    let mut siblings = list(&format!("cpu{cpu}/topology/thread_siblings_list"));
    siblings.retain(|sibling| *sibling != cpu);
    let refused = heard.as_ref().err().map(ToString::to_string);
    CpuNoise {
        cpu,
        isolated: list("isolated").contains(&cpu),
        nohz_full: list("nohz_full").contains(&cpu),
        siblings,
        heard: heard.ok(),
        refused,
    }
}

/// The CPU that took the smallest share of the time. Between equal shares, the shorter longest gap decides.
fn quietest(cpus: &[CpuNoise]) -> Option<usize> {
    let heard = cpus.iter().filter_map(|cpu| Some((cpu.cpu, &cpu.heard.as_ref()?.gaps)));
    let best = heard.min_by(|(_, one), (_, other)| {
        let shares = one.lost_share().total_cmp(&other.lost_share());
        shares.then(one.longest_ns.cmp(&other.longest_ns))
    });
    best.map(|(cpu, _)| cpu)
}

#[cfg(test)]
mod tests;
