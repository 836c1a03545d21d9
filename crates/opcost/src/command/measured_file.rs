//! Finds the file with the symbols of a program or kernel that the user names.

use anyhow::{Context, Result};
use opcost_base::exit::{HasStatus, Status, WithStatus};
use opcost_base::phases::Phases;
use opcost_kernel::{KernelError, KernelSpec, architecture_of, default_cache, prepare};
use opcost_record::architecture::{ARCHITECTURES, Architecture, ArchitectureRow};
use opcost_symbols::debug_files::DEBUG_FILES;
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
        return match architecture_of(&found.1) {
            Some(architecture) => read(&vmlinux(argument, architecture, quiet)?),
            None => Ok(found),
        };
    }
    // A folder without a kernel, or a path that does not exist, does not name a kernel.
    if path.is_dir() && built_for(path).is_none() || argument.contains('/') && !path.exists() {
        return read(path);
    }
    read(&vmlinux(argument, built_for(path).unwrap_or_default(), quiet)?)
}

/// The architecture of the kernel that was built in a folder; `None` if none was.
fn built_for(folder: &Path) -> Option<Architecture> {
    let has = |of: &Path| folder.join(of).is_dir();
    let image = |row: &&ArchitectureRow| folder.join(row.image).is_file();
    // "arch/x86" of "arch/x86/boot/bzImage"; a folder of sources has all of these.
    let source = |row: &&ArchitectureRow| Path::new(row.image).ancestors().nth(2).is_some_and(has);
    let built = ARCHITECTURES.iter().find(image).or_else(|| ARCHITECTURES.iter().find(source));
    built.map(|row| row.architecture)
}

/// The ELF file of a kernel.
fn vmlinux(argument: &str, architecture: Architecture, quiet: bool) -> Result<PathBuf> {
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
    let kernel = prepare(&spec, architecture, &cache, false, &interrupt, &mut |phase, done| {
        shown.report(phase, done)
    });
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

/// The places where the vmlinux of an image may be: beside the image, or at the top of its build folder.
fn beside(image: &Path) -> Vec<PathBuf> {
    let sibling = image.parent().map(|folder| folder.join("vmlinux"));
    let built = ARCHITECTURES.iter().any(|row| image.ends_with(row.image));
    let top = image.ancestors().nth(4).filter(|_| built);
    sibling.into_iter().chain(top.map(|top| top.join("vmlinux"))).collect()
}

fn missing(kernel: &str, remedy: String) -> anyhow::Error {
    FileError::NoVmlinux { kernel: kernel.to_owned(), remedy }.carried()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_sought_beside_itself_and_at_the_top_of_its_folder() {
        let found = beside(Path::new("/src/linux/arch/x86/boot/bzImage"));
        assert_eq!(
            found,
            [Path::new("/src/linux/arch/x86/boot/vmlinux"), Path::new("/src/linux/vmlinux")]
        );
        let found = beside(Path::new("/src/linux/arch/arm64/boot/Image"));
        assert_eq!(found[1], Path::new("/src/linux/vmlinux"));
        assert_eq!(beside(Path::new("/boot/vmlinuz")), [Path::new("/boot/vmlinux")]);
    }
}
