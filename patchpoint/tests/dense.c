/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Keys with hundreds of sites that hold the same few bytes. The library computes such bytes once, and yet verifies every site: one
 * foreign site among them refuses the change, and nothing is written.
 */
#define _GNU_SOURCE
#include <patchpoint.h>

#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

PATCHPOINT_DECLARE_VALUE(narrow, int);
PATCHPOINT_DEFINE_VALUE(narrow, int, 1);
PATCHPOINT_DECLARE_VALUE(wide, uint64_t);
PATCHPOINT_DEFINE_VALUE(wide, uint64_t, 1);
PATCHPOINT_DECLARE_CALL(bonus, long, long);
static long five(long a) { (void)a; return 5; }
static long seven(long a) { (void)a; return 7; }
PATCHPOINT_DEFINE_CALL(bonus, five);

#define TIMES_TEN(x) x x x x x x x x x x
#define KEEP(x) __asm__ volatile("" : "+r"(x))

enum { SITES = 600 };

/* Six values at once are in six registers. */
#define SIX(key, type) \
	do { \
		type a = patchpoint_value(key), b = patchpoint_value(key), c = patchpoint_value(key); \
		type d = patchpoint_value(key), e = patchpoint_value(key), f = patchpoint_value(key); \
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f)); \
		sum += (uint64_t)(a + b + c + d + e + f); \
	} while (0);

static uint64_t sum_narrow(void)
{
	uint64_t sum = 0;

	TIMES_TEN(TIMES_TEN(SIX(narrow, unsigned)))
	return sum;
}

static uint64_t sum_wide(void)
{
	uint64_t sum = 0;

	TIMES_TEN(TIMES_TEN(SIX(wide, uint64_t)))
	return sum;
}

static long sum_calls(void)
{
	long sum = 0;

	TIMES_TEN(TIMES_TEN(sum += patchpoint_call(bonus, sum); KEEP(sum);))
	return sum;
}

#ifdef __x86_64__ /* the bytes are those of its sites */
/* All sites of one key. */
struct sites {
	const struct patchpoint_key *key;
	size_t count;
	struct patchpoint_site_info of[SITES];
};

static int note(const struct patchpoint_site_info *info, void *argument)
{
	struct sites *sites = argument;

	if (info->key == sites->key) {
		CHECK(sites->count < SITES);
		sites->of[sites->count++] = *info;
	}
	return 0;
}

static const struct sites *sites_now(const struct patchpoint_key *key)
{
	static struct sites sites;

	sites.key = key;
	sites.count = 0;
	CHECK_EQUAL(patchpoint_site_iterate(note, &sites), 0);
	return &sites;
}

static void poke(const char *address, const void *bytes, size_t length)
{
	int file = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	CHECK(file >= 0);
	CHECK_EQUAL(pwrite(file, bytes, length, (off_t)(uintptr_t)address), length);
	close(file);
}

/* Puts foreign bytes into one site after another: each refuses the change, and no site changes. */
static void refuse(struct patchpoint_key *key, uint64_t value, uint64_t now)
{
	static const unsigned char zeros[16], ones[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		traps[1] = {0xcc};
	size_t count = sites_now(key)->count;

	for (size_t i = 0; i < count; i += i < 3 ? 1 : 59) {
		struct patchpoint_site_info site = sites_now(key)->of[i];
		static struct sites before;
		const struct sites *after;
		const struct {
			size_t at;
			const void *bytes;
			size_t length;
			int error;
		} foreign[] = {
			{0, zeros, site.length, -EILSEQ},
			{0, ones, site.length, -EILSEQ},
			{site.length - 1u, "\x77", 1, -EILSEQ},
			{3, "\x77", 1, -EILSEQ},
			{0, traps, 1, -EBUSY},
		};

		for (size_t j = 0; j < sizeof foreign / sizeof *foreign; j++) {
			poke((const char *)site.address + foreign[j].at, foreign[j].bytes, foreign[j].length);
			before = *sites_now(key);
			CHECK_EQUAL(patchpoint_key_set(key, value), foreign[j].error);
			after = sites_now(key);
			CHECK_EQUAL(after->count, count);
			for (size_t k = 0; k < count; k++)
				CHECK(memcmp(after->of[k].bytes_now, before.of[k].bytes_now, site.length) == 0);
			poke((const char *)site.address + foreign[j].at, site.bytes_now + foreign[j].at, foreign[j].length);
		}
	}
	CHECK_EQUAL(patchpoint_key_set(key, now), 0);
}
#endif

static void change_and_compare(void)
{
	for (int i = 0; i < 50; i++) {
		uint64_t value = UINT64_C(0x0102030405060708) * (uint64_t)(i % 7 + 1);

		CHECK_EQUAL(patchpoint_set_value(narrow, i), 0);
		CHECK_EQUAL(sum_narrow(), (uint64_t)i * SITES);
		CHECK_EQUAL(patchpoint_set_value(wide, value), 0);
		CHECK_EQUAL(sum_wide(), value * SITES);
		CHECK_EQUAL(patchpoint_set_call(bonus, i & 1 ? seven : five), 0);
		CHECK_EQUAL(sum_calls(), 100 * (i & 1 ? 7 : 5));
	}
}

static bool stop;

static void *sleep_on(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		usleep(1000);
	return unused;
}

int main(void)
{
	pthread_t thread;

	CHECK_EQUAL(patchpoint_init(), 0);
	change_and_compare();
	CHECK_EQUAL(pthread_create(&thread, NULL, sleep_on, NULL), 0);
	change_and_compare();
#ifdef __x86_64__
	struct patchpoint_status status;

	CHECK_EQUAL(patchpoint_status(&status), 0);
	if (status.writer == PATCHPOINT_WRITER_PROC_MEM) {
		const struct sites *sites = sites_now(&patchpoint_key_narrow);
		unsigned registers = 0;

		CHECK_EQUAL(sites->count, SITES);
		for (size_t i = 0; i < sites->count; i++)
			registers |= 1u << (sites->of[i].bytes_now[2] & 7);
		CHECK(__builtin_popcount(registers) >= 4);
		refuse(&patchpoint_key_narrow, 77, 49);
		refuse(&patchpoint_key_wide, 77, 49);
		refuse(&patchpoint_key_bonus, (uint64_t)(uintptr_t)five, (uint64_t)(uintptr_t)seven);
		CHECK_EQUAL(sum_narrow(), 49 * SITES);
		CHECK_EQUAL(sum_wide(), 49 * SITES);
		CHECK_EQUAL(sum_calls(), 700);
	}
#endif
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	return 0;
}
