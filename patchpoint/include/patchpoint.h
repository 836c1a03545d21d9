/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * patchpoint: code that depends on a setting does not test it each time: a change of the setting rewrites the code.
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
 *     switch  jmp to code that compares it    nop, or jmp to the side that the key names
 *
 *   On arm64 Linux (docs/patchpoint.md, "arm64") values are loads and not sites, as on all other architectures:
 *
 *     call    bl to code that loads the key   bl target, or nop for a target that does nothing
 *     branch  b to code that tests the key    nop, or b to the other side; a switch alike
 *
 *   The form as compiled is right at every moment: before any initialisation, in a constructor, under seccomp, without
 *   /proc. Patching only makes it cheaper. With -DPATCHPOINT_PORTABLE, with gcc before version 11, and on every other
 *   architecture, sites are plain loads and indirect calls, and the same functions change the same keys.
 *
 * Usage
 *     PATCHPOINT_DECLARE_CALL(area, long, long, long);      in a header: key, result, arguments
 *     PATCHPOINT_DECLARE_VALUE(limit, int);
 *     PATCHPOINT_DECLARE_BRANCH(tracing);
 *     PATCHPOINT_DECLARE_SWITCH(policy, 3);                 key, number of ways (2 to 8)
 *
 *     PATCHPOINT_DEFINE_CALL(area, rectangle);              in one file of each program or shared object that uses them
 *     PATCHPOINT_DEFINE_VALUE(limit, int, 100);
 *     PATCHPOINT_DEFINE_BRANCH(tracing, false);
 *     PATCHPOINT_DEFINE_SWITCH(policy, 3, 0);
 *
 *     if (patchpoint_unlikely(tracing))                     at the sites
 *             trace();
 *     if (patchpoint_call(area, w, h) > patchpoint_value(limit))
 *             ...
 *     switch (patchpoint_switch(policy)) {
 *     case 0: ...
 *
 *     PATCHPOINT_DECLARE_CALL(acquire, void, lock *);       a function that is compiled for each combination of its keys
 *     PATCHPOINT_DEFINE_VARIANTS(acquire, void, (lock *, l), smp, debug)
 *     {
 *             if (smp)                                      here a constant
 *                     ...
 *     }
 *     patchpoint_call(acquire, &mine);                      a direct call of the variant for the keys' values
 *
 *     error = patchpoint_set_branch(tracing, true);         rarely: one key
 *     error = patchpoint_branch_inc(tracing);               or for one of several users, until patchpoint_branch_dec(tracing)
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
 *   nor to the processor: accesses to memory may move across value, branch and switch sites as across plain loads and tests.
 *
 *   Arguments and results of calls are integers, enumerations, pointers, float and double; at most 6 arguments. Anything
 *   else is refused at compile time; PATCHPOINT_DECLARE_CALL_ANY takes it, such as structs by value, and up to 12 arguments. Values are integers, enumerations and pointers. An operation must not throw, and must
 *   not rely on being called at its own address: where its body is a single instruction, that instruction takes the place
 *   of the call. A function that contains a site itself is always called. A NULL operation has a policy:
 *   PATCHPOINT_NULL_NOTHING (the result is undefined), PATCHPOINT_NULL_ZERO or PATCHPOINT_NULL_TRAP (the default).
 *
 *   A function with variants is a call key that only the library changes: in the same transaction as the keys that it depends on.
 *   A call executes one variant, of a combination that the keys had together at one moment. Before the constructors of the object
 *   that defines it, each call reads the keys.
 *
 *   Keys are hidden symbols of the program or shared object that defines them. To share a key, the
 *   object that defines it says PATCHPOINT_EXPORT(key), and an object that uses it PATCHPOINT_IMPORT_CALL/VALUE/BRANCH/SWITCH(key).
 *   An object's constructors register it and its destructors unregister it, so dlopen and dlclose need nothing; no code of an
 *   object may run any more when the object is closed.
 *
 * Duties of the program (all threads that execute sites while others change keys)
 *   - Before Linux 5.13, and for sealed text (mseal), SIGTRAP stays unblocked, and a thread at a site has room on its stack for
 *     a signal's frame, or an alternate signal stack. Elsewhere no signal is used (docs/patchpoint.md, "What happens during a
 *     change"). A handler for SIGTRAP may be installed before or after patchpoint's own: it is called for traps that are not
 *     patchpoint's.
 *   - Keys are not changed from a signal handler (a handler that interrupts a change gets -EDEADLK), nor in a child of vfork,
 *     of _Fork or of a raw clone (-EPERM). A child of fork may change keys; they are its own.
 *   - No thread is created by a raw clone(CLONE_VM) that bypasses libc.
 *   - A tool that patches code by other means leaves alone: sites; functions whose body took the place of a call; and during a
 *     change the pages of its sites: the library moves these pages, or writes bytes back as it read them a microsecond before.
 *     It keeps the breakpoints that it finds there.
 *   - With gcc, a function with __attribute__((target("avx512f"))) has no call sites unless its file is compiled with
 *     -mavx512f: there gcc offers no way to say that the operation may change the upper vector registers. An operation
 *     must not change a global register variable; gcc does not look for that at a site.
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
#define PATCHPOINT_FORMAT 2

/*
 * The one version of library, soname, symbols, packages and Rust crate. Before 1.0 the first two numbers are the ABI's, as in
 * libpatchpoint.so.0.2; then the first alone.
 */
#define PATCHPOINT_VERSION "0.2.0"

enum patchpoint_kind {
	PATCHPOINT_NONE = 0, /* the record that keeps the section alive */
	PATCHPOINT_CALL = 1,
	PATCHPOINT_VALUE = 2,
	PATCHPOINT_BRANCH = 3,
	PATCHPOINT_SWITCH = 4,
};

enum { PATCHPOINT_WAYS_MAX = 8 }; /* of a switch */

enum patchpoint_site_flag {
	PATCHPOINT_SITE_LIKELY = 1, /* branch: falls through when true */
	PATCHPOINT_SITE_SAVED = 2,  /* call: preserves the general registers */
	PATCHPOINT_SITE_JUMP = 4,   /* call: a jump, to which callers come by a call; a return follows */
};

enum patchpoint_key_flag {
	PATCHPOINT_KEY_IMPORT = 1, /* stands for a key of another object */
	PATCHPOINT_KEY_ON = 2,     /* branch with users: it was set to true, and stays so without users */
	PATCHPOINT_KEY_VARIANTS = 4, /* call: bound to one of its variants; only the library changes it */
	PATCHPOINT_KEY_BINDS = 8,    /* branch, switch: variants depend on it, and change with it */
};

enum patchpoint_null {
	PATCHPOINT_NULL_TRAP = 0,
	PATCHPOINT_NULL_ZERO = 1,
	PATCHPOINT_NULL_NOTHING = 2,
	PATCHPOINT_NULL_ZERO_REAL = 3, /* ZERO of a key whose result is float or double */
};

/* One site in the section patchpoint_sites: 16 bytes, each address relative to the field that holds it. */
struct patchpoint_site {
	int32_t code;
	int32_t key;
	int32_t aux; /* branch, switch: code that tests the key; saved call: thunk; arm64 call: code that loads the key; else 0 */
	uint8_t kind;
	uint8_t length;
	uint8_t flags;
	uint8_t reserved;
};

enum { PATCHPOINT_BODY_SIZE = 7 };

/* A key. `slot` comes first: sites as compiled read it by the key's address. */
struct patchpoint_key {
	void *slot;
	const char *name;
	uint64_t ops; /* executions of sites compiled with PATCHPOINT_OPS */
	struct patchpoint_key *const *origin; /* import: the key it stands for */
	struct patchpoint_key *imports;       /* the library's: keys that stand for this one */
	struct patchpoint_object *object;     /* the library's: the object that has its sites, once these were looked up */
	uint32_t first;                       /* the library's: 1 + the number of its first record there; 0: none */
	uint8_t kind;
	uint8_t size; /* bytes of a value; ways of a switch */
	uint8_t null; /* enum patchpoint_null */
	uint8_t flags;
	uint8_t form; /* call: enum patchpoint_form of the patched sites */
	uint8_t body[PATCHPOINT_BODY_SIZE]; /* call: the sites' bytes when the form is inline */
	uint8_t mark; /* the library's, in a transaction */
	uint8_t reserved[3];
	uint32_t users; /* branch: patchpoint_branch_inc less patchpoint_branch_dec */
};

enum patchpoint_form {
	PATCHPOINT_FORM_NONE = 0, /* no site was patched yet */
	PATCHPOINT_FORM_DIRECT = 1,
	PATCHPOINT_FORM_INLINE = 2,
	PATCHPOINT_FORM_PRESERVING = 3, /* direct, saved sites as well: the function keeps the registers itself */
};

/* Contents of the ELF note "patchpoint" of type 1 (sites of an object); addresses relative to their fields. */
struct patchpoint_note {
	uint32_t format;
	int32_t sites_start;
	int32_t sites_stop;
	uint32_t site_size;
	int32_t preserving_start; /* functions marked PATCHPOINT_PRESERVING */
	int32_t preserving_stop;
};

/* One registered program or shared object. The fields after `next` are the library's. */
struct patchpoint_object {
	const struct patchpoint_note *note;
	struct patchpoint_object *next;
	uint32_t *next_of_key; /* by record: 1 + the number of the next one of its key; NULL until sites are looked up */
	uint32_t count;        /* records */
	uint32_t registered;
	uintptr_t text_start; /* from the first site to the last, once they were looked up */
	uintptr_t text_stop;
	uint64_t copied; /* 1: pages of the text were replaced by changed copies in memory */
	uint64_t reserved[2];
};

/*
 * A page of stubs near an object: each is `jmp *0(%rip)`, the target in 8 bytes, and two int3. A stub is never changed while its
 * object is registered. `object` is NULL after the object was closed: the page waits for the next object in reach.
 */
struct patchpoint_stubs {
	struct patchpoint_stubs *next;
	const struct patchpoint_object *object;
	unsigned char *code;
	uint32_t count;
	uint32_t stub_size;
};

/*
 * The registry, exported as the symbol patchpoint_registry; another process finds it by the ELF note "patchpoint" of type 2, which
 * contains the registry's distance from the note. A tool that changes sites from outside stops all threads and does so only when
 * `lock` is 0; it must change key slots together with sites. `generation` is odd while the library writes code.
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
	uint64_t ops; /* the program's own count: see patchpoint_ops_add */
};

enum { PATCHPOINT_VARIANT_KEYS_MAX = 4, PATCHPOINT_COMBINATIONS_MAX = 16 };

/*
 * A function that is compiled for each combination of its keys: the call key that is bound to one of them, the keys, and the
 * functions by combination, in which the first key's value counts 1, the second's as many as the first has values, and so on.
 */
struct patchpoint_variants {
	struct patchpoint_variants *next; /* the library's */
	struct patchpoint_key *function;
	struct patchpoint_key *keys[PATCHPOINT_VARIANT_KEYS_MAX];
	const void *functions;
	uint32_t combinations;
	uint16_t count; /* of keys */
	uint16_t registered; /* the library's */
};

/** Returns the registry of this process. Async-signal-safe; its fields change only while its lock is held. */
struct patchpoint_registry *patchpoint_registry_get(void);

/**
 * Adds to the program's own count of operations, such as requests, packets or rounds of its loop. The library does not use the
 * count; a tool that watches the process (opcost attach) divides its measurements by it. The call is one atomic addition to a word
 * that all threads share: where operations are short, let a thread add many at a time. It never changes a site. Async-signal-safe.
 * Threads: any. Order: none.
 */
void patchpoint_ops_add(uint64_t count);

enum patchpoint_writer {
	PATCHPOINT_WRITER_NONE = 0, /* sites stay as compiled; keys are plain data */
	PATCHPOINT_WRITER_PROC_MEM = 1,
	PATCHPOINT_WRITER_MEMFD = 2,
	PATCHPOINT_WRITER_MPROTECT = 3, /* only while the process has one thread */
};

/* Ways to change sites while threads run (docs/patchpoint.md, "What happens during a change"). */
enum patchpoint_protocol {
	PATCHPOINT_PROTOCOL_NONE = 0,   /* no site was changed yet */
	PATCHPOINT_PROTOCOL_DIRECT = 1, /* the process has one thread */
	PATCHPOINT_PROTOCOL_STORE = 2,  /* one store for each site (arm64) */
	PATCHPOINT_PROTOCOL_MOVE = 3,   /* pages are written away from their place */
	PATCHPOINT_PROTOCOL_TRAP = 4,   /* threads that meet a site trap, and wait in a handler of SIGTRAP */
	PATCHPOINT_PROTOCOL_COPY = 5,   /* changed copies of pages take their place */
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
	size_t stubs; /* jumps to targets that their sites do not reach: further than 2 GiB, on arm64 128 MiB */
	uint64_t transactions;
	uint64_t sites_written;
	uint64_t traps;
	enum patchpoint_protocol protocol; /* of the last change of a site */
	const char *protocol_name;	   /* "none", "direct", "store", "move", "trap", "copy" */
	const char *protocol_reason;	   /* why each better protocol was refused then, with the thread that is the cause; or empty */
	size_t variants;		   /* functions that follow their keys (PATCHPOINT_DEFINE_VARIANTS) */
	const char *text_reason;	   /* why sites are not what was compiled, or may not be what runs: another tool changed the text; or empty */
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
	const char *name; /* of the key */
	uint32_t users;   /* of the key, a branch */
	const char *variant; /* of a function with variants: the keys' values, "smp=1 debug=0", or "not bound"; else "" */
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
 * breakpoint, or is in sealed text and a thread blocks SIGTRAP; -EILSEQ when a site holds other bytes than it must; -EFAULT when the memory of a
 * site is gone or an operation is no code; -EDEADLK, -EPERM: see the duties above. Threads: any. Order: as a change of all
 * keys.
 */
int patchpoint_init(void);

/** Reports which way of writing code is in use, and why no better one is. Threads: any. Result: 0 or -EINVAL. */
#ifdef __cplusplus
/* In C++ the function would hide the type of the same name. */
int patchpoint_status_read(struct patchpoint_status *status) __asm__("patchpoint_status");
#define patchpoint_status(status) patchpoint_status_read(status)
#else
int patchpoint_status(struct patchpoint_status *status);
#endif

/**
 * Calls `visit` for every site of every registered object, in the order of registration, until it returns non-zero. The list is
 * of one moment: `visit` may change keys, open and close shared objects, and so may other threads meanwhile. `info` and its texts
 * live until `visit` returns; the key, the site and the object may be gone if another thread closes the object.
 * Result: what `visit` returned last, 0 without sites; -ENOMEM; -EDEADLK inside a change; -EPERM after vfork.
 */
int patchpoint_site_iterate(int (*visit)(const struct patchpoint_site_info *info, void *argument), void *argument);

/** Begins a transaction: nothing happens and nothing is held until it is committed. Result: 0 or -EINVAL. */
int patchpoint_txn_begin(struct patchpoint_txn *txn);

/**
 * Makes all changes of a transaction, or none, and ends it.
 * The last change of a key counts. Result: 0; -ENOMEM (also from an earlier set); -EBUSY, -EILSEQ, -EFAULT, -EDEADLK,
 * -EPERM as patchpoint_init; -EBUSY also if a branch that has users would become false; -ENOTSUP when patched sites would have to change and no way of writing or no membarrier is
 * left. A site that never was patched needs neither: it reads the key. After an error every site and key is as before.
 * Threads: any; transactions exclude one another. Order: see the semantics above. Signals are blocked and cancellation is
 * off meanwhile.
 */
int patchpoint_txn_commit(struct patchpoint_txn *txn);

/** Ends a transaction without changing anything. Result: 0 or -EINVAL. */
int patchpoint_txn_abort(struct patchpoint_txn *txn);

/* Functions for tools that look at or change the sites of another process. */

/* Reads the byte of code at an address; returns false if there is none. */
typedef bool (*patchpoint_reader)(void *context, uint64_t address, uint8_t *byte);

/**
 * Finds the bytes that a change to `function` puts in the place of its calls. The code is read through `read`, so it may be another
 * process's; nothing is called. PATCHPOINT_NULL_TRAP's function is recognised by its address, so only in its own process. Result:
 * 1, and `body` has the bytes of each site; 0 if sites call the function; -EINVAL. Async-signal-safe if `read` is.
 */
int patchpoint_body(patchpoint_reader read, void *context, uint64_t function, uint8_t body[PATCHPOINT_BODY_SIZE]);

/* A site of any process: its record, addresses resolved. */
struct patchpoint_place {
	uint64_t code;
	uint64_t key; /* in the site's own object: the key that the form as compiled reads */
	uint64_t aux;
	uint8_t kind;
	uint8_t length;
	uint8_t flags;
};

/* The part of a key that decides the bytes of its sites: its slot, and for a call its form and body. */
struct patchpoint_state {
	uint64_t value;
	uint8_t form;
	uint8_t body[PATCHPOINT_BODY_SIZE];
};

enum { PATCHPOINT_LENGTH_MAX = 16 }; /* no site is longer */

/**
 * Computes the bytes of a site as compiled. `now` is what the site holds, `length` bytes, and tells the register of a value. `read`
 * gives the code at `aux`. Result: 0; -EILSEQ if the record is none of this architecture or `now` no form of the site; -EINVAL.
 */
int patchpoint_place_compiled(patchpoint_reader read, void *context, const struct patchpoint_place *place,
			      const uint8_t *now, uint8_t bytes[PATCHPOINT_LENGTH_MAX]);

/**
 * Computes the bytes of a site that is patched for a state. `stub` is the address of the jump near the site's object that leads to
 * the function, 0 if there is none. Result: 0; -ERANGE if the function is out of reach without a stub, so that the site stays as
 * compiled; -EILSEQ, -EINVAL as above.
 */
int patchpoint_place_patched(patchpoint_reader read, void *context, const struct patchpoint_place *place,
			     const uint8_t *now, const struct patchpoint_state *state, uint64_t stub,
			     uint8_t bytes[PATCHPOINT_LENGTH_MAX]);

/** Returns the word for what a site holds (`state` of struct patchpoint_site_info); "foreign" also for an unknown record. */
const char *patchpoint_place_word(patchpoint_reader read, void *context, const struct patchpoint_place *place,
				  const uint8_t *now, const struct patchpoint_state *state, uint64_t stub);

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

/** Returns the PATCHPOINT_CPU_… bits that this processor has and the kernel lets programs use. Async-signal-safe. */
uint32_t patchpoint_cpu_features(void);

/**
 * Sets a call key to the first of `count` alternatives whose needs are all in `permitted` and in this processor; may be called
 * again with another `permitted`. Result: the index of the alternative; -ENOENT when none fits; else as patchpoint_txn_commit.
 */
int patchpoint_choose(struct patchpoint_key *key, const struct patchpoint_alternative *alternatives, size_t count,
		      uint32_t permitted);

/**
 * The functions behind the macros, also for keys that are chosen at run time. `value` is a function's address, a value's bits, 0 or
 * 1, or a way's number. Result: as patchpoint_txn_commit, and -EINVAL if `key` is no key or a function with variants, or `value` no
 * way of the switch.
 */
int patchpoint_key_set(struct patchpoint_key *key, uint64_t value);
int patchpoint_txn_set(struct patchpoint_txn *txn, struct patchpoint_key *key, uint64_t value);

/**
 * Add and remove a user of a branch: the functions behind patchpoint_branch_inc and patchpoint_branch_dec. A branch is true while it
 * has users, or if it was set to true. Result: 0; -ERANGE if there is no user to remove, or UINT32_MAX of them; -EINVAL if `key` is
 * no branch; else as patchpoint_txn_commit. After an error nothing has changed. Where the number of users stays above 0, no lock is
 * taken. Threads: any. Order: each is a full memory barrier.
 */
int patchpoint_key_inc(struct patchpoint_key *key);
int patchpoint_key_dec(struct patchpoint_key *key);

/** Returns the number of a branch's users, which may change at any time. Async-signal-safe. */
uint32_t patchpoint_key_users(const struct patchpoint_key *key);

/* Functions for the macros only. */
void patchpoint_object_register(struct patchpoint_object *object);
void patchpoint_object_unregister(struct patchpoint_object *object);
void patchpoint_import_register(struct patchpoint_key *key);
void patchpoint_import_unregister(struct patchpoint_key *key);
void patchpoint_variants_register(struct patchpoint_variants *variants);
void patchpoint_variants_unregister(struct patchpoint_variants *variants);
/* Returns the number of the combination that keys, branches and switches, have now. */
uint32_t patchpoint_combination(struct patchpoint_key *const *keys, size_t count);
void patchpoint_null_nothing(void);
void patchpoint_null_zero(void);
void patchpoint_null_zero_real(void);
void patchpoint_null_trap(void);
/*
 * Never called: it stands for the call that a patched site makes without the compiler's knowledge. It is not declared noreturn: gcc
 * assumes only of a call that may return that it changes variables of this file (-fipa-reference).
 */
void patchpoint_cold(void) __attribute__((__nothrow__, __cold__));

#ifdef __cplusplus
}
#endif

#include "patchpoint/declare.h"

/** Executes a site of a call key: patchpoint_call(key, arguments…). Its value is the operation's result. */
#define patchpoint_call(...) PATCHPOINT__CALL_WITH(patchpoint_call_, __VA_ARGS__)

/**
 * As patchpoint_call, but the caller keeps everything in general registers but %rax across the site. Needs
 * PATCHPOINT_DEFINE_SAVED(key) in one file of the object. Vector registers and flags are not preserved. A function that is
 * declared PATCHPOINT_PRESERVING is called directly; any other function through a thunk that saves eight registers.
 */
#define patchpoint_call_saved(...) PATCHPOINT__CALL_WITH(patchpoint__saved_, __VA_ARGS__)

/** Reads a value key. */
#define patchpoint_value(key) patchpoint_value_##key()

/**
 * Asks a branch key. The compiler lays out the code for the answer in the name. The truth table is that of Linux's static keys:
 *
 *              key false    key true
 *   likely     jmp          nop
 *   unlikely   nop          jmp
 */
#define patchpoint_likely(key) patchpoint_likely_##key()
#define patchpoint_unlikely(key) patchpoint_unlikely_##key()

/**
 * Returns the number of a switch key's way, 0 to ways - 1. In a switch statement the compiler connects the site with the case of
 * the way: the site of a patched key is a jump to that case, or a nop for way 0.
 */
#define patchpoint_switch(key) patchpoint_switch_##key()

/** Change one key: as a transaction of one change, with its errors. A NULL operation stands for the key's policy. */
#define patchpoint_set_call(key, function) patchpoint_set_call_##key(function)
#define patchpoint_set_value(key, value) patchpoint_set_value_##key(value)
#define patchpoint_set_branch(key, truth) patchpoint_set_branch_##key(truth)
#define patchpoint_set_switch(key, way) patchpoint_set_switch_##key(way)

/**
 * Add and remove a user of a branch, as Linux's static_branch_inc and static_branch_dec: several users enable one tracepoint, and
 * the branch is true while it has users. A branch that is true from the start, or was set to true, stays true without
 * users. Setting a branch that has users to false fails with -EBUSY. Result: 0; -ERANGE if there is no user to remove (or no room
 * for another); else as patchpoint_txn_commit; after an error nothing has changed.
 */
#define patchpoint_branch_inc(key) patchpoint_inc_##key()
#define patchpoint_branch_dec(key) patchpoint_dec_##key()

/** Returns the number of a branch's users. */
#define patchpoint_branch_users(key) patchpoint_users_##key()

/** Add a change to a transaction. Result: 0; -ENOMEM or -EINVAL, which the commit will return too. */
#define patchpoint_txn_set_call(txn, key, function) patchpoint_txn_set_call_##key(txn, function)
#define patchpoint_txn_set_value(txn, key, value) patchpoint_txn_set_value_##key(txn, value)
#define patchpoint_txn_set_branch(txn, key, truth) patchpoint_txn_set_branch_##key(txn, truth)
#define patchpoint_txn_set_switch(txn, key, way) patchpoint_txn_set_switch_##key(txn, way)

#endif
