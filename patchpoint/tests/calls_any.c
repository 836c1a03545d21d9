/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls of many arguments and of structs by value: every class of the ABI, in registers, on the stack and in memory. */
#include <patchpoint.h>

#include "check.h"

#include <pthread.h>
#include <string.h>

struct pair {
	long first, second;
};
struct mixed {
	double real;
	int number;
};
struct point {
	float x, y;
};
struct large {
	long of[5];
};
struct byte {
	char of[3];
};
union either {
	long number;
	double real;
};

PATCHPOINT_DECLARE_CALL_ANY(twelve, long, long, char, int, long, short, long, long, int, unsigned char, long, double, long);
PATCHPOINT_DECLARE_CALL_ANY(pairs, struct pair, struct pair, long, struct pair, struct pair);
PATCHPOINT_DECLARE_CALL_ANY(mix, struct mixed, struct mixed, struct point, struct byte, union either);
PATCHPOINT_DECLARE_CALL_ANY(big, struct large, struct large, int);
PATCHPOINT_DECLARE_CALL_ANY(extended, long double, long double, float);
PATCHPOINT_DECLARE_CALL_ANY(nothing, void);
PATCHPOINT_DECLARE_CALL_ANY(same, long, long, struct large);
PATCHPOINT_DECLARE_BRANCH(negative);
PATCHPOINT_DEFINE_BRANCH(negative, false);

static long sum_of(long a, char b, int c, long d, short e, long f, long g, int h, unsigned char i, long j, double k, long l)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + (long)(11 * k) + 12 * l;
}
static long last_of(long a, char b, int c, long d, short e, long f, long g, int h, unsigned char i, long j, double k, long l)
{
	(void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i, (void)j, (void)k;
	return l;
}
static struct pair add(struct pair a, long b, struct pair c, struct pair d)
{
	return (struct pair){a.first + b * c.first + d.first, a.second + b * c.second + d.second};
}
static struct pair swap(struct pair a, long b, struct pair c, struct pair d)
{
	(void)b, (void)c;
	return (struct pair){d.second, a.first};
}
static struct mixed blend(struct mixed a, struct point b, struct byte c, union either d)
{
	return (struct mixed){a.real + (double)b.x - (double)b.y, a.number + c.of[2] + (int)d.number};
}
static struct large shift(struct large a, int by)
{
	struct large result;

	for (int i = 0; i < 5; i++)
		result.of[i] = a.of[(i + by) % 5];
	return result;
}
static struct large fill(struct large a, int by)
{
	(void)a;
	return (struct large){{by, by, by, by, by}};
}
static long double product(long double a, float b) { return a * (long double)b; }
static long double keep(long double a, float b) { return (void)b, a; }
static int ran;
static void run(void) { ran++; }
static void idle(void) {}
static long first_of(long a, struct large b) { return (void)b, a; }
static long third_of(long a, struct large b) { return (void)a, b.of[2]; }

PATCHPOINT_DEFINE_CALL(twelve, sum_of);
PATCHPOINT_DEFINE_JUMP(twelve);
PATCHPOINT_DEFINE_CALL(pairs, add);
PATCHPOINT_DEFINE_JUMP(pairs);
PATCHPOINT_DEFINE_CALL(mix, blend);
PATCHPOINT_DEFINE_JUMP(mix);
PATCHPOINT_DEFINE_CALL(big, shift);
PATCHPOINT_DEFINE_JUMP(big);
PATCHPOINT_DEFINE_CALL(extended, product);
PATCHPOINT_DEFINE_JUMP(extended);
PATCHPOINT_DEFINE_CALL(nothing, run);
PATCHPOINT_DEFINE_JUMP(nothing);
PATCHPOINT_DEFINE_CALL(same, first_of);
PATCHPOINT_DEFINE_JUMP(same);

/* A function with variants takes the same types. */
PATCHPOINT_DECLARE_CALL_ANY(chosen, struct pair, struct pair, long, long, long, long, long, double, struct mixed);
PATCHPOINT_DEFINE_JUMP(chosen);
PATCHPOINT_DEFINE_VARIANTS(chosen, struct pair, (struct pair, a, long, b, long, c, long, d, long, e, long, f, double, g, struct mixed, h),
			   negative)
{
	long sum = b + c + d + e + f + (long)g + h.number;

	return (struct pair){negative ? -sum : sum, a.second};
}

static const struct large five = {{1, 2, 3, 4, 5}};

static void check(bool changed)
{
	struct pair pair = patchpoint_call(pairs, (struct pair){1, 2}, 3, (struct pair){4, 5}, (struct pair){6, 7});
	struct mixed mixed = patchpoint_call(mix, (struct mixed){1.5, 2}, (struct point){4, 1}, (struct byte){{1, 2, 3}},
					     (union either){.number = 9});
	struct large large = patchpoint_call(big, five, 2);
	int before = ran;

	CHECK_EQUAL(patchpoint_call(twelve, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11.0, 12), changed ? 12 : 650);
	CHECK_EQUAL(pair.first, changed ? 7 : 1 + 12 + 6);
	CHECK_EQUAL(pair.second, changed ? 1 : 2 + 15 + 7);
	CHECK(mixed.real == 4.5 && mixed.number == 14);
	CHECK(memcmp(&large, &(struct large){{3, 4, 5, 1, 2}}, sizeof large) == 0 || (changed && large.of[4] == 2));
	CHECK(patchpoint_call(extended, 2.5L, 4.0f) == (changed ? 2.5L : 10.0L));
	patchpoint_call(nothing);
	CHECK_EQUAL(ran - before, !changed);
	CHECK_EQUAL(patchpoint_call(same, 77, five), changed ? 3 : 77);
}

static void change(bool to)
{
	struct patchpoint_txn txn;

	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_call(&txn, twelve, to ? last_of : sum_of);
	patchpoint_txn_set_call(&txn, pairs, to ? swap : add);
	patchpoint_txn_set_call(&txn, big, to ? fill : shift);
	patchpoint_txn_set_call(&txn, extended, to ? keep : product);
	patchpoint_txn_set_call(&txn, nothing, to ? idle : run);
	patchpoint_txn_set_call(&txn, same, to ? third_of : first_of);
	CHECK_EQUAL(patchpoint_txn_commit(&txn), 0);
}

static void check_chosen(void)
{
	for (int i = 0; i < 4; i++) {
		struct pair got = patchpoint_call(chosen, (struct pair){1, 2}, 1, 2, 3, 4, 5, 6.0, (struct mixed){7, 8});

		CHECK_EQUAL(got.first, i & 1 ? -29 : 29);
		CHECK_EQUAL(got.second, 2);
		CHECK_EQUAL(patchpoint_set_branch(negative, !(i & 1)), 0);
	}
}

struct states {
	int sites, jumps, bodies;
};

static int look(const struct patchpoint_site_info *info, void *argument)
{
	struct states *states = argument;

	if (info->kind != PATCHPOINT_CALL)
		return 0;
	CHECK_EQUAL(info->length, 7);
	states->sites++;
	states->jumps += info->bytes_now[2] == 0xe9;
	states->bodies += strcmp(info->state, "nop") == 0 || strcmp(info->state, "move") == 0;
	CHECK(strcmp(info->state, "foreign") != 0);
	return 0;
}

static bool stop;

static void *execute(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		long sum = patchpoint_call(twelve, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11.0, 12), one = patchpoint_call(same, 77, five);
		struct pair pair = patchpoint_call(pairs, (struct pair){1, 2}, 3, (struct pair){4, 5}, (struct pair){6, 7});

		CHECK(sum == 12 || sum == 650);
		CHECK((pair.first == 7 && pair.second == 1) || (pair.first == 19 && pair.second == 24));
		CHECK(one == 3 || one == 77);
	}
	return unused;
}

int main(void)
{
	struct patchpoint_status status;
	struct states states = {0, 0, 0};
	pthread_t threads[2];

	check(false);
	change(true);
	check(true);
	check_chosen();
	CHECK_EQUAL(patchpoint_init(), 0);
	check(true);
	change(false);
	check(false);
	check_chosen();
	CHECK_EQUAL(patchpoint_site_iterate(look, &states), 0);
	CHECK_EQUAL(patchpoint_status(&status), 0);
	CHECK_EQUAL(states.sites, VALUE_SITES ? 8 : 0);
#ifdef __OPTIMIZE__
	/* first_of is a move; everything else is a jump. */
	if (VALUE_SITES && status.writer != PATCHPOINT_WRITER_NONE) {
		CHECK_EQUAL(states.bodies, 1);
		CHECK_EQUAL(states.jumps, 7);
	}
#endif
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, execute, NULL), 0);
	for (int i = 0; i < 1000; i++)
		change(i & 1);
	change(false);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
	check(false);
	return 0;
}
