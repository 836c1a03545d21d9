//! The loopback network interface (`netdevice(7)`).

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Brings the interface `lo` up.
///
/// # Errors
/// The kernel has no network of this kind, or this process has no privilege (CAP_NET_ADMIN).
pub fn up() -> io::Result<()> {
    // SAFETY: socket takes integers only.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all fields of the structure may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(*b"lo") {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the kernel reads the name and the flags of `request`.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks for a TCP connection that nobody accepts.
///
/// A kernel's first connection, once a boot, draws the 256 KiB of random numbers in its table of ports (`table_perturb`,
/// net/ipv4/inet_hashtables.c).
///
/// # Errors
/// The kernel has no TCP, or `lo` is down. A refused connection is no error.
pub fn refused_connection() -> io::Result<()> {
    // Port 1 is tcpmux, which nothing serves (RFC 7805).
    match TcpStream::connect((Ipv4Addr::LOCALHOST, 1)) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_nobody_accepts_is_no_error() {
        if up().is_ok() {
            refused_connection().unwrap();
        }
    }

    #[test]
    fn it_is_in_operation_or_the_kernel_says_why_not() {
        match up() {
            Ok(()) => {
                std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            }
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
    }
}
