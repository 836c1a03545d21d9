/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sites of aarch64 Linux: one instruction each, and its record. Include patchpoint.h, not this file. */
#ifndef PATCHPOINT_SITE_AARCH64_H
#define PATCHPOINT_SITE_AARCH64_H

#include "site_native.h"
/* Values are loads: no instruction that may be exchanged while others execute it holds a value. */
#include "value_load.h"

/*
 * A site is B, BL, NOP or BRK in all its forms. One aligned store exchanges these while other processors execute them (Arm ARM, DDI
 * 0487K.a, section B2.2.5, "Concurrent modification and execution of instructions").
 *
 * As compiled a site branches to code behind the other code of its section, which reads the key; the record's aux is the address of
 * that code. Each site has its own copy of the code: the site reaches it in an object of any size, and no linker inserts a veneer
 * that the record does not know. The code changes only %x16, which any call may change (AAPCS64, IP0), and reads the key with
 * acquire semantics.
 */
#define PATCHPOINT__LEAD(instruction) \
	".Lpatchpoint%=:\n\t" \
	instruction "\tpatchpoint_unpatched.%=\n" \
	".Lpatchpoint_end%=:\n\t" \
	".subsection 1\n\t" \
	".balign 4\n\t" \
	PATCHPOINT__UNPATCHED
#define PATCHPOINT__LEAD_END(key, kind, flags) \
	PATCHPOINT__UNPATCHED_END \
	".previous\n\t" PATCHPOINT__RECORD(key, kind, flags, "patchpoint_unpatched.%= - .")
#define PATCHPOINT__LOAD_KEY(key, load) \
	"adrp\tx16, " key "\n\t" \
	"add\tx16, x16, :lo12:" key "\n\t" \
	load ", [x16]\n\t"

/* bti c; the object's address; and a branch. */
#define PATCHPOINT__GIVE_OBJECT(function) \
	"hint\t#34\n\t" \
	"adrp\tx0, patchpoint_object\n\t" \
	"add\tx0, x0, :lo12:patchpoint_object\n\t" \
	"b\t" function "\n\t"

/* Arguments in the registers of AAPCS64; the first register also holds the result. */
#define PATCHPOINT__REGISTER(i, name) register PATCHPOINT__AUTO_REGISTER(w##i) r##i __asm__(name) = w##i;
#define PATCHPOINT__REGISTERS_0
#define PATCHPOINT__REGISTERS_1 PATCHPOINT__REGISTER(1, "x0")
#define PATCHPOINT__REGISTERS_2 PATCHPOINT__REGISTERS_1 PATCHPOINT__REGISTER(2, "x1")
#define PATCHPOINT__REGISTERS_3 PATCHPOINT__REGISTERS_2 PATCHPOINT__REGISTER(3, "x2")
#define PATCHPOINT__REGISTERS_4 PATCHPOINT__REGISTERS_3 PATCHPOINT__REGISTER(4, "x3")
#define PATCHPOINT__REGISTERS_5 PATCHPOINT__REGISTERS_4 PATCHPOINT__REGISTER(5, "x4")
#define PATCHPOINT__REGISTERS_6 PATCHPOINT__REGISTERS_5 PATCHPOINT__REGISTER(6, "x5")

/*
 * A plain call destroys its arguments and all other caller-saved registers; a preserving call only reads its arguments. The first
 * argument, which is only read, shares a register with the result, which is only written. Lists of inputs begin with a comma.
 */
#define PATCHPOINT__BOTH_0
#define PATCHPOINT__BOTH_1
#define PATCHPOINT__BOTH_2 , "+r"(r2)
#define PATCHPOINT__BOTH_3 PATCHPOINT__BOTH_2, "+r"(r3)
#define PATCHPOINT__BOTH_4 PATCHPOINT__BOTH_3, "+r"(r4)
#define PATCHPOINT__BOTH_5 PATCHPOINT__BOTH_4, "+r"(r5)
#define PATCHPOINT__BOTH_6 PATCHPOINT__BOTH_5, "+r"(r6)
#define PATCHPOINT__FIRST_0
#define PATCHPOINT__FIRST_1 , "r"(r1)
#define PATCHPOINT__FIRST_2 PATCHPOINT__FIRST_1
#define PATCHPOINT__FIRST_3 PATCHPOINT__FIRST_1
#define PATCHPOINT__FIRST_4 PATCHPOINT__FIRST_1
#define PATCHPOINT__FIRST_5 PATCHPOINT__FIRST_1
#define PATCHPOINT__FIRST_6 PATCHPOINT__FIRST_1
#define PATCHPOINT__IN_0
#define PATCHPOINT__IN_1 PATCHPOINT__FIRST_1
#define PATCHPOINT__IN_2 PATCHPOINT__IN_1, "r"(r2)
#define PATCHPOINT__IN_3 PATCHPOINT__IN_2, "r"(r3)
#define PATCHPOINT__IN_4 PATCHPOINT__IN_3, "r"(r4)
#define PATCHPOINT__IN_5 PATCHPOINT__IN_4, "r"(r5)
#define PATCHPOINT__IN_6 PATCHPOINT__IN_5, "r"(r6)
#define PATCHPOINT__LOST_6 "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
#define PATCHPOINT__LOST_5 "x5", PATCHPOINT__LOST_6
#define PATCHPOINT__LOST_4 "x4", PATCHPOINT__LOST_5
#define PATCHPOINT__LOST_3 "x3", PATCHPOINT__LOST_4
#define PATCHPOINT__LOST_2 "x2", PATCHPOINT__LOST_3
#define PATCHPOINT__LOST_1 "x1", PATCHPOINT__LOST_2
#define PATCHPOINT__LOST_0 PATCHPOINT__LOST_1

/*
 * Registers that any call may change: %x16 and %x17, which the linker's veneers and the library's stubs use; %x18 unless the
 * platform keeps it (clang warns of a kept register: define PATCHPOINT_X18_IS_KEPT for -ffixed-x18); the link register, so that the
 * compiler saves it first; SVE's predicates, whose names both compilers accept in every function.
 */
#if defined(__has_feature)
#if __has_feature(shadow_call_stack)
#define PATCHPOINT__X18_IS_KEPT
#endif
#endif
#if defined(__ANDROID__) || defined(PATCHPOINT__X18_IS_KEPT) || defined(PATCHPOINT_X18_IS_KEPT)
#define PATCHPOINT__LOST_X18
#else
#define PATCHPOINT__LOST_X18 "x18",
#endif
#if defined(__ARM_FEATURE_SVE) && !defined(__clang__)
#define PATCHPOINT__LOST_FFR "ffr",
#else
#define PATCHPOINT__LOST_FFR
#endif
#define PATCHPOINT__LOST_ALWAYS \
	"x16", "x17", PATCHPOINT__LOST_X18 "x30", "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", \
		"p13", "p14", "p15", PATCHPOINT__LOST_FFR "cc", "memory"

/*
 * A callee keeps the low halves of %v8 to %v15, which no list of lost registers can express. Listed as lost, they cost a function
 * with a site four pairs of stores and loads. With gcc a site takes them as operands that it reads: nothing else is in them then,
 * so values that are live across a site are in memory, and gcc does not save the registers, since nothing writes them. clang does
 * not reserve registers for operands without a value, so with clang they are listed as lost.
 */
#ifndef __ARM_FP
#define PATCHPOINT__KEEP
#define PATCHPOINT__KEPT
#define PATCHPOINT__LOST_KEPT
#define PATCHPOINT__LOST_WIDE
#define PATCHPOINT__LOST_V0
#define PATCHPOINT__LOST_VECTORS_0
#else
#define PATCHPOINT__LOST_WIDE "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
#ifdef __clang__
#define PATCHPOINT__KEEP
#define PATCHPOINT__KEPT
#define PATCHPOINT__LOST_KEPT PATCHPOINT__LOST_WIDE
#else
#define PATCHPOINT__KEEP \
	register double q8 __asm__("v8"), q9 __asm__("v9"), q10 __asm__("v10"), q11 __asm__("v11"), q12 __asm__("v12"), \
		q13 __asm__("v13"), q14 __asm__("v14"), q15 __asm__("v15");
#define PATCHPOINT__KEPT , "w"(q8), "w"(q9), "w"(q10), "w"(q11), "w"(q12), "w"(q13), "w"(q14), "w"(q15)
#define PATCHPOINT__LOST_KEPT
#endif
#define PATCHPOINT__LOST_V0 "v0",
#define PATCHPOINT__LOST_VECTORS_0 "v0", PATCHPOINT__LOST_VECTORS_1
#define PATCHPOINT__LOST_VECTORS_1 "v1", PATCHPOINT__LOST_VECTORS_2
#define PATCHPOINT__LOST_VECTORS_2 "v2", PATCHPOINT__LOST_VECTORS_3
#define PATCHPOINT__LOST_VECTORS_3 "v3", PATCHPOINT__LOST_VECTORS_4
#define PATCHPOINT__LOST_VECTORS_4 "v4", PATCHPOINT__LOST_VECTORS_5
#define PATCHPOINT__LOST_VECTORS_5 "v5", PATCHPOINT__LOST_VECTORS_6
#define PATCHPOINT__LOST_VECTORS_6 \
	"v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31",
#endif
/* A thunk keeps 16 bytes of each vector register but the first. Where registers are longer (SVE), all are lost. */
#ifdef __ARM_FEATURE_SVE
#define PATCHPOINT__SAVED_KEEP PATCHPOINT__KEEP
#define PATCHPOINT__SAVED_KEPT PATCHPOINT__KEPT
#define PATCHPOINT__SAVED_LOST_WORDS PATCHPOINT__LOST_VECTORS_0 PATCHPOINT__LOST_KEPT
#define PATCHPOINT__SAVED_LOST_REALS(n) PATCHPOINT__LOST_REALS_##n
#else
#define PATCHPOINT__SAVED_KEEP
#define PATCHPOINT__SAVED_KEPT
#define PATCHPOINT__SAVED_LOST_WORDS PATCHPOINT__LOST_V0
#define PATCHPOINT__SAVED_LOST_REALS(n)
#endif

/*
 * A site is the body of a function: `place` names the key in assembly, `operand` is the constant %[at], `lvalue` is the key for the
 * compiler. See site_x86_64.h.
 */
#define PATCHPOINT__SITE_BODIES 1
#define PATCHPOINT__HELD(symbol) symbol " + %c[at]"
#define PATCHPOINT__NAMED(key) PATCHPOINT__HELD("patchpoint_key_" #key)
/* "S" is an address where code is position-independent, "i" the offset of a key of C. */
#define PATCHPOINT__CXX_PLACE "%c[at]"

#define PATCHPOINT__CALL_SITE(place) \
	PATCHPOINT__LEAD("bl") \
	PATCHPOINT__LOAD_KEY(place, "ldar\tx16") \
	"br\tx16\n\t" PATCHPOINT__LEAD_END(place, "1", "0")
#define PATCHPOINT__SAVED_SITE(place, thunk) \
	PATCHPOINT__LEAD("bl") \
	"b\t" thunk "\n\t" PATCHPOINT__LEAD_END(place, "1", "2")

#define PATCHPOINT__RESULT_IN_value(type) register PATCHPOINT__WORD_OF(type) result __asm__("x0");
#define PATCHPOINT__RESULT_IN_void(type) register long result __asm__("x0");

/* Sites whose arguments and result are integers and pointers. */
#define PATCHPOINT__WORDS_SITE(n, form, type, place, operand, lvalue) \
	{ \
		PATCHPOINT__RESULT_IN_##form(type) \
		PATCHPOINT__KEEP \
		PATCHPOINT__OP(lvalue); \
		PATCHPOINT__WORDS_##n PATCHPOINT__REGISTERS_##n \
		__asm__ __inline__ goto(PATCHPOINT__CALL_SITE(place) \
					: "=r"(result) PATCHPOINT__BOTH_##n \
					: [at] "Si"(operand) PATCHPOINT__FIRST_##n PATCHPOINT__KEPT \
					: PATCHPOINT__LOST_##n PATCHPOINT__LOST_VECTORS_0 PATCHPOINT__LOST_KEPT PATCHPOINT__LOST_ALWAYS \
					: cold); \
		PATCHPOINT__GIVE_##form(type); \
		PATCHPOINT__COLD; \
	}
#define PATCHPOINT__SITES_OF_WORDS(key, n, form, type, parameters) \
	PATCHPOINT__INLINE type patchpoint__words_##key parameters \
		PATCHPOINT__WORDS_SITE(n, form, type, PATCHPOINT__NAMED(key), 0, patchpoint_key_##key) \
	PATCHPOINT__INLINE type patchpoint__wordssaved_##key parameters \
	{ \
		PATCHPOINT__RESULT_IN_##form(type) \
		PATCHPOINT__SAVED_KEEP \
		PATCHPOINT__OP(patchpoint_key_##key); \
		PATCHPOINT__WORDS_##n PATCHPOINT__REGISTERS_##n \
		__asm__ __inline__ goto(PATCHPOINT__SAVED_SITE(PATCHPOINT__NAMED(key), "patchpoint_saved_" #key) \
					: "=r"(result) \
					: [at] "i"(0) PATCHPOINT__IN_##n PATCHPOINT__SAVED_KEPT \
					: PATCHPOINT__SAVED_LOST_WORDS PATCHPOINT__LOST_ALWAYS \
					: cold); \
		PATCHPOINT__GIVE_##form(type); \
		PATCHPOINT__COLD; \
	}

#ifdef __ARM_FP
/* clang (14) accepts no float in a register named %v0. With clang a float is the first of a pair whose second is undefined. */
#ifdef __clang__
#ifdef __cplusplus
#define PATCHPOINT__OVERLOADED PATCHPOINT__INLINE
#else
#define PATCHPOINT__OVERLOADED PATCHPOINT__INLINE __attribute__((__overloadable__))
#endif
typedef float patchpoint_alone __attribute__((__ext_vector_type__(1)));
typedef float patchpoint_pair __attribute__((__ext_vector_type__(2)));
PATCHPOINT__OVERLOADED double patchpoint_carry(double value) { return value; }
PATCHPOINT__OVERLOADED double patchpoint_carried(double value) { return value; }
PATCHPOINT__OVERLOADED float patchpoint_carried(patchpoint_pair value) { return value[0]; }
PATCHPOINT__OVERLOADED patchpoint_pair patchpoint_carry(float value)
{
	patchpoint_alone alone = {value};

	return __builtin_shufflevector(alone, alone, 0, -1);
}
#define PATCHPOINT__CARRY(value) patchpoint_carry(value)
#define PATCHPOINT__CARRIED_REAL(value) patchpoint_carried(value)
#else
#define PATCHPOINT__CARRY(value) value
#define PATCHPOINT__CARRIED_REAL(value) value
#endif

/* Real arguments are in %v0 and the registers after it; %v0 also holds the result. */
#define PATCHPOINT__REAL_IN(k, name) \
	register PATCHPOINT__AUTO_REGISTER(PATCHPOINT__CARRY(f##k)) x##k __asm__(name) = PATCHPOINT__CARRY(f##k);
#define PATCHPOINT__REALS_IN_1 PATCHPOINT__REAL_IN(1, "v0")
#define PATCHPOINT__REALS_IN_2 PATCHPOINT__REALS_IN_1 PATCHPOINT__REAL_IN(2, "v1")
#define PATCHPOINT__REALS_IN_3 PATCHPOINT__REALS_IN_2 PATCHPOINT__REAL_IN(3, "v2")
#define PATCHPOINT__REALS_IN_4 PATCHPOINT__REALS_IN_3 PATCHPOINT__REAL_IN(4, "v3")
#define PATCHPOINT__REALS_IN_5 PATCHPOINT__REALS_IN_4 PATCHPOINT__REAL_IN(5, "v4")
#define PATCHPOINT__REALS_IN_6 PATCHPOINT__REALS_IN_5 PATCHPOINT__REAL_IN(6, "v5")
#define PATCHPOINT__PICKED_0
#define PATCHPOINT__PICKED_1 PATCHPOINT__PICK_1(1) PATCHPOINT__REALS_IN_1
#define PATCHPOINT__PICKED_2 PATCHPOINT__PICK_2(2) PATCHPOINT__REALS_IN_2
#define PATCHPOINT__PICKED_3 PATCHPOINT__PICK_3(3) PATCHPOINT__REALS_IN_3
#define PATCHPOINT__PICKED_4 PATCHPOINT__PICK_4(4) PATCHPOINT__REALS_IN_4
#define PATCHPOINT__PICKED_5 PATCHPOINT__PICK_5(5) PATCHPOINT__REALS_IN_5
#define PATCHPOINT__PICKED_6 PATCHPOINT__PICK_6(6) PATCHPOINT__REALS_IN_6
#define PATCHPOINT__REALS_BOTH_0
#define PATCHPOINT__REALS_BOTH_1
#define PATCHPOINT__REALS_BOTH_2 , "+w"(x2)
#define PATCHPOINT__REALS_BOTH_3 PATCHPOINT__REALS_BOTH_2, "+w"(x3)
#define PATCHPOINT__REALS_BOTH_4 PATCHPOINT__REALS_BOTH_3, "+w"(x4)
#define PATCHPOINT__REALS_BOTH_5 PATCHPOINT__REALS_BOTH_4, "+w"(x5)
#define PATCHPOINT__REALS_BOTH_6 PATCHPOINT__REALS_BOTH_5, "+w"(x6)
#define PATCHPOINT__REALS_FIRST_0
#define PATCHPOINT__REALS_FIRST_1 , "w"(x1)
#define PATCHPOINT__REALS_FIRST_2 PATCHPOINT__REALS_FIRST_1
#define PATCHPOINT__REALS_FIRST_3 PATCHPOINT__REALS_FIRST_1
#define PATCHPOINT__REALS_FIRST_4 PATCHPOINT__REALS_FIRST_1
#define PATCHPOINT__REALS_FIRST_5 PATCHPOINT__REALS_FIRST_1
#define PATCHPOINT__REALS_FIRST_6 PATCHPOINT__REALS_FIRST_1
#define PATCHPOINT__REALS_READ_0
#define PATCHPOINT__REALS_READ_1 PATCHPOINT__REALS_FIRST_1
#define PATCHPOINT__REALS_READ_2 PATCHPOINT__REALS_READ_1, "w"(x2)
#define PATCHPOINT__REALS_READ_3 PATCHPOINT__REALS_READ_2, "w"(x3)
#define PATCHPOINT__REALS_READ_4 PATCHPOINT__REALS_READ_3, "w"(x4)
#define PATCHPOINT__REALS_READ_5 PATCHPOINT__REALS_READ_4, "w"(x5)
#define PATCHPOINT__REALS_READ_6 PATCHPOINT__REALS_READ_5, "w"(x6)
/* gcc allows 30 operands: six arguments of each kind leave no operands for %v8 to %v15. */
#define PATCHPOINT__KEEP_0 PATCHPOINT__KEEP
#define PATCHPOINT__KEEP_1 PATCHPOINT__KEEP
#define PATCHPOINT__KEEP_2 PATCHPOINT__KEEP
#define PATCHPOINT__KEEP_3 PATCHPOINT__KEEP
#define PATCHPOINT__KEEP_4 PATCHPOINT__KEEP
#define PATCHPOINT__KEEP_5 PATCHPOINT__KEEP
#define PATCHPOINT__KEEP_6
#define PATCHPOINT__KEPT_0 PATCHPOINT__KEPT
#define PATCHPOINT__KEPT_1 PATCHPOINT__KEPT
#define PATCHPOINT__KEPT_2 PATCHPOINT__KEPT
#define PATCHPOINT__KEPT_3 PATCHPOINT__KEPT
#define PATCHPOINT__KEPT_4 PATCHPOINT__KEPT
#define PATCHPOINT__KEPT_5 PATCHPOINT__KEPT
#define PATCHPOINT__KEPT_6
#define PATCHPOINT__LOST_REALS_0 PATCHPOINT__LOST_VECTORS_1 PATCHPOINT__LOST_KEPT
#define PATCHPOINT__LOST_REALS_1 PATCHPOINT__LOST_VECTORS_1 PATCHPOINT__LOST_KEPT
#define PATCHPOINT__LOST_REALS_2 PATCHPOINT__LOST_VECTORS_2 PATCHPOINT__LOST_KEPT
#define PATCHPOINT__LOST_REALS_3 PATCHPOINT__LOST_VECTORS_3 PATCHPOINT__LOST_KEPT
#define PATCHPOINT__LOST_REALS_4 PATCHPOINT__LOST_VECTORS_4 PATCHPOINT__LOST_KEPT
#define PATCHPOINT__LOST_REALS_5 PATCHPOINT__LOST_VECTORS_5 PATCHPOINT__LOST_KEPT
#define PATCHPOINT__LOST_REALS_6 PATCHPOINT__LOST_VECTORS_6 PATCHPOINT__LOST_WIDE
#ifdef __ARM_FEATURE_SVE
#define PATCHPOINT__SAVED_KEEP_REALS(n) PATCHPOINT__KEEP_##n
#define PATCHPOINT__SAVED_KEPT_REALS(n) PATCHPOINT__KEPT_##n
#else
#define PATCHPOINT__SAVED_KEEP_REALS(n)
#define PATCHPOINT__SAVED_KEPT_REALS(n)
#endif
#define PATCHPOINT__BOTH_RESULTS_value(type) \
	register PATCHPOINT__WORD_OF(type) word __asm__("x0"); \
	register PATCHPOINT__AUTO_REGISTER(PATCHPOINT__CARRY(PATCHPOINT__CAST(PATCHPOINT__REAL_OF(type), 0))) real __asm__("v0");
#define PATCHPOINT__BOTH_RESULTS_void(type) register long word __asm__("x0"); register double real __asm__("v0");
#define PATCHPOINT__GIVE_ONE_value(type) PATCHPOINT__ONE_OF(type, word, PATCHPOINT__CARRIED_REAL(real))
#define PATCHPOINT__GIVE_ONE_void(type) return
#define PATCHPOINT__REALS_SITE(n, form, type, place, operand, lvalue) \
	{ \
		PATCHPOINT__BOTH_RESULTS_##form(type) \
		PATCHPOINT__KEEP_##n \
		PATCHPOINT__COUNT_WORDS(n) \
		PATCHPOINT__OP(lvalue); \
		PATCHPOINT__PICKED_##n PATCHPOINT__REGISTERS_##n \
		__asm__ __inline__ goto(PATCHPOINT__CALL_SITE(place) \
					: "=r"(word), "=w"(real) PATCHPOINT__BOTH_##n PATCHPOINT__REALS_BOTH_##n \
					: [at] "Si"(operand) PATCHPOINT__FIRST_##n PATCHPOINT__REALS_FIRST_##n PATCHPOINT__KEPT_##n \
					: PATCHPOINT__LOST_##n PATCHPOINT__LOST_REALS_##n PATCHPOINT__LOST_ALWAYS \
					: cold); \
		PATCHPOINT__GIVE_ONE_##form(type); \
		PATCHPOINT__COLD; \
	}
#define PATCHPOINT__SITES_OF_REALS(key, n, form, type, parameters) \
	PATCHPOINT__INLINE type patchpoint__reals_##key parameters \
		PATCHPOINT__REALS_SITE(n, form, type, PATCHPOINT__NAMED(key), 0, patchpoint_key_##key) \
	PATCHPOINT__INLINE type patchpoint__realssaved_##key parameters \
	{ \
		PATCHPOINT__BOTH_RESULTS_##form(type) \
		PATCHPOINT__SAVED_KEEP_REALS(n) \
		PATCHPOINT__COUNT_WORDS(n) \
		PATCHPOINT__OP(patchpoint_key_##key); \
		PATCHPOINT__PICKED_##n PATCHPOINT__REGISTERS_##n \
		__asm__ __inline__ goto(PATCHPOINT__SAVED_SITE(PATCHPOINT__NAMED(key), "patchpoint_saved_" #key) \
					: "=r"(word), "=w"(real) \
					: [at] "i"(0) PATCHPOINT__IN_##n PATCHPOINT__REALS_READ_##n PATCHPOINT__SAVED_KEPT_REALS(n) \
					: PATCHPOINT__SAVED_LOST_REALS(n) PATCHPOINT__LOST_ALWAYS \
					: cold); \
		PATCHPOINT__GIVE_ONE_##form(type); \
		PATCHPOINT__COLD; \
	}
#define PATCHPOINT__CXX_REALS 1
#else
#define PATCHPOINT__SITES_OF_REALS(key, n, form, type, parameters) \
	PATCHPOINT__ASSERT(!patchpoint_any_is_real_##key, "patchpoint: float and double need floating-point registers"); \
	type patchpoint__reals_##key parameters; \
	type patchpoint__realssaved_##key parameters;
#endif

/*
 * The thunk of a key's register-preserving sites; its own call is a plain site. It keeps %x1 to %x15 and 16 bytes each of %v1 to
 * %v31; the sites declare as lost whatever else a call may change. The thunk signs its return address where the file's functions do
 * (by hints, which older processors ignore). The register numbers are DWARF's.
 */
#ifdef __ARM_FEATURE_PAC_DEFAULT
#define PATCHPOINT__SIGN "hint\t#25\n\t.cfi_negate_ra_state\n\t"
#define PATCHPOINT__AUTHENTICATE "hint\t#29\n\t.cfi_negate_ra_state\n\t"
#else
#define PATCHPOINT__SIGN
#define PATCHPOINT__AUTHENTICATE
#endif
#define PATCHPOINT_DEFINE_SAVED(key) \
	__asm__(".pushsection .text.patchpoint_saved_" #key ",\"ax\",@progbits\n\t" \
		".globl patchpoint_saved_" #key "\n\t" \
		".hidden patchpoint_saved_" #key "\n\t" \
		".type patchpoint_saved_" #key ", %function\n\t" \
		".balign 16\n" \
		"patchpoint_saved_" #key ":\n\t" \
		".cfi_startproc\n\t" \
		PATCHPOINT__SIGN \
		"sub\tsp, sp, #656\n\t" \
		".cfi_def_cfa_offset 656\n\t" \
		"stp\tx29, x30, [sp]\n\t" \
		".cfi_offset 29, -656\n\t" \
		".cfi_offset 30, -648\n\t" \
		"mov\tx29, sp\n\t" \
		PATCHPOINT__MOVE_ALL("st") "\n" \
		".Lpatchpoint_thunk_" #key ":\n\t" \
		"bl\t.Lpatchpoint_thunk_aux_" #key "\n\t" \
		PATCHPOINT__MOVE_ALL("ld") "\n\t" \
		"ldp\tx29, x30, [sp]\n\t" \
		".cfi_restore 29\n\t" \
		".cfi_restore 30\n\t" \
		"add\tsp, sp, #656\n\t" \
		".cfi_def_cfa_offset 0\n\t" \
		PATCHPOINT__AUTHENTICATE \
		"ret\n" \
		".Lpatchpoint_thunk_aux_" #key ":\n\t" \
		PATCHPOINT__LOAD_KEY("patchpoint_key_" #key, "ldar\tx16") \
		"br\tx16\n\t" \
		".cfi_endproc\n\t" \
		".size patchpoint_saved_" #key ", . - patchpoint_saved_" #key "\n\t" \
		".pushsection patchpoint_sites,\"ao\",@progbits,.Lpatchpoint_thunk_" #key "\n\t" \
		".balign 4\n\t" \
		".long .Lpatchpoint_thunk_" #key " - .\n\t" \
		".long patchpoint_key_" #key " - .\n\t" \
		".long .Lpatchpoint_thunk_aux_" #key " - .\n\t" \
		".byte 1, 4, 0, 0\n\t" \
		".popsection\n\t" \
		".popsection"); \
	PATCHPOINT__KEY(key)
/* Each register has its place, by its number, above the frame record. */
#define PATCHPOINT__MOVE_ALL(direction) \
	PATCHPOINT__MOVE_PAIR(direction, "x1", "x2", "16") PATCHPOINT__MOVE_PAIR(direction, "x3", "x4", "32") \
	PATCHPOINT__MOVE_PAIR(direction, "x5", "x6", "48") PATCHPOINT__MOVE_PAIR(direction, "x7", "x8", "64") \
	PATCHPOINT__MOVE_PAIR(direction, "x9", "x10", "80") PATCHPOINT__MOVE_PAIR(direction, "x11", "x12", "96") \
	PATCHPOINT__MOVE_PAIR(direction, "x13", "x14", "112") direction "r\tx15, [sp, #128]\n\t" \
	PATCHPOINT__MOVE_PAIR(direction, "q1", "q2", "144") PATCHPOINT__MOVE_PAIR(direction, "q3", "q4", "176") \
	PATCHPOINT__MOVE_PAIR(direction, "q5", "q6", "208") PATCHPOINT__MOVE_PAIR(direction, "q7", "q8", "240") \
	PATCHPOINT__MOVE_PAIR(direction, "q9", "q10", "272") PATCHPOINT__MOVE_PAIR(direction, "q11", "q12", "304") \
	PATCHPOINT__MOVE_PAIR(direction, "q13", "q14", "336") PATCHPOINT__MOVE_PAIR(direction, "q15", "q16", "368") \
	PATCHPOINT__MOVE_PAIR(direction, "q17", "q18", "400") PATCHPOINT__MOVE_PAIR(direction, "q19", "q20", "432") \
	PATCHPOINT__MOVE_PAIR(direction, "q21", "q22", "464") PATCHPOINT__MOVE_PAIR(direction, "q23", "q24", "496") \
	PATCHPOINT__MOVE_PAIR(direction, "q25", "q26", "528") PATCHPOINT__MOVE_PAIR(direction, "q27", "q28", "560") \
	PATCHPOINT__MOVE_PAIR(direction, "q29", "q30", "592") direction "r\tq31, [sp, #624]"
#define PATCHPOINT__MOVE_PAIR(direction, one, other, place) direction "p\t" one ", " other ", [sp, #" place "]\n\t"

/* No compiler attribute makes a function keep all registers that a thunk keeps, so sites call it through the thunk. */
#define PATCHPOINT_PRESERVING

/*
 * As compiled a branch leads to: ldarb of the key; cbz or cbnz over the next instruction; b to the other side; b back. The branch
 * to the other side is unconditional: it reaches 128 MiB, and linkers can give it a veneer.
 */
#define PATCHPOINT__BRANCH(place, operand, skip, flags, other) \
	__asm__ __inline__ goto(PATCHPOINT__LEAD("b") \
				PATCHPOINT__LOAD_KEY(place, "ldarb\tw16") \
				skip "\tw16, .+8\n\t" \
				"b\t%l[" #other "]\n\t" \
				"b\t.Lpatchpoint_end%=\n\t" PATCHPOINT__LEAD_END(place, "3", flags) \
				: \
				: [at] "Si"(operand) \
				: "x16" \
				: other)

#define PATCHPOINT__LIKELY_SITE(place, operand, lvalue) \
	{ \
		PATCHPOINT__OP(lvalue); \
		PATCHPOINT__BRANCH(place, operand, "cbnz", "1", no); \
		return true; \
	no: \
		return false; \
	}
#define PATCHPOINT__UNLIKELY_SITE(place, operand, lvalue) \
	{ \
		PATCHPOINT__OP(lvalue); \
		PATCHPOINT__BRANCH(place, operand, "cbz", "0", yes); \
		return false; \
	yes: \
		return true; \
	}
#define PATCHPOINT__SITES_BRANCH(key, symbol, offset, lvalue) \
	PATCHPOINT__INLINE bool patchpoint_likely_##key(void) \
		PATCHPOINT__LIKELY_SITE(PATCHPOINT__HELD(symbol), offset, lvalue) \
	PATCHPOINT__INLINE bool patchpoint_unlikely_##key(void) \
		PATCHPOINT__UNLIKELY_SITE(PATCHPOINT__HELD(symbol), offset, lvalue)

/* A switch has a comparison for each way but 0: cmp; b.ne over the next instruction; b to the way. */
#define PATCHPOINT__WAY(way) \
	".if %c[count] > " #way "\n\t" \
	"cmp\tw16, #" #way "\n\t" \
	"b.ne\t.+8\n\t" \
	"b\t%l[way_" #way "]\n\t" \
	".endif\n\t"
#define PATCHPOINT__SWITCH_SITE(ways, place, operand, lvalue) \
	{ \
		PATCHPOINT__OP(lvalue); \
		__asm__ __inline__ goto(PATCHPOINT__LEAD("b") \
					PATCHPOINT__LOAD_KEY(place, "ldarb\tw16") \
					PATCHPOINT__WAY(1) PATCHPOINT__WAY(2) PATCHPOINT__WAY(3) PATCHPOINT__WAY(4) \
					PATCHPOINT__WAY(5) PATCHPOINT__WAY(6) PATCHPOINT__WAY(7) \
					"b\t.Lpatchpoint_end%=\n\t" PATCHPOINT__LEAD_END(place, "4", "0") \
					: \
					: [at] "Si"(operand), [count] "i"(ways) \
					: "x16", "cc" \
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

#ifdef __cplusplus
/* For patchpoint.hpp, whose keys load themselves. */
#define PATCHPOINT__VALUE_SITE(type, place, operand, lvalue) \
	{ \
		PATCHPOINT__OP(lvalue); \
		return (lvalue).load(); \
	}
#endif

#endif
