//! Programs of arm64, which this computer does not execute: counted in user mode, in a guest, and by a gate of a project that is
//! cross-compiled.

use crate::gate::Yard;
use crate::lab::{Lab, Started, metric};
use crate::needs;
use serde_json::Value;
use std::process::Command;

/// The cross compiler of C.
const COMPILER: &str = "aarch64-linux-gnu-gcc";

/// Commands are counted without a kernel.
const ALONE: [&str; 6] = ["--machine", "emulated", "--architecture", "arm64", "--kernel", "none"];

/// A program whose function `planted` executes two instructions more than twice `TIMES`.
const PLANTED: &str = "
__attribute__((noinline)) void planted(void)
{
    __asm__ volatile(\"mov x9, %0\\n1: subs x9, x9, #1\\n b.ne 1b\" : : \"i\"(TIMES) : \"x9\", \"cc\");
}

int main(void)
{
    planted();
    return 0;
}
";

/// Whether programs of arm64 can be compiled, emulated and counted.
fn emulator() -> bool {
    if !needs::programs(&[COMPILER, "qemu-aarch64"]) || needs::beside("libopcost_emu.so").is_none()
    {
        return false;
    }
    let asked = Command::new("qemu-aarch64").args(["-plugin", "file=/", "/"]).output().unwrap();
    let takes = !String::from_utf8_lossy(&asked.stderr).contains("unknown option 'plugin'");
    if !takes {
        crate::skip::skip!("qemu-aarch64 was built without plugins");
    }
    takes
}

/// An arm64 kernel to boot.
fn kernel() -> Option<String> {
    needs::programs(&[COMPILER, "qemu-system-aarch64"]).then_some(())?;
    needs::beside("opcost-guest-arm64")?;
    let kernel = std::env::var("OPCOST_TEST_KERNEL_ARM64").ok().filter(|path| !path.is_empty());
    if kernel.is_none() {
        crate::skip::skip!("OPCOST_TEST_KERNEL_ARM64 names no kernel image to boot");
    }
    kernel
}

fn compile(lab: &Lab, name: &str, code: &str, options: &[&str]) -> String {
    let source = lab.write(&format!("{name}.c"), code);
    let made = lab.path(name);
    let ended =
        Command::new(COMPILER).args(options).arg("-O1").arg("-o").arg(&made).arg(source).status();
    assert!(ended.unwrap().success());
    made.to_str().unwrap().to_string()
}

/// Two builds of [`PLANTED`], the second with 1,000 instructions more.
fn builds(lab: &Lab, options: &[&str]) -> [String; 2] {
    [("less", "-DTIMES=100"), ("more", "-DTIMES=600")]
        .map(|(name, times)| compile(lab, name, PLANTED, &[options, &["-g", times]].concat()))
}

#[test]
fn a_thousand_planted_instructions_are_a_thousand_by_function_and_by_line() {
    if !emulator() {
        return;
    }
    for options in [&["-static"][..], &[]] {
        let lab = Lab::new();
        let [less, more] = builds(&lab, options);
        let compare =
            [&["compare"], &ALONE[..], &["--pairs", "2", &less, &more, "--json"]].concat();
        let shown = lab.json(&compare);
        let row = metric(&shown, "instructions", "user");
        assert_eq!((&row["difference"], &row["exact"]), (&1000.0.into(), &true.into()), "{row:#}");
        let functions = shown["opcost"]["functions"].as_array().unwrap();
        let changed: Vec<_> = functions.iter().filter(|row| row["change"] != 0.0).collect();
        assert_eq!(changed.len(), 1, "{changed:#?}");
        assert!(changed[0]["symbol"] == "planted" && changed[0]["exact"] == true, "{changed:#?}");

        let measure = [&["measure"], &ALONE[..], &["--addresses", "-n", "1", &less]].concat();
        lab.run(&measure).expect(0);
        let shown = lab.json(&["show", "last", "--annotate=planted", "--json"]);
        assert_eq!(shown["cost"], 202, "{shown:#}");
        let lines = shown["lines"].as_array().unwrap();
        let of_loop = lines.iter().find(|line| line["line"] == 4).unwrap();
        assert_eq!(of_loop["cost"], 201, "{lines:#?}");
        let codes: Vec<_> = of_loop["instructions"].as_array().unwrap().iter().collect();
        assert!(codes.iter().any(|one| one["text"] == "subs x9, x9, #0x1"), "{codes:#?}");
    }
}

#[test]
fn a_static_program_has_the_same_user_instructions_in_user_mode_and_in_a_guest() {
    let Some(kernel) = kernel().filter(|_| emulator()) else { return };
    let lab = Lab::new();
    // Without the C library's start: it reads the auxiliary vector, which is another in QEMU's user mode.
    let start = "void _start(void)\n{\n    planted();\n    __asm__ volatile(\"mov x0, #0\\n mov x8, #93\\n svc #0\");\n}\n";
    let code = PLANTED.split("int main").next().unwrap().to_string() + start;
    let options = ["-DTIMES=50000", "-static", "-nostdlib", "-ffreestanding"];
    let program = compile(&lab, "own", &code, &options);
    // The guest's first process starts the program and waits for its end, which is counted, too.
    let counted = |kernel: &str| {
        let words = ["measure", "--machine", "emulated", "--architecture", "arm64", "--kernel"];
        let shown = lab.json(&[&words[..], &[kernel, "-n", "1", &program, "--json"]].concat());
        let functions = shown["opcost"]["function_costs"]["functions"].as_array().unwrap().clone();
        functions.into_iter().filter(|one| one["module"] == program).collect::<Vec<_>>()
    };
    let alone = counted("none");
    assert_eq!(alone.len(), 2, "{alone:#?}");
    assert_eq!(alone[0]["value"], 100_002.0, "{alone:#?}");
    assert_eq!(alone, counted(&kernel));
}

#[test]
fn a_script_in_a_guest_has_the_interpreter_of_the_named_root() {
    let Some(kernel) = kernel() else { return };
    let lab = Lab::new();
    let own = compile(&lab, "own", PLANTED, &["-DTIMES=100", "-static"]);
    lab.script("root/bin/own", "");
    std::fs::copy(own, lab.path("root/bin/own")).unwrap();
    lab.write("script", "#!/bin/own\n");
    let mut chmod = Command::new("chmod");
    assert!(chmod.arg("+x").arg(lab.path("script")).status().unwrap().success());
    let words = ["measure", "--machine", "emulated", "--architecture", "arm64", "--kernel"];
    let mut counted =
        lab.command(&[&words[..], &[&kernel, "-n", "1", "./script", "--json"]].concat());
    let ended = counted.env("QEMU_LD_PREFIX", lab.path("root")).spawn().unwrap().end().expect(0);
    assert!(ended.stdout.contains("\"planted\""), "{}", ended.stdout);
}

#[test]
fn operations_are_called_or_inlined_as_the_path_of_the_workload_says() {
    let Some(kernel) = kernel() else { return };
    let lab = Lab::new();
    let words =
        ["compare", "--machine", "emulated", "--architecture", "arm64", "--kernel", &kernel];
    let paths = ["-w", "pvops:path=direct,ops=1000", "-w", "pvops:path=inlined,ops=1000"];
    let shown = lab.json(&[&words[..], &paths, &["--pairs", "2", "--json"]].concat());
    // Two identities and an empty function take a call and a return each; without a call, each is an instruction.
    let row = metric(&shown, "instructions", "all");
    assert_eq!(row["exact"], true, "{row:#}");
    assert!((row["difference"].as_f64().unwrap() + 3.0).abs() < 1e-9, "{row:#}");
}

#[test]
fn programs_that_cannot_run_there_are_named_with_the_remedy() {
    if !emulator() {
        return;
    }
    let lab = Lab::new();
    let refused = |program: &str, parts: &[&str]| {
        lab.run(&[&["measure"], &ALONE[..], &["-n", "1", program]].concat()).expect(4).says(parts);
    };
    refused(
        "/bin/true",
        &["'/bin/true' is a program for x86-64, and the guest is arm64", "--architecture x86-64"],
    );
    lab.script("script", "true");
    refused("./script", &["is a script, which user-mode emulation cannot run", "--kernel"]);
    let here = lab.path("less").display().to_string();
    builds(&lab, &[]);
    let words = ["measure", "--machine", "emulated", "--kernel", "none", "-n", "1", &here];
    lab.run(&words).expect(4).says(&["is a program for arm64", "--architecture arm64"]);
}

#[test]
fn a_gate_of_a_cross_compiled_project_refuses_one_percent_more_and_names_the_function() {
    if !emulator() {
        return;
    }
    let suite = "machine = 'emulated'\narchitecture = 'arm64'\nkernel = 'none'\nbuild = './build'\nartifact = 'work'\n\
                 metric = 'instructions:u'\nlimit = '0.5%'\n[case.work]\ncommand = './work'\n";
    let Some(yard) = Yard::new(suite) else { return };
    yard.script("build", &format!("{COMPILER} -O1 -static -x c work.in -o work"));
    let source = |rounds: u32| {
        format!(
            "static volatile int sink;\n\
             __attribute__((noinline)) void parse(void) {{ for (int at = 0; at < {rounds}; at++) sink += at; }}\n\
             __attribute__((noinline)) void emit(void) {{ for (int at = 0; at < 900000; at++) sink += at; }}\n\
             int main(void) {{ parse(); emit(); return 0; }}\n"
        )
    };
    let gate = |status: i32| -> Value {
        let mut gate = yard.opcost(&["gate", "--quiet", "--base", "HEAD~1", "--json"]);
        let ended = gate.spawn().unwrap().end().expect(status);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    yard.write("work.in", &source(100_000));
    yard.commit("Parse and emit");
    yard.commit("Nothing");
    let same = gate(0);
    assert_eq!(same["cases"][0]["figures"][0]["outcome"], "same");
    // The compiler of this computer's own programs has no part in the figure.
    let compiler = same["cases"][0]["key"]["compiler"].as_str().unwrap();
    assert!(compiler.starts_with(COMPILER), "{compiler}");
    // One hundredth of all: 10,000 of 1,000,000 rounds.
    yard.write("work.in", &source(110_000));
    yard.commit("Parse more");
    let refused = gate(1);
    assert_eq!(refused["cases"][0]["figures"][0]["outcome"], "exceeded", "{refused:#}");
    let said = yard
        .opcost(&["gate", "--quiet", "--base", "HEAD~1"])
        .spawn()
        .unwrap()
        .end()
        .expect(1)
        .stdout;
    assert!(said.contains("parse") && !said.contains("emit"), "{said}");
}
