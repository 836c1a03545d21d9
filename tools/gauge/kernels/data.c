/* The data of all kernels, compiled once, so that every build reads the same data. */
#include "gauge.h"

u64 gauge_words[GAUGE_WORDS] __attribute__((aligned(64)));
u32 gauge_ints[GAUGE_WORDS] __attribute__((aligned(64)));
double gauge_doubles[GAUGE_WORDS] __attribute__((aligned(64)));
float gauge_floats[GAUGE_WORDS] __attribute__((aligned(64)));
u8 gauge_bytes[GAUGE_BYTES] __attribute__((aligned(64)));
u8 gauge_text[GAUGE_BYTES] __attribute__((aligned(64)));
u8 gauge_json[GAUGE_BYTES] __attribute__((aligned(64)));
u8 gauge_runs[GAUGE_BYTES] __attribute__((aligned(64)));
u32 gauge_crc_tables[8][256] __attribute__((aligned(64)));
u64 gauge_scratch[GAUGE_SCRATCH] __attribute__((aligned(4096)));
u32 gauge_ring_l1[GAUGE_L1_LINES * 16] __attribute__((aligned(4096)));
u32 gauge_ring_l2[GAUGE_L2_LINES * 16] __attribute__((aligned(4096)));
u32 gauge_ring_l3[2 * GAUGE_L3_LINES * 16] __attribute__((aligned(4096)));
u64 *gauge_far;
u64 gauge_far_line;

/* Links `lines` lines of 64 bytes into one ring in random order (Sattolo's algorithm: one cycle). */
static void ring(u32 *ring, u32 lines, u64 seed)
{
    for (u32 i = 0; i < lines; i++)
        ring[i * 16] = i * 16;
    for (u32 i = lines - 1; i > 0; i--) {
        u32 other = (u32)(gauge_next(&seed) % i);
        u32 kept = ring[i * 16];
        ring[i * 16] = ring[other * 16];
        ring[other * 16] = kept;
    }
}

static void text(u64 seed)
{
    static const u8 letters[] = "eeeeeetttttaaaaooooiiinnnnsssshhhrrrdlucmwfgypbvk";
    size_t at = 0;
    while (at < GAUGE_BYTES) {
        u64 random = gauge_next(&seed);
        u32 length = 1 + random % 9, number = (random >> 8) % 6 == 0, capital = (random >> 12) % 8 == 0;
        for (u32 i = 0; i < length && at < GAUGE_BYTES; i++) {
            u8 letter = letters[gauge_next(&seed) % (sizeof letters - 1)];
            if (capital && i == 0)
                letter -= 32;
            gauge_text[at++] = number ? (u8)('0' + (gauge_next(&seed) >> 20) % 10) : letter;
        }
        if (at < GAUGE_BYTES)
            gauge_text[at++] = "    ,  \n. ;"[(random >> 20) % 11];
    }
}

static void json(u64 seed)
{
    static const char *const pieces[] = {"{\"", "\":", "},", "[", "],", "12,", "\"ab\\\"c\",", " ", "true,", "-3.5e2,"};
    size_t at = 0;
    while (at < GAUGE_BYTES)
        for (const char *piece = pieces[gauge_next(&seed) % 10]; *piece && at < GAUGE_BYTES; piece++)
            gauge_json[at++] = (u8)*piece;
}

static void runs(u64 seed)
{
    size_t at = 0;
    while (at < GAUGE_BYTES) {
        u64 random = gauge_next(&seed);
        for (u32 length = 1 + (random >> 8) % 12; length > 0 && at < GAUGE_BYTES; length--)
            gauge_runs[at++] = (u8)(random & 7);
    }
}

/* Makes new random data. A branch predictor learns data that repeats; the data of real programs does not repeat. */
void gauge_refresh(u64 repetition)
{
    u64 seed = gauge_mix(0x6f70636f73742121 + repetition) | 1;
    for (size_t i = 0; i < GAUGE_WORDS; i++) {
        u64 random = gauge_next(&seed);
        gauge_words[i] = random;
        gauge_ints[i] = (u32)(random >> 13);
        gauge_doubles[i] = 0.5 + (double)(random >> 11) * 0x1p-53;
        gauge_floats[i] = 0.5f + (float)(random >> 40) * 0x1p-24f;
    }
    for (size_t i = 0; i < GAUGE_BYTES; i++)
        gauge_bytes[i] = (u8)(gauge_next(&seed) >> 24);
    text(gauge_next(&seed));
    json(gauge_next(&seed));
    runs(gauge_next(&seed));
}

/* Prepares the data that stays the same; `far`: at least GAUGE_FAR_LINES lines of zeros. */
void gauge_prepare(u64 *far)
{
    u64 seed = 0x6f70636f73742121;
    gauge_far = far;
    gauge_far_line = 0;
    for (u32 i = 0; i < 256; i++) {
        u32 crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0xedb88320u & -(crc & 1));
        gauge_crc_tables[0][i] = crc;
    }
    for (u32 i = 0; i < 256; i++)
        for (int table = 1; table < 8; table++) {
            u32 before = gauge_crc_tables[table - 1][i];
            gauge_crc_tables[table][i] = (before >> 8) ^ gauge_crc_tables[0][before & 255];
        }
    ring(gauge_ring_l1, GAUGE_L1_LINES, gauge_next(&seed));
    ring(gauge_ring_l2, GAUGE_L2_LINES, gauge_next(&seed));
    ring(gauge_ring_l3, GAUGE_L3_LINES, gauge_next(&seed));
    gauge_refresh(0);
}

/* Reads the L3 area from start to end: this pushes its first half from L2 to L3. */
void gauge_warm_l3(void)
{
    for (size_t i = 0; i < 2 * GAUGE_L3_LINES; i++)
        (void)*(volatile u32 *)&gauge_ring_l3[i * 16];
}
