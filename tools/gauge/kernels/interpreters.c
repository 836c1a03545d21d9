/* Interpreters and automata. */
#include "gauge.h"

enum { OP_PUSH, OP_ADD, OP_MULTIPLY, OP_SWAP, OP_DUPLICATE, OP_XOR, OP_SHIFT, OP_DROP, OP_LESS, OP_LOOP, OP_END };

/* A loop of arithmetic on a stack. */
static const u8 program[] = {OP_PUSH, 7, OP_MULTIPLY, OP_DUPLICATE, OP_PUSH, 13, OP_ADD, OP_XOR, OP_DUPLICATE, OP_SHIFT, OP_ADD,
                             OP_PUSH, 3, OP_SWAP, OP_DUPLICATE, OP_PUSH, 99, OP_LESS, OP_DROP, OP_ADD, OP_LOOP, OP_END};

GAUGE_KERNEL(interpreters, stack_switch)
{
    u64 stack[32], loops = 500;
    u32 top = 0, at = 0;
    stack[0] = round + 1;
    for (;;) {
        switch (program[at++]) {
        case OP_PUSH: stack[++top] = program[at++]; break;
        case OP_ADD: top--; stack[top] += stack[top + 1]; break;
        case OP_MULTIPLY: top--; stack[top] *= stack[top + 1]; break;
        case OP_XOR: top--; stack[top] ^= stack[top + 1]; break;
        case OP_SWAP: { u64 kept = stack[top]; stack[top] = stack[top - 1]; stack[top - 1] = kept; break; }
        case OP_DUPLICATE: stack[top + 1] = stack[top]; top++; break;
        case OP_SHIFT: stack[top] >>= 5; break;
        case OP_DROP: top--; break;
        case OP_LESS: top--; stack[top] = stack[top] < stack[top + 1]; break;
        case OP_LOOP: if (--loops) at = 0; break;
        default: return stack[top] + top;
        }
    }
}

GAUGE_KERNEL(interpreters, stack_threaded)
{
    static const void *const labels[] = {&&push, &&add, &&multiply, &&swap, &&duplicate, &&exclusive, &&shift, &&drop, &&less, &&loop, &&end};
    u64 stack[32], loops = 500;
    u32 top = 0, at = 0;
    stack[0] = round + 1;
#define GAUGE_NEXT() goto *labels[program[at++]]
    GAUGE_NEXT();
push: stack[++top] = program[at++]; GAUGE_NEXT();
add: top--; stack[top] += stack[top + 1]; GAUGE_NEXT();
multiply: top--; stack[top] *= stack[top + 1]; GAUGE_NEXT();
exclusive: top--; stack[top] ^= stack[top + 1]; GAUGE_NEXT();
swap: { u64 kept = stack[top]; stack[top] = stack[top - 1]; stack[top - 1] = kept; } GAUGE_NEXT();
duplicate: stack[top + 1] = stack[top]; top++; GAUGE_NEXT();
shift: stack[top] >>= 5; GAUGE_NEXT();
drop: top--; GAUGE_NEXT();
less: top--; stack[top] = stack[top] < stack[top + 1]; GAUGE_NEXT();
loop: if (--loops) at = 0; GAUGE_NEXT();
end: return stack[top] + top;
}

GAUGE_KERNEL(interpreters, random_bytecode)
{
    /* Operations that no branch history predicts. */
    u64 a = round, b = 1, c = 2, state = gauge_mix(round) | 1;
    for (int i = 0; i < 2000; i++) {
        switch (gauge_next(&state) >> 41 & 15) {
        case 0: a += b; break;
        case 1: b ^= c; break;
        case 2: c -= a; break;
        case 3: a <<= 1; break;
        case 4: b += 5; break;
        case 5: c *= 3; break;
        case 6: a ^= a >> 9; break;
        case 7: b = c; break;
        case 8: c = ~c; break;
        case 9: a = b + c; break;
        case 10: b -= a >> 3; break;
        case 11: c |= 1; break;
        case 12: a &= 0xffffffffffff; break;
        case 13: b = b << 7 | b >> 57; break;
        case 14: c += b * 2; break;
        default: a ^= 0xff; break;
        }
    }
    return a ^ b ^ c;
}

GAUGE_KERNEL(interpreters, registers)
{
    /* Three operands in each instruction word; registers are in memory. */
    static const u32 code[] = {0x00010203, 0x01020301, 0x02030002, 0x03000103, 0x00020301, 0x04010200, 0x01030002, 0x02000103};
    u64 r[4] = {round + 1, 3, 5, 7};
    for (int i = 0; i < 4000; i++) {
        u32 word = code[i & 7], to = word >> 16 & 3, left = word >> 8 & 3, right = word & 3;
        switch (word >> 24) {
        case 0: r[to] = r[left] + r[right]; break;
        case 1: r[to] = r[left] ^ r[right]; break;
        case 2: r[to] = r[left] * 3 - r[right]; break;
        case 3: r[to] = r[left] >> 1; break;
        default: r[to] = ~r[left] + r[right]; break;
        }
    }
    return r[0] ^ r[1] ^ r[2] ^ r[3];
}

GAUGE_KERNEL(interpreters, brackets)
{
    /* A brainfuck program that multiplies. */
    static const char code[] = "++++++++[>++++[>++>+++>+++>+<<<<-]>+>+>->>+[<]<-]>>.>---.+++++++..+++.";
    u8 cells[64];
    u64 check = round;
    for (int repeat = 0; repeat < 3; repeat++) {
        for (int i = 0; i < 64; i++)
            ((volatile u8 *)cells)[i] = 0;
        u32 cell = 8;
        for (int at = 0; code[at]; at++) {
            switch (code[at]) {
            case '>': cell++; break;
            case '<': cell--; break;
            case '+': cells[cell]++; break;
            case '-': cells[cell]--; break;
            case '.': check = check * 31 + cells[cell]; break;
            case '[':
                if (!cells[cell])
                    for (int depth = 1; depth; depth += (code[at] == '[') - (code[at] == ']'))
                        at++;
                break;
            default:
                if (cells[cell])
                    for (int depth = 1; depth; depth += (code[at] == ']') - (code[at] == '['))
                        at--;
            }
        }
    }
    return check;
}

GAUGE_KERNEL(interpreters, automaton)
{
    /* A deterministic automaton over bytes: each load depends on the load before it. */
    u8 *table = (u8 *)gauge_scratch;
    for (u32 i = 0; i < 16 * 256; i++)
        ((volatile u8 *)table)[i] = gauge_bytes[i] & 15;
    u64 check = 0;
    u32 state = 0;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 8000; i++) {
        state = table[state * 256 + in[i]];
        check += state;
    }
    return check;
}

GAUGE_KERNEL(interpreters, regular_nfa)
{
    /* Thompson's simulation with states as bits: (a|e)(t|n)*s. */
    u64 hits = 0;
    u32 states = 0;
    const u8 *in = gauge_text + gauge_window(round, 4096);
    for (int i = 0; i < 8000; i++) {
        u8 letter = in[i];
        u32 next = 0;
        if (letter == 'a' || letter == 'e')
            next |= 1;
        if (states && (letter == 't' || letter == 'n'))
            next |= 1;
        if (states && letter == 's')
            hits++;
        states = next;
    }
    return hits;
}

GAUGE_KERNEL(interpreters, life)
{
    /* Conway's game on 64 × 64 bits. */
    u64 *now = gauge_scratch, *then = gauge_scratch + 64;
    for (int i = 0; i < 64; i++)
        ((volatile u64 *)now)[i] = gauge_words[(u64)i + gauge_window(round, 2048)];
    for (int step = 0; step < 30; step++) {
        for (int i = 0; i < 64; i++) {
            u64 up = now[(i + 63) & 63], row = now[i], down = now[(i + 1) & 63];
            u64 around[8] = {up << 1, up, up >> 1, row << 1, row >> 1, down << 1, down, down >> 1};
            u64 ones = 0, twos = 0, fours = 0;
            for (int k = 0; k < 8; k++) {
                u64 carry = ones & around[k];
                ones ^= around[k];
                fours |= twos & carry;
                twos ^= carry;
            }
            then[i] = twos & ~fours & (ones | row);
        }
        u64 *kept = now;
        now = then;
        then = kept;
    }
    u64 check = 0;
    for (int i = 0; i < 64; i++)
        check = check * 31 + now[i];
    return check;
}
