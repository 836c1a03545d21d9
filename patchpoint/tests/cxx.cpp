// SPDX-License-Identifier: MIT OR Apache-2.0
// C++17: templates, inline functions in two files (COMDAT), namespaces, exceptions around sites.
#include "cxx.hpp"

#include "check.h"

#include <stdexcept>

static long identity(long a) { return a; }
static long twice(long a) { return a * 2; }

PATCHPOINT_DEFINE_CALL(transform, twice);
PATCHPOINT_DEFINE_SAVED(transform);
PATCHPOINT_DEFINE_VALUE(step, short, -2);
PATCHPOINT_DEFINE_BRANCH(negate, false);

long other_file(long a);

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
	CHECK_EQUAL(shared_inline<int>(5), 10 - 2);
	CHECK_EQUAL(shared_inline<long>(5), 10 - 2);
	CHECK_EQUAL(other_file(7), 14 - 2);
	CHECK_EQUAL(patchpoint_init(), 0);
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
