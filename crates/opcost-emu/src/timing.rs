//! Passes the guest's execution to the model of a core, and takes the model's cycles.
//!
//! QEMU calls the plugin when a block begins, and for each access to memory. The effect of a block is known when the next block
//! begins: where control went, and where control left the block if that was before its end. The model therefore executes a block
//! one step late, or up to a marker when the guest reaches the marker.
//!
//! **The plugin hands a block to the model when the next block begins.** Only then does the plugin know where control left
//! the block and where it went. At a marker it hands over everything at once, so a region begins and ends at its markers.
//!
//! **A core is modelled from the first marker on.** Modelling a boot would take minutes. The caches of the modelled core are
//! therefore cold when a command starts; a workload warms them up itself.

use crate::api;
use crate::block::Block;
use crate::counters::Figure;
use crate::decode::Repeat;
use crate::slices::{Phase, Slices};
use opcost_core_model::{Access, Core as CoreTable, Cycles, Events, Machine};
use std::ffi::c_void;
use std::ptr;

/// Largest number of kept accesses; a repeated string instruction that makes more is executed in pieces.
const ACCESSES_MAX: usize = 1 << 16;
/// Bytes of a line: hardware moves strings line by line.
const LINE_BYTES: u64 = 64;
/// A bit of [`access_data`], set for a repeated string instruction.
const REPEATS: usize = 1 << 16;
/// A bit of [`access_data`], set if the string instruction moves or stores: its accesses within a line count as one.
const BY_LINE: usize = 1 << 17;

/// Returns the data of a memory callback: the index of the accessing instruction, and its kind of repetition.
pub(crate) fn access_data(index: usize, repeat: Option<Repeat>) -> *mut c_void {
    let repeats = match repeat {
        None => 0,
        Some(Repeat::Movs | Repeat::Stos) => REPEATS | BY_LINE,
        Some(_) => REPEATS,
    };
    ptr::without_provenance_mut(index | repeats)
}

/// The modelled core, and the execution that it was not yet given.
pub(crate) struct Timing {
    core: CoreTable,
    machine: Machine,
    /// The slices of the execution that are timed; `None` if nothing is, and the core only learns.
    slices: Option<Slices>,
    /// The core's events up to the last [`Timing::take_misses`].
    events: Events,
    /// The cycles of the slice that ended since the last [`Timing::take_slice`].
    slice: Option<u64>,
    /// The last begun block, and its first instruction that the model has not executed.
    block: Option<(&'static Block, usize)>,
    /// The block's accesses.
    accesses: Vec<Access>,
    /// Cycles of the executed pieces of a repeated string instruction, not yet charged to any context.
    carried: Cycles,
    /// Whether a region was reached. Before the first region nothing is modelled, as modelling a boot would take minutes.
    begun: bool,
    /// Instructions of an unknown class that the machine executed, and those since the last [`Timing::take_unknown`].
    unknown: u64,
    unknown_charged: u64,
    /// QEMU's most recent descriptions of accesses with their meaning: bytes, and whether the access is a store.
    kinds: [(u32, u16, bool); 64],
}

impl Timing {
    /// Makes a core that has executed nothing.
    ///
    /// `one_in`: the number of instructions that each timed instruction stands for, or `None` if nothing is timed; `begun`: whether
    /// the model starts with the first instruction.
    pub(crate) fn new(core: CoreTable, one_in: Option<u64>, begun: bool) -> Timing {
        Timing {
            machine: Machine::new(&core),
            slices: one_in.map(Slices::new),
            events: Events::default(),
            core,
            block: None,
            carried: Cycles::default(),
            accesses: Vec::with_capacity(ACCESSES_MAX),
            begun,
            slice: None,
            unknown: 0,
            unknown_charged: 0,
            // A description that QEMU never gives: it does not use the highest bits.
            kinds: [(u32::MAX, 0, false); 64],
        }
    }

    /// Returns the core's table, which decodes blocks.
    pub(crate) fn core(&self) -> &CoreTable {
        &self.core
    }

    /// Returns the number of instructions since the last call whose class the model does not know.
    pub(crate) fn take_unknown(&mut self) -> u64 {
        std::mem::take(&mut self.unknown_charged)
    }

    /// Returns the misses since the last call.
    #[inline(always)]
    pub(crate) fn take_misses(&mut self) -> [(Figure, u64); 4] {
        let now = self.machine.events();
        let before = std::mem::replace(&mut self.events, now);
        [
            (Figure::BranchMisses, now.branch_misses - before.branch_misses),
            (Figure::InstructionMisses, now.code_misses - before.code_misses),
            (Figure::DataMisses, now.l1_misses - before.l1_misses),
            (Figure::LastMisses, now.l3_misses - before.l3_misses),
        ]
    }

    /// Returns the cycles of the slice that ended since the last call.
    pub(crate) fn take_slice(&mut self) -> Option<u64> {
        self.slice.take()
    }

    /// Whether the last begun block ends with the repeated string instruction that `alone` consists of.
    pub(crate) fn repeats(&self, alone: &Block) -> bool {
        self.block.is_some_and(|(last, _)| last.repeats_at(alone.start))
    }

    /// Whether the last begun block is the kernel's.
    pub(crate) fn in_kernel(&self) -> bool {
        self.block.is_some_and(|(block, _)| block.kernel)
    }

    /// Notes that the guest reached a region: from here on the core is modelled.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
    }

    /// Executes the last block when the next one begins, and returns the cycles of the last block.
    ///
    /// `executed`: the number of the last block's instructions that finished; `interrupted`: whether the processor went to a
    /// handler in between.
    pub(crate) fn follow(
        &mut self,
        executed: usize,
        begun: &'static Block,
        interrupted: bool,
    ) -> Cycles {
        let mut cycles = self.execute(executed, begun.start);
        if interrupted && self.begun {
            let took = self.machine.interrupted();
            cycles += self.charge(0, took);
        }
        self.block = Some((begun, 0));
        cycles
    }

    /// Executes the last block up to the instruction that control has reached, and returns the cycles.
    pub(crate) fn reach(&mut self, index: usize) -> Cycles {
        let Some((block, _)) = self.block else { return Cycles::default() };
        let next = if index < block.facts.len() { block.address(index) } else { block.end() };
        let cycles = self.execute(index, next);
        self.block = Some((block, index.min(block.facts.len())));
        cycles
    }

    /// Executes the last block on the model up to an instruction.
    #[inline(always)]
    fn execute(&mut self, executed: usize, next: u64) -> Cycles {
        let carried = std::mem::take(&mut self.carried);
        let Some((block, first)) = self.block.filter(|_| self.begun) else {
            return carried;
        };
        let executed = executed.min(block.facts.len());
        let Some(code) = block.code.as_ref().filter(|_| first < executed) else {
            self.accesses.clear();
            return carried;
        };
        let instructions = (executed - first) as u64;
        let phase = self.slices.as_ref().map_or(Phase::Learning, Slices::phase);
        let took = if phase == Phase::Learning {
            self.machine.learn(code, first..executed, &self.accesses, next);
            Cycles::default()
        } else {
            self.machine.execute(code, first..executed, &self.accesses, next)
        };
        self.accesses.clear();
        self.charge(instructions, took) + carried
    }

    /// Returns the charge for some instructions that took some cycles.
    #[inline(always)]
    fn charge(&mut self, instructions: u64, took: Cycles) -> Cycles {
        let Some(slices) = &mut self.slices else { return Cycles::default() };
        let weight = slices.weight();
        let unknown = self.machine.unknown();
        self.unknown_charged += (unknown - self.unknown) * weight;
        self.unknown = unknown;
        let ended = slices.pass(instructions, took.total());
        if ended.is_some() {
            self.slice = ended;
        }
        took * weight
    }

    /// Executes a piece of a repeated string instruction on the model, because the kept accesses are at their limit.
    #[cold]
    fn execute_piece(&mut self) {
        if let Some((block, _)) = self.block {
            let last = block.facts.len() - 1;
            self.carried = self.execute(usize::MAX, block.last_at());
            self.block = Some((block, last));
        }
    }

    /// Keeps an access to memory; `access`: QEMU's description; `data`: the value that [`access_data`] made.
    ///
    /// # Safety
    /// QEMU passed the description to the callback that is running.
    #[inline(always)]
    pub(crate) unsafe fn access(&mut self, access: u32, address: u64, data: *mut c_void) {
        if !self.begun {
            return;
        }
        let known = &mut self.kinds[(access.wrapping_mul(0x9e37_79b1) >> 26) as usize];
        if known.0 != access {
            let functions = &api::api().functions;
            // SAFETY: as the caller promises.
            *known = unsafe {
                (
                    access,
                    1 << (functions.memory_size_shift)(access),
                    (functions.memory_is_store)(access),
                )
            };
        }
        let (_, bytes, store) = *known;
        self.add(data.addr(), bytes, store, address);
    }

    #[inline(always)]
    fn add(&mut self, told: usize, bytes: u16, store: bool, address: u64) {
        let instruction = match told & REPEATS {
            0 => told as u16,
            // The instruction ends the block, or is a block of its own.
            _ => self.block.map_or(0, |(block, _)| block.facts.len() as u16 - 1),
        };
        let access = Access { instruction, store, bytes, address };
        if told & BY_LINE != 0 && self.lengthen(access) {
            return;
        }
        if self.accesses.len() == ACCESSES_MAX {
            self.execute_piece();
        }
        self.accesses.push(access);
    }

    /// Lengthens the last access of a repeated string instruction, if this one continues it in the same line; returns whether it
    /// does.
    fn lengthen(&mut self, access: Access) -> bool {
        let Access { instruction, store, bytes, address } = access;
        let same = |run: &&mut Access| (run.instruction, run.store) == (instruction, store);
        let last = self.accesses.iter_mut().rev().take(2).find(same);
        let Some(run) = last.filter(|run| run.address / LINE_BYTES == address / LINE_BYTES) else {
            return false;
        };
        if address == run.address.wrapping_add(run.bytes.into()) {
            run.bytes += bytes;
        } else if address.wrapping_add(bytes.into()) == run.address {
            (run.address, run.bytes) = (address, run.bytes + bytes);
        } else {
            return false;
        }
        true
    }
}
