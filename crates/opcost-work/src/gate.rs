//! The gate into the kernel, and the empty gate that replaces it in a twin.
//!
//! The instruction is written here instead of taken from a C library, so that the host's and the guest's programs (glibc, musl)
//! execute the same code.

use crate::unrolled::ready;

/// A gate that enters the kernel and touches memory, or does everything except that.
pub(crate) trait Gate {
    /// Whether operations are done; false if only the loop around them is executed.
    const WORKS: bool;

    /// Performs one system call, or only computes its arguments.
    ///
    /// `number` and `arguments`: as the kernel takes them; `expected`: the result that the caller counts on, which an empty gate
    /// returns. Returns the kernel's register value, `-errno` for an error.
    ///
    /// # Safety
    /// The caller is responsible for the effects of the system call: it must change only memory that nothing else refers to.
    unsafe fn call(number: usize, arguments: [usize; 6], expected: usize) -> usize;

    /// Writes one byte at `address`, or only computes the address.
    ///
    /// # Safety
    /// `address` is in a writable mapping that nothing else refers to.
    unsafe fn touch(address: usize);

    /// Returns the value `found` in memory that the kernel wrote; an empty gate, which wrote nothing, returns `expected`.
    fn found(found: u64, expected: u64) -> u64;
}

/// Enters the kernel and touches memory.
pub(crate) struct Kernel;

/// Does neither; only the cost of the loop around the gate remains.
pub(crate) struct Nothing;

impl Gate for Kernel {
    const WORKS: bool = true;

    #[inline(always)]
    unsafe fn call(number: usize, arguments: [usize; 6], _expected: usize) -> usize {
        // SAFETY: as the caller promises.
        unsafe { enter(number, arguments) }
    }

    #[inline(always)]
    unsafe fn touch(address: usize) {
        // SAFETY: the caller promises that the address is writable and its own.
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
    // SAFETY: clobbers are declared, and the stack is not used; the caller is responsible for the call's effects on memory.
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
    // SAFETY: clobbers are declared, and the stack is not used; the caller is responsible for the call's effects on memory.
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
    // SAFETY: the caller is responsible for the call's effects on memory.
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

/// Computes the first three arguments; later ones are constants or known as `expected`. Returns the expected result in a way that
/// the compiler cannot predict.
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
