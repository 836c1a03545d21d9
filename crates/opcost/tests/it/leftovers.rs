//! The temporary files that a killed opcost leaves behind.

use crate::lab::{self, ALONE, Lab};
use crate::needs;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The folders with an owner in a folder of temporary files.
fn owned(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.join("owner").exists()).collect()
}

#[test]
fn the_next_start_removes_the_temporary_files_of_a_killed_one() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let folder = lab.path("tmp");
    fs::create_dir(&folder).unwrap();
    let opcost = |arguments: &[&str]| {
        let mut command = Command::new(lab::OPCOST);
        command.args(arguments).args(["--store".as_ref(), lab.path("store").as_os_str()]);
        command.env("TMPDIR", &folder).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let long = [&ALONE[..], &["-n", "2", "sleep 60", "sleep 61"]].concat();
    let mut killed = opcost(&long).spawn().unwrap();
    while owned(&folder).is_empty() {
        assert_eq!(killed.try_wait().unwrap(), None, "it ended by itself");
        std::thread::sleep(Duration::from_millis(10));
    }
    // A live opcost keeps its folder.
    assert!(opcost(&["compare", "-n", "2", "true", "true 2"]).status().unwrap().success());
    assert_eq!(owned(&folder).len(), 1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(owned(&folder).len(), 1);
    assert!(opcost(&["compare", "-n", "2", "true", "true 2"]).status().unwrap().success());
    assert_eq!(owned(&folder), Vec::<PathBuf>::new());
}
