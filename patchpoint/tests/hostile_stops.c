/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cases of a process that is stopped, frozen or killed at any moment of a change, and of a signal that is blocked for moments. */
#define _GNU_SOURCE
#include "hostile.h"
#include "moments.h"

#include "../src/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct progress {
	uint64_t changes;
	bool stop, ready, killed;
};

static struct progress *progress_new(void)
{
	struct progress *progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(progress != MAP_FAILED);
	return progress;
}

static void change_all_the_time(struct progress *progress)
{
	pthread_t thread;

	start_sibling(&thread);
	for (int i = 0; !__atomic_load_n(&progress->stop, __ATOMIC_SEQ_CST); i++) {
		CHECK_EQUAL(set_all(i), 0);
		check_all(i);
		__atomic_fetch_add(&progress->changes, 1, __ATOMIC_SEQ_CST);
	}
	stop_sibling(thread);
	_exit(0);
}

static void wait_for_changes(struct progress *progress, uint64_t count)
{
	uint64_t wanted = __atomic_load_n(&progress->changes, __ATOMIC_SEQ_CST) + count;

	while (__atomic_load_n(&progress->changes, __ATOMIC_SEQ_CST) < wanted)
		usleep(50);
}

static bool write_text(const char *folder, const char *name, const char *text)
{
	char path[256];
	bool written;
	int file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = open(path, O_WRONLY | O_CLOEXEC);
	written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
	if (file >= 0)
		close(file);
	return written;
}

/* Freezes and thaws a process by a control group of the old or the new kind. False where this user may not. */
static bool freeze(pid_t pid, struct progress *progress)
{
	static const char *const kinds[][4] = {
		{"/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"},
		{"/sys/fs/cgroup", "cgroup.freeze", "1", "0"},
	};
	char folder[128], number[16];

	snprintf(number, sizeof number, "%d", pid);
	for (size_t kind = 0; kind < 2; kind++) {
		bool done;

		snprintf(folder, sizeof folder, "%s/patchpoint-%d", kinds[kind][0], pid);
		if (mkdir(folder, 0755) != 0)
			continue;
		done = write_text(folder, "cgroup.procs", number);
		for (int i = 0; i < 50 && done; i++) {
			done = write_text(folder, kinds[kind][1], kinds[kind][2]);
			usleep((useconds_t)(i * 37 % 500));
			done &= write_text(folder, kinds[kind][1], kinds[kind][3]);
			if (done)
				wait_for_changes(progress, 2);
		}
		write_text(kinds[kind][0], "cgroup.procs", number);
		rmdir(folder);
		if (done)
			return true;
	}
	return false;
}

/* Job control and the freezer stop all threads of a process, in the middle of changes too; then it goes on as if nothing was. */
void case_stopped(void)
{
	struct progress *progress = progress_new();
	pid_t child = fork();
	bool frozen;
	int status;

	if (child == 0)
		change_all_the_time(progress);
	wait_for_changes(progress, 1);
	for (int i = 0; i < 100; i++) {
		CHECK_EQUAL(kill(child, SIGSTOP), 0);
		CHECK_EQUAL(waitpid(child, &status, WUNTRACED), child);
		CHECK(WIFSTOPPED(status));
		usleep((useconds_t)(i * 37 % 500));
		CHECK_EQUAL(kill(child, SIGCONT), 0);
		wait_for_changes(progress, 2);
	}
	frozen = freeze(child, progress);
	__atomic_store_n(&progress->stop, true, __ATOMIC_SEQ_CST);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	if (!frozen)
		SKIP("no control group to freeze a process here");
}

static struct progress *of_witness;

/* Executes sites in the memory of a process that is killed, also afterwards. It calls nothing that belongs to that process. */
static int witness(void *unused)
{
	(void)unused;
	for (int after = 0; after < 2000; after += __atomic_load_n(&of_witness->killed, __ATOMIC_SEQ_CST)) {
		long result = run_job(6);
		uint64_t seen = read_large();

		if (result != 6 && result != -6)
			syscall(SYS_exit_group, 1);
		if (seen != (seen & 0xff) * UINT64_C(0x0101010101010101))
			syscall(SYS_exit_group, 2);
		(void)read_number();
		(void)read_flag();
		__atomic_store_n(&of_witness->ready, true, __ATOMIC_SEQ_CST);
	}
	return 0;
}

static void change_and_be_killed(long call)
{
	static char stack[65536] __attribute__((aligned(16)));
	pid_t other;

	CHECK_EQUAL(set_all(2), 0);
	other = clone(witness, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
	CHECK(other > 0);
	while (!__atomic_load_n(&of_witness->ready, __ATOMIC_SEQ_CST))
		usleep(100);
	/* The witness does not count as a thread of this process. */
	pthread_t thread;
	start_sibling(&thread);
	kill_at_call(call);
	CHECK_EQUAL(set_all(3), 0);
	kill_at_call(-1);
	stop_sibling(thread);
	_exit(0);
}

/*
 * A process is killed at each system call of a change. Its own memory goes with it; a process that shares this memory (CLONE_VM) goes
 * on executing sites that are old, new or as compiled, and whoever it was forked from has what it had.
 */
void case_killed(void)
{
	unsigned char before[256], after[256];
	int status, killed = 0;

	of_witness = progress_new();
	CHECK_EQUAL(set_all(2), 0);
	snapshot(before);
	CHECK_EQUAL(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	for (long call = 0;; call++) {
		pid_t child, other;
		bool was_killed;

		memset(of_witness, 0, sizeof *of_witness);
		child = fork();
		if (child == 0)
			change_and_be_killed(call);
		CHECK_EQUAL(waitpid(child, &status, 0), child);
		was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		CHECK(was_killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
		__atomic_store_n(&of_witness->killed, true, __ATOMIC_SEQ_CST);
		other = waitpid(-1, &status, 0);
		CHECK(other > 0);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		snapshot(after);
		CHECK(memcmp(before, after, sizeof before) == 0);
		if (!was_killed)
			break;
		killed++;
	}
	CHECK(killed > 5);
	CHECK_EQUAL(set_all(3), 0);
	check_all(3);
	printf("killed: at %d calls\n", killed);
}

void case_moments(void)
{
	pthread_t blocking, executing;

	CHECK_EQUAL(set_all(0), 0);
	start_sibling(&executing);
	CHECK_EQUAL(pthread_create(&blocking, NULL, block_for_moments, &hostile_stop), 0);
	for (int i = 0; i < 100; i++) {
		CHECK_EQUAL(set_all(i), 0);
		check_all(i);
	}
	stop_sibling(executing);
	pthread_join(blocking, NULL);
}
