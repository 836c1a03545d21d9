/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An extension for PostgreSQL, with the guard: it sits in the executor's hooks, and each setting is a parameter of the server,
 * `guard.NAME`. SET changes the code of one session's process, ALTER SYSTEM and pg_reload_conf() that of every process, and the end
 * of a transaction takes back what SET LOCAL changed. guard_status() says what happened so far in all processes.
 * Load it by shared_preload_libraries; the postmaster's children then inherit its patched code.
 */
#include <postgres.h>

#include <executor/executor.h>
#include <fmgr.h>
#include <miscadmin.h>
#include <utils/builtins.h>
#include <utils/guc.h>

#include "guard.h"

#ifndef SETTINGS_PLAIN
#include <patchpoint.h>
#endif
#include <sys/mman.h>

/* The server looks these up; everything else is hidden. */
#define FOUND_BY_SERVER __attribute__((visibility("default")))
FOUND_BY_SERVER const Pg_magic_struct *PG_MAGIC_FUNCTION_NAME(void);
FOUND_BY_SERVER const Pg_finfo_record *CppConcat(pg_finfo_, guard_status)(void);
FOUND_BY_SERVER Datum guard_status(PG_FUNCTION_ARGS);
FOUND_BY_SERVER void _PG_init(void);
PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(guard_status);

static ExecutorStart_hook_type start_before;
static ExecutorRun_hook_type run_before;
static ExecutorEnd_hook_type end_before;
static struct guard guard;

/* A parameter's new value is decided before its hook is called, and the hook must not fail: the code then goes on as before. */
static void changed(const char *name, int error)
{
	__atomic_add_fetch(error ? &guard.counts->refusals : &guard.counts->changes, 1, __ATOMIC_RELAXED);
	if (error)
		ereport(WARNING, (errmsg("guard.%s is not changed in process %d: %s", name, MyProcPid, strerror(-error))));
}

#define BRANCH_PARAMETER(name, initial, text) \
	static bool parameter_##name = initial; \
	static void assign_##name(bool value, void *extra) { (void)extra; changed(#name, guard_set_##name(value)); }
#define NUMBER_PARAMETER(name, initial, text) \
	static int parameter_##name = initial; \
	static void assign_##name(int value, void *extra) { (void)extra; changed(#name, guard_set_##name((uint64_t)value)); }
#define NAMED_PARAMETER(name, ...) \
	static const struct config_enum_entry name##_names[] = {__VA_ARGS__, {NULL, 0, false}}; \
	static int parameter_##name; \
	static void assign_##name(int value, void *extra) { (void)extra; changed(#name, guard_set_##name((unsigned)value)); }
GUARD_BRANCHES(BRANCH_PARAMETER)
GUARD_NUMBERS(NUMBER_PARAMETER)
NAMED_PARAMETER(policy, {"each", 0, false}, {"saved", 1, false}, {"open", 2, false})
NAMED_PARAMETER(weight, {"itself", 0, false}, {"thousands", 1, false})
NAMED_PARAMETER(observer, {"nothing", 0, false}, {"count", 1, false})

/* Between the executor and whoever takes the rows; in `run`'s frame. */
struct receiver {
	DestReceiver public;
	DestReceiver *next;
	struct guard_statement statement;
};

static void receive_startup(DestReceiver *self, int operation, TupleDesc type)
{
	DestReceiver *next = ((struct receiver *)self)->next;

	next->rStartup(next, operation, type);
}

static bool receive(TupleTableSlot *slot, DestReceiver *self)
{
	struct receiver *receiver = (struct receiver *)self;

	if (!guard_row(&guard, &receiver->statement, (unsigned)slot->tts_tupleDescriptor->natts))
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("the guard refuses row %lu of a statement", receiver->statement.rows),
				errhint("See the parameters guard.rows_max and guard.width_max.")));
	return receiver->next->receiveSlot(slot, receiver->next);
}

static void receive_shutdown(DestReceiver *self)
{
	DestReceiver *next = ((struct receiver *)self)->next;

	next->rShutdown(next);
}

static void receive_destroy(DestReceiver *self)
{
	(void)self;
}

static void start(QueryDesc *query, int flags)
{
	struct guard_statement statement = {
		.kind = query->operation == CMD_SELECT && !query->plannedstmt->rowMarks ? GUARD_READ
			: query->operation == CMD_UTILITY				 ? GUARD_OTHER
											 : GUARD_WRITE,
		.cost = (uint64_t)query->plannedstmt->planTree->total_cost,
	};

	/* EXPLAIN without ANALYZE runs nothing. */
	if (!(flags & EXEC_FLAG_EXPLAIN_ONLY) && !guard_start(&guard, &statement))
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("the guard refuses a statement of cost %lu", statement.cost),
				errhint("See the parameters guard.cost_max, guard.policy and guard.read_only.")));
	if (start_before)
		start_before(query, flags);
	else
		standard_ExecutorStart(query, flags);
}

static void run(QueryDesc *query, ScanDirection direction, uint64 count, bool once)
{
	struct receiver receiver = {
		.public = {receive, receive_startup, receive_shutdown, receive_destroy, query->dest->mydest},
		.next = query->dest,
	};

	guard_run(&guard, &receiver.statement);
	query->dest = &receiver.public;
	PG_TRY();
	{
		if (run_before)
			run_before(query, direction, count, once);
		else
			standard_ExecutorRun(query, direction, count, once);
	}
	PG_FINALLY();
	{
		query->dest = receiver.next;
	}
	PG_END_TRY();
}

static void end(QueryDesc *query)
{
	struct guard_statement statement = {.rows = query->estate ? query->estate->es_processed : 0};

	guard_end(&guard, &statement);
	if (end_before)
		end_before(query);
	else
		standard_ExecutorEnd(query);
}

Datum guard_status(PG_FUNCTION_ARGS)
{
	const struct guard_counts *counts = guard.counts;
	char text[640] = "plain variables";

	(void)fcinfo;
#ifndef SETTINGS_PLAIN
	struct patchpoint_status library;

	if (patchpoint_status(&library) == 0)
		snprintf(text, sizeof text, "sites %zu, writer %s, protocol %s%s%s", library.sites, library.writer_name, library.protocol_name,
			 *library.protocol_reason ? ", since " : "", library.protocol_reason);
#endif
	snprintf(text + strlen(text), sizeof text - strlen(text),
		 "; all processes: changes %lu, refused %lu, started %lu, run %lu, rows %lu, ended %lu, statements refused %lu, observed %lu", counts->changes,
		 counts->refusals, counts->traced[POINT_START], counts->traced[POINT_RUN], counts->traced[POINT_ROW], counts->traced[POINT_END],
		 counts->traced[POINT_REFUSED], counts->observed);
	PG_RETURN_TEXT_P(cstring_to_text(text));
}

void _PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR, (errmsg("the guard must be loaded by shared_preload_libraries")));
	/* All processes are forks of this one. */
	guard.counts = mmap(NULL, sizeof *guard.counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (guard.counts == MAP_FAILED)
		ereport(ERROR, (errmsg("the guard has no shared memory: %m")));
#ifndef SETTINGS_PLAIN
	int error = patchpoint_init();

	if (error)
		ereport(ERROR, (errmsg("the guard's code cannot be patched: %s", strerror(-error))));
#endif
#define DEFINE_BRANCH(name, initial, text) \
	DefineCustomBoolVariable("guard." #name, text, NULL, &parameter_##name, initial, PGC_SUSET, 0, NULL, assign_##name, NULL);
#define DEFINE_NUMBER(name, initial, text) \
	DefineCustomIntVariable("guard." #name, text, NULL, &parameter_##name, initial, 0, 1000000000, PGC_SUSET, 0, NULL, assign_##name, NULL);
#define DEFINE_NAMED(name, text) \
	DefineCustomEnumVariable("guard." #name, text, NULL, &parameter_##name, 0, name##_names, PGC_SUSET, 0, NULL, assign_##name, NULL);
	GUARD_BRANCHES(DEFINE_BRANCH)
	GUARD_NUMBERS(DEFINE_NUMBER)
	DEFINE_NAMED(policy, "how costs are judged: each statement by itself, with what cheaper ones saved, or not at all")
	DEFINE_NAMED(weight, "what a statement weighs: its cost itself, or in whole thousands")
	DEFINE_NAMED(observer, "what happens at each start: nothing, or an observer counts it")
	start_before = ExecutorStart_hook;
	run_before = ExecutorRun_hook;
	end_before = ExecutorEnd_hook;
	ExecutorStart_hook = start;
	ExecutorRun_hook = run;
	ExecutorEnd_hook = end;
}
