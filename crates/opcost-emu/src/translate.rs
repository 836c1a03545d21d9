//! Makes a [`Block`] from QEMU's translation, and has QEMU count the block.

use crate::api::{self, Api, Beginning, Code};
use crate::arguments::{Filters, Window};
use crate::attribution::Owner;
use crate::block::{Block, Ending, MarkerSite, is_kernel};
use crate::callback;
use crate::decode::{Exit, Facts, Repeat};
use crate::footprint::{ON_LINES, clears, on_access, on_clear, on_cleared};
use crate::main_loop;
use crate::plugin::{Plugin, leak};
use crate::refusal::{self, Refusal};
use crate::repeat::Site;
use crate::steps::{decider_of, on_stepped_block};
use crate::timing::access_data;
use crate::totals::Closing;
use crate::watching::{on_block_behind_call, on_first_block, on_watched_block};
use opcost_record::symbols::PAGE_BYTES;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;

/// Largest number of blocks; a block of six instructions takes about 400 bytes.
const BLOCKS_MAX: usize = 1 << 21;

/// The identity of a block: address, number of instructions, hash of the code, function, whether the kernel's entries tell its cuts,
/// and the restorer if the block is a handler of signals.
type Key = (u64, usize, u64, u32, bool, Option<u64>);

/// The blocks so far, and the places behind repeated string instructions.
#[derive(Default)]
pub(crate) struct Translator {
    blocks: HashMap<Key, &'static Block>,
    sites: HashMap<u64, *mut Site>,
}

thread_local! {
    /// The translator of the one thread that translates.
    static TRANSLATOR: RefCell<Translator> = RefCell::default();
}

/// Called when QEMU translates a block.
///
/// # Safety
/// `handle` is QEMU's argument of the running callback.
pub(crate) unsafe fn on_translation(handle: *mut c_void) {
    if !callback::owned() {
        refusal::refuse(Refusal::Thread);
        return;
    }
    // SAFETY: this thread owns the state, and QEMU passed the handle to this callback.
    TRANSLATOR.with_borrow_mut(|translator| unsafe {
        translator.translate(callback::plugin(), handle);
    });
}

/// One instruction with QEMU's handle.
struct Source {
    handle: *mut c_void,
    code: Code,
}

impl Translator {
    /// Has a translated block counted.
    ///
    /// # Safety
    /// `handle` is QEMU's argument of the running callback.
    pub(crate) unsafe fn translate(&mut self, plugin: &mut Plugin, handle: *mut c_void) {
        let api = api::api();
        if !plugin.one_vcpu {
            api.set_translating(plugin.vcpus.running());
        }
        // SAFETY: the handle is QEMU's, and lent data live until the callback returns.
        let (start, sources, host) = unsafe { read(api, handle) };
        if plugin.arguments.system {
            main_loop::know_thread();
            for source in sources.iter().filter(|source| (plugin.target.halts)(source.code.bytes()))
            {
                // SAFETY: the handle is QEMU's of the running callback.
                unsafe { main_loop::keep_clock(api, source.handle) };
            }
        }
        if sources.is_empty() || plugin.arguments.window == Window::Never {
            return;
        }
        let codes: Vec<&[u8]> = sources.iter().map(|source| source.code.bytes()).collect();
        if !plugin.arguments.system {
            plugin.stack.attach();
            plugin.watch_own_stores(start, byte_sum(&codes));
        }
        let kernel = plugin.arguments.system && is_kernel(start);
        // SAFETY: QEMU keeps the page of the first instruction mapped until the callback returns.
        let page = host.map(|host| unsafe { page_of(host) });
        if let Some(last) = &plugin.last {
            last.note(start, &codes, page);
        }
        let owner = if !plugin.arguments.profile {
            Owner { function: 0, at_entry: false, linked_at: start }
        } else if kernel {
            let memory = host.filter(|_| plugin.target.maps_text_again).map(|host| host as usize);
            plugin.attribution.kernel_owner(start, memory)
        } else {
            plugin.attribution.user_owner(start, page.filter(|_| plugin.attribution.has_pages()))
        };
        let mut hasher = DefaultHasher::new();
        codes.hash(&mut hasher);
        let restorer = plugin.handlers.get(&start).copied();
        let key = (start, codes.len(), hasher.finish(), owner.function, plugin.by_entry, restorer);
        let block = match self.blocks.get(&key) {
            Some(block) => *block,
            None => {
                if plugin.blocks.len() >= BLOCKS_MAX {
                    plugin.failure.get_or_insert_with(|| {
                        format!("the guest ran more than {BLOCKS_MAX} different blocks of code")
                    });
                    return;
                }
                let block = self.make(plugin, start, &codes, owner, kernel, page);
                self.blocks.insert(key, block);
                block
            }
        };
        let handles: Vec<*mut c_void> = sources.iter().map(|source| source.handle).collect();
        let mut request = Request { api, plugin, handle, handles: &handles };
        // SAFETY: the handles are QEMU's; block and sites live for ever.
        unsafe { request.count(self, block) };
    }

    fn make(
        &mut self,
        plugin: &mut Plugin,
        start: u64,
        codes: &[&[u8]],
        owner: Owner,
        kernel: bool,
        page: Option<&[u8; PAGE_BYTES]>,
    ) -> &'static Block {
        let target = plugin.target;
        let facts = (target.decode)(start, codes);
        let last = facts[facts.len() - 1];
        let within = (start % PAGE_BYTES as u64) as usize;
        let before = page.map_or(&[][..], |page| &page[within.saturating_sub(5)..within]);
        let before_call = page.map_or(&[][..], |page| &page[within.saturating_sub(8)..within]);
        let behind_call = (target.may_end_with_call)(before_call);
        let behind = (target.may_end_with_repeat)(before).then(|| self.site(start, kernel));
        let landmark = plugin.attribution.landmark(start).or_else(|| {
            let unnamed =
                kernel && plugin.arguments.profile && !plugin.attribution.has_kernel(start);
            let entry = (target.unnamed_entry)(start, codes[0]).filter(|_| unnamed);
            entry.map(|entry| plugin.attribution.unnamed(entry))
        });
        let turns = matches!(
            last.exit,
            Exit::Call | Exit::CallIndirect | Exit::Return | Exit::Leave | Exit::Enter
        );
        let by_entry = plugin.by_entry;
        // Without contexts, calls and returns mean nothing once faults are told otherwise.
        let turns = turns && (plugin.arguments.profile || !by_entry || last.exit == Exit::Leave);
        // After such a block the next one always gets a closer look; the kernel's entries are special anyway.
        let ends_doubtful = last.may_fault && last.repeat.is_none() && !by_entry;
        let restorer = plugin.handlers.get(&start).copied();
        let special = behind.is_some() || landmark.is_some() || restorer.is_some();
        // The next block shows whether a string instruction faulted; the block behind the instruction is special.
        let repeats = last.repeat.is_some();
        let faults = !by_entry && (repeats || last.may_be_refused);
        let turns = turns || ends_doubtful || faults;
        let steps = by_entry
            && !kernel
            && target.restarts_own_stores
            && may_reach_own_store(start, codes, &facts, target.branch_target);
        let code =
            plugin.timing.as_ref().map(|timing| timing.core().decode(start, &codes[..facts.len()]));
        let branch_target = plugin.steps.as_ref().map(|_| {
            (target.branch_target)(
                start + byte_sum(&codes[..facts.len() - 1]),
                codes[facts.len() - 1],
            )
        });
        let number = plugin.blocks.len() as u64 + 1;
        let by_address = plugin.addresses.is_some();
        let block = plugin.blocks.add(|place, count| {
            let mut block = Block::new(start, codes, facts, count);
            (block.number, block.linked_at) = (number, owner.linked_at);
            block.code = code;
            block.popped = (target.popped)(block.exit, codes[block.facts.len() - 1]);
            // One instruction may access memory more than once, and fault in between.
            if target.links() && block.ending == Ending::Tells {
                block.ending = Ending::Doubtful;
            }
            block.repeats = repeats.then(|| self.site(block.end(), kernel));
            if let Some(site) = block.repeats.filter(|_| by_address) {
                let address = block.link_address(block.facts.len() - 1);
                // SAFETY: sites live for ever, and no other reference to one is in use.
                unsafe { (*site).link(owner.function, address) };
            }
            (block.landmark, block.restorer, block.behind) = (landmark, restorer, behind);
            (block.at_entry, block.kernel, block.behind_call) =
                (owner.at_entry, kernel, behind_call);
            let mut special = special;
            if by_entry {
                special |= block.is_one_access();
                block = block.cut_by_entries(steps);
            }
            block.tagged(owner.function, special, turns).placed(place, target.return_bytes)
        });
        if let (Some(steps), Some(goes)) = (&mut plugin.steps, branch_target) {
            steps.learn(number, decider_of(block, codes, goes, target.decide));
        }
        block
    }

    /// Returns the place behind a repeated string instruction.
    fn site(&mut self, address: u64, kernel: bool) -> *mut Site {
        *self.sites.entry(address).or_insert_with(|| leak(Site { kernel, ..Site::default() }))
    }
}

/// The callbacks and inline operations to be registered for one block.
struct Request<'a> {
    api: &'static Api,
    plugin: &'a mut Plugin,
    handle: *mut c_void,
    handles: &'a [*mut c_void],
}

impl Request<'_> {
    /// # Safety
    /// The handles are QEMU's of the running callback.
    unsafe fn count(&mut self, translator: &mut Translator, known: &'static Block) {
        // SAFETY: as the caller promises.
        unsafe {
            if self.plugin.totals.is_none() {
                self.count_contexts(known);
            }
            self.watch_instructions(translator, known);
            self.watch_footprint(known);
            // At an instruction QEMU calls before it adds: up to version 2 always, later in the order of registration.
            if self.plugin.totals.is_some() {
                self.count_total(known);
            }
        }
    }

    /// Has the block's cost counted where its instructions are charged to contexts.
    ///
    /// # Safety
    /// The handles are QEMU's of the running callback.
    unsafe fn count_contexts(&mut self, known: &'static Block) {
        let api = self.api;
        let last = known.facts.len() - 1;
        let data = ptr::from_ref(known).cast_mut().cast::<c_void>();
        let (last_facts, _) = known.facts[last];
        // A repeated string instruction alone in its block begins once per iteration. It gets no callback, except where its address
        // has another meaning, where instructions are counted by address, or on a modelled core.
        let has_meaning =
            known.at_entry || known.landmark.is_some() || self.plugin.addresses.is_some();
        let alone = last == 0 && last_facts.repeat.is_some() && !has_meaning;
        // SAFETY: the handles are QEMU's; what the data point to lives for ever.
        unsafe {
            if !alone {
                self.begin(known, data);
                self.watch(known, data);
            } else if self.plugin.timing.is_some() {
                let function = callback::on_timed_repeat;
                (api.functions.on_block)(self.handle, function, api::NO_REGISTERS, data);
            } else if let Some(site) = known.behind {
                (api.functions.on_block)(
                    self.handle,
                    callback::on_pass,
                    api::NO_REGISTERS,
                    site.cast(),
                );
            }
            let expected = &raw mut (*self.plugin.cells).expected;
            if known.by_entry {
                if known.begun_tag != known.exit_tag() {
                    api.step_at_instruction(self.handles[last], expected, known.exit_tag());
                }
            } else {
                for (first, run) in known.later_starts().zip(1..) {
                    let next = known.begun_tag.wrapping_add(run);
                    api.step_at_instruction(self.handles[first], expected, next);
                }
            }
            let tells =
                if known.by_entry { known.is_one_access() } else { known.ending == Ending::Tells };
            if tells {
                let both = last_facts.loads > 0 && last_facts.stores > 0 && !known.by_entry;
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
        }
    }

    /// Has QEMU count the block, and call the plugin only where a cut may become visible.
    ///
    /// # Safety
    /// The handles are QEMU's of the running callback.
    unsafe fn count_total(&mut self, known: &'static Block) {
        let Some(totals) = &mut self.plugin.totals else { return };
        let first = !std::mem::replace(&mut totals.began, true);
        let shows = first && !totals.cuts && self.plugin.target.signalled.is_some();
        let (api, open) = (self.api, totals.open);
        let last = known.facts.len() - 1;
        let data = ptr::from_ref(known).cast_mut().cast::<c_void>();
        let (last_facts, _) = known.facts[last];
        let closing = totals.closing(known);
        let cuts = totals.cuts;
        // SAFETY: the handles are QEMU's; cells and counts live for ever, as does what the data point to. QEMU calls at a block's
        // beginning before it adds.
        unsafe {
            if shows {
                (api.functions.on_block)(self.handle, on_first_block, api::NO_REGISTERS, data);
            }
            if self.plugin.needs_look(known) {
                (api.functions.on_block)(self.handle, callback::on_total, api::NO_REGISTERS, data);
            }
            // The iterations of a string instruction are counted apart.
            if last > 0 || last_facts.repeat.is_none() {
                api.add_at_block(self.handle, known.count, 1);
            }
            if closing == Closing::AtLast {
                api.add_at_block(self.handle, open, known.number);
                api.add_at_instruction(self.handles[last], open, known.number.wrapping_neg());
            }
            let learns =
                self.plugin.learns_calls() && known.kernel && last_facts.exit == Exit::Call;
            if cuts && known.is_one_access() || closing == Closing::ByStore || learns {
                (api.functions.on_memory)(
                    self.handles[last],
                    callback::on_total_access,
                    api::NO_REGISTERS,
                    api::READ_WRITE,
                    data,
                );
            }
        }
    }

    /// Has the plugin told of markers, of repeated string instructions, and of accesses to memory that a model needs.
    ///
    /// # Safety
    /// The handles are QEMU's of the running callback.
    unsafe fn watch_instructions(&mut self, translator: &mut Translator, known: &'static Block) {
        let api = self.api;
        // SAFETY: the handles are QEMU's; what the data point to lives for ever.
        unsafe {
            for (index, (facts, _)) in known.facts.iter().enumerate() {
                let instruction = self.handles[index];
                if let Some(marker) = facts.marker {
                    let site = leak(MarkerSite { block: known, index, marker });
                    let function = callback::on_marker;
                    (api.functions.on_instruction)(
                        instruction,
                        function,
                        api::NO_REGISTERS,
                        site.cast(),
                    );
                }
                if let Some(kind) = facts.repeat {
                    let site = translator.site(known.end(), known.kernel);
                    self.repeat(instruction, kind, known.end(), site);
                }
                // A modelled core needs every access of an instruction.
                if self.plugin.timing.is_some() {
                    (api.functions.on_memory)(
                        instruction,
                        callback::on_timed_access,
                        api::NO_REGISTERS,
                        api::READ_WRITE,
                        access_data(index, facts.repeat),
                    );
                }
            }
        }
    }

    /// Has the plugin told of the lines that instructions use, if these are counted.
    ///
    /// # Safety
    /// The handles are QEMU's of the running callback.
    unsafe fn watch_footprint(&mut self, known: &'static Block) {
        let Plugin { footprint: Some(footprint), arguments, target, .. } = &mut *self.plugin else {
            return;
        };
        let functions = &self.api.functions;
        let (mut places, mut lengths) = (Vec::new(), Vec::new());
        // SAFETY: the handles are QEMU's; what the data point to lives for ever.
        unsafe {
            for (index, handle) in self.handles.iter().enumerate().take(known.facts.len()) {
                let address = known.address(index);
                let place = match arguments.system {
                    true => host_address((functions.instruction_host_address)(*handle), address),
                    false => Some(address as *const u8),
                };
                places.push(place.map(|place| place as u64));
                lengths.push((functions.instruction_size)(*handle) as u64);
            }
            for (index, lines) in footprint.lines_of(known, &places, &lengths) {
                let instruction = self.handles[index];
                (functions.on_instruction)(instruction, ON_LINES, api::NO_REGISTERS, lines);
            }
            for (index, handle) in self.handles.iter().enumerate().take(known.facts.len()) {
                let (facts, _) = &known.facts[index];
                if let Some(register) = clears(target, self.api.code(*handle).bytes(), facts) {
                    let data = usize::from(register) | usize::from(known.kernel) << 5;
                    let data = ptr::without_provenance_mut(data);
                    (functions.on_instruction)(*handle, on_clear, api::NO_REGISTERS, data);
                    if let Some(next) = self.handles.get(index + 1) {
                        let data = ptr::null_mut();
                        (functions.on_instruction)(*next, on_cleared, api::NO_REGISTERS, data);
                    }
                }
                let function = on_access(known.kernel);
                let data = ptr::null_mut();
                (functions.on_memory)(*handle, function, api::NO_REGISTERS, api::READ_WRITE, data);
            }
        }
    }

    /// Has QEMU or a callback count the block when it begins.
    ///
    /// # Safety
    /// The handles are QEMU's of the running callback; `data` is the block, as callbacks get it.
    unsafe fn begin(&mut self, block: &'static Block, data: *mut c_void) {
        let cells = self.plugin.cells;
        // SAFETY: as the caller promises; cells and counts live for ever.
        unsafe {
            let expected = &raw mut (*cells).expected;
            let last = ((&raw mut (*cells).last).cast(), data.addr() as u64);
            // No store for an unchanged `expected`, and none for `last` if `expected` holds the block.
            let stores: &[(*mut u64, u64)] = match block.begun_tag {
                tag if tag == block.tag => &[last],
                tag if block.is_held() => &[(expected, tag)],
                tag => &[last, (expected, tag)],
            };
            let beginning = Beginning {
                unless: (expected, block.tag),
                call: (callback::on_turn, data),
                adds: &[(block.count, 1), (&raw mut (*cells).retired, block.retired.into())],
                stores,
            };
            let timed = self.plugin.timing.is_some();
            let apart = self.plugin.addresses.is_some();
            let stepped = self.plugin.steps.is_some() || self.plugin.footprint.is_some();
            let by_callback = timed || apart || stepped || !self.plugin.one_vcpu;
            if by_callback || !self.api.begin_alone(self.handle, &beginning) {
                let function = match (timed, apart) {
                    _ if stepped => on_stepped_block,
                    (true, _) => callback::on_timed_block,
                    (false, true) => callback::on_block_apart,
                    (false, false) => self.counting(block),
                };
                (self.api.functions.on_block)(self.handle, function, api::NO_REGISTERS, data);
            }
        }
    }

    /// Has the plugin look at the entries of watched functions, and at blocks to which they may return.
    ///
    /// # Safety
    /// As for [`begin`](Self::begin), which comes first.
    unsafe fn watch(&mut self, block: &'static Block, data: *mut c_void) {
        // Only on x86-64 a new program's registers are known.
        let is_program = !self.plugin.arguments.system && self.plugin.target.signalled.is_some();
        let Some(watching) = &mut self.plugin.watching else { return };
        let first = is_program && !std::mem::replace(&mut watching.began, true);
        let looks = [
            (first, on_first_block as api::ExecCallback),
            (block.behind_call && watching.awaits(), on_block_behind_call),
            (block.at_entry && watching.has(block.function), on_watched_block),
        ];
        for (_, look) in looks.into_iter().filter(|(wanted, _)| *wanted) {
            // SAFETY: as the caller promises.
            unsafe { (self.api.functions.on_block)(self.handle, look, api::NO_REGISTERS, data) };
        }
    }

    /// Returns the function that counts a block which QEMU cannot count by itself.
    fn counting(&mut self, block: &'static Block) -> api::ExecCallback {
        let Plugin { one_vcpu, arguments, cells, stubs, .. } = &mut *self.plugin;
        // A kernel's code is large: its stubs miss the host's cache of instructions as often as the function misses that of data.
        if !*one_vcpu || !arguments.stubs || arguments.system {
            return callback::on_block;
        }
        if block.special() {
            return callback::on_look;
        }
        stubs.of(block, *cells, callback::on_look).unwrap_or(callback::on_block)
    }

    /// # Safety
    /// `instruction` is QEMU's of the running callback, and `site` lives for ever.
    unsafe fn repeat(
        &mut self,
        instruction: *mut c_void,
        kind: Repeat,
        behind: u64,
        site: *mut Site,
    ) {
        let api = self.api;
        // SAFETY: sites live for ever, and no other reference to one is in use.
        if !std::mem::replace(unsafe { &mut (*site).listed }, true) {
            self.plugin.sites.push(site);
        }
        if let Some(totals) = &mut self.plugin.totals {
            totals.sites.insert(behind, site);
        }
        let filters: &Filters = &self.plugin.arguments.filters;
        // SAFETY: as the caller promises; the counters live as long as site and core, for ever.
        unsafe {
            api.add_at_instruction(instruction, &raw mut (*site).starts, 1);
            if kind == Repeat::Cmps {
                // The second of its loads may fault after the first was done, so pairs of loads are counted.
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
            if self.plugin.arguments.probe {
                for filter in [api::READ, api::WRITE, api::READ_WRITE] {
                    let cell = &raw mut self.plugin.probes[kind as usize][filter as usize - 1];
                    api.add_at_memory(instruction, filter, cell);
                }
            }
        }
    }
}

/// The length of some instructions.
fn byte_sum(codes: &[&[u8]]) -> u64 {
    codes.iter().map(|code| code.len() as u64).sum()
}

/// Whether control may come from the end of a block to a storing instruction within the block that does not end it.
///
/// A store into its own block cuts the block short, and QEMU executes the store again as a block of its own. The same
/// sequence of blocks results when control comes to the store and the budget of instructions ends behind the store.
fn may_reach_own_store(
    start: u64,
    codes: &[&[u8]],
    facts: &[Facts],
    target: fn(u64, &[u8]) -> Option<u64>,
) -> bool {
    let mut at = start;
    let mut stores = Vec::new();
    for (code, facts) in codes.iter().zip(facts) {
        if facts.stores > 0 && facts.exit == Exit::Next && facts.repeat.is_none() {
            stores.push(at);
        }
        at = at.wrapping_add(code.len() as u64);
    }
    let (Some(last), Some(code)) = (facts.last(), codes[..facts.len()].last()) else {
        return false;
    };
    match last.exit {
        // To the code behind the instruction, and to the kernel.
        Exit::Next | Exit::Enter => false,
        Exit::Branch | Exit::Jump | Exit::Call => {
            match target(at.wrapping_sub(code.len() as u64), code) {
                Some(target) => stores.contains(&target),
                None => !stores.is_empty(),
            }
        }
        Exit::JumpIndirect | Exit::CallIndirect | Exit::Return | Exit::Leave => !stores.is_empty(),
    }
}

/// Returns the address of a block, its instructions, and the host address of the first instruction.
///
/// # Safety
/// `handle` is QEMU's of the running callback; the result must not outlive it.
unsafe fn read(api: &Api, handle: *mut c_void) -> (u64, Vec<Source>, Option<*const u8>) {
    let functions = &api.functions;
    // SAFETY: the handle is QEMU's, and indices are below the length that QEMU reports.
    unsafe {
        let start = (functions.block_address)(handle);
        let sources: Vec<Source> = (0..(functions.block_length)(handle))
            .map(|index| {
                let handle = (functions.instruction)(handle, index);
                Source { handle, code: api.code(handle) }
            })
            .collect();
        let host = sources.first().map(|first| (functions.instruction_host_address)(first.handle));
        (start, sources, host.and_then(|host| host_address(host, start)))
    }
}

/// Returns the host address of an instruction, if QEMU tells one. For code that is not in memory it reports a small number.
fn host_address(host: *const u8, address: u64) -> Option<*const u8> {
    let told = host as u64;
    (told > 1 << 16 && told < 1 << 47 && told % 4096 == address % 4096).then_some(host)
}

/// Returns the contents of the page that holds a host address.
///
/// # Safety
/// The address is one of guest memory, which QEMU maps in whole pages.
unsafe fn page_of<'a>(host: *const u8) -> &'a [u8; PAGE_BYTES] {
    let within = host as usize % PAGE_BYTES;
    // SAFETY: guest memory is mapped in whole pages, aligned on the host as in the guest.
    unsafe { &*host.sub(within).cast::<[u8; PAGE_BYTES]>() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x86_64::decode::{decode, target};

    /// Whether control may come from a block's end to a store within the block.
    fn reaches(codes: &[&[u8]]) -> bool {
        may_reach_own_store(0x1000, codes, &decode(0x1000, codes), target)
    }

    #[test]
    fn loops_to_a_store_of_their_own_are_known() {
        let (store, load, nop) = (&[0x88, 0x06][..], &[0x8a, 0x06][..], &[0x90][..]);
        assert!(reaches(&[store, nop, &[0x75, 0xfb]])); // jnz to the store
        assert!(reaches(&[nop, store, &[0xe9, 0xf9, 0xff, 0xff, 0xff]])); // jmp to the store
        assert!(!reaches(&[nop, store, &[0x75, 0xfb]])); // jnz to the nop
        assert!(!reaches(&[load, nop, &[0x75, 0xfb]]));
        assert!(!reaches(&[store, nop]));
        assert!(reaches(&[store, &[0xc3]]) && !reaches(&[load, &[0xc3]]));
        assert!(reaches(&[nop, store, &[0xff, 0xe0]]));
        assert!(!reaches(&[store, &[0x0f, 0x05]]));
    }
}
