/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls a function whose variants another file defines. */
#include "variants.h"

long other_combined(long a)
{
	return patchpoint_call(combined, a);
}
