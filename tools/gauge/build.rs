//! Compiles each file of kernels once a build, by two compilers at several levels, so that pairs of builds show directions.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds: name, compiler and level. A build whose compiler is missing is left out.
const BUILDS: [(&str, &str, &str); 4] = [
    ("gcc-O1", "gcc", "-O1"),
    ("gcc-Os", "gcc", "-Os"),
    ("gcc-O3", "gcc", "-O3"),
    ("clang-O2", "clang", "-O2"),
];

/// The timed code calls no libraries, so that host and guest run the same machine code. Floating point is compiled as written, so
/// that all builds compute the same sums.
const FLAGS: [&str; 10] = [
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-ffreestanding",
    "-fno-builtin",
    "-ffp-contract=off",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
    "-fvisibility=hidden",
];

/// Files that are compiled once: data, loops and code that all builds share.
const ONCE: [&str; 3] = ["data.c", "loops.c", "straight.c"];

/// The file of kernels that not every emulated CPU can run.
const WIDE: &str = "wide.c";

fn main() {
    let kernels = Path::new("kernels");
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rustc-check-cfg=cfg(has_kernels)");
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") != "linux" || target("ARCH") != "x86_64" {
        return;
    }
    println!("cargo::rustc-cfg=has_kernels");
    let mut data = build("gcc", "-O2", "x86-64-v2");
    data.files(ONCE.map(|name| kernels.join(name))).compile("gauge_data");
    let entries = kernels.read_dir().expect("kernels/ can be read").flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default();
        path.extension().is_some_and(|it| it == "c") && !ONCE.iter().any(|once| name == *once)
    });
    // The table of kernels has the order of the files.
    files.sort();
    let mut builds = 0;
    for (name, compiler, level) in BUILDS {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("cargo::warning=no {compiler} here: the gauge has no kernels of {name}");
            continue;
        }
        for (library, march, wide) in [("", "x86-64-v2", false), ("_wide", "x86-64-v3", true)] {
            let mut all = build(compiler, level, march);
            all.define("GAUGE_BUILD", format!("\"{name}\"").as_str());
            all.files(files.iter().filter(|path| path.ends_with(WIDE) == wide));
            all.compile(&format!("gauge_{}{library}", name.replace('-', "_")));
        }
        builds += 1;
    }
    // Otherwise lld drops the table's section, which only its two ends name (https://lld.llvm.org/ELF/start-stop-gc).
    println!("cargo::rustc-link-arg=-Wl,-z,nostart-stop-gc");
    assert!(builds > 0, "neither gcc nor clang is here to build the kernels; install gcc");
}

/// One way of compiling, independent of this build's own profile.
fn build(compiler: &str, level: &str, march: &str) -> cc::Build {
    let mut build = cc::Build::new();
    build.compiler(compiler).no_default_flags(true).warnings(false);
    // Cargo links test programs position independent; the static program has the same code.
    build.flag("-fpie").flag(level).flag(format!("-march={march}"));
    for flag in FLAGS {
        build.flag(flag);
    }
    // No symbol of this program names a kernel: kernels register themselves in a section.
    build.link_lib_modifier("+whole-archive");
    build
}
