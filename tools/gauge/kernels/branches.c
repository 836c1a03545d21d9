/* Branches that are predictable, random, or follow a pattern. */
#include "gauge.h"

/* Keeps the compiler from replacing a branch. */
#define GAUGE_KEEP(value) __asm__ volatile("" : "+r"(value))

GAUGE_KERNEL(branches, random_half)
{
    u64 state = gauge_mix(round) | 1, sum = 0;
    for (int i = 0; i < 4000; i++) {
        if (gauge_next(&state) >> 40 & 1) {
            sum += 3;
            GAUGE_KEEP(sum);
        } else {
            sum ^= 5;
            GAUGE_KEEP(sum);
        }
    }
    return sum;
}

GAUGE_KERNEL(branches, random_tenth)
{
    u64 state = gauge_mix(round) | 1, sum = 0;
    for (int i = 0; i < 6000; i++) {
        if ((gauge_next(&state) >> 40 & 1023) < 102) {
            sum += 3;
            GAUGE_KEEP(sum);
        }
        sum++;
    }
    return sum;
}

GAUGE_KERNEL(branches, always_taken)
{
    u64 sum = round;
    for (int i = 0; i < 10000; i++) {
        u64 never = sum >> 63;
        GAUGE_KEEP(never);
        if (never)
            sum ^= (u64)i;
        else
            sum += 2;
        GAUGE_KEEP(sum);
    }
    return sum;
}

GAUGE_KERNEL(branches, pattern_three)
{
    u64 sum = round;
    u32 phase = 0;
    for (int i = 0; i < 9000; i++) {
        if (phase == 2) {
            phase = 0;
            sum += 7;
        } else
            phase++;
        GAUGE_KEEP(sum);
    }
    return sum;
}

GAUGE_KERNEL(branches, pattern_sixty)
{
    u64 sum = round;
    for (u32 i = 0; i < 9000; i++) {
        if (0x9d2c5680ca1e337bu >> (i % 61) & 1) {
            sum += 7;
            GAUGE_KEEP(sum);
        } else {
            sum ^= 1;
            GAUGE_KEEP(sum);
        }
    }
    return sum;
}

GAUGE_KERNEL(branches, correlated)
{
    /* The third branch follows from the first two, which are random. */
    u64 state = gauge_mix(round) | 1, sum = 0;
    for (int i = 0; i < 2500; i++) {
        u64 random = gauge_next(&state) >> 30;
        u64 a = random & 1, b = random >> 1 & 1;
        GAUGE_KEEP(a);
        if (a) {
            sum += 3;
            GAUGE_KEEP(sum);
        }
        GAUGE_KEEP(b);
        if (b) {
            sum ^= 9;
            GAUGE_KEEP(sum);
        }
        u64 both = a ^ b;
        GAUGE_KEEP(both);
        if (both) {
            sum += 11;
            GAUGE_KEEP(sum);
        }
    }
    return sum;
}

GAUGE_KERNEL(branches, short_loops)
{
    /* Inner loops of random length, 1 to 8. */
    u64 state = gauge_mix(round) | 1, sum = 0;
    for (int i = 0; i < 1500; i++) {
        u64 length = 1 + (gauge_next(&state) >> 33 & 7);
        for (u64 k = 0; k < length; k++) {
            sum += k;
            GAUGE_KEEP(sum);
        }
    }
    return sum;
}

GAUGE_KERNEL(branches, loops_of_eleven)
{
    u64 sum = round;
    for (int i = 0; i < 800; i++)
        for (u64 k = 0; k < 11; k++) {
            sum += k;
            GAUGE_KEEP(sum);
        }
    return sum;
}

GAUGE_KERNEL(branches, late_condition)
{
    /* A random branch behind a division, so a misprediction is found late. */
    u64 state = gauge_mix(round) | 1, sum = 0;
    for (int i = 0; i < 1200; i++) {
        u64 random = gauge_next(&state), quotient = random / ((random & 0xffff) | 1);
        if (quotient & 1) {
            sum += 3;
            GAUGE_KEEP(sum);
        } else {
            sum ^= 5;
            GAUGE_KEEP(sum);
        }
    }
    return sum;
}

GAUGE_KERNEL(branches, switch_random)
{
    u64 state = gauge_mix(round) | 1, sum = 1;
    for (int i = 0; i < 2500; i++) {
        switch (gauge_next(&state) >> 50 & 7) {
        case 0: sum += 17; break;
        case 1: sum ^= sum >> 3; break;
        case 2: sum *= 3; break;
        case 3: sum -= 1234567; break;
        case 4: sum = ~sum; break;
        case 5: sum += sum << 4; break;
        case 6: sum ^= 0x5555; break;
        default: sum = sum >> 9 | sum << 55; break;
        }
    }
    return sum;
}

GAUGE_KERNEL(branches, switch_pattern)
{
    static const u8 order[12] = {0, 3, 1, 5, 2, 7, 4, 6, 0, 2, 1, 3};
    u64 sum = 1 + round;
    u32 at = 0;
    for (int i = 0; i < 6000; i++) {
        switch (order[at]) {
        case 0: sum += 17; break;
        case 1: sum ^= sum >> 3; break;
        case 2: sum *= 3; break;
        case 3: sum -= 1234567; break;
        case 4: sum = ~sum; break;
        case 5: sum += sum << 4; break;
        case 6: sum ^= 0x5555; break;
        default: sum = sum >> 9 | sum << 55; break;
        }
        at = at == 11 ? 0 : at + 1;
    }
    return sum;
}

GAUGE_KERNEL(branches, ladder)
{
    /* Thresholds in order, the first likely. */
    u64 state = gauge_mix(round) | 1, sum = 0;
    for (int i = 0; i < 3000; i++) {
        u32 value = (u32)(gauge_next(&state) >> 44);
        if (value < 800000)
            sum += 1;
        else if (value < 900000)
            sum += 100;
        else if (value < 1000000)
            sum ^= 0x1000;
        else
            sum -= 7;
        GAUGE_KEEP(sum);
    }
    return sum;
}

GAUGE_KERNEL(branches, collatz)
{
    u64 steps = 0;
    for (u64 i = 0; i < 90; i++) {
        u64 value = 1000 + gauge_window(round, 65536) + i;
        while (value != 1) {
            if (value & 1)
                value = value * 3 + 1;
            else
                value >>= 1;
            GAUGE_KEEP(value);
            steps++;
        }
    }
    return steps;
}

GAUGE_KERNEL(branches, sieve)
{
    u8 *composite = (u8 *)gauge_scratch;
    u64 check = round;
    for (int i = 0; i < 8000; i++)
        ((volatile u8 *)composite)[i] = 0;
    for (u32 i = 2; i < 8000; i++) {
        if (composite[i])
            continue;
        check += i;
        for (u32 k = i * i; k < 8000; k += i)
            composite[k] = 1;
    }
    return check;
}
