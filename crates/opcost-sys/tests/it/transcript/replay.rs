//! A kernel that answers from a transcript.

use super::{Answer, Call, Target, Transcript};
use opcost_sys::perf::{CounterId, CounterReading, EventAttr, PerfKernel};
use std::io;
use std::sync::{Mutex, PoisonError};

/// The place at which a program's calls left the transcript; comes inside an [`io::Error`] of kind `Other`.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ReplayError {
    /// The call is not the transcript's next one.
    #[error("line {line} of the transcript expects '{expected}', the program called '{called}'")]
    Differs {
        /// Line number, from 1.
        line: usize,
        expected: String,
        called: String,
    },
    /// The transcript has no more calls.
    #[error("the transcript ends after line {lines}, the program called '{called}'")]
    Ended { lines: usize, called: String },
    /// The program made fewer calls than the transcript has.
    #[error("line {line} of the transcript expects '{expected}', the program made no more calls")]
    Unfinished {
        /// Line number, from 1.
        line: usize,
        expected: String,
    },
}

impl ReplayError {
    /// Returns the replay error inside an [`io::Error`], if any.
    pub fn of(error: &io::Error) -> Option<&ReplayError> {
        error.get_ref()?.downcast_ref()
    }
}

/// Answers from a transcript. After the first call that differs, every call fails with the same error.
#[derive(Debug)]
pub struct ReplayPerf {
    transcript: Transcript,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Index of the transcript's next line.
    next: usize,
    failed: Option<ReplayError>,
}

impl ReplayPerf {
    /// Makes a kernel that expects the transcript's calls in their order.
    pub fn new(transcript: Transcript) -> Self {
        ReplayPerf { transcript, state: Mutex::default() }
    }

    /// Checks that the program made exactly the transcript's calls.
    ///
    /// # Errors
    /// The first difference, or the first call that the program did not make.
    pub fn finish(self) -> Result<(), ReplayError> {
        let State { next, failed } =
            self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match (failed, self.transcript.next_exchange(next)) {
            (Some(error), _) => Err(error),
            (None, None) => Ok(()),
            (None, Some((index, call, _))) => Err(ReplayError::Unfinished {
                line: Transcript::line_number(index),
                expected: call.to_string(),
            }),
        }
    }

    /// Returns the transcript's answer to a call.
    fn answer(&self, called: &Call) -> io::Result<Answer> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &state.failed {
            return Err(io::Error::other(error.clone()));
        }
        let error = match self.transcript.next_exchange(state.next) {
            Some((index, call, answer)) if call == called => {
                state.next = index + 1;
                return Ok(*answer);
            }
            Some((index, call, _)) => ReplayError::Differs {
                line: Transcript::line_number(index),
                expected: call.to_string(),
                called: called.to_string(),
            },
            None => ReplayError::Ended {
                lines: Transcript::line_number(self.transcript.lines.len()) - 1,
                called: called.to_string(),
            },
        };
        state.failed = Some(error.clone());
        Err(io::Error::other(error))
    }

    fn done(&self, called: &Call) -> io::Result<()> {
        match self.answer(called)? {
            Answer::Done => Ok(()),
            other => Err(other.into_error(called)),
        }
    }
}

impl PerfKernel for ReplayPerf {
    fn open(
        &self,
        attr: &EventAttr,
        pid: i32,
        cpu: i32,
        leader: Option<CounterId>,
    ) -> io::Result<CounterId> {
        let call = Call::Open { attr: *attr, target: Target::from_pid(pid), cpu, leader };
        match self.answer(&call)? {
            Answer::Opened(id) => Ok(id),
            other => Err(other.into_error(&call)),
        }
    }

    fn enable(&self, id: CounterId, whole_group: bool) -> io::Result<()> {
        self.done(&Call::Enable { id, whole_group })
    }

    fn disable(&self, id: CounterId, whole_group: bool) -> io::Result<()> {
        self.done(&Call::Disable { id, whole_group })
    }

    fn reset(&self, id: CounterId, whole_group: bool) -> io::Result<()> {
        self.done(&Call::Reset { id, whole_group })
    }

    fn read(&self, id: CounterId) -> io::Result<CounterReading> {
        let call = Call::Read { id };
        match self.answer(&call)? {
            Answer::Reading(reading) => Ok(reading),
            other => Err(other.into_error(&call)),
        }
    }

    fn close(&self, id: CounterId) {
        // The state keeps the error of a close that differs; the next call or `finish` reports the error.
        let _ = self.answer(&Call::Close { id });
    }
}
