/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Other threads: whether any exist, whether they take traps, and how they come to see new code. */
#define _GNU_SOURCE
#include "internal.h"
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
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

/* Asks libc (glibc 2.32), else the kernel: each thread adds a link to the folder of threads. */
bool process_has_one_thread(void)
{
#ifdef HAVE_SINGLE_THREADED
	return __libc_single_threaded;
#else
	struct stat tasks;

	return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3;
#endif
}

/* Registration holds for one memory map; exec and fork begin another. After a barrier failed, the next use tries one first. */
static bool registered, doubtful;

/* Once there are threads the kernel lets a registration wait for a grace period, so it is made without the lock. */
void sync_prepare(void)
{
	if (!__atomic_load_n(&registered, __ATOMIC_RELAXED) &&
	    syscall(SYS_membarrier, KERNEL_MEMBARRIER_REGISTER_SYNC_CORE, 0, 0) == 0)
		__atomic_store_n(&registered, true, __ATOMIC_RELAXED);
}

bool sync_possible(void)
{
	sync_prepare();
	if (registered && doubtful)
		doubtful = sync_threads() != 0;
	return registered && !doubtful;
}

void sync_after_fork(void)
{
	registered = false;
}

static bool barrier(void)
{
	return syscall(SYS_membarrier, KERNEL_MEMBARRIER_SYNC_CORE, 0, 0) == 0;
}

/*
 * On return every thread has executed a serialising instruction since the call (membarrier(2)). A process that was restored from a
 * checkpoint has a new memory map, which is not registered: the kernel says EPERM.
 */
int sync_threads(void)
{
	if (barrier())
		return 0;
	if (errno == EPERM && syscall(SYS_membarrier, KERNEL_MEMBARRIER_REGISTER_SYNC_CORE, 0, 0) == 0 && barrier())
		return 0;
	doubtful = true;
	return -errno;
}

/* The same for this thread alone, which needs no permission. */
void sync_self(void)
{
	if (syscall(SYS_membarrier, KERNEL_MEMBARRIER_SYNC_CORE, 0, 0) != 0)
		arch_serialise();
}

/* Defined in programs with the thread sanitizer, which has a thread of its own that blocks all signals and executes no sites. */
extern void __tsan_init(void) __attribute__((weak));

/* The result of one look at all threads. */
struct look {
	unsigned blocked; /* threads in which the program blocks SIGTRAP */
	unsigned busy;    /* threads in which libc blocks it briefly: it creates or ends a thread, or starts a process */
	unsigned asleep;  /* threads suspended in the kernel that have children: perhaps in vfork */
	bool traced;
};

char blocker[96];

static uint64_t status_number(const char *text, const char *name, int base)
{
	const char *line = strstr(text, name);

	return line ? strtoull(line + strlen(name), NULL, base) : 0;
}

/* Reads the start of a file under an open folder, as text; returns its length, or 0 if the file is gone. */
static size_t read_start(int folder, const char *thread, const char *name, char *text, size_t size)
{
	size_t length = strlen(thread), more = strlen(name) + 1;
	char path[64];
	ssize_t got;
	int file;

	if (length + more > sizeof path)
		return 0;
	memcpy(path, thread, length);
	memcpy(path + length, name, more);
	file = openat(folder, path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return 0;
	got = read(file, text, size - 1);
	close(file);
	text[got > 0 ? got : 0] = 0;
	return got > 0 ? (size_t)got : 0;
}

/* Whether a thread only ever runs in the kernel: io_uring's workers, and others that the kernel makes (PF_IO_WORKER, PF_USER_WORKER). */
static bool runs_in_kernel(int tasks, const char *thread)
{
	const uint64_t of_kernel = 0x10 | 0x4000;
	char text[512], *field;

	if (!read_start(tasks, thread, "/stat", text, sizeof text))
		return false;
	/* The flags are the seventh field behind the name, which ends with the last parenthesis (proc(5)). */
	field = strrchr(text, ')');
	for (int i = 0; field && i < 7; i++)
		field = strchr(field + 1, ' ');
	return field && strtoull(field, NULL, 10) & of_kernel;
}

/* Notes a thread that blocks SIGTRAP: its number and its name. */
static void name_blocker(const char *thread, const char *status, const char *what)
{
	const char *name = strncmp(status, "Name:\t", 6) == 0 ? status + 6 : "";

	snprintf(blocker, sizeof blocker, "thread %s (%.*s) %s", thread, (int)strcspn(name, "\n"), name, what);
}

/*
 * Adds what /proc/…/status says of a thread, or nothing if the thread is gone. A program cannot block the signals 32 and 33, which
 * libc keeps for itself: a thread that blocks one of them runs libc's code and executes no site before it has its own mask again. A
 * thread that ends leaves 33 open (glibc's setuid waits for its answer); a thread that starts a process sleeps in the kernel until
 * that process runs.
 */
static void look_at(int tasks, const char *thread, struct look *look)
{
	const uint64_t trap = UINT64_C(1) << (SIGTRAP - 1), of_libc = UINT64_C(3) << 31;
	char text[2048], child[16];
	uint64_t mask;
	bool sleeps;

	if (!read_start(tasks, thread, "/status", text, sizeof text))
		return;
	mask = status_number(text, "\nSigBlk:", 16);
	sleeps = strstr(text, "\nState:\tD") != NULL;
	look->traced |= status_number(text, "\nTracerPid:", 10) != 0;
	if (mask & trap && !runs_in_kernel(tasks, thread)) {
		if (!(mask & of_libc)) {
			look->blocked++;
			name_blocker(thread, text, "blocks SIGTRAP");
		} else if (!sleeps) {
			look->busy++;
			if (!look->blocked)
				name_blocker(thread, text, "blocks every signal");
		}
	}
	if (sleeps && read_start(tasks, thread, "/children", child, sizeof child)) {
		look->asleep++;
		if (!look->blocked && !look->busy)
			name_blocker(thread, text, "may be in vfork");
	}
}

struct entry {
	uint64_t inode;
	int64_t offset;
	uint16_t length;
	uint8_t type;
	char name[];
};

/* Reads directory entries without opendir, which calls malloc. */
static struct look threads_look(int tasks)
{
	_Alignas(8) char entries[4096];
	struct look look = {0, 0, 0, false};
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

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * A look costs some 10 µs a thread, more than a transaction. Transactions that follow share a look for 16 times as long as it took,
 * so looks take at most a sixteenth of the time. When a second thread appears, the library looks again. NULL without /proc. The
 * lock is held.
 */
static struct look *look_around(bool anew)
{
	static struct look look;
	static uint64_t good_until_ns;
	static bool was_alone;
	bool alone = process_has_one_thread();
	uint64_t start = now_ns();
	int tasks;

	if (!anew && start < good_until_ns && alone == was_alone)
		return &look;
	was_alone = alone;
	tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tasks < 0)
		return NULL;
	look = threads_look(tasks);
	close(tasks);
	good_until_ns = start + 16 * (now_ns() - start);
	return &look;
}

bool process_is_traced(void)
{
	/* Reading takes as long as a small change, and the kernel attaches a debugger in more time than 64 such. */
	enum { SHARED = 64 };
	static uint64_t good_until_ns;
	static bool traced;
	uint64_t start = now_ns();
	char text[2048];

	if (start < good_until_ns)
		return traced;
	traced = !read_start(AT_FDCWD, "/proc/thread-self", "/status", text, sizeof text) || status_number(text, "\nTracerPid:", 10) != 0;
	good_until_ns = start + SHARED * (now_ns() - start);
	return traced;
}

/*
 * The kernel would kill the process at the first breakpoint of a thread that blocks SIGTRAP. Before the handler was installed for
 * the `first` time, a child of vfork may have begun that has no handler and executes the same code: the first change waits for such
 * a child, too. Without /proc only the calling thread's mask is known.
 */
int threads_accept_traps(bool first, bool anew, bool *traced)
{
	const unsigned of_sanitizer = __tsan_init ? 1 : 0;
	const struct look *look;

	*traced = true;
	if (guard_signals >> (SIGTRAP - 1) & 1) {
		snprintf(blocker, sizeof blocker, "the changing thread blocks SIGTRAP");
		return -EBUSY;
	}
	look = look_around(first || anew);
	if (!look)
		return 0;
	*traced = look->traced;
	if (look->blocked > of_sanitizer)
		return -EBUSY;
	if (look->busy <= of_sanitizer && !(first && look->asleep))
		return 0;
	return -EAGAIN;
}
