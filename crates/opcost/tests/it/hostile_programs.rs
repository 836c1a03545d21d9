//! Counted programs that would decide themselves what is counted.

use crate::lab::{Lab, compile};
use crate::needs;

/// Works, with markers of opcost's around the work or with ports, as its argument says.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#define STOP __asm__ volatile(".byte 0x0f,0x1f,0x80\n.long 0x6f630200")
#define START __asm__ volatile(".byte 0x0f,0x1f,0x80\n.long 0x6f630100")
#define DRAIN __asm__ volatile(".byte 0x0f,0x1f,0x80\n.long 0x6f630500")
static void work(void) { for (volatile int i = 0; i < 1000000; i++); }
int main(int argc, char **argv) {
    const char *mode = argv[1];
    if (!strcmp(mode, "drain")) DRAIN;
    if (!strcmp(mode, "stop") || !strcmp(mode, "skip")) STOP;
    work();
    if (!strcmp(mode, "skip")) START;
    if (!strcmp(mode, "ports") && iopl(3) && ioperm(0xe9, 1, 1)) { perror("iopl"); return 7; }
    if (!strcmp(mode, "memory")) {
        FILE *init = fopen("/proc/1/mem", "r+");
        if (!init) { perror("/proc/1/mem"); return 8; }
    }
    return 0;
}
"#;

#[test]
fn a_program_can_neither_hide_its_work_nor_write_the_guests_messages() {
    let Some(kernel) = needs::kernel() else { return };
    if !needs::programs(&["cc"]) {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "program", PROGRAM, &["-static"]);
    let guest = ["--machine", "emulated", "--kernel", &kernel, "-n", "1", "--warmup=0"];
    let measure = |mode: &str| {
        let command = format!("{program} {mode}");
        let args = [&["measure", "--quiet", "--pack-only"], &guest[..], &[&command]].concat();
        lab.run(&args)
    };
    measure("work").expect(0);
    for mode in ["stop", "skip", "drain"] {
        measure(mode).expect(4).says(&["executed a marker of opcost's", "0f 1f 80"]);
    }
    measure("ports").expect(4).says(&["status 7"]);
    measure("memory").expect(4).says(&["status 8"]);
}

/// Leaves a process behind, if it has an argument. That process wakes /init two seconds after the work, while /init waits for deferred
/// work. Outside of a guest it does nothing.
const WAKES_INIT: &str = r#"
#include <signal.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (access("/init", F_OK)) return 7;
    if (argc > 1 && fork() == 0) { sleep(2); kill(1, SIGSEGV); _exit(0); }
    for (volatile int i = 0; i < 100000; i++);
    return 0;
}
"#;

#[test]
fn a_guest_that_cannot_wait_for_deferred_work_says_so_and_gives_the_sum() {
    let Some(kernel) = needs::kernel() else { return };
    if !needs::programs(&["cc"]) {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "program", WAKES_INIT, &["-static"]);
    for command in [program.clone(), format!("{program} wakes")] {
        let guest = ["--machine", "emulated", "--kernel", &kernel, "-n", "1", "--pack-only"];
        let said =
            lab.output(&[&["measure", "--quiet", "--all"], &guest[..], &[&command]].concat());
        let row = |name: &str| {
            let figures = said.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
            figures.split_whitespace().next()?.replace(',', "").parse::<u64>().ok()
        };
        let parts = ["synchronous:k", "deferred:k", "tick:k"].map(|part| row(part).unwrap_or(0));
        assert_eq!(row("instructions:k"), Some(parts.iter().sum()), "{said}");
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let cannot = "– instructions-deferred-after:k: the guest could not wait for work that its kernel had deferred";
        assert_eq!(words.contains(cannot), command != program, "{said}");
        assert!(
            !words.contains("opcost doctor"),
            "the doctor examines this computer, not a guest: {said}"
        );
        assert_eq!(row("left behind:k").is_some(), command == program, "{said}");
    }
}
