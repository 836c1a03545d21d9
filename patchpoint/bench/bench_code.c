/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The forms. Each loop does the same arithmetic; what differs is the operation in it. */
#include "bench.h"

#include <patchpoint.h>

#include <stdlib.h>

PATCHPOINT_DECLARE_CALL(identity, uint64_t, uint64_t);
PATCHPOINT_DECLARE_CALL(empty, void, uint64_t);
PATCHPOINT_DECLARE_CALL(mix, uint64_t, uint64_t);
PATCHPOINT_DECLARE_CALL(distance, long, long);
PATCHPOINT_DECLARE_BRANCH(off);
PATCHPOINT_DECLARE_VALUE(limit, uint64_t);
PATCHPOINT_DECLARE_VALUE(read_0, int);
PATCHPOINT_DECLARE_VALUE(read_1, int);
PATCHPOINT_DECLARE_VALUE(read_2, int);
PATCHPOINT_DECLARE_VALUE(read_3, int);

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

/* The loop's variable in a register, unknown to the compiler: keeps it from computing the sum at once. */
#define OPAQUE(x) __asm__ volatile("" : "+r"(x))

static uint64_t same(uint64_t a) { return a; }
static void nothing(uint64_t a) { (void)a; }
NOINLINE static uint64_t mixed(uint64_t a) { return (a ^ (a >> 7)) * 5; }

PATCHPOINT_DEFINE_CALL(identity, same);
PATCHPOINT_DEFINE_SAVED(identity);
PATCHPOINT_DEFINE_CALL(empty, nothing);
PATCHPOINT_DEFINE_SAVED(empty);
PATCHPOINT_DEFINE_CALL(mix, mixed);
PATCHPOINT_DEFINE_CALL(distance, labs); /* libc's, which is far from a position-independent program */
PATCHPOINT_DEFINE_BRANCH(off, false);
PATCHPOINT_DEFINE_VALUE(limit, uint64_t, 1);
PATCHPOINT_DEFINE_VALUE(read_0, int, 1);
PATCHPOINT_DEFINE_VALUE(read_1, int, 1);
PATCHPOINT_DEFINE_VALUE(read_2, int, 1);
PATCHPOINT_DEFINE_VALUE(read_3, int, 1);

static uint64_t plain_limit = 1;
static bool plain_off;
NOINLINE static uint64_t get_limit(void) { return plain_limit; }
static uint64_t (*volatile limit_pointer)(void) = get_limit;
static uint64_t (*volatile same_pointer)(uint64_t) = same;
static uint64_t (*volatile mixed_pointer)(uint64_t) = mixed;
static long (*volatile distance_pointer)(long) = labs;
static void (*volatile nothing_pointer)(uint64_t) = nothing;
NOINLINE static void rare(void) { plain_limit++; }

#define LOOP(name, body) \
	NOINLINE static uint64_t name(uint64_t ops) \
	{ \
		uint64_t x = 1; \
		for (uint64_t i = 0; i < ops; i++) { \
			body; \
			x += i; \
			OPAQUE(x); \
		} \
		return x; \
	}

LOOP(identity_inlined, uint64_t y = x; OPAQUE(y); x = y)
LOOP(identity_patched, x = patchpoint_call(identity, x))
LOOP(identity_saved, x = patchpoint_call_saved(identity, x))
LOOP(identity_indirect, x = same_pointer(x))
LOOP(empty_inlined, (void)0)
LOOP(empty_patched, patchpoint_call(empty, x))
LOOP(empty_saved, patchpoint_call_saved(empty, x))
LOOP(empty_indirect, nothing_pointer(x))
LOOP(mix_direct, x = mixed(x))
LOOP(mix_patched, x = patchpoint_call(mix, x))
LOOP(mix_indirect, x = mixed_pointer(x))
LOOP(distance_patched, x = (uint64_t)patchpoint_call(distance, (long)x))
LOOP(distance_indirect, x = (uint64_t)distance_pointer((long)x))
LOOP(branch_none, (void)0)
LOOP(branch_patched, if (patchpoint_unlikely(off)) rare())
LOOP(branch_loaded, if (__builtin_expect(*(volatile bool *)&plain_off, 0)) rare())
LOOP(value_plain, x += *(volatile uint64_t *)&plain_limit)
LOOP(value_patched, x += patchpoint_value(limit))
LOOP(value_atomic, x += __atomic_load_n(&plain_limit, __ATOMIC_ACQUIRE))
LOOP(value_indirect, x += limit_pointer())

/* Investigation "immediate values": N reads of integers in cache lines at random places, each with a branch. */
enum { LINES = 4096, INTS_A_LINE = 16 };
static int table[LINES * INTS_A_LINE];
NOINLINE static int get_entry(unsigned place) { return table[place]; }
static int (*volatile entry_pointer)(unsigned) = get_entry;

#define FOUR(X, n) X(n) X(n + 1) X(n + 2) X(n + 3)
#define SIXTEEN(X, n) FOUR(X, n) FOUR(X, n + 4) FOUR(X, n + 8) FOUR(X, n + 12)
#define READS_32(X, n) SIXTEEN(X, n) SIXTEEN(X, n + 16)
#define READS_128(X, n) READS_32(X, n) READS_32(X, n + 32) READS_32(X, n + 64) READS_32(X, n + 96)
#define READS_512(X, n) READS_128(X, n) READS_128(X, n + 128) READS_128(X, n + 256) READS_128(X, n + 384)
#define READS_4096(X, n) \
	READS_512(X, n) READS_512(X, n + 512) READS_512(X, n + 1024) READS_512(X, n + 1536) READS_512(X, n + 2048) \
		READS_512(X, n + 2560) READS_512(X, n + 3072) READS_512(X, n + 3584)

/* An odd factor permutes the lines. */
#define PLACE(n) (((n) * 2654435761u) % LINES * INTS_A_LINE)
#define LOAD(n) \
	if (*(volatile int *)&table[PLACE(n)]) \
		sum++;
#define ATOMIC(n) \
	if (__atomic_load_n(&table[PLACE(n)], __ATOMIC_ACQUIRE)) \
		sum++;
#define INDIRECT(n) \
	if (entry_pointer(PLACE(n))) \
		sum++;
#define FOUR_PATCHED(X, n) X(read_0) X(read_1) X(read_2) X(read_3)
#define PATCHED(key) \
	if (patchpoint_value(key)) \
		sum++;
#define READERS(count, kind, X) \
	NOINLINE static uint64_t read_##count##_##kind(uint64_t passes) \
	{ \
		uint64_t sum = 0; \
		for (uint64_t i = 0; i < passes; i++) { \
			READS_##count(X, 0) \
		} \
		return sum; \
	}
READERS(32, loads, LOAD)
READERS(128, loads, LOAD)
READERS(4096, loads, LOAD)
READERS(32, atomics, ATOMIC)
READERS(128, atomics, ATOMIC)
READERS(4096, atomics, ATOMIC)
READERS(32, indirect, INDIRECT)
READERS(128, indirect, INDIRECT)
READERS(4096, indirect, INDIRECT)
#undef FOUR
#define FOUR FOUR_PATCHED
READERS(32, patched, PATCHED)
READERS(128, patched, PATCHED)
READERS(4096, patched, PATCHED)

/* Two more of the largest, for transactions of some 10,000 sites. */
NOINLINE static uint64_t more_sites(void)
{
	uint64_t sum = 0;

	READS_4096(PATCHED, 0)
	READS_512(PATCHED, 0)
	READS_512(PATCHED, 0)
	READS_512(PATCHED, 0)
	return sum;
}

uint64_t sites_execute(void)
{
	return read_4096_patched(1) + more_sites() + read_128_patched(1) + read_32_patched(1);
}

int site_keys_set(int value)
{
	struct patchpoint_txn txn;

	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_value(&txn, read_0, value);
	patchpoint_txn_set_value(&txn, read_1, value);
	patchpoint_txn_set_value(&txn, read_2, value);
	patchpoint_txn_set_value(&txn, read_3, value);
	return patchpoint_txn_commit(&txn);
}

/* The program's first and last byte of code, from the linker. */
extern const char __executable_start[], etext[];

static void flush(const volatile void *start, size_t bytes)
{
#ifdef __x86_64__
	for (size_t at = 0; at < bytes; at += 64)
		__asm__ volatile("clflush %0" : "+m"(*(volatile char *)((uintptr_t)start + at)));
#else
	(void)start, (void)bytes;
#endif
}

/*
 * 4 MiB at a stride of lines, in an order that prefetchers do not follow. The last level may be larger than that, and then
 * holds what the form before has read; so the table and all code are flushed to memory.
 */
void caches_thrash(void)
{
	static volatile unsigned char memory[1 << 22];
	uint32_t place = 1;

	for (unsigned i = 0; i < sizeof memory / 64; i++) {
		place = place * 1664525 + 1013904223;
		memory[place % sizeof memory]++;
	}
	flush(table, sizeof table);
	flush(__executable_start, (size_t)(etext - __executable_start));
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

int forms_prepare(void)
{
	for (unsigned i = 0; i < LINES; i++)
		table[i * INTS_A_LINE] = 1;
	return patchpoint_init();
}

const struct form forms[] = {
	{"identity", "inlined by hand", identity_inlined, false, 1},
	{"identity", "patched, register-preserving site", identity_saved, false, 1},
	{"identity", "patched, plain site", identity_patched, false, 1},
	{"identity", "indirect call", identity_indirect, false, 1},
	{"empty operation", "nothing", empty_inlined, false, 1},
	{"empty operation", "patched, register-preserving site", empty_saved, false, 1},
	{"empty operation", "patched, plain site", empty_patched, false, 1},
	{"empty operation", "indirect call", empty_indirect, false, 1},
	{"call", "direct call", mix_direct, false, 1},
	{"call", "patched", mix_patched, false, 1},
	{"call", "indirect call", mix_indirect, false, 1},
	{"far call", "indirect call", distance_indirect, false, 1},
	{"far call", "patched, through a stub", distance_patched, false, 1},
	{"disabled branch", "no branch", branch_none, false, 1},
	{"disabled branch", "patched", branch_patched, false, 1},
	{"disabled branch", "load and test", branch_loaded, false, 1},
	{"value, hot", "plain load", value_plain, false, 1},
	{"value, hot", "patched", value_patched, false, 1},
	{"value, hot", "atomic load", value_atomic, false, 1},
	{"value, hot", "indirect call", value_indirect, false, 1},
	{"32 reads, hot, per read", "plain loads", read_32_loads, false, 32},
	{"32 reads, hot, per read", "atomic loads", read_32_atomics, false, 32},
	{"32 reads, hot, per read", "indirect calls", read_32_indirect, false, 32},
	{"32 reads, hot, per read", "patched", read_32_patched, false, 32},
	{"128 reads, hot, per read", "plain loads", read_128_loads, false, 128},
	{"128 reads, hot, per read", "atomic loads", read_128_atomics, false, 128},
	{"128 reads, hot, per read", "indirect calls", read_128_indirect, false, 128},
	{"128 reads, hot, per read", "patched", read_128_patched, false, 128},
	{"4096 reads, hot, per read", "plain loads", read_4096_loads, false, 4096},
	{"4096 reads, hot, per read", "atomic loads", read_4096_atomics, false, 4096},
	{"4096 reads, hot, per read", "indirect calls", read_4096_indirect, false, 4096},
	{"4096 reads, hot, per read", "patched", read_4096_patched, false, 4096},
	{"32 reads, thrashed caches, per read", "plain loads", read_32_loads, true, 32},
	{"32 reads, thrashed caches, per read", "atomic loads", read_32_atomics, true, 32},
	{"32 reads, thrashed caches, per read", "indirect calls", read_32_indirect, true, 32},
	{"32 reads, thrashed caches, per read", "patched", read_32_patched, true, 32},
	{"128 reads, thrashed caches, per read", "plain loads", read_128_loads, true, 128},
	{"128 reads, thrashed caches, per read", "atomic loads", read_128_atomics, true, 128},
	{"128 reads, thrashed caches, per read", "indirect calls", read_128_indirect, true, 128},
	{"128 reads, thrashed caches, per read", "patched", read_128_patched, true, 128},
	{"4096 reads, thrashed caches, per read", "plain loads", read_4096_loads, true, 4096},
	{"4096 reads, thrashed caches, per read", "atomic loads", read_4096_atomics, true, 4096},
	{"4096 reads, thrashed caches, per read", "indirect calls", read_4096_indirect, true, 4096},
	{"4096 reads, thrashed caches, per read", "patched", read_4096_patched, true, 4096},
};
const size_t form_count = sizeof forms / sizeof forms[0];
