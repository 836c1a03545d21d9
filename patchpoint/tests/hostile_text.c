/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cases in which the code is not what the library left there, or cannot be written. */
#define _GNU_SOURCE
#include "hostile.h"

#include "../src/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void poke(const void *address, const void *bytes, size_t length)
{
	int file = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	CHECK(file >= 0);
	CHECK_EQUAL(pwrite(file, bytes, length, (off_t)(uintptr_t)address), length);
	close(file);
}

/* Foreign bytes in one site make the library refuse the whole transaction. */
static void refuse(size_t at, const void *bytes, size_t length, int error)
{
	struct patchpoint_key *key = VALUE_SITES ? &patchpoint_key_large : &patchpoint_key_job;
	struct patchpoint_site_info site = site_of(key);
	unsigned char before[256], after[256];

	poke((const char *)site.address + at, bytes, length);
	snapshot(before);
	CHECK_EQUAL(set_all(9), error);
	CHECK_EQUAL(patchpoint_key_set(key, VALUE_SITES ? 9 : (uintptr_t)job_negate), error);
	CHECK_EQUAL(patchpoint_init(), error);
	snapshot(after);
	CHECK(memcmp(before, after, sizeof before) == 0);
	CHECK(strcmp(site_of(key).state, "foreign") == 0);
	/* Keys without a site there can still be changed. */
	CHECK_EQUAL(patchpoint_set_branch(flag, true), 0);
	CHECK_EQUAL(patchpoint_set_branch(flag, false), 0);
	poke((const char *)site.address + at, site.bytes_now + at, length);
}

void case_corrupted(void)
{
	const size_t length = VALUE_SITES ? 11 : 4;
	pthread_t thread;

	refuse(length - 1, "\x77", 1, -EILSEQ); /* as compiled */
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(set_all(4), 0);
	for (size_t at = 0; at < length; at++)
		refuse(at, "\x90", 1, -EILSEQ);
	check_all(4);
	start_sibling(&thread);
	CHECK_EQUAL(set_all(5), 0);
	stop_sibling(thread);
	check_all(5);
}

#ifdef __x86_64__
static const unsigned char breakpoint[] = {0xcc};
#else
static const unsigned char breakpoint[] = {0xa0, 0x00, 0x20, 0xd4}; /* brk #5, a uprobe's */
#endif

void case_breakpoint(void)
{
	refuse(0, breakpoint, sizeof breakpoint, -EBUSY);
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(set_all(2), 0);
	refuse(0, breakpoint, sizeof breakpoint, -EBUSY);
	check_all(2);
}

/* A writer that fails once, at a given write, after it wrote half of the bytes, or all where no thread may execute a half. There
   is no other writer. */
static const struct writer *real;
static struct writer failing;
static int writes_left;

static int always_ready(void)
{
	return 0;
}

static int failing_write(struct patchpoint_object *object, unsigned char *at, const unsigned char *bytes, size_t length)
{
	if (writes_left-- == 0) {
		CHECK_EQUAL(real->write(object, at, bytes, arch_one_store ? length : length / 2), 0);
		return -EIO;
	}
	return real->write(object, at, bytes, length);
}

/* Makes each write of a transaction fail once, after which all is as before. Returns the number of writes. */
static int fail_each_write(void)
{
	unsigned char before[256], after[256];

	for (int n = 0;; n++) {
		int wanted = n & 1 ? 2 : 3, error;

		writes_left = -1;
		writer_used = &failing;
		CHECK_EQUAL(set_all(wanted ^ 1), 0);
		snapshot(before);
		writes_left = n;
		error = set_all(wanted);
		if (error == 0)
			return n;
		CHECK_EQUAL(error, -ENOTSUP);
		CHECK(!writer_used);
		snapshot(after);
		CHECK(memcmp(before, after, sizeof before) == 0);
		check_all(wanted ^ 1);
	}
}

void case_rollback(void)
{
	pthread_t thread;
	int merged;

	CHECK_EQUAL(patchpoint_init(), 0);
	real = writer_used;
	failing = *real;
	failing.ready = always_ready;
	failing.write = failing_write;
	failing.gap_max = 0;
	CHECK_EQUAL(fail_each_write(), VALUE_SITES ? 4 : 2);
	start_sibling(&thread);
	CHECK_EQUAL(fail_each_write(), !VALUE_SITES ? 2 : moves_refused < 0 ? 12 : 4);
	failing.gap_max = 1000;
	merged = fail_each_write();
	if (arch_one_store)
		CHECK_EQUAL(merged, 2);
	else if (moves_refused < 0)
		CHECK(merged >= 3 && merged < 12 && merged % 3 == 0);
	else
		CHECK(merged >= 1 && merged < 4);
	stop_sibling(thread);
}
