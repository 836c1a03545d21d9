/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Recognises functions that a single instruction can replace. */
#ifndef PATCHPOINT_X86_64_RECOGNISE_H
#define PATCHPOINT_X86_64_RECOGNISE_H

#include "x86_64_decode.h"

enum body_kind {
	BODY_UNKNOWN = 0, /* or in doubt */
	BODY_NOTHING,
	BODY_MOVE,        /* returns an argument, all 64 bits or the low 32, zero-extended */
	BODY_CONSTANT,
	BODY_INSTRUCTION, /* one instruction that computes %rax from arguments, or stores through an argument */
};

/*
 * Reads the function at `entry` and follows it to its return, through endbr64, nops, frame pointers, traffic with its own stack
 * frame, calls of functions that do nothing, and return thunks. The result depends only on the bytes that `source` gives. `body`
 * receives the form of a site that does the same in one instruction, unless the result is BODY_UNKNOWN.
 */
enum { X86_64_BODY_SIZE = 7 };
__attribute__((visibility("hidden"))) enum body_kind x86_64_recognise(const struct code_source *source, uint64_t entry, uint8_t body[X86_64_BODY_SIZE]);

#endif
