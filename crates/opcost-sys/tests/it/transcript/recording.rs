//! A recorder of calls to a kernel and the kernel's answers.

use super::{Answer, Call, Line, Target, Transcript};
use opcost_sys::perf::{CounterId, CounterReading, EventAttr, PerfKernel};
use std::io;
use std::sync::{Mutex, PoisonError};

/// Passes every call on to another [`PerfKernel`], and records the call with its answer.
#[derive(Debug)]
pub struct RecordingPerf<K> {
    kernel: K,
    transcript: Mutex<Transcript>,
}

impl<K: PerfKernel> RecordingPerf<K> {
    /// Makes a recorder around `kernel`, with an empty transcript.
    pub fn new(kernel: K) -> Self {
        RecordingPerf { kernel, transcript: Mutex::default() }
    }

    /// Adds comment lines, such as the machine, the kernel, and the next step.
    pub fn note(&self, text: &str) {
        for line in text.lines() {
            self.append(Line::Note(line.to_string()));
        }
    }

    /// Returns the transcript so far.
    pub fn into_transcript(self) -> Transcript {
        self.transcript.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, line: Line) {
        let mut transcript = self.transcript.lock().unwrap_or_else(PoisonError::into_inner);
        transcript.lines.push(line);
    }

    /// Records a call whose answer is a success of form `on_success`, or an error.
    ///
    /// An error that did not come from a kernel (such as a replay that differs) is no answer and is not recorded; the caller still
    /// gets the error.
    fn record<T: Copy>(
        &self,
        call: Call,
        result: io::Result<T>,
        on_success: impl FnOnce(T) -> Answer,
    ) -> io::Result<T> {
        let answer = match &result {
            Ok(value) => Some(on_success(*value)),
            Err(error) => Answer::from_error(error),
        };
        if let Some(answer) = answer {
            self.append(Line::Exchange(call, answer));
        }
        result
    }
}

impl<K: PerfKernel> PerfKernel for RecordingPerf<K> {
    fn open(
        &self,
        attr: &EventAttr,
        pid: i32,
        cpu: i32,
        leader: Option<CounterId>,
    ) -> io::Result<CounterId> {
        let call = Call::Open { attr: *attr, target: Target::from_pid(pid), cpu, leader };
        self.record(call, self.kernel.open(attr, pid, cpu, leader), Answer::Opened)
    }

    fn enable(&self, id: CounterId, whole_group: bool) -> io::Result<()> {
        let call = Call::Enable { id, whole_group };
        self.record(call, self.kernel.enable(id, whole_group), |()| Answer::Done)
    }

    fn disable(&self, id: CounterId, whole_group: bool) -> io::Result<()> {
        let call = Call::Disable { id, whole_group };
        self.record(call, self.kernel.disable(id, whole_group), |()| Answer::Done)
    }

    fn reset(&self, id: CounterId, whole_group: bool) -> io::Result<()> {
        let call = Call::Reset { id, whole_group };
        self.record(call, self.kernel.reset(id, whole_group), |()| Answer::Done)
    }

    fn read(&self, id: CounterId) -> io::Result<CounterReading> {
        self.record(Call::Read { id }, self.kernel.read(id), Answer::Reading)
    }

    fn close(&self, id: CounterId) {
        self.kernel.close(id);
        self.append(Line::Exchange(Call::Close { id }, Answer::Done));
    }
}
