/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ways to write code, best first. None ever makes a mapping that is writable and executable.
 *   proc-mem  /proc/self/mem: no writable mapping at all; works under PR_SET_MDWE and on sealed mappings.
 *   memfd     the text is replaced by a memfd that is mapped twice, r-x and rw-; profilers no longer see the file's name.
 *   mprotect  rw- and back to r-x; only while there is one thread, others would fault meanwhile.
 */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct writer *writer_used;
char writer_reason[256];

static uintptr_t page_size(void)
{
	return (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* Opened for each transaction: after fork an old descriptor would write the parent. */
static int mem_file = -1;

static int proc_mem_open(void)
{
	mem_file = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	return mem_file < 0 ? -errno : 0;
}

static void proc_mem_close(void)
{
	close(mem_file);
	mem_file = -1;
}

static int proc_mem_write(unsigned char *at, const unsigned char *bytes, size_t length)
{
	long written = syscall(SYS_pwrite64, mem_file, bytes, length, (off_t)(uintptr_t)at);

	if (written == (long)length)
		return 0;
	return written < 0 ? -errno : -EIO;
}

/*
 * Writes another number into the probe at `text`, and calls it. -ENOEXEC when the old one comes back though the new one was
 * written: an emulator executes a translation of the code and did not notice.
 */
static int probe_change(const unsigned char *text, int (*write)(unsigned char *at, const unsigned char *bytes, size_t length),
			unsigned char *at)
{
	uint32_t number = ~arch_probe_run(text), found;
	int error = write(at + ARCH_PROBE_NUMBER, (const unsigned char *)&number, sizeof number);

	if (error)
		return error;
	error = sync_core();
	memcpy(&found, text + ARCH_PROBE_NUMBER, sizeof found);
	if (!error && found != number)
		error = -EIO;
	if (!error && arch_probe_run(text) != number)
		error = -ENOEXEC;
	return error;
}

/* Kernels may forbid writing through read-only mappings (CONFIG_PROC_MEM_…, proc_mem.force_override=). */
static int proc_mem_probe(void)
{
	int error = proc_mem_open();

	if (error)
		return error;
	error = probe_change(arch_probe_text, proc_mem_write, (unsigned char *)(uintptr_t)arch_probe_text);
	proc_mem_close();
	return error;
}

static int nothing_to_open(void)
{
	return 0;
}

static void nothing_to_close(void)
{
}

/* The whole pages from an object's first site to its last. */
static unsigned char *object_pages(const struct patchpoint_object *object, size_t *bytes)
{
	uintptr_t page = page_size(), start = object->text_start & ~(page - 1);

	*bytes = ((object->text_stop + page - 1) & ~(page - 1)) - start;
	return (unsigned char *)start;
}

/* A memfd with a copy of `bytes` bytes at `text` (NULL: zeros), mapped rw- as the result and r-x as *code. */
static unsigned char *copy_twice(const unsigned char *text, size_t bytes, unsigned char **code)
{
	int file = (int)syscall(SYS_memfd_create, "patchpoint", 1u /* MFD_CLOEXEC */);
	unsigned char *alias = MAP_FAILED;

	*code = MAP_FAILED;
	if (file < 0)
		return NULL;
	if (ftruncate(file, (off_t)bytes) == 0)
		alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (alias != MAP_FAILED) {
		if (text)
			memcpy(alias, text, bytes);
		*code = mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
		if (*code == MAP_FAILED)
			munmap(alias, bytes);
	}
	int error = errno;
	close(file);
	errno = error;
	return *code == MAP_FAILED ? NULL : alias;
}

static int plain_write(unsigned char *at, const unsigned char *bytes, size_t length)
{
	memcpy(at, bytes, length);
	return 0;
}

static int memfd_probe(void)
{
	size_t bytes = page_size();
	unsigned char *code, *alias = copy_twice(NULL, bytes, &code);
	int error;

	if (!alias)
		return -errno;
	memcpy(alias, arch_probe_text, ARCH_PROBE_SIZE);
	error = probe_change(code, plain_write, alias);
	munmap(alias, bytes);
	munmap(code, bytes);
	return error;
}

/* Puts the copy in the text's place. That is one step for other threads: a fault meanwhile waits for it. */
static int map_over(struct patchpoint_object *object, unsigned char *text, size_t size)
{
	unsigned char *code, *alias = copy_twice(text, size, &code);

	if (!alias)
		return -errno;
	/* Sealed mappings (mseal) refuse. */
	if (mremap(code, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, text) == MAP_FAILED) {
		int error = -errno;

		munmap(code, size);
		munmap(alias, size);
		return error;
	}
	object->alias = alias;
	return 0;
}

static int memfd_write(unsigned char *at, const unsigned char *bytes, size_t length)
{
	struct patchpoint_object *object = registry_object_at(at);
	size_t size;

	if (!object)
		return -EFAULT;
	unsigned char *text = object_pages(object, &size);
	int error = object->alias ? 0 : map_over(object, text, size);
	if (!error)
		memcpy(object->alias + (at - text), bytes, length);
	return error;
}

void writer_memfd_forget(struct patchpoint_object *object)
{
	size_t size;

	object_pages(object, &size);
	if (object->alias)
		munmap(object->alias, size);
	object->alias = NULL;
}

/*
 * A child of fork shares the parent's memfd, so it gets copies of its own. They are made before the fork, while the lock is
 * held: afterwards the parent may be in the middle of a transaction.
 */
void writer_memfd_before_fork(void)
{
	for (struct patchpoint_object *object = registry.objects; object; object = object->next) {
		size_t size;
		unsigned char *text = object_pages(object, &size);

		if (object->alias)
			object->fork_alias = copy_twice(text, size, &object->fork_code);
	}
}

void writer_memfd_after_fork(bool child)
{
	for (struct patchpoint_object *object = registry.objects; object; object = object->next) {
		size_t size;
		unsigned char *text = object_pages(object, &size);

		if (!object->fork_alias)
			continue;
		if (child) {
			mremap(object->fork_code, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, text);
			munmap(object->alias, size);
			object->alias = object->fork_alias;
		} else {
			munmap(object->fork_code, size);
			munmap(object->fork_alias, size);
		}
		object->fork_alias = object->fork_code = NULL;
	}
}

static int mprotect_probe(void)
{
	size_t bytes = page_size();
	void *pages = pages_get(bytes);
	int error = 0;

	if (!pages)
		return -ENOMEM;
	/* PR_SET_MDWE refuses to make executable what was not. */
	if (mprotect(pages, bytes, PROT_READ | PROT_EXEC) != 0)
		error = -errno;
	pages_put(pages, bytes);
	return error;
}

#ifdef __x86_64__
static __attribute__((always_inline)) inline long protect(uintptr_t at, size_t bytes, long protection)
{
	long result;
	register uintptr_t address __asm__("rdi") = at;
	register size_t size __asm__("rsi") = bytes;
	register long wanted __asm__("rdx") = protection;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(SYS_mprotect), "r"(address), "r"(size), "r"(wanted)
			 : "rcx", "r11", "memory");
	return result;
}

/* In a page of its own start, without calls: while it runs the page that it writes cannot be executed. */
__attribute__((noinline, aligned(4096), no_sanitize("address", "undefined"))) static int
mprotect_write(unsigned char *at, const unsigned char *bytes, size_t length)
{
	const uintptr_t page = 4096, here = (uintptr_t)mprotect_write & ~(page - 1);
	uintptr_t start = (uintptr_t)at & ~(page - 1);
	size_t size = (((uintptr_t)at + length + page - 1) & ~(page - 1)) - start;
	long error;

	if (here >= start && here < start + size)
		return -ENOTSUP;
	error = protect(start, size, PROT_READ | PROT_WRITE);
	if (error)
		return (int)error;
	for (size_t i = 0; i < length; i++)
		((volatile unsigned char *)at)[i] = bytes[i];
	return (int)protect(start, size, PROT_READ | PROT_EXEC);
}
#else
static int mprotect_write(unsigned char *at, const unsigned char *bytes, size_t length)
{
	(void)at, (void)bytes, (void)length;
	return -ENOTSUP;
}
#endif

const struct writer writer_proc_mem = {"proc-mem", PATCHPOINT_WRITER_PROC_MEM, false, true, 256, proc_mem_probe,
				       proc_mem_open, proc_mem_write, proc_mem_close};
const struct writer writer_memfd = {"memfd", PATCHPOINT_WRITER_MEMFD, false, false, 0, memfd_probe,
				    nothing_to_open, memfd_write, nothing_to_close};
const struct writer writer_mprotect = {"mprotect", PATCHPOINT_WRITER_MPROTECT, true, false, 0, mprotect_probe,
				       nothing_to_open, mprotect_write, nothing_to_close};

static void refuse(const char *name, int error)
{
	size_t used = strlen(writer_reason);

	snprintf(writer_reason + used, sizeof writer_reason - used, "%s%s: %s", used ? "; " : "", name,
		 error == -ENOEXEC ? "changed code is not what is executed (an emulator)"
				   : strerrordesc_np(-error));
}

/* Once; the lock is held. */
void writer_choose(void)
{
	static const struct writer *const ladder[] = {&writer_proc_mem, &writer_memfd, &writer_mprotect};
	static bool chosen;

	if (chosen)
		return;
	chosen = true;
	if (!arch_can_patch) {
		snprintf(writer_reason, sizeof writer_reason, "portable build");
		return;
	}
	if (arch_under_valgrind()) {
		snprintf(writer_reason, sizeof writer_reason, "running under Valgrind");
		return;
	}
	if (!sync_possible()) {
		refuse("membarrier", -errno);
		return;
	}
	for (size_t i = 0; i < sizeof ladder / sizeof ladder[0]; i++) {
		int error = ladder[i]->probe();

		if (!error) {
			writer_used = ladder[i];
			return;
		}
		refuse(ladder[i]->name, error);
		if (error == -ENOEXEC)
			return;
	}
}
