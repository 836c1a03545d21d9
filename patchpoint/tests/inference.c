/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Conclusions that a compiler might draw about a function with a site, because it sees assembly in place of a call: which variables
 * the function changes, which registers it uses, that it is a leaf. Compiled in many ways (compile_matrix.sh); each case says what
 * must hold.
 */
#define _GNU_SOURCE
#include <patchpoint.h>

#include "check.h"

#include <alloca.h>
#include <setjmp.h>
#include <string.h>

PATCHPOINT_DECLARE_CALL(hook, void);
PATCHPOINT_DECLARE_CALL(compute, long, long);
PATCHPOINT_DECLARE_CALL(change_by_pointer, void, long *);
PATCHPOINT_DECLARE_CALL(average, double, double, double);
PATCHPOINT_DECLARE_CALL(jumps, void, int);
PATCHPOINT_DECLARE_CALL(wipe_vectors, void);

void check_inference(void);

#define NOINLINE __attribute__((noinline))

/* A variable of this file whose address is never taken: only `bump`, which is only called through a key, changes it. */
static int count;
static void bump(void) { count++; }
NOINLINE static void run_hook(void) { patchpoint_call(hook); }

static struct { int a, b; } pair;
static long table[4];
static long change_statics(long a)
{
	pair.b += (int)a;
	table[a & 3] += a;
	return a + 1;
}
NOINLINE static long run_compute(long a) { return patchpoint_call(compute, a); }
NOINLINE static long run_compute_saved(long a) { return patchpoint_call_saved(compute, a) + a; }
static int read_pair(void) { return pair.b; }

static long rank(long a)
{
	count += 100;
	return a;
}

static void double_it(long *p) { *p *= 2; }
static double weighted(double a, double b)
{
	count++;
	return (a + 3 * b) / 4;
}

static jmp_buf place;
static void jump_back(int number) { longjmp(place, number); }

#if NATIVE && defined(__x86_64__)
/* Overwrites vector and mask registers that a callee may overwrite, of those that this file is compiled for. */
static void wipe(void)
{
#ifdef __AVX512F__
	__asm__ volatile("vpternlogd $0xff, %%zmm16, %%zmm16, %%zmm16\n\tvpternlogd $0xff, %%zmm31, %%zmm31, %%zmm31\n\t"
			 "vpternlogd $0xff, %%zmm17, %%zmm17, %%zmm17\n\tvpternlogd $0xff, %%zmm18, %%zmm18, %%zmm18\n\t"
			 "kxnorw %%k0, %%k0, %%k0\n\tkxnorw %%k1, %%k1, %%k1\n\tkxnorw %%k7, %%k7, %%k7"
			 :
			 :
			 : "xmm16", "xmm17", "xmm18", "xmm31", "k0", "k1", "k7");
#endif
	__asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n\tpcmpeqd %%xmm1, %%xmm1\n\tpcmpeqd %%xmm15, %%xmm15" : : : "xmm0", "xmm1", "xmm15");
}
#elif NATIVE
/* The same for arm64; the compiler saves the halves of %v8 to %v15 that a callee keeps. */
static void wipe(void)
{
#ifdef __ARM_FEATURE_SVE
	__asm__ volatile("pfalse p0.b\n\tpfalse p1.b\n\tpfalse p4.b\n\tpfalse p15.b\n\t"
			 "mov z0.b, #-1\n\tmov z1.b, #-1\n\tmov z16.b, #-1\n\tmov z31.b, #-1"
			 :
			 :
			 : "p0", "p1", "p4", "p15", "v0", "v1", "v16", "v31");
#endif
	__asm__ volatile("movi v0.16b, #255\n\tmovi v1.16b, #255\n\tmovi v8.16b, #255\n\tmovi v15.16b, #255\n\t"
			 "movi v16.16b, #255\n\tmovi v31.16b, #255"
			 :
			 :
			 : "v0", "v1", "v8", "v15", "v16", "v31");
}
#else
static void wipe(void)
{
}
#endif

PATCHPOINT_DEFINE_CALL(hook, bump);
PATCHPOINT_DEFINE_CALL(compute, change_statics);
PATCHPOINT_DEFINE_SAVED(compute);
PATCHPOINT_DEFINE_CALL(change_by_pointer, double_it);
PATCHPOINT_DEFINE_CALL(average, weighted);
PATCHPOINT_DEFINE_CALL(jumps, jump_back);
PATCHPOINT_DEFINE_CALL(wipe_vectors, wipe);

/* A static that is read before and after a call of a function with a site is read twice (gcc, -fipa-reference). */
static void check_statics(void)
{
	int before = count, pair_before = pair.b;
	long table_before = table[1];

	run_hook();
	CHECK_EQUAL(count - before, 1);
	CHECK_EQUAL(run_compute(5), 6);
	CHECK_EQUAL(pair.b - pair_before, 5);
	CHECK_EQUAL(table[1] - table_before, 5);
	CHECK_EQUAL(run_compute_saved(9), 19);
	CHECK_EQUAL(read_pair() - pair_before, 14);
	CHECK_EQUAL(table[1] - table_before, 14);
	before = count;
	CHECK(patchpoint_call(average, 1, 5) == 4);
	CHECK_EQUAL(count - before, 1);
}

/* Two calls of a function with a site are two calls, even if their result is not used, or is the same. */
NOINLINE static int twice_in_a_loop(int n)
{
	int before = count;

	for (int i = 0; i < n; i++) {
		run_hook();
		(void)run_compute(i);
	}
	return count - before;
}

NOINLINE static long local_by_pointer(long a)
{
	long local = a;

	patchpoint_call(change_by_pointer, &local);
	return local;
}

NOINLINE static long with_alloca(size_t n)
{
	char *room = alloca(n), sum = 0;

	memset(room, 3, n);
	run_hook();
	patchpoint_call(hook);
	for (size_t i = 0; i < n; i++)
		sum = (char)(sum + room[i] - 3);
	return sum;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wclobbered" /* of the register variable for the stack pointer */
#endif
NOINLINE static int by_longjmp(int number)
{
	volatile int kept = number;
	int back = setjmp(place);

	if (back == 0)
		patchpoint_call(jumps, number);
	return back == number && kept == number;
}

/* More live values than there are registers that survive a call. */
NOINLINE static long many_live(const long *a)
{
	long v[12], sum = 0;

	for (int i = 0; i < 12; i++)
		v[i] = a[i] * (i + 3);
	sum = patchpoint_call_saved(compute, a[0]);
	for (int i = 0; i < 12; i++)
		sum += v[i];
	sum += patchpoint_call(compute, sum);
	for (int i = 0; i < 12; i++)
		sum ^= v[i];
	return sum;
}

typedef double lanes __attribute__((vector_size(64)));
typedef float narrow_lanes __attribute__((vector_size(64)));
typedef int truth_lanes __attribute__((vector_size(64)));

/* Vectors live across sites, in the registers that the file is compiled for, and a mask of lanes. */
NOINLINE static int vectors_live(const lanes *a, const narrow_lanes *b)
{
	lanes x = a[0] * a[1], y = a[0] + a[1], z = a[0] - a[1];
	truth_lanes more = b[0] > b[1];

	patchpoint_call(wipe_vectors);
	for (int i = 0; i < 8; i++)
		if (x[i] != a[0][i] * a[1][i] || y[i] != a[0][i] + a[1][i] || z[i] != a[0][i] - a[1][i])
			return 0;
	for (int i = 0; i < 16; i++)
		if ((more[i] != 0) != (b[0][i] > b[1][i]))
			return 0;
	return 1;
}

#if defined(__GNUC__) && !defined(__clang__)
static long with_nested(long a)
{
	long inner = a;
	__extension__ long nested(long b) { return run_compute(b) + inner++; }

	return nested(1) + nested(2) * 100 + inner * 10000;
}
#else
static long with_nested(long a)
{
	return 2 + a + (3 + a + 1) * 100 + (a + 2) * 10000;
}
#endif

/* Computes what many_live returns with either operation, without sites. */
static long expected_many(const long *a, bool first)
{
	long v[12], sum;

	for (int i = 0; i < 12; i++)
		v[i] = a[i] * (i + 3);
	sum = first ? a[0] + 1 : a[0];
	for (int i = 0; i < 12; i++)
		sum += v[i];
	sum += first ? sum + 1 : sum;
	for (int i = 0; i < 12; i++)
		sum ^= v[i];
	return sum;
}

static void check_registers(bool first)
{
	long numbers[12] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
	lanes a[2];
	narrow_lanes b[2];

	for (int i = 0; i < 8; i++)
		a[0][i] = i + 0.5, a[1][i] = 7 - i * 2;
	for (int i = 0; i < 16; i++)
		b[0][i] = (float)i, b[1][i] = (float)(11 - i);
	CHECK(vectors_live(a, b));
	CHECK_EQUAL(many_live(numbers), expected_many(numbers, first));
	CHECK_EQUAL(local_by_pointer(21), 42);
	CHECK_EQUAL(with_alloca(200), 0);
	CHECK(by_longjmp(7));
}

/* A function whose operation changes a variable that the function reads before and after its sites. */
NOINLINE static long run_chain(void)
{
	int before = count;
	long first = patchpoint_call(compute, 1), second;

	second = patchpoint_call(compute, first);
	return second * 1000 + (count - before);
}

static void check_after(void)
{
	CHECK_EQUAL(run_chain(), 1000 + 200);
	CHECK_EQUAL(twice_in_a_loop(3), 3 + 300);
	check_registers(false);
}

static void check_before(void)
{
	check_statics();
	CHECK_EQUAL(run_chain(), 3000);
	CHECK_EQUAL(twice_in_a_loop(5), 5);
	CHECK_EQUAL(with_nested(4), 2 + 4 + (3 + 5) * 100 + 6 * 10000);
	check_registers(true);
}

void check_inference(void)
{
	check_before();
	CHECK_EQUAL(patchpoint_init(), 0);
	check_before();
	CHECK_EQUAL(patchpoint_set_call(compute, rank), 0);
	check_after();
	CHECK_EQUAL(patchpoint_set_call(compute, change_statics), 0);
	check_before();
}
