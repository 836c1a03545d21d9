//! Execution on a modelled core: one pass over the instructions in program order.
//!
//! Each instruction enters the window in some cycle, executes once its operands and a unit are ready, and leaves the window in
//! order. The model only computes times; it does not simulate cycle by cycle.

use crate::class::{Class, Queue};
use crate::code::{
    Code, FUSES, Flow, IN_VECTOR, Kind, LOADS, ON_STACK, Op, PAIRED, PAST_CACHES, REGISTERS,
    SCALED, SCATTERED, STORES, UNKNOWN,
};
use crate::cycles::{Cause, Cycles, Events};
use crate::direction::Direction;
use crate::figures::{Core, Cost, LINE_BYTES};
use crate::memory::Memory;
use crate::ports::Ports;
use crate::queue::Waiting;
use crate::ring::Ring;
use crate::stamp::Stamp;
use crate::stores::{Found, Pairs, Store, Stores};
use crate::target::{Guess, Targets};
use std::ops::Range;

/// One access to memory by an instruction of a block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Access {
    /// The instruction's number within its block.
    pub instruction: u16,
    /// Whether the access is a store.
    pub store: bool,
    /// The number of bytes.
    pub bytes: u16,
    /// The virtual address.
    pub address: u64,
}

/// A modelled core with its state: cache contents, learnt predictions, and operations in flight.
pub struct Machine {
    state: Box<State>,
}

impl Machine {
    /// Makes a core with empty caches that has learnt nothing.
    pub fn new(core: &Core) -> Machine {
        Machine { state: Box::new(State::new(core)) }
    }

    /// Executes a range of a block's instructions.
    ///
    /// `accesses`: the accesses of these instructions, in program order; `next`: the address of the next instruction after the
    /// range. A repeated string instruction continues if it comes first in the range and was the last instruction executed before.
    /// Its accesses may be runs of elements within one line.
    ///
    /// Returns the cycles by which the last instruction left the window later than the last instruction before the range. If an
    /// instruction lacks accesses that it must have made, the model assumes that it hit L1.
    pub fn execute(
        &mut self,
        code: &Code,
        range: Range<usize>,
        accesses: &[Access],
        next: u64,
    ) -> Cycles {
        let state = &mut *self.state;
        let ops = code.ops.get(range.start..range.end.min(code.ops.len()));
        let Some((ops, last)) = ops.and_then(|ops| Some((ops, ops.last()?))) else {
            return Cycles::default();
        };
        let before = state.charged;
        let first = &ops[0];
        let first_at = code.start.wrapping_add(u64::from(first.offset));
        let goes_on = is_string(first.kind) && state.string_at == Some(first_at);
        state.memory.events.instructions += ops.len() as u64 - u64::from(goes_on);
        state.entered = false;
        if first_at <= state.last_at {
            // The line, if it is the same, is decoded by now.
            state.width = state.fetch_width;
        }
        let mut rest = accesses;
        for (place, op) in ops.iter().enumerate() {
            let at = code.start.wrapping_add(u64::from(op.offset));
            let after = match ops.get(place + 1) {
                Some(op) => code.start.wrapping_add(u64::from(op.offset)),
                None => next,
            };
            let own = if op.flags & (LOADS | STORES) == 0 || rest.is_empty() {
                &[]
            } else {
                own_accesses(&mut rest, range.start + place)
            };
            state.step(op, at, after, own, goes_on && place == 0);
        }
        let last_at = code.start.wrapping_add(u64::from(last.offset));
        state.string_at = is_string(last.kind).then_some(last_at);
        state.last_at = last_at;
        Cycles::between(&before, &state.charged)
    }

    /// Learns from a range of a block's instructions without timing them. Caches, TLBs and predictors then hold the same state as
    /// if the instructions had been executed, and no cycle has passed.
    ///
    /// The arguments are those of [`Machine::execute`].
    pub fn learn(&mut self, code: &Code, range: Range<usize>, accesses: &[Access], next: u64) {
        let state = &mut *self.state;
        let range = range.start..range.end.min(code.ops.len());
        let ops = code.ops.get(range.clone());
        let Some((ops, last)) = ops.and_then(|ops| Some((ops, ops.last()?))) else { return };
        let address = |op: &Op| code.start.wrapping_add(u64::from(op.offset));
        let last_at = address(last);
        let goes_on = is_string(ops[0].kind) && state.string_at == Some(address(&ops[0]));
        state.memory.events.instructions += ops.len() as u64 - u64::from(goes_on);
        state.pass_code(address(&ops[0]), last_at.wrapping_add(u64::from(last.length.max(1)) - 1));
        let mut rest = accesses.iter().peekable();
        while let Some(access) = rest.next() {
            let Some(op) = code.ops.get(usize::from(access.instruction)) else { continue };
            let mut bytes = u64::from(access.bytes).max(1);
            if access.store {
                if op.flags & PAST_CACHES == 0 {
                    state.memory.learn(access.address, bytes);
                }
                continue;
            }
            if op.flags & SCATTERED == 0 {
                let goes_on = |next: &&Access, bytes| {
                    next.instruction == access.instruction
                        && !next.store
                        && next.address == access.address.wrapping_add(bytes)
                };
                while let Some(next) = rest.next_if(|next| goes_on(next, bytes)) {
                    bytes += u64::from(next.bytes).max(1);
                }
            }
            state.memory.learn(access.address, bytes);
            if matches!(op.kind, Kind::Plain | Kind::Transfer) || is_string(op.kind) {
                state.memory.learn_stride(address(op), access.address);
            }
        }
        // A jump ends its block.
        if last.flow != Flow::Next {
            state.learn_flow(last, last_at, next);
        }
        state.string_at = is_string(last.kind).then_some(last_at);
        state.last_at = last_at;
        (state.entered, state.before) = (last.kind == Kind::Entering, 0);
    }

    /// Handles an interrupt, a fault or another entry into the kernel between two blocks. The entry costs the class `enter`, but
    /// nothing if the last instruction was of this class itself.
    pub fn interrupted(&mut self) -> Cycles {
        let state = &mut *self.state;
        let before = state.charged;
        state.memory.events.interrupts += 1;
        if !state.entered {
            let done = state.serialised(u64::from(state.enter.latency));
            state.retire(Stamp::new(done, Cause::Frontend), 1);
        }
        state.entered = false;
        state.string_at = None;
        Cycles::between(&before, &state.charged)
    }

    /// Returns the number of executed instructions that no class fits.
    pub fn unknown(&self) -> u64 {
        self.state.unknown
    }

    /// Returns the events since the core was made.
    pub fn events(&self) -> Events {
        self.state.memory.events
    }

    /// Returns the cycle in which the last instruction left the window: the sum of all cycles returned so far.
    pub fn cycle(&self) -> u64 {
        self.state.retired.cycle()
    }
}

fn is_string(kind: Kind) -> bool {
    matches!(kind, Kind::Lines | Kind::Elements)
}

/// Takes an instruction's accesses off the front; drops the accesses of earlier instructions.
#[inline(always)]
fn own_accesses<'a>(rest: &mut &'a [Access], place: usize) -> &'a [Access] {
    let mut first = 0;
    while first < rest.len() && usize::from(rest[first].instruction) < place {
        first += 1;
    }
    let mut end = first;
    while end < rest.len() && usize::from(rest[end].instruction) == place {
        end += 1;
    }
    let own = &rest[first..end];
    *rest = &rest[end..];
    own
}

struct State {
    /// The time at which each register is ready.
    registers: [Stamp; REGISTERS],
    /// All cycles, by cause.
    charged: [u64; 8],

    /// The front end: its present cycle, the places used in this cycle, and the cause that the cycle is not earlier.
    fetch_cycle: u64,
    fetch_used: u64,
    fetch_cause: Cause,
    /// The line of code that was fetched last.
    fetch_line: u64,
    /// The earliest cycle in which prediction reaches the next line, and the cycles in which the last lines were fetched:
    /// prediction runs at most that many lines ahead.
    predicted: u64,
    fetched: Ring<u64>,
    /// Places of operations per cycle in the fetched line, and the address of the last instruction.
    width: u64,
    last_at: u64,
    /// The flags of the previous instruction, 0 after a jump.
    before: u16,

    /// Entry into the window: its present cycle, the places used, and the cause.
    dispatch: u64,
    dispatch_used: u64,
    dispatch_cause: Cause,
    /// The times at which the last instructions leave the window.
    window: Ring<Stamp>,
    /// The times at which the last loads leave the window.
    loads: Ring<Stamp>,
    integer: Waiting,
    address: Waiting,
    vector: Waiting,
    /// The times at which the last vector operations entered their queue, and the latest of these times.
    vector_entries: Ring<Stamp>,
    vector_entered: Stamp,

    ports: Ports,
    memory: Memory,
    stores: Stores,
    pairs: Pairs,
    /// No load executes before this cycle, because of a fence.
    loads_from: u64,
    /// No load executes from one of these cycles up to the other, because of a locked instruction.
    locked_from: u64,
    locked_until: u64,
    /// The line of the last store that bypassed the caches.
    past_line: u64,

    retired: Stamp,
    retired_used: u64,

    direction: Direction,
    targets: Targets,

    /// The address of the last repeated string instruction if it may continue, and its present lines.
    string_at: Option<u64>,
    string_lines: [u64; 2],
    string_from: u64,
    /// Whether the last instruction entered the kernel.
    entered: bool,
    unknown: u64,

    load: Cost,
    load_vector: Cost,
    store: Cost,
    store_vector: Cost,
    string_line: Cost,
    string_element: Cost,
    enter: Cost,
    fetch_width: u64,
    decode_width: u64,
    dispatch_width: u64,
    retire_width: u64,
    fetch_ahead: u64,
    restart: u64,
    taken: u64,
    forward: u64,
    forward_vector: u64,
    forward_failure: u64,
    renamed: u64,
    renamed_operand: u64,
    renames_stack: bool,
    renames_stored: bool,
    scaled: u64,
    returned: u64,
    indirect: u64,
}

impl State {
    fn new(core: &Core) -> State {
        let load = core.cost(Class::Load);
        State {
            registers: [Stamp::default(); REGISTERS],
            charged: [0; 8],
            fetch_cycle: 0,
            fetch_used: 0,
            fetch_cause: Cause::Frontend,
            fetch_line: u64::MAX,
            predicted: 0,
            fetched: Ring::new(core.window.lines_ahead),
            width: core.width.fetch,
            last_at: u64::MAX,
            before: 0,
            dispatch: 0,
            dispatch_used: 0,
            dispatch_cause: Cause::Issue,
            window: Ring::new(core.window.reorder_buffer),
            loads: Ring::new(core.window.load_queue),
            integer: Waiting::new(core.window.queue_integer),
            address: Waiting::new(core.window.queue_address),
            vector: Waiting::new(core.window.queue_vector),
            vector_entries: Ring::new(core.window.queue_vector_front),
            vector_entered: Stamp::default(),
            ports: Ports::new(core.groups()),
            memory: Memory::new(core, u64::from(load.latency)),
            stores: Stores::new(core.window.store_queue, core.cache.commits),
            pairs: Pairs::new(),
            loads_from: 0,
            locked_from: 0,
            locked_until: 0,
            past_line: u64::MAX,
            retired: Stamp::default(),
            retired_used: 0,
            direction: Direction::new(),
            targets: Targets::new(&core.prediction),
            string_at: None,
            string_lines: [u64::MAX; 2],
            string_from: 0,
            entered: false,
            unknown: 0,
            load,
            load_vector: core.cost(Class::LoadVector),
            store: core.cost(Class::Store),
            store_vector: core.cost(Class::StoreVector),
            string_line: core.cost(Class::StringLine),
            string_element: core.cost(Class::StringElement),
            enter: core.cost(Class::Enter),
            fetch_width: core.width.fetch,
            decode_width: core.width.decode,
            dispatch_width: core.width.dispatch,
            retire_width: core.width.retire,
            fetch_ahead: core.window.fetch_ahead,
            restart: core.prediction.restart,
            taken: core.prediction.taken,
            forward: core.forward.latency,
            forward_vector: core.forward.latency_vector,
            forward_failure: core.forward.failure,
            renamed: core.forward.renamed,
            renamed_operand: core.forward.renamed_operand,
            renames_stack: core.rename.stack_slots,
            renames_stored: core.rename.stored_values,
            scaled: core.cache.scaled,
            returned: core.prediction.returned,
            indirect: core.prediction.indirect,
        }
    }

    #[inline(always)]
    fn register(&self, place: u8) -> Stamp {
        self.registers[place as usize % REGISTERS]
    }

    /// Returns the time at which all of an instruction's register operands are ready.
    #[inline(always)]
    fn sources(&self, op: &Op) -> Stamp {
        let [a, b, c, d] = op.sources.map(|place| self.register(place));
        if op.chained == 0 {
            return a.max(b).max(c.max(d));
        }
        let early = |stamp: Stamp| match stamp.is_chained() {
            true => stamp.minus(u64::from(op.chained)),
            false => stamp,
        };
        early(a).max(early(b)).max(early(c).max(early(d)))
    }

    #[inline(always)]
    fn addresses(&self, op: &Op) -> Stamp {
        self.register(op.address[0]).max(self.register(op.address[1]))
    }

    #[inline(always)]
    fn set_results(&mut self, op: &Op, done: Stamp) {
        let [a, b, c, d] = op.results.map(|place| place as usize % REGISTERS);
        self.registers[c] = done;
        self.registers[d] = done;
        self.registers[b] = done.plus(u64::from(op.second_later));
        self.registers[a] = done;
    }

    /// Executes one instruction.
    #[inline(always)]
    fn step(&mut self, op: &Op, at: u64, after: u64, own: &[Access], goes_on: bool) {
        if !goes_on {
            self.fetch(at, op);
        }
        let before = std::mem::replace(&mut self.before, op.flags);
        match op.kind {
            Kind::Plain if op.flow == Flow::Branch => {
                let done = if before & op.flags & FUSES != 0 {
                    self.fused(op, before)
                } else {
                    self.ordinary::<false>(op, at, &[])
                };
                self.branch(op, at, after, done);
            }
            Kind::Plain if op.flags & (LOADS | STORES) == 0 => {
                let done = self.ordinary::<false>(op, at, &[]);
                if op.flow != Flow::Next {
                    self.branch(op, at, after, done);
                }
            }
            Kind::Plain | Kind::Transfer => {
                let done = self.ordinary::<true>(op, at, own);
                if op.flow != Flow::Next {
                    self.branch(op, at, after, done);
                }
            }
            Kind::Free | Kind::Moved => {
                self.enter_window::<false>(op);
                let now = Stamp::new(self.dispatch, Cause::Dependencies);
                let result =
                    if op.kind == Kind::Moved { self.register(op.sources[0]) } else { now };
                self.set_results(op, result);
                self.retire(Stamp::new(self.dispatch, self.dispatch_cause), op.slots);
            }
            _ => self.special(op, at, own, goes_on),
        }
        // No branch fuses with a branch in front of it.
        if op.flow != Flow::Next {
            self.before = 0;
        }
    }

    /// Executes a branch that is fused with the instruction before it, and returns the cycle in which the branch is resolved. The
    /// branch takes no place in the window, and takes a unit only if the two were not known as a pair.
    #[inline(always)]
    fn fused(&mut self, op: &Op, before: u16) -> u64 {
        let resolved = self.sources(op).cycle().max(self.dispatch + 1);
        if before & PAIRED != 0 {
            return resolved;
        }
        let resolved = self.ports.reserve(op.group, resolved - 1, op.occupancy) + 1;
        self.retire(Stamp::new(resolved, Cause::Issue), 0);
        resolved
    }

    /// Executes an instruction with an operation, and with loads or stores if `MEMORY`; returns the cycle in which the result is
    /// ready.
    #[inline(always)]
    fn ordinary<const MEMORY: bool>(&mut self, op: &Op, at: u64, own: &[Access]) -> u64 {
        self.enter_window::<MEMORY>(op);
        let mut data = self.sources(op);
        let mut cause = self.dispatch_cause;
        let mut done = self.dispatch;
        // The cause with which later instructions wait for the result.
        let mut result_cause = Cause::Dependencies;
        if MEMORY && op.flags & LOADS != 0 {
            let loaded = self.loaded(op, at, own);
            (done, cause, result_cause) = (loaded.done, loaded.cause, loaded.of_result());
            // The operation waits for its load and for its other operands.
            data = data.max(Stamp::new(done, cause));
        }
        if !MEMORY || op.kind == Kind::Plain {
            let vector = op.queue == Queue::Vector;
            let entered = if vector { self.vector_entered.cycle() } else { self.dispatch };
            let start = data.cycle().max(entered);
            let issued = self.ports.reserve(op.group, start, op.occupancy);
            done = issued + u64::from(op.latency);
            cause = if issued > start {
                Cause::Issue
            } else if data.cycle() > self.dispatch {
                data.cause()
            } else {
                self.dispatch_cause
            };
            result_cause = Cause::Dependencies;
            self.unknown += u64::from(op.flags & UNKNOWN != 0);
            let queue = if vector { &mut self.vector } else { &mut self.integer };
            queue.enter(entered, issued, cause);
            data = Stamp::new(done, cause);
        }
        let result = Stamp::new(done, result_cause);
        self.set_results(op, if op.chained == 0 { result } else { result.chained() });
        let complete = Stamp::new(done + u64::from(op.second_later), cause);
        if MEMORY && op.flags & STORES != 0 {
            self.stored(op, own, data, complete);
        } else {
            self.retire(complete, op.slots);
        }
        if MEMORY && op.flags & LOADS != 0 {
            self.loads.push(self.retired);
        }
        done
    }

    /// Fetches an instruction.
    #[inline(always)]
    fn fetch(&mut self, at: u64, op: &Op) {
        let (line, last) =
            (at / LINE_BYTES, at.wrapping_add(u64::from(op.length).max(1) - 1) / LINE_BYTES);
        if line != self.fetch_line {
            self.fetch_code(line);
        }
        if last != line {
            // The instruction takes the cycles of both lines.
            self.fetch_used += 1;
            self.fetch_code(last);
        }
        self.fetch_used += u64::from(op.slots);
        if self.fetch_used > self.width {
            self.fetch_cycle += 1;
            self.fetch_used = u64::from(op.slots);
            self.fetch_cause = Cause::Issue;
        }
        let least = self.dispatch.saturating_sub(self.fetch_ahead);
        if self.fetch_cycle < least {
            self.fetch_cycle = least;
        }
    }

    fn fetch_code(&mut self, line: u64) {
        self.fetch_line = line;
        // The front end fetches one line a cycle.
        if self.fetch_used > 0 {
            (self.fetch_cycle, self.fetch_used) = (self.fetch_cycle + 1, 0);
            self.fetch_cause = Cause::Frontend;
        }
        // Prediction passes one line a cycle, and requests the line.
        let predicted = self.predicted.max(self.fetched.oldest());
        self.predicted = predicted + 1;
        let missed = self.memory.code(line, predicted);
        self.width = if missed.is_some() { self.decode_width } else { self.fetch_width };
        if let Some(ready) = missed
            && ready > self.fetch_cycle
        {
            (self.fetch_cycle, self.fetch_used, self.fetch_cause) = (ready, 0, Cause::Frontend);
        }
        self.fetched.push(self.fetch_cycle);
    }

    /// Learns the lines of code of some instructions; `first` and `last`: addresses of the first and last byte.
    fn pass_code(&mut self, first: u64, last: u64) {
        for line in first / LINE_BYTES..=last / LINE_BYTES {
            if line != self.fetch_line {
                self.fetch_line = line;
                self.memory.learn_code(line);
            }
        }
    }

    /// Restarts prediction and fetch in a cycle.
    #[inline(always)]
    fn restart_fetch(&mut self, cycle: u64, cause: Cause) {
        (self.fetch_cycle, self.fetch_used, self.fetch_cause) = (cycle, 0, cause);
        self.predicted = cycle;
    }

    /// Gives an instruction its places in the window and the queues.
    #[inline(always)]
    fn enter_window<const MEMORY: bool>(&mut self, op: &Op) {
        let mut floor = Stamp::new(self.fetch_cycle, self.fetch_cause).max(self.window.oldest());
        if MEMORY && op.flags & LOADS != 0 {
            floor = floor.max(self.loads.oldest());
        }
        if MEMORY && op.flags & STORES != 0 {
            floor = floor.max(Stamp::new(self.stores.free_from(), Cause::Memory));
        }
        self.enter_from(floor, op.slots);
        match op.queue {
            Queue::Integer => {
                if let Some(free) = self.integer.full_until(self.dispatch) {
                    self.stall(free, op.slots);
                }
            }
            Queue::Vector => self.enter_vector(op.slots),
            Queue::Address | Queue::None => {}
        }
        if MEMORY && let Some(free) = self.address.full_until(self.dispatch) {
            self.stall(free, op.slots);
        }
    }

    /// Enters a vector operation; vector operations wait in order until their queue has a place.
    #[inline(always)]
    fn enter_vector(&mut self, slots: u8) {
        self.stall(self.vector_entries.oldest(), slots);
        let earliest = self.vector_entered.cycle().max(self.dispatch);
        self.vector_entered = match self.vector.full_until(earliest) {
            Some(free) => free,
            None => Stamp::new(earliest, Cause::Dependencies),
        };
        self.vector_entries.push(self.vector_entered);
    }

    #[inline(always)]
    fn enter_from(&mut self, floor: Stamp, slots: u8) {
        let slots = u64::from(slots);
        let later = floor.cycle() > self.dispatch;
        self.dispatch = self.dispatch.max(floor.cycle());
        self.dispatch_cause = if later { floor.cause() } else { self.dispatch_cause };
        self.dispatch_used = if later { slots } else { self.dispatch_used + slots };
        let full = self.dispatch_used > self.dispatch_width;
        self.dispatch_cause = if full { Cause::Issue } else { self.dispatch_cause };
        self.dispatch += u64::from(full && !later);
        self.dispatch_used = if full { slots } else { self.dispatch_used };
        if slots > self.dispatch_width {
            // An instruction of more places than a cycle has takes several cycles.
            let more = (slots - 1) / self.dispatch_width;
            self.dispatch += more;
            self.dispatch_used -= more * self.dispatch_width;
        }
    }

    fn stall(&mut self, free: Stamp, slots: u8) {
        if free.cycle() > self.dispatch {
            self.dispatch = free.cycle();
            self.dispatch_used = u64::from(slots).min(self.dispatch_width);
            self.dispatch_cause = free.cause();
        }
    }

    /// Executes an instruction's loads.
    #[inline(always)]
    fn loaded(&mut self, op: &Op, at: u64, own: &[Access]) -> Loaded {
        let from = self.addresses(op);
        if let [Access { store: false, address, bytes, .. }] = own {
            return self.load(op, at, Some((*address, u64::from(*bytes).max(1))), from);
        }
        self.loaded_apart(op, at, own, from)
    }

    /// Executes the loads of an instruction with several accesses or none.
    #[inline(never)]
    fn loaded_apart(&mut self, op: &Op, at: u64, own: &[Access], from: Stamp) -> Loaded {
        let mut loads = own.iter().filter(|access| !access.store);
        let Some(first) = loads.next() else { return self.load(op, at, None, from) };
        let (mut address, mut bytes) = (first.address, u64::from(first.bytes).max(1));
        let mut all: Option<Loaded> = None;
        for access in loads {
            let more = u64::from(access.bytes).max(1);
            // QEMU splits loads of more than eight bytes.
            if op.flags & SCATTERED == 0 && access.address == address.wrapping_add(bytes) {
                bytes += more;
                continue;
            }
            let one = self.load(op, at, Some((address, bytes)), from);
            all = Some(all.map_or(one, |all| all.later(one)));
            (address, bytes) = (access.address, more);
        }
        let one = self.load(op, at, Some((address, bytes)), from);
        all.map_or(one, |all| all.later(one))
    }

    /// Executes one load; without an address it hits L1.
    #[inline(always)]
    fn load(&mut self, op: &Op, at: u64, place: Option<(u64, u64)>, from: Stamp) -> Loaded {
        let in_vector = op.flags & IN_VECTOR != 0;
        let cost = if in_vector { self.load_vector } else { self.load };
        let ready = from.cycle().max(self.dispatch).max(self.loads_from);
        let start = if ready < self.locked_from { ready } else { ready.max(self.locked_until) };
        let issued = self.ports.reserve(cost.group, start, cost.occupancy);
        let mut cause = if issued > start {
            Cause::Issue
        } else if from.cycle() > self.dispatch {
            from.cause()
        } else {
            self.dispatch_cause
        };
        self.address.enter(self.dispatch, issued, cause);
        let latency =
            u64::from(cost.latency) + if op.flags & SCALED != 0 { self.scaled } else { 0 };
        let hit = issued + latency;
        let mut done = hit;
        let mut far = false;
        if let Some((address, bytes)) = place {
            let found = self.stores.find(address, bytes, issued);
            let ready = self.memory.load(at, address, bytes, issued);
            match found {
                Found::Nothing if ready > issued => {
                    done = ready + latency;
                    (cause, far) = (self.memory.cause(ready - issued), true);
                }
                Found::Nothing => {}
                Found::Whole(store, ago) => {
                    self.memory.events.forwarded += 1;
                    let on_stack = self.renames_stack && op.flags & ON_STACK != 0 && store.on_stack;
                    let known = self.renames_stored && !in_vector && self.pairs.knows(at, ago);
                    let latency = if in_vector { self.forward_vector } else { self.forward };
                    let (least, latency) = match (on_stack || known) && store.address == address {
                        true => (self.dispatch, self.forward_renamed(op)),
                        false => (hit, latency),
                    };
                    done = least;
                    if store.data + latency > least {
                        (done, cause) = (store.data + latency, Cause::Dependencies);
                    }
                }
                Found::Part(data) => {
                    self.memory.events.forward_failures += 1;
                    if data + self.forward_failure > hit {
                        done = data + self.forward_failure;
                        (cause, far) = (Cause::Memory, true);
                    }
                }
            }
        }
        Loaded { done, cause, far }
    }

    /// Returns the cycles until renaming has a load's value.
    #[inline(always)]
    fn forward_renamed(&self, op: &Op) -> u64 {
        self.renamed + if op.kind == Kind::Plain { self.renamed_operand } else { 0 }
    }

    /// Executes an instruction's stores and retires the instruction.
    ///
    /// `data`: the time at which the stored value is ready; `rest`: the time at which the other parts of the instruction are done.
    #[inline(always)]
    fn stored(&mut self, op: &Op, own: &[Access], data: Stamp, rest: Stamp) {
        let cost = if op.flags & IN_VECTOR != 0 { self.store_vector } else { self.store };
        let from = self.addresses(op);
        let start = from.cycle().max(self.dispatch);
        let data = data.cycle().max(self.dispatch);
        let issued = self.ports.reserve(cost.group, start, cost.occupancy);
        let cause = if issued > start {
            Cause::Issue
        } else if from.cycle() > self.dispatch {
            from.cause()
        } else {
            self.dispatch_cause
        };
        self.address.enter(self.dispatch, issued, cause);
        let mut stores = own.iter().filter(|access| access.store);
        let mut place = None;
        let mut translated = issued;
        if let Some(first) = stores.next() {
            let (address, mut bytes) = (first.address, u64::from(first.bytes).max(1));
            let mut others = false;
            for access in stores {
                let more = u64::from(access.bytes).max(1);
                match access.address == address.wrapping_add(bytes) {
                    true => bytes += more,
                    false => others = true,
                }
            }
            translated = self.memory.translated(address, issued);
            place = Some((address, bytes, others));
        }
        let mut done = Stamp::new(translated + u64::from(cost.latency), cause);
        if translated > issued {
            done = Stamp::new(done.cycle(), Cause::Memory);
        }
        // The stored value may be ready later than its address.
        let by_data = Stamp::new(data, if data > self.dispatch { rest.cause() } else { cause });
        let of_data = if op.kind == Kind::Plain { rest } else { self.of_operands(op, by_data) };
        self.retire(done.max(of_data).max(rest), op.slots);
        let left = self.retired.cycle();
        let Some((address, bytes, others)) = place else { return };
        let ready = if op.flags & PAST_CACHES != 0 {
            self.memory.past_caches(address, &mut self.past_line, left)
        } else {
            self.memory.access(address, bytes, left)
        };
        let commit = self.stores.commit(ready, address / LINE_BYTES);
        let on_stack = op.flags & ON_STACK != 0;
        self.stores.push(Store { address, bytes, data, commit, on_stack });
        if others {
            self.more_stores(own, address, bytes, data);
        }
    }

    /// Returns the time at which a plain store's operand is ready, with the operand's own cause.
    #[inline(always)]
    fn of_operands(&self, op: &Op, by_data: Stamp) -> Stamp {
        let operands = self.sources(op);
        if operands.cycle() == by_data.cycle() && operands.cycle() > self.dispatch {
            operands
        } else {
            by_data
        }
    }

    /// Executes the stores of an instruction that do not continue the first one.
    fn more_stores(&mut self, own: &[Access], first: u64, bytes: u64, data: u64) {
        for access in own.iter().filter(|access| access.store) {
            if access.address.wrapping_sub(first) < bytes {
                continue;
            }
            let bytes = u64::from(access.bytes).max(1);
            let ready = self.memory.access(access.address, bytes, self.retired.cycle());
            let commit = self.stores.commit(ready, access.address / LINE_BYTES);
            self.stores.push(Store {
                address: access.address,
                bytes,
                data,
                commit,
                on_stack: false,
            });
        }
    }

    /// Retires an instruction behind all earlier ones, and charges the cycles by which it is later than they.
    #[inline(always)]
    fn retire(&mut self, done: Stamp, slots: u8) {
        let slots = u64::from(slots);
        let late = done.cycle().saturating_sub(self.retired.cycle());
        // There are fewer than eight causes; the remaining places stay 0.
        self.charged[done.cause_place()] += late;
        let used = if late > 0 { slots } else { self.retired_used + slots };
        let retired = if late > 0 { done } else { self.retired };
        let full = used > self.retire_width;
        self.charged[Cause::Issue as usize] += u64::from(full);
        self.retired = match full {
            true => Stamp::new(retired.cycle() + 1, Cause::Issue),
            false => retired,
        };
        self.retired_used = if full { used - self.retire_width } else { used };
        if slots == 1 {
            self.window.push(self.retired);
        } else {
            self.retire_many(slots);
        }
    }

    /// Counts the places of an instruction that has none, or more than one.
    #[inline(never)]
    fn retire_many(&mut self, slots: u64) {
        while self.retired_used > self.retire_width {
            self.retired_used -= self.retire_width;
            self.charged[Cause::Issue as usize] += 1;
            self.retired = Stamp::new(self.retired.cycle() + 1, Cause::Issue);
        }
        for _ in 0..slots {
            self.window.push(self.retired);
        }
    }

    /// Moves fetch behind a jump that is resolved in some cycle.
    #[inline(always)]
    fn branch(&mut self, op: &Op, at: u64, after: u64, resolved: u64) {
        let Passed { missed, taken, decoded, cycles } = self.learn_flow(op, at, after);
        if missed {
            self.restart_fetch(resolved + self.restart, Cause::Branches);
        } else if taken {
            self.fetch_cycle += 1 + self.taken + cycles;
            (self.fetch_used, self.fetch_cause) = (0, Cause::Frontend);
            if decoded {
                self.predicted = self.fetch_cycle;
            }
        }
    }

    /// Teaches the predictors a jump, and returns how the front end handled it.
    #[inline(always)]
    fn learn_flow(&mut self, op: &Op, at: u64, after: u64) -> Passed {
        let behind = at.wrapping_add(u64::from(op.length));
        let (missed, taken, more) = match op.flow {
            Flow::Next => return Passed::default(),
            Flow::Branch => {
                let taken = after != behind;
                self.memory.events.branches += 1;
                (self.direction.misses(at, taken), taken, 0)
            }
            Flow::Jump => (false, true, 0),
            Flow::Call => {
                self.targets.call(behind);
                (false, true, 0)
            }
            Flow::JumpIndirect | Flow::CallIndirect => {
                if op.flow == Flow::CallIndirect {
                    self.targets.call(behind);
                }
                // A bit that distinguishes jumps.
                self.direction.push((at >> 2 ^ at >> 5) & 1 != 0);
                match self.targets.guess(at, after) {
                    Guess::Missed => (true, true, 0),
                    Guess::Same => (false, true, 0),
                    Guess::ByHistory => (false, true, self.indirect),
                }
            }
            Flow::Return => (self.targets.misses_return(at, after), true, self.returned),
        };
        if taken && op.flow != Flow::Return {
            let target = if op.flow == Flow::JumpIndirect { after } else { 0 };
            self.targets.passed(at, target);
        }
        let mut passed = Passed { missed, taken, decoded: false, cycles: more };
        if missed {
            self.memory.events.branch_misses += 1;
        } else if taken {
            let (cycles, decoded) = self.targets.taken(at);
            self.memory.events.target_misses += u64::from(decoded);
            (passed.cycles, passed.decoded) = (more + cycles, decoded);
        }
        passed
    }

    /// Returns the cycle in which an instruction is done that waits for all before it; the front end restarts behind the
    /// instruction.
    fn serialised(&mut self, cycles: u64) -> u64 {
        let start = self.retired.cycle().max(self.dispatch).max(self.stores.last_commit);
        let done = start + cycles;
        self.restart_fetch(done, Cause::Frontend);
        done
    }

    /// Executes an instruction that is no plain dataflow.
    #[cold]
    fn special(&mut self, op: &Op, at: u64, own: &[Access], goes_on: bool) {
        let latency = u64::from(op.latency);
        if is_string(op.kind) {
            return self.string(op, at, own, goes_on);
        }
        self.enter_window::<true>(op);
        let (done, cause) = match op.kind {
            Kind::Locked => {
                let (done, left) = self.locked(op, own);
                self.set_results(op, Stamp::new(done, Cause::Dependencies));
                return self.retire(left, op.slots);
            }
            Kind::Fence => {
                let start = self.retired.cycle().max(self.dispatch).max(self.stores.last_commit);
                self.loads_from = start + latency;
                (start + latency, Cause::Memory)
            }
            Kind::FenceLoad => {
                let done = self.retired.cycle().max(self.dispatch) + latency;
                self.restart_fetch(done, Cause::Issue);
                (done, Cause::Issue)
            }
            Kind::Stall => {
                let done = self.dispatch + latency;
                self.restart_fetch(done, Cause::Issue);
                (done, Cause::Issue)
            }
            _ => {
                let start = self.dispatch;
                for access in own {
                    self.memory.access(access.address, u64::from(access.bytes).max(1), start);
                }
                self.entered = op.kind == Kind::Entering;
                (self.serialised(latency), Cause::Frontend)
            }
        };
        self.set_results(op, Stamp::new(done, Cause::Dependencies));
        self.retire(Stamp::new(done, cause), op.slots);
    }

    /// Executes a locked instruction, behind all instructions before it. Returns when its result is ready, and when it leaves the
    /// window and is in L1.
    ///
    /// Loops with locked instructions on Zen 4 show three rules: earlier stores are in L1 by then, the instruction leaves one cycle
    /// before its result, and loads execute early unless their addresses become ready while the instruction executes.
    fn locked(&mut self, op: &Op, own: &[Access]) -> (u64, Stamp) {
        let data = self.sources(op).max(self.addresses(op));
        let start = data.cycle().max(self.dispatch).max(self.retired.cycle()).max(self.loads_from);
        let issued = self.ports.reserve(op.group, start, op.occupancy);
        let mut ready = issued;
        for access in own {
            let bytes = u64::from(access.bytes).max(1);
            ready = ready.max(self.memory.access(access.address, bytes, issued));
        }
        let done = ready + u64::from(op.latency);
        let stored = self.stores.last_commit + 1;
        let left = (done - 1).max(stored);
        (self.locked_from, self.locked_until) = (issued, ready + u64::from(self.load.latency));
        self.stores.commit(left, u64::MAX);
        let cause = if ready > issued {
            self.memory.cause(ready - issued)
        } else if left == stored {
            Cause::Memory
        } else if data.cycle() > self.dispatch {
            data.cause()
        } else {
            Cause::Dependencies
        };
        (done, Stamp::new(left, cause))
    }

    /// Executes a repeated string instruction or a part of one: line by line where hardware moves lines.
    fn string(&mut self, op: &Op, at: u64, own: &[Access], goes_on: bool) {
        if !goes_on {
            self.enter_window::<true>(op);
            let data = self.sources(op).max(self.addresses(op));
            let start = data.cycle().max(self.dispatch);
            let issued = self.ports.reserve(op.group, start, op.occupancy);
            self.string_from = issued + u64::from(op.latency);
            self.string_lines = [u64::MAX; 2];
            // Lines move before the count is known, elements do not.
            let from = if op.kind == Kind::Lines { self.dispatch } else { issued };
            self.restart_fetch(from + u64::from(op.latency), Cause::Issue);
            self.retire(Stamp::new(self.string_from, Cause::Issue), op.slots);
        }
        let mut done = self.string_from;
        let mut loaded = self.string_from;
        for access in own {
            let line = access.address / LINE_BYTES;
            let bytes = u64::from(access.bytes).max(1);
            let (cost, address, bytes) = match op.kind {
                Kind::Lines if line == self.string_lines[usize::from(access.store)] => continue,
                Kind::Lines => (self.string_line, line * LINE_BYTES, LINE_BYTES),
                _ => (self.string_element, access.address, bytes),
            };
            self.string_lines[usize::from(access.store)] = line;
            let mut floor =
                Stamp::new(self.fetch_cycle, self.fetch_cause).max(self.window.oldest());
            if access.store {
                floor = floor.max(Stamp::new(self.stores.free_from(), Cause::Memory));
            }
            self.enter_from(floor, cost.slots);
            let start = self.dispatch.max(self.string_from);
            if access.store {
                let issued = self.ports.reserve(cost.group, start, cost.occupancy);
                let written = loaded.max(issued + 1);
                let late = loaded > issued + 1;
                let cause = if late { self.memory.cause(loaded - issued) } else { Cause::Issue };
                done = done.max(written);
                self.retire(Stamp::new(written, cause), cost.slots);
                let ready = self.memory.access(address, bytes, self.retired.cycle());
                let commit = self.stores.commit(ready, address / LINE_BYTES);
                let store = Store { address, bytes, data: written, commit, on_stack: false };
                self.stores.push(store);
            } else {
                let group = if op.kind == Kind::Lines { self.load.group } else { cost.group };
                let occupancy = if op.kind == Kind::Lines { 1 } else { cost.occupancy };
                let issued = self.ports.reserve(group, start, occupancy);
                let ready = self.memory.load(at, address, bytes, issued);
                let late = ready > issued;
                let cause = if late { self.memory.cause(ready - issued) } else { Cause::Issue };
                loaded = ready + u64::from(self.load.latency);
                done = done.max(loaded);
                self.retire(Stamp::new(loaded, cause), cost.slots);
            }
        }
        self.set_results(op, Stamp::new(done, Cause::Dependencies));
    }
}

/// The handling of a jump by the front end.
#[derive(Clone, Copy, Default)]
struct Passed {
    /// Whether the jump went elsewhere than predicted.
    missed: bool,
    taken: bool,
    /// Whether the target was known only after decoding the jump.
    decoded: bool,
    /// Cycles until the target was known.
    cycles: u64,
}

/// A load's outcome.
#[derive(Clone, Copy)]
struct Loaded {
    done: u64,
    cause: Cause,
    /// Whether L1 or the store queue delayed the load.
    far: bool,
}

impl Loaded {
    fn of_result(self) -> Cause {
        match self.cause {
            Cause::Far => Cause::Far,
            _ if self.far => Cause::Memory,
            _ => Cause::Dependencies,
        }
    }

    fn later(self, other: Loaded) -> Loaded {
        if other.done > self.done { other } else { self }
    }
}
