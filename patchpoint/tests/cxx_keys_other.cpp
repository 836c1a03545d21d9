// SPDX-License-Identifier: MIT OR Apache-2.0
// The other file: it defines a key of C, and has sites of its own of all keys.
#include "cxx_keys.hpp"

PATCHPOINT_DECLARE_VALUE(of_c, int);
PATCHPOINT_DEFINE_VALUE(of_c, int, 31);

long other_file(long a)
{
	return shared_inline<int>(static_cast<int>(a)) + patchpoint_value(of_c);
}

long other_weighed(long a)
{
	return weighed(a, short(4));
}

int other_way()
{
	return way_of(chosen);
}
