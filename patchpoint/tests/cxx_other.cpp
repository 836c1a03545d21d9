// SPDX-License-Identifier: MIT OR Apache-2.0
// The other file that uses the templates of cxx.hpp.
#include "cxx.hpp"

long other_file(long a)
{
	return shared_inline<int>(static_cast<int>(a));
}
