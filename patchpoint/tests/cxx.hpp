// SPDX-License-Identifier: MIT OR Apache-2.0
// Sites in templates and inline functions that both files of the test use.
#ifndef CXX_HPP
#define CXX_HPP

#include <patchpoint.h>

#include <string>

PATCHPOINT_DECLARE_CALL(transform, long, long);
PATCHPOINT_DECLARE_VALUE(step, short);
PATCHPOINT_DECLARE_BRANCH(negate);

template <class T> __attribute__((noinline)) T shared_inline(T a)
{
	T result = static_cast<T>(patchpoint_call(transform, a)) + patchpoint_value(step);

	if (patchpoint_unlikely(negate))
		result = -result;
	return result;
}

#endif
