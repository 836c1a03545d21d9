//! The activity of the whole machine during a run, from the first line of `/proc/stat` (`proc(5)`).

use super::{Source, SourceContext};
use anyhow::Result;
use opcost_record::{Domain, MetricKey, Reading};
use opcost_sys::spawn::Exit;
use std::fs::File;
use std::os::unix::fs::FileExt;

pub(super) const NAME: &str = "procfs";

/// One tick of `/proc/stat`: USER_HZ is 100 on every architecture Linux supports today.
pub(super) const TICK_NS: u64 = 10_000_000;

struct ProcStat {
    /// The open file; `None` if /proc is not mounted, and then there are no readings.
    file: Option<File>,
    before: Option<Ticks>,
    after: Option<Ticks>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Ticks {
    busy: u64,
    steal: u64,
}

pub(super) fn make(_: &SourceContext<'_>) -> Box<dyn Source> {
    Box::new(ProcStat { file: File::open("/proc/stat").ok(), before: None, after: None })
}

impl ProcStat {
    fn ticks(&self) -> Option<Ticks> {
        // The first line is the sum of all CPUs; the rest is not needed.
        let mut head = [0u8; 256];
        let length = self.file.as_ref()?.read_at(&mut head, 0).ok()?;
        parse(std::str::from_utf8(&head[..length]).ok()?)
    }
}

/// Reads `cpu user nice system idle iowait irq softirq steal …`.
fn parse(text: &str) -> Option<Ticks> {
    let mut fields =
        text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map(str::parse::<u64>);
    let mut ticks = [0u64; 8];
    for tick in &mut ticks {
        *tick = fields.next()?.ok()?;
    }
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks;
    Some(Ticks { busy: user + nice + system + irq + softirq, steal })
}

impl Source for ProcStat {
    fn start(&mut self) -> Result<()> {
        self.before = self.ticks();
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.after = self.ticks();
        Ok(())
    }

    fn read(&mut self, region: &str, _: Option<&Exit>, readings: &mut Vec<Reading>) -> Result<()> {
        let (Some(before), Some(after)) = (self.before, self.after) else {
            return Ok(());
        };
        for (name, ticks) in [
            ("steal", after.steal.checked_sub(before.steal)),
            ("machine-busy", after.busy.checked_sub(before.busy)),
        ] {
            // The kernel's stolen time has been seen to run backwards; this gives no reading.
            let Some(ticks) = ticks else { continue };
            let key =
                MetricKey { region: region.to_string(), ..MetricKey::new(name, Domain::All, NAME) };
            readings.push(Reading::plain(key, ticks * TICK_NS));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_that_goes_backwards_gives_no_reading() {
        let mut source = ProcStat {
            file: None,
            before: Some(Ticks { busy: 10, steal: 9 }),
            after: Some(Ticks { busy: 14, steal: 8 }),
        };
        let mut readings = Vec::new();
        source.read("work", None, &mut readings).unwrap();
        let read: Vec<(&str, u64)> =
            readings.iter().map(|reading| (reading.key.name.as_str(), reading.value)).collect();
        assert_eq!(read, [("machine-busy", 4 * TICK_NS)]);
    }

    #[test]
    fn the_line_of_all_cpus_is_read() {
        let text = "cpu  100 2 30 4000 5 6 7 8 0 0\ncpu0 50 1 15 2000 2 3 3 4 0 0\n";
        assert_eq!(parse(text), Some(Ticks { busy: 145, steal: 8 }));
        for broken in ["", "cpu  1 2 3", "cpu  1 2 3 4 5 6 7 x", "intr 1 2 3 4 5 6 7 8"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
