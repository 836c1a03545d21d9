/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tests the recogniser of aarch64 code by the instruction: what it must recognise, and what it must not. Runs anywhere. */
#include "../src/arch/aarch64_recognise.h"
#include "check.h"

#include <string.h>

struct code {
	uint32_t words[16];
	size_t length;
};

/* The code lies at address 0x1000, in the byte order of instructions. */
static bool read_code(void *context, uint64_t address, uint8_t *byte)
{
	const struct code *code = context;

	if (address < 0x1000 || address - 0x1000 >= code->length)
		return false;
	*byte = (uint8_t)(code->words[(address - 0x1000) / 4] >> (8 * (address & 3)));
	return true;
}

static void check(const char *name, const char *hex, bool wanted)
{
	struct code code = {{0}, 0};
	int used;

	for (; sscanf(hex, " %8" SCNx32 "%n", &code.words[code.length / 4], &used) == 1; hex += used)
		code.length += 4;
	if (aarch64_does_nothing(read_code, &code, 0x1000) != wanted) {
		fprintf(stderr, "%s: %s\n", name, wanted ? "not recognised" : "taken for nothing");
		exit(1);
	}
	/* Code that is cut off anywhere is never taken for nothing: its return is missing. */
	for (size_t length = code.length; wanted && length-- > 0;) {
		code.length = length;
		CHECK(!aarch64_does_nothing(read_code, &code, 0x1000));
	}
}

int main(void)
{
	check("ret", "d65f03c0", true);
	check("landing pad", "d503245f d65f03c0", true);
	check("frame record", "a9bf7bfd 910003fd a8c17bfd d65f03c0", true);
	check("frame with a landing pad", "d503245f a9be7bfd 910003fd f9000fe0 f9400fe0 a8c27bfd d65f03c0", true);
	check("-O0: argument through the stack", "d10043ff f90007e0 f94007e0 910043ff d65f03c0", true);
	check("-O0: arguments that are not used", "d10043ff f90007e0 b90007e1 910043ff d65f03c0", true);
	check("signed return address", "d503233f a9bf7bfd 910003fd a8c17bfd d50323bf d65f03c0", true);
	check("signed, key B", "d503237f a9bf7bfd a8c17bfd d50323ff d65f03c0", true);
	check("signed, retaa", "d503233f a9bf7bfd a8c17bfd d65f0bff", true);
	check("argument there and back", "aa0003e9 aa0903e0 d65f03c0", true);
	check("callee's registers saved", "a9be7bfd a90153f3 aa0103f3 aa0203f4 a94153f3 a8c27bfd d65f03c0", true);
	check("lost registers", "528000a1 92800011 d65f03c0", true);
	check("byte on the stack", "d10043ff 39003fe1 910043ff d65f03c0", true);
	check("large frame", "d14007ff 914007ff d65f03c0", true);

	check("constant", "528000a0 d65f03c0", false);
	check("zero", "d2800000 d65f03c0", false);
	check("second argument", "aa0103e0 d65f03c0", false);
	check("low half of the argument", "2a0003e0 d65f03c0", false);
	check("low half through the stack", "d10043ff b9000fe0 b9400fe0 910043ff d65f03c0", false);
	check("another word of the stack", "d10043ff f90007e0 f94003e0 910043ff d65f03c0", false);
	check("word overwritten by a byte", "d10043ff f90007e0 39002be1 f94007e0 910043ff d65f03c0", false);
	check("sum", "8b010000 d65f03c0", false);
	check("one more", "91000400 d65f03c0", false);
	check("load", "f9400000 d65f03c0", false);
	check("load that is dropped", "f9400001 d65f03c0", false);
	check("store", "f9000001 d65f03c0", false);
	check("store above the frame", "f90007e1 d65f03c0", false);
	check("store below the stack", "f81f83e1 d65f03c0", false);
	check("stack not restored", "d10043ff d65f03c0", false);
	check("frame pointer not restored", "a9bf7bfd 910003fd 910043ff d65f03c0", false);
	check("saved registers exchanged", "a9bf7bfd a8c177fe d65f03c0", false);
	check("callee's register lost", "aa0103f3 d65f03c0", false);
	check("link register lost", "aa0103fe d65f03c0", false);
	check("signed, not authenticated", "d503233f d65f03c0", false);
	check("signed and authenticated elsewhere", "d503233f d10043ff d50323bf 910043ff d65f03c0", false);
	check("signed with another key", "d503233f d50323ff d65f03c0", false);
	check("authenticated, not signed", "d50323bf d65f03c0", false);
	check("returns elsewhere", "d65f0020", false);
	check("jump elsewhere", "d61f0200", false);
	check("conditional", "b4000040 d65f03c0 d65f03c0", false);
	check("no return", "528000a1", false);
	check("barrier", "d5033bbf d65f03c0", false);
	check("yield", "d503203f d65f03c0", false);
	check("floating point", "1e604020 d65f03c0", false);
	check("vector register saved", "6dbf27e8 6cc127e8 d65f03c0", false);
	check("moved part of a register", "f2800021 d65f03c0", false);
	check("shadow call stack", "f800865e f85f8e5e d65f03c0", false);
	check("pointer through the stack", "d10043ff 910003e1 f9000020 f9400420 910043ff d65f03c0", false);
	check("base that moves behind a store", "d10083ff f80107e0 910043ff d65f03c0", false);
	check("exclusive", "c8017c40 d65f03c0", false);

	/* Instructions that a site may hold, whatever they do now. */
	check("site: nop", "d503201f d65f03c0", false);
	check("site: call of nothing", "a9bf7bfd 94000003 a8c17bfd d65f03c0 d65f03c0", false);
	check("site: branch to the next instruction", "14000001 d65f03c0", false);
	check("jump to a function that does nothing", "14000002 d65f03c0 d65f03c0", false);
	check("site: trap", "d4207d00 d65f03c0", false);
	check("breakpoint", "d4200000 d65f03c0", false);
	check("nothing", "", false);
	return 0;
}
