/* Code larger than the instruction cache: in a straight line, in functions called in order, and in random order. */
#include "gauge.h"

/* Defined in straight.c, the same in all builds. */
u64 gauge_straight_branches(u64 value);
u64 gauge_straight_long(u64 value);

GAUGE_KERNEL(code, straight_branches)
{
    u64 sum = round;
    for (int i = 0; i < 3; i++)
        sum += gauge_straight_branches(sum);
    return sum;
}

GAUGE_KERNEL(code, straight_long)
{
    u64 sum = round;
    for (int i = 0; i < 2; i++)
        sum += gauge_straight_long(sum);
    return sum;
}

#define TWICE(of, n) of(n##0) of(n##1)
#define FOUR(of, n) TWICE(of, n##0) TWICE(of, n##1)
#define EIGHT(of, n) FOUR(of, n##0) FOUR(of, n##1)
#define SIXTEEN(of, n) EIGHT(of, n##0) EIGHT(of, n##1)
#define THIRTY_TWO(of, n) SIXTEEN(of, n##0) SIXTEEN(of, n##1)
#define SIXTY_FOUR(of, n) THIRTY_TWO(of, n##0) THIRTY_TWO(of, n##1)
#define MANY(of) SIXTY_FOUR(of, 0b0) SIXTY_FOUR(of, 0b1) SIXTY_FOUR(of, 0b10) SIXTY_FOUR(of, 0b11) \
    SIXTY_FOUR(of, 0b100) SIXTY_FOUR(of, 0b101) SIXTY_FOUR(of, 0b110) SIXTY_FOUR(of, 0b111)

/* 512 different functions of some 100 bytes. */
#define FUNCTION(n)                                                             \
    static GAUGE_NOINLINE u64 function_##n(u64 a, u64 b)                        \
    {                                                                           \
        u64 c = (a ^ (b >> ((n) % 23 + 1))) * (0x9e3779b97f4a7c15u + 2 * (n));  \
        u64 d = (b ^ (a << ((n) % 19 + 1))) + 0x123456789abcdefu * ((n) + 1);   \
        if (a == 0x7654321u + (n))                                              \
            c += d * (n);                                                       \
        gauge_scratch[(n) % 64] = c + d;                                        \
        return (c >> ((n) % 13 + 3)) ^ (d << ((n) % 11 + 1)) ^ (n);             \
    }
MANY(FUNCTION)

#define CALL(n) sum += function_##n(at + (n), round);
GAUGE_KERNEL(code, functions_in_order)
{
    u64 sum = 0, at = gauge_mix(round);
    for (int i = 0; i < 3; i++) {
        MANY(CALL)
        at += sum;
    }
    return sum;
}

#define ENTRY(n) function_##n,
GAUGE_KERNEL(code, functions_by_chance)
{
    static u64 (*const functions[])(u64, u64) = {MANY(ENTRY)};
    u64 sum = 0, state = gauge_mix(round) | 1;
    for (int i = 0; i < 600; i++)
        sum += functions[gauge_next(&state) >> 55](state, sum);
    return sum;
}

#define CASE(n)                                                                 \
    case n:                                                                     \
        a = (a ^ (b >> ((n) % 17 + 1))) + 0x9e3779b97f4a7c15u * ((n) + 1);      \
        b = (b << ((n) % 7 + 1)) - (a ^ (0x55aa55aa55u * (n)));                 \
        gauge_scratch[(n) % 32] = a ^ b;                                        \
        break;
GAUGE_KERNEL(code, switch_large)
{
    u64 a = gauge_mix(round), b = a >> 7, state = a | 1;
    for (int i = 0; i < 600; i++) {
        switch (gauge_next(&state) >> 55) {
            MANY(CASE)
        }
    }
    return a ^ b;
}
