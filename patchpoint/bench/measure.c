/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t thread_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct spread spread_of(double *samples, size_t count)
{
	qsort(samples, count, sizeof *samples, compare);
	return (struct spread){samples[count / 4], samples[count / 2], samples[count - 1 - count / 4]};
}

/* The ranks are n/2 ± 1.96 √n/2: the number of samples below the median is binomial, here in its normal approximation. */
struct spread median_interval(const double *samples, size_t count)
{
	size_t half = (size_t)ceil(0.98 * sqrt((double)count)), middle = count / 2;

	half = half < middle ? half : middle;
	return (struct spread){samples[middle - half], samples[middle], samples[middle + half < count ? middle + half : count - 1]};
}
