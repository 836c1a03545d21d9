//! Accounts for the seconds of a recording on the emulated machine, for `--verbose`.

use opcost_record::channel::after_work;
use opcost_sys::clock::{monotonic_ns, process_cpu_ns};
use opcost_sys::rusage;
use opcost_sys::spawn::Exit;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a watch reads the size of a guest's channel; also the precision of its times.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The times of a phase, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    elapsed_ns: u64,
    /// CPU time of emulators.
    emulator_ns: u64,
    /// CPU time of opcost itself.
    own_ns: u64,
}

/// Measures the time between two phases of opcost.
pub(super) struct Lap {
    elapsed_ns: u64,
    own_ns: u64,
}

impl Lap {
    pub(super) fn begin() -> Lap {
        Lap { elapsed_ns: monotonic_ns(), own_ns: own_ns() }
    }

    /// The times since the last call.
    pub(super) fn end(&mut self) -> Spent {
        let now = Lap::begin();
        let last = std::mem::replace(self, now);
        Spent {
            elapsed_ns: self.elapsed_ns.saturating_sub(last.elapsed_ns),
            own_ns: self.own_ns.saturating_sub(last.own_ns),
            emulator_ns: 0,
        }
    }
}

/// The CPU time of opcost so far.
fn own_ns() -> u64 {
    rusage::of_self().map_or(0, |used| used.user_ns + used.system_ns)
}

impl Spent {
    /// The times of an emulator that has ended.
    pub(super) fn of_emulator(exit: &Exit) -> Spent {
        let elapsed_ns = exit.ended_ns.saturating_sub(exit.started_ns);
        Spent { elapsed_ns, emulator_ns: used_ns(exit), own_ns: 0 }
    }
}

/// The CPU time of a process that has ended.
fn used_ns(exit: &Exit) -> u64 {
    exit.rusage.user_ns + exit.rusage.system_ns
}

/// The times of all phases.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    /// The rows, in the order in which phases were first added.
    rows: Vec<(&'static str, u32, Spent)>,
}

impl Seconds {
    pub(super) fn add(&mut self, what: &'static str, spent: Spent) {
        let row = match self.rows.iter_mut().position(|(known, ..)| *known == what) {
            Some(at) => &mut self.rows[at],
            None => {
                self.rows.push((what, 0, Spent::default()));
                let last = self.rows.len() - 1;
                &mut self.rows[last]
            }
        };
        row.1 += 1;
        row.2.elapsed_ns += spent.elapsed_ns;
        row.2.emulator_ns += spent.emulator_ns;
        row.2.own_ns += spent.own_ns;
    }

    /// A table of the phases; the last row but one has opcost's other work.
    pub(super) fn text(&self) -> String {
        self.table(own_ns())
    }

    fn table(&self, own_ns: u64) -> String {
        let seconds = |ns: u64| match ns {
            0 => "–".to_string(),
            ns => format!("{:.3}", ns as f64 / 1e9),
        };
        let row = |what: &str, times: &str, elapsed: &str, emulator: &str, own: &str| {
            format!("  {what:<46} {times:>5} {elapsed:>9} {emulator:>9} {own:>9}\n")
        };
        let mut text =
            "opcost: where the seconds went (elapsed; CPU of QEMU; CPU of opcost)\n".to_string();
        text += &row("", "times", "elapsed", "QEMU", "opcost");
        let (mut known_ns, mut emulator_ns) = (0, 0);
        for (what, times, spent) in &self.rows {
            known_ns += spent.own_ns;
            emulator_ns += spent.emulator_ns;
            let [elapsed, emulator, own] =
                [spent.elapsed_ns, spent.emulator_ns, spent.own_ns].map(seconds);
            text += &row(what, &times.to_string(), &elapsed, &emulator, &own);
        }
        let rest = seconds(own_ns.saturating_sub(known_ns));
        text += &row("all else: plan, store", "", "", "", &rest);
        text += &row("together", "", "", &seconds(emulator_ns), &seconds(own_ns.max(known_ns)));
        text + "  Elapsed times of runs that go on side by side are added up.\n"
    }
}

/// A watch's sample of a process.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at_ns: u64,
    cpu_ns: u64,
    /// The size of the guest's messages so far, bytes.
    said: u64,
}

/// Watches a guest from outside: samples its process's times whenever the guest sends something.
pub(super) struct Watch {
    pid: i32,
    channel: PathBuf,
    started_ns: u64,
    /// The ends of phases that opcost itself sees.
    marks: Vec<(&'static str, Sample)>,
    done: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Watch {
    /// Watches a process that was just started and whose guest writes its messages to `channel`.
    pub(super) fn begin(pid: i32, channel: PathBuf) -> Watch {
        let (started_ns, done) = (monotonic_ns(), Arc::new(AtomicBool::new(false)));
        let (their_channel, their_done) = (channel.clone(), done.clone());
        let thread = std::thread::spawn(move || watch(pid, &their_channel, &their_done));
        Watch { pid, channel, started_ns, marks: Vec::new(), done, thread }
    }

    /// Notes that a phase ends.
    pub(super) fn mark(&mut self, what: &'static str) {
        if let Some(cpu_ns) = process_cpu_ns(self.pid) {
            self.marks.push((what, Sample { at_ns: monotonic_ns(), cpu_ns, said: 0 }));
        }
    }

    /// The phases of a process that has ended.
    pub(super) fn end(self, exit: &Exit) -> Vec<(&'static str, Spent)> {
        self.done.store(true, Ordering::Relaxed);
        let samples = self.thread.join().unwrap_or_default();
        let said = after_work(&fs::read(&self.channel).unwrap_or_default());
        let end = Sample { at_ns: exit.ended_ns, cpu_ns: used_ns(exit), said: 0 };
        phases(self.started_ns, &self.marks, &samples, said, end)
    }
}

/// Samples the channel's size until the guest has ended.
fn watch(pid: i32, channel: &Path, done: &AtomicBool) -> Vec<Sample> {
    let (mut samples, mut known) = (Vec::new(), 0);
    while !done.load(Ordering::Relaxed) {
        let said = fs::metadata(channel).map_or(0, |file| file.len());
        if said != known {
            known = said;
            let Some(cpu_ns) = process_cpu_ns(pid) else { break };
            samples.push(Sample { at_ns: monotonic_ns(), cpu_ns, said });
        }
        std::thread::sleep(LOOK_EVERY);
    }
    samples
}

/// Splits a guest's life into phases by the marks and samples.
///
/// `said`: the length of the guest's messages before its work, bytes; `None` if it ended there.
fn phases(
    started_ns: u64,
    marks: &[(&'static str, Sample)],
    samples: &[Sample],
    said: Option<usize>,
    end: Sample,
) -> Vec<(&'static str, Spent)> {
    let mut ends = marks.to_vec();
    let way = if marks.is_empty() {
        "guests boot, up to their first word"
    } else {
        "guests take their request"
    };
    ends.extend(samples.first().map(|sample| (way, *sample)));
    let after = samples.iter().find(|sample| said.is_some_and(|said| sample.said > said as u64));
    ends.extend(after.map(|sample| ("guests set up and do their work", *sample)));
    // Without a guest there is only one phase.
    let last = match ends.is_empty() {
        true => "programs run and are counted",
        false => "guests report and end, the plugin too",
    };
    ends.push((last, end));
    let (mut at_ns, mut cpu_ns) = (started_ns, 0);
    let phase = |(what, sample): (&'static str, Sample)| {
        let spent = Spent {
            elapsed_ns: sample.at_ns.saturating_sub(at_ns),
            emulator_ns: sample.cpu_ns.saturating_sub(cpu_ns),
            own_ns: 0,
        };
        (at_ns, cpu_ns) = (sample.at_ns.max(at_ns), sample.cpu_ns.max(cpu_ns));
        (what, spent)
    };
    ends.into_iter().map(phase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ns: u64, cpu_ns: u64, said: u64) -> Sample {
        Sample { at_ns, cpu_ns, said }
    }

    #[test]
    fn a_guests_life_falls_into_phases_that_add_up() {
        let samples = [sample(130, 25, 10), sample(140, 30, 200), sample(190, 70, 230)];
        let end = sample(220, 85, 0);
        let of = |marks: &[(&'static str, Sample)], samples: &[Sample], said| {
            let phases = phases(100, marks, samples, said, end);
            assert_eq!(phases.iter().map(|(_, spent)| spent.elapsed_ns).sum::<u64>(), 120);
            assert_eq!(phases.iter().map(|(_, spent)| spent.emulator_ns).sum::<u64>(), 85);
            phases.iter().map(|(_, spent)| spent.emulator_ns).collect::<Vec<_>>()
        };
        let marks = [("a", sample(110, 5, 0)), ("b", sample(120, 15, 0))];
        assert_eq!(of(&marks, &samples, Some(200)), [5, 10, 10, 45, 15]);
        assert_eq!(of(&[], &samples, Some(200)), [25, 45, 15]);
        // The guest died before its work, or before its first message, or there is no guest.
        assert_eq!(of(&[], &samples[..1], None), [25, 60]);
        assert_eq!(of(&[], &[], None), [85]);
    }

    #[test]
    fn the_table_adds_up() {
        let mut seconds = Seconds::default();
        let spent = |elapsed_ms: u64, emulator_ms: u64, own_ms: u64| Spent {
            elapsed_ns: elapsed_ms * 1_000_000,
            emulator_ns: emulator_ms * 1_000_000,
            own_ns: own_ms * 1_000_000,
        };
        seconds.add("files are packed", spent(30, 0, 20));
        seconds.add("guests end", spent(400, 300, 0));
        seconds.add("guests end", spent(500, 350, 0));
        let text = seconds.table(50_000_000);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[2], ["files", "are", "packed", "1", "0.030", "–", "0.020"]);
        assert_eq!(lines[3], ["guests", "end", "2", "0.900", "0.650", "–"]);
        assert_eq!(lines[4].last(), Some(&"0.030"));
        assert_eq!(lines[5], ["together", "0.650", "0.050"]);
        assert!(text.lines().all(|line| line.chars().count() <= 84), "{text}");
    }
}
