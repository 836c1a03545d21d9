//! I/O ports of an x86 machine. The guest of an emulated machine writes data for the host to one port, and reads the host's
//! requests from others (`ioperm(2)`).
//!
//! A permission lasts for one access. `fork(2)` and `execve(2)` would keep it, and a task that may use any port pays for it at each
//! return to user mode (`native_tss_update_io_bitmap` of arch/x86/kernel/process.c).

use std::fs::File;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;

/// A file that allows port accesses without ioperm; a port's number is its offset (`mem(4)`).
const DEV_PORT: &str = "/dev/port";

/// A port that may be written to.
#[derive(Debug)]
pub struct Port {
    number: u16,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// The instruction, which ioperm permits.
    Instruction,
    /// The file [`DEV_PORT`].
    File(File),
}

impl Port {
    /// Finds out how the port can be written to: by ioperm or, if ioperm fails, by `/dev/port`.
    ///
    /// # Errors
    /// ioperm's error if both fail: no privilege (CAP_SYS_RAWIO), a kernel without either, or a processor other than x86-64.
    pub fn open(number: u16) -> io::Result<Port> {
        let error = match Permission::get(number, 1) {
            Ok(_) => return Ok(Port { number, way: Way::Instruction }),
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
            Way::Instruction => put_string(&Permission::get(self.number, 1)?, bytes),
            Way::File(file) => {
                // The offset is the port's number; a longer write would continue to the next port.
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

/// Two neighbouring ports, as QEMU's fw_cfg device has them (docs/specs/fw_cfg): words are written to the first, bytes are read
/// from the second.
#[derive(Debug)]
pub struct SelectedPort {
    number: u16,
}

impl SelectedPort {
    /// Finds out whether the port `number` and the next one can be used.
    ///
    /// # Errors
    /// ioperm's error: no privilege (CAP_SYS_RAWIO), a kernel without ioperm, or a processor other than x86-64. `/dev/port` does
    /// not serve, as it only transfers bytes.
    pub fn open(number: u16) -> io::Result<SelectedPort> {
        Permission::get(number, 2)?;
        Ok(SelectedPort { number })
    }

    /// Writes a word, which selects the data to read.
    ///
    /// # Errors
    /// ioperm's error.
    pub fn select(&mut self, word: u16) -> io::Result<()> {
        put_word(&Permission::get(self.number, 2)?, word);
        Ok(())
    }

    /// Fills `bytes` with the next bytes of the selected data.
    ///
    /// # Errors
    /// ioperm's error.
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        get_string(&Permission::get(self.number, 2)?, bytes);
        Ok(())
    }
}

/// This thread's permission to use ports, which ends with the value. The permission belongs to the thread, and so does the value.
struct Permission {
    number: u16,
    count: u16,
    _here: PhantomData<*const ()>,
}

impl Permission {
    /// Asks for `count` ports from `number` on.
    fn get(number: u16, count: u16) -> io::Result<Permission> {
        ioperm(number, count, true)?;
        Ok(Permission { number, count, _here: PhantomData })
    }
}

impl Drop for Permission {
    fn drop(&mut self) {
        // The kernel takes permissions back from anybody, and frees the bitmap with the last one.
        let _ = ioperm(self.number, self.count, false);
    }
}

#[cfg(target_arch = "x86_64")]
fn ioperm(number: u16, count: u16, on: bool) -> io::Result<()> {
    // SAFETY: ioperm takes integers only; the writer is responsible for the effects of the port.
    match unsafe { libc::ioperm(number.into(), count.into(), on.into()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn ioperm(_number: u16, _count: u16, _on: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes a word to the port.
#[cfg(target_arch = "x86_64")]
fn put_word(permission: &Permission, word: u16) {
    // SAFETY: touches no memory. This thread has the permission.
    unsafe {
        std::arch::asm!(
            "out dx, ax",
            in("dx") permission.number,
            in("ax") word,
            options(nostack, preserves_flags, nomem)
        );
    }
}

/// Reads all bytes from the second port with one string instruction.
#[cfg(target_arch = "x86_64")]
fn get_string(permission: &Permission, bytes: &mut [u8]) {
    // SAFETY: writes rcx bytes from rdi upwards, which are those of `bytes` (the direction flag is clear by the ABI, AMD64
    // supplement 3.2.1). This thread has the permission.
    unsafe {
        std::arch::asm!(
            "rep insb",
            in("dx") permission.number + 1,
            inout("rdi") bytes.as_mut_ptr() => _,
            inout("rcx") bytes.len() => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Writes all bytes to the port with one string instruction.
#[cfg(target_arch = "x86_64")]
fn put_string(permission: &Permission, bytes: &[u8]) {
    // SAFETY: reads rcx bytes from rsi upwards, which are those of `bytes` (the direction flag is clear by the ABI, AMD64
    // supplement 3.2.1). This thread has the permission.
    unsafe {
        std::arch::asm!(
            "rep outsb",
            in("dx") permission.number,
            inout("rsi") bytes.as_ptr() => _,
            inout("rcx") bytes.len() => _,
            options(nostack, preserves_flags, readonly)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn put_string(_permission: &Permission, _bytes: &[u8]) {
    unreachable!("no port can be allowed on this processor")
}

#[cfg(not(target_arch = "x86_64"))]
fn put_word(_permission: &Permission, _word: u16) {
    unreachable!("no port can be allowed on this processor")
}

#[cfg(not(target_arch = "x86_64"))]
fn get_string(_permission: &Permission, _bytes: &mut [u8]) {
    unreachable!("no port can be allowed on this processor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_port_is_an_error() {
        if crate::user::effective() == 0 {
            crate::skip::skip!("root may write to any port, and a port of this machine is no toy");
            return;
        }
        assert!(Port::open(0xe9).is_err());
        assert!(SelectedPort::open(0x510).is_err());
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
