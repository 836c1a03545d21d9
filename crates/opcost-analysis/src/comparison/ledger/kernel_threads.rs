//! Checks whether kernel threads worked in the background of an emulated run.
//!
//! A thread that the work keeps busy (write-back, a journal) does much the same in every run. A thread that is busy by itself, such
//! as the self-tests of the crypto manager after boot, falls inside or outside the counted region depending on the ticks.

use crate::comparison::Severity::{Doubtful, Fine};
use crate::comparison::ledger::{Evidence, Finding, unknown};
use opcost_model::plan::GuestPlan;
use opcost_record::metric::SYNCHRONOUS;
use opcost_record::{Domain, MetricKey, Profile};
use std::collections::BTreeMap;

/// The spread allowed between runs of a variant in the instructions of such threads, as a share of all instructions.
const SPREAD_SHARE_MAX: f64 = 0.01;
/// The function that calls every kernel thread (`kernel/kthread.c` of Linux).
const CALLER: &str = "kthread";

/// Compares the instructions of the kernel's threads over the runs of each variant.
pub(super) fn kernel_threads(evidence: &Evidence<'_>) -> Finding {
    let recording = evidence.recording;
    let boots = |guest: &GuestPlan| guest.kernel.is_some();
    if !recording.plan.variants.iter().any(|one| one.guest.as_ref().is_some_and(boots)) {
        return Finding::Seen(Fine, "no kernel was counted".into());
    }
    // Records and profiles are in the order of the schedule, and not every run has a profile.
    let mut profiles = recording.profiles.iter().peekable();
    let mut by_variant: Vec<Vec<Work>> = vec![Vec::new(); recording.plan.variants.len()];
    for record in &recording.records {
        while profiles.next_if(|(slot, _)| *slot < record.slot).is_some() {}
        let profile = profiles.next_if(|(slot, _)| *slot == record.slot);
        if let (Some((_, profile)), Some(_)) = (profile, record.block) {
            by_variant[usize::from(record.variant)].push(Work::of(profile));
        }
    }
    if by_variant.iter().all(Vec::is_empty) {
        return unknown("no run has a profile");
    }
    let busy: Vec<String> = by_variant
        .iter()
        .zip(&recording.plan.variants)
        .filter_map(|(runs, variant)| {
            let (least, most) = uneven(runs)?;
            let thread = most.by_thread.iter().max_by_key(|(_, cost)| **cost)?.0;
            Some(format!(
                "{:.0} to {:.0} % of the instructions in runs of '{}', most of them in {thread}",
                least.share() * 100.0,
                most.share() * 100.0,
                variant.name
            ))
        })
        .collect();
    finding(&busy, &recording.plan.primary)
}

/// `busy`: what the threads did, for each variant in whose runs they differed. `primary`: the metric that decides.
fn finding(busy: &[String], primary: &MetricKey) -> Finding {
    if busy.is_empty() {
        return Finding::Seen(Fine, "the kernel's threads did the same in every run".into());
    }
    let did = format!("threads of the kernel did {}", busy.join("; "));
    if primary.name == SYNCHRONOUS || primary.domain == Domain::User {
        return Finding::Seen(Fine, format!("{did}; {primary} leaves them out"));
    }
    let advice =
        "that is hardly the work's: keep them from starting (--boot), or use a kernel without them";
    Finding::Seen(Doubtful, format!("{did}; {advice}"))
}

/// The runs whose threads did least and most, if the spread exceeds the limit.
fn uneven(runs: &[Work]) -> Option<(&Work, &Work)> {
    let least = runs.iter().min_by_key(|run| run.of_threads())?;
    let most = runs.iter().max_by_key(|run| run.of_threads())?;
    let mean = runs.iter().map(|run| run.total as f64).sum::<f64>() / runs.len() as f64;
    let spread = (most.of_threads() - least.of_threads()) as f64;
    (spread > mean * SPREAD_SHARE_MAX).then_some((least, most))
}

/// The instructions of a run, in total and by kernel thread.
#[derive(Clone, Debug, Default)]
struct Work {
    total: u64,
    /// Instructions by the function of each kernel thread.
    by_thread: BTreeMap<String, u64>,
}

impl Work {
    fn of(profile: &Profile) -> Work {
        let name = |function: u32| profile.functions[function as usize].symbol.as_str();
        // For each context, the function of its thread, if a kernel thread ran it.
        let mut threads: Vec<Option<u32>> = Vec::with_capacity(profile.contexts.len());
        let mut work = Work { total: profile.total(), by_thread: BTreeMap::new() };
        for context in &profile.contexts {
            let parent = context.parent.map(|parent| parent as usize);
            let inherited = parent.and_then(|parent| threads[parent]);
            let begins = || {
                let caller = profile.contexts[parent?].function;
                (name(caller) == CALLER).then_some(context.function)
            };
            let thread = inherited.or_else(begins);
            threads.push(thread);
            if let Some(thread) = thread
                && context.cost > 0
            {
                *work.by_thread.entry(name(thread).to_string()).or_default() += context.cost;
            }
        }
        work
    }

    fn of_threads(&self) -> u64 {
        self.by_thread.values().sum()
    }

    fn share(&self) -> f64 {
        self.of_threads() as f64 / self.total.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::profile::{Context, Function};

    /// A run of 1,000 instructions of the work, and the given instructions of two threads.
    fn run(test: u64, worker: u64) -> Work {
        let names = ["main", "ret_from_fork", "kthread", "cryptomgr_test", "mpi", "worker_thread"];
        let context = |parent, function, cost| Context { parent, function, calls: 1, cost };
        Work::of(&Profile {
            functions: names.map(|name| Function::new(name, "[kernel]")).to_vec(),
            contexts: vec![
                context(None, 0, 1000),
                context(None, 1, 3),
                context(Some(1), 2, 2),
                context(Some(2), 3, 0),
                context(Some(3), 4, test),
                context(Some(2), 5, worker),
            ],
            ..Profile::default()
        })
    }

    #[test]
    fn what_a_thread_calls_is_the_threads() {
        let work = run(700, 20);
        assert_eq!(work.total, 1725);
        let threads: Vec<_> =
            work.by_thread.iter().map(|(name, cost)| (&name[..], *cost)).collect();
        assert_eq!(threads, [("cryptomgr_test", 700), ("worker_thread", 20)]);
    }

    #[test]
    fn threads_that_the_deciding_figure_leaves_out_give_no_doubt() {
        let busy =
            ["2 to 5 % of the instructions in runs of 'a', most of them in rcu_gp".to_string()];
        let doubts =
            |name: &str, domain| match finding(&busy, &MetricKey::new(name, domain, "emulator")) {
                Finding::Seen(severity, text) => {
                    assert!(text.starts_with("threads of the kernel did 2 to 5 %"), "{text}");
                    severity == Doubtful
                }
                Finding::Unknown(why) => panic!("{why}"),
            };
        assert!(doubts("instructions", Domain::All) && doubts("instructions", Domain::Kernel));
        assert!(doubts("branches", Domain::All));
        assert!(!doubts(SYNCHRONOUS, Domain::Kernel) && !doubts("instructions", Domain::User));
    }

    #[test]
    fn only_what_differs_between_runs_is_uneven() {
        assert!(uneven(&[]).is_none());
        assert!(uneven(&[run(700, 20)]).is_none(), "one run differs from none");
        assert!(uneven(&[run(700, 20), run(700, 25)]).is_none(), "the work's own");
        let runs = [run(0, 20), run(700, 20), run(300, 20)];
        let (least, most) = uneven(&runs).unwrap();
        assert_eq!((least.of_threads(), most.of_threads()), (20, 720));
    }
}
