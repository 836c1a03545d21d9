/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The cost of a change: of one site, and of all sites of four keys, alone and with a thread that runs through them. */
#include "bench.h"

#include <patchpoint.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

PATCHPOINT_DECLARE_VALUE(single, int);
PATCHPOINT_DEFINE_VALUE(single, int, 0);

static bool stop;

static void *execute(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		for (int i = 0; i < 1000; i++)
			(void)patchpoint_value(single);
	return unused;
}

static void *execute_all(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		(void)sites_execute();
	return unused;
}

static int set_single(int value)
{
	return patchpoint_set_value(single, value);
}

struct costs {
	double *wall_us;
	double *cpu_us;
};

static int measure(const char *name, int (*set)(int), size_t repetitions, int siblings, struct costs costs)
{
	struct patchpoint_status before, after;
	int error = set(0);

	patchpoint_status(&before);
	for (size_t i = 0; i < repetitions && !error; i++) {
		uint64_t start = now_ns(), used = thread_ns();

		/* Every byte of the immediate differs from the one before. */
		error = set((int)(0x01010101 * (1 + i % 100)));
		costs.cpu_us[i] = (double)(thread_ns() - used) / 1000;
		costs.wall_us[i] = (double)(now_ns() - start) / 1000;
	}
	patchpoint_status(&after);
	if (!error)
		printf("  %-10s %5.0f sites, %d running siblings: median %9.2f us elapsed, %9.2f us of processor; %llu traps\n", name,
		       (double)(after.sites_written - before.sites_written) / (double)repetitions, siblings,
		       median(costs.wall_us, repetitions), median(costs.cpu_us, repetitions),
		       (unsigned long long)(after.traps - before.traps));
	return error;
}

/* The floor: what the kernel takes to write one byte of code. Three such writes change a site while threads run. */
static void measure_floor(size_t repetitions, struct costs costs)
{
	int file = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	unsigned char byte = *(volatile unsigned char *)(uintptr_t)execute;

	for (size_t i = 0; i < repetitions; i++) {
		uint64_t used = thread_ns(), start = now_ns();
		ssize_t written = 0;

		for (int write = 0; write < 100; write++)
			written += pwrite(file, &byte, 1, (off_t)(uintptr_t)execute);
		costs.cpu_us[i] = written == 100 ? (double)(thread_ns() - used) / 100000 : 0;
		costs.wall_us[i] = (double)(now_ns() - start) / 100000;
	}
	printf("  one byte through /proc/self/mem: median %9.2f us elapsed, %9.2f us of processor\n",
	       median(costs.wall_us, repetitions), median(costs.cpu_us, repetitions));
	close(file);
}

/* libc counts the process as one with threads from the first thread on: "alone" comes first. */
int transactions_measure(size_t repetitions)
{
	double *memory = malloc(2 * repetitions * sizeof *memory);
	struct costs costs = {memory, memory + repetitions};
	pthread_t sibling;
	int error;

	if (!memory)
		return -ENOMEM;
	printf("transactions\n");
	measure_floor(repetitions, costs);
	error = measure("one key", set_single, repetitions, 0, costs);
	if (!error)
		error = measure("four keys", site_keys_set, repetitions, 0, costs);
	if (!error)
		error = -pthread_create(&sibling, NULL, execute, NULL);
	if (!error) {
		error = measure("one key", set_single, repetitions, 1, costs);
		__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
		pthread_join(sibling, NULL);
		__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
	}
	if (!error)
		error = -pthread_create(&sibling, NULL, execute_all, NULL);
	if (!error) {
		error = measure("four keys", site_keys_set, repetitions, 1, costs);
		__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
		pthread_join(sibling, NULL);
	}
	printf("metadata: %zu bytes a site in the file, 8 bytes a site in memory\n", sizeof(struct patchpoint_site));
	free(memory);
	return error;
}
