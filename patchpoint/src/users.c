/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Branches that are true while they have users. The number of users goes from 0 to 1, and from 1 to 0, only with the lock held and
 * together with the branch's sites; between numbers above 0 it changes without a lock (as kernel/jump_label.c does it).
 */
#include "internal.h"

#include <errno.h>

/* Adds `step` unless the sum would be 0 or does not fit; false then, and `users` is the number that was found. */
static bool users_move(struct patchpoint_key *key, int step, uint32_t *users)
{
	*users = __atomic_load_n(&key->users, __ATOMIC_RELAXED);
	do {
		if (step > 0 ? *users == 0 || *users == UINT32_MAX : *users <= 1)
			return false;
	} while (!__atomic_compare_exchange_n(&key->users, users, *users + (uint32_t)step, true, __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
	return true;
}

static void users_set(struct patchpoint_key *key, uint32_t users)
{
	__atomic_store_n(&key->users, users, __ATOMIC_SEQ_CST);
}

static int attempt_inc(struct attempt *attempt, struct patience *patience)
{
	struct patchpoint_key *key = attempt->changes->key;
	bool on = key_value(key) != 0;
	uint32_t users;
	int error;

	if (users_move(key, 1, &users))
		return 0;
	if (users != 0)
		return -ERANGE;
	attempt->changes->value = 1;
	error = changes_commit(attempt->changes, 1, patience);
	if (error)
		return error;
	key->flags = (uint8_t)(on ? key->flags | PATCHPOINT_KEY_ON : key->flags & ~PATCHPOINT_KEY_ON);
	users_set(key, 1);
	return 0;
}

static int attempt_dec(struct attempt *attempt, struct patience *patience)
{
	struct patchpoint_key *key = attempt->changes->key;
	uint32_t users;
	int error;

	/* The number becomes 0 first: from then on whoever adds a user waits for the lock. */
	do {
		if (users_move(key, -1, &users))
			return 0;
		if (users == 0)
			return -ERANGE;
	} while (!__atomic_compare_exchange_n(&key->users, &users, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	attempt->changes->value = (key->flags & PATCHPOINT_KEY_ON) != 0;
	error = changes_commit(attempt->changes, 1, patience);
	if (error)
		users_set(key, 1);
	return error;
}

static int users_change(struct patchpoint_key *key, int step, int (*run)(struct attempt *, struct patience *))
{
	struct patchpoint_change change;
	uint32_t users;
	int error = change_prepare(&change, key, 0);

	if (error)
		return error;
	if (change.key->kind != PATCHPOINT_BRANCH)
		return -EINVAL;
	return users_move(change.key, step, &users) ? 0 : change_attempt(&(struct attempt){run, &change, 1, NULL});
}

int patchpoint_key_inc(struct patchpoint_key *key)
{
	return users_change(key, 1, attempt_inc);
}

int patchpoint_key_dec(struct patchpoint_key *key)
{
	return users_change(key, -1, attempt_dec);
}

uint32_t patchpoint_key_users(const struct patchpoint_key *key)
{
	if (key->flags & PATCHPOINT_KEY_IMPORT && key->origin)
		key = *key->origin;
	return __atomic_load_n(&key->users, __ATOMIC_RELAXED);
}

bool users_forbid(const struct patchpoint_change *change)
{
	return change->key->kind == PATCHPOINT_BRANCH && !change->value && __atomic_load_n(&change->key->users, __ATOMIC_RELAXED);
}

void users_note(const struct patchpoint_change *change)
{
	if (change->key->kind == PATCHPOINT_BRANCH && __atomic_load_n(&change->key->users, __ATOMIC_RELAXED))
		change->key->flags |= PATCHPOINT_KEY_ON;
}
