/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Executes functions of random bytes: a function that the recogniser takes for a single instruction must do what that instruction
 * does.
 *
 * Bytes are drawn with a bias to those of trivial functions, or are a compiler's function with a byte changed. If the recogniser
 * finds a body, function and body are executed in turn with the same random registers and memory. Everything that a caller may look
 * at is compared: %rax, the callee-saved registers, the stack above, and memory. A fault of one must be a fault of the other.
 * Usage: executed [--seconds S] [--seed N]; prints counts of what was tried, and exits with 1 at the first difference.
 */
#define _GNU_SOURCE
#include "../src/arch/x86_64_recognise.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { REGISTERS = 16, CODE_SIZE = 4096, FUNCTION_AT = 512, FUNCTION_MAX = 40, MEMORY_WORDS = 256, STACK_WORDS = 512, TOP = 64 };

/* The registers in the order of their numbers; %rsp is a stack pointer while code runs. */
struct registers {
	uint64_t general[REGISTERS];
};

struct state {
	struct registers registers;
	uint64_t memory[MEMORY_WORDS];
	uint64_t stack[STACK_WORDS];
};

/* The memory of both runs. Its addresses are the same for both, so results that are addresses can be compared. */
static uint64_t memory[MEMORY_WORDS], stack[STACK_WORDS] __attribute__((aligned(16)));
static unsigned char *code;
static uint64_t draws;
static sigjmp_buf back;

/* Loads all registers, calls `function`, and stores all registers, which no C function can do. */
void execute(struct registers *registers, const void *function);
__asm__(".pushsection .text\n"
	"execute:\n\t"
	"push %rbx\n\tpush %rbp\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
	"mov %rsp, execute_stack(%rip)\n\t"
	"mov %rdi, execute_registers(%rip)\n\t"
	"mov %rsi, execute_function(%rip)\n\t"
	"mov %rdi, %rax\n\t"
	"mov 8(%rax), %rcx\n\tmov 16(%rax), %rdx\n\tmov 24(%rax), %rbx\n\tmov 32(%rax), %rsp\n\t"
	"mov 40(%rax), %rbp\n\tmov 48(%rax), %rsi\n\tmov 56(%rax), %rdi\n\tmov 64(%rax), %r8\n\tmov 72(%rax), %r9\n\t"
	"mov 80(%rax), %r10\n\tmov 88(%rax), %r11\n\tmov 96(%rax), %r12\n\tmov 104(%rax), %r13\n\t"
	"mov 112(%rax), %r14\n\tmov 120(%rax), %r15\n\t"
	"mov (%rax), %rax\n\t"
	"call *execute_function(%rip)\n\t"
	"mov %rsp, execute_found(%rip)\n\t"
	"mov execute_stack(%rip), %rsp\n\t"
	"push %rax\n\t"
	"mov execute_registers(%rip), %rax\n\t"
	"pop (%rax)\n\t"
	"mov %rcx, 8(%rax)\n\tmov %rdx, 16(%rax)\n\tmov %rbx, 24(%rax)\n\t"
	"mov %rbp, 40(%rax)\n\tmov %rsi, 48(%rax)\n\tmov %rdi, 56(%rax)\n\tmov %r8, 64(%rax)\n\tmov %r9, 72(%rax)\n\t"
	"mov %r10, 80(%rax)\n\tmov %r11, 88(%rax)\n\tmov %r12, 96(%rax)\n\tmov %r13, 104(%rax)\n\t"
	"mov %r14, 112(%rax)\n\tmov %r15, 120(%rax)\n\t"
	"mov execute_found(%rip), %rcx\n\tmov %rcx, 32(%rax)\n\t"
	"pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbp\n\tpop %rbx\n\t"
	"cld\n\t"
	"ret\n\t"
	".popsection\n\t"
	".local execute_stack, execute_registers, execute_function, execute_found\n\t"
	".comm execute_stack, 8\n\t.comm execute_registers, 8\n\t.comm execute_function, 8\n\t.comm execute_found, 8\n");

/* xorshift64* (Vigna 2016) */
static uint64_t draw(void)
{
	draws ^= draws >> 12;
	draws ^= draws << 25;
	draws ^= draws >> 27;
	return draws * 0x2545f4914f6cdd1dull;
}

static void faulted(int signal)
{
	siglongjmp(back, signal);
}

/* Runs a function; returns the number of the signal that ended it, or 0. */
static int run(const unsigned char *function, const struct state *before, struct state *after)
{
	int signal;

	memcpy(memory, before->memory, sizeof memory);
	memcpy(stack, before->stack, sizeof stack);
	after->registers = before->registers;
	signal = sigsetjmp(back, 1);
	if (signal == 0)
		execute(&after->registers, function);
	memcpy(after->memory, memory, sizeof memory);
	memcpy(after->stack, stack, sizeof stack);
	return signal;
}

/* Draws a word for registers and memory: a number, or an address in `memory`. */
static uint64_t word(void)
{
	uint64_t number = draw();

	switch (number >> 61) {
	case 0:
		return number & 0xff;
	case 1:
		return ~(number & 0xff);
	case 2:
		return number;
	default:
		return (uint64_t)(uintptr_t)&memory[MEMORY_WORDS / 4 + number % (MEMORY_WORDS / 2)];
	}
}

static void state_draw(struct state *state)
{
	for (int i = 0; i < REGISTERS; i++)
		state->registers.general[i] = word();
	for (int i = 0; i < MEMORY_WORDS; i++)
		state->memory[i] = word();
	for (int i = 0; i < STACK_WORDS; i++)
		state->stack[i] = word();
	state->registers.general[RSP] = (uint64_t)(uintptr_t)&stack[STACK_WORDS - TOP];
}

/* Compares what a caller may look at: %rax, %rbx, %rsp, %rbp, %r12 to %r15; memory; the stack from the stack pointer up. */
static bool same(const struct state *a, const struct state *b)
{
	static const unsigned kept[] = {RAX, RBX, RSP, RBP, 12, 13, 14, 15};

	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
		if (a->registers.general[kept[i]] != b->registers.general[kept[i]])
			return false;
	return memcmp(a->memory, b->memory, sizeof a->memory) == 0 &&
	       memcmp(a->stack + STACK_WORDS - TOP, b->stack + STACK_WORDS - TOP, TOP * sizeof a->stack[0]) == 0;
}

static void print(const char *name, const unsigned char *bytes, size_t length)
{
	fprintf(stderr, "%s", name);
	for (size_t i = 0; i < length; i++)
		fprintf(stderr, " %02x", bytes[i]);
	fprintf(stderr, "\n");
}

/* Functions as compilers write them, as starting points: from all levels, with and without frames and landing pads. */
static const struct {
	unsigned char bytes[FUNCTION_MAX];
	size_t length;
} written[] = {
#define BYTES(...) {{__VA_ARGS__}, sizeof((unsigned char[]){__VA_ARGS__})}
	BYTES(0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0x7d, 0xf8, 0x48, 0x8b, 0x45, 0xf8, 0x5d, 0xc3),
	BYTES(0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0x48, 0x89, 0x7d, 0xf8, 0x89, 0x75, 0xf4, 0x8b, 0x45, 0xf4, 0xc9, 0xc3),
	BYTES(0x48, 0x89, 0xf8, 0xc3),
	BYTES(0x8d, 0x04, 0x37, 0xc3),
	BYTES(0x48, 0x8d, 0x44, 0x37, 0x08, 0xc3),
	BYTES(0x48, 0x8b, 0x47, 0x10, 0xc3),
	BYTES(0x48, 0x89, 0x77, 0x08, 0xc3),
	BYTES(0x0f, 0xb6, 0xc7, 0xc3),
	BYTES(0x48, 0x0f, 0xbe, 0x07, 0xc3),
	BYTES(0x31, 0xc0, 0xc3),
	BYTES(0xb8, 0x05, 0x00, 0x00, 0x00, 0xc3),
	BYTES(0x48, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff, 0xc3),
	BYTES(0x55, 0x89, 0xf8, 0x5d, 0xc3),
	BYTES(0x48, 0x83, 0xec, 0x08, 0x89, 0xf8, 0x48, 0x83, 0xc4, 0x08, 0xc3),
	BYTES(0xc7, 0x07, 0x01, 0x00, 0x00, 0x00, 0xc3),
	BYTES(0x89, 0xf8, 0x66, 0x90, 0xc3),
	BYTES(0x48, 0x63, 0xc7, 0xc3),
	BYTES(0xe8, 0x03, 0x00, 0x00, 0x00, 0x48, 0x89, 0xf8, 0xc3),
	BYTES(0xf3, 0x48, 0x0f, 0xb8, 0xc7, 0xc3),
	BYTES(0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3),
};

static const unsigned char likely[] = {0xc3, 0x48, 0x89, 0x8b, 0xf8, 0x55, 0x5d, 0xe5, 0xc7, 0xc0, 0x31, 0xff, 0x0f, 0x1f, 0x44, 0x00,
				       0x66, 0x2e, 0x8d, 0x04, 0x37, 0xe8, 0x05, 0xc9, 0x83, 0xec, 0x08, 0xb8, 0x07, 0x24, 0x40, 0x4c,
				       0x49, 0xb6, 0xbe, 0x63, 0x7d, 0xf0, 0x45, 0xc4, 0x10, 0x90, 0xf3, 0x1e, 0xfa, 0xeb, 0x67, 0x41};

static unsigned char likely_byte(void)
{
	uint64_t number = draw();

	return number & 0x700 ? likely[(number >> 16) % sizeof likely] : (unsigned char)(number >> 24);
}

/* Draws a function of up to FUNCTION_MAX bytes, with int3 behind it. */
static void function_draw(unsigned char *function)
{
	uint64_t number = draw();
	size_t length = 1 + (number >> 8) % FUNCTION_MAX, changes;

	memset(code, 0xcc, CODE_SIZE);
	if (number & 1) {
		for (size_t i = 0; i < length; i++)
			function[i] = likely_byte();
		return;
	}
	number = draw() % (sizeof written / sizeof written[0]);
	memcpy(function, written[number].bytes, written[number].length);
	length = written[number].length;
	for (changes = draw() % 3; changes; changes--) {
		size_t at = draw() % length;

		if (draw() & 1 && length < FUNCTION_MAX) {
			memmove(function + at + 1, function + at, length - at);
			length++;
		}
		function[at] = likely_byte();
	}
}

static bool no_reader(void *unused, uint64_t address, uint8_t *byte)
{
	uint64_t offset = address - (uint64_t)(uintptr_t)code;

	(void)unused;
	if (offset >= CODE_SIZE)
		return false;
	*byte = code[offset];
	return true;
}

static struct {
	unsigned long drawn, of_kind[BODY_INSTRUCTION + 1], executed, faults;
} counts;

static void compare(unsigned char *function)
{
	static struct state before, theirs, ours;
	struct code_source source = {no_reader, NULL, NULL};
	unsigned char body[X86_64_BODY_SIZE], *site = code + CODE_SIZE / 2;
	enum body_kind kind = x86_64_recognise(&source, (uint64_t)(uintptr_t)function, body);

	counts.drawn++;
	counts.of_kind[kind]++;
	if (kind == BODY_UNKNOWN)
		return;
	memcpy(site, body, sizeof body);
	site[sizeof body] = 0xc3;
	for (int round = 0; round < 8; round++) {
		int signal_of_theirs, signal_of_ours;

		state_draw(&before);
		signal_of_theirs = run(function, &before, &theirs);
		signal_of_ours = run(site, &before, &ours);
		counts.executed++;
		counts.faults += signal_of_ours != 0;
		if (signal_of_theirs == signal_of_ours && (signal_of_ours || same(&theirs, &ours)))
			continue;
		print("function", function, FUNCTION_MAX);
		print("body", body, sizeof body);
		for (int i = 0; i < REGISTERS; i++)
			fprintf(stderr, "register %2d: %16llx, function %16llx, body %16llx\n", i,
				(unsigned long long)before.registers.general[i],
				(unsigned long long)theirs.registers.general[i],
				(unsigned long long)ours.registers.general[i]);
		fprintf(stderr, "kind %d, signals %d and %d, draws %llx: executed does not do what the function does\n", kind,
			signal_of_theirs, signal_of_ours, (unsigned long long)draws);
		exit(1);
	}
}

int main(int count, char **arguments)
{
	static unsigned char own_stack[1 << 16];
	double seconds = 1;
	time_t end;

	draws = 1;
	for (int i = 1; i + 1 < count; i += 2) {
		if (strcmp(arguments[i], "--seconds") == 0)
			seconds = atof(arguments[i + 1]);
		else if (strcmp(arguments[i], "--seed") == 0)
			draws = strtoull(arguments[i + 1], NULL, 0) * 2 + 1;
	}
	/* Handlers run on a stack of their own, since %rsp may be anything. */
	sigaltstack(&(stack_t){.ss_sp = own_stack, .ss_size = sizeof own_stack}, NULL);
	for (size_t i = 0; i < 5; i++)
		sigaction((int[]){SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE}[i],
			  &(struct sigaction){.sa_handler = faulted, .sa_flags = SA_ONSTACK | SA_NODEFER}, NULL);
	code = mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED) {
		fprintf(stderr, "SKIPPED: memory that is written and executed cannot be had here\n");
		return 0;
	}
	for (end = time(NULL) + (time_t)(seconds + 0.5); time(NULL) < end;)
		for (int i = 0; i < 10000; i++) {
			function_draw(code + FUNCTION_AT);
			compare(code + FUNCTION_AT);
		}
	printf("executed: %lu functions drawn; recognised as nothing %lu, move %lu, constant %lu, instruction %lu; "
	       "%lu comparisons, %lu of them faults of both\n",
	       counts.drawn, counts.of_kind[BODY_NOTHING], counts.of_kind[BODY_MOVE], counts.of_kind[BODY_CONSTANT],
	       counts.of_kind[BODY_INSTRUCTION], counts.executed, counts.faults);
	return 0;
}
