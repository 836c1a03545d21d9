//! Unwinds by all registers of x86-64: the rules of `.eh_frame`, found by `.eh_frame_hdr` (System V ABI, "DWARF register number
//! mapping").

use super::Section;
use crate::event::UserStack;
use framehop::ExplicitModuleSectionInfo;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, Register, RegisterRule,
    UnwindContext, UnwindSection,
};
use opcost_symbols::keyed::KeyedMap;

/// Numbers of registers in DWARF.
pub(super) const FRAME_POINTER: u16 = 6;
pub(super) const STACK_POINTER: u16 = 7;
const RETURN_ADDRESS: Register = Register(16);
/// The registers that rules may name.
const REGISTERS: usize = 16;

/// The bits of these registers in a sample (`PERF_REG_X86_*`, `asm/perf_regs.h`).
const SAMPLED: [u32; REGISTERS] = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
/// The bit of the instruction pointer.
const SAMPLED_IP: u32 = 8;

/// Offsets of the interrupted registers from the stack pointer after a signal handler's return, bytes (`struct ucontext`,
/// `asm/sigcontext.h`).
const SIGNAL: [u64; REGISTERS] =
    [144, 136, 152, 128, 112, 104, 120, 160, 40, 48, 56, 64, 72, 80, 88, 96];
const SIGNAL_IP: u64 = 168;

/// The registers of a frame, as far as they are known.
#[derive(Clone, Debug)]
pub(super) struct Registers {
    known: [Option<u64>; REGISTERS],
    pub(super) ip: u64,
}

impl Registers {
    /// The registers of a sample; `None` if frame pointer, stack pointer or instruction pointer were not sampled.
    pub(super) fn of(stack: &UserStack<'_>) -> Option<Registers> {
        let value = |register: u32| {
            let bit = 1u64 << register;
            let before = (stack.registers_mask & (bit - 1)).count_ones();
            let value = stack.registers.get(before as usize).copied();
            value.filter(|_| stack.registers_mask & bit != 0)
        };
        let known = SAMPLED.map(value);
        known[usize::from(FRAME_POINTER)].and(known[usize::from(STACK_POINTER)])?;
        Some(Registers { known, ip: value(SAMPLED_IP)? })
    }

    pub(super) fn get(&self, register: u16) -> Option<u64> {
        self.known.get(usize::from(register)).copied().flatten()
    }

    pub(super) fn set(&mut self, register: u16, value: u64) {
        self.known[usize::from(register)] = Some(value);
    }

    /// Takes over the registers that a signal interrupted.
    pub(super) fn interrupted(
        &mut self,
        memory: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<(), ()> {
        let context = self.get(STACK_POINTER).ok_or(())?;
        let mut saved = |at: u64| memory(context.checked_add(at).ok_or(())?);
        self.ip = saved(SIGNAL_IP)?;
        let mut known = [None; REGISTERS];
        for (value, at) in known.iter_mut().zip(SIGNAL) {
            *value = Some(saved(at)?);
        }
        self.known = known;
        Ok(())
    }
}

/// The unwind information of a mapped file.
struct Table {
    start: u64,
    end: u64,
    /// What was added to the file's addresses.
    bias: u64,
    bases: BaseAddresses,
    header: Section,
    frames: Section,
}

/// The unwind information of an address space.
#[derive(Default)]
pub(super) struct Tables {
    tables: Vec<Table>,
    /// For addresses asked before, whether the frame there is kept in another register.
    elsewhere: KeyedMap<u64, bool>,
}

/// The most addresses whose answers are kept.
const KEPT_MAX: usize = 1 << 16;

impl Tables {
    /// Adds a file's mapping; `bias`: what was added to the file's addresses.
    pub(super) fn add(
        &mut self,
        start: u64,
        bytes: u64,
        bias: u64,
        info: &ExplicitModuleSectionInfo<Section>,
    ) {
        let (Some(header), Some(frames)) = (&info.eh_frame_hdr, &info.eh_frame) else { return };
        let address =
            |range: &Option<std::ops::Range<u64>>| range.as_ref().map_or(0, |range| range.start);
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(address(&info.eh_frame_hdr_svma))
            .set_eh_frame(address(&info.eh_frame_svma))
            .set_text(address(&info.text_svma))
            .set_got(address(&info.got_svma));
        let end = start.saturating_add(bytes);
        let (header, frames) = (header.clone(), frames.clone());
        self.tables.push(Table { start, end, bias, bases, header, frames });
    }

    /// Whether the frame at an address is kept in a register that is neither stack nor frame pointer.
    pub(super) fn is_kept_elsewhere(&mut self, address: u64) -> bool {
        if let Some(known) = self.elsewhere.get(&address) {
            return *known;
        }
        let other = |rule: &CfaRule<usize>| match rule {
            CfaRule::RegisterAndOffset { register, .. } => {
                ![FRAME_POINTER, STACK_POINTER].contains(&register.0)
            }
            CfaRule::Expression(_) => false,
        };
        let elsewhere = self.row(address, |row| Some(other(row.cfa()))).unwrap_or(false);
        if self.elsewhere.len() >= KEPT_MAX {
            self.elsewhere.clear();
        }
        self.elsewhere.insert(address, elsewhere);
        elsewhere
    }

    /// Replaces the registers at an address with those of the caller. Returns where the caller goes on; `None` if nothing called.
    pub(super) fn step(
        &self,
        address: u64,
        registers: &mut Registers,
        memory: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<Option<u64>, ()> {
        let stepped = self.row(address, |row| {
            let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
            let frame = registers.get(register.0)?.checked_add_signed(*offset)?;
            let mut value = |register: Register, before: Option<u64>| match row.register(register) {
                Some(RegisterRule::Offset(at)) => memory(frame.checked_add_signed(at)?).ok(),
                Some(RegisterRule::ValOffset(at)) => frame.checked_add_signed(at),
                Some(RegisterRule::Register(other)) => registers.get(other.0),
                None | Some(RegisterRule::SameValue) => before,
                _ => None,
            };
            let mut known = [None; REGISTERS];
            for (number, slot) in (0..).zip(&mut known) {
                *slot = value(Register(number), registers.get(number));
            }
            // The stack pointer of the caller is what the frame began with.
            known[usize::from(STACK_POINTER)] = Some(frame);
            let outermost = row.register(RETURN_ADDRESS) == Some(RegisterRule::Undefined);
            let caller = if outermost { None } else { Some(value(RETURN_ADDRESS, None)?) };
            Some((known, caller))
        });
        let (known, caller) = stepped.ok_or(())?;
        registers.known = known;
        Ok(caller)
    }

    /// Calls a function with the rules at an address; `None` if there are none.
    fn row<T>(
        &self,
        address: u64,
        of: impl FnOnce(&gimli::UnwindTableRow<usize>) -> Option<T>,
    ) -> Option<T> {
        let within = |table: &&Table| table.start <= address && address < table.end;
        let Table { bias, bases, header, frames, .. } = self.tables.iter().find(within)?;
        let address = address.wrapping_sub(*bias);
        let mut context = UnwindContext::new();
        let header = EhFrameHdr::new(header, LittleEndian).parse(bases, 8).ok()?;
        let mut frames = EhFrame::new(frames, LittleEndian);
        frames.set_address_size(8);
        let table = header.table()?;
        let common = EhFrame::cie_from_offset;
        let row = table.unwind_info_for_address(&frames, bases, &mut context, address, common);
        of(row.ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sections of one function at 0x1000, 16 bytes long, whose frame begins 24 bytes above %rbx, where %rbx is saved below the return
    /// address: `_dl_runtime_resolve` of glibc, shortened.
    fn sections() -> ExplicitModuleSectionInfo<Section> {
        let common = [
            &[0u8; 4][..],                // no pointer to another entry: a common one
            &[1, b'z', b'R', 0],          // version, augmentation
            &[1, 0x78, 16, 1, 0x1b],      // alignments 1 and -8, return address, relative pointers
            &[0x0c, 7, 8, 0x90, 1, 0, 0], // the frame is at %rsp + 8, the return address below it
        ]
        .concat();
        let mut frames = [&(common.len() as u32).to_le_bytes()[..], &common].concat();
        let at = frames.len();
        let function = [
            &(at as u32 + 4).to_le_bytes()[..],
            &(0x1000 - (0x3000 + at as i32 + 8)).to_le_bytes(),
            &[16, 0, 0, 0, 0],             // length, no more data
            &[0x0c, 3, 24, 0x83, 2, 0, 0], // the frame is at %rbx + 24, %rbx 16 bytes below it
        ]
        .concat();
        frames.extend((function.len() as u32).to_le_bytes());
        frames.extend(function);
        frames.extend([0; 4]);
        let header = [
            &[1u8, 0x1b, 3, 0x3b][..],
            &(0x3000 - 0x2004i32).to_le_bytes(),
            &1u32.to_le_bytes(),
            &(0x1000 - 0x2000i32).to_le_bytes(),
            &(0x3000 + at as i32 - 0x2000).to_le_bytes(),
        ]
        .concat();
        ExplicitModuleSectionInfo {
            eh_frame_hdr_svma: Some(0x2000..0x2000 + header.len() as u64),
            eh_frame_hdr: Some(header.into()),
            eh_frame_svma: Some(0x3000..0x3000 + frames.len() as u64),
            eh_frame: Some(frames.into()),
            ..ExplicitModuleSectionInfo::default()
        }
    }

    #[test]
    fn a_frame_in_another_register_is_found() {
        let mut tables = Tables::default();
        tables.add(0x7000_1000, 0x1000, 0x7000_0000, &sections());
        assert!(tables.is_kept_elsewhere(0x7000_1008) && tables.is_kept_elsewhere(0x7000_1008));
        assert!(!tables.is_kept_elsewhere(0x7000_1800) && !tables.is_kept_elsewhere(0x1008));
        let known = std::array::from_fn(|number| Some(number as u64));
        let mut registers = Registers { known, ip: 0x7000_1008 };
        registers.set(3, 0x8000);
        let mut memory = |address| match address {
            0x8008 => Ok(33),
            0x8010 => Ok(0x7000_5678),
            _ => Err(()),
        };
        let caller = tables.step(0x7000_1008, &mut registers, &mut memory);
        assert_eq!(caller, Ok(Some(0x7000_5678)));
        let [rbx, rbp, rsp] = [3, FRAME_POINTER, STACK_POINTER].map(|at| registers.get(at));
        assert_eq!([rbx, rbp, rsp], [Some(33), Some(6), Some(0x8018)]);
        // Without the register there is no frame.
        registers.known[3] = None;
        assert_eq!(tables.step(0x7000_1008, &mut registers, &mut memory), Err(()));
    }
}
