//! The footprint: how many different cache lines and pages the work touches, of data and of code, in all and in each operation.
//!
//! **Lines are those of physical memory.** In a machine QEMU tells the physical address of an access, and the host address of an
//! instruction, which stands for its physical address. Memory that is mapped twice thus counts once. A program without a kernel has
//! virtual addresses only.
//!
//! **Nothing is cleared between operations.** Each line keeps the number of the segment in which it was touched last. A segment ends
//! where an operation may begin. A line is new in an operation if its number is less than that of the operation's first segment, so
//! the sums of several ways to cut the work into operations are kept at once. When the region ends, the way that gives as many
//! operations as the work has is reported.
//!
//! **Only accesses of instructions count.** Walks of page tables, what the processor itself pushes when an interrupt comes, prefetches
//! and devices are left out. The last bytes of an instruction that ends its block on another page than it begins are left to
//! the block that follows.

use crate::api::{self, ExecCallback};
use crate::block::Block;
use crate::callback;
use crate::decode::Facts;
use crate::plugin::{Plugin, leak};
use crate::stack::Stack;
use crate::tree::Tree;
use opcost_record::Domain;
use opcost_record::metric::{FOOTPRINT, FOOTPRINT_REGION};
use std::collections::HashMap;
use std::ffi::{c_uint, c_void};

/// Bytes of a cache line.
const LINE_SHIFT: u32 = 6;
/// Lines of a page.
const PAGE_LINES: u64 = 64;
/// The most calls by which operations may begin.
const KEYS_MAX: usize = 16;
/// How far below the function in which the region begins such a call may be.
const DEPTH_MAX: usize = 4;
/// The most equal calls that one operation makes.
const CALLS_MAX: usize = 4;
/// The places that find a page at once.
const RECENT: usize = 1 << 12;

/// The segments in which a line or page was touched last, by the program and by the kernel.
type Stamps = [u32; 2];
/// Lines and pages of data, then of code, in user mode, in the kernel, and in either.
type Sums = [[u64; 3]; 4];

/// The lines and pages that were touched, of data or of code.
struct Touched {
    places: HashMap<u64, u32>,
    recent: Vec<(u64, u32)>,
    pages: Vec<(Stamps, [Stamps; PAGE_LINES as usize])>,
}

impl Touched {
    fn new() -> Touched {
        Touched { places: HashMap::new(), recent: vec![(u64::MAX, 0); RECENT], pages: Vec::new() }
    }

    /// The stamps of a page and of its lines.
    fn page(&mut self, page: u64) -> &mut (Stamps, [Stamps; PAGE_LINES as usize]) {
        let recent = &mut self.recent[page as usize % RECENT];
        if recent.0 != page {
            let fresh = self.pages.len() as u32;
            let place = *self.places.entry(page).or_insert(fresh);
            if place == fresh {
                self.pages.push(([0; 2], [[0; 2]; PAGE_LINES as usize]));
            }
            *recent = (page, place);
        }
        &mut self.pages[recent.1 as usize]
    }
}

/// One way to cut the work into operations: each begins with the same number of calls from one context to one function.
#[derive(Clone, Copy, Default)]
struct Cut {
    /// The segment with which the operation began.
    begun: u32,
    sums: Sums,
}

/// A calling context by whose calls operations may begin.
struct Key {
    calls: u64,
    /// By the number of calls of an operation, less one.
    cuts: [Cut; CALLS_MAX],
}

/// The sums of a region.
#[derive(Default)]
struct Region {
    /// The first segment; 0 before the region began.
    first: u32,
    /// The context in which the region began.
    node: u32,
    sums: Sums,
    keys: Vec<Key>,
    /// By the number of a context: the place of its key, less one, or 0.
    places: HashMap<u32, Option<usize>>,
}

/// The footprint of the work.
pub(crate) struct Footprint {
    /// How many operations the work has; 0 if that is not known.
    operations: u64,
    system: bool,
    open: bool,
    segment: u32,
    region: Region,
    data: Touched,
    code: Touched,
    code_lines: HashMap<(u64, u64, bool), *const CodeLines>,
    /// The latest store's description by QEMU, of the program and of the kernel.
    stores: [Option<u32>; 2],
    /// The register with the address of the line that an instruction clears, which QEMU does not tell (AArch64, DC ZVA).
    cleared: Option<(u8, bool)>,
    physical: Option<Physical>,
}

/// QEMU's functions that tell the physical address of an access.
struct Physical {
    address: unsafe extern "C" fn(u32, u64) -> *mut c_void,
    is_device: unsafe extern "C" fn(*const c_void) -> bool,
    of: unsafe extern "C" fn(*const c_void) -> u64,
}

impl Physical {
    fn find() -> Result<Physical, String> {
        // SAFETY: these are the functions of all versions of the API (include/qemu/qemu-plugin.h of QEMU 7.2 to 11.1).
        unsafe {
            use std::mem::transmute;
            Ok(Physical {
                address: transmute::<*mut c_void, unsafe extern "C" fn(u32, u64) -> *mut c_void>(
                    api::look_up(c"qemu_plugin_get_hwaddr")?,
                ),
                is_device: transmute::<*mut c_void, unsafe extern "C" fn(*const c_void) -> bool>(
                    api::look_up(c"qemu_plugin_hwaddr_is_io")?,
                ),
                of: transmute::<*mut c_void, unsafe extern "C" fn(*const c_void) -> u64>(
                    api::look_up(c"qemu_plugin_hwaddr_phys_addr")?,
                ),
            })
        }
    }

    /// Returns the physical address of an access; `None` for a device.
    ///
    /// # Safety
    /// QEMU passed the description to a callback on the thread that runs, and the address was accessed so.
    unsafe fn of(&self, access: u32, address: u64) -> Option<u64> {
        // SAFETY: as the caller promises.
        unsafe {
            let found = (self.address)(access, address);
            (!found.is_null() && !(self.is_device)(found)).then(|| (self.of)(found))
        }
    }
}

/// The lines that an instruction begins to use.
pub(crate) struct CodeLines {
    first: u64,
    last: u64,
    kernel: bool,
}

impl Footprint {
    /// Makes an empty footprint.
    ///
    /// # Errors
    /// This QEMU does not tell physical addresses.
    pub(crate) fn new(operations: u64, system: bool) -> Result<Footprint, String> {
        Ok(Footprint {
            physical: system.then(Physical::find).transpose()?,
            ..Footprint::of_virtual(operations, system)
        })
    }

    fn of_virtual(operations: u64, system: bool) -> Footprint {
        Footprint {
            operations,
            system,
            open: false,
            segment: 0,
            region: Region::default(),
            data: Touched::new(),
            code: Touched::new(),
            code_lines: HashMap::new(),
            stores: [None; 2],
            cleared: None,
            physical: None,
        }
    }

    /// Begins or ends the work; `node`: the context in which it is.
    pub(crate) fn mark(&mut self, begins: bool, node: u32) {
        self.open = begins;
        if begins && self.region.first == 0 {
            self.segment += 1;
            self.region = Region { first: self.segment, node, ..Region::default() };
        }
    }

    /// Begins the next run.
    pub(crate) fn clear(&mut self) {
        self.region = Region::default();
    }

    /// Control came from one context to another.
    pub(crate) fn turn(&mut self, tree: &Tree, from: u32, to: u32) {
        if !self.open || self.operations < 2 || tree.parent(to) != from || from == to {
            return;
        }
        let Region { first, node, sums, keys, places } = &mut self.region;
        let place = *places.entry(to).or_insert_with(|| {
            let below = tree.above(to).take(DEPTH_MAX).any(|at| at == *node);
            (below && keys.len() < KEYS_MAX).then(|| {
                // What comes before the first call belongs to the first operation.
                let cuts = [Cut { begun: *first, sums: *sums }; CALLS_MAX];
                keys.push(Key { calls: 0, cuts });
                keys.len() - 1
            })
        });
        let Some(key) = place.map(|place| &mut self.region.keys[place]) else { return };
        self.segment += 1;
        for (cut, per) in key.cuts.iter_mut().zip(1..).filter(|_| key.calls > 0) {
            if key.calls.is_multiple_of(per) {
                cut.begun = self.segment;
            }
        }
        key.calls += 1;
    }

    /// Notes that a line was touched; `code`: whether it was executed.
    fn touch(&mut self, line: u64, kernel: bool, code: bool) {
        let (segment, domain) = (self.segment, usize::from(kernel));
        let touched = if code { &mut self.code } else { &mut self.data };
        let (page, lines) = touched.page(line / PAGE_LINES);
        let line = &mut lines[(line % PAGE_LINES) as usize];
        if line[domain] == segment {
            return;
        }
        let before = [*line, *page];
        (line[domain], page[domain]) = (segment, segment);
        let kind = 2 * usize::from(code);
        for (kind, before) in (kind..).zip(before).filter(|(_, before)| before[domain] != segment) {
            self.region.add(kind, domain, before);
        }
    }

    /// Notes an access to memory.
    ///
    /// # Safety
    /// QEMU passed the description to the callback that is running.
    unsafe fn access(&mut self, access: u32, address: u64, kernel: bool) {
        if !self.open {
            return;
        }
        let functions = &api::api().functions;
        // SAFETY: as the caller promises.
        unsafe {
            if self.physical.is_some() && (functions.memory_is_store)(access) {
                self.stores[usize::from(kernel)] = Some(access);
            }
            let bytes = 1u64 << (functions.memory_size_shift)(access);
            self.reach(access, address, bytes, kernel);
        }
    }

    /// Notes an access to some bytes.
    ///
    /// # Safety
    /// As for [`Physical::of`].
    unsafe fn reach(&mut self, access: u32, address: u64, bytes: u64, kernel: bool) {
        let last = address.wrapping_add(bytes - 1);
        let mut at = address;
        loop {
            let place = match &self.physical {
                None => Some(at),
                // SAFETY: as the caller promises.
                Some(physical) => unsafe { physical.of(access, at) },
            };
            if let Some(place) = place {
                self.touch(place >> LINE_SHIFT, kernel, false);
            }
            if at >> LINE_SHIFT == last >> LINE_SHIFT {
                return;
            }
            at = (at | ((1 << LINE_SHIFT) - 1)).wrapping_add(1);
        }
    }

    /// Notes the line that an instruction cleared, once it did. QEMU then keeps the registers in memory, as it does not before.
    ///
    /// # Errors
    /// The registers' place is not known.
    pub(crate) fn settle_cleared(&mut self, stack: &Stack) -> Result<(), String> {
        let Some((register, kernel)) = self.cleared.take() else { return Ok(()) };
        let address = if register == 31 { Some(0) } else { stack.register(register) };
        let Some(address) = address else {
            return Err("footprint: the place of the registers was not found in this QEMU before 'dc zva' cleared \
                        memory, so the line is unknown"
                .into());
        };
        // Without a kernel no description is needed.
        let store = if self.system { self.stores[usize::from(kernel)] } else { Some(0) };
        if let Some(store) = store {
            // SAFETY: QEMU passed the description for an earlier store of the same side; a page that cannot be written is told as
            // that of a device.
            unsafe { self.reach(store, address & !63, 64, kernel) };
        }
        Ok(())
    }

    /// Returns the counts of a region: over the region, and the sum over its operations if these are known.
    pub(crate) fn counts(&self) -> Vec<(String, Domain, u64)> {
        let mut counts = Vec::new();
        let domains: &[(Domain, usize)] = if self.system {
            &[(Domain::All, 2), (Domain::User, 0), (Domain::Kernel, 1)]
        } else {
            &[(Domain::All, 2), (Domain::User, 0)]
        };
        let mut add = |names: &[&str], sums: &Sums| {
            for (name, sums) in names.iter().zip(sums) {
                let of = domains.iter().map(|(domain, at)| (name.to_string(), *domain, sums[*at]));
                counts.extend(of);
            }
        };
        if let Some(sums) = self.by_operation() {
            add(&FOOTPRINT, sums);
        }
        add(&FOOTPRINT_REGION, &self.region.sums);
        counts
    }

    /// The sums over the operations, if a way to cut the work gives as many as it has.
    fn by_operation(&self) -> Option<&Sums> {
        match self.operations {
            0 => return None,
            1 => return Some(&self.region.sums),
            _ => {}
        }
        let mut cuts = (1u64..).take(CALLS_MAX).flat_map(|per| {
            let whole = self.operations.saturating_mul(per);
            let keys = self.region.keys.iter().filter(move |key| key.calls == whole);
            keys.map(move |key| &key.cuts[per as usize - 1].sums)
        });
        cuts.next()
    }

    /// The lines that each instruction of a block begins to use, by the instruction's place.
    ///
    /// `places`: the physical or else virtual address of each instruction; `lengths`: in bytes.
    pub(crate) fn lines_of(
        &mut self,
        block: &Block,
        places: &[Option<u64>],
        lengths: &[u64],
    ) -> Vec<(usize, *mut c_void)> {
        let mut all = Vec::new();
        let mut known = None;
        for (index, (facts, _)) in block.facts.iter().enumerate() {
            // Only what comes behind a marker is of the region that it begins.
            if facts.marker.is_some() {
                known = None;
                continue;
            }
            let Some(place) = places[index] else { continue };
            let first = place >> LINE_SHIFT;
            let end = place + lengths[index] - 1;
            let mut last = end >> LINE_SHIFT;
            if self.system && place >> 12 != end >> 12 {
                let next = places.get(index + 1).copied().flatten();
                last = next.map_or(first, |next| (next - 1) >> LINE_SHIFT);
            }
            if known != Some(first) || first != last {
                let kernel = block.kernel;
                let lines = self.code_lines.entry((first, last, kernel));
                let lines = *lines.or_insert_with(|| leak(CodeLines { first, last, kernel }));
                all.push((index, lines.cast_mut().cast()));
            }
            known = Some(last);
        }
        all
    }
}

impl Region {
    /// Counts a line or page that was touched last in the segments `before`.
    fn add(&mut self, kind: usize, domain: usize, before: Stamps) {
        let (own, either) = (before[domain], before[0].max(before[1]));
        let count = |sums: &mut Sums, first: u32| {
            sums[kind][domain] += u64::from(own < first);
            sums[kind][2] += u64::from(either < first);
        };
        count(&mut self.sums, self.first);
        for cut in self.keys.iter_mut().flat_map(|key| &mut key.cuts) {
            count(&mut cut.sums, cut.begun);
        }
    }
}

/// Returns the function to be called when memory is accessed by the code of the kernel or of a program.
pub(crate) fn on_access(kernel: bool) -> api::MemoryCallback {
    if kernel { accessed::<true> } else { accessed::<false> }
}

unsafe extern "C" fn accessed<const KERNEL: bool>(
    vcpu: c_uint,
    access: u32,
    address: u64,
    _: *mut c_void,
) {
    // SAFETY: `state_of` checks the thread; QEMU passed the description to this callback.
    unsafe {
        if let Some((Plugin { footprint: Some(footprint), .. }, _)) = callback::state_of(vcpu) {
            footprint.access(access, address, KERNEL);
        }
    }
}

/// Called when an instruction begins that is the first of its line in its block.
pub(crate) const ON_LINES: ExecCallback = on_lines;

unsafe extern "C" fn on_lines(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: `state_of` checks the thread; the data are those of this callback and live for ever.
    unsafe {
        let CodeLines { first, last, kernel } = &*data.cast_const().cast::<CodeLines>();
        if let Some((Plugin { footprint: Some(footprint), .. }, _)) = callback::state_of(vcpu)
            && footprint.open
        {
            footprint.touch(*first, *kernel, true);
            if first != last {
                footprint.touch(*last, *kernel, true);
            }
        }
    }
}

/// The register with the address that an instruction clears, if it does.
pub(crate) fn clears(target: &crate::target::Target, code: &[u8], facts: &Facts) -> Option<u8> {
    if !target.links() || facts.stores == 0 {
        return None;
    }
    let word = u32::from_le_bytes(code.try_into().ok()?);
    // DC ZVA (Arm ARM, C5.3.8): SYS #3, C7, C4, #1.
    (word & !31 == 0xd50b_7420).then_some((word & 31) as u8)
}

/// Called when such an instruction begins; the data: its register, and whether it is the kernel's.
pub(crate) unsafe extern "C" fn on_clear(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: `state_of` checks the thread.
    let state = unsafe { callback::state_of(vcpu) };
    if let Some((Plugin { footprint: Some(footprint), .. }, _)) = state
        && footprint.open
    {
        footprint.cleared = Some((data.addr() as u8 & 31, data.addr() & 32 != 0));
    }
}

/// Called when the instruction behind it begins.
pub(crate) unsafe extern "C" fn on_cleared(vcpu: c_uint, _: *mut c_void) {
    // SAFETY: `state_of` checks the thread.
    if let Some((plugin, _)) = unsafe { callback::state_of(vcpu) } {
        plugin.settle_cleared();
    }
}

impl Plugin {
    /// Notes the line that an instruction cleared, if one did.
    pub(crate) fn settle_cleared(&mut self) {
        if let Some(footprint) = &mut self.footprint
            && let Err(message) = footprint.settle_cleared(&self.stack)
        {
            self.failure.get_or_insert(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::ROOT;

    /// A loop in a function that calls another one for each operation, which touches these lines of data.
    fn counted(operations: &[&[(u64, bool)]], told: u64, calls_per: usize) -> Footprint {
        let mut tree = Tree::new(0, 5000, 1, Vec::new());
        let start = tree.child(ROOT, 1);
        let call = tree.child(start, 2);
        let mut footprint = Footprint::of_virtual(told, true);
        footprint.mark(true, start);
        footprint.touch(1 << 20, false, false);
        for lines in operations {
            for _ in 0..calls_per {
                footprint.turn(&tree, start, call);
                footprint.turn(&tree, call, start);
            }
            lines.iter().for_each(|(line, kernel)| footprint.touch(*line, *kernel, false));
        }
        footprint.mark(false, start);
        footprint
    }

    fn count(footprint: &Footprint, name: &str, domain: Domain) -> Option<u64> {
        let counts = footprint.counts();
        let found = counts.iter().find(|(other, of, _)| other == name && *of == domain);
        found.map(|(_, _, count)| *count)
    }

    #[test]
    fn a_line_counts_once_in_each_operation_and_once_in_all() {
        let (user, kernel) = (|line| (line, false), |line| (line, true));
        let operations: [&[(u64, bool)]; 3] = [
            &[user(0), user(1), user(0), kernel(1), kernel(64)],
            &[user(0), kernel(64), kernel(65)],
            &[kernel(0)],
        ];
        for calls_per in 1..=3 {
            let footprint = counted(&operations, 3, calls_per);
            let of = |name: &str| {
                [Domain::All, Domain::User, Domain::Kernel]
                    .map(|domain| count(&footprint, name, domain).unwrap())
            };
            // The line that the loop touched before the first call is the first operation's.
            assert_eq!(of("data-lines"), [4 + 3 + 1, 3 + 1, 2 + 2 + 1]);
            assert_eq!(of("data-pages"), [3 + 2 + 1, 2 + 1, 2 + 1 + 1]);
            assert_eq!(of("data-lines-region"), [5, 3, 4]);
            assert_eq!(of("data-pages-region"), [3, 2, 2]);
            assert_eq!(of("code-lines"), [0; 3]);
        }
    }

    #[test]
    fn operations_that_cannot_be_told_apart_have_no_figure() {
        let operations: [&[(u64, bool)]; 2] = [&[(0, false)], &[(0, false)]];
        for told in [0, 3, 5] {
            let footprint = counted(&operations, told, 1);
            assert_eq!(count(&footprint, "data-lines", Domain::All), None, "{told}");
            assert_eq!(count(&footprint, "data-lines-region", Domain::All), Some(2));
        }
        let whole = counted(&operations, 1, 1);
        assert_eq!(count(&whole, "data-lines", Domain::All), Some(2));
    }

    #[test]
    fn a_run_begins_with_nothing() {
        let mut footprint = counted(&[&[(0, false)]], 0, 1);
        footprint.clear();
        footprint.mark(true, ROOT);
        footprint.touch(0, false, false);
        footprint.mark(false, ROOT);
        footprint.mark(true, ROOT);
        footprint.touch(0, false, true);
        footprint.touch(0, true, false);
        assert_eq!(count(&footprint, "data-lines-region", Domain::All), Some(1));
        assert_eq!(count(&footprint, "data-lines-region", Domain::Kernel), Some(1));
        assert_eq!(count(&footprint, "code-lines-region", Domain::All), Some(1));
    }
}
