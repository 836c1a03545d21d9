/* Without frame pointers: a signal handler that interrupts the first instruction of a function, and a
   recursion deeper than a small copy of the stack. Without a C library, so that this file alone has
   all unwind information. */
typedef unsigned long word;

static volatile word sink;

static long call(long number, long a, long b, long c, long d)
{
    register long r10 __asm__("r10") = d;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

__asm__(".globl signal_return\n.type signal_return, @function\nsignal_return:\n"
        "mov $15, %rax\nsyscall\n.size signal_return, . - signal_return\n"
        ".globl faulting\n.type faulting, @function\nfaulting:\n.cfi_startproc\n"
        "ud2\nret\n.cfi_endproc\n.size faulting, . - faulting\n");
void signal_return(void);
void faulting(void);

__attribute__((noinline)) static void spin(word rounds)
{
    volatile word room[4] = {0};
    for (word i = 0; i < rounds; i++)
        room[i & 3] += i;
    sink += room[0];
}

__attribute__((noinline)) static void handler(int signal, void *information, word *context)
{
    (void)signal, (void)information;
    spin(1000000);
    context[21] += 2; /* rip: behind the ud2 */
    sink++;
}

__attribute__((noinline)) static void interrupted(void)
{
    faulting();
    sink++;
}

__attribute__((noinline)) static void deeper(word depth)
{
    volatile word room[16];
    room[depth & 15] = depth;
    if (depth == 0)
        spin(1000000);
    else
        deeper(depth - 1);
    sink += room[depth & 15];
}

__attribute__((force_align_arg_pointer)) void _start(void)
{
    /* struct kernel_sigaction: SA_SIGINFO | SA_RESTORER */
    word action[4] = {(word)handler, 0x04000004, (word)signal_return, 0};
    call(13, 4, (long)action, 0, 8);
    for (int i = 0; i < 20; i++) {
        interrupted();
        deeper(10);
        deeper(60);
    }
    call(60, 0, 0, 0, 0);
}
