//! The tasks of a run: this process itself, or several processes or threads.

use crate::error::WorkError;
use crate::params::Params;
use opcost_sys::affinity;
use std::cell::Cell;

/// The largest number of tasks that can share a run's work.
pub(crate) const TASKS_MAX: usize = 64;

/// The kind of a run's tasks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TaskKind {
    /// Forked processes, each with its own memory.
    Process,
    /// Threads of the process that was asked for the work.
    Thread,
}

impl TaskKind {
    /// Returns the word for one task in messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            TaskKind::Process => "process",
            TaskKind::Thread => "thread",
        }
    }
}

/// The tasks that parameters ask for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Tasks {
    pub(crate) kind: TaskKind,
    pub(crate) number: usize,
    /// Whether each task reads the clock before and after its work.
    pub(crate) timed: bool,
    /// Whether each task stays on one CPU.
    pub(crate) pinned: bool,
}

impl Tasks {
    /// Returns the tasks beside this process; `None` if this process does the work itself.
    ///
    /// # Errors
    /// [`WorkError::TwoKindsOfTasks`] and [`WorkError::Oversubscribed`].
    pub(crate) fn of(params: &Params) -> Result<Option<Tasks>, WorkError> {
        let (procs, threads) = (params.number("procs"), params.number("threads"));
        let (timed, pinned) = (params.text("scale") == "on", params.text("pin") == "on");
        let of = |kind, number: u64| Tasks { kind, number: number as usize, timed, pinned };
        let tasks = match (procs, threads) {
            (1, 0) if !timed && !pinned => None,
            (_, 0) => Some(of(TaskKind::Process, procs)),
            (1, _) => Some(of(TaskKind::Thread, threads)),
            _ => return Err(WorkError::TwoKindsOfTasks { procs, threads }),
        };
        let number = tasks.map_or(1, |tasks| tasks.number);
        // If the kernel does not report its CPUs, the number of tasks is accepted.
        let cpus = affinity::allowed_cpus().map_or(number, |cpus| cpus.len());
        if number > cpus && params.text("oversubscribe") == "off" {
            return Err(WorkError::Oversubscribed { tasks: number, cpus });
        }
        Ok(tasks)
    }
}

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Returns the index of the calling thread's task, from 0.
pub(crate) fn current() -> usize {
    CURRENT.get()
}

/// Makes the calling thread the task with this index; `pinned`: whether the task stays on one of its permitted CPUs.
pub(crate) fn become_task(index: usize, pinned: bool) -> Result<(), WorkError> {
    CURRENT.set(index);
    if pinned {
        let pin = || {
            let cpus = affinity::allowed_cpus()?;
            affinity::set_affinity(cpus[index % cpus.len()])
        };
        pin().map_err(|source| WorkError::Setup {
            what: format!("keep task {} on one CPU", index + 1),
            source,
            advice: "leave 'pin' off",
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::WorkloadSpec;

    fn tasks(given: &[(&str, &str)]) -> Result<Option<Tasks>, String> {
        let given: Vec<(String, String)> =
            given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let params = WorkloadSpec::find("syscall").unwrap().resolve(&given).unwrap();
        Tasks::of(&params).map_err(|error| error.to_string())
    }

    #[test]
    fn one_process_works_itself_unless_it_is_to_be_timed() {
        let tasks_of = |given: &[(&str, &str)]| tasks(given).unwrap();
        assert_eq!(tasks_of(&[]), None);
        let one = |kind, timed| Some(Tasks { kind, number: 1, timed, pinned: false });
        let pinned = tasks_of(&[("pin", "on")]).unwrap();
        assert_eq!((pinned.number, pinned.pinned), (1, true));
        assert_eq!(tasks_of(&[("scale", "on")]), one(TaskKind::Process, true));
        assert_eq!(tasks_of(&[("threads", "1")]), one(TaskKind::Thread, false));
        let three = tasks_of(&[("procs", "3"), ("oversubscribe", "on")]).unwrap();
        assert_eq!((three.kind, three.number), (TaskKind::Process, 3));
    }

    #[test]
    fn processes_with_threads_are_refused() {
        assert_eq!(
            tasks(&[("procs", "2"), ("threads", "3")]).unwrap_err(),
            "procs=2 and threads=3: the tasks are either processes or threads; leave procs at 1, \
             or threads at 0"
        );
    }

    #[test]
    fn more_tasks_than_cpus_are_refused_unless_allowed() {
        let refused = std::thread::spawn(|| {
            // Affinity is per thread; this thread ends with the test.
            affinity::set_affinity(affinity::allowed_cpus().unwrap()[0]).unwrap();
            tasks(&[("threads", "2")]).unwrap_err()
        });
        assert_eq!(
            refused.join().unwrap(),
            "2 tasks on 1 CPU would wait for each other's turns; lower 'procs' or 'threads', give \
             the work more CPUs, or allow it with oversubscribe=on"
        );
    }

    #[test]
    fn threads_have_indices_of_their_own() {
        become_task(3, true).unwrap();
        assert_eq!(std::thread::spawn(current).join().unwrap(), 0);
        assert_eq!(current(), 3);
    }
}
