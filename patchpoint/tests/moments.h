/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread that blocks SIGTRAP for moments: a change by traps waits for it, or copies pages. */
#ifndef MOMENTS_H
#define MOMENTS_H

#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

enum { MOMENT_US = 1000 };

/* The thread's function; `stop` is the flag that ends it. */
static void *block_for_moments(void *stop)
{
	sigset_t trap;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
		CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &trap, NULL), 0);
		usleep(MOMENT_US);
		CHECK_EQUAL(pthread_sigmask(SIG_UNBLOCK, &trap, NULL), 0);
		usleep(MOMENT_US);
	}
	return NULL;
}

#endif
