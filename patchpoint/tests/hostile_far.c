/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cases in which the target of a call is further away than a direct call reaches. */
#define _GNU_SOURCE
#include "hostile.h"

#include "../src/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65 /* Linux 6.3 */
#endif

enum { FAR_FUNCTIONS = 300, FUNCTION_SIZE = 16 };

/* Converts an address to a function of `job`'s type. */
static patchpoint_function_job function_at(const unsigned char *code)
{
	patchpoint_function_job function;

	memcpy(&function, &code, sizeof function);
	return function;
}

#ifdef __x86_64__
/* lea n(%rdi,%rdi),%rax; inc %rax; ret */
static void put_function(unsigned char *at, uint32_t n)
{
	static const unsigned char code[] = {0x48, 0x8d, 0x84, 0x3f, 0, 0, 0, 0, 0x48, 0xff, 0xc0, 0xc3};

	memcpy(at, code, sizeof code);
	memcpy(at + 4, &n, sizeof n);
}
static const unsigned char stub_start[] = {0xff, 0x25};
#else
/* add %x0,%x0,%x0; mov %w1,#n+1; add %x0,%x0,%x1; ret */
static void put_function(unsigned char *at, uint32_t n)
{
	const uint32_t code[] = {0x8b000000, 0x52800001 | (n + 1) << 5, 0x8b010000, 0xd65f03c0};

	memcpy(at, code, sizeof code);
}
static const unsigned char stub_start[] = {0x50, 0x00, 0x00, 0x58};
#endif

/* Functions a TiB away: number n returns 2 * a + n + 1. */
static const unsigned char *far_functions(void)
{
	uintptr_t here = (uintptr_t)site_of(&patchpoint_key_job).address;
	size_t bytes = 2 * 4096;
	unsigned char *pages = mmap((void *)((here ^ (UINT64_C(1) << 40)) & ~UINT64_C(4095)), bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	CHECK(pages != MAP_FAILED);
	for (uint32_t n = 0; n < FAR_FUNCTIONS; n++) {
		put_function(pages + n * FUNCTION_SIZE, n);
	}
	CHECK_EQUAL(mprotect(pages, bytes, PROT_READ | PROT_EXEC), 0);
	return pages;
}

static const char *job_state(void)
{
	return site_of(&patchpoint_key_job).state;
}

static void check_stubs_registered(size_t wanted)
{
	const struct patchpoint_stubs *page = patchpoint_registry_get()->stubs;
	size_t found = 0;

	for (; page; page = page->next) {
		CHECK_EQUAL(page->stub_size, 16);
		CHECK(page->object && memcmp(page->code, stub_start, sizeof stub_start) == 0);
		found += page->count;
	}
	CHECK_EQUAL(found, wanted);
	CHECK_EQUAL(status_now().stubs, wanted);
}

/* Checks that no mapping of this process is writable and executable. */
static void check_no_wx(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], rights[8];

	CHECK(maps);
	while (fgets(line, sizeof line, maps))
		CHECK(sscanf(line, "%*s %7s", rights) != 1 || rights[1] != 'w' || rights[2] != 'x');
	fclose(maps);
}

static void *execute_job(void *unused)
{
	while (!__atomic_load_n(&hostile_stop, __ATOMIC_RELAXED)) {
		long result = run_job(20);

		CHECK(result == 20 || result == -20 || (result > 40 && result <= 40 + FAR_FUNCTIONS));
	}
	return unused;
}

/* Every function gets one stub, together more than a page; changes back and forth make no more stubs. */
static void change_far(const unsigned char *functions)
{
	pthread_t thread;

	hostile_stop = false;
	CHECK_EQUAL(pthread_create(&thread, NULL, execute_job, NULL), 0);
	for (int round = 0; round < 2; round++) {
		for (int n = 0; n < FAR_FUNCTIONS; n++) {
			CHECK_EQUAL(patchpoint_set_call(job, function_at(functions + n * FUNCTION_SIZE)), 0);
			CHECK(strcmp(job_state(), "stub") == 0);
			CHECK_EQUAL(run_job(20), 41 + n);
		}
		CHECK_EQUAL(patchpoint_set_call(job, job_negate), 0);
		CHECK(strcmp(job_state(), "call") == 0);
		CHECK_EQUAL(run_job(20), -20);
		check_stubs_registered(FAR_FUNCTIONS);
	}
	check_no_wx();
	__atomic_store_n(&hostile_stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	CHECK_EQUAL(status_now().stub_reason[0], 0);
}

/* The child's stubs are its own. */
static void change_in_child(const unsigned char *functions)
{
	int status;
	pid_t child;

	CHECK_EQUAL(patchpoint_set_call(job, function_at(functions)), 0);
	child = fork();
	if (child == 0) {
		CHECK_EQUAL(run_job(20), 41);
		change_far(functions);
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	check_stubs_registered(1);
	CHECK_EQUAL(run_job(20), 41);
}

void case_far(void)
{
	const unsigned char *functions = far_functions();

	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK(strcmp(job_state(), VALUE_SITES ? "move" : "nop") == 0);
	change_in_child(functions);
	change_far(functions);
}

void case_far_memfd(void)
{
	const unsigned char *functions = far_functions();

	CHECK_EQUAL(patchpoint_init(), 0);
	writer_used = &writer_memfd;
	change_in_child(functions);
	change_far(functions);
}

/* Written through /proc/self/mem, a stub page is executable from the start. Without it calls stay indirect. */
void case_far_mdwe(void)
{
	const unsigned char *functions = far_functions();

	if (prctl(PR_SET_MDWE, 1, 0, 0, 0) != 0)
		SKIP("PR_SET_MDWE: %s (Linux 6.3 or later)", strerror(errno));
	CHECK_EQUAL(patchpoint_init(), 0);
	writer_used = &writer_memfd;
	CHECK_EQUAL(patchpoint_set_call(job, function_at(functions)), 0);
	CHECK(strcmp(job_state(), "data") == 0);
	CHECK_EQUAL(run_job(20), 41);
	CHECK_EQUAL(status_now().stubs, 0);
	CHECK(strstr(status_now().stub_reason, "no page for stubs near the object: Permission denied"));
}

void case_far_mdwe_proc(void)
{
	const unsigned char *functions = far_functions();

	if (prctl(PR_SET_MDWE, 1, 0, 0, 0) != 0)
		SKIP("PR_SET_MDWE: %s (Linux 6.3 or later)", strerror(errno));
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(status_now().writer, PATCHPOINT_WRITER_PROC_MEM);
	change_far(functions);
}
