//! Several tasks, processes or threads, that do the same work at the same time, step by step.
//!
//! The protocol, whose state [`board`] keeps in shared memory:
//! 1. The parent starts the tasks. Each task waits on a futex for the number of the next step.
//! 2. The parent writes the step's number and wakes all tasks. Each task does the step and counts
//!    itself as arrived. The last task to arrive signals an eventfd.
//! 3. The parent sleeps in one `poll` over this eventfd and the tasks' handles. A task ends
//!    only after the step [`Step::Leave`]. A task that ends earlier has failed and has written why, or
//!    has died. Nobody waits for it: the parent kills the other processes, and other threads end
//!    with the parent.
//!
//! The parent thus spends a few system calls on a step, however long the step takes. It notices a death at once, without a signal
//! handler or a timer. The kernel kills a process when its parent ends.

mod board;
mod ending;
mod process;
mod thread;

use crate::error::WorkError;
use crate::figure::task_time;
use crate::task::{TaskKind, Tasks, become_task};
use crate::work::Crew;
use board::Board;
use ending::Ending;
use opcost_record::Report;
use opcost_record::message::{Fault, MessageError};
use opcost_sys::clock::monotonic_ns;
use process::Process;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use thread::Thread;

/// The steps in their order; tasks wait for their numbers.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
enum Step {
    Prepare = 1,
    WarmUp,
    Twin,
    MakeReady,
    Work,
    Report,
    Leave,
}

/// One task.
enum Member {
    Process(Process),
    Thread(Thread),
}

impl Member {
    /// The descriptor that becomes readable when the task ends.
    fn handle_fd(&self) -> libc::c_int {
        match self {
            Member::Process(process) => process.handle_fd(),
            Member::Thread(thread) => thread.handle_fd(),
        }
    }

    /// Waits for the end of the task.
    fn wait(&mut self) -> Ending {
        match self {
            Member::Process(process) => process.wait(),
            Member::Thread(thread) => thread.wait(),
        }
    }
}

/// The tasks; dropping the value kills the remaining processes.
pub(crate) struct Team {
    board: Arc<Board>,
    kind: TaskKind,
    members: Vec<Member>,
    /// The entries for `poll`: the board's signal, then each task. Made once, so that a counted region allocates nothing.
    watched: Vec<libc::pollfd>,
}

impl Team {
    /// Starts the tasks and has each prepare its work.
    ///
    /// `prepare` is called in each task with the task's index from 0.
    pub(crate) fn gather<C: Crew>(
        tasks: Tasks,
        prepare: impl Fn(usize) -> Result<C, WorkError> + Clone + Send + 'static,
    ) -> Result<Self, WorkError> {
        let board = Arc::new(Board::put_up(tasks.number)?);
        let mut team = Team {
            watched: vec![watch(board.signal_fd())],
            board,
            kind: tasks.kind,
            members: Vec::with_capacity(tasks.number),
        };
        for index in 0..tasks.number {
            let (board, prepare) = (Arc::clone(&team.board), prepare.clone());
            let life = move || run_task(&board, index, tasks, &prepare);
            let member = match tasks.kind {
                TaskKind::Process => Member::Process(Process::fork(life)?),
                TaskKind::Thread => Member::Thread(Thread::start(life)?),
            };
            team.watched.push(watch(member.handle_fd()));
            team.members.push(member);
        }
        team.step(Step::Prepare)?;
        Ok(team)
    }

    /// Lets the tasks end, and waits for them.
    pub(crate) fn stop(mut self) -> Result<(), WorkError> {
        self.board.announce(Step::Leave as u32);
        for index in 0..self.members.len() {
            if let Some(how) = self.members[index].wait().failure() {
                return Err(self.died(index, how));
            }
        }
        Ok(())
    }

    /// Has every task do one step; returns when all have done it, or one task has ended.
    fn step(&mut self, step: Step) -> Result<(), WorkError> {
        self.board.announce(step as u32);
        loop {
            // SAFETY: `watched` is a valid array of that many entries.
            let ready = unsafe {
                libc::poll(self.watched.as_mut_ptr(), self.watched.len() as libc::nfds_t, -1)
            };
            if ready < 0 {
                let error = std::io::Error::last_os_error();
                if error.kind() == std::io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(WorkError::Setup {
                    what: "wait for the tasks of the work".into(),
                    source: error,
                    advice: "use procs=1 and threads=0",
                });
            }
            let (signal, handles) = (&self.watched[0], &self.watched[1..]);
            if let Some(index) = handles.iter().position(|handle| handle.revents != 0) {
                return Err(self.failed(index));
            }
            if signal.revents != 0 {
                self.board.take_signal();
                return Ok(());
            }
        }
    }

    /// Returns the error for a task that ended too early.
    fn failed(&mut self, index: usize) -> WorkError {
        let ending = self.members[index].wait();
        match Report::decode(&self.board.note(index)) {
            Err(MessageError { fault: Fault::Reported(detail), .. }) => {
                self.complaint(index, detail)
            }
            _ => self.died(index, ending.how()),
        }
    }

    fn complaint(&self, index: usize, detail: String) -> WorkError {
        let (kind, tasks) = (self.kind.word(), self.members.len());
        WorkError::Worker { kind, index: index + 1, tasks, detail }
    }

    fn died(&self, index: usize, how: String) -> WorkError {
        let (kind, tasks) = (self.kind.word(), self.members.len());
        WorkError::WorkerDied { kind, index: index + 1, tasks, how }
    }
}

fn watch(fd: libc::c_int) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

impl Crew for Team {
    fn warm_up(&mut self) -> Result<(), WorkError> {
        self.step(Step::WarmUp)
    }

    fn twin(&mut self) -> Result<(), WorkError> {
        self.step(Step::Twin)
    }

    fn make_ready(&mut self) -> Result<(), WorkError> {
        self.step(Step::MakeReady)
    }

    fn work(&mut self) -> Result<(), WorkError> {
        self.step(Step::Work)
    }

    fn report(&mut self) -> Result<Vec<Report>, WorkError> {
        self.step(Step::Report)?;
        (0..self.members.len())
            .map(|index| {
                Report::decode(&self.board.note(index))
                    .map_err(|error| self.complaint(index, error.to_string()))
            })
            .collect()
    }
}

/// Runs one task to its end; returns its exit status.
fn run_task<C: Crew>(
    board: &Board,
    index: usize,
    tasks: Tasks,
    prepare: &impl Fn(usize) -> Result<C, WorkError>,
) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(|| follow_steps(board, index, tasks, prepare)));
    let message = match outcome {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it panicked; the message is on standard error".into(),
    };
    board.write_note(index, &Report::encode_error(&message));
    1
}

fn follow_steps<C: Crew>(
    board: &Board,
    index: usize,
    tasks: Tasks,
    prepare: &impl Fn(usize) -> Result<C, WorkError>,
) -> Result<(), WorkError> {
    become_task(index, tasks.pinned)?;
    let timed = tasks.timed;
    // A closure, since work that is not timed must not read a clock.
    let now_ns = || if timed { monotonic_ns() } else { 0 };

    board.wait_for(Step::Prepare as u32);
    let mut crew = prepare(index)?;
    board.arrive();

    board.wait_for(Step::WarmUp as u32);
    crew.warm_up()?;
    board.arrive();

    board.wait_for(Step::Twin as u32);
    crew.twin()?;
    board.arrive();

    board.wait_for(Step::MakeReady as u32);
    crew.make_ready()?;
    board.arrive();

    board.wait_for(Step::Work as u32);
    let started_ns = now_ns();
    crew.work()?;
    let took_ns = now_ns() - started_ns;
    board.arrive();

    board.wait_for(Step::Report as u32);
    for mut report in crew.report()? {
        if timed {
            report.readings.push(task_time(took_ns));
        }
        board.write_note(index, &report.encode());
    }
    board.arrive();

    board.wait_for(Step::Leave as u32);
    Ok(())
}

#[cfg(test)]
mod tests;
