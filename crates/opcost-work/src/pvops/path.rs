//! The code paths by name; one transaction takes a path.

#[cfg(target_arch = "x86_64")]
use super::operations::Retpoline;
use super::operations::{
    CompiledIn, FLUSH, Implementation, Indirect, MAKE_PTE, Modify, NATIVE, Nothing, OPAQUE,
    PTE_VAL, Patched, SET_PTE,
};
use super::pass::{Pass, Passage, cold, hot};
use crate::error::WorkError;
use crate::patched::require_patched;
use patchpoint::{Call, Transaction};

/// The values of the parameter `path`.
#[cfg(target_arch = "x86_64")]
pub(super) const NAMES: &str = "unpatched|retpoline|direct|inlined|compiled-in";
/// Only x86-64 has retpolines.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const NAMES: &str = "unpatched|direct|inlined|compiled-in";

/// The description of the paths, for help texts.
pub(super) const HELP: &str = "how code gets to the operations: unpatched, an indirect call through \
                               the table; retpoline, the same without prediction; direct, sites \
                               patched to direct calls; inlined, sites patched to what the trivial \
                               operations do; compiled-in, no table at all";

/// One code path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) name: &'static str,
    hot: Passage,
    cold: Passage,
    /// The implementation that the patched sites call or inline; `None` if the path has no patched sites.
    implementation: Option<&'static Implementation>,
}

const fn path<M: Modify>(
    name: &'static str,
    implementation: Option<&'static Implementation>,
) -> Path {
    Path { name, hot: hot::<M>, cold: cold::<M>, implementation }
}

static PATHS: &[Path] = &[
    path::<Indirect>("unpatched", None),
    #[cfg(target_arch = "x86_64")]
    path::<Retpoline>("retpoline", None),
    path::<Patched>("direct", Some(&OPAQUE)),
    path::<Patched>("inlined", Some(&NATIVE)),
    path::<CompiledIn>("compiled-in", None),
];

/// The loop that the work executes.
static PASSAGE: Call<Passage> = Call::new(c"pvops_pass", hot::<CompiledIn>);

/// Directs the loop to one of the paths, and returns the path.
///
/// `sites_are_cold`: whether the loop uses many copies of the code.
///
/// # Errors
/// [`WorkError`]: no path has this name, or code cannot be patched here.
pub(super) fn take(name: &str, sites_are_cold: bool) -> Result<&'static Path, WorkError> {
    let Some(path) = PATHS.iter().find(|path| path.name == name) else {
        return Err(WorkError::NoPath { path: name.into(), known: NAMES });
    };
    let mut change = Transaction::new();
    change.set_call(&PASSAGE, if sites_are_cold { path.cold } else { path.hot });
    if let Some(operations) = path.implementation {
        change
            .set_call(&PTE_VAL, operations.pte_val)
            .set_call(&MAKE_PTE, operations.make_pte)
            .set_call(&SET_PTE, operations.set_pte)
            .set_call(&FLUSH, operations.flush);
    }
    change.commit().map_err(|source| WorkError::Patch { path: name.into(), source })?;
    if path.implementation.is_some() {
        let keys = [PTE_VAL.raw(), MAKE_PTE.raw(), SET_PTE.raw(), FLUSH.raw()];
        require_patched(name, &keys)?;
    }
    Ok(path)
}

/// Goes through the operations with the path taken last.
///
/// # Safety
/// As for [`hot`].
pub(super) unsafe fn go(pass: &mut Pass) {
    // SAFETY: as the caller promises; the promise is the same for every passage.
    unsafe { patchpoint::call!(PASSAGE, &raw mut *pass) }
}

/// Goes through the loop alone.
///
/// # Safety
/// As for [`hot`].
pub(super) unsafe fn go_without_operations(pass: &mut Pass, sites_are_cold: bool) {
    // SAFETY: as the caller promises.
    unsafe { if sites_are_cold { cold::<Nothing>(pass) } else { hot::<Nothing>(pass) } }
}
