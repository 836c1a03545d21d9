/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions of missing operations; those that return zero belong to the architecture (arch/). Sites call them indirectly, so
 * this file is compiled with -fcf-protection or -mbranch-protection.
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
