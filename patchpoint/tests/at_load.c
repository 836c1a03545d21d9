/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program whose sites are patched before main. */
#include <patchpoint.h>

#include "check.h"

#include <string.h>

PATCHPOINT_DECLARE_VALUE(number, int);
PATCHPOINT_DEFINE_VALUE(number, int, 4);
PATCHPOINT_DECLARE_BRANCH(flag);
PATCHPOINT_DEFINE_BRANCH(flag, false);
PATCHPOINT_PATCH_AT_LOAD;

static int check_site(const struct patchpoint_site_info *info, void *sites)
{
	CHECK(strcmp(info->state, info->key == &patchpoint_key_number ? "immediate" : "nop") == 0);
	++*(int *)sites;
	return 0;
}

int main(void)
{
	int sites = 0;

	CHECK_EQUAL(patchpoint_site_iterate(check_site, &sites), 0);
	CHECK_EQUAL(sites, VALUE_SITES + NATIVE);
	CHECK_EQUAL(patchpoint_value(number), 4);
	CHECK(!patchpoint_unlikely(flag));
	return 0;
}
