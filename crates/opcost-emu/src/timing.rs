//! Hands what the guest executes to the model of a core, and gets cycles for it.
//!
//! QEMU tells of a block when it begins, and of each access to memory. What a block did is known when the
//! next one begins: where control went, and where the block was left, if that was before its end. So the
//! model executes a block one step late, or up to a marker when one is reached.

use crate::api;
use crate::block::Block;
use crate::decode::Repeat;
use crate::slices::{Phase, Slices};
use opcost_core_model::{Access, Core as CoreTable, Cycles, Machine};
use std::ffi::c_void;
use std::ptr;

/// Accesses that are kept at most; a repeated string instruction that makes more is executed in pieces.
const ACCESSES_MAX: usize = 1 << 16;
/// Bytes of a line: hardware moves strings by lines.
const LINE_BYTES: u64 = 64;
/// Set in what an access is told by if its instruction is a repeated string instruction.
const REPEATS: usize = 1 << 16;
/// Set if that instruction moves or stores: its accesses within a line are one.
const BY_LINE: usize = 1 << 17;

/// What a memory callback is told of the instruction that accesses.
pub(crate) fn access_data(index: usize, repeat: Option<Repeat>) -> *mut c_void {
    let repeats = match repeat {
        None => 0,
        Some(Repeat::Movs | Repeat::Stos) => REPEATS | BY_LINE,
        Some(_) => REPEATS,
    };
    ptr::without_provenance_mut(index | repeats)
}

/// The modelled core and what it was not told yet.
pub(crate) struct Timing {
    core: CoreTable,
    machine: Machine,
    /// What of the execution is timed.
    slices: Slices,
    /// The cycles of a slice that ended since this was last asked for.
    slice: Option<u64>,
    /// The block that began last, and its first instruction that the model did not execute.
    block: Option<(&'static Block, usize)>,
    /// Its accesses.
    accesses: Vec<Access>,
    /// What pieces of a repeated string instruction cost that nobody was charged with yet.
    carried: Cycles,
    /// Whether a region was reached: before, nothing is modelled, as a boot would take minutes.
    begun: bool,
    /// Instructions of an unknown class that the machine executed, and those that nobody asked for yet.
    unknown: u64,
    unknown_charged: u64,
    /// What QEMU's descriptions of accesses mean that were seen last: bytes, and whether it is a store.
    kinds: [(u32, u16, bool); 64],
}

impl Timing {
    /// A core that executed nothing yet.
    ///
    /// `one_in`: the instructions that each timed one stands for; `begun`: whether all is modelled from the first
    /// instruction on.
    pub(crate) fn new(core: CoreTable, one_in: u64, begun: bool) -> Timing {
        Timing {
            machine: Machine::new(&core),
            slices: Slices::new(one_in),
            core,
            block: None,
            carried: Cycles::default(),
            accesses: Vec::with_capacity(ACCESSES_MAX),
            begun,
            slice: None,
            unknown: 0,
            unknown_charged: 0,
            // A description that QEMU never gives: its highest bits are not used.
            kinds: [(u32::MAX, 0, false); 64],
        }
    }

    /// The core's table, by which blocks are decoded.
    pub(crate) fn core(&self) -> &CoreTable {
        &self.core
    }

    /// Instructions since this was last asked whose class the model does not know.
    pub(crate) fn take_unknown(&mut self) -> u64 {
        std::mem::take(&mut self.unknown_charged)
    }

    /// The cycles of a slice that ended since this was last asked.
    pub(crate) fn take_slice(&mut self) -> Option<u64> {
        self.slice.take()
    }

    /// Whether a block is the one that began last.
    pub(crate) fn is_at(&self, block: *const Block) -> bool {
        self.block.is_some_and(|(last, _)| ptr::eq(last, block))
    }

    /// Whether the block that began last is the kernel's.
    pub(crate) fn in_kernel(&self) -> bool {
        self.block.is_some_and(|(block, _)| block.kernel)
    }

    /// A region is reached: from here on the core is modelled.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
    }

    /// A block begins behind the last one.
    ///
    /// `executed`: how many of the last block's instructions were finished; `interrupted`: whether the
    /// processor went to a handler in between.
    ///
    /// Result: what the last block cost.
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

    /// The repeated string instruction that is a block by itself begins once more.
    ///
    /// Result: what the last block cost, if this is another one.
    pub(crate) fn repeat(&mut self, alone: &'static Block) -> Cycles {
        match self.block {
            Some((block, _)) if block.repeats_at(alone.start) => Cycles::default(),
            _ => self.follow(usize::MAX, alone, false),
        }
    }

    /// The last block's instructions up to one that is reached now cost this.
    pub(crate) fn reach(&mut self, index: usize) -> Cycles {
        let Some((block, _)) = self.block else { return Cycles::default() };
        let next = if index < block.facts.len() { block.address(index) } else { block.end() };
        let cycles = self.execute(index, next);
        self.block = Some((block, index.min(block.facts.len())));
        cycles
    }

    /// The model executes the last block up to an instruction.
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
        let took = if self.slices.phase() == Phase::Learning {
            self.machine.learn(code, first..executed, &self.accesses, next);
            Cycles::default()
        } else {
            self.machine.execute(code, first..executed, &self.accesses, next)
        };
        self.accesses.clear();
        self.charge(instructions, took) + carried
    }

    /// What some instructions are charged that took some cycles.
    #[inline(always)]
    fn charge(&mut self, instructions: u64, took: Cycles) -> Cycles {
        let weight = self.slices.weight();
        let unknown = self.machine.unknown();
        self.unknown_charged += (unknown - self.unknown) * weight;
        self.unknown = unknown;
        let ended = self.slices.pass(instructions, took.total());
        if ended.is_some() {
            self.slice = ended;
        }
        took * weight
    }

    /// The model executes a piece of a repeated string instruction, whose accesses fill their room.
    #[cold]
    fn execute_piece(&mut self) {
        if let Some((block, _)) = self.block {
            let last = block.facts.len() - 1;
            self.carried = self.execute(usize::MAX, block.last_at());
            self.block = Some((block, last));
        }
    }

    /// Memory is accessed; `access`: QEMU's description; `data`: what [`access_data`] made.
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
            // The instruction ends the block, or is a block by itself.
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

    /// Whether an access of a repeated string instruction goes on where its last one ended, in the same line.
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
