/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Declarations that the hostile tests share: four keys, one site each, and a thread that executes them. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <patchpoint.h>

#include "check.h"

#include <pthread.h>

PATCHPOINT_DECLARE_CALL(job, long, long);
PATCHPOINT_DECLARE_VALUE(number, int);
PATCHPOINT_DECLARE_VALUE(large, uint64_t);
PATCHPOINT_DECLARE_BRANCH(flag);

extern bool hostile_stop;

long job_identity(long a);
long job_negate(long a);
long run_job(long a);
int read_number(void);
uint64_t read_large(void);
bool read_flag(void);
void start_sibling(pthread_t *thread);
void stop_sibling(pthread_t thread);
int set_all(int i);
void check_all(int i);
struct patchpoint_site_info site_of(const struct patchpoint_key *key);
void snapshot(unsigned char bytes[256]);
struct patchpoint_status status_now(void);

void case_corrupted(void);
void case_breakpoint(void);
void case_rollback(void);
void case_far(void);
void case_far_memfd(void);
void case_far_mdwe(void);
void case_far_mdwe_proc(void);
void case_blocked(void);
void case_chained(void);
void case_default(void);
void case_late_trap(void);
void case_no_membarrier(void);
void case_membarrier_lost(void);
void case_mdwe(void);
void case_mseal(void);
void case_no_proc(void);
void case_mprotect(void);
void case_fork(void);
void case_forks(void);
void case_vfork(void);
void case_outside(void);
void case_between(void);
void case_uprobe(void);
void case_traced(void);
void case_inject(void);
void case_threads(void);
void case_orphans(void);
void case_orphans_memfd(void);
void case_vfork_first(void);
void case_vfork_later(void);
void case_setuid(void);
void case_chroot(void);
void case_descriptors(void);
void case_descriptors_late(void);
void case_closed(void);
void case_sealed(void);
void case_file_size(void);
void case_targets(void);
void case_keys(void);
void case_deep(void);
void case_masked(void);
void case_waiting(void);
void case_workers(void);
void case_interrupted(void);
void case_kept(void);
void case_held(void);
void case_real_time(void);
void case_many(void);
void case_crossing(void);
void case_calls(void);
void case_stopped(void);
void case_killed(void);
void case_moments(void);
void kill_at_call(long call); /* kills this process at a system call of this thread; -1: not at all */
void case_refused(void);
void case_restored(void);
void case_fork_full(void);

#endif
