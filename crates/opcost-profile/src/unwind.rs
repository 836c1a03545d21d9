//! Callers from a copy of a user's stack, by the unwind information of the code that was running:
//! for programs that keep no frame pointers (`--call-graph dwarf`).
//!
//! `.eh_frame` of the files on disk is used; where there is none for an address the frame pointer
//! is followed (framehop). What the copy does not hold ends the chain, which is counted.

use crate::event::{Sample, UserStack};
use crate::session::CONTEXT_USER;
use crate::space::{CodeFile, CodeKind, Spaces};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};
use object::elf::PF_X;
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::sync::Arc;

/// `PERF_REG_X86_BP`, `_SP` and `_IP` (`asm/perf_regs.h`).
const REGISTERS: [u32; 3] = [6, 7, 8];
/// Frames after which a stack is taken to run in circles.
const FRAMES_MAX: usize = 512;
/// Address spaces that are kept ready; each shares the sections of its files with the others.
const SPACES_MAX: usize = 256;

/// Bytes of a section, shared by all address spaces.
type Section = Arc<[u8]>;

/// What unwinding needs of a file.
#[derive(Clone, Debug, Default)]
struct Sections {
    /// Offset and virtual address of each segment of code, with its length in the file.
    segments: Vec<(u64, u64, u64)>,
    info: ExplicitModuleSectionInfo<Section>,
}

/// Finds the callers of user code.
pub struct Unwinder {
    files: HashMap<CodeFile, Option<Sections>>,
    spaces: FxHashMap<u32, UnwinderX86_64<Section>>,
    cache: CacheX86_64,
    stacks_cut: u64,
}

impl Default for Unwinder {
    fn default() -> Self {
        Unwinder {
            files: HashMap::new(),
            spaces: FxHashMap::default(),
            cache: CacheX86_64::new(),
            stacks_cut: 0,
        }
    }
}

impl Unwinder {
    /// Stacks since the last call that went on beyond what was copied of them, or that lost their
    /// way.
    pub fn take_stacks_cut(&mut self) -> u64 {
        std::mem::take(&mut self.stacks_cut)
    }

    /// Writes the sample's chain with the user's callers at its end into `chain`.
    ///
    /// `spaces`: what is mapped; `read`: gives the contents of a mapped file, or `None`. A sample
    /// without a copied stack keeps the chain it has.
    pub fn complete(
        &mut self,
        sample: &Sample<'_>,
        spaces: &Spaces,
        mut read: impl FnMut(&CodeFile) -> Option<Vec<u8>>,
        chain: &mut Vec<u64>,
    ) {
        chain.clear();
        chain.extend_from_slice(sample.chain);
        let Some(stack) = &sample.user_stack else { return };
        let Some([bp, sp, ip]) = registers(stack) else { return };
        let version = spaces.version(sample.pid);
        if self.spaces.len() >= SPACES_MAX && !self.spaces.contains_key(&version) {
            self.spaces.clear();
        }
        let files = &mut self.files;
        let unwinder = self.spaces.entry(version).or_insert_with(|| {
            let mut unwinder = UnwinderX86_64::new();
            for (file, start, offset, bytes) in spaces.mapped(sample.pid) {
                if file.kind != CodeKind::File {
                    continue;
                }
                let known = files.entry(file.clone());
                let known = known.or_insert_with(|| read(file).as_deref().and_then(sections));
                if let Some(module) =
                    known.as_ref().and_then(|known| module(known, start, offset, bytes))
                {
                    unwinder.add_module(module);
                }
            }
            unwinder
        });
        chain.push(CONTEXT_USER);
        let mut memory = |address: u64| {
            let at = usize::try_from(address.checked_sub(sp).ok_or(())?).map_err(|_| ())?;
            let word = stack.bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(())?;
            Ok(u64::from_le_bytes(*word))
        };
        let registers = UnwindRegsX86_64::new(ip, sp, bp);
        let mut frames = unwinder.iter_frames(ip, registers, &mut self.cache, &mut memory);
        for _ in 0..FRAMES_MAX {
            match frames.next() {
                Ok(Some(frame)) => chain.push(frame.address()),
                Ok(None) => return,
                Err(_) => break,
            }
        }
        self.stacks_cut += 1;
    }
}

/// Frame pointer, stack pointer and instruction pointer; `None` where one was not sampled.
fn registers(stack: &UserStack<'_>) -> Option<[u64; 3]> {
    let mut found = [0; 3];
    for (value, register) in found.iter_mut().zip(REGISTERS) {
        let bit = 1u64 << register;
        if stack.registers_mask & bit == 0 {
            return None;
        }
        let before = (stack.registers_mask & (bit - 1)).count_ones();
        *value = *stack.registers.get(before as usize)?;
    }
    Some(found)
}

/// The sections of an ELF file; `None` if it is none.
fn sections(file: &[u8]) -> Option<Sections> {
    let file = object::File::parse(file).ok()?;
    let range = |name| {
        let section = file.section_by_name(name)?;
        Some(section.address()..section.address().saturating_add(section.size()))
    };
    let data = |name| {
        let section = file.section_by_name(name)?;
        Some(Section::from(section.uncompressed_data().ok()?.as_ref()))
    };
    let segments = file.segments().filter(|segment| {
        matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & PF_X.0 != 0)
    });
    let segments = segments.map(|segment| {
        let (offset, bytes) = segment.file_range();
        (offset, segment.address(), bytes)
    });
    Some(Sections {
        segments: segments.collect(),
        info: ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: range(".text"),
            text: data(".text"),
            eh_frame_svma: range(".eh_frame"),
            eh_frame: data(".eh_frame"),
            eh_frame_hdr_svma: range(".eh_frame_hdr"),
            eh_frame_hdr: data(".eh_frame_hdr"),
            got_svma: range(".got"),
            debug_frame: data(".debug_frame"),
            ..ExplicitModuleSectionInfo::default()
        },
    })
}

/// One mapping of a file; `None` where it maps nothing that the file loads.
fn module(sections: &Sections, start: u64, offset: u64, bytes: u64) -> Option<Module<Section>> {
    // A segment is mapped from the page that it begins in.
    let end = offset.saturating_add(bytes);
    let segment = |(from, _, length): &&(u64, u64, u64)| {
        *length > 0 && *from < end && from.saturating_add(*length) > offset
    };
    let (from, address, _) = sections.segments.iter().find(segment)?;
    let bias = start.wrapping_sub(offset).wrapping_add(*from).wrapping_sub(*address);
    Some(Module::new(
        String::new(),
        start..start.saturating_add(bytes),
        bias,
        sections.info.clone(),
    ))
}

#[cfg(test)]
#[path = "unwind_tests.rs"]
mod tests;
