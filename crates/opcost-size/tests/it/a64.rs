//! Code of 64-bit ARM, held against LLVM's disassembler.

use crate::Bench;
use opcost_size::{Aligned, Code, CodeNames, Measured, compare_function, disassemble_at};
use std::collections::BTreeMap;
use std::fs;

const SOURCE: &str = r#"
int table[64] = {1};
PADDING
__attribute__((noinline)) int other(int x) { return x * 7 + table[x & 7]; }
__attribute__((noinline)) const char *text(void) { return "a text that is read"; }
__attribute__((noinline)) double halves(const double *from, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += from[i] / 2 + (double)(i * 3);
    return sum;
}
int work(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        if (i & 4) sum += other(i); else sum ^= (unsigned)i / 3;
        table[9] += sum;
    }
    return sum;
}
void _start(void) { work(7); halves((double *)table, 3); text(); }
"#;

fn build(bench: &Bench, name: &str, padding: &str) -> Vec<u8> {
    let source = format!("{name}.c");
    fs::write(bench.path(&source), SOURCE.replace("PADDING", padding)).unwrap();
    let target = "--target=aarch64-linux-gnu";
    let options = ["-O2", "-ffreestanding", "-nostdlib", "-static", "-fno-pic", "-fuse-ld=lld"];
    bench.run("clang", &[&[target], &options[..], &["-o", name, &source]].concat());
    fs::read(bench.path(name)).unwrap()
}

/// The names of instructions and the places that branches lead to, by address, as LLVM has them.
fn expected(bench: &Bench, file: &str) -> BTreeMap<u64, (String, Option<u64>)> {
    let listed =
        bench.run("llvm-objdump", &["-d", "--no-show-raw-insn", "--no-leading-headers", file]);
    let line = |line: &str| {
        let (address, text) = line.split_once(':')?;
        let address = u64::from_str_radix(address.trim(), 16).ok()?;
        let mut words = text.split_whitespace();
        let name = words.next()?.to_string();
        let target = words.find_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        let is_branch =
            name.starts_with("b.") || matches!(&*name, "b" | "cbz" | "cbnz" | "tbz" | "tbnz");
        Some((address, (name, target.filter(|_| is_branch))))
    };
    listed.lines().filter_map(line).collect()
}

fn texts(code: &Code) -> Vec<&str> {
    code.instructions.iter().map(|one| one.text.as_str()).collect()
}

#[test]
fn code_of_64_bit_arm_reads_as_llvm_reads_it_with_names_for_addresses() {
    let Some(bench) = Bench::with(&["clang", "ld.lld", "llvm-objdump"]) else { return };
    let one = build(&bench, "one", "");
    let expected = expected(&bench, "one");
    let (first, last) = (*expected.keys().next().unwrap(), *expected.keys().last().unwrap() + 4);
    let all = disassemble_at(&one, &CodeNames::read(&one, None).unwrap(), first..last).unwrap();
    assert_eq!((all.instructions.len(), all.bytes), (expected.len(), last - first));
    assert!(expected.len() > 60, "{}", expected.len());
    for found in &all.instructions {
        let (name, target) = &expected[&(first + found.offset)];
        assert_eq!(found.text.split(' ').next(), Some(name.as_str()), "{found:?}");
        assert_eq!(found.target.map(|target| first + target), *target, "{found:?}");
    }
    let file = Measured::read("one", &one).unwrap();
    let difference = compare_function([&file, &file], "work").unwrap();
    let work = texts(&difference.code[0]);
    assert!(work.contains(&"bl other"), "{work:#?}");
    assert!(
        work.iter().any(|text| text.starts_with("ldr ") && text.ends_with("table+0x24]")),
        "{work:#?}"
    );
    assert!(
        work.iter().any(|text| text.starts_with("adrp ") && text.ends_with("[page]")),
        "{work:#?}"
    );
    // The linker puts one instruction in place of the two where the text is near.
    let difference = compare_function([&file, &file], "text").unwrap();
    let text = texts(&difference.code[0]);
    assert!(text.iter().any(|text| text.ends_with(", \"a text that is read\"")), "{text:#?}");
}

#[test]
fn code_of_64_bit_arm_that_only_moved_reads_the_same() {
    let Some(bench) = Bench::with(&["clang", "ld.lld"]) else { return };
    let one = build(&bench, "one", "");
    let two =
        build(&bench, "two", "int before[5000] = {1}; int first(int x) { return before[x] / 9; }");
    let files = [Measured::read("one", &one).unwrap(), Measured::read("two", &two).unwrap()];
    for name in ["work", "other", "text", "halves"] {
        let difference = compare_function([&files[0], &files[1]], name).unwrap();
        assert_ne!(difference.code[0].address, difference.code[1].address);
        assert!(
            difference.rows.iter().all(|row| matches!(row, Aligned::Same(..))),
            "{name}: {:#?}",
            difference.code
        );
    }
}
