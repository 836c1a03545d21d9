//! Costs by address: against valgrind and objdump, and against the functions of the same runs.

use crate::lab::{Lab, compile};
use crate::needs;
use opcost_analysis::comparison::address_costs::{VariantAddresses, address_costs};
use opcost_analysis::comparison::call_tree::VariantOf;
use opcost_model::recording::Recording;
use opcost_record::{AddressCost, Function, Transfer};
use opcost_store::store::Store;
use std::collections::BTreeMap;
use std::process::Command;

const PROGRAM: &str = r#"
#include <stdlib.h>
#include <string.h>
static unsigned keys[3000];
__attribute__((noinline)) static void sort(unsigned *from, long count) {
    while (count > 1) {
        unsigned pivot = from[count / 2];
        long low = 0, high = count - 1;
        while (low <= high) {
            while (from[low] < pivot) low++;
            while (from[high] > pivot) high--;
            if (low <= high) {
                unsigned key = from[low];
                from[low++] = from[high];
                from[high--] = key;
            }
        }
        sort(from, high + 1);
        from += low;
        count -= low;
    }
}
int main(int count, char **words) {
    unsigned seed = 12345;
    for (int at = 0; at < 3000; at++) keys[at] = seed = seed * 1664525 + 1013904223;
    sort(keys, 3000);
    return keys[0] > keys[2999];
}
"#;

/// Records work by address, and returns the recording.
fn recorded(lab: &Lab, args: &[&str]) -> Recording {
    let all = ["measure", "--quiet", "--machine", "emulated", "--seed", "1", "--addresses"];
    lab.run(&[&all[..], args].concat()).expect(0);
    Store::open_for_reading(&lab.store()).unwrap().read("last").unwrap()
}

fn addresses(recording: &Recording) -> VariantAddresses {
    address_costs(VariantOf { recording, variant: 0 }).unwrap()
}

/// The costs of a function of a file by address.
fn of<'a>(all: &'a VariantAddresses, symbol: &str, module: &str) -> &'a [AddressCost] {
    let functions = &all.costs.functions;
    let is = |one: &&Function| one.symbol == symbol && one.module == module;
    all.costs.of(functions.iter().find(is).unwrap_or_else(|| panic!("no {symbol} of {module}")))
}

/// Checks that the instructions of each function sum to the function's own cost, in each run.
fn sum_to_functions(recording: &Recording) {
    assert!(!recording.profiles.is_empty());
    for (slot, profile) in &recording.profiles {
        let mut own = vec![0; profile.functions.len()];
        let mut sums = own.clone();
        profile.contexts.iter().for_each(|one| own[one.function as usize] += one.cost);
        profile.addresses.iter().for_each(|one| sums[one.function as usize] += one.cost);
        assert_eq!(sums, own, "run {slot}");
    }
}

/// What callgrind counted in an ELF file: the cost of each instruction, and how often each conditional branch was taken, by
/// instruction and target.
fn callgrind(lab: &Lab, program: &str) -> (BTreeMap<u64, u64>, BTreeMap<(u64, u64), u64>) {
    let out = lab.path("callgrind.out");
    let ended = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--compress-pos=no"])
        .args([
            "--collect-jumps=yes",
            "--compress-strings=no",
            &format!("--callgrind-out-file={}", out.display()),
        ])
        .arg(program)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let (mut object, mut before) = (String::new(), String::new());
    let (mut counts, mut taken) = (BTreeMap::new(), BTreeMap::new());
    let hexadecimal = |text: &str| u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok();
    for line in lab.lines("callgrind.out") {
        if let Some(path) = line.strip_prefix("ob=") {
            object = path.into();
        }
        if let Some((times, target)) =
            before.strip_prefix("jcnd=").and_then(|jump| jump.split_once(' '))
            && object == program
        {
            let place = (hexadecimal(&line).unwrap(), hexadecimal(target).unwrap());
            *taken.entry(place).or_default() +=
                times.split('/').next().unwrap().parse::<u64>().unwrap();
        }
        // The line behind a call has the callee's cost, that behind a jump the jump's place.
        let of_call = ["calls=", "jcnd=", "jump="].iter().any(|word| before.starts_with(word));
        let fields = line.strip_prefix("0x").and_then(|line| line.split_once(' '));
        if let Some((address, count)) = fields.filter(|_| !of_call && object == program) {
            let address = u64::from_str_radix(address, 16).unwrap();
            *counts.entry(address).or_default() += count.parse::<u64>().unwrap();
        }
        before = line;
    }
    taken.retain(|_, times| *times > 0);
    (counts, taken)
}

#[test]
fn a_programs_instructions_cost_what_callgrind_counts_at_linked_addresses() {
    if !needs::programs(&["cc", "valgrind"]) || !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    for (name, options) in [("apart", &["-pie", "-fPIE"][..]), ("fixed", &["-no-pie", "-static"])] {
        let program = compile(&lab, name, PROGRAM, options);
        let recording = recorded(&lab, &["--kernel", "none", "-n", "2", "--warmup", "0", &program]);
        sum_to_functions(&recording);
        let all = addresses(&recording);
        // Runs have paddings of their own, and the loader's comparisons of strings depend on alignment.
        assert_eq!(all.runs, 2, "{name}");
        let (theirs, mut taken) = callgrind(&lab, &program);
        let mut places = Vec::new();
        for symbol in ["main", "sort"] {
            let ours = of(&all, symbol, &program);
            places.extend(ours.iter().map(|one| one.address));
            assert!(ours.len() > 10, "{ours:?}");
            for AddressCost { address, executions, cost, .. } in ours {
                let counted = theirs.get(address).map(|count| count * 2);
                assert_eq!(
                    (Some(*cost), cost),
                    (counted, executions),
                    "{name}: {symbol} {address:#x}"
                );
            }
        }
        // Neither function calls through a pointer, so all transfers are of branches.
        taken.retain(|(from, _), _| places.contains(from));
        let is_ours = |one: &&Transfer| {
            let module = &all.costs.functions[one.from.0 as usize].module;
            *module == program && places.contains(&one.from.1)
        };
        let ours = all.costs.transfers.iter().filter(is_ours);
        let ours: BTreeMap<(u64, u64), u64> =
            ours.map(|one| ((one.from.1, one.to.1), one.times / 2)).collect();
        assert!(ours.len() > 5, "{ours:x?}");
        assert_eq!(ours, taken, "{name}");
    }
}

/// The own costs by function and line in a file of callgrind's format.
fn by_line(text: &str) -> BTreeMap<(String, u64), u64> {
    let (mut names, mut function, mut of_call) = (BTreeMap::new(), String::new(), false);
    let mut costs = BTreeMap::new();
    for line in text.lines() {
        let named = line.strip_prefix("fn=").or(line.strip_prefix("cfn="));
        if let Some(name) = named {
            let name = match name.strip_prefix('(').and_then(|name| name.split_once(')')) {
                // A name comes once, then its number alone.
                Some((number, name)) if number.parse::<u32>().is_ok() => {
                    let known =
                        names.entry(number.to_string()).or_insert_with(|| name.trim().to_string());
                    known.clone()
                }
                _ => name.to_string(),
            };
            // Callgrind counts a recursion apart, as `sort'2`.
            let name = name.split('\'').next().unwrap_or_default().to_string();
            if line.starts_with("fn=") {
                function = name;
            }
            continue;
        }
        let fields = line
            .split_once(' ')
            .and_then(|(at, cost)| Some((at.parse().ok()?, cost.parse::<u64>().ok()?)));
        if let Some((at, cost)) = fields.filter(|_| !of_call) {
            *costs.entry((function.clone(), at)).or_default() += cost;
        }
        of_call = line.starts_with("calls=");
    }
    costs
}

#[test]
fn exported_lines_cost_what_callgrind_counts_for_them() {
    if !needs::programs(&["cc", "valgrind", "callgrind_annotate"]) || !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "lines", PROGRAM, &["-g", "-O1"]);
    recorded(&lab, &["--kernel", "none", "-n", "2", "--warmup", "0", &program]);
    lab.run(&["show", "last", "--export-callgrind", "ours.out"]).expect(0);
    let theirs = lab.path("theirs.out").display().to_string();
    let ended = Command::new("valgrind")
        .args(["--tool=callgrind", "--compress-pos=no", "--compress-strings=no"])
        .args([&format!("--callgrind-out-file={theirs}"), &program])
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let read = |name: &str| by_line(&std::fs::read_to_string(lab.path(name)).unwrap());
    let (ours, theirs) = (read("ours.out"), read("theirs.out"));
    let of = |all: &BTreeMap<(String, u64), u64>, function: &str, runs: u64| -> Vec<(u64, u64)> {
        let rows = all.iter().filter(|((name, _), cost)| name == function && **cost > 0);
        rows.map(|((_, line), cost)| (*line, cost * runs)).collect()
    };
    for function in ["main", "sort"] {
        let lines = of(&ours, function, 1);
        assert!(lines.len() > 3, "{lines:?}");
        assert_eq!(lines, of(&theirs, function, 2), "{function}");
    }
    // callgrind_annotate shows the source beside the costs.
    let shown = Command::new("callgrind_annotate")
        .args(["--auto=yes", "--threshold=100"])
        .arg(lab.path("ours.out"))
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let pivot = shown.lines().find(|line| line.contains("unsigned pivot = from[count / 2];"));
    assert!(
        pivot.is_some_and(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())),
        "{shown}"
    );
}

/// The addresses of a function's instructions, as binutils see them.
fn disassembled(vmlinux: &str, symbol: &str) -> Vec<u64> {
    let asked = ["-d", "--no-show-raw-insn", &format!("--disassemble={symbol}"), vmlinux];
    let listed = Command::new("objdump").args(asked).output().unwrap().stdout;
    let listed = String::from_utf8(listed).unwrap();
    let address = |line: &str| u64::from_str_radix(line.trim().split_once(":\t")?.0, 16).ok();
    listed.lines().filter_map(address).collect()
}

#[test]
fn the_kernels_instructions_sum_to_its_functions_at_its_link_addresses() {
    let Some(kernel) = needs::kernel() else { return };
    let vmlinux = kernel.replace("bzImage", "vmlinux");
    if !needs::programs(&["objdump"]) {
        return;
    }
    let lab = Lab::new();
    for (work, calls) in [("syscall:ops=500", 1000), ("mmap:ops=100", 200)] {
        let run = ["--kernel", &kernel, "-n", "2", "--warmup", "0", "-w", work];
        let recording = recorded(&lab, &run);
        sum_to_functions(&recording);
        let all = addresses(&recording);
        let entry = of(&all, "do_syscall_64", "[kernel]");
        assert!(entry.iter().any(|one| one.cost == calls), "{work}: {entry:?}");
        if std::path::Path::new(&vmlinux).exists() && vmlinux != kernel {
            let known = disassembled(&vmlinux, "do_syscall_64");
            let strange = entry.iter().find(|one| !known.contains(&one.address));
            assert_eq!(strange, None, "{work}: {known:x?}");
        }
        let user = all.costs.functions.iter().filter(|one| one.module != "[kernel]").count();
        assert!(user > 0 && all.costs.costs.iter().any(|one| one.address >> 63 == 0), "{work}");
    }
}

#[test]
fn a_recording_without_addresses_says_how_to_get_them() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    lab.run(&["measure", "-q", "--machine", "emulated", "--kernel", "none", "-n", "1", "true"])
        .expect(0);
    let recording = Store::open_for_reading(&lab.store()).unwrap().read("last").unwrap();
    let error = address_costs(VariantOf { recording: &recording, variant: 0 }).unwrap_err();
    assert!(error.to_string().contains("record it again with --machine emulated --addresses"));
}

#[test]
fn addresses_travel_with_a_recording() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let recording = recorded(&lab, &["--kernel", "none", "-n", "1", "--warmup", "0", "true"]);
    let made = addresses(&recording);
    let file = lab.path("one.opcost").display().to_string();
    lab.run(&["export", "-o", &file]).expect(0);
    let other = Lab::new();
    other.run(&["import", &file]).expect(0);
    let read = Store::open_for_reading(&other.store()).unwrap().read("last").unwrap();
    assert_eq!(addresses(&read), made);
}
