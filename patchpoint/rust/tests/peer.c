/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The C side of tests/with_c.rs: keys of its own, sites of its own and of Rust's keys. */
#include <patchpoint.h>

PATCHPOINT_DECLARE_CALL(c_job, long, long);
PATCHPOINT_DECLARE_VALUE(c_number, int);
PATCHPOINT_DECLARE_BRANCH(c_flag);
PATCHPOINT_DECLARE_CALL(rust_job, long, long);
PATCHPOINT_DECLARE_VALUE(rust_number, int);
PATCHPOINT_DECLARE_BRANCH(rust_flag);

static long same(long a)
{
	return a;
}

PATCHPOINT_DEFINE_CALL(c_job, same);
PATCHPOINT_DEFINE_VALUE(c_number, int, 2);
PATCHPOINT_DEFINE_BRANCH(c_flag, false);

/* Combines the results of C's sites in one number. */
long peer_c_keys(long a);
long peer_c_keys(long a)
{
	return patchpoint_call(c_job, a) * 10000 + patchpoint_value(c_number) * 10 + patchpoint_unlikely(c_flag);
}

long peer_rust_keys(long a);
long peer_rust_keys(long a)
{
	return patchpoint_call(rust_job, a) * 10000 + patchpoint_value(rust_number) * 10 + patchpoint_likely(rust_flag);
}

/* One transaction of C over keys of both. */
int peer_change(int number, bool flag);
int peer_change(int number, bool flag)
{
	struct patchpoint_txn txn;

	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_value(&txn, c_number, number);
	patchpoint_txn_set_value(&txn, rust_number, number);
	patchpoint_txn_set_branch(&txn, c_flag, flag);
	patchpoint_txn_set_branch(&txn, rust_flag, flag);
	return patchpoint_txn_commit(&txn);
}
