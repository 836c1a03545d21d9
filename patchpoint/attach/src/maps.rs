//! `/proc/PID/maps` (proc_pid_maps(5)).

/// One mapping of a file into a process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Whether the mapping is executable.
    pub executable: bool,
    /// The mapping's first byte as an offset in the file, bytes.
    pub offset_bytes: u64,
    /// The file's inode number on its device.
    pub inode: u64,
    /// The file's path in the process; the path of a removed file ends with ` (deleted)`.
    pub path: String,
}

/// Parses the mappings of files; other lines are left out.
pub fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(5, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let offset_bytes = u64::from_str_radix(words.next()?, 16).ok()?;
    let _device = words.next()?;
    // The inode, then spaces to a column, then the path, which may hold spaces.
    let (inode, path) = words.next()?.split_once(' ')?;
    let path = path.trim_start();
    path.starts_with('/').then_some(())?;
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        executable: rights.as_bytes().get(2) == Some(&b'x'),
        offset_bytes,
        inode: inode.parse().ok()?,
        path: path.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_files_are_read_and_others_left_out() {
        let text = "\
55d0c0de1000-55d0c0de2000 r-xp 00001000 fe:00 123456                     /opt/a program
7ffd1000-7ffd3000 rw-p 00000000 00:00 0                                  [stack]
7f00-7f10 r--p 00000000 fe:00 7                                          /lib/x.so (deleted)
7f20-7f30 rw-p 00000000 00:00 0
nonsense
";
        let mapped = parse(text);
        assert_eq!(mapped.len(), 2);
        assert_eq!(
            mapped[0],
            Mapping {
                start: 0x55d0_c0de_1000,
                end: 0x55d0_c0de_2000,
                executable: true,
                offset_bytes: 0x1000,
                inode: 123_456,
                path: "/opt/a program".into()
            }
        );
        assert_eq!((mapped[1].path.as_str(), mapped[1].executable), ("/lib/x.so (deleted)", false));
    }
}
