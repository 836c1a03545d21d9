//! Kernels for the emulated machine: from the `--kernel` argument to an image that boots.

#![forbid(unsafe_code)]

mod alternative;
mod build;
mod cache;
mod config;
mod debian;
pub mod disk;
mod error;
mod functions;
mod git;
mod image;
mod kconfig;
mod modules;
mod renamed;
mod repository;
mod source;
mod spec;
mod step;
mod tools;

pub use alternative::alternatives;
pub use build::short;
pub use cache::{Description, lock};
pub use error::{KERNEL, KernelError};
pub use git::{
    Commit, GIT_VARIABLES, QUIET as GIT_QUIET, commits, find_revision, short as short_commit,
};
pub use image::{architecture_of, digest};
pub use modules::Module;
pub use repository::{NotedCommit, Repository, RepositoryCommit};
pub use spec::{DebianImage, Flavour, KernelSpec, Recipe, Revision, Toolchain};

use build::Builder;
use cache::Cache;
use config::Config;
use modules::Modules;
use opcost_record::Architecture;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::xdg;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// A kernel that can be booted.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Kernel {
    /// The name in output.
    pub name: String,
    /// The file that boots: a bzImage of x86-64, an Image of arm64.
    pub image: PathBuf,
    /// The symbols, if they are known without booting; compressed if the path ends in `.gz`.
    pub system_map: Option<PathBuf>,
    /// The image's ELF file.
    pub vmlinux: Option<PathBuf>,
    /// The configuration.
    pub config: Option<PathBuf>,
    /// The folder of the modules, if they are available.
    pub modules: Option<PathBuf>,
    /// SHA-256 of the image, hexadecimal.
    pub digest: String,
    /// The release, as `uname -r` shows it, if the image contains it.
    pub release: Option<String>,
}

impl Kernel {
    /// The configuration: values by name without `CONFIG_`; `None` if it is unknown.
    ///
    /// # Errors
    /// The file cannot be read or is no configuration.
    pub fn options(&self) -> Result<Option<BTreeMap<String, String>>, KernelError> {
        let config = self.config.as_ref().map(|path| Config::read(path)).transpose()?;
        Ok(config.map(|Config(options)| options))
    }

    /// The modules that must be loaded, in order, to have the modules `names`; `None` if the
    /// modules' files are not available.
    ///
    /// `uses`: aliases of modules that should be loaded, too, if they exist.
    ///
    /// # Errors
    /// A module is missing or damaged.
    pub fn modules(
        &self,
        names: &[&str],
        uses: &[&str],
    ) -> Result<Option<Vec<Module>>, KernelError> {
        let modules = self.modules.as_deref().map(Modules::find).transpose()?;
        modules.map(|modules| modules.closure(names, uses)).transpose()
    }
}

/// The options in a configuration or fragment, by name without `CONFIG_`; `n` for options that are
/// not set.
///
/// # Errors
/// The file cannot be read, or has a line that no configuration has.
pub fn options_of(path: &Path) -> Result<BTreeMap<String, String>, KernelError> {
    Config::read(path).map(|Config(options)| options)
}

/// Makes a kernel ready to boot: builds or downloads it, unless the cache has it.
///
/// `architecture`: that of the guest. `cache`: the folder named by [`default_cache`]. `for_disk`: the modules that disks need are
/// wanted, too; only packages have modules. `interrupt`: ends the running programs. `progress`: is
/// called with the phase, and with how far the phase is.
///
/// # Errors
/// [`KernelError`]; after any error, nothing half-built is taken for a kernel later.
pub fn prepare(
    spec: &KernelSpec,
    architecture: Architecture,
    cache: &Path,
    for_disk: bool,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(&str, Option<&str>),
) -> Result<Kernel, KernelError> {
    let mut builder = Builder {
        architecture,
        cache: Cache::new(cache),
        system: "/".into(),
        path_env: std::env::var_os("PATH"),
        interrupt,
        progress,
    };
    match spec {
        KernelSpec::Image(path) => from_image(path, architecture),
        KernelSpec::BuildDir(path) => from_build_folder(path, architecture),
        KernelSpec::Debian(image) => debian::fetch(&mut builder, image, for_disk),
        KernelSpec::Recipe(recipe) => build::build(&mut builder, recipe),
        KernelSpec::Revision(revision) => build::build_revision(&mut builder, revision),
        KernelSpec::Built(name) => {
            let kernel = builder.cache.find_built(name)?;
            image::read_for(&kernel.image, architecture).map(|_| kernel)
        }
    }
}

/// The cache's folder: `opcost/kernels` in the XDG cache directory.
///
/// # Errors
/// Neither XDG_CACHE_HOME nor HOME is set, or another user owns the folder.
pub fn default_cache() -> Result<PathBuf, KernelError> {
    let cache = xdg::cache_folder().map_err(|error| KernelError::Usage(error.to_string()))?;
    Ok(cache.join("kernels"))
}

/// The kernels in the cache with their folders: built kernels by name, then packages. Unreadable
/// entries are left out.
///
/// `cache`: the folder named by [`default_cache`].
pub fn kept(cache: &Path) -> Vec<(PathBuf, Description)> {
    Cache::new(cache).entries()
}

/// Removes the kernels in the cache that a name, or the beginning of a key, selects. Returns their
/// descriptions.
///
/// `cache`: the folder named by [`default_cache`].
///
/// # Errors
/// A file cannot be removed.
pub fn forget(cache: &Path, name: &str) -> Result<Vec<Description>, KernelError> {
    Cache::new(cache).forget(name)
}

/// The vmlinux of the kernel with this image; `None` if the cache has none.
///
/// `cache`: the folder named by [`default_cache`]; `digest`: the image's SHA-256, hexadecimal.
pub fn vmlinux_of(cache: &Path, digest: &str) -> Option<PathBuf> {
    let (entry, _) = kept(cache).into_iter().find(|(_, entry)| entry.digest == digest)?;
    Some(entry.join(cache::VMLINUX)).filter(|path| path.is_file())
}

/// The source files of a kernel's functions: paths within the source tree by symbol. `None` if the
/// cache has no built kernel with this image and such a list.
///
/// `cache`: the folder named by [`default_cache`]; `digest`: the image's SHA-256, hexadecimal.
pub fn functions_of(cache: &Path, digest: &str) -> Option<HashMap<String, Vec<String>>> {
    let (entry, _) = kept(cache).into_iter().find(|(_, entry)| entry.digest == digest)?;
    functions::read(&entry.join(cache::FUNCTIONS))
}

/// An image, with symbols and configuration from `IMAGE.map` or `IMAGE.map.gz`, and `IMAGE.config`, if they exist.
fn from_image(path: &Path, architecture: Architecture) -> Result<Kernel, KernelError> {
    let found = image::read_for(path, architecture)?;
    let beside = |ending: &str| {
        let mut file = path.as_os_str().to_owned();
        file.push(ending);
        Some(PathBuf::from(file)).filter(|file| file.is_file())
    };
    Ok(Kernel {
        name: file_name(path),
        image: path.to_path_buf(),
        system_map: beside(".map").or_else(|| beside(".map.gz")),
        vmlinux: None,
        config: beside(".config"),
        modules: None,
        digest: found.digest,
        release: found.release,
    })
}

fn from_build_folder(folder: &Path, architecture: Architecture) -> Result<Kernel, KernelError> {
    let image = architecture.row().image;
    let path = folder.join(image);
    if !path.is_file() {
        let target = file_name(&path);
        return Err(KernelError::NotAnImage {
            path: folder.to_path_buf(),
            found: format!(
                "it is a folder without {image}, which the {architecture} machine boots; build the kernel there (make {target}), or give the {target} itself"
            ),
        });
    }
    let file = |name: &str| Some(folder.join(name)).filter(|path| path.is_file());
    Ok(Kernel {
        name: file_name(folder),
        system_map: file("System.map"),
        vmlinux: file("vmlinux"),
        config: file(".config"),
        ..from_image(&path, architecture)?
    })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "../../../patchpoint/tests/skip.rs"]
mod skip;
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn prepared(spec: &KernelSpec, cache: &Path) -> Result<Kernel, String> {
        prepared_for(spec, Architecture::X86_64, cache)
    }

    fn prepared_for(
        spec: &KernelSpec,
        architecture: Architecture,
        cache: &Path,
    ) -> Result<Kernel, String> {
        prepare(spec, architecture, cache, false, &Interrupt::none(), &mut |_, _| {})
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_build_folder_gives_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let linux = folder.path().join("linux");
        let spec = KernelSpec::BuildDir(linux.clone());
        fs::create_dir_all(linux.join("arch/x86/boot")).unwrap();
        let error = prepared(&spec, folder.path()).unwrap_err();
        assert!(error.contains("make bzImage"), "{error}");
        fs::write(linux.join("arch/x86/boot/bzImage"), image::tests::made("6.9.1")).unwrap();
        fs::write(linux.join(".config"), "").unwrap();
        let kernel = prepared(&spec, folder.path()).unwrap();
        assert_eq!(kernel.name, "linux");
        assert_eq!(kernel.release.as_deref(), Some("6.9.1"));
        assert_eq!(kernel.config, Some(linux.join(".config")));
        assert_eq!((kernel.vmlinux, kernel.system_map), (None, None));
        assert_eq!(kernel.digest, image::digest(&image::tests::made("6.9.1")));
        let image = KernelSpec::Image(linux.join("arch/x86/boot/bzImage"));
        let kernel = prepared(&image, folder.path()).unwrap();
        assert_eq!((kernel.name.as_str(), kernel.config), ("bzImage", None));
    }

    #[test]
    fn an_image_has_the_symbols_and_the_configuration_that_are_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opcost-kernel");
        fs::write(&path, image::tests::made("6.9.1")).unwrap();
        fs::write(folder.path().join("opcost-kernel.config"), "CONFIG_A=y\n").unwrap();
        let spec = KernelSpec::Image(path);
        let kernel = prepared(&spec, folder.path()).unwrap();
        assert_eq!(kernel.options().unwrap().unwrap()["A"], "y");
        assert_eq!(kernel.system_map, None);
        for name in ["opcost-kernel.map.gz", "opcost-kernel.map"] {
            let map = folder.path().join(name);
            fs::write(&map, "").unwrap();
            assert_eq!(prepared(&spec, folder.path()).unwrap().system_map, Some(map));
        }
    }

    #[test]
    fn the_vmlinux_of_an_image_is_found_by_its_digest() {
        let cache = tempfile::tempdir().unwrap();
        let made = cache.path().join("made");
        fs::create_dir_all(&made).unwrap();
        let image = image::tests::made("6.9.1");
        fs::write(made.join(cache::IMAGE), &image).unwrap();
        fs::write(made.join(cache::VMLINUX), "ELF").unwrap();
        let digest = image::digest(&image);
        let description = cache::Description {
            name: "mine".into(),
            names: Vec::new(),
            commit: None,
            same_commits: Vec::new(),
            configured: None,
            key: "abc".into(),
            release: None,
            digest: digest.clone(),
            image_bytes: image.len() as u64,
            made_from: Vec::new(),
            compiler: None,
            made_unix_ns: 1,
            build_ns: None,
            objects: None,
        };
        let entry = cache.path().join("abc");
        Cache::new(cache.path()).keep(&made, &entry, description).unwrap();
        assert_eq!(vmlinux_of(cache.path(), &digest), Some(entry.join(cache::VMLINUX)));
        assert_eq!(vmlinux_of(cache.path(), "another"), None);
        // A package's entry has no vmlinux.
        fs::remove_file(entry.join(cache::VMLINUX)).unwrap();
        assert_eq!(vmlinux_of(cache.path(), &digest), None);
    }

    #[test]
    fn a_file_that_is_none_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmlinux");
        fs::write(&path, "\x7fELF").unwrap();
        let error = prepared(&KernelSpec::Image(path.clone()), folder.path()).unwrap_err();
        assert!(error.contains(&format!("'{}'", path.display())), "{error}");
        assert!(error.contains("give the image itself"), "{error}");
    }

    #[test]
    fn a_build_folder_has_an_image_for_each_architecture() {
        let folder = tempfile::tempdir().unwrap();
        let boot = folder.path().join("arch/arm64/boot");
        fs::create_dir_all(&boot).unwrap();
        let spec = KernelSpec::parse(&folder.path().to_string_lossy(), Path::new("/")).unwrap();
        let error = prepared_for(&spec, Architecture::Aarch64, folder.path()).unwrap_err();
        assert!(error.contains("make Image"), "{error}");
        fs::write(boot.join("Image"), image::tests::made_for_arm64("6.9.1")).unwrap();
        let kernel = prepared_for(&spec, Architecture::Aarch64, folder.path()).unwrap();
        assert_eq!(kernel.release.as_deref(), Some("6.9.1"));
        let error = prepared(&spec, folder.path()).unwrap_err();
        assert!(error.contains("without arch/x86/boot/bzImage"), "{error}");
        let error = prepared(&KernelSpec::Image(boot.join("Image")), folder.path()).unwrap_err();
        assert!(error.contains("for arm64, and the machine is x86-64"), "{error}");
    }
}
