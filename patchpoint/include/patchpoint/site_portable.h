/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sites as plain loads, tests and indirect calls: any architecture. Include patchpoint.h, not this file. */
#ifndef PATCHPOINT_SITE_PORTABLE_H
#define PATCHPOINT_SITE_PORTABLE_H

/* Acquire: what was written before a change of the key is visible to who sees the change (free on x86 and cheap elsewhere). */
#define PATCHPOINT__SLOT(key) __atomic_load_n(&patchpoint_key_##key.slot, __ATOMIC_ACQUIRE)

#define PATCHPOINT__SITES_CALL(key, n, form, result, parameters, arguments) \
	PATCHPOINT__INLINE result patchpoint_call_##key parameters \
	{ \
		PATCHPOINT__OP(key); \
		PATCHPOINT__RETURN_##form(__extension__(patchpoint_function_##key) PATCHPOINT__SLOT(key)) arguments; \
	} \
	PATCHPOINT__INLINE result patchpoint_call_saved_##key parameters \
	{ \
		PATCHPOINT__RETURN_##form patchpoint_call_##key arguments; \
	}
#define PATCHPOINT__RETURN_value return
#define PATCHPOINT__RETURN_void

#define PATCHPOINT__SITES_VALUE(key, type) \
	PATCHPOINT__INLINE type patchpoint_value_##key(void) \
	{ \
		PATCHPOINT__OP(key); \
		return (type)(uintptr_t)PATCHPOINT__SLOT(key); \
	}

#define PATCHPOINT__SITES_BRANCH(key) \
	PATCHPOINT__INLINE bool patchpoint_likely_##key(void) \
	{ \
		PATCHPOINT__OP(key); \
		return __builtin_expect(PATCHPOINT__SLOT(key) != NULL, 1); \
	} \
	PATCHPOINT__INLINE bool patchpoint_unlikely_##key(void) \
	{ \
		PATCHPOINT__OP(key); \
		return __builtin_expect(PATCHPOINT__SLOT(key) != NULL, 0); \
	}

/* Nothing to register: there are no sites. */
#define PATCHPOINT__OBJECT(key)
#define PATCHPOINT_DEFINE_SAVED(key) PATCHPOINT__KEY(key)

#endif
