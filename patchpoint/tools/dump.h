/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Declarations that the files of patchpoint-dump share. */
#ifndef DUMP_H
#define DUMP_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { BYTES_MAX = 16, NAME_BYTES_MAX = 128 };

/* A pointer that the loader will put into data, from a file's table of relocations. */
struct relocation {
	uint64_t at;
	uint64_t pointer;
};

/* A program or shared object: a file, or an image in the memory of a process, whose file may be gone. */
struct image {
	const char *path;          /* for messages */
	const unsigned char *file; /* NULL if the image is in memory */
	size_t size;
	int memory;     /* /proc/PID/mem, or -1 */
	uint64_t start; /* the address of the ELF header in memory */
	uint64_t bias;  /* address in memory minus address in the file */
	Elf64_Ehdr header;
	struct relocation *relocations; /* of a file, sorted by address */
	size_t relocation_count;
};

struct dumped_site {
	char key[NAME_BYTES_MAX];
	const char *kind;
	const char *state;
	uint64_t address;
	const char *object;
	size_t length;
	unsigned char compiled[BYTES_MAX];
	unsigned char now[BYTES_MAX];
	bool loaded; /* whether `now` is what a process executes */
};

/* Opens a file. 0, -errno, or -ENOEXEC if it is no 64-bit ELF file of this byte order. */
int image_open_file(struct image *image, const char *path);
/* Opens the image whose ELF header is at `start` in a process. False if there is none. */
bool image_open_memory(struct image *image, int memory, uint64_t start);
void image_close(struct image *image);
/* Reads bytes at an address of the file. */
bool image_read(const struct image *image, uint64_t address, void *bytes, size_t length);
/* Returns the address of the contents of the ELF note "patchpoint" of this type, at least `length` bytes, or 0. */
uint64_t image_note(const struct image *image, uint32_t type, size_t length);
/* Returns a pointer in data as an address of the file: as loaded, or as its relocation will make it. */
uint64_t image_pointer(const struct image *image, uint64_t address);

/* Whether an address lies in another executable segment than that in which the image begins, as after BOLT moved its functions. */
bool image_was_moved(const struct image *image, uint64_t address);

/* Whether an image's sites could be visited. */
enum visited { VISITED, VISITED_OTHER_FORMAT, VISITED_DAMAGED };
/* Calls `put` for each site of an image. */
enum visited sites_visit(const struct image *image, void (*put)(const struct dumped_site *site, void *argument),
			 void *argument);

#endif
