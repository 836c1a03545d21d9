/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Functions that are compiled for each combination of their keys. Each is a call key; whoever changes one of the keys changes the
 * call key in the same transaction, so every call executes a variant of one combination that the keys had together.
 */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* All registered ones; the lock guards the list. */
static struct patchpoint_variants *first;

/* Returns the number of values that a key has; 0 if it is neither a branch nor a switch. */
static uint32_t key_ways(const struct patchpoint_key *key)
{
	return key->kind == PATCHPOINT_BRANCH ? 2 : key->kind == PATCHPOINT_SWITCH ? key->size : 0;
}

/* Returns the value of a key after the changes. */
static uint64_t value_after(const struct patchpoint_change *changes, size_t count, const struct patchpoint_key *key)
{
	for (size_t i = 0; key->mark && i < count; i++)
		if (changes[i].key == key)
			return changes[i].value;
	return key_value(key);
}

static uint32_t combination_after(const struct patchpoint_change *changes, size_t count, struct patchpoint_key *const *keys,
				  size_t key_count)
{
	uint32_t combination = 0, stride = 1;

	for (size_t i = 0; i < key_count; i++) {
		uint64_t value = value_after(changes, count, key_resolve(keys[i]));

		/* A key of another object that has more ways: such functions are not bound, but each call asks. */
		combination += (value < key_ways(keys[i]) ? (uint32_t)value : 0) * stride;
		stride *= key_ways(keys[i]);
	}
	return combination;
}

uint32_t patchpoint_combination(struct patchpoint_key *const *keys, size_t count)
{
	return combination_after(NULL, 0, keys, count);
}

static struct patchpoint_change binding(const struct patchpoint_variants *variants, const struct patchpoint_change *changes,
					size_t count)
{
	uint32_t combination = combination_after(changes, count, variants->keys, variants->count);
	void *function;

	memcpy(&function, (const char *)variants->functions + combination * sizeof function, sizeof function);
	return (struct patchpoint_change){.key = variants->function, .value = (uint64_t)(uintptr_t)function};
}

static bool depends_on_marked(const struct patchpoint_variants *variants)
{
	for (size_t i = 0; i < variants->count; i++)
		if (key_resolve(variants->keys[i])->mark)
			return true;
	return false;
}

size_t variants_follow(const struct patchpoint_change *changes, size_t count, struct patchpoint_change *list)
{
	size_t found = 0;

	if (!first)
		return 0;
	for (size_t i = 0; i < count; i++)
		changes[i].key->mark = 1;
	for (const struct patchpoint_variants *variants = first; variants; variants = variants->next) {
		if (!depends_on_marked(variants))
			continue;
		if (list)
			list[found] = binding(variants, changes, count);
		found++;
	}
	for (size_t i = 0; i < count; i++)
		changes[i].key->mark = 0;
	return found;
}

/* Whether the keys have as many combinations as there are functions, also in the objects that define them. */
static bool fits(const struct patchpoint_variants *variants)
{
	uint32_t combinations = 1;

	if (variants->count > PATCHPOINT_VARIANT_KEYS_MAX)
		return false;
	for (size_t i = 0; i < variants->count; i++) {
		uint32_t ways = key_ways(variants->keys[i]);

		if (ways == 0 || ways != key_ways(key_resolve(variants->keys[i])))
			return false;
		combinations *= ways;
	}
	return combinations == variants->combinations;
}

/* Tells tools that change keys from outside which ones they must leave alone. */
static void keys_flag(const struct patchpoint_variants *variants, bool binds)
{
	for (size_t i = 0; i < variants->count; i++) {
		struct patchpoint_key *key = key_resolve(variants->keys[i]);

		key->flags = (uint8_t)(binds ? key->flags | PATCHPOINT_KEY_BINDS : key->flags & ~PATCHPOINT_KEY_BINDS);
	}
}

/* An attempt that binds one function. */
struct first_binding {
	struct attempt attempt;
	struct patchpoint_variants *variants;
};

static int attempt_bind(struct attempt *attempt, struct patience *patience)
{
	struct patchpoint_variants *variants = ((struct first_binding *)attempt)->variants, **end = &first;
	struct patchpoint_change change;

	if (!variants->registered) {
		if (!fits(variants))
			return -EINVAL;
		while (*end)
			end = &(*end)->next;
		*end = variants;
		variants->registered = 1;
		keys_flag(variants, true);
	}
	change = binding(variants, NULL, 0);
	/* Sites that never were patched stay as compiled. */
	if (!patchpoint_eager && change.key->form == PATCHPOINT_FORM_NONE) {
		key_change(&change);
		return 0;
	}
	return changes_commit(&change, 1, patience);
}

void patchpoint_variants_register(struct patchpoint_variants *variants)
{
	struct first_binding first_binding = {{attempt_bind, NULL, 0, NULL}, variants};

	/* If it fails, calls go on asking the keys. The next change of a key tries again. */
	if (!variants->registered)
		change_attempt(&first_binding.attempt);
}

void patchpoint_variants_unregister(struct patchpoint_variants *variants)
{
	struct patchpoint_variants **link = &first;
	struct guard guard;

	if (!variants->registered || guard_enter(&guard) != 0)
		return;
	while (*link && *link != variants)
		link = &(*link)->next;
	if (*link)
		*link = variants->next;
	keys_flag(variants, false);
	for (const struct patchpoint_variants *other = first; other; other = other->next)
		keys_flag(other, true);
	variants->next = NULL;
	variants->registered = 0;
	guard_leave(&guard);
}

size_t variants_count(void)
{
	size_t count = 0;

	for (const struct patchpoint_variants *variants = first; variants; variants = variants->next)
		count++;
	return count;
}

size_t variants_describe(const struct patchpoint_key *function, char *text, size_t size)
{
	const struct patchpoint_variants *variants = first;
	size_t used = 0;

	while (variants && variants->function != function)
		variants = variants->next;
	if (!variants)
		return 1 + (size_t)snprintf(text, size, "%s", function->flags & PATCHPOINT_KEY_VARIANTS ? "not bound" : "");
	for (size_t i = 0; i < variants->count; i++) {
		const struct patchpoint_key *key = key_resolve(variants->keys[i]);

		used += (size_t)snprintf(text ? text + used : NULL, text ? size - used : 0, "%s%s=%u", i > 0 ? " " : "", key->name,
					 (unsigned)key_value(key));
	}
	return used + 1;
}
