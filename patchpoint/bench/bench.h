/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the files of the benchmark share. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One form of some code: makes `passes` passes of `reads` operations each, and returns something that depends on them. */
struct form {
	const char *group; /* forms of a group are compared with its first */
	const char *name;
	uint64_t (*run)(uint64_t passes);
	bool cold; /* one pass, after the caches were thrashed */
	unsigned reads;
};

extern const struct form forms[];
extern const size_t form_count;

/* Puts every key of the forms into the state that they measure. 0 or -errno. */
int forms_prepare(void);
void caches_thrash(void);
uint64_t now_ns(void);
uint64_t thread_ns(void); /* processor time of the calling thread */
double median(double *values, size_t count);

/* Prints the cost of transactions; `repetitions` of each. 0 or -errno. */
int transactions_measure(size_t repetitions);
/* Sites of the keys that the transactions change. */
enum { SITE_KEYS = 4 };
int site_keys_set(int value);
uint64_t sites_execute(void);

#endif
