/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every function and macro of the API, on every build: native, portable, static, shared. */
#define PATCHPOINT_OPS
#include <patchpoint.h>

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

typedef long (*transform)(long);

PATCHPOINT_DECLARE_CALL(none, void);
PATCHPOINT_DECLARE_CALL(no_argument, int);
PATCHPOINT_DECLARE_CALL(one, long, long);
PATCHPOINT_DECLARE_CALL(two, unsigned, unsigned char, short);
PATCHPOINT_DECLARE_CALL(three, void *, const char *, int, char);
PATCHPOINT_DECLARE_CALL(four, bool, long, long, long, long);
PATCHPOINT_DECLARE_CALL(five, long, int, int, int, int, int);
PATCHPOINT_DECLARE_CALL(six, long, long, long, long, long, long, transform);
PATCHPOINT_DECLARE_CALL(missing_trap, long, long);
PATCHPOINT_DECLARE_CALL(missing_zero, long, long);
PATCHPOINT_DECLARE_CALL(missing_nothing, void, long);
PATCHPOINT_DECLARE_VALUE(value_8, int8_t);
PATCHPOINT_DECLARE_VALUE(value_16, uint16_t);
PATCHPOINT_DECLARE_VALUE(value_32, int);
PATCHPOINT_DECLARE_VALUE(value_64, int64_t);
PATCHPOINT_DECLARE_VALUE(value_bool, bool);
PATCHPOINT_DECLARE_VALUE(value_pointer, const char *);
PATCHPOINT_DECLARE_BRANCH(on);
PATCHPOINT_DECLARE_BRANCH(off);

static int ran;
static void count(void) { ran++; }
static void count_twice(void) { ran += 2; }
static int five_of_them(void) { return 5; }
static int counted(void) { return ran; }
static long identity(long a) { return a; }
static long twice(long a) { return 2 * a; }
static unsigned add(unsigned char a, short b) { return (unsigned)(a + b); }
static void *at(const char *text, int offset, char unused) { (void)unused; return (void *)(text + offset); }
static bool ascending(long a, long b, long c, long d) { return a < b && b < c && c < d; }
static bool never(long a, long b, long c, long d) { (void)a, (void)b, (void)c, (void)d; return false; }
static long digits(int a, int b, int c, int d, int e) { return a + 10 * b + 100 * c + 1000 * d + 10000 * e; }
static long apply(long a, long b, long c, long d, long e, transform f) { return f(a + b + c + d + e); }
static long last(long a, long b, long c, long d, long e, transform f)
{
	(void)a, (void)b, (void)c, (void)d, (void)f;
	return e;
}

PATCHPOINT_DEFINE_CALL_OR(none, count, NOTHING);
PATCHPOINT_DEFINE_CALL(no_argument, five_of_them);
PATCHPOINT_DEFINE_CALL_OR(one, twice, ZERO);
PATCHPOINT_DEFINE_SAVED(one);
PATCHPOINT_DEFINE_CALL(two, add);
PATCHPOINT_DEFINE_CALL(three, at);
PATCHPOINT_DEFINE_CALL(four, ascending);
PATCHPOINT_DEFINE_CALL(five, digits);
PATCHPOINT_DEFINE_SAVED(five);
PATCHPOINT_DEFINE_CALL(six, apply);
PATCHPOINT_DEFINE_CALL_NULL(missing_trap, TRAP);
PATCHPOINT_DEFINE_CALL_NULL(missing_zero, ZERO);
PATCHPOINT_DEFINE_CALL_NULL(missing_nothing, NOTHING);
PATCHPOINT_DEFINE_VALUE(value_8, int8_t, -8);
PATCHPOINT_DEFINE_VALUE(value_16, uint16_t, 65535);
PATCHPOINT_DEFINE_VALUE(value_32, int, -32);
PATCHPOINT_DEFINE_VALUE(value_64, int64_t, INT64_MIN);
PATCHPOINT_DEFINE_VALUE(value_bool, bool, true);
PATCHPOINT_DEFINE_VALUE(value_pointer, const char *, "first");
PATCHPOINT_DEFINE_BRANCH(on, true);
PATCHPOINT_DEFINE_BRANCH(off, false);

/* Before main and before the objects' own constructors: sites as compiled. */
static void check_initial(void)
{
	ran = 0;
	patchpoint_call(none);
	CHECK_EQUAL(ran, 1);
	CHECK_EQUAL(patchpoint_call(no_argument), 5);
	CHECK_EQUAL(patchpoint_call(one, 21), 42);
	CHECK_EQUAL(patchpoint_call_saved(one, 4), 8);
	CHECK_EQUAL(patchpoint_call(two, 250, -20), 230);
	CHECK_EQUAL(*(char *)patchpoint_call(three, "abc", 2, 'x'), 'c');
	CHECK(patchpoint_call(four, 1, 2, 3, 4));
	CHECK(!patchpoint_call(four, 1, 2, 4, 3));
	CHECK_EQUAL(patchpoint_call(five, 1, 2, 3, 4, 5), 54321);
	CHECK_EQUAL(patchpoint_call_saved(five, 5, 4, 3, 2, 1), 12345);
	CHECK_EQUAL(patchpoint_call(six, 1, 2, 3, 4, 5, twice), 30);
	CHECK_EQUAL(patchpoint_call(missing_zero, 9), 0);
	patchpoint_call(missing_nothing, 9);
	CHECK_EQUAL(patchpoint_value(value_8), -8);
	CHECK_EQUAL(patchpoint_value(value_16), 65535);
	CHECK_EQUAL(patchpoint_value(value_32), -32);
	CHECK_EQUAL(patchpoint_value(value_64), INT64_MIN);
	CHECK(patchpoint_value(value_bool));
	CHECK(strcmp(patchpoint_value(value_pointer), "first") == 0);
	CHECK(patchpoint_likely(on));
	CHECK(patchpoint_unlikely(on));
	CHECK(!patchpoint_likely(off));
	CHECK(!patchpoint_unlikely(off));
}

__attribute__((constructor(102))) static void before_main(void)
{
	check_initial();
}

static void check_sets(void)
{
	CHECK_EQUAL(patchpoint_set_call(none, count_twice), 0);
	ran = 0;
	patchpoint_call(none);
	CHECK_EQUAL(ran, 2);
	CHECK_EQUAL(patchpoint_set_call(none, NULL), 0);
	patchpoint_call(none);
	CHECK_EQUAL(ran, 2);
	CHECK_EQUAL(patchpoint_set_call(no_argument, counted), 0);
	CHECK_EQUAL(patchpoint_call(no_argument), 2);
	CHECK_EQUAL(patchpoint_set_call(one, identity), 0);
	CHECK_EQUAL(patchpoint_call(one, INT64_MIN), INT64_MIN);
	CHECK_EQUAL(patchpoint_call_saved(one, -1), -1);
	CHECK_EQUAL(patchpoint_set_call(one, NULL), 0);
	CHECK_EQUAL(patchpoint_call(one, 7), 0);
	CHECK_EQUAL(patchpoint_set_call(four, never), 0);
	CHECK(!patchpoint_call(four, 1, 2, 3, 4));
	CHECK_EQUAL(patchpoint_set_call(six, last), 0);
	CHECK_EQUAL(patchpoint_call(six, 1, 2, 3, 4, 55, twice), 55);
	for (int value = INT8_MIN; value <= INT8_MAX; value++) {
		CHECK_EQUAL(patchpoint_set_value(value_8, (int8_t)value), 0);
		CHECK_EQUAL(patchpoint_value(value_8), value);
	}
	CHECK_EQUAL(patchpoint_set_value(value_16, 1), 0);
	CHECK_EQUAL(patchpoint_value(value_16), 1);
	CHECK_EQUAL(patchpoint_set_value(value_32, INT32_MIN), 0);
	CHECK_EQUAL(patchpoint_value(value_32), INT32_MIN);
	CHECK_EQUAL(patchpoint_set_value(value_64, 0x0123456789abcdef), 0);
	CHECK_EQUAL(patchpoint_value(value_64), 0x0123456789abcdef);
	CHECK_EQUAL(patchpoint_set_value(value_bool, false), 0);
	CHECK(!patchpoint_value(value_bool));
	CHECK_EQUAL(patchpoint_set_value(value_pointer, "second"), 0);
	CHECK(strcmp(patchpoint_value(value_pointer), "second") == 0);
	CHECK_EQUAL(patchpoint_set_branch(on, false), 0);
	CHECK(!patchpoint_likely(on) && !patchpoint_unlikely(on));
	CHECK_EQUAL(patchpoint_set_branch(off, true), 0);
	CHECK(patchpoint_likely(off) && patchpoint_unlikely(off));
}

static void restore(void)
{
	struct patchpoint_txn txn;

	CHECK_EQUAL(patchpoint_txn_begin(&txn), 0);
	CHECK_EQUAL(patchpoint_txn_set_call(&txn, none, count), 0);
	CHECK_EQUAL(patchpoint_txn_set_call(&txn, no_argument, five_of_them), 0);
	CHECK_EQUAL(patchpoint_txn_set_call(&txn, one, identity), 0);
	CHECK_EQUAL(patchpoint_txn_set_call(&txn, one, twice), 0); /* the last one counts */
	CHECK_EQUAL(patchpoint_txn_set_call(&txn, four, ascending), 0);
	CHECK_EQUAL(patchpoint_txn_set_call(&txn, six, apply), 0);
	CHECK_EQUAL(patchpoint_txn_set_value(&txn, value_8, -8), 0);
	CHECK_EQUAL(patchpoint_txn_set_value(&txn, value_16, 65535), 0);
	CHECK_EQUAL(patchpoint_txn_set_value(&txn, value_32, -32), 0);
	CHECK_EQUAL(patchpoint_txn_set_value(&txn, value_64, INT64_MIN), 0);
	CHECK_EQUAL(patchpoint_txn_set_value(&txn, value_bool, true), 0);
	CHECK_EQUAL(patchpoint_txn_set_value(&txn, value_pointer, "first"), 0);
	CHECK_EQUAL(patchpoint_txn_set_branch(&txn, on, true), 0);
	CHECK_EQUAL(patchpoint_txn_set_branch(&txn, off, false), 0);
	CHECK(patchpoint_unlikely(off)); /* nothing happens before the commit */
	CHECK_EQUAL(patchpoint_txn_commit(&txn), 0);
}

static void check_transactions(void)
{
	struct patchpoint_txn txn;

	CHECK_EQUAL(patchpoint_txn_begin(NULL), -EINVAL);
	CHECK_EQUAL(patchpoint_txn_commit(NULL), -EINVAL);
	CHECK_EQUAL(patchpoint_txn_abort(NULL), -EINVAL);
	CHECK_EQUAL(patchpoint_txn_begin(&txn), 0);
	CHECK_EQUAL(patchpoint_txn_commit(&txn), 0);
	CHECK_EQUAL(patchpoint_txn_begin(&txn), 0);
	for (int i = 0; i < 1000; i++)
		CHECK_EQUAL(patchpoint_txn_set_value(&txn, value_32, i), 0);
	CHECK_EQUAL(patchpoint_txn_abort(&txn), 0);
	CHECK_EQUAL(patchpoint_value(value_32), -32);
	/* An error of a set is the commit's, and nothing is changed. */
	CHECK_EQUAL(patchpoint_txn_begin(&txn), 0);
	CHECK_EQUAL(patchpoint_txn_set_value(&txn, value_32, 1), 0);
	CHECK_EQUAL(patchpoint_txn_set(&txn, NULL, 1), -EINVAL);
	CHECK_EQUAL(patchpoint_txn_commit(&txn), -EINVAL);
	CHECK_EQUAL(patchpoint_value(value_32), -32);
	CHECK_EQUAL(patchpoint_key_set(NULL, 1), -EINVAL);
}

static void check_alternatives(void)
{
	const struct patchpoint_alternative alternatives[] = {
		{PATCHPOINT_CPU_ALL, (patchpoint_function)identity}, /* no processor has all 32 */
		{PATCHPOINT_CPU_POPCNT, (patchpoint_function)identity},
		{0, (patchpoint_function)twice},
	};
	int best = patchpoint_cpu_features() & PATCHPOINT_CPU_POPCNT ? 1 : 2;

	CHECK_EQUAL(patchpoint_choose(&patchpoint_key_one, alternatives, 3, PATCHPOINT_CPU_ALL), best);
	CHECK_EQUAL(patchpoint_call(one, 5), best == 1 ? 5 : 10);
	CHECK_EQUAL(patchpoint_choose(&patchpoint_key_one, alternatives, 3, 0), 2);
	CHECK_EQUAL(patchpoint_call(one, 5), 10);
	CHECK_EQUAL(patchpoint_choose(&patchpoint_key_one, alternatives, 1, PATCHPOINT_CPU_ALL), -ENOENT);
	CHECK_EQUAL(patchpoint_call(one, 5), 10);
}

static void check_ops(void)
{
	uint64_t before = patchpoint_key_value_32.ops, calls = patchpoint_key_one.ops, branches = patchpoint_key_on.ops;

	for (int i = 0; i < 10; i++)
		CHECK_EQUAL(patchpoint_value(value_32), -32);
	patchpoint_call(one, 1);
	(void)patchpoint_likely(on);
	CHECK_EQUAL(patchpoint_key_value_32.ops - before, 10);
	CHECK_EQUAL(patchpoint_key_one.ops - calls, 1);
	CHECK_EQUAL(patchpoint_key_on.ops - branches, 1);
}

static void *add_some(void *unused)
{
	for (int i = 0; i < 1000; i++)
		patchpoint_ops_add(3);
	return unused;
}

/* What the program counts itself, from several threads, is no key's. */
static void check_ops_of_program(void)
{
	const struct patchpoint_registry *found = patchpoint_registry_get();
	uint64_t before = found->ops, of_key = patchpoint_key_one.ops;
	pthread_t threads[2];

	CHECK(found->size >= offsetof(struct patchpoint_registry, ops) + sizeof found->ops);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, add_some, NULL), 0);
	add_some(NULL);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
	CHECK_EQUAL(found->ops - before, 9000);
	CHECK_EQUAL(patchpoint_key_one.ops, of_key);
}

static int count_sites(const struct patchpoint_site_info *info, void *argument)
{
	size_t *sites = argument;

	CHECK(info->key->name && info->address && info->object && info->length >= 5 && info->length <= 10);
	CHECK(strcmp(info->state, "foreign") != 0);
	++*sites;
	return 0;
}

static int inside_visit(const struct patchpoint_site_info *info, void *argument)
{
	(void)info, (void)argument;
	CHECK_EQUAL(patchpoint_set_value(value_32, 1), -EDEADLK);
	return 77;
}

static void check_introspection(void)
{
	struct patchpoint_status status;
	size_t sites = 0;

	CHECK_EQUAL(patchpoint_status(NULL), -EINVAL);
	CHECK_EQUAL(patchpoint_status(&status), 0);
	CHECK_EQUAL(patchpoint_site_iterate(NULL, NULL), -EINVAL);
	CHECK_EQUAL(patchpoint_site_iterate(count_sites, &sites), 0);
	CHECK_EQUAL(sites, status.sites);
	CHECK(strcmp((const char *)patchpoint_registry_get()->magic, "patchpt") == 0);
	CHECK_EQUAL(patchpoint_registry_get()->format, PATCHPOINT_FORMAT);
	CHECK_EQUAL(patchpoint_registry_get()->lock, 0);
	if (NATIVE) {
		CHECK(sites > 50);
		CHECK_EQUAL(status.objects, 1);
		CHECK_EQUAL(patchpoint_site_iterate(inside_visit, NULL), 77);
		CHECK_EQUAL(patchpoint_value(value_32), -32);
		/* emulators.sh expects this refusal; anywhere else it would be an error. */
		if (getenv("PATCHPOINT_EMULATED")) {
			CHECK(status.writer == PATCHPOINT_WRITER_NONE && status.fallback);
			printf("%s\n", status.reason);
			return;
		}
		CHECK(status.writer != PATCHPOINT_WRITER_NONE && !status.fallback && status.sync_core);
	} else {
		CHECK_EQUAL(sites, 0);
		CHECK_EQUAL(status.writer, PATCHPOINT_WRITER_NONE);
		CHECK(status.fallback && strcmp(status.reason, "portable build") == 0);
	}
}

static bool read_own(void *reads, uint64_t address, uint8_t *byte)
{
	++*(int *)reads;
	*byte = *(const volatile uint8_t *)(uintptr_t)address;
	return true;
}

/* What a tool is told of a function is what a change to it makes of the key. */
static void check_body(void)
{
	const transform functions[] = {identity, twice};
	uint8_t body[6] = {0};
	int reads = 0;

	for (unsigned i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		int found = patchpoint_body(read_own, &reads, (uint64_t)(uintptr_t)functions[i], body);

		CHECK_EQUAL(patchpoint_set_call(one, functions[i]), 0);
		CHECK_EQUAL(found, patchpoint_key_one.form == PATCHPOINT_FORM_INLINE);
		CHECK(!found || memcmp(body, patchpoint_key_one.body, sizeof body) == 0);
	}
	CHECK_EQUAL(reads > 0, NATIVE);
	CHECK_EQUAL(patchpoint_body(NULL, &reads, 1, body), -EINVAL);
	CHECK_EQUAL(patchpoint_body(read_own, &reads, 1, NULL), -EINVAL);
	CHECK_EQUAL(patchpoint_set_call(one, twice), 0);
}

int main(void)
{
	check_initial();
	check_sets(); /* before patchpoint_init */
	restore();
	check_initial();
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(patchpoint_init(), 0);
	check_initial();
	check_sets();
	restore();
	check_initial();
	check_transactions();
	check_alternatives();
	check_ops();
	check_ops_of_program();
	check_body();
	check_introspection();
	return 0;
}
