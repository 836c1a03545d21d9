/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Questions about what is mapped, so that the library refuses a program's wrong addresses instead of executing them. */
#define _GNU_SOURCE
#include "internal.h"
#include "kernel.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uintptr_t page_of(uintptr_t address)
{
	return address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

/*
 * Populating a page for reading fails where nothing is mapped, where the mapping forbids reading and where the file has become too
 * short. Older kernels return EINVAL for the request itself, so for this library's own code, too (madvise(2)): there mincore(2)
 * says whether something is mapped. Where a call is forbidden, the page counts as readable.
 */
bool page_is_readable(uintptr_t address)
{
	const uintptr_t own = (uintptr_t)&page_is_readable;
	unsigned char resident;

	if (madvise((void *)page_of(address), 1, KERNEL_MADV_POPULATE_READ) == 0)
		return true;
	if (errno == ENOMEM || errno == EFAULT)
		return false;
	if (errno == EINVAL && madvise((void *)page_of(own), 1, KERNEL_MADV_POPULATE_READ) == 0)
		return false;
	return mincore((void *)page_of(address), 1, &resident) == 0 || errno != ENOMEM;
}

/*
 * Whether memory can be read and not written: then what the loader left there stays (RELRO). Populating pages for writing fails
 * with EINVAL where a mapping forbids writing. A kernel that does not know the requests refuses both (madvise(2)).
 */
bool memory_is_constant(uint64_t address, size_t length)
{
	uintptr_t start = page_of((uintptr_t)address);
	size_t bytes = (size_t)(address + length - start);

	return madvise((void *)start, bytes, KERNEL_MADV_POPULATE_READ) == 0 &&
	       madvise((void *)start, bytes, KERNEL_MADV_POPULATE_WRITE) != 0 && errno == EINVAL;
}

static enum code code_by_rights(bool readable, bool executable)
{
	return !executable ? CODE_NONE : readable ? CODE_READABLE : CODE_UNREADABLE;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* Asks the loader's own table, without a lock and without a system call (glibc 2.35). False if it has no code there. */
static bool code_of_object(uint64_t address, enum code *code)
{
	struct dl_find_object found;
	const ElfW(Ehdr) *header;
	const ElfW(Phdr) *segment;

	if (_dl_find_object((void *)(uintptr_t)address, &found) != 0)
		return false;
	header = found.dlfo_map_start;
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phentsize != sizeof *segment)
		return false;
	segment = (const void *)((const char *)header + header->e_phoff);
	for (unsigned i = 0; i < header->e_phnum; i++, segment++) {
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) ||
		    address - found.dlfo_link_map->l_addr - segment->p_vaddr >= segment->p_memsz)
			continue;
		*code = code_by_rights(segment->p_flags & PF_R, true);
		return true;
	}
	return false;
}
#else
static bool code_of_object(uint64_t address, enum code *code)
{
	(void)address, (void)code;
	return false;
}
#endif

/* A parser of /proc/self/maps: "start-end rwxp …". It is a state machine, since the end of the buffer may cut a line. */
struct maps {
	enum { START, STOP, RIGHTS, REST } field;
	uint64_t bounds[2];
	char rights[4];
	unsigned letters;
};

static uint64_t hex_digit(char c)
{
	return c <= '9' ? (uint64_t)(c - '0') : (uint64_t)(c - 'a' + 10);
}

/* Takes one character. True if `c` ends the rights of the mapping that holds `address`. */
static bool maps_take(struct maps *maps, char c, uint64_t address)
{
	if (c == '\n') {
		*maps = (struct maps){.field = START};
		return false;
	}
	if (maps->field == REST)
		return false;
	if (maps->field == RIGHTS) {
		maps->rights[maps->letters++] = c;
		if (maps->letters < sizeof maps->rights)
			return false;
		maps->field = REST;
		return address >= maps->bounds[0] && address < maps->bounds[1];
	}
	if (c == '-' || c == ' ')
		maps->field++;
	else
		maps->bounds[maps->field] = maps->bounds[maps->field] << 4 | hex_digit(c);
	return false;
}

/* Asks the kernel's list of mappings. If the list is unavailable, any mapped memory may be code. */
static enum code code_by_maps(uint64_t address)
{
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	enum code code = CODE_NONE;
	struct maps maps = {.field = START};
	char text[4096];
	ssize_t got;

	if (file < 0)
		return page_is_readable((uintptr_t)address) ? CODE_READABLE : CODE_NONE;
	while ((got = read(file, text, sizeof text)) > 0) {
		for (ssize_t i = 0; i < got; i++) {
			if (maps_take(&maps, text[i], address)) {
				code = code_by_rights(maps.rights[0] == 'r', maps.rights[2] == 'x');
				close(file);
				return code;
			}
		}
	}
	close(file);
	return code;
}

enum code code_at(uint64_t address)
{
	enum code code;

	return code_of_object(address, &code) ? code : code_by_maps(address);
}
