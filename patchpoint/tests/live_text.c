/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Runs a program to its end and writes bytes of its code, as they are just before it exits, to a file.
 * Arguments: file, address in the program's file (hex), length (hex), program, its arguments.
 */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the address at which the program's file begins in memory. */
static unsigned long long load_address(pid_t child, const char *program)
{
	char name[64], line[4500], path[4096];
	unsigned long long start, offset;
	FILE *maps;

	snprintf(name, sizeof name, "/proc/%d/maps", child);
	maps = fopen(name, "re");
	CHECK(maps);
	while (fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%llx-%*x %*s %llx %*s %*s %4095s", &start, &offset, path) == 3 && offset == 0 &&
		    strcmp(path, program) == 0) {
			fclose(maps);
			return start;
		}
	}
	fclose(maps);
	CHECK(!"the program is in its own memory map");
	return 0;
}

static void copy(pid_t child, unsigned long long address, size_t length, const char *to)
{
	unsigned char bytes[8192];
	char name[64];
	int memory;
	FILE *file = fopen(to, "we");

	snprintf(name, sizeof name, "/proc/%d/mem", child);
	memory = open(name, O_RDONLY | O_CLOEXEC);
	CHECK(file && memory >= 0 && length <= sizeof bytes);
	CHECK_EQUAL(pread(memory, bytes, length, (off_t)address), length);
	CHECK_EQUAL(fwrite(bytes, 1, length, file), length);
	fclose(file);
	close(memory);
}

int main(int count, char **arguments)
{
	int status;
	pid_t child;
	char *program;

	CHECK(count >= 5);
	program = realpath(arguments[4], NULL);
	child = fork();
	if (child == 0) {
		int quiet = open("/dev/null", O_WRONLY);

		dup2(quiet, 1);
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(99);
		execv(program, arguments + 4);
		_exit(98);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99)
		SKIP("ptrace is not permitted here");
	CHECK(WIFSTOPPED(status));
	CHECK_EQUAL(ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACEEXIT), 0);
	while (WIFSTOPPED(status) && status >> 8 != (SIGTRAP | PTRACE_EVENT_EXIT << 8)) {
		int signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);

		CHECK_EQUAL(ptrace(PTRACE_CONT, child, NULL, signal), 0);
		CHECK_EQUAL(waitpid(child, &status, 0), child);
	}
	CHECK(WIFSTOPPED(status));
	copy(child, load_address(child, program) + strtoull(arguments[2], NULL, 16), strtoull(arguments[3], NULL, 16),
	     arguments[1]);
	CHECK_EQUAL(ptrace(PTRACE_CONT, child, NULL, 0), 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	free(program);
	return 0;
}
