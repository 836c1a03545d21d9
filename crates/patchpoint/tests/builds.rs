//! The crate and a program with sites, built by the compiler in the ways that matter for sites:
//! optimised or not, as one unit or not, at fixed addresses.

#[path = "program/stack.rs"]
mod stack;

use std::path::Path;
use std::process::Command;

/// Runs a command; its output. Panics with what it said on errors.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn rustc(options: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    command.args(["--edition=2024", "--out-dir"]).args(options);
    if cfg!(patchpoint_native) {
        command.args(["--cfg", "patchpoint_native"]);
    }
    command
}

/// Builds crate and program with some options, and runs the program; it says how many sites it has.
fn check(name: &str, options: &[&str]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let place = folder.to_str().unwrap();
    run(rustc(&[place, "src/lib.rs", "--crate-name=patchpoint", "--crate-type=rlib"])
        .args(["-L", env!("OUT_DIR"), "-lstatic=patchpoint", "-lstatic=patchpoint_object"])
        .args(["-Cpanic=abort"])
        .args(options.iter().filter(|option| !option.starts_with("-Clto"))));
    let library = format!("patchpoint={place}/libpatchpoint.rlib");
    let program = [place, "tests/program/stack.rs", "--extern", &library, "-Cpanic=abort"];
    run(rustc(&program).args(options));
    let said = run(&mut Command::new(folder.join("stack")));
    let sites: u32 = said.split(' ').next().unwrap().parse().unwrap();
    assert!(!cfg!(patchpoint_native) || sites >= 14, "{said}");
    assert!(!cfg!(patchpoint_native) || !said.contains("none"), "{said}");
}

#[test]
fn sites_keep_the_stack_as_this_test_is_built() {
    stack::main();
}

#[test]
fn sites_keep_the_stack_unoptimised() {
    check("debug", &["-Copt-level=0"]);
}

#[test]
fn sites_keep_the_stack_optimised() {
    check("fast", &["-Copt-level=3"]);
}

#[test]
fn sites_keep_the_stack_in_one_optimised_unit() {
    check("fast-lto", &["-Copt-level=3", "-Clto=fat", "-Ccodegen-units=1"]);
}

#[test]
fn sites_keep_the_stack_in_one_unit_unoptimised() {
    check("debug-lto", &["-Copt-level=0", "-Clto=fat"]);
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
fn sites_are_found_in_a_static_program_at_fixed_addresses() {
    let fixed = ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"];
    check("static", &[&fixed[..], &["-Copt-level=3", "-Clto=fat"]].concat());
}
