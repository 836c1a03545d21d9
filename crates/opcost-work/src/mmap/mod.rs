//! The `mmap` workload: seeded mmap, munmap and mremap calls over a table of slots.
//!
//! This is a modern form of *mmap-perf*, which measured the cost of paravirt_ops in the kernel's memory management in 2009: a
//! million calls that touch the mappings with some probability.
//!
//! Each operation draws 64 seeded bits and picks a slot. An empty slot gets mapped. A mapped slot is unmapped (1 in 2), resized in
//! place (1 in 4), or moved to the other half of its window (1 in 4); in the long run each of the three calls is a third of all.
//! After a call that leaves a mapping, one page of the mapping is written to with the probability `touch`. The workload remembers
//! the written pages of each slot, and therefore knows every page fault in advance.

pub(crate) mod arena;

use crate::error::WorkError;
use crate::gate::{Gate, Kernel, Nothing};
use crate::invariant::{PAGE_FAULTS_EXPECTED, count, hash};
use crate::params::{ParamSpec, Params, chance, number};
use crate::random::{Random, below, fold};
use crate::residency::use_small_pages;
use crate::spec::WorkloadSpec;
use crate::work::Work;
use arena::Arena;
use opcost_record::Invariant;

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "mmap",
    summary: "seeded mmap, munmap and mremap calls, touching a page now and then",
    operation: "one mmap, munmap or mremap call",
    ops_default: "1000000",
    programs: None,
    figures: &[],
    params: &[
        ParamSpec {
            name: "slots",
            default: "64",
            values: "1..=4096",
            help: "places for a mapping, each with addresses of its own",
            check: |value| number(value, 1..=4096),
        },
        ParamSpec {
            name: "pages",
            default: "16",
            values: "1..=64",
            help: "pages of the largest mapping; sizes are drawn from 1 to this",
            check: |value| number(value, 1..=PAGES_MAX),
        },
        ParamSpec {
            name: "touch",
            // Gives 0.056 page faults per operation, as in the record of 2009 (55,945 in 10^6).
            default: "0.085",
            values: "0..=1, a decimal fraction",
            help: "chance that a page is written to after mmap or mremap",
            check: chance,
        },
        ParamSpec {
            name: "neighbours",
            default: "0",
            values: "0..=60000",
            help: "other mappings of one page that the process has meanwhile",
            check: |value| number(value, 0..=60_000),
        },
    ],
    prepare: |params, seed| Ok(Box::new(Mmap::prepare(params, seed)?)),
};

/// The bits of a slot's `resident`: one for each page of a mapping.
const PAGES_MAX: u64 = u64::BITS as u64;

/// Operations of the warm-up: enough to fill the slots and the kernel's caches.
const WARM_UP_OPS: u64 = 10_000;

const NAMES: [&str; 3] = ["mmap", "munmap", "mremap"];
const MMAP: usize = 0;
const MUNMAP: usize = 1;
const MREMAP: usize = 2;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Slot {
    /// Pages mapped; 0 for an empty slot.
    pages: u8,
    /// The half of the window that holds the mapping.
    half: u8,
    /// The pages that were written to; they cause no further fault.
    resident: u64,
}

/// The counts of one pass over the operations.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Tally {
    hash: u64,
    calls: [u64; 3],
    faults: u64,
}

/// A call that did not return the expected result.
struct Failed {
    call: usize,
    op: u64,
    returned: usize,
    expected: usize,
}

struct Mmap {
    arena: Arena,
    ops: u64,
    seed: u64,
    pages: u64,
    /// A 16-bit draw below this number means touch.
    touch_below: u64,
    /// The slots of the work; exactly these are mapped.
    slots: Vec<Slot>,
    /// The slots of the twin, which maps nothing.
    twin_slots: Vec<Slot>,
    work_tally: Tally,
    twin_tally: Tally,
}

impl Mmap {
    fn prepare(params: &Params, seed: u64) -> Result<Self, WorkError> {
        let slots = params.number("slots");
        let pages = params.number("pages");
        use_small_pages();
        Ok(Mmap {
            arena: Arena::reserve(slots, pages, params.number("neighbours"))?,
            ops: params.number("ops"),
            seed,
            pages,
            touch_below: (params.chance("touch") * 65_536.0).round() as u64,
            slots: vec![Slot::default(); slots as usize],
            twin_slots: vec![Slot::default(); slots as usize],
            work_tally: Tally::default(),
            twin_tally: Tally::default(),
        })
    }

    /// Goes through `ops` operations of the stream for `seed`, through the kernel or the empty gate; stops at the first failing
    /// call.
    ///
    /// # Safety
    /// With [`Kernel`], `slots` describes exactly the mappings in the arena.
    #[inline(never)]
    unsafe fn pass<G: Gate>(
        &self,
        slots: &mut [Slot],
        seed: u64,
        ops: u64,
    ) -> Result<Tally, Failed> {
        let mut random = Random::seeded(seed);
        let mut tally = Tally::default();
        for op in 0..ops {
            // Bits of the draw: 20 for the slot, 2 for the action, 12 for the size, 16 for whether to touch, 12 for the page.
            let draw = random.draw();
            let index = below(draw & 0xf_ffff, 20, slots.len() as u64) as usize;
            let slot = &mut slots[index];
            let what = (draw >> 20) & 3;
            let size = (draw >> 22) & 0xfff;

            let old = *slot;
            let address = self.arena.address(index, old.half.into());
            let bytes = self.arena.bytes(old.pages.into());
            let (call, arguments, expected);
            if old.pages == 0 {
                slot.pages = 1 + below(size, 12, self.pages) as u8;
                let bytes = self.arena.bytes(slot.pages.into());
                (call, arguments, expected) = (MMAP, mmap_arguments(address, bytes), address);
            } else if what < 2 {
                *slot = Slot::default();
                (call, arguments, expected) = (MUNMAP, [address, bytes, 0, 0, 0, 0], 0);
            } else if what == 2 {
                slot.pages = other_size(old.pages.into(), size, self.pages) as u8;
                slot.resident &= u64::MAX >> (PAGES_MAX - u64::from(slot.pages));
                let new_bytes = self.arena.bytes(slot.pages.into());
                (call, arguments, expected) =
                    (MREMAP, [address, bytes, new_bytes, 0, 0, 0], address);
            } else {
                slot.half ^= 1;
                let to = self.arena.address(index, slot.half.into());
                const MOVE: usize = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
                (call, arguments, expected) = (MREMAP, [address, bytes, bytes, MOVE, to, 0], to);
            }
            // SAFETY: the arguments name this slot's window only, and nothing but this workload refers to the window. A new mapping
            // never replaces another (MAP_FIXED_NOREPLACE, and a half that is free according to the slot).
            let returned = unsafe { G::call(NUMBERS[call], arguments, expected) };
            if returned != expected {
                *slot = old;
                return Err(Failed { call, op, returned, expected });
            }
            tally.calls[call] += 1;
            let mut word = (index as u64) << 16
                | u64::from(slot.pages) << 8
                | u64::from(slot.half) << 4
                | what << 2
                | call as u64;

            if slot.pages != 0 && (draw >> 34) & 0xffff < self.touch_below {
                let page = below(draw >> 50 & 0xfff, 12, slot.pages.into());
                let address = self.arena.address(index, slot.half.into());
                // SAFETY: the slot is mapped, and the page is one of its pages.
                unsafe { G::touch(address + self.arena.bytes(page as usize)) };
                tally.faults += !(slot.resident >> page) & 1;
                slot.resident |= 1 << page;
                word |= (1 + page) << 40;
            }
            tally.hash = fold(tally.hash, word);
        }
        Ok(tally)
    }

    /// Unmaps the mappings that the work left.
    fn unmap_all(&mut self) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.pages != 0 {
                let address = self.arena.address(index, slot.half.into());
                let bytes = self.arena.bytes(slot.pages.into());
                // SAFETY: the slot says that this range is mapped, and nothing else refers to it.
                unsafe {
                    Kernel::call(NUMBERS[MUNMAP], [address, bytes, 0, 0, 0, 0], 0);
                }
            }
            *slot = Slot::default();
        }
    }

    fn run(&mut self, seed: u64, ops: u64) -> Result<Tally, WorkError> {
        let mut slots = std::mem::take(&mut self.slots);
        // SAFETY: `slots` belong to the work; every pass and unmap_all keep them correct.
        let done = unsafe { self.pass::<Kernel>(&mut slots, seed, ops) };
        self.slots = slots;
        done.map_err(|failed| WorkError::Call {
            call: NAMES[failed.call],
            op: failed.op + 1,
            ops,
            returned: failed.returned,
            expected: failed.expected,
        })
    }

    fn run_twin(&mut self, seed: u64, ops: u64) -> Tally {
        let mut slots = std::mem::take(&mut self.twin_slots);
        // SAFETY: Nothing makes no system call and touches nothing.
        let done = unsafe { self.pass::<Nothing>(&mut slots, seed, ops) };
        self.twin_slots = slots;
        // The empty gate returns the expected result, so there is no failure.
        done.unwrap_or_default()
    }
}

const NUMBERS: [usize; 3] =
    [libc::SYS_mmap as usize, libc::SYS_munmap as usize, libc::SYS_mremap as usize];

#[inline(always)]
fn mmap_arguments(address: usize, bytes: usize) -> [usize; 6] {
    const ACCESS: usize = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    const FLAGS: usize =
        (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as usize;
    [address, bytes, ACCESS, FLAGS, usize::MAX, 0]
}

/// Returns a size from 1 to `most` other than `now`, since the kernel returns at once from a resize to the same size; returns `now`
/// if there is no other.
#[inline(always)]
fn other_size(now: u64, draw: u64, most: u64) -> u64 {
    if most == 1 {
        return now;
    }
    let size = 1 + below(draw, 12, most - 1);
    size + u64::from(size >= now)
}

impl Work for Mmap {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        // Another stream than the work's, so that no branch predictor knows the work by heart.
        let seed = !self.seed;
        self.run_twin(seed, WARM_UP_OPS);
        self.run(seed, WARM_UP_OPS)?;
        self.unmap_all();
        self.twin_slots.fill(Slot::default());
        Ok(())
    }

    fn twin(&mut self) {
        self.twin_tally = self.run_twin(self.seed, self.ops);
    }

    fn work(&mut self) -> Result<(), WorkError> {
        self.work_tally = self.run(self.seed, self.ops)?;
        Ok(())
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
        if self.twin_tally != self.work_tally {
            return Err(WorkError::Twin { twin: self.twin_tally.hash, work: self.work_tally.hash });
        }
        let mut invariants = vec![hash(self.work_tally.hash)];
        for (name, calls) in NAMES.iter().zip(self.work_tally.calls) {
            invariants.push(count(format!("ops-{name}"), calls));
        }
        invariants.push(count(PAGE_FAULTS_EXPECTED, self.work_tally.faults));
        Ok(invariants)
    }
}

impl Drop for Mmap {
    fn drop(&mut self) {
        self.unmap_all();
    }
}

#[cfg(test)]
mod tests;
