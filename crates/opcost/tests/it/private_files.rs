//! Files that others may not read or exchange: stores, caches, kept states.

use crate::lab::{Ended, Lab, Started};
use crate::needs;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// Runs opcost with folders of the lab's for data and caches, by usual permissions of new files.
fn run(lab: &Lab, words: &str) -> Ended {
    let mut command = lab.shell(&format!("umask 022; exec $OPCOST {words}"));
    command.env_remove("OPCOST_STORE");
    for (variable, folder) in [("XDG_DATA_HOME", "data"), ("XDG_CACHE_HOME", "cache")] {
        command.env(variable, lab.path(folder));
    }
    command.spawn().unwrap().end()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
}

#[test]
fn folders_and_stores_are_their_users_alone() {
    let lab = Lab::new();
    run(&lab, "compare true true -n 7 --quiet").expect(0);
    assert_eq!(mode(&lab.path("data/opcost")), 0o700);
    assert_eq!(mode(&lab.path("data/opcost/recordings.sqlite")), 0o600);
    // A folder of an earlier version is closed.
    fs::create_dir_all(lab.path("cache/opcost")).unwrap();
    fs::set_permissions(lab.path("cache/opcost"), Permissions::from_mode(0o755)).unwrap();
    run(&lab, "kernel list").expect(0);
    assert_eq!(mode(&lab.path("cache/opcost")), 0o700);
}

#[test]
fn folders_and_stores_of_others_are_refused() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("cache/opcost")).unwrap();
    if chown(lab.path("cache/opcost"), Some(12_345), None).is_err() {
        opcost_skip::skip!("only root can give files away");
        return;
    }
    run(&lab, "kernel list").expect(2).says(&["number 12345", "XDG_CACHE_HOME"]);
    run(&lab, "compare true true -n 7 --quiet").expect(0);
    chown(lab.path("data/opcost/recordings.sqlite"), Some(12_345), None).unwrap();
    let refused = ["recordings.sqlite' belongs to the user with the number 12345", "--store"];
    run(&lab, "compare true true -n 7 --quiet").expect(5).says(&refused);
    run(&lab, "resume").expect(5).says(&refused);
    run(&lab, "show last").expect(0);
}

#[test]
fn no_copy_of_a_private_file_is_kept() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let secret = lab.write("secret", "a word that nobody else may read\n");
    let states = || {
        let folders = fs::read_dir(lab.path("cache/opcost/booted")).into_iter().flatten().flatten();
        folders.filter(|entry| entry.path().join("state.json").is_file()).count()
    };
    let words = format!(
        "measure --machine emulated --kernel {kernel} -n 1 --warmup 0 --quiet --pack secret 'cat secret'"
    );
    for (permissions, kept) in [(0o600, 0), (0o644, 1)] {
        fs::set_permissions(&secret, Permissions::from_mode(permissions)).unwrap();
        run(&lab, &words).expect(0);
        assert_eq!(states(), kept, "permissions {permissions:o}");
    }
}
