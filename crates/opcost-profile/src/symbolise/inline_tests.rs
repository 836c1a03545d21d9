//! Debug information that was moved out of a program gives the same inlined functions as before.

use super::super::tests::{BASE, profile, sources, stack};
use super::*;
use crate::skip::skip;
use opcost_symbols::elf;
use std::fs;
use std::path::Path;
use std::process::Command;

const SOURCE: &str =
    "static inline __attribute__((always_inline)) int innermost(int x) { return x * x + 3; }
static inline __attribute__((always_inline)) int inner(int x)
{ int s = 0; for (int i = 0; i < x; i++) s += innermost(i) * x; return s; }
int main(int c, char **v) { volatile int n = c; return inner(n) + inner(n + 1); }
";

/// Runs a program in a folder; a reason if it is missing or fails.
fn run(folder: &Path, line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let made = Command::new(words[0]).args(&words[1..]).current_dir(folder).output();
    match made {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{line}: {error}")),
    }
}

/// The functions at each byte of `main`, outermost first, and why some are missing.
fn stacks(program: &Path, main: &std::ops::Range<u64>) -> (Vec<Vec<String>>, Vec<WithoutInlined>) {
    let folder = program.parent().unwrap();
    let path = program.display().to_string();
    let mut missing = Vec::new();
    let stacks = main.clone().map(|offset| {
        let found = profile(path.as_bytes(), None, &[BASE + offset], &sources(folder));
        missing.extend(found.without_inlined.iter().map(|(_, why)| *why));
        stack(&found).into_iter().map(|(symbol, _)| symbol.to_owned()).collect()
    });
    let stacks = stacks.collect();
    missing.dedup();
    (stacks, missing)
}

/// What binutils' addr2line says of each address.
fn judged(
    folder: &Path,
    program: &str,
    addresses: impl Iterator<Item = u64>,
) -> Result<Vec<Vec<String>>, String> {
    addresses
        .map(|address| {
            let text = run(folder, &format!("addr2line -i -f -e {program} {address:#x}"))?;
            let mut names: Vec<String> = text.lines().step_by(2).map(str::to_owned).collect();
            names.reverse();
            Ok(names)
        })
        .collect()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn debug_information_in_other_files_gives_the_same_inlined_functions() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path();
    fs::write(top.join("a.c"), SOURCE).unwrap();
    fs::write(top.join("other.c"), SOURCE.replace("+ 3", "+ 4")).unwrap();
    // A fixed address, so that an offset is an address less the segment's.
    let cc = "gcc -O1 -g -no-pie -o";
    if let Err(why) = run(top, &format!("{cc} plain a.c")) {
        return skip!("{why}");
    }
    let bytes = fs::read(top.join("plain")).unwrap();
    let symbols = elf::read(&bytes, None, "").unwrap();
    let main = symbols.parts.iter().find(|part| part.function.symbol == "main").unwrap();
    let main = main.start..main.end;
    let code = elf::CodeAt::read(&bytes).unwrap();
    let addresses = main.clone().map(|offset| code.address(offset).unwrap());
    let expected = match judged(top, "plain", addresses) {
        Ok(expected) => expected,
        Err(why) => return skip!("{why}"),
    };
    assert!(expected.contains(&["main", "inner", "innermost"].map(String::from).to_vec()));
    let strip = |file: &str| {
        [
            format!("objcopy --only-keep-debug {file} {file}.debug"),
            format!("strip {file}"),
            format!("objcopy --add-gnu-debuglink={file}.debug {file}"),
        ]
    };
    let split =
        ["-gdwarf-5", "-gdwarf-4"].map(|version| format!("{cc} p a.c -gsplit-dwarf {version}"));
    let shared = [format!("{cc} p a.c"), format!("{cc} q a.c"), "dwz -m shared p q".into()];
    let cases: Vec<(&str, Vec<String>)> = vec![
        ("plain", vec![format!("{cc} p a.c")]),
        (
            "linked by its checksum",
            [&[format!("{cc} p a.c -Wl,--build-id=none")], &strip("p")[..]].concat(),
        ),
        ("split units of DWARF 5", vec![split[0].clone()]),
        ("split units of DWARF 4", vec![split[1].clone()]),
        ("split units, stripped", [&split[..1], &strip("p")[..]].concat()),
        (
            "a package of DWARF 4",
            vec![split[1].clone(), "dwp -e p -o p.dwp".into(), "rm p-a.dwo".into()],
        ),
        (
            "a package of DWARF 5",
            vec![split[0].clone(), "llvm-dwp -e p -o p.dwp".into(), "rm p-a.dwo".into()],
        ),
        ("a supplement", shared.to_vec()),
        ("a supplement, stripped", [&shared[..], &strip("p")[..]].concat()),
        ("a supplement of DWARF 5", [&shared[..2], &["dwz -5 -m shared p q".into()]].concat()),
    ];
    for (number, (name, lines)) in cases.iter().enumerate() {
        let folder = top.join(number.to_string());
        fs::create_dir(&folder).unwrap();
        fs::copy(top.join("a.c"), folder.join("a.c")).unwrap();
        if let Some(why) = lines.iter().find_map(|line| run(&folder, line).err()) {
            skip!("{name}: {why}");
            continue;
        }
        let (found, missing) = stacks(&folder.join("p"), &main);
        assert_eq!((found, missing), (expected.clone(), vec![]), "{name}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn debug_information_that_is_gone_or_of_another_build_is_missing_and_reported() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path();
    let (here, there) = (top.join("here"), top.join("there"));
    fs::create_dir_all(&here).unwrap();
    fs::create_dir_all(&there).unwrap();
    fs::write(here.join("a.c"), SOURCE).unwrap();
    for line in
        ["gcc -O1 -g -no-pie -gsplit-dwarf -o p a.c", "gcc -O2 -g -no-pie -gsplit-dwarf -o q a.c"]
    {
        if let Err(why) = run(&here, line) {
            return skip!("{why}");
        }
    }
    let bytes = fs::read(here.join("p")).unwrap();
    let symbols = elf::read(&bytes, None, "").unwrap();
    let main = symbols.parts.iter().find(|part| part.function.symbol == "main").unwrap();
    let main = main.start..main.end;
    let whole = stacks(&here.join("p"), &main);
    assert!(whole.1.is_empty());
    // The unit is also found beside a program that was moved with it.
    for file in ["p", "p-a.dwo"] {
        fs::rename(here.join(file), there.join(file)).unwrap();
    }
    let program = there.join("p");
    assert_eq!(stacks(&program, &main), whole);
    let unit = there.join("p-a.dwo");
    let sound = fs::read(&unit).unwrap();
    let lost = (
        vec![vec!["main".to_owned()]; (main.end - main.start) as usize],
        vec![WithoutInlined::Elsewhere],
    );
    fs::rename(here.join("q-a.dwo"), &unit).unwrap();
    assert_eq!(stacks(&program, &main), lost, "another build");
    fs::write(&unit, &sound[..sound.len() / 2]).unwrap();
    assert_eq!(stacks(&program, &main), lost, "cut");
    fs::remove_file(&unit).unwrap();
    assert_eq!(stacks(&program, &main), lost, "gone");
    // To open a pipe that nobody writes to would wait for ever.
    run(&there, "mkfifo p-a.dwo").unwrap();
    run(&there, "mkfifo p.dwp").unwrap();
    assert_eq!(stacks(&program, &main), lost, "a pipe");
    fs::remove_file(&unit).unwrap();
    // Any bytes may be wrong: a unit is used, or missing, or damaged.
    for at in (0..sound.len()).step_by(7) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x55;
        fs::write(&unit, &bytes).unwrap();
        let first = main.start..main.start + 1;
        assert_eq!(stacks(&program, &first).0[0][0], "main");
    }
}
