/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A decoder for the few x86-64 instructions that trivial functions are made of. It refuses all others. */
#ifndef PATCHPOINT_X86_64_DECODE_H
#define PATCHPOINT_X86_64_DECODE_H

#include "../private_names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R15 = 15, NO_REGISTER = 255 };

/* The source of the code to decode. */
struct code_source {
	bool (*read)(void *context, uint64_t address, uint8_t *byte); /* false if there is none; NULL: the process's own code */
	void *context;
	bool (*constant)(uint64_t address, size_t length); /* whether memory never changes; NULL: unknown */
};

/* The first byte of most sites: a REX prefix without effect. */
enum { X86_64_MARK = 0x40 };

struct instruction {
	uint8_t bytes[15];
	uint8_t length;
	uint8_t prefixes; /* PREFIX_… */
	uint8_t rex;
	uint16_t opcode; /* 0x0f00 is added for the two-byte map */
	bool has_modrm;
	uint8_t reg;   /* the register operand, or the opcode's extension */
	uint8_t rm;    /* the other register; NO_REGISTER when in memory */
	uint8_t base;  /* of a memory operand; NO_REGISTER when %rip or none */
	uint8_t index; /* NO_REGISTER when none */
	bool rip;
	int32_t displacement;
	uint64_t immediate; /* sign-extended */
};

enum { PREFIX_16 = 1, PREFIX_REP = 2, PREFIX_REPNE = 4, PREFIX_OTHER = 8, PREFIX_ADDRESS = 16 };

/*
 * Decodes the instruction at `address` into *instruction. Returns false for an instruction it does not know. It knows no site in
 * any form, of any copy of the library, because what a site does changes.
 */
__attribute__((visibility("hidden"))) bool x86_64_decode(const struct code_source *source, uint64_t address, struct instruction *instruction);

#endif
