/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How sites are written while other threads execute them. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Sites that hold a breakpoint at the same time. Threads that meet one wait, so a large change goes in steps; each step
 * costs three barriers, and 256 sites make those small against the writes.
 */
enum { BATCH = 256 };

/* Looking for a debugger costs as much as some ten writes. */
enum { LOOK_MIN = 16 };

bool patches_possible(void)
{
	return writer_used && sync_possible() && (!writer_used->alone || process_has_one_thread());
}

/* What is written of a site; WHOLE while nobody else executes anything. */
enum part { TRAP, TAIL, HEAD, WHOLE };

struct piece {
	const unsigned char *bytes;
	size_t offset;
	size_t length;
};

static struct piece piece_of(const struct patch *patch, enum part part, bool old)
{
	const uint8_t *bytes = old ? patch->old : patch->new;

	switch (part) {
	case TRAP:
		return (struct piece){arch_trap, 0, ARCH_TRAP_LENGTH};
	case HEAD:
		return (struct piece){bytes, 0, ARCH_TRAP_LENGTH};
	case TAIL:
		return (struct piece){bytes + ARCH_TRAP_LENGTH, ARCH_TRAP_LENGTH, patch->length - ARCH_TRAP_LENGTH};
	default:
		return (struct piece){bytes, 0, patch->length};
	}
}

static int site_write(const struct patch *patch, enum part part, bool old)
{
	struct piece piece = piece_of(patch, part, old);

	return writer_used->write(patch->at + piece.offset, piece.bytes, piece.length);
}

/*
 * Sites that lie near each other go in one write, where a write costs as much for a kilobyte as for a byte. The bytes between
 * them are written with the values they have, which changes nothing for a thread that executes them: every byte holds at every
 * moment what single writes would leave there. (The first write to a page of a file replaces all of it by a copy, too.)
 * Somebody else's breakpoint could be removed between the reading and the writing, and would come back; so what lies between
 * is read anew for each write, and where a trap byte is found in it, of whatever meaning, the span ends before. Gaps are far
 * shorter than a page, so no page is touched that holds no site.
 */
enum { SPAN_MAX = 1024 };

struct span {
	size_t sites;
	size_t length;
	unsigned char bytes[SPAN_MAX];
};

static void span_add(struct span *span, const struct patch *first, const struct patch *patch, enum part part, bool old)
{
	struct piece piece = piece_of(patch, part, old);
	size_t at = (size_t)(patch->at - first->at);

	memcpy(span->bytes + at, patch->at, patch->length);
	memcpy(span->bytes + at + piece.offset, piece.bytes, piece.length);
	span->length = at + patch->length;
	span->sites++;
}

/* The first of `count` sites, sorted by address, and those that can be written along with it. */
static void span_fill(struct span *span, const struct patch *patches, size_t count, size_t gap_max, enum part part, bool old)
{
	span->sites = 0;
	span_add(span, patches, patches, part, old);
	while (span->sites < count) {
		const struct patch *next = &patches[span->sites];
		const unsigned char *end = patches[0].at + span->length;
		size_t gap = (size_t)(next->at - end);

		if (next->at < end || gap > gap_max || span->length + gap + next->length > SPAN_MAX)
			return;
		memcpy(span->bytes + span->length, end, gap);
		if (memchr(span->bytes + span->length, arch_trap[0], gap))
			return;
		span_add(span, patches, next, part, old);
	}
}

/* Bytes between sites that may be written along in this transaction. */
static size_t gap_max;

/* Writes one part of each site. `touched` counts the sites that may have been written, also on failure. */
static int write_part(const struct patch *patches, size_t count, enum part part, bool old, size_t *touched)
{
	struct span span;
	int error = 0;

	for (*touched = 0; *touched < count && !error; *touched += span.sites) {
		const struct patch *first = &patches[*touched];

		span.sites = 1;
		if (gap_max)
			span_fill(&span, first, count - *touched, gap_max, part, old);
		error = span.sites > 1 ? writer_used->write(first->at, span.bytes, span.length)
				       : site_write(first, part, old);
	}
	return error;
}

/* Site by site; what fails once is tried again, since nothing else is left. */
static void insist(const struct patch *patches, size_t count, enum part part)
{
	for (size_t i = 0; i < count; i++)
		for (int tries = 0; tries < 3 && site_write(&patches[i], part, true) != 0; tries++)
			;
}

/* Old bytes back into sites of which any part may be new: breakpoints first, since a thread must not execute a new head
 * while its tail goes back. */
static void restore(const struct patch *patches, size_t count)
{
	insist(patches, count, TRAP);
	sync_core();
	insist(patches, count, TAIL);
	sync_core();
	insist(patches, count, HEAD);
	sync_core();
}

static void generation_step(void)
{
	uint32_t *generation = &registry.generation;

	if (!(__atomic_add_fetch(generation, 1, __ATOMIC_SEQ_CST) & 1) &&
	    __atomic_load_n(&trap_waiters, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, generation, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/*
 * Cross-modifying code (Intel SDM vol. 3, 8.1.3; the kernel's smp_text_poke_batch_finish): no thread may execute a site
 * whose bytes are partly old and partly new, and each must pass a serialising instruction before it executes new bytes.
 *   1. Write a breakpoint over the first byte of every site; barrier. Now no thread executes the rest of a site: one that
 *      arrives traps, and its handler sends it back to the site until the breakpoint is gone (trap.c).
 *   2. Write the rest of every site; barrier.
 *   3. Write the first byte of every site; barrier. Now every thread executes the new instruction.
 * A site is one instruction of unchanged length, so no thread can be parked inside it.
 */
static int batch_write(const struct patch *patches, size_t count, bool old)
{
	size_t touched, trapped;
	int error;

	generation_step();
	error = write_part(patches, count, TRAP, old, &trapped);
	if (!error)
		error = sync_core();
	if (!error)
		error = write_part(patches, count, TAIL, old, &touched);
	if (!error)
		error = sync_core();
	if (!error)
		error = write_part(patches, count, HEAD, old, &touched);
	if (!error)
		error = sync_core();
	if (error)
		restore(patches, trapped);
	generation_step();
	return error;
}

static int alone_write(const struct patch *patches, size_t count)
{
	size_t touched;
	int error = write_part(patches, count, WHOLE, false, &touched), synced;

	if (error)
		insist(patches, touched, WHOLE);
	synced = sync_core();
	return error ? error : synced;
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

static uintptr_t rank_of_patch(const void *patch, const void *unused)
{
	(void)unused;
	return (uintptr_t)((const struct patch *)patch)->at;
}

/* All sites, or none: what was written before a failure is written back in the same way. The lock is held. */
int patches_write(struct patch *patches, size_t count)
{
	bool alone = process_has_one_thread(), traced = true;
	int error = 0;

	if (!alone)
		error = threads_accept_traps(&traced);
	else if (count > LOOK_MIN)
		traced = process_is_traced();
	if (!error && !alone)
		error = trap_install();
	if (!error)
		error = writer_used->open();
	if (error)
		return error;
	/* A debugger may insert a breakpoint at any moment while this thread is stopped: then no byte is written but the sites'. */
	gap_max = traced ? 0 : writer_used->gap_max;
	if (gap_max)
		sort(patches, count, sizeof *patches, rank_of_patch, NULL);
	error = alone ? alone_write(patches, count) : batches_write(patches, count);
	writer_used->close();
	return error;
}
