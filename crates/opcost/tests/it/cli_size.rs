//! `opcost size` as a user runs it.

use crate::lab::Lab;
use crate::needs;
use std::process::Command;

/// Two object files that differ; a skip message and `None` without a compiler.
fn objects() -> Option<Lab> {
    if !needs::programs(&["gcc"]) {
        return None;
    }
    let lab = Lab::new();
    let function = |name: &str, bytes: usize| {
        format!(
            ".globl {name}\n.type {name}, @function\n{name}: .fill {bytes}, 1, 0x90\n.size {name}, {bytes}\n"
        )
    };
    let old = function("same", 8) + &function("grows", 100) + &function("goes", 20);
    let new = function("same", 8) + &function("grows", 1300) + ".balign 4\n.data\n.zero 3\n";
    for (name, text) in [("old", old), ("new", new)] {
        let source = lab.write(&format!("{name}.s"), text);
        let object = lab.path(&format!("{name}.o"));
        assert!(
            Command::new("gcc")
                .arg("-c")
                .arg("-o")
                .args([&object, &source])
                .status()
                .unwrap()
                .success()
        );
    }
    Some(lab)
}

#[test]
fn the_page_reads_as_the_guide_shows_it() {
    let Some(lab) = objects() else { return };
    let mut command = lab.command(&["size", "old.o", "new.o"]);
    let output = command.env("COLUMNS", "80").output().unwrap();
    let expected = "\
size · x86-64 (64-bit) · old.o → new.o

         old.o  new.o  change
  text     128  1,308  +1,180  +921.9 %
  data       0      3      +3
  bss        0      0       =
  total    128  1,311  +1,183  +924.2 %

  by section
           old.o  new.o  change
    .text    128  1,308  +1,180  +921.9 %
    .data      –      3      +3

  where the +1,183 bytes come from
                     old.o  new.o  change
    grows              100  1,300  +1,200
    goes                20      –     −20  gone
    [unnamed] .data      –      3      +3

! without debug information (-g) it cannot be told whether a function that is
  gone was inlined
";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn every_format_has_the_rows_and_the_limit_keeps_the_sum() {
    let Some(lab) = objects() else { return };
    let json = lab.json(&["size", "old.o", "new.o", "--json", "-"]);
    assert_eq!((json["schema"].as_u64(), json["change_bytes"].as_i64()), (Some(1), Some(1183)));
    assert_eq!(json["symbols"][0]["name"], "grows");
    assert_eq!(json["symbols"][1]["bytes"], serde_json::Value::Null);
    assert_eq!(json["baseline"]["text_bytes"], 128);
    let markdown = lab.output(&["size", "old.o", "new.o", "--format", "markdown"]);
    assert!(markdown.contains("| grows | 100 | 1,300 | +1,200 |"), "{markdown}");
    let text = lab.output(&["size", "old.o", "new.o", "--limit", "1"]);
    assert!(text.contains("2 other rows") && text.contains("−17"), "{text}");
    let files = ["old.o", "new.o"].map(|name| std::fs::read(lab.path(name)).unwrap());
    let [old, new] = [("old.o", &files[0]), ("new.o", &files[1])]
        .map(|(name, bytes)| opcost_size::Measured::read(name, bytes).unwrap());
    let difference = opcost_size::compare([&old, &new]).unwrap();
    crate::facts::check(&opcost_report::render::size::document(&difference, 20));
    crate::facts::check(&opcost_report::render::size::alone_document(
        &opcost_size::sizes(&new),
        20,
    ));
    let same = lab.output(&["size", "old.o", "old.o"]);
    assert!(same.contains("identical"), "{same}");
}

#[test]
fn code_is_shown_beside_or_below_each_other_as_the_width_allows() {
    let Some(lab) = objects() else { return };
    let shown = |columns: &str| {
        let mut command = lab.command(&["size", "old.o", "new.o", "--function", "grows"]);
        String::from_utf8(command.env("COLUMNS", columns).output().unwrap().stdout).unwrap()
    };
    let (narrow, wide) = (shown("80"), shown("120"));
    assert!(narrow.contains("\n  +   +513  nop\n"));
    assert!(
        wide.lines().any(|line| line.trim_start().starts_with(">") && line.ends_with("+513  nop"))
    );
    assert!(narrow.contains("1,200 of 1,300 rows differ"));
    let json = lab.json(&["size", "old.o", "new.o", "--function", "grows", "--json"]);
    assert_eq!(json["differing"], 1200);
    let markdown =
        lab.output(&["size", "old.o", "new.o", "--function", "same", "--format", "markdown"]);
    assert!(markdown.contains("```diff") && markdown.contains("the same instructions"));
    lab.run(&["size", "old.o", "new.o", "--function", "goes"])
        .expect(2)
        .says(&["new.o has no such function"]);
}

#[test]
fn kernels_without_symbols_are_refused_with_the_remedy() {
    let lab = Lab::new();
    let mut image = vec![0; 0x1000];
    image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&[0x0f, 0x02]);
    image[0x20e..0x210].copy_from_slice(&[0x00, 0x01]);
    image[0x236] = 1;
    image[0x300..0x310].copy_from_slice(b"6.1.7-mock #1 x\0");
    lab.write("bzImage", &image);
    let ended = lab.run(&["size", "bzImage", "bzImage"]).expect(5);
    ended.says(&["no vmlinux for it", "linux-image-6.1.7-mock-dbg"]);
    lab.write("linux/arch/x86/boot/bzImage", &image);
    lab.run(&["size", "linux", "linux"]).expect(5).says(&["make vmlinux"]);
    // An image with its vmlinux stands for the vmlinux.
    lab.write("linux/vmlinux", "no kernel");
    let ended = lab.run(&["size", "linux/arch/x86/boot/bzImage", "linux"]).expect(2);
    ended.says(&["linux/arch/x86/boot/bzImage: it is neither an ELF file"]);
    lab.run(&["size", "absent/file", "x"]).expect(2).says(&["cannot read 'absent/file'"]);
    let ended = lab.run(&["size", "absent", "x"]).expect(2);
    let ended = ended.says(&["there is no file 'absent', and no kernel 'absent' has been built"]);
    // The cause is printed once.
    assert_eq!(ended.stderr.matches("no kernel").count(), 1, "{}", ended.stderr);
    lab.write("empty", "");
    let ended = lab.run(&["size", "empty", "empty"]).expect(2);
    assert_eq!(ended.stderr, "opcost: empty: it is empty; build or copy it again\n");
}

#[test]
fn comparisons_of_two_programs_show_their_sizes() {
    if !needs::programs(&["gcc"]) {
        return;
    }
    let lab = Lab::new();
    for (name, zeros) in [("old", 1000), ("new", 5000)] {
        let text = format!("char zeros[{zeros}]; int main(void) {{ return zeros[1]; }}");
        let source = lab.write(&format!("{name}.c"), text);
        assert!(
            Command::new("gcc")
                .arg("-o")
                .args([&lab.path(name), &source])
                .status()
                .unwrap()
                .success()
        );
    }
    lab.script("script", "true");
    let output = lab.output(&["compare", "./old", "./new", "-n", "2", "--warmup=0"]);
    assert!(output.contains("size of the programs, ./old → ./new, bytes:"), "{output}");
    let bss = |block: &serde_json::Value, side: &str| block["sizes"][0][side]["bss_bytes"].as_u64();
    let json = lab.json(&["show", "last", "--json"]);
    let block = &json["opcost"];
    let grown = bss(block, "bytes").unwrap() - bss(block, "bytes_baseline").unwrap();
    assert!((3990..=4020).contains(&grown), "{grown}");
    assert_eq!(block["sizes"][0]["what"], "program");
    let markdown = lab.output(&["show", "last", "--format", "markdown"]);
    assert!(markdown.contains("| bss |"), "{markdown}");
    // A program and its copy have no sizes to show, and neither does a file that is no program.
    std::fs::copy(lab.path("old"), lab.path("copy")).unwrap();
    for other in ["./copy", "./script"] {
        lab.output(&["compare", "./old", other, "-n", "2", "--warmup=0"]);
        let json = lab.json(&["show", "last", "--json"]);
        assert_eq!(json["opcost"]["sizes"], serde_json::json!([]), "{other}");
    }
}

#[test]
fn one_file_is_shown_by_section_and_symbol() {
    let Some(lab) = objects() else { return };
    let text = lab.output(&["size", "new.o"]);
    for line in [
        "text 1,308 99.8 %",
        "total 1,311 100.0 %",
        ".text 1,308 99.8 % text",
        "grows 1,300 99.2 % .text",
        "same 8 0.6 % .text",
        "[unnamed] 3 0.2 %",
    ] {
        let found = text
            .lines()
            .any(|shown| shown.split_whitespace().collect::<Vec<_>>().join(" ") == line);
        assert!(found, "{line}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let limited = lab.output(&["size", "new.o", "--limit", "1"]);
    assert!(limited.contains("1 other symbol") && !limited.contains("same"), "{limited}");
    let json = lab.json(&["size", "new.o", "--json"]);
    let symbols = json["symbols"].as_array().unwrap();
    let unnamed = json["sections"].as_array().unwrap().iter().map(|one| &one["unnamed_bytes"]);
    let bytes = symbols.iter().map(|symbol| &symbol["bytes"]).chain(unnamed);
    let loaded = |bytes: &serde_json::Value| bytes.as_u64().unwrap();
    assert!(bytes.map(loaded).sum::<u64>() >= json["total_bytes"].as_u64().unwrap());
    assert_eq!(symbols[0]["symbol"], "grows");
    assert!(
        lab.output(&["size", "new.o", "--format", "markdown"])
            .contains("| grows | 1,300 | 99.2 % |")
    );
    lab.run(&["size", "new.o", "--function", "grows"])
        .expect(2)
        .says(&["two files", "the other file"]);
    lab.run(&["size", "none.o"]).expect(2).says(&["there is no file 'none.o'"]);
}

#[test]
fn what_is_not_loaded_is_in_no_share() {
    if !needs::programs(&["gcc"]) {
        return;
    }
    let lab = Lab::new();
    let source = "f: .fill 60, 1, 0x90\n.size f, 60\n.fill 40\n.section .debug_info\n.fill 5000\n";
    let source = lab.write("debug.s", source);
    let object = lab.path("debug.o");
    let built = Command::new("gcc").arg("-c").arg("-o").args([&object, &source]).status().unwrap();
    assert!(built.success());
    let text = lab.output(&["size", "debug.o"]);
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in ["total 100 100.0 %", "f 60 60.0 % .text", "[unnamed] 40 40.0 %"] {
        assert!(lines.iter().any(|shown| *shown == line), "{line}: {text}");
    }
}

#[test]
fn copies_of_a_function_are_found_by_its_name() {
    if !needs::programs(&["gcc"]) {
        return;
    }
    let lab = Lab::new();
    for (name, suffix) in [("old", ".isra.0"), ("new", ".constprop.1")] {
        let symbol = format!("helper{suffix}");
        let text = format!(".type {symbol}, @function\n{symbol}: nop\nret\n.size {symbol}, 2\n");
        let source = lab.write(&format!("{name}.s"), text);
        let object = lab.path(&format!("{name}.o"));
        let mut gcc = Command::new("gcc");
        assert!(gcc.arg("-c").arg("-o").args([&object, &source]).status().unwrap().success());
    }
    let text = lab.output(&["size", "old.o", "new.o", "--function", "helper"]);
    assert!(text.contains("helper.isra.0") && text.contains("helper.constprop.1"), "{text}");
}
