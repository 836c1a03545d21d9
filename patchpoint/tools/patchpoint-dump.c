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
	const struct image *image; /* whose sites are being visited */
	bool moved;		   /* whether another tool moved its functions */
};

static void put_bytes(const unsigned char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		printf("%s%02x", i ? " " : "", bytes[i]);
}

/* Writes a JSON string (RFC 8259, section 7). Paths may hold any byte: bytes that are not printable ASCII go as \u00XX. */
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

/* Writes text for a terminal: names come from files and processes, and must not move its cursor. */
static void put_text(const char *text)
{
	for (; *text; text++) {
		if (isprint((unsigned char)*text) && *text != '\\')
			putchar(*text);
		else
			printf("\\x%02x", (unsigned char)*text);
	}
}

static void put_json(const struct dumped_site *site)
{
	printf("{\"key\": ");
	put_string(site->key);
	printf(", \"kind\": \"%s\", \"address\": \"%#llx\", \"object\": ", site->kind, (unsigned long long)site->address);
	put_string(site->object);
	printf(", \"state\": \"%s\", \"bytes_original\": \"", site->state);
	put_bytes(site->compiled, site->length);
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

	output->moved |= image_was_moved(output->image, site->address - output->image->bias);

	if (output->json) {
		printf("%s\n    ", output->sites ? "," : "");
		put_json(site);
	} else {
		printf("%#14llx  %-6s  %-9s  ", (unsigned long long)site->address, site->kind, site->state);
		put_text(site->key);
		printf("%*s  ", strlen(site->key) < 20 ? (int)(20 - strlen(site->key)) : 0, "");
		put_bytes(site->compiled, site->length);
		if (site->loaded) {
			printf("  ->  ");
			put_bytes(site->now, site->length);
		}
		printf("  ");
		put_text(site->object);
		putchar('\n');
	}
	output->sites++;
}

/* The sums over the registries of a process. */
struct registries {
	bool open_transaction; /* the bytes may change while they are read */
	uint64_t ops;
};

static void read_registry(const struct image *image, struct registries *all)
{
	struct patchpoint_registry found;
	uint64_t contents = image_note(image, 2, sizeof(uint32_t) + sizeof(int32_t));
	int32_t distance;

	if (!contents || !image_read(image, contents + 4, &distance, sizeof distance))
		return;
	if (!image_read(image, contents + 4 + (uint64_t)(int64_t)distance, &found, sizeof found) ||
	    memcmp(found.magic, "patchpt", 8) != 0 || found.format != PATCHPOINT_FORMAT || found.size < sizeof found)
		return;
	all->open_transaction |= found.lock != 0;
	all->ops += found.ops;
}

/* Prints an image's sites. Returns 0, or an exit status after a message on stderr. */
static int dump_image(const struct image *image, struct output *output)
{
	enum visited visited;

	output->image = image;
	output->moved = false;
	visited = sites_visit(image, put_site, output);
	if (output->moved)
		fprintf(stderr, "patchpoint-dump: another tool (BOLT) moved functions of '%s': what runs may not be these sites\n",
			image->path);
	if (visited == VISITED)
		return 0;
	fprintf(stderr, "patchpoint-dump: cannot read the sites of '%s': %s\n", image->path,
		visited == VISITED_OTHER_FORMAT ? "its records have the format of another version; use the tool of that version"
						: "its records or what they lead to are damaged, or cut short");
	return 4;
}

static int dump_file(const char *path, struct output *output)
{
	struct image image;
	int error = image_open_file(&image, path), status;

	if (error) {
		fprintf(stderr, "patchpoint-dump: cannot read '%s': %s; give a 64-bit ELF file or a process id\n", path,
			error == -ENOEXEC ? "not an ELF file of this machine's kind" : strerror(-error));
		return 4;
	}
	status = dump_image(&image, output);
	image_close(&image);
	return status;
}

/* Prints the sites of an ELF image that is mapped, read from memory: its file may be gone, replaced or in another container. */
static int dump_mapping(int memory, uint64_t start, const char *path, struct output *output, struct registries *registries)
{
	struct image image = {.path = path};

	if (!image_open_memory(&image, memory, start))
		return 0;
	read_registry(&image, registries);
	return dump_image(&image, output);
}

static int dump_process(const char *pid, struct output *output, struct registries *registries)
{
	unsigned long long start, offset;
	int status = 0, memory, path_at;
	char *line = NULL, name[64];
	size_t room = 0;
	FILE *maps;

	snprintf(name, sizeof name, "/proc/%s/maps", pid);
	maps = fopen(name, "re");
	if (!maps) {
		fprintf(stderr, "patchpoint-dump: cannot read process %s: %s; give the id of a running process\n", pid,
			strerror(errno));
		return 4;
	}
	snprintf(name, sizeof name, "/proc/%s/mem", pid);
	memory = open(name, O_RDONLY | O_CLOEXEC);
	if (memory < 0) {
		fprintf(stderr, "patchpoint-dump: cannot read the memory of process %s: %s; run as its user or as root\n", pid,
			strerror(errno));
		status = 5;
	}
	while (!status && getline(&line, &room, maps) > 0) {
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%llx-%*x %*s %llx %*s %*s %n", &start, &offset, &path_at) == 2 && offset == 0)
			status = dump_mapping(memory, start, line + path_at, output, registries);
	}
	free(line);
	fclose(maps);
	if (memory >= 0)
		close(memory);
	return status;
}

static const char usage[] = "usage: patchpoint-dump ELF|PID [--json]\n"
			    "Lists patchable sites: bytes as compiled and, of a process, bytes now.\n";

int main(int count, char **arguments)
{
	struct output output = {.json = false};
	const char *subject = NULL;
	struct registries registries = {false, 0};
	bool is_process;
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
	is_process = subject[strspn(subject, "0123456789")] == 0;
	status = is_process ? dump_process(subject, &output, &registries) : dump_file(subject, &output);
	if (output.json) {
		printf("\n  ], \"transaction_open\": %s, \"ops\": ", registries.open_transaction ? "true" : "false");
		if (is_process)
			printf("%llu}\n", (unsigned long long)registries.ops);
		else
			printf("null}\n");
	} else if (registries.ops > 0) {
		printf("operations: %llu\n", (unsigned long long)registries.ops);
	}
	if (!status && !output.sites)
		fprintf(stderr, "patchpoint-dump: '%s' has no sites: it was built without patchpoint, or with its portable form\n", subject);
	if (registries.open_transaction)
		fprintf(stderr, "patchpoint-dump: a transaction was open; repeat to see its end\n");
	return status;
}
