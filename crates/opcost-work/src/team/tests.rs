//! Deaths and errors of a process must surface, whichever step they come in.

use super::Team;
use crate::error::WorkError;
use crate::in_child::{in_child, measured, value};
use crate::invariant::{OP_STREAM_HASH, PAGE_FAULTS, PAGE_FAULTS_EXPECTED, count};
use crate::measure::{Crew, Work};
use crate::params::{ParamSpec, Params};
use crate::spec::{WORKLOADS, WorkloadSpec};
use opcost_record::{Invariant, Report};

/// A workload whose second process ends as `end` says in the step that `at` says.
const DOOMED: WorkloadSpec = WorkloadSpec {
    name: "doomed",
    summary: "does nothing until it ends too early",
    operation: "nothing",
    ops_default: "1",
    params: &[
        ParamSpec {
            name: "end",
            default: "error",
            values: "error|panic|kill|exit",
            help: "how it ends",
            check: |value| Some(value.to_string()),
        },
        ParamSpec {
            name: "at",
            default: "work",
            values: "prepare|warm-up|twin|work|invariants",
            help: "where it ends",
            check: |value| Some(value.to_string()),
        },
    ],
    prepare: |params, seed| {
        let doomed = Doomed {
            end: params.text("end").into(),
            at: match seed == crate::random::seed_of_process(SEED, 1) {
                true => params.text("at").into(),
                false => "never".into(),
            },
        };
        doomed.reach("prepare")?;
        Ok(Box::new(doomed))
    },
};

const SEED: u64 = 5;

struct Doomed {
    end: String,
    at: String,
}

impl Doomed {
    fn reach(&self, step: &str) -> Result<(), WorkError> {
        if self.at != step {
            return Ok(());
        }
        match self.end.as_str() {
            "panic" => panic!("as the test asks"),
            // SAFETY: plain numbers; the signal ends this process.
            "kill" => unsafe {
                libc::raise(libc::SIGKILL);
            },
            // SAFETY: _exit does not return.
            "exit" => unsafe { libc::_exit(0) },
            _ => {}
        }
        Err(WorkError::Unmergeable { name: "the-test".into(), value: "asks for it".into() })
    }
}

impl Work for Doomed {
    fn ops(&self) -> u64 {
        1
    }
    fn warm_up(&mut self) -> Result<(), WorkError> {
        self.reach("warm-up")
    }
    fn twin(&mut self) {
        // A twin has no errors to report.
        if self.end != "error" {
            let _ = self.reach("twin");
        }
    }
    fn work(&mut self) -> Result<(), WorkError> {
        self.reach("work")
    }
    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
        self.reach("invariants").map(|()| vec![])
    }
}

fn doom(end: &str, at: &str) -> String {
    measured(&DOOMED, &[("procs", "3"), ("end", end), ("at", at)], SEED).unwrap_err()
}

#[test]
fn an_error_of_one_process_is_the_errors_text() {
    for at in ["prepare", "warm-up", "work", "invariants"] {
        assert_eq!(
            doom("error", at),
            "process 2 of 3: cannot merge the invariant 'the-test' of several processes: its value \
             is 'asks for it'",
            "at {at}"
        );
    }
}

#[test]
fn a_death_is_noticed_in_every_step() {
    for at in ["prepare", "warm-up", "twin", "work", "invariants"] {
        assert_eq!(
            doom("kill", at),
            "process 2 of 3 ended before its work was done: killed by signal 9",
            "at {at}"
        );
        assert_eq!(
            doom("exit", at),
            "process 2 of 3 ended before its work was done: exit status 0",
            "at {at}"
        );
        assert_eq!(
            doom("panic", at),
            "process 2 of 3: it panicked; the message is on standard error",
            "at {at}"
        );
    }
}

#[test]
fn a_death_is_noticed_where_sigchld_is_ignored() {
    let given = [("procs".to_string(), "3".to_string()), ("end".to_string(), "kill".to_string())];
    let params = DOOMED.resolve(&given).unwrap();
    let said = in_child(|| {
        // SAFETY: SIG_IGN is a valid disposition; this process is the test's own.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        let mut meter = crate::in_child::NoMeter;
        crate::measure::measure(&DOOMED, &params, SEED, &mut meter).unwrap_err().to_string()
    });
    assert_eq!(
        said.unwrap(),
        "process 2 of 3 ended before its work was done: nothing is known of its end, since SIGCHLD \
         is ignored"
    );
}

#[test]
fn no_process_is_left_after_success_or_failure() {
    for (at, fails) in [("never", false), ("work", true)] {
        let given = [("procs".to_string(), "4".to_string()), ("at".to_string(), at.to_string())];
        let params = DOOMED.resolve(&given).unwrap();
        let left = in_child(|| {
            let mut meter = crate::in_child::NoMeter;
            let done = crate::measure::measure(&DOOMED, &params, SEED, &mut meter);
            assert_eq!(done.is_err(), fails);
            let mut status = 0;
            // SAFETY: `status` is writable.
            let waited = unsafe { libc::waitpid(-1, &mut status, 0) };
            let errno = std::io::Error::last_os_error().raw_os_error();
            assert_eq!((waited, errno), (-1, Some(libc::ECHILD)));
            String::new()
        });
        left.unwrap();
    }
}

#[test]
fn three_processes_do_three_times_the_work() {
    for spec in WORKLOADS {
        let one = measured(spec, &[("ops", "1000")], 1).unwrap();
        let three = measured(spec, &[("ops", "1000"), ("procs", "3")], 1).unwrap();
        let again = measured(spec, &[("ops", "1000"), ("procs", "3")], 1).unwrap();
        assert_eq!(three, again);
        assert_eq!((one.ops, three.ops), (Some(1000), Some(3000)));
        assert_ne!(value(&one, OP_STREAM_HASH), value(&three, OP_STREAM_HASH));
        assert_eq!(value(&three, PAGE_FAULTS), value(&three, PAGE_FAULTS_EXPECTED));
    }
}

#[test]
fn the_most_processes_that_are_allowed_work_together() {
    let spec = WorkloadSpec::find("syscall").unwrap();
    let report = measured(spec, &[("ops", "10"), ("procs", "64")], 1).unwrap();
    assert_eq!(value(&report, "ops-getppid"), "640");
}

#[test]
fn what_a_process_cannot_set_up_is_told() {
    let spec = WorkloadSpec::find("mmap").unwrap();
    let params: Params = spec.resolve(&[("procs".into(), "2".into())]).unwrap();
    let said = in_child(|| {
        let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
        // SAFETY: the pointer is to a valid structure; this process is the test's own.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        let mut meter = crate::in_child::NoMeter;
        crate::measure::measure(spec, &params, 1, &mut meter).unwrap_err().to_string()
    });
    let said = said.unwrap();
    // Which of the two is first is chance.
    assert!(
        said.starts_with("process 1 of 2: cannot reserve 3080 MiB of addresses")
            || said.starts_with("process 2 of 2: cannot reserve 3080 MiB of addresses"),
        "{said}"
    );
}

/// Goes through every step, does nothing and reports so many invariants.
struct Idle(usize);

impl Crew for Idle {
    fn warm_up(&mut self) -> Result<(), WorkError> {
        Ok(())
    }
    fn twin(&mut self) -> Result<(), WorkError> {
        Ok(())
    }
    fn make_ready(&mut self) -> Result<(), WorkError> {
        Ok(())
    }
    fn work(&mut self) -> Result<(), WorkError> {
        Ok(())
    }
    fn report(&mut self) -> Result<Vec<Report>, WorkError> {
        Ok(vec![Report { invariants: vec![count("n", 1); self.0], ..Report::default() }])
    }
}

/// Lets three processes go through the steps up to their report.
fn report_of_three(invariants: usize) -> Result<Vec<Report>, WorkError> {
    let mut team = Team::gather(3, |_| Ok(Idle(invariants)))?;
    team.warm_up()?;
    team.twin()?;
    team.make_ready()?;
    team.work()?;
    team.report()
}

#[test]
fn a_report_too_long_for_its_note_is_an_error() {
    let said = in_child(|| {
        assert_eq!(report_of_three(10).unwrap()[2].invariants.len(), 10);
        report_of_three(1000).unwrap_err().to_string()
    });
    let said = said.unwrap();
    assert!(said.starts_with("process 1 of 3: "), "{said}");
}

#[test]
fn processes_end_with_their_parent() {
    // in_child returns when everybody who has its pipe has ended: a process that outlived its
    // parent would keep this test from ending.
    let said = in_child(|| {
        let mut team = Team::gather(3, |_| Ok(Idle(0))).unwrap();
        team.warm_up().unwrap();
        std::mem::forget(team);
        "left them behind".into()
    });
    assert_eq!(said.unwrap(), "left them behind");
}
