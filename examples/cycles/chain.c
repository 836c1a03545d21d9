/* A chain that a change makes longer: four hashes side by side (cc -O2), or one (cc -O2 -DNEW). */
#include <stdio.h>

enum { COUNT = 2048, ROUNDS = 10000 };

static unsigned long values[COUNT];

__attribute__((noinline)) static unsigned long hash(const unsigned long *v)
{
	unsigned long a = 1, b = 2, c = 3, d = 4;

	for (int i = 0; i < COUNT; i += 4) {
#ifdef NEW
		a = a * 1099511628211ul ^ v[i];
		a = a * 1099511628211ul ^ v[i + 1];
		a = a * 1099511628211ul ^ v[i + 2];
		a = a * 1099511628211ul ^ v[i + 3];
#else
		a = a * 1099511628211ul ^ v[i];
		b = b * 1099511628211ul ^ v[i + 1];
		c = c * 1099511628211ul ^ v[i + 2];
		d = d * 1099511628211ul ^ v[i + 3];
#endif
	}
	return a ^ b ^ c ^ d;
}

int main(void)
{
	unsigned long sum = 0;

	for (int i = 0; i < COUNT; i++)
		values[i] = i % 7;
	for (int round = 0; round < ROUNDS; round++) {
		/* Without this the compiler sees that every round is the same. */
		__asm__ volatile("" ::: "memory");
		sum += hash(values);
	}
	printf("%d\n", sum != 0);
	return 0;
}
