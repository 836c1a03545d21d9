/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that has functions and variables of its own by every name that the library's files ever used among themselves. No such
 * name may take the place of the library's, nor the other way round.
 */
#include <patchpoint.h>

#include "check.h"

#define NAMES(X) \
	X(alone) X(arch_body) X(arch_can_patch) X(arch_code_stored) X(arch_compiled) X(arch_form) X(arch_original) \
	X(arch_patched) X(arch_pause) X(arch_probe_run) X(arch_probe_text) X(arch_reaches) X(arch_resume_at) X(arch_serialise) \
	X(arch_state) X(arch_stub) X(arch_stub_target) X(arch_trap) X(arch_trap_address) X(arch_trap_is_gone) \
	X(arch_under_valgrind) X(arch_word) X(breakpoint_is_ours) X(change_abandon) X(change_attempt) X(change_prepare) X(changes_commit) X(code_at) X(code_write) X(error_text) \
	X(guard_enter) X(guard_leave) X(guard_signals) X(key_change) X(memory_is_constant) X(orphans_notice) X(page_is_mapped) X(pages_get) \
	X(pages_put) X(patches_possible) X(patches_sort) X(patches_write) X(process_has_one_thread) X(process_is_orphan) \
	X(process_is_traced) X(registry) X(registry_after_fork) X(registry_first_site) X(registry_look_up) X(registry_next_site) \
	X(registry_object_at) X(registry_preserves) X(registry_shares_site) X(registry_site_at) X(registry_sites_of) X(sort) \
	X(stub_find) X(stub_make) X(stub_reason) X(stub_refusal) X(stubs_orphan) X(sync_after_fork) X(sync_core) X(sync_possible) \
	X(sync_self) X(sync_threads) X(threads_accept_traps) X(trap_install) X(trap_waiters) X(users_forbid) X(users_note) X(variants_count) X(variants_describe) X(variants_follow) X(writer_after_fork) X(writer_choose) \
	X(writer_fall_back) X(writer_find) X(writer_in_orphan) X(writer_memfd) X(writer_memfd_after_fork) \
	X(writer_memfd_before_fork) X(writer_memfd_forget) X(writer_mprotect) X(writer_proc_mem) X(writer_reason) X(writer_used) \
	X(x86_64_decode) X(x86_64_recognise)

static int called;
#define DEFINE(name) \
	int name(int a); \
	int name(int a) \
	{ \
		called++; \
		return a; \
	}
NAMES(DEFINE)

PATCHPOINT_DECLARE_CALL(work, int, int);
PATCHPOINT_DECLARE_VALUE(number, int);
PATCHPOINT_DEFINE_CALL(work, sort);
PATCHPOINT_DEFINE_VALUE(number, int, 1);

static int twice(int a) { return 2 * a; }

int main(void)
{
	struct patchpoint_status status;

	CHECK_EQUAL(patchpoint_call(work, 5), 5);
	CHECK_EQUAL(patchpoint_init(), 0);
	CHECK_EQUAL(patchpoint_status(&status), 0);
	CHECK_EQUAL(patchpoint_set_call(work, twice), 0);
	CHECK_EQUAL(patchpoint_set_value(number, 7), 0);
	CHECK_EQUAL(patchpoint_call(work, patchpoint_value(number)), 14);
	CHECK_EQUAL(called, 1);
	CHECK(NATIVE ? status.sites >= 1 + VALUE_SITES : status.sites == 0);
#define CALL(name) called -= name(1);
	NAMES(CALL)
	return 0;
}
