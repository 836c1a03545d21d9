/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program of three objects that share keys (patchpoint/tests/shared_keys.h): the program, a first plugin, which is linked to
 * the program and defines the keys, and a second plugin that the program opens. A thread executes all sites. Questions:
 *   see     the values at the sites of each object
 *   open    opens the second plugin
 *   close   closes the second plugin
 *   check   changes the keys and back by the library's own means; 0, or the first error
 * Arguments: the second plugin, and "plain" to leave sites as they were compiled.
 */
#define _GNU_SOURCE
#include "shared_keys.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

PATCHPOINT_IMPORT_CALL(shared_job);
PATCHPOINT_IMPORT_VALUE(shared_number, int);
PATCHPOINT_IMPORT_BRANCH(shared_flag);

long plugin_first(long a);
static long (*plugin_second)(long a);
static void *handle;
static pthread_mutex_t open_or_close = PTHREAD_MUTEX_INITIALIZER;

static long ask_second(void)
{
	pthread_mutex_lock(&open_or_close);
	long answer = plugin_second ? plugin_second(1) : -1;
	pthread_mutex_unlock(&open_or_close);
	return answer;
}

static void *spin(void *unused)
{
	for (;;) {
		volatile long sum = shared_sites(1) + plugin_first(1) + ask_second();

		(void)sum;
		patchpoint_ops_add(1);
	}
	return unused;
}

static int toggle(const char *path)
{
	void *symbol = NULL;
	int error = 0;

	pthread_mutex_lock(&open_or_close);
	if (path) {
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		symbol = handle ? dlsym(handle, "plugin_second") : NULL;
		error = symbol ? 0 : -1;
	} else {
		error = dlclose(handle);
	}
	memcpy(&plugin_second, &symbol, sizeof symbol);
	pthread_mutex_unlock(&open_or_close);
	return error;
}

static int check(void)
{
	int error = patchpoint_set_value(shared_number, 99);

	error = error ? error : patchpoint_set_value(shared_number, 12);
	error = error ? error : patchpoint_set_branch(shared_flag, true);
	return error ? error : patchpoint_set_branch(shared_flag, false);
}

int main(int count, char **arguments)
{
	pthread_t thread;
	char line[64];

	if (count < 2 || (count == 2 && patchpoint_init() != 0) || pthread_create(&thread, NULL, spin, NULL) != 0)
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof line, stdin)) {
		if (strcmp(line, "see\n") == 0)
			printf("%ld %ld %ld\n", shared_sites(1), plugin_first(1), ask_second());
		else if (strcmp(line, "open\n") == 0)
			printf("open %d\n", toggle(arguments[1]));
		else if (strcmp(line, "close\n") == 0)
			printf("close %d\n", toggle(NULL));
		else if (strcmp(line, "check\n") == 0)
			printf("check %d\n", check());
	}
	return 0;
}
