//! The counts and the call stack of one thread, kept as callgrind keeps them (callgrind/bbcc.c, `CLG_(setup_bbcc)`).

use super::code::Block;
use super::files::{Files, Function};
use super::registers::{self, GENERAL, STACK};
use opcost_callgrind::settings::Settings;
use std::collections::HashMap;

/// The number of events: instructions, loads, stores, and the misses of three caches.
pub(super) const EVENTS: usize = 9;
/// Costs, one for each event.
pub(super) type Costs = [u64; EVENTS];

const NO_EDGE: u32 = u32::MAX;
const NO_CELL: u32 = u32::MAX;
/// A function and its depth of recursion; none at first.
const NO_CONTEXT: u32 = u32::MAX;

/// The counts of a block in a context.
pub(super) struct Cell {
    pub(super) block: &'static Block,
    pub(super) context: u32,
    /// How often the block began.
    pub(super) count: u64,
    /// Counts to add from an instruction on, where a block was not counted whole.
    pub(super) parts: Vec<(usize, i64)>,
    /// Costs of skipped functions that the last instruction called.
    pub(super) skipped: u64,
    /// The place of the first instruction's other costs.
    row: usize,
    /// The edge of the last call, and its callee's context.
    edge: (u32, u32),
}

/// Calls from the last instruction of a cell to a context.
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) calls: u64,
    pub(super) costs: Costs,
}

/// An open call.
struct Call {
    /// The stack pointer where the callee began.
    stack: u64,
    returns_to: u64,
    edge: u32,
    /// The thread's costs when the call began.
    entered: Costs,
    /// The callee; none if it is skipped.
    function: Option<u32>,
    context: u32,
    cell: u32,
    skips: Option<u32>,
}

/// The state of code that a signal interrupted.
struct Interrupted {
    stack: Vec<Call>,
    active: Vec<u32>,
    context: u32,
    cell: u32,
    skips: Option<u32>,
    /// The block that had begun last, if it was executed whole.
    last: Option<&'static Block>,
}

/// What a function's beginning or end asks of all threads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Action {
    Dump(String),
    Zero,
}

/// How control came to a block.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Came {
    Jump,
    Call,
    Return,
}

/// One thread.
pub(super) struct Thread {
    /// The thread's number, from 1.
    pub(super) number: u32,
    /// The registers of the processor; null until the thread runs.
    pub(super) registers: *const u64,
    last: Option<&'static Block>,
    stack: Vec<Call>,
    /// The stack pointer of the last open call.
    top: u64,
    active: Vec<u32>,
    context: u32,
    /// The cell of the block that began last.
    cell: u32,
    /// The cell that pays for the skipped function that runs.
    skips: Option<u32>,
    interrupted: Vec<Interrupted>,
    /// Whether this thread collects.
    pub(super) collects: bool,
    pub(super) cells: Vec<Cell>,
    /// By block: the context of its last cell, and the cell.
    slots: Vec<(u32, u32)>,
    by_context: HashMap<(u32, u32), u32>,
    pub(super) edges: Vec<Edge>,
    by_call: HashMap<(u32, u32), u32>,
    /// Costs other than instructions, a row for each instruction of each cell, if caches are simulated.
    pub(super) rows: Vec<[u64; EVENTS - 1]>,
    has_rows: bool,
    totals: Costs,
    /// The registers where the block with a request began.
    pub(super) begun: [u64; GENERAL],
    pub(super) actions: Vec<Action>,
}

impl Thread {
    pub(super) fn new(number: u32, settings: &Settings) -> Thread {
        Thread {
            number,
            registers: std::ptr::null(),
            last: None,
            stack: Vec::new(),
            top: u64::MAX,
            active: Vec::new(),
            context: NO_CONTEXT,
            cell: NO_CELL,
            skips: None,
            interrupted: Vec::new(),
            collects: settings.collect_atstart,
            cells: Vec::new(),
            slots: Vec::new(),
            by_context: HashMap::new(),
            edges: Vec::new(),
            by_call: HashMap::new(),
            rows: Vec::new(),
            has_rows: settings.cache_sim,
            totals: [0; EVENTS],
            begun: [0; GENERAL],
            actions: Vec::new(),
        }
    }

    /// Reads a register.
    ///
    /// # Safety
    /// The calling thread is this one, and a block begins.
    unsafe fn register(&self, number: usize) -> u64 {
        if self.registers.is_null() {
            return 0;
        }
        // SAFETY: as the caller promises; QEMU's object lives as long as the thread.
        unsafe { self.registers.add(number).read_volatile() }
    }

    /// Keeps the registers where a block with a request begins.
    ///
    /// # Safety
    /// As for [`register`](Self::register).
    pub(super) unsafe fn keep_registers(&mut self) {
        for number in 0..GENERAL {
            // SAFETY: as the caller promises.
            self.begun[number] = unsafe { self.register(number) };
        }
    }

    /// Whether the last instruction of the last block repeats itself in a block of its own.
    pub(super) fn repeats(&self, block: &'static Block) -> bool {
        block.repeats
            && block.instructions() == 1
            && self.last.is_some_and(|last| last.repeats && last.last() == block.start)
    }

    /// Notes that the block that began repeats the last instruction: only its accesses to memory are counted.
    pub(super) fn repeat(&mut self, block: &'static Block) {
        self.last = Some(block);
        if self.has_rows && self.context != NO_CONTEXT {
            self.cell = self.cell_of(block);
        }
    }

    /// Whether a block follows the last one without a call or a return.
    ///
    /// # Safety
    /// As for [`register`](Self::register).
    #[inline(always)]
    pub(super) unsafe fn goes_on(&self, block: &'static Block) -> bool {
        // Behind a signal's handler, the interrupted function goes on.
        let Some(last) = self.last else { return self.context != NO_CONTEXT };
        // SAFETY: as the caller promises.
        let stack = unsafe { self.register(STACK) };
        !(last.is_call | last.is_return | block.is_entry)
            && last.section == block.section
            && stack <= self.top
    }

    /// Follows control to a block by a call, a return, or a jump that may be one of these.
    ///
    /// # Safety
    /// As for [`register`](Self::register).
    pub(super) unsafe fn turn(
        &mut self,
        block: &'static Block,
        files: &Files,
        settings: &Settings,
    ) {
        let Some(last) = self.last else {
            self.enter(block, files, settings);
            return;
        };
        // SAFETY: as the caller promises.
        let mut stack = unsafe { self.register(STACK) };
        let mut came = match last {
            Block { is_call: true, .. } => Came::Call,
            Block { is_return: true, .. } => Came::Return,
            _ => Came::Jump,
        };
        let mut pops = 1;
        let mut returns_to_nobody = false;
        if came == Came::Return && !self.stack.is_empty() {
            pops = self.returned(block, stack);
            if pops == 0 {
                came = Came::Jump;
                returns_to_nobody = true;
            }
        }
        let mut from = self.cell;
        let mut returns_to = last.end();
        if came == Came::Jump
            && (returns_to_nobody || block.is_entry || last.section != block.section)
        {
            came = Came::Call;
            returns_to = 0;
            if files.functions[last.function as usize].resolves
                && let Some(top) = self.stack.last()
            {
                (from, stack) = (top.cell, top.stack);
                self.pop(files);
            }
        } else if came == Came::Jump {
            returns_to = 0;
        }
        if came == Came::Return {
            if self.stack.is_empty() {
                // The caller began before counting did.
                return self.enter(block, files, settings);
            }
            self.unwind(stack, pops, files);
        } else if self.unwind(stack, 0, files) == 0 && came == Came::Call {
            if returns_to == 0
                && let Some(top) = self.stack.last()
            {
                stack = top.stack;
            }
            self.push(block, from, stack, returns_to, files, settings);
        }
        if self.context == NO_CONTEXT {
            self.enter(block, files, settings);
        }
    }

    /// Returns how many calls of the same stack pointer a return ends; 0 if it is none.
    fn returned(&self, block: &Block, stack: u64) -> usize {
        let calls = self.stack.iter().rev();
        match self.stack.last() {
            Some(top) if stack < top.stack => 0,
            Some(top) if stack == top.stack => {
                let mut same = calls.take_while(|call| call.stack == stack);
                same.position(|call| call.returns_to == block.start).map_or(0, |place| place + 1)
            }
            _ => 1,
        }
    }

    /// Goes on in a block's own function, whose callers are not known.
    fn enter(&mut self, block: &Block, files: &Files, settings: &Settings) {
        self.context = block.function * settings.separate_recs;
        if files.functions[block.function as usize].skip {
            // There is no caller to pay.
            self.skips = None;
        }
    }

    fn push(
        &mut self,
        block: &'static Block,
        from: u32,
        stack: u64,
        returns_to: u64,
        files: &Files,
        settings: &Settings,
    ) {
        let function = &files.functions[block.function as usize];
        let (context, skips, caller) = (self.context, self.skips, self.cell);
        let payer = self.skips.unwrap_or(from);
        let mut edge = NO_EDGE;
        let callee = if function.skip && payer != NO_CELL {
            self.skips = Some(payer);
            None
        } else {
            self.skips = None;
            let number = block.function as usize;
            if self.active.len() <= number {
                self.active.resize(number + 1, 0);
            }
            let depth = self.active[number];
            self.active[number] += 1;
            self.context =
                block.function * settings.separate_recs + depth.min(settings.separate_recs - 1);
            if payer != NO_CELL {
                edge = self.edge(payer, self.context);
            }
            if depth == 0 {
                self.entered(function);
            }
            Some(block.function)
        };
        let entered = self.totals;
        self.stack.push(Call {
            stack,
            returns_to,
            edge,
            entered,
            function: callee,
            context,
            cell: caller,
            skips,
        });
        self.top = stack;
    }

    /// Ends the calls that the stack pointer has passed, and `pops` of those at which it stands; returns their number.
    fn unwind(&mut self, stack: u64, mut pops: usize, files: &Files) -> usize {
        let mut ended = 0;
        while let Some(call) = self.stack.last() {
            let passed = call.stack < stack;
            let stays = call.stack == stack && pops > 0;
            if !(passed || stays) {
                break;
            }
            pops -= usize::from(pops > 0);
            self.pop(files);
            ended += 1;
        }
        ended
    }

    fn pop(&mut self, files: &Files) {
        let Some(call) = self.stack.pop() else { return };
        self.pay(&call);
        if let Some(function) = call.function {
            let active = &mut self.active[function as usize];
            *active = active.saturating_sub(1);
            if *active == 0 {
                self.left(&files.functions[function as usize]);
            }
        }
        self.context = call.context;
        self.cell = call.cell;
        self.skips = call.skips;
        self.top = self.stack.last().map_or(u64::MAX, |call| call.stack);
    }

    /// Adds a call's costs to its edge, if it had any: calls from times without collection are not counted.
    fn pay(&mut self, call: &Call) {
        let Some(edge) = self.edges.get_mut(call.edge as usize) else { return };
        if self.totals != call.entered {
            edge.calls += 1;
            for (cost, (now, then)) in
                edge.costs.iter_mut().zip(self.totals.iter().zip(&call.entered))
            {
                *cost = cost.wrapping_add(now.wrapping_sub(*then));
            }
        }
    }

    fn entered(&mut self, function: &Function) {
        if function.dump_before {
            self.actions.push(Action::Dump(format!("--dump-before={}", function.name)));
        } else if function.zero_before {
            self.actions.push(Action::Zero);
        }
        self.collects ^= function.toggles;
    }

    fn left(&mut self, function: &Function) {
        if function.dump_after {
            self.actions.push(Action::Dump(format!("--dump-after={}", function.name)));
        }
        self.collects ^= function.toggles;
    }

    fn edge(&mut self, from: u32, to: u32) -> u32 {
        let cell = &mut self.cells[from as usize];
        if cell.edge.0 == to {
            return cell.edge.1;
        }
        let next = self.edges.len() as u32;
        let edge = *self.by_call.entry((from, to)).or_insert(next);
        if edge == next {
            self.edges.push(Edge { from, to, calls: 0, costs: [0; EVENTS] });
        }
        cell.edge = (to, edge);
        edge
    }

    /// Returns the cell of a block in the present context.
    #[inline(always)]
    fn cell_of(&mut self, block: &'static Block) -> u32 {
        match self.slots.get(block.number as usize) {
            Some((context, cell)) if *context == self.context => *cell,
            _ => self.find_cell(block),
        }
    }

    #[cold]
    fn find_cell(&mut self, block: &'static Block) -> u32 {
        let number = block.number as usize;
        if self.slots.len() <= number {
            self.slots.resize(number + 1, (NO_CONTEXT, NO_CELL));
        }
        let next = self.cells.len() as u32;
        let cell = *self.by_context.entry((block.number, self.context)).or_insert(next);
        if cell == next {
            let row = self.rows.len();
            if self.has_rows {
                self.rows.resize(row + block.instructions(), [0; EVENTS - 1]);
            }
            let (context, edge) = (self.context, (NO_CONTEXT, NO_EDGE));
            self.cells.push(Cell {
                block,
                context,
                count: 0,
                parts: Vec::new(),
                skipped: 0,
                row,
                edge,
            });
        }
        self.slots[number] = (self.context, cell);
        cell
    }

    /// Counts a block that begins, if this thread collects.
    #[inline(always)]
    pub(super) fn count(&mut self, block: &'static Block) {
        self.last = Some(block);
        self.cell = self.cell_of(block);
        if !self.collects {
            return;
        }
        let instructions = block.instructions() as u64;
        self.totals[0] += instructions;
        match self.skips {
            None => self.cells[self.cell as usize].count += 1,
            Some(payer) => self.cells[payer as usize].skipped += instructions,
        }
    }

    /// Adds another cost to an instruction of the block that began last.
    #[inline(always)]
    pub(super) fn spend(&mut self, index: usize, event: usize) {
        let row = match self.skips {
            None => self.cells.get(self.cell as usize).map(|cell| cell.row + index),
            Some(payer) => {
                self.cells.get(payer as usize).map(|cell| cell.row + cell.block.instructions() - 1)
            }
        };
        if let Some(row) = row.and_then(|row| self.rows.get_mut(row)) {
            row[event - 1] += 1;
            self.totals[event] += 1;
        }
    }

    /// The costs other than instructions of an instruction of a cell.
    pub(super) fn row(&self, cell: &Cell, index: usize) -> Option<&[u64; EVENTS - 1]> {
        self.rows.get(cell.row + index)
    }

    /// Adds or takes back the instructions of the last block from one on, which were not counted or counted in vain.
    pub(super) fn change(&mut self, from: usize, times: i64) {
        let Some(block) = self.last else { return };
        let number = block.instructions().saturating_sub(from) as u64;
        if number == 0 || self.cell == NO_CELL {
            return;
        }
        let change = (number as i64 * times) as u64;
        self.totals[0] = self.totals[0].wrapping_add(change);
        match self.skips {
            None => self.cells[self.cell as usize].parts.push((from, times)),
            Some(payer) => {
                let skipped = &mut self.cells[payer as usize].skipped;
                *skipped = skipped.wrapping_add(change);
            }
        }
    }

    /// Forgets the call stack: counting stops or begins for the program.
    pub(super) fn restart(&mut self, settings: &Settings, files: &Files) {
        self.end(files);
        self.actions.clear();
        self.collects = settings.collect_atstart;
        (self.context, self.skips) = (NO_CONTEXT, None);
        if let Some(block) = self.last {
            self.enter(block, files, settings);
            self.cell = self.cell_of(block);
        }
    }

    /// Notes that blocks run uncounted from now on; the last of them is this.
    pub(super) fn pass(&mut self, block: &'static Block) {
        self.last = Some(block);
    }

    /// Ends all calls.
    pub(super) fn end(&mut self, files: &Files) {
        while !self.stack.is_empty() {
            self.pop(files);
        }
        while let Some(state) = self.interrupted.pop() {
            self.resume(state);
            while !self.stack.is_empty() {
                self.pop(files);
            }
        }
    }

    /// Begins anew, as another thread of the same number.
    pub(super) fn begin_again(&mut self, settings: &Settings, files: &Files) {
        self.end(files);
        self.actions.clear();
        self.registers = std::ptr::null();
        (self.last, self.context, self.cell, self.skips) = (None, NO_CONTEXT, NO_CELL, None);
        self.collects = settings.collect_atstart;
    }

    /// Pays what open calls have cost so far, before a dump or when all costs are set to zero.
    pub(super) fn settle(&mut self) {
        let mut calls = std::mem::take(&mut self.stack);
        for call in &mut calls {
            self.pay(call);
            call.entered = self.totals;
        }
        self.stack = calls;
        for at in 0..self.interrupted.len() {
            let mut calls = std::mem::take(&mut self.interrupted[at].stack);
            for call in &mut calls {
                self.pay(call);
                call.entered = self.totals;
            }
            self.interrupted[at].stack = calls;
        }
    }

    /// Sets all costs to zero; open calls stay open.
    pub(super) fn clear(&mut self) {
        self.settle();
        for cell in &mut self.cells {
            (cell.count, cell.skipped) = (0, 0);
            cell.parts.clear();
        }
        for edge in &mut self.edges {
            (edge.calls, edge.costs) = (0, [0; EVENTS]);
        }
        self.rows.fill([0; EVENTS - 1]);
    }

    /// Follows control to a signal's handler: takes back what a fault cut off, and sets the interrupted calls aside.
    ///
    /// `counted`: whether the last block was counted.
    ///
    /// # Safety
    /// As for [`register`](Self::register); the block is a handler's first.
    pub(super) unsafe fn interrupt(&mut self, counted: bool) {
        /// Where the frame of a signal has the interrupted instruction: behind the return address and in `ucontext`
        /// (arch/x86/include/uapi/asm/sigcontext.h).
        const INSTRUCTION: u64 = 176;
        /// The second argument of a handler: `siginfo`.
        const ARGUMENT: usize = 6;
        // SAFETY: as the caller promises.
        let (stack, about) = unsafe { (self.register(STACK), self.register(ARGUMENT)) };
        let at = registers::word(stack.wrapping_add(INSTRUCTION));
        let mut last = self.last;
        if let (Some(block), Some(at)) = (self.last, at) {
            let place = block.index(at);
            // At the block's first instruction, the signal's code tells a fault from a signal that came before the block
            // (positive codes are the kernel's: siginfo.h).
            let faulted = || {
                let code = registers::word(about.wrapping_add(8)).map(|word| word as u32 as i32);
                code.is_some_and(|code| code > 0)
            };
            if let Some(place) = place.filter(|place| *place > 0 || faulted()) {
                last = None;
                if counted {
                    self.change(place, -1);
                }
            }
        }
        self.interrupted.push(Interrupted {
            stack: std::mem::take(&mut self.stack),
            active: std::mem::take(&mut self.active),
            context: self.context,
            cell: self.cell,
            skips: self.skips,
            last,
        });
        self.top = u64::MAX;
        (self.context, self.cell, self.skips, self.last) = (NO_CONTEXT, NO_CELL, None, None);
    }

    /// Returns from a signal's handler.
    pub(super) fn return_from_signal(&mut self, files: &Files) {
        let Some(state) = self.interrupted.pop() else { return };
        while !self.stack.is_empty() {
            self.pop(files);
        }
        self.resume(state);
    }

    fn resume(&mut self, state: Interrupted) {
        self.stack = state.stack;
        self.active = state.active;
        (self.context, self.cell, self.skips) = (state.context, state.cell, state.skips);
        self.last = state.last;
        self.top = self.stack.last().map_or(u64::MAX, |call| call.stack);
    }

    /// Whether a signal's handler may begin at a block: no call leads to it.
    pub(super) fn may_be_interrupted(&self) -> bool {
        self.last.is_none_or(|last| !last.is_call)
    }
}

#[cfg(test)]
#[path = "thread_tests.rs"]
mod tests;
