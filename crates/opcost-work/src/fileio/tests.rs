use super::*;
use crate::in_child::{in_child, measured, value};
use crate::invariant::{OP_STREAM_HASH, PAGE_FAULTS};
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

fn resolve(given: &[(&str, &str)]) -> Params {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    SPEC.resolve(&given).unwrap()
}

/// A directory that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("opcost-fileio-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the text of `task`, run in a process with a file system with these options mounted on `folder`; `None` if nothing may be
/// mounted.
fn on_tmpfs(
    folder: &Folder,
    options: &str,
    flags: libc::c_ulong,
    task: impl FnOnce() -> String,
) -> Option<String> {
    let place = CString::new(folder.path()).unwrap();
    let options = CString::new(options).unwrap();
    let said = in_child(|| {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        let none = std::ptr::null();
        // SAFETY: all texts end with 0; the mounts belong to this process alone and end with it.
        let mounted = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(none, c"/".as_ptr(), none, private, none.cast()) == 0
                && libc::mount(
                    c"tmpfs".as_ptr(),
                    place.as_ptr(),
                    c"tmpfs".as_ptr(),
                    flags,
                    options.as_ptr().cast(),
                ) == 0
        };
        if mounted { task() } else { "no mount".into() }
    });
    let said = said.unwrap();
    if said == "no mount" {
        crate::skip::skip!("this test may not mount a file system");
        return None;
    }
    Some(said)
}

fn refusal(given: &[(&str, &str)]) -> String {
    match FileIo::prepare(&resolve(given), 1) {
        Ok(_) => "it was prepared".into(),
        Err(error) => error.to_string(),
    }
}

fn os(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

#[test]
fn the_work_of_seed_1_is_what_it_was() {
    // A change of these figures makes new recordings incomparable with old ones.
    let report = measured(&SPEC, &[("mib", "1"), ("ops", "1000")], 1).unwrap();
    let text: Vec<String> = report
        .invariants
        .iter()
        .map(|invariant| format!("{}={}", invariant.name, invariant.value))
        .collect();
    assert_eq!(
        text.join(" "),
        "op-stream-hash=6cfc1cd0d8d4ad23 ops-putc=167 ops-write=167 ops-rewrite=167 ops-getc=167 ops-read=166 \
         ops-seeks=166 bytes-written=4251648 bytes-read=5455872 \
         file-checksum=2548556420 page-faults-expected=0 page-faults=0"
    );
}

#[test]
fn each_phase_moves_what_it_says() {
    let block = 8192;
    for (phase, written, read) in [
        ("putc", 300, 0),
        ("write", 300, 0),
        ("rewrite", 300, 300),
        ("getc", 0, 300),
        ("read", 0, 300),
    ] {
        let given = [("phase", phase), ("mib", "1"), ("ops", "300")];
        let report = measured(&SPEC, &given, 1).unwrap();
        assert_eq!(value(&report, &format!("ops-{phase}")), "300");
        assert_eq!(value(&report, BYTES_WRITTEN), (written * block).to_string(), "{phase}");
        assert_eq!(value(&report, BYTES_READ), (read * block).to_string(), "{phase}");
        assert_eq!(value(&report, PAGE_FAULTS), "0", "{phase}");
    }
    let report = measured(&SPEC, &[("phase", "seeks"), ("mib", "1"), ("ops", "3000")], 1).unwrap();
    assert_eq!(value(&report, BYTES_READ), (3000 * block).to_string());
    let written: u64 = value(&report, BYTES_WRITTEN).parse().unwrap();
    assert!((written / block).abs_diff(300) < 60, "one in ten is written back: {written} bytes");
}

#[test]
fn putc_and_write_leave_the_same_file() {
    let checksum = |phase: &str| {
        let report = measured(&SPEC, &[("phase", phase), ("mib", "1"), ("ops", "200")], 4).unwrap();
        value(&report, "file-checksum").to_string()
    };
    assert_eq!(checksum("putc"), checksum("write"));
    // 128 blocks fit: the second round wrote only 72.
    assert_ne!(checksum("write"), checksum("rewrite"));
}

#[test]
fn the_same_seed_does_the_same_in_any_directory_and_another_does_not() {
    let folder = Folder::new("seeds");
    let given = [("mib", "1"), ("ops", "600")];
    let first = measured(&SPEC, &given, 1).unwrap();
    let elsewhere = [("mib", "1"), ("ops", "600"), ("dir", folder.path()), ("fsync", "on")];
    assert_eq!(first, measured(&SPEC, &elsewhere, 1).unwrap());
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "nothing is left behind");
    let other = measured(&SPEC, &given, 2).unwrap();
    for name in [OP_STREAM_HASH, "file-checksum"] {
        assert_ne!(value(&first, name), value(&other, name));
    }
}

#[test]
fn several_tasks_have_a_file_each() {
    for tasks in ["procs", "threads"] {
        let given = [("mib", "1"), ("ops", "60"), (tasks, "2"), ("oversubscribe", "on")];
        let report = measured(&SPEC, &given, 1).unwrap();
        assert_eq!((report.ops, value(&report, "ops-putc")), (Some(120), "10"), "{tasks}");
    }
}

#[test]
fn direct_moves_the_same_blocks_where_the_file_system_can() {
    let folder = Folder::new("direct");
    let given = [("mib", "1"), ("ops", "60"), ("dir", folder.path())];
    let direct = [&given[..], &[("direct", "on"), ("block", "8192")]].concat();
    match measured(&SPEC, &direct, 1) {
        Ok(report) => assert_eq!(report, measured(&SPEC, &given, 1).unwrap()),
        Err(refused) => {
            assert!(refused.contains(&format!("cannot use O_DIRECT in {}", folder.path())));
            crate::skip::skip!("{refused}");
        }
    }
}

#[test]
fn a_block_that_no_device_moves_is_refused() {
    // A file system on a device with 512-byte sectors accepts these blocks.
    let folder = Folder::new("unaligned");
    let said = refusal(&[("block", "512"), ("direct", "on"), ("dir", folder.path())]);
    if said == "it was prepared" {
        crate::skip::skip!("{} takes blocks of 512 bytes", folder.path());
        return;
    }
    let unaligned = format!(
        "cannot move a block of 512 bytes with O_DIRECT in {}: {}; it is no multiple of what the \
         device moves: use block=4096 or a multiple of it",
        folder.path(),
        os(libc::EINVAL)
    );
    let unsupported = format!("cannot use O_DIRECT in {}", folder.path());
    assert!(said == unaligned || said.starts_with(&unsupported), "{said}");
}

#[test]
fn a_file_system_without_direct_is_refused() {
    let folder = Folder::new("no-direct");
    let said = on_tmpfs(&folder, "size=4m", 0, || {
        refusal(&[("mib", "1"), ("direct", "on"), ("dir", folder.path())])
    });
    match said {
        Some(said) if said == "it was prepared" => {
            crate::skip::skip!("this kernel's tmpfs has O_DIRECT (Linux 6.6)");
        }
        Some(said) => assert_eq!(
            said,
            format!(
                "cannot use O_DIRECT in {}: {}; this file system has none (tmpfs before Linux \
                 6.6): use direct=off, or name another directory with 'dir'",
                folder.path(),
                os(libc::EINVAL)
            )
        ),
        None => {}
    }
}

#[test]
fn a_directory_that_is_none_is_refused() {
    let folder = Folder::new("none");
    let missing = format!("{}/missing", folder.path());
    let file = format!("{}/file", folder.path());
    fs::write(&file, "").unwrap();
    for (dir, errno, next) in [
        (&missing, libc::ENOENT, "make the directory, or name another with 'dir'"),
        (&file, libc::ENOTDIR, "name a directory with 'dir', not a file"),
    ] {
        let expected = format!("cannot make a file in {dir}: {}; {next}", os(errno));
        assert_eq!(refusal(&[("dir", dir)]), expected);
    }
    let proc = refusal(&[("dir", "/proc")]);
    assert!(proc.starts_with("cannot make a file in /proc: "), "{proc}");
    for dir in ["relative", "", "/a\nb"] {
        let given = [("dir".to_string(), dir.to_string())];
        let said = SPEC.resolve(&given).unwrap_err().to_string();
        assert!(said.ends_with("; accepted: an absolute path"), "{said}");
    }
    assert_eq!(resolve(&[("dir", "/tmp//")]).text("dir"), "/tmp");
    assert_eq!(resolve(&[("dir", "//")]).text("dir"), "/");
}

#[test]
fn a_read_only_directory_is_refused() {
    let folder = Folder::new("read-only");
    let given = [("dir", folder.path())];
    let Some(said) = on_tmpfs(&folder, "", libc::MS_RDONLY, || refusal(&given)) else { return };
    let expected = format!(
        "cannot make a file in {}: {}; its file system is read-only: name another directory with \
         'dir'",
        folder.path(),
        os(libc::EROFS)
    );
    assert_eq!(said, expected);
}

#[test]
fn too_little_room_is_refused_and_a_full_file_system_named() {
    let folder = Folder::new("room");
    let given = [("mib", "2"), ("dir", folder.path())];
    let Some(said) = on_tmpfs(&folder, "size=1m", 0, || refusal(&given)) else { return };
    let expected = format!(
        "{} has room for 1048576 bytes and the file needs 2097152; lower 'mib', make room, or name \
         another directory with 'dir'",
        folder.path()
    );
    assert_eq!(said, expected);
    let full = on_tmpfs(&folder, "size=1m,nr_inodes=1", 0, || refusal(&given)).unwrap();
    let expected = format!(
        "cannot make a file in {}: {}; it is full: make room, or name another directory with 'dir'",
        folder.path(),
        os(libc::ENOSPC)
    );
    assert_eq!(full, expected);
}

#[test]
fn a_file_system_that_fills_up_meanwhile_ends_the_work() {
    let folder = Folder::new("fills");
    let given = [("mib", "1"), ("phase", "write"), ("ops", "128"), ("dir", folder.path())];
    let said = on_tmpfs(&folder, "size=1m", 0, || {
        let mut work = FileIo::prepare(&resolve(&given), 1).unwrap();
        fs::write(format!("{}/other", folder.path()), vec![1; 512 << 10]).unwrap();
        work.work().unwrap_err().to_string()
    });
    let Some(said) = said else { return };
    assert_eq!(said, format!("operation 65 of 128: write failed: {}", os(libc::ENOSPC)));
}

#[test]
fn the_twin_counts_the_same_and_leaves_the_file_alone() {
    let said = in_child(|| {
        let mut work = FileIo::prepare(&resolve(&[("mib", "1"), ("ops", "400")]), 7).unwrap();
        work.warm_up().unwrap();
        work.twin();
        let empty = Blocks::none(128);
        work.file.verify(&empty, &work.pattern, &work.buffer).unwrap();
        work.work().unwrap();
        assert_eq!((work.twin_tally, &work.twin_blocks), (work.work_tally, &work.blocks));
        work.invariants().unwrap();
        work.twin_tally.hash ^= 1;
        work.invariants().unwrap_err().to_string()
    });
    assert!(said.unwrap().contains("this is a mistake in the workload"));
}

#[test]
fn what_was_changed_behind_its_back_is_found() {
    let said = in_child(|| {
        let given = [("mib", "1"), ("phase", "read"), ("ops", "256")];
        let mut work = FileIo::prepare(&resolve(&given), 1).unwrap();
        work.warm_up().unwrap();
        work.twin();
        work.work().unwrap();
        // Behind the stamp, so that only the check at the end can see the change.
        let other = work.file.handle().try_clone().unwrap();
        other.write_all_at(b"x", 3 * 8192 + 100).unwrap();
        let whole = work.invariants().unwrap_err().to_string();
        other.write_all_at(b"x", 5 * 8192).unwrap();
        let stamp = work.work().unwrap_err().to_string();
        other.set_len(8192).unwrap();
        let short = work.invariants().unwrap_err().to_string();
        format!("{whole}\n{stamp}\n{short}")
    });
    let said = said.unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("the file in /dev/shm differs in block 3 from what was written;"));
    assert!(lines[1].starts_with("operation 6 of 256: block 5 of the file reads 0x"));
    assert!(lines[2].starts_with("the file in /dev/shm has 8192 bytes instead of 1048576;"));
}
