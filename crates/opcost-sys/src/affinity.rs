//! The CPUs on which a thread may run (`sched_setaffinity(2)`).

use std::io;

/// A set of CPUs in the kernel's form: bit `n % 64` of word `n / 64` is CPU `n`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct CpuMask {
    words: Vec<u64>,
}

impl CpuMask {
    /// Returns the set of one CPU.
    pub(crate) fn of(cpu: usize) -> Self {
        let mut words = vec![0; cpu / 64 + 1];
        words[cpu / 64] = 1 << (cpu % 64);
        CpuMask { words }
    }

    pub(crate) fn as_ptr(&self) -> *const u64 {
        self.words.as_ptr()
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    fn cpus(&self) -> Vec<usize> {
        let bits = 0..self.words.len() * 64;
        bits.filter(|cpu| self.words[cpu / 64] >> (cpu % 64) & 1 == 1).collect()
    }
}

/// Largest accepted CPU number, so that a bad number allocates nothing. Linux is built for at most 8192 CPUs (CONFIG_NR_CPUS).
pub const CPU_MAX: usize = (1 << 16) - 1;

/// Returns the CPUs on which the calling thread may run, in ascending order.
///
/// # Errors
/// The kernel's error, unchanged.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mut words = 16;
    loop {
        let mut mask = CpuMask { words: vec![0; words] };
        // SAFETY: the kernel writes at most `bytes` into memory of that size.
        let result =
            unsafe { libc::sched_getaffinity(0, mask.bytes(), mask.words.as_mut_ptr().cast()) };
        if result == 0 {
            return Ok(mask.cpus());
        }
        let error = io::Error::last_os_error();
        // EINVAL: the kernel's own mask is larger than this one.
        if error.raw_os_error() != Some(libc::EINVAL) || words * 64 > CPU_MAX {
            return Err(error);
        }
        words *= 2;
    }
}

/// Reads CPUs as the kernel lists them: `0-3,8`, or nothing.
///
/// Returns them in ascending order; `None` if the text is no such list.
pub fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse().ok()?, last.parse::<usize>().ok()?);
        if last > CPU_MAX || first > last {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Keeps the calling thread, and every thread and process that it starts later, on one CPU.
///
/// # Errors
/// EINVAL if the CPU does not exist or is not allowed to this process (its cpuset).
pub fn set_affinity(cpu: usize) -> io::Result<()> {
    if cpu > CPU_MAX {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mask = CpuMask::of(cpu);
    // SAFETY: the kernel reads `bytes` from memory of that size.
    match unsafe { libc::sched_setaffinity(0, mask.bytes(), mask.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_hold_the_cpu_they_are_made_of() {
        for cpu in [0, 1, 63, 64, 1023, CPU_MAX] {
            assert_eq!(CpuMask::of(cpu).cpus(), [cpu]);
        }
        assert_eq!(CpuMask::of(64).bytes(), 16);
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_cpu_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_cpu_list("\n"), Some(vec![]));
        for broken in ["a", "3-1", "0-", "1-65536", "(null)"] {
            assert_eq!(parse_cpu_list(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_thread_stays_on_the_cpu_it_is_set_to() {
        // Affinity is per thread; this one ends with the test.
        let in_thread = std::thread::spawn(|| {
            let last = *allowed_cpus().unwrap().last().unwrap();
            set_affinity(last).unwrap();
            (last, allowed_cpus().unwrap())
        });
        let (cpu, allowed) = in_thread.join().unwrap();
        assert_eq!(allowed, [cpu]);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        for cpu in [CPU_MAX, CPU_MAX + 1, usize::MAX] {
            let error = set_affinity(cpu).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        }
    }
}
