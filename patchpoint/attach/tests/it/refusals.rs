//! Real processes that cannot be looked at or changed, each with its own error.

use crate::made::Busy;
use crate::others::Killed;
use patchpoint_attach::AttachError;
use patchpoint_attach::body;
use patchpoint_attach::change::Change;
use patchpoint_attach::process::{Process, Purpose};
use patchpoint_attach::registry::FormatError;
use patchpoint_attach::stop::{StopError, Stopped};
use patchpoint_attach::writes::Side;
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;

#[test]
fn one_that_is_not_there_or_has_ended() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id() as i32;
    child.wait().unwrap();
    let error = Process::open(pid, Purpose::Look).unwrap_err();
    assert!(error.to_string().starts_with(&format!("there is no process {pid}")), "{error}");
    let Some(busy) = Busy::run(1, "") else { return };
    let process = Process::open(busy.pid(), Purpose::Change).unwrap();
    drop(busy);
    assert!(matches!(process.survey(), Err(AttachError::Ended { .. })));
}

#[test]
fn one_without_patchpoint() {
    let sleeping = Killed(Command::new("sleep").arg("600").spawn().unwrap());
    let process = Process::open(sleeping.0.id() as i32, Purpose::Look).unwrap();
    let error = process.survey().unwrap_err();
    assert!(error.to_string().contains("does not use patchpoint"), "{error}");
}

/// A 32-bit program that calls pause() in a loop, by int $0x80.
fn elf_32() -> Vec<u8> {
    let code = [0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7];
    let mut file = vec![0; 84];
    file[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    let mut put = |at: usize, number: u32| file[at..at + 4].copy_from_slice(&number.to_le_bytes());
    let base = 0x0804_8000;
    put(16, 2 | 3 << 16); // ET_EXEC, EM_386
    put(20, 1);
    put(24, base + 84);
    put(28, 52);
    put(40, 52 | 32 << 16);
    put(44, 1);
    for (at, number) in [(0, 1), (8, base), (12, base), (16, 93), (20, 93), (24, 5), (28, 0x1000)] {
        put(52 + at, number);
    }
    file.extend(code);
    file
}

#[test]
fn one_of_32_bits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    std::fs::write(&path, elf_32()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let waiting = match Command::new(&path).spawn() {
        Ok(child) => Killed(child),
        Err(error) => return crate::skip::skip!("32-bit programs do not run here: {error}"),
    };
    // A process counts as started before its program is mapped.
    let maps = format!("/proc/{}/maps", waiting.0.id());
    while !std::fs::read_to_string(&maps).unwrap().contains("/program\n") {
        std::thread::yield_now();
    }
    let process = Process::open(waiting.0.id() as i32, Purpose::Look).unwrap();
    let error = process.survey().unwrap_err();
    assert!(error.to_string().contains("is a 32-bit program"), "{error}");
}

#[test]
fn one_with_another_version_of_the_registry() {
    let Some(busy) = Busy::run(1, "") else { return };
    let process = Process::open(busy.pid(), Purpose::Look).unwrap();
    let registry = process.survey().unwrap().registries[0].address;
    let memory = File::options().write(true).open(format!("/proc/{}/mem", busy.pid())).unwrap();
    memory.write_all_at(&1u32.to_le_bytes(), registry + 8).unwrap();
    let error = process.survey().unwrap_err();
    let expected =
        matches!(&error, AttachError::Format { why: FormatError::Format { found: 1 }, .. });
    assert!(expected, "{error}");
}

#[test]
fn one_whose_lock_is_held_for_ever_is_given_up_and_unchanged() {
    let Some(mut busy) = Busy::run(1, "") else { return };
    let process = Process::open(busy.pid(), Purpose::Change).unwrap();
    let survey = process.survey().unwrap();
    let key = survey.keys.iter().find(|key| key.name == "slow").unwrap();
    let change =
        Change::plan(&survey, key, &[body::state_with(&process, &survey, key, 1)]).unwrap();
    let memory = File::options().write(true).open(format!("/proc/{}/mem", busy.pid())).unwrap();
    let lock = survey.registries[0].address + 16;
    memory.write_all_at(&4711u32.to_le_bytes(), lock).unwrap();
    let error = process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap_err();
    assert!(matches!(&error, AttachError::Busy { .. }), "{error}");
    assert!(error.to_string().contains("its thread 4711 was changing a key"), "{error}");
    memory.write_all_at(&0u32.to_le_bytes(), lock).unwrap();
    assert_eq!(process.survey().unwrap().keys, survey.keys);
    assert_eq!(busy.ask("check"), "check 0");
}

#[test]
fn one_that_is_traced_already() {
    let Some(mut busy) = Busy::run(2, "") else { return };
    let process = Process::open(busy.pid(), Purpose::Change).unwrap();
    let survey = process.survey().unwrap();
    let key = survey.keys.iter().find(|key| key.name == "slow").unwrap();
    let change =
        Change::plan(&survey, key, &[body::state_with(&process, &survey, key, 1)]).unwrap();
    let first = Stopped::stop(busy.pid()).unwrap();
    // Tracing belongs to a thread: for another thread, the process is traced by somebody else.
    let tried = std::thread::scope(|scope| {
        scope.spawn(|| process.apply(&change, Side::FOUND, Side::ASKED, |_| ())).join().unwrap()
    });
    assert!(matches!(tried, Err(AttachError::Stop(StopError::Traced { .. }))), "{tried:?}");
    drop(first);
    assert_eq!(busy.ask("see"), "slow=0 rounds=4 wide=7 step=identity mode=0");
    process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
    process.apply(&change, Side::ASKED, Side::FOUND, |_| ()).unwrap();
    assert_eq!(busy.ask("check"), "check 0");
}
