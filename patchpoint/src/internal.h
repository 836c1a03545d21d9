/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Declarations that the library's files share. Nothing here is exported. */
#ifndef PATCHPOINT_INTERNAL_H
#define PATCHPOINT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#define PATCHPOINT_BUILD
#include "patchpoint.h"

#include "private_names.h"

/* Hidden, so that two shared objects with a copy each do not call into one another. */
#pragma GCC visibility push(hidden)

/* A function that calls through pointers whose functions were compiled elsewhere, perhaps without types (clang's -fsanitize=cfi, kcfi). */
#if !defined(__clang__)
#define CALLS_ANY
#elif __clang_major__ >= 16
#define CALLS_ANY __attribute__((no_sanitize("cfi", "kcfi")))
#else
#define CALLS_ANY __attribute__((no_sanitize("cfi")))
#endif

enum { LENGTH_MIN = 4, LENGTH_MAX = 11 }; /* bytes of the shortest and of the longest site */

/* A site's bytes in registers: its first and its last word, which may overlap. */
struct site_bytes {
	uint64_t first, last;
};

static inline struct site_bytes site_load(const unsigned char *from, size_t length)
{
	struct site_bytes bytes;
	uint32_t first, last;

	if (length >= sizeof bytes.first) {
		memcpy(&bytes.first, from, sizeof bytes.first);
		memcpy(&bytes.last, from + length - sizeof bytes.last, sizeof bytes.last);
		return bytes;
	}
	memcpy(&first, from, sizeof first);
	memcpy(&last, from + length - sizeof last, sizeof last);
	return (struct site_bytes){first, last};
}

static inline void site_store(unsigned char *to, struct site_bytes bytes, size_t length)
{
	uint32_t first = (uint32_t)bytes.first, last = (uint32_t)bytes.last;

	if (length >= sizeof bytes.first) {
		memcpy(to, &bytes.first, sizeof bytes.first);
		memcpy(to + length - sizeof bytes.last, &bytes.last, sizeof bytes.last);
	} else {
		memcpy(to, &first, sizeof first);
		memcpy(to + length - sizeof last, &last, sizeof last);
	}
}

static inline bool site_holds(struct site_bytes bytes, const unsigned char *other, size_t length)
{
	struct site_bytes others = site_load(other, length);

	return bytes.first == others.first && bytes.last == others.last;
}

/* Returns the address that a field relative to itself points to. */
static inline const void *field_target(const int32_t *field)
{
	return (const char *)field + *field;
}

static inline unsigned char *site_code(const struct patchpoint_site *site)
{
	return (unsigned char *)field_target(&site->code);
}

/* Returns the key that holds the value: an import stands for another key once that key's object is registered. */
static inline struct patchpoint_key *key_resolve(struct patchpoint_key *key)
{
	return key->flags & PATCHPOINT_KEY_IMPORT && key->origin ? *key->origin : key;
}

/* Returns the key that a site names, which may be an import. */
static inline struct patchpoint_key *site_key(const struct patchpoint_site *site)
{
	return (struct patchpoint_key *)field_target(&site->key);
}

static inline struct patchpoint_place site_place(const struct patchpoint_site *site)
{
	return (struct patchpoint_place){(uint64_t)(uintptr_t)site_code(site), (uint64_t)(uintptr_t)site_key(site),
					 (uint64_t)(uintptr_t)field_target(&site->aux), site->kind, site->length, site->flags};
}

static inline const struct patchpoint_site *object_sites(const struct patchpoint_object *object)
{
	return field_target(&object->note->sites_start);
}

static inline uint64_t key_value(const struct patchpoint_key *key)
{
	return (uint64_t)(uintptr_t)__atomic_load_n(&key->slot, __ATOMIC_ACQUIRE);
}

/* One site to be written: its present and its new bytes. */
struct patch {
	unsigned char *at;
	struct patchpoint_object *object;
	uint8_t length;
	uint8_t old[LENGTH_MAX];
	uint8_t new[LENGTH_MAX];
};

extern struct patchpoint_registry registry;

/* lock.c: guards the registry, all keys and all sites. Signals are blocked before the lock is taken until after its release. */
struct guard {
	uint64_t signals;
	int cancel;
};
int guard_enter(struct guard *guard);
void guard_leave(struct guard *guard);
bool lock_is_mine(void); /* async-signal-safe */
extern uint64_t guard_signals; /* the signals that the holder's thread had blocked */
/* Whether this process was forked without libc's handlers (by _Fork or the system call). Async-signal-safe. */
bool process_is_orphan(void);
void orphans_notice(void); /* prepares process_is_orphan */

/* transaction.c: the last site that held neither what it was compiled to nor what its key makes of it. */
extern char foreign_site[160];

/* registry.c */
bool registry_look_up(void); /* finds the sites of all objects, by key; false if memory for an object's list was missing */
/* The sites of one key: `index` is that of the next one, from 1; 0 behind the last. */
struct sites_of_key {
	const struct patchpoint_site *all;
	const uint32_t *next_of_key;
	uint32_t index;
};

static inline struct sites_of_key sites_of_key(const struct patchpoint_key *key)
{
	if (!key->first)
		return (struct sites_of_key){NULL, NULL, 0};
	return (struct sites_of_key){object_sites(key->object), key->object->next_of_key, key->first};
}

/* Returns the next site, NULL behind the last. */
static inline const struct patchpoint_site *next_site(struct sites_of_key *sites)
{
	uint32_t index = sites->index;

	if (!index)
		return NULL;
	sites->index = sites->next_of_key[index - 1];
	return sites->all + (index - 1);
}

bool registry_preserves(uint64_t function);
bool site_crosses(const struct patchpoint_object *object, const unsigned char *page); /* whether the page begins within a site */
extern bool patchpoint_eager;
/* Once everything is to be patched: patch the sites of a new object, or of a key that a new import stands for. */
void transaction_patch_object(const struct patchpoint_object *object);
void transaction_patch_key(struct patchpoint_key *key);

/* transaction.c */
struct patchpoint_change {
	struct patchpoint_key *key;
	uint64_t value;
	uint8_t form;
	uint8_t body[PATCHPOINT_BODY_SIZE];
};
struct patience;
/* An attempt at a change, made with the lock held; -EAGAIN: the change must wait. */
struct attempt {
	int (*run)(struct attempt *attempt, struct patience *patience);
	struct patchpoint_change *changes; /* attempt_changes: the last one of each key counts */
	size_t count;
	const struct patchpoint_object *only; /* attempt_again */
};
/* Attempts a change until it need not wait for another thread. The lock is free while it waits. */
int change_attempt(struct attempt *attempt);
/* Finds the key that is changed and the slot's new value. 0; -EINVAL; -EFAULT if the object that held the key was closed. */
int change_prepare(struct patchpoint_change *change, struct patchpoint_key *key, uint64_t value);
/* Makes changes of different keys, and those of the variants that depend on them, with the lock held. */
int changes_commit(struct patchpoint_change *changes, size_t count, struct patience *patience);
/* Changes the key's data: the slot, and for a call the form and body of its patched sites. */
void key_change(const struct patchpoint_change *change);

/* variants.c: functions whose variant depends on keys. The lock is held. */
/* Counts the functions that changes concern, and lists their changes if `list` is not NULL. */
size_t variants_follow(const struct patchpoint_change *changes, size_t count, struct patchpoint_change *list);
size_t variants_count(void);
/* Writes what a call key is bound to, at most `size` bytes. Returns the bytes that it takes, with the NUL. */
size_t variants_describe(const struct patchpoint_key *function, char *text, size_t size);

/* users.c: whether a change is refused since the branch that it would make false has users; and the same branch after a change. */
bool users_forbid(const struct patchpoint_change *change);
void users_note(const struct patchpoint_change *change);

/* write.c: the protocols. */
extern enum patchpoint_protocol protocol_used;
extern char protocol_refusals[256];
/* Since when a change has waited for threads; 0: not at all. It waits between its attempts, without the lock. */
struct patience {
	uint64_t since_ns, of_program_ns;
};
/* -EAGAIN: the change must wait (patience_wait) and be planned anew. */
int patches_write(struct patch *patches, size_t count, struct patience *patience);
void patience_wait(void);
/* For the handler: whether a breakpoint at an address is, or was, the library's. Async-signal-safe. */
bool breakpoint_is_ours(const unsigned char *address);
/* The part of a site to write. PART_WHOLE is for sites that one store changes, and for sites that nobody else executes. */
enum part { PART_TRAP, PART_TAIL, PART_HEAD, PART_WHOLE };
/* One write, of a part of some sites near each other. */
struct span {
	unsigned char *at;
	const unsigned char *bytes;
	size_t length;
	size_t sites;
};
/* The longest gap between sites that are written together while nobody else executes or writes their pages. */
enum { GAP_EXCLUSIVE = 2048 };
/* Takes the first of `count` sorted sites and those near it. The text is `away` bytes from its place. The lock is held. */
struct span span_take(const struct patch *patches, size_t count, enum part part, bool old, size_t gap_max, ptrdiff_t away);
/* Whether nobody will remove the library's breakpoints any more. */
bool breakpoint_is_stuck(void);
/* In an orphan: undoes the open change. False if code cannot be written. Async-signal-safe. */
bool change_abandon(void);

/* writer.c: the ways to write code, best first. */
struct writer {
	const char *name;
	enum patchpoint_writer id;
	bool alone; /* only while the process has one thread */
	bool anywhere; /* writes all code, not only code of registered objects */
	size_t gap_max; /* bytes between two sites up to which one longer write is cheaper than two; 0: never */
	int (*ready)(void); /* tests whether the writer works, and keeps what the writer needs */
	int (*write)(struct patchpoint_object *object, unsigned char *at, const unsigned char *bytes, size_t length);
};
extern const struct writer writer_proc_mem, writer_memfd, writer_mprotect;
extern const struct writer *writer_used;
extern char writer_reason[256];
const char *error_text(int error);
bool writer_find(void); /* chooses the best writer that works now; false if there is none */
bool writer_fall_back(int error); /* the writer in use failed: chooses the next that works */
int code_write(struct patchpoint_object *object, unsigned char *at, const unsigned char *bytes, size_t length);
void writer_after_fork(void); /* in the child */
int writer_in_orphan(void); /* chooses a writer for an orphan: 0 or -errno. Async-signal-safe */

/*
 * pages.c: ways to exchange whole pages of text. 0; -EOPNOTSUPP if it cannot be done here (pages_refusal says why); -errno if it
 * failed. After an error all sites are as before. The sites are sorted, the lock is held.
 */
extern char pages_refusal[160];
extern int moves_refused;
uintptr_t page_size(void); /* bytes */
int pages_move(const struct patch *patches, size_t count);
int pages_copy(const struct patch *patches, size_t count);
int pages_write(struct patchpoint_object *object, unsigned char *at, const unsigned char *bytes, size_t length);
int text_replace(unsigned char *text, const unsigned char *contents, size_t bytes);
bool files_may_grow(void); /* whether there is no RLIMIT_FSIZE */

/* stub.c: jumps for calls that do not reach their target. NULL if there is none, or none can be made. The lock is held. */
extern char stub_refusal[128];
const unsigned char *stub_find(const struct patchpoint_object *object, uint64_t target);
const unsigned char *stub_make(const struct patchpoint_object *object, uint64_t target);
void stubs_orphan(const struct patchpoint_object *object);

/* sync.c: other threads. */
void sync_prepare(void); /* without the lock */
bool sync_possible(void);
int sync_threads(void);
void sync_self(void);
uint64_t now_ns(void);
void sync_after_fork(void);
bool process_has_one_thread(void);
/*
 * Whether every thread takes traps now: 0; -EAGAIN if one does not for a moment; -EBUSY if the program's thread `blocker` does not.
 * `first`: no handler was installed before.
 */
extern char blocker[96];
int threads_accept_traps(bool first, bool anew, bool *traced);
bool process_is_traced(void); /* asked of this thread, since debuggers trace all threads */

/* memory.c: questions about what is mapped. */
bool page_is_readable(uintptr_t address);
bool pages_are_readable(uintptr_t start, size_t bytes); /* false also if the kernel cannot tell */
/* A file of /proc/self that stays open. A program may close its descriptor and get the number for a file of its own. */
struct kept_file {
	const char *path;
	int flags, file;
	dev_t device;
	ino_t inode;
};
bool kept_file_is_open(const struct kept_file *kept);
int kept_file_open(struct kept_file *kept); /* 0 or -errno */
void kept_file_close(struct kept_file *kept);
void mappings_after_fork(void); /* in the child */
bool memory_is_constant(uint64_t address, size_t length);
struct mapping {
	uint64_t start, stop, inode;
	bool readable, executable, shared;
};
int mapping_at(uint64_t address, struct mapping *found); /* 1; 0 if nothing is mapped there; -1 without /proc */
void mapping_name(uint64_t address, char *name, size_t size); /* the file's path; empty if there is none */
bool text_is_relocated(uint64_t address);
bool text_was_moved(uint64_t address); /* whether a tool such as BOLT moved the functions of this text elsewhere */
enum code { CODE_NONE, CODE_UNREADABLE, CODE_READABLE };
enum code code_at(uint64_t address);

/* sort.c: sorts by ascending address. */
void patches_sort(struct patch *patches, size_t count);

/* trap.c */
int trap_install(void);
extern uint32_t trap_waiters; /* threads in the handler that sleep on the generation */

/* Memory without malloc, whose locks a thread that waits at a site may hold. NULL if there is none. */
void *pages_get(size_t bytes);
void pages_put(void *pages, size_t bytes);

/* arch/: the parts that an architecture provides. Where `read` is NULL the code is the process's own. */
extern const bool arch_can_patch;
/*
 * Whether one store changes a site while others execute it: all four bytes at once, and a processor executes the old or the new
 * instruction (the architecture guarantees this for these instructions). Otherwise a breakpoint of one byte comes first, and all
 * forms of a site begin with a byte without meaning.
 */
extern const bool arch_one_store;
/* Whether the kernel, too, writes four aligned bytes in one store. Asked only if arch_one_store. */
bool arch_kernel_stores_whole(void);
extern const unsigned char arch_trap;
/* The code that the record of a branch or switch points to: bytes before the tests of its key, and bytes of one test. */
extern const size_t arch_tests_offset, arch_test_size;
/* A function that only writers call, to test themselves. The four bytes at arch_probe_number encode the number it returns. */
extern const unsigned char arch_probe_text[];
extern const size_t arch_probe_number;
enum { ARCH_PROBE_SIZE = 64 };
uint32_t arch_probe_run(const unsigned char *text);
void arch_probe_bytes(uint32_t number, unsigned char bytes[4]);
bool arch_under_valgrind(void);
/* Returns PATCHPOINT_CPU_… bits. */
uint32_t arch_cpu_features(void);
void arch_pause(void);
/* Makes this thread execute newly written code, without the kernel's help. */
void arch_serialise(void);
/* Makes code that was stored through a second mapping visible to instruction fetch. */
void arch_code_stored(const unsigned char *code, const unsigned char *alias, size_t length);
/* Computes a site's bytes as compiled; `now` tells the register. 0, or -EILSEQ if `now` is no form of the site. */
int arch_compiled(patchpoint_reader read, void *context, const struct patchpoint_place *place, const unsigned char *now,
		  unsigned char *bytes);
/* Computes a site's patched bytes for a state. 0; -ERANGE if the site does not reach the target; -EILSEQ. */
int arch_patched(patchpoint_reader read, void *context, const struct patchpoint_place *place, const unsigned char *now,
		 const struct patchpoint_state *state, unsigned char *bytes);
/* Whether a site holds a breakpoint that is not the library's. */
bool arch_is_breakpoint(const unsigned char *now);
/* arch_stub makes code that jumps to `target` from anywhere; arch_stub_target says where the code at `stub` jumps to. */
enum { STUB_SIZE = 16 };
void arch_stub(unsigned char stub[STUB_SIZE], uint64_t target);
uint64_t arch_stub_target(const unsigned char *stub);
/* Returns the target, a function or a stub, of a call site that is patched to a direct call; 0 for any other site. */
uint64_t arch_call_target(const struct patchpoint_place *place, const unsigned char *now);
/* Whether a call from any place in a text reaches a page. */
bool arch_reaches(uintptr_t text_start, uintptr_t text_stop, uintptr_t page);
/* Whether sites hold the body of a function instead of a call; `body` then gets it. `constant`: whether memory cannot change. */
bool arch_body(patchpoint_reader read, void *context, bool (*constant)(uint64_t address, size_t length), uint64_t function,
	       uint8_t body[PATCHPOINT_BODY_SIZE]);
/* Returns the word for what a patched site holds. */
const char *arch_word(const struct patchpoint_place *place, const unsigned char *now, const struct patchpoint_state *state);
/* arch_trap_address returns the address of the trap instruction that raised a signal; arch_resume_at goes back there. */
unsigned char *arch_trap_address(const void *context);
/* Whether the trap instruction is gone: then the thread can go on, whoever wrote it. Works for closed objects too. */
bool arch_trap_is_gone(const unsigned char *address);
void arch_resume_at(void *context, const unsigned char *address);
/* An architecture also defines patchpoint_null_zero, patchpoint_null_zero_real and patchpoint_cold. */

#pragma GCC visibility pop

#endif
