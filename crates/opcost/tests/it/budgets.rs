//! Small files that unpack, or are parsed, to a lot: reading them ends within the budget, with an error that says what was exceeded.

use crate::lab::Lab;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::process::Command;

/// A limit that opcost itself does not reach, and every file here would exceed.
const LIMIT: &str = "--read-limit=96M";
/// The length of the files' contents.
const LARGE_BYTES: u64 = 192 << 20;

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

/// A piped perf.data file whose compressed records inflate to names of threads, which all wait for the end of a round.
fn perf_data() -> Vec<u8> {
    let mut attributes = vec![0; 136];
    attributes[0..8].copy_from_slice(&[1, 0, 0, 0, 136, 0, 0, 0]);
    attributes[16..24].copy_from_slice(&1000u64.to_le_bytes());
    attributes[24..32].copy_from_slice(&0x107u64.to_le_bytes());
    attributes.extend(1u64.to_le_bytes());
    let name = record(3, &[&[1, 0, 0, 0, 1, 0, 0, 0, b'a'][..], &[0; 0xffe7]].concat());
    let frame = zstd::encode_all(&*name.repeat(512), 19).unwrap();
    let packed = record(81, &frame).repeat(8);
    [&b"PERFILE2"[..], &16u64.to_le_bytes(), &record(64, &attributes), &packed].concat()
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
    let recording = zstd::encode_all(io::repeat(0).take(LARGE_BYTES), 1).unwrap();
    lab.write("bomb.opcost", [&b"opcost-recording 1\n"[..], &recording].concat());
    for (arguments, status) in [
        (&["import", "many.json.gz"][..], 2),
        (&["import", "arrays.json.gz"], 2),
        (&["import", "spaces.json.gz"], 2),
        (&["profile", "--input", "deep.folded.gz"], 2),
        (&["profile", "--input", "perf.data"], 2),
        (&["import", "bomb.opcost"], 5),
        (&["gather", "bomb.opcost"], 5),
    ] {
        let file = arguments.last().unwrap();
        let ended = lab.run(&[arguments, &[LIMIT]].concat()).expect(status);
        ended.says(&[file, "more than 96 MiB", "--read-limit 8G"]);
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
