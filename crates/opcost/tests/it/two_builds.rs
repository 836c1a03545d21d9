//! Two builds of a program in two folders: their functions match, wherever they are shown.

use crate::lab::{ALONE, Lab};
use crate::made::emulated::{plan, recording};
use crate::needs;
use opcost_analysis::comparison::matching::ModuleMatch;
use opcost_analysis::comparison::{FunctionComparison, FunctionRow, compare};
use opcost_model::plan::WorkPlan;
use opcost_record::{Context, Function, Module, Profile};
use serde_json::Value;
use std::process::Command;

/// A profile of each variant's program, in a folder of its own; the baseline has `work.isra.0` and the
/// variant `work.constprop.1`, and both have two functions `helper`.
fn profile(variant: u16, block: u64) -> Profile {
    let folder = ["/old/bin", "/new/bin"][usize::from(variant)];
    let program = format!("{folder}/prog");
    let library = format!("{folder}/libw.so.1.{}", 2 + variant);
    let local = |source: &str| Function {
        source: Some(source.into()),
        ..Function::new("helper", &program)
    };
    let work = ["work.isra.0", "work.constprop.1"][usize::from(variant)];
    let functions = vec![
        Function::new("main", &program),
        Function::new(work, &program),
        local("a.c"),
        local("b.c"),
        Function::new("draw", &library),
    ];
    let of = |parent, function, cost| Context { parent, function, calls: 1, cost };
    let more = u64::from(variant) * 500;
    Profile {
        functions,
        contexts: vec![
            of(None, 0, 1000),
            of(Some(0), 1, 2000 + more + block % 3),
            of(Some(0), 2, 300),
            of(Some(0), 3, 700 + more),
            of(Some(0), 4, 900),
        ],
        cycles: Vec::new(),
        addresses: Vec::new(),
        transfers: Vec::new(),
        steps: None,
        modules: vec![
            Module { path: program, program: true, soname: None },
            Module { path: library, program: false, soname: Some("libw.so.1".into()) },
        ],
    }
}

fn functions(profile: impl Fn(u16, u64) -> Profile) -> FunctionComparison {
    let made = recording(plan(&["off", "on"], 12), 0, |slot| {
        (profile(slot.variant, slot.block.unwrap_or(0).into()), vec![])
    });
    let (comparison, _) = compare(&made);
    comparison.functions.into_iter().next().unwrap()
}

fn row<'a>(functions: &'a FunctionComparison, symbol: &str) -> &'a FunctionRow {
    let found = functions.rows.iter().find(|row| row.symbol == symbol);
    found.unwrap_or_else(|| panic!("no function {symbol} among {:?}", functions.rows))
}

#[test]
fn functions_of_two_folders_are_the_same_and_rows_say_what_speaks_for_it() {
    let functions = functions(profile);
    assert_eq!(functions.rows.len(), 5);
    assert!(functions.rows.iter().all(|row| !row.appeared && !row.vanished));
    assert_eq!(row(&functions, "helper [a.c]").own.change, 0.0);
    let near = |change: f64| (change - 0.5).abs() < 1e-9;
    assert!(near(row(&functions, "helper [b.c]").own.change));
    let work = row(&functions, "work");
    assert!(near(work.own.change) && work.by_name_only);
    let main = row(&functions, "main");
    assert!(!main.by_name_only);
    assert_eq!(main.module, "/new/bin/prog");
    assert_eq!(main.module_baseline.as_deref(), Some("/old/bin/prog"));
    let by: Vec<ModuleMatch> = functions.modules.iter().map(|pair| pair.by).collect();
    assert_eq!(by, [ModuleMatch::Soname, ModuleMatch::Program]);
    assert_eq!(functions.unmatched, None);
}

#[test]
fn recordings_without_facts_of_files_know_the_program_from_the_plan() {
    let bare = |variant, block| Profile { modules: vec![], ..profile(variant, block) };
    let made = |program: [&str; 2]| {
        let mut plan = plan(&["off", "on"], 12);
        for (variant, program) in plan.variants.iter_mut().zip(program) {
            let argv = [program.to_string()];
            variant.work = WorkPlan::Command {
                program: program.into(),
                argv: argv.iter().map(Into::into).collect(),
                line: "x".into(),
            };
        }
        let renamed = |variant: u16, block| {
            let mut profile = bare(variant, block);
            for function in &mut profile.functions {
                if variant == 1 && function.module == "/new/bin/prog" {
                    function.module = "/new/bin/other".into();
                }
            }
            profile
        };
        let made = recording(plan, 0, |slot| {
            (renamed(slot.variant, slot.block.unwrap_or(0).into()), vec![])
        });
        compare(&made).0.functions.remove(0)
    };
    let known = made(["/old/bin/prog", "/new/bin/other"]);
    assert_eq!(known.rows.len(), 5);
    // A shell started the programs: nothing shows that they are the same, and the result says so.
    let unknown = made(["/bin/sh", "/bin/sh"]);
    assert_eq!(unknown.rows.len(), 9);
    let unmatched = ["/old/bin/prog", "/new/bin/other"].map(str::to_string);
    assert_eq!(unknown.unmatched, Some(unmatched));
}

/// Two builds of a program in two folders, the second a little slower, with two local functions of
/// one name and a library of another version; `None` without a compiler.
fn build(lab: &Lab) -> Option<[String; 2]> {
    needs::programs(&["cc"]).then_some(())?;
    let local = |name: &str, times: u32| {
        format!(
            "static __attribute__((noinline)) long helper(long n) {{ long s = 0; \
             for (long i = 0; i < n; i++) {{ s += i * {times}; __asm__ volatile(\"\" :: \"r\"(s)); }} \
             return s; }}\nlong {name}(long n) {{ return helper(n) + 1; }}\n"
        )
    };
    lab.write("one.c", local("one", 3));
    lab.write("two.c", local("two", 7));
    lab.write("lib.c", local("draw", 5));
    let main = "long one(long), two(long), draw(long);\n\
                __attribute__((noinline)) long hot(long n) { long s = 0;\n\
                for (long i = 0; i < n; i++) { __asm__ volatile(NOPS \"\" :: \"r\"(s)); } return s; }\n\
                int main(void) { return hot(200000) + one(30000) + two(20000) + draw(10000) == 1; }\n";
    lab.write("main.c", main);
    let made = [("old", "2", ""), ("new", "3", "nop;")].map(|(folder, version, nops)| {
        let path = |name: &str| lab.path(&format!("{folder}/{name}")).display().to_string();
        std::fs::create_dir(lab.path(folder)).unwrap();
        let library = path(&format!("libdraw.so.1.{version}"));
        let cc = |arguments: &[&str]| {
            let made = Command::new("cc").args(arguments).current_dir(lab.dir()).status().unwrap();
            assert!(made.success(), "cc {arguments:?}");
        };
        cc(&["-O1", "-shared", "-fPIC", "-o", &library, "lib.c"]);
        let nops = format!("-DNOPS=\"{nops}\"");
        cc(&["-O1", &nops, "-o", &path("prog"), "main.c", "one.c", "two.c", &library]);
        path("prog")
    });
    Some(made)
}

fn functions_of(document: &Value) -> Vec<&Value> {
    let rows = document["functions"].as_array().or(document["opcost"]["functions"].as_array());
    rows.unwrap().iter().collect()
}

/// Asserts the facts common to all documents: the change is in `hot`, nothing is new or gone, and
/// the program's two functions `helper` are kept apart.
fn check(document: &Value, new: &str, gone: &str) {
    let rows = functions_of(document);
    let changed = rows.iter().filter(|row| row["change"].as_f64().is_some_and(|c| c.abs() > 100.0));
    let changed: Vec<&str> = changed.map(|row| row["symbol"].as_str().unwrap()).collect();
    assert_eq!(changed, ["hot"], "{document:#}");
    let own = |row: &&&Value| row["module"].as_str().is_some_and(|path| path.contains("/new/"));
    let names: Vec<&str> =
        rows.iter().filter(own).map(|row| row["symbol"].as_str().unwrap()).collect();
    for name in ["hot", "helper [one.c]", "helper [two.c]", "draw"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    let is = |row: &&&Value, what: &str| row[what].as_bool() == Some(true);
    assert!(!rows.iter().any(|row| is(&row, new) || is(&row, gone)), "{document:#}");
}

#[test]
fn a_programs_two_builds_are_compared_function_by_function() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let Some([old, new]) = build(&lab) else { return };
    let variants = [format!("old={old}"), format!("new={new}")];
    let args = [&ALONE[..], &["--pairs", "4", "--json", "--seed", "1"]].concat();
    let shown =
        lab.json(&[&args[..], &["--variant", &variants[0], "--variant", &variants[1]]].concat());
    check(&shown, "appeared", "vanished");
    check(&lab.json(&["diff", "--json"]), "appeared", "vanished");
    let mail = lab.output(&["diff", "--format", "mail"]);
    assert!(mail.contains("\n  hot (prog)") && mail.contains(" unchanged functions "), "{mail}");
    assert!(mail.lines().all(|line| line.chars().count() <= 72), "{mail}");
    assert!(
        mail.contains("compared as one file: libdraw.so.1.2 (old) and libdraw.so.1.3"),
        "{mail}"
    );
    for format in [
        &["show"][..],
        &["show", "--format", "markdown"],
        &["diff"],
        &["diff", "--format", "markdown"],
    ] {
        let text = lab.output(format);
        assert!(text.contains("libdraw.so.1.3") && !text.contains("gone"), "{format:?}: {text}");
    }
    let page = lab.output(&["report", "--html", "-"]);
    assert!(page.contains("compared as one file: libdraw.so.1.2 (old)"), "{page}");
    let folded = lab.path("both.folded").display().to_string();
    lab.run(&["show", "--export-folded", &folded]).expect(0);
    let stacks = std::fs::read_to_string(&folded).unwrap();
    let own = stacks.lines().filter(|line| line.contains(";hot "));
    // One stack with both sides' figures, not one stack for each side.
    let own: Vec<&str> = own.collect();
    assert_eq!(own.len(), 1, "{stacks}");
    let context = lab.output(&["diff", "--function", "two.c:helper"]);
    assert!(context.contains("helper [two.c]") && context.contains("two "), "{context}");
    lab.run(&["diff", "--function", "helper"]).expect(2).says(&[
        "there are several; say",
        "one.c:helper",
        "two.c:helper",
    ]);
    lab.run(&["diff", "--match", "prog=none"]).expect(2).says(&[
        "--match prog=none",
        "no file of the variant is called 'none'",
        "prog",
    ]);
    // Two recordings, the first variant of each.
    let one = |command: &str| {
        let args = ["--pairs", "4", "--seed", "1", "--quiet"];
        let both = [&ALONE[..], &[command, "/bin/true"]].concat();
        lab.run(&[&both[..], &args].concat()).expect(0);
        lab.recordings().last().unwrap()["id"].as_str().unwrap().to_string()
    };
    let ids = [one(&old), one(&new)];
    let args = ["diff", &ids[0], &ids[1], "--allow", "work", "--variant", "1", "--json"];
    check(&lab.json(&args), "appeared", "vanished");
}

#[test]
fn two_profiles_in_files_are_matched_as_recordings_are() {
    if !needs::programs(&["valgrind"]) {
        return;
    }
    let lab = Lab::new();
    let Some(programs) = build(&lab) else { return };
    let files = programs.map(|program| {
        let file = format!("{program}.callgrind");
        let made = Command::new("valgrind")
            .args(["-q", "--tool=callgrind", &format!("--callgrind-out-file={file}"), &program])
            .status();
        assert!(made.unwrap().success());
        file
    });
    let shown = lab.json(&["diff", &files[0], &files[1], "--json"]);
    let rows = functions_of(&shown);
    let changed = rows.iter().filter(|row| row["change"].as_f64().is_some_and(|c| c.abs() > 100.0));
    let changed: Vec<&str> = changed.map(|row| row["symbol"].as_str().unwrap()).collect();
    assert_eq!(changed, ["hot"], "{shown:#}");
    let pair = &shown["modules_matched"][0];
    assert_eq!(pair["by"], "stem", "{shown:#}");
    let text = lab.output(&["diff", &files[0], &files[1]]);
    assert!(text.contains("compared as one file: libdraw.so.1.2"), "{text}");
    lab.run(&["diff", &files[0], &files[1], "--match", "a=b"])
        .expect(2)
        .says(&["no file of the baseline is called 'a'"]);
}
