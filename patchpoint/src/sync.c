/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Other threads: whether there are any, whether they take traps, and making them see new code. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define HAVE_SINGLE_THREADED 1
#endif
#endif

/* libc's own knowledge (glibc 2.32); without it there may always be another thread. */
bool process_has_one_thread(void)
{
#ifdef HAVE_SINGLE_THREADED
	return __libc_single_threaded;
#else
	return false;
#endif
}

static bool registered;

/* Registered once for a memory map; exec and fork begin another. Under a seccomp filter without membarrier it fails. */
bool sync_possible(void)
{
	if (!registered)
		registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) == 0;
	return registered;
}

void sync_after_fork(void)
{
	registered = false;
}

/* On return every thread has executed a serialising instruction since the call (membarrier(2)). */
int sync_core(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) != 0)
		return -errno;
	return 0;
}

/* The mask of blocked signals in /proc/…/status, or 0 when the thread is gone. */
static uint64_t blocked_signals(int tasks, const char *thread)
{
	char path[32], text[2048];
	size_t length = strlen(thread);
	ssize_t got;
	int file;

	if (length > 20)
		return 0;
	memcpy(path, thread, length);
	memcpy(path + length, "/status", sizeof "/status");
	file = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return 0;
	got = read(file, text, sizeof text - 1);
	close(file);
	if (got <= 0)
		return 0;
	text[got] = 0;
	const char *line = strstr(text, "\nSigBlk:");
	return line ? strtoull(line + sizeof "\nSigBlk:" - 1, NULL, 16) : 0;
}

struct entry {
	uint64_t inode;
	int64_t offset;
	uint16_t length;
	uint8_t type;
	char name[];
};

/* Directory entries are read without opendir, which calls malloc. */
static int threads_scan(int tasks, uint64_t trap)
{
	_Alignas(8) char entries[4096];
	int error = 0;
	long got;

	while (!error && (got = syscall(SYS_getdents64, tasks, entries, sizeof entries)) > 0) {
		for (long at = 0; at < got; at += ((struct entry *)(entries + at))->length) {
			const struct entry *entry = (const struct entry *)(entries + at);

			if (entry->name[0] != '.' && blocked_signals(tasks, entry->name) & trap)
				error = -EBUSY;
		}
	}
	return error;
}

/* The number of threads, from the links of the directory; 0 without /proc. */
static uint64_t thread_count(void)
{
	struct stat status;

	return stat("/proc/self/task", &status) == 0 ? status.st_nlink : 0;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * -EBUSY when a thread blocks SIGTRAP, in which the kernel would kill the process at its first breakpoint. libc blocks all
 * signals for a moment while it creates a thread or a process, hence several looks, 20 ms in all. A look costs some 10 µs a
 * thread, more than a transaction, so transactions that follow one another within 10 ms share one while the number of
 * threads stays. Without /proc only the calling thread can be asked. The lock is held.
 */
int threads_accept_traps(void)
{
	static uint64_t looked_ns, looked_threads;
	const struct timespec moment = {0, 200000};
	uint64_t mask = 0, trap = UINT64_C(1) << (SIGTRAP - 1), now = now_ns(), threads = thread_count();
	int tasks, error;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask);
	if (mask & trap)
		return -EBUSY;
	if (threads == looked_threads && now - looked_ns < 10000000)
		return 0;
	tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tasks < 0)
		return 0;
	error = threads_scan(tasks, trap);
	for (int looks = 0; error && looks < 100; looks++) {
		nanosleep(&moment, NULL);
		lseek(tasks, 0, SEEK_SET);
		error = threads_scan(tasks, trap);
	}
	close(tasks);
	looked_ns = error ? 0 : now;
	looked_threads = error ? 0 : threads;
	return error;
}
