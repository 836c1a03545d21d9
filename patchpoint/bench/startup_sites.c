/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * 2,000 sites of 200 keys: ten functions, each with a site of every key, so that sites of one key lie some kilobytes apart and are
 * never written together. The file defines no global symbol, so a program can be linked with it any number of times
 * (CMakeLists.txt), which is far faster than compiling as many sites.
 */
#include <patchpoint.h>

#include "startup_keys.h"

#define DECLARE(key) PATCHPOINT_DECLARE_VALUE(key, int);
KEYS(DECLARE)

#define READ(key) +patchpoint_value(key)
#define FUNCTION(n) \
	static __attribute__((__used__)) int function_##n(void) { return n KEYS(READ); }
FUNCTION(0) FUNCTION(1) FUNCTION(2) FUNCTION(3) FUNCTION(4) FUNCTION(5) FUNCTION(6) FUNCTION(7) FUNCTION(8) FUNCTION(9)
