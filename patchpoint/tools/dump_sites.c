/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sites of an image, from its records; what their bytes are is told from the bytes alone. */
#include "dump.h"

#include <patchpoint.h>

#include <string.h>

static const char *kind_name(uint8_t kind)
{
	return kind == PATCHPOINT_CALL ? "call" : kind == PATCHPOINT_VALUE ? "value" : "branch";
}

static const char *call_state(const unsigned char *now)
{
	static const unsigned char nop[] = {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00};
	static const unsigned char trap[] = {0x67, 0x67, 0x67, 0x67, 0x0f, 0x0b};

	if (memcmp(now, nop, sizeof nop) == 0)
		return "nop";
	if (memcmp(now, trap, sizeof trap) == 0)
		return "trap";
	if (now[0] == 0x67 && now[1] == 0xe8)
		return "call";
	if (now[0] == 0xc7 && now[1] == 0xc0)
		return "constant";
	return now[0] == 0x2e && now[4] == 0x89 ? "move" : "inline";
}

/* Whether a direct call leads to a stub: jmp *0(%rip), which no procedure linkage table holds. */
static bool calls_stub(const struct image *image, uint64_t code, const unsigned char *now)
{
	static const unsigned char jump[] = {0xff, 0x25, 0x00, 0x00, 0x00, 0x00};
	unsigned char found[sizeof jump];
	int32_t distance;

	memcpy(&distance, now + 2, sizeof distance);
	return image_read(image, code + 6 + (uint64_t)(int64_t)distance, found, sizeof found) &&
	       memcmp(found, jump, sizeof jump) == 0;
}

static const char *state_of(const struct patchpoint_site *record, const unsigned char *original, const unsigned char *now)
{
	static const unsigned char nop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

	if (memcmp(original, now, record->length) == 0)
		return record->flags & PATCHPOINT_SITE_SAVED ? "thunk" : "data";
	if (now[0] == 0xcc)
		return "foreign";
	if (record->kind == PATCHPOINT_CALL)
		return call_state(now);
	if (record->kind == PATCHPOINT_VALUE)
		return "immediate";
	return memcmp(now, nop, sizeof nop) == 0 ? "nop" : now[0] == 0xe9 ? "jump" : "foreign";
}

static void read_name(const struct image *image, uint64_t key, char *name)
{
	uint64_t text = image_pointer(image, key + offsetof(struct patchpoint_key, name));
	size_t length = 0;

	while (length + 1 < NAME_MAX_BYTES && image_read(image, text + length, &name[length], 1) && name[length])
		length++;
	name[length] = 0;
}

static bool site_read(const struct image *image, uint64_t at, const struct patchpoint_site *record,
		      struct dumped_site *site)
{
	uint64_t code = at + (uint64_t)(int64_t)record->code;
	uint64_t key = at + offsetof(struct patchpoint_site, key) + (uint64_t)(int64_t)record->key;

	memset(site, 0, sizeof *site);
	if (record->length > BYTES_MAX || !image_read_file(image, code, site->original, record->length) ||
	    !image_read(image, code, site->now, record->length))
		return false;
	site->kind = kind_name(record->kind);
	site->loaded = image->memory >= 0;
	site->state = site->loaded ? state_of(record, site->original, site->now) : "file";
	if (strcmp(site->state, "call") == 0 && calls_stub(image, code, site->now))
		site->state = "stub";
	site->address = code + image->bias;
	site->object = image->path;
	site->length = record->length;
	read_name(image, key, site->key);
	return true;
}

bool sites_visit(const struct image *image, void (*put)(const struct dumped_site *site, void *argument), void *argument)
{
	uint64_t contents = image_note(image, 1);
	struct patchpoint_note note;

	if (!contents)
		return true;
	if (!image_read_file(image, contents, &note, sizeof note) || note.format != PATCHPOINT_FORMAT ||
	    note.site_size != sizeof(struct patchpoint_site))
		return false;
	uint64_t at = contents + offsetof(struct patchpoint_note, sites_start) + (uint64_t)(int64_t)note.sites_start;
	uint64_t stop = contents + offsetof(struct patchpoint_note, sites_stop) + (uint64_t)(int64_t)note.sites_stop;
	for (; at < stop; at += sizeof(struct patchpoint_site)) {
		struct patchpoint_site record;
		struct dumped_site site;

		if (!image_read_file(image, at, &record, sizeof record))
			return false;
		if (record.kind == PATCHPOINT_NONE)
			continue;
		if (!site_read(image, at, &record, &site))
			return false;
		put(&site, argument);
	}
	return true;
}
