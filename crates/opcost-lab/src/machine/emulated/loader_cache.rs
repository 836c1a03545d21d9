//! Reduces the cache in which glibc's loader looks up libraries to the libraries that the guest has: the time
//! of a look-up must not depend on other libraries of this machine (glibc's `sysdeps/generic/dl-cache.h`).

use std::collections::BTreeMap;

/// The start of a cache without the format of glibc before 2.2; ldconfig has left that format out since 2.32.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;
/// `cache_extension_magic`.
const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
/// `cache_extension_tag_glibc_hwcaps`: names of folders for more capable CPUs.
const TAG_HWCAPS: u32 = 1;
/// `DL_CACHE_HWCAP_EXTENSION`: the lower half of the word is an index into these names.
const OF_EXTENSION: u64 = 1 << 62;

/// The cache's entry of a library.
struct Entry<'a> {
    flags: u32,
    name: &'a [u8],
    path: &'a [u8],
    os_version: u32,
    hwcap: u64,
}

/// Returns a cache with only those libraries whose paths `keep` accepts, in the same order.
///
/// `contents`: a little-endian cache file; `None` if the file has another format or is damaged.
pub(super) fn cut_down(contents: &[u8], keep: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    if !contents.starts_with(MAGIC) {
        return None;
    }
    let hwcaps = hwcaps(contents)?;
    let count = u32_at(contents, 20)? as usize;
    let mut entries = Vec::new();
    for index in 0..count {
        let at = HEADER_BYTES.checked_add(index.checked_mul(ENTRY_BYTES)?)?;
        let text = |offset| text_at(contents, u32_at(contents, at + offset)? as usize);
        let entry = Entry {
            flags: u32_at(contents, at)?,
            name: text(4)?,
            path: text(8)?,
            os_version: u32_at(contents, at + 12)?,
            hwcap: u64::from(u32_at(contents, at + 16)?)
                | u64::from(u32_at(contents, at + 20)?) << 32,
        };
        if keep(entry.path) {
            entries.push(entry);
        }
    }
    write(&entries, &hwcaps)
}

fn write(entries: &[Entry<'_>], hwcaps: &[&[u8]]) -> Option<Vec<u8>> {
    let of_extension = |entry: &Entry<'_>| entry.hwcap & OF_EXTENSION != 0;
    let mut used: Vec<u32> = entries
        .iter()
        .filter(|entry| of_extension(entry))
        .map(|entry| entry.hwcap as u32)
        .collect();
    used.sort_unstable();
    used.dedup();
    let mut strings = Strings {
        bytes: Vec::new(),
        begin: HEADER_BYTES + entries.len() * ENTRY_BYTES,
        known: BTreeMap::new(),
    };
    let mut body = Vec::new();
    for entry in entries {
        let name = strings.offset(entry.name)?;
        let path = strings.offset(entry.path)?;
        let hwcap = match of_extension(entry) {
            true => OF_EXTENSION | used.binary_search(&(entry.hwcap as u32)).ok()? as u64,
            false => entry.hwcap,
        };
        for word in [entry.flags, name, path, entry.os_version] {
            body.extend(word.to_le_bytes());
        }
        body.extend(hwcap.to_le_bytes());
    }
    let mut names = Vec::new();
    for index in &used {
        let name = hwcaps.get(*index as usize)?;
        names.extend(strings.offset(name)?.to_le_bytes());
    }
    let length = |bytes: usize| u32::try_from(bytes).ok().map(u32::to_le_bytes);
    let extension_at = (strings.begin + strings.bytes.len()).next_multiple_of(4);
    let mut file = MAGIC.to_vec();
    file.extend(length(entries.len())?);
    file.extend(length(strings.bytes.len())?);
    // The flags: little endian.
    file.extend([2, 0, 0, 0]);
    file.extend(length(if used.is_empty() { 0 } else { extension_at })?);
    file.resize(HEADER_BYTES, 0);
    file.extend(body);
    file.extend(strings.bytes);
    if !used.is_empty() {
        file.resize(extension_at, 0);
        let at = length(extension_at + 24)?;
        for word in [EXTENSION_MAGIC, 1, TAG_HWCAPS, 0] {
            file.extend(word.to_le_bytes());
        }
        file.extend(at);
        file.extend(length(names.len())?);
        file.extend(names);
    }
    Some(file)
}

/// NUL-terminated texts, each stored once.
struct Strings<'a> {
    bytes: Vec<u8>,
    /// Their start in the file.
    begin: usize,
    known: BTreeMap<&'a [u8], u32>,
}

impl<'a> Strings<'a> {
    /// The offset of a text in the file.
    fn offset(&mut self, text: &'a [u8]) -> Option<u32> {
        if let Some(known) = self.known.get(text) {
            return Some(*known);
        }
        let offset = u32::try_from(self.begin + self.bytes.len()).ok()?;
        self.bytes.extend(text);
        self.bytes.push(0);
        self.known.insert(text, offset);
        Some(offset)
    }
}

/// The names of folders for more capable CPUs.
fn hwcaps(contents: &[u8]) -> Option<Vec<&[u8]>> {
    let extension = u32_at(contents, 32)? as usize;
    if extension == 0 {
        return Some(Vec::new());
    }
    if u32_at(contents, extension)? != EXTENSION_MAGIC {
        return None;
    }
    let sections = u32_at(contents, extension.checked_add(4)?)? as usize;
    for section in 0..sections {
        let at = extension.checked_add(8)?.checked_add(section.checked_mul(16)?)?;
        if u32_at(contents, at)? != TAG_HWCAPS {
            continue;
        }
        let (begin, bytes) = (u32_at(contents, at + 8)? as usize, u32_at(contents, at + 12)?);
        let name = |index| {
            text_at(contents, u32_at(contents, begin.checked_add(4 * index as usize)?)? as usize)
        };
        return (0..bytes / 4).map(name).collect();
    }
    Some(Vec::new())
}

fn u32_at(contents: &[u8], at: usize) -> Option<u32> {
    let bytes = contents.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn text_at(contents: &[u8], at: usize) -> Option<&[u8]> {
    contents.get(at..)?.split(|byte| *byte == 0).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::process::Command;

    fn entry<'a>(name: &'a str, path: &'a str, hwcap: u64) -> Entry<'a> {
        let (name, path) = (name.as_bytes(), path.as_bytes());
        Entry { flags: 0x303, name, path, os_version: 0, hwcap }
    }

    fn made() -> Vec<u8> {
        let entries = [
            entry("libz.so.1", "/lib/v3/libz.so.1", OF_EXTENSION | 1),
            entry("libz.so.1", "/lib/v2/libz.so.1", OF_EXTENSION),
            entry("libz.so.1", "/lib/libz.so.1", 0),
            entry("libc.so.6", "/lib/libc.so.6", 0),
        ];
        write(&entries, &[b"x86-64-v2", b"x86-64-v3"]).unwrap()
    }

    #[test]
    fn what_is_not_in_the_guest_leaves_no_trace() {
        let of = |keep: &[&[u8]]| cut_down(&made(), |path| keep.contains(&path)).unwrap();
        assert_eq!(cut_down(&made(), |_| true).unwrap(), made());
        let alone = write(&[entry("libc.so.6", "/lib/libc.so.6", 0)], &[]).unwrap();
        assert_eq!(of(&[b"/lib/libc.so.6"]), alone);
        assert_eq!(of(&[]), write(&[], &[]).unwrap());
        // The index of a folder's name refers to the remaining names.
        let third = entry("libz.so.1", "/lib/v3/libz.so.1", OF_EXTENSION);
        assert_eq!(of(&[b"/lib/v3/libz.so.1"]), write(&[third], &[b"x86-64-v3"]).unwrap());
    }

    #[test]
    fn ldconfig_reads_what_is_written() {
        let Ok(here) = fs::read("/etc/ld.so.cache") else {
            crate::skip::skip!("no /etc/ld.so.cache here");
            return;
        };
        let Some(cut) = cut_down(&here, |path| path.ends_with(b"/libc.so.6")) else {
            crate::skip::skip!("/etc/ld.so.cache here is of another format");
            return;
        };
        for (cache, others) in [(cut, false), (made(), true)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("cache");
            fs::write(&path, &cache).unwrap();
            let mut ldconfig = Command::new("/sbin/ldconfig");
            let Ok(output) = ldconfig.arg("-C").arg(&path).arg("-p").output() else {
                crate::skip::skip!("no /sbin/ldconfig here");
                return;
            };
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains("libc.so.6 (libc6,x86-64"), "{text}");
            let named = r#"libz.so.1 (libc6,x86-64, hwcap: "x86-64-v3") => /lib/v3/libz.so.1"#;
            assert_eq!(text.contains(named), others, "{text}");
        }
    }

    #[test]
    fn another_format_is_left_alone() {
        assert_eq!(cut_down(b"ld.so-1.7.0\0and so on", |_| true), None);
        assert_eq!(cut_down(b"", |_| true), None);
        let whole = made();
        let short = (0..whole.len() - 8).filter(|end| cut_down(&whole[..*end], |_| true).is_some());
        // A file that is cut within the strings is accepted if its texts still end.
        assert!(short.clone().all(|end| end > HEADER_BYTES + 4 * ENTRY_BYTES), "{short:?}");
    }

    proptest! {
        #[test]
        fn damage_is_no_panic(at in 0..200_usize, byte: u8, keep: bool) {
            let mut file = made();
            if let Some(damaged) = file.get_mut(at) {
                *damaged = byte;
            }
            cut_down(&file, |_| keep);
        }
    }
}
