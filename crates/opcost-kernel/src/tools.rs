//! Checks for the programs and headers that a build needs, and reports all missing ones at once.

use super::config::Config;
use super::error::KernelError;
use super::spec::Toolchain;
use super::step::{Steps, words};
use std::path::Path;

/// Programs that every build needs beside compiler and linker, with their Debian packages.
const PROGRAMS: [(&str, &str); 5] =
    [("make", "make"), ("flex", "flex"), ("bison", "bison"), ("bc", "bc"), ("tar", "tar")];
/// Compressors of the image, by option (arch/x86/boot/compressed/Makefile).
const PACKERS: [(&str, &str, &str); 6] = [
    ("KERNEL_GZIP", "gzip", "gzip"),
    ("KERNEL_BZIP2", "bzip2", "bzip2"),
    ("KERNEL_LZMA", "lzma", "xz-utils"),
    ("KERNEL_XZ", "xz", "xz-utils"),
    ("KERNEL_LZ4", "lz4", "lz4"),
    ("KERNEL_ZSTD", "zstd", "zstd"),
];

/// Checks that everything for a build of `asked` from `source`, a file or folder, is there.
pub(super) fn check(
    steps: &mut Steps<'_>,
    toolchain: &Toolchain,
    cross: &str,
    asked: &Config,
    source: &Path,
    patched: bool,
) -> Result<(), KernelError> {
    let mut others = PROGRAMS.to_vec();
    if patched {
        others.push(("patch", "patch"));
    }
    match source.extension().and_then(|ending| ending.to_str()) {
        Some("xz") => others.push(("xz", "xz-utils")),
        Some("zst") => others.push(("zstd", "zstd")),
        Some("bz2") => others.push(("bzip2", "bzip2")),
        _ => {}
    }
    for (option, program, package) in PACKERS {
        if asked.0.get(option).is_some_and(|value| value == "y") {
            others.push((program, package));
        }
    }
    let others = others.into_iter().map(|(program, package)| (program.into(), package.into()));
    let needed = toolchain.programs(cross).into_iter().chain(others);
    let mut missing: Vec<(String, String)> =
        needed.filter(|(program, _)| steps.find(program).is_err()).collect();
    // Headers can be checked only with a compiler. objtool needs this header.
    let compiler = toolchain.host_compiler();
    if steps.find(compiler).is_ok() && !has_header(steps, compiler, "gelf.h")? {
        missing.push(("libelf's headers".into(), "libelf-dev".into()));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (missing, mut packages): (Vec<String>, Vec<String>) = missing.into_iter().unzip();
    packages.sort();
    packages.dedup();
    Err(KernelError::Tools { missing, packages })
}

fn has_header(steps: &mut Steps<'_>, compiler: &str, header: &str) -> Result<bool, KernelError> {
    let argv = words(&[&compiler, &"-E", &"-include", &header, &"-x", &"c", &"/dev/null"]);
    match steps.run("looking at the tools", Path::new("/"), &argv, &[]) {
        Ok(_) => Ok(true),
        Err(KernelError::Step { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The first line of each version text of compiler and linker, which determine the image's bytes.
pub(super) fn versions(
    steps: &mut Steps<'_>,
    toolchain: &Toolchain,
    cross: &str,
) -> Result<String, KernelError> {
    let mut lines = Vec::new();
    for program in [toolchain.compiler(cross), toolchain.linker(cross)] {
        let argv = words(&[&program, &"--version"]);
        let output = steps.run("looking at the tools", Path::new("/"), &argv, &[])?;
        lines.extend(output.lines().next().map(ToString::to_string));
    }
    Ok(lines.join("; "))
}
