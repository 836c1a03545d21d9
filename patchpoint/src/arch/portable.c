/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The architecture that patches nothing: keys are plain data. No object is registered, so most of this is never called. */
#include "../internal.h"

#include <errno.h>

const bool arch_can_patch = false;
const unsigned char arch_trap[] = {0};
const unsigned char arch_probe_text[1];

uint32_t arch_probe_run(const unsigned char *text)
{
	(void)text;
	return 0;
}

bool arch_under_valgrind(void)
{
	return false;
}

void arch_pause(void)
{
}

int arch_original(const struct patchpoint_site *site, const unsigned char *now, unsigned char *bytes)
{
	(void)site, (void)now, (void)bytes;
	return -EILSEQ;
}

int arch_patched(const struct patchpoint_site *site, const unsigned char *now, const struct patchpoint_key *key,
		 uint64_t value, unsigned char *bytes)
{
	(void)site, (void)now, (void)key, (void)value, (void)bytes;
	return -EILSEQ;
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

bool arch_reaches(uintptr_t text_start, uintptr_t text_stop, uintptr_t page)
{
	(void)text_start, (void)text_stop, (void)page;
	return false;
}

void arch_form(uint64_t function, uint8_t *form, uint8_t body[6])
{
	(void)function, (void)body;
	*form = PATCHPOINT_FORM_NONE;
}

bool arch_body(patchpoint_reader read, void *context, uint64_t function, uint8_t body[6])
{
	(void)read, (void)context, (void)function, (void)body;
	return false;
}

const char *arch_state(const struct patchpoint_site *site, const unsigned char *now, const struct patchpoint_key *key,
		       uint64_t value)
{
	(void)site, (void)now, (void)key, (void)value;
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
