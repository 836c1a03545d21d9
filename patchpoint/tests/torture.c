/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads execute sites of every kind while others change the keys, for a bounded time: PATCHPOINT_TORTURE_SECONDS, 5 unless
 * set, and until PATCHPOINT_TORTURE_CHANGES transactions were made, if that is set. Each observation must be one of the values that
 * were ever set: old or new, never a mixture. Arguments: "blocked", with every signal blocked in the threads that execute;
 * "traps", as on a kernel that cannot move the pages of a file.
 */
#define _GNU_SOURCE
#include <patchpoint.h>

#include "../src/internal.h"
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

enum { READERS = 3, WRITERS = 2 };

PATCHPOINT_DECLARE_CALL(work, long, long, long);
PATCHPOINT_DECLARE_CALL(notify, void, long *);
PATCHPOINT_DECLARE_VALUE(wide, uint64_t);
PATCHPOINT_DECLARE_VALUE(narrow, uint32_t);
PATCHPOINT_DECLARE_BRANCH(mode);
PATCHPOINT_DECLARE_VALUE(version, long);

/* Each result tells which function ran, and that arguments arrived and nothing else was disturbed. */
static long first(long a, long b) { (void)b; return a; }
static long second(long a, long b) { (void)a; return b; }
static long sum(long a, long b) { return a * 3 + b; }
static long seven(long a, long b) { (void)a, (void)b; return 7; }
static void silent(long *p) { (void)p; }
static void store(long *p) { *p = 1; }
static void loud(long *p) { *p += 2; }

PATCHPOINT_DEFINE_CALL_OR(work, first, ZERO);
PATCHPOINT_DEFINE_SAVED(work);
PATCHPOINT_DEFINE_CALL(notify, silent);
PATCHPOINT_DEFINE_VALUE(wide, uint64_t, 0);
PATCHPOINT_DEFINE_VALUE(narrow, uint32_t, 0);
PATCHPOINT_DEFINE_BRANCH(mode, false);
PATCHPOINT_DEFINE_VALUE(version, long, 0);

static bool stop, blocked;
static uint64_t observed[READERS], committed[WRITERS];

static uint64_t pattern64(uint64_t i) { return (i & 0xff) * UINT64_C(0x0101010101010101); }
static uint32_t pattern32(uint64_t i) { return (uint32_t)(i & 0xff) * UINT32_C(0x01010101); }

static void legal_work(long a, long b, long result)
{
	CHECK(result == a || result == b || result == a * 3 + b || result == 7 || result == 0);
}

/* A function that would be a leaf without its sites, with locals in the place of the red zone and values in vector registers. */
__attribute__((noinline)) static void observe(long a, long b)
{
	long noise[6] = {a, b, a ^ b, a + b, a - b, ~a}, result, told = 0;
	double real = (double)a;
	uint64_t seen;

	result = patchpoint_call(work, a, b);
	legal_work(a, b, result);
	result = patchpoint_call_saved(work, b, a);
	legal_work(b, a, result);
	patchpoint_call(notify, &told);
	CHECK(told >= 0 && told <= 2);
	seen = patchpoint_value(wide);
	CHECK(seen == pattern64(seen));
	seen = patchpoint_value(narrow);
	CHECK(seen == pattern32(seen));
	if (patchpoint_unlikely(mode))
		noise[0] ^= 1, noise[0] ^= 1;
	if (patchpoint_likely(mode))
		noise[1] ^= 1, noise[1] ^= 1;
	CHECK(noise[0] == a && noise[1] == b && noise[2] == (a ^ b) && noise[3] == a + b && noise[4] == a - b &&
	      noise[5] == ~a && real == (double)a);
}

static void *read_loop(void *argument)
{
	uint64_t *count = argument, i = 0;
	sigset_t all;
	long before = 0;

	sigfillset(&all);
	if (blocked)
		CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		observe((long)(i * 2654435761u), (long)i);
		/* One writer raises this key: a thread never sees a lower value than before. */
		long now = patchpoint_value(version);

		CHECK(now >= before);
		before = now;
		i++;
	}
	*count = i;
	return NULL;
}

static void *write_loop(void *argument)
{
	static long (*const works[])(long, long) = {first, sum, second, seven, NULL};
	static void (*const notices[])(long *) = {silent, loud, store};
	uint64_t *count = argument, i = 0;
	bool leader = count == &committed[0];

	for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		struct patchpoint_txn txn;

		patchpoint_txn_begin(&txn);
		patchpoint_txn_set_call(&txn, work, works[i % 5]);
		patchpoint_txn_set_call(&txn, notify, notices[i % 3]);
		patchpoint_txn_set_value(&txn, wide, pattern64(i * 37));
		patchpoint_txn_set_value(&txn, narrow, pattern32(i * 41));
		patchpoint_txn_set_branch(&txn, mode, i & 1);
		if (leader)
			patchpoint_txn_set_value(&txn, version, (long)i);
		CHECK_EQUAL(patchpoint_txn_commit(&txn), 0);
		if (leader)
			CHECK_EQUAL(patchpoint_value(version), i);
		CHECK_EQUAL(patchpoint_set_value(narrow, pattern32(i)), 0);
		__atomic_store_n(count, 2 * (i + 1), __ATOMIC_RELAXED);
	}
	return NULL;
}

static uint64_t commits_so_far(void)
{
	uint64_t commits = 0;

	for (int i = 0; i < WRITERS; i++)
		commits += __atomic_load_n(&committed[i], __ATOMIC_RELAXED);
	return commits;
}

int main(int count, char **arguments)
{
	const char *seconds = getenv("PATCHPOINT_TORTURE_SECONDS"), *changes = getenv("PATCHPOINT_TORTURE_CHANGES");
	uint64_t wanted = changes ? strtoull(changes, NULL, 10) : 0, reads = 0, commits;
	pthread_t threads[READERS + WRITERS];
	struct timespec begin, end;
	struct patchpoint_status status;
	long least = seconds && atoi(seconds) > 0 ? atoi(seconds) : seconds ? 1 : 5;

	for (int i = 1; i < count; i++) {
		blocked |= strcmp(arguments[i], "blocked") == 0;
		if (strcmp(arguments[i], "traps") == 0)
			moves_refused = -EINVAL;
	}
	CHECK_EQUAL(patchpoint_init(), 0);
	for (int i = 0; i < READERS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, read_loop, &observed[i]), 0);
	for (int i = 0; i < WRITERS; i++)
		CHECK_EQUAL(pthread_create(&threads[READERS + i], NULL, write_loop, &committed[i]), 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		nanosleep(&(struct timespec){0, 100 * 1000 * 1000}, NULL);
		clock_gettime(CLOCK_MONOTONIC, &end);
	} while (end.tv_sec - begin.tv_sec < least || commits_so_far() < wanted);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < READERS + WRITERS; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < READERS; i++)
		reads += observed[i];
	commits = commits_so_far();
	CHECK(reads > 0 && commits > 0);
	CHECK_EQUAL(patchpoint_status(&status), 0);
	printf("torture: %d readers%s, %d writers, %lld s, writer %s, protocol %s: %" PRIu64 " rounds of 8 sites read, %" PRIu64
	       " transactions, %" PRIu64 " sites written, %" PRIu64 " traps, every observation legal\n",
	       READERS, blocked ? " with every signal blocked" : "", WRITERS, (long long)(end.tv_sec - begin.tv_sec),
	       status.writer_name, status.protocol_name, reads, commits, status.sites_written,
	       status.traps);
	return 0;
}
