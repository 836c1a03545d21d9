/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Recognises the functions of bodies.c. Argument: "optimised" if single instructions must be recognised, too. */
#include "../src/internal.h"

#include "../src/arch/x86_64_recognise.h"
#include "check.h"

#include <string.h>

/* The entry hook of -mfentry and the return thunk of -mfunction-return=thunk-extern. */
__asm__(".text\n\t"
	".globl __fentry__\n"
	"__fentry__:\n\t"
	"ret\n\t"
	".globl __x86_return_thunk\n"
	"__x86_return_thunk:\n\t"
	"ret\n\t"
	"int3\n");

enum need { ALWAYS, OPTIMISED, NEVER };

#define BODIES(X) \
	X(nothing, BODY_NOTHING, ALWAYS) \
	X(nothing_of, BODY_NOTHING, ALWAYS) \
	X(identity, BODY_MOVE, ALWAYS) \
	X(identity_32, BODY_MOVE, ALWAYS) \
	X(identity_pointer, BODY_MOVE, ALWAYS) \
	X(second, BODY_MOVE, ALWAYS) \
	X(zero, BODY_CONSTANT, ALWAYS) \
	X(five, BODY_CONSTANT, ALWAYS) \
	X(minus_one, BODY_CONSTANT, ALWAYS) \
	X(big, BODY_UNKNOWN, NEVER) \
	X(plus_one, BODY_INSTRUCTION, OPTIMISED) \
	X(widen, BODY_INSTRUCTION, OPTIMISED) \
	X(load, BODY_INSTRUCTION, OPTIMISED) \
	X(store, BODY_INSTRUCTION, OPTIMISED) \
	X(sum, BODY_INSTRUCTION, OPTIMISED) \
	X(conditional, BODY_UNKNOWN, NEVER) \
	X(global, BODY_UNKNOWN, NEVER) \
	X(set_global, BODY_UNKNOWN, NEVER) \
	X(two_loads, BODY_UNKNOWN, NEVER) \
	X(not, BODY_UNKNOWN, NEVER) \
	X(calls, BODY_UNKNOWN, NEVER)

#define DECLARE(name, kind, need) void body_##name(void);
BODIES(DECLARE)

int main(int count, char **arguments)
{
	bool optimised = count > 1 && strcmp(arguments[1], "optimised") == 0;
	const struct code_source own = {NULL, NULL, memory_is_constant};
	uint8_t body[X86_64_BODY_SIZE];
	int failed = 0;

#define RECOGNISE(name, kind, need) \
	{ \
		enum body_kind found = x86_64_recognise(&own, (uint64_t)(uintptr_t)body_##name, body); \
		if (found != (kind) && !((need) == OPTIMISED && !optimised && found == BODY_UNKNOWN)) { \
			fprintf(stderr, "%s: kind %d, wanted %d\n", #name, found, kind); \
			failed = 1; \
		} \
	}
	BODIES(RECOGNISE)
	return failed;
}
