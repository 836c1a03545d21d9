//! The many names that perf accepts for one cache event: `LLC-misses`, `l1d-loads`, `dTLB-miss` (`perf-list(1)`;
//! tools/perf/util/evsel.c, evsel__hw_cache).

/// Names of each cache, the most usual first.
const CACHES: [&[&str]; 7] = [
    &["L1-dcache", "l1-d", "l1d", "L1-data"],
    &["L1-icache", "l1-i", "l1i", "L1-instruction"],
    &["LLC", "L2"],
    &["dTLB", "d-tlb", "Data-TLB"],
    &["iTLB", "i-tlb", "Instruction-TLB"],
    &["branch", "bpu", "btb", "bpc"],
    &["node"],
];

/// Names of each operation, the most usual first.
const OPERATIONS: [&[&str]; 3] = [
    &["load", "loads", "read"],
    &["store", "stores", "write"],
    &["prefetch", "prefetches", "speculative-read", "speculative-load"],
];

/// Names of the two results: accesses and misses.
const RESULTS: [&[&str]; 2] = [&["refs", "Reference", "ops", "access"], &["misses", "miss"]];

/// The most usual name of a cache event, for any of its names; `None` if the name does not have the form of a cache event.
///
/// The form is a cache, optionally followed by an operation and a result in either order. Without an operation the event is a load,
/// without a result an access. This function does not check whether the kernel has the event.
pub(super) fn usual_name(name: &str) -> Option<String> {
    CACHES.iter().find_map(|names| {
        // The longest name is tried first, as "l1-d" is a prefix of others.
        let mut rests: Vec<&str> =
            names.iter().filter_map(|cache| name.strip_prefix(cache)).collect();
        rests.sort_by_key(|rest| rest.len());
        rests.into_iter().find_map(|rest| event(names[0], rest))
    })
}

fn event(cache: &str, rest: &str) -> Option<String> {
    let (mut operation, mut result) = (None, None);
    let mut rest = rest;
    while !rest.is_empty() {
        rest = rest.strip_prefix('-')?;
        let (place, after, slot) = match (word(&OPERATIONS, rest), word(&RESULTS, rest)) {
            (Some((place, after)), _) => (place, after, &mut operation),
            (None, Some((place, after))) => (place, after, &mut result),
            (None, None) => return None,
        };
        if slot.replace(place).is_some() {
            return None;
        }
        rest = after;
    }
    let operation = operation.unwrap_or(0);
    Some(match result {
        Some(1) => format!("{cache}-{}-misses", OPERATIONS[operation][0]),
        _ => format!("{cache}-{}", ["loads", "stores", "prefetches"][operation]),
    })
}

/// The index of the word with which the text begins, up to a '-' or the end, and the rest of the text.
fn word<'a>(words: &[&[&str]], text: &'a str) -> Option<(usize, &'a str)> {
    words.iter().enumerate().find_map(|(place, names)| {
        let rests = names.iter().filter_map(|name| text.strip_prefix(name));
        let mut whole = rests.filter(|rest| rest.is_empty() || rest.starts_with('-'));
        Some((place, whole.next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::usual_name;
    use opcost_sys::perf::{constants::KIND_HW_CACHE, generic_events};

    #[test]
    fn names_of_perf_stand_for_one_event() {
        for (name, usual) in [
            ("LLC-misses", "LLC-load-misses"),
            ("LLC-miss", "LLC-load-misses"),
            ("LLC", "LLC-loads"),
            ("L2-stores", "LLC-stores"),
            ("l1d-loads", "L1-dcache-loads"),
            ("L1-dcache-load", "L1-dcache-loads"),
            ("l1-d-write-misses", "L1-dcache-store-misses"),
            ("L1-data-speculative-read", "L1-dcache-prefetches"),
            ("L1-icache-misses", "L1-icache-load-misses"),
            ("dTLB-misses", "dTLB-load-misses"),
            ("d-tlb-read-miss", "dTLB-load-misses"),
            ("iTLB-misses-loads", "iTLB-load-misses"),
            ("bpu-loads", "branch-loads"),
            ("branch-read-misses", "branch-load-misses"),
            ("node-prefetch-refs", "node-prefetches"),
        ] {
            assert_eq!(usual_name(name).as_deref(), Some(usual), "{name}");
        }
    }

    #[test]
    fn every_cache_event_is_its_own_usual_name() {
        for row in generic_events().filter(|row| row.event.kind == KIND_HW_CACHE) {
            assert_eq!(usual_name(row.name).as_deref(), Some(row.name));
        }
    }

    #[test]
    fn other_names_are_not_taken_for_cache_events() {
        for name in [
            "",
            "cycles",
            "LLCx",
            "LLC-",
            "LLC--misses",
            "LLC-load-load",
            "LLC-misses-misses",
            "LLC-load-misses-x",
            "dTLB-fetch",
            "L1",
            "node-",
            "cache-misses",
        ] {
            assert_eq!(usual_name(name), None, "{name}");
        }
    }
}
