use super::*;
use crate::program;
use opcost_record::symbols::{PAGE_BYTES, page_hash};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

const PROGRAM: &str = r#"
#include <stdio.h>
__attribute__((noinline)) static int triple(int x) { __asm__ volatile(""); return 3 * x; }
__attribute__((noinline)) int twice(int x) { __asm__ volatile(""); return 2 * x; }
int twofold(int x) __attribute__((alias("twice")));
__asm__(".globl label\nlabel: nop\nnop\nret\n");
int main(int argc, char **argv) { printf("%d\n", triple(argc) + twice(argc)); return 0; }
"#;

/// A program with records for two sites of patchpoint, of five and two bytes.
const PATCHED: &str = r#"
__asm__(".globl here, there, here_end, there_end\n"
"here: .byte 0xe8,1,2,3,4\nhere_end: nop\nthere: .byte 0x66,0x90\nthere_end: ret\n"
".pushsection patchpoint_sites,\"a\"\n"
".long there - ., 0, 0\n.byte 2, 2, 0, 0\n"
".long here - ., 0, 0\n.byte 1, 5, 0, 0\n.popsection\n");
int main(void) { return 0; }
"#;

/// Runs a tool; says why if it cannot.
fn tool(name: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(name).args(arguments).output() {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            crate::skip::skip!("{name} {arguments:?} failed: {error}");
            None
        }
        Err(error) => {
            crate::skip::skip!("{name}: {error}");
            None
        }
    }
}

/// Compiles `source`; dropping the result deletes the folder.
fn compile(compiler: &str, source: &str, options: &[&str]) -> Option<(TempDir, String)> {
    let folder = TempDir::new().unwrap();
    let ending = if compiler == "g++" { "cc" } else { "c" };
    let code = folder.path().join("program").with_extension(ending).display().to_string();
    fs::write(&code, source).unwrap();
    let program = folder.path().join("program").display().to_string();
    let mut arguments = vec!["-O1", "-o", &program, &code];
    arguments.extend(options);
    tool(compiler, &arguments)?;
    Some((folder, program))
}

fn symbols(program: &str) -> ProgramSymbols {
    read(&fs::read(program).unwrap(), None, "/guest/program").unwrap()
}

#[test]
fn pages_are_recognised_whatever_stands_at_their_sites() {
    let Some((_folder, program)) = compile("gcc", PATCHED, &[]) else { return };
    let Some(listed) = listed_labels(&program) else { return };
    let Some(slide) = slide(&program) else { return };
    let at = |name: &str| listed.iter().find(|(_, known)| known == name).unwrap().0 - slide;
    let before = symbols(&program);
    assert_eq!(before.sites, [(at("here"), at("here_end")), (at("there"), at("there_end"))]);
    let mut file = fs::read(&program).unwrap();
    for site in &before.sites {
        file[site.0 as usize..site.1 as usize].fill(0xcc);
    }
    let after = read(&file, None, "/guest/program").unwrap();
    assert_eq!(after.pages, before.pages);
    file[before.sites[0].1 as usize] = 0xcc;
    assert_ne!(read(&file, None, "/guest/program").unwrap().pages, before.pages);
}

#[test]
fn code_without_a_frame_is_known_by_its_unwind_information() {
    let options = ["-fno-omit-frame-pointer", "-momit-leaf-frame-pointer", "-fno-inline"];
    let source = "int leaf(int x) { return 3 * x; }\n\
                  int framed(int x) { return leaf(x) + 1; }\n\
                  int main(int argc, char **argv) { return framed(argc); }\n";
    let Some((_folder, program)) = compile("gcc", source, &options) else { return };
    let Some(listed) = listed_labels(&program) else { return };
    let Some(slide) = slide(&program) else { return };
    let at = |name: &str| listed.iter().find(|(_, known)| known == name).unwrap().0 - slide;
    // Behind `endbr64`, `push` and `mov` the function has a frame.
    let mut places = vec![(at("leaf"), true), (at("leaf") + 2, true), (at("framed") + 9, false)];
    places.push((at("framed"), true));
    places.sort_unstable();
    let (offsets, expected): (Vec<u64>, Vec<bool>) = places.into_iter().unzip();
    let mut file = fs::read(&program).unwrap();
    assert_eq!(without_frame(&file, &offsets).unwrap(), expected);
    // Code without readable unwind information counts as having a frame.
    assert_eq!(without_frame(&file, &[0, u64::MAX]).unwrap(), [false, false]);
    let name = file.windows(10).position(|name| name == b".eh_frame\0").unwrap();
    file[name + 1] = b'x';
    assert_eq!(without_frame(&file, &offsets).unwrap(), [false; 4]);
}

/// Returns labels with their address, as `nm` lists them.
fn listed_labels(program: &str) -> Option<Vec<(u64, String)>> {
    let listing = tool("nm", &[program])?;
    let label = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [address, _, name] => Some((u64::from_str_radix(address, 16).ok()?, name.to_owned())),
        _ => None,
    };
    Some(listing.lines().filter_map(label).collect())
}

/// Returns the name of the function at a file offset.
fn at(symbols: &ProgramSymbols, offset: u64) -> &str {
    let found = symbols.parts.iter().find(|part| part.start <= offset && offset < part.end);
    found.map_or("", |part| &part.function.symbol)
}

/// Returns symbols with their address and size, as `nm` lists them.
fn listed(program: &str, options: &[&str]) -> Option<Vec<(u64, u64, String)>> {
    let listing = tool("nm", &[&["-S", program], options].concat())?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let symbol = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [address, bytes, "t" | "T" | "W" | "i", name] => {
            Some((hex(address)?, hex(bytes)?, name.to_owned()))
        }
        _ => None,
    };
    Some(listing.lines().filter_map(symbol).collect())
}

/// Returns the address minus the file offset of the executable segment, as `readelf` lists it.
fn slide(program: &str) -> Option<u64> {
    let listing = tool("readelf", &["-lW", program])?;
    let line = listing.lines().find(|line| line.contains("LOAD") && line.contains("R E"))?;
    let fields: Vec<&str> = line.split_whitespace().collect();
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    Some(hex(fields[2]) - hex(fields[1]))
}

/// Describes executable bytes that are of no part or of several.
fn uncovered(file: &[u8], symbols: &ProgramSymbols) -> Option<String> {
    let mut parts = symbols.parts.iter().peekable();
    for code in Image::parse(file).unwrap().code().unwrap() {
        let mut done = code.start;
        while let Some(part) = parts.next_if(|part| part.start < code.end) {
            if part.start != done || part.end <= part.start || part.end > code.end {
                return Some(format!("{part:x?} follows {done:#x}"));
            }
            done = part.end;
        }
        if done != code.end {
            return Some(format!("{done:#x} to {:#x} has no part", code.end));
        }
    }
    parts.next().map(|part| format!("{part:x?} is outside of the code"))
}

/// Returns this test's program and the C library that it uses.
fn real_programs() -> Vec<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.ends_with("/libc.so.6"));
    std::env::current_exe().into_iter().chain(libc.map(PathBuf::from)).collect()
}

#[test]
fn functions_are_where_nm_says_whatever_the_linking() {
    for options in
        [&["-pie", "-fPIE"] as &[&str], &["-no-pie"], &["-static"], &["-Wl,-z,noseparate-code"]]
    {
        let Some((_folder, program)) = compile("gcc", PROGRAM, options) else { continue };
        let (Some(listed), Some(slide)) = (listed(&program, &[]), slide(&program)) else {
            continue;
        };
        let symbols = symbols(&program);
        for (name, source) in [("main", None), ("triple", Some("program.c")), ("twice", None)] {
            let (address, bytes, _) = listed.iter().find(|(.., found)| found == name).unwrap();
            let offset = address - slide;
            let source = source.map(str::to_string);
            let function = Function { source, ..Function::new(name, "/guest/program") };
            let part = Part { start: offset, end: offset + bytes, function };
            assert!(symbols.parts.contains(&part), "{options:?}: {part:x?}");
        }
        let named = |name: &str| symbols.parts.iter().any(|part| part.function.symbol == name);
        assert!(named("label"), "{options:?}: an assembler's label is a function");
        assert!(!named("twofold"), "{options:?}: of two names the shorter is shown");
        assert_eq!(uncovered(&fs::read(&program).unwrap(), &symbols), None);
    }
}

#[test]
fn local_functions_of_one_name_are_told_apart_by_their_files() {
    let local = |number: u32| {
        format!(
            "__attribute__((noinline)) static int local(int x) {{ __asm__(\"\"); return x + {number}; }}
             int from_{number}(int x) {{ return local(x); }}"
        )
    };
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::create_dir(path("sub")).unwrap();
    let main = "int from_1(int), from_2(int), from_3(int);
                int main(int n, char **v) { return from_1(n) + from_2(n) + from_3(n); }";
    for (name, text) in
        [("main.c", main), ("one.c", &local(1)), ("two.c", &local(2)), ("sub/two.c", &local(3))]
    {
        fs::write(path(name), text).unwrap();
    }
    let program = path("program");
    let sources = ["main.c", "one.c", "two.c", "sub/two.c"].map(path);
    let mut arguments = vec!["-O1", "-o", &program];
    arguments.extend(sources.iter().map(String::as_str));
    let Some(_) = tool("gcc", &arguments) else { return };
    let file = fs::read(&program).unwrap();
    let parts = read(&file, None, "/guest/program").unwrap().parts;
    let locals: Vec<&Part> = parts.iter().filter(|part| part.function.symbol == "local").collect();
    let sources: Vec<&str> =
        locals.iter().map(|part| part.function.source.as_deref().unwrap()).collect();
    // Two source files may have one name; then the address tells the functions apart.
    assert_eq!(sources[0], "one.c");
    assert!(sources[1].starts_with("0x") && sources[2].starts_with("0x"), "{sources:?}");
    assert_ne!(sources[1], sources[2]);
    // The source of a function does not depend on which functions are asked for.
    let wanted = [b"local".as_slice()].into_iter().collect();
    for part in &locals {
        let lookup = names(&file, None, &[part.start], &wanted).unwrap();
        assert_eq!(lookup.functions[0].source, part.function.source);
        let known: Vec<&str> =
            lookup.sources[b"local".as_slice()].iter().flatten().map(String::as_str).collect();
        assert_eq!(known, sources);
    }
}

#[test]
fn stripped_functions_are_named_by_their_address() {
    let Some((_folder, program)) = compile("gcc", PROGRAM, &["-pie", "-fPIE"]) else { return };
    let (Some(listed), Some(slide)) = (listed(&program, &[]), slide(&program)) else { return };
    let Some(_) = tool("strip", &[&program]) else { return };
    let symbols = symbols(&program);
    for name in ["main", "triple", "twice"] {
        let (address, bytes, _) = listed.iter().find(|(.., found)| found == name).unwrap();
        let name = format!("[at {address:#x}]");
        assert_eq!(at(&symbols, address - slide), name);
        assert_eq!(at(&symbols, address - slide + bytes - 1), name);
    }
    assert_eq!(uncovered(&fs::read(&program).unwrap(), &symbols), None);
}

#[test]
fn a_debug_file_of_the_same_build_id_gives_the_names_back() {
    let options = ["-pie", "-fPIE", "-Wl,--build-id"];
    let Some((folder, program)) = compile("gcc", PROGRAM, &options) else { return };
    let whole = symbols(&program);
    let file = fs::read(&program).unwrap();
    let id = build_id(&file).unwrap().expect("--build-id makes one").to_vec();
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let debug = folder.path().join(".build-id").join(&hex[..2]);
    fs::create_dir_all(&debug).unwrap();
    let debug = debug.join(format!("{}.debug", &hex[2..]));
    let path = debug.display().to_string();
    let Some(_) = tool("objcopy", &["--only-keep-debug", &program, &path]) else { return };
    let Some(_) = tool("strip", &[&program]) else { return };
    let read =
        || program::read(Path::new(&program), "/guest/program", &folder.path().into()).unwrap();
    assert_eq!(read().parts, whole.parts);
    assert_ne!(read().pages, [], "pages are the stripped file's own");

    // Another program's debug file has other names at the same places.
    let mut bytes = fs::read(&debug).unwrap();
    let place = bytes.windows(id.len()).position(|window| window == id).unwrap();
    bytes[place] ^= 1;
    fs::write(&debug, bytes).unwrap();
    assert!(read().parts.iter().all(|part| part.function.symbol != "main"));
    fs::write(&debug, "no ELF file").unwrap();
    assert!(read().parts.iter().all(|part| part.function.symbol != "main"));
}

#[test]
fn entries_of_linkage_tables_have_the_name_of_what_they_lead_to() {
    for options in [
        &["-pie", "-fPIE", "-fcf-protection=full", "-Wl,-z,lazy"] as &[&str],
        &["-pie", "-fPIE", "-fcf-protection=full", "-Wl,-z,ibtplt", "-Wl,-z,now"],
        &["-no-pie", "-fcf-protection=none", "-Wl,-z,lazy"],
    ] {
        let Some((_folder, program)) = compile("gcc", PROGRAM, options) else { continue };
        let Some(slide) = slide(&program) else { continue };
        let Some(listing) = tool("objdump", &["-d", &program]) else { continue };
        let entries: Vec<(u64, &str)> = listing
            .lines()
            .filter_map(|line| line.split_once(" <")?.1.strip_suffix(">:").map(|name| (line, name)))
            .filter(|(_, name)| name.ends_with("@plt"))
            .map(|(line, name)| (u64::from_str_radix(&line[..16], 16).unwrap(), name))
            .collect();
        assert!(entries.iter().any(|(_, name)| *name == "printf@plt"), "{listing}");
        let symbols = symbols(&program);
        for (address, name) in entries {
            assert_eq!(at(&symbols, address - slide), name, "{options:?}");
        }
    }
}

#[test]
fn functions_and_linkage_tables_of_64_bit_arm_are_those_that_llvm_has() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("library").display().to_string();
    let source = folder.path().join("library.c");
    let text = "int puts(const char *); int putchar(int);\n\
                static __attribute__((noinline)) int own(int x) { return x * 7 + putchar(x); }\n\
                int both(int x) { puts(\"both\"); return own(x) + own(x + 1); }\n";
    fs::write(&source, text).unwrap();
    let options = ["--target=aarch64-linux-gnu", "-O1", "-fPIC", "-shared", "-nostdlib"];
    let source = source.display().to_string();
    let arguments = [&options[..], &["-fuse-ld=lld", "-o", &program, &source]].concat();
    if tool("clang", &arguments).is_none() {
        return;
    }
    let Some(listing) = tool("llvm-objdump", &["-d", "--no-leading-headers", &program]) else {
        return;
    };
    let symbols = symbols(&program);
    let read = fs::read(&program).unwrap();
    let code = CodeAt::read(&read).unwrap();
    let mut named = 0;
    for line in listing.lines().filter(|line| line.ends_with(">:")) {
        let (address, name) = line.split_once(" <").unwrap();
        let (address, name) =
            (u64::from_str_radix(address, 16).unwrap(), name.trim_end_matches(">:"));
        if !name.starts_with('.') {
            assert_eq!(at(&symbols, code.offset(address).unwrap()), name);
            named += 1;
        }
    }
    assert_eq!(named, 4, "{listing}");
    let offsets: Vec<u64> = symbols.parts.iter().map(|part| part.start).collect();
    assert_eq!(without_frame(&*read, &offsets).unwrap(), vec![false; offsets.len()]);
}

#[test]
fn names_of_cpp_are_readable() {
    let source = "namespace ns { struct Thing { int loop(int x) const; };\n\
                  int Thing::loop(int x) const { return x + 1; } }\n\
                  int main(int n, char **) { return ns::Thing().loop(n); }";
    let Some((_folder, program)) = compile("g++", source, &[]) else { return };
    let symbols = symbols(&program);
    let found =
        symbols.parts.iter().any(|part| part.function.symbol == "ns::Thing::loop(int) const");
    assert!(found, "{:?}", symbols.parts);
}

#[test]
fn exported_functions_of_the_c_library_have_their_names() {
    let programs = real_programs();
    let Some(libc) = programs.iter().find(|path| path.ends_with("libc.so.6")) else {
        crate::skip::skip!("this test is not linked with libc.so.6");
        return;
    };
    let libc = libc.display().to_string();
    let (Some(listed), Some(slide)) = (listed(&libc, &["-D"]), slide(&libc)) else { return };
    let symbols = symbols(&libc);
    // memcpy is an indirect function: its symbol is the resolver's.
    for name in ["getpid", "malloc", "qsort", "memcpy"] {
        let (address, ..) = listed
            .iter()
            .find(|(.., found)| found.split('@').next() == Some(name))
            .unwrap_or_else(|| panic!("libc.so.6 exports {name}"));
        assert_eq!(at(&symbols, address - slide), name);
    }
}

#[test]
fn a_program_with_dynamic_symbols_only_is_covered() {
    let Ok(file) = fs::read("/bin/ls") else {
        crate::skip::skip!("there is no /bin/ls");
        return;
    };
    let symbols = read(&file, None, "/bin/ls").unwrap();
    assert_eq!(uncovered(&file, &symbols), None);
    let count = |found: fn(&str) -> bool| {
        symbols.parts.iter().filter(|part| found(&part.function.symbol)).count()
    };
    assert!(count(|name| name.starts_with("[at 0x")) > 50);
    assert!(count(|name| name.ends_with("@plt")) > 50);
}

#[test]
fn every_executable_byte_is_of_one_function_and_every_page_is_hashed() {
    for path in real_programs() {
        let file = fs::read(&path).unwrap();
        let symbols = read(&file, None, "real").unwrap();
        assert_eq!(uncovered(&file, &symbols), None, "{}", path.display());
        for (offset, hash) in &symbols.pages {
            // The page as mapped: up to the end of the file, then zeros.
            let mut page = [0; PAGE_BYTES];
            let bytes = file[*offset as usize..].iter().take(PAGE_BYTES);
            page.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            assert_eq!(*hash, page_hash(&page));
        }
        let offsets: Vec<u64> = symbols.pages.iter().map(|(offset, _)| *offset).collect();
        let mut expected: Vec<u64> = Vec::new();
        for code in Image::parse(&file).unwrap().code().unwrap() {
            expected.extend(code.start / 4096..=(code.end - 1) / 4096);
        }
        expected.dedup();
        assert_eq!(offsets, expected.iter().map(|page| page * 4096).collect::<Vec<_>>());
    }
}

#[test]
fn this_programs_own_functions_are_found() {
    let file = fs::read(std::env::current_exe().unwrap()).unwrap();
    let symbols = read(&file, None, "self").unwrap();
    let name = concat!(module_path!(), "::this_programs_own_functions_are_found");
    assert!(symbols.parts.iter().any(|part| part.function.symbol == name));
}

#[test]
fn what_is_wrong_with_a_file_is_named() {
    let file = fs::read(std::env::current_exe().unwrap()).unwrap();
    let fault = |file: &[u8]| read(file, None, "broken").unwrap_err();
    let changed = |place: usize, bytes: &[u8]| {
        let mut file = file[..1 << 16].to_vec();
        file[place..place + bytes.len()].copy_from_slice(bytes);
        fault(&file)
    };
    assert_eq!(fault(b"#!/bin/sh\n"), ElfError::NotElf);
    assert_eq!(fault(b""), ElfError::NotElf);
    assert_eq!(fault(&file[..40]), ElfError::Truncated { needs_bytes: 64, has_bytes: 40 });
    assert!(matches!(fault(&file[..1 << 16]), ElfError::Truncated { .. }));
    let found = "64-bit, little-endian, ELF machine 243".to_owned();
    assert_eq!(changed(18, &[243, 0]), ElfError::Machine { found });
    let found = "32-bit, little-endian, ELF machine 62".to_owned();
    assert_eq!(changed(4, &[1]), ElfError::Machine { found });
    assert_eq!(changed(16, &[1, 0]), ElfError::Kind { kind: 1 });
    // A wrong size of section headers.
    let mut broken = file.clone();
    broken[58] = 63;
    assert!(matches!(fault(&broken), ElfError::Malformed { .. }));
    let error = program::read(Path::new("/nonexistent"), "n", &"/".into()).unwrap_err();
    assert!(error.to_string().contains("/nonexistent"));
}

/// Returns a small program to break.
fn small_program() -> Option<&'static [u8]> {
    static FILE: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let make = || compile("gcc", PROGRAM, &[]).map(|(_folder, program)| fs::read(program).unwrap());
    FILE.get_or_init(make).as_deref()
}

proptest! {
    #[test]
    fn a_broken_file_is_an_error_or_still_covered(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        in_headers in any::<bool>(),
    ) {
        let Some(file) = small_program() else { return Ok(()) };
        let mut file = file.to_vec();
        let headers = 64 + 13 * 56;
        for (place, byte) in changes {
            let place = place.index(if in_headers { headers } else { file.len() });
            file[place] = byte;
        }
        if let Ok(symbols) = read(&file, None, "broken") {
            prop_assert_eq!(uncovered(&file, &symbols), None);
        }
    }

    #[test]
    fn a_file_cut_short_is_an_error(length in any::<prop::sample::Index>()) {
        let Some(file) = small_program() else { return Ok(()) };
        // The section headers are at the end of the file.
        let length = length.index(file.len() - 1);
        prop_assert!(read(&file[..length], None, "cut").is_err());
    }
}
