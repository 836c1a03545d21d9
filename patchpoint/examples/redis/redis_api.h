/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The part of Redis' module interface that this example uses (https://redis.io/docs/latest/develop/reference/modules/, version 1).
 * The server hands a module one function, as the first word of the context, which finds all others by name.
 */
#ifndef REDIS_API_H
#define REDIS_API_H

#include <stddef.h>

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleString RedisModuleString;
typedef int redis_command(RedisModuleCtx *context, RedisModuleString **words, int count);

enum { REDIS_OK = 0, REDIS_ERROR = 1, REDIS_API_VERSION = 1 };

struct redis {
	int (*attributes)(RedisModuleCtx *, const char *name, int version, int api);
	int (*busy_name)(const char *name);
	int (*command)(RedisModuleCtx *, const char *name, redis_command *, const char *flags, int first, int last, int step);
	const char *(*text)(const RedisModuleString *, size_t *length);
	int (*to_number)(const RedisModuleString *, long long *);
	int (*wrong_arity)(RedisModuleCtx *);
	int (*reply_number)(RedisModuleCtx *, long long);
	int (*reply_error)(RedisModuleCtx *, const char *);
	int (*reply_simple)(RedisModuleCtx *, const char *);
	int (*reply_array)(RedisModuleCtx *, long);
	int (*reply_text)(RedisModuleCtx *, const char *);
	long long (*now_ms)(void);
};

/* Fills in all functions; REDIS_ERROR if the server lacks one. */
static inline int redis_find(RedisModuleCtx *context, struct redis *redis)
{
	int (*find)(const char *, void *) = __extension__(int (*)(const char *, void *)) * (void **)context;
	const struct {
		const char *name;
		void *function;
	} wanted[] = {
		{"RedisModule_SetModuleAttribs", &redis->attributes}, {"RedisModule_IsModuleNameBusy", &redis->busy_name},
		{"RedisModule_CreateCommand", &redis->command},	      {"RedisModule_StringPtrLen", &redis->text},
		{"RedisModule_StringToLongLong", &redis->to_number},  {"RedisModule_WrongArity", &redis->wrong_arity},
		{"RedisModule_ReplyWithLongLong", &redis->reply_number}, {"RedisModule_ReplyWithError", &redis->reply_error},
		{"RedisModule_ReplyWithSimpleString", &redis->reply_simple}, {"RedisModule_ReplyWithArray", &redis->reply_array},
		{"RedisModule_ReplyWithCString", &redis->reply_text}, {"RedisModule_Milliseconds", &redis->now_ms},
	};

	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		if (find(wanted[i].name, wanted[i].function) != REDIS_OK)
			return REDIS_ERROR;
	return REDIS_OK;
}

#endif
