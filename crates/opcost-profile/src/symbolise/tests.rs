//! Tests of symbolisation.

use super::*;
use crate::event::{CONTEXT_USER, Event, Mapping, Sample};
use crate::session::{FRAMES_MAX, Recorded, Session};
use opcost_symbols::demangle::demangle;
use opcost_symbols::elf;
use opcost_sys::budget::LIMIT_BYTES;
use std::fs;
use std::path::Path;

pub(super) fn sources(folder: &Path) -> Sources {
    Sources {
        kernel: KernelSource::Nothing,
        debug_files: folder.into(),
        build_id_cache: None,
        inlined: true,
        limit_bytes: LIMIT_BYTES,
    }
}

/// Returns this process's program, and its contents and build id.
fn own() -> (PathBuf, Vec<u8>, Option<Vec<u8>>) {
    let path = std::env::current_exe().unwrap();
    let bytes = fs::read(&path).unwrap();
    let id = elf::build_id(&bytes).unwrap().map(<[u8]>::to_vec);
    (path, bytes, id)
}

pub(super) const BASE: u64 = 0x10_0000_0000;

/// Begins a session with a process into which one file is mapped.
fn mapped(path: &[u8], build_id: Option<&[u8]>) -> Session {
    let mut session = Session::new(0, FRAMES_MAX);
    session.take(&Event::Mapping(Mapping {
        pid: 1,
        address: BASE,
        bytes: 1 << 30,
        file_offset: 0,
        path,
        build_id,
        executable: true,
    }));
    session
}

/// Takes one sample of the process.
fn sample(session: &mut Session, address: u64, chain: &[u64]) {
    session.take(&Event::Sample(Sample {
        time_ns: None,
        pid: 1,
        tid: 1,
        cpu: None,
        event: 0,
        period: 5,
        address,
        in_kernel: false,
        chain,
        user_stack: None,
    }));
}

/// Makes a profile of one sample with these addresses, innermost first.
pub(super) fn profile(
    path: &[u8],
    build_id: Option<&[u8]>,
    addresses: &[u64],
    sources: &Sources,
) -> Sampled {
    let mut session = mapped(path, build_id);
    let chain: Vec<u64> = [CONTEXT_USER].iter().chain(addresses).copied().collect();
    sample(&mut session, addresses[0], &chain);
    symbolise(&session.finish(), sources)
}

/// Returns the stack of the only sample, outermost first.
pub(super) fn stack(sampled: &Sampled) -> Vec<(&str, &str)> {
    let leaf = sampled.samples.iter().position(|samples| *samples == 1).unwrap();
    let contexts = &sampled.profile.contexts;
    let up = |at: &usize| contexts[*at].parent.map(|parent| parent as usize);
    let mut stack: Vec<(&str, &str)> = std::iter::successors(Some(leaf), up)
        .map(|at| &sampled.profile.functions[contexts[at].function as usize])
        .map(|function| (function.symbol.as_str(), function.module.as_str()))
        .collect();
    stack.reverse();
    stack
}

/// Returns the file offset in the middle of the function whose name ends with `ending`.
fn offset_of(bytes: &[u8], ending: &str) -> u64 {
    let symbols = elf::read(bytes, None, "").unwrap();
    let part = symbols.parts.iter().find(|part| part.function.symbol.ends_with(ending)).unwrap();
    part.start.midpoint(part.end)
}

#[test]
fn a_stack_of_this_program_has_its_functions() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes, id) = own();
    let offset = offset_of(&bytes, "a_stack_of_this_program_has_its_functions");
    let addresses = [BASE + offset, BASE + offset + 1];
    let path = path.display().to_string();
    let found = profile(path.as_bytes(), id.as_deref(), &addresses, &sources(folder.path()));
    let name = concat!(module_path!(), "::a_stack_of_this_program_has_its_functions");
    let stack = stack(&found);
    assert_eq!(stack[0], (name, path.as_str()));
    let function = found.profile.functions.iter().find(|function| function.symbol == name).unwrap();
    let mangled = function.mangled.as_deref().unwrap();
    assert!(mangled.starts_with("_R") || mangled.starts_with("_ZN"), "{mangled}");
    assert_eq!(demangle(mangled), name);
    assert!(stack.iter().filter(|(symbol, _)| *symbol == name).count() == 2);
    assert_eq!(found.profile.total(), 5);
    assert_eq!(found.unchecked.is_empty(), id.is_some());
    assert_eq!(found.unnamed, []);
}

#[test]
fn a_file_that_is_not_the_sampled_one_names_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes, _) = own();
    let offset = offset_of(&bytes, "a_file_that_is_not_the_sampled_one_names_nothing");
    let path = path.display().to_string();
    let text = folder.path().join("text");
    fs::write(&text, "no program").unwrap();
    let deleted = format!("{path} (deleted)");
    let text = text.display().to_string();
    let cases: [(&str, Option<&[u8]>, &str, Why); 4] = [
        (&path, Some(&[9; 20]), "[other build]", Why::OtherBuild),
        (&deleted, None, "[deleted]", Why::Gone),
        ("/no/such/file", Some(&[9; 20]), "[deleted]", Why::Gone),
        ("//anon", None, "[no map]", Why::NoMap),
    ];
    for (path, id, symbol, why) in cases {
        let found = profile(path.as_bytes(), id, &[BASE + offset], &sources(folder.path()));
        assert_eq!(stack(&found)[0].0, symbol, "{path}");
        assert_eq!(found.unnamed.len(), 1, "{path}");
        assert_eq!((&found.unnamed[0].why, found.unnamed[0].samples), (&why, 1), "{path}");
    }
    let found = profile(text.as_bytes(), None, &[BASE], &sources(folder.path()));
    assert_eq!(stack(&found)[0].0, "[unreadable]");
    let Why::Unreadable(what) = &found.unnamed[0].why else { panic!("not unreadable") };
    assert!(what.contains("ELF"), "{what}");
}

#[test]
fn perfs_cache_has_what_the_disk_has_no_more() {
    let (_, bytes, id) = own();
    let Some(id) = id else { return crate::skip::skip!("this program has no build id") };
    let folder = tempfile::tempdir().unwrap();
    let place = opcost_symbols::debug_files::by_build_id(folder.path(), &id).unwrap();
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("elf"), &bytes).unwrap();
    let offset = offset_of(&bytes, "perfs_cache_has_what_the_disk_has_no_more");
    let sources = Sources { build_id_cache: Some(folder.path().into()), ..sources(folder.path()) };
    let found = profile(b"/no/such/file", Some(&id), &[BASE + offset], &sources);
    assert!(stack(&found)[0].0.ends_with("perfs_cache_has_what_the_disk_has_no_more"));
    assert_eq!(found.unnamed, []);
}

#[test]
fn an_inlined_function_is_below_the_one_it_is_in() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("a.c");
    let program = folder.path().join("a");
    let text = "static inline __attribute__((always_inline)) int inner(int x)\n\
                { int s = 0; for (int i = 0; i < x; i++) s += i * x; return s; }\n\
                int main(int c, char **v) { volatile int n = c; return inner(n); }\n";
    fs::write(&source, text).unwrap();
    let made = std::process::Command::new("cc")
        .args(["-O1", "-g", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    if !made.as_ref().is_ok_and(std::process::ExitStatus::success) {
        return crate::skip::skip!("no C compiler: {made:?}");
    }
    let bytes = fs::read(&program).unwrap();
    let symbols = elf::read(&bytes, None, "").unwrap();
    let main = symbols.parts.iter().find(|part| part.function.symbol == "main").unwrap();
    let path = program.display().to_string();
    let inside = (main.start..main.end).find(|offset| {
        let found = profile(path.as_bytes(), None, &[BASE + offset], &sources(folder.path()));
        let symbols: Vec<&str> = stack(&found).iter().map(|(symbol, _)| *symbol).collect();
        symbols == ["main", "inner"] && found.facts.iter().any(|facts| facts.inlined_samples == 1)
    });
    assert!(inside.is_some());
    let off = Sources { inlined: false, ..sources(folder.path()) };
    let found = profile(path.as_bytes(), None, &[BASE + inside.unwrap()], &off);
    assert_eq!(stack(&found), [("main", path.as_str())]);
}

/// Two functions, each in a unit of debug information of its own: 5 inlined functions are nested in `main`, and DEPTH in `other`.
const NESTED: &str = r#"
 .macro unit name, depth
 .text
 .globl \name
\name: xor %eax, %eax
 ret
 .skip 61
 .section .debug_info,"",@progbits
.Lunit_\name: .long .Lend_\name - .Lversion_\name
.Lversion_\name: .short 4
 .long .Labbreviations
 .byte 8
 .uleb128 1; .quad \name; .long 0x40
.Lfunction_\name: .uleb128 2; .asciz "\name"; .quad \name; .long 0x40
.Linner_\name: .uleb128 4; .asciz "in_\name"
 .rept \depth; .uleb128 3; .long .Linner_\name - .Lunit_\name; .quad \name; .long 0x40; .endr
 .rept \depth + 2; .byte 0; .endr
.Lend_\name:
 .endm
 .section .debug_abbrev,"",@progbits
.Labbreviations:
 .uleb128 1; .uleb128 0x11; .byte 1; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 6; .byte 0, 0
 .uleb128 2; .uleb128 0x2e; .byte 1; .uleb128 3; .uleb128 8; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 6; .byte 0, 0
 .uleb128 3; .uleb128 0x1d; .byte 1; .uleb128 0x31; .uleb128 0x13; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 6; .byte 0, 0
 .uleb128 4; .uleb128 0x2e; .byte 0; .uleb128 3; .uleb128 8; .byte 0, 0
 .byte 0
 .section .note.GNU-stack,"",@progbits
 unit main, 5
 unit other, DEPTH
"#;

#[cfg(target_arch = "x86_64")]
#[test]
fn functions_nested_too_deep_are_missing_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let profile_of = |symbol: &str, depth: u32| {
        let text = NESTED.replace("DEPTH", &depth.to_string());
        fs::write(at("nested.s"), text).unwrap();
        let made = std::process::Command::new("cc")
            .arg("-o")
            .arg(at("nested"))
            .arg(at("nested.s"))
            .status();
        if !made.as_ref().is_ok_and(std::process::ExitStatus::success) {
            crate::skip::skip!("no C compiler: {made:?}");
            return None;
        }
        let bytes = fs::read(at("nested")).unwrap();
        let symbols = elf::read(&bytes, None, "").unwrap();
        let part = symbols.parts.iter().find(|part| part.function.symbol == symbol).unwrap();
        let path = at("nested").display().to_string();
        let sampled =
            profile(path.as_bytes(), None, &[BASE + part.start + 1], &sources(folder.path()));
        let names = stack(&sampled).iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
        let missing = sampled.without_inlined.iter().map(|(module, why)| {
            assert_eq!(*module, path);
            *why
        });
        Some((names.join(" "), missing.collect::<Vec<_>>()))
    };
    let Some(found) = profile_of("main", 20_000) else { return };
    let inner = |depth: usize, name: &str| format!("{name}{}", format!(" in_{name}").repeat(depth));
    // The other unit's depth costs this one nothing.
    assert_eq!(found, (inner(5, "main"), vec![]));
    assert_eq!(profile_of("other", 250), Some((inner(250, "other"), vec![])));
    let deep = Some(("other".to_string(), vec![WithoutInlined::TooDeep]));
    assert_eq!(profile_of("other", 257), deep);
    assert_eq!(profile_of("other", 20_000), deep);
}

/// A named place keeps its name, without another look at the file.
#[test]
fn names_are_remembered_until_the_file_is_another() {
    let (_, bytes, _) = own();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("program");
    fs::write(&copy, &bytes).unwrap();
    let sources = Sources { inlined: false, ..sources(folder.path()) };
    let offset = |name: &str| {
        let symbols = elf::read(&bytes, None, "").unwrap();
        let part = symbols.parts.into_iter().find(|part| part.function.symbol.contains(name));
        part.map(|part| part.start).unwrap()
    };
    let (one, two) =
        (offset("names_are_remembered_until_the_file_is_another"), offset("symbolise_again"));
    let recorded = |offsets: &[u64]| {
        let mut session = mapped(copy.as_os_str().as_encoded_bytes(), None);
        for offset in offsets {
            sample(&mut session, BASE + offset, &[]);
        }
        session.finish()
    };
    let mut remembered = Remembered::default();
    let mut check = |offsets: &[u64], files_read: u64| {
        let recorded = recorded(offsets);
        let again = symbolise_again(&recorded, &sources, &mut remembered);
        assert_eq!(again, symbolise(&recorded, &sources));
        assert_eq!(remembered.files_read(), files_read, "{offsets:x?}");
    };
    check(&[one, two], 1);
    // Other places of the same functions, in another order.
    check(&[two + 1, one + 1, one], 1);
    // Places beyond the code are remembered one by one.
    check(&[one, bytes.len() as u64 + 5], 2);
    check(&[bytes.len() as u64 + 5], 2);
    // Another file under the same path.
    let mut other = bytes.clone();
    other.push(0);
    fs::remove_file(&copy).unwrap();
    fs::write(&copy, &other).unwrap();
    check(&[one], 3);
    fs::remove_file(&copy).unwrap();
    check(&[one], 4);
    check(&[one], 4);
}

#[test]
fn a_file_without_build_id_that_changed_since_names_nothing_unless_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let (program, bytes, _) = own();
    // The program without its build id: no note says what it is.
    let path = folder.path().join("work");
    let mut stripped = bytes.clone();
    let note = stripped.windows(16).position(|window| {
        window[4..] == [20, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0] && window[..4] == [4, 0, 0, 0]
    });
    if let Some(note) = note {
        stripped[note + 8] = 99;
    }
    fs::write(&path, &stripped).unwrap();
    assert_eq!(elf::build_id(&stripped).unwrap(), None, "{}", program.display());
    let mut session = mapped(path.to_str().unwrap().as_bytes(), None);
    let text = elf::offsets_of(&bytes, &[0]).unwrap()[0].unwrap_or(0);
    sample(&mut session, BASE + text + 0x1000, &[]);
    let mut recorded = session.finish();
    let unnamed = |recorded: &Recorded| symbolise(recorded, &sources(folder.path())).unnamed;
    let why = |recorded: &Recorded| unnamed(recorded).first().map(|first| first.why.clone());
    let before = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(5);
    assert_ne!(why(&recorded), Some(Why::Doubtful));
    recorded.origin.recorded_at = Some(before);
    assert_eq!(why(&recorded), Some(Why::Doubtful));
    recorded.origin.trusted = true;
    assert_ne!(why(&recorded), Some(Why::Doubtful));
    let unchecked = symbolise(&recorded, &sources(folder.path())).unchecked;
    assert_eq!(unchecked, [path.to_str().unwrap()]);
}

#[test]
fn modules_of_the_kernel_keep_their_names_without_symbols() {
    let mut session = Session::new(0, FRAMES_MAX);
    let text = 0xffff_ffff_8100_0000;
    for (address, path) in [(text, "[kernel.kallsyms]_text"), (0xffff_ffff_c000_0000, "[ext4]")] {
        let (path, bytes) = (path.as_bytes(), 0x10_0000);
        session.take(&Event::Mapping(Mapping {
            pid: -1,
            address,
            bytes,
            file_offset: address,
            path,
            build_id: None,
            executable: true,
        }));
    }
    for address in [text + 16, 0xffff_ffff_c000_0010, 0xffff_ffff_c000_0020, 0xffff_ffff_d000_0000]
    {
        sample(&mut session, address, &[]);
    }
    let named = |recorded: &Recorded, why: &str| {
        let folder = tempfile::tempdir().unwrap();
        let profile = symbolise(recorded, &sources(folder.path())).profile;
        let mut found: Vec<_> = profile
            .contexts
            .iter()
            .map(|context| (&profile.functions[context.function as usize], context.cost))
            .map(|(function, cost)| (function.symbol.clone(), function.module.clone(), cost))
            .collect();
        found.sort();
        let row = |module: &str, cost| (why.to_string(), module.to_string(), cost);
        assert_eq!(found, [row("[ext4]", 10), row("[kernel]", 10)]);
    };
    let mut recorded = session.finish();
    named(&recorded, "[text]");
    // The same holds where all names are missing.
    recorded.origin.host = Some("elsewhere.invalid".into());
    let folder = tempfile::tempdir().unwrap();
    let running = Sources { kernel: KernelSource::Running, ..sources(folder.path()) };
    let other = symbolise(&recorded, &running);
    assert_eq!(other.unnamed.iter().map(|one| &one.why).collect::<Vec<_>>(), [&Why::Doubtful]);
    let modules: Vec<&str> =
        other.profile.functions.iter().map(|one| one.module.as_str()).collect();
    assert!(modules.contains(&"[ext4]") && modules.contains(&"[kernel]"), "{modules:?}");
}
