//! Reads heap profiles of gperftools (`HEAPPROFILE=`, <https://gperftools.github.io/gperftools/heapprofile.html>) and Go's
//! `/debug/pprof/heap?debug=1`: a text of stacks with the objects and bytes that they allocated.

use super::LookUp;
use super::about::{About, EventAbout};
use super::gperftools::{Stack, added_up};
use super::text::TextError;
use crate::symbolise::Sampled;
use opcost_record::Function;
use opcost_symbols::demangle::demangle;
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::Budget;

/// The beginning of the first line.
const HEADER: &str = "heap profile:";
/// The events as pprof names them: objects and bytes in use, then all that were allocated.
const EVENTS: [&str; 4] = ["inuse_objects", "inuse_space", "alloc_objects", "alloc_space"];
/// The events in the order in which one is chosen.
const CHOICE: [usize; 4] = [1, 0, 3, 2];
/// The lines before the map of the program's memory.
const MAPS: [&str; 2] = ["MAPPED_LIBRARIES:", "--- Memory map: ---"];

/// Whether a text looks like a heap profile.
pub fn is_heap(text: &str) -> bool {
    text.starts_with(HEADER)
}

/// Parses `objects: bytes [objects: bytes] @ rest`.
fn figures(line: &str) -> Option<([u64; 4], &str)> {
    let (figures, rest) = line.split_once('@')?;
    let (in_use, allocated) = figures.trim().strip_suffix(']')?.split_once('[')?;
    let mut all = [0; 4];
    let pairs = [in_use, allocated].map(|pair| pair.split_once(':'));
    for (pair, place) in pairs.into_iter().zip(all.chunks_mut(2)) {
        let (objects, bytes) = pair?;
        place[0] = objects.trim().parse().ok()?;
        place[1] = bytes.trim().parse().ok()?;
    }
    Some((all, rest.trim()))
}

/// The bytes from one sample to the next, on average; `None` if each object was counted, and if the kind of profile is unknown an
/// error. `kind`: the text behind the first line's figures.
fn rate_bytes(kind: &str) -> Result<Option<u64>, TextError> {
    let (name, rate) = kind.split_once('/').unwrap_or((kind, "1"));
    let other = || TextError::Content(format!("its first line names an unknown kind, {kind:?}"));
    let rate: u64 = rate.parse().map_err(|_| other())?;
    match name {
        "heapprofile" | "growth" | "growthz" | "fragmentation" | "fragmentationz" => Ok(None),
        "heap_v2" | "heapz_v2" => Ok(Some(rate)),
        // Go writes twice its rate.
        "heap" => Ok(Some(rate / 2)),
        _ => Err(other()),
    }
}

/// Estimates what sampled objects stand for: an object of `s` bytes is sampled with a probability of 1 − e^(−s/rate).
fn estimated(pair: &mut [u64], rate_bytes: u64) {
    let [objects, bytes] = pair else { return };
    if *objects == 0 || *bytes == 0 || rate_bytes <= 1 {
        return;
    }
    let size = *bytes as f64 / *objects as f64;
    let scale = 1.0 / (1.0 - (-size / rate_bytes as f64).exp());
    *objects = (*objects as f64 * scale) as u64;
    *bytes = (*bytes as f64 * scale) as u64;
}

/// Parses a comment of Go, whose fields have tabs between: `# 0x420cef runtime.malg+0x1f /go/src/runtime/proc.go:7`.
fn go_name(line: &str) -> Option<(u64, Function)> {
    let mut fields = line.strip_prefix('#')?.trim().split('\t').filter(|field| !field.is_empty());
    let address = u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()?;
    let name = fields.next()?;
    let name = name.rsplit_once("+0x").map_or(name, |(name, _)| name);
    Some((address, Function::new(demangle(name), "")))
}

/// Reads the text.
///
/// `event`: the event that is wanted, else the bytes in use, or the first one that has a cost; `look_up`: finds the functions at a
/// file's addresses; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: a text of another form, no such event, no cost; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    look_up: LookUp<'_>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let (head, kind) = text
        .lines()
        .next()
        .and_then(|line| figures(line.strip_prefix(HEADER)?))
        .ok_or_else(|| TextError::line(0, text, "not the first one of a heap profile"))?;
    let rate_bytes = rate_bytes(kind)?;
    let place = |text: &str| MAPS.iter().filter_map(|mark| text.find(mark)).min();
    let (stacks, maps) = text.split_at(place(text).unwrap_or(text.len()));
    let mut found: Vec<([u64; 4], Vec<u64>)> = Vec::new();
    let mut names: KeyedMap<u64, Vec<Function>> = KeyedMap::default();
    let mut last = None;
    for (index, line) in stacks.lines().enumerate().skip(1) {
        budget.step(line.len() as u64 + 64)?;
        let line = line.trim();
        if line.starts_with('#') || line.is_empty() {
            // Inlined functions follow one another with one address, the innermost first.
            if let Some((address, function)) = go_name(line) {
                let functions = names.entry(address).or_default();
                if last != Some(address) {
                    functions.clear();
                }
                functions.insert(0, function);
                last = Some(address);
            }
            continue;
        }
        last = None;
        let parsed = figures(line).and_then(|(mut figures, rest)| {
            if let Some(rate_bytes) = rate_bytes {
                figures.chunks_mut(2).for_each(|pair| estimated(pair, rate_bytes));
            }
            let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
            Some((figures, rest.split_whitespace().map(number).collect::<Option<Vec<u64>>>()?))
        });
        let other = "no stack with its objects and bytes";
        let (figures, mut addresses) = parsed.ok_or_else(|| TextError::line(index, line, other))?;
        // The innermost address, too, is that behind a call: to the allocator.
        if let Some(address) = addresses.first_mut() {
            *address = address.saturating_sub(1);
        }
        found.push((figures, addresses));
    }
    // A profile that never saw an object freed repeats its figures.
    let known = if head[2..] == head[..2] || head[2..] == [0, 0] { 2 } else { 4 };
    let events: Vec<String> =
        CHOICE.iter().filter(|at| **at < known).map(|at| EVENTS[*at].to_string()).collect();
    let has_cost = |event: &str| {
        let at = EVENTS.iter().position(|name| *name == event);
        at.is_some_and(|at| found.iter().any(|(figures, _)| figures[at] > 0))
    };
    let default = events.iter().find(|event| has_cost(event)).ok_or(TextError::Empty)?;
    let chosen = event.unwrap_or(default);
    let at = EVENTS.iter().position(|name| *name == chosen).filter(|at| *at < known);
    let at = at.ok_or_else(|| TextError::no_event(chosen, &events))?;
    let all: Vec<Stack> = found
        .into_iter()
        .map(|(figures, addresses)| Stack { cost: figures[at], samples: 0, addresses })
        .collect();
    // Nobody asked for an event, so those before the chosen one have no cost.
    let before = events.iter().take_while(|name| event.is_none() && *name != chosen);
    let about = About {
        format: "gperftools heap",
        sampling: Some(EventAbout {
            bytes: at % 2 == 1,
            with_callers: true,
            ..EventAbout::default()
        }),
        event: chosen.to_string(),
        without_samples: before.cloned().collect(),
        events: events.clone(),
        ..About::default()
    };
    added_up(&all, maps, &names, about, look_up, budget)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolise::{FileAddresses, LookedUp};
    use crate::table::FunctionTable;

    const TEXT: &str = "heap profile:   3:  1024 [ 5: 4096] @ heapprofile\n\
        \x20  2:  1000 [ 3: 3000] @ 0x1011 0x1022\n   1: 24 [ 1: 24] @ 0x9999\n   0: 0 [ 1: 1072] @\n\n\
        MAPPED_LIBRARIES:\n00001000-00002000 r-xp 00000000 08:01 7    /bin/my work\n";

    fn rows(text: &str, event: Option<&str>) -> Result<Vec<(String, u64)>, String> {
        let look_up = |_: &_, addresses: FileAddresses<'_>, _| LookedUp {
            stacks: (addresses.places().iter())
                .map(|at| vec![Function::new(format!("f{at:x}"), "/bin/my work")])
                .collect(),
            ..LookedUp::default()
        };
        let (about, sampled) =
            read(text, event, &look_up, &Budget::default()).map_err(|error| error.to_string())?;
        assert!(about.events.contains(&about.event));
        let table = FunctionTable::of(&sampled);
        assert_eq!(
            table.functions.iter().map(|cost| cost.own).sum::<u64>() + table.unattributed,
            table.total
        );
        Ok(table.functions.iter().map(|cost| (cost.function.symbol.clone(), cost.own)).collect())
    }

    fn row(name: &str, own: u64) -> (String, u64) {
        (name.to_string(), own)
    }

    #[test]
    fn objects_and_bytes_belong_to_the_code_that_called_the_allocator() {
        assert!(is_heap(TEXT));
        let in_use = [row("f10", 1000), row("[unmapped]", 24), row("f21", 0)];
        assert_eq!(rows(TEXT, None).unwrap(), in_use);
        assert_eq!(rows(TEXT, Some("inuse_objects")).unwrap()[0], row("f10", 2));
        assert_eq!(rows(TEXT, Some("alloc_space")).unwrap()[0], row("f10", 3000));
        let error = rows(TEXT, Some("cpu")).unwrap_err();
        assert_eq!(
            error,
            "it has no event cpu; it has inuse_space, inuse_objects, alloc_space, alloc_objects"
        );
        // All was freed.
        let freed = "heap profile: 0: 0 [1: 8] @ heapprofile\n0: 0 [1: 8] @ 0x1011\n";
        assert_eq!(rows(freed, None).unwrap(), [row("[unmapped]", 8)]);
        assert!(rows(freed, Some("inuse_space")).unwrap_err().contains("no cost at all"));
    }

    #[test]
    fn sampled_objects_are_scaled_as_pprof_scales_them() {
        // 1 / (1 - e^-1) of one object of a rate's bytes.
        let text = "heap profile: 1: 524288 [1: 524288] @ heap_v2/524288\n1: 524288 [1: 524288] @ 0x10 0x20\n";
        assert_eq!(rows(text, None).unwrap()[0].1, 829_411);
        assert_eq!(
            rows(&text.replace("heap_v2/524288", "heap/1048576"), None).unwrap()[0].1,
            829_411
        );
        assert_eq!(rows(&text.replace("heap_v2/524288", "heap_v2/1"), None).unwrap()[0].1, 524_288);
        assert!(rows(&text.replace("heap_v2", "heap_v9"), None).unwrap_err().contains("heap_v9"));
        // Go has names in comments, with inlined functions.
        let named = "#\t0x10\tinner+0x1\t/a.go:7\n#\t0x10\touter+0x1\t/a.go:9\n#\t0x20\tmain.main+0x5\t/a.go:8\n";
        let found = rows(&format!("{text}{named}"), None).unwrap();
        assert_eq!(found, [row("inner", 829_411), row("main.main", 0), row("outer", 0)]);
    }

    #[test]
    fn broken_lines_are_named() {
        let error = rows(&TEXT.replace("[ 3: 3000]", "[ 3 3000]"), None).unwrap_err();
        assert!(error.starts_with("line 2 is no stack with its objects and bytes"), "{error}");
        assert!(rows(&TEXT.replace("0x1022", "0xg"), None).unwrap_err().contains("line 2"));
        assert!(rows("heap profile: x\n", None).unwrap_err().contains("line 1 is not the first"));
    }
}
