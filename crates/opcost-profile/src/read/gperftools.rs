//! Reads gperftools' CPU profiles (<https://gperftools.github.io/gperftools/cpuprofile-fileformat.html>): stacks of addresses in
//! words of the recorded machine, and the text of its `/proc/PID/maps`; also what `pprof --raw` made of one, with its names.

use super::LookUp;
use super::about::{About, EventAbout};
use super::stack::{Placed, Stacks, functions};
use super::text::TextError;
use crate::space::{CodeFile, CodeKind};
use crate::symbolise::{FileAddresses, LookedUp, Sampled, Unnamed, Why};
use opcost_record::Function;
use opcost_symbols::demangle::{demangle, printable};
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::Budget;
use std::collections::{BTreeMap, BTreeSet};

/// The first line of a profile with names.
const SYMBOLS: &[u8] = b"--- symbol\n";
/// The line behind which the profile begins in such a file.
const PROFILE: &[u8] = b"--- profile\n";
/// The version of profiles of Java.
const JAVA: u64 = 1;
/// The distance between two of Java's frames, which are numbers, once they are addresses: calls return behind themselves.
const JAVA_FRAME_BYTES: u64 = 16;
/// The event's name.
const CPU: &str = "cpu";

/// The words of a file.
#[derive(Clone, Copy)]
struct Words<'b> {
    bytes: &'b [u8],
    size: usize,
    is_big: bool,
}

impl<'b> Words<'b> {
    /// The words of a profile; `None` if its header is another.
    fn of(bytes: &'b [u8]) -> Option<Words<'b>> {
        let sizes = [(8, false), (4, false), (8, true), (4, true)];
        let mut all = sizes.into_iter().map(|(size, is_big)| Words { bytes, size, is_big });
        // No sample, the words of the header behind this one, the version, and the period in microseconds.
        all.find(|words| {
            let head = [0, 1, 2, 3].map(|at| words.word(at));
            let [Some(0), Some(3..=64), Some(0 | JAVA), Some(period_us)] = head else {
                return false;
            };
            (1..=10_000_000).contains(&period_us)
        })
    }

    fn word(&self, at: usize) -> Option<u64> {
        let start = at.checked_mul(self.size)?;
        let bytes = self.bytes.get(start..start.checked_add(self.size)?)?;
        let number = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(match self.is_big {
            true => bytes.iter().fold(0, number),
            false => bytes.iter().rev().fold(0, number),
        })
    }
}

/// Whether bytes look like a profile of gperftools.
pub fn is_gperftools(bytes: &[u8]) -> bool {
    bytes.starts_with(SYMBOLS) || Words::of(bytes).is_some()
}

/// A mapped file.
struct Mapped<'t> {
    start: u64,
    end: u64,
    /// The address of the file's first byte.
    base: u64,
    path: &'t str,
}

/// Reads `/proc/PID/maps`: the files that are mapped.
fn mapped(text: &str) -> Vec<Mapped<'_>> {
    let line = |line| -> Option<Mapped<'_>> {
        let mut fields = str::splitn(line, 6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let offset = fields.nth(1)?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
        let path = fields.nth(2)?.trim_start();
        let base = start.wrapping_sub(offset);
        (path.starts_with('/') && start < end).then_some(Mapped { start, end, base, path })
    };
    let mut bases: KeyedMap<&str, u64> = KeyedMap::default();
    let mut found: Vec<Mapped<'_>> = text.lines().filter_map(line).collect();
    for one in &found {
        // A file's first part tells where all of it begins.
        let base = bases.entry(one.path).or_insert(one.base);
        *base = one.base.min(*base);
    }
    found.iter_mut().for_each(|one| one.base = bases[one.path]);
    found.sort_by_key(|one| one.start);
    found
}

/// A stack of addresses, the innermost first.
pub(super) struct Stack {
    pub(super) cost: u64,
    pub(super) samples: u64,
    /// The place that cost, and the places behind the calls to it.
    pub(super) addresses: Vec<u64>,
}

/// Reads the bytes.
///
/// `event`: the event that is wanted; `look_up`: finds the functions at a file's addresses; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: bytes of another form, another event, no samples; more than the budget.
pub fn read(
    bytes: &[u8],
    event: Option<&str>,
    look_up: LookUp<'_>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    if let Some(wanted) = event.filter(|wanted| *wanted != CPU) {
        return Err(TextError::no_event(wanted, &[CPU.to_string()]));
    }
    let (names, bytes) = match bytes.strip_prefix(SYMBOLS) {
        Some(rest) => {
            let place = rest.windows(PROFILE.len()).position(|window| window == PROFILE);
            let place =
                place.ok_or_else(|| TextError::Cut("no profile follows its symbols".into()))?;
            (symbols(&String::from_utf8_lossy(&rest[..place])), &rest[place + PROFILE.len()..])
        }
        None => (KeyedMap::default(), bytes),
    };
    let other = || TextError::Content("its header is not that of a CPU profile".into());
    let words = Words::of(bytes).ok_or_else(other)?;
    let word = |at: usize| {
        words.word(at).ok_or_else(|| TextError::Cut(format!("at word {at}, within its samples")))
    };
    let period_ns = word(3)? * 1000;
    let unit = if word(2)? == JAVA { JAVA_FRAME_BYTES } else { 1 };
    let mut at = 2 + usize::try_from(word(1)?).unwrap_or(usize::MAX);
    let mut all = Vec::new();
    loop {
        let (samples, depth) = (word(at)?, word(at + 1)?);
        at += 2;
        // No sample at one address, 0, is the end.
        if samples == 0 && depth == 1 && word(at)? == 0 {
            at += 1;
            break;
        }
        let left = (bytes.len() / words.size).saturating_sub(at) as u64;
        if depth > left {
            return Err(TextError::Cut(format!("a stack of {depth} addresses at word {at}")));
        }
        budget.step(8 * depth + 32)?;
        let address = |at| word(at).map(|address| address.wrapping_mul(unit));
        let addresses = (at..at + depth as usize).map(address).collect::<Result<_, _>>()?;
        at += depth as usize;
        let cost = samples.checked_mul(period_ns).ok_or_else(other)?;
        all.push(Stack { cost, samples, addresses });
    }
    let maps = String::from_utf8_lossy(bytes.get(at * words.size..).unwrap_or_default());
    let names = if unit == 1 { names } else { java_frames(&maps) };
    let about = About {
        format: "gperftools",
        sampling: Some(EventAbout {
            clock: true,
            period: Some(period_ns),
            with_callers: true,
            ..EventAbout::default()
        }),
        event: CPU.into(),
        events: vec![CPU.into()],
        ..About::default()
    };
    added_up(&all, &maps, &names, about, look_up, budget)
}

/// Adds stacks up, with the functions at their addresses.
///
/// `maps`: the text of the program's `/proc/PID/maps`; `names`: functions, outermost first, that the profile itself names by address.
pub(super) fn added_up(
    all: &[Stack],
    maps: &str,
    names: &KeyedMap<u64, Vec<Function>>,
    about: About,
    look_up: LookUp<'_>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let maps = mapped(maps);
    let mut named = Named { maps: &maps, names, files: BTreeMap::new() };
    named.look_up(all, look_up);
    let mut stacks = Stacks::new(budget);
    let mut unnamed: BTreeMap<String, (Why, u64)> = BTreeMap::new();
    for Stack { cost, samples, addresses } in all {
        let mut numbers = Vec::new();
        let mut is_inlined = false;
        for (depth, address) in addresses.iter().enumerate().rev() {
            let functions = named.functions(place(depth, *address));
            is_inlined = functions.len() > 1;
            if let (0, Some((why, module))) = (depth, named.missing(place(0, *address), &functions))
            {
                let entry = unnamed.entry(module).or_insert((why, 0));
                entry.1 = entry.1.saturating_add(*samples);
            }
            numbers.extend(functions.into_iter().map(|function| stacks.function(function)));
        }
        stacks.add(&numbers, *cost, *samples, is_inlined)?;
    }
    let unchecked = named.unchecked();
    let (about, mut sampled) = stacks.finish(about)?;
    sampled.unnamed = Unnamed::of_modules(unnamed);
    sampled.unchecked = unchecked;
    Ok((about, sampled))
}

/// The address of the code itself: a caller's address is that behind its call.
fn place(depth: usize, address: u64) -> u64 {
    if depth == 0 { address } else { address.saturating_sub(1) }
}

/// The names of `pprof --raw`: `0x55cc3897417c inner--outer<0x1139>`.
fn symbols(text: &str) -> KeyedMap<u64, Vec<Function>> {
    let line = |line: &str| {
        let (address, names) = line.strip_prefix("0x")?.split_once(' ')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        // The address of the function's first instruction stands behind its name.
        let is_address = |text: &str| {
            let digits = text.strip_suffix('>').unwrap_or_default();
            digits.len() > 7 && u64::from_str_radix(digits, 16).is_ok()
        };
        let function = |whole| {
            let name = str::split_once(whole, '<').filter(|(_, rest)| is_address(rest));
            Function::new(demangle(name.map_or(whole, |(name, _)| name)), "")
        };
        let names = names.split("--").filter(|name| !name.is_empty());
        let mut functions: Vec<Function> = names.map(function).collect();
        functions.reverse();
        (!functions.is_empty()).then_some((address, functions))
    };
    text.lines().filter_map(line).collect()
}

/// The frames of Java by their numbers: `0x00000003 Work.scan (Work.java:7)`.
fn java_frames(text: &str) -> KeyedMap<u64, Vec<Function>> {
    let line = |line| {
        let (number, name) = str::trim(line).strip_prefix("0x")?.split_once(' ')?;
        Some((u64::from_str_radix(number, 16).ok()?, Placed::of(name.trim())))
    };
    let (numbers, placed): (Vec<u64>, Vec<Placed<'_>>) = text.lines().filter_map(line).unzip();
    let numbers = numbers.into_iter().map(|number| number.wrapping_mul(JAVA_FRAME_BYTES));
    numbers.zip(functions(&placed).into_iter().map(|function| vec![function])).collect()
}

/// The functions at addresses.
struct Named<'t> {
    maps: &'t [Mapped<'t>],
    names: &'t KeyedMap<u64, Vec<Function>>,
    /// By path: the addresses asked for, and what was found.
    files: BTreeMap<&'t str, (Vec<u64>, LookedUp)>,
}

impl<'t> Named<'t> {
    fn mapped(&self, address: u64) -> Option<&'t Mapped<'t>> {
        let behind = self.maps.partition_point(|one| one.start <= address);
        self.maps.get(behind.checked_sub(1)?).filter(|one| address < one.end)
    }

    fn look_up(&mut self, stacks: &[Stack], look_up: LookUp<'_>) {
        let mut asked: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        let addresses = stacks.iter().flat_map(|stack| stack.addresses.iter().enumerate());
        for (depth, address) in addresses {
            if let Some(one) = self.mapped(place(depth, *address)) {
                let offset = place(depth, *address).wrapping_sub(one.base);
                asked.entry(one.path).or_default().insert(offset);
            }
        }
        for (path, offsets) in asked {
            let bytes = path.as_bytes().to_vec();
            let file = CodeFile { kind: CodeKind::File, path: bytes, build_id: None };
            let offsets: Vec<u64> = offsets.into_iter().collect();
            let found = look_up(&file, FileAddresses::InMemory(&offsets), None);
            self.files.insert(path, (offsets, found));
        }
    }

    /// The functions at an address, outermost first.
    fn functions(&self, address: u64) -> Vec<Function> {
        // The names stand at the addresses as the profile has them.
        let known = self.names.get(&address).or(self.names.get(&(address + 1)));
        if let Some(known) = known {
            return known.clone();
        }
        let found = self.mapped(address).and_then(|one| {
            let (asked, found) = self.files.get(one.path)?;
            let at = asked.binary_search(&address.wrapping_sub(one.base)).ok()?;
            Some((one, found.stacks.get(at).cloned().unwrap_or_default()))
        });
        match found {
            Some((_, stack)) if !stack.is_empty() => stack,
            Some((one, _)) => vec![Function::new("[text]", printable(one.path))],
            None => vec![Function::new(Why::Unmapped.symbol(), "")],
        }
    }

    /// Why the functions at an address have no names, and their module.
    fn missing(&self, address: u64, functions: &[Function]) -> Option<(Why, String)> {
        if functions.iter().any(|function| !function.symbol.starts_with('[')) {
            return None;
        }
        let one = self.mapped(address)?;
        let why = self.files.get(one.path)?.1.why.clone().unwrap_or(Why::Stripped);
        Some((why, functions.first()?.module.clone()))
    }

    fn unchecked(&self) -> Vec<String> {
        let files = self.files.iter().filter(|(_, (_, found))| found.unchecked);
        files.map(|(path, _)| printable(path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FunctionTable;
    use std::time::SystemTime;

    fn file(words: &[u64], size: usize, is_big: bool, maps: &str) -> Vec<u8> {
        let word = |word: &u64| match (size, is_big) {
            (8, false) => word.to_le_bytes().to_vec(),
            (8, true) => word.to_be_bytes().to_vec(),
            (_, false) => (*word as u32).to_le_bytes().to_vec(),
            (_, true) => (*word as u32).to_be_bytes().to_vec(),
        };
        [words.iter().flat_map(word).collect(), maps.as_bytes().to_vec()].concat()
    }

    const WORDS: &[u64] =
        &[0, 3, 0, 10_000, 0, 2, 2, 0x1010, 0x2021, 1, 1, 0x2020, 3, 1, 0x9999, 0, 1, 0];
    const MAPS: &str = "00001000-00002000 r-xp 00001000 08:01 7    /bin/my work\n00002000-00003000 r-xp 00000000 08:01 8 /lib/b.so\n\
                        00007000-00008000 rw-p 00000000 00:00 0 \n";

    fn looked_up(file: &CodeFile, addresses: FileAddresses<'_>, _: Option<SystemTime>) -> LookedUp {
        let path = String::from_utf8_lossy(&file.path).into_owned();
        let name = |at: &u64| vec![Function::new(format!("f{at:x}"), &path)];
        LookedUp {
            stacks: addresses.places().iter().map(name).collect(),
            why: None,
            unchecked: true,
        }
    }

    fn rows(bytes: &[u8]) -> Result<Vec<(String, String, u64)>, String> {
        let (_, sampled) =
            read(bytes, None, &looked_up, &Budget::default()).map_err(|error| error.to_string())?;
        let table = FunctionTable::of(&sampled);
        let row = |cost: &crate::table::FunctionCost| {
            (cost.function.symbol.clone(), cost.function.module.clone(), cost.own)
        };
        Ok(table.functions.iter().map(row).collect())
    }

    #[test]
    fn words_of_every_machine_are_read() {
        let row = |name: &str, module: &str, ms: u64| {
            (name.to_string(), module.to_string(), ms * 1_000_000)
        };
        let expected = [
            row("[unmapped]", "", 30),
            row("f1010", "/bin/my work", 20),
            // One function below, as the call returns behind it.
            row("f20", "/lib/b.so", 10),
        ];
        for (size, is_big) in [(8, false), (4, false), (8, true), (4, true)] {
            let bytes = file(WORDS, size, is_big, MAPS);
            assert!(is_gperftools(&bytes));
            assert_eq!(rows(&bytes).unwrap(), expected, "{size} {is_big}");
        }
        let bytes = file(WORDS, 8, false, MAPS);
        let (about, sampled) = read(&bytes, Some(CPU), &looked_up, &Budget::default()).unwrap();
        assert_eq!(about.sampling.unwrap().period, Some(10_000_000));
        assert_eq!(sampled.samples_known(), Some(6));
        assert_eq!(sampled.unchecked, ["/bin/my work", "/lib/b.so"]);
    }

    #[test]
    fn names_beside_the_profile_are_used() {
        let head = b"--- symbol\nbinary=work\n0x1010 inner--outer<00000000000009>\n0x2021 main\n---\n--- profile\n";
        let bytes = [head.to_vec(), file(WORDS, 8, false, "")].concat();
        let (_, sampled) = read(&bytes, None, &looked_up, &Budget::default()).unwrap();
        let names: Vec<&str> =
            sampled.profile.functions.iter().map(|one| one.symbol.as_str()).collect();
        assert_eq!(names, ["main", "outer", "inner", "[unmapped]"]);
        let inlined: Vec<u64> = sampled.facts.iter().map(|facts| facts.inlined_samples).collect();
        assert_eq!(inlined, [0, 0, 2, 0]);
    }

    #[test]
    fn frames_of_java_are_numbers_with_names() {
        let words = [0, 3, 1, 10_000, 0, 0, 1, 2, 3, 2, 3, 4, 1, 1, 4, 0, 1, 0];
        let names =
            "\n 0x00000002 GC\n 0x00000003 Work.scan (Work.java:7)\n0x4 Work.main (Work.java:1)\n";
        let row = |name: &str, ms: u64| (name.to_string(), "Work.java".to_string(), ms * 1_000_000);
        let bytes = file(&words, 4, false, names);
        assert!(is_gperftools(&bytes));
        assert_eq!(rows(&bytes).unwrap(), [row("Work.scan", 30), row("Work.main", 10)]);
    }

    #[test]
    fn a_cut_file_is_named_as_such() {
        let bytes = file(WORDS, 8, false, "");
        for end in 40..bytes.len() - 8 {
            assert!(rows(&bytes[..end]).unwrap_err().contains("cut short"), "{end}");
        }
        let mut words = WORDS.to_vec();
        words[6] = u64::MAX >> 8;
        assert!(rows(&file(&words, 8, false, "")).unwrap_err().contains("a stack of"));
        words = WORDS.to_vec();
        words[5] = u64::MAX;
        assert!(rows(&file(&words, 8, false, "")).is_err());
        assert!(rows(b"--- symbol\n0x1 a\n").unwrap_err().contains("no profile follows"));
        let (none, _) = (file(&[0, 3, 0, 10_000, 0, 0, 1, 0], 8, false, MAPS), ());
        assert_eq!(rows(&none).unwrap_err(), TextError::Empty.to_string());
    }
}
