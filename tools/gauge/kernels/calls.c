/* Direct, indirect and deep calls. */
#include "gauge.h"

#define GAUGE_KEEP(value) __asm__ volatile("" : "+r"(value))

static GAUGE_NOINLINE u64 op_add(u64 a, u64 b) { return a + b; }
static GAUGE_NOINLINE u64 op_xor(u64 a, u64 b) { return a ^ (b << 1); }
static GAUGE_NOINLINE u64 op_multiply(u64 a, u64 b) { return a * 5 + b; }
static GAUGE_NOINLINE u64 op_rotate(u64 a, u64 b) { return (a >> 7 | a << 57) + b; }

typedef u64 (*operation)(u64, u64);
static operation volatile operations[4] = {op_add, op_xor, op_multiply, op_rotate};

GAUGE_KERNEL(calls, direct)
{
    u64 sum = round;
    for (u64 i = 0; i < 6000; i++) {
        sum = op_add(sum, i);
        GAUGE_KEEP(sum);
    }
    return sum;
}

GAUGE_KERNEL(calls, indirect_same)
{
    operation one = operations[2];
    u64 sum = round;
    for (u64 i = 0; i < 5000; i++)
        sum = one(sum, i);
    return sum;
}

GAUGE_KERNEL(calls, indirect_pattern)
{
    u64 sum = round;
    for (u64 i = 0; i < 4000; i++)
        sum = operations[0x1b2d8e4739u >> (i % 20 * 2) & 3](sum, i);
    return sum;
}

GAUGE_KERNEL(calls, indirect_random)
{
    u64 state = gauge_mix(round) | 1, sum = 0;
    for (u64 i = 0; i < 2500; i++)
        sum = operations[gauge_next(&state) >> 45 & 3](sum, i);
    return sum;
}

static GAUGE_NOINLINE u64 fibonacci(u64 n)
{
    GAUGE_KEEP(n);
    if (n < 2)
        return n;
    return fibonacci(n - 1) + fibonacci(n - 2);
}

GAUGE_KERNEL(calls, fibonacci_recursive) { return fibonacci(15) + round; }

static GAUGE_NOINLINE u64 descend(u64 depth, u64 sum)
{
    GAUGE_KEEP(sum);
    if (depth == 0)
        return sum;
    u64 below = descend(depth - 1, sum + depth);
    GAUGE_KEEP(below);
    return below ^ depth;
}

GAUGE_KERNEL(calls, deep)
{
    u64 check = round;
    for (int i = 0; i < 15; i++)
        check += descend(200, check);
    return check;
}

GAUGE_KERNEL(calls, shallow_recursion)
{
    u64 check = round;
    for (int i = 0; i < 400; i++)
        check += descend(8, check);
    return check;
}

static GAUGE_NOINLINE u64 odd(u64 n);
static GAUGE_NOINLINE u64 even(u64 n)
{
    GAUGE_KEEP(n);
    u64 rest = n == 0 ? 1 : odd(n - 1);
    GAUGE_KEEP(rest);
    return rest;
}
static GAUGE_NOINLINE u64 odd(u64 n)
{
    GAUGE_KEEP(n);
    u64 rest = n == 0 ? 0 : even(n - 1);
    GAUGE_KEEP(rest);
    return rest;
}

GAUGE_KERNEL(calls, mutual_recursion)
{
    u64 check = round;
    for (u64 i = 0; i < 150; i++)
        check = check * 3 + even(10 + (i & 15));
    return check;
}

static GAUGE_NOINLINE u64 ackermann(u64 m, u64 n)
{
    GAUGE_KEEP(m);
    if (m == 0)
        return n + 1;
    if (n == 0)
        return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

GAUGE_KERNEL(calls, ackermann_small) { return ackermann(2, 22) + round; }

static GAUGE_NOINLINE void hanoi(u32 discs, u32 from, u32 to, u64 *check)
{
    if (discs == 0)
        return;
    hanoi(discs - 1, from, 3 - from - to, check);
    *check = *check * 3 + from * 4 + to;
    hanoi(discs - 1, 3 - from - to, to, check);
}

GAUGE_KERNEL(calls, towers)
{
    u64 check = round;
    hanoi(10, 0, 2, &check);
    return check;
}

static u32 queens(u32 all, u32 columns, u32 left, u32 right)
{
    if (columns == all)
        return 1;
    u32 found = 0, free = all & ~(columns | left | right);
    while (free) {
        u32 bit = free & -free;
        free ^= bit;
        found += queens(all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
    }
    return found;
}

GAUGE_KERNEL(calls, queens_seven) { return queens(127, 0, 0, 0) + round; }
