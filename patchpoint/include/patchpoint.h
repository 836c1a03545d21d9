/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * patchpoint: code that is decided rarely and run often does not pay for the decision.
 *
 * Overview
 *   A *key* is a variable that changes rarely: the implementation of an operation (call), a number or pointer (value), or
 *   a yes/no question (branch). A *site* is a place in code that depends on a key. On x86-64 Linux a site is exactly one
 *   instruction, and changing the key rewrites that instruction in the running program:
 *
 *     kind    as compiled (reads the key)     after patchpoint_init or a change of the key
 *     call    call *key(%rip)                 call target, or what a trivial target does: nop, mov %rdi,%rax, mov $5,%eax
 *     value   mov key(%rip),%eax              mov $5,%eax
 *     branch  jmp to code that tests the key  nop, or jmp to the other side
 *
 *   The form as compiled is right at every moment: before any initialisation, in a constructor, under seccomp, without
 *   /proc. Patching only makes it cheaper. With -DPATCHPOINT_PORTABLE, and on every other architecture, sites are plain
 *   loads and indirect calls, and the same functions change the same keys.
 *
 * Usage
 *     PATCHPOINT_DECLARE_CALL(area, long, long, long);      in a header: key, result, arguments
 *     PATCHPOINT_DECLARE_VALUE(limit, int);
 *     PATCHPOINT_DECLARE_BRANCH(tracing);
 *
 *     PATCHPOINT_DEFINE_CALL(area, rectangle);              in one file of each program or shared object that uses them
 *     PATCHPOINT_DEFINE_VALUE(limit, int, 100);
 *     PATCHPOINT_DEFINE_BRANCH(tracing, false);
 *
 *     if (patchpoint_unlikely(tracing))                     at the sites
 *             trace();
 *     if (patchpoint_call(area, w, h) > patchpoint_value(limit))
 *             ...
 *
 *     error = patchpoint_set_branch(tracing, true);         rarely: one key
 *
 *     struct patchpoint_txn txn;                            or several at once
 *     patchpoint_txn_begin(&txn);
 *     patchpoint_txn_set_call(&txn, area, ellipse);
 *     patchpoint_txn_set_value(&txn, limit, 50);
 *     error = patchpoint_txn_commit(&txn);
 *
 * Semantics
 *   A change is atomic at each site: a thread executes the old or the new instruction, never a mixture. While a change of
 *   several sites is in progress each site is old or new independently of the others. When a function that changes keys
 *   returns 0, every thread executes the new code at every site; when it returns an error, every site and key is as it was
 *   before. A change is a full memory barrier in the thread that makes it. A site is no barrier, neither to the compiler
 *   nor to the processor: accesses to memory may move across value and branch sites as across plain loads and tests.
 *
 *   Arguments and results of calls are integers, enumerations and pointers of at most 8 bytes, at most 6 arguments. An
 *   operation must not throw, and must not rely on being called at its own address: where its body is a single instruction,
 *   that instruction takes the place of the call. A NULL operation has a policy: PATCHPOINT_NULL_NOTHING (the result is
 *   undefined), PATCHPOINT_NULL_ZERO or PATCHPOINT_NULL_TRAP (the default).
 *
 *   Keys are hidden symbols of the program or shared object that defines them. To use a key of another object, that
 *   object says PATCHPOINT_EXPORT(key) and the user PATCHPOINT_IMPORT_CALL/VALUE/BRANCH(key). An object is registered by
 *   its constructors and forgotten by its destructors, so dlopen and dlclose need nothing; code of an object must not run
 *   any more when it is closed.
 *
 * Duties of the program (all threads that execute sites while others change keys)
 *   - SIGTRAP stays unblocked. A change refuses with -EBUSY when it finds a thread that blocks it. A handler for SIGTRAP
 *     may be installed before or after patchpoint's own: it is called for traps that are not patchpoint's.
 *   - Keys are not changed from a signal handler (a handler that interrupts a change gets -EDEADLK), nor in a child of vfork
 *     or of a raw clone (-EPERM). A child of fork may change keys; they are its own.
 *   - No thread is created by a raw clone(CLONE_VM) that bypasses libc.
 *   - Who patches code by other means leaves sites alone, functions whose body took the place of a call, and while a change
 *     is made what lies within 256 bytes of two of its sites: it is written again as it was read a microsecond before.
 *     Breakpoints are found there and left alone.
 *
 * Errors are negative errno values; nothing is printed and nothing aborts. All functions are safe to call from several
 * threads at once, and none is async-signal-safe, unless it says so.
 */
#ifndef PATCHPOINT_H
#define PATCHPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of everything another process or language may read: records, note, keys, registry. */
#define PATCHPOINT_FORMAT 1

enum patchpoint_kind {
	PATCHPOINT_NONE = 0, /* the record that keeps the section there */
	PATCHPOINT_CALL = 1,
	PATCHPOINT_VALUE = 2,
	PATCHPOINT_BRANCH = 3,
};

enum patchpoint_site_flag {
	PATCHPOINT_SITE_LIKELY = 1, /* branch: falls through when true */
	PATCHPOINT_SITE_SAVED = 2,  /* call: preserves the general registers */
};

enum patchpoint_key_flag {
	PATCHPOINT_KEY_IMPORT = 1, /* stands for a key of another object */
};

enum patchpoint_null {
	PATCHPOINT_NULL_TRAP = 0,
	PATCHPOINT_NULL_ZERO = 1,
	PATCHPOINT_NULL_NOTHING = 2,
};

/* One site in the section patchpoint_sites: 16 bytes, each address relative to the field that holds it. */
struct patchpoint_site {
	int32_t code;
	int32_t key;
	int32_t aux; /* branch: the code that tests the key; saved call: the thunk; else 0 */
	uint8_t kind;
	uint8_t length;
	uint8_t flags;
	uint8_t reserved;
};

/* A key. `slot` comes first: sites as compiled read it by the key's symbol, patchpoint_key_NAME. */
struct patchpoint_key {
	void *slot;
	const char *name;
	uint64_t ops; /* executions of sites compiled with PATCHPOINT_OPS */
	struct patchpoint_key *const *origin; /* import: the key it stands for */
	struct patchpoint_key *imports;       /* the library's: keys that stand for this one */
	uint8_t kind;
	uint8_t size; /* bytes of a value */
	uint8_t null; /* enum patchpoint_null */
	uint8_t flags;
	uint8_t form;    /* call: enum patchpoint_form of the patched sites */
	uint8_t body[6]; /* call: their bytes when the form is inline */
	uint8_t mark; /* the library's, in a transaction */
	uint8_t reserved[4];
};

enum patchpoint_form {
	PATCHPOINT_FORM_NONE = 0, /* no site was patched yet */
	PATCHPOINT_FORM_DIRECT = 1,
	PATCHPOINT_FORM_INLINE = 2,
};

/* Contents of the ELF note "patchpoint" of type 1 (sites of an object); addresses relative to their fields. */
struct patchpoint_note {
	uint32_t format;
	int32_t sites_start;
	int32_t sites_stop;
	uint32_t site_size;
};

/* One registered program or shared object. The fields after `next` are the library's. */
struct patchpoint_object {
	const struct patchpoint_note *note;
	struct patchpoint_object *next;
	uint32_t *order;
	uint32_t count;
	uint32_t registered;
	uintptr_t text_start;
	uintptr_t text_stop;
	unsigned char *alias; /* memfd writer: the text, writable */
	unsigned char *fork_alias;
	unsigned char *fork_code;
};

/*
 * A page of stubs near an object: each is `jmp *0(%rip)`, the target in 8 bytes, and two int3. A stub is never changed while
 * its object is registered. `object` is NULL when that was closed: the page waits for the next object in its reach.
 */
struct patchpoint_stubs {
	struct patchpoint_stubs *next;
	const struct patchpoint_object *object;
	unsigned char *code;
	uint32_t count;
	uint32_t stub_size;
};

/*
 * The registry, exported as the symbol patchpoint_registry; another process finds it by the ELF note "patchpoint" of type 2, whose
 * contents are its distance from the note. A tool that changes sites from outside stops all threads and does so only when
 * `lock` is 0; it must change key slots together with sites. `generation` is odd while text is being written. What follows
 * `traps` is there when `size` says so.
 */
struct patchpoint_registry {
	char magic[8]; /* "patchpt" */
	uint32_t format;
	uint32_t size;
	uint32_t lock; /* thread id of the holder, bit 31: others wait */
	uint32_t generation;
	struct patchpoint_object *objects;
	uint64_t transactions;
	uint64_t sites_written;
	uint64_t traps;
	struct patchpoint_stubs *stubs;
	uint64_t ops; /* what the program counts: see patchpoint_ops_add */
};

/** The registry of this process. Async-signal-safe; its fields change only while its lock is held. */
struct patchpoint_registry *patchpoint_registry_get(void);

/**
 * Adds to the program's own count of operations, whatever it calls one: requests, packets, rounds of its loop.
 * The library makes no use of it; a tool that watches the process (opcost attach) divides what it measures by it. One atomic
 * addition to a word that all threads share: where operations are short, a thread adds many at a time. Never changes a
 * site. Async-signal-safe. Threads: any. Order: none.
 */
void patchpoint_ops_add(uint64_t count);

enum patchpoint_writer {
	PATCHPOINT_WRITER_NONE = 0, /* sites stay as compiled; keys are plain data */
	PATCHPOINT_WRITER_PROC_MEM = 1,
	PATCHPOINT_WRITER_MEMFD = 2,
	PATCHPOINT_WRITER_MPROTECT = 3, /* only while the process has one thread */
};

struct patchpoint_status {
	enum patchpoint_writer writer;
	bool fallback;           /* some keys are or may stay plain data */
	bool sync_core;          /* membarrier can make other threads see new code */
	const char *writer_name; /* "proc-mem", "memfd", "mprotect", "none" */
	const char *reason;      /* why each better way was refused; empty if none was */
	const char *stub_reason; /* why a far target was last left to the indirect form; empty if it never was */
	size_t objects;
	size_t sites;
	size_t stubs; /* jumps to targets further than 2 GiB from their sites */
	uint64_t transactions;
	uint64_t sites_written;
	uint64_t traps;
};

struct patchpoint_site_info {
	const struct patchpoint_key *key;
	enum patchpoint_kind kind;
	const void *address;
	const char *object; /* path of the file, or "" */
	const char *state;  /* data, call, stub, thunk, nop, move, constant, inline, trap, immediate, jump, foreign */
	size_t length;
	unsigned char bytes_original[16];
	unsigned char bytes_now[16];
};

struct patchpoint_txn {
	struct patchpoint_change *changes;
	size_t count;
	size_t capacity;
	int error;
};

/**
 * Turns every site into its patched form, and every site of objects loaded later.
 * Optional: a key's sites read the key (a load, an indirect call, a test) until this or the key's first change. Safe to call
 * again. PATCHPOINT_PATCH_AT_LOAD; in one file of a program calls it before main.
 * Result: 0, also when nothing can be patched here (patchpoint_status says why); -EBUSY when a site holds a debugger's
 * breakpoint or a thread blocks SIGTRAP; -EILSEQ when a site holds other bytes than it must; -EDEADLK, -EPERM: see the
 * duties above. Threads: any. Order: as a change of all keys.
 */
int patchpoint_init(void);

/** Says which way of writing code is in use, and why not a better one. Threads: any. Result: 0 or -EINVAL. */
int patchpoint_status(struct patchpoint_status *status);

/**
 * Calls `visit` for every site of every registered object, in the order of registration, until it returns non-zero.
 * No change can begin meanwhile; `visit` must not change keys, nor open or close shared objects.
 * Result: what `visit` returned last, 0 without sites; -EDEADLK inside a change or another visit; -EPERM after vfork.
 */
int patchpoint_site_iterate(int (*visit)(const struct patchpoint_site_info *info, void *argument), void *argument);

/** Begins a transaction: nothing happens and nothing is held until it is committed. Result: 0 or -EINVAL. */
int patchpoint_txn_begin(struct patchpoint_txn *txn);

/**
 * Makes all changes of a transaction, or none, and ends it.
 * The last change of a key counts. Result: 0; -ENOMEM (also from an earlier set); -EBUSY, -EILSEQ, -EDEADLK, -EPERM as
 * patchpoint_init; -EIO when the code cannot be written any more; -ENOTSUP when patched sites would have to change and no
 * writer or no membarrier is left. After an error every site and key is as before. Threads: any; transactions exclude
 * one another. Order: see the semantics above. Signals are blocked and cancellation is off meanwhile.
 */
int patchpoint_txn_commit(struct patchpoint_txn *txn);

/** Ends a transaction without changing anything. Result: 0 or -EINVAL. */
int patchpoint_txn_abort(struct patchpoint_txn *txn);

/* Gives the byte of code at an address; false where there is none. */
typedef bool (*patchpoint_reader)(void *context, uint64_t address, uint8_t *byte);

/**
 * What a change to `function` puts in the place of its calls: for tools that change sites from outside. The code is read through
 * `read`, so it may be another process's; nothing is called. PATCHPOINT_NULL_TRAP's function is known by its address only, and so
 * to its own process only. Result: 1, and `body` has the 6 bytes of each site; 0, the sites call it; -EINVAL.
 * Async-signal-safe if `read` is.
 */
int patchpoint_body(patchpoint_reader read, void *context, uint64_t function, uint8_t body[6]);

/* Features for alternatives; PATCHPOINT_CPU_ALL permits all of them. */
#define PATCHPOINT_CPU_SSE4_2 (1u << 0)
#define PATCHPOINT_CPU_AVX (1u << 1)
#define PATCHPOINT_CPU_AVX2 (1u << 2)
#define PATCHPOINT_CPU_AVX512F (1u << 3)
#define PATCHPOINT_CPU_BMI2 (1u << 4)
#define PATCHPOINT_CPU_ERMS (1u << 5)
#define PATCHPOINT_CPU_FSRM (1u << 6)
#define PATCHPOINT_CPU_POPCNT (1u << 7)
#define PATCHPOINT_CPU_ALL (~0u)

typedef void (*patchpoint_function)(void);

struct patchpoint_alternative {
	uint32_t needs; /* PATCHPOINT_CPU_… that must all be there */
	patchpoint_function function;
};

/** The PATCHPOINT_CPU_… this processor has and the kernel lets programs use. Async-signal-safe. */
uint32_t patchpoint_cpu_features(void);

/**
 * Sets a call key to the first of `count` alternatives whose needs are all in `permitted` and in this processor; may be
 * called again with another `permitted`. Result: the index chosen; -ENOENT when none fits; else as patchpoint_txn_commit.
 */
int patchpoint_choose(struct patchpoint_key *key, const struct patchpoint_alternative *alternatives, size_t count,
		      uint32_t permitted);

/* Behind the macros: `value` is a function's address, a value's bits, or 0 or 1. */
int patchpoint_key_set(struct patchpoint_key *key, uint64_t value);
int patchpoint_txn_set(struct patchpoint_txn *txn, struct patchpoint_key *key, uint64_t value);
void patchpoint_object_register(struct patchpoint_object *object);
void patchpoint_object_unregister(struct patchpoint_object *object);
void patchpoint_import_register(struct patchpoint_key *key);
void patchpoint_import_unregister(struct patchpoint_key *key);
void patchpoint_null_nothing(void);
void patchpoint_null_zero(void);
void patchpoint_null_trap(void);
/* Never called: it stands for the call that a patched site makes behind the compiler's back. */
void patchpoint_cold(void) __attribute__((__noreturn__, __cold__));

#ifdef __cplusplus
}
#endif

#include "patchpoint/declare.h"

/** Executes a site of a call key: patchpoint_call(key, arguments…). Its value is the operation's result. */
#define patchpoint_call(...) PATCHPOINT__CALL_WITH(patchpoint_call_, __VA_ARGS__)

/**
 * As patchpoint_call, but the caller keeps everything in general registers but %rax across the site. Needs
 * PATCHPOINT_DEFINE_SAVED(key) in one file of the object. Vector registers and flags are not preserved.
 */
#define patchpoint_call_saved(...) PATCHPOINT__CALL_WITH(patchpoint_call_saved_, __VA_ARGS__)

/** Reads a value key. */
#define patchpoint_value(key) patchpoint_value_##key()

/**
 * Asks a branch key; the compiler lays out the code for the answer in the name. With the truth table of Linux's static keys:
 *
 *              key false    key true
 *   likely     jmp          nop
 *   unlikely   nop          jmp
 */
#define patchpoint_likely(key) patchpoint_likely_##key()
#define patchpoint_unlikely(key) patchpoint_unlikely_##key()

/** Change one key: as a transaction of one change, with its errors. A NULL operation stands for the key's policy. */
#define patchpoint_set_call(key, function) patchpoint_set_call_##key(function)
#define patchpoint_set_value(key, value) patchpoint_set_value_##key(value)
#define patchpoint_set_branch(key, truth) patchpoint_set_branch_##key(truth)

/** Add a change to a transaction. Result: 0; -ENOMEM or -EINVAL, which the commit will return too. */
#define patchpoint_txn_set_call(txn, key, function) patchpoint_txn_set_call_##key(txn, function)
#define patchpoint_txn_set_value(txn, key, value) patchpoint_txn_set_value_##key(txn, value)
#define patchpoint_txn_set_branch(txn, key, truth) patchpoint_txn_set_branch_##key(txn, truth)

#endif
