/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Numbers of the kernel's interface (include/uapi/linux: fs.h, futex.h, membarrier.h, magic.h, mman.h), so that libc's headers are
 * enough: musl's come without the kernel's.
 */
#ifndef PATCHPOINT_KERNEL_H
#define PATCHPOINT_KERNEL_H

#include <stdint.h>

enum {
	KERNEL_FUTEX_WAIT_PRIVATE = 0 | 128,
	KERNEL_FUTEX_WAKE_PRIVATE = 1 | 128,
	KERNEL_MEMBARRIER_SYNC_CORE = 1 << 5,
	KERNEL_MEMBARRIER_REGISTER_SYNC_CORE = 1 << 6,
	KERNEL_PROC_SUPER_MAGIC = 0x9fa0,
	KERNEL_MREMAP_DONTUNMAP = 4, /* Linux 5.7; 5.13 for files */
	KERNEL_MAP_FIXED_NOREPLACE = 0x100000, /* Linux 4.17; older kernels take the address as a hint */
	KERNEL_MADV_WIPEONFORK = 18,	       /* Linux 4.14 */
	KERNEL_MADV_POPULATE_READ = 22,	       /* Linux 5.14 */
	KERNEL_MADV_POPULATE_WRITE = 23,
};

/* The argument of PROCMAP_QUERY (Linux 6.11), on /proc/self/maps: a question and its answer. */
#define KERNEL_PROCMAP_QUERY 0xc0686611u
struct kernel_procmap {
	uint64_t size, flags, address;
	uint64_t start, stop, rights, page_size, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name, build_id;
};
enum { KERNEL_PROCMAP_READABLE = 1, KERNEL_PROCMAP_WRITABLE = 2, KERNEL_PROCMAP_EXECUTABLE = 4, KERNEL_PROCMAP_SHARED = 8 };

#endif
