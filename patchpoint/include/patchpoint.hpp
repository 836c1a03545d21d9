// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * patchpoint for C++17 and later: keys are objects, sites are their members.
 *
 *     inline patchpoint::branch tracing{"tracing"};                           in a header or in one file
 *     inline patchpoint::value<int> limit{"limit", 100};
 *     inline patchpoint::call<long(long, long)> area{"area", rectangle};
 *     inline patchpoint::switch_<3, policy> chosen{"chosen", policy::fair};
 *
 *     if (tracing.unlikely())                                                 at the sites
 *             trace();
 *     if (area(w, h) > limit)
 *             ...
 *     switch (chosen) {
 *     case policy::fair: ...
 *
 *     if (std::error_code error = tracing.set(true))                          rarely: one key
 *             ...
 *     patchpoint::transaction change;                                         or several at once
 *     change.set(area, ellipse).set(limit, 50);
 *     if (std::error_code error = change.commit())
 *             ...
 *
 *     struct acquire_body {                                                   a function that is compiled for each combination
 *             static constexpr char name[] = "acquire";                       of its keys
 *             template <bool smp> static void run(lock *l) { if constexpr (smp) ... }
 *     };
 *     inline constexpr patchpoint::variants<acquire_body, smp> acquire;
 *     acquire(&mine);
 *
 * patchpoint.h explains sites, keys, changes and the duties of the program; all of it holds here too.
 *
 * The key of a site
 *   A site is an instruction with the key's address in it, so the compiler must know the key: `tracing.unlikely()` on an object
 *   with static storage, an element of a static array and a member of a static struct included, also through functions that
 *   are inlined. Otherwise the compiler refuses the asm ("impossible constraint", "invalid operand"): use load() there, which
 *   reads any key. Without optimisation a compiler does not know the key: members read it then, and nothing is patched.
 *   patchpoint::site<tracing>.unlikely() names the key by a template argument, and is a site at every level of optimisation.
 *
 * Where keys are
 *   Constructors are constexpr, so keys are ready before any code runs. Like the keys of C, they are hidden symbols: each
 *   program or shared object has its own. A struct that has keys as members should be hidden, too:
 *   struct [[gnu::visibility("hidden")]] category { patchpoint::branch enabled; }. In a shared object gcc must be told so where a key is
 *   only declared: [[gnu::visibility("hidden")]] extern patchpoint::branch tracing; inline variables need nothing.
 *   To use a key of C, PATCHPOINT_DEFINE_BRANCH(tracing, false), declare extern patchpoint::branch tracing
 *   asm("patchpoint_key_tracing"). Define a key that C uses, or that PATCHPOINT_EXPORT or PATCHPOINT_IMPORT names, with that name.
 *
 * Errors
 *   Nothing throws, and -fno-exceptions and -fno-rtti are fine. A function that can fail returns a std::error_code, whose
 *   value is the errno that patchpoint.h gives. An operation must not throw: the compiler knows of no call there.
 */
#ifndef PATCHPOINT_HPP
#define PATCHPOINT_HPP

#include "patchpoint.h"

#include <cstddef>
#include <cstdint>
#include <system_error>
#include <type_traits>
#include <utility>

// Native sites: the bodies of the C header's functions, with a key's address for their operand.
#ifdef PATCHPOINT__SITE_BODIES
#define PATCHPOINT__CXX_NATIVE 1
#else
#define PATCHPOINT__CXX_NATIVE 0
#endif
// Whether members, which get the key as `this`, can be sites.
#if PATCHPOINT__CXX_NATIVE && defined(__OPTIMIZE__)
#define PATCHPOINT__CXX_MEMBERS 1
#else
#define PATCHPOINT__CXX_MEMBERS 0
#endif

#define PATCHPOINT__ALWAYS __attribute__((__always_inline__)) inline

namespace patchpoint {

/// The action of a site whose operation is missing.
enum class missing : unsigned char { trap, zero, nothing };

namespace detail {

template <class T> constexpr bool is_real = patchpoint_types::real<std::remove_cv_t<T>>;
template <class T> constexpr bool is_word = patchpoint_types::word<std::remove_cv_t<T>>;
template <class T> constexpr bool is_carried()
{
	if constexpr (std::is_object_v<T>)
		return is_word<T> || is_real<T>;
	else
		return false;
}

inline std::error_code error_of(int result) noexcept
{
	return std::error_code(-result, std::generic_category());
}

// struct patchpoint_key with a typed slot: a constant expression cannot make a void * of a number or of a function.
template <class Slot> struct key {
	mutable Slot slot;
	const char *name_;
	mutable std::uint64_t ops = 0;
	struct patchpoint_key *const *origin = nullptr;
	struct patchpoint_key *imports = nullptr;
	struct patchpoint_object *object = nullptr;
	std::uint32_t first = 0;
	std::uint8_t kind;
	std::uint8_t size;
	std::uint8_t null = 0;
	std::uint8_t flags = 0;
	std::uint8_t form = 0;
	std::uint8_t body[PATCHPOINT_BODY_SIZE] = {};
	std::uint8_t mark = 0;
	std::uint8_t reserved[3] = {};
	std::uint32_t users_ = 0;

	constexpr key(Slot initial, const char *name, patchpoint_kind of, std::size_t size_of, unsigned policy = 0) noexcept
	    : slot(initial), name_(name), kind(static_cast<std::uint8_t>(of)), size(static_cast<std::uint8_t>(size_of)),
	      null(static_cast<std::uint8_t>(policy))
	{
	}
	key(const key &) = delete;
	key &operator=(const key &) = delete;

	/// The key as the functions of patchpoint.h take it.
	patchpoint_key *raw() noexcept { return reinterpret_cast<patchpoint_key *>(this); }
	const patchpoint_key *raw() const noexcept { return reinterpret_cast<const patchpoint_key *>(this); }
	/// The name that tools show.
	const char *name() const noexcept { return name_; }
	/// Executions of the key's sites in files compiled with PATCHPOINT_OPS.
	std::uint64_t operations() const noexcept { return __atomic_load_n(&ops, __ATOMIC_RELAXED); }

protected:
	Slot now() const noexcept
	{
		Slot slot_now;
		__atomic_load(&slot, &slot_now, __ATOMIC_ACQUIRE);
		return slot_now;
	}
	[[nodiscard]] std::error_code change(std::uint64_t bits) noexcept { return error_of(patchpoint_key_set(raw(), bits)); }
};

// Declared only: a call of it remains where a switch is constructed with a way that the switch does not have.
#if __has_attribute(__error__)
__attribute__((__error__("patchpoint: the ways of a switch are 0 to ways - 1")))
#endif
void no_such_way() noexcept;

template <class Slot> constexpr bool is_laid_out_as_in_c()
{
	using mine = key<Slot>;
	using c = patchpoint_key;

	return sizeof(mine) == sizeof(c) && alignof(mine) == alignof(c) && offsetof(mine, slot) == offsetof(c, slot) &&
	       offsetof(mine, name_) == offsetof(c, name) && offsetof(mine, ops) == offsetof(c, ops) &&
	       offsetof(mine, origin) == offsetof(c, origin) && offsetof(mine, imports) == offsetof(c, imports) &&
	       offsetof(mine, object) == offsetof(c, object) && offsetof(mine, first) == offsetof(c, first) &&
	       offsetof(mine, kind) == offsetof(c, kind) && offsetof(mine, size) == offsetof(c, size) &&
	       offsetof(mine, null) == offsetof(c, null) && offsetof(mine, flags) == offsetof(c, flags) &&
	       offsetof(mine, form) == offsetof(c, form) && offsetof(mine, body) == offsetof(c, body) &&
	       offsetof(mine, mark) == offsetof(c, mark) && offsetof(mine, users_) == offsetof(c, users);
}
static_assert(is_laid_out_as_in_c<std::uint64_t>() && is_laid_out_as_in_c<void (*)()>(),
	      "patchpoint: the key above is not the key of patchpoint.h");

} // namespace detail

/// Turns every site into its patched form: patchpoint_init. Optional; safe to call again.
[[nodiscard]] inline std::error_code init() noexcept
{
	return detail::error_of(patchpoint_init());
}

/**
 * Calls `visit(const patchpoint_site_info &)` for every site of every registered object, until it returns false. `visit` must
 * not throw, change keys, nor open or close shared objects. Result: an error if no site could be visited.
 */
template <class Visit> [[nodiscard]] std::error_code for_each_site(Visit &&visit) noexcept
{
	const int result = patchpoint_site_iterate(
		[](const patchpoint_site_info *info, void *argument) noexcept -> int {
			return (*static_cast<std::remove_reference_t<Visit> *>(argument))(*info) ? 0 : 1;
		},
		const_cast<void *>(static_cast<const void *>(&visit)));

	return detail::error_of(result < 0 ? result : 0);
}

/// A key whose sites go one of two ways.
class [[gnu::visibility("hidden")]] branch : public detail::key<std::uint64_t> {
public:
	using state = bool;

	/// `name`: the name that tools show, a string that stays; `initial`: the first answer.
	constexpr explicit branch(const char *name, bool initial = false) noexcept
	    : key(initial ? 1 : 0, name, PATCHPOINT_BRANCH, 1)
	{
	}

	/// A site. Returns the answer. The compiler lays out the code for the answer in the name; patched sites reach it by a nop.
#if PATCHPOINT__CXX_MEMBERS
	PATCHPOINT__ALWAYS bool likely() const noexcept PATCHPOINT__LIKELY_SITE(PATCHPOINT__CXX_PLACE, this, *this)
	PATCHPOINT__ALWAYS bool unlikely() const noexcept PATCHPOINT__UNLIKELY_SITE(PATCHPOINT__CXX_PLACE, this, *this)
#else
	bool likely() const noexcept
	{
		PATCHPOINT__OP(*this);
		return __builtin_expect(load(), 1);
	}
	bool unlikely() const noexcept
	{
		PATCHPOINT__OP(*this);
		return __builtin_expect(load(), 0);
	}
#endif
	/// Returns the answer by a plain load.
	bool load() const noexcept { return now() != 0; }
	/// Sets the answer at every site. After an error nothing has changed.
	[[nodiscard]] std::error_code set(bool truth) noexcept { return change(truth); }
	/// Adds a user: the answer is true while there are users, or if it was set to true. After an error nothing has changed.
	[[nodiscard]] std::error_code inc() noexcept { return detail::error_of(patchpoint_key_inc(raw())); }
	/// Removes a user. It is an error (ERANGE) if there is none.
	[[nodiscard]] std::error_code dec() noexcept { return detail::error_of(patchpoint_key_dec(raw())); }
	/// Returns the number of users.
	std::uint32_t users() const noexcept { return patchpoint_key_users(raw()); }
	static std::uint64_t bits(bool truth) noexcept { return truth; }
};

/// A key whose sites read a number, a truth value or a pointer.
template <class T>
class [[gnu::visibility("hidden")]] value : public detail::key<std::conditional_t<std::is_pointer_v<T>, T, std::uint64_t>> {
	static_assert(detail::is_word<T>, "patchpoint: a value is an integer, an enumeration or a pointer of at most 8 bytes");
	using slot_type = std::conditional_t<std::is_pointer_v<T>, T, std::uint64_t>;

public:
	using state = T;

	constexpr value(const char *name, T initial) noexcept
	    : detail::key<slot_type>(static_cast<slot_type>(initial), name, PATCHPOINT_VALUE, sizeof(T))
	{
	}

	/// A site. Returns the key's value.
#if PATCHPOINT__CXX_MEMBERS
	PATCHPOINT__ALWAYS T get() const noexcept PATCHPOINT__VALUE_SITE(T, PATCHPOINT__CXX_PLACE, this, *this)
#else
	T get() const noexcept
	{
		PATCHPOINT__OP(*this);
		return load();
	}
#endif
	PATCHPOINT__ALWAYS operator T() const noexcept { return get(); }
	/// Returns the value by a plain load.
	T load() const noexcept { return static_cast<T>(this->now()); }
	/// Puts another value into every site. After an error nothing has changed.
	[[nodiscard]] std::error_code set(T next) noexcept { return this->change(bits(next)); }
	static std::uint64_t bits(T next) noexcept { return patchpoint_types::bits(next); }
};

/// A key whose sites go one of `ways` ways, 2 to 8; T, an integer or an enumeration, numbers them from 0.
template <unsigned ways, class T = unsigned> class [[gnu::visibility("hidden")]] switch_ : public detail::key<std::uint64_t> {
	static_assert(ways >= 2 && ways <= PATCHPOINT_WAYS_MAX, "patchpoint: a switch has 2 to 8 ways");
	static_assert(std::is_integral_v<T> || std::is_enum_v<T>, "patchpoint: the ways of a switch are integers or enumerators");

public:
	using state = T;

	constexpr explicit switch_(const char *name, T initial = T()) noexcept
	    : key(static_cast<std::uint64_t>(initial), name, PATCHPOINT_SWITCH, ways)
	{
		if (static_cast<std::uint64_t>(initial) >= ways)
			detail::no_such_way();
	}

	/// A site. Returns the way, by which the compiler finds the case of a switch statement; way 0 is a nop.
#if PATCHPOINT__CXX_MEMBERS
	PATCHPOINT__ALWAYS T get() const noexcept { return static_cast<T>(number()); }
#else
	T get() const noexcept
	{
		PATCHPOINT__OP(*this);
		return load();
	}
#endif
	PATCHPOINT__ALWAYS operator T() const noexcept { return get(); }
	T load() const noexcept { return static_cast<T>(now()); }
	/// Makes every site go `way`. A way that the switch does not have is an error (EINVAL). After an error nothing has changed.
	[[nodiscard]] std::error_code set(T way) noexcept { return change(bits(way)); }
	static std::uint64_t bits(T way) noexcept { return static_cast<std::uint64_t>(way); }

#if PATCHPOINT__CXX_MEMBERS
private:
	PATCHPOINT__ALWAYS unsigned number() const noexcept PATCHPOINT__SWITCH_SITE(ways, PATCHPOINT__CXX_PLACE, this, *this)
#endif
};

namespace detail {

struct bound {};

template <class R, class... A> union operation {
	R (*function)(A...);
	void (*stand_in)();

	operation() = default;
	constexpr operation(R (*given)(A...)) noexcept : function(given) {}
	constexpr explicit operation(missing policy) noexcept
	    : stand_in(policy == missing::nothing ? patchpoint_null_nothing
		       : policy == missing::trap  ? patchpoint_null_trap
		       : is_real<R>               ? patchpoint_null_zero_real
						  : patchpoint_null_zero)
	{
	}
};

template <class R> constexpr unsigned policy_number(missing policy) noexcept
{
	return policy == missing::nothing ? PATCHPOINT_NULL_NOTHING
	       : policy == missing::trap  ? PATCHPOINT_NULL_TRAP
	       : is_real<R>               ? PATCHPOINT_NULL_ZERO_REAL
					  : PATCHPOINT_NULL_ZERO;
}

#if PATCHPOINT__CXX_NATIVE
// Lists for each number of arguments. A list that follows other parameters begins with a comma.
#define PATCHPOINT__CXX_CLASSES_0
#define PATCHPOINT__CXX_CLASSES_1 , class A1
#define PATCHPOINT__CXX_CLASSES_2 PATCHPOINT__CXX_CLASSES_1, class A2
#define PATCHPOINT__CXX_CLASSES_3 PATCHPOINT__CXX_CLASSES_2, class A3
#define PATCHPOINT__CXX_CLASSES_4 PATCHPOINT__CXX_CLASSES_3, class A4
#define PATCHPOINT__CXX_CLASSES_5 PATCHPOINT__CXX_CLASSES_4, class A5
#define PATCHPOINT__CXX_CLASSES_6 PATCHPOINT__CXX_CLASSES_5, class A6
#define PATCHPOINT__CXX_TYPES_0
#define PATCHPOINT__CXX_TYPES_1 A1
#define PATCHPOINT__CXX_TYPES_2 A1, A2
#define PATCHPOINT__CXX_TYPES_3 A1, A2, A3
#define PATCHPOINT__CXX_TYPES_4 A1, A2, A3, A4
#define PATCHPOINT__CXX_TYPES_5 A1, A2, A3, A4, A5
#define PATCHPOINT__CXX_TYPES_6 A1, A2, A3, A4, A5, A6
#define PATCHPOINT__CXX_PARAMETERS_0
#define PATCHPOINT__CXX_PARAMETERS_1 , A1 a1
#define PATCHPOINT__CXX_PARAMETERS_2 PATCHPOINT__CXX_PARAMETERS_1, A2 a2
#define PATCHPOINT__CXX_PARAMETERS_3 PATCHPOINT__CXX_PARAMETERS_2, A3 a3
#define PATCHPOINT__CXX_PARAMETERS_4 PATCHPOINT__CXX_PARAMETERS_3, A4 a4
#define PATCHPOINT__CXX_PARAMETERS_5 PATCHPOINT__CXX_PARAMETERS_4, A5 a5
#define PATCHPOINT__CXX_PARAMETERS_6 PATCHPOINT__CXX_PARAMETERS_5, A6 a6

#ifdef PATCHPOINT__THUNK
/*
 * The thunk of a call that preserves the general registers (PATCHPOINT_DEFINE_SAVED). Sites bypass it if the operation's body takes
 * the place of the call, or if the operation preserves the registers itself. With gcc it carries the frame information (CFI) for
 * unwinding from inside the operation. clang does not say whether it began a frame description around these lines.
 */
#if defined(__GCC_HAVE_DWARF2_CFI_ASM) && !defined(__clang__)
#define PATCHPOINT__CXX_PUSH(bytes, number) PATCHPOINT__PUSH(bytes, number)
#define PATCHPOINT__CXX_POP(bytes, number) PATCHPOINT__POP(bytes, number)
#define PATCHPOINT__CXX_MOVED(bytes) PATCHPOINT__MOVED(bytes)
#else
#define PATCHPOINT__CXX_PUSH(bytes, number) ".byte " bytes "\n\t"
#define PATCHPOINT__CXX_POP(bytes, number) ".byte " bytes "\n\t"
#define PATCHPOINT__CXX_MOVED(bytes)
#endif
template <auto &Key> [[gnu::naked, gnu::noinline, gnu::visibility("hidden")]] void thunk() noexcept
{
	__asm__(PATCHPOINT__THUNK(PATCHPOINT__CXX_PLACE, ".Lpatchpoint%=", ".Lpatchpoint_end%=", PATCHPOINT__CXX_PUSH, PATCHPOINT__CXX_POP,
				  PATCHPOINT__CXX_MOVED) PATCHPOINT__RECORD(PATCHPOINT__CXX_PLACE, "1", "0", "0")
		:
		: [at] "i"(&Key));
}
#define PATCHPOINT__CXX_SAVED(n, name, registers, form) \
	PATCHPOINT__INLINE R name##_saved_##form([[maybe_unused]] const void *at PATCHPOINT__CXX_PARAMETERS_##n) noexcept \
		PATCHPOINT__##registers##_SAVED_SITE(n, form, R, PATCHPOINT__CXX_PLACE, &Key, "%P[through]", &thunk<Key>, Key)
#else
// gcc for arm64 has no naked functions to make a thunk of: saved() is a plain call there.
#define PATCHPOINT__CXX_SAVED(n, name, registers, form)
#endif

// given_call gets the key by a pointer, which is a constant after inlining; named_call gets it by a template argument.
template <class Key, class Function> struct given_call;
template <auto &Key, class Function> struct named_call;

#define PATCHPOINT__CXX_CALLS(n, name, registers, form, key_type, operand, lvalue) \
	PATCHPOINT__INLINE R name##_##form([[maybe_unused]] const key_type *at PATCHPOINT__CXX_PARAMETERS_##n) noexcept \
		PATCHPOINT__##registers##_SITE(n, form, R, PATCHPOINT__CXX_PLACE, operand, lvalue)
#ifdef PATCHPOINT__CXX_REALS
#define PATCHPOINT__CXX_CALLS_OF_REALS(...) PATCHPOINT__CXX_CALLS(__VA_ARGS__)
#define PATCHPOINT__CXX_SAVED_OF_REALS(...) PATCHPOINT__CXX_SAVED(__VA_ARGS__)
#else
#define PATCHPOINT__CXX_CALLS_OF_REALS(...)
#define PATCHPOINT__CXX_SAVED_OF_REALS(...)
#endif
#define PATCHPOINT__CXX_CALLS_OF(n) \
	template <class Key, class R PATCHPOINT__CXX_CLASSES_##n> struct given_call<Key, R(PATCHPOINT__CXX_TYPES_##n)> { \
		PATCHPOINT__CXX_CALLS(n, words, WORDS, value, Key, at, *at) \
		PATCHPOINT__CXX_CALLS(n, words, WORDS, void, Key, at, *at) \
		PATCHPOINT__CXX_CALLS_OF_REALS(n, reals, REALS, value, Key, at, *at) \
		PATCHPOINT__CXX_CALLS_OF_REALS(n, reals, REALS, void, Key, at, *at) \
	}; \
	template <auto &Key, class R PATCHPOINT__CXX_CLASSES_##n> struct named_call<Key, R(PATCHPOINT__CXX_TYPES_##n)> { \
		PATCHPOINT__CXX_CALLS(n, words, WORDS, value, void, &Key, Key) \
		PATCHPOINT__CXX_CALLS(n, words, WORDS, void, void, &Key, Key) \
		PATCHPOINT__CXX_CALLS_OF_REALS(n, reals, REALS, value, void, &Key, Key) \
		PATCHPOINT__CXX_CALLS_OF_REALS(n, reals, REALS, void, void, &Key, Key) \
		PATCHPOINT__CXX_SAVED(n, words, WORDS, value) \
		PATCHPOINT__CXX_SAVED(n, words, WORDS, void) \
		PATCHPOINT__CXX_SAVED_OF_REALS(n, reals, REALS, value) \
		PATCHPOINT__CXX_SAVED_OF_REALS(n, reals, REALS, void) \
	};
PATCHPOINT__CXX_CALLS_OF(0)
PATCHPOINT__CXX_CALLS_OF(1)
PATCHPOINT__CXX_CALLS_OF(2)
PATCHPOINT__CXX_CALLS_OF(3)
PATCHPOINT__CXX_CALLS_OF(4)
PATCHPOINT__CXX_CALLS_OF(5)
PATCHPOINT__CXX_CALLS_OF(6)

template <class Sites, class R, class Key, class... A> PATCHPOINT__ALWAYS R execute(const Key *at, A... arguments) noexcept
{
	if constexpr ((is_real<R> || ... || is_real<A>)) {
		if constexpr (std::is_void_v<R>)
			Sites::reals_void(at, arguments...);
		else
			return Sites::reals_value(at, arguments...);
	} else {
		if constexpr (std::is_void_v<R>)
			Sites::words_void(at, arguments...);
		else
			return Sites::words_value(at, arguments...);
	}
}

#ifdef PATCHPOINT__THUNK
template <class Sites, class R, class... A> PATCHPOINT__ALWAYS R execute_saved(A... arguments) noexcept
{
	if constexpr ((is_real<R> || ... || is_real<A>)) {
		if constexpr (std::is_void_v<R>)
			Sites::reals_saved_void(nullptr, arguments...);
		else
			return Sites::reals_saved_value(nullptr, arguments...);
	} else {
		if constexpr (std::is_void_v<R>)
			Sites::words_saved_void(nullptr, arguments...);
		else
			return Sites::words_saved_value(nullptr, arguments...);
	}
}
#endif
#endif

} // namespace detail

/// A key whose sites call a function of the type R(A...). With noexcept, only noexcept functions are operations.
template <class Function> class [[gnu::visibility("hidden")]] call {
	static_assert(!sizeof(Function), "patchpoint: the type of a call is that of a function: patchpoint::call<long(long, int)>");
};

template <class R, class... A>
class [[gnu::visibility("hidden")]] call<R(A...)> : public detail::key<detail::operation<R, A...>> {
	static_assert((std::is_void_v<R> || detail::is_carried<R>()) && (detail::is_carried<A>() && ...),
		      "patchpoint: arguments and results are integers, enumerations, pointers, float or double, of at most 8 bytes; "
		      "pass a struct or a larger number by a pointer to it");
	static_assert(sizeof...(A) <= 6, "patchpoint: an operation has at most 6 arguments; pass more by a pointer to a struct");
	using operation = detail::operation<R, A...>;

public:
	using state = R (*)(A...);

	/// `function`: the first operation; `policy`: what a null stands for.
	constexpr call(const char *name, state function, missing policy = missing::trap) noexcept
	    : detail::key<operation>(function ? operation(function) : operation(policy), name, PATCHPOINT_CALL, 8,
				     detail::policy_number<R>(policy))
	{
	}
	/// Makes a key whose operation is missing at first.
	constexpr call(const char *name, missing policy) noexcept : call(name, nullptr, policy) {}
	/// For variants: a key that only the library changes.
	constexpr call(const char *name, state function, detail::bound) noexcept : call(name, function)
	{
		this->flags = PATCHPOINT_KEY_VARIANTS;
	}

	/// A site. Returns the operation's result, which is undefined if the operation is missing and the policy is `nothing`.
	PATCHPOINT__ALWAYS R operator()(A... arguments) const noexcept
	{
#if PATCHPOINT__CXX_MEMBERS
		return detail::execute<detail::given_call<call, R(A...)>, R>(this, arguments...);
#else
		PATCHPOINT__OP(*this);
		return load()(arguments...);
#endif
	}
	/// Returns the function that sites execute now (for a missing operation its stand-in), by a plain load.
	state load() const noexcept { return this->now().function; }
	/// Makes every site call `function`, or execute its only instruction instead. After an error nothing has changed.
	[[nodiscard]] std::error_code set(state function) noexcept { return this->change(bits(function)); }
	/// Removes the operation: sites do what the policy says.
	[[nodiscard]] std::error_code remove() noexcept { return set(nullptr); }
	static std::uint64_t bits(state function) noexcept { return reinterpret_cast<std::uintptr_t>(function); }
};

template <class R, class... A> class [[gnu::visibility("hidden")]] call<R(A...) noexcept> : public call<R(A...)> {
public:
	using state = R (*)(A...) noexcept;

	constexpr call(const char *name, state function, missing policy = missing::trap) noexcept
	    : call<R(A...)>(name, function, policy)
	{
	}
	constexpr call(const char *name, missing policy) noexcept : call<R(A...)>(name, policy) {}
	constexpr call(const char *name, state function, detail::bound of) noexcept : call<R(A...)>(name, function, of) {}
	[[nodiscard]] std::error_code set(state function) noexcept { return call<R(A...)>::set(function); }
	static std::uint64_t bits(state function) noexcept { return call<R(A...)>::bits(function); }
};

namespace detail {

template <class Key> struct kind_of;
template <> struct kind_of<branch> {
	template <auto &Key> struct site {
#if PATCHPOINT__CXX_NATIVE
		PATCHPOINT__ALWAYS bool likely() const noexcept PATCHPOINT__LIKELY_SITE(PATCHPOINT__CXX_PLACE, &Key, Key)
		PATCHPOINT__ALWAYS bool unlikely() const noexcept PATCHPOINT__UNLIKELY_SITE(PATCHPOINT__CXX_PLACE, &Key, Key)
#else
		bool likely() const noexcept { return Key.likely(); }
		bool unlikely() const noexcept { return Key.unlikely(); }
#endif
	};
};
template <class T> struct kind_of<value<T>> {
	template <auto &Key> struct site {
#if PATCHPOINT__CXX_NATIVE
		PATCHPOINT__ALWAYS T get() const noexcept PATCHPOINT__VALUE_SITE(T, PATCHPOINT__CXX_PLACE, &Key, Key)
#else
		T get() const noexcept { return Key.get(); }
#endif
		PATCHPOINT__ALWAYS operator T() const noexcept { return get(); }
		};
};
template <unsigned ways, class T> struct kind_of<switch_<ways, T>> {
	template <auto &Key> struct site {
#if PATCHPOINT__CXX_NATIVE
		PATCHPOINT__ALWAYS T get() const noexcept { return static_cast<T>(number()); }
		PATCHPOINT__ALWAYS unsigned number() const noexcept PATCHPOINT__SWITCH_SITE(ways, PATCHPOINT__CXX_PLACE, &Key, Key)
#else
		T get() const noexcept { return Key.get(); }
#endif
		PATCHPOINT__ALWAYS operator T() const noexcept { return get(); }
	};
};
template <class R, class... A> struct kind_of<call<R(A...)>> {
	template <auto &Key> struct site {
		PATCHPOINT__ALWAYS R operator()(A... arguments) const noexcept
		{
#if PATCHPOINT__CXX_NATIVE
			return execute<named_call<Key, R(A...)>, R, void>(nullptr, arguments...);
#else
			return Key(arguments...);
#endif
		}
		/// The same, but the caller keeps its general registers, all but %rax: see patchpoint_call_saved.
		PATCHPOINT__ALWAYS R saved(A... arguments) const noexcept
		{
#ifdef PATCHPOINT__THUNK
			return execute_saved<named_call<Key, R(A...)>, R>(arguments...);
#else
			return (*this)(arguments...);
#endif
		}
	};
};
template <class R, class... A> struct kind_of<call<R(A...) noexcept>> : kind_of<call<R(A...)>> {};

} // namespace detail

/**
 * The sites of a key that is a template argument: site<tracing>.unlikely(), site<limit>.get(), site<area>(w, h), and
 * site<area>.saved(w, h), which only this form has. `constexpr auto &area_site = patchpoint::site<area>;` gives a site a name.
 */
template <auto &Key>
inline constexpr typename detail::kind_of<std::remove_cv_t<std::remove_reference_t<decltype(Key)>>>::template site<Key> site{};

namespace detail {

// The number of a key's values, and their type.
template <class Key> constexpr unsigned ways_of = 0;
template <> inline constexpr unsigned ways_of<branch> = 2;
template <unsigned ways, class T> inline constexpr unsigned ways_of<switch_<ways, T>> = ways;

// Element `number` of a combination: the product of the ways before it is the element's stride.
template <unsigned number, auto &First, auto &...Rest> constexpr auto answer(std::size_t combination)
{
	using key_type = std::remove_reference_t<decltype(First)>;

	if constexpr (number == 0)
		return static_cast<typename key_type::state>(combination % ways_of<key_type>);
	else
		return answer<number - 1, Rest...>(combination / ways_of<key_type>);
}

template <class... Key> constexpr std::size_t combinations_of = (std::size_t(1) * ... * ways_of<Key>);

template <class Pointer, std::size_t count> struct list_of {
	Pointer of[count];
};

template <class Body, std::size_t i, auto &...Keys, std::size_t... k> constexpr auto variant_of(std::index_sequence<k...>)
{
	return &Body::template run<answer<k, Keys...>(i)...>;
}

template <class Body, auto &...Keys> struct combinations {
	static constexpr std::size_t count = combinations_of<std::remove_reference_t<decltype(Keys)>...>;
	using numbers = std::make_index_sequence<sizeof...(Keys)>;
	using pointer = decltype(variant_of<Body, 0, Keys...>(numbers()));
	using list = list_of<pointer, count>;
	template <std::size_t... i> static constexpr list all(std::index_sequence<i...>)
	{
		return {{variant_of<Body, i, Keys...>(numbers())...}};
	}
	static constexpr list functions = all(std::make_index_sequence<count>());
	static pointer now() noexcept
	{
		patchpoint_key *const keys[] = {Keys.raw()...};

		return functions.of[patchpoint_combination(keys, sizeof...(Keys))];
	}
};

// Until the object's constructors have run, calls go to `unbound`.
template <class All, class Pointer> struct unbound_of;
template <class All, class R, class... A> struct unbound_of<All, R (*)(A...)> {
	using type = R(A...);
	static R unbound(A... arguments) { return All::now()(arguments...); }
};
template <class All, class R, class... A> struct unbound_of<All, R (*)(A...) noexcept> {
	using type = R(A...) noexcept;
	static R unbound(A... arguments) noexcept { return All::now()(arguments...); }
};

class binding {
public:
	template <class... Key>
	binding(patchpoint_key *function, const void *functions, std::size_t count, Key *...keys) noexcept
	    : record_{nullptr, function, {keys...}, functions, static_cast<std::uint32_t>(count), sizeof...(keys), 0}
	{
		patchpoint_variants_register(&record_);
	}
	~binding() { patchpoint_variants_unregister(&record_); }
	binding(const binding &) = delete;
	binding &operator=(const binding &) = delete;

private:
	patchpoint_variants record_;
};

} // namespace detail

/**
 * A function that is compiled for each combination of its keys, one to four branches and switches. Body has a `name` for tools and a
 * static member template `run`, whose template parameters are the keys' values:
 *
 *     struct lock_body {
 *             static constexpr char name[] = "lock";
 *             template <bool smp, bool debug> static void run(spinlock *lock) { if constexpr (smp) ... }
 *     };
 *     inline constexpr patchpoint::variants<lock_body, smp, debug> lock;
 *     lock(&mine);
 *
 * A change of a key binds all sites of the function to another variant, in the same transaction as the key's own sites.
 */
template <class Body, auto &...Keys> class [[gnu::visibility("hidden")]] variants {
	static_assert(sizeof...(Keys) >= 1 && sizeof...(Keys) <= PATCHPOINT_VARIANT_KEYS_MAX,
		      "patchpoint: variants depend on 1 to 4 keys");
	static_assert(((detail::ways_of<std::remove_reference_t<decltype(Keys)>> >= 2) && ...),
		      "patchpoint: variants depend on branches and switches; a value has too many values");
	using all = detail::combinations<Body, Keys...>;
	static_assert(all::count <= PATCHPOINT_COMBINATIONS_MAX, "patchpoint: the keys of variants have at most 16 combinations");
	using unbound = detail::unbound_of<all, typename all::pointer>;

public:
	/// The call key of the function, which only its keys change. Exported and imported as any other.
	static inline call<typename unbound::type> key{Body::name, &unbound::unbound, detail::bound()};

	/// A site. Returns the result of the variant for the keys' values.
	template <class... A> PATCHPOINT__ALWAYS auto operator()(A... arguments) const
	{
		(void)&bound;
		return site<key>(arguments...);
	}
	/// Returns the variant that sites call now, by a plain load.
	typename all::pointer load() const noexcept
	{
		(void)&bound;
		return reinterpret_cast<typename all::pointer>(key.load());
	}

private:
	static inline detail::binding bound{key.raw(), &all::functions, all::count, Keys.raw()...};
};

/**
 * Several changes, made all or none. Nothing happens and nothing is held until commit(); a transaction that is destroyed before
 * changes nothing. One thread uses a transaction; different threads use different transactions.
 */
class transaction {
public:
	transaction() noexcept { patchpoint_txn_begin(&transaction_); }
	~transaction() { patchpoint_txn_abort(&transaction_); }
	transaction(transaction &&other) noexcept : transaction_(other.transaction_) { patchpoint_txn_begin(&other.transaction_); }
	transaction &operator=(transaction &&other) noexcept
	{
		if (this != &other) {
			patchpoint_txn_abort(&transaction_);
			transaction_ = other.transaction_;
			patchpoint_txn_begin(&other.transaction_);
		}
		return *this;
	}

	/// Adds a change. commit() reports an error that occurs here (no memory, no such way).
	template <class Key> transaction &set(Key &key, typename Key::state next) noexcept
	{
		(void)patchpoint_txn_set(&transaction_, key.raw(), Key::bits(next));
		return *this;
	}
	/// Makes all changes, or none if it returns an error. Afterwards the transaction is empty and can be used again.
	[[nodiscard]] std::error_code commit() noexcept { return detail::error_of(patchpoint_txn_commit(&transaction_)); }
	/// Forgets the changes.
	void clear() noexcept { patchpoint_txn_abort(&transaction_); }
	/// Number of changes.
	std::size_t size() const noexcept { return transaction_.count; }

private:
	patchpoint_txn transaction_;
};

} // namespace patchpoint

// Registers the program or shared object; doing it in several files is harmless.
PATCHPOINT__OBJECT

#endif
