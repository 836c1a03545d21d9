//! The messages between opcost, its guest, its plugin, its gauge and its processes: whatever is accepted is written and read back the
//! same. The bytes are taken as they are, and as bodies behind a right header, which no fuzzer would find.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_record::Report;
use opcost_record::channel::{self, ChannelWriter, after_work};
use opcost_record::disk::GuestDisk;
use opcost_record::emulation::{self, Emulation};
use opcost_record::file_image::FileImage;
use opcost_record::gauge::GaugeReport;
use opcost_record::message::framed;
use opcost_record::request::GuestRequest;
use opcost_record::symbols::Symbols;

macro_rules! check {
    ($bytes:expr, $($message:ty),+) => {$(
        for bytes in [$bytes.to_vec(), framed(<$message>::FORMAT, $bytes.to_vec())] {
            if let Ok(read) = <$message>::decode(&bytes) {
                assert_eq!(<$message>::decode(&read.encode()).as_ref(), Ok(&read));
            }
        }
    )+};
}

fuzz_target!(|bytes: &[u8]| {
    check!(bytes, FileImage, GaugeReport, GuestDisk, GuestRequest, Report, Symbols);
    // A report and a channel end with a message of their own.
    let end = Emulation::default().encode();
    for bytes in [bytes.to_vec(), [framed(&emulation::FORMAT, bytes.to_vec()), end].concat()] {
        if let Ok(read) = Emulation::decode(&bytes) {
            assert_eq!(Emulation::decode(&read.encode()).as_ref(), Ok(&read));
        }
    }
    let mut end = Vec::new();
    ChannelWriter::new(&mut end).end().expect("memory has room");
    for bytes in [bytes.to_vec(), [framed(&channel::FORMAT, bytes.to_vec()), end].concat()] {
        let _ = after_work(&bytes);
        if let Ok(frames) = channel::decode(&bytes) {
            let mut written = Vec::new();
            let mut writer = ChannelWriter::new(&mut written);
            for frame in &frames {
                writer.send(frame.kind, &frame.body).expect("memory has room");
            }
            writer.end().expect("memory has room");
            assert_eq!(channel::decode(&written).as_ref(), Ok(&frames));
        }
    }
});
