//! Keeps the modules of the kernel's code whose symbols are missing, where the recording says which modules were loaded.

use super::Names;
use crate::session::Recorded;
use crate::space::{CodeFile, CodeKind};
use opcost_symbols::keyed::KeyedMap;

/// Gives the modules at these addresses to frames without a name.
pub(super) fn kept(
    mut names: Names,
    file: &CodeFile,
    recorded: &Recorded,
    addresses: &[u64],
) -> Names {
    let modules = &recorded.kernel_modules;
    if file.kind != CodeKind::Kernel || modules.is_empty() {
        return names;
    }
    let mut numbers: KeyedMap<(u32, usize), u32> = KeyedMap::default();
    for (stack, address) in names.stacks.iter_mut().zip(addresses) {
        let frame = &names.frames[stack.function as usize];
        let Some(at) = modules.iter().position(|module| module.addresses.contains(address)) else {
            continue;
        };
        if !frame.symbol.starts_with('[')
            || frame.module.as_ref().is_some_and(|module| module != "[kernel]")
        {
            continue;
        }
        let kept = super::Frame { module: Some(modules[at].name.clone()), ..frame.clone() };
        let frames = &mut names.frames;
        stack.function = *numbers.entry((stack.function, at)).or_insert_with(|| {
            frames.push(kept);
            // Frames number no more than places, which are counted in 32 bits.
            frames.len() as u32 - 1
        });
    }
    names
}
