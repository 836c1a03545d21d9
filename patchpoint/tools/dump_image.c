/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ELF files and the memory of processes, read only. Formats: elf(5), System V gABI. */
#define _GNU_SOURCE
#include "dump.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int image_open(struct image *image, const char *path)
{
	struct stat status;
	int file = open(path, O_RDONLY | O_CLOEXEC), error = 0;
	void *bytes = MAP_FAILED;

	image->memory = -1;
	image->bias = 0;
	if (file < 0)
		return -errno;
	if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || (size_t)status.st_size < sizeof(Elf64_Ehdr))
		error = -ENOEXEC;
	else if ((bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0)) == MAP_FAILED)
		error = -errno;
	close(file);
	if (error)
		return error;
	image->file = bytes;
	image->size = (size_t)status.st_size;
	const Elf64_Ehdr *header = bytes;
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff > image->size ||
	    header->e_phnum > (image->size - header->e_phoff) / sizeof(Elf64_Phdr)) {
		image_close(image);
		return -ENOEXEC;
	}
	return 0;
}

void image_close(struct image *image)
{
	munmap((void *)(uintptr_t)image->file, image->size);
	if (image->memory >= 0)
		close(image->memory);
}

static const Elf64_Phdr *segments(const struct image *image, size_t *count)
{
	const Elf64_Ehdr *header = (const void *)image->file;

	*count = header->e_phnum;
	return (const void *)(image->file + header->e_phoff);
}

bool image_read_file(const struct image *image, uint64_t address, void *bytes, size_t length)
{
	size_t count;
	const Elf64_Phdr *segment = segments(image, &count);

	for (; count > 0; count--, segment++) {
		uint64_t offset = address - segment->p_vaddr;

		if (segment->p_type != PT_LOAD || address < segment->p_vaddr || offset >= segment->p_filesz ||
		    length > segment->p_filesz - offset)
			continue;
		if (segment->p_offset > image->size || offset + length > image->size - segment->p_offset)
			return false;
		memcpy(bytes, image->file + segment->p_offset + offset, length);
		return true;
	}
	return false;
}

bool image_read(const struct image *image, uint64_t address, void *bytes, size_t length)
{
	if (image->memory < 0)
		return image_read_file(image, address, bytes, length);
	return pread(image->memory, bytes, length, (off_t)(address + image->bias)) == (ssize_t)length;
}

static uint64_t note_in(const struct image *image, uint64_t address, uint64_t end, uint32_t type)
{
	Elf64_Nhdr note;
	char name[sizeof "patchpoint"];

	while (address + sizeof note <= end && image_read_file(image, address, &note, sizeof note)) {
		uint64_t contents = address + sizeof note + ((note.n_namesz + 3) & ~UINT64_C(3));

		if (note.n_type == type && note.n_namesz == sizeof name &&
		    image_read_file(image, address + sizeof note, name, sizeof name) &&
		    memcmp(name, "patchpoint", sizeof name) == 0)
			return contents;
		address = contents + ((note.n_descsz + 3) & ~UINT64_C(3));
	}
	return 0;
}

uint64_t image_note(const struct image *image, uint32_t type)
{
	size_t count;
	const Elf64_Phdr *segment = segments(image, &count);
	uint64_t found = 0;

	for (; count > 0 && !found; count--, segment++)
		if (segment->p_type == PT_NOTE)
			found = note_in(image, segment->p_vaddr, segment->p_vaddr + segment->p_filesz, type);
	return found;
}

/* The table of relocations with addends, from the dynamic section. */
static uint64_t relocations(const struct image *image, uint64_t *bytes)
{
	size_t count;
	const Elf64_Phdr *segment = segments(image, &count);
	uint64_t table = 0;

	*bytes = 0;
	for (; count > 0; count--, segment++) {
		Elf64_Dyn entry;

		if (segment->p_type != PT_DYNAMIC)
			continue;
		for (uint64_t at = segment->p_vaddr; image_read_file(image, at, &entry, sizeof entry) && entry.d_tag != DT_NULL;
		     at += sizeof entry) {
			if (entry.d_tag == DT_RELA)
				table = entry.d_un.d_ptr;
			if (entry.d_tag == DT_RELASZ)
				*bytes = entry.d_un.d_val;
		}
	}
	return table;
}

uint64_t image_pointer(const struct image *image, uint64_t address)
{
	uint64_t pointer = 0, bytes, table;
	Elf64_Rela relocation;

	if (!image_read(image, address, &pointer, sizeof pointer))
		return 0;
	if (image->memory >= 0)
		return pointer - image->bias;
	table = relocations(image, &bytes);
	for (uint64_t at = table; pointer == 0 && at + sizeof relocation <= table + bytes; at += sizeof relocation)
		if (image_read_file(image, at, &relocation, sizeof relocation) && relocation.r_offset == address &&
		    ELF64_R_TYPE(relocation.r_info) == R_X86_64_RELATIVE)
			return (uint64_t)relocation.r_addend;
	return pointer;
}
