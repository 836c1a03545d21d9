//! An arm64 Linux kernel with a program: entries, callers, tasks, signals and programs, on three CPU models.

use crate::emulator::count;
use crate::guest::{Booted, Guest, MODEL_AARCH64, calls, chains, models_aarch64, own_cost};
use opcost_record::Domain;

/// Four works, each a run of its own.
const WORKS: &str = r#"
static int there[2], back[2];
#define WORK(operation) \
    START(); \
    for (int turn = 0; turn < 200; turn++) { operation } \
    STOP(); \
    RUN_END();
void program(char **arguments) {
    char byte = 0;
    call(SYS_pipe2, there, 0, 0);
    call(SYS_pipe2, back, 0, 0);
    if (!fork()) {
        while (call(SYS_read, there[0], &byte, 1) == 1) call(SYS_write, back[1], &byte, 1);
        call(SYS_exit, 0, 0, 0);
    }
    WORK(call(SYS_getppid, 0, 0, 0);)
    WORK(call(SYS_write, there[1], &byte, 1); call(SYS_read, back[0], &byte, 1);)
    WORK(
        char *pages = map(65536);
        for (int page = 0; page < 4; page++) pages[page * 4096] = 1;
        call(SYS_munmap, pages, 65536, 0);
    )
    WORK(
        long child = fork();
        if (!child) call(SYS_exit, 0, 0, 0);
        call(SYS_wait4, child, 0, 0);
    )
}
"#;

/// Boots a program on each CPU model and hands each result to `check`.
fn on_models(source: &str, check: impl Fn(&str, Booted)) {
    let Some(guest) = Guest::find_aarch64() else { return };
    for model in models_aarch64() {
        check(model, guest.boot_aarch64(source, model, &[]));
    }
}

#[test]
fn system_calls_and_faults_are_those_that_the_program_made() {
    let source = r#"
void program(char **arguments) {
    char *pages = map(100 * 4096);
    long before = faults();
    START();
    for (int turn = 0; turn < 1000; turn++) call(SYS_getppid, 0, 0, 0);
    for (int page = 0; page < 100; page++) pages[page * 4096] = 1;
    STOP();
    tell("faults", faults() - before);
}
"#;
    on_models(source, |model, booted| {
        let work = booted.run.work();
        assert_eq!(count(&work, "system-calls"), 1000, "{model}");
        assert_eq!(count(&work, "page-faults"), booted.sent("faults"), "{model}");
        assert_eq!(calls(&work.profile, "", "__arm64_sys_getppid"), 1000, "{model}");
        let path = chains(&work.profile, "__arm64_sys_getppid");
        assert_eq!(path.len(), 1, "{path:?}");
        assert!(path[0].0.contains("program/"), "{path:?}");
        assert!(path[0].0.contains("/do_el0_svc/"), "{path:?}");
        assert_eq!(calls(&work.profile, "", "do_mem_abort"), booted.sent("faults"), "{model}");
    });
}

#[test]
fn the_guests_clock_goes_on_by_the_starts() {
    let source = r#"
void program(char **arguments) {
    char *pages = map(100 * 4096);
    unsigned long from = clock();
    START();
    for (int turn = 0; turn < 20000; turn++) call(SYS_getppid, 0, 0, 0);
    for (int page = 0; page < 100; page++) pages[page * 4096] = 1;
    STOP();
    tell("clock", clock() - from);
    tell("frequency", frequency());
}
"#;
    on_models(source, |model, booted| {
        let work = booted.run.work();
        let (starts, clock) = (count(&work, "instruction-starts"), booted.sent("clock"));
        // A fault's first attempt is not charged to the clock; isb, mrs and markers lie between the readings, which round down.
        let expected =
            (starts - count(&work, "page-faults")) * booted.sent("frequency") / 1_000_000_000;
        assert!(clock.abs_diff(expected) <= 5, "{model}: {clock} ticks, expected {expected}");
    });
}

#[test]
fn tasks_that_take_turns_keep_their_callers() {
    let source = r#"
static int there[2], back[2];
void child(void) {
    char byte;
    while (call(SYS_read, there[0], &byte, 1) == 1) call(SYS_write, back[1], &byte, 1);
}
void parent(void) {
    char byte = 0;
    for (int turn = 0; turn < 200; turn++) {
        call(SYS_write, there[1], &byte, 1);
        call(SYS_read, back[0], &byte, 1);
    }
}
void program(char **arguments) {
    call(SYS_pipe2, there, 0, 0);
    call(SYS_pipe2, back, 0, 0);
    if (!fork()) { child(); call(SYS_exit, 0, 0, 0); }
    parent();
    START();
    parent();
    STOP();
}
"#;
    on_models(source, |model, booted| {
        let work = booted.run.work();
        assert_eq!(count(&work, "system-calls"), 800, "{model}");
        for (symbol, caller) in [
            ("__arm64_sys_write", "parent"),
            ("__arm64_sys_write", "child"),
            ("__arm64_sys_read", "parent"),
            ("__arm64_sys_read", "child"),
        ] {
            let chains = chains(&work.profile, symbol);
            let of: Vec<_> =
                chains.iter().filter(|(path, _)| path.contains(&format!("{caller}/"))).collect();
            let sum: u64 = of.iter().map(|(_, times)| times).sum();
            // The child's last read began before the region or ends behind it.
            assert!(sum.abs_diff(200) <= 1, "{model}: {symbol} below {caller}: {chains:?}");
        }
    });
}

#[test]
fn handlers_stand_below_what_they_interrupted_and_programs_at_the_top() {
    let source = r#"
static volatile int caught;
void handler(int signal) { caught++; }
void interrupted(void) {
    for (int turn = 0; turn < 50; turn++) call(SYS_kill, call(SYS_getpid, 0, 0, 0), 10, 0);
}
void again(void) { call(SYS_getppid, 0, 0, 0); }
void program(char **arguments) {
    if (*arguments[0] != '/') { again(); call(SYS_exit, 0, 0, 0); }
    catch(10, handler);
    START();
    interrupted();
    long child = fork();
    if (!child) {
        char *words[] = {"again", 0};
        call(SYS_execve, "/init", words, 0);
    }
    call(SYS_wait4, child, 0, 0);
    STOP();
    tell("caught", caught);
}
"#;
    on_models(source, |model, booted| {
        assert_eq!(booted.sent("caught"), 50);
        let work = booted.run.work();
        let chain = chains(&work.profile, "handler");
        assert_eq!(chain.len(), 1, "{model}: {chain:?}");
        assert!(
            chain[0].0.ends_with("program/interrupted/handler") && chain[0].1 == 50,
            "{model}: {chain:?}"
        );
        let chain = chains(&work.profile, "again");
        assert_eq!(chain, [("_start/first/program/again".to_owned(), 1)], "{model}");
    });
}

#[test]
fn a_boot_repeats_and_the_kernels_classes_add_up() {
    let source = r#"
void program(char **arguments) {
    START();
    for (int turn = 0; turn < 100; turn++) {
        char *pages = map(65536);
        for (int page = 0; page < 4; page++) pages[page * 4096] = 1;
        call(SYS_munmap, pages, 65536, 0);
        long child = fork();
        if (!child) call(SYS_exit, 0, 0, 0);
        call(SYS_wait4, child, 0, 0);
    }
    STOP();
}
"#;
    let Some(guest) = Guest::find_aarch64() else { return };
    let model = MODEL_AARCH64;
    let first = guest.boot_aarch64(source, model, &[]).run.work();
    let kernel =
        |name: &str| first.count(name, Domain::Kernel).unwrap_or_else(|| panic!("no {name}"));
    let classes =
        ["synchronous", "deferred", "tick"].map(|class| kernel(&format!("instructions-{class}")));
    assert_eq!(classes.iter().sum::<u64>(), kernel("instructions"), "{classes:?}");
    assert!(classes.iter().all(|class| *class > 0) && classes[0] > classes[2] * 10, "{classes:?}");
    for options in [&[][..], &["addresses=on"]] {
        let again = guest.boot_aarch64(source, model, options).run.work();
        assert_eq!(again.counts, first.counts, "{options:?}");
    }
}

#[test]
fn an_independent_counter_agrees_to_the_digit() {
    let Some(guest) = Guest::find_aarch64() else { return };
    // With kpti=1 programs enter the kernel by a trampoline.
    let plain = models_aarch64().iter().map(|model| (*model, ""));
    for (model, more) in plain.chain([(MODEL_AARCH64, "kpti=1")]) {
        let works = guest.boot_aarch64_with(WORKS, model, &[], more).run.works();
        let of = |name: &str| works.iter().map(|work| count(work, name)).collect::<Vec<u64>>();
        let marks = guest.count_aarch64(WORKS, model, more);
        // Start, stop and the run's end; the marker at the start is not within the region.
        for work in &works {
            // Instructions of the program's functions are the user's, and no others are.
            let profile = &work.profile;
            let program: u64 = profile
                .contexts
                .iter()
                .filter(|one| profile.functions[one.function as usize].module == "/init")
                .map(|one| one.cost)
                .sum();
            assert_eq!(work.count("instructions", Domain::User), Some(program), "{model} {more}");
            let has = |symbol: &str| profile.functions.iter().any(|one| one.symbol == symbol);
            let found = ["[trampoline]", "[unknown]"].map(has);
            assert_eq!(found, [!more.is_empty(), false], "{model} {more}");
        }
        let other: Vec<u64> = marks.chunks(3).map(|marks| marks[1] - marks[0] - 1).collect();
        assert_eq!(of("instruction-starts"), other, "{model} {more}: null, pipe, mmap, fork");
        // Each of the four pages of a mapping faults once, and the attempt counts for nothing.
        let cut = of("instruction-starts")[2] - of("instructions")[2];
        assert_eq!(
            (calls(&works[0].profile, "", "__arm64_sys_getppid"), of("page-faults")[2], cut),
            (200, 800, 800),
            "{model} {more}"
        );
    }
}

#[test]
fn code_that_programs_have_at_two_addresses_is_counted_at_both() {
    // The page of `shared` is one page of memory, mapped at several addresses.
    let source = r#"
__asm__(".text\n.balign 4096\n.type shared,@function\nshared: mov x2,#1\n str x2,[x0]\n add x0,x0,x2\n ret\n"
        ".size shared,.-shared\n.balign 4096\n");
void shared(char *page);
typedef void function(char *page);
void one(function *code, char *page) { code(page); __asm__ volatile(""); }
void two(function *code, char *page) { code(page); __asm__ volatile(""); }
void work(function *first, function *second) {
    char *pages = map(100 * 4096);
    for (int page = 0; page < 100; page += 2) {
        one(first, pages + page * 4096);
        two(second, pages + page * 4096 + 4096);
    }
}
void program(char **arguments) {
    long file = call(SYS_openat, -100, "/init", 0), at = (long)shared - 0x400000;
    function *first = (function *)call_6(SYS_mmap, 0, 4096, 5, 2, file, at);
    function *second = (function *)call_6(SYS_mmap, 0, 4096, 5, 2, file, at);
    char *stack = map(4096);
    first(stack);
    second(stack);
    char *warm = map(20 * 4096);
    for (int page = 0; page < 20; page++) {
        warm[page * 4096] = 1;
        call(SYS_getppid, 0, 0, 0);
    }
    START();
    work(first, second);
    long child = fork();
    if (!child) { work(second, shared); call(SYS_exit, 0, 0, 0); }
    call(SYS_wait4, child, 0, 0);
    STOP();
}
"#;
    on_models(source, |model, booted| {
        let work = booted.run.work();
        let user = |name: &str| work.count(name, Domain::User).unwrap();
        for caller in ["one", "two"] {
            assert_eq!(calls(&work.profile, caller, "shared"), 100, "{model}: {caller}");
        }
        // Each store faults once, and its first attempt counts for nothing.
        assert_eq!(own_cost(&work.profile, "shared"), 200 * 4, "{model}");
        let cut = user("instruction-starts") - user("instructions");
        assert!((200..260).contains(&cut), "{model}: {cut}");
    });
}
