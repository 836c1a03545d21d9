//! An I/O port of an x86 machine, to which an emulated machine's guest writes what the host shall
//! have (`ioperm(2)`).

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Where ports can be written to without ioperm, one at its offset each (`mem(4)`).
const DEV_PORT: &str = "/dev/port";

/// A port that this thread may write to.
#[derive(Debug)]
pub struct Port {
    number: u16,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// The instruction, allowed to this thread; `Port` is made nowhere else.
    Instruction(OnlyThisThread),
    /// The file.
    File(File),
}

/// Keeps a value on the thread that made it, since ioperm's permission is the thread's.
type OnlyThisThread = std::marker::PhantomData<*const ()>;

impl Port {
    /// Asks the kernel for a port: by ioperm, and if there is none, by `/dev/port`.
    ///
    /// # Errors
    /// ioperm's error if both fail: no privilege (CAP_SYS_RAWIO), a kernel without either, or
    /// another processor than x86-64.
    pub fn open(number: u16) -> io::Result<Port> {
        let error = match allow(number) {
            Ok(()) => return Ok(Port { number, way: Way::Instruction(OnlyThisThread::default()) }),
            Err(error) => error,
        };
        match File::options().write(true).open(DEV_PORT) {
            Ok(file) => Ok(Port { number, way: Way::File(file) }),
            Err(_) => Err(error),
        }
    }
}

impl Write for Port {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.way {
            Way::Instruction(_) => put_string(self.number, bytes),
            Way::File(file) => {
                // The offset is the port's number, and a longer write would go on to the next one.
                for byte in bytes {
                    file.write_all_at(std::slice::from_ref(byte), u64::from(self.number))?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
fn allow(number: u16) -> io::Result<()> {
    // SAFETY: ioperm takes integers only; what the port then does is its writer's business.
    match unsafe { libc::ioperm(number.into(), 1, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn allow(_number: u16) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes all bytes to the port with one string instruction.
#[cfg(target_arch = "x86_64")]
fn put_string(number: u16, bytes: &[u8]) {
    // SAFETY: reads rcx bytes from rsi upwards, which are those of `bytes` (the direction flag is
    // clear by the ABI, AMD64 supplement 3.2.1), and writes them to a port that `Port::open` made
    // allowed on this thread, which a Port does not leave.
    unsafe {
        std::arch::asm!(
            "rep outsb",
            in("dx") number,
            inout("rsi") bytes.as_ptr() => _,
            inout("rcx") bytes.len() => _,
            options(nostack, preserves_flags, readonly)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn put_string(_number: u16, _bytes: &[u8]) {
    unreachable!("no port can be allowed on this processor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_port_is_an_error() {
        if is_root() {
            opcost_skip::skip!("root may write to any port, and a port of this machine is no toy");
            return;
        }
        assert!(Port::open(0xe9).is_err());
    }

    /// Whether this process is root's.
    fn is_root() -> bool {
        // SAFETY: geteuid only returns a number.
        unsafe { libc::geteuid() == 0 }
    }

    #[test]
    fn a_file_gets_each_byte_at_the_port_s_offset() {
        let file = tempfile::tempfile().unwrap();
        let mut port = Port { number: 3, way: Way::File(file.try_clone().unwrap()) };
        port.write_all(b"abc").unwrap();
        let mut bytes = [0; 8];
        let length = file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes[..length], b"\0\0\0c");
    }
}
