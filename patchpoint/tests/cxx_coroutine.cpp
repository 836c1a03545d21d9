// SPDX-License-Identifier: MIT OR Apache-2.0
// C++20: sites in a coroutine, before and after its suspensions, and keys that change meanwhile.
#include <patchpoint.hpp>

#include "check.h"

#include <version>

#if defined(__cpp_impl_coroutine) && defined(__cpp_lib_coroutine)
#include <coroutine>
#include <exception>

namespace {

struct generator {
	struct promise_type {
		long current = 0;

		generator get_return_object() { return generator{std::coroutine_handle<promise_type>::from_promise(*this)}; }
		std::suspend_always initial_suspend() noexcept { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		std::suspend_always yield_value(long number) noexcept
		{
			current = number;
			return {};
		}
		void return_void() noexcept {}
		void unhandled_exception() { std::terminate(); }
	};

	std::coroutine_handle<promise_type> handle;

	long next()
	{
		handle.resume();
		return handle.promise().current;
	}
};

[[gnu::noinline]] double half(double a, char) { return a / 2; }

constinit patchpoint::branch negate{"negate"};
constinit patchpoint::value<char8_t> step{"step", u8'\1'};
constinit patchpoint::call<double(double, char)> transform{"transform", half};
constinit patchpoint::switch_<3> way{"way"};

// Each round suspends in a path that a site chose, so locals stay in the coroutine's frame across the suspension.
generator numbers(long number)
{
	for (;;) {
		const double before = static_cast<double>(number);
		const double after = transform(before, 'x');

		if (negate.unlikely())
			co_yield -static_cast<long>(after);
		else
			co_yield static_cast<long>(after);
		CHECK(before == static_cast<double>(number));
		number += step;
		switch (way) {
		case 0: break;
		case 1: co_yield 1000 + number; break;
		default: co_yield 2000 + patchpoint::site<step>; break;
		}
	}
}

} // namespace

int main()
{
	for (int patched = 0; patched < 2; patched++) {
		generator sequence = numbers(10);

		CHECK_EQUAL(sequence.next(), 5);
		CHECK_EQUAL(sequence.next(), 5);
		patchpoint::transaction change;
		CHECK(!change.set(negate, true).set(step, u8'\5').set(way, 1u).commit());
		CHECK_EQUAL(sequence.next(), 1016);
		CHECK_EQUAL(sequence.next(), -8);
		CHECK(!change.set(transform, [](double a, char) { return a; }).set(way, 2u).commit());
		CHECK_EQUAL(sequence.next(), 2005);
		CHECK_EQUAL(sequence.next(), -21);
		sequence.handle.destroy();
		CHECK(!change.set(negate, false).set(step, u8'\1').set(way, 0u).set(transform, half).commit());
		CHECK(!patchpoint::init());
	}
	return 0;
}
#else
int main()
{
	SKIP("this compiler and its library have no coroutines of C++20");
}
#endif
