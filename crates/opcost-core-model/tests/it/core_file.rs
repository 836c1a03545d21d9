//! Core files: which texts are refused, with which words, and which text is written back.

use opcost_core_model::{Class, Core, CoreError};

fn shipped() -> String {
    Core::shipped("zen4").unwrap().to_text()
}

/// Returns the error of the shipped file with `from`, which it contains, replaced by `to`.
fn refused(from: &str, to: &str) -> CoreError {
    let text = shipped();
    assert!(text.contains(from), "{from} is not in\n{text}");
    Core::parse(&text.replacen(from, to, 1)).unwrap_err()
}

/// Checks that the error contains all of these words.
fn check(from: &str, to: &str, words: &[&str]) {
    let error = refused(from, to).to_string();
    for word in words {
        assert!(error.contains(word), "{word} is not in: {error}");
    }
}

/// Returns the line of a text's first occurrence, in the words of an error.
fn line(of: &str) -> String {
    let text = shipped();
    let before = &text[..text.find(of).unwrap()];
    format!("line {}", before.matches('\n').count() + 1)
}

#[test]
fn shipped_cores_have_every_class() {
    for (name, text) in Core::SHIPPED {
        let core = Core::parse(text).unwrap();
        assert_eq!(core.name(), *name);
        for class in Class::ALL {
            assert!(!class.what().is_empty());
            assert_eq!(core.row(*class).latency == 0, *class == Class::Nop, "{}", class.key());
        }
    }
    assert!(Core::shipped("zen6").is_none());
}

#[test]
fn a_file_reads_as_it_was_written() {
    for (name, text) in Core::SHIPPED {
        let core = Core::parse(text).unwrap();
        let again = Core::parse(&core.to_text()).unwrap();
        assert_eq!(again, core, "{name}");
        assert_eq!(again.to_text(), core.to_text());
    }
}

#[test]
fn the_fingerprint_follows_figures_and_not_the_name() {
    let core = Core::shipped("zen4").unwrap();
    let mut renamed = core.clone();
    renamed.set_name("this computer");
    assert_eq!(renamed.fingerprint(), core.fingerprint());
    assert_eq!(Core::parse(&renamed.to_text()).unwrap().name(), "this computer");
    let mut slower = core.clone();
    slower.set_row(Class::Alu, 2, 1).unwrap();
    assert_ne!(slower.fingerprint(), core.fingerprint());
    let mut smaller = core.clone();
    smaller.window.reorder_buffer -= 1;
    assert_ne!(smaller.fingerprint(), core.fingerprint());
    assert_ne!(core.fingerprint(), Core::shipped("zen5").unwrap().fingerprint());
}

#[test]
fn a_text_that_is_no_toml_is_refused_with_its_place() {
    check("[width]", "[width", &["wrong in", &line("[width]")]);
    assert!(matches!(Core::parse(""), Err(CoreError::Syntax { line: 1, column: 1, .. })));
    check("dispatch = 6", "dispatch = -6", &[&line("dispatch = 6"), "-6"]);
    check("dispatch = 6", "dispatch = 6.5", &[&line("dispatch = 6"), "6.5"]);
}

#[test]
fn an_unknown_key_is_refused() {
    check("dispatch = 6", "dispatch = 6\nissue = 6", &["unknown field `issue`", "wrong in line"]);
    check("[prefetch]", "[clock]\nmhz = 1\n[prefetch]", &["unknown field `clock`"]);
    check("alu = { latency = 1,", "alu = { latency = 1, ways = 2,", &["unknown field `ways`"]);
}

#[test]
fn a_missing_key_is_refused() {
    check("dispatch = 6\n", "", &["missing field `dispatch`"]);
    check("[prefetch]", "[prefetches]", &["prefetch"]);
}

#[test]
fn a_missing_class_is_refused_by_name() {
    let row = shipped().lines().find(|line| line.starts_with("crc32 =")).unwrap().to_string();
    assert_eq!(refused(&row, ""), CoreError::MissingClass("crc32"));
    check(&row, "", &["no row for the class 'crc32'", "add one under [class]"]);
}

#[test]
fn a_row_of_no_class_is_refused() {
    check("crc32 =", "crc64 =", &["'crc64'", &line("crc32 ="), "no class of instructions"]);
}

#[test]
fn a_zero_or_a_size_beyond_the_tables_is_refused() {
    for (from, to, words) in [
        ("dispatch = 6", "dispatch = 0", ["width.dispatch = 0", "from 1 to 64"]),
        ("retire = 8", "retire = 65", ["width.retire = 65", "from 1 to 64"]),
        ("reorder_buffer = 320", "reorder_buffer = 5", ["reorder_buffer = 5", "from 6 to 4096"]),
        ("store_queue = 64", "store_queue = 0", ["window.store_queue = 0", "from 1 to 1024"]),
        ("misses = 24", "misses = 0", ["cache.misses = 0", "from 1 to 1024"]),
        ("strides = 256", "strides = 0", ["prefetch.strides = 0", "from 1 to 4096"]),
        ("returns = 32", "returns = 0", ["prediction.returns = 0", "from 1 to 4096"]),
    ] {
        check(from, to, &words);
        check(from, to, &[&line(from)]);
    }
    check(
        "\nalu = { latency = 1",
        "\nalu = { latency = 0",
        &["class.alu.latency = 0", "from 1 to"],
    );
    let alu = "\nalu = { latency = 1, ports = \"alu\"";
    check(alu, &format!("{alu}, occupancy = 0"), &["class.alu.occupancy = 0"]);
    check(alu, &format!("{alu}, slots = 0"), &["class.alu.slots = 0"]);
    check(alu, &format!("{alu}, chained = 2"), &["class.alu.chained = 2", "from 0 to 1"]);
}

#[test]
fn sets_must_be_countable() {
    let mut core = Core::shipped("zen4").unwrap();
    core.cache.l1.bytes = 32 * 1024 + 64;
    let error = Core::parse(&core.to_text()).unwrap_err();
    assert!(matches!(&error, CoreError::Sets { key, .. } if key == "cache.l1"), "{error}");
    assert!(error.to_string().contains("513 entries in 8 ways"), "{error}");
    check(
        "strides = 256",
        "strides = 100",
        &["prefetch.strides of the core file has 100 entries", "power of two"],
    );
}

#[test]
fn ports_must_exist() {
    let alu = "\nalu = { latency = 1, ports = \"alu\"";
    check(alu, "\nalu = { latency = 1, ports = \"alus\"", &["class 'alu'", "it names 'alus'"]);
    check(alu, "\nalu = { latency = 1", &["class 'alu'", "it names none"]);
    check("\ndivide = [\"divider\"]", "\ndivide = []", &["'divide'", "it has no unit"]);
    let units: Vec<String> = (0..40).map(|unit| format!("\"unit{unit}\"")).collect();
    let many = format!("\ndivide = [{}]", units.join(", "));
    check("\ndivide = [\"divider\"]", &many, &["more than 32 units"]);
    let groups: Vec<String> = (0..70).map(|group| format!("\ng{group} = [\"divider\"]")).collect();
    let more = format!("\ndivide = [\"divider\"]{}", groups.concat());
    check("\ndivide = [\"divider\"]", &more, &["more than 64 groups"]);
}

#[test]
fn one_class_only_is_faster_towards_itself() {
    let alu = "\nalu = { latency = 1, ports = \"alu\"";
    let text = shipped().replacen(alu, &format!("{alu}, chained = 0"), 1);
    let text = text.replacen("crc32 = { latency = 3", "crc32 = { chained = 2, latency = 3", 1);
    assert_eq!(Core::parse(&text).unwrap_err(), CoreError::Chained("alu", "crc32"));
}

#[test]
fn a_row_that_no_core_has_is_not_set() {
    let mut core = Core::shipped("zen4").unwrap();
    let before = core.clone();
    assert!(matches!(core.set_row(Class::Alu, 0, 1), Err(CoreError::Range { value: 0, .. })));
    assert_eq!(core, before);
    core.set_row(Class::Alu, 2, 3).unwrap();
    assert_eq!((core.row(Class::Alu).latency, core.row(Class::Alu).occupancy), (2, 3));
}
