//! Figures that a workload reports about its own work, besides the sources' readings. They may differ from run to run; invariants
//! may not.

use opcost_record::{Domain, MetricKey, Reading, Report, WORKLOAD};

/// One task's elapsed time; a run of several tasks reports the shortest and the longest.
const TASK_TIME: &str = "task-time";

/// The figures of a run that are made from the elapsed times of its tasks.
pub(crate) const TASK_FIGURES: [&str; 3] = ["task-time-min", "task-time-max", "task-fairness-ppm"];

/// The number of acquisitions of a lock that another task held before.
pub(crate) const LOCK_HANDOVERS: &str = "lock-handovers";

/// The longest series of acquisitions of a lock by one task.
pub(crate) const LOCK_RUN_MAX: &str = "lock-run-max";

/// The unit of the fastest task's share of the time.
const MILLION: u128 = 1_000_000;

/// Returns a figure of the work region.
pub(crate) fn figure(name: &str, value: u64) -> Reading {
    Reading::plain(MetricKey::new(name, Domain::All, WORKLOAD), value)
}

/// Returns one task's elapsed time for its work.
pub(crate) fn task_time(ns: u64) -> Reading {
    figure(TASK_TIME, ns)
}

/// Merges the figures of one or more tasks. Figures are summed, but those with names that end with `-max` keep the largest value.
/// Task times become the shortest time, the longest time and their ratio.
pub(crate) fn merge_figures(reports: &[Report]) -> Vec<Reading> {
    let Some(first) = reports.first() else { return Vec::new() };
    let mut merged = Vec::new();
    for key in first.readings.iter().map(|reading| &reading.key) {
        let name = key.name.as_str();
        let values: Vec<u64> = reports
            .iter()
            .flat_map(|report| report.readings.iter().filter(|reading| reading.key == *key))
            .map(|reading| reading.value)
            .collect();
        let least = values.iter().copied().min().unwrap_or_default();
        let most = values.iter().copied().max().unwrap_or_default();
        if name == TASK_TIME {
            let fairness = u128::from(least) * MILLION / u128::from(most.max(1));
            let values = [least, most, fairness as u64];
            merged.extend(TASK_FIGURES.iter().zip(values).map(|(name, value)| figure(name, value)));
        } else if name.ends_with("-max") {
            merged.push(Reading::plain(key.clone(), most));
        } else {
            merged.push(Reading::plain(key.clone(), values.iter().sum()));
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::MetricRow;

    fn report(time: u64, handovers: u64, run: u64) -> Report {
        let readings =
            vec![figure(LOCK_HANDOVERS, handovers), figure(LOCK_RUN_MAX, run), task_time(time)];
        Report { readings, ..Report::default() }
    }

    #[test]
    fn figures_of_tasks_become_those_of_the_run() {
        let merged = merge_figures(&[report(400, 2, 10), report(300, 3, 7)]);
        let text: Vec<String> = merged
            .iter()
            .map(|reading| format!("{}={}", reading.key.name, reading.value))
            .collect();
        assert_eq!(
            text.join(" "),
            "lock-handovers=5 lock-run-max=10 task-time-min=300 task-time-max=400 \
             task-fairness-ppm=750000"
        );
        assert!(merge_figures(&[]).is_empty());
    }

    #[test]
    fn every_figure_is_in_the_table_of_metrics() {
        for reading in merge_figures(&[report(1, 1, 1)]) {
            let row = MetricRow::find(&reading.key.name).unwrap();
            assert_eq!(row.source, WORKLOAD);
        }
    }
}
