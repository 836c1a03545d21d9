// SPDX-License-Identifier: MIT OR Apache-2.0
// The same functions with the macros of patchpoint.h (FORM 0), with members of patchpoint.hpp (1) and with sites that name their
// keys (2). cxx_code.sh compares the compiled code.
#include <patchpoint.hpp>

enum class level : unsigned char { low, high };

#if FORM == 0
PATCHPOINT_DECLARE_BRANCH(tracing);
PATCHPOINT_DECLARE_VALUE(limit, int);
PATCHPOINT_DECLARE_VALUE(wide, unsigned long);
PATCHPOINT_DECLARE_VALUE(narrow, level);
PATCHPOINT_DECLARE_SWITCH(way, 5);
PATCHPOINT_DECLARE_CALL(area, long, long, level);
PATCHPOINT_DECLARE_CALL(hook, void);
PATCHPOINT_DECLARE_CALL(mixed, double, int, double, short, float, void *, double);
#define LIKELY(key) patchpoint_likely(key)
#define UNLIKELY(key) patchpoint_unlikely(key)
#define VALUE(key) patchpoint_value(key)
#define SWITCH(key) patchpoint_switch(key)
#define CALL patchpoint_call
#define CALL_NO patchpoint_call
#define SAVED patchpoint_call_saved
#else
#define KEY [[gnu::visibility("hidden")]] extern patchpoint
KEY::branch tracing;
KEY::value<int> limit;
KEY::value<unsigned long> wide;
KEY::value<level> narrow;
KEY::switch_<5> way;
KEY::call<long(long, level)> area;
KEY::call<void()> hook;
KEY::call<double(int, double, short, float, void *, double)> mixed;
#if FORM == 1
#define SITE(key) key
#else
#define SITE(key) patchpoint::site<key>
#endif
#define LIKELY(key) SITE(key).likely()
#define UNLIKELY(key) SITE(key).unlikely()
#define VALUE(key) SITE(key).get()
#define SWITCH(key) SITE(key).get()
#define CALL(key, ...) SITE(key)(__VA_ARGS__)
#define CALL_NO(key) SITE(key)()
// Only sites that name their keys have a register-preserving form.
#define SAVED(key, ...) patchpoint::site<key>.saved(__VA_ARGS__)
#endif

extern "C" {
long leaf(long a);
long loop(long *table, long count);
int read(long a);
double real(double a, int b, void *c);
long choose(long a, level b);
void nothing();
void other(long);

long leaf(long a)
{
	if (UNLIKELY(tracing))
		return -a;
	return a;
}

long loop(long *table, long count)
{
	long sum = 0;

	for (long i = 0; i < count; i++) {
		if (LIKELY(tracing))
			sum += SAVED(area, table[i], level::high);
		if (table[i] > VALUE(limit))
			other(sum);
	}
	return sum;
}

int read(long a)
{
	return VALUE(limit) + (VALUE(wide) > static_cast<unsigned long>(a)) + static_cast<int>(VALUE(narrow));
}

double real(double a, int b, void *c)
{
	return CALL(mixed, b, a, static_cast<short>(b), 1.5f, c, a * 2) + SAVED(mixed, b, a, static_cast<short>(b), 1.5f, c, a * 2);
}

long choose(long a, level b)
{
	switch (SWITCH(way)) {
	case 0: return a;
	case 1: return CALL(area, a, b);
	case 2: other(a); return a + 1;
	case 3: return a * a;
	default: return CALL(area, a, level::low) + 1;
	}
}

void nothing()
{
	CALL_NO(hook);
}
}

#if FORM != 0
// Uses the rest of the header, so that its warnings show.
patchpoint::branch tracing{"tracing"};
patchpoint::value<int> limit{"limit", 1};
patchpoint::value<unsigned long> wide{"wide", 1};
patchpoint::value<level> narrow{"narrow", level::low};
patchpoint::switch_<5> way{"way", 3};
patchpoint::call<long(long, level)> area{"area", [](long a, level) { return a; }};
patchpoint::call<void()> hook{"hook", patchpoint::missing::nothing};
patchpoint::call<double(int, double, short, float, void *, double)> mixed{"mixed", patchpoint::missing::zero};

std::error_code change();
std::error_code change()
{
	patchpoint::transaction first;

	first.set(tracing, true).set(limit, 7).set(wide, 8ul).set(narrow, level::high).set(way, 1u).set(area, nullptr).set(hook, [] {});
	patchpoint::transaction second(static_cast<patchpoint::transaction &&>(first));
	int sites = 0;
	if (std::error_code error = patchpoint::for_each_site([&](const patchpoint_site_info &) { return ++sites < 5; }))
		return error;
	return sites != 0 && tracing.load() && limit.load() != 0 && narrow.load() == level::low ? mixed.remove() : second.commit();
}
#endif
