/* Integer arithmetic: chains and independent operations. */
#include "gauge.h"

GAUGE_KERNEL(integer, add_chain)
{
    u64 sum = round, state = round | 1;
    for (int i = 0; i < 20000; i++) {
        sum += state;
        state += sum >> 3;
    }
    return sum ^ state;
}

GAUGE_KERNEL(integer, multiply_chain)
{
    u64 value = round * 2 + 1;
    for (int i = 0; i < 15000; i++)
        value = value * 6364136223846793005u + 1442695040888963407u;
    return value;
}

GAUGE_KERNEL(integer, multiply_four)
{
    u64 a = round, b = 2, c = 3, d = 4;
    for (int i = 0; i < 8000; i++) {
        a = a * 0x5851f42d4c957f2du + 1;
        b = b * 0x14057b7ef767814fu + 3;
        c = c * 0x9e3779b97f4a7c15u + 5;
        d = d * 0xbf58476d1ce4e5b9u + 7;
    }
    return a ^ b ^ c ^ d;
}

GAUGE_KERNEL(integer, multiply_wide)
{
    u64 a = gauge_mix(round), b = gauge_mix(round + 1);
    for (int i = 0; i < 8000; i++) {
        unsigned __int128 product = (unsigned __int128)a * (b | 1);
        a = (u64)(product >> 64) ^ (u64)product;
        b += a;
    }
    return a;
}

GAUGE_KERNEL(integer, xorshift)
{
    u64 state = gauge_mix(round) | 1, sum = 0;
    for (int i = 0; i < 12000; i++)
        sum += gauge_next(&state);
    return sum;
}

GAUGE_KERNEL(integer, splitmix)
{
    u64 sum = 0;
    for (u64 i = 0; i < 8000; i++)
        sum ^= gauge_mix(i + round);
    return sum;
}

GAUGE_KERNEL(integer, add_big)
{
    const u64 *left = gauge_words + gauge_window(round, 2048), *right = left + 1024;
    u64 carry = 0, check = 0;
    for (int pass = 0; pass < 12; pass++)
        for (int i = 0; i < 1000; i++) {
            unsigned __int128 sum = (unsigned __int128)left[i] + right[i] + carry;
            gauge_scratch[i] = (u64)sum;
            carry = (u64)(sum >> 64);
            check ^= (u64)sum;
        }
    return check + carry;
}

GAUGE_KERNEL(integer, multiply_big)
{
    const u64 *left = gauge_words + gauge_window(round, 2048), *right = left + 1024;
    enum { LIMBS = 64 };
    for (int i = 0; i < 2 * LIMBS; i++)
        gauge_scratch[i] = 0;
    for (int i = 0; i < LIMBS; i++) {
        u64 carry = 0;
        for (int k = 0; k < LIMBS; k++) {
            unsigned __int128 sum = (unsigned __int128)left[i] * right[k] + gauge_scratch[i + k] + carry;
            gauge_scratch[i + k] = (u64)sum;
            carry = (u64)(sum >> 64);
        }
        gauge_scratch[i + LIMBS] = carry;
    }
    u64 check = 0;
    for (int i = 0; i < 2 * LIMBS; i++)
        check = check * 31 + gauge_scratch[i];
    return check;
}

GAUGE_KERNEL(integer, compare_select)
{
    const u32 *data = gauge_ints + gauge_window(round, 1024);
    u32 low = ~0u, high = 0, second = 0;
    u64 check = 0;
    for (int pass = 0; pass < 6; pass++)
        for (int i = 0; i < 3000; i++) {
            u32 value = data[i] ^ (u32)(pass * 0x9e3779b9u);
            low = value < low ? value : low;
            second = value > high ? high : value > second ? value : second;
            high = value > high ? value : high;
            check += low ^ second;
        }
    return check + high;
}

GAUGE_KERNEL(integer, shift_mix)
{
    u64 check = round;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < GAUGE_WORDS; k++) {
            u64 value = gauge_words[k];
            check ^= value << (k & 63) | value >> (i & 31);
            check += check << 5;
        }
    return check;
}

GAUGE_KERNEL(integer, fibonacci_doubling)
{
    u64 check = 0;
    for (u64 i = 0; i < 500; i++) {
        u64 n = 1000000 + round + i, a = 0, b = 1;
        for (int bit = 20; bit >= 0; bit--) {
            u64 c = a * (2 * b - a), d = a * a + b * b;
            u64 odd = n >> bit & 1;
            a = odd ? d : c;
            b = odd ? c + d : d;
        }
        check ^= a;
    }
    return check;
}

GAUGE_KERNEL(integer, calendar)
{
    /* Days to dates (Hinnant's algorithm): divisions by constants. */
    u64 check = 0;
    for (u32 i = 0; i < 2500; i++) {
        u32 day = 719468 + (u32)gauge_window(round, 4096) + i * 37;
        u32 era = day / 146097, of_era = day - era * 146097;
        u32 year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
        u32 of_year = of_era - (365 * year + year / 4 - year / 100), shifted = (5 * of_year + 2) / 153;
        check += (year + era * 400) * 512 + shifted * 32 + of_year - (153 * shifted + 2) / 5;
    }
    return check;
}
