/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the library's files share. Nothing here is exported. */
#ifndef PATCHPOINT_INTERNAL_H
#define PATCHPOINT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATCHPOINT_BUILD
#include "patchpoint.h"

#define LENGTH_MAX 10 /* bytes of the longest site */

/* Where a field relative to itself points. */
static inline const void *field_target(const int32_t *field)
{
	return (const char *)field + *field;
}

static inline unsigned char *site_code(const struct patchpoint_site *site)
{
	return (unsigned char *)field_target(&site->code);
}

/* The key that holds the value: an import stands for another one once its object is registered. */
static inline struct patchpoint_key *key_resolve(struct patchpoint_key *key)
{
	return key->flags & PATCHPOINT_KEY_IMPORT && key->origin ? *key->origin : key;
}

static inline struct patchpoint_key *site_key(const struct patchpoint_site *site)
{
	return key_resolve((struct patchpoint_key *)field_target(&site->key));
}

static inline const struct patchpoint_site *object_sites(const struct patchpoint_object *object)
{
	return field_target(&object->note->sites_start);
}

static inline uint64_t key_value(const struct patchpoint_key *key)
{
	return (uint64_t)(uintptr_t)__atomic_load_n(&key->slot, __ATOMIC_ACQUIRE);
}

/* One site to be written: the bytes it holds and those it shall hold. */
struct patch {
	unsigned char *at;
	uint8_t length;
	uint8_t old[LENGTH_MAX];
	uint8_t new[LENGTH_MAX];
};

extern struct patchpoint_registry registry __attribute__((visibility("hidden")));

/* lock.c: guards the registry, all keys and all sites. Taken with signals blocked, released before they are open again. */
struct guard {
	uint64_t signals;
	int cancel;
};
int guard_enter(struct guard *guard);
void guard_leave(struct guard *guard);
extern uint64_t guard_signals; /* what the holder's thread had blocked */

/* registry.c */
bool registry_site_at(const unsigned char *address);
void registry_after_fork(void);
struct patchpoint_object *registry_object_at(const unsigned char *address);
size_t registry_sites_of(const struct patchpoint_object *object, const struct patchpoint_key *key, const uint32_t **order);
extern bool patchpoint_eager;

/* write.c: the protocol. */
int patches_write(struct patch *patches, size_t count);
bool patches_possible(void);

/* writer.c: the ladder. A writer that is not NULL was probed. */
struct writer {
	const char *name;
	enum patchpoint_writer id;
	bool alone; /* only while the process has one thread */
	bool anywhere; /* writes all code, not only that of registered objects */
	size_t gap_max; /* bytes between two sites up to which one longer write is cheaper than two; 0: never */
	int (*probe)(void);
	int (*open)(void);
	int (*write)(unsigned char *at, const unsigned char *bytes, size_t length);
	void (*close)(void);
};
extern const struct writer writer_proc_mem, writer_memfd, writer_mprotect;
extern const struct writer *writer_used;
extern char writer_reason[256];
void writer_choose(void);
void writer_memfd_before_fork(void);
void writer_memfd_after_fork(bool child);
void writer_memfd_forget(struct patchpoint_object *object);

/* stub.c: for calls that do not reach their target. NULL when there is none, or none can be made. The lock is held. */
extern char stub_reason[128];
const unsigned char *stub_find(const struct patchpoint_object *object, uint64_t target);
const unsigned char *stub_make(const struct patchpoint_object *object, uint64_t target);
void stubs_orphan(const struct patchpoint_object *object);

/* sync.c: other threads. */
bool sync_possible(void);
int sync_core(void);
void sync_after_fork(void);
bool process_has_one_thread(void);
int threads_accept_traps(bool *traced);
bool process_is_traced(void);

/* sort.c: by ascending rank; items of at most 32 bytes. */
typedef uintptr_t (*rank)(const void *item, const void *context);
void sort(void *items, size_t count, size_t size, rank rank, const void *context);

/* trap.c */
int trap_install(void);
extern uint32_t trap_waiters; /* threads in the handler that sleep on the generation */

/* Memory without malloc: its locks may be held by a thread that waits at a site. NULL when there is none. */
void *pages_get(size_t bytes);
void pages_put(void *pages, size_t bytes);

/* arch/: what an architecture provides. */
enum arch_error { ARCH_FAR = 1 }; /* the site does not reach this target: it needs a stub, or stays as compiled */
extern const bool arch_can_patch;
extern const unsigned char arch_trap[];
enum { ARCH_TRAP_LENGTH = 1 };
/* A function that only writers call, to try themselves: it returns the number at ARCH_PROBE_NUMBER. */
extern const unsigned char arch_probe_text[];
enum { ARCH_PROBE_NUMBER = 5, ARCH_PROBE_SIZE = 64 };
uint32_t arch_probe_run(const unsigned char *text);
bool arch_under_valgrind(void);
void arch_pause(void);
/* The bytes of a site as compiled; `now` tells the register. 0, or -EILSEQ when `now` is no form of the site. */
int arch_original(const struct patchpoint_site *site, const unsigned char *now, unsigned char *bytes);
/* The patched bytes for a value; the form and body of call keys come from `key`. 0, ARCH_FAR or -EILSEQ. */
int arch_patched(const struct patchpoint_site *site, const unsigned char *now, const struct patchpoint_key *key,
		 uint64_t value, unsigned char *bytes);
/* Code that jumps to `target` from anywhere; and where the code at `stub` jumps to. */
enum { STUB_SIZE = 16 };
void arch_stub(unsigned char stub[STUB_SIZE], uint64_t target);
uint64_t arch_stub_target(const unsigned char *stub);
/* Whether a call from any place in a text reaches a page. */
bool arch_reaches(uintptr_t text_start, uintptr_t text_stop, uintptr_t page);
/* Fills form and body for a call of `function`. */
void arch_form(uint64_t function, uint8_t *form, uint8_t body[6]);
/* Whether sites hold what the code that `read` gives does, instead of a call; then it is in `body`. */
bool arch_body(patchpoint_reader read, void *context, uint64_t function, uint8_t body[6]);
/* A word for what a site holds. */
const char *arch_state(const struct patchpoint_site *site, const unsigned char *now, const struct patchpoint_key *key,
		       uint64_t value);
/* Of a signal's context: the address of the trap instruction that raised it; going back there. */
unsigned char *arch_trap_address(const void *context);
/* Whether that instruction was removed since: then whoever wrote it, the thread can go on. Works for closed objects too. */
bool arch_trap_is_gone(const unsigned char *address);
void arch_resume_at(void *context, const unsigned char *address);

#endif
