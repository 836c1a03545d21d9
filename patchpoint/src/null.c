/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What missing operations do. Reached by indirect calls, hence compiled with -fcf-protection. */
#include "internal.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void patchpoint_null_nothing(void)
{
}

#if defined(__x86_64__)
/* The result register, which a void function cannot name in C: recognised as the constant 0. */
__asm__(".pushsection .text.patchpoint_null_zero,\"ax\",@progbits\n\t"
	".globl patchpoint_null_zero\n\t"
	".type patchpoint_null_zero, @function\n\t"
	".balign 16\n"
	"patchpoint_null_zero:\n\t"
	".cfi_startproc\n\t"
	"endbr64\n\t"
	"xorl %eax, %eax\n\t"
	"ret\n\t"
	".cfi_endproc\n\t"
	".size patchpoint_null_zero, . - patchpoint_null_zero\n\t"
	".popsection");
#else
/* Declared without a result, called as if it had one. */
uintptr_t patchpoint_zero(void) __asm__("patchpoint_null_zero");
EXPORTED uintptr_t patchpoint_zero(void)
{
	return 0;
}
#endif

EXPORTED void patchpoint_null_trap(void)
{
	__builtin_trap();
}

EXPORTED void patchpoint_cold(void)
{
	__builtin_trap();
}
