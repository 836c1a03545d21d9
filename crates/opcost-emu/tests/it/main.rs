//! The integration tests of opcost-emu, in one program so that linking happens once.

mod aarch64;
mod bare;
mod callgrind;
mod cycles;
mod emulator;
mod footprint;
mod guest;
mod kernel;
mod machine;
mod main_loop;
mod programs;
mod self_test;
#[path = "../../../../patchpoint/tests/skip.rs"]
mod skip;
mod vcpus;
