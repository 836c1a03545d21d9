//! Clocks: the kernel's clocks, and the CPU's time stamp counter behind one signature.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod counter;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "absent.rs"]
mod counter;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod counter;

use std::mem::MaybeUninit;

/// Returns the nanoseconds of CLOCK_MONOTONIC: since some moment in the past, never set back (`clock_gettime(2)`).
pub fn monotonic_ns() -> u64 {
    get(libc::CLOCK_MONOTONIC)
}

/// Returns the nanoseconds since the Unix epoch by the system's clock (CLOCK_REALTIME); 0 if the clock is set to before 1970.
pub fn unix_ns() -> u64 {
    get(libc::CLOCK_REALTIME)
}

/// Returns the CPU time that a process has used so far, in nanoseconds (`clock_getcpuclockid(3)`); `None` if there is no such
/// process.
pub fn process_cpu_ns(pid: i32) -> Option<u64> {
    let mut clock = MaybeUninit::<libc::clockid_t>::uninit();
    // SAFETY: the pointer is to writable memory of the right type.
    if unsafe { libc::clock_getcpuclockid(pid, clock.as_mut_ptr()) } != 0 {
        return None;
    }
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the clock was filled in, since the call returned 0; the pointer is to writable memory.
    if unsafe { libc::clock_gettime(clock.assume_init(), time.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: clock_gettime filled the structure, since it returned 0.
    Some(nanoseconds(unsafe { time.assume_init() }))
}

fn nanoseconds(time: libc::timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + time.tv_nsec as u64
}

fn get(clock: libc::clockid_t) -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer is to writable memory of the right size and type.
    let result = unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
    // The only errors are a bad pointer and an unknown clock; both clocks always exist.
    assert_eq!(result, 0, "clock_gettime knows CLOCK_MONOTONIC and CLOCK_REALTIME");
    // SAFETY: clock_gettime filled the structure, since it returned 0.
    nanoseconds(unsafe { time.assume_init() })
}

/// Returns the ticks of the CPU's time stamp counter, read after all earlier and before all later instructions; `None` on an
/// architecture without a counter that programs may read.
///
/// The rate is constant on x86-64 if [`tsc_is_constant`] says so, and always on aarch64. It is not the
/// rate of the core's cycles.
#[inline(always)]
pub fn tsc() -> Option<u64> {
    counter::ticks()
}

/// Whether the time stamp counter of x86 ticks at one rate, whatever the core's frequency and sleep state.
///
/// `cpuinfo_flags` is the `flags` line of /proc/cpuinfo.
///
/// Source: Intel SDM vol. 3B, "Invariant TSC"; the flags as arch/x86/kernel/cpu sets them.
pub fn tsc_is_constant(cpuinfo_flags: &str) -> bool {
    let has = |name| cpuinfo_flags.split_whitespace().any(|flag| flag == name);
    has("constant_tsc") && has("nonstop_tsc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_never_run_backwards() {
        // 2020-01-01; this code did not exist earlier.
        assert!(unix_ns() > 1_577_836_800_000_000_000);
        let mut last = monotonic_ns();
        for _ in 0..1000 {
            let now = monotonic_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn the_counter_advances_where_there_is_one() {
        let has_counter = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        let start = tsc();
        assert_eq!(start.is_some(), has_counter);
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(tsc() != start, has_counter);
    }

    #[test]
    fn both_flags_are_needed_for_a_constant_rate() {
        assert!(tsc_is_constant("flags : fpu constant_tsc rep_good nonstop_tsc cpuid"));
        assert!(!tsc_is_constant("fpu tsc constant_tsc"));
        assert!(!tsc_is_constant("fpu tsc nonstop_tsc"));
        assert!(!tsc_is_constant("xconstant_tsc nonstop_tsc"));
        assert!(!tsc_is_constant(""));
    }

    #[test]
    fn a_process_has_used_what_its_work_took() {
        let own = std::process::id() as i32;
        let before = process_cpu_ns(own).unwrap();
        // The loop ends only if the clock sees the loop's own CPU time.
        while process_cpu_ns(own).unwrap() < before + 2_000_000 {}
        // A larger number than any process can have (proc_sys_kernel(5), pid_max).
        assert_eq!(process_cpu_ns((1 << 22) + 1), None);
    }
}
