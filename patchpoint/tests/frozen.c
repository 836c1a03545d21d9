/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Operations whose effect may change later: they hold sites of their own, or go where a pointer leads. Their bodies must not take
 * the place of their calls: all of them must be called.
 */
#define _GNU_SOURCE
#include <patchpoint.h>

#include "check.h"

#include <string.h>

#define NOINLINE __attribute__((noinline))

PATCHPOINT_DECLARE_BRANCH(tracing);
PATCHPOINT_DECLARE_VALUE(narrow, int);
PATCHPOINT_DECLARE_VALUE(wide, long);
PATCHPOINT_DECLARE_SWITCH(way, 3);
PATCHPOINT_DECLARE_CALL(inner, long, long);
PATCHPOINT_DECLARE_CALL(inner_void, void);
PATCHPOINT_DECLARE_CALL(outer, long, long);

static long same(long a) { return a; }
static long five(long a) { (void)a; return 5; }
static long twice(long a) { return a + a; }
static void nothing(void) {}
static int counted;
static void count(void) { counted++; }

PATCHPOINT_DEFINE_BRANCH(tracing, false);
PATCHPOINT_DEFINE_VALUE(narrow, int, 1);
PATCHPOINT_DEFINE_VALUE(wide, long, 1);
PATCHPOINT_DEFINE_SWITCH(way, 3, 0);
PATCHPOINT_DEFINE_CALL(inner, same);
PATCHPOINT_DEFINE_SAVED(inner);
PATCHPOINT_DEFINE_CALL(inner_void, nothing);
PATCHPOINT_DEFINE_CALL(outer, same);

static long with_branch(long a)
{
	(void)a;
	return patchpoint_unlikely(tracing) ? 1000 : 5;
}

static long with_likely(long a)
{
	(void)a;
	return patchpoint_likely(tracing) ? 1000 : 5;
}

static long with_narrow(long a)
{
	(void)a;
	return patchpoint_value(narrow);
}

static long with_wide(long a)
{
	(void)a;
	return patchpoint_value(wide);
}

static long with_switch(long a)
{
	switch (patchpoint_switch(way)) {
	case 0: return 5;
	case 1: return a;
	default: return 1000;
	}
}

static long with_call(long a) { return patchpoint_call(inner, a); }
static long with_saved(long a) { return patchpoint_call_saved(inner, a); }

static long with_void(long a)
{
	patchpoint_call(inner_void);
	return a;
}

NOINLINE static long call_outer(long a) { return patchpoint_call(outer, a); }

/* When optimised, a jump to a function with a site. */
NOINLINE static long behind(long a) { return with_branch(a); }
static long through_another(long a) { return behind(a); }

static int set_inner(bool other)
{
	struct patchpoint_txn txn;

	patchpoint_txn_begin(&txn);
	patchpoint_txn_set_branch(&txn, tracing, other);
	patchpoint_txn_set_value(&txn, narrow, other ? 1000 : 5);
	patchpoint_txn_set_value(&txn, wide, other ? 1000 : 5);
	patchpoint_txn_set_switch(&txn, way, other ? 2 : 0);
	patchpoint_txn_set_call(&txn, inner, other ? twice : five);
	patchpoint_txn_set_call(&txn, inner_void, other ? count : nothing);
	return patchpoint_txn_commit(&txn);
}

/* Sets the outer key, then changes the inner keys: the outer key's site must show the change. */
static void check_change(patchpoint_function_outer operation, bool to)
{
	long plain, counted_before = counted;

	CHECK_EQUAL(patchpoint_set_call(outer, operation), 0);
	plain = call_outer(7);
	CHECK_EQUAL(plain, operation(7));
	CHECK_EQUAL(counted, counted_before + (operation == with_void && !to ? 2 : 0));
	CHECK_EQUAL(set_inner(to), 0);
	counted_before = counted;
	CHECK(operation == with_void || call_outer(7) != plain);
	CHECK_EQUAL(call_outer(7), operation(7));
	CHECK(operation != with_void || counted == counted_before + (to ? 2 : 0));
	CHECK(!NATIVE || patchpoint_key_outer.form == PATCHPOINT_FORM_DIRECT);
}

static void check_all(void)
{
	patchpoint_function_outer operations[] = {with_branch, with_likely, with_narrow, with_wide, with_switch,
						  with_call,   with_saved,  with_void,   through_another};

	for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
		check_change(operations[i], true);
		check_change(operations[i], false);
	}
}

#if NATIVE
extern void (*frozen_pointer)(void);
long through_pointer(long a);

/* A function that calls through a variable is not replaced by what the variable's function does. */
static void check_writable_pointer(void)
{
	frozen_pointer = nothing;
	CHECK_EQUAL(patchpoint_set_call(outer, through_pointer), 0);
	CHECK_EQUAL(call_outer(3), 3);
	frozen_pointer = count;
	counted = 0;
	CHECK_EQUAL(call_outer(3), 3);
	CHECK_EQUAL(counted, 1);
	CHECK_EQUAL(patchpoint_key_outer.form, PATCHPOINT_FORM_DIRECT);
}
#endif

#if VALUE_SITES
/* call *pointer(%rip); ret: as -mfentry makes under -fPIC, but here the pointer is a variable. */
void (*frozen_pointer)(void) = nothing;
__asm__(".text\n\t"
	".globl through_pointer\n\t"
	".type through_pointer, @function\n"
	"through_pointer:\n\t"
	"endbr64\n\t"
	"movq %rdi, %rax\n\t"
	"subq $8, %rsp\n\t"
	"pushq %rax\n\t"
	"pushq %rdi\n\t"
	"call *frozen_pointer(%rip)\n\t"
	"popq %rdi\n\t"
	"popq %rax\n\t"
	"addq $8, %rsp\n\t"
	"ret\n\t"
	".size through_pointer, . - through_pointer\n");

/* The same through a slot that nobody can write any more: its contents stay, so the recogniser looks through it. */
long through_constant(long a);
__asm__(".section .data.rel.ro,\"aw\"\n\t"
	".balign 8\n"
	"frozen_constant: .quad frozen_empty\n\t"
	".text\n"
	"frozen_empty: ret\n\t"
	".globl through_constant\n\t"
	".type through_constant, @function\n"
	"through_constant:\n\t"
	"endbr64\n\t"
	"movq %rdi, %rax\n\t"
	"call *frozen_constant(%rip)\n\t"
	"ret\n\t"
	".size through_constant, . - through_constant\n");

static void check_pointers(void)
{
	check_writable_pointer();
	CHECK_EQUAL(patchpoint_set_call(outer, through_constant), 0);
	CHECK_EQUAL(call_outer(3), 3);
	CHECK_EQUAL(patchpoint_key_outer.form, PATCHPOINT_FORM_INLINE);
}
#elif NATIVE
/* The same: str and ldr of the frame record; ldr of the pointer; blr. */
void (*frozen_pointer)(void) = nothing;
__asm__(".text\n\t"
	".globl through_pointer\n\t"
	".type through_pointer, %function\n"
	"through_pointer:\n\t"
	"hint #34\n\t"
	"stp x29, x30, [sp, #-32]!\n\t"
	"str x0, [sp, #16]\n\t"
	"adrp x1, frozen_pointer\n\t"
	"ldr x1, [x1, :lo12:frozen_pointer]\n\t"
	"blr x1\n\t"
	"ldr x0, [sp, #16]\n\t"
	"ldp x29, x30, [sp], #32\n\t"
	"ret\n\t"
	".size through_pointer, . - through_pointer\n");

static void check_pointers(void)
{
	check_writable_pointer();
}
#else
static void check_pointers(void)
{
}
#endif

int main(void)
{
	/* Before anything is patched, then after. */
	check_all();
	check_pointers();
	CHECK_EQUAL(patchpoint_init(), 0);
	check_all();
	check_pointers();
	return 0;
}
