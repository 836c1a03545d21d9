/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sites of an image, from its records; the library's own code interprets their bytes. */
#include "dump.h"

#include "../src/internal.h"

#include <string.h>

enum { RECORDS_MAX = 1 << 22 };

static const char *const kinds[] = {[PATCHPOINT_CALL] = "call", [PATCHPOINT_VALUE] = "value", [PATCHPOINT_BRANCH] = "branch",
				    [PATCHPOINT_SWITCH] = "switch"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Reads code at the address at which it is executed. */
static bool read_byte(void *context, uint64_t address, uint8_t *byte)
{
	const struct image *image = context;

	return image_read(image, address - image->bias, byte, 1);
}

static void read_name(const struct image *image, uint64_t text, char *name)
{
	size_t length = 0;

	while (length + 1 < NAME_BYTES_MAX && image_read(image, text + length, &name[length], 1) && name[length])
		length++;
	name[length] = 0;
}

/* Reads a key's state; an import stands for a key of another image in the same memory. */
static bool read_state(const struct image *image, const struct patchpoint_key *of_site, struct patchpoint_state *state)
{
	struct patchpoint_key key = *of_site;
	uint64_t origin;

	if (key.flags & PATCHPOINT_KEY_IMPORT && key.origin) {
		if (!image_read(image, (uint64_t)(uintptr_t)key.origin - image->bias, &origin, sizeof origin) ||
		    !image_read(image, origin - image->bias, &key, sizeof key))
			return false;
	}
	*state = (struct patchpoint_state){.value = (uint64_t)(uintptr_t)key.slot, .form = key.form};
	memcpy(state->body, key.body, sizeof state->body);
	return true;
}

/* Returns the stub through which a direct call leads to its target, 0 if it leads there without one. */
static uint64_t stub_at(const struct image *image, const struct patchpoint_place *place, const unsigned char *now,
			uint64_t target)
{
	uint64_t stub = arch_call_target(place, now);
	unsigned char wanted[STUB_SIZE], found[STUB_SIZE];

	arch_stub(wanted, target);
	if (!stub || !image_read(image, stub - image->bias, found, sizeof found) || memcmp(found, wanted, sizeof found) != 0)
		return 0;
	return stub;
}

static bool site_read(const struct image *image, uint64_t at, const struct patchpoint_site *record,
		      struct dumped_site *site)
{
	uint64_t key_at = at + offsetof(struct patchpoint_site, key) + (uint64_t)(int64_t)record->key;
	uint64_t aux = at + offsetof(struct patchpoint_site, aux) + (uint64_t)(int64_t)record->aux;
	uint64_t code = at + (uint64_t)(int64_t)record->code;
	struct patchpoint_place place = {code + image->bias, key_at + image->bias, aux + image->bias,
					 record->kind, record->length, record->flags};
	struct patchpoint_state state;
	struct patchpoint_key key;

	memset(site, 0, sizeof *site);
	if (record->kind >= KINDS || record->length > BYTES_MAX || !image_read(image, code, site->now, record->length) ||
	    !image_read(image, key_at, &key, sizeof key))
		return false;
	site->kind = kinds[record->kind];
	site->loaded = !image->file;
	site->address = place.code;
	site->object = image->path;
	site->length = record->length;
	read_name(image, image_pointer(image, key_at + offsetof(struct patchpoint_key, name)), site->key);
	if (!site->loaded) {
		memcpy(site->compiled, site->now, record->length);
		site->state = "file";
		return true;
	}
	if (!read_state(image, &key, &state))
		return false;
	patchpoint_place_compiled(read_byte, (void *)(uintptr_t)image, &place, site->now, site->compiled);
	site->state = patchpoint_place_word(read_byte, (void *)(uintptr_t)image, &place, site->now, &state,
					    stub_at(image, &place, site->now, state.value));
	return true;
}

enum visited sites_visit(const struct image *image, void (*put)(const struct dumped_site *site, void *argument),
			 void *argument)
{
	uint64_t contents = image_note(image, 1, sizeof(uint32_t)), at, stop;
	struct patchpoint_note note;

	if (!contents)
		return VISITED;
	if (!image_read(image, contents, &note.format, sizeof note.format))
		return VISITED_DAMAGED;
	if (note.format != PATCHPOINT_FORMAT)
		return VISITED_OTHER_FORMAT;
	if (!image_read(image, contents, &note, sizeof note) || note.site_size != sizeof(struct patchpoint_site))
		return VISITED_DAMAGED;
	at = contents + offsetof(struct patchpoint_note, sites_start) + (uint64_t)(int64_t)note.sites_start;
	stop = contents + offsetof(struct patchpoint_note, sites_stop) + (uint64_t)(int64_t)note.sites_stop;
	if (stop < at || (stop - at) / sizeof(struct patchpoint_site) > RECORDS_MAX)
		return VISITED_DAMAGED;
	for (; stop - at >= sizeof(struct patchpoint_site); at += sizeof(struct patchpoint_site)) {
		struct patchpoint_site record;
		struct dumped_site site;

		if (!image_read(image, at, &record, sizeof record))
			return VISITED_DAMAGED;
		if (record.kind == PATCHPOINT_NONE)
			continue;
		if (!site_read(image, at, &record, &site))
			return VISITED_DAMAGED;
		put(&site, argument);
	}
	return VISITED;
}
