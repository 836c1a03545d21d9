/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hostile events around a program with patched sites. A process runs one case, which the first argument names; with a second one,
 * "traps", as on a kernel that cannot move the pages of a file.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include "../src/internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

PATCHPOINT_DEFINE_CALL_OR(job, job_identity, ZERO);
PATCHPOINT_DEFINE_VALUE(number, int, 1);
PATCHPOINT_DEFINE_VALUE(large, uint64_t, 1);
PATCHPOINT_DEFINE_BRANCH(flag, false);

bool hostile_stop;

long job_identity(long a) { return a; }
long job_negate(long a) { return -a; }

__attribute__((noinline)) long run_job(long a) { return patchpoint_call(job, a); }
__attribute__((noinline)) int read_number(void) { return patchpoint_value(number); }
__attribute__((noinline)) uint64_t read_large(void) { return patchpoint_value(large); }
__attribute__((noinline)) bool read_flag(void) { return patchpoint_unlikely(flag); }

static void *execute(void *unused)
{
	while (!__atomic_load_n(&hostile_stop, __ATOMIC_RELAXED)) {
		long result = run_job(6);
		uint64_t seen = read_large();

		CHECK(result == 6 || result == -6 || result == 0);
		CHECK(seen == (seen & 0xff) * UINT64_C(0x0101010101010101) || seen == 1);
		(void)read_number();
		(void)read_flag();
	}
	return unused;
}

void start_sibling(pthread_t *thread)
{
	__atomic_store_n(&hostile_stop, false, __ATOMIC_RELAXED);
	CHECK_EQUAL(pthread_create(thread, NULL, execute, NULL), 0);
}

void stop_sibling(pthread_t thread)
{
	__atomic_store_n(&hostile_stop, true, __ATOMIC_RELAXED);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

int set_all(int i)
{
	struct patchpoint_txn txn;

	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_call(&txn, job, i & 1 ? job_negate : job_identity);
	patchpoint_txn_set_value(&txn, number, i);
	patchpoint_txn_set_value(&txn, large, (uint64_t)(i & 0xff) * UINT64_C(0x0101010101010101));
	patchpoint_txn_set_branch(&txn, flag, i & 1);
	return patchpoint_txn_commit(&txn);
}

void check_all(int i)
{
	CHECK_EQUAL(run_job(6), i & 1 ? -6 : 6);
	CHECK_EQUAL(read_number(), i);
	CHECK_EQUAL(read_large(), (uint64_t)(i & 0xff) * UINT64_C(0x0101010101010101));
	CHECK_EQUAL(read_flag(), i & 1);
}

struct search {
	const struct patchpoint_key *key;
	struct patchpoint_site_info found;
	char states[256];
};

static int note_site(const struct patchpoint_site_info *info, void *argument)
{
	struct search *search = argument;

	if (info->key == search->key)
		search->found = *info;
	strncat(search->states, info->state, sizeof search->states - strlen(search->states) - 1);
	strncat(search->states, " ", sizeof search->states - strlen(search->states) - 1);
	return 0;
}

struct patchpoint_site_info site_of(const struct patchpoint_key *key)
{
	struct search search = {.key = key};

	CHECK_EQUAL(patchpoint_site_iterate(note_site, &search), 0);
	CHECK(search.found.address);
	return search.found;
}

/* Copies the bytes of the sites of the four keys, to check that nothing was written. */
static int copy_site(const struct patchpoint_site_info *info, void *argument)
{
	unsigned char **to = argument;

	if (info->key != &patchpoint_key_job && info->key != &patchpoint_key_number && info->key != &patchpoint_key_large &&
	    info->key != &patchpoint_key_flag)
		return 0;
	memcpy(*to, info->bytes_now, info->length);
	*to += info->length;
	return 0;
}

void snapshot(unsigned char bytes[256])
{
	memset(bytes, 0, 256);
	CHECK_EQUAL(patchpoint_site_iterate(copy_site, &bytes), 0);
}

struct patchpoint_status status_now(void)
{
	struct patchpoint_status status;

	CHECK_EQUAL(patchpoint_status(&status), 0);
	return status;
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"corrupted", case_corrupted},     {"breakpoint", case_breakpoint},
	{"rollback", case_rollback},       {"far", case_far},
#ifdef __x86_64__ /* where breakpoints are written */
	{"blocked", case_blocked},         {"chained", case_chained},
	{"default-action", case_default},  {"late-trap", case_late_trap},
	{"outside", case_outside},         {"between", case_between},
	{"uprobe", case_uprobe},           {"traced", case_traced},
	{"deep", case_deep},               {"masked", case_masked},
	{"waiting", case_waiting},         {"workers", case_workers},
	{"interrupted", case_interrupted}, {"kept", case_kept},
	{"held", case_held},               {"real-time", case_real_time},
	{"many", case_many},               {"refused", case_refused},
	{"crossing", case_crossing},       {"calls", case_calls},
	{"stopped", case_stopped},         {"killed", case_killed},
	{"moments", case_moments},
#endif
	{"no-membarrier", case_no_membarrier}, {"membarrier-lost", case_membarrier_lost},
	{"restored", case_restored},       {"fork-full", case_fork_full},
	{"mdwe", case_mdwe},               {"mseal", case_mseal},
	{"no-proc", case_no_proc},         {"mprotect", case_mprotect},
	{"fork", case_fork},               {"vfork", case_vfork},
	{"forks", case_forks},
	{"far-memfd", case_far_memfd},     {"far-mdwe", case_far_mdwe},
	{"far-mdwe-proc", case_far_mdwe_proc}, {"inject", case_inject},
	{"threads", case_threads},
	{"orphans", case_orphans},
	{"orphans-memfd", case_orphans_memfd},
	{"vfork-first", case_vfork_first},
	{"vfork-later", case_vfork_later},
	{"setuid", case_setuid},
	{"chroot", case_chroot},
	{"descriptors", case_descriptors},
	{"descriptors-late", case_descriptors_late},
	{"closed", case_closed},
	{"sealed", case_sealed},
	{"file-size", case_file_size},
	{"targets", case_targets},
	{"keys", case_keys},
};

int main(int count, char **arguments)
{
	if (count == 3 && strcmp(arguments[2], "traps") == 0) {
		moves_refused = -EINVAL;
		count = 2;
	}
	for (size_t i = 0; count == 2 && i < sizeof cases / sizeof cases[0]; i++) {
		if (strcmp(cases[i].name, arguments[1]) == 0) {
			cases[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: hostile CASE [traps]\n");
	return 2;
}
