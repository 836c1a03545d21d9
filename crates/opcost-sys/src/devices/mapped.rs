//! The devices of QEMU's `virt` machine: fw_cfg at a fixed address, a PCI serial port as the channel, a PCI watchdog.
//!
//! The kernel's driver takes the serial port but drives nothing if it may have no port (`8250.nr_uarts=0`).

use super::pci::device;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

/// The address of fw_cfg, its data's and its selector's offset (hw/arm/virt.c, docs/specs/fw_cfg).
const FW_CFG: u64 = 0x0902_0000;
const FW_CFG_DATA: usize = 0;
const FW_CFG_SELECTOR: usize = 8;

/// The address at which the machine has its PCI ports (hw/arm/virt.c, `VIRT_PCIE_PIO`).
const PCI_PORTS: u64 = 0x3eff_0000;

/// Vendor and device of QEMU's `pci-serial`, and of the watchdog `i6300esb`.
const SERIAL: [&str; 2] = ["0x1b36", "0x0002"];
const WATCHDOG: [&str; 2] = ["0x8086", "0x25ab"];

/// The watchdog's registers: in its configuration space, then in memory (hw/watchdog/wdt_i6300esb.c).
const WATCHDOG_CONFIG: u64 = 0x60;
const WATCHDOG_LOCK: u64 = 0x68;
const WATCHDOG_TIMERS: [usize; 2] = [0, 4];
const WATCHDOG_RELOAD: usize = 0xc;

/// The clock of 1 kHz; the second stage does nothing to a pin.
const WATCHDOG_SLOW: [u8; 2] = [3, 0];
const WATCHDOG_ENABLE: u8 = 2;
/// The bytes that permit one write to a timer.
const WATCHDOG_UNLOCK: [u8; 2] = [0x80, 0x86];
/// Each of the two timers' milliseconds.
const WATCHDOG_MS: u32 = 1000;

const PAGE_BYTES: usize = 4096;

/// A page of a device's registers.
#[derive(Debug)]
struct Registers {
    page: NonNull<u8>,
    offset: usize,
}

impl Registers {
    /// Maps a page of a file; `address`: of the first register, as an offset in the file.
    fn map(path: &Path, address: u64) -> io::Result<Registers> {
        let file = File::options().read(true).write(true).open(path)?;
        let offset = address as usize % PAGE_BYTES;
        let start = (address - offset as u64) as libc::off_t;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses a free place, and the file's pages are a device's registers, which no Rust value is made of.
        let page = unsafe {
            libc::mmap(null_mut(), PAGE_BYTES, access, libc::MAP_SHARED, file.as_raw_fd(), start)
        };
        match NonNull::new(page.cast::<u8>()) {
            Some(page) if page.as_ptr() != libc::MAP_FAILED.cast() => {
                Ok(Registers { page, offset })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Maps physical memory.
    fn physical(address: u64) -> io::Result<Registers> {
        Self::map(Path::new("/dev/mem"), address)
    }

    /// The register at an offset that is aligned for `T` and behind whose place the page goes on.
    fn at<T>(&self, offset: usize) -> *mut T {
        let offset = self.offset + offset;
        assert!(offset + size_of::<T>() <= PAGE_BYTES && offset % align_of::<T>() == 0);
        // SAFETY: the offset is inside of the page.
        unsafe { self.page.as_ptr().add(offset) }.cast()
    }

    fn write<T>(&self, offset: usize, value: T) {
        // SAFETY: the page is mapped while this value exists, and the register is in it and aligned.
        unsafe { self.at::<T>(offset).write_volatile(value) }
    }

    fn read(&self, offset: usize) -> u8 {
        // SAFETY: as for `write`.
        unsafe { self.at::<u8>(offset).read_volatile() }
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: the page was mapped by this value, which nobody uses any more.
        unsafe { libc::munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// The address of a device's first resource, from sysfs's list of all (`START END FLAGS`, hexadecimal).
fn first_resource(list: &str) -> Option<u64> {
    let start = list.split_whitespace().next()?.strip_prefix("0x")?;
    u64::from_str_radix(start, 16).ok()
}

/// The channel to the host.
#[derive(Debug)]
pub struct Channel(Registers);

impl Channel {
    /// Finds the channel.
    ///
    /// # Errors
    /// There is no such device, or no privilege (CAP_SYS_RAWIO).
    pub fn open() -> io::Result<Channel> {
        let list = fs::read_to_string(device(SERIAL)?.join("resource"))?;
        let port = first_resource(&list).ok_or(io::ErrorKind::InvalidData)?;
        Registers::physical(PCI_PORTS + port).map(Channel)
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // QEMU takes each byte at once, so the port is always ready.
        bytes.iter().for_each(|byte| self.0.write(0, *byte));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// QEMU's fw_cfg (docs/specs/fw_cfg).
#[derive(Debug)]
pub struct FwCfg(Registers);

impl FwCfg {
    /// Finds the device.
    ///
    /// # Errors
    /// No privilege (CAP_SYS_RAWIO), a kernel without `/dev/mem`, or whose driver claims the device.
    pub fn open() -> io::Result<FwCfg> {
        Registers::physical(FW_CFG).map(FwCfg)
    }

    /// Selects the data to read.
    ///
    /// # Errors
    /// None; ports have them.
    pub fn select(&mut self, item: u16) -> io::Result<()> {
        self.0.write(FW_CFG_SELECTOR, item.to_be());
        Ok(())
    }

    /// Fills `bytes` with the next bytes of the selected data.
    ///
    /// # Errors
    /// None; ports have them.
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        bytes.fill_with(|| self.0.read(FW_CFG_DATA));
        Ok(())
    }
}

/// The watchdog, an `i6300esb`.
#[derive(Debug)]
pub struct Watchdog {
    config: File,
    registers: Registers,
}

impl Watchdog {
    /// Finds the device.
    ///
    /// # Errors
    /// There is no such device, or no privilege.
    pub fn open() -> io::Result<Watchdog> {
        let folder = device(WATCHDOG)?;
        let config = File::options().read(true).write(true).open(folder.join("config"))?;
        let list = fs::read_to_string(folder.join("resource"))?;
        let start = first_resource(&list).ok_or(io::ErrorKind::InvalidData)?;
        // The file begins with the page of the registers, which may have those of another device in front of them.
        let registers = Registers::map(&folder.join("resource0"), start % PAGE_BYTES as u64)?;
        Ok(Watchdog { config, registers })
    }

    /// Lets the device fire in two seconds.
    ///
    /// # Errors
    /// The configuration space cannot be written.
    pub fn start(&mut self) -> io::Result<()> {
        self.config.write_all_at(&WATCHDOG_SLOW, WATCHDOG_CONFIG)?;
        for timer in WATCHDOG_TIMERS {
            for byte in WATCHDOG_UNLOCK {
                self.registers.write(WATCHDOG_RELOAD, byte);
            }
            self.registers.write(timer, WATCHDOG_MS);
        }
        self.config.write_all_at(&[WATCHDOG_ENABLE], WATCHDOG_LOCK)
    }
}

/// Does nothing: PSCI ends every kernel's machine.
pub fn end() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_resource_is_read() {
        let list = "0x0000000000001000 0x0000000000001007 0x0000000000040101\n0x0 0x0 0x0\n";
        assert_eq!(first_resource(list), Some(0x1000));
        assert_eq!((first_resource(""), first_resource("1000")), (None, None));
    }
}
