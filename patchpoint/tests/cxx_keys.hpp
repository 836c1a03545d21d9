// SPDX-License-Identifier: MIT OR Apache-2.0
// Keys of patchpoint.hpp that both files of the test use: inline keys, a key that is only declared here, and a key of C.
#ifndef CXX_KEYS_HPP
#define CXX_KEYS_HPP

#include <patchpoint.hpp>

enum class policy : unsigned char { fair, fast, none };

inline long twice(long a) { return a * 2; }
inline patchpoint::branch negate{"negate"};
inline patchpoint::value<short> step{"step", -2};
inline patchpoint::call<long(long)> transform{"transform", twice};
[[gnu::visibility("hidden")]] extern patchpoint::switch_<3, policy> chosen;
[[gnu::visibility("hidden")]] extern patchpoint::value<int> of_c asm("patchpoint_key_of_c");

struct [[gnu::visibility("hidden")]] category {
	const char *title;
	patchpoint::branch enabled;
	patchpoint::value<unsigned> depth;
};
extern category categories[2];

// Sites in a template and in inline functions: the program has one copy, from either file.
template <class T> [[gnu::noinline]] T shared_inline(T a)
{
	T result = static_cast<T>(transform(a)) + step;

	if (negate.unlikely())
		result = -result;
	return result;
}

inline int way_of(const patchpoint::switch_<3, policy> &key)
{
	switch (key) {
	case policy::fair: return 10;
	case policy::fast: return 11;
	case policy::none: break;
	}
	return 12;
}

class counter {
public:
	[[gnu::noinline]] unsigned add(unsigned number)
	{
		if (categories[1].enabled.likely())
			count_ += number * categories[1].depth;
		return count_;
	}

private:
	unsigned count_ = 0;
};

// Functions that are compiled for each combination of their keys; both files call them.
struct weighed_body {
	static constexpr char name[] = "weighed";
	template <bool negate, policy chosen> static long run(long a, short b) noexcept
	{
		if constexpr (negate)
			a = -a;
		return a * 100 + static_cast<long>(chosen) * 10 + b;
	}
};
inline constexpr patchpoint::variants<weighed_body, negate, chosen> weighed;
long other_weighed(long a);

long other_file(long a);
int other_way();

#endif
