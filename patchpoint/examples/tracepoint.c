/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A tracepoint that costs one nop while it is off. With any argument the tracepoint stays on at the end. */
#include <patchpoint.h>

#include <stdio.h>

PATCHPOINT_DECLARE_BRANCH(trace_sum);
PATCHPOINT_DEFINE_BRANCH(trace_sum, false);

/* Returns its caller's result: nothing is live across the call, so the caller saves no register for it. -1: no output. */
__attribute__((noinline, cold)) static long traced(long n, long sum)
{
	return printf("trace: sum of %ld is %ld\n", n, sum) < 0 ? -1 : sum;
}

__attribute__((noinline)) long sum_to(long n);
long sum_to(long n)
{
	long sum = n * (n + 1) / 2;

	if (patchpoint_unlikely(trace_sum))
		return traced(n, sum);
	return sum;
}

int main(int count, char **arguments)
{
	int error = patchpoint_init();

	(void)arguments;

	printf("off: %ld\n", sum_to(10));
	error = error ? error : patchpoint_set_branch(trace_sum, true);
	printf("on: %ld\n", sum_to(100));
	error = error ? error : patchpoint_set_branch(trace_sum, count > 1);
	printf("then: %ld\n", sum_to(1000));
	return error ? 1 : 0;
}
