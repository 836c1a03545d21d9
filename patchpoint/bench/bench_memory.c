/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The memory that patched sites take: a page of text that is written belongs to its process alone. Two keys have 2,000 sites each
 * (20 with PATCHPOINT_FEW_SITES), those of one close together, those of the other a page apart. Prints the process's own memory
 * after each step, by the kernel's count (/proc/self/smaps_rollup).
 * Usage: patchpoint_bench_memory
 */
#include <patchpoint.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

PATCHPOINT_DECLARE_BRANCH(near);
PATCHPOINT_DEFINE_BRANCH(near, false);
PATCHPOINT_DECLARE_BRANCH(apart);
PATCHPOINT_DEFINE_BRANCH(apart, false);

#define TEN(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define HUNDRED(X, n) \
	TEN(X, n##0) TEN(X, n##1) TEN(X, n##2) TEN(X, n##3) TEN(X, n##4) TEN(X, n##5) TEN(X, n##6) TEN(X, n##7) TEN(X, n##8) TEN(X, n##9)
#define THOUSAND(X, n) \
	HUNDRED(X, n##0) HUNDRED(X, n##1) HUNDRED(X, n##2) HUNDRED(X, n##3) HUNDRED(X, n##4) HUNDRED(X, n##5) HUNDRED(X, n##6) \
	HUNDRED(X, n##7) HUNDRED(X, n##8) HUNDRED(X, n##9)
#define NEAR(n) \
	static __attribute__((__used__, __noinline__)) int near_##n(void) { return patchpoint_unlikely(near) ? n : 0; }
#define APART(n) \
	static __attribute__((__used__, __noinline__, __aligned__(4096))) int apart_##n(void) { return patchpoint_unlikely(apart) ? n : 0; }
#ifdef FEW_SITES
#define MANY "20"
TEN(NEAR, 1) TEN(NEAR, 2) TEN(APART, 1) TEN(APART, 2)
#else
#define MANY "2,000"
THOUSAND(NEAR, 1) THOUSAND(NEAR, 2) THOUSAND(APART, 1) THOUSAND(APART, 2)
#endif

/* Returns a line of /proc/self/smaps_rollup in kB, -1 if there is none. */
static long kilobytes(const char *name)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[128];
	long found = -1;

	while (file && found < 0 && fgets(line, sizeof line, file))
		if (strncmp(line, name, strlen(name)) == 0)
			(void)sscanf(line + strlen(name), ": %ld", &found);
	if (file)
		fclose(file);
	return found;
}

static void report(const char *step, long *before)
{
	long own = kilobytes("Private_Dirty");

	printf("  %-52s %6ld kB  %+6ld kB\n", step, own, own - *before);
	*before = own;
}

static void *sleep_on(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(void)
{
	long before = kilobytes("Private_Dirty");
	pthread_t thread;

	if (before < 0) {
		fprintf(stderr, "bench: the kernel does not say what is private (/proc/self/smaps_rollup)\n");
		return 1;
	}
	if (pthread_create(&thread, NULL, sleep_on, NULL) != 0) {
		fprintf(stderr, "bench: no thread can be made\n");
		return 1;
	}
	printf("memory that the process has for itself, and what each step adds\n");
	report("a second thread, no change yet", &before);
	if (patchpoint_set_branch(near, true) != 0)
		goto failed;
	report("a key with " MANY " sites close together is changed", &before);
	if (patchpoint_set_branch(apart, true) != 0)
		goto failed;
	report("a key with " MANY " sites a page apart is changed", &before);
	if (patchpoint_set_branch(apart, false) != 0 || patchpoint_set_branch(near, false) != 0)
		goto failed;
	report("both are changed back", &before);
	return 0;
failed:
	fprintf(stderr, "bench: a key cannot be changed\n");
	return 1;
}
