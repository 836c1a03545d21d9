// SPDX-License-Identifier: MIT OR Apache-2.0
// The program of consumer.c with patchpoint.hpp.
#include <patchpoint.hpp>

namespace {

long twice(long a) { return 2 * a; }
long identity(long a) { return a; }

patchpoint::call<long(long)> job{"job", twice};
patchpoint::value<int> limit{"limit", 3};
patchpoint::branch off{"off"};

template <class T> T all(T a)
{
	return static_cast<T>(job(a)) * 100 + limit * 10 + off.unlikely();
}

} // namespace

int main()
{
	if (all(4) != 830 || patchpoint::init() || all(4L) != 830)
		return 1;
	patchpoint::transaction change;
	if (change.set(job, identity).set(limit, 5).set(off, true).commit())
		return 2;
	return all(4) == 451 ? 0 : 3;
}
