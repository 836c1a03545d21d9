/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tests the instructions of aarch64 sites, word for word: as compiled, patched, out of reach, and with code of no site. */
#include "../src/internal.h"
#include "check.h"

#include <errno.h>
#include <string.h>

enum { WORDS = 64 };
static const uint64_t CODE = 0x40000000;
static const uint32_t NOP = 0xd503201f;

/* The code that a record points to, at `aux`; no other code exists. */
struct behind {
	uint64_t aux;
	uint32_t words[WORDS];
	size_t count;
};

static bool read_behind(void *context, uint64_t address, uint8_t *byte)
{
	const struct behind *behind = context;
	uint64_t at = address - behind->aux;

	if (at >= 4 * behind->count)
		return false;
	*byte = (uint8_t)(behind->words[at / 4] >> (8 * (at & 3)));
	return true;
}

static struct patchpoint_place place_of(uint8_t kind, uint64_t aux, uint8_t flags)
{
	return (struct patchpoint_place){CODE, 0, aux, kind, 4, flags};
}

static void check_bytes(int line, int error, int wanted_error, const unsigned char *bytes, uint32_t wanted)
{
	uint32_t found;

	memcpy(&found, bytes, sizeof found);
	if (error == wanted_error && (error != 0 || found == wanted))
		return;
	fprintf(stderr, "%s:%d: result %d with %08" PRIx32 ", wanted %d with %08" PRIx32 "\n", __FILE__, line, error, found,
		wanted_error, wanted);
	exit(1);
}

#define COMPILED(place, behind, wanted_error, wanted) \
	do { \
		unsigned char bytes_[LENGTH_MAX] = {0}; \
		int error_ = arch_compiled(read_behind, behind, &(place), bytes_, bytes_); \
		check_bytes(__LINE__, error_, wanted_error, bytes_, wanted); \
	} while (0)
#define PATCHED(place, behind, number, its_form, wanted_error, wanted) \
	do { \
		unsigned char bytes_[LENGTH_MAX] = {0}; \
		struct patchpoint_state state_ = {.value = number, .form = its_form}; \
		int error_; \
		memcpy(state_.body, "\x1f\x20\x03\xd5", 4); \
		error_ = arch_patched(read_behind, behind, &(place), bytes_, &state_, bytes_); \
		check_bytes(__LINE__, error_, wanted_error, bytes_, wanted); \
	} while (0)

/* BL reaches 128 MiB backwards and one instruction less forwards, and no address between instructions. */
static void check_calls(void)
{
	const int64_t reach = INT64_C(1) << 27;
	struct behind none = {0, {0}, 0};
	struct patchpoint_place call = place_of(PATCHPOINT_CALL, CODE + 0x100, 0);
	struct patchpoint_place saved = place_of(PATCHPOINT_CALL, CODE - 0x100, PATCHPOINT_SITE_SAVED);

	COMPILED(call, &none, 0, 0x94000040);
	COMPILED(saved, &none, 0, 0x97ffffc0);
	PATCHED(call, &none, CODE + 4, PATCHPOINT_FORM_DIRECT, 0, 0x94000001);
	PATCHED(call, &none, CODE, PATCHPOINT_FORM_DIRECT, 0, 0x94000000);
	PATCHED(call, &none, CODE - 4, PATCHPOINT_FORM_DIRECT, 0, 0x97ffffff);
	PATCHED(call, &none, CODE + (uint64_t)reach - 4, PATCHPOINT_FORM_DIRECT, 0, 0x95ffffff);
	PATCHED(call, &none, CODE - (uint64_t)reach, PATCHPOINT_FORM_DIRECT, 0, 0x96000000);
	PATCHED(call, &none, CODE + (uint64_t)reach, PATCHPOINT_FORM_DIRECT, -ERANGE, 0);
	PATCHED(call, &none, CODE - (uint64_t)reach - 4, PATCHPOINT_FORM_DIRECT, -ERANGE, 0);
	PATCHED(call, &none, CODE + (UINT64_C(1) << 40), PATCHPOINT_FORM_DIRECT, -ERANGE, 0);
	PATCHED(call, &none, CODE + 2, PATCHPOINT_FORM_DIRECT, -ERANGE, 0);
	PATCHED(call, &none, CODE + 4, PATCHPOINT_FORM_INLINE, 0, NOP);
	/* A preserving call goes through its thunk, wherever the target is. */
	PATCHED(saved, &none, CODE + (UINT64_C(1) << 40), PATCHPOINT_FORM_DIRECT, 0, 0x97ffffc0);
	PATCHED(saved, &none, CODE, PATCHPOINT_FORM_INLINE, 0, NOP);
}

/* adrp, add, ldarb; cbz or cbnz over b; b back. */
static struct behind branch_behind(uint32_t skip, uint32_t branch)
{
	return (struct behind){CODE + 0x1000, {0x90000010, 0x91000210, 0x08dffe10, skip, branch, 0x17fffc00}, 6};
}

static void check_branches(void)
{
	struct patchpoint_place unlikely = place_of(PATCHPOINT_BRANCH, CODE + 0x1000, 0);
	struct patchpoint_place likely = place_of(PATCHPOINT_BRANCH, CODE + 0x1000, PATCHPOINT_SITE_LIKELY);
	/* From CODE + 0x1010 to CODE + 0x20, and 128 MiB from there forwards. */
	struct behind back = branch_behind(0x34000050, 0x17fffc04), back_likely = branch_behind(0x35000050, 0x17fffc04);
	struct behind far = branch_behind(0x34000050, 0x15ffffff);

	COMPILED(unlikely, &back, 0, 0x14000400);
	PATCHED(unlikely, &back, 0, 0, 0, NOP);
	PATCHED(unlikely, &back, 1, 0, 0, 0x14000008);
	COMPILED(likely, &back_likely, 0, 0x14000400);
	PATCHED(likely, &back_likely, 1, 0, 0, NOP);
	PATCHED(likely, &back_likely, 0, 0, 0, 0x14000008);
	/* A target out of the site's reach: the site leads to the branch that reaches the target. */
	PATCHED(unlikely, &far, 1, 0, 0, 0x14000404);
	/* Other code than the compiler left there. */
	COMPILED(likely, &back, -EILSEQ, 0);
	COMPILED(unlikely, &back_likely, -EILSEQ, 0);
	back.words[4] = NOP;
	COMPILED(unlikely, &back, -EILSEQ, 0);
	PATCHED(unlikely, &back, 1, 0, -EILSEQ, 0);
	back.count = 4;
	PATCHED(unlikely, &back, 1, 0, -EILSEQ, 0);
}

/* adrp, add, ldarb; cmp, b.ne, b for the ways 1 and 2; b back. */
static void check_switches(void)
{
	struct patchpoint_place way = place_of(PATCHPOINT_SWITCH, CODE + 0x1000, 0);
	struct behind tests = {CODE + 0x1000,
			       {0x90000010, 0x91000210, 0x08dffe10, 0x7100061f, 0x54000041, 0x17fffc00, 0x71000a1f, 0x54000041,
				0x17fffc00, 0x17fffc00},
			       10};

	COMPILED(way, &tests, 0, 0x14000400);
	PATCHED(way, &tests, 0, 0, 0, NOP);
	PATCHED(way, &tests, 1, 0, 0, 0x14000005);
	PATCHED(way, &tests, 2, 0, 0, 0x14000008);
	PATCHED(way, &tests, 3, 0, -EILSEQ, 0);
	PATCHED(way, &tests, PATCHPOINT_WAYS_MAX, 0, -EILSEQ, 0);
	tests.words[6] = 0x71000e1f; /* compares with 3 */
	PATCHED(way, &tests, 2, 0, -EILSEQ, 0);
}

/* Records that no compiler makes: of another length, between instructions, where one store is not enough; of values. */
static void check_records(void)
{
	struct behind back = branch_behind(0x34000050, 0x17fffc04);
	struct patchpoint_place site = place_of(PATCHPOINT_CALL, CODE + 0x100, 0);

	site.code += 2;
	COMPILED(site, &back, -EILSEQ, 0);
	PATCHED(site, &back, CODE + 6, PATCHPOINT_FORM_DIRECT, -EILSEQ, 0);
	site.code = CODE;
	site.length = 8;
	COMPILED(site, &back, -EILSEQ, 0);
	PATCHED(site, &back, CODE + 4, PATCHPOINT_FORM_DIRECT, -EILSEQ, 0);
	site = place_of(PATCHPOINT_CALL, CODE + (UINT64_C(1) << 30), 0);
	COMPILED(site, &back, -EILSEQ, 0);
	site = place_of(PATCHPOINT_VALUE, CODE + 0x1000, 0);
	COMPILED(site, &back, -EILSEQ, 0);
	PATCHED(site, &back, 5, 0, -EILSEQ, 0);
}

static bool is_breakpoint(uint32_t instruction)
{
	unsigned char bytes[4];

	memcpy(bytes, &instruction, sizeof bytes);
	return arch_is_breakpoint(bytes);
}

/* The BRK of debuggers and uprobes is a breakpoint; the BRK of __builtin_trap is a form of a site. */
static void check_breakpoints(void)
{
	CHECK(is_breakpoint(0xd4200000));
	CHECK(is_breakpoint(0xd42000a0));
	CHECK(!is_breakpoint(0xd4207d00));
	CHECK(!is_breakpoint(NOP));
	CHECK(!is_breakpoint(0x94000001));
}

static void check_stubs(void)
{
	struct patchpoint_place site = place_of(PATCHPOINT_CALL, CODE + 0x100, 0);
	const unsigned char wanted[STUB_SIZE] = {0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1f, 0xd6, 8, 7, 6, 5, 4, 3, 2, 1};
	unsigned char stub[STUB_SIZE];

	arch_stub(stub, UINT64_C(0x0102030405060708));
	CHECK(memcmp(stub, wanted, sizeof stub) == 0);
	CHECK_EQUAL(arch_stub_target(stub), INT64_C(0x0102030405060708));
	CHECK_EQUAL(arch_call_target(&site, (const unsigned char *)"\x01\x00\x00\x94"), CODE + 4);
	CHECK_EQUAL(arch_call_target(&site, (const unsigned char *)"\x01\x00\x00\x14"), 0);
	/* Every site of a text must reach a stub, from both of its ends. */
	CHECK(arch_reaches(CODE, CODE + 0x1000, CODE - (UINT64_C(120) << 20)));
	CHECK(!arch_reaches(CODE, CODE + (UINT64_C(10) << 20), CODE - (UINT64_C(120) << 20)));
	CHECK(!arch_reaches(CODE, CODE + 0x1000, CODE + (UINT64_C(128) << 20)));
}

static void empty(void) {}
static long one_more(long a) { return a + 1; }

/* Bodies that take a call's place, in this process's own code. */
static void check_bodies(void)
{
	uint8_t body[PATCHPOINT_BODY_SIZE];

	CHECK(arch_body(NULL, NULL, memory_is_constant, (uint64_t)(uintptr_t)empty, body));
	CHECK(memcmp(body, "\x1f\x20\x03\xd5\0\0\0", sizeof body) == 0);
	CHECK(arch_body(NULL, NULL, memory_is_constant, (uint64_t)(uintptr_t)patchpoint_null_nothing, body));
	CHECK(arch_body(NULL, NULL, memory_is_constant, (uint64_t)(uintptr_t)patchpoint_null_trap, body));
	CHECK(memcmp(body, "\x00\x7d\x20\xd4\0\0\0", sizeof body) == 0);
	CHECK(!arch_body(NULL, NULL, memory_is_constant, (uint64_t)(uintptr_t)one_more, body));
	CHECK(!arch_body(NULL, NULL, memory_is_constant, (uint64_t)(uintptr_t)patchpoint_null_zero, body));
	CHECK(!arch_body(NULL, NULL, memory_is_constant, (uint64_t)(uintptr_t)patchpoint_cold, body));
	CHECK(!arch_body(NULL, NULL, memory_is_constant, (uint64_t)(uintptr_t)empty + 2, body));
}

int main(void)
{
	CHECK(arch_one_store);
	check_calls();
	check_branches();
	check_switches();
	check_records();
	check_breakpoints();
	check_stubs();
	check_bodies();
	return 0;
}
