/* Searching in arrays and trees. */
#include "gauge.h"

#define GAUGE_KEEP(value) __asm__ volatile("" : "+r"(value))

/* Ascending numbers with random gaps. */
static GAUGE_NOINLINE u32 *ascending(int count)
{
    u32 *data = (u32 *)gauge_scratch, at = 0;
    for (int i = 0; i < count; i++)
        ((volatile u32 *)data)[i] = at += 1 + (gauge_ints[i] & 31);
    return data;
}

GAUGE_KERNEL(searching, binary_branches)
{
    u32 *data = ascending(1024);
    u64 state = gauge_mix(round) | 1, check = 0;
    for (int i = 0; i < 500; i++) {
        u32 wanted = (u32)(gauge_next(&state) >> 50), low = 0, high = 1024;
        while (low < high) {
            u32 middle = (low + high) / 2;
            if (data[middle] < wanted) {
                low = middle + 1;
                GAUGE_KEEP(low);
            } else {
                high = middle;
                GAUGE_KEEP(high);
            }
        }
        check += low;
    }
    return check;
}

GAUGE_KERNEL(searching, binary_without_branches)
{
    u32 *data = ascending(1024);
    u64 state = gauge_mix(round) | 1, check = 0;
    for (int i = 0; i < 600; i++) {
        u32 wanted = (u32)(gauge_next(&state) >> 50);
        const u32 *base = data;
        for (u32 half = 512; half > 0; half /= 2)
            base += (base[half - 1] < wanted) * half;
        check += (u64)(base - data);
    }
    return check;
}

GAUGE_KERNEL(searching, binary_dependent)
{
    /* Each search starts from the result of the last one. */
    u32 *data = ascending(1024);
    u64 check = round;
    for (int i = 0; i < 400; i++) {
        u32 wanted = (u32)(gauge_mix(check) >> 50);
        const u32 *base = data;
        for (u32 half = 512; half > 0; half /= 2)
            base += (base[half - 1] < wanted) * half;
        check += (u64)(base - data);
    }
    return check;
}

GAUGE_KERNEL(searching, interpolation)
{
    u32 *data = ascending(2048);
    u64 state = gauge_mix(round) | 1, check = 0;
    for (int i = 0; i < 300; i++) {
        u32 wanted = data[gauge_next(&state) >> 33 & 2047], low = 0, high = 2047, at = 0;
        while (low < high && data[low] < wanted) {
            at = low + (u32)((u64)(high - low) * (wanted - data[low]) / (data[high] - data[low]));
            if (data[at] < wanted)
                low = at + 1;
            else if (data[at] > wanted)
                high = at - 1;
            else
                low = high = at;
        }
        check += low;
    }
    return check;
}

GAUGE_KERNEL(searching, linear)
{
    const u32 *data = gauge_ints + gauge_window(round, 1024);
    u64 check = 0;
    for (u32 i = 0; i < 60; i++) {
        u32 wanted = data[(i * 37) & 511], at = 0;
        while (at < 512 && data[at] != wanted)
            at++;
        check += at;
    }
    return check;
}

GAUGE_KERNEL(searching, tree_search)
{
    u32 *key = (u32 *)gauge_scratch, *left = key + 1024, *right = left + 1024;
    const u32 *in = gauge_ints + gauge_window(round, 1024);
    u64 check = 0;
    for (u32 i = 0; i < 400; i++) {
        u32 value = in[i] ^ (u32)gauge_mix(round);
        ((volatile u32 *)key)[i] = value;
        ((volatile u32 *)left)[i] = 0;
        ((volatile u32 *)right)[i] = 0;
        u32 at = 0;
        while (i > 0) {
            u32 *child = value < key[at] ? left : right;
            if (!child[at]) {
                child[at] = i;
                break;
            }
            at = child[at];
            check++;
        }
    }
    return check;
}

GAUGE_KERNEL(searching, eytzinger)
{
    u32 *data = ascending(1023), *tree = data + 2048;
    /* The rank of a key gives its level in the tree and its position on that level. */
    for (u32 step = 0; step < 1023; step++) {
        u32 rank = step + 1, level = 10 - (u32)__builtin_ctz(rank);
        tree[(1u << (level - 1)) + (rank >> (11 - level))] = data[step];
    }
    u64 state = gauge_mix(round) | 1, check = 0;
    for (int i = 0; i < 600; i++) {
        u32 wanted = (u32)(gauge_next(&state) >> 50), node = 1;
        while (node < 1024)
            node = 2 * node + (tree[node] < wanted);
        check += node;
    }
    return check;
}

GAUGE_KERNEL(searching, skip_pointers)
{
    /* A sorted list with an index of every 32nd element. */
    u32 *data = ascending(2048);
    u64 state = gauge_mix(round) | 1, check = 0;
    for (int i = 0; i < 250; i++) {
        u32 wanted = (u32)(gauge_next(&state) >> 49), at = 0;
        while (at + 32 < 2048 && data[at + 32] <= wanted)
            at += 32;
        while (at < 2048 && data[at] < wanted)
            at++;
        check += at;
    }
    return check;
}

GAUGE_KERNEL(searching, trie)
{
    /* Four bits a level; each node has 16 children. */
    u16 *nodes = (u16 *)gauge_scratch;
    u32 used = 1;
    u64 check = 0;
    for (int i = 0; i < 16; i++)
        ((volatile u16 *)nodes)[i] = 0;
    for (u32 i = 0; i < 500; i++) {
        u32 value = gauge_ints[(i + round * 61) & 4095], node = 0;
        for (int level = 0; level < 4; level++, value >>= 4) {
            u16 *child = nodes + node * 16 + (value & 15);
            if (!*child) {
                *child = (u16)used;
                for (u32 k = 0; k < 16; k++)
                    ((volatile u16 *)nodes)[used * 16 + k] = 0;
                used++;
            }
            node = *child;
        }
        check += node;
    }
    return check + used;
}
