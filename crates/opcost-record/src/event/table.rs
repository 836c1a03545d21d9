//! The table of events.

use super::{Amount, Event, Measure, Place, Pointer};
use crate::metric::{MetricRow, event_row};
use crate::{Domain, Unit};

use Amount::{Argument, Field, FromProgram, Nothing, Pages, Product, ToProgram};

/// A function whose entries count.
const fn entry(function: &'static str) -> Place {
    Place { function, callers: &[], amount: Nothing, pointer: Pointer::Nowhere }
}

/// A function with an amount at its entry.
const fn with(function: &'static str, amount: Amount) -> Place {
    Place { function, callers: &[], amount, pointer: Pointer::Nowhere }
}

/// A function that allocates an amount and returns its address.
const fn allocates(function: &'static str, amount: Amount) -> Place {
    Place { pointer: Pointer::Returned, ..with(function, amount) }
}

/// A function that stores the address of an amount that it allocates.
const fn stores(function: &'static str, amount: Amount) -> Place {
    Place { pointer: Pointer::Stored, ..with(function, amount) }
}

/// A function that allocates an amount in place of what it frees.
const fn moves(function: &'static str, amount: Amount) -> Place {
    Place { pointer: Pointer::Moved, ..with(function, amount) }
}

/// A function that frees memory.
const fn frees(function: &'static str) -> Place {
    Place { pointer: Pointer::Freed, ..entry(function) }
}

/// A function whose entries count if one of these functions called it.
const fn called_by(function: &'static str, callers: &'static [&'static str]) -> Place {
    Place { function, callers, amount: Nothing, pointer: Pointer::Nowhere }
}

/// Functions that allocate, with the bytes that are asked for, then those that free: the C library's (ISO C and POSIX), and
/// jemalloc's own names in C and Rust (jemalloc(3)).
const HEAP: &[Place] = &[
    allocates("malloc", Argument(0)),
    allocates("calloc", Product(0, 1)),
    moves("realloc", Argument(1)),
    moves("reallocarray", Product(1, 2)),
    allocates("memalign", Argument(1)),
    allocates("aligned_alloc", Argument(1)),
    stores("posix_memalign", Argument(2)),
    allocates("valloc", Argument(0)),
    allocates("pvalloc", Argument(0)),
    allocates("je_malloc", Argument(0)),
    allocates("je_calloc", Product(0, 1)),
    moves("je_realloc", Argument(1)),
    allocates("je_aligned_alloc", Argument(1)),
    stores("je_posix_memalign", Argument(2)),
    allocates("je_mallocx", Argument(0)),
    moves("je_rallocx", Argument(1)),
    allocates("_rjem_malloc", Argument(0)),
    allocates("_rjem_calloc", Product(0, 1)),
    moves("_rjem_realloc", Argument(1)),
    allocates("_rjem_mallocx", Argument(0)),
    moves("_rjem_rallocx", Argument(1)),
    frees("free"),
    frees("cfree"),
    frees("free_sized"),
    frees("free_aligned_sized"),
    frees("je_free"),
    frees("je_dallocx"),
    frees("je_sdallocx"),
    frees("_rjem_free"),
    frees("_rjem_dallocx"),
    frees("_rjem_sdallocx"),
];

/// The number of functions that allocate, which stand first.
const fn allocating() -> usize {
    let mut at = 0;
    while at < HEAP.len() && !matches!(HEAP[at].pointer, Pointer::Freed) {
        at += 1;
    }
    at
}

const ALLOCATORS: &[Place] = HEAP.split_at(allocating()).0;
const FREES: &[Place] = HEAP.split_at(allocating()).1;

/// The place of `object_size` in `struct kmem_cache`, behind `size` (mm/slab.h and include/linux/slub_def.h, 5.x to 6.17 with
/// SLUB and without SLUB_TINY).
const OBJECT_SIZE: u16 = 28;

/// Functions that allocate memory of the slab allocator, of 5.10 to 6.1 and, with `_noprof`, of 6.10 and later (include/linux/slab.h).
const SLAB: &[Place] = &[
    with("__kmalloc", Argument(0)),
    with("__kmalloc_node", Argument(0)),
    with("__kmalloc_node_track_caller", Argument(0)),
    with("kmalloc_trace", Argument(2)),
    with("kmalloc_node_trace", Argument(3)),
    with("kmalloc_large", Argument(0)),
    with("kmalloc_large_node", Argument(0)),
    with("kmem_cache_alloc", Field(0, OBJECT_SIZE)),
    with("kmem_cache_alloc_lru", Field(0, OBJECT_SIZE)),
    with("kmem_cache_alloc_node", Field(0, OBJECT_SIZE)),
    with("kmem_cache_alloc_trace", Argument(2)),
    with("kmem_cache_alloc_node_trace", Argument(3)),
    with("__kmalloc_track_caller", Argument(0)),
    with("kmalloc_trace_noprof", Argument(2)),
    with("kmalloc_node_trace_noprof", Argument(3)),
    with("kmalloc_large_noprof", Argument(0)),
    with("kmalloc_large_node_noprof", Argument(0)),
    with("kmalloc_node_track_caller_noprof", Argument(0)),
    with("__kmalloc_noprof", Argument(0)),
    with("__kmalloc_node_noprof", Argument(0)),
    with("__kmalloc_node_track_caller_noprof", Argument(0)),
    with("__kmalloc_cache_noprof", Argument(2)),
    with("__kmalloc_cache_node_noprof", Argument(3)),
    with("__kmalloc_large_noprof", Argument(0)),
    with("__kmalloc_large_node_noprof", Argument(0)),
    with("kmem_cache_alloc_noprof", Field(0, OBJECT_SIZE)),
    with("kmem_cache_alloc_lru_noprof", Field(0, OBJECT_SIZE)),
    with("kmem_cache_alloc_node_noprof", Field(0, OBJECT_SIZE)),
];

/// The page allocator's entry (mm/page_alloc.c), of 6.1, of 6.10 and of 6.14. `__alloc_pages_bulk` takes pages past it.
const PAGES: &[Place] = &[
    with("__alloc_pages", Pages(1)),
    with("__alloc_pages_noprof", Pages(1)),
    with("__alloc_frozen_pages_noprof", Pages(1)),
];

/// The functions below all copies to programs but those of single words (arch/x86/lib/copy_user_64.S, arch/arm64/lib). Until 6.3 the
/// CPU chooses one of three. Since 6.4 one is left, which gets the length in `rcx`; a CPU with FSRM (EPYC-Milan, max) copies inline.
const TO_PROGRAMS: &[Place] = &[
    with("copy_user_generic_unrolled", ToProgram(2)),
    with("copy_user_generic_string", ToProgram(2)),
    with("copy_user_enhanced_fast_string", ToProgram(2)),
    with("rep_movs_alternative", ToProgram(3)),
    with("__arch_copy_to_user", Argument(2)),
];

const FROM_PROGRAMS: &[Place] = &[
    with("copy_user_generic_unrolled", FromProgram(2)),
    with("copy_user_generic_string", FromProgram(2)),
    with("copy_user_enhanced_fast_string", FromProgram(2)),
    with("rep_movs_alternative", FromProgram(3)),
    with("__arch_copy_from_user", Argument(2)),
];

/// The names of the function that makes a new page part of anonymous memory, of 6.1 and later.
const fn new_anonymous(callers: &'static [&'static str]) -> [Place; 2] {
    [called_by("page_add_new_anon_rmap", callers), called_by("folio_add_new_anon_rmap", callers)]
}

const ANONYMOUS: &[Place] = &new_anonymous(&[
    "do_anonymous_page",
    "handle_mm_fault",
    "__handle_mm_fault",
    "handle_pte_fault",
    "do_pte_missing",
]);

const COPIED: &[Place] = &[entry("wp_page_copy")];

/// Every system call's own function, since 4.17 (include/linux/syscalls.h).
const SYSTEM_CALLS: &[Place] = &[entry("__x64_sys_*"), entry("__arm64_sys_*")];

const SPIN_LOCKS: &[Place] = &[
    entry("_raw_spin_lock"),
    entry("_raw_spin_lock_irq"),
    entry("_raw_spin_lock_irqsave"),
    entry("_raw_spin_lock_bh"),
];

const MUTEXES: &[Place] = &[
    entry("mutex_lock"),
    entry("mutex_lock_interruptible"),
    entry("mutex_lock_killable"),
    entry("mutex_lock_io"),
];

const SEMAPHORES: &[Place] = &[
    entry("down_read"),
    entry("down_read_interruptible"),
    entry("down_read_killable"),
    entry("down_read_non_owner"),
    entry("down_write"),
    entry("down_write_killable"),
];

const MUTEXES_WAITED: &[Place] = &[
    entry("__mutex_lock_slowpath"),
    entry("__mutex_lock_interruptible_slowpath"),
    entry("__mutex_lock_killable_slowpath"),
];

/// Where sockets get what programs send (`struct proto` and `struct proto_ops`).
const SENT: &[Place] = &[
    with("tcp_sendmsg", Argument(2)),
    with("udp_sendmsg", Argument(2)),
    with("udpv6_sendmsg", Argument(2)),
    with("unix_stream_sendmsg", Argument(2)),
    with("unix_dgram_sendmsg", Argument(2)),
];

/// The place of `bi_iter.bi_size` in `struct bio` (include/linux/blk_types.h, 5.x to 6.x).
const BIO_SIZE: u16 = 40;

const fn event(
    group: &'static str,
    domain: Domain,
    name: &'static str,
    unit: Unit,
    places: &'static [Place],
    checked: &'static str,
    help: &'static str,
) -> Event {
    let measure = match unit {
        Unit::Bytes => Measure::Amounts,
        _ => Measure::Entries,
    };
    Event { metric: event_row(name, unit, help), group, domain, measure, places, checked }
}

/// An event with a metric for each function whose name fits the row's one pattern.
const fn each(
    group: &'static str,
    name: &'static str,
    places: &'static [Place],
    checked: &'static str,
    help: &'static str,
) -> Event {
    Event { measure: Measure::Each, ..event(group, OS, name, NUMBER, places, checked, help) }
}

/// An event of the allocated memory of programs.
const fn held(measure: Measure, name: &'static str, help: &'static str) -> Event {
    let event = event("heap", USER, name, BYTES, HEAP, "glibc", help);
    let per_op = matches!(measure, Measure::Left);
    Event { measure, metric: MetricRow { per_op, ..event.metric }, ..event }
}

/// Why no trial holds softirqs of block devices against another figure: a RAM disk needs none.
const NO_DEVICE: &str = "not checked: guests have no such device";

/// Why no trial holds contended spin locks against another figure: the tracepoint leaves out a lock's first waiter (kernel/locking/qspinlock.c).
const NO_COUNTER: &str = "not checked: kernels count a part of them";

const USER: Domain = Domain::User;
const OS: Domain = Domain::Kernel;
const NUMBER: Unit = Unit::Count;
const BYTES: Unit = Unit::Bytes;

/// Every event, in the order in which lists show them; the rows of a group stand together.
#[rustfmt::skip] // one row a line
pub static EVENTS: &[Event] = &[
    event("heap", USER, "allocations", NUMBER, ALLOCATORS, "glibc", "calls of malloc, calloc, realloc and their like by programs; also of jemalloc's"),
    event("heap", USER, "allocated-bytes", BYTES, ALLOCATORS, "glibc", "bytes that these calls asked for"),
    event("heap", USER, "frees", NUMBER, FREES, "glibc", "calls of free and its like by programs, also those of null"),
    held(Measure::Peak, "heap-peak-bytes", "most bytes that were allocated and not freed at one time, without what was there before"),
    held(Measure::Left, "heap-left-bytes", "bytes that were allocated and never freed: leaks, if nothing shall stay"),
    event("scheduling", OS, "context-switches", NUMBER, &[entry("__switch_to")], "6.1", "switches from one task to another"),
    event("scheduling", OS, "task-wakeups", NUMBER, &[entry("try_to_wake_up"), entry("wake_up_new_task")], "6.1, 6.12", "times that a waiting or new task was to be woken, also where it was awake"),
    event("scheduling", OS, "task-migrations", NUMBER, &[entry("set_task_cpu")], "6.1", "times that a task got another CPU (several CPUs)"),
    event("faults", OS, "anonymous-pages", NUMBER, ANONYMOUS, "6.1", "new pages of anonymous memory, by page faults or ahead of them (MAP_POPULATE)"),
    event("faults", OS, "copied-pages", NUMBER, COPIED, "6.1", "page faults that copied a page because it was shared (copy on write)"),
    event("faults", OS, "file-pages", NUMBER, &[entry("finish_fault")], "6.1", "page faults that mapped one page of a file or of shared memory"),
    event("faults", OS, "file-windows", NUMBER, &[entry("filemap_map_pages")], "6.1, 6.12", "read faults that looked for cached pages of a file around the address"),
    event("memory", OS, "slab-allocations", NUMBER, SLAB, "6.1, 6.12", "objects of the kernel's slab allocator (kmalloc, kmem_cache_alloc); a bulk counts once for each object that it allocates by these"),
    event("memory", OS, "slab-bytes", BYTES, SLAB, "6.1, 6.12", "bytes that these asked for (5.x to 6.17, without SLUB_TINY)"),
    event("memory", OS, "slab-frees", NUMBER, &[entry("kfree"), entry("kmem_cache_free")], "6.1, 6.12", "objects given back (kfree, kmem_cache_free), also those of null"),
    event("memory", OS, "page-allocations", NUMBER, PAGES, "6.1, 6.12", "calls of the kernel's page allocator, without bulks (vmalloc)"),
    event("memory", OS, "page-bytes", BYTES, PAGES, "6.1, 6.12", "bytes of the pages that these asked for"),
    each("system-calls-by-name", "system-call", SYSTEM_CALLS, "6.1", "system calls by name, a metric each, as system-call:read"),
    Event { measure: Measure::Failures, ..each("system-calls-by-name", "system-call-failed", SYSTEM_CALLS, "6.1", "system calls that returned an error, by name and error, as system-call-failed:openat:ENOENT") },
    event("copies", OS, "copied-to-programs", BYTES, TO_PROGRAMS, "6.1, 6.12", "bytes that the kernel copied to memory of programs, without single words; from 6.4 on only on CPUs without FSRM"),
    event("copies", OS, "copied-from-programs", BYTES, FROM_PROGRAMS, "6.1, 6.12", "bytes that the kernel copied from memory of programs, without single words; from 6.4 on only on CPUs without FSRM"),
    event("softirqs", OS, "softirq-timer", NUMBER, &[entry("run_timer_softirq")], "6.1, 6.12", "softirqs of timers"),
    event("softirqs", OS, "softirq-hrtimer", NUMBER, &[entry("hrtimer_run_softirq")], "6.1, 6.12", "softirqs of high-resolution timers"),
    event("softirqs", OS, "softirq-net-rx", NUMBER, &[entry("net_rx_action")], "6.1, 6.12", "softirqs that receive packets"),
    event("softirqs", OS, "softirq-net-tx", NUMBER, &[entry("net_tx_action")], "6.1, 6.12", "softirqs that send packets"),
    event("softirqs", OS, "softirq-block", NUMBER, &[entry("blk_done_softirq")], NO_DEVICE, "softirqs that complete block requests (several CPUs)"),
    event("softirqs", OS, "softirq-tasklet", NUMBER, &[entry("tasklet_action"), entry("tasklet_hi_action")], "6.1, 6.12", "softirqs of tasklets"),
    event("softirqs", OS, "softirq-sched", NUMBER, &[entry("run_rebalance_domains"), entry("sched_balance_softirq")], "6.1", "softirqs that balance the load of CPUs (several CPUs)"),
    event("softirqs", OS, "softirq-rcu", NUMBER, &[entry("rcu_core_si"), entry("rcu_process_callbacks")], "6.1, 6.12", "softirqs of RCU"),
    event("deferred", OS, "rcu-callbacks", NUMBER, &[entry("call_rcu"), entry("call_rcu_hurry"), entry("kvfree_call_rcu")], "6.1", "callbacks and frees that RCU got to run later"),
    event("deferred", OS, "work-queued", NUMBER, &[entry("__queue_work")], "6.1, 6.12", "work items queued for a kernel thread"),
    event("deferred", OS, "work-run", NUMBER, &[entry("process_one_work")], "6.1, 6.12", "work items that kernel threads ran"),
    event("tlb", OS, "tlb-flushes", NUMBER, &[entry("flush_tlb_func")], "6.1, 6.12", "flushes of a CPU's TLB, asked for by itself or another CPU, without those of switches (x86)"),
    event("tlb", OS, "tlb-page-flushes", NUMBER, &[entry("native_flush_tlb_one_user")], "6.1, 6.12", "single pages flushed from a TLB (x86)"),
    event("tlb", OS, "tlb-remote-flushes", NUMBER, &[entry("native_flush_tlb_multi"), entry("flush_tlb_multi")], "6.1", "flushes that other CPUs were asked for (x86, several CPUs)"),
    event("tlb", OS, "call-interrupts", NUMBER, &[entry("sysvec_call_function"), entry("sysvec_call_function_single")], "6.1", "interrupts by which another CPU had a function called (x86, several CPUs)"),
    event("tlb", OS, "reschedule-interrupts", NUMBER, &[entry("sysvec_reschedule_ipi")], "6.1", "interrupts by which another CPU asked to schedule (x86, several CPUs)"),
    event("locks", OS, "spin-locks", NUMBER, SPIN_LOCKS, "6.1, 6.12", "spin locks taken by a call; trylocks and inlined ones are not counted"),
    event("locks", OS, "spin-locks-contended", NUMBER, &[entry("native_queued_spin_lock_slowpath"), entry("queued_spin_lock_slowpath")], NO_COUNTER, "spin locks that had to be waited for (several CPUs)"),
    event("locks", OS, "mutexes", NUMBER, MUTEXES, "6.1, 6.12", "mutexes taken; trylocks are not counted"),
    event("locks", OS, "mutexes-contended", NUMBER, MUTEXES_WAITED, "6.1, 6.12", "mutexes that were not free at once"),
    event("locks", OS, "semaphores", NUMBER, SEMAPHORES, "6.1, 6.12", "reader-writer semaphores taken; trylocks are not counted"),
    event("locks", OS, "semaphores-contended", NUMBER, &[entry("rwsem_down_read_slowpath"), entry("rwsem_down_write_slowpath")], "6.1, 6.12", "reader-writer semaphores that were not free at once"),
    event("io", OS, "block-requests", NUMBER, &[entry("submit_bio")], "6.1", "requests to block devices (bios), before they are merged or split"),
    event("io", OS, "block-bytes", BYTES, &[with("submit_bio", Field(0, BIO_SIZE))], "6.1", "bytes of these requests"),
    event("io", OS, "packets-sent", NUMBER, &[entry("__dev_queue_xmit")], "6.1", "packets given to a network device, also to loopback"),
    event("io", OS, "socket-bytes-sent", BYTES, SENT, "6.1", "bytes that programs gave to TCP, UDP and Unix sockets to send"),
];
