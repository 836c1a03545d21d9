/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stubs: jumps in a page near an object, through which the object's sites call functions out of a direct call's reach, such as a
 * program's functions from its shared objects. A page is never writable and executable. A stub is never changed while its object is
 * registered, since a thread may be parked on it; the same target gets the same stub again.
 */
#define _GNU_SOURCE
#include "internal.h"
#include "kernel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, STUBS_IN_PAGE = PAGE / STUB_SIZE, PAGES_OF_OBJECT = 4 };

char stub_refusal[128];

static const unsigned char *refuse_stub(const char *what, int error)
{
	snprintf(stub_refusal, sizeof stub_refusal, "%s%s%s", what, error ? ": " : "", error ? error_text(error) : "");
	return NULL;
}

const unsigned char *stub_find(const struct patchpoint_object *object, uint64_t target)
{
	for (const struct patchpoint_stubs *page = registry.stubs; page; page = page->next)
		for (uint32_t i = 0; page->object == object && i < page->count; i++)
			if (arch_stub_target(page->code + i * STUB_SIZE) == target)
				return page->code + i * STUB_SIZE;
	return NULL;
}

static unsigned char *map_at(uintptr_t place, int protection)
{
	void *wanted = (void *)place;
	void *found = mmap(wanted, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | KERNEL_MAP_FIXED_NOREPLACE, -1, 0);

	if (found == wanted)
		return found;
	if (found != MAP_FAILED)
		munmap(found, PAGE);
	return NULL;
}

/*
 * Maps a free page in the object's reach. It looks below the object first: above a program lies its heap and above shared objects
 * the stack, and both grow. Programs at low addresses have little below them: for these it then looks from far above downwards.
 */
static unsigned char *map_near(const struct patchpoint_object *object, int protection)
{
	const uintptr_t step = UINT64_C(1) << 20, low = UINT64_C(1) << 32;
	unsigned char *found = NULL;
	uintptr_t place = object->text_start & ~(step - 1);

	while (!found && place > step && arch_reaches(object->text_start, object->text_stop, place - step))
		found = map_at(place -= step, protection);
	if (found || object->text_stop >= low)
		return found;
	for (place = 2047 * step; !found && place > object->text_stop; place -= step)
		if (arch_reaches(object->text_start, object->text_stop, place))
			found = map_at(place, protection);
	return found;
}

/* Replaces a page's contents in one step; a thread that executes the page meanwhile faults and waits. */
static int replace(unsigned char *page, const unsigned char *contents)
{
	unsigned char *copy = pages_get(PAGE);
	int error = 0;

	if (!copy)
		return ENOMEM;
	memcpy(copy, contents, PAGE);
	/* PR_SET_MDWE forbids this. */
	if (mprotect(copy, PAGE, PROT_READ | PROT_EXEC) != 0 ||
	    mremap(copy, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page) == MAP_FAILED) {
		error = errno;
		pages_put(copy, PAGE);
	}
	if (!error)
		arch_code_stored(page, page, PAGE);
	return error;
}

/* Returns a page for the object's first stub: a closed object's, or a new one, whose `code` is NULL. */
static struct patchpoint_stubs *page_take(const struct patchpoint_object *object)
{
	struct patchpoint_stubs *page;
	unsigned pages = 0;

	for (page = registry.stubs; page; page = page->next)
		pages += page->object == object;
	if (pages == PAGES_OF_OBJECT)
		return NULL;
	for (page = registry.stubs; page; page = page->next)
		if (!page->object && arch_reaches(object->text_start, object->text_stop, (uintptr_t)page->code))
			return page;
	page = pages_get(sizeof *page);
	if (page)
		page->stub_size = STUB_SIZE;
	return page;
}

/* Adds a stub to a page. Returns 0 or a positive error; on failure the page is as before. */
static int page_add(const struct patchpoint_object *object, struct patchpoint_stubs *page, uint32_t index, uint64_t target)
{
	unsigned char contents[PAGE], *code = page->code;
	size_t at = (size_t)index * STUB_SIZE;
	int error;

	if (index == 0)
		memset(contents, arch_trap, PAGE);
	else
		memcpy(contents, code, PAGE);
	arch_stub(contents + at, target);
	if (!code)
		code = map_near(object, writer_used->anywhere ? PROT_READ | PROT_EXEC : PROT_NONE);
	if (!code)
		return ENOMEM;
	if (!writer_used->anywhere)
		error = replace(code, contents);
	else if (index == 0)
		error = -writer_used->write(NULL, code, contents, PAGE);
	else
		error = -writer_used->write(NULL, code + at, contents + at, STUB_SIZE);
	if (error && !page->code)
		munmap(code, PAGE);
	if (!error)
		page->code = code;
	return error;
}

const unsigned char *stub_make(const struct patchpoint_object *object, uint64_t target)
{
	const unsigned char *found = stub_find(object, target);
	struct patchpoint_stubs *page = registry.stubs;
	int error;

	if (found)
		return found;
	while (page && (page->object != object || page->count == STUBS_IN_PAGE))
		page = page->next;
	if (!page)
		page = page_take(object);
	if (!page)
		return refuse_stub("too many far targets for one object", 0);
	uint32_t index = page->object ? page->count : 0;
	bool fresh = !page->code;
	error = page_add(object, page, index, target);
	if (error) {
		if (fresh)
			pages_put(page, sizeof *page);
		return refuse_stub("no page for stubs near the object", error);
	}
	/* No processor executes what was there before, when it comes by a site. Where that fails the change fails, too. */
	if (!process_has_one_thread())
		sync_threads();
	page->object = object;
	page->count = index + 1;
	if (fresh) {
		page->next = registry.stubs;
		__atomic_store_n(&registry.stubs, page, __ATOMIC_RELEASE);
	}
	return page->code + (size_t)index * STUB_SIZE;
}

/* Pages stay mapped: at the end of a program, other threads may still run. */
void stubs_orphan(const struct patchpoint_object *object)
{
	for (struct patchpoint_stubs *page = registry.stubs; page; page = page->next)
		if (page->object == object)
			page->object = NULL;
}
