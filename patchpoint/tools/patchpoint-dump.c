/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lists the patchable sites of an ELF file or of a running process. Reads only; stops nothing. */
#define _GNU_SOURCE
#include "dump.h"

#include <patchpoint.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct output {
	bool json;
	size_t sites;
};

static void put_bytes(const unsigned char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		printf("%s%02x", i ? " " : "", bytes[i]);
}

/* A JSON string (RFC 8259, section 7). Paths may hold any byte: what is not printable ASCII goes as \u00XX. */
static void put_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if (isprint((unsigned char)*text))
			putchar(*text);
		else
			printf("\\u%04x", (unsigned char)*text);
	}
	putchar('"');
}

static void put_json(const struct dumped_site *site)
{
	printf("{\"key\": ");
	put_string(site->key);
	printf(", \"kind\": \"%s\", \"address\": \"%#llx\", \"object\": ", site->kind, (unsigned long long)site->address);
	put_string(site->object);
	printf(", \"state\": \"%s\", \"bytes_original\": \"", site->state);
	put_bytes(site->original, site->length);
	printf("\", \"bytes_now\": ");
	if (site->loaded) {
		putchar('"');
		put_bytes(site->now, site->length);
		printf("\"}");
	} else {
		printf("null}");
	}
}

static void put_site(const struct dumped_site *site, void *argument)
{
	struct output *output = argument;

	if (output->json) {
		printf("%s\n    ", output->sites ? "," : "");
		put_json(site);
	} else {
		printf("%#14llx  %-6s  %-9s  %-20s  ", (unsigned long long)site->address, site->kind, site->state, site->key);
		put_bytes(site->original, site->length);
		if (site->loaded) {
			printf("  ->  ");
			put_bytes(site->now, site->length);
		}
		printf("  %s\n", site->object);
	}
	output->sites++;
}

/* What the registries of a process say, taken together. */
struct registries {
	bool open_transaction; /* the bytes may change while they are read */
	bool counts_ops;       /* there is one that is new enough to count operations */
	uint64_t ops;
};

static void read_registry(const struct image *image, struct registries *all)
{
	const size_t oldest = offsetof(struct patchpoint_registry, stubs);
	uint64_t contents = image_note(image, 2), registry;
	struct patchpoint_registry found = {.size = 0};
	int32_t distance;

	if (!contents || !image_read_file(image, contents + 4, &distance, sizeof distance))
		return;
	registry = contents + 4 + (uint64_t)(int64_t)distance;
	if (!image_read(image, registry, &found, oldest) || memcmp(found.magic, "patchpt", 8) != 0)
		return;
	all->open_transaction |= found.lock != 0;
	if (found.size < sizeof found || !image_read(image, registry, &found, sizeof found))
		return;
	all->counts_ops = true;
	all->ops += found.ops;
}

/* 0, or an exit status with a message on stderr. */
static int dump_image(const struct image *image, struct output *output)
{
	if (sites_visit(image, put_site, output))
		return 0;
	fprintf(stderr,
		"patchpoint-dump: cannot read the sites of '%s': its records have another format (this tool reads %d) or are cut "
		"short; use the tool of the same version\n",
		image->path, PATCHPOINT_FORMAT);
	return 4;
}

static int dump_file(const char *path, struct output *output)
{
	struct image image;
	int error = image_open(&image, path), status;

	if (error) {
		fprintf(stderr, "patchpoint-dump: cannot read '%s': %s; give a 64-bit ELF file or a process id\n", path,
			error == -ENOEXEC ? "not an ELF file" : strerror(-error));
		return 4;
	}
	snprintf(image.path, sizeof image.path, "%s", path);
	status = dump_image(&image, output);
	image_close(&image);
	return status;
}

/* The first page of an object tells where its file's addresses are. */
static uint64_t lowest_address(const struct image *image)
{
	const Elf64_Ehdr *header = (const void *)image->file;
	const Elf64_Phdr *segment = (const void *)(image->file + header->e_phoff);
	uint64_t lowest = UINT64_MAX;

	for (unsigned i = 0; i < header->e_phnum; i++)
		if (segment[i].p_type == PT_LOAD && segment[i].p_vaddr < lowest)
			lowest = segment[i].p_vaddr & ~UINT64_C(4095);
	return lowest;
}

static int dump_mapping(const char *pid, uint64_t start, const char *path, struct output *output,
			struct registries *registries)
{
	struct image image;
	char name[4200];
	int status;

	/* The file as the process sees it, which may live in a container. */
	snprintf(name, sizeof name, "/proc/%s/root%s", pid, path);
	if (image_open(&image, name) != 0)
		return 0;
	snprintf(image.path, sizeof image.path, "%s", path);
	snprintf(name, sizeof name, "/proc/%s/mem", pid);
	image.memory = open(name, O_RDONLY | O_CLOEXEC);
	image.bias = start - lowest_address(&image);
	if (image.memory < 0) {
		fprintf(stderr, "patchpoint-dump: cannot read the memory of process %s: %s; run as its user or as root\n", pid,
			strerror(errno));
		status = 5;
	} else {
		read_registry(&image, registries);
		status = dump_image(&image, output);
	}
	image_close(&image);
	return status;
}

static int dump_process(const char *pid, struct output *output, struct registries *registries)
{
	char line[4400], path[4096], name[64];
	unsigned long long start, offset;
	int status = 0;
	FILE *maps;

	snprintf(name, sizeof name, "/proc/%s/maps", pid);
	maps = fopen(name, "re");
	if (!maps) {
		fprintf(stderr, "patchpoint-dump: cannot read process %s: %s; give the id of a running process\n", pid,
			strerror(errno));
		return 4;
	}
	while (!status && fgets(line, sizeof line, maps))
		if (sscanf(line, "%llx-%*x %*s %llx %*s %*s %4095[^\n]", &start, &offset, path) == 3 && offset == 0 &&
		    path[0] == '/')
			status = dump_mapping(pid, start, path, output, registries);
	fclose(maps);
	return status;
}

static const char usage[] = "usage: patchpoint-dump ELF|PID [--json]\n"
			    "Lists patchable sites: bytes as compiled and, of a process, bytes now.\n";

int main(int count, char **arguments)
{
	struct output output = {false, 0};
	const char *subject = NULL;
	struct registries registries = {false, false, 0};
	int status;

	if (count == 2 && strcmp(arguments[1], "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	for (int i = 1; i < count; i++) {
		if (strcmp(arguments[i], "--json") == 0)
			output.json = true;
		else if (arguments[i][0] == '-' || subject)
			subject = "-";
		else
			subject = arguments[i];
	}
	if (!subject || subject[0] == '-') {
		fputs(usage, stderr);
		return 2;
	}
	if (output.json)
		printf("{\"schema\": 1, \"sites\": [");
	status = subject[strspn(subject, "0123456789")] == 0 ? dump_process(subject, &output, &registries)
							     : dump_file(subject, &output);
	if (output.json) {
		printf("\n  ], \"transaction_open\": %s, \"ops\": ", registries.open_transaction ? "true" : "false");
		if (registries.counts_ops)
			printf("%llu}\n", (unsigned long long)registries.ops);
		else
			printf("null}\n");
	} else if (registries.ops > 0) {
		printf("operations: %llu\n", (unsigned long long)registries.ops);
	}
	if (registries.open_transaction)
		fprintf(stderr, "patchpoint-dump: a transaction was open; repeat to see its end\n");
	return status;
}
