/* Work on text, byte by byte. */
#include "gauge.h"

GAUGE_KERNEL(strings, length)
{
    u8 *text = (u8 *)gauge_scratch;
    u64 check = 0;
    for (int i = 0; i < 4000; i++)
        ((volatile u8 *)text)[i] = (u8)(gauge_bytes[(u64)i + gauge_window(round, 8192)] % 40);
    for (const u8 *at = text; at < text + 3900;) {
        u64 length = 0;
        while (at < text + 3999 && at[length])
            length++;
        check = check * 3 + length;
        at += length + 1;
    }
    return check;
}

GAUGE_KERNEL(strings, compare)
{
    const u8 *a = gauge_text;
    u64 check = 0;
    for (u64 i = 0; i < 1200; i++) {
        const u8 *b = gauge_text + gauge_window(round * 1200 + i, 8192);
        u32 k = 0;
        while (k < 200 && a[k] == b[k])
            k++;
        check += k + (a[k] < b[k]);
        a = gauge_text + (b - gauge_text) / 2;
    }
    return check;
}

GAUGE_KERNEL(strings, find_byte)
{
    const u8 *at = gauge_text + gauge_window(round, 1024), *end = gauge_text + 15000;
    u64 check = 0;
    while (at < end) {
        const u8 *found = at;
        while (found < end && *found != '\n')
            found++;
        check = check * 5 + (u64)(found - at);
        at = found + 1;
    }
    return check;
}

GAUGE_KERNEL(strings, find_naive)
{
    const u8 *needle = gauge_text + gauge_window(round, 4096);
    u64 check = 0;
    for (int i = 0; i + 8 < 10000; i++) {
        int k = 0;
        while (k < 6 && gauge_text[i + k] == needle[k])
            k++;
        check += (u64)(k == 6) * (u64)i + (u64)(k == 3);
    }
    return check;
}

GAUGE_KERNEL(strings, find_horspool)
{
    u8 skip[256];
    u64 check = 0;
    for (u64 wanted = 0; wanted < 4; wanted++) {
        const u8 *needle = gauge_text + gauge_window(round * 4 + wanted, 4096);
        for (int i = 0; i < 256; i++)
            skip[i] = 8;
        for (int i = 0; i < 7; i++)
            skip[needle[i]] = (u8)(7 - i);
        for (int at = 0; at + 8 <= 12000;) {
            int k = 7;
            while (k >= 0 && gauge_text[at + k] == needle[k])
                k--;
            if (k < 0)
                check += (u64)at;
            at += skip[gauge_text[at + 7]];
        }
    }
    return check;
}

GAUGE_KERNEL(strings, find_kmp)
{
    const u8 *needle = gauge_runs + gauge_window(round, 4096);
    u8 border[12];
    border[0] = 0;
    for (u32 i = 1, k = 0; i < 12; i++) {
        while (k > 0 && needle[k] != needle[i])
            k = border[k - 1];
        k += needle[k] == needle[i];
        border[i] = (u8)k;
    }
    u64 check = 0;
    u32 k = 0;
    for (u32 i = 0; i < 8000; i++) {
        while (k > 0 && needle[k] != gauge_runs[i])
            k = border[k - 1];
        k += needle[k] == gauge_runs[i];
        if (k == 12) {
            check += i;
            k = border[11];
        }
    }
    return check + k;
}

GAUGE_KERNEL(strings, upper)
{
    u8 *out = (u8 *)gauge_scratch;
    const u8 *in = gauge_text + gauge_window(round, 2048);
    for (int i = 0; i < 12000; i++) {
        u8 letter = in[i];
        if (letter >= 'a' && letter <= 'z')
            letter -= 32;
        out[i] = letter;
    }
    return gauge_scratch[7] ^ gauge_scratch[1400];
}

GAUGE_KERNEL(strings, count_words)
{
    u64 words = 0, lines = 0, inside = 0;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 8000; i++) {
        u8 letter = in[i];
        lines += letter == '\n';
        if (letter == ' ' || letter == '\n')
            inside = 0;
        else if (!inside) {
            inside = 1;
            words++;
        }
    }
    return words * 1000 + lines;
}

GAUGE_KERNEL(strings, base64)
{
    static const u8 digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    u8 *out = (u8 *)gauge_scratch;
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    for (int i = 0, k = 0; i < 9000; i += 3, k += 4) {
        u32 three = (u32)in[i] << 16 | (u32)in[i + 1] << 8 | in[i + 2];
        out[k] = digits[three >> 18];
        out[k + 1] = digits[three >> 12 & 63];
        out[k + 2] = digits[three >> 6 & 63];
        out[k + 3] = digits[three & 63];
    }
    return gauge_scratch[0] ^ gauge_scratch[1499];
}

GAUGE_KERNEL(strings, unhex)
{
    u8 *hex = (u8 *)gauge_scratch, *out = hex + 16384;
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    for (int i = 0; i < 3000; i++) {
        ((volatile u8 *)hex)[2 * i] = "0123456789abcdef"[in[i] >> 4];
        ((volatile u8 *)hex)[2 * i + 1] = "0123456789abcdef"[in[i] & 15];
    }
    u64 check = 0;
    for (int i = 0; i < 3000; i++) {
        u8 high = hex[2 * i], low = hex[2 * i + 1];
        high = high <= '9' ? high - '0' : high - 'a' + 10;
        low = low <= '9' ? low - '0' : low - 'a' + 10;
        out[i] = (u8)(high << 4 | low);
        check += out[i];
    }
    return check;
}

GAUGE_KERNEL(strings, distance_edit)
{
    const u8 *a = gauge_text + gauge_window(round, 8192), *b = gauge_text + gauge_window(round + 99, 8192);
    u32 row[81];
    for (u32 k = 0; k <= 80; k++)
        row[k] = k;
    for (u32 i = 1; i <= 80; i++) {
        u32 diagonal = row[0];
        row[0] = i;
        for (u32 k = 1; k <= 80; k++) {
            u32 change = diagonal + (a[i - 1] != b[k - 1]), drop = row[k] + 1, add = row[k - 1] + 1;
            diagonal = row[k];
            change = change < drop ? change : drop;
            row[k] = change < add ? change : add;
        }
    }
    return row[80];
}

GAUGE_KERNEL(strings, utf8_valid)
{
    u64 good = 0;
    const u8 *in = gauge_bytes + gauge_window(round, 4096);
    for (int i = 0; i < 5000;) {
        u8 lead = in[i];
        int more = lead < 0x80 ? 0 : (lead & 0xe0) == 0xc0 ? 1 : (lead & 0xf0) == 0xe0 ? 2 : (lead & 0xf8) == 0xf0 ? 3 : -1;
        int k = 1;
        while (k <= more && (in[i + k] & 0xc0) == 0x80)
            k++;
        good += more >= 0 && k > more;
        i += k;
    }
    return good;
}

GAUGE_KERNEL(strings, reverse)
{
    u8 *out = (u8 *)gauge_scratch;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 8000; i++)
        out[i] = in[7999 - i];
    for (int i = 0, k = 7999; i < k; i++, k--) {
        u8 kept = out[i];
        out[i] = out[k] ^ 1;
        out[k] = kept;
    }
    return gauge_scratch[1] ^ gauge_scratch[998];
}

GAUGE_KERNEL(strings, repeat_store)
{
    /* The repeated string instructions rep stosb and rep movsb. */
    u8 *to = (u8 *)gauge_scratch;
    for (u64 i = 0; i < 40; i++) {
        u8 *at = to + (i & 3) * 4096;
        const u8 *from = gauge_bytes + (i & 7) * 1024;
        size_t length = 1024;
        __asm__ volatile("rep stosb" : "+D"(at), "+c"(length) : "a"(i + round) : "memory");
        length = 1024;
        __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(length) : : "memory");
    }
    return gauge_scratch[0] ^ gauge_scratch[1700 - 512];
}

GAUGE_KERNEL(strings, repeat_short_bytes)
{
    /* Compilers write copies of unknown size in this way. */
    u8 *to = (u8 *)gauge_scratch;
    u64 state = gauge_mix(round) | 1;
    for (u64 i = 0; i < 300; i++) {
        u8 *at = to + (i & 63) * 128;
        const u8 *from = gauge_bytes + (i & 31) * 128;
        size_t length = (gauge_next(&state) >> 59) + 1;
        __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(length) : : "memory");
    }
    return gauge_scratch[0];
}

GAUGE_KERNEL(strings, repeat_short_words)
{
    u64 *to = gauge_scratch;
    for (u64 i = 0; i < 300; i++) {
        u64 *at = to + (i & 63) * 16;
        const u64 *from = gauge_words + (i & 31) * 16 + (round & 15);
        size_t length = 6;
        __asm__ volatile("rep movsq" : "+D"(at), "+S"(from), "+c"(length) : : "memory");
    }
    return gauge_scratch[0] ^ gauge_scratch[16 * 63 + 5];
}

GAUGE_KERNEL(strings, repeat_none)
{
    /* A copy without a remainder: the second instruction copies nothing. */
    u64 *to = gauge_scratch;
    for (u64 i = 0; i < 300; i++) {
        u64 *at = to + (i & 63) * 16;
        const u64 *from = gauge_words + (i & 31) * 16 + (round & 15);
        size_t length = 6;
        __asm__ volatile("rep movsq" : "+D"(at), "+S"(from), "+c"(length) : : "memory");
        __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(length) : : "memory");
    }
    return gauge_scratch[0] ^ gauge_scratch[16 * 63 + 5];
}

GAUGE_KERNEL(strings, repeat_short_fill)
{
    u64 *to = gauge_scratch;
    for (u64 i = 0; i < 300; i++) {
        u64 *at = to + (i & 63) * 32;
        size_t length = 4 + (i & 15);
        __asm__ volatile("rep stosq" : "+D"(at), "+c"(length) : "a"(i + round) : "memory");
    }
    return gauge_scratch[0] ^ gauge_scratch[32 * 63 + 3];
}
