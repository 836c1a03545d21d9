//! The integration tests of opcost-emu: one program, so that it is linked once.

mod bare;
mod callgrind;
mod cycles;
mod emulator;
mod guest;
mod kernel;
mod machine;
mod main_loop;
mod programs;
mod self_test;
mod vcpus;
