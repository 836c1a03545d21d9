/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A limiter of rates: each name has a bucket of tokens, which fills with time. Its decision depends on settings that change rarely,
 * and each setting is a key. With -DSETTINGS_PLAIN the same settings are plain variables, for comparison.
 */
#ifndef LIMITER_H
#define LIMITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LIMITER_BUCKETS = 4096, LIMITER_NAME_MAX = 40 };

/* Where the limiter can trace; each point has its own key. */
enum limiter_point { POINT_ENTER, POINT_FOUND, POINT_FILLED, POINT_DECIDED, POINT_TAKEN, POINT_REFUSED, POINT_LEAVE, POINTS };

struct limiter_bucket {
	uint64_t tokens, at_ms, taken, refused, sizes[4];
	char name[LIMITER_NAME_MAX];
};

struct limiter {
	struct limiter_bucket buckets[LIMITER_BUCKETS];
	uint64_t traced[POINTS], audited, sampled, renamed, observed;
};

struct limiter_request {
	const char *name;
	size_t length;
	uint64_t amount, now_ms;
};

/** Takes tokens for a request. Result: the tokens left, or -1 if there are too few. One thread at a time for each limiter. */
int64_t limiter_take(struct limiter *limiter, const struct limiter_request *request);

/**
 * Changes a setting by its name and the name or number of its new value. Result: 0, -ENOENT for a setting that does not exist, -EINVAL for a value
 * that it cannot have, or an error of patchpoint. Threads: any, also while others take.
 */
int limiter_set(const char *setting, const char *value);

/** Returns the name of the setting with this number, or NULL behind the last. */
const char *limiter_setting(size_t number);

#endif
