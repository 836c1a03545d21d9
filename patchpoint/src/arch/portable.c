/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The architecture that patches nothing: keys are plain data. No object is registered, so most of this is never called. */
#include "../internal.h"

#include <errno.h>

const bool arch_can_patch = false;
const bool arch_one_store = false;
const unsigned char arch_trap = 0;
const size_t arch_tests_offset = 0, arch_test_size = 0;
const unsigned char arch_probe_text[1];
const size_t arch_probe_number = 0;

uint32_t arch_probe_run(const unsigned char *text)
{
	(void)text;
	return 0;
}

void arch_probe_bytes(uint32_t number, unsigned char bytes[4])
{
	(void)number, (void)bytes;
}

bool arch_kernel_stores_whole(void)
{
	return false;
}

bool arch_under_valgrind(void)
{
	return false;
}

uint32_t arch_cpu_features(void)
{
	return 0;
}

void arch_pause(void)
{
}

void arch_serialise(void)
{
}

void arch_code_stored(const unsigned char *code, const unsigned char *alias, size_t length)
{
	(void)code, (void)alias, (void)length;
}

int arch_compiled(patchpoint_reader read, void *context, const struct patchpoint_place *place, const unsigned char *now,
		  unsigned char *bytes)
{
	(void)read, (void)context, (void)place, (void)now, (void)bytes;
	return -EILSEQ;
}

int arch_patched(patchpoint_reader read, void *context, const struct patchpoint_place *place, const unsigned char *now,
		 const struct patchpoint_state *state, unsigned char *bytes)
{
	(void)read, (void)context, (void)place, (void)now, (void)state, (void)bytes;
	return -EILSEQ;
}

bool arch_is_breakpoint(const unsigned char *now)
{
	(void)now;
	return false;
}

void arch_stub(unsigned char stub[STUB_SIZE], uint64_t target)
{
	(void)stub, (void)target;
}

uint64_t arch_stub_target(const unsigned char *stub)
{
	(void)stub;
	return 0;
}

uint64_t arch_call_target(const struct patchpoint_place *place, const unsigned char *now)
{
	(void)place, (void)now;
	return 0;
}

bool arch_reaches(uintptr_t text_start, uintptr_t text_stop, uintptr_t page)
{
	(void)text_start, (void)text_stop, (void)page;
	return false;
}

bool arch_body(patchpoint_reader read, void *context, bool (*constant)(uint64_t address, size_t length), uint64_t function,
	       uint8_t body[PATCHPOINT_BODY_SIZE])
{
	(void)read, (void)context, (void)constant, (void)function, (void)body;
	return false;
}

const char *arch_word(const struct patchpoint_place *place, const unsigned char *now, const struct patchpoint_state *state)
{
	(void)place, (void)now, (void)state;
	return "data";
}

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

#define EXPORTED __attribute__((visibility("default")))

/* The header declares both without a result; sites call them as functions with one. */
uintptr_t patchpoint_zero(void) __asm__("patchpoint_null_zero");
EXPORTED uintptr_t patchpoint_zero(void)
{
	return 0;
}

double patchpoint_zero_real(void) __asm__("patchpoint_null_zero_real");
EXPORTED double patchpoint_zero_real(void)
{
	return 0;
}

EXPORTED void patchpoint_cold(void)
{
	__builtin_trap();
}
