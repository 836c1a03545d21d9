/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sites of x86-64 Linux: one instruction each, and its record. Include patchpoint.h, not this file. */
#ifndef PATCHPOINT_SITE_X86_64_H
#define PATCHPOINT_SITE_X86_64_H

/*
 * "o" ties a record to the section of its code, so that --gc-sections drops or keeps both (a record in a plain section is
 * dropped alone by lld); "?" puts it into the code's COMDAT group. Both want a named label: %= numbers each copy of the asm.
 */
#define PATCHPOINT__RECORD(key, kind, flags, aux) \
	".pushsection patchpoint_sites,\"ao?\",@progbits,.Lpatchpoint%=\n\t" \
	".balign 4\n\t" \
	".long .Lpatchpoint%= - .\n\t" \
	".long patchpoint_key_" #key " - .\n\t" \
	".long " aux "\n\t" \
	".byte " kind ", .Lpatchpoint_end%= - .Lpatchpoint%=, " flags ", 0\n\t" \
	".popsection"

/*
 * A call from assembly is invisible to the compiler. The label leads to a real call, so the function is no leaf: its stack
 * is aligned and it has no red zone. The stack pointer as an operand keeps the prologue before the site: without it gcc
 * moves the prologue to the cold path. Nothing may be live after that call, so it does not return and costs no register.
 */
#ifdef __clang__
/* At -O0 clang would load a local of this kind from memory that nobody wrote. */
register unsigned long patchpoint_stack __asm__("rsp");
#define PATCHPOINT__STACK (void)0
#else
/* A global of this kind keeps gcc from optimising across files with -flto. */
#define PATCHPOINT__STACK register unsigned long patchpoint_stack __asm__("rsp")
#endif
#define PATCHPOINT__COLD cold: PATCHPOINT__COLD_LABEL patchpoint_cold()
#if defined(__GNUC__) && !defined(__clang__)
#define PATCHPOINT__COLD_LABEL __attribute__((__cold__));
#else
#define PATCHPOINT__COLD_LABEL
#endif

/* Arguments in the registers of the System V ABI; a plain call destroys them and all others that belong to the callee. */
#define PATCHPOINT__LOAD_0
#define PATCHPOINT__LOAD_1 PATCHPOINT__WIDE(a1) r1 = a1;
#define PATCHPOINT__LOAD_2 PATCHPOINT__LOAD_1 PATCHPOINT__WIDE(a2) r2 = a2;
#define PATCHPOINT__LOAD_3 PATCHPOINT__LOAD_2 PATCHPOINT__WIDE(a3) r3 = a3;
#define PATCHPOINT__LOAD_4 PATCHPOINT__LOAD_3 PATCHPOINT__WIDE(a4) r4 = a4;
#define PATCHPOINT__LOAD_5 PATCHPOINT__LOAD_4 register PATCHPOINT__WIDE(a5) r5 __asm__("r8") = a5;
#define PATCHPOINT__LOAD_6 PATCHPOINT__LOAD_5 register PATCHPOINT__WIDE(a6) r6 __asm__("r9") = a6;
#define PATCHPOINT__BOTH_0
#define PATCHPOINT__BOTH_1 , "+D"(r1)
#define PATCHPOINT__BOTH_2 PATCHPOINT__BOTH_1, "+S"(r2)
#define PATCHPOINT__BOTH_3 PATCHPOINT__BOTH_2, "+d"(r3)
#define PATCHPOINT__BOTH_4 PATCHPOINT__BOTH_3, "+c"(r4)
#define PATCHPOINT__BOTH_5 PATCHPOINT__BOTH_4, "+r"(r5)
#define PATCHPOINT__BOTH_6 PATCHPOINT__BOTH_5, "+r"(r6)
#define PATCHPOINT__IN_0
#define PATCHPOINT__IN_1 "D"(r1)
#define PATCHPOINT__IN_2 PATCHPOINT__IN_1, "S"(r2)
#define PATCHPOINT__IN_3 PATCHPOINT__IN_2, "d"(r3)
#define PATCHPOINT__IN_4 PATCHPOINT__IN_3, "c"(r4)
#define PATCHPOINT__IN_5 PATCHPOINT__IN_4, "r"(r5)
#define PATCHPOINT__IN_6 PATCHPOINT__IN_5, "r"(r6)
#define PATCHPOINT__LOST_6 "r10", "r11", PATCHPOINT__LOST
#define PATCHPOINT__LOST_5 "r9", PATCHPOINT__LOST_6
#define PATCHPOINT__LOST_4 "r8", PATCHPOINT__LOST_5
#define PATCHPOINT__LOST_3 "rcx", PATCHPOINT__LOST_4
#define PATCHPOINT__LOST_2 "rdx", PATCHPOINT__LOST_3
#define PATCHPOINT__LOST_1 "rsi", PATCHPOINT__LOST_2
#define PATCHPOINT__LOST_0 "rdi", PATCHPOINT__LOST_1
#define PATCHPOINT__LOST PATCHPOINT__LOST_X87 PATCHPOINT__LOST_SSE PATCHPOINT__LOST_AVX512 "cc", "memory"
#ifdef __SSE__
#define PATCHPOINT__LOST_X87 "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)",
#define PATCHPOINT__LOST_SSE \
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
		"xmm13", "xmm14", "xmm15",
#else
#define PATCHPOINT__LOST_X87
#define PATCHPOINT__LOST_SSE
#endif
#ifdef __AVX512F__
#define PATCHPOINT__LOST_AVX512 \
	"xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", \
		"xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7",
#else
#define PATCHPOINT__LOST_AVX512
#endif
#define PATCHPOINT__OUT_value "=a"(result), "+r"(patchpoint_stack)
#define PATCHPOINT__OUT_void "+r"(patchpoint_stack)
#define PATCHPOINT__RAX_value
#define PATCHPOINT__RAX_void "rax",
#define PATCHPOINT__RESULT_IN_value(type) type result;
#define PATCHPOINT__RESULT_IN_void(type)
#define PATCHPOINT__RETURN_value return result
#define PATCHPOINT__RETURN_void return

#define PATCHPOINT__SITES_CALL(key, n, form, type, parameters, arguments) \
	PATCHPOINT__INLINE type patchpoint_call_##key parameters \
	{ \
		PATCHPOINT__RESULT_IN_##form(type) PATCHPOINT__STACK; \
		PATCHPOINT__LOAD_##n \
		PATCHPOINT__OP(key); \
		__asm__ __inline__ goto(".Lpatchpoint%=:\n\t" \
					"call *patchpoint_key_" #key "(%%rip)\n" \
					".Lpatchpoint_end%=:\n\t" PATCHPOINT__RECORD(key, "1", "0", "0") \
					: PATCHPOINT__OUT_##form PATCHPOINT__BOTH_##n \
					: \
					: PATCHPOINT__RAX_##form PATCHPOINT__LOST_##n \
					: cold); \
		PATCHPOINT__RETURN_##form; \
		PATCHPOINT__COLD; \
	} \
	PATCHPOINT__INLINE type patchpoint_call_saved_##key parameters \
	{ \
		PATCHPOINT__RESULT_IN_##form(type) PATCHPOINT__STACK; \
		PATCHPOINT__LOAD_##n \
		PATCHPOINT__OP(key); \
		__asm__ __inline__ goto(".Lpatchpoint%=:\n\t" \
					".byte 0x67\n\t" \
					"call patchpoint_saved_" #key "\n" \
					".Lpatchpoint_end%=:\n\t" \
					PATCHPOINT__RECORD(key, "1", "2", "patchpoint_saved_" #key " - .") \
					: PATCHPOINT__OUT_##form \
					: PATCHPOINT__IN_##n \
					: PATCHPOINT__RAX_##form PATCHPOINT__LOST \
					: cold); \
		PATCHPOINT__RETURN_##form; \
		PATCHPOINT__COLD; \
	}

/*
 * The thunk of a key's register-preserving sites; its own call is a plain site. Vector registers need no saving here: the
 * sites say that they lose them.
 */
#define PATCHPOINT_DEFINE_SAVED(key) \
	__asm__(".pushsection .text.patchpoint_saved_" #key ",\"ax\",@progbits\n\t" \
		".globl patchpoint_saved_" #key "\n\t" \
		".hidden patchpoint_saved_" #key "\n\t" \
		".type patchpoint_saved_" #key ", @function\n\t" \
		".balign 16\n" \
		"patchpoint_saved_" #key ":\n\t" \
		".cfi_startproc\n\t" \
		PATCHPOINT__PUSH("rcx") PATCHPOINT__PUSH("rdx") PATCHPOINT__PUSH("rsi") PATCHPOINT__PUSH("rdi") \
		PATCHPOINT__PUSH("r8") PATCHPOINT__PUSH("r9") PATCHPOINT__PUSH("r10") PATCHPOINT__PUSH("r11") \
		"subq $8, %rsp\n\t" \
		".cfi_adjust_cfa_offset 8\n" \
		".Lpatchpoint_thunk_" #key ":\n\t" \
		"call *patchpoint_key_" #key "(%rip)\n\t" \
		"addq $8, %rsp\n\t" \
		".cfi_adjust_cfa_offset -8\n\t" \
		PATCHPOINT__POP("r11") PATCHPOINT__POP("r10") PATCHPOINT__POP("r9") PATCHPOINT__POP("r8") \
		PATCHPOINT__POP("rdi") PATCHPOINT__POP("rsi") PATCHPOINT__POP("rdx") PATCHPOINT__POP("rcx") \
		"ret\n\t" \
		".cfi_endproc\n\t" \
		".size patchpoint_saved_" #key ", . - patchpoint_saved_" #key "\n\t" \
		".pushsection patchpoint_sites,\"ao\",@progbits,.Lpatchpoint_thunk_" #key "\n\t" \
		".balign 4\n\t" \
		".long .Lpatchpoint_thunk_" #key " - .\n\t" \
		".long patchpoint_key_" #key " - .\n\t" \
		".long 0\n\t" \
		".byte 1, 6, 0, 0\n\t" \
		".popsection\n\t" \
		".popsection"); \
	PATCHPOINT__KEY(key)
#define PATCHPOINT__PUSH(name) \
	"pushq %" name "\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_rel_offset " name ", 0\n\t"
#define PATCHPOINT__POP(name) "popq %" name "\n\t.cfi_adjust_cfa_offset -8\n\t.cfi_restore " name "\n\t"

/* The load has the length of the immediate form: 10 bytes for 8 (three prefixes without meaning), else 6, 7 with REX. */
#define PATCHPOINT__SITES_VALUE(key, type) \
	PATCHPOINT__INLINE type patchpoint_value_##key(void) \
	{ \
		type value; \
		PATCHPOINT__OP(key); \
		if (sizeof(type) == 8) \
			__asm__ __inline__ __volatile__(".Lpatchpoint%=:\n\t" \
							".byte 0x2e, 0x2e, 0x2e\n\t" \
							"movq patchpoint_key_" #key "(%%rip), %q0\n" \
							".Lpatchpoint_end%=:\n\t" \
							PATCHPOINT__RECORD(key, "2", "0", "0") \
							: "=r"(value)); \
		else \
			__asm__ __inline__ __volatile__(".Lpatchpoint%=:\n\t" \
							"movl patchpoint_key_" #key "(%%rip), %k0\n" \
							".Lpatchpoint_end%=:\n\t" \
							PATCHPOINT__RECORD(key, "2", "0", "0") \
							: "=r"(value)); \
		return value; \
	}

/*
 * As compiled a branch jumps to a stub in the same section, which tests the key; the record points to the stub, which
 * holds the other side's address. So the site never needs to be found out at run time.
 */
#define PATCHPOINT__BRANCH(key, condition, flags, other) \
	__asm__ __inline__ goto(".Lpatchpoint%=:\n\t" \
				".byte 0xe9\n\t" \
				".long .Lpatchpoint_stub%= - . - 4\n" \
				".Lpatchpoint_end%=:\n\t" \
				".subsection 1\n" \
				".Lpatchpoint_stub%=:\n\t" \
				"testb $1, patchpoint_key_" #key "(%%rip)\n\t" \
				".byte 0x0f, " condition "\n\t" \
				".long %l[" #other "] - . - 4\n\t" \
				".byte 0xe9\n\t" \
				".long .Lpatchpoint_end%= - . - 4\n\t" \
				".previous\n\t" \
				PATCHPOINT__RECORD(key, "3", flags, ".Lpatchpoint_stub%= - .") \
				: \
				: \
				: "cc" \
				: other)

#define PATCHPOINT__SITES_BRANCH(key) \
	PATCHPOINT__INLINE bool patchpoint_likely_##key(void) \
	{ \
		PATCHPOINT__OP(key); \
		PATCHPOINT__BRANCH(key, "0x84", "1", no); \
		return true; \
	no: \
		return false; \
	} \
	PATCHPOINT__INLINE bool patchpoint_unlikely_##key(void) \
	{ \
		PATCHPOINT__OP(key); \
		PATCHPOINT__BRANCH(key, "0x85", "0", yes); \
		return false; \
	yes: \
		return true; \
	}

/*
 * Once in each program or shared object: the note by which other processes find the sites, and a record of no kind, kept
 * by "R", so that the linker defines the section's bounds also when all sites are gone; and the object that is registered,
 * which starts with the note's address. The note has 11 bytes of name and 16 of contents.
 */
#define PATCHPOINT__OBJECT_NOTE \
	__asm__(".ifndef patchpoint_object_note\n\t" \
		".pushsection patchpoint_sites,\"aGR\",@progbits,patchpoint_object,comdat\n\t" \
		".balign 4\n\t" \
		".long 0, 0, 0, 0\n\t" \
		".popsection\n\t" \
		".pushsection .note.patchpoint,\"aG\",@note,patchpoint_object,comdat\n\t" \
		".balign 4\n\t" \
		".long 11, 16, 1\n\t" \
		".asciz \"patchpoint\"\n\t" \
		".balign 4\n\t" \
		".weak patchpoint_object_note\n\t" \
		".hidden patchpoint_object_note\n\t" \
		".hidden __start_patchpoint_sites\n\t" \
		".hidden __stop_patchpoint_sites\n" \
		"patchpoint_object_note:\n\t" \
		".long 1\n\t" \
		".long __start_patchpoint_sites - .\n\t" \
		".long __stop_patchpoint_sites - .\n\t" \
		".long 16\n\t" \
		".popsection\n\t" \
		".pushsection .data.patchpoint_object,\"awG\",@progbits,patchpoint_object,comdat\n\t" \
		".balign 8\n\t" \
		".weak patchpoint_object\n\t" \
		".hidden patchpoint_object\n" \
		"patchpoint_object:\n\t" \
		".quad patchpoint_object_note\n\t" \
		".zero 64\n\t" \
		".popsection\n\t" \
		".endif")

PATCHPOINT__C struct patchpoint_object patchpoint_object PATCHPOINT__HIDDEN;
PATCHPOINT__ASSERT(sizeof(struct patchpoint_object) == 72, "patchpoint: the object above has another size");

/* Registering again is a no-op. 101 is the first priority open to programs; destructors of that priority run last. */
#define PATCHPOINT__OBJECT(key) \
	PATCHPOINT__OBJECT_NOTE; \
	static __attribute__((__constructor__(101), __used__)) void patchpoint_enter_##key(void) \
	{ \
		patchpoint_object_register(&patchpoint_object); \
	} \
	static __attribute__((__destructor__(101), __used__)) void patchpoint_leave_##key(void) \
	{ \
		patchpoint_object_unregister(&patchpoint_object); \
	}

#endif
