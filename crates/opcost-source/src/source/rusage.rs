//! The resources that the kernel charged: by `wait4` for a command and the processes it waited for, by `getrusage` for a region.

use super::{Scope, Source, SourceContext};
use anyhow::{Context, Result};
use opcost_record::{Domain, MetricKey, Reading};
use opcost_sys::rusage::{Rusage, of_self};
use opcost_sys::spawn::Exit;

pub(super) const NAME: &str = "rusage";

struct ChildOrSelf {
    region: bool,
    /// Workers are charged only at their end, so their part of a region cannot be read here.
    team: bool,
    started: Rusage,
    used: Rusage,
}

pub(super) fn make(context: &SourceContext<'_>) -> Box<dyn Source> {
    Box::new(ChildOrSelf {
        region: context.scope == Scope::Region,
        team: context.team,
        started: Rusage::default(),
        used: Rusage::default(),
    })
}

/// Why a metric is absent from runs whose resources were charged.
pub(super) fn absent(scope: Scope) -> &'static str {
    match scope {
        Scope::Command => "smaller than that of the process that started the runs, which hides it",
        _ => "several processes did the work, and the kernel tells of them only when they end",
    }
}

impl Source for ChildOrSelf {
    fn start(&mut self) -> Result<()> {
        if self.region {
            self.started = of_self().context("getrusage")?;
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        if self.region {
            self.used = of_self().context("getrusage")?.since(&self.started);
        }
        Ok(())
    }

    fn read(
        &mut self,
        region: &str,
        exit: Option<&Exit>,
        readings: &mut Vec<Reading>,
    ) -> Result<()> {
        if self.region && self.team {
            return Ok(());
        }
        let used = exit.map_or(&self.used, |exit| &exit.rusage);
        let peak = match exit {
            // A peak below this process's own is hidden by it.
            Some(exit) => exit.rss_bytes_max,
            None => Some(used.rss_bytes_max),
        };
        let peak = peak.map(|bytes| ("peak-rss", bytes));
        for (name, value) in used.figures().into_iter().chain(peak) {
            let key =
                MetricKey { region: region.to_string(), ..MetricKey::new(name, Domain::All, NAME) };
            readings.push(Reading::plain(key, value));
        }
        Ok(())
    }
}
