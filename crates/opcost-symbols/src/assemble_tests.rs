use super::super::debug_files::DEBUG_FILES;
use super::*;
use opcost_record::symbols::Landmark;
use std::fs;

fn part(start: u64, end: u64, symbol: &str, module: &str) -> Part {
    Part { start, end, function: Function::new(symbol, module) }
}

fn program(module: &str, functions: &[(u64, u64, &str)], pages: &[(u64, u64)]) -> ProgramSymbols {
    let part = |(start, end, symbol): &(u64, u64, &str)| part(*start, *end, symbol, module);
    ProgramSymbols {
        loads: Vec::new(),
        parts: functions.iter().map(part).collect(),
        pages: pages.to_vec(),
        sites: vec![],
    }
}

fn range(start: u64, end: u64, function: u32) -> Range {
    Range { start, end, function }
}

#[test]
fn functions_have_one_number_each_in_order_of_appearance() {
    let kernel = KernelSymbols::parse(
        "ffffffff81000000 t helper\nffffffff81000010 T __switch_to_asm\nffffffff81000020 t helper\n",
    )
    .unwrap();
    let a = program("/a", &[(0, 10, "main"), (10, 20, "[text]"), (20, 30, "main")], &[(0, 1)]);
    let b = program("/b", &[(0, 10, "helper"), (10, 20, "main")], &[(0, 2)]);
    let symbols = join(Some(&kernel), &[a, b]);
    let functions: Vec<String> = symbols.functions.iter().map(Function::format).collect();
    assert_eq!(
        functions,
        [
            "helper\t[kernel]\t+0x0",
            "__switch_to_asm\t[kernel]",
            "helper\t[kernel]\t+0x20",
            "main\t/a",
            "[text]\t/a",
            "helper\t/b",
            "main\t/b",
        ]
    );
    let numbers: Vec<u32> = symbols.kernel.iter().map(|range| range.function).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert_eq!(symbols.files[0].parts, [range(0, 10, 3), range(10, 20, 4), range(20, 30, 3)]);
    assert_eq!(symbols.files[1].parts, [range(0, 10, 5), range(10, 20, 6)]);
    assert_eq!(symbols.landmarks[0].landmark, Landmark::Switch);
}

#[test]
fn pages_that_do_not_tell_their_functions_are_left_out() {
    let a = program(
        "/a",
        &[(0, 0x1800, "one"), (0x1800, 0x5000, "two")],
        // 7: pages wholly in `two`, of which either will do; 8: pages in `one` or `two`.
        &[(0, 8), (0x1000, 5), (0x2000, 7), (0x3000, 7), (0x4000, 8)],
    );
    let b = program("/b", &[(0, 0x2000, "one")], &[(0, 5), (0x1000, 6)]);
    let symbols = join(None, &[a, b]);
    assert_eq!(symbols.files[0].pages, [(0x2000, 7)]);
    assert_eq!(symbols.files[1].pages, [(0x1000, 6)]);
}

#[test]
fn the_same_code_under_a_second_name_keeps_the_first() {
    let code = |module| program(module, &[(0, 0x1000, "main")], &[(0, 5)]);
    let symbols = join(None, &[code("/bin/a"), code("/usr/bin/a")]);
    assert_eq!(symbols, join(None, &[code("/bin/a")]));
    assert_eq!(symbols.files[0].pages, [(0, 5)]);
}

#[test]
fn symbols_of_real_programs_are_read_back_as_they_were_written() {
    let this = std::env::current_exe().unwrap();
    let programs = [(this.clone(), "/bin/with\tsome\nspace".to_owned())];
    let symbols = assemble(None, &programs, &DEBUG_FILES.into()).unwrap();
    assert_eq!(symbols, assemble(None, &programs, &DEBUG_FILES.into()).unwrap());
    assert_eq!(Symbols::decode(&symbols.encode()).as_ref(), Ok(&symbols));
    let escaped = "/bin/with\\u{9}some\\u{a}space";
    assert!(symbols.functions.iter().all(|function| function.module == escaped));
}

#[test]
fn the_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    let error =
        assemble(None, &[(script, "/script".into())], &DEBUG_FILES.into()).unwrap_err().to_string();
    assert!(error.contains("/script: it is not an ELF file"), "{error}");
    let absent = folder.path().join("absent");
    let error =
        assemble(None, &[(absent, "/absent".into())], &DEBUG_FILES.into()).unwrap_err().to_string();
    assert!(error.contains("cannot read") && error.contains("/absent"), "{error}");
}
