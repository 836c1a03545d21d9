/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sites as plain loads, tests and indirect calls: any architecture. Include patchpoint.h, not this file. */
#ifndef PATCHPOINT_SITE_PORTABLE_H
#define PATCHPOINT_SITE_PORTABLE_H

#include "value_load.h"

#define PATCHPOINT__SITES_CALL(key, n, form, result, parameters, arguments) \
	PATCHPOINT__INLINE result patchpoint_call_##key parameters \
	{ \
		PATCHPOINT__OP(patchpoint_key_##key); \
		PATCHPOINT__RETURN_##form \
		(__extension__ PATCHPOINT__CAST(patchpoint_function_##key, PATCHPOINT__SLOT(patchpoint_key_##key))) arguments; \
	} \
	PATCHPOINT__INLINE result patchpoint__saved_##key parameters \
	{ \
		PATCHPOINT__RETURN_##form patchpoint_call_##key arguments; \
	}

#define PATCHPOINT__SITES_BRANCH(key, symbol, offset, lvalue) \
	PATCHPOINT__INLINE bool patchpoint_likely_##key(void) \
	{ \
		PATCHPOINT__OP(lvalue); \
		return __builtin_expect(PATCHPOINT__SLOT(lvalue) != NULL, 1); \
	} \
	PATCHPOINT__INLINE bool patchpoint_unlikely_##key(void) \
	{ \
		PATCHPOINT__OP(lvalue); \
		return __builtin_expect(PATCHPOINT__SLOT(lvalue) != NULL, 0); \
	}

#define PATCHPOINT__SITES_SWITCH(key, ways, symbol, offset, lvalue) \
	PATCHPOINT__INLINE unsigned patchpoint_switch_##key(void) \
	{ \
		PATCHPOINT__OP(lvalue); \
		return PATCHPOINT__FROM_SLOT(unsigned, PATCHPOINT__SLOT(lvalue)); \
	}

/* Nothing to register: there are no sites. */
#define PATCHPOINT__OBJECT
#define PATCHPOINT_DEFINE_SAVED(key) PATCHPOINT__KEY(key)
#define PATCHPOINT_PRESERVING

#endif
