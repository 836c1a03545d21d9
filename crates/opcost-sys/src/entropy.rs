//! The kernel's random numbers, made a function of a seed (`random(4)`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `_IOW('R', 0x03, int[2])` (include/uapi/linux/random.h): mixes bytes in and credits them as random.
const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;

/// `_IO('R', 0x07)`: draws the generator's key from the pool at once.
const RNDRESEEDCRNG: libc::c_ulong = 0x5207;

/// The argument of RNDADDENTROPY: `struct rand_pool_info` with room for the bytes.
#[repr(C)]
struct PoolInfo {
    entropy_bits: libc::c_int,
    size_bytes: libc::c_int,
    bytes: [u8; 32],
}

/// Mixes `bytes` into the kernel's pool and restarts the kernel's generator from the pool.
///
/// # Errors
/// No privilege (CAP_SYS_ADMIN), or no `/dev/urandom`.
pub fn reseed(bytes: [u8; 32]) -> io::Result<()> {
    let device = File::options().write(true).open("/dev/urandom")?;
    let info = PoolInfo { entropy_bits: 256, size_bytes: 32, bytes };
    // SAFETY: the kernel reads the two numbers and as many bytes as the second number says, which is all of `info`.
    if unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY, &raw const info) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Kernels before 4.14 lack this call; they reseed by themselves. SAFETY: the call takes no argument.
    unsafe { libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_taken_or_refused_with_the_kernels_error() {
        match reseed([7; 32]) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
        }
    }
}
