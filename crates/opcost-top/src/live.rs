//! The thread that samples for the live view and names what it sees, interval by interval.

use crate::interval::Interval;
use crate::state::Filter;
use anyhow::{Context, Result, bail};
use opcost_profile::event::{Event, Sample};
use opcost_profile::ring::RingError;
use opcost_profile::session::Recorded;
use opcost_profile::symbolise::{Remembered, symbolise_again};
use opcost_source::sampling::{
    Granted, Intake, Recorder, SamplingPlan, cycles_or_clock, existing, sources,
};
use opcost_sys::affinity::allowed_cpus;
use opcost_sys::clock::monotonic_ns;
use opcost_sys::perf::SamplingTarget;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The longest time between two looks at the ring buffers.
const ROUND: Duration = Duration::from_millis(100);

/// Sampling in progress.
pub struct Live {
    recorder: Recorder,
    intake: Intake,
    names: TaskNames,
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
            names: TaskNames::new(proc_root),
            words: Vec::new(),
            since_ns: 0,
        };
        // The events are enabled first, so that no mapping in between goes unseen.
        live.recorder.enable()?;
        let pids = pid.map_or_else(|| existing::processes(proc_root), |pid| vec![pid]);
        let Live { intake, names, .. } = &mut live;
        existing::report(proc_root, &pids, |event| {
            names.note(event);
            intake.event(event);
        });
        live.since_ns = monotonic_ns();
        Ok(live)
    }

    /// The sampling that the kernel granted.
    pub fn granted(&self) -> Granted {
        self.recorder.granted()
    }

    /// Continues in threads of its own, one interval after the other.
    ///
    /// A second thread looks up names, so that the first one empties ring buffers meanwhile; an
    /// interval is at least as long as the look-up. Nobody waits for either thread: the names of
    /// large programs may take longer than a user who wants to leave.
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
            // Reading files and the kernel's list for every interval would cost more than the sampling.
            let (sources, mut remembered) = (sources(), Remembered::default());
            for (filter, mut interval, recorded) in receiver {
                interval.take(&symbolise_again(&recorded, &sources, &mut remembered));
                // The receiver is gone, so nobody wants more intervals.
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
                // The samples so far belong to the filter before.
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
            names.note(event);
            match event {
                Event::Sample(sample) => tally(interval, names, filter, sample),
                _ => true,
            }
        });
        Ok(())
    }
}

/// Intervals as they come; dropping this value stops the sampling.
pub struct Watch {
    filter: Arc<Mutex<Filter>>,
    stop: Arc<AtomicBool>,
    receiver: Receiver<Result<(Filter, Interval)>>,
}

impl Watch {
    /// Looks at this filter's samples from now on.
    pub fn look_at(&self, filter: Filter) {
        *self.filter.lock().unwrap_or_else(PoisonError::into_inner) = filter;
    }

    /// The next interval, with the filter of its samples; `None` if no interval comes within `limit`.
    ///
    /// # Errors
    /// The ring buffers cannot be read, or the threads that sample ended.
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

/// The names of processes and threads.
struct TaskNames {
    proc_root: PathBuf,
    /// By the thread's number; a process has the name of its first thread.
    names: HashMap<i32, String>,
}

impl TaskNames {
    fn new(proc_root: &Path) -> TaskNames {
        TaskNames { proc_root: proc_root.to_path_buf(), names: HashMap::new() }
    }

    fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::Name { tid, name, .. } => {
                self.names.insert(*tid, String::from_utf8_lossy(name).into_owned());
            }
            // A new thread may have the number of one that is gone. A process begins with the name
            // of its parent.
            Event::Fork { pid, parent_pid, tid } => {
                let name = if pid == tid { self.names.get(parent_pid).cloned() } else { None };
                match name {
                    Some(name) => self.names.insert(*tid, name),
                    None => self.names.remove(tid),
                };
            }
            Event::Exit { pid, tid } if pid != tid => {
                self.names.remove(tid);
            }
            _ => {}
        }
    }

    fn process(&self, pid: i32) -> &str {
        let unknown = if pid == 0 { "[idle]" } else { "[unknown]" };
        self.names.get(&pid).map_or(unknown, String::as_str)
    }

    /// The name of a thread, read from /proc if no event gave it.
    fn thread(&mut self, pid: i32, tid: i32) -> String {
        if let Some(name) = self.names.get(&tid) {
            return name.clone();
        }
        let read = || {
            let task = format!("{pid}/task/{tid}/comm");
            let name = fs::read(self.proc_root.join(task)).ok()?;
            Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
        };
        // A thread that has ended gets the name of its process.
        let name = read().filter(|_| pid > 0).unwrap_or_else(|| self.process(pid).to_string());
        self.names.insert(tid, name.clone());
        name
    }
}

/// Counts a sample for its process, thread and CPU; returns whether the filter includes it.
fn tally(
    interval: &mut Interval,
    names: &mut TaskNames,
    filter: &Filter,
    sample: &Sample<'_>,
) -> bool {
    interval.samples += 1;
    let kernel = if sample.in_kernel { sample.period } else { 0 };
    let cpu = sample.cpu.and_then(|cpu| i32::try_from(cpu).ok());
    let Sample { pid, tid, .. } = *sample;
    let process = interval.processes.entry(pid).or_default();
    if process.detail.is_empty() {
        process.name = names.process(pid).to_string();
        process.detail = pid.to_string();
    }
    let thread = interval.threads.entry(tid).or_default();
    if thread.detail.is_empty() {
        thread.name = names.thread(pid, tid);
        thread.detail = match pid == tid {
            true => tid.to_string(),
            false => format!("{tid} of {} {pid}", names.process(pid)),
        };
    }
    let cpu_group = cpu.map(|cpu| interval.cpus.entry(cpu).or_default());
    for group in [Some(process), Some(thread), cpu_group].into_iter().flatten() {
        group.cost += sample.period;
        group.kernel += kernel;
    }
    match filter {
        Filter::Everything => true,
        Filter::Process(wanted, _) => *wanted == pid,
        Filter::Thread(wanted, _) => *wanted == tid,
        Filter::Cpu(wanted) => Some(*wanted) == cpu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_counted_for_their_process_and_cpu() {
        let mut names = TaskNames::new(Path::new("/nowhere"));
        let name = |pid, tid, name| Event::Name { pid, tid, name, exec: true };
        names.note(&name(7, 7, b"work"));
        names.note(&name(7, 8, b"a thread"));
        names.note(&Event::Fork { pid: 9, parent_pid: 7, tid: 9 });
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
        assert!(tally(&mut interval, &mut names, &all, &sample(7, 0, false)));
        assert!(tally(&mut interval, &mut names, &all, &sample(7, 1, true)));
        let only = Filter::Process(9, "work".into());
        assert!(!tally(&mut interval, &mut names, &only, &sample(4, 1, true)));
        assert!(tally(&mut interval, &mut names, &only, &sample(9, 1, true)));
        assert!(!tally(&mut interval, &mut names, &Filter::Cpu(0), &sample(9, 1, true)));
        let group = |groups: &std::collections::BTreeMap<_, crate::interval::GroupCost>, of| {
            let group: &crate::interval::GroupCost = &groups[&of];
            (group.name.clone(), group.cost, group.kernel)
        };
        assert_eq!(group(&interval.processes, 7), ("work".into(), 20, 10));
        assert_eq!(group(&interval.processes, 9), ("work".into(), 20, 20));
        assert_eq!(group(&interval.processes, 4), ("[unknown]".into(), 10, 10));
        assert_eq!(group(&interval.cpus, 1), (String::new(), 40, 40));
        assert_eq!(interval.samples, 5);
    }

    #[test]
    fn threads_have_names_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let write = |task: &str, name: &str| {
            let task = folder.path().join(task);
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("comm"), name).unwrap();
        };
        write("7/task/9", "older\n");
        let mut names = TaskNames::new(folder.path());
        let name = |tid, name| Event::Name { pid: 7, tid, name, exec: false };
        names.note(&name(7, b"work"));
        names.note(&name(8, b"writer"));
        // Thread 8 reported its name, thread 9 began before the sampling, and thread 10 is gone.
        assert_eq!([8, 9, 10].map(|tid| names.thread(7, tid)), ["writer", "older", "work"]);
        names.note(&Event::Exit { pid: 7, tid: 8 });
        assert_eq!(names.thread(7, 8), "work");
        let mut interval = Interval::default();
        let sample = Sample {
            time_ns: None,
            pid: 7,
            tid: 9,
            cpu: None,
            event: 0,
            period: 10,
            address: 1,
            in_kernel: true,
            chain: &[],
            user_stack: None,
        };
        let only = Filter::Thread(9, "older".into());
        assert!(tally(&mut interval, &mut names, &only, &sample));
        assert!(!tally(&mut interval, &mut names, &only, &Sample { tid: 7, ..sample }));
        let thread = &interval.threads[&9];
        let shown = (thread.name.as_str(), thread.detail.as_str(), thread.kernel);
        assert_eq!(shown, ("older", "9 of work 7", 10));
        assert_eq!(interval.threads[&7].detail, "7");
    }
}
