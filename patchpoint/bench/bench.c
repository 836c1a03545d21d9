/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Compares patched code with the best code written by hand, in one run. All forms run in an order that is drawn anew for each
 * repetition, so drift and neighbours affect all of them. A form is compared with its group's first within each repetition. The
 * benchmark prints the median of these ratios, their quartiles, and whether the median's 95 % interval lies within 2 % of 1. It
 * asserts nothing about time.
 * Usage: patchpoint_bench [--quick]                 times of forms, then of changes
 *        patchpoint_bench --changes [--quick]       times of changes
 *        patchpoint_bench --instructions [--quick]  instructions of forms, counted one by one
 */
#include "bench.h"

#include <patchpoint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMS_MAX = 160, REPETITIONS = 201, REPETITIONS_OF_CHANGES = 101, REPETITIONS_QUICK = 3 };
static const double SAME_LOW = 0.98, SAME_HIGH = 1.02;

static struct form forms[FORMS_MAX];
static size_t form_count;
static double ns[FORMS_MAX][REPETITIONS], ratios[FORMS_MAX][REPETITIONS];
static volatile uint64_t sink;

static void forms_add(const struct form *more)
{
	for (; more->group && form_count < FORMS_MAX; more++)
		forms[form_count++] = *more;
}

static bool begins_group(size_t i)
{
	return i == 0 || strcmp(forms[i].group, forms[i - 1].group) != 0;
}

static double measure(const struct form *form, uint64_t ops)
{
	uint64_t start, passes = form->cold ? 1 : ops / form->ops;

	if (form->cold) {
		caches_thrash();
		start = now_ns();
		sink = form->run(passes);
		return (double)(now_ns() - start) / form->ops;
	}
	/* A short run first: the forms before have left their own code and branches in the caches. */
	sink = form->run(passes / 16 + 1);
	start = thread_ns();
	sink = form->run(passes);
	return (double)(thread_ns() - start) / (double)(passes * form->ops);
}

/* Fisher and Yates' shuffle. The numbers (Knuth's MMIX) need not be good, only different each time. */
static void shuffle(size_t *order, size_t count)
{
	static uint64_t state = 1;

	for (size_t i = count - 1; i > 0; i--) {
		size_t other, kept = order[i];

		state = state * 6364136223846793005 + 1442695040888963407;
		other = (size_t)((state >> 33) % (i + 1));
		order[i] = order[other];
		order[other] = kept;
	}
}

static void measure_all(size_t repetitions, uint64_t ops)
{
	size_t order[FORMS_MAX], first = 0;

	for (size_t i = 0; i < form_count; i++)
		order[i] = i;
	for (size_t repetition = 0; repetition < repetitions; repetition++) {
		shuffle(order, form_count);
		for (size_t i = 0; i < form_count; i++)
			ns[order[i]][repetition] = measure(&forms[order[i]], ops);
		for (size_t i = 0; i < form_count; i++) {
			first = begins_group(i) ? i : first;
			ratios[i][repetition] = ns[i][repetition] / ns[first][repetition];
		}
	}
}

static const char *verdict(struct spread interval)
{
	if (interval.low >= SAME_LOW && interval.high <= SAME_HIGH)
		return "within 2 %";
	return interval.high < 1 ? "less" : interval.low > 1 ? "more" : "not decided";
}

static void print_times(size_t repetitions)
{
	size_t patched = 0, same = 0;

	for (size_t i = 0; i < form_count; i++) {
		struct spread time = spread_of(ns[i], repetitions), ratio = spread_of(ratios[i], repetitions);
		const char *word = begins_group(i) ? "" : verdict(median_interval(ratios[i], repetitions));

		if (begins_group(i))
			printf("%s\n", forms[i].group);
		printf("  %-44s %8.3f ns   x %6.3f  (%6.3f - %6.3f)  %s\n", forms[i].name, time.median, ratio.median, ratio.low,
		       ratio.high, word);
		if (!forms[i].patched || forms[i].cold)
			continue;
		patched++;
		same += strcmp(word, "within 2 %") == 0;
	}
	printf("%zu of %zu patched forms with hot caches are within 2 %% of the first of their group\n", same, patched);
}

static int times_print(bool quick, bool only_changes)
{
	size_t repetitions = quick ? REPETITIONS_QUICK : REPETITIONS;
	struct patchpoint_status status;
	int error = patchpoint_init();

	if (!error)
		error = patchpoint_status(&status);
	if (error) {
		fprintf(stderr, "bench: cannot patch: %s\n", strerror(-error));
		return 1;
	}
	if (only_changes)
		return changes_print(quick ? REPETITIONS_QUICK : REPETITIONS_OF_CHANGES);
	printf("writer %s%s%s, %zu sites; %zu repetitions of all forms in drawn order, 1 thread, processor time\n"
	       "an operation's time: median; its ratio to the group's first: median (quartiles)\n",
	       status.writer_name, status.reason[0] ? ": " : "", status.reason, status.sites, repetitions);
	measure_all(repetitions, quick ? 10000 : 500000);
	print_times(repetitions);
	return changes_print(quick ? REPETITIONS_QUICK : REPETITIONS_OF_CHANGES);
}

int main(int count, char **arguments)
{
	bool quick = false, instructions = false, changes = false;

	for (int i = 1; i < count; i++) {
		if (strcmp(arguments[i], "--quick") == 0) {
			quick = true;
		} else if (strcmp(arguments[i], "--instructions") == 0) {
			instructions = true;
		} else if (strcmp(arguments[i], "--changes") == 0) {
			changes = true;
		} else if (strcmp(arguments[i], "--patch") == 0) {
			/* For tests that read the patched code. */
			return patchpoint_init() != 0;
		} else {
			fprintf(stderr, "usage: patchpoint_bench [--instructions | --changes] [--quick] | --patch\n");
			return 2;
		}
	}
	forms_add(single_forms);
	forms_add(row_forms);
	forms_add(variant_forms);
	if (!instructions)
		forms_add(read_forms);
	reads_prepare();
	return instructions ? instructions_print(forms, form_count, quick ? 16 : 160) : times_print(quick, changes);
}
