//! The `--kernel` argument: its text, and its form in a plan.

use super::error::{KERNEL, KernelError};
use super::kconfig::folder_of;
use opcost_record::Architecture;
use opcost_record::architecture::ARCHITECTURES;
use opcost_record::nearest::did_you_mean;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// A kernel to boot.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelSpec {
    /// An image file.
    Image(PathBuf),
    /// The folder of a kernel's build.
    BuildDir(PathBuf),
    /// An image package of Debian.
    Debian(DebianImage),
    /// A kernel to build from source.
    Recipe(Recipe),
    /// A commit of a git tree to build.
    Revision(Revision),
    /// A kernel built by `opcost kernel build`: its name, or the beginning of its key.
    Built(String),
}

/// An image package of Debian.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DebianImage {
    /// The flavour.
    pub flavour: Flavour,
    /// The release in the package's name, for example `6.1.0-56`; `None` is the newest.
    pub release: Option<String>,
}

/// The flavours of Debian's kernel.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flavour {
    /// Smaller, for virtual machines.
    Cloud,
    /// With PREEMPT_RT.
    Rt,
    /// For general use on x86-64.
    Amd64,
    /// For general use on arm64.
    Arm64,
}

impl Flavour {
    const ALL: [(&'static str, Flavour); 4] = [
        ("cloud", Flavour::Cloud),
        ("rt", Flavour::Rt),
        ("amd64", Flavour::Amd64),
        ("arm64", Flavour::Arm64),
    ];

    /// The word for it in `--kernel`.
    pub fn word(self) -> &'static str {
        Flavour::ALL.iter().find(|(_, flavour)| *flavour == self).map_or("", |(word, _)| word)
    }

    /// The end of the names of its packages; `None` if it is another architecture's.
    pub(crate) fn suffix(self, architecture: Architecture) -> Option<String> {
        let debian = architecture.row().debian;
        match self {
            Flavour::Cloud | Flavour::Rt => Some(format!("{}-{debian}", self.word())),
            Flavour::Amd64 | Flavour::Arm64 => (self.word() == debian).then(|| debian.to_string()),
        }
    }
}

/// The inputs of a kernel to build.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Recipe {
    /// The name of the kernel in the cache.
    pub name: String,
    /// The source tree or tarball; `None` is Debian's linux-source package, of the release's own version if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PathBuf>,
    /// Fragments of configuration, in order; later fragments win.
    pub config: Vec<PathBuf>,
    /// Patches, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<PathBuf>,
    /// Compiler and linker.
    #[serde(default, skip_serializing_if = "Toolchain::is_default")]
    pub toolchain: Toolchain,
}

/// The compiler and linker of a kernel.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Toolchain {
    /// gcc and binutils.
    #[default]
    Gcc,
    /// clang, lld and LLVM's other tools (`make LLVM=1`).
    Llvm,
    /// Another compiler, with binutils (`make CC=`).
    Cc(String),
}

impl Toolchain {
    fn is_default(&self) -> bool {
        *self == Toolchain::Gcc
    }

    /// The compiler of the kernel; `cross`: what is in front of the names of GNU's tools.
    pub(crate) fn compiler(&self, cross: &str) -> String {
        match self {
            Toolchain::Gcc => format!("{cross}gcc"),
            Toolchain::Llvm => "clang".into(),
            Toolchain::Cc(program) => program.clone(),
        }
    }

    /// The compiler of the programs that run during the build.
    pub(crate) fn host_compiler(&self) -> &str {
        if *self == Toolchain::Llvm { "clang" } else { "gcc" }
    }

    /// The linker.
    pub(crate) fn linker(&self, cross: &str) -> String {
        if *self == Toolchain::Llvm { "ld.lld".into() } else { format!("{cross}ld") }
    }

    /// The programs that a build needs, with their Debian packages.
    pub(crate) fn programs(&self, cross: &str) -> Vec<(String, String)> {
        let pair = |(program, package): (&str, &str)| (program.to_string(), package.to_string());
        let mut gcc = vec![pair(("gcc", "gcc")), pair(("ld", "binutils"))];
        if !cross.is_empty() {
            // Debian's packages are named after the tools' prefix.
            let package = |name: &str| format!("{name}-{}", cross.trim_end_matches('-'));
            gcc.push((format!("{cross}ld"), package("binutils")));
            if *self == Toolchain::Gcc {
                gcc.push((format!("{cross}gcc"), package("gcc")));
            }
        }
        match self {
            Toolchain::Gcc => gcc,
            Toolchain::Llvm => {
                let llvm = ["llvm-ar", "llvm-nm", "llvm-objcopy", "llvm-objdump", "llvm-readelf"];
                let own = [("clang", "clang"), ("ld.lld", "lld")];
                let all = own.into_iter().chain(llvm.map(|program| (program, "llvm")));
                all.map(pair).collect()
            }
            Toolchain::Cc(program) => {
                let package = program.rsplit('/').next().unwrap_or(program);
                gcc.push(pair((program, package)));
                gcc
            }
        }
    }

    /// make's arguments that choose the tools (Documentation/kbuild/llvm.rst).
    pub(crate) fn arguments(&self, cross: &str, ccache: bool) -> Vec<String> {
        let mut arguments = Vec::new();
        if *self == Toolchain::Llvm {
            arguments.push("LLVM=1".into());
        } else if !cross.is_empty() {
            arguments.push(format!("CROSS_COMPILE={cross}"));
        }
        if ccache {
            arguments.push(format!("CC=ccache {}", self.compiler(cross)));
            arguments.push(format!("HOSTCC=ccache {}", self.host_compiler()));
        } else if let Toolchain::Cc(program) = self {
            arguments.push(format!("CC={program}"));
        }
        arguments
    }
}

/// A commit of a git tree with its configuration.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Revision {
    /// The revision as the user wrote it.
    pub name: String,
    /// The tree's top folder.
    pub tree: PathBuf,
    /// The commit that the revision named when the plan was made.
    pub commit: String,
    /// Git's hash of the commit's files.
    pub hash: String,
    /// Fragments of configuration over tinyconfig, in order, or one complete configuration; if
    /// empty, opcost's own fragments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<PathBuf>,
    /// Compiler and linker.
    #[serde(default, skip_serializing_if = "Toolchain::is_default")]
    pub toolchain: Toolchain,
}

impl Recipe {
    /// A name from those of the files: `base.config native.config` gives `base+native`.
    pub fn default_name(config: &[PathBuf], patches: &[PathBuf]) -> String {
        let stems = config.iter().chain(patches).filter_map(|path| path.file_stem());
        let name = stems.map(|stem| stem.to_string_lossy()).collect::<Vec<_>>().join("+");
        name.replace(|c| !is_name_character(c), "-")
    }
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._+-".contains(c)
}

/// Checks a kernel's name; the error has the rule.
pub(crate) fn check_name(name: &str) -> Result<(), KernelError> {
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && name.len() <= 100 && name.chars().all(is_name_character) {
        return Ok(());
    }
    Err(KernelError::Usage(format!(
        "'{name}' cannot be a kernel's name{}: it must begin with a letter or digit and have up to 100 of letters, digits and . _ + -",
        did_you_mean(name, ["debian:cloud", "debian:rt", "debian:amd64", "debian:arm64"])
    )))
}

impl KernelSpec {
    /// Parses a `--kernel` argument: `debian:FLAVOUR[=RELEASE]`, a path (a word with a slash, or an
    /// existing file or kernel build folder), or the name of a built kernel.
    ///
    /// Relative paths start at `base_dir`.
    ///
    /// # Errors
    /// Usage errors: an unknown flavour, a path that does not exist.
    pub fn parse(text: &str, base_dir: &Path) -> Result<KernelSpec, KernelError> {
        if let Some(flavour) = text.strip_prefix("debian:") {
            return parse_debian(flavour).map(KernelSpec::Debian);
        }
        let path = base_dir.join(text);
        let has_kernel = || {
            let mut folders = ARCHITECTURES.iter().map(|row| folder_of(row.architecture));
            folders.any(|folder| path.join("arch").join(folder).is_dir())
        };
        if !text.is_empty() && (path.is_file() || has_kernel()) {
            return Ok(Self::from_path(path));
        }
        if text.contains('/') {
            let found = path.metadata().map_err(KernelError::input(KERNEL, &path))?;
            return if found.is_dir() || found.is_file() {
                Ok(Self::from_path(path))
            } else {
                Err(KernelError::Usage(format!(
                    "'{}' is neither a kernel image nor a kernel build folder",
                    path.display()
                )))
            };
        }
        // Lists show further words, for example `c1b8f55a0d0e (HEAD)`.
        let shown = |c: char| is_name_character(c) || " ,()".contains(c);
        if text.is_empty() || text.starts_with('-') || !text.chars().all(shown) {
            check_name(text)?;
        }
        Ok(KernelSpec::Built(text.to_string()))
    }

    fn from_path(path: PathBuf) -> KernelSpec {
        if path.is_dir() { KernelSpec::BuildDir(path) } else { KernelSpec::Image(path) }
    }
}

fn parse_debian(text: &str) -> Result<DebianImage, KernelError> {
    let (word, release) = match text.split_once('=') {
        Some((word, release)) => (word, Some(release)),
        None => (text, None),
    };
    let words = || Flavour::ALL.iter().map(|(word, _)| *word);
    let flavour = Flavour::ALL.iter().find(|(known, _)| *known == word);
    let (_, flavour) = flavour.ok_or_else(|| {
        KernelError::Usage(format!(
            "Debian has no kernel flavour '{word}'{}; there are debian:{}",
            did_you_mean(word, words()),
            words().collect::<Vec<_>>().join(", debian:")
        ))
    })?;
    // The release becomes part of a package's name (Debian policy, section 5.6.1).
    let plausible = |release: &str| {
        release.starts_with(|c: char| c.is_ascii_digit())
            && release.chars().all(|c| c.is_ascii_alphanumeric() || ".+-".contains(c))
    };
    if let Some(release) = release.filter(|release| !plausible(release)) {
        return Err(KernelError::Usage(format!(
            "'{release}' is no release of Debian's kernel; it looks like 6.1.0-56 (apt-cache search linux-image)"
        )));
    }
    Ok(DebianImage { flavour: *flavour, release: release.map(ToString::to_string) })
}

impl fmt::Display for KernelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelSpec::Image(path) | KernelSpec::BuildDir(path) => path.display().fmt(f),
            KernelSpec::Debian(image) => image.fmt(f),
            KernelSpec::Recipe(recipe) => recipe.name.fmt(f),
            KernelSpec::Revision(revision) => revision.name.fmt(f),
            KernelSpec::Built(name) => name.fmt(f),
        }
    }
}

impl fmt::Display for DebianImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "debian:{}", self.flavour.word())?;
        self.release.iter().try_for_each(|release| write!(f, "={release}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_form_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        fs::write(base.join("image"), "x").unwrap();
        fs::create_dir_all(base.join("linux/arch/x86")).unwrap();
        fs::create_dir(base.join("native")).unwrap();
        let parse = |text: &str| KernelSpec::parse(text, base).unwrap();
        assert_eq!(parse("image"), KernelSpec::Image(base.join("image")));
        assert_eq!(parse("linux"), KernelSpec::BuildDir(base.join("linux")));
        assert_eq!(parse("./native"), KernelSpec::BuildDir(base.join("./native")));
        // A folder that is no kernel build does not hide a built kernel's name.
        assert_eq!(parse("native"), KernelSpec::Built("native".into()));
        for name in ["base+native", "c1b8f55a0d0e (HEAD)", "command, mine", "(formerly mine)"] {
            assert_eq!(parse(name), KernelSpec::Built(name.into()));
        }
        let debian = |flavour, release: Option<&str>| {
            KernelSpec::Debian(DebianImage { flavour, release: release.map(Into::into) })
        };
        assert_eq!(parse("debian:cloud"), debian(Flavour::Cloud, None));
        assert_eq!(parse("debian:rt=6.1.0-56"), debian(Flavour::Rt, Some("6.1.0-56")));
        assert_eq!(parse("debian:amd64=6.1.0-56").to_string(), "debian:amd64=6.1.0-56");
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        let base = Path::new("/nonexistent");
        let error = |text: &str| KernelSpec::parse(text, base).unwrap_err().to_string();
        let unknown = error("debian:clod");
        assert!(unknown.contains("'clod' (did you mean cloud?)"), "{unknown}");
        assert!(
            error("debian:")
                .contains("there are debian:cloud, debian:rt, debian:amd64, debian:arm64")
        );
        assert!(error("debian:rt=../x").contains("'../x' is no release"));
        assert!(error("a/b").contains("cannot read the kernel '/nonexistent/a/b'"));
        assert!(error("").contains("cannot be a kernel's name"));
        assert!(error("-x").contains("must begin with a letter"));
        assert!(KernelSpec::parse("/dev/null", base).unwrap_err().to_string().contains("neither"));
    }

    #[test]
    fn a_plan_keeps_it() {
        let recipe = KernelSpec::Recipe(Recipe {
            name: "a".into(),
            source: None,
            config: vec!["base.config".into()],
            patches: vec![],
            toolchain: Toolchain::Gcc,
        });
        let text = serde_json::to_string(&recipe).unwrap();
        assert_eq!(text, r#"{"recipe":{"name":"a","config":["base.config"]}}"#);
        assert_eq!(serde_json::from_str::<KernelSpec>(&text).unwrap(), recipe);
        let cloud = KernelSpec::parse("debian:cloud", Path::new("/")).unwrap();
        let text = serde_json::to_string(&cloud).unwrap();
        assert_eq!(serde_json::from_str::<KernelSpec>(&text).unwrap(), cloud);
    }

    #[test]
    fn names_are_made_of_the_files() {
        let config = ["kernels/base.config".into(), "my native.config".into()];
        let patches = ["kernels/patches/no-patching.patch".into()];
        assert_eq!(Recipe::default_name(&config, &patches), "base+my-native+no-patching");
    }
}
