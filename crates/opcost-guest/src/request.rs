//! Reads the request from the initramfs, or from a host that restored this guest.

use crate::error::JobError;
use opcost_record::request::{FW_CFG_NAME, GuestRequest, PATH};
use opcost_sys::devices::{FwCfg, NEEDED, Watchdog};
use std::fs;
use std::io;
use std::time::Duration;

/// How long the guest idles, so that the watchdog finds the machine idle. The emulated clock skips
/// the time.
const IDLE: Duration = Duration::from_secs(3);

/// The selector of fw_cfg's directory (docs/specs/fw_cfg).
const DIRECTORY: u16 = 0x19;

/// An entry of the directory: size, selector, two unused bytes, and a name padded with zero bytes.
const ENTRY_BYTES: usize = 64;

/// The most entries of a directory; no machine has as many.
const ENTRIES_MAX: u32 = 1024;

/// More bytes than any request has ([`GuestRequest::FORMAT`]).
const REQUEST_BYTES_MAX: u32 = 2 << 20;

/// Reads the request from the initramfs, or waits for the host to send it.
pub(crate) fn obtain() -> Result<GuestRequest, JobError> {
    let request = match fs::read(PATH) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => wait_for_one()?,
        request => request.map_err(JobError::system(format!("read the request {PATH}")))?,
    };
    Ok(GuestRequest::decode(&request)?)
}

/// Lets the watchdog stop the idle machine, so that the host can keep its state. Then reads the
/// request of the host that resumes the machine.
fn wait_for_one() -> Result<Vec<u8>, JobError> {
    let devices = || format!("use fw_cfg and the watchdog (the kernel needs {NEEDED})");
    let mut fw_cfg = FwCfg::open().map_err(JobError::system(devices()))?;
    let mut watchdog = Watchdog::open().map_err(JobError::system(devices()))?;
    watchdog.start().map_err(JobError::system(devices()))?;
    std::thread::sleep(IDLE);
    let request = file(&mut fw_cfg, FW_CFG_NAME)
        .map_err(JobError::system(format!("read the request from fw_cfg's {FW_CFG_NAME}")))?;
    // The workload's process reads the request there.
    fs::write(PATH, &request).map_err(JobError::system(format!("write {PATH}")))?;
    Ok(request)
}

/// Reads a file of the fw_cfg device.
fn file(fw_cfg: &mut FwCfg, name: &str) -> io::Result<Vec<u8>> {
    fw_cfg.select(DIRECTORY)?;
    let mut count = [0; 4];
    fw_cfg.read(&mut count)?;
    let mut entry = [0; ENTRY_BYTES];
    for _ in 0..u32::from_be_bytes(count).min(ENTRIES_MAX) {
        fw_cfg.read(&mut entry)?;
        if let Some((size, selector)) = entry_of(&entry, name) {
            if size > REQUEST_BYTES_MAX {
                return Err(io::Error::other(format!("it has {size} bytes")));
            }
            let mut bytes = vec![0; size as usize];
            fw_cfg.select(selector)?;
            fw_cfg.read(&mut bytes)?;
            return Ok(bytes);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Size and selector of a directory's entry, if it is called `name`.
fn entry_of(entry: &[u8; ENTRY_BYTES], name: &str) -> Option<(u32, u16)> {
    let [a, b, c, d, high, low, _, _, found @ ..] = entry;
    let end = found.iter().position(|byte| *byte == 0)?;
    let size = u32::from_be_bytes([*a, *b, *c, *d]);
    (&found[..end] == name.as_bytes()).then(|| (size, u16::from_be_bytes([*high, *low])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_by_its_whole_name() {
        let mut entry = [0; ENTRY_BYTES];
        entry[..8].copy_from_slice(&[0, 0, 1, 2, 0, 0x2a, 9, 9]);
        entry[8..8 + FW_CFG_NAME.len()].copy_from_slice(FW_CFG_NAME.as_bytes());
        assert_eq!(entry_of(&entry, FW_CFG_NAME), Some((0x102, 0x2a)));
        assert_eq!(entry_of(&entry, "opt/org.opcost/req"), None);
        entry[8..].fill(b'a');
        assert_eq!(entry_of(&entry, FW_CFG_NAME), None);
    }
}
