//! The lines and pages that work touches, against programs that touch known ones and against Valgrind's lackey.

use crate::emulator::{Emulator, USER, USER_AARCH64, have, skip};
use crate::guest::{Guest, MODEL_AARCH64};
use crate::programs::profiled_with;
use opcost_record::Domain;
use opcost_record::emulation::RegionCost;
use std::collections::BTreeSet;
use std::process::Command;

/// Lines and pages of data, then of code, of a domain; `suffix`: of all operations or, empty, their sum.
fn footprint(work: &RegionCost, suffix: &str, domain: Domain) -> Option<[u64; 4]> {
    let names = ["data-lines", "data-pages", "code-lines", "code-pages"];
    let counts = names.map(|name| work.count(&format!("{name}{suffix}"), domain));
    counts.iter().all(Option::is_some).then(|| counts.map(Option::unwrap))
}

/// Fifty operations, each of which reads 37 lines, writes two of them and one more, and eight bytes that lie on two pages.
const OPERATIONS: &str = "
.balign 64
FUNCTION operation
 lea buffer(%rip),%rdi
 mov $37,%ecx
1: mov (%rdi),%eax
 add $64,%rdi
 dec %ecx
 jnz 1b
 incl buffer+8(%rip)
 movb %al,buffer+70(%rip)
 mov %rax,buffer+4092(%rip)
 ret
END operation
.balign 64
FUNCTION _start
 and $-4096,%rsp
 mov $50,%ebx
 jmp 1f
.balign 64
1: START
2: call operation
 dec %ebx
 jnz 2b
 STOP
 EXIT
END _start
";

#[test]
fn an_operation_has_the_lines_that_it_touches() {
    let with =
        |operations: &str| Some(profiled_with(OPERATIONS, &["footprint=on", operations])?.work());
    let Some(work) = with("operations=50") else { return };
    // 37 lines, the two at the pages' border, and the one with the return address.
    let once = [37 + 2 + 1, 2 + 1, 1 + 1, 1];
    assert_eq!(footprint(&work, "-region", Domain::All), Some(once));
    assert_eq!(footprint(&work, "-region", Domain::User), Some(once));
    assert_eq!(footprint(&work, "", Domain::All), Some(once.map(|count| 50 * count)));
    assert_eq!(footprint(&work, "", Domain::Kernel), None, "there is no kernel");
    let Some(unknown) = with("operations=49") else { return };
    assert_eq!(footprint(&unknown, "", Domain::All), None);
    assert_eq!(footprint(&unknown, "-region", Domain::All), Some(once));
}

#[test]
fn code_that_changes_itself_is_one_line() {
    // mprotect of the page of code; then two nops become a jump to the next instruction, and two nops again.
    let source = ".balign 64\nFUNCTION _start\n mov $10,%eax\n lea _start(%rip),%rdi\n and $-4096,%rdi
 mov $4096,%esi\n mov $7,%edx\n syscall\n mov $4,%ebx\n jmp 1f\n.balign 64\n2: nop\n nop\n xorw $0x907b,2b(%rip)
 dec %ebx\n jnz 2b\n jmp 3f\n.balign 64\n1: START\n jmp 2b\n3: STOP\n EXIT\nEND _start\n";
    let Some(run) = profiled_with(source, &["footprint=on"]) else { return };
    assert_eq!(footprint(&run.work(), "-region", Domain::All), Some([1, 1, 2, 1]));
}

/// Sorts, copies, fills and searches, on a stack that begins at the border of a page.
const PROGRAM: &str = r#"
static unsigned keys[3000], order[3000];
static char text[20000], copy[20000];
__asm__(".globl _start\n_start: and $-4096,%rsp\n call work\n mov $60,%eax\n xor %edi,%edi\n syscall");

static void sift(int from, int to) {
    if (to - from < 2) return;
    int middle = (from + to) / 2, left = from, right = middle;
    sift(from, middle);
    sift(middle, to);
    for (int at = from; at < to; at++)
        order[at] = left < middle && (right == to || keys[left] <= keys[right]) ? keys[left++] : keys[right++];
    for (int at = from; at < to; at++) keys[at] = order[at];
}

__attribute__((used)) static void work(void) {
    unsigned seed = 12345;
    for (int at = 0; at < 3000; at += 1 + (seed >> 29)) keys[at] = seed = seed * 1664525 + 1013904223;
    sift(0, 3000);
    for (int at = 0; at < 100; at++) {
        seed = seed * 1664525 + 1013904223;
        *(long *)(text + seed % 19990) += at;
    }
    void *to = copy + 33, *from = text + 61;
    long bytes = 5000;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    __asm__ volatile("movups %%xmm0, 60(%0)\n prefetcht0 9000(%0)" : : "r"(copy + 10000) : "memory");
}
"#;

#[test]
fn lackey_sees_the_same_lines() {
    if !have("valgrind") {
        return skip("valgrind is not installed");
    }
    let Some(emulator) = Emulator::find(USER) else { return };
    let options = ["-O2", "-fno-stack-protector", "-fno-builtin", "-no-pie", "-fno-pic"];
    let Some(program) = emulator.build("program.c", PROGRAM, &options) else { return };
    let work = emulator.run(&["window=whole", "footprint=on"], &[&program]).work();
    let trace = emulator.folder().join("trace");
    let run = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .args([&format!("--log-file={}", trace.display()), &program])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let (mut data, mut code) = (BTreeSet::new(), BTreeSet::new());
    for line in std::fs::read_to_string(trace).unwrap().lines() {
        let touched = match line.split_at_checked(3) {
            Some(("I  ", _)) => &mut code,
            Some((" L " | " S " | " M ", _)) => &mut data,
            _ => continue,
        };
        let (address, bytes) = line[3..].split_once(',').unwrap();
        let first = u64::from_str_radix(address, 16).unwrap();
        touched.extend([first >> 6, (first + bytes.parse::<u64>().unwrap() - 1) >> 6]);
    }
    let pages = |lines: &BTreeSet<u64>| lines.iter().map(|line| line >> 6).collect::<BTreeSet<_>>();
    let theirs = [&data, &pages(&data), &code, &pages(&code)].map(|set| set.len() as u64);
    assert!(theirs[0] > 500, "{theirs:?}");
    assert_eq!(footprint(&work, "-region", Domain::All), Some(theirs));
}

#[test]
fn an_arm64_program_has_the_lines_that_it_touches_and_clears() {
    let Some(emulator) = Emulator::find(USER_AARCH64) else { return };
    let source = "
.globl _start
.balign 64
.type f,%function
f: add x2,x20,x19,lsl #6
 ldr x1,[x2]
 ret
.balign 64
_start: ldr x20,=buffer
 mov x19,#1
 .rept 64
 bl f                          // the plugin learns where the registers are
 .endr
 mov x19,#20
 b 2f
.balign 64
2: .inst 0xd2e0201f
3: bl f
 subs x19,x19,#1
 b.ne 3b
 add x3,x20,#4096
 dc zva,x3
 str x0,[x20,#4088]
 str x0,[x20,#4096]
 .inst 0xd2e0401f
 mov x0,#0
 mov x8,#93
 svc #0
.ltorg
.bss
.balign 4096
buffer: .skip 8192
";
    let Some(program) = emulator.build("program.S", source, &[]) else { return };
    let run = emulator.run(&["footprint=on", "operations=20"], &["-cpu", "neoverse-n1", &program]);
    let work = run.work();
    // Without symbols all code is one function. Lines 1 to 20, the last of the first page, and the first of the second, which is cleared and stored to.
    let [lines, pages, code, _] = footprint(&work, "-region", Domain::All).unwrap();
    assert_eq!((lines, pages, code), (20 + 2, 2, 2));
    assert_eq!(work.count("data-lines", Domain::All), None);
}

/// Four works, each a run of its own: new pages, pages of a file, and system calls.
const WORKS: &str = r#"
static char bytes[4096];
#define RUN_END() __asm__ volatile(".byte 0x0f,0x1f,0x80,0x00,0x03,0x63,0x6f" ::: "memory")
void touch(char *pages, int count) { for (int page = 0; page < count; page++) pages[page * 4096L] = 1; }
void reads(long file, int count) {
    call(8, file, 0, 0);
    for (int page = 0; page < count; page++) call(SYS_read, file, bytes, 4096);
}
void program(char **arguments) {
    char *few = map(100 * 4096), *many = map(300 * 4096);
    long file = call(SYS_open, "/pages", 0102, 0600);
    for (int page = 0; page < 300; page++) call(SYS_write, file, bytes, 4096);
    reads(file, 300);
    START(); touch(few, 100); STOP(); RUN_END();
    START(); touch(many, 300); STOP(); RUN_END();
    START(); reads(file, 100); STOP(); RUN_END();
    START(); reads(file, 300); STOP(); RUN_END();
    START(); for (int turn = 0; turn < 200; turn++) call(SYS_getppid, 0, 0, 0); STOP(); RUN_END();
}
"#;

#[test]
fn a_kernel_touches_each_line_of_a_page_that_it_clears_or_copies() {
    let Some(guest) = Guest::find() else { return };
    let booted = guest.boot(WORKS, &["footprint=on", "operations=200"], &[]);
    let works = booted.run.works();
    let [few, many, short, long, calls] = &works[..] else { panic!("{} runs", works.len()) };
    let of = |work, domain| footprint(work, "-region", domain).unwrap();
    let more =
        |less, more, domain, figure: usize| of(more, domain)[figure] - of(less, domain)[figure];
    // The program touches a line of each new page; the kernel cleared all lines of that page before.
    assert_eq!([0, 1].map(|figure| more(few, many, Domain::User, figure)), [200, 200]);
    for (less, most) in [(few, many), (short, long)] {
        let [lines, pages] = [0, 1].map(|figure| more(less, most, Domain::Kernel, figure));
        // Beside the page itself the kernel touches its description and some others.
        assert!((200 * 64..200 * 72).contains(&lines), "{lines} lines of 200 pages");
        assert!((200..220).contains(&pages), "{pages} pages");
        assert_eq!(more(less, most, Domain::All, 0), lines, "memory that both use counts once");
        let code = of(most, Domain::All)[2].abs_diff(of(less, Domain::All)[2]);
        assert!(code < 500, "{code} lines of code");
    }
    // No fault, no allocation: an operation is a small part of a page.
    let (once, all) = (footprint(calls, "", Domain::Kernel).unwrap(), of(calls, Domain::Kernel));
    for (once, all) in once.into_iter().zip(all) {
        assert!(once / 200 > 0 && once / 200 <= all && all < 2000, "{once} {all}");
    }
}

#[test]
fn an_arm64_kernel_clears_each_line_of_a_page() {
    let Some(guest) = Guest::find_aarch64() else { return };
    // Its kernel clears pages by DC ZVA, of which QEMU does not tell.
    let source = r#"
void touch(char *pages, int count) { for (int page = 0; page < count; page++) pages[page * 4096L] = 1; }
void program(char **arguments) {
    char *few = map(100 * 4096), *many = map(300 * 4096);
    START(); touch(few, 100); STOP(); RUN_END();
    START(); touch(many, 300); STOP(); RUN_END();
}
"#;
    let booted = guest.boot_aarch64(source, MODEL_AARCH64, &["footprint=on"]);
    let works = booted.run.works();
    let [few, many] = &works[..] else { panic!("{} runs", works.len()) };
    let more = |domain, figure: usize| {
        let [less, more] =
            [few, many].map(|work| footprint(work, "-region", domain).unwrap()[figure]);
        more - less
    };
    assert_eq!([0, 1].map(|figure| more(Domain::User, figure)), [200, 200]);
    let lines = more(Domain::Kernel, 0);
    assert!((200 * 64..200 * 72).contains(&lines), "{lines} lines of 200 pages");
    assert_eq!(more(Domain::All, 0), lines, "memory that both use counts once");
}
