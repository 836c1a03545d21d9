//! From places in files to functions: the profile, and what could not be named and why.
//!
//! Only files that were sampled are read, and of their symbols only those that were asked for are
//! shown. A name is never guessed: a file that is not the one that was sampled has none to give, and
//! its code is one row that says why.

mod file;
mod inline;
mod jit;
mod kernel;
mod vdso;

use crate::losses::Losses;
use crate::session::Recorded;
use crate::space::{CodeFile, CodeKind};
use crate::symbols::demangle::printable;
use opcost_record::{Context, Function, Profile};
use rustc_hash::FxHashMap;
use std::path::PathBuf;

pub use kernel::{KernelSource, running_build_id};

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

/// A function of a place; the outermost of several is the one that the others were inlined into.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Frame {
    symbol: String,
    /// Instead of the file that the place is in.
    module: Option<String>,
    bytes: Option<u64>,
    inlined: bool,
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
    /// Nothing was known to be mapped there.
    Unmapped,
}

impl Why {
    /// The name of code that has none for this reason.
    fn symbol(&self) -> &'static str {
        match self {
            Why::Gone => "[deleted]",
            Why::OtherBuild => "[other build]",
            Why::Unreadable(_) => "[unreadable]",
            Why::Hidden => "[hidden]",
            Why::Stripped => "[text]",
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
    /// Samples of each context's own.
    pub samples: Vec<u64>,
    /// What is known of each function.
    pub facts: Vec<FunctionFacts>,
    /// What was lost while sampling.
    pub losses: Losses,
    /// Code without names, most samples first.
    pub unnamed: Vec<Unnamed>,
    /// Modules of which the recording has no build id to check the file against.
    pub unchecked: Vec<String>,
}

impl Sampled {
    /// Samples in the profile.
    pub fn samples_total(&self) -> u64 {
        self.samples.iter().sum()
    }
}

/// The frames of each asked-for place of one file, and what is wrong with the file.
struct Names {
    /// Of each place in the order asked, outermost first, at least one.
    frames: Vec<Vec<Frame>>,
    /// Why places without a name have none.
    why: Option<Why>,
    /// Whether no build id said that the file is the right one.
    unchecked: bool,
}

impl Names {
    /// Nothing has a name.
    fn none(places: usize, why: Why) -> Names {
        let frame =
            Frame { symbol: why.symbol().into(), module: None, bytes: None, inlined: false };
        Names { frames: vec![vec![frame]; places], why: Some(why), unchecked: false }
    }
}

/// Names what was recorded.
///
/// `recorded`: what a session took; `sources`: where names come from. What cannot be read is said in
/// [`Sampled::unnamed`] and never an error.
pub fn symbolise(recorded: &Recorded, sources: &Sources) -> Sampled {
    let nodes = recorded.tree.nodes();
    let mut places: Vec<Vec<u64>> = vec![Vec::new(); recorded.files.len()];
    for node in nodes {
        places[node.place.file as usize].push(node.place.offset);
    }
    let mut grown = Grown::default();
    let mut files: Vec<Option<Looked>> = Vec::with_capacity(places.len());
    for (file, mut offsets) in recorded.files.iter().zip(places) {
        if offsets.is_empty() {
            files.push(None);
            continue;
        }
        offsets.sort_unstable();
        offsets.dedup();
        let names = names(file, recorded, &offsets, sources);
        let module = module(file);
        files.push(Some(grown.look_up(&module, offsets, names)));
    }
    // The context that each node ends in.
    let mut ends: Vec<u32> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut at = node.parent.map(|parent| ends[parent as usize]);
        // Every file with a place was looked up.
        if let Some(looked) = &mut files[node.place.file as usize]
            && let Ok(place) = looked.offsets.binary_search(&node.place.offset)
        {
            let functions = &looked.functions[place];
            for function in functions {
                at = Some(grown.context(at, *function));
            }
            if let Some(end) = at {
                let context = &mut grown.profile.contexts[end as usize];
                context.cost = context.cost.saturating_add(node.cost);
                grown.samples[end as usize] += node.samples;
            }
            if looked.inlined[place]
                && let Some(function) = functions.last()
            {
                grown.facts[*function as usize].inlined_samples += node.samples;
            }
            looked.unnamed_samples += if looked.nameless[place] { node.samples } else { 0 };
        }
        ends.push(at.unwrap_or_default());
    }
    let looked = || files.iter().flatten();
    let mut unnamed: Vec<Unnamed> = looked().filter_map(Looked::unnamed).collect();
    unnamed.sort_by(|one, two| (two.samples, &one.module).cmp(&(one.samples, &two.module)));
    let mut unchecked: Vec<String> =
        looked().filter(|looked| looked.unchecked).map(|looked| looked.module.clone()).collect();
    unchecked.sort();
    unchecked.dedup();
    let Grown { profile, samples, facts, .. } = grown;
    let losses = recorded.losses.clone();
    Sampled { profile, samples, facts, losses, unnamed, unchecked }
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
fn module(file: &CodeFile) -> String {
    match file.kind {
        CodeKind::Unmapped => String::new(),
        CodeKind::Anonymous { .. } => jit::MODULE.into(),
        _ => {
            let path = String::from_utf8_lossy(&file.path);
            printable(path.strip_suffix(file::DELETED).unwrap_or(&path))
        }
    }
}

/// A file's places with the numbers of their functions.
struct Looked {
    module: String,
    offsets: Vec<u64>,
    /// Of each place, outermost first.
    functions: Vec<Vec<u32>>,
    inlined: Vec<bool>,
    nameless: Vec<bool>,
    why: Option<Why>,
    unchecked: bool,
    unnamed_samples: u64,
}

impl Looked {
    fn unnamed(&self) -> Option<Unnamed> {
        let why = self.why.clone().filter(|_| self.unnamed_samples > 0)?;
        Some(Unnamed { module: self.module.clone(), why, samples: self.unnamed_samples })
    }
}

/// A profile while it grows.
#[derive(Default)]
struct Grown {
    profile: Profile,
    samples: Vec<u64>,
    facts: Vec<FunctionFacts>,
    functions: FxHashMap<Function, u32>,
    contexts: FxHashMap<(Option<u32>, u32), u32>,
}

impl Grown {
    fn look_up(&mut self, module: &str, offsets: Vec<u64>, names: Names) -> Looked {
        let last = |frames: &Vec<Frame>| frames.last().cloned();
        let inlined = names.frames.iter().map(|frames| last(frames).is_some_and(|one| one.inlined));
        let inlined = inlined.collect();
        let nameless = |frames: &Vec<Frame>| frames.iter().all(|one| one.symbol.starts_with('['));
        let nameless = names.frames.iter().map(nameless).collect();
        let functions = names
            .frames
            .into_iter()
            .map(|frames| frames.into_iter().map(|frame| self.function(module, frame)).collect());
        Looked {
            functions: functions.collect(),
            module: module.to_string(),
            offsets,
            inlined,
            nameless,
            why: names.why,
            unchecked: names.unchecked,
            unnamed_samples: 0,
        }
    }

    fn function(&mut self, module: &str, frame: Frame) -> u32 {
        let module = frame.module.unwrap_or_else(|| module.to_string());
        let number = self.number(Function { symbol: frame.symbol, module });
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
        *self.contexts.entry((parent, function)).or_insert_with(|| {
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
        let nowhere = || Function { symbol: Why::Unmapped.symbol().into(), module: String::new() };
        let mut at = None;
        let mut last = None;
        for (function, inlined) in stack {
            let number = self.0.number(function.clone());
            at = Some(self.0.context(at, number));
            last = Some((number, *inlined));
        }
        let at = at.unwrap_or_else(|| {
            let number = self.0.number(nowhere());
            self.0.context(None, number)
        });
        let context = &mut self.0.profile.contexts[at as usize];
        context.cost = context.cost.saturating_add(cost);
        self.0.samples[at as usize] += 1;
        if let Some((number, true)) = last {
            self.0.facts[number as usize].inlined_samples += 1;
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
