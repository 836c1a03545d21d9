//! A check for code paths that are exchanged by patching: whether a key's sites are patched.

use crate::error::WorkError;
use patchpoint::RawKey;

/// Checks that no site of a key reads the key any more.
///
/// # Errors
/// [`WorkError::Unpatched`]: a site is still as compiled, so the path would not be what its name says.
pub(crate) fn require_patched(path: &str, keys: &[*const RawKey]) -> Result<(), WorkError> {
    let refused = |source| WorkError::Patch { path: path.into(), source };
    let sites = patchpoint::sites().map_err(refused)?;
    for &key in keys {
        let mut of_key = sites.iter().filter(|site| site.key == key).peekable();
        if of_key.peek().is_none() || of_key.any(|site| site.state == "data") {
            let reason = patchpoint::status().map_err(refused)?.reason;
            return Err(WorkError::Unpatched { path: path.into(), reason });
        }
    }
    Ok(())
}
