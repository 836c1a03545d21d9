/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Functions with variants that both files of the test call. */
#ifndef VARIANTS_H
#define VARIANTS_H

#include <patchpoint.h>

PATCHPOINT_DECLARE_BRANCH(smp);
PATCHPOINT_DECLARE_SWITCH(mode, 3);
PATCHPOINT_DECLARE_CALL(combined, long, long);

long other_combined(long a);

#endif
