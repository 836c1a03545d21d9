/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Judges statements as the extension does, without PostgreSQL, so that their instructions can be counted.
 * Usage: driver STATEMENTS ROWS [SETTING=NUMBER]...     ROWS: of each statement
 */
#include "guard.h"

#ifndef SETTINGS_PLAIN
#include <patchpoint.h>
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set(const char *name, uint64_t value)
{
#define TRY(setting, initial, text) \
	if (strcmp(name, #setting) == 0) \
		return guard_set_##setting(value);
	GUARD_BRANCHES(TRY)
	GUARD_NUMBERS(TRY)
	TRY(policy, 0, )
	TRY(weight, 0, )
	TRY(observer, 0, )
	return -ENOENT;
}

int main(int count, char **arguments)
{
	static struct guard_counts counts;
	struct guard guard = {.counts = &counts};
	uint64_t statements = count > 2 ? strtoull(arguments[1], NULL, 10) : 0, rows = count > 2 ? strtoull(arguments[2], NULL, 10) : 0;
	uint64_t started = 0, returned = 0, sum = 0;
	int error = 0;

#ifndef SETTINGS_PLAIN
	error = patchpoint_init();
#endif
	for (int i = 3; i < count && !error; i++) {
		char *value = strchr(arguments[i], '=');

		if (value)
			*value++ = 0;
		error = value ? set(arguments[i], strtoull(value, NULL, 10)) : -EINVAL;
	}
	if (error) {
		fprintf(stderr, "driver: a setting was refused: %s\n", strerror(-error));
		return 1;
	}
	for (uint64_t i = 0; i < statements; i++) {
		struct guard_statement statement = {.kind = i & 7 ? GUARD_READ : GUARD_WRITE, .cost = 8 + (i & 1023)};
		uint64_t row = 0;

		if (!guard_start(&guard, &statement))
			continue;
		started++;
		guard_run(&guard, &statement);
		while (row < rows && guard_row(&guard, &statement, 1 + (row & 3)))
			row++;
		returned += row;
		guard_end(&guard, &statement);
	}
	for (size_t i = 0; i < sizeof counts / sizeof(uint64_t); i++)
		sum = sum * 31 + ((const uint64_t *)(const void *)&counts)[i];
	return printf("%lu %lu %lu\n", started, returned, sum) < 0;
}
