/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Functions that are compiled for each combination of their keys: every combination, in every order of changes, before anything is
 * patched and afterwards; misuse; and threads, for a bounded number of changes, that must always see one combination. With an
 * argument there are no threads.
 */
#define _GNU_SOURCE
#include "variants.h"

#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct settings {
	int before;
	struct patchpoint_key debug;
};
PATCHPOINT_DECLARE_HOLDER(struct settings, settings);
PATCHPOINT_DECLARE_BRANCH_IN(debug, settings, .debug);
PATCHPOINT_DECLARE_BRANCH(quiet);
PATCHPOINT_DECLARE_VALUE(limit, int);

PATCHPOINT_DEFINE_BRANCH(smp, false);
PATCHPOINT_DEFINE_SWITCH(mode, 3, 2);
PATCHPOINT_DEFINE_HOLDER(struct settings, settings) = {1, PATCHPOINT_BRANCH_INIT("debug", true)};
PATCHPOINT_DEFINE_BRANCH(quiet, false);
PATCHPOINT_DEFINE_VALUE(limit, int, 5);

/* A variable of the body is one variable, whichever variant runs. */
PATCHPOINT_DEFINE_VARIANTS(combined, long, (long, a), smp, mode, debug)
{
	static long calls;
	unsigned way = mode;

	calls++;
	return calls * 1000000 + a * 1000 + smp * 100 + way * 10 + debug;
}

static long work_done;
PATCHPOINT_DECLARE_CALL(empty_unless_smp, void);
PATCHPOINT_DEFINE_VARIANTS(empty_unless_smp, void, (void), smp)
{
	if (smp)
		work_done++;
}

/* Four keys, sixteen combinations; types of all kinds; a call of another function with variants; sites of the keys themselves. */
PATCHPOINT_DECLARE_BRANCH(b0);
PATCHPOINT_DECLARE_BRANCH(b1);
PATCHPOINT_DECLARE_BRANCH(b2);
PATCHPOINT_DECLARE_BRANCH(b3);
PATCHPOINT_DEFINE_BRANCH(b0, false);
PATCHPOINT_DEFINE_BRANCH(b1, true);
PATCHPOINT_DEFINE_BRANCH(b2, false);
PATCHPOINT_DEFINE_BRANCH(b3, true);
PATCHPOINT_DECLARE_CALL(sixteen, double, char, double, const char *, int (*)(int), bool, float);
PATCHPOINT_DEFINE_SAVED(sixteen);
static int negated(int a) { return -a; }
PATCHPOINT_DEFINE_VARIANTS(sixteen, double, (char, c, double, d, const char *, s, int (*)(int), f, bool, t, float, r), b0, b1, b2, b3)
{
	patchpoint_call(empty_unless_smp);
	return (b0 + 2 * b1 + 4 * b2 + 8 * b3) * 1000 + c + d + s[0] + f(1) + t + (double)r + (patchpoint_unlikely(b0) ? 100 : 0);
}

static long look(void)
{
	long seen = patchpoint_call(combined, 7), other = other_combined(7);

	CHECK_EQUAL(other - seen, 1000000);
	return seen % 1000;
}

/* Before constructors, calls ask the keys. */
static void before_constructors(void)
{
	CHECK_EQUAL(look(), 21);
}
__attribute__((section(".preinit_array"), used)) static void (*const at_first)(void) = before_constructors;

static void check_sixteen(unsigned combination)
{
	double expected = combination * 1000 + 1 + 2.5 + 'x' - 1 + 1 + 0.25 + (combination & 1 ? 100 : 0);

	CHECK(patchpoint_call(sixteen, 1, 2.5, "x", negated, true, 0.25f) == expected);
	CHECK(patchpoint_call_saved(sixteen, 1, 2.5, "x", negated, true, 0.25f) == expected);
}

static void check_combinations(void)
{
	struct patchpoint_txn txn;
	unsigned last = 10;

	check_sixteen(last);
	/* Every combination, once by the first changed key, once by the others, together and one by one. */
	for (unsigned i = 0; i < 64; i++) {
		unsigned combination = (i * 7 + 3) & 15;

		CHECK_EQUAL(patchpoint_txn_begin(&txn), 0);
		CHECK_EQUAL(patchpoint_txn_set_branch(&txn, b3, combination >> 3 & 1), 0);
		if (i & 16) {
			CHECK_EQUAL(patchpoint_txn_commit(&txn), 0);
			check_sixteen((last & 7) | (combination & 8));
			CHECK_EQUAL(patchpoint_set_branch(b0, combination & 1), 0);
			check_sixteen((last & 6) | (combination & 9));
			CHECK_EQUAL(patchpoint_txn_begin(&txn), 0);
		}
		CHECK_EQUAL(patchpoint_txn_set_branch(&txn, b2, !(combination >> 2 & 1)), 0);
		CHECK_EQUAL(patchpoint_txn_set_branch(&txn, b1, combination >> 1 & 1), 0);
		CHECK_EQUAL(patchpoint_txn_set_branch(&txn, b0, combination & 1), 0);
		CHECK_EQUAL(patchpoint_txn_set_value(&txn, limit, (int)i), 0);
		CHECK_EQUAL(patchpoint_txn_set_branch(&txn, b2, combination >> 2 & 1), 0); /* the last one counts */
		CHECK_EQUAL(patchpoint_txn_commit(&txn), 0);
		CHECK_EQUAL(patchpoint_value(limit), i);
		check_sixteen(combination);
		last = combination;
	}
	CHECK_EQUAL(patchpoint_txn_begin(&txn), 0);
	CHECK_EQUAL(patchpoint_txn_set_branch(&txn, b0, false), 0);
	CHECK_EQUAL(patchpoint_txn_set_branch(&txn, b1, true), 0);
	CHECK_EQUAL(patchpoint_txn_set_branch(&txn, b2, false), 0);
	CHECK_EQUAL(patchpoint_txn_set_branch(&txn, b3, true), 0);
	CHECK_EQUAL(patchpoint_txn_commit(&txn), 0);
}

static void check_changes(void)
{
	struct patchpoint_txn txn;

	CHECK_EQUAL(look(), 21);
	CHECK_EQUAL(patchpoint_set_branch(smp, true), 0);
	CHECK_EQUAL(look(), 121);
	CHECK_EQUAL(patchpoint_set_switch(mode, 0), 0);
	CHECK_EQUAL(look(), 101);
	CHECK_EQUAL(patchpoint_set_branch(debug, false), 0);
	CHECK_EQUAL(look(), 100);
	work_done = 0;
	patchpoint_call(empty_unless_smp);
	CHECK_EQUAL(work_done, 1);
	CHECK_EQUAL(patchpoint_set_branch(smp, false), 0);
	patchpoint_call(empty_unless_smp);
	CHECK_EQUAL(work_done, 1);
	CHECK_EQUAL(look(), 0);
	/* Users. */
	CHECK_EQUAL(patchpoint_branch_inc(smp), 0);
	CHECK_EQUAL(look(), 100);
	/* A change that is refused leaves everything, whichever key is the reason. */
	CHECK_EQUAL(patchpoint_txn_begin(&txn), 0);
	CHECK_EQUAL(patchpoint_txn_set_switch(&txn, mode, 2), 0);
	CHECK_EQUAL(patchpoint_txn_set_branch(&txn, smp, false), 0);
	CHECK_EQUAL(patchpoint_txn_commit(&txn), -EBUSY);
	CHECK_EQUAL(look(), 100);
	CHECK_EQUAL(patchpoint_branch_dec(smp), 0);
	CHECK_EQUAL(look(), 0);
	CHECK_EQUAL(patchpoint_txn_begin(&txn), 0);
	CHECK_EQUAL(patchpoint_txn_set_branch(&txn, debug, true), 0);
	CHECK_EQUAL(patchpoint_txn_set_switch(&txn, mode, 2), 0);
	CHECK_EQUAL(patchpoint_txn_commit(&txn), 0);
	CHECK_EQUAL(look(), 21);
}

/* Only the keys change the function. */
static void check_misuse(void)
{
	static long (*const function)(long) = other_combined;
	const struct patchpoint_alternative alternatives[] = {{0, (patchpoint_function)other_combined}};
	struct patchpoint_variants wrong = {NULL, &patchpoint_key_combined, {&patchpoint_key_limit}, NULL, 2, 1, 0};
	struct patchpoint_txn txn;

	CHECK_EQUAL(patchpoint_set_call(combined, function), -EINVAL);
	CHECK_EQUAL(patchpoint_choose(&patchpoint_key_combined, alternatives, 1, PATCHPOINT_CPU_ALL), -EINVAL);
	CHECK_EQUAL(patchpoint_txn_begin(&txn), 0);
	CHECK_EQUAL(patchpoint_txn_set_branch(&txn, smp, true), 0);
	CHECK_EQUAL(patchpoint_txn_set_call(&txn, combined, function), -EINVAL);
	CHECK_EQUAL(patchpoint_txn_commit(&txn), -EINVAL);
	CHECK_EQUAL(look(), 21);
	/* Records whose keys do not have as many combinations are not bound. */
	patchpoint_variants_register(&wrong);
	CHECK(!wrong.registered);
	wrong.keys[0] = &patchpoint_key_mode;
	patchpoint_variants_register(&wrong);
	CHECK(!wrong.registered);
	patchpoint_variants_unregister(&wrong);
	CHECK_EQUAL(look(), 21);
}

static bool patched;

static int note(const struct patchpoint_site_info *info, void *found)
{
	const char *wanted = strcmp(info->name, "combined") == 0	   ? "smp=0 mode=2 debug=1"
			     : strcmp(info->name, "empty_unless_smp") == 0 ? "smp=0"
			     : strcmp(info->name, "sixteen") == 0	   ? "b0=0 b1=1 b2=0 b3=1"
			     : strcmp(info->name, "agree") == 0		   ? "left=0 right=0 third=0"
			     : strcmp(info->name, "loose") == 0		   ? "third=0"
									   : "";

	CHECK(strcmp(info->variant, wanted) == 0);
	*(int *)found += wanted[0] != '\0';
#ifdef __OPTIMIZE__
	/* A variant that does nothing takes the place of the call. */
	if (strcmp(info->name, "empty_unless_smp") == 0 && patched)
		CHECK(strcmp(info->state, "nop") == 0);
#endif
	return 0;
}

static void check_introspection(void)
{
	struct patchpoint_status status;
	int found = 0;

	CHECK_EQUAL(patchpoint_status(&status), 0);
	CHECK_EQUAL(status.variants, 5);
	patched = status.writer != PATCHPOINT_WRITER_NONE;
	CHECK_EQUAL(patchpoint_site_iterate(note, &found), 0);
	CHECK(NATIVE ? found >= 6 : found == 0);
	/* opcost attach knows these marks and where they are. */
	CHECK_EQUAL(offsetof(struct patchpoint_key, flags), 55);
	CHECK_EQUAL(PATCHPOINT_KEY_VARIANTS | PATCHPOINT_KEY_BINDS, 12);
	CHECK(patchpoint_key_smp.flags & PATCHPOINT_KEY_BINDS);
	CHECK(!(patchpoint_key_quiet.flags & PATCHPOINT_KEY_BINDS));
}

static int find_combined(const struct patchpoint_site_info *info, void *site)
{
	*(const void **)site = strcmp(info->name, "combined") == 0 ? info->address : *(const void **)site;
	return 0;
}

/* A breakpoint on a site of the function keeps its keys from changing, with their own sites. */
static void check_breakpoint(void)
{
	const void *site = NULL;
	unsigned char first, breakpoint = 0xcc;
	int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	CHECK_EQUAL(patchpoint_site_iterate(find_combined, &site), 0);
	if (!VALUE_SITES || !patched || memory < 0 || !site)
		return;
	first = *(const unsigned char *)site;
	CHECK_EQUAL(pwrite(memory, &breakpoint, 1, (off_t)(uintptr_t)site), 1);
	CHECK_EQUAL(patchpoint_set_branch(smp, true), -EBUSY);
	CHECK_EQUAL(patchpoint_branch_inc(smp), -EBUSY);
	CHECK_EQUAL(patchpoint_branch_users(smp), 0);
	CHECK_EQUAL(pwrite(memory, &first, 1, (off_t)(uintptr_t)site), 1);
	close(memory);
	CHECK(!patchpoint_key_smp.slot);
	CHECK_EQUAL(look(), 21);
	check_changes();
}

/* Two keys that are always changed together, and a third one on its own, from two threads. */
PATCHPOINT_DECLARE_BRANCH(left);
PATCHPOINT_DECLARE_BRANCH(right);
PATCHPOINT_DECLARE_BRANCH(third);
PATCHPOINT_DEFINE_BRANCH(left, false);
PATCHPOINT_DEFINE_BRANCH(right, false);
PATCHPOINT_DEFINE_BRANCH(third, false);
PATCHPOINT_DECLARE_CALL(agree, unsigned, unsigned);
PATCHPOINT_DEFINE_VARIANTS(agree, unsigned, (unsigned, a), left, right, third)
{
	return a * 8 + left * 4 + right * 2 + third;
}
PATCHPOINT_DECLARE_CALL(loose, unsigned);
PATCHPOINT_DEFINE_VARIANTS(loose, unsigned, (void), third)
{
	return third;
}

enum { THREADS = 3, CHANGES = 1500 };
static bool stop;
static uint64_t rounds[THREADS], seen[8];

static void *execute(void *argument)
{
	uint64_t *count = argument;

	for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		unsigned result = patchpoint_call(agree, i), answers = result & 7;

		CHECK_EQUAL(result >> 3, i & (UINT32_MAX >> 3));
		CHECK(answers >> 2 == (answers >> 1 & 1));
		CHECK(patchpoint_call(loose) <= 1);
		__atomic_store_n(&seen[answers], 1, __ATOMIC_RELAXED);
		++*count;
	}
	return NULL;
}

static void *change_both(void *unused)
{
	for (unsigned i = 1; i <= CHANGES; i++) {
		struct patchpoint_txn txn;

		patchpoint_txn_begin(&txn);
		patchpoint_txn_set_branch(&txn, left, i & 1);
		patchpoint_txn_set_branch(&txn, right, i & 1);
		CHECK_EQUAL(patchpoint_txn_commit(&txn), 0);
		/* The change is over: this thread's next call sees both. */
		CHECK_EQUAL(patchpoint_call(agree, 0) >> 1, i & 1 ? 3 : 0);
	}
	return unused;
}

static void *change_third(void *unused)
{
	for (unsigned i = 1; i <= CHANGES; i++) {
		CHECK_EQUAL(patchpoint_set_branch(third, i & 1), 0);
		CHECK_EQUAL(patchpoint_call(agree, 0) & 1, i & 1);
		CHECK_EQUAL(patchpoint_call(loose), i & 1);
	}
	return unused;
}

static void check_threads(void)
{
	pthread_t threads[THREADS], writers[2];
	uint64_t sum = 0;

	for (int i = 0; i < THREADS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, execute, &rounds[i]), 0);
	CHECK_EQUAL(pthread_create(&writers[0], NULL, change_both, NULL), 0);
	CHECK_EQUAL(pthread_create(&writers[1], NULL, change_third, NULL), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_join(writers[i], NULL), 0);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++) {
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
		sum += rounds[i];
	}
	CHECK_EQUAL(patchpoint_call(agree, 5), 40);
	printf("variants: %d threads, %" PRIu64 " rounds of 2 calls, %d transactions; combinations seen:", THREADS, sum, 2 * CHANGES);
	for (unsigned i = 0; i < 8; i++)
		printf("%s", seen[i] ? (const char *[]){" 000", " 001", " 010", " 011", " 100", " 101", " 110", " 111"}[i] : "");
	printf("\n");
}

int main(int count, char **arguments)
{
	(void)arguments;
	check_changes(); /* before patchpoint_init */
	check_combinations();
	CHECK_EQUAL(patchpoint_init(), 0);
	check_changes();
	check_combinations();
	check_misuse();
	check_introspection();
	check_breakpoint();
	if (count == 1)
		check_threads();
	CHECK_EQUAL(patchpoint_init(), 0);
	check_changes();
	return 0;
}
