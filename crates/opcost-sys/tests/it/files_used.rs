//! A traced command's files: which are noted, which are left out, and how tracing ends.

use opcost_sys::interrupt::Interrupt;
use opcost_sys::ptrace::{Uses, UsesError, files_used};
use opcost_sys::spawn::{EndedBy, Spawn, Status};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Returns the files that a shell script uses in a folder of its own.
fn used(script: &str, folder: &Path, limit: Option<Duration>) -> Uses {
    let argv = ["sh", "-c", script].map(Into::into);
    let spawn = Spawn { cwd: Some(folder.into()), ..Spawn::new("/bin/sh", argv) };
    files_used(spawn, limit, &Interrupt::none()).unwrap()
}

fn names(uses: &Uses, folder: &Path) -> Vec<String> {
    let inside = uses.paths.iter().filter_map(|path| path.strip_prefix(folder).ok());
    inside.map(|path| path.display().to_string()).collect()
}

#[test]
fn what_was_there_is_seen_and_what_was_made_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["read", "asked", "in-child", "untouched", "sub/deep"] {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), "text\n").unwrap();
    }
    let script = "read line < read; [ -e asked ]; (cat in-child | cat > made); cat made > /dev/null
        cd sub && cat deep; cat ../nowhere; exit 7";
    let uses = used(script, &root, None);
    assert_eq!((uses.status, uses.ended_by), (Status::Code(7), EndedBy::Itself));
    // The working directory itself is needed to create files in it.
    let expected = ["", "asked", "in-child", "read", "sub", "sub/deep"];
    let mut found = names(&uses, &root);
    found.retain(|name| name != "sub/..");
    assert_eq!(found, expected, "{uses:?}");
    assert!(uses.paths.iter().any(|path| path.ends_with("cat")), "{uses:?}");
    assert!(uses.paths.iter().any(|path| path == Path::new("/bin/sh")), "{uses:?}");
}

#[test]
fn threads_and_job_control_do_not_stop_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::write(root.join("late"), "").unwrap();
    // The shell stops itself, its child continues it, and a signal that it handles is delivered.
    let script = "trap 'cat late' USR1; (while ! grep -q 'State:.[Tt]' /proc/$$/status; do :; done
        kill -CONT $$) & kill -STOP $$; wait; kill -USR1 $$; exit 0";
    let uses = used(script, &root, Some(Duration::from_secs(60)));
    assert_eq!((uses.status, uses.ended_by), (Status::Code(0), EndedBy::Itself));
    assert!(names(&uses, &root).contains(&"late".to_string()), "{uses:?}");
}

#[test]
fn a_limit_ends_it_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let script = "setsid sleep 3600 & echo $! > child; exec sleep 3600";
    let uses = used(script, &root, Some(Duration::from_millis(700)));
    assert_eq!((uses.status, uses.ended_by), (Status::Signal(9), EndedBy::Timeout));
    let child = fs::read_to_string(root.join("child")).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.trim())).unwrap_or_default();
    assert!(status.is_empty() || status.contains("State:\tZ"), "{status}");
}

#[test]
fn what_does_not_start_is_named() {
    let spawn = Spawn::new("/nowhere/program", ["program".into()]);
    let error = files_used(spawn, None, &Interrupt::none()).unwrap_err();
    assert!(matches!(&error, UsesError::Spawn(_)), "{error}");
    assert!(error.to_string().contains("/nowhere/program"), "{error}");
}
