/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cases in which the process loses rights, descriptors or files after it began, and cases of memory that is not there. */
#define _GNU_SOURCE
#include "hostile.h"

#include "../src/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_mseal
#define SYS_mseal 462 /* Linux 6.10 */
#endif

/* Makes changes that reach the code, beside a thread that executes it. */
static void check_patching(int from)
{
	pthread_t thread;

	start_sibling(&thread);
	for (int i = from; i < from + 20; i++) {
		CHECK_EQUAL(set_all(i), 0);
		check_all(i);
	}
	stop_sibling(thread);
	CHECK(strcmp(site_of(&patchpoint_key_flag).state, "data") != 0);
}

static void in_child(void (*body)(void))
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0) {
		body();
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void become_nobody(void)
{
	if (setgid(65534) != 0 || setuid(65534) != 0)
		SKIP("cannot become another user: %s (root is needed)", strerror(errno));
}

static void continue_as_nobody(void)
{
	check_patching(10);
}

static void change_then_become_nobody(void)
{
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(set_all(1), 0);
	become_nobody();
	check_patching(2);
	CHECK_EQUAL(status_now().writer, PATCHPOINT_WRITER_PROC_MEM);
	/* Children of this process are nobody's from the start. */
	in_child(continue_as_nobody);
}

static void fork_then_become_nobody(void)
{
	become_nobody();
	check_patching(5);
	CHECK_EQUAL(status_now().writer, PATCHPOINT_WRITER_PROC_MEM);
}

static void start_as_nobody(void)
{
	become_nobody();
	CHECK_EQUAL(patchpoint_init(), 0);
	check_patching(3);
	CHECK_EQUAL(status_now().writer, PATCHPOINT_WRITER_MEMFD);
}

/* A server gives its rights up, before or after its first change, in itself or in its children. */
void case_setuid(void)
{
	in_child(change_then_become_nobody);
	in_child(start_as_nobody);
	CHECK_EQUAL(patchpoint_init(), 0);
	in_child(fork_then_become_nobody);
}

void case_chroot(void)
{
	char folder[] = "/tmp/patchpoint-XXXXXX";

	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(set_all(1), 0);
	CHECK(mkdtemp(folder));
	if (chroot(folder) != 0)
		SKIP("cannot change the root: %s (root is needed)", strerror(errno));
	CHECK_EQUAL(chdir("/"), 0);
	check_patching(2);
	/* The child has no /proc from the start. */
	in_child(continue_as_nobody);
	rmdir(folder);
}

static struct rlimit limit_of(int what, rlim_t most)
{
	struct rlimit before, now;

	CHECK_EQUAL(getrlimit(what, &before), 0);
	now = (struct rlimit){most, before.rlim_max};
	CHECK_EQUAL(setrlimit(what, &now), 0);
	return before;
}

static void change_without_descriptors(void)
{
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(set_all(1), 0);
	limit_of(RLIMIT_NOFILE, 0);
	check_patching(2);
}

/* No descriptors are left: the library kept the one that it needs, or makes a page writable while there is one thread. */
void case_descriptors(void)
{
	struct rlimit before;

	in_child(change_without_descriptors);
	before = limit_of(RLIMIT_NOFILE, 0);
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(set_all(4), 0);
	check_all(4);
	CHECK_EQUAL(status_now().writer, PATCHPOINT_WRITER_MPROTECT);
	CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &before), 0);
	check_patching(6);
	CHECK_EQUAL(status_now().writer, PATCHPOINT_WRITER_PROC_MEM);
}

/* With more threads keys are data until there are descriptors again. */
void case_descriptors_late(void)
{
	struct rlimit before;
	pthread_t thread;

	start_sibling(&thread);
	before = limit_of(RLIMIT_NOFILE, 0);
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(status_now().writer, PATCHPOINT_WRITER_NONE);
	CHECK(strstr(status_now().reason, "Too many open files"));
	CHECK_EQUAL(set_all(4), 0);
	check_all(4);
	CHECK(strcmp(site_of(&patchpoint_key_flag).state, "data") == 0);
	CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &before), 0);
	CHECK_EQUAL(set_all(5), 0);
	check_all(5);
	CHECK(strcmp(site_of(&patchpoint_key_flag).state, "data") != 0);
	stop_sibling(thread);
}

/* A daemon closes all descriptors, and the library's descriptor becomes a file of the daemon: nothing may be written there. */
void case_closed(void)
{
	char name[] = "/tmp/patchpoint-XXXXXX";
	struct stat found;
	int file;

	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(set_all(1), 0);
	for (int i = 3; i < 64; i++)
		close(i);
	file = mkstemp(name);
	for (int i = 0; i < 8; i++)
		CHECK(dup(file) > 2);
	check_patching(2);
	CHECK_EQUAL(fstat(file, &found), 0);
	CHECK_EQUAL(found.st_size, 0);
	unlink(name);
}

static void hide_proc(void)
{
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", "/proc", "tmpfs", 0, NULL) != 0)
		SKIP("cannot hide /proc: %s (root is needed)", strerror(errno));
}

/* Text that nobody can write: sites read their keys, as compiled, and keys change. */
void case_sealed(void)
{
	uintptr_t page = (uintptr_t)site_of(&patchpoint_key_job).address & ~UINT64_C(4095);
	pthread_t thread;

	hide_proc();
	for (uintptr_t at = page - 4 * 4096; at <= page + 4 * 4096; at += 4096)
		if (syscall(SYS_mseal, at, 4096, 0) != 0 && errno == ENOSYS)
			SKIP("mseal: %s (Linux 6.10 or later)", strerror(errno));
	start_sibling(&thread);
	CHECK_EQUAL(patchpoint_init(), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQUAL(set_all(i), 0);
		check_all(i);
	}
	stop_sibling(thread);
	CHECK(strcmp(site_of(&patchpoint_key_flag).state, "data") == 0);
}

/* A file that grows beyond RLIMIT_FSIZE raises a signal. */
void case_file_size(void)
{
	pthread_t thread;

	hide_proc();
	limit_of(RLIMIT_FSIZE, 1);
	start_sibling(&thread);
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK(strstr(status_now().reason, "memfd: File too large"));
	CHECK_EQUAL(set_all(7), 0);
	check_all(7);
	stop_sibling(thread);
}

static patchpoint_function_job function_at(const void *place)
{
	patchpoint_function_job function;

	memcpy(&function, &place, sizeof function);
	return function;
}

/* The library refuses a target that is no code before it reads the target and before anything changes. */
void case_targets(void)
{
	static long data = 5;
	unsigned char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#ifdef __x86_64__
	static const unsigned char code[] = {0x48, 0x89, 0xf8, 0xc3}; /* mov %rdi,%rax; ret */
#else
	static const unsigned char code[] = {0xc0, 0x03, 0x5f, 0xd6}; /* ret */
#endif

	CHECK(pages != MAP_FAILED);
	memcpy(pages + 4096 - 4, code, sizeof code);
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(set_all(3), 0);
	CHECK_EQUAL(patchpoint_set_call(job, function_at(&data)), -EFAULT);
	CHECK_EQUAL(patchpoint_set_call(job, function_at(pages + 4096 - 4)), -EFAULT);
	CHECK_EQUAL(patchpoint_set_call(job, function_at((void *)1)), -EFAULT);
	CHECK_EQUAL(patchpoint_set_call(job, function_at((void *)UINT64_C(0x7ffffffff000))), -EFAULT);
	CHECK_EQUAL(patchpoint_set_call(job, function_at((void *)UINT64_C(0xffffffff81000000))), -EFAULT);
	check_all(3);
	CHECK_EQUAL(mprotect(pages, 4096, PROT_READ | PROT_EXEC), 0);
	CHECK_EQUAL(patchpoint_set_call(job, function_at(pages + 4096 - 4)), 0);
	CHECK_EQUAL(run_job(8), 8);
	CHECK_EQUAL(munmap(pages, 4096), 0);
	CHECK_EQUAL(patchpoint_set_call(job, function_at(pages + 4096 - 4)), -EFAULT);
	CHECK_EQUAL(set_all(3), 0);
	check_all(3);
}

/* Keys in memory that is gone, or was never a key. */
void case_keys(void)
{
	const size_t size = 1 << 26;
	char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct patchpoint_key *page = (void *)pages; /* the lowest, which no other mapping will get soon */
	struct patchpoint_txn txn;

	CHECK(pages != MAP_FAILED);
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(set_all(3), 0);
	CHECK_EQUAL(patchpoint_key_set(page, 1), -EINVAL);
	page->kind = 77;
	CHECK_EQUAL(patchpoint_key_set(page, 1), -EINVAL);
	page->kind = PATCHPOINT_VALUE;
	page->size = 4;
	CHECK_EQUAL(patchpoint_key_set(page, 9), 0); /* without sites */
	CHECK_EQUAL((intptr_t)page->slot, 9);
	munmap(pages, size);
	CHECK_EQUAL(patchpoint_key_set(page, 1), -EFAULT);
	patchpoint_txn_begin(&txn);
	CHECK_EQUAL(patchpoint_txn_set_value(&txn, number, 99), 0);
	CHECK_EQUAL(patchpoint_txn_set(&txn, page, 1), -EFAULT);
	CHECK_EQUAL(patchpoint_txn_commit(&txn), -EFAULT);
	check_all(3);
}

/* Runs sites at the end of a small stack, where a signal's frame has no room. */
static long __attribute__((noinline)) descend(volatile char *lowest)
{
	volatile char room[128] = {0};

	if ((uintptr_t)room - 600 > (uintptr_t)lowest)
		return descend(lowest) + room[5];
	for (int i = 0; !__atomic_load_n(&hostile_stop, __ATOMIC_RELAXED); i++) {
		(void)read_number();
		(void)read_flag();
	}
	return room[7];
}

static void *run_deep(void *stack)
{
	static char aside[65536];
	stack_t other = {.ss_sp = aside, .ss_size = sizeof aside};

	CHECK_EQUAL(sigaltstack(&other, NULL), 0);
	descend(stack);
	return NULL;
}

void case_deep(void)
{
	const size_t size = 65536;
	char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct patchpoint_status status;
	pthread_attr_t attributes;
	pthread_t thread;

	CHECK(stack != MAP_FAILED);
	CHECK_EQUAL(mprotect(stack, 4096, PROT_NONE), 0);
	CHECK_EQUAL(patchpoint_init(), 0);
	pthread_attr_init(&attributes);
	CHECK_EQUAL(pthread_attr_setstack(&attributes, stack, size), 0);
	CHECK_EQUAL(pthread_create(&thread, &attributes, run_deep, stack + 4096), 0);
	usleep(10000);
	for (int i = 0; i < 100000 && status_now().traps < 20; i++)
		CHECK_EQUAL(set_all(i), 0);
	__atomic_store_n(&hostile_stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	status = status_now();
	printf("deep: %llu traps within a kilobyte of a stack's end\n", (unsigned long long)status.traps);
	CHECK(status.traps >= 20);
}
