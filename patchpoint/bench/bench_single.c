/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One operation a round. Every loop does the same arithmetic, in which each round waits for the round before; only the operation
 * differs. A form that costs nothing beside the program's own work therefore has the time of the form by hand. bench_row.c shows
 * what such a form still takes from the processor's front end.
 */
#include "bench.h"

#include <patchpoint.h>

#include <stdlib.h>

PATCHPOINT_DECLARE_CALL(identity, uint64_t, uint64_t);
PATCHPOINT_DECLARE_CALL(five, uint64_t, uint64_t);
PATCHPOINT_DECLARE_CALL(empty, void, uint64_t);
PATCHPOINT_DECLARE_CALL(mix, uint64_t, uint64_t);
PATCHPOINT_DECLARE_CALL(keep, uint64_t, uint64_t);
PATCHPOINT_DECLARE_CALL(distance, long, long);
PATCHPOINT_DECLARE_CALL(real_same, double, double);
PATCHPOINT_DECLARE_CALL(real_step, double, double, double);
struct pair {
	uint64_t first, second;
};
PATCHPOINT_DECLARE_CALL_ANY(exchange, struct pair, struct pair);
PATCHPOINT_DECLARE_BRANCH(off);
PATCHPOINT_DECLARE_BRANCH(on);
PATCHPOINT_DECLARE_BRANCH(probing);
PATCHPOINT_DECLARE_VALUE(limit_32, uint32_t);
PATCHPOINT_DECLARE_VALUE(limit_64, uint64_t);

static uint64_t same(uint64_t a) { return a; }
static uint64_t always_five(uint64_t a) { (void)a; return 5; }
static void nothing(uint64_t a) { (void)a; }
NOINLINE static uint64_t mixed(uint64_t a) { return (a ^ (a >> 7)) * 5; }
PATCHPOINT_PRESERVING static uint64_t kept(uint64_t a) { return (a ^ (a >> 7)) * 5; }
static double same_real(double a) { return a; }
NOINLINE static struct pair exchanged(struct pair a) { return (struct pair){a.second ^ (a.first >> 7), a.first}; }
NOINLINE static double stepped(double a, double b) { return a * b + 1; }

PATCHPOINT_DEFINE_CALL(identity, same);
PATCHPOINT_DEFINE_SAVED(identity);
PATCHPOINT_DEFINE_CALL(five, always_five);
PATCHPOINT_DEFINE_SAVED(five);
PATCHPOINT_DEFINE_CALL(empty, nothing);
PATCHPOINT_DEFINE_SAVED(empty);
PATCHPOINT_DEFINE_CALL(mix, mixed);
PATCHPOINT_DEFINE_SAVED(mix);
PATCHPOINT_DEFINE_CALL(keep, kept);
PATCHPOINT_DEFINE_SAVED(keep);
PATCHPOINT_DEFINE_CALL(distance, labs); /* libc's function, which is far from a position-independent program */
PATCHPOINT_DEFINE_CALL(real_same, same_real);
PATCHPOINT_DEFINE_CALL(real_step, stepped);
PATCHPOINT_DEFINE_CALL(exchange, exchanged);
PATCHPOINT_DEFINE_JUMP(exchange);
PATCHPOINT_DEFINE_BRANCH(off, false);
PATCHPOINT_DEFINE_BRANCH(on, true);
PATCHPOINT_DEFINE_BRANCH(probing, false);
PATCHPOINT_DEFINE_VALUE(limit_32, uint32_t, 5);
PATCHPOINT_DEFINE_VALUE(limit_64, uint64_t, 0x500000005);

/* The alternatives without the library: pointers and variables that the program reads each time. */
static uint64_t (*volatile same_pointer)(uint64_t) = same;
static uint64_t (*volatile five_pointer)(uint64_t) = always_five;
static void (*volatile nothing_pointer)(uint64_t) = nothing;
static uint64_t (*volatile mixed_pointer)(uint64_t) = mixed;
static struct pair (*volatile exchanged_pointer)(struct pair) = exchanged;
static long (*volatile distance_pointer)(long) = labs;
static double (*volatile same_real_pointer)(double) = same_real;
static double (*volatile stepped_pointer)(double, double) = stepped;
static volatile bool plain_off, plain_on = true;
static volatile uint32_t plain_32 = 5;
static volatile uint64_t plain_64 = 0x500000005;
static uint64_t atomic_64 = 0x500000005;
static uint32_t atomic_32 = 5;
NOINLINE static uint64_t get_limit(void) { return plain_64; }
static uint64_t (*volatile limit_pointer)(void) = get_limit;
NOINLINE static void rare(void) { plain_64++; }

LOOP(identity_inlined, uint64_t y = x; OPAQUE(y); x = y)
LOOP(identity_patched, x = patchpoint_call(identity, x))
LOOP(identity_saved, x = patchpoint_call_saved(identity, x))
LOOP(identity_pointer, x = same_pointer(x))
LOOP(five_inlined, uint64_t y = 5; OPAQUE(y); x ^= y)
LOOP(five_patched, x ^= patchpoint_call(five, x))
LOOP(five_saved, x ^= patchpoint_call_saved(five, x))
LOOP(five_pointer_called, x ^= five_pointer(x))
LOOP(empty_inlined, (void)0)
LOOP(empty_patched, patchpoint_call(empty, x))
LOOP(empty_saved, patchpoint_call_saved(empty, x))
LOOP(empty_pointer, nothing_pointer(x))
LOOP(mix_direct, x = mixed(x))
LOOP(mix_patched, x = patchpoint_call(mix, x))
LOOP(mix_pointer, x = mixed_pointer(x))
LOOP(exchange_direct, x = exchanged((struct pair){x, i}).first)
LOOP(exchange_patched, x = patchpoint_call(exchange, ((struct pair){x, i})).first)
LOOP(exchange_pointer, x = exchanged_pointer((struct pair){x, i}).first)
LOOP(mix_saved, x = patchpoint_call_saved(mix, x))
LOOP(keep_direct, x = kept(x))
LOOP(keep_saved, x = patchpoint_call_saved(keep, x))
LOOP(distance_patched, x = (uint64_t)patchpoint_call(distance, (long)x))
LOOP(distance_pointer_called, x = (uint64_t)distance_pointer((long)x))

/* Loops over numbers in vector registers, of which a call keeps none. */
#define REAL_LOOP(name, body) \
	NOINLINE static uint64_t name(uint64_t ops) \
	{ \
		double x = 1; \
		for (uint64_t i = 0; i < ops; i++) { \
			body; \
			x += 0.25; \
		} \
		return (uint64_t)x; \
	}
#ifdef __SSE__
#define OPAQUE_REAL(x) __asm__ volatile("" : "+x"(x))
#else
#define OPAQUE_REAL(x) __asm__ volatile("" : "+w"(x))
#endif
REAL_LOOP(real_inlined, OPAQUE_REAL(x))
REAL_LOOP(real_patched, x = patchpoint_call(real_same, x))
REAL_LOOP(real_pointer, x = same_real_pointer(x))
REAL_LOOP(real_step_direct, x = stepped(x, 0.5))
REAL_LOOP(real_step_patched, x = patchpoint_call(real_step, x, 0.5))
REAL_LOOP(real_step_pointer, x = stepped_pointer(x, 0.5))

LOOP(branch_none, (void)0)
LOOP(unlikely_off, if (patchpoint_unlikely(off)) rare())
LOOP(unlikely_off_loaded, if (__builtin_expect(plain_off, 0)) rare())
LOOP(likely_on, if (!patchpoint_likely(on)) rare())
LOOP(likely_on_loaded, if (!__builtin_expect(plain_on, 1)) rare())
LOOP(branch_taken, x ^= 5)
LOOP(unlikely_on, if (patchpoint_unlikely(on)) x ^= 5)
LOOP(unlikely_on_loaded, if (__builtin_expect(plain_on, 0)) x ^= 5)
LOOP(likely_off, if (!patchpoint_likely(off)) x ^= 5)
LOOP(likely_off_loaded, if (!__builtin_expect(plain_off, 1)) x ^= 5)

/*
 * A disabled probe whose three arguments the program computes for it. A probe of SystemTap's sys/sdt.h is a nop whose operands a
 * debugger may read, so they are computed beforehand; its note takes no instruction. A semaphore, which tracers raise, goes around it.
 */
#define ARGUMENTS x + 3, x ^ i, i + (i << 2)
#define USDT(a, b, c) __asm__ volatile("nop" : : "nor"(a), "nor"(b), "nor"(c))
#define USDT_3(...) USDT(__VA_ARGS__)
static volatile unsigned short semaphore;
NOINLINE static void probed(uint64_t a, uint64_t b, uint64_t c) { plain_64 += a ^ b ^ c; }
LOOP(probe_patched, if (patchpoint_unlikely(probing)) probed(ARGUMENTS))
LOOP(probe_usdt, USDT_3(ARGUMENTS))
LOOP(probe_semaphore, if (__builtin_expect(semaphore, 0)) USDT_3(ARGUMENTS))
LOOP(probe_loaded, if (__builtin_expect(plain_off, 0)) probed(ARGUMENTS))

LOOP(value_32_constant, uint32_t y = 5; OPAQUE(y); x ^= y)
LOOP(value_32_patched, x ^= patchpoint_value(limit_32))
LOOP(value_32_plain, x ^= plain_32)
LOOP(value_32_atomic, x ^= __atomic_load_n(&atomic_32, __ATOMIC_ACQUIRE))
LOOP(value_64_constant, uint64_t y = 0x500000005; OPAQUE(y); x ^= y)
LOOP(value_64_patched, x ^= patchpoint_value(limit_64))
LOOP(value_64_plain, x ^= plain_64)
LOOP(value_64_atomic, x ^= __atomic_load_n(&atomic_64, __ATOMIC_ACQUIRE))
LOOP(value_64_pointer, x ^= limit_pointer())

/* Switches of 2 to 8 ways that take the last way: a jump there, and a jump back. */
#define WAY_0 x ^= 5
#define WAY_1 x -= 9
#define WAY_2 x ^= x >> 3
#define WAY_3 x = ~x
#define WAY_4 x += x << 3
#define WAY_5 x ^= 77
#define WAY_6 x = -x
#define WAY_7 x ^= x >> 9
#define CASE(n) \
	case n: \
		WAY_##n; \
		break;
#define CASES_2 CASE(0) CASE(1)
#define CASES_3 CASES_2 CASE(2)
#define CASES_4 CASES_3 CASE(3)
#define CASES_5 CASES_4 CASE(4)
#define CASES_6 CASES_5 CASE(5)
#define CASES_7 CASES_6 CASE(6)
#define CASES_8 CASES_7 CASE(7)
#define SWITCH(count, last) \
	PATCHPOINT_DECLARE_SWITCH(ways_##count, count); \
	PATCHPOINT_DEFINE_SWITCH(ways_##count, count, last); \
	static volatile unsigned plain_ways_##count = last; \
	LOOP(switch_##count##_inlined, WAY_##last) \
	LOOP(switch_##count##_patched, switch (patchpoint_switch(ways_##count)) { CASES_##count }) \
	LOOP(switch_##count##_loaded, switch (plain_ways_##count) { CASES_##count })
SWITCH(2, 1)
SWITCH(3, 2)
SWITCH(4, 3)
SWITCH(5, 4)
SWITCH(6, 5)
SWITCH(7, 6)
SWITCH(8, 7)
/* A switch that takes its first way, the code that follows the site. */
PATCHPOINT_DECLARE_SWITCH(first_way, 8);
PATCHPOINT_DEFINE_SWITCH(first_way, 8, 0);
static volatile unsigned plain_first_way;
LOOP(first_way_inlined, WAY_0)
LOOP(first_way_patched, switch (patchpoint_switch(first_way)) { CASES_8 })
LOOP(first_way_loaded, switch (plain_first_way) { CASES_8 })

#define SWITCH_FORMS(count) \
	{"a switch of " #count " ways, the last one", "the way alone", switch_##count##_inlined, 1, false, false}, \
		{"a switch of " #count " ways, the last one", "patched", switch_##count##_patched, 1, true, false}, \
		{"a switch of " #count " ways, the last one", "switch over a variable", switch_##count##_loaded, 1, false, false},

const struct form single_forms[] = {
	{"a call that returns its argument", "inlined by hand", identity_inlined, 1, false, false},
	{"a call that returns its argument", "patched, register-preserving site", identity_saved, 1, true, false},
	{"a call that returns its argument", "patched, plain site", identity_patched, 1, true, false},
	{"a call that returns its argument", "call through a pointer", identity_pointer, 1, false, false},
	{"a call that returns a constant", "inlined by hand", five_inlined, 1, false, false},
	{"a call that returns a constant", "patched, register-preserving site", five_saved, 1, true, false},
	{"a call that returns a constant", "patched, plain site", five_patched, 1, true, false},
	{"a call that returns a constant", "call through a pointer", five_pointer_called, 1, false, false},
	{"a call that does nothing", "left out by hand", empty_inlined, 1, false, false},
	{"a call that does nothing", "patched, register-preserving site", empty_saved, 1, true, false},
	{"a call that does nothing", "patched, plain site", empty_patched, 1, true, false},
	{"a call that does nothing", "call through a pointer", empty_pointer, 1, false, false},
	{"a real call", "direct call", mix_direct, 1, false, false},
	{"a real call", "patched", mix_patched, 1, true, false},
	{"a real call", "call through a pointer", mix_pointer, 1, false, false},
	{"a real call from a register-preserving site", "direct call of a preserving function", keep_direct, 1, false, false},
	{"a real call from a register-preserving site", "patched, a preserving function", keep_saved, 1, true, false},
	{"a real call from a register-preserving site", "patched, any function through a thunk", mix_saved, 1, true, false},
	{"a real call with a struct by value", "direct call", exchange_direct, 1, false, false},
	{"a real call with a struct by value", "patched, through a jump", exchange_patched, 1, true, false},
	{"a real call with a struct by value", "call through a pointer", exchange_pointer, 1, false, false},
	{"a far call", "call through a pointer", distance_pointer_called, 1, false, false},
	{"a far call", "patched, through a stub", distance_patched, 1, true, false},
	{"a call that returns its double argument", "inlined by hand", real_inlined, 1, false, false},
	{"a call that returns its double argument", "patched", real_patched, 1, true, false},
	{"a call that returns its double argument", "call through a pointer", real_pointer, 1, false, false},
	{"a real call with two double arguments", "direct call", real_step_direct, 1, false, false},
	{"a real call with two double arguments", "patched", real_step_patched, 1, true, false},
	{"a real call with two double arguments", "call through a pointer", real_step_pointer, 1, false, false},
	{"a branch that is not taken", "left out by hand", branch_none, 1, false, false},
	{"a branch that is not taken", "patched, unlikely, false", unlikely_off, 1, true, false},
	{"a branch that is not taken", "patched, likely, true", likely_on, 1, true, false},
	{"a branch that is not taken", "load and test, unlikely", unlikely_off_loaded, 1, false, false},
	{"a branch that is not taken", "load and test, likely", likely_on_loaded, 1, false, false},
	{"a disabled probe with three arguments", "left out by hand", branch_none, 1, false, false},
	{"a disabled probe with three arguments", "patched", probe_patched, 1, true, false},
	{"a disabled probe with three arguments", "sys/sdt.h", probe_usdt, 1, false, false},
	{"a disabled probe with three arguments", "sys/sdt.h with a semaphore", probe_semaphore, 1, false, false},
	{"a disabled probe with three arguments", "load and test", probe_loaded, 1, false, false},
	{"a branch to the rarer side", "the rarer side alone", branch_taken, 1, false, false},
	{"a branch to the rarer side", "patched, unlikely, true", unlikely_on, 1, true, false},
	{"a branch to the rarer side", "patched, likely, false", likely_off, 1, true, false},
	{"a branch to the rarer side", "load and test, unlikely", unlikely_on_loaded, 1, false, false},
	{"a branch to the rarer side", "load and test, likely", likely_off_loaded, 1, false, false},
	{"a value of 32 bits", "constant", value_32_constant, 1, false, false},
	{"a value of 32 bits", "patched", value_32_patched, 1, true, false},
	{"a value of 32 bits", "plain load", value_32_plain, 1, false, false},
	{"a value of 32 bits", "atomic load", value_32_atomic, 1, false, false},
	{"a value of 64 bits", "constant", value_64_constant, 1, false, false},
	{"a value of 64 bits", "patched", value_64_patched, 1, true, false},
	{"a value of 64 bits", "plain load", value_64_plain, 1, false, false},
	{"a value of 64 bits", "atomic load", value_64_atomic, 1, false, false},
	{"a value of 64 bits", "call through a pointer", value_64_pointer, 1, false, false},
	{"a switch of 8 ways, the first one", "the way alone", first_way_inlined, 1, false, false},
	{"a switch of 8 ways, the first one", "patched", first_way_patched, 1, true, false},
	{"a switch of 8 ways, the first one", "switch over a variable", first_way_loaded, 1, false, false},
	SWITCH_FORMS(2)
	SWITCH_FORMS(3)
	SWITCH_FORMS(4)
	SWITCH_FORMS(5)
	SWITCH_FORMS(6)
	SWITCH_FORMS(7)
	SWITCH_FORMS(8)
	{NULL, NULL, NULL, 0, false, false},
};
