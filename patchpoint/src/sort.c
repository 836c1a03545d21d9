/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Heapsort: in place, no recursion, never quadratic; libc's qsort may call malloc. */
#include "internal.h"

#include <string.h>

enum { ITEM_MAX = 32 };
_Static_assert(sizeof(struct patch) <= ITEM_MAX, "patches are sorted too");

struct heap {
	unsigned char *items;
	size_t size;
	rank rank;
	const void *context;
};

static unsigned char *item(const struct heap *heap, size_t index)
{
	return heap->items + index * heap->size;
}

static uintptr_t rank_at(const struct heap *heap, size_t index)
{
	return heap->rank(item(heap, index), heap->context);
}

/* Puts `moved` where it belongs in the heap of `count` items whose place `root` is free. */
static void sift(const struct heap *heap, size_t root, size_t count, const unsigned char *moved)
{
	uintptr_t wanted = heap->rank(moved, heap->context);

	for (size_t child; (child = 2 * root + 1) < count; root = child) {
		if (child + 1 < count && rank_at(heap, child) < rank_at(heap, child + 1))
			child++;
		if (wanted >= rank_at(heap, child))
			break;
		memcpy(item(heap, root), item(heap, child), heap->size);
	}
	memcpy(item(heap, root), moved, heap->size);
}

void sort(void *items, size_t count, size_t size, rank rank, const void *context)
{
	struct heap heap = {items, size, rank, context};
	unsigned char moved[ITEM_MAX];
	bool sorted = true;

	for (size_t i = 1; i < count && sorted; i++)
		sorted = rank_at(&heap, i - 1) <= rank_at(&heap, i);
	if (sorted)
		return;
	for (size_t root = count / 2; root-- > 0;) {
		memcpy(moved, item(&heap, root), size);
		sift(&heap, root, count, moved);
	}
	for (size_t last = count; last-- > 1;) {
		memcpy(moved, item(&heap, last), size);
		memcpy(item(&heap, last), item(&heap, 0), size);
		sift(&heap, 0, last, moved);
	}
}
