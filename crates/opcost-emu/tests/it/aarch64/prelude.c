/* The code that the programs of the guest tests share; the programs are linked with no library. */
#define SYS_fcntl 25
#define SYS_mkdirat 34
#define SYS_mount 40
#define SYS_openat 56
#define SYS_pipe2 59
#define SYS_read 63
#define SYS_write 64
#define SYS_exit 93
#define SYS_kill 129
#define SYS_sigaction 134
#define SYS_sigreturn 139
#define SYS_reboot 142
#define SYS_getrusage 165
#define SYS_getpid 172
#define SYS_getppid 173
#define SYS_munmap 215
#define SYS_clone 220
#define SYS_execve 221
#define SYS_mmap 222
#define SYS_wait4 260

#define START() __asm__ volatile(".inst 0xd2e0201f" ::: "memory")
#define STOP() __asm__ volatile(".inst 0xd2e0401f" ::: "memory")

#define RUN_END() __asm__ volatile(".inst 0xd2e0601f" ::: "memory")

static inline __attribute__((always_inline)) long call_6(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#define call(number, a, b, c) call_6(number, (long)(a), (long)(b), (long)(c), 0, 0, 0)

/* The clock, and the ticks in a second: an instruction takes a nanosecond with shift=0. */
static inline __attribute__((always_inline)) unsigned long clock(void) {
    unsigned long now;
    __asm__ volatile("isb\n mrs %0, cntvct_el0" : "=r"(now) : : "memory");
    return now;
}
static unsigned long frequency(void) {
    unsigned long ticks;
    __asm__("mrs %0, cntfrq_el0" : "=r"(ticks));
    return ticks;
}

static void send(const char *text, long length) {
    call(SYS_write, 1, text, length);
}

static void tell(const char *name, unsigned long number) {
    char line[64], digits[24];
    int length = 0, at = 0;
    while (*name) line[at++] = *name++;
    line[at++] = ' ';
    do digits[length++] = '0' + number % 10; while (number /= 10);
    while (length) line[at++] = digits[--length];
    line[at++] = '\n';
    send(line, at);
}

struct action { void (*handler)(int); unsigned long flags; void (*restorer)(void); unsigned long mask; };

static void catch(int signal, void (*handler)(int)) {
    struct action action = {handler, 0, 0, 0};
    call_6(SYS_sigaction, signal, (long)&action, 0, 8, 0, 0);
}

/* Returns the page faults that needed no device, as the kernel counts them. */
static long faults(void) {
    long usage[18];
    call(SYS_getrusage, 0, usage, 0);
    return usage[8];
}

static long fork(void) {
    return call_6(SYS_clone, 17, 0, 0, 0, 0, 0);
}

/* Returns an anonymous mapping. */
static char *map(long bytes) {
    return (char *)call_6(SYS_mmap, 0, bytes, 3, 0x22, -1, 0);
}

void *memset(void *to, int byte, unsigned long size) {
    for (unsigned long at = 0; at < size; at++) ((volatile char *)to)[at] = byte;
    return to;
}

void program(char **arguments);

void first(long *stack) {
    if (*(char *)stack[1] == '/') { /* not started again by itself under another name */
        call_6(SYS_mount, (long)"devtmpfs", (long)"/dev", (long)"devtmpfs", 0, 0, 0);
        call_6(SYS_mount, (long)"proc", (long)"/proc", (long)"proc", 0, 0, 0);
        long console = call(SYS_openat, -100, "/dev/console", 2);
        call(24, console, 0, 0);
        call(24, console, 1, 0);
    }
    program((char **)(stack + 1));
    call_6(SYS_reboot, 0xfee1deadl, 672274793, 0x4321fedc, 0, 0, 0);
}
__asm__(".text\n.globl _start\n.type _start,@function\n_start: mov x0,sp\n mov x29,#0\n bl first\n"
        "1: b 1b\n.size _start,.-_start");
