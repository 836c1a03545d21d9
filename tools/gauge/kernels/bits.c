/* Bits: counting, finding, permuting. */
#include "gauge.h"

GAUGE_KERNEL(bits, count_instruction)
{
    u64 sum = 0;
    for (u64 pass = 0; pass < 5; pass++)
        for (int i = 0; i < GAUGE_WORDS; i++)
            sum += (u64)__builtin_popcountll(gauge_words[i] ^ (round + pass));
    return sum;
}

GAUGE_KERNEL(bits, count_folded)
{
    u64 sum = 0;
    for (int i = 0; i < GAUGE_WORDS; i++) {
        u64 x = gauge_words[i] ^ round;
        x -= x >> 1 & 0x5555555555555555u;
        x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
        x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
        sum += x * 0x0101010101010101u >> 56;
    }
    return sum;
}

GAUGE_KERNEL(bits, reverse_bits)
{
    u64 sum = 0;
    for (int i = 0; i < 3000; i++) {
        u64 x = gauge_words[i] + round;
        x = (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
        x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
        x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
        sum ^= __builtin_bswap64(x);
    }
    return sum;
}

GAUGE_KERNEL(bits, each_bit)
{
    u64 sum = 0;
    for (int i = 0; i < 200; i++) {
        u64 set = gauge_words[(u64)i + gauge_window(round, 2048)];
        while (set) {
            sum = sum * 3 + (u64)__builtin_ctzll(set);
            set &= set - 1;
        }
    }
    return sum;
}

GAUGE_KERNEL(bits, morton)
{
    u64 sum = 0;
    for (int i = 0; i < 2000; i++) {
        u64 x = gauge_ints[i] & 0xffff, y = gauge_ints[i] >> 3 & 0xffff;
        x = (x | x << 16) & 0x0000ffff0000ffffu;
        x = (x | x << 8) & 0x00ff00ff00ff00ffu;
        x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
        x = (x | x << 2) & 0x3333333333333333u;
        x = (x | x << 1) & 0x5555555555555555u;
        y = (y | y << 16) & 0x0000ffff0000ffffu;
        y = (y | y << 8) & 0x00ff00ff00ff00ffu;
        y = (y | y << 4) & 0x0f0f0f0f0f0f0f0fu;
        y = (y | y << 2) & 0x3333333333333333u;
        y = (y | y << 1) & 0x5555555555555555u;
        sum += (x | y << 1) ^ round;
    }
    return sum;
}

GAUGE_KERNEL(bits, gray_inverse)
{
    u64 sum = 0;
    for (int i = 0; i < 3000; i++) {
        u64 x = gauge_words[i] ^ round;
        x ^= x >> 32;
        x ^= x >> 16;
        x ^= x >> 8;
        x ^= x >> 4;
        x ^= x >> 2;
        x ^= x >> 1;
        sum += x;
    }
    return sum;
}

GAUGE_KERNEL(bits, transpose_eight)
{
    u64 sum = 0;
    for (int i = 0; i < 2500; i++) {
        u64 x = gauge_words[i] ^ round, t;
        t = (x ^ x >> 7) & 0x00aa00aa00aa00aau;
        x ^= t ^ t << 7;
        t = (x ^ x >> 14) & 0x0000cccc0000ccccu;
        x ^= t ^ t << 14;
        t = (x ^ x >> 28) & 0x00000000f0f0f0f0u;
        x ^= t ^ t << 28;
        sum ^= x + (u64)i;
    }
    return sum;
}

GAUGE_KERNEL(bits, leading_zeros)
{
    u64 sum = 0;
    for (int i = 0; i < GAUGE_WORDS; i++)
        sum += (u64)__builtin_clzll((gauge_words[i] >> (gauge_ints[i] & 63)) | 1) + (round & 1);
    return sum;
}

GAUGE_KERNEL(bits, set_and_test)
{
    u64 *set = gauge_scratch, found = 0;
    for (int i = 0; i < 512; i++)
        ((volatile u64 *)set)[i] = 0;
    for (int i = 0; i < 3500; i++) {
        u32 bit = (gauge_ints[i] ^ (u32)gauge_mix(round)) & 32767;
        found += set[bit >> 6] >> (bit & 63) & 1;
        set[bit >> 6] |= (u64)1 << (bit & 63);
    }
    return found;
}

GAUGE_KERNEL(bits, linear_feedback)
{
    u32 state = 0xace1u | (u32)(round << 16);
    u64 sum = 0;
    for (int i = 0; i < 8000; i++) {
        state = (state >> 1) ^ (0x80200003u & -(state & 1));
        sum += state;
    }
    return sum;
}

GAUGE_KERNEL(bits, swap_bytes)
{
    u64 sum = 0;
    for (u64 pass = 0; pass < 3; pass++)
        for (int i = 0; i < GAUGE_WORDS; i++)
            sum += __builtin_bswap64(gauge_words[i] + pass) ^ round;
    return sum;
}

GAUGE_KERNEL(bits, rank_select)
{
    u16 *ranks = (u16 *)gauge_scratch;
    u32 total = 0;
    u64 check = 0;
    for (int i = 0; i < 256; i++) {
        ((volatile u16 *)ranks)[i] = (u16)total;
        total += (u32)__builtin_popcountll(gauge_words[i]);
    }
    for (int i = 0; i < 1500; i++) {
        u32 bit = (gauge_ints[i] ^ (u32)gauge_mix(round)) & 16383;
        check += ranks[bit >> 6] + (u64)__builtin_popcountll(gauge_words[bit >> 6] & (((u64)1 << (bit & 63)) - 1));
    }
    return check;
}
