//! The crates are rooms: each depends only on rooms listed before it, and none holds too much.

use super::tidy::with_ending;
use crate::lab::root;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates from the ground up. Cargo forbids circles; this order also keeps an early crate from ever needing a later one.
const ROOMS: &[&str] = &[
    "opcost-region",
    "opcost-record",
    "opcost-stats",
    "opcost-sys",
    "opcost-work",
    "opcost-guest",
    "opcost-core-model",
    "opcost-kernel",
    "opcost-image",
    "opcost-symbols",
    "opcost-profile",
    "opcost-callgrind",
    "opcost-size",
    "opcost-emu",
    "opcost-page",
    "opcost-base",
    "opcost-source",
    "opcost-model",
    "opcost-store",
    "opcost-import",
    "opcost-steps",
    "opcost-attribution",
    "opcost-analysis",
    "opcost-gate",
    "opcost-report",
    "opcost-lab",
    "opcost-bench",
    "opcost-command",
    "opcost-revisions",
    "opcost-top",
    "opcost",
];

/// The largest number of product lines of a crate: its `src` without tests.
const PRODUCT_LINES_MAX: usize = 15_000;

/// The largest share of all lines of Rust under `crates` that one crate's `src` may have.
const SHARE_MAX: f64 = 0.15;

/// Crates and modules without clock, file, process or variable: their input alone decides.
const PURE: [(&str, &[&str]); 12] = [
    ("opcost-analysis", &[]),
    ("opcost-attribution", &[]),
    ("opcost-base", &["failure", "json", "number"]),
    ("opcost-core-model", &[]),
    ("opcost-gate", &[]),
    ("opcost-lab", &["calibration", "stopping"]),
    ("opcost-model", &["plan", "recording"]),
    ("opcost-page", &[]),
    ("opcost-report", &[]),
    ("opcost-size", &[]),
    ("opcost-stats", &[]),
    ("opcost-steps", &[]),
];

/// Words for architectures in analysis, pages, gate and store, in lower case: the file, the word, and why it stands there.
const NAMES_OF_ARCHITECTURES: [(&str, &str, &str); 3] = [
    (
        "opcost-attribution/src/patch_sites.rs",
        "__x86_indirect",
        "symbols of Linux, which other kernels lack",
    ),
    (
        "opcost-report/src/render/annotated/mod.rs",
        "64-bit x86",
        "a sentence names what opcost disassembles",
    ),
    ("opcost-report/src/render/annotated/mod.rs", "64-bit arm", "the same sentence"),
];

/// A crate's source without its tests and comments: the file below `src`, and its text.
fn sources(name: &str) -> Vec<(PathBuf, String)> {
    let folder = root().join("crates").join(name).join("src");
    let of_crate = with_ending("rs").into_iter().filter_map(|(path, text)| {
        let file = path.strip_prefix(&folder).ok()?.to_path_buf();
        let is_test = file.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part == "tests"
                || part.ends_with("tests.rs")
                || part.ends_with("_tests")
                || part == "fixture.rs"
        });
        (!is_test).then(|| (file, code(&text)))
    });
    of_crate.collect()
}

/// The text of a file without comments, and without the test modules that end it.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_crate_depends_on_crates_listed_before_it() {
    let place = |name: &str| ROOMS.iter().position(|room| *room == name);
    let mut there = 0;
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let own = place(&name).unwrap_or_else(|| panic!("{name} has no place among the rooms"));
        let manifest = root().join("crates").join(&name).join("Cargo.toml");
        let manifest: toml::Table = toml::from_str(&fs::read_to_string(manifest).unwrap()).unwrap();
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        let ours = |of: &&String| of.starts_with("opcost");
        for other in dependencies.into_iter().flat_map(toml::Table::keys).filter(ours) {
            assert!(place(other) < Some(own), "{name} must not need {other}");
        }
        there += 1;
    }
    assert_eq!(there, ROOMS.len(), "the list names a crate that does not exist");
}

#[test]
fn no_room_holds_too_much() {
    let lines = |text: &str| text.lines().count();
    let all: usize = with_ending("rs").iter().map(|(_, text)| lines(text)).sum();
    for name in ROOMS {
        let folder = root().join("crates").join(name).join("src");
        let product: usize = sources(name).iter().map(|(_, text)| lines(text)).sum();
        assert!(product <= PRODUCT_LINES_MAX, "{name} has {product} product lines");
        let whole: usize = with_ending("rs")
            .iter()
            .filter(|(path, _)| path.starts_with(&folder))
            .map(|(_, text)| lines(text))
            .sum();
        let share = whole as f64 / all as f64;
        assert!(share < SHARE_MAX, "{name} has {:.1} % of {all} lines", share * 100.0);
    }
}

#[test]
fn what_is_pure_sees_nothing_of_the_machine() {
    let seen =
        ["std::fs", "std::env", "std::process", "std::net", "Instant", "SystemTime", "opcost_sys"];
    let module = |file: &Path| file.iter().next().map(Path::new).unwrap().with_extension("");
    for (name, modules) in PURE {
        let is_pure = |file: &Path| {
            modules.is_empty() || modules.iter().any(|pure| module(file) == Path::new(pure))
        };
        let pure: Vec<_> = sources(name).into_iter().filter(|(file, _)| is_pure(file)).collect();
        assert!(!pure.is_empty(), "{name} has none of {modules:?}");
        for (file, text) in pure {
            // This function only parses text.
            let text = text.replace("opcost_sys::affinity::parse_cpu_list", "");
            for what in seen {
                assert!(!text.contains(what), "{name}/src/{} uses {what}", file.display());
            }
        }
    }
}

#[test]
fn no_analysis_page_gate_or_store_names_an_architecture() {
    let words =
        ["x86", "i386", "amd64", "aarch64", "arm64", "64-bit arm", "target_arch", "architecture::"];
    let without = [
        "opcost-analysis",
        "opcost-attribution",
        "opcost-gate",
        "opcost-page",
        "opcost-report",
        "opcost-store",
    ];
    for name in without {
        let all = sources(name);
        assert!(!all.is_empty(), "{name} has no source");
        for (file, text) in all {
            let file = format!("{name}/src/{}", file.display());
            let mut text = text.to_lowercase();
            for (_, allowed, _) in NAMES_OF_ARCHITECTURES.iter().filter(|(of, ..)| *of == file) {
                text = text.replace(allowed, "");
            }
            for word in words {
                assert!(!text.contains(word), "{file} says {word}: ask the row of opcost-record");
            }
        }
    }
    for (file, ..) in NAMES_OF_ARCHITECTURES {
        assert!(root().join("crates").join(file).exists(), "{file}");
    }
}

#[test]
fn a_file_s_code_is_without_comments_and_tests() {
    let text = "use crate::a; // crate::b\n#[cfg(test)]\nmod tests { crate::c }";
    assert_eq!(code(text), "use crate::a; ");
}

#[test]
fn every_source_file_is_part_of_its_crate() {
    for (path, _) in with_ending("rs") {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        let Some(at) = parts.iter().rposition(|part| *part == "src") else { continue };
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if !parts.contains(&"crates")
            || at + 2 > parts.len()
            || ["lib", "main"].contains(&stem.as_str())
        {
            continue;
        }
        let folder = path.parent().unwrap();
        let (module, folder) = match stem.as_str() {
            "mod" => {
                let name = folder.file_name().unwrap().to_string_lossy().into_owned();
                (name, folder.parent().unwrap())
            }
            _ => (stem.clone(), folder),
        };
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let above = folder.with_extension("rs");
        let near = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let declares = |candidate: &Path| {
            fs::read_to_string(candidate).is_ok_and(|text| {
                text.contains(&format!("mod {module};")) || text.contains(&format!("{file}\"]"))
            })
        };
        assert!(
            near.chain([above]).any(|candidate| declares(&candidate)),
            "nothing has {}",
            path.display()
        );
    }
}
