/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Transactions: collect changes, find their sites, verify, write, then change the keys. */
#include "internal.h"

#include <errno.h>
#include <string.h>

struct patchpoint_change {
	struct patchpoint_key *key;
	uint64_t value;
	uint8_t form;
	uint8_t body[6];
};

enum { CHANGES_FIRST = 64 };

/* A NULL operation becomes the function of its key's policy, so that sites as compiled can call it. */

static uint64_t normalised(const struct patchpoint_key *key, uint64_t value)
{
	switch (key->kind) {
	case PATCHPOINT_BRANCH:
		return value != 0;
	case PATCHPOINT_VALUE:
		return key->size >= 8 ? value : value & ((UINT64_C(1) << (8 * key->size)) - 1);
	default:
		if (value)
			return value;
		return (uint64_t)(uintptr_t)(key->null == PATCHPOINT_NULL_NOTHING ? patchpoint_null_nothing
					     : key->null == PATCHPOINT_NULL_ZERO  ? patchpoint_null_zero
										  : patchpoint_null_trap);
	}
}

int patchpoint_txn_begin(struct patchpoint_txn *txn)
{
	if (!txn)
		return -EINVAL;
	memset(txn, 0, sizeof *txn);
	return 0;
}

static int fail(struct patchpoint_txn *txn, int error)
{
	txn->error = error;
	return error;
}

int patchpoint_txn_set(struct patchpoint_txn *txn, struct patchpoint_key *key, uint64_t value)
{
	if (!txn)
		return -EINVAL;
	if (!key || key_resolve(key)->kind < PATCHPOINT_CALL || key_resolve(key)->kind > PATCHPOINT_BRANCH)
		return fail(txn, -EINVAL);
	key = key_resolve(key);
	if (txn->count == txn->capacity) {
		size_t capacity = txn->capacity ? 2 * txn->capacity : CHANGES_FIRST;
		struct patchpoint_change *changes = pages_get(capacity * sizeof *changes);

		if (!changes)
			return fail(txn, -ENOMEM);
		if (txn->count)
			memcpy(changes, txn->changes, txn->count * sizeof *changes);
		pages_put(txn->changes, txn->capacity * sizeof *changes);
		txn->changes = changes;
		txn->capacity = capacity;
	}
	txn->changes[txn->count++] = (struct patchpoint_change){.key = key, .value = normalised(key, value)};
	return 0;
}

int patchpoint_txn_abort(struct patchpoint_txn *txn)
{
	if (!txn)
		return -EINVAL;
	pages_put(txn->changes, txn->capacity * sizeof *txn->changes);
	memset(txn, 0, sizeof *txn);
	return 0;
}

/* The patches of a transaction. */
struct plan {
	struct patch *patches;
	size_t count;
	size_t capacity;
	bool possible; /* whether code can be written */
};

/* Through a stub where the site does not reach its target. ARCH_FAR when there is none. */
static int patched(const struct patchpoint_object *object, const struct patchpoint_site *site, const struct patchpoint_key *key,
		   uint64_t value, bool make, unsigned char *bytes)
{
	int error = arch_patched(site, site_code(site), key, value, bytes);
	const unsigned char *stub;

	if (error != ARCH_FAR)
		return error;
	stub = make ? stub_make(object, value) : stub_find(object, value);
	return stub ? arch_patched(site, site_code(site), key, (uint64_t)(uintptr_t)stub, bytes) : ARCH_FAR;
}

/*
 * Adds one site. It must hold what it was compiled to, or what the key's present value makes of it; then nobody else has
 * changed it. A first byte that is a breakpoint belongs to a debugger or a uprobe.
 */
static int plan_site(struct plan *plan, const struct patchpoint_object *object, const struct patchpoint_site *site,
		     const struct patchpoint_change *change)
{
	struct patchpoint_key *key = change->key;
	struct patchpoint_key next = *key;
	struct patch *patch = &plan->patches[plan->count];
	unsigned char original[LENGTH_MAX], *now = site_code(site);
	int error = -EILSEQ;

	if (site->kind != key->kind || site->length > LENGTH_MAX)
		return -EILSEQ;
	if (now[0] == arch_trap[0])
		return -EBUSY;
	patch->at = now;
	patch->length = site->length;
	memcpy(patch->old, now, site->length);
	error = arch_original(site, now, original);
	if (error)
		return error;
	if (memcmp(now, original, site->length) != 0) {
		error = patched(object, site, key, key_value(key), false, patch->new);
		if (error == ARCH_FAR || (!error && memcmp(now, patch->new, site->length) != 0))
			error = -EILSEQ;
		if (error)
			return error;
		if (!plan->possible)
			return -ENOTSUP;
	}
	if (!plan->possible)
		return 0;
	next.form = change->form;
	memcpy(next.body, change->body, sizeof next.body);
	error = patched(object, site, &next, change->value, true, patch->new);
	if (error == ARCH_FAR) {
		memcpy(patch->new, original, site->length);
		error = 0;
	}
	if (!error && memcmp(patch->old, patch->new, site->length) != 0)
		plan->count++;
	return error;
}

static int plan_change(struct plan *plan, struct patchpoint_change *change)
{
	if (change->key->kind == PATCHPOINT_CALL)
		arch_form(change->value, &change->form, change->body);
	for (struct patchpoint_object *object = registry.objects; object; object = object->next) {
		const struct patchpoint_site *sites = object_sites(object);
		const uint32_t *order;
		size_t count = registry_sites_of(object, change->key, &order);

		for (size_t i = 0; i < count; i++) {
			int error = plan_site(plan, object, &sites[order[i]], change);

			if (error)
				return error;
		}
	}
	return 0;
}

static size_t sites_max(const struct patchpoint_change *changes, size_t count)
{
	size_t sites = 0;

	for (size_t i = 0; i < count; i++) {
		for (struct patchpoint_object *object = registry.objects; object; object = object->next) {
			const uint32_t *order;

			sites += registry_sites_of(object, changes[i].key, &order);
		}
	}
	return sites;
}

/* A call's slot holds the function, its form and body what its patched sites hold. */
static void key_change(const struct patchpoint_change *change)
{
	struct patchpoint_key *key = change->key;
	void *slot = (void *)(uintptr_t)change->value;

	key->form = change->form;
	memcpy(key->body, change->body, sizeof key->body);
	/* Exchange, a full barrier: whoever reads the slot after the change returned reads the new value. */
	(void)__atomic_exchange_n(&key->slot, slot, __ATOMIC_SEQ_CST);
	for (key = key->imports; key; key = key->imports)
		(void)__atomic_exchange_n(&key->slot, slot, __ATOMIC_SEQ_CST);
}

/* Keeps the last change of each key; the lock guards the marks. */
static size_t last_of_each(struct patchpoint_change *changes, size_t count)
{
	size_t first = count;

	for (size_t i = count; i-- > 0;) {
		if (changes[i].key->mark)
			continue;
		changes[i].key->mark = 1;
		changes[--first] = changes[i];
	}
	for (size_t i = first; i < count; i++)
		changes[i].key->mark = 0;
	if (first > 0)
		memmove(changes, changes + first, (count - first) * sizeof *changes);
	return count - first;
}

/* The lock is held. One page of patches serves most transactions without a system call. */
static int commit(struct patchpoint_change *changes, size_t count)
{
	struct patch few[32];
	struct plan plan = {.patches = few};
	size_t bytes = 0;
	int error = 0;

	writer_choose();
	plan.possible = patches_possible();
	plan.capacity = sites_max(changes, count);
	/* One more: the next patch is prepared in place before it is known to be needed. */
	if (plan.capacity >= sizeof few / sizeof few[0]) {
		bytes = (plan.capacity + 1) * sizeof *plan.patches;
		plan.patches = pages_get(bytes);
		if (!plan.patches)
			return -ENOMEM;
	}
	for (size_t i = 0; i < count && !error; i++)
		error = plan_change(&plan, &changes[i]);
	if (!error && plan.count)
		error = patches_write(plan.patches, plan.count);
	if (!error) {
		for (size_t i = 0; i < count; i++)
			key_change(&changes[i]);
		registry.transactions++;
		registry.sites_written += plan.count;
	}
	if (bytes)
		pages_put(plan.patches, bytes);
	return error;
}

int patchpoint_txn_commit(struct patchpoint_txn *txn)
{
	struct guard guard;
	int error;

	if (!txn)
		return -EINVAL;
	error = txn->error;
	if (!error)
		error = guard_enter(&guard);
	if (!error) {
		size_t count = last_of_each(txn->changes, txn->count);

		error = commit(txn->changes, count);
		guard_leave(&guard);
	}
	patchpoint_txn_abort(txn);
	return error;
}

int patchpoint_key_set(struct patchpoint_key *key, uint64_t value)
{
	struct patchpoint_change change = {.key = key ? key_resolve(key) : NULL};
	struct guard guard;
	int error;

	if (!key || change.key->kind < PATCHPOINT_CALL || change.key->kind > PATCHPOINT_BRANCH)
		return -EINVAL;
	change.value = normalised(change.key, value);
	error = guard_enter(&guard);
	if (error)
		return error;
	error = commit(&change, 1);
	guard_leave(&guard);
	return error;
}

/* Every key that has sites, each to the value it has: one transaction, so keys are taken in the order of the index. */
static int commit_all(void)
{
	struct patchpoint_change *changes;
	size_t count = 0, capacity = 0, bytes;
	int error;

	for (struct patchpoint_object *object = registry.objects; object; object = object->next)
		capacity += object->count;
	if (capacity == 0) {
		writer_choose();
		return 0;
	}
	bytes = capacity * sizeof *changes;
	changes = pages_get(bytes);
	if (!changes)
		return -ENOMEM;
	for (struct patchpoint_object *object = registry.objects; object; object = object->next) {
		const struct patchpoint_site *sites = object_sites(object);
		size_t first = count;

		for (size_t i = 0; i < object->count; i++) {
			struct patchpoint_key *key = site_key(&sites[object->order[i]]);

			if (count == first || changes[count - 1].key != key)
				changes[count++] = (struct patchpoint_change){.key = key, .value = key_value(key)};
		}
	}
	/* An imported key comes once for each object. */
	error = commit(changes, last_of_each(changes, count));
	pages_put(changes, bytes);
	return error;
}

int patchpoint_init(void)
{
	struct guard guard;
	int error = guard_enter(&guard);

	if (error)
		return error;
	error = commit_all();
	if (!error)
		patchpoint_eager = true;
	guard_leave(&guard);
	return error;
}

int patchpoint_body(patchpoint_reader read, void *context, uint64_t function, uint8_t body[6])
{
	if (!read || !body)
		return -EINVAL;
	return arch_body(read, context, function, body) ? 1 : 0;
}
