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
#include <sys/ioctl.h>
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

/* Whether the loader wrote relocations into a text: then the file's pages are no code. */
bool text_is_relocated(uint64_t address)
{
	struct dl_find_object found;
	const ElfW(Dyn) *entry;

	if (_dl_find_object((void *)(uintptr_t)address, &found) != 0 || !found.dlfo_link_map->l_ld)
		return false;
	for (entry = found.dlfo_link_map->l_ld; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_TEXTREL))
			return true;
	return false;
}
#else
static bool code_of_object(uint64_t address, enum code *code)
{
	(void)address, (void)code;
	return false;
}

/* Without the loader's table nothing is known; linkers make no such text unless told (-z notext). */
bool text_is_relocated(uint64_t address)
{
	(void)address;
	return false;
}
#endif

/* A parser of /proc/self/maps: "start-end rwxp offset major:minor inode   name". A state machine: a read may end in a line. */
struct maps {
	enum { START, STOP, RIGHTS, OFFSET, DEVICE, INODE, NAME } field;
	struct mapping now;
	unsigned letters;
	char *name;
	size_t size, length;
};

static uint64_t digit(char c)
{
	return c <= '9' ? (uint64_t)(c - '0') : (uint64_t)(c - 'a' + 10);
}

static void maps_take_right(struct mapping *now, char c)
{
	now->readable |= c == 'r';
	now->executable |= c == 'x';
	now->shared |= c == 's';
}

/* Takes one character of a line. */
static void maps_take(struct maps *maps, char c)
{
	struct mapping *now = &maps->now;

	if (maps->field == NAME) {
		if ((c != ' ' || maps->length > 0) && maps->length + 1 < maps->size)
			maps->name[maps->length++] = c;
	} else if (c == ' ' || (c == '-' && maps->field == START)) {
		maps->field++;
	} else if (maps->field == RIGHTS) {
		maps_take_right(now, c);
	} else if (maps->field == INODE) {
		now->inode = now->inode * 10 + digit(c);
	} else if (maps->field <= STOP) {
		uint64_t *bound = maps->field == START ? &now->start : &now->stop;

		*bound = *bound << 4 | digit(c);
	}
}

/* Reads the list of mappings up to the one that holds `address`. */
static bool maps_search(int file, uint64_t address, struct maps *maps)
{
	char text[4096];
	ssize_t got;

	while ((got = read(file, text, sizeof text)) > 0) {
		for (ssize_t i = 0; i < got; i++) {
			if (text[i] != '\n') {
				maps_take(maps, text[i]);
				continue;
			}
			if (address >= maps->now.start && address < maps->now.stop)
				return true;
			maps->field = START;
			maps->now = (struct mapping){.start = 0};
			maps->length = 0;
		}
	}
	return false;
}

/* Asks the kernel for one mapping (Linux 6.11). Returns 1, 0 if nothing is mapped there, or -1 if the kernel does not know the request. */
static int maps_ask(int file, uint64_t address, struct mapping *found)
{
	struct kernel_procmap query = {.size = sizeof query, .address = address};

	if (ioctl(file, KERNEL_PROCMAP_QUERY, &query) != 0)
		return errno == ENOENT ? 0 : -1;
	*found = (struct mapping){query.start, query.stop, query.inode, query.rights & KERNEL_PROCMAP_READABLE,
				  query.rights & KERNEL_PROCMAP_EXECUTABLE, query.rights & KERNEL_PROCMAP_SHARED};
	return 1;
}

int mapping_at(uint64_t address, struct mapping *found)
{
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), result;
	char none[1];
	struct maps maps = {.field = START, .name = none, .size = sizeof none};

	if (file < 0)
		return -1;
	result = maps_ask(file, address, found);
	if (result < 0) {
		result = maps_search(file, address, &maps);
		*found = maps.now;
	}
	close(file);
	return result;
}

void mapping_name(uint64_t address, char *name, size_t size)
{
	struct maps maps = {.field = START, .name = name, .size = size};
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	if (file < 0 || !maps_search(file, address, &maps) || maps.name[0] != '/')
		maps.length = 0;
	name[maps.length] = 0;
	if (file >= 0)
		close(file);
}

/* Asks the kernel's list of mappings. If the list is unavailable, any mapped memory may be code. */
static enum code code_by_maps(uint64_t address)
{
	struct mapping mapping;
	int found = mapping_at(address, &mapping);

	if (found < 0)
		return page_is_readable((uintptr_t)address) ? CODE_READABLE : CODE_NONE;
	return found ? code_by_rights(mapping.readable, mapping.executable) : CODE_NONE;
}

enum code code_at(uint64_t address)
{
	enum code code;

	return code_of_object(address, &code) ? code : code_by_maps(address);
}
