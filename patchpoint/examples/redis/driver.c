/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Takes tokens as the module does, without Redis, so that its instructions can be counted. Usage: driver REQUESTS [SETTING=VALUE]... */
#include "limiter.h"

#ifndef SETTINGS_PLAIN
#include <patchpoint.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct limiter limiter;

int main(int count, char **arguments)
{
	static const char *const names[] = {"user:1", "user:22", "user:333", "user:4444"};
	unsigned long requests = count > 1 ? strtoul(arguments[1], NULL, 10) : 0;
	int64_t sum = 0;
	int error = 0;

#ifndef SETTINGS_PLAIN
	error = patchpoint_init();
#endif
	for (int i = 2; i < count && !error; i++) {
		char *value = strchr(arguments[i], '=');

		if (value)
			*value++ = 0;
		error = limiter_set(arguments[i], value ? value : "");
	}
	if (error) {
		fprintf(stderr, "driver: a setting was refused: %s\n", strerror(-error));
		return 1;
	}
	for (unsigned long i = 0; i < requests; i++) {
		const char *name = names[i & 3];
		struct limiter_request request = {name, 6 + (i & 3), 1 + (i & 7), i >> 4};

		sum += limiter_take(&limiter, &request);
	}
	return printf("%ld %lu %lu\n", sum, limiter.traced[POINT_TAKEN], limiter.observed) < 0;
}
