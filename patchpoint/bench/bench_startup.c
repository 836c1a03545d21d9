/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The cost of sites for a program's start and for its first change: programs without sites and with 100,000 run in turn. Measured
 * are the processor time of the process until main begins, exec and the dynamic linker included; its instructions in user mode
 * until then, counted one by one; and the first change of a key with fifty sites among 10,000.
 * Usage: patchpoint_bench_startup FOLDER [--quick]    FOLDER holds the programs startup_0, startup_10000, …
 */
#define _GNU_SOURCE
#include "bench.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPETITIONS_MAX = 101 };

struct program {
	const char *name;
	const char *file;
};
static const struct program programs[] = {
	{"0 sites", "startup_0"},
	{"100,000 sites", "startup_100000"},
	{"100,000 sites, patched before main", "startup_100000_at_load"},
};
enum { PROGRAMS = sizeof programs / sizeof programs[0] };

static const char *folder;

/* Executes a program, in the child. */
static void execute(const char *file, const char *const words[3])
{
	char path[PATH_MAX];
	const char *const arguments[] = {path, words[0], words[1], words[2], NULL}, *const environment[] = {NULL};

	snprintf(path, sizeof path, "%s/%s", folder, file);
	execve(path, (char *const *)(uintptr_t)arguments, (char *const *)(uintptr_t)environment);
	_exit(127);
}

/* Runs a program and reads the numbers that it prints. Exits with a message if the program fails. */
static void run(const char *file, const char *const words[3], double *numbers, int count)
{
	int pipes[2], status;
	FILE *output;
	pid_t child;

	if (pipe(pipes) != 0 || (child = fork()) < 0) {
		perror("bench: cannot start a program");
		exit(1);
	}
	if (child == 0) {
		dup2(pipes[1], STDOUT_FILENO);
		close(pipes[0]);
		close(pipes[1]);
		execute(file, words);
	}
	close(pipes[1]);
	output = fdopen(pipes[0], "r");
	for (int i = 0; i < count; i++)
		if (!output || fscanf(output, "%lf", &numbers[i]) != 1)
			numbers[i] = -1;
	if (output)
		fclose(output);
	if (waitpid(child, &status, 0) != child || status != 0 || numbers[count - 1] < 0) {
		fprintf(stderr, "bench: %s/%s failed (status %#x); build all targets, then give their folder\n", folder, file, status);
		exit(1);
	}
}

static void startup_print(size_t repetitions)
{
	static double us[PROGRAMS][REPETITIONS_MAX], more[PROGRAMS][REPETITIONS_MAX];

	for (size_t repetition = 0; repetition < repetitions; repetition++)
		for (size_t i = 0; i < PROGRAMS; i++) {
			run(programs[i].file, (const char *const[3]){NULL}, &us[i][repetition], 1);
			us[i][repetition] /= 1000;
			more[i][repetition] = us[i][repetition] - us[0][repetition];
		}
	printf("processor time of a process until main begins, in microseconds: median (quartiles); more than without sites; %zu starts "
	       "each, in turn\n",
	       repetitions);
	for (size_t i = 0; i < PROGRAMS; i++) {
		struct spread time = spread_of(us[i], repetitions), difference = spread_of(more[i], repetitions);

		printf("  %-36s %9.0f  (%9.0f - %9.0f)  %+9.0f  (%+9.0f - %+9.0f)\n", programs[i].name, time.median, time.low, time.high,
		       difference.median, difference.low, difference.high);
	}
}

/* Counts instructions until main; false if processes may not be traced. */
static bool count_instructions(const char *file, uint64_t *instructions)
{
	pid_t child = fork();
	bool counted;
	int status;

	if (child < 0)
		return false;
	if (child == 0) {
		/* The same addresses each time make the same instructions. */
		personality(ADDR_NO_RANDOMIZE);
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(1);
		execute(file, (const char *const[3]){"stop"});
	}
	/* The child stops at exec. */
	counted = waitpid(child, &status, 0) == child && WIFSTOPPED(status) && steps_count(child, instructions);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return counted;
}

static void instructions_until_main_print(bool quick)
{
	uint64_t first = 0;

	steps_prepare();
	for (size_t i = 0; i < (quick ? 1 : 2); i++) {
		uint64_t instructions, again = 0;

		if (!count_instructions(programs[i].file, &instructions) ||
		    (!quick && !count_instructions(programs[i].file, &again))) {
			fprintf(stderr, "bench: no instructions are counted: no child may be traced here\n");
			return;
		}
		if (i == 0) {
			first = instructions;
			printf("instructions in user mode until main begins, the dynamic linker's included; more than without sites\n");
		}
		printf("  %-36s %9llu  %+9lld%s\n", programs[i].name, (unsigned long long)instructions,
		       (long long)(instructions - first), quick || instructions == again ? "" : "  (another number the second time)");
	}
}

static void first_change_print(const char *name, const char *const words[3], size_t repetitions)
{
	static double samples[4][REPETITIONS_MAX];
	struct spread first, first_elapsed, second, second_elapsed;
	double numbers[5];

	for (size_t repetition = 0; repetition < repetitions; repetition++) {
		run("startup_10000", words, numbers, 5);
		for (int i = 0; i < 4; i++)
			samples[i][repetition] = numbers[1 + i] / 1000;
	}
	first_elapsed = spread_of(samples[0], repetitions);
	first = spread_of(samples[1], repetitions);
	second_elapsed = spread_of(samples[2], repetitions);
	second = spread_of(samples[3], repetitions);
	printf("  %s\n", name);
	printf("    first   %7.0f  (%7.0f - %7.0f)  elapsed %7.0f  (%7.0f - %7.0f)\n", first.median, first.low, first.high,
	       first_elapsed.median, first_elapsed.low, first_elapsed.high);
	printf("    second  %7.0f  (%7.0f - %7.0f)  elapsed %7.0f  (%7.0f - %7.0f)\n", second.median, second.low, second.high,
	       second_elapsed.median, second_elapsed.low, second_elapsed.high);
}

int main(int count, char **arguments)
{
	bool quick = count == 3 && strcmp(arguments[2], "--quick") == 0;
	size_t repetitions = quick ? 2 : REPETITIONS_MAX;

	if (count < 2 || count > 3 || (count == 3 && !quick)) {
		fprintf(stderr, "usage: patchpoint_bench_startup FOLDER [--quick]\n");
		return 2;
	}
	folder = arguments[1];
	startup_print(repetitions);
	printf("changes of a key with 50 sites, kilobytes apart, among 10,000: microseconds of processor time (quartiles)\n");
	first_change_print("one thread", (const char *const[3]){"change"}, repetitions);
	first_change_print("beside a thread", (const char *const[3]){"change", "beside"}, repetitions);
	first_change_print("beside a thread, patchpoint_init before there was one",
			   (const char *const[3]){"change", "beside", "initialised"}, repetitions);
	instructions_until_main_print(quick);
	return 0;
}
