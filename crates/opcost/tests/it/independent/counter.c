/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A plugin for QEMU that counts instructions and shares no code with opcost's. It writes the count down whenever the guest
 * executes `xchg %bx,%bx`, or on AArch64 `movz xzr` with a shift of 48 bits, and behind it, as ADDRESS:COUNT, that of each instruction in the ranges that `range=LOW-HIGH`
 * names. Debian 12 packages no qemu-plugin.h, so the plugin declares what it uses; API is the version.
 *
 * QEMU begins a string instruction anew for each iteration. Two beginnings are one instruction if nothing was executed
 * in between. An instruction that faults counts once more when it is started again.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_REGISTERS, ADD = 0 };
typedef void on_exec(unsigned cpu, void *data);
void *qemu_plugin_tb_get_insn(const void *block, size_t at);
size_t qemu_plugin_tb_n_insns(const void *block);
size_t qemu_plugin_insn_size(const void *insn);
uint64_t qemu_plugin_insn_vaddr(const void *insn);
void qemu_plugin_register_vcpu_insn_exec_cb(void *insn, on_exec *call, int registers, void *data);

static FILE *out;
static uint64_t strings, last_others;
static void *last;

/* The counts of single instructions, one for each byte of the ranges. */
static struct { uint64_t low, high; } ranges[8];
static size_t ranges_count, cells_count;
static size_t cell_of(uint64_t address)
{
	size_t at, before = 0;
	for (at = 0; at < ranges_count; before += ranges[at].high - ranges[at].low, at++)
		if (address >= ranges[at].low && address < ranges[at].high) return before + (address - ranges[at].low);
	return cells_count;
}

#if API < 2
static uint64_t others_sum;
void qemu_plugin_register_vcpu_insn_exec_inline(void *insn, int operation, void *to, uint64_t amount);
static uint64_t *cells;
static void start(void) { cells = calloc(cells_count + 1, sizeof *cells); }
static uint64_t cell(size_t at) { return cells[at]; }
static void count_cell(void *insn, size_t at) { qemu_plugin_register_vcpu_insn_exec_inline(insn, ADD, &cells[at], 1); }
static void count(void *insn) { qemu_plugin_register_vcpu_insn_exec_inline(insn, ADD, &others_sum, 1); }
static uint64_t others(void) { return others_sum; }
#else
typedef struct { void *scoreboard; size_t offset; } entry;
static entry others_sum;
void *qemu_plugin_scoreboard_new(size_t size);
uint64_t qemu_plugin_u64_get(entry from, unsigned cpu);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(void *insn, int operation, entry to, uint64_t amount);
static void *cells;
static void start(void)
{
	others_sum.scoreboard = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	cells = qemu_plugin_scoreboard_new((cells_count + 1) * sizeof(uint64_t));
}
static entry cell_at(size_t at) { return (entry){cells, at * sizeof(uint64_t)}; }
static uint64_t cell(size_t at) { return qemu_plugin_u64_get(cell_at(at), 0); }
static void count(void *insn) { qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, others_sum, 1); }
static void count_cell(void *insn, size_t at) { qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, cell_at(at), 1); }
static uint64_t others(void) { return qemu_plugin_u64_get(others_sum, 0); }
#endif

#if API < 3
const void *qemu_plugin_insn_data(const void *insn);
static void bytes_of(const void *insn, unsigned char *to, size_t size) { memcpy(to, qemu_plugin_insn_data(insn), size); }
#else
size_t qemu_plugin_insn_data(const void *insn, void *to, size_t size);
static void bytes_of(const void *insn, unsigned char *to, size_t size) { qemu_plugin_insn_data(insn, to, size); }
#endif

static void marked(unsigned cpu, void *data)
{
	fprintf(out, "%llu", (unsigned long long)(others() + strings));
	for (size_t at = 0; at < ranges_count; at++)
		for (uint64_t address = ranges[at].low; address < ranges[at].high; address++)
			if (cell(cell_of(address)))
				fprintf(out, " %llx:%llu", (unsigned long long)address, (unsigned long long)cell(cell_of(address)));
	fputc('\n', out);
	fflush(out);
}

static void string_begun(unsigned cpu, void *place)
{
	strings += place != last || others() != last_others;
	last = place;
	last_others = others();
}

/* A repeat prefix before one of movs, cmps, stos, lods, scas, ins, outs (Intel SDM volume 2, REP). */
static int is_string(const unsigned char *byte)
{
	if (*byte != 0xf2 && *byte != 0xf3) return 0;
	do byte++; while (*byte == 0x66 || *byte == 0x67 || *byte >> 4 == 4);
	return (*byte >= 0xa4 && *byte <= 0xaf && *byte != 0xa8 && *byte != 0xa9) || (*byte >= 0x6c && *byte <= 0x6f);
}

#if API < 7
static void translated(uint64_t plugin, void *block)
#else
static void translated(void *block, void *data)
#endif
{
	for (size_t at = 0; at < qemu_plugin_tb_n_insns(block); at++) {
		void *insn = qemu_plugin_tb_get_insn(block, at);
		unsigned char byte[16] = {0};
		size_t size = qemu_plugin_insn_size(insn);
		bytes_of(insn, byte, size);
		if (is_string(byte)) {
			void *place = (void *)qemu_plugin_insn_vaddr(insn);
			qemu_plugin_register_vcpu_insn_exec_cb(insn, string_begun, NO_REGISTERS, place);
			continue;
		}
		count(insn);
		if (cell_of(qemu_plugin_insn_vaddr(insn)) < cells_count) count_cell(insn, cell_of(qemu_plugin_insn_vaddr(insn)));
		if ((size == 3 && !memcmp(byte, "\x66\x87\xdb", 3)) ||
		    (size == 4 && (byte[0] & 0x1f) == 0x1f && byte[2] >> 5 == 7 && byte[3] == 0xd2))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, NO_REGISTERS, 0);
	}
}

__attribute__((visibility("default"))) int qemu_plugin_version = API;
#if API < 7
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t plugin, void (*call)(uint64_t, void *));
#else
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t plugin, void (*call)(void *, void *), void *data);
#endif

__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t plugin, const void *info, int count, char **arguments)
{
	if (count < 1 || count > 9 || strncmp(*arguments, "out=", 4) || !(out = fopen(*arguments + 4, "w"))) return 1;
	for (char **argument = arguments + 1; argument < arguments + count; argument++) {
		unsigned long long low, high;
		if (sscanf(*argument, "range=%llx-%llx", &low, &high) != 2 || high < low) return 1;
		ranges[ranges_count].low = low;
		ranges[ranges_count++].high = high;
		cells_count += high - low;
	}
	start();
#if API < 7
	qemu_plugin_register_vcpu_tb_trans_cb(plugin, translated);
#else
	qemu_plugin_register_vcpu_tb_trans_cb(plugin, translated, 0);
#endif
	return 0;
}
