/* Parses and writes text. */
#include "gauge.h"

GAUGE_KERNEL(parsing, numbers_decimal)
{
    u64 sum = 0;
    const u8 *at = gauge_text + gauge_window(round, 4096), *end = at + 9000;
    while (at < end) {
        if (*at < '0' || *at > '9') {
            at++;
            continue;
        }
        u64 value = 0;
        while (*at >= '0' && *at <= '9' && at < end)
            value = value * 10 + (u64)(*at++ - '0');
        sum += value;
    }
    return sum;
}

GAUGE_KERNEL(parsing, write_decimal)
{
    u8 *out = (u8 *)gauge_scratch;
    u64 check = 0;
    for (u32 i = 0; i < 500; i++) {
        u32 value = gauge_ints[(i + round * 31) & 4095], length = 0;
        u8 digits[12];
        do {
            digits[length++] = (u8)('0' + value % 10);
            value /= 10;
        } while (value);
        check += length;
        while (length)
            *out++ = digits[--length];
        *out++ = ',';
    }
    return check + gauge_scratch[3] + gauge_scratch[300];
}

GAUGE_KERNEL(parsing, fields)
{
    /* Hashes each field between commas. */
    u64 check = 0, hash = 5381, count = 0;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 8000; i++) {
        if (in[i] == ',' || in[i] == '\n') {
            check ^= hash + count++;
            hash = 5381;
        } else
            hash = hash * 33 + in[i];
    }
    return check;
}

GAUGE_KERNEL(parsing, json_skip)
{
    const u8 *in = gauge_json + gauge_window(round, 4096);
    u64 depth = 0, strings = 0, numbers = 0, check = 0;
    for (int i = 0; i < 7000; i++) {
        switch (in[i]) {
        case '{':
        case '[': depth++; break;
        case '}':
        case ']': depth -= depth > 0; break;
        case '"':
            strings++;
            for (i++; i < 7000 && in[i] != '"'; i++)
                if (in[i] == '\\')
                    i++;
            break;
        case '-':
        case '0' ... '9': numbers++; break;
        default: break;
        }
        check += depth;
    }
    return check + strings * 3 + numbers * 7;
}

GAUGE_KERNEL(parsing, tokens)
{
    /* A table gives each byte's class; a new token starts where the class changes. */
    u8 classes[256];
    for (int i = 0; i < 256; i++)
        classes[i] = (u8)(i >= '0' && i <= '9' ? 1 : (i | 32) >= 'a' && (i | 32) <= 'z' ? 2 : i == ' ' || i == '\n' ? 0 : 3);
    u64 counts[4] = {0, 0, 0, 0};
    u32 last = 0;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 9000; i++) {
        u32 class = classes[in[i]];
        if (class != last)
            counts[class]++;
        last = class;
    }
    return counts[1] + counts[2] * 1000 + counts[3] * 1000000;
}

GAUGE_KERNEL(parsing, expression)
{
    /* Precedence climbing without recursion, over digits and operators made from the text. */
    u64 check = 0, sum = 0, product = 1;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 6000; i++) {
        u32 digit = in[i] % 9 + 1;
        switch (in[i] >> 3 & 3) {
        case 0: sum += product; product = digit; break;
        case 1: product *= digit; break;
        case 2: sum -= product; product = digit; break;
        default: check ^= sum + product; sum = 0; product = 1; break;
        }
    }
    return check + sum;
}

GAUGE_KERNEL(parsing, varints)
{
    u8 *out = (u8 *)gauge_scratch, *at = out;
    for (u32 i = 0; i < 1200; i++) {
        u64 value = gauge_words[(i + round * 13) & 4095] >> (gauge_ints[i] & 63);
        while (value >= 128) {
            *at++ = (u8)(value | 128);
            value >>= 7;
        }
        *at++ = (u8)value;
    }
    u64 check = 0;
    for (const u8 *from = out; from < at;) {
        u64 value = 0;
        u32 shift = 0;
        while (*from & 128) {
            value |= (u64)(*from++ & 127) << shift;
            shift += 7;
        }
        value |= (u64)*from++ << shift;
        check = check * 3 + value;
    }
    return check;
}

GAUGE_KERNEL(parsing, dates)
{
    u8 *text = (u8 *)gauge_scratch;
    for (u32 i = 0; i < 400; i++) {
        u32 random = gauge_ints[(i + round * 29) & 4095], year = 1970 + random % 128, month = 1 + (random >> 7) % 12, day = 1 + (random >> 11) % 28;
        u8 *at = text + i * 11;
        at[0] = (u8)('0' + year / 1000);
        at[1] = (u8)('0' + year / 100 % 10);
        at[2] = (u8)('0' + year / 10 % 10);
        at[3] = (u8)('0' + year % 10);
        at[4] = at[7] = '-';
        at[5] = (u8)('0' + month / 10);
        at[6] = (u8)('0' + month % 10);
        at[8] = (u8)('0' + day / 10);
        at[9] = (u8)('0' + day % 10);
        at[10] = '\n';
    }
    u64 check = 0;
    for (u32 i = 0; i < 400; i++) {
        u32 parts[3] = {0, 0, 0}, part = 0;
        for (const u8 *at = text + i * 11; *at != '\n'; at++) {
            if (*at == '-')
                part++;
            else
                parts[part] = parts[part] * 10 + (u32)(*at - '0');
        }
        check += parts[0] * 372 + parts[1] * 31 + parts[2];
    }
    return check;
}

GAUGE_KERNEL(parsing, wildcard)
{
    static const u8 pattern[] = "*e*t?n*s";
    u64 matches = 0;
    for (u32 word = 0; word < 150; word++) {
        const u8 *text = gauge_text + gauge_window(round * 150 + word, 8192);
        u32 at = 0, p = 0, star = ~0u, mark = 0;
        while (at < 30) {
            if (p < 8 && (pattern[p] == '?' || pattern[p] == text[at])) {
                at++;
                p++;
            } else if (p < 8 && pattern[p] == '*') {
                star = p++;
                mark = at;
            } else if (star != ~0u) {
                p = star + 1;
                at = ++mark;
            } else
                break;
        }
        matches += (p == 8) + (at == 30) * 2u;
    }
    return matches;
}
