//! Where files of a user belong (XDG Base Directory Specification).

use std::path::PathBuf;

/// The base folder that `variable` names, else `below` in the home folder; `None` if there is
/// neither. Relative paths in the variable are ignored, as the specification wants it.
pub fn base_folder(variable: &str, below: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(below)))
}

/// opcost's folder for what can be made again.
pub fn cache_folder() -> Option<PathBuf> {
    base_folder("XDG_CACHE_HOME", ".cache").map(|cache| cache.join("opcost"))
}
