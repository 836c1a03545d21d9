/* Graphs and dynamic programming. */
#include "gauge.h"

GAUGE_KERNEL(graphs, knapsack)
{
    u32 *best = (u32 *)gauge_scratch;
    for (int i = 0; i < 600; i++)
        ((volatile u32 *)best)[i] = 0;
    for (u32 item = 0; item < 24; item++) {
        u32 random = gauge_ints[(item + round * 7) & 4095], weight = 1 + (random & 63), worth = random >> 6 & 255;
        for (u32 left = 599; left >= weight; left--) {
            u32 with = best[left - weight] + worth;
            best[left] = with > best[left] ? with : best[left];
        }
    }
    return best[599];
}

GAUGE_KERNEL(graphs, common_subsequence)
{
    u16 rows[2][129];
    const u8 *a = gauge_text + gauge_window(round, 8192), *b = gauge_text + gauge_window(round + 3, 8192);
    for (int k = 0; k <= 128; k++)
        rows[0][k] = rows[1][k] = 0;
    for (int i = 0; i < 60; i++) {
        u16 *now = rows[i & 1], *before = rows[~i & 1];
        for (int k = 0; k < 128; k++)
            if (a[i] == b[k])
                now[k + 1] = before[k] + 1;
            else
                now[k + 1] = now[k] > before[k + 1] ? now[k] : before[k + 1];
    }
    return rows[1][128];
}

GAUGE_KERNEL(graphs, flood)
{
    /* Breadth-first search over a grid of 64 × 48 with random walls. */
    u8 *seen = (u8 *)gauge_scratch;
    u16 *queue = (u16 *)(gauge_scratch + 1024);
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    for (int i = 0; i < 64 * 50; i++)
        ((volatile u8 *)seen)[i] = (u8)(in[i] < 70 || (i & 63) == 0 || (i & 63) == 63 || i < 64 || i >= 64 * 49);
    u32 head = 0, tail = 0, check = 0;
    for (u32 start = 65; start < 64 * 49; start += 701) {
        if (seen[start])
            continue;
        seen[start] = 1;
        queue[tail++] = (u16)start;
        while (head < tail) {
            u32 at = queue[head++];
            static const i32 steps[4] = {1, -1, 64, -64};
            for (int k = 0; k < 4; k++) {
                u32 to = (u32)((i32)at + steps[k]);
                if (!seen[to]) {
                    seen[to] = 1;
                    queue[tail++] = (u16)to;
                }
            }
            check = check * 3 + at;
        }
    }
    return check + tail;
}

GAUGE_KERNEL(graphs, union_find)
{
    u16 *parent = (u16 *)gauge_scratch;
    u64 joined = 0;
    for (u32 i = 0; i < 1024; i++)
        ((volatile u16 *)parent)[i] = (u16)i;
    for (u32 i = 0; i < 1200; i++) {
        u32 random = gauge_ints[(i + round * 101) & 4095], a = random & 1023, b = random >> 9 & 1023;
        while (parent[a] != a)
            a = parent[a] = parent[parent[a]];
        while (parent[b] != b)
            b = parent[b] = parent[parent[b]];
        joined += a != b;
        parent[a] = (u16)b;
    }
    return joined;
}

GAUGE_KERNEL(graphs, heap_queue)
{
    /* The event queue of a simulation: takes the first event, adds a later one. */
    u32 heap[128];
    u64 check = 0, state = gauge_mix(round) | 1;
    for (u32 i = 0; i < 127; i++)
        heap[i] = i * 16;
    for (int event = 0; event < 1000; event++) {
        u32 now = heap[0], later = now + (u32)(gauge_next(&state) >> 40 & 4095), at = 0;
        check += now;
        for (;;) {
            u32 child = 2 * at + 1;
            if (child >= 127)
                break;
            if (child + 1 < 127 && heap[child + 1] < heap[child])
                child++;
            if (heap[child] >= later)
                break;
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = later;
    }
    return check;
}

GAUGE_KERNEL(graphs, rank_pages)
{
    double *now = (double *)gauge_scratch, *then = now + 256, *kept;
    for (int i = 0; i < 256; i++)
        ((volatile double *)now)[i] = 1.0;
    for (int step = 0; step < 8; step++) {
        for (int i = 0; i < 256; i++) {
            double sum = 0.15;
            for (int k = 0; k < 6; k++)
                sum += 0.1416 * now[gauge_ints[(u32)(i * 6 + k) + (round & 1023)] & 255];
            then[i] = sum;
        }
        kept = now;
        now = then;
        then = kept;
    }
    return gauge_bits(now[0] + now[255]);
}

GAUGE_KERNEL(graphs, depth_first)
{
    /* Depth-first search with an explicit stack; edges are random. */
    u8 *seen = (u8 *)gauge_scratch;
    u16 stack[2048];
    u64 check = 0;
    for (int i = 0; i < 512; i++)
        ((volatile u8 *)seen)[i] = 0;
    for (u32 start = 0; start < 512; start++) {
        u32 top = 0;
        stack[top++] = (u16)start;
        while (top) {
            u32 at = stack[--top];
            if (seen[at])
                continue;
            seen[at] = 1;
            check = check * 3 + at;
            for (u32 k = 0; k < 3; k++)
                stack[top++] = gauge_ints[(at * 3 + k + round * 11) & 4095] & 511;
        }
    }
    return check;
}
