/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A test without the library: one thread exchanges NOP and B as the architecture prescribes, while another thread executes them.
 * The first thread checks that it executes what it wrote itself. No processor may fail this. An emulator that fails has kept a
 * translation of the old instruction; programs that change code cannot be tested by exact results there.
 * Usage: textbook_aarch64 SECONDS. Prints the counts; its status is 0 whatever they are, since they judge the machine.
 */
#define _GNU_SOURCE
#include "check.h"

#include "../src/kernel.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 4096 };
static const uint32_t NOP = 0xd503201f, B_THREE = 0x14000003;

static bool stop;
static int (*function)(void);

static void *execute(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		(void)function();
	return unused;
}

/* Does all possible maintenance: of both caches by their own addresses, and of every thread's context. */
static void maintain(const void *code, const void *alias)
{
	__asm__ volatile("dc\tcvau, %0\n\tdsb\tish\n\tic\tivau, %1\n\tdsb\tish\n\tisb" : : "r"(alias), "r"(code) : "memory");
	CHECK_EQUAL(syscall(SYS_membarrier, KERNEL_MEMBARRIER_SYNC_CORE, 0, 0), 0);
}

static void store(uint32_t *alias, const void *code, uint32_t instruction)
{
	__atomic_store_n(alias, instruction, __ATOMIC_RELEASE);
	maintain(code, alias);
}

int main(int count, char **arguments)
{
	/* The site; mov %w0,#0; ret; mov %w0,#1; ret. */
	const uint32_t text[] = {NOP, 0x52800000, 0xd65f03c0, 0x52800020, 0xd65f03c0};
	int file = (int)syscall(SYS_memfd_create, "textbook", 1), seconds = count > 1 ? atoi(arguments[1]) : 5;
	long changes = 0, stale = 0, lasting = 0, cured = 0;
	pthread_t thread;
	uint32_t *alias;
	time_t end;
	void *code;

	CHECK(file >= 0 && ftruncate(file, BYTES) == 0);
	alias = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(alias != MAP_FAILED);
	memcpy(alias, text, sizeof text);
	code = mmap(NULL, BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
	CHECK(code != MAP_FAILED);
	CHECK_EQUAL(syscall(SYS_membarrier, KERNEL_MEMBARRIER_REGISTER_SYNC_CORE, 0, 0), 0);
	maintain(code, alias);
	memcpy(&function, &code, sizeof function);
	CHECK_EQUAL(pthread_create(&thread, NULL, execute, NULL), 0);
	for (end = time(NULL) + seconds; time(NULL) < end; changes++) {
		int wanted = changes & 1;

		store(alias, code, wanted ? B_THREE : NOP);
		if (function() == wanted)
			continue;
		stale++;
		usleep(20000);
		maintain(code, alias);
		if (function() == wanted)
			continue;
		lasting++;
		store(alias, code, wanted ? B_THREE : NOP);
		cured += function() == wanted;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	printf("textbook: %ld changes, %ld stale in the thread that made them, %ld of these still after 20 ms and all maintenance "
	       "again, %ld of these right after the same store again\n",
	       changes, stale, lasting, cured);
	return 0;
}
