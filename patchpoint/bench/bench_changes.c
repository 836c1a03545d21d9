/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The cost of a change for the thread that makes it: of one site, of ten, of 1,000 and 10,000 near each other; alone, and beside a
 * thread that sleeps, that runs on the same processor, or that runs on another one. Beside these stand the floor, which is the same
 * protocol by hand and takes the kernel's time alone, and a change without any protocol: the pages made writable, the sites stored,
 * the pages made executable again, as Multiverse does it (Rommel et al., EuroSys 2019). It has no barrier, its pages are writable
 * and executable meanwhile, and only one thread may run.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <patchpoint.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TEN(X, prefix) \
	X(prefix##0) X(prefix##1) X(prefix##2) X(prefix##3) X(prefix##4) X(prefix##5) X(prefix##6) X(prefix##7) X(prefix##8) X(prefix##9)

PATCHPOINT_DECLARE_VALUE(single, int);
PATCHPOINT_DEFINE_VALUE(single, int, 0);
PATCHPOINT_DECLARE_VALUE(single_bare, int);
PATCHPOINT_DEFINE_VALUE(single_bare, int, 0);
PATCHPOINT_DECLARE_VALUE(thousand, int);
PATCHPOINT_DEFINE_VALUE(thousand, int, 0);
PATCHPOINT_DECLARE_VALUE(thousand_bare, int);
PATCHPOINT_DEFINE_VALUE(thousand_bare, int, 0);
PATCHPOINT_DECLARE_VALUE(ten_near, int);
PATCHPOINT_DEFINE_VALUE(ten_near, int, 0);
PATCHPOINT_DECLARE_VALUE(ten_apart, int);
PATCHPOINT_DEFINE_VALUE(ten_apart, int, 0);

/* Functions in a page of their own each. */
#define APART(n) \
	NOINLINE static __attribute__((aligned(4096))) int apart_##n(void) { return patchpoint_value(ten_apart) + n; }
TEN(APART, )
#define CALL_APART(n) +apart_##n()
#define NEAR(n) +patchpoint_value(ten_near)

#define TIMES_TEN(x) x x x x x x x x x x
enum { THOUSAND = 1000 };
NOINLINE static int thousand_execute(int sum)
{
	TIMES_TEN(TIMES_TEN(TIMES_TEN(sum += patchpoint_value(thousand); OPAQUE(sum);)))
	return sum;
}

/*
 * Sites of keys that the library does not change while they are measured, in pages of their own: a page that was writable once
 * stays a mapping of its own, which the library would not move together with others.
 */
NOINLINE static __attribute__((aligned(4096))) int bare_execute(int sum)
{
	sum += patchpoint_value(single_bare);
	TIMES_TEN(TIMES_TEN(TIMES_TEN(sum += patchpoint_value(thousand_bare); OPAQUE(sum);)))
	return sum;
}

static bool stop;
static uint64_t rounds; /* of the sibling */

static __attribute__((aligned(4096))) void sites_execute(void)
{
	int sum = patchpoint_value(single) TEN(NEAR, ) TEN(CALL_APART, );

	OPAQUE(sum);
}

static bool stopped(void)
{
	return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static uint64_t rounds_made(void)
{
	return __atomic_load_n(&rounds, __ATOMIC_RELAXED);
}

static void round_end(void)
{
	__atomic_store_n(&rounds, rounds + 1, __ATOMIC_RELAXED);
}

static void *sleep_on(void *unused)
{
	while (!stopped())
		usleep(1000000);
	return unused;
}

/* Runs without executing a site or a page with sites. */
static __attribute__((aligned(4096))) void *run_elsewhere(void *unused)
{
	while (!stopped())
		round_end();
	return unused;
}

static void *run_sites(void *unused)
{
	while (!stopped()) {
		sites_execute();
		(void)thousand_execute(0);
		(void)near_sites_execute();
	}
	return unused;
}

static __attribute__((aligned(4096))) int set_single(int value) { return patchpoint_set_value(single, value); }
static int set_thousand(int value) { return patchpoint_set_value(thousand, value); }
static int set_ten_near(int value) { return patchpoint_set_value(ten_near, value); }
static int set_ten_apart(int value) { return patchpoint_set_value(ten_apart, value); }

/* Sites that are stored without a protocol, in two forms. */
struct bare_site {
	unsigned char *at;
	size_t length;
	unsigned char forms[2][16];
};
struct bare {
	const struct patchpoint_key *key;
	unsigned form; /* that is noted */
	size_t count;
	struct bare_site sites[THOUSAND];
};
static struct bare single_bare = {.key = &patchpoint_key_single_bare}, thousand_bare = {.key = &patchpoint_key_thousand_bare};

static int bare_note(const struct patchpoint_site_info *info, void *argument)
{
	struct bare *bare = argument;
	struct bare_site *site = &bare->sites[bare->count];

	if (info->key != bare->key || bare->count == THOUSAND)
		return 0;
	site->at = (unsigned char *)(uintptr_t)info->address;
	site->length = info->length;
	memcpy(site->forms[bare->form], info->bytes_now, info->length);
	bare->count++;
	return 0;
}

/* Has the library make both forms of the sites, and notes them. */
static int bare_learn(struct bare *bare)
{
	int error = 0;

	for (bare->form = 0; bare->form < 2 && !error; bare->form++) {
		bare->count = 0;
		error = patchpoint_key_set((struct patchpoint_key *)(uintptr_t)bare->key, bare->form ? 0x11223344 : 0x55667788);
		if (!error)
			error = patchpoint_site_iterate(bare_note, bare);
	}
	return error;
}

/* Stores one form of all sites, page by page; a site that lies in two pages counts for both. */
static int bare_store(struct bare *bare, unsigned form)
{
	enum { PAGE = 4096 };
	uintptr_t start = 0, stop = 0;

	for (size_t i = 0; i < bare->count; i++) {
		struct bare_site *site = &bare->sites[i];
		uintptr_t at = (uintptr_t)site->at;

		if (at + site->length > stop) {
			if (stop && mprotect((void *)start, stop - start, PROT_READ | PROT_EXEC) != 0)
				return -errno;
			start = at & ~(uintptr_t)(PAGE - 1);
			stop = (at + site->length + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
			if (mprotect((void *)start, stop - start, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
				return -errno;
		}
		memcpy(site->at, site->forms[form], site->length);
	}
	return mprotect((void *)start, stop - start, PROT_READ | PROT_EXEC) == 0 ? 0 : -errno;
}

static int set_single_bare(int value) { return bare_store(&single_bare, value & 1); }
static int set_thousand_bare(int value) { return bare_store(&thousand_bare, value & 1); }

/* The protocols by hand. They write the bytes that are already there. */
static int memory_file, mappings_file;
static unsigned char *code; /* in a page that holds nothing that this thread executes meanwhile */

static int write_code(size_t length)
{
	unsigned char bytes[1024];

	memcpy(bytes, code, length);
	return pwrite(memory_file, bytes, length, (off_t)(uintptr_t)code) == (ssize_t)length ? 0 : -errno;
}

static int barrier(void)
{
	/* MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE; the library has registered the process. */
	return syscall(SYS_membarrier, 1 << 5, 0, 0) == 0 ? 0 : -errno;
}

/* Moves the page away, writes to it and moves it back. */
static int write_moved(void)
{
	enum { PAGE = 4096, DONTUNMAP = 4 /* MREMAP_DONTUNMAP */ };
	unsigned char *page = code - (uintptr_t)code % PAGE, bytes[1] = {*code};
	unsigned char *aside = mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | DONTUNMAP, NULL);
	bool written;

	if (aside == MAP_FAILED)
		return -errno;
	written = pwrite(memory_file, bytes, 1, (off_t)(uintptr_t)(aside + (code - page))) == 1 && barrier() == 0;
	if (mremap(aside, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page) == MAP_FAILED || !written)
		return -errno;
	return 0;
}

static int write_byte(int unused) { (void)unused; return write_code(1); }
static int write_kilobyte(int unused) { (void)unused; return write_code(1024); }
static int only_barrier(int unused) { (void)unused; return barrier(); }
static int written_alone(int unused)
{
	int error = write_code(7);

	(void)unused;
	return error ? error : barrier();
}
static int written_moved(int unused)
{
	(void)unused;
	return write_moved();
}

/*
 * All system calls of the library's change of one site, in its order: the key's page; the process's id; blocking signals; the
 * lock's owner; whether the open file is still the same; the site's page; beside other threads whether the list of mappings is
 * still the same, and the text's mapping; the writes; unblocking signals.
 */
static int all_calls(int (*writes)(int))
{
	sigset_t all, before;
	struct stat file;
	uint64_t query[13] = {sizeof query, 0, (uintptr_t)code};
	int error;

	sigfillset(&all);
	syscall(SYS_madvise, (uintptr_t)&rounds & ~(uintptr_t)4095, 1, 22 /* MADV_POPULATE_READ */);
	syscall(SYS_getpid);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	syscall(SYS_gettid);
	fstat(memory_file, &file);
	syscall(SYS_madvise, (uintptr_t)code & ~(uintptr_t)4095, 1, 22);
	if (writes == written_moved) {
		fstat(mappings_file, &file);
		ioctl(mappings_file, 0xc0686611u /* PROCMAP_QUERY, Linux 6.11 */, query);
	}
	error = writes(0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

static int all_alone(int unused) { (void)unused; return all_calls(written_alone); }
static int all_moved(int unused) { (void)unused; return all_calls(written_moved); }

enum row {
	BYTE,
	KILOBYTE,
	BARRIER,
	WRITES_ALONE,
	CALLS_ALONE,
	WRITES,
	CALLS,
	ONE_BARE,
	ONE,
	FIRST,
	TEN_NEAR,
	TEN_APART,
	THOUSAND_BARE,
	THOUSAND_NEAR,
	MANY,
	ROWS
};
enum { BATCH = 20 };
static const struct {
	const char *name;
	int (*act)(int value);
	bool alone, beside;   /* whether measured with one thread, and with more */
	bool single;	      /* one act a sample; other rows take BATCH acts, after one that is not counted */
	bool pause;	      /* of 1 ms before each sample */
} rows[ROWS] = {
	[BYTE] = {"floor: write of 1 byte of code", write_byte, true, true, false, false},
	[KILOBYTE] = {"floor: write of 1 kilobyte of code", write_kilobyte, true, true, false, false},
	[BARRIER] = {"floor: barrier", only_barrier, true, true, false, false},
	[WRITES_ALONE] = {"floor of 1 site: 1 write, 1 barrier", written_alone, true, false, false, false},
	[CALLS_ALONE] = {"floor of 1 site: all its system calls", all_alone, true, false, false, false},
	[WRITES] = {"floor of 1 site: 2 moves, 1 write, 1 barrier", written_moved, false, true, false, false},
	[CALLS] = {"floor of 1 site: all its system calls", all_moved, false, true, false, false},
	[ONE_BARE] = {"1 site: mprotect, store, mprotect, no barrier", set_single_bare, true, true, false, false},
	[ONE] = {"1 site", set_single, true, true, false, false},
	[FIRST] = {"1 site, nothing changed for 1 ms before", set_single, true, true, true, true},
	[TEN_NEAR] = {"10 near sites", set_ten_near, true, true, false, false},
	[TEN_APART] = {"10 sites, a page each", set_ten_apart, true, true, false, false},
	[THOUSAND_BARE] = {"1,000 near sites: mprotect, stores, mprotect", set_thousand_bare, true, true, false, false},
	[THOUSAND_NEAR] = {"1,000 near sites", set_thousand, true, true, false, false},
	[MANY] = {NEAR_SITES_NAME, near_sites_set, true, true, true, false},
};

enum { REPETITIONS_MAX = 201 };
static double cpu_us[ROWS][REPETITIONS_MAX], wall_us[ROWS][REPETITIONS_MAX];

/* Returns a value that differs from the one before in every byte. */
static int value_of(void)
{
	static unsigned step;

	return (int)(0x01010101 * (1 + step++ % 100));
}

/* Returns when the sibling is seen to run, or after 50 ms. */
static void wait_for_sibling(void)
{
	uint64_t before = rounds_made(), start = now_ns();

	while (rounds_made() == before && now_ns() - start < 50000000)
		;
}

struct situation {
	const char *name;
	void *(*sibling)(void *);
	int processor; /* the sibling's: an index into the processors that the process may use */
	bool watched;  /* whether the sibling counts its rounds */
};
enum { ALONE, ASLEEP, SAME, OTHER, AT_SITES, SITUATIONS };
/* "one thread" comes first: once there was a second thread, libc counts the process as one with threads. */
static const struct situation situations[SITUATIONS] = {
	[ALONE] = {"one thread", NULL, 0, false},
	[ASLEEP] = {"beside a thread that sleeps", sleep_on, 0, false},
	[SAME] = {"beside a thread that runs on the same processor", run_elsewhere, 0, false},
	[OTHER] = {"beside a thread that runs on another processor", run_elsewhere, 1, true},
	[AT_SITES] = {"beside a thread that executes these sites on another processor", run_sites, 1, false},
};

/* The means of a sample, and whether the sibling made progress in most of its acts. */
struct sample {
	double cpu_us, wall_us;
	bool beside_runner;
};

static int sample_take(enum row row, bool watched, struct sample *sample)
{
	unsigned count = rows[row].single ? 1 : BATCH, moved = 0;
	uint64_t start, used, last;
	int error = 0;

	if (rows[row].pause)
		usleep(1000);
	if (watched)
		wait_for_sibling();
	if (!rows[row].single)
		error = rows[row].act(value_of());
	start = now_ns();
	used = thread_ns();
	last = rounds_made();
	for (unsigned i = 0; i < count && !error; i++) {
		error = rows[row].act(value_of());
		moved += rounds_made() != last;
		last = rounds_made();
	}
	sample->cpu_us = (double)(thread_ns() - used) / 1000 / count;
	sample->wall_us = (double)(now_ns() - start) / 1000 / count;
	sample->beside_runner = 4 * moved >= 3 * count;
	return error;
}

/*
 * Prints a situation and gives its rows' medians, in microseconds of processor time; 0 without samples. A busy machine takes the
 * sibling off its processor now and then, which makes barriers cheap: a watched sibling's samples of this kind do not count.
 */
static int situation_print(const struct situation *situation, size_t repetitions, double median[ROWS])
{
	struct patchpoint_status after;
	bool alone = !situation->sibling;
	size_t counts[ROWS] = {0};
	int error = 0;

	for (size_t repetition = 0; repetition < repetitions && !error; repetition++)
		for (enum row row = 0; row < ROWS && !error; row++) {
			struct sample sample;

			if (alone ? !rows[row].alone : !rows[row].beside)
				continue;
			error = sample_take(row, situation->watched, &sample);
			cpu_us[row][counts[row]] = sample.cpu_us;
			wall_us[row][counts[row]] = sample.wall_us;
			counts[row] += !situation->watched || sample.beside_runner;
		}
	if (error)
		return error;
	patchpoint_status(&after);
	printf("changes by the protocol %s, %s: microseconds of processor time (quartiles), elapsed; samples\n",
	       after.protocol_name, situation->name);
	for (enum row row = 0; row < ROWS; row++) {
		struct spread cpu;

		median[row] = 0;
		if (alone ? !rows[row].alone : !rows[row].beside)
			continue;
		if (counts[row] == 0) {
			printf("  %-46s the other thread never ran\n", rows[row].name);
			continue;
		}
		cpu = spread_of(cpu_us[row], counts[row]);
		median[row] = cpu.median;
		printf("  %-46s %9.2f  (%9.2f - %9.2f)  %9.2f  %4zu\n", rows[row].name, cpu.median, cpu.low, cpu.high,
		       spread_of(wall_us[row], counts[row]).median, counts[row]);
	}
	return 0;
}

/* Returns the n-th processor that this process may use, -1 if there is none. */
static int processor(int n)
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
		return -1;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &allowed) && n-- == 0)
			return i;
	return -1;
}

static void stay_on(pthread_t thread, int number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number, &set);
	pthread_setaffinity_np(thread, sizeof set, &set);
}

static int situation_measure(const struct situation *situation, int processors[2], size_t repetitions, double median[ROWS])
{
	pthread_t sibling;
	int error;

	if (!situation->sibling)
		return situation_print(situation, repetitions, median);
	__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
	error = -pthread_create(&sibling, NULL, situation->sibling, NULL);
	if (error)
		return error;
	stay_on(sibling, processors[situation->processor]);
	usleep(10000);
	error = situation_print(situation, repetitions, median);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(sibling, NULL);
	return error;
}

static void target_print(const char *what, double most, const char *where, double us, double bare_us)
{
	if (us > 0 && bare_us > 0)
		printf("  %s, %s: at most %.1f times as long as without a protocol; %.2f times, %s\n", what, where, most, us / bare_us,
		       us <= most * bare_us ? "met" : "not met");
}

static void targets_print(double median[SITUATIONS][ROWS])
{
	printf("targets\n");
	target_print("1 site", 2, situations[OTHER].name, median[OTHER][ONE], median[OTHER][ONE_BARE]);
	for (size_t i = ALONE; i < SITUATIONS; i++)
		target_print("1,000 near sites", 1.5, situations[i].name, median[i][THOUSAND_NEAR], median[i][THOUSAND_BARE]);
}

int changes_print(size_t repetitions)
{
	static double median[SITUATIONS][ROWS];
	int processors[2] = {processor(0), processor(1)}, error = 0;
	struct patchpoint_status status;

	error = patchpoint_status(&status);
	if (!error && status.writer != PATCHPOINT_WRITER_PROC_MEM) {
		fprintf(stderr, "bench: no changes are measured: the writer is %s, not proc-mem\n", status.writer_name);
		return 0;
	}
	memory_file = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	mappings_file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	code = (unsigned char *)(uintptr_t)apart_0;
	if (memory_file < 0 || mappings_file < 0 || processors[0] < 0) {
		fprintf(stderr, "bench: no changes are measured: %s\n", strerror(errno));
		return 0;
	}
	sites_execute();
	OPAQUE(memory_file);
	(void)thousand_execute(0);
	(void)bare_execute(0);
	error = bare_learn(&single_bare);
	if (!error)
		error = bare_learn(&thousand_bare);
	stay_on(pthread_self(), processors[0]);
	for (size_t i = 0; i < SITUATIONS && !error; i++) {
		if (processors[situations[i].processor] < 0) {
			fprintf(stderr, "bench: not measured: %s: this process may use one processor only\n", situations[i].name);
			continue;
		}
		error = situation_measure(&situations[i], processors, repetitions, median[i]);
	}
	close(memory_file);
	close(mappings_file);
	if (error) {
		fprintf(stderr, "bench: a change failed: %s\n", strerror(-error));
		return 1;
	}
	targets_print(median);
	printf("memory: %zu bytes a site in the file; 4 bytes a site once a key was changed\n", sizeof(struct patchpoint_site));
	return 0;
}
