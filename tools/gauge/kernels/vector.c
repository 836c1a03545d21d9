/* Loops that compilers vectorise, and vectors written by hand (SSE4.2). */
#include "gauge.h"
#include <emmintrin.h>
#include <smmintrin.h>
#include <tmmintrin.h>

GAUGE_KERNEL(vector, scale_add)
{
    float *out = (float *)gauge_scratch;
    float factor = (float)(round & 7) + 0.5f;
    for (int pass = 0; pass < 6; pass++)
        for (int i = 0; i < 4096; i++)
            out[i] = gauge_floats[i] * factor + (float)pass;
    return gauge_bits(out[17] + out[4095]);
}

GAUGE_KERNEL(vector, add_ints)
{
    u32 *out = (u32 *)gauge_scratch;
    const u32 *data = gauge_ints + gauge_window(round, 1024);
    for (int pass = 0; pass < 10; pass++)
        for (int i = 0; i < 3000; i++)
            out[i] = data[i] + gauge_ints[i] + (u32)pass;
    return out[5] + out[2999];
}

GAUGE_KERNEL(vector, sum_ints)
{
    u32 sum = 0;
    for (u32 pass = 0; pass < 10; pass++)
        for (u32 i = 0; i < 4096; i++)
            sum += gauge_ints[i] ^ (pass + (u32)round);
    return sum;
}

GAUGE_KERNEL(vector, largest_int)
{
    i32 largest = -0x7fffffff;
    u64 check = 0;
    for (u32 pass = 0; pass < 8; pass++) {
        for (u32 i = 0; i < 4096; i++) {
            i32 value = (i32)(gauge_ints[i] * (2 * pass + 1));
            largest = value > largest ? value : largest;
        }
        check += (u32)largest + round;
    }
    return check;
}

GAUGE_KERNEL(vector, add_bytes_saturated)
{
    u8 *out = (u8 *)gauge_scratch;
    u8 more = (u8)(round & 63);
    for (int i = 0; i < GAUGE_BYTES; i++) {
        u32 sum = gauge_bytes[i] + (u32)more;
        out[i] = (u8)(sum > 255 ? 255 : sum);
    }
    return out[3] + out[GAUGE_BYTES - 1];
}

GAUGE_KERNEL(vector, grey)
{
    u8 *out = (u8 *)gauge_scratch;
    const u8 *in = gauge_bytes + gauge_window(round, 1024);
    u32 check = 0;
    for (int i = 0; i < 5000; i++) {
        out[i] = (u8)((in[3 * i] * 77 + in[3 * i + 1] * 150 + in[3 * i + 2] * 29) >> 8);
        check += out[i];
    }
    return check;
}

GAUGE_KERNEL(vector, differences)
{
    const u8 *left = gauge_bytes + gauge_window(round, 4096), *right = gauge_text;
    u32 sum = 0;
    for (int i = 0; i < 12000; i++) {
        int difference = left[i] - right[i];
        sum += (u32)(difference < 0 ? -difference : difference);
    }
    return sum;
}

GAUGE_KERNEL(vector, count_byte)
{
    u8 wanted = (u8)('a' + (round & 15));
    u64 count = 0;
    for (int i = 0; i < GAUGE_BYTES; i++)
        count += gauge_text[i] == wanted;
    return count;
}

GAUGE_KERNEL(vector, prefix_sum)
{
    u32 *out = (u32 *)gauge_scratch, sum = (u32)round;
    for (int pass = 0; pass < 4; pass++)
        for (int i = 0; i < 4096; i++)
            out[i] = sum += gauge_ints[i];
    return out[4095];
}

GAUGE_KERNEL(vector, distance_sad)
{
    __m128i sum = _mm_setzero_si128();
    const u8 *left = gauge_bytes + gauge_window(round, 2048);
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < 12000; i += 16) {
            __m128i a = _mm_loadu_si128((const __m128i *)(left + i)), b = _mm_load_si128((const __m128i *)(gauge_text + i));
            sum = _mm_add_epi64(sum, _mm_sad_epu8(a, b));
        }
    return (u64)_mm_extract_epi64(sum, 0) + (u64)_mm_extract_epi64(sum, 1);
}

GAUGE_KERNEL(vector, shuffle_chain)
{
    __m128i order = _mm_set_epi8(3, 0, 7, 5, 11, 9, 15, 1, 14, 2, 12, 4, 13, 6, 10, 8);
    __m128i value = _mm_set1_epi64x((long long)gauge_mix(round));
    for (int i = 0; i < 8000; i++)
        value = _mm_xor_si128(_mm_shuffle_epi8(value, order), order);
    return (u64)_mm_extract_epi64(value, 0);
}

GAUGE_KERNEL(vector, multiply_add_words)
{
    __m128i sum = _mm_setzero_si128();
    const u8 *left = gauge_bytes + gauge_window(round, 2048);
    for (int pass = 0; pass < 4; pass++)
        for (int i = 0; i < 12000; i += 16)
            sum = _mm_add_epi32(sum, _mm_madd_epi16(_mm_loadu_si128((const __m128i *)(left + i)), _mm_load_si128((const __m128i *)(gauge_text + i))));
    return (u64)_mm_extract_epi64(sum, 0) + (u64)_mm_extract_epi64(sum, 1);
}

GAUGE_KERNEL(vector, hex_by_shuffle)
{
    const __m128i digits = _mm_setr_epi8('0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f');
    const __m128i low = _mm_set1_epi8(15);
    u8 *out = (u8 *)gauge_scratch;
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    for (int i = 0; i < 12000; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(in + i));
        __m128i a = _mm_shuffle_epi8(digits, _mm_and_si128(_mm_srli_epi16(bytes, 4), low));
        __m128i b = _mm_shuffle_epi8(digits, _mm_and_si128(bytes, low));
        _mm_store_si128((__m128i *)(out + 2 * i), _mm_unpacklo_epi8(a, b));
        _mm_store_si128((__m128i *)(out + 2 * i + 16), _mm_unpackhi_epi8(a, b));
    }
    return gauge_scratch[0] ^ gauge_scratch[2999];
}

GAUGE_KERNEL(vector, mask_scan)
{
    const __m128i blank = _mm_set1_epi8(' ');
    u64 check = 0;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 12000; i += 16) {
        u32 mask = (u32)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(in + i)), blank));
        while (mask) {
            check += (u64)i + (u64)__builtin_ctz(mask);
            mask &= mask - 1;
        }
    }
    return check;
}

GAUGE_KERNEL(vector, transpose_four)
{
    __m128 a = _mm_set_ps(1, 2, 3, 4), sum = _mm_setzero_ps();
    for (int i = 0; i < 4000; i += 16) {
        const float *in = gauge_floats + ((i + 4 * round) & (4095 - 15));
        __m128 r0 = _mm_loadu_ps(in), r1 = _mm_loadu_ps(in + 4), r2 = _mm_loadu_ps(in + 8), r3 = _mm_loadu_ps(in + 12);
        _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
        sum = _mm_add_ps(sum, _mm_mul_ps(_mm_add_ps(r0, r1), _mm_sub_ps(r2, _mm_mul_ps(r3, a))));
        a = _mm_max_ps(a, r3);
    }
    float out[4];
    _mm_storeu_ps(out, sum);
    return gauge_bits(out[0] + out[1]) ^ gauge_bits(out[2] + out[3]);
}
