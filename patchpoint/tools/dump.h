/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the files of patchpoint-dump share. */
#ifndef DUMP_H
#define DUMP_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { BYTES_MAX = 16, NAME_MAX_BYTES = 128 };

/* A program or shared object: its file, and when it is loaded, the memory of the process. */
struct image {
	char path[4096];
	const unsigned char *file;
	size_t size;
	int memory;    /* /proc/PID/mem, or -1 */
	uint64_t bias; /* address in memory minus address in the file */
};

struct dumped_site {
	char key[NAME_MAX_BYTES];
	const char *kind;
	const char *state;
	uint64_t address;
	const char *object;
	size_t length;
	unsigned char original[BYTES_MAX];
	unsigned char now[BYTES_MAX];
	bool loaded; /* whether `now` is known */
};

/* Maps a file. 0, -errno, or -ENOEXEC when it is no 64-bit ELF file. */
int image_open(struct image *image, const char *path);
void image_close(struct image *image);
/* Bytes by the file's addresses: what the process holds (the file when there is none), and what the file holds. */
bool image_read(const struct image *image, uint64_t address, void *bytes, size_t length);
bool image_read_file(const struct image *image, uint64_t address, void *bytes, size_t length);
/* The address of the contents of the ELF note "patchpoint" of this type, or 0. */
uint64_t image_note(const struct image *image, uint32_t type);
/* A pointer in data: as loaded, or as its relocation will make it. */
uint64_t image_pointer(const struct image *image, uint64_t address);

/* Calls `put` for each site of an image. False when its records cannot be read. */
bool sites_visit(const struct image *image, void (*put)(const struct dumped_site *site, void *argument), void *argument);

#endif
