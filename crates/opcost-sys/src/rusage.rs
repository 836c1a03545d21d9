//! Resource use of this process and of waited-for children (`getrusage(2)`).

use std::io;
use std::mem::MaybeUninit;

/// The resources that the kernel charged to one or more processes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Rusage {
    /// User CPU time, nanoseconds (the kernel gives microseconds).
    pub user_ns: u64,
    /// System CPU time, nanoseconds (the kernel gives microseconds).
    pub system_ns: u64,
    /// Largest resident set of any one of the processes, bytes.
    pub rss_bytes_max: u64,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that waited for I/O.
    pub major_faults: u64,
    /// Context switches because a task waited.
    pub voluntary_switches: u64,
    /// Context switches because another task ran.
    pub involuntary_switches: u64,
    /// Bytes that were fetched from storage, in whole sectors.
    pub storage_read_bytes: u64,
    /// Bytes that were to be written to storage, in whole sectors.
    pub storage_write_bytes: u64,
}

/// The sectors in which the kernel tells of storage, whatever the disk's own are (`struct rusage`, since Linux 2.6.22).
const SECTOR_BYTES: u64 = 512;

impl Rusage {
    /// Returns the used resources by the names of the metrics (`METRICS`), without the peak resident set, which is no sum.
    pub fn figures(&self) -> [(&'static str, u64); 8] {
        [
            ("user-time", self.user_ns),
            ("system-time", self.system_ns),
            ("minor-faults", self.minor_faults),
            ("major-faults", self.major_faults),
            ("voluntary-switches", self.voluntary_switches),
            ("involuntary-switches", self.involuntary_switches),
            ("storage-reads", self.storage_read_bytes),
            ("storage-writes", self.storage_write_bytes),
        ]
    }

    /// Returns the resources used since `start`; the peak resident set is the one at the end.
    pub fn since(&self, start: &Rusage) -> Rusage {
        Rusage {
            user_ns: self.user_ns.saturating_sub(start.user_ns),
            system_ns: self.system_ns.saturating_sub(start.system_ns),
            rss_bytes_max: self.rss_bytes_max,
            minor_faults: self.minor_faults - start.minor_faults,
            major_faults: self.major_faults - start.major_faults,
            voluntary_switches: self.voluntary_switches - start.voluntary_switches,
            involuntary_switches: self.involuntary_switches - start.involuntary_switches,
            storage_read_bytes: self.storage_read_bytes - start.storage_read_bytes,
            storage_write_bytes: self.storage_write_bytes - start.storage_write_bytes,
        }
    }

    /// Converts the kernel's structure.
    pub fn from_kernel(raw: &libc::rusage) -> Rusage {
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Rusage {
            user_ns: ns(raw.ru_utime),
            system_ns: ns(raw.ru_stime),
            rss_bytes_max: raw.ru_maxrss as u64 * 1024,
            minor_faults: raw.ru_minflt as u64,
            major_faults: raw.ru_majflt as u64,
            voluntary_switches: raw.ru_nvcsw as u64,
            involuntary_switches: raw.ru_nivcsw as u64,
            storage_read_bytes: raw.ru_inblock as u64 * SECTOR_BYTES,
            storage_write_bytes: raw.ru_oublock as u64 * SECTOR_BYTES,
        }
    }
}

/// Returns the resource use of the calling process so far, over all its threads.
pub fn of_self() -> io::Result<Rusage> {
    get(libc::RUSAGE_SELF)
}

/// Returns the resource use of the calling thread so far; the peak resident set is its process's.
pub fn of_thread() -> io::Result<Rusage> {
    get(libc::RUSAGE_THREAD)
}

/// Returns the resource use of all children that were waited for so far.
pub fn of_children() -> io::Result<Rusage> {
    get(libc::RUSAGE_CHILDREN)
}

fn get(who: libc::c_int) -> io::Result<Rusage> {
    let mut raw = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to writable memory of the right size and type.
    if unsafe { libc::getrusage(who, raw.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: getrusage filled the structure, since it returned 0.
    Ok(Rusage::from_kernel(&unsafe { raw.assume_init() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_fresh_pages_is_counted() {
        let before = of_self().unwrap();
        // Larger than malloc's mmap threshold, so the pages are fresh.
        let bytes = vec![1u8; 16 << 20];
        let used = of_self().unwrap().since(&before);
        assert!(bytes.iter().all(|byte| *byte == 1));
        assert!(used.minor_faults > 0, "{used:?}");
        assert!(used.rss_bytes_max >= 16 << 20);
    }

    #[test]
    fn what_is_written_to_storage_is_counted() {
        let own_io = || -> Option<(u64, u64)> {
            let text = std::fs::read_to_string("/proc/self/io").ok()?;
            let of = |name: &str| {
                text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            };
            Some((of("read_bytes:")?, of("write_bytes:")?))
        };
        // Memory file systems have no storage, and small kernels no such accounting.
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let before = of_self().unwrap();
        let io_before = own_io();
        std::io::Write::write_all(&mut file, &[1; 1 << 20]).unwrap();
        let (io_after, used) = (own_io(), of_self().unwrap().since(&before));
        let (Some(before), Some(after)) = (io_before, io_after) else { return };
        // Other tests of this process write and read meanwhile.
        assert!(used.storage_write_bytes >= after.1 - before.1, "{used:?} {before:?} {after:?}");
        assert!(used.storage_read_bytes >= after.0 - before.0, "{used:?} {before:?} {after:?}");
    }

    #[test]
    fn what_another_thread_touches_is_not_this_ones() {
        let before = of_thread().unwrap();
        let others = std::thread::scope(|scope| {
            let touch = || {
                let before = of_thread().unwrap();
                std::hint::black_box(vec![1u8; 16 << 20]);
                of_thread().unwrap().since(&before).minor_faults
            };
            scope.spawn(touch).join().unwrap()
        });
        assert!(others > 0);
        // 16 MiB are 4096 pages of normal size, or fewer huge pages.
        assert!(of_thread().unwrap().since(&before).minor_faults < 4096);
    }
}
