//! Finds the files of a kernel's modules in the order in which they must be loaded.

use super::error::KernelError;
use object::{Object, ObjectSection};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The list of built-in modules (Documentation/kbuild/kbuild.rst).
pub(super) const BUILTIN: &str = "modules.builtin";

/// The modules in a folder, and the names of those built into their kernel.
#[derive(Debug, Default)]
pub(super) struct Modules {
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
    /// The modules by alias; read only on demand, as reading all files takes a while.
    aliases: OnceCell<BTreeMap<String, Vec<String>>>,
}

/// A module to load.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Module {
    /// The name in the kernel's form, with underscores for hyphens.
    pub name: String,
    /// The path of the file.
    pub path: PathBuf,
    /// Whether a requested module needs it to load. Other modules only improve a requested one, or
    /// are alternatives (modprobe.d(5), softdep).
    pub needed: bool,
}

impl Modules {
    /// Finds the modules in a folder and below it.
    ///
    /// # Errors
    /// A folder or its list of built-in modules cannot be read.
    pub(super) fn find(folder: &Path) -> Result<Modules, KernelError> {
        let list = folder.join(BUILTIN);
        let text = fs::read_to_string(&list).map_err(KernelError::file("read", &list))?;
        let builtin = text.lines().filter_map(|line| name_of(Path::new(line))).collect();
        let mut modules = Modules { folder: folder.into(), builtin, ..Modules::default() };
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).map_err(KernelError::file("read", &folder))?;
            for entry in entries.flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                } else if let Some(name) = name_of(&path) {
                    modules.files.insert(name, path);
                }
            }
        }
        Ok(modules)
    }

    /// The modules to load to have the modules `names`, each behind those that it needs. Built-in
    /// modules are left out.
    ///
    /// `uses`: aliases of modules that should be loaded first, as far as they exist: also a built-in
    /// driver asks for what these provide.
    ///
    /// # Errors
    /// A module is missing or damaged.
    pub(super) fn closure(
        &self,
        names: &[&str],
        uses: &[&str],
    ) -> Result<Vec<Module>, KernelError> {
        let mut closure = Closure { modules: self, seen: BTreeSet::new(), order: Vec::new() };
        for name in uses.iter().flat_map(|alias| self.meant(&alias.replace('-', "_"))) {
            closure.visit(&name, false)?;
        }
        for name in names {
            closure.visit(&name.replace('-', "_"), true)?;
        }
        Ok(closure.order)
    }

    /// The modules that a name or an alias stands for.
    fn meant(&self, alias: &str) -> Vec<String> {
        if self.files.contains_key(alias) || self.builtin.contains(alias) {
            return vec![alias.to_string()];
        }
        let aliases = self.aliases.get_or_init(|| {
            let mut aliases: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (name, path) in &self.files {
                for alias in Info::read(path).map(|info| info.aliases).unwrap_or_default() {
                    aliases.entry(alias).or_default().push(name.clone());
                }
            }
            aliases
        });
        aliases.get(alias).cloned().unwrap_or_default()
    }
}

/// The name of a module by its file.
fn name_of(path: &Path) -> Option<String> {
    let ending = path.extension()?;
    (ending == "ko")
        .then(|| path.file_stem().map(|stem| stem.to_string_lossy().replace('-', "_")))?
}

struct Closure<'a> {
    modules: &'a Modules,
    seen: BTreeSet<String>,
    order: Vec<Module>,
}

impl Closure<'_> {
    fn visit(&mut self, name: &str, needed: bool) -> Result<(), KernelError> {
        if self.modules.builtin.contains(name) {
            return Ok(());
        }
        if let Some(known) = self.order.iter_mut().find(|module| module.name == name) {
            if needed && !known.needed {
                known.needed = true;
                let path = known.path.clone();
                // A needed module needs its dependencies, which were optional so far.
                for name in Info::read(&path)?.depends {
                    self.visit(&name, true)?;
                }
            }
            return Ok(());
        }
        // A module that is seen but not in the order is one that is being visited: a circle.
        if !self.seen.insert(name.to_string()) {
            return Ok(());
        }
        let Some(path) = self.modules.files.get(name) else {
            return Err(KernelError::NoModule {
                name: name.to_string(),
                folder: self.modules.folder.clone(),
            });
        };
        let info = Info::read(path)?;
        for alias in &info.before {
            for name in self.modules.meant(alias) {
                self.visit(&name, false)?;
            }
        }
        for name in &info.depends {
            self.visit(name, needed)?;
        }
        self.order.push(Module { name: name.to_string(), path: path.clone(), needed });
        Ok(())
    }
}

/// The information in a module's section `.modinfo`, hyphens replaced (include/linux/module.h).
#[derive(Debug, Default, Eq, PartialEq)]
struct Info {
    depends: Vec<String>,
    /// Modules that should be loaded before it, if they exist.
    before: Vec<String>,
    aliases: Vec<String>,
}

impl Info {
    fn read(path: &Path) -> Result<Info, KernelError> {
        let bytes = fs::read(path).map_err(KernelError::file("read", path))?;
        let section = object::File::parse(&*bytes).ok().and_then(|file| {
            let section = file.section_by_name(".modinfo")?;
            Some(Info::parse(section.data().ok()?))
        });
        section.ok_or_else(|| {
            let source = std::io::Error::other("it is no kernel module with a section .modinfo");
            KernelError::File { doing: "read", path: path.to_path_buf(), source }
        })
    }

    fn parse(section: &[u8]) -> Info {
        let mut info = Info::default();
        for entry in section.split(|byte| *byte == 0) {
            let entry = String::from_utf8_lossy(entry).replace('-', "_");
            match entry.split_once('=') {
                Some(("depends", names)) => {
                    info.depends
                        .extend(names.split(',').filter(|n| !n.is_empty()).map(String::from));
                }
                Some(("alias", alias)) => info.aliases.push(alias.to_string()),
                Some(("softdep", text)) => {
                    let words = text.split_whitespace().skip_while(|word| *word != "pre:").skip(1);
                    let before = words.take_while(|word| *word != "post:");
                    info.before.extend(before.map(String::from));
                }
                _ => {}
            }
        }
        info
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use object::write::{Object as Writer, StandardSegment};
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};

    /// A file with these entries in `.modinfo` and nothing else of a module.
    pub(in super::super) fn made(entries: &[&str]) -> Vec<u8> {
        let mut file = Writer::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let segment = file.segment_name(StandardSegment::Data).to_vec();
        let section = file.add_section(segment, b".modinfo".to_vec(), SectionKind::ReadOnlyData);
        let text: String = entries.iter().map(|entry| format!("{entry}\0")).collect();
        file.append_section_data(section, text.as_bytes(), 1);
        file.write().unwrap()
    }

    fn folder(modules: &[(&str, &[&str])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let builtin = "kernel/lib/crc16.ko\nkernel/fs/built-in-one.ko\n";
        fs::write(folder.path().join(BUILTIN), builtin).unwrap();
        for (name, entries) in modules {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, made(entries)).unwrap();
        }
        folder
    }

    fn order(folder: &Path, names: &[&str]) -> String {
        match Modules::find(folder).unwrap().closure(names, &[]) {
            Ok(order) => {
                let words = order.iter().map(|module| {
                    format!("{}{}", module.name, if module.needed { "" } else { "?" })
                });
                words.collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_a_module_needs_comes_before_it() {
        let folder = folder(&[
            ("kernel/fs/ext4.ko", &["softdep=pre: crypto-crc32c", "depends=jbd2,mbcache,crc16"]),
            ("kernel/fs/jbd2.ko", &["depends=", "softdep=pre: crypto-crc32c"]),
            ("kernel/fs/mbcache.ko", &["license=GPL"]),
            ("kernel/crypto/crc32c_generic.ko", &["alias=crc32c", "alias=crypto-crc32c"]),
            ("kernel/x86/crc32c-intel.ko", &["alias=crypto-crc32c", "depends=simd-base"]),
            ("kernel/x86/simd-base.ko", &[]),
            ("kernel/other/crc32-other.ko", &["alias=crypto-crc32"]),
        ]);
        let expected = "crc32c_generic? simd_base? crc32c_intel? jbd2 mbcache ext4";
        assert_eq!(order(folder.path(), &["ext4"]), expected);
        // A module that is requested twice, or that a later module needs, is loaded once.
        let expected = "crc32c_generic? simd_base crc32c_intel? jbd2 mbcache ext4";
        assert_eq!(order(folder.path(), &["ext4", "simd-base", "ext4"]), expected);
        // The dependencies of an optional module become needed with it.
        let expected = "crc32c_generic? simd_base crc32c_intel jbd2 mbcache ext4";
        assert_eq!(order(folder.path(), &["ext4", "crc32c-intel"]), expected);
        assert_eq!(order(folder.path(), &["built-in-one"]), "");
    }

    #[test]
    fn what_a_built_in_driver_uses_is_loaded_if_it_exists() {
        let folder = folder(&[
            ("kernel/block/brd.ko", &["depends="]),
            (
                "kernel/x86/crc32c-intel.ko",
                &["alias=crypto-crc32c", "alias=cpu:type:x86,feature:*0094*"],
            ),
        ]);
        let modules = Modules::find(folder.path()).unwrap();
        let order = |uses: &[&str]| {
            let order = modules.closure(&["brd", "built-in-one"], uses).unwrap();
            order.into_iter().map(|module| (module.name, module.needed)).collect::<Vec<_>>()
        };
        let [intel, brd] = [("crc32c_intel".to_string(), false), ("brd".to_string(), true)];
        assert_eq!(order(&["crypto-crc32c", "crypto-none"]), [intel, brd.clone()]);
        assert_eq!(order(&["crypto-none"]), [brd]);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let folder = folder(&[("a.ko", &["depends=b"]), ("soft.ko", &["softdep=pre: nobody"])]);
        let error = order(folder.path(), &["a"]);
        let expected = format!(
            "the kernel's module 'b' is neither built in nor among its files in {}",
            folder.path().display()
        );
        assert_eq!(error, expected);
        assert_eq!(order(folder.path(), &["soft"]), "soft", "what would only be better may lack");
        fs::write(folder.path().join("b.ko"), "x").unwrap();
        assert!(order(folder.path(), &["a"]).ends_with("no kernel module with a section .modinfo"));
        let error = Modules::find(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read '/nonexistent/modules.builtin'"), "{error}");
    }

    #[test]
    fn modules_that_want_each_other_end() {
        let folder = folder(&[
            ("a.ko", &["softdep=post: c pre: b", "depends="]),
            ("b.ko", &["softdep=pre: a post: d"]),
        ]);
        assert_eq!(order(folder.path(), &["a"]), "b? a");
    }
}
