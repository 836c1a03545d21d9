/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads add and remove users of one branch, a bounded number of times, while another thread sets it. A thread that has a user of
 * its own always finds the branch true; when all users are gone the branch is what it was last set to.
 */
#include <patchpoint.h>

#include "check.h"

#include <errno.h>
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 4000 };

PATCHPOINT_DECLARE_BRANCH(traced);
PATCHPOINT_DEFINE_BRANCH(traced, false);

static unsigned long refused;

static void check_true(void)
{
	CHECK(patchpoint_unlikely(traced));
	CHECK(patchpoint_likely(traced));
	CHECK(patchpoint_branch_users(traced) > 0);
}

static void *use(void *argument)
{
	uint32_t seed = (uint32_t)(uintptr_t)argument, mine = 0;

	for (int i = 0; i < ROUNDS; i++) {
		seed = seed * 1664525 + 1013904223;
		if (mine > 0 && seed >> 30) {
			check_true();
			CHECK_EQUAL(patchpoint_branch_dec(traced), 0);
			mine--;
		} else {
			CHECK_EQUAL(patchpoint_branch_inc(traced), 0);
			mine++;
			check_true();
		}
		if (mine > 0)
			check_true();
	}
	for (; mine > 0; mine--)
		CHECK_EQUAL(patchpoint_branch_dec(traced), 0);
	return NULL;
}

static void *set(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		int error = patchpoint_set_branch(traced, i & 1);

		CHECK(error == 0 || (error == -EBUSY && !(i & 1)));
		refused += error != 0;
	}
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS + 1];
	struct patchpoint_status status;

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, use, (void *)(i + 1)), 0);
	CHECK_EQUAL(pthread_create(&threads[THREADS], NULL, set, NULL), 0);
	for (int i = 0; i <= THREADS; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
	CHECK_EQUAL(patchpoint_branch_users(traced), 0);
	CHECK(patchpoint_unlikely(traced)); /* the last change was to true */
	CHECK_EQUAL(patchpoint_set_branch(traced, false), 0);
	CHECK(!patchpoint_unlikely(traced) && !patchpoint_likely(traced));
	CHECK_EQUAL(patchpoint_branch_dec(traced), -ERANGE);
	CHECK_EQUAL(patchpoint_status(&status), 0);
	printf("users: %d threads, %d rounds each, %" PRIu64 " transactions; %lu of %d changes to false were refused\n", THREADS,
	       ROUNDS, status.transactions, refused, ROUNDS / 2);
	return 0;
}
