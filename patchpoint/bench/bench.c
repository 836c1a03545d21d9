/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Patched code against the best code written by hand, in one run: all forms in turn, many times, so that drift meets all of
 * them; medians of the repetitions, and ratios to the first form of each group. Nothing is asserted about time.
 * Usage: patchpoint_bench [--quick]
 *        patchpoint_bench --list              the forms: number, group, name, operations in a pass
 *        patchpoint_bench --run NUMBER PASSES [--as-compiled]
 * The last only executes one form, for counting its instructions (instructions.sh); with --as-compiled nothing is patched.
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

static int measure_all(bool quick)
{
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

static int list(void)
{
	for (size_t i = 0; i < form_count; i++)
		if (!forms[i].cold)
			printf("%02zu\t%s\t%s\t%u\n", i, forms[i].group, forms[i].name, forms[i].reads);
	return 0;
}

/* Whether every site is patched; otherwise counts would not be what they are taken for. */
static int check_site(const struct patchpoint_site_info *info, void *unused)
{
	(void)unused;
	return strcmp(info->state, "data") == 0;
}

static int run(size_t number, uint64_t passes, bool as_compiled)
{
	if (!as_compiled && (forms_prepare() != 0 || patchpoint_site_iterate(check_site, NULL) != 0)) {
		fprintf(stderr, "patchpoint_bench: sites cannot be patched here\n");
		return 1;
	}
	sink = forms[number].run(passes);
	return 0;
}

int main(int count, char **arguments)
{
	if (count == 2 && strcmp(arguments[1], "--list") == 0)
		return list();
	if (count >= 4 && strcmp(arguments[1], "--run") == 0 && strtoul(arguments[2], NULL, 10) < form_count)
		return run(strtoul(arguments[2], NULL, 10), strtoull(arguments[3], NULL, 10), count > 4);
	if (count > 2 || (count == 2 && strcmp(arguments[1], "--quick") != 0)) {
		fprintf(stderr, "usage: patchpoint_bench [--quick | --list | --run NUMBER PASSES [--as-compiled]]\n");
		return 2;
	}
	return measure_all(count == 2);
}
