/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program with 200 keys and as many sites as it is linked with, for bench_startup. It prints the nanoseconds of processor time
 * used when main began; with "change" also the elapsed and the processor time of a key's first two changes; with "change beside"
 * beside a running thread; with "change beside initialised" patchpoint_init is called before.
 */
#define _GNU_SOURCE
#include <patchpoint.h>

#include "startup_keys.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The program without sites also has the keys, and uses the library. */
#define DEFINE(key) \
	PATCHPOINT_DECLARE_VALUE(key, int); \
	PATCHPOINT_DEFINE_VALUE(key, int, 1);
KEYS(DEFINE)

#ifdef AT_LOAD
PATCHPOINT_PATCH_AT_LOAD;
#endif

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *run(void *unused)
{
	for (;;)
		__asm__ volatile("" ::: "memory");
	return unused;
}

static int change(int value)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC), used = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int error = patchpoint_set_value(key_100, value);

	used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - used;
	printf(" %llu %llu", (unsigned long long)(clock_ns(CLOCK_MONOTONIC) - start), (unsigned long long)used);
	return error;
}

int main(int count, char **arguments)
{
	uint64_t used = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	pthread_t thread;
	int error = 0;

	/* A process that counts instructions counts to here. */
	if (count > 1 && strcmp(arguments[1], "stop") == 0)
		raise(SIGSTOP);
	printf("%llu", (unsigned long long)used);
	if (count > 3)
		error = patchpoint_init();
	if (count > 2 && !error) {
		error = pthread_create(&thread, NULL, run, NULL);
		usleep(1000);
	}
	if (count > 1 && strcmp(arguments[1], "change") == 0)
		error = error || change(2) || change(3);
	printf("\n");
	fflush(stdout);
	_exit(error ? 1 : 0);
}
