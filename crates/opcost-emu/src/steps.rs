//! Records the calls of the work in their order, so that one operation can be shown step by step.
//!
//! **Equal calls are kept once.** When a call ends, its steps are looked up among those of earlier calls (hash consing; Ershov, "On
//! programming of arithmetic operations", 1958). A loop of a million equal system calls thus keeps one of them and a million numbers,
//! so every operation can be kept, and the median one can be chosen when the region ends. No second run is needed.
//!
//! **Work that nobody asked for stands apart, in its place.** An interrupt, or another task's turn, is a call of the function that it
//! interrupted. The instructions of all calls therefore add up to the region's.
//!
//! **Counting stays as it is.** Blocks get another callback, which calls the same functions, and costs nothing where no steps are
//! recorded.

use crate::block::Block;
use crate::callback;
use crate::compare::{Compared, Decide, Decider};
use crate::decode::Exit;
use crate::plugin::Plugin;
use crate::stack::Stack;
use crate::tree::{INTERRUPTS, Tree};
use crate::walk::{Lane, is_entry};
use opcost_record::steps::{
    BRANCHES_MAX, CALLS_MAX, STEPS_MAX, Step, StepBranch, StepCall, StepHow, Steps,
};
use opcost_record::symbols::Landmark;
use opcost_record::{Function, Profile};
use std::collections::{HashMap, HashSet};
use std::ffi::{c_uint, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most values of branches that are kept.
const VALUES_MAX: usize = 1 << 18;
/// The least number of operations that are found by calls of several functions.
const MANY: usize = 8;
/// The most calls of a loop besides those of its operations.
const SPARE: usize = 3;
/// The most calls of one function in an operation by which operations are found.
const PER_OPERATION_MAX: usize = 64;

/// The operation that is wanted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Wanted {
    /// Its number from 1; `None` for the median one by instructions.
    pub(crate) operation: Option<u64>,
    /// How many operations the work has; 0 if that is not known.
    pub(crate) operations: u64,
}

/// One step, as recorded.
#[derive(Clone, Copy, Debug)]
enum Item {
    Own(u64),
    /// The branch at a block's end; `values`: their place, less one, or 0.
    Branch {
        block: u32,
        taken: bool,
        values: u32,
    },
    Call {
        call: u32,
        from: u64,
    },
}

impl Item {
    /// What two steps have in common if they are alike; values may differ.
    fn key(&self) -> (u8, u64, u64) {
        match *self {
            Item::Own(own) => (0, own, 0),
            Item::Branch { block, taken, .. } => (1, block.into(), taken.into()),
            Item::Call { call, from } => (2, call.into(), from),
        }
    }
}

fn hash_of(items: &[Item]) -> u64 {
    let mut hasher = DefaultHasher::new();
    items.iter().for_each(|item| item.key().hash(&mut hasher));
    hasher.finish()
}

fn same(one: &[Item], other: &[Item]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.key() == other.key())
}

/// A call that ended.
#[derive(Debug)]
struct Done {
    head: Head,
    items: Box<[Item]>,
    total: u64,
}

/// What is known of a call when it begins.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Head {
    function: Option<u32>,
    how: StepHow,
    entry: u64,
}

/// A call that has not ended.
#[derive(Debug)]
struct Open {
    node: u32,
    head: Head,
    from: u64,
    items: Vec<Item>,
    /// Branches since the last call.
    branches: u16,
}

/// The open calls of a task, or of an interrupt.
#[derive(Debug)]
struct Section {
    lane: Lane,
    frames: Vec<Open>,
}

/// How control came to a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    pub(crate) how: StepHow,
    /// Link addresses: of the block, and of the instruction that led there.
    pub(crate) entry: u64,
    pub(crate) from: u64,
}

/// The recorder.
#[derive(Debug)]
pub(crate) struct Recorder {
    wanted: Wanted,
    /// The column's instructions at the last event.
    clock: u64,
    sections: Vec<Section>,
    done: Vec<Done>,
    index: HashMap<u64, Vec<u32>>,
    /// Steps that are kept, of open calls and of those that ended.
    kept: usize,
    calls_max: usize,
    full: bool,
    beyond: u64,
    values: Vec<[u64; 2]>,
    /// The comparison whose branch was passed last, and the address of the block behind that branch.
    compared: Option<(u64, Compared)>,
    /// By the block's number: what decides the branch at its end.
    deciders: Vec<Option<Box<Decider>>>,
    /// The call that stands for the region, when the region has ended.
    root: Option<u32>,
}

impl Recorder {
    pub(crate) fn new(wanted: Wanted) -> Recorder {
        Recorder {
            wanted,
            clock: 0,
            sections: Vec::new(),
            done: Vec::new(),
            index: HashMap::new(),
            kept: 0,
            calls_max: CALLS_MAX,
            full: false,
            beyond: 0,
            values: Vec::new(),
            compared: None,
            deciders: Vec::new(),
            root: None,
        }
    }

    /// Whether a region is being recorded.
    fn is_open(&self) -> bool {
        !self.sections.is_empty()
    }

    /// Begins a region in a context, when so many instructions are counted.
    pub(crate) fn start(&mut self, tree: &Tree, lane: Lane, node: u32, clock: u64) {
        let deciders = std::mem::take(&mut self.deciders);
        *self =
            Recorder { deciders, clock, calls_max: self.calls_max, ..Recorder::new(self.wanted) };
        let came = Came { how: StepHow::Before, entry: 0, from: 0 };
        self.enter(tree, lane, node, came);
    }

    /// Ends the region.
    pub(crate) fn stop(&mut self, clock: u64) {
        if !self.is_open() {
            return;
        }
        self.charge(clock);
        while self.sections.len() > 1 {
            self.close_section();
        }
        while let Some(open) = self.sections[0].frames.pop() {
            let call = self.intern(open.head, open.items);
            match self.sections[0].frames.last_mut() {
                Some(below) => below.items.push(Item::Call { call, from: open.from }),
                None => self.root = Some(call),
            }
        }
        self.sections.clear();
    }

    /// Charges the innermost call with the instructions since the last event.
    fn charge(&mut self, clock: u64) {
        let own = clock.wrapping_sub(std::mem::replace(&mut self.clock, clock));
        if self.full {
            self.beyond = self.beyond.wrapping_add(own);
            return;
        }
        if own == 0 {
            return;
        }
        let Some(top) = self.top() else { return };
        if let Some(Item::Own(sum)) = top.items.last_mut() {
            *sum = sum.wrapping_add(own);
        } else {
            top.items.push(Item::Own(own));
            self.kept += 1;
        }
    }

    fn top(&mut self) -> Option<&mut Open> {
        self.sections.last_mut()?.frames.last_mut()
    }

    /// Control came to another context, or another task.
    fn turn(&mut self, tree: &Tree, lane: Lane, node: u32, clock: u64, came: Came) {
        self.charge(clock);
        if !self.full {
            self.enter(tree, lane, node, came);
            self.full = self.kept >= STEPS_MAX || self.done.len() >= self.calls_max;
        }
    }

    fn enter(&mut self, tree: &Tree, lane: Lane, node: u32, came: Came) {
        match self.sections.iter().rposition(|section| section.lane == lane) {
            Some(place) => {
                while self.sections.len() > place + 1 {
                    self.close_section();
                }
            }
            None => {
                let how = match lane.base {
                    _ if self.sections.is_empty() => StepHow::Before,
                    INTERRUPTS => StepHow::Interrupt,
                    _ => StepHow::Task,
                };
                let head = Head { function: None, how, entry: 0 };
                let open =
                    Open { node: lane.base, head, from: came.from, items: Vec::new(), branches: 0 };
                self.sections.push(Section { lane, frames: vec![open] });
            }
        }
        let mut path = Vec::new();
        let mut at = node;
        while tree.parent(at) != at {
            path.push(at);
            at = tree.parent(at);
        }
        path.reverse();
        let frames = self.sections.last().map_or(&[][..], |section| &section.frames[1..]);
        let common =
            frames.iter().zip(&path).take_while(|(open, node)| open.node == **node).count();
        let returned = common == path.len() && frames.len() > common;
        while self.sections.last().is_some_and(|section| section.frames.len() > common + 1) {
            self.close_frame();
        }
        if returned && let Some(top) = self.top() {
            top.branches = 0;
        }
        for (place, node) in path.iter().enumerate().skip(common) {
            let is_last = place + 1 == path.len();
            let head = Head {
                function: Some(tree.function(*node)),
                how: if is_last { came.how } else { StepHow::Before },
                entry: if is_last { came.entry } else { 0 },
            };
            let from = if is_last { came.from } else { 0 };
            let open = Open { node: *node, head, from, items: Vec::new(), branches: 0 };
            if let Some(section) = self.sections.last_mut() {
                section.frames.push(open);
            }
        }
    }

    fn close_section(&mut self) {
        let sections = self.sections.len();
        while self.sections.len() == sections {
            self.close_frame();
        }
    }

    /// Ends the innermost call; the last one of a section is one of the section below.
    fn close_frame(&mut self) {
        let Some(section) = self.sections.last_mut() else { return };
        let Some(open) = section.frames.pop() else { return };
        let is_last = section.frames.is_empty();
        let call = self.intern(open.head, open.items);
        if is_last {
            self.sections.pop();
        }
        self.kept += 1;
        if let Some(below) = self.top() {
            below.items.push(Item::Call { call, from: open.from });
        }
    }

    /// Returns the number of a call that ended.
    fn intern(&mut self, head: Head, items: Vec<Item>) -> u32 {
        let mut hasher = DefaultHasher::new();
        (head, hash_of(&items)).hash(&mut hasher);
        let known = self.index.entry(hasher.finish()).or_default();
        let is_same = |number: &&u32| {
            let done = &self.done[**number as usize];
            done.head == head && same(&done.items, &items)
        };
        if let Some(number) = known.iter().find(is_same) {
            self.kept -= items.len().min(self.kept);
            return *number;
        }
        let number = self.done.len() as u32;
        known.push(number);
        let total = total(&self.done, &items);
        self.done.push(Done { head, items: items.into(), total });
        number
    }

    /// Control reached a branch at a block's end; `values`: those that were compared.
    fn branch(&mut self, block: u64, taken: bool, values: Option<[u64; 2]>) {
        if self.full {
            return;
        }
        let place = match values.filter(|_| self.values.len() < VALUES_MAX) {
            None => 0,
            Some(values) => {
                self.values.push(values);
                self.values.len() as u32
            }
        };
        let Some(top) = self.top() else { return };
        if top.branches == BRANCHES_MAX {
            if place > 0 {
                self.values.pop();
            }
            return;
        }
        top.branches += 1;
        top.items.push(Item::Branch { block: block as u32, taken, values: place });
        self.kept += 1;
    }

    /// Notes what decides the branch at a block's end.
    pub(crate) fn learn(&mut self, block: u64, decider: Option<Decider>) {
        let place = block as usize;
        if self.deciders.len() <= place {
            self.deciders.resize_with(place + 1, || None);
        }
        self.deciders[place] = decider.map(Box::new);
    }

    fn decider(&self, block: u64) -> Option<&Decider> {
        self.deciders.get(block as usize)?.as_deref()
    }

    /// Returns the steps of the wanted operation, with functions numbered as in `profile`, which gets those that it lacks.
    ///
    /// # Errors
    /// The operation was not recorded.
    pub(crate) fn steps(
        &self,
        functions: &[Function],
        profile: &mut Profile,
    ) -> Result<Option<Steps>, String> {
        let Some(root) = self.root else { return Ok(None) };
        let whole = &self.done[root as usize];
        let told = self.operations(root);
        let steps = match (&told, self.wanted.operation) {
            (Some(told), operation) => self.chosen(told, operation)?,
            (None, Some(number)) if number > 1 => {
                return Err(format!(
                    "--steps={number}: the operations of this work cannot be told apart by its calls, so \
                     only the whole run can be shown: leave the number out"
                ));
            }
            (None, _) => Chosen {
                operation: 0,
                operations: [0, self.wanted.operations],
                range: [whole.total; 3],
                alike: 1,
                head: whole.head,
                items: &whole.items,
                beyond: self.beyond,
            },
        };
        Ok(Some(self.output(steps, functions, profile)))
    }

    /// Returns the steps of the wanted call of a function; the calls that it makes of itself are inside. A call that was begun
    /// before another task's turn is counted where it began.
    ///
    /// # Errors
    /// The work does not make such a call.
    pub(crate) fn calls_of(
        &self,
        name: &str,
        functions: &[Function],
        profile: &mut Profile,
    ) -> Result<Option<Steps>, String> {
        let Some(root) = self.root else { return Ok(None) };
        let is_named = |head: &Head| {
            let function = head.function.and_then(|number| functions.get(number as usize));
            // A jump from a function to a part of its own begins no call.
            function.is_some_and(|one| match head.how {
                StepHow::Before => false,
                StepHow::Jump => one.symbol == name,
                _ => is_called(&one.symbol, name),
            })
        };
        let found: Vec<bool> = self.done.iter().map(|done| is_named(&done.head)).collect();
        // Calls stand behind those that they make. How many of the function's calls each has inside, or is.
        let mut inside = vec![0u64; self.done.len()];
        for (at, done) in self.done.iter().enumerate() {
            let sum = calls_of(&done.items).into_iter().map(|call| inside[call as usize]);
            inside[at] = if found[at] { 1 } else { sum.fold(0, u64::saturating_add) };
        }
        let all = inside[root as usize];
        let mut times = vec![0u64; self.done.len()];
        times[root as usize] = 1;
        for at in (0..=root as usize).rev().filter(|at| !found[*at]) {
            for call in calls_of(&self.done[at].items) {
                times[call as usize] = times[call as usize].saturating_add(times[at]);
            }
        }
        let mut by_total: Vec<(u64, usize)> = (0..self.done.len())
            .filter(|at| found[*at] && times[*at] > 0)
            .map(|at| (self.done[at].total, at))
            .collect();
        by_total.sort_unstable();
        let (Some((least, _)), Some((most, _))) = (by_total.first(), by_total.last()) else {
            return Err(format!(
                "--steps={name}: the work never calls a function of that name; give it as profiles show it"
            ));
        };
        let mut before = 0u64;
        let median = by_total.iter().find(|(_, at)| {
            before = before.saturating_add(times[*at]);
            before > (all - 1) / 2
        });
        let (median, like) = *median.unwrap_or(&by_total[0]);
        // The first call that is the median one, or the one with the number.
        let (mut at, mut number) = (root as usize, 1u64);
        let wanted = self.wanted.operation;
        if wanted.is_some_and(|wanted| wanted > all) {
            let why = match self.full {
                true => format!("the room for steps was used up after {all} calls"),
                false => format!("the work calls it {all} times"),
            };
            let wanted = wanted.unwrap_or(0);
            return Err(format!("--steps={name}:{wanted}: {why}; give 1 to {all}"));
        }
        let mut has = vec![false; self.done.len()];
        for (place, done) in self.done.iter().enumerate() {
            let below = || calls_of(&done.items).into_iter().any(|call| has[call as usize]);
            has[place] = if found[place] { place == like } else { below() };
        }
        while !found[at] {
            let next = calls_of(&self.done[at].items).into_iter().find(|call| {
                let call = *call as usize;
                let goes = match wanted {
                    Some(wanted) => number.saturating_add(inside[call]) > wanted,
                    None => has[call],
                };
                number = if goes { number } else { number.saturating_add(inside[call]) };
                goes
            });
            let Some(next) = next else { return Ok(None) };
            at = next as usize;
        }
        let Done { head, items, .. } = &self.done[at];
        let own = kinds(items);
        let alike = by_total.iter().filter(|(_, other)| kinds(&self.done[*other].items) == own);
        let alike = alike.map(|(_, other)| times[*other]).fold(0, u64::saturating_add);
        let (operations, range) = ([all, all], [*least, median, *most]);
        let chosen =
            Chosen { operation: number, operations, range, alike, head: *head, items, beyond: 0 };
        Ok(Some(self.output(chosen, functions, profile)))
    }

    fn output(&self, chosen: Chosen<'_>, functions: &[Function], profile: &mut Profile) -> Steps {
        let Chosen { operation, operations, range, alike, head, items, beyond } = chosen;
        let mut output = Output::new(self, functions, profile);
        output.add_all(items);
        output.put(head, items);
        let Output { calls, branches, .. } = output;
        Steps { operation, operations, range, alike, beyond, calls, branches }
    }

    /// Returns the chosen one of the operations.
    fn chosen<'a>(
        &'a self,
        told: &'a [(Head, &'a [Item])],
        wanted: Option<u64>,
    ) -> Result<Chosen<'a>, String> {
        let totals: Vec<u64> = told.iter().map(|(_, items)| total(&self.done, items)).collect();
        let mut sorted = totals.clone();
        sorted.sort_unstable();
        let median = sorted[(sorted.len() - 1) / 2];
        let place = match wanted {
            None => totals.iter().position(|total| *total == median).unwrap_or(0),
            Some(number) => {
                let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
                place.filter(|place| *place < told.len()).ok_or_else(|| {
                    let all = told.len();
                    let why = match self.full {
                        true => format!("the room for steps was used up after {all} operations"),
                        false => format!("the work has {all} operations"),
                    };
                    format!("--steps={number}: {why}; give 1 to {all}")
                })?
            }
        };
        let (head, items) = told[place];
        let own = kinds(items);
        let alike = told.iter().filter(|(_, other)| kinds(other) == own).count() as u64;
        Ok(Chosen {
            operation: place as u64 + 1,
            operations: [told.len() as u64, self.wanted.operations],
            range: [sorted[0], median, sorted[sorted.len() - 1]],
            alike,
            head,
            items,
            beyond: 0,
        })
    }

    /// Finds the loop over the operations, and cuts its steps where an operation begins.
    ///
    /// The loop is the outermost call that calls one function once for each operation, calls it from one place so often, makes as
    /// many calls as there are operations, or a multiple by one function. The steps of an operation begin with such a call; the last
    /// operation ends with the loop.
    fn operations(&self, root: u32) -> Option<Vec<(Head, &[Item])>> {
        let wanted = usize::try_from(self.wanted.operations).ok().filter(|wanted| *wanted > 1)?;
        let mut at = root;
        loop {
            let Done { head, items, total } = &self.done[at as usize];
            if let Some(begins) = self.begins(items, wanted) {
                let ends = begins[1..].iter().copied().chain([items.len()]);
                let cut = begins.iter().copied().zip(ends);
                return Some(cut.map(|(from, to)| (*head, &items[from..to])).collect());
            }
            let calls = items.iter().filter_map(|item| match item {
                Item::Call { call, .. } if !self.done[*call as usize].head.how.is_apart() => {
                    Some(*call)
                }
                _ => None,
            });
            let most = calls.max_by_key(|call| self.done[*call as usize].total)?;
            if self.done[most as usize].total < total / 2 {
                return None;
            }
            at = most;
        }
    }

    /// The places of the calls with which operations begin, if these are their loop's steps.
    fn begins(&self, items: &[Item], wanted: usize) -> Option<Vec<usize>> {
        let calls = || {
            items.iter().enumerate().filter_map(|(place, item)| match item {
                Item::Call { call, from } => {
                    let head = self.done[*call as usize].head;
                    (!head.how.is_apart()).then_some((place, head.function, *from))
                }
                _ => None,
            })
        };
        if calls().count() < wanted && !self.full {
            return None;
        }
        let mut by_function: HashMap<Option<u32>, usize> = HashMap::new();
        let mut by_place: HashMap<u64, usize> = HashMap::new();
        for (_, function, from) in calls() {
            *by_function.entry(function).or_default() += 1;
            *by_place.entry(from).or_default() += 1;
        }
        let first = |fits: &dyn Fn(Option<u32>, u64) -> bool| {
            calls().find(|(_, function, from)| fits(*function, *from))
        };
        let of_function = |per: usize| {
            let found = first(&|function, _| by_function[&function] == wanted * per);
            found.map(|(_, function, _)| {
                let all = calls().filter(|(_, other, _)| *other == function);
                all.map(|(place, ..)| place).step_by(per).collect::<Vec<usize>>()
            })
        };
        if let Some(begins) = of_function(1) {
            return Some(begins);
        }
        if let Some((_, _, from)) = first(&|_, from| by_place[&from] == wanted) {
            let all = calls().filter(|(.., other)| *other == from);
            return Some(all.map(|(place, ..)| place).collect());
        }
        if wanted < MANY {
            return None;
        }
        let count = calls().count();
        if (wanted..=wanted + SPARE).contains(&count) {
            return Some(calls().map(|(place, ..)| place).take(wanted).collect());
        }
        if let Some(begins) = (2..=PER_OPERATION_MAX).find_map(of_function) {
            return Some(begins);
        }
        // With the room used up, the loop did not end: its most frequent call tells the operations that were recorded.
        let (function, most) =
            by_function.iter().max_by_key(|(function, most)| (**most, **function))?;
        let enough = self.full && *most >= MANY && *most < wanted;
        enough.then(|| {
            let mut begins: Vec<usize> = calls()
                .filter(|(_, other, _)| other == function)
                .map(|(place, ..)| place)
                .collect();
            // The last one is not whole, and ends where the one before does.
            begins.pop();
            begins
        })
    }
}

/// The chosen operation.
struct Chosen<'a> {
    operation: u64,
    operations: [u64; 2],
    range: [u64; 3],
    alike: u64,
    head: Head,
    items: &'a [Item],
    beyond: u64,
}

fn total(done: &[Done], items: &[Item]) -> u64 {
    let of = |item: &Item| match item {
        Item::Own(own) => *own,
        Item::Call { call, .. } => done[*call as usize].total,
        Item::Branch { .. } => 0,
    };
    items.iter().map(of).fold(0, u64::wrapping_add)
}

/// Numbers calls, branches and functions anew: only what an operation needs.
struct Output<'a> {
    recorder: &'a Recorder,
    functions: &'a [Function],
    profile: &'a mut Profile,
    known: HashMap<Function, u32>,
    numbers: HashMap<u32, u32>,
    branch_numbers: HashMap<u32, Option<u32>>,
    calls: Vec<StepCall>,
    branches: Vec<StepBranch>,
}

impl<'a> Output<'a> {
    fn new(recorder: &'a Recorder, functions: &'a [Function], profile: &'a mut Profile) -> Self {
        let known = profile.functions.iter().cloned().zip(0..).collect();
        Output {
            recorder,
            functions,
            profile,
            known,
            numbers: HashMap::new(),
            branch_numbers: HashMap::new(),
            calls: Vec::new(),
            branches: Vec::new(),
        }
    }

    fn function(&mut self, number: u32) -> Option<u32> {
        let function = self.functions.get(number as usize)?;
        Some(*self.known.entry(function.clone()).or_insert_with(|| {
            self.profile.functions.push(function.clone());
            self.profile.functions.len() as u32 - 1
        }))
    }

    /// Adds the calls that these steps make, those inside first. Calls have smaller numbers than those that make them.
    fn add_all(&mut self, items: &[Item]) {
        let (mut wanted, mut open) = (HashSet::new(), calls_of(items));
        while let Some(call) = open.pop() {
            if wanted.insert(call) {
                open.extend(calls_of(&self.recorder.done[call as usize].items));
            }
        }
        let mut wanted: Vec<u32> = wanted.into_iter().collect();
        wanted.sort_unstable();
        for call in wanted {
            let done = &self.recorder.done[call as usize];
            self.put(done.head, &done.items);
            self.numbers.insert(call, self.calls.len() as u32 - 1);
        }
    }

    fn put(&mut self, head: Head, items: &[Item]) {
        let recorder = self.recorder;
        let mut steps = Vec::with_capacity(items.len());
        for item in items {
            match *item {
                Item::Own(own) => steps.push(Step::Own(own)),
                Item::Call { call, from } => {
                    steps.push(Step::Call { call: self.numbers[&call], from });
                }
                Item::Branch { block, taken, values } => {
                    let Some(branch) = self.branch(block) else { continue };
                    let values = (values as usize).checked_sub(1);
                    let values = values.map(|place| recorder.values[place]);
                    steps.push(Step::Branch { branch, taken, values });
                }
            }
        }
        let function = head.function.and_then(|function| self.function(function));
        self.calls.push(StepCall { function, how: head.how, entry: head.entry, steps });
    }

    fn branch(&mut self, block: u32) -> Option<u32> {
        if let Some(known) = self.branch_numbers.get(&block) {
            return *known;
        }
        let number = self.recorder.decider(block.into()).and_then(|decider| {
            let function = self.function(decider.function)?;
            let (address, text) = (decider.address, decider.text.clone());
            self.branches.push(StepBranch { function, address, text });
            Some(self.branches.len() as u32 - 1)
        });
        self.branch_numbers.insert(block, number);
        number
    }
}

/// The steps without branches and without the places of calls: unrolled loops call from several places.
fn kinds(items: &[Item]) -> Vec<(u8, u64)> {
    let keys = items.iter().map(Item::key).filter(|(kind, ..)| *kind != 1);
    keys.map(|(kind, one, _)| (kind, one)).collect()
}

/// Whether a function has a name, which may leave out what compilers append to parts and copies.
fn is_called(symbol: &str, name: &str) -> bool {
    symbol.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn calls_of(items: &[Item]) -> Vec<u32> {
    let call = |item: &Item| match item {
        Item::Call { call, .. } => Some(*call),
        _ => None,
    };
    items.iter().filter_map(call).collect()
}

impl Decider {
    /// Whether control took the branch, if it went from the branch to the block at an address.
    fn taken(&self, behind: u64, start: u64) -> Option<bool> {
        match start {
            _ if start == behind => Some(false),
            _ if start == self.target => Some(true),
            _ => None,
        }
    }
}

impl Compared {
    /// The values that were compared, where a block begins right behind the branch.
    fn values(&self, stack: &Stack) -> Option<[u64; 2]> {
        let Compared { left, right, bytes } = self;
        let mask = u64::MAX >> (64 - 8 * u32::from(*bytes).clamp(1, 8));
        Some([left.value(stack, *bytes)? & mask, right.value(stack, *bytes)? & mask])
    }
}

/// Called when a block begins where steps are recorded.
pub(crate) unsafe extern "C" fn on_stepped_block(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: the data are those of this callback, a block, which lives for ever; `state_of` checks the thread.
    unsafe {
        if let Some((plugin, vcpu)) = callback::state_of(vcpu) {
            plugin.look_stepped(vcpu, &*data.cast::<Block>());
        }
    }
}

impl Plugin {
    /// Begins a block, and records how control came to it, or where an operation may begin.
    fn look_stepped(&mut self, vcpu: u32, begun: &'static Block) {
        let (prev, is_same_vcpu) = (self.prev(), vcpu == self.vcpu);
        self.settle_cleared();
        let recorded = self.steps.as_deref().is_some_and(Recorder::is_open);
        if recorded && prev.exit == Exit::Branch && is_same_vcpu {
            self.record_branch(prev, begun);
        }
        if self.goes_on(vcpu, begun) {
            return self.begin(begun);
        }
        let before = (self.node(), self.lane());
        self.look::<false>(vcpu, begun);
        let now = (self.node(), self.lane());
        if let Some(footprint) = &mut self.footprint {
            footprint.turn(&self.walk.tree, before.0, now.0);
        }
        if recorded && before != now {
            let how = match (begun.landmark, prev.exit) {
                (Some((landmark, _)), _) if is_entry(landmark) => StepHow::Entry,
                (Some((Landmark::Fork, _)), _) => StepHow::Task,
                (_, Exit::Call | Exit::CallIndirect) => StepHow::Call,
                (_, Exit::Return | Exit::Leave) => StepHow::Before,
                _ => StepHow::Jump,
            };
            let from = prev.facts.len().checked_sub(1).map_or(0, |last| prev.link_address(last));
            let came = Came { how, entry: begun.linked_at, from };
            let clock = self.charged();
            let (node, lane) = now;
            if let Some(steps) = &mut self.steps {
                steps.turn(&self.walk.tree, lane, node, clock, came);
            }
        }
        self.begin(begun);
    }

    fn record_branch(&mut self, prev: &Block, begun: &Block) {
        let Some(steps) = &mut self.steps else { return };
        let Some(decider) = steps.decider(prev.number) else { return };
        let Some(taken) = decider.taken(prev.end(), begun.start) else { return };
        // A branch that is a block of its own may be another one on the comparison before (Linux, a switch of many cases).
        let carried = steps.compared.filter(|(at, _)| *at == prev.start && prev.facts.len() == 1);
        let compared = decider.compared.or(carried.map(|(_, compared)| compared));
        let values = compared.and_then(|compared| compared.values(&self.stack));
        steps.compared = compared.map(|compared| (begun.start, compared));
        steps.branch(prev.number, taken, values);
    }

    /// Begins or ends the record of steps, and the footprint; `tail`: the instructions of the begun block that are not of what came before.
    pub(crate) fn record_region(&mut self, begins: bool, tail: u64) {
        let (clock, node, lane) = (self.charged().wrapping_sub(tail), self.node(), self.lane());
        if let Some(footprint) = &mut self.footprint {
            footprint.mark(begins, node);
        }
        if let Some(steps) = &mut self.steps {
            match begins {
                true => steps.start(&self.walk.tree, lane, node, clock),
                false => steps.stop(clock),
            }
        }
    }
}

/// Returns what decides the branch at a block's end; `target`: the address that the branch names.
pub(crate) fn decider_of(
    block: &Block,
    codes: &[&[u8]],
    target: Option<u64>,
    decide: Decide,
) -> Option<Decider> {
    let last = block.facts.len().checked_sub(1).filter(|_| block.exit == Exit::Branch)?;
    let (compared, text) = decide(block.start, block.linked_at, &codes[..=last]);
    let (function, address) = (block.function, block.link_address(last));
    Some(Decider { function, address, target: target?, compared, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::ROOT;

    const WORK: Lane = Lane { task: 0, vcpu: 0, base: ROOT };
    const IRQ: Lane = Lane { task: 0, vcpu: 0, base: INTERRUPTS };

    fn came(how: StepHow, from: u64) -> Came {
        Came { how, entry: 0x100, from }
    }

    /// A loop in function 1 that calls function 2 for each of these operations, which takes so many instructions. An interrupt of 1,000
    /// instructions comes in the operation of 7.
    fn recorded(wanted: Wanted, operations: &[u64], calls_max: usize) -> (Recorder, u64) {
        let mut tree = Tree::new(0, 5000, 1, Vec::new());
        let start = tree.child(ROOT, 1);
        let (call, interrupt) = (tree.child(start, 2), tree.child(INTERRUPTS, 3));
        let mut recorder = Recorder { calls_max, ..Recorder::new(wanted) };
        let mut clock = 50;
        recorder.start(&tree, WORK, start, clock);
        for own in operations {
            clock += 2;
            recorder.turn(&tree, WORK, call, clock, came(StepHow::Call, 0x20));
            clock += own - 1;
            if *own == 7 {
                recorder.turn(&tree, IRQ, interrupt, clock, came(StepHow::Entry, 0));
                clock += 1000;
                recorder.turn(&tree, WORK, call, clock, came(StepHow::Before, 0));
            }
            clock += 1;
            recorder.turn(&tree, WORK, start, clock, came(StepHow::Before, 0));
        }
        clock += 3;
        recorder.stop(clock);
        (recorder, clock - 50)
    }

    fn steps(recorder: &Recorder) -> Result<Option<Steps>, String> {
        let functions: Vec<Function> =
            (0..4).map(|number| Function::new(format!("f{number}"), "m")).collect();
        recorder.steps(&functions, &mut Profile::default())
    }

    fn wanted(operation: Option<u64>, operations: usize) -> Wanted {
        Wanted { operation, operations: operations as u64 }
    }

    #[test]
    fn the_median_operation_is_chosen_and_all_add_up() {
        let all = [5, 9, 5, 7, 30];
        let (recorder, total) = recorded(wanted(None, 5), &all, CALLS_MAX);
        let median = steps(&recorder).unwrap().unwrap();
        assert_eq!((median.operation, median.operations, median.alike), (2, [5, 5], 1));
        assert_eq!(*median.totals().last().unwrap(), 9 + 2);
        assert_eq!(median.range, [7, 11, 1009]);
        // The two instructions in front of the first operation belong to none.
        let totals = (1..=5).map(|number| {
            let one = Recorder {
                wanted: wanted(Some(number), 5),
                ..recorded(wanted(None, 5), &all, CALLS_MAX).0
            };
            *steps(&one).unwrap().unwrap().totals().last().unwrap()
        });
        assert_eq!(totals.sum::<u64>() + 2, total);
    }

    #[test]
    fn an_interrupt_stands_apart_in_its_place() {
        let (recorder, _) = recorded(wanted(Some(4), 5), &[5, 9, 5, 7, 30], CALLS_MAX);
        let steps = steps(&recorder).unwrap().unwrap();
        let apart: Vec<usize> =
            (0..steps.calls.len()).filter(|at| steps.calls[*at].how.is_apart()).collect();
        let [apart] = apart[..] else { panic!("{steps:?}") };
        assert_eq!(steps.totals()[apart], 1000);
        let call = steps.calls.iter().find(|call| call.how == StepHow::Call).unwrap();
        let inside = Step::Call { call: apart as u32, from: 0 };
        assert_eq!(call.steps, [Step::Own(6), inside, Step::Own(1)]);
    }

    #[test]
    fn equal_operations_are_kept_once() {
        let (recorder, _) = recorded(wanted(None, 4000), &[5; 4000], CALLS_MAX);
        assert!(recorder.done.len() < 5, "{}", recorder.done.len());
        assert_eq!(steps(&recorder).unwrap().unwrap().alike, 3999, "the last one ends the loop");
    }

    #[test]
    fn without_operations_the_whole_run_is_shown() {
        let (recorder, total) = recorded(wanted(None, 0), &[5, 9], CALLS_MAX);
        let whole = steps(&recorder).unwrap().unwrap();
        assert_eq!((whole.operation, *whole.totals().last().unwrap()), (0, total));
        let (recorder, _) = recorded(wanted(Some(2), 7), &[5, 9], CALLS_MAX);
        assert!(steps(&recorder).unwrap_err().contains("cannot be told apart"));
    }

    #[test]
    fn the_calls_of_a_function_are_operations() {
        let all = [5, 9, 5, 7, 30];
        let of = |number: Option<u64>, name: &str| {
            let (recorder, _) = recorded(wanted(number, 0), &all, CALLS_MAX);
            let functions: Vec<Function> =
                (0..4).map(|number| Function::new(format!("f{number}.part.0"), "m")).collect();
            let steps = recorder.calls_of(name, &functions, &mut Profile::default());
            steps.map(|steps| {
                steps.map(|one| (one.operation, *one.totals().last().unwrap(), one.alike))
            })
        };
        for (number, total) in
            all.into_iter().zip(1..).map(|(own, at)| (at, if own == 7 { 1007 } else { own }))
        {
            let alike = if total == 5 { 2 } else { 1 };
            assert_eq!(of(Some(number), "f2").unwrap(), Some((number, total, alike)));
        }
        assert_eq!(of(None, "f2").unwrap(), Some((2, 9, 1)));
        assert!(of(None, "f3").is_ok());
        assert!(of(None, "f9").unwrap_err().contains("--steps=f9: the work never calls"));
        assert!(of(Some(6), "f2").unwrap_err().contains("calls it 5 times; give 1 to 5"));
    }

    #[test]
    fn an_operation_that_the_work_does_not_have_is_refused() {
        let (recorder, _) = recorded(wanted(Some(6), 5), &[5; 5], CALLS_MAX);
        let error = steps(&recorder).unwrap_err();
        assert!(error.contains("--steps=6") && error.contains("give 1 to 5"), "{error}");
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let lengths: Vec<u64> = (20..120).collect();
        let (recorder, total) = recorded(wanted(None, 0), &lengths, 30);
        let whole = steps(&recorder).unwrap().unwrap();
        assert!(whole.beyond > 0);
        assert_eq!(whole.totals().last().unwrap() + whole.beyond, total);
        let (recorder, _) = recorded(wanted(Some(90), 100), &lengths, 30);
        assert!(steps(&recorder).unwrap_err().contains("room for steps was used up"));
    }
}
