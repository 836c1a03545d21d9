/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Transactions: collect changes, find their sites, verify and write these, then change the keys. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CHANGES_FIRST = 64 };

/* Returns the function that stands for a NULL operation by the key's policy, so that sites as compiled can call it. */
static uint64_t missing(const struct patchpoint_key *key)
{
	switch (key->null) {
	case PATCHPOINT_NULL_NOTHING:
		return (uint64_t)(uintptr_t)patchpoint_null_nothing;
	case PATCHPOINT_NULL_ZERO:
		return (uint64_t)(uintptr_t)patchpoint_null_zero;
	case PATCHPOINT_NULL_ZERO_REAL:
		return (uint64_t)(uintptr_t)patchpoint_null_zero_real;
	default:
		return (uint64_t)(uintptr_t)patchpoint_null_trap;
	}
}

/* Turns a value into what the key's slot holds. 0 or -EINVAL. */
static int normalise(const struct patchpoint_key *key, uint64_t *value)
{
	switch (key->kind) {
	case PATCHPOINT_CALL:
		if (!*value)
			*value = missing(key);
		return 0;
	case PATCHPOINT_VALUE:
		if (key->size < 8)
			*value &= (UINT64_C(1) << (8 * key->size)) - 1;
		return 0;
	case PATCHPOINT_BRANCH:
		*value = *value != 0;
		return 0;
	case PATCHPOINT_SWITCH:
		return *value < key->size ? 0 : -EINVAL;
	default:
		return -EINVAL;
	}
}

int change_prepare(struct patchpoint_change *change, struct patchpoint_key *key, uint64_t value)
{
	struct patchpoint_key *origin;

	if (!key)
		return -EINVAL;
	if (!page_is_readable((uintptr_t)key))
		return -EFAULT;
	origin = key_resolve(key);
	if (origin != key && !page_is_readable((uintptr_t)origin))
		return -EFAULT;
	/* Its keys decide which variant it is. */
	if (origin->flags & PATCHPOINT_KEY_VARIANTS)
		return -EINVAL;
	*change = (struct patchpoint_change){.key = origin, .value = value};
	return normalise(origin, &change->value);
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
	struct patchpoint_change change;
	int error;

	if (!txn)
		return -EINVAL;
	error = change_prepare(&change, key, value);
	if (error)
		return fail(txn, error);
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
	txn->changes[txn->count++] = change;
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

/* Memory that was found readable. */
struct seen {
	uintptr_t start, stop;
};

/* The bytes of a key's verified sites, now and next, by the register in them; for keys whose sites need not know where they are. */
struct alike {
	struct {
		struct site_bytes held, new;
	} of[16];
	unsigned known; /* a bit for each register */
	size_t length;	/* bytes of these sites; 0: none is known */
};

/* The patches of a transaction. */
struct plan {
	struct patch *patches;
	size_t count, capacity; /* more than there are sites: a patch is prepared in place before it is known to be needed */
	struct patchpoint_change *changes;
	size_t changes_count;
	bool remembers; /* whether sites of the present key that hold the same become the same */
	struct alike alike;
	bool possible;	   /* whether code can be written */
	struct seen code, aux;
	size_t ahead; /* pages to ask for at once */
};

/* A key's present and next state. */
struct states {
	struct patchpoint_state present, next;
};

/* Computes a site's patched bytes through a stub. `make`: whether to make a stub if there is none. -ERANGE if there is none. */
static __attribute__((noinline)) int patched_through(const struct patchpoint_object *object, const struct patchpoint_place *place,
						     const struct patchpoint_state *state, bool make, unsigned char *bytes)
{
	const unsigned char *now = (const unsigned char *)(uintptr_t)place->code;
	const unsigned char *stub = make ? stub_make(object, state->value) : stub_find(object, state->value);
	struct patchpoint_state through = *state;

	through.value = (uint64_t)(uintptr_t)stub;
	return stub ? arch_patched(NULL, NULL, place, now, &through, bytes) : -ERANGE;
}

/* Computes a site's patched bytes, through a stub if the site does not reach its target. */
static inline int patched(const struct patchpoint_object *object, const struct patchpoint_place *place,
			  const struct patchpoint_state *state, bool make, unsigned char *bytes)
{
	int error = arch_patched(NULL, NULL, place, (const unsigned char *)(uintptr_t)place->code, state, bytes);

	return error == -ERANGE ? patched_through(object, place, state, make, bytes) : error;
}

/* Asks for memory, and for the pages that follow as long as they are there. */
static __attribute__((noinline)) bool look_for(uint64_t address, size_t length, struct seen *seen, size_t *ahead)
{
	const uintptr_t page = page_size();
	uintptr_t start = (uintptr_t)address & ~(page - 1), stop = ((uintptr_t)address + length + page - 1) & ~(page - 1);

	if (*ahead && pages_are_readable(start, (*ahead + 1) * page)) {
		stop = start + (*ahead + 1) * page;
	} else {
		*ahead = 0;
		for (uintptr_t at = start; at < stop; at += page)
			if ((at < seen->start || at >= seen->stop) && !page_is_readable(at))
				return false;
	}
	*seen = (struct seen){start, stop};
	return true;
}

static inline bool is_there(uint64_t address, size_t length, struct seen *seen, size_t *ahead)
{
	return (address >= seen->start && address + length <= seen->stop) || look_for(address, length, seen, ahead);
}

/* Whether a site's code and the code that its record points to are there: some programs unmap their own code. */
static bool site_is_there(struct plan *plan, const struct patchpoint_place *place, const struct patchpoint_key *key)
{
	size_t tests = place->kind == PATCHPOINT_BRANCH ? 1 : place->kind == PATCHPOINT_SWITCH ? key->size - 1u : 0;

	return is_there(place->code, place->length, &plan->code, &plan->ahead) &&
	       (tests == 0 || is_there(place->aux, arch_tests_offset + tests * arch_test_size, &plan->aux, &plan->ahead));
}

static size_t sites_max(const struct patchpoint_change *changes, size_t count, size_t most);
static bool plan_extend(struct plan *plan);

/* The register in both forms of a value's patched site. The bodies of calls always give the same number. */
static unsigned register_of(struct site_bytes held)
{
	return (held.first >> 16 & 7) | (held.first >> 8 & 1) << 3;
}

static void alike_note(struct alike *alike, struct site_bytes held, struct site_bytes new, size_t length)
{
	unsigned number = register_of(held);

	if (alike->length && alike->length != length)
		return;
	alike->length = length;
	alike->known |= 1u << number;
	alike->of[number].held = held;
	alike->of[number].new = new;
}

/*
 * Adds sites as long as they hold what verified sites of the key hold. Such a site holds its key's patched form, so it need not be
 * computed again: many sites cost a few instructions each. Returns the first one that differs, or whose page was not looked at yet.
 */
static const struct patchpoint_site *plan_alike(struct plan *plan, struct sites_of_key *sites, const struct patchpoint_site *site,
						struct patchpoint_object *object, uint8_t kind)
{
	const struct alike *alike = &plan->alike;
	const uintptr_t start = plan->code.start, stop = plan->code.stop;
	struct patch *patch = plan->patches + plan->count, *end = plan->patches + plan->capacity - 1;
	const size_t length = alike->length;

	for (; length && site && patch < end; site = next_site(sites)) {
		unsigned char *now = site_code(site);
		struct site_bytes held;
		unsigned number;

		if (site->kind != kind || site->length != length || (uintptr_t)now < start || (uintptr_t)now + length > stop)
			break;
		held = site_load(now, length);
		number = register_of(held);
		if (!(alike->known >> number & 1) || held.first != alike->of[number].held.first || held.last != alike->of[number].held.last)
			break;
		patch->at = now;
		patch->object = object;
		patch->length = (uint8_t)length;
		site_store(patch->old, held, length);
		site_store(patch->new, alike->of[number].new, length);
		patch++;
	}
	plan->count = (size_t)(patch - plan->patches);
	return site;
}

/*
 * Adds one site. The site must hold what the key's present value makes of it, or what it was compiled to: then nobody else has
 * changed it. A breakpoint as first byte belongs to a debugger or a uprobe.
 */
static int plan_site(struct plan *plan, const struct patchpoint_site *site, struct patchpoint_object *object,
		     const struct patchpoint_key *key, const struct states *states)
{
	struct patch *patch;
	struct patchpoint_place place;
	unsigned char compiled[LENGTH_MAX], *now = site_code(site);
	struct site_bytes held;
	bool is_patched;
	int error;

	if (site->kind != key->kind || site->length < LENGTH_MIN || site->length > LENGTH_MAX)
		return -EILSEQ;
	if (plan->count + 1 >= plan->capacity && !plan_extend(plan))
		return -ENOMEM;
	patch = &plan->patches[plan->count];
	place = site_place(site);
	if (!site_is_there(plan, &place, key))
		return -EFAULT;
	if (arch_is_breakpoint(now))
		return -EBUSY;
	patch->at = now;
	patch->object = object;
	patch->length = site->length;
	held = site_load(now, site->length);
	site_store(patch->old, held, site->length);
	is_patched = patched(object, &place, &states->present, false, patch->new) == 0 && site_holds(held, patch->new, site->length);
	if (!is_patched || !plan->possible) {
		error = arch_compiled(NULL, NULL, &place, now, compiled);
		if (error || !site_holds(held, compiled, site->length))
			return is_patched ? -ENOTSUP : -EILSEQ;
	}
	if (!plan->possible)
		return 0;
	error = patched(object, &place, &states->next, true, patch->new);
	if (error == -ERANGE)
		error = arch_compiled(NULL, NULL, &place, now, patch->new);
	if (error || site_holds(held, patch->new, site->length))
		return error;
	plan->count++;
	if (plan->remembers && is_patched)
		alike_note(&plan->alike, held, site_load(patch->new, site->length), site->length);
	return 0;
}

/* Finds what a call's sites hold: a body or a call. 0, or -EFAULT if the function is no code. */
static int form_find(struct patchpoint_change *change)
{
	enum code code = code_at(change->value);

	if (code == CODE_NONE)
		return -EFAULT;
	if (code == CODE_READABLE && arch_body(NULL, NULL, memory_is_constant, change->value, change->body))
		change->form = PATCHPOINT_FORM_INLINE;
	else
		change->form = registry_preserves(change->value) ? PATCHPOINT_FORM_PRESERVING : PATCHPOINT_FORM_DIRECT;
	return 0;
}

/* Goes from a key to the imports that stand for it: each has its sites in its own object. */
static struct patchpoint_key *next_holder(const struct patchpoint_key *key, const struct patchpoint_key *holder)
{
	return holder == key ? key->imports : holder->imports;
}

char foreign_site[160];

static void foreign_note(const struct patchpoint_site *site, const struct patchpoint_key *key)
{
	const unsigned char *code = site_code(site);
	int used = snprintf(foreign_site, sizeof foreign_site, "the site of '%.64s' at %p holds", key->name, (const void *)code);

	for (size_t i = 0; i < site->length && i < LENGTH_MAX && (size_t)used + 4 < sizeof foreign_site; i++)
		used += snprintf(foreign_site + used, sizeof foreign_site - (size_t)used, " %02x", code[i]);
}

/* Whether a key's sites that hold the same bytes become the same, wherever they are. (Where one store exchanges a site, its address counts.) */
static bool forms_are_alike(const struct patchpoint_key *key, const struct states *states)
{
	if (arch_one_store)
		return false;
	return key->kind == PATCHPOINT_VALUE || (key->kind == PATCHPOINT_CALL && states->present.form == PATCHPOINT_FORM_INLINE &&
						 states->next.form == PATCHPOINT_FORM_INLINE);
}

static int plan_change(struct plan *plan, struct patchpoint_change *change)
{
	const struct patchpoint_key *key = change->key;
	int error = key->kind == PATCHPOINT_CALL ? form_find(change) : 0;
	struct states states = {
		{.value = key_value(key), .form = key->form},
		{.value = change->value, .form = change->form},
	};

	memcpy(states.present.body, key->body, sizeof states.present.body);
	memcpy(states.next.body, change->body, sizeof states.next.body);
	plan->alike.known = 0;
	plan->alike.length = 0;
	plan->remembers = plan->possible && forms_are_alike(key, &states);

	for (struct patchpoint_key *holder = change->key; holder && !error; holder = next_holder(key, holder)) {
		struct sites_of_key sites = sites_of_key(holder);

		for (const struct patchpoint_site *site; !error && (site = next_site(&sites));) {
			site = plan_alike(plan, &sites, site, holder->object, key->kind);
			if (!site)
				break;
			error = plan_site(plan, site, holder->object, key, &states);
			if (error == -EILSEQ)
				foreign_note(site, key);
		}
	}
	return error;
}

/* Counts sites up to `most` or a few more. */
static size_t sites_max(const struct patchpoint_change *changes, size_t count, size_t most)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++)
		for (struct patchpoint_key *holder = changes[i].key; holder; holder = next_holder(changes[i].key, holder)) {
			struct sites_of_key sites = sites_of_key(holder);

			while (found < most && next_site(&sites))
				found++;
		}
	return found;
}

void key_change(const struct patchpoint_change *change)
{
	struct patchpoint_key *key = change->key;
	void *slot = (void *)(uintptr_t)change->value;

	key->form = change->form;
	memcpy(key->body, change->body, sizeof key->body);
	/* An exchange is a full barrier: whoever reads the slot after the change returned reads the new value. */
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

/*
 * Plans and writes. If writing fails though the writer seemed ready, the next way of writing is tried. If none is left, sites that
 * still read their keys stay as they are; if a patched site would have to change, nothing is changed.
 */
static int sites_change(struct plan *plan, struct patchpoint_change *changes, size_t count, struct patience *patience)
{
	bool ready = writer_find();

	for (;;) {
		int error = 0;

		plan->count = 0;
		plan->possible = ready && sync_possible();
		for (size_t i = 0; i < count && !error; i++)
			error = plan_change(plan, &changes[i]);
		if (error || plan->count == 0)
			return error;
		error = patches_write(plan->patches, plan->count, patience);
		if (!error || error == -EBUSY || error == -EAGAIN)
			return error;
		if (sync_possible())
			ready = writer_fall_back(error);
	}
}

/*
 * The patches of the last large transaction: new pages of memory cost more than the sites. The lock guards them, and they are kept
 * up to a size.
 */
static struct {
	struct patch *patches;
	size_t bytes;
} kept;
enum { KEPT_MAX = 1 << 19 };

/* Goes on with the patches of the last transaction or, if these are too few, with new memory for all sites. */
static bool plan_extend(struct plan *plan)
{
	struct patch *patches = kept.patches;
	size_t bytes = kept.bytes;

	if (bytes / sizeof *patches <= plan->capacity) {
		bytes = (sites_max(plan->changes, plan->changes_count, SIZE_MAX) + 2) * sizeof *patches;
		patches = pages_get(bytes);
		if (!patches)
			return false;
	}
	memcpy(patches, plan->patches, plan->count * sizeof *patches);
	if (patches != kept.patches)
		pages_put(kept.patches, kept.bytes);
	kept.patches = plan->patches = patches;
	kept.bytes = bytes;
	plan->capacity = bytes / sizeof *patches;
	return true;
}

static void patches_put(void)
{
	if (kept.bytes <= KEPT_MAX)
		return;
	pages_put(kept.patches, kept.bytes);
	kept.patches = NULL;
	kept.bytes = 0;
}

/* `few` on the stack serves most transactions without a system call. */
static int commit(struct patchpoint_change *changes, size_t count, struct patience *patience)
{
	enum { FEW = 32, AHEAD = 3 };
	struct patch few[FEW];
	struct plan plan = {.patches = few, .capacity = FEW, .changes = changes, .changes_count = count};
	int error;

	registry_look_up();
	if (sites_max(changes, count, FEW) >= FEW)
		plan.ahead = AHEAD;
	error = sites_change(&plan, changes, count, patience);
	if (!error) {
		for (size_t i = 0; i < count; i++)
			key_change(&changes[i]);
		registry.transactions++;
		registry.sites_written += plan.count;
	}
	patches_put();
	return error;
}

int changes_commit(struct patchpoint_change *changes, size_t count, struct patience *patience)
{
	struct patchpoint_change few[16], *all = few;
	size_t more = variants_follow(changes, count, NULL), bytes = (count + more) * sizeof *all;
	int error;

	if (more == 0)
		return commit(changes, count, patience);
	if (bytes > sizeof few)
		all = pages_get(bytes);
	if (!all)
		return -ENOMEM;
	memcpy(all, changes, count * sizeof *all);
	variants_follow(changes, count, all + count);
	error = commit(all, count + more, patience);
	if (all != few)
		pages_put(all, bytes);
	return error;
}

int change_attempt(struct attempt *attempt)
{
	struct patience patience = {0, 0};
	struct guard guard;
	int error;

	for (;;) {
		sync_prepare();
		error = guard_enter(&guard);
		if (error)
			return error;
		error = attempt->run(attempt, &patience);
		guard_leave(&guard);
		if (error != -EAGAIN)
			return error;
		patience_wait();
	}
}

static int attempt_changes(struct attempt *attempt, struct patience *patience)
{
	int error;

	attempt->count = last_of_each(attempt->changes, attempt->count);
	for (size_t i = 0; i < attempt->count; i++)
		if (users_forbid(&attempt->changes[i]))
			return -EBUSY;
	error = changes_commit(attempt->changes, attempt->count, patience);
	for (size_t i = 0; i < attempt->count && !error; i++)
		users_note(&attempt->changes[i]);
	return error;
}

int patchpoint_txn_commit(struct patchpoint_txn *txn)
{
	int error;

	if (!txn)
		return -EINVAL;
	error = txn->error;
	if (!error)
		error = change_attempt(&(struct attempt){attempt_changes, txn->changes, txn->count, NULL});
	patchpoint_txn_abort(txn);
	return error;
}

int patchpoint_key_set(struct patchpoint_key *key, uint64_t value)
{
	struct patchpoint_change change;
	int error = change_prepare(&change, key, value);

	return error ? error : change_attempt(&(struct attempt){attempt_changes, &change, 1, NULL});
}

/* Counts the keys with sites in `only` (NULL: in any object), and lists each with its present value. The lock guards the marks. */
static size_t keys_with_sites(const struct patchpoint_object *only, struct patchpoint_change *changes)
{
	size_t count = 0;

	for (unsigned mark = 1; mark <= 2; mark++) {
		for (struct patchpoint_object *object = registry.objects; object; object = object->next) {
			const struct patchpoint_site *sites = object_sites(object);

			if (only && object != only)
				continue;
			for (uint32_t i = 0; object->next_of_key && i < object->count; i++) {
				struct patchpoint_key *key;

				if (sites[i].kind == PATCHPOINT_NONE || site_key(&sites[i])->object != object)
					continue;
				key = key_resolve(site_key(&sites[i]));
				if (mark == 1 && !key->mark) {
					key->mark = 1;
					if (changes)
						changes[count] = (struct patchpoint_change){.key = key, .value = key_value(key)};
					count++;
				} else if (mark == 2) {
					key->mark = 0;
				}
			}
		}
	}
	return count;
}

/* Gives every key with sites in `only` (NULL: in any object) its present value again. */
static int attempt_again(struct attempt *attempt, struct patience *patience)
{
	struct patchpoint_change *changes;
	size_t count, bytes;
	int error;

	registry_look_up();
	count = keys_with_sites(attempt->only, NULL);
	bytes = count * sizeof *changes;
	changes = count ? pages_get(bytes) : NULL;
	if (count && !changes)
		return -ENOMEM;
	keys_with_sites(attempt->only, changes);
	if (count) {
		error = commit(changes, count, patience);
		pages_put(changes, bytes);
	} else {
		writer_find();
		error = 0;
	}
	if (!error && !attempt->only)
		patchpoint_eager = true;
	return error;
}

static int attempt_key_again(struct attempt *attempt, struct patience *patience)
{
	attempt->changes->value = key_value(attempt->changes->key);
	return commit(attempt->changes, 1, patience);
}

void transaction_patch_object(const struct patchpoint_object *object)
{
	if (patchpoint_eager)
		change_attempt(&(struct attempt){attempt_again, NULL, 0, object});
}

void transaction_patch_key(struct patchpoint_key *key)
{
	struct patchpoint_change change = {.key = key};

	if (patchpoint_eager)
		change_attempt(&(struct attempt){attempt_key_again, &change, 1, NULL});
}

int patchpoint_init(void)
{
	return change_attempt(&(struct attempt){attempt_again, NULL, 0, NULL});
}
