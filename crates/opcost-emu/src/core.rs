//! The state of the plugin, and what happens when a block begins.

use crate::api;
use crate::arguments::{Arguments, Window};
use crate::attribution::Attribution;
use crate::block::{Block, SPECIAL, UNTOUCHED};
use crate::cache::Fetch;
use crate::costs::costs;
use crate::counters::{Cost, Counters, Figure};
use crate::decode::{Exit, MarkerAt, Repeat};
use crate::mapped::Mapped;
use crate::model::Model;
use crate::refusal;
use crate::region::{Reading, Regions};
use crate::repeat::Site;
use crate::report::{Reports, write_error};
use crate::tree::{NODES_MAX, Tree};
use crate::walk::{Left, Position, Walk, is_entry};
use opcost_record::marker::REGIONS;
use opcost_record::symbols::Landmark;
use std::ptr;

/// The column of the tree for what lies outside of regions.
const OUTSIDE: usize = 0;

/// Where one vCPU is.
pub(crate) struct Vcpu {
    /// The block that it began last.
    prev: *mut Block,
    slot: u64,
    position: Position,
    /// An instruction of the last block that may not have been finished.
    suspect: Option<Suspect>,
}

/// An instruction that was begun; the next block tells whether it was finished.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    index: usize,
    /// Whether it is known that the block was left there.
    cut: bool,
}

/// The plugin's state. All of it belongs to the one thread that translates and executes.
pub(crate) struct Core {
    /// The block that began last on the current vCPU.
    prev: *mut Block,
    /// Where its cost goes.
    cost: *mut u64,
    /// The current vCPU.
    pub(crate) vcpu: u32,
    /// Stack slot of the last call or return on the current vCPU.
    slot: u64,
    pub(crate) arguments: Arguments,
    pub(crate) attribution: Attribution,
    pub(crate) walk: Walk,
    position: Position,
    suspect: Option<Suspect>,
    others: Vec<Option<Vcpu>>,
    touched: Vec<*mut Block>,
    /// Places behind repeated string instructions that were translated.
    pub(crate) sites: Vec<*mut Site>,
    sums: Counters,
    landmarks: Vec<u64>,
    pub(crate) regions: Regions,
    /// The runs that ended.
    pub(crate) reports: Reports,
    pub(crate) model: Option<Model>,
    /// Sizes in bytes of the accesses seen last, by some bits of QEMU's description.
    sizes: [(u32, u32); 64],
    pub(crate) system_calls: u64,
    /// Files of which the program mapped code.
    pub(crate) mapped: Mapped,
    /// Raw counts of every filter, by kind; for the self-test.
    pub(crate) probes: Box<[[u64; 3]; 7]>,
    /// The first thing that makes the counts useless.
    pub(crate) failure: Option<String>,
}

impl Core {
    /// State before the first block.
    ///
    /// `nowhere`: a block that nothing follows without a closer look; it must outlive the state.
    pub(crate) fn new(arguments: Arguments, attribution: Attribution, nowhere: *mut Block) -> Core {
        let mut walk =
            Walk::new(Tree::new(attribution.other_contexts(), NODES_MAX), arguments.system);
        let position = Position::new();
        let cost = walk.tree.cost(position.node);
        let landmarks = vec![0; attribution.metrics().len()];
        let model = arguments.model.then(|| Model::new(&arguments));
        let mut core = Core {
            prev: nowhere,
            cost,
            vcpu: 0,
            slot: 0,
            arguments,
            attribution,
            walk,
            position,
            suspect: None,
            others: Vec::new(),
            touched: Vec::new(),
            sites: Vec::new(),
            sums: Counters::default(),
            landmarks,
            regions: Regions::default(),
            reports: Reports::default(),
            model,
            // A description that QEMU never gives: its highest bits are not used.
            sizes: [(u32::MAX, 0); 64],
            system_calls: 0,
            mapped: Mapped::default(),
            probes: Box::default(),
            failure: None,
        };
        if core.arguments.window == Window::Whole {
            let now = core.reading(&Cost::default(), false);
            // Nothing is open yet, so this cannot fail.
            core.failure = core.regions.start(0, now).err();
            core.choose_column();
        }
        core
    }

    /// Whether a block follows the last one with nothing else to be done than to count it.
    ///
    /// # Safety
    /// `block` and every block passed to [`begin`](Self::begin) are alive, and nothing else touches
    /// them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn goes_on(&self, vcpu: u32, block: *const Block) -> bool {
        // SAFETY: as the caller promises; `prev` was passed before or is the one given to `new`.
        let (begun, prev) = unsafe { (&*block, &*self.prev) };
        let lag = (prev.count ^ prev.last) & prev.last_mask;
        let turn = (begun.tag ^ prev.exit_tag) | (vcpu ^ self.vcpu);
        lag | u64::from(turn) == 0
    }

    /// A block begins, and is counted.
    ///
    /// # Safety
    /// As for [`goes_on`](Self::goes_on), which was true or was followed by [`look`](Self::look).
    #[inline(always)]
    pub(crate) unsafe fn begin(&mut self, block: *mut Block) {
        // SAFETY: the block is alive; `cost` points into the tree, whose columns never move.
        unsafe {
            (*block).count += 1;
            *self.cost = (*self.cost).wrapping_add((*block).retired);
        }
        self.prev = block;
    }

    /// The model learns how control came to a block that goes on.
    ///
    /// # Safety
    /// As for [`goes_on`](Self::goes_on), which was true; there is a model.
    #[inline(always)]
    pub(crate) unsafe fn model_transfer(&mut self, block: *const Block) {
        // SAFETY: as the caller promises.
        let (begun, prev) = unsafe { (&*block, &*self.prev) };
        // SAFETY: as the caller promises.
        let model = unsafe { self.model.as_mut().unwrap_unchecked() };
        let taken = begun.start != prev.end;
        let conditional = prev.exit == Exit::Branch;
        model.branch(&mut self.sums, prev.kernel, prev.last_at, conditional, taken);
    }

    /// Whether the model has nothing to do to fetch a block's code.
    ///
    /// # Safety
    /// As for [`goes_on`](Self::goes_on); there is a model.
    #[inline(always)]
    pub(crate) unsafe fn fetched(&self, block: *const Block) -> bool {
        // SAFETY: as the caller promises; a block is prepared by the model when it is made.
        unsafe { self.model.as_ref().unwrap_unchecked().rests_on_code(&(*block).fetch) }
    }

    /// The model fetches a block's code.
    ///
    /// # Safety
    /// As for [`goes_on`](Self::goes_on).
    pub(crate) unsafe fn fetch(&mut self, block: *const Block) {
        // SAFETY: as the caller promises.
        let begun = unsafe { &*block };
        if let Some(model) = &mut self.model {
            model.fetch(&mut self.sums, begun.kernel, begun.start, begun.end);
        }
    }

    /// Looks closer at how control came to a block.
    ///
    /// # Safety
    /// As for [`goes_on`](Self::goes_on).
    pub(crate) unsafe fn look(&mut self, vcpu: u32, block: *mut Block) {
        if vcpu != self.vcpu {
            // SAFETY: blocks are alive, as the caller of `begin` promises.
            unsafe { self.turn_to(vcpu) };
        }
        // SAFETY: as above.
        let cut = unsafe { self.settle(&*block) };
        // SAFETY: as above.
        unsafe { self.settle_repeat(&*block) };
        // SAFETY: as above; `prev` may be the same block, and both are read only.
        let (begun, prev) = unsafe { (&*block, &*self.prev) };
        if begun.tag & UNTOUCHED != 0 {
            self.touched.push(block);
            // SAFETY: as above.
            unsafe { (*block).tag &= !UNTOUCHED };
        }
        let left = Left::whole(prev);
        // SAFETY: as above.
        let tag = unsafe { (*block).tag };
        let goes_on = tag == prev.exit_tag
            || prev.exit == Exit::JumpIndirect && !prev.tells_done && tag == prev.function;
        if cut || !goes_on {
            self.walk.step(&mut self.position, left, cut, self.slot, begun);
            self.cost = self.walk.tree.cost(self.position.node);
        }
        let interrupts = begun.landmark.is_some_and(|(landmark, _)| is_entry(landmark));
        if let Some(model) = &mut self.model {
            let seen = match left.exit {
                Exit::Leave => self.position.resumed.take(),
                _ => (!cut && !interrupts).then_some(left),
            };
            if let Some(left) = seen {
                model.transfer(&mut self.sums, &left, begun.start);
            }
        }
        if tag & SPECIAL != 0 {
            if let Some((_, Some(place))) = begun.landmark {
                self.landmarks[place] += 1;
            }
            // SAFETY: sites live as long as the plugin; QEMU adds to them between blocks only.
            if let Some(site) = begun.behind.map(|site| unsafe { &mut *site }) {
                self.pass(site);
            }
        }
    }

    /// The place behind a repeated string instruction is passed.
    pub(crate) fn pass(&mut self, site: &mut Site) {
        if site.finished() {
            self.sums.add(Figure::Instructions, site.kernel, 1);
            // SAFETY: `cost` points into the tree, whose columns never move.
            unsafe { *self.cost = (*self.cost).wrapping_add(1) };
        }
    }

    /// Puts right what the last block did not finish; whether an instruction of it will be begun
    /// again, or never finished.
    unsafe fn settle(&mut self, next: &Block) -> bool {
        // SAFETY: the caller keeps blocks alive.
        let Some(suspect) = self.suspect.take().or_else(|| unsafe { self.inspect() }) else {
            // SAFETY: as above.
            return unsafe { self.settle_refused(next) };
        };
        // SAFETY: as above.
        let prev = unsafe { &*self.prev };
        let interrupted = matches!(next.landmark, Some((Landmark::Interrupt, _)));
        // An access to a device in the middle of a block (cpu_io_recompile in QEMU) leaves it, too,
        // and is then finished without callbacks; the block behind the instruction is next.
        if next.start == prev.address_behind(suspect.index) || interrupted {
            return suspect.cut && suspect.index + 1 < prev.facts.len();
        }
        // Hardware does not count an instruction that faulted; the emulator did begin it.
        let cost = Cost { starts: 0, ..prev.one(suspect.index) };
        self.take_back(&cost, prev.kernel);
        true
    }

    /// Whether a block is where control comes when an instruction of the last one faulted.
    fn is_after_fault(&self, prev: &Block, next: &Block) -> bool {
        match next.landmark {
            Some((landmark, _)) => landmark == Landmark::Fault,
            // Without a kernel a signal handler begins.
            None => {
                !self.arguments.system
                    && ![prev.start, prev.last_at, prev.end].contains(&next.start)
            }
        }
    }

    /// Takes back the last instruction of the last block, if the processor refused it; whether it did.
    unsafe fn settle_refused(&mut self, next: &Block) -> bool {
        // SAFETY: the caller keeps blocks alive.
        let prev = unsafe { &*self.prev };
        let Some((last, _)) = prev.facts.last().filter(|(last, _)| last.may_be_refused) else {
            return false;
        };
        if last.never_retires || !self.is_after_fault(prev, next) {
            return false;
        }
        let cost = Cost { starts: 0, ..prev.one(prev.facts.len() - 1) };
        self.take_back(&cost, prev.kernel);
        true
    }

    /// A repeated string instruction that faulted is not finished by what passes the place behind it,
    /// unless it was begun again: the handler may go on there.
    unsafe fn settle_repeat(&mut self, next: &Block) {
        // SAFETY: the caller keeps blocks alive.
        let prev = unsafe { &*self.prev };
        if let Some(site) = prev.repeats
            && self.is_after_fault(prev, next)
        {
            // SAFETY: sites live as long as the plugin; QEMU adds to them between blocks only.
            unsafe { (*site).leave() };
        }
    }

    /// Finds where the last block was left, and takes back the instructions that never began.
    #[inline]
    unsafe fn inspect(&mut self) -> Option<Suspect> {
        // SAFETY: the caller keeps blocks alive, and no other reference is in use.
        let prev = unsafe { &mut *self.prev };
        let lags = (prev.count ^ prev.last) & prev.last_mask != 0;
        let unfinished = prev.tells_done && prev.done != prev.count;
        if !lags && !unfinished {
            return prev.doubtful.then(|| Suspect { index: prev.facts.len() - 1, cut: false });
        }
        let cut = prev.cut().or_else(|| prev.cut_at_end())?;
        prev.mend(cut);
        let tail = prev.tail(cut.index + 1);
        let kernel = prev.kernel;
        self.take_back(&tail, kernel);
        Some(Suspect { index: cut.index, cut: true })
    }

    fn take_back(&mut self, cost: &Cost, kernel: bool) {
        self.sums.take_back(cost, kernel);
        // SAFETY: `cost` points into the tree, whose columns never move.
        unsafe { *self.cost = (*self.cost).wrapping_sub(cost.instructions) };
    }

    /// Another vCPU has its turn.
    unsafe fn turn_to(&mut self, vcpu: u32) {
        if self.suspect.is_none() {
            // SAFETY: the caller keeps blocks alive.
            self.suspect = unsafe { self.inspect() };
        }
        let wanted = vcpu as usize;
        self.others.resize_with(self.others.len().max(wanted + 1), || None);
        self.others.resize_with(self.others.len().max(self.vcpu as usize + 1), || None);
        let next = self.others[wanted].take().unwrap_or_else(|| Vcpu {
            prev: nowhere(),
            slot: 0,
            position: Position::new(),
            suspect: None,
        });
        let now = Vcpu {
            prev: std::mem::replace(&mut self.prev, next.prev),
            slot: std::mem::replace(&mut self.slot, next.slot),
            position: std::mem::replace(&mut self.position, next.position),
            suspect: std::mem::replace(&mut self.suspect, next.suspect),
        };
        self.others[self.vcpu as usize] = Some(now);
        self.vcpu = vcpu;
        self.cost = self.walk.tree.cost(self.position.node);
    }

    /// The last instruction of a block is finished; `slot`: the address it accessed.
    ///
    /// # Safety
    /// `block` is alive, and nothing else touches it meanwhile.
    pub(crate) unsafe fn finish(&mut self, block: *mut Block, slot: u64) {
        // SAFETY: as the caller promises.
        unsafe { (*block).done = (*block).count };
        self.slot = slot;
    }

    /// Whether an access to memory changes nothing in the model; `access`: QEMU's description of it.
    ///
    /// # Safety
    /// There is a model.
    #[inline(always)]
    pub(crate) unsafe fn rests(&self, vcpu: u32, access: u32, address: u64) -> bool {
        let (known, bytes) = self.sizes[size_place(access)];
        // SAFETY: as the caller promises.
        let model = unsafe { self.model.as_ref().unwrap_unchecked() };
        (known ^ access) | (vcpu ^ self.vcpu) == 0 && model.rests_on(address, bytes.into())
    }

    /// Memory is accessed; `access`: QEMU's description of it.
    pub(crate) fn access(&mut self, kernel: bool, access: u32, address: u64) {
        let known = &mut self.sizes[size_place(access)];
        if known.0 != access {
            *known = (access, size_bytes(access));
        }
        if let Some(model) = &mut self.model {
            model.access(&mut self.sums, kernel, address, known.1.into());
        }
    }

    /// A marker is reached at an instruction of a block that has begun.
    pub(crate) fn mark(&mut self, block: &Block, index: usize, marker: MarkerAt) {
        if self.arguments.window == Window::Whole {
            return;
        }
        let done = match marker {
            MarkerAt::Start(region) => {
                let region = usize::from(region);
                let tail = block.tail(index + 1);
                let now = self.reading(&tail, block.kernel);
                let node = self.position.node;
                self.regions
                    .start(region, now)
                    .map(|()| self.walk.tree.shift(node, OUTSIDE, region + 1, tail.instructions))
            }
            MarkerAt::Stop(region) => {
                let region = usize::from(region);
                let tail = block.tail(index);
                let now = self.reading(&tail, block.kernel);
                let node = self.position.node;
                self.regions
                    .stop(region, now)
                    .map(|()| self.walk.tree.shift(node, region + 1, OUTSIDE, tail.instructions))
            }
            MarkerAt::RunEnd => self.end_run(),
        };
        if let Err(message) = done {
            self.failure.get_or_insert(message);
        }
        self.choose_column();
    }

    /// Writes down what the regions cost since the last run's end.
    fn end_run(&mut self) -> Result<(), String> {
        self.regions.check_run_end()?;
        self.add_run()?;
        self.regions.clear();
        self.walk.tree.clear_regions();
        Ok(())
    }

    /// Adds what was counted since the last run's end to the report.
    fn add_run(&mut self) -> Result<(), String> {
        let costs = costs(&self.arguments, &self.attribution, &self.walk.tree, &self.regions)?;
        self.reports.add(&self.arguments.out, &costs)
    }

    fn choose_column(&mut self) {
        self.walk.tree.choose(self.regions.open().map_or(OUTSIDE, |region| region + 1));
        self.cost = self.walk.tree.cost(self.position.node);
    }

    /// Everything summed so far, without the `tail` of the block that has begun.
    fn reading(&mut self, tail: &Cost, kernel: bool) -> Reading {
        for block in self.touched.drain(..) {
            // SAFETY: blocks that began are alive, and no other reference to one is in use but
            // shared ones in `mark`, whose fields read there do not change here.
            unsafe {
                let times = (*block).count - (*block).summed;
                self.sums.add_cost(&(*block).cost, (*block).kernel, times);
                (*block).summed = (*block).count;
                (*block).tag |= UNTOUCHED;
            }
        }
        for site in &self.sites {
            // SAFETY: sites live as long as the plugin; QEMU adds to them between callbacks only.
            let site = unsafe { &mut **site };
            let (starts, iterations) = site.take(&self.arguments.filters);
            self.sums.add(Figure::Starts, site.kernel, starts);
            for (kind, times) in iterations {
                let (_, _, loads, stores) = Repeat::TABLE[kind as usize];
                self.sums.add(Figure::Iterations, site.kernel, times);
                self.sums.add(Figure::Loads, site.kernel, times * loads);
                self.sums.add(Figure::Stores, site.kernel, times * stores);
            }
        }
        let mut counters = self.sums;
        counters.take_back(tail, kernel);
        let mut landmarks = self.landmarks.clone();
        landmarks.push(self.system_calls);
        landmarks.extend(self.probes.iter().flatten());
        Reading { counters, landmarks }
    }

    /// Writes the report, or why there is none, when the guest has ended.
    ///
    /// # Safety
    /// No callback runs any more, and every block is alive.
    pub(crate) unsafe fn write_report(&mut self) {
        if !refusal::is_first_process() {
            return;
        }
        let ended = match refusal::refused() {
            Some(message) => Err(message.to_string()),
            // SAFETY: as the caller promises.
            None => unsafe { self.end() },
        };
        let whole = ended.and_then(|()| if self.reports.any() { Ok(()) } else { self.add_run() });
        match whole {
            Ok(()) => self.reports.put(&self.arguments.out, self.mapped.paths()),
            Err(message) => write_error(&self.arguments.out, &message),
        }
    }

    /// The end of everything: the last block is put right, and an open region that has no markers
    /// is stopped.
    ///
    /// # Errors
    /// A region has a start and no stop, or nothing was counted.
    ///
    /// # Safety
    /// Every block passed before is alive.
    unsafe fn end(&mut self) -> Result<(), String> {
        if self.suspect.is_none() {
            // SAFETY: as the caller promises.
            self.suspect = unsafe { self.inspect() };
        }
        if let Some(message) = &self.failure {
            return Err(message.clone());
        }
        let now = self.reading(&Cost::default(), false);
        match self.arguments.window {
            Window::Whole => self.regions.stop(0, now)?,
            Window::Markers => {
                if let Some(open) = self.regions.open() {
                    return Err(format!(
                        "region '{}' was started and never stopped: the program ended, or the \
                         machine was switched off, before its stop marker",
                        REGIONS[open]
                    ));
                }
            }
        }
        if self.reports.any() {
            return match self.regions.sums().next() {
                None => Ok(()),
                Some((region, _)) => Err(format!(
                    "region '{}' was counted behind the end of the last run: the program ended in \
                     the middle of a run",
                    REGIONS[region]
                )),
            };
        }
        if self.regions.is_empty() {
            return Err("no marker seen: the work never started, or it was not built with \
                        markers; use window=whole to count a program's whole life"
                .into());
        }
        Ok(())
    }
}

/// Where the size of an access is remembered, by QEMU's description of it.
fn size_place(access: u32) -> usize {
    (access >> 4 & 63) as usize
}

/// Bytes of an access, by QEMU's description of it.
#[cold]
#[inline(never)]
fn size_bytes(access: u32) -> u32 {
    // SAFETY: QEMU passed the description to the callback that is running.
    1 << unsafe { (api::api().functions.memory_size_shift)(access) }
}

/// A block in front of the first.
pub(crate) fn nowhere() -> *mut Block {
    Box::into_raw(Box::new(Block {
        count: 0,
        last: 0,
        last_mask: 0,
        tag: 0,
        exit_tag: crate::block::NEVER,
        retired: 0,
        done: 0,
        start: 0,
        end: 0,
        last_at: 0,
        fetch: Fetch::default(),
        function: u32::MAX,
        at_entry: false,
        kernel: true,
        exit: Exit::Next,
        tells_done: false,
        doubtful: false,
        landmark: None,
        behind: None,
        repeats: None,
        summed: 0,
        cost: Cost::default(),
        facts: Box::default(),
        ends: Box::default(),
        cells: Box::default(),
    }))
}

/// A pointer that callbacks can be given: it is theirs for good.
pub(crate) fn leak<T>(value: T) -> *mut T {
    ptr::from_mut(Box::leak(Box::new(value)))
}
