//! Where musl's dynamic loader looks for libraries (ldso/dynlink.c of musl 1.2, `load_library`).

use super::libraries::{Elf, split};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const LOADER_PREFIX: &str = "ld-musl-";

/// The folders that the loader searches if its list is missing or empty.
const DEFAULT_FOLDERS: [&str; 3] = ["/lib", "/usr/local/lib", "/usr/lib"];

/// The libraries that the loader contains: `lib` and one of these, whatever follows the next dot.
const OWN: [&str; 7] = ["c", "pthread", "rt", "m", "dl", "util", "xnet"];

/// The names by which libraries need musl's libc: Debian's and others', and Alpine's.
const LIBC: &str = "libc.so";
const LIBC_PREFIX: &str = "libc.musl-";

/// The loader of a program or library.
#[derive(Debug)]
pub(super) struct Musl {
    loader: PathBuf,
}

impl Musl {
    /// musl's loader, if the file is for it.
    pub(super) fn of(elf: &Elf) -> Option<Musl> {
        let Some(loader) = &elf.loader else {
            let is_libc =
                |name: &OsStr| name == LIBC || name.as_bytes().starts_with(LIBC_PREFIX.as_bytes());
            let is_for_musl = elf.needed.iter().any(|name| is_libc(name));
            // Libraries name no loader.
            let loader = elf.architecture.row().musl_loader;
            return is_for_musl.then(|| Musl { loader: loader.into() });
        };
        let name = loader.file_name()?.as_bytes();
        name.starts_with(LOADER_PREFIX.as_bytes()).then(|| Musl { loader: loader.clone() })
    }

    /// The file that lists the loader's folders: `/etc/ld-musl-x86_64.path` for a loader in `/lib`.
    pub(super) fn list(&self) -> PathBuf {
        let above = self.loader.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let name = self.loader.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split_once(".so").map_or(&*name, |(name, _)| name);
        above.join("etc").join(format!("{name}.path"))
    }

    /// The folders that the loader searches last; `list`: the place of [`list`](Self::list), if the file exists.
    pub(super) fn folders(&self, list: Option<&Path>) -> Vec<PathBuf> {
        let listed = list.and_then(|list| fs::read(list).ok()).unwrap_or_default();
        let listed = split(OsStr::from_bytes(&listed), b":\n");
        match listed.is_empty() {
            true => DEFAULT_FOLDERS.map(PathBuf::from).into(),
            false => listed.into_iter().map(PathBuf::from).collect(),
        }
    }
}

/// Whether a library is part of the loader.
pub(super) fn is_own(name: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(b"lib").unwrap_or_default();
    OWN.iter()
        .any(|own| rest.strip_prefix(own.as_bytes()).is_some_and(|behind| behind.starts_with(b".")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::emulated::libraries::Search;
    use std::process::Command;

    #[test]
    fn the_libraries_of_the_loader_are_known() {
        for own in ["libc.so", "libc.musl-x86_64.so.1", "libm.so.6", "libpthread.so.0"] {
            assert!(is_own(OsStr::new(own)), "{own}");
        }
        for other in ["libcrypt.so.1", "libz.so", "c.so", "libc", "libmvec.so.1"] {
            assert!(!is_own(OsStr::new(other)), "{other}");
        }
    }

    #[test]
    fn the_list_of_folders_belongs_to_the_loader() {
        let folder = tempfile::tempdir().unwrap();
        let musl = Musl { loader: folder.path().join("lib/ld-musl-x86_64.so.1") };
        assert_eq!(musl.list(), folder.path().join("etc/ld-musl-x86_64.path"));
        let list = musl.list();
        assert_eq!(musl.folders(Some(&list)), DEFAULT_FOLDERS.map(PathBuf::from));
        assert_eq!(musl.folders(None), DEFAULT_FOLDERS.map(PathBuf::from));
        fs::create_dir(folder.path().join("etc")).unwrap();
        fs::write(&list, "/one\n/two:/three\n\n").unwrap();
        assert_eq!(musl.folders(Some(&list)), ["/one", "/two", "/three"].map(PathBuf::from));
    }

    /// The libraries of a program that needs a library that needs another, as musl's loader itself finds them.
    #[test]
    fn libraries_are_found_where_musl_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let compile = |arguments: &[&str]| {
            Command::new("musl-gcc")
                .args(arguments)
                .current_dir(root)
                .status()
                .is_ok_and(|s| s.success())
        };
        fs::write(root.join("a.c"), "int b(void); int a(void) { return b(); }").unwrap();
        fs::write(root.join("b.c"), "int b(void) { return 0; }").unwrap();
        fs::write(root.join("main.c"), "int a(void); int main(void) { return a(); }").unwrap();
        fs::create_dir(root.join("own")).unwrap();
        fs::create_dir(root.join("env")).unwrap();
        let library = ["-shared", "-fPIC", "-o"];
        if !compile(&[&library[..], &["own/libb.so", "b.c"]].concat()) {
            crate::skip::skip!("there is no musl-gcc here");
            return;
        }
        // The library itself has no path; musl searches that of the program, as glibc does for an RPATH alone.
        assert!(compile(&[&library[..], &["own/liba.so", "a.c", "-Lown", "-lb"]].concat()));
        let program = ["main.c", "-o", "prog", "-Lown", "-la", "-Wl,-rpath-link,own"];
        let path = ["-Wl,--enable-new-dtags,-rpath,$ORIGIN/own"];
        assert!(compile(&[&program[..], &path].concat()));
        fs::copy(root.join("own/libb.so"), root.join("env/libb.so")).unwrap();
        let path = root.join("prog");
        let elf = Elf::read(&fs::read(&path).unwrap()).unwrap().unwrap();
        for env in [None, Some(root.join("env"))] {
            let ours = Search::new(env.as_ref().map(|env| env.as_os_str()), root);
            let ours = ours.libraries(&path, &elf).unwrap();
            let mut list = Command::new(elf.loader.as_ref().unwrap());
            list.arg("--list").arg(&path).envs(env.iter().map(|env| ("LD_LIBRARY_PATH", env)));
            let list = String::from_utf8(list.output().unwrap().stdout).unwrap();
            let theirs: Vec<PathBuf> = list
                .lines()
                .filter_map(|line| line.split_once(" => ")?.1.split(' ').next())
                .map(PathBuf::from)
                .filter(|path| Some(path) != elf.loader.as_ref())
                .collect();
            assert_eq!(ours, theirs, "{list}");
            assert_eq!(ours.len(), 2);
        }
    }
}
