/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Values as loads of their keys, where no site holds a value. Include patchpoint.h, not this file. */
#ifndef PATCHPOINT_VALUE_LOAD_H
#define PATCHPOINT_VALUE_LOAD_H

/* Acquire: what was written before a change of the key is visible to who sees the change (free on x86 and cheap elsewhere). */
#define PATCHPOINT__SLOT(lvalue) __atomic_load_n(&(lvalue).slot, __ATOMIC_ACQUIRE)

#define PATCHPOINT__SITES_VALUE(key, type, symbol, offset, lvalue) \
	PATCHPOINT__INLINE type patchpoint_value_##key(void) \
	{ \
		PATCHPOINT__OP(lvalue); \
		return PATCHPOINT__FROM_SLOT(type, PATCHPOINT__SLOT(lvalue)); \
	}

#endif
