/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A spinlock whose unlock and slow path are chosen at run time. If the program is alone on a machine, waiting means spinning and an
 * unlock is one store in the caller's own code; if waiters sleep, an unlock is a call that wakes them.
 */
#define _GNU_SOURCE
#include <patchpoint.h>

#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

struct lock {
	uint32_t taken;
};

PATCHPOINT_DECLARE_CALL(lock_wait, void, struct lock *);
PATCHPOINT_DECLARE_CALL(lock_release, void, struct lock *);

static void spin(struct lock *lock)
{
	while (__atomic_load_n(&lock->taken, __ATOMIC_RELAXED))
		;
}

static void plain_release(struct lock *lock)
{
	__atomic_store_n(&lock->taken, 0, __ATOMIC_RELEASE);
}

static void sleep_on(struct lock *lock)
{
	syscall(SYS_futex, &lock->taken, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

static void waking_release(struct lock *lock)
{
	__atomic_store_n(&lock->taken, 0, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &lock->taken, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

PATCHPOINT_DEFINE_CALL(lock_wait, sleep_on);
PATCHPOINT_DEFINE_CALL(lock_release, waking_release);

static struct lock counter_lock;
static long counter;

__attribute__((noinline)) void add_one(void);
void add_one(void)
{
	while (__atomic_exchange_n(&counter_lock.taken, 1, __ATOMIC_ACQUIRE))
		patchpoint_call(lock_wait, &counter_lock);
	counter++;
	patchpoint_call(lock_release, &counter_lock);
}

static int choose(void (*wait)(struct lock *), void (*release)(struct lock *))
{
	struct patchpoint_txn txn;

	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_call(&txn, lock_wait, wait);
	patchpoint_txn_set_call(&txn, lock_release, release);
	return patchpoint_txn_commit(&txn);
}

static void *add_many(void *unused)
{
	for (int i = 0; i < 100000; i++)
		add_one();
	return unused;
}

/* The operations change only while no thread uses the lock: no thread may sleep once a release no longer wakes. */
static void count_with_two_threads(const char *name)
{
	pthread_t other;

	counter = 0;
	if (pthread_create(&other, NULL, add_many, NULL) != 0)
		return;
	add_many(NULL);
	pthread_join(other, NULL);
	printf("%s: %ld\n", name, counter);
}

int main(void)
{
	int error = patchpoint_init();

	count_with_two_threads("sleeping");
	error = error ? error : choose(spin, plain_release);
	count_with_two_threads("spinning");
	return error ? 1 : 0;
}
