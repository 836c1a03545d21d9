//! Reads pprof's profiles: a protocol buffer, gzipped on disk
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto> has the fields' numbers).

use super::about::{About, EventAbout};
use super::protobuf::{Fields, Value, numbers};
use super::stack::FRAMES_MAX;
use super::text::TextError;
use super::{LookUp, is_other};
use crate::code_costs::{CodeCosts, LineCost, PlaceCost};
use crate::losses::Losses;
use crate::space::{CodeFile, CodeKind};
use crate::symbolise::{FileAddresses, ProfileBuilder, Sampled, Unnamed, Why};
use opcost_record::profile::KERNEL;
use opcost_record::{Function, Module};
use opcost_symbols::demangle::{demangle, printable};
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::Budget;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The most functions at one address: one, and those inlined there.
const LINES_MAX: usize = 256;
/// The memory of a context: a sample of some bytes may name many.
const FRAME_BYTES: u64 = 128;

/// Whether bytes look like a profile of pprof: the first fields fit, and there is binary data.
pub fn is_pprof(bytes: &[u8]) -> bool {
    let fits = |field: u64, value: &Value<'_>| match field {
        1..=6 | 11 => value.bytes().is_some(),
        7..=10 | 12 | 14 => value.number().is_some(),
        13 => *value != Value::Fixed,
        15 => value.number().is_some(),
        _ => false,
    };
    let mut fields = Fields::of(bytes).take(3);
    let is_binary = bytes.iter().take(256).any(|byte| *byte < 9);
    is_binary
        && fields.next().is_some_and(|first| first.is_ok_and(|(field, value)| fits(field, &value)))
        && fields.all(|field| field.is_ok_and(|(field, value)| fits(field, &value)))
}

/// A sample type.
#[derive(Clone, Copy, Default)]
struct Type {
    name: u64,
    unit: u64,
}

/// A mapped binary.
#[derive(Clone, Copy, Default)]
struct Mapping {
    start: u64,
    end: u64,
    /// The place of the start in the file, bytes.
    offset: u64,
    file: u64,
    build_id: u64,
}

/// An address: its binary, and its functions with their lines, the innermost first.
struct Location {
    address: u64,
    mapping: u64,
    functions: Vec<(u64, u64)>,
}

/// A function by its names.
#[derive(Clone, Copy, Default)]
struct Names {
    name: u64,
    system_name: u64,
    file: u64,
}

/// The profile as stored, with numbers in place of strings.
#[derive(Default)]
struct Raw<'b> {
    types: Vec<Type>,
    samples: Vec<&'b [u8]>,
    /// Binaries by identifier, and the first one's file, which is the program.
    mappings: KeyedMap<u64, Mapping>,
    program: Option<u64>,
    locations: KeyedMap<u64, Location>,
    functions: KeyedMap<u64, Names>,
    strings: Vec<&'b [u8]>,
    /// The time when the recording began, since 1970.
    time_ns: u64,
    duration_ns: u64,
    period_type: Type,
    period: u64,
    default_type: u64,
}

/// Reads unpacked bytes.
///
/// `event`: the wanted sample type; `None` is the profile's default, or else its last one, as in pprof
/// itself; `look_up`: finds the functions at addresses that the profile's writer left to the reader; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: bytes of another format, a reference to a missing entry, no such sample type; more than the budget.
pub fn read(
    bytes: &[u8],
    event: Option<&str>,
    look_up: LookUp<'_>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let raw = Raw::of(bytes, budget)?;
    let names: Vec<String> =
        raw.types.iter().map(|one| raw.string(one.name)).collect::<Result<_, _>>()?;
    let default = raw.string(raw.default_type)?;
    let chosen = match event {
        Some(wanted) => names.iter().position(|name| name == wanted),
        None => names.iter().position(|name| *name == default && !name.is_empty()),
    };
    let chosen = match (chosen, event) {
        (Some(chosen), _) => chosen,
        (None, Some(wanted)) => return Err(TextError::no_event(wanted, &names)),
        (None, None) => names.len().checked_sub(1).ok_or(TextError::Empty)?,
    };
    let unit = raw.string(raw.types[chosen].unit)?;
    let (factor, is_bytes) = match nanoseconds(&unit) {
        Some(factor) => (Some(factor), false),
        None => (bytes_of(&unit), bytes_of(&unit).is_some()),
    };
    // The number of samples is a sample type of its own, or follows from the period.
    let counted = |at: &usize| {
        names[*at] == "samples" && raw.string(raw.types[*at].unit).is_ok_and(|unit| unit == "count")
    };
    let counts = (0..names.len()).find(counted);
    let same = raw.string(raw.period_type.name)? == names[chosen]
        && raw.string(raw.period_type.unit)? == unit;
    // With a period of 1 each event was counted, and none was sampled.
    let period = Some(raw.period).filter(|period| *period > 1 && same);
    let mut reading = PprofReader {
        raw: &raw,
        builder: ProfileBuilder::default(),
        numbers: KeyedMap::default(),
        looked_up: KeyedMap::default(),
        whys: BTreeMap::new(),
        unchecked: Vec::new(),
        unnamed: BTreeMap::new(),
        own: KeyedMap::default(),
        losses: Losses::default(),
    };
    reading.look_up(look_up, budget)?;
    let mut all_cost: u64 = 0;
    let mut all_samples: u64 = 0;
    for (at, sample) in raw.samples.iter().enumerate() {
        let (mut locations, mut values) = (Vec::new(), Vec::new());
        for field in Fields::of(sample) {
            match field? {
                (1, value) => numbers(value, &mut |number| locations.push(number))?,
                (2, value) => numbers(value, &mut |number| values.push(number as i64))?,
                _ => {}
            }
        }
        let figure = |of: usize| figure(at, &values, names.len(), of);
        let value = figure(chosen)?;
        let beyond = || TextError::Content("its costs add up to more than 64 bits".into());
        let cost = value.checked_mul(factor.unwrap_or(1)).ok_or_else(beyond)?;
        let samples = match (counts, period) {
            (Some(counts), _) => figure(counts)?,
            (None, Some(period)) => value / period,
            (None, None) => 0,
        };
        if cost == 0 && samples == 0 {
            continue;
        }
        all_cost = all_cost.checked_add(cost).ok_or_else(beyond)?;
        all_samples = all_samples.checked_add(samples).ok_or_else(beyond)?;
        let frames = reading.sample(&locations, cost, samples)?;
        budget.step(sample.len() as u64 + frames * FRAME_BYTES)?;
    }
    if all_cost == 0 {
        return Err(TextError::Empty);
    }
    let about = About {
        format: "pprof",
        sampling: Some(EventAbout {
            clock: factor.is_some() && !is_bytes,
            bytes: is_bytes,
            period: period.and_then(|period| period.checked_mul(factor.unwrap_or(1))),
            with_callers: true,
            ..EventAbout::default()
        }),
        event: names[chosen].clone(),
        events: names,
        duration_ns: Some(raw.duration_ns).filter(|duration| *duration > 0),
        ..About::default()
    };
    Ok((about, reading.finish(look_up)?))
}

/// Returns a time unit in nanoseconds; `None` for other units.
fn nanoseconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "nanoseconds" | "nanosecond" | "ns" => 1,
        "microseconds" | "microsecond" | "us" => 1_000,
        "milliseconds" | "millisecond" | "ms" => 1_000_000,
        "seconds" | "second" | "s" => 1_000_000_000,
        _ => return None,
    })
}

/// Returns a unit of memory in bytes, by the names that pprof knows; `None` for other units.
fn bytes_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "bytes" | "byte" | "b" | "B" => 1,
        "kilobytes" | "kilobyte" | "kb" | "kB" => 1 << 10,
        "megabytes" | "megabyte" | "mb" | "MB" => 1 << 20,
        "gigabytes" | "gigabyte" | "gb" | "GB" => 1 << 30,
        _ => return None,
    })
}

/// Returns one value of a sample.
fn figure(at: usize, values: &[i64], types: usize, of: usize) -> Result<u64, TextError> {
    if values.len() != types {
        let found = values.len();
        let why =
            format!("its sample {} has {found} values, and there are {types} sample types", at + 1);
        return Err(TextError::Content(why));
    }
    u64::try_from(values[of]).map_err(|_| {
        TextError::Content(format!(
            "its sample {} has a cost of {}: it is a difference of two profiles; give both to opcost \
             diff instead",
            at + 1,
            values[of]
        ))
    })
}

impl<'b> Raw<'b> {
    fn of(bytes: &'b [u8], budget: &Budget) -> Result<Raw<'b>, TextError> {
        let mut raw = Raw::default();
        for field in Fields::of(bytes) {
            let field = field?;
            budget.step(field.1.bytes().map_or(0, <[u8]>::len) as u64 + 2)?;
            match field {
                (1, Value::Bytes(message)) => raw.types.push(value_type(message)?),
                (2, Value::Bytes(message)) => raw.samples.push(message),
                (3, Value::Bytes(message)) => {
                    let (mut id, mut mapping) = (0, Mapping::default());
                    each(message, |field, number| match field {
                        1 => id = number,
                        2 => mapping.start = number,
                        3 => mapping.end = number,
                        4 => mapping.offset = number,
                        5 => mapping.file = number,
                        6 => mapping.build_id = number,
                        _ => {}
                    })?;
                    raw.program = raw.program.or(Some(mapping.file));
                    raw.mappings.insert(id, mapping);
                }
                (4, Value::Bytes(message)) => raw.location(message)?,
                (5, Value::Bytes(message)) => {
                    let (mut id, mut names) = (0, Names::default());
                    each(message, |field, number| match field {
                        1 => id = number,
                        2 => names.name = number,
                        3 => names.system_name = number,
                        4 => names.file = number,
                        _ => {}
                    })?;
                    raw.functions.insert(id, names);
                }
                (6, Value::Bytes(string)) => raw.strings.push(string),
                (9, Value::Number(number)) => raw.time_ns = number.min(i64::MAX as u64),
                (10, Value::Number(number)) => raw.duration_ns = number.min(i64::MAX as u64),
                (11, Value::Bytes(message)) => raw.period_type = value_type(message)?,
                (12, Value::Number(number)) => {
                    raw.period = u64::try_from(number as i64).unwrap_or(0);
                }
                (14, Value::Number(number)) => raw.default_type = number,
                _ => {}
            }
        }
        if raw.strings.first().is_some_and(|first| !first.is_empty()) {
            let why = "the first string of its table is not empty, so it is no pprof profile";
            return Err(TextError::Content(why.into()));
        }
        Ok(raw)
    }

    fn location(&mut self, message: &'b [u8]) -> Result<(), TextError> {
        let (mut id, mut location) =
            (0, Location { address: 0, mapping: 0, functions: Vec::new() });
        for field in Fields::of(message) {
            match field? {
                (1, Value::Number(number)) => id = number,
                (2, Value::Number(number)) => location.mapping = number,
                (3, Value::Number(number)) => location.address = number,
                (4, Value::Bytes(line)) => {
                    let mut found = (0, 0);
                    each(line, |field, number| match field {
                        1 => found.0 = number,
                        2 => found.1 = number,
                        _ => {}
                    })?;
                    location.functions.push(found);
                }
                _ => {}
            }
        }
        if location.functions.len() > LINES_MAX {
            let why =
                format!("its location {id} has more than {LINES_MAX} functions, so it is broken");
            return Err(TextError::Content(why));
        }
        self.locations.insert(id, location);
        Ok(())
    }

    /// The time of the last sample.
    fn recorded_at(&self) -> Option<SystemTime> {
        let recorded_ns = self.time_ns.saturating_add(self.duration_ns);
        let since = Some(recorded_ns).filter(|_| self.time_ns > 0).map(Duration::from_nanos)?;
        SystemTime::UNIX_EPOCH.checked_add(since)
    }

    fn string(&self, number: u64) -> Result<String, TextError> {
        // Number 0 is the empty string; a profile without any string has no names.
        if number == 0 {
            return Ok(String::new());
        }
        let found = usize::try_from(number).ok().and_then(|number| self.strings.get(number));
        let missing = || {
            let all = self.strings.len();
            TextError::Cut(format!("it refers to string {number} of {all}"))
        };
        Ok(printable(&String::from_utf8_lossy(found.ok_or_else(missing)?)))
    }
}

/// Calls `take` with the field and value of each number in a message.
fn each(message: &[u8], mut take: impl FnMut(u64, u64)) -> Result<(), TextError> {
    for field in Fields::of(message) {
        if let (field, Value::Number(number)) = field? {
            take(field, number);
        }
    }
    Ok(())
}

fn value_type(message: &[u8]) -> Result<Type, TextError> {
    let mut found = Type::default();
    each(message, |field, number| match field {
        1 => found.name = number,
        2 => found.unit = number,
        _ => {}
    })?;
    Ok(found)
}

/// The state of reading the samples.
struct PprofReader<'r, 'b> {
    raw: &'r Raw<'b>,
    builder: ProfileBuilder,
    /// The functions of a location, outermost first, and whether each is inlined.
    numbers: KeyedMap<u64, Vec<(u32, bool)>>,
    /// The functions of locations that the profile does not name, outermost first.
    looked_up: KeyedMap<u64, Vec<Function>>,
    /// Why code of a module that was looked up has no names.
    whys: BTreeMap<String, Why>,
    /// Modules that no build id confirms.
    unchecked: Vec<String>,
    /// Samples in code without names, by module.
    unnamed: BTreeMap<String, u64>,
    /// The cost and samples of each location by itself.
    own: KeyedMap<u64, (u64, u64)>,
    losses: Losses,
}

impl PprofReader<'_, '_> {
    /// Looks up the addresses that have no function, file by file.
    fn look_up(&mut self, look_up: LookUp<'_>, budget: &Budget) -> Result<(), TextError> {
        let raw = self.raw;
        let mut asked: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for (id, location) in raw.locations.iter().filter(|(_, one)| one.functions.is_empty()) {
            let Some(mapping) = raw.mappings.get(&location.mapping) else { continue };
            if (mapping.start..mapping.end).contains(&location.address) {
                budget.step(FRAME_BYTES)?;
                let offset = (location.address - mapping.start).wrapping_add(mapping.offset);
                asked.entry(location.mapping).or_default().push((offset, *id));
            }
        }
        let recorded_at = raw.recorded_at();
        for (mapping, mut places) in asked {
            let Some((module, file)) = self.file(mapping)? else { continue };
            places.sort_unstable();
            let offsets: Vec<u64> = places.iter().map(|(offset, _)| *offset).collect();
            let found = look_up(&file, FileAddresses::OnDisk(&offsets), recorded_at);
            for ((_, id), stack) in places.into_iter().zip(found.stacks) {
                self.looked_up.insert(id, stack);
            }
            self.whys.extend(found.why.map(|why| (module.clone(), why)));
            if found.unchecked {
                self.unchecked.push(module);
            }
        }
        Ok(())
    }

    /// Adds a sample, and returns the number of its frames.
    fn sample(&mut self, locations: &[u64], cost: u64, samples: u64) -> Result<u64, TextError> {
        // The leaf comes first; a deep stack loses its outermost frames.
        let mut depth = 0;
        let mut kept = 0;
        for id in locations {
            if !self.numbers.contains_key(id) {
                let functions = self.functions(*id)?;
                self.numbers.insert(*id, functions);
            }
            depth += self.numbers[id].len();
            if depth > FRAMES_MAX {
                self.losses.stacks_cut += 1;
                break;
            }
            kept += 1;
        }
        let (mut at, mut inlined) = (None, false);
        for (function, is_inlined) in
            locations[..kept].iter().rev().flat_map(|id| &self.numbers[id])
        {
            at = Some(self.builder.context(at, *function));
            inlined = *is_inlined;
        }
        self.builder.charge(at, cost, samples, inlined);
        if let Some(leaf) = locations.first() {
            let own = self.own.entry(*leaf).or_default();
            *own = (own.0.saturating_add(cost), own.1.saturating_add(samples));
        }
        let leaf = locations.first().and_then(|id| self.raw.locations.get(id));
        if let Some(leaf) = leaf.filter(|leaf| leaf.functions.is_empty()) {
            let named = self.looked_up.get(&locations[0]).and_then(|stack| stack.first());
            if named.is_none_or(|function| function.symbol.starts_with('[')) {
                let module = self.module(leaf.mapping)?.unwrap_or_default();
                *self.unnamed.entry(module).or_default() += samples;
            }
        }
        Ok(depth as u64)
    }

    /// Returns the functions of a location, outermost first.
    fn functions(&mut self, id: u64) -> Result<Vec<(u32, bool)>, TextError> {
        let raw = self.raw;
        let missing = |what: &str, id: u64| TextError::Cut(format!("{what} {id} is not in it"));
        let location = raw.locations.get(&id).ok_or_else(|| missing("location", id))?;
        let module = self.module(location.mapping)?;
        if let Some(stack) = self.looked_up.get(&id).filter(|stack| !stack.is_empty()) {
            let numbered = stack.iter().enumerate();
            let builder = &mut self.builder;
            return Ok(numbered
                .map(|(at, function)| (builder.function(function.clone()), at > 0))
                .collect());
        }
        if location.functions.is_empty() {
            let function = Function::new("[text]", module.unwrap_or_default());
            return Ok(vec![(self.builder.function(function), false)]);
        }
        let mut found = Vec::with_capacity(location.functions.len());
        for (at, (id, _)) in location.functions.iter().rev().enumerate() {
            let names = raw.functions.get(id).ok_or_else(|| missing("function", *id))?;
            let (name, file) = (raw.string(names.name)?, raw.string(names.file)?);
            let name = if name.is_empty() { raw.string(names.system_name)? } else { name };
            let name = if name.is_empty() { "[text]".into() } else { demangle(&name) };
            // Without a binary, the source file is all that is known of a function's place.
            let module = match &module {
                Some(module) => module.clone(),
                None => file,
            };
            found.push((self.builder.function(Function::new(name, module)), at > 0));
        }
        Ok(found)
    }

    /// Returns the file of a mapping with code of a program or library, and its path.
    fn file(&self, mapping: u64) -> Result<Option<(String, CodeFile)>, TextError> {
        let Some(path) = self.module(mapping)?.filter(|path| path.starts_with('/')) else {
            return Ok(None);
        };
        let build_id = self.raw.string(self.raw.mappings[&mapping].build_id)?;
        let bytes = path.clone().into_bytes();
        let file = CodeFile { kind: CodeKind::File, path: bytes, build_id: hex(&build_id) };
        Ok(Some((path, file)))
    }

    /// Returns the costs of addresses and lines.
    fn code(&self, look_up: LookUp<'_>) -> Result<CodeCosts, TextError> {
        let raw = self.raw;
        let mut code = CodeCosts::default();
        let mut files: KeyedMap<u64, Option<u32>> = KeyedMap::default();
        let mut sources: KeyedMap<u64, u32> = KeyedMap::default();
        let mut own: Vec<_> = self.own.iter().collect();
        own.sort_unstable_by_key(|(id, _)| **id);
        for (id, (cost, samples)) in own {
            let (cost, samples) = (*cost, *samples);
            let (Some(location), Some(functions)) = (raw.locations.get(id), self.numbers.get(id))
            else {
                continue;
            };
            let Some(((function, _), inlined)) = functions.split_first() else { continue };
            let (function, inlined) = (*function, inlined.iter().map(|(number, _)| *number));
            if let Some((names, line)) = location.functions.last()
                && let Ok(line @ 1..) = u32::try_from(*line)
                && let Some(names) = raw.functions.get(names).filter(|names| names.file > 0)
            {
                let source = match sources.get(&names.file) {
                    Some(known) => *known,
                    None => {
                        code.sources.push(raw.string(names.file)?);
                        // Strings number no more than the bytes of a file in memory.
                        *sources.entry(names.file).or_insert(code.sources.len() as u32 - 1)
                    }
                };
                let inlined = inlined.clone().next();
                code.lines.push(LineCost { function, inlined, source, line, cost, samples });
            }
            let Some(mapping) = raw.mappings.get(&location.mapping) else { continue };
            if !(mapping.start..mapping.end).contains(&location.address) {
                continue;
            }
            let file = match files.get(&location.mapping) {
                Some(known) => *known,
                None => {
                    let number = code.files.len() as u32;
                    let found = self.file(location.mapping)?;
                    let found = found.map(|(_, file)| code.files.push(file)).map(|()| number);
                    *files.entry(location.mapping).or_insert(found)
                }
            };
            let offset = (location.address - mapping.start).wrapping_add(mapping.offset);
            code.places.extend(file.map(|file| {
                let inlined = inlined.collect();
                PlaceCost { file, offset, function, inlined, cost, samples }
            }));
        }
        let recorded_at = raw.recorded_at();
        code.leave_out(|file| is_other(file, recorded_at, look_up));
        Ok(code)
    }

    /// Returns the file of a mapping; `None` if there is none.
    fn module(&self, mapping: u64) -> Result<Option<String>, TextError> {
        let Some(mapping) = self.raw.mappings.get(&mapping) else { return Ok(None) };
        let file = self.raw.string(mapping.file)?;
        Ok(Some(if file.starts_with("[kernel") { KERNEL.into() } else { file }))
    }

    fn finish(self, look_up: LookUp<'_>) -> Result<Sampled, TextError> {
        let code = self.code(look_up)?;
        // The first mapping is the program's.
        let program = self.raw.program.map(|file| self.raw.string(file)).transpose()?;
        let program = program.filter(|path| !path.is_empty());
        let module = |path| Module { path, program: true, ..Module::default() };
        let unnamed = self.unnamed.into_iter().filter(|(_, samples)| *samples > 0);
        let unnamed = unnamed.map(|(module, samples)| {
            let why = self.whys.get(&module).cloned().unwrap_or(Why::Stripped);
            Unnamed { module, why, samples }
        });
        let mut sampled = self.builder.grown(self.losses);
        sampled.profile.modules = program.map(module).into_iter().collect();
        sampled.unnamed = unnamed.collect();
        sampled.unchecked = self.unchecked;
        sampled.code = code;
        Ok(sampled)
    }
}

/// Parses a build id in hexadecimal digits; `None` for other identifiers, such as Go's.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let whole = plain && digits.len().is_multiple_of(2);
    if whole { digits.chunks(2).map(byte).collect() } else { None }
}

#[cfg(test)]
#[path = "pprof_tests.rs"]
mod tests;
