/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A guard of statements: it decides which statements may run and how many rows these may return, and traces, samples and counts
 * them. Its settings change rarely, and each is a key. With -DSETTINGS_PLAIN the same settings are plain variables, for comparison.
 */
#ifndef GUARD_H
#define GUARD_H

#include <stdbool.h>
#include <stdint.h>

/* Where the guard can trace; each point has its own key. */
enum guard_point { POINT_START, POINT_RUN, POINT_ROW, POINT_END, POINT_REFUSED, POINTS };

enum guard_kind { GUARD_READ, GUARD_WRITE, GUARD_OTHER, GUARD_KINDS };

/* All processes of a server count here together. */
struct guard_counts {
	uint64_t traced[POINTS], kinds[GUARD_KINDS], rows[4], widths[4], sampled, audited, large, observed, would_refuse;
	uint64_t changes, refusals; /* of settings */
};

/* One process' guard. */
struct guard {
	struct guard_counts *counts;
	uint64_t saved, started;
};

struct guard_statement {
	enum guard_kind kind;
	uint64_t cost, rows;
};

/* Each setting with its value at the start. X is called with the name, that value, and what the setting does. */
#define GUARD_BRANCHES(X) \
	X(trace_start, false, "counts each start of a statement") \
	X(trace_run, false, "counts each run of a statement") \
	X(trace_row, false, "counts each row") \
	X(trace_end, false, "counts each end of a statement") \
	X(trace_refused, false, "counts each statement that is refused") \
	X(enabled, true, "whether the guard refuses statements at all") \
	X(read_only, false, "refuses statements that write") \
	X(dry_run, false, "counts what would be refused, and refuses nothing") \
	X(kinds, false, "counts statements by kind") \
	X(sample, false, "counts one statement in sample_mask and one") \
	X(audit, false, "counts statements that write") \
	X(histogram, false, "counts statements by their rows") \
	X(widths, false, "counts rows by their width") \
	X(large, false, "counts statements of large_rows rows and more")
#define GUARD_NUMBERS(X) \
	X(cost_max, 1000000000, "a statement's highest cost, in the planner's units") \
	X(rows_max, 1000000000, "the most rows that a run of a statement returns") \
	X(width_max, 1000000000, "the most columns of a row") \
	X(large_rows, 1000, "the rows of a large statement") \
	X(sample_mask, 1023, "see sample")

/** Changes a setting in this process. Result: 0 or an error of patchpoint. */
#define GUARD_DECLARE_BRANCH(name, initial, text) int guard_set_##name(bool value);
#define GUARD_DECLARE_NUMBER(name, initial, text) int guard_set_##name(uint64_t value);
GUARD_BRANCHES(GUARD_DECLARE_BRANCH)
GUARD_NUMBERS(GUARD_DECLARE_NUMBER)
/** How costs are judged: 0 each statement by itself, 1 with what cheaper statements saved, 2 not at all. */
int guard_set_policy(unsigned way);
/** Chooses a statement's weight: 0 its cost, 1 its cost in whole thousands. */
int guard_set_weight(unsigned way);
/** Chooses what happens at each start: 0 nothing, 1 an observer counts it. */
int guard_set_observer(unsigned way);

/** Judges a statement before it starts. Result: whether it may. */
bool guard_start(struct guard *guard, const struct guard_statement *statement);

/** Says that a statement runs from here; its rows begin at 0. */
void guard_run(struct guard *guard, struct guard_statement *statement);

/** Judges one row of so many columns. Result: whether it may be returned. */
bool guard_row(struct guard *guard, struct guard_statement *statement, unsigned width);

/** Says that a statement ended after its rows. */
void guard_end(struct guard *guard, const struct guard_statement *statement);

#endif
