//! Makes a [`Block`] of what QEMU translates, and asks QEMU to count in it.

use crate::api::{self, Api, Code};
use crate::arguments::Filters;
use crate::attribution::Owner;
use crate::block::{Block, MarkerSite, NEVER, SPECIAL, UNTOUCHED, cost, run_ends};
use crate::callback;
use crate::core::{Core, leak};
use crate::decode::{Exit, Repeat, decode, may_end_with_repeat};
use crate::refusal::{self, Refusal};
use crate::repeat::Site;
use opcost_record::symbols::PAGE_BYTES;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Blocks at most: about 400 bytes each with six instructions.
const BLOCKS_MAX: usize = 1 << 21;

/// Addresses from here on are the kernel's in 64-bit mode: the upper half of the address space.
const KERNEL_START: u64 = 1 << 63;

/// What tells one block from another: address, instructions, hash of the code, function.
type Key = (u64, usize, u64, u32);

/// The blocks that were made, and the places behind repeated string instructions.
#[derive(Default)]
pub(crate) struct Translator {
    blocks: HashMap<Key, *mut Block>,
    sites: HashMap<u64, *mut Site>,
}

thread_local! {
    /// Of the one thread that translates.
    static TRANSLATOR: RefCell<Translator> = RefCell::default();
}

/// QEMU translates a block.
///
/// # Safety
/// `handle` is what QEMU passed to the callback that is running.
pub(crate) unsafe fn on_translation(handle: *mut c_void) {
    if !callback::owned() {
        refusal::refuse(Refusal::Thread);
        return;
    }
    // SAFETY: this thread owns the state, and QEMU passed the handle to this callback.
    TRANSLATOR.with_borrow_mut(|translator| unsafe {
        translator.translate(callback::core(), handle);
    });
}

/// One instruction as QEMU has it.
struct Source {
    handle: *mut c_void,
    code: Code,
}

impl Translator {
    /// Looks at a block that was translated.
    ///
    /// # Safety
    /// `handle` is what QEMU passed to the callback that is running.
    pub(crate) unsafe fn translate(&mut self, core: &mut Core, handle: *mut c_void) {
        let api = api::api();
        // SAFETY: the handle is QEMU's, and what it lends lives until the callback returns.
        let (start, sources, host) = unsafe { read(api, handle) };
        if sources.is_empty() {
            return;
        }
        let codes: Vec<&[u8]> = sources.iter().map(|source| source.code.bytes()).collect();
        let kernel = core.arguments.system && start >= KERNEL_START;
        // SAFETY: QEMU keeps the page of the first instruction mapped until the callback returns.
        let page = host.map(|host| unsafe { page_of(host) });
        let owner = if !core.arguments.profile {
            Owner { function: 0, at_entry: false }
        } else if kernel {
            core.attribution.kernel_owner(start)
        } else {
            core.attribution.user_owner(start, page.filter(|_| core.attribution.has_pages()))
        };
        let mut hasher = DefaultHasher::new();
        codes.hash(&mut hasher);
        let key = (start, codes.len(), hasher.finish(), owner.function);
        let block = match self.blocks.get(&key) {
            Some(block) => *block,
            None => {
                if self.blocks.len() >= BLOCKS_MAX {
                    core.failure.get_or_insert_with(|| {
                        format!("the guest ran more than {BLOCKS_MAX} different blocks of code")
                    });
                    return;
                }
                let block = self.make(core, start, &codes, owner, kernel, page);
                self.blocks.insert(key, block);
                block
            }
        };
        // SAFETY: blocks are never freed, and no other reference to this one is in use.
        let block_ref = unsafe { &mut *block };
        let handles: Vec<*mut c_void> = sources.iter().map(|source| source.handle).collect();
        let mut request = Request { api, core, handle, handles: &handles };
        // SAFETY: the handles are QEMU's; block and sites live for ever.
        unsafe { request.count(self, block, block_ref) };
    }

    fn make(
        &mut self,
        core: &Core,
        start: u64,
        codes: &[&[u8]],
        owner: Owner,
        kernel: bool,
        page: Option<&[u8; PAGE_BYTES]>,
    ) -> *mut Block {
        let facts = decode(start, codes);
        let codes = &codes[..facts.len()];
        let ends = run_ends(&facts);
        let mut offset = 0u16;
        let mut offsets = Vec::with_capacity(codes.len());
        for code in codes {
            offsets.push(offset);
            offset = offset.wrapping_add(code.len() as u16);
        }
        let last = facts[facts.len() - 1];
        let within = (start % PAGE_BYTES as u64) as usize;
        let before = page.map_or(&[][..], |page| &page[within.saturating_sub(5)..within]);
        let behind = may_end_with_repeat(before).then(|| self.site(start, kernel));
        let behind_last = start.wrapping_add(u64::from(offset));
        let repeats = last.repeat.is_some().then(|| self.site(behind_last, kernel));
        let landmark = core.attribution.landmark(start);
        let special = if behind.is_some() || landmark.is_some() { SPECIAL } else { 0 };
        let turns = matches!(
            last.exit,
            Exit::Call | Exit::CallIndirect | Exit::Return | Exit::Leave | Exit::Enter
        );
        let ends_doubtful = last.may_fault && last.repeat.is_none();
        let tells_done = ends_doubtful && last.loads + last.stores > 0;
        // The model's table of targets learns from each.
        let learns = core.model.is_some() && last.exit == Exit::JumpIndirect;
        let end = start.wrapping_add(u64::from(offset));
        let fetch = core.model.as_ref().map(|model| model.prepare(start, end)).unwrap_or_default();
        let cost = cost(&facts);
        leak(Block {
            count: 0,
            last: 0,
            last_mask: if ends.len() > 1 { u64::MAX } else { 0 },
            tag: owner.function | special | UNTOUCHED,
            exit_tag: if turns || ends_doubtful || learns || last.may_be_refused {
                NEVER
            } else {
                owner.function
            },
            retired: cost.instructions,
            done: 0,
            start,
            end,
            last_at: start.wrapping_add(u64::from(offsets[offsets.len() - 1])),
            fetch,
            function: owner.function,
            at_entry: owner.at_entry,
            kernel,
            exit: last.exit,
            tells_done,
            doubtful: ends_doubtful && !tells_done && !last.never_retires,
            landmark,
            behind,
            repeats,
            summed: 0,
            cost,
            cells: vec![0; ends.len().saturating_sub(2)].into(),
            ends: ends.into(),
            facts: facts.into_iter().zip(offsets).collect(),
        })
    }

    /// The place behind a repeated string instruction.
    fn site(&mut self, address: u64, kernel: bool) -> *mut Site {
        *self.sites.entry(address).or_insert_with(|| leak(Site { kernel, ..Site::default() }))
    }
}

/// What is asked of QEMU for one block.
struct Request<'a> {
    api: &'static Api,
    core: &'a mut Core,
    handle: *mut c_void,
    handles: &'a [*mut c_void],
}

impl Request<'_> {
    /// # Safety
    /// The handles are QEMU's of the running callback; `block` and `known` are the same block,
    /// which lives for ever.
    unsafe fn count(&mut self, translator: &mut Translator, block: *mut Block, known: &mut Block) {
        let api = self.api;
        let last = known.facts.len() - 1;
        let data = block.cast::<c_void>();
        let (last_facts, _) = known.facts[last];
        // A repeated string instruction alone begins for each of its iterations: no callback,
        // except where something else is to be seen at its address.
        let alone = last == 0 && last_facts.repeat.is_some();
        // SAFETY: the handles are QEMU's; what the data point to lives for ever.
        unsafe {
            if !alone || known.at_entry || known.landmark.is_some() {
                let function = if self.core.arguments.model {
                    callback::on_modelled_block
                } else {
                    callback::on_block
                };
                (api.functions.on_block)(self.handle, function, api::NO_REGISTERS, data);
            } else if let Some(site) = known.behind {
                (api.functions.on_block)(
                    self.handle,
                    callback::on_pass,
                    api::NO_REGISTERS,
                    site.cast(),
                );
            }
            for run in 1..known.ends.len() {
                let first = usize::from(known.ends[run - 1]) + 1;
                let cell = known.cell(run);
                api.add_at_instruction(self.handles[first], cell);
            }
            if known.tells_done {
                let both = last_facts.loads > 0 && last_facts.stores > 0;
                let function = if both { callback::on_end_store } else { callback::on_end_access };
                let instruction = self.handles[last];
                (api.functions.on_memory)(
                    instruction,
                    function,
                    api::NO_REGISTERS,
                    api::READ_WRITE,
                    data,
                );
            }
            for (index, (facts, _)) in known.facts.iter().enumerate() {
                let instruction = self.handles[index];
                if let Some(marker) = facts.marker {
                    let site = leak(MarkerSite { block, index, marker });
                    let function = callback::on_marker;
                    (api.functions.on_instruction)(
                        instruction,
                        function,
                        api::NO_REGISTERS,
                        site.cast(),
                    );
                }
                if let Some(kind) = facts.repeat {
                    let site = translator.site(known.end, known.kernel);
                    self.repeat(instruction, kind, site);
                }
                if self.core.arguments.model
                    && (facts.loads + facts.stores > 0 || facts.repeat.is_some())
                {
                    let domain = if known.kernel {
                        callback::on_kernel_access
                    } else {
                        callback::on_user_access
                    };
                    (api.functions.on_memory)(
                        instruction,
                        domain,
                        api::NO_REGISTERS,
                        api::READ_WRITE,
                        std::ptr::null_mut(),
                    );
                }
            }
        }
    }

    /// # Safety
    /// `instruction` is QEMU's of the running callback, and `site` lives for ever.
    unsafe fn repeat(&mut self, instruction: *mut c_void, kind: Repeat, site: *mut Site) {
        let api = self.api;
        // SAFETY: sites live for ever, and no other reference to one is in use.
        if !std::mem::replace(unsafe { &mut (*site).listed }, true) {
            self.core.sites.push(site);
        }
        let filters: &Filters = &self.core.arguments.filters;
        // SAFETY: as the caller promises; the counters live as long as site and core, for ever.
        unsafe {
            api.add_at_instruction(instruction, &raw mut (*site).starts);
            if kind == Repeat::Cmps {
                // The second of its loads may fault after the first was done: pairs are counted.
                let (on_start, on_load) = (callback::on_compare, callback::on_compare_load);
                (api.functions.on_instruction)(
                    instruction,
                    on_start,
                    api::NO_REGISTERS,
                    site.cast(),
                );
                (api.functions.on_memory)(
                    instruction,
                    on_load,
                    api::NO_REGISTERS,
                    api::READ_WRITE,
                    site.cast(),
                );
            } else {
                let cell = &raw mut (*site).accesses[kind as usize];
                api.add_at_memory(instruction, filters.filter(kind), cell);
            }
            if self.core.arguments.probe {
                for filter in [api::READ, api::WRITE, api::READ_WRITE] {
                    let cell = &raw mut self.core.probes[kind as usize][filter as usize - 1];
                    api.add_at_memory(instruction, filter, cell);
                }
            }
        }
    }
}

/// Address, instructions and the host address of the first, of a block.
///
/// # Safety
/// `handle` is QEMU's of the running callback; the result must not outlive it.
unsafe fn read(api: &Api, handle: *mut c_void) -> (u64, Vec<Source>, Option<*const u8>) {
    let functions = &api.functions;
    // SAFETY: the handle is QEMU's, and indices are below the length it tells.
    unsafe {
        let start = (functions.block_address)(handle);
        let sources: Vec<Source> = (0..(functions.block_length)(handle))
            .map(|index| {
                let handle = (functions.instruction)(handle, index);
                Source { handle, code: api.code(handle) }
            })
            .collect();
        let host = sources.first().map(|first| (functions.instruction_host_address)(first.handle));
        // Code that is not in memory has no host address; QEMU then tells a small number.
        let host = host.filter(|host| {
            let address = *host as u64;
            address > 1 << 16 && address < 1 << 47 && address % 4096 == start % 4096
        });
        (start, sources, host)
    }
}

/// The contents of the page that a host address is in.
///
/// # Safety
/// The address is one of guest memory, which QEMU maps by whole pages.
unsafe fn page_of<'a>(host: *const u8) -> &'a [u8; PAGE_BYTES] {
    let within = host as usize % PAGE_BYTES;
    // SAFETY: guest memory is mapped by whole pages, aligned on the host as in the guest.
    unsafe { &*host.sub(within).cast::<[u8; PAGE_BYTES]>() }
}
