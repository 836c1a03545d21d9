/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The instructions of aarch64 sites: B, BL, NOP and BRK, which one store exchanges for each other. */
#define _GNU_SOURCE
#include "../internal.h"
#include "aarch64_recognise.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

const bool arch_can_patch = true;
const bool arch_one_store = true;
/* No breakpoint is ever written; this byte fills memory that is no code: udf #0. */
const unsigned char arch_trap = 0;
/* adrp, add, ldarb come first; then cmp, b.ne, b for each way of a switch but 0, and less for a branch. */
enum { TESTS_OFFSET = 12, TEST_SIZE = 12 };
const size_t arch_tests_offset = TESTS_OFFSET, arch_test_size = TEST_SIZE;

__asm__(".pushsection .text.patchpoint_probe,\"ax\",@progbits\n\t"
	".globl patchpoint__arch_probe_text\n\t"
	".hidden patchpoint__arch_probe_text\n\t"
	".balign 64\n"
	"patchpoint__arch_probe_text:\n\t"
	"hint\t#34\n\t" /* bti c */
	"mov\tw0, #0x5a5a\n\t"
	"ret\n\t"
	".zero 64 - (. - patchpoint__arch_probe_text)\n\t"
	".popsection");
const size_t arch_probe_number = 4;

uint32_t arch_probe_run(const unsigned char *text)
{
	uint32_t (*function)(void);

	memcpy(&function, &text, sizeof function);
	return function();
}

/* movz %w0 has 16 bits of immediate. */
void arch_probe_bytes(uint32_t number, unsigned char bytes[4])
{
	const uint32_t instruction = 0x52800000 | (number & 0xffff) << 5;

	memcpy(bytes, &instruction, sizeof instruction);
}

/*
 * The client request RUNNING_ON_VALGRIND (valgrind.h): rotations that add up to nothing, a no-op without Valgrind. %x4 has the
 * arguments' address, %x3 the result.
 */
bool arch_under_valgrind(void)
{
	uint64_t arguments[6] = {0x1001, 0, 0, 0, 0, 0};
	register uint64_t result __asm__("x3") = 0;
	register const uint64_t *request __asm__("x4") = arguments;

	__asm__ volatile("ror\tx12, x12, #3\n\t"
			 "ror\tx12, x12, #13\n\t"
			 "ror\tx12, x12, #51\n\t"
			 "ror\tx12, x12, #61\n\t"
			 "orr\tx10, x10, x10"
			 : "+r"(result)
			 : "r"(request)
			 : "cc", "memory");
	return result != 0;
}

void arch_pause(void)
{
	__asm__ volatile("yield" : : : "memory");
}

/* No PATCHPOINT_CPU_… names a feature of this architecture. */
uint32_t arch_cpu_features(void)
{
	return 0;
}

void arch_serialise(void)
{
	__asm__ volatile("isb" : : : "memory");
}

/*
 * Cleans the data cache to the point of unification by the stored address and invalidates the instruction cache by the executed one
 * (Arm ARM, DDI 0487K.a, section B2.2.5; CTR_EL0 has the lengths of the lines). The kernel lets programs do so
 * (arch/arm64/include/asm/sysreg.h, SCTLR_ELx_UCI). It leaves out no step that CTR_EL0 calls unnecessary: some processors err
 * there.
 */
void arch_code_stored(const unsigned char *code, const unsigned char *alias, size_t length)
{
	uintptr_t start = (uintptr_t)code, data = (uintptr_t)alias;
	uint64_t type;
	uintptr_t line;

	__asm__("mrs\t%0, ctr_el0" : "=r"(type));
	line = (uintptr_t)4 << (type >> 16 & 15);
	for (uintptr_t at = data & ~(line - 1); at < data + length; at += line)
		__asm__ volatile("dc\tcvau, %0" : : "r"(at) : "memory");
	__asm__ volatile("dsb\tish" : : : "memory");
	line = (uintptr_t)4 << (type & 15);
	for (uintptr_t at = start & ~(line - 1); at < start + length; at += line)
		__asm__ volatile("ic\tivau, %0" : : "r"(at) : "memory");
	__asm__ volatile("dsb\tish\n\tisb" : : : "memory");
}

#ifndef HWCAP2_MOPS
#define HWCAP2_MOPS (UINT64_C(1) << 43)
#endif

/*
 * The kernel copies four aligned bytes by one store of a register (arch/arm64/lib/memcpy.S), unless it uses the processor's copy
 * instructions (FEAT_MOPS, Linux 6.13), which do not promise one store for four bytes.
 */
bool arch_kernel_stores_whole(void)
{
	return !(getauxval(AT_HWCAP2) & HWCAP2_MOPS);
}

enum { LENGTH = 4 };
static const uint32_t B = 0x14000000, BL = 0x94000000, BRANCH_MASK = 0xfc000000, NOP = 0xd503201f;
/* brk #1000 is gcc's __builtin_trap; debuggers and uprobes use other numbers. */
static const uint32_t BRK = 0xd4200000, BRK_MASK = 0xffe0001f, BRK_TRAP = 0xd4207d00;

static uint32_t instruction_of(const unsigned char *bytes)
{
	uint32_t instruction;

	memcpy(&instruction, bytes, sizeof instruction);
	return instruction;
}

static int put(uint32_t instruction, unsigned char *bytes)
{
	memcpy(bytes, &instruction, sizeof instruction);
	return 0;
}

/* Encodes a branch to `target`, which B and BL reach within 128 MiB. 0 or -ERANGE. */
static int put_branch(uint32_t kind, uint64_t code, uint64_t target, unsigned char *bytes)
{
	int64_t distance = (int64_t)(target - code);

	if (distance & 3 || distance < -(INT64_C(1) << 27) || distance >= INT64_C(1) << 27)
		return -ERANGE;
	return put(kind | ((uint32_t)(distance >> 2) & ~BRANCH_MASK), bytes);
}

static uint64_t branch_target(uint64_t code, uint32_t instruction)
{
	uint32_t words = instruction & ~BRANCH_MASK;

	return code + (((uint64_t)words << 2) ^ (UINT64_C(1) << 27)) - (UINT64_C(1) << 27);
}

/*
 * Finds where a site leads that does not fall through, in the code that tests its key: adrp, add, ldarb; then for a branch cbz or
 * cbnz over a b; for a switch, for each way but 0, cmp and b.ne over a b. A site that does not reach the target of that b leads to
 * the b itself. Returns 0 if the code is something else.
 */
static uint64_t other_side(patchpoint_reader read, void *context, const struct patchpoint_place *place, uint64_t way)
{
	const uint32_t skip = place->flags & PATCHPOINT_SITE_LIKELY ? 0x35000050 : 0x34000050;
	uint64_t test = place->aux + TESTS_OFFSET, target;
	uint32_t found, branch;
	unsigned char bytes[LENGTH];

	if (way < 1 || way >= PATCHPOINT_WAYS_MAX)
		return 0;
	if (place->kind == PATCHPOINT_BRANCH) {
		if (!aarch64_read(read, context, test, &found) || found != skip)
			return 0;
	} else {
		test += TEST_SIZE * (way - 1);
		if (!aarch64_read(read, context, test, &found) || found != (0x7100021f | (uint32_t)way << 10))
			return 0;
		test += 4;
		if (!aarch64_read(read, context, test, &found) || found != 0x54000041)
			return 0;
	}
	test += 4;
	if (!aarch64_read(read, context, test, &branch) || (branch & BRANCH_MASK) != B)
		return 0;
	target = branch_target(test, branch);
	return put_branch(B, place->code, target, bytes) == 0 ? target : test;
}

/* Whether a site has the length and alignment of a store that exchanges instructions. */
static bool is_site(const struct patchpoint_place *place)
{
	return place->length == LENGTH && place->code % LENGTH == 0;
}

int arch_compiled(patchpoint_reader read, void *context, const struct patchpoint_place *place, const unsigned char *now,
		  unsigned char *bytes)
{
	uint32_t kind = BL;

	(void)now;
	if (!is_site(place))
		return -EILSEQ;
	switch (place->kind) {
	case PATCHPOINT_CALL:
		break;
	case PATCHPOINT_BRANCH:
	case PATCHPOINT_SWITCH:
		if (!other_side(read, context, place, 1))
			return -EILSEQ;
		kind = B;
		break;
	default:
		return -EILSEQ;
	}
	return put_branch(kind, place->code, place->aux, bytes) == 0 ? 0 : -EILSEQ;
}

static int call_patched(const struct patchpoint_place *place, const struct patchpoint_state *state, unsigned char *bytes)
{
	switch (state->form) {
	case PATCHPOINT_FORM_INLINE:
		memcpy(bytes, state->body, LENGTH);
		return 0;
	case PATCHPOINT_FORM_DIRECT:
		/* The thunk is in reach as before, and its own call is patched. */
		if (place->flags & PATCHPOINT_SITE_SAVED)
			return put_branch(BL, place->code, place->aux, bytes) == 0 ? 0 : -EILSEQ;
		return put_branch(BL, place->code, state->value, bytes);
	default:
		return -EILSEQ;
	}
}

int arch_patched(patchpoint_reader read, void *context, const struct patchpoint_place *place, const unsigned char *now,
		 const struct patchpoint_state *state, unsigned char *bytes)
{
	uint64_t way = state->value, target;

	(void)now;
	if (!is_site(place))
		return -EILSEQ;
	switch (place->kind) {
	case PATCHPOINT_CALL:
		return call_patched(place, state, bytes);
	case PATCHPOINT_BRANCH:
		way = (way != 0) != (bool)(place->flags & PATCHPOINT_SITE_LIKELY);
		break;
	case PATCHPOINT_SWITCH:
		break;
	default:
		return -EILSEQ;
	}
	target = other_side(read, context, place, way ? way : 1);
	if (!target)
		return -EILSEQ;
	return way ? put_branch(B, place->code, target, bytes) : put(NOP, bytes);
}

bool arch_is_breakpoint(const unsigned char *now)
{
	uint32_t instruction = instruction_of(now);

	return (instruction & BRK_MASK) == BRK && instruction != BRK_TRAP;
}

bool arch_body(patchpoint_reader read, void *context, bool (*constant)(uint64_t address, size_t length), uint64_t function,
	       uint8_t body[PATCHPOINT_BODY_SIZE])
{
	(void)constant;
	memset(body, 0, PATCHPOINT_BODY_SIZE);
	/* patchpoint_null_trap is an address of this process. */
	if (!read && function == (uint64_t)(uintptr_t)patchpoint_null_trap)
		return put(BRK_TRAP, body) == 0;
	return aarch64_does_nothing(read, context, function) && put(NOP, body) == 0;
}

/*
 * ldr %x16 from behind the br; br %x16; the target. Only BL reaches a stub, so it needs no landing pad. Where branches are checked
 * its target has one, since sites as compiled go to the target by the same br.
 */
void arch_stub(unsigned char stub[STUB_SIZE], uint64_t target)
{
	put(0x58000050, stub);
	put(0xd61f0200, stub + 4);
	memcpy(stub + 8, &target, sizeof target);
}

uint64_t arch_stub_target(const unsigned char *stub)
{
	uint64_t target;

	memcpy(&target, stub + 8, sizeof target);
	return target;
}

bool arch_reaches(uintptr_t text_start, uintptr_t text_stop, uintptr_t page)
{
	const uintptr_t reach = (UINT64_C(1) << 27) - 65536;

	return page < text_start ? text_stop - page < reach : page - text_start < reach;
}

uint64_t arch_call_target(const struct patchpoint_place *place, const unsigned char *now)
{
	uint32_t instruction = instruction_of(now);

	if (place->kind != PATCHPOINT_CALL || place->length != LENGTH || (instruction & BRANCH_MASK) != BL)
		return 0;
	return branch_target(place->code, instruction);
}

const char *arch_word(const struct patchpoint_place *place, const unsigned char *now, const struct patchpoint_state *state)
{
	uint32_t instruction = instruction_of(now);

	(void)state;
	if (instruction == NOP)
		return "nop";
	if (instruction == BRK_TRAP)
		return "trap";
	return place->kind == PATCHPOINT_CALL ? "call" : "jump";
}

/* No breakpoint is written, so no handler is installed. */
unsigned char *arch_trap_address(const void *context)
{
	(void)context;
	return NULL;
}

bool arch_trap_is_gone(const unsigned char *address)
{
	(void)address;
	return false;
}

void arch_resume_at(void *context, const unsigned char *address)
{
	(void)context, (void)address;
}

/* In assembly, since C cannot name a void function's result register: the first clears it, the second that of reals, too. */
#define FUNCTION(name, code) \
	__asm__(".pushsection .text." #name ",\"ax\",@progbits\n\t" \
		".globl " #name "\n\t" \
		".type " #name ", %function\n\t" \
		".balign 16\n" \
		#name ":\n\t" \
		".cfi_startproc\n\t" \
		"hint\t#34\n\t" /* bti c */ \
		code "\n\t" \
		".cfi_endproc\n\t" \
		".size " #name ", . - " #name "\n\t" \
		".popsection")
FUNCTION(patchpoint_null_zero, "mov\tx0, #0\n\tret");
FUNCTION(patchpoint_null_zero_real, "mov\tx0, #0\n\tmovi\tv0.2d, #0\n\tret");
/*
 * In assembly, so that no compiler with whole-program view learns that the function does not return, calls nothing and changes
 * nothing: the sites' functions are compiled as if it returned, called and changed anything.
 */
FUNCTION(patchpoint_cold, "brk\t#1000");
