/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Exchanges whole pages of text, so that no thread is stopped, gets a signal or waits at a site while sites change.
 *   pages_move  the pages leave their place for a moment; the file's own pages, as compiled, stand in for them.
 *   pages_copy  a changed copy in a memory file takes the pages' place in one step.
 * In both ways nobody executes the bytes that are written, and a processor does only what the kernel asks of it all the time: it
 * forgets an old mapping before it uses a new one.
 */
#define _GNU_SOURCE
#include "internal.h"
#include "kernel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Pages in a row that hold sites, and where they are while they are away. */
struct run {
	unsigned char *text;
	unsigned char *aside;
	size_t bytes;
	size_t first, count; /* the sites */
	bool spoiled;	     /* what is aside is neither old nor new */
};

/* The runs that are exchanged at the same time. The lock guards the list, which is long for a small stack. */
enum { RUNS_MAX = 256 };
static struct run runs[RUNS_MAX];

/*
 * Pages that share a site go together, whichever key it reads: otherwise a thread would execute one half of it as compiled and the
 * other half as patched. Extends a run's end, or its beginning, to where no site crosses it.
 */
static unsigned char *end_of_run(const struct patchpoint_object *object, unsigned char *end)
{
	while (site_crosses(object, end))
		end += page_size();
	return end;
}

static unsigned char *start_of_run(const struct patchpoint_object *object, unsigned char *start)
{
	while (site_crosses(object, start))
		start -= page_size();
	return start;
}

/* Gathers the first of `count` sorted sites into runs; short gaps come along. Returns the number of sites taken. */
static size_t runs_gather(const struct patch *patches, size_t count, size_t *found)
{
	enum { STRIDE = 16 };
	const uintptr_t page = page_size(), gap_max = 8 * page;
	unsigned char *end = NULL;
	struct run *run = NULL;
	size_t i;

	*found = 0;
	for (i = 0; i < count; i++) {
		const struct patch *patch;
		unsigned char *from, *stop;

		/* Sites are sorted: if the last of some is in the run, so are those before it. */
		while (run && count - i > STRIDE && patches[i + STRIDE].at + patches[i + STRIDE].length <= end) {
			run->count += STRIDE;
			i += STRIDE;
		}
		patch = &patches[i];
		if (run && patch->at + patch->length <= end) {
			run->count++;
			continue;
		}
		from = patch->at - ((uintptr_t)patch->at & (page - 1));
		stop = from + (((uintptr_t)(patch->at - from) + patch->length + page - 1) & ~(page - 1));
		from = start_of_run(patch->object, from);
		stop = end_of_run(patch->object, stop);
		if (!run || from > end + gap_max || (from >= end && patch->object != patches[i - 1].object)) {
			if (*found == RUNS_MAX)
				break;
			run = &runs[(*found)++];
			*run = (struct run){.text = from, .first = i};
		}
		end = stop;
		run->bytes = (size_t)(end - run->text);
		run->count++;
	}
	return i;
}

char pages_refusal[160];

/* Notes why pages cannot be moved or copied. Returns -EOPNOTSUPP. */
static int pages_refuse(const char *what, int error)
{
	snprintf(pages_refusal, sizeof pages_refusal, "%s%s%s", what, error ? ": " : "", error ? error_text(error) : "");
	return -EOPNOTSUPP;
}

/*
 * Moving: mremap(2) with MREMAP_DONTUNMAP takes the pages away and leaves the mapping, which then shows the file's pages: sites as
 * compiled, which read their keys. This needs Linux 5.13; before 5.7 the flag is refused, and for a file before 5.13. The test with
 * memory of no file finds emulators that take the flag and unmap the memory.
 */
int moves_refused = 1; /* 1: not tried yet; 0: pages can be moved; else -errno */

static int moves_test(void)
{
	size_t bytes = page_size();
	char *old = pages_get(bytes), *moved;
	int error = 0;

	if (!old)
		return -ENOMEM;
	moved = mremap(old, bytes, bytes, MREMAP_MAYMOVE | KERNEL_MREMAP_DONTUNMAP, NULL);
	if (moved == MAP_FAILED)
		error = -errno;
	else if (munmap(moved, bytes) != 0 || !page_is_readable((uintptr_t)old))
		return -ENOSYS;
	pages_put(old, bytes);
	return error;
}

/* Whether the file's pages may stand in for a run. 0, or -EOPNOTSUPP. */
static int run_is_movable(const struct run *run, struct mapping *known)
{
	uint64_t start = (uintptr_t)run->text, stop = start + run->bytes;

	if ((known->stop == 0 || start < known->start || stop > known->stop) && mapping_at(start, known) != 1)
		return pages_refuse("no list of mappings", 0);
	if (stop > known->stop || known->shared || known->inode == 0 || !known->executable)
		return pages_refuse("the text is not mapped from its file", 0);
	if (text_is_relocated(start))
		return pages_refuse("the text has relocations", 0);
	return 0;
}

bool files_may_grow(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

/* Appends to a memory file. 0 or -errno. */
static int file_add(int file, const unsigned char *bytes, size_t length)
{
	while (length > 0) {
		long written = syscall(SYS_write, file, bytes, length);

		if (written <= 0)
			return written < 0 ? -errno : -EIO;
		bytes += written;
		length -= (size_t)written;
	}
	return 0;
}

static int file_make(void)
{
	int file;

	/* The kernel answers growth beyond RLIMIT_FSIZE with a signal (setrlimit(2)). */
	if (!files_may_grow())
		return -EFBIG;
	file = (int)syscall(SYS_memfd_create, "patchpoint", 1u /* MFD_CLOEXEC */);
	return file < 0 ? -errno : file;
}

/* Maps a part of the file over text. For other threads this is one step: a fault meanwhile waits for it. */
static int file_map(int file, unsigned char *text, size_t bytes, off_t at)
{
	void *mapped = mmap(text, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, at);

	if (mapped == MAP_FAILED)
		return -errno;
	arch_code_stored(text, text, bytes);
	return 0;
}

/* Puts a copy of what lies at `contents` in the place of a text. */
int text_replace(unsigned char *text, const unsigned char *contents, size_t bytes)
{
	int file = file_make(), error;

	if (file < 0)
		return file;
	error = file_add(file, contents, bytes);
	if (!error)
		error = file_map(file, text, bytes, 0);
	close(file);
	return error;
}

/*
 * Takes the runs back to their places. One that cannot return gets a copy there. Failing that, and for one that is spoiled, the file's
 * pages stay: its sites are as compiled, which is right for every value of their keys.
 */
static void moves_return(const struct patch *patches, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct run *run = &runs[i];

		if (!run->spoiled && mremap(run->aside, run->bytes, run->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, run->text) != MAP_FAILED)
			continue;
		if (!run->spoiled && text_replace(run->text, run->aside, run->bytes) == 0)
			patches[run->first].object->copied = 1;
		munmap(run->aside, run->bytes);
	}
}

/* Writes the sites of a run that is away, where nobody else reads or writes. */
static int run_write(const struct run *run, const struct patch *patches, bool old)
{
	const size_t gap_max = writer_used->gap_max ? GAP_EXCLUSIVE : 0;
	struct span span;
	int error = 0;

	for (size_t done = 0; done < run->count && !error; done += span.sites) {
		span = span_take(patches + run->first + done, run->count - done, PART_WHOLE, old, gap_max, run->aside - run->text);
		error = writer_used->write(NULL, span.at, span.bytes, span.length);
	}
	return error;
}

/*
 * Moves the runs away, writes their sites, and moves them back. On failure the sites hold the old bytes again.
 *   1. Move the pages away. Threads that arrive execute the file's pages: the sites as compiled, which read their keys.
 *   2. Write the sites where the pages are now. Barrier: no thread executes the old instructions any more, and each has serialised
 *      since the last byte was written.
 *   3. Move the pages back. The kernel flushes the file's mapping on every processor before it makes the new one. A thread that
 *      still has a site as compiled in its pipeline reads the key: the old value before the change returns, and the new one to
 *      whoever learned of the return (loads are not reordered), so no second barrier is needed.
 */
static int runs_move(const struct patch *patches, size_t count, bool old)
{
	struct mapping known = {.stop = 0};
	size_t away, written;
	int error = 0;

	for (away = 0; away < count; away++) {
		struct run *run = &runs[away];

		error = run_is_movable(run, &known);
		if (error)
			break;
		run->aside = mremap(run->text, run->bytes, run->bytes, MREMAP_MAYMOVE | KERNEL_MREMAP_DONTUNMAP, NULL);
		if (run->aside == MAP_FAILED) {
			if (errno == EINVAL)
				moves_refused = -EINVAL;
			error = pages_refuse("mremap", errno);
			break;
		}
	}
	for (written = 0; written < away && !error; written++)
		error = run_write(&runs[written], patches, old);
	/* `written` counts a run whose write failed, too. */
	if (!error)
		error = sync_threads();
	for (size_t i = 0; error && i < written; i++)
		runs[i].spoiled = run_write(&runs[i], patches, !old) != 0;
	moves_return(patches, away);
	return error;
}

/* Appends a run with its sites changed. */
static int file_add_changed(int file, const struct run *run, const struct patch *patches, bool old)
{
	const unsigned char *from = run->text;
	int error = 0;

	for (const struct patch *patch = patches + run->first; patch < patches + run->first + run->count && !error; patch++) {
		error = file_add(file, from, (size_t)(patch->at - from));
		if (!error)
			error = file_add(file, old ? patch->old : patch->new, patch->length);
		from = patch->at + patch->length;
	}
	return error ? error : file_add(file, from, (size_t)(run->text + run->bytes - from));
}

/*
 *   1. Write a file with the pages as they are and, behind these, as they will be. Barrier.
 *   2. Map the new pages over the text. The kernel flushes the old mapping on every processor before it makes the new one.
 *   3. Barrier. Now every thread executes the new instructions.
 * The file is never written again: a child of fork keeps what it has. The pages lose the file's name for profilers and uprobes.
 */
static int runs_copy(const struct patch *patches, size_t count, bool old)
{
	int file = file_make(), error = 0;
	off_t total = 0, at = 0;
	size_t mapped = 0;

	if (file < 0)
		return file;
	for (size_t i = 0; i < count && !error; i++) {
		error = file_add(file, runs[i].text, runs[i].bytes);
		total += (off_t)runs[i].bytes;
	}
	for (size_t i = 0; i < count && !error; i++)
		error = file_add_changed(file, &runs[i], patches, old);
	if (!error)
		error = sync_threads();
	at = total;
	while (mapped < count && !error) {
		error = file_map(file, runs[mapped].text, runs[mapped].bytes, at);
		if (!error)
			patches[runs[mapped].first].object->copied = 1;
		at += (off_t)runs[mapped++].bytes;
	}
	if (!error)
		sync_threads();
	at = 0;
	for (size_t i = 0; error && i < mapped; i++) {
		file_map(file, runs[i].text, runs[i].bytes, at);
		at += (off_t)runs[i].bytes;
	}
	close(file);
	return error;
}

static int in_runs(const struct patch *patches, size_t count, int (*exchange)(const struct patch *patches, size_t runs, bool old))
{
	size_t done = 0, found, taken;
	int error = 0;

	while (done < count && !error) {
		taken = runs_gather(patches + done, count - done, &found);
		error = exchange(patches + done, found, false);
		done += error ? 0 : taken;
	}
	for (size_t back = 0; error && back < done; back += taken) {
		taken = runs_gather(patches + back, done - back, &found);
		exchange(patches + back, found, true);
	}
	return error;
}

int pages_move(const struct patch *patches, size_t count)
{
	if (moves_refused == 1)
		moves_refused = moves_test();
	if (moves_refused)
		return pages_refuse("mremap", -moves_refused);
	return in_runs(patches, count, runs_move);
}

int pages_copy(const struct patch *patches, size_t count)
{
	return in_runs(patches, count, runs_copy);
}

/* Writes into a copy that takes the place of the pages that hold `at`. */
int pages_write(struct patchpoint_object *object, unsigned char *at, const unsigned char *bytes, size_t length)
{
	const uintptr_t page = page_size();
	unsigned char *text = at - ((uintptr_t)at & (page - 1));
	size_t size = ((uintptr_t)(at - text) + length + page - 1) & ~(page - 1);
	int file = file_make(), error;

	if (file < 0)
		return file;
	error = file_add(file, text, (size_t)(at - text));
	if (!error)
		error = file_add(file, bytes, length);
	if (!error)
		error = file_add(file, at + length, size - (size_t)(at - text) - length);
	if (!error)
		error = file_map(file, text, size, 0);
	if (!error && object)
		object->copied = 1;
	close(file);
	return error;
}
