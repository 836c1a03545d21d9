/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Macros that declare and define keys. Each declaration makes typed inline functions named after the key, so the compiler checks
 * and converts arguments and results as for any function, in C and in C++. No prefix of these names begins with another one, so a
 * key may have any name. Include patchpoint.h, not this file.
 */
#ifndef PATCHPOINT_DECLARE_H
#define PATCHPOINT_DECLARE_H

#include "types.h"

#define PATCHPOINT__HIDDEN __attribute__((__visibility__("hidden")))

/* Number of arguments, 1 to 16. */
#define PATCHPOINT__COUNT(...) PATCHPOINT__COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define PATCHPOINT__COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, n, ...) n
#define PATCHPOINT__PASTE(a, b) PATCHPOINT__PASTE_(a, b)
#define PATCHPOINT__PASTE_(a, b) a##b

/* patchpoint_call(key) has no comma to offer to a variadic macro. */
#define PATCHPOINT__CALL_WITH(prefix, ...) \
	PATCHPOINT__PASTE(PATCHPOINT__CALL_WITH_, PATCHPOINT__COUNT(__VA_ARGS__))(prefix, __VA_ARGS__)
#define PATCHPOINT__CALL_WITH_1(prefix, key) prefix##key()
#define PATCHPOINT__CALL_WITH_2(prefix, key, ...) prefix##key(__VA_ARGS__)
#define PATCHPOINT__CALL_WITH_3 PATCHPOINT__CALL_WITH_2
#define PATCHPOINT__CALL_WITH_4 PATCHPOINT__CALL_WITH_2
#define PATCHPOINT__CALL_WITH_5 PATCHPOINT__CALL_WITH_2
#define PATCHPOINT__CALL_WITH_6 PATCHPOINT__CALL_WITH_2
#define PATCHPOINT__CALL_WITH_7 PATCHPOINT__CALL_WITH_2
#define PATCHPOINT__CALL_WITH_8 PATCHPOINT__CALL_WITH_2
#define PATCHPOINT__CALL_WITH_9 PATCHPOINT__CALL_WITH_2
#define PATCHPOINT__CALL_WITH_10 PATCHPOINT__CALL_WITH_2
#define PATCHPOINT__CALL_WITH_11 PATCHPOINT__CALL_WITH_2
#define PATCHPOINT__CALL_WITH_12 PATCHPOINT__CALL_WITH_2
#define PATCHPOINT__CALL_WITH_13 PATCHPOINT__CALL_WITH_2

/*
 * Expands to `void` if a result's type is exactly `void`, else to `value`. PATCHPOINT__RESULT_void expands only if its parenthesis
 * follows directly ("void *()" does not expand it), and then adds an argument.
 */
#define PATCHPOINT__RESULT_void() 0, void
#define PATCHPOINT__RESULT(result) PATCHPOINT__SECOND(PATCHPOINT__RESULT_##result(), value, value)
#define PATCHPOINT__SECOND(...) PATCHPOINT__SECOND_(__VA_ARGS__)
#define PATCHPOINT__SECOND_(a, b, ...) b

/* Parameter lists, and their names as arguments, by number. typeof allows types of functions and arrays. */
#define PATCHPOINT__PARAMETERS_0() void
#define PATCHPOINT__PARAMETERS_1(a) __typeof__(a) a1
#define PATCHPOINT__PARAMETERS_2(a, b) __typeof__(a) a1, __typeof__(b) a2
#define PATCHPOINT__PARAMETERS_3(a, b, c) PATCHPOINT__PARAMETERS_2(a, b), __typeof__(c) a3
#define PATCHPOINT__PARAMETERS_4(a, b, c, d) PATCHPOINT__PARAMETERS_3(a, b, c), __typeof__(d) a4
#define PATCHPOINT__PARAMETERS_5(a, b, c, d, e) PATCHPOINT__PARAMETERS_4(a, b, c, d), __typeof__(e) a5
#define PATCHPOINT__PARAMETERS_6(a, b, c, d, e, f) PATCHPOINT__PARAMETERS_5(a, b, c, d, e), __typeof__(f) a6
#define PATCHPOINT__NAMES_0 ()
#define PATCHPOINT__NAMES_1 (a1)
#define PATCHPOINT__NAMES_2 (a1, a2)
#define PATCHPOINT__NAMES_3 (a1, a2, a3)
#define PATCHPOINT__NAMES_4 (a1, a2, a3, a4)
#define PATCHPOINT__NAMES_5 (a1, a2, a3, a4, a5)
#define PATCHPOINT__NAMES_6 (a1, a2, a3, a4, a5, a6)
/* For PATCHPOINT_DECLARE_CALL_ANY only. */
#define PATCHPOINT__PARAMETERS_7(a, b, c, d, e, f, g) PATCHPOINT__PARAMETERS_6(a, b, c, d, e, f), __typeof__(g) a7
#define PATCHPOINT__PARAMETERS_8(a, b, c, d, e, f, g, h) PATCHPOINT__PARAMETERS_7(a, b, c, d, e, f, g), __typeof__(h) a8
#define PATCHPOINT__PARAMETERS_9(a, b, c, d, e, f, g, h, i) PATCHPOINT__PARAMETERS_8(a, b, c, d, e, f, g, h), __typeof__(i) a9
#define PATCHPOINT__PARAMETERS_10(a, b, c, d, e, f, g, h, i, j) PATCHPOINT__PARAMETERS_9(a, b, c, d, e, f, g, h, i), __typeof__(j) a10
#define PATCHPOINT__PARAMETERS_11(a, b, c, d, e, f, g, h, i, j, k) PATCHPOINT__PARAMETERS_10(a, b, c, d, e, f, g, h, i, j), __typeof__(k) a11
#define PATCHPOINT__PARAMETERS_12(a, b, c, d, e, f, g, h, i, j, k, l) PATCHPOINT__PARAMETERS_11(a, b, c, d, e, f, g, h, i, j, k), __typeof__(l) a12
#define PATCHPOINT__NAMES_7 (a1, a2, a3, a4, a5, a6, a7)
#define PATCHPOINT__NAMES_8 (a1, a2, a3, a4, a5, a6, a7, a8)
#define PATCHPOINT__NAMES_9 (a1, a2, a3, a4, a5, a6, a7, a8, a9)
#define PATCHPOINT__NAMES_10 (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10)
#define PATCHPOINT__NAMES_11 (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11)
#define PATCHPOINT__NAMES_12 (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12)

/* Refuses structs, which travel in pieces or in memory, and larger numbers, which travel in two registers. */
#define PATCHPOINT__CARRIED(type) \
	PATCHPOINT__ASSERT(PATCHPOINT__IS_WORD(PATCHPOINT__PASSED(type)) || PATCHPOINT__IS_REAL(PATCHPOINT__PASSED(type)), \
			   "patchpoint: arguments and results are integers, enumerations, pointers, float or double, of at " \
			   "most 8 bytes; pass a struct or a larger number by a pointer to it, or declare the key with " \
			   "PATCHPOINT_DECLARE_CALL_ANY")
#define PATCHPOINT__CARRIED_0() PATCHPOINT__ASSERT(1, "")
#define PATCHPOINT__CARRIED_1(a) PATCHPOINT__CARRIED(a)
#define PATCHPOINT__CARRIED_2(a, ...) PATCHPOINT__CARRIED(a); PATCHPOINT__CARRIED_1(__VA_ARGS__)
#define PATCHPOINT__CARRIED_3(a, ...) PATCHPOINT__CARRIED(a); PATCHPOINT__CARRIED_2(__VA_ARGS__)
#define PATCHPOINT__CARRIED_4(a, ...) PATCHPOINT__CARRIED(a); PATCHPOINT__CARRIED_3(__VA_ARGS__)
#define PATCHPOINT__CARRIED_5(a, ...) PATCHPOINT__CARRIED(a); PATCHPOINT__CARRIED_4(__VA_ARGS__)
#define PATCHPOINT__CARRIED_6(a, ...) PATCHPOINT__CARRIED(a); PATCHPOINT__CARRIED_5(__VA_ARGS__)
#define PATCHPOINT__RETURN_value return
#define PATCHPOINT__RETURN_void
#define PATCHPOINT__CARRIED_void(result) PATCHPOINT__ASSERT(1, "")
#define PATCHPOINT__CARRIED_value(result) PATCHPOINT__CARRIED(result)
#define PATCHPOINT__RESULT_IS_REAL_void(result) false
#define PATCHPOINT__RESULT_IS_REAL_value(result) PATCHPOINT__IS_REAL(PATCHPOINT__PASSED(result))

/* Whether any of the types is real. */
#define PATCHPOINT__ANY_REAL_0() false
#define PATCHPOINT__ANY_REAL_1(a) PATCHPOINT__IS_REAL(PATCHPOINT__PASSED(a))
#define PATCHPOINT__ANY_REAL_2(a, ...) PATCHPOINT__ANY_REAL_1(a) || PATCHPOINT__ANY_REAL_1(__VA_ARGS__)
#define PATCHPOINT__ANY_REAL_3(a, ...) PATCHPOINT__ANY_REAL_1(a) || PATCHPOINT__ANY_REAL_2(__VA_ARGS__)
#define PATCHPOINT__ANY_REAL_4(a, ...) PATCHPOINT__ANY_REAL_1(a) || PATCHPOINT__ANY_REAL_3(__VA_ARGS__)
#define PATCHPOINT__ANY_REAL_5(a, ...) PATCHPOINT__ANY_REAL_1(a) || PATCHPOINT__ANY_REAL_4(__VA_ARGS__)
#define PATCHPOINT__ANY_REAL_6(a, ...) PATCHPOINT__ANY_REAL_1(a) || PATCHPOINT__ANY_REAL_5(__VA_ARGS__)

/*
 * Declares a key. Sites name the object that holds the key in assembly, by its symbol and the key's offset there, since a compiler
 * does not accept the key's address as an operand everywhere (gcc, -O0 -fPIC).
 */
#define PATCHPOINT__KEY(key) PATCHPOINT__C struct patchpoint_key patchpoint_key_##key PATCHPOINT__HIDDEN

#ifdef PATCHPOINT_OPS
#define PATCHPOINT__OP(lvalue) (void)__atomic_fetch_add(&(lvalue).ops, 1, __ATOMIC_RELAXED)
#else
#define PATCHPOINT__OP(lvalue) (void)0
#endif

/* gcc before version 11 has no asm goto with outputs. */
#if !defined(__linux__) || !defined(__LP64__) || defined(PATCHPOINT_PORTABLE) || (!defined(__clang__) && __GNUC__ < 11)
#include "site_portable.h"
#elif defined(__x86_64__)
#include "site_x86_64.h"
#elif defined(__aarch64__) && defined(__AARCH64EL__)
#include "site_aarch64.h"
#else
#include "site_portable.h"
#endif

#include "variants.h"

/* PATCHPOINT_DECLARE_CALL(key, result, argument types…) */
#define PATCHPOINT_DECLARE_CALL(...) \
	PATCHPOINT__PASTE(PATCHPOINT__DECLARE_CALL_, PATCHPOINT__COUNT(__VA_ARGS__))(__VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_1(key) PATCHPOINT__ASSERT(0, "patchpoint: give the key, the result's type and the arguments'")
#define PATCHPOINT__DECLARE_CALL_2(key, result) PATCHPOINT__DECLARE_CALL(key, 0, result, )
#define PATCHPOINT__DECLARE_CALL_3(key, result, ...) PATCHPOINT__DECLARE_CALL(key, 1, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_4(key, result, ...) PATCHPOINT__DECLARE_CALL(key, 2, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_5(key, result, ...) PATCHPOINT__DECLARE_CALL(key, 3, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_6(key, result, ...) PATCHPOINT__DECLARE_CALL(key, 4, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_7(key, result, ...) PATCHPOINT__DECLARE_CALL(key, 5, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_8(key, result, ...) PATCHPOINT__DECLARE_CALL(key, 6, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_9(...) \
	PATCHPOINT__ASSERT(0, "patchpoint: an operation has at most 6 arguments; pass more by a pointer to a struct, or declare the key with " \
				"PATCHPOINT_DECLARE_CALL_ANY")
#define PATCHPOINT__DECLARE_CALL_10 PATCHPOINT__DECLARE_CALL_9
#define PATCHPOINT__DECLARE_CALL_11 PATCHPOINT__DECLARE_CALL_9
#define PATCHPOINT__DECLARE_CALL_12 PATCHPOINT__DECLARE_CALL_9
#define PATCHPOINT__DECLARE_CALL_13 PATCHPOINT__DECLARE_CALL_9
#define PATCHPOINT__DECLARE_CALL_14 PATCHPOINT__DECLARE_CALL_9
#define PATCHPOINT__DECLARE_CALL_15 PATCHPOINT__DECLARE_CALL_9
#define PATCHPOINT__DECLARE_CALL_16 PATCHPOINT__DECLARE_CALL_9
#define PATCHPOINT__DECLARE_CALL(key, n, result, ...) \
	PATCHPOINT__DECLARE_CALL_AS(key, n, PATCHPOINT__RESULT(result), result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_AS(key, n, form, result, ...) \
	PATCHPOINT__DECLARE_CALL_FORM(key, n, form, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_FORM(key, n, form, result, ...) \
	PATCHPOINT__CARRIED_##form(result); \
	PATCHPOINT__CARRIED_##n(__VA_ARGS__); \
	PATCHPOINT__KEY(key); \
	enum { \
		patchpoint_result_is_real_##key = PATCHPOINT__RESULT_IS_REAL_##form(result), \
		patchpoint_any_is_real_##key = PATCHPOINT__RESULT_IS_REAL_##form(result) || PATCHPOINT__ANY_REAL_##n(__VA_ARGS__) \
	}; \
	typedef __typeof__(result) (*patchpoint_function_##key)(PATCHPOINT__PARAMETERS_##n(__VA_ARGS__)); \
	PATCHPOINT__DECLARE_ANSWERS(key, bool, 1, patchpoint_key_##key) \
	PATCHPOINT__SITES_CALL(key, n, form, __typeof__(result), (PATCHPOINT__PARAMETERS_##n(__VA_ARGS__)), \
			       PATCHPOINT__NAMES_##n) \
	PATCHPOINT__CALL_SETTERS(key)
#define PATCHPOINT__CALL_SETTERS(key) \
	PATCHPOINT__INLINE int patchpoint_set_call_##key(patchpoint_function_##key function) \
	{ \
		return patchpoint_key_set(&patchpoint_key_##key, PATCHPOINT__BITS(function)); \
	} \
	PATCHPOINT__INLINE int patchpoint_txn_set_call_##key(struct patchpoint_txn *txn, \
							     patchpoint_function_##key function) \
	{ \
		return patchpoint_txn_set(txn, &patchpoint_key_##key, PATCHPOINT__BITS(function)); \
	} \
	PATCHPOINT__KEY(key)

/*
 * PATCHPOINT_DECLARE_CALL_ANY(key, result, argument types…): a call of up to 12 arguments of all types that the language passes by
 * value, such as structs, long double and vectors. Needs PATCHPOINT_DEFINE_JUMP(key); in one file of each object, beside
 * PATCHPOINT_DEFINE_CALL. Callers call a thunk there, whose one instruction is the site: a jump to the operation (on other
 * architectures than x86-64 callers call the operation indirectly). With the policies ZERO and NOTHING a missing operation leaves a
 * struct undefined, and must not be called if the ABI returns the struct in memory.
 */
#define PATCHPOINT_DECLARE_CALL_ANY(...) \
	PATCHPOINT__PASTE(PATCHPOINT__ANY_, PATCHPOINT__COUNT(__VA_ARGS__))(__VA_ARGS__)
#define PATCHPOINT__ANY_1(key) PATCHPOINT__ASSERT(0, "patchpoint: give the key, the result's type and the arguments'")
#define PATCHPOINT__ANY_2(key, result) PATCHPOINT__DECLARE_ANY(key, 0, result, )
#define PATCHPOINT__ANY_3(key, result, ...) PATCHPOINT__DECLARE_ANY(key, 1, result, __VA_ARGS__)
#define PATCHPOINT__ANY_4(key, result, ...) PATCHPOINT__DECLARE_ANY(key, 2, result, __VA_ARGS__)
#define PATCHPOINT__ANY_5(key, result, ...) PATCHPOINT__DECLARE_ANY(key, 3, result, __VA_ARGS__)
#define PATCHPOINT__ANY_6(key, result, ...) PATCHPOINT__DECLARE_ANY(key, 4, result, __VA_ARGS__)
#define PATCHPOINT__ANY_7(key, result, ...) PATCHPOINT__DECLARE_ANY(key, 5, result, __VA_ARGS__)
#define PATCHPOINT__ANY_8(key, result, ...) PATCHPOINT__DECLARE_ANY(key, 6, result, __VA_ARGS__)
#define PATCHPOINT__ANY_9(key, result, ...) PATCHPOINT__DECLARE_ANY(key, 7, result, __VA_ARGS__)
#define PATCHPOINT__ANY_10(key, result, ...) PATCHPOINT__DECLARE_ANY(key, 8, result, __VA_ARGS__)
#define PATCHPOINT__ANY_11(key, result, ...) PATCHPOINT__DECLARE_ANY(key, 9, result, __VA_ARGS__)
#define PATCHPOINT__ANY_12(key, result, ...) PATCHPOINT__DECLARE_ANY(key, 10, result, __VA_ARGS__)
#define PATCHPOINT__ANY_13(key, result, ...) PATCHPOINT__DECLARE_ANY(key, 11, result, __VA_ARGS__)
#define PATCHPOINT__ANY_14(key, result, ...) PATCHPOINT__DECLARE_ANY(key, 12, result, __VA_ARGS__)
#define PATCHPOINT__ANY_15(...) PATCHPOINT__ASSERT(0, "patchpoint: an operation of any types has at most 12 arguments")
#define PATCHPOINT__ANY_16 PATCHPOINT__ANY_15
#define PATCHPOINT__DECLARE_ANY(key, n, result, ...) PATCHPOINT__DECLARE_ANY_AS(key, n, PATCHPOINT__RESULT(result), result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_ANY_AS(...) PATCHPOINT__DECLARE_ANY_FORM(__VA_ARGS__)
#define PATCHPOINT__DECLARE_ANY_FORM(key, n, form, result, ...) \
	PATCHPOINT__KEY(key); \
	enum { patchpoint_result_is_real_##key = PATCHPOINT__RESULT_IS_REAL_##form(result) }; \
	typedef __typeof__(result) (*patchpoint_function_##key)(PATCHPOINT__PARAMETERS_##n(__VA_ARGS__)); \
	PATCHPOINT__DECLARE_ANSWERS(key, bool, 1, patchpoint_key_##key) \
	PATCHPOINT__DECLARE_JUMP(key, __typeof__(result), (PATCHPOINT__PARAMETERS_##n(__VA_ARGS__))) \
	PATCHPOINT__INLINE __typeof__(result) patchpoint_call_##key(PATCHPOINT__PARAMETERS_##n(__VA_ARGS__)) \
	{ \
		PATCHPOINT__OP(patchpoint_key_##key); \
		PATCHPOINT__RETURN_##form PATCHPOINT__JUMP_THROUGH(key) PATCHPOINT__NAMES_##n; \
	} \
	PATCHPOINT__CALL_SETTERS(key)
#ifdef PATCHPOINT__JUMPS
/* By its symbol, since C linkage does not take all types of C++. */
#define PATCHPOINT__DECLARE_JUMP(key, result, parameters) \
	extern result patchpoint_jump_##key parameters __asm__("patchpoint_jump_" #key) PATCHPOINT__HIDDEN;
#define PATCHPOINT__JUMP_THROUGH(key) patchpoint_jump_##key
#else
#define PATCHPOINT__DECLARE_JUMP(key, result, parameters)
#define PATCHPOINT__JUMP_THROUGH(key) \
	(__extension__ PATCHPOINT__CAST(patchpoint_function_##key, \
					__atomic_load_n(&patchpoint_key_##key.slot, __ATOMIC_ACQUIRE)))
#define PATCHPOINT_DEFINE_JUMP(key) PATCHPOINT__KEY(key)
#endif

/*
 * PATCHPOINT_DECLARE_VALUE(key, type), PATCHPOINT_DECLARE_BRANCH(key), PATCHPOINT_DECLARE_SWITCH(key, ways). With _IN the key is a
 * struct patchpoint_key inside an object of the program: (key, …, object, member), where `object member` names the key, such as
 * (io_enabled, categories, [IO].enabled) or (tracing, settings, .tracing). The object is declared and defined by
 * PATCHPOINT_DECLARE_HOLDER(struct category, categories, [3]); and PATCHPOINT_DEFINE_HOLDER(struct category, categories, [3]) =
 * {…}; with PATCHPOINT_BRANCH_INIT and so on for its keys.
 */
#define PATCHPOINT_DECLARE_VALUE(key, type) \
	PATCHPOINT__KEY(key); \
	PATCHPOINT__DECLARE_VALUE(key, type, "patchpoint_key_" #key, 0, patchpoint_key_##key); \
	PATCHPOINT__KEY(key)
#define PATCHPOINT_DECLARE_VALUE_IN(key, type, holder, member) \
	PATCHPOINT__DECLARE_VALUE(key, type, #holder, PATCHPOINT__OFFSET(holder, member), holder member)
#define PATCHPOINT_DECLARE_BRANCH(key) \
	PATCHPOINT__KEY(key); \
	PATCHPOINT__DECLARE_BRANCH(key, "patchpoint_key_" #key, 0, patchpoint_key_##key); \
	PATCHPOINT__KEY(key)
#define PATCHPOINT_DECLARE_BRANCH_IN(key, holder, member) \
	PATCHPOINT__DECLARE_BRANCH(key, #holder, PATCHPOINT__OFFSET(holder, member), holder member)
#define PATCHPOINT_DECLARE_SWITCH(key, ways) \
	PATCHPOINT__KEY(key); \
	PATCHPOINT__DECLARE_SWITCH(key, ways, "patchpoint_key_" #key, 0, patchpoint_key_##key); \
	PATCHPOINT__KEY(key)
#define PATCHPOINT_DECLARE_SWITCH_IN(key, ways, holder, member) \
	PATCHPOINT__DECLARE_SWITCH(key, ways, #holder, PATCHPOINT__OFFSET(holder, member), holder member)
#define PATCHPOINT_DECLARE_HOLDER(type, ...) PATCHPOINT__HOLDER(type, PATCHPOINT__FIRST(__VA_ARGS__, , ), __VA_ARGS__, , )
#define PATCHPOINT_DEFINE_HOLDER(type, ...) \
	PATCHPOINT__OBJECT \
	PATCHPOINT_DECLARE_HOLDER(type, __VA_ARGS__); \
	PATCHPOINT__HIDDEN __attribute__((__used__)) type PATCHPOINT__NAME_AND(__VA_ARGS__, , )
#define PATCHPOINT__FIRST(first, ...) first
#define PATCHPOINT__NAME_AND(name, dimensions, ...) name dimensions
#define PATCHPOINT__HOLDER(type, first, name, dimensions, ...) PATCHPOINT__C type name dimensions PATCHPOINT__HIDDEN

#define PATCHPOINT__DECLARE_VALUE(key, type, symbol, offset, lvalue) \
	PATCHPOINT__ASSERT(PATCHPOINT__IS_WORD(type), "patchpoint: a value is an integer, an enumeration or a pointer of at most " \
						      "8 bytes"); \
	enum { patchpoint_size_of_##key = sizeof(type) }; \
	PATCHPOINT__SITES_VALUE(key, type, symbol, offset, lvalue) \
	PATCHPOINT__DECLARE_ANSWERS(key, bool, 1, lvalue) \
	PATCHPOINT__SETTERS(key, value, type, PATCHPOINT__BITS(value), lvalue)
#define PATCHPOINT__DECLARE_BRANCH(key, symbol, offset, lvalue) \
	PATCHPOINT__SITES_BRANCH(key, symbol, offset, lvalue) \
	PATCHPOINT__DECLARE_ANSWERS(key, bool, 2, lvalue) \
	PATCHPOINT__INLINE int patchpoint_inc_##key(void) \
	{ \
		return patchpoint_key_inc(&(lvalue)); \
	} \
	PATCHPOINT__INLINE int patchpoint_dec_##key(void) \
	{ \
		return patchpoint_key_dec(&(lvalue)); \
	} \
	PATCHPOINT__INLINE uint32_t patchpoint_users_##key(void) \
	{ \
		return patchpoint_key_users(&(lvalue)); \
	} \
	PATCHPOINT__SETTERS(key, branch, bool, value, lvalue)
#define PATCHPOINT__DECLARE_SWITCH(key, ways, symbol, offset, lvalue) \
	PATCHPOINT__ASSERT((ways) + 0 >= 2 && (ways) + 0 <= 0 + PATCHPOINT_WAYS_MAX, "patchpoint: a switch has 2 to 8 ways"); \
	enum { patchpoint_size_of_##key = (ways) }; \
	PATCHPOINT__SITES_SWITCH(key, ways, symbol, offset, lvalue) \
	PATCHPOINT__DECLARE_ANSWERS(key, unsigned, ways, lvalue) \
	PATCHPOINT__SETTERS(key, switch, unsigned, value, lvalue)
#define PATCHPOINT__SETTERS(key, kind, type, bits, lvalue) \
	PATCHPOINT__INLINE int patchpoint_set_##kind##_##key(type value) \
	{ \
		return patchpoint_key_set(&(lvalue), bits); \
	} \
	PATCHPOINT__INLINE int patchpoint_txn_set_##kind##_##key(struct patchpoint_txn *txn, type value) \
	{ \
		return patchpoint_txn_set(txn, &(lvalue), bits); \
	} \
	PATCHPOINT__ASSERT(1, "")

#define PATCHPOINT__INIT(slot, name, origin, kind, size, null, flags) \
	{ \
		slot, name, 0, origin, NULL, NULL, 0, kind, size, null, flags, 0, {0, 0, 0, 0, 0, 0, 0}, 0, {0, 0, 0}, 0 \
	}
#define PATCHPOINT__SLOT_OF(value) PATCHPOINT__CAST(void *, PATCHPOINT__CAST(uintptr_t, value))
/* The initial contents of a key that is a member of an object. */
#define PATCHPOINT_VALUE_INIT(name, type, initial) \
	PATCHPOINT__INIT(PATCHPOINT__SLOT_OF(PATCHPOINT__CAST(type, initial)), name, NULL, PATCHPOINT_VALUE, sizeof(type), 0, 0)
#define PATCHPOINT_BRANCH_INIT(name, initial) \
	PATCHPOINT__INIT(PATCHPOINT__SLOT_OF((initial) ? 1 : 0), name, NULL, PATCHPOINT_BRANCH, 1, 0, 0)
#define PATCHPOINT_SWITCH_INIT(name, ways, initial) \
	PATCHPOINT__INIT(PATCHPOINT__SLOT_OF(initial), name, NULL, PATCHPOINT_SWITCH, ways, 0, 0)

/* `used`: sites name the key in assembly, which -flto does not read. `aligned`: gcc would align each key to 32 bytes. */
#define PATCHPOINT__DEFINE(key, ...) \
	PATCHPOINT__OBJECT \
	PATCHPOINT__KEY(key); \
	PATCHPOINT__HIDDEN __attribute__((__used__, __aligned__(8))) struct patchpoint_key patchpoint_key_##key = __VA_ARGS__

/* Defines a call key. `null` says what a later NULL operation stands for: NOTHING, ZERO or TRAP. */
#define PATCHPOINT_DEFINE_CALL_OR(key, function, null) PATCHPOINT__DEFINE_CALL(key, PATCHPOINT__FUNCTION(function), null)
#define PATCHPOINT_DEFINE_CALL(key, function) PATCHPOINT_DEFINE_CALL_OR(key, function, TRAP)
/* Defines a call key whose operation is NULL at first. */
#define PATCHPOINT_DEFINE_CALL_NULL(key, null) PATCHPOINT__DEFINE_CALL(key, PATCHPOINT__NULL_##null(key), null)
#define PATCHPOINT__DEFINE_CALL(key, slot, null) \
	PATCHPOINT__DEFINE(key, PATCHPOINT__INIT(slot, #key, NULL, PATCHPOINT_CALL, 8, PATCHPOINT__POLICY_##null(key), 0))
#define PATCHPOINT__NULL_NOTHING(key) PATCHPOINT__FUNCTION(patchpoint_null_nothing)
#define PATCHPOINT__NULL_ZERO(key) \
	PATCHPOINT__FUNCTION(patchpoint_result_is_real_##key ? patchpoint_null_zero_real : patchpoint_null_zero)
#define PATCHPOINT__NULL_TRAP(key) PATCHPOINT__FUNCTION(patchpoint_null_trap)
#define PATCHPOINT__POLICY_NOTHING(key) PATCHPOINT_NULL_NOTHING
#define PATCHPOINT__POLICY_ZERO(key) (patchpoint_result_is_real_##key ? PATCHPOINT_NULL_ZERO_REAL : PATCHPOINT_NULL_ZERO)
#define PATCHPOINT__POLICY_TRAP(key) PATCHPOINT_NULL_TRAP
#define PATCHPOINT__FUNCTION(function) (__extension__ PATCHPOINT__CAST(void *, function))

#define PATCHPOINT_DEFINE_VALUE(key, type, initial) \
	PATCHPOINT__DEFINE(key, PATCHPOINT_VALUE_INIT(#key, type, initial))
#define PATCHPOINT_DEFINE_BRANCH(key, initial) PATCHPOINT__DEFINE(key, PATCHPOINT_BRANCH_INIT(#key, initial))
#define PATCHPOINT_DEFINE_SWITCH(key, ways, initial) \
	PATCHPOINT__ASSERT((initial) + 0 < (ways) + 0, "patchpoint: the ways of a switch are 0 to ways - 1"); \
	PATCHPOINT__DEFINE(key, PATCHPOINT_SWITCH_INIT(#key, ways, initial))

/*
 * Written in one file of a program: patches the program's sites when it is loaded, before main and constructors without priority,
 * and the sites of objects that are loaded later. Sites that cannot be patched stay as compiled; patchpoint_status says why.
 */
#define PATCHPOINT_PATCH_AT_LOAD \
	static __attribute__((__constructor__(102), __used__)) void patchpoint_patch_at_load(void) \
	{ \
		(void)patchpoint_init(); \
	} \
	PATCHPOINT__ASSERT(1, "")

/* Lets other objects import a key that this object defines. */
#define PATCHPOINT_EXPORT(key) \
	PATCHPOINT__C struct patchpoint_key *const patchpoint_export_##key \
		__attribute__((__visibility__("default"))); \
	__attribute__((__used__)) struct patchpoint_key *const patchpoint_export_##key = &patchpoint_key_##key

/* Defines a key that stands for another object's exported key. Valid from this object's first constructor (priority 101) on. */
#define PATCHPOINT__IMPORT(key, kind, size) \
	PATCHPOINT__C struct patchpoint_key *const patchpoint_export_##key __attribute__((__visibility__("default"))); \
	static __attribute__((__constructor__(101), __used__)) void patchpoint_import_##key(void) \
	{ \
		patchpoint_import_register(&patchpoint_key_##key); \
	} \
	static __attribute__((__destructor__(101), __used__)) void patchpoint_unimport_##key(void) \
	{ \
		patchpoint_import_unregister(&patchpoint_key_##key); \
	} \
	PATCHPOINT__DEFINE(key, PATCHPOINT__INIT(NULL, #key, &patchpoint_export_##key, kind, size, 0, PATCHPOINT_KEY_IMPORT))
#define PATCHPOINT_IMPORT_CALL(key) PATCHPOINT__IMPORT(key, PATCHPOINT_CALL, 8)
/* The type of a value and the ways of a switch are known by the key's declaration; they may stand behind the key as well. */
#define PATCHPOINT_IMPORT_VALUE(...) PATCHPOINT__IMPORT_FIRST(PATCHPOINT__FIRST(__VA_ARGS__, ), PATCHPOINT_VALUE)
#define PATCHPOINT_IMPORT_BRANCH(key) PATCHPOINT__IMPORT(key, PATCHPOINT_BRANCH, 1)
#define PATCHPOINT_IMPORT_SWITCH(...) PATCHPOINT__IMPORT_FIRST(PATCHPOINT__FIRST(__VA_ARGS__, ), PATCHPOINT_SWITCH)
#define PATCHPOINT__IMPORT_FIRST(key, kind) PATCHPOINT__IMPORT_SIZED(key, kind)
#define PATCHPOINT__IMPORT_SIZED(key, kind) PATCHPOINT__IMPORT(key, kind, patchpoint_size_of_##key)

#endif
