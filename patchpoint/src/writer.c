/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ways to write code, best first. None ever makes a mapping that is writable and executable.
 *   proc-mem  /proc/self/mem: no writable mapping at all; works under PR_SET_MDWE and on sealed mappings.
 *   memfd     changed copies of pages, in a memory file, take the text's place (pages.c); profilers no longer see the file's name.
 *   mprotect  rw- and back to r-x; only while there is one thread, since other threads would fault meanwhile.
 */
#define _GNU_SOURCE
#include "internal.h"
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch/system_call.h"

const struct writer *writer_used;
char writer_reason[256];

uintptr_t page_size(void)
{
	static uintptr_t bytes;

	if (!bytes)
		bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	return bytes;
}

/* Set if an emulator executes a translation of the old code after a write: then nothing is patched, for good. */
static bool emulated;

/*
 * Writes another number into the probe at `text`, and calls the probe. -ENOEXEC if the new number was written and the old one comes
 * back: an emulator executes a translation of the code and did not notice the write.
 */
static int probe_change(unsigned char *text,
			int (*write)(struct patchpoint_object *object, unsigned char *at, const unsigned char *bytes, size_t length))
{
	uint32_t number = arch_probe_run(text) ^ 0xff;
	unsigned char bytes[4];
	int error;

	arch_probe_bytes(number, bytes);
	error = write(NULL, text + arch_probe_number, bytes, sizeof bytes);
	if (error)
		return error;
	arch_code_stored(text, text, ARCH_PROBE_SIZE);
	error = sync_threads();
	if (!error && memcmp(text + arch_probe_number, bytes, sizeof bytes) != 0)
		error = -EIO;
	if (!error && arch_probe_run(text) != number) {
		emulated = true;
		error = -ENOEXEC;
	}
	return error;
}

/* Kept open: a process cannot open it again after it changed its user or its root, or used up its descriptors. */
static struct kept_file memory = {"/proc/self/mem", O_RDWR, -1, 0, 0};

static int proc_mem_write(struct patchpoint_object *object, unsigned char *at, const unsigned char *bytes, size_t length)
{
	long written = syscall(SYS_pwrite64, memory.file, bytes, length, (off_t)(uintptr_t)at);

	(void)object;
	if (written == (long)length)
		return 0;
	return written < 0 ? -errno : -EIO;
}

/* Kernels may forbid writing through read-only mappings (CONFIG_PROC_MEM_…, proc_mem.force_override=). */
static int proc_mem_ready(void)
{
	static bool probed;
	int error;

	if (kept_file_is_open(&memory))
		return 0;
	if (arch_one_store && !arch_kernel_stores_whole())
		return -EOPNOTSUPP;
	error = kept_file_open(&memory);
	if (error || probed)
		return error;
	error = probe_change((unsigned char *)(uintptr_t)arch_probe_text, proc_mem_write);
	if (error)
		kept_file_close(&memory);
	probed = !error;
	return error;
}

/* The inherited descriptor writes the parent's memory. The child opens its own while it still may. */
void writer_after_fork(void)
{
	if (kept_file_is_open(&memory)) {
		close(memory.file);
		kept_file_open(&memory);
	} else {
		memory.file = -1;
	}
}

int writer_in_orphan(void)
{
	memory.file = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	writer_used = memory.file >= 0 ? &writer_proc_mem : &writer_mprotect;
	return 0;
}

static int memfd_ready(void)
{
	static bool probed;
	size_t bytes = page_size();
	unsigned char *place;
	int error;

	if (!files_may_grow())
		return -EFBIG;
	if (probed)
		return 0;
	place = pages_get(bytes);
	if (!place)
		return -ENOMEM;
	memcpy(place, arch_probe_text, ARCH_PROBE_SIZE);
	error = text_replace(place, place, bytes);
	if (!error)
		error = probe_change(place, pages_write);
	pages_put(place, bytes);
	probed = !error;
	return error;
}

static uintptr_t mprotect_page = 4096;

static int mprotect_ready(void)
{
	size_t bytes = mprotect_page = page_size();
	void *pages = pages_get(bytes);
	int error = 0;

	if (!pages)
		return -ENOMEM;
	/* PR_SET_MDWE forbids this: the page was not executable. */
	if (mprotect(pages, bytes, PROT_READ | PROT_EXEC) != 0)
		error = -errno;
	pages_put(pages, bytes);
	if (!error && !process_has_one_thread())
		error = -EBUSY;
	return error;
}

/*
 * The function starts on a page boundary and makes no calls until its end: while it runs, the page that it writes cannot be
 * executed. Where pages are larger than 4096 bytes, the function may share a page with the target; then it refuses.
 */
__attribute__((noinline, aligned(4096), no_sanitize("address", "undefined"))) static int
mprotect_write(struct patchpoint_object *object, unsigned char *at, const unsigned char *bytes, size_t length)
{
	const uintptr_t page = mprotect_page, here = (uintptr_t)mprotect_write & ~(page - 1);
	uintptr_t start = (uintptr_t)at & ~(page - 1);
	size_t size = (((uintptr_t)at + length + page - 1) & ~(page - 1)) - start;
	long error;

	(void)object;
	if (here >= start && here < start + size)
		return -ENOTSUP;
	error = system_call_mprotect(start, size, PROT_READ | PROT_WRITE);
	if (error)
		return (int)error;
	for (size_t i = 0; i < length; i++)
		((volatile unsigned char *)at)[i] = bytes[i];
	error = system_call_mprotect(start, size, PROT_READ | PROT_EXEC);
	if (!error)
		arch_code_stored(at, at, length);
	return (int)error;
}

const struct writer writer_proc_mem = {"proc-mem", PATCHPOINT_WRITER_PROC_MEM, false, true, 256, proc_mem_ready, proc_mem_write};
const struct writer writer_memfd = {"memfd", PATCHPOINT_WRITER_MEMFD, false, false, 0, memfd_ready, pages_write};
const struct writer writer_mprotect = {"mprotect", PATCHPOINT_WRITER_MPROTECT, true, false, 0, mprotect_ready, mprotect_write};

static const struct writer *const ladder[] = {&writer_proc_mem, &writer_memfd, &writer_mprotect};
enum { WRITERS = sizeof ladder / sizeof ladder[0] };

/* Returns the text of an error in English, without the locale's lock. */
const char *error_text(int error)
{
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 32)
	return strerrordesc_np(error);
#endif
#endif
	return strerror(error);
}

static void refuse(const char *name, int error)
{
	size_t used = strlen(writer_reason);

	snprintf(writer_reason + used, sizeof writer_reason - used, "%s%s: %s", used ? "; " : "", name,
		 error == -ENOEXEC ? "changed code is not what is executed (an emulator)" : error_text(-error));
}

/* Chooses the first writer that works, from a step of the ladder on. */
static bool climb_down(size_t step)
{
	writer_used = NULL;
	for (; step < WRITERS && !emulated; step++) {
		int error = ladder[step]->ready();

		if (!error) {
			writer_used = ladder[step];
			return true;
		}
		refuse(ladder[step]->name, error);
	}
	return false;
}

/* The lock is held. If no writer is in use, or the one in use fails its test, all are tried anew: obstacles may be gone. */
bool writer_find(void)
{
	const char *reason = !arch_can_patch ? "portable build" : arch_under_valgrind() ? "running under Valgrind" : NULL;

	if (emulated)
		return false;
	if (reason) {
		snprintf(writer_reason, sizeof writer_reason, "%s", reason);
		return false;
	}
	if (writer_used && writer_used->ready() == 0)
		return true;
	writer_reason[0] = 0;
	if (sync_possible())
		return climb_down(0);
	refuse("membarrier", -errno);
	writer_used = NULL;
	return false;
}

bool writer_fall_back(int error)
{
	size_t step = 0;

	if (!writer_used)
		return false;
	while (step < WRITERS && ladder[step] != writer_used)
		step++;
	refuse(writer_used->name, error);
	return climb_down(step + 1);
}

int code_write(struct patchpoint_object *object, unsigned char *at, const unsigned char *bytes, size_t length)
{
	return writer_used->write(object, at, bytes, length);
}
