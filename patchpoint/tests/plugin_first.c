/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A shared object that defines keys and exports them. */
#include "shared_keys.h"

static long identity(long a) { return a; }

PATCHPOINT_DEFINE_CALL(shared_job, identity);
PATCHPOINT_DEFINE_VALUE(shared_number, int, 12);
PATCHPOINT_DEFINE_BRANCH(shared_flag, false);
PATCHPOINT_EXPORT(shared_job);
PATCHPOINT_EXPORT(shared_number);
PATCHPOINT_EXPORT(shared_flag);

__attribute__((visibility("default"))) long plugin_first(long a);
long plugin_first(long a)
{
	return shared_sites(a);
}
