/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A module for Redis, with the limiter: LIMITER.TAKE name amount, LIMITER.SET setting value, LIMITER.STATUS. Two threads of the module
 * take from limiters of their own, with every signal blocked, as threads of Redis do.
 */
#define _GNU_SOURCE
#include "limiter.h"
#include "redis_api.h"

#ifndef SETTINGS_PLAIN
#include <patchpoint.h>
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 2 };

static struct redis redis;
static struct limiter *limiter;
static uint64_t taken_by_threads, changes, refusals;

static int take(RedisModuleCtx *context, RedisModuleString **words, int count)
{
	struct limiter_request request;
	long long amount;

	if (count != 3)
		return redis.wrong_arity(context);
	if (redis.to_number(words[2], &amount) != REDIS_OK || amount < 0)
		return redis.reply_error(context, "ERR the amount is not a number of tokens");
	request.name = redis.text(words[1], &request.length);
	request.amount = (uint64_t)amount;
	request.now_ms = (uint64_t)redis.now_ms();
	return redis.reply_number(context, limiter_take(limiter, &request));
}

static int set(RedisModuleCtx *context, RedisModuleString **words, int count)
{
	char setting[32], value[32], message[96];
	size_t length;
	int error;

	if (count != 3)
		return redis.wrong_arity(context);
	snprintf(setting, sizeof setting, "%s", redis.text(words[1], &length));
	snprintf(value, sizeof value, "%s", redis.text(words[2], &length));
	error = limiter_set(setting, value);
	if (!error) {
		changes++;
		return redis.reply_simple(context, "OK");
	}
	if (error == -ENOENT || error == -EINVAL)
		snprintf(message, sizeof message, error == -ENOENT ? "ERR no setting '%s'; LIMITER.STATUS lists them" : "ERR '%s' takes no such value", setting);
	else {
		refusals++;
		snprintf(message, sizeof message, "ERR '%s' is not changed: %s", setting, strerror(-error));
	}
	return redis.reply_error(context, message);
}

static int status(RedisModuleCtx *context, RedisModuleString **words, int count)
{
	char text[512] = "plain variables";
	long settings = 0;

	(void)words;
	if (count != 1)
		return redis.wrong_arity(context);
	while (limiter_setting((size_t)settings))
		settings++;
	redis.reply_array(context, settings + 2);
	for (long i = 0; i < settings; i++)
		redis.reply_text(context, limiter_setting((size_t)i));
#ifndef SETTINGS_PLAIN
	struct patchpoint_status library;

	if (patchpoint_status(&library) == 0)
		snprintf(text, sizeof text, "sites %zu, writer %s, protocol %s%s%s", library.sites, library.writer_name, library.protocol_name,
			 *library.protocol_reason ? ", since " : "", library.protocol_reason);
#endif
	redis.reply_text(context, text);
	snprintf(text, sizeof text, "changes %lu, refused %lu, renamed %lu, observed %lu, audited %lu, traced %lu, taken by threads %lu", changes,
		 refusals, limiter->renamed, limiter->observed, limiter->audited, limiter->traced[POINT_TAKEN],
		 __atomic_load_n(&taken_by_threads, __ATOMIC_RELAXED));
	return redis.reply_text(context, text);
}

static void *keep_taking(void *own)
{
	const struct timespec pause = {.tv_nsec = 2000000};

	pthread_setname_np(pthread_self(), "limiter");
	for (uint64_t now_ms = 0;; now_ms++) {
		struct limiter_request request = {"thread", 6, 1, now_ms};

		for (int i = 0; i < 100; i++)
			limiter_take(own, &request);
		__atomic_add_fetch(&taken_by_threads, 100, __ATOMIC_RELAXED);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* The signals are Redis' own, so these threads block all. */
static int start_threads(void)
{
	sigset_t all, old;
	pthread_t thread;
	int error = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (int i = 0; i < THREADS && !error; i++) {
		struct limiter *own = calloc(1, sizeof *own);

		error = own ? pthread_create(&thread, NULL, keep_taking, own) : ENOMEM;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return error;
}

__attribute__((visibility("default"))) int RedisModule_OnLoad(RedisModuleCtx *context, RedisModuleString **words, int count);
int RedisModule_OnLoad(RedisModuleCtx *context, RedisModuleString **words, int count)
{
	(void)words, (void)count;
	if (redis_find(context, &redis) != REDIS_OK || redis.busy_name("limiter"))
		return REDIS_ERROR;
	redis.attributes(context, "limiter", 1, REDIS_API_VERSION);
	limiter = calloc(1, sizeof *limiter);
	if (!limiter || redis.command(context, "limiter.take", take, "fast", 0, 0, 0) != REDIS_OK ||
	    redis.command(context, "limiter.set", set, "admin", 0, 0, 0) != REDIS_OK ||
	    redis.command(context, "limiter.status", status, "admin", 0, 0, 0) != REDIS_OK)
		return REDIS_ERROR;
#ifndef SETTINGS_PLAIN
	if (patchpoint_init())
		return REDIS_ERROR;
#endif
	return start_threads() ? REDIS_ERROR : REDIS_OK;
}
