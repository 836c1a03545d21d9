//! Deaths and errors of a process must surface, in whichever step they come.

use super::Team;
use crate::error::WorkError;
use crate::in_child::{in_child, lacks_tool, measured, tiny, value};
use crate::invariant::{PAGE_FAULTS, PAGE_FAULTS_EXPECTED, count};
use crate::params::{ParamSpec, Params};
use crate::spec::WorkloadSpec;
use crate::task::{self, TaskKind, Tasks};
use crate::work::{Crew, Work};
use crate::workloads::WORKLOADS;
use opcost_record::{Invariant, Report};

/// A workload whose second task ends in the way `end` in the step `at`.
const DOOMED: WorkloadSpec = WorkloadSpec {
    name: "doomed",
    summary: "does nothing until it ends too early",
    operation: "nothing",
    ops_default: "1",
    programs: None,
    figures: &[],
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
    prepare: |params, _| {
        let doomed = Doomed {
            end: params.text("end").into(),
            at: match task::current() {
                1 => params.text("at").into(),
                _ => "never".into(),
            },
        };
        doomed.reach("prepare")?;
        Ok(Box::new(doomed))
    },
};

fn enoent() -> std::io::Error {
    std::io::Error::from_raw_os_error(libc::ENOENT)
}

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
        Err(WorkError::Setup {
            what: "do as the test asks".into(),
            source: enoent(),
            advice: "no advice",
        })
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

fn doom(tasks: &str, end: &str, at: &str) -> String {
    let given = [(tasks, "3"), ("oversubscribe", "on"), ("end", end), ("at", at)];
    measured(&DOOMED, &given, 1).unwrap_err()
}

/// Returns the parameters of three doomed processes.
fn doomed_params(given: (&str, &str)) -> Params {
    let all = [("procs", "3"), ("oversubscribe", "on"), given];
    DOOMED.resolve(&all.map(|(name, value)| (name.to_string(), value.to_string()))).unwrap()
}

#[test]
fn an_error_of_one_process_is_the_errors_text() {
    for at in ["prepare", "warm-up", "work", "invariants"] {
        for (tasks, word) in [("procs", "process"), ("threads", "thread")] {
            assert_eq!(
                doom(tasks, "error", at),
                format!("{word} 2 of 3: cannot do as the test asks: {}; no advice", enoent()),
                "at {at}"
            );
        }
    }
}

#[test]
fn a_death_is_noticed_in_every_step() {
    for at in ["prepare", "warm-up", "twin", "work", "invariants"] {
        assert_eq!(
            doom("procs", "kill", at),
            "process 2 of 3 ended before its work was done: killed by signal 9",
            "at {at}"
        );
        assert_eq!(
            doom("procs", "exit", at),
            "process 2 of 3 ended before its work was done: exit status 0",
            "at {at}"
        );
        for (tasks, word) in [("procs", "process"), ("threads", "thread")] {
            assert_eq!(
                doom(tasks, "panic", at),
                format!("{word} 2 of 3: it panicked; the message is on standard error"),
                "at {at}"
            );
        }
    }
}

#[test]
fn a_death_is_noticed_where_sigchld_is_ignored() {
    let params = doomed_params(("end", "kill"));
    let said = in_child(|| {
        // SAFETY: SIG_IGN is a valid disposition; this process is the test's own.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        let mut meter = crate::in_child::NoMeter;
        crate::measure::measure(&DOOMED, &params, 1, &mut meter).unwrap_err().to_string()
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
        let params = doomed_params(("at", at));
        let left = in_child(|| {
            let mut meter = crate::in_child::NoMeter;
            let done = crate::measure::measure(&DOOMED, &params, 1, &mut meter);
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
fn three_tasks_do_three_times_the_same_work() {
    for spec in WORKLOADS.iter().filter(|spec| !lacks_tool(spec)) {
        let one = measured(spec, tiny(spec), 1).unwrap();
        for tasks in ["procs", "threads"] {
            let given = [tiny(spec), &[(tasks, "3"), ("oversubscribe", "on")]].concat();
            let three = measured(spec, &given, 1).unwrap();
            assert_eq!(three.ops, one.ops.map(|ops| 3 * ops), "{} {tasks}", spec.name);
            assert_eq!(three.invariants, one.invariants, "{} {tasks}", spec.name);
            assert_eq!(value(&three, PAGE_FAULTS), value(&three, PAGE_FAULTS_EXPECTED));
        }
    }
}

#[test]
fn the_most_tasks_that_are_allowed_work_together() {
    let spec = WorkloadSpec::find("syscall").unwrap();
    for tasks in ["procs", "threads"] {
        let given = [("ops", "10"), (tasks, "64"), ("oversubscribe", "on")];
        let report = measured(spec, &given, 1).unwrap();
        assert_eq!((report.ops, value(&report, "ops-getppid")), (Some(640), "10"));
    }
}

#[test]
fn timed_tasks_tell_the_fastest_and_the_slowest() {
    let spec = WorkloadSpec::find("syscall").unwrap();
    for (tasks, number) in [("procs", "1"), ("procs", "2"), ("threads", "1"), ("threads", "2")] {
        let given = [("ops", "1000"), (tasks, number), ("oversubscribe", "on"), ("scale", "on")];
        let report = measured(spec, &given, 1).unwrap();
        let names: Vec<&str> =
            report.readings.iter().map(|reading| reading.key.name.as_str()).collect();
        assert_eq!(names, ["task-time-min", "task-time-max", "task-fairness-ppm"]);
        let [least, most, fairness] = [0, 1, 2].map(|place| report.readings[place].value);
        assert_eq!(fairness, least * 1_000_000 / most);
        if number == "1" {
            assert_eq!(least, most);
        }
    }
    assert!(measured(spec, &[("ops", "1000")], 1).unwrap().readings.is_empty());
}

#[test]
fn what_a_process_cannot_set_up_is_told() {
    let spec = WorkloadSpec::find("mmap").unwrap();
    let given = [("procs".into(), "2".into()), ("oversubscribe".into(), "on".into())];
    let params: Params = spec.resolve(&given).unwrap();
    let said = in_child(|| {
        let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
        // SAFETY: the pointer is to a valid structure; this process is the test's own.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        let mut meter = crate::in_child::NoMeter;
        crate::measure::measure(spec, &params, 1, &mut meter).unwrap_err().to_string()
    });
    let said = said.unwrap();
    // Either process may be the first to fail.
    assert!(
        said.starts_with("process 1 of 2: cannot reserve 3080 MiB of addresses")
            || said.starts_with("process 2 of 2: cannot reserve 3080 MiB of addresses"),
        "{said}"
    );
}

/// A crew that goes through every step, does nothing, and reports this number of invariants.
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

const THREE: Tasks = Tasks { kind: TaskKind::Process, number: 3, timed: false, pinned: false };

/// Takes three processes through the steps up to their report.
fn report_of_three(invariants: usize) -> Result<Vec<Report>, WorkError> {
    let mut team = Team::gather(THREE, move |_| Ok(Idle(invariants)))?;
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
        report_of_three(5000).unwrap_err().to_string()
    });
    let said = said.unwrap();
    assert!(said.starts_with("process 1 of 3: "), "{said}");
}

#[test]
fn processes_end_with_their_parent() {
    // in_child returns when every holder of its pipe has ended: a process that outlived its parent would keep this test from
    // ending.
    let said = in_child(|| {
        let mut team = Team::gather(THREE, |_| Ok(Idle(0))).unwrap();
        team.warm_up().unwrap();
        std::mem::forget(team);
        "left them behind".into()
    });
    assert_eq!(said.unwrap(), "left them behind");
}
