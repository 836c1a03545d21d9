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

/* The signal whose handler a thread is in, and one that came meanwhile and waits for the end of the handler. */
static _Thread_local struct {
	const void *context;
	bool waits;
	siginfo_t waiting;
} now __attribute__((tls_model("initial-exec")));

/*
 * Calls a program's handler as the kernel would: with its mask, and once only if it asked for that. SIGTRAP itself stays open, since
 * the handler may meet a breakpoint of the library; another SIGTRAP waits. When the library's handler returns, the kernel restores
 * the interrupted code's mask.
 */
CALLS_ANY static void chained_call(struct sigaction *chosen, int number, siginfo_t *info, void *context)
{
	struct sigaction action = *chosen;
	const void *outer_context = now.context;
	bool outer = in_chain;

	if (action.sa_flags & (int)SA_RESETHAND) {
		chosen->sa_handler = SIG_DFL;
		chosen->sa_flags &= ~SA_SIGINFO;
	}
	sigdelset(&action.sa_mask, number);
	sigprocmask(SIG_BLOCK, &action.sa_mask, NULL);
	if (!(action.sa_flags & SA_NODEFER))
		now.context = context;
	in_chain = true;
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(number, info, context);
	else
		action.sa_handler(number);
	in_chain = outer;
	now.context = outer_context;
}

/* Ends the process as if no handler were there. */
static void die(void)
{
	struct sigaction fallback;

	memset(&fallback, 0, sizeof fallback);
	fallback.sa_handler = SIG_DFL;
	sigaction(SIGTRAP, &fallback, NULL);
	syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), SIGTRAP);
}

static void chain(int number, siginfo_t *info, void *context)
{
	unsigned count = __atomic_load_n(&chained_count, __ATOMIC_ACQUIRE);
	struct sigaction *action = &chained[count > 1 && !in_chain ? 1 : 0];

	if (now.context && now.context != context && info->si_code <= 0) {
		now.waiting = *info;
		now.waits = true;
	} else if (now.context && now.context != context) {
		die();
	} else if (action->sa_flags & SA_SIGINFO || (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN)) {
		chained_call(action, number, info, context);
	} else if (action->sa_handler == SIG_DFL || info->si_code > 0) {
		/* The kernel lets no process ignore a trap. */
		die();
	}
	if (!now.context && now.waits) {
		siginfo_t waiting = now.waiting;

		now.waits = false;
		chain(number, &waiting, context);
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
 * Resumes in a process that was forked without libc's handlers: the change ends here. If a breakpoint cannot be removed, the thread
 * steps over it: without its first byte an instruction is the same. Returns false for a breakpoint that is not the library's.
 */
static bool resume_orphan(void *context, const unsigned char *address)
{
	if (!breakpoint_is_ours(address))
		return false;
	change_abandon();
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
		/*
		 * Behind its first byte the site is the old or the new instruction. A handler of the program's that interrupts the
		 * changing thread would wait for itself.
		 */
		if (breakpoint_is_stuck() || lock_is_mine()) {
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
	/*
	 * SA_NODEFER: a thread in the handler does not count as one that blocks the signal. SA_ONSTACK, for small stacks, and
	 * SA_RESTART, unless a program's handler was installed without.
	 */
	action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK | SA_RESTART;
	if (found.sa_flags & SA_SIGINFO || (found.sa_handler != SIG_DFL && found.sa_handler != SIG_IGN))
		action.sa_flags &= SA_SIGINFO | SA_NODEFER | found.sa_flags;
	sigemptyset(&action.sa_mask);
	chained[chained_count ? 1 : 0] = found;
	__atomic_store_n(&chained_count, chained_count ? 2 : 1, __ATOMIC_RELEASE);
	return sigaction(SIGTRAP, &action, NULL) != 0 ? -errno : 0;
}
