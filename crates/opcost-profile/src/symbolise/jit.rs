//! Names code of just-in-time compilers by the map that they write for perf
//! (`tools/perf/Documentation/jit-interface.txt`).

use super::{Frame, Names, Why};
use opcost_symbols::demangle::{demangle, mangled};
use opcost_sys::{foreign_file, user};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The module of just-in-time compiled code.
pub(super) const MODULE: &str = "[jit]";

/// The longest map that is read; a large program's has some ten megabytes.
const MAP_BYTES_MAX: u64 = 128 << 20;

/// Names these addresses of a process.
pub(super) fn names(pid: i32, addresses: &[u64]) -> Names {
    match map(Path::new("/"), pid) {
        Some(map) => in_map(&map, addresses),
        None => Names::none(addresses.len(), Why::NoMap),
    }
}

/// Reads the map of a process. A container has its own files and its own number for the process, and
/// the map is named by this number. Both can be found while the process lives.
fn map(root: &Path, pid: i32) -> Option<Vec<u8>> {
    let process = root.join("proc").join(pid.to_string());
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    // Anybody may write to the folder, so another user's map may lie. The `/proc` entry of a process belongs to its effective user.
    let target = field("Uid:").and_then(|users| users.split_whitespace().next()?.parse().ok());
    let owners: Vec<u32> = [0, user::effective()].into_iter().chain(target).collect();
    // The interface fixes the folder.
    let read = |root: &Path, pid: i32| {
        let map = format!("tmp/perf-{pid}.map");
        foreign_file::read_below(root, Path::new(&map), &owners, MAP_BYTES_MAX).ok()
    };
    read(root, pid).or_else(|| {
        // The process's number in each namespace, the outermost first (proc_pid_status(5)).
        let inner = field("NSpid:")?.split_whitespace().next_back()?.parse().ok()?;
        read(&process.join("root"), inner)
    })
}

/// Parses a map: code at `addresses`, which ascend, by its start, with its end and name. Later lines replace earlier ones that
/// they overlap. Code elsewhere is not kept, since a map can have millions of lines.
fn parse<'m>(map: &'m [u8], addresses: &[u64]) -> BTreeMap<u64, (u64, Cow<'m, str>)> {
    let line = |line: &str| -> Option<(u64, u64)> {
        let mut fields = line.split_ascii_whitespace();
        let mut number = || u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok();
        Some((number()?, number()?))
    };
    let mut parts: BTreeMap<u64, (u64, Cow<'m, str>)> = BTreeMap::new();
    for bytes in map.split(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(bytes);
        let name = text.splitn(3, ' ').nth(2).unwrap_or_default().trim();
        let Some((start, bytes)) = line(&text).filter(|(_, bytes)| *bytes > 0) else { continue };
        let end = start.saturating_add(bytes);
        if name.is_empty() {
            continue;
        }
        let before = parts.range(..start).next_back().filter(|(_, (end, _))| *end > start);
        let replaced = before.into_iter().chain(parts.range(start..end)).map(|(at, _)| *at);
        for at in replaced.collect::<Vec<_>>() {
            parts.remove(&at);
        }
        let next = addresses.partition_point(|address| *address < start);
        if addresses.get(next).is_some_and(|address| *address < end) {
            let name = match &text {
                Cow::Borrowed(text) => {
                    Cow::Borrowed(text.splitn(3, ' ').nth(2).unwrap_or_default().trim())
                }
                Cow::Owned(_) => Cow::Owned(name.to_string()),
            };
            parts.insert(start, (end, name));
        }
    }
    parts
}

fn in_map(map: &[u8], addresses: &[u64]) -> Names {
    let parts = parse(map, addresses);
    let found = addresses.iter().map(|address| {
        let found = parts.range(..=address).next_back();
        found.filter(|(_, (end, _))| address < end)
    });
    let frame = |found: &Option<(&u64, &(u64, Cow<'_, str>))>| {
        let bytes = found.map(|(start, (end, _))| end - start);
        let symbol = found.map_or(Why::NoMap.symbol().into(), |(_, (_, name))| demangle(name));
        let mangled = found.and_then(|(_, (_, name))| mangled(name, &symbol));
        Frame { bytes, mangled, ..Frame::new(symbol) }
    };
    Names::grouped(found, frame, Why::NoMap)
}

#[cfg(test)]
mod tests {
    use super::super::Stack;
    use super::*;

    #[test]
    fn a_process_in_a_container_has_the_map_of_its_number_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/41/status", "Name:\tnode\nNSpid:\t41\t7\n");
        assert_eq!(map(root, 41), None);
        write("proc/41/root/tmp/perf-7.map", "inner");
        // Inside the container, another process has the number that this process has outside.
        write("proc/41/root/tmp/perf-41.map", "of another");
        assert_eq!(map(root, 41).as_deref(), Some(&b"inner"[..]));
        write("tmp/perf-41.map", "outer");
        assert_eq!(map(root, 41).as_deref(), Some(&b"outer"[..]));
        assert_eq!(map(root, 42), None);
        // A link of the container's leads to a file of the container's, and a pipe or a device is not opened.
        fs::remove_file(root.join("tmp/perf-41.map")).unwrap();
        fs::remove_file(root.join("proc/41/root/tmp/perf-7.map")).unwrap();
        let link = |to: &str| {
            let link = root.join("proc/41/root/tmp/perf-7.map");
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(to, link).unwrap();
            map(root, 41)
        };
        assert_eq!(link("/dev/zero"), None);
        assert_eq!(link("/etc/passwd"), None);
        write("proc/41/root/etc/passwd", "of the container");
        assert_eq!(link("/etc/passwd").as_deref(), Some(&b"of the container"[..]));
        let made = std::process::Command::new("mkfifo").arg(root.join("tmp/perf-41.map")).status();
        assert!(made.unwrap().success());
        assert_eq!(link("nothing"), None);
    }

    #[test]
    fn the_code_that_was_made_last_has_its_address() {
        let map =
            "1000 80 Interpreter\n2000 100 one stub\n2000 40 LazyCompile:*f app.js:3\nrubbish\n";
        let names = in_map(map.as_bytes(), &[0x1000, 0x107f, 0x1080, 0x2010, 0x2050]);
        let shown = |stack: &Stack| &names.frames[stack.function as usize];
        let symbols: Vec<&str> =
            names.stacks.iter().map(|stack| shown(stack).symbol.as_str()).collect();
        let expected =
            ["Interpreter", "Interpreter", "[no map]", "LazyCompile:*f app.js:3", "[no map]"];
        assert_eq!(symbols, expected);
        assert_eq!(shown(&names.stacks[3]).bytes, Some(0x40));
    }
}
