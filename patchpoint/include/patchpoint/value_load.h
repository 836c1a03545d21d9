/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Values as loads of their keys, where no site holds a value. Include patchpoint.h, not this file. */
#ifndef PATCHPOINT_VALUE_LOAD_H
#define PATCHPOINT_VALUE_LOAD_H

/* Acquire: a thread that sees a change of the key sees what was written before it (free on x86, cheap elsewhere). */
#define PATCHPOINT__SLOT(lvalue) __atomic_load_n(&(lvalue).slot, __ATOMIC_ACQUIRE)

#define PATCHPOINT__SITES_VALUE(key, type, symbol, offset, lvalue) \
	PATCHPOINT__INLINE type patchpoint_value_##key(void) \
	{ \
		PATCHPOINT__OP(lvalue); \
		return PATCHPOINT__FROM_SLOT(type, PATCHPOINT__SLOT(lvalue)); \
	}

#endif
