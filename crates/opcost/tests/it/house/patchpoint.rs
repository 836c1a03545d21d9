//! The folder `patchpoint` could be a repository of its own: nothing in it needs a file outside of it.

use crate::lab::{files, root};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs a program in a folder; returns what it printed.
fn run(program: &str, words: &[&str], folder: &Path) -> String {
    let output = Command::new(program)
        .args(words)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {words:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn it_is_built_elsewhere_as_its_readme_says() {
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("patchpoint");
    let source = root().join("patchpoint");
    for file in files(&source) {
        let real = file.canonicalize().unwrap();
        assert!(real.starts_with(&source), "{} leads out of the folder", file.display());
        let to = copy.join(file.strip_prefix(&source).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(&file, to).unwrap();
    }
    for link in ["rust/c/include/patchpoint.h", "rust/c/src/write.c", "rust/LICENSE-MIT"] {
        assert!(copy.join(link).exists(), "{link}");
    }
    let readme = fs::read_to_string(copy.join("README.md")).unwrap();
    assert!(readme.contains("cmake -S . -B build && cmake --build build && ctest"));
    run("cmake", &["-S", ".", "-B", "build", "-DPATCHPOINT_TESTS=OFF"], &copy);
    run("cmake", &["--build", "build", "--parallel", "2"], &copy);
    assert!(copy.join("build/libpatchpoint.so").exists());
    let cargo = env!("CARGO");
    let known = run(cargo, &["metadata", "--offline", "--locked", "--format-version=1"], &copy);
    for name in ["patchpoint", "patchpoint-attach", "patchpoint-log"] {
        assert!(known.contains(&format!("\"name\":\"{name}\"")), "{name}");
    }
    let root = root();
    assert!(!known.contains(root.to_str().unwrap()), "a crate of the repository is needed");
    run(
        cargo,
        &["build", "--offline", "--locked", "--quiet", "--package", "patchpoint-log"],
        &copy,
    );
}

#[test]
fn the_first_page_s_program_compiles() {
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, block) = page.split_once("```c\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    assert!(block.contains("PATCHPOINT_DEFINE_BRANCH"), "{block}");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("part.c"), block).unwrap();
    let include = format!("-I{}", root().join("patchpoint/include").display());
    let words = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-c", "part.c", &include];
    run("cc", &words, folder.path());
}
