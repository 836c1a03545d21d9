/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program for debuggers and probes: threads execute sites of every form while another thread changes the keys, and each value
 * that a thread sees must be one that was set. The functions begin with their sites.
 * Usage: subject SECONDS          changes keys for this long, then ends with "N changes"
 *        subject SECONDS quiet    the same with a change each millisecond only
 *        subject SECONDS traps    as on a kernel that cannot move the pages of a file
 *        subject SECONDS blocked  with every signal blocked in the threads that execute
 *        subject SECONDS waits    as with traps, beside a thread that blocks SIGTRAP half of the time, so that changes wait
 * SIGTERM ends it earlier.
 */
#define _GNU_SOURCE
#include <patchpoint.h>

#include "../src/internal.h"
#include "check.h"
#include "moments.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

PATCHPOINT_DECLARE_CALL(subject_call, long, long);
PATCHPOINT_DECLARE_CALL(subject_saved, long, long);
PATCHPOINT_DECLARE_VALUE(subject_narrow, uint32_t);
PATCHPOINT_DECLARE_VALUE(subject_wide, uint64_t);
PATCHPOINT_DECLARE_BRANCH(subject_branch);
PATCHPOINT_DECLARE_SWITCH(subject_switch, 4);

static long identity(long a) { return a; }
static long five(long a) { (void)a; return 5; }
__attribute__((noinline)) static long mixed(long a) { return (a ^ (a >> 7)) * 5; }
static long load(long a) { return a + a; }

PATCHPOINT_DEFINE_CALL(subject_call, identity);
PATCHPOINT_DEFINE_CALL(subject_saved, identity);
PATCHPOINT_DEFINE_SAVED(subject_saved);
PATCHPOINT_DEFINE_VALUE(subject_narrow, uint32_t, 0);
PATCHPOINT_DEFINE_VALUE(subject_wide, uint64_t, 0);
PATCHPOINT_DEFINE_BRANCH(subject_branch, false);
PATCHPOINT_DEFINE_SWITCH(subject_switch, 4, 0);

#define PROBED __attribute__((noinline, aligned(64)))
PROBED long probed_call(long a);
PROBED long probed_saved(long a);
PROBED uint32_t probed_narrow(void);
PROBED uint64_t probed_wide(void);
PROBED bool probed_branch(void);
PROBED unsigned probed_switch(void);
long probed_call(long a) { return patchpoint_call(subject_call, a); }
long probed_saved(long a) { return patchpoint_call_saved(subject_saved, a) + a; }
uint32_t probed_narrow(void) { return patchpoint_value(subject_narrow); }
uint64_t probed_wide(void) { return patchpoint_value(subject_wide); }
bool probed_branch(void) { return patchpoint_unlikely(subject_branch); }
unsigned probed_switch(void) { return patchpoint_switch(subject_switch); }

static bool stop, blocked;
static uint64_t changes;

static void check_result(long a, long result)
{
	CHECK(result == a || result == 5 || result == mixed(a) || result == 2 * a);
}

static void *execute(void *unused)
{
	sigset_t all;

	sigfillset(&all);
	if (blocked)
		CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	for (long a = 6; !__atomic_load_n(&stop, __ATOMIC_RELAXED); a++) {
		uint32_t narrow = probed_narrow();
		uint64_t wide = probed_wide();

		check_result(a, probed_call(a));
		check_result(a, probed_saved(a) - a);
		CHECK(narrow == (narrow & 0xff) * UINT32_C(0x01010101));
		CHECK(wide == (wide & 0xff) * UINT64_C(0x0101010101010101));
		(void)probed_branch();
		CHECK(probed_switch() < 4);
	}
	return unused;
}

/* Changes fail while a probe or a breakpoint of a debugger stands on one of the sites; nothing else may happen. */
static void change(unsigned i)
{
	patchpoint_function_subject_call functions[] = {identity, mixed, five, load};
	struct patchpoint_txn txn;

	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_call(&txn, subject_call, functions[i % 4]);
	patchpoint_txn_set_call(&txn, subject_saved, functions[(i + 1) % 4]);
	patchpoint_txn_set_value(&txn, subject_narrow, (i & 0xff) * UINT32_C(0x01010101));
	patchpoint_txn_set_value(&txn, subject_wide, (i & 0xff) * UINT64_C(0x0101010101010101));
	patchpoint_txn_set_branch(&txn, subject_branch, i & 1);
	patchpoint_txn_set_switch(&txn, subject_switch, i % 4);
	if (patchpoint_txn_commit(&txn) == 0)
		__atomic_fetch_add(&changes, 1, __ATOMIC_RELAXED);
}

static volatile sig_atomic_t enough;

static void finish(int number)
{
	(void)number;
	enough = 1;
}

int main(int count, char **arguments)
{
	double seconds = count > 1 ? atof(arguments[1]) : 1;
	bool quiet = count > 2 && strcmp(arguments[2], "quiet") == 0, waits = count > 2 && strcmp(arguments[2], "waits") == 0;
	struct timespec now, start;
	pthread_t threads[2], blocking;
	int error;

	signal(SIGTERM, finish);
	/* A debugger sees it all the same, and may have gone when it comes. */
	signal(SIGINT, SIG_IGN);
	if (waits || (count > 2 && strcmp(arguments[2], "traps") == 0))
		moves_refused = -EINVAL;
	blocked = count > 2 && strcmp(arguments[2], "blocked") == 0;
	error = patchpoint_init();
	CHECK(error == 0 || error == -EBUSY);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, execute, NULL), 0);
	if (waits)
		CHECK_EQUAL(pthread_create(&blocking, NULL, block_for_moments, &stop), 0);
	for (unsigned i = 0;; i++) {
		change(i);
		if (quiet)
			usleep(1000);
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (enough || (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9 > seconds)
			break;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
	if (waits)
		CHECK_EQUAL(pthread_join(blocking, NULL), 0);
	printf("%" PRIu64 " changes\n", changes);
	return 0;
}
