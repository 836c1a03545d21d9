//! The folders for a user's files (XDG Base Directory Specification).

use std::path::PathBuf;

/// Returns the base folder that `variable` names, else `below` in the home folder; `None` if there is neither. A relative path in
/// the variable is ignored, as the specification demands.
pub fn base_folder(variable: &str, below: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(below)))
}

/// Returns opcost's folder for data that can be made again.
pub fn cache_folder() -> Option<PathBuf> {
    base_folder("XDG_CACHE_HOME", ".cache").map(|cache| cache.join("opcost"))
}
