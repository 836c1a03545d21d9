//! Finds samples whose direct caller is missing: samples of functions that keep no frame pointer.
//!
//! A chain of frame pointers begins with the current frame. If a function makes no frame, as gcc
//! compiles functions that call nothing, the chain goes on with the caller's caller.

use super::{Sources, Stack, file};
use crate::session::Recorded;
use crate::space::CodeKind;
use opcost_symbols::keyed::KeyedMap;

/// Functions with at most one in `PARTS_OF_ALL` of all samples are skipped.
const PARTS_OF_ALL: u64 = 20;

/// Returns the functions that keep no frame pointer, with their samples, most samples first.
///
/// `stacks`: the functions of each place. Only samples with a caller that frame pointers led to count.
pub(super) fn samples(recorded: &Recorded, stacks: &[Stack], sources: &Sources) -> Vec<(u32, u64)> {
    if recorded.stacks_unwound > 0 {
        return Vec::new();
    }
    let (places, nodes) = (recorded.tree.places(), recorded.tree.nodes());
    let file_of = |place: u32| &recorded.files[places[place as usize].file as usize];
    let mut all = 0;
    let mut by_place: KeyedMap<u32, u64> = KeyedMap::default();
    let mut by_function: KeyedMap<u32, u64> = KeyedMap::default();
    for node in nodes.iter().filter(|node| node.samples > 0) {
        all += node.samples;
        if node.parent.is_some() && file_of(node.place).kind == CodeKind::File {
            *by_place.entry(node.place).or_default() += node.samples;
            *by_function.entry(stacks[node.place as usize].function).or_default() += node.samples;
        }
    }
    by_function.retain(|_, samples| *samples * PARTS_OF_ALL > all);
    let mut by_file: KeyedMap<u32, Vec<(u64, u32, u64)>> = KeyedMap::default();
    for (place, samples) in by_place {
        let function = stacks[place as usize].function;
        if by_function.contains_key(&function) {
            let at = places[place as usize];
            by_file.entry(at.file).or_default().push((at.offset, function, samples));
        }
    }
    let mut found: KeyedMap<u32, u64> = KeyedMap::default();
    for (number, mut asked) in by_file {
        asked.sort_unstable();
        let offsets: Vec<u64> = asked.iter().map(|(offset, ..)| *offset).collect();
        let without = file::without_frame(&recorded.files[number as usize], &offsets, sources);
        for ((_, function, samples), without) in asked.into_iter().zip(without) {
            if without {
                *found.entry(function).or_default() += samples;
            }
        }
    }
    let mut found: Vec<(u32, u64)> = found.into_iter().collect();
    found.sort_by_key(|(function, samples)| (u64::MAX - samples, *function));
    found
}
