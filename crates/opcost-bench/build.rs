//! Compiles the clock, a library that `src/clock.rs` embeds.

use std::env;
use std::path::Path;

fn main() {
    let source = "src/clock.c";
    println!("cargo::rerun-if-changed={source}");
    println!("cargo::rustc-check-cfg=cfg(has_clock)");
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") != "linux" || target("ARCH") != "x86_64" {
        return;
    }
    println!("cargo::rustc-cfg=has_clock");
    let library = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("clock.so");
    let compiler = cc::Build::new().pic(true).debug(false).opt_level(2).get_compiler();
    let mut command = compiler.to_command();
    // Sanitizers of the crate (fuzz targets, CFLAGS) would need their library in every benchmark.
    let flags = [
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-shared",
        "-fno-sanitize=all",
        "-Wl,--build-id=none,-z,now",
    ];
    let built = command.args(flags).arg(source).arg("-o").arg(&library).status();
    let status = built.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?} failed: {status}");
}
