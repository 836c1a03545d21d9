/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Functions that are compiled once for each combination of their keys. Include patchpoint.h, not this file.
 *
 * PATCHPOINT_DEFINE_VARIANTS makes one inline function, whose first parameters are the keys' values, and sixteen functions that call
 * it with constants; the compiler drops those that are beyond the number of combinations. Combination i has the values
 * i / stride % ways of each key.
 */
#ifndef PATCHPOINT_VARIANTS_H
#define PATCHPOINT_VARIANTS_H

/* The constant that a body sees, by the kind of key; a value or a call has no short list of values. */
#define PATCHPOINT__DECLARE_ANSWERS(key, type, ways, lvalue) \
	typedef type patchpoint_answer_##key; \
	enum { patchpoint_ways_##key = ways }; \
	PATCHPOINT__INLINE struct patchpoint_key *patchpoint_address_##key(void) \
	{ \
		return &(lvalue); \
	}
#define PATCHPOINT__WAYS(key) PATCHPOINT__CAST(int, patchpoint_ways_##key)

/* (type, name, …), or (void), as parameters; as parameters and as arguments after the keys' values. By the number of elements. */
#define PATCHPOINT__TYPED(type, name) __typeof__(type) name
#define PATCHPOINT__TYPED_1(nothing) nothing
#define PATCHPOINT__TYPED_2(t, a) PATCHPOINT__TYPED(t, a)
#define PATCHPOINT__TYPED_4(t, a, ...) PATCHPOINT__TYPED(t, a), PATCHPOINT__TYPED_2(__VA_ARGS__)
#define PATCHPOINT__TYPED_6(t, a, ...) PATCHPOINT__TYPED(t, a), PATCHPOINT__TYPED_4(__VA_ARGS__)
#define PATCHPOINT__TYPED_8(t, a, ...) PATCHPOINT__TYPED(t, a), PATCHPOINT__TYPED_6(__VA_ARGS__)
#define PATCHPOINT__TYPED_10(t, a, ...) PATCHPOINT__TYPED(t, a), PATCHPOINT__TYPED_8(__VA_ARGS__)
#define PATCHPOINT__TYPED_12(t, a, ...) PATCHPOINT__TYPED(t, a), PATCHPOINT__TYPED_10(__VA_ARGS__)
#define PATCHPOINT__TYPED_14(t, a, ...) PATCHPOINT__TYPED(t, a), PATCHPOINT__TYPED_12(__VA_ARGS__)
#define PATCHPOINT__TYPED_16(t, a, ...) PATCHPOINT__TYPED(t, a), PATCHPOINT__TYPED_14(__VA_ARGS__)
#define PATCHPOINT__AND_TYPED_1(nothing)
#define PATCHPOINT__AND_TYPED_2(...) , PATCHPOINT__TYPED_2(__VA_ARGS__)
#define PATCHPOINT__AND_TYPED_4(...) , PATCHPOINT__TYPED_4(__VA_ARGS__)
#define PATCHPOINT__AND_TYPED_6(...) , PATCHPOINT__TYPED_6(__VA_ARGS__)
#define PATCHPOINT__AND_TYPED_8(...) , PATCHPOINT__TYPED_8(__VA_ARGS__)
#define PATCHPOINT__AND_TYPED_10(...) , PATCHPOINT__TYPED_10(__VA_ARGS__)
#define PATCHPOINT__AND_TYPED_12(...) , PATCHPOINT__TYPED_12(__VA_ARGS__)
#define PATCHPOINT__AND_TYPED_14(...) , PATCHPOINT__TYPED_14(__VA_ARGS__)
#define PATCHPOINT__AND_TYPED_16(...) , PATCHPOINT__TYPED_16(__VA_ARGS__)
#define PATCHPOINT__JUST_NAMED_1(nothing)
#define PATCHPOINT__JUST_NAMED_2(t, a) a
#define PATCHPOINT__JUST_NAMED_4(t, a, ...) a, PATCHPOINT__JUST_NAMED_2(__VA_ARGS__)
#define PATCHPOINT__JUST_NAMED_6(t, a, ...) a, PATCHPOINT__JUST_NAMED_4(__VA_ARGS__)
#define PATCHPOINT__JUST_NAMED_8(t, a, ...) a, PATCHPOINT__JUST_NAMED_6(__VA_ARGS__)
#define PATCHPOINT__JUST_NAMED_10(t, a, ...) a, PATCHPOINT__JUST_NAMED_8(__VA_ARGS__)
#define PATCHPOINT__JUST_NAMED_12(t, a, ...) a, PATCHPOINT__JUST_NAMED_10(__VA_ARGS__)
#define PATCHPOINT__JUST_NAMED_14(t, a, ...) a, PATCHPOINT__JUST_NAMED_12(__VA_ARGS__)
#define PATCHPOINT__JUST_NAMED_16(t, a, ...) a, PATCHPOINT__JUST_NAMED_14(__VA_ARGS__)
#define PATCHPOINT__AND_NAMED_1(nothing)
#define PATCHPOINT__AND_NAMED_2(...) , PATCHPOINT__JUST_NAMED_2(__VA_ARGS__)
#define PATCHPOINT__AND_NAMED_4(...) , PATCHPOINT__JUST_NAMED_4(__VA_ARGS__)
#define PATCHPOINT__AND_NAMED_6(...) , PATCHPOINT__JUST_NAMED_6(__VA_ARGS__)
#define PATCHPOINT__AND_NAMED_8(...) , PATCHPOINT__JUST_NAMED_8(__VA_ARGS__)
#define PATCHPOINT__AND_NAMED_10(...) , PATCHPOINT__JUST_NAMED_10(__VA_ARGS__)
#define PATCHPOINT__AND_NAMED_12(...) , PATCHPOINT__JUST_NAMED_12(__VA_ARGS__)
#define PATCHPOINT__AND_NAMED_14(...) , PATCHPOINT__JUST_NAMED_14(__VA_ARGS__)
#define PATCHPOINT__AND_NAMED_16(...) , PATCHPOINT__JUST_NAMED_16(__VA_ARGS__)

/* The keys, by their number: the parameters of the body; their values in combination i; their strides; their places in the record. */
#define PATCHPOINT__CONSTANT(key) __attribute__((__unused__)) const patchpoint_answer_##key key
#define PATCHPOINT__CONSTANTS_1(a) PATCHPOINT__CONSTANT(a)
#define PATCHPOINT__CONSTANTS_2(a, b) PATCHPOINT__CONSTANTS_1(a), PATCHPOINT__CONSTANT(b)
#define PATCHPOINT__CONSTANTS_3(a, b, c) PATCHPOINT__CONSTANTS_2(a, b), PATCHPOINT__CONSTANT(c)
#define PATCHPOINT__CONSTANTS_4(a, b, c, d) PATCHPOINT__CONSTANTS_3(a, b, c), PATCHPOINT__CONSTANT(d)
#define PATCHPOINT__ANSWER(i, number, name, key) \
	PATCHPOINT__CAST(patchpoint_answer_##key, \
			 i / PATCHPOINT__CAST(int, patchpoint_stride_##number##_##name) % PATCHPOINT__WAYS(key))
#define PATCHPOINT__ANSWERS_1(i, name, a) PATCHPOINT__ANSWER(i, 1, name, a)
#define PATCHPOINT__ANSWERS_2(i, name, a, b) PATCHPOINT__ANSWERS_1(i, name, a), PATCHPOINT__ANSWER(i, 2, name, b)
#define PATCHPOINT__ANSWERS_3(i, name, a, b, c) PATCHPOINT__ANSWERS_2(i, name, a, b), PATCHPOINT__ANSWER(i, 3, name, c)
#define PATCHPOINT__ANSWERS_4(i, name, a, b, c, d) PATCHPOINT__ANSWERS_3(i, name, a, b, c), PATCHPOINT__ANSWER(i, 4, name, d)
#define PATCHPOINT__STRIDES_1(name, a) \
	patchpoint_stride_1_##name = 1, patchpoint_combinations_##name = PATCHPOINT__WAYS(a)
#define PATCHPOINT__STRIDES_2(name, a, b) \
	patchpoint_stride_1_##name = 1, patchpoint_stride_2_##name = PATCHPOINT__WAYS(a), \
	patchpoint_combinations_##name = PATCHPOINT__WAYS(a) * PATCHPOINT__WAYS(b)
#define PATCHPOINT__STRIDES_3(name, a, b, c) \
	patchpoint_stride_1_##name = 1, patchpoint_stride_2_##name = PATCHPOINT__WAYS(a), \
	patchpoint_stride_3_##name = PATCHPOINT__WAYS(a) * PATCHPOINT__WAYS(b), \
	patchpoint_combinations_##name = PATCHPOINT__WAYS(a) * PATCHPOINT__WAYS(b) * PATCHPOINT__WAYS(c)
#define PATCHPOINT__STRIDES_4(name, a, b, c, d) \
	patchpoint_stride_1_##name = 1, patchpoint_stride_2_##name = PATCHPOINT__WAYS(a), \
	patchpoint_stride_3_##name = PATCHPOINT__WAYS(a) * PATCHPOINT__WAYS(b), \
	patchpoint_stride_4_##name = PATCHPOINT__WAYS(a) * PATCHPOINT__WAYS(b) * PATCHPOINT__WAYS(c), \
	patchpoint_combinations_##name = \
		PATCHPOINT__WAYS(a) * PATCHPOINT__WAYS(b) * PATCHPOINT__WAYS(c) * PATCHPOINT__WAYS(d)
#define PATCHPOINT__FEW(key) \
	PATCHPOINT__ASSERT(patchpoint_ways_##key >= 2, \
			   "patchpoint: variants depend on branches and switches; a value has too many values")
#define PATCHPOINT__FEW_1(a) PATCHPOINT__FEW(a)
#define PATCHPOINT__FEW_2(a, b) PATCHPOINT__FEW(a); PATCHPOINT__FEW(b)
#define PATCHPOINT__FEW_3(a, b, c) PATCHPOINT__FEW_2(a, b); PATCHPOINT__FEW(c)
#define PATCHPOINT__FEW_4(a, b, c, d) PATCHPOINT__FEW_3(a, b, c); PATCHPOINT__FEW(d)
#define PATCHPOINT__LIST_1(keys, a) keys[0] = patchpoint_address_##a()
#define PATCHPOINT__LIST_2(keys, a, b) PATCHPOINT__LIST_1(keys, a); keys[1] = patchpoint_address_##b()
#define PATCHPOINT__LIST_3(keys, a, b, c) PATCHPOINT__LIST_2(keys, a, b); keys[2] = patchpoint_address_##c()
#define PATCHPOINT__LIST_4(keys, a, b, c, d) PATCHPOINT__LIST_3(keys, a, b, c); keys[3] = patchpoint_address_##d()

#define PATCHPOINT__VARIANT(i, name, count, n, form, result, arguments, ...) \
	static __attribute__((__noinline__, __unused__)) __typeof__(result) \
	patchpoint_variant_##i##_##name(PATCHPOINT__TYPED_##n arguments) \
	{ \
		PATCHPOINT__RETURN_##form patchpoint__body_##name(PATCHPOINT__ANSWERS_##count(i, name, __VA_ARGS__) \
								  PATCHPOINT__AND_NAMED_##n arguments); \
	}
#define PATCHPOINT__VARIANTS_4(...) \
	PATCHPOINT__VARIANT(0, __VA_ARGS__) PATCHPOINT__VARIANT(1, __VA_ARGS__) \
	PATCHPOINT__VARIANT(2, __VA_ARGS__) PATCHPOINT__VARIANT(3, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_16(...) \
	PATCHPOINT__VARIANTS_4(__VA_ARGS__) \
	PATCHPOINT__VARIANT(4, __VA_ARGS__) PATCHPOINT__VARIANT(5, __VA_ARGS__) \
	PATCHPOINT__VARIANT(6, __VA_ARGS__) PATCHPOINT__VARIANT(7, __VA_ARGS__) \
	PATCHPOINT__VARIANT(8, __VA_ARGS__) PATCHPOINT__VARIANT(9, __VA_ARGS__) \
	PATCHPOINT__VARIANT(10, __VA_ARGS__) PATCHPOINT__VARIANT(11, __VA_ARGS__) \
	PATCHPOINT__VARIANT(12, __VA_ARGS__) PATCHPOINT__VARIANT(13, __VA_ARGS__) \
	PATCHPOINT__VARIANT(14, __VA_ARGS__) PATCHPOINT__VARIANT(15, __VA_ARGS__)
/* Whether a variant exists is a constant. */
#define PATCHPOINT__ENTRY(i, name) \
	i < PATCHPOINT__CAST(int, patchpoint_combinations_##name) ? patchpoint_variant_##i##_##name : NULL
#define PATCHPOINT__ENTRIES_16(name) \
	PATCHPOINT__ENTRY(0, name), PATCHPOINT__ENTRY(1, name), PATCHPOINT__ENTRY(2, name), PATCHPOINT__ENTRY(3, name), \
	PATCHPOINT__ENTRY(4, name), PATCHPOINT__ENTRY(5, name), PATCHPOINT__ENTRY(6, name), PATCHPOINT__ENTRY(7, name), \
	PATCHPOINT__ENTRY(8, name), PATCHPOINT__ENTRY(9, name), PATCHPOINT__ENTRY(10, name), PATCHPOINT__ENTRY(11, name), \
	PATCHPOINT__ENTRY(12, name), PATCHPOINT__ENTRY(13, name), PATCHPOINT__ENTRY(14, name), PATCHPOINT__ENTRY(15, name)
#ifdef __cplusplus
#define PATCHPOINT__SAME_TYPE(function, type) std::is_same_v<decltype(&function), type>
#else
#define PATCHPOINT__SAME_TYPE(function, type) __builtin_types_compatible_p(__typeof__(&function), type)
#endif

/*
 * PATCHPOINT_DEFINE_VARIANTS(name, result, (type, argument, …), key, …) { body }
 * Defines the call key `name`, which PATCHPOINT_DECLARE_CALL declared before with the same types, as a function that is compiled for
 * each combination of one to four keys: branches and switches, declared before. In the body each key's name is a constant, a bool or
 * an unsigned. Without arguments write (void). The types may be any that PATCHPOINT_DECLARE_CALL accepts, or
 * PATCHPOINT_DECLARE_CALL_ANY (at most 8 arguments). The body is inlined into
 * each variant, so what the compiler cannot inline (a list of labels' addresses, setjmp) is an error.
 */
#define PATCHPOINT_DEFINE_VARIANTS(name, result, ...) \
	PATCHPOINT__PASTE(PATCHPOINT__VARIANTS_OF_, PATCHPOINT__COUNT(__VA_ARGS__))(name, result, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_OF_2(...) PATCHPOINT__VARIANTS_OF(1, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_OF_3(...) PATCHPOINT__VARIANTS_OF(2, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_OF_4(...) PATCHPOINT__VARIANTS_OF(3, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_OF_5(...) PATCHPOINT__VARIANTS_OF(4, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_OF(count, name, result, arguments, ...) \
	PATCHPOINT__VARIANTS_BY(PATCHPOINT__COUNT arguments, name, count, PATCHPOINT__RESULT(result), result, arguments, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_BY(...) PATCHPOINT__VARIANTS_BY_(__VA_ARGS__)
#define PATCHPOINT__VARIANTS_BY_(n, ...) PATCHPOINT__VARIANTS_BY_##n(__VA_ARGS__)
#define PATCHPOINT__VARIANTS_BY_1(...) PATCHPOINT__DEFINE_VARIANTS(1, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_BY_2(...) PATCHPOINT__DEFINE_VARIANTS(2, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_BY_4(...) PATCHPOINT__DEFINE_VARIANTS(4, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_BY_6(...) PATCHPOINT__DEFINE_VARIANTS(6, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_BY_8(...) PATCHPOINT__DEFINE_VARIANTS(8, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_BY_10(...) PATCHPOINT__DEFINE_VARIANTS(10, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_BY_12(...) PATCHPOINT__DEFINE_VARIANTS(12, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_BY_14(...) PATCHPOINT__DEFINE_VARIANTS(14, __VA_ARGS__)
#define PATCHPOINT__VARIANTS_BY_16(...) PATCHPOINT__DEFINE_VARIANTS(16, __VA_ARGS__)
#define PATCHPOINT__DEFINE_VARIANTS(n, name, count, form, result, arguments, ...) \
	PATCHPOINT__FEW_##count(__VA_ARGS__); \
	enum { PATCHPOINT__STRIDES_##count(name, __VA_ARGS__) }; \
	PATCHPOINT__ASSERT(PATCHPOINT__CAST(int, patchpoint_combinations_##name) <= \
				   PATCHPOINT__CAST(int, PATCHPOINT_COMBINATIONS_MAX), \
			   "patchpoint: the keys of variants have at most 16 combinations"); \
	PATCHPOINT__INLINE __typeof__(result) patchpoint__body_##name(PATCHPOINT__CONSTANTS_##count(__VA_ARGS__) \
								      PATCHPOINT__AND_TYPED_##n arguments); \
	PATCHPOINT__VARIANTS_16(name, count, n, form, result, arguments, __VA_ARGS__) \
	PATCHPOINT__ASSERT(PATCHPOINT__SAME_TYPE(patchpoint_variant_0_##name, patchpoint_function_##name), \
			   "patchpoint: variants have the result and the arguments that PATCHPOINT_DECLARE_CALL gave"); \
	static const patchpoint_function_##name patchpoint_functions_##name[PATCHPOINT_COMBINATIONS_MAX] = { \
		PATCHPOINT__ENTRIES_16(name)}; \
	static struct patchpoint_variants patchpoint_variants_##name = { \
		NULL, &patchpoint_key_##name, {NULL, NULL, NULL, NULL}, patchpoint_functions_##name, \
		patchpoint_combinations_##name, count, 0}; \
	/* Until the constructor below has run, calls go here. */ \
	static __attribute__((__noinline__)) __typeof__(result) patchpoint_unbound_##name(PATCHPOINT__TYPED_##n arguments) \
	{ \
		struct patchpoint_key *keys[PATCHPOINT_VARIANT_KEYS_MAX]; \
\
		PATCHPOINT__LIST_##count(keys, __VA_ARGS__); \
		PATCHPOINT__RETURN_##form patchpoint_functions_##name[patchpoint_combination(keys, count)]( \
			PATCHPOINT__JUST_NAMED_##n arguments); \
	} \
	static __attribute__((__constructor__(101), __used__)) void patchpoint_bind_##name(void) \
	{ \
		PATCHPOINT__LIST_##count(patchpoint_variants_##name.keys, __VA_ARGS__); \
		patchpoint_variants_register(&patchpoint_variants_##name); \
	} \
	static __attribute__((__destructor__(101), __used__)) void patchpoint_unbind_##name(void) \
	{ \
		patchpoint_variants_unregister(&patchpoint_variants_##name); \
	} \
	PATCHPOINT__DEFINE(name, PATCHPOINT__INIT(PATCHPOINT__FUNCTION(patchpoint_unbound_##name), #name, NULL, PATCHPOINT_CALL, 8, \
						  PATCHPOINT_NULL_TRAP, PATCHPOINT_KEY_VARIANTS)); \
	PATCHPOINT__INLINE __typeof__(result) patchpoint__body_##name(PATCHPOINT__CONSTANTS_##count(__VA_ARGS__) \
								      PATCHPOINT__AND_TYPED_##n arguments)

/* Lists of another length: errors that say what is wanted. */
#define PATCHPOINT__WRONG_VARIANTS(name, text) PATCHPOINT__ASSERT(0, text); static void patchpoint_wrong_##name(void)
#define PATCHPOINT__VARIANTS_OF_1(name, ...) PATCHPOINT__WRONG_VARIANTS(name, "patchpoint: variants depend on 1 to 4 keys")
#define PATCHPOINT__VARIANTS_OF_6 PATCHPOINT__VARIANTS_OF_1
#define PATCHPOINT__VARIANTS_OF_7 PATCHPOINT__VARIANTS_OF_1
#define PATCHPOINT__VARIANTS_OF_8 PATCHPOINT__VARIANTS_OF_1
#define PATCHPOINT__VARIANTS_OF_9 PATCHPOINT__VARIANTS_OF_1
#define PATCHPOINT__VARIANTS_BY_3(name, ...) \
	PATCHPOINT__WRONG_VARIANTS(name, "patchpoint: the arguments of variants are (type, name, type, name) and so on, at most 8, or (void)")
#define PATCHPOINT__VARIANTS_BY_5 PATCHPOINT__VARIANTS_BY_3
#define PATCHPOINT__VARIANTS_BY_7 PATCHPOINT__VARIANTS_BY_3
#define PATCHPOINT__VARIANTS_BY_9 PATCHPOINT__VARIANTS_BY_3
#define PATCHPOINT__VARIANTS_BY_11 PATCHPOINT__VARIANTS_BY_3
#define PATCHPOINT__VARIANTS_BY_13 PATCHPOINT__VARIANTS_BY_3
#define PATCHPOINT__VARIANTS_BY_15 PATCHPOINT__VARIANTS_BY_3

#endif
