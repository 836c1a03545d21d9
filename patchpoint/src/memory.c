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
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static uintptr_t page_of(uintptr_t address)
{
	return address & ~(page_size() - 1);
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

bool pages_are_readable(uintptr_t start, size_t bytes)
{
	return madvise((void *)start, bytes, KERNEL_MADV_POPULATE_READ) == 0;
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

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* The segments of an object in memory, and where its own code begins: a program at its entry, a shared object at its initialiser. */
struct segments {
	const ElfW(Phdr) *table;
	size_t count;
	uint64_t bias, begin;
};

/*
 * Asks the loader's own table, without a lock and without a system call (glibc 2.35). The kernel says where a program's segments are;
 * those of a shared object follow its header, which is where its addresses count from.
 */
static bool segments_of(uint64_t address, struct segments *segments)
{
	struct dl_find_object found, program;
	const ElfW(Ehdr) *header;

	if (_dl_find_object((void *)(uintptr_t)address, &found) != 0)
		return false;
	segments->bias = found.dlfo_link_map->l_addr;
	if (_dl_find_object((void *)getauxval(AT_ENTRY), &program) == 0 && program.dlfo_link_map == found.dlfo_link_map) {
		segments->table = (const void *)getauxval(AT_PHDR);
		segments->count = getauxval(AT_PHNUM);
		segments->begin = getauxval(AT_ENTRY);
		return segments->table;
	}
	header = (const void *)segments->bias;
	if (!header || (header != found.dlfo_map_start && !page_is_readable((uintptr_t)header)) ||
	    memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phentsize != sizeof *segments->table)
		return false;
	segments->table = (const void *)((const char *)header + header->e_phoff);
	segments->count = header->e_phnum;
	segments->begin = 0;
	for (const ElfW(Dyn) *entry = found.dlfo_link_map->l_ld; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_INIT)
			segments->begin = segments->bias + entry->d_un.d_ptr;
	return true;
}

/* Returns the executable segment that holds an address, or NULL. */
static const ElfW(Phdr) *segment_of_code(const struct segments *segments, uint64_t address)
{
	for (const ElfW(Phdr) *segment = segments->table; segment < segments->table + segments->count; segment++)
		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X &&
		    address - segments->bias - segment->p_vaddr < segment->p_memsz)
			return segment;
	return NULL;
}
#endif

static enum code code_by_rights(bool readable, bool executable)
{
	return !executable ? CODE_NONE : readable ? CODE_READABLE : CODE_UNREADABLE;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* False if the loader knows of no code there. */
static bool code_of_object(uint64_t address, enum code *code)
{
	const ElfW(Phdr) *segment;
	struct segments segments;

	segment = segments_of(address, &segments) ? segment_of_code(&segments, address) : NULL;
	if (segment)
		*code = code_by_rights(segment->p_flags & PF_R, true);
	return segment;
}

/*
 * BOLT writes functions anew into a segment of their own, in which the object then begins, and leaves the old functions where they
 * were.
 */
bool text_was_moved(uint64_t address)
{
	const ElfW(Phdr) *text, *begin;
	struct segments segments;

	if (!segments_of(address, &segments))
		return false;
	text = segment_of_code(&segments, address);
	begin = segment_of_code(&segments, segments.begin);
	return text && begin && begin != text;
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

bool text_was_moved(uint64_t address)
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

bool kept_file_is_open(const struct kept_file *kept)
{
	struct stat now;

	return kept->file >= 0 && fstat(kept->file, &now) == 0 && now.st_dev == kept->device && now.st_ino == kept->inode;
}

int kept_file_open(struct kept_file *kept)
{
	struct statfs system;
	struct stat now;
	int error = 0;

	kept->file = open(kept->path, kept->flags | O_CLOEXEC);
	if (kept->file < 0)
		return -errno;
	if (fstat(kept->file, &now) != 0 || fstatfs(kept->file, &system) != 0)
		error = -errno;
	else if (system.f_type != KERNEL_PROC_SUPER_MAGIC)
		error = -EXDEV;
	if (error) {
		kept_file_close(kept);
		return error;
	}
	kept->device = now.st_dev;
	kept->inode = now.st_ino;
	return 0;
}

void kept_file_close(struct kept_file *kept)
{
	close(kept->file);
	kept->file = -1;
}

static struct kept_file mappings = {"/proc/self/maps", O_RDONLY, -1, 0, 0};

/* The inherited descriptor lists the parent's mappings. */
void mappings_after_fork(void)
{
	if (kept_file_is_open(&mappings))
		close(mappings.file);
	mappings.file = -1;
}

int mapping_at(uint64_t address, struct mapping *found)
{
	char none[1];
	struct maps maps = {.field = START, .name = none, .size = sizeof none};
	int result;

	if (!kept_file_is_open(&mappings) && kept_file_open(&mappings) != 0)
		return -1;
	result = maps_ask(mappings.file, address, found);
	if (result < 0) {
		lseek(mappings.file, 0, SEEK_SET);
		result = maps_search(mappings.file, address, &maps);
		*found = maps.now;
	}
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
