/* Sorting and selecting. */
#include "gauge.h"

/* A copy of random numbers, different in each round. */
static GAUGE_NOINLINE u32 *numbers(u64 round, int count)
{
    volatile u32 *to = (volatile u32 *)gauge_scratch;
    const u32 *from = gauge_ints + gauge_window(round, 1024);
    u32 mask = (u32)gauge_mix(round + 5);
    for (int i = 0; i < count; i++)
        to[i] = from[i] ^ mask;
    return (u32 *)gauge_scratch;
}

static u64 check(const u32 *data, int count)
{
    u64 sum = 0;
    for (int i = 0; i < count; i++)
        sum = sum * 31 + data[i];
    return sum;
}

GAUGE_KERNEL(sorting, insertion)
{
    u32 *data = numbers(round, 150);
    for (int i = 1; i < 150; i++) {
        u32 value = data[i];
        int k = i;
        while (k > 0 && data[k - 1] > value) {
            data[k] = data[k - 1];
            k--;
        }
        data[k] = value;
    }
    return check(data, 150);
}

GAUGE_KERNEL(sorting, bubble)
{
    u32 *data = numbers(round, 90);
    for (int end = 89; end > 0; end--)
        for (int i = 0; i < end; i++)
            if (data[i] > data[i + 1]) {
                u32 kept = data[i];
                data[i] = data[i + 1];
                data[i + 1] = kept;
            }
    return check(data, 90);
}

GAUGE_KERNEL(sorting, shell)
{
    u32 *data = numbers(round, 600);
    for (int gap = 301; gap > 0; gap = gap == 1 ? 0 : gap / 3 + 1 == gap ? 1 : gap / 3)
        for (int i = gap; i < 600; i++) {
            u32 value = data[i];
            int k = i;
            while (k >= gap && data[k - gap] > value) {
                data[k] = data[k - gap];
                k -= gap;
            }
            data[k] = value;
        }
    return check(data, 600);
}

static GAUGE_NOINLINE void quick(u32 *data, int low, int high)
{
    while (low < high) {
        u32 pivot = data[(low + high) / 2];
        int i = low, k = high;
        while (i <= k) {
            while (data[i] < pivot)
                i++;
            while (data[k] > pivot)
                k--;
            if (i <= k) {
                u32 kept = data[i];
                data[i++] = data[k];
                data[k--] = kept;
            }
        }
        quick(data, low, k);
        low = i;
    }
}

GAUGE_KERNEL(sorting, quicksort)
{
    u32 *data = numbers(round, 800);
    quick(data, 0, 799);
    return check(data, 800);
}

GAUGE_KERNEL(sorting, quicksort_sorted)
{
    u32 *data = (u32 *)gauge_scratch;
    for (u32 i = 0; i < 1500; i++)
        ((volatile u32 *)data)[i] = i * 3 + (u32)round;
    quick(data, 0, 1499);
    return check(data, 1500);
}

static inline void sink(u32 *data, int at, int count)
{
    u32 value = data[at];
    for (;;) {
        int child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && data[child + 1] > data[child])
            child++;
        if (data[child] <= value)
            break;
        data[at] = data[child];
        at = child;
    }
    data[at] = value;
}

GAUGE_KERNEL(sorting, heapsort)
{
    u32 *data = numbers(round, 500);
    for (int i = 249; i >= 0; i--)
        sink(data, i, 500);
    for (int end = 499; end > 0; end--) {
        u32 kept = data[0];
        data[0] = data[end];
        data[end] = kept;
        sink(data, 0, end);
    }
    return check(data, 500);
}

GAUGE_KERNEL(sorting, mergesort)
{
    u32 *data = numbers(round, 1024), *other = data + 2048;
    for (int width = 1; width < 1024; width *= 2) {
        for (int start = 0; start < 1024; start += 2 * width) {
            int left = start, right = start + width, at = start;
            while (left < start + width && right < start + 2 * width)
                other[at++] = data[left] <= data[right] ? data[left++] : data[right++];
            while (left < start + width)
                other[at++] = data[left++];
            while (right < start + 2 * width)
                other[at++] = data[right++];
        }
        u32 *kept = data;
        data = other;
        other = kept;
    }
    return check(data, 1024);
}

GAUGE_KERNEL(sorting, radix)
{
    u32 *data = numbers(round, 2000), *other = data + 4096;
    u32 starts[256];
    for (int shift = 0; shift < 32; shift += 8) {
        for (int i = 0; i < 256; i++)
            starts[i] = 0;
        for (int i = 0; i < 2000; i++)
            starts[data[i] >> shift & 255]++;
        for (u32 i = 0, sum = 0; i < 256; i++) {
            u32 count = starts[i];
            starts[i] = sum;
            sum += count;
        }
        for (int i = 0; i < 2000; i++)
            other[starts[data[i] >> shift & 255]++] = data[i];
        u32 *kept = data;
        data = other;
        other = kept;
    }
    return check(data, 2000);
}

GAUGE_KERNEL(sorting, counting)
{
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    u8 *out = (u8 *)gauge_scratch;
    u32 counts[256];
    u64 sum = 0;
    for (int i = 0; i < 256; i++)
        counts[i] = 0;
    for (int i = 0; i < 6000; i++)
        counts[in[i]]++;
    for (u32 i = 0, at = 0; i < 256; i++)
        for (u32 k = 0; k < counts[i]; k++)
            out[at++] = (u8)i;
    for (int i = 0; i < 6000; i += 7)
        sum = sum * 31 + out[i];
    return sum;
}

GAUGE_KERNEL(sorting, select_median)
{
    u32 *data = numbers(round, 2500);
    int low = 0, high = 2499;
    while (low < high) {
        u32 pivot = data[(low + high) / 2];
        int i = low, k = high;
        while (i <= k) {
            while (data[i] < pivot)
                i++;
            while (data[k] > pivot)
                k--;
            if (i <= k) {
                u32 kept = data[i];
                data[i++] = data[k];
                data[k--] = kept;
            }
        }
        if (1250 <= k)
            high = k;
        else if (1250 >= i)
            low = i;
        else
            break;
    }
    return data[1250];
}

GAUGE_KERNEL(sorting, partition_without_branches)
{
    u32 *data = numbers(round, 3000), pivot = 0x40000 + (u32)(round & 15), at = 0;
    for (u32 i = 0; i < 3000; i++) {
        u32 value = data[i];
        data[i] = data[at];
        data[at] = value;
        at += (value & 0x7ffff) < pivot;
    }
    return check(data, 3000) + at;
}

GAUGE_KERNEL(sorting, network_of_eight)
{
    u32 *data = numbers(round, 2000);
#define GAUGE_ORDER(a, b)                         \
    do {                                          \
        u32 x = d[a], y = d[b];                   \
        d[a] = x < y ? x : y;                     \
        d[b] = x < y ? y : x;                     \
    } while (0)
    for (int i = 0; i < 2000; i += 8) {
        u32 *d = data + i;
        GAUGE_ORDER(0, 2);
        GAUGE_ORDER(1, 3);
        GAUGE_ORDER(4, 6);
        GAUGE_ORDER(5, 7);
        GAUGE_ORDER(0, 4);
        GAUGE_ORDER(1, 5);
        GAUGE_ORDER(2, 6);
        GAUGE_ORDER(3, 7);
        GAUGE_ORDER(0, 1);
        GAUGE_ORDER(2, 3);
        GAUGE_ORDER(4, 5);
        GAUGE_ORDER(6, 7);
        GAUGE_ORDER(2, 4);
        GAUGE_ORDER(3, 5);
        GAUGE_ORDER(1, 4);
        GAUGE_ORDER(3, 6);
        GAUGE_ORDER(1, 2);
        GAUGE_ORDER(3, 4);
        GAUGE_ORDER(5, 6);
    }
    return check(data, 2000);
}

GAUGE_KERNEL(sorting, largest_hundred)
{
    u32 heap[100];
    const u32 *in = gauge_ints + gauge_window(round, 1024);
    for (int i = 0; i < 100; i++)
        heap[i] = ~in[i];
    for (int i = 49; i >= 0; i--)
        sink(heap, i, 100);
    for (int i = 100; i < 3000; i++)
        if (~in[i] < heap[0]) {
            heap[0] = ~in[i];
            sink(heap, 0, 100);
        }
    return check(heap, 100);
}
