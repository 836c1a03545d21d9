//! Checks whether a change of an emulated run's instructions is one of deferred work and ticks.
//!
//! A region that is shorter than some ticks contains whole batches of deferred work, or none, as its place within a tick decides.

use crate::comparison::Severity::{Doubtful, Fine};
use crate::comparison::ledger::{Evidence, Finding, unknown};
use opcost_record::metric::{DEFERRED, EMULATOR, SYNCHRONOUS, TICK};
use opcost_record::{Domain, MetricKey};

/// The number of ticks from which on a region contains the usual share of deferred work.
const TICKS_MIN: f64 = 20.0;
/// The change of deferred work and ticks, as a share of all instructions, that may pass for a change of the work.
const SHARE_MIN: f64 = 0.002;

/// Compares the change of all instructions with that of the part which the tick decides.
pub(super) fn ticks(evidence: &Evidence<'_>) -> Finding {
    if !evidence.recording.plan.boots_kernels() {
        return Finding::Seen(Fine, "no kernel was counted".into());
    }
    let means = |name: &str, domain| evidence.means_in(name, domain, EMULATOR);
    let parts = [DEFERRED, TICK].map(|name| means(name, Domain::Kernel));
    let by_tick: Vec<Option<f64>> =
        parts[0].iter().zip(&parts[1]).map(|(one, other)| Some((*one)? + (*other)?)).collect();
    let totals = means("instructions", Domain::All);
    let ticks = means("interrupts", Domain::All).into_iter().flatten().reduce(f64::min);
    let Some(ticks) = ticks.filter(|_| by_tick.iter().any(Option::is_some)) else {
        return unknown("no run tells its deferred work apart");
    };
    if ticks >= TICKS_MIN {
        let text = format!("{ticks:.0} ticks fell into a run, or more");
        return Finding::Seen(Fine, text);
    }
    let primary = &evidence.recording.plan.primary;
    let few = format!(
        "{ticks:.1} ticks fell into a run: fewer than {TICKS_MIN} say little about {DEFERRED}:k and {TICK}:k, and \
         so about instructions:k; {SYNCHRONOUS}:k contains neither"
    );
    let misleads = contains_ticks(primary)
        && evidence.recording.comparisons().into_iter().any(|(baseline, variant)| {
            let of = |means: &[Option<f64>]| Some((means[baseline]?, means[variant]?));
            of(&by_tick).zip(of(&totals)).is_some_and(|(by_tick, total)| is_by_tick(by_tick, total))
        });
    match misleads {
        true => {
            let advice = format!(
                "most of the change of {primary} is theirs: make the work longer, or decide by \
                 --primary {SYNCHRONOUS}:k"
            );
            Finding::Seen(Doubtful, format!("{few}; {advice}"))
        }
        false => Finding::Seen(Fine, few),
    }
}

/// Whether a metric includes deferred work and ticks.
fn contains_ticks(primary: &MetricKey) -> bool {
    let whole = primary.name == "instructions" && primary.domain != Domain::User;
    whole || [DEFERRED, TICK].contains(&primary.name.as_str())
}

/// Whether most of the change of a total, from the first mean to the second, is that of a part.
fn is_by_tick(part: (f64, f64), total: (f64, f64)) -> bool {
    let (part, change) = (part.1 - part.0, total.1 - total.0);
    part.abs() > total.0 * SHARE_MIN && part.abs() > change.abs() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_the_ticks_if_most_of_it_is() {
        assert!(is_by_tick((9_000.0, 5_000.0), (100_000.0, 96_000.0)));
        assert!(
            is_by_tick((9_000.0, 5_000.0), (100_000.0, 97_200.0)),
            "the work itself costs more"
        );
        assert!(!is_by_tick((9_000.0, 9_100.0), (100_000.0, 100_100.0)), "next to nothing");
        assert!(!is_by_tick((9_000.0, 9_400.0), (100_000.0, 101_600.0)), "mostly the work");
    }

    #[test]
    fn primaries_with_deferred_work_are_known() {
        let key = |name, domain| MetricKey::new(name, domain, EMULATOR);
        assert!(contains_ticks(&key("instructions", Domain::All)));
        assert!(contains_ticks(&key("instructions", Domain::Kernel)));
        assert!(contains_ticks(&key(TICK, Domain::Kernel)));
        assert!(!contains_ticks(&key("instructions", Domain::User)));
        assert!(!contains_ticks(&key(SYNCHRONOUS, Domain::Kernel)));
    }
}
