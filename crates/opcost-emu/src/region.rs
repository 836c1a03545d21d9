//! Regions between markers, and their sums.

use crate::counters::Counters;
use crate::decode::MarkerAt;
use opcost_record::marker::REGIONS;
use opcost_record::program_region::Amounts;

/// The reason why a run in which a counted program executed a marker has no figures.
pub(crate) const FORGED: &str = "the counted program executed a marker of opcost's: it would have \
    decided itself which of its instructions count; remove the instructions 0f 1f 80 with 63 6f at \
    their end from the program";

/// A reading of all sums.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct CounterSums {
    /// The counters.
    pub(crate) counters: Counters,
    /// Landmarks reached, by the place of their counter. Then system calls of user mode, then turns of several vCPUs, then the raw
    /// counts of the self-test, three for each kind of string instruction.
    pub(crate) landmarks: Vec<u64>,
}

impl Amounts for CounterSums {
    fn add_between(&mut self, from: &CounterSums, to: &CounterSums) {
        self.counters.add_difference(&from.counters, &to.counters);
        self.landmarks.resize(to.landmarks.len(), 0);
        // Errors that came up in between were none before.
        let before = from.landmarks.iter().copied().chain(std::iter::repeat(0));
        let differences = before.zip(&to.landmarks);
        for (sum, (from, to)) in self.landmarks.iter_mut().zip(differences) {
            // What programs hold may be less than before.
            *sum = sum.wrapping_add(to.wrapping_sub(from));
        }
    }
}

/// The regions and their costs so far.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    open: Option<(usize, CounterSums)>,
    sums: [Option<CounterSums>; REGIONS.len()],
}

impl Regions {
    /// Starts a region at a reading.
    ///
    /// # Errors
    /// A region is open.
    pub(crate) fn start(&mut self, region: usize, now: CounterSums) -> Result<(), String> {
        if let Some((open, _)) = &self.open {
            let (open, new) = (REGIONS[*open], REGIONS[region]);
            return Err(if open == new {
                format!("region '{new}' was started twice without a stop between")
            } else {
                format!("region '{new}' was started inside region '{open}'; stop that one first")
            });
        }
        self.open = Some((region, now));
        Ok(())
    }

    /// Stops a region at a reading.
    ///
    /// # Errors
    /// The region is not open.
    pub(crate) fn stop(&mut self, region: usize, now: CounterSums) -> Result<(), String> {
        let name = REGIONS[region];
        let (open, since) =
            self.open.take().ok_or_else(|| format!("region '{name}' was stopped, not started"))?;
        if open != region {
            return Err(format!("region '{name}' was stopped inside region '{}'", REGIONS[open]));
        }
        self.sums[region].get_or_insert_default().add_between(&since, &now);
        Ok(())
    }

    /// Whether a marker cannot be opcost's own, if each region begins and ends once a run.
    pub(crate) fn is_forged(&self, marker: MarkerAt) -> bool {
        match marker {
            MarkerAt::Start(region) => self.open.is_some() || self.was_counted(usize::from(region)),
            MarkerAt::Stop(_) => self.open.is_none(),
            MarkerAt::RunEnd => true,
            MarkerAt::Drain | MarkerAt::Drained => self.open.is_some(),
            MarkerAt::Region(_) => false,
        }
    }

    /// Whether a region was counted since the last run's end.
    pub(crate) fn was_counted(&self, region: usize) -> bool {
        self.sums[region].is_some()
    }

    /// Returns the open region.
    pub(crate) fn open(&self) -> Option<usize> {
        self.open.as_ref().map(|(region, _)| *region)
    }

    /// Checks whether a run can end here.
    ///
    /// # Errors
    /// A region is open, or no region was counted since the last run's end.
    pub(crate) fn check_run_end(&self) -> Result<(), String> {
        match self.open() {
            Some(open) => {
                Err(format!("a run ended inside region '{}'; stop the region first", REGIONS[open]))
            }
            None if self.is_empty() => Err("a run ended in which no region was counted".into()),
            None => Ok(()),
        }
    }

    /// Begins the next run: clears the costs of all regions.
    pub(crate) fn clear(&mut self) {
        self.sums = Default::default();
    }

    /// Whether no region was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.sums.iter().all(Option::is_none)
    }

    /// Returns the cost of each counted region.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (usize, &CounterSums)> {
        self.sums.iter().enumerate().filter_map(|(region, sum)| Some((region, sum.as_ref()?)))
    }
}

/// The deferred work that ran while the guest waited for it, before and after the work of a run.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    /// The deferred instructions so far when the present wait began.
    begun: Option<u64>,
    /// The cost of the last wait before the work, in which nothing was left to do.
    empty: Option<u64>,
    left: Option<u64>,
}

impl Drains {
    /// A wait begins; `deferred`: all deferred instructions so far.
    pub(crate) fn begin(&mut self, deferred: u64) {
        self.begun = Some(deferred);
    }

    /// A wait ends; `worked`: whether it came after the work.
    pub(crate) fn end(&mut self, deferred: u64, worked: bool) {
        let cost = self.begun.take().map(|begun| deferred.wrapping_sub(begun));
        if worked {
            // Waits of one length differ by less than a tick, so the difference can fall below 0.
            self.left = cost.zip(self.empty).map(|(cost, empty)| cost.saturating_sub(empty));
        } else {
            self.empty = cost;
        }
    }

    /// The deferred instructions that the work left behind.
    pub(crate) fn left(&self) -> Option<u64> {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_work_left_behind_is_without_the_cost_of_waiting() {
        let mut drains = Drains::default();
        drains.begin(100);
        drains.end(900, false);
        drains.begin(1000);
        drains.end(1150, false);
        assert_eq!(drains.left(), None);
        drains.begin(5000);
        drains.end(5400, true);
        assert_eq!(drains.left(), Some(400 - 150));
        drains.begin(6000);
        drains.end(6100, true);
        assert_eq!(drains.left(), Some(0));
        let mut none = Drains::default();
        none.begin(5);
        none.end(9, true);
        assert_eq!(none.left(), None, "nothing tells what waiting costs");
        none.end(9, false);
        assert_eq!(none.empty, None, "the wait never began");
    }

    fn reading(landmarks: u64) -> CounterSums {
        CounterSums { landmarks: vec![landmarks], ..CounterSums::default() }
    }

    #[test]
    fn a_region_counted_twice_has_the_sum() {
        let mut regions = Regions::default();
        regions.start(0, reading(3)).unwrap();
        regions.stop(0, reading(5)).unwrap();
        regions.start(0, reading(10)).unwrap();
        assert_eq!(regions.open(), Some(0));
        regions.stop(0, reading(11)).unwrap();
        let sums: Vec<_> = regions.sums().map(|(region, sum)| (region, sum.landmarks[0])).collect();
        assert_eq!(sums, [(0, 3)]);
    }

    #[test]
    fn each_run_has_sums_of_its_own() {
        let mut regions = Regions::default();
        for (start, stop) in [(3, 5), (10, 17)] {
            regions.start(0, reading(start)).unwrap();
            assert!(regions.check_run_end().unwrap_err().contains("inside region 'work'"));
            regions.stop(0, reading(stop)).unwrap();
            regions.check_run_end().unwrap();
            let sums: Vec<_> = regions.sums().map(|(_, sum)| sum.landmarks[0]).collect();
            assert_eq!(sums, [stop - start]);
            regions.clear();
            assert!(regions.check_run_end().unwrap_err().contains("no region was counted"));
        }
    }

    #[test]
    fn further_markers_around_a_command_are_forged() {
        let mut regions = Regions::default();
        let (start, stop) = (MarkerAt::Start(0), MarkerAt::Stop(0));
        let forged = |regions: &Regions| {
            [start, stop, MarkerAt::Drain].map(|marker| regions.is_forged(marker))
        };
        assert_eq!(forged(&regions), [false, true, false]);
        regions.start(0, reading(0)).unwrap();
        assert_eq!(forged(&regions), [true, false, true]);
        regions.stop(0, reading(1)).unwrap();
        assert_eq!(forged(&regions), [true, true, false]);
        assert!(regions.is_forged(MarkerAt::RunEnd));
    }

    #[test]
    fn markers_out_of_order_are_errors() {
        let mut regions = Regions::default();
        assert!(regions.stop(0, reading(0)).unwrap_err().contains("not started"));
        regions.start(0, reading(0)).unwrap();
        assert!(regions.start(0, reading(0)).unwrap_err().contains("twice"));
        assert!(regions.start(1, reading(0)).unwrap_err().contains("inside region 'work'"));
        assert!(regions.stop(1, reading(0)).unwrap_err().contains("stopped inside"));
    }
}
