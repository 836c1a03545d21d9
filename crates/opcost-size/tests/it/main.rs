//! Sizes of small files that are assembled or compiled here, against known answers and binutils.

#[path = "../../../../patchpoint/tests/skip.rs"]
mod skip;

mod a64;

use opcost_size::{
    Aligned, Class, Measured, Names, SizeDifference, SizeError, SymbolRow, compare,
    compare_function,
};
use opcost_symbols::debug_files::{DebugFiles, Moved};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder to build in.
struct Bench(TempDir);

impl Bench {
    /// Makes a folder; reports a skip and returns `None` if a tool is missing.
    fn with(tools: &[&str]) -> Option<Bench> {
        for tool in tools {
            if let Err(error) = Command::new(tool).arg("--version").output() {
                skip::skip!("{tool}: {error}");
                return None;
            }
        }
        Some(Bench(tempfile::tempdir().unwrap()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a tool in the folder; returns its output.
    #[track_caller]
    fn run(&self, tool: &str, arguments: &[&str]) -> String {
        let output =
            Command::new(tool).args(arguments).current_dir(self.0.path()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{tool} {arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Writes a source and compiles or assembles it.
    #[track_caller]
    fn build(&self, source: &str, text: &str, output: &str, options: &[&str]) -> Vec<u8> {
        fs::create_dir_all(self.path(source).parent().unwrap()).unwrap();
        fs::write(self.path(source), text).unwrap();
        self.run("gcc", &[&["-o", output, source], options].concat());
        fs::read(self.path(output)).unwrap()
    }

    /// Assembles an object file.
    #[track_caller]
    fn object(&self, name: &str, text: &str) -> Vec<u8> {
        self.build(&format!("{name}.s"), text, &format!("{name}.o"), &["-c"])
    }
}

/// Returns assembler text of a function of one-byte instructions.
fn function(name: &str, binding: &str, bytes: usize) -> String {
    format!(
        "{binding} {name}\n.type {name}, @function\n{name}: .fill {bytes}, 1, 0x90\n.size {name}, {bytes}\n"
    )
}

#[track_caller]
fn difference(files: [&[u8]; 2]) -> SizeDifference {
    let read = |name: &str, bytes| Measured::read(name, bytes).unwrap();
    let difference = compare([&read("old", files[0]), &read("new", files[1])]).unwrap();
    check_sums(&difference);
    difference
}

/// Asserts that the parts add up, in all and section by section.
#[track_caller]
fn check_sums(difference: &SizeDifference) {
    let parts: i64 = difference.parts().iter().map(|part| part.change()).sum();
    assert_eq!(parts, difference.change());
    for (index, section) in difference.sections.iter().enumerate() {
        let side = |side: usize| -> i64 {
            let here = difference.symbols.iter().filter(|row| row.sections[side] == Some(index));
            here.map(|row| row.bytes[side].unwrap() as i64).sum()
        };
        let symbols = side(1) - side(0);
        assert_eq!(section.change(), symbols + section.unnamed_change(), "{section:?}");
    }
    let loaded = difference.sections.iter().filter(|row| row.class != Class::NotLoaded);
    assert_eq!(loaded.map(|row| row.change()).sum::<i64>(), difference.change());
}

#[track_caller]
fn row<'a>(difference: &'a SizeDifference, name: &str) -> &'a SymbolRow {
    let found = difference.symbols.iter().find(|row| row.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:#?}", difference.symbols))
}

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int table[64] = {1};
static int zeros[1000];
__thread int own[3] = {1, 2, 3};
__thread int own_zeros[5];
HELPER static int helper(int x) { return x * 3 + table[x & 63]; }
__attribute__((noinline)) int twice(int x) { table[x & 7] = x; return 2 * x + zeros[x & 7]++; }
int twofold(int x) __attribute__((alias("twice")));
int main(int argc, char **argv) {
    if (argc > 7) abort();
    printf("%d\n", helper(argc) + twice(argc) + own[argc & 1] + own_zeros[argc & 3]);
    return 0;
}
"#;

const NOINLINE: &str = "-DHELPER=__attribute__((noinline))";
const INLINE: &str = "-DHELPER=inline __attribute__((always_inline))";

#[test]
fn totals_sections_and_symbols_are_those_of_binutils() {
    let Some(bench) = Bench::with(&["gcc", "size", "nm"]) else { return };
    let forms: [(&str, &[&str]); 4] = [
        ("a", &["-O2", "-g"]),
        ("a.o", &["-O2", "-c"]),
        ("a.so", &["-O2", "-shared", "-fPIC"]),
        ("fixed", &["-O0", "-no-pie", "-static"]),
    ];
    for (name, options) in forms {
        let bytes = bench.build("a.c", PROGRAM, name, &[options, &[NOINLINE]].concat());
        let measured = Measured::read(name, &bytes).unwrap();
        let inventory = &measured.inventory;
        let berkeley = bench.run("size", &[name]);
        let numbers: Vec<u64> = berkeley
            .lines()
            .nth(1)
            .unwrap()
            .split_whitespace()
            .take(3)
            .map(|number| number.parse().unwrap())
            .collect();
        let totals = inventory.totals();
        assert_eq!([totals.text_bytes, totals.data_bytes, totals.bss_bytes], numbers[..], "{name}");

        let listed: BTreeMap<String, u64> = bench
            .run("size", &["-A", name])
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let section = words.next().filter(|word| word.starts_with(['.', '_']))?;
                Some((section.to_owned(), words.next()?.parse().ok()?))
            })
            .filter(|(_, bytes)| *bytes > 0)
            .collect();
        let ours: BTreeMap<String, u64> = inventory
            .sections
            .iter()
            .map(|section| (section.name.clone(), section.bytes))
            .collect();
        assert_eq!(ours, listed, "{name}");

        let mut sizes: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
        for symbol in &inventory.symbols {
            for alias in symbol.aliases.iter().chain([&symbol.name]) {
                sizes.entry(alias.to_vec()).or_default().push(symbol.bytes);
            }
        }
        let mut compared = 0;
        for line in bench.run("nm", &["-S", "--defined-only", name]).lines() {
            let [_, bytes, kind, symbol] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                continue;
            };
            // The C library's symbols in a static program may nest.
            if name == "fixed" && !["main", "helper", "twice", "twofold", "own"].contains(&symbol) {
                continue;
            }
            let bytes = u64::from_str_radix(bytes, 16).unwrap();
            let found = &sizes[symbol.as_bytes()];
            assert!(found.contains(&bytes), "{name}: {kind} {symbol} {bytes}, not {found:?}");
            compared += 1;
        }
        assert!(compared >= 5, "{name}: only {compared} symbols");
    }
}

#[test]
fn functions_that_were_inlined_away_are_named_with_their_callers() {
    let Some(bench) = Bench::with(&["gcc"]) else { return };
    for options in [&["-O1", "-g"][..], &["-O1", "-g", "-c"], &["-O1", "-g", "-gz=zlib"]] {
        let one = bench.build("a.c", PROGRAM, "one", &[options, &[NOINLINE]].concat());
        let two = bench.build("a.c", PROGRAM, "two", &[options, &[INLINE]].concat());
        let gone = difference([&one, &two]);
        let helper = row(&gone, "helper");
        assert_eq!(helper.inlined_into, ["main"], "{options:?}");
        assert_eq!((helper.bytes[1], helper.origin.as_deref()), (None, Some("a.c")));
        // In the other direction, too.
        assert_eq!(row(&difference([&two, &one]), "helper").inlined_into, ["main"]);
    }
    let one = bench.build("a.c", PROGRAM, "one", &["-O1", NOINLINE]);
    let two = bench.build("a.c", PROGRAM, "two", &["-O1", INLINE]);
    let gone = difference([&one, &two]);
    assert!(row(&gone, "helper").inlined_into.is_empty());
    assert!(
        gone.notes.iter().any(|note| note.contains("without debug information")),
        "{:?}",
        gone.notes
    );
}

/// What is in a file and the files beside it, after commands were run; a reason if one is missing or fails.
fn moved(
    bench: &Bench,
    inline: &str,
    options: &str,
    commands: &[&str],
) -> Result<(Vec<u8>, Moved), String> {
    let options: Vec<&str> = options.split_whitespace().collect();
    bench.run("gcc", &[&["-O1", "-g", "-o", "p", "a.c", inline], &options[..]].concat());
    for line in commands {
        let words: Vec<&str> = line.split_whitespace().collect();
        let made = Command::new(words[0]).args(&words[1..]).current_dir(bench.0.path()).output();
        if !made.as_ref().is_ok_and(|made| made.status.success()) {
            return Err(format!("{line}: {made:?}"));
        }
    }
    let bytes = fs::read(bench.path("p")).unwrap();
    let places = DebugFiles::from("/nonexistent");
    let moved = places.moved(&bench.path("p"), &bytes, 1 << 30);
    Ok((bytes, moved))
}

#[test]
fn names_and_inlined_functions_are_found_in_the_files_they_were_moved_to() {
    let Some(bench) = Bench::with(&["gcc", "objcopy", "strip"]) else { return };
    fs::write(bench.path("a.c"), PROGRAM).unwrap();
    let strip =
        ["objcopy --only-keep-debug p p.debug", "strip p", "objcopy --add-gnu-debuglink=p.debug p"];
    let shared = ["gcc -O1 -g -DHELPER= -o q a.c", "dwz -m shared p q"];
    let cases: [(&str, &[&str]); 7] = [
        ("", &[]),
        ("", &strip),
        ("-gsplit-dwarf", &[]),
        ("-gsplit-dwarf", &strip),
        ("-gsplit-dwarf -gdwarf-4", &["dwp -e p -o p.dwp", "rm p-a.dwo"]),
        ("", &shared),
        ("", &[&shared[..], &strip].concat()),
    ];
    for (options, commands) in cases {
        let of = |inline: &str| moved(&bench, inline, options, commands);
        let (one, two) = match (of(NOINLINE), of(INLINE)) {
            (Ok(one), Ok(two)) => (one, two),
            (one, two) => {
                let why = one.err().or(two.err()).unwrap_or_default();
                skip::skip!("{why}");
                continue;
            }
        };
        let read = |(bytes, moved): &'_ (Vec<u8>, Moved)| {
            let file = Measured::with_moved("p", bytes, Some(moved)).unwrap();
            (file.inventory.names, file.inventory.notes.clone())
        };
        assert_eq!(read(&one).0, Names::Full, "{options} {commands:?}");
        assert_eq!(read(&one).1.len(), usize::from(commands.contains(&"strip p")));
        let measured = [&one, &two]
            .map(|(bytes, moved)| Measured::with_moved("p", bytes, Some(moved)).unwrap());
        let gone = compare([&measured[0], &measured[1]]).unwrap();
        assert_eq!(row(&gone, "helper").inlined_into, ["main"], "{options} {commands:?}");
        let code = compare_function([&measured[0], &measured[0]], "main").unwrap();
        assert_eq!(code.differing(), 0);
        assert!(code.code[0].instructions.len() > 2);
    }
    // Without its files a program is measured all the same, and that is said.
    let (bytes, none) = moved(&bench, NOINLINE, "-gsplit-dwarf", &["rm p-a.dwo"]).unwrap();
    let file = Measured::with_moved("p", &bytes, Some(&none)).unwrap();
    assert!(file.inventory.notes[0].contains("not here"), "{:?}", file.inventory.notes);
}

#[test]
fn parts_and_clones_are_counted_with_their_function() {
    let Some(bench) = Bench::with(&["gcc"]) else { return };
    let one = bench.object("one", &function("f", ".globl", 40));
    let two = [
        function("f", ".globl", 24),
        function("f.cold", ".local", 10),
        function("f.constprop.0", ".local", 9),
        // A part of a function of the same name in another file.
        ".file \"other.c\"\n".into(),
        function("g", ".local", 3),
        function("g.part.0", ".local", 2),
    ]
    .concat();
    let two = bench.object("two", &two);
    let changed = difference([&one, &two]);
    assert_eq!(changed.change(), 8);
    assert_eq!(row(&changed, "f.cold").part_of, Some(("f".into(), 3)));
    assert_eq!(row(&changed, "f.constprop.0").part_of, Some(("f".into(), 3)));
    assert_eq!(row(&changed, "g.part.0").part_of, Some(("g".into(), 5)));
    assert_eq!(row(&changed, "f").part_of, None);
}

#[test]
fn clones_of_mangled_names_show_what_the_compiler_put_behind() {
    let Some(bench) = Bench::with(&["gcc"]) else { return };
    let one = bench.object("one", &function("_ZN2ns4loopEi", ".globl", 4));
    let clone = function("_ZN2ns4loopEi.constprop.0", ".local", 6);
    let two = bench.object("two", &(function("_ZN2ns4loopEi", ".globl", 4) + &clone));
    let changed = difference([&one, &two]);
    let row = row(&changed, "ns::loop(int) [clone .constprop.0]");
    assert_eq!(row.part_of, Some(("ns::loop(int)".into(), 6)));
    assert_eq!(row.symbol, "_ZN2ns4loopEi.constprop.0");
}

#[test]
fn files_of_32_bits_are_compared_too_but_not_disassembled() {
    let Some(bench) = Bench::with(&["gcc"]) else { return };
    let made = |name: &str, bytes| {
        let text = function("f", ".globl", bytes);
        bench.build(&format!("{name}.s"), &text, &format!("{name}.o"), &["-m32", "-c"])
    };
    let (one, two) = (made("one", 4), made("two", 9));
    let changed = difference([&one, &two]);
    assert_eq!((changed.machine.as_str(), changed.change()), ("i386 (32-bit)", 5));
    let file = Measured::read("one.o", &one).unwrap();
    let error = compare_function([&file, &file], "f").unwrap_err().to_string();
    assert!(error.contains("64-bit x86 and 64-bit ARM only"), "{error}");
}

#[test]
fn aliases_and_folded_functions_share_one_row() {
    let Some(bench) = Bench::with(&["gcc"]) else { return };
    let one = bench.object("one", &(function("a", ".globl", 12) + &function("b", ".globl", 12)));
    let two = bench.object(
        "two",
        &(function("a", ".globl", 12) + ".globl b\n.set b, a\n.type b, @function\n.size b, 12\n"),
    );
    let folded = difference([&one, &two]);
    assert_eq!(folded.change(), -12);
    assert_eq!(row(&folded, "b").folded_onto.as_deref(), Some("a"));
    let apart = difference([&two, &one]);
    assert_eq!(row(&apart, "b").folded_onto.as_deref(), Some("a"));
}

#[test]
fn functions_without_a_size_are_estimated_and_padding_is_unnamed() {
    let Some(bench) = Bench::with(&["gcc"]) else { return };
    let sized = function("sized", ".globl", 10);
    let one = bench.object(
        "one",
        &format!(
            "{sized}.balign 16\n.globl bare\nbare: .fill 5, 1, 0x90\n{}",
            function("last", ".globl", 3)
        ),
    );
    let two = bench.object(
        "two",
        &format!(
            "{sized}.balign 16\n.globl bare\nbare: .fill 9, 1, 0x90\n{}",
            function("last", ".globl", 3)
        ),
    );
    let changed = difference([&one, &two]);
    let bare = row(&changed, "bare");
    assert_eq!((bare.bytes, bare.estimated), ([Some(5), Some(9)], [true, true]));
    let text = changed.sections.iter().find(|row| row.name == ".text").unwrap();
    assert_eq!((text.bytes, text.unnamed_bytes), ([Some(24), Some(28)], [Some(6), Some(6)]));
}

#[test]
fn members_of_archives_are_told_apart_and_foreign_ones_are_left_out() {
    let Some(bench) = Bench::with(&["gcc", "ar"]) else { return };
    bench.object("x", &function("f", ".local", 4));
    bench.object("y", &(function("f", ".local", 6) + &function("g", ".globl", 8)));
    fs::write(bench.path("README"), "text\n").unwrap();
    bench.run("ar", &["rc", "one.a", "x.o", "y.o", "README"]);
    bench.object("y", &(function("f", ".local", 9) + &function("g", ".globl", 8)));
    bench.run("ar", &["rc", "two.a", "x.o", "y.o"]);
    let read = |name: &str| fs::read(bench.path(name)).unwrap();
    let (one, two) = (read("one.a"), read("two.a"));
    let changed = difference([&one, &two]);
    assert_eq!(changed.symbols.len(), 1);
    let f = row(&changed, "f");
    assert_eq!((f.bytes, f.origin.as_deref()), ([Some(6), Some(9)], Some("y.o")));
    let notes = changed.notes.join("\n");
    assert!(
        notes.contains("archive of 2 objects") && notes.contains("left out: 1 (README)"),
        "{notes}"
    );
    bench.run("ar", &["rcT", "thin.a", "x.o"]);
    assert!(refusal(&read("thin.a")).contains("thin archive"));
    bench.run("ar", &["rc", "foreign.a", "README"]);
    assert!(refusal(&read("foreign.a")).contains("none of its 1 members"));
    let mut arm = read("x.o");
    arm[18] = 183;
    fs::write(bench.path("arm.o"), arm).unwrap();
    bench.run("ar", &["rc", "mixed.a", "x.o", "arm.o"]);
    assert!(refusal(&read("mixed.a")).contains("different machines"));
    let cut = &one[..one.len() - 10];
    assert!(refusal(cut).contains("broken"), "{}", refusal(cut));
}

#[track_caller]
fn refusal(bytes: &[u8]) -> String {
    Measured::read("file", bytes).unwrap_err().to_string()
}

#[test]
fn what_is_no_object_or_was_cut_short_is_refused_with_the_reason() {
    assert!(refusal(b"").contains("empty"));
    assert!(refusal(b"#!/bin/sh\n").contains("neither an ELF file nor an archive"));
    assert!(refusal(b"\x7fELF").contains("cut short"));
    let Some(bench) = Bench::with(&["gcc"]) else { return };
    let whole = bench.object("x", &function("f", ".globl", 4));
    for length in [20, 63, whole.len() / 2, whole.len() - 1] {
        let found = refusal(&whole[..length]);
        assert!(found.contains("cut short") || found.contains("broken"), "{length}: {found}");
    }
    let mut core = whole.clone();
    core[16] = 4;
    assert!(refusal(&core).contains("core dump"));
    let mut bare = whole.clone();
    bare[40..48].fill(0);
    assert!(refusal(&bare).contains("section headers were removed"));
}

#[test]
fn section_headers_that_lie_lead_to_an_error_or_to_sums_that_hold() {
    let Some(bench) = Bench::with(&["gcc"]) else { return };
    let whole = bench.object("x", &(function("f", ".globl", 4) + &function("g", ".globl", 40)));
    let headers = u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
    let (mut refused, mut read) = (0, 0);
    for place in headers..whole.len() {
        for value in [0x00, 0x01, 0x7f, 0xff] {
            let mut lie = whole.clone();
            lie[place] = value;
            match Measured::read("lie", &lie) {
                Err(_) => refused += 1,
                Ok(lie) => {
                    read += 1;
                    let honest = Measured::read("honest", &whole).unwrap();
                    if let Ok(difference) = compare([&honest, &lie]) {
                        check_sums(&difference);
                    }
                }
            }
        }
    }
    assert!(refused > 50 && read > 50, "{refused} refused, {read} read");
}

#[test]
fn damage_anywhere_is_refused_or_leaves_sums_that_hold() {
    let Some(bench) = Bench::with(&["gcc"]) else { return };
    let whole = [
        bench.build("a.c", PROGRAM, "a.o", &["-O1", "-g", "-c", NOINLINE]),
        bench.build("a.c", PROGRAM, "b.o", &["-O1", "-g", "-c", INLINE]),
    ];
    let mut random = opcost_stats::Random::new(1);
    let (mut refused, mut compared) = (0, 0);
    for _ in 0..400 {
        let mut damaged = whole.clone();
        for _ in 0..=random.below(6) {
            let file = &mut damaged[random.below(2) as usize];
            let place = random.below(file.len() as u64) as usize;
            file[place] = random.below(256) as u8;
        }
        let [one, two] = damaged.each_ref().map(|bytes| Measured::read("damaged", bytes));
        let (Ok(one), Ok(two)) = (one, two) else {
            refused += 1;
            continue;
        };
        if let Ok(difference) = compare([&one, &two]) {
            check_sums(&difference);
            compared += 1;
        }
        // Whatever the comparison shows or says, it ends.
        let _ = compare_function([&one, &two], "main");
    }
    assert!(refused > 0 && compared > 100, "{refused} refused, {compared} compared");
}

#[test]
fn stripped_files_are_compared_by_section_and_that_is_said() {
    let Some(bench) = Bench::with(&["gcc", "strip"]) else { return };
    let one = bench.build("a.c", PROGRAM, "one", &["-O1", "-static", NOINLINE, "-s"]);
    let two = bench.build(
        "b.c",
        &PROGRAM.replace("[64]", "[640]"),
        "two",
        &["-O1", "-static", NOINLINE, "-s"],
    );
    let changed = difference([&one, &two]);
    assert_eq!(changed.sides.each_ref().map(|side| side.names), [Names::None; 2]);
    assert!(changed.symbols.is_empty() && changed.change() >= 576 * 4);
    assert!(changed.notes.iter().any(|note| note.contains("only sections")), "{:?}", changed.notes);
    // A library keeps the names that it exports.
    let library =
        bench.build("a.c", PROGRAM, "one.so", &["-O1", "-shared", "-fPIC", NOINLINE, "-s"]);
    let whole = bench.build("a.c", PROGRAM, "two.so", &["-O1", "-shared", "-fPIC", NOINLINE]);
    let named = difference([&library, &whole]);
    assert_eq!(named.sides[0].names, Names::Exported);
    assert!(!named.symbols.iter().any(|row| row.name == "main"));
    // If only one side has names, bytes are compared by section.
    assert!(difference([&one, &whole]).symbols.is_empty());
}

#[test]
fn other_machines_and_the_same_file_are_noticed() {
    let Some(bench) = Bench::with(&["gcc"]) else { return };
    let here = bench.object("x", &function("f", ".globl", 4));
    let mut arm = here.clone();
    arm[18] = 183;
    let read = |name: &str, bytes| Measured::read(name, bytes).unwrap();
    let error = compare([&read("x.o", &here), &read("arm.o", &arm)]).unwrap_err();
    assert!(matches!(error, SizeError::Machines { .. }));
    assert!(error.to_string().contains("AArch64"), "{error}");
    let same = difference([&here, &here]);
    assert!(same.identical && same.symbols.is_empty() && same.symbols_unchanged == 1);
}

/// Makes an ELF file for x86-64 with `count` functions of these sizes.
fn many_symbols(count: u64, size: impl Fn(u64) -> u64) -> Vec<u8> {
    let (mut symbols, mut names) = (vec![0; 24], vec![0]);
    let mut address = 0u64;
    for number in 0..count {
        let bytes = size(number);
        symbols.extend((names.len() as u32).to_le_bytes());
        // STB_GLOBAL, STT_FUNC; default visibility; section 1.
        symbols.extend([0x12, 0, 1, 0]);
        symbols.extend(address.to_le_bytes());
        symbols.extend(bytes.to_le_bytes());
        names.extend(format!("function_{number}\0").bytes());
        address += bytes;
    }
    let section_names = b"\0.text\0.symtab\0.strtab\0";
    let (symbols_at, names_at) = (64, 64 + symbols.len());
    let section_names_at = names_at + names.len();
    let headers_at = section_names_at + section_names.len();
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // ET_REL for x86-64.
    file.extend([1, 0, 62, 0, 1, 0, 0, 0]);
    file.extend([0; 16]);
    file.extend((headers_at as u64).to_le_bytes());
    file.extend([0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 64, 0, 5, 0, 4, 0]);
    file.extend(symbols);
    file.extend(names.iter());
    file.extend(section_names);
    let mut header = |fields: [u64; 8]| {
        let [name, kind, flags, offset, size, link, info, entry] = fields;
        file.extend([name as u32, kind as u32].map(u32::to_le_bytes).concat());
        file.extend([flags, 0, offset, size].map(u64::to_le_bytes).concat());
        file.extend([link as u32, info as u32].map(u32::to_le_bytes).concat());
        file.extend([1, entry].map(u64::to_le_bytes).concat());
    };
    header([0; 8]);
    // The code has no contents, so that the file stays small.
    header([1, 8, 6, 0, address, 0, 0, 0]);
    header([7, 2, 0, symbols_at as u64, 24 * (count + 1), 3, 1, 24]);
    header([15, 3, 0, names_at as u64, names.len() as u64, 0, 0, 0]);
    header([15, 3, 0, section_names_at as u64, section_names.len() as u64, 0, 0, 0]);
    file
}

#[test]
fn a_million_symbols_are_compared_one_by_one() {
    let one = many_symbols(500_000, |number| number % 50);
    let two = many_symbols(500_001, |number| number % 50 + u64::from(number == 377_777));
    let changed = difference([&one, &two]);
    // Functions of size 0 share a row with the next one; only the last one is estimated.
    let names: Vec<&str> = changed.symbols.iter().map(|row| row.name.as_str()).collect();
    assert!(names.contains(&"function_377777"), "{names:?}");
    assert_eq!(changed.change(), 1);
    assert!(changed.symbols_unchanged > 450_000);
}

#[test]
fn code_that_only_moved_is_the_same_and_changed_instructions_are_marked() {
    let Some(bench) = Bench::with(&["gcc"]) else { return };
    let source = |before: usize, limit: usize| {
        format!(
            "{}.globl f\n.type f, @function\nf: cmp ${limit}, %rdi\njb 1f\ncall g\nmov data(%rip), %rax\n1: ret\n.size f, . - f\n{}.data\n.globl data\ndata: .quad 1\n",
            function("earlier", ".globl", before),
            function("g", ".globl", 3)
        )
    };
    let main = ".globl main\nmain: ret\n";
    let one = bench.build("one.s", &(source(5, 7) + ".text\n" + main), "one", &[]);
    let moved = bench.build("two.s", &(source(500, 7) + ".text\n" + main), "two", &[]);
    let changed = bench.build("three.s", &(source(5, 8) + ".text\n" + main), "three", &[]);
    let read = |name: &str, bytes| Measured::read(name, bytes).unwrap();
    let [one, moved, changed] = [read("one", &one), read("two", &moved), read("three", &changed)];
    let same = compare_function([&one, &moved], "f").unwrap();
    assert_eq!(same.differing(), 0);
    let texts: Vec<&str> =
        same.code[1].instructions.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["cmp $0x7, %rdi", "jb +0x12", "call g", "mov data(%rip), %rax", "ret"]);
    let other = compare_function([&one, &changed], "f").unwrap();
    assert_eq!(other.rows[0], Aligned::Differs(Some(0), Some(0)));
    assert_eq!(other.differing(), 1);
    let error = compare_function([&one, &changed], "g2").unwrap_err().to_string();
    assert!(error.contains("did you mean g"), "{error}");
}

#[test]
fn functions_of_one_name_are_chosen_by_their_file() {
    let Some(bench) = Bench::with(&["gcc", "ar"]) else { return };
    bench.object("x", &function("f", ".local", 4));
    bench.object("y", &function("f", ".local", 6));
    bench.run("ar", &["rc", "l.a", "x.o", "y.o"]);
    let bytes = fs::read(bench.path("l.a")).unwrap();
    let library = Measured::read("l.a", &bytes).unwrap();
    let error = compare_function([&library, &library], "f").unwrap_err().to_string();
    assert!(error.contains("has 2 of them; give one of x.o:f, y.o:f"), "{error}");
    let chosen = compare_function([&library, &library], "y.o:f").unwrap();
    assert_eq!(chosen.code[0].bytes, 6);
}

#[test]
fn large_programs_add_up() {
    let Some(bench) = Bench::with(&["gcc", "strip"]) else { return };
    // This test and a program with the C library, without debug information, which would take long.
    let stripped = |path: &Path| {
        bench.run("strip", &["-g", "-o", "stripped", path.to_str().unwrap()]);
        fs::read(bench.path("stripped")).unwrap()
    };
    let one = stripped(&std::env::current_exe().unwrap());
    let empty = "int main(void) { return 0; }";
    bench.build("c.c", empty, "c", &["-static"]);
    let two = stripped(&bench.path("c"));
    let changed = difference([&one, &two]);
    assert!(changed.symbols.len() > 1000);
    assert!(changed.symbols.iter().any(|row| row.name.contains("opcost_size::")));
}
