/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks for the test programs: a check that fails prints where and what, and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(truth) \
	do { \
		if (!(truth)) { \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #truth); \
			exit(1); \
		} \
	} while (0)

#define CHECK_EQUAL(found, wanted) \
	do { \
		int64_t found_ = (int64_t)(found), wanted_ = (int64_t)(wanted); \
		if (found_ != wanted_) { \
			fprintf(stderr, "%s:%d: %s is %" PRId64 " (%#" PRIx64 "), not %" PRId64 "\n", __FILE__, \
				__LINE__, #found, found_, (uint64_t)found_, wanted_); \
			exit(1); \
		} \
	} while (0)

#define SKIP(...) \
	do { \
		fprintf(stderr, "SKIPPED: " __VA_ARGS__); \
		fputc('\n', stderr); \
		exit(0); \
	} while (0)

/* NATIVE: whether this build patches sites. VALUE_SITES: whether values are sites, too, and not loads. */
#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__linux__) && !defined(PATCHPOINT_PORTABLE)
#define NATIVE 1
#else
#define NATIVE 0
#endif
#if defined(__x86_64__)
#define VALUE_SITES NATIVE
#else
#define VALUE_SITES 0
#endif

#endif
