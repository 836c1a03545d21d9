//! The Firefox Profiler's processed format, as the profiler saves it and samply writes it
//! (<https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md>).
//!
//! Tables of columns refer to one another by row. Later versions of the format moved tables from the
//! threads to `shared`; a table is looked for in both places.

use super::about::{About, EventAbout};
use super::filter::Facts;
use super::stack::FRAMES_MAX;
use super::text::{TextError, json};
use super::{LookUp, Wanted, is_other};
use crate::code_costs::{CodeCosts, CountedFrom, PlaceCost};
use crate::losses::Losses;
use crate::space::{CodeFile, CodeKind};
use crate::symbolise::{FileAddresses, LookedUp, ProfileBuilder, Sampled, Unnamed, Why};
use opcost_record::Function;
use opcost_record::profile::KERNEL;
use opcost_symbols::demangle::{demangle, printable};
use opcost_symbols::keyed::{KeyedMap, KeyedSet};
use opcost_sys::budget::Budget;
use serde::Deserialize;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

#[derive(Deserialize)]
struct Document {
    meta: Meta,
    #[serde(default)]
    libs: Vec<Lib>,
    #[serde(default)]
    shared: Tables,
    threads: Vec<Thread>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    preprocessed_profile_version: Option<u32>,
    #[serde(default)]
    product: String,
    #[serde(default)]
    categories: Vec<Category>,
    symbolicated: Option<bool>,
    /// The time when the recording began, in milliseconds since 1970.
    start_time: Option<f64>,
}

#[derive(Deserialize)]
struct Category {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lib {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) path: String,
    /// The build id on Linux.
    code_id: Option<String>,
}

impl Lib {
    pub(super) fn file(&self) -> CodeFile {
        let digits = self.code_id.as_deref().unwrap_or_default();
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        let build_id = bytes.filter(|bytes| !bytes.is_empty());
        CodeFile { kind: CodeKind::File, path: self.path.clone().into_bytes(), build_id }
    }

    /// Whether the library is a file that can be read, and not the kernel.
    pub(super) fn is_file(&self) -> bool {
        self.path.starts_with('/')
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    #[serde(default)]
    name: String,
    #[serde(default)]
    process_name: Option<String>,
    pid: Option<Number>,
    tid: Option<Number>,
    samples: Samples,
    #[serde(flatten)]
    tables: Tables,
}

/// A number; some versions write a text, with a suffix if several threads share the number.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Number {
    Number(f64),
    Text(String),
}

impl Number {
    pub(super) fn value(&self) -> Option<i32> {
        match self {
            Number::Number(number) if number.fract() == 0.0 && number.abs() < 2e9 => {
                Some(*number as i32)
            }
            Number::Number(_) => None,
            Number::Text(text) => text.split('.').next()?.parse().ok(),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Samples {
    stack: Vec<Option<usize>>,
    /// Milliseconds.
    time: Option<Vec<f64>>,
    time_deltas: Option<Vec<f64>>,
    weight: Option<Vec<Option<f64>>>,
    weight_type: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tables {
    string_array: Option<Vec<String>>,
    stack_table: Option<StackTable>,
    frame_table: Option<FrameTable>,
    func_table: Option<FuncTable>,
    resource_table: Option<ResourceTable>,
}

#[derive(Deserialize)]
struct StackTable {
    frame: Vec<usize>,
    prefix: Vec<Option<usize>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameTable {
    func: Vec<usize>,
    /// Offset from the start of the file in memory; −1 for none.
    #[serde(default)]
    address: Vec<Option<i64>>,
    #[serde(default)]
    category: Vec<Option<usize>>,
    #[serde(default)]
    inline_depth: Vec<u32>,
}

#[derive(Deserialize)]
struct FuncTable {
    name: Vec<usize>,
    /// The row of the resource; −1 for none.
    #[serde(default)]
    resource: Vec<Option<i64>>,
}

#[derive(Deserialize)]
struct ResourceTable {
    #[serde(default)]
    lib: Vec<Option<i64>>,
    #[serde(default)]
    name: Vec<usize>,
}

/// The memory that a row of the table of stacks takes in the profile.
const ROW_BYTES: u64 = 256;

/// The unit of weights.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Weight {
    Samples,
    Milliseconds,
    Bytes,
    Other,
}

/// Whether a text looks like a Firefox profile.
pub fn is_firefox(text: &str) -> bool {
    let start = text.trim_start();
    start.starts_with('{') && start.contains("\"meta\"") && start.contains("\"threads\"")
}

/// Reads the text.
///
/// `wanted`: the event and samples to read; `look_up`: finds the functions at a file's addresses
/// ([`look_up`](crate::symbolise::look_up)), since samply leaves their names to the viewer; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: JSON of another form, a reference to a missing row, no such event; more than the budget.
pub fn read(
    text: &str,
    wanted: &Wanted,
    look_up: LookUp<'_>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let document: Document = json(text, budget)?;
    // The first version told none.
    let tables = document.threads.iter().map(|thread| &thread.tables);
    let is_processed = tables.chain([&document.shared]).any(|tables| tables.func_table.is_some());
    if document.meta.preprocessed_profile_version.is_none() && !is_processed {
        let why = "it has no table of functions; save it again with profiler.firefox.com";
        return Err(TextError::Content(why.into()));
    }
    let own = document.meta.product.starts_with("opcost ");
    let event_of = |thread: &Thread| match &thread.samples.weight_type {
        // In opcost's files a thread is a variant, whose process name says what was counted.
        _ if own => thread.process_name.clone().unwrap_or(thread.name.clone()),
        None => "samples".to_string(),
        Some(name) => name.clone(),
    };
    let mut events: Vec<String> = Vec::new();
    let mut known_events = KeyedSet::default();
    for thread in &document.threads {
        let event = printable(&event_of(thread));
        if !thread.samples.stack.is_empty() && known_events.insert(event.clone()) {
            events.push(event);
        }
    }
    let event = match &wanted.event {
        Some(event) if events.contains(event) => event.clone(),
        Some(event) => return Err(TextError::no_event(event, &events)),
        None => events.first().cloned().ok_or(TextError::Empty)?,
    };
    let of_event = |thread: &&Thread| {
        !thread.samples.stack.is_empty() && printable(&event_of(thread)) == event
    };
    let weight_type =
        document.threads.iter().find(of_event).map(|thread| &thread.samples.weight_type);
    let weights = match weight_type.and_then(Option::as_deref) {
        Some("tracing-ms") => Weight::Milliseconds,
        Some("bytes") => Weight::Bytes,
        // The format calls opcost's other figures samples, whatever was counted.
        None | Some("samples") if !own => Weight::Samples,
        _ => Weight::Other,
    };
    let mut reading = FirefoxReader {
        document: &document,
        looked_up: looked_up(&document, look_up),
        wanted,
        budget,
        weights,
        builder: ProfileBuilder::default(),
        losses: Losses::default(),
        total: 0,
        first_ms: first_ms(&document.threads),
        last_ms: f64::MIN,
        unnamed: BTreeMap::new(),
        places: KeyedMap::default(),
    };
    for (at, thread) in document.threads.iter().enumerate() {
        if printable(&event_of(thread)) == event {
            reading.thread(at, thread)?;
        } else {
            reading.losses.other_events += thread.samples.stack.len() as u64;
        }
    }
    if reading.total == 0 && reading.losses.left_out == 0 {
        return Err(TextError::Empty);
    }
    let about = About {
        format: "Firefox Profiler",
        sampling: Some(EventAbout {
            clock: weights == Weight::Milliseconds,
            bytes: weights == Weight::Bytes,
            with_callers: true,
            ..EventAbout::default()
        }),
        event,
        events,
        command: Some(printable(&document.meta.product)).filter(|name| !name.is_empty() && !own),
        duration_ns: reading.duration_ns().filter(|_| !own),
        ..About::default()
    };
    let unchecked = reading.looked_up.unchecked();
    let code = reading.code(look_up);
    let mut sampled = reading.builder.grown(reading.losses);
    sampled.unnamed = Unnamed::of_modules(reading.unnamed);
    sampled.unchecked = unchecked;
    sampled.code = code;
    Ok((about, sampled))
}

/// Returns the time of the first sample of all threads.
fn first_ms(threads: &[Thread]) -> f64 {
    let first = |thread: &Thread| {
        let Samples { time, time_deltas, .. } = &thread.samples;
        time.as_ref().or(time_deltas.as_ref())?.first().copied()
    };
    threads.iter().filter_map(first).fold(f64::MAX, f64::min)
}

struct FirefoxReader<'d> {
    document: &'d Document,
    wanted: &'d Wanted,
    budget: &'d Budget,
    weights: Weight,
    builder: ProfileBuilder,
    losses: Losses,
    total: u64,
    first_ms: f64,
    last_ms: f64,
    looked_up: LookedUpFiles,
    /// Samples in code without names, by module, and why.
    unnamed: BTreeMap<String, (Why, u64)>,
    /// The functions at each address of a file, outermost first, with its cost and samples.
    places: KeyedMap<(usize, u64), SampledAddress>,
}

/// An address with its cost.
struct SampledAddress {
    functions: Vec<u32>,
    cost: u64,
    samples: u64,
}

/// The functions at addresses for which the file has no names.
#[derive(Default)]
struct LookedUpFiles {
    /// By the file's number and the address.
    stacks: KeyedMap<(usize, u64), Vec<Function>>,
    /// By the file's number: its module, why its unnamed code has no names, and whether it is unchecked.
    files: BTreeMap<usize, (String, Option<Why>, bool)>,
}

impl LookedUpFiles {
    fn unchecked(&self) -> Vec<String> {
        let files = self.files.values().filter(|(.., unchecked)| *unchecked);
        files.map(|(module, ..)| module.clone()).collect()
    }
}

/// The time of the last sample.
fn recorded_at(document: &Document) -> Option<SystemTime> {
    let last_ms = |thread: &Thread| match (&thread.samples.time, &thread.samples.time_deltas) {
        (Some(time), _) => time.last().copied(),
        (None, Some(deltas)) => Some(deltas.iter().sum()),
        (None, None) => None,
    };
    let last_ms = document.threads.iter().filter_map(last_ms).fold(0.0, f64::max);
    let since = Duration::try_from_secs_f64((document.meta.start_time? + last_ms) / 1e3).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// Looks up the addresses of every thread, file by file.
fn looked_up(document: &Document, look_up: LookUp<'_>) -> LookedUpFiles {
    let mut found = LookedUpFiles::default();
    if document.meta.symbolicated != Some(false) {
        return found;
    }
    let mut asked: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for thread in &document.threads {
        let Some(view) = view(document, thread) else { continue };
        for frame in 0..view.frames.func.len() {
            if let Some((lib, address)) = view.address(frame).filter(|_| view.is_unnamed(frame)) {
                asked.entry(lib).or_default().insert(address);
            }
        }
    }
    let recorded_at = recorded_at(document);
    for (number, addresses) in asked {
        let Some(lib) = document.libs.get(number).filter(|lib| lib.is_file()) else { continue };
        let addresses: Vec<u64> = addresses.into_iter().collect();
        let places = FileAddresses::InMemory(&addresses);
        let LookedUp { stacks, why, unchecked } = look_up(&lib.file(), places, recorded_at);
        let module = stacks.iter().flatten().next().map(|function| function.module.clone());
        found.files.insert(number, (module.unwrap_or(printable(&lib.path)), why, unchecked));
        found.stacks.extend(addresses.into_iter().map(|at| (number, at)).zip(stacks));
    }
    found
}

/// Returns a thread's tables, its own or the shared ones; `None` if one is missing.
fn view<'d>(document: &'d Document, thread: &'d Thread) -> Option<View<'d>> {
    let (own, shared) = (&thread.tables, &document.shared);
    Some(View {
        strings: own.string_array.as_ref().or(shared.string_array.as_ref())?,
        stacks: own.stack_table.as_ref().or(shared.stack_table.as_ref())?,
        frames: own.frame_table.as_ref().or(shared.frame_table.as_ref())?,
        functions: own.func_table.as_ref().or(shared.func_table.as_ref())?,
        resources: own.resource_table.as_ref().or(shared.resource_table.as_ref()),
    })
}

/// The functions of a frame, outermost first, and whether they have names.
struct Known {
    functions: Vec<u32>,
    named: bool,
}

/// One thread's tables.
struct View<'d> {
    strings: &'d [String],
    stacks: &'d StackTable,
    frames: &'d FrameTable,
    functions: &'d FuncTable,
    resources: Option<&'d ResourceTable>,
}

impl View<'_> {
    /// Returns the number of a function's file.
    fn lib(&self, function: usize) -> Option<usize> {
        let resource = usize::try_from(self.functions.resource.get(function).copied()??).ok()?;
        usize::try_from(self.resources?.lib.get(resource).copied()??).ok()
    }

    /// Returns a frame's file and the address in that file.
    fn address(&self, frame: usize) -> Option<(usize, u64)> {
        let address = u64::try_from(self.frames.address.get(frame).copied()??).ok()?;
        Some((self.lib(*self.frames.func.get(frame)?)?, address))
    }

    /// Whether the frame's name is only an address.
    fn is_unnamed(&self, frame: usize) -> bool {
        let name = self.frames.func.get(frame).and_then(|row| self.functions.name.get(*row));
        name.and_then(|name| self.strings.get(*name)).is_some_and(|name| is_address(name))
    }
}

/// A resolved row of the table of stacks.
#[derive(Clone, Copy)]
struct Node {
    /// `None` for a stack that is deeper than `FRAMES_MAX`.
    context: Option<u32>,
    depth: usize,
    function: u32,
    inlined: bool,
    named: bool,
}

impl<'d> FirefoxReader<'d> {
    fn duration_ns(&self) -> Option<u64> {
        let ms = self.last_ms - self.first_ms;
        (ms > 0.0 && ms < 1e12).then_some((ms * 1e6) as u64)
    }

    fn thread(&mut self, number: usize, thread: &'d Thread) -> Result<(), TextError> {
        let samples = &thread.samples;
        if samples.stack.is_empty() {
            return Ok(());
        }
        let Some(view) = view(self.document, thread) else {
            let why = format!(
                "thread {number} has no table of stacks, frames, functions or strings: the format's \
                 version is one that is not known; save it with another version of the profiler"
            );
            return Err(TextError::Content(why));
        };
        let (command, pid, tid) = (
            printable(
                thread
                    .process_name
                    .as_ref()
                    .filter(|_| thread.name.is_empty())
                    .unwrap_or(&thread.name),
            ),
            thread.pid.as_ref().and_then(Number::value),
            thread.tid.as_ref().and_then(Number::value),
        );
        let mut nodes: Vec<Option<Node>> = vec![None; view.stacks.frame.len()];
        let mut functions: KeyedMap<usize, Known> = KeyedMap::default();
        let mut time_ms = 0.0;
        for (at, stack) in samples.stack.iter().enumerate() {
            let delta = |of: &Vec<f64>| of.get(at).copied().filter(|time| time.is_finite());
            let time = match (&samples.time, &samples.time_deltas) {
                (Some(time), _) => delta(time),
                (None, Some(deltas)) => delta(deltas).map(|delta| {
                    time_ms += delta;
                    time_ms
                }),
                (None, None) => None,
            };
            let weight = match &samples.weight {
                None => 1.0,
                Some(weights) => match weights.get(at) {
                    Some(weight) => weight.unwrap_or(0.0),
                    None => return Err(missing("weight", at, number)),
                },
            };
            if !(0.0..9e18).contains(&weight) {
                let why = format!(
                    "sample {at} of thread {number} has a weight of {weight}: it is a difference of two \
                     profiles, or broken; give both to opcost diff instead"
                );
                return Err(TextError::Content(why));
            }
            let (cost, count) = match self.weights {
                Weight::Samples => (weight as u64, weight as u64),
                Weight::Milliseconds => ((weight * 1e6).round() as u64, 0),
                Weight::Bytes | Weight::Other => (weight as u64, 0),
            };
            let node = match stack {
                None => None,
                Some(stack) => {
                    Some(self.node(*stack, number, &view, &mut nodes, &mut functions)?)
                }
            };
            let module =
                node.and_then(|node| self.builder.module(node.function).map(str::to_string));
            let since = time.map(|time| ((time - self.first_ms).max(0.0) * 1e6) as u64);
            let facts = Facts {
                command: Some(&command),
                pid,
                tid,
                module: module.as_deref(),
                time_ns: since,
            };
            if !self.wanted.filter.is_empty() && !self.wanted.filter.keeps(&facts) {
                self.losses.left_out += 1;
                continue;
            }
            // A sample without a stack was not taken: the thread waited.
            let Some(node) = node else { continue };
            if let Some(time) = time {
                self.last_ms = self.last_ms.max(time);
            }
            let beyond = || TextError::Content("its costs add up to more than 64 bits".into());
            self.total = self.total.checked_add(cost).ok_or_else(beyond)?;
            let context = match (node.context, stack) {
                (None, Some(stack)) => self.innermost(*stack, &view, &nodes),
                (context, _) => context,
            };
            self.builder.charge(context, cost, count, node.inlined);
            if let Some(stack) = stack {
                self.charge_place(*stack, &view, &functions, cost, count);
            }
            if !node.named {
                let module = module.unwrap_or_default();
                let why = || {
                    let files = &self.looked_up.files;
                    let file = files.values().find(|(path, ..)| *path == module);
                    file.and_then(|(_, why, _)| why.clone()).unwrap_or(Why::NotLookedUp)
                };
                let why = why();
                self.unnamed.entry(module).or_insert((why, 0)).1 += count;
            }
        }
        Ok(())
    }

    /// Charges the address of a sample.
    fn charge_place(
        &mut self,
        stack: usize,
        view: &View<'d>,
        functions: &KeyedMap<usize, Known>,
        cost: u64,
        samples: u64,
    ) {
        let frame = |row: usize| view.stacks.frame.get(row).copied();
        let Some(key) = frame(stack).and_then(|frame| view.address(frame)) else { return };
        let place = self.places.entry(key).or_insert_with(|| {
            // The rows of functions that are inlined there follow that of the function with the code.
            let is_inlined = |row: &usize| {
                let depth = frame(*row).and_then(|at| view.frames.inline_depth.get(at));
                depth.is_some_and(|depth| *depth > 0)
            };
            let mut rows = vec![stack];
            while rows.len() < FRAMES_MAX
                && let Some(row) = rows.last().copied().filter(is_inlined)
                && let Some(above) = view.stacks.prefix.get(row).copied().flatten()
            {
                rows.push(above);
            }
            let known = |row: usize| functions.get(&frame(row)?);
            let all = rows.into_iter().rev().filter_map(known);
            let functions = all.flat_map(|known| known.functions.iter().copied()).collect();
            SampledAddress { functions, cost: 0, samples: 0 }
        });
        place.cost = place.cost.saturating_add(cost);
        place.samples = place.samples.saturating_add(samples);
    }

    /// Returns the costs of addresses in files.
    fn code(&mut self, look_up: LookUp<'_>) -> CodeCosts {
        let mut code = CodeCosts { counted_from: CountedFrom::Memory, ..CodeCosts::default() };
        let mut numbers: BTreeMap<usize, Option<u32>> = BTreeMap::new();
        let mut places: Vec<_> = std::mem::take(&mut self.places).into_iter().collect();
        places.sort_unstable_by_key(|(key, _)| *key);
        for ((lib, offset), SampledAddress { functions, cost, samples }) in places {
            let file = *numbers.entry(lib).or_insert_with(|| {
                let lib = self.document.libs.get(lib).filter(|lib| lib.is_file())?;
                code.files.push(lib.file());
                // Libraries number no more than the bytes of a text in memory.
                Some(code.files.len() as u32 - 1)
            });
            if let (Some(file), Some((function, inlined))) = (file, functions.split_first()) {
                let (function, inlined) = (*function, inlined.to_vec());
                code.places.push(PlaceCost { file, offset, function, inlined, cost, samples });
            }
        }
        let recorded_at = recorded_at(self.document);
        code.leave_out(|file| is_other(file, recorded_at, look_up));
        code
    }

    /// Resolves a row of the table of stacks; its callers are earlier rows.
    fn node(
        &mut self,
        stack: usize,
        thread: usize,
        view: &View<'d>,
        nodes: &mut [Option<Node>],
        functions: &mut KeyedMap<usize, Known>,
    ) -> Result<Node, TextError> {
        let mut open = vec![stack];
        while let Some(at) = open.last().copied() {
            let known = nodes.get(at).ok_or_else(|| missing("stack", at, thread))?;
            if known.is_some() {
                open.pop();
                continue;
            }
            let prefix = *view
                .stacks
                .prefix
                .get(at)
                .ok_or_else(|| missing("prefix of stack", at, thread))?;
            let above = match prefix {
                None => None,
                Some(prefix) if prefix >= at => {
                    let why =
                        format!("stack {at} of thread {thread} stands before its caller {prefix}");
                    return Err(TextError::Content(why));
                }
                Some(prefix) => match nodes[prefix] {
                    Some(node) => Some(node),
                    None => {
                        open.push(prefix);
                        continue;
                    }
                },
            };
            let frame = view.stacks.frame[at];
            let Known { functions: numbers, named } = match functions.entry(frame) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(self.functions(frame, thread, view)?),
            };
            self.budget.step(ROW_BYTES * numbers.len() as u64)?;
            let depth = above.map_or(0, |node| node.depth) + numbers.len();
            let mut context = above.and_then(|node| node.context);
            if depth > FRAMES_MAX {
                context = None;
            } else {
                for number in &*numbers {
                    context = Some(self.builder.context(context, *number));
                }
            }
            let Some(function) = numbers.last().copied() else {
                return Err(missing("function", frame, thread));
            };
            let named = *named;
            let inlined = numbers.len() > 1
                || view.frames.inline_depth.get(frame).is_some_and(|depth| *depth > 0);
            nodes[at] = Some(Node { context, depth, function, inlined, named });
            open.pop();
        }
        nodes[stack].ok_or_else(|| missing("stack", stack, thread))
    }

    /// Returns the context of a deep stack's innermost frames.
    fn innermost(&mut self, stack: usize, view: &View<'d>, nodes: &[Option<Node>]) -> Option<u32> {
        self.losses.stacks_cut += 1;
        let prefix = |at: &usize| view.stacks.prefix.get(*at).copied().flatten();
        let rows = std::iter::successors(Some(stack), prefix).take(FRAMES_MAX);
        let functions = rows.filter_map(|at| Some(nodes.get(at)?.as_ref()?.function));
        let functions: Vec<u32> = functions.collect();
        let below = |at, function: &u32| Some(self.builder.context(at, *function));
        functions.iter().rev().fold(None, below)
    }

    /// Returns the functions of a frame.
    fn functions(
        &mut self,
        frame: usize,
        thread: usize,
        view: &View<'d>,
    ) -> Result<Known, TextError> {
        let row = *view.frames.func.get(frame).ok_or_else(|| missing("frame", frame, thread))?;
        let string = |at: usize| view.strings.get(at).ok_or_else(|| missing("string", at, thread));
        let name = *view.functions.name.get(row).ok_or_else(|| missing("function", row, thread))?;
        let name = string(name)?;
        let lib = view.lib(row).and_then(|lib| self.document.libs.get(lib));
        let resource = view.functions.resource.get(row).copied().flatten();
        let resource = resource.and_then(|at| usize::try_from(at).ok());
        let resource_name = resource.zip(view.resources).and_then(|(at, table)| table.name.get(at));
        let category = view.frames.category.get(frame).copied().flatten();
        let category = category.and_then(|at| self.document.meta.categories.get(at));
        let module = match (lib, resource_name) {
            (Some(lib), _) if !lib.path.is_empty() => lib.path.clone(),
            (Some(lib), _) => lib.name.clone(),
            (None, Some(name)) => string(*name)?.clone(),
            (None, None) => String::new(),
        };
        let in_kernel =
            category.is_some_and(|category| category.name.eq_ignore_ascii_case("kernel"));
        let module = match module.as_str() {
            "" if in_kernel => KERNEL.to_string(),
            name if name.starts_with("[kernel") => KERNEL.to_string(),
            name => printable(name),
        };
        // A name is an address if the profiler did not look the name up.
        let named = self.document.meta.symbolicated != Some(false) || !is_address(name);
        let found = view.address(frame).filter(|_| !named);
        if let Some(stack) = found.and_then(|place| self.looked_up.stacks.get(&place)) {
            let named = stack.iter().all(|function| !function.symbol.starts_with('['));
            let functions = stack.iter().map(|function| self.builder.function(function.clone()));
            return Ok(Known { functions: functions.collect(), named });
        }
        let symbol = if named { demangle(name) } else { Why::NotLookedUp.symbol().to_string() };
        let number = self.builder.function(Function::new(symbol, &module));
        Ok(Known { functions: vec![number], named })
    }
}

fn missing(what: &str, at: usize, thread: usize) -> TextError {
    TextError::Content(format!(
        "{what} {at} of thread {thread} is not in its tables, so the file is broken"
    ))
}

fn is_address(name: &str) -> bool {
    name.strip_prefix("0x").is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

#[cfg(test)]
#[path = "firefox_tests.rs"]
mod tests;
