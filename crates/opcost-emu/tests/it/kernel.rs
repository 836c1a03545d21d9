//! A real kernel: the profile agrees with the counts of kernel and program.

use crate::emulator::{MODEL, check, count};
use crate::guest::{Guest, calls, chains, own_cost};
use opcost_record::emulation::RegionCost;
use opcost_record::metric::{DEFERRED, SYNCHRONOUS, TICK};
use opcost_record::profile::KERNEL;
use opcost_record::{Domain, Transfer};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// System calls, page faults and signals of one task.
const ONE_TASK: &str = r#"
static volatile long handled;
void leaf(void) { __asm__ volatile("nop"); }
void ask(void) { call(SYS_getppid, 0, 0, 0); leaf(); }
void asks(void) { for (int turn = 0; turn < 1000; turn++) ask(); }
void handler(int signal) { handled++; leaf(); }
void raise(int signal) { call(SYS_kill, call(SYS_getpid, 0, 0, 0), signal, 0); leaf(); }
void raises(void) { for (int turn = 0; turn < 100; turn++) raise(10); }
void touch(char *pages) { for (int page = 0; page < 500; page++) pages[page * 4096] = 1; }
void program(char **arguments) {
    catch(10, handler);
    char *pages = map(500 * 4096);
    handler(0);
    asks();
    long before = faults();
    START();
    asks();
    raises();
    touch(pages);
    handler(0);
    STOP();
    tell("faults", faults() - before);
    tell("handled", handled);
}
"#;

#[test]
fn calls_are_what_the_program_made_and_the_kernel_counted() {
    let Some(guest) = Guest::find() else { return };
    let booted = guest.boot(ONE_TASK, &[], &[]);
    let work = booted.run.work();
    let profile = &work.profile;
    assert_eq!(booted.sent("handled"), 102);
    check(&work, &[("system-calls", 1000 + 100 * 3), ("page-faults", booted.sent("faults"))]);
    for (caller, symbol, expected) in [
        ("", "__x64_sys_getppid", 1000),
        ("", "__x64_sys_getpid", 100),
        ("", "__x64_sys_kill", 100),
        ("", "__x64_sys_rt_sigreturn", 100),
        ("", "handle_mm_fault", booted.sent("faults")),
        ("asks", "ask", 1000),
        ("", "ask", 1000),
        ("ask", "entry_SYSCALL_64", 1000),
        ("ask", "leaf", 1000),
        ("raises", "raise", 100),
        ("raise", "entry_SYSCALL_64", 200),
        ("raise", "handler", 100),
        ("raise", "leaf", 100),
        ("program", "handler", 1),
        ("handler", "leaf", 101),
        ("", "leaf", 1201),
        ("restorer", "entry_SYSCALL_64", 100),
    ] {
        assert_eq!(calls(profile, caller, symbol), expected, "{caller} -> {symbol}");
    }
    // Straight from the entry, though there are labels on the way.
    for (chain, _) in chains(profile, "__x64_sys_getppid") {
        let way = chain.strip_prefix("_start/first/program/asks/ask/entry_SYSCALL_64/");
        assert!(way.is_some_and(|way| way.starts_with("do_syscall_64/")), "{chain}");
    }
    assert_eq!(chains(profile, "touch"), [("_start/first/program/touch".to_string(), 1)]);
}

/// The counts that a run with these options has: without a profile the classes of the kernel's work are not known.
fn without_contexts<'a>(
    counts: &'a [(String, Domain, u64)],
    options: &[&str],
) -> impl Iterator<Item = &'a (String, Domain, u64)> {
    let is_total = options.contains(&"profile=off");
    let of_classes = [SYNCHRONOUS, DEFERRED, TICK];
    counts.iter().filter(move |(name, ..)| !is_total || !of_classes.contains(&name.as_str()))
}

#[test]
fn options_and_a_busy_computer_change_nothing() {
    let Some(guest) = Guest::find() else { return };
    let first = guest.boot(ONE_TASK, &[], &[]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Whatever happens below, the scope must end.
        let _stopped = Stop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        for _ in 1..3 {
            assert_eq!(guest.boot(ONE_TASK, &[], &[]).run.report, first.run.report);
        }
    });
    let counts = first.run.work().counts;
    for options in [&[MODEL][..], &["profile=off"], &["profile=off", MODEL]] {
        let again = guest.boot(ONE_TASK, options, &[]);
        assert_eq!(again.sent, first.sent);
        let again = again.run.work();
        let kept = without_contexts(&counts, options);
        for (name, domain, value) in kept {
            assert_eq!(again.count(name, *domain), Some(*value), "{options:?}: {name}");
        }
    }
}

/// Faults in the middle and at the end of blocks and within string instructions, divisions by zero, code that changes the block in
/// which it is executed, a device's memory, and reading and writing pipes and files.
const CUTS: &str = r#"
static volatile long handled, refused;
static char *pages;
void divided(int signal, void *info, unsigned long *context) { handled++; context[21] += 2; }
void missed(int signal, void *info, unsigned long *context) {
    handled++;
    call(10, pages, 64 * 4096, 3);
}
void divide(void) { __asm__ volatile("xor %%ecx, %%ecx\n div %%ecx" ::: "eax", "ecx", "edx"); }
void strings(char *to, char *from, long bytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) :: "memory");
}
void pushes(char *to) {
    __asm__ volatile("mov %%rsp, %%rbx\n lea 4096(%0), %%rsp\n call 1f\n1: pop %%rax\n mov %%rbx, %%rsp"
                     :: "r"(to) : "rax", "rbx", "memory");
}
/* movb $0x90, 0(%rip); nop; ret */
static const char middle[] = "\xc6\x05\0\0\0\0\x90\x90\xc3";
/* nop; nop; movb $0x90, -8(%rip), up to the end of a page; then ret */
static const char last[] = "\x90\x90\xc6\x05\xf8\xff\xff\xff\x90\xc3";
void program(char **arguments) {
    catch(8, (void (*)(int))divided);
    catch(11, (void (*)(int))missed);
    pages = map(64 * 4096);
    char *code = map(2 * 4096), *fresh = map(256 * 4096);
    call(10, code, 2 * 4096, 7);
    for (int at = 0; at < 9; at++) code[at] = middle[at];
    for (int at = 0; at < 10; at++) code[4096 - 9 + at] = last[at];
    long ends[2];
    call(SYS_pipe, ends, 0, 0);
    START();
    for (int turn = 0; turn < 50; turn++) divide();
    for (int turn = 0; turn < 20; turn++) {
        call(10, pages, 64 * 4096, 0);
        pages[turn * 4096] = 1;
    }
    strings(fresh, pages, 60 * 4096);
    strings(fresh + 100 * 4096 + 5, fresh, 30 * 4096);
    for (int page = 200; page < 250; page++) pushes(fresh + page * 4096);
    for (int turn = 0; turn < 100; turn++) ((void (*)(void))code)();
    for (int turn = 0; turn < 100; turn++) ((void (*)(void))(code + 4096 - 9))();
    for (int turn = 0; turn < 30; turn++) {
        call(SYS_write, ((int *)ends)[1], fresh, 3000);
        call(SYS_read, ((int *)ends)[0], fresh + 180 * 4096 + 100 * turn, 3000);
    }
    /* The kernel faults where it copies, and gives up. */
    for (int turn = 0; turn < 20; turn++) refused += call(SYS_write, ((int *)ends)[1], (char *)64 + turn, 100) < 0;
    observe(&before);
    STOP();
    tell("handled", handled);
    tell("refused", refused);
}
"#;

#[test]
fn totals_alone_are_those_with_functions() {
    let Some(guest) = Guest::find() else { return };
    for program in [ONE_TASK, FORKS, CUTS] {
        let whole = guest.boot(program, &[], &[]);
        let totals = guest.boot(program, &["profile=off"], &[]);
        assert_eq!(totals.sent, whole.sent);
        if program == CUTS {
            assert_eq!((whole.sent("handled"), whole.sent("refused")), (50 + 20, 20));
        }
        let (whole, totals) = (whole.run.work(), totals.run.work());
        let kept: Vec<_> = without_contexts(&whole.counts, &["profile=off"]).collect();
        assert_eq!(totals.counts.iter().collect::<Vec<_>>(), kept);
        assert!(totals.profile.contexts.is_empty() && !whole.profile.contexts.is_empty());
    }
}

#[test]
fn addresses_change_no_count_and_sum_to_their_functions() {
    let Some(guest) = Guest::find() else { return };
    for program in [FORKS, CUTS, TURNS] {
        let plain = guest.boot(program, &[], &[]);
        let apart = guest.boot(program, &["addresses=on"], &[]);
        assert_eq!(apart.sent, plain.sent);
        let (plain, mut apart) = (plain.run.work(), apart.run.work());
        let addresses = std::mem::take(&mut apart.profile.addresses);
        assert!(addresses.len() > apart.profile.functions.len());
        let transfers = std::mem::take(&mut apart.profile.transfers);
        // Targets that are executed no further, since the region ends there, may be of other functions.
        apart.profile.functions.truncate(plain.profile.functions.len());
        assert_eq!(apart, plain);
        let executions: HashMap<_, _> =
            addresses.iter().map(|one| (one.place(), one.executions)).collect();
        let mut left: HashMap<_, u64> = HashMap::new();
        for Transfer { from, to, times } in &transfers {
            *left.entry(*from).or_default() += times;
            assert!(
                executions.get(to).is_none_or(|begun| begun >= times),
                "{from:x?} to {to:x?}: {times}"
            );
        }
        for (from, times) in left {
            assert!(times <= executions[&from], "{from:x?}: {times} of {}", executions[&from]);
        }
        if program == CUTS {
            // Indirect calls and jumps come on top.
            let modelled = guest.boot(program, &[MODEL], &[]).run.work();
            let functions = &apart.profile.functions;
            let of_kernel =
                |at: u32| functions.get(at as usize).is_some_and(|one| one.module == KERNEL);
            let taken = |kernel: bool| -> u64 {
                let of_domain = transfers.iter().filter(|one| of_kernel(one.from.0) == kernel);
                of_domain.map(|one| one.times).sum()
            };
            let conditional =
                |domain| modelled.count("conditional-branches-taken", domain).unwrap();
            assert_eq!(taken(false), conditional(Domain::User) + 200);
            // Some kernels have a branch on the way to a signal's handler that a model takes for taken: one a signal.
            let missing = conditional(Domain::Kernel).saturating_sub(taken(true));
            assert!(missing == 0 || missing == 50 + 20, "{missing}");
        }
    }
}

/// Sets a flag when dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Forks, started programs, and the work of the child.
const FORKS: &str = r#"
void leaf(void) { __asm__ volatile("nop"); }
void work(int times) { while (times--) leaf(); }
void child(void) { work(7); call(SYS_exit, 0, 0, 0); }
long spawn(void) { return call(SYS_fork, 0, 0, 0); }
void await(void) { call(SYS_wait4, -1, 0, 0); work(2); }
void become(void) {
    char *arguments[] = {"again", 0};
    call(SYS_execve, "/init", arguments, arguments + 1);
}
void again(void) { work(3); call(SYS_exit, 0, 0, 0); }
void program(char **arguments) {
    if (*arguments[0] == 'a') again();
    observe(&before);
    START();
    for (int turn = 0; turn < 20; turn++) {
        if (spawn() == 0) child();
        await();
    }
    for (int turn = 0; turn < 5; turn++) {
        if (spawn() == 0) become();
        await();
    }
    STOP();
    observe(&after);
    tell_difference("processes");
    tell_difference("ctxt");
}
"#;

/// Whether a count between two observations agrees with their difference. A few events may come between an observation and its
/// marker.
fn agrees(counted: u64, observed: u64) {
    assert!(counted <= observed && observed <= counted + 3, "{counted} of {observed}");
}

#[test]
fn calls_are_right_across_fork_and_exec() {
    let Some(guest) = Guest::find() else { return };
    let booted = guest.boot(FORKS, &[], &[]);
    let work = booted.run.work();
    let profile = &work.profile;
    assert_eq!(booted.sent("processes"), 25);
    for (caller, symbol, expected) in [
        ("", "copy_process", 25),
        ("", "do_exit", 25),
        ("", "__x64_sys_execve", 5),
        ("", "begin_new_exec", 5),
        ("program", "spawn", 25),
        ("", "spawn", 25),
        ("program", "await", 25),
        ("await", "work", 25),
        ("program", "child", 20),
        ("child", "work", 20),
        ("program", "become", 5),
        ("-", "_start", 5),
        ("_start", "first", 5),
        ("first", "program", 5),
        ("program", "again", 5),
        ("again", "work", 5),
        ("work", "leaf", 25 * 2 + 20 * 7 + 5 * 3),
        ("", "leaf", 25 * 2 + 20 * 7 + 5 * 3),
    ] {
        assert_eq!(calls(profile, caller, symbol), expected, "{caller} -> {symbol}");
    }
    for (chain, _) in chains(profile, "again") {
        assert_eq!(chain, "_start/first/program/again");
    }
    for (chain, _) in chains(profile, "child") {
        assert_eq!(chain, "program/child", "the child of a fork goes on at the top");
    }
    agrees(calls(profile, "", "__switch_to_asm"), booted.sent("ctxt"));
}

/// Children whose stacks are new, since all of them live at the same time.
const CROWD: &str = r#"
void program(char **arguments) {
    int gate[2];
    char byte;
    call(SYS_pipe, gate, 0, 0);
    START();
    for (int child = 0; child < 16; child++)
        if (call(SYS_fork, 0, 0, 0) == 0) {
            call(SYS_read, gate[0], &byte, 1);
            call(SYS_exit, 0, 0, 0);
        }
    call(SYS_write, gate[1], "0123456789abcdef", 16);
    for (int child = 0; child < 16; child++) call(SYS_wait4, -1, 0, 0);
    STOP();
}
"#;

#[test]
fn the_task_that_leaves_pays_for_a_switch_to_a_stack_that_was_never_seen() {
    let Some(guest) = Guest::find() else { return };
    let booted = guest.boot(CROWD, &[], &[]);
    let profile = &booted.run.work().profile;
    assert_eq!(calls(profile, "", "copy_process"), 16);
    for part in ["__switch_to_asm", "__switch_to"] {
        let callers: Vec<String> =
            chains(profile, part).into_iter().map(|(chain, _)| chain).collect();
        assert!(callers.len() > 1, "{callers:?}");
        let scheduled = |chain: &String| chain.contains("__schedule/");
        assert!(callers.iter().all(scheduled), "{part}: {callers:?}");
    }
}

/// Two tasks that take turns.
const TURNS: &str = r#"
static char byte;
void ping_write(int *pipe) { call(SYS_write, pipe[1], &byte, 1); }
void ping_read(int *pipe) { call(SYS_read, pipe[0], &byte, 1); }
void ping(int *to, int *from) { ping_write(to); ping_read(from); }
void pong_write(int *pipe) { call(SYS_write, pipe[1], &byte, 1); }
void pong_read(int *pipe) { call(SYS_read, pipe[0], &byte, 1); }
void pong(int *to, int *from) { pong_read(from); pong_write(to); }
/* Until the other waits in its read: kernels differ in who runs first when one wakes the other. */
void rest(void) { long time[2] = {0, 20000000}; call(SYS_nanosleep, time, 0, 0); }
void program(char **arguments) {
    int there[2], back[2];
    call(SYS_pipe, there, 0, 0);
    call(SYS_pipe, back, 0, 0);
    if (call(SYS_fork, 0, 0, 0) == 0)
        for (;;) pong(back, there);
    for (int turn = 0; turn < 3; turn++) ping(there, back);
    rest();
    observe(&before);
    START();
    for (int turn = 0; turn < 400; turn++) ping(there, back);
    rest();
    STOP();
    observe(&after);
    tell_difference("ctxt");
}
"#;

#[test]
fn tasks_that_take_turns_are_kept_apart() {
    let Some(guest) = Guest::find() else { return };
    let booted = guest.boot(TURNS, &[], &[]);
    let work = booted.run.work();
    let profile = &work.profile;
    assert_eq!(profile.total(), count(&work, "instructions"));
    for (caller, symbol, expected) in [
        ("ping", "ping_write", 400),
        ("ping", "ping_read", 400),
        ("pong", "pong_read", 400),
        ("pong", "pong_write", 400),
        ("ping_write", "entry_SYSCALL_64", 400),
        ("ping_read", "entry_SYSCALL_64", 400),
        ("pong_read", "entry_SYSCALL_64", 400),
        ("pong_write", "entry_SYSCALL_64", 400),
        ("", "__x64_sys_read", 800),
        ("", "__x64_sys_write", 800),
    ] {
        assert_eq!(calls(profile, caller, symbol), expected, "{caller} -> {symbol}");
    }
    let switches = calls(profile, "", "__switch_to_asm");
    assert!(switches >= 800, "{switches}");
    // A task that waits pays for its switch.
    let scheduled = chains(profile, "__schedule").into_iter();
    let waits = scheduled.filter(|(chain, _)| chain.contains("entry_SYSCALL_64"));
    assert!(waits.map(|(_, calls)| calls).sum::<u64>() >= 800);
    agrees(switches, booted.sent("ctxt"));
    let mut chains_of = Vec::new();
    for (number, context) in profile.contexts.iter().enumerate() {
        let own = profile.functions[context.function as usize].symbol.as_str();
        let above = context.parent.map_or(String::new(), |parent: u32| {
            assert!((parent as usize) < number);
            let above: &String = &chains_of[parent as usize];
            above.clone()
        });
        let chain = format!("{above}/{own}");
        assert!(!(chain.contains("/ping") && chain.contains("/pong")), "{chain}");
        // In straight-line code, each function's own cost is a whole number per turn.
        if ["ping_read", "ping_write", "pong_read", "pong_write"].contains(&own) {
            assert_eq!(context.cost % 400, 0, "{chain} {}", context.cost);
        }
        chains_of.push(chain);
    }
}

/// A program that interrupts hit anywhere, and often a signal as well.
const INTERRUPTED: &str = r#"
static volatile long handled;
void leaf(void) { __asm__ volatile("nop"); }
void ask(void) { leaf(); call(SYS_getppid, 0, 0, 0); leaf(); }
void handled_leaf(void) { __asm__ volatile("nop"); }
void handler(int signal) { handled++; handled_leaf(); call(SYS_getpid, 0, 0, 0); }
void spin(int times) { while (times--) leaf(); }
void program(char **arguments) {
    long every[4] = {0, 1000, 0, 1000}, never[4] = {0, 0, 0, 0};
    catch(27, handler);
    handler(0);
    tick(250);
    observe(&before);
    START();
    call(SYS_setitimer, 2, every, 0);
    for (int turn = 0; turn < 20000; turn++) { ask(); spin(50); }
    call(SYS_setitimer, 2, never, 0);
    STOP();
    observe(&after);
    tell("handled", handled - 1);
    tell_difference("intr");
}
"#;

#[test]
fn calls_are_right_under_interrupts_and_timed_signals() {
    let Some(guest) = Guest::find() else { return };
    // Without HPET, the kernel uses the timer that the program makes tick.
    let booted = guest.boot(INTERRUPTED, &[], &["-machine", "hpet=off"]);
    let work = booted.run.work();
    let profile = &work.profile;
    let handled = booted.sent("handled");
    agrees(count(&work, "interrupts"), booted.sent("intr"));
    for (caller, symbol, expected) in [
        ("program", "ask", 20_000),
        ("", "ask", 20_000),
        ("ask", "leaf", 40_000),
        ("spin", "leaf", 1_000_000),
        ("", "leaf", 1_040_000),
        ("", "handler", handled),
        ("handler", "handled_leaf", handled),
        ("", "handled_leaf", handled),
        ("handler", "entry_SYSCALL_64", handled),
        ("", "__x64_sys_rt_sigreturn", handled),
        ("ask", "entry_SYSCALL_64", 20_000),
        ("", "__x64_sys_getppid", 20_000),
    ] {
        assert_eq!(calls(profile, caller, symbol), expected, "{caller} -> {symbol}");
    }
    assert!(handled > 20, "{handled}");
    for name in ["ask", "spin"] {
        assert_eq!(chains(profile, name).len(), 1, "{:?}", chains(profile, name));
    }
}

/// A task that makes system calls, and a child that wants the CPU, too.
const SLICES: &str = r#"
void program(char **arguments) {
    if (RIVALS && call(SYS_fork, 0, 0, 0) == 0)
        for (;;) __asm__ volatile("nop");
    long time[2] = {0, 20000000};
    call(SYS_nanosleep, time, 0, 0);
    START();
    for (int turn = 0; turn < 300000; turn++) call(SYS_getppid, 0, 0, 0);
    STOP();
}
"#;

#[test]
fn no_system_call_pays_for_a_switch_that_the_tick_wanted() {
    let Some(guest) = Guest::find() else { return };
    let run = |rivals: &str| {
        let source = SLICES.replace("RIVALS", rivals);
        let work = guest.boot(&source, &[], &[]).run.work();
        (work.count(SYNCHRONOUS, Domain::Kernel).unwrap(), work)
    };
    let ((alone, _), (with_rival, work)) = (run("0"), run("1"));
    let switches = calls(&work.profile, "", "__switch_to_asm");
    let scheduled = chains(&work.profile, "__schedule");
    let in_calls = scheduled.iter().find(|(chain, _)| chain.contains("entry_SYSCALL_64"));
    assert_eq!(in_calls, None);
    let moved = scheduled.iter().find(|(chain, _)| chain == "schedule/__schedule");
    assert!(switches >= 10 && moved.is_some_and(|(_, calls)| *calls > 0), "{scheduled:?}");
    assert_eq!(calls(&work.profile, "", "__x64_sys_getppid"), 300_000);
    // The way back from a system call runs a few instructions more where it finds that the task shall make room; a switch runs some
    // 1,000.
    let more = with_rival - alone;
    assert!(more < switches * 20, "{more} instructions more in {switches} switches");
}

/// Mappings that are made, touched and removed.
const MAPPINGS: &str = r#"
void program(char **arguments) {
    map(4096)[0] = 1;
    unsigned long clock_before, clock_after;
    START_CLOCK(clock_before);
    for (int turn = 0; turn < 500; turn++) {
        char *pages = map(16 * 4096);
        for (int page = 0; page < 16; page++) pages[page * 4096] = 1;
        call(SYS_munmap, pages, 16 * 4096, 0);
    }
    STOP_CLOCK(clock_after);
    tell("clock", clock_after - clock_before);
}
"#;

#[test]
fn the_guests_clock_goes_on_by_the_starts_less_the_faults() {
    let Some(guest) = Guest::find() else { return };
    let booted = guest.boot(MAPPINGS, &[], &[]);
    let work = booted.run.work();
    check(&work, &[("page-faults", 8000)]);
    let starts = count(&work, "instruction-starts");
    assert_eq!(booted.sent("clock"), starts - 8000 + 5);
}

/// Programs that write to the block that they execute, and loops that begin with a store.
const WRITERS: &str = r#"
__asm__(".text\n.type writer,@function\nwriter:\n"
        "1: movb $0x90, 2f(%rip)\n nop\n2: nop\n dec %rdi\n jnz 1b\n ret\n.size writer,.-writer");
__asm__(".text\n.type filler,@function\nfiller:\n"
        "1: movb $1, (%rsi)\n dec %rdi\n jnz 1b\n ret\n.size filler,.-filler");
extern void writer(long turns), filler(long turns, char *to);
void program(char **arguments) {
    static char byte;
    call(10, 0x400000, 0x4000, 7);
    writer(1);
    START();
    writer(TURNS);
    filler(TURNS * 50000, &byte);
    STOP();
}
"#;

#[test]
fn stores_into_the_block_that_executes_them_count_once() {
    let Some(guest) = Guest::find() else { return };
    let user = |turns: u64| {
        let source = WRITERS.replace("TURNS", &format!("{turns}L"));
        let work = guest.boot(&source, &[], &[]).run.work();
        let get = |name| work.count(name, Domain::User).unwrap();
        [get("instructions"), get("stores"), get("conditional-branches")]
    };
    let (few, many) = (user(1000), user(3000));
    let each: Vec<u64> = many.iter().zip(few).map(|(many, few)| many - few).collect();
    // Five instructions a turn in one loop, and three in the other; in each, one instruction stores and one branches. Some of the
    // many ticks of the clock come right behind the store at the start of the second loop.
    let turns = 2000;
    assert_eq!(each, [turns * (5 + 150_000), turns * 50_001, turns * 50_001]);
}

/// 32-bit code: its returns take off four bytes.
const NARROW: &str = r#"
__asm__(".text\n.type narrow,@function\nnarrow:\n"
        " push %rbx\n push %rbp\n push %r12\n mov %rsp, %r12\n mov %edi, %ebx\n mov %rsi, %rsp\n"
        " push $0x23\n push $outer\n lretq\n"
        "3: mov %r12, %rsp\n pop %r12\n pop %rbp\n pop %rbx\n ret\n.size narrow,.-narrow\n"
        ".code32\n.type outer,@function\nouter:\n"
        "1: mov $3, %ecx\n call inner\n dec %ebx\n jnz 1b\n ljmp $0x33, $3b\n.size outer,.-outer\n"
        ".type inner,@function\ninner: dec %ecx\n jz 2f\n call inner\n2: call leaf32\n ret\n.size inner,.-inner\n"
        ".type leaf32,@function\nleaf32: nop\n ret\n.size leaf32,.-leaf32\n.code64");
extern void narrow(long turns, char *stack);
void program(char **arguments) {
    char *stack = (char *)call_6(SYS_mmap, 0, 1 << 16, 3, 0x62);
    START();
    narrow(1000, stack + 4096);
    STOP();
}
"#;

#[test]
fn calls_are_right_in_32_bit_code() {
    let Some(guest) = Guest::find() else { return };
    let map = "long call_6(long number, long a, long b, long c, long d) {\n\
               register long r10 __asm__(\"r10\") = d, r8 __asm__(\"r8\") = -1, r9 __asm__(\"r9\") = 0;\n\
               __asm__ volatile(\"syscall\" : \"+a\"(number) : \"D\"(a), \"S\"(b), \"d\"(c), \"r\"(r10), \n\
               \"r\"(r8), \"r\"(r9) : \"rcx\", \"r11\", \"memory\");\n return number;\n}\n";
    // QEMU 7.2 reads the stack of a far return as the kernel would, which SMAP forbids.
    let machine = ["-cpu", "max,-smap"];
    let profile = guest.boot(&format!("{map}{NARROW}"), &[], &machine).run.work().profile;
    for (caller, symbol, expected) in
        [("outer", "inner", 1000), ("inner", "inner", 2000), ("inner", "leaf32", 3000)]
    {
        assert_eq!(calls(&profile, caller, symbol), expected, "{caller} -> {symbol}");
    }
    // On the way back, at every depth.
    let depths = chains(&profile, "leaf32");
    assert!(depths.len() == 3 && depths.iter().all(|(_, calls)| *calls == 1000), "{depths:?}");
}

/// A page of a file that is mapped at three addresses, and two programs that run its code.
const TWO_ADDRESSES: &str = r#"
__asm__(".text\n.balign 4096\n.type shared,@function\nshared: mov $1,%edx\n mov %dl,(%rdi)\n add %rdx,%rdi\n ret\n"
        ".size shared,.-shared\n.balign 4096\n");
void shared(char *page);
typedef void function(char *page);
function *code_of(long file, long offset) {
    register long flags __asm__("r10") = 2;
    register long from __asm__("r8") = file;
    register long place __asm__("r9") = offset;
    long result = SYS_mmap;
    __asm__ volatile("syscall" : "+a"(result) : "D"(0), "S"(4096), "d"(5), "r"(flags), "r"(from), "r"(place)
                     : "rcx", "r11", "memory");
    return (function *)result;
}
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
    long file = call(SYS_open, "/init", 0, 0), at = (long)shared - 0x400000;
    function *first = code_of(file, at), *second = code_of(file, at);
    char *page = map(4096);
    first(page);
    second(page);
    START();
    work(first, second);
    long child = call(SYS_fork, 0, 0, 0);
    if (!child) { work(second, shared); call(SYS_exit, 0, 0, 0); }
    call(SYS_wait4, child, 0, 0);
    STOP();
}
"#;

#[test]
fn code_that_programs_have_at_two_addresses_is_counted_at_both() {
    let Some(guest) = Guest::find() else { return };
    let work = guest.boot(TWO_ADDRESSES, &[], &[]).run.work();
    for caller in ["one", "two"] {
        assert_eq!(calls(&work.profile, caller, "shared"), 100, "{caller}");
    }
    // Each store faults once, and its first attempt counts for nothing.
    assert_eq!(own_cost(&work.profile, "shared"), 200 * 4);
    let totals = guest.boot(TWO_ADDRESSES, &["profile=off"], &[]).run.work();
    let user = |work: &RegionCost| work.count("instructions", Domain::User);
    assert_eq!(user(&totals), user(&work));
}
