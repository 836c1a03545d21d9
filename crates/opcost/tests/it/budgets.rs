//! Small files that unpack, or are parsed, to a lot: reading them ends within the budget, with an error that says what was exceeded.

use crate::lab::Lab;
use crate::needs;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::process::Command;

/// A limit that opcost itself does not reach, and every file here would exceed.
const LIMIT: &str = "--read-limit=24M";
/// The length of the files' contents.
const LARGE_BYTES: u64 = 26 << 20;

/// A gzip file of a beginning, of a text as often as `LARGE_BYTES` holds it, and of an end.
fn gzip(begin: &str, repeated: &str, end: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(begin.as_bytes()).unwrap();
    let piece = repeated.repeat((1 << 20) / repeated.len());
    for _ in 0..LARGE_BYTES / piece.len() as u64 {
        packer.write_all(piece.as_bytes()).unwrap();
    }
    packer.write_all(end.as_bytes()).unwrap();
    packer.finish().unwrap()
}

/// A record of perf.data.
fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let bytes = (8 + body.len()) as u16;
    [&kind.to_le_bytes()[..], &[0, 0], &bytes.to_le_bytes(), body].concat()
}

/// A piped perf.data file of one event, whose samples have an address, a thread and a time.
fn piped(records: &[Vec<u8>]) -> Vec<u8> {
    let mut attributes = vec![0; 136];
    attributes[0..8].copy_from_slice(&[1, 0, 0, 0, 136, 0, 0, 0]);
    attributes[16..24].copy_from_slice(&1000u64.to_le_bytes());
    attributes[24..32].copy_from_slice(&0x107u64.to_le_bytes());
    attributes.extend(1u64.to_le_bytes());
    [&b"PERFILE2"[..], &16u64.to_le_bytes(), &record(64, &attributes), &records.concat()].concat()
}

/// A perf.data file whose compressed records inflate to names of threads, which all wait for the end of a round.
fn perf_data() -> Vec<u8> {
    let name = record(3, &[&[1, 0, 0, 0, 1, 0, 0, 0, b'a'][..], &[0; 0xffe7]].concat());
    let frame = zstd::encode_all(&*name.repeat(512), 19).unwrap();
    piped(&vec![record(81, &frame); 2])
}

/// A perf.data file with a sample in the mapping of a file.
fn sampled(process: u32, path: &str) -> Vec<u8> {
    let process = process.to_le_bytes().repeat(2);
    let words =
        |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut name = path.as_bytes().to_vec();
    name.resize(name.len() / 8 * 8 + 8, 0);
    let mapping = [&process[..], &words(&[0x40_0000, 0x10_0000, 0]), &name].concat();
    let sample = [&words(&[0x40_1139]), &process[..], &words(&[1, 1])].concat();
    piped(&[record(1, &mapping), record(9, &sample), record(68, &[])])
}

#[test]
fn a_bomb_ends_with_what_it_exceeds() {
    let lab = Lab::new();
    lab.write("many.json.gz", gzip(r#"{"results":[{"command":"a","times":["#, "1,", "1]}]}"));
    lab.write("arrays.json.gz", gzip(r#"{"results":"command","a":["#, "[],", "1]}"));
    // No format knows this line of many commas.
    lab.write("commas.json.gz", gzip(r#"{"results":["#, "[],", "1]}"));
    lab.run(&["import", "commas.json.gz", "--read-limit", "1G"])
        .expect(2)
        .says(&["no known format"]);
    lab.write("spaces.json.gz", gzip("", " ", "{}"));
    lab.write("deep.folded.gz", gzip("a;b 1\n", "a;", "z 1\n"));
    lab.write("perf.data", perf_data());
    // A terabyte that takes one block of the disk.
    lab.write("holes.data", sampled(7, "/x"));
    let holes = std::fs::File::options().write(true).open(lab.path("holes.data")).unwrap();
    holes.set_len(1 << 40).unwrap();
    let recording = zstd::encode_all(io::repeat(0).take(LARGE_BYTES), 1).unwrap();
    lab.write("bomb.opcost", [&b"opcost-recording 1\n"[..], &recording].concat());
    for (arguments, status) in [
        (&["import", "many.json.gz"][..], 2),
        (&["import", "arrays.json.gz"], 2),
        (&["import", "spaces.json.gz"], 2),
        (&["profile", "--input", "deep.folded.gz"], 2),
        (&["profile", "--input", "perf.data"], 2),
        (&["profile", "--input", "holes.data"], 2),
        (&["import", "bomb.opcost"], 5),
        (&["gather", "bomb.opcost"], 5),
    ] {
        let file = arguments.last().unwrap();
        let ended = lab.run(&[arguments, &[LIMIT]].concat()).expect(status);
        ended.says(&[file, "more than 24 MiB", "--read-limit 8G"]);
    }
    assert!(lab.recordings().is_empty());
    // The contents are no fault where there is room for them.
    lab.run(&["profile", "--input", "deep.folded.gz", "--read-limit", "4G"]).expect(0);
}

#[test]
fn what_is_no_size_is_no_limit() {
    for text in ["", "G", "-1", "8GB", "99999999999T"] {
        let limit = format!("--read-limit={text}");
        Lab::new().run(&["list", "workloads", &limit]).expect(2).says(&["such as 800M or 8G"]);
    }
}

#[test]
fn what_is_no_regular_file_is_not_waited_for() {
    let lab = Lab::new();
    let made = Command::new("mkfifo").arg(lab.path("fifo")).status().unwrap();
    assert!(made.success());
    symlink("/dev/zero", lab.path("zero")).unwrap();
    for command in [&["import"][..], &["gather"], &["profile", "--input"]] {
        for (file, word) in [("fifo", "a pipe"), ("zero", "a device")] {
            let ended = lab.run(&[command, &[file]].concat());
            assert!(ended.status.is_some_and(|status| status != 0), "{command:?} {file}");
            ended.says(&[file, "no regular file", word]);
        }
    }
}

#[test]
fn a_recording_leads_to_no_pipe_device_or_other_folder() {
    let lab = Lab::new();
    assert!(Command::new("mkfifo").arg(lab.path("fifo")).status().unwrap().success());
    symlink("/dev/full", lab.path("device")).unwrap();
    std::fs::write(lab.path("text"), "no program").unwrap();
    let here = |name: &str| lab.path(name).display().to_string();
    let above = format!("{}/../{}", lab.dir().display(), "text");
    for (path, why) in [
        (here("fifo"), "no regular file, but a pipe"),
        (here("device"), "no regular file, but a device"),
        ("/dev/full".into(), "no regular file, but a device"),
        ("text".into(), "not one that the kernel reports"),
        ("../text".into(), "not one that the kernel reports"),
        (above, "not one that the kernel reports"),
        (here("text"), "ELF"),
    ] {
        lab.write("perf.data", sampled(7, &path));
        let document = lab.json(&["profile", "--input", "perf.data", "--json"]);
        assert_eq!(document["losses"]["unnamed"][0]["why"], "unreadable", "{path}");
        assert!(document["notes"].to_string().contains(why), "{path}: {}", document["notes"]);
        lab.run(&["diff", "perf.data", "perf.data"]).expect(0);
    }
}

#[test]
fn a_map_of_code_is_no_pipe_and_no_device_and_is_its_users() {
    let lab = Lab::new();
    // No process has such a number; the interface fixes the folder.
    let process = 2_000_000_000 + std::process::id();
    let map = std::path::PathBuf::from(format!("/tmp/perf-{process}.map"));
    lab.write("perf.data", sampled(process, "//anon"));
    let first = || {
        let document = lab.json(&["profile", "--input", "perf.data", "--json"]);
        let name = document["functions"][0]["symbol"].as_str().unwrap().to_string();
        std::fs::remove_file(&map).unwrap();
        name
    };
    std::fs::write(&map, "401000 200 compiled\n").unwrap();
    assert_eq!(first(), "compiled");
    assert!(Command::new("mkfifo").arg(&map).status().unwrap().success());
    assert_eq!(first(), "[no map]");
    symlink("/dev/zero", &map).unwrap();
    assert_eq!(first(), "[no map]");
    // A map of the greatest length is opened, and a longer one is not.
    for (bytes, name) in [(128 << 20, "compiled"), ((128 << 20) + 1, "[no map]")] {
        std::fs::write(&map, "401000 200 compiled\n").unwrap();
        std::fs::File::options().write(true).open(&map).unwrap().set_len(bytes).unwrap();
        assert_eq!(first(), name, "{bytes}");
    }
}

#[test]
fn a_program_s_debug_information_is_unpacked_within_the_budget() {
    if !needs::programs(&["cc", "objcopy"]) {
        return;
    }
    let lab = Lab::new();
    lab.write("work.c", "int main(void) { return 0; }");
    lab.write("zeros", vec![0; LARGE_BYTES as usize]);
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).current_dir(lab.dir()).status();
        assert!(status.unwrap().success(), "{program}");
    };
    run("cc", &["-no-pie", "-o", "work", "work.c"]);
    let program = lab.path("work").display().to_string();
    lab.write("perf.data", sampled(7, &program));
    let why = |limit: &str| {
        // The program changes, and no build id tells that it is the one that was sampled.
        let arguments = ["profile", "--input", "perf.data", "--json", "--trust-files", limit];
        let document = lab.json(&arguments);
        assert!(document["functions"][0]["symbol"].is_string());
        document["losses"]["without_inlined"]
            .as_array()
            .unwrap()
            .first()
            .map(|one| one["why"].clone())
    };
    assert_eq!(why(LIMIT), None);
    run("objcopy", &["--add-section", ".debug_info=zeros", "work"]);
    run("objcopy", &["--compress-debug-sections", "work"]);
    assert!(std::fs::metadata(&program).unwrap().len() < 1 << 20);
    assert_eq!(why(LIMIT), Some("too large".into()));
    assert_ne!(why("--read-limit=1G"), Some("too large".into()));
}
