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

bool patches_possible(void)
{
	return writer_used && sync_possible() && (!writer_used->alone || process_has_one_thread());
}

enum part { TRAP, TAIL, HEAD };

/* Writes one part of each site. `done` counts the sites written, also on failure. */
static int write_part(const struct patch *patches, size_t count, enum part part, bool old, size_t *done)
{
	for (*done = 0; *done < count; ++*done) {
		const struct patch *patch = &patches[*done];
		const unsigned char *bytes = old ? patch->old : patch->new;
		int error = part == TRAP ? writer_used->write(patch->at, arch_trap, ARCH_TRAP_LENGTH)
			  : part == HEAD ? writer_used->write(patch->at, bytes, ARCH_TRAP_LENGTH)
					 : writer_used->write(patch->at + ARCH_TRAP_LENGTH, bytes + ARCH_TRAP_LENGTH,
							      patch->length - ARCH_TRAP_LENGTH);

		if (error)
			return error;
	}
	return 0;
}

/* The sites hold breakpoints or old bytes before, old bytes after. What fails once is tried again: nothing else is left. */
static void restore(const struct patch *patches, size_t count)
{
	size_t done;

	sync_core();
	for (size_t i = 0; i < count; i++)
		for (int tries = 0; tries < 3 && write_part(&patches[i], 1, TAIL, true, &done) != 0; tries++)
			;
	sync_core();
	for (size_t i = 0; i < count; i++)
		for (int tries = 0; tries < 3 && write_part(&patches[i], 1, HEAD, true, &done) != 0; tries++)
			;
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
	size_t done, trapped;
	int error;

	generation_step();
	error = write_part(patches, count, TRAP, old, &trapped);
	if (!error)
		error = sync_core();
	if (!error)
		error = write_part(patches, count, TAIL, old, &done);
	if (!error)
		error = sync_core();
	if (!error)
		error = write_part(patches, count, HEAD, old, &done);
	if (!error)
		error = sync_core();
	if (error) {
		/* A failing write may have got through: the site after the last counts too. Breakpoints first: a thread
		 * must not execute the new head while its tail goes back. */
		trapped = trapped < count ? trapped + 1 : count;
		write_part(patches, trapped, TRAP, true, &done);
		restore(patches, trapped);
	}
	generation_step();
	return error;
}

/* Nobody else executes anything: each site in one write. */
static int alone_write(const struct patch *patches, size_t count)
{
	size_t done;
	int error = 0;

	for (done = 0; done < count && !error; done++)
		error = writer_used->write(patches[done].at, patches[done].new, patches[done].length);
	if (error)
		while (done-- > 0)
			writer_used->write(patches[done].at, patches[done].old, patches[done].length);
	int synced = sync_core();
	return error ? error : synced;
}

/* All sites, or none: what was written before a failure is written back in the same way. The lock is held. */
int patches_write(struct patch *patches, size_t count)
{
	size_t done, length;
	int error;

	error = writer_used->open();
	if (error)
		return error;
	if (process_has_one_thread()) {
		error = alone_write(patches, count);
		writer_used->close();
		return error;
	}
	error = threads_accept_traps();
	if (!error)
		error = trap_install();
	for (done = 0; done < count && !error; done += length) {
		length = count - done < BATCH ? count - done : BATCH;
		error = batch_write(patches + done, length, false);
		if (error)
			break;
	}
	if (error)
		for (size_t back = 0; back < done; back += BATCH)
			batch_write(patches + back, done - back < BATCH ? done - back : BATCH, true);
	writer_used->close();
	return error;
}
