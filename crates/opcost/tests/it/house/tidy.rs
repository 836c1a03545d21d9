//! The house rules that a program can check.

use crate::lab::{files, root};
use crate::made;
use opcost_import::import::{self, parsed::Input};
use opcost_model::guest_settings::{GuestSettings, StoredSetting};
use opcost_sys::budget::Budget;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn with_ending(ending: &str) -> Vec<(PathBuf, String)> {
    let files = files(&root())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|found| found == ending));
    files.map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn unsafe_code_stays_at_the_edge() {
    let libraries = [
        "opcost",
        "opcost-analysis",
        "opcost-attribution",
        "opcost-base",
        "opcost-core-model",
        "opcost-gate",
        "opcost-import",
        "opcost-kernel",
        "opcost-lab",
        "opcost-model",
        "opcost-page",
        "opcost-profile",
        "opcost-record",
        "opcost-report",
        "opcost-size",
        "opcost-source",
        "opcost-stats",
        "opcost-store",
        "opcost-symbols",
        "opcost-top",
    ];
    for name in libraries {
        let lib = fs::read_to_string(root().join("crates").join(name).join("src/lib.rs")).unwrap();
        assert!(lib.contains("#![forbid(unsafe_code)]"), "{name} may hold unsafe code");
    }
    for name in ["opcost", "opcost-guest"] {
        let main =
            fs::read_to_string(root().join("crates").join(name).join("src/main.rs")).unwrap();
        assert!(main.contains("#![forbid(unsafe_code)]"), "{name} may hold unsafe code");
    }
}

#[test]
fn every_promise_of_the_security_page_has_its_test() {
    let page = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let sources: Vec<String> = with_ending("rs").into_iter().map(|(_, text)| text).collect();
    let mut tests = 0;
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| threat")) {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test shows this promise: {row}");
        for name in names {
            let declared = format!("fn {name}(");
            let is_test = |text: &String| {
                text.match_indices(&declared).any(|(at, _)| {
                    text[..at].trim_end().lines().rev().take(2).any(|line| line.trim() == "#[test]")
                })
            };
            assert!(sources.iter().any(is_test), "docs/security.md names the test {name}");
            tests += 1;
        }
    }
    assert!(tests > 20, "only {tests} tests are named");
}

/// The crates that make up the command `opcost`.
const ROOMS_OF_OPCOST: [&str; 12] = [
    "opcost",
    "opcost-analysis",
    "opcost-attribution",
    "opcost-base",
    "opcost-gate",
    "opcost-import",
    "opcost-lab",
    "opcost-model",
    "opcost-page",
    "opcost-report",
    "opcost-source",
    "opcost-store",
];

/// Names of others are made harmless in few places: messages in `message`, JSON in `json`, standard output in `output`. A second
/// way out would need a second defence.
#[test]
fn text_leaves_opcost_by_few_doors() {
    let doors: [(&str, &[&str]); 6] = [
        ("eprint", &[]),
        ("writeln!(stderr()", &["opcost-base/src/message.rs"]),
        ("println!(", &[]),
        ("stderr().write", &["opcost-lab/src/machine/printed.rs"]),
        ("stdout().write", &["opcost/src/command/output.rs", "opcost-lab/src/machine/printed.rs"]),
        ("serde_json::to_string_pretty(", &["opcost-base/src/json.rs"]),
    ];
    let crates = root().join("crates");
    for (path, text) in with_ending("rs") {
        let Ok(file) = path.strip_prefix(&crates) else { continue };
        let name = file.to_string_lossy();
        let is_part =
            ROOMS_OF_OPCOST.iter().any(|room| file.starts_with(Path::new(room).join("src")));
        if !is_part || name.ends_with("tests.rs") || name.contains("_tests/") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (way, may) in doors {
            let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
            let uses = lines
                .filter(|line| line.contains(way))
                .any(|line| way != "println!(" || !line.contains("eprintln!("));
            let may = may.iter().any(|name| file == Path::new(name));
            assert!(
                !uses || may,
                "{} uses {way}: names in it are not made harmless",
                file.display()
            );
        }
    }
}

/// The paths of this repository that a page has in code, or a comment in its text.
fn named_paths(path: &Path, text: &str) -> Vec<String> {
    let in_page = path.extension().is_some_and(|ending| ending == "md");
    let words: Vec<&str> = if in_page {
        let quoted = text.split('`').skip(1).step_by(2);
        quoted.map(|code| code.split([' ', ':']).next().unwrap_or_default()).collect()
    } else {
        let comments = text.lines().map(str::trim_start);
        let comments = comments
            .filter(|line| ["//", "# ", "/*", "* "].iter().any(|mark| line.starts_with(mark)));
        comments.flat_map(|line| line.split([' ', '`', '(', ')', ',', ':', '"'])).collect()
    };
    // The folder tools of comments is Linux's.
    let ours = ["crates/", "docs/", "script/", "experiments/", "kernels/", "patchpoint/", ".ci/"];
    words
        .into_iter()
        .map(|word| if in_page { word } else { word.trim_end_matches(['.', ';', '\'']) })
        .filter(|word| {
            ours.iter().any(|folder| word.starts_with(folder))
                || in_page && word.starts_with("tools/")
        })
        // Output and placeholders are no paths of the project; QEMU has a folder docs, too.
        .filter(|word| !word.contains(['*', '<', '…']) && !word.contains("NAME"))
        .filter(|word| in_page || !word.starts_with("docs/") || word.ends_with(".md"))
        .map(String::from)
        .collect()
}

#[test]
fn paths_named_in_documents_and_comments_exist() {
    let code = Path::new("x.rs");
    assert_eq!(
        named_paths(code, "// see (`crates/none.rs`).\nlet a = \"docs/b.md\";\n"),
        ["crates/none.rs"]
    );
    let (mut in_pages, mut in_comments) = (0, 0);
    for path in files(&root()) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let parts = [root(), root().join("patchpoint"), root().join("tools/gauge")];
        for named in named_paths(&path, &text) {
            let exists =
                parts.iter().any(|part| path.starts_with(part) && part.join(&named).exists());
            assert!(exists, "{} names {named}", path.display());
            let in_page = path.extension().is_some_and(|ending| ending == "md");
            *(if in_page { &mut in_pages } else { &mut in_comments }) += 1;
        }
    }
    assert!(in_pages > 10 && in_comments > 10, "only {in_pages}, {in_comments} paths were found");
}

#[test]
fn every_glossary_word_is_used() {
    let glossary = fs::read_to_string(root().join("GLOSSARY.md")).unwrap();
    let cells = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let words: Vec<String> = cells
        .flat_map(|cell| cell.split(','))
        .map(|word| word.split('(').next().unwrap_or_default().trim().to_lowercase())
        .collect();
    assert!(words.len() > 40, "only {} words were found", words.len());
    let texts: Vec<String> = ["md", "rs", "c", "h"]
        .into_iter()
        .flat_map(with_ending)
        .filter(|(path, _)| !path.ends_with("GLOSSARY.md"))
        .map(|(_, text)| text.to_lowercase())
        .collect();
    for word in words {
        assert!(
            texts.iter().any(|text| text.contains(&word)),
            "GLOSSARY.md explains \"{word}\", which nothing uses; drop its row or use the word"
        );
    }
}

#[test]
fn no_file_is_named_after_nothing() {
    for path in files(&root()) {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let vague = ["utils", "util", "common", "helpers", "helper", "misc", "manager"];
        assert!(
            !vague.contains(&stem.as_str()),
            "{} says nothing of what it holds",
            path.display()
        );
    }
}

/// Where a module and its unit tests belong, as CONTRIBUTING.md says: returns the mistake, if there is one.
fn misplaced(path: &Path, text: &str) -> Option<&'static str> {
    let stem = path.file_stem()?.to_str()?;
    if path.with_extension("").is_dir() {
        return Some("belongs into its folder as mod.rs");
    }
    let of_tests = stem == "tests" || stem.ends_with("_tests");
    if of_tests {
        let (parent, declaration) = match stem.strip_suffix("_tests") {
            Some(tested) => (format!("{tested}.rs"), format!("#[path = \"{stem}.rs\"]\n")),
            None => ("mod.rs".to_string(), "#[cfg(test)]\n".to_string()),
        };
        let parent = fs::read_to_string(path.with_file_name(parent)).unwrap_or_default();
        let declared = parent
            .split_once(&declaration)
            .is_some_and(|(_, behind)| behind.contains("mod tests;"));
        return (!declared).then_some("is not `mod tests` of the file that it tests");
    }
    let before_end = Some("has `mod tests` before its end");
    if let Some(at) = text.find("mod tests;\n") {
        return before_end.filter(|_| !text[at..].ends_with("mod tests;\n"));
    }
    if let Some(at) = text.find("mod tests {\n") {
        // The end of the module is the end of the file.
        return before_end.filter(|_| text[at..].find("\n}\n") != Some(text.len() - at - 3));
    }
    // The files of a folder `tests` are parts of `mod tests`.
    let in_tests = path.parent().is_some_and(|folder| folder.ends_with("tests"));
    (!in_tests && text.contains("#[test]\n")).then_some("has tests outside of `mod tests`")
}

#[test]
fn modules_and_unit_tests_stand_where_one_looks_for_them() {
    let mut wrong = Vec::new();
    for (path, text) in with_ending("rs") {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        if parts.contains(&"crates") && parts.contains(&"src") {
            wrong.extend(misplaced(&path, &text).map(|why| format!("{} {why}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let file = root().join("crates/opcost-lab/src/run.rs");
    let wrong = |text: &str| misplaced(&file, text);
    assert_eq!(wrong("fn f() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n}\n"), None);
    assert_eq!(
        wrong("#[cfg(test)]\nmod tests;\nfn f() {}\n"),
        Some("has `mod tests` before its end")
    );
    assert_eq!(
        wrong("#[cfg(test)]\nmod tests {\n}\nfn f() {\n}\n"),
        Some("has `mod tests` before its end")
    );
    assert_eq!(wrong("#[test]\nfn f() {}\n"), Some("has tests outside of `mod tests`"));
    let beside = root().join("crates/opcost-lab/src/machine.rs");
    assert_eq!(misplaced(&beside, ""), Some("belongs into its folder as mod.rs"));
    let stray = root().join("crates/opcost-lab/src/run_tests.rs");
    assert_eq!(misplaced(&stray, ""), Some("is not `mod tests` of the file that it tests"));
}

mod metrics {
    use super::made;
    use opcost_analysis::comparison::compare;
    use opcost_model::recording::Recording;
    use opcost_record::{Family, METRICS, Reading};
    use opcost_report::render::{FORMATS, Style, View, render};

    /// A recording in which every run has every metric.
    fn recording() -> Recording {
        made::recording(made::plan(&["off", "on"], 4), |slot| {
            let value = |metric: usize| 1_000_000 + metric as u64 * 10 + u64::from(slot.slot);
            let keys = METRICS.iter().map(|row| made::key(row.name, row.source));
            keys.enumerate().map(|(metric, key)| Reading::plain(key, value(metric))).collect()
        })
    }

    #[test]
    fn every_row_reaches_every_format() {
        let recording = recording();
        let (comparison, warnings) = compare(&recording);
        let view = View {
            recording: &recording,
            comparison: &comparison,
            warnings: &warnings,
            style: &Style::plain(),
        };
        for format in FORMATS {
            let text = render(format.name, &view).unwrap();
            for row in METRICS.iter().filter(|row| row.family != Family::Control) {
                // The comparison judges one of two clocks; the raw runs have both.
                let judged = recording.plan.judges(&made::key(row.name, row.source));
                if !judged && format.name != "csv" {
                    continue;
                }
                // benchfmt gives elapsed time Go's own unit.
                let name = if (format.name, row.name) == ("benchfmt", "wall") {
                    "ns/op"
                } else {
                    row.name
                };
                assert!(text.contains(name), "{} is missing from {}", row.name, format.name);
            }
        }
    }

    #[test]
    fn every_selectable_row_is_listed() {
        let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_opcost"))
            .args(["list", "events", "--json"])
            .output()
            .unwrap();
        let events: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let names: Vec<&str> = events
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["name"].as_str().unwrap())
            .collect();
        for row in METRICS.iter().filter(|row| row.family != Family::Control) {
            assert!(names.contains(&row.name), "{} is not listed", row.name);
        }
    }
}

#[test]
fn every_experiment_that_ships_has_a_plan() {
    for (path, _) in with_ending("toml") {
        if path.parent() != Some(&root().join("experiments")) {
            continue;
        }
        assert_cmd::Command::new(env!("CARGO_BIN_EXE_opcost"))
            .arg("run")
            .arg(&path)
            .arg("--dry-run")
            .assert()
            .success();
    }
}

/// The optimisation level of a package in a profile, found through the profiles that it inherits from.
fn opt_level(profiles: &toml::Table, profile: &str, package: &str) -> String {
    let row = profiles.get(profile).and_then(toml::Value::as_table);
    let level = |table: &toml::Table| {
        table.get("opt-level").map(|level| level.to_string().replace('"', ""))
    };
    let of_package = row.and_then(|row| level(row.get("package")?.get(package)?.as_table()?));
    of_package.or_else(|| row.and_then(level)).unwrap_or_else(|| {
        let parent = row.and_then(|row| row.get("inherits")?.as_str());
        match (profile, parent) {
            ("dev", _) => "0".into(),
            ("release", _) => "3".into(),
            (_, parent) => opt_level(profiles, parent.expect("profiles inherit"), package),
        }
    })
}

#[test]
fn what_is_measured_is_optimised_in_every_profile() {
    let manifest: toml::Table =
        fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let profiles = manifest["profile"].as_table().unwrap();
    // Without optimisation a patched site of pvops took 80 ns where an indirect call took 10.
    for profile in profiles.keys() {
        let level = opt_level(profiles, profile, "opcost-work");
        assert_eq!(level, "3", "profile {profile}");
    }
}

/// Packages for others contain everything to build from, including the C library and the licences.
#[test]
fn crates_for_others_are_whole() {
    let has = |folder: &str, name: &str, wanted: &[&str]| {
        let output = Command::new(env!("CARGO"))
            .args(["package", "--list", "--offline", "--allow-dirty", "--package", name])
            .current_dir(root().join(folder))
            .output()
            .unwrap();
        let list = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for file in [wanted, &["LICENSE-MIT", "LICENSE-APACHE", "README.md", "src/lib.rs"]].concat()
        {
            assert!(list.lines().any(|line| line == file), "{name} has no {file}:\n{list}");
        }
        let tests = list.lines().find(|line| line.starts_with("tests/") && line.ends_with(".rs"));
        assert_eq!(tests, None, "{name} has tests that need the repository");
    };
    has(
        "patchpoint",
        "patchpoint",
        &[
            "c/include/patchpoint.h",
            "c/src/arch/x86_64.c",
            "c/src/patchpoint.map",
            "tests/peer_sizes.c",
        ],
    );
    has(".", "opcost-region", &["include/opcost.h"]);
}

#[test]
fn the_installation_page_names_the_packages_of_the_library() {
    let header = root().join("patchpoint/include/patchpoint.h");
    let header = fs::read_to_string(header).unwrap();
    let line = header.lines().find_map(|line| line.strip_prefix("#define PATCHPOINT_VERSION \""));
    let (abi, _) = line.unwrap().rsplit_once('.').unwrap();
    let page = fs::read_to_string(root().join("docs/install.md")).unwrap();
    assert!(page.contains(&format!("`libpatchpoint{abi}_…`")), "{abi}");
}

/// docs/schema.json has the settings of guests as their table has them; `INSTA_UPDATE=always` writes them.
#[test]
fn the_settings_of_guests_are_those_of_their_table() {
    let rows = GuestSettings::stored().into_iter();
    let line = |row: StoredSetting| format!("        \"{}\": {},\n", row.name, row.schema);
    let lines: String = rows.map(line).collect();
    let path = root().join("docs/schema.json");
    let text = fs::read_to_string(&path).unwrap();
    let [before, after] =
        ["        \"cpu_model\": {\"type\": \"string\"},\n", "        \"disk\": "];
    let begin = text.find(&format!("{before}        \"memory_mib\"")).unwrap() + before.len();
    let end = begin + text[begin..].find(after).unwrap();
    if std::env::var_os("INSTA_UPDATE").is_some_and(|how| how == "always") {
        fs::write(&path, format!("{}{lines}{}", &text[..begin], &text[end..])).unwrap();
        return;
    }
    assert_eq!(text[begin..end], lines, "INSTA_UPDATE=always writes them");
}

#[test]
fn every_rule_is_in_the_guide() {
    let guide = fs::read_to_string(root().join("docs/guide.md")).unwrap();
    for rule in opcost_analysis::comparison::ledger::RULES {
        assert!(guide.contains(&format!("\n| {} | ", rule.name)), "{}", rule.name);
    }
}

/// The fuzz target goes through the same table as this test, and runs on each sample (`every_fuzz_target_takes_real_files`).
#[test]
fn every_format_of_results_has_a_sample_a_line_of_the_page_and_a_fuzz_target() {
    let samples = files(&root().join("crates/opcost/tests/imports"));
    let known = samples.iter().filter_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        let input = Input { path, text: &text, budget: &Budget::default() };
        Some(import::read(&input, None).ok()?.0.name)
    });
    let known: BTreeSet<&str> = known.collect();
    let page = fs::read_to_string(root().join("docs/history.md")).unwrap();
    let heads = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let described: Vec<&str> = heads.flat_map(|head| head.split(", ")).collect();
    for format in import::FORMATS {
        // The tests that import opcost's own reports and published tables make or write these.
        let own = ["opcost", "published"].contains(&format.name);
        assert!(own || known.contains(format.name), "{} has no sample", format.name);
        let lines = described.iter().filter(|name| **name == format.name).count();
        assert_eq!(lines, 1, "docs/history.md has one line on {}", format.name);
    }
    let target = fs::read_to_string(root().join("fuzz/fuzz_targets/import.rs")).unwrap();
    assert!(target.contains("FORMATS.iter()"), "the fuzz target tries every format");
}

/// script/test would take other tests for unchanged when a page changes.
#[test]
fn other_tests_read_no_page() {
    let house = root().join("crates/opcost/tests/it/house");
    for (path, text) in with_ending("rs") {
        let reads = ["root().join(\"docs", "/../docs", "root().join(\"README"].iter().any(|part| {
            text.lines().any(|line| line.contains(part) && !line.contains("include_str!"))
        });
        let other = path.starts_with(&house) || path.starts_with(root().join("patchpoint"));
        assert!(!reads || other, "{} reads a page", path.display());
    }
}

/// Modules that read files of others open them through `opcost_sys::foreign_file`, which refuses pipes, devices and long files.
#[test]
fn files_of_others_are_opened_by_the_opener() {
    let readers = [
        "opcost-profile/src",
        "opcost-symbols/src",
        "opcost-size/src",
        "opcost/src/command/attach",
        "opcost/src/command/diff.rs",
        "opcost/src/command/export.rs",
        "opcost-revisions/src/gate/mod.rs",
        "opcost/src/command/gather.rs",
        "opcost/src/command/history.rs",
        "opcost/src/command/import.rs",
        "opcost/src/command/measured_file.rs",
        "opcost/src/command/profile",
        "opcost-import/src",
        "opcost-source/src/sampling",
        "opcost-store/src",
    ];
    let openings = [
        "File::open(",
        "File::options(",
        "OpenOptions::new(",
        "fs::read(",
        "fs::read_to_string(",
        "Connection::open",
    ];
    // These modules open other files, too; the reason says why nobody can put another file there.
    let others = [
        ("opcost-profile/src/symbolise/jit.rs", "the kernel's status of a process, by number"),
        ("opcost-profile/src/symbolise/kernel.rs", "the running kernel's own list and notes"),
        ("opcost-profile/src/symbolise/origin.rs", "the kernel's own name and version"),
        ("opcost-profile/src/symbolise/vdso.rs", "this process's own memory"),
        ("opcost-source/src/sampling/existing.rs", "the kernel's files of a process, by number"),
        (
            "opcost-store/src/store/open.rs",
            "SQLite's file; a stranger's went through the opener before",
        ),
        ("opcost-store/src/store/transfer.rs", "the store that opcost has just packed"),
    ];
    let crates = root().join("crates");
    let (mut opening, mut seen) = (Vec::new(), 0);
    for (path, text) in with_ending("rs") {
        let Ok(name) = path.strip_prefix(&crates) else { continue };
        let is_reader = readers.iter().any(|reader| name.starts_with(reader));
        if !is_reader || path.to_str().is_some_and(|path| path.ends_with("tests.rs")) {
            continue;
        }
        seen += 1;
        let code = text.split("mod tests {").next().unwrap();
        if openings.iter().any(|one| code.contains(one)) {
            opening.push(name.to_str().unwrap().to_string());
        }
    }
    assert!(seen > 100, "{seen} files");
    opening.sort();
    assert_eq!(opening, others.map(|(name, _)| name));
}
