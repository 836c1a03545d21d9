/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Implementations by processor feature. */
#include "internal.h"

#include <errno.h>

#ifdef __x86_64__
#include <cpuid.h>

/* ERMS and FSRM are not among the names that compilers know (Intel SDM vol. 2, CPUID leaf 7). */
static uint32_t string_features(void)
{
	unsigned eax, ebx, ecx, edx;

	if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
		return 0;
	return (ebx & 1u << 9 ? PATCHPOINT_CPU_ERMS : 0) | (edx & 1u << 4 ? PATCHPOINT_CPU_FSRM : 0);
}

/* The compiler's run time asks whether the kernel saves the vector state too. */
uint32_t patchpoint_cpu_features(void)
{
	__builtin_cpu_init();
	return (__builtin_cpu_supports("sse4.2") ? PATCHPOINT_CPU_SSE4_2 : 0) |
	       (__builtin_cpu_supports("avx") ? PATCHPOINT_CPU_AVX : 0) |
	       (__builtin_cpu_supports("avx2") ? PATCHPOINT_CPU_AVX2 : 0) |
	       (__builtin_cpu_supports("avx512f") ? PATCHPOINT_CPU_AVX512F : 0) |
	       (__builtin_cpu_supports("bmi2") ? PATCHPOINT_CPU_BMI2 : 0) |
	       (__builtin_cpu_supports("popcnt") ? PATCHPOINT_CPU_POPCNT : 0) | string_features();
}
#else
uint32_t patchpoint_cpu_features(void)
{
	return 0;
}
#endif

int patchpoint_choose(struct patchpoint_key *key, const struct patchpoint_alternative *alternatives, size_t count,
		      uint32_t permitted)
{
	uint32_t present = patchpoint_cpu_features() & permitted;

	for (size_t i = 0; i < count; i++) {
		if ((alternatives[i].needs & ~present) == 0) {
			int error = patchpoint_key_set(key, (uint64_t)(uintptr_t)alternatives[i].function);

			return error ? error : (int)i;
		}
	}
	return -ENOENT;
}
