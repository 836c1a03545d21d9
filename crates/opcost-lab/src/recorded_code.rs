//! Finds the files with the code that a recording counted, if they still are the recorded ones.

use opcost_kernel::{KernelSpec, architecture_of, default_cache, digest, prepare, vmlinux_of};
use opcost_model::recording::Recording;
use opcost_profile::annotate::{AnnotateError, Program};
use opcost_profile::symbolise::Sources;
use opcost_record::Architecture;
use opcost_record::profile::KERNEL;
use opcost_symbols::debug_files::DebugFiles;
use opcost_symbols::elf::WHOLE_BYTES_MAX;
use opcost_sys::foreign_file;
use opcost_sys::interrupt::Interrupt;
use std::path::{Path, PathBuf};

/// Finds the file with the code of a module that a variant ran.
///
/// `variant`: its place in the plan; `module`: a path, or the kernel; `sources`: where debug files are.
///
/// # Errors
/// [`AnnotateError`]: there is no such file, or it is not the recorded one.
pub fn recorded_program(
    recording: &Recording,
    variant: usize,
    module: &str,
    sources: &Sources,
) -> Result<Program, AnnotateError> {
    let state = recording.machine.first();
    if module == KERNEL {
        let kernels = state.into_iter().flat_map(|state| &state.kernels);
        let Some(kernel) = kernels.clone().find(|kernel| kernel.variant == variant) else {
            return Err(AnnotateError::NoFile { path: module.into() });
        };
        let cached = default_cache().ok().and_then(|cache| vmlinux_of(&cache, &kernel.digest));
        let guest = recording.plan.variants.get(variant).and_then(|plan| plan.guest.as_ref());
        let architecture = guest.map(|guest| guest.architecture).unwrap_or_default();
        // A folder in which a kernel was built has both, and only the image is known by its digest.
        let image = Path::new(&kernel.name).join(architecture.row().image);
        let is_built = || std::fs::read(image).is_ok_and(|image| digest(&image) == kernel.digest);
        let built = || Some(Path::new(&kernel.name).join("vmlinux")).filter(|_| is_built());
        let packaged =
            || debug_vmlinux(&kernel.name, architecture, &kernel.digest, &sources.debug_files);
        let vmlinux = cached.or_else(built).or_else(packaged);
        let none = || AnnotateError::NoVmlinux { kernel: kernel.name.clone() };
        return Program::read(&vmlinux.ok_or_else(none)?, sources);
    }
    if module.starts_with('[') && module != "[vdso]" {
        return Err(AnnotateError::GuestModule { module: module.into() });
    }
    if module.starts_with('[') {
        return Err(AnnotateError::NoFile { path: module.into() });
    }
    let path = Path::new(module);
    let known: Vec<&str> = state
        .into_iter()
        .flat_map(|state| &state.programs)
        .filter(|known| known.path == path)
        .map(|known| known.sha256.as_str())
        .collect();
    Program::recorded(path, sources, |bytes| known.is_empty() || known.contains(&&*digest(bytes)))
}

/// The vmlinux with debug information that a distribution packages for a kernel, if it is installed and is of the same build.
///
/// `name`: the kernel as the user named it; `image`: SHA-256 of its image, hexadecimal.
fn debug_vmlinux(
    name: &str,
    architecture: Architecture,
    image: &str,
    debug_files: &DebugFiles,
) -> Option<PathBuf> {
    let spec = KernelSpec::parse(name, Path::new("")).ok()?;
    let interrupt = Interrupt::install().ok()?;
    let kernel =
        prepare(&spec, architecture, &default_cache().ok()?, false, &interrupt, &mut |_, _| ())
            .ok()?;
    let path = debug_files.folder().join(format!("boot/vmlinux-{}", kernel.release.as_ref()?));
    if kernel.digest != image || !path.is_file() {
        return None;
    }
    let image = foreign_file::read(&kernel.image, WHOLE_BYTES_MAX).ok()?;
    let vmlinux = foreign_file::read(&path, WHOLE_BYTES_MAX).ok()?;
    is_same_build(&image, &vmlinux).then_some(path)
}

/// Whether a vmlinux has the number and date of the build that an image has: in its header (Linux,
/// Documentation/arch/x86/boot.rst, `kernel_version`), or in the banner of an image that is not compressed.
fn is_same_build(image: &[u8], vmlinux: &[u8]) -> bool {
    let build = || {
        let text = match architecture_of(image)? {
            Architecture::X86_64 => {
                let at = image.get(0x20e..0x210)?;
                image.get(usize::from(u16::from_le_bytes(at.try_into().ok()?)) + 0x200..)?
            }
            Architecture::Aarch64 => {
                // Another text with these words has no number behind them.
                let banner = b"Linux version ";
                let begins =
                    |text: &[u8]| text.starts_with(banner) && text[banner.len()].is_ascii_digit();
                &image[image.windows(banner.len() + 1).position(begins)?..]
            }
        };
        let text = &text[..text.iter().position(|byte| matches!(byte, 0 | b'\n'))?];
        Some(&text[text.iter().position(|byte| *byte == b'#')?..])
    };
    build().is_some_and(|build| vmlinux.windows(build.len()).any(|text| text == build))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vmlinux_is_of_the_build_that_the_image_names() {
        let mut arm64 = vec![0; 0x300];
        arm64[0x38..0x3c].copy_from_slice(b"ARM\x64");
        let banners = b"Linux version %s (#9)\0Linux version 6.1.0-56 (gcc) #1 SMP Debian 6.1.192-2 (2026-11-16)\n\0";
        arm64[0x100..0x100 + banners.len()].copy_from_slice(banners);
        let mut image = vec![0; 0x300];
        image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x80u16.to_le_bytes());
        let version = b"6.1.0-56 (debian) #1 SMP Debian 6.1.192-2 (2026-11-16)\0";
        image[0x280..0x280 + version.len()].copy_from_slice(version);
        let banner = |build: &str| format!("Linux version 6.1.0-56 (gcc) {build}\n").into_bytes();
        for image in [image, arm64] {
            assert!(is_same_build(&image, &banner("#1 SMP Debian 6.1.192-2 (2026-11-16)")));
            assert!(!is_same_build(&image, &banner("#1 SMP Debian 6.1.192-1 (2026-11-16)")));
        }
        assert!(!is_same_build(b"no image", &banner("")));
    }
}
