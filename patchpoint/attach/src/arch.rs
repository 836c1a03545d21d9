//! The instructions that this crate knows itself, of the architecture that it is built for. The library knows all others.

use patchpoint::Body;

#[cfg(target_arch = "aarch64")]
mod here {
    use super::Body;

    /// `brk #1000`.
    pub(super) const TRAP: Body = [0x00, 0x7d, 0x20, 0xd4, 0, 0, 0];
    pub(super) const TESTS_AT: usize = 12;
    pub(super) const TEST_SIZE: usize = 12;
    /// `ldr x16, .+8`; `br x16`; the target.
    pub(super) const STUB_TARGET_AT: u64 = 8;

    /// Whether a word is `brk`, of another number than that of [`TRAP`].
    pub(super) fn holds_breakpoint(code: &[u8]) -> bool {
        let words = code.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        let mut words = words.filter(|word| word & 0xffe0_001f == 0xd420_0000);
        words.any(|word| word != 0xd420_7d00)
    }
}

#[cfg(not(target_arch = "aarch64"))]
mod here {
    use super::Body;

    /// `ud2`.
    pub(super) const TRAP: Body = [0x40, 0x67, 0x67, 0x67, 0x67, 0x0f, 0x0b];
    pub(super) const TESTS_AT: usize = 0;
    pub(super) const TEST_SIZE: usize = 13;
    /// `jmp *0(%rip)`; the target.
    pub(super) const STUB_TARGET_AT: u64 = 6;

    /// Whether a byte is `int3`.
    pub(super) fn holds_breakpoint(code: &[u8]) -> bool {
        code.contains(&0xcc)
    }
}

/// The body that stands for a missing operation (`patchpoint_null_trap`).
pub(crate) const TRAP: Body = here::TRAP;
/// The bytes of code before the tests of a key, and of one test (`arch_tests_offset`, `arch_test_size`).
pub(crate) const TESTS_AT: usize = here::TESTS_AT;
pub(crate) const TEST_SIZE: usize = here::TEST_SIZE;
/// The distance of a far jump's target from its code (`arch_stub`).
pub(crate) const STUB_TARGET_AT: u64 = here::STUB_TARGET_AT;

/// Whether code may hold a breakpoint. `code`: begins with an instruction, or lies between two.
pub(crate) fn holds_breakpoint(code: &[u8]) -> bool {
    here::holds_breakpoint(code)
}

/// Whether a site holds a breakpoint that is not the library's.
pub(crate) fn is_breakpoint(site: &[u8]) -> bool {
    holds_breakpoint(site.get(..if cfg!(target_arch = "aarch64") { 4 } else { 1 }).unwrap_or(&[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakpoints_are_known_and_the_librarys_trap_is_none() {
        let (here, elsewhere): (&[u8], &[u8]) = match cfg!(target_arch = "aarch64") {
            true => (&[0, 0, 0x20, 0xd4], &[0x1f, 0x20, 0x03, 0xd5, 0, 0, 0x20, 0xd4]),
            false => (&[0xcc, 0x67, 0xe8], &[0x40, 0xe9, 0xcc, 0, 0, 0]),
        };
        assert!(is_breakpoint(here) && holds_breakpoint(here));
        assert!(!is_breakpoint(elsewhere) && holds_breakpoint(elsewhere));
        assert!(!is_breakpoint(&TRAP) && !holds_breakpoint(&TRAP) && !is_breakpoint(&[]));
    }
}
