/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The instructions of x86-64 sites. Each form has the length of the compiled one and begins with the same byte, which means nothing
 * (include/patchpoint/site_x86_64.h says why).
 */
#define _GNU_SOURCE
#include "../internal.h"
#include "x86_64_recognise.h"

#include <errno.h>
#include <string.h>
#include <ucontext.h>

const bool arch_can_patch = true;
const bool arch_one_store = false;
const unsigned char arch_trap = 0xcc;
enum { TEST_SIZE = 13 };
const size_t arch_tests_offset = 0, arch_test_size = TEST_SIZE;

__asm__(".pushsection .text.patchpoint_probe,\"ax\",@progbits\n\t"
	".globl patchpoint__arch_probe_text\n\t"
	".hidden patchpoint__arch_probe_text\n\t"
	".balign 64\n"
	"patchpoint__arch_probe_text:\n\t"
	".byte 0xf3, 0x0f, 0x1e, 0xfa\n\t" /* endbr64 */
	".byte 0xb8\n\t" /* mov $…,%eax */
	".long 0x5a5a5a5a\n\t"
	".byte 0xc3\n\t"
	".fill 64 - (. - patchpoint__arch_probe_text), 1, 0xcc\n\t"
	".popsection");
const size_t arch_probe_number = 5;

/* clang's check of function pointers reads the bytes in front of the function. */
__attribute__((no_sanitize("undefined"))) CALLS_ANY uint32_t arch_probe_run(const unsigned char *text)
{
	uint32_t (*function)(void);

	memcpy(&function, &text, sizeof function);
	return function();
}

void arch_probe_bytes(uint32_t number, unsigned char bytes[4])
{
	memcpy(bytes, &number, sizeof number);
}

bool arch_kernel_stores_whole(void)
{
	return false;
}

/*
 * The client request RUNNING_ON_VALGRIND (valgrind.h): rotations that add up to nothing, a no-op without Valgrind. Valgrind can be
 * told to notice changed code, but gives breakpoints another signal code than the kernel, and shows other bytes to other threads.
 * The bytes are: rol $3,%rdi; rol $13,%rdi; rol $61,%rdi; rol $51,%rdi; xchg %rbx,%rbx.
 */
bool arch_under_valgrind(void)
{
	uint64_t arguments[6] = {0x1001, 0, 0, 0, 0, 0}, result = 0;

	__asm__ volatile(".byte 0x48, 0xc1, 0xc7, 0x03, 0x48, 0xc1, 0xc7, 0x0d, 0x48, 0xc1, 0xc7, 0x3d, 0x48, 0xc1, 0xc7, 0x33\n\t"
			 ".byte 0x48, 0x87, 0xdb"
			 : "+d"(result)
			 : "a"(arguments)
			 : "rdi", "cc", "memory");
	return result != 0;
}

void arch_pause(void)
{
	__builtin_ia32_pause();
}

struct cpuid {
	uint32_t eax, ebx, ecx, edx;
};

static struct cpuid cpuid(uint32_t leaf)
{
	struct cpuid found;

	__asm__ volatile("cpuid"
			 : "=a"(found.eax), "=b"(found.ebx), "=c"(found.ecx), "=d"(found.edx)
			 : "0"(leaf), "2"(0)
			 : "memory");
	return found;
}

/* Compilers have no names for ERMS and FSRM (Intel SDM vol. 2, CPUID leaf 7). */
static uint32_t string_features(void)
{
	struct cpuid found;

	if (cpuid(0).eax < 7)
		return 0;
	found = cpuid(7);
	return (found.ebx & 1u << 9 ? PATCHPOINT_CPU_ERMS : 0) | (found.edx & 1u << 4 ? PATCHPOINT_CPU_FSRM : 0);
}

/* The compiler's run-time library also asks whether the kernel saves the vector state. */
uint32_t arch_cpu_features(void)
{
	__builtin_cpu_init();
	return (__builtin_cpu_supports("sse4.2") ? PATCHPOINT_CPU_SSE4_2 : 0) |
	       (__builtin_cpu_supports("avx") ? PATCHPOINT_CPU_AVX : 0) |
	       (__builtin_cpu_supports("avx2") ? PATCHPOINT_CPU_AVX2 : 0) |
	       (__builtin_cpu_supports("avx512f") ? PATCHPOINT_CPU_AVX512F : 0) |
	       (__builtin_cpu_supports("bmi2") ? PATCHPOINT_CPU_BMI2 : 0) |
	       (__builtin_cpu_supports("popcnt") ? PATCHPOINT_CPU_POPCNT : 0) | string_features();
}

/* CPUID serialises (Intel SDM vol. 3, 8.3). In a virtual machine it costs microseconds. */
void arch_serialise(void)
{
	cpuid(0);
}

/* Instruction fetch sees stores through any mapping (Intel SDM vol. 3, 11.6); the barrier that follows is enough. */
void arch_code_stored(const unsigned char *code, const unsigned char *alias, size_t length)
{
	(void)code, (void)alias, (void)length;
}

/* The bytes between the mark of a call and its operand, the first one lowest: 67 e8, and ff 15; of a jump 67 e9, and ff 25. */
enum { CALL = 0xe867, CALL_INDIRECT = 0x15ff, JUMP = 0xe967, JUMP_INDIRECT = 0x25ff };
enum { CALL_LENGTH = 7, JUMP_LENGTH = 6, LOAD_64_LENGTH = 11, LOAD_32_LENGTH = 7 };
enum { MARK = X86_64_MARK, MARK_64 = 0x66 };

/* The bytes of an instruction, the first one lowest, to be stored at once: a later load of them all need not wait then. */
static const uint64_t nop_6 = MARK | 0x441f0f00;
static const unsigned char nop_7[CALL_LENGTH] = {MARK, 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00};
static const unsigned char trap_7[CALL_LENGTH] = {MARK, 0x67, 0x67, 0x67, 0x67, 0x0f, 0x0b}; /* ud2 */

/* Stores an instruction of up to eight bytes; there is always room for eight. */
static void put(unsigned char *bytes, uint64_t instruction)
{
	memcpy(bytes, &instruction, sizeof instruction);
}

/* Computes what leads to `target` from an instruction's end. False if it is further than 2 GiB. */
static bool relative(const struct patchpoint_place *place, uint64_t target, uint32_t *near)
{
	int64_t distance = (int64_t)(target - (place->code + place->length));

	*near = (uint32_t)distance;
	return (int32_t)distance == distance;
}

/* Stores a call: the mark, two bytes, and the way to the target. False if it is further than 2 GiB. */
static bool put_call(const struct patchpoint_place *place, unsigned char *bytes, unsigned operation, uint64_t target)
{
	uint32_t near;
	bool reached = relative(place, target, &near);

	put(bytes, MARK | operation << 8 | (uint64_t)near << 24);
	return reached;
}

/* Returns the register of a value site, from its form as compiled or its immediate form; -1 if `now` is neither. */
static int value_register(const struct patchpoint_place *place, const unsigned char *now)
{
	static const unsigned char prefixes[4] = {MARK_64, MARK_64, MARK_64, MARK_64};

	if (place->length == LOAD_64_LENGTH) {
		if (now[0] == MARK_64 && (now[1] == 0x48 || now[1] == 0x49) && (now[2] & 0xf8) == 0xb8)
			return (now[2] & 7) | (now[1] & 1) << 3;
		if (memcmp(now, prefixes, sizeof prefixes) != 0 || (now[4] != 0x48 && now[4] != 0x4c) || now[5] != 0x8b ||
		    (now[6] & 0xc7) != 0x05)
			return -1;
		return (now[6] >> 3 & 7) | (now[4] & 4) << 1;
	}
	if (place->length != LOAD_32_LENGTH || now[0] != MARK)
		return -1;
	if (now[1] == 0xc7 && (now[2] & 0xf8) == 0xc0)
		return now[2] & 7;
	return now[1] == 0x8b && (now[2] & 0xc7) == 0x05 ? now[2] >> 3 & 7 : -1;
}

static bool read_code(patchpoint_reader read, void *context, uint64_t address, unsigned char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!read(context, address + i, &bytes[i]))
			return false;
	return true;
}

/*
 * Finds where a site leads that does not fall through, in the code that tests its key. A branch has testb $1,key(%rip) (f6 05) and
 * je or jne; a switch has, for each way but 0, cmpb $way,key(%rip) (80 3d) and je. Returns 0 if the code is something else.
 */
static uint64_t other_side(patchpoint_reader read, void *context, const struct patchpoint_place *place, uint64_t way)
{
	bool branch = place->kind == PATCHPOINT_BRANCH;
	uint64_t test = place->aux + TEST_SIZE * (way - 1);
	unsigned char copy[TEST_SIZE], condition = branch && !(place->flags & PATCHPOINT_SITE_LIKELY) ? 0x85 : 0x84;
	const unsigned char *code = read ? copy : (const unsigned char *)(uintptr_t)test;
	int32_t distance;

	if (way < 1 || way >= PATCHPOINT_WAYS_MAX || (read && !read_code(read, context, test, copy, sizeof copy)))
		return 0;
	if (code[0] != (branch ? 0xf6 : 0x80) || code[1] != (branch ? 0x05 : 0x3d) || code[6] != way || code[7] != 0x0f ||
	    code[8] != condition)
		return 0;
	memcpy(&distance, code + 9, sizeof distance);
	return test + TEST_SIZE + (uint64_t)(int64_t)distance;
}

static int call_compiled(const struct patchpoint_place *place, unsigned char *bytes)
{
	bool saved = place->flags & PATCHPOINT_SITE_SAVED;

	if (place->length != CALL_LENGTH)
		return -EILSEQ;
	return put_call(place, bytes, saved ? CALL : place->flags & PATCHPOINT_SITE_JUMP ? JUMP_INDIRECT : CALL_INDIRECT,
			saved ? place->aux : place->key) ? 0 : -EILSEQ;
}

static int value_compiled(const struct patchpoint_place *place, const unsigned char *now, unsigned char *bytes)
{
	int number = value_register(place, now);
	uint32_t near;

	if (number < 0 || !relative(place, place->key, &near))
		return -EILSEQ;
	bytes[0] = MARK;
	if (place->length == LOAD_64_LENGTH) {
		memset(bytes, MARK_64, 4);
		bytes[4] = number & 8 ? 0x4c : 0x48;
	}
	bytes[place->length - 6] = 0x8b;
	bytes[place->length - 5] = (unsigned char)(0x05 | (number & 7) << 3);
	memcpy(bytes + place->length - 4, &near, sizeof near);
	return 0;
}

static int jump_to(const struct patchpoint_place *place, uint64_t target, unsigned char *bytes)
{
	uint32_t near;

	if (place->length != JUMP_LENGTH || !target || !relative(place, target, &near))
		return -EILSEQ;
	put(bytes, MARK | 0xe9 << 8 | (uint64_t)near << 16);
	return 0;
}

int arch_compiled(patchpoint_reader read, void *context, const struct patchpoint_place *place, const unsigned char *now,
		  unsigned char *bytes)
{
	switch (place->kind) {
	case PATCHPOINT_CALL:
		return call_compiled(place, bytes);
	case PATCHPOINT_VALUE:
		return value_compiled(place, now, bytes);
	case PATCHPOINT_BRANCH:
	case PATCHPOINT_SWITCH:
		return other_side(read, context, place, 1) ? jump_to(place, place->aux, bytes) : -EILSEQ;
	default:
		return -EILSEQ;
	}
}

static int call_patched(const struct patchpoint_place *place, const struct patchpoint_state *state, unsigned char *bytes)
{
	if (place->length != CALL_LENGTH)
		return -EILSEQ;
	if (state->form == PATCHPOINT_FORM_INLINE) {
		uint64_t body = 0;

		memcpy(&body, state->body, CALL_LENGTH);
		put(bytes, body);
		return 0;
	}
	if (state->form != PATCHPOINT_FORM_DIRECT && state->form != PATCHPOINT_FORM_PRESERVING)
		return -EILSEQ;
	/* The thunk is in reach as before, and its own call is patched. */
	if (place->flags & PATCHPOINT_SITE_SAVED && state->form == PATCHPOINT_FORM_DIRECT)
		return call_compiled(place, bytes);
	return put_call(place, bytes, place->flags & PATCHPOINT_SITE_JUMP ? JUMP : CALL, state->value) ? 0 : -ERANGE;
}

static int value_patched(const struct patchpoint_place *place, const unsigned char *now, uint64_t value,
			 unsigned char *bytes)
{
	int number = value_register(place, now);

	if (number < 0)
		return -EILSEQ;
	if (place->length == LOAD_64_LENGTH) {
		bytes[0] = MARK_64;
		bytes[1] = number & 8 ? 0x49 : 0x48;
		bytes[2] = (unsigned char)(0xb8 | (number & 7));
		memcpy(bytes + 3, &value, 8);
		return 0;
	}
	put(bytes, MARK | 0xc7 << 8 | (0xc0ull | (number & 7)) << 16 | value << 32 >> 8);
	return 0;
}

int arch_patched(patchpoint_reader read, void *context, const struct patchpoint_place *place, const unsigned char *now,
		 const struct patchpoint_state *state, unsigned char *bytes)
{
	uint64_t way = state->value, target;

	switch (place->kind) {
	case PATCHPOINT_CALL:
		return call_patched(place, state, bytes);
	case PATCHPOINT_VALUE:
		return value_patched(place, now, state->value, bytes);
	case PATCHPOINT_BRANCH:
		way = (way != 0) != (bool)(place->flags & PATCHPOINT_SITE_LIKELY);
		break;
	case PATCHPOINT_SWITCH:
		break;
	default:
		return -EILSEQ;
	}
	target = other_side(read, context, place, way ? way : 1);
	if (place->length != JUMP_LENGTH || !target)
		return -EILSEQ;
	if (way)
		return jump_to(place, target, bytes);
	put(bytes, nop_6);
	return 0;
}

bool arch_is_breakpoint(const unsigned char *now)
{
	return now[0] == arch_trap;
}

bool arch_body(patchpoint_reader read, void *context, bool (*constant)(uint64_t address, size_t length), uint64_t function,
	       uint8_t body[PATCHPOINT_BODY_SIZE])
{
	/* patchpoint_null_trap is an address of this process. */
	if (!read && function == (uint64_t)(uintptr_t)patchpoint_null_trap) {
		memcpy(body, trap_7, CALL_LENGTH);
		return true;
	}
	return x86_64_recognise(&(struct code_source){read, context, constant}, function, body) != BODY_UNKNOWN;
}

/*
 * ff 25 00000000 (jmp *0(%rip)), the target, int3, int3. It uses no register and pushes nothing. Only direct calls reach a stub, so
 * it needs no endbr64; where indirect branches are tracked its target has one, since sites as compiled call the target indirectly.
 */
void arch_stub(unsigned char stub[STUB_SIZE], uint64_t target)
{
	static const unsigned char jump[6] = {0xff, 0x25};

	memset(stub, arch_trap, STUB_SIZE);
	memcpy(stub, jump, sizeof jump);
	memcpy(stub + sizeof jump, &target, sizeof target);
}

uint64_t arch_stub_target(const unsigned char *stub)
{
	uint64_t target;

	memcpy(&target, stub + 6, sizeof target);
	return target;
}

uint64_t arch_call_target(const struct patchpoint_place *place, const unsigned char *now)
{
	int32_t distance;

	if (place->kind != PATCHPOINT_CALL || place->length != CALL_LENGTH || now[1] != 0x67 ||
	    now[2] != (place->flags & PATCHPOINT_SITE_JUMP ? 0xe9 : 0xe8))
		return 0;
	memcpy(&distance, now + CALL_LENGTH - sizeof distance, sizeof distance);
	return place->code + CALL_LENGTH + (uint64_t)(int64_t)distance;
}

bool arch_reaches(uintptr_t text_start, uintptr_t text_stop, uintptr_t page)
{
	const uintptr_t reach = (UINT64_C(1) << 31) - 8192;

	return page < text_start ? text_stop - page < reach : page - text_start < reach;
}

static const char *body_word(const unsigned char *body)
{
	if (memcmp(body, nop_7, CALL_LENGTH) == 0)
		return "nop";
	if (memcmp(body, trap_7, CALL_LENGTH) == 0)
		return "trap";
	if (body[1] == 0xc7 && body[2] == 0xc0)
		return "constant";
	/* mov between registers, of the whole register or its low half, behind prefixes: the last two bytes are decisive. */
	if (body[1] == 0x2e && body[2] == 0x2e && body[3] == 0x2e && body[5] == 0x89 && body[6] >= 0xc0)
		return "move";
	return "inline";
}

const char *arch_word(const struct patchpoint_place *place, const unsigned char *now, const struct patchpoint_state *state)
{
	switch (place->kind) {
	case PATCHPOINT_CALL:
		return state->form == PATCHPOINT_FORM_INLINE ? body_word(now) : "call";
	case PATCHPOINT_VALUE:
		return "immediate";
	default:
		return now[1] == 0xe9 ? "jump" : "nop";
	}
}

unsigned char *arch_trap_address(const void *context)
{
	/* The processor reports the address after the breakpoint (Intel SDM vol. 3, 6.15, #BP). */
	return (unsigned char *)(uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] - 1;
}

bool arch_trap_is_gone(const unsigned char *address)
{
	unsigned char now = __atomic_load_n(address, __ATOMIC_SEQ_CST);

	/* cd 03 is the long form of the same trap, whose operand is at `address`. */
	return now != arch_trap && !(now == 0x03 && address[-1] == 0xcd);
}

void arch_resume_at(void *context, const unsigned char *address)
{
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)address;
}

/*
 * In assembly, since C cannot name the result register in a void function: the first clears it and is recognised as the constant 0;
 * the second also clears the register of real results. endbr64; xor %eax,%eax; (xorps %xmm0,%xmm0;) ret
 */
#define FUNCTION(name, bytes) \
	__asm__(".pushsection .text." #name ",\"ax\",@progbits\n\t" \
		".globl " #name "\n\t" \
		".type " #name ", @function\n\t" \
		".balign 16\n" \
		#name ":\n\t" \
		".cfi_startproc\n\t" \
		".byte " bytes "\n\t" \
		".cfi_endproc\n\t" \
		".size " #name ", . - " #name "\n\t" \
		".popsection")
FUNCTION(patchpoint_null_zero, "0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0xc3");
FUNCTION(patchpoint_null_zero_real, "0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0x0f, 0x57, 0xc0, 0xc3");
/*
 * In assembly, so that no compiler with whole-program view learns that the function does not return, calls nothing and changes
 * nothing: the sites' functions are compiled as if it returned, called and changed anything. endbr64; ud2
 */
FUNCTION(patchpoint_cold, "0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x0b");
