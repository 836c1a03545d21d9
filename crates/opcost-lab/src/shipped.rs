//! Files that ship with opcost, and their places: beside the program in the folder that it was
//! built in, or below the prefix where a package was unpacked or installed.
//!
//! ```text
//! target/debug/opcost     target/debug/libopcost_emu.so, …     experiments/, kernels/ of the source
//! PREFIX/bin/opcost       PREFIX/lib/opcost/…                   PREFIX/share/opcost/…
//! ```
//!
//! **Files that ship are found from the program's own path.** One rule serves a build, a folder unpacked anywhere and `/usr`;
//! no path is compiled in, so a package can be moved, and two builds in different folders are equal. A build knows its source by
//! the list of source files that cargo writes beside the program, wherever the target folder is. Where that list names nothing,
//! because the clone was moved, the source is around `target`, which cargo's tag file tells from `/usr`.

use std::path::{Path, PathBuf};

/// The environment variable for the folder of opcost's parts, in place of the folders below.
pub const VARIABLE: &str = "OPCOST_LIBEXEC";

/// The folder of parts below a package's prefix.
const PACKAGED: &str = "lib/opcost";

/// The folders where a program looks for the files that came with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Shipped {
    /// Folders of parts (programs and libraries), the first choice first.
    parts: Vec<PathBuf>,
    /// Folders of data, the first choice first.
    data: Vec<PathBuf>,
}

/// Whether a part lies where a package puts it.
pub fn is_of_a_package(part: &Path) -> bool {
    part.parent().is_some_and(|folder| folder.ends_with(PACKAGED))
}

impl Shipped {
    /// The files that came with this program.
    pub fn here() -> Shipped {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        Shipped::with(&std::env::current_exe().unwrap_or_default(), named)
    }

    /// The files that came with `program`; its parts are in `named`, if given.
    fn with(program: &Path, named: Option<PathBuf>) -> Shipped {
        let beside = program.parent().unwrap_or(Path::new("/"));
        let prefix = beside.parent().unwrap_or(Path::new("/"));
        let parts = match named {
            Some(folder) => vec![folder],
            None => vec![beside.to_path_buf(), prefix.join(PACKAGED)],
        };
        let mut data = vec![prefix.join("share/opcost")];
        // Cargo marks the folder that it builds in. Elsewhere the parent folder has other people's files.
        let around = || prefix.parent().filter(|_| prefix.join("CACHEDIR.TAG").is_file());
        data.splice(0..0, built_from(program).or_else(|| around().map(Path::to_path_buf)));
        Shipped { parts, data }
    }

    /// The path of a part; the error lists the folders that lack it.
    pub fn part(&self, name: &str) -> Result<PathBuf, Vec<PathBuf>> {
        let found = self.parts.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        found.and_then(|path| std::path::absolute(path).ok()).ok_or_else(|| self.parts.clone())
    }

    /// The experiments by name, with their files; empty if none were installed.
    pub fn experiments(&self) -> Vec<(String, PathBuf)> {
        self.files("experiments", "toml")
            .into_iter()
            .filter_map(|path| Some((path.file_stem()?.to_str()?.to_string(), path)))
            .collect()
    }

    /// A fragment of a kernel's configuration, or a patch, by its file name.
    pub fn of_kernels(&self, name: &Path) -> Option<PathBuf> {
        let mut all = self.files("kernels", "config");
        all.extend(self.files("kernels/patches", "patch"));
        all.into_iter().find(|path| path.file_name() == Some(name.as_os_str()))
    }

    /// A file of a kernel's recipe. If it does not exist, the file of that name that ships with opcost.
    ///
    /// `folder`: where relative paths begin.
    pub fn recipe_file(&self, folder: &Path, file: &Path) -> PathBuf {
        let path = folder.join(file);
        let shipped = (!path.exists()).then(|| self.of_kernels(file)).flatten();
        shipped.unwrap_or(path)
    }

    /// The files of a folder with an ending, by name, from the first place that has the folder.
    fn files(&self, folder: &str, ending: &str) -> Vec<PathBuf> {
        let found = self.data.iter().find_map(|data| std::fs::read_dir(data.join(folder)).ok());
        let paths = found.into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|found| found == ending) && path.is_file())
            .collect();
        files.sort();
        files
    }
}

/// The folder of the sources from which cargo built a program; `None` without cargo's list of them, or if they are gone.
fn built_from(program: &Path) -> Option<PathBuf> {
    // A rule for make: `program: source source`, with blanks escaped (Cargo book, "Dep-info files").
    let list = std::fs::read_to_string(program.with_extension("d")).ok()?;
    let list = list.replace("\\ ", "\0");
    let paths = list.split_whitespace().map(|path| PathBuf::from(path.replace('\0', " ")));
    let mut mains = paths.filter(|path| path.ends_with("crates/opcost/src/main.rs"));
    let main = mains.find(|path| path.is_absolute() && path.is_file())?;
    main.ancestors().nth(4).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A prefix with these files, all empty.
    fn prefix(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    fn names(shipped: &Shipped) -> Vec<String> {
        shipped.experiments().into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn an_installed_opcost_finds_its_files_below_its_prefix() {
        let folder = prefix(&[
            "usr/lib/opcost/opcost-guest",
            "usr/share/opcost/experiments/b.toml",
            "usr/share/opcost/experiments/a.toml",
            "usr/share/opcost/experiments/published/c.toml",
            "usr/share/opcost/experiments/README.md",
            "usr/share/opcost/kernels/base.config",
            "usr/share/opcost/kernels/patches/cure.patch",
            // Files of another package at such a place do not count.
            "experiments/other.toml",
        ]);
        let at = |path: &str| folder.path().join(path);
        let shipped = Shipped::with(&at("usr/bin/opcost"), None);
        assert_eq!(shipped.part("opcost-guest"), Ok(at("usr/lib/opcost/opcost-guest")));
        assert!(is_of_a_package(&at("usr/lib/opcost/opcost-guest")));
        assert!(!is_of_a_package(&at("usr/bin/opcost-guest")));
        assert_eq!(names(&shipped), ["a", "b"]);
        for (name, place) in [("base.config", "base.config"), ("cure.patch", "patches/cure.patch")]
        {
            let found = shipped.of_kernels(Path::new(name));
            assert_eq!(found, Some(at("usr/share/opcost/kernels").join(place)));
        }
        assert_eq!(shipped.of_kernels(Path::new("none.config")), None);
        // An existing file comes first, and a name with a folder means this file alone.
        let own = prefix(&["my/base.config"]);
        let file = |name: &str| shipped.recipe_file(&own.path().join("my"), Path::new(name));
        assert_eq!(file("base.config"), own.path().join("my/base.config"));
        assert_eq!(file("cure.patch"), at("usr/share/opcost/kernels/patches/cure.patch"));
        assert_eq!(file("none.config"), own.path().join("my/none.config"));
        assert_eq!(file("kernels/base.config"), own.path().join("my/kernels/base.config"));
        assert_eq!(shipped.part("none"), Err(vec![at("usr/bin"), at("usr/lib/opcost")]));
    }

    #[test]
    fn a_build_finds_its_files_beside_itself_and_in_its_source() {
        let folder = prefix(&[
            "target/CACHEDIR.TAG",
            "target/debug/opcost-guest",
            "experiments/a.toml",
            "target/share/opcost/experiments/b.toml",
        ]);
        let program = folder.path().join("target/debug/opcost");
        let shipped = Shipped::with(&program, None);
        assert_eq!(shipped.part("opcost-guest"), Ok(program.with_file_name("opcost-guest")));
        assert_eq!(names(&shipped), ["a"]);
        fs::remove_file(folder.path().join("target/CACHEDIR.TAG")).unwrap();
        assert_eq!(names(&Shipped::with(&program, None)), ["b"], "no build is here");
    }

    #[test]
    fn a_build_in_a_folder_elsewhere_finds_its_source() {
        let source = prefix(&["a b/crates/opcost/src/main.rs", "a b/experiments/a.toml"]);
        let built = prefix(&["debug/opcost", "CACHEDIR.TAG"]);
        let program = built.path().join("debug/opcost");
        let main = source.path().join("a b/crates/opcost/src/main.rs");
        let list = |path: &Path| path.to_str().unwrap().replace(' ', "\\ ");
        fs::write(
            program.with_extension("d"),
            format!("{}: /lib.rs {}\n", list(&program), list(&main)),
        )
        .unwrap();
        assert_eq!(names(&Shipped::with(&program, None)), ["a"]);
        fs::remove_file(main).unwrap();
        assert_eq!(names(&Shipped::with(&program, None)), <[&str; 0]>::default());
    }

    #[test]
    fn a_named_folder_is_the_only_one() {
        let folder = prefix(&["bin/opcost-guest", "own/libopcost_emu.so"]);
        let own = folder.path().join("own");
        let shipped = Shipped::with(&folder.path().join("bin/opcost"), Some(own.clone()));
        assert_eq!(shipped.part("libopcost_emu.so"), Ok(own.join("libopcost_emu.so")));
        assert_eq!(shipped.part("opcost-guest"), Err(vec![own]));
        assert_eq!(names(&shipped), <[&str; 0]>::default());
    }
}
