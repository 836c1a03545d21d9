//! Several processes that do the same work at the same time, step by step together.
//!
//! The protocol, which [`board`] keeps in shared memory:
//! 1. The parent forks the processes. Each waits on a futex for the number of the next step.
//! 2. The parent writes the step's number and wakes all; each process does the step and counts
//!    itself as arrived; the last one to arrive signals an eventfd.
//! 3. The parent sleeps in one `poll` over that eventfd and the process handles. A process ends
//!    only after the step [`Step::Leave`]; one that ends before has failed and has written why, or
//!    has died. Nobody waits for it: the parent kills the others.
//!
//! So the parent spends a few system calls on a step, however long it takes, and a death is noticed
//! at once without a signal handler or a timer. A process is killed by the kernel when its parent
//! ends.

mod board;
mod process;

use crate::error::WorkError;
use crate::measure::Crew;
use board::Board;
use opcost_record::{Report, wire};
use process::Process;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The steps in their order; the numbers are what the processes wait for.
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

/// The processes; dropping it kills those that are left.
pub(crate) struct Team {
    board: Board,
    processes: Vec<Process>,
    /// For `poll`: the board's signal, then each process. Made once, so that a counted region
    /// allocates nothing.
    watched: Vec<libc::pollfd>,
}

impl Team {
    /// Forks the processes and has each prepare its work.
    ///
    /// `prepare` is called in each with its index from 0.
    pub(crate) fn gather<C: Crew>(
        procs: usize,
        prepare: impl Fn(usize) -> Result<C, WorkError>,
    ) -> Result<Self, WorkError> {
        let board = Board::put_up(procs)?;
        let mut team = Team {
            watched: vec![watch(board.signal_fd())],
            board,
            processes: Vec::with_capacity(procs),
        };
        for index in 0..procs {
            let process = Process::fork(|| run_process(&team.board, index, &prepare))?;
            team.watched.push(watch(process.handle_fd()));
            team.processes.push(process);
        }
        team.step(Step::Prepare)?;
        Ok(team)
    }

    /// Lets the processes end, and waits for them.
    pub(crate) fn dismiss(mut self) -> Result<(), WorkError> {
        self.board.announce(Step::Leave as u32);
        for index in 0..self.processes.len() {
            if let Some(how) = self.processes[index].wait().failure() {
                return Err(self.died(index, how));
            }
        }
        Ok(())
    }

    /// Has every process do one step; returns when all have, or one has ended.
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
                    what: "wait for the processes of the work".into(),
                    source: error,
                    advice: "use procs=1",
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

    /// The error for a process that ended too early.
    fn failed(&mut self, index: usize) -> WorkError {
        let ending = self.processes[index].wait();
        match wire::parse(&self.board.note(index)) {
            Err(wire::WireError::Reported(detail)) => {
                WorkError::Worker { index: index + 1, procs: self.processes.len(), detail }
            }
            _ => self.died(index, ending.how()),
        }
    }

    fn died(&self, index: usize, how: String) -> WorkError {
        WorkError::WorkerDied { index: index + 1, procs: self.processes.len(), how }
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
        (0..self.processes.len())
            .map(|index| {
                wire::parse(&self.board.note(index)).map_err(|error| WorkError::Worker {
                    index: index + 1,
                    procs: self.processes.len(),
                    detail: error.to_string(),
                })
            })
            .collect()
    }
}

/// The life of one process; the result is its exit status.
fn run_process<C: Crew>(
    board: &Board,
    index: usize,
    prepare: &impl Fn(usize) -> Result<C, WorkError>,
) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(|| follow_steps(board, index, prepare)));
    let message = match outcome {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it panicked; the message is on standard error".into(),
    };
    board.write_note(index, &wire::format_error(&message));
    1
}

fn follow_steps<C: Crew>(
    board: &Board,
    index: usize,
    prepare: &impl Fn(usize) -> Result<C, WorkError>,
) -> Result<(), WorkError> {
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
    crew.work()?;
    board.arrive();

    board.wait_for(Step::Report as u32);
    for report in crew.report()? {
        board.write_note(index, &wire::format(&report));
    }
    board.arrive();

    board.wait_for(Step::Leave as u32);
    Ok(())
}

#[cfg(test)]
mod tests;
