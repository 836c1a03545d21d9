/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sites of x86-64 Linux: one instruction each, and its record. Include patchpoint.h, not this file. */
#ifndef PATCHPOINT_SITE_X86_64_H
#define PATCHPOINT_SITE_X86_64_H

#include "site_native.h"

/*
 * All forms of a site begin with the same byte, a prefix without effect: an empty REX (0x40), or for values of 8 bytes an operand
 * size (0x66) that REX.W overrides. A change writes its breakpoint there. If a debugger takes the signal away, the thread goes on
 * one byte after the breakpoint and executes the same instruction. If a uprobe is removed, the kernel puts back the byte that is
 * there anyway. The kernel accepts uprobes on instructions with these prefixes (arch/x86/kernel/uprobes.c, is_prefix_bad).
 *
 * Instructions are given as bytes: bytes are the same for -masm=intel, and no assembler pads them.
 */

/* endbr64; lea patchpoint_object(%rip), %rdi; and a jump. */
#define PATCHPOINT__GIVE_OBJECT(function) \
	".byte 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8d, 0x3d\n\t" \
	".long patchpoint_object - . - 4\n\t" \
	"jmp\t" function "\n\t"

/*
 * The stack pointer as an operand keeps the prologue before the site: without it gcc moves the prologue to the cold path
 * (PATCHPOINT__COLD).
 */
#ifdef __clang__
/* At -O0 clang would load a local of this kind from memory that nobody wrote. */
register unsigned long patchpoint_stack __asm__("rsp");
#define PATCHPOINT__STACK (void)0
#else
/* A global of this kind keeps gcc from optimising across files with -flto. */
#define PATCHPOINT__STACK register unsigned long patchpoint_stack __asm__("rsp")
#endif

/* Arguments in the registers of the System V ABI. All are computed first: computing one may use another's register. */
#define PATCHPOINT__IN_R8 register PATCHPOINT__AUTO_REGISTER(w5) r5 __asm__("r8") = w5;
#define PATCHPOINT__IN_R9 register PATCHPOINT__AUTO_REGISTER(w6) r6 __asm__("r9") = w6;
#define PATCHPOINT__REGISTERS_0
#define PATCHPOINT__REGISTERS_1
#define PATCHPOINT__REGISTERS_2
#define PATCHPOINT__REGISTERS_3
#define PATCHPOINT__REGISTERS_4
#define PATCHPOINT__REGISTERS_5 PATCHPOINT__IN_R8
#define PATCHPOINT__REGISTERS_6 PATCHPOINT__IN_R8 PATCHPOINT__IN_R9

/* A plain call destroys its arguments and all other caller-saved registers; a preserving call only reads its arguments. */
#define PATCHPOINT__BOTH_0
#define PATCHPOINT__BOTH_1 , "+D"(w1)
#define PATCHPOINT__BOTH_2 PATCHPOINT__BOTH_1, "+S"(w2)
#define PATCHPOINT__BOTH_3 PATCHPOINT__BOTH_2, "+d"(w3)
#define PATCHPOINT__BOTH_4 PATCHPOINT__BOTH_3, "+c"(w4)
#define PATCHPOINT__BOTH_5 PATCHPOINT__BOTH_4, "+r"(r5)
#define PATCHPOINT__BOTH_6 PATCHPOINT__BOTH_5, "+r"(r6)
#define PATCHPOINT__IN_0
#define PATCHPOINT__IN_1 , "D"(w1)
#define PATCHPOINT__IN_2 PATCHPOINT__IN_1, "S"(w2)
#define PATCHPOINT__IN_3 PATCHPOINT__IN_2, "d"(w3)
#define PATCHPOINT__IN_4 PATCHPOINT__IN_3, "c"(w4)
#define PATCHPOINT__IN_5 PATCHPOINT__IN_4, "r"(r5)
#define PATCHPOINT__IN_6 PATCHPOINT__IN_5, "r"(r6)
#define PATCHPOINT__LOST_6 "r10", "r11", PATCHPOINT__LOST_APX
#define PATCHPOINT__LOST_5 "r9", PATCHPOINT__LOST_6
#define PATCHPOINT__LOST_4 "r8", PATCHPOINT__LOST_5
#define PATCHPOINT__LOST_3 "rcx", PATCHPOINT__LOST_4
#define PATCHPOINT__LOST_2 "rdx", PATCHPOINT__LOST_3
#define PATCHPOINT__LOST_1 "rsi", PATCHPOINT__LOST_2
#define PATCHPOINT__LOST_0 "rdi", PATCHPOINT__LOST_1
#if defined(__APX_F__) || defined(__EGPR__)
#define PATCHPOINT__LOST_APX \
	"r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", "r29", "r30", "r31",
#else
#define PATCHPOINT__LOST_APX
#endif
#define PATCHPOINT__LOST_ALWAYS PATCHPOINT__LOST_X87 PATCHPOINT__LOST_AVX512 "cc", "memory"
#ifdef __SSE__
#define PATCHPOINT__LOST_X87 "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)",
#define PATCHPOINT__LOST_SSE PATCHPOINT__LOST_SSE_0
#define PATCHPOINT__LOST_SSE_0 "xmm0", PATCHPOINT__LOST_SSE_1
#define PATCHPOINT__LOST_SSE_1 "xmm1", PATCHPOINT__LOST_SSE_2
#define PATCHPOINT__LOST_SSE_2 "xmm2", PATCHPOINT__LOST_SSE_3
#define PATCHPOINT__LOST_SSE_3 "xmm3", PATCHPOINT__LOST_SSE_4
#define PATCHPOINT__LOST_SSE_4 "xmm4", PATCHPOINT__LOST_SSE_5
#define PATCHPOINT__LOST_SSE_5 "xmm5", PATCHPOINT__LOST_SSE_6
#define PATCHPOINT__LOST_SSE_6 "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
#else
#define PATCHPOINT__LOST_X87
#define PATCHPOINT__LOST_SSE
#endif
/* clang accepts these names in every function, gcc only with AVX-512 enabled: see the duties in patchpoint.h. */
#if defined(__AVX512F__) || defined(__clang__)
#define PATCHPOINT__LOST_AVX512 \
	"xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", \
		"xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7",
#else
#define PATCHPOINT__LOST_AVX512
#endif
#define PATCHPOINT__OUT_value "=a"(result), "+r"(patchpoint_stack)
#define PATCHPOINT__OUT_void "+r"(patchpoint_stack)
#define PATCHPOINT__RAX_value
#define PATCHPOINT__RAX_void "rax",
#define PATCHPOINT__RESULT_IN_value(type) PATCHPOINT__WORD_OF(type) result;
#define PATCHPOINT__RESULT_IN_void(type)

/*
 * A site is the body of a function. `place` names the key in assembly and may use the constant `operand` as %[at]; `lvalue` is the
 * key for the compiler. In C, `place` is the symbol of the key or of the object that holds it, and `operand` the key's offset
 * there. In C++ (patchpoint.hpp) `operand` is the key's address.
 */
#define PATCHPOINT__SITE_BODIES 1
#define PATCHPOINT__HELD(symbol) symbol " + %c[at]"
#define PATCHPOINT__NAMED(key) PATCHPOINT__HELD("patchpoint_key_" #key)
#define PATCHPOINT__CXX_PLACE "%P[at]"

/* call *key(%rip); and call thunk. */
#define PATCHPOINT__CALL_SITE(place) \
	".Lpatchpoint%=:\n\t" \
	".byte 0x40, 0xff, 0x15\n\t" \
	".long " place " - . - 4\n" \
	".Lpatchpoint_end%=:\n\t" PATCHPOINT__RECORD(place, "1", "0", "0")
#define PATCHPOINT__SAVED_SITE(place, thunk) \
	".Lpatchpoint%=:\n\t" \
	".byte 0x40, 0x67, 0xe8\n\t" \
	".long " thunk " - . - 4\n" \
	".Lpatchpoint_end%=:\n\t" PATCHPOINT__RECORD(place, "1", "2", thunk " - .")

/* Sites whose arguments and result are integers and pointers. */
#define PATCHPOINT__WORDS_SITE(n, form, type, place, operand, lvalue) \
	{ \
		PATCHPOINT__RESULT_IN_##form(type) PATCHPOINT__STACK; \
		PATCHPOINT__OP(lvalue); \
		PATCHPOINT__WORDS_##n PATCHPOINT__REGISTERS_##n \
		__asm__ __inline__ goto(PATCHPOINT__CALL_SITE(place) \
					: PATCHPOINT__OUT_##form PATCHPOINT__BOTH_##n \
					: [at] "i"(operand) \
					: PATCHPOINT__RAX_##form PATCHPOINT__LOST_##n PATCHPOINT__LOST_SSE PATCHPOINT__LOST_ALWAYS \
					: cold); \
		PATCHPOINT__GIVE_##form(type); \
		PATCHPOINT__COLD; \
	}
#define PATCHPOINT__WORDS_SAVED_SITE(n, form, type, place, operand, thunk, thunk_operand, lvalue) \
	{ \
		PATCHPOINT__RESULT_IN_##form(type) PATCHPOINT__STACK; \
		PATCHPOINT__OP(lvalue); \
		PATCHPOINT__WORDS_##n PATCHPOINT__REGISTERS_##n \
		__asm__ __inline__ goto(PATCHPOINT__SAVED_SITE(place, thunk) \
					: PATCHPOINT__OUT_##form \
					: [at] "i"(operand), [through] "i"(thunk_operand) PATCHPOINT__IN_##n \
					: PATCHPOINT__RAX_##form PATCHPOINT__LOST_SSE PATCHPOINT__LOST_ALWAYS \
					: cold); \
		PATCHPOINT__GIVE_##form(type); \
		PATCHPOINT__COLD; \
	}
#define PATCHPOINT__SITES_OF_WORDS(key, n, form, type, parameters) \
	PATCHPOINT__INLINE type patchpoint__words_##key parameters \
		PATCHPOINT__WORDS_SITE(n, form, type, PATCHPOINT__NAMED(key), 0, patchpoint_key_##key) \
	PATCHPOINT__INLINE type patchpoint__wordssaved_##key parameters \
		PATCHPOINT__WORDS_SAVED_SITE(n, form, type, PATCHPOINT__NAMED(key), 0, "patchpoint_saved_" #key, 0, \
					     patchpoint_key_##key)

#ifdef __SSE__
/* Real arguments are in %xmm0 and the registers after it. */
#define PATCHPOINT__PICKED_0
#define PATCHPOINT__PICKED_1 PATCHPOINT__PICK_1(1) PATCHPOINT__XMM(1, "xmm0")
#define PATCHPOINT__PICKED_2 PATCHPOINT__PICK_2(2) PATCHPOINT__XMM(1, "xmm0") PATCHPOINT__XMM(2, "xmm1")
#define PATCHPOINT__PICKED_3 PATCHPOINT__PICK_3(3) PATCHPOINT__XMM_3
#define PATCHPOINT__PICKED_4 PATCHPOINT__PICK_4(4) PATCHPOINT__XMM_3 PATCHPOINT__XMM(4, "xmm3")
#define PATCHPOINT__PICKED_5 PATCHPOINT__PICK_5(5) PATCHPOINT__XMM_3 PATCHPOINT__XMM(4, "xmm3") PATCHPOINT__XMM(5, "xmm4")
#define PATCHPOINT__PICKED_6 \
	PATCHPOINT__PICK_6(6) \
	PATCHPOINT__XMM_3 PATCHPOINT__XMM(4, "xmm3") PATCHPOINT__XMM(5, "xmm4") PATCHPOINT__XMM(6, "xmm5")
#define PATCHPOINT__XMM_3 PATCHPOINT__XMM(1, "xmm0") PATCHPOINT__XMM(2, "xmm1") PATCHPOINT__XMM(3, "xmm2")
#define PATCHPOINT__XMM(k, name) register PATCHPOINT__AUTO_REGISTER(f##k) x##k __asm__(name) = f##k;
/* The first real argument, which is only read, shares %xmm0 with the result, which is only written. */
#define PATCHPOINT__REALS_BOTH_0
#define PATCHPOINT__REALS_BOTH_1
#define PATCHPOINT__REALS_BOTH_2 , "+x"(x2)
#define PATCHPOINT__REALS_BOTH_3 PATCHPOINT__REALS_BOTH_2, "+x"(x3)
#define PATCHPOINT__REALS_BOTH_4 PATCHPOINT__REALS_BOTH_3, "+x"(x4)
#define PATCHPOINT__REALS_BOTH_5 PATCHPOINT__REALS_BOTH_4, "+x"(x5)
#define PATCHPOINT__REALS_BOTH_6 PATCHPOINT__REALS_BOTH_5, "+x"(x6)
#define PATCHPOINT__REALS_IN_0
#define PATCHPOINT__REALS_IN_1 , "x"(x1)
#define PATCHPOINT__REALS_IN_2 , "x"(x1)
#define PATCHPOINT__REALS_IN_3 , "x"(x1)
#define PATCHPOINT__REALS_IN_4 , "x"(x1)
#define PATCHPOINT__REALS_IN_5 , "x"(x1)
#define PATCHPOINT__REALS_IN_6 , "x"(x1)
#define PATCHPOINT__LOST_REALS_0 PATCHPOINT__LOST_SSE_1
#define PATCHPOINT__LOST_REALS_1 PATCHPOINT__LOST_SSE_1
#define PATCHPOINT__LOST_REALS_2 PATCHPOINT__LOST_SSE_2
#define PATCHPOINT__LOST_REALS_3 PATCHPOINT__LOST_SSE_3
#define PATCHPOINT__LOST_REALS_4 PATCHPOINT__LOST_SSE_4
#define PATCHPOINT__LOST_REALS_5 PATCHPOINT__LOST_SSE_5
#define PATCHPOINT__LOST_REALS_6 PATCHPOINT__LOST_SSE_6
#define PATCHPOINT__BOTH_RESULTS_value(type) PATCHPOINT__WORD_OF(type) word; register PATCHPOINT__REAL_OF(type) real __asm__("xmm0");
#define PATCHPOINT__BOTH_RESULTS_void(type) long word; register double real __asm__("xmm0");
#define PATCHPOINT__GIVE_ONE_value(type) PATCHPOINT__ONE_OF(type, word, real)
#define PATCHPOINT__GIVE_ONE_void(type) return
#define PATCHPOINT__REALS_SITE(n, form, type, place, operand, lvalue) \
	{ \
		PATCHPOINT__BOTH_RESULTS_##form(type) PATCHPOINT__STACK; \
		PATCHPOINT__COUNT_WORDS(n) \
		PATCHPOINT__OP(lvalue); \
		PATCHPOINT__PICKED_##n PATCHPOINT__REGISTERS_##n \
		__asm__ __inline__ goto(PATCHPOINT__CALL_SITE(place) \
					: "=a"(word), "=x"(real), "+r"(patchpoint_stack) PATCHPOINT__BOTH_##n PATCHPOINT__REALS_BOTH_##n \
					: [at] "i"(operand) PATCHPOINT__REALS_IN_##n \
					: PATCHPOINT__LOST_##n PATCHPOINT__LOST_REALS_##n PATCHPOINT__LOST_ALWAYS \
					: cold); \
		PATCHPOINT__GIVE_ONE_##form(type); \
		PATCHPOINT__COLD; \
	}
#define PATCHPOINT__REALS_SAVED_SITE(n, form, type, place, operand, thunk, thunk_operand, lvalue) \
	{ \
		PATCHPOINT__BOTH_RESULTS_##form(type) PATCHPOINT__STACK; \
		PATCHPOINT__COUNT_WORDS(n) \
		PATCHPOINT__OP(lvalue); \
		PATCHPOINT__PICKED_##n PATCHPOINT__REGISTERS_##n \
		__asm__ __inline__ goto(PATCHPOINT__SAVED_SITE(place, thunk) \
					: "=a"(word), "=x"(real), "+r"(patchpoint_stack) PATCHPOINT__REALS_BOTH_##n \
					: [at] "i"(operand), [through] "i"(thunk_operand) PATCHPOINT__REALS_IN_##n PATCHPOINT__IN_##n \
					: PATCHPOINT__LOST_REALS_##n PATCHPOINT__LOST_ALWAYS \
					: cold); \
		PATCHPOINT__GIVE_ONE_##form(type); \
		PATCHPOINT__COLD; \
	}
#define PATCHPOINT__SITES_OF_REALS(key, n, form, type, parameters) \
	PATCHPOINT__INLINE type patchpoint__reals_##key parameters \
		PATCHPOINT__REALS_SITE(n, form, type, PATCHPOINT__NAMED(key), 0, patchpoint_key_##key) \
	PATCHPOINT__INLINE type patchpoint__realssaved_##key parameters \
		PATCHPOINT__REALS_SAVED_SITE(n, form, type, PATCHPOINT__NAMED(key), 0, "patchpoint_saved_" #key, 0, \
					     patchpoint_key_##key)
#define PATCHPOINT__CXX_REALS 1
#else
#define PATCHPOINT__SITES_OF_REALS(key, n, form, type, parameters) \
	PATCHPOINT__ASSERT(!patchpoint_any_is_real_##key, "patchpoint: float and double need SSE"); \
	type patchpoint__reals_##key parameters; \
	type patchpoint__realssaved_##key parameters;
#endif

/*
 * The thunk of a key's register-preserving sites; its own call is a plain site. It saves no vector registers: the sites declare
 * them as lost. The bytes are: push %rcx, %rdx, %rsi, %rdi, %r8 … %r11; sub $8,%rsp; the site; and the reverse. The numbers are
 * DWARF's, for unwinding.
 */
#define PATCHPOINT__THUNK(place, begin, end, PUSH, POP, MOVED) \
	PUSH("0x51", "2") PUSH("0x52", "1") PUSH("0x56", "4") PUSH("0x57", "5") \
	PUSH("0x41, 0x50", "8") PUSH("0x41, 0x51", "9") PUSH("0x41, 0x52", "10") PUSH("0x41, 0x53", "11") \
	".byte 0x48, 0x83, 0xec, 0x08\n\t" MOVED("8") \
	"\n" begin ":\n\t" \
	".byte 0x40, 0xff, 0x15\n\t" \
	".long " place " - . - 4\n" \
	end ":\n\t" \
	".byte 0x48, 0x83, 0xc4, 0x08\n\t" MOVED("-8") \
	POP("0x41, 0x5b", "11") POP("0x41, 0x5a", "10") POP("0x41, 0x59", "9") POP("0x41, 0x58", "8") \
	POP("0x5f", "5") POP("0x5e", "4") POP("0x5a", "1") POP("0x59", "2") \
	".byte 0xc3\n\t"
#define PATCHPOINT_DEFINE_SAVED(key) \
	__asm__(".pushsection .text.patchpoint_saved_" #key ",\"ax\",@progbits\n\t" \
		".globl patchpoint_saved_" #key "\n\t" \
		".hidden patchpoint_saved_" #key "\n\t" \
		".type patchpoint_saved_" #key ", @function\n\t" \
		".balign 16\n" \
		"patchpoint_saved_" #key ":\n\t" \
		".cfi_startproc\n\t" \
		PATCHPOINT__THUNK("patchpoint_key_" #key, ".Lpatchpoint_thunk_" #key, ".Lpatchpoint_thunk_end_" #key, \
				  PATCHPOINT__PUSH, PATCHPOINT__POP, PATCHPOINT__MOVED) \
		".cfi_endproc\n\t" \
		".size patchpoint_saved_" #key ", . - patchpoint_saved_" #key "\n\t" \
		".pushsection patchpoint_sites,\"ao\",@progbits,.Lpatchpoint_thunk_" #key "\n\t" \
		".balign 4\n\t" \
		".long .Lpatchpoint_thunk_" #key " - .\n\t" \
		".long patchpoint_key_" #key " - .\n\t" \
		".long 0\n\t" \
		".byte 1, 7, 0, 0\n\t" \
		".popsection\n\t" \
		".popsection"); \
	PATCHPOINT__KEY(key)
#define PATCHPOINT__PUSH(bytes, number) \
	".byte " bytes "\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_rel_offset " number ", 0\n\t"
#define PATCHPOINT__POP(bytes, number) ".byte " bytes "\n\t.cfi_adjust_cfa_offset -8\n\t.cfi_restore " number "\n\t"
#define PATCHPOINT__MOVED(bytes) ".cfi_adjust_cfa_offset " bytes "\n\t"

/*
 * The thunk of a key whose callers pass whatever the compiler can pass: it jumps to the operation, or its site holds the operation's
 * body and the return follows. Callers call it as any function, so no register and no place on the stack is different there.
 */
#define PATCHPOINT_DEFINE_JUMP(key) \
	__asm__(".pushsection .text.patchpoint_jump_" #key ",\"ax\",@progbits\n\t" \
		".globl patchpoint_jump_" #key "\n\t" \
		".hidden patchpoint_jump_" #key "\n\t" \
		".type patchpoint_jump_" #key ", @function\n\t" \
		".balign 16\n" \
		"patchpoint_jump_" #key ":\n\t" \
		".cfi_startproc\n\t" \
		".byte 0x40, 0xff, 0x25\n\t" \
		".long patchpoint_key_" #key " - . - 4\n" \
		".Lpatchpoint_jump_end_" #key ":\n\t" \
		".byte 0xc3\n\t" \
		".cfi_endproc\n\t" \
		".size patchpoint_jump_" #key ", . - patchpoint_jump_" #key "\n\t" \
		".pushsection patchpoint_sites,\"ao\",@progbits,patchpoint_jump_" #key "\n\t" \
		".balign 4\n\t" \
		".long patchpoint_jump_" #key " - .\n\t" \
		".long patchpoint_key_" #key " - .\n\t" \
		".long 0\n\t" \
		".byte 1, 7, 4, 0\n\t" \
		".popsection\n\t" \
		".popsection"); \
	PATCHPOINT__KEY(key)
#define PATCHPOINT__JUMPS 1

/*
 * Written before the definition of a function: the function keeps all general registers but %rax, and register-preserving sites
 * call it directly. The library knows such a function by its section. The function may use no vector registers.
 */
#define PATCHPOINT_PRESERVING \
	__attribute__((__section__("patchpoint_preserving"), __no_caller_saved_registers__, __target__("general-regs-only"), \
		       __noinline__))

/*
 * A load as long as the immediate form: 7 bytes, or 11 for values of 8 bytes. "R" means the eight old registers, whose numbers need
 * no bit of REX.
 */
#define PATCHPOINT__VALUE_SITE(type, place, operand, lvalue) \
	{ \
		type held; \
		PATCHPOINT__OP(lvalue); \
		if (sizeof(type) == 8) \
			__asm__ __inline__ __volatile__(".Lpatchpoint%=:\n\t" \
							".byte 0x66, 0x66, 0x66, 0x66\n\t" \
							"{movq\t" place "(%%rip), %q0|mov\t%q0, QWORD PTR " place "[rip]}\n" \
							".Lpatchpoint_end%=:\n\t" PATCHPOINT__RECORD(place, "2", "0", "0") \
							: "=r"(held) \
							: [at] "i"(operand)); \
		else \
			__asm__ __inline__ __volatile__(".Lpatchpoint%=:\n\t" \
							".byte 0x40\n\t" \
							"{movl\t" place "(%%rip), %k0|mov\t%k0, DWORD PTR " place "[rip]}\n" \
							".Lpatchpoint_end%=:\n\t" PATCHPOINT__RECORD(place, "2", "0", "0") \
							: "=R"(held) \
							: [at] "i"(operand)); \
		return held; \
	}
#define PATCHPOINT__SITES_VALUE(key, type, symbol, offset, lvalue) \
	PATCHPOINT__INLINE type patchpoint_value_##key(void) \
		PATCHPOINT__VALUE_SITE(type, PATCHPOINT__HELD(symbol), offset, lvalue)

/*
 * As compiled a branch jumps to a stub in the same section, which tests the key (testb $1, key(%rip)). The record points to the
 * stub, and the stub holds the other side's address, so nothing has to be found out at run time.
 */
#define PATCHPOINT__JUMP_SITE \
	".Lpatchpoint%=:\n\t" \
	".byte 0x40, 0xe9\n\t" \
	".long patchpoint_unpatched.%= - . - 4\n" \
	".Lpatchpoint_end%=:\n\t" \
	".subsection 1\n\t" \
	PATCHPOINT__UNPATCHED
#define PATCHPOINT__JUMP_SITE_END(key, kind, flags) \
	".byte 0xe9\n\t" \
	".long .Lpatchpoint_end%= - . - 4\n\t" \
	PATCHPOINT__UNPATCHED_END \
	".previous\n\t" PATCHPOINT__RECORD(key, kind, flags, "patchpoint_unpatched.%= - .")
#define PATCHPOINT__BRANCH(place, operand, condition, flags, other) \
	__asm__ __inline__ goto(PATCHPOINT__JUMP_SITE \
				".byte 0xf6, 0x05\n\t" \
				".long " place " - . - 5\n\t" \
				".byte 0x01\n\t" \
				".byte 0x0f, " condition "\n\t" \
				".long %l[" #other "] - . - 4\n\t" \
				PATCHPOINT__JUMP_SITE_END(place, "3", flags) \
				: \
				: [at] "i"(operand) \
				: "cc" \
				: other)

#define PATCHPOINT__LIKELY_SITE(place, operand, lvalue) \
	{ \
		PATCHPOINT__OP(lvalue); \
		PATCHPOINT__BRANCH(place, operand, "0x84", "1", no); \
		return true; \
	no: \
		return false; \
	}
#define PATCHPOINT__UNLIKELY_SITE(place, operand, lvalue) \
	{ \
		PATCHPOINT__OP(lvalue); \
		PATCHPOINT__BRANCH(place, operand, "0x85", "0", yes); \
		return false; \
	yes: \
		return true; \
	}
#define PATCHPOINT__SITES_BRANCH(key, symbol, offset, lvalue) \
	PATCHPOINT__INLINE bool patchpoint_likely_##key(void) \
		PATCHPOINT__LIKELY_SITE(PATCHPOINT__HELD(symbol), offset, lvalue) \
	PATCHPOINT__INLINE bool patchpoint_unlikely_##key(void) \
		PATCHPOINT__UNLIKELY_SITE(PATCHPOINT__HELD(symbol), offset, lvalue)

/* A switch's stub has a comparison for each way but 0: cmpb $way, key(%rip); je. */
#define PATCHPOINT__WAY(place, way) \
	".if %c[count] > " #way "\n\t" \
	".byte 0x80, 0x3d\n\t" \
	".long " place " - . - 5\n\t" \
	".byte " #way ", 0x0f, 0x84\n\t" \
	".long %l[way_" #way "] - . - 4\n\t" \
	".endif\n\t"
#define PATCHPOINT__SWITCH_SITE(ways, place, operand, lvalue) \
	{ \
		PATCHPOINT__OP(lvalue); \
		__asm__ __inline__ goto(PATCHPOINT__JUMP_SITE \
					PATCHPOINT__WAY(place, 1) PATCHPOINT__WAY(place, 2) PATCHPOINT__WAY(place, 3) \
					PATCHPOINT__WAY(place, 4) PATCHPOINT__WAY(place, 5) PATCHPOINT__WAY(place, 6) \
					PATCHPOINT__WAY(place, 7) PATCHPOINT__JUMP_SITE_END(place, "4", "0") \
					: \
					: [at] "i"(operand), [count] "i"(ways) \
					: "cc" \
					: way_1, way_2, way_3, way_4, way_5, way_6, way_7); \
		return 0; \
		PATCHPOINT__RETURN_WAY(ways, 1); \
		PATCHPOINT__RETURN_WAY(ways, 2); \
		PATCHPOINT__RETURN_WAY(ways, 3); \
		PATCHPOINT__RETURN_WAY(ways, 4); \
		PATCHPOINT__RETURN_WAY(ways, 5); \
		PATCHPOINT__RETURN_WAY(ways, 6); \
		PATCHPOINT__RETURN_WAY(ways, 7); \
	}
#define PATCHPOINT__SITES_SWITCH(key, ways, symbol, offset, lvalue) \
	PATCHPOINT__INLINE unsigned patchpoint_switch_##key(void) \
		PATCHPOINT__SWITCH_SITE(ways, PATCHPOINT__HELD(symbol), offset, lvalue)

#endif
