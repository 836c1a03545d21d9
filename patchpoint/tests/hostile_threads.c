/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cases of threads that block signals, are held, are many or urgent, and of handlers that interrupt the changing thread. */
#define _GNU_SOURCE
#include "hostile.h"

#include "../src/internal.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_mseal
#define SYS_mseal 462 /* Linux 6.10 */
#endif

static void execute_once(void)
{
	long result = run_job(6);
	uint64_t seen = read_large();

	CHECK(result == 6 || result == -6);
	CHECK(seen == (seen & 0xff) * UINT64_C(0x0101010101010101));
	(void)read_number();
	(void)read_flag();
}

static bool stopping(void)
{
	return __atomic_load_n(&hostile_stop, __ATOMIC_RELAXED);
}

static int set_mask(uint64_t mask)
{
	return (int)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
}

/* Blocks every signal for moments only, and executes sites both ways: no look at its mask could protect it. */
static void *mask_and_execute(void *unused)
{
	while (!stopping()) {
		CHECK_EQUAL(set_mask(~UINT64_C(0)), 0);
		execute_once();
		CHECK_EQUAL(set_mask(0), 0);
		execute_once();
	}
	return unused;
}

void case_masked(void)
{
	pthread_t threads[2];

	CHECK_EQUAL(set_all(0), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, mask_and_execute, NULL), 0);
	for (int i = 0; i < 3000; i++)
		CHECK_EQUAL(set_all(i), 0);
	__atomic_store_n(&hostile_stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	check_all(2999);
}

static bool begun, enough;

/* Has the mask of a thread that libc ends, until it is told to stop. */
static void *end_slowly(void *unused)
{
	CHECK_EQUAL(set_mask(~(UINT64_C(1) << 32)), 0);
	__atomic_store_n(&begun, true, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&enough, __ATOMIC_SEQ_CST))
		usleep(100);
	CHECK_EQUAL(set_mask(0), 0);
	return unused;
}

static void *change_once(void *result)
{
	*(int *)result = set_all(1);
	return NULL;
}

/* Other threads use the library while a change waits: the change goes on once they did, and only then. */
void case_waiting(void)
{
	pthread_t ending, changing;
	int result = 1;
	pid_t child;

	CHECK_EQUAL(set_all(0), 0);
	CHECK_EQUAL(pthread_create(&ending, NULL, end_slowly, NULL), 0);
	while (!__atomic_load_n(&begun, __ATOMIC_SEQ_CST))
		usleep(100);
	CHECK_EQUAL(pthread_create(&changing, NULL, change_once, &result), 0);
	/* Twice as long as it takes until the change waits; the status and a fork then come although it does. */
	usleep(20000);
	(void)status_now();
	child = fork();
	if (child == 0)
		_exit(0);
	CHECK_EQUAL(waitpid(child, NULL, 0), child);
	(void)site_of(&patchpoint_key_job);
	__atomic_store_n(&enough, true, __ATOMIC_SEQ_CST);
	pthread_join(changing, NULL);
	pthread_join(ending, NULL);
	CHECK_EQUAL(result, 0);
	CHECK_EQUAL(status_now().protocol, moves_refused < 0 ? PATCHPOINT_PROTOCOL_TRAP : PATCHPOINT_PROTOCOL_MOVE);
	check_all(1);
}

/* io_uring's thread for polling has every signal blocked and never leaves the kernel: traps are used as if it were not there. */
void case_workers(void)
{
	struct {
		uint32_t entries[2], flags, processor, idle_ms, features, other, reserved[3];
		uint64_t offsets[10];
	} parameters = {.flags = 2 /* IORING_SETUP_SQPOLL */, .idle_ms = 60000};
	pthread_t thread;
	int ring = (int)syscall(425 /* io_uring_setup */, 8, &parameters);

	if (ring < 0)
		SKIP("no io_uring here: %s", strerror(errno));
	start_sibling(&thread);
	for (int i = 0; i < 20; i++) {
		CHECK_EQUAL(set_all(i), 0);
		check_all(i);
	}
	CHECK_EQUAL(status_now().protocol, moves_refused < 0 ? PATCHPOINT_PROTOCOL_TRAP : PATCHPOINT_PROTOCOL_MOVE);
	stop_sibling(thread);
	close(ring);
}

static volatile sig_atomic_t handled;

static void execute_in_handler(int number)
{
	(void)number;
	execute_once();
	handled++;
}

/* SIGTRAP by a timer, as perf sends it, hits the changing thread at any moment, and the program's handler executes sites. */
void case_interrupted(void)
{
	struct sigaction action = {.sa_handler = execute_in_handler, .sa_flags = SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGTRAP};
	struct itimerspec often = {{0, 700000}, {0, 700000}};
	pthread_t thread;
	timer_t timer;
	long changes = 0;

	event._sigev_un._tid = gettid();
	CHECK_EQUAL(sigaction(SIGTRAP, &action, NULL), 0);
	CHECK_EQUAL(set_all(0), 0);
	start_sibling(&thread);
	CHECK_EQUAL(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	CHECK_EQUAL(timer_settime(timer, 0, &often, NULL), 0);
	for (; handled < 1000; changes++)
		CHECK_EQUAL(set_all((int)changes), 0);
	timer_delete(timer);
	stop_sibling(thread);
	check_all((int)changes - 1);
	printf("interrupted: %d signals in %ld changes\n", (int)handled, changes);
}

static uint64_t mask_in_handler;
static bool on_other_stack;
static volatile int depth, deepest;
static char other_stack[65536];

static void note_handler(int number, siginfo_t *info, void *context)
{
	char here;

	(void)number, (void)info, (void)context;
	CHECK_EQUAL(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask_in_handler, sizeof mask_in_handler), 0);
	on_other_stack = &here >= other_stack && &here < other_stack + sizeof other_stack;
	deepest = ++depth > deepest ? depth : deepest;
	if (handled++ == 0)
		raise(SIGTRAP);
	depth--;
}

static uint64_t bit(int number)
{
	return UINT64_C(1) << (number - 1);
}

/* Has the library take the place of a handler, and raises a foreign trap. */
static void raise_behind_the_library(int flags)
{
	struct sigaction action;
	pthread_t thread;

	memset(&action, 0, sizeof action);
	action.sa_sigaction = note_handler;
	action.sa_flags = SA_SIGINFO | flags;
	sigaddset(&action.sa_mask, SIGINT);
	CHECK_EQUAL(sigaction(SIGTRAP, &action, NULL), 0);
	start_sibling(&thread);
	CHECK_EQUAL(set_all(1), 0);
	CHECK_EQUAL(set_all(2), 0);
	stop_sibling(thread);
	raise(SIGTRAP);
	/* The handler raised another one, which interrupts it or waits for its end. */
	CHECK_EQUAL(handled, 2);
	CHECK_EQUAL(deepest, flags & SA_NODEFER ? 2 : 1);
	CHECK(mask_in_handler & bit(SIGINT));
	CHECK_EQUAL(on_other_stack, flags & SA_ONSTACK ? 1 : 0);
	CHECK_EQUAL(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask_in_handler, sizeof mask_in_handler), 0);
	CHECK_EQUAL(mask_in_handler, 0);
}

static void kept_in_child(int flags)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0) {
		raise_behind_the_library(flags);
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	/* The second trap finds the default action. */
	if (flags & (int)SA_RESETHAND)
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP);
	else
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A program's handler runs as it was installed. */
void case_kept(void)
{
	stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};

	CHECK_EQUAL(sigaltstack(&stack, NULL), 0);
	kept_in_child(0);
	kept_in_child(SA_NODEFER);
	kept_in_child(SA_ONSTACK);
	kept_in_child((int)SA_RESETHAND);
}

struct shared {
	pid_t runner;
	uint64_t changes;
	bool stop;
};

static void *run_sites(void *argument)
{
	struct shared *shared = argument;
	sigset_t all;

	sigfillset(&all);
	CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	__atomic_store_n(&shared->runner, gettid(), __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED))
		execute_once();
	return NULL;
}

static void change_until_stopped(struct shared *shared)
{
	pthread_t thread;
	int i;

	CHECK_EQUAL(set_all(0), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, run_sites, shared), 0);
	for (i = 0; !__atomic_load_n(&shared->stop, __ATOMIC_RELAXED); i++) {
		CHECK_EQUAL(set_all(i), 0);
		check_all(i);
		__atomic_fetch_add(&shared->changes, 1, __ATOMIC_SEQ_CST);
	}
	pthread_join(thread, NULL);
	_exit(0);
}

/* A debugger holds a thread that blocks every signal, anywhere, also in the middle of a change; changes go on meanwhile. */
void case_held(void)
{
	struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child, runner;
	int status;

	CHECK(shared != MAP_FAILED);
	child = fork();
	if (child == 0)
		change_until_stopped(shared);
	while ((runner = __atomic_load_n(&shared->runner, __ATOMIC_SEQ_CST)) == 0)
		usleep(1000);
	if (ptrace(PTRACE_SEIZE, runner, NULL, NULL) != 0) {
		kill(child, SIGKILL);
		SKIP("ptrace is not permitted here: %s", strerror(errno));
	}
	for (int held = 0; held < 100; held++) {
		uint64_t before;

		CHECK_EQUAL(ptrace(PTRACE_INTERRUPT, runner, NULL, NULL), 0);
		CHECK_EQUAL(waitpid(runner, &status, __WALL), runner);
		CHECK(WIFSTOPPED(status));
		before = __atomic_load_n(&shared->changes, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&shared->changes, __ATOMIC_SEQ_CST) < before + 5)
			usleep(100);
		/* Some single steps, since a site may be the next instruction. */
		for (int step = 0; step < 20; step++) {
			CHECK_EQUAL(ptrace(PTRACE_SINGLESTEP, runner, NULL, NULL), 0);
			CHECK_EQUAL(waitpid(runner, &status, __WALL), runner);
			CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
		}
		CHECK_EQUAL(ptrace(PTRACE_CONT, runner, NULL, NULL), 0);
	}
	__atomic_store_n(&shared->stop, true, __ATOMIC_SEQ_CST);
	CHECK_EQUAL(ptrace(PTRACE_INTERRUPT, runner, NULL, NULL), 0);
	if (waitpid(runner, &status, __WALL) == runner && WIFSTOPPED(status))
		ptrace(PTRACE_DETACH, runner, NULL, NULL);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void pin_to_first_processor(void)
{
	cpu_set_t set, allowed;
	int first = 0;

	CHECK_EQUAL(sched_getaffinity(0, sizeof allowed, &allowed), 0);
	while (!CPU_ISSET(first, &allowed))
		first++;
	CPU_ZERO(&set);
	CPU_SET(first, &set);
	CHECK_EQUAL(sched_setaffinity(0, sizeof set, &set), 0);
}

/* Executes sites with a real-time priority on the changing thread's processor, and leaves it only between rounds. */
static void *execute_urgently(void *unused)
{
	const struct sched_param urgent = {.sched_priority = 1};

	if (sched_setscheduler(0, SCHED_FIFO, &urgent) != 0)
		return NULL;
	while (!stopping()) {
		for (int i = 0; i < 20; i++)
			execute_once();
		usleep(500);
	}
	return unused;
}

void case_real_time(void)
{
	pthread_t thread;
	void *ran;

	pin_to_first_processor();
	CHECK_EQUAL(set_all(0), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, execute_urgently, &hostile_stop), 0);
	for (int i = 0; i < 200; i++) {
		CHECK_EQUAL(set_all(i), 0);
		check_all(i);
	}
	__atomic_store_n(&hostile_stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, &ran);
	if (!ran)
		SKIP("no real-time priority here");
}

PATCHPOINT_DECLARE_VALUE(neighbour, uint32_t);
PATCHPOINT_DEFINE_VALUE(neighbour, uint32_t, 0);
PATCHPOINT_DECLARE_VALUE(crossing, uint32_t);
PATCHPOINT_DEFINE_VALUE(crossing, uint32_t, 0);

uint64_t cross_pages(void);

/* A site of one key in a page, and a site of another key that begins in that page and ends in the next one. */
__attribute__((noinline, aligned(4096))) uint64_t cross_pages(void)
{
	uint64_t low = patchpoint_value(neighbour), high;

	/* One byte for the mark, one for the operation; the rest is in the next page. */
	__asm__ volatile("jmp 1f\n\t.org cross_pages + 4094, 0x90\n1:");
	high = patchpoint_value(crossing);
	return low | high << 32;
}

static void *cross_again(void *unused)
{
	while (!stopping()) {
		uint64_t seen = cross_pages();

		CHECK_EQUAL(seen >> 32, UINT32_C(0x2d2d2d2d));
		CHECK_EQUAL((uint32_t)seen, (seen & 0xff) * UINT32_C(0x01010101));
	}
	return unused;
}

static int crossing_note(const struct patchpoint_site_info *info, void *found)
{
	uintptr_t at = (uintptr_t)info->address;

	if (info->key == &patchpoint_key_crossing)
		*(bool *)found |= at / 4096 != (at + info->length - 1) / 4096;
	return 0;
}

/* A patched site that lies in two pages stays whole while sites of one of these pages change. */
void case_crossing(void)
{
	bool found = false;
	pthread_t thread;

	CHECK_EQUAL(patchpoint_site_iterate(crossing_note, &found), 0);
	CHECK(found);
	CHECK_EQUAL(patchpoint_set_value(crossing, 0x2d2d2d2d), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, cross_again, NULL), 0);
	for (uint32_t i = 0; i < 20000; i++)
		CHECK_EQUAL(patchpoint_set_value(neighbour, (i & 0xff) * UINT32_C(0x01010101)), 0);
	__atomic_store_n(&hostile_stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

static void *sleep_blocked(void *unused)
{
	CHECK_EQUAL(set_mask(~UINT64_C(0)), 0);
	while (!stopping())
		pause();
	return unused;
}

/* Many threads with every signal blocked: a change does not look at them. */
void case_many(void)
{
	enum { THREADS = 10000 };
	static pthread_t threads[THREADS];
	pthread_attr_t attributes;
	int count = 0, error = 0;

	pthread_attr_init(&attributes);
	CHECK_EQUAL(pthread_attr_setstacksize(&attributes, 65536), 0);
	while (count < THREADS && (error = pthread_create(&threads[count], &attributes, sleep_blocked, NULL)) == 0)
		count++;
	for (int i = 0; i < 5; i++) {
		CHECK_EQUAL(set_all(i), 0);
		check_all(i);
	}
	if (count < THREADS)
		SKIP("only %d threads here: %s", count, strerror(error));
}

/* Sealed text beside a thread that blocks SIGTRAP: the one change that is refused, and the status names the thread. */
void case_refused(void)
{
	uintptr_t page = (uintptr_t)site_of(&patchpoint_key_job).address & ~UINT64_C(4095);
	unsigned char before[256], after[256];
	struct shared shared = {0, 0, false};
	char named[64];
	pthread_t thread;

	CHECK_EQUAL(set_all(1), 0);
	for (uintptr_t at = page - 2 * 4096; at <= page + 2 * 4096; at += 4096)
		if (syscall(SYS_mseal, at, 4096, 0) != 0 && errno == ENOSYS)
			SKIP("mseal: %s (Linux 6.10 or later)", strerror(errno));
	CHECK_EQUAL(pthread_create(&thread, NULL, run_sites, &shared), 0);
	while (__atomic_load_n(&shared.runner, __ATOMIC_SEQ_CST) == 0)
		usleep(1000);
	snapshot(before);
	CHECK_EQUAL(set_all(2), -EBUSY);
	check_all(1);
	snapshot(after);
	CHECK(memcmp(before, after, sizeof before) == 0);
	snprintf(named, sizeof named, "trap: thread %d (hostile) blocks SIGTRAP", shared.runner);
	CHECK(strstr(status_now().protocol_reason, named));
	CHECK(strstr(status_now().protocol_reason, "move: mremap: "));
	CHECK(strstr(status_now().protocol_reason, "copy: Operation not permitted"));
	__atomic_store_n(&shared.stop, true, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	CHECK_EQUAL(set_all(2), 0);
	check_all(2);
}
