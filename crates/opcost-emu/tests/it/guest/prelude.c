/* The code that the programs of the guest tests share; the programs are linked with no library. */
#define SYS_read 0
#define SYS_write 1
#define SYS_open 2
#define SYS_mmap 9
#define SYS_munmap 11
#define SYS_sigaction 13
#define SYS_sigprocmask 14
#define SYS_pipe 22
#define SYS_nanosleep 35
#define SYS_setitimer 38
#define SYS_getpid 39
#define SYS_fork 57
#define SYS_execve 59
#define SYS_exit 60
#define SYS_wait4 61
#define SYS_kill 62
#define SYS_getrusage 98
#define SYS_getppid 110
#define SYS_mount 165
#define SYS_iopl 172

#define START() __asm__ volatile(".byte 0x0f,0x1f,0x80,0x00,0x01,0x63,0x6f" ::: "memory")
#define STOP() __asm__ volatile(".byte 0x0f,0x1f,0x80,0x00,0x02,0x63,0x6f" ::: "memory")

static inline __attribute__((always_inline)) long call_4(long number, long a, long b, long c, long d) {
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "r8", "r9", "memory");
    return number;
}
#define call(number, a, b, c) call_4(number, (long)(a), (long)(b), (long)(c), 0)

static void send(char byte) {
    __asm__ volatile("outb %0, $0xe9" : : "a"(byte));
}

static void tell(const char *name, unsigned long number) {
    char digits[24];
    int length = 0;
    while (*name) send(*name++);
    send(' ');
    do digits[length++] = '0' + number % 10; while (number /= 10);
    while (length) send(digits[--length]);
    send('\n');
}

/* Markers with a reading of the clock beside each: five instructions between the readings are not
 * between the markers. */
#define START_CLOCK(clock) __asm__ volatile("rdtsc\n shl $32,%%rdx\n or %%rdx,%%rax\n" \
    ".byte 0x0f,0x1f,0x80,0x00,0x01,0x63,0x6f" : "=a"(clock) : : "rdx", "memory")
#define STOP_CLOCK(clock) __asm__ volatile(".byte 0x0f,0x1f,0x80,0x00,0x02,0x63,0x6f\n" \
    "rdtsc\n shl $32,%%rdx\n or %%rdx,%%rax" : "=a"(clock) : : "rdx", "memory")

/* Makes channel 0 of the timer (8254) tick every `divisor` / 1193182 s. */
static void tick(unsigned divisor) {
    __asm__ volatile("outb %0, $0x43" : : "a"((char)0x34));
    __asm__ volatile("outb %0, $0x40" : : "a"((char)divisor));
    __asm__ volatile("outb %0, $0x40" : : "a"((char)(divisor >> 8)));
}

struct action { void (*handler)(int); unsigned long flags; void (*restorer)(void); unsigned long mask; };
__asm__(".text\n.type restorer,@function\nrestorer: mov $15,%eax\n syscall\n.size restorer,.-restorer");
extern void restorer(void);

static void catch(int signal, void (*handler)(int)) {
    struct action action = {handler, 0x04000000, restorer, 0};
    call_4(SYS_sigaction, signal, (long)&action, 0, 8);
}

/* Returns the page faults that needed no device, as the kernel counts them. */
static long faults(void) {
    long usage[18];
    call(SYS_getrusage, 0, usage, 0);
    return usage[8];
}

void *memset(void *to, int byte, unsigned long size) {
    for (unsigned long at = 0; at < size; at++) ((volatile char *)to)[at] = byte;
    return to;
}

/* Returns an anonymous mapping. */
static char *map(long bytes) {
    register long flags __asm__("r10") = 0x22;
    register long file __asm__("r8") = -1;
    register long offset __asm__("r9") = 0;
    long result = SYS_mmap;
    __asm__ volatile("syscall" : "+a"(result) : "D"(0), "S"(bytes), "d"(3), "r"(flags), "r"(file), "r"(offset)
                     : "rcx", "r11", "memory");
    return (char *)result;
}

/* The text of /proc/stat, to be parsed later. */
struct stat { char text[8192]; };
static void observe(struct stat *stat) {
    long file = call(SYS_open, "/proc/stat", 0, 0);
    long size = call(SYS_read, file, stat->text, sizeof stat->text - 1);
    stat->text[size < 0 ? 0 : size] = 0;
}

/* Returns the first number of the line that starts with `word`. */
static long stated(struct stat *stat, const char *word) {
    for (char *line = stat->text; *line;) {
        int at = 0;
        while (word[at] && line[at] == word[at]) at++;
        if (!word[at]) {
            long number = 0;
            for (line += at; *line == ' '; line++);
            for (; *line >= '0' && *line <= '9'; line++) number = number * 10 + *line - '0';
            return number;
        }
        while (*line && *line++ != '\n');
    }
    return -1;
}

static struct stat before, after;
static void tell_difference(const char *word) {
    tell(word, stated(&after, word) - stated(&before, word));
}

void program(char **arguments);

void first(long *stack) {
    if (*(char *)stack[1] == '/') { /* not started again by itself under another name */
        call(SYS_iopl, 3, 0, 0);
        call_4(SYS_mount, (long)"proc", (long)"/proc", (long)"proc", 0);
    }
    program((char **)(stack + 1));
    __asm__ volatile("outl %0, %1" : : "a"(1), "Nd"((short)0xf4));
}
__asm__(".text\n.globl _start\n.type _start,@function\n_start: mov %rsp,%rdi\n xor %ebp,%ebp\n call first\n"
        "1: jmp 1b\n.size _start,.-_start");
