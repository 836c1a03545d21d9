//! Messages of a guest: a channel, a frame that says how a program ended, the report of a workload, and the plugin's report.
//! Whatever is accepted is written and read back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_record::channel::{ChannelWriter, Frame, FrameKind, GuestExit, after_work, parse};
use opcost_record::request::GuestRequest;
use opcost_record::{emulation, wire};

fn read(frame: &Frame) {
    let text = frame.text();
    match frame.kind {
        FrameKind::Exit => drop(text.parse::<GuestExit>()),
        _ => drop(wire::parse(&text)),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = after_work(bytes);
    if let Ok(frames) = parse(bytes) {
        frames.iter().for_each(read);
        let mut written = Vec::new();
        let mut writer = ChannelWriter::start(&mut written).expect("memory has room");
        for frame in &frames {
            writer.send(frame.kind, &frame.body).expect("memory has room");
        }
        writer.end().expect("memory has room");
        assert_eq!(parse(&written).as_ref(), Ok(&frames));
    }
    // The first byte chooses another text of the guest's side.
    if let Some((_, rest)) = bytes.split_first() {
        let text = String::from_utf8_lossy(rest);
        let _ = emulation::parse(&text);
        if let Ok(request) = GuestRequest::parse(&text) {
            assert_eq!(GuestRequest::parse(&request.format()).as_ref(), Ok(&request));
        }
    }
});
