/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fuzz target: any bytes as a function. With clang: -fsanitize=fuzzer,address,undefined. Without libFuzzer, -DFUZZ_ROUNDS=n makes a
 * program that tries n pseudo-random inputs from a fixed seed, with a bias to the bytes of trivial functions.
 */
#include "../src/arch/x86_64_recognise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct code {
	const uint8_t *bytes;
	size_t length;
};

static bool read_code(void *context, uint64_t address, uint8_t *byte)
{
	const struct code *code = context;

	if (address - 0x400000 >= code->length)
		return false;
	*byte = code->bytes[address - 0x400000];
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* For every kind of body, exactly one instruction of 6 bytes follows the mark, and it reads no stack and no %rip. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct code code = {bytes, length};
	struct code_source source = {read_code, &code, NULL};
	uint8_t body[X86_64_BODY_SIZE];
	struct instruction instruction;

	memset(body, 0xcc, sizeof body);
	if (x86_64_recognise(&source, 0x400000, body) == BODY_UNKNOWN)
		return 0;
	/* The whole body is a site, and the decoder knows no site. */
	code = (struct code){body, sizeof body};
	if (x86_64_decode(&source, 0x400000, &instruction))
		abort();
	code = (struct code){body + 1, sizeof body - 1};
	if (body[0] != X86_64_MARK || !x86_64_decode(&source, 0x400000, &instruction) || instruction.length != sizeof body - 1 ||
	    instruction.rip || instruction.base == RSP || instruction.base == RBP || instruction.rm == RSP)
		abort();
	return 0;
}

#ifdef FUZZ_ROUNDS
int main(void)
{
	static const uint8_t likely[] = {0xc3, 0x48, 0x89, 0x8b, 0xf8, 0x55, 0x5d, 0xe5, 0xc7, 0xc0, 0x31, 0xff, 0x0f, 0x1f, 0x44,
					 0x00, 0x66, 0x2e, 0x8d, 0x04, 0x37, 0xe8, 0x05, 0xc9, 0x83, 0xec, 0x08, 0xb8, 0x07, 0x24};
	uint64_t state = 1;
	uint8_t bytes[24];

	for (long round = 0; round < FUZZ_ROUNDS; round++) {
		for (size_t i = 0; i < sizeof bytes; i++) {
			/* xorshift64 (Marsaglia 2003) */
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			bytes[i] = state & 0x700 ? likely[(state >> 16) % sizeof likely] : (uint8_t)(state >> 24);
		}
		LLVMFuzzerTestOneInput(bytes, sizeof bytes);
	}
	return 0;
}
#endif
