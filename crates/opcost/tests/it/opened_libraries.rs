//! Libraries that a program opens while it runs have names in emulated profiles.

use crate::lab::{ALONE, Lab, with_mounts};
use crate::needs;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// Whether programs can be compiled and emulated here.
fn ready() -> bool {
    needs::programs(&["cc"]) && needs::emulator()
}

fn cc(lab: &Lab, arguments: &[&str]) {
    let made = Command::new("cc").args(arguments).current_dir(lab.dir()).status().unwrap();
    assert!(made.success(), "cc {arguments:?}");
}

/// Compiles a library with a function that loops.
fn library(lab: &Lab, name: &str) {
    let code = "long looped(long n) { long s = 0; for (long i = 0; i < n; i++) { s += i; \
                __asm__ volatile(\"\" :: \"r\"(s)); } return s; }\n";
    lab.write("library.c", code);
    cc(lab, &["-O1", "-shared", "-fPIC", "-o", name, "library.c"]);
}

/// Instructions of the baseline by file.
fn by_module(shown: &Value) -> BTreeMap<String, f64> {
    let mut modules = BTreeMap::new();
    for row in shown["opcost"]["functions"].as_array().unwrap() {
        let module = row["module"].as_str().unwrap_or("[unattributed]").to_string();
        *modules.entry(module).or_default() += row["value_baseline"].as_f64().unwrap();
    }
    modules
}

#[test]
fn a_library_that_a_program_opens_by_name_has_its_functions() {
    if !ready() {
        return;
    }
    let lab = Lab::new();
    library(&lab, "plugin.so");
    let code = "#include <dlfcn.h>\n#include <stdlib.h>\n\
                int main(int c, char **v) { void *l = dlopen(\"./plugin.so\", RTLD_NOW); \
                long (*f)(long) = (long (*)(long))dlsym(l, \"looped\"); return f(atol(v[1])) == 7; }\n";
    lab.write("main.c", code);
    cc(&lab, &["-O1", "-o", "prog", "main.c", "-ldl"]);
    let plugin = lab.path("plugin.so").canonicalize().unwrap().display().to_string();
    for warmup in ["0", "1"] {
        let args = [&ALONE[..], &["--pairs", "2", "--warmup", warmup, "--json"]].concat();
        let shown = lab.json(&[&args[..], &["./prog 20000", "./prog 30000"]].concat());
        let modules = by_module(&shown);
        assert!(modules[&plugin] >= 20_000.0 * 3.0, "{modules:?}");
        assert!(!modules.contains_key("[unknown]"), "{modules:?}");
        let rows = shown["opcost"]["functions"].as_array().unwrap();
        let looped = rows.iter().find(|row| row["symbol"] == "looped").unwrap();
        assert_eq!(looped["change"].as_f64().map(f64::round), Some(40_000.0), "{looped:#}");
        let made = lab.recordings();
        assert_eq!(made.last().unwrap()["runs"], if warmup == "0" { 4 } else { 6 }, "{made:?}");
    }
}

/// A guest contains only packed files: the files that a command used here are among them.
#[test]
fn what_a_command_used_here_is_in_its_guest() {
    if !ready() {
        return;
    }
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    library(&lab, "plugin.so");
    // The program fails without the library and the file that its child reads; it makes a file of its own.
    let code = "#include <dlfcn.h>\n#include <stdlib.h>\n\
                int main(int c, char **v) { void *l = dlopen(\"./plugin.so\", RTLD_NOW); \
                long (*f)(long) = l ? (long (*)(long))dlsym(l, \"looped\") : 0; \
                if (system(\"cat folder/data > folder/made\")) return 4; \
                return f ? f(9000 * c) == 7 : 3; }\n";
    lab.write("main.c", code);
    cc(&lab, &["-O1", "-o", "prog", "main.c", "-ldl"]);
    std::fs::create_dir(lab.path("folder")).unwrap();
    lab.write("folder/data", "text\n");
    let args = ["compare", "--machine", "emulated", "--kernel", &kernel, "--pairs", "1"];
    let args = [&args[..], &["--warmup", "0", "./prog", "./prog 2"]].concat();
    lab.run(&args).expect(4).says(&["status", "--pack-used", "--pack PATH"]);
    let shown = lab.json(&[&args[..], &["--pack-used", "--json"]].concat());
    let plugin = lab.path("plugin.so").canonicalize().unwrap().display().to_string();
    assert!(by_module(&shown)[&plugin] > 9000.0, "{:?}", by_module(&shown));
    let failing = ["--pack-used", "false", "true"];
    let args = [&args[..7], &failing].concat();
    lab.run(&args).expect(4).says(&["'false', run on this machine for --pack-used", "status 1"]);
}

#[test]
fn a_library_named_by_its_place_begins_in_the_commands_directory() {
    if !ready() {
        return;
    }
    let lab = Lab::new();
    library(&lab, "lib1.so");
    lab.write(
        "main.c",
        "long looped(long);\nint main(int c, char **v) { return looped(9000 * c) == 7; }\n",
    );
    cc(&lab, &["-O1", "-o", "prog", "main.c", "./lib1.so"]);
    let args = [&ALONE[..], &["--pairs", "2", "--json"]].concat();
    let shown = lab.json(&[&args[..], &["./prog", "./prog 2"]].concat());
    let library = lab.path("lib1.so").canonicalize().unwrap().display().to_string();
    assert!(by_module(&shown)[&library] > 9000.0, "{:?}", by_module(&shown));
}

#[test]
fn a_script_is_refused_with_its_remedy() {
    if !ready() {
        return;
    }
    let lab = Lab::new();
    lab.script("work.sh", "true");
    let args = [&ALONE[..], &["--pairs", "2", "./work.sh", "./work.sh 2"]].concat();
    lab.run(&args).expect(4).says(&["work.sh' is a script", "name its interpreter", "--kernel"]);
}

/// The loader's time to look up libraries depends on the guest's libraries, not on those installed here.
#[test]
fn what_else_is_installed_here_moves_no_count() {
    if !ready() || !needs::programs(&["ldconfig"]) {
        return;
    }
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    std::fs::create_dir(lab.path("installed")).unwrap();
    lab.write("library.c", "int one;\n");
    for number in 0..40 {
        let (name, soname) =
            (format!("installed/libb{number}.so.1"), format!("-Wl,-soname,libb{number}.so.1"));
        cc(&lab, &["-shared", "-fPIC", &soname, "-o", &name, "library.c"]);
    }
    let script = format!(
        "count() {{ $OPCOST measure --machine emulated --kernel {kernel} --runs 1 --seed 1 --json 'sh -c :' > $1; }}\n\
         count before\n\
         ldconfig -C cache -X $PWD/installed\n\
         ldconfig -C cache -p | grep -q libb39.so.1\n\
         mount --bind cache /etc/ld.so.cache\n\
         count after\n"
    );
    let Some(ended) = with_mounts(&lab, &script) else {
        crate::skip::skip!("this user may not mount anything (unshare --mount)");
        return;
    };
    ended.expect(0);
    let instructions = |file: &str| {
        let shown: Value = serde_json::from_str(&lab.read(file)).unwrap();
        let figures = shown["opcost"]["figures"].as_array().unwrap().clone();
        let is_count =
            |figure: &Value| figure["metric"].as_str().unwrap().starts_with("instructions");
        figures.into_iter().filter(is_count).collect::<Vec<_>>()
    };
    assert!(!instructions("before").is_empty());
    assert_eq!(instructions("before"), instructions("after"));
}
