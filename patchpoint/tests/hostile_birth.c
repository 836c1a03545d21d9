/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cases of threads and processes that are born while keys change, through libc and without it. */
#define _GNU_SOURCE
#include "hostile.h"

#include "../src/internal.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *live_briefly(void *unused)
{
	(void)run_job(6);
	return unused;
}

static void *create_threads(void *count)
{
	pthread_t thread;

	for (; !__atomic_load_n(&hostile_stop, __ATOMIC_RELAXED); ++*(long *)count) {
		CHECK_EQUAL(pthread_create(&thread, NULL, live_briefly, NULL), 0);
		CHECK_EQUAL(pthread_join(thread, NULL), 0);
	}
	return NULL;
}

/* Ends as a glibc thread does, but longer: it blocks all signals but the one that setuid waits for. */
static void *end_slowly(void *begun)
{
	const uint64_t all_but_33 = ~(UINT64_C(1) << 32);
	uint64_t before;

	CHECK_EQUAL(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all_but_33, &before, sizeof before), 0);
	__atomic_store_n((bool *)begun, true, __ATOMIC_SEQ_CST);
	usleep(100000);
	CHECK_EQUAL(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before), 0);
	return NULL;
}

static void change_beside_an_ending_thread(void)
{
	bool begun = false;
	pthread_t ending;

	CHECK_EQUAL(pthread_create(&ending, NULL, end_slowly, &begun), 0);
	while (!__atomic_load_n(&begun, __ATOMIC_SEQ_CST))
		usleep(100);
	CHECK_EQUAL(set_all(1), 0);
	pthread_join(ending, NULL);
}

/* libc blocks all signals for a moment in a thread that it creates or ends: that is no reason to refuse a change. */
void case_threads(void)
{
	pthread_t sibling, creator;
	long threads = 0, changes = 0;
	double until;

	CHECK_EQUAL(patchpoint_init(), 0);
	start_sibling(&sibling);
	change_beside_an_ending_thread();
	CHECK_EQUAL(pthread_create(&creator, NULL, create_threads, &threads), 0);
	for (until = now_s() + 2; now_s() < until; changes++) {
		/* Longer than one look at the threads is valid. */
		usleep(100);
		CHECK_EQUAL(set_all((int)changes), 0);
	}
	stop_sibling(sibling);
	pthread_join(creator, NULL);
	printf("threads: %ld changes, none refused, while %ld threads were created\n", changes, threads);
}

static void *change(void *unused)
{
	for (int i = 0; !__atomic_load_n(&hostile_stop, __ATOMIC_RELAXED); i++)
		CHECK_EQUAL(set_all(i), 0);
	return unused;
}

static pid_t raw_fork(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

/* _Fork of newer C libraries is asynchronous-signal-safe and calls no handlers. */
extern pid_t _Fork(void) __attribute__((weak));

static pid_t fork_quietly(void)
{
	return _Fork ? _Fork() : raw_fork();
}

enum { QUIET, TRAPPED };

/* Executes every site often, in the child. The child sees only values that were set, and cannot change keys. */
static void live_as_orphan(void)
{
	uint64_t traps = patchpoint_registry_get()->traps;

	for (int i = 0; i < 20000; i++) {
		long result = run_job(6);
		uint64_t seen = read_large();

		if ((result != 6 && result != -6) || seen != (seen & 0xff) * UINT64_C(0x0101010101010101))
			_exit(10);
		(void)read_number();
		(void)read_flag();
	}
	if (patchpoint_set_value(number, 1) != -EPERM)
		_exit(11);
	_exit(patchpoint_registry_get()->traps == traps ? QUIET : TRAPPED);
}

static int make_orphans(pid_t (*make)(void), int count)
{
	int trapped = 0;

	for (int i = 0; i < count; i++) {
		double until = now_s() + 20;
		pid_t child = make(), ended;
		int status;

		CHECK(child >= 0);
		if (child == 0)
			live_as_orphan();
		while ((ended = waitpid(child, &status, WNOHANG)) == 0 && now_s() < until)
			usleep(200);
		if (ended == 0)
			kill(child, SIGKILL);
		CHECK_EQUAL(ended, child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) <= TRAPPED);
		trapped += WEXITSTATUS(status) == TRAPPED;
	}
	return trapped;
}

/* A child that is made without libc is born in the middle of a change, perhaps with breakpoints that nobody will remove. */
static void orphans(const struct writer *writer, int count)
{
	pthread_t sibling, changer;
	bool traps = !arch_one_store && moves_refused < 0 && !writer;
	int trapped, rounds = 0;

	CHECK_EQUAL(patchpoint_init(), 0);
	if (writer)
		writer_used = writer;
	CHECK_EQUAL(set_all(1), 0);
	start_sibling(&sibling);
	CHECK_EQUAL(pthread_create(&changer, NULL, change, NULL), 0);
	/* Chance decides which child is born in the middle of a change. Without breakpoints no child meets a trap. */
	do {
		trapped = make_orphans(fork_quietly, count) + make_orphans(raw_fork, count);
	} while (trapped == 0 && traps && ++rounds < 20);
	__atomic_store_n(&hostile_stop, true, __ATOMIC_RELAXED);
	pthread_join(changer, NULL);
	stop_sibling(sibling);
	CHECK_EQUAL(set_all(3), 0);
	check_all(3);
	printf("orphans: %d of %d were born in a change and met a breakpoint\n", trapped, 2 * count);
	CHECK(traps ? trapped > 0 : trapped == 0);
}

void case_orphans(void)
{
	orphans(NULL, 300);
}

/* The child's pages come from a file that its parent maps, too. */
void case_orphans_memfd(void)
{
	orphans(&writer_memfd, 100);
}

/* A child of vfork: it shares the address space with the process that changes keys, but has signal actions of its own. */
struct vforked {
	bool started, stop;
	int status;
};

static void *vfork_and_run(void *argument)
{
	struct vforked *shared = argument;
	pid_t child = vfork();

	if (child == 0) {
		__atomic_store_n(&shared->started, true, __ATOMIC_SEQ_CST);
		while (!__atomic_load_n(&shared->stop, __ATOMIC_SEQ_CST)) {
			(void)run_job(6);
			(void)read_flag();
		}
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &shared->status, 0), child);
	return NULL;
}

static void *stop_soon(void *argument)
{
	usleep(300000);
	__atomic_store_n(&((struct vforked *)argument)->stop, true, __ATOMIC_SEQ_CST);
	return NULL;
}

/* A child that is born before the library has a handler: the first change waits for it. */
void case_vfork_first(void)
{
	struct vforked shared = {false, false, -1};
	pthread_t parent, stopper;

	CHECK_EQUAL(pthread_create(&parent, NULL, vfork_and_run, &shared), 0);
	while (!__atomic_load_n(&shared.started, __ATOMIC_SEQ_CST))
		usleep(1000);
	/* Gives the thread in vfork time to sleep in the kernel. */
	usleep(10000);
	CHECK_EQUAL(pthread_create(&stopper, NULL, stop_soon, &shared), 0);
	CHECK_EQUAL(set_all(1), 0);
	check_all(1);
	pthread_join(parent, NULL);
	pthread_join(stopper, NULL);
	CHECK(WIFEXITED(shared.status) && WEXITSTATUS(shared.status) == 0);
}

/* A child that is born later has the handler, and meets breakpoints like any thread. */
void case_vfork_later(void)
{
	struct vforked shared = {false, false, -1};
	pthread_t parent, stopper;
	long changes = 0;

	CHECK_EQUAL(set_all(0), 0);
	CHECK_EQUAL(pthread_create(&parent, NULL, vfork_and_run, &shared), 0);
	while (!__atomic_load_n(&shared.started, __ATOMIC_SEQ_CST))
		usleep(1000);
	CHECK_EQUAL(pthread_create(&stopper, NULL, stop_soon, &shared), 0);
	for (; !__atomic_load_n(&shared.stop, __ATOMIC_SEQ_CST); changes++)
		CHECK_EQUAL(set_all((int)changes), 0);
	pthread_join(parent, NULL);
	pthread_join(stopper, NULL);
	CHECK(WIFEXITED(shared.status) && WEXITSTATUS(shared.status) == 0);
	printf("vfork-later: %ld changes beside a child of vfork\n", changes);
}
