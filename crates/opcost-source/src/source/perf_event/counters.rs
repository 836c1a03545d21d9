//! The counters of one process.
//!
//! **opcost reads each counter by itself.** A group read cannot be combined with inheritance before Linux 6.13.
//!
//! **opcost switches only the leader of a group.** When it switched all members at once, members on another PMU missed part
//! of a second region.
//!
//! **A stopped counter of each software event stays open while recording.** The first opening and the last closing of such an
//! event rewrite kernel code; without the stopped counter every short run would pay for this.

use super::is_clock;
use crate::source::{EventPlan, Source};
use anyhow::{Context, Result, anyhow};
use opcost_record::{Domain, MetricKey, Reading};
use opcost_sys::perf::{
    CounterId, CounterReading, EventAttr, OpenContext, PerfKernel, ShortRead, explain,
};
use opcost_sys::spawn::Exit;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::rc::Rc;

/// Counters opened on one process and its children.
pub struct Counters {
    kernel: Rc<dyn PerfKernel>,
    events: Vec<EventPlan>,
    /// Whether counters start at exec (a command) instead of on demand (a region).
    on_exec: bool,
    open: Vec<Open>,
}

struct Open {
    id: CounterId,
    leader: bool,
    /// The readings before the last start and after the last stop; `None` if a pinned counter got no place on the hardware.
    before: Option<CounterReading>,
    after: Option<CounterReading>,
}

/// The request to the kernel for one event.
pub fn attr(event: &EventPlan, on_exec: bool, leader: bool) -> EventAttr {
    EventAttr {
        kind: event.kind,
        config: event.config,
        config1: event.config1,
        config2: event.config2,
        exclude_user: event.key.domain == Domain::Kernel,
        // A clock counts the kernel's time in any case, so excluding the kernel changes nothing and needs fewer rights.
        exclude_kernel: event.key.domain == Domain::User || is_clock(event.kind, event.config),
        exclude_hv: event.key.domain != Domain::All,
        inherit: true,
        // Members follow their leader.
        enable_on_exec: on_exec && leader,
        disabled: leader,
        pinned: event.pinned && leader,
        ..EventAttr::default()
    }
}

impl Counters {
    /// Counters for `events`, not yet opened.
    pub fn new(kernel: Rc<dyn PerfKernel>, events: Vec<EventPlan>, on_exec: bool) -> Counters {
        Counters { kernel, events, on_exec, open: Vec::new() }
    }

    fn close(&mut self) {
        for counter in self.open.drain(..) {
            self.kernel.close(counter.id);
        }
    }

    fn snapshot(&self) -> Result<Vec<Option<CounterReading>>> {
        let read = |(counter, event): (&Open, &EventPlan)| match self.kernel.read(counter.id) {
            Ok(reading) => Ok(Some(reading)),
            Err(error) if ShortRead::of(&error).is_some() => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read counter {}", event.key)),
        };
        self.open.iter().zip(&self.events).map(read).collect()
    }

    /// Switches the leaders on or off; the members follow.
    ///
    /// This does not switch the whole group by PERF_IOC_FLAG_GROUP, which also stops each member individually. Linux 6.18 then
    /// starts a member whose PMU is not its leader's (`task-clock` beside `page-faults`) only when the task is next scheduled, and
    /// the member misses part of the region.
    fn switch(&self, on: bool) -> Result<()> {
        for (counter, event) in
            self.open.iter().zip(&self.events).filter(|(counter, _)| counter.leader)
        {
            let done = if on {
                self.kernel.enable(counter.id, false)
            } else {
                self.kernel.disable(counter.id, false)
            };
            done.with_context(|| format!("cannot switch counter {}", event.key))?;
        }
        Ok(())
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        self.close();
    }
}

impl Source for Counters {
    fn attach(&mut self, pid: i32) -> Result<()> {
        self.close();
        let mut leaders: HashMap<u32, CounterId> = HashMap::new();
        for event in &self.events {
            let leader = event.group.and_then(|group| leaders.get(&group).copied());
            let attr = attr(event, self.on_exec, leader.is_none());
            let opened = self.kernel.open(&attr, pid, -1, leader);
            let id = opened.map_err(|error| refused(&event.key, &attr, error))?;
            if let (Some(group), None) = (event.group, leader) {
                leaders.insert(group, id);
            }
            self.open.push(Open { id, leader: leader.is_none(), before: None, after: None });
        }
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        if self.on_exec {
            for counter in &mut self.open {
                counter.before =
                    Some(CounterReading { value: 0, time_enabled_ns: 0, time_running_ns: 0 });
            }
            return Ok(());
        }
        for (counter, before) in self.snapshot()?.into_iter().enumerate() {
            self.open[counter].before = before;
        }
        self.switch(true)
    }

    fn stop(&mut self) -> Result<()> {
        if !self.on_exec {
            self.switch(false)?;
        }
        for (counter, after) in self.snapshot()?.into_iter().enumerate() {
            self.open[counter].after = after;
        }
        Ok(())
    }

    fn now(&self, sums: &mut Vec<Option<Reading>>) -> Result<()> {
        let readings = self.snapshot()?.into_iter().zip(&self.events);
        sums.extend(readings.map(|(reading, event)| {
            let reading = reading?;
            Some(Reading {
                key: event.key.clone(),
                value: reading.value,
                time: Some(reading.time()),
            })
        }));
        Ok(())
    }

    fn read(&mut self, region: &str, _: Option<&Exit>, readings: &mut Vec<Reading>) -> Result<()> {
        for (counter, event) in self.open.iter().zip(&self.events) {
            let (Some(before), Some(after)) = (counter.before, counter.after) else {
                continue;
            };
            let counted = counted(before, after).ok_or_else(|| {
                anyhow!(
                    "counter {} ran backwards, from {before:?} to {after:?}: its driver is broken; \
                     leave this event out",
                    event.key
                )
            })?;
            // A counter that was never on the hardware did not count, which is not the same as 0; perf stat reports it likewise.
            if counted.time_running_ns == 0 {
                continue;
            }
            readings.push(Reading {
                key: MetricKey { region: region.to_string(), ..event.key.clone() },
                value: counted.value,
                time: Some(counted.time()),
            });
        }
        Ok(())
    }
}

/// The count between two readings; `None` if a count or a time ran backwards.
///
/// The kernel adds to a signed 64-bit number, whatever the width of the hardware's counters (local64_t in kernel/events/core.c), so
/// a difference above `i64::MAX` means a negative difference.
fn counted(before: CounterReading, after: CounterReading) -> Option<CounterReading> {
    let since = |before: u64, after: u64| {
        Some(after.wrapping_sub(before)).filter(|count| *count <= i64::MAX as u64)
    };
    Some(CounterReading {
        value: since(before.value, after.value)?,
        time_enabled_ns: since(before.time_enabled_ns, after.time_enabled_ns)?,
        time_running_ns: since(before.time_running_ns, after.time_running_ns)?,
    })
}

/// The error for a counter that the kernel did not open: the counter, the reason, the remedy.
fn refused(key: &MetricKey, attr: &EventAttr, error: io::Error) -> anyhow::Error {
    let context = || OpenContext::detect(Path::new("/proc"), Path::new("/sys"));
    match error.raw_os_error() {
        Some(errno) => {
            let refusal = explain(errno, attr, &context());
            anyhow!("cannot open counter {key}: {}; {}", refusal.reason, refusal.remedy)
        }
        None => anyhow::Error::new(error).context(format!("cannot open counter {key}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reading(value: u64, time_enabled_ns: u64, time_running_ns: u64) -> CounterReading {
        CounterReading { value, time_enabled_ns, time_running_ns }
    }

    #[test]
    fn differences_are_exact_over_the_whole_range() {
        let zero = reading(0, 0, 0);
        assert_eq!(counted(zero, reading(7, 9, 8)), Some(reading(7, 9, 8)));
        let largest = reading(i64::MAX as u64, 9, 9);
        assert_eq!(counted(zero, largest), Some(largest));
        // Beyond the 48 bits of a hardware counter, and beyond the range of the kernel's number.
        let narrow = reading((1 << 48) - 1, 5, 5);
        assert_eq!(counted(narrow, reading((1 << 48) + 1, 9, 6)), Some(reading(2, 4, 1)));
        let end = reading(u64::MAX - 9, 5, 5);
        assert_eq!(counted(end, reading(90, 9, 6)), Some(reading(100, 4, 1)));
    }

    #[test]
    fn what_runs_backwards_is_no_count() {
        let before = reading(10, 10, 10);
        for after in [reading(9, 11, 11), reading(11, 9, 11), reading(11, 11, 9)] {
            assert_eq!(counted(before, after), None, "{after:?}");
        }
        assert_eq!(counted(reading(0, 0, 0), reading(1 << 63, 1, 1)), None);
    }

    proptest! {
        #[test]
        fn what_is_added_is_what_is_counted(before: u64, added in 0..=i64::MAX as u64) {
            let both = [before, before.wrapping_add(added)].map(|value| reading(value, 1, 1));
            prop_assert_eq!(counted(both[0], both[1]).map(|count| count.value), Some(added));
        }
    }
}
