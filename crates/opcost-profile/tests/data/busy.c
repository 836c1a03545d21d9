/* A program that is busy in functions with known callers, and in the kernel. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) long leaf(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++)
        sum += (i * i) ^ sum;
    return sum;
}

__attribute__((noinline)) long middle(long n) { return leaf(n) + leaf(n / 2); }

__attribute__((noinline)) long recursive(long n) { return n < 2 ? leaf(2000) : recursive(n - 1) + leaf(5000); }

static inline __attribute__((always_inline)) void touch(char *at, long bytes) {
    for (long i = 0; i < bytes; i += 4096)
        at[i] = 1;
}

int main(int count, char **words) {
    long rounds = count > 1 ? atol(words[1]) : 100, sum = 0;
    for (long i = 0; i < rounds; i++) {
        sum += middle(60000) + recursive(9);
        char *pages = mmap(0, 1 << 19, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        touch(pages, 1 << 19);
        munmap(pages, 1 << 19);
    }
    return printf("%ld\n", sum) < 0;
}
