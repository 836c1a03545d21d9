/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program for bolt.sh: prints its results before and after all its keys change, the changes that were refused, and the status.
 * WITHOUT_BRANCHES leaves out sites with jumps, which BOLT does not follow.
 */
#include <patchpoint.h>

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
	return sum;
}

static void report(const char *key, int error)
{
	if (error)
		printf("refused: %s %d\n", key, error);
}

int main(void)
{
	struct patchpoint_status status;

	printf("%ld\n", work(10));
	report("amount", patchpoint_set_value(amount, 7));
	report("extra", patchpoint_set_branch(extra, true));
	report("way", patchpoint_set_switch(way, 2));
	report("operation", patchpoint_set_call(operation, triple));
	printf("%ld\n", work(10));
	if (patchpoint_status(&status) != 0)
		return 1;
	printf("text: %s\n", status.text_reason);
	return 0;
}
