/* Hashes, checksums, and the tables that use them. */
#include "gauge.h"
#include <nmmintrin.h>

GAUGE_KERNEL(hashing, fnv1a)
{
    u64 hash = 0xcbf29ce484222325u;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 10000; i++)
        hash = (hash ^ in[i]) * 0x100000001b3u;
    return hash;
}

GAUGE_KERNEL(hashing, djb2)
{
    u32 hash = 5381;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 12000; i++)
        hash = hash * 33 + in[i];
    return hash;
}

GAUGE_KERNEL(hashing, murmur)
{
    u32 hash = (u32)round;
    const u32 *in = gauge_ints + gauge_window(round, 1024);
    for (int i = 0; i < 3000; i++) {
        u32 k = in[i] * 0xcc9e2d51u;
        k = (k << 15 | k >> 17) * 0x1b873593u;
        hash ^= k;
        hash = (hash << 13 | hash >> 19) * 5 + 0xe6546b64u;
    }
    return hash;
}

GAUGE_KERNEL(hashing, siphash)
{
    u64 v0 = 0x736f6d6570736575u ^ round, v1 = 0x646f72616e646f6du, v2 = 0x6c7967656e657261u, v3 = 0x7465646279746573u;
    const u64 *in = gauge_words + gauge_window(round, 1024);
#define GAUGE_ROTATE(value, by) ((value) << (by) | (value) >> (64 - (by)))
#define GAUGE_SIP()                                                                                                              \
    (v0 += v1, v1 = GAUGE_ROTATE(v1, 13), v1 ^= v0, v0 = GAUGE_ROTATE(v0, 32), v2 += v3, v3 = GAUGE_ROTATE(v3, 16), v3 ^= v2,     \
     v0 += v3, v3 = GAUGE_ROTATE(v3, 21), v3 ^= v0, v2 += v1, v1 = GAUGE_ROTATE(v1, 17), v1 ^= v2, v2 = GAUGE_ROTATE(v2, 32))
    for (int i = 0; i < 2000; i++) {
        v3 ^= in[i];
        GAUGE_SIP();
        GAUGE_SIP();
        v0 ^= in[i];
    }
    return v0 ^ v1 ^ v2 ^ v3;
}

GAUGE_KERNEL(hashing, crc_bitwise)
{
    u32 crc = ~0u;
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    for (int i = 0; i < 1200; i++) {
        crc ^= in[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0xedb88320u & -(crc & 1));
    }
    return ~crc;
}

GAUGE_KERNEL(hashing, crc_table)
{
    u32 crc = ~0u;
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    for (int i = 0; i < 8000; i++)
        crc = (crc >> 8) ^ gauge_crc_tables[0][(crc ^ in[i]) & 255];
    return ~crc;
}

GAUGE_KERNEL(hashing, crc_slices)
{
    u32 crc = ~0u;
    const u32 *in = gauge_ints + gauge_window(round, 1024);
    for (int i = 0; i < 3000; i += 2) {
        u32 low = in[i] ^ crc, high = in[i + 1];
        crc = gauge_crc_tables[7][low & 255] ^ gauge_crc_tables[6][low >> 8 & 255] ^ gauge_crc_tables[5][low >> 16 & 255] ^
              gauge_crc_tables[4][low >> 24] ^ gauge_crc_tables[3][high & 255] ^ gauge_crc_tables[2][high >> 8 & 255] ^
              gauge_crc_tables[1][high >> 16 & 255] ^ gauge_crc_tables[0][high >> 24];
    }
    return ~crc;
}

GAUGE_KERNEL(hashing, crc_instruction)
{
    u64 crc = ~0u;
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < GAUGE_WORDS; i++)
            crc = _mm_crc32_u64(crc, gauge_words[i] + round);
    return crc;
}

GAUGE_KERNEL(hashing, adler)
{
    u32 a = 1, b = 0;
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    for (int start = 0; start < 12000; start += 3000) {
        for (int i = start; i < start + 3000; i++) {
            a += in[i];
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    return b << 16 | a;
}

GAUGE_KERNEL(hashing, sha256)
{
    static const u32 k[8] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5};
    u32 s[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const u32 *in = gauge_ints + gauge_window(round, 2048);
#define GAUGE_RIGHT(value, by) ((value) >> (by) | (value) << (32 - (by)))
    for (int block = 0; block < 40; block++) {
        u32 w[64];
        for (int i = 0; i < 16; i++)
            w[i] = in[block * 16 + i];
        for (int i = 16; i < 64; i++) {
            u32 s0 = GAUGE_RIGHT(w[i - 15], 7) ^ GAUGE_RIGHT(w[i - 15], 18) ^ w[i - 15] >> 3;
            u32 s1 = GAUGE_RIGHT(w[i - 2], 17) ^ GAUGE_RIGHT(w[i - 2], 19) ^ w[i - 2] >> 10;
            w[i] = w[i - 16] + s0 + w[i - 7] + s1;
        }
        u32 a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
        for (int i = 0; i < 64; i++) {
            u32 s1 = GAUGE_RIGHT(e, 6) ^ GAUGE_RIGHT(e, 11) ^ GAUGE_RIGHT(e, 25), choice = (e & f) ^ (~e & g);
            u32 t1 = h + s1 + choice + k[i & 7] + w[i];
            u32 s0 = GAUGE_RIGHT(a, 2) ^ GAUGE_RIGHT(a, 13) ^ GAUGE_RIGHT(a, 22), major = (a & b) ^ (a & c) ^ (b & c);
            h = g;
            g = f;
            f = e;
            e = d + t1;
            d = c;
            c = b;
            b = a;
            a = t1 + s0 + major;
        }
        s[0] += a, s[1] += b, s[2] += c, s[3] += d, s[4] += e, s[5] += f, s[6] += g, s[7] += h;
    }
    return (u64)s[0] << 32 | s[7];
}

GAUGE_KERNEL(hashing, chacha)
{
    u32 s[16], check = 0;
    for (u32 i = 0; i < 16; i++)
        s[i] = gauge_ints[i + (round & 1023)];
#define GAUGE_LEFT(value, by) ((value) << (by) | (value) >> (32 - (by)))
#define GAUGE_QUARTER(a, b, c, d)                                                                                     \
    (s[a] += s[b], s[d] = GAUGE_LEFT(s[d] ^ s[a], 16), s[c] += s[d], s[b] = GAUGE_LEFT(s[b] ^ s[c], 12), s[a] += s[b], \
     s[d] = GAUGE_LEFT(s[d] ^ s[a], 8), s[c] += s[d], s[b] = GAUGE_LEFT(s[b] ^ s[c], 7))
    for (int i = 0; i < 400; i++) {
        GAUGE_QUARTER(0, 4, 8, 12);
        GAUGE_QUARTER(1, 5, 9, 13);
        GAUGE_QUARTER(2, 6, 10, 14);
        GAUGE_QUARTER(3, 7, 11, 15);
        GAUGE_QUARTER(0, 5, 10, 15);
        GAUGE_QUARTER(1, 6, 11, 12);
        GAUGE_QUARTER(2, 7, 8, 13);
        GAUGE_QUARTER(3, 4, 9, 14);
        check ^= s[3];
    }
    return check;
}

GAUGE_KERNEL(hashing, table_open)
{
    /* Open addressing, linear probing; half of the lookups fail. */
    u64 *slots = gauge_scratch, check = 0;
    const u64 *keys = gauge_words + gauge_window(round, 2048);
    for (int i = 0; i < 2048; i++)
        ((volatile u64 *)slots)[i] = 0;
    for (int i = 0; i < 1000; i++) {
        u64 at = keys[i] * 0x9e3779b97f4a7c15u >> 53;
        while (slots[at])
            at = (at + 1) & 2047;
        slots[at] = keys[i];
    }
    for (int i = 0; i < 2000; i++) {
        u64 at = keys[i] * 0x9e3779b97f4a7c15u >> 53;
        while (slots[at] && slots[at] != keys[i])
            at = (at + 1) & 2047;
        check += slots[at] ? at : 1;
    }
    return check;
}

GAUGE_KERNEL(hashing, table_chained)
{
    u32 *heads = (u32 *)gauge_scratch, *next = heads + 1024;
    const u64 *keys = gauge_words + gauge_window(round, 2048);
    u64 check = 0;
    for (int i = 0; i < 1024; i++)
        ((volatile u32 *)heads)[i] = 0;
    for (u32 i = 0; i < 2000; i++) {
        u64 at = keys[i] * 0x9e3779b97f4a7c15u >> 54;
        next[i] = heads[at];
        heads[at] = i + 1;
    }
    for (u32 i = 0; i < 2000; i++) {
        u32 at = heads[keys[i] * 0x9e3779b97f4a7c15u >> 54];
        while (at && keys[at - 1] != keys[i]) {
            at = next[at - 1];
            check++;
        }
    }
    return check;
}

GAUGE_KERNEL(hashing, bloom)
{
    u64 *bits = gauge_scratch, check = 0;
    const u64 *keys = gauge_words + gauge_window(round, 2048);
    for (int i = 0; i < 256; i++)
        ((volatile u64 *)bits)[i] = 0;
    for (int i = 0; i < 2000; i++) {
        u64 hash = keys[i];
        u64 found = 1;
        for (int probe = 0; probe < 3; probe++) {
            u64 bit = hash & 16383;
            found &= bits[bit >> 6] >> (bit & 63) & 1;
            bits[bit >> 6] |= (u64)1 << (bit & 63);
            hash >>= 14;
        }
        check += found;
    }
    return check;
}
