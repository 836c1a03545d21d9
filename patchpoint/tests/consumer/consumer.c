/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program outside the tree: it needs only the installed header and library. */
#include <patchpoint.h>

PATCHPOINT_DECLARE_CALL(job, long, long);
PATCHPOINT_DECLARE_VALUE(limit, int);
PATCHPOINT_DECLARE_BRANCH(off);

static long twice(long a) { return 2 * a; }
static long identity(long a) { return a; }

PATCHPOINT_DEFINE_CALL(job, twice);
PATCHPOINT_DEFINE_VALUE(limit, int, 3);
PATCHPOINT_DEFINE_BRANCH(off, false);

static long all(long a)
{
	return patchpoint_call(job, a) * 100 + patchpoint_value(limit) * 10 + patchpoint_unlikely(off);
}

int main(void)
{
	struct patchpoint_status status;

	if (all(4) != 830 || patchpoint_init() != 0 || all(4) != 830 || patchpoint_status(&status) != 0)
		return 1;
	if (patchpoint_set_call(job, identity) != 0 || patchpoint_set_value(limit, 5) != 0 ||
	    patchpoint_set_branch(off, true) != 0)
		return 2;
	return all(4) == 451 ? 0 : 3;
}
