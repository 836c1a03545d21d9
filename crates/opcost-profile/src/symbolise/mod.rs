//! Names places in files: makes the profile, and tells which code has no name and why.
//!
//! Only sampled files are read, and only the symbols that samples need appear. A name is never
//! guessed: a file other than the sampled one names nothing, and its code is one row that says why.

mod declared;
pub(crate) mod file;
mod frameless;
mod inline;
mod jit;
mod kernel;
mod lines;
mod modules;
mod origin;
mod relative;
mod remembered;
mod vdso;

use crate::code_costs::{CodeCosts, PlaceCost};
use crate::losses::Losses;
use crate::parallel;
use crate::session::Recorded;
use crate::space::{CodeFile, CodeKind};
use opcost_record::{Context, Function, Module, Profile};
use opcost_symbols::debug_files::DebugFiles;
use opcost_symbols::demangle::printable;
use opcost_symbols::keyed::KeyedMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

pub use declared::{Declared, declared};
pub use file::contents;
pub use inline::WithoutInlined;
pub use kernel::{KernelSource, running_build_id};
pub(crate) use kernel::{function_starts, module_build_id, running_release};
pub use lines::{CodeLines, LineAt, SourceFile, lines};
pub use origin::Origin;
pub use relative::{FileAddresses, LookedUp, look_up};
pub use remembered::Remembered;

/// The sources of names.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The kernel's symbols.
    pub kernel: KernelSource,
    /// The places of debug files.
    pub debug_files: DebugFiles,
    /// perf's cache of files by build id, usually `.debug` in the home directory.
    pub build_id_cache: Option<PathBuf>,
    /// Whether to show inlined functions, where debug information describes them.
    pub inlined: bool,
    /// The most memory that reading one file may take ([`Budget`](opcost_sys::budget::Budget)), bytes.
    pub limit_bytes: u64,
}

/// The function at a place, as shown.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Frame {
    symbol: String,
    /// The source file, if other functions have the same symbol.
    source: Option<String>,
    /// The name in the symbol table.
    mangled: Option<Box<str>>,
    /// The module, if it is not the file of the place.
    module: Option<String>,
    bytes: Option<u64>,
    /// The function's first place; all places from there up to its length have this frame.
    start: Option<u64>,
}

impl Frame {
    /// Makes a frame of which only the symbol is known, in the module of its file.
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
    /// The file no longer exists.
    Gone,
    /// The file is another build than the one that was sampled.
    OtherBuild,
    /// No build id says whether the file is the one that was sampled, and it is another computer's or has changed since.
    Doubtful,
    /// The file cannot be read; holds the error's text.
    Unreadable(String),
    /// The kernel hides its addresses (`kernel.kptr_restrict`).
    Hidden,
    /// The file has no symbol table.
    Stripped,
    /// No file exists: a just-in-time compiler made the code and left no map of it.
    NoMap,
    /// The profile holds addresses, and its writer looked up no names.
    NotLookedUp,
    /// No known mapping was at the address.
    Unmapped,
}

impl Why {
    /// The symbol that stands for code without a name for this reason.
    pub(crate) fn symbol(&self) -> &'static str {
        match self {
            Why::Gone => "[deleted]",
            Why::OtherBuild | Why::Doubtful => "[other build]",
            Why::Unreadable(_) => "[unreadable]",
            Why::Hidden => "[hidden]",
            Why::Stripped | Why::NotLookedUp => "[text]",
            Why::NoMap => "[no map]",
            Why::Unmapped => "[unmapped]",
        }
    }
}

/// Code whose functions are unknown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unnamed {
    /// The code's module.
    pub module: String,
    /// The reason.
    pub why: Why,
    /// Samples in the code.
    pub samples: u64,
}

impl Unnamed {
    /// Makes a row for each module, from the reason and the number of samples; most samples first.
    pub(crate) fn of_modules(modules: BTreeMap<String, (Why, u64)>) -> Vec<Unnamed> {
        let rows = modules.into_iter();
        let mut rows: Vec<Unnamed> =
            rows.map(|(module, (why, samples))| Unnamed { module, why, samples }).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.samples));
        rows
    }
}

/// Facts about a function beside its cost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FunctionFacts {
    /// The function's length, bytes.
    pub bytes: Option<u64>,
    /// Samples in copies of the function that were inlined into others.
    pub inlined_samples: u64,
}

/// A sampled profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// Costs by calling context, in the event's unit. The `calls` of contexts are always 0, since
    /// samples do not count calls.
    pub profile: Profile,
    /// Each context's own samples; all 0 if the file does not tell their number.
    pub samples: Vec<u64>,
    /// Facts about each function.
    pub facts: Vec<FunctionFacts>,
    /// Losses while sampling.
    pub losses: Losses,
    /// Code without names, most samples first.
    pub unnamed: Vec<Unnamed>,
    /// Functions that keep no frame pointer, so that the callers found are their callers' callers:
    /// each function's number and samples, most samples first. Only functions with more than 5 % of
    /// all samples are listed, and none if callers were found otherwise.
    pub frameless: Vec<(u32, u64)>,
    /// Modules without a recorded build id to check the file against.
    pub unchecked: Vec<String>,
    /// Modules whose debug information gives no inlined functions, or not all of them.
    pub without_inlined: Vec<(String, WithoutInlined)>,
    /// The cost of each place in code by itself.
    pub code: CodeCosts,
}

impl Sampled {
    /// Returns the samples of the profile; 0 if their number is unknown.
    pub fn samples_total(&self) -> u64 {
        self.samples.iter().sum()
    }

    /// Returns the samples of the profile; `None` for a file that has costs, but does not tell the
    /// number of samples, or whether there were any.
    pub fn samples_known(&self) -> Option<u64> {
        let samples = self.samples_total();
        (samples > 0 || self.profile.total() == 0).then_some(samples)
    }
}

/// The functions at a place, by number.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Stack {
    /// The function that the code belongs to.
    function: u32,
    /// The functions inlined there, the innermost last.
    inlined: Vec<u32>,
}

/// The frames of one file's places that were asked for, and the file's faults.
struct Names {
    /// The frames of the stacks; neighbouring stacks share theirs.
    frames: Vec<Frame>,
    /// The stack of each place, in the order asked.
    stacks: Vec<Stack>,
    /// Why places without a name have none.
    why: Option<Why>,
    /// Whether no build id confirms that the file is the right one.
    unchecked: bool,
    /// The name that others link the file by.
    soname: Option<String>,
    /// Why inlined functions are missing.
    without_inlined: Option<WithoutInlined>,
}

impl Names {
    /// Names places by these frames and stacks.
    fn new(frames: Vec<Frame>, stacks: Vec<Stack>) -> Names {
        Names { frames, stacks, why: None, unchecked: false, soname: None, without_inlined: None }
    }

    /// Names no place.
    fn none(places: usize, why: Why) -> Names {
        let frame = Frame::new(why.symbol());
        let stack = Stack { function: 0, inlined: Vec::new() };
        let (frames, stacks) = (vec![frame], vec![stack; places]);
        Names { why: Some(why), ..Names::new(frames, stacks) }
    }

    /// Names places without inlined functions.
    ///
    /// `found`: the function of each place, with equal functions next to each other; `frame`: makes
    /// a function's frame.
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
            // Frames number no more than places, which are counted in 32 bits.
            stacks.push(Stack { function: frames.len() as u32 - 1, inlined: Vec::new() });
        }
        Names { why: Some(why), ..Names::new(frames, stacks) }
    }
}

/// The most files that are named at the same time, since each holds its symbols.
const THREADS_MAX: usize = 4;

/// The size in bytes from which on files are named one at a time, as maps of just-in-time compiled code are.
const LARGE_BYTES: u64 = 32 << 20;

/// Names the places of a recording.
///
/// `recorded`: a session's recording; `sources`: the sources of names. A file that cannot be read is
/// no error, but listed in [`Sampled::unnamed`].
pub fn symbolise(recorded: &Recorded, sources: &Sources) -> Sampled {
    let large = Mutex::new(());
    let names = |asked: &Asked<'_>| {
        // The lock protects no data, so a panic while it was held left nothing half done.
        let is_large = file::is_large(asked.file, LARGE_BYTES)
            || matches!(asked.file.kind, CodeKind::Anonymous { .. });
        let _alone = is_large.then(|| large.lock());
        names(asked.file, recorded, &asked.offsets, sources)
    };
    let all = |asked: Vec<Asked<'_>>| {
        // The largest files come first, so that none is left alone at the end.
        let mut order: Vec<usize> = (0..asked.len()).collect();
        order.sort_by_key(|index| Reverse(asked[*index].offsets.len()));
        let named = |index: usize| (index, names(&asked[index]));
        // The kernel's list takes more memory than most files; it is freed before these begin.
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

/// Names the places of a recording like [`symbolise`], for callers that do so again and again: a
/// place named before is not looked up anew.
///
/// `remembered`: names found before with the same `sources`. Neither inlined functions nor functions
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

/// A file, and the ascending offsets in it to be named.
struct Asked<'r> {
    file: &'r CodeFile,
    offsets: Vec<u64>,
}

/// Returns the profile, and the functions of each place.
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
    let mut without_inlined = Vec::new();
    for (number_of_file, (file, asked)) in recorded.files.iter().zip(places_of).enumerate() {
        if asked.is_empty() {
            continue;
        }
        let Some(names) = named.next() else { break };
        let module = module(file);
        // A frame that is in no stack is not a function of the profile.
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
        if let Some(why) = names.without_inlined {
            without_inlined.push((module.clone(), why));
        }
        // A file's name usually ends with the name that others link the file by.
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
    let mut own = vec![0u64; places.len()];
    for node in nodes {
        let cost = &mut own[node.place as usize];
        *cost = cost.saturating_add(node.cost);
    }
    let costed = (0..places.len()).filter(|at| own[*at] > 0 || samples[*at] > 0);
    let costed: Vec<PlaceCost> = costed
        .map(|at| PlaceCost {
            file: places[at].file,
            offset: places[at].offset,
            function: stacks[at].function,
            inlined: stacks[at].inlined.clone(),
            cost: own[at],
            samples: samples[at],
        })
        .collect();
    // The context in which each node ends.
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
    without_inlined.sort();
    without_inlined.dedup();
    let Grown { mut profile, samples, facts, .. } = grown;
    profile.modules = modules;
    let losses = recorded.losses.clone();
    let sampled = Sampled {
        profile,
        samples,
        facts,
        losses,
        unnamed,
        frameless: Vec::new(),
        unchecked,
        without_inlined,
        code: CodeCosts {
            files: recorded.files.clone(),
            places: costed,
            kernel_reference: recorded.kernel_reference.clone(),
            kernel_modules: recorded.kernel_modules.clone(),
            ..CodeCosts::default()
        },
    };
    (sampled, stacks)
}

/// Names the places of a file.
fn names(file: &CodeFile, recorded: &Recorded, offsets: &[u64], sources: &Sources) -> Names {
    // Symbols that the user gives for the kernel are taken at the user's word.
    let given = file.kind == CodeKind::Kernel && sources.kernel != KernelSource::Running;
    if !given && recorded.origin.doubts(file) {
        let names = Names::none(offsets.len(), Why::Doubtful);
        return modules::kept(names, file, recorded, offsets);
    }
    match file.kind {
        CodeKind::Kernel => {
            let names = kernel::names(file, recorded.kernel_reference.as_ref(), offsets, sources);
            modules::kept(names, file, recorded, offsets)
        }
        CodeKind::Unmapped => Names::none(offsets.len(), Why::Unmapped),
        CodeKind::Vdso => vdso::names(file, offsets),
        CodeKind::File => file::names(file, offsets, sources),
        CodeKind::Anonymous { pid } => jit::names(pid, offsets),
    }
}

/// Returns the file's name as a module.
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

/// A profile under construction.
#[derive(Default)]
struct Grown {
    profile: Profile,
    samples: Vec<u64>,
    facts: Vec<FunctionFacts>,
    functions: KeyedMap<Function, u32>,
    /// Contexts by function and by parent, counted from 1.
    contexts: KeyedMap<u64, u32>,
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
            // Functions number no more than places, which are counted in 32 bits.
            self.facts.len() as u32 - 1
        })
    }

    fn context(&mut self, parent: Option<u32>, function: u32) -> u32 {
        let (contexts, samples) = (&mut self.profile.contexts, &mut self.samples);
        let above = parent.map_or(0, |parent| u64::from(parent) + 1);
        *self.contexts.entry(above << 32 | u64::from(function)).or_insert_with(|| {
            contexts.push(Context { parent, function, calls: 0, cost: 0 });
            samples.push(0);
            // Contexts number no more than nodes, which are counted in 32 bits.
            samples.len() as u32 - 1
        })
    }
}

/// Makes a sampled profile from stacks whose functions are known.
#[derive(Default)]
pub struct ProfileBuilder(Grown);

impl ProfileBuilder {
    /// Adds one sample.
    ///
    /// `stack`: the functions, outermost first, each with whether it is inlined into the one before;
    /// `cost`: in the event's unit. A sample without a stack counts as [`Why::Unmapped`].
    pub fn add(&mut self, stack: &[(Function, bool)], cost: u64) {
        let mut at = None;
        for (function, _) in stack {
            let number = self.function(function.clone());
            at = Some(self.context(at, number));
        }
        let inlined = stack.last().is_some_and(|(_, inlined)| *inlined);
        self.charge(at, cost, 1, inlined);
    }

    /// Returns the number of a function.
    pub(crate) fn function(&mut self, function: Function) -> u32 {
        self.0.number(function)
    }

    /// Returns the module of a function.
    pub(crate) fn module(&self, function: u32) -> Option<&str> {
        Some(&self.0.profile.functions.get(function as usize)?.module)
    }

    /// Returns the context of a function called in `parent`.
    pub(crate) fn context(&mut self, parent: Option<u32>, function: u32) -> u32 {
        self.0.context(parent, function)
    }

    /// Charges a context with a cost and its samples; `None` counts as [`Why::Unmapped`].
    ///
    /// `inlined`: whether the context's function is inlined into its parent's.
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

    /// Returns the finished profile.
    pub fn grown(self, losses: Losses) -> Sampled {
        let Grown { profile, samples, facts, .. } = self.0;
        Sampled { profile, samples, facts, losses, ..Sampled::default() }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
