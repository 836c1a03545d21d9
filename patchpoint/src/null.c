/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What missing operations do. Reached by indirect calls, hence compiled with -fcf-protection. */
#include "internal.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void patchpoint_null_nothing(void)
{
}

#if defined(__x86_64__)
/*
 * The result register, which a void function cannot name in C: recognised as the constant 0. The second one also clears the
 * register of real results. endbr64; xor %eax,%eax; (xorps %xmm0,%xmm0;) ret
 */
#define FUNCTION(name, bytes) \
	__asm__(".pushsection .text." #name ",\"ax\",@progbits\n\t" \
		".globl " #name "\n\t" \
		".type " #name ", @function\n\t" \
		".balign 16\n" \
		#name ":\n\t" \
		".cfi_startproc\n\t" \
		".byte " bytes "\n\t" \
		".cfi_endproc\n\t" \
		".size " #name ", . - " #name "\n\t" \
		".popsection")
FUNCTION(patchpoint_null_zero, "0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0xc3");
FUNCTION(patchpoint_null_zero_real, "0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0x0f, 0x57, 0xc0, 0xc3");
/*
 * In assembly, so that no compiler that sees all files at once learns that it does not return, calls nothing and changes nothing:
 * the sites' functions are compiled as if it did. endbr64; ud2
 */
FUNCTION(patchpoint_cold, "0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x0b");
#else
/* Declared without a result, called as if they had one. */
uintptr_t patchpoint_zero(void) __asm__("patchpoint_null_zero");
EXPORTED uintptr_t patchpoint_zero(void)
{
	return 0;
}

double patchpoint_zero_real(void) __asm__("patchpoint_null_zero_real");
EXPORTED double patchpoint_zero_real(void)
{
	return 0;
}

EXPORTED void patchpoint_cold(void)
{
	__builtin_trap();
}
#endif

EXPORTED void patchpoint_null_trap(void)
{
	__builtin_trap();
}
