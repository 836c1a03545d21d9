//! The processes, and their mappings, that existed before sampling began, read from procfs.

use opcost_profile::event::{Event, Mapping};
use opcost_profile::symbolise::running_build_id;
use std::fs;
use std::path::Path;

/// Reports the kernel's build id, and the names and mappings of these processes. Processes that cannot be read, or that end
/// meanwhile, are skipped.
pub fn report(proc_root: &Path, pids: &[i32], mut take: impl FnMut(&Event<'_>)) {
    if let Some(id) = running_build_id() {
        take(&Event::Mapping(Mapping {
            pid: -1,
            address: 1 << 63,
            bytes: 1 << 62,
            file_offset: 0,
            path: b"[kernel.kallsyms]",
            build_id: Some(&id),
            executable: true,
        }));
    }
    for pid in pids {
        let folder = proc_root.join(pid.to_string());
        if let Ok(name) = fs::read(folder.join("comm")) {
            let name = name.strip_suffix(b"\n").unwrap_or(&name);
            take(&Event::Name { pid: *pid, tid: *pid, name, exec: false });
        }
        // Read as bytes, since a path need not be text.
        let maps = fs::read(folder.join("maps")).unwrap_or_default();
        for line in maps.split(|byte| *byte == b'\n') {
            if let Some(mapping) = mapping(*pid, line) {
                take(&Event::Mapping(mapping));
            }
        }
    }
}

/// The numbers of all processes.
pub fn processes(proc_root: &Path) -> Vec<i32> {
    numbers(proc_root)
}

/// The threads of a process; empty if there is no such process.
pub fn threads(proc_root: &Path, pid: i32) -> Vec<i32> {
    numbers(&proc_root.join(pid.to_string()).join("task"))
}

fn numbers(folder: &Path) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Parses a line of `/proc/PID/maps` (`proc_pid_maps(5)`), if it maps code: `start-end rwxp offset device inode path`.
fn mapping(pid: i32, line: &[u8]) -> Option<Mapping<'_>> {
    let mut rest = line;
    let mut field = || {
        let start = rest.iter().position(|byte| *byte != b' ')?;
        let end = rest[start..].iter().position(|byte| *byte == b' ');
        let end = end.map_or(rest.len(), |length| start + length);
        let (field, behind) = (&rest[start..end], &rest[end..]);
        rest = behind;
        str::from_utf8(field).ok()
    };
    let (range, rights, offset) = (field()?, field()?, field()?);
    let (_device, _inode) = (field()?, field()?);
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (address, end) = (number(start)?, number(end)?);
    rights.contains('x').then_some(())?;
    let path = rest.iter().position(|byte| *byte != b' ').map_or(&[][..], |start| &rest[start..]);
    Some(Mapping {
        pid,
        address,
        bytes: end.checked_sub(address)?,
        file_offset: number(offset)?,
        path,
        build_id: None,
        executable: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line = b"7f0000001000-7f0000003000 r-xp 00002000 fe:00 1234   /lib/a file.so";
        let expected = Mapping {
            pid: 7,
            address: 0x7f00_0000_1000,
            bytes: 0x2000,
            file_offset: 0x2000,
            path: b"/lib/a file.so",
            build_id: None,
            executable: true,
        };
        assert_eq!(mapping(7, line), Some(expected));
        let anonymous = mapping(7, b"1000-2000 rwxp 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.path, anonymous.bytes), (&b""[..], 0x1000));
        assert_eq!(mapping(7, b"1000-2000 rw-p 00000000 00:00 0 [heap]"), None);
        for line in ["", "1000", "1000-2000 r-xp", "x-y r-xp 0 0 0 a", "2000-1000 r-xp 0 0:0 0 a"] {
            assert_eq!(mapping(7, line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn this_process_is_told() {
        let pid = std::process::id() as i32;
        let (mut names, mut mapped) = (Vec::new(), Vec::new());
        report(Path::new("/proc"), &[pid, -5], |event| match event {
            Event::Name { name, .. } => names.push(name.to_vec()),
            Event::Mapping(mapping) => {
                mapped.push(String::from_utf8_lossy(mapping.path).into_owned())
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(names.len(), 1);
        let own = std::env::current_exe().unwrap();
        assert!(mapped.contains(&own.to_string_lossy().into_owned()), "{mapped:?}");
        assert!(threads(Path::new("/proc"), pid).contains(&pid));
        assert!(processes(Path::new("/proc")).contains(&pid));
        assert!(threads(Path::new("/proc"), -5).is_empty());
    }
}
