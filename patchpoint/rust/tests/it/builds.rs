//! The crate and a program with sites, built by the compiler in the ways that matter for sites:
//! optimised or not, as one unit or not, at fixed addresses.

#[path = "../program/stack.rs"]
mod stack;

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a command and returns its output. Panics with the command's errors if it fails.
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

/// Builds the crate and a program or shared object of tests/program in a folder of its own.
fn build(name: &str, source: &str, options: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let place = folder.to_str().unwrap();
    let not_of_libraries =
        |option: &&&str| ["-Clto", "--crate-type"].iter().any(|of| option.starts_with(of));
    run(rustc(&[place, "src/lib.rs", "--crate-name=patchpoint", "--crate-type=rlib"])
        .args(["-L", env!("OUT_DIR"), "-lstatic=patchpoint", "-lstatic=patchpoint_object"])
        .args(["-Cpanic=abort"])
        .args(options.iter().filter(|option| !not_of_libraries(option))));
    let library = format!("patchpoint={place}/libpatchpoint.rlib");
    let source = format!("tests/program/{source}.rs");
    run(rustc(&[place, &source, "--extern", &library, "-Cpanic=abort"]).args(options));
    folder
}

/// Builds and runs the program, which prints how many sites it has.
fn check(name: &str, options: &[&str]) {
    let said = run(&mut Command::new(build(name, "stack", options).join("stack")));
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

unsafe extern "C" {
    fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(object: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(object: *mut c_void) -> c_int;
}

#[test]
fn a_shared_object_has_its_sites_patched_and_can_be_closed() {
    let folder = build("shared", "plugin", &["-Copt-level=3", "--crate-type=cdylib"]);
    let file = CString::new(folder.join("libplugin.so").to_str().unwrap()).unwrap();
    let now = 2; // RTLD_NOW
    // SAFETY: a file name; the object's constructors are patchpoint's own.
    let object = unsafe { dlopen(file.as_ptr(), now) };
    assert!(!object.is_null());
    let function = |name: &std::ffi::CStr| -> extern "C" fn() -> i32 {
        // SAFETY: an open object, and a function that has this type.
        unsafe {
            let found = dlsym(object, name.as_ptr());
            assert!(!found.is_null());
            std::mem::transmute(found)
        }
    };
    let (reads, changes) = (function(c"plugin_reads"), function(c"plugin_changes"));
    assert_eq!(reads(), 4);
    assert_eq!(changes(), if cfg!(patchpoint_native) { 3 } else { 0 });
    assert_eq!(reads(), 107);
    // SAFETY: nothing executes the object's code any more.
    assert_eq!(unsafe { dlclose(object) }, 0);
}
