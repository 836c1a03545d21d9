/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "guard.h"
#include "../settings.h"

static uint64_t cost_itself(uint64_t cost) { return cost; }
static uint64_t cost_in_thousands(uint64_t cost) { return (cost + 999) / 1000 * 1000; }
static void observe_nothing(struct guard *guard) { (void)guard; }
static void observe_count(struct guard *guard) { __atomic_add_fetch(&guard->counts->observed, 1, __ATOMIC_RELAXED); }

#define DEFINE_BRANCH(name, initial, text) SETTING_BRANCH(name, initial) int guard_set_##name(bool value) { return set_##name(value); }
#define DEFINE_NUMBER(name, initial, text) SETTING_VALUE(name, initial) int guard_set_##name(uint64_t value) { return set_##name(value); }
GUARD_BRANCHES(DEFINE_BRANCH)
GUARD_NUMBERS(DEFINE_NUMBER)
SETTING_SWITCH(policy, 3)
SETTING_CALL(weight, cost_itself, uint64_t, uint64_t)
SETTING_CALL(observer, observe_nothing, void, struct guard *)

int guard_set_policy(unsigned way) { return set_policy(way); }
int guard_set_weight(unsigned way) { return set_weight(way ? cost_in_thousands : cost_itself); }
int guard_set_observer(unsigned way) { return set_observer(way ? observe_count : observe_nothing); }

/* Functions for rare cases stay out of the usual path, and nothing there waits for their result. */
#define APART __attribute__((noinline, cold))

APART static void add(uint64_t *count) { __atomic_add_fetch(count, 1, __ATOMIC_RELAXED); }
APART static void trace(struct guard *guard, enum guard_point point) { add(&guard->counts->traced[point]); }
APART static void note_kind(struct guard *guard, enum guard_kind kind) { add(&guard->counts->kinds[kind]); }

/* 0, 1, up to 9, and more. */
APART static void note_size(uint64_t classes[4], uint64_t size)
{
	add(&classes[size == 0 ? 0 : size == 1 ? 1 : size < 10 ? 2 : 3]);
}

APART static void note_sample(struct guard *guard)
{
	if ((guard->started & NUMBER(sample_mask)) == 0)
		add(&guard->counts->sampled);
}

APART static void note_write(struct guard *guard, enum guard_kind kind)
{
	if (kind == GUARD_WRITE)
		add(&guard->counts->audited);
}

APART static void note_large(struct guard *guard, uint64_t rows)
{
	if (rows >= NUMBER(large_rows))
		add(&guard->counts->large);
}

/* While the guard only counts, it lets everything through. */
APART static bool refuse(struct guard *guard)
{
	if (!USUALLY(enabled))
		return false;
	if (RARELY(dry_run)) {
		add(&guard->counts->would_refuse);
		return false;
	}
	if (RARELY(trace_refused))
		trace(guard, POINT_REFUSED);
	return true;
}

static bool is_cheap(struct guard *guard, uint64_t weight)
{
	uint64_t most;

	switch (WAY(policy)) {
	case 0:
		return weight <= NUMBER(cost_max);
	case 1:
		most = guard->saved + NUMBER(cost_max);
		guard->saved = weight < most ? most - weight : 0;
		return weight <= most;
	default:
		return true;
	}
}

bool guard_start(struct guard *guard, const struct guard_statement *statement)
{
	guard->started++;
	if (RARELY(trace_start))
		trace(guard, POINT_START);
	if (RARELY(kinds))
		note_kind(guard, statement->kind);
	if (RARELY(sample))
		note_sample(guard);
	if (RARELY(audit))
		note_write(guard, statement->kind);
	CALL(observer, guard);
	if (RARELY(read_only) && statement->kind == GUARD_WRITE)
		return !refuse(guard);
	return is_cheap(guard, CALL(weight, statement->cost)) || !refuse(guard);
}

void guard_run(struct guard *guard, struct guard_statement *statement)
{
	if (RARELY(trace_run))
		trace(guard, POINT_RUN);
	statement->rows = 0;
}

bool guard_row(struct guard *guard, struct guard_statement *statement, unsigned width)
{
	statement->rows++;
	if (RARELY(trace_row))
		trace(guard, POINT_ROW);
	if (RARELY(widths))
		note_size(guard->counts->widths, width);
	return (statement->rows <= NUMBER(rows_max) && width <= NUMBER(width_max)) || !refuse(guard);
}

void guard_end(struct guard *guard, const struct guard_statement *statement)
{
	if (RARELY(trace_end))
		trace(guard, POINT_END);
	if (RARELY(histogram))
		note_size(guard->counts->rows, statement->rows);
	if (RARELY(large))
		note_large(guard, statement->rows);
}
