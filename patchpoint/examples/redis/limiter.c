/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "limiter.h"
#include "../settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t amount_itself(uint64_t amount) { return amount; }
static uint64_t amount_in_blocks(uint64_t amount) { return (amount + 15) / 16 * 16; }
static void observe_nothing(struct limiter *limiter) { (void)limiter; }
static void observe_count(struct limiter *limiter) { limiter->observed++; }

SETTING_BRANCH(trace_enter, false)
SETTING_BRANCH(trace_found, false)
SETTING_BRANCH(trace_filled, false)
SETTING_BRANCH(trace_decided, false)
SETTING_BRANCH(trace_taken, false)
SETTING_BRANCH(trace_refused, false)
SETTING_BRANCH(trace_leave, false)
SETTING_BRANCH(enabled, true)
SETTING_BRANCH(maintenance, false)
SETTING_BRANCH(dry_run, false)
SETTING_BRANCH(audit, false)
SETTING_BRANCH(histogram, false)
SETTING_BRANCH(sample, false)
SETTING_VALUE(refill, 1000)      /* tokens a millisecond */
SETTING_VALUE(burst, 1000000)    /* tokens of a full bucket */
SETTING_VALUE(largest, 100000)   /* tokens of one request */
SETTING_VALUE(sample_mask, 1023) /* one request in this many and one is sampled */
SETTING_SWITCH(policy, 3)
SETTING_CALL(price, amount_itself, uint64_t, uint64_t)
SETTING_CALL(observe, observe_nothing, void, struct limiter *)

/* Functions for rare cases stay out of the usual path, and nothing there waits for their result. */
#define APART __attribute__((noinline, cold))

APART static void traced(struct limiter *limiter, enum limiter_point point) { limiter->traced[point]++; }
APART static void audited(struct limiter *limiter) { limiter->audited++; }

APART static void sized(struct limiter_bucket *bucket, uint64_t amount)
{
	bucket->sizes[amount < 10 ? 0 : amount < 100 ? 1 : amount < 1000 ? 2 : 3]++;
}

APART static void sampled(struct limiter *limiter, uint64_t now_ms)
{
	if ((now_ms & NUMBER(sample_mask)) == 0)
		limiter->sampled++;
}

static uint64_t hash_of(const char *name, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3;
	return hash ^ hash >> 29;
}

/* The latest name of a bucket takes it over: names are many, and the buckets' memory is bounded. */
static struct limiter_bucket *find(struct limiter *limiter, const struct limiter_request *request)
{
	struct limiter_bucket *bucket = &limiter->buckets[hash_of(request->name, request->length) % LIMITER_BUCKETS];
	size_t length = request->length < LIMITER_NAME_MAX ? request->length : LIMITER_NAME_MAX - 1;

	if (memcmp(bucket->name, request->name, length) != 0 || bucket->name[length]) {
		memset(bucket, 0, sizeof *bucket);
		memcpy(bucket->name, request->name, length);
		bucket->tokens = NUMBER(burst);
		bucket->at_ms = request->now_ms;
		limiter->renamed++;
	}
	return bucket;
}

/* Whether the bucket gives so many tokens: never more than it has, up to as many again on credit, or always. */
static bool gives(const struct limiter_bucket *bucket, uint64_t amount)
{
	switch (WAY(policy)) {
	case 0:
		return amount <= bucket->tokens;
	case 1:
		return amount / 2 <= bucket->tokens;
	default:
		return true;
	}
}

int64_t limiter_take(struct limiter *limiter, const struct limiter_request *request)
{
	struct limiter_bucket *bucket;
	uint64_t amount = CALL(price, request->amount);
	bool given;

	if (RARELY(trace_enter))
		traced(limiter, POINT_ENTER);
	if (RARELY(maintenance))
		return -1;
	bucket = find(limiter, request);
	if (RARELY(trace_found))
		traced(limiter, POINT_FOUND);
	bucket->tokens += (request->now_ms - bucket->at_ms) * NUMBER(refill);
	bucket->at_ms = request->now_ms;
	if (bucket->tokens > NUMBER(burst))
		bucket->tokens = NUMBER(burst);
	if (RARELY(trace_filled))
		traced(limiter, POINT_FILLED);
	if (RARELY(histogram))
		sized(bucket, amount);
	if (RARELY(sample))
		sampled(limiter, request->now_ms);
	given = amount <= NUMBER(largest) && gives(bucket, amount);
	if (RARELY(trace_decided))
		traced(limiter, POINT_DECIDED);
	CALL(observe, limiter);
	if (RARELY(audit))
		audited(limiter);
	if (USUALLY(enabled) && !given) {
		bucket->refused++;
		if (RARELY(trace_refused))
			traced(limiter, POINT_REFUSED);
		return -1;
	}
	if (!RARELY(dry_run))
		bucket->tokens -= amount < bucket->tokens ? amount : bucket->tokens;
	bucket->taken += amount;
	if (RARELY(trace_taken))
		traced(limiter, POINT_TAKEN);
	if (RARELY(trace_leave))
		traced(limiter, POINT_LEAVE);
	return (int64_t)bucket->tokens;
}

/* A setting by its name: a branch, a number, or one of some names. */
struct setting {
	const char *name;
	int (*branch)(bool);
	int (*number)(uint64_t);
	const char *names[3];
	int (*named)(unsigned);
};

static int name_policy(unsigned way) { return set_policy(way); }
static int name_price(unsigned way) { return set_price(way ? amount_in_blocks : amount_itself); }
static int name_observe(unsigned way) { return set_observe(way ? observe_count : observe_nothing); }

#define OF_BRANCH(setting) {.name = #setting, .branch = set_##setting}
#define OF_NUMBER(setting) {.name = #setting, .number = set_##setting}
static const struct setting settings[] = {
	OF_BRANCH(trace_enter), OF_BRANCH(trace_found), OF_BRANCH(trace_filled), OF_BRANCH(trace_decided), OF_BRANCH(trace_taken),
	OF_BRANCH(trace_refused), OF_BRANCH(trace_leave), OF_BRANCH(enabled), OF_BRANCH(maintenance), OF_BRANCH(dry_run),
	OF_BRANCH(audit), OF_BRANCH(histogram), OF_BRANCH(sample), OF_NUMBER(refill), OF_NUMBER(burst), OF_NUMBER(largest),
	OF_NUMBER(sample_mask),
	{.name = "policy", .names = {"strict", "credit", "always"}, .named = name_policy},
	{.name = "price", .names = {"itself", "blocks"}, .named = name_price},
	{.name = "observe", .names = {"nothing", "count"}, .named = name_observe},
};

const char *limiter_setting(size_t number)
{
	return number < sizeof settings / sizeof *settings ? settings[number].name : NULL;
}

int limiter_set(const char *name, const char *value)
{
	const struct setting *setting = settings;
	const struct setting *last = settings + sizeof settings / sizeof *settings;
	char *end;

	while (setting < last && strcmp(setting->name, name) != 0)
		setting++;
	if (setting == last)
		return -ENOENT;
	if (setting->branch && (strcmp(value, "on") == 0 || strcmp(value, "off") == 0))
		return setting->branch(strcmp(value, "on") == 0);
	for (unsigned way = 0; setting->named && way < 3 && setting->names[way]; way++)
		if (strcmp(value, setting->names[way]) == 0)
			return setting->named(way);
	if (setting->number && *value >= '0' && *value <= '9') {
		uint64_t number;

		errno = 0;
		number = strtoull(value, &end, 10);
		if (!*end && !errno)
			return setting->number(number);
	}
	return -EINVAL;
}
