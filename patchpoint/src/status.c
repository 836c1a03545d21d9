/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reports on sites and on the library itself. */
#define _GNU_SOURCE
#include "internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

static size_t sites_of(const struct patchpoint_object *object)
{
	const struct patchpoint_site *sites = object_sites(object);
	size_t count = 0;

	for (uint32_t i = 0; i < object->count; i++)
		count += sites[i].kind != PATCHPOINT_NONE;
	return count;
}

int patchpoint_status(struct patchpoint_status *status)
{
	struct guard guard;
	int error;

	if (!status)
		return -EINVAL;
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
	guard_leave(&guard);
	return 0;
}

static bool read_own(void *context, uint64_t address, uint8_t *byte)
{
	(void)context;
	*byte = *(const volatile uint8_t *)(uintptr_t)address;
	return true;
}

static void describe(const struct patchpoint_object *object, const struct patchpoint_site *site, const char *path,
		     struct patchpoint_site_info *info)
{
	const struct patchpoint_key *key = key_resolve(site_key(site));
	struct patchpoint_place place = site_place(site);
	struct patchpoint_state state = {.value = key_value(key), .form = key->form};
	const unsigned char *code = site_code(site);

	memcpy(state.body, key->body, sizeof state.body);
	memset(info, 0, sizeof *info);
	info->key = key;
	info->kind = site->kind;
	info->address = code;
	info->object = path;
	info->length = site->length;
	memcpy(info->bytes_now, code, site->length);
	/* If the register of a value site is no longer known, the bytes as compiled stay zero. */
	patchpoint_place_compiled(read_own, NULL, &place, code, info->bytes_original);
	info->state = patchpoint_place_word(read_own, NULL, &place, code, &state,
					    (uint64_t)(uintptr_t)stub_find(object, state.value));
}

int patchpoint_site_iterate(int (*visit)(const struct patchpoint_site_info *info, void *argument), void *argument)
{
	struct guard guard;
	int result;

	if (!visit)
		return -EINVAL;
	result = guard_enter(&guard);
	if (result)
		return result;
	for (struct patchpoint_object *object = registry.objects; object && !result; object = object->next) {
		const struct patchpoint_site *sites = object_sites(object);
		Dl_info file;
		const char *name = dladdr(object, &file) && file.dli_fname ? file.dli_fname : "";

		for (size_t i = 0; i < object->count && !result; i++) {
			struct patchpoint_site_info info;

			if (sites[i].kind == PATCHPOINT_NONE)
				continue;
			describe(object, &sites[i], name, &info);
			result = visit(&info, argument);
		}
	}
	guard_leave(&guard);
	return result;
}
