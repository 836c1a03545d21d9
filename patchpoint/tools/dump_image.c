/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ELF images in files and in the memory of processes, read only. Formats: elf(5), System V gABI. The code trusts nothing in an
 * image: each address is looked up in a segment before it is read, each count is bounded, and no structure is assumed to be
 * aligned.
 */
#define _GNU_SOURCE
#include "dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEGMENTS_MAX = 512, NOTES_BYTES_MAX = 1 << 20 };

static bool header_is_ours(const Elf64_Ehdr *header)
{
	const unsigned char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

	return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_ident[EI_CLASS] == ELFCLASS64 &&
	       header->e_ident[EI_DATA] == order && header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum <= SEGMENTS_MAX;
}

/* Reads bytes at an offset of the file. */
static bool read_raw(const struct image *image, uint64_t offset, void *bytes, size_t length)
{
	if (!image->file)
		return pread(image->memory, bytes, length, (off_t)(image->start + offset)) == (ssize_t)length;
	if (offset > image->size || length > image->size - offset)
		return false;
	memcpy(bytes, image->file + offset, length);
	return true;
}

/* Reads the segment with a number; false after the last. In memory the table follows the header, where the loader reads it too. */
static bool segment_at(const struct image *image, unsigned number, Elf64_Phdr *segment)
{
	return number < image->header.e_phnum &&
	       read_raw(image, image->header.e_phoff + number * sizeof *segment, segment, sizeof *segment);
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct relocation *)a)->at, y = ((const struct relocation *)b)->at;

	return (x > y) - (x < y);
}

/* Returns a value of the dynamic section, or 0. */
static uint64_t dynamic_value(const struct image *image, int64_t tag)
{
	Elf64_Phdr segment;
	Elf64_Dyn entry;

	for (unsigned i = 0; segment_at(image, i, &segment); i++) {
		if (segment.p_type != PT_DYNAMIC)
			continue;
		for (uint64_t at = 0; at < segment.p_filesz && image_read(image, segment.p_vaddr + at, &entry, sizeof entry) &&
				      entry.d_tag != DT_NULL;
		     at += sizeof entry)
			if (entry.d_tag == tag)
				return entry.d_un.d_val;
	}
	return 0;
}

/* Reads the relocations relative to the load address; others lead to other files. The file's size bounds their number. */
static bool read_relocations(struct image *image)
{
	const uint32_t relative = image->header.e_machine == EM_AARCH64 ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE;
	uint64_t table, bytes;
	Elf64_Rela entry;
	size_t count;

	table = dynamic_value(image, DT_RELA);
	bytes = dynamic_value(image, DT_RELASZ);
	count = (bytes < image->size ? bytes : image->size) / sizeof entry;
	image->relocations = calloc(count ? count : 1, sizeof *image->relocations);
	if (!image->relocations)
		return false;
	for (size_t i = 0; i < count && image_read(image, table + i * sizeof entry, &entry, sizeof entry); i++)
		if (ELF64_R_TYPE(entry.r_info) == relative)
			image->relocations[image->relocation_count++] =
				(struct relocation){entry.r_offset, (uint64_t)entry.r_addend};
	qsort(image->relocations, image->relocation_count, sizeof *image->relocations, by_address);
	return true;
}

int image_open_file(struct image *image, const char *path)
{
	struct stat status;
	int file = open(path, O_RDONLY | O_CLOEXEC), error = 0;
	void *bytes = MAP_FAILED;

	*image = (struct image){.path = path, .memory = -1};
	if (file < 0)
		return -errno;
	if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || (size_t)status.st_size < sizeof image->header)
		error = -ENOEXEC;
	else if ((bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0)) == MAP_FAILED)
		error = -errno;
	close(file);
	if (error)
		return error;
	image->file = bytes;
	image->size = (size_t)status.st_size;
	memcpy(&image->header, bytes, sizeof image->header);
	if (!header_is_ours(&image->header))
		error = -ENOEXEC;
	else if (!read_relocations(image))
		error = -ENOMEM;
	if (error)
		image_close(image);
	return error;
}

static int code_segment_of(const struct image *image, uint64_t address)
{
	Elf64_Phdr segment;

	for (unsigned i = 0; segment_at(image, i, &segment); i++)
		if (segment.p_type == PT_LOAD && segment.p_flags & PF_X && address - segment.p_vaddr < segment.p_memsz)
			return (int)i;
	return -1;
}

bool image_was_moved(const struct image *image, uint64_t address)
{
	uint64_t begin = image->header.e_entry ? image->header.e_entry : dynamic_value(image, DT_INIT);
	int first = begin ? code_segment_of(image, begin) : -1, own = code_segment_of(image, address);

	return first >= 0 && own >= 0 && own != first;
}

bool image_open_memory(struct image *image, int memory, uint64_t start)
{
	uint64_t lowest = UINT64_MAX;
	Elf64_Phdr segment;

	image->file = NULL;
	image->memory = memory;
	image->start = start;
	if (!read_raw(image, 0, &image->header, sizeof image->header) || !header_is_ours(&image->header))
		return false;
	/* The lowest segment connects the file's addresses with those in memory. */
	for (unsigned i = 0; segment_at(image, i, &segment); i++)
		if (segment.p_type == PT_LOAD && segment.p_vaddr < lowest)
			lowest = segment.p_vaddr & ~UINT64_C(4095);
	image->bias = start - lowest;
	return lowest != UINT64_MAX;
}

void image_close(struct image *image)
{
	if (image->file)
		munmap((void *)(uintptr_t)image->file, image->size);
	free(image->relocations);
	image->file = NULL;
	image->relocations = NULL;
}

bool image_read(const struct image *image, uint64_t address, void *bytes, size_t length)
{
	Elf64_Phdr segment;

	if (!image->file)
		return pread(image->memory, bytes, length, (off_t)(address + image->bias)) == (ssize_t)length;
	for (unsigned i = 0; segment_at(image, i, &segment); i++) {
		uint64_t offset = address - segment.p_vaddr;

		if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && offset < segment.p_filesz &&
		    length <= segment.p_filesz - offset && segment.p_offset <= UINT64_MAX - offset)
			return read_raw(image, segment.p_offset + offset, bytes, length);
	}
	return false;
}

static uint64_t padded(uint32_t size)
{
	return ((uint64_t)size + 3) & ~UINT64_C(3);
}

static uint64_t note_in(const struct image *image, const Elf64_Phdr *segment, uint32_t type, size_t length)
{
	uint64_t at = 0, stop = segment->p_filesz < NOTES_BYTES_MAX ? segment->p_filesz : NOTES_BYTES_MAX;
	char name[sizeof "patchpoint"];
	Elf64_Nhdr note;

	while (at + sizeof note <= stop && image_read(image, segment->p_vaddr + at, &note, sizeof note)) {
		uint64_t contents = at + sizeof note + padded(note.n_namesz);

		if (note.n_type == type && note.n_namesz == sizeof name && note.n_descsz >= length &&
		    image_read(image, segment->p_vaddr + at + sizeof note, name, sizeof name) &&
		    memcmp(name, "patchpoint", sizeof name) == 0)
			return segment->p_vaddr + contents;
		at = contents + padded(note.n_descsz);
	}
	return 0;
}

uint64_t image_note(const struct image *image, uint32_t type, size_t length)
{
	uint64_t found = 0;
	Elf64_Phdr segment;

	for (unsigned i = 0; !found && segment_at(image, i, &segment); i++)
		if (segment.p_type == PT_NOTE)
			found = note_in(image, &segment, type, length);
	return found;
}

uint64_t image_pointer(const struct image *image, uint64_t address)
{
	const struct relocation wanted = {address, 0}, *found;
	uint64_t pointer;

	if (!image_read(image, address, &pointer, sizeof pointer))
		return 0;
	if (!image->file)
		return pointer - image->bias;
	found = bsearch(&wanted, image->relocations, image->relocation_count, sizeof wanted, by_address);
	return found ? found->pointer : pointer;
}
