/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program for bolt.sh: prints its results before and after all its keys change, the changes that were refused, the status, and of
 * each site whether it lies in the code that was executed.
 * WITHOUT_BRANCHES leaves out sites with jumps, which BOLT does not follow.
 */
#include <patchpoint.h>

#include <stdint.h>
#include <stdio.h>

static long add_one(long x) { return x + 1; }
static long triple(long x) { return x * 3 + 2; }

PATCHPOINT_DECLARE_BRANCH(extra);
PATCHPOINT_DEFINE_BRANCH(extra, false);
PATCHPOINT_DECLARE_VALUE(amount, int);
PATCHPOINT_DEFINE_VALUE(amount, int, 5);
PATCHPOINT_DECLARE_CALL(operation, long, long);
PATCHPOINT_DEFINE_CALL(operation, add_one);
PATCHPOINT_DEFINE_SAVED(operation);
PATCHPOINT_DECLARE_SWITCH(way, 3);
PATCHPOINT_DEFINE_SWITCH(way, 3, 0);

static uintptr_t executed, executed_plain; /* addresses in work and plain_work */

/* Where the caller is executed. (BOLT keeps what an address in an instruction means.) */
__attribute__((noinline)) static uintptr_t here(void)
{
	return (uintptr_t)__builtin_return_address(0);
}

__attribute__((noinline)) static long work(long rounds)
{
	long sum = 0;

	for (long i = 0; i < rounds; i++) {
		sum += patchpoint_value(amount);
		sum += patchpoint_call(operation, i);
		sum += patchpoint_call_saved(operation, i);
#ifndef WITHOUT_BRANCHES
		if (patchpoint_unlikely(extra))
			sum += 1000;
		switch (patchpoint_switch(way)) {
		case 0: sum += 1; break;
		case 1: sum += 20; break;
		default: sum += 300;
		}
#endif
	}
	executed = here();
	return sum;
}

/* Without branches: BOLT moves it unless told. */
__attribute__((noinline)) static long plain_work(long rounds)
{
	long sum = 0;

	for (long i = 0; i < rounds; i++)
		sum += patchpoint_value(amount) * patchpoint_call(operation, i);
	executed_plain = here();
	return sum;
}

static void report(const char *key, int error)
{
	if (error)
		printf("refused: %s %d\n", key, error);
}

static bool is_near(uintptr_t one, uintptr_t other)
{
	return one < other + 65536 && other < one + 65536;
}

/* BOLT moves functions by megabytes. */
static int site_report(const struct patchpoint_site_info *info, void *unused)
{
	uintptr_t at = (uintptr_t)info->address;

	(void)unused;
	printf("site: %s, %s, %s\n", info->name, info->state, is_near(at, executed) || is_near(at, executed_plain) ? "in what runs" : "elsewhere");
	return 0;
}

int main(void)
{
	struct patchpoint_status status;

	printf("%ld %ld\n", work(10), plain_work(10));
	report("amount", patchpoint_set_value(amount, 7));
	report("extra", patchpoint_set_branch(extra, true));
	report("way", patchpoint_set_switch(way, 2));
	report("operation", patchpoint_set_call(operation, triple));
	printf("%ld %ld\n", work(10), plain_work(10));
	if (patchpoint_status(&status) != 0)
		return 1;
	printf("text: %s\n", status.text_reason);
	patchpoint_site_iterate(site_report, NULL);
	return 0;
}
