//! Tests of perf.data files; `tests/data/record` makes the files that are read here.

use super::super::ReadError;
use super::*;
use crate::symbolise::{KernelSource, Sampled, Sources, Why, symbolise};
use crate::table::{FunctionCost, FunctionTable};
use opcost_symbols::{debug_files, elf};
use opcost_sys::budget::LIMIT_BYTES;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

fn data(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

fn read_bytes(bytes: &[u8], event: Option<&str>) -> Result<(About, Recorded), PerfDataError> {
    let wanted = Wanted { event: event.map(str::to_string), ..Wanted::default() };
    read(Cursor::new(bytes), bytes.len() as u64, &wanted, &nothing(), &Budget::default())
}

/// Sources without any names.
fn nothing() -> Sources {
    Sources {
        kernel: KernelSource::Nothing,
        debug_files: "/nonexistent".into(),
        build_id_cache: None,
        inlined: false,
        limit_bytes: LIMIT_BYTES,
    }
}

/// Puts a program beside the recordings into a cache like perf's; returns its folder and sources.
fn kept(program: &str) -> (tempfile::TempDir, Sources) {
    let folder = tempfile::tempdir().unwrap();
    let program = data(program);
    let id = elf::build_id(&program).unwrap().unwrap();
    let place: PathBuf = debug_files::by_build_id(folder.path(), id).unwrap();
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("elf"), &program).unwrap();
    let sources = Sources {
        debug_files: folder.path().into(),
        build_id_cache: Some(folder.path().into()),
        ..nothing()
    };
    (folder, sources)
}

/// Names a recording by the program beside the recordings alone.
fn named(recorded: &Recorded) -> Sampled {
    let (_folder, sources) = kept("busy");
    symbolise(recorded, &sources)
}

/// Counts samples by stack, innermost first.
fn stacks(sampled: &Sampled) -> BTreeMap<Vec<String>, u64> {
    let Sampled { profile, samples, .. } = sampled;
    let mut stacks = BTreeMap::new();
    for (at, samples) in samples.iter().enumerate().filter(|(_, samples)| **samples > 0) {
        let mut stack = Vec::new();
        let mut next = Some(at as u32);
        while let Some(at) = next {
            let context = &profile.contexts[at as usize];
            stack.push(profile.functions[context.function as usize].symbol.clone());
            next = context.parent;
        }
        *stacks.entry(stack).or_default() += samples;
    }
    stacks
}

#[test]
fn copied_stacks_are_unwound_through_signal_frames() {
    let (_folder, sources) = kept("deep");
    let bytes = data("deep.data");
    let (about, recorded) = read(
        Cursor::new(&bytes[..]),
        bytes.len() as u64,
        &Wanted::default(),
        &sources,
        &Budget::default(),
    )
    .unwrap();
    assert!(about.sampling.unwrap().with_callers);
    let found = stacks(&symbolise(&recorded, &sources));
    let mut expected = BTreeMap::new();
    let (mut cut, text) = (0, String::from_utf8(data("deep.script")).unwrap());
    for sample in text.split("\n\n") {
        let frame = |line: &str| line.split_whitespace().nth(1).map(str::to_string);
        let mut stack: Vec<String> = sample.lines().filter_map(frame).collect();
        // perf goes astray in the signal frame, and shows a word from behind the end of the copy.
        if stack.get(1).is_some_and(|caller| caller == "handler") {
            stack.truncate(2);
            stack.extend(["signal_return", "faulting", "interrupted", "_start"].map(String::from));
        } else if stack.last().is_some_and(|outermost| outermost == "[unknown]") {
            stack.pop();
            cut += 1;
        }
        if !stack.is_empty() {
            *expected.entry(stack).or_insert(0) += 1;
        }
    }
    assert_eq!(found, expected);
    assert!(found.keys().any(|stack| stack.contains(&"signal_return".to_string())));
    let losses = &recorded.losses;
    assert_eq!((losses.stacks_beyond_copy, losses.stacks_astray), (cut, 0));
    assert_eq!((losses.stacks_not_unwound, losses.unmapped_callers), (0, 0));
    // Without the program, unwinding finds no callers; the losses count this.
    let (_, recorded) = read_bytes(&bytes, None).unwrap();
    assert!(recorded.losses.stacks_astray + recorded.losses.stacks_beyond_copy > 0);
}

/// Returns the samples of the program's functions as `perf report` counted them.
fn reported(report: &str) -> Vec<(String, u64)> {
    let text = String::from_utf8(data(report)).unwrap();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [share, samples, "busy", "[.]", symbol, ..] if share.ends_with('%') => {
                Some((symbol.to_string(), samples.parse().unwrap()))
            }
            _ => None,
        }
    };
    text.lines().filter_map(row).collect()
}

fn samples_of(sampled: &Sampled, module: &str) -> Vec<(String, u64)> {
    let table = FunctionTable::of(sampled);
    let own = table.functions.iter().filter(|cost| cost.function.module == module && cost.own > 0);
    own.map(|cost| (cost.function.symbol.clone(), cost.samples.unwrap())).collect()
}

#[test]
fn functions_have_the_samples_that_perf_reports() {
    let (about, recorded) = read_bytes(&data("plain.data"), None).unwrap();
    assert_eq!((about.event.as_str(), about.host.as_deref()), ("cpu-clock", Some("recorder")));
    let sampling = about.sampling.unwrap();
    assert!(sampling.clock && sampling.with_callers);
    assert_eq!((sampling.frequency_hz, sampling.precise), (Some(2000), None));
    assert!(about.command.unwrap().ends_with("/opt/work/busy 120"));
    let sampled = named(&recorded);
    let text = String::from_utf8(data("plain.report")).unwrap();
    let all = format!("# Samples: {}  of event 'cpu-clock'", sampled.samples_total());
    assert!(text.contains(&all), "{all}");
    assert!(text.contains(&format!("(approx.): {}\n", sampled.profile.total())));
    let mut found = samples_of(&sampled, "/opt/work/busy");
    let mut expected = reported("plain.report");
    assert!(expected.iter().any(|(symbol, _)| symbol == "leaf"));
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    // Each caller must be a function that calls this one.
    let table = FunctionTable::of(&sampled);
    let is_leaf = |cost: &FunctionCost| cost.function.symbol == "leaf";
    let leaf = table.functions.iter().position(is_leaf).unwrap();
    let callers: Vec<&str> = table
        .callers(leaf)
        .filter_map(|edge| Some(table.functions[edge.caller?].function.symbol.as_str()))
        .collect();
    // `middle` has no side effects, so the compiler calls it once, before the loop.
    assert!(callers.contains(&"recursive"), "{callers:?}");
    assert!(callers.iter().all(|caller| ["middle", "recursive", "main"].contains(caller)));
}

#[test]
fn the_text_of_perf_script_says_the_same() {
    let (_, recorded) = read_bytes(&data("plain.data"), None).unwrap();
    let text = String::from_utf8(data("plain.script")).unwrap();
    let (about, script) =
        super::super::perf_script::read(&text, &Wanted::default(), &Budget::default()).unwrap();
    let sampled = named(&recorded);
    assert_eq!(about.event, "cpu-clock");
    assert_eq!(samples_of(&script, "/opt/work/busy"), samples_of(&sampled, "/opt/work/busy"));
    assert_eq!(script.samples_total(), sampled.samples_total());
    assert_eq!(script.profile.total(), sampled.profile.total());
}

#[test]
fn piped_and_compressed_files_are_read() {
    for name in ["piped.data", "compressed.data"] {
        let (about, recorded) = read_bytes(&data(name), None).unwrap();
        assert_eq!(about.event, "cpu-clock", "{name}");
        let table = FunctionTable::of(&named(&recorded));
        assert_eq!(table.functions.iter().map(|cost| cost.own).sum::<u64>(), table.total);
        let own = |cost: &&crate::table::FunctionCost| cost.function.module == "/opt/work/busy";
        assert!(table.functions.iter().filter(own).any(|cost| cost.own > 0), "{name}");
        assert_eq!(recorded.losses.unmapped_samples, 0, "{name}");
    }
}

#[test]
fn a_folder_that_several_threads_wrote_is_one_recording() {
    let (_folder, sources) = kept("busy");
    let recording =
        |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let read =
        |name: &str| super::super::read(&recording(name), &Wanted::default(), &sources).unwrap();
    let profile = read("threads.data");
    let sampled = profile.sampled.as_ref().unwrap();
    let mut found = samples_of(sampled, "/opt/work/busy");
    let mut expected = reported("threads.report");
    assert!(expected.len() > 1);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let text = String::from_utf8(data("threads.report")).unwrap();
    assert!(text.contains(&format!("# Samples: {} ", sampled.samples_total())), "{text}");
    // Here each file is compressed by itself.
    let sampled = read("threads-z.data").sampled.unwrap();
    assert!(sampled.samples_total() > 0);
    assert_eq!((sampled.losses.unmapped_samples, sampled.losses.damage.records), (0, 0));
    // A folder without a file `data` is refused.
    let error =
        super::super::read(&recording(""), &Wanted::default(), &sources).unwrap_err().to_string();
    assert!(error.contains("is a folder without a file 'data'"), "{error}");
    let copy = tempfile::tempdir().unwrap();
    fs::write(copy.path().join("data"), data("threads.data/data")).unwrap();
    let part = data("threads.data/data.0");
    fs::write(copy.path().join("data.0"), &part[..part.len() - 3]).unwrap();
    let error = super::super::read(copy.path(), &Wanted::default(), &sources).unwrap_err();
    assert!(matches!(error, ReadError::PerfData { .. }), "{error:?}");
    let lengths = format!("{} bytes are announced, {} are there", part.len(), part.len() - 3);
    assert!(error.to_string().contains("/data.0: it was cut short"), "{error}");
    assert!(error.to_string().contains(&lengths), "{error}");
}

/// Merging a folder's files piece by piece gives the same order as a sort of all records.
#[test]
fn the_records_of_a_folder_come_in_the_order_of_time() {
    let first = data("threads.data/data");
    let sample = |time_ns: u64, pid: u32| -> Vec<u8> {
        // Address, thread, time, CPU's number and period, as the recording's samples have them;
        // nothing reads what is behind.
        let mut bytes = vec![0; 8];
        bytes[..4].copy_from_slice(&record::SAMPLE.to_le_bytes());
        bytes.extend(0xffff_ffff_8100_0000u64.to_le_bytes());
        bytes.extend(pid.to_le_bytes().repeat(2));
        bytes.extend(time_ns.to_le_bytes());
        bytes.resize(1024, 0);
        bytes[6..8].copy_from_slice(&1024u16.to_le_bytes());
        bytes
    };
    let budget = Budget::default();
    let header = Header::read(&mut Cursor::new(&first[..]), first.len() as u64, &budget).unwrap();
    assert_eq!(header.events[0].sample_time_at(), Some(16), "the layout above");
    let mut random = 7u64;
    let mut parts: Vec<Vec<(u64, u32)>> = vec![Vec::new(); 3];
    for number in 0..6000u64 {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // One file has most of the records; neighbours in a file may be swapped.
        let part = [0, 0, 0, 0, 1, 2][(random >> 40) as usize % 6];
        parts[part].push((1_000_000 + number * 10 + (random >> 50) % 40, number as u32 + 1));
    }
    let bytes = |part: &Vec<(u64, u32)>| -> Vec<u8> {
        part.iter().flat_map(|(time_ns, pid)| sample(*time_ns, *pid)).collect()
    };
    let files: Vec<Vec<u8>> = parts.iter().map(bytes).collect();
    let (wanted, sources) = (Wanted::default(), nothing());
    let mut reading = PerfDataReader::new(header, &wanted, &sources, &budget).unwrap();
    reading.in_rounds = false;
    let read_bytes = Cell::new(0);
    let part = |(number, file): (u32, &'_ Vec<u8>)| {
        let counted = Counted { file: Cursor::new(file.clone()), bytes: &read_bytes };
        Part::new(Some(number), Box::new(counted), 0, Some(file.len() as u64))
    };
    let (mut given, mut held_bytes_max) = (Vec::new(), 0);
    let merged = reading.merge((0..).zip(&files).map(part).collect(), |reading, due| {
        let pid = u32::from_le_bytes(due.bytes[16..20].try_into().unwrap());
        given.push((time_ns(&reading.header.events[0], record::SAMPLE, due.bytes), pid));
        held_bytes_max = held_bytes_max.max(read_bytes.get() - given.len() * 1024);
    });
    assert!(merged.is_ok());
    let mut expected: Vec<(u64, u32)> = parts.concat();
    expected.sort_by_key(|(time_ns, _)| *time_ns);
    assert_eq!(given, expected);
    let total: usize = files.iter().map(Vec::len).sum();
    // The reader holds two pieces of each file and what its stream has read ahead.
    assert!(held_bytes_max <= 3 * files.len() * PIECE_BYTES, "{held_bytes_max} of {total}");
    assert!(total > 2 * held_bytes_max, "{held_bytes_max} of {total}");
}

/// 20,000 events with 50 identifiers each, and an update of each: looking through all identifiers for each takes 10 billion steps.
#[test]
fn events_are_found_by_identifier_without_looking_through_all() {
    const EVENTS: u64 = 20_000;
    let record = |kind: u32, body: &[u8]| {
        let bytes = (8 + body.len()) as u16;
        [&kind.to_le_bytes()[..], &[0, 0], &bytes.to_le_bytes(), body].concat()
    };
    let words =
        |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut attributes = [0; 136];
    attributes[..8].copy_from_slice(&[1, 0, 0, 0, 136, 0, 0, 0]);
    attributes[24..32].copy_from_slice(&0x107u64.to_le_bytes());
    let mut bytes = [&MAGIC[..], &words(&[16])].concat();
    for event in 0..EVENTS {
        let ids: Vec<u64> = (0..50).map(|id| event * 50 + id).collect();
        bytes.extend(record(record::HEADER_ATTR, &[&attributes[..], &words(&ids)].concat()));
    }
    for event in 0..EVENTS {
        let name = format!("event-{event:08}\0\0");
        let update = [&words(&[2, event * 50 + 49])[..], name.as_bytes()].concat();
        bytes.extend(record(record::EVENT_UPDATE, &update));
    }
    let sample = [words(&[0x1000]), words(&[0x1_0000_0001, 1, 1])].concat();
    bytes.extend(record(record::SAMPLE, &sample));
    let last = format!("event-{:08}", EVENTS - 1);
    let (about, _) = read_bytes(&bytes, Some(&last)).unwrap();
    assert_eq!(about.events.len() as u64, EVENTS);
    assert_eq!(about.event, last);
}

/// A file that counts the bytes read of it.
struct Counted<'b> {
    file: Cursor<Vec<u8>>,
    bytes: &'b Cell<usize>,
}

impl Read for Counted<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(to)?;
        self.bytes.set(self.bytes.get() + read);
        Ok(read)
    }
}

#[test]
fn a_broken_record_of_a_folder_is_in_one_of_its_files() {
    let (_folder, sources) = kept("busy");
    let copy = tempfile::tempdir().unwrap();
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/threads.data");
    let mut broken = None;
    for entry in fs::read_dir(recording).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let mut bytes = data(&format!("threads.data/{name}"));
        let samples = |bytes: &[u8]| -> Vec<usize> {
            let places = records_from(bytes, 0, bytes.len()).into_iter();
            places.filter(|(_, kind)| *kind == record::SAMPLE).map(|(at, _)| at).collect()
        };
        if name == "data.1" {
            let at = samples(&bytes)[0];
            // This sample ends before its fields do.
            bytes[at + 6..at + 8].copy_from_slice(&16u16.to_le_bytes());
            bytes.drain(at + 16..);
            broken = Some(at as u64);
        }
        fs::write(copy.path().join(name), bytes).unwrap();
    }
    let profile = super::super::read(copy.path(), &Wanted::default(), &sources).unwrap();
    let damage = profile.sampled.unwrap().losses.damage;
    let place = damage.first_at.unwrap();
    assert_eq!((place.file, Some(place.at)), (Some(1), broken));
    assert_eq!(place.to_string(), format!("byte {} of data.1", place.at));
}

#[test]
fn each_event_of_a_group_has_its_part_of_the_samples() {
    let text = String::from_utf8(data("group.script")).unwrap();
    for event in ["cpu-clock", "page-faults", "context-switches"] {
        let (about, recorded) = read_bytes(&data("group.data"), Some(event)).unwrap();
        assert_eq!(about.event, event);
        let leader = about.sampling.unwrap().counted_with;
        assert_eq!(leader.as_deref(), (event != "cpu-clock").then_some("cpu-clock"));
        let (mut samples, mut costs) = (0, BTreeMap::<String, u64>::new());
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [period, of, _, symbol, module] = words[..] else { panic!("{line}") };
            if of.strip_suffix(':') == Some(event) {
                samples += 1;
                if module.ends_with("/busy)") {
                    *costs.entry(symbol.into()).or_default() += period.parse::<u64>().unwrap();
                }
            }
        }
        let sampled = named(&recorded);
        assert_eq!(sampled.samples_total(), samples, "{event}");
        let table = FunctionTable::of(&sampled);
        let own = table.functions.iter().filter(|cost| cost.own > 0);
        let own = own.filter(|cost| cost.function.module == "/opt/work/busy");
        let found: BTreeMap<String, u64> =
            own.map(|cost| (cost.function.symbol.clone(), cost.own)).collect();
        assert_eq!(found, costs, "{event}");
    }
}

#[test]
fn samples_are_chosen_as_perf_chooses_them() {
    let text = String::from_utf8(data("plain.script")).unwrap();
    let all = named(&read_bytes(&data("plain.data"), None).unwrap().1).samples_total();
    let only = |filters: &[&str]| {
        let mut wanted = Wanted::default();
        filters.iter().for_each(|filter| wanted.filter.add(filter).unwrap());
        let bytes = data("plain.data");
        let (_, recorded) = read(
            Cursor::new(&bytes[..]),
            bytes.len() as u64,
            &wanted,
            &nothing(),
            &Budget::default(),
        )
        .unwrap();
        let left_out = recorded.losses.left_out;
        let kept: u64 = recorded.tree.nodes().iter().map(|node| node.samples).sum();
        assert_eq!(kept + left_out, all, "{filters:?}");
        if !filters[0].starts_with("pid") {
            let (_, script) =
                super::super::perf_script::read(&text, &wanted, &Budget::default()).unwrap();
            assert_eq!(script.samples_total(), kept, "{filters:?}");
            assert_eq!(script.losses.left_out, left_out, "{filters:?}");
        }
        kept
    };
    let heads: Vec<&str> = text.lines().filter(|line| line.contains("cpu-clock")).collect();
    let tid = heads.last().unwrap().split_whitespace().nth(1).unwrap();
    let of_thread = heads.iter().filter(|line| line.split_whitespace().nth(1) == Some(tid)).count();
    assert_eq!(only(&[&format!("tid={tid}")]), of_thread as u64);
    assert_eq!(only(&[&format!("pid={tid}")]), of_thread as u64);
    let busy = heads.iter().filter(|line| line.starts_with("busy")).count() as u64;
    assert_eq!(only(&["comm=busy"]), busy);
    assert_eq!(only(&["comm=nobody"]), 0);
    let parts = ["dso=busy", "dso=[kernel]", "dso=libc.so.6", "dso=ld-linux-x86-64.so.2"];
    let parts = parts.map(|filter| only(&[filter]));
    assert!(parts[0] > 0 && parts[1] > 0 && parts.iter().sum::<u64>() <= all, "{parts:?}");
    let (early, late) = (only(&["time=..0.05"]), only(&["time=0.050000001.."]));
    assert!(early > 0 && late > 0 && early + late == all, "{early} {late}");
}

#[test]
fn an_event_is_chosen_by_name() {
    let (about, clock) = read_bytes(&data("events.data"), None).unwrap();
    assert_eq!(about.events, ["task-clock:u", "page-faults"]);
    assert_eq!(about.event, "task-clock:u");
    let (about, faults) = read_bytes(&data("events.data"), Some("page-faults")).unwrap();
    let sampling = about.sampling.unwrap();
    assert_eq!((sampling.period, sampling.precise, sampling.exact), (Some(100_000), None, true));
    let samples = |recorded: &Recorded| -> u64 {
        recorded.tree.nodes().iter().map(|node| node.samples).sum()
    };
    assert_eq!(clock.losses.other_events, samples(&faults));
    assert_eq!(faults.losses.other_events, samples(&clock));
    assert!(read_bytes(&data("events.data"), Some("task-clock")).is_ok());
    let error = read_bytes(&data("events.data"), Some("cycles")).unwrap_err().to_string();
    assert_eq!(error, "it has no event cycles; it has task-clock:u, page-faults");
}

#[test]
fn the_first_event_with_samples_is_shown() {
    let whole = data("events.data");
    let length = whole.len() as u64;
    let header = Header::read(&mut Cursor::new(&whole), length, &Budget::default()).unwrap();
    let fault = header.events[1].ids[0];
    let samples = records(&whole).into_iter().filter(|(_, kind)| *kind == record::SAMPLE);
    let samples: Vec<usize> = samples.map(|(at, _)| at).collect();
    // The event's identifier is behind address, thread and time.
    let with_faults = |which: &dyn Fn(usize) -> bool| {
        let mut bytes = whole.clone();
        for (_, at) in samples.iter().enumerate().filter(|(index, _)| which(*index)) {
            bytes[at + 32..at + 40].copy_from_slice(&fault.to_le_bytes());
        }
        bytes
    };
    let read = |bytes: &[u8], event: Option<&str>| {
        let (about, recorded) = read_bytes(bytes, event).unwrap();
        (about, stacks(&named(&recorded)), recorded.losses)
    };
    // The first samples are faults; the clock's samples are all there nevertheless.
    let mixed = with_faults(&|index| index % 2 == 0);
    let (shown, clock) = (read(&mixed, None), read(&mixed, Some("task-clock:u")));
    assert_eq!((&shown.0.event, &shown.0.without_samples), (&"task-clock:u".into(), &vec![]));
    assert_eq!(shown, clock);
    assert_eq!(shown.2.other_events as usize, samples.len().div_ceil(2));
    let faults = read(&with_faults(&|_| true), None);
    assert_eq!(
        (faults.0.event, faults.0.without_samples),
        ("page-faults".into(), vec!["task-clock:u".into()])
    );
    assert_eq!((faults.1, faults.2.other_events), (read(&whole, None).1, 0));
    // Without any sample the first event stays.
    let mut none = whole.clone();
    samples.iter().for_each(|at| none[*at] = 39);
    let none = read(&none, None);
    assert_eq!((none.0.event, none.0.without_samples), ("task-clock:u".into(), vec![]));
    assert!(none.1.is_empty());
}

/// The same recording as of a 32-bit kernel: its addresses lose their upper halves, in mappings, samples and chains.
#[test]
fn a_kernel_of_32_bits_is_a_kernel() {
    let whole = data("plain.data");
    let mut bytes = whole.clone();
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let narrow = |bytes: &mut [u8], at: usize| {
        let address = word(bytes, at);
        if (KERNEL_HALF..CONTEXT_MAX).contains(&address) {
            bytes[at..at + 8].copy_from_slice(&(address & 0xffff_ffff).to_le_bytes());
        }
    };
    for (at, kind) in records(&whole) {
        match kind {
            record::MMAP if word(&whole, at + 8) as u32 == u32::MAX => {
                [16, 32].iter().for_each(|field| narrow(&mut bytes, at + field));
            }
            record::SAMPLE => {
                let size = usize::from(u16::from_le_bytes([whole[at + 6], whole[at + 7]]));
                // The address is first; the chain is at the end.
                (8..16).chain(40..size).step_by(8).for_each(|field| narrow(&mut bytes, at + field));
            }
            _ => {}
        }
    }
    assert_ne!(bytes, whole);
    let [narrow, wide] = [&bytes, &whole].map(|bytes| read_bytes(bytes, None).unwrap().1);
    assert_eq!(narrow.kernel_reference, wide.kernel_reference);
    assert_eq!(narrow.losses, wide.losses);
    let places = |recorded: &Recorded| recorded.tree.places().to_vec();
    assert_eq!(places(&narrow), places(&wide));
    assert_eq!(stacks(&named(&narrow)), stacks(&named(&wide)));
}

#[test]
fn events_that_perf_sums_up_at_the_end_are_lost_once() {
    let whole = data("plain.data");
    let samples: Vec<usize> = records(&whole)
        .into_iter()
        .filter(|(_, kind)| *kind == record::SAMPLE)
        .map(|(at, _)| at)
        .collect();
    let lost = |changes: &[(u32, u64, u8)]| {
        let mut bytes = whole.clone();
        for (at, (kind, lost, time)) in samples.iter().zip(changes) {
            let size = usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
            bytes[*at..at + 4].copy_from_slice(&kind.to_le_bytes());
            bytes[at + 8..at + size].fill(*time);
            let place = if *kind == record::LOST { at + 16 } else { at + 8 };
            bytes[place..place + 8].copy_from_slice(&lost.to_le_bytes());
        }
        read_bytes(&bytes, None).unwrap().1.losses.lost_events
    };
    let (of_kernel, of_perf) = (record::LOST, record::LOST_SAMPLES);
    assert_eq!(lost(&[(of_kernel, 7, 1), (of_kernel, 3, 1)]), 10);
    // perf sums up per CPU, and knows what was lost behind the kernel's last record.
    assert_eq!(lost(&[(of_kernel, 7, 1), (of_kernel, 3, 1), (of_perf, 8, 0), (of_perf, 6, 0)]), 14);
    // The processor's own losses are no others' sum.
    assert_eq!(lost(&[(of_kernel, 7, 1), (of_perf, 5, 1), (of_perf, 7, 0)]), 12);
}

#[test]
fn code_that_cannot_be_named_says_why() {
    let (_, recorded) = read_bytes(&data("plain.data"), None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let sources = Sources {
        kernel: KernelSource::Running,
        debug_files: folder.path().into(),
        build_id_cache: None,
        inlined: false,
        limit_bytes: LIMIT_BYTES,
    };
    let sampled = symbolise(&recorded, &sources);
    let own = sampled.unnamed.iter().find(|unnamed| unnamed.module == "/opt/work/busy");
    // The program exists only where the recordings were just made.
    if let Some(own) = own {
        assert!(matches!(own.why, Why::Gone | Why::OtherBuild), "{own:?}");
    }
    let (_, mut changed) = read_bytes(&data("plain.data"), None).unwrap();
    for file in &mut changed.files {
        file.build_id = Some(vec![5; 20]);
    }
    let sampled = symbolise(&changed, &sources);
    let modules: Vec<&str> =
        sampled.unnamed.iter().map(|unnamed| unnamed.module.as_str()).collect();
    assert!(modules.contains(&"/opt/work/busy"), "{modules:?}");
    // No function gets a name, whatever files exist.
    let named = sampled.profile.functions.iter().find(|one| !one.symbol.starts_with('['));
    let kernel_has_id = crate::symbolise::running_build_id().is_some();
    if kernel_has_id {
        assert_eq!(named, None);
    }
}

#[test]
fn what_perf_did_not_finish_is_read_up_to_there() {
    let mut bytes = data("plain.data");
    let start = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let size = u64::from_le_bytes(bytes[48..56].try_into().unwrap()) as usize;
    bytes[48..56].fill(0);
    bytes.truncate(start + size - 100);
    let (about, recorded) = read_bytes(&bytes, None).unwrap();
    assert!(about.unfinished);
    assert!(recorded.tree.nodes().iter().any(|node| node.samples > 0));
}

#[test]
fn damage_is_named() {
    let bytes = data("plain.data");
    let fault = |bytes: &[u8]| read_bytes(bytes, None).unwrap_err();
    assert!(matches!(fault(&bytes[..bytes.len() / 2]), PerfDataError::CutShort { .. }));
    assert!(matches!(fault(&bytes[..50]), PerfDataError::CutShort { .. }));
    assert!(matches!(fault(b"PERFILE"), PerfDataError::Foreign));
    assert!(matches!(fault(b""), PerfDataError::Foreign));
    let swapped = [&MAGIC_BIG_ENDIAN[..], &bytes[8..]].concat();
    assert!(matches!(fault(&swapped), PerfDataError::BigEndian));
    let mut no_records = bytes.clone();
    let [start, length] =
        [40..48, 48..56].map(|place| u64::from_le_bytes(bytes[place].try_into().unwrap()) as usize);
    no_records[start..start + length].fill(0);
    assert!(matches!(fault(&no_records), PerfDataError::Broken { at, .. } if at == start as u64));
    let mut no_address = bytes.clone();
    let attributes = u64::from_le_bytes(bytes[24..32].try_into().unwrap()) as usize;
    no_address[attributes + 24] &= !1;
    assert!(matches!(fault(&no_address), PerfDataError::NoAddress { .. }));
    let piped = data("piped.data");
    assert!(matches!(fault(&piped[..piped.len() - 4]), PerfDataError::CutShort { .. }));
    let compressed = data("compressed.data");
    let mut wrong = compressed.clone();
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    let at = wrong.windows(4).position(|bytes| bytes == magic).unwrap();
    wrong[at] = 0;
    assert!(matches!(fault(&wrong), PerfDataError::Compressed { .. }));
}

/// Returns the places and kinds of a file's records.
fn records(bytes: &[u8]) -> Vec<(usize, u32)> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    records_from(bytes, word(40), word(40) + word(48))
}

fn records_from(bytes: &[u8], mut at: usize, end: usize) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    while at < end {
        found.push((at, u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())));
        at += usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
    }
    found
}

#[test]
fn a_broken_record_costs_itself() {
    let at = |at: usize| Some(RecordPlace { file: None, at: at as u64 });
    let whole = data("plain.data");
    let all = named(&read_bytes(&whole, None).unwrap().1).samples_total();
    let samples: Vec<usize> =
        records(&whole).into_iter().filter(|(_, kind)| *kind == 9).map(|(at, _)| at).collect();
    let mut bytes = whole.clone();
    for at in [samples[7], samples[3]] {
        // The number of callers is behind address, thread, time and period.
        bytes[at + 40..at + 48].fill(0xff);
    }
    let (_, recorded) = read_bytes(&bytes, None).unwrap();
    assert_eq!(named(&recorded).samples_total(), all - 2);
    let damage = &recorded.losses.damage;
    assert_eq!((damage.records, damage.first_at), (2, at(samples[3])));
    assert_eq!(damage.rest_from, None);
    // If no records follow any more, the records before are kept.
    let mut bytes = whole.clone();
    let (cut, (last, _)) = (samples[samples.len() / 2], *records(&whole).last().unwrap());
    bytes[cut..=last + 8].fill(0);
    let (_, recorded) = read_bytes(&bytes, None).unwrap();
    assert_eq!(recorded.losses.damage.rest_from, at(cut));
    assert_eq!(named(&recorded).samples_total(), samples.len() as u64 / 2);
}

#[test]
fn a_record_whose_length_is_broken_costs_itself() {
    let whole = data("plain.data");
    let all = named(&read_bytes(&whole, None).unwrap().1).samples_total();
    let samples: Vec<usize> =
        records(&whole).into_iter().filter(|(_, kind)| *kind == 9).map(|(at, _)| at).collect();
    let cut = samples[samples.len() / 2];
    let length = u16::from_le_bytes([whole[cut + 6], whole[cut + 7]]);
    let last = *samples.last().unwrap();
    // Length zero, less than before, and more than the file has.
    for (cut, wrong) in [(cut, 0), (cut, 8), (cut, length - 16), (last, 0xfff8), (samples[0], 3)] {
        let mut bytes = whole.clone();
        bytes[cut + 6..cut + 8].copy_from_slice(&u16::to_le_bytes(wrong));
        let (_, recorded) = read_bytes(&bytes, None).unwrap();
        let damage = &recorded.losses.damage;
        assert_eq!(damage.rest_from, None, "{wrong}");
        assert!((1..=2).contains(&damage.records), "{wrong}: {damage:?}");
        assert_eq!(named(&recorded).samples_total(), all - 1, "{wrong}");
    }
    // A broken kind.
    let mut bytes = whole.clone();
    bytes[cut..cut + 4].fill(0xff);
    let (_, recorded) = read_bytes(&bytes, None).unwrap();
    assert_eq!((recorded.losses.damage.records, recorded.losses.damage.rest_from), (1, None));
    assert_eq!(named(&recorded).samples_total(), all - 1);
}

proptest::proptest! {
    /// Whatever is in a file, the reader never fails without an error that names the fault.
    #[test]
    fn any_byte_may_be_any_other(
        which in 0usize..5,
        changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), proptest::prelude::any::<u8>()), 1..6),
        in_header in proptest::prelude::any::<bool>(),
    ) {
        let mut bytes = data(["plain.data", "piped.data", "compressed.data", "events.data", "deep.data"][which]);
        let reach = if in_header { 600 } else { bytes.len() };
        for (at, byte) in changes {
            bytes[at.index(reach)] = byte;
        }
        if let Ok((_, recorded)) = read_bytes(&bytes, None) {
            let sampled = symbolise(&recorded, &nothing());
            let samples: u64 = recorded.tree.nodes().iter().map(|node| node.samples).sum();
            proptest::prop_assert_eq!(sampled.samples_total(), samples);
        }
    }
}
