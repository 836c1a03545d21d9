/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * User-mode instructions of each form per operation, including the loop around it. A child executes the form with two different
 * numbers of passes while this process steps the child; the difference of the counts belongs to the passes alone. A second child in
 * which nothing was patched gives the forms as compiled.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <patchpoint.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* The exit status of a child that cannot be counted. */
enum { NOT_TRACEABLE = 3, NOT_PATCHED = 4 };

static int is_data(const struct patchpoint_site_info *info, void *unused)
{
	(void)unused;
	return strcmp(info->state, "data") == 0;
}

/* If a site were not patched, the counts would be those of another form. */
static bool all_patched(void)
{
	struct patchpoint_status status;

	return patchpoint_init() == 0 && patchpoint_status(&status) == 0 && status.writer != PATCHPOINT_WRITER_NONE &&
	       patchpoint_site_iterate(is_data, NULL) == 0;
}

static uint64_t passes_of(const struct form *form, uint64_t ops)
{
	return (ops + form->ops - 1) / form->ops;
}

static void execute_all(const struct form *forms, size_t count, uint64_t ops)
{
	for (size_t i = 0; i < count; i++) {
		const uint64_t passes = passes_of(&forms[i], ops), executions[] = {passes, passes, 2 * passes};

		/* A loop that is not unrolled, so that the same instructions surround each execution. */
		for (const uint64_t *now = executions; now < executions + 3; now++) {
			OPAQUE(now);
			forms[i].run(*now);
			steps_mark();
		}
	}
}

static pid_t child_start(const struct form *forms, size_t count, uint64_t ops, bool patch)
{
	pid_t child = fork();

	if (child != 0)
		return child;
	if (patch && !all_patched())
		_exit(NOT_PATCHED);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(NOT_TRACEABLE);
	steps_mark();
	execute_all(forms, count, ops);
	_exit(0);
}

/* Runs the child at full speed to its next mark. */
static bool run_on(pid_t child)
{
	int status;

	return ptrace(PTRACE_CONT, child, NULL, NULL) == 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status);
}

/* Counts one form's instructions per operation. */
static bool count_form(pid_t child, const struct form *form, uint64_t ops, double *instructions)
{
	uint64_t once, twice;

	/* The first execution runs at full speed, for the sake of lazy binding. */
	if (!run_on(child) || !steps_count(child, &once) || !steps_count(child, &twice))
		return false;
	*instructions = (double)(twice - once) / (double)(passes_of(form, ops) * form->ops);
	return true;
}

static int refuse(const char *why)
{
	fprintf(stderr, "SKIPPED: bench: no instructions are counted: %s\n", why);
	return 0;
}

int instructions_print(const struct form *forms, size_t count, uint64_t ops)
{
	pid_t children[2];
	int error = 0;

	steps_prepare();
	for (int patched = 0; patched < 2; patched++) {
		int status = 0;

		fflush(stdout);
		children[patched] = child_start(forms, count, ops, patched);
		if (children[patched] < 0)
			return refuse("no process can be made");
		if (waitpid(children[patched], &status, 0) == children[patched] && !WIFSTOPPED(status)) {
			if (patched)
				kill(children[0], SIGKILL);
			return refuse(WEXITSTATUS(status) == NOT_PATCHED ? "sites cannot be patched here" : "no child may be traced here");
		}
	}
	printf("user-mode instructions per operation, the loop around it included; counted one by one\n");
	for (size_t i = 0; i < count && !error; i++) {
		double compiled, patched;

		if (!count_form(children[0], &forms[i], ops, &compiled) || !count_form(children[1], &forms[i], ops, &patched)) {
			fprintf(stderr, "bench: the process that executes '%s' ended while it was counted\n", forms[i].name);
			error = 1;
			break;
		}
		if (i == 0 || strcmp(forms[i].group, forms[i - 1].group) != 0)
			printf("%s\n", forms[i].group);
		printf("  %-44s %9.2f", forms[i].name, patched);
		if (forms[i].patched)
			printf("   as compiled %9.2f", compiled);
		printf("\n");
	}
	for (int patched = 0; patched < 2; patched++) {
		kill(children[patched], SIGKILL);
		waitpid(children[patched], NULL, 0);
	}
	return error;
}
