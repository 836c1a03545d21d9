//! The thread that samples for the live view and names what it sees, interval by interval.

use super::interval::Interval;
use super::state::Filter;
use crate::sampling::{
    Granted, Intake, Recorder, SamplingPlan, cycles_or_clock, existing, sources,
};
use anyhow::{Context, Result, bail};
use opcost_profile::event::{Event, Sample};
use opcost_profile::ring::RingError;
use opcost_profile::session::Recorded;
use opcost_profile::symbolise::symbolise;
use opcost_sys::affinity::allowed_cpus;
use opcost_sys::clock::monotonic_ns;
use opcost_sys::perf::SamplingTarget;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often ring buffers are looked at at least.
const ROUND: Duration = Duration::from_millis(100);

/// Sampling that goes on.
pub struct Live {
    recorder: Recorder,
    intake: Intake,
    names: HashMap<i32, String>,
    words: Vec<u64>,
    since_ns: u64,
}

impl Live {
    /// Begins to sample one process with all its threads, or the whole machine.
    ///
    /// # Errors
    /// There is no such process, or the kernel forbids it; the error says what would help.
    pub fn begin(plan: &SamplingPlan, pid: Option<i32>) -> Result<Live> {
        let proc_root = Path::new("/proc");
        let target = match pid {
            Some(pid) => SamplingTarget::Threads(existing::threads(proc_root, pid)),
            None => SamplingTarget::Machine,
        };
        let cpus = allowed_cpus().context("cannot tell the CPUs")?;
        let recorder = Recorder::open(plan, &cycles_or_clock(), &target, false, &cpus)?;
        let mut live = Live {
            intake: recorder.intake(),
            recorder,
            names: HashMap::new(),
            words: Vec::new(),
            since_ns: 0,
        };
        // First the events, so that nothing is mapped unseen between.
        live.recorder.enable()?;
        let pids = pid.map_or_else(|| existing::processes(proc_root), |pid| vec![pid]);
        let Live { intake, names, .. } = &mut live;
        existing::tell(proc_root, &pids, |event| {
            note_name(names, event);
            intake.event(event);
        });
        live.since_ns = monotonic_ns();
        Ok(live)
    }

    /// What is sampled.
    pub fn granted(&self) -> Granted {
        self.recorder.granted()
    }

    /// Goes on by threads of its own, an interval after the other.
    ///
    /// Names are looked up by a second thread, so that ring buffers are emptied meanwhile; an
    /// interval is at least as long as that takes. Nobody waits for either: names of large programs
    /// may take longer than a user who wants to leave.
    pub fn watch(self, length: Duration) -> Watch {
        let filter = Arc::new(Mutex::new(Filter::Everything));
        let stop = Arc::new(AtomicBool::new(false));
        let (giver, receiver) = mpsc::channel();
        let (wanted, stopping) = (filter.clone(), stop.clone());
        thread::spawn(move || {
            if let Err(error) = self.run(length, &wanted, &stopping, &giver) {
                let _ = giver.send(Err(error));
            }
        });
        Watch { filter, stop, receiver }
    }

    fn run(
        mut self,
        length: Duration,
        filter: &Mutex<Filter>,
        stop: &AtomicBool,
        giver: &Sender<Result<(Filter, Interval)>>,
    ) -> Result<()> {
        let busy = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel::<(Filter, Interval, Recorded)>();
        let (named, done) = (giver.clone(), busy.clone());
        thread::spawn(move || {
            for (filter, mut interval, recorded) in receiver {
                interval.take(&symbolise(&recorded, &sources()));
                // Whoever does not listen any more wants no more.
                if named.send(Ok((filter, interval))).is_err() {
                    return;
                }
                done.store(false, Ordering::Release);
            }
        });
        let mut looked_at = Filter::Everything;
        let mut interval = Interval::default();
        while !stop.load(Ordering::Relaxed) {
            let wanted = filter.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if wanted != looked_at {
                // What was seen so far is of others.
                (looked_at, interval) = (wanted, Interval::default());
                self.begin_interval().context("cannot read samples")?;
            }
            self.round(&looked_at, &mut interval).context("cannot wait for samples")?;
            interval.elapsed_ns = monotonic_ns().saturating_sub(self.since_ns);
            let enough = u128::from(interval.elapsed_ns) >= length.as_nanos();
            if enough && !busy.swap(true, Ordering::Acquire) {
                let recorded = self.begin_interval().context("cannot read samples")?;
                let seen = std::mem::take(&mut interval);
                if sender.send((looked_at.clone(), seen, recorded)).is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn begin_interval(&mut self) -> Result<Recorded, RingError> {
        self.since_ns = monotonic_ns();
        self.intake.restart()
    }

    /// Empties the ring buffers once.
    fn round(&mut self, filter: &Filter, interval: &mut Interval) -> std::io::Result<()> {
        self.recorder.round(ROUND, &mut self.words)?;
        self.intake.add(&self.words);
        let names = &mut self.names;
        self.intake.settle(|event| {
            note_name(names, event);
            match event {
                Event::Sample(sample) => tally(interval, names, filter, sample),
                _ => true,
            }
        });
        Ok(())
    }
}

/// Intervals that come as time goes by, until it is dropped.
pub struct Watch {
    filter: Arc<Mutex<Filter>>,
    stop: Arc<AtomicBool>,
    receiver: Receiver<Result<(Filter, Interval)>>,
}

impl Watch {
    /// Looks at others' samples from now on.
    pub fn look_at(&self, filter: Filter) {
        *self.filter.lock().unwrap_or_else(PoisonError::into_inner) = filter;
    }

    /// The next interval, with whose samples it has; `None` if none comes for so long.
    ///
    /// # Errors
    /// The ring buffers cannot be read.
    pub fn next(&self, limit: Duration) -> Result<Option<(Filter, Interval)>> {
        match self.receiver.recv_timeout(limit) {
            Ok(interval) => interval.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the threads that sample ended"),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn note_name(names: &mut HashMap<i32, String>, event: &Event<'_>) {
    match event {
        // A thread's own name is not its process's.
        Event::Name { pid, tid, name, .. } if pid == tid => {
            names.insert(*pid, String::from_utf8_lossy(name).into_owned());
        }
        Event::Fork { pid, parent_pid, tid } if pid == tid => {
            if let Some(name) = names.get(parent_pid).cloned() {
                names.insert(*pid, name);
            }
        }
        _ => {}
    }
}

/// Counts a sample for its process and CPU; whether it is looked at.
fn tally(
    interval: &mut Interval,
    names: &HashMap<i32, String>,
    filter: &Filter,
    sample: &Sample<'_>,
) -> bool {
    interval.samples += 1;
    let kernel = if sample.in_kernel { sample.period } else { 0 };
    let cpu = sample.cpu.and_then(|cpu| i32::try_from(cpu).ok());
    let process = interval.processes.entry(sample.pid).or_default();
    if process.name.is_empty() {
        let unknown = if sample.pid == 0 { "[idle]" } else { "[unknown]" };
        process.name = names.get(&sample.pid).map_or(unknown, |name| name).to_string();
    }
    let cpu_group = cpu.map(|cpu| interval.cpus.entry(cpu).or_default());
    for group in [Some(process), cpu_group].into_iter().flatten() {
        group.cost += sample.period;
        group.kernel += kernel;
    }
    match filter {
        Filter::Everything => true,
        Filter::Process(pid, _) => *pid == sample.pid,
        Filter::Cpu(wanted) => Some(*wanted) == cpu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_counted_for_their_process_and_cpu() {
        let mut names = HashMap::new();
        let name = |pid, tid, name| Event::Name { pid, tid, name, exec: true };
        note_name(&mut names, &name(7, 7, b"work"));
        note_name(&mut names, &name(7, 8, b"a thread"));
        note_name(&mut names, &Event::Fork { pid: 9, parent_pid: 7, tid: 9 });
        let sample = |pid, cpu, in_kernel| Sample {
            time_ns: None,
            pid,
            tid: pid,
            cpu: Some(cpu),
            event: 0,
            period: 10,
            address: 1,
            in_kernel,
            chain: &[],
            user_stack: None,
        };
        let mut interval = Interval::default();
        let all = Filter::Everything;
        assert!(tally(&mut interval, &names, &all, &sample(7, 0, false)));
        assert!(tally(&mut interval, &names, &all, &sample(7, 1, true)));
        let only = Filter::Process(9, "work".into());
        assert!(!tally(&mut interval, &names, &only, &sample(4, 1, true)));
        assert!(tally(&mut interval, &names, &only, &sample(9, 1, true)));
        assert!(!tally(&mut interval, &names, &Filter::Cpu(0), &sample(9, 1, true)));
        let group = |groups: &std::collections::BTreeMap<_, super::super::interval::GroupCost>,
                     of| {
            let group: &super::super::interval::GroupCost = &groups[&of];
            (group.name.clone(), group.cost, group.kernel)
        };
        assert_eq!(group(&interval.processes, 7), ("work".into(), 20, 10));
        assert_eq!(group(&interval.processes, 9), ("work".into(), 20, 20));
        assert_eq!(group(&interval.processes, 4), ("[unknown]".into(), 10, 10));
        assert_eq!(group(&interval.cpus, 1), (String::new(), 40, 40));
        assert_eq!(interval.samples, 5);
    }
}
