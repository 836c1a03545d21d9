//! Blocks of code: QEMU's translations, with the function of each.

use super::files::Files;
use super::{registers, request};
use crate::api::{self, Api};
use crate::decode::{Exit, Facts};
use crate::target::Target;
use opcost_callgrind::settings::Settings;
use opcost_record::Architecture;
use opcost_record::emulation::LastInstruction;
use opcost_record::printable::printable;
use opcost_record::symbols::PAGE_BYTES;
use opcost_size::{Ran, Refused};
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A block has no more instructions (TCG_MAX_INSNS of include/tcg/tcg.h).
const INSTRUCTIONS_MAX: usize = 512;

/// Features whose instructions QEMU reads whole before it refuses them, so their lengths do not tell.
const NOT_IN_OLD_QEMU: [&str; 3] = ["RDPID", "VAES", "VPCLMULQDQ"];

/// A block, which lives for ever.
pub(super) struct Block {
    pub(super) number: u32,
    pub(super) start: u64,
    /// The addresses of its instructions, and the address behind the last.
    pub(super) addresses: Box<[u64]>,
    pub(super) function: u32,
    pub(super) section: u32,
    pub(super) is_entry: bool,
    /// Whether control leaves by a call or a return.
    pub(super) is_call: bool,
    pub(super) is_return: bool,
    /// Whether the last instruction repeats itself, each time as a block of its own.
    pub(super) repeats: bool,
    /// Why SIGILL ends the program here, if the last instruction can never finish.
    pub(super) traps: Option<Box<str>>,
    /// The instructions' bytes, if a client request is among them.
    pub(super) codes: Option<Box<[Vec<u8>]>>,
}

impl Block {
    /// The number of its instructions.
    pub(super) fn instructions(&self) -> usize {
        self.addresses.len() - 1
    }

    /// The address behind its last instruction.
    pub(super) fn end(&self) -> u64 {
        self.addresses[self.addresses.len() - 1]
    }

    /// The address of its last instruction.
    pub(super) fn last(&self) -> u64 {
        self.addresses[self.addresses.len() - 2]
    }

    /// The place of an instruction among the block's.
    pub(super) fn index(&self, address: u64) -> Option<usize> {
        self.addresses[..self.instructions()].binary_search(&address).ok()
    }
}

/// A client request in a block.
pub(super) struct Site {
    pub(super) block: &'static Block,
    pub(super) index: usize,
}

/// All blocks so far, with their files.
pub(super) struct Code {
    pub(super) files: Files,
    blocks: HashMap<(u64, u64, u32), &'static Block>,
    sites: HashMap<(u32, usize), &'static Site>,
    /// Pages with code, which QEMU protects.
    pub(super) pages: HashSet<u64>,
}

/// A translated block, and QEMU's handles of its instructions that are followed.
pub(super) struct Translated {
    pub(super) block: &'static Block,
    /// Instructions that access memory, with their place.
    pub(super) accesses: Vec<(*mut c_void, usize)>,
    /// Client requests.
    pub(super) requests: Vec<(*mut c_void, &'static Site)>,
}

impl Code {
    pub(super) fn new() -> Code {
        Code {
            files: Files::new(),
            blocks: HashMap::new(),
            sites: HashMap::new(),
            pages: HashSet::new(),
        }
    }

    /// Makes the block of a translation; `None` if it has no instruction.
    ///
    /// # Safety
    /// `handle` is QEMU's of the running callback.
    pub(super) unsafe fn translate(
        &mut self,
        api: &Api,
        target: &Target,
        settings: &Settings,
        handle: *mut c_void,
    ) -> Option<Translated> {
        // SAFETY: as the caller promises.
        let (start, handles) = unsafe {
            let count = (api.functions.block_length)(handle);
            let handles: Vec<*mut c_void> =
                (0..count).map(|index| (api.functions.instruction)(handle, index)).collect();
            ((api.functions.block_address)(handle), handles)
        };
        // SAFETY: the instructions are those of the running callback.
        let codes: Vec<api::Code> =
            handles.iter().map(|handle| unsafe { api.code(*handle) }).collect();
        let bytes: Vec<&[u8]> = codes.iter().map(api::Code::bytes).collect();
        let facts = (target.decode)(start, &bytes);
        let last = *facts.last()?;
        let mut addresses = vec![start];
        let mut requests = Vec::new();
        for (index, code) in bytes[..facts.len()].iter().enumerate() {
            let at = addresses[index];
            if request::ends(code, at) {
                requests.push(index);
            }
            addresses.push(at.wrapping_add(code.len() as u64));
        }
        let at = self.files.at(start, settings);
        let traps = self.cause(target.architecture, &addresses, last, settings);
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let key = (start, hasher.finish(), at.function);
        let number = self.blocks.len() as u32;
        self.pages.extend([start, addresses[addresses.len() - 1]].map(|at| at / PAGE_BYTES as u64));
        let block = *self.blocks.entry(key).or_insert_with(|| {
            let keeps = !requests.is_empty();
            Box::leak(Box::new(Block {
                number,
                start,
                addresses: addresses.into(),
                function: at.function,
                section: at.section,
                is_entry: at.is_entry,
                is_call: matches!(last.exit, Exit::Call | Exit::CallIndirect),
                is_return: last.exit == Exit::Return,
                repeats: last.repeat.is_some(),
                traps,
                codes: keeps
                    .then(|| bytes[..facts.len()].iter().map(|code| code.to_vec()).collect()),
            }))
        });
        let touches = |facts: &Facts| facts.loads + facts.stores > 0 || facts.repeat.is_some();
        let accesses = facts.iter().enumerate().filter(|(_, facts)| touches(facts));
        let accesses = accesses.map(|(index, _)| (handles[index], index)).collect();
        let mut site = |index: usize| {
            let known = self.sites.entry((block.number, index));
            (handles[index], &**known.or_insert_with(|| Box::leak(Box::new(Site { block, index }))))
        };
        let requests = requests.into_iter().map(&mut site).collect();
        Some(Translated { block, accesses, requests })
    }

    /// Why SIGILL ends a program at a block's last instruction, if it does: nothing else would have ended the block there.
    fn cause(
        &mut self,
        architecture: Architecture,
        addresses: &[u64],
        last: Facts,
        settings: &Settings,
    ) -> Option<Box<str>> {
        let &[.., address, end] = addresses else { return None };
        let page = |at: u64| at / PAGE_BYTES as u64;
        let ends_here = last.never_retires
            || last.exit == Exit::Next
                && addresses.len() <= INSTRUCTIONS_MAX
                && page(address) == page(end);
        if !ends_here {
            return None;
        }
        // QEMU reads no further than it needs to see that it cannot execute an instruction.
        let mut code = [0; LastInstruction::BYTES];
        let length = code.len().min(PAGE_BYTES - (address % PAGE_BYTES as u64) as usize);
        let is_read = registers::read(address, &mut code[..length]);
        let refused = Refused::read(&code[..length], address, architecture).filter(|_| is_read);
        let lacks = |refused: &Refused| {
            refused.features.iter().any(|feature| NOT_IN_OLD_QEMU.contains(&&**feature))
        };
        if !last.never_retires && !refused.as_ref().is_some_and(lacks) {
            return None;
        }
        let file = self.files.at(address, settings).section >> 1;
        let name = self.files.path(file as usize).rsplit('/').next().unwrap_or_default();
        let mut place = format!("{address:#x}");
        if !name.is_empty() {
            place += &format!(" in {}", printable(name));
        }
        let model = architecture.row().cpu_model;
        let cause = Ran::Callgrind { model }.cause(refused.as_ref(), Some(&place));
        Some(format!("signal 4 (SIGILL) kills it: {cause}").into())
    }
}
