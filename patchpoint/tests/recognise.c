/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tests the recogniser on machine code, byte by byte: what it must recognise, and what it must not take for simpler code. */
#include "../src/arch/x86_64_recognise.h"
#include "check.h"

#include <string.h>

struct code {
	const uint8_t *bytes;
	size_t length;
};

/* The code lies at address 0x1000. */
static bool read_code(void *context, uint64_t address, uint8_t *byte)
{
	const struct code *code = context;

	if (address < 0x1000 || address - 0x1000 >= code->length)
		return false;
	*byte = code->bytes[address - 0x1000];
	return true;
}

static size_t from_hex(const char *hex, uint8_t *bytes)
{
	size_t length = 0;
	int used;
	unsigned byte;

	for (; sscanf(hex, " %2x%n", &byte, &used) == 1; hex += used)
		bytes[length++] = (uint8_t)byte;
	return length;
}

static void check(const char *name, const char *hex, enum body_kind kind, const char *body_hex)
{
	uint8_t bytes[256], body[X86_64_BODY_SIZE], wanted[8] = {X86_64_MARK};
	struct code code = {bytes, from_hex(hex, bytes)};
	struct code_source source = {read_code, &code, NULL};
	enum body_kind found = x86_64_recognise(&source, 0x1000, body);

	if (found != kind ||
	    (kind != BODY_UNKNOWN && (from_hex(body_hex, wanted + 1) != 6 || memcmp(body, wanted, sizeof body) != 0))) {
		fprintf(stderr, "%s: kind %d, wanted %d; body", name, found, kind);
		for (size_t i = 0; i < sizeof body; i++)
			fprintf(stderr, " %02x", body[i]);
		fprintf(stderr, ", wanted %s\n", body_hex);
		exit(1);
	}
	/* Code that is cut off anywhere is never taken for something else. */
	for (size_t length = 0; length < code.length; length++) {
		struct code cut = {bytes, length};

		source.context = &cut;
		found = x86_64_recognise(&source, 0x1000, body);
		CHECK(found == BODY_UNKNOWN || found == kind);
	}
}

/* The bytes behind the mark. */
#define NOP "66 0f 1f 44 00 00"
#define MOVE_64 "2e 2e 2e 48 89 f8"
#define MOVE_32 "2e 2e 2e 2e 89 f8"

int main(void)
{
	check("ret", "c3", BODY_NOTHING, NOP);
	check("rep ret", "f3 c3", BODY_NOTHING, NOP);
	check("endbr64; ret", "f3 0f 1e fa c3", BODY_NOTHING, NOP);
	check("frame pointer", "55 48 89 e5 5d c3", BODY_NOTHING, NOP);
	check("frame pointer, leave", "55 48 89 e5 48 83 ec 10 c9 c3", BODY_NOTHING, NOP);
	check("fentry nop", "0f 1f 44 00 00 f3 0f 1e fa c3", BODY_NOTHING, NOP);
	check("long nops", "66 2e 0f 1f 84 00 00 00 00 00 66 90 90 c3", BODY_NOTHING, NOP);
	check("call of a function that does nothing", "e8 01 00 00 00 c3 c3", BODY_NOTHING, NOP);
	check("fentry that clobbers the argument", "e8 04 00 00 00 48 89 f8 c3 31 ff c3", BODY_CONSTANT, "c7 c0 00 00 00 00");
	check("jump to a return thunk", "e9 00 00 00 00 c3 cc", BODY_NOTHING, NOP);
	check("retpoline-like return", "e8 02 00 00 00 f3 90 48 8d 64 24 08 c3", BODY_NOTHING, NOP);
	check("mov %rdi,%rax", "48 89 f8 c3", BODY_MOVE, MOVE_64);
	check("mov %rdi,%rax, load form", "48 8b c7 c3", BODY_MOVE, MOVE_64);
	check("mov %edi,%eax", "89 f8 c3", BODY_MOVE, MOVE_32);
	check("mov %rsi,%rax", "48 89 f0 c3", BODY_MOVE, "2e 2e 2e 48 89 f0");
	check("mov %r8,%rax", "4c 89 c0 c3", BODY_MOVE, "2e 2e 2e 4c 89 c0");
	check("mov %r9d,%eax", "44 89 c8 c3", BODY_MOVE, "2e 2e 2e 44 89 c8");
	check("through the stack", "55 48 89 e5 48 89 7d f8 48 8b 45 f8 5d c3", BODY_MOVE, MOVE_64);
	check("half through the stack", "55 48 89 e5 89 7d fc 8b 45 fc 5d c3", BODY_MOVE, MOVE_32);
	check("low half of a stored word", "48 89 7c 24 f8 8b 44 24 f8 c3", BODY_MOVE, MOVE_32);
	check("identity, then registers cleared", "48 89 f8 31 ff 31 d2 c3", BODY_MOVE, MOVE_64);
	check("xor %eax,%eax", "31 c0 c3", BODY_CONSTANT, "c7 c0 00 00 00 00");
	check("mov $5,%eax", "b8 05 00 00 00 c3", BODY_CONSTANT, "c7 c0 05 00 00 00");
	check("mov $-1,%eax", "b8 ff ff ff ff c3", BODY_CONSTANT, "c7 c0 ff ff ff ff");
	check("mov $-1,%rax", "48 c7 c0 ff ff ff ff c3", BODY_CONSTANT, "2e 2e 48 83 c8 ff");
	check("lea (%rdi,%rsi),%rax", "48 8d 04 37 c3", BODY_INSTRUCTION, "2e 2e 48 8d 04 37");
	check("mov (%rdi),%eax", "8b 07 c3", BODY_INSTRUCTION, "2e 2e 2e 2e 8b 07");
	check("movzbl %dil,%eax", "40 0f b6 c7 c3", BODY_INSTRUCTION, "2e 2e 40 0f b6 c7");
	check("movb $0,(%rdi)", "c6 07 00 c3", BODY_INSTRUCTION, "2e 2e 2e c6 07 00");
	check("mov %rsi,(%rdi)", "48 89 37 c3", BODY_INSTRUCTION, "2e 2e 2e 48 89 37");

	check("or $-1,%eax", "83 c8 ff c3", BODY_CONSTANT, "c7 c0 ff ff ff ff");
	check("and $0,(%rdi)", "83 27 00 c3", BODY_INSTRUCTION, "2e 2e 2e 83 27 00");
	check("addr32 call of a function that does nothing", "67 e8 01 00 00 00 c3 c3", BODY_NOTHING, NOP);

	check("adc $0,(%rdi)", "83 17 00 c3", BODY_UNKNOWN, "");
	check("or $-1,%rsp", "48 83 cc ff c3", BODY_UNKNOWN, "");
	check("or $1,%eax", "83 c8 01 c3", BODY_UNKNOWN, "");
	check("address prefix on a move", "67 89 f8 c3", BODY_UNKNOWN, "");
	check("empty", "", BODY_UNKNOWN, "");
	check("64-bit constant", "48 b8 00 00 00 00 01 00 00 00 c3", BODY_UNKNOWN, "");
	check("sign extension of a constant", "48 c7 c0 fe ff ff ff c3", BODY_UNKNOWN, "");
	check("mov %rdi,%rbx", "48 89 fb c3", BODY_UNKNOWN, "");
	check("stack not restored", "55 c3", BODY_UNKNOWN, "");
	check("pop into a saved register", "55 53 5d 5b c3", BODY_UNKNOWN, "");
	check("store above the frame", "48 89 7c 24 08 c3", BODY_UNKNOWN, "");
	check("return address read, dropped", "48 8b 04 24 31 c0 c3", BODY_CONSTANT, "c7 c0 00 00 00 00");
	check("load far above the frame, dropped", "48 8b 84 24 00 00 00 40 31 c0 c3", BODY_UNKNOWN, "");
	check("load far below the frame, dropped", "48 8b 84 24 00 00 00 c0 31 c0 c3", BODY_UNKNOWN, "");
	check("return address overwritten", "48 89 3c 24 c3", BODY_UNKNOWN, "");
	check("%rip-relative load", "8b 05 00 00 00 00 c3", BODY_UNKNOWN, "");
	check("%fs", "64 8b 07 c3", BODY_UNKNOWN, "");
	check("locked store", "f0 48 89 37 c3", BODY_UNKNOWN, "");
	check("two stores", "c6 07 00 c6 06 00 c3", BODY_UNKNOWN, "");
	check("load that is dropped", "8b 07 31 c0 c3", BODY_UNKNOWN, "");
	check("load, then a store", "8b 07 89 06 c3", BODY_UNKNOWN, "");
	check("store of a cleared register", "31 f6 89 37 c3", BODY_UNKNOWN, "");
	check("pause", "f3 90 c3", BODY_UNKNOWN, "");
	check("xchg %rax,%r8", "49 90 c3", BODY_UNKNOWN, "");
	check("mov %ah,(%rdi)", "88 27 c3", BODY_UNKNOWN, "");
	check("movzbl %ah,%eax", "0f b6 c4 c3", BODY_UNKNOWN, "");
	check("16-bit return", "66 c3", BODY_UNKNOWN, "");
	check("16-bit nop", "66 90 c3", BODY_NOTHING, NOP);
	check("breakpoint", "cc c3", BODY_UNKNOWN, "");
	check("rdsspq", "f3 48 0f 1e c8 c3", BODY_UNKNOWN, "");
	check("jump to itself", "eb fe", BODY_UNKNOWN, "");
	check("call of itself", "e8 fb ff ff ff c3", BODY_UNKNOWN, "");
	check("tail call out of sight", "e9 00 10 00 00", BODY_UNKNOWN, "");
	check("add", "48 8d 47 01 48 83 c0 01 c3", BODY_UNKNOWN, "");
	check("16-bit move", "66 89 f8 c3", BODY_UNKNOWN, "");
	check("long instruction", "48 c7 07 00 00 00 00 c3", BODY_UNKNOWN, "");
	check("conditional", "48 85 ff 74 00 c3", BODY_UNKNOWN, "");

	/* Sites, as compiled and patched: what they do may change. */
	check("call of nothing", "40 67 e8 01 00 00 00 c3 c3", BODY_UNKNOWN, "");
	check("call as compiled", "40 ff 15 02 00 00 00 c3 c3 00 10 00 00 00 00 00 00", BODY_UNKNOWN, "");
	check("nop of a call", "40 66 0f 1f 44 00 00 c3", BODY_UNKNOWN, "");
	check("constant of a call", "40 c7 c0 05 00 00 00 c3", BODY_UNKNOWN, "");
	check("move of a call", "40 2e 2e 2e 48 89 f8 c3", BODY_UNKNOWN, "");
	check("instruction of a call", "40 2e 2e 48 8d 04 37 c3", BODY_UNKNOWN, "");
	check("load of a call", "40 8b 87 00 01 00 00 c3", BODY_UNKNOWN, "");
	check("byte of a call", "40 2e 2e 40 0f b6 c7 c3", BODY_UNKNOWN, "");
	check("nop of a branch", "40 0f 1f 44 00 00 c3", BODY_UNKNOWN, "");
	check("jump of a branch", "40 e9 00 00 00 00 c3", BODY_UNKNOWN, "");
	check("value", "40 c7 c0 2a 00 00 00 c3", BODY_UNKNOWN, "");
	check("value of 8 bytes", "66 48 b8 01 00 00 00 00 00 00 00 c3", BODY_UNKNOWN, "");
	check("value of 8 bytes as compiled", "66 66 66 66 48 8b 05 00 00 00 00 c3", BODY_UNKNOWN, "");
	/* A slot in memory that may change. */
	check("call through a slot", "ff 15 02 00 00 00 c3 c3 07 10 00 00 00 00 00 00", BODY_UNKNOWN, "");
	/* Directly behind the mark: another REX prefix, or a store of a byte, whose register the mark would change. */
	check("6 bytes with REX", "48 0f b6 44 37 08 c3", BODY_UNKNOWN, "");
	check("6 bytes without REX", "8b 87 00 01 00 00 c3", BODY_INSTRUCTION, "8b 87 00 01 00 00");
	check("store of a byte in 6", "88 8f 00 01 00 00 c3", BODY_UNKNOWN, "");
	check("store of a byte in 3", "88 4f 01 c3", BODY_INSTRUCTION, "2e 2e 2e 88 4f 01");
	return 0;
}
