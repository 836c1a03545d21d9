//! Changing a running process: all threads stopped, the lock free, bytes verified, then written.

use crate::change::{self, Change};
use crate::error::AttachError;
use crate::instruction::KeyState;
use crate::memory::Memory;
use crate::process::Process;
use crate::registry::Registry;
use crate::survey::{Survey, form_address, slot_address};
use crate::writes::{Side, Write, hex};
use opcost_sys::ptrace::Stopped;
use std::thread;
use std::time::{Duration, Instant};

/// How long a process that is never at rest is tried.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts, so that the program gets on with what it does.
const PAUSE: Duration = Duration::from_millis(1);

/// What a change did to the process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Applied {
    /// How long every thread stood still, from the first that was asked to stop to the last that
    /// was let go, nanoseconds; of the attempt that succeeded.
    pub stopped_ns: u64,
    /// Times it was stopped and let go because something was in progress.
    pub retries: u32,
}

/// What became of an attempt to put everything back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Restored {
    /// Everything is as it was found.
    Done,
    /// The process has ended.
    Ended,
}

/// Why an attempt has to be repeated.
enum Attempt {
    Again(String),
    Failed(AttachError),
}

impl From<AttachError> for Attempt {
    fn from(error: AttachError) -> Attempt {
        Attempt::Failed(error)
    }
}

impl Process {
    /// Writes one side of a change, which must hold the other.
    ///
    /// 1. Every thread is stopped.
    /// 2. The registry's lock is free and no code is being written; else 1 again after a pause.
    /// 3. No thread is inside a site: one that trapped at a breakpoint that is gone, and whose
    ///    signal is not delivered yet, is; else 1 again after a pause. A thread that is in the
    ///    library's trap handler goes back to the first byte of its site, whatever that holds by
    ///    then.
    /// 4. Every byte to be replaced is what it must be.
    /// 5. Code and keys are written; a write that fails takes back those before it.
    /// 6. Every thread is let go. It returns from the kernel, so no instruction that it fetched
    ///    before is left in it (Intel SDM vol. 3, 8.1.3, wants a serialising event between).
    ///
    /// `before_going_on` is called between 5 and 6 with the threads.
    ///
    /// # Errors
    /// Nothing is changed then: the process is gone, traced, never at rest, or holds other bytes.
    pub fn apply(
        &self,
        change: &Change,
        to: Side,
        mut before_going_on: impl FnMut(&[i32]),
    ) -> Result<Applied, AttachError> {
        self.insist(|process, begun, retries| {
            let stopped = process.stop(change)?;
            process.verify(change, to.other())?;
            process.write_all(&change.writes, to)?;
            before_going_on(&stopped.threads().collect::<Vec<_>>());
            drop(stopped);
            Ok(Applied { stopped_ns: begun.elapsed().as_nanos() as u64, retries })
        })
    }

    /// Does `act` with every thread stopped, as [`apply`](Self::apply) does, and writes nothing.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); `expected` is the side that the process must hold.
    pub fn while_stopped(
        &self,
        change: &Change,
        expected: Side,
        mut act: impl FnMut(&[i32]),
    ) -> Result<(), AttachError> {
        self.insist(|process, _, _| {
            let stopped = process.stop(change)?;
            process.verify(change, expected)?;
            act(&stopped.threads().collect::<Vec<_>>());
            drop(stopped);
            Ok(())
        })
    }

    /// Puts back what a change wrote, wherever it was interrupted, if and only if everything still
    /// holds what was found or what was written.
    ///
    /// Where objects came or went meanwhile, the sites of those that are there now are put back.
    ///
    /// # Errors
    /// Something else is there: then nothing is touched.
    pub fn restore(&self, change: &Change) -> Result<Restored, AttachError> {
        let done = self.insist(|process, _, _| {
            let stopped = match process.stop(change) {
                Err(Attempt::Failed(AttachError::OtherObjects { .. })) => {
                    return process.restore_other_objects(change);
                }
                stopped => stopped?,
            };
            process.restore_stopped(&change.writes)?;
            drop(stopped);
            Ok(Restored::Done)
        });
        match done {
            Err(_) if !self.is_alive() => Ok(Restored::Ended),
            done => done,
        }
    }

    /// Repeats an attempt until it succeeds, fails, or patience ends.
    fn insist<T>(
        &self,
        mut attempt: impl FnMut(&Process, Instant, u32) -> Result<T, Attempt>,
    ) -> Result<T, AttachError> {
        let first = Instant::now();
        for attempts in 0.. {
            match attempt(self, Instant::now(), attempts) {
                Ok(done) => return Ok(done),
                Err(Attempt::Failed(error)) => return Err(error),
                Err(Attempt::Again(why)) if first.elapsed() > PATIENCE => {
                    let waited_ms = first.elapsed().as_millis() as u64;
                    let attempts = attempts + 1;
                    return Err(AttachError::Busy { pid: self.pid, why, attempts, waited_ms });
                }
                Err(Attempt::Again(_)) => thread::sleep(PAUSE),
            }
        }
        unreachable!("the loop has no end of its own")
    }

    /// Steps 1 to 3.
    fn stop(&self, change: &Change) -> Result<Stopped, Attempt> {
        let (stopped, registry) = self.stop_at_rest(change.registry)?;
        if change::objects(&registry) != change.objects {
            return Err(AttachError::OtherObjects { pid: self.pid }.into());
        }
        let counters = stopped.program_counters().map_err(AttachError::from)?;
        let inside = |counter: u64| {
            let within = |(start, length): &(u64, u8)| {
                counter > *start && counter - *start < u64::from(*length)
            };
            change.sites.iter().any(within)
        };
        match counters.into_iter().find(|counter| inside(*counter)) {
            Some(counter) => Err(Attempt::Again(format!(
                "a thread was about to trap in a site, at {counter:#x}"
            ))),
            None => Ok(stopped),
        }
    }

    /// Steps 1 and 2.
    fn stop_at_rest(&self, registry: u64) -> Result<(Stopped, Registry), Attempt> {
        if !self.is_alive() {
            return Err(AttachError::Ended { pid: self.pid }.into());
        }
        let stopped = Stopped::stop(self.pid).map_err(AttachError::from)?;
        let registry = Registry::read(self, registry).map_err(|why| match self.is_alive() {
            true => AttachError::Format { pid: self.pid, why },
            false => AttachError::Ended { pid: self.pid },
        })?;
        if registry.at_rest() {
            return Ok((stopped, registry));
        }
        let holder = registry.lock & !(1 << 31);
        Err(Attempt::Again(format!("its thread {holder} was changing a key, and held the lock")))
    }

    /// Step 4.
    fn verify(&self, change: &Change, expected: Side) -> Result<(), AttachError> {
        for write in &change.writes {
            let now = self.bytes_of(write)?;
            if now != write.bytes(expected) {
                return Err(self.changed(write, write.bytes(expected), &now));
            }
        }
        Ok(())
    }

    /// Step 5.
    fn write_all(&self, writes: &[Write], to: Side) -> Result<(), AttachError> {
        for (index, write) in writes.iter().enumerate() {
            if let Err(why) = self.write(write.address, write.bytes(to)) {
                for before in writes[..=index].iter().rev() {
                    // What cannot be written now could not be written before.
                    let _ = self.write(before.address, before.bytes(to.other()));
                }
                return Err(match self.is_alive() {
                    true => AttachError::Write { pid: self.pid, address: write.address, why },
                    false => AttachError::Ended { pid: self.pid },
                });
            }
        }
        Ok(())
    }

    fn restore_stopped(&self, writes: &[Write]) -> Result<(), AttachError> {
        for write in writes {
            let now = self.bytes_of(write)?;
            if !write.may_hold(&now) {
                return Err(self.changed(write, write.bytes(Side::Asked), &now));
            }
        }
        self.write_all(writes, Side::Found)
    }

    /// As [`restore`](Self::restore), where the registered objects are others than they were.
    ///
    /// The known sites of objects that are still there are put back as they were. Sites of objects
    /// that came have the form that the asked value gives them, and get that of the found one.
    fn restore_other_objects(&self, change: &Change) -> Result<Restored, Attempt> {
        let (stopped, registry) = self.stop_at_rest(change.registry)?;
        let survey = Survey::read(self, &self.mappings()?, &[registry.address])
            .map_err(|why| AttachError::Format { pid: self.pid, why })?;
        let (code, of_key) = change.writes.split_at(change.code_writes);
        let find = |address: u64| of_key.iter().find(|write| write.address == address);
        let known =
            survey.keys.iter().find_map(|key| Some((key, find(slot_address(key.address))?)));
        // Without it, the object that defined it is closed, and its memory with it.
        let Some((key, slot)) = known else { return Ok(Restored::Done) };
        let form = find(form_address(key.address));
        let there = |address: u64| key.sites.iter().any(|site| site.record.address == address);
        let mut writes: Vec<Write> =
            code.iter().filter(|write| there(write.address)).cloned().collect();
        let found = KeyState::from_bytes(&slot.found, form.map(|form| form.found.as_slice()));
        if let Ok(back) = Change::to_state(&survey, key, found) {
            let come = back.writes[..back.code_writes].iter();
            let come =
                come.filter(|write| !code.iter().any(|known| known.address == write.address));
            // Seen from now: what is there now is what was asked for.
            writes.extend(come.map(|write| Write {
                address: write.address,
                found: write.asked.clone(),
                asked: write.found.clone(),
            }));
        }
        let holders: Vec<u64> = std::iter::once(key.address).chain(key.imports.clone()).collect();
        writes.extend(form.cloned());
        writes.extend(holders.iter().filter_map(|key| find(slot_address(*key)).cloned()));
        self.restore_stopped(&writes)?;
        drop(stopped);
        Ok(Restored::Done)
    }

    fn bytes_of(&self, write: &Write) -> Result<Vec<u8>, AttachError> {
        self.bytes(write.address, write.found.len()).map_err(|why| match self.is_alive() {
            true => AttachError::Denied { pid: self.pid, what: "read the memory of", why },
            false => AttachError::Ended { pid: self.pid },
        })
    }

    fn changed(&self, write: &Write, expected: &[u8], now: &[u8]) -> AttachError {
        AttachError::Changed {
            pid: self.pid,
            address: write.address,
            expected: hex(expected),
            found: hex(now),
        }
    }
}
