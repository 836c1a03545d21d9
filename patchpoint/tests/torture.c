/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads execute sites of every kind while others change the keys, for a bounded time: PATCHPOINT_TORTURE_SECONDS, 5 unless
 * set, and until PATCHPOINT_TORTURE_CHANGES transactions were made, if that is set. Each observation must be one of the values that
 * were ever set: old or new, never a mixture. Arguments: "blocked", with every signal blocked in the threads that execute;
 * "traps", as on a kernel that cannot move the pages of a file; "urgent", with a real-time priority in the threads that execute, on
 * the writers' processor; "held", with another process that stops these threads anywhere, one after the other.
 */
#define _GNU_SOURCE
#include <patchpoint.h>

#include "../src/internal.h"
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

static bool stop, blocked, urgent, held;
static pid_t readers[READERS];
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
	if (urgent && sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}) != 0)
		SKIP("no real-time priority here: %s", strerror(errno));
	__atomic_store_n(&readers[count - observed], (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		observe((long)(i * 2654435761u), (long)i);
		/* One writer raises this key: a thread never sees a lower value than before. */
		long now = patchpoint_value(version);

		CHECK(now >= before);
		before = now;
		i++;
		/* Where they share a processor, the writers get it between the rounds only. */
		if (urgent && i % 20 == 0)
			nanosleep(&(struct timespec){0, 200000}, NULL);
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

static void stay_on_one_processor(void)
{
	cpu_set_t allowed, one;
	int first = 0;

	CHECK_EQUAL(sched_getaffinity(0, sizeof allowed, &allowed), 0);
	while (!CPU_ISSET(first, &allowed))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	CHECK_EQUAL(sched_setaffinity(0, sizeof one, &one), 0);
}

/*
 * Stops the readers one after the other for moments, for ever. Each thread stands still at any place, and the writers go on: they are
 * not traced themselves.
 */
static void hold_readers(const pid_t *of)
{
	long held_moments = 0;
	int status;

	for (int i = 0; i < READERS; i++)
		if (ptrace(PTRACE_SEIZE, of[i], NULL, NULL) != 0)
			_exit(2);
	for (;; held_moments++) {
		pid_t reader = of[held_moments % READERS];

		if (ptrace(PTRACE_INTERRUPT, reader, NULL, NULL) != 0 || waitpid(reader, &status, __WALL) != reader || !WIFSTOPPED(status))
			_exit(0);
		nanosleep(&(struct timespec){0, 300000 * (held_moments % 5)}, NULL);
		/* A signal on its way, such as a trap's, goes to the thread. */
		ptrace(PTRACE_CONT, reader, NULL, status >> 16 ? 0 : WSTOPSIG(status));
	}
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
	int status_of_holder;
	pid_t holder = 0;
	long least = seconds && atoi(seconds) > 0 ? atoi(seconds) : seconds ? 1 : 5;

	for (int i = 1; i < count; i++) {
		blocked |= strcmp(arguments[i], "blocked") == 0;
		urgent |= strcmp(arguments[i], "urgent") == 0;
		held |= strcmp(arguments[i], "held") == 0;
		if (strcmp(arguments[i], "traps") == 0)
			moves_refused = -EINVAL;
	}
	if (urgent)
		stay_on_one_processor();
	CHECK_EQUAL(patchpoint_init(), 0);
	for (int i = 0; i < READERS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, read_loop, &observed[i]), 0);
	for (int i = 0; i < WRITERS; i++)
		CHECK_EQUAL(pthread_create(&threads[READERS + i], NULL, write_loop, &committed[i]), 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < READERS; i++)
		while (!__atomic_load_n(&readers[i], __ATOMIC_SEQ_CST))
			nanosleep(&(struct timespec){0, 1000000}, NULL);
	if (held) {
		holder = fork();
		if (holder == 0)
			hold_readers(readers);
	}
	do {
		nanosleep(&(struct timespec){0, 100 * 1000 * 1000}, NULL);
		clock_gettime(CLOCK_MONOTONIC, &end);
	} while (end.tv_sec - begin.tv_sec < least || commits_so_far() < wanted);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	if (held) {
		/* The kernel lets go what it traced. */
		kill(holder, SIGKILL);
		CHECK_EQUAL(waitpid(holder, &status_of_holder, 0), holder);
		if (!WIFSIGNALED(status_of_holder))
			SKIP("ptrace is not permitted here");
	}
	for (int i = 0; i < READERS + WRITERS; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < READERS; i++)
		reads += observed[i];
	commits = commits_so_far();
	CHECK(reads > 0 && commits > 0);
	CHECK_EQUAL(patchpoint_status(&status), 0);
	printf("torture: %d readers%s%s%s, %d writers, %lld s, writer %s, protocol %s: %" PRIu64 " rounds of 8 sites read, %" PRIu64
	       " transactions, %" PRIu64 " sites written, %" PRIu64 " traps, every observation legal\n",
	       READERS, blocked ? " with every signal blocked" : "", urgent ? " of real-time priority" : "", held ? " that are stopped" : "",
	       WRITERS, (long long)(end.tv_sec - begin.tv_sec),
	       status.writer_name, status.protocol_name, reads, commits, status.sites_written,
	       status.traps);
	return 0;
}
