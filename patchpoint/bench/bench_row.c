/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sixteen operations in a row that wait for nothing: the processor only has to fetch, decode and retire them. This is the most that
 * a patched site can cost; in most code the processor waits for something else meanwhile, as in bench_single.c.
 */
#include "bench.h"

#include <patchpoint.h>

PATCHPOINT_DECLARE_CALL(row_empty, void);
PATCHPOINT_DECLARE_CALL(row_five, long);
PATCHPOINT_DECLARE_CALL(row_same, long, long);
PATCHPOINT_DECLARE_BRANCH(row_off);
PATCHPOINT_DECLARE_SWITCH(row_way, 4);
PATCHPOINT_DECLARE_VALUE(row_32, uint32_t);
PATCHPOINT_DECLARE_VALUE(row_64, uint64_t);

static void nothing(void) {}
static long always_five(void) { return 5; }
static long same(long a) { return a; }

PATCHPOINT_DEFINE_CALL(row_empty, nothing);
PATCHPOINT_DEFINE_SAVED(row_empty);
PATCHPOINT_DEFINE_CALL(row_five, always_five);
PATCHPOINT_DEFINE_SAVED(row_five);
PATCHPOINT_DEFINE_CALL(row_same, same);
PATCHPOINT_DEFINE_SAVED(row_same);
PATCHPOINT_DEFINE_BRANCH(row_off, false);
PATCHPOINT_DEFINE_SWITCH(row_way, 4, 0);
PATCHPOINT_DEFINE_VALUE(row_32, uint32_t, 5);
PATCHPOINT_DEFINE_VALUE(row_64, uint64_t, 0x500000005);

static void (*volatile nothing_pointer)(void) = nothing;
static volatile bool plain_off;
static volatile unsigned plain_way;
static volatile uint32_t plain_32 = 5;
static volatile uint64_t plain_64 = 0x500000005;
static volatile uint64_t rarely;

#define FOUR_TIMES(body) { body; } { body; } { body; } { body; }
#define ROW(name, body) \
	NOINLINE static uint64_t name(uint64_t passes) \
	{ \
		uint64_t x = 1; \
		for (uint64_t i = 0; i < passes; i++) { \
			FOUR_TIMES(FOUR_TIMES(body)); \
			x += i; \
			OPAQUE(x); \
		} \
		return x; \
	}

ROW(row_none, (void)0)
ROW(row_nop, patchpoint_call_saved(row_empty))
ROW(row_branch, if (patchpoint_unlikely(row_off)) rarely++)
ROW(row_branch_loaded, if (__builtin_expect(plain_off, 0)) rarely++)
ROW(row_switch, switch (patchpoint_switch(row_way)) { case 0: break; case 1: rarely++; break; case 2: rarely--; break; \
	default: rarely = 1; })
ROW(row_switch_loaded, switch (plain_way) { case 0: break; case 1: rarely++; break; case 2: rarely--; break; \
	default: rarely = 1; })
ROW(row_pointer, nothing_pointer())
ROW(row_constant, uint32_t y = 5; OPAQUE(y))
ROW(row_constant_patched, (void)patchpoint_call_saved(row_five))
ROW(row_value_32, (void)patchpoint_value(row_32))
ROW(row_value_32_plain, (void)plain_32)
ROW(row_constant_64, uint64_t y = 0x500000005; OPAQUE(y))
ROW(row_value_64, (void)patchpoint_value(row_64))
ROW(row_value_64_plain, (void)plain_64)
ROW(row_move, uint64_t y = x; OPAQUE(y))
ROW(row_move_patched, (void)patchpoint_call_saved(row_same, (long)x))

#ifdef __x86_64__
/* Instructions of sites, given as bytes: without and with the byte at the start of every form of a site. */
#define BYTES(bytes) __asm__ volatile(".byte " bytes ::: "eax")
ROW(bare_nop, BYTES("0x0f, 0x1f, 0x44, 0, 0"))
ROW(prefixed_nop, BYTES("0x40, 0x0f, 0x1f, 0x44, 0, 0"))
ROW(bare_constant, BYTES("0xc7, 0xc0, 5, 0, 0, 0"))
ROW(prefixed_constant, BYTES("0x40, 0xc7, 0xc0, 5, 0, 0, 0"))
ROW(bare_wide, BYTES("0x48, 0xb8, 5, 0, 0, 0, 5, 0, 0, 0"))
ROW(prefixed_wide, BYTES("0x66, 0x48, 0xb8, 5, 0, 0, 0, 5, 0, 0, 0"))
#endif

const struct form row_forms[] = {
	{"16 in a row: nothing", "left out by hand", row_none, 16, false, false},
	{"16 in a row: nothing", "patched call that does nothing", row_nop, 16, true, false},
	{"16 in a row: nothing", "patched branch, not taken", row_branch, 16, true, false},
	{"16 in a row: nothing", "patched switch, the first of 4 ways", row_switch, 16, true, false},
	{"16 in a row: nothing", "load and test", row_branch_loaded, 16, false, false},
	{"16 in a row: nothing", "switch over a variable, the first of 4 ways", row_switch_loaded, 16, false, false},
	{"16 in a row: nothing", "call of an empty function through a pointer", row_pointer, 16, false, false},
	{"16 in a row: a constant of 32 bits", "constant", row_constant, 16, false, false},
	{"16 in a row: a constant of 32 bits", "patched call that returns it", row_constant_patched, 16, true, false},
	{"16 in a row: a constant of 32 bits", "patched value", row_value_32, 16, true, false},
	{"16 in a row: a constant of 32 bits", "plain load", row_value_32_plain, 16, false, false},
	{"16 in a row: a constant of 64 bits", "constant", row_constant_64, 16, false, false},
	{"16 in a row: a constant of 64 bits", "patched value", row_value_64, 16, true, false},
	{"16 in a row: a constant of 64 bits", "plain load", row_value_64_plain, 16, false, false},
	{"16 in a row: a move", "move between registers", row_move, 16, false, false},
	{"16 in a row: a move", "patched call that returns its argument", row_move_patched, 16, true, false},
#ifdef __x86_64__
	{"16 in a row: a nop of 5 bytes", "as it is", bare_nop, 16, false, false},
	{"16 in a row: a nop of 5 bytes", "with a site's prefix", prefixed_nop, 16, false, false},
	{"16 in a row: mov of 32 bits", "as it is", bare_constant, 16, false, false},
	{"16 in a row: mov of 32 bits", "with a site's prefix", prefixed_constant, 16, false, false},
	{"16 in a row: mov of 64 bits", "as it is", bare_wide, 16, false, false},
	{"16 in a row: mov of 64 bits", "with a site's prefix", prefixed_wide, 16, false, false},
#endif
	{NULL, NULL, NULL, 0, false, false},
};
