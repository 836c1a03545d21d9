/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Looking at sites and at the library itself. */
#define _GNU_SOURCE
#include "internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

int patchpoint_status(struct patchpoint_status *status)
{
	struct guard guard;
	int error;

	if (!status)
		return -EINVAL;
	error = guard_enter(&guard);
	if (error)
		return error;
	writer_choose();
	memset(status, 0, sizeof *status);
	status->writer = writer_used ? writer_used->id : PATCHPOINT_WRITER_NONE;
	status->writer_name = writer_used ? writer_used->name : "none";
	status->sync_core = arch_can_patch && sync_possible();
	status->fallback = !writer_used || writer_used->alone || !status->sync_core;
	status->reason = writer_reason;
	for (struct patchpoint_object *object = registry.objects; object; object = object->next) {
		status->objects++;
		status->sites += object->count;
	}
	status->stub_reason = stub_reason;
	for (struct patchpoint_stubs *stubs = registry.stubs; stubs; stubs = stubs->next)
		status->stubs += stubs->object ? stubs->count : 0;
	status->transactions = registry.transactions;
	status->sites_written = registry.sites_written;
	status->traps = __atomic_load_n(&registry.traps, __ATOMIC_RELAXED);
	guard_leave(&guard);
	return 0;
}

static const char *state_of(const struct patchpoint_object *object, const struct patchpoint_site *site,
			    const struct patchpoint_key *key)
{
	const unsigned char *code = site_code(site), *stub;
	const char *state = arch_state(site, code, key, key_value(key));

	if (site->kind != PATCHPOINT_CALL || strcmp(state, "foreign") != 0)
		return state;
	stub = stub_find(object, key_value(key));
	return stub && strcmp(arch_state(site, code, key, (uint64_t)(uintptr_t)stub), "call") == 0 ? "stub" : state;
}

static void describe(const struct patchpoint_object *object, const struct patchpoint_site *site, const char *path,
		     struct patchpoint_site_info *info)
{
	struct patchpoint_key *key = site_key(site);
	unsigned char *code = site_code(site);

	memset(info, 0, sizeof *info);
	info->key = key;
	info->kind = site->kind;
	info->address = code;
	info->object = path;
	info->length = site->length;
	memcpy(info->bytes_now, code, site->length);
	/* Where the register of a value site cannot be told any more, the bytes as compiled stay zero. */
	arch_original(site, code, info->bytes_original);
	info->state = state_of(object, site, key);
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
		if (object->count == 0)
			continue;
		const struct patchpoint_site *sites = object_sites(object);
		const uint32_t *order = object->order + object->count;
		Dl_info file;
		const char *name = dladdr(object, &file) && file.dli_fname ? file.dli_fname : "";

		for (size_t i = 0; i < object->count && !result; i++) {
			struct patchpoint_site_info info;

			describe(object, &sites[order[i]], name, &info);
			result = visit(&info, argument);
		}
	}
	guard_leave(&guard);
	return result;
}
