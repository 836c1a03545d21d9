/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A table of operations with a native and a virtual implementation, as in a paravirtualised kernel. The native operations are
 * identities and cost no call; the missing one does nothing. With any argument the native operations stay.
 */
#include <patchpoint.h>

#include <stdint.h>
#include <stdio.h>

PATCHPOINT_DECLARE_CALL(entry_value, uint64_t, uint64_t);
PATCHPOINT_DECLARE_CALL(make_entry, uint64_t, uint64_t);
PATCHPOINT_DECLARE_CALL(flush, void, uint64_t);

static uint64_t native_entry(uint64_t bits) { return bits; }
static uint64_t virtual_entry_value(uint64_t bits) { return bits ^ UINT64_C(0xff000); }
static uint64_t virtual_make_entry(uint64_t bits) { return bits ^ UINT64_C(0xff000); }
static void virtual_flush(uint64_t address) { printf("hypercall: flush %#llx\n", (unsigned long long)address); }

PATCHPOINT_DEFINE_CALL(entry_value, native_entry);
PATCHPOINT_DEFINE_SAVED(entry_value);
PATCHPOINT_DEFINE_CALL(make_entry, native_entry);
PATCHPOINT_DEFINE_SAVED(make_entry);
PATCHPOINT_DEFINE_CALL_NULL(flush, NOTHING);

/* Copies a table entry by entry. In the register-preserving form the loop's variables stay in scratch registers. */
__attribute__((noinline)) void copy_table(uint64_t *to, const uint64_t *from, long count);
void copy_table(uint64_t *to, const uint64_t *from, long count)
{
	for (long i = 0; i < count; i++)
		to[i] = patchpoint_call_saved(make_entry, patchpoint_call_saved(entry_value, from[i]) | 1);
	patchpoint_call(flush, (uint64_t)count);
}

static int use_virtual(void)
{
	struct patchpoint_txn txn;

	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_call(&txn, entry_value, virtual_entry_value);
	patchpoint_txn_set_call(&txn, make_entry, virtual_make_entry);
	patchpoint_txn_set_call(&txn, flush, virtual_flush);
	return patchpoint_txn_commit(&txn);
}

int main(int count, char **arguments)
{
	uint64_t from[4] = {2, 4, 6, 8}, to[4];
	int error = patchpoint_init();

	(void)arguments;

	copy_table(to, from, 4);
	printf("native: %llu %llu\n", (unsigned long long)to[0], (unsigned long long)to[3]);
	if (count > 1)
		return error ? 1 : 0;
	error = error ? error : use_virtual();
	copy_table(to, from, 4);
	printf("virtual: %llu %llu\n", (unsigned long long)to[0], (unsigned long long)to[3]);
	return error ? 1 : 0;
}
