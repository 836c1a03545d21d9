//! The one version of library and crate, and the dependency as the guide writes it.

use std::fs::{create_dir_all, read_to_string, write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of library and crates.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

#[test]
fn crate_and_library_have_one_version() {
    let header = read_to_string("c/include/patchpoint.h").unwrap();
    let line = header.lines().find_map(|line| line.strip_prefix("#define PATCHPOINT_VERSION "));
    assert_eq!(line.unwrap().trim_matches('"'), env!("CARGO_PKG_VERSION"));
    let abi = match env!("CARGO_PKG_VERSION_MAJOR") {
        "0" => concat!("0.", env!("CARGO_PKG_VERSION_MINOR")),
        major => major,
    };
    let map = read_to_string("c/src/patchpoint.map").unwrap();
    assert!(map.starts_with(&format!("PATCHPOINT_{abi} {{")), "{map}");
}

/// Builds and runs the program of the crate's README, which depends on the crate by `line`.
fn run_program(folder: &Path, line: &str) {
    // A folder of its own for what cargo fetches, beside the crates that are there.
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo"),
        PathBuf::from,
    );
    let own = folder.join("home");
    create_dir_all(&own).unwrap();
    let _ = std::os::unix::fs::symlink(home.join("registry"), own.join("registry"));
    let _ = std::fs::copy(home.join("config.toml"), own.join("config.toml"));
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let manifest = format!(
        "[package]\nname = \"first\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{line}\n\n[workspace]\nexclude = [\"patchpoint\"]\n"
    );
    write(folder.join("Cargo.toml"), manifest).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet"])
        .current_dir(folder)
        .env("CARGO_HOME", &own)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    assert!(errors.contains("work(2)") && !errors.contains("work(1)"), "{errors}");
}

#[test]
fn a_program_depends_on_the_crate_as_the_guide_says() {
    let guide = read_to_string(root().join("docs/patchpoint.md")).unwrap();
    let line = guide.lines().find(|line| line.starts_with("patchpoint = {")).unwrap();
    let (by_path, by_address) = line.split_once("# or ").unwrap();
    let by_address = format!("patchpoint = {by_address}");
    assert!(
        by_path.contains("\"patchpoint/rust\"") && by_address.contains("\"ADDRESS\""),
        "{line}"
    );

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("depends");
    let _ = std::fs::remove_dir_all(&folder);
    create_dir_all(folder.join("src")).unwrap();
    let readme = read_to_string("README.md").unwrap();
    let (_, program) = readme.split_once("```rust\n").unwrap();
    let (program, _) = program.split_once("```").unwrap();
    write(folder.join("src/main.rs"), program).unwrap();
    std::os::unix::fs::symlink(root(), folder.join("patchpoint")).unwrap();
    run_program(&folder, by_path);
    let root = root();
    let Some(repository) = root.ancestors().find(|folder| folder.join(".git").exists()) else {
        crate::skip::skip!("these sources are no git repository to depend on");
        return;
    };
    if repository.join(".git/shallow").exists() {
        crate::skip::skip!("cargo cannot fetch from a repository without its history");
        return;
    }
    let address = format!("file://{}", repository.display());
    run_program(&folder, &by_address.replace("ADDRESS", &address));
}
