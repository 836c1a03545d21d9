//! Reads the raw format that Firefox dumps before its profiler processes it, also that of its old developer tools
//! (<https://github.com/firefox-devtools/profiler/blob/main/docs-developer/gecko-profile-format.md>).
//!
//! Its tables have a schema and rows; addresses are those of the process.

use super::LookUp;
use super::Wanted;
use super::about::{About, EventAbout};
use super::filter::Facts;
use super::firefox::{Lib, Number};
use super::stack::{Placed, Stacks, functions};
use super::text::{TextError, json};
use crate::symbolise::{FileAddresses, LookedUp, Sampled, Unnamed, Why};
use opcost_record::Function;
use opcost_symbols::demangle::{demangle, printable};
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::Budget;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The event's name.
const SAMPLES: &str = "samples";
/// The memory of a row.
const ROW_BYTES: u64 = 128;
/// The frame that each stack begins with.
const ROOT: &str = "(root)";

/// A process, with those that it started.
#[derive(Deserialize)]
struct Process {
    #[serde(default, deserialize_with = "libs")]
    libs: Vec<RawLib>,
    #[serde(default)]
    threads: Vec<Entry>,
    #[serde(default)]
    processes: Vec<Process>,
    /// The old developer tools write the profile within a document of their own.
    profile: Option<Box<Process>>,
}

impl Process {
    fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.threads.iter().filter_map(|entry| match entry {
            Entry::Thread(thread) => Some(&**thread),
            Entry::Process(_) => None,
        })
    }

    /// The processes that stand among the threads.
    fn among_threads(&self) -> impl DoubleEndedIterator<Item = &Process> {
        self.threads.iter().filter_map(|entry| match entry {
            Entry::Thread(_) => None,
            Entry::Process(process) => Some(process),
        })
    }
}

/// What stands among the threads: Firefox before version 55 writes a process there, as a text.
enum Entry {
    Thread(Box<Thread>),
    Process(Process),
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Entry, D::Error> {
        from.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a thread")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Entry, E> {
        serde_json::from_str(text).map(Entry::Process).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Entry, A::Error> {
        let thread = Thread::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Entry::Thread(Box::new(thread)))
    }
}

#[derive(Deserialize)]
struct RawLib {
    start: u64,
    end: u64,
    #[serde(default)]
    offset: u64,
    #[serde(flatten)]
    lib: Lib,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    #[serde(default)]
    name: String,
    pid: Option<Number>,
    tid: Option<Number>,
    samples: Table,
    stack_table: Table,
    frame_table: Table,
    string_table: Vec<String>,
}

/// Reads libraries; Firefox before version 55 writes their list as a text.
fn libs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RawLib>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Libs {
        List(Vec<RawLib>),
        Text(String),
    }
    match Libs::deserialize(from)? {
        Libs::List(libs) => Ok(libs),
        Libs::Text(text) => serde_json::from_str(&text).map_err(D::Error::custom),
    }
}

/// Rows, whose columns the schema names; trailing empty ones are left out.
#[derive(Deserialize)]
struct Table {
    schema: KeyedMap<String, usize>,
    data: Vec<Vec<Value>>,
}

impl Table {
    fn cell(&self, row: usize, column: &str) -> Option<&Value> {
        self.data.get(row)?.get(*self.schema.get(column)?)
    }

    fn index(&self, row: usize, column: &str) -> Option<usize> {
        usize::try_from(self.cell(row, column)?.as_u64()?).ok()
    }
}

/// Whether a text looks like Firefox's raw format.
pub fn is_raw(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && ["\"threads\"", "\"stringTable\"", "\"schema\""].iter().all(|key| text.contains(key))
        && !text.contains("\"preprocessedProfileVersion\"")
}

/// Reads the text.
///
/// `wanted`: the event and samples to read; `look_up`: finds the functions at a file's addresses; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: JSON of another form, a reference to a missing row, another event; more than the budget.
pub fn read(
    text: &str,
    wanted: &Wanted,
    look_up: LookUp<'_>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    if let Some(event) = wanted.event.as_deref().filter(|event| *event != SAMPLES) {
        return Err(TextError::no_event(event, &[SAMPLES.to_string()]));
    }
    let document: Process = json(text, budget)?;
    let mut processes = Vec::new();
    let mut waiting = vec![&document];
    while let Some(process) = waiting.pop() {
        processes.push(process);
        waiting.extend(process.processes.iter().rev().chain(process.profile.as_deref()));
        waiting.extend(process.among_threads().rev());
    }
    let time = |thread: &Thread, row| thread.samples.cell(row, "time").and_then(Value::as_f64);
    let threads = || processes.iter().flat_map(|process| process.threads());
    let first_ms = threads().filter_map(|thread| time(thread, 0)).fold(f64::MAX, f64::min);
    let mut stacks = Stacks::new(budget);
    let (mut unnamed, mut unchecked, mut last_ms) = (BTreeMap::new(), BTreeSet::new(), f64::MIN);
    for process in &processes {
        let found = looked_up(process, look_up);
        unchecked.extend(found.unchecked.iter().cloned());
        for thread in process.threads() {
            let view = View::of(thread, &found, &mut stacks, budget)?;
            let (pid, tid) = [&thread.pid, &thread.tid]
                .map(|number| number.as_ref().and_then(Number::value))
                .into();
            let mut stack = Vec::new();
            for row in 0..thread.samples.data.len() {
                let time = time(thread, row);
                let at = thread.samples.index(row, "stack");
                stack.clear();
                view.stack(at, &mut stack)?;
                let leaf = at.and_then(|at| thread.stack_table.index(at, "frame"));
                let leaf = leaf.and_then(|frame| view.frames.get(frame));
                let facts = Facts {
                    command: Some(&thread.name),
                    pid,
                    tid,
                    module: leaf.map(|leaf| leaf.module.as_str()),
                    time_ns: time.map(|time| ((time - first_ms).max(0.0) * 1e6) as u64),
                };
                if !wanted.filter.is_empty() && !wanted.filter.keeps(&facts) {
                    stacks.losses.left_out += 1;
                    continue;
                }
                // A sample without a stack was not taken: the thread waited.
                let Some(leaf) = leaf else {
                    stacks.losses.waiting += 1;
                    continue;
                };
                last_ms = last_ms.max(time.unwrap_or(f64::MIN));
                stacks.add(&stack, 1, 1, leaf.functions.len() > 1)?;
                if let Some(why) = &leaf.unnamed {
                    unnamed.entry(leaf.module.clone()).or_insert((why.clone(), 0)).1 += 1;
                }
            }
        }
    }
    let passed_ms = last_ms - first_ms;
    let (about, mut sampled) = stacks.finish(About {
        format: "Firefox raw",
        sampling: Some(EventAbout { with_callers: true, ..EventAbout::default() }),
        event: SAMPLES.into(),
        events: vec![SAMPLES.into()],
        duration_ns: (0.0..1e12).contains(&passed_ms).then_some((passed_ms * 1e6) as u64),
        ..About::default()
    })?;
    sampled.unnamed = Unnamed::of_modules(unnamed);
    sampled.unchecked = unchecked.into_iter().collect();
    Ok((about, sampled))
}

/// The address that a frame's text is.
fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The functions at the addresses of a process.
#[derive(Default)]
struct Found {
    stacks: KeyedMap<u64, (Vec<Function>, Option<Why>)>,
    unchecked: Vec<String>,
}

/// Looks up the addresses of all threads, file by file.
fn looked_up(process: &Process, look_up: LookUp<'_>) -> Found {
    let mut asked: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for thread in process.threads() {
        for address in thread.string_table.iter().filter_map(|text| address(text)) {
            let lib = process.libs.iter().position(|one| one.start <= address && address < one.end);
            if let Some(lib) = lib {
                asked.entry(lib).or_default().insert(address);
            }
        }
    }
    let mut found = Found::default();
    for (number, addresses) in asked {
        let RawLib { start, offset, lib, .. } = &process.libs[number];
        let addresses: Vec<u64> = addresses.into_iter().collect();
        let base = start.wrapping_sub(*offset);
        let offsets: Vec<u64> =
            addresses.iter().map(|address| address.wrapping_sub(base)).collect();
        let module = if lib.path.is_empty() { &lib.name } else { &lib.path };
        let LookedUp { stacks, why, unchecked } = match lib.is_file() {
            true => look_up(&lib.file(), FileAddresses::InMemory(&offsets), None),
            false => LookedUp { why: Some(Why::NotLookedUp), ..LookedUp::default() },
        };
        if unchecked {
            found.unchecked.push(printable(module));
        }
        for (at, address) in addresses.into_iter().enumerate() {
            let why = why.clone().unwrap_or(Why::Stripped);
            let stack = stacks.get(at).filter(|stack| !stack.is_empty()).cloned();
            let stack =
                stack.unwrap_or_else(|| vec![Function::new(why.symbol(), printable(module))]);
            let named = stack.iter().any(|function| !function.symbol.starts_with('['));
            found.stacks.insert(address, (stack, (!named).then_some(why)));
        }
    }
    found
}

/// A frame's functions, outermost first.
struct Frame {
    functions: Vec<u32>,
    module: String,
    /// Why the frame has no name.
    unnamed: Option<Why>,
}

/// One thread's tables.
struct View<'d> {
    thread: &'d Thread,
    frames: Vec<Frame>,
    /// The number of the thread's root.
    root: Option<u32>,
}

impl<'d> View<'d> {
    fn of(
        thread: &'d Thread,
        found: &Found,
        stacks: &mut Stacks<'_>,
        budget: &Budget,
    ) -> Result<View<'d>, TextError> {
        let mut texts = Vec::new();
        for row in 0..thread.frame_table.data.len() {
            let text = thread.frame_table.index(row, "location");
            let text = text.and_then(|at| thread.string_table.get(at));
            texts.push(text.ok_or_else(|| missing("the name of frame", row, thread))?.as_str());
        }
        let placed: Vec<Placed<'_>> = texts.iter().map(|text| Placed::of(text)).collect();
        let mut frames = Vec::new();
        for (text, function) in texts.into_iter().zip(functions(&placed)) {
            budget.step(ROW_BYTES)?;
            let place = address(text);
            let (found, unnamed) = match place.and_then(|address| found.stacks.get(&address)) {
                Some((stack, unnamed)) => (stack.clone(), unnamed.clone()),
                None if place.is_some() => {
                    (vec![Function::new(Why::Unmapped.symbol(), "")], Some(Why::Unmapped))
                }
                None => {
                    let symbol = demangle(&function.symbol);
                    (vec![Function { symbol, ..function }], None)
                }
            };
            let module = found.last().map(|last| last.module.clone()).unwrap_or_default();
            let functions = found.into_iter().map(|function| stacks.function(function)).collect();
            frames.push(Frame { functions, module, unnamed });
        }
        let root = stacks.function(Function::new(ROOT, ""));
        Ok(View { thread, frames, root: Some(root) })
    }

    /// Adds the functions of a stack, outermost first.
    fn stack(&self, at: Option<usize>, stack: &mut Vec<u32>) -> Result<(), TextError> {
        let table = &self.thread.stack_table;
        let (mut next, mut below) = (at, table.data.len());
        while let Some(at) = next {
            // Callers are earlier rows.
            if at >= below {
                return Err(missing("stack", at, self.thread));
            }
            below = at;
            let frame = table.index(at, "frame").and_then(|frame| self.frames.get(frame));
            let frame = frame.ok_or_else(|| missing("the frame of stack", at, self.thread))?;
            stack.extend(frame.functions.iter().rev());
            next = table.index(at, "prefix");
        }
        if stack.len() > 1 && stack.last().copied() == self.root {
            stack.pop();
        }
        stack.reverse();
        Ok(())
    }
}

fn missing(what: &str, at: usize, thread: &Thread) -> TextError {
    let name = printable(&thread.name);
    TextError::Content(format!(
        "{what} {at} of thread {name:?} is not in its tables, so the file is broken"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::CodeFile;
    use crate::table::FunctionTable;
    use std::time::SystemTime;

    /// Made by hand after the format's description.
    const TEXT: &str = include_str!("../../tests/data/firefox-raw.json");

    fn looked_up(file: &CodeFile, addresses: FileAddresses<'_>, _: Option<SystemTime>) -> LookedUp {
        let path = String::from_utf8_lossy(&file.path).into_owned();
        let name = |at: &u64| {
            vec![Function::new("outer", &path), Function::new(format!("f{at:x}"), &path)]
        };
        LookedUp {
            stacks: addresses.places().iter().map(name).collect(),
            why: None,
            unchecked: true,
        }
    }

    fn rows(text: &str, only: &[&str]) -> Result<Vec<(String, u64, Option<u64>)>, String> {
        let mut wanted = Wanted::default();
        only.iter().for_each(|text| wanted.filter.add(text).unwrap());
        let (_, sampled) = read(text, &wanted, &looked_up, &Budget::default())
            .map_err(|error| error.to_string())?;
        let table = FunctionTable::of(&sampled);
        let row = |cost: &crate::table::FunctionCost| {
            (cost.function.symbol.clone(), cost.own, cost.inclusive)
        };
        Ok(table.functions.iter().map(row).filter(|row| row.2 != Some(0)).collect())
    }

    #[test]
    fn rows_are_resolved_and_addresses_looked_up() {
        let row = |name: &str, own, inclusive| (name.to_string(), own, Some(inclusive));
        assert!(is_raw(TEXT));
        let expected =
            [row("f10", 2, 2), row("[unmapped]", 1, 1), row("f", 0, 2), row("outer", 0, 2)];
        assert_eq!(rows(TEXT, &[]).unwrap(), expected);
        let old = format!("{{\"label\": \"x\", \"profile\": {TEXT}}}");
        assert_eq!(rows(&old, &[]).unwrap(), expected);
        // Old versions have the list of libraries as a text.
        let (start, end) = (TEXT.find("\"libs\":").unwrap() + 7, TEXT.find("]").unwrap() + 1);
        let list = serde_json::Value::from(&TEXT[start..end]).to_string();
        let texts = [&TEXT[..start], &list, &TEXT[end..]].concat();
        assert_eq!(rows(&texts, &[]).unwrap(), expected);
        // They have a process among the threads, as a text.
        let within = serde_json::json!({ "threads": [TEXT] }).to_string();
        assert_eq!(rows(&within, &[]).unwrap(), expected);
        assert_eq!(rows(TEXT, &["time=1.."]), rows(TEXT, &["dso=[none]"]));
        assert_eq!(rows(TEXT, &["time=..0.001"]).unwrap()[0], row("f10", 1, 1));
        let (about, sampled) =
            read(TEXT, &Wanted::default(), &looked_up, &Budget::default()).unwrap();
        assert_eq!((about.duration_ns, sampled.losses.waiting), (Some(4_000_000), 1));
        assert_eq!(sampled.unchecked, ["/bin/work"]);
        assert_eq!(sampled.unnamed[0].why, Why::Unmapped);
    }

    #[test]
    fn broken_references_are_named() {
        let fault = |from: &str, to: &str| rows(&TEXT.replacen(from, to, 1), &[]).unwrap_err();
        assert!(fault("[[2, 0.5]", "[[9, 0.5]").contains("stack 9 of thread \"Main\""));
        assert!(fault("[0, 1], [1, 2]", "[2, 1], [1, 2]").contains("stack 2 of thread"));
        assert!(fault("[0, 3]]}", "[0, 30]]}").contains("the frame of stack 3"));
        assert!(fault("[3]]}", "[30]]}").contains("the name of frame 3"));
    }
}
