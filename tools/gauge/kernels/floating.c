/* Floating point: chains, independent sums, divisions and roots. */
#include "gauge.h"

GAUGE_KERNEL(floating, sum_chain)
{
    double sum = (double)(round & 7);
    for (int pass = 0; pass < 4; pass++)
        for (int i = 0; i < GAUGE_WORDS; i++)
            sum += gauge_doubles[i];
    return gauge_bits(sum);
}

GAUGE_KERNEL(floating, sum_four)
{
    double a = (double)(round & 7), b = 0, c = 0, d = 0;
    for (int pass = 0; pass < 6; pass++)
        for (int i = 0; i < GAUGE_WORDS; i += 4) {
            a += gauge_doubles[i];
            b += gauge_doubles[i + 1];
            c += gauge_doubles[i + 2];
            d += gauge_doubles[i + 3];
        }
    return gauge_bits(a + b + c + d);
}

GAUGE_KERNEL(floating, dot_float)
{
    const float *left = gauge_floats + gauge_window(round, 1024), *right = left + 512;
    float sum = 0;
    for (int pass = 0; pass < 5; pass++)
        for (int i = 0; i < 2500; i++)
            sum += left[i] * right[i];
    return gauge_bits(sum);
}

GAUGE_KERNEL(floating, horner)
{
    double check = 0;
    for (int i = 0; i < 2000; i++) {
        double x = gauge_doubles[(i + round) & (GAUGE_WORDS - 1)];
        double y = 0.1;
        y = y * x + 0.3;
        y = y * x - 0.7;
        y = y * x + 1.1;
        y = y * x - 0.2;
        y = y * x + 0.9;
        y = y * x + 0.05;
        check += y;
    }
    return gauge_bits(check);
}

GAUGE_KERNEL(floating, logistic_chain)
{
    double x = 0.25 + (double)(round & 63) * 0x1p-8;
    for (int i = 0; i < 8000; i++)
        x = 3.75 * x * (1.0 - x);
    return gauge_bits(x);
}

GAUGE_KERNEL(floating, newton_root)
{
    double check = 0;
    for (int i = 0; i < 600; i++) {
        double value = gauge_doubles[(i + round) & (GAUGE_WORDS - 1)] * 100, root = 5;
        for (int step = 0; step < 5; step++)
            root = 0.5 * (root + value / root);
        check += root;
    }
    return gauge_bits(check);
}

GAUGE_KERNEL(floating, divide_independent)
{
    double check = 0;
    for (int i = 0; i < 6000; i++)
        check += gauge_doubles[i & (GAUGE_WORDS - 1)] / gauge_doubles[(i * 7 + round) & (GAUGE_WORDS - 1)];
    return gauge_bits(check);
}

GAUGE_KERNEL(floating, mandelbrot)
{
    u64 check = 0;
    double shift = (double)(round & 15) * 0x1p-10;
    for (int y = 0; y < 14; y++)
        for (int x = 0; x < 20; x++) {
            double cr = -2.0 + x * 0.14 + shift, ci = -1.1 + y * 0.16, r = 0, i = 0;
            int step = 0;
            while (step < 60 && r * r + i * i < 4.0) {
                double next = r * r - i * i + cr;
                i = 2 * r * i + ci;
                r = next;
                step++;
            }
            check += (u64)step;
        }
    return check;
}

GAUGE_KERNEL(floating, bodies)
{
    double px[8], py[8], vx[8], vy[8];
    for (int i = 0; i < 8; i++) {
        px[i] = gauge_doubles[i + (round & 1023)] * 10;
        py[i] = gauge_doubles[i + 8 + (round & 1023)] * 10;
        vx[i] = vy[i] = 0;
    }
    for (int step = 0; step < 40; step++) {
        for (int i = 0; i < 8; i++)
            for (int k = i + 1; k < 8; k++) {
                double dx = px[i] - px[k], dy = py[i] - py[k], force = 0.01 / (dx * dx + dy * dy + 0.01);
                vx[i] -= dx * force;
                vy[i] -= dy * force;
                vx[k] += dx * force;
                vy[k] += dy * force;
            }
        for (int i = 0; i < 8; i++) {
            px[i] += vx[i] * 0.1;
            py[i] += vy[i] * 0.1;
        }
    }
    return gauge_bits(px[0] + py[3] + px[7]);
}

GAUGE_KERNEL(floating, pi_random)
{
    u64 state = gauge_mix(round) | 1, inside = 0;
    for (int i = 0; i < 3000; i++) {
        u64 random = gauge_next(&state);
        double x = (double)(i32)(random & 0xfffff) * 0x1p-20, y = (double)(i32)(random >> 40 & 0xfffff) * 0x1p-20;
        inside += x * x + y * y < 1.0;
    }
    return inside;
}

GAUGE_KERNEL(floating, convert)
{
    i64 check = 0;
    for (int i = 0; i < 10000; i++) {
        double value = (double)(i32)gauge_ints[(i + round) & (GAUGE_WORDS - 1)] * 0.37;
        check += (i32)value;
    }
    return (u64)check;
}

GAUGE_KERNEL(floating, spheres)
{
    u64 hits = 0;
    for (int i = 0; i < 1800; i++) {
        const double *s = gauge_doubles + ((i * 4 + round) & 2047);
        double ox = s[0] * 4 - 4, oy = s[1] * 4 - 4, oz = s[2] * 4, dx = s[3], dy = s[4], dz = s[5];
        double b = ox * dx + oy * dy + oz * dz, c = ox * ox + oy * oy + oz * oz - s[6];
        double a = dx * dx + dy * dy + dz * dz, inner = b * b - a * c;
        if (inner > 0.0)
            hits += (-b / a > 0.0) + 1;
    }
    return hits;
}

GAUGE_KERNEL(floating, butterflies)
{
    double *re = (double *)gauge_scratch, *im = re + 256;
    for (int i = 0; i < 256; i++) {
        re[i] = gauge_doubles[(i + round) & (GAUGE_WORDS - 1)];
        im[i] = 0;
    }
    for (int half = 1; half < 256; half *= 2)
        for (int start = 0; start < 256; start += 2 * half)
            for (int k = 0; k < half; k++) {
                double wr = gauge_doubles[k], wi = gauge_doubles[k + 300];
                int low = start + k, high = low + half;
                double tr = re[high] * wr - im[high] * wi, ti = re[high] * wi + im[high] * wr;
                re[high] = re[low] - tr;
                im[high] = im[low] - ti;
                re[low] += tr;
                im[low] += ti;
            }
    return gauge_bits(re[1]) ^ gauge_bits(im[255]);
}
