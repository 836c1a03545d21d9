//! The devices of an x86-64 machine.

use crate::port::{Port, SelectedPort};
use opcost_record::channel::{EXIT_PORT, PORT};
use opcost_record::request::{FW_CFG_PORT, WAIT_PORT};
use std::io::{self, Write};

/// Starts the watchdog, which fires after two seconds (hw/watchdog/wdt_ib700.c, `time_map`).
const FIRE_AFTER_TWO_SECONDS: u8 = 0x0e;

/// The channel to the host.
#[derive(Debug)]
pub struct Channel(Port);

impl Channel {
    /// Finds the channel.
    ///
    /// # Errors
    /// As for [`Port::open`].
    pub fn open() -> io::Result<Channel> {
        Port::open(PORT).map(Channel)
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// QEMU's fw_cfg (docs/specs/fw_cfg).
#[derive(Debug)]
pub struct FwCfg(SelectedPort);

impl FwCfg {
    /// Finds the device.
    ///
    /// # Errors
    /// As for [`SelectedPort::open`].
    pub fn open() -> io::Result<FwCfg> {
        SelectedPort::open(FW_CFG_PORT).map(FwCfg)
    }

    /// Selects the data to read.
    ///
    /// # Errors
    /// ioperm's error.
    pub fn select(&mut self, item: u16) -> io::Result<()> {
        self.0.select(item)
    }

    /// Fills `bytes` with the next bytes of the selected data.
    ///
    /// # Errors
    /// ioperm's error.
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read(bytes)
    }
}

/// The watchdog, an `ib700`.
#[derive(Debug)]
pub struct Watchdog(Port);

impl Watchdog {
    /// Finds the device.
    ///
    /// # Errors
    /// As for [`Port::open`].
    pub fn open() -> io::Result<Watchdog> {
        Port::open(WAIT_PORT).map(Watchdog)
    }

    /// Lets the device fire in two seconds.
    ///
    /// # Errors
    /// ioperm's error.
    pub fn start(&mut self) -> io::Result<()> {
        self.0.write_all(&[FIRE_AFTER_TWO_SECONDS])
    }
}

/// Ends QEMU, if the machine has an `isa-debug-exit`.
pub fn end() {
    if let Ok(mut port) = Port::open(EXIT_PORT) {
        let _ = port.write_all(&[0]);
    }
}
