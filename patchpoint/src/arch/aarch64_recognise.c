/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Symbolic execution of a function: each register and each word of its own frame holds a value of known origin, or an unknown one.
 * Anything that is not understood ends the attempt. Encoding: Arm ARM, section C4.1.
 */
#include "aarch64_recognise.h"

enum { LR = 30, SP = 31, REGISTERS = 32, WORDS = 16, STEPS = 64 };

enum origin {
	UNKNOWN = 0,
	ENTRY,    /* a register as it was at entry: `number` */
	FRAME,    /* address on the stack: `number` bytes from the stack pointer at entry */
	SIGNED_A, /* the return address, signed with a key (FEAT_PAuth) at a stack pointer of `number` */
	SIGNED_B,
};

struct value {
	enum origin origin;
	int64_t number;
};

struct word {
	int64_t offset; /* from the stack pointer at entry */
	int64_t size;
	struct value value;
};

struct machine {
	struct value registers[REGISTERS]; /* the last is the stack pointer */
	struct word words[WORDS];
	unsigned count;
};

enum outcome { GO_ON, RETURNED, STUCK };

bool aarch64_read(aarch64_reader read, void *context, uint64_t address, uint32_t *instruction)
{
	*instruction = 0;
	for (unsigned i = 0; i < 4; i++) {
		uint8_t byte;

		if (!read)
			byte = *(const volatile uint8_t *)(uintptr_t)(address + i);
		else if (!read(context, address + i, &byte))
			return false;
		*instruction |= (uint32_t)byte << (8 * i);
	}
	return true;
}

static struct value unknown(void)
{
	return (struct value){UNKNOWN, 0};
}

static bool same(struct value a, enum origin origin, int64_t number)
{
	return a.origin == origin && a.number == number;
}

/* Extracts `bits` bits from bit `low` on, sign-extended. */
static int64_t signed_field(uint32_t instruction, unsigned low, unsigned bits)
{
	int64_t field = instruction >> low & ((1u << bits) - 1);

	return field >> (bits - 1) ? field - (INT64_C(1) << bits) : field;
}

/* Register number 31 is the zero register here: a write to it is lost, and it reads as unknown. */
static void set(struct machine *machine, unsigned number, struct value value)
{
	if (number != SP)
		machine->registers[number] = value;
}

static struct value get(const struct machine *machine, unsigned number)
{
	return number == SP ? unknown() : machine->registers[number];
}

/* Writes the function's own frame, between the stack pointer and its value at entry; any other store ends the attempt. */
static bool store(struct machine *machine, int64_t offset, int64_t size, struct value value)
{
	struct value stack = machine->registers[SP];

	if (stack.origin != FRAME || offset < stack.number || offset + size > 0)
		return false;
	for (unsigned i = machine->count; i-- > 0;) {
		struct word *word = &machine->words[i];

		if (word->offset < offset + size && offset < word->offset + word->size)
			*word = machine->words[--machine->count];
	}
	if (machine->count == WORDS)
		return false;
	machine->words[machine->count++] = (struct word){offset, size, value};
	return true;
}

/* Reads the function's own frame. Other memory may hold anything, or not be there at all. */
static bool load(const struct machine *machine, int64_t offset, int64_t size, struct value *value)
{
	struct value stack = machine->registers[SP];

	if (stack.origin != FRAME || offset < stack.number || offset + size > 0)
		return false;
	*value = unknown();
	for (unsigned i = 0; i < machine->count; i++)
		if (machine->words[i].offset == offset && machine->words[i].size == size)
			*value = machine->words[i].value;
	return true;
}

static bool transfer(struct machine *machine, bool loads, unsigned number, int64_t offset, int64_t size)
{
	struct value value;

	/* Values of less than 8 bytes are unknown. */
	if (!loads)
		return store(machine, offset, size, size == 8 ? get(machine, number) : unknown());
	if (!load(machine, offset, size, &value))
		return false;
	set(machine, number, size == 8 ? value : unknown());
	return true;
}

/* Finds the address of a load or store, whose base moves before or after it, or stays. False if it is not on the stack. */
enum indexing { BASE_MOVES_AFTER = 1, BASE_STAYS = 2, BASE_MOVES_BEFORE = 3 };

static bool address(struct machine *machine, unsigned base, enum indexing indexing, int64_t distance, int64_t *offset)
{
	struct value *held = &machine->registers[base];

	if (held->origin != FRAME)
		return false;
	*offset = held->number + (indexing == BASE_MOVES_AFTER ? 0 : distance);
	if (indexing != BASE_STAYS)
		held->number += distance;
	return true;
}

/* stp and ldp of two general registers. */
static bool step_pair(struct machine *machine, uint32_t instruction)
{
	bool loads = instruction & 1u << 22;
	unsigned first = instruction & 31, base = instruction >> 5 & 31, second = instruction >> 10 & 31;
	enum indexing indexing = (enum indexing)(instruction >> 23 & 3);
	int64_t size = instruction >> 31 ? 8 : 4, distance = signed_field(instruction, 15, 7) * size, offset;

	/* A store may not go below the stack pointer that it leaves: a signal would overwrite it. */
	if (indexing == BASE_MOVES_AFTER && !loads)
		return false;
	/* A pair that loads or stores its own base register and moves it is unpredictable. */
	if (indexing != BASE_STAYS && base != SP)
		return false;
	if (indexing == BASE_MOVES_AFTER && base == SP) {
		/* Reads the words while they are still in the frame. */
		int64_t before = machine->registers[SP].number;

		return machine->registers[SP].origin == FRAME && transfer(machine, true, first, before, size) &&
		       transfer(machine, true, second, before + size, size) && address(machine, base, indexing, distance, &offset);
	}
	return address(machine, base, indexing, distance, &offset) && transfer(machine, loads, first, offset, size) &&
	       transfer(machine, loads, second, offset + size, size);
}

/* str and ldr of a general register, strb and strh, with a distance scaled by the size, or a distance that moves the base. */
static bool step_single(struct machine *machine, uint32_t instruction)
{
	bool loads = instruction & 1u << 22, scaled = instruction & 1u << 24;
	unsigned number = instruction & 31, base = instruction >> 5 & 31;
	int64_t size = INT64_C(1) << (instruction >> 30), distance, offset;
	enum indexing indexing = BASE_STAYS;

	/* Bit 23: a sign-extending load, or a prefetch. */
	if (instruction & 1u << 23 || (loads && size < 4))
		return false;
	if (scaled) {
		distance = (int64_t)(instruction >> 10 & 0xfff) * size;
	} else {
		if (instruction & 1u << 21)
			return false;
		distance = signed_field(instruction, 12, 9);
		if ((instruction >> 10 & 3) == 2)
			return false;
		if ((instruction >> 10 & 3) != 0) {
			indexing = (enum indexing)(instruction >> 10 & 3);
			/* As for pairs. */
			if (base != SP || (indexing == BASE_MOVES_AFTER && !loads))
				return false;
		}
	}
	if (indexing == BASE_MOVES_AFTER) {
		int64_t before = machine->registers[SP].number;

		return machine->registers[SP].origin == FRAME && transfer(machine, true, number, before, size) &&
		       address(machine, base, indexing, distance, &offset);
	}
	return address(machine, base, indexing, distance, &offset) && transfer(machine, loads, number, offset, size);
}

/* add and sub of a 64-bit number on a stack address: making and removing the frame, and mov between %sp and other registers. */
static bool step_add(struct machine *machine, uint32_t instruction)
{
	struct value from = machine->registers[instruction >> 5 & 31];
	int64_t number = instruction >> 10 & 0xfff;

	if (instruction & 1u << 22)
		number <<= 12;
	if (from.origin != FRAME)
		return false;
	from.number += instruction & 1u << 30 ? -number : number;
	if (from.number > 0 || from.number < -65536)
		return false;
	machine->registers[instruction & 31] = from;
	return true;
}

/* Hints: landing pads, and the signing of the return address. Any other hint ends the attempt, NOP above all. */
static bool step_hint(struct machine *machine, unsigned number)
{
	struct value *link = &machine->registers[LR], stack = machine->registers[SP];
	enum origin key = number & 2 ? SIGNED_B : SIGNED_A;

	switch (number) {
	case 32: case 34: case 36: case 38: /* bti */
		return true;
	case 25: case 27: /* paciasp, pacibsp */
		if (!same(*link, ENTRY, LR) || stack.origin != FRAME)
			return false;
		*link = (struct value){key, stack.number};
		return true;
	case 29: case 31: /* autiasp, autibsp */
		if (stack.origin != FRAME || !same(*link, key, stack.number))
			return false;
		*link = (struct value){ENTRY, LR};
		return true;
	default:
		return false;
	}
}

static enum outcome step(struct machine *machine, uint32_t instruction)
{
	bool done = false;

	switch (instruction) {
	case 0xd65f03c0: /* ret */
		return RETURNED;
	case 0xd65f0bff: /* retaa */
	case 0xd65f0fff: /* retab */
		return step_hint(machine, instruction == 0xd65f0bff ? 29 : 31) ? RETURNED : STUCK;
	default:
		break;
	}
	if ((instruction & 0xfffff01f) == 0xd503201f)
		done = step_hint(machine, instruction >> 5 & 127);
	else if ((instruction & 0x7e000000) == 0x28000000 && (instruction >> 23 & 3) != 0)
		done = step_pair(machine, instruction);
	else if ((instruction & 0x3e000000) == 0x38000000)
		done = step_single(machine, instruction);
	else if ((instruction & 0xbf800000) == 0x91000000)
		done = step_add(machine, instruction);
	else if ((instruction & 0x7fe0ffe0) == 0x2a0003e0) {
		/* mov of a register, or of its low half. */
		set(machine, instruction & 31, instruction >> 31 ? get(machine, instruction >> 16 & 31) : unknown());
		done = true;
	} else if ((instruction & 0x7f800000) == 0x52800000 || (instruction & 0x7f800000) == 0x12800000) {
		/* movz and movn. With 32 bits, a shift of 32 or more is undefined. */
		if (instruction >> 31 || !(instruction & 1u << 22)) {
			set(machine, instruction & 31, unknown());
			done = true;
		}
	}
	return done ? GO_ON : STUCK;
}

/* Whether %x19 to %x29, the link register and the stack are as at entry, and so %x0, which the caller may take for the result. */
static bool is_as_before(const struct machine *machine)
{
	for (unsigned i = 19; i <= LR; i++)
		if (!same(machine->registers[i], ENTRY, i))
			return false;
	return same(machine->registers[0], ENTRY, 0) && same(machine->registers[SP], FRAME, 0);
}

bool aarch64_does_nothing(aarch64_reader read, void *context, uint64_t entry)
{
	struct machine machine = {.count = 0};
	uint32_t instruction;

	if (entry & 3)
		return false;
	for (unsigned i = 0; i < REGISTERS; i++)
		machine.registers[i] = (struct value){ENTRY, i};
	machine.registers[SP] = (struct value){FRAME, 0};
	for (unsigned i = 0; i < STEPS; i++) {
		if (!aarch64_read(read, context, entry + 4 * (uint64_t)i, &instruction))
			return false;
		switch (step(&machine, instruction)) {
		case GO_ON:
			break;
		case RETURNED:
			return is_as_before(&machine);
		case STUCK:
			return false;
		}
	}
	return false;
}
