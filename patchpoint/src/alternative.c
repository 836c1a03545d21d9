/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The choice of implementations by processor features. */
#include "internal.h"

#include <errno.h>

uint32_t patchpoint_cpu_features(void)
{
	return arch_cpu_features();
}

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
