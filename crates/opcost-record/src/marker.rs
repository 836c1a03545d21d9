//! Markers: instructions without effect that tell the emulator where a region starts and stops, and
//! where a run ends.
//!
//! A marker has a displacement, `MAGIC | KIND | region number`. On x86-64 the marker is the seven-byte NOP `0f 1f 80 disp32`
//! (Intel SDM volume 2, NOP). On arm64 it is `movz xzr, #(KIND | region number), lsl #48`, which changes no register and which
//! no compiler writes (Arm ARM, C6.2, MOVZ). It costs one cheap instruction on hardware. The plugin sees the marker when it
//! translates the block around it.

use crate::{Architecture, TWIN, WORK};

/// The upper half of every marker's displacement.
pub const MAGIC: u32 = 0x6f63_0000;
/// The displacement of a region's start, without the region's number.
pub const START: u32 = MAGIC | 0x100;
/// The displacement of a region's stop, without the region's number.
pub const STOP: u32 = MAGIC | 0x200;

/// The displacement at the end of a run, in a program that makes several with costs of their own.
pub const RUN_END: u32 = MAGIC | 0x300;

/// The displacement in front of a wait for deferred work.
pub const DRAIN: u32 = MAGIC | 0x500;
/// The displacement behind a wait for deferred work.
pub const DRAINED: u32 = MAGIC | 0x501;

/// The displacement for a program's own regions; the lowest byte is a [`RegionMark`].
pub const REGION_MARK: u32 = MAGIC | 0x400;

/// The first three bytes of a marker of x86-64; the displacement follows, least byte first.
pub const OPCODE: [u8; 3] = [0x0f, 0x1f, 0x80];

/// A marker of arm64 without its immediate value, the displacement's lower half, which begins at bit [`WORD_SHIFT`].
pub const WORD: u32 = 0xd2e0_001f;
/// The place of the immediate value in [`WORD`].
pub const WORD_SHIFT: u32 = 5;

/// Returns the displacement of a marker; `None` if the instruction cannot be one.
fn displacement(architecture: Architecture, code: &[u8]) -> Option<u32> {
    match architecture {
        Architecture::X86_64 => {
            Some(u32::from_le_bytes(code.strip_prefix(&OPCODE)?.try_into().ok()?))
        }
        Architecture::Aarch64 => {
            let word = u32::from_le_bytes(code.try_into().ok()?);
            let value = (word & !WORD) >> WORD_SHIFT & 0xffff;
            (word == WORD | value << WORD_SHIFT).then_some(MAGIC | value)
        }
    }
}

/// The regions by number.
pub const REGIONS: [&str; 2] = [WORK, TWIN];

/// The meaning of a marker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Marker {
    /// Counting of the region starts with the next instruction.
    Start(&'static str),
    /// Counting of the region stops before this instruction.
    Stop(&'static str),
    /// The run ends: its costs are those since the last such marker.
    RunEnd,
    /// The guest begins to wait until the kernel has done deferred work.
    Drain,
    /// The guest has waited for deferred work.
    Drained,
    /// Part of a message about a region of the program's own.
    Region(RegionMark),
}

/// A mark of a message about a program's own region.
///
/// A message is a sequence of marks, since a plugin of QEMU 7.2 can read neither registers nor memory:
/// `Begin`, the name as digits, `Start`; or `Stop`, the name as digits, `Operations`, a number as
/// digits, `End`. A digit has four bits; the lower digit of a byte or number comes first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RegionMark {
    /// Four bits of a name or number.
    Digit(u8),
    /// A message begins; the region that it names starts at the message's end.
    Begin,
    /// The message ends, and the region starts with the next instruction.
    Start,
    /// The region stops before this instruction, and a message with its name begins.
    Stop,
    /// The name is complete; the number of operations follows.
    Operations,
    /// The message ends.
    End,
}

impl RegionMark {
    const WORDS: [(RegionMark, u32); 5] = [
        (RegionMark::Begin, 0x10),
        (RegionMark::Start, 0x11),
        (RegionMark::Stop, 0x20),
        (RegionMark::Operations, 0x21),
        (RegionMark::End, 0x22),
    ];

    /// Returns the mark with this lowest byte of a displacement.
    fn decode(byte: u32) -> Option<RegionMark> {
        if byte < 16 {
            return Some(RegionMark::Digit(byte as u8));
        }
        Self::WORDS.into_iter().find(|(_, word)| *word == byte).map(|(mark, _)| mark)
    }

    /// Returns the displacement of the marker.
    pub fn displacement(self) -> u32 {
        let word = Self::WORDS.into_iter().find(|(mark, _)| *mark == self).map(|(_, word)| word);
        let digit = if let RegionMark::Digit(digit) = self { u32::from(digit & 15) } else { 0 };
        REGION_MARK | word.unwrap_or(digit)
    }
}

impl Marker {
    /// Decodes an instruction; `None` if it is not a marker.
    ///
    /// `code`: the bytes of one instruction.
    pub fn decode(architecture: Architecture, code: &[u8]) -> Option<Marker> {
        let displacement = displacement(architecture, code)?;
        match displacement {
            RUN_END => return Some(Marker::RunEnd),
            DRAIN => return Some(Marker::Drain),
            DRAINED => return Some(Marker::Drained),
            _ => {}
        }
        if displacement & !0xff == REGION_MARK {
            return RegionMark::decode(displacement & 0xff).map(Marker::Region);
        }
        let region = *REGIONS.get((displacement & 0xff) as usize)?;
        match displacement & !0xff {
            START => Some(Marker::Start(region)),
            STOP => Some(Marker::Stop(region)),
            _ => None,
        }
    }

    /// Returns the marker's displacement, if its region is one of [`REGIONS`].
    pub fn displacement(self) -> Option<u32> {
        let (kind, name) = match self {
            Marker::Start(name) => (START, name),
            Marker::Stop(name) => (STOP, name),
            Marker::RunEnd => return Some(RUN_END),
            Marker::Drain => return Some(DRAIN),
            Marker::Drained => return Some(DRAINED),
            Marker::Region(mark) => return Some(mark.displacement()),
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
        let marks = (0..16).map(RegionMark::Digit).chain(RegionMark::WORDS.map(|(mark, _)| mark));
        for marker in ends
            .chain([Marker::RunEnd, Marker::Drain, Marker::Drained])
            .chain(marks.map(Marker::Region))
        {
            let displacement = marker.displacement().unwrap();
            let code = [&OPCODE[..], &displacement.to_le_bytes()].concat();
            assert_eq!(Marker::decode(Architecture::X86_64, &code), Some(marker));
            let word = WORD | (displacement & 0xffff) << WORD_SHIFT;
            let code = word.to_le_bytes();
            assert_eq!(Marker::decode(Architecture::Aarch64, &code), Some(marker));
            assert_eq!(Marker::decode(Architecture::X86_64, &code), None);
        }
        assert_eq!(Marker::Start("lunch").displacement(), None);
    }

    #[test]
    fn other_instructions_are_no_markers() {
        let decode = |code: &[u8]| Marker::decode(Architecture::X86_64, code);
        assert_eq!(decode(&[0x90]), None);
        assert_eq!(decode(&[0x0f, 0x1f, 0x80, 0, 0, 0, 0]), None);
        assert_eq!(decode(&[0x0f, 0x1f, 0x80, 0xff, 0x01, 0x63, 0x6f]), None);
        assert_eq!(decode(&[0x0f, 0x1f, 0x80, 0x00, 0x01, 0x63]), None);
        assert_eq!(decode(&[0x0f, 0x1f, 0x80, 0x01, 0x03, 0x63, 0x6f]), None);
        assert_eq!(decode(&[0x0f, 0x1f, 0x80, 0x23, 0x04, 0x63, 0x6f]), None);
        // movz xzr, #0x100 without a shift; movz x0, #0x100, lsl #48; a kind that nobody knows; nop.
        for word in [0xd280_201f, 0xd2e0_2000, WORD | 0x600 << WORD_SHIFT, 0xd503_201f_u32] {
            assert_eq!(Marker::decode(Architecture::Aarch64, &word.to_le_bytes()), None);
        }
    }
}
