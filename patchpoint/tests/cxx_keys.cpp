// SPDX-License-Identifier: MIT OR Apache-2.0
// Conformance of patchpoint.hpp: every kind and type of key, before it is patched and after, by member and by name.
#include "cxx_keys.hpp"

#include "check.h"

#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

using patchpoint::missing;
using patchpoint::site;

patchpoint::switch_<3, policy> chosen{"chosen", policy::fast};
category categories[2] = {{"first", patchpoint::branch{"first"}, {"first", 1}}, {"second", patchpoint::branch{"second", true}, {"second", 7}}};

// Whether the header makes sites here, and whether members are sites: without optimisation they are not.
constexpr int names = PATCHPOINT__CXX_NATIVE;
constexpr int members = PATCHPOINT__CXX_MEMBERS;
#ifdef PATCHPOINT__THUNK
constexpr bool thunks = true;
#else
constexpr bool thunks = false;
#endif

namespace {

enum class level : signed char { low = -100, high = 100 };
enum wide : std::uint64_t { all = std::numeric_limits<std::uint64_t>::max() };

// Values. Each type's key is read by member and by name, unpatched and patched, for each of its numbers.
template <class T> patchpoint::value<T> kept{"kept", T()};

template <class T> [[gnu::noinline]] T by_member() { return kept<T>; }
template <class T> [[gnu::noinline]] T by_name() { return site<kept<T>>; }

template <class T> void check_value(T wanted)
{
	CHECK(!kept<T>.set(wanted));
	CHECK(by_member<T>() == wanted);
	CHECK(by_name<T>() == wanted);
	CHECK(kept<T>.get() == wanted && kept<T>.load() == wanted);
}

template <class T> void check_number()
{
	check_value(std::numeric_limits<T>::min());
	check_value(std::numeric_limits<T>::max());
	check_value(T(1));
	check_value(T(0));
}

void check_values()
{
	check_number<bool>();
	check_number<char>();
	check_number<signed char>();
	check_number<unsigned char>();
	check_number<char16_t>();
	check_number<char32_t>();
	check_number<wchar_t>();
	check_number<short>();
	check_number<unsigned short>();
	check_number<int>();
	check_number<unsigned>();
	check_number<long>();
	check_number<unsigned long>();
	check_number<long long>();
	check_number<std::uint64_t>();
#ifdef __cpp_char8_t
	check_number<char8_t>();
#endif
	check_value(level::low);
	check_value(level::high);
	check_value(all);
	check_value<const char *>("text");
	check_value<const char *>(nullptr);
	check_value<long (*)(long)>(twice);
}

// Calls.
int none() { return -5; }
level same(level a) { return a; }
level other(level a) noexcept { return a == level::low ? level::high : level::low; }
[[gnu::noinline]] long six(signed char a, char16_t b, level c, bool d, wide e, const char *f)
{
	return a + b * 10L + static_cast<long>(c) * 100000L + d * 100000000L + (e == all ? 1000000000L : 0) + f[0];
}
[[gnu::noinline]] double mixed(level a, double b, char16_t c, float d, long e, double f)
{
	return static_cast<int>(a) + 10 * b + 100 * c + 1000 * static_cast<double>(d) + static_cast<double>(e) + f;
}
float half(float a) { return a / 2; }
void count(int *number) { ++*number; }

patchpoint::call<int()> of_none{"of_none", none};
patchpoint::call<level(level)> of_level{"of_level", same};
patchpoint::call<level(level) noexcept> of_noexcept{"of_noexcept", other};
patchpoint::call<long(signed char, char16_t, level, bool, wide, const char *)> of_six{"of_six", six};
patchpoint::call<double(level, double, char16_t, float, long, double)> of_mixed{"of_mixed", mixed};
patchpoint::call<float(float)> of_float{"of_float", half};
patchpoint::call<void(int *)> of_void{"of_void", count};
patchpoint::call<int(int)> zero{"zero", missing::zero};
patchpoint::call<double(double)> zero_real{"zero_real", missing::zero};
patchpoint::call<void()> nothing{"nothing", missing::nothing};

// Makes an argument from a register whose upper part holds other bits.
level from_register(unsigned long bits)
{
	level narrow;

	std::memcpy(&narrow, &bits, 1);
	return narrow;
}

template <class Six, class Mixed, class Level> [[gnu::noinline]] void check_narrow(const Six &as_six, const Mixed &as_mixed, const Level &as_level)
{
	volatile unsigned long bits = 0x345678c8;
	const level narrow = from_register(bits);

	CHECK(as_level(narrow) == narrow);
	CHECK_EQUAL(as_six(-128, u'\xffff', narrow, true, all, "x"), -128 + 655350L - 5600000L + 100000000L + 1000000000L + 'x');
	CHECK(as_mixed(level::high, 0.5, u'\2', 0.25f, -1000L, 0.125) == 100 + 5 + 200 + 250 - 1000 + 0.125);
}

void check_calls()
{
	int number = 0;

	check_narrow(site<of_six>, site<of_mixed>, site<of_level>);
	CHECK_EQUAL(of_six(-128, u'\xffff', level::low, true, all, "x"), -128 + 655350L - 10000000L + 100000000L + 1000000000L + 'x');
	CHECK(of_mixed(level::high, 0.5, u'\2', 0.25f, -1000L, 0.125) == 100 + 5 + 200 + 250 - 1000 + 0.125);
	CHECK(site<of_mixed>.saved(level::high, 0.5, u'\2', 0.25f, -1000L, 0.125) == 100 + 5 + 200 + 250 - 1000 + 0.125);
	CHECK_EQUAL(site<of_six>.saved(1, u'\2', level::low, false, wide(), "a"), 1 + 20 - 10000000L + 'a');
	CHECK_EQUAL(of_none(), -5);
	CHECK_EQUAL(site<of_none>.saved(), -5);
	CHECK(of_level(level::high) == level::high);
	CHECK(of_noexcept(level::high) == level::low && site<of_noexcept>(level::low) == level::high);
	CHECK(of_float(3) == 1.5f && site<of_float>(5) == 2.5f && site<of_float>.saved(7) == 3.5f);
	of_void(&number);
	site<of_void>(&number);
	site<of_void>.saved(&number);
	CHECK_EQUAL(number, 3);
	CHECK_EQUAL(zero(7), 0);
	CHECK(zero_real(7) == 0);
	nothing();
	site<nothing>();
}

void change_calls()
{
	static int called;
	int number = 0;

	CHECK(!of_none.set([] { return 9; }));
	CHECK_EQUAL(of_none() + site<of_none>(), 18);
	CHECK(!of_level.set(other));
	CHECK(of_level(level::high) == level::low);
	CHECK(!of_float.set([](float a) { return a; }));
	CHECK(of_float(3.25f) == 3.25f);
	CHECK(!of_void.set([](int *a) { *a = -1; }));
	of_void(&number);
	CHECK_EQUAL(number, -1);
	CHECK(!zero.set([](int a) { return a; }) && !nothing.set([] { called++; }));
	CHECK_EQUAL(zero(7), 7);
	nothing();
	CHECK_EQUAL(called, 1);
	CHECK(!nothing.remove() && !zero.remove());
	CHECK(!of_none.set(none) && !of_level.set(same) && !of_float.set(half) && !of_void.set(count));
	called = 0;
}

// Switches of every size, by member and by name.
template <unsigned ways> patchpoint::switch_<ways> way{"way"};

template <unsigned ways> void check_ways()
{
	for (unsigned i = ways; i-- > 0;) {
		CHECK(!way<ways>.set(i));
		CHECK_EQUAL(way<ways>, i);
		CHECK_EQUAL(site<way<ways>>, i);
		CHECK_EQUAL(way<ways>.load(), i);
	}
	CHECK_EQUAL(way<ways>.set(ways).value(), EINVAL);
	CHECK_EQUAL(way<ways>, 0);
}

void check_switches()
{
	check_ways<2>();
	check_ways<3>();
	check_ways<4>();
	check_ways<5>();
	check_ways<6>();
	check_ways<7>();
	check_ways<8>();
	CHECK_EQUAL(way_of(chosen), 11);
	CHECK_EQUAL(other_way(), 11);
	CHECK(!chosen.set(policy::none));
	CHECK_EQUAL(way_of(chosen), 12);
	CHECK_EQUAL(other_way(), 12);
	CHECK(!chosen.set(policy::fast));
}

// Branches, also in an array of structs, in a lambda and in a generic lambda.
void check_branches()
{
	counter one;
	auto plain = [](unsigned a) { return categories[0].enabled.unlikely() ? a : 0; };
	auto generic = [](auto a) { return categories[0].enabled.unlikely() ? a + a : a; };

	CHECK_EQUAL(one.add(3), 21);
	CHECK_EQUAL(plain(4) + generic(5u), 5);
	CHECK(!categories[1].enabled.set(false) && !categories[0].enabled.set(true));
	CHECK_EQUAL(one.add(3), 21);
	CHECK_EQUAL(plain(4) + generic(5u), 14);
	CHECK(!categories[1].enabled.set(true) && !categories[0].enabled.set(false) && !categories[1].depth.set(2));
	CHECK_EQUAL(one.add(3), 27);
	CHECK(!categories[1].depth.set(7));
	CHECK(!negate.load() && !negate.likely() && !site<negate>.likely() && !site<negate>.unlikely());
	CHECK(!negate.set(true));
	CHECK(negate.load() && negate.likely() && negate.unlikely() && site<negate>.likely() && site<negate>.unlikely());
	CHECK(!negate.set(false));
	CHECK(!negate.inc() && negate.users() == 1 && negate.unlikely());
	CHECK(negate.set(false) == std::errc::device_or_resource_busy);
	CHECK(!negate.dec() && negate.users() == 0 && !negate.unlikely());
	CHECK(negate.dec() == std::errc::result_out_of_range);
}

// negate is false and chosen is fast before and after.
void check_variants()
{
	static_assert(noexcept(weighed.load()(1, short(1))));
	patchpoint::transaction change;

	CHECK_EQUAL(weighed(3, short(-2)), 308);
	CHECK_EQUAL(other_weighed(3), 314);
	change.set(negate, true).set(chosen, policy::none);
	CHECK(!change.commit());
	CHECK_EQUAL(weighed(3, short(4)), -276);
	CHECK_EQUAL(other_weighed(3), -276);
	CHECK_EQUAL(weighed.load()(5, short(0)), -480);
	CHECK(!negate.set(false));
	CHECK_EQUAL(other_weighed(3), 324);
	// Only its keys change it.
	CHECK(decltype(weighed)::key.set([](long, short) noexcept { return 0L; }) == std::errc::invalid_argument);
	CHECK(!chosen.set(policy::fast));
	CHECK_EQUAL(other_weighed(3), 314);
}

void check_transactions()
{
	patchpoint::transaction change;

	CHECK_EQUAL(change.size(), 0);
	change.set(transform, [](long a) { return a; }).set(step, short(100)).set(negate, true).set(chosen, policy::fair);
	CHECK_EQUAL(change.size(), 4);
	CHECK_EQUAL(shared_inline<int>(5), 10 - 2);
	CHECK(!change.commit());
	CHECK_EQUAL(change.size(), 0);
	CHECK_EQUAL(shared_inline<int>(5), -105);
	CHECK_EQUAL(shared_inline<long>(5), -105);
	CHECK_EQUAL(other_file(7), -107 + 31);
	CHECK_EQUAL(way_of(chosen), 10);

	// A transaction makes all changes or none; a moved transaction keeps its changes.
	change.set(step, short(1)).set(way<2>, 2);
	CHECK_EQUAL(change.commit().value(), EINVAL);
	CHECK_EQUAL(step, 100);
	change.set(step, short(1));
	change.clear();
	CHECK(!change.commit());
	CHECK_EQUAL(step, 100);
	change.set(transform, twice).set(step, short(-2)).set(of_c, 32);
	patchpoint::transaction moved(std::move(change));
	patchpoint::transaction back;
	back = std::move(moved);
	back.set(negate, false).set(chosen, policy::fast);
	CHECK(!back.commit());
	CHECK_EQUAL(other_file(7), 14 - 2 + 32);
	CHECK_EQUAL(of_c, 32);
	CHECK(!of_c.set(31));
}

// Keys whose only sites are in these two functions, one site a use.
patchpoint::branch counted_branch{"counted_branch"};
patchpoint::value<int> counted_value{"counted_value", 1};
patchpoint::call<long(long)> counted_call{"counted_call", twice};
patchpoint::switch_<3> counted_switch{"counted_switch"};

[[gnu::noinline]] long use_members(long a)
{
	if (counted_branch.likely())
		a++;
	if (counted_branch.unlikely())
		a++;
	return counted_call(a) + counted_value + counted_switch;
}

[[gnu::noinline]] long use_names(long a)
{
	if (site<counted_branch>.likely())
		a++;
	if (site<counted_branch>.unlikely())
		a++;
	return site<counted_call>(site<counted_call>.saved(a)) + site<counted_value> + site<counted_switch>;
}

int sites_of(const patchpoint_key *key)
{
	int sites = 0;
	auto visit = [&](const patchpoint_site_info &info) {
		CHECK(std::string(info.state) != "foreign");
		sites += info.key == key ? 1 : 0;
		return true;
	};

	CHECK(!patchpoint::for_each_site(visit));
	return sites;
}

void check_all()
{
	CHECK_EQUAL(shared_inline<int>(5), 10 - 2);
	CHECK_EQUAL(shared_inline<long>(5), 10 - 2);
	CHECK_EQUAL(other_file(7), 14 - 2 + 31);
	check_values();
	check_calls();
	change_calls();
	check_calls();
	check_switches();
	check_branches();
	check_variants();
	check_transactions();
}

// Reads keys in a constructor, before main: keys are ready by then.
struct early {
	early() : read(shared_inline<int>(5)), weighed_read(weighed(2, short(1))) {}
	int read;
	long weighed_read;
} const before;

} // namespace

int main()
{
	int visited = 0;

	CHECK_EQUAL(before.read, 10 - 2);
	CHECK_EQUAL(before.weighed_read, 211);
	CHECK_EQUAL(std::string(categories[1].depth.name()) == "second", 1);
	check_all();
	CHECK(!patchpoint::init());
	check_all();
	CHECK_EQUAL(use_members(3) + use_names(3), 7 + 13);
	// gcc for arm64 gives each outcome of the first branch its own copy of the second one.
	CHECK(sites_of(counted_branch.raw()) >= names * 2 + members * 2);
	CHECK(sites_of(counted_branch.raw()) <= names * 3 + members * 3);
	CHECK_EQUAL(sites_of(counted_value.raw()), VALUE_SITES ? names + members : 0);
	CHECK_EQUAL(sites_of(counted_switch.raw()), names + members);
	CHECK_EQUAL(sites_of(counted_call.raw()), names * (thunks ? 3 : 2) + members); // the thunk's, too
	CHECK_EQUAL(sites_of(categories[0].depth.raw()), 0);
	CHECK(!patchpoint::for_each_site([&](const patchpoint_site_info &) { return ++visited < 2; }));
	CHECK_EQUAL(visited, names * 2);
	return 0;
}
