/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reports on sites and on the library itself. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static size_t sites_of(const struct patchpoint_object *object)
{
	const struct patchpoint_site *sites = object_sites(object);
	size_t count = 0;

	for (uint32_t i = 0; i < object->count; i++)
		count += sites[i].kind != PATCHPOINT_NONE;
	return count;
}

static const char *const protocol_names[] = {"none", "direct", "store", "move", "trap", "copy"};

static char text_reason[4096 + 512];

/* Notes what another tool did to texts with sites. */
static void text_reason_find(void)
{
	char path[4096];

	snprintf(text_reason, sizeof text_reason, "%s", foreign_site);
	for (const struct patchpoint_object *object = registry.objects; object; object = object->next) {
		size_t used = strlen(text_reason);

		if (!object->text_stop || !text_was_moved(object->text_start))
			continue;
		mapping_name((uintptr_t)object, path, sizeof path);
		snprintf(text_reason + used, sizeof text_reason - used,
			 "%s%s: another tool (BOLT) moved its functions, and what runs may read the keys", used ? "; " : "", path);
	}
}

int patchpoint_status(struct patchpoint_status *status)
{
	struct guard guard;
	int error;

	if (!status)
		return -EINVAL;
	sync_prepare();
	error = guard_enter(&guard);
	if (error)
		return error;
	registry_look_up();
	writer_find();
	memset(status, 0, sizeof *status);
	status->writer = writer_used ? writer_used->id : PATCHPOINT_WRITER_NONE;
	status->writer_name = writer_used ? writer_used->name : "none";
	status->sync_core = arch_can_patch && sync_possible();
	status->fallback = !writer_used || writer_used->alone || !status->sync_core;
	status->reason = writer_reason;
	for (struct patchpoint_object *object = registry.objects; object; object = object->next) {
		status->objects++;
		status->sites += sites_of(object);
	}
	status->stub_reason = stub_refusal;
	for (struct patchpoint_stubs *stubs = registry.stubs; stubs; stubs = stubs->next)
		status->stubs += stubs->object ? stubs->count : 0;
	status->transactions = registry.transactions;
	status->sites_written = registry.sites_written;
	status->traps = __atomic_load_n(&registry.traps, __ATOMIC_RELAXED);
	status->variants = variants_count();
	status->protocol = protocol_used;
	status->protocol_name = protocol_names[protocol_used];
	status->protocol_reason = protocol_refusals;
	text_reason_find();
	status->text_reason = text_reason;
	guard_leave(&guard);
	return 0;
}

static bool read_own(void *context, uint64_t address, uint8_t *byte)
{
	(void)context;
	*byte = *(const volatile uint8_t *)(uintptr_t)address;
	return true;
}

static void describe(const struct patchpoint_object *object, const struct patchpoint_site *site, struct patchpoint_site_info *info)
{
	const struct patchpoint_key *key = key_resolve(site_key(site));
	struct patchpoint_place place = site_place(site);
	struct patchpoint_state state = {.value = key_value(key), .form = key->form};
	const unsigned char *code = site_code(site);

	memcpy(state.body, key->body, sizeof state.body);
	memset(info, 0, sizeof *info);
	info->key = key;
	info->kind = site->kind;
	info->users = patchpoint_key_users(key);
	info->address = code;
	info->length = site->length;
	memcpy(info->bytes_now, code, site->length);
	/* If the register of a value site is no longer known, the bytes as compiled stay zero. */
	patchpoint_place_compiled(read_own, NULL, &place, code, info->bytes_original);
	info->state = patchpoint_place_word(read_own, NULL, &place, code, &state,
					    (uint64_t)(uintptr_t)stub_find(object, state.value));
}

/*
 * The list of all sites at one moment, with the texts that belong to objects, since these may be closed before the list was
 * visited: neither the loader nor the visitor is called with the lock held.
 */
struct list {
	size_t bytes, count;
	struct patchpoint_site_info *sites; /* behind them the texts */
	char *texts;
};

static bool list_make(struct list *list)
{
	const size_t path_max = 4096;
	size_t texts = 0;

	for (const struct patchpoint_object *object = registry.objects; object; object = object->next) {
		const struct patchpoint_site *sites = object_sites(object);

		texts += path_max;
		for (size_t i = 0; i < object->count; i++)
			if (sites[i].kind != PATCHPOINT_NONE) {
				list->count++;
				texts += strlen(key_resolve(site_key(&sites[i]))->name) + 1 +
					 variants_describe(key_resolve(site_key(&sites[i])), NULL, 0);
			}
	}
	list->bytes = list->count * sizeof *list->sites + texts;
	list->sites = list->count ? pages_get(list->bytes) : NULL;
	list->texts = (char *)(list->sites + list->count);
	return list->sites || !list->count;
}

static const char *list_text(struct list *list, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = memcpy(list->texts, text, bytes);

	list->texts += bytes;
	return copy;
}

static void list_fill(struct list *list)
{
	struct patchpoint_site_info *info = list->sites;

	for (const struct patchpoint_object *object = registry.objects; object; object = object->next) {
		const struct patchpoint_site *sites = object_sites(object);
		const char *path = list->texts;

		/* The object's own data: its text may be a copy by now. */
		mapping_name((uintptr_t)object, list->texts, 4096);
		list->texts += strlen(path) + 1;
		for (size_t i = 0; i < object->count; i++) {
			if (sites[i].kind == PATCHPOINT_NONE)
				continue;
			describe(object, &sites[i], info);
			info->object = path;
			info->name = list_text(list, info->key->name);
			info->variant = list->texts;
			list->texts += variants_describe(info->key, list->texts, (size_t)((char *)list->sites + list->bytes - list->texts));
			info++;
		}
	}
}

CALLS_ANY int patchpoint_site_iterate(int (*visit)(const struct patchpoint_site_info *info, void *argument), void *argument)
{
	struct list list = {.count = 0};
	struct guard guard;
	int result;
	bool made;

	if (!visit)
		return -EINVAL;
	result = guard_enter(&guard);
	if (result)
		return result;
	made = list_make(&list);
	if (made && list.count)
		list_fill(&list);
	guard_leave(&guard);
	if (!made)
		return -ENOMEM;
	for (size_t i = 0; i < list.count && !result; i++)
		result = visit(&list.sites[i], argument);
	pages_put(list.sites, list.bytes);
	return result;
}
