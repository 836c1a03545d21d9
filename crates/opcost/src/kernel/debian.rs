//! Debian's kernel image packages, downloaded and unpacked without installing them.

use super::Kernel;
use super::build::Builder;
use super::cache::{CONFIG, Description, IMAGE, remove};
use super::error::KernelError;
use super::image;
use super::spec::{DebianImage, Flavour};
use super::step::{Steps, words};
use opcost_sys::clock::unix_ns;
use std::fs;
use std::path::{Path, PathBuf};

/// Finds an image package, downloads it unless the cache has it, and takes the image out of it.
pub(super) fn fetch(
    builder: &mut Builder<'_>,
    wanted: &DebianImage,
) -> Result<Kernel, KernelError> {
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
    let package = match &wanted.release {
        Some(release) => format!("linux-image-{release}-{}", wanted.flavour.suffix()),
        None => newest_package(&mut steps, wanted)?,
    };
    let version = version(&mut steps, wanted, &package)?;
    let id = format!("{package}_{}", version.replace([':', '/'], "-"));
    let entry = builder.cache.path(&["debian", &id]);
    let name = wanted.to_string();
    let kernel = match builder.cache.find(&entry, &name) {
        Some(kernel) => kernel,
        None => {
            let id = format!("debian-{id}");
            let _lock = builder.cache.lock(&id, steps.interrupt, steps.progress)?;
            match builder.cache.find(&entry, &name) {
                Some(kernel) => kernel,
                None => {
                    let made = builder.cache.workplace(&id)?;
                    let unpacked = unpack(&mut steps, &made, &package, &version);
                    let image = unpacked.inspect_err(|_| {
                        // The error of unpacking is the one to tell.
                        let _ = remove(&made);
                    })?;
                    let description = Description {
                        name,
                        key: image.digest.clone(),
                        release: image.release,
                        digest: image.digest,
                        image_bytes: image.bytes,
                        made_from: vec![package, version],
                        compiler: None,
                        made_unix_ns: unix_ns(),
                        build_ns: None,
                    };
                    builder.cache.keep(&made, &entry, description)?
                }
            }
        }
    };
    // Only a failure's log is of use.
    let _ = fs::remove_file(&steps.log);
    Ok(kernel)
}

/// The package that a flavour's metapackage depends on.
fn newest_package(steps: &mut Steps<'_>, wanted: &DebianImage) -> Result<String, KernelError> {
    let meta = format!("linux-image-{}", wanted.flavour.suffix());
    let argv = words(&[&"apt-cache", &"depends", &"--important", &meta]);
    let output =
        known(steps.run("asking apt for the newest kernel", Path::new("/"), &argv, &[]), || {
            unknown(wanted, &meta)
        })?;
    image_package(&output, wanted.flavour).ok_or_else(|| unknown(wanted, &meta))
}

/// The image package of a flavour among the lines of `apt-cache depends`.
fn image_package(output: &str, flavour: Flavour) -> Option<String> {
    let depends = output.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let mut names = depends.map(str::trim).filter(|name| {
        let middle = name
            .strip_prefix("linux-image-")
            .and_then(|rest| rest.strip_suffix(&format!("-{}", flavour.suffix())));
        middle.is_some_and(|middle| middle.starts_with(|c: char| c.is_ascii_digit()))
    });
    names.next().map(ToString::to_string)
}

/// The newest version of a package.
fn version(
    steps: &mut Steps<'_>,
    wanted: &DebianImage,
    package: &str,
) -> Result<String, KernelError> {
    let argv = words(&[&"apt-cache", &"show", &"--no-all-versions", &package]);
    let output =
        known(steps.run("asking apt for its version", Path::new("/"), &argv, &[]), || {
            unknown(wanted, package)
        })?;
    let version = output.lines().find_map(|line| line.strip_prefix("Version: "));
    version.map(|version| version.trim().to_string()).ok_or_else(|| unknown(wanted, package))
}

/// A program that failed does not know the package; anything else stays as it is.
fn known(
    output: Result<String, KernelError>,
    unknown: impl FnOnce() -> KernelError,
) -> Result<String, KernelError> {
    output.map_err(|error| if let KernelError::Step { .. } = error { unknown() } else { error })
}

fn unknown(wanted: &DebianImage, package: &str) -> KernelError {
    KernelError::Debian(format!(
        "apt knows no package {package} for {wanted}; it must be a Debian for amd64 whose lists are fresh: apt-get update, then apt-cache search linux-image"
    ))
}

/// Downloads a package into `made` and leaves there the image and its configuration.
fn unpack(
    steps: &mut Steps<'_>,
    made: &Path,
    package: &str,
    version: &str,
) -> Result<image::Image, KernelError> {
    let exact = format!("{package}={version}");
    let what = format!("downloading Debian's {package} {version}");
    let argv = words(&[&"apt-get", &"-q", &"download", &exact]);
    steps.run(&what, made, &argv, &[]).map_err(|error| match error {
        KernelError::Step { lines, log, .. } => KernelError::Debian(format!(
            "cannot download {package} {version}: {}\n  check the network, and apt-get update if the mirror has a newer one by now; the whole output is in {}",
            lines.join("\n  "),
            log.display()
        )),
        error => error,
    })?;
    let archive = single_file(made, "", ".deb").ok_or_else(|| {
        KernelError::Debian(format!(
            "apt-get downloaded {package} without error, but left no package"
        ))
    })?;
    let contents = made.join("contents");
    let argv = words(&[&"dpkg-deb", &"-x", &archive, &contents]);
    steps.run(&format!("unpacking {package}"), made, &argv, &[])?;
    for (begin, to) in [("vmlinuz-", IMAGE), ("config-", CONFIG)] {
        let from = single_file(&contents.join("boot"), begin, "").ok_or_else(|| {
            KernelError::Debian(format!("the package {package} has no boot/{begin}* in it"))
        })?;
        fs::rename(&from, made.join(to)).map_err(KernelError::file("move", &from))?;
    }
    // Its System.map is a stub: symbols come from the running kernel.
    remove(&contents)?;
    fs::remove_file(&archive).map_err(KernelError::file("remove", &archive))?;
    image::read(&made.join(IMAGE))
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

    #[test]
    fn the_image_package_is_found_among_the_dependencies() {
        let output = "linux-image-rt-amd64\n  Depends: linux-base\n  Depends: linux-image-6.1.0-56-rt-amd64\n  \
                      Depends: <linux-image-x>\n";
        let found = |flavour| image_package(output, flavour);
        assert_eq!(found(Flavour::Rt).as_deref(), Some("linux-image-6.1.0-56-rt-amd64"));
        assert_eq!(found(Flavour::Cloud), None);
        assert_eq!(image_package("", Flavour::Amd64), None);
    }
}
