//! Counting totals only: without contexts, QEMU's own code counts nearly every block, and calls the plugin only where it must.
//!
//! QEMU adds 1 to a block's count when the block begins. Control may leave the block before its end: by a fault, by an access to a
//! device, or by a store into the block's own code. One cell shows this with nothing but additions, which every version of the API
//! has. A block that can be cut short adds its number to the cell when it begins, and takes the number off again when its last
//! instruction begins. Wherever a cut becomes visible (`Plugin::settle_by_entry` has the three ways, `cuts.rs` settles them), the cell
//! holds the number of the block that was cut, or 0 if control reached the block's last instruction.
//!
//! A last instruction that faulted is found by the address that the processor pushed: the plugin reads the instruction from the
//! guest's memory. If the processor could not even fetch the instruction, nothing began.
//!
//! A plain store at a block's end may write to the block, and the store then begins again. In such blocks the store's memory
//! callback takes the number off. These blocks are rare: QEMU ends a block behind a plain store only at a page's end, or where its
//! budget of instructions ends.
//!
//! **Totals alone need additions only.** With `--no-functions` QEMU's own code adds 1 to a block's count when the block
//! begins. One cell shows whether control reached the block's last instruction: the block adds its number at its beginning
//! and takes it off at its last instruction (`totals.rs`). Where the kernel is entered, a number in the cell is the block
//! that a fault cut. If the last instruction itself faulted, the plugin reads it from the guest's memory, at the address that
//! the processor pushed. Additions exist in every version of the API, and no block needs a callback to say where it came
//! from. A gate's key does not contain the flag, since the digits are the same.
//!
//! **A program without a kernel needs one addition a block.** A fault ends the program unless the program handles the fault's signal. (Up
//! to 7.2 there is then no report. Later QEMUs call the plugin, and the last block counts as if it had reached its end; opcost takes no
//! figures of a program that was killed.) The signal's frame has the address of the instruction. Nearly all blocks that contain the
//! instruction end at the same place, since the translator ends a block at a jump or a page's end, or after 512 instructions. If two
//! end otherwise, the report is an error. A handler whose first block is a loop begins with the same frame again; only a block that
//! contains the instruction and began since tells another fault.
//!
//! A store into its own block needs code that the program may write to. A locked instruction whose operand is not aligned leaves its
//! block once the program shares memory (`cpu_exec_step_atomic` in QEMU). A signal that the program queues may look like a fault. When the
//! program executes such code, shares memory (`mmap`, `shmat`), queues a signal, or handles faults by a handler that is not told
//! whether it was a fault (no `SA_SIGINFO`) or where registers cannot be read, QEMU translates everything anew (`Plugin::follow_cuts`):
//! the plugin then counts blocks as it does with functions.

use crate::block::Block;
use crate::decode::{Exit, Facts};
use crate::low;
use crate::repeat::Site;
use std::collections::HashMap;

/// The state of counting totals, beside the blocks' counts.
pub(crate) struct Totals {
    /// The number of the block that began and whose last instruction did not begin yet; QEMU adds.
    pub(crate) open: *mut u64,
    /// The slot of the call that ended the last block, while the stack pointer's place is being learnt.
    pub(crate) call: Option<u64>,
    /// Places behind repeated string instructions, by address.
    pub(crate) sites: HashMap<u64, *mut Site>,
    /// Whether QEMU's code tells which block was cut short. Otherwise all blocks that contain the place of a cut have to end alike.
    pub(crate) cuts: bool,
    /// Whether the program's first block was translated.
    pub(crate) began: bool,
    /// Whether the program handled a fault.
    pub(crate) faulted: bool,
    /// The fault that the handler's frame at an address was settled for: the address of the instruction, and how often the blocks that
    /// contain the instruction had begun.
    pub(crate) settled: HashMap<u64, (u64, u64)>,
}

impl Totals {
    /// Makes the state before the first block; `cuts`: see [`Totals::cuts`].
    pub(crate) fn new(cuts: bool) -> Totals {
        Totals {
            // In user mode the program's own memory may be low.
            open: low::zeros(1, cuts),
            call: None,
            sites: HashMap::new(),
            cuts,
            began: false,
            faulted: false,
            settled: HashMap::new(),
        }
    }

    /// Returns the way in which a block's number leaves the cell.
    pub(crate) fn closing(&self, block: &Block) -> Closing {
        if self.cuts { Closing::of(block) } else { Closing::Never }
    }

    /// Returns the number of the open block.
    pub(crate) fn number(&self) -> u64 {
        // SAFETY: the cell lives for ever, and QEMU adds to it between callbacks only.
        unsafe { *self.open }
    }

    /// Returns the number of the open block, and closes the block.
    pub(crate) fn take(&mut self) -> u64 {
        let number = self.number();
        self.set(0);
        number
    }

    /// Has the cell hold a block's number, or 0 for none.
    pub(crate) fn set(&mut self, number: u64) {
        // SAFETY: as above.
        unsafe { *self.open = number };
    }
}

/// The way in which a block's number leaves the cell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Closing {
    /// The block never enters the cell: no instruction in front of its last can be the last that began.
    Never,
    /// When the last instruction begins.
    AtLast,
    /// When the last instruction, a plain store, has stored.
    ByStore,
}

impl Closing {
    /// Returns the way of a block.
    pub(crate) fn of(block: &Block) -> Closing {
        let Some(((last, _), before)) = block.facts.split_last() else { return Closing::Never };
        if last.stores > 0 && last.exit == Exit::Next && last.repeat.is_none() {
            Closing::ByStore
        } else if before.iter().any(|(facts, _)| facts.may_fault) {
            Closing::AtLast
        } else {
            Closing::Never
        }
    }
}

/// Whether a fault's entry into the kernel shows that an instruction began and did not finish.
pub(crate) fn began(facts: &Facts) -> bool {
    (facts.may_fault || facts.may_be_refused) && facts.repeat.is_none() && !facts.never_retires
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::made;
    use crate::x86_64::decode::decode_one;

    const NOP: &[u8] = &[0x90];
    const LOAD: &[u8] = &[0x48, 0x8b, 0x07];
    const STORE: &[u8] = &[0x48, 0x89, 0x07];
    const CALL: &[u8] = &[0xff, 0x17];
    const REP: &[u8] = &[0xf3, 0xa4];

    #[test]
    fn only_blocks_that_can_be_cut_enter_the_cell() {
        let closing = |codes| Closing::of(&made(0x1000, codes));
        assert_eq!(closing(&[NOP, NOP]), Closing::Never);
        assert_eq!(closing(&[NOP, LOAD]), Closing::Never);
        assert_eq!(closing(&[NOP, CALL]), Closing::Never);
        assert_eq!(closing(&[LOAD, NOP]), Closing::AtLast);
        assert_eq!(closing(&[STORE, CALL]), Closing::AtLast);
        assert_eq!(closing(&[LOAD, REP]), Closing::AtLast);
        assert_eq!(closing(&[REP]), Closing::Never);
        assert_eq!(closing(&[LOAD, STORE]), Closing::ByStore);
        assert_eq!(closing(&[STORE]), Closing::ByStore);
    }

    #[test]
    fn instructions_that_the_processor_never_finishes_are_not_taken_back() {
        let began = |code| began(&decode_one(64, 0x1000, code).unwrap().0);
        assert!(began(LOAD) && began(&[0xf4]) && began(&[0x48, 0xf7, 0xf1]));
        assert!(!began(NOP) && !began(REP) && !began(&[0x0f, 0x0b]));
    }

    #[test]
    fn an_instruction_is_read_with_its_length() {
        let (facts, length) = decode_one(64, 0x1000, &[0x48, 0x8b, 0x07, 0xff]).unwrap();
        assert_eq!((facts.loads, length), (1, 3));
        assert!(decode_one(64, 0x1000, &[0x48, 0x8b]).is_none());
        // 48 alone is an instruction in 32-bit code.
        assert_eq!(decode_one(32, 0x1000, &[0x48, 0x8b, 0x07]).unwrap().1, 1);
    }
}
