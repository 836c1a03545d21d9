/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Makes each system call of a change fail in turn, once or from then on. The change must succeed, or leave code and keys as they
 * were, and the next change must work. The linker redirects the calls (--wrap).
 */
#define _GNU_SOURCE
#include "hostile.h"

#include "../src/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

/* Whether barriers are refused until the process registers for them again, as after it was restored from a checkpoint. */
static bool registration_lost;

static struct {
	bool armed;
	bool for_good; /* all calls of the kind that failed first */
	int error;
	long left; /* calls until one fails */
	long calls, barriers, writes; /* all, and those of two kinds */
	const char *failed;
	pid_t thread;
	bool deadly; /* the process is killed instead */
} injection;

long __real_syscall(long number, ...);

/* Disturbs only the thread that changes keys. */
static bool fails(const char *name)
{
	if (!__atomic_load_n(&injection.armed, __ATOMIC_RELAXED) || injection.thread != gettid())
		return false;
	injection.calls++;
	injection.barriers += strcmp(name, "membarrier") == 0;
	injection.writes += strcmp(name, "pwrite64") == 0;
	if (injection.failed ? injection.for_good && strcmp(injection.failed, name) == 0 : injection.left-- == 0) {
		if (injection.deadly)
			__real_syscall(SYS_kill, getpid(), SIGKILL);
		injection.failed = name;
		errno = injection.error;
		return true;
	}
	return false;
}

#define WRAP(result, name, parameters, arguments, failure) \
	result __real_##name parameters; \
	result __wrap_##name parameters; \
	result __wrap_##name parameters { return fails(#name) ? failure : __real_##name arguments; }
WRAP(int, fstat, (int file, struct stat *found), (file, found), -1)
WRAP(int, fstatfs, (int file, struct statfs *found), (file, found), -1)
WRAP(void *, mmap, (void *at, size_t bytes, int rights, int flags, int file, off_t offset), (at, bytes, rights, flags, file, offset),
     MAP_FAILED)
WRAP(int, mprotect, (void *at, size_t bytes, int rights), (at, bytes, rights), -1)
WRAP(int, madvise, (void *at, size_t bytes, int advice), (at, bytes, advice), -1)
WRAP(int, mincore, (void *at, size_t bytes, unsigned char *found), (at, bytes, found), -1)
WRAP(int, ftruncate, (int file, off_t length), (file, length), -1)
WRAP(int, sigaction, (int number, const struct sigaction *new, struct sigaction *old), (number, new, old), -1)
WRAP(ssize_t, read, (int file, void *bytes, size_t length), (file, bytes, length), -1)
WRAP(int, getrlimit, (int what, struct rlimit *found), (what, found), -1)

void *__real_mremap(void *at, size_t old, size_t new, int flags, void *to);
void *__wrap_mremap(void *at, size_t old, size_t new, int flags, ...);
void *__wrap_mremap(void *at, size_t old, size_t new, int flags, ...)
{
	va_list rest;
	void *to;

	va_start(rest, flags);
	to = va_arg(rest, void *);
	va_end(rest);
	return fails("mremap") ? MAP_FAILED : __real_mremap(at, old, new, flags, to);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	return fails("open") ? -1 : __real_open(path, flags);
}

int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...)
{
	return fails("openat") ? -1 : __real_openat(folder, path, flags);
}

long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	const char *name = number == SYS_pwrite64 ? "pwrite64" : number == SYS_membarrier ? "membarrier"
						  : number == SYS_memfd_create		  ? "memfd_create"
						  : number == SYS_write			  ? "write"
						  : number == SYS_getdents64		  ? "getdents64"
											  : NULL;
	long a[6];
	va_list rest;

	va_start(rest, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(rest, long);
	va_end(rest);
	if (number == SYS_membarrier && a[0] == 1 << 6 /* register */)
		registration_lost = false;
	if (number == SYS_membarrier && registration_lost) {
		errno = EPERM;
		return -1;
	}
	return name && fails(name) ? -1 : __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

void kill_at_call(long call)
{
	injection.left = call;
	injection.deadly = call >= 0;
	injection.failed = NULL;
	injection.thread = gettid();
	__atomic_store_n(&injection.armed, call >= 0, __ATOMIC_SEQ_CST);
}

static int set_disturbed(int value, long left, int error, bool for_good)
{
	int result;

	injection.left = left;
	injection.error = error;
	injection.for_good = for_good;
	injection.failed = NULL;
	injection.calls = 0;
	injection.thread = gettid();
	__atomic_store_n(&injection.armed, true, __ATOMIC_SEQ_CST);
	result = set_all(value);
	__atomic_store_n(&injection.armed, false, __ATOMIC_SEQ_CST);
	return result;
}

/* A change that succeeded shows everywhere, and a change that failed nowhere; sites that are not patched follow the keys. */
static void check_disturbed(int from, int to, int result)
{
	if (result == 0) {
		check_all(to);
		return;
	}
	CHECK(result == -ENOTSUP || result == -ENOMEM || result == -EBUSY || result == -EFAULT);
	check_all(from);
}

enum { REFUSED = 10, CHANGED, NOT_REACHED };

/* Runs in a process of its own, since the library abandons a writer that failed. */
static void disturb(const struct writer *writer, bool alone, long call, int error, bool for_good)
{
	unsigned char before[256], after[256];
	pthread_t thread;
	int result;

	if (!alone)
		start_sibling(&thread);
	writer_used = writer;
	CHECK_EQUAL(set_all(2), 0);
	snapshot(before);
	result = set_disturbed(3, call, error, for_good);
	check_disturbed(2, 3, result);
	snapshot(after);
	CHECK(result == 0 || memcmp(before, after, sizeof before) == 0);
	/* The next change works, whatever failed. */
	CHECK_EQUAL(set_all(5), 0);
	check_all(5);
	if (!alone)
		stop_sibling(thread);
	_exit(!injection.failed ? NOT_REACHED : result ? REFUSED : CHANGED);
}

static int disturb_in_child(const struct writer *writer, bool alone, long call, int error, bool for_good)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0)
		disturb(writer, alone, call, error, for_good);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) >= REFUSED);
	return WEXITSTATUS(status);
}

static void disturb_each_call(const struct writer *writer, bool alone)
{
	static const int errors[] = {EPERM, ENOMEM, EMFILE};
	long calls = 0, refused = 0;

	for (int i = 0; i < 6; i++) {
		long call = 0;
		int result;

		while ((result = disturb_in_child(writer, alone, call++, errors[i / 2], i & 1)) != NOT_REACHED)
			refused += result == REFUSED;
		calls += call - 1;
		CHECK(call > 5);
	}
	printf("inject: %s, %s: %ld calls failed in turn, %ld changes were refused\n", writer->name,
	       alone ? "one thread" : "more threads", calls, refused);
}

void case_inject(void)
{
	CHECK_EQUAL(patchpoint_init(), 0);
	disturb_each_call(&writer_proc_mem, true);
	disturb_each_call(&writer_proc_mem, false);
	disturb_each_call(&writer_memfd, true);
	disturb_each_call(&writer_memfd, false);
	disturb_each_call(&writer_mprotect, true);
}

#ifdef __x86_64__
PATCHPOINT_DECLARE_BRANCH(crowd);
PATCHPOINT_DEFINE_BRANCH(crowd, false);

#define TEN_TIMES(x) x x x x x x x x x x
int crowd_of_sites(void);

__attribute__((noinline)) int crowd_of_sites(void)
{
	int sum = 0;

	TEN_TIMES(TEN_TIMES(TEN_TIMES(if (patchpoint_unlikely(crowd)) sum++; __asm__ volatile("" : "+r"(sum));)))
	return sum;
}

static int set_single(int i)
{
	return patchpoint_set_value(number, i);
}

static int set_crowd(int i)
{
	return patchpoint_set_branch(crowd, i & 1);
}

/* Counts the system calls of a change; the library looks for a tracer now and then, so the fewest of some changes count. */
static void count_calls(int (*change)(int i), long writes_most, long calls_most)
{
	long fewest = LONG_MAX;

	for (int i = 0; i < 40; i++) {
		memset(&injection, 0, sizeof injection);
		injection.left = -1;
		injection.thread = gettid();
		__atomic_store_n(&injection.armed, true, __ATOMIC_SEQ_CST);
		CHECK_EQUAL(change(i + 3), 0);
		__atomic_store_n(&injection.armed, false, __ATOMIC_SEQ_CST);
		fewest = injection.calls < fewest ? injection.calls : fewest;
		CHECK_EQUAL(injection.barriers, 1);
		CHECK(injection.writes <= writes_most);
	}
	CHECK(fewest <= calls_most);
	printf("calls: %ld\n", fewest);
}

/* A change makes few system calls, and hardly more of them for a thousand sites than for one. */
void case_calls(void)
{
	pthread_t thread;

	CHECK_EQUAL(patchpoint_init(), 0);
	/* The key's page, the file, the site's page, a write, a barrier. */
	count_calls(set_single, 1, 5);
	count_calls(set_crowd, 4, 20);
	start_sibling(&thread);
	/* Two moves, the list of mappings. */
	count_calls(set_single, 1, 8);
	count_calls(set_crowd, 4, 24);
	stop_sibling(thread);
	CHECK_EQUAL(set_crowd(1), 0);
	CHECK_EQUAL(crowd_of_sites(), 1000);
	CHECK_EQUAL(status_now().protocol, PATCHPOINT_PROTOCOL_MOVE);
}
#endif

/* The kernel does not keep the registration for barriers in a checkpoint (criu issue 2025). */
void case_restored(void)
{
	pthread_t thread;

	CHECK_EQUAL(patchpoint_init(), 0);
	start_sibling(&thread);
	for (int i = 0; i < 6; i++) {
		registration_lost = i & 1;
		CHECK_EQUAL(set_all(i), 0);
		check_all(i);
		CHECK(!registration_lost);
	}
	stop_sibling(thread);
}
