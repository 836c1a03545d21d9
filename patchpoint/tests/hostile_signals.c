/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cases about SIGTRAP and about threads that are stopped at a bad moment. */
#define _GNU_SOURCE
#include "hostile.h"

#include "../src/internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int step;

static void wait_for_step(int wanted)
{
	while (__atomic_load_n(&step, __ATOMIC_SEQ_CST) < wanted)
		sched_yield();
}

static void go_to_step(int next)
{
	__atomic_store_n(&step, next, __ATOMIC_SEQ_CST);
}

static void mask_trap(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	CHECK_EQUAL(pthread_sigmask(how, &set, NULL), 0);
}

static pid_t blocking_thread;

static void *block_and_unblock(void *unused)
{
	blocking_thread = gettid();
	mask_trap(SIG_BLOCK);
	go_to_step(1);
	wait_for_step(2);
	mask_trap(SIG_UNBLOCK);
	go_to_step(3);
	wait_for_step(4);
	return unused;
}

/* A thread that blocks SIGTRAP, and the changing thread itself, are no reason to refuse a change. */
void case_blocked(void)
{
	bool moves = moves_refused >= 0;
	char named[64];
	pthread_t thread;

	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(set_all(2), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, block_and_unblock, NULL), 0);
	wait_for_step(1);
	CHECK_EQUAL(set_all(3), 0);
	check_all(3);
	CHECK_EQUAL(status_now().protocol, moves ? PATCHPOINT_PROTOCOL_MOVE : PATCHPOINT_PROTOCOL_COPY);
	if (!moves) {
		/* The kernel gives a new thread its creator's name. */
		snprintf(named, sizeof named, "trap: thread %d (hostile) blocks SIGTRAP", blocking_thread);
		CHECK(strstr(status_now().protocol_reason, named));
		CHECK(strstr(status_now().protocol_reason, "move: mremap: Invalid argument"));
	}
	go_to_step(2);
	wait_for_step(3);
	CHECK_EQUAL(set_all(4), 0);
	check_all(4);
	mask_trap(SIG_BLOCK);
	CHECK_EQUAL(set_all(5), 0);
	check_all(5);
	mask_trap(SIG_UNBLOCK);
	CHECK_EQUAL(set_all(6), 0);
	check_all(6);
	go_to_step(4);
	pthread_join(thread, NULL);
}

static int early_calls, late_calls;
static struct sigaction under_late;

static void early_handler(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	early_calls++;
}

/* Installed over the library's handler, it passes traps on to that: a loop, if the library called it back for ever. */
static void late_handler(int number, siginfo_t *info, void *context)
{
	late_calls++;
	under_late.sa_sigaction(number, info, context);
}

static void install(void (*handler)(int, siginfo_t *, void *), struct sigaction *old)
{
	struct sigaction action;

	memset(&action, 0, sizeof action);
	action.sa_sigaction = handler;
	action.sa_flags = SA_SIGINFO;
	CHECK_EQUAL(sigaction(SIGTRAP, &action, old), 0);
}

/* Raises every kind of SIGTRAP that is not the library's. */
static int foreign_traps(void)
{
	raise(SIGTRAP);
	__asm__ volatile("int3");
	__asm__ volatile(".byte 0xcd, 0x03"); /* the long form */
	return 3;
}

void case_chained(void)
{
	pthread_t thread;

	install(early_handler, NULL);
	CHECK_EQUAL(patchpoint_init(), 0);
	start_sibling(&thread);
	CHECK_EQUAL(set_all(1), 0);
	int expected = foreign_traps();
	CHECK_EQUAL(early_calls, expected);
	install(late_handler, &under_late);
	expected += foreign_traps();
	CHECK_EQUAL(early_calls, expected);
	CHECK_EQUAL(late_calls, 3);
	/* The next transaction puts the library's handler on top; the other handlers still get traps that are not the library's. */
	for (int i = 0; i < 100; i++)
		CHECK_EQUAL(set_all(i), 0);
	CHECK_EQUAL(late_calls, 3);
	expected += foreign_traps();
	CHECK_EQUAL(late_calls, 6);
	CHECK_EQUAL(early_calls, expected);
	stop_sibling(thread);
	check_all(99);
}

static int status_of_child(void (*body)(void))
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		body();
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	return status;
}

static void die_by_breakpoint(void)
{
	pthread_t thread;

	start_sibling(&thread);
	CHECK_EQUAL(set_all(1), 0);
	__asm__ volatile("int3");
}

static void die_by_kill(void)
{
	pthread_t thread;

	start_sibling(&thread);
	CHECK_EQUAL(set_all(1), 0);
	raise(SIGTRAP);
}

/* A breakpoint that belongs to nobody ends the process as it would without the library. */
void case_default(void)
{
	int status = status_of_child(die_by_breakpoint);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP);
	status = status_of_child(die_by_kill);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP);
}

struct shared {
	pid_t runner;
	uint64_t transactions;
	bool stop;
};

static void *run_sites(void *argument)
{
	struct shared *shared = argument;

	__atomic_store_n(&shared->runner, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
		long result = run_job(6);
		uint64_t seen = read_large();

		CHECK(result == 6 || result == -6);
		CHECK(seen == 1 || seen == (seen & 0xff) * UINT64_C(0x0101010101010101));
	}
	return NULL;
}

static void tracee(struct shared *shared)
{
	pthread_t thread;

	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, run_sites, shared), 0);
	for (int i = 0; !__atomic_load_n(&shared->stop, __ATOMIC_RELAXED); i++) {
		CHECK_EQUAL(set_all(i), 0);
		__atomic_fetch_add(&shared->transactions, 1, __ATOMIC_SEQ_CST);
	}
	pthread_join(thread, NULL);
	_exit(0);
}

/*
 * A debugger holds a thread between its trap and the delivery of the signal while ten transactions pass. Membarrier does not wait
 * for such a thread; the thread must go on with whatever its site holds by then.
 */
void case_late_trap(void)
{
	struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status, held = 0;
	pid_t child, runner;

	CHECK(shared != MAP_FAILED);
	child = fork();
	if (child == 0)
		tracee(shared);
	while ((runner = __atomic_load_n(&shared->runner, __ATOMIC_SEQ_CST)) == 0)
		usleep(1000);
	if (ptrace(PTRACE_SEIZE, runner, NULL, NULL) != 0) {
		kill(child, SIGKILL);
		SKIP("ptrace is not permitted here: %s", strerror(errno));
	}
	while (held < 20) {
		CHECK_EQUAL(waitpid(runner, &status, __WALL), runner);
		CHECK(WIFSTOPPED(status));
		if (WSTOPSIG(status) == SIGTRAP && status >> 16 == 0) {
			uint64_t before = __atomic_load_n(&shared->transactions, __ATOMIC_SEQ_CST);

			while (__atomic_load_n(&shared->transactions, __ATOMIC_SEQ_CST) < before + 10)
				usleep(100);
			held++;
		}
		if (held == 20)
			__atomic_store_n(&shared->stop, true, __ATOMIC_SEQ_CST);
		CHECK_EQUAL(ptrace(PTRACE_CONT, runner, NULL, status >> 16 ? 0 : WSTOPSIG(status)), 0);
	}
	while (waitpid(runner, &status, __WALL) == runner && WIFSTOPPED(status))
		ptrace(PTRACE_CONT, runner, NULL, WSTOPSIG(status));
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	printf("late-trap: a thread was held %d times between trap and handler, 10 transactions each\n", held);
}
