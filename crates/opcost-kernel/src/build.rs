//! From a recipe to a kernel in the cache.

use super::cache::{CONFIG, Cache, Description, IMAGE, KEY_SHOWN, SYSTEM_MAP, VMLINUX, remove};
use super::config::Config;
use super::error::KernelError;
use super::source::Source;
use super::spec::{Recipe, check_name};
use super::step::{Steps, words};
use super::{Kernel, image, kconfig, tools};
use opcost_record::printable::hexadecimal;
use opcost_sys::clock::{monotonic_ns, unix_ns};
use opcost_sys::interrupt::Interrupt;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Changes when this file builds something else of the same inputs.
const RECIPE_VERSION: &str = "opcost kernel 1";
/// What would otherwise differ from build to build (Documentation/kbuild/reproducible-builds.rst).
const FIXED: [(&str, &str); 4] = [
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_USER", "opcost"),
    ("KBUILD_BUILD_HOST", "opcost"),
    ("KBUILD_BUILD_VERSION", "1"),
];

/// Where things are built, and who is told.
pub(crate) struct Builder<'a> {
    pub(crate) cache: Cache,
    /// Where linux-source packages put their tarballs.
    pub(crate) tarballs: PathBuf,
    pub(crate) path_env: Option<OsString>,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) progress: &'a mut dyn FnMut(&str, Option<&str>),
}

/// What a kernel is made of, read once, so that the key and the build see the same.
struct Ingredients {
    source: Source,
    identity: String,
    fragments: Vec<(Vec<u8>, Config)>,
    patches: Vec<(PathBuf, Vec<u8>)>,
    tools: String,
}

impl Ingredients {
    /// The digest of everything that decides what comes out.
    fn key(&self) -> String {
        let mut hash = Sha256::new();
        let mut part = |label: &str, content: &[u8]| {
            hash.update(label.as_bytes());
            hash.update([0]);
            hash.update((content.len() as u64).to_le_bytes());
            hash.update(content);
        };
        part("recipe", RECIPE_VERSION.as_bytes());
        part("source", self.identity.as_bytes());
        self.fragments.iter().for_each(|(content, _)| part("fragment", content));
        self.patches.iter().for_each(|(_, content)| part("patch", content));
        part("tools", self.tools.as_bytes());
        hexadecimal(&hash.finalize())
    }
}

/// Builds a kernel, or finds it in the cache.
pub(crate) fn build(builder: &mut Builder<'_>, recipe: &Recipe) -> Result<Kernel, KernelError> {
    check_name(&recipe.name)?;
    if std::env::consts::ARCH != "x86_64" {
        return Err(KernelError::Usage(format!(
            "kernels for the emulated x86-64 machine are built on x86-64, not on {}; give --kernel an image",
            std::env::consts::ARCH
        )));
    }
    let mut steps = Steps::begin(
        &builder.cache.path(&["logs"]),
        &recipe.name,
        builder.path_env.clone(),
        builder.interrupt,
        builder.progress,
    )?;
    let ingredients = gather(recipe, &builder.tarballs, &mut steps)?;
    let key = ingredients.key();
    let entry = builder.cache.path(&[&key]);
    let kernel = match builder.cache.find(&entry, &recipe.name) {
        Some(kernel) => kernel,
        None => {
            let _lock = builder.cache.lock(&key, steps.interrupt, steps.progress)?;
            // Whoever held the lock may have built it.
            match builder.cache.find(&entry, &recipe.name) {
                Some(kernel) => kernel,
                None => make(&builder.cache, recipe, &ingredients, &key, &mut steps)?,
            }
        }
    };
    builder.cache.set_name(&recipe.name, &key)?;
    // Only a failure's log is of use.
    let _ = fs::remove_file(&steps.log);
    Ok(kernel)
}

fn gather(
    recipe: &Recipe,
    tarballs: &Path,
    steps: &mut Steps<'_>,
) -> Result<Ingredients, KernelError> {
    let read = |path: &PathBuf, what| fs::read(path).map_err(KernelError::input(what, path));
    let mut fragments = Vec::new();
    for path in &recipe.config {
        fragments.push((read(path, "configuration")?, Config::read(path)?));
    }
    let mut patches = Vec::new();
    for path in &recipe.patches {
        patches.push((path.clone(), read(path, "patch")?));
    }
    let source = Source::find(recipe.source.as_deref(), tarballs)?;
    let asked = asked(&fragments);
    let (Source::Tarball(path) | Source::Tree(path)) = &source;
    tools::check(steps, &asked, path, !patches.is_empty())?;
    let tools = tools::versions(steps)?;
    (steps.progress)("reading the source", None);
    let identity = source.identity()?;
    Ok(Ingredients { source, identity, fragments, patches, tools })
}

fn asked(fragments: &[(Vec<u8>, Config)]) -> Config {
    let configs: Vec<Config> = fragments.iter().map(|(_, config)| config.clone()).collect();
    Config::asked(&configs)
}

fn make(
    cache: &Cache,
    recipe: &Recipe,
    ingredients: &Ingredients,
    key: &str,
    steps: &mut Steps<'_>,
) -> Result<Kernel, KernelError> {
    let started_ns = monotonic_ns();
    let source =
        ingredients.source.prepare(&ingredients.identity, &ingredients.patches, cache, steps)?;
    let objects = cache.workplace(key)?;
    let made = cache.workplace(&format!("{key}.kept"))?;
    let built = make_image(recipe, ingredients, &source, &objects, steps)
        .and_then(|()| collect(&objects, &made, steps))
        .and_then(|()| image::read(&made.join(IMAGE)));
    // The objects are many and of no more use; and the first error is the one to tell.
    let removed = remove(&objects);
    let image = built.inspect_err(|_| {
        let _ = remove(&made);
    })?;
    removed?;
    let from = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let files = recipe.config.iter().chain(&recipe.patches).map(from);
    let description = Description {
        name: recipe.name.clone(),
        key: key.to_string(),
        release: image.release,
        digest: image.digest,
        image_bytes: image.bytes,
        made_from: std::iter::once(ingredients.source.name()).chain(files).collect(),
        compiler: Some(ingredients.tools.clone()),
        made_unix_ns: unix_ns(),
        build_ns: Some(monotonic_ns() - started_ns),
    };
    cache.keep(&made, &cache.path(&[key]), description)
}

/// Configures and builds in `objects`.
fn make_image(
    recipe: &Recipe,
    ingredients: &Ingredients,
    source: &Path,
    objects: &Path,
    steps: &mut Steps<'_>,
) -> Result<(), KernelError> {
    let mut output = OsString::from("O=");
    output.push(objects);
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let make = |what: String, target: &str, steps: &mut Steps<'_>| {
        // An empty LOCALVERSION keeps git's state out of the release (scripts/setlocalversion).
        let argv = words(&[
            &"make",
            &"-C",
            &source,
            &output,
            &"ARCH=x86_64",
            &"LOCALVERSION=",
            &format!("-j{jobs}"),
            &target,
        ]);
        steps.run(&what, Path::new("/"), &argv, &FIXED).map(drop)
    };
    let name = &recipe.name;
    make(format!("configuring {name}"), "tinyconfig", steps)?;
    let path = objects.join(CONFIG);
    let fragments: Vec<Config> =
        ingredients.fragments.iter().map(|(_, config)| config.clone()).collect();
    let text = Config::read(&path)?.text_with(&fragments);
    fs::write(&path, text).map_err(KernelError::file("write", &path))?;
    make(format!("configuring {name}"), "olddefconfig", steps)?;
    let wrong = Config::read(&path)?.unfulfilled(&Config::asked(&fragments));
    if !wrong.is_empty() {
        return Err(KernelError::Options(kconfig::explain(source, &wrong)));
    }
    make(format!("building {name}"), "bzImage", steps)
}

/// Takes what is kept out of the objects.
fn collect(objects: &Path, made: &Path, steps: &Steps<'_>) -> Result<(), KernelError> {
    let image = "arch/x86/boot/bzImage";
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

/// As much of a [`Description::key`] as is shown.
pub fn short(key: &str) -> &str {
    key.get(..KEY_SHOWN).unwrap_or(key)
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
