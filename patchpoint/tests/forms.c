/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Has every form of every site, one site a key. Prints a line a site: key, bytes as compiled, bytes now, with ".." for bytes that
 * depend on addresses. With the argument "wait" it prints a line and waits for the end of its input instead.
 */
#include <patchpoint.h>

#include "check.h"

#include <string.h>

typedef long (*unary)(long);

#define CALL(key) \
	PATCHPOINT_DECLARE_CALL(key, long, long); \
	long site_##key(long a); \
	long site_##key(long a) { return patchpoint_call(key, a) + 1; }
#define SAVED(key) \
	PATCHPOINT_DECLARE_CALL(key, long, long); \
	long site_##key(long a); \
	long site_##key(long a) { return patchpoint_call_saved(key, a) + a; } \
	PATCHPOINT_DEFINE_SAVED(key);

static long global;
static long identity(long a) { return a; }
static long identity_32(long a) { return (unsigned)a; }
static long five(long a) { (void)a; return 5; }
static long load(long a) { return *(long *)a; }
static long work(long a) { return global += a; }

CALL(direct)
CALL(identity_64)
CALL(identity_low)
CALL(constant)
CALL(instruction)
CALL(null_nothing)
CALL(null_zero)
CALL(null_trap)
CALL(far)
SAVED(direct_saved)
SAVED(identity_saved)
SAVED(preserving_saved)
PATCHPOINT_PRESERVING static long preserving_work(long a) { return a ^ (a >> 7); }
PATCHPOINT_DEFINE_CALL(direct, work);
PATCHPOINT_DEFINE_CALL(identity_64, identity);
PATCHPOINT_DEFINE_CALL(identity_low, identity_32);
PATCHPOINT_DEFINE_CALL(constant, five);
PATCHPOINT_DEFINE_CALL(instruction, load);
PATCHPOINT_DEFINE_CALL_NULL(null_nothing, NOTHING);
PATCHPOINT_DEFINE_CALL_NULL(null_zero, ZERO);
PATCHPOINT_DEFINE_CALL_NULL(null_trap, TRAP);
PATCHPOINT_DEFINE_CALL(far, labs); /* libc's function, which is far from a position-independent program */
PATCHPOINT_DEFINE_CALL(direct_saved, work);
PATCHPOINT_DEFINE_CALL(identity_saved, identity);
PATCHPOINT_DEFINE_CALL(preserving_saved, preserving_work);

/* Its callers call a thunk, whose instruction is the site. */
struct pair {
	long first, second;
};
PATCHPOINT_DECLARE_CALL_ANY(any, struct pair, struct pair);
static struct pair exchanged(struct pair a) { return (struct pair){a.second, a.first + global}; }
PATCHPOINT_DEFINE_CALL(any, exchanged);
PATCHPOINT_DEFINE_JUMP(any);

PATCHPOINT_DECLARE_VALUE(number, int);
PATCHPOINT_DECLARE_VALUE(wide_number, uint64_t);
PATCHPOINT_DEFINE_VALUE(number, int, 42);
PATCHPOINT_DEFINE_VALUE(wide_number, uint64_t, 0x1122334455667788);
int site_number(void);
int site_number(void) { return patchpoint_value(number); }
uint64_t site_wide_number(void);
uint64_t site_wide_number(void) { return patchpoint_value(wide_number); }

#define BRANCH(key, how, initial) \
	PATCHPOINT_DECLARE_BRANCH(key); \
	PATCHPOINT_DEFINE_BRANCH(key, initial); \
	int site_##key(void); \
	int site_##key(void) { return patchpoint_##how(key) ? 7 : 8; }
BRANCH(likely_off, likely, false)
BRANCH(likely_on, likely, true)
BRANCH(unlikely_off, unlikely, false)
BRANCH(unlikely_on, unlikely, true)

PATCHPOINT_DECLARE_SWITCH(switch_0, 3);
PATCHPOINT_DECLARE_SWITCH(switch_2, 3);
PATCHPOINT_DEFINE_SWITCH(switch_0, 3, 0);
PATCHPOINT_DEFINE_SWITCH(switch_2, 3, 2);
unsigned site_switch_0(void);
unsigned site_switch_0(void) { return patchpoint_switch(switch_0) * 7; }
unsigned site_switch_2(void);
unsigned site_switch_2(void) { return patchpoint_switch(switch_2) * 7; }

static void put(const unsigned char *bytes, size_t length, bool relative)
{
	for (size_t i = 0; i < length; i++)
		printf(relative && i >= length - 4 ? "%s.." : "%s%02x", i ? " " : "", bytes[i]);
}

/* Whether a site is a thunk's own, which has its key's name too. */
#ifdef __x86_64__
static bool is_in_thunk(const struct patchpoint_site_info *info)
{
	return strstr(info->key->name, "_saved") && info->bytes_original[1] == 0xff;
}
#else
extern const char patchpoint_saved_direct_saved[], patchpoint_saved_identity_saved[], patchpoint_saved_preserving_saved[];

static bool is_in_thunk(const struct patchpoint_site_info *info)
{
	const char *thunks[] = {patchpoint_saved_direct_saved, patchpoint_saved_identity_saved, patchpoint_saved_preserving_saved};
	bool found = false;

	for (size_t i = 0; i < sizeof thunks / sizeof thunks[0]; i++)
		found |= (uintptr_t)info->address - (uintptr_t)thunks[i] < 200;
	return found;
}
#endif

static int put_site(const struct patchpoint_site_info *info, void *unused)
{
	const char *relative[] = {"data", "thunk", "call", "stub", "jump"};
	bool now_relative = false;

	(void)unused;
	for (size_t i = 0; i < sizeof relative / sizeof relative[0]; i++)
		now_relative |= strcmp(info->state, relative[i]) == 0;
	if (is_in_thunk(info))
		return 0;
	printf("%s\t", info->key->name);
	put(info->bytes_original, info->length, true);
	printf("\t");
	put(info->bytes_now, info->length, now_relative);
	printf("\t");
	put(info->bytes_now, info->length, false);
	printf("\n");
	return 0;
}

int main(int count, char **arguments)
{
	CHECK_EQUAL(patchpoint_init(), 0);
	if (count > 1 && strcmp(arguments[1], "wait") == 0) {
		patchpoint_ops_add(7);
		printf("ready\n");
		fflush(stdout);
		while (getchar() != EOF)
			;
		return 0;
	}
	return patchpoint_site_iterate(put_site, NULL);
}
