//! Finds callers in a copy of a user's stack, by unwind information of the running code, for programs
//! that keep no frame pointers (`--call-graph dwarf`).
//!
//! The unwinder reads `.eh_frame` of the files on disk, and follows the frame pointer at addresses
//! without it (framehop). Behind a signal handler, the kernel's signal frame tells the interrupted
//! place. A chain that leaves the copy ends there, and is counted.
//!
//! framehop knows stack and frame pointer alone. Code that keeps its frame in another register, as the dynamic linker does where it
//! binds a function at its first call (`_dl_runtime_resolve`), makes the unwinder begin anew with all registers ([`whole`]).

mod whole;

use crate::event::{CONTEXT_USER, Sample};
use crate::space::{CodeFile, CodeKind, Spaces};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use object::elf::PF_X;
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};
use opcost_symbols::keyed::KeyedMap;
use opcost_symbols::section::{budget, contents};
use std::collections::HashMap;
use std::sync::Arc;
use whole::{FRAME_POINTER, Registers, STACK_POINTER};

/// The lowest address of code (`vm.mmap_min_addr`).
const CODE_MIN: u64 = 4096;
/// A stack with more frames is taken to run in circles.
const FRAMES_MAX: usize = 512;
/// The most address spaces kept ready; they share the sections of their files.
const SPACES_MAX: usize = 256;

/// The code to which a signal handler returns: the system call `rt_sigreturn`, number 15. It begins
/// with `mov $15, %rax` or `mov $15, %eax`, and no other code begins so.
const SIGNAL_RETURNS: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05], &[0xb8, 15, 0, 0, 0, 0x0f, 0x05]];
/// The bytes of a section, shared by all address spaces.
type Section = Arc<[u8]>;

/// The parts of a file that unwinding needs.
#[derive(Clone, Debug, Default)]
struct Sections {
    /// Offset, virtual address and length in the file of each segment of code.
    segments: Vec<(u64, u64, u64)>,
    info: ExplicitModuleSectionInfo<Section>,
}

/// An address space, ready for unwinding.
#[derive(Default)]
struct Space {
    unwinder: UnwinderX86_64<Section>,
    /// The mapped address of each file's `.text`, and its bytes.
    texts: Vec<(u64, Section)>,
    /// The unwind information of all files, for all registers.
    tables: whole::Tables,
}

impl Space {
    /// Whether the code at an address ends a signal handler.
    fn is_signal_return(&self, address: u64) -> bool {
        self.texts.iter().any(|(start, text)| {
            let at = address.checked_sub(*start).and_then(|at| usize::try_from(at).ok());
            let code = at.and_then(|at| text.get(at..));
            code.is_some_and(|code| SIGNAL_RETURNS.iter().any(|known| code.starts_with(known)))
        })
    }
}

/// The numbers of stacks that were not followed to their end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Unfinished {
    /// Stacks that went on beyond their copy.
    pub beyond_copy: u64,
    /// Stacks whose words lead nowhere.
    pub astray: u64,
}

/// Finds the callers of user code.
pub struct Unwinder {
    files: HashMap<CodeFile, Option<Sections>>,
    spaces: KeyedMap<u32, Space>,
    cache: CacheX86_64,
    unfinished: Unfinished,
}

impl Default for Unwinder {
    fn default() -> Self {
        Unwinder {
            files: HashMap::new(),
            spaces: KeyedMap::default(),
            cache: CacheX86_64::new(),
            unfinished: Unfinished::default(),
        }
    }
}

impl Unwinder {
    /// Returns the numbers of stacks not followed to their end since the last call.
    pub fn take_unfinished(&mut self) -> Unfinished {
        std::mem::take(&mut self.unfinished)
    }

    /// Writes into `chain` the sample's chain, followed by the user's callers.
    ///
    /// `spaces`: the mappings; `read`: returns the contents of a mapped file, or `None`. A sample
    /// without a copied stack keeps its chain.
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
        let Some(registers) = Registers::of(stack) else { return };
        let sp = registers.get(STACK_POINTER).unwrap_or(0);
        let version = spaces.version(sample.pid);
        if self.spaces.len() >= SPACES_MAX && !self.spaces.contains_key(&version) {
            self.spaces.clear();
        }
        let files = &mut self.files;
        let space = self.spaces.entry(version).or_insert_with(|| {
            let mut space = Space::default();
            for (file, start, offset, bytes) in spaces.mapped(sample.pid) {
                if file.kind != CodeKind::File {
                    continue;
                }
                let known = files.entry(file.clone());
                let known = known.or_insert_with(|| read(file).as_deref().and_then(sections));
                let Some(known) = known else { continue };
                let Some(module) = module(known, start, offset, bytes) else { continue };
                if let (Some(text), Some(range)) = (&known.info.text, &known.info.text_svma) {
                    space.texts.push((module.base_avma().wrapping_add(range.start), text.clone()));
                }
                space.tables.add(start, bytes, module.base_avma(), &known.info);
                space.unwinder.add_module(module);
            }
            space
        });
        let mut beyond_copy = false;
        let mut memory = |address: u64| {
            let at = usize::try_from(address.checked_sub(sp).ok_or(())?).map_err(|_| ())?;
            let word = stack.bytes.get(at..).and_then(|rest| rest.first_chunk());
            beyond_copy |= word.is_none();
            Ok(u64::from_le_bytes(*word.ok_or(())?))
        };
        // A call may be the last instruction of a mapping, and the end of a signal handler the first.
        let is_code = |address: u64| spaces.place(sample.pid, address).is_some();
        let is_mapped = |caller: u64| is_code(caller - 1) || is_code(caller);
        let kernel = chain.len();
        let cache = &mut self.cache;
        let mut end = follow(space, Some(cache), registers.clone(), &mut memory, is_mapped, chain);
        if end == End::OtherRegisters {
            chain.truncate(kernel);
            end = follow(space, None, registers, &mut memory, is_mapped, chain);
        }
        if end != End::Outermost && beyond_copy {
            self.unfinished.beyond_copy += 1;
        } else if end != End::Outermost {
            self.unfinished.astray += 1;
        }
    }
}

/// How a chain ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Outermost,
    /// The stack's words lead nowhere, or beyond the copy.
    Lost,
    /// A frame is kept in another register than framehop knows.
    OtherRegisters,
}

/// Appends the frames from these registers outwards.
///
/// `cache`: framehop's, or `None` to unwind with all registers; `is_mapped`: whether a call may return to an address.
fn follow(
    space: &mut Space,
    mut cache: Option<&mut CacheX86_64>,
    mut registers: Registers,
    memory: &mut impl FnMut(u64) -> Result<u64, ()>,
    is_mapped: impl Fn(u64) -> bool,
    chain: &mut Vec<u64>,
) -> End {
    let mut frame = FrameAddress::from_instruction_pointer(registers.ip);
    for _ in 0..FRAMES_MAX {
        let address = frame.address();
        // No call leads to an interrupted instruction or to the end of a signal handler; a marker
        // tells that these addresses are not behind a call.
        let signal_return = space.is_signal_return(address);
        if signal_return || !frame.is_return_address() {
            chain.push(CONTEXT_USER);
        }
        chain.push(address);
        if signal_return {
            let Ok(()) = registers.interrupted(memory) else { return End::Lost };
            frame = FrameAddress::from_instruction_pointer(registers.ip);
            continue;
        }
        let lookup = frame.address_for_lookup();
        let caller = match &mut cache {
            Some(_) if space.tables.is_kept_elsewhere(lookup) => return End::OtherRegisters,
            Some(cache) => {
                let [bp, sp] =
                    [FRAME_POINTER, STACK_POINTER].map(|at| registers.get(at).unwrap_or(0));
                let mut three = UnwindRegsX86_64::new(registers.ip, sp, bp);
                let caller = space.unwinder.unwind_frame(frame, &mut three, cache, memory);
                registers.set(FRAME_POINTER, three.bp());
                registers.set(STACK_POINTER, three.sp());
                caller.map_err(|_| ())
            }
            None => space.tables.step(lookup, &mut registers, memory),
        };
        let caller = match caller {
            Ok(Some(caller)) if caller >= CODE_MIN => caller,
            // Nothing calls a program's first function; the number of arguments is there.
            Ok(_) => return End::Outermost,
            Err(()) => return End::Lost,
        };
        registers.ip = caller;
        match FrameAddress::from_return_address(caller) {
            Some(next) if is_mapped(caller) => frame = next,
            _ => return End::Lost,
        }
    }
    End::Lost
}

/// Reads the sections of an ELF file; `None` if it is not one.
fn sections(file: &[u8]) -> Option<Sections> {
    let budget = budget(file);
    let file = object::File::parse(file).ok()?;
    let range = |name| {
        let section = file.section_by_name(name)?;
        Some(section.address()..section.address().saturating_add(section.size()))
    };
    let data = |name| {
        let section = file.section_by_name(name)?;
        Some(Section::from(contents(&section, &budget).ok()?.as_ref()))
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

/// Makes the module of a file's mapping; `None` if no segment of code is mapped there.
fn module(sections: &Sections, start: u64, offset: u64, bytes: u64) -> Option<Module<Section>> {
    // A segment is mapped from the start of its first page.
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
mod tests;
