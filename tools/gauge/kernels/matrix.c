/* Matrices, filters and stencils. */
#include "gauge.h"

enum { N = 28 };

GAUGE_KERNEL(matrix, multiply_rows)
{
    double *out = (double *)gauge_scratch;
    const double *a = gauge_doubles + gauge_window(round, 1024), *b = gauge_doubles + 2048;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            double sum = 0;
            for (int m = 0; m < N; m++)
                sum += a[i * N + m] * b[m * N + k];
            out[i * N + k] = sum;
        }
    return gauge_bits(out[5] + out[N * N - 1]);
}

GAUGE_KERNEL(matrix, multiply_outer)
{
    double *out = (double *)gauge_scratch;
    const double *a = gauge_doubles + gauge_window(round, 1024), *b = gauge_doubles + 2048;
    for (int i = 0; i < N * N; i++)
        ((volatile double *)out)[i] = 0;
    for (int i = 0; i < N; i++)
        for (int m = 0; m < N; m++)
            for (int k = 0; k < N; k++)
                out[i * N + k] += a[i * N + m] * b[m * N + k];
    return gauge_bits(out[5] + out[N * N - 1]);
}

GAUGE_KERNEL(matrix, multiply_ints)
{
    u32 *out = (u32 *)gauge_scratch, check = 0;
    const u32 *a = gauge_ints + gauge_window(round, 1024), *b = gauge_ints + 2048;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            u32 sum = 0;
            for (int m = 0; m < N; m++)
                sum += a[i * N + m] * b[k * N + m];
            out[i * N + k] = sum;
            check ^= sum;
        }
    return check;
}

GAUGE_KERNEL(matrix, transpose)
{
    u32 *out = (u32 *)gauge_scratch;
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < 64; i++)
            for (int k = 0; k < 64; k++)
                ((volatile u32 *)out)[k * 64 + i] = gauge_ints[i * 64 + k] + (u32)pass;
    return out[3] + out[4000] + round;
}

GAUGE_KERNEL(matrix, transpose_blocks)
{
    u32 *out = (u32 *)gauge_scratch;
    for (int pass = 0; pass < 3; pass++)
        for (int bi = 0; bi < 64; bi += 8)
            for (int bk = 0; bk < 64; bk += 8)
                for (int i = bi; i < bi + 8; i++)
                    for (int k = bk; k < bk + 8; k++)
                        ((volatile u32 *)out)[k * 64 + i] = gauge_ints[i * 64 + k] + (u32)pass;
    return out[3] + out[4000] + round;
}

GAUGE_KERNEL(matrix, columns)
{
    u64 check = round;
    for (int pass = 0; pass < 3; pass++)
        for (int k = 0; k < 64; k++) {
            u32 sum = 0;
            for (int i = 0; i < 64; i++)
                sum += gauge_ints[i * 64 + k];
            check = check * 3 + sum;
        }
    return check;
}

GAUGE_KERNEL(matrix, stencil_line)
{
    float *out = (float *)gauge_scratch;
    for (int pass = 0; pass < 4; pass++)
        for (int i = 1; i < 4095; i++)
            out[i] = 0.25f * gauge_floats[i - 1] + 0.5f * gauge_floats[i] + 0.25f * gauge_floats[i + 1] + (float)(round & 3);
    return gauge_bits(out[9] + out[4000]);
}

GAUGE_KERNEL(matrix, stencil_plane)
{
    double *out = (double *)gauge_scratch;
    for (int pass = 0; pass < 2; pass++)
        for (int y = 1; y < 63; y++)
            for (int x = 1; x < 63; x++) {
                const double *c = gauge_doubles + y * 64 + x;
                out[y * 64 + x] = 0.2 * (c[0] + c[1] + c[-1] + c[64] + c[-64]) + (double)(round & 3);
            }
    return gauge_bits(out[65] + out[62 * 64 + 62]);
}

GAUGE_KERNEL(matrix, convolve_bytes)
{
    u8 *out = (u8 *)gauge_scratch;
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    u32 check = 0;
    for (int y = 1; y < 47; y++)
        for (int x = 1; x < 63; x++) {
            const u8 *c = in + y * 64 + x;
            int sum = c[-65] + 2 * c[-64] + c[-63] + 2 * c[-1] + 4 * c[0] + 2 * c[1] + c[63] + 2 * c[64] + c[65];
            out[y * 64 + x] = (u8)(sum >> 4);
            check += out[y * 64 + x];
        }
    return check;
}

GAUGE_KERNEL(matrix, eliminate)
{
    double *a = (double *)gauge_scratch;
    for (int i = 0; i < 24 * 24; i++)
        ((volatile double *)a)[i] = gauge_doubles[(u64)i + gauge_window(round, 1024)] + (i % 25 == 0 ? 24.0 : 0.0);
    for (int k = 0; k < 24; k++)
        for (int i = k + 1; i < 24; i++) {
            double factor = a[i * 24 + k] / a[k * 24 + k];
            for (int j = k; j < 24; j++)
                a[i * 24 + j] -= factor * a[k * 24 + j];
        }
    return gauge_bits(a[24 * 24 - 1]);
}

GAUGE_KERNEL(matrix, shortest_paths)
{
    /* The Floyd–Warshall algorithm. */
    u32 *d = (u32 *)gauge_scratch;
    u64 check = 0;
    for (int i = 0; i < 24 * 24; i++)
        ((volatile u32 *)d)[i] = 1 + (gauge_ints[(u64)i + gauge_window(round, 1024)] & 1023);
    for (int k = 0; k < 24; k++)
        for (int i = 0; i < 24; i++)
            for (int j = 0; j < 24; j++) {
                u32 by = d[i * 24 + k] + d[k * 24 + j];
                if (by < d[i * 24 + j])
                    d[i * 24 + j] = by;
            }
    for (int i = 0; i < 24 * 24; i++)
        check = check * 3 + d[i];
    return check;
}

GAUGE_KERNEL(matrix, cosine_transform)
{
    double check = 0;
    for (int block = 0; block < 40; block++) {
        const double *in = gauge_doubles + ((block * 8 + round) & 2047);
        double out[8];
        for (int k = 0; k < 8; k++) {
            double sum = 0;
            for (int n = 0; n < 8; n++)
                sum += in[n] * gauge_doubles[3000 + k * 8 + n];
            out[k] = sum;
        }
        for (int k = 0; k < 8; k++)
            check += out[k] * out[7 - k];
    }
    return gauge_bits(check);
}

GAUGE_KERNEL(matrix, vector_by_matrix)
{
    float out[48], check = 0;
    for (int pass = 0; pass < 4; pass++)
        for (int i = 0; i < 48; i++) {
            float sum = (float)pass;
            for (int k = 0; k < 48; k++)
                sum += gauge_floats[i * 48 + k] * gauge_floats[2500 + ((k + (int)(round & 511)))];
            out[i] = sum;
            check += out[i];
        }
    return gauge_bits(check);
}
