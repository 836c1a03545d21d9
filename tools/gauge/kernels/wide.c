/* Instructions of x86-64-v3; the program leaves these kernels out if the CPU lacks them. */
#include "gauge.h"
#include <immintrin.h>

GAUGE_KERNEL_NEEDING(wide, fused_chain, GAUGE_V3)
{
    __m128d value = _mm_set_sd(0.3 + (double)(round & 7)), factor = _mm_set_sd(0.999), more = _mm_set_sd(0.001);
    for (int i = 0; i < 8000; i++)
        value = _mm_fmadd_sd(value, factor, more);
    return gauge_bits(_mm_cvtsd_f64(value));
}

GAUGE_KERNEL_NEEDING(wide, fused_dot, GAUGE_V3)
{
    __m256 sum = _mm256_setzero_ps(), other = _mm256_setzero_ps();
    const float *left = gauge_floats + gauge_window(round, 1024);
    for (int pass = 0; pass < 12; pass++)
        for (int i = 0; i < 3008; i += 16) {
            sum = _mm256_fmadd_ps(_mm256_loadu_ps(left + i), _mm256_load_ps(gauge_floats + i), sum);
            other = _mm256_fmadd_ps(_mm256_loadu_ps(left + i + 8), _mm256_load_ps(gauge_floats + i + 8), other);
        }
    float out[8];
    _mm256_storeu_ps(out, _mm256_add_ps(sum, other));
    return gauge_bits(out[0] + out[3]) ^ gauge_bits(out[7]);
}

GAUGE_KERNEL_NEEDING(wide, sum_wide, GAUGE_V3)
{
    __m256i sum = _mm256_set1_epi32((int)round);
    for (int pass = 0; pass < 20; pass++)
        for (int i = 0; i < GAUGE_WORDS; i += 8)
            sum = _mm256_add_epi32(_mm256_xor_si256(sum, _mm256_set1_epi32(pass)), _mm256_load_si256((const __m256i *)(gauge_ints + i)));
    return (u64)_mm256_extract_epi64(sum, 0) ^ (u64)_mm256_extract_epi64(sum, 3);
}

GAUGE_KERNEL_NEEDING(wide, gather_wide, GAUGE_V3)
{
    __m256i sum = _mm256_setzero_si256(), mask = _mm256_set1_epi32(4095);
    for (int i = 0; i < 3000; i += 8) {
        __m256i at = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(gauge_ints + i + (round & 1023))), mask);
        sum = _mm256_add_epi32(sum, _mm256_i32gather_epi32((const int *)gauge_ints, at, 4));
    }
    return (u64)_mm256_extract_epi64(sum, 0) ^ (u64)_mm256_extract_epi64(sum, 3);
}

GAUGE_KERNEL_NEEDING(wide, extract_bits, GAUGE_V3)
{
    u64 sum = 0;
    for (int i = 0; i < GAUGE_WORDS; i++)
        sum += _pext_u64(gauge_words[i], 0x0ff00ff00ff00ff0u ^ round) ^ _pdep_u64(sum, 0x5555555555555555u);
    return sum;
}

GAUGE_KERNEL_NEEDING(wide, multiply_mulx, GAUGE_V3)
{
    unsigned long long low, high = round | 1;
    u64 sum = 0;
    for (int i = 0; i < 6000; i++) {
        low = _mulx_u64(high | 1, gauge_words[i & 4095], &high);
        sum += low;
    }
    return sum ^ high;
}

GAUGE_KERNEL_NEEDING(wide, shift_variable, GAUGE_V3)
{
    u64 value = gauge_mix(round);
    for (int i = 0; i < 8000; i++)
        value = (value << (value & 31)) + (value >> (i & 63)) + _andn_u64(value, (u64)i);
    return value;
}

GAUGE_KERNEL_NEEDING(wide, shuffle_lanes, GAUGE_V3)
{
    __m256i value = _mm256_set1_epi64x((long long)gauge_mix(round)), order = _mm256_setr_epi32(5, 2, 7, 0, 3, 6, 1, 4);
    for (int i = 0; i < 5000; i++)
        value = _mm256_add_epi32(_mm256_permutevar8x32_epi32(value, order), order);
    return (u64)_mm256_extract_epi64(value, 2);
}
