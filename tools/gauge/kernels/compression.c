/* The inner loops of compressors. */
#include "gauge.h"

GAUGE_KERNEL(compression, run_lengths)
{
    u8 *out = (u8 *)gauge_scratch;
    const u8 *in = gauge_runs + gauge_window(round, 4096);
    u32 at = 0;
    for (int i = 0; i < 8000;) {
        u8 value = in[i];
        int length = 1;
        while (i + length < 8000 && length < 255 && in[i + length] == value)
            length++;
        out[at++] = value;
        out[at++] = (u8)length;
        i += length;
    }
    u64 check = at;
    for (u32 i = 0; i < at; i += 2)
        check = check * 3 + out[i] * out[i + 1];
    return check;
}

GAUGE_KERNEL(compression, expand_runs)
{
    u8 *out = (u8 *)gauge_scratch;
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    u32 at = 0;
    for (int i = 0; i < 1000; i++)
        for (int length = 1 + (in[i] & 15); length > 0; length--)
            out[at++] = in[i];
    return at + gauge_scratch[100] + gauge_scratch[500];
}

GAUGE_KERNEL(compression, match_find)
{
    /* The longest match by a hash of three bytes, the first step of deflate. */
    u16 *heads = (u16 *)gauge_scratch;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    u64 check = 0;
    for (int i = 0; i < 1024; i++)
        ((volatile u16 *)heads)[i] = 0;
    for (u32 i = 1; i < 2500; i++) {
        u32 hash = ((u32)in[i] << 10 ^ (u32)in[i + 1] << 5 ^ in[i + 2]) & 1023, before = heads[hash];
        heads[hash] = (u16)i;
        if (before) {
            u32 length = 0;
            while (length < 40 && in[before + length] == in[i + length])
                length++;
            if (length >= 3)
                check += length * 64 + (i - before);
        }
    }
    return check;
}

GAUGE_KERNEL(compression, copy_matches)
{
    /* Literals, and copies from earlier output. */
    u8 *out = (u8 *)gauge_scratch;
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    u32 at = 16;
    for (int i = 0; i < 16; i++)
        ((volatile u8 *)out)[i] = (u8)i;
    for (int i = 0; i < 900; i++) {
        u32 length = 3 + (in[i] & 7), distance = 1 + in[i + 1000] % (at < 200 ? at : 200);
        for (u32 k = 0; k < length; k++, at++)
            out[at] = out[at - distance];
        out[at++] = in[i];
    }
    return at + gauge_scratch[30] + gauge_scratch[600];
}

GAUGE_KERNEL(compression, huffman_decode)
{
    /* Codes of 2 to 5 bits, decoded by a table of 32 entries. */
    u8 table[32];
    for (u32 i = 0; i < 32; i++)
        table[i] = (u8)(i < 8 ? 2 : i < 16 ? 2 | 8 : i < 20 ? 3 | 16 : i < 24 ? 3 | 24 : i < 28 ? 4 | 32 : 5 | 40);
    u64 check = 0, bits = 0;
    u32 have = 0, at = 0;
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    for (int i = 0; i < 5000; i++) {
        while (have < 16) {
            bits |= (u64)in[at++] << have;
            have += 8;
        }
        u32 entry = table[bits & 31], length = entry & 7;
        bits >>= length;
        have -= length;
        check = check * 3 + (entry >> 3);
    }
    return check;
}

GAUGE_KERNEL(compression, write_bits)
{
    u8 *out = (u8 *)gauge_scratch;
    u64 bits = 0;
    u32 have = 0, at = 0;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 5000; i++) {
        u32 length = 3 + (in[i] & 3);
        bits |= (u64)(in[i] & 31) << have;
        have += length;
        while (have >= 8) {
            out[at++] = (u8)bits;
            bits >>= 8;
            have -= 8;
        }
    }
    return at + gauge_scratch[7] + gauge_scratch[200];
}

GAUGE_KERNEL(compression, range_coder)
{
    /* The binary range coder of LZMA, adaptive. */
    u16 odds[64];
    u8 *out = (u8 *)gauge_scratch;
    for (int i = 0; i < 64; i++)
        odds[i] = 1024;
    u32 range = ~0u, at = 0;
    u64 low = 0;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 600; i++) {
        u32 context = 1;
        for (int bit = 5; bit >= 0; bit--) {
            u32 bound = (range >> 11) * odds[context & 63], one = in[i] >> bit & 1;
            if (one) {
                low += bound;
                range -= bound;
                odds[context & 63] -= odds[context & 63] >> 5;
            } else {
                range = bound;
                odds[context & 63] += (2048 - odds[context & 63]) >> 5;
            }
            context = context * 2 + one;
            while (range < 1u << 24) {
                out[at++] = (u8)(low >> 24);
                low = low << 8 & 0xffffffff;
                range <<= 8;
            }
        }
    }
    return at + low + range;
}

GAUGE_KERNEL(compression, move_to_front)
{
    u8 order[64];
    u64 check = 0;
    for (u32 i = 0; i < 64; i++)
        order[i] = (u8)i;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 1200; i++) {
        u8 value = in[i] & 31;
        u32 at = 0;
        while (order[at] != value)
            at++;
        check = check * 3 + at;
        for (; at > 0; at--)
            order[at] = order[at - 1];
        order[0] = value;
    }
    return check;
}

GAUGE_KERNEL(compression, burrows_wheeler_back)
{
    u32 *next = (u32 *)gauge_scratch, starts[256];
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 256; i++)
        starts[i] = 0;
    for (int i = 0; i < 2500; i++)
        starts[in[i]]++;
    for (u32 i = 0, sum = 0; i < 256; i++) {
        u32 count = starts[i];
        starts[i] = sum;
        sum += count;
    }
    for (u32 i = 0; i < 2500; i++)
        next[starts[in[i]]++] = i;
    u64 check = 0;
    u32 at = (u32)(round & 1023);
    for (int i = 0; i < 2500; i++) {
        at = next[at];
        check = check * 3 + in[at];
    }
    return check;
}

GAUGE_KERNEL(compression, delta_pack)
{
    u64 check = 0;
    const u32 *in = gauge_ints + gauge_window(round, 1024);
    for (int block = 0; block < 2400; block += 32) {
        u32 all = 0, last = in[block];
        for (int i = 1; i < 32; i++) {
            u32 delta = in[block + i] - last;
            delta = delta << 1 ^ (u32)((i32)delta >> 31);
            all |= delta & 0xffff;
            last = in[block + i];
        }
        u32 width = 32 - (u32)__builtin_clz(all | 1);
        for (int i = 0; i < 32; i++)
            check = (check << width | check >> (64 - width)) ^ (in[block + i] & (u32)((1u << width) - 1));
    }
    return check;
}

GAUGE_KERNEL(compression, colour_predict)
{
    /* The Paeth filter of PNG. */
    u8 *out = (u8 *)gauge_scratch;
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    u64 check = 0;
    for (int i = 65; i < 4000; i++) {
        int a = in[i - 1], b = in[i - 64], c = in[i - 65], p = a + b - c;
        int pa = p > a ? p - a : a - p, pb = p > b ? p - b : b - p, pc = p > c ? p - c : c - p;
        out[i] = (u8)(in[i] - (pa <= pb && pa <= pc ? a : pb <= pc ? b : c));
        check += out[i];
    }
    return check;
}
