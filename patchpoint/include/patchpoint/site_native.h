/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The parts of patched sites that all architectures share. Include patchpoint.h, not this file. */
#ifndef PATCHPOINT_SITE_NATIVE_H
#define PATCHPOINT_SITE_NATIVE_H

/*
 * "o" ties a record to the section of its code, so that --gc-sections drops or keeps both (lld drops a record in a plain section
 * alone); "?" puts the record into the code's COMDAT group. Both need a label with a name: %= numbers each copy of the asm.
 */
#define PATCHPOINT__RECORD(key, kind, flags, aux) \
	".pushsection patchpoint_sites,\"ao?\",@progbits,.Lpatchpoint%=\n\t" \
	".balign 4\n\t" \
	".long .Lpatchpoint%= - .\n\t" \
	".long " key " - .\n\t" \
	".long " aux "\n\t" \
	".byte " kind ", .Lpatchpoint_end%= - .Lpatchpoint%=, " flags ", 0\n\t" \
	".popsection"

/*
 * The code behind a function to which its sites lead as compiled has a symbol with a size, since no assembler can extend that of
 * the function: without one profilers and debuggers take the code for a part of another function, or for unknown.
 */
#define PATCHPOINT__UNPATCHED \
	".type patchpoint_unpatched.%=, @function\n" \
	"patchpoint_unpatched.%=:\n\t"
#define PATCHPOINT__UNPATCHED_END ".size patchpoint_unpatched.%=, . - patchpoint_unpatched.%=\n\t"

/*
 * The compiler does not see a call from assembly. The label leads to a real call, so the function is no leaf: the compiler aligns
 * its stack and uses no red zone. Nothing is live after the real call, which ends in unreachable code and thus costs no register.
 * patchpoint_cold is not noreturn: the compiler must first conclude that the call may change memory.
 */
#define PATCHPOINT__COLD \
	cold: \
	PATCHPOINT__COLD_LABEL patchpoint_cold(); \
	__builtin_unreachable()
#if defined(__GNUC__) && !defined(__clang__)
#define PATCHPOINT__COLD_LABEL __attribute__((__cold__));
#else
#define PATCHPOINT__COLD_LABEL
#endif

/* Integer and pointer arguments. All are computed before registers are bound: computing one may use another's register. */
#define PATCHPOINT__WORD(i, value) PATCHPOINT__AUTO(value) w##i = value;
#define PATCHPOINT__WORDS_0
#define PATCHPOINT__WORDS_1 PATCHPOINT__WORD(1, PATCHPOINT__WORD_ARGUMENT(a1))
#define PATCHPOINT__WORDS_2 PATCHPOINT__WORDS_1 PATCHPOINT__WORD(2, PATCHPOINT__WORD_ARGUMENT(a2))
#define PATCHPOINT__WORDS_3 PATCHPOINT__WORDS_2 PATCHPOINT__WORD(3, PATCHPOINT__WORD_ARGUMENT(a3))
#define PATCHPOINT__WORDS_4 PATCHPOINT__WORDS_3 PATCHPOINT__WORD(4, PATCHPOINT__WORD_ARGUMENT(a4))
#define PATCHPOINT__WORDS_5 PATCHPOINT__WORDS_4 PATCHPOINT__WORD(5, PATCHPOINT__WORD_ARGUMENT(a5))
#define PATCHPOINT__WORDS_6 PATCHPOINT__WORDS_5 PATCHPOINT__WORD(6, PATCHPOINT__WORD_ARGUMENT(a6))
#define PATCHPOINT__GIVE_value(type) return PATCHPOINT__WORD_AS(type, result)
#define PATCHPOINT__GIVE_void(type) return

/*
 * Real arguments travel in vector registers and all others in general registers, each kind without gaps. The preprocessor does not
 * see the types: a site has as many operands of each kind as there are arguments, and some operands carry nothing.
 */
#define PATCHPOINT__PICK_0
#define PATCHPOINT__PICK_1(n) PATCHPOINT__WORD(1, PATCHPOINT__PICK_WORD(1, n)) PATCHPOINT__REAL_ARGUMENT(1, n)
#define PATCHPOINT__PICK_2(n) \
	PATCHPOINT__PICK_1(n) PATCHPOINT__WORD(2, PATCHPOINT__PICK_WORD(2, n)) PATCHPOINT__REAL_ARGUMENT(2, n)
#define PATCHPOINT__PICK_3(n) \
	PATCHPOINT__PICK_2(n) PATCHPOINT__WORD(3, PATCHPOINT__PICK_WORD(3, n)) PATCHPOINT__REAL_ARGUMENT(3, n)
#define PATCHPOINT__PICK_4(n) \
	PATCHPOINT__PICK_3(n) PATCHPOINT__WORD(4, PATCHPOINT__PICK_WORD(4, n)) PATCHPOINT__REAL_ARGUMENT(4, n)
#define PATCHPOINT__PICK_5(n) \
	PATCHPOINT__PICK_4(n) PATCHPOINT__WORD(5, PATCHPOINT__PICK_WORD(5, n)) PATCHPOINT__REAL_ARGUMENT(5, n)
#define PATCHPOINT__PICK_6(n) \
	PATCHPOINT__PICK_5(n) PATCHPOINT__WORD(6, PATCHPOINT__PICK_WORD(6, n)) PATCHPOINT__REAL_ARGUMENT(6, n)
#define PATCHPOINT__REAL_ARGUMENT(k, n) PATCHPOINT__AUTO(PATCHPOINT__PICK_REAL(k, n)) f##k = PATCHPOINT__PICK_REAL(k, n);

#define PATCHPOINT__SITES_CALL(key, n, form, type, parameters, arguments) \
	PATCHPOINT__SITES_OF_WORDS(key, n, form, type, parameters) \
	PATCHPOINT__SITES_OF_REALS(key, n, form, type, parameters) \
	PATCHPOINT__INLINE type patchpoint_call_##key parameters \
	{ \
		PATCHPOINT__CALL_ONE_OF(PATCHPOINT__RETURN_##form, patchpoint_any_is_real_##key, patchpoint__reals_##key, patchpoint__words_##key, \
					arguments); \
	} \
	PATCHPOINT__INLINE type patchpoint__saved_##key parameters \
	{ \
		PATCHPOINT__CALL_ONE_OF(PATCHPOINT__RETURN_##form, patchpoint_any_is_real_##key, patchpoint__realssaved_##key, patchpoint__wordssaved_##key, \
					arguments); \
	}

/* The code behind a switch's site, once for each way but 0. */
#define PATCHPOINT__RETURN_WAY(ways, way) \
	way_##way: \
	if ((ways) > way) \
		return way; \
	__builtin_unreachable()

/*
 * Once in each program or shared object, as one COMDAT group: the note by which other processes find the sites, of 11 bytes of name
 * and 24 of contents; a record of no kind and a byte among the preserving functions; the registered object, which starts with the
 * note's address; and its constructor and destructor (101 is the first priority open to programs; destructors of priority 101 run
 * last). "R" keeps the record and the byte (binutils 2.36; older linkers keep them anyway), so that the linker defines the bounds of
 * both sections even if nothing else is left in them. Linkers always keep constructors, and with them the group.
 */
#define PATCHPOINT__OBJECT \
	__asm__(".ifndef patchpoint_object_note\n\t" \
		".ifdef .gasversion.\n\t" \
		".set .Lpatchpoint_old, .gasversion. < 23600\n\t" \
		".else\n\t" \
		".set .Lpatchpoint_old, 0\n\t" \
		".endif\n\t" \
		".if .Lpatchpoint_old\n\t" \
		".pushsection patchpoint_sites,\"aG\",@progbits,patchpoint_object,comdat\n\t" \
		".else\n\t" \
		".pushsection patchpoint_sites,\"aGR\",@progbits,patchpoint_object,comdat\n\t" \
		".endif\n\t" \
		".balign 4\n\t" \
		".long 0, 0, 0, 0\n\t" \
		".popsection\n\t" \
		".if .Lpatchpoint_old\n\t" \
		".pushsection patchpoint_preserving,\"axG\",@progbits,patchpoint_object,comdat\n\t" \
		".else\n\t" \
		".pushsection patchpoint_preserving,\"axGR\",@progbits,patchpoint_object,comdat\n\t" \
		".endif\n\t" \
		".byte 0xcc\n\t" \
		".popsection\n\t" \
		".pushsection .note.patchpoint,\"aG\",@note,patchpoint_object,comdat\n\t" \
		".balign 4\n\t" \
		".long 11, 24, 1\n\t" \
		".asciz \"patchpoint\"\n\t" \
		".balign 4\n\t" \
		".weak patchpoint_object_note\n\t" \
		".hidden patchpoint_object_note\n\t" \
		".hidden __start_patchpoint_sites\n\t" \
		".hidden __stop_patchpoint_sites\n\t" \
		".hidden __start_patchpoint_preserving\n\t" \
		".hidden __stop_patchpoint_preserving\n" \
		"patchpoint_object_note:\n\t" \
		".long 2\n\t" \
		".long __start_patchpoint_sites - .\n\t" \
		".long __stop_patchpoint_sites - .\n\t" \
		".long 16\n\t" \
		".long __start_patchpoint_preserving - .\n\t" \
		".long __stop_patchpoint_preserving - .\n\t" \
		".popsection\n\t" \
		".pushsection .data.patchpoint_object,\"awG\",@progbits,patchpoint_object,comdat\n\t" \
		".balign 8\n\t" \
		".weak patchpoint_object\n\t" \
		".hidden patchpoint_object\n" \
		"patchpoint_object:\n\t" \
		".quad patchpoint_object_note\n\t" \
		".zero 64\n\t" \
		".popsection\n\t" \
		PATCHPOINT__AT_LOAD("enter", ".init_array", "init_array", "patchpoint_object_register") \
		PATCHPOINT__AT_LOAD("leave", ".fini_array", "fini_array", "patchpoint_object_unregister") \
		".endif");
#define PATCHPOINT__AT_LOAD(name, section, type, function) \
	".pushsection .text.patchpoint_" name ",\"axG\",@progbits,patchpoint_object,comdat\n\t" \
	".balign 16\n\t" \
	".type patchpoint_" name ", %function\n" \
	"patchpoint_" name ":\n\t" \
	".cfi_startproc\n\t" \
	PATCHPOINT__GIVE_OBJECT(function) \
	".cfi_endproc\n\t" \
	".size patchpoint_" name ", . - patchpoint_" name "\n\t" \
	".popsection\n\t" \
	".pushsection " section ".00101,\"awG\",@" type ",patchpoint_object,comdat\n\t" \
	".balign 8\n\t" \
	".quad patchpoint_" name "\n\t" \
	".popsection\n\t"

PATCHPOINT__ASSERT(sizeof(struct patchpoint_object) == 72 && sizeof(struct patchpoint_note) == 24 && PATCHPOINT_FORMAT == 2,
		   "patchpoint: the object above has another size");

#endif
