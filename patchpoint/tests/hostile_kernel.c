/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cases in which the kernel refuses something, and cases of fork and vfork. */
#define _GNU_SOURCE
#include "hostile.h"

#include "../src/internal.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65 /* Linux 6.3 */
#endif
#ifndef SYS_mseal
#define SYS_mseal 462 /* Linux 6.10 */
#endif

/* Makes the system call `number` fail with EPERM in every thread. */
static void forbid(int number)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

	CHECK_EQUAL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
		SKIP("no seccomp filters here: %s", strerror(errno));
}

void case_no_membarrier(void)
{
	struct patchpoint_status status;
	unsigned char before[256], after[256];
	pthread_t thread;

	forbid(SYS_membarrier);
	snapshot(before);
	CHECK_EQUAL(patchpoint_init(), 0);
	status = status_now();
	CHECK(status.fallback && !status.sync_core && status.writer == PATCHPOINT_WRITER_NONE);
	CHECK(strstr(status.reason, "membarrier: Operation not permitted"));
	start_sibling(&thread);
	for (int i = 0; i < 100; i++) {
		CHECK_EQUAL(set_all(i), 0);
		check_all(i);
	}
	stop_sibling(thread);
	snapshot(after);
	CHECK(memcmp(before, after, sizeof before) == 0);
	CHECK(strcmp(site_of(&patchpoint_key_job).state, "data") == 0);
}

/* Patched sites cannot be changed any more; they stay as they are. */
void case_membarrier_lost(void)
{
	pthread_t thread;

	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(set_all(4), 0);
	start_sibling(&thread);
	forbid(SYS_membarrier);
	CHECK_EQUAL(set_all(5), -ENOTSUP);
	check_all(4);
	CHECK_EQUAL(set_all(6), -ENOTSUP);
	check_all(4);
	stop_sibling(thread);
	check_all(4);
}

void case_mdwe(void)
{
	pthread_t thread;

	if (prctl(PR_SET_MDWE, 1, 0, 0, 0) != 0)
		SKIP("PR_SET_MDWE: %s (Linux 6.3 or later)", strerror(errno));
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(status_now().writer, PATCHPOINT_WRITER_PROC_MEM);
	start_sibling(&thread);
	CHECK_EQUAL(set_all(7), 0);
	check_all(7);
	CHECK_EQUAL(writer_mprotect.ready(), -EACCES);
	/* The kernel allows memfd: none of its mappings is both writable and executable. */
	writer_used = &writer_memfd;
	CHECK_EQUAL(writer_memfd.ready(), 0);
	CHECK_EQUAL(set_all(8), 0);
	check_all(8);
	stop_sibling(thread);
}

void case_mseal(void)
{
	uintptr_t page = (uintptr_t)site_of(&patchpoint_key_job).address & ~UINT64_C(4095);
	unsigned char before[256], after[256];
	pthread_t thread;

	if (syscall(SYS_mseal, page, 4096, 0) != 0)
		SKIP("mseal: %s (Linux 6.10 or later)", strerror(errno));
	CHECK(mprotect((void *)page, 4096, PROT_READ) != 0);
	CHECK_EQUAL(patchpoint_init(), 0);
	start_sibling(&thread);
	CHECK_EQUAL(set_all(7), 0);
	check_all(7);
	snapshot(before);
	writer_used = &writer_memfd;
	CHECK_EQUAL(set_all(8), -ENOTSUP);
	check_all(7);
	snapshot(after);
	CHECK(memcmp(before, after, sizeof before) == 0);
	stop_sibling(thread);
}

static void hide_proc(void)
{
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", "/proc", "tmpfs", 0, NULL) != 0)
		SKIP("cannot hide /proc: %s (root is needed)", strerror(errno));
}

static void check_child(pid_t child)
{
	int status;

	CHECK(child > 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Checks that no mapping is both writable and executable, in the memory map that was opened before /proc was hidden. */
static void check_no_wx(FILE *maps)
{
	char line[512], rights[8];

	rewind(maps);
	while (fgets(line, sizeof line, maps))
		CHECK(sscanf(line, "%*s %7s", rights) != 1 || rights[1] != 'w' || rights[2] != 'x');
}

void case_no_proc(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	pthread_t thread;
	pid_t child;

	hide_proc();
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(status_now().writer, PATCHPOINT_WRITER_MEMFD);
	CHECK(strstr(status_now().reason, "proc-mem: No such file or directory"));
	CHECK(!status_now().fallback);
	start_sibling(&thread);
	for (int i = 0; i < 200; i++) {
		CHECK_EQUAL(set_all(i), 0);
		check_all(i);
	}
	check_no_wx(maps);
	/* The child's text is its own, though both are mapped from one file. */
	for (int i = 0; i < 20; i++) {
		CHECK_EQUAL(set_all(10), 0);
		child = fork();
		if (child == 0) {
			for (int j = 0; j < 20; j++) {
				CHECK_EQUAL(set_all(100 + j), 0);
				check_all(100 + j);
			}
			_exit(0);
		}
		for (int j = 0; j < 20; j++) {
			CHECK_EQUAL(set_all(j), 0);
			check_all(j);
		}
		check_child(child);
		check_all(19);
	}
	stop_sibling(thread);
}

void case_mprotect(void)
{
	pthread_t thread;
	FILE *maps = fopen("/proc/self/maps", "re");

	hide_proc();
	forbid(SYS_memfd_create);
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(status_now().writer, PATCHPOINT_WRITER_MPROTECT);
	CHECK(status_now().fallback);
	CHECK(strstr(status_now().reason, "memfd: Operation not permitted"));
	for (int i = 0; i < 100; i++) {
		CHECK_EQUAL(set_all(i), 0);
		check_all(i);
	}
	check_no_wx(maps);
	start_sibling(&thread);
	CHECK_EQUAL(set_all(5), -ENOTSUP);
	check_all(99);
	stop_sibling(thread);
}

static void *change(void *unused)
{
	for (int i = 0; !__atomic_load_n(&hostile_stop, __ATOMIC_RELAXED); i++)
		CHECK_EQUAL(set_all(i), 0);
	return unused;
}

/* fork at any moment of other threads' transactions: the child finds no transaction open, and its code is its own. */
void case_fork(void)
{
	pthread_t runner, changer;

	CHECK_EQUAL(patchpoint_init(), 0);
	start_sibling(&runner);
	CHECK_EQUAL(pthread_create(&changer, NULL, change, NULL), 0);
	for (int i = 0; i < 50; i++) {
		pid_t child = fork();

		if (child == 0) {
			pthread_t thread;

			CHECK_EQUAL(set_all(i), 0);
			check_all(i);
			start_sibling(&thread);
			CHECK_EQUAL(set_all(i + 1), 0);
			check_all(i + 1);
			stop_sibling(thread);
			_exit(0);
		}
		check_child(child);
	}
	__atomic_store_n(&hostile_stop, true, __ATOMIC_RELAXED);
	pthread_join(changer, NULL);
	stop_sibling(runner);
	CHECK_EQUAL(set_all(3), 0);
	check_all(3);
}

static void *fork_often(void *unused)
{
	for (int i = 0; i < 2000; i++) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		check_child(child);
	}
	return unused;
}

/* Several threads fork at once: each gives back only the lock that it took itself. */
void case_forks(void)
{
	pthread_t threads[3];

	CHECK_EQUAL(patchpoint_init(), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, fork_often, NULL), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQUAL(set_all(1), 0);
	check_all(1);
}

/* A child of vfork shares the memory but is another process: its change is refused, and nothing changes. */
void case_vfork(void)
{
	volatile int error = 0;
	pid_t child;

	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(set_all(3), 0);
	child = vfork();
	if (child == 0) {
		error = patchpoint_set_value(number, 4);
		_exit(0);
	}
	check_child(child);
	CHECK_EQUAL(error, -EPERM);
	check_all(3);
	CHECK_EQUAL(set_all(4), 0);
	check_all(4);
}

/* A child that is forked while no descriptor is left must not get its parent's text, which it would change. */
void case_fork_full(void)
{
	struct rlimit before, none;
	pthread_t thread;
	pid_t child;

	hide_proc();
	CHECK_EQUAL(set_all(1), 0);
	start_sibling(&thread);
	CHECK_EQUAL(set_all(2), 0);
	CHECK_EQUAL(status_now().writer, PATCHPOINT_WRITER_MEMFD);
	CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &none), 0);
	child = fork();
	if (child == 0) {
		if (setrlimit(RLIMIT_NOFILE, &before) != 0)
			_exit(2);
		for (int i = 70; i < 90; i++) {
			CHECK_EQUAL(set_all(i), 0);
			check_all(i);
		}
		_exit(0);
	}
	check_child(child);
	check_all(2);
	CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &before), 0);
	CHECK_EQUAL(set_all(3), 0);
	check_all(3);
	stop_sibling(thread);
}
