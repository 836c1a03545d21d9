/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A shared object that uses another object's keys, and has a key of its own with the same name as the program's. */
#include "shared_keys.h"

PATCHPOINT_IMPORT_CALL(shared_job);
PATCHPOINT_IMPORT_VALUE(shared_number);
PATCHPOINT_IMPORT_BRANCH(shared_flag);
PATCHPOINT_DECLARE_VALUE(own, int);
PATCHPOINT_DEFINE_VALUE(own, int, 5);

/* A function whose variants depend on an imported key and on one of this object. */
PATCHPOINT_DECLARE_SWITCH(own_mode, 3);
PATCHPOINT_DEFINE_SWITCH(own_mode, 3, 1);
PATCHPOINT_DECLARE_CALL(own_variant, long, long);
PATCHPOINT_DEFINE_VARIANTS(own_variant, long, (long, a), shared_flag, own_mode)
{
	return a * 100 + own_mode * 10 + shared_flag;
}

__attribute__((visibility("default"))) long plugin_second(long a);
__attribute__((visibility("default"))) long plugin_second_variant(long a, int mode);
__attribute__((visibility("default"))) int plugin_second_own(int set);

long plugin_second(long a)
{
	return shared_sites(a);
}

/* Calls the function with variants, after it set the plugin's own key unless `mode` is negative. */
long plugin_second_variant(long a, int mode)
{
	if (mode >= 0 && patchpoint_set_switch(own_mode, (unsigned)mode) != 0)
		return -1;
	return patchpoint_call(own_variant, a);
}

/* Sets the plugin's own key unless `set` is 0. Returns the key's value. */
int plugin_second_own(int set)
{
	if (set && patchpoint_set_value(own, set) != 0)
		return -1;
	return patchpoint_value(own);
}
