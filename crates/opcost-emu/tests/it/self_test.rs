//! The self-test's programs give their known numbers on this machine's QEMU.

use crate::emulator::{Emulator, Learned, Run, SYSTEM, USER, probe};

#[test]
fn the_program_is_counted_exactly() {
    let Some(emulator) = Emulator::find(USER) else { return };
    probe::verify(&counted(&emulator, USER).report, &probe::expected(false)).unwrap();
}

#[test]
fn the_image_is_counted_exactly() {
    let Some(emulator) = Emulator::find(SYSTEM) else { return };
    let run = counted(&emulator, SYSTEM);
    assert_eq!(run.status, Some(probe::SYSTEM_EXIT), "{}", run.output);
    probe::verify(&run.report, &probe::expected(true)).unwrap();
}

fn counted(emulator: &Emulator, qemu: &'static str) -> Run {
    let learned = Learned::of(qemu);
    let filters: Vec<&str> = learned.filters.iter().map(String::as_str).collect();
    emulator.run_probe(learned.api, &filters)
}
