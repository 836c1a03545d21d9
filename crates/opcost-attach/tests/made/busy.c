/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program with busy threads that execute sites of three keys, and that answers questions on its standard input:
 *   see     the values as its sites have them
 *   check   changes every key and back by the library's own means; 0, or the first error
 *   own N   sets the value `rounds` itself
 *   churn   changes another key all the time, until the end
 *   stalls  for each thread, the longest time between two of its rounds since the last question, in nanoseconds
 * Arguments: threads, and "plain" to leave sites as they were compiled, or "quiet" to count no operations.
 */
#define _GNU_SOURCE
#include <patchpoint.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 64, BATCH = 256 };

PATCHPOINT_DECLARE_BRANCH(slow);
PATCHPOINT_DEFINE_BRANCH(slow, false);
PATCHPOINT_DECLARE_VALUE(rounds, int);
PATCHPOINT_DEFINE_VALUE(rounds, int, 4);
PATCHPOINT_DECLARE_VALUE(wide, unsigned long);
PATCHPOINT_DEFINE_VALUE(wide, unsigned long, 7);
PATCHPOINT_DECLARE_CALL(step, unsigned long, unsigned long);
PATCHPOINT_DECLARE_BRANCH(churned);
PATCHPOINT_DEFINE_BRANCH(churned, false);

__attribute__((noinline)) unsigned long step_identity(unsigned long x);
unsigned long step_identity(unsigned long x) { return x; }
__attribute__((noinline)) unsigned long step_mix(unsigned long x);
unsigned long step_mix(unsigned long x)
{
	for (int i = 0; i < 8; i++)
		x = x * 6364136223846793005ul + 1442695040888963407ul;
	return x;
}
__attribute__((noinline)) unsigned long step_other(unsigned long x);
unsigned long step_other(unsigned long x) { return x * 3 + (x >> 7) + 1; }

PATCHPOINT_DEFINE_CALL(step, step_identity);
PATCHPOINT_DEFINE_SAVED(step);

static uint64_t longest[THREADS_MAX];
static bool quiet;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

__attribute__((noinline)) unsigned long work(unsigned long x);
unsigned long work(unsigned long x)
{
	int n = patchpoint_value(rounds);

	for (int i = 0; i < n; i++)
		x = patchpoint_call_saved(step, x) + patchpoint_value(wide);
	if (patchpoint_unlikely(slow))
		for (int i = 0; i < 64; i++)
			x = x * 6364136223846793005ul + 1442695040888963407ul;
	if (patchpoint_likely(churned))
		x++;
	return patchpoint_call(step, x);
}

static void *spin(void *number)
{
	uint64_t *mine = &longest[(size_t)number], before = now_ns();
	volatile unsigned long result = 1;

	for (;;) {
		for (int i = 0; i < BATCH; i++)
			result = work(result);
		if (!quiet)
			patchpoint_ops_add(BATCH);
		uint64_t now = now_ns();
		if (now - before > __atomic_load_n(mine, __ATOMIC_RELAXED))
			__atomic_store_n(mine, now - before, __ATOMIC_RELAXED);
		before = now;
	}
	return NULL;
}

static void *churn(void *unused)
{
	for (bool on = true;; on = !on)
		if (patchpoint_set_branch(churned, on) != 0)
			abort();
	return unused;
}

static int check(void)
{
	int error = patchpoint_init();

	error = error ? error : patchpoint_set_branch(slow, true);
	error = error ? error : patchpoint_set_branch(slow, false);
	error = error ? error : patchpoint_set_value(rounds, 9);
	error = error ? error : patchpoint_set_value(rounds, 4);
	error = error ? error : patchpoint_set_value(wide, 8);
	error = error ? error : patchpoint_set_value(wide, 7);
	error = error ? error : patchpoint_set_call(step, step_other);
	return error ? error : patchpoint_set_call(step, step_identity);
}

/* Through sites, not through keys. */
static void see(void)
{
	unsigned long answer = patchpoint_call(step, 5);
	const char *which = answer == step_identity(5) ? "identity" : answer == step_mix(5) ? "mix" : "other";

	printf("slow=%d rounds=%d wide=%lu step=%s\n", patchpoint_unlikely(slow) ? 1 : 0, patchpoint_value(rounds),
	       patchpoint_value(wide), which);
}

int main(int count, char **arguments)
{
	long threads = count > 1 ? atol(arguments[1]) : 4;
	pthread_t thread;
	char line[64];

	const char *how = count > 2 ? arguments[2] : "";

	quiet = strcmp(how, "quiet") == 0;
	if (threads > THREADS_MAX || (strcmp(how, "plain") != 0 && patchpoint_init() != 0))
		return 1;
	for (long i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, spin, (void *)i) != 0)
			return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof line, stdin)) {
		if (strcmp(line, "see\n") == 0) {
			see();
		} else if (strcmp(line, "check\n") == 0) {
			printf("check %d\n", check());
		} else if (strncmp(line, "own ", 4) == 0) {
			printf("own %d\n", patchpoint_set_value(rounds, atoi(line + 4)));
		} else if (strcmp(line, "churn\n") == 0) {
			printf("churn %d\n", pthread_create(&thread, NULL, churn, NULL));
		} else if (strcmp(line, "stalls\n") == 0) {
			for (long i = 0; i < threads; i++)
				printf("%llu ", (unsigned long long)__atomic_exchange_n(&longest[i], 0, __ATOMIC_RELAXED));
			printf("\n");
		}
	}
	return 0;
}
