use super::*;
use proptest::prelude::*;

/// `symbol@module`, with `!source` behind it if there is one.
fn function(text: &str) -> Function {
    let (text, source) = text.split_once('!').map_or((text, None), |(text, one)| (text, Some(one)));
    let (symbol, module) = text.split_once('@').unwrap_or((text, "/bin/work"));
    Function { source: source.map(str::to_string), ..Function::new(symbol, module) }
}

/// `path`, with `=soname` behind it if it has one; `!` before the program.
fn module(text: &str) -> Module {
    let (path, soname) = text.split_once('=').map_or((text, None), |(path, one)| (path, Some(one)));
    let program = path.starts_with('!');
    Module {
        path: path.trim_start_matches('!').into(),
        soname: soname.map(str::to_string),
        program,
    }
}

/// The functions of two sides, one a line: number, display name, symbols on both sides, and `?` if only the name matches.
fn matched(sides: [&[&str]; 2]) -> Vec<String> {
    let functions: Vec<Vec<Function>> =
        sides.iter().map(|side| side.iter().map(|text| function(text)).collect()).collect();
    let given: Vec<Side<'_>> = functions
        .iter()
        .map(|side| Side { functions: side.iter().collect(), ..Side::default() })
        .collect();
    let matching = Matching::of(&given, &[]);
    let mut lines: Vec<String> = (0..matching.functions().len() as u32)
        .map(|number| {
            let on = |side: usize| {
                let of = |one: &&Function| matching.number(side, one) == number;
                let own = functions[side].iter().filter(of).map(|one| one.symbol.as_str());
                own.collect::<Vec<_>>().join("+")
            };
            let doubt = if matching.by_name_only(number, [0, 1]) { " ?" } else { "" };
            format!("{}: {} {}{doubt}", matching.symbol(number), on(0), on(1))
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn a_function_keeps_its_own_mangled_name_of_the_last_side() {
    let named = |symbol: &str, mangled: &str| Function {
        mangled: Some(mangled.into()),
        ..Function::new(symbol, "/bin/work")
    };
    let old = [named("f(int)", "_Z1fi.old")];
    let new = [named("f(int) [clone .cold]", "_Z1fi.cold"), named("f(int)", "_Z1fi")];
    let sides = [&old[..], &new[..]]
        .map(|side| Side { functions: side.iter().collect(), ..Side::default() });
    let matching = Matching::of(&sides, &[]);
    let mangled: Vec<_> = matching.functions().iter().map(|one| one.mangled.as_deref()).collect();
    assert_eq!(mangled, [Some("_Z1fi")]);
}

#[test]
fn parts_and_copies_are_their_function_and_only_the_name_speaks_for_renamed_ones() {
    let one = ["main", "copy.isra.0", "part", "part.cold", "ns::f(int) [clone .isra.0]", "old"];
    let two = ["main", "copy.constprop.1", "part", "part.part.0", "ns::f(int)", "new"];
    assert_eq!(
        matched([&one, &two]),
        [
            "copy: copy.isra.0 copy.constprop.1 ?",
            "main: main main",
            "new:  new",
            "ns::f(int): ns::f(int) [clone .isra.0] ns::f(int) ?",
            "old: old ",
            "part: part+part.cold part+part.part.0",
        ]
    );
}

#[test]
fn local_functions_of_one_name_are_matched_by_their_source() {
    let both = ["helper!a.c", "helper!b.c", "helper.cold!b.c"];
    assert_eq!(
        matched([&both, &both]),
        ["helper [a.c]: helper helper", "helper [b.c]: helper+helper.cold helper+helper.cold"]
    );
    // An additional function on one side; a function that moved to another file; a name that only one function has.
    assert_eq!(
        matched([&both, &["helper!a.c", "helper!b.c", "helper!c.c"]]),
        [
            "helper [a.c]: helper helper",
            "helper [b.c]: helper+helper.cold helper",
            "helper [c.c]:  helper",
        ]
    );
    assert_eq!(
        matched([&both, &["helper!a.c", "helper!c.c"]]),
        ["helper [a.c]: helper helper", "helper [c.c]: helper+helper.cold helper ?"]
    );
    assert_eq!(matched([&["helper!a.c"], &["helper!b.c"]]), ["helper: helper helper"]);
}

#[test]
fn of_several_that_may_be_meant_all_are_one() {
    let one = ["helper!0x10", "helper!0x20"];
    assert_eq!(matched([&one, &one]).len(), 2);
    let two = ["helper!0x18", "helper!0x28"];
    assert_eq!(matched([&one, &two]), ["helper: helper+helper helper+helper ?"]);
    // With link-time optimisation the number says nothing about the next build.
    let renamed = ["x.lto_priv.0", "x.lto_priv.1"];
    assert_eq!(matched([&renamed, &["x"]]), ["x: x.lto_priv.0+x.lto_priv.1 x ?"]);
    assert_eq!(matched([&renamed, &renamed]).len(), 2);
}

/// The files of two sides that were matched although their paths differ.
fn pairs(sides: [&[&str]; 2], told: &[(&str, &str)]) -> Vec<String> {
    let modules = sides.map(|side| side.iter().map(|text| module(text)).collect::<Vec<_>>());
    let functions = modules
        .each_ref()
        .map(|side| side.iter().map(|module| Function::new("f", &module.path)).collect::<Vec<_>>());
    let side = |at: usize| Side {
        functions: functions[at].iter().collect(),
        modules: modules[at].iter().collect(),
        program: None,
    };
    let told: Vec<SameFile> = told
        .iter()
        .map(|(old, new)| SameFile { old: old.to_string(), new: new.to_string() })
        .collect();
    let matching = Matching::of(&[side(0), side(1)], &told);
    let pair = |pair: &ModulePair| format!("{} {} {:?}", pair.baseline, pair.variant, pair.by);
    matching.pairs([0, 1]).iter().map(pair).collect()
}

#[test]
fn files_are_matched_by_the_part_they_play() {
    let old = ["!/a/prog", "/a/libw.so.1.2", "/lib/libc.so.6", "[kernel]", "/a/libz.so=libq.so.1"];
    let new =
        ["!/b/prog2", "/b/libw.so.1.3", "/lib/libc.so.6", "[kernel]", "/b/libq-2.so=libq.so.1"];
    assert_eq!(
        pairs([&old, &new], &[]),
        [
            "/a/libw.so.1.2 /b/libw.so.1.3 Stem",
            "/a/libz.so /b/libq-2.so Soname",
            "/a/prog /b/prog2 Program",
        ]
    );
    // The same path is the same file, even if another file has the same name.
    assert!(pairs([&["/a/x", "/b/x"], &["/a/x", "/b/x"]], &[]).is_empty());
    // A module that other tools call kernel, or no file at all, never matches another name.
    assert!(pairs([&["[jit]", ""], &["[kernel]"]], &[]).is_empty());
}

#[test]
fn of_files_with_one_name_those_with_like_paths_are_the_same() {
    let old = ["/a/x/mod.so", "/a/y/mod.so", "/a/z/mod.so"];
    let new = ["/b/y/mod.so", "/b/x/mod.so", "/b/w/mod.so"];
    let found = [
        "/a/x/mod.so /b/x/mod.so FileName",
        "/a/y/mod.so /b/y/mod.so FileName",
        "/a/z/mod.so /b/w/mod.so FileName",
    ];
    assert_eq!(pairs([&old, &new], &[]), found);
    // Nobody knows which of the two files is the counterpart.
    assert!(pairs([&["/a/mod.so"], &["/b/mod.so", "/c/mod.so"]], &[]).is_empty());
    let told = [("/a/mod.so", "/c/mod.so")];
    assert_eq!(
        pairs([&["/a/mod.so"], &["/b/mod.so", "/c/mod.so"]], &told),
        ["/a/mod.so /c/mod.so Told"]
    );
    assert_eq!(pairs([&["/a/old"], &["/b/new"]], &[("old", "new")]), ["/a/old /b/new Told"]);
}

#[test]
fn a_file_that_is_not_there_cannot_be_matched() {
    let functions = [Function::new("f", "/a/prog"), Function::new("g", "[kernel]")];
    let side = Side { functions: functions.iter().collect(), ..Side::default() };
    let check = |old: &str, new: &str| {
        check_told([&side, &side], &[SameFile { old: old.into(), new: new.into() }])
            .map_err(|error| error.to_string())
    };
    assert_eq!(check("prog", "/a/prog"), Ok(()));
    assert_eq!(
        check("prog", "prag").unwrap_err(),
        "--match prog=prag: no file of the variant is called 'prag'; there is prog"
    );
    assert!(check("[kernel]", "prog").unwrap_err().contains("no file of the baseline"));
}

proptest! {
    #[test]
    fn every_function_has_one_number_and_no_two_of_a_side_share_name_and_number_without_saying_so(
        one in prop::collection::vec((0usize..4, 0usize..3, 0usize..3), 0..12),
        two in prop::collection::vec((0usize..4, 0usize..3, 0usize..3), 0..12),
    ) {
        let symbols = ["f", "f.cold", "g", "g.isra.0"];
        let sources = [None, Some("a.c"), Some("b.c")];
        let modules = ["/x/p", "/y/p", "/x/q"];
        let made = |side: &[(usize, usize, usize)]| -> Vec<Function> {
            side.iter().map(|(symbol, source, module)| Function {
                source: sources[*source].map(str::to_string),
                ..Function::new(symbols[*symbol], modules[*module])
            }).collect()
        };
        let sides = [made(&one), made(&two)];
        let given = sides.each_ref().map(|side| Side {
            functions: side.iter().collect(), ..Side::default()
        });
        let matching = Matching::of(&given, &[]);
        for (side, functions) in sides.iter().enumerate() {
            for function in functions {
                let number = matching.number(side, function);
                prop_assert_eq!(matching.module(number, side), Some(function.module.as_str()));
                let same: Vec<&Function> = functions
                    .iter()
                    .filter(|other| matching.number(side, other) == number)
                    .collect();
                prop_assert!(same.iter().all(|other| other.module == function.module));
            }
        }
    }
}
