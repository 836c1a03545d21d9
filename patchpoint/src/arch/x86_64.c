/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The instructions of x86-64 sites. Each form has the length of the one that was compiled. */
#define _GNU_SOURCE
#include "../internal.h"
#include "x86_64_recognise.h"

#include <errno.h>
#include <string.h>
#include <ucontext.h>

const bool arch_can_patch = true;
const unsigned char arch_trap[] = {0xcc};

__asm__(".pushsection .text.patchpoint_probe,\"ax\",@progbits\n\t"
	".globl arch_probe_text\n\t"
	".hidden arch_probe_text\n\t"
	".balign 64\n"
	"arch_probe_text:\n\t"
	"endbr64\n\t"
	"movl $0x5a5a5a5a, %eax\n\t"
	"ret\n\t"
	".fill 64 - (. - arch_probe_text), 1, 0xcc\n\t"
	".popsection");

/* clang's check of function pointers reads in front of the function. */
__attribute__((no_sanitize("undefined"))) uint32_t arch_probe_run(const unsigned char *text)
{
	uint32_t (*function)(void);

	memcpy(&function, &text, sizeof function);
	return function();
}

/*
 * The client request RUNNING_ON_VALGRIND (valgrind.h): rotations that add up to nothing, a no-op elsewhere. Valgrind may be told
 * to notice changed code, but gives breakpoints another signal code than the kernel, and other bytes to other threads.
 */
bool arch_under_valgrind(void)
{
	uint64_t arguments[6] = {0x1001, 0, 0, 0, 0, 0}, result = 0;

	__asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
			 : "+d"(result)
			 : "a"(arguments)
			 : "rdi", "cc", "memory");
	return result != 0;
}

void arch_pause(void)
{
	__builtin_ia32_pause();
}

enum { CALL_LENGTH = 6, BRANCH_LENGTH = 5, LOAD_64_LENGTH = 10, LOAD_32_LENGTH = 6 };

static const unsigned char nop_5[BRANCH_LENGTH] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
static const unsigned char nop_6[CALL_LENGTH] = {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00};
static const unsigned char trap_6[CALL_LENGTH] = {0x67, 0x67, 0x67, 0x67, 0x0f, 0x0b}; /* ud2 */

/* Puts `target` into the last 4 bytes of an instruction, relative to its end. False when it is further than 2 GiB. */
static bool put_relative(const struct patchpoint_site *site, unsigned char *bytes, const void *target)
{
	int64_t distance = (int64_t)((uintptr_t)target - (uintptr_t)(site_code(site) + site->length));
	int32_t near = (int32_t)distance;

	memcpy(bytes + site->length - 4, &near, 4);
	return near == distance;
}

static const void *relative_target(const unsigned char *end)
{
	int32_t distance;

	memcpy(&distance, end - 4, 4);
	return end + distance;
}

/* The register of a value site, in its form as compiled or its immediate form; -1 when it is neither. */
static int value_register(const struct patchpoint_site *site, const unsigned char *now)
{
	static const unsigned char prefixes[3] = {0x2e, 0x2e, 0x2e};
	bool high = false;

	switch (site->length) {
	case LOAD_64_LENGTH:
		if ((now[0] == 0x48 || now[0] == 0x49) && (now[1] & 0xf8) == 0xb8)
			return (now[1] & 7) | (now[0] & 1) << 3;
		if (memcmp(now, prefixes, 3) != 0 || (now[3] != 0x48 && now[3] != 0x4c))
			return -1;
		high = now[3] == 0x4c;
		now += 4;
		break;
	case LOAD_32_LENGTH + 1:
		if (now[0] != 0x41 && now[0] != 0x44)
			return -1;
		if ((now[0] == 0x41) != (now[1] == 0xc7))
			return -1;
		high = true;
		now++;
		break;
	case LOAD_32_LENGTH:
		break;
	default:
		return -1;
	}
	if (now[0] == 0xc7 && (now[1] & 0xf8) == 0xc0 && site->length != LOAD_64_LENGTH)
		return (now[1] & 7) | high << 3;
	if (now[0] == 0x8b && (now[1] & 0xc7) == 0x05)
		return (now[1] >> 3 & 7) | high << 3;
	return -1;
}

/* The stub: f6 05 key 01 (testb), 0f 84/85 other (je or jne), e9 back. Its jump says where the other side is. */
static const unsigned char *branch_other(const struct patchpoint_site *site)
{
	const unsigned char *stub = field_target(&site->aux);
	unsigned char condition = site->flags & PATCHPOINT_SITE_LIKELY ? 0x84 : 0x85;

	if (stub[0] != 0xf6 || stub[1] != 0x05 || stub[6] != 0x01 || stub[7] != 0x0f || stub[8] != condition)
		return NULL;
	return relative_target(stub + 13);
}

static int call_original(const struct patchpoint_site *site, unsigned char *bytes)
{
	bool saved = site->flags & PATCHPOINT_SITE_SAVED;

	if (site->length != CALL_LENGTH)
		return -EILSEQ;
	bytes[0] = saved ? 0x67 : 0xff;
	bytes[1] = saved ? 0xe8 : 0x15;
	return put_relative(site, bytes, field_target(saved ? &site->aux : &site->key)) ? 0 : -EILSEQ;
}

static int value_original(const struct patchpoint_site *site, const unsigned char *now, unsigned char *bytes)
{
	int number = value_register(site, now);

	if (number < 0)
		return -EILSEQ;
	memset(bytes, 0x2e, 3);
	if (site->length == LOAD_64_LENGTH)
		bytes[3] = number & 8 ? 0x4c : 0x48;
	else if (site->length == LOAD_32_LENGTH + 1)
		bytes[0] = 0x44;
	bytes[site->length - 6] = 0x8b;
	bytes[site->length - 5] = (unsigned char)(0x05 | (number & 7) << 3);
	return put_relative(site, bytes, field_target(&site->key)) ? 0 : -EILSEQ;
}

int arch_original(const struct patchpoint_site *site, const unsigned char *now, unsigned char *bytes)
{
	switch (site->kind) {
	case PATCHPOINT_CALL:
		return call_original(site, bytes);
	case PATCHPOINT_VALUE:
		return value_original(site, now, bytes);
	case PATCHPOINT_BRANCH:
		if (site->length != BRANCH_LENGTH || !branch_other(site))
			return -EILSEQ;
		bytes[0] = 0xe9;
		return put_relative(site, bytes, field_target(&site->aux)) ? 0 : -EILSEQ;
	default:
		return -EILSEQ;
	}
}

static int call_patched(const struct patchpoint_site *site, const struct patchpoint_key *key, uint64_t value,
			unsigned char *bytes)
{
	if (key->form == PATCHPOINT_FORM_INLINE) {
		memcpy(bytes, key->body, CALL_LENGTH);
		return 0;
	}
	if (key->form != PATCHPOINT_FORM_DIRECT)
		return -EILSEQ;
	/* The thunk is as near as it was, and its own call is patched. */
	if (site->flags & PATCHPOINT_SITE_SAVED)
		return call_original(site, bytes);
	bytes[0] = 0x67;
	bytes[1] = 0xe8;
	return put_relative(site, bytes, (const void *)(uintptr_t)value) ? 0 : ARCH_FAR;
}

static int value_patched(const struct patchpoint_site *site, const unsigned char *now, uint64_t value,
			 unsigned char *bytes)
{
	int number = value_register(site, now);

	if (number < 0)
		return -EILSEQ;
	if (site->length == LOAD_64_LENGTH) {
		bytes[0] = number & 8 ? 0x49 : 0x48;
		bytes[1] = (unsigned char)(0xb8 | (number & 7));
		memcpy(bytes + 2, &value, 8);
		return 0;
	}
	bytes[0] = 0x41;
	bytes[site->length - 6] = 0xc7;
	bytes[site->length - 5] = (unsigned char)(0xc0 | (number & 7));
	memcpy(bytes + site->length - 4, &value, 4);
	return 0;
}

static int branch_patched(const struct patchpoint_site *site, uint64_t value, unsigned char *bytes)
{
	const unsigned char *other = branch_other(site);
	bool likely = site->flags & PATCHPOINT_SITE_LIKELY;

	if (site->length != BRANCH_LENGTH || !other)
		return -EILSEQ;
	if ((value != 0) == likely) {
		memcpy(bytes, nop_5, BRANCH_LENGTH);
		return 0;
	}
	bytes[0] = 0xe9;
	return put_relative(site, bytes, other) ? 0 : -EILSEQ;
}

int arch_patched(const struct patchpoint_site *site, const unsigned char *now, const struct patchpoint_key *key,
		 uint64_t value, unsigned char *bytes)
{
	switch (site->kind) {
	case PATCHPOINT_CALL:
		return site->length == CALL_LENGTH ? call_patched(site, key, value, bytes) : -EILSEQ;
	case PATCHPOINT_VALUE:
		return value_patched(site, now, value, bytes);
	case PATCHPOINT_BRANCH:
		return branch_patched(site, value, bytes);
	default:
		return -EILSEQ;
	}
}

/* Code that a process executes is there: a byte is read only when the instruction before it leads to it. */
static bool read_own_code(void *context, uint64_t address, uint8_t *byte)
{
	(void)context;
	*byte = *(const volatile uint8_t *)(uintptr_t)address;
	return true;
}

void arch_form(uint64_t function, uint8_t *form, uint8_t body[6])
{
	*form = PATCHPOINT_FORM_INLINE;
	if (function == (uint64_t)(uintptr_t)patchpoint_null_trap)
		memcpy(body, trap_6, CALL_LENGTH);
	else if (!arch_body(read_own_code, NULL, function, body))
		*form = PATCHPOINT_FORM_DIRECT;
}

bool arch_body(patchpoint_reader read, void *context, uint64_t function, uint8_t body[6])
{
	return x86_64_recognise(read, context, function, body) != BODY_UNKNOWN;
}

/*
 * ff 25 00000000 (jmp *0(%rip)), the target, int3, int3. No register is used, nothing is pushed; reached by direct calls only,
 * so it needs no endbr64, and its target has one where indirect branches are tracked, for sites as compiled call it indirectly.
 */
void arch_stub(unsigned char stub[STUB_SIZE], uint64_t target)
{
	static const unsigned char jump[6] = {0xff, 0x25};

	memset(stub, arch_trap[0], STUB_SIZE);
	memcpy(stub, jump, sizeof jump);
	memcpy(stub + sizeof jump, &target, sizeof target);
}

uint64_t arch_stub_target(const unsigned char *stub)
{
	uint64_t target;

	memcpy(&target, stub + 6, sizeof target);
	return target;
}

bool arch_reaches(uintptr_t text_start, uintptr_t text_stop, uintptr_t page)
{
	const uintptr_t reach = (UINT64_C(1) << 31) - 8192;

	return page < text_start ? text_stop - page < reach : page - text_start < reach;
}

static const char *body_state(const unsigned char *body)
{
	if (memcmp(body, nop_6, CALL_LENGTH) == 0)
		return "nop";
	if (memcmp(body, trap_6, CALL_LENGTH) == 0)
		return "trap";
	if (body[0] == 0xc7 && body[1] == 0xc0)
		return "constant";
	/* mov between registers, whole or low half, behind prefixes: the last two bytes tell. */
	if (body[0] == 0x2e && body[1] == 0x2e && body[2] == 0x2e && body[4] == 0x89 && body[5] >= 0xc0)
		return "move";
	return "inline";
}

const char *arch_state(const struct patchpoint_site *site, const unsigned char *now, const struct patchpoint_key *key,
		       uint64_t value)
{
	unsigned char bytes[LENGTH_MAX];

	if (arch_original(site, now, bytes) == 0 && memcmp(now, bytes, site->length) == 0)
		return site->flags & PATCHPOINT_SITE_SAVED ? "thunk" : "data";
	if (arch_patched(site, now, key, value, bytes) != 0 || memcmp(now, bytes, site->length) != 0)
		return "foreign";
	switch (site->kind) {
	case PATCHPOINT_CALL:
		return key->form == PATCHPOINT_FORM_INLINE ? body_state(now) : "call";
	case PATCHPOINT_VALUE:
		return "immediate";
	default:
		return now[0] == 0xe9 ? "jump" : "nop";
	}
}

unsigned char *arch_trap_address(const void *context)
{
	/* The processor reports the address after the breakpoint (Intel SDM vol. 3, 6.15, #BP). */
	return (unsigned char *)(uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] - 1;
}

bool arch_trap_is_gone(const unsigned char *address)
{
	unsigned char now = __atomic_load_n(address, __ATOMIC_SEQ_CST);

	/* cd 03 is the long form of the same trap: there the byte is its operand. */
	return now != arch_trap[0] && !(now == 0x03 && address[-1] == 0xcd);
}

void arch_resume_at(void *context, const unsigned char *address)
{
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)address;
}
