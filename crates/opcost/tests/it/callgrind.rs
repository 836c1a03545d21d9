//! `opcost callgrind` in place of Valgrind: options, client requests, threads, children, exit statuses, and Valgrind itself where it
//! is installed.

use crate::lab::OPCOST;
use crate::needs;
use opcost_callgrind::options::OPTIONS;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Valgrind's requests, written from their description: `request(number, argument)` has no effect on a processor.
const HEAD: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static inline unsigned long request(unsigned long number, const void *argument) {
    volatile unsigned long words[6] = { number, (unsigned long)argument, 0, 0, 0, 0 };
    unsigned long answer = 0;
    __asm__ volatile("rolq $3,%%rdi; rolq $13,%%rdi; rolq $61,%%rdi; rolq $51,%%rdi; xchgq %%rbx,%%rbx"
                     : "+d"(answer) : "a"(&words[0]) : "cc", "memory");
    return answer;
}
#define DUMP(name) request(0x43540003, name)
#define ZERO request(0x43540001, 0)
#define TOGGLE request(0x43540002, 0)
#define START request(0x43540004, 0)
#define STOP request(0x43540005, 0)
#define RUNNING request(0x1001, 0)

/* 2 + 2 * times instructions. */
void busy(long times);
__asm__(".type busy,@function\nbusy: mov %rdi,%rcx\n1: dec %rcx\njnz 1b\nret\n.size busy,.-busy");

/* Calls busy and costs 3 itself. */
void calls(long times);
__asm__(".type calls,@function\ncalls: sub $8,%rsp\ncall busy\nadd $8,%rsp\nret\n.size calls,.-calls");
"#;

/// A folder with a program.
struct Trial {
    folder: TempDir,
}

impl Trial {
    /// Compiles the body of a program; `None` if something is missing.
    fn of(options: &[&str], body: &str) -> Option<Trial> {
        if !needs::emulator() || !needs::programs(&["gcc"]) {
            return None;
        }
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("trial.c"), format!("{HEAD}{body}")).unwrap();
        let built = Command::new("gcc")
            .args(["-g", "-o", "trial", "trial.c", "-lpthread"])
            .args(options)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Some(Trial { folder })
    }

    fn run_by(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("VALGRIND_OPTS")
            .output()
            .unwrap()
    }

    /// Runs `opcost callgrind` with options, and the program.
    fn run(&self, options: &[&str]) -> Output {
        self.run_by(OPCOST, &[&["callgrind"], options, &["./trial"]].concat())
    }

    /// The files of costs, by name.
    fn files(&self) -> BTreeMap<String, PathBuf> {
        let entries = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap());
        let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
        named.filter(|(name, _)| name.starts_with("out")).collect()
    }

    fn costs(&self, name: &str) -> Costs {
        Costs::read(&self.folder.path().join(name))
    }
}

/// The contents of a file.
#[derive(Debug, Default)]
struct Costs {
    /// Own instructions by function, all recursions together.
    own: BTreeMap<String, u64>,
    /// Calls and their inclusive instructions, by caller and callee.
    calls: BTreeMap<(String, String), (u64, u64)>,
    heads: BTreeMap<String, String>,
    total: u64,
}

impl Costs {
    /// Reads a file without compressed names and positions of lines only.
    fn read(path: &Path) -> Costs {
        let text = fs::read_to_string(path).unwrap();
        let mut costs = Costs::default();
        let (mut function, mut callee, mut call) = (String::new(), String::new(), None);
        let plain = |name: &str| name.split('\'').next().unwrap().to_string();
        for line in text.lines() {
            let number =
                |at: usize| line.split_whitespace().nth(at).unwrap().parse::<u64>().unwrap();
            if let Some(name) = line.strip_prefix("fn=") {
                function = plain(name);
            } else if let Some(name) = line.strip_prefix("cfn=") {
                callee = plain(name);
            } else if let Some(calls) = line.strip_prefix("calls=") {
                call = calls.split_whitespace().next().unwrap().parse::<u64>().ok();
            } else if let Some((key, value)) = line.split_once(": ") {
                costs.heads.insert(key.into(), value.trim().into());
            } else if line.starts_with(|char: char| char.is_ascii_digit()) {
                match call.take() {
                    Some(calls) => {
                        let sums =
                            costs.calls.entry((function.clone(), callee.clone())).or_default();
                        *sums = (sums.0 + calls, sums.1 + number(1));
                    }
                    None => *costs.own.entry(function.clone()).or_default() += number(1),
                }
            }
        }
        costs.total = costs.own.values().sum();
        assert_eq!(costs.heads["totals"].split(' ').next().unwrap(), costs.total.to_string());
        costs
    }

    fn own(&self, function: &str) -> u64 {
        self.own.get(function).copied().unwrap_or(0)
    }
}

const PLAIN: [&str; 4] =
    ["-q", "--compress-strings=no", "--compress-pos=no", "--callgrind-out-file=out"];

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn client_requests_turn_counting_on_and_off() {
    let body = "int main(void) {
        busy(1); DUMP(\"first\");
        calls(10); ZERO;
        calls(20); TOGGLE; calls(40); TOGGLE;
        STOP; calls(80); START;
        calls(160);
        printf(\"%lu\\n\", RUNNING);
        return 7;
    }";
    for level in ["-O0", "-O2"] {
        let Some(trial) = Trial::of(&[level], body) else { return };
        let ended = trial.run(&PLAIN);
        assert_eq!((ended.status.code(), said(&ended)), (Some(7), String::new()));
        // The program asks whether Valgrind runs it; the answer is the processor's.
        assert_eq!(ended.stdout, b"0\n");
        let first = trial.costs("out.1");
        assert_eq!(
            (first.own("busy"), first.heads["desc"].as_str()),
            (4, "Trigger: Client Request: first")
        );
        let rest = trial.costs("out");
        assert_eq!((rest.own("busy"), rest.own("calls")), (2 + 40 + 2 + 320, 2 * 4));
        assert_eq!(rest.calls[&("calls".into(), "busy".into())], (2, 364));
        assert_eq!(rest.heads["part"], "2");
        assert_eq!(trial.files().into_keys().collect::<Vec<_>>(), ["out", "out.1"]);
    }
}

#[test]
fn functions_begin_and_end_collection_and_dumps() {
    let body = "int main(void) { busy(1); calls(10); busy(5); calls(20); return 0; }";
    let Some(trial) = Trial::of(&[], body) else { return };
    let run = |more: &[&str]| {
        let ended = trial.run(&[&PLAIN[..], more].concat());
        assert_eq!((ended.status.code(), said(&ended)), (Some(0), String::new()));
    };
    run(&["--toggle-collect=c?lls"]);
    let costs = trial.costs("out");
    assert_eq!(costs.own, BTreeMap::from([("busy".into(), 2 + 20 + 2 + 40), ("calls".into(), 8)]));
    assert_eq!(costs.heads["summary"], "72");
    run(&["--dump-before=calls", "--separate-recs=1"]);
    let busy = |name: &str| trial.costs(name).own("busy");
    assert_eq!((busy("out.1"), busy("out.2"), busy("out")), (4, 22 + 12, 42));
    run(&["--zero-before=calls"]);
    assert_eq!(busy("out"), 42);
    run(&["--instr-atstart=no"]);
    assert_eq!(trial.costs("out").total, 0);
}

#[test]
fn threads_and_children_are_whole() {
    let body = "static void *work(void *times) { calls((long)times); return 0; }
    int main(int count, char **words) {
        if (count > 1) { calls(7); return 0; }
        pthread_t threads[4];
        for (long at = 0; at < 4; at++) pthread_create(&threads[at], 0, work, (void *)(10000 + at));
        for (int at = 0; at < 4; at++) pthread_join(threads[at], 0);
        if (fork() == 0) { busy(5); _exit(3); }
        int status; wait(&status);
        if (fork() == 0) { execl(words[0], words[0], \"child\", (char *)0); _exit(1); }
        wait(&status);
        return WEXITSTATUS(status);
    }";
    let Some(trial) = Trial::of(&[], body) else { return };
    let whole = 8 + 2 * (40_000 + 6);
    let ended =
        trial.run(&[&PLAIN[..], &["--callgrind-out-file=out.%p", "--trace-children=yes"]].concat());
    assert_eq!((ended.status.code(), said(&ended)), (Some(0), String::new()));
    let files = trial.files();
    let mut busy: Vec<u64> = files.keys().map(|name| trial.costs(name).own("busy")).collect();
    busy.sort_unstable();
    // The program that the second child executes, the program, and the first child with what it was forked with.
    assert_eq!(busy, [2 + 14, whole, whole + 12]);
    for path in files.into_values() {
        fs::remove_file(path).unwrap();
    }
    let ended = trial.run(&[&PLAIN[..], &["--separate-threads=yes"]].concat());
    assert_eq!(ended.status.code(), Some(0));
    let busy = |name: &str| trial.costs(name).own("busy");
    let threads: u64 = (1..=5)
        .map(|at| format!("out-{at:02}"))
        .filter(|name| trial.folder.path().join(name).exists())
        .map(|name| busy(&name))
        .sum();
    assert_eq!(threads, whole);
}

#[test]
fn a_program_that_a_signal_ends_leaves_its_counts() {
    let body = "static void handler(int signal) { busy(3); (void)signal; }
    int main(int count, char **words) {
        busy(1);
        if (count < 2) { signal(SIGUSR1, handler); raise(SIGUSR1); volatile char *none = 0; busy(10); *none = 1; }
        if (words[1][0] == 'a') abort();
        if (words[1][0] == 't') __builtin_trap();
        kill(getppid(), 0);
        puts(\"ready\"); fflush(stdout);
        for (;;) pause();
    }";
    let Some(trial) = Trial::of(&[], body) else { return };
    let run = |argument: &[&str]| {
        let line = [&["callgrind"], &PLAIN[..], &["./trial"], argument].concat();
        let ended = trial.run_by(OPCOST, &line);
        (ended.status.signal(), trial.costs("out").own("busy"))
    };
    assert_eq!(run(&[]), (Some(libc::SIGSEGV), 4 + 8 + 22));
    assert_eq!(run(&["a"]), (Some(libc::SIGABRT), 4));
    assert_eq!(run(&["t"]), (Some(libc::SIGILL), 4));
    let mut running = Command::new(OPCOST)
        .args([&["callgrind"], &PLAIN[..], &["./trial", "w"]].concat())
        .current_dir(trial.folder.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(running.stdout.as_mut().unwrap(), &mut ready).unwrap();
    fs::remove_file(trial.folder.path().join("out")).unwrap();
    // SAFETY: sends a signal to a child that was not waited for.
    unsafe { libc::kill(running.id() as i32, libc::SIGTERM) };
    assert_eq!(running.wait().unwrap().signal(), Some(libc::SIGTERM));
    assert_eq!(trial.costs("out").own("busy"), 4);
}

#[test]
fn an_instruction_that_the_cpu_model_lacks_is_named() {
    let body = "static void handler(int signal) { (void)signal; _exit(7); }
    int main(int count, char **words) {
        busy(1);
        if (count > 2) signal(SIGILL, handler);
        if (words[1][0] == 'w') __asm__ volatile (\"vpaddd %zmm0, %zmm0, %zmm0\");
        if (words[1][0] == 'p') __asm__ volatile (\"rdpid %rax\");
        if (words[1][0] == 't') __builtin_trap();
        return 0;
    }";
    let Some(trial) = Trial::of(&[], body) else { return };
    let run = |arguments: &[&str]| {
        let line = [&["callgrind", "--quiet"], &PLAIN[..], &["./trial"], arguments].concat();
        let ended = trial.run_by(OPCOST, &line);
        (ended.status, String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let check = |argument: &str, parts: &[&str]| {
        let (status, printed) = run(&[argument]);
        assert_eq!(status.signal(), Some(libc::SIGILL));
        for part in parts {
            assert!(printed.contains(part), "{part} in {printed}");
        }
        assert_eq!(trial.costs("out").own("busy"), 4, "the counts until then are written");
    };
    let lacks = "the CPU model EPYC-Rome-v2 lacks it";
    let remedy = "build the program without it, for example with -march=x86-64-v3";
    check(
        "w",
        &[
            "executed 'vpaddd zmm0,zmm0,zmm0' at 0x",
            "in trial, which needs AVX512F;",
            lacks,
            remedy,
        ],
    );
    check("p", &["executed 'rdpid rax' at 0x", "which needs RDPID;", lacks, remedy]);
    check("t", &["executed ud2 at 0x", "by which programs end themselves"]);
    // A program that asks this way what the CPU has goes on.
    let (status, printed) = run(&["w", "handled"]);
    assert_eq!((status.code(), printed.contains("SIGILL")), (Some(7), false), "{printed}");
}

#[test]
fn functions_cost_what_valgrind_counts() {
    let body = "static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    static int compare(const void *left, const void *right) { return *(const int *)left - *(const int *)right; }
    int main(void) {
        int numbers[50];
        for (int at = 0; at < 50; at++) numbers[at] = fib(at % 12) * 7919 % 101;
        qsort(numbers, 50, sizeof numbers[0], compare);
        char text[200]; snprintf(text, sizeof text, \"%d %s\", numbers[7], \"text\");
        printf(\"%s\\n\", text);
        return 0;
    }";
    let Some(trial) = Trial::of(&["-O1"], body) else { return };
    if !needs::programs(&["valgrind"]) {
        return;
    }
    let theirs = trial.run_by(
        "valgrind",
        &[&["--tool=callgrind"], &PLAIN[..3], &["--callgrind-out-file=out.theirs", "./trial"]]
            .concat(),
    );
    let ours = trial.run(&PLAIN);
    assert_eq!((ours.status.code(), ours.stdout), (theirs.status.code(), theirs.stdout));
    let (theirs, ours) = (trial.costs("out.theirs"), trial.costs("out"));
    // qsort_r is not among them: its call of free jumps by .plt.got, which opcost skips as the other tables of jumps, and Valgrind does not.
    for function in ["main", "fib", "compare", "msort_with_tmp.part.0", "_itoa_word"] {
        assert_eq!(ours.own(function), theirs.own(function), "{function}");
    }
    for (caller, callee) in [("main", "fib"), ("fib", "fib"), ("msort_with_tmp.part.0", "compare")]
    {
        let call = (caller.to_string(), callee.to_string());
        assert_eq!(ours.calls[&call], theirs.calls[&call], "{call:?}");
    }
}

#[test]
fn caches_fill_while_nothing_is_collected() {
    let body = "static long numbers[512];
    __attribute__((noinline)) static long again(void) {
        long sum = 0;
        for (int at = 0; at < 512; at++) sum += numbers[at];
        return sum;
    }
    int main(void) {
        for (int at = 0; at < 512; at++) numbers[at] = at;
        return again() == 0;
    }";
    let Some(trial) = Trial::of(&["-O1"], body) else { return };
    let cold = ["--D1=1024,1,64", "--toggle-collect=again", "--collect-jumps=yes"];
    let warm = ["--cache-sim=yes", "--toggle-collect=again", "--collect-jumps=yes"];
    let misses = |options: &[&str]| {
        let ended = trial.run(&[&PLAIN[1..], options].concat());
        assert!(said(&ended).contains("opcost counts no jumps"), "{}", said(&ended));
        let text = fs::read_to_string(trial.folder.path().join("out")).unwrap();
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let place = line("events:").split_whitespace().position(|event| event == "D1mr").unwrap();
        line("totals:").split_whitespace().nth(place).unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(misses(&warm), 0);
    assert!(misses(&cold) >= 64);
}

#[test]
fn each_option_of_valgrind_has_a_row() {
    if !needs::programs(&["valgrind"]) {
        return;
    }
    let help =
        Command::new("valgrind").args(["--tool=callgrind", "--help"]).output().unwrap().stdout;
    let mut options = 0;
    for line in String::from_utf8(help).unwrap().lines() {
        let Some(option) = line.trim_start().strip_prefix("--") else { continue };
        let end = option.find([' ', '=']).unwrap_or(option.len());
        let name = format!("--{}", &option[..end]);
        assert!(OPTIONS.iter().any(|row| row.names.contains(&name.as_str())), "{name} has no row");
        options += 1;
    }
    assert!(options > 80, "{options}");
}

#[test]
fn what_cannot_be_done_is_refused() {
    let refused = |arguments: &[&str]| {
        let ended = Command::new(OPCOST).arg("callgrind").args(arguments).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        said(&ended)
    };
    for (arguments, why) in [
        (&["--branch-sim=yes", "true"][..], "--branch-sim=yes is not supported"),
        (&["--tool=memcheck", "true"], "callgrind only"),
        (&["--unknown", "true"], "--unknown is no option"),
        (&[], "no program is given"),
        (&["no-such-program"], "no-such-program"),
        (&["/etc/passwd"], "/etc/passwd"),
        (&["--log-fd=99"], "no program is given"),
    ] {
        let said = refused(arguments);
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
    let folder = TempDir::new().unwrap();
    let link = folder.path().join("valgrind");
    std::os::unix::fs::symlink(OPCOST, &link).unwrap();
    let run = |argument: &str| Command::new(&link).arg(argument).output().unwrap();
    assert!(said(&run("true")).contains("memcheck"));
    assert!(run("--version").stdout.starts_with(b"valgrind-3."));
}
