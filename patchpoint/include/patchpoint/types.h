/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The parts about types that differ between C and C++: which types a call carries, how narrow ones are widened, and which arguments
 * travel in which registers. Include patchpoint.h, not this file.
 */
#ifndef PATCHPOINT_TYPES_H
#define PATCHPOINT_TYPES_H

#define PATCHPOINT__INLINE static inline __attribute__((__always_inline__, __unused__))
/* For templates that members of patchpoint.hpp use: an entity of a module must not expose a name of internal linkage ([basic.link]). */
#define PATCHPOINT__SHARED_INLINE inline __attribute__((__always_inline__, __unused__))

/* The constraint of registers for real numbers, where there are such registers. */
#if defined(__SSE__)
#define PATCHPOINT__REAL_REGISTER "x"
#elif defined(__aarch64__) && defined(__ARM_FP)
#define PATCHPOINT__REAL_REGISTER "w"
#endif

#ifdef __cplusplus

#include <type_traits>

#define PATCHPOINT__C extern "C"
#define PATCHPOINT__ASSERT static_assert
/* A cast of C, also in constant expressions, in a notation that -Wold-style-cast accepts. */
#define PATCHPOINT__CAST(type, value) patchpoint_types::same<type>(value)

namespace patchpoint_types {

template <class T> using same = T;

template <class T> constexpr bool real = std::is_same_v<T, float> || std::is_same_v<T, double>;

template <class T>
constexpr bool word = (std::is_integral_v<T> || std::is_enum_v<T> || std::is_pointer_v<T> || std::is_null_pointer_v<T>)
	&& sizeof(T) <= 8;

/* Callers pass integers narrower than int as int: callees may rely on the extension (clang does). */
template <class T> PATCHPOINT__SHARED_INLINE constexpr auto widen(T argument)
{
	if constexpr ((std::is_integral_v<T> || std::is_enum_v<T>) && sizeof(T) < sizeof(int))
		return static_cast<int>(argument);
	else
		return argument;
}

/* Returns the k-th argument (from 1) of those that are real, or of those that are not; an undefined value if there is none. */
template <bool reals, int k> PATCHPOINT__SHARED_INLINE auto pick()
{
	std::conditional_t<reals, double, long> none;
#ifdef PATCHPOINT__REAL_REGISTER
	if constexpr (reals)
		__asm__("" : "=" PATCHPOINT__REAL_REGISTER(none));
	else
#endif
		__asm__("" : "=r"(none));
	return none;
}

template <bool reals, int k, class First, class... Rest> PATCHPOINT__SHARED_INLINE auto pick(First first, Rest... rest)
{
	if constexpr (real<First> != reals)
		return pick<reals, k>(rest...);
	else if constexpr (k > 1)
		return pick<reals, k - 1>(rest...);
	else
		return widen(first);
}

/* Forms without a comma in the template arguments, for macros. */
template <int k, class... T> PATCHPOINT__SHARED_INLINE auto pick_word(T... arguments)
{
	return pick<false, k>(arguments...);
}

template <int k, class... T> PATCHPOINT__SHARED_INLINE auto pick_real(T... arguments)
{
	return pick<true, k>(arguments...);
}

/* Returns the one of a site's two results that the operation has. */
template <class T, class Word, class Real> PATCHPOINT__SHARED_INLINE T one_of(Word word, Real real_result)
{
	if constexpr (real<T>)
		return real_result;
	else
		return word;
}

/* Returns the result of a site for words as a T. If T is no word, the site is never executed. */
template <class T, class Word> PATCHPOINT__SHARED_INLINE T word_as(Word result)
{
	if constexpr (std::is_same_v<T, Word>)
		return result;
	else
		return T();
}

/* Returns a value's bits as a key's slot holds them. */
template <class T> PATCHPOINT__SHARED_INLINE uint64_t bits(T value)
{
	if constexpr (std::is_pointer_v<T>)
		return reinterpret_cast<uintptr_t>(value);
	else
		return static_cast<uint64_t>(value);
}

template <class T> PATCHPOINT__SHARED_INLINE T from_slot(void *slot)
{
	if constexpr (std::is_pointer_v<T>)
		return reinterpret_cast<T>(slot);
	else
		return static_cast<T>(reinterpret_cast<uintptr_t>(slot));
}

template <class T> struct whole {
	T object;
};

} // namespace patchpoint_types

#define PATCHPOINT__IS_REAL(type) patchpoint_types::real<std::remove_cv_t<type>>
#define PATCHPOINT__IS_WORD(type) patchpoint_types::word<std::remove_cv_t<type>>
/* The type as a parameter has it. A reference stays a reference, and is refused. */
#define PATCHPOINT__PASSED(type) std::conditional_t<std::is_reference_v<type>, type, std::decay_t<type>>
#define PATCHPOINT__BITS(value) patchpoint_types::bits(value)
#define PATCHPOINT__FROM_SLOT(type, slot) patchpoint_types::from_slot<type>(slot)
#define PATCHPOINT__OFFSET(holder, member) \
	static_cast<long>(__builtin_offsetof(patchpoint_types::whole<decltype(holder)>, object member))
/* For a site with real arguments or a real result: the types of %rax and %xmm0 after it, and the choice of the result. */
#define PATCHPOINT__WORD_OF(type) std::conditional_t<patchpoint_types::word<type>, type, long>
#define PATCHPOINT__REAL_OF(type) std::conditional_t<patchpoint_types::real<type>, type, double>
#define PATCHPOINT__WORD_AS(type, result) patchpoint_types::word_as<type>(result)
#define PATCHPOINT__ONE_OF(type, word, real) return patchpoint_types::one_of<type>(word, real)
/* Calls one of two functions by a constant; the other call is discarded. */
#define PATCHPOINT__CALL_ONE_OF(give, which, one, other, arguments) \
	if constexpr (which) \
		give one arguments; \
	else \
		give other arguments
#define PATCHPOINT__WORD_ARGUMENT(a) patchpoint_types::pick_word<1>(a)
#define PATCHPOINT__PICK_WORD(k, n) patchpoint_types::pick_word<k> PATCHPOINT__NAMES_##n
#define PATCHPOINT__PICK_REAL(k, n) patchpoint_types::pick_real<k> PATCHPOINT__NAMES_##n
#define PATCHPOINT__AUTO(expression) auto
#define PATCHPOINT__AUTO_REGISTER(expression) decltype(expression)
#define PATCHPOINT__COUNT_WORDS(n)

#else

#define PATCHPOINT__C extern
#define PATCHPOINT__ASSERT _Static_assert
#define PATCHPOINT__CAST(type, value) ((type)(value))

#define PATCHPOINT__REAL(expression) _Generic((expression), float: 1, double: 1, default: 0)
#define PATCHPOINT__IS_REAL(type) PATCHPOINT__REAL(*(__typeof__(type) *)0)
/* Integer, character, enumeration, boolean, pointer (gcc's typeclass.h; the same numbers in clang). */
#define PATCHPOINT__IS_WORD(type) \
	(__builtin_classify_type(*(__typeof__(type) *)0) >= 1 && __builtin_classify_type(*(__typeof__(type) *)0) <= 5 && \
	 sizeof(1 ? *(__typeof__(type) *)0 : *(__typeof__(type) *)0) <= 8)
#define PATCHPOINT__PASSED(type) __typeof__(type)
#define PATCHPOINT__BITS(value) ((uint64_t)(value))
#define PATCHPOINT__FROM_SLOT(type, slot) ((type)(uintptr_t)(slot))
#define PATCHPOINT__OFFSET(holder, member) ((long)__builtin_offsetof(struct { __typeof__(holder) object; }, object member))
#define PATCHPOINT__WORD_OF(type) \
	__typeof__(__builtin_choose_expr(PATCHPOINT__IS_WORD(type), *(__typeof__(type) *)0, 0L))
#define PATCHPOINT__REAL_OF(type) \
	__typeof__(__builtin_choose_expr(PATCHPOINT__IS_REAL(type), *(__typeof__(type) *)0, 0.0))
#define PATCHPOINT__WORD_AS(type, result) __builtin_choose_expr(PATCHPOINT__IS_WORD(type), result, (type)0)
#define PATCHPOINT__ONE_OF(type, word, real) return __builtin_choose_expr(PATCHPOINT__IS_REAL(type), real, word)
#define PATCHPOINT__CALL_ONE_OF(give, which, one, other, arguments) give __builtin_choose_expr(which, one, other) arguments
#define PATCHPOINT__WORD_ARGUMENT(a) __builtin_choose_expr(PATCHPOINT__REAL(a), 0L, a)
/* As in C++ above. PATCHPOINT__ANY is whatever a register holds, which takes no instruction. */
#define PATCHPOINT__ANY(type, constraint) __extension__({ type any; __asm__("" : "=" constraint(any)); any; })
#define PATCHPOINT__PICK_WORD(k, n) PATCHPOINT__PICK_WORD_##n(k)
#define PATCHPOINT__PICK_WORD_1(k) \
	__builtin_choose_expr(!PATCHPOINT__REAL(a1) && patchpoint_words_1 == k, a1, PATCHPOINT__ANY(long, "r"))
#define PATCHPOINT__PICK_WORD_2(k) \
	__builtin_choose_expr(!PATCHPOINT__REAL(a2) && patchpoint_words_2 == k, a2, PATCHPOINT__PICK_WORD_1(k))
#define PATCHPOINT__PICK_WORD_3(k) \
	__builtin_choose_expr(!PATCHPOINT__REAL(a3) && patchpoint_words_3 == k, a3, PATCHPOINT__PICK_WORD_2(k))
#define PATCHPOINT__PICK_WORD_4(k) \
	__builtin_choose_expr(!PATCHPOINT__REAL(a4) && patchpoint_words_4 == k, a4, PATCHPOINT__PICK_WORD_3(k))
#define PATCHPOINT__PICK_WORD_5(k) \
	__builtin_choose_expr(!PATCHPOINT__REAL(a5) && patchpoint_words_5 == k, a5, PATCHPOINT__PICK_WORD_4(k))
#define PATCHPOINT__PICK_WORD_6(k) \
	__builtin_choose_expr(!PATCHPOINT__REAL(a6) && patchpoint_words_6 == k, a6, PATCHPOINT__PICK_WORD_5(k))
#define PATCHPOINT__PICK_REAL(k, n) PATCHPOINT__PICK_REAL_##n(k)
#define PATCHPOINT__PICK_REAL_1(k) \
	__builtin_choose_expr(PATCHPOINT__REAL(a1) && 1 - patchpoint_words_1 == k, a1, PATCHPOINT__ANY(double, PATCHPOINT__REAL_REGISTER))
#define PATCHPOINT__PICK_REAL_2(k) \
	__builtin_choose_expr(PATCHPOINT__REAL(a2) && 2 - patchpoint_words_2 == k, a2, PATCHPOINT__PICK_REAL_1(k))
#define PATCHPOINT__PICK_REAL_3(k) \
	__builtin_choose_expr(PATCHPOINT__REAL(a3) && 3 - patchpoint_words_3 == k, a3, PATCHPOINT__PICK_REAL_2(k))
#define PATCHPOINT__PICK_REAL_4(k) \
	__builtin_choose_expr(PATCHPOINT__REAL(a4) && 4 - patchpoint_words_4 == k, a4, PATCHPOINT__PICK_REAL_3(k))
#define PATCHPOINT__PICK_REAL_5(k) \
	__builtin_choose_expr(PATCHPOINT__REAL(a5) && 5 - patchpoint_words_5 == k, a5, PATCHPOINT__PICK_REAL_4(k))
#define PATCHPOINT__PICK_REAL_6(k) \
	__builtin_choose_expr(PATCHPOINT__REAL(a6) && 6 - patchpoint_words_6 == k, a6, PATCHPOINT__PICK_REAL_5(k))
#define PATCHPOINT__AUTO(expression) __typeof__(1 ? (expression) : (expression))
#define PATCHPOINT__AUTO_REGISTER(expression) __typeof__(expression)
/* The numbers of arguments that are not real, among the first, the first two and so on. */
#define PATCHPOINT__COUNT_WORDS(n) PATCHPOINT__COUNT_WORDS_##n
#define PATCHPOINT__COUNT_WORDS_0
#define PATCHPOINT__COUNT_WORDS_1 enum { patchpoint_words_1 = !PATCHPOINT__REAL(a1) };
#define PATCHPOINT__COUNT_WORDS_2 \
	PATCHPOINT__COUNT_WORDS_1 enum { patchpoint_words_2 = patchpoint_words_1 + !PATCHPOINT__REAL(a2) };
#define PATCHPOINT__COUNT_WORDS_3 \
	PATCHPOINT__COUNT_WORDS_2 enum { patchpoint_words_3 = patchpoint_words_2 + !PATCHPOINT__REAL(a3) };
#define PATCHPOINT__COUNT_WORDS_4 \
	PATCHPOINT__COUNT_WORDS_3 enum { patchpoint_words_4 = patchpoint_words_3 + !PATCHPOINT__REAL(a4) };
#define PATCHPOINT__COUNT_WORDS_5 \
	PATCHPOINT__COUNT_WORDS_4 enum { patchpoint_words_5 = patchpoint_words_4 + !PATCHPOINT__REAL(a5) };
#define PATCHPOINT__COUNT_WORDS_6 \
	PATCHPOINT__COUNT_WORDS_5 enum { patchpoint_words_6 = patchpoint_words_5 + !PATCHPOINT__REAL(a6) };

#endif

#endif
