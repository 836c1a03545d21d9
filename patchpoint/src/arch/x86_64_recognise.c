/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Symbolic execution of a function: each register and each word of its own frame holds a value of known origin, or an unknown one.
 * At the return only the result matters, if the stack and the callee-saved registers are as at entry and memory outside the frame
 * was not touched. Anything that is not understood ends the attempt.
 */
#include "x86_64_recognise.h"

#include <string.h>

enum origin {
	UNKNOWN = 0,
	ENTRY,   /* a register as it was at entry: `number` */
	ENTRY32, /* its low half, zero-extended */
	CONSTANT,
	FRAME,  /* address on the stack: `number` bytes from the stack pointer at entry */
	CALLER, /* the return address of the function */
	INNER,  /* the return address of a call it made */
	EFFECT, /* the result of the one instruction that is kept */
};

struct value {
	enum origin origin;
	uint64_t number;
};

struct word {
	int64_t offset; /* from the stack pointer at entry */
	unsigned size;
	struct value value;
};

enum { WORDS = 16, STEPS = 64, REGISTERS = 16 };

enum { EFFECT_MAX = X86_64_BODY_SIZE - 1 }; /* the bytes after the mark */

struct machine {
	const struct code_source *source;
	uint64_t next;
	struct value registers[REGISTERS];
	struct word words[WORDS];
	unsigned count;
	uint8_t effect[EFFECT_MAX];
	uint8_t effect_length;
	bool stored;
};

static struct value unknown(void)
{
	return (struct value){UNKNOWN, 0};
}

static bool same(struct value a, enum origin origin, uint64_t number)
{
	return a.origin == origin && a.number == number;
}

/* Returns what a 32-bit register keeps of a value. */
static struct value low_half(struct value value)
{
	switch (value.origin) {
	case ENTRY:
	case ENTRY32:
		return (struct value){ENTRY32, value.number};
	case CONSTANT:
		return (struct value){CONSTANT, (uint32_t)value.number};
	default:
		return unknown();
	}
}

/* The lowest offset of a frame that is understood. */
enum { FRAME_START = -512 };

/* Writes the function's own frame, below the return address; any other store ends the attempt. */
static bool store(struct machine *machine, int64_t offset, unsigned size, struct value value)
{
	if (offset < FRAME_START || offset + (int64_t)size > 0)
		return false;
	for (unsigned i = machine->count; i-- > 0;) {
		struct word *word = &machine->words[i];

		if (word->offset < offset + (int64_t)size && offset < word->offset + (int64_t)word->size)
			*word = machine->words[--machine->count];
	}
	if (machine->count == WORDS)
		return false;
	machine->words[machine->count++] = (struct word){offset, size, value};
	return true;
}

/* Reads the function's own frame or the return address. Other memory may not be there at all, and the function would fault. */
static bool load(const struct machine *machine, int64_t offset, unsigned size, struct value *value)
{
	*value = unknown();
	if (offset < FRAME_START || offset > 0)
		return false;
	for (unsigned i = 0; i < machine->count; i++) {
		const struct word *word = &machine->words[i];

		if (word->offset == offset && word->size == size)
			*value = word->value;
		else if (word->offset == offset && word->size == 8 && size == 4)
			*value = low_half(word->value);
	}
	return true;
}

static bool push(struct machine *machine, struct value value)
{
	struct value *stack = &machine->registers[RSP];

	if (stack->origin != FRAME)
		return false;
	stack->number -= 8;
	return store(machine, (int64_t)stack->number, 8, value);
}

/* The word at offset 0 is the return address; everything above belongs to the caller. */
static bool pop(struct machine *machine, struct value *value)
{
	struct value *stack = &machine->registers[RSP];
	int64_t offset = (int64_t)stack->number;

	if (stack->origin != FRAME || !load(machine, offset, 8, value))
		return false;
	if (offset == 0)
		*value = (struct value){CALLER, 0};
	stack->number += 8;
	return true;
}

static bool is_argument(unsigned number)
{
	return number == RDI || number == RSI || number == RDX || number == RCX || number == R8 || number == R9;
}

static bool is_saved(unsigned number)
{
	return number == RBX || number == RBP || (number >= 12 && number <= R15);
}

/* Whether a register operand of the kept instruction is an argument that still holds what the caller passed. */
static bool untouched(const struct machine *machine, uint8_t number)
{
	return number == NO_REGISTER || (is_argument(number) && same(machine->registers[number], ENTRY, number));
}

/*
 * Keeps an instruction unchanged, if it is the only one with an effect, short, and right at any address. Directly behind the mark
 * there can be no other REX prefix, and no store of a byte, whose register the mark would change.
 */
static bool keep(struct machine *machine, const struct instruction *instruction)
{
	if (instruction->length == EFFECT_MAX && (instruction->rex || instruction->opcode == 0x88))
		return false;
	if (machine->effect_length || instruction->length > EFFECT_MAX || instruction->rip ||
	    !untouched(machine, instruction->base) || !untouched(machine, instruction->index))
		return false;
	if (instruction->rm == NO_REGISTER && instruction->base == NO_REGISTER)
		return false;
	memcpy(machine->effect, instruction->bytes, instruction->length);
	machine->effect_length = instruction->length;
	return true;
}

static bool keep_result(struct machine *machine, const struct instruction *instruction)
{
	if (instruction->reg != RAX || (instruction->rm != NO_REGISTER && !untouched(machine, instruction->rm)) ||
	    !keep(machine, instruction))
		return false;
	machine->registers[RAX] = (struct value){EFFECT, 0};
	return true;
}

static bool keep_store(struct machine *machine, const struct instruction *instruction, bool from_register)
{
	if (instruction->rm != NO_REGISTER || (from_register && !untouched(machine, instruction->reg)) ||
	    !keep(machine, instruction))
		return false;
	machine->stored = true;
	return true;
}

/* Whether the memory operand is in the frame; then *offset says where. */
static bool in_frame(const struct machine *machine, const struct instruction *instruction, int64_t *offset)
{
	if (instruction->base == NO_REGISTER || instruction->index != NO_REGISTER ||
	    machine->registers[instruction->base].origin != FRAME)
		return false;
	*offset = (int64_t)(machine->registers[instruction->base].number + (uint64_t)(int64_t)instruction->displacement);
	return true;
}

static bool based_on_frame(const struct machine *machine, const struct instruction *instruction)
{
	int64_t offset;

	return in_frame(machine, instruction, &offset);
}

static void set(struct machine *machine, uint8_t number, struct value value, bool wide)
{
	machine->registers[number] = wide ? value : low_half(value);
}

static bool step_mov(struct machine *machine, const struct instruction *instruction)
{
	bool wide = instruction->rex & 8, load_form = instruction->opcode == 0x8b;
	struct value value;
	int64_t offset;

	if (instruction->rm != NO_REGISTER) {
		uint8_t to = load_form ? instruction->reg : instruction->rm;
		uint8_t from = load_form ? instruction->rm : instruction->reg;

		set(machine, to, machine->registers[from], wide);
		return true;
	}
	if (!in_frame(machine, instruction, &offset))
		return load_form ? keep_result(machine, instruction) : keep_store(machine, instruction, true);
	if (load_form) {
		if (!load(machine, offset, wide ? 8 : 4, &value))
			return false;
		set(machine, instruction->reg, value, wide);
		return true;
	}
	value = machine->registers[instruction->reg];
	return store(machine, offset, wide ? 8 : 4, wide ? value : low_half(value));
}

static bool step_mov_immediate(struct machine *machine, const struct instruction *instruction)
{
	bool wide = instruction->rex & 8;
	struct value value = {CONSTANT, instruction->immediate};
	int64_t offset;

	if ((instruction->reg & 7) != 0)
		return false;
	if (instruction->rm != NO_REGISTER) {
		if (instruction->opcode == 0xc6)
			return false;
		set(machine, instruction->rm, value, wide);
		return true;
	}
	if (!in_frame(machine, instruction, &offset))
		return keep_store(machine, instruction, false);
	if (instruction->opcode == 0xc6)
		return store(machine, offset, 1, unknown());
	return store(machine, offset, wide ? 8 : 4, wide ? value : low_half(value));
}

/* Byte moves: a byte stored in the frame becomes unknown; a store through an argument can be kept. */
static bool step_byte(struct machine *machine, const struct instruction *instruction)
{
	int64_t offset;

	if (instruction->opcode != 0x88 || instruction->rm != NO_REGISTER)
		return false;
	if (in_frame(machine, instruction, &offset))
		return store(machine, offset, 1, unknown());
	/* Without REX the numbers 4 to 7 are %ah to %bh. */
	if (instruction->reg >= 4 && !instruction->rex)
		return false;
	return keep_store(machine, instruction, true);
}

/* xor and sub of a register with itself. */
static bool step_clear(struct machine *machine, const struct instruction *instruction)
{
	if (instruction->rm != instruction->reg)
		return false;
	machine->registers[instruction->rm] = (struct value){CONSTANT, 0};
	return true;
}

static bool step_lea(struct machine *machine, const struct instruction *instruction)
{
	int64_t offset;

	if (instruction->rm != NO_REGISTER)
		return false;
	if (!in_frame(machine, instruction, &offset))
		return keep_result(machine, instruction);
	if (!(instruction->rex & 8))
		return false;
	machine->registers[instruction->reg] = (struct value){FRAME, (uint64_t)offset};
	return true;
}

/* add and sub on the stack pointer; or $-1 on a register; arithmetic on memory that can be kept, such as "and $0" at -Os. */
static bool step_immediate(struct machine *machine, const struct instruction *instruction)
{
	struct value *stack = &machine->registers[RSP];
	unsigned extension = instruction->reg & 7;

	if (extension == 1 && instruction->rm != NO_REGISTER && instruction->rm != RSP &&
	    instruction->immediate == ~UINT64_C(0)) {
		set(machine, instruction->rm, (struct value){CONSTANT, ~UINT64_C(0)}, instruction->rex & 8);
		return true;
	}
	/* 2 and 3 (adc, sbb) read the carry flag, and 7 (cmp) only compares. */
	if (instruction->rm == NO_REGISTER && (extension <= 1 || (extension >= 4 && extension <= 6)))
		return !based_on_frame(machine, instruction) && keep_store(machine, instruction, false);
	if (instruction->rm != RSP || stack->origin != FRAME || !(instruction->rex & 8) ||
	    (extension != 0 && extension != 5))
		return false;
	stack->number += extension == 0 ? instruction->immediate : -instruction->immediate;
	return true;
}

static bool call(struct machine *machine, uint64_t target)
{
	if (!push(machine, (struct value){INNER, machine->next}))
		return false;
	machine->next = target;
	return true;
}

/*
 * call *address(%rip), as -mfentry makes under -fPIC: it goes through a slot that the loader filled and nobody can change any more.
 * Any other pointer may change later.
 */
static bool step_indirect(struct machine *machine, const struct instruction *instruction)
{
	uint64_t slot = machine->next + (uint64_t)(int64_t)instruction->displacement, target;

	if ((instruction->reg & 7) != 2 || !instruction->rip || machine->source->read || !machine->source->constant ||
	    !machine->source->constant(slot, sizeof target))
		return false;
	memcpy(&target, (const void *)(uintptr_t)slot, sizeof target);
	return call(machine, target);
}

enum outcome { GO_ON, RETURNED, STUCK };

static enum outcome step_return(struct machine *machine)
{
	struct value target;

	if (!pop(machine, &target))
		return STUCK;
	if (target.origin == CALLER)
		return machine->registers[RSP].number == 8 ? RETURNED : STUCK;
	if (target.origin != INNER)
		return STUCK;
	machine->next = target.number;
	return GO_ON;
}

static bool step_plain(struct machine *machine, const struct instruction *instruction)
{
	uint8_t low = (instruction->opcode & 7) | ((instruction->rex & 1) << 3);

	if (instruction->opcode >= 0x50 && instruction->opcode <= 0x57)
		return push(machine, machine->registers[low]);
	if (instruction->opcode >= 0x58 && instruction->opcode <= 0x5f)
		return low != RSP && pop(machine, &machine->registers[low]);
	if (instruction->opcode >= 0xb8 && instruction->opcode <= 0xbf) {
		set(machine, low, (struct value){CONSTANT, instruction->immediate}, instruction->rex & 8);
		return true;
	}
	switch (instruction->opcode) {
	case 0x29: case 0x2b: case 0x31: case 0x33:
		return step_clear(machine, instruction);
	case 0x63: case 0x0fb6: case 0x0fb7: case 0x0fbe: case 0x0fbf: {
		bool byte_of_rsp_up = instruction->rm != NO_REGISTER && instruction->rm >= 4 && !instruction->rex &&
				      (instruction->opcode == 0x0fb6 || instruction->opcode == 0x0fbe);

		return !byte_of_rsp_up && !based_on_frame(machine, instruction) && keep_result(machine, instruction);
	}
	case 0x81: case 0x83:
		return step_immediate(machine, instruction);
	case 0x88:
		return step_byte(machine, instruction);
	case 0x89: case 0x8b:
		return step_mov(machine, instruction);
	case 0x8d:
		return step_lea(machine, instruction);
	case 0x90:
		return !(instruction->rex & 1);
	case 0xc6: case 0xc7:
		return step_mov_immediate(machine, instruction);
	case 0xc9:
		machine->registers[RSP] = machine->registers[RBP];
		return pop(machine, &machine->registers[RBP]);
	case 0xff:
		return step_indirect(machine, instruction);
	case 0x0f1f:
		return true;
	default:
		return false;
	}
}

static enum outcome step(struct machine *machine)
{
	struct instruction instruction;

	if (!x86_64_decode(machine->source, machine->next, &instruction))
		return STUCK;
	machine->next += instruction.length;
	/* Linkers put an address prefix before a call that they converted from an indirect one. */
	if (instruction.prefixes & PREFIX_OTHER || (instruction.prefixes & PREFIX_ADDRESS && instruction.opcode != 0xe8))
		return STUCK;
	/* endbr64; other uses of the opcode touch the shadow stack. */
	if (instruction.opcode == 0x0f1e)
		return instruction.prefixes == PREFIX_REP && instruction.rm == 2 && instruction.reg == 7 ? GO_ON : STUCK;
	if (instruction.opcode == 0x0f1f)
		return GO_ON;
	/* 66 90 is a nop; 66 c3 returns as usual on some processors, and to an address of 16 bits on others. */
	if ((instruction.prefixes & PREFIX_16) && instruction.opcode != 0x90)
		return STUCK;
	/* rep and bnd before ret mean nothing here; f3 90 is pause. */
	if (instruction.opcode == 0xc3)
		return step_return(machine);
	if (instruction.prefixes & (PREFIX_REP | PREFIX_REPNE))
		return STUCK;
	if (instruction.opcode == 0xe8)
		return call(machine, machine->next + instruction.immediate) ? GO_ON : STUCK;
	if (instruction.opcode == 0xe9 || instruction.opcode == 0xeb) {
		machine->next += instruction.immediate;
		return GO_ON;
	}
	return step_plain(machine, &instruction) ? GO_ON : STUCK;
}

/* Puts together the mark, prefixes without meaning, and the instruction. */
static void pad(uint8_t body[X86_64_BODY_SIZE], const uint8_t *bytes, unsigned length)
{
	body[0] = X86_64_MARK;
	memset(body + 1, 0x2e, EFFECT_MAX - length);
	memcpy(body + X86_64_BODY_SIZE - length, bytes, length);
}

static enum body_kind move(uint8_t body[X86_64_BODY_SIZE], uint64_t from, bool wide)
{
	uint8_t rex = (wide ? 0x48 : 0) | (from >= 8 ? 0x44 : 0);
	uint8_t bytes[3] = {rex, 0x89, (uint8_t)(0xc0 | (from & 7) << 3)};

	if (!is_argument((unsigned)from))
		return BODY_UNKNOWN;
	if (rex)
		pad(body, bytes, 3);
	else
		pad(body, bytes + 1, 2);
	return BODY_MOVE;
}

static enum body_kind constant(uint8_t body[X86_64_BODY_SIZE], uint64_t number)
{
	static const uint8_t all_ones[4] = {0x48, 0x83, 0xc8, 0xff}; /* or $-1,%rax */

	if (number == ~UINT64_C(0)) {
		pad(body, all_ones, 4);
		return BODY_CONSTANT;
	}
	if (number > UINT32_MAX)
		return BODY_UNKNOWN;
	body[0] = X86_64_MARK;
	body[1] = 0xc7;
	body[2] = 0xc0;
	for (unsigned i = 0; i < 4; i++)
		body[3 + i] = (uint8_t)(number >> (8 * i));
	return BODY_CONSTANT;
}

static enum body_kind conclude(const struct machine *machine, uint8_t body[X86_64_BODY_SIZE])
{
	static const uint8_t nop[X86_64_BODY_SIZE] = {X86_64_MARK, 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00};
	struct value result = machine->registers[RAX];

	for (unsigned i = 0; i < REGISTERS; i++)
		if (is_saved(i) && !same(machine->registers[i], ENTRY, i))
			return BODY_UNKNOWN;
	if (machine->effect_length) {
		if (machine->stored ? !same(result, ENTRY, RAX) : result.origin != EFFECT)
			return BODY_UNKNOWN;
		pad(body, machine->effect, machine->effect_length);
		return BODY_INSTRUCTION;
	}
	switch (result.origin) {
	case ENTRY:
		if (result.number != RAX)
			return move(body, result.number, true);
		memcpy(body, nop, sizeof nop);
		return BODY_NOTHING;
	case ENTRY32:
		return move(body, result.number, false);
	case CONSTANT:
		return constant(body, result.number);
	default:
		return BODY_UNKNOWN;
	}
}

enum body_kind x86_64_recognise(const struct code_source *source, uint64_t entry, uint8_t body[X86_64_BODY_SIZE])
{
	struct machine machine = {.source = source, .next = entry};

	for (unsigned i = 0; i < REGISTERS; i++)
		machine.registers[i] = (struct value){ENTRY, i};
	machine.registers[RSP] = (struct value){FRAME, 0};
	for (unsigned i = 0; i < STEPS; i++) {
		switch (step(&machine)) {
		case GO_ON:
			break;
		case RETURNED:
			return conclude(&machine, body);
		case STUCK:
			return BODY_UNKNOWN;
		}
	}
	return BODY_UNKNOWN;
}
