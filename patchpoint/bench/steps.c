/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Instructions counted by single steps: exact, on any host that lets a process trace its child. */
#define _GNU_SOURCE
#include "bench.h"

#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

/* Keeps both processes on one processor, where a step is a switch between them; across processors it takes far longer. */
void steps_prepare(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof set, &set);
}

void steps_mark(void)
{
	raise(SIGSTOP);
}

/* Counts steps. It drops the signal that stops the child, so each wait is for the child's stop and never for its continuation. */
bool steps_count(pid_t child, uint64_t *steps)
{
	int status;

	for (*steps = 0;; ++*steps) {
		if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
			return false;
		if (WSTOPSIG(status) == SIGSTOP)
			return true;
	}
}
