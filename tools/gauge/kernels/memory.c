/* The levels of memory, read by chase, by stream and at random; strides; stores that loads depend on.
 *
 * Each kernel of the far area continues where the last one stopped, so that no cache holds the lines that it reads. The area holds
 * only zeros, so that a kernel's result does not depend on its position.
 */
#include "gauge.h"

static inline u64 chase(const u32 *ring, u32 at, int steps)
{
    u64 check = 0;
    for (int i = 0; i < steps; i++) {
        at = ring[at];
        check += at;
    }
    return check;
}

GAUGE_KERNEL(memory_l1, chase_l1) { return chase(gauge_ring_l1, (u32)gauge_window(round, GAUGE_L1_LINES) * 16, 10000); }

GAUGE_KERNEL(memory_l2, chase_l2) { return chase(gauge_ring_l2, (u32)gauge_window(round, GAUGE_L2_LINES) * 16, 5000); }

GAUGE_KERNEL_NEEDING(memory_l3, chase_l3, GAUGE_L3)
{
    return chase(gauge_ring_l3, (u32)gauge_window(round, GAUGE_L3_LINES) * 16, 2500);
}

/* The next line of the far area in an order that no prefetcher knows: a cycle through all lines, with mixed bits. */
static inline u64 far_line(u64 *state)
{
    *state = (*state * 0x5d588b65u + 0x269ec3u) & (GAUGE_FAR_LINES - 1);
    u64 line = *state ^ (*state >> 11);
    return (line * 0x9e3779b1u) & (GAUGE_FAR_LINES - 1);
}

GAUGE_KERNEL(memory_far, chase_far)
{
    u64 state = gauge_far_line, sum = round;
    for (int i = 0; i < 600; i++) {
        u64 found = gauge_far[far_line(&state) * GAUGE_LINE_WORDS];
        state += found;
        sum += found;
    }
    gauge_far_line = state;
    return sum;
}

GAUGE_KERNEL(memory_far, random_far)
{
    u64 state = gauge_far_line, sum = round;
    for (int i = 0; i < 2000; i++)
        sum += gauge_far[far_line(&state) * GAUGE_LINE_WORDS];
    gauge_far_line = state;
    return sum;
}

/* The next `lines` lines of the far area; later calls continue behind them. */
static inline u64 *far_stretch(u64 lines)
{
    u64 line = gauge_far_line + lines <= GAUGE_FAR_LINES ? gauge_far_line : 0;
    gauge_far_line = (line + lines) & (GAUGE_FAR_LINES - 1);
    return gauge_far + line * GAUGE_LINE_WORDS;
}

GAUGE_KERNEL(memory_far, read_far)
{
    const u64 *from = far_stretch(3000);
    u64 sum = round;
    for (u64 i = 0; i < 3000 * GAUGE_LINE_WORDS; i++)
        sum += from[i];
    return sum;
}

GAUGE_KERNEL(memory_far, stride_far)
{
    const u64 *from = far_stretch(6000);
    u64 sum = round;
    for (u64 i = 0; i < 6000; i += 2)
        sum += from[i * GAUGE_LINE_WORDS];
    return sum;
}

GAUGE_KERNEL(memory_far, write_far)
{
    u64 *to = far_stretch(2000);
    for (u64 i = 0; i < 2000 * GAUGE_LINE_WORDS; i++)
        ((volatile u64 *)to)[i] = 0;
    return round;
}

GAUGE_KERNEL(memory_l1, read_l1)
{
    u64 sum = round;
    for (int pass = 0; pass < 20; pass++)
        for (int i = 0; i < 2048; i++)
            sum += gauge_words[i] ^ (u64)pass;
    return sum;
}

GAUGE_KERNEL(memory_l2, read_l2)
{
    u64 sum = round;
    for (int i = 0; i < GAUGE_L2_LINES * 16; i++)
        sum += gauge_ring_l2[i];
    return sum;
}

GAUGE_KERNEL_NEEDING(memory_l3, read_l3, GAUGE_L3)
{
    const u32 *from = gauge_ring_l3 + (round & 7) * 32768;
    u64 sum = round;
    for (int i = 0; i < 4000 * 16; i++)
        sum += from[i];
    return sum;
}

GAUGE_KERNEL_NEEDING(memory_l3, random_l3, GAUGE_L3)
{
    u64 state = gauge_mix(round) | 1, sum = 0;
    for (int i = 0; i < 4000; i++)
        sum += gauge_ring_l3[(gauge_next(&state) >> 20 & (GAUGE_L3_LINES - 1)) * 16];
    return sum;
}

GAUGE_KERNEL(memory_l2, random_l2)
{
    u64 state = gauge_mix(round) | 1, sum = 0;
    for (int i = 0; i < 8000; i++)
        sum += gauge_ring_l2[(gauge_next(&state) >> 20 & (GAUGE_L2_LINES - 1)) * 16];
    return sum;
}

GAUGE_KERNEL(memory_l2, stride_line)
{
    u64 sum = round;
    for (int pass = 0; pass < 4; pass++)
        for (int i = 0; i < GAUGE_L2_LINES; i++)
            sum += gauge_ring_l2[i * 16];
    return sum;
}

GAUGE_KERNEL(memory_l2, stride_three_lines)
{
    u64 sum = round;
    for (int pass = 0; pass < 9; pass++)
        for (int i = pass % 3; i < GAUGE_L2_LINES; i += 3)
            sum += gauge_ring_l2[i * 16];
    return sum;
}

GAUGE_KERNEL(memory_l2, stride_backwards)
{
    u64 sum = round;
    for (int pass = 0; pass < 4; pass++)
        for (int i = GAUGE_L2_LINES - 1; i >= 0; i--)
            sum += gauge_ring_l2[i * 16 + 1] + gauge_ring_l2[i * 16];
    return sum;
}

GAUGE_KERNEL(memory_l2, stride_page)
{
    /* One line in each of 64 pages a pass: the lines share a set of L1, and the pages exceed the first TLB of some cores. */
    u64 sum = round;
    for (int pass = 0; pass < 60; pass++)
        for (int i = 0; i < 64; i++)
            sum += gauge_ring_l2[i * 1024 + (pass & 7) * 16];
    return sum;
}

GAUGE_KERNEL(memory_l1, write_l1)
{
    for (u64 pass = 0; pass < 12; pass++)
        for (u64 i = 0; i < 2048; i++)
            ((volatile u64 *)gauge_scratch)[i] = i ^ pass ^ round;
    return gauge_scratch[round & 2047];
}

GAUGE_KERNEL(memory_l2, write_l2)
{
    for (u64 i = 0; i < 32768; i++)
        ((volatile u64 *)gauge_scratch)[i] = i ^ round;
    return gauge_scratch[round & 32767];
}

GAUGE_KERNEL(memory_l2, copy_l2)
{
    volatile u64 *to = gauge_scratch;
    const u32 *from = gauge_ring_l2;
    for (int i = 0; i < 32768; i++)
        to[i] = *(const u64 *)(from + 2 * i);
    return gauge_scratch[round & 32767];
}

GAUGE_KERNEL(memory_l1, copy_bytes)
{
    u8 *to = (u8 *)gauge_scratch;
    const u8 *from = gauge_bytes + gauge_window(round, 2048);
    for (int i = 0; i < 12000; i++)
        ((volatile u8 *)to)[i] = from[i];
    return gauge_scratch[round & 1023];
}

GAUGE_KERNEL(memory_l1, gather)
{
    u64 sum = 0;
    const u32 *indices = gauge_ints + gauge_window(round, 1024);
    for (int pass = 0; pass < 4; pass++)
        for (int i = 0; i < 3000; i++)
            sum += gauge_words[(indices[i] >> pass) & 2047];
    return sum;
}

GAUGE_KERNEL(memory_l2, scatter)
{
    u64 check = 0;
    const u32 *indices = gauge_ints + gauge_window(round, 1024);
    for (int i = 0; i < 16384; i++)
        gauge_scratch[i] = 0;
    for (int i = 0; i < 3000; i++)
        gauge_scratch[indices[i] & 16383] += (u64)i;
    for (int i = 0; i < 16384; i += 16)
        check += gauge_scratch[i];
    return check;
}

GAUGE_KERNEL(memory_l1, histogram)
{
    u32 *counts = (u32 *)gauge_scratch;
    const u8 *data = gauge_bytes + gauge_window(round, 4096);
    u64 check = 0;
    for (int i = 0; i < 256; i++)
        counts[i] = 0;
    for (int i = 0; i < 12000; i++)
        counts[data[i]]++;
    for (u32 i = 0; i < 256; i++)
        check = check * 31 + counts[i];
    return check;
}

GAUGE_KERNEL(forwarding, histogram_of_runs)
{
    /* The same counters again and again: each load waits for the store before it. */
    u32 *counts = (u32 *)gauge_scratch;
    const u8 *data = gauge_runs + gauge_window(round, 4096);
    u64 check = 0;
    for (int i = 0; i < 8; i++)
        counts[i] = 0;
    for (int i = 0; i < 12000; i++)
        counts[data[i]]++;
    for (u32 i = 0; i < 8; i++)
        check = check * 31 + counts[i];
    return check;
}

GAUGE_KERNEL(forwarding, forward_chain)
{
    volatile u64 *cell = gauge_scratch;
    cell[0] = round;
    for (u64 i = 0; i < 5000; i++)
        cell[0] = cell[0] + i;
    return cell[0];
}

GAUGE_KERNEL(forwarding, forward_moving)
{
    /* Each word is computed from the word before it, through memory. */
    volatile u64 *cell = gauge_scratch;
    cell[0] = round;
    for (u64 i = 1; i < 6000; i++)
        cell[i & 2047] = cell[(i - 1) & 2047] * 3 + i;
    return cell[5999 & 2047];
}

GAUGE_KERNEL(forwarding, forward_to_narrow)
{
    volatile u64 *wide = gauge_scratch;
    volatile u32 *narrow = (volatile u32 *)gauge_scratch;
    u64 sum = round;
    for (u64 i = 0; i < 3000; i++) {
        wide[0] = sum;
        sum += narrow[0] + i;
    }
    return sum;
}

GAUGE_KERNEL(forwarding, forward_to_wide)
{
    /* Two narrow stores, then a wide load of both: no forwarding. */
    volatile u64 *wide = gauge_scratch;
    volatile u32 *narrow = (volatile u32 *)gauge_scratch;
    u64 sum = round;
    for (u64 i = 0; i < 2000; i++) {
        narrow[0] = (u32)sum;
        narrow[1] = (u32)i;
        sum += wide[0] >> 3;
    }
    return sum;
}

GAUGE_KERNEL(forwarding, stack_machine_memory)
{
    volatile u64 *top = gauge_scratch + 64;
    u64 state = gauge_mix(round) | 1;
    *top = 1;
    for (int i = 0; i < 2000; i++) {
        *++top = gauge_next(&state);
        *++top = (u64)i;
        u64 right = *top--;
        u64 left = *top--;
        *top = *top + (left ^ right);
    }
    return *top;
}

GAUGE_KERNEL(memory_l1, list_sum)
{
    /* A list with nodes in random order, and work at each node. */
    u32 at = (u32)gauge_window(round, GAUGE_L1_LINES) * 16;
    u64 sum = 0;
    for (int i = 0; i < 8000; i++) {
        sum = sum * 5 + (at ^ (sum >> 7));
        at = gauge_ring_l1[at];
    }
    return sum;
}

GAUGE_KERNEL(memory_l2, two_chases)
{
    u32 a = (u32)gauge_window(round, GAUGE_L2_LINES) * 16, b = (u32)gauge_window(round + 77, GAUGE_L2_LINES) * 16;
    u64 check = 0;
    for (int i = 0; i < 4000; i++) {
        a = gauge_ring_l2[a];
        b = gauge_ring_l2[b];
        check += a ^ b;
    }
    return check;
}

GAUGE_KERNEL(memory_l1, load_use_compute)
{
    u64 at = round & 2047, check = 0;
    for (int i = 0; i < 6000; i++) {
        u64 value = gauge_words[at];
        check ^= value;
        at = (value >> 7 ^ (u64)i) & 2047;
    }
    return check;
}

GAUGE_KERNEL(memory_l1, unaligned)
{
    u64 sum = 0;
    const u8 *from = gauge_bytes + 1 + gauge_window(round, 8);
    for (int pass = 0; pass < 4; pass++)
        for (int i = 0; i < 12000; i += 9) {
            u64 value;
            __builtin_memcpy(&value, from + i, 8);
            sum += value ^ (u64)pass;
        }
    return sum;
}
