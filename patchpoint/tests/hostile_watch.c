/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cases in which debuggers and uprobes have breakpoints between sites that are written together, or on a site. */
#define _GNU_SOURCE
#include "hostile.h"

#include "../src/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRAP = 0xcc, NOP = 0x90 };

PATCHPOINT_DECLARE_VALUE(pair, uint32_t);
PATCHPOINT_DEFINE_VALUE(pair, uint32_t, 0);

extern unsigned char hostile_between[];
uint64_t two_sites(void);

/* A nop of one byte between two sites. */
__attribute__((noinline)) uint64_t two_sites(void)
{
	uint64_t low = patchpoint_value(pair), high;

	__asm__ volatile(".globl hostile_between\n\t.hidden hostile_between\nhostile_between: nop");
	high = patchpoint_value(pair);
	return low | high << 32;
}

static unsigned char between_now(void)
{
	return *(volatile unsigned char *)hostile_between;
}

static int set_pair(unsigned i)
{
	return patchpoint_set_value(pair, (i & 0xff) * UINT32_C(0x01010101));
}

static void check_pair(uint64_t i)
{
	CHECK_EQUAL(two_sites(), (i & 0xff) * UINT64_C(0x0101010101010101));
}

static void poke_through(int memory, const unsigned char *at, unsigned char byte)
{
	CHECK_EQUAL(pwrite(memory, &byte, 1, (off_t)(uintptr_t)at), 1);
}

/* The handler of a breakpoint over a nop of one byte: when it returns, the thread goes on behind the breakpoint. */
static void go_on(int number)
{
	(void)number;
}

static void *execute_pair(void *unused)
{
	while (!__atomic_load_n(&hostile_stop, __ATOMIC_RELAXED)) {
		uint64_t seen = two_sites();

		CHECK((uint32_t)seen == (seen & 0xff) * UINT32_C(0x01010101));
		CHECK(seen >> 32 == (seen >> 32 & 0xff) * UINT32_C(0x01010101));
	}
	return unused;
}

/* Sets and removes the breakpoint. A removed breakpoint must never come back: it would kill the process later. */
static void toggle(pid_t parent)
{
	char name[64];
	int memory;

	snprintf(name, sizeof name, "/proc/%d/mem", parent);
	memory = open(name, O_RDWR | O_CLOEXEC);
	if (memory < 0)
		_exit(77);
	for (int i = 0; i < 3000; i++) {
		unsigned char seen = NOP;

		poke_through(memory, hostile_between, TRAP);
		for (volatile int wait = 0; wait < i * 7 % 1000; wait++)
			;
		poke_through(memory, hostile_between, NOP);
		for (int look = 0; look < 20 && seen == NOP; look++)
			CHECK_EQUAL(pread(memory, &seen, 1, (off_t)(uintptr_t)hostile_between), 1);
		CHECK_EQUAL(seen, NOP);
	}
	_exit(0);
}

void case_between(void)
{
	int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC), status;
	pthread_t thread;
	unsigned rounds = 0;
	bool watched;
	pid_t child;

	CHECK(memory >= 0);
	signal(SIGTRAP, go_on);
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, execute_pair, NULL), 0);
	for (int trap = 1; trap >= 0; trap--) {
		poke_through(memory, hostile_between, trap ? TRAP : NOP);
		for (unsigned i = 0; i < 200; i++) {
			CHECK_EQUAL(set_pair(i), 0);
			CHECK_EQUAL(between_now(), trap ? TRAP : NOP);
			check_pair(i);
		}
	}
	/* A move loses the writes of another process (docs/patchpoint.md); other protocols keep them. */
	watched = status_now().protocol != PATCHPOINT_PROTOCOL_MOVE;
	child = watched ? fork() : -1;
	if (child == 0)
		toggle(getppid());
	while (watched && waitpid(child, &status, WNOHANG) == 0) {
		CHECK_EQUAL(set_pair(rounds), 0);
		check_pair(rounds++);
	}
	__atomic_store_n(&hostile_stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	if (watched && WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("cannot write another process's memory");
	CHECK(!watched || (WIFEXITED(status) && WEXITSTATUS(status) == 0 && rounds > 0));
	CHECK_EQUAL(between_now(), NOP);
	close(memory);
}

/* Returns an address's offset in this program's file. */
static uint64_t file_offset(uintptr_t address)
{
	unsigned long start, stop, offset;
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t found = 0;
	char line[4500];

	CHECK(maps);
	while (fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &stop, &offset) == 3 && address >= start && address < stop)
			found = address - start + offset;
	fclose(maps);
	return found;
}

/* Opens a uprobe that counts in this process: perf_event_open(2) and /sys/bus/event_source/devices/uprobe. */
static int uprobe(const void *address)
{
	FILE *type = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	struct perf_event_attr attribute;
	unsigned number;
	int event;

	if (!type || fscanf(type, "%u", &number) != 1)
		SKIP("this kernel has no uprobes");
	fclose(type);
	memset(&attribute, 0, sizeof attribute);
	attribute.size = sizeof attribute;
	attribute.type = number;
	attribute.config1 = (uint64_t)(uintptr_t) "/proc/self/exe";
	attribute.config2 = file_offset((uintptr_t)address);
	event = (int)syscall(SYS_perf_event_open, &attribute, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		SKIP("uprobes are not permitted here: %s", strerror(errno));
	return event;
}

/* Probes one site, as compiled and patched: the site does what its key says, also after the probe is removed. */
static void probe_site(const struct patchpoint_key *key, int i)
{
	uint64_t hits = 0;
	int event = uprobe(site_of(key).address);

	CHECK_EQUAL(set_all(i + 1), -EBUSY);
	check_all(i);
	CHECK_EQUAL(read(event, &hits, sizeof hits), sizeof hits);
	CHECK(hits >= 1);
	close(event);
	check_all(i);
	CHECK_EQUAL(set_all(i + 1), 0);
	check_all(i + 1);
}

static void probe_each_site(void)
{
	const struct patchpoint_key *keys[] = {&patchpoint_key_job, &patchpoint_key_number, &patchpoint_key_large,
					       &patchpoint_key_flag};

	for (int i = 0; i < 8; i++) {
		CHECK_EQUAL(set_all(i), 0);
		probe_site(keys[i / 2], i);
	}
}

void case_uprobe(void)
{
	pthread_t thread;
	uint64_t hits = 0;
	int event;

	/* A probe on a site as compiled: changes are refused while it is there, and the site goes on reading its key. */
	event = uprobe(site_of(&patchpoint_key_pair).address);
	CHECK_EQUAL(set_pair(3), -EBUSY);
	check_pair(0);
	close(event);
	CHECK_EQUAL(set_pair(3), 0);
	check_pair(3);
	probe_each_site();
	/* A probe between sites that are written together stays, and counts. */
	start_sibling(&thread);
	event = uprobe(hostile_between);
	CHECK_EQUAL(between_now(), TRAP);
	for (unsigned i = 0; i < 100; i++) {
		CHECK_EQUAL(set_pair(i), 0);
		check_pair(i);
	}
	CHECK_EQUAL(between_now(), TRAP);
	CHECK_EQUAL(read(event, &hits, sizeof hits), sizeof hits);
	CHECK_EQUAL(hits, 100);
	close(event);
	CHECK_EQUAL(between_now(), NOP);
	for (unsigned i = 0; i < 100; i++) {
		CHECK_EQUAL(set_pair(i), 0);
		check_pair(i);
		CHECK_EQUAL(between_now(), NOP);
	}
	stop_sibling(thread);
}

static const struct writer *real;
static int writes;

static int counting_write(struct patchpoint_object *object, unsigned char *at, const unsigned char *bytes, size_t length)
{
	writes++;
	return real->write(object, at, bytes, length);
}

/* While a debugger is attached, breakpoints are written one by one. */
void case_traced(void)
{
	struct writer counting;
	int together, to_child[2], status;
	pthread_t thread;
	char go;
	pid_t child;

	CHECK_EQUAL(pipe2(to_child, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		CHECK_EQUAL(patchpoint_init(), 0);
		real = writer_used;
		counting = *real;
		counting.write = counting_write;
		writer_used = &counting;
		start_sibling(&thread);
		CHECK_EQUAL(set_pair(1), 0);
		together = writes;
		CHECK_EQUAL(raise(SIGSTOP), 0);
		CHECK_EQUAL(read(to_child[0], &go, 1), 1);
		/* Longer than one look at the threads is valid. */
		usleep(200000);
		writes = 0;
		CHECK_EQUAL(set_pair(2), 0);
		CHECK_EQUAL(together, 3);
		CHECK_EQUAL(writes, 6);
		check_pair(2);
		stop_sibling(thread);
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, WUNTRACED), child);
	CHECK(WIFSTOPPED(status));
	if (ptrace(PTRACE_SEIZE, child, NULL, NULL) != 0) {
		kill(child, SIGKILL);
		SKIP("ptrace is not permitted here: %s", strerror(errno));
	}
	CHECK_EQUAL(write(to_child[1], "g", 1), 1);
	CHECK_EQUAL(kill(child, SIGCONT), 0);
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		int number = WSTOPSIG(status);

		ptrace(PTRACE_CONT, child, NULL, status >> 16 || number == SIGSTOP ? 0 : number);
	}
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
