//! Finds the file with the symbols of a program or kernel that the user names.

use anyhow::{Context, Result};
use opcost_base::exit::{HasStatus, Status, WithStatus};
use opcost_base::phases::Phases;
use opcost_kernel::{KernelError, KernelSpec, default_cache, prepare};
use opcost_symbols::debug_files::{DEBUG_FILES, DebugFiles};
use opcost_symbols::elf::WHOLE_BYTES_MAX;
use opcost_sys::foreign_file;
use opcost_sys::interrupt::Interrupt;
use std::path::{Path, PathBuf};

/// Why there is no file to measure.
#[derive(Debug, thiserror::Error)]
enum FileError {
    /// The file cannot be read.
    #[error("cannot read '{}': {error}; give files, or names of kernels (opcost kernel list)", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// Neither a file nor a kernel has this name.
    #[error("there is no file '{name}', and {error}")]
    Unknown {
        /// The name as given.
        name: String,
        /// Why the name is not that of a kernel.
        error: KernelError,
    },
    /// The argument is a kernel image whose ELF file is not here.
    #[error(
        "{kernel}: a compressed kernel image has no symbols, and there is no vmlinux for it; {remedy}"
    )]
    NoVmlinux {
        /// The kernel as the user named it.
        kernel: String,
        /// Something else to give, or to install.
        remedy: String,
    },
}

impl HasStatus for FileError {
    fn status(&self) -> Status {
        match self {
            FileError::NoVmlinux { .. } => Status::Missing,
            FileError::Read { .. } | FileError::Unknown { .. } => Status::Usage,
        }
    }
}

/// Reads the file that an argument means, with its path: the file itself, or the vmlinux of the kernel that it names.
///
/// `argument`: a path, a kernel's build folder or bzImage, the name of a built kernel, or
/// `debian:FLAVOUR[=RELEASE]`.
///
/// # Errors
/// [`FileError`], and the errors of [`prepare`].
pub(crate) fn open(argument: &str, quiet: bool) -> Result<(PathBuf, Vec<u8>)> {
    let path = Path::new(argument);
    let read = |path: &Path| {
        foreign_file::read(path, WHOLE_BYTES_MAX)
            .map(|bytes| (path.to_path_buf(), bytes))
            .map_err(|error| FileError::Read { path: path.to_owned(), error }.carried())
    };
    if path.is_file() {
        let found = read(path)?;
        let is_image = is_kernel_image(&found.1);
        return if is_image { read(&vmlinux(argument, quiet)?) } else { Ok(found) };
    }
    // A folder without a kernel, or a path that does not exist, does not name a kernel.
    if path.is_dir() && !path.join("arch/x86").is_dir() || argument.contains('/') && !path.exists()
    {
        return read(path);
    }
    read(&vmlinux(argument, quiet)?)
}

/// Whether the bytes are a kernel in the form for boot loaders: a boot sector and the mark of a
/// setup header (Linux, Documentation/arch/x86/boot.rst).
fn is_kernel_image(bytes: &[u8]) -> bool {
    bytes.get(0x1fe..0x200) == Some(&[0x55, 0xaa]) && bytes.get(0x202..0x206) == Some(b"HdrS")
}

/// The ELF file of a kernel.
fn vmlinux(argument: &str, quiet: bool) -> Result<PathBuf> {
    let spec = KernelSpec::parse(argument, Path::new("")).map_err(HasStatus::carried)?;
    if let KernelSpec::BuildDir(folder) = &spec {
        // Only vmlinux is needed, so the compressed image may be missing.
        let vmlinux = folder.join("vmlinux");
        return if vmlinux.is_file() {
            Ok(vmlinux)
        } else {
            Err(missing(argument, "build it in this folder (make vmlinux)".into()))
        };
    }
    let cache = default_cache().map_err(HasStatus::carried)?;
    let interrupt = Interrupt::install()
        .context("cannot install the signal handler")
        .status(Status::Missing)?;
    let mut shown = Phases::new(quiet);
    let kernel =
        prepare(&spec, &cache, false, &interrupt, &mut |phase, done| shown.report(phase, done));
    shown.end();
    let kernel = kernel.map_err(|error| match error {
        KernelError::NotBuilt { .. } => {
            FileError::Unknown { name: argument.to_owned(), error }.carried()
        }
        error => error.carried(),
    })?;
    let debug = kernel
        .release
        .as_ref()
        .map(|release| Path::new(DEBUG_FILES).join(format!("boot/vmlinux-{release}")));
    let beside = beside(&kernel.image);
    let candidates = kernel.vmlinux.into_iter().chain(beside).chain(debug.clone());
    candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        let remedy = match (kernel.release, debug) {
            (Some(release), Some(debug)) => format!(
                "give the folder it was built in, or its vmlinux; of Debian's kernels install linux-image-{release}-dbg, which has {}",
                debug.display()
            ),
            _ => "give the folder it was built in, or its vmlinux".into(),
        };
        missing(argument, remedy)
    })
}

/// The vmlinux with debug information that a distribution packages for a kernel, if it is installed and is of the same build.
///
/// `name`: the kernel as the user named it; `image`: SHA-256 of its image, hexadecimal.
pub(crate) fn debug_vmlinux(name: &str, image: &str, debug_files: &DebugFiles) -> Option<PathBuf> {
    let spec = KernelSpec::parse(name, Path::new("")).ok()?;
    let interrupt = Interrupt::install().ok()?;
    let kernel = prepare(&spec, &default_cache().ok()?, false, &interrupt, &mut |_, _| ()).ok()?;
    let path = debug_files.folder().join(format!("boot/vmlinux-{}", kernel.release.as_ref()?));
    if kernel.digest != image || !path.is_file() {
        return None;
    }
    let image = foreign_file::read(&kernel.image, WHOLE_BYTES_MAX).ok()?;
    let vmlinux = foreign_file::read(&path, WHOLE_BYTES_MAX).ok()?;
    is_same_build(&image, &vmlinux).then_some(path)
}

/// Whether a vmlinux has the number and date of the build that the header of an image has (Linux,
/// Documentation/arch/x86/boot.rst, `kernel_version`).
fn is_same_build(image: &[u8], vmlinux: &[u8]) -> bool {
    let build = || {
        let at = image.get(0x20e..0x210).filter(|_| is_kernel_image(image))?;
        let text = image.get(usize::from(u16::from_le_bytes(at.try_into().ok()?)) + 0x200..)?;
        let text = &text[..text.iter().position(|byte| *byte == 0)?];
        let number = text.iter().position(|byte| *byte == b'#')?;
        Some(text[number..].to_vec())
    };
    build().is_some_and(|build| vmlinux.windows(build.len()).any(|text| text == build))
}

/// The places where the vmlinux of an image may be: beside the image, or at the top of its build folder.
fn beside(image: &Path) -> Vec<PathBuf> {
    let sibling = image.parent().map(|folder| folder.join("vmlinux"));
    let top = image.ancestors().nth(4).filter(|_| image.ends_with("arch/x86/boot/bzImage"));
    sibling.into_iter().chain(top.map(|top| top.join("vmlinux"))).collect()
}

fn missing(kernel: &str, remedy: String) -> anyhow::Error {
    FileError::NoVmlinux { kernel: kernel.to_owned(), remedy }.carried()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vmlinux_is_of_the_build_that_the_image_names() {
        let mut image = vec![0; 0x300];
        image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x80u16.to_le_bytes());
        let version = b"6.1.0-56 (debian) #1 SMP Debian 6.1.192-2 (2026-11-16)\0";
        image[0x280..0x280 + version.len()].copy_from_slice(version);
        let banner = |build: &str| format!("Linux version 6.1.0-56 (gcc) {build}\n").into_bytes();
        assert!(is_same_build(&image, &banner("#1 SMP Debian 6.1.192-2 (2026-11-16)")));
        assert!(!is_same_build(&image, &banner("#1 SMP Debian 6.1.192-1 (2026-11-16)")));
        assert!(!is_same_build(b"no image", &banner("")));
    }

    #[test]
    fn an_image_is_sought_beside_itself_and_at_the_top_of_its_folder() {
        let found = beside(Path::new("/src/linux/arch/x86/boot/bzImage"));
        assert_eq!(
            found,
            [Path::new("/src/linux/arch/x86/boot/vmlinux"), Path::new("/src/linux/vmlinux")]
        );
        assert_eq!(beside(Path::new("/boot/vmlinuz")), [Path::new("/boot/vmlinux")]);
    }
}
