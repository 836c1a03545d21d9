/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What declares and defines keys. Each declaration makes typed inline functions named after the key, so that arguments and
 * results are checked and converted as for any function, in C and in C++. Include patchpoint.h, not this file.
 */
#ifndef PATCHPOINT_DECLARE_H
#define PATCHPOINT_DECLARE_H

#ifdef __cplusplus
#define PATCHPOINT__C extern "C"
#define PATCHPOINT__ASSERT static_assert
/* Integers narrower than int are passed as int: callees may rely on the extension (clang does). */
template <class T> struct patchpoint_wide { using type = T; };
template <> struct patchpoint_wide<bool> { using type = int; };
template <> struct patchpoint_wide<char> { using type = int; };
template <> struct patchpoint_wide<signed char> { using type = int; };
template <> struct patchpoint_wide<unsigned char> { using type = int; };
template <> struct patchpoint_wide<short> { using type = int; };
template <> struct patchpoint_wide<unsigned short> { using type = int; };
#define PATCHPOINT__WIDE(argument) patchpoint_wide<decltype(argument)>::type
#else
#define PATCHPOINT__C extern
#define PATCHPOINT__ASSERT _Static_assert
#define PATCHPOINT__WIDE(argument) __typeof__(1 ? (argument) : (argument))
#endif

#define PATCHPOINT__HIDDEN __attribute__((__visibility__("hidden")))
#define PATCHPOINT__INLINE static inline __attribute__((__always_inline__, __unused__))

/* Number of arguments, 1 to 8. */
#define PATCHPOINT__COUNT(...) PATCHPOINT__COUNT_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define PATCHPOINT__COUNT_(a, b, c, d, e, f, g, h, n, ...) n
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

/*
 * void or value: whether a result is exactly `void`. Only then is the macro below followed by its parenthesis ("void *()"
 * leaves it alone) and adds an argument.
 */
#define PATCHPOINT__RESULT_void() 0, void
#define PATCHPOINT__RESULT(result) PATCHPOINT__SECOND(PATCHPOINT__RESULT_##result(), value, value)
#define PATCHPOINT__SECOND(...) PATCHPOINT__SECOND_(__VA_ARGS__)
#define PATCHPOINT__SECOND_(a, b, ...) b

/* Parameters, and the same as arguments, by number. */
#define PATCHPOINT__PARAMETERS_0() void
#define PATCHPOINT__PARAMETERS_1(a) a a1
#define PATCHPOINT__PARAMETERS_2(a, b) a a1, b a2
#define PATCHPOINT__PARAMETERS_3(a, b, c) a a1, b a2, c a3
#define PATCHPOINT__PARAMETERS_4(a, b, c, d) a a1, b a2, c a3, d a4
#define PATCHPOINT__PARAMETERS_5(a, b, c, d, e) a a1, b a2, c a3, d a4, e a5
#define PATCHPOINT__PARAMETERS_6(a, b, c, d, e, f) a a1, b a2, c a3, d a4, e a5, f a6
#define PATCHPOINT__ARGUMENTS_0
#define PATCHPOINT__ARGUMENTS_1 a1
#define PATCHPOINT__ARGUMENTS_2 a1, a2
#define PATCHPOINT__ARGUMENTS_3 a1, a2, a3
#define PATCHPOINT__ARGUMENTS_4 a1, a2, a3, a4
#define PATCHPOINT__ARGUMENTS_5 a1, a2, a3, a4, a5
#define PATCHPOINT__ARGUMENTS_6 a1, a2, a3, a4, a5, a6

/* Floating point travels in other registers; larger types in none. (T)0.5 is 0 unless T is floating. */
#define PATCHPOINT__FITS(type) \
	PATCHPOINT__ASSERT(sizeof(type) <= 8, "patchpoint: arguments and results have at most 8 bytes")
#define PATCHPOINT__FITS_0() PATCHPOINT__ASSERT(1, "")
#define PATCHPOINT__FITS_1(a) PATCHPOINT__FITS(a)
#define PATCHPOINT__FITS_2(a, ...) PATCHPOINT__FITS(a); PATCHPOINT__FITS_1(__VA_ARGS__)
#define PATCHPOINT__FITS_3(a, ...) PATCHPOINT__FITS(a); PATCHPOINT__FITS_2(__VA_ARGS__)
#define PATCHPOINT__FITS_4(a, ...) PATCHPOINT__FITS(a); PATCHPOINT__FITS_3(__VA_ARGS__)
#define PATCHPOINT__FITS_5(a, ...) PATCHPOINT__FITS(a); PATCHPOINT__FITS_4(__VA_ARGS__)
#define PATCHPOINT__FITS_6(a, ...) PATCHPOINT__FITS(a); PATCHPOINT__FITS_5(__VA_ARGS__)

#ifdef PATCHPOINT_OPS
#define PATCHPOINT__OP(key) (void)__atomic_fetch_add(&patchpoint_key_##key.ops, 1, __ATOMIC_RELAXED)
#else
#define PATCHPOINT__OP(key) (void)0
#endif

#define PATCHPOINT__KEY(key) PATCHPOINT__C struct patchpoint_key patchpoint_key_##key PATCHPOINT__HIDDEN

#if defined(__x86_64__) && defined(__LP64__) && defined(__linux__) && !defined(PATCHPOINT_PORTABLE)
#include "site_x86_64.h"
#else
#include "site_portable.h"
#endif

/* PATCHPOINT_DECLARE_CALL(key, result, argument types…) */
#define PATCHPOINT_DECLARE_CALL(...) \
	PATCHPOINT__PASTE(PATCHPOINT__DECLARE_CALL_, PATCHPOINT__COUNT(__VA_ARGS__))(__VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_2(key, result) PATCHPOINT__DECLARE_CALL(key, 0, result, )
#define PATCHPOINT__DECLARE_CALL_3(key, result, ...) PATCHPOINT__DECLARE_CALL(key, 1, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_4(key, result, ...) PATCHPOINT__DECLARE_CALL(key, 2, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_5(key, result, ...) PATCHPOINT__DECLARE_CALL(key, 3, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_6(key, result, ...) PATCHPOINT__DECLARE_CALL(key, 4, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_7(key, result, ...) PATCHPOINT__DECLARE_CALL(key, 5, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_8(key, result, ...) PATCHPOINT__DECLARE_CALL(key, 6, result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL(key, n, result, ...) \
	PATCHPOINT__DECLARE_CALL_AS(key, n, PATCHPOINT__RESULT(result), result, __VA_ARGS__)
#define PATCHPOINT__DECLARE_CALL_AS(key, n, form, result, ...) \
	PATCHPOINT__FITS_##n(__VA_ARGS__); \
	PATCHPOINT__KEY(key); \
	typedef result (*patchpoint_function_##key)(PATCHPOINT__PARAMETERS_##n(__VA_ARGS__)); \
	PATCHPOINT__SITES_CALL(key, n, form, result, (PATCHPOINT__PARAMETERS_##n(__VA_ARGS__)), \
			       (PATCHPOINT__ARGUMENTS_##n)) \
	PATCHPOINT__INLINE int patchpoint_set_call_##key(patchpoint_function_##key function) \
	{ \
		return patchpoint_key_set(&patchpoint_key_##key, (uint64_t)(uintptr_t)function); \
	} \
	PATCHPOINT__INLINE int patchpoint_txn_set_call_##key(struct patchpoint_txn *txn, \
							     patchpoint_function_##key function) \
	{ \
		return patchpoint_txn_set(txn, &patchpoint_key_##key, (uint64_t)(uintptr_t)function); \
	} \
	PATCHPOINT__KEY(key)

/* PATCHPOINT_DECLARE_VALUE(key, type) */
#define PATCHPOINT_DECLARE_VALUE(key, type) \
	PATCHPOINT__ASSERT(sizeof(type) == 1 || sizeof(type) == 2 || sizeof(type) == 4 || sizeof(type) == 8, \
			   "patchpoint: a value has 1, 2, 4 or 8 bytes"); \
	PATCHPOINT__KEY(key); \
	PATCHPOINT__SITES_VALUE(key, type) \
	PATCHPOINT__INLINE int patchpoint_set_value_##key(type value) \
	{ \
		return patchpoint_key_set(&patchpoint_key_##key, (uint64_t)value); \
	} \
	PATCHPOINT__INLINE int patchpoint_txn_set_value_##key(struct patchpoint_txn *txn, type value) \
	{ \
		return patchpoint_txn_set(txn, &patchpoint_key_##key, (uint64_t)value); \
	} \
	PATCHPOINT__KEY(key)

/* PATCHPOINT_DECLARE_BRANCH(key) */
#define PATCHPOINT_DECLARE_BRANCH(key) \
	PATCHPOINT__KEY(key); \
	PATCHPOINT__SITES_BRANCH(key) \
	PATCHPOINT__INLINE int patchpoint_set_branch_##key(bool truth) \
	{ \
		return patchpoint_key_set(&patchpoint_key_##key, truth); \
	} \
	PATCHPOINT__INLINE int patchpoint_txn_set_branch_##key(struct patchpoint_txn *txn, bool truth) \
	{ \
		return patchpoint_txn_set(txn, &patchpoint_key_##key, truth); \
	} \
	PATCHPOINT__KEY(key)

/* `used`: sites name the key in assembly, which -flto does not read. */
#define PATCHPOINT__DEFINE(key, slot, origin, kind, size, null, flags) \
	PATCHPOINT__OBJECT(key) \
	PATCHPOINT__KEY(key); \
	PATCHPOINT__HIDDEN __attribute__((__used__)) struct patchpoint_key patchpoint_key_##key = { \
		slot, #key, 0, origin, NULL, kind, size, null, flags, 0, {0, 0, 0, 0, 0, 0}, 0, {0, 0, 0, 0}}

/* An operation; `null` is NOTHING, ZERO or TRAP, what a later NULL stands for. */
#define PATCHPOINT_DEFINE_CALL_OR(key, function, null) \
	PATCHPOINT__DEFINE(key, PATCHPOINT__FUNCTION(function), NULL, PATCHPOINT_CALL, 8, PATCHPOINT_NULL_##null, 0)
#define PATCHPOINT_DEFINE_CALL(key, function) PATCHPOINT_DEFINE_CALL_OR(key, function, TRAP)
/* An operation that is NULL at first. */
#define PATCHPOINT_DEFINE_CALL_NULL(key, null) PATCHPOINT_DEFINE_CALL_OR(key, PATCHPOINT__NULL_##null, null)
#define PATCHPOINT__NULL_NOTHING patchpoint_null_nothing
#define PATCHPOINT__NULL_ZERO patchpoint_null_zero
#define PATCHPOINT__NULL_TRAP patchpoint_null_trap
#define PATCHPOINT__FUNCTION(function) (__extension__(void *)(function))

#define PATCHPOINT_DEFINE_VALUE(key, type, initial) \
	PATCHPOINT__DEFINE(key, (void *)(uintptr_t)(type)(initial), NULL, PATCHPOINT_VALUE, sizeof(type), 0, 0)
#define PATCHPOINT_DEFINE_BRANCH(key, initial) \
	PATCHPOINT__DEFINE(key, (void *)(uintptr_t)((initial) ? 1 : 0), NULL, PATCHPOINT_BRANCH, 1, 0, 0)

/*
 * In one file of a program: its sites are patched when it is loaded, before main and constructors without priority, and those of
 * objects loaded later with them. What cannot be patched stays as compiled; patchpoint_status says so.
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

/* Stands for a key that another object exports. Valid from this object's first constructor (priority 101) on. */
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
	PATCHPOINT__DEFINE(key, NULL, &patchpoint_export_##key, kind, size, 0, PATCHPOINT_KEY_IMPORT)
#define PATCHPOINT_IMPORT_CALL(key) PATCHPOINT__IMPORT(key, PATCHPOINT_CALL, 8)
#define PATCHPOINT_IMPORT_VALUE(key, type) PATCHPOINT__IMPORT(key, PATCHPOINT_VALUE, sizeof(type))
#define PATCHPOINT_IMPORT_BRANCH(key) PATCHPOINT__IMPORT(key, PATCHPOINT_BRANCH, 1)

#endif
