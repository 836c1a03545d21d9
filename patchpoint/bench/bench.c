/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Patched code against the best code written by hand, in one run: all forms in turn, many times, so that drift meets all of
 * them; medians of the repetitions, and ratios to the first form of each group. Nothing is asserted about time.
 * Usage: patchpoint_bench [--quick]
 */
#define _GNU_SOURCE
#include "bench.h"

#include <patchpoint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FORMS_MAX = 64, REPETITIONS_MAX = 101 };

static double results[FORMS_MAX][REPETITIONS_MAX];
static volatile uint64_t sink;

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(double *values, size_t count)
{
	qsort(values, count, sizeof *values, compare);
	return values[count / 2];
}

static double measure(const struct form *form, uint64_t ops)
{
	uint64_t start, passes = form->cold ? 1 : ops / form->reads;

	if (form->cold)
		caches_thrash();
	start = now_ns();
	sink = form->run(passes);
	return (double)(now_ns() - start) / (double)(passes * form->reads);
}

int main(int count, char **arguments)
{
	bool quick = count > 1 && strcmp(arguments[1], "--quick") == 0;
	size_t repetitions = quick ? 3 : 51;
	uint64_t ops = quick ? 10000 : 1000000;
	struct patchpoint_status status;
	double first = 1;
	int error;

	error = forms_prepare();
	if (!error)
		error = patchpoint_status(&status);
	if (error || form_count > FORMS_MAX) {
		fprintf(stderr, "bench: cannot patch: %s\n", strerror(-error));
		return 1;
	}
	printf("writer %s%s%s, %zu sites, %zu repetitions interleaved, 1 thread\n", status.writer_name,
	       status.reason[0] ? ": " : "", status.reason, status.sites, repetitions);
	for (size_t repetition = 0; repetition < repetitions; repetition++)
		for (size_t i = 0; i < form_count; i++)
			results[i][repetition] = measure(&forms[i], ops);
	for (size_t i = 0; i < form_count; i++) {
		double ns = median(results[i], repetitions);

		if (i == 0 || strcmp(forms[i].group, forms[i - 1].group) != 0) {
			printf("%s\n", forms[i].group);
			first = ns;
		}
		printf("  %-44s %9.3f ns/op   x %.3f\n", forms[i].name, ns, ns / first);
	}
	error = transactions_measure(quick ? 3 : 201);
	if (error)
		fprintf(stderr, "bench: a transaction failed: %s\n", strerror(-error));
	return error ? 1 : 0;
}
