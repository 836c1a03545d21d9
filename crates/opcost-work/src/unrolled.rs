//! Helpers that keep the workloads' loops cheap: many operations in one turn, and twins without instructions.

use std::arch::asm;

/// Operations in one turn of an unrolled loop.
pub(crate) const TURN: u64 = 64;

/// Repeats a statement [`TURN`] times in the code, without a loop.
macro_rules! turn {
    ($operation:expr) => {
        crate::unrolled::four!(crate::unrolled::four!(crate::unrolled::four!($operation)))
    };
}
pub(crate) use turn;

/// Repeats a statement `$ops` times, in whole turns and single steps; the value is that number.
macro_rules! times {
    ($ops:expr, $operation:expr) => {{
        let ops: u64 = $ops;
        let in_turns = ops - ops % crate::unrolled::TURN;
        let mut done = 0;
        while done < in_turns {
            crate::unrolled::turn!($operation);
            done += crate::unrolled::TURN;
        }
        while done < ops {
            $operation;
            done += 1;
        }
        done
    }};
}
pub(crate) use times;

/// Repeats a statement four times.
macro_rules! four {
    ($operation:expr) => {{
        $operation;
        $operation;
        $operation;
        $operation;
    }};
}
pub(crate) use four;

/// Takes the place of an operation in a twin: no instruction, but the loop around it stays.
#[inline(always)]
pub(crate) fn nothing() {
    // SAFETY: there is no instruction.
    unsafe { asm!("", options(nomem, nostack, preserves_flags)) };
}

/// Puts a word into a register, as for an operation that takes it; no further instruction.
#[inline(always)]
pub(crate) fn ready(word: usize) {
    // SAFETY: there is no instruction; the comment only makes the operand used.
    unsafe { asm!("/* {} */", in(reg) word, options(nomem, nostack, preserves_flags)) };
}

/// Returns the result of a call that a twin does not make: whatever a register holds; no instruction.
#[inline(always)]
pub(crate) fn unknown() -> usize {
    let word;
    // SAFETY: there is no instruction; every value of a register is a number.
    unsafe { asm!("/* {} */", out(reg) word, options(nomem, nostack, preserves_flags)) };
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_as_many_operations_as_it_says() {
        let mut done = 0;
        turn!({
            nothing();
            done += 1
        });
        assert_eq!(done, TURN);
    }

    #[test]
    fn so_many_operations_are_done_as_were_asked_for() {
        for ops in [0, 1, TURN - 1, TURN, TURN + 1, 3 * TURN + 2] {
            let mut done = 0;
            let said = times!(ops, {
                ready(unknown());
                done += 1
            });
            assert_eq!((done, said), (ops, ops));
        }
    }
}
