//! Downloads Debian's kernel image packages and unpacks them without installing them.

use super::build::Builder;
use super::cache::{CONFIG, Cache, Description, IMAGE, MODULES, remove};
use super::error::KernelError;
use super::modules::{BUILTIN, Modules};
use super::spec::DebianImage;
use super::step::{Steps, words};
use super::{Kernel, image};
use crate::disk;
use opcost_record::Architecture;
use opcost_sys::clock::unix_ns;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The cache's folder of apt's answers.
const ANSWERS: &str = "apt";

/// Files and folders that determine apt's answers: its program, its lists, what is installed, and its settings.
const DETERMINE_ANSWERS: [&str; 5] = [
    "usr/bin/apt-cache",
    "var/lib/apt/lists",
    "var/lib/dpkg/status",
    "etc/apt",
    "etc/apt/preferences.d",
];

/// apt's answers so far, and the present state of the files that determine them.
struct Asked {
    cache: Cache,
    state: String,
    architecture: Architecture,
    /// apt's options.
    options: Vec<OsString>,
}

impl Asked {
    fn new(builder: &Builder<'_>) -> Asked {
        let architecture = builder.architecture;
        let options = match Architecture::of_machine(std::env::consts::ARCH) {
            Some(own) if own == architecture => Vec::new(),
            _ => aside(&builder.cache.path(&[&lists_of(architecture)]), architecture),
        };
        let state = state_of_apt(&builder.system);
        Asked { cache: builder.cache.clone(), state, architecture, options }
    }

    /// Fetches the lists of another architecture, unless that was done since apt's own files changed.
    fn update(&self, steps: &mut Steps<'_>) -> Result<(), KernelError> {
        if self.options.is_empty() {
            return Ok(());
        }
        let name = lists_of(self.architecture);
        let _lock = self.cache.lock(&name, steps.interrupt, steps.progress)?;
        let folder = self.cache.path(&[&name]);
        if fs::read_to_string(folder.join(UPDATED)).is_ok_and(|state| state == self.state) {
            return Ok(());
        }
        for part in ["lists/partial", "cache/archives/partial"].map(|part| folder.join(part)) {
            fs::create_dir_all(&part).map_err(KernelError::file("make", &part))?;
        }
        let mut argv = words(&[&"apt-get", &"-q", &"update"]);
        argv.extend(self.options.iter().cloned());
        let what = format!("fetching Debian's lists of packages for {}", self.architecture);
        steps.run(&what, &folder, &argv, &[]).map_err(|error| match error {
            KernelError::Step { lines, log, .. } => KernelError::Debian(format!(
                "cannot fetch Debian's lists of packages for {}: {}\n  check the network and apt's sources; the whole output is in {}",
                self.architecture,
                lines.join("\n  "),
                log.display()
            )),
            error => error,
        })?;
        self.cache.write_whole(&name, UPDATED, &self.state)
    }
}

/// The cache's folder of apt's lists of another architecture.
fn lists_of(architecture: Architecture) -> String {
    format!("apt-{}", architecture.row().debian)
}

/// A file with the state of apt's own files when the lists of another architecture were fetched.
const UPDATED: &str = "updated";

/// Options with which apt reads lists of another architecture in `folder`, with the system's sources, keys and preferences. The
/// system's dpkg need not know the architecture.
fn aside(folder: &Path, architecture: Architecture) -> Vec<OsString> {
    let debian = architecture.row().debian;
    let folder = folder.display();
    let settings = [
        format!("Dir::State={folder}"),
        format!("Dir::Cache={folder}/cache"),
        "Dir::State::status=/dev/null".into(),
        format!("APT::Architecture={debian}"),
        format!("APT::Architectures={debian}"),
        "Acquire::Languages=none".into(),
        // A list that could not be fetched is an error (apt.conf(5)).
        "APT::Update::Error-Mode=any".into(),
        // apt's own user cannot write here.
        "APT::Sandbox::User=root".into(),
    ];
    settings.into_iter().flat_map(|setting| ["-o".into(), setting.into()]).collect()
}

/// A digest of times and lengths of the files that determine apt's answers.
fn state_of_apt(system: &Path) -> String {
    let mut lines = Vec::new();
    let mut add = |path: &Path| {
        if let Ok(found) = path.metadata() {
            let time = (found.mtime(), found.mtime_nsec());
            lines.push(format!("{} {time:?} {} {}", path.display(), found.len(), found.ino()));
        }
    };
    for path in DETERMINE_ANSWERS.map(|path| system.join(path)) {
        add(&path);
        let mut inside: Vec<PathBuf> =
            fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        inside.sort();
        inside.iter().filter(|path| path.is_file()).for_each(|path| add(path));
    }
    image::digest(lines.join("\n").as_bytes())
}

/// The cache's folder of packages that were downloaded in advance (by script/demo, while opcost is built).
const BROUGHT: &str = "brought";

/// Finds an image package, downloads it unless the cache has it, and extracts the image.
///
/// `for_disk`: the modules that disks need are wanted, too; entries of earlier opcost versions lack them.
pub(super) fn fetch(
    builder: &mut Builder<'_>,
    wanted: &DebianImage,
    for_disk: bool,
) -> Result<Kernel, KernelError> {
    let asked = Asked::new(builder);
    let mut steps = Steps::begin(
        &builder.cache.path(&["logs"]),
        &format!("debian-{}", wanted.flavour.word()),
        builder.path_env.clone(),
        builder.interrupt,
        builder.progress,
    )?;
    let missing = ["apt-cache", "apt-get", "dpkg-deb"];
    if let Some(missing) = missing.iter().find(|program| steps.find(program).is_err()) {
        return Err(KernelError::Debian(format!(
            "{wanted} is fetched with apt, but there is no {missing} here; give a kernel image (--kernel PATH) or build one (opcost kernel build)"
        )));
    }
    let architecture = builder.architecture;
    let suffix = wanted.flavour.suffix(architecture).ok_or_else(|| {
        KernelError::Usage(format!(
            "{wanted} is no kernel for {architecture}; give debian:cloud or debian:{}",
            architecture.row().debian
        ))
    })?;
    asked.update(&mut steps)?;
    let (package, version) = match &wanted.release {
        Some(release) => {
            let package = format!("linux-image-{release}-{suffix}");
            let version = field(&ask(&asked, &mut steps, wanted, &package)?, "Version");
            (package, version)
        }
        None => newest_package(&asked, &mut steps, wanted, &suffix)?,
    };
    let version = version.ok_or_else(|| unknown(wanted, architecture, &package))?;
    let id = format!("{package}_{}", version.replace([':', '/'], "-"));
    let entry = builder.cache.path(&["debian", &id]);
    let name = wanted.to_string();
    let has_all = |kernel: &Kernel| !for_disk || kernel.modules.is_some();
    let kernel = match builder.cache.find(&entry, &name).filter(has_all) {
        Some(kernel) => kernel,
        None => {
            let id = format!("debian-{id}");
            let _lock = builder.cache.lock(&id, steps.interrupt, steps.progress)?;
            match builder.cache.find(&entry, &name).filter(has_all) {
                Some(kernel) => kernel,
                None => {
                    let made = builder.cache.workplace(&id)?;
                    let brought = brought(&builder.cache.path(&[BROUGHT]), &package, &version);
                    let unpacked = unpack(&asked, &mut steps, &made, (&package, &version), brought);
                    let image = unpacked.inspect_err(|_| {
                        // The error of unpacking is more useful than an error here.
                        let _ = remove(&made);
                    })?;
                    let description = Description {
                        name,
                        names: Vec::new(),
                        commit: None,
                        same_commits: Vec::new(),
                        configured: None,
                        key: image.digest.clone(),
                        release: image.release,
                        digest: image.digest,
                        image_bytes: image.bytes,
                        made_from: vec![package, version],
                        compiler: None,
                        made_unix_ns: unix_ns(),
                        build_ns: None,
                        objects: None,
                    };
                    builder.cache.keep(&made, &entry, description)?
                }
            }
        }
    };
    // The log is useful only after a failure.
    let _ = fs::remove_file(&steps.log);
    Ok(kernel)
}

/// The name and version of the package that a flavour's metapackage depends on.
fn newest_package(
    asked: &Asked,
    steps: &mut Steps<'_>,
    wanted: &DebianImage,
    suffix: &str,
) -> Result<(String, Option<String>), KernelError> {
    let meta = format!("linux-image-{suffix}");
    let shown = ask(asked, steps, wanted, &meta)?;
    let depends = field(&shown, "Depends").unwrap_or_default();
    image_package(&depends, suffix).ok_or_else(|| unknown(wanted, asked.architecture, &meta))
}

/// Finds a flavour's image package in a `Depends` field, for example
/// `linux-image-6.1.0-56-cloud-amd64 (= 6.1.192-2)`.
fn image_package(depends: &str, suffix: &str) -> Option<(String, Option<String>)> {
    let suffix = format!("-{suffix}");
    depends.split([',', '|']).map(str::trim).find_map(|dependency| {
        let (name, version) = dependency.split_once(" (= ").unwrap_or((dependency, ""));
        let middle = name.strip_prefix("linux-image-")?.strip_suffix(&suffix)?;
        let version = version.strip_suffix(')').map(ToString::to_string);
        middle.starts_with(|c: char| c.is_ascii_digit()).then(|| (name.to_string(), version))
    })
}

/// apt's description of a package's newest version.
///
/// apt reads all its lists for an answer, which takes longer than a short run. It is asked once a state of its lists.
fn ask(
    asked: &Asked,
    steps: &mut Steps<'_>,
    wanted: &DebianImage,
    package: &str,
) -> Result<String, KernelError> {
    let known = asked.cache.path(&[ANSWERS, package]);
    let known = fs::read_to_string(known).unwrap_or_default();
    match known.split_once('\n') {
        Some((state, answer)) if state == asked.state => return Ok(answer.to_string()),
        _ => {}
    }
    let answer = ask_apt(asked, steps, wanted, package)?;
    asked.cache.write_whole(ANSWERS, package, &format!("{}\n{answer}", asked.state))?;
    Ok(answer)
}

fn ask_apt(
    asked: &Asked,
    steps: &mut Steps<'_>,
    wanted: &DebianImage,
    package: &str,
) -> Result<String, KernelError> {
    let mut argv = words(&[&"apt-cache", &"show", &"--no-all-versions", &package]);
    argv.extend(asked.options.iter().cloned());
    match steps.run(&format!("asking apt for {package}"), Path::new("/"), &argv, &[]) {
        // apt-cache fails if it does not know the package, and hardly ever otherwise.
        Err(KernelError::Step { .. }) => Err(unknown(wanted, asked.architecture, package)),
        output => output,
    }
}

/// A field of a package's description (Debian policy, section 5.1).
fn field(description: &str, name: &str) -> Option<String> {
    let values = description.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    values.map(|value| value.trim().to_string()).next()
}

fn unknown(wanted: &DebianImage, architecture: Architecture, package: &str) -> KernelError {
    KernelError::Debian(format!(
        "apt knows no package {package} for {wanted}; it must be a Debian with sources for {} whose lists are fresh: apt-get update, then apt-cache search linux-image",
        architecture.row().debian
    ))
}

/// A package downloaded in advance, under the name that apt gives it.
fn brought(folder: &Path, package: &str, version: &str) -> Option<PathBuf> {
    single_file(folder, &format!("{package}_{}_", version.replace(':', "%3a")), ".deb")
}

/// Unpacks a package in `made` and keeps only the image, its configuration and the modules for disks there.
///
/// `brought`: the package, if it was downloaded in advance; its file is consumed.
fn unpack(
    asked: &Asked,
    steps: &mut Steps<'_>,
    made: &Path,
    (package, version): (&str, &str),
    brought: Option<PathBuf>,
) -> Result<image::Image, KernelError> {
    match brought {
        Some(archive) => {
            let place = made.join(archive.file_name().unwrap_or_default());
            fs::rename(&archive, place).map_err(KernelError::file("move", &archive))?;
        }
        None => download(asked, steps, made, (package, version))?,
    }
    let archive = single_file(made, "", ".deb").ok_or_else(|| {
        KernelError::Debian(format!(
            "apt-get downloaded {package} without error, but left no package"
        ))
    })?;
    let contents = made.join("contents");
    let argv = words(&[&"dpkg-deb", &"-x", &archive, &contents]);
    let unpacked = steps.run(&format!("unpacking {package}"), made, &argv, &[]);
    unpacked.map_err(|error| no_room(error, package, made))?;
    for (begin, to) in [("vmlinuz-", IMAGE), ("config-", CONFIG)] {
        let from = single_file(&contents.join("boot"), begin, "").ok_or_else(|| {
            KernelError::Debian(format!("the package {package} has no boot/{begin}* in it"))
        })?;
        fs::rename(&from, made.join(to)).map_err(KernelError::file("move", &from))?;
    }
    decompress_modules(steps, &contents.join("lib/modules"))?;
    keep_modules(&contents.join("lib/modules"), &made.join(MODULES))?;
    // The package's System.map is a stub; symbols come from the running kernel.
    remove(&contents)?;
    fs::remove_file(&archive).map_err(KernelError::file("remove", &archive))?;
    image::read_for(&made.join(IMAGE), asked.architecture)
}

/// Downloads a package into `made`.
fn download(
    asked: &Asked,
    steps: &mut Steps<'_>,
    made: &Path,
    (package, version): (&str, &str),
) -> Result<(), KernelError> {
    let exact = format!("{package}={version}");
    let what = format!("downloading Debian's {package} {version}");
    let mut argv = words(&[&"apt-get", &"-q", &"download", &exact]);
    argv.extend(asked.options.iter().cloned());
    let downloaded =
        steps.run(&what, made, &argv, &[]).map_err(|error| no_room(error, package, made));
    downloaded.map(drop).map_err(|error| match error {
        KernelError::Step { lines, log, .. } => KernelError::Debian(format!(
            "cannot download {package} {version}: {}\n  check the network, and apt-get update if the mirror has a newer one by now; the whole output is in {}",
            lines.join("\n  "),
            log.display()
        )),
        error => error,
    })
}

/// Adds advice to an error of apt or dpkg-deb if the cache's file system is full.
fn no_room(error: KernelError, package: &str, made: &Path) -> KernelError {
    // The first text is the C library's; apt prints the second one before it downloads.
    let full = ["No space left on device", "enough free space"];
    match error {
        KernelError::Step { lines, .. }
            if lines.iter().any(|line| full.iter().any(|words| line.contains(words))) =>
        {
            KernelError::Debian(format!(
                "there is no room for {package} in '{}': {}\n  free some, or name another folder for the cache with XDG_CACHE_HOME",
                made.display(),
                lines.join("\n  "),
            ))
        }
        error => error,
    }
}

/// Decompresses a package's modules in their places, as from Debian 13 on they are compressed. Without `xz` they stay compressed:
/// only disks need them.
fn decompress_modules(steps: &mut Steps<'_>, folder: &Path) -> Result<(), KernelError> {
    let mut argv = words(&[&"xz", &"--decompress", &"--"]);
    let options = argv.len();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(".ko.xz") {
                argv.push(path.into());
            }
        }
    }
    if argv.len() > options && steps.find("xz").is_ok() {
        steps.run("decompressing modules", folder, &argv, &[])?;
    }
    Ok(())
}

/// Copies the modules that disks need, and the list of built-in modules, from `from`, a package's
/// folder with one folder for its release.
fn keep_modules(from: &Path, to: &Path) -> Result<(), KernelError> {
    fs::create_dir(to).map_err(KernelError::file("make", to))?;
    let releases = fs::read_dir(from).into_iter().flatten().flatten();
    let Some(folder) = releases.map(|entry| entry.path()).find(|path| path.is_dir()) else {
        return Ok(());
    };
    let modules = Modules::find(&folder)?;
    let mut files = vec![folder.join(BUILTIN)];
    let uses: Vec<&str> = disk::all_uses().into_iter().collect();
    for name in disk::modules() {
        match modules.closure(&[name], &uses) {
            Ok(closure) => files.extend(closure.into_iter().map(|module| module.path)),
            // Disks do not work on such a kernel; the error comes if a disk is asked for.
            Err(KernelError::NoModule { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    for file in files {
        let place = to.join(file.file_name().unwrap_or_default());
        fs::copy(&file, place).map_err(KernelError::file("copy", &file))?;
    }
    Ok(())
}

fn single_file(folder: &Path, begin: &str, end: &str) -> Option<PathBuf> {
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(begin) && name.ends_with(end) && path.is_file()
    };
    fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tests::made;
    use crate::spec::KernelSpec;
    use opcost_sys::interrupt::Interrupt;
    use std::os::unix::fs::PermissionsExt;

    /// Stand-ins for apt's programs that know one package.
    const APT_CACHE: &str = r#"echo "$*" >> "$ROOT/questions"; case "$1 $*" in
show*all-versions\ linux-image-cloud-amd64) echo 'Depends: linux-image-6.1.0-9-cloud-amd64 (= 1:6.1-2)';;
show*all-versions\ linux-image-cloud-arm64*Dir::State::status=/dev/null*APT::Architecture=arm64*)
    [ -e "$ROOT/lists" ] && echo 'Depends: linux-image-6.1.0-9-cloud-arm64 (= 1:6.1-2)';;
show*linux-image-6.1.0-9-cloud-amd64) printf 'Package: x\nVersion: 1:6.1-2\n';;
*) echo 'E: No packages found' >&2; exit 100;;
esac"#;
    const APT_GET: &str = r#"[ -e "$ROOT/full" ] && { echo 'E: write (28: No space left on device)' >&2; exit 100; }
[ -e "$ROOT/offline" ] && { echo 'E: Failed to fetch x: no route'; exit 100; }
case "$*" in *update*) [ -d lists/partial ] && touch "$ROOT/lists"; echo update >> "$ROOT/updates"; exit;; esac
echo "$*" >> "$ROOT/downloads"; echo packed > x_1%3a6.1-2_amd64.deb"#;
    const DPKG_DEB: &str = r#"mkdir -p "$3/boot" && cp "$ROOT/image" "$3/boot/vmlinuz-6.1.0-9" && echo CONFIG_A=y > "$3/boot/config-6.1.0-9"
mkdir -p "$3/lib/modules" && if [ -e "$ROOT/modules" ]; then cp -r "$ROOT/modules" "$3/lib/modules/6.1.0-9"; fi"#;

    fn fetched(folder: &Path, wanted: &str) -> Result<Kernel, String> {
        fetched_for(folder, wanted, false)
    }

    fn fetched_for(folder: &Path, wanted: &str, for_disk: bool) -> Result<Kernel, String> {
        fetched_as(folder, wanted, for_disk, Architecture::X86_64)
    }

    fn fetched_as(
        folder: &Path,
        wanted: &str,
        for_disk: bool,
        architecture: Architecture,
    ) -> Result<Kernel, String> {
        let KernelSpec::Debian(wanted) = KernelSpec::parse(wanted, folder).unwrap() else {
            panic!("{wanted}");
        };
        let mut path: std::ffi::OsString = folder.join("bin").into();
        if folder.join("bin/apt-get").exists() {
            path.push(":/usr/bin:/bin");
        }
        let mut builder = Builder {
            architecture,
            cache: Cache::new(&folder.join("cache")),
            system: folder.into(),
            path_env: Some(path),
            interrupt: &Interrupt::none(),
            progress: &mut |_, _| {},
        };
        fetch(&mut builder, &wanted, for_disk).map_err(|error| error.to_string())
    }

    fn with_apt() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::write(folder.path().join("image"), image::tests::made("6.1.0-9")).unwrap();
        for (name, text) in [("apt-cache", APT_CACHE), ("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB)]
        {
            let path = folder.path().join("bin").join(name);
            let text = format!("#!/bin/sh\nROOT='{}'\n{text}\n", folder.path().display());
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        folder
    }

    #[test]
    fn a_package_is_downloaded_once() {
        let folder = with_apt();
        let kernel = fetched(folder.path(), "debian:cloud").unwrap();
        assert_eq!(kernel.name, "debian:cloud");
        assert_eq!(kernel.release.as_deref(), Some("6.1.0-9"));
        assert!(kernel.config.is_some() && kernel.system_map.is_none());
        assert_eq!(kernel.digest, image::digest(&image::tests::made("6.1.0-9")));
        let exact = fetched(folder.path(), "debian:cloud=6.1.0-9").unwrap();
        assert_eq!(exact.image, kernel.image);
        let downloads = fs::read_to_string(folder.path().join("downloads")).unwrap();
        assert_eq!(downloads, "-q download linux-image-6.1.0-9-cloud-amd64=1:6.1-2\n");
        let mut kept: Vec<_> = fs::read_dir(kernel.image.parent().unwrap()).unwrap().collect();
        kept.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
        let kept: Vec<_> = kept.into_iter().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(kept, [".config", "bzImage", "disk-modules", "kernel.json"]);
    }

    #[test]
    fn another_architectures_package_comes_by_lists_of_its_own() {
        let folder = with_apt();
        let arm64 = Architecture::Aarch64;
        let get = |wanted| fetched_as(folder.path(), wanted, false, arm64);
        let count = |name| {
            let lines = fs::read_to_string(folder.path().join(name)).unwrap_or_default();
            lines.lines().count()
        };
        // The package of this mock contains a kernel for x86-64.
        let error = get("debian:cloud").unwrap_err();
        assert!(error.contains("for x86-64, and the machine is arm64"), "{error}");
        let image = image::tests::made_for_arm64("6.1.0-9-cloud-arm64");
        fs::write(folder.path().join("image"), image).unwrap();
        let kernel = get("debian:cloud").unwrap();
        assert_eq!(kernel.release.as_deref(), Some("6.1.0-9-cloud-arm64"));
        assert_eq!(get("debian:cloud").unwrap(), kernel);
        assert_eq!((count("updates"), count("downloads")), (1, 2));
        let downloads = fs::read_to_string(folder.path().join("downloads")).unwrap();
        let last = downloads.lines().last().unwrap();
        assert!(
            last.starts_with("-q download linux-image-6.1.0-9-cloud-arm64=1:6.1-2 -o Dir::State="),
            "{last}"
        );
        fs::create_dir_all(folder.path().join("etc/apt")).unwrap();
        get("debian:cloud").unwrap();
        assert_eq!(count("updates"), 2, "apt's settings changed");
        for (wanted, other) in [("debian:amd64", arm64), ("debian:arm64", Architecture::X86_64)] {
            let error = fetched_as(folder.path(), wanted, false, other).unwrap_err();
            assert!(error.contains(&format!("{wanted} is no kernel for {other}")), "{error}");
        }
        fs::write(folder.path().join("offline"), "").unwrap();
        fs::remove_dir(folder.path().join("etc/apt")).unwrap();
        let error = get("debian:cloud").unwrap_err();
        assert!(error.contains("lists of packages for arm64: E: Failed to fetch"), "{error}");
    }

    #[test]
    fn apt_is_asked_once_a_state_of_its_lists() {
        let folder = with_apt();
        let lists = folder.path().join("var/lib/apt/lists");
        fs::create_dir_all(&lists).unwrap();
        let list = lists.join("deb.debian.org_Packages");
        let questions_after = |change: &dyn Fn()| {
            change();
            fetched(folder.path(), "debian:cloud").unwrap();
            fs::read_to_string(folder.path().join("questions")).unwrap().lines().count()
        };
        assert_eq!(questions_after(&|| ()), 1);
        assert_eq!(questions_after(&|| ()), 1, "nothing changed");
        assert_eq!(questions_after(&|| fs::write(&list, "a").unwrap()), 2, "a new list");
        assert_eq!(questions_after(&|| fs::write(&list, "ab").unwrap()), 3, "a longer list");
        let settings = folder.path().join("etc/apt/preferences.d");
        let pin = || {
            fs::create_dir_all(&settings).unwrap();
            fs::write(settings.join("pin"), "").unwrap();
        };
        assert_eq!(questions_after(&pin), 4, "a pin");
        assert_eq!(questions_after(&|| ()), 4);
        // An unknown package is asked for again, since the error advises apt-get update.
        for _ in 0..2 {
            fetched(folder.path(), "debian:rt").unwrap_err();
        }
        assert_eq!(questions_after(&|| ()), 6);
    }

    #[test]
    fn a_package_that_was_brought_is_not_downloaded() {
        let folder = with_apt();
        let brought = folder.path().join("cache").join(BROUGHT);
        fs::create_dir_all(&brought).unwrap();
        let other = brought.join("linux-image-6.1.0-9-cloud-amd64_1%3a6.1-1_amd64.deb");
        let wanted = brought.join("linux-image-6.1.0-9-cloud-amd64_1%3a6.1-2_amd64.deb");
        for path in [&other, &wanted] {
            fs::write(path, "packed").unwrap();
        }
        let kernel = fetched(folder.path(), "debian:cloud").unwrap();
        assert_eq!(kernel.release.as_deref(), Some("6.1.0-9"));
        assert!(!folder.path().join("downloads").exists(), "apt-get was asked");
        assert!(!wanted.exists() && other.exists(), "used up; another version is left alone");
    }

    #[test]
    fn the_modules_that_disks_need_are_kept() {
        let folder = with_apt();
        let path = |name: &str| folder.path().join(name);
        let names = |kernel: &Kernel| {
            let modules = kernel.modules(&["brd", "ext4"], &["crypto-crc32c"]).unwrap().unwrap();
            modules.into_iter().map(|module| module.name).collect::<Vec<_>>().join(" ")
        };
        fs::create_dir(path("modules")).unwrap();
        fs::write(path("modules/modules.builtin"), "kernel/lib/crc16.ko\n").unwrap();
        for (name, entries) in [
            ("brd.ko", &["depends="][..]),
            ("ext4.ko", &["depends=jbd2,crc16"]),
            ("jbd2.ko", &[]),
            ("crc32c-intel.ko", &["alias=crypto-crc32c"]),
            ("unrelated.ko", &[]),
        ] {
            fs::write(path("modules").join(name), made(entries)).unwrap();
        }
        // Debian 13's modules are compressed. A computer without xz tests those of Debian 12 only.
        let _ = std::process::Command::new("xz").arg(path("modules/jbd2.ko")).status();
        let kernel = fetched_for(folder.path(), "debian:cloud", true).unwrap();
        assert_eq!(names(&kernel), "crc32c_intel brd jbd2 ext4");
        let kept = kernel.modules.clone().unwrap();
        assert!(!kept.join("unrelated.ko").exists());
        // An entry of an earlier version is good enough for guests without a disk.
        fs::remove_dir_all(&kept).unwrap();
        let downloads = || fs::read_to_string(path("downloads")).unwrap().lines().count();
        assert_eq!(fetched(folder.path(), "debian:cloud").unwrap().modules, None);
        assert_eq!(downloads(), 1);
        let again = fetched_for(folder.path(), "debian:cloud", true).unwrap();
        assert_eq!((names(&again).as_str(), downloads()), ("crc32c_intel brd jbd2 ext4", 2));
    }

    #[test]
    fn what_apt_cannot_do_is_said() {
        let folder = with_apt();
        let error = fetched(folder.path(), "debian:rt").unwrap_err();
        assert!(
            error.contains("apt knows no package linux-image-rt-amd64 for debian:rt"),
            "{error}"
        );
        let error = fetched(folder.path(), "debian:cloud=5.0-1").unwrap_err();
        assert!(error.contains("no package linux-image-5.0-1-cloud-amd64"), "{error}");
        fs::write(folder.path().join("offline"), "").unwrap();
        let error = fetched(folder.path(), "debian:cloud").unwrap_err();
        assert!(
            error.contains("E: Failed to fetch x: no route") && error.contains("network"),
            "{error}"
        );
        fs::write(folder.path().join("full"), "").unwrap();
        let error = fetched(folder.path(), "debian:cloud").unwrap_err();
        assert!(error.contains("no room for linux-image-6.1.0-9-cloud-amd64 in '"), "{error}");
        assert!(error.contains("XDG_CACHE_HOME") && !error.contains("network"), "{error}");
        fs::remove_file(folder.path().join("bin/apt-get")).unwrap();
        let error = fetched(folder.path(), "debian:cloud").unwrap_err();
        assert!(error.contains("there is no apt-get here"), "{error}");
    }

    #[test]
    fn the_image_package_is_found_among_the_dependencies() {
        let depends = "linux-base, linux-image-6.1.0-56-rt-amd64 (= 6.1.192-2) | linux-image-x";
        let found = |suffix| image_package(depends, suffix);
        let package = "linux-image-6.1.0-56-rt-amd64".to_string();
        assert_eq!(found("rt-amd64"), Some((package, Some("6.1.192-2".into()))));
        assert_eq!(found("cloud-amd64"), None);
        assert_eq!(image_package("", "amd64"), None);
    }
}
