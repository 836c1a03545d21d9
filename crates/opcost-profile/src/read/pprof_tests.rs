use super::*;
use crate::symbolise::LookedUp;
use crate::table::FunctionTable;
use flate2::read::MultiGzDecoder;
use proptest::prelude::*;
use std::io::Read;

/// Reads and unpacks a profile that Go's own profiler wrote.
fn go(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let packed = std::fs::read(path).unwrap();
    let mut bytes = Vec::new();
    MultiGzDecoder::new(&*packed).read_to_end(&mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8], event: Option<&str>, budget: &Budget) -> Result<(About, Sampled), TextError> {
    super::read(bytes, event, &|_, _, _| LookedUp::default(), budget)
}

fn rows(sampled: &Sampled) -> Vec<(String, u64, Option<u64>, Option<u64>)> {
    let row = |cost: &crate::table::FunctionCost| {
        (cost.function.symbol.clone(), cost.own, cost.inclusive, cost.samples)
    };
    FunctionTable::of(sampled).functions.iter().map(row).collect()
}

#[test]
fn a_profile_of_go_has_the_figures_of_go_tool_pprof() {
    let bytes = go("go-old.pb.gz");
    assert!(is_pprof(&bytes));
    let (about, sampled) = read(&bytes, None, &Budget::default()).unwrap();
    assert_eq!((about.event.as_str(), about.events.join(" ").as_str()), ("cpu", "samples cpu"));
    let sampling = about.sampling.unwrap();
    assert_eq!((sampling.clock, sampling.period), (true, Some(10_000_000)));
    assert_eq!((sampled.profile.total(), sampled.samples_known()), (160_000_000, Some(16)));
    // go tool pprof -top (go 1.26.8): flat and cum of 160 ms, 16 samples.
    let rows = rows(&sampled);
    let of = |name: &str| rows.iter().find(|row| row.0 == name).cloned().unwrap();
    let row = |name: &str, own: u64, inclusive: u64| {
        (name.to_string(), own * 10_000_000, Some(inclusive * 10_000_000), Some(own))
    };
    for (name, own, inclusive) in [
        ("runtime.memmove", 7, 7),
        ("runtime.asyncPreempt", 2, 2),
        ("main.join", 1, 11),
        ("strings.(*Builder).WriteString", 1, 10),
        ("runtime.growslice", 0, 8),
        ("main.main", 0, 12),
        ("main.spin", 0, 1),
    ] {
        assert_eq!(of(name), row(name, own, inclusive));
    }
    assert_eq!(rows.iter().filter(|row| row.1 > 0).count(), 9);
    let [module] = &sampled.profile.modules[..] else { panic!("{:?}", sampled.profile.modules) };
    assert!(module.program && module.path.ends_with("/busy"), "{module:?}");
    // WriteString is inlined into its callers.
    let inlined: u64 = sampled.facts.iter().map(|facts| facts.inlined_samples).sum();
    assert_eq!(inlined, 2);
}

#[test]
fn a_sample_type_is_chosen_by_name() {
    let bytes = go("go-heap.pb.gz");
    let (about, sampled) = read(&bytes, Some("alloc_space"), &Budget::default()).unwrap();
    assert_eq!(about.sampling.as_ref().unwrap().unit(), opcost_record::Unit::Bytes);
    assert_eq!(about.events, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]);
    // go tool pprof -sample_index=alloc_space -top -unit=B.
    let rows = rows(&sampled);
    assert_eq!((rows[0].0.as_str(), rows[0].1), ("strings.(*Builder).WriteString", 125_392_210));
    assert_eq!((rows[1].0.as_str(), rows[1].1), ("runtime/pprof.StartCPUProfile", 1_212_696));
    assert_eq!(sampled.profile.total(), 127_654_618);
    // Bytes are no samples.
    assert_eq!((sampled.samples_known(), rows[0].3), (None, None));
    let error = read(&bytes, Some("cpu"), &Budget::default()).unwrap_err().to_string();
    assert!(error.starts_with("it has no event cpu; it has alloc_objects, "), "{error}");
}

/// Encodes a field of bytes or of a number.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// Makes a profile of one sample with this value, in a function f at the location 1.
fn made(value: &[u8], location: u8) -> Vec<u8> {
    let parts = [
        field(1, &[8, 1, 16, 2]),
        field(2, &[field(1, &[location]), field(2, value)].concat()),
        field(4, &[&[8, 1][..], &field(4, &[8, 1])].concat()),
        field(5, &[8, 1, 16, 3]),
        field(6, b""),
        field(6, b"cpu"),
        field(6, b"milliseconds"),
        field(6, b"f"),
    ];
    parts.concat()
}

/// A number of the wire format.
fn number(field: u8, mut value: u64) -> Vec<u8> {
    let mut bytes = vec![field << 3];
    loop {
        let last = value < 128;
        bytes.push(value as u8 & 127 | if last { 0 } else { 128 });
        value >>= 7;
        if last {
            return bytes;
        }
    }
}

/// A profile of addresses alone, as gperftools writes it and google's converter leaves it: names come from the mapping's file.
#[test]
fn addresses_are_looked_up_in_the_mappings_file() {
    let message = |field: u8, parts: &[Vec<u8>]| {
        let body = parts.concat();
        let mut bytes = vec![field << 3 | 2];
        bytes.extend(&number(0, body.len() as u64)[1..]);
        [bytes, body].concat()
    };
    let path = std::env::current_exe().unwrap();
    let path = path.to_str().unwrap();
    let strings = ["", "cpu", "nanoseconds", path, "0a0b", "samples", "count"];
    let strings = strings.map(|text| message(6, &[text.as_bytes().to_vec()]));
    let mapping = [
        number(1, 1),
        number(2, 0x40_0000),
        number(3, 0x50_0000),
        number(4, 0x1000),
        number(5, 3),
        number(6, 4),
    ];
    let location =
        |id: u64, address: u64| message(4, &[number(1, id), number(2, 1), number(3, address)]);
    let sample = |locations: &[u64], count: u64| {
        let locations: Vec<Vec<u8>> = locations.iter().map(|id| number(1, *id)).collect();
        message(2, &[locations.concat(), number(2, count), number(2, count * 10)])
    };
    let bytes = [
        message(1, &[number(1, 5), number(2, 6)]),
        message(1, &[number(1, 1), number(2, 2)]),
        sample(&[1, 2], 3),
        sample(&[2], 1),
        sample(&[3], 2),
        message(3, &mapping),
        location(1, 0x40_0123),
        location(2, 0x40_2000),
        // Outside of the mapping.
        location(3, 0x60_0000),
        strings.concat(),
        number(9, 7_000_000_000),
        number(10, 500_000_000),
    ]
    .concat();
    assert!(is_pprof(&bytes));
    let asked = std::cell::RefCell::new(Vec::new());
    let look_up = |file: &CodeFile, offsets: FileAddresses<'_>, at: Option<SystemTime>| {
        let FileAddresses::OnDisk(offsets) = offsets else { panic!("of memory") };
        asked.borrow_mut().push((file.clone(), offsets.to_vec(), at));
        let function = |name: &str| Function::new(name, path);
        let stacks = vec![vec![function("inner"), function("inlined")], vec![function("[text]")]];
        LookedUp { stacks, why: Some(Why::Stripped), unchecked: true }
    };
    let (_, sampled) = super::read(&bytes, None, &look_up, &Budget::default()).unwrap();
    let since = SystemTime::UNIX_EPOCH + Duration::from_millis(7500);
    let file = CodeFile { kind: CodeKind::File, path: path.into(), build_id: Some(vec![10, 11]) };
    assert_eq!(asked.into_inner(), [(file, vec![0x1123, 0x3000], Some(since))]);
    let mut found = rows(&sampled);
    found.sort();
    let row = |name: &str, own, inclusive, samples| {
        (name.to_string(), own, Some(inclusive), Some(samples))
    };
    assert_eq!(
        found,
        [row("[text]", 30, 60, 3), row("inlined", 30, 30, 3), row("inner", 0, 30, 0),]
    );
    assert_eq!(sampled.unchecked, [path]);
    // The place without a name in the file, and the one outside.
    let unnamed: Vec<_> = sampled.unnamed.iter().map(|one| (&one.why, one.samples)).collect();
    assert_eq!(unnamed, [(&Why::Stripped, 3)]);
    // Without files to look into, all have no name; with this program, whose build id is another, all say so.
    let (_, plain) = read(&bytes, None, &Budget::default()).unwrap();
    assert!(rows(&plain).iter().all(|row| row.0 == "[text]"));
    let sources = crate::symbolise::Sources {
        kernel: crate::symbolise::KernelSource::Nothing,
        debug_files: "/nonexistent".into(),
        build_id_cache: None,
        inlined: false,
        limit_bytes: opcost_sys::budget::LIMIT_BYTES,
    };
    let really = |id: Option<Vec<u8>>, recorded_at| {
        let file = CodeFile { kind: CodeKind::File, path: path.into(), build_id: id };
        let origin = crate::symbolise::Origin { recorded_at, ..Default::default() };
        crate::symbolise::look_up(&file, FileAddresses::OnDisk(&[0x1123]), &origin, &sources).why
    };
    assert_eq!(really(Some(vec![10, 11]), Some(since)), Some(Why::OtherBuild));
    assert_eq!(really(None, Some(since)), Some(Why::Doubtful));
}

#[test]
fn what_is_wrong_is_named() {
    let (about, sampled) = read(&made(&[3], 1), None, &Budget::default()).unwrap();
    assert_eq!((sampled.profile.total(), about.sampling.unwrap().clock), (3_000_000, true));
    let fault = |bytes: &[u8]| read(bytes, None, &Budget::default()).unwrap_err().to_string();
    let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    assert!(fault(&made(&minus_one, 1)).contains("sample 1 has a cost of -1: it is a difference"));
    let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    assert!(fault(&made(&largest, 1)).contains("more than 64 bits"));
    assert!(fault(&made(&[3, 4], 1)).contains("has 2 values, and there are 1 sample types"));
    assert!(fault(&made(&[3], 2)).contains("location 2 is not in it"));
    assert_eq!(fault(&made(&[0], 1)), TextError::Empty.to_string());
    assert_eq!(fault(&[]), TextError::Empty.to_string());
    let whole = made(&[3], 1);
    assert!(fault(&whole[..whole.len() - 2]).contains("it was cut short"));
    assert!(fault(&field(6, b"x")).contains("the first string of its table is not empty"));
    let deep = vec![1; FRAMES_MAX + 1];
    let length = [deep.len() as u8 & 0x7f | 0x80, (deep.len() >> 7) as u8];
    let sample = [&[0x0a][..], &length, &deep, &field(2, &[3])].concat();
    let outer = [sample.len() as u8 & 0x7f | 0x80, (sample.len() >> 7) as u8];
    let profile = [&[0x12][..], &outer, &sample, &made(&[3], 1)].concat();
    // A deep stack keeps its innermost frames.
    let (_, sampled) = read(&profile, None, &Budget::default()).unwrap();
    assert_eq!((sampled.losses.stacks_cut, sampled.profile.contexts.len()), (1, FRAMES_MAX));
}

proptest! {
    #[test]
    fn no_bytes_end_the_program(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        is_pprof(&bytes);
        let _ = read(&bytes, None, &Budget::default());
    }

    #[test]
    fn damaged_profiles_add_up_or_are_refused(at in 0..4000usize, byte: u8, cut in 0..8000usize) {
        let mut bytes = go("go-old.pb.gz");
        let length = bytes.len();
        bytes[at % length] = byte;
        bytes.truncate(cut.max(1).min(length));
        if let Ok((about, sampled)) = read(&bytes, None, &Budget::default()) {
            prop_assert!(about.events.contains(&about.event));
            let table = FunctionTable::of(&sampled);
            prop_assert_eq!(table.functions.iter().map(|cost| cost.own).sum::<u64>(), table.total);
        }
    }
}
