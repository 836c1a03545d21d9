//! Names addresses of files that others' profiles hold without names: counted from the start of a file in memory, as in the Firefox
//! Profiler's formats, or from its start on disk.

use super::{Frame, Names, Origin, Sources, Stack, Why, file, module};
use crate::space::{CodeFile, CodeKind};
use opcost_record::Function;
use opcost_symbols::elf;

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

/// Addresses of a program or library.
#[derive(Clone, Copy, Debug)]
pub enum FileAddresses<'a> {
    /// Counted from the start of the file in memory.
    InMemory(&'a [u64]),
    /// Counted from its start on disk.
    OnDisk(&'a [u64]),
}

impl<'a> FileAddresses<'a> {
    /// The addresses, wherever they are counted from.
    pub fn places(self) -> &'a [u64] {
        let (FileAddresses::InMemory(places) | FileAddresses::OnDisk(places)) = self;
        places
    }
}

/// Looks up the functions at addresses of a program or library. Without addresses it only tells whether the file may be another
/// than the sampled one.
///
/// `file`: with the build id that it had when it was sampled; `addresses`: the places; `origin`: where and when samples were taken;
/// `sources`: the sources of names.
pub fn look_up(
    file: &CodeFile,
    addresses: FileAddresses<'_>,
    origin: &Origin,
    sources: &Sources,
) -> LookedUp {
    let nameless = |why: Why| {
        let function = Function::new(why.symbol(), module(file));
        let stacks = vec![vec![function]; addresses.places().len()];
        LookedUp { stacks, why: Some(why), unchecked: false }
    };
    if origin.doubts(file) {
        return nameless(Why::Doubtful);
    }
    if addresses.places().is_empty() {
        return LookedUp::default();
    }
    let offsets = match addresses {
        FileAddresses::OnDisk(offsets) => Some(offsets.iter().copied().map(Some).collect()),
        FileAddresses::InMemory(addresses) => file::contents(file, sources)
            .filter(|_| file.kind == CodeKind::File)
            .and_then(|bytes| elf::offsets_of(&bytes, addresses).ok()),
    };
    match offsets {
        Some(offsets) => at_offsets(file, &offsets, sources),
        // The reason is the same for all places in the file.
        None => nameless(file::names(file, &[0], sources).why.unwrap_or(Why::Unmapped)),
    }
}

/// Looks up the functions at offsets of a file on disk; places without an offset are data.
fn at_offsets(file: &CodeFile, offsets: &[Option<u64>], sources: &Sources) -> LookedUp {
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
