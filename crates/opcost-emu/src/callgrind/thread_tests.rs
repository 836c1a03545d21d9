//! Blocks that begin one after the other, with the stack pointer where each begins.

use super::*;

const MAIN: u32 = 0;
const F: u32 = 1;
const PLT: u32 = 2;

/// How a block ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Call,
    Return,
    Other,
}

struct Trial {
    thread: Thread,
    files: Files,
    settings: Settings,
    registers: Box<[u64; GENERAL]>,
    blocks: u32,
}

impl Trial {
    fn new(settings: Settings) -> Trial {
        let mut files = Files::new();
        for (name, skip) in [("main", false), ("f", false), ("[plt]", true)] {
            files.functions.push(Function {
                name: name.into(),
                file: 0,
                start: 0,
                skip,
                resolves: false,
                toggles: settings.toggle_collect.iter().any(|toggle| toggle == name),
                dump_before: false,
                dump_after: false,
                zero_before: false,
            });
        }
        let mut thread = Thread::new(1, &settings);
        let registers = Box::new([0; GENERAL]);
        thread.registers = registers.as_ptr();
        Trial { thread, files, settings, registers, blocks: 0 }
    }

    /// Makes a block of three instructions of a byte.
    fn block(&mut self, function: u32, start: u64, is_entry: bool, end: End) -> &'static Block {
        self.blocks += 1;
        Box::leak(Box::new(Block {
            number: self.blocks,
            start,
            addresses: (start..start + 4).collect(),
            function,
            section: u32::from(function == PLT),
            is_entry,
            is_call: end == End::Call,
            is_return: end == End::Return,
            repeats: false,
            traps: None,
            codes: None,
        }))
    }

    fn begin(&mut self, block: &'static Block, stack: u64) {
        self.registers[STACK] = stack;
        self.thread.registers = self.registers.as_ptr();
        // SAFETY: the registers are the trial's.
        unsafe {
            if !self.thread.goes_on(block) {
                self.thread.turn(block, &self.files, &self.settings);
            }
        }
        self.thread.count(block);
    }

    /// Own instructions by context.
    fn own(&self, context: u32) -> u64 {
        let cells = self.thread.cells.iter().filter(|cell| cell.context == context);
        cells.map(|cell| cell.count * cell.block.instructions() as u64 + cell.skipped).sum()
    }

    /// Calls and inclusive instructions between contexts.
    fn calls(&self, from: u32, to: u32) -> (u64, u64) {
        let edges = self.thread.edges.iter();
        let edges = edges
            .filter(|edge| edge.to == to && self.thread.cells[edge.from as usize].context == from);
        edges.fold((0, 0), |sums, edge| (sums.0 + edge.calls, sums.1 + edge.costs[0]))
    }
}

/// The context of a function at a depth of recursion.
fn context(function: u32, depth: u32) -> u32 {
    function * 2 + depth
}

#[test]
fn calls_end_where_the_stack_pointer_passes_them() {
    let mut trial = Trial::new(Settings::default());
    let main = trial.block(MAIN, 100, true, End::Call);
    let after = trial.block(MAIN, 103, false, End::Call);
    let again = trial.block(MAIN, 106, false, End::Other);
    let f = trial.block(F, 200, true, End::Return);
    for (block, stack) in [(main, 1000), (f, 992), (after, 1000), (f, 992), (again, 1000)] {
        trial.begin(block, stack);
    }
    assert_eq!((trial.own(context(MAIN, 0)), trial.own(context(F, 0))), (9, 6));
    assert_eq!(trial.calls(context(MAIN, 0), context(F, 0)), (2, 6));
}

#[test]
fn recursion_tail_calls_and_long_jumps_are_followed() {
    let mut trial = Trial::new(Settings::default());
    let main = trial.block(MAIN, 100, true, End::Call);
    let f = trial.block(F, 200, true, End::Call);
    let tail = trial.block(F, 203, false, End::Other);
    let landed = trial.block(MAIN, 110, false, End::Other);
    // f calls itself, jumps to its own beginning, and leaves all of that by a long jump.
    for (block, stack) in [(main, 1000), (f, 992), (f, 984), (tail, 992), (f, 992), (landed, 1008)]
    {
        trial.begin(block, stack);
    }
    assert_eq!((trial.own(context(F, 0)), trial.own(context(F, 1))), (6, 6));
    assert_eq!(trial.calls(context(MAIN, 0), context(F, 0)), (1, 12));
    assert_eq!(trial.calls(context(F, 0), context(F, 1)), (2, 6));
    assert_eq!(trial.own(context(MAIN, 0)), 6);
}

#[test]
fn linkage_tables_belong_to_their_callers() {
    let mut trial = Trial::new(Settings::default());
    let main = trial.block(MAIN, 100, true, End::Call);
    let after = trial.block(MAIN, 103, false, End::Other);
    let plt = trial.block(PLT, 50, true, End::Other);
    let f = trial.block(F, 200, true, End::Return);
    for (block, stack) in [(main, 1000), (plt, 992), (f, 992), (after, 1000)] {
        trial.begin(block, stack);
    }
    assert_eq!((trial.own(context(MAIN, 0)), trial.own(context(F, 0))), (9, 3));
    assert_eq!(trial.calls(context(MAIN, 0), context(F, 0)), (1, 3));
}

#[test]
fn toggled_functions_collect_with_what_they_call() {
    let settings = Settings {
        toggle_collect: vec!["f".into()],
        collect_atstart: false,
        ..Settings::default()
    };
    let mut trial = Trial::new(settings);
    let main = trial.block(MAIN, 100, true, End::Call);
    let after = trial.block(MAIN, 103, false, End::Other);
    let f = trial.block(F, 200, true, End::Return);
    for (block, stack) in [(main, 1000), (f, 992), (after, 1000)] {
        trial.begin(block, stack);
    }
    assert_eq!((trial.own(context(MAIN, 0)), trial.own(context(F, 0))), (0, 3));
    assert_eq!(trial.calls(context(MAIN, 0), context(F, 0)), (1, 3));
}

#[test]
fn what_a_request_or_a_fault_cuts_off_is_taken_back() {
    let mut trial = Trial::new(Settings::default());
    let main = trial.block(MAIN, 100, true, End::Other);
    trial.begin(main, 1000);
    trial.thread.change(1, -1);
    let cell = &trial.thread.cells[0];
    assert_eq!((cell.count, cell.parts.as_slice()), (1, &[(1, -1)][..]));
    trial.thread.clear();
    assert!(trial.thread.cells[0].parts.is_empty());
    assert_eq!(trial.own(context(MAIN, 0)), 0);
}
