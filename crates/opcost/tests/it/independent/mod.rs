//! opcost's counts against a counter that shares no code with opcost: another plugin (`counter.c`) and another first
//! process (`works.c`). A figure is the difference of two numbers of operations, so what starts and ends a work cancels.

use crate::lab::Lab;
use crate::needs;
use opcost_analysis::comparison::address_costs::{VariantAddresses, address_costs};
use opcost_analysis::comparison::call_tree::VariantOf;
use opcost_record::Function;
use opcost_record::profile::KERNEL;
use opcost_store::store::Store;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A work.
type Work = (&'static str, u32, u32, f64, &'static str);

/// Works, each with two numbers of its operations, the largest share by which both counters may differ, and a function of the kernel that
/// each operation calls and whose instructions neither ticks nor allocators change.
///
/// Both count ticks, whose phase differs, and the refills of allocators, which two boots leave in different states. Four seeds of
/// one counter spread over 0.001 % (null), 0.03 % (pipe), 0.2 % (mmap) and 0.2 % (fork). A fork also copies one page more of
/// opcost's environment and numbers its process in a tree of another height: 1.6 % on the small kernel.
const WORKS: [Work; 4] = [
    ("pipe", 1000, 3000, 0.005, "pipe_write"),
    ("mmap", 2000, 6000, 0.01, "do_mmap"),
    ("fork", 200, 600, 0.03, "kernel_clone"),
    ("null", 20_000, 60_000, 0.003, "do_syscall_64"),
];

/// The same on arm64. Two processes with a pipe take turns in two ways, of which one costs 30 % more; the scheduler changes between
/// them every few milliseconds, so a small number of operations counts other shares of both.
const WORKS_ARM64: [Work; 4] = [
    ("pipe", 2000, 10_000, 0.005, ""),
    ("mmap", 2000, 6000, 0.01, ""),
    ("fork", 200, 600, 0.03, ""),
    ("null", 20_000, 60_000, 0.003, ""),
];

/// The machine of the other counter: QEMU's program and machine, the compiler of its programs, the works, the kernel's function behind
/// every system call, and the options of its kernel that are the architecture's.
struct Other {
    qemu: &'static str,
    machine: &'static str,
    compiler: &'static str,
    works: [Work; 4],
    every_call: &'static str,
    boot: &'static str,
}

const X86_64: Other = Other {
    qemu: "qemu-system-x86_64",
    machine: "pc",
    compiler: "gcc",
    works: WORKS,
    every_call: "do_syscall_64",
    boot: "console=ttyS0 nolapic_timer no_timer_check",
};

const ARM64: Other = Other {
    qemu: "qemu-system-aarch64",
    machine: "virt,dtb-randomness=off",
    compiler: "aarch64-linux-gnu-gcc",
    works: WORKS_ARM64,
    every_call: "do_el0_svc",
    boot: "console=ttyAMA0 8250.nr_uarts=0",
};

/// Parts of the names of kernel functions that run for opcost's sake only.
const OF_OPCOST: [&str; 5] =
    ["io_bitmap", "ioperm", "secure_computing", "syscall_trace", "ptrace_stop"];

/// The versions of the plugin API whose functions differ, with the first QEMU of each: 11.1, 9.1, 9.0, 6.0. QEMU 10.0 accepts 2,
/// too, but has the functions of 3.
const APIS: [u32; 4] = [7, 3, 2, 1];

/// The options of a guest's kernel that change its counts; opcost's are the same.
const BOOT: &str = "quiet panic=-1 rdinit=/init nokaslr norandmaps cryptomgr.notests=1";

/// Counts per operation of one work.
struct Figure {
    instructions: f64,
    page_faults: f64,
    /// The instructions of the work's function by address.
    addresses: BTreeMap<u64, f64>,
}

/// The place of a function of the kernel, by the list of symbols beside the kernel; `None` without a list.
fn place(kernel: &str, symbol: &str) -> Option<(u64, u64)> {
    let list = fs::read_to_string(Path::new(kernel).with_file_name("System.map")).ok()?;
    let mut lines = list.lines().skip_while(|line| line.split(' ').nth(2) != Some(symbol));
    let mut address = || u64::from_str_radix(lines.next()?.split(' ').next()?, 16).ok();
    Some((address()?, address()?))
}

fn compile(compiler: &str, source: &str, to: &Path, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/independent").join(source);
    let mut gcc = Command::new(compiler);
    gcc.args(["-O2", "-Wall", "-Werror"]).args(options).arg("-o").arg(to).arg(source);
    let ended = gcc.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// An initramfs with one file, `/init` (Documentation/driver-api/early-userspace/buffer-format.rst).
fn initramfs(init: &[u8]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, mode, contents) in [("init", 0o100_755, init), ("TRAILER!!!", 0, &[])] {
        let sizes = [0, mode, 0, 0, 1, 0, contents.len(), 0, 0, 0, 0, name.len() + 1, 0];
        archive.extend(b"070701");
        archive.extend(sizes.iter().flat_map(|number| format!("{number:08X}").into_bytes()));
        archive.extend(name.bytes());
        archive.resize((archive.len() + 1).next_multiple_of(4), 0);
        archive.extend(contents);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }
    archive
}

/// Boots the other first process under the other plugin.
fn counted(lab: &Lab, other: &Other, kernel: &str, guest: &Value, works: &Path) -> Vec<Figure> {
    let plugins: Vec<PathBuf> =
        APIS.iter().map(|api| lab.path(&format!("counter-{api}.so"))).collect();
    for (api, plugin) in APIS.iter().zip(&plugins) {
        compile("gcc", "counter.c", plugin, &["-shared", "-fPIC", &format!("-DAPI={api}")]);
    }
    let archive = lab.write("initramfs", initramfs(&fs::read(works).unwrap()));
    let asked: Vec<String> =
        other.works.iter().map(|(name, few, many, ..)| format!("{name} {few} {many}")).collect();
    let (out, console) = (lab.path("marks"), lab.path("console"));
    let places: Vec<Option<(u64, u64)>> =
        other.works.iter().map(|(.., symbol)| place(kernel, symbol)).collect();
    let ranges = places.iter().flatten().map(|(low, high)| format!(",range={low:x}-{high:x}"));
    let ranges: String = ranges.collect();
    // QEMU refuses plugins of other versions of the API.
    for plugin in &plugins {
        let mut qemu = Command::new("timeout");
        qemu.args(["300", other.qemu, "-machine", other.machine, "-accel", "tcg,thread=single"]);
        qemu.args(["-icount", "shift=0,sleep=off", "-seed", "1", "-no-reboot"]);
        qemu.arg("-cpu").arg(guest["cpu_model"].as_str().unwrap());
        qemu.arg("-m").arg(guest["memory_mib"].to_string());
        qemu.args(["-rtc", "base=2020-01-01T00:00:00,clock=vm", "-nodefaults", "-display", "none"]);
        qemu.arg("-serial").arg(format!("file:{}", console.display()));
        qemu.arg("-plugin").arg(format!("{},out={}{ranges}", plugin.display(), out.display()));
        qemu.args(["-kernel", kernel]).arg("-initrd").arg(&archive);
        qemu.arg("-append").arg(format!("{} {BOOT} -- works {}", other.boot, asked.join(" ")));
        if qemu.output().unwrap().status.success() {
            break;
        }
    }
    let marks = lab.lines("marks");
    let console = lab.read("console");
    let at_addresses: Vec<BTreeMap<u64, u64>> = marks.iter().map(|mark| cells(mark)).collect();
    let first = |mark: &String| mark.split(' ').next().unwrap().parse().unwrap();
    let marks: Vec<u64> = marks.iter().map(first).collect();
    let faults: Vec<u64> = console
        .lines()
        .filter_map(|line| line.trim().strip_prefix("faults ")?.parse().ok())
        .collect();
    // The first work is also the one that starts everything, which is left out.
    assert_eq!(
        (marks.len(), faults.len()),
        (other.works.len() * 4 + 2, other.works.len() * 2 + 1),
        "{console}"
    );
    let spent: Vec<u64> = marks.chunks(2).map(|pair| pair[1] - pair[0]).collect();
    let both = spent[1..].chunks(2).zip(faults[1..].chunks(2)).zip(other.works).zip(places);
    let marked = at_addresses[2..].chunks(4);
    both.zip(marked)
        .map(|((((spent, faults), (_, few, many, ..)), place), marked)| {
            let a = |counts: &[u64]| (counts[1] as f64 - counts[0] as f64) / f64::from(many - few);
            let (low, high) = place.unwrap_or_default();
            let at =
                |mark: &BTreeMap<u64, u64>, address: &u64| mark.get(address).copied().unwrap_or(0);
            let between = |marks: &[BTreeMap<u64, u64>], address: &u64| {
                at(&marks[1], address) - at(&marks[0], address)
            };
            let per_op = |address: &u64| {
                a(&[between(&marked[..2], address), between(&marked[2..], address)])
            };
            let addresses =
                marked[3].range(low..high).map(|(address, _)| (*address, per_op(address)));
            let addresses = addresses.collect();
            let page_faults = a(faults);
            // An instruction that faults is counted again when it is started again.
            Figure { instructions: a(spent) - page_faults, page_faults, addresses }
        })
        .collect()
}

/// The counts of single instructions at a mark.
fn cells(mark: &str) -> BTreeMap<u64, u64> {
    let cell = |text: &str| {
        let (address, count) = text.split_once(':').unwrap();
        (u64::from_str_radix(address, 16).unwrap(), count.parse().unwrap())
    };
    mark.split(' ').skip(1).map(cell).collect()
}

/// A metric of a variant, or of the only one.
fn value(shown: &Value, variant: Option<&str>, metric: &str, domain: &str) -> f64 {
    let figures = shown["opcost"]["figures"].as_array().unwrap();
    let found = figures.iter().find(|figure| {
        let wanted = variant.is_none_or(|name| figure["variant"] == name);
        wanted && figure["metric"] == metric && figure["domain"] == domain
    });
    found.unwrap_or_else(|| panic!("no {metric} of {variant:?}"))["values"][0].as_f64().unwrap()
}

/// Checks that no function of a profile runs for opcost's sake.
fn check_functions(rows: &Value, every_call: &str) {
    let rows = rows.as_array().unwrap();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["symbol"].as_str()).collect();
    assert!(names.contains(&every_call), "{names:?}");
    let own = names.iter().find(|name| OF_OPCOST.iter().any(|part| name.contains(part)));
    assert_eq!(own, None);
}

/// Checks that both counters agree on a kernel; `more`: opcost's options for the guest. Returns the other's figures.
fn agree(lab: &Lab, other: &Other, kernel: &str, more: &[&str]) -> Vec<Figure> {
    let works = lab.path("works");
    compile(other.compiler, "works.c", &works, &["-static"]);
    let command = |name: &str, times: u32| format!("{} {name} {times}", works.display());
    let commands: Vec<String> = other
        .works
        .iter()
        .flat_map(|(name, few, many, ..)| [command(name, *few), command(name, *many)])
        .collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let symbols = other.works.iter().map(|(.., symbol)| symbol).filter(|name| !name.is_empty());
    let calls: Vec<String> = symbols.map(|symbol| format!("--count=calls:{symbol}:k")).collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let common = [&machine(kernel)[..], more].concat();
    let asked = [&["compare", "--pack-only", "--addresses"], &common[..], &calls, &commands];
    let ours = lab.json(&asked.concat());
    check_functions(&ours["opcost"]["functions"], other.every_call);
    let guest = &ours["opcost"]["plan"]["variants"][0]["guest"];
    let theirs = counted(lab, other, kernel, guest, &works);

    let recording = Store::open_for_reading(&lab.store()).unwrap().read("last").unwrap();
    let of_variant = |variant| address_costs(VariantOf { recording: &recording, variant }).unwrap();
    for (at, (figure, work)) in theirs.iter().zip(other.works).enumerate() {
        let (name, few, many, allowed, symbol) = work;
        let per_op = |metric: &str, domain| {
            let [few_value, many_value] =
                [few, many].map(|times| value(&ours, Some(&command(name, times)), metric, domain));
            (many_value - few_value) / f64::from(many - few)
        };
        let instructions = per_op("instructions", "all");
        let page_faults = per_op("page-faults", "all");
        let off = instructions / figure.instructions - 1.0;
        println!("{name}: {instructions:.3} by opcost, {:.3} by another", figure.instructions);
        assert!(off.abs() < allowed, "{name}: {instructions}, {}: {off}", figure.instructions);
        assert!((page_faults - figure.page_faults).abs() < 0.01, "{name}: {page_faults}");
        let of_function = |costs: &VariantAddresses| -> BTreeMap<u64, u64> {
            let function = Function::new(symbol, KERNEL);
            costs.costs.of(&function).iter().map(|one| (one.address, one.executions)).collect()
        };
        let [few_costs, many_costs] = [2 * at, 2 * at + 1].map(|at| of_function(&of_variant(at)));
        // The other counter sees a call as an execution of the function's first instruction.
        if let Some(entries) = figure.addresses.values().next() {
            let calls = per_op(&format!("calls:{symbol}"), "kernel");
            println!("{symbol}: {calls} calls by opcost, {entries} by another");
            assert_eq!(calls, *entries, "{symbol}");
        }
        if !figure.addresses.is_empty() {
            println!("{symbol}: the same counts of {} instructions", many_costs.len());
            assert_eq!(many_costs.len(), figure.addresses.len(), "{symbol}");
        }
        for (address, theirs) in &figure.addresses {
            let [few_count, many_count] = [&few_costs, &many_costs]
                .map(|costs| costs.get(address).map_or(0.0, |count| *count as f64));
            let ours = (many_count - few_count) / f64::from(many - few);
            assert_eq!(ours, *theirs, "{symbol} {address:#x}");
        }
    }

    theirs
}

/// The guest's options that both architectures share.
fn machine(kernel: &str) -> [&str; 11] {
    let guest = ["--machine", "emulated", "--kernel", kernel, "--seed", "1"];
    let quick = ["--pairs", "1", "--warmup", "0", "--json"];
    [&guest[..], &quick].concat().try_into().unwrap()
}

#[test]
fn another_counter_and_another_init_count_what_opcost_counts() {
    let Some(kernel) = needs::kernel() else { return };
    if !needs::programs(&["gcc"]) {
        return;
    }
    let lab = Lab::new();
    let theirs = agree(&lab, &X86_64, &kernel, &[]);
    // The workload's calls are those of the command; four instructions of the command's loop are the user's.
    for work in ["syscall:ops=20000", "pipe:ops=500", "mmap:ops=500"] {
        let shown = lab.json(&[&["measure", "-w", work], &machine(&kernel)[..]].concat());
        check_functions(&shown["opcost"]["function_costs"]["functions"], X86_64.every_call);
        if work.starts_with("syscall") {
            let (call, theirs) =
                (value(&shown, None, "instructions", "kernel"), theirs[3].instructions - 4.0);
            assert!((call / theirs - 1.0).abs() < WORKS[3].3, "{call}, {theirs}");
        }
    }
}

#[test]
fn another_counter_and_another_init_count_what_opcost_counts_on_arm64() {
    let Some(kernel) = needs::kernel_arm64() else { return };
    if !needs::all() || !needs::programs(&["gcc", ARM64.compiler]) {
        return;
    }
    for model in ["neoverse-n1", "cortex-a72"] {
        agree(&Lab::new(), &ARM64, &kernel, &["--architecture", "arm64", "--cpu-model", model]);
    }
}
