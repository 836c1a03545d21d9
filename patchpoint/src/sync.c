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

/* There in programs with the thread sanitizer, which has a thread of its own that blocks all signals and executes no sites. */
extern void __tsan_init(void) __attribute__((weak));

/* What threads were found to be: how many block SIGTRAP, and whether any has a debugger. */
struct look {
	unsigned blocked;
	bool traced;
};

static bool traps_are_blocked(const struct look *look)
{
	return look->blocked > (__tsan_init ? 1 : 0);
}

static uint64_t status_number(const char *text, const char *name, int base)
{
	const char *line = strstr(text, name);

	return line ? strtoull(line + strlen(name), NULL, base) : 0;
}

/* Adds what /proc/…/status says of a thread; nothing when it is gone. */
static void look_at(int tasks, const char *thread, struct look *look)
{
	char path[32], text[2048];
	size_t length = strlen(thread);
	ssize_t got;
	int file;

	if (length > 20)
		return;
	memcpy(path, thread, length);
	memcpy(path + length, "/status", sizeof "/status");
	file = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return;
	got = read(file, text, sizeof text - 1);
	close(file);
	if (got <= 0)
		return;
	text[got] = 0;
	look->blocked += status_number(text, "\nSigBlk:", 16) >> (SIGTRAP - 1) & 1;
	look->traced |= status_number(text, "\nTracerPid:", 10) != 0;
}

struct entry {
	uint64_t inode;
	int64_t offset;
	uint16_t length;
	uint8_t type;
	char name[];
};

/* Directory entries are read without opendir, which calls malloc. */
static struct look threads_look(int tasks)
{
	_Alignas(8) char entries[4096];
	struct look look = {0, false};
	long got;

	lseek(tasks, 0, SEEK_SET);
	while ((got = syscall(SYS_getdents64, tasks, entries, sizeof entries)) > 0) {
		for (long at = 0; at < got; at += ((struct entry *)(entries + at))->length) {
			const struct entry *entry = (const struct entry *)(entries + at);

			if (entry->name[0] != '.')
				look_at(tasks, entry->name, &look);
		}
	}
	return look;
}

static int tasks_open(void)
{
	return open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Whether a debugger watches any thread; without /proc, that one may. */
bool process_is_traced(void)
{
	int tasks = tasks_open();
	struct look look;

	if (tasks < 0)
		return true;
	look = threads_look(tasks);
	close(tasks);
	return look.traced;
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
 * thread, more than a transaction, so transactions that follow one another share one, for 16 times as long as it took: looking
 * takes at most a sixteenth of the time. Without /proc only the calling thread can be asked. The lock is held.
 */
int threads_accept_traps(bool *traced)
{
	static struct look look;
	static uint64_t looked_until_ns;
	const struct timespec moment = {0, 200000};
	uint64_t start;
	int tasks;

	*traced = true;
	if (guard_signals >> (SIGTRAP - 1) & 1)
		return -EBUSY;
	start = now_ns();
	if (start >= looked_until_ns) {
		tasks = tasks_open();
		if (tasks < 0)
			return 0;
		look = threads_look(tasks);
		looked_until_ns = start + 16 * (now_ns() - start);
		for (int looks = 0; traps_are_blocked(&look) && looks < 100; looks++) {
			nanosleep(&moment, NULL);
			look = threads_look(tasks);
		}
		close(tasks);
	}
	*traced = look.traced;
	if (!traps_are_blocked(&look))
		return 0;
	looked_until_ns = 0;
	return -EBUSY;
}
