//! System calls without the C library, for a child that shares its parent's memory.
//!
//! The C library's wrappers write `errno`, which is thread-local. Such a child has its parent's thread pointer and would write the
//! parent's `errno`. The functions here return the error instead.

/// Whether a child may share this process's memory: only where system calls can be made without `errno`.
pub(crate) const MEMORY_IS_SHARED: bool =
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Makes a system call; returns its result, or its error number.
///
/// # Safety
/// The arguments must be valid for the call: pointers to memory that the call may read or write.
pub(crate) unsafe fn call<const N: usize>(
    number: libc::c_long,
    arguments: [usize; N],
) -> Result<usize, i32> {
    let mut all = [0; 6];
    let mut index = 0;
    // A loop instead of copy_from_slice: no call into the C library, and no possible panic.
    while index < N && index < 6 {
        all[index] = arguments[index];
        index += 1;
    }
    // SAFETY: as the caller promises.
    let result = unsafe { raw(number, all) };
    // Errors are -4095 to -1 (include/linux/err.h, MAX_ERRNO).
    if (-4095..0).contains(&result) { Err(-result as i32) } else { Ok(result as usize) }
}

#[cfg(target_arch = "x86_64")]
unsafe fn raw(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the registers of the x86-64 system call convention; SYSCALL itself overwrites rcx and r11 (System V ABI, AMD64
    // supplement, A.2.1). The caller is responsible for the memory that the call touches.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
unsafe fn raw(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the registers of the arm64 system call convention (syscall(2)); all others are kept. The caller is responsible for
    // the memory that the call touches.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a[0] => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn raw(number: libc::c_long, a: [usize; 6]) -> isize {
    // SAFETY: as the caller promises; on these architectures the child has its own memory, and therefore its own errno.
    unsafe {
        match libc::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) {
            -1 => -(*libc::__errno_location() as isize),
            result => result as isize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors_are_told_apart() {
        // SAFETY: neither call touches memory.
        let (pid, error) =
            unsafe { (call(libc::SYS_getpid, []), call(libc::SYS_close, [usize::MAX])) };
        assert_eq!(pid, Ok(std::process::id() as usize));
        assert_eq!(error, Err(libc::EBADF));
    }

    #[test]
    fn all_six_arguments_arrive() {
        let length = 4096;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        // SAFETY: makes and removes a new private mapping, which nothing else knows.
        unsafe {
            // The last argument, the offset, must be a multiple of the page size.
            let odd = call(libc::SYS_mmap, [0, length, 1, flags, usize::MAX, 1]);
            assert_eq!(odd, Err(libc::EINVAL));
            let page = call(libc::SYS_mmap, [0, length, 1, flags, usize::MAX, 0]).unwrap();
            assert_eq!(call(libc::SYS_munmap, [page, length]), Ok(0));
        }
    }
}
