/* Large straight-line code, compiled once, so that its cost does not depend on a compiler. */

__asm__(".text\n"
        /* Loads an immediate value and does not take a branch: 13 bytes, 4,096 times, 52 KiB. */
        ".balign 64\n"
        ".globl gauge_straight_branches\n"
        "gauge_straight_branches:\n"
        ".rept 4096\n"
        "movl $0, %eax\n"
        "testl %eax, %eax\n"
        "jne 9f\n"
        ".endr\n"
        "9: leaq 1(%rdi), %rax\n"
        "ret\n"
        /* Long instructions with few dependencies: 15 bytes a pair, 8,192 times, 120 KiB. */
        ".balign 64\n"
        ".globl gauge_straight_long\n"
        "gauge_straight_long:\n"
        "xorl %eax, %eax\n"
        ".rept 8192\n"
        "leaq 0x1234567(%rdi,%rax), %rdx\n"
        "addq $0x12345, %rax\n"
        ".endr\n"
        "xorq %rdx, %rax\n"
        "ret\n");
