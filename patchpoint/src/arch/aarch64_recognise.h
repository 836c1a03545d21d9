/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Recognises functions that do nothing that a caller sees, for which a site holds NOP. */
#ifndef PATCHPOINT_AARCH64_RECOGNISE_H
#define PATCHPOINT_AARCH64_RECOGNISE_H

#include "../private_names.h"

#include <stdbool.h>
#include <stdint.h>

/* Reads the byte of code at an address; false if there is none. NULL: the process's own code. */
typedef bool (*aarch64_reader)(void *context, uint64_t address, uint8_t *byte);

/* Reads the instruction at an address. False if there is none. */
__attribute__((visibility("hidden"))) bool aarch64_read(aarch64_reader read, void *context, uint64_t address,
							uint32_t *instruction);

/*
 * Whether the function at `entry` returns with %x0 and the callee-saved registers as they were and touches no memory but its own
 * frame: it is empty, or returns its first argument. This follows the function in a straight line to its return. B, BL, NOP and BRK
 * end the attempt, wherever they lead: each may be a site, of this or another copy of the library, and hold another instruction
 * later. The result depends only on the bytes that `read` gives.
 */
__attribute__((visibility("hidden"))) bool aarch64_does_nothing(aarch64_reader read, void *context, uint64_t entry);

#endif
