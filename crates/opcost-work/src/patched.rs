//! Code paths that are exchanged by patching: whether the sites of a key really were patched.

use crate::error::WorkError;
use patchpoint::RawKey;

/// Makes sure that a key's sites no longer read the key.
///
/// # Errors
/// [`WorkError::Unpatched`]: a site is as it was compiled, so that the path would be another one
/// than its name says.
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
