//! Facts about one instruction, whatever the architecture.

use opcost_record::Architecture;
use opcost_record::marker::{Marker, REGIONS, RegionMark};

/// The way in which an instruction hands over to the next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// To the instruction behind it.
    Next,
    /// A jump to a fixed place.
    Jump,
    /// A jump to a place that is read from a register or memory.
    JumpIndirect,
    /// A jump that may not happen.
    Branch,
    /// A call of a fixed place.
    Call,
    /// A call of a place that is read from a register or memory.
    CallIndirect,
    /// A return.
    Return,
    /// Back from an interrupt or a system call, or a far jump.
    Leave,
    /// A system call or a software interrupt.
    Enter,
}

/// A repeated string instruction.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Repeat {
    Movs,
    Stos,
    Lods,
    Scas,
    Cmps,
    Ins,
    Outs,
}

impl Repeat {
    /// Every kind with its word in arguments and its loads and stores for one iteration.
    pub(crate) const TABLE: [(Repeat, &'static str, u64, u64); 7] = [
        (Repeat::Movs, "movs", 1, 1),
        (Repeat::Stos, "stos", 0, 1),
        (Repeat::Lods, "lods", 1, 0),
        (Repeat::Scas, "scas", 1, 0),
        (Repeat::Cmps, "cmps", 2, 0),
        (Repeat::Ins, "ins", 0, 1),
        (Repeat::Outs, "outs", 1, 0),
    ];
}

/// An instruction with which a CPU waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wait {
    /// `pause` in a loop that waits for another CPU.
    Pause,
    /// `hlt`: waits for an interrupt.
    Halt,
}

/// The costs and effects of one instruction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Facts {
    /// Memory operands read; none for a repeated string instruction, whose iterations are counted.
    pub(crate) loads: u8,
    /// Memory operands written.
    pub(crate) stores: u8,
    /// Whether the instruction may begin without finishing.
    pub(crate) may_fault: bool,
    /// Whether the instruction can never finish (`ud2`).
    pub(crate) never_retires: bool,
    /// Whether the processor may refuse the instruction: `hlt`, `int` and `vmcall` of a program without the rights. Only the next
    /// block shows a refusal.
    pub(crate) may_be_refused: bool,
    /// The way in which the instruction hands over.
    pub(crate) exit: Exit,
    /// The kind of repeated string instruction.
    pub(crate) repeat: Option<Repeat>,
    /// The marker that the instruction is.
    pub(crate) marker: Option<MarkerAt>,
    /// The way in which the CPU waits at the instruction.
    pub(crate) wait: Option<Wait>,
}

/// A marker, with the number of its region.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MarkerAt {
    /// Starts the region.
    Start(u8),
    /// Stops the region.
    Stop(u8),
    /// Ends a run.
    RunEnd,
    /// The guest begins to wait for deferred work.
    Drain,
    /// The guest has waited.
    Drained,
    /// Part of a message about one of the program's own regions.
    Region(RegionMark),
}

/// Returns the marker that an instruction is.
pub(crate) fn marker(architecture: Architecture, code: &[u8]) -> Option<MarkerAt> {
    let number = |name| REGIONS.iter().position(|region| *region == name).map(|place| place as u8);
    Some(match Marker::decode(architecture, code)? {
        Marker::Start(name) => MarkerAt::Start(number(name)?),
        Marker::Stop(name) => MarkerAt::Stop(number(name)?),
        Marker::RunEnd => MarkerAt::RunEnd,
        Marker::Drain => MarkerAt::Drain,
        Marker::Drained => MarkerAt::Drained,
        Marker::Region(mark) => MarkerAt::Region(mark),
    })
}

impl Facts {
    /// Whether hardware counts the instruction as a branch (Intel SDM volume 3, BR_INST_RETIRED: far transfers included).
    pub(crate) fn is_branch(&self) -> bool {
        self.exit != Exit::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_repetition_are_at_their_places() {
        for (place, (kind, ..)) in Repeat::TABLE.iter().enumerate() {
            assert_eq!(*kind as usize, place);
        }
    }
}
