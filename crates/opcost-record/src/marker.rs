//! Markers: instructions that do nothing but tell the emulator where a region starts and stops, and
//! where a run ends.
//!
//! A marker is the seven-byte NOP `0f 1f 80 disp32` (Intel SDM volume 2, NOP), whose displacement
//! is `MAGIC | KIND | region number`. It costs one cheap instruction on hardware, and the plugin
//! sees it when it translates the block that holds it.

use crate::{TWIN, WORK};

/// The upper half of every marker's displacement.
pub const MAGIC: u32 = 0x6f63_0000;
/// What starts counting a region.
pub const START: u32 = MAGIC | 0x100;
/// What stops counting it.
pub const STOP: u32 = MAGIC | 0x200;

/// What ends a run, where a program makes several: what its regions cost is reported by itself.
pub const RUN_END: u32 = MAGIC | 0x300;

/// The first three bytes of a marker; the displacement follows, least byte first.
pub const OPCODE: [u8; 3] = [0x0f, 0x1f, 0x80];

/// The regions by number.
pub const REGIONS: [&str; 2] = [WORK, TWIN];

/// What a marker says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Marker {
    /// Counting of the region starts with the next instruction.
    Start(&'static str),
    /// Counting of the region stops before this instruction.
    Stop(&'static str),
    /// What the regions cost since the last such marker is a run's.
    RunEnd,
}

impl Marker {
    /// The marker that an instruction is, if it is one.
    ///
    /// `code`: the bytes of one instruction.
    pub fn decode(code: &[u8]) -> Option<Marker> {
        let displacement = code.strip_prefix(&OPCODE)?;
        let displacement = u32::from_le_bytes(displacement.try_into().ok()?);
        if displacement == RUN_END {
            return Some(Marker::RunEnd);
        }
        let region = *REGIONS.get((displacement & 0xff) as usize)?;
        match displacement & !0xff {
            START => Some(Marker::Start(region)),
            STOP => Some(Marker::Stop(region)),
            _ => None,
        }
    }

    /// The displacement of this marker, if its region is one of [`REGIONS`].
    pub fn displacement(self) -> Option<u32> {
        let (kind, name) = match self {
            Marker::Start(name) => (START, name),
            Marker::Stop(name) => (STOP, name),
            Marker::RunEnd => return Some(RUN_END),
        };
        let number = REGIONS.iter().position(|region| *region == name)?;
        Some(kind | number as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_round_trip() {
        let regions = REGIONS.into_iter();
        let ends = regions.flat_map(|region| [Marker::Start(region), Marker::Stop(region)]);
        for marker in ends.chain([Marker::RunEnd]) {
            let mut code = OPCODE.to_vec();
            code.extend(marker.displacement().unwrap().to_le_bytes());
            assert_eq!(Marker::decode(&code), Some(marker));
        }
        assert_eq!(Marker::Start("lunch").displacement(), None);
    }

    #[test]
    fn other_instructions_are_no_markers() {
        assert_eq!(Marker::decode(&[0x90]), None);
        assert_eq!(Marker::decode(&[0x0f, 0x1f, 0x80, 0, 0, 0, 0]), None);
        assert_eq!(Marker::decode(&[0x0f, 0x1f, 0x80, 0xff, 0x01, 0x63, 0x6f]), None);
        assert_eq!(Marker::decode(&[0x0f, 0x1f, 0x80, 0x00, 0x01, 0x63]), None);
        assert_eq!(Marker::decode(&[0x0f, 0x1f, 0x80, 0x01, 0x03, 0x63, 0x6f]), None);
    }
}
