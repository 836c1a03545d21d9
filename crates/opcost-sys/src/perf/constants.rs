//! The events that `<linux/perf_event.h>` defines for every machine, by the names that `perf` uses.

use perf_event_open_sys::bindings as b;

/// The values of [`EventAttr::kind`](super::EventAttr) and `config` for an event.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct GenericEvent {
    /// PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE or PERF_TYPE_HW_CACHE.
    pub kind: u32,
    /// The event's code within its kind.
    pub config: u64,
}

/// One row of the table of generic events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NamedEvent {
    /// The name used in tables.
    pub name: &'static str,
    /// Other names of the event.
    pub aliases: &'static [&'static str],
    /// The event's kind and code.
    pub event: GenericEvent,
}

/// PERF_TYPE_HARDWARE: the CPU's counters.
pub const KIND_HARDWARE: u32 = b::PERF_TYPE_HARDWARE;
/// PERF_TYPE_SOFTWARE: events that the kernel itself counts.
pub const KIND_SOFTWARE: u32 = b::PERF_TYPE_SOFTWARE;
/// PERF_TYPE_TRACEPOINT: the config is the tracepoint's number.
pub const KIND_TRACEPOINT: u32 = b::PERF_TYPE_TRACEPOINT;
/// PERF_TYPE_HW_CACHE: the CPU's counters of its caches.
pub const KIND_HW_CACHE: u32 = b::PERF_TYPE_HW_CACHE;
/// PERF_TYPE_RAW: the CPU's counters, by the CPU's own codes.
pub const KIND_RAW: u32 = b::PERF_TYPE_RAW;
/// PERF_TYPE_BREAKPOINT: accesses to an address.
pub const KIND_BREAKPOINT: u32 = b::PERF_TYPE_BREAKPOINT;

const fn hard(name: &'static str, aliases: &'static [&'static str], id: u32) -> NamedEvent {
    let event = GenericEvent { kind: KIND_HARDWARE, config: id as u64 };
    NamedEvent { name, aliases, event }
}

const fn soft(name: &'static str, aliases: &'static [&'static str], id: u32) -> NamedEvent {
    let event = GenericEvent { kind: KIND_SOFTWARE, config: id as u64 };
    NamedEvent { name, aliases, event }
}

/// Returns a cache event; cache, operation and result take a byte each (`perf_event_open(2)`, PERF_TYPE_HW_CACHE).
const fn cache(name: &'static str, cache: u32, operation: u32, result: u32) -> NamedEvent {
    let event = GenericEvent {
        kind: KIND_HW_CACHE,
        config: (cache | operation << 8 | result << 16) as u64,
    };
    NamedEvent { name, aliases: &[], event }
}

const L1D: u32 = b::PERF_COUNT_HW_CACHE_L1D;
const L1I: u32 = b::PERF_COUNT_HW_CACHE_L1I;
const LLC: u32 = b::PERF_COUNT_HW_CACHE_LL;
const DTLB: u32 = b::PERF_COUNT_HW_CACHE_DTLB;
const ITLB: u32 = b::PERF_COUNT_HW_CACHE_ITLB;
const BPU: u32 = b::PERF_COUNT_HW_CACHE_BPU;
const NODE: u32 = b::PERF_COUNT_HW_CACHE_NODE;
const LOAD: u32 = b::PERF_COUNT_HW_CACHE_OP_READ;
const STORE: u32 = b::PERF_COUNT_HW_CACHE_OP_WRITE;
const PREFETCH: u32 = b::PERF_COUNT_HW_CACHE_OP_PREFETCH;
const ACCESS: u32 = b::PERF_COUNT_HW_CACHE_RESULT_ACCESS;
const MISS: u32 = b::PERF_COUNT_HW_CACHE_RESULT_MISS;

/// Every generic event. Meaningless cache events are left out: instructions are not stored to, and branch units and instruction
/// TLBs are only read.
#[rustfmt::skip] // one row a line
static GENERIC: &[NamedEvent] = &[
    hard("cycles", &["cpu-cycles"], b::PERF_COUNT_HW_CPU_CYCLES),
    hard("instructions", &[], b::PERF_COUNT_HW_INSTRUCTIONS),
    hard("cache-references", &[], b::PERF_COUNT_HW_CACHE_REFERENCES),
    hard("cache-misses", &[], b::PERF_COUNT_HW_CACHE_MISSES),
    hard("branches", &["branch-instructions"], b::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
    hard("branch-misses", &[], b::PERF_COUNT_HW_BRANCH_MISSES),
    hard("bus-cycles", &[], b::PERF_COUNT_HW_BUS_CYCLES),
    hard("stalled-cycles-frontend", &["idle-cycles-frontend"], b::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND),
    hard("stalled-cycles-backend", &["idle-cycles-backend"], b::PERF_COUNT_HW_STALLED_CYCLES_BACKEND),
    hard("ref-cycles", &[], b::PERF_COUNT_HW_REF_CPU_CYCLES),
    soft("cpu-clock", &[], b::PERF_COUNT_SW_CPU_CLOCK),
    soft("task-clock", &[], b::PERF_COUNT_SW_TASK_CLOCK),
    soft("page-faults", &["faults"], b::PERF_COUNT_SW_PAGE_FAULTS),
    soft("context-switches", &["cs"], b::PERF_COUNT_SW_CONTEXT_SWITCHES),
    soft("cpu-migrations", &["migrations"], b::PERF_COUNT_SW_CPU_MIGRATIONS),
    soft("minor-faults", &[], b::PERF_COUNT_SW_PAGE_FAULTS_MIN),
    soft("major-faults", &[], b::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
    soft("alignment-faults", &[], b::PERF_COUNT_SW_ALIGNMENT_FAULTS),
    soft("emulation-faults", &[], b::PERF_COUNT_SW_EMULATION_FAULTS),
    soft("dummy", &[], b::PERF_COUNT_SW_DUMMY),
    soft("bpf-output", &[], b::PERF_COUNT_SW_BPF_OUTPUT),
    soft("cgroup-switches", &[], b::PERF_COUNT_SW_CGROUP_SWITCHES),
    cache("L1-dcache-loads", L1D, LOAD, ACCESS),
    cache("L1-dcache-load-misses", L1D, LOAD, MISS),
    cache("L1-dcache-stores", L1D, STORE, ACCESS),
    cache("L1-dcache-store-misses", L1D, STORE, MISS),
    cache("L1-dcache-prefetches", L1D, PREFETCH, ACCESS),
    cache("L1-dcache-prefetch-misses", L1D, PREFETCH, MISS),
    cache("L1-icache-loads", L1I, LOAD, ACCESS),
    cache("L1-icache-load-misses", L1I, LOAD, MISS),
    cache("L1-icache-prefetches", L1I, PREFETCH, ACCESS),
    cache("L1-icache-prefetch-misses", L1I, PREFETCH, MISS),
    cache("LLC-loads", LLC, LOAD, ACCESS),
    cache("LLC-load-misses", LLC, LOAD, MISS),
    cache("LLC-stores", LLC, STORE, ACCESS),
    cache("LLC-store-misses", LLC, STORE, MISS),
    cache("LLC-prefetches", LLC, PREFETCH, ACCESS),
    cache("LLC-prefetch-misses", LLC, PREFETCH, MISS),
    cache("dTLB-loads", DTLB, LOAD, ACCESS),
    cache("dTLB-load-misses", DTLB, LOAD, MISS),
    cache("dTLB-stores", DTLB, STORE, ACCESS),
    cache("dTLB-store-misses", DTLB, STORE, MISS),
    cache("dTLB-prefetches", DTLB, PREFETCH, ACCESS),
    cache("dTLB-prefetch-misses", DTLB, PREFETCH, MISS),
    cache("iTLB-loads", ITLB, LOAD, ACCESS),
    cache("iTLB-load-misses", ITLB, LOAD, MISS),
    cache("branch-loads", BPU, LOAD, ACCESS),
    cache("branch-load-misses", BPU, LOAD, MISS),
    cache("node-loads", NODE, LOAD, ACCESS),
    cache("node-load-misses", NODE, LOAD, MISS),
    cache("node-stores", NODE, STORE, ACCESS),
    cache("node-store-misses", NODE, STORE, MISS),
    cache("node-prefetches", NODE, PREFETCH, ACCESS),
    cache("node-prefetch-misses", NODE, PREFETCH, MISS),
];

/// Returns every generic event, in the order of the kernel's header.
pub fn generic_events() -> impl Iterator<Item = &'static NamedEvent> {
    GENERIC.iter()
}

/// Returns the generic event with this name or alias, spelled as `perf` spells it; `None` if there is none.
pub fn generic_event(name: &str) -> Option<GenericEvent> {
    let row = GENERIC.iter().find(|row| row.name == name || row.aliases.contains(&name))?;
    Some(row.event)
}

/// Returns the name of an event of this kind and code, if it is generic.
pub fn generic_name(kind: u32, config: u64) -> Option<&'static str> {
    let row = GENERIC.iter().find(|row| row.event == GenericEvent { kind, config })?;
    Some(row.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn known_codes() {
        let code = |name| generic_event(name).map(|event| (event.kind, event.config));
        assert_eq!(code("cycles"), Some((0, 0)));
        assert_eq!(code("cpu-cycles"), Some((0, 0)));
        assert_eq!(code("instructions"), Some((0, 1)));
        assert_eq!(code("branch-instructions"), Some((0, 4)));
        assert_eq!(code("ref-cycles"), Some((0, 9)));
        assert_eq!(code("task-clock"), Some((1, 1)));
        assert_eq!(code("faults"), Some((1, 2)));
        assert_eq!(code("cs"), Some((1, 3)));
        assert_eq!(code("migrations"), Some((1, 4)));
        assert_eq!(code("L1-dcache-loads"), Some((3, 0)));
        assert_eq!(code("LLC-store-misses"), Some((3, 0x1_0102)));
        assert_eq!(code("node-prefetch-misses"), Some((3, 0x1_0206)));
        assert_eq!(code("CYCLES"), None);
        assert_eq!(generic_name(3, 0x1_0003), Some("dTLB-load-misses"));
        assert_eq!(generic_name(4, 0), None);
    }

    #[test]
    fn names_and_codes_are_unique() {
        let (mut names, mut codes) = (HashSet::new(), HashSet::new());
        for row in generic_events() {
            assert!(codes.insert(row.event), "{}", row.name);
            for name in std::iter::once(&row.name).chain(row.aliases) {
                assert!(names.insert(name), "{name}");
            }
        }
        // 10 hardware and 12 software events, 32 of 42 cache events.
        assert_eq!(codes.len(), 54);
    }

    #[test]
    fn every_metric_counted_by_perf_events_is_listed_under_its_name() {
        for metric in opcost_record::METRICS.iter().filter(|row| row.source == "perf_event") {
            let row = generic_events().find(|row| row.name == metric.name);
            assert!(row.is_some(), "{}", metric.name);
        }
    }
}
