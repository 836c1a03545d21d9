/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A system call without a function call, for code that must not leave its page. */
#ifndef PATCHPOINT_SYSTEM_CALL_H
#define PATCHPOINT_SYSTEM_CALL_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/** mprotect(2). Result: 0 or -errno. */
static __attribute__((always_inline)) inline long system_call_mprotect(uintptr_t at, size_t bytes, long protection)
{
#if defined(__x86_64__)
	long result;
	register uintptr_t address __asm__("rdi") = at;
	register size_t size __asm__("rsi") = bytes;
	register long wanted __asm__("rdx") = protection;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(SYS_mprotect), "r"(address), "r"(size), "r"(wanted)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_mprotect;
	register uintptr_t address __asm__("x0") = at;
	register size_t size __asm__("x1") = bytes;
	register long wanted __asm__("x2") = protection;

	__asm__ volatile("svc 0" : "+r"(address) : "r"(number), "r"(size), "r"(wanted) : "memory");
	return (long)address;
#else
	(void)at, (void)bytes, (void)protection;
	return -ENOTSUP;
#endif
}

#endif
