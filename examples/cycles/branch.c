/* A branch that a change makes unpredictable: the same values, sorted (cc -O2) or not (cc -O2 -DNEW). */
#include <stdio.h>

enum { COUNT = 65536, ROUNDS = 150 };

static unsigned values[COUNT];

static unsigned next(unsigned *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 16;
}

__attribute__((noinline)) static unsigned long count_large(void)
{
	unsigned long found = 0;

	for (int i = 0; i < COUNT; i++) {
		if (values[i] >= 32768) {
			/* Keeps the compiler from turning the branch into a conditional move. */
			__asm__ volatile("" : "+r"(found));
			found += values[i];
		}
	}
	return found;
}

int main(void)
{
	unsigned state = 1;
	unsigned long sum = 0;

	for (int i = 0; i < COUNT; i++) {
#ifdef NEW
		values[i] = next(&state) & 65535;
#else
		next(&state);
		values[i] = i;
#endif
	}
	for (int round = 0; round < ROUNDS; round++)
		sum += count_large();
	printf("%d\n", sum != 0);
	return 0;
}
