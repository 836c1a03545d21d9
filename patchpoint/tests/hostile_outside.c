/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Another process changes a site, by the rules of the registry: all threads stopped, lock free, code and key together. */
#define _GNU_SOURCE
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 50, FIRST = 1000 };

struct shared {
	const void *site;
	bool ready;
	int wanted;
	uint64_t seen;
};

static int set_others(int i)
{
	struct patchpoint_txn txn;

	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_call(&txn, job, i & 1 ? job_negate : job_identity);
	patchpoint_txn_set_branch(&txn, flag, i & 1);
	return patchpoint_txn_commit(&txn);
}

/* Changes other keys nearly all the time, so that the lock is often taken. */
static void subject(struct shared *shared)
{
	pthread_t thread;

	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(patchpoint_set_value(number, FIRST), 0);
	shared->site = site_of(&patchpoint_key_number).address;
	start_sibling(&thread);
	__atomic_store_n(&shared->ready, true, __ATOMIC_SEQ_CST);
	for (int i = 0; __atomic_load_n(&shared->seen, __ATOMIC_SEQ_CST) < FIRST + ROUNDS; i++) {
		CHECK_EQUAL(set_others(i), 0);
		__atomic_store_n(&shared->seen, (uint64_t)read_number(), __ATOMIC_SEQ_CST);
		usleep(20);
	}
	/* The next transaction expects to find what was written from outside. */
	CHECK_EQUAL(patchpoint_set_value(number, 5), 0);
	CHECK_EQUAL(read_number(), 5);
	stop_sibling(thread);
	_exit(0);
}

/* Returns false, and does nothing, if a transaction is open. The child was forked, so its addresses are this process's. */
static bool change_outside(pid_t child, int memory, const struct shared *shared, int value)
{
	struct patchpoint_registry registry;
	unsigned char code[7];
	int status;
	bool free;

	CHECK_EQUAL(kill(child, SIGSTOP), 0);
	CHECK_EQUAL(waitpid(child, &status, WUNTRACED), child);
	CHECK(WIFSTOPPED(status));
	CHECK_EQUAL(pread(memory, &registry, sizeof registry, (off_t)(uintptr_t)patchpoint_registry_get()), sizeof registry);
	free = registry.lock == 0;
	if (free) {
		CHECK_EQUAL(registry.generation & 1, 0);
		CHECK_EQUAL(pread(memory, code, sizeof code, (off_t)(uintptr_t)shared->site), sizeof code);
		CHECK_EQUAL(code[1], 0xc7);
		CHECK_EQUAL(pwrite(memory, &value, 4, (off_t)((uintptr_t)shared->site + 3)), 4);
		CHECK_EQUAL(pwrite(memory, &value, 4, (off_t)(uintptr_t)&patchpoint_key_number.slot), 4);
	}
	CHECK_EQUAL(kill(child, SIGCONT), 0);
	return free;
}

void case_outside(void)
{
	struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int busy = 0, status, memory;
	char name[64];
	pid_t child;

	CHECK(shared != MAP_FAILED);
	child = fork();
	if (child == 0)
		subject(shared);
	snprintf(name, sizeof name, "/proc/%d/mem", child);
	memory = open(name, O_RDWR | O_CLOEXEC);
	if (memory < 0) {
		kill(child, SIGKILL);
		SKIP("cannot write another process's memory: %s", strerror(errno));
	}
	while (!__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST))
		usleep(1000);
	for (int value = FIRST + 1; value <= FIRST + ROUNDS; value++) {
		while (!change_outside(child, memory, shared, value))
			busy++;
		while (__atomic_load_n(&shared->seen, __ATOMIC_SEQ_CST) != (uint64_t)value)
			usleep(100);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	printf("outside: %d changes, %d times a transaction was open\n", ROUNDS, busy);
}
