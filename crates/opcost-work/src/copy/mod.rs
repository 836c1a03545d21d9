//! The `copy` workload: a routine copies bytes repeatedly.
//!
//! The routine is called from sites of `patchpoint`. The prepared process can therefore exchange the routine by writing another
//! target into the calls: same code around them, same buffers, same pages, and no load of a pointer. The sites belong to the
//! process, which has one workload of this kind. Source and destination do not move, so data that fit into a cache are in it.
//! Before the work, a routine must copy every size exactly. After the work, a checksum is taken, the same for all routines.

mod buffers;
mod routine;
mod sizes;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use crate::error::WorkError;
use crate::invariant::{PAGE_FAULTS_EXPECTED, count, hash};
use crate::params::{ParamSpec, Params, number, one_of};
use crate::patched::require_patched;
use crate::random::fold;
use crate::residency::use_small_pages;
use crate::spec::WorkloadSpec;
use crate::unrolled::{TURN, nothing, ready, times, turn};
use crate::work::{PATH, Work};
use buffers::Buffers;
use opcost_record::Invariant;
use patchpoint::Call;
use routine::Routine;
use sizes::Sizes;
use std::hint::black_box;

/// The routine in use.
static ROUTINE: Call<routine::Copy> = Call::new(c"copy", libc::memcpy);

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "copy",
    summary: "copies of bytes by one of several routines, checked",
    operation: "one copy of 'size' bytes",
    ops_default: "1000000",
    programs: None,
    figures: &[],
    params: &[
        ParamSpec {
            name: PATH,
            default: "libc",
            values: routine::NAMES,
            help: routine::HELP,
            check: |value| one_of(value, &routine::NAMES.split('|').collect::<Vec<_>>()),
        },
        ParamSpec {
            name: "size",
            default: "48",
            values: "0..=67108864|small|real",
            help: "bytes a copy: a number; small: every number from 0 to 256, in random order; real: \
                   drawn from the sizes in SPEC CPU2017, as glibc's benchtests have them",
            check: |value| {
                one_of(value, &["small", "real"]).or_else(|| number(value, 0..=sizes::BYTES_MAX))
            },
        },
        ParamSpec {
            name: "offset",
            default: "2048",
            values: "0..=4095",
            help: "the destination's address minus the source's, modulo 4096; where it is small, \
                   loads are held up by earlier stores that look like the same address",
            check: |value| number(value, 0..=4095),
        },
    ],
    prepare: |params, seed| Ok(Box::new(Copying::prepare(params, seed)?)),
};

/// Limits of the warm-up in operations and bytes; a single copy may exceed the bytes.
const WARM_UP_OPS: u64 = 10_000;
const WARM_UP_BYTES: u64 = 1 << 20;

struct Copying {
    routine: &'static Routine,
    sizes: Sizes,
    buffers: Buffers,
    ops: u64,
    /// Copies of the work.
    done: u64,
    done_twin: u64,
}

impl Copying {
    fn prepare(params: &Params, seed: u64) -> Result<Self, WorkError> {
        let routine = use_routine(params.text(PATH))?;
        let sizes = Sizes::draw(params.text("size"), seed);
        use_small_pages();
        let buffers = Buffers::map(sizes.bytes_max(), params.number("offset") as usize, seed)?;
        Ok(Copying { routine, sizes, buffers, ops: params.number("ops"), done: 0, done_twin: 0 })
    }

    /// Goes through `ops` operations, or through the loop alone; returns the number of operations.
    fn pass<const COPY: bool>(&self, ops: u64) -> u64 {
        match self.sizes.only() {
            Some(bytes) => self.copies_of_one_size::<COPY>(bytes, ops),
            None => self.copies_of_drawn_sizes::<COPY>(ops),
        }
    }

    #[inline(never)]
    fn copies_of_one_size<const COPY: bool>(&self, bytes: usize, ops: u64) -> u64 {
        let (to, from) = (self.buffers.destination(), self.buffers.source());
        let one = || {
            if COPY {
                // SAFETY: the buffers have room for the largest size and do not overlap; `routine::find` checked that the CPU has
                // the feature that the routine needs.
                unsafe { patchpoint::call!(ROUTINE, to, from, bytes) };
            } else {
                nothing();
            }
        };
        times!(ops, one())
    }

    #[inline(never)]
    fn copies_of_drawn_sizes<const COPY: bool>(&self, ops: u64) -> u64 {
        let (to, from) = (self.buffers.destination(), self.buffers.source());
        let one = |bytes: u32| {
            if COPY {
                // SAFETY: as above.
                unsafe { patchpoint::call!(ROUTINE, to, from, bytes as usize) };
            } else {
                ready(bytes as usize);
            }
        };
        let mut done = 0;
        let in_turns = ops - ops % TURN;
        while done < in_turns {
            let sizes = self.sizes.turn(done);
            let mut at = 0;
            turn!({
                one(sizes[at]);
                at += 1;
            });
            done += TURN;
        }
        while done < ops {
            one(self.sizes.of(done));
            done += 1;
        }
        done
    }

    /// Has the routine copy each size once, to a destination that shows every written byte.
    fn verify_each_size(&mut self) -> Result<(), WorkError> {
        for bytes in self.sizes.distinct() {
            self.buffers.wipe();
            let (to, from) = (self.buffers.destination(), self.buffers.source());
            // SAFETY: as in a pass.
            unsafe { patchpoint::call!(ROUTINE, to, from, bytes) };
            if !self.buffers.holds(bytes) {
                return Err(WorkError::Copied { path: self.routine.name, bytes });
            }
        }
        Ok(())
    }

    fn hash_of(&self, done: u64) -> u64 {
        fold(fold(self.sizes.hash(), done), self.sizes.bytes_of(done))
    }

    /// Returns the largest size that the work copied.
    fn bytes_largest(&self) -> usize {
        let sizes = (0..self.ops.min(sizes::DRAWN as u64)).map(|op| self.sizes.of(op));
        sizes.max().unwrap_or(0) as usize
    }
}

/// Makes every site call the routine of that name.
fn use_routine(name: &str) -> Result<&'static Routine, WorkError> {
    let routine = routine::find(name)?;
    let patched = ROUTINE.set(routine.copy);
    patched.map_err(|source| WorkError::Patch { path: routine.name.into(), source })?;
    // Unpatched sites would load a pointer for each call. With a single routine, this load is the same for every run.
    if routine::ROUTINES.len() > 1 {
        require_patched(routine.name, &[ROUTINE.raw()])?;
    }
    Ok(routine)
}

impl Work for Copying {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn exchange(&mut self, path: &str) -> Result<(), WorkError> {
        self.routine = use_routine(path)?;
        Ok(())
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        self.verify_each_size()?;
        let each = self.sizes.bytes_max() as u64;
        let ops = self.ops.min(WARM_UP_OPS).min((WARM_UP_BYTES / each.max(1)).max(1));
        black_box(self.pass::<false>(ops));
        black_box(self.pass::<true>(ops));
        self.buffers.wipe();
        Ok(())
    }

    fn twin(&mut self) {
        self.done_twin = self.pass::<false>(self.ops);
    }

    fn work(&mut self) -> Result<(), WorkError> {
        self.done = self.pass::<true>(self.ops);
        Ok(())
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
        let (twin, work) = (self.hash_of(self.done_twin), self.hash_of(self.done));
        if twin != work {
            return Err(WorkError::Twin { twin, work });
        }
        let bytes = self.bytes_largest();
        if !self.buffers.holds(bytes) {
            return Err(WorkError::Copied { path: self.routine.name, bytes });
        }
        let checksum = self.buffers.checksum();
        // The next run in this process must copy everything itself.
        self.buffers.wipe();
        Ok(vec![
            hash(work),
            count("ops-copy", self.done),
            count("bytes", self.sizes.bytes_of(self.done)),
            count("checksum", checksum),
            count(PAGE_FAULTS_EXPECTED, 0),
        ])
    }
}

#[cfg(test)]
mod tests;
