//! The plugin's state, and the work at the beginning of a block.

use crate::addresses::{self, Addresses};
use crate::alternatives;
use crate::api;
use crate::arguments::{Arguments, Window};
use crate::attribution::Attribution;
use crate::block::{Block, Cells, Ending, is_kernel, tag};
use crate::blocks::Blocks;
use crate::class::Class;
use crate::costs::costs;
use crate::counters::{Cost, Counters, Figure};
use crate::decode::{Exit, MarkerAt, Repeat};
use crate::footprint::Footprint;
use crate::last_instruction::LastFile;
use crate::low;
use crate::mapped::Mapped;
use crate::message::{Message, Messages};
use crate::refusal;
use crate::region::{CounterSums, Drains, FORGED, Regions};
use crate::repeat::Site;
use crate::report::{Reports, write_error};
use crate::stack::{Entered, Stack};
use crate::steps::Recorder;
use crate::stub::Stubs;
use crate::target::{FAULTS, Signalled, TRAP, Target};
use crate::timing::Timing;
use crate::totals::Totals;
use crate::tree::{NODES_MAX, Tree};
use crate::vcpu::Vcpus;
use crate::walk::{Lane, Left, Position, Walk, is_entry};
use crate::watching::Watching;
use opcost_core_model::Cycles;
use opcost_record::marker::{REGIONS, RegionMark};
use opcost_record::program_region::ProgramRegions;
use opcost_record::symbols::Landmark;
use std::collections::HashMap;
use std::ops::Range;
use std::ptr;

/// The tree's column for everything outside of regions.
const OUTSIDE: usize = 0;

/// The saved state of one vCPU.
pub(crate) struct Vcpu {
    cells: Cells,
    position: Position,
    /// An instruction of the last block that may not have finished.
    suspect: Option<Suspect>,
}

/// An instruction that began; the next block tells whether it finished.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    index: usize,
    /// Whether control is known to have left the block at the instruction.
    cut: bool,
}

/// The plugin's state. All of it belongs to the one thread that translates and executes.
pub(crate) struct Plugin {
    /// The architecture of the guest.
    pub(crate) target: &'static Target,
    /// The cells of the current vCPU.
    pub(crate) cells: *mut Cells,
    /// The number of the current vCPU.
    pub(crate) vcpu: u32,
    /// Whether the guest has one vCPU only.
    pub(crate) one_vcpu: bool,
    /// Finds the running vCPU where there are several.
    pub(crate) vcpus: Vcpus,
    /// The tree's cell for the cost of the last begun block.
    cost: *mut u64,
    /// The part of [`Cells::retired`] that contexts were already charged with.
    attributed: u64,
    /// Instructions that contexts were charged with beside those.
    given: u64,
    /// Records the steps of the work, if they are asked for.
    pub(crate) steps: Option<Box<Recorder>>,
    /// Reads amounts at functions' entries, if they are asked for.
    pub(crate) watching: Option<Box<Watching>>,
    /// Counts the lines and pages that the work touches, if that is asked for.
    pub(crate) footprint: Option<Box<Footprint>>,
    pub(crate) arguments: Arguments,
    pub(crate) attribution: Attribution,
    pub(crate) walk: Walk,
    position: Position,
    suspect: Option<Suspect>,
    others: Vec<Option<Vcpu>>,
    /// The number of times that another vCPU got its turn.
    turns: u64,
    pub(crate) blocks: Blocks,
    /// A block that nothing follows without a closer look.
    nowhere: &'static Block,
    /// Places behind translated repeated string instructions.
    pub(crate) sites: Vec<*mut Site>,
    sums: Counters,
    /// The costs by address, if they are asked for.
    pub(crate) addresses: Option<Box<Addresses>>,
    pub(crate) landmarks: Vec<u64>,
    pub(crate) regions: Regions,
    drains: Drains,
    /// The regions that the program itself marks.
    program_regions: ProgramRegions<CounterSums>,
    messages: Messages,
    /// The finished runs.
    pub(crate) reports: Reports,
    /// The core whose cycles are modelled.
    pub(crate) timing: Option<Timing>,
    /// The number of instructions that the last block finished, as the closer look found.
    executed: usize,
    pub(crate) system_calls: u64,
    /// The handlers of signals of a program without a kernel, each with its last restorer.
    pub(crate) handlers: HashMap<u64, u64>,
    /// All restorers of these handlers.
    restorers: Vec<u64>,
    /// Files from which the program mapped code.
    pub(crate) mapped: Mapped,
    /// How many alternatives of the kernel were in place when the first region began.
    patched: Option<u64>,
    /// The last instruction of a program without a kernel.
    pub(crate) last: Option<LastFile>,
    /// Raw counts of every filter, by kind; for the self-test.
    pub(crate) probes: Box<[[u64; 3]; 7]>,
    /// The guest's stack.
    pub(crate) stack: Stack,
    /// The state of counting totals only; `None` with contexts.
    pub(crate) totals: Option<Totals>,
    /// Whether contexts are charged with all instructions, and their sum is checked: not where totals alone were counted, be it until
    /// the program made the plugin follow cuts.
    charges: bool,
    /// Whether a handler of faults is not told if a fault led to it. Blocks are then followed by steps.
    pub(crate) untold: bool,
    /// The code that QEMU calls at the beginning of blocks.
    pub(crate) stubs: Stubs,
    /// Whether blocks translated from now on rely on the kernel's entries for cuts and on the stack pointer for slots.
    pub(crate) by_entry: bool,
    /// Whether QEMU was asked to discard the code of the kernel's boot.
    discarded: bool,
    /// The first problem that makes the counts useless.
    pub(crate) failure: Option<String>,
}

impl Plugin {
    /// Makes the state before the first block.
    ///
    /// `timing`: the core to be modelled; `vcpus`: the number of the guest's vCPUs; `watching`: the functions whose arguments are read.
    pub(crate) fn new(
        target: &'static Target,
        arguments: Arguments,
        attribution: Attribution,
        timing: Option<Timing>,
        vcpus: usize,
        watching: Option<Watching>,
    ) -> Plugin {
        let other_contexts = attribution.other_contexts();
        let tree = Tree::new(other_contexts, NODES_MAX, vcpus, attribution.heads());
        let mut walk = Walk::new(tree, arguments.system, target.architecture.row().stack_shift);
        let position = Position::new();
        let cost = walk.tree.cost(position.node);
        let landmarks = vec![0; attribution.metrics().len()];
        // In user mode the program's own memory may be low.
        let mut blocks = Blocks::new(arguments.system);
        let nowhere = blocks.add(|_, count| Block::new(0, &[], Vec::new(), count));
        let last = (!arguments.system).then(|| LastFile::beside(&arguments.out));
        let mut plugin = Plugin {
            target,
            cells: low::one(Cells::behind(nowhere), arguments.system),
            vcpu: 0,
            one_vcpu: vcpus == 1,
            vcpus: Vcpus::new(),
            cost,
            attributed: 0,
            given: 0,
            watching: watching.map(Box::new),
            steps: arguments.steps.map(|wanted| Box::new(Recorder::new(wanted))),
            footprint: None,
            arguments,
            attribution,
            walk,
            position,
            suspect: None,
            others: Vec::new(),
            turns: 0,
            blocks,
            nowhere,
            sites: Vec::new(),
            sums: Counters::default(),
            addresses: None,
            landmarks,
            regions: Regions::default(),
            drains: Drains::default(),
            program_regions: ProgramRegions::default(),
            messages: Messages::default(),
            reports: Reports::default(),
            timing,
            executed: usize::MAX,
            system_calls: 0,
            handlers: HashMap::new(),
            restorers: Vec::new(),
            mapped: Mapped::default(),
            patched: None,
            last,
            probes: Box::default(),
            stack: Stack::new(target),
            totals: None,
            charges: true,
            untold: false,
            stubs: Stubs::default(),
            by_entry: false,
            discarded: false,
            failure: None,
        };
        let one_kernel =
            plugin.arguments.system && plugin.one_vcpu && plugin.attribution.knows_faults();
        let counts_only = !plugin.arguments.profile && plugin.timing.is_none();
        let learns = plugin.stack.is_open() && api::current_cpu().is_some();
        let of_kernel =
            target.is_modelled && one_kernel && plugin.arguments.window == Window::Markers;
        if counts_only && learns && (of_kernel || plugin.counts_whole_blocks()) {
            plugin.totals = Some(Totals::new(plugin.arguments.system));
            plugin.charges = false;
        }
        plugin.addresses = plugin.arguments.addresses.then(|| Box::new(Addresses::new()));
        if plugin.arguments.footprint {
            // Operations of several CPUs overlap.
            let operations = if plugin.one_vcpu { plugin.arguments.operations } else { 0 };
            let system = plugin.arguments.system;
            match Footprint::new(operations, system) {
                Ok(footprint) => plugin.footprint = Some(Box::new(footprint)),
                Err(message) => plugin.failure = Some(message),
            }
        }
        if plugin.arguments.window == Window::Whole {
            let now = plugin.reading(&Cost::default(), false);
            // Nothing is open yet, so this cannot fail.
            let started = plugin.regions.start(0, now);
            plugin.failure = plugin.failure.take().or(started.err());
            plugin.record_region(true, 0);
            plugin.choose_column();
        }
        plugin
    }

    /// The instructions that contexts were charged with so far.
    pub(crate) fn charged(&self) -> u64 {
        self.attributed.wrapping_add(self.given)
    }

    /// The context that is charged.
    pub(crate) fn node(&self) -> u32 {
        self.position.node
    }

    /// The number of the task whose turn it is.
    pub(crate) fn task(&self) -> u32 {
        self.walk.task(&self.position)
    }

    /// The interrupt or task whose turn it is.
    pub(crate) fn lane(&self) -> Lane {
        self.walk.lane(&self.position, self.vcpu)
    }

    /// Whether a block follows the last block and only needs to be counted.
    #[inline(always)]
    pub(crate) fn goes_on(&self, vcpu: u32, block: &Block) -> bool {
        // SAFETY: the cells are the plugin's for good, and QEMU writes to them between callbacks only.
        let expected = unsafe { (*self.cells).expected };
        (expected ^ block.tag) | u64::from(vcpu ^ self.vcpu) == 0
    }

    /// Counts a block that begins, as QEMU does by itself where it can.
    #[inline(always)]
    pub(crate) fn begin(&mut self, block: &'static Block) {
        // SAFETY: as above, and the count of a block stays at its place.
        unsafe {
            *block.count += 1;
            let cells = &mut *self.cells;
            cells.retired = cells.retired.wrapping_add(block.retired.into());
            cells.last = block;
            cells.expected = block.begun_tag;
        }
    }

    /// Has QEMU go on with a block that got a closer look.
    #[inline(always)]
    pub(crate) fn expect(&mut self, block: &Block) {
        // SAFETY: as above.
        unsafe { (*self.cells).expected = block.tag };
    }

    /// The block that began last.
    #[inline(always)]
    pub(crate) fn prev(&self) -> &'static Block {
        // SAFETY: as above.
        unsafe { (*self.cells).prev() }
    }

    /// Charges the context in which the recent blocks began with the instructions that these blocks retire.
    #[inline(always)]
    fn attribute(&mut self) {
        // SAFETY: as above; `cost` points into the tree, whose columns never move.
        unsafe {
            let retired = (*self.cells).retired;
            *self.cost = (*self.cost).wrapping_add(retired.wrapping_sub(self.attributed));
            self.attributed = retired;
        }
    }

    /// Has the modelled core execute everything before a block that goes on.
    #[inline(always)]
    pub(crate) fn time(&mut self, begun: &'static Block) {
        self.count_taken(&Left::whole(self.prev()), begun.start);
        self.spend(self.position.node, |timing| timing.follow(usize::MAX, begun, false));
    }

    /// Notes that control went from the last block, which reached its end, to the next, where instructions are counted by address.
    #[inline(always)]
    pub(crate) fn go_on_apart(&mut self, begun: &Block) {
        let prev = self.prev();
        if let Some((addresses, region)) = self.open_addresses() {
            addresses.transferred(region, prev, begun);
        }
    }

    /// Looks closer at how control came to a block, and has the modelled core execute everything before the block.
    pub(crate) fn look_timed(&mut self, vcpu: u32, begun: &'static Block) {
        // The executed instructions belong to the context in which they were executed.
        let node = self.position.node;
        self.executed = usize::MAX;
        self.look::<false>(vcpu, begun);
        let executed = self.executed;
        let interrupted = matches!(
            begun.landmark,
            Some((Landmark::Fault | Landmark::Trap | Landmark::Interrupt, _))
        );
        self.spend(node, |timing| timing.follow(executed, begun, interrupted));
    }

    /// Whether a repeated string instruction, which is a block of its own, begins once more.
    pub(crate) fn repeats(&self, alone: &Block) -> bool {
        self.timing.as_ref().is_some_and(|timing| timing.repeats(alone))
    }

    /// Has the modelled core execute the last begun block up to an instruction.
    fn time_to(&mut self, index: usize) {
        self.spend(self.position.node, |timing| timing.reach(index));
    }

    /// Runs `go_on` on the modelled core, if there is one, and charges a context with the cycles.
    #[inline(always)]
    fn spend(&mut self, node: u32, go_on: impl FnOnce(&mut Timing) -> Cycles) {
        let Some(timing) = &mut self.timing else { return };
        let kernel = timing.in_kernel();
        let cycles = go_on(timing);
        if self.arguments.model.is_some() {
            for (figure, misses) in timing.take_misses() {
                self.sums.add(figure, kernel, misses);
            }
        }
        if let Some(slice) = timing.take_slice() {
            self.sums.add_slice(slice);
        }
        if cycles.total() == 0 {
            return;
        }
        self.sums.add(Figure::CyclesUnknown, kernel, timing.take_unknown());
        let [issue, dependencies, branches, frontend, memory] = cycles.by_cause;
        let parts = [issue, dependencies, branches, frontend, memory, cycles.far];
        self.sums.add_cycles(&parts, kernel);
        self.walk.tree.spend(node, &parts);
    }

    /// Looks closer at how control came to a block. `APART`: whether instructions are counted by address.
    #[inline(always)]
    pub(crate) fn look<const APART: bool>(&mut self, vcpu: u32, begun: &Block) {
        self.attribute();
        // SAFETY: QEMU writes to the cells between callbacks only.
        let cells = unsafe { &mut *self.cells };
        if cells.returned() && !begun.special() {
            // Half of all closer looks end here: the block that returned need not be read. There is one vCPU.
            // SAFETY: the stack pointer's place was known when the block was translated.
            let slot = unsafe { self.stack.returned() };
            self.walk.returned(&mut self.position, slot, begun);
            self.cost = self.walk.tree.cost(self.position.node);
            return;
        }
        let prev = cells.prev();
        let whole =
            cells.expected == prev.exit_tag() && (prev.by_entry || ptr::eq(cells.done, prev));
        let same = vcpu == self.vcpu && self.suspect.is_none();
        if !(whole && same) || begun.special() {
            return self.look_closely(vcpu, begun);
        }
        if !prev.calls_or_returns() {
            return match prev.jumps() && begun.tag != prev.exit_tag() {
                true => self.jump::<APART>(prev, begun),
                false => self.look_closely(vcpu, begun),
            };
        }
        cells.done = ptr::null();
        let slot = if prev.by_entry {
            // SAFETY: the stack pointer's place was known when the block was translated.
            unsafe { self.stack.slot(prev.popped) }
        } else {
            self.learn_stack(prev, begun, cells.slot);
            cells.slot
        };
        let left = Left::whole(prev);
        self.walk.turn(&mut self.position, left, slot, begun);
        self.cost = self.walk.tree.cost(self.position.node);
        if APART {
            self.go_on_apart(begun);
        }
    }

    /// Follows a jump or branch to a block of another function; the jump was not cut short and the block is not special.
    #[inline(always)]
    fn jump<const APART: bool>(&mut self, prev: &Block, begun: &Block) {
        let left = Left::whole(prev);
        self.walk.jump_whole(&mut self.position, left, begun);
        self.cost = self.walk.tree.cost(self.position.node);
        if APART {
            self.go_on_apart(begun);
        }
        self.count_taken(&left, begun.start);
    }

    /// Counts a conditional branch that control took to `target`, if such branches are counted.
    #[inline(always)]
    fn count_taken(&mut self, left: &Left, target: u64) {
        if self.arguments.model.is_some() {
            let taken = left.exit == Exit::Branch && target != left.end;
            self.sums.add(Figure::Taken, left.kernel, u64::from(taken));
        }
    }

    /// Learns the stack pointer's place from a call in the kernel.
    #[inline(always)]
    fn learn_stack(&mut self, call: &Block, begun: &Block, slot: u64) {
        let of_kernel = call.kernel && begun.kernel || !self.arguments.system;
        if self.stack.is_open() && call.exit == Exit::Call && of_kernel {
            self.learn_stack_slot(slot);
        }
    }

    /// Learns the places of registers from a call or from the end of a handler, where calls write their return address to a
    /// register.
    #[cold]
    fn learn_registers(&mut self, prev: &Block, begun: &Block) {
        if begun.landmark.is_some_and(|(landmark, _)| is_entry(landmark)) {
            return;
        }
        match prev.exit {
            Exit::Call | Exit::CallIndirect if prev.kernel || !self.arguments.system => {
                self.learn_stack_slot(prev.end());
            }
            // SAFETY: a block begins on the one vCPU.
            Exit::Leave => unsafe { self.stack.learn_resumed(begun.start) },
            _ => {}
        }
    }

    #[cold]
    fn learn_stack_slot(&mut self, slot: u64) {
        // With `window=whole`, faults count before the kernel has its entries. Several vCPUs each have a stack of their own.
        let wanted = self.arguments.window == Window::Markers
            && self.arguments.system
            && self.one_vcpu
            && self.attribution.knows_faults();
        // Where signals tell a program's faults, its blocks need no steps, either.
        let by_signal = !self.arguments.system
            && self.target.signalled.is_some()
            && self.timing.is_none()
            && !self.untold;
        // A program's own calls tell where the stack pointer is, but nothing tells its faults.
        let learns = wanted
            || by_signal
            || (self.watching.is_some() || self.footprint.is_some()) && self.one_vcpu
            || self.target.links() && !self.arguments.system;
        // SAFETY: a block begins on the one vCPU.
        if learns && unsafe { self.stack.learn(slot) } {
            // Without a second translation, a loop that is running already would keep its steps.
            self.by_entry = wanted || by_signal && api::discard_code();
        }
    }

    /// Notes the handler of a signal that a program installs; `action`: the address of its `struct sigaction`.
    pub(crate) fn handle_signals(&mut self, signal: u64, action: u64) {
        if action == 0 {
            return;
        }
        // The handler, the flags and the restorer, a word each (`struct kernel_sigaction` of the C library).
        let mut bytes = [0u8; 24];
        let read = self.stack.read(action, &mut bytes);
        let word = |index: usize| {
            u64::from_le_bytes(bytes[8 * index..][..8].try_into().expect("eight bytes"))
        };
        let (handler, flags, restorer) = (word(0), word(1), word(2));
        // SIG_DFL and SIG_IGN are 0 and 1.
        let handled = handler > 1;
        let by_fault = FAULTS.contains(&signal);
        if by_fault && handled && flags & SA_SIGINFO == 0 && self.target.signalled.is_some() {
            self.untold = true;
            if std::mem::take(&mut self.by_entry) {
                self.translate_anew();
            }
        }
        if handled || !read {
            let tells = !by_fault || signal != TRAP && !self.untold;
            // Without frames that tell anything, only faults cut blocks.
            if by_fault || self.target.signalled.is_some() {
                self.follow_handled(tells && read);
            }
        }
        if handled && !self.restorers.contains(&restorer) {
            self.restorers.push(restorer);
        }
        if handled
            && self.target.signalled.is_some()
            && self.handlers.insert(handler, restorer) != Some(restorer)
            && (self.by_entry || self.totals.is_some())
            && self.blocks.all().any(|block| block.start == handler)
        {
            self.translate_anew();
        }
    }

    /// The state that a signal interrupted, if a block begins to which a signal led.
    pub(crate) fn signalled(&self, begun: &Block) -> Option<Signalled> {
        let (read, _) = self.target.signalled.zip(begun.restorer)?;
        // Several signals may have the handler in common.
        self.restorers.iter().find_map(|restorer| read(&self.stack, *restorer))
    }

    /// Looks closer at a block to which control may have come in any way.
    #[inline(never)]
    fn look_closely(&mut self, vcpu: u32, begun: &Block) {
        if vcpu != self.vcpu {
            self.turn_to(vcpu);
        }
        let prev = self.prev();
        let pushed = if prev.by_entry { self.pushed(prev, begun) } else { None };
        let signalled = if prev.by_entry { self.signalled(begun) } else { None };
        let cut = if prev.by_entry {
            self.settle_by_entry(prev, begun, pushed, signalled)
        } else {
            self.settle(prev, begun)
        };
        self.settle_repeat(prev, begun);
        if self.target.links() && !cut {
            self.learn_registers(prev, begun);
        }
        let left = Left::whole(prev);
        let goes_on = begun.tag == prev.exit_tag()
            || prev.exit == Exit::JumpIndirect
                && prev.ending != Ending::Tells
                && begun.tag == tag(prev.function, false);
        // SAFETY: QEMU writes to the cells between callbacks only.
        let mut slot = unsafe {
            (*self.cells).done = ptr::null();
            (*self.cells).slot
        };
        if prev.by_entry {
            let stack = pushed.map(|pushed| pushed.stack).or(signalled.map(|signal| signal.stack));
            slot = match stack {
                Some(stack) => stack.wrapping_sub(prev.popped.into()),
                // SAFETY: the stack pointer's place was known when the block was translated.
                None => unsafe { self.stack.slot(prev.popped) },
            };
        } else if self.target.links() {
            // SAFETY: the place is known, and a block begins.
            slot = if self.stack.is_known() { unsafe { self.stack.slot(0) } } else { 0 };
        }
        if cut || !goes_on {
            self.walk.step(&mut self.position, left, cut, slot, begun);
            self.cost = self.walk.tree.cost(self.position.node);
        }
        let interrupts = begun.landmark.is_some_and(|(landmark, _)| is_entry(landmark));
        let seen = match left.exit {
            Exit::Leave => self.position.resumed.take(),
            _ => (!cut && !interrupts).then_some(left),
        };
        if let Some(left) = seen {
            if let Some((addresses, region)) = self.open_addresses() {
                addresses.transferred_late(region, &left, begun);
            }
            self.count_taken(&left, begun.start);
        }
        if let Some((_, Some(place))) = begun.landmark {
            self.landmarks[place] += 1;
        }
        if matches!(begun.landmark, Some((Landmark::Exec, _))) {
            let task = self.task();
            self.watching.iter_mut().for_each(|watching| watching.executed(task));
            self.discard_early_code();
        }
        // SAFETY: sites live as long as the plugin; QEMU adds to them between blocks only.
        if let Some(site) = begun.behind.map(|site| unsafe { &mut *site }) {
            self.pass(site);
        }
    }

    /// Has QEMU translate all code anew, once, when the first program begins.
    ///
    /// While a kernel boots, its code also stands at low addresses. QEMU uses translated code again wherever its page is mapped, so
    /// these blocks of the kernel would count for programs.
    fn discard_early_code(&mut self) {
        if !self.target.links() || self.discarded || self.regions.open().is_some() {
            return;
        }
        self.discarded = true;
        self.translate_anew();
    }

    /// Has QEMU discard all translated code.
    pub(crate) fn translate_anew(&mut self) {
        if !api::discard_code() {
            self.failure.get_or_insert_with(|| {
                "this QEMU cannot discard translated code (it exports no async_safe_run_on_cpu and tb_flush), \
                 so code that it translated before cannot be counted exactly: use Debian's QEMU"
                    .into()
            });
        }
    }

    /// Notes that control passed the place behind a repeated string instruction.
    pub(crate) fn pass(&mut self, site: &mut Site) {
        if site.finished() {
            self.sums.add(Figure::Instructions, site.kernel, 1);
            self.give(1);
            let function = self.walk.tree.function(self.position.node);
            if let Some(((addresses, region), address)) =
                self.open_addresses().zip(site.linked_in(function))
            {
                addresses.repeated(region, function, address);
            }
        }
    }

    /// Charges the context in which the last block began with some instructions.
    fn give(&mut self, instructions: u64) {
        // SAFETY: `cost` points into the tree, whose columns never move.
        unsafe { *self.cost = (*self.cost).wrapping_add(instructions) };
        self.given = self.given.wrapping_add(instructions);
    }

    /// Returns the values that the processor pushed, if `next` is the first block of a handler and the end or slot of `prev`
    /// follows from them.
    fn pushed(&mut self, prev: &Block, next: &Block) -> Option<Entered> {
        let needed = match next.landmark?.0 {
            Landmark::Fault => true,
            Landmark::Trap | Landmark::Interrupt => prev.calls_or_returns(),
            _ => false,
        };
        if !needed {
            return None;
        }
        // SAFETY: the last block was translated when the stack pointer's place was known.
        let pushed = unsafe { self.stack.entered() };
        // Before a region begins, the register that has these values may still be unknown.
        if pushed.is_none() && !self.stack.is_learning() {
            self.failure.get_or_insert_with(|| {
                "the guest's stack could not be read where a handler began; this is a fault of opcost"
                    .into()
            });
        }
        pushed
    }

    /// Takes back the part of the last block that did not finish, if the kernel's entries tell it. Returns whether an instruction
    /// of the block will begin again or never finish.
    ///
    /// Three things cut a block short. A fault enters the kernel, and the processor pushes the address of the instruction that will
    /// begin again. An access to a device makes QEMU leave the block, execute the instruction by itself with its memory callback
    /// only, and go on behind the instruction. A store into the block's own code makes QEMU leave the block and execute the store
    /// again, as a block of one instruction.
    fn settle_by_entry(
        &mut self,
        prev: &Block,
        next: &Block,
        pushed: Option<Entered>,
        signalled: Option<Signalled>,
    ) -> bool {
        // SAFETY: QEMU writes to the cells between callbacks only.
        let cells = unsafe { &*self.cells };
        // SAFETY: blocks live for ever.
        let alone = unsafe { cells.done.as_ref() }.filter(|done| !ptr::eq(*done, prev));
        if let Some(index) = alone.and_then(|alone| prev.index_of(alone.start)) {
            self.take_back_behind(prev, index);
            self.executed = index + 1;
            return index + 1 < prev.facts.len();
        }
        let landmark = next.landmark.map(|(landmark, _)| landmark);
        let stopped = match (landmark, pushed) {
            (Some(Landmark::Fault), Some(pushed)) => self.stopped_at(prev, pushed),
            _ => None,
        };
        let by_fault = signalled.filter(|signal| signal.by_fault);
        let stopped = stopped.or_else(|| prev.index_of(by_fault?.instruction));
        let again = match (landmark, stopped) {
            (_, Some(index)) => Some(index).filter(|index| {
                let facts = prev.facts[*index].0;
                // Without repeated instructions, what a fault will resume at did not finish, whatever it is.
                (facts.may_fault || self.target.links())
                    && facts.repeat.is_none()
                    && !facts.never_retires
            }),
            (None, _) if next.is_one_access() && self.target.restarts_own_stores => prev
                .index_of(next.start)
                .filter(|index| prev.facts[*index].0.stores > 0 && self.left_early(prev, *index)),
            _ => None,
        };
        let Some(index) = again else { return self.settle_refused(prev, next) };
        self.executed = index;
        self.take_back_behind(prev, index);
        self.take_back_unfinished(prev, index);
        true
    }

    /// Returns the index of the instruction of a block that faulted, if one did.
    fn stopped_at(&mut self, prev: &Block, entered: Entered) -> Option<usize> {
        let address = entered.instruction;
        let index = prev.index_of(address);
        if let Some(causes) = &self.target.causes {
            let accesses =
                |index: usize| prev.facts[index].0.loads + prev.facts[index].0.stores > 0;
            // SAFETY: the first block of a handler begins on the one vCPU.
            unsafe {
                match index {
                    None if prev.exit == Exit::Enter && address == prev.end() => {
                        self.stack.learn_cause(true, causes.call);
                    }
                    Some(index) if accesses(index) => self.stack.learn_cause(false, causes.access),
                    _ => {}
                }
            }
        }
        if index.is_some() || is_kernel(address) != prev.kernel {
            return index;
        }
        let index = prev.index_in_page(address)?;
        // SAFETY: the first block of a handler begins.
        match unsafe { (self.target.fetch_faulted)(&self.stack, &entered) } {
            Some(fetch) => (!fetch).then_some(index),
            None => {
                if self.regions.open().is_some() {
                    self.failure.get_or_insert_with(|| {
                        "the place of ESR_EL1 was not found in this QEMU, so a fault of code that stands at \
                         several addresses cannot be counted exactly: too few system calls or faults came \
                         before the region"
                            .into()
                    });
                }
                None
            }
        }
    }

    /// Whether control left `prev` early at the store at `index`, which now begins as a block of its own.
    fn left_early(&self, prev: &Block, index: usize) -> bool {
        // SAFETY: QEMU writes to the cells between callbacks only.
        let expected = unsafe { (*self.cells).expected };
        match prev.begun_tag == prev.exit_tag() {
            // The kernel does not write to the block that it executes: control reached the end and came back.
            true if prev.kernel => false,
            // Control cannot come back to the store.
            true => index < prev.facts.len(),
            false => expected != prev.exit_tag(),
        }
    }

    /// Takes back the part of the last block that did not finish. Returns whether an instruction of the block will begin again or
    /// never finish.
    #[inline]
    fn settle(&mut self, prev: &Block, next: &Block) -> bool {
        let Some(suspect) = self.suspect.take().or_else(|| self.inspect(prev)) else {
            return self.settle_refused(prev, next);
        };
        let interrupted = matches!(next.landmark, Some((Landmark::Interrupt, _)));
        // QEMU also leaves a block at an access to a device in the middle (cpu_io_recompile in QEMU). It then finishes the
        // instruction without callbacks, and the block behind the instruction is next.
        if next.start == prev.address_behind(suspect.index) || interrupted {
            self.executed = suspect.index + 1;
            return suspect.cut && suspect.index + 1 < prev.facts.len();
        }
        self.executed = suspect.index;
        self.take_back_unfinished(prev, suspect.index);
        true
    }

    /// Whether control comes to `next` after a fault of the last block's instruction.
    fn is_after_fault(&self, prev: &Block, next: &Block) -> bool {
        match next.landmark {
            Some((landmark, _)) => landmark == Landmark::Fault,
            // In user mode, a signal handler begins.
            None => {
                !self.arguments.system
                    && ![prev.start, prev.last_at(), prev.end()].contains(&next.start)
            }
        }
    }

    /// Takes back the last instruction of the last block if the processor refused it; returns whether it did.
    #[inline]
    fn settle_refused(&mut self, prev: &Block, next: &Block) -> bool {
        if prev.ending != Ending::Refusable || !self.is_after_fault(prev, next) {
            return false;
        }
        self.executed = prev.facts.len() - 1;
        self.take_back_unfinished(prev, prev.facts.len() - 1);
        true
    }

    /// Cancels a repeated string instruction that faulted: passing the place behind it does not finish the instruction unless it
    /// began again, because the handler may go on there.
    #[inline]
    fn settle_repeat(&mut self, prev: &Block, next: &Block) {
        if let Some(site) = prev.repeats
            && self.is_after_fault(prev, next)
        {
            // SAFETY: sites live as long as the plugin; QEMU adds to them between blocks only.
            unsafe { (*site).leave() };
        }
    }

    /// Finds where control left the last block, and takes back the instructions that never began.
    #[inline]
    fn inspect(&mut self, prev: &Block) -> Option<Suspect> {
        // SAFETY: QEMU writes to the cells between callbacks only.
        let cells = unsafe { &mut *self.cells };
        if prev.by_entry {
            return None;
        }
        let missing = prev.exit_tag().wrapping_sub(cells.expected);
        let unfinished = prev.ending == Ending::Tells && !ptr::eq(cells.done, prev);
        if missing == 0 && !unfinished {
            let doubtful = prev.ending == Ending::Doubtful;
            return doubtful.then(|| Suspect { index: prev.facts.len() - 1, cut: false });
        }
        // The result is kept: the next call does not search again.
        cells.expected = prev.exit_tag();
        cells.done = prev;
        let index = prev.cut(missing)?;
        self.take_back_behind(prev, index);
        Some(Suspect { index, cut: true })
    }

    /// Takes back the instructions behind one of a block: they never began.
    #[cold]
    pub(crate) fn take_back_behind(&mut self, block: &Block, index: usize) {
        self.take_back(&block.tail(index + 1), block.kernel);
        self.change(block, index + 1..block.facts.len(), addresses::NEVER_BEGAN);
    }

    /// Takes back an instruction of a block that did not finish. Hardware does not count it; the emulator did begin it.
    #[cold]
    pub(crate) fn take_back_unfinished(&mut self, block: &Block, index: usize) {
        self.take_back(&Cost { starts: 0, ..block.one(index) }, block.kernel);
        self.change(block, index..index + 1, addresses::NOT_FINISHED);
    }

    /// Changes the costs by address in the open region.
    fn change(&mut self, block: &Block, indices: Range<usize>, by: [u64; 2]) {
        if let Some((addresses, region)) = self.open_addresses() {
            addresses.change(region, block, indices, by);
        }
    }

    /// The costs by address, if they are asked for, and the open region.
    fn open_addresses(&mut self) -> Option<(&mut Addresses, usize)> {
        self.addresses.as_deref_mut().zip(self.regions.open())
    }

    #[cold]
    pub(crate) fn take_back(&mut self, cost: &Cost, kernel: bool) {
        self.sums.take_back(cost, kernel);
        self.give(cost.instructions.wrapping_neg());
    }

    /// Switches to another vCPU, which now has its turn.
    #[cold]
    fn turn_to(&mut self, vcpu: u32) {
        if self.suspect.is_none() {
            self.suspect = self.inspect(self.prev());
        }
        let wanted = vcpu as usize;
        self.others.resize_with(self.others.len().max(wanted + 1), || None);
        self.others.resize_with(self.others.len().max(self.vcpu as usize + 1), || None);
        let mut next = self.others[wanted].take().unwrap_or_else(|| Vcpu {
            cells: Cells::behind(self.nowhere),
            position: Position::new(),
            suspect: None,
        });
        // SAFETY: QEMU writes to the cells between callbacks only.
        let cells = unsafe { &mut *self.cells };
        next.cells.retired = cells.retired;
        let now = Vcpu {
            cells: std::mem::replace(cells, next.cells),
            position: std::mem::replace(&mut self.position, next.position),
            suspect: std::mem::replace(&mut self.suspect, next.suspect),
        };
        self.others[self.vcpu as usize] = Some(now);
        self.vcpu = vcpu;
        self.turns += 1;
        self.walk.tree.choose_vcpu(wanted);
        self.cost = self.walk.tree.cost(self.position.node);
    }

    /// Called when QEMU discards all translated code, which ends a turn early.
    pub(crate) fn flushed(&mut self) {
        if let Some(open) = self.regions.open().filter(|_| self.arguments.window == Window::Markers)
        {
            self.failure.get_or_insert_with(|| {
                format!(
                    "QEMU emptied its buffer of translated code inside region '{}', which moves the \
                     turns of several CPUs: make the work run less code (fewer programs, a shorter \
                     region), or give the machine one CPU",
                    REGIONS[open]
                )
            });
        }
    }

    /// Notes that the last instruction of a block finished; `slot`: the address that it accessed.
    #[inline(always)]
    pub(crate) fn finish(&mut self, block: *const Block, slot: u64) {
        // SAFETY: QEMU writes to the cells between callbacks only.
        let cells = unsafe { &mut *self.cells };
        cells.done = block;
        cells.slot = slot;
        // If `block` is another block that did not begin, control left the last block for a device.
        if cells.prev().by_entry {
            cells.cut();
        }
    }

    /// Handles a marker at an instruction of a begun block.
    pub(crate) fn mark(&mut self, block: &Block, index: usize, marker: MarkerAt) {
        if let MarkerAt::Region(mark) = marker {
            if let Err(message) = self.mark_region(block, index, mark) {
                self.failure.get_or_insert(message);
            }
            return;
        }
        if self.arguments.window == Window::Whole {
            return;
        }
        self.attribute();
        if self.arguments.once && self.regions.is_forged(marker) {
            self.failure.get_or_insert(FORGED.into());
        }
        let done = match marker {
            MarkerAt::Start(region) => {
                let region = usize::from(region);
                if self.patched.is_none() {
                    self.patched = alternatives::patched(self.attribution.alternatives());
                }
                self.time_to(index + 1);
                if let Some(timing) = &mut self.timing {
                    timing.begin();
                }
                let tail = block.tail(index + 1);
                if region == 0 {
                    self.watching.iter_mut().for_each(|watching| watching.begin());
                }
                let now = self.reading(&tail, block.kernel);
                let node = self.position.node;
                if region == 0 {
                    self.record_region(true, tail.instructions);
                }
                self.check_entries()
                    .and_then(|()| self.begin_totals(block))
                    .and_then(|()| self.regions.start(region, now))
                    .map(|()| self.walk.tree.shift(node, OUTSIDE, region + 1, tail.instructions))
                    .map(|()| self.change(block, index + 1..block.facts.len(), addresses::BEGAN))
            }
            MarkerAt::Stop(region) => {
                let region = usize::from(region);
                self.time_to(index);
                let tail = block.tail(index);
                let now = self.reading(&tail, block.kernel);
                let node = self.position.node;
                if region == 0 {
                    self.record_region(false, tail.instructions);
                }
                self.change(block, index..block.facts.len(), addresses::NEVER_BEGAN);
                self.regions
                    .stop(region, now)
                    .map(|()| self.walk.tree.shift(node, region + 1, OUTSIDE, tail.instructions))
            }
            MarkerAt::RunEnd => self.end_run(),
            MarkerAt::Drain | MarkerAt::Drained => {
                if let Some(deferred) = self.deferred_outside() {
                    match marker {
                        MarkerAt::Drain => self.drains.begin(deferred),
                        _ => self.drains.end(deferred, self.regions.was_counted(0)),
                    }
                }
                Ok(())
            }
            MarkerAt::Region(_) => return,
        };
        if let Err(message) = done {
            self.failure.get_or_insert(message);
        }
        self.choose_column();
    }

    /// Checks that the kernel's entries tell where blocks are cut, if blocks rely on that.
    ///
    /// # Errors
    /// The register that has the interrupted address is not known.
    fn check_entries(&self) -> Result<(), String> {
        if self.by_entry && self.stack.is_learning() {
            return Err("the place of ELR_EL1 was not found in this QEMU, so faults cannot be counted exactly: \
                        too few exceptions returned before the region"
                .into());
        }
        Ok(())
    }

    /// Handles a program's message about its own region; the message counts only while a region of the run is open.
    fn mark_region(&mut self, block: &Block, index: usize, mark: RegionMark) -> Result<(), String> {
        if self.regions.open().is_none() {
            self.messages.forget();
            return Ok(());
        }
        let begins = matches!(mark, RegionMark::Begin | RegionMark::Stop);
        if begins && self.program_regions.any_open() {
            self.time_to(index);
            let now = self.reading(&block.tail(index), block.kernel);
            self.program_regions.pause(|| now);
        }
        let done = match self.messages.take(mark)? {
            None => return Ok(()),
            Some(Message::Begin(name)) => self.program_regions.begin(&name),
            Some(Message::End(name, operations)) => self.program_regions.end(&name, operations),
        };
        done.map_err(|error| error.to_string())?;
        if self.program_regions.any_open() {
            self.time_to(index + 1);
            let now = self.reading(&block.tail(index + 1), block.kernel);
            self.program_regions.resume(|| now);
        }
        Ok(())
    }

    /// Writes down the cost of the regions since the last run's end.
    fn end_run(&mut self) -> Result<(), String> {
        self.regions.check_run_end()?;
        self.program_regions.check_end().map_err(|error| error.to_string())?;
        self.add_run()?;
        self.regions.clear();
        self.drains = Drains::default();
        self.program_regions = ProgramRegions::default();
        self.walk.tree.clear_regions();
        self.watching.iter_mut().for_each(|watching| watching.clear());
        self.addresses.iter_mut().for_each(|addresses| addresses.clear());
        self.footprint.iter_mut().for_each(|footprint| footprint.clear());
        Ok(())
    }

    /// Adds the counts since the last run's end to the report.
    fn add_run(&mut self) -> Result<(), String> {
        let mut costs = costs(
            &self.arguments,
            &self.attribution,
            &self.walk.tree,
            (&self.regions, &self.program_regions),
            self.drains.left(),
            self.charges,
            self.watching.as_deref(),
        )?;
        if let Some(addresses) = &self.addresses {
            for ((region, _), cost) in self.regions.sums().zip(&mut costs) {
                let functions = self.attribution.functions();
                addresses.add_to(&mut cost.profile, region, &self.blocks, functions)?;
            }
        }
        if let Some(steps) = &self.steps
            && let Some(work) = costs.iter_mut().find(|cost| cost.region == REGIONS[0])
        {
            let functions = self.attribution.functions();
            let steps = match &self.arguments.stepped_call {
                None => steps.steps(functions, &mut work.profile)?,
                Some(name) => steps.calls_of(name, functions, &mut work.profile)?,
            };
            work.profile.steps = steps.map(Box::new);
        }
        if let Some(footprint) = &self.footprint
            && let Some(work) = costs.iter_mut().find(|cost| cost.region == REGIONS[0])
        {
            work.counts.extend(footprint.counts());
        }
        self.reports.add(&self.arguments.out, &costs)
    }

    /// The deferred instructions outside of regions so far, if classes are known.
    fn deferred_outside(&self) -> Option<u64> {
        self.walk.tree.class_sums(OUTSIDE).map(|sums| sums[Class::Deferred as usize])
    }

    fn choose_column(&mut self) {
        self.walk.tree.choose(self.regions.open().map_or(OUTSIDE, |region| region + 1));
        self.cost = self.walk.tree.cost(self.position.node);
    }

    /// Returns all sums so far, without the `tail` of the block that has begun.
    fn reading(&mut self, tail: &Cost, kernel: bool) -> CounterSums {
        let sums = &mut self.sums;
        let mut addresses = self.addresses.as_mut().zip(self.regions.open());
        self.blocks.take(|block, times| {
            sums.add_cost(&block.cost, block.kernel, times);
            if let Some((addresses, region)) = &mut addresses {
                addresses.begun(*region, block, times);
            }
        });
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
        landmarks.extend([self.system_calls, self.turns]);
        landmarks.extend(self.probes.iter().flatten());
        landmarks.extend(self.watching.iter().flat_map(|watching| watching.totals()));
        CounterSums { counters, landmarks }
    }

    /// Writes the report when the guest has ended: the costs, or the reason why there are none.
    pub(crate) fn write_report(&mut self) {
        if !refusal::is_first_process() || self.arguments.window == Window::Never {
            return;
        }
        let ended = match refusal::refused() {
            Some(message) => Err(message.to_string()),
            None => self.end(),
        };
        let whole = ended.and_then(|()| if self.reports.any() { Ok(()) } else { self.add_run() });
        match whole {
            Ok(()) => self.reports.put(&self.arguments.out, self.mapped.paths(), self.patched),
            Err(message) => write_error(&self.arguments.out, &message),
        }
    }

    /// Settles the last block, and stops an open region that has no markers.
    ///
    /// # Errors
    /// A region has a start and no stop, or nothing was counted.
    fn end(&mut self) -> Result<(), String> {
        self.attribute();
        if self.suspect.is_none() {
            self.suspect = self.inspect(self.prev());
        }
        if let Some(message) = &self.failure {
            return Err(message.clone());
        }
        self.program_regions.check_end().map_err(|error| error.to_string())?;
        self.time_to(usize::MAX);
        let now = self.reading(&Cost::default(), false);
        match self.arguments.window {
            Window::Whole => {
                self.record_region(false, 0);
                self.regions.stop(0, now)?;
            }
            Window::Never => {}
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

/// The flag of a handler that gets a `siginfo_t` (include/uapi/asm-generic/signal-defs.h). Without it, the frame has none.
const SA_SIGINFO: u64 = 4;

/// Leaks a value and returns the pointer to it, which callbacks may keep for ever.
pub(crate) fn leak<T>(value: T) -> *mut T {
    ptr::from_mut(Box::leak(Box::new(value)))
}
