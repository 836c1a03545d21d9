/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Heapsort: in place, without recursion, never quadratic. libc's qsort may call malloc. */
#include "internal.h"

/* Puts `moved` into its place in a heap of `count` patches whose place `root` is free. */
static void sift(struct patch *patches, size_t root, size_t count, struct patch moved)
{
	for (size_t child; (child = 2 * root + 1) < count; root = child) {
		if (child + 1 < count && patches[child].at < patches[child + 1].at)
			child++;
		if (moved.at >= patches[child].at)
			break;
		patches[root] = patches[child];
	}
	patches[root] = moved;
}

void patches_sort(struct patch *patches, size_t count)
{
	bool sorted = true;

	for (size_t i = 1; i < count && sorted; i++)
		sorted = patches[i - 1].at <= patches[i].at;
	if (sorted)
		return;
	for (size_t root = count / 2; root-- > 0;)
		sift(patches, root, count, patches[root]);
	for (size_t last = count; last-- > 1;) {
		struct patch moved = patches[last];

		patches[last] = patches[0];
		sift(patches, 0, last, moved);
	}
}
