/* Divisions and remainders that no compiler replaces by other instructions. */
#include "gauge.h"

GAUGE_KERNEL(dividing, quotients_32)
{
    u32 sum = 0;
    const u32 *in = gauge_ints + gauge_window(round, 1024);
    for (int i = 0; i < 3000; i++)
        sum += in[i] / ((in[i ^ 1] & 0xfff) | 1);
    return sum;
}

GAUGE_KERNEL(dividing, quotients_64)
{
    u64 sum = 0;
    const u64 *in = gauge_words + gauge_window(round, 1024);
    for (int i = 0; i < 2500; i++)
        sum += in[i] / ((in[i ^ 1] & 0xffffffffff) | 1);
    return sum;
}

GAUGE_KERNEL(dividing, quotient_chain)
{
    u64 value = ~round;
    for (int i = 0; i < 2000; i++)
        value = value / 3 + (~value / ((value & 0xff) | 1));
    return value;
}

GAUGE_KERNEL(dividing, remainders_signed)
{
    i64 sum = 0;
    const u32 *in = gauge_ints + gauge_window(round, 1024);
    for (int i = 0; i < 3000; i++)
        sum += (i32)(in[i] << 1) % ((i32)(in[i ^ 1] & 0xff) + 2);
    return (u64)sum;
}

GAUGE_KERNEL(dividing, gcd_euclid)
{
    u64 check = 0;
    for (u64 i = 0; i < 80; i++) {
        u64 a = gauge_words[(i + round * 83) & 4095], b = gauge_words[(i + 1000 + round) & 4095];
        while (b) {
            u64 rest = a % b;
            a = b;
            b = rest;
        }
        check += a;
    }
    return check;
}

GAUGE_KERNEL(dividing, gcd_binary)
{
    u64 check = 0;
    for (u64 i = 0; i < 60; i++) {
        u64 a = gauge_words[(i + round * 83) & 4095] | 1, b = gauge_words[(i + 1000 + round) & 4095] | 1;
        while (a != b) {
            u64 low = a < b ? a : b, high = a < b ? b : a;
            b = high - low;
            b >>= __builtin_ctzll(b);
            a = low;
        }
        check += a;
    }
    return check;
}

GAUGE_KERNEL(dividing, power_modular)
{
    u64 check = 0;
    for (u64 i = 0; i < 60; i++) {
        u32 modulus = gauge_ints[(i + round) & 4095] | 1, base = gauge_ints[(i + 7) & 4095] % modulus;
        u64 result = 1;
        for (u32 exponent = 0xb5297a4d; exponent; exponent >>= 1) {
            if (exponent & 1)
                result = result * base % modulus;
            base = (u32)((u64)base * base % modulus);
        }
        check += result;
    }
    return check;
}

GAUGE_KERNEL(dividing, digits)
{
    u64 check = 0;
    for (u64 i = 0; i < 400; i++) {
        u64 value = gauge_words[(i + round * 41) & 4095];
        while (value) {
            check = check * 3 + value % 10;
            value /= 10;
        }
    }
    return check;
}

GAUGE_KERNEL(dividing, digits_of_base)
{
    /* The same work as in `digits`, but the compiler does not know the base. */
    volatile u64 hidden = 10;
    u64 base = hidden, check = 0;
    for (u64 i = 0; i < 120; i++) {
        u64 value = gauge_words[(i + round * 41) & 4095];
        while (value) {
            check = check * 3 + value % base;
            value /= base;
        }
    }
    return check;
}

GAUGE_KERNEL(dividing, root_integer)
{
    u64 check = 0;
    for (u64 i = 0; i < 120; i++) {
        u64 value = gauge_words[(i + round * 17) & 4095] >> 8, root = (u64)1 << 28;
        for (int step = 0; step < 8; step++)
            root = (root + value / root) / 2 | 1;
        check += root;
    }
    return check;
}

GAUGE_KERNEL(dividing, modular_hash)
{
    volatile u32 hidden = 10007;
    u32 prime = hidden;
    u64 check = 0;
    u32 hash = (u32)round;
    for (int i = 0; i < 2500; i++) {
        hash = (hash * 256 + gauge_text[i]) % prime;
        check += hash;
    }
    return check;
}
