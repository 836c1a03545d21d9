/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads of many values, hot and after the caches were emptied. Also the sites for changes of many sites. */
#include "bench.h"

#include <patchpoint.h>

PATCHPOINT_DECLARE_VALUE(read_0, int);
PATCHPOINT_DECLARE_VALUE(read_1, int);
PATCHPOINT_DECLARE_VALUE(read_2, int);
PATCHPOINT_DECLARE_VALUE(read_3, int);
PATCHPOINT_DEFINE_VALUE(read_0, int, 1);
PATCHPOINT_DEFINE_VALUE(read_1, int, 1);
PATCHPOINT_DEFINE_VALUE(read_2, int, 1);
PATCHPOINT_DEFINE_VALUE(read_3, int, 1);

/* From the investigation "immediate values": N reads of integers in cache lines at random places, each with a branch. */
enum { LINES = 4096, INTS_A_LINE = 16 };
static int table[LINES * INTS_A_LINE];
NOINLINE static int get_entry(unsigned place) { return table[place]; }
static int (*volatile entry_pointer)(unsigned) = get_entry;

#define FOUR(X, n) X(n) X(n + 1) X(n + 2) X(n + 3)
#define SIXTEEN(X, n) FOUR(X, n) FOUR(X, n + 4) FOUR(X, n + 8) FOUR(X, n + 12)
#define READS_32(X, n) SIXTEEN(X, n) SIXTEEN(X, n + 16)
#define READS_128(X, n) READS_32(X, n) READS_32(X, n + 32) READS_32(X, n + 64) READS_32(X, n + 96)
#define READS_512(X, n) READS_128(X, n) READS_128(X, n + 128) READS_128(X, n + 256) READS_128(X, n + 384)
#ifdef __clang__
#define UNMERGED
#else
#define UNMERGED __attribute__((no_icf))
#endif

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
/*
 * 4,096 reads are eight functions of 512 reads: compilers need minutes for a function of 4,096 branches, and one call in 512 reads
 * costs next to nothing. No function may be merged with another of the same code: each has its own sites. Tests have functions of
 * 32 reads: compilers need ten seconds for the functions of 512.
 */
#ifdef FEW_SITES
#define READS_BLOCK READS_32
#define READS_MANY "256 reads"
#else
#define READS_BLOCK READS_512
#define READS_MANY "4096 reads"
#endif
enum { MANY_READS = 8 * READS_A_BLOCK };
#define BLOCK(kind, X, n) \
	UNMERGED NOINLINE static uint64_t read_block_##kind##_##n(uint64_t sum) \
	{ \
		READS_BLOCK(X, n * READS_A_BLOCK) \
		return sum; \
	}
#define READERS_MANY(kind, X) \
	BLOCK(kind, X, 0) BLOCK(kind, X, 1) BLOCK(kind, X, 2) BLOCK(kind, X, 3) \
	BLOCK(kind, X, 4) BLOCK(kind, X, 5) BLOCK(kind, X, 6) BLOCK(kind, X, 7) \
	NOINLINE static uint64_t read_many_##kind(uint64_t passes) \
	{ \
		uint64_t sum = 0; \
		for (uint64_t i = 0; i < passes; i++) { \
			sum = read_block_##kind##_0(sum); \
			sum = read_block_##kind##_1(sum); \
			sum = read_block_##kind##_2(sum); \
			sum = read_block_##kind##_3(sum); \
			sum = read_block_##kind##_4(sum); \
			sum = read_block_##kind##_5(sum); \
			sum = read_block_##kind##_6(sum); \
			sum = read_block_##kind##_7(sum); \
		} \
		return sum; \
	}
READERS(32, loads, LOAD)
READERS(128, loads, LOAD)
READERS_MANY(loads, LOAD)
READERS(32, atomics, ATOMIC)
READERS(128, atomics, ATOMIC)
READERS_MANY(atomics, ATOMIC)
READERS(32, indirect, INDIRECT)
READERS(128, indirect, INDIRECT)
READERS_MANY(indirect, INDIRECT)
#undef FOUR
#define FOUR FOUR_PATCHED
READERS(32, patched, PATCHED)
READERS(128, patched, PATCHED)
READERS_MANY(patched, PATCHED)

/* The rest of NEAR_SITES: eleven blocks, and 112 reads. */
#define MORE(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18)
#define MORE_BLOCK(n) BLOCK(patched, PATCHED, n)
#define MORE_READ(n) sum = read_block_patched_##n(sum);
MORE(MORE_BLOCK)
NOINLINE static uint64_t more_sites(void)
{
	uint64_t sum = 0;

	MORE(MORE_READ)
	READS_32(PATCHED, 0)
	READS_32(PATCHED, 0)
	READS_32(PATCHED, 0)
	SIXTEEN(PATCHED, 0)
	return sum;
}

uint64_t near_sites_execute(void)
{
	return read_many_patched(1) + more_sites() + read_128_patched(1) + read_32_patched(1);
}

int near_sites_set(int value)
{
	struct patchpoint_txn txn;

	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_value(&txn, read_0, value);
	patchpoint_txn_set_value(&txn, read_1, value);
	patchpoint_txn_set_value(&txn, read_2, value);
	patchpoint_txn_set_value(&txn, read_3, value);
	return patchpoint_txn_commit(&txn);
}

/* The bounds of the program's code, from the linker. */
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
 * Touches 4 MiB line by line, in an order that prefetchers do not follow. The last-level cache may be larger than that and still
 * hold data of the form before, so the table and all code are flushed to memory.
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

void reads_prepare(void)
{
	for (unsigned i = 0; i < LINES; i++)
		table[i * INTS_A_LINE] = 1;
}

#define READ_FORMS(name, reads, count, when, cold) \
	{reads ", " when ", a read", "plain loads", read_##name##_loads, count, false, cold}, \
		{reads ", " when ", a read", "patched", read_##name##_patched, count, true, cold}, \
		{reads ", " when ", a read", "atomic loads", read_##name##_atomics, count, false, cold}, \
		{reads ", " when ", a read", "calls through a pointer", read_##name##_indirect, count, false, cold},

const struct form read_forms[] = {
	READ_FORMS(32, "32 reads", 32, "hot", false)
	READ_FORMS(128, "128 reads", 128, "hot", false)
	READ_FORMS(many, READS_MANY, MANY_READS, "hot", false)
	READ_FORMS(32, "32 reads", 32, "caches flushed", true)
	READ_FORMS(128, "128 reads", 128, "caches flushed", true)
	READ_FORMS(many, READS_MANY, MANY_READS, "caches flushed", true)
	{NULL, NULL, NULL, 0, false, false},
};
