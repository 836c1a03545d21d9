//! The architecture that the plugin counts: one row for each, chosen once by QEMU's `target_name`.
//!
//! Each architecture has a folder with the same files: `decode` reads instructions, `entry` says where a fault or interrupt left the
//! interrupted code. Everything else is shared.

use crate::compare::Decide;
use crate::decode::{Exit, Facts};
use crate::stack::{Entered, Stack};
use crate::{aarch64, x86_64};
use opcost_record::Architecture;
use opcost_record::symbols::Landmark;

/// The place in which a call leaves its return address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Call {
    /// The call pushes the address: a memory callback tells the slot, and a fault may stop the call.
    PushesAddress,
    /// The call writes the address to a register, and cannot fault.
    SetsRegister,
}

/// The signals of instructions that fault: SIGILL, SIGTRAP, SIGBUS, SIGFPE and SIGSEGV (include/uapi/asm-generic/signal.h).
pub(crate) const FAULTS: [u64; 5] = [4, TRAP, 7, 8, 11];
/// SIGTRAP, whose frame has the address behind the instruction.
pub(crate) const TRAP: u64 = 5;

/// Numbers of system calls that the plugin watches in user mode.
pub(crate) struct SystemCalls {
    /// `clone`, which starts a thread or a process.
    pub(crate) clone: i64,
    /// Other calls that start a process.
    pub(crate) forks: &'static [i64],
    /// Calls that replace the program.
    pub(crate) execute: &'static [i64],
    /// `mmap`.
    pub(crate) map: i64,
    /// `rt_sigaction`.
    pub(crate) action: i64,
    /// `shmat`, `rt_sigqueueinfo` and `rt_tgsigqueueinfo`: see `totals.rs`.
    pub(crate) cuts: &'static [i64],
}

/// Tests of the register that says why the kernel was entered.
pub(crate) struct Causes {
    /// Whether a value is that of a system call.
    pub(crate) call: fn(u64) -> bool,
    /// Whether a value is that of an instruction that accesses memory.
    pub(crate) access: fn(u64) -> bool,
}

/// The state of a program's code that a signal interrupted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Signalled {
    /// Address at which the code resumes, and its stack pointer.
    pub(crate) instruction: u64,
    pub(crate) stack: u64,
    /// Address of the signal's frame.
    pub(crate) frame: u64,
    /// Whether the signal is one by which instructions fault.
    pub(crate) by_fault: bool,
}

/// An architecture.
pub(crate) struct Target {
    pub(crate) architecture: Architecture,
    pub(crate) call: Call,
    /// Bytes that a plain return takes off the stack.
    pub(crate) return_bytes: u16,
    /// Whether QEMU leaves a block that stores into its own code, and begins the store again as a block of its own
    /// (`TARGET_HAS_PRECISE_SMC`).
    pub(crate) restarts_own_stores: bool,
    /// Whether the kernel executes code of its image at other addresses, too.
    pub(crate) maps_text_again: bool,
    /// Whether models of cores know the instructions, and whether totals alone of a machine can be counted.
    pub(crate) is_modelled: bool,
    /// Decodes a block: its address, and the bytes of each instruction as QEMU cut them.
    pub(crate) decode: fn(u64, &[&[u8]]) -> Vec<Facts>,
    /// Returns the target that a jump, branch or call at an address names.
    pub(crate) branch_target: fn(u64, &[u8]) -> Option<u64>,
    /// Finds the comparison in front of the branch that ends a block.
    pub(crate) decide: Decide,
    /// The number of the stack pointer among the registers in QEMU's object.
    pub(crate) stack_number: u8,
    /// The numbers of the registers that have a function's arguments, among the registers in QEMU's object.
    pub(crate) arguments: [u8; 6],
    /// Returns the number of bytes that an instruction takes off the stack when it returns.
    pub(crate) popped: fn(Exit, &[u8]) -> u16,
    /// Whether an instruction halts its CPU in QEMU.
    pub(crate) halts: fn(&[u8]) -> bool,
    /// Whether code that ends with some bytes may end with a repeated string instruction.
    pub(crate) may_end_with_repeat: fn(&[u8]) -> bool,
    /// Whether code that ends with some bytes may end with a call.
    pub(crate) may_end_with_call: fn(&[u8]) -> bool,
    /// Returns the state of the interrupted code, at the first block of a handler.
    pub(crate) entered: unsafe fn(&Stack) -> Option<Entered>,
    /// Tests of the register that says why the kernel was entered, if it is to be learnt.
    pub(crate) causes: Option<Causes>,
    /// Returns the state of the code that a signal interrupted, at the first block of a program's handler, which ends in a restorer; `None`
    /// if no signal led there. Without the function, blocks of programs are followed step by step.
    pub(crate) signalled: Option<fn(&Stack, u64) -> Option<Signalled>>,
    /// Whether a fetch faulted, at the first block of the handler of a fault; `None` if that is not known.
    pub(crate) fetch_faulted: unsafe fn(&Stack, &Entered) -> Option<bool>,
    /// Returns the meaning of a block of kernel code without a name, if the block is an entry of the kernel.
    pub(crate) unnamed_entry: fn(u64, &[u8]) -> Option<Landmark>,
    pub(crate) system_calls: SystemCalls,
}

impl Target {
    const ALL: [&'static Target; 2] = [&x86_64::TARGET, &aarch64::TARGET];

    /// Finds an architecture by QEMU's name.
    ///
    /// # Errors
    /// The plugin does not count this architecture.
    pub(crate) fn named(name: &str) -> Result<&'static Target, String> {
        Target::ALL.into_iter().find(|target| target.qemu_name() == name).ok_or_else(|| {
            let names = Target::ALL.map(Target::qemu_name).join(" and ");
            format!("this QEMU emulates {name}, this plugin counts {names} only")
        })
    }

    /// QEMU's name.
    pub(crate) fn qemu_name(&self) -> &'static str {
        self.architecture.row().machine
    }

    /// Whether calls leave their return address in a register.
    #[inline(always)]
    pub(crate) fn links(&self) -> bool {
        self.call == Call::SetsRegister
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_found_by_its_name_and_others_are_refused() {
        for target in Target::ALL {
            assert_eq!(Target::named(target.qemu_name()).unwrap().qemu_name(), target.qemu_name());
        }
        let refused = Target::named("riscv64").err().unwrap();
        assert!(refused.contains("emulates riscv64") && refused.contains("aarch64"), "{refused}");
    }
}
