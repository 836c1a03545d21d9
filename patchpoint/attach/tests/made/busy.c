/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program with busy threads that execute sites of keys of every kind, and that answers questions on its standard input:
 *   see     the values as its sites have them
 *   check   changes every key and back by the library's own means; 0, or the first error
 *   own N   sets the value `rounds` itself
 *   call F  sets the call `step` itself, to step_F
 *   churn   changes another key all the time, until the end
 *   storm   makes threads and waits for their ends all the time, until the end
 *   fork    forks a child that waits, and gives its number
 *   vfork   has a thread wait for a child of vfork, for ever
 *   exec    executes another program
 *   stalls  for each thread, the longest time between two of its rounds since the last question, in nanoseconds
 * Arguments: threads, and "plain" to leave sites as they were compiled, or "quiet" to count no operations.
 */
#define _GNU_SOURCE
#include <patchpoint.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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
PATCHPOINT_DECLARE_SWITCH(mode, 3);
PATCHPOINT_DEFINE_SWITCH(mode, 3, 0);
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

__attribute__((noinline)) unsigned long step_zero(unsigned long x);
unsigned long step_zero(unsigned long x) { return (void)x, 0; }
__attribute__((noinline)) unsigned long step_low(unsigned long x);
unsigned long step_low(unsigned long x) { return (unsigned)x; }
__attribute__((noinline)) unsigned long step_plus(unsigned long x);
unsigned long step_plus(unsigned long x) { return x + 3; }

PATCHPOINT_PRESERVING unsigned long step_keep(unsigned long x);
PATCHPOINT_PRESERVING unsigned long step_keep(unsigned long x)
{
	for (int i = 0; i < 8; i++)
		x = x * 6364136223846793005ul + 1;
	return x;
}

static const struct {
	const char *name;
	unsigned long (*function)(unsigned long x);
} steps[] = {{"identity", step_identity}, {"mix", step_mix}, {"other", step_other},
	     {"zero", step_zero},	  {"low", step_low}, {"plus", step_plus},
	     {"keep", step_keep}};
enum { STEPS = sizeof steps / sizeof steps[0] };

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
	switch (patchpoint_switch(mode)) {
	case 1:
		x ^= x >> 32;
		break;
	case 2:
		x *= 5;
		break;
	}
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

static void *once(void *number)
{
	return (void *)work((unsigned long)number);
}

static void *storm(void *unused)
{
	pthread_t threads[4];

	for (;;) {
		for (unsigned long i = 0; i < 4; i++)
			if (pthread_create(&threads[i], NULL, once, (void *)i) != 0)
				abort();
		for (unsigned i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	}
	return unused;
}

/* Only a fatal signal interrupts the thread meanwhile. */
static void *vfork_one(void *unused)
{
	if (vfork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return unused;
}

static pid_t fork_one(void)
{
	pid_t child = fork();

	if (child != 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static int call(const char *name)
{
	for (unsigned i = 0; i < STEPS; i++)
		if (strcmp(steps[i].name, name) == 0)
			return patchpoint_set_call(step, steps[i].function);
	return -1;
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
	error = error ? error : patchpoint_set_switch(mode, 2);
	error = error ? error : patchpoint_set_switch(mode, 0);
	error = error ? error : patchpoint_set_call(step, step_other);
	return error ? error : patchpoint_set_call(step, step_identity);
}

/* Reads values through sites, not through keys. */
static void see(void)
{
	/* The argument tells all steps apart, also by its upper half. */
	const unsigned long asked = 0x100000005;
	unsigned long answer = patchpoint_call(step, asked);
	const char *which = "none";

	for (unsigned i = 0; i < STEPS; i++)
		if (steps[i].function(asked) == answer)
			which = steps[i].name;

	printf("slow=%d rounds=%d wide=%lu step=%s mode=%u\n", patchpoint_unlikely(slow) ? 1 : 0,
	       patchpoint_value(rounds), patchpoint_value(wide), which, (unsigned)patchpoint_switch(mode));
}

int main(int count, char **arguments)
{
	long threads = count > 1 ? atol(arguments[1]) : 4;
	pthread_t thread;
	char line[64], name[32];

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
		} else if (sscanf(line, "call %31s", name) == 1) {
			printf("call %d\n", call(name));
		} else if (strcmp(line, "churn\n") == 0) {
			printf("churn %d\n", pthread_create(&thread, NULL, churn, NULL));
		} else if (strcmp(line, "storm\n") == 0) {
			printf("storm %d\n", pthread_create(&thread, NULL, storm, NULL));
		} else if (strcmp(line, "fork\n") == 0) {
			printf("%d\n", (int)fork_one());
		} else if (strcmp(line, "vfork\n") == 0) {
			printf("vfork %d\n", pthread_create(&thread, NULL, vfork_one, NULL));
		} else if (strcmp(line, "exec\n") == 0) {
			printf("exec\n");
			execlp("sleep", "sleep", "600", (char *)NULL);
		} else if (strcmp(line, "stalls\n") == 0) {
			for (long i = 0; i < threads; i++)
				printf("%llu ", (unsigned long long)__atomic_exchange_n(&longest[i], 0, __ATOMIC_RELAXED));
			printf("\n");
		}
	}
	return 0;
}
