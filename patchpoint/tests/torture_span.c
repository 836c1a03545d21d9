/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Changes many sites in one transaction, which writes near sites together, while threads execute the sites and the code between:
 * close, far apart, with trap bytes between, and in this program and a shared object. Every value seen was set; when a change
 * returned, all sites show it; no byte between sites ever changes. PATCHPOINT_TORTURE_SECONDS bounds the time (5 unless set).
 */
#define _GNU_SOURCE
#include "shared_keys.h"

#include "check.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { READERS = 3, WRITERS = 2, TEXT_MAX = 1 << 20 };

PATCHPOINT_IMPORT_CALL(shared_job);
PATCHPOINT_IMPORT_VALUE(shared_number, int);
PATCHPOINT_IMPORT_BRANCH(shared_flag);
PATCHPOINT_DECLARE_VALUE(even, uint32_t);
PATCHPOINT_DECLARE_VALUE(odd, uint64_t);
PATCHPOINT_DECLARE_BRANCH(way);
PATCHPOINT_DECLARE_CALL(pass, long, long);
PATCHPOINT_DEFINE_VALUE(even, uint32_t, 0);
PATCHPOINT_DEFINE_VALUE(odd, uint64_t, 0);
PATCHPOINT_DEFINE_BRANCH(way, false);

long plugin_first(long a);

static long same(long a) { return a; }
__attribute__((noinline)) static long inverted(long a) { __asm__ volatile(""); return ~a; }
PATCHPOINT_DEFINE_CALL(pass, same);

static uint64_t pattern64(unsigned i) { return (i & 0xff) * UINT64_C(0x0101010101010101); }

/* Code between sites: nothing, 40, 200 and 700 bytes that are jumped over, and bytes that are traps elsewhere. */
#ifdef __x86_64__
#define JUMP "jmp"
#define TRAPS __asm__ volatile("movl $0xcccccccc, %%eax" : : : "rax")
#else
#define JUMP "b"
#define TRAPS __asm__ volatile("b 1f\n\t.skip 8\n1:")
#endif
#define CLOSE __asm__ volatile("nop")
#define NEAR __asm__ volatile(JUMP " 1f\n\t.skip 40, 0x90\n1:")
#define APART __asm__ volatile(JUMP " 1f\n\t.skip 200, 0x90\n1:")
#define DISTANT __asm__ volatile(JUMP " 1f\n\t.skip 700, 0x90\n1:")

#define SITES(gap) \
	do { \
		uint32_t low = patchpoint_value(even); \
		gap; \
		uint64_t high = patchpoint_value(odd); \
		gap; \
		CHECK(low == (uint32_t)pattern64(low) && high == pattern64(high)); \
		if (patchpoint_unlikely(way)) \
			told++; \
		gap; \
		long passed = patchpoint_call(pass, told); \
		CHECK(passed == told || passed == ~told); \
		seen |= low ^ (uint32_t)expected; \
	} while (0)
#define FOUR(gap) SITES(gap); SITES(gap); SITES(gap); SITES(gap)
#define SIXTEEN(gap) FOUR(gap); FOUR(gap); FOUR(gap); FOUR(gap)

/* Executes all sites; returns the bits in which values differ from the expected one. */
__attribute__((noinline)) static uint32_t run_sites(uint64_t expected)
{
	uint32_t seen = 0;
	long told = 0;

	SIXTEEN(CLOSE);
	SIXTEEN(NEAR);
	SIXTEEN(APART);
	SIXTEEN(DISTANT);
	SIXTEEN(TRAPS);
	FOUR(CLOSE);
	CHECK(told >= 0 && told <= 5 * 16 + 4);
	return seen;
}

static bool stop;
static uint64_t observed[READERS], committed;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static void *read_loop(void *argument)
{
	uint64_t *count = argument;

	for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); ++*count) {
		(void)run_sites(0);
		(void)shared_sites(4);
		(void)plugin_first(4);
	}
	return NULL;
}

static int set_all(unsigned i)
{
	struct patchpoint_txn txn;

	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_value(&txn, even, (uint32_t)pattern64(i));
	patchpoint_txn_set_value(&txn, odd, pattern64(i + 1));
	patchpoint_txn_set_branch(&txn, way, i & 1);
	patchpoint_txn_set_call(&txn, pass, i & 1 ? inverted : same);
	patchpoint_txn_set_value(&txn, shared_number, (int)(i & 127));
	return patchpoint_txn_commit(&txn);
}

static void *write_loop(void *argument)
{
	for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		pthread_mutex_lock(&writing);
		CHECK_EQUAL(set_all(i), 0);
		CHECK_EQUAL(run_sites((uint32_t)pattern64(i)), 0);
		committed++;
		pthread_mutex_unlock(&writing);
	}
	return argument;
}

/* This program's text from its first site to its last, with the bytes of sites cleared. */
struct text {
	const unsigned char *start;
	const unsigned char *stop;
	unsigned char bytes[TEXT_MAX];
	size_t sites;
};

static bool is_own(const struct patchpoint_site_info *info)
{
	const char *name = info->key->name;

	return strcmp(name, "even") == 0 || strcmp(name, "odd") == 0 || strcmp(name, "way") == 0 || strcmp(name, "pass") == 0;
}

static int find_bounds(const struct patchpoint_site_info *info, void *argument)
{
	struct text *text = argument;
	const unsigned char *at = info->address;

	if (!is_own(info))
		return 0;
	if (text->sites == 0 || at < text->start)
		text->start = at;
	if (text->sites == 0 || at + info->length > text->stop)
		text->stop = at + info->length;
	text->sites++;
	return 0;
}

static int clear_site(const struct patchpoint_site_info *info, void *argument)
{
	struct text *text = argument;

	if (is_own(info))
		memset(text->bytes + ((const unsigned char *)info->address - text->start), 0, info->length);
	return 0;
}

static void text_copy(struct text *text)
{
	memset(text, 0, sizeof *text);
	CHECK_EQUAL(patchpoint_site_iterate(find_bounds, text), 0);
	if (text->sites == 0)
		return;
	CHECK((size_t)(text->stop - text->start) < sizeof text->bytes);
	memcpy(text->bytes, text->start, (size_t)(text->stop - text->start));
	CHECK_EQUAL(patchpoint_site_iterate(clear_site, text), 0);
}

static struct text before, after;

int main(void)
{
	const char *seconds = getenv("PATCHPOINT_TORTURE_SECONDS");
	struct timespec pause = {seconds ? atoi(seconds) : 5, 0};
	pthread_t threads[READERS + WRITERS];
	uint64_t rounds = 0;

	if (pause.tv_sec < 1)
		pause.tv_sec = 1;
	text_copy(&before);
	CHECK((int64_t)before.sites >= 2 * (NATIVE + VALUE_SITES) * (5 * 16 + 4));
	/* With one thread, whole sites are written at once. */
	for (unsigned i = 0; i < 100; i++) {
		CHECK_EQUAL(set_all(i), 0);
		CHECK_EQUAL(run_sites((uint32_t)pattern64(i)), 0);
	}
	CHECK_EQUAL(patchpoint_init(), 0);
	for (int i = 0; i < READERS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, read_loop, &observed[i]), 0);
	for (int i = 0; i < WRITERS; i++)
		CHECK_EQUAL(pthread_create(&threads[READERS + i], NULL, write_loop, NULL), 0);
	nanosleep(&pause, NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < READERS + WRITERS; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
	text_copy(&after);
	CHECK(before.start == after.start && before.sites == after.sites);
	CHECK(memcmp(before.bytes, after.bytes, sizeof before.bytes) == 0);
	for (int i = 0; i < READERS; i++)
		rounds += observed[i];
	CHECK(rounds > 0 && committed > 0);
	printf("torture of spans: %zu sites, %d readers, %d writers, %lld s: %" PRIu64 " passes, %" PRIu64
	       " transactions of all sites, every observation legal\n",
	       after.sites, READERS, WRITERS, (long long)pause.tv_sec, rounds, committed);
	return 0;
}
