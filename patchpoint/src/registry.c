/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The objects that have sites, and the sites of each key. Registering costs the same for one site as for a million. */
#define _GNU_SOURCE
#include "internal.h"

#include <sys/mman.h>

bool patchpoint_eager;

void *pages_get(size_t bytes)
{
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return pages == MAP_FAILED ? NULL : pages;
}

void pages_put(void *pages, size_t bytes)
{
	if (pages)
		munmap(pages, bytes);
}

static uintptr_t page_number(uintptr_t address)
{
	return address / page_size();
}

/*
 * The pages that begin within a site, as distances from the object's note: behind the sites of each key, a number and a list. There
 * is room for all sites; the kernel makes pages of memory only for those that are there.
 */
static size_t object_bytes(const struct patchpoint_object *object)
{
	return (2 * (size_t)object->count + 1) * sizeof *object->next_of_key;
}

static void crossing_add(const struct patchpoint_object *object, uintptr_t address)
{
	uint32_t *crossings = object->next_of_key + object->count;

	crossings[++crossings[0]] = (uint32_t)(page_number(address) - page_number((uintptr_t)object->note));
}

bool site_crosses(const struct patchpoint_object *object, const unsigned char *page)
{
	const uint32_t *crossings = object->next_of_key + object->count;
	uint32_t wanted = (uint32_t)(page_number((uintptr_t)page) - page_number((uintptr_t)object->note)), i = crossings[0];

	while (i > 0 && crossings[i] != wanted)
		i--;
	return i > 0;
}

/*
 * Lists the sites of each key, the last record first: a key's sites then come in the order of the records, which linkers keep in
 * the order of the code. A key belongs to one object; a record that says otherwise is left out, and its site stays as compiled.
 */
static bool object_look_up(struct patchpoint_object *object)
{
	const struct patchpoint_site *sites = object_sites(object);
	uintptr_t start = UINTPTR_MAX, stop = 0;

	if (object->count == 0 || object->next_of_key)
		return true;
	object->next_of_key = pages_get(object_bytes(object));
	if (!object->next_of_key)
		return false;
	for (uint32_t i = object->count; i-- > 0;) {
		struct patchpoint_key *key = site_key(&sites[i]);
		uintptr_t code = (uintptr_t)site_code(&sites[i]);

		if (sites[i].kind == PATCHPOINT_NONE || (key->object && key->object != object))
			continue;
		key->object = object;
		object->next_of_key[i] = key->first;
		key->first = i + 1;
		if (page_number(code) != page_number(code + sites[i].length - 1))
			crossing_add(object, code + sites[i].length - 1);
		start = code < start ? code : start;
		stop = code + sites[i].length > stop ? code + sites[i].length : stop;
	}
	object->text_start = stop ? start : 0;
	object->text_stop = stop;
	return true;
}

bool registry_look_up(void)
{
	bool complete = true;

	for (struct patchpoint_object *object = registry.objects; object; object = object->next)
		complete &= object_look_up(object);
	return complete;
}

static void object_forget(struct patchpoint_object *object)
{
	const struct patchpoint_site *sites = object_sites(object);

	for (uint32_t i = 0; object->next_of_key && i < object->count; i++) {
		if (sites[i].kind == PATCHPOINT_NONE || site_key(&sites[i])->object != object)
			continue;
		site_key(&sites[i])->object = NULL;
		site_key(&sites[i])->first = 0;
	}
	pages_put(object->next_of_key, object_bytes(object));
	object->next_of_key = NULL;
}

/* `used`: the constructor and destructor of an object name these two in assembly, which -flto does not read. */
__attribute__((used)) void patchpoint_object_register(struct patchpoint_object *object)
{
	struct guard guard;
	struct patchpoint_object **end = &registry.objects;

	if (!arch_can_patch || object->registered || object->note->format != PATCHPOINT_FORMAT ||
	    object->note->site_size != sizeof(struct patchpoint_site) || guard_enter(&guard) != 0)
		return;
	if (!object->registered) {
		const struct patchpoint_site *stop = field_target(&object->note->sites_stop);

		while (*end)
			end = &(*end)->next;
		object->count = (uint32_t)(stop - object_sites(object));
		object->registered = 1;
		__atomic_store_n(end, object, __ATOMIC_RELEASE);
	}
	guard_leave(&guard);
	transaction_patch_object(object);
}

/* A thread that trapped at a site of this object is running code that is being closed; the program must not allow that. */
__attribute__((used)) void patchpoint_object_unregister(struct patchpoint_object *object)
{
	struct guard guard;
	struct patchpoint_object **link = &registry.objects;

	if (!object->registered || guard_enter(&guard) != 0)
		return;
	while (*link && *link != object)
		link = &(*link)->next;
	if (*link)
		__atomic_store_n(link, object->next, __ATOMIC_SEQ_CST);
	object->copied = 0;
	stubs_orphan(object);
	object_forget(object);
	object->next = NULL;
	object->registered = 0;
	guard_leave(&guard);
}

void patchpoint_import_register(struct patchpoint_key *key)
{
	struct patchpoint_key *origin = key_resolve(key);
	struct guard guard;

	if (guard_enter(&guard) != 0)
		return;
	key->imports = origin->imports;
	origin->imports = key;
	__atomic_store_n(&key->slot, __atomic_load_n(&origin->slot, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
	guard_leave(&guard);
	/* The key's object may have been registered before the key. */
	transaction_patch_key(origin);
}

void patchpoint_import_unregister(struct patchpoint_key *key)
{
	struct patchpoint_key **link = &key_resolve(key)->imports;
	struct guard guard;

	if (guard_enter(&guard) != 0)
		return;
	while (*link && *link != key)
		link = &(*link)->imports;
	if (*link)
		*link = key->imports;
	guard_leave(&guard);
}

bool registry_preserves(uint64_t function)
{
	for (const struct patchpoint_object *object = registry.objects; object; object = object->next)
		if (function >= (uintptr_t)field_target(&object->note->preserving_start) &&
		    function < (uintptr_t)field_target(&object->note->preserving_stop))
			return true;
	return false;
}
