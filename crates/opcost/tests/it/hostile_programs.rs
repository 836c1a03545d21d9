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
