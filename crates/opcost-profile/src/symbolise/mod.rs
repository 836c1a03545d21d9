//! From places in files to functions: the profile, and what could not be named and why.
//!
//! Only files that were sampled are read, and of their symbols only those that were asked for are
//! shown. A name is never guessed: a file that is not the one that was sampled has none to give, and
//! its code is one row that says why.

mod declared;
mod file;
mod frameless;
mod inline;
mod jit;
mod kernel;
mod relative;
mod remembered;
mod vdso;

use crate::losses::Losses;
use crate::parallel;
use crate::session::Recorded;
use crate::space::{CodeFile, CodeKind};
use crate::symbols::demangle::printable;
use opcost_record::{Context, Function, Module, Profile};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Mutex;

pub use declared::{Declared, declared};
pub use file::contents;
pub use kernel::{KernelSource, running_build_id};
pub use relative::{LookedUp, look_up};
pub use remembered::Remembered;

/// Where names come from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The kernel's symbols.
    pub kernel: KernelSource,
    /// The folder of debug files, usually [`DEBUG_FILES`](crate::symbols::program::DEBUG_FILES).
    pub debug_files: PathBuf,
    /// perf's cache of files by build id, usually `.debug` in the home directory.
    pub build_id_cache: Option<PathBuf>,
    /// Whether functions that were inlined are shown where debug information tells of them.
    pub inlined: bool,
}

/// What a place's function is called.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Frame {
    symbol: String,
    /// What tells it from others of its symbol.
    source: Option<String>,
    /// In the symbol table.
    mangled: Option<Box<str>>,
    /// Instead of the file that the place is in.
    module: Option<String>,
    bytes: Option<u64>,
    /// The first of the places that are called so, without a gap up to its length.
    start: Option<u64>,
}

impl Frame {
    /// Code of the file that it is in, of which only the symbol is known.
    fn new(symbol: impl Into<String>) -> Frame {
        Frame {
            symbol: symbol.into(),
            source: None,
            mangled: None,
            module: None,
            bytes: None,
            start: None,
        }
    }
}

/// Why code has no names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Why {
    /// The file is not there any more.
    Gone,
    /// The file is another build than the one that was sampled.
    OtherBuild,
    /// The file cannot be read; what the system or the reader says.
    Unreadable(String),
    /// The kernel hides its addresses (`kernel.kptr_restrict`).
    Hidden,
    /// The file has no symbol table.
    Stripped,
    /// There is no file: a just-in-time compiler made the code and left no map of it.
    NoMap,
    /// The profile has addresses, and whoever wrote it looked no names up.
    NotLookedUp,
    /// Nothing was known to be mapped there.
    Unmapped,
}

impl Why {
    /// The name of code that has none for this reason.
    pub(crate) fn symbol(&self) -> &'static str {
        match self {
            Why::Gone => "[deleted]",
            Why::OtherBuild => "[other build]",
            Why::Unreadable(_) => "[unreadable]",
            Why::Hidden => "[hidden]",
            Why::Stripped | Why::NotLookedUp => "[text]",
            Why::NoMap => "[no map]",
            Why::Unmapped => "[unmapped]",
        }
    }
}

/// Code whose functions are not known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unnamed {
    /// The module.
    pub module: String,
    /// Why.
    pub why: Why,
    /// Samples in it.
    pub samples: u64,
}

/// What is known of a function beside its cost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FunctionFacts {
    /// Its length, bytes.
    pub bytes: Option<u64>,
    /// Samples in copies that were inlined into others.
    pub inlined_samples: u64,
}

/// A sampled profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// Costs in the event's unit by calling context. The `calls` of its contexts are 0 and mean
    /// nothing: samples do not count calls.
    pub profile: Profile,
    /// Samples of each context's own; all 0 where the file does not say how many there were.
    pub samples: Vec<u64>,
    /// What is known of each function.
    pub facts: Vec<FunctionFacts>,
    /// What was lost while sampling.
    pub losses: Losses,
    /// Code without names, most samples first.
    pub unnamed: Vec<Unnamed>,
    /// Functions that keep no frame pointer, so that the callers found for them are their callers'
    /// callers: number of the function and its samples, most samples first. Functions with less than
    /// 5 % of all samples are left out, and so is every one where callers came otherwise.
    pub frameless: Vec<(u32, u64)>,
    /// Modules of which the recording has no build id to check the file against.
    pub unchecked: Vec<String>,
}

impl Sampled {
    /// Samples in the profile; 0 where nobody knows.
    pub fn samples_total(&self) -> u64 {
        self.samples.iter().sum()
    }

    /// Samples in the profile; `None` of a file that has costs and does not say of how many samples,
    /// or whether they were sampled at all.
    pub fn samples_known(&self) -> Option<u64> {
        let samples = self.samples_total();
        (samples > 0 || self.profile.total() == 0).then_some(samples)
    }
}

/// The functions of a place, by number.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Stack {
    /// The function itself.
    function: u32,
    /// What was inlined there, the innermost last.
    inlined: Vec<u32>,
}

/// The frames of the asked-for places of one file, and what is wrong with the file.
struct Names {
    /// What the stacks are of; neighbours share theirs.
    frames: Vec<Frame>,
    /// Of each place in the order asked.
    stacks: Vec<Stack>,
    /// Why places without a name have none.
    why: Option<Why>,
    /// Whether no build id said that the file is the right one.
    unchecked: bool,
    /// The name that others link the file by.
    soname: Option<String>,
}

impl Names {
    /// Nothing has a name.
    fn none(places: usize, why: Why) -> Names {
        let frame = Frame::new(why.symbol());
        let stack = Stack { function: 0, inlined: Vec::new() };
        let (frames, stacks) = (vec![frame], vec![stack; places]);
        Names { frames, stacks, why: Some(why), unchecked: false, soname: None }
    }

    /// Names of places without inlined functions.
    ///
    /// `found`: of each place what tells its function from others, ascending or in groups;
    /// `frame`: shows one.
    fn grouped<F: PartialEq>(
        found: impl Iterator<Item = F>,
        frame: impl Fn(&F) -> Frame,
        why: Why,
    ) -> Names {
        let (mut frames, mut stacks, mut last) = (Vec::new(), Vec::new(), None);
        for found in found {
            if last.as_ref() != Some(&found) {
                frames.push(frame(&found));
                last = Some(found);
            }
            // There are no more than places, which are counted in 32 bits.
            stacks.push(Stack { function: frames.len() as u32 - 1, inlined: Vec::new() });
        }
        Names { frames, stacks, why: Some(why), unchecked: false, soname: None }
    }
}

/// Files that are named at a time at most, since each holds its symbols.
const THREADS_MAX: usize = 4;

/// Files of this size and more are named one at a time.
const LARGE_BYTES: u64 = 32 << 20;

/// Names what was recorded.
///
/// `recorded`: what a session took; `sources`: where names come from. What cannot be read is said in
/// [`Sampled::unnamed`] and never an error.
pub fn symbolise(recorded: &Recorded, sources: &Sources) -> Sampled {
    let large = Mutex::new(());
    let names = |asked: &Asked<'_>| {
        // Nothing is behind the lock, so a panic that held it left nothing half done.
        let _alone = file::is_large(asked.file, LARGE_BYTES).then(|| large.lock());
        names(asked.file, recorded, &asked.offsets, sources)
    };
    let all = |asked: Vec<Asked<'_>>| {
        // The largest first, so that none is left alone at the end.
        let mut order: Vec<usize> = (0..asked.len()).collect();
        order.sort_by_key(|index| Reverse(asked[*index].offsets.len()));
        let named = |index: usize| (index, names(&asked[index]));
        // The kernel's list takes more memory than most files, and is gone before these take theirs.
        let is_kernel = |index: &usize| asked[*index].file.kind == CodeKind::Kernel;
        let (kernel, files): (Vec<_>, Vec<_>) = order.into_iter().partition(is_kernel);
        let kernel: Vec<_> = kernel.into_iter().map(named).collect();
        let mut named = parallel::map(files, THREADS_MAX, named);
        named.extend(kernel);
        named.sort_unstable_by_key(|(index, _)| *index);
        named.into_iter().map(|(_, names)| names).collect()
    };
    let (sampled, stacks) = symbolise_by(recorded, all);
    Sampled { frameless: frameless::samples(recorded, &stacks, sources), ..sampled }
}

/// Names what was recorded, of what is named again and again: what has a name already is not read
/// anew.
///
/// `remembered`: what was found for the same `sources` before. Neither inlined functions nor those
/// without frames are looked for.
pub fn symbolise_again(
    recorded: &Recorded,
    sources: &Sources,
    remembered: &mut Remembered,
) -> Sampled {
    let sources = Sources { inlined: false, ..sources.clone() };
    remembered.begin();
    let mut names =
        |asked: &Asked<'_>| remembered.names(asked.file, recorded, &asked.offsets, &sources);
    symbolise_by(recorded, |asked| asked.iter().map(&mut names).collect()).0
}

/// A file, and the offsets in it that are to be named, ascending.
struct Asked<'r> {
    file: &'r CodeFile,
    offsets: Vec<u64>,
}

/// The profile, and the functions of each place.
///
/// `names`: names the places of each file, in the order of the files.
fn symbolise_by(
    recorded: &Recorded,
    names: impl FnOnce(Vec<Asked<'_>>) -> Vec<Names>,
) -> (Sampled, Vec<Stack>) {
    let (places, nodes) = (recorded.tree.places(), recorded.tree.nodes());
    let mut samples = vec![0; places.len()];
    for node in nodes {
        samples[node.place as usize] += node.samples;
    }
    let mut places_of: Vec<Vec<(u64, u32)>> = vec![Vec::new(); recorded.files.len()];
    for (number, place) in (0..).zip(places) {
        places_of[place.file as usize].push((place.offset, number));
    }
    let mut asked = Vec::new();
    for (file, places) in recorded.files.iter().zip(&mut places_of) {
        places.sort_unstable();
        if !places.is_empty() {
            let offsets = places.iter().map(|(offset, _)| *offset).collect();
            asked.push(Asked { file, offsets });
        }
    }
    let mut named = names(asked).into_iter();
    let mut grown = Grown::default();
    let mut stacks = vec![Stack { function: 0, inlined: Vec::new() }; places.len()];
    let (mut unnamed, mut unchecked, mut modules) = (Vec::new(), Vec::new(), Vec::new());
    for (number_of_file, (file, asked)) in recorded.files.iter().zip(places_of).enumerate() {
        if asked.is_empty() {
            continue;
        }
        let Some(names) = named.next() else { break };
        let module = module(file);
        // What stands in no stack is no function of the profile.
        let mut numbers = vec![None; names.frames.len()];
        let mut number = |at: u32| -> u32 {
            let frame = &names.frames[at as usize];
            *numbers[at as usize].get_or_insert_with(|| grown.function(&module, frame))
        };
        let mut nameless = 0;
        for ((_, place), mut stack) in asked.into_iter().zip(names.stacks) {
            let place = place as usize;
            let frame = |at: u32| &names.frames[at as usize];
            let mut all = std::iter::once(&stack.function).chain(&stack.inlined);
            if all.all(|at| frame(*at).symbol.starts_with('[')) {
                nameless += samples[place];
            }
            stack.function = number(stack.function);
            stack.inlined.iter_mut().for_each(|at| *at = number(*at));
            stacks[place] = stack;
        }
        if names.unchecked {
            unchecked.push(module.clone());
        }
        // A program's and a library's file are usually called what others call them.
        let soname = names.soname.filter(|soname| !module.ends_with(&format!("/{soname}")));
        let program = recorded.program == Some(number_of_file as u32);
        if soname.is_some() || program {
            modules.push(Module { path: module.clone(), soname, program });
        }
        if let Some(why) = names.why.filter(|_| nameless > 0) {
            unnamed.push(Unnamed { module, why, samples: nameless });
        }
    }
    for (stack, samples) in stacks.iter().zip(&samples) {
        if let Some(innermost) = stack.inlined.last() {
            grown.facts[*innermost as usize].inlined_samples += samples;
        }
    }
    // The context that each node ends in.
    let mut ends: Vec<u32> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let parent = node.parent.map(|parent| ends[parent as usize]);
        let Stack { function, inlined } = &stacks[node.place as usize];
        let mut end = grown.context(parent, *function);
        for function in inlined {
            end = grown.context(Some(end), *function);
        }
        let context = &mut grown.profile.contexts[end as usize];
        context.cost = context.cost.saturating_add(node.cost);
        grown.samples[end as usize] += node.samples;
        ends.push(end);
    }
    unnamed.sort_by(|one, two| (two.samples, &one.module).cmp(&(one.samples, &two.module)));
    unchecked.sort();
    unchecked.dedup();
    let Grown { mut profile, samples, facts, .. } = grown;
    profile.modules = modules;
    let losses = recorded.losses.clone();
    let frameless = Vec::new();
    (Sampled { profile, samples, facts, losses, unnamed, frameless, unchecked }, stacks)
}

/// The names of a file's places.
fn names(file: &CodeFile, recorded: &Recorded, offsets: &[u64], sources: &Sources) -> Names {
    match file.kind {
        CodeKind::Kernel => {
            kernel::names(file, recorded.kernel_reference.as_ref(), offsets, sources)
        }
        CodeKind::Unmapped => Names::none(offsets.len(), Why::Unmapped),
        CodeKind::Vdso => vdso::names(file, offsets),
        CodeKind::File => file::names(file, offsets, sources),
        CodeKind::Anonymous { pid } => jit::names(pid, offsets),
    }
}

/// The name of a file as a module.
pub(crate) fn module(file: &CodeFile) -> String {
    match file.kind {
        CodeKind::Unmapped => String::new(),
        CodeKind::Anonymous { .. } => jit::MODULE.into(),
        _ => {
            let path = String::from_utf8_lossy(&file.path);
            printable(path.strip_suffix(file::DELETED).unwrap_or(&path))
        }
    }
}

/// A profile while it grows.
#[derive(Default)]
struct Grown {
    profile: Profile,
    samples: Vec<u64>,
    facts: Vec<FunctionFacts>,
    functions: FxHashMap<Function, u32>,
    /// Contexts by the one above, counted from 1, and function.
    contexts: FxHashMap<u64, u32>,
}

impl Grown {
    fn function(&mut self, module: &str, frame: &Frame) -> u32 {
        let module = frame.module.as_deref().unwrap_or(module);
        let (source, mangled) = (frame.source.clone(), frame.mangled.clone());
        let function = Function { source, mangled, ..Function::new(&frame.symbol, module) };
        let number = self.number(function);
        let bytes = &mut self.facts[number as usize].bytes;
        *bytes = (*bytes).max(frame.bytes);
        number
    }

    fn number(&mut self, function: Function) -> u32 {
        *self.functions.entry(function).or_insert_with_key(|function| {
            self.profile.functions.push(function.clone());
            self.facts.push(FunctionFacts::default());
            // There are no more than places, which are counted in 32 bits.
            self.facts.len() as u32 - 1
        })
    }

    fn context(&mut self, parent: Option<u32>, function: u32) -> u32 {
        let (contexts, samples) = (&mut self.profile.contexts, &mut self.samples);
        let above = parent.map_or(0, |parent| u64::from(parent) + 1);
        *self.contexts.entry(above << 32 | u64::from(function)).or_insert_with(|| {
            contexts.push(Context { parent, function, calls: 0, cost: 0 });
            samples.push(0);
            // As above, for contexts.
            samples.len() as u32 - 1
        })
    }
}

/// A sampled profile made of stacks whose functions are known.
#[derive(Default)]
pub struct Growth(Grown);

impl Growth {
    /// Adds one sample.
    ///
    /// `stack`: its functions, outermost first, each with whether it is inlined into the one before;
    /// `cost`: in the event's unit. A sample without a stack is [`Why::Unmapped`].
    pub fn add(&mut self, stack: &[(Function, bool)], cost: u64) {
        let mut at = None;
        for (function, _) in stack {
            let number = self.function(function.clone());
            at = Some(self.context(at, number));
        }
        let inlined = stack.last().is_some_and(|(_, inlined)| *inlined);
        self.charge(at, cost, 1, inlined);
    }

    /// The number of a function.
    pub(crate) fn function(&mut self, function: Function) -> u32 {
        self.0.number(function)
    }

    /// The module of a function.
    pub(crate) fn module(&self, function: u32) -> Option<&str> {
        Some(&self.0.profile.functions.get(function as usize)?.module)
    }

    /// The context of a function below another.
    pub(crate) fn context(&mut self, parent: Option<u32>, function: u32) -> u32 {
        self.0.context(parent, function)
    }

    /// Charges a context with a cost and its samples; `None` is [`Why::Unmapped`].
    ///
    /// `inlined`: whether its function is inlined into the one above.
    pub(crate) fn charge(&mut self, at: Option<u32>, cost: u64, samples: u64, inlined: bool) {
        let at = at.unwrap_or_else(|| {
            let number = self.0.number(Function::new(Why::Unmapped.symbol(), ""));
            self.0.context(None, number)
        });
        let context = &mut self.0.profile.contexts[at as usize];
        context.cost = context.cost.saturating_add(cost);
        let all = &mut self.0.samples[at as usize];
        *all = all.saturating_add(samples);
        if inlined {
            let facts = &mut self.0.facts[context.function as usize];
            facts.inlined_samples = facts.inlined_samples.saturating_add(samples);
        }
    }

    /// The profile.
    pub fn grown(self, losses: Losses) -> Sampled {
        let Grown { profile, samples, facts, .. } = self.0;
        Sampled { profile, samples, facts, losses, ..Sampled::default() }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
