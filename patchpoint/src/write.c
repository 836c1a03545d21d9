/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The protocols that write sites while other threads execute them, and the choice of one.
 *
 * A jump to itself (eb fe), as HotSpot and Detours use it, was tried and left: Intel's manual allows it in no case, one site in 64
 * crosses a line, and a real-time thread at the jump starves the writer.
 */
#define _GNU_SOURCE
#include "internal.h"
#include "kernel.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * The number of sites that hold a breakpoint at the same time. Threads that meet one wait, so a large change goes in steps. Each
 * step costs three barriers, which are cheap against the writes of 256 sites.
 */
enum { BATCH = 256 };

/*
 * The addresses of the library's breakpoints, for the handler, while `generation` is odd. They lie in memory that is never freed: a
 * handler that reads late reads old addresses, and learns from the generation that they are old.
 */
static uintptr_t batch[BATCH];
static size_t batch_count;

/* The change in progress, for an orphan that is born during it. */
static struct {
	const struct patch *patches;
	size_t count;
} open_change;

struct piece {
	const unsigned char *bytes;
	size_t offset;
	size_t length;
};

static struct piece piece_of(const struct patch *patch, enum part part, bool old)
{
	const uint8_t *bytes = old ? patch->old : patch->new;

	switch (part) {
	case PART_TRAP:
		return (struct piece){&arch_trap, 0, 1};
	case PART_HEAD:
		return (struct piece){bytes, 0, 1};
	case PART_TAIL:
		return (struct piece){bytes + 1, 1, patch->length - 1u};
	default:
		return (struct piece){bytes, 0, patch->length};
	}
}

static int site_write(const struct patch *patch, enum part part, bool old)
{
	struct piece piece = piece_of(patch, part, old);

	return code_write(patch->object, patch->at + piece.offset, piece.bytes, piece.length);
}

/*
 * Sites near each other share one write, where a write of pages costs little more than a write of a byte. The bytes between the
 * sites are written with the values they have. This changes nothing for a thread that executes them: at every moment every byte
 * holds what single writes would leave there. (The first write to a page of a file replaces all of it by a copy, too.) If a
 * breakpoint was removed between reading and writing, the write would bring it back. The bytes between are therefore read anew for
 * each write, and a span ends before a gap with a trap byte of any meaning. Gaps are shorter than a page, so each page touched
 * holds a site.
 */
enum { SPAN_MAX = 16384 };
static unsigned char span_bytes[SPAN_MAX];

/* Extends a span over the sites near its first one. */
static void span_extend(struct span *span, const struct patch *patches, size_t count, size_t gap_max)
{
	while (span->sites < count) {
		const struct patch *next = &patches[span->sites];
		size_t offset = (size_t)(next->at - patches[0].at);

		if (next->object != patches[0].object || offset < span->length || offset - span->length > gap_max ||
		    offset + next->length > SPAN_MAX)
			return;
		span->length = offset + next->length;
		span->sites++;
	}
}

/* Ends a span before the first gap with a trap byte. Sites may hold such bytes. */
static void span_shorten(struct span *span, const struct patch *patches)
{
	const unsigned char *found, *from = span_bytes, *end;
	size_t site = 0;

	while ((found = memchr(from, arch_trap, (size_t)(span_bytes + span->length - from)))) {
		while (site + 1 < span->sites && span_bytes + (patches[site + 1].at - patches[0].at) <= found)
			site++;
		end = span_bytes + (patches[site].at - patches[0].at) + patches[site].length;
		if (found >= end) {
			span->length = (size_t)(end - span_bytes);
			span->sites = site + 1;
			return;
		}
		from = end;
	}
}

struct span span_take(const struct patch *patches, size_t count, enum part part, bool old, size_t gap_max, ptrdiff_t away)
{
	struct span span = {patches[0].at + away, span_bytes, patches[0].length, 1};
	struct piece piece = piece_of(&patches[0], part, old);

	if (gap_max)
		span_extend(&span, patches, count, gap_max);
	if (span.sites > 1) {
		memcpy(span_bytes, span.at, span.length);
		/* Nobody else can have a breakpoint in pages that are away. */
		if (!away)
			span_shorten(&span, patches);
	}
	if (span.sites == 1)
		return (struct span){span.at + piece.offset, piece.bytes, piece.length, 1};
	for (size_t i = 0; i < span.sites; i++) {
		const struct patch *patch = &patches[i];
		unsigned char *at = span_bytes + (patch->at - patches[0].at);

		if (part == PART_WHOLE) {
			site_store(at, site_load(old ? patch->old : patch->new, patch->length), patch->length);
		} else {
			piece = piece_of(patch, part, old);
			memcpy(at + piece.offset, piece.bytes, piece.length);
		}
	}
	return span;
}

/* The longest gap between two sites that this transaction writes together. */
static size_t gap_max;

/* Writes one part of each site. `touched` counts the sites that may have been written, also on failure. */
static int write_part(const struct patch *patches, size_t count, enum part part, bool old, size_t *touched)
{
	struct span span;
	int error = 0;

	for (*touched = 0; *touched < count && !error; *touched += span.sites) {
		span = span_take(patches + *touched, count - *touched, part, old, gap_max, 0);
		error = code_write(patches[*touched].object, span.at, span.bytes, span.length);
	}
	return error;
}

/* Writes a part of each site's old form. A failed write is tried again, then in all other ways there are. False if none is left. */
static bool insist(const struct patch *patches, size_t count, enum part part)
{
	int error = 0;

	for (size_t i = 0; i < count; i++)
		for (int tries = 0; writer_used && (error = site_write(&patches[i], part, true)) != 0; tries++)
			if (tries >= 2)
				writer_fall_back(error);
	return writer_used;
}

/* Restores sites of which any part may be new. Breakpoints first: no thread may meet a new head with an old tail. */
static bool restore(const struct patch *patches, size_t count)
{
	insist(patches, count, PART_TRAP);
	sync_threads();
	insist(patches, count, PART_TAIL);
	sync_threads();
	insist(patches, count, PART_HEAD);
	sync_threads();
	return writer_used;
}

/* Set if breakpoints could be written but not removed: threads step over them. */
static bool stuck;

bool breakpoint_is_stuck(void)
{
	return __atomic_load_n(&stuck, __ATOMIC_ACQUIRE);
}

static void generation_step(void)
{
	uint32_t *generation = &registry.generation;

	if (!(__atomic_add_fetch(generation, 1, __ATOMIC_SEQ_CST) & 1) &&
	    __atomic_load_n(&trap_waiters, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, generation, KERNEL_FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* The addresses are there before the generation is odd, and the generation is odd before there is a breakpoint. */
static void batch_open(const struct patch *patches, size_t count)
{
	for (size_t i = 0; i < count; i++)
		__atomic_store_n(&batch[i], (uintptr_t)patches[i].at, __ATOMIC_RELAXED);
	__atomic_store_n(&batch_count, count, __ATOMIC_RELEASE);
	generation_step();
}

/* If breakpoints remain, their addresses stay known. */
static void batch_close(bool removed)
{
	if (removed)
		generation_step();
	else
		__atomic_store_n(&stuck, true, __ATOMIC_RELEASE);
}

/*
 * Cross-modifying code (Intel SDM vol. 3, 8.1.3; the kernel's smp_text_poke_batch_finish): no thread may execute a site
 * whose bytes are partly old and partly new, and each must pass a serialising instruction before it executes new bytes.
 *   1. Write a breakpoint over the first byte of every site; barrier. Now no thread executes the rest of a site: one that
 *      arrives traps, and its handler sends it back to the site until the breakpoint is gone (trap.c).
 *   2. Write the rest of every site; barrier.
 *   3. Write the first byte of every site; barrier. Now every thread executes the new instruction.
 * A site is one instruction of unchanged length, so no thread can be parked inside it. The first byte means nothing: if a debugger
 * takes a thread's trap away, the thread goes on behind that byte with the same instruction, the old or the new one.
 */
static int batch_write(const struct patch *patches, size_t count, bool old)
{
	size_t touched, trapped;
	int error;

	batch_open(patches, count);
	error = write_part(patches, count, PART_TRAP, old, &trapped);
	if (!error)
		error = sync_threads();
	if (error) {
		/* Only one byte of each site changed, so the bytes can go back in any order. */
		batch_close(insist(patches, trapped, PART_HEAD));
		return error;
	}
	error = write_part(patches, count, PART_TAIL, old, &touched);
	if (!error)
		error = sync_threads();
	if (!error)
		error = write_part(patches, count, PART_HEAD, old, &touched);
	if (!error)
		error = sync_threads();
	batch_close(!error || restore(patches, trapped));
	return error;
}

/* Writes while there is one thread. After the writes nothing can fail: this thread can serialise itself. */
static int alone_write(const struct patch *patches, size_t count)
{
	size_t touched;
	int error = write_part(patches, count, PART_WHOLE, false, &touched);

	if (error)
		insist(patches, touched, PART_WHOLE);
	sync_self();
	return error;
}

/*
 * Where one store exchanges a site:
 *   1. Barrier. From here on every thread sees and executes what was written before, such as operations and stubs; so it is there
 *      for a thread that meets a new instruction.
 *   2. Write every site, each by itself. A thread that executes the site meanwhile executes the old or the new instruction.
 *   3. Barrier. Now every thread executes the new one.
 */
static int stores_write(const struct patch *patches, size_t count)
{
	size_t touched = 0;
	int error = sync_threads();

	if (error)
		return error;
	error = write_part(patches, count, PART_WHOLE, false, &touched);
	if (!error)
		error = sync_threads();
	if (error) {
		insist(patches, touched, PART_WHOLE);
		sync_threads();
	}
	return error;
}

static int batches_write(const struct patch *patches, size_t count)
{
	size_t done, length;
	int error = 0;

	for (done = 0; done < count; done += length) {
		length = count - done < BATCH ? count - done : BATCH;
		error = batch_write(patches + done, length, false);
		if (error)
			break;
	}
	if (error)
		for (size_t back = 0; back < done; back += BATCH)
			batch_write(patches + back, done - back < BATCH ? done - back : BATCH, true);
	return error;
}

enum patchpoint_protocol protocol_used;
char protocol_refusals[256];

static void reason_add(const char *protocol, const char *why)
{
	size_t used = strlen(protocol_refusals);

	snprintf(protocol_refusals + used, sizeof protocol_refusals - used, "%s%s: %s", used ? "; " : "", protocol, why);
}

/* The breakpoints' protocol, with a handler from before the first thread or child of vfork that could need it. */
static int traps_write(const struct patch *patches, size_t count)
{
	int error = trap_install();

	if (error)
		return error;
	orphans_notice();
	open_change.count = count;
	__atomic_store_n(&open_change.patches, patches, __ATOMIC_RELEASE);
	error = batches_write(patches, count);
	__atomic_store_n(&open_change.patches, NULL, __ATOMIC_RELEASE);
	return error;
}

void patience_wait(void)
{
	nanosleep(&(struct timespec){0, 200000}, NULL);
}

/* Whether less than `most_ns` went by since a time, which is now if it is 0. */
static bool may_wait(uint64_t *since_ns, uint64_t most_ns)
{
	uint64_t now = now_ns();

	if (!*since_ns)
		*since_ns = now;
	return now - *since_ns < most_ns;
}

/*
 * Whether breakpoints may be written now: 0; -EAGAIN to wait and ask again; -EBUSY. A change waits 20 ms for a thread in which the
 * program blocks SIGTRAP, and a second for one in which libc does.
 */
static int traps_may_be_used(struct patience *patience, bool *traced)
{
	const uint64_t ms = 1000000;
	static bool used;
	int error = threads_accept_traps(!used, patience->since_ns != 0, traced);
	bool more = may_wait(&patience->since_ns, 1000 * ms);

	used |= error == 0;
	if (error == -EBUSY)
		more &= may_wait(&patience->of_program_ns, 20 * ms);
	return !error ? 0 : more ? -EAGAIN : -EBUSY;
}

static bool text_is_copied(const struct patch *patches, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (patches[i].object->copied)
			return true;
	return false;
}

/* Tries to move the pages; notes why they cannot be moved. */
static int moved_write(const struct patch *patches, size_t count)
{
	int error;

	protocol_used = PATCHPOINT_PROTOCOL_MOVE;
	error = pages_move(patches, count);
	if (error == -EOPNOTSUPP)
		reason_add("move", pages_refusal);
	return error;
}

/*
 * Chooses among the protocols for x86-64 by what they ask of a program's threads:
 *   move   nothing. It asks for text that is mapped from its file and not sealed, and for Linux 5.13.
 *   trap   that no thread blocks SIGTRAP: the kernel kills a process that traps then.
 *   copy   nothing, but the text loses its file. It also serves where only memory files can be written (the writer memfd).
 * A tracer may set and remove breakpoints while this thread is stopped in the middle of a change. A move would lose what it writes,
 * so a traced process prefers traps.
 */
static int threads_write(const struct patch *patches, size_t count, struct patience *patience)
{
	const bool copies = writer_used->id == PATCHPOINT_WRITER_MEMFD || text_is_copied(patches, count);
	const bool tracer = !copies && process_is_traced();
	bool traced = true;
	int error;

	if (!copies) {
		if (tracer)
			reason_add("move", "a tracer is attached");
		else if ((error = moved_write(patches, count)) != -EOPNOTSUPP)
			return error;
		error = traps_may_be_used(patience, &traced);
		if (error == -EAGAIN)
			return error;
		if (!error) {
			/* While traced, only the sites' own bytes are written, since a tracer may write those between. */
			gap_max = traced ? 0 : writer_used->gap_max;
			protocol_used = PATCHPOINT_PROTOCOL_TRAP;
			return traps_write(patches, count);
		}
		reason_add("trap", blocker);
		if (tracer && (error = moved_write(patches, count)) != -EOPNOTSUPP)
			return error;
	}
	protocol_used = PATCHPOINT_PROTOCOL_COPY;
	error = pages_copy(patches, count);
	if (!error || copies)
		return error;
	reason_add("copy", error_text(-error));
	return -EBUSY;
}

/* Writes all sites, or none: after a failure the sites written before are written back in the same way. The lock is held. */
int patches_write(struct patch *patches, size_t count, struct patience *patience)
{
	patches_sort(patches, count);
	protocol_refusals[0] = 0;
	/* Where one store exchanges a site, sites are written one by one, since a longer write is several stores. */
	gap_max = 0;
	if (process_has_one_thread() && writer_used->id != PATCHPOINT_WRITER_MEMFD) {
		protocol_used = PATCHPOINT_PROTOCOL_DIRECT;
		if (count > 1 && !arch_one_store && writer_used->gap_max && !process_is_traced())
			gap_max = GAP_EXCLUSIVE;
		return alone_write(patches, count);
	}
	if (!arch_one_store)
		return threads_write(patches, count, patience);
	if (writer_used->id == PATCHPOINT_WRITER_MEMFD) {
		protocol_used = PATCHPOINT_PROTOCOL_COPY;
		return pages_copy(patches, count);
	}
	protocol_used = PATCHPOINT_PROTOCOL_STORE;
	return stores_write(patches, count);
}

static bool batch_holds(const unsigned char *address)
{
	size_t low = 0, count = __atomic_load_n(&batch_count, __ATOMIC_ACQUIRE);

	while (count > 0) {
		size_t half = count / 2;

		if (__atomic_load_n(&batch[low + half], __ATOMIC_RELAXED) < (uintptr_t)address) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return low < BATCH && __atomic_load_n(&batch[low], __ATOMIC_RELAXED) == (uintptr_t)address;
}

bool breakpoint_is_ours(const unsigned char *address)
{
	for (;;) {
		uint32_t before = __atomic_load_n(&registry.generation, __ATOMIC_SEQ_CST);
		bool gone = arch_trap_is_gone(address), held = batch_holds(address);

		if (gone)
			return true;
		if (__atomic_load_n(&registry.generation, __ATOMIC_SEQ_CST) == before)
			return held && before & 1;
	}
}

/*
 * A child that was forked without libc's handlers in the middle of a change has the sites as they were at that moment, its keys'
 * old values, and no thread that would finish the change. Its one thread writes the old bytes back, but for sites whose text the
 * child shares with its parent (the writer memfd).
 */
bool change_abandon(void)
{
	const struct patch *patches = __atomic_load_n(&open_change.patches, __ATOMIC_ACQUIRE);
	bool complete = writer_in_orphan() == 0;

	for (size_t i = 0; patches && complete && i < open_change.count; i++)
		complete = site_write(&patches[i], PART_WHOLE, true) == 0;
	sync_self();
	if (complete) {
		open_change.patches = NULL;
		generation_step();
	}
	return complete;
}
