/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sites in functions that would be leaves: live locals where the red zone would be, vector registers across sites, the stack's
 * alignment at the operation, and sites that the compiler copies (inlining, unrolling). Compiled in many ways, with inference.c.
 */
#include <patchpoint.h>

#include "check.h"

#include <string.h>

PATCHPOINT_DECLARE_CALL(operation, long, long);
PATCHPOINT_DECLARE_CALL(plain, void);
PATCHPOINT_DECLARE_VALUE(factor, int);
PATCHPOINT_DECLARE_BRANCH(extra);

#if NATIVE && defined(__x86_64__)
/* Returns its stack's misalignment (0 by the ABI) after overwriting 512 bytes below it and registers that a callee may. */
long scribble(long argument);
__asm__(".text\n\t"
	".globl scribble\n\t"
	".type scribble, @function\n"
	"scribble:\n\t"
	"endbr64\n\t"
	"leaq 8(%rsp), %rax\n\t"
	"andl $15, %eax\n\t"
	"movq $-512, %rcx\n"
	"1:\tmovq $-1, (%rsp,%rcx)\n\t"
	"addq $8, %rcx\n\t"
	"jne 1b\n\t"
	"movq $-1, %rdx\n\t"
	"movq %rdx, %rsi\n\t"
	"movq %rdx, %rdi\n\t"
	"movq %rdx, %r8\n\t"
	"movq %rdx, %r9\n\t"
	"movq %rdx, %r10\n\t"
	"movq %rdx, %r11\n\t"
	"pcmpeqd %xmm0, %xmm0\n\t"
	"pcmpeqd %xmm1, %xmm1\n\t"
	"pcmpeqd %xmm2, %xmm2\n\t"
	"pcmpeqd %xmm7, %xmm7\n\t"
	"pcmpeqd %xmm15, %xmm15\n\t"
	"ret\n\t"
	".size scribble, . - scribble\n");
#elif NATIVE
/* The same for arm64, with the upper halves of %v8 to %v15. */
long scribble(long argument);
__asm__(".text\n\t"
	".globl scribble\n\t"
	".type scribble, %function\n"
	"scribble:\n\t"
	"hint #34\n\t"
	"mov x0, sp\n\t"
	"and x0, x0, #15\n\t"
	"sub x1, sp, #512\n\t"
	"mov x2, #-1\n"
	"1:\tstr x2, [x1], #8\n\t"
	"sub x3, sp, x1\n\t"
	"cbnz x3, 1b\n\t"
	".irp r,1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\n\t"
	"mov x\\r, #-1\n\t"
	".endr\n\t"
#ifndef PATCHPOINT_X18_IS_KEPT
	"mov x18, #-1\n\t"
#endif
	".irp r,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
	"movi v\\r\\().16b, #255\n\t"
	".endr\n\t"
	".irp r,8,9,10,11,12,13,14,15\n\t"
	"mov v\\r\\().d[1], x2\n\t"
	".endr\n\t"
	"cmp x2, #5\n\t"
	"ret\n\t"
	".size scribble, . - scribble\n");
#else
static long scribble(long argument)
{
	(void)argument;
	return 0;
}
#endif

static long identity(long a) { return a; }
static void scribble_plain(void) { scribble(0); }

PATCHPOINT_DEFINE_CALL(operation, scribble);
PATCHPOINT_DEFINE_SAVED(operation);
PATCHPOINT_DEFINE_CALL(plain, scribble_plain);
PATCHPOINT_DEFINE_VALUE(factor, int, 3);
PATCHPOINT_DEFINE_BRANCH(extra, false);

typedef long lanes __attribute__((vector_size(16)));

__attribute__((noinline)) static long red_zone(long a)
{
	volatile long locals[8];
	long result, sum = 0;

	for (int i = 0; i < 8; i++)
		locals[i] = a + i;
	result = patchpoint_call(operation, a);
	for (int i = 0; i < 8; i++)
		sum += locals[i] - a - i;
	return sum ? -100 : result;
}

__attribute__((noinline)) static long red_zone_saved(long a, long b, long c)
{
	volatile long locals[4] = {a, b, c, 1};
	long result = patchpoint_call_saved(operation, a);

	if (locals[0] != a || locals[1] != b || locals[2] != c || locals[3] != 1)
		return -100;
	return a * b * c == 24 ? result : -101;
}

__attribute__((noinline)) static long vectors(lanes a, double b, float c)
{
	lanes kept = a + a;
	double real = b * 2;
	long result = patchpoint_call(operation, 1);

	kept -= a;
	if (kept[0] != a[0] || kept[1] != a[1] || real != b * 2 || c != 0.5f)
		return -100;
	return result;
}

/* Only one path has a site: a prologue moved there must come before it. */
__attribute__((noinline)) static long one_path(long a, long b)
{
	if (a > b)
		return a - b;
	return patchpoint_call(operation, b) + (a == b ? 0 : 1000);
}

__attribute__((noinline)) static long tail(long a)
{
	return patchpoint_call(operation, a);
}

__attribute__((noinline)) static long dynamic(long n)
{
	long sum = 0, room[n];

	memset(room, 1, (size_t)n * sizeof *room);
	sum = patchpoint_call(operation, n);
	for (long i = 0; i < n; i++)
		sum += room[i] != 0x0101010101010101;
	return sum;
}

__attribute__((noinline)) static long copies(const int *a)
{
	long sum = 0;

	for (int i = 0; i < 4; i++) {
		sum += a[i] * patchpoint_value(factor);
		if (patchpoint_unlikely(extra))
			sum += 1000;
		patchpoint_call(plain);
	}
	return sum;
}

void check_inference(void); /* inference.c */

static void check_all(long expected, int factor, long extra)
{
	const int numbers[4] = {1, 2, 3, 4};

	CHECK_EQUAL(red_zone(40), expected ? 40 : 0);
	CHECK_EQUAL(red_zone_saved(2, 3, 4), expected ? 2 : 0);
	CHECK_EQUAL(vectors((lanes){5, 6}, 1.5, 0.5f), expected ? 1 : 0);
	CHECK_EQUAL(one_path(9, 4), 5);
	CHECK_EQUAL(one_path(4, 4), expected ? 4 : 0);
	CHECK_EQUAL(one_path(3, 4), expected ? 1004 : 1000);
	CHECK_EQUAL(tail(6), expected ? 6 : 0);
	CHECK_EQUAL(dynamic(33), expected ? 33 : 0);
	CHECK_EQUAL(copies(numbers), 10 * factor + 4 * extra);
}

int main(void)
{
	check_all(0, 3, 0);
	check_inference();
	check_all(0, 3, 0);
	CHECK_EQUAL(patchpoint_set_call(operation, identity), 0);
	CHECK_EQUAL(patchpoint_set_value(factor, 7), 0);
	CHECK_EQUAL(patchpoint_set_branch(extra, true), 0);
	check_all(1, 7, 1000);
	CHECK_EQUAL(patchpoint_set_call(operation, scribble), 0);
	check_all(0, 7, 1000);
	return 0;
}
