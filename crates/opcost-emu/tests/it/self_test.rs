//! The self-test's programs give their known numbers on this machine's QEMU.

// The programs belong to crate opcost, which links nothing of QEMU's; the file stands by itself.
#[path = "../../../opcost/src/machine/emulated/probe.rs"]
#[allow(unreachable_pub, reason = "in crate opcost the items are public")]
mod probe;

use crate::emulator::{Emulator, SYSTEM, USER};

#[test]
fn the_program_is_counted_exactly() {
    let Some(emulator) = Emulator::find(USER) else { return };
    let program = emulator.file("probe", &probe::user_program());
    let first = emulator.run(&["probe=on"], &[&program]);
    let filters = probe::derive(&first.report).unwrap().arguments();
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    let second = emulator.run(&filters, &[&program]);
    probe::verify(&second.report, false).unwrap();
}

#[test]
fn the_image_is_counted_exactly() {
    let Some(emulator) = Emulator::find(SYSTEM) else { return };
    let image = emulator.file("probe", &probe::system_image());
    let arguments = |image| {
        let machine = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-m", "16"];
        let quiet = ["-nodefaults", "-display", "none", "-kernel", image];
        [&machine[..], &quiet, &probe::SYSTEM_ARGUMENTS].concat()
    };
    let first = emulator.run(&["probe=on"], &arguments(&image));
    assert_eq!(first.status, Some(probe::SYSTEM_EXIT), "{}", first.output);
    let filters = probe::derive(&first.report).unwrap().arguments();
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    let second = emulator.run(&filters, &arguments(&image));
    probe::verify(&second.report, true).unwrap();
}
