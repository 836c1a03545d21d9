//! Valgrind's callgrind counts the same instructions of a program that branches, fills and searches.

use crate::emulator::{Emulator, USER, count, have, skip};
use std::collections::BTreeMap;
use std::process::Command;

const PROGRAM: &str = r#"
static unsigned keys[5000], odd;
static char text[8192];

void _start(void) {
    unsigned seed = 12345;
    for (int i = 0; i < 5000; i++) keys[i] = seed = seed * 1664525 + 1013904223;
    for (int i = 0; i < 5000; i++) if (keys[i] >> 31) for (unsigned bits = keys[i]; bits; bits &= bits - 1) odd ^= bits;
    for (int i = 0; i < 100; i++) {
        void *to = text;
        long bytes = i * 7;
        __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"('x') : "memory");
        to = text;
        bytes = 8192;
        __asm__ volatile("repne scasb" : "+D"(to), "+c"(bytes) : "a"(0) : "memory", "cc");
    }
    __asm__ volatile("jmp 1f; 1: mov $60, %eax; xor %edi, %edi; nop; nop; syscall");
}
"#;

#[test]
fn callgrind_counts_the_same() {
    if !have("valgrind") {
        return skip("valgrind is not installed");
    }
    let Some(emulator) = Emulator::find(USER) else { return };
    let options = ["-O2", "-fno-stack-protector", "-fno-builtin"];
    let Some(program) = emulator.build("program.c", PROGRAM, &options) else { return };
    let work = emulator.run(&["window=whole", "addresses=on"], &[&program]).work();
    let out = emulator.folder().join("callgrind");
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-instr=yes", "--compress-pos=no", "--dump-line=no"])
        .args([&format!("--callgrind-out-file={}", out.display()), &program])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(out).unwrap();
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("summary: ").or_else(|| line.strip_prefix("totals: ")));
    let callgrind: u64 = total.unwrap().trim().parse().unwrap();
    // Callgrind also begins a repeated string instruction once per iteration. It adds a block when the next block begins, so the
    // five instructions that end the process are missing.
    assert_eq!(count(&work, "instruction-starts"), callgrind + 5);
    assert!(count(&work, "instructions") + 30_000 < callgrind);
    let mut theirs: BTreeMap<u64, u64> = BTreeMap::new();
    let mut before = "";
    for line in text.lines() {
        // The line behind a call has the callee's cost.
        let of_call = std::mem::replace(&mut before, line).starts_with("calls=");
        let fields = line.strip_prefix("0x").and_then(|line| line.split_once(' '));
        if let Some((address, count)) = fields.filter(|_| !of_call) {
            let address = u64::from_str_radix(address, 16).unwrap();
            *theirs.entry(address).or_default() += count.parse::<u64>().unwrap();
        }
    }
    let ours = work.profile.addresses.iter().map(|one| (one.address, one.cost));
    let ours: BTreeMap<u64, u64> = ours.collect();
    let end = *ours.keys().last().unwrap();
    let mut repeated = 0;
    for (address, count) in ours {
        match theirs.remove(&address) {
            Some(their) if their == count => {}
            // The two instructions that repeat themselves 100 times.
            Some(their) => {
                assert!(count == 100 && their > 100, "{address:#x}: {count}, {their}");
                repeated += 1;
            }
            None => assert!(count == 1 && address + 20 > end, "{address:#x}: {count}"),
        }
    }
    assert_eq!((repeated, theirs.len()), (2, 0));
}
