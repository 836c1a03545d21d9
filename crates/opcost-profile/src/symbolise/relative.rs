//! Names addresses that count from the start of a file in memory, as in the Firefox Profiler's
//! formats.

use super::{Frame, Names, Sources, Stack, Why, file, module};
use crate::space::{CodeFile, CodeKind};
use crate::symbols::elf;
use opcost_record::Function;

/// The names found for a file's addresses.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LookedUp {
    /// The functions at each address, outermost first: its own, and those inlined there.
    pub stacks: Vec<Vec<Function>>,
    /// Why addresses without a name have none.
    pub why: Option<Why>,
    /// Whether no build id confirms that the file is the right one.
    pub unchecked: bool,
}

/// Looks up the functions at addresses of a program or library.
///
/// `file`: with the build id that it had when it was sampled; `addresses`: offsets from the start of
/// the file in memory; `sources`: the sources of names.
pub fn look_up(file: &CodeFile, addresses: &[u64], sources: &Sources) -> LookedUp {
    let offsets = file::contents(file, sources)
        .filter(|_| file.kind == CodeKind::File)
        .and_then(|bytes| elf::offsets_of(&bytes, addresses).ok());
    let Some(offsets) = offsets else {
        // The reason is the same for all places in the file.
        let why = file::names(file, &[0], sources).why.unwrap_or(Why::Unmapped);
        let function = Function::new(why.symbol(), module(file));
        let stacks = vec![vec![function]; addresses.len()];
        return LookedUp { stacks, why: Some(why), unchecked: false };
    };
    let mut asked: Vec<u64> = offsets.iter().flatten().copied().collect();
    asked.sort_unstable();
    asked.dedup();
    let Names { frames, stacks, why, unchecked, .. } = file::names(file, &asked, sources);
    let name = module(file);
    let function = |at: &u32| {
        let Frame { symbol, source, module, .. } = &frames[*at as usize];
        let module = module.as_ref().unwrap_or(&name);
        Function { source: source.clone(), ..Function::new(symbol, module) }
    };
    let stack = |offset: &Option<u64>| {
        let found = offset.and_then(|offset| asked.binary_search(&offset).ok());
        match found.map(|at| &stacks[at]) {
            Some(Stack { function: outer, inlined }) => {
                std::iter::once(outer).chain(inlined).map(function).collect()
            }
            None => vec![Function::new("[data]", &name)],
        }
    };
    LookedUp { stacks: offsets.iter().map(stack).collect(), why, unchecked }
}
