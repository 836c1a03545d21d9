/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Preloaded into a server by script/test-servers: the server's threads execute sites wherever they read, write, wait or sync,
 * while a thread of this library changes the keys of these sites. The first process that waits for events and for which the file
 * SERVER_PRELOAD_START exists makes SERVER_PRELOAD_CHANGES changes, and writes a line of figures to SERVER_PRELOAD_REPORT.
 *
 * Each key is set to the number of its change, or to what this number names. Before and after it executes a site, a thread reads
 * which changes were complete and which had begun: an instruction that names any other change is a wrong observation.
 */
#define _GNU_SOURCE
#include <patchpoint.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 4, OPERATIONS = 4, WAYS = 3 };
enum key { LIMIT, OPERATION, TRACING, POLICY, KEYS };

PATCHPOINT_DECLARE_VALUE(preload_limit, uint64_t);
PATCHPOINT_DECLARE_CALL(preload_operation, long, long);
PATCHPOINT_DECLARE_BRANCH(preload_tracing);
PATCHPOINT_DECLARE_SWITCH(preload_policy, WAYS);

/* A constant and a move take the place of their calls; the other two are called. */
static long is_zero(long a) { (void)a; return 0; }
static long is_one(long a) { return a; }
static long is_two(long a) { return a * a + 1; }
static long is_three(long a) { return a * 5 - 2; }
static long (*const operations[OPERATIONS])(long) = {is_zero, is_one, is_two, is_three};

PATCHPOINT_DEFINE_VALUE(preload_limit, uint64_t, 0);
PATCHPOINT_DEFINE_CALL(preload_operation, is_zero);
PATCHPOINT_DEFINE_SAVED(preload_operation);
PATCHPOINT_DEFINE_BRANCH(preload_tracing, false);
PATCHPOINT_DEFINE_SWITCH(preload_policy, WAYS, 0);

/* The environment's words at the start: servers clear it, and write titles over it. */
static char *wish_start, *wish_report;
static uint64_t wish_changes;

__attribute__((constructor)) static void read_wishes(void)
{
	const char *start = getenv("SERVER_PRELOAD_START"), *report = getenv("SERVER_PRELOAD_REPORT"), *changes = getenv("SERVER_PRELOAD_CHANGES");

	if (!start || !report || !changes)
		return;
	wish_start = strdup(start);
	wish_report = strdup(report);
	wish_changes = strtoull(changes, NULL, 10);
}

/* By key: the number of the last change that is complete, and of the last one that has begun. */
static uint64_t complete[KEYS], begun[KEYS];
static uint64_t executed, executed_blocked, wrong;
static uint64_t threads, threads_blocked;
static bool stopped;

static uint64_t read_change(const uint64_t *of) { return __atomic_load_n(of, __ATOMIC_ACQUIRE); }

/* Whether `seen` is what a change from `first` to `last` sets, for a key that takes `count` values in turn. */
static bool legal(uint64_t seen, uint64_t count, uint64_t first, uint64_t last)
{
	for (uint64_t change = first; change <= last && change < first + count; change++)
		if (change % count == seen)
			return true;
	return false;
}

static uint64_t branch_seen(void)
{
	if (patchpoint_unlikely(preload_tracing))
		return 1;
	return 0;
}

static uint64_t way_seen(void)
{
	switch (patchpoint_switch(preload_policy)) {
	case 0:
		return 0;
	case 1:
		return 1;
	default:
		return 2;
	}
}

/* Executes a site of each kind; an odd round calls in the form that preserves registers. Returns the wrong observations. */
__attribute__((noinline)) static unsigned execute(unsigned round)
{
	uint64_t first[KEYS], seen[KEYS];
	unsigned bad = 0;

	for (int key = 0; key < KEYS; key++)
		first[key] = read_change(&complete[key]);
	seen[LIMIT] = patchpoint_value(preload_limit);
	seen[OPERATION] = (uint64_t)(round & 1 ? patchpoint_call_saved(preload_operation, 1) : patchpoint_call(preload_operation, 1));
	seen[TRACING] = branch_seen();
	seen[POLICY] = way_seen();
	bad += seen[LIMIT] < first[LIMIT] || seen[LIMIT] > read_change(&begun[LIMIT]);
	bad += !legal(seen[OPERATION], OPERATIONS, first[OPERATION], read_change(&begun[OPERATION]));
	bad += !legal(seen[TRACING], 2, first[TRACING], read_change(&begun[TRACING]));
	bad += !legal(seen[POLICY], WAYS, first[POLICY], read_change(&begun[POLICY]));
	return bad;
}

static _Thread_local struct {
	bool known, blocks, inside;
} self;

/* A thread counts by whether it blocks SIGTRAP when it first comes here. */
static void know_self(void)
{
	sigset_t mask;

	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	self.known = true;
	self.blocks = sigismember(&mask, SIGTRAP) == 1;
	__atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&threads_blocked, self.blocks, __ATOMIC_RELAXED);
}

static void execute_sites(void)
{
	unsigned bad = 0;

	if (__atomic_load_n(&stopped, __ATOMIC_RELAXED))
		return;
	if (!self.known)
		know_self();
	for (unsigned round = 0; round < ROUNDS; round++)
		bad += execute(round);
	__atomic_add_fetch(self.blocks ? &executed_blocked : &executed, ROUNDS * KEYS, __ATOMIC_RELAXED);
	if (bad)
		__atomic_add_fetch(&wrong, bad, __ATOMIC_RELAXED);
}

static int change(enum key key, uint64_t number)
{
	switch (key) {
	case LIMIT:
		return patchpoint_set_value(preload_limit, number);
	case OPERATION:
		return patchpoint_set_call(preload_operation, operations[number % OPERATIONS]);
	case TRACING:
		return patchpoint_set_branch(preload_tracing, number % 2);
	default:
		return patchpoint_set_switch(preload_policy, number % WAYS);
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Threads of the process, and those that block SIGTRAP, as /proc says. */
static void count_threads(uint64_t *all, uint64_t *blocked)
{
	char command[128], line[64];
	FILE *answer;

	snprintf(command, sizeof command, "LD_PRELOAD= grep -h ^SigBlk: /proc/%d/task/*/status", getpid());
	*all = *blocked = 0;
	answer = popen(command, "r");
	while (answer && fgets(line, sizeof line, answer)) {
		++*all;
		*blocked += strtoull(line + strlen("SigBlk:"), NULL, 16) >> (SIGTRAP - 1) & 1;
	}
	if (answer)
		pclose(answer);
}

static void write_report(uint64_t made, uint64_t refused, int error, uint64_t elapsed_ns)
{
	struct patchpoint_status status;
	uint64_t all, blocked;
	char part[4096];
	FILE *report;

	count_threads(&all, &blocked);
	if (patchpoint_status(&status))
		return;
	snprintf(part, sizeof part, "%s.part", wish_report);
	report = fopen(part, "w");
	if (!report)
		return;
	fprintf(report,
		"threads=%lu blocked=%lu executing=%lu executing_blocked=%lu changes=%lu refusals=%lu error=%d wrong=%lu executed=%lu "
		"executed_blocked=%lu ms=%lu writer=%s protocol=%s reason=%s\n",
		all, blocked, threads, threads_blocked, made, refused, error, wrong, executed, executed_blocked, elapsed_ns / 1000000,
		status.writer_name, status.protocol_name, status.protocol_reason);
	fclose(report);
	rename(part, wish_report);
}

/* Changes the keys in turn. A refused change is not repeated: the key keeps its value, and its number stays free. */
static void *change_keys(void *unused)
{
	uint64_t made = 0, refused = 0, start = now_ns();
	int error, last_error = 0;

	(void)unused;
	pthread_setname_np(pthread_self(), "changer");
	for (uint64_t i = 0; i < wish_changes; i++) {
		enum key key = (enum key)(i % KEYS);
		uint64_t number = complete[key] + 1;

		__atomic_store_n(&begun[key], number, __ATOMIC_SEQ_CST);
		error = change(key, number);
		if (error) {
			refused++;
			last_error = error;
			continue;
		}
		made++;
		__atomic_store_n(&complete[key], number, __ATOMIC_SEQ_CST);
		/* Without a pause a process of few threads would do little else. */
		usleep(100);
	}
	write_report(made, refused, last_error, now_ns() - start);
	__atomic_store_n(&stopped, true, __ATOMIC_RELAXED);
	return NULL;
}

/* Once in a process: whether this is the one that changes keys. Its thread blocks all signals but SIGTRAP: they are the server's. */
static void start_changing(void)
{
	static pid_t started;
	pid_t process = getpid();
	sigset_t all, old;
	pthread_t thread;
	int file;

	if (!wish_start || started == process || access(wish_start, F_OK))
		return;
	started = process;
	/* One process takes the file away: the one that begins. */
	file = open(wish_start, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return;
	close(file);
	if (unlink(wish_start))
		return;
	sigfillset(&all);
	sigdelset(&all, SIGTRAP);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&thread, NULL, change_keys, NULL) == 0)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Runs before a call of libc; `waits` if the caller waits for events. The library's own calls come through here, too. */
static void before(bool waits)
{
	int saved = errno;

	if (self.inside)
		return;
	self.inside = true;
	if (waits)
		start_changing();
	execute_sites();
	self.inside = false;
	errno = saved;
}

/* WRAP(result, name, parameters, arguments, waits): a function of libc that executes sites first. */
#define WRAP(type, name, parameters, arguments, waits) \
	type name parameters \
	{ \
		static type(*real) parameters; \
\
		if (!__atomic_load_n(&real, __ATOMIC_ACQUIRE)) \
			__atomic_store_n(&real, __extension__(type(*) parameters) dlsym(RTLD_NEXT, #name), __ATOMIC_RELEASE); \
		before(waits); \
		return real arguments; \
	}

WRAP(int, epoll_wait, (int set, struct epoll_event *events, int max, int ms), (set, events, max, ms), true)
WRAP(int, epoll_pwait, (int set, struct epoll_event *events, int max, int ms, const sigset_t *mask), (set, events, max, ms, mask), true)
WRAP(int, poll, (struct pollfd *files, nfds_t count, int ms), (files, count, ms), true)
WRAP(int, ppoll, (struct pollfd *files, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
     (files, count, timeout, mask), true)
WRAP(int, select, (int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *timeout), (count, in, out, other, timeout), true)
WRAP(ssize_t, read, (int file, void *data, size_t size), (file, data, size), false)
WRAP(ssize_t, write, (int file, const void *data, size_t size), (file, data, size), false)
WRAP(ssize_t, readv, (int file, const struct iovec *parts, int count), (file, parts, count), false)
WRAP(ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count), false)
WRAP(ssize_t, pread64, (int file, void *data, size_t size, off64_t at), (file, data, size, at), false)
WRAP(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at), false)
WRAP(ssize_t, preadv64, (int file, const struct iovec *parts, int count, off64_t at), (file, parts, count, at), false)
WRAP(ssize_t, recv, (int file, void *data, size_t size, int flags), (file, data, size, flags), false)
WRAP(ssize_t, send, (int file, const void *data, size_t size, int flags), (file, data, size, flags), false)
WRAP(ssize_t, recvmsg, (int file, struct msghdr *message, int flags), (file, message, flags), true)
WRAP(ssize_t, sendmsg, (int file, const struct msghdr *message, int flags), (file, message, flags), false)
WRAP(int, recvmmsg, (int file, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout),
     (file, messages, count, flags, timeout), false)
WRAP(int, sendmmsg, (int file, struct mmsghdr *messages, unsigned count, int flags), (file, messages, count, flags), false)
WRAP(int, fsync, (int file), (file), false)
WRAP(int, fdatasync, (int file), (file), false)
WRAP(int, pthread_mutex_lock, (pthread_mutex_t *mutex), (mutex), false)
WRAP(int, pthread_mutex_trylock, (pthread_mutex_t *mutex), (mutex), false)
