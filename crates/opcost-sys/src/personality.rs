//! Address space layout randomisation of this process and of programs that it executes (`personality(2)`).

use std::ffi::c_ulong;
use std::io;

/// Whether programs executed from now on get a random address space layout.
///
/// The function ignores the system's own setting (`kernel.randomize_va_space`); at 0 no layout is random.
///
/// # Errors
/// The kernel's error, unchanged (a seccomp filter may forbid the call).
pub fn aslr() -> io::Result<bool> {
    Ok(current()? & libc::ADDR_NO_RANDOMIZE == 0)
}

/// Sets whether programs executed from now on get a random address space layout.
///
/// # Errors
/// The kernel's error, unchanged (container runtimes' seccomp filters forbid the call).
pub fn set_aslr(random: bool) -> io::Result<()> {
    let wanted = with_aslr(current()?, random);
    // SAFETY: personality takes an integer and touches no memory of ours.
    match unsafe { libc::personality(wanted as c_ulong) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Returns a persona with its no-randomisation flag set or cleared.
pub(crate) fn with_aslr(persona: i32, random: bool) -> i32 {
    if random { persona & !libc::ADDR_NO_RANDOMIZE } else { persona | libc::ADDR_NO_RANDOMIZE }
}

/// The argument that returns the persona without changing it.
pub(crate) const QUERY: c_ulong = 0xffff_ffff;

fn current() -> io::Result<i32> {
    // SAFETY: personality takes an integer and touches no memory of ours.
    match unsafe { libc::personality(QUERY) } {
        -1 => Err(io::Error::last_os_error()),
        persona => Ok(persona),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read() {
        // The persona is per thread; this thread ends with the test.
        let in_thread = std::thread::spawn(|| {
            set_aslr(false).unwrap();
            let fixed = aslr().unwrap();
            set_aslr(true).unwrap();
            (fixed, aslr().unwrap())
        });
        assert_eq!(in_thread.join().unwrap(), (false, true));
    }

    #[test]
    fn other_flags_of_the_persona_are_kept() {
        let persona = libc::ADDR_COMPAT_LAYOUT | libc::ADDR_NO_RANDOMIZE;
        assert_eq!(with_aslr(persona, true), libc::ADDR_COMPAT_LAYOUT);
        assert_eq!(with_aslr(libc::ADDR_COMPAT_LAYOUT, false), persona);
    }
}
