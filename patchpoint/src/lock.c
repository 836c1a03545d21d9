/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The library's one lock: a futex of its own, since it lies in the registry, which other processes read, and must survive fork. */
#define _GNU_SOURCE
#include "internal.h"
#include "kernel.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WAITED (1u << 31)

/* Exported by a second name, which no header declares: a reference from a program would make a copy of the data. */
struct patchpoint_registry registry = {"patchpt", PATCHPOINT_FORMAT, sizeof registry, 0, 0, NULL, 0, 0, 0, NULL, 0};
extern struct patchpoint_registry patchpoint_registry __attribute__((alias("patchpoint__registry"), visibility("default")));

struct patchpoint_registry *patchpoint_registry_get(void)
{
	return &registry;
}

void patchpoint_ops_add(uint64_t count)
{
	(void)__atomic_fetch_add(&registry.ops, count, __ATOMIC_RELAXED);
}

/* The note by which another process finds the registry without symbols: it holds the registry's distance from this field. */
__asm__(".pushsection .note.patchpoint,\"a\",@note\n\t"
	".balign 4\n\t"
	".long 11, 8, 2\n\t"
	".asciz \"patchpoint\"\n\t"
	".balign 4\n\t"
	".long 1\n\t"
	".long patchpoint__registry - .\n\t"
	".popsection");

/* The process that owns this memory: differs from getpid() in a child of vfork or of a raw clone, where no handler ran. */
static pid_t owner;

uint64_t guard_signals;

static int lock_take(uint32_t self)
{
	uint32_t *lock = &registry.lock;
	uint32_t found = 0;

	if (__atomic_compare_exchange_n(lock, &found, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;
	/* A signal handler that interrupted the holder would wait for its own thread. */
	if ((found & ~WAITED) == self)
		return -EDEADLK;
	/* From here on the lock is taken with WAITED set: another thread may sleep on it. */
	for (;;) {
		found = 0;
		if (__atomic_compare_exchange_n(lock, &found, self | WAITED, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return 0;
		if (!(found & WAITED) && !__atomic_compare_exchange_n(lock, &found, found | WAITED, false,
								     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue;
		syscall(SYS_futex, lock, KERNEL_FUTEX_WAIT_PRIVATE, found | WAITED, NULL, NULL, 0);
	}
}

static void lock_give(void)
{
	if (__atomic_exchange_n(&registry.lock, 0, __ATOMIC_RELEASE) & WAITED)
		syscall(SYS_futex, &registry.lock, KERNEL_FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

bool lock_is_mine(void)
{
	return (__atomic_load_n(&registry.lock, __ATOMIC_RELAXED) & ~WAITED) == (uint32_t)syscall(SYS_gettid);
}

/*
 * A page that any kind of fork empties in the child (MADV_WIPEONFORK, Linux 4.14). NULL if there is none: then no process counts as
 * an orphan.
 */
static volatile int *not_forked;

void orphans_notice(void)
{
	void *page = not_forked ? NULL : pages_get(sizeof *not_forked);

	if (!page)
		return;
	if (madvise(page, (size_t)sysconf(_SC_PAGESIZE), KERNEL_MADV_WIPEONFORK) != 0) {
		pages_put(page, sizeof *not_forked);
		return;
	}
	not_forked = page;
	*not_forked = 1;
}

bool process_is_orphan(void)
{
	return not_forked && !*not_forked;
}

/* fork takes the lock, so the child never sees an open transaction; the forking thread holds it by its thread id in both. */
static struct guard fork_guard;
/* Whether this thread's fork has the lock. Each thread has its own flag: libc lets several be in these handlers at once. */
static __thread bool fork_guarded __attribute__((tls_model("initial-exec")));

static void fork_prepare(void)
{
	struct guard guard;

	fork_guarded = false;
	if (guard_enter(&guard) == 0) {
		fork_guard = guard;
		fork_guarded = true;
	}
}

static void fork_parent(void)
{
	if (!fork_guarded)
		return;
	guard_leave(&fork_guard);
}

static void fork_child(void)
{
	if (!fork_guarded)
		return;
	owner = getpid();
	/* The parent's waiters do not exist in the child. */
	__atomic_store_n(&registry.lock, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
	trap_waiters = 0;
	if (not_forked)
		*not_forked = 1;
	sync_after_fork();
	writer_after_fork();
	mappings_after_fork();
	guard_leave(&fork_guard);
}

__attribute__((constructor(101))) static void lock_start(void)
{
	if (owner)
		return;
	owner = getpid();
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/*
 * Blocks signals and cancellation, then takes the lock. A signal handler in this thread might execute a site that the thread is
 * writing, and wait for ever. SIGTRAP stays as it is: the kernel kills a process that traps with SIGTRAP blocked.
 */
int guard_enter(struct guard *guard)
{
	uint64_t all = ~(UINT64_C(1) << (SIGTRAP - 1));
	int error;

	lock_start();
	if (owner != getpid())
		return -EPERM;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guard->cancel);
	/* The system call, since libc's function keeps two signals of its own open, one of which runs set*id in every thread. */
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &guard->signals, sizeof all);
	error = lock_take((uint32_t)syscall(SYS_gettid));
	if (error) {
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &guard->signals, NULL, sizeof guard->signals);
		pthread_setcancelstate(guard->cancel, NULL);
		return error;
	}
	guard_signals = guard->signals;
	return 0;
}

void guard_leave(struct guard *guard)
{
	uint64_t signals = guard->signals;
	int cancel = guard->cancel;

	lock_give();
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &signals, NULL, sizeof signals);
	pthread_setcancelstate(cancel, NULL);
}
