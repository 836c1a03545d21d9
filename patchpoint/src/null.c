/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What missing operations do, but for results of zero, which are the architecture's (arch/). Reached by indirect calls, hence
 * compiled with -fcf-protection or -mbranch-protection.
 */
#include "internal.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void patchpoint_null_nothing(void)
{
}

EXPORTED void patchpoint_null_trap(void)
{
	__builtin_trap();
}
