/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Functions that test settings, in the forms that a program can give them: compiled for one setting by hand, with variants, with a
 * branch site for each test, and with variables. The cases are those of Multiverse (Rommel and others, EuroSys 2019): the lock of a
 * kernel for one processor or several, the collector of an interpreter, and the locks of a libc that knows whether there are threads.
 * Each case runs with its settings off and on; by hand, the settings are constants.
 */
#include "bench.h"

#include <patchpoint.h>

/*
 * The four forms of a case for one state of its settings; `truth` is that state. `code(test…)` is the function's body. Variables are
 * not static: the compiler must expect that another file changes them.
 */
#define FORMS_OF(case_name, state, truth, code, first, second) \
	PATCHPOINT_DECLARE_BRANCH(first##_##state); \
	PATCHPOINT_DECLARE_BRANCH(second##_##state); \
	PATCHPOINT_DEFINE_BRANCH(first##_##state, truth); \
	PATCHPOINT_DEFINE_BRANCH(second##_##state, truth); \
	bool plain_##first##_##state = truth, plain_##second##_##state = truth; \
	PATCHPOINT_DECLARE_CALL(case_name##_##state, uint64_t, uint64_t); \
	PATCHPOINT_DEFINE_VARIANTS(case_name##_##state, uint64_t, (uint64_t, x), first##_##state, second##_##state) \
	{ \
		code(first##_##state, second##_##state) \
	} \
	NOINLINE static uint64_t case_name##_hand_##state(uint64_t x) { code(truth, truth) } \
	NOINLINE static uint64_t case_name##_branches_##state(uint64_t x) \
	{ \
		code(patchpoint_unlikely(first##_##state), patchpoint_unlikely(second##_##state)) \
	} \
	NOINLINE static uint64_t case_name##_plain_##state(uint64_t x) \
	{ \
		code(plain_##first##_##state, plain_##second##_##state) \
	} \
	LOOP(case_name##_hand_loop_##state, x = case_name##_hand_##state(x)) \
	LOOP(case_name##_variants_loop_##state, x = patchpoint_call(case_name##_##state, x)) \
	LOOP(case_name##_branches_loop_##state, x = case_name##_branches_##state(x)) \
	LOOP(case_name##_plain_loop_##state, x = case_name##_plain_##state(x))
#define CASE_OF(case_name, code, first, second) \
	FORMS_OF(case_name, off, false, code, first, second) \
	FORMS_OF(case_name, on, true, code, first, second)

/* Two booleans, tested four times. */
#define BOOLEANS(a, b) \
	if (a) \
		x ^= x >> 7; \
	if (b) \
		x += x >> 9; \
	if (a) \
		x ^= x >> 11; \
	if (b) \
		x += x >> 13; \
	x ^= x << 5; \
	return x * 5 + 1;
CASE_OF(booleans, BOOLEANS, tracing, checking)

/* A kernel's spin lock around a short section: SMP kernels exchange a word, and a debug setting remembers the owner. */
#define BARRIER __asm__ volatile("" ::: "memory")
static unsigned char spin_word;
static uint64_t preemption, spin_owner;
#define SPIN(smp, debug) \
	preemption++; \
	BARRIER; \
	if (smp) \
		while (__atomic_exchange_n(&spin_word, 1, __ATOMIC_ACQUIRE)) \
			__atomic_thread_fence(__ATOMIC_SEQ_CST); \
	if (debug) \
		spin_owner = x; \
	x += 3; \
	if (debug) \
		spin_owner = 0; \
	if (smp) \
		__atomic_store_n(&spin_word, 0, __ATOMIC_RELEASE); \
	BARRIER; \
	preemption--; \
	return x;
CASE_OF(spin, SPIN, smp, debug)

/* An interpreter's allocation from its free list: the collector counts objects if it is enabled, and a tracer sees each. */
struct object {
	struct object *next;
	uint64_t references, traced;
};
static struct object objects[2] = {{&objects[1], 0, 0}, {&objects[0], 0, 0}}, *object_free = objects;
static uint64_t young, young_max = UINT64_MAX, collections;
#define ALLOCATE(collector, tracer) \
	struct object *object = object_free; \
\
	object_free = object->next; \
	object->references = 1; \
	if (collector && ++young > young_max) { \
		young = 0; \
		collections++; \
	} \
	if (tracer) \
		object->traced++; \
	return x + (uintptr_t)(object == objects);
CASE_OF(allocate, ALLOCATE, collector, tracer)

/* A libc's fputc: it takes the stream's lock if the process has threads, and flushes if the stream is unbuffered. */
static struct {
	int lock, waiters;
	unsigned char buffer[256];
	unsigned char at;
	uint64_t flushed;
} stream;
#define PUT(threads, unbuffered) \
	if (threads) \
		while (__atomic_exchange_n(&stream.lock, 1, __ATOMIC_ACQUIRE)) \
			stream.waiters++; \
	stream.buffer[stream.at++] = (unsigned char)x; \
	if (unbuffered) \
		stream.flushed += stream.at, stream.at = 0; \
	if (threads) { \
		__atomic_store_n(&stream.lock, 0, __ATOMIC_SEQ_CST); \
		if (stream.waiters) \
			stream.waiters--; \
	} \
	return x + 1;
CASE_OF(put, PUT, threads, unbuffered)

#define FORMS(case_name, title, state) \
	{title ", " #state, "compiled for it by hand", case_name##_hand_loop_##state, 1, false, false}, \
		{title ", " #state, "patched, variants", case_name##_variants_loop_##state, 1, true, false}, \
		{title ", " #state, "patched, a branch for each test", case_name##_branches_loop_##state, 1, true, false}, \
		{title ", " #state, "variables", case_name##_plain_loop_##state, 1, false, false},

const struct form variant_forms[] = {
	FORMS(booleans, "two booleans tested four times", off)
	FORMS(booleans, "two booleans tested four times", on)
	FORMS(spin, "a kernel's spin lock: SMP and debugging", off)
	FORMS(spin, "a kernel's spin lock: SMP and debugging", on)
	FORMS(allocate, "an interpreter's allocation: collector and tracer", off)
	FORMS(allocate, "an interpreter's allocation: collector and tracer", on)
	FORMS(put, "a libc's fputc: threads and no buffer", off)
	FORMS(put, "a libc's fputc: threads and no buffer", on)
	{NULL, NULL, NULL, 0, false, false},
};
