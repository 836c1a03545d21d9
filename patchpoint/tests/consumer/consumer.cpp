// SPDX-License-Identifier: MIT OR Apache-2.0
// The program of consumer.c in C++17.
#include <patchpoint.h>

PATCHPOINT_DECLARE_CALL(job, long, long);
PATCHPOINT_DECLARE_VALUE(limit, int);
PATCHPOINT_DECLARE_BRANCH(off);

namespace {
long twice(long a) { return 2 * a; }
long identity(long a) { return a; }
} // namespace

PATCHPOINT_DEFINE_CALL(job, twice);
PATCHPOINT_DEFINE_VALUE(limit, int, 3);
PATCHPOINT_DEFINE_BRANCH(off, false);

template <class T> static T all(T a)
{
	return static_cast<T>(patchpoint_call(job, a)) * 100 + patchpoint_value(limit) * 10 + patchpoint_unlikely(off);
}

int main()
{
	if (all(4) != 830 || patchpoint_init() != 0 || all(4L) != 830)
		return 1;
	patchpoint_txn txn;
	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_call(&txn, job, identity);
	patchpoint_txn_set_value(&txn, limit, 5);
	patchpoint_txn_set_branch(&txn, off, true);
	if (patchpoint_txn_commit(&txn) != 0)
		return 2;
	return all(4) == 451 ? 0 : 3;
}
