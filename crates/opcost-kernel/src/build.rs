//! Builds a kernel from a recipe or commit into the cache.

use super::cache::{
    CONFIG, Cache, Description, FUNCTIONS, IMAGE, KEY_SHOWN, SYSTEM_MAP, VMLINUX, remove,
};
use super::config::Config;
use super::error::KernelError;
use super::source::Source;
use super::spec::{Recipe, Revision, Toolchain, check_name};
use super::step::{Expected, Steps, words};
use super::{Kernel, functions, git, image, kconfig, renamed, tools};
use opcost_record::Architecture;
use opcost_record::printable::hexadecimal;
use opcost_sys::clock::{monotonic_ns, unix_ns};
use opcost_sys::interrupt::Interrupt;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Part of each kernel's key: changes when this file builds another kernel from the same inputs.
const RECIPE_VERSION: &str = "opcost kernel 1";
/// Variables that make builds reproducible (Documentation/kbuild/reproducible-builds.rst).
const FIXED: [(&str, &str); 4] = [
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_USER", "opcost"),
    ("KBUILD_BUILD_HOST", "opcost"),
    ("KBUILD_BUILD_VERSION", "1"),
];

/// Builds kernels into the cache and reports progress.
pub(crate) struct Builder<'a> {
    /// That of the guest.
    pub(crate) architecture: Architecture,
    pub(crate) cache: Cache,
    /// The root folder of this system: its release, its kernel sources and apt's lists are there.
    pub(crate) system: PathBuf,
    pub(crate) path_env: Option<OsString>,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) progress: &'a mut dyn FnMut(&str, Option<&str>),
}

/// The inputs of a kernel, read once, so that the key and the build use the same data.
struct Ingredients {
    /// The name of the kernel in the cache.
    name: String,
    architecture: Architecture,
    source: Source,
    identity: String,
    configuration: Configuration,
    patches: Vec<(PathBuf, Vec<u8>)>,
    toolchain: Toolchain,
    tools: String,
}

/// The configuration of a kernel.
struct Configuration {
    files: Vec<Fragment>,
    kind: ConfigurationKind,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ConfigurationKind {
    /// Fragments over tinyconfig; every option must take effect.
    Fragments,
    /// opcost's own fragments over tinyconfig; options that the source does not have are left out.
    Own,
    /// The user's complete configuration.
    Whole,
}

/// A configuration file or fragment.
#[derive(Clone)]
struct Fragment {
    name: String,
    content: Vec<u8>,
    config: Config,
}

impl Configuration {
    fn read(paths: &[PathBuf]) -> Result<Configuration, KernelError> {
        let read = |path: &PathBuf| {
            let content = fs::read(path).map_err(KernelError::input("configuration", path))?;
            Ok(Fragment { name: file_name(path), content, config: Config::read(path)? })
        };
        let files: Vec<Fragment> = paths.iter().map(read).collect::<Result<_, KernelError>>()?;
        Ok(Configuration { files, kind: ConfigurationKind::Fragments })
    }

    /// The configuration of a commit: opcost's own, a complete one, or fragments.
    fn of_revision(
        paths: &[PathBuf],
        architecture: Architecture,
    ) -> Result<Configuration, KernelError> {
        if paths.is_empty() {
            let own = own_configuration(architecture).iter().map(|(name, text)| Fragment {
                name: (*name).into(),
                content: (*text).into(),
                config: Config::parse(text).unwrap_or_default(),
            });
            return Ok(Configuration { files: own.collect(), kind: ConfigurationKind::Own });
        }
        let mut read = Configuration::read(paths)?;
        // Linux writes these words at the top of every .config.
        let is_whole = |file: &Fragment| {
            String::from_utf8_lossy(&file.content)
                .contains("Automatically generated file; DO NOT EDIT")
        };
        match &read.files[..] {
            [only] if is_whole(only) => read.kind = ConfigurationKind::Whole,
            files => {
                if let Some(file) = files.iter().find(|file| is_whole(file)) {
                    return Err(KernelError::Usage(format!(
                        "--kernel-config {}: this is a whole configuration; give it alone, or fragments only",
                        file.name
                    )));
                }
            }
        }
        Ok(read)
    }

    fn configs(&self) -> Vec<Config> {
        self.files.iter().map(|file| file.config.clone()).collect()
    }

    /// All options that the files ask for.
    fn asked(&self) -> Config {
        Config::asked(&self.configs())
    }
}

/// The small configuration of the kernels that opcost is tested with.
fn own_configuration(architecture: Architecture) -> &'static [(&'static str, &'static str)] {
    match architecture {
        Architecture::X86_64 => &[
            ("base.config", include_str!("../../../kernels/base.config")),
            ("native.config", include_str!("../../../kernels/native.config")),
        ],
        Architecture::Aarch64 => &[("arm64.config", include_str!("../../../kernels/arm64.config"))],
    }
}

/// What is in front of the names of GNU's tools: nothing for the computer's own architecture.
fn cross(architecture: Architecture) -> String {
    let row = architecture.row();
    if row.machine == std::env::consts::ARCH { String::new() } else { format!("{}-", row.triple) }
}

/// Options that a complete configuration must set for a guest; opcost's own sets them, too.
const NEEDED: [(&str, &str); 3] = [
    ("BLK_DEV_INITRD", "the guest's files are in an initramfs"),
    ("BINFMT_ELF", "the guest runs ELF programs"),
    ("PROC_FS", "the guest's init reads /proc"),
];

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Ingredients {
    /// The digest of everything that determines the built kernel.
    fn key(&self) -> String {
        let mut parts = Parts::new();
        parts.add("source", self.identity.as_bytes());
        if self.configuration.kind != ConfigurationKind::Fragments {
            parts.add("configuration", format!("{:?}", self.configuration.kind).as_bytes());
        }
        self.configuration.files.iter().for_each(|file| parts.add("fragment", &file.content));
        self.patches.iter().for_each(|(_, content)| parts.add("patch", content));
        parts.add("tools", self.tools.as_bytes());
        // Keys that were made when there was one architecture stay as they are.
        if self.architecture != Architecture::X86_64 {
            parts.add("architecture", self.architecture.row().name.as_bytes());
        }
        parts.digest()
    }
}

/// A digest of labelled parts.
struct Parts(Sha256);

impl Parts {
    fn new() -> Parts {
        let mut parts = Parts(Sha256::new());
        parts.add("recipe", RECIPE_VERSION.as_bytes());
        parts
    }

    fn add(&mut self, label: &str, content: &[u8]) {
        self.0.update(label.as_bytes());
        self.0.update([0]);
        self.0.update((content.len() as u64).to_le_bytes());
        self.0.update(content);
    }

    fn digest(self) -> String {
        hexadecimal(&self.0.finalize())
    }
}

/// Builds a kernel, or finds it in the cache.
pub(crate) fn build(builder: &mut Builder<'_>, recipe: &Recipe) -> Result<Kernel, KernelError> {
    check_name(&recipe.name)?;
    let (system, architecture) = (builder.system.clone(), builder.architecture);
    let kernel = build_as(builder, &recipe.name, &mut |steps| {
        let configuration = Configuration::read(&recipe.config)?;
        let mut patches = Vec::new();
        for path in &recipe.patches {
            let content = fs::read(path).map_err(KernelError::input("patch", path))?;
            patches.push((path.clone(), content));
        }
        let source = Source::find(recipe.source.as_deref(), &system)?;
        let parts = (architecture, source, configuration, patches);
        gather(&recipe.name, parts, &recipe.toolchain, steps)
    });
    let (kernel, key) = kernel?;
    builder.cache.set_name(&recipe.name, &key)?;
    Ok(kernel)
}

/// Builds a commit of a git tree, or finds it in the cache by the commit's files.
pub(crate) fn build_revision(
    builder: &mut Builder<'_>,
    revision: &Revision,
) -> Result<Kernel, KernelError> {
    let log = format!("commit-{}", git::short(&revision.commit));
    let architecture = builder.architecture;
    let kernel = build_as(builder, &log, &mut |steps| {
        let configuration = Configuration::of_revision(&revision.config, architecture)?;
        let source = Source::Commit(revision.clone());
        let parts = (architecture, source, configuration, Vec::new());
        gather(&revision.name, parts, &revision.toolchain, steps)
    });
    kernel.map(|(kernel, _)| kernel)
}

/// Builds a kernel from `ingredients`, or finds it in the cache; returns the kernel and its key.
fn build_as(
    builder: &mut Builder<'_>,
    log: &str,
    ingredients: &mut dyn FnMut(&mut Steps<'_>) -> Result<Ingredients, KernelError>,
) -> Result<(Kernel, String), KernelError> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(KernelError::Usage(format!(
            "kernels for emulated machines are built on x86-64, not on {}; give --kernel an image",
            std::env::consts::ARCH
        )));
    }
    let mut steps = Steps::begin(
        &builder.cache.path(&["logs"]),
        log,
        builder.path_env.clone(),
        builder.interrupt,
        builder.progress,
    )?;
    let ingredients = ingredients(&mut steps)?;
    let inputs = ingredients.key();
    let mut key = builder.cache.entry_of(&inputs);
    let entry = builder.cache.path(&[&key]);
    let kernel = match builder.cache.find(&entry, &ingredients.name) {
        Some(kernel) => kernel,
        None => {
            let _lock = builder.cache.lock(&inputs, steps.interrupt, steps.progress)?;
            // The process that held the lock may have built the kernel.
            key = builder.cache.entry_of(&inputs);
            match builder.cache.find(&builder.cache.path(&[&key]), &ingredients.name) {
                Some(kernel) => kernel,
                None => {
                    let (kernel, made) = make(&builder.cache, &ingredients, &inputs, &mut steps)?;
                    key = made;
                    kernel
                }
            }
        }
    };
    // The log is useful only after a failure.
    let _ = fs::remove_file(&steps.log);
    Ok((kernel, key))
}

fn gather(
    name: &str,
    (architecture, source, configuration, patches): (
        Architecture,
        Source,
        Configuration,
        Vec<(PathBuf, Vec<u8>)>,
    ),
    toolchain: &Toolchain,
    steps: &mut Steps<'_>,
) -> Result<Ingredients, KernelError> {
    let cross = cross(architecture);
    let asked = configuration.asked();
    tools::check(steps, toolchain, &cross, &asked, source.path(), !patches.is_empty())?;
    let tools = tools::versions(steps, toolchain, &cross)?;
    (steps.progress)("reading the source", None);
    let identity = source.identity()?;
    let toolchain = toolchain.clone();
    Ok(Ingredients {
        name: name.into(),
        architecture,
        source,
        identity,
        configuration,
        patches,
        toolchain,
        tools,
    })
}

/// Builds a kernel; returns it with the key of its entry. If the configuration or the image shows that an entry has this kernel
/// already, the inputs stand for that entry from now on.
fn make(
    cache: &Cache,
    ingredients: &Ingredients,
    key: &str,
    steps: &mut Steps<'_>,
) -> Result<(Kernel, String), KernelError> {
    let started_ns = monotonic_ns();
    let (source, _in_use) =
        ingredients.source.prepare(&ingredients.identity, &ingredients.patches, cache, steps)?;
    let objects = cache.workplace(key)?;
    let same = |is_same: &dyn Fn(&Description) -> bool| {
        let (path, entry) = cache.entries().into_iter().find(|(_, entry)| is_same(entry))?;
        Some((cache.find(&path, &ingredients.name)?, entry.key))
    };
    let stand_for = |(kernel, entry): (Kernel, String)| {
        cache.set_same(key, &entry, ingredients.source.commit())?;
        Ok((kernel, entry))
    };
    let maker = Maker { cache, ingredients, source: &source, objects: &objects };
    let configured = maker.configure(steps).inspect_err(|_| {
        // The error of the build is more useful than an error here.
        let _ = remove(&objects);
    })?;
    if let Some(found) = same(&|entry| entry.configured.as_deref() == Some(&configured)) {
        remove(&objects)?;
        return stand_for(found);
    }
    let made = cache.workplace(&format!("{key}.kept"))?;
    let files: Vec<String> = (ingredients.configuration.files.iter().map(|file| file.name.clone()))
        .chain(ingredients.patches.iter().map(|(path, _)| file_name(path)))
        .collect();
    steps.expected = expected(cache, &files, ingredients.configuration.kind);
    let image = ingredients.architecture.row().image;
    let built = maker
        .make(&format!("building {}", ingredients.name), &file_name(Path::new(image)), steps)
        .and_then(|()| functions::write(&objects, &source, &made.join(FUNCTIONS)))
        .and_then(|()| collect(&objects, image, &made, steps))
        .and_then(|()| image::read_for(&made.join(IMAGE), ingredients.architecture));
    // The objects are not needed any more. An error of the build is reported first.
    let removed = remove(&objects);
    let image = built.inspect_err(|_| {
        let _ = remove(&made);
    })?;
    removed?;
    let is_same = |entry: &Description| {
        entry.digest == image.digest && entry.compiler.as_ref() == Some(&ingredients.tools)
    };
    if let Some(found) = same(&|entry| is_same(entry)) {
        remove(&made)?;
        return stand_for(found);
    }
    let description = Description {
        name: ingredients.name.clone(),
        names: Vec::new(),
        commit: ingredients.source.commit().map(str::to_string),
        same_commits: Vec::new(),
        configured: Some(configured),
        key: key.to_string(),
        release: image.release,
        digest: image.digest,
        image_bytes: image.bytes,
        made_from: std::iter::once(ingredients.source.name()).chain(files).collect(),
        compiler: Some(ingredients.tools.clone()),
        made_unix_ns: unix_ns(),
        build_ns: Some(monotonic_ns() - started_ns),
        objects: Some(steps.objects).filter(|objects| *objects > 0),
    };
    let kernel = cache.keep(&made, &cache.path(&[key]), description)?;
    Ok((kernel, key.to_string()))
}

/// Objects of Linux 6.1 in opcost's own configuration, until a build has counted them.
const OWN_OBJECTS: u64 = 1_435;

/// The number of objects in the last build of the same configuration.
fn expected(cache: &Cache, files: &[String], kind: ConfigurationKind) -> Option<Expected> {
    let entries = cache.entries().into_iter().map(|(_, entry)| entry);
    let alike = entries.filter(|entry| entry.made_from.get(1..) == Some(files));
    let counted = alike.filter_map(|entry| Some((entry.made_unix_ns, entry.objects?)));
    let last = counted.max().map(|(_, objects)| objects);
    let objects = last.or((kind == ConfigurationKind::Own).then_some(OWN_OBJECTS))?;
    Some(Expected { objects })
}

/// Runs a build's makefile.
struct Maker<'a> {
    cache: &'a Cache,
    ingredients: &'a Ingredients,
    source: &'a Path,
    objects: &'a Path,
}

impl Maker<'_> {
    fn make(&self, what: &str, target: &str, steps: &mut Steps<'_>) -> Result<(), KernelError> {
        let mut output = OsString::from("O=");
        output.push(self.objects);
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        // An empty LOCALVERSION keeps git's state out of the release (scripts/setlocalversion).
        let mut argv = words(&[
            &"make",
            &"-C",
            &self.source,
            &output,
            &format!("ARCH={}", self.ingredients.architecture.row().kernel),
            &"LOCALVERSION=",
            // Modules alone use exported symbols, and none is built. Checking each object's takes a tenth of the time
            // (scripts/check-local-export); the image is the same to the byte.
            &"cmd_check_local_export=",
            &format!("-j{jobs}"),
            &target,
        ]);
        // ccache returns the same objects that the compiler would make.
        let compiled = self.cache.path(&["ccache"]);
        let ccache = steps.find("ccache").is_ok().then(|| compiled.to_str()).flatten();
        argv.extend(
            self.ingredients
                .toolchain
                .arguments(&cross(self.ingredients.architecture), ccache.is_some())
                .into_iter()
                .map(OsString::from),
        );
        let mut env = FIXED.to_vec();
        env.extend(ccache.map(|folder| ("CCACHE_DIR", folder)));
        steps.run(what, Path::new("/"), &argv, &env).map(drop)
    }

    /// Configures the kernel. Returns the digest of everything that then determines its image.
    fn configure(&self, steps: &mut Steps<'_>) -> Result<String, KernelError> {
        let Ingredients { name, configuration, identity, patches, tools, .. } = self.ingredients;
        let path = self.objects.join(CONFIG);
        let folder = kconfig::folder_of(self.ingredients.architecture);
        let mut configs = configuration.configs();
        let text = if configuration.kind == ConfigurationKind::Whole {
            without_missing_keys(&Config::asked(&configs), self.source).text_with(&[])
        } else {
            renamed::in_words_of(self.source, folder, &mut configs);
            self.make(&format!("configuring {name}"), "tinyconfig", steps)?;
            Config::read(&path)?.text_with(&configs)
        };
        fs::write(&path, text).map_err(KernelError::file("write", &path))?;
        self.make(&format!("configuring {name}"), "olddefconfig", steps)?;
        check_options(
            &Config::read(&path)?,
            configuration.kind,
            &Config::asked(&configs),
            (self.source, folder),
        )?;
        let came = fs::read(&path).map_err(KernelError::file("read", &path))?;
        let mut parts = Parts::new();
        parts.add("source", identity.as_bytes());
        patches.iter().for_each(|(_, content)| parts.add("patch", content));
        parts.add("configuration", &came);
        parts.add("tools", tools.as_bytes());
        Ok(parts.digest())
    }
}

/// The user's configuration without the names of certificates that the source lacks. Configurations
/// of distributions name such certificates, and the build fails without the files.
fn without_missing_keys(config: &Config, source: &Path) -> Config {
    let mut config = config.clone();
    for name in ["SYSTEM_TRUSTED_KEYS", "SYSTEM_REVOCATION_KEYS"] {
        if let Some(value) = config.0.get_mut(name)
            && !source.join(value.trim_matches('"')).is_file()
        {
            *value = "\"\"".into();
        }
    }
    config
}

/// Checks that the options asked for took effect.
fn check_options(
    came: &Config,
    kind: ConfigurationKind,
    asked: &Config,
    (source, folder): (&Path, &str),
) -> Result<(), KernelError> {
    let lines = match kind {
        ConfigurationKind::Whole => {
            let missing = NEEDED
                .iter()
                .filter(|(name, _)| came.0.get(*name).is_none_or(|value| value != "y"));
            missing.map(|(name, why)| format!("CONFIG_{name}=y is missing: {why}")).collect()
        }
        ConfigurationKind::Fragments => kconfig::explain(source, folder, &came.unfulfilled(asked)),
        // Options come and go between releases of Linux.
        ConfigurationKind::Own => kconfig::explain_known(source, folder, &came.unfulfilled(asked)),
    };
    if lines.is_empty() { Ok(()) } else { Err(KernelError::Options(lines)) }
}

/// Moves the kept files out of the objects' folder.
fn collect(objects: &Path, image: &str, made: &Path, steps: &Steps<'_>) -> Result<(), KernelError> {
    for (from, to) in
        [(image, IMAGE), (SYSTEM_MAP, SYSTEM_MAP), (VMLINUX, VMLINUX), (CONFIG, CONFIG)]
    {
        let from = objects.join(from);
        fs::rename(&from, made.join(to)).map_err(|error| KernelError::Step {
            what: "building".into(),
            lines: vec![format!(
                "make succeeded, but {} is missing: {error}",
                from.strip_prefix(objects).unwrap_or(&from).display()
            )],
            log: steps.log.clone(),
        })?;
    }
    Ok(())
}

/// The part of a [`Description::key`] that is shown.
pub fn short(key: &str) -> &str {
    key.get(..KEY_SHOWN).unwrap_or(key)
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
