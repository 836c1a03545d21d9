//! Compiles the spawner, a program of its own that `src/spawn/spawner.rs` embeds.

use std::env;
use std::path::Path;

/// Compiler flags for a static program without a C library; it needs only a few pages of memory.
const FLAGS: [&str; 12] = [
    "-std=c11",
    "-Wall",
    "-Wextra",
    "-static",
    "-nostdlib",
    "-ffreestanding",
    "-fno-pie",
    "-fno-stack-protector",
    // Sanitizers of the crate (fuzz targets, CFLAGS) need a library, and the spawner has none.
    "-fno-sanitize=all",
    "-fno-asynchronous-unwind-tables",
    // Clang has no use for -no-pie beside -static, and gcc needs it where it makes PIEs by default.
    "-Wl,-no-pie",
    "-Wl,--build-id=none,-z,noexecstack,-z,noseparate-code",
];

fn main() {
    let source = "src/spawn/spawner.c";
    println!("cargo::rerun-if-changed={source}");
    println!("cargo::rustc-check-cfg=cfg(has_spawner)");
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") != "linux" || !["x86_64", "aarch64"].contains(&target("ARCH").as_str()) {
        return;
    }
    println!("cargo::rustc-cfg=has_spawner");
    let spawner = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("spawner");
    let compiler = cc::Build::new().pic(false).debug(false).opt_level(2).get_compiler();
    let mut command = compiler.to_command();
    let built = command.args(FLAGS).arg(source).arg("-o").arg(&spawner).status();
    let status = built.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?} failed: {status}");
}
