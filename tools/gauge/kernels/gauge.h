/* Shared by all files of kernels: the registration of a kernel, and the data that kernels read.
 *
 * A kernel is a function of a round, which decides where in the data the kernel starts. Each pair of rounds has new data.
 * Each file is compiled once for each build; GAUGE_BUILD names the build.
 */
#ifndef GAUGE_H
#define GAUGE_H

#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef int64_t i64;

/* Needs of a kernel: work of the harness before it, or instructions. */
enum gauge_needs {
    GAUGE_NOTHING = 0,
    /* The harness reads the L3 area first, so that the area's first half is in L3 only. */
    GAUGE_L3 = 1,
    /* Instructions of x86-64-v3. */
    GAUGE_V3 = 2
};

struct gauge_kernel {
    const char *class;
    const char *name;
    const char *build;
    u64 needs;
    u64 (*run)(u64 round);
};

#define GAUGE_NOINLINE __attribute__((noinline))
#define GAUGE_KERNEL_NEEDING(class_, name_, needs_)                                                          \
    static GAUGE_NOINLINE u64 name_(u64 round);                                                              \
    static struct gauge_kernel gauge_entry_##name_                                                           \
        __attribute__((used, section("gauge_kernels"), aligned(8))) = {#class_, #name_, GAUGE_BUILD, needs_, name_}; \
    static GAUGE_NOINLINE u64 name_(u64 round)
#define GAUGE_KERNEL(class_, name_) GAUGE_KERNEL_NEEDING(class_, name_, GAUGE_NOTHING)

/* Sizes, in elements. */
enum {
    GAUGE_WORDS = 4096,
    GAUGE_BYTES = 16384,
    GAUGE_SCRATCH = 65536,
    GAUGE_LINE_WORDS = 8,
    GAUGE_L1_LINES = 256,
    GAUGE_L2_LINES = 4096,
    /* The half of the L3 area that chases read; the other half only pushes the first half out of L2. */
    GAUGE_L3_LINES = 32768,
    /* Lines enough that one pass through all of them evicts the first from L3. */
    GAUGE_FAR_LINES = 1 << 20
};

/* Random data, new for each repetition, equal in every process. Kernels write only to gauge_scratch and read no old word of it. */
extern u64 gauge_words[GAUGE_WORDS];
extern u32 gauge_ints[GAUGE_WORDS];
extern double gauge_doubles[GAUGE_WORDS];
extern float gauge_floats[GAUGE_WORDS];
extern u8 gauge_bytes[GAUGE_BYTES];
/* Words, numbers and separators; the frequencies of letters are uneven. */
extern u8 gauge_text[GAUGE_BYTES];
/* Tokens of objects, arrays and strings in random order. */
extern u8 gauge_json[GAUGE_BYTES];
/* Runs of a few different values. */
extern u8 gauge_runs[GAUGE_BYTES];
extern u32 gauge_crc_tables[8][256];
extern u64 gauge_scratch[GAUGE_SCRATCH];
/* Rings of lines: the first word of a line is the index of the next line's first word. */
extern u32 gauge_ring_l1[GAUGE_L1_LINES * 16];
extern u32 gauge_ring_l2[GAUGE_L2_LINES * 16];
extern u32 gauge_ring_l3[2 * GAUGE_L3_LINES * 16];
/* Zeros that no cache holds, and the line that the next kernel starts at. */
extern u64 *gauge_far;
extern u64 gauge_far_line;

/* splitmix64 (Steele, Lea, Flood 2014): a well-mixed number for each round. */
static inline u64 gauge_mix(u64 value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

/* The start of a window into an array that is longer than the window by `room` elements; `room` is a power of two. */
static inline size_t gauge_window(u64 round, size_t room) { return (size_t)(gauge_mix(round) & (room - 1)); }

/* xorshift64 (Marsaglia 2003). */
static inline u64 gauge_next(u64 *state)
{
    u64 x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

static inline u64 gauge_bits(double value)
{
    union {
        double value;
        u64 bits;
    } both = {value};
    return both.bits;
}

#endif
