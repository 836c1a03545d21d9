/* A table that a change makes leave the first-level cache: 16 KiB (cc -O2), or 512 KiB (cc -O2 -DNEW). */
#include <stdio.h>

#ifdef NEW
enum { ENTRIES = 1 << 17 };
#else
enum { ENTRIES = 1 << 12 };
#endif
enum { LOOKUPS = 4000000 };

static unsigned table[ENTRIES];

__attribute__((noinline)) static unsigned walk(unsigned at)
{
	/* Each look-up depends on the one before. */
	for (int i = 0; i < LOOKUPS; i++)
		at = (table[at % ENTRIES] + at) * 2654435761u >> 7;
	return at;
}

int main(void)
{
	for (unsigned i = 0; i < ENTRIES; i++)
		table[i] = i * 40503u;
	printf("%d\n", walk(1) != 0);
	return 0;
}
