/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Keys that the first plugin exports and that the program and the second plugin import. */
#ifndef SHARED_KEYS_H
#define SHARED_KEYS_H

#include <patchpoint.h>

PATCHPOINT_DECLARE_CALL(shared_job, long, long);
PATCHPOINT_DECLARE_VALUE(shared_number, int);
PATCHPOINT_DECLARE_BRANCH(shared_flag);

/* Combines the results of an object's sites in one number. */
static inline long shared_sites(long a)
{
	return patchpoint_call(shared_job, a) * 10000 + patchpoint_value(shared_number) * 10 + patchpoint_unlikely(shared_flag);
}

#endif
