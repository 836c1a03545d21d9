//! The file systems that programs expect, on top of the initramfs.

use rustix::mount::{MountFlags, mount};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Type and mount point of each file system.
const MOUNTS: [(&str, &str); 5] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/dev/shm"),
    ("tmpfs", "/tmp"),
];

/// Links that programs expect in /dev and that devtmpfs does not have.
const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Mounts the file systems that the kernel has. Returns the failed mounts with the reasons.
///
/// The guest also works without some of them: device nodes are in the initramfs, too.
pub(crate) fn make() -> Vec<String> {
    let mut odd = Vec::new();
    for (kind, place) in MOUNTS {
        // This fails if the folder exists already, as it should.
        let _ = fs::create_dir(place);
        // Files packed into /tmp must stay visible; the initramfs is writable, too.
        if kind == "tmpfs" && !is_empty(place) {
            continue;
        }
        if let Err(error) = mount(kind, place, kind, MountFlags::empty(), None) {
            odd.push(format!("cannot mount {kind} on {place}: {error}"));
        }
    }
    for (target, link) in LINKS {
        // Programs that need a missing link report the error.
        let _ = symlink(target, link);
    }
    odd
}

fn is_empty(folder: &str) -> bool {
    fs::read_dir(Path::new(folder)).is_ok_and(|mut entries| entries.next().is_none())
}
