/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Declarations that the files of the benchmark share. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

/* Keeps a variable in a register; the compiler does not know its value from here on. */
#define OPAQUE(x) __asm__ volatile("" : "+r"(x))

/* A loop whose rounds wait for one another; `body` is the operation on x. */
#define LOOP(name, body) \
	NOINLINE static uint64_t name(uint64_t ops) \
	{ \
		uint64_t x = 1; \
		for (uint64_t i = 0; i < ops; i++) { \
			body; \
			x += i; \
			OPAQUE(x); \
		} \
		return x; \
	}

/* One form of some code: `run` makes `passes` passes of `ops` operations each, and returns a number that depends on them. */
struct form {
	const char *group; /* a group's forms are compared with its first, which is code written by hand */
	const char *name;
	uint64_t (*run)(uint64_t passes);
	unsigned ops;
	bool patched;
	bool cold; /* one pass, after the caches were thrashed */
};

/* The forms of each file; they end where `group` is NULL. */
extern const struct form single_forms[]; /* bench_single.c: one operation a round of the loop, of every kind */
extern const struct form row_forms[];    /* bench_row.c: sixteen operations in a row */
extern const struct form variant_forms[]; /* bench_variants.c: functions that test settings */
extern const struct form read_forms[];   /* bench_reads.c: many values, caches hot and cold */

void reads_prepare(void); /* before read_forms are executed */
void caches_thrash(void);

/* measure.c: clocks, and statistics of samples. */
uint64_t now_ns(void);
uint64_t thread_ns(void); /* processor time of the calling thread */
struct spread {
	double low, median, high; /* quartiles */
};
struct spread spread_of(double *samples, size_t count); /* sorts them */
/* Returns the median's 95 % confidence interval for any distribution, by order statistics. `samples` are sorted. */
struct spread median_interval(const double *samples, size_t count);

/* steps.c: instructions of another process, counted one by one. */
void steps_prepare(void); /* before the child is made */
/* Counts the steps of a stopped child, which this process traces, until it stops itself again. False if the child ended. */
bool steps_count(pid_t child, uint64_t *steps);
/* In the child: marks the places between which steps are counted. */
void steps_mark(void);

/* bench_instructions.c, bench_changes.c: print their results; 0 or an exit status. */
int instructions_print(const struct form *forms, size_t count, uint64_t ops);
int changes_print(size_t repetitions);

/* bench_reads.c: sites of four keys near each other: nineteen blocks, and 272. */
#ifdef FEW_SITES
enum { READS_A_BLOCK = 32 };
#define NEAR_SITES_NAME "880 near sites"
#else
enum { READS_A_BLOCK = 512 };
#define NEAR_SITES_NAME "10,000 near sites"
#endif
enum { NEAR_SITES = 19 * READS_A_BLOCK + 272 };
int near_sites_set(int value);
uint64_t near_sites_execute(void);

#endif
