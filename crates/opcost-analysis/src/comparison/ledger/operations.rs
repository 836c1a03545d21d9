//! Checks whether the runs did a number of operations, or worked for a time.
//!
//! The clock of an emulated machine counts instructions. A program that works until the clock says so therefore executes the same
//! number of instructions whatever an operation costs: a dearer operation leaves the total as it is and lowers the number of
//! operations. Everything that the change did not touch then shrinks by one factor, which no program with fixed work shows.
//!
//! **Untouched functions show that a program runs for a time.** The emulated clock counts instructions, so the total of such
//! a program stays the same whatever an operation costs. A change touches few functions; if half of all instructions are in
//! functions that shrank by one factor under the same total, the number of operations changed.
//! User and kernel mode alone would not do: work that moves from one to the other looks the same.

use crate::comparison::Severity::{Doubtful, Fine, Refuse};
use crate::comparison::columns::WALL;
use crate::comparison::ledger::besides::{Besides, Side, weigh};
use crate::comparison::ledger::{Evidence, Finding};
use opcost_base::number::{grouped, magnitude, percent};
use opcost_model::plan::{MachineKind, OPERATIONS_MIN, Plan, WorkPlan};
use opcost_record::metric::{EMULATOR, SYNCHRONOUS};
use opcost_record::{Domain, MetricKey, Profile};
use std::collections::HashMap;

/// The rule's name.
pub const RULE: &str = "operations";

/// The advice for a program that works for a time.
const REMEDY: &str = "give --ops REGEX if the program prints how many operations it did, or have it do a fixed \
                      number by an option of its own";

/// Functions by which a program asks for the time: the kernel's system calls and its vDSO, and libraries' functions in front of them.
const CLOCKS: [&str; 12] = [
    "__vdso_clock_gettime",
    "__vdso_gettimeofday",
    "__vdso_time",
    "__x64_sys_clock_gettime",
    "__x64_sys_gettimeofday",
    "__x64_sys_time",
    "clock_gettime",
    "__clock_gettime",
    "gettimeofday",
    "__gettimeofday",
    "time",
    "times",
];

/// Functions by which the kernel ends a time that a program set: alarm and setitimer, timer_settime, timerfd_settime, and waiting with
/// a limit (kernel/time/itimer.c, posix-timers.c and hrtimer.c, fs/timerfd.c).
const TIMERS: [&str; 4] = ["it_real_fn", "posix_timer_fn", "timerfd_tmrproc", "hrtimer_wakeup"];

/// The fewest readings of a clock that bound a time: its beginning and its end.
const READINGS_MIN: u64 = 2;

/// Runs that differ by more did not run for the same time.
const TIME_CHANGE_MAX: f64 = 0.01;

/// A count that moved by less did not move.
const MOVED_MIN: f64 = 0.002;

/// How many times farther than the time something moved.
const MOVED_PER_TIME_MIN: f64 = 3.0;

/// With fewer system calls, their number shows nothing.
const SYSTEM_CALLS_MIN: f64 = 100.0;

/// Numbers of operations that differ by a larger factor are no longer alike.
const FACTOR_MAX: f64 = 1.5;

/// What a run costs besides its operations may move a change by this much.
const SHIFT_MAX: f64 = 0.001;

/// A run ends close behind a round time if it is longer by this share at most, or by this time and share for the program's start.
const NEAR_RATIO: f64 = 0.01;
const START_NS: f64 = 20e6;
const START_RATIO: f64 = 0.03;

/// How much longer than whole seconds all runs of a time-bound program may take on the host, nanoseconds.
const HOST_EXCESS_NS_MAX: f64 = 50e6;
const SECOND_NS: f64 = 1e9;

/// The fewest runs of a host whose times show something.
const HOST_RUNS_MIN: usize = 4;

/// Whether the rule says anything about a plan: a workload makes a fixed number of operations, and an attached program its own.
pub(super) fn applies(plan: &Plan) -> bool {
    plan.attachment().is_none() && matches!(plan.variants[0].work, WorkPlan::Command { .. })
}

pub(super) fn operations(evidence: &Evidence<'_>) -> Finding {
    let recording = evidence.recording;
    let plan = &recording.plan;
    if plan.variants.iter().any(|variant| variant.ops.is_some()) {
        return counted(evidence);
    }
    let found = match plan.machine() {
        MachineKind::Emulated if plan.boots_kernels() => match plan.variants.len() {
            1 => alone(evidence),
            _ => compared(evidence),
        },
        MachineKind::Host => timed_on_host(evidence),
        _ => None,
    };
    found.unwrap_or_else(|| {
        Finding::Seen(Fine, "no run seems to end by the clock; a run is one operation".into())
    })
}

/// Judges operations that the programs printed.
fn counted(evidence: &Evidence<'_>) -> Finding {
    let variants = &evidence.recording.plan.variants;
    let of_runs = |variant: usize| {
        let runs = evidence.finished[variant].iter();
        runs.filter_map(|run| run.ops).collect::<Vec<u64>>()
    };
    let counts: Vec<Vec<u64>> = (0..variants.len()).map(of_runs).collect();
    let all = || counts.iter().flatten().copied();
    let (Some(least), Some(most)) = (all().min(), all().max()) else {
        return Finding::Unknown("no run finished".into());
    };
    if least < OPERATIONS_MIN {
        let text = format!(
            "a run did only {} operations: the end of its time can cut one off, so a figure can be off by {}; \
             let it run longer",
            grouped(least),
            magnitude(1.0 / least as f64)
        );
        return Finding::Seen(Doubtful, text);
    }
    let mean = |counts: &Vec<u64>| {
        let sum: f64 = counts.iter().map(|count| *count as f64).sum();
        (!counts.is_empty()).then(|| sum / counts.len() as f64)
    };
    let named =
        || counts.iter().zip(variants).filter_map(|(of, plan)| Some((mean(of)?, &plan.name)));
    let ends = named().min_by(|one, two| one.0.total_cmp(&two.0));
    let ends = ends.zip(named().max_by(|one, two| one.0.total_cmp(&two.0)));
    if let Some(((few, slow), (many, fast))) = ends
        && many > few * FACTOR_MAX
    {
        let text = format!(
            "a run of '{slow}' did {} operations and one of '{fast}' {}: what a run costs besides its operations \
             weighs {:.1} times as much in '{slow}'; let runs be long enough for it not to matter",
            grouped(few.round() as u64),
            grouped(many.round() as u64),
            many / few
        );
        return Finding::Seen(Doubtful, text);
    }
    let range = match least == most {
        true => grouped(least),
        false => format!("{} to {}", grouped(least), grouped(most)),
    };
    let printed = format!("the programs printed {range} operations a run");
    let Some(((one, other), found)) = heaviest(evidence) else {
        return Finding::Seen(Fine, printed);
    };
    let name = |variant: usize| &variants[variant].name;
    let primary = evidence.recording.plan.primary.label();
    let [change, alone] = found.changes.map(percent);
    if found.shift() <= SHIFT_MAX {
        let text = format!(
            "{printed}; code that was called as often for other numbers of operations, as a program's start, moves the \
             change of {primary} by {}",
            magnitude(found.shift())
        );
        return Finding::Seen(Fine, text);
    }
    let text = format!(
        "up to {} of {primary} is in code that '{}' and '{}' called as often for different numbers of operations, as a \
         program's start: the change is {change} with it and {alone} without; let runs be longer",
        magnitude(found.share),
        name(one),
        name(other),
    );
    Finding::Seen(Doubtful, text)
}

/// The comparison whose change is moved farthest by what runs cost besides their operations, by the first block.
fn heaviest(evidence: &Evidence<'_>) -> Option<((usize, usize), Besides)> {
    let recording = evidence.recording;
    let primary = &recording.plan.primary;
    if !["instructions", SYNCHRONOUS].contains(&primary.name.as_str()) {
        return None;
    }
    let metric = recording.dictionary.id(primary)?;
    let side = |variant: usize| {
        let run = evidence.finished[variant].first()?;
        let (_, profile) = recording.profiles.iter().find(|(of, _)| *of == run.slot)?;
        Some(Side { profile, operations: run.ops?, count: run.sample(metric)?.value as f64 })
    };
    let weighed = recording.comparisons().into_iter().filter_map(|(one, other)| {
        Some(((one, other), weigh([side(one)?, side(other)?], primary.domain)?))
    });
    weighed.max_by(|(_, one), (_, other)| one.shift().total_cmp(&other.shift()))
}

/// The counts that show how a variant of the emulated machine used its time.
struct Use<'a> {
    /// The guest's time in instructions and iterations of string instructions, which the clock counts alike. This and the
    /// others are means over the finished runs.
    time: f64,
    user: f64,
    kernel: f64,
    system_calls: f64,
    /// The profile of the first block's run.
    profile: Option<&'a Profile>,
}

impl<'a> Use<'a> {
    fn of(evidence: &Evidence<'a>, variant: usize) -> Option<Use<'a>> {
        let recording = evidence.recording;
        let runs = &evidence.finished[variant];
        let mean = |name: &str, domain| {
            let id = recording.dictionary.id(&MetricKey::new(name, domain, EMULATOR))?;
            let values = runs.iter().filter_map(|run| run.sample(id));
            let (sum, n) =
                values.fold((0.0, 0.0), |(sum, n), one| (sum + one.value as f64, n + 1.0));
            (n > 0.0).then(|| sum / n)
        };
        let slot = runs.first()?.slot;
        let profile = recording.profiles.iter().find(|(of, _)| *of == slot);
        Some(Use {
            time: mean("instruction-starts", Domain::All)
                .or_else(|| mean("instructions", Domain::All))?,
            user: mean("instructions", Domain::User)?,
            kernel: mean("instructions", Domain::Kernel)?,
            system_calls: mean("system-calls", Domain::All).unwrap_or_default(),
            profile: profile.map(|(_, profile)| profile),
        })
    }

    /// How the program learned the time; `None` if it hardly did.
    fn clock(&self) -> Option<String> {
        let profile = self.profile?;
        let calls = |names: &[&str]| {
            let mut by_name: HashMap<&str, u64> = HashMap::new();
            for context in &profile.contexts {
                let name = profile.functions[context.function as usize].symbol.as_str();
                if let Some(name) = names.iter().find(|known| **known == name) {
                    *by_name.entry(name).or_default() += context.calls.max(1);
                }
            }
            // One reading goes through several of these functions.
            by_name.into_values().max().unwrap_or_default()
        };
        let (readings, expired) = (calls(&CLOCKS), calls(&TIMERS));
        match (readings, expired) {
            (_, 1..) => Some("a timer that it set ran out".into()),
            (READINGS_MIN.., _) => Some(format!("it read the clock {} times", grouped(readings))),
            _ => None,
        }
    }

    /// The instructions of each function's own code.
    fn functions(&self) -> HashMap<(&'a str, &'a str), f64> {
        let mut costs = HashMap::new();
        for context in self.profile.iter().flat_map(|profile| {
            let of = |at: u32| &profile.functions[at as usize];
            profile.contexts.iter().map(move |context| (of(context.function), context.cost))
        }) {
            let (function, cost) = context;
            *costs.entry((function.symbol.as_str(), function.module.as_str())).or_default() +=
                cost as f64;
        }
        costs
    }
}

/// Finds a comparison whose sides ran for one and the same time.
fn compared(evidence: &Evidence<'_>) -> Option<Finding> {
    let plan = &evidence.recording.plan;
    let uses: Vec<Option<Use<'_>>> =
        (0..plan.variants.len()).map(|variant| Use::of(evidence, variant)).collect();
    evidence.recording.comparisons().into_iter().find_map(|(one, other)| {
        let sides = [uses[one].as_ref()?, uses[other].as_ref()?];
        let moved = moved_in_one_time(sides)?;
        let clock = sides[0].clock().or_else(|| sides[1].clock());
        // Without profiles nothing tells whether the program knows the time.
        let (severity, clock) = match clock {
            Some(clock) => (Refuse, clock),
            None if sides.iter().all(|side| side.profile.is_none()) => {
                (Doubtful, "whether it read the clock is not known".into())
            }
            None => return None,
        };
        let names = [one, other].map(|side| plan.variants[side].name.as_str());
        Some(Finding::Seen(
            severity,
            format!(
                "the program seems to run for a time, not for a number of operations: '{}' and '{}' ran for the same \
                 time by the guest's clock (within {}), while {moved}; {clock}, and the clock counts instructions, so \
                 their total says nothing of what an operation costs; {REMEDY}",
                names[0],
                names[1],
                magnitude(sides[1].time / sides[0].time - 1.0),
            ),
        ))
    })
}

/// The counts that moved although two sides ran for the same time, in words; `None` if none did.
fn moved_in_one_time([one, other]: [&Use<'_>; 2]) -> Option<String> {
    let time_change = (other.time / one.time - 1.0).abs();
    if time_change.is_nan() || time_change > TIME_CHANGE_MAX {
        return None;
    }
    let beyond_time =
        |ratio: f64| ratio.abs() >= MOVED_MIN && ratio.abs() >= time_change * MOVED_PER_TIME_MIN;
    let system_calls = other.system_calls / one.system_calls - 1.0;
    let has_calls = one.system_calls.min(other.system_calls) >= SYSTEM_CALLS_MIN;
    let calls_moved = has_calls && beyond_time(system_calls);
    // The kernel won the instructions that user mode lost, or the reverse.
    let share = (other.user - one.user).abs().max((other.kernel - one.kernel).abs()) / one.time;
    let exchanged = beyond_time(share);
    match (one.profile, other.profile) {
        (Some(_), Some(_)) => {
            let functions = usual_change(&one.functions(), &other.functions());
            let scaled = functions.is_some_and(beyond_time);
            (scaled && (calls_moved || exchanged || !has_calls)).then_some(())?;
        }
        _ => (calls_moved && exchanged).then_some(())?,
    }
    Some(match calls_moved {
        true => format!("the number of system calls changed by {}", magnitude(system_calls)),
        false => {
            let change = usual_change(&one.functions(), &other.functions()).unwrap_or(share);
            format!("most functions executed {} more or fewer", magnitude(change.abs()))
        }
    })
}

/// The change of functions in the middle: half of the baseline's instructions are in functions that changed by less.
///
/// A change of code moves the functions that it touches; the others stay if the work is the same.
fn usual_change(
    one: &HashMap<(&str, &str), f64>,
    other: &HashMap<(&str, &str), f64>,
) -> Option<f64> {
    let mut changes: Vec<(f64, f64)> = one
        .iter()
        .filter(|(_, cost)| **cost > 0.0)
        .map(|(function, cost)| (other.get(function).unwrap_or(&0.0) / cost - 1.0, *cost))
        .collect();
    changes.sort_by(|one, two| one.0.total_cmp(&two.0));
    let half = changes.iter().map(|(_, cost)| cost).sum::<f64>() / 2.0;
    let mut below = 0.0;
    changes.into_iter().find_map(|(change, cost)| {
        below += cost;
        (below >= half).then_some(change)
    })
}

/// Finds runs of one variant that end just behind whole seconds of the guest's clock.
fn alone(evidence: &Evidence<'_>) -> Option<Finding> {
    let used = Use::of(evidence, 0)?;
    let clock = used.clock()?;
    // A nanosecond of the clock is an instruction.
    let time = near(used.time)?;
    Some(Finding::Seen(
        Doubtful,
        format!(
            "the program may run for a time, not for a number of operations: its runs end close behind {time} of the \
             guest's clock, which counts instructions, and {clock}; then its total says nothing of what an operation \
             costs; {REMEDY}"
        ),
    ))
}

/// The round time, in words, behind which a time ends.
fn near(time_ns: f64) -> Option<String> {
    let rounds = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 60.0];
    let seconds = rounds.map(|seconds| (seconds * SECOND_NS, format!("{seconds:.0} s")));
    let tenths = [100.0, 200.0, 300.0, 500.0].map(|ms| (ms * 1e6, format!("{ms:.0} ms")));
    // A program's start is a larger part of a short time.
    let excess = |round: f64| (round * NEAR_RATIO).max(START_NS.min(round * START_RATIO));
    seconds
        .into_iter()
        .chain(tenths)
        .find(|(round, _)| (*round..*round + excess(*round)).contains(&time_ns))
        .map(|(_, words)| words)
}

/// Finds runs on this host that all take the same whole seconds.
fn timed_on_host(evidence: &Evidence<'_>) -> Option<Finding> {
    let times = evidence.raw(WALL, "clock");
    let least = times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
    let most = times.iter().map(|(_, time)| *time).fold(0.0, f64::max);
    let seconds = (least / SECOND_NS).floor();
    let within = most - seconds * SECOND_NS;
    if times.len() < HOST_RUNS_MIN || seconds < 1.0 || within > HOST_EXCESS_NS_MAX {
        return None;
    }
    Some(Finding::Seen(
        Doubtful,
        format!(
            "every run took {seconds:.0} s and at most {:.0} ms: the program seems to run for a time, not for a number \
             of operations, and then its time says nothing of what an operation costs; {REMEDY}",
            within / 1e6
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::profile::{Context, Function};

    /// A side with these instructions in `main`, `getppid`, `clock_gettime` and a function of the kernel.
    fn profile(costs: [u64; 4]) -> Profile {
        let names = ["main", "getppid", "clock_gettime", "__x64_sys_getppid"];
        let context = |at: usize| Context {
            parent: None,
            function: at as u32,
            calls: costs[at] / 10,
            cost: costs[at],
        };
        Profile {
            functions: names.map(|name| Function::new(name, "file")).to_vec(),
            contexts: (0..4).map(context).collect(),
            ..Profile::default()
        }
    }

    fn side(profile: Option<&Profile>, [user, kernel, system_calls]: [f64; 3]) -> Use<'_> {
        Use { time: user + kernel, user, kernel, system_calls, profile }
    }

    #[test]
    fn a_dearer_operation_in_the_same_time_is_found() {
        let (one, other) = (profile([400, 100, 100, 400]), profile([380, 95, 95, 429]));
        let sides =
            [side(Some(&one), [600e6, 400e6, 1e6]), side(Some(&other), [570e6, 430.2e6, 0.95e6])];
        let moved = moved_in_one_time([&sides[0], &sides[1]]).unwrap();
        assert!(moved.contains("system calls changed by"), "{moved}");
        assert_eq!(sides[0].clock().unwrap(), "it read the clock 10 times");
        // Without profiles both other signs must agree.
        let [one, other] = sides.map(|side| Use { profile: None, ..side });
        assert!(moved_in_one_time([&one, &other]).is_some());
        assert!(moved_in_one_time([&one, &one]).is_none());
        assert!(one.clock().is_none());
    }

    #[test]
    fn work_of_a_fixed_number_of_operations_is_not() {
        let one = profile([400, 100, 100, 400]);
        let check = |other: &Profile, counts: [f64; 3]| {
            let sides = [side(Some(&one), [600e6, 400e6, 1e6]), side(Some(other), counts)];
            assert_eq!(moved_in_one_time([&sides[0], &sides[1]]), None);
        };
        // The same again, with a tick more.
        check(&one, [600e6, 400.01e6, 1e6]);
        // A dearer system call, although the kernel's share is small enough to leave the total nearly as it is.
        check(&profile([400, 100, 100, 404]), [600e6, 404e6, 1e6]);
        // Code that moved from one function into another.
        check(&profile([390, 110, 100, 400]), [600e6, 400e6, 1e6]);
        // A library that does in user mode what the kernel did before: only one function has another cost.
        check(&profile([450, 100, 100, 350]), [650e6, 350e6, 0.9e6]);
    }

    #[test]
    fn round_times_have_a_start() {
        assert_eq!(near(1.004e9).unwrap(), "1 s");
        assert_eq!(near(100.3e6).unwrap(), "100 ms");
        assert_eq!(near(30.1e9).unwrap(), "30 s");
        for other in [0.999e9, 1.03e9, 1.4e9, 7.0e9, 12_345.0] {
            assert_eq!(near(other), None, "{other}");
        }
    }

    #[test]
    fn half_of_the_instructions_decide_the_usual_change() {
        let costs = |costs: &[(&'static str, f64)]| {
            costs.iter().map(|(name, cost)| ((*name, ""), *cost)).collect::<HashMap<_, _>>()
        };
        let one = costs(&[("a", 60.0), ("b", 30.0), ("c", 10.0)]);
        assert_eq!(usual_change(&one, &one), Some(0.0));
        assert_eq!(usual_change(&one, &costs(&[("a", 30.0), ("b", 60.0)])), Some(-0.5));
        assert_eq!(usual_change(&HashMap::new(), &one), None);
    }
}
