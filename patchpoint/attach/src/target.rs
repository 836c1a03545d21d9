//! Changes a running process: all threads stopped, the lock free, bytes verified, then written.
//!
//! **opcost stops every thread of a target, though a site is one instruction.** Otherwise nobody outside can hold the
//! registry's lock, change code and key in one step, or make other threads serialise: `membarrier` serves its own process
//! only, and a store of 8 bytes is no safe way to change an instruction that others execute (Intel SDM vol. 3, 8.1.3). opcost
//! keeps the stop short instead.
//!
//! **Stopped threads go on at the end of the thread that traced them.** The kernel then lets all threads go under one lock.
//! When opcost detached threads one by one, the first thread took the CPU from opcost while the others still stood, for tens
//! of milliseconds.

use crate::change::Change;
use crate::error::AttachError;
use crate::memory::Memory;
use crate::process::{Process, Purpose};
use crate::registry::{Glance, Registry};
use crate::span::Span;
use crate::stop::{StopError, Stopped};
use crate::survey::{Survey, form_address, slot_address, state_of};
use crate::writes::{Side, Write, hex};
use std::thread;
use std::time::{Duration, Instant};

/// How long attempts at a process that is never at rest are repeated.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two attempts, in which the program can finish its own change.
const PAUSE: Duration = Duration::from_millis(1);

/// The effect of a change on the process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Applied {
    /// How long threads stood still in the attempt that succeeded, nanoseconds: from the request to
    /// the first thread to stop until all were let go.
    pub stopped_ns: u64,
    /// How many attempts were given up because something was in progress.
    pub retries: u32,
}

/// The result of an attempt to put everything back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Restored {
    /// Everything is as it was found.
    Done {
        /// How many forked processes still had the change and were put back, too.
        forked: usize,
    },
    /// The process has ended, or executes another program: nothing of the change is left.
    Gone,
}

/// The failure of an attempt: `Again` and `Slow` are retried, `Failed` is not.
enum Attempt {
    Again(String),
    Slow(AttachError),
    Failed(AttachError),
}

impl From<AttachError> for Attempt {
    fn from(error: AttachError) -> Attempt {
        match error {
            AttachError::Stop(StopError::TooSlow { .. }) => Attempt::Slow(error),
            error => Attempt::Failed(error),
        }
    }
}

impl From<StopError> for Attempt {
    fn from(error: StopError) -> Attempt {
        AttachError::from(error).into()
    }
}

impl Process {
    /// Writes the side `to` of a change over the side `from`.
    ///
    /// 0. The bytes to be read and written are read, so that they are in memory. No thread stands
    ///    still for this step.
    /// 1. Every thread is stopped.
    /// 2. If a thread is changing a key itself, it alone goes on until it has released the lock. If
    ///    that takes long, 0 again after a pause.
    /// 3. No thread is inside a site; else 0 again after a pause. A thread is inside if it trapped
    ///    at a breakpoint that is gone and its signal is not delivered yet. A thread in the
    ///    library's trap handler goes back to the first byte of its site, whatever that byte is by
    ///    then.
    /// 4. Every byte to be replaced is what it must be.
    /// 5. Code and keys are written; if a write fails, the earlier writes are undone.
    /// 6. Every thread is let go. It returns from the kernel, so no instruction that it fetched
    ///    before is left in it (Intel SDM vol. 3, 8.1.3, wants a serialising event between).
    ///
    /// `before_going_on` is called with the threads between 5 and 6.
    ///
    /// # Errors
    /// The process is gone, traced, never at rest, or holds other bytes; nothing is changed then.
    pub fn apply(
        &self,
        change: &Change,
        from: Side,
        to: Side,
        mut before_going_on: impl FnMut(&[i32]) + Send,
    ) -> Result<Applied, AttachError> {
        let spans = spans_of(change);
        let (stopped_ns, retries) = self.insist(|| {
            self.prepare(change, &spans)?;
            Stopped::during(self.pid, |stopped| {
                self.check(stopped, change)?;
                let held = self.verify(&spans, from)?;
                self.write_spans(&spans, &held, to)?;
                before_going_on(&stopped.threads().collect::<Vec<_>>());
                Ok(stopped.stood().as_nanos() as u64)
            })?
        })?;
        Ok(Applied { stopped_ns, retries })
    }

    /// Calls `act` with every thread stopped, after the checks of [`apply`](Self::apply).
    ///
    /// # Errors
    /// As for [`apply`](Self::apply); `expected` is the side that the process must hold.
    pub fn while_stopped(
        &self,
        change: &Change,
        expected: Side,
        mut act: impl FnMut(&[i32]),
    ) -> Result<(), AttachError> {
        let spans = spans_of(change);
        let done = self.insist(|| {
            self.prepare(change, &spans)?;
            let mut stopped = Stopped::stop(self.pid)?;
            self.check(&mut stopped, change)?;
            self.verify(&spans, expected)?;
            act(&stopped.threads().collect::<Vec<_>>());
            Ok(())
        });
        done.map(|((), _)| ())
    }

    /// Puts back the bytes that a change wrote, however far it got, if all bytes to be put back
    /// still are those of a side of the change.
    ///
    /// If objects were opened or closed meanwhile, the sites of the present objects are put back.
    /// Processes that this one forked are put back, too, if they still have the change.
    ///
    /// # Errors
    /// The process holds other bytes; then nothing is touched.
    pub fn restore(&self, change: &Change) -> Result<Restored, AttachError> {
        let done = self.insist(|| {
            self.prepare(change, &[])?;
            Stopped::during(self.pid, |stopped| match self.check(stopped, change) {
                Err(Attempt::Failed(AttachError::OtherObjects { .. })) => {
                    self.restore_other_objects(change)
                }
                checked => {
                    checked?;
                    self.restore_stopped(&spans_of(change)).map_err(Attempt::from)
                }
            })?
        });
        match done {
            Err(_) if !self.is_alive() => Ok(Restored::Gone),
            Err(error) => Err(error),
            Ok(_) => Ok(Restored::Done { forked: self.restore_forked(change) }),
        }
    }

    /// Puts back the processes that this one forked while it had the change, and the processes that
    /// those forked; returns how many. A process stays as it is if it executes another program,
    /// gave the key another value by itself, or cannot be changed.
    pub fn restore_forked(&self, change: &Change) -> usize {
        let mut restored = 0;
        for child in self.children() {
            let Ok(child) = Process::open(child, Purpose::Change) else { continue };
            let same = Glance::read(&child, change.registry)
                .is_ok_and(|glance| glance.has_objects(&child, &change.objects));
            if !same {
                continue;
            }
            let holds = |write: &Write| child.bytes_of(write.address, write.length()).ok();
            let changed =
                |write: &Write| holds(write).is_some_and(|now| now != write.bytes(Side::FOUND));
            if change.writes.iter().any(changed) {
                if let Ok(Restored::Done { forked }) = child.restore(change) {
                    restored += 1 + forked;
                }
            } else {
                restored += child.restore_forked(change);
            }
        }
        restored
    }

    /// Repeats an attempt until it succeeds, fails, or patience ends; also returns the number of retries.
    fn insist<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, Attempt>,
    ) -> Result<(T, u32), AttachError> {
        let first = Instant::now();
        for attempts in 0.. {
            let late = first.elapsed() > PATIENCE;
            match attempt() {
                Ok(done) => return Ok((done, attempts)),
                Err(Attempt::Failed(error)) => return Err(error),
                Err(Attempt::Slow(error)) if late => return Err(error),
                Err(Attempt::Again(why)) if late => {
                    let waited_ms = first.elapsed().as_millis() as u64;
                    let attempts = attempts + 1;
                    return Err(AttachError::Busy { pid: self.pid, why, attempts, waited_ms });
                }
                Err(Attempt::Again(_) | Attempt::Slow(_)) => thread::sleep(PAUSE),
            }
        }
        unreachable!("the loop has no end of its own")
    }

    /// Step 0 of [`apply`](Self::apply).
    fn prepare(&self, change: &Change, spans: &[Span<'_>]) -> Result<(), Attempt> {
        if !self.is_alive() {
            return Err(self.gone().into());
        }
        for span in spans {
            // The memory of an object that was closed meanwhile is unreadable; step 2 reports this.
            let _ = self.bytes(span.start, span.length);
        }
        self.glance(change)?;
        Ok(())
    }

    fn glance(&self, change: &Change) -> Result<Glance, AttachError> {
        Glance::read(self, change.registry).map_err(|why| self.unreadable(why))
    }

    /// Steps 2 and 3 of [`apply`](Self::apply).
    fn check(&self, stopped: &mut Stopped, change: &Change) -> Result<(), Attempt> {
        let mut glance = self.glance(change)?;
        if !glance.at_rest() {
            let holder = glance.lock & !(1 << 31);
            let is_at_rest = || self.glance(change).is_ok_and(|glance| glance.at_rest());
            if !stopped.finish_one(holder as i32, is_at_rest)? {
                return Err(Attempt::Again(format!(
                    "its thread {holder} was changing a key, and held the lock"
                )));
            }
            glance = self.glance(change)?;
        }
        if !glance.has_objects(self, &change.objects) {
            return Err(AttachError::OtherObjects { pid: self.pid }.into());
        }
        let inside = |counter: u64| {
            let within = |(start, length): &(u64, u8)| {
                counter > *start && counter - *start < u64::from(*length)
            };
            change.sites.iter().any(within)
        };
        let counters = stopped.program_counters()?;
        match counters.into_iter().find(|counter| inside(*counter)) {
            Some(counter) => Err(Attempt::Again(format!(
                "a thread was about to trap in a site, at {counter:#x}"
            ))),
            None => Ok(()),
        }
    }

    /// Step 4 of [`apply`](Self::apply): returns the bytes of each span.
    fn verify(&self, spans: &[Span<'_>], expected: Side) -> Result<Vec<Vec<u8>>, AttachError> {
        self.read_spans(spans, expected, |write, now| now == write.bytes(expected))
    }

    /// The bytes of each span, if every write is `as_expected`; `expected` is for the error.
    fn read_spans(
        &self,
        spans: &[Span<'_>],
        expected: Side,
        as_expected: impl Fn(&Write, &[u8]) -> bool,
    ) -> Result<Vec<Vec<u8>>, AttachError> {
        let mut all = Vec::with_capacity(spans.len());
        for span in spans {
            let now = self.bytes_of(span.start, span.length)?;
            if let Some((write, held)) =
                span.held(&now).find(|(write, held)| !as_expected(write, held))
            {
                return Err(self.changed(write, write.bytes(expected), held));
            }
            all.push(now);
        }
        Ok(all)
    }

    /// Step 5 of [`apply`](Self::apply); `held`: the bytes of each span.
    fn write_spans(
        &self,
        spans: &[Span<'_>],
        held: &[Vec<u8>],
        to: Side,
    ) -> Result<(), AttachError> {
        for (index, (span, now)) in spans.iter().zip(held).enumerate() {
            let mut pieces = span.pieces(now, to).into_iter();
            let failed = pieces.find_map(|(address, bytes)| {
                self.write(address, &bytes).err().map(|why| (address, why))
            });
            let Some((address, why)) = failed else { continue };
            for (span, now) in spans[..=index].iter().zip(held).rev() {
                for (write, before) in span.held(now) {
                    // If this write fails, the bytes were not changed before either.
                    let _ = self.write(write.address, before);
                }
            }
            return Err(match self.is_alive() {
                true => AttachError::Write { pid: self.pid, address, why },
                false => self.gone(),
            });
        }
        Ok(())
    }

    fn restore_stopped(&self, spans: &[Span<'_>]) -> Result<(), AttachError> {
        let held = self.read_spans(spans, Side::ASKED, Write::may_hold)?;
        self.write_spans(spans, &held, Side::FOUND)
    }

    /// Does the same as [`restore`](Self::restore) if the registered objects are not those of the change.
    ///
    /// The known sites of objects that are still there are put back. Sites of new objects have the form
    /// of the value asked for; they get the form of the value found.
    fn restore_other_objects(&self, change: &Change) -> Result<(), Attempt> {
        let registry = Registry::read(self, change.registry).map_err(|why| self.unreadable(why))?;
        let survey = Survey::read(self, &self.mappings()?, &[registry.address])
            .map_err(|why| self.unreadable(why))?;
        let (code, of_key) = change.writes.split_at(change.code_writes);
        let find = |address: u64| of_key.iter().find(|write| write.address == address);
        let known =
            survey.keys.iter().find_map(|key| Some((key, find(slot_address(key.address))?)));
        // If the key is unknown, the object that defined it was closed, and its memory is gone.
        let Some((key, slot)) = known else { return Ok(()) };
        let form = find(form_address(key.address));
        let there = |address: u64| key.sites.iter().any(|site| site.place.code == address);
        let mut writes: Vec<Write> =
            code.iter().filter(|write| there(write.address)).cloned().collect();
        let form_found = form.map(|form| form.bytes(Side::FOUND));
        let found = state_of(slot.bytes(Side::FOUND), form_found);
        if let Ok(back) = Change::to_states(&survey, key, &[found]) {
            let come = back.writes[..back.code_writes].iter();
            let come =
                come.filter(|write| !code.iter().any(|known| known.address == write.address));
            // The sides of these writes are swapped: the present bytes are those of the value asked for.
            writes.extend(come.map(|write| Write {
                address: write.address,
                sides: write.sides.iter().rev().cloned().collect(),
            }));
        }
        let holders: Vec<u64> = std::iter::once(key.address).chain(key.imports.clone()).collect();
        writes.extend(form.cloned());
        // Keys of new objects are written, too: an import took over the value that its key had then.
        let slots = holders.iter().map(|key| Write { address: slot_address(*key), ..slot.clone() });
        writes.extend(slots);
        Ok(self.restore_stopped(&Span::cover(&writes))?)
    }

    fn bytes_of(&self, address: u64, length: usize) -> Result<Vec<u8>, AttachError> {
        self.bytes(address, length).map_err(|why| match self.is_alive() {
            true => AttachError::Denied { pid: self.pid, what: "read the memory of", why },
            false => self.gone(),
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

/// The spans of a change, the code first.
fn spans_of(change: &Change) -> Vec<Span<'_>> {
    let (code, key) = change.writes.split_at(change.code_writes);
    [Span::cover(code), Span::cover(key)].concat()
}
