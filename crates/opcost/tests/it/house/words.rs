//! The pages stay short, and their links lead somewhere.

use super::tidy::with_ending;
use crate::lab::root;
use std::fs;

/// The most words of all pages together.
const WORDS_MAX: usize = 45_000;

#[test]
fn the_pages_stay_short() {
    let words = |text: &str| text.split_whitespace().count();
    let all: usize = with_ending("md").iter().map(|(_, text)| words(text)).sum();
    assert!(all <= WORDS_MAX, "all pages have {all} words");
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let lines = read("README.md").lines().count();
    assert!(lines <= 120, "README.md has {lines} lines");
    for (page, most) in [("ARCHITECTURE.md", 1_800), ("CHANGELOG.md", 400)] {
        let count = words(&read(page));
        assert!(count <= most, "{page} has {count} words");
    }
}

/// Each framework of benchmarks has a row in its page, with the versions that were tried.
#[test]
fn every_framework_of_benchmarks_is_documented() {
    let page = fs::read_to_string(root().join("docs/bench.md")).unwrap();
    for row in opcost_bench::FRAMEWORKS {
        let found = page.lines().find(|line| line.starts_with(&format!("| {} ", row.name)));
        let line = found.unwrap_or_else(|| panic!("docs/bench.md has no row for {}", row.name));
        for version in row.tried {
            assert!(line.contains(version), "docs/bench.md does not name {} {version}", row.name);
        }
    }
}

/// Each format of profiles has a row in its page, and a fuzz target reads contents of any of them.
#[test]
fn every_format_of_profiles_is_documented_and_fuzzed() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let page = read("docs/profiles.md").replace('`', "");
    for format in opcost_profile::read::FORMATS {
        let rows = [" |", ", "].map(|end| format!("\n| {}{end}", format.name));
        let has_row = rows.iter().any(|row| page.contains(row));
        assert!(has_row, "docs/profiles.md has no row of {}", format.name);
    }
    assert!(read("fuzz/fuzz_targets/profile_text.rs").contains("for format in FORMATS"));
}

/// Pages that a page names, in brackets or in the text, exist; so do the headings of links.
#[test]
fn links_between_pages_lead_somewhere() {
    let mut checked = 0;
    for (path, text) in with_ending("md") {
        // Every second part between fences is code.
        let text = text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.with_file_name(file),
            };
            assert!(target.exists(), "{} links to {link}", path.display());
            if !heading.is_empty() {
                let page = fs::read_to_string(&target).unwrap();
                let anchor = |line: &str| {
                    let name = line.trim_start_matches('#').trim().to_lowercase();
                    let kept = name.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
                    kept.collect::<String>().replace(' ', "-")
                };
                let is_there =
                    page.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
                assert!(is_there, "{} links to {link}", path.display());
            }
            checked += 1;
        }
        for word in text.split_whitespace() {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric());
            if word.starts_with("docs/")
                && word.ends_with(".md")
                && !path.starts_with(root().join("patchpoint"))
            {
                assert!(root().join(word).exists(), "{} names {word}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 50, "only {checked} links were found");
}
