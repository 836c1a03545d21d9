//! The subject of a self-test: the work of both sides, and the changes planted in one of them.

use super::SelftestArgs;
use opcost_model::experiment::{Command, Experiment, Scalar, Seed, Variant};
use opcost_model::plan::MachineKind;

/// Operations of a run of the workload: some milliseconds, so that many reports can be made.
const OPS: u32 = 20_000;
/// The numbers that a run counts; the default change planted in exact counts is one number more.
const NUMBERS: Range = Range { first: 20_000, count: 10_000 };

struct Range {
    first: u32,
    count: u32,
}

/// Runs of each side in a report of this host. With runs so short, the fewest that can decide would
/// find next to nothing.
const PAIRS: u32 = 100;

/// Changes planted by default, in millionths of the work: in times, and in exact counts.
const PLANTED_TIME: [u32; 2] = [10_000, 50_000];
const PLANTED_COUNT: [u32; 1] = [100];

/// The changes that can be planted, in percent: whole operations, and no more than as much work again.
pub(crate) const PLANTED_PERCENT: std::ops::RangeInclusive<f64> = 0.01..=100.0;

/// The work, and the changes that are planted in it.
pub(super) struct Subject<'a> {
    pub(super) machine: MachineKind,
    /// The user's own command, in which no change can be planted.
    pub(super) command: Option<&'a str>,
    pub(super) pairs: Option<u32>,
    pub(super) cpu: Option<usize>,
    /// The changes planted, in millionths of the work.
    pub(super) planted: Vec<u32>,
}

impl<'a> Subject<'a> {
    /// The subject that the arguments describe.
    pub(super) fn new(args: &'a SelftestArgs) -> Self {
        let machine = args.machine.unwrap_or_default();
        let planted = match (&args.command, machine) {
            (Some(_), _) => Vec::new(),
            _ if !args.plant.is_empty() => {
                let mut asked: Vec<u32> =
                    args.plant.iter().map(|percent| (percent * 10_000.0).round() as u32).collect();
                asked.sort_unstable();
                asked.dedup();
                asked
            }
            (None, MachineKind::Emulated) => PLANTED_COUNT.into(),
            (None, _) => PLANTED_TIME.into(),
        };
        let command = args.command.as_deref();
        let pairs = args.pairs.or((machine == MachineKind::Host).then_some(PAIRS));
        Subject { machine, command, pairs, cpu: args.cpu, planted }
    }

    /// Whether missing a planted change once fails the test: counts have no noise.
    pub(super) fn must_find(&self) -> bool {
        self.machine == MachineKind::Emulated
    }

    /// The change that each report plants, without end: nothing in every second report, the changes
    /// by turns in the others, so that all of them meet the same conditions.
    pub(super) fn turns(&self) -> impl Iterator<Item = u32> + use<> {
        let round = match self.planted.as_slice() {
            [] => vec![0],
            changes => changes.iter().flat_map(|change| [0, *change]).collect(),
        };
        round.into_iter().cycle()
    }

    /// The number of reports until every kind was made.
    pub(super) fn round(&self) -> usize {
        (2 * self.planted.len()).max(1)
    }

    /// The experiment of one report; the second side has `planted` millionths of its work on top.
    pub(super) fn experiment(&self, planted: u32, seed: u64) -> Experiment {
        let side = |name: &str, planted: u32| Variant {
            name: Some(name.into()),
            ..match (self.command, self.machine) {
                (Some(line), _) => {
                    Variant { command: Some(Command::Line(line.to_string())), ..Variant::default() }
                }
                (None, MachineKind::Emulated) => numbers(planted),
                (None, _) => workload(planted),
            }
        };
        Experiment {
            name: Some("selftest".into()),
            machine: Some(self.machine),
            pairs: self.pairs,
            cpu: self.cpu,
            seed: Some(Seed::Number(seed)),
            variants: vec![side("one", 0), side("other", planted)],
            ..Experiment::default()
        }
    }
}

fn workload(planted: u32) -> Variant {
    let param = |name: &str, value: u32| (name.to_string(), Scalar::Integer(value.into()));
    Variant {
        workload: Some("syscall".into()),
        params: [param("ops", OPS), param("extra", planted)].into(),
        ..Variant::default()
    }
}

/// Counts numbers of five digits each, so that each number costs about the same.
fn numbers(planted: u32) -> Variant {
    let last = NUMBERS.first - 1 + NUMBERS.count + NUMBERS.count * planted / 1_000_000;
    let argv = ["seq".to_string(), NUMBERS.first.to_string(), last.to_string()];
    Variant { command: Some(Command::Argv(argv.into())), ..Variant::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Action, Cli};
    use clap::Parser;

    /// The arguments of `opcost selftest` in a command line.
    fn asked(line: &str) -> SelftestArgs {
        let words = ["opcost", "selftest"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).unwrap().action {
            Action::Selftest(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_second_report_plants_nothing() {
        for (line, round, turns) in [
            ("", 4, [0, 10_000, 0, 50_000, 0]),
            ("--machine emulated", 2, [0, 100, 0, 100, 0]),
            ("--plant 0.5", 2, [0, 5000, 0, 5000, 0]),
            ("--plant 2 --plant 0.29 --plant 2", 4, [0, 2900, 0, 20_000, 0]),
            ("true", 1, [0; 5]),
        ] {
            let args = asked(line);
            let subject = Subject::new(&args);
            let first: Vec<u32> = subject.turns().take(5).collect();
            assert_eq!((subject.round(), first), (round, turns.to_vec()), "{line}");
        }
    }

    #[test]
    fn what_is_planted_is_the_only_difference() {
        let args = asked("-n 30 --cpu 1");
        let host = Subject::new(&args).experiment(10_000, 5);
        let mut more = host.variants[1].clone();
        assert_eq!(
            more.params.insert("extra".into(), Scalar::Integer(0)),
            Some(Scalar::Integer(10_000))
        );
        more.name = host.variants[0].name.clone();
        assert_eq!(more, host.variants[0]);
        assert_eq!((host.pairs, host.cpu, host.seed), (Some(30), Some(1), Some(Seed::Number(5))));

        let last = |planted: u32| match &numbers(planted).command {
            Some(Command::Argv(argv)) => argv.join(" "),
            other => panic!("{other:?}"),
        };
        assert_eq!(last(0), "seq 20000 29999");
        assert_eq!(last(100), "seq 20000 30000");
    }

    #[test]
    fn a_command_is_compared_with_itself() {
        let args = SelftestArgs { command: Some("gzip -1 -c file".into()), ..asked("") };
        let made = Subject::new(&args).experiment(0, 1);
        assert_eq!(made.variants[0].command, made.variants[1].command);
        assert!(made.variants[0].command.is_some());
    }
}
