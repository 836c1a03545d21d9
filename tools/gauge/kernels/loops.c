/* Loops that measure the cost of one instruction: its latency in a chain, its throughput among independent instructions.
 *
 * Keys: `latency.CLASS.INSTRUCTION` and `throughput.CLASS.INSTRUCTION` for a row CLASS of a core's file; `latency.A+B.INSTRUCTION`
 * for the sum of two rows; `core.KEY` for other figures of a core's file; `half.KEY` for figures that are only subtracted.
 */
#include "gauge.h"

/* Instructions that a loop needs beyond x86-64-v2. GAUGE_L3 and GAUGE_V3 have the same meaning as for kernels. */
enum { LOOP_AES = 4, LOOP_SHA = 8 };

struct gauge_loop {
    const char *key;
    /* The key of a loop whose figure is subtracted; null for none. */
    const char *less;
    /* The factor applied to the difference. */
    u64 times;
    u64 needs;
    u64 iterations;
    /* Operations in one iteration. */
    u64 operations;
    /* Cycles of an operation that other instructions of its chain take; they are subtracted. */
    u64 minus;
    void (*run)(u64 iterations);
};

#define ROW(id, key, less, times, needs, iterations, operations, minus)                  \
    static struct gauge_loop gauge_row_##id __attribute__((used, section("gauge_loops"), aligned(8))) = { \
        key, less, times, needs, iterations, operations, minus, loop_##id}

/* The counter is in rdi and the address of the scratch area in rsi; the other registers are free. */
#define CODE(id, setup, body, after)                                                                                                      \
    static GAUGE_NOINLINE void loop_##id(u64 iterations)                                                                                  \
    {                                                                                                                                     \
        u64 area = (u64)gauge_scratch;                                                                                                    \
        __asm__ volatile(".intel_syntax noprefix\n" setup "\n.p2align 6\n77:\n" body "\ndec rdi\njnz 77b\n" after "\n.att_syntax prefix\n" \
                         : "+D"(iterations), "+S"(area)                                                                                   \
                         :                                                                                                                \
                         : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2",      \
                           "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",  \
                           "cc", "memory");                                                                                               \
    }

#define GENERAL                                                                                                                  \
    "mov rax, 0x123456789\nmov ebx, 5\nmov ecx, 3\nmov edx, 7\nmov r8d, 11\nmov r9d, 13\nmov r10d, 17\nmov r11d, 19\nmov r12d, 23\n" \
    "mov r13d, 29\nmov r14d, 31\nmov r15d, 37\n"
#define VECTORS                                                                                                                   \
    "movq xmm0, rax\npunpcklqdq xmm0, xmm0\n.irp x, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7, xmm8, xmm9, xmm10, xmm11, xmm12, xmm13, " \
    "xmm14, xmm15\nmovdqa \\x, xmm0\n.endr\n"
/* Numbers a little above 1: chains of them neither overflow nor vanish. */
#define DOUBLES "mov rax, 0x3ff0000000012345\n" VECTORS
#define SINGLES "mov rax, 0x3f8001233f800123\n" VECTORS
#define EACH_REGISTER(code) ".rept 10\n.irp r, rax, rbx, rcx, rdx, r8, r9, r10, r11, r12, r13, r14, r15\n" code "\n.endr\n.endr"
#define EACH_HALF(code) ".rept 10\n.irp r, eax, ebx, ecx, edx, r8d, r9d, r10d, r11d, r12d, r13d, r14d, r15d\n" code "\n.endr\n.endr"
#define EACH_VECTOR(code) ".rept 10\n.irp x, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n" code "\n.endr\n.endr"
#define REPEAT(count, code) ".rept " #count "\n" code "\n.endr"

/* A chain of dependent instructions through general or vector registers. */
#define CHAIN_NEEDING(needs, class, name, iterations, minus, setup, code)  \
    CODE(latency_##class##_##name, setup, REPEAT(24, code), "")              \
    ROW(latency_##class##_##name, "latency." #class "." #name, 0, 1, needs, iterations, 24, minus);
#define CHAIN(class, name, setup, code) CHAIN_NEEDING(0, class, name, 100, 0, setup, code)
/* A chain whose figure is the sum of two classes. */
#define PAIR_NEEDING(needs, first, second, name, setup, code)                \
    CODE(latency_##first##_##second##_##name, setup, REPEAT(24, code), "")   \
    ROW(latency_##first##_##second##_##name, "latency." #first "+" #second "." #name, 0, 1, needs, 60, 24, 0);
#define PAIR(first, second, name, setup, code) PAIR_NEEDING(0, first, second, name, setup, code)
/* Independent instructions. */
#define MANY_NEEDING(needs, class, name, iterations, setup, code)   \
    CODE(throughput_##class##_##name, setup, code, "")                \
    ROW(throughput_##class##_##name, "throughput." #class "." #name, 0, 1, needs, iterations, 120, 0);
#define MANY(class, name, setup, code) MANY_NEEDING(0, class, name, 10, setup, code)

/* Instructions on whole registers. */
CHAIN(alu, add, GENERAL, "add rax, rbx")
CHAIN(alu, xor, GENERAL, "xor rax, rbx")
CHAIN(alu, neg, GENERAL, "neg rax")
CHAIN(alu, movsx, GENERAL, "movsx rax, al")
CHAIN(alu, movzx, GENERAL, "movzx eax, al")
CHAIN(alu, inc, GENERAL, "inc rax")
MANY(alu, add, GENERAL, EACH_REGISTER("add \\r, rsi"))
MANY(alu, or, GENERAL, EACH_REGISTER("or \\r, 1"))
MANY(alu, test, GENERAL, EACH_REGISTER("test \\r, \\r"))
MANY(alu, movzx, GENERAL, EACH_REGISTER("movzx \\r, sil"))
MANY(move, immediate, GENERAL, EACH_REGISTER("mov \\r, 7"))
MANY(rename_moves, mov, GENERAL, EACH_REGISTER("mov \\r, rsi"))
MANY(rename_zero_idioms, xor, GENERAL, EACH_REGISTER("xor \\r, \\r"))
CHAIN(rename_moves, mov, GENERAL, "mov rbx, rax\nmov rax, rbx")
CHAIN(alu_carry, adc, GENERAL, "adc rax, rbx")
CHAIN(alu_carry, sbb, GENERAL, "sbb rax, rbx")
CHAIN(conditional_move, cmovc, GENERAL "clc\n", "cmovc rax, rbx")
CHAIN(conditional_move, cmovbe, GENERAL "stc\n", "cmovbe rax, rbx")
MANY(conditional_move, cmovc, GENERAL "clc\n", EACH_REGISTER("cmovc \\r, rsi"))
CHAIN_NEEDING(0, set_flag, setc, 60, 1, GENERAL, "setc al\nadd al, 255")
MANY(set_flag, setz, GENERAL, ".rept 30\nsetz al\nsetz bl\nsetz cl\nsetz dl\n.endr")
CHAIN(lea, two, GENERAL, "lea rax, [rax + rbx]")
CHAIN(lea, displacement, GENERAL, "lea rax, [rax + 8]")
CHAIN(lea_complex, three, GENERAL, "lea rax, [rax + rbx + 8]")
CHAIN(lea_complex, scaled, GENERAL, "lea rax, [rbx + rax * 4]")
MANY(lea, two, GENERAL, EACH_REGISTER("lea \\r, [rsi + rdi]"))
MANY(lea_complex, three, GENERAL, EACH_REGISTER("lea \\r, [rsi + rdi + 8]"))
CHAIN(shift, shl, GENERAL, "shl rax, 1")
CHAIN(shift, sar, GENERAL, "sar rax, 3")
CHAIN(shift, rol, GENERAL, "rol rax, 7")
CHAIN(shift, by_cl, GENERAL, "shr rax, cl")
MANY(shift, shl, GENERAL, EACH_REGISTER("shl \\r, 1"))
MANY(shift, ror, GENERAL, EACH_REGISTER("ror \\r, 9"))
CHAIN(rotate_carry, rcl, GENERAL, "rcl rax, 1")
CHAIN(shift_double, shld, GENERAL, "shld rax, rbx, 5")
MANY(shift_double, shld, GENERAL, EACH_REGISTER("shld \\r, rsi, 5"))
CHAIN(bit_count, popcnt, GENERAL, "popcnt rax, rax")
MANY(bit_count, popcnt, GENERAL, EACH_REGISTER("popcnt \\r, rsi"))
CHAIN(bit_scan, bsf, GENERAL, "bsf rax, rax\n")
CHAIN(bit_scan, bsr, GENERAL, "bsr rax, rax\n")
MANY(bit_scan, bsr, GENERAL, EACH_REGISTER("bsr \\r, rsi"))
CHAIN_NEEDING(GAUGE_V3, bit_zeros, lzcnt, 100, 0, GENERAL, "lzcnt rax, rax")
CHAIN_NEEDING(GAUGE_V3, bit_zeros, tzcnt, 100, 0, GENERAL, "tzcnt rax, rax")
MANY_NEEDING(GAUGE_V3, bit_zeros, tzcnt, 40, GENERAL, EACH_REGISTER("tzcnt \\r, rsi"))
CHAIN(bit_modify, bts, GENERAL, "bts rax, rbx")
CHAIN(bit_modify, btr, GENERAL, "btr rax, 7")
MANY(bit_modify, btc, GENERAL, EACH_REGISTER("btc \\r, 7"))
CHAIN_NEEDING(GAUGE_V3, deposit, pext, 100, 0, GENERAL, "pext rax, rax, rbx")
CHAIN_NEEDING(GAUGE_V3, deposit, pdep, 100, 0, GENERAL, "pdep rax, rax, rbx")
MANY_NEEDING(GAUGE_V3, deposit, pext, 40, GENERAL, EACH_REGISTER("pext \\r, rsi, rdi"))
CHAIN_NEEDING(GAUGE_V3, alu, andn, 100, 0, GENERAL, "andn rax, rax, rbx")
CHAIN_NEEDING(GAUGE_V3, alu, blsr, 100, 0, GENERAL, "blsr rax, rax")
CHAIN_NEEDING(GAUGE_V3, shift, shlx, 100, 0, GENERAL, "shlx rax, rax, rbx")
CHAIN_NEEDING(GAUGE_V3, shift, rorx, 100, 0, GENERAL, "rorx rax, rax, 7")
CHAIN(crc32, crc32, GENERAL, "crc32 rax, rbx")
MANY(crc32, crc32, GENERAL, EACH_REGISTER("crc32 \\r, rsi"))
CHAIN(byte_swap, bswap, GENERAL, "bswap rax")
MANY(byte_swap, bswap, GENERAL, EACH_REGISTER("bswap \\r"))
CHAIN(exchange, xadd, GENERAL, "xadd rax, rbx")
CHAIN(exchange, xchg, GENERAL, "xchg rax, rbx")
CHAIN(compare_exchange, cmpxchg, GENERAL, "cmpxchg rax, rbx")
CHAIN(multiply_32, imul, GENERAL, "imul eax, ebx")
MANY(multiply_32, imul, GENERAL, EACH_HALF("imul \\r, esi"))
CHAIN(multiply_64, imul, GENERAL, "imul rax, rbx")
MANY(multiply_64, imul, GENERAL, EACH_REGISTER("imul \\r, rsi"))
CHAIN(multiply_high, mul, GENERAL, "mul rbx\nmov rax, rdx")
CHAIN_NEEDING(GAUGE_V3, multiply_high, mulx, 100, 0, GENERAL, "mulx rdx, rax, rbx")
MANY_NEEDING(GAUGE_V3, multiply_high, mulx, 40, GENERAL "mov rdx, 3\n", ".rept 12\n.irp r, rax, rbx, rcx, r8, r9, r10, r11, r12, r13\nmulx \\r, r15, rsi\n.endr\n.endr")
CHAIN_NEEDING(0, divide_8, div, 30, 1, GENERAL "mov ebx, 200\n", "or eax, 0x100\ndiv bl")
CHAIN_NEEDING(0, divide_32, div, 30, 1, GENERAL "mov r8d, 0x7fffffff\nmov ebx, 12345\n", "xor edx, edx\nor eax, r8d\ndiv ebx")
CHAIN_NEEDING(0, divide_32, idiv, 30, 1, GENERAL "mov r8d, 0x7fffffff\nmov ebx, 12345\n", "xor edx, edx\nor eax, r8d\nidiv ebx")
CHAIN_NEEDING(0, divide_64, div, 20, 1, GENERAL "mov r8, 0x7fffffffffffffff\nmov ebx, 12345\n", "xor edx, edx\nor rax, r8\ndiv rbx")
CHAIN_NEEDING(0, divide_64, small, 20, 1, GENERAL "mov r8d, 0x7fff\nmov ebx, 123\n", "xor edx, edx\nor rax, r8\ndiv rbx")
MANY_NEEDING(0, divide_32, div, 10, GENERAL "mov r8d, 0x7fffffff\nmov ebx, 12345\n", REPEAT(120, "xor edx, edx\nmov eax, r8d\ndiv ebx"))
MANY_NEEDING(0, divide_64, div, 10, GENERAL "mov r8, 0x7fffffffffffffff\nmov ebx, 12345\n", REPEAT(120, "xor edx, edx\nmov rax, r8\ndiv rbx"))

/* Vectors of integers. */
CHAIN(vector_logic, pxor, DOUBLES, "pxor xmm0, xmm1")
CHAIN(vector_logic, andps, DOUBLES, "andps xmm0, xmm1")
MANY(vector_logic, pand, DOUBLES, EACH_VECTOR("pand xmm\\x, xmm15"))
CHAIN(vector_integer, paddd, DOUBLES, "paddd xmm0, xmm1")
CHAIN(vector_integer, paddb, DOUBLES, "paddb xmm0, xmm1")
CHAIN(vector_integer, pcmpeqb, DOUBLES, "pcmpeqb xmm0, xmm1")
CHAIN(vector_integer, pminub, DOUBLES, "pminub xmm0, xmm1")
CHAIN(vector_integer, pcmpgtq, DOUBLES, "pcmpgtq xmm0, xmm1")
CHAIN(vector_integer, pabsd, DOUBLES, "pabsd xmm0, xmm0")
MANY(vector_integer, paddd, DOUBLES, EACH_VECTOR("paddd xmm\\x, xmm15"))
MANY(vector_integer, pcmpeqb, DOUBLES, EACH_VECTOR("pcmpeqb xmm\\x, xmm15"))
CHAIN(vector_multiply, pmullw, DOUBLES, "pmullw xmm0, xmm1")
CHAIN(vector_multiply, pmuludq, DOUBLES, "pmuludq xmm0, xmm1")
CHAIN(vector_multiply, pmaddwd, DOUBLES, "pmaddwd xmm0, xmm1")
CHAIN(vector_multiply, pmulld, DOUBLES, "pmulld xmm0, xmm1")
CHAIN(vector_multiply, psadbw, DOUBLES, "psadbw xmm0, xmm1")
MANY(vector_multiply, pmuludq, DOUBLES, EACH_VECTOR("pmuludq xmm\\x, xmm15"))
MANY(vector_multiply, pmaddwd, DOUBLES, EACH_VECTOR("pmaddwd xmm\\x, xmm15"))
CHAIN(vector_horizontal, phaddd, DOUBLES, "phaddd xmm0, xmm1")
CHAIN(vector_shift, pslld, DOUBLES, "pslld xmm0, 1")
CHAIN(vector_shift, by_vector, DOUBLES "pxor xmm1, xmm1\n", "psrlq xmm0, xmm1")
MANY(vector_shift, psrlq, DOUBLES, EACH_VECTOR("psrlq xmm\\x, 1"))
CHAIN(vector_shuffle_bytes, pshufb, DOUBLES, "pshufb xmm0, xmm1")
CHAIN(vector_shuffle, pshufd, DOUBLES, "pshufd xmm0, xmm0, 27")
CHAIN(vector_shuffle, punpcklbw, DOUBLES, "punpcklbw xmm0, xmm1")
CHAIN(vector_shuffle, shufps, DOUBLES, "shufps xmm0, xmm1, 27")
CHAIN(vector_shuffle_bytes, palignr, DOUBLES, "palignr xmm0, xmm1, 5")
CHAIN(vector_shuffle_bytes, packuswb, DOUBLES, "packuswb xmm0, xmm1")
MANY(vector_shuffle_bytes, pshufb, DOUBLES, EACH_VECTOR("pshufb xmm\\x, xmm15"))
MANY(vector_shuffle, pshufd, DOUBLES, EACH_VECTOR("pshufd xmm\\x, xmm15, 27"))
CHAIN_NEEDING(GAUGE_V3, vector_shuffle_lanes, vperm2i128, 100, 0, DOUBLES, "vperm2i128 ymm0, ymm0, ymm1, 1")
CHAIN_NEEDING(GAUGE_V3, vector_shuffle_lanes, vpermd, 100, 0, DOUBLES, "vpermd ymm0, ymm1, ymm0")
CHAIN_NEEDING(GAUGE_V3, vector_shuffle_lanes, vpermq, 100, 0, DOUBLES, "vpermq ymm0, ymm0, 27")
MANY_NEEDING(GAUGE_V3, vector_shuffle_lanes, vpermd, 40, DOUBLES, EACH_VECTOR("vpermd ymm\\x, ymm15, ymm14"))
CHAIN(vector_blend, pblendw, DOUBLES, "pblendw xmm0, xmm1, 85")
CHAIN(vector_blend, pblendvb, DOUBLES, "pblendvb xmm1, xmm2, xmm0")
MANY(vector_blend, blendps, DOUBLES, EACH_VECTOR("blendps xmm\\x, xmm15, 5"))
MANY(rename_vector_moves, movdqa, DOUBLES, EACH_VECTOR("movdqa xmm\\x, xmm15"))
PAIR(vector_from_integer, vector_to_integer, movq, DOUBLES, "movq rax, xmm0\nmovq xmm0, rax")
PAIR(vector_extract, vector_from_integer, pextrq, DOUBLES, "pextrq rax, xmm0, 0\nmovq xmm0, rax")
PAIR(vector_insert, vector_to_integer, pinsrq, DOUBLES, "movq rax, xmm0\npinsrq xmm0, rax, 1")
PAIR(vector_to_integer, vector_from_integer, pmovmskb, DOUBLES, "pmovmskb eax, xmm0\nmovd xmm0, eax")
MANY(vector_to_integer, movq, DOUBLES, EACH_VECTOR("movq rax, xmm\\x"))
MANY(vector_to_integer, pmovmskb, DOUBLES, EACH_VECTOR("pmovmskb eax, xmm\\x"))
MANY(vector_from_integer, movq, DOUBLES, EACH_VECTOR("movq xmm\\x, rsi"))
MANY(vector_extract, pextrd, DOUBLES, EACH_VECTOR("pextrd eax, xmm\\x, 1"))
MANY(vector_insert, pinsrd, DOUBLES, EACH_VECTOR("pinsrd xmm\\x, esi, 1"))
MANY(vector_test, ptest, DOUBLES, EACH_VECTOR("ptest xmm\\x, xmm15"))
MANY(vector_test, ucomisd, DOUBLES, EACH_VECTOR("ucomisd xmm\\x, xmm15"))

/* Floating point. */
CHAIN(float_add, addsd, DOUBLES, "addsd xmm0, xmm1")
CHAIN(float_add, addps, SINGLES, "addps xmm0, xmm1")
CHAIN(float_compare, maxsd, DOUBLES, "maxsd xmm0, xmm1")
CHAIN(float_compare, cmpltsd, DOUBLES, "cmpltsd xmm0, xmm1")
MANY(float_add, addsd, DOUBLES, EACH_VECTOR("addsd xmm\\x, xmm15"))
MANY(float_add, addps, SINGLES, EACH_VECTOR("addps xmm\\x, xmm15"))
/* An addition between multiplications: the cost of passing its result to another class. */
PAIR(float_add, float_multiply, mixed, DOUBLES, "addsd xmm0, xmm1\nmulsd xmm0, xmm2")
CHAIN(float_multiply, mulsd, DOUBLES, "mulsd xmm0, xmm1")
CHAIN(float_multiply, mulps, SINGLES, "mulps xmm0, xmm1")
MANY(float_multiply, mulsd, DOUBLES, EACH_VECTOR("mulsd xmm\\x, xmm15"))
CHAIN_NEEDING(GAUGE_V3, fma, vfmadd, 100, 0, DOUBLES "pxor xmm2, xmm2\n", "vfmadd132sd xmm0, xmm2, xmm1")
MANY_NEEDING(GAUGE_V3, fma, vfmadd, 40, DOUBLES "pxor xmm14, xmm14\n", EACH_VECTOR("vfmadd132sd xmm\\x, xmm14, xmm15"))
CHAIN_NEEDING(0, float_divide_32, divss, 40, 0, SINGLES, "divss xmm0, xmm1")
CHAIN_NEEDING(0, float_divide_64, divsd, 40, 0, DOUBLES, "divsd xmm0, xmm1")
CHAIN_NEEDING(0, square_root_32, sqrtss, 40, 0, SINGLES, "sqrtss xmm0, xmm0")
CHAIN_NEEDING(0, square_root_64, sqrtsd, 40, 0, DOUBLES, "sqrtsd xmm0, xmm0")
MANY_NEEDING(0, float_divide_32, divss, 10, SINGLES, EACH_VECTOR("divss xmm\\x, xmm15"))
MANY_NEEDING(0, float_divide_64, divsd, 10, DOUBLES, EACH_VECTOR("divsd xmm\\x, xmm15"))
MANY_NEEDING(0, square_root_32, sqrtss, 10, SINGLES, EACH_VECTOR("sqrtss xmm\\x, xmm\\x"))
MANY_NEEDING(0, square_root_64, sqrtsd, 10, DOUBLES, EACH_VECTOR("sqrtsd xmm\\x, xmm\\x"))
CHAIN(float_approximate, rcpps, SINGLES, "rcpps xmm0, xmm0")
CHAIN(float_approximate, rsqrtps, SINGLES, "rsqrtps xmm0, xmm0")
CHAIN(float_horizontal, haddpd, DOUBLES "mulpd xmm0, xmm1\npxor xmm0, xmm0\n", "haddpd xmm0, xmm0")
CHAIN(float_round, roundsd, DOUBLES, "roundsd xmm0, xmm0, 1")
MANY(float_round, roundsd, DOUBLES, EACH_VECTOR("roundsd xmm\\x, xmm15, 1"))
CHAIN(convert_float, cvtdq2ps, DOUBLES, "cvtdq2ps xmm0, xmm0")
CHAIN(convert_float, cvtps2dq, SINGLES, "cvtps2dq xmm0, xmm1\npand xmm1, xmm0")
MANY(convert_float, cvtdq2ps, DOUBLES, EACH_VECTOR("cvtdq2ps xmm\\x, xmm15"))
PAIR(convert_from_integer, convert_to_integer, cvtsi2sd, DOUBLES, "cvttsd2si rax, xmm0\ncvtsi2sd xmm0, rax")
MANY(convert_to_integer, cvttsd2si, DOUBLES, EACH_VECTOR("cvttsd2si rax, xmm\\x"))
MANY(convert_from_integer, cvtsi2sd, DOUBLES, EACH_VECTOR("cvtsi2sd xmm\\x, rsi"))
CHAIN_NEEDING(LOOP_AES, aes, aesenc, 100, 0, DOUBLES, "aesenc xmm0, xmm1")
MANY_NEEDING(LOOP_AES, aes, aesenc, 40, DOUBLES, EACH_VECTOR("aesenc xmm\\x, xmm15"))
CHAIN_NEEDING(LOOP_AES, carryless_multiply, pclmulqdq, 100, 0, DOUBLES, "pclmulqdq xmm0, xmm1, 0")
MANY_NEEDING(LOOP_AES, carryless_multiply, pclmulqdq, 40, DOUBLES, EACH_VECTOR("pclmulqdq xmm\\x, xmm15, 0"))
CHAIN_NEEDING(LOOP_SHA, sha, sha256rnds2, 60, 0, DOUBLES, "sha256rnds2 xmm1, xmm2, xmm0")
CHAIN_NEEDING(0, string_compare_vector, pcmpistrm, 40, 0, DOUBLES, "pcmpistrm xmm0, xmm1, 64")
MANY_NEEDING(0, string_compare_vector, pcmpistri, 10, DOUBLES, EACH_VECTOR("pcmpistri xmm\\x, xmm15, 0"))

/* x87. */
#define CHAIN_X87(class, name, iterations, code)                                                          \
    CODE(latency_##class##_##name, "fninit\nfld1\nfld1\n", REPEAT(24, code), "fninit")                      \
    ROW(latency_##class##_##name, "latency." #class "." #name, 0, 1, 0, iterations, 24, 0);
CHAIN_X87(x87_add, fadd, 60, "fadd st(0), st(1)")
CHAIN_X87(x87_multiply, fmul, 60, "fmul st(0), st(1)")
CHAIN_X87(x87_divide, fdiv, 40, "fdiv st(0), st(1)")
CHAIN_X87(x87_add, fchs, 60, "fchs")

/* Locks and fences. */
CHAIN_NEEDING(0, locked, add, 30, 0, GENERAL, "lock add qword ptr [rsi], 1")
CHAIN_NEEDING(0, locked, xadd, 30, 0, GENERAL, "lock xadd qword ptr [rsi], rax")
CHAIN_NEEDING(0, locked, cmpxchg, 30, 0, GENERAL, "lock cmpxchg qword ptr [rsi], rax")
CHAIN_NEEDING(0, fence, mfence, 20, 0, GENERAL, "mfence")
CHAIN_NEEDING(0, fence_load, lfence, 20, 0, GENERAL, "lfence")
CHAIN_NEEDING(0, fence_store, sfence, 20, 0, GENERAL, "sfence")
CHAIN_NEEDING(0, pause, pause, 20, 0, GENERAL, "pause")
CHAIN_NEEDING(0, timestamp, rdtsc, 20, 0, GENERAL, "rdtsc")

/* Loads and stores. */
#define OFFSETS "mov [rsi], rsi\nxor ecx, ecx\nxor edx, edx\nmov rax, rsi\n"
CHAIN(load, mov, GENERAL OFFSETS, "mov rax, [rax]")
CHAIN(load, indexed, GENERAL OFFSETS, "mov rax, [rax + rcx * 8]")
CHAIN_NEEDING(0, load, narrow, 100, 0, GENERAL OFFSETS "mov qword ptr [rsi], 0\nxor eax, eax\n", "movzx eax, byte ptr [rsi + rax]")
MANY(load, mov, GENERAL, EACH_REGISTER("mov \\r, [rsi]"))
MANY(load_vector, movdqa, GENERAL, EACH_VECTOR("movdqa xmm\\x, [rsi]"))
MANY_NEEDING(GAUGE_V3, load_vector, vmovdqa, 40, GENERAL, EACH_VECTOR("vmovdqa ymm\\x, [rsi]"))
MANY(store, mov, GENERAL, EACH_REGISTER("mov [rsi], \\r"))
MANY(store, apart, GENERAL, ".rept 10\n.irp at, 0, 64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704\nmov [rsi + \\at], rax\n.endr\n.endr")
MANY(store_vector, movdqa, DOUBLES, EACH_VECTOR("movdqa [rsi], xmm\\x"))
#define FORWARD(name, key, setup, code)                         \
    CODE(forward_##name, setup, REPEAT(24, code), "")            \
    ROW(forward_##name, key, 0, 1, 0, 40, 24, 0);
/* Two address registers with the same value, so that no core renames the memory location. */
FORWARD(general, "core.forward.latency", GENERAL OFFSETS, "mov [rsi + rcx], rax\nmov rax, [rsi + rdx]\nadd ecx, 8\nadd edx, 8\nand ecx, 0xff8\nand edx, 0xff8")
FORWARD(vector, "core.forward.latency_vector", DOUBLES OFFSETS, "movdqa [rsi + rcx], xmm0\nmovdqa xmm0, [rsi + rdx]")
FORWARD(failure, "core.forward.failure", GENERAL OFFSETS, "mov [rsi + rcx], eax\nmov [rsi + rcx + 4], ebx\nmov rax, [rsi + rdx]")
FORWARD(renamed, "core.forward.renamed", GENERAL OFFSETS, "mov [rsp - 256], rax\nmov rax, [rsp - 256]")
CODE(split, GENERAL OFFSETS "add rsi, 60\nmov [rsi], rsi\nmov rax, rsi\n", REPEAT(24, "mov rax, [rax]"), "")
ROW(split, "core.cache.split", "latency.load.mov", 1, 0, 100, 24, 0);

/* The front end and branches. */
/* Zero idioms need no unit, so only the width of dispatch limits them. Cores fuse no-operations, which hides the width. */
CODE(width, "", REPEAT(40, "xor eax, eax\nxor ebx, ebx\nxor ecx, ecx\nxor edx, edx\nxor r8d, r8d\nxor r9d, r9d"), "")
ROW(width, "core.width.dispatch", 0, 1, 0, 40, 241, 0);
CODE(nops, "", REPEAT(120, "nop word ptr [rax + rax]"), "")
ROW(nops, "throughput.nop.long", 0, 1, 0, 40, 121, 0);
CODE(taken, "", REPEAT(60, "jmp 78f\n.p2align 5\n78:"), "")
ROW(taken, "core.prediction.taken", 0, 1, 0, 100, 61, 0);
CODE(not_taken, GENERAL "or eax, 1\n", REPEAT(60, "jz 77b"), "")
ROW(not_taken, "throughput.branch.not_taken", 0, 1, 0, 100, 61, 0);
CODE(fused, GENERAL, REPEAT(60, "cmp rax, rbx\nje 78f") "\n78:", "")
ROW(fused, "throughput.branch.fused", 0, 1, 0, 100, 61, 0);
CODE(call_return, "jmp 77f\n79: ret\n", REPEAT(24, "call 79b"), "")
/* A call with its return; no row of a core's file is this sum. */
ROW(call_return, "half.call_return", 0, 1, 0, 100, 24, 0);

/* Branches on random bits, and the same branches with all bits cleared: half of the random branches are mispredicted. */
static GAUGE_NOINLINE void branches(u64 iterations, u64 mask)
{
    /* Each run takes another bit of each word, since a predictor learns repeated bits. */
    static u64 bit;
    u64 sum = 0, shift = bit++ & 63;
    for (u64 i = 0; i < iterations; i++) {
        u64 random = gauge_words[i & (GAUGE_WORDS - 1)] >> shift & mask;
        __asm__ volatile("test %1, %1\njz 1f\nadd $1, %0\n1:" : "+r"(sum) : "r"(random) : "cc");
    }
    __asm__ volatile("" : : "r"(sum));
}
static void loop_branch_random(u64 iterations) { branches(iterations, 1); }
static void loop_branch_same(u64 iterations) { branches(iterations, 0); }
ROW(branch_random, "core.prediction.restart", "half.branch.same", 2, 0, 1300, 1, 0);
ROW(branch_same, "half.branch.same", 0, 1, 0, 1300, 1, 0);

/* Levels of memory. */
static GAUGE_NOINLINE void chase(const u32 *ring, u32 *from, u64 steps)
{
    u32 at = *from;
    for (u64 i = 0; i < steps; i++)
        at = ring[at];
    *from = at;
}
static u32 chase_from[3];
static void loop_chase_l1(u64 steps) { chase(gauge_ring_l1, &chase_from[0], steps); }
static void loop_chase_l2(u64 steps) { chase(gauge_ring_l2, &chase_from[1], steps); }
static void loop_chase_l3(u64 steps) { chase(gauge_ring_l3, &chase_from[2], steps); }
ROW(chase_l1, "half.chase.l1", 0, 1, 0, 2000, 1, 0);
/* An index costs one cycle more than a pointer. */
ROW(chase_l2, "core.cache.l2.latency", 0, 1, 0, 4096, 1, 1);
ROW(chase_l3, "core.cache.l3.latency", 0, 1, GAUGE_L3, 1000, 1, 1);

/* Reads lines of 64 pages that no cache holds, in random order. It first loads from each page, so that the TLBs hold them all. */
static void loop_chase_far(u64 steps)
{
    enum { LINES = 4096 };
    if (gauge_far_line + LINES > GAUGE_FAR_LINES)
        gauge_far_line = 0;
    const u64 *from = gauge_far + gauge_far_line * GAUGE_LINE_WORDS;
    gauge_far_line += LINES;
    u64 at = 0;
    for (u64 page = 0; page < 64; page++)
        at += *(volatile const u64 *)(from + page * 64 * GAUGE_LINE_WORDS);
    for (u64 i = 0; i < steps; i++) {
        at = (at * 2053 + 1365) & (LINES - 1);
        at += from[at * GAUGE_LINE_WORDS];
    }
    *(volatile u64 *)gauge_scratch = at;
}
/* The subtracted cycles are those of a multiplication, additions and the like between two loads. */
ROW(chase_far, "core.cache.memory.latency", 0, 1, 0, 200, 1, 7);

static GAUGE_NOINLINE void lines(const u32 *from, u64 count)
{
    for (u64 i = 0; i < count; i++)
        (void)*(volatile const u32 *)(from + i * 16);
}
static void loop_lines_l2(u64 count) { lines(gauge_ring_l2, count); }
static void loop_lines_l3(u64 count) { lines(gauge_ring_l3, count); }
static void loop_lines_far(u64 count)
{
    if (gauge_far_line + count > GAUGE_FAR_LINES)
        gauge_far_line = 0;
    lines((const u32 *)(gauge_far + gauge_far_line * GAUGE_LINE_WORDS), count);
    gauge_far_line += count;
}
ROW(lines_l2, "core.cache.l2.line_cycles", 0, 1, 0, 1365, 1, 0);
ROW(lines_l3, "core.cache.l3.line_cycles", 0, 1, GAUGE_L3, 8192, 1, 0);
ROW(lines_far, "core.cache.memory.line_cycles", 0, 1, 0, 4096, 1, 0);
