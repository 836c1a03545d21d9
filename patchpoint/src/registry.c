/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The objects that have sites, and finding sites by key (transactions) and by address (traps). */
#define _GNU_SOURCE
#include "internal.h"

#include <sys/mman.h>

bool patchpoint_eager;

/* Handlers that walk the list now; an object is freed only when there are none (see patchpoint_object_unregister). */
static uint32_t walkers;

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

/* Ranks of entries of an object's order: numbers of its sites. */
static uintptr_t rank_of_key(const void *entry, const void *sites)
{
	return (uintptr_t)site_key((const struct patchpoint_site *)sites + *(const uint32_t *)entry);
}

static uintptr_t rank_of_code(const void *entry, const void *sites)
{
	return (uintptr_t)site_code((const struct patchpoint_site *)sites + *(const uint32_t *)entry);
}

/* The first place in `order` whose rank is not below `wanted`. */
static size_t find(const uint32_t *order, size_t count, const struct patchpoint_site *sites, rank rank, uintptr_t wanted)
{
	size_t low = 0;

	while (count > 0) {
		size_t half = count / 2;

		if (rank(&order[low + half], sites) < wanted) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return low;
}

/* order[0 … count) is by key, order[count … 2 count) by address. */
static bool object_index(struct patchpoint_object *object)
{
	const struct patchpoint_site *sites = object_sites(object);
	const struct patchpoint_site *stop = field_target(&object->note->sites_stop);
	size_t count = 0, total = (size_t)(stop - sites);

	for (size_t i = 0; i < total; i++)
		count += sites[i].kind != PATCHPOINT_NONE;
	if (count == 0)
		return true;
	object->order = pages_get(2 * count * sizeof *object->order);
	if (!object->order)
		return false;
	for (size_t i = 0, n = 0; i < total; i++) {
		if (sites[i].kind == PATCHPOINT_NONE)
			continue;
		object->order[n] = object->order[count + n] = (uint32_t)i;
		n++;
	}
	sort(object->order, count, sizeof *object->order, rank_of_key, sites);
	sort(object->order + count, count, sizeof *object->order, rank_of_code, sites);
	object->count = (uint32_t)count;
	const struct patchpoint_site *last = &sites[object->order[2 * count - 1]];
	object->text_start = (uintptr_t)site_code(&sites[object->order[count]]);
	object->text_stop = (uintptr_t)site_code(last) + last->length;
	return true;
}

/* Without memory for its index an object stays as compiled: its sites read the keys. */
void patchpoint_object_register(struct patchpoint_object *object)
{
	struct guard guard;
	struct patchpoint_object **end = &registry.objects;

	if (!arch_can_patch || object->registered || object->note->format != PATCHPOINT_FORMAT ||
	    object->note->site_size != sizeof(struct patchpoint_site) || guard_enter(&guard) != 0)
		return;
	if (!object->registered && object_index(object)) {
		while (*end)
			end = &(*end)->next;
		object->registered = 1;
		__atomic_store_n(end, object, __ATOMIC_RELEASE);
	}
	guard_leave(&guard);
	if (patchpoint_eager)
		patchpoint_init();
}

/*
 * The lock keeps transactions away, so no new traps arise and the walkers run out. A thread that trapped at a site of
 * this object runs code that is being closed, which the program must not allow.
 */
void patchpoint_object_unregister(struct patchpoint_object *object)
{
	struct guard guard;
	struct patchpoint_object **link = &registry.objects;

	if (!object->registered || guard_enter(&guard) != 0)
		return;
	while (*link && *link != object)
		link = &(*link)->next;
	if (*link)
		__atomic_store_n(link, object->next, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&walkers, __ATOMIC_SEQ_CST) != 0)
		;
	writer_memfd_forget(object);
	stubs_orphan(object);
	pages_put(object->order, 2 * object->count * sizeof *object->order);
	object->order = NULL;
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

/* The sites of a key in an object: their number, and where in the object's order they begin. */
size_t registry_sites_of(const struct patchpoint_object *object, const struct patchpoint_key *key, const uint32_t **order)
{
	const struct patchpoint_site *sites = object_sites(object);
	size_t count = 0;

	if (object->count == 0)
		return 0;
	size_t first = find(object->order, object->count, sites, rank_of_key, (uintptr_t)key);

	while (first + count < object->count && site_key(&sites[object->order[first + count]]) == key)
		count++;
	*order = object->order + first;
	return count;
}

struct patchpoint_object *registry_object_at(const unsigned char *address)
{
	struct patchpoint_object *object = __atomic_load_n(&registry.objects, __ATOMIC_ACQUIRE);

	while (object && ((uintptr_t)address < object->text_start || (uintptr_t)address >= object->text_stop))
		object = __atomic_load_n(&object->next, __ATOMIC_ACQUIRE);
	return object;
}

/* The handlers that walked in other threads of the parent are not here. */
void registry_after_fork(void)
{
	walkers = 0;
}

/* Async-signal-safe. The bounds of objects may interleave (hot and cold text), so each is asked. */
bool registry_site_at(const unsigned char *address)
{
	struct patchpoint_object *object;
	bool found = false;

	__atomic_fetch_add(&walkers, 1, __ATOMIC_SEQ_CST);
	for (object = __atomic_load_n(&registry.objects, __ATOMIC_SEQ_CST); object && !found;
	     object = __atomic_load_n(&object->next, __ATOMIC_ACQUIRE)) {
		if (object->count == 0)
			continue;
		const struct patchpoint_site *sites = object_sites(object);
		const uint32_t *order = object->order + object->count;
		size_t place = find(order, object->count, sites, rank_of_code, (uintptr_t)address);

		found = place < object->count && site_code(&sites[order[place]]) == address;
	}
	__atomic_fetch_sub(&walkers, 1, __ATOMIC_SEQ_CST);
	return found;
}
