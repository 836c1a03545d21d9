/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For tools: what sites of any process hold and would hold, by the same code that changes sites. */
#include "internal.h"

#include <errno.h>
#include <string.h>

int patchpoint_body(patchpoint_reader read, void *context, uint64_t function, uint8_t body[PATCHPOINT_BODY_SIZE])
{
	if (!read || !body)
		return -EINVAL;
	return arch_body(read, context, NULL, function, body) ? 1 : 0;
}

static bool place_is_sound(patchpoint_reader read, const struct patchpoint_place *place, const uint8_t *now)
{
	return read && place && now && place->length <= LENGTH_MAX;
}

int patchpoint_place_compiled(patchpoint_reader read, void *context, const struct patchpoint_place *place,
			      const uint8_t *now, uint8_t bytes[PATCHPOINT_LENGTH_MAX])
{
	if (!place_is_sound(read, place, now) || !bytes)
		return -EINVAL;
	return arch_compiled(read, context, place, now, bytes);
}

int patchpoint_place_patched(patchpoint_reader read, void *context, const struct patchpoint_place *place,
			     const uint8_t *now, const struct patchpoint_state *state, uint64_t stub,
			     uint8_t bytes[PATCHPOINT_LENGTH_MAX])
{
	struct patchpoint_state through;
	int error;

	if (!place_is_sound(read, place, now) || !state || !bytes)
		return -EINVAL;
	error = arch_patched(read, context, place, now, state, bytes);
	if (error != -ERANGE || !stub)
		return error;
	through = *state;
	through.value = stub;
	return arch_patched(read, context, place, now, &through, bytes);
}

const char *patchpoint_place_word(patchpoint_reader read, void *context, const struct patchpoint_place *place,
				  const uint8_t *now, const struct patchpoint_state *state, uint64_t stub)
{
	uint8_t bytes[PATCHPOINT_LENGTH_MAX];

	if (patchpoint_place_compiled(read, context, place, now, bytes) == 0 && memcmp(now, bytes, place->length) == 0)
		return place->flags & PATCHPOINT_SITE_SAVED ? "thunk" : "data";
	if (patchpoint_place_patched(read, context, place, now, state, 0, bytes) == 0 &&
	    memcmp(now, bytes, place->length) == 0)
		return arch_word(place, now, state);
	if (stub && patchpoint_place_patched(read, context, place, now, state, stub, bytes) == 0 &&
	    memcmp(now, bytes, place->length) == 0)
		return "stub";
	return "foreign";
}
