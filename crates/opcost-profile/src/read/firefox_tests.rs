use super::*;
use crate::symbolise::{KernelSource, Origin, Sources, look_up};
use crate::table::FunctionTable;
use flate2::read::MultiGzDecoder;
use opcost_sys::budget::LIMIT_BYTES;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::io::Read;

/// Two threads with the tables of the format's versions before (1) and since (2) `shared`.
fn document() -> Value {
    let tables = json!({
        "stringArray": ["main", "_ZN1a1bEv", "read", "libc.so.6", "busy"],
        "stackTable": {"frame": [0, 1, 2], "prefix": [null, 0, 1], "length": 3},
        "frameTable": {"func": [0, 1, 2], "category": [0, 0, 1], "inlineDepth": [0, 1, 0]},
        "funcTable": {"name": [0, 1, 2], "resource": [0, 0, -1]},
        "resourceTable": {"lib": [0], "name": [4]},
    });
    let mut one = tables.clone();
    one["name"] = json!("GeckoMain");
    one["pid"] = json!("7");
    one["tid"] = json!(8);
    one["samples"] = json!({
        "stack": [1, 2, null, 0], "time": [10.0, 11.0, 12.0, 13.5],
        "weight": null, "weightType": "samples"
    });
    let two = json!({
        "name": "", "processName": "worker", "pid": "9.1", "tid": "x",
        "samples": {"stack": [2], "timeDeltas": [12.0], "weight": [5], "weightType": "samples"},
    });
    json!({
        "meta": {
            "preprocessedProfileVersion": 50, "product": "work", "interval": 1,
            "categories": [{"name": "User"}, {"name": "Kernel"}],
        },
        "libs": [{"name": "busy", "path": "/opt/busy"}],
        "shared": tables,
        "threads": [one, two],
    })
}

/// Reads a text without looking addresses up.
fn read_text(text: &str, wanted: &Wanted) -> Result<(About, Sampled), TextError> {
    read(text, wanted, &|_, _, _| LookedUp::default(), &Budget::default())
}

fn rows(document: &Value, wanted: &Wanted) -> Result<Vec<String>, String> {
    let read = read_text(&document.to_string(), wanted);
    let (_, sampled) = read.map_err(|error| error.to_string())?;
    let row = |cost: &crate::table::FunctionCost| {
        let Function { symbol, module, .. } = &cost.function;
        format!("{symbol} {module} {} {:?}", cost.own, cost.samples)
    };
    Ok(FunctionTable::of(&sampled).functions.iter().map(row).collect())
}

#[test]
fn threads_of_old_and_new_versions_are_read() {
    let document = document();
    let text = document.to_string();
    assert!(is_firefox(&text));
    let (about, sampled) = read_text(&text, &Wanted::default()).unwrap();
    assert_eq!((about.event.as_str(), about.duration_ns), ("samples", Some(3_500_000)));
    assert_eq!((sampled.profile.total(), sampled.samples_known()), (8, Some(8)));
    let expected =
        ["read [kernel] 6 Some(6)", "main /opt/busy 1 Some(1)", "a::b() /opt/busy 1 Some(1)"];
    let mut found = rows(&document, &Wanted::default()).unwrap();
    found[1..].sort_by(|one, two| two.cmp(one));
    assert_eq!(found, expected);
    let inlined: u64 = sampled.facts.iter().map(|facts| facts.inlined_samples).sum();
    assert_eq!(inlined, 1);
}

#[test]
fn addresses_that_samply_wrote_are_looked_up() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let packed = std::fs::read(format!("{folder}/samply.json.gz")).unwrap();
    let mut text = String::new();
    MultiGzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
    let sources = Sources {
        kernel: KernelSource::Nothing,
        debug_files: "/nonexistent".into(),
        build_id_cache: None,
        inlined: true,
        limit_bytes: LIMIT_BYTES,
    };
    // The program is beside the profile; the libraries do not exist.
    let find = |file: &CodeFile, addresses: FileAddresses<'_>, _| {
        let path = String::from_utf8(file.path.clone()).unwrap();
        let path = match path.strip_prefix("/opt/work") {
            Some(rest) => format!("{folder}{rest}"),
            None => format!("/nonexistent{path}"),
        };
        let file = CodeFile { path: path.into_bytes(), ..file.clone() };
        look_up(&file, addresses, &Origin::default(), &sources)
    };
    let (about, sampled) = read(&text, &Wanted::default(), &find, &Budget::default()).unwrap();
    assert_eq!((about.event.as_str(), sampled.samples_known()), ("samples", Some(77)));
    // samply read plain.data, so the samples are the same.
    let table = FunctionTable::of(&sampled);
    let own = |symbol: &str| -> u64 {
        let known = table.functions.iter().filter(|cost| cost.function.symbol == symbol);
        known.map(|cost| cost.own).sum()
    };
    assert_eq!([own("leaf"), own("touch"), own("main"), own("[text]")], [15, 6, 1, 55]);
    let [kernel] = &sampled.unnamed[..] else { panic!("{:?}", sampled.unnamed) };
    assert_eq!(
        (kernel.module.as_str(), &kernel.why, kernel.samples),
        (KERNEL, &Why::NotLookedUp, 55)
    );
    assert!(sampled.unchecked.is_empty());
    // Without an identifier of its build, a file that has changed since the recording is not asked.
    let id = "7df8ec7d82717abfc1b952009d0a25933a34f197";
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let changed = text.replace(id, "").replace("/opt/work/busy", own);
    let of_program = |trusted: bool| {
        let find = |file: &CodeFile, at: FileAddresses<'_>, recorded_at: Option<SystemTime>| {
            look_up(file, at, &Origin { recorded_at, trusted, ..Origin::default() }, &sources)
        };
        let read = read(&changed, &Wanted::default(), &find, &Budget::default());
        read.unwrap().1.unnamed.into_iter().find(|unnamed| unnamed.module == own)
    };
    let program = of_program(false).unwrap();
    assert_eq!((program.why, program.samples), (Why::Doubtful, 22));
    assert!(of_program(true).is_none_or(|program| program.why != Why::Doubtful));
    // Another build of the program gives no names.
    let other = text.replace("7df8ec7d82717abf", "7df8ec7d82717abe");
    let (_, sampled) = read(&other, &Wanted::default(), &find, &Budget::default()).unwrap();
    let program = sampled.unnamed.iter().find(|unnamed| unnamed.module != KERNEL).unwrap();
    assert_eq!((&program.why, program.samples), (&Why::OtherBuild, 22));
}

#[test]
fn samples_are_chosen() {
    for (filter, expected) in [
        ("comm=worker", 5),
        ("comm=GeckoMain", 3),
        ("pid=9", 5),
        ("tid=8", 3),
        ("dso=busy", 2),
        ("time=0..0.0015", 2),
        ("pid=1", 0),
    ] {
        let mut wanted = Wanted::default();
        wanted.filter.add(filter).unwrap();
        let (_, sampled) = read_text(&document().to_string(), &wanted).unwrap();
        assert_eq!(sampled.profile.total(), expected, "{filter}");
    }
}

#[test]
fn weights_of_time_are_nanoseconds() {
    let mut document = document();
    for thread in document["threads"].as_array_mut().unwrap() {
        thread["samples"]["weightType"] = json!("tracing-ms");
    }
    document["threads"][1]["samples"]["weight"] = json!([2.5]);
    let (about, sampled) = read_text(&document.to_string(), &Wanted::default()).unwrap();
    assert!(about.sampling.unwrap().clock);
    assert_eq!((sampled.profile.total(), sampled.samples_known()), (5_500_000, None));
}

#[test]
fn what_is_wrong_is_named() {
    let with = |path: &str, value: Value| {
        let mut document = document();
        *document.pointer_mut(path).unwrap() = value;
        rows(&document, &Wanted::default()).unwrap_err()
    };
    for (path, value, says) in [
        ("/threads/0/samples/stack", json!([9]), "stack 9 of thread 0 is not in its tables"),
        ("/threads/0/stackTable/prefix", json!([null, 2, 1]), "stands before its caller 2"),
        ("/threads/0/stackTable/prefix", json!([1, 0, 1]), "stands before its caller 1"),
        ("/threads/0/stackTable/prefix", json!([]), "prefix of stack 1 of thread 0"),
        ("/threads/0/frameTable/func", json!([0, 1]), "frame 2 of thread 0"),
        ("/threads/0/funcTable/name", json!([0, 1, 77]), "string 77 of thread 0"),
        ("/threads/1/samples/weight", json!([]), "weight 0 of thread 1"),
        ("/threads/1/samples/weight", json!([-3]), "a weight of -3: it is a difference"),
        ("/threads/1/samples/weight", json!([1e300]), "a weight of 1"),
        ("/shared", json!({}), "thread 1 has no table of stacks"),
        ("/threads", json!([]), "no cost at all"),
        ("/threads", json!(3), "it is not as the format says"),
    ] {
        let error = with(path, value);
        assert!(error.contains(says), "{path}: {error}");
    }
    // The first version of the format told no version.
    let mut old = document();
    old["meta"]["preprocessedProfileVersion"] = Value::Null;
    assert_eq!(rows(&old, &Wanted::default()), rows(&document(), &Wanted::default()));
    old["shared"] = json!({});
    old["threads"][0]["funcTable"] = Value::Null;
    let error = rows(&old, &Wanted::default()).unwrap_err();
    assert!(error.contains("no table of functions"), "{error}");
    let wanted = Wanted { event: Some("bytes".into()), ..Wanted::default() };
    let error = rows(&document(), &wanted).unwrap_err();
    assert_eq!(error, "it has no event bytes; it has samples");
    let text = document().to_string();
    let error = read_text(&text[..text.len() / 2], &Wanted::default()).unwrap_err().to_string();
    assert!(error.contains("it was cut short"), "{error}");
    let frames = FRAMES_MAX + 1;
    let mut deep = document();
    let prefix = |at: usize| at.checked_sub(1);
    deep["threads"][0]["stackTable"] =
        json!({"frame": vec![0; frames], "prefix": (0..frames).map(prefix).collect::<Vec<_>>()});
    deep["threads"][0]["samples"]["stack"] = json!([frames - 1, 0, 0, 0]);
    deep["threads"].as_array_mut().unwrap().pop();
    let (_, sampled) = read_text(&deep.to_string(), &Wanted::default()).unwrap();
    assert_eq!((sampled.losses.stacks_cut, sampled.profile.total()), (1, 4));
    let last = sampled.profile.contexts.iter().filter(|context| context.cost > 0).count();
    // Two contexts have a cost: the deep stack's end, and the outermost function of the others.
    assert_eq!((sampled.profile.contexts.len(), last), (FRAMES_MAX, 2));
}

proptest! {
    #[test]
    fn damaged_files_add_up_or_are_refused(at in 0..2000usize, byte in 32u8..127) {
        let mut bytes = document().to_string().into_bytes();
        let length = bytes.len();
        bytes[at % length] = byte;
        let text = String::from_utf8(bytes).unwrap();
        if let Ok((about, sampled)) = read_text(&text, &Wanted::default()) {
            prop_assert!(about.events.contains(&about.event));
            let table = FunctionTable::of(&sampled);
            prop_assert_eq!(table.functions.iter().map(|cost| cost.own).sum::<u64>(), table.total);
        }
    }
}
