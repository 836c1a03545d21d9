//! The counters of one process.

use crate::plan::EventPlan;
use crate::source::Source;
use anyhow::{Context, Result};
use opcost_record::{CountingTime, Domain, MetricKey, Reading};
use opcost_sys::perf::{CounterId, CounterReading, EventAttr, PerfKernel, ShortRead};
use opcost_sys::spawn::Exit;
use std::collections::HashMap;
use std::rc::Rc;

/// Counters opened on one process and its children.
pub struct Counters {
    kernel: Rc<dyn PerfKernel>,
    events: Vec<EventPlan>,
    /// Start at exec (a command), or when switched on (a region).
    on_exec: bool,
    open: Vec<Open>,
}

struct Open {
    id: CounterId,
    leader: bool,
    /// What it held before the last start and after the last stop; `None` where a pinned counter
    /// got no place on the hardware.
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
        exclude_kernel: event.key.domain == Domain::User,
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
    /// Counters for `events`, not opened yet.
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

    fn switch(&self, on: bool) -> Result<()> {
        for (counter, event) in
            self.open.iter().zip(&self.events).filter(|(counter, _)| counter.leader)
        {
            let whole_group = event.group.is_some();
            let done = if on {
                self.kernel.enable(counter.id, whole_group)
            } else {
                self.kernel.disable(counter.id, whole_group)
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
            let id = self
                .kernel
                .open(&attr(event, self.on_exec, leader.is_none()), pid, -1, leader)
                .with_context(|| format!("cannot open counter {}", event.key))?;
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

    fn read(&mut self, region: &str, _: Option<&Exit>, readings: &mut Vec<Reading>) -> Result<()> {
        for (counter, event) in self.open.iter().zip(&self.events) {
            let (Some(before), Some(after)) = (counter.before, counter.after) else {
                continue;
            };
            let time = CountingTime {
                enabled_ns: after.time_enabled_ns - before.time_enabled_ns,
                running_ns: after.time_running_ns - before.time_running_ns,
            };
            // Never on the hardware: not counted, which is not zero.
            if time.enabled_ns > 0 && time.running_ns == 0 {
                continue;
            }
            readings.push(Reading {
                key: MetricKey { region: region.to_string(), ..event.key.clone() },
                value: after.value - before.value,
                time: Some(time),
            });
        }
        Ok(())
    }
}
