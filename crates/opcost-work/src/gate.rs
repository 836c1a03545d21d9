//! The way into the kernel, and the empty way that stands in for it in a twin.
//!
//! The instruction is written here and not taken from a C library, so that the host's and the
//! guest's programs (glibc, musl) execute the same code.

use crate::unrolled::ready;

/// Entering the kernel and touching memory, or all of it but that.
pub(crate) trait Gate {
    /// Whether operations are done; false where only the loop around them is.
    const WORKS: bool;

    /// Performs one system call, or only has its arguments computed.
    ///
    /// `number` and `arguments` as the kernel takes them; `expected`: the result the caller
    /// counts on, which is what an empty gate returns. Result: the kernel's register value,
    /// `-errno` for an error.
    ///
    /// # Safety
    /// The caller keeps whatever the system call could break: it changes only memory that
    /// nothing else refers to.
    unsafe fn call(number: usize, arguments: [usize; 6], expected: usize) -> usize;

    /// Writes one byte at `address`, or only has the address ready.
    ///
    /// # Safety
    /// `address` is in a writable mapping that nothing else refers to.
    unsafe fn touch(address: usize);

    /// What was `found` in memory that the kernel wrote to; from an empty gate, behind which
    /// nothing was written, what was `expected` there.
    fn found(found: u64, expected: u64) -> u64;
}

/// Enters the kernel and touches memory.
pub(crate) struct Kernel;

/// Does neither: what remains is the cost of the loop around it.
pub(crate) struct Nothing;

impl Gate for Kernel {
    const WORKS: bool = true;

    #[inline(always)]
    unsafe fn call(number: usize, arguments: [usize; 6], _expected: usize) -> usize {
        // SAFETY: the caller keeps the contract of this method.
        unsafe { enter(number, arguments) }
    }

    #[inline(always)]
    unsafe fn touch(address: usize) {
        // SAFETY: the caller says that the address is writable and its own.
        unsafe { (address as *mut u8).write_volatile(1) }
    }

    #[inline(always)]
    fn found(found: u64, _expected: u64) -> u64 {
        found
    }
}

impl Gate for Nothing {
    const WORKS: bool = false;

    #[inline(always)]
    unsafe fn call(_: usize, arguments: [usize; 6], expected: usize) -> usize {
        stop_short(arguments, expected)
    }

    #[inline(always)]
    unsafe fn touch(address: usize) {
        ready(address);
    }

    #[inline(always)]
    fn found(found: u64, expected: u64) -> u64 {
        ready(found as usize);
        expected
    }
}

// Linux clobbers rcx and r11 only (x86-64 psABI, A.2.1).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn enter(number: usize, arguments: [usize; 6]) -> usize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: clobbers are declared, the stack is not used; what the call does to memory is the
    // caller's promise.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

// Linux keeps every register but x0 (Documentation/arch/arm64, entry.S kernel_exit).
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn enter(number: usize, arguments: [usize; 6]) -> usize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: clobbers are declared, the stack is not used; what the call does to memory is the
    // caller's promise.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
unsafe fn enter(number: usize, arguments: [usize; 6]) -> usize {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: what the call does to memory is the caller's promise.
    let result = unsafe { libc::syscall(number as libc::c_long, a, b, c, d, e, f) };
    match result {
        -1 => {
            // SAFETY: the C library's errno of this thread is always readable.
            let errno = unsafe { *libc::__errno_location() };
            (-errno as isize) as usize
        }
        _ => result as usize,
    }
}

/// Computes the first three arguments, since later ones are constants or what is expected, too, and
/// gives what was expected for a result of which the compiler cannot know.
#[inline(always)]
fn stop_short([a, b, c, ..]: [usize; 6], expected: usize) -> usize {
    ready(a);
    ready(b);
    ready(c);
    let result;
    // SAFETY: there is no instruction.
    unsafe {
        std::arch::asm!(
            "/* {result} */",
            result = inlateout(reg) expected => result,
            options(nostack, preserves_flags),
        );
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_and_the_empty_gate_returns_what_was_expected() {
        let getpid = libc::SYS_getpid as usize;
        // SAFETY: getpid changes no memory.
        let (real, empty) =
            unsafe { (Kernel::call(getpid, [0; 6], 0), Nothing::call(getpid, [0; 6], 42)) };
        assert_eq!(real, std::process::id() as usize);
        assert_eq!(empty, 42);
    }

    #[test]
    fn what_is_found_behind_an_empty_gate_is_what_was_expected() {
        assert_eq!((Kernel::found(1, 2), Nothing::found(1, 2)), (1, 2));
    }

    #[test]
    fn errors_come_back_as_negative_errno() {
        // SAFETY: munmap of a misaligned address is refused without any effect.
        let result = unsafe { Kernel::call(libc::SYS_munmap as usize, [1, 1, 0, 0, 0, 0], 0) };
        assert_eq!(result as isize, -(libc::EINVAL as isize));
    }

    #[test]
    fn touching_writes_unless_the_gate_is_empty() {
        let mut byte = 0u8;
        let address = &raw mut byte as usize;
        // SAFETY: the address is of a local variable.
        unsafe { Nothing::touch(address) };
        assert_eq!(byte, 0);
        // SAFETY: as above.
        unsafe { Kernel::touch(address) };
        assert_eq!(byte, 1);
    }
}
