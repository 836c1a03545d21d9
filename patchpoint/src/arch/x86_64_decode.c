/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The encoding of instructions is in Intel SDM vol. 2, chapter 2 and appendix A. */
#include "x86_64_decode.h"

#include <string.h>

struct cursor {
	const struct code_source *source;
	uint64_t address;
	struct instruction *instruction;
	bool failed;
};

static bool read_byte(const struct code_source *source, uint64_t address, uint8_t *byte)
{
	if (source->read)
		return source->read(source->context, address, byte);
	/* Code that a process executes exists: this reads a byte only if the instruction before leads to it. */
	*byte = *(const volatile uint8_t *)(uintptr_t)address;
	return true;
}

static uint8_t next(struct cursor *cursor)
{
	struct instruction *instruction = cursor->instruction;
	uint8_t byte = 0;

	if (instruction->length >= sizeof instruction->bytes ||
	    !read_byte(cursor->source, cursor->address + instruction->length, &byte)) {
		cursor->failed = true;
		return 0;
	}
	instruction->bytes[instruction->length++] = byte;
	return byte;
}

/* Reads a little-endian integer of 1, 4 or 8 bytes, sign-extended; 0 bytes give 0. */
static uint64_t next_integer(struct cursor *cursor, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)next(cursor) << (8 * i);
	if (bytes > 0 && bytes < 8 && value >> (8 * bytes - 1))
		value |= ~UINT64_C(0) << (8 * bytes);
	return value;
}

static uint8_t next_prefixes(struct cursor *cursor)
{
	struct instruction *instruction = cursor->instruction;

	for (;;) {
		uint8_t byte = next(cursor);

		switch (byte) {
		case 0x66:
			instruction->prefixes |= PREFIX_16;
			break;
		case 0xf3:
			instruction->prefixes |= PREFIX_REP;
			break;
		case 0xf2:
			instruction->prefixes |= PREFIX_REPNE;
			break;
		case 0x2e:
		case 0x3e:
			/* Segments without meaning in 64-bit mode, where they are hints. */
			break;
		case 0x67:
			instruction->prefixes |= PREFIX_ADDRESS;
			break;
		case 0x26:
		case 0x36:
		case 0x64:
		case 0x65:
		case 0xf0:
			instruction->prefixes |= PREFIX_OTHER;
			break;
		default:
			/* A REX prefix counts only right before the opcode. */
			if (byte >> 4 != 4)
				return byte;
			instruction->rex = byte;
			return next(cursor);
		}
		if (cursor->failed)
			return 0;
	}
}

static void next_modrm(struct cursor *cursor)
{
	struct instruction *instruction = cursor->instruction;
	uint8_t modrm = next(cursor), mod = modrm >> 6, low = modrm & 7;
	uint8_t r = (instruction->rex & 4) << 1, x = (instruction->rex & 2) << 2, b = (instruction->rex & 1) << 3;

	instruction->has_modrm = true;
	instruction->reg = (modrm >> 3 & 7) | r;
	if (mod == 3) {
		instruction->rm = low | b;
		return;
	}
	instruction->base = low | b;
	if (low == 4) {
		uint8_t sib = next(cursor);

		instruction->base = (sib & 7) | b;
		instruction->index = (sib >> 3 & 7) | x;
		if (instruction->index == RSP)
			instruction->index = NO_REGISTER;
		if ((sib & 7) == 5 && mod == 0) {
			instruction->base = NO_REGISTER;
			mod = 2;
		}
	} else if (low == 5 && mod == 0) {
		instruction->base = NO_REGISTER;
		instruction->rip = true;
		mod = 2;
	}
	if (mod != 0)
		instruction->displacement = (int32_t)next_integer(cursor, mod == 1 ? 1 : 4);
}

/* Returns how many bytes of immediate an opcode has, and in *modrm whether a ModRM byte precedes them. -1: not decoded here. */
static int shape(const struct instruction *instruction, bool *modrm)
{
	uint16_t opcode = instruction->opcode;
	bool wide = instruction->rex & 8, narrow = instruction->prefixes & PREFIX_16;

	*modrm = true;
	switch (opcode) {
	case 0x29: case 0x2b: case 0x31: case 0x33: case 0x63: case 0x88: case 0x89: case 0x8a: case 0x8b: case 0x8d:
	case 0xff: case 0x0f1e: case 0x0f1f: case 0x0fb6: case 0x0fb7: case 0x0fbe: case 0x0fbf:
		return 0;
	case 0x83: case 0xc6:
		return 1;
	case 0x81: case 0xc7:
		return narrow ? -1 : 4;
	default:
		break;
	}
	*modrm = false;
	if (opcode >= 0x50 && opcode <= 0x5f)
		return 0;
	if (opcode >= 0xb8 && opcode <= 0xbf)
		return narrow ? -1 : wide ? 8 : 4;
	switch (opcode) {
	case 0x90: case 0xc3: case 0xc9:
		return 0;
	case 0xeb:
		return 1;
	case 0xe8: case 0xe9:
		return 4;
	default:
		return -1;
	}
}

/* Whether an instruction works on bytes. An empty REX then tells %sil from %dh; no site begins with such an instruction. */
static bool is_of_bytes(uint16_t opcode)
{
	return opcode == 0x88 || opcode == 0x8a || opcode == 0x0fb6 || opcode == 0x0fbe;
}

bool x86_64_decode(const struct code_source *source, uint64_t address, struct instruction *instruction)
{
	struct cursor cursor = {source, address, instruction, false};
	bool modrm;
	int immediate;

	memset(instruction, 0, sizeof *instruction);
	instruction->rm = instruction->base = instruction->index = NO_REGISTER;
	instruction->opcode = next_prefixes(&cursor);
	if (instruction->opcode == 0x0f)
		instruction->opcode = 0x0f00 | next(&cursor);
	immediate = shape(instruction, &modrm);
	if (cursor.failed || immediate < 0)
		return false;
	if (instruction->rex == X86_64_MARK && !is_of_bytes(instruction->opcode))
		return false;
	if (modrm)
		next_modrm(&cursor);
	instruction->immediate = next_integer(&cursor, (unsigned)immediate);
	return !cursor.failed;
}
