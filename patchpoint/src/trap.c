/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The handler of SIGTRAP. A thread that meets a site's breakpoint goes back and executes the site again. A trap may be delivered at
 * any later time (the thread was preempted or stopped in between, and no membarrier waits for that); then the site already holds
 * its new instruction. The handler pushes nothing on the stack of the interrupted code, so red zones and shadow stacks stay intact.
 */
#define _GNU_SOURCE
#include "internal.h"
#include "kernel.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Handlers found in place: [0] before the library's, [1] installed over it later, which may call the library's in turn. */
static struct sigaction chained[2];
static unsigned chained_count;
static _Thread_local bool in_chain __attribute__((tls_model("initial-exec")));

static void chain(int number, siginfo_t *info, void *context)
{
	unsigned count = __atomic_load_n(&chained_count, __ATOMIC_ACQUIRE);
	const struct sigaction *action = &chained[count > 1 && !in_chain ? 1 : 0];
	bool outer = in_chain;

	if (action->sa_flags & SA_SIGINFO) {
		in_chain = true;
		action->sa_sigaction(number, info, context);
		in_chain = outer;
	} else if (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN) {
		in_chain = true;
		action->sa_handler(number);
		in_chain = outer;
	} else if (action->sa_handler == SIG_DFL || info->si_code > 0) {
		/* The kernel lets no process ignore a trap: both ways end the process as if no handler were there. */
		struct sigaction fallback;

		memset(&fallback, 0, sizeof fallback);
		fallback.sa_handler = SIG_DFL;
		sigaction(SIGTRAP, &fallback, NULL);
		syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), SIGTRAP);
	}
}

uint32_t trap_waiters;

static const struct timespec moment = {0, 1000000};

/* Waits until the writer is done, or 1 ms. It sleeps, since a thread of higher priority must let the writer run. */
static void wait_for_writer(const unsigned char *address)
{
	uint32_t generation = __atomic_load_n(&registry.generation, __ATOMIC_SEQ_CST);

	for (int i = 0; i < 100; i++) {
		if (arch_trap_is_gone(address))
			return;
		arch_pause();
	}
	__atomic_fetch_add(&trap_waiters, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &registry.generation, KERNEL_FUTEX_WAIT_PRIVATE, generation, &moment, NULL, 0);
	__atomic_fetch_sub(&trap_waiters, 1, __ATOMIC_SEQ_CST);
}

/*
 * Resumes in a process that was forked without libc's handlers. If the process shares its text with its parent, the parent ends the
 * change soon; else the change ends here. If a breakpoint cannot be removed, the thread steps over it: without its first byte an
 * instruction is the same. Returns false for a breakpoint that is not the library's.
 */
static bool resume_orphan(void *context, const unsigned char *address)
{
	enum { WAITS_MAX = 1000 };

	if (registry_shares_site(address)) {
		for (int waits = 0; waits < WAITS_MAX && !arch_trap_is_gone(address); waits++)
			nanosleep(&moment, NULL);
	} else if (!breakpoint_is_ours(address)) {
		return false;
	} else {
		change_abandon();
	}
	arch_resume_at(context, arch_trap_is_gone(address) ? address : address + 1);
	return true;
}

static bool resume(void *context)
{
	const unsigned char *address = arch_trap_address(context);

	if (process_is_orphan() && !arch_trap_is_gone(address))
		return resume_orphan(context, address);
	if (!arch_trap_is_gone(address)) {
		if (!breakpoint_is_ours(address))
			return false;
		if (breakpoint_is_stuck()) {
			arch_resume_at(context, address + 1);
			return true;
		}
		wait_for_writer(address);
	}
	arch_resume_at(context, address);
	return true;
}

static void handle(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	/* A breakpoint's code is SI_KERNEL (arch/x86/kernel/traps.c, do_int3_user); kill and single steps have other codes. */
	if (info->si_code == SI_KERNEL && resume(context))
		__atomic_fetch_add(&registry.traps, 1, __ATOMIC_RELAXED);
	else
		chain(number, info, context);
	errno = saved;
}

/* Installs the handler, with the lock held. Returns 0, or -errno if that fails. */
int trap_install(void)
{
	struct sigaction found, action;

	if (sigaction(SIGTRAP, NULL, &found) != 0)
		return -errno;
	if (found.sa_flags & SA_SIGINFO && found.sa_sigaction == handle)
		return 0;
	memset(&action, 0, sizeof action);
	action.sa_sigaction = handle;
	/* SA_NODEFER: a thread in the handler does not count as one that blocks the signal. SA_ONSTACK: for small stacks. */
	action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER;
	sigemptyset(&action.sa_mask);
	chained[chained_count ? 1 : 0] = found;
	__atomic_store_n(&chained_count, chained_count ? 2 : 1, __ATOMIC_RELEASE);
	return sigaction(SIGTRAP, &action, NULL) != 0 ? -errno : 0;
}
