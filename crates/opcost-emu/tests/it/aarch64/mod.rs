//! AArch64: the tests that x86 has beside this folder.

mod bare;
mod kernel;
mod programs;

/// Assembler's macros for the markers.
const MARKERS: &str = "
.macro START
 .inst 0xd2e0201f
.endm
.macro STOP
 .inst 0xd2e0401f
.endm
";
