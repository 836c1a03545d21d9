use super::*;
use crate::in_child::{in_child, lacks_tool, measured, value};
use crate::invariant::{OP_STREAM_HASH, PAGE_FAULTS};

const SMALL: [(&str, &str); 2] = [("files", "3"), ("functions", "2")];

fn small(given: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    [&SMALL[..], given].concat()
}

fn build(given: &[(&'static str, &'static str)]) -> Build {
    let given: Vec<(String, String)> =
        small(given).iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Build::prepare(&SPEC.resolve(&given).unwrap(), 1).unwrap()
}

#[test]
fn objects_are_the_same_however_many_compilers_run() {
    if lacks_tool(&SPEC) {
        return;
    }
    let one = measured(&SPEC, &small(&[("ops", "2")]), 1).unwrap();
    let three = measured(&SPEC, &small(&[("ops", "2"), ("jobs", "3")]), 1).unwrap();
    assert_eq!(one.invariants, three.invariants);
    assert_eq!(value(&one, "ops-build"), "2");
    assert_eq!(value(&one, PAGE_FAULTS), value(&one, PAGE_FAULTS_EXPECTED));
    let other = measured(&SPEC, &small(&[("ops", "2")]), 2).unwrap();
    assert_ne!(value(&one, "objects-hash"), value(&other, "objects-hash"));
    assert_ne!(value(&one, OP_STREAM_HASH), value(&other, OP_STREAM_HASH));
}

#[test]
fn the_compilers_are_charged_to_the_build() {
    if lacks_tool(&SPEC) {
        return;
    }
    let report = measured(&SPEC, &small(&[]), 1).unwrap();
    let told =
        |name: &str| report.readings.iter().find(|reading| reading.key.name == name).unwrap().value;
    // Each compiler is a process whose pages are all fresh.
    assert!(told("minor-faults") > 3 * 100, "{}", told("minor-faults"));
    assert!(told("user-time") + told("system-time") > 0);
}

#[test]
fn an_object_that_differs_is_an_error() {
    if lacks_tool(&SPEC) {
        return;
    }
    let said = in_child(|| {
        let mut build = build(&[("ops", "1")]);
        build.warm_up().unwrap();
        build.twin();
        build.work().unwrap();
        build.invariants().unwrap();
        build.folder.write("part1.o", "another object").unwrap();
        build.invariants().unwrap_err().to_string()
    });
    let said = said.unwrap();
    assert!(said.starts_with("the objects of the last build differ from the first's"), "{said}");
}

#[test]
fn a_source_that_does_not_compile_is_an_error_with_the_compilers_words() {
    if lacks_tool(&SPEC) {
        return;
    }
    let said = in_child(|| {
        let mut build = build(&[("jobs", "2")]);
        build.folder.write("part2.c", "#error as the test asks\n").unwrap();
        build.warm_up().unwrap_err().to_string()
    });
    let said = said.unwrap();
    assert!(said.contains("ended with status 1 on part2.c"), "{said}");
    assert!(said.contains("as the test asks"), "{said}");
}

#[test]
fn a_compiler_that_is_not_there_is_named() {
    let params = SPEC.resolve(&[("cc".into(), "no-such-compiler".into())]).unwrap();
    let said = Build::prepare(&params, 1).err().unwrap().to_string();
    assert!(said.starts_with("no C compiler 'no-such-compiler': "), "{said}");
    assert!(said.ends_with("or name another with cc="), "{said}");
}

#[test]
fn the_programs_of_this_compiler_are_told() {
    if lacks_tool(&SPEC) {
        return;
    }
    let environment = [("PATH".into(), std::env::var_os("PATH").unwrap_or_default())];
    let programs = SPEC.programs.unwrap()(&SPEC.resolve(&[]).unwrap(), &environment).unwrap();
    assert!(programs.len() > 1, "a driver alone compiles nothing: {programs:?}");
    assert!(programs.iter().all(|path| path.is_absolute() && path.is_file()), "{programs:?}");
}

#[test]
fn a_directory_that_takes_no_files_is_named() {
    let said = in_child(|| {
        // Not with the standard library's function: a thread that the fork left behind may hold its lock.
        // SAFETY: both strings end with NUL; this process is the test's own, and has one thread.
        unsafe { libc::setenv(c"TMPDIR".as_ptr(), c"/proc".as_ptr(), 1) };
        Folder::make().err().unwrap().to_string()
    });
    let said = said.unwrap();
    assert!(said.starts_with("cannot make a folder in /proc: "), "{said}");
    assert!(said.ends_with("--env TMPDIR=DIR"), "{said}");
}

#[test]
fn nothing_is_left_of_the_tree() {
    if lacks_tool(&SPEC) {
        return;
    }
    let build = build(&[]);
    let path = build.folder.path().to_path_buf();
    drop(build);
    assert!(!path.exists());
}
