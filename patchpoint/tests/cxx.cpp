// SPDX-License-Identifier: MIT OR Apache-2.0
// C++17: templates, inline functions in two files (COMDAT), namespaces, exceptions around sites.
#include "cxx.hpp"

#include "check.h"

#include <cstring>
#include <stdexcept>

static long identity(long a) { return a; }
static long twice(long a) { return a * 2; }

PATCHPOINT_DEFINE_CALL(transform, twice);
PATCHPOINT_DEFINE_SAVED(transform);
PATCHPOINT_DEFINE_VALUE(step, short, -2);
PATCHPOINT_DEFINE_BRANCH(negate, false);

long other_file(long a);

// Enumerations and characters narrower than int, which a callee may assume to be extended; and a result of each.
enum class level : unsigned char { low = 1, high = 200 };
enum class offset : short { back = -300 };
PATCHPOINT_DECLARE_CALL(of_level, int, level);
PATCHPOINT_DECLARE_CALL(of_narrow, long, char16_t, offset, unsigned char, bool, signed char, wchar_t);
PATCHPOINT_DECLARE_CALL(same_level, level, level);
PATCHPOINT_DECLARE_CALL(mixed, double, level, double, char16_t, float);
PATCHPOINT_DECLARE_VALUE(current_level, level);
PATCHPOINT_DECLARE_SWITCH(way, 3);
#ifdef __cpp_char8_t
PATCHPOINT_DECLARE_CALL(of_byte, int, char8_t);
static int from_byte(char8_t a) { return a; }
PATCHPOINT_DEFINE_CALL(of_byte, from_byte);
#endif

[[gnu::noinline]] static int from_level(level a) { return static_cast<int>(a); }
[[gnu::noinline]] static long from_narrow(char16_t a, offset b, unsigned char c, bool d, signed char e, wchar_t f)
{
	return a + static_cast<long>(b) * 10 + c * 100L + d * 1000L + e * 10000L + f * 100000L;
}
static level same(level a) { return a; }
static level other(level) { return level::low; }
static double from_mixed(level a, double b, char16_t c, float d)
{
	return static_cast<int>(a) + 10 * b + 100 * c + 1000 * static_cast<double>(d);
}

PATCHPOINT_DEFINE_CALL(of_level, from_level);
PATCHPOINT_DEFINE_CALL(of_narrow, from_narrow);
PATCHPOINT_DEFINE_CALL(same_level, same);
PATCHPOINT_DEFINE_CALL(mixed, from_mixed);
PATCHPOINT_DEFINE_SAVED(mixed);
PATCHPOINT_DEFINE_VALUE(current_level, level, level::high);
PATCHPOINT_DEFINE_SWITCH(way, 3, 1);

struct category {
	const char *title;
	patchpoint_key enabled;
};
PATCHPOINT_DECLARE_HOLDER(category, categories, [2]);
PATCHPOINT_DEFINE_HOLDER(category, categories, [2]) = {
	{"first", PATCHPOINT_BRANCH_INIT("first", false)}, {"second", PATCHPOINT_BRANCH_INIT("second", true)}};
PATCHPOINT_DECLARE_BRANCH_IN(second_enabled, categories, [1].enabled);

// Makes a value from a register whose upper part holds other bits.
static level from_register(unsigned long bits)
{
	level narrow;

	std::memcpy(&narrow, &bits, 1);
	return narrow;
}

static int way_now()
{
	switch (patchpoint_switch(way)) {
	case 0: return 10;
	case 1: return 11;
	default: return 12;
	}
}

static void check_types()
{
	volatile unsigned long bits = 0x345678c8;
	const signed char minus = -100;

	CHECK_EQUAL(patchpoint_call(of_level, from_register(bits)), 200);
	CHECK_EQUAL(patchpoint_call(of_narrow, u'\xffff', offset::back, 200, true, minus, L'\x7fff'),
		    65535 - 3000 + 20000 + 1000 - 1000000 + 32767L * 100000);
	CHECK(patchpoint_call(same_level, from_register(bits)) == level::high);
	CHECK(patchpoint_call(mixed, level::high, 0.5, u'\2', 0.25f) == 200 + 5 + 200 + 250);
	CHECK(patchpoint_call_saved(mixed, level::high, 0.5, u'\2', 0.25f) == 200 + 5 + 200 + 250);
	CHECK(patchpoint_value(current_level) == level::high);
	CHECK_EQUAL(way_now(), 11);
	CHECK(patchpoint_unlikely(second_enabled));
#ifdef __cpp_char8_t
	CHECK_EQUAL(patchpoint_call(of_byte, static_cast<char8_t>(bits)), 200);
#endif
}

static void change_types()
{
	CHECK_EQUAL(patchpoint_set_call(same_level, other), 0);
	CHECK(patchpoint_call(same_level, level::high) == level::low);
	CHECK_EQUAL(patchpoint_set_value(current_level, level::low), 0);
	CHECK(patchpoint_value(current_level) == level::low);
	CHECK_EQUAL(patchpoint_set_switch(way, 2), 0);
	CHECK_EQUAL(way_now(), 12);
	CHECK_EQUAL(patchpoint_set_branch(second_enabled, false), 0);
	CHECK(!patchpoint_unlikely(second_enabled));
	CHECK_EQUAL(patchpoint_set_call(same_level, same), 0);
	CHECK_EQUAL(patchpoint_set_value(current_level, level::high), 0);
	CHECK_EQUAL(patchpoint_set_switch(way, 1), 0);
	CHECK_EQUAL(patchpoint_set_branch(second_enabled, true), 0);
}

static const void *in_constructor = (const void *)(intptr_t)patchpoint_value(step);

static int count(const patchpoint_site_info *info, void *argument)
{
	CHECK(std::string(info->state) != "foreign");
	++*static_cast<int *>(argument);
	return 0;
}

static long thrown(long a)
{
	try {
		if (patchpoint_call(transform, a) == 4)
			throw std::runtime_error("four");
		return 0;
	} catch (const std::runtime_error &error) {
		return static_cast<long>(std::string(error.what()).size());
	}
}

int main()
{
	int sites = 0;

	CHECK_EQUAL((intptr_t)in_constructor, -2);
	check_types();
	change_types();
	CHECK_EQUAL(shared_inline<int>(5), 10 - 2);
	CHECK_EQUAL(shared_inline<long>(5), 10 - 2);
	CHECK_EQUAL(other_file(7), 14 - 2);
	CHECK_EQUAL(patchpoint_init(), 0);
	check_types();
	change_types();
	check_types();
	CHECK_EQUAL(thrown(2), 4);
	CHECK_EQUAL(patchpoint_set_call(transform, identity), 0);
	CHECK_EQUAL(patchpoint_set_value(step, short(100)), 0);
	CHECK_EQUAL(patchpoint_set_branch(negate, true), 0);
	CHECK_EQUAL(shared_inline<int>(5), -105);
	CHECK_EQUAL(shared_inline<long>(5), -105);
	CHECK_EQUAL(other_file(7), -107);
	CHECK_EQUAL(patchpoint_call_saved(transform, -3), -3);
	CHECK_EQUAL(thrown(4), 4);
	CHECK_EQUAL(thrown(2), 0);
	CHECK_EQUAL(patchpoint_site_iterate(count, &sites), 0);
	CHECK(NATIVE ? sites >= 5 : sites == 0);
	return 0;
}
