//! Messages about a program's own regions, one a line: any bytes are taken or refused, and regions count no
//! more than the time that passed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_record::program_region::{Amounts, Message, ProgramRegions, name};

#[derive(Default)]
struct Clock(u64);

impl Amounts for Clock {
    fn add_between(&mut self, from: &Clock, to: &Clock) {
        self.0 += to.0 - from.0;
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut regions = ProgramRegions::<Clock>::default();
    let mut now = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        now += 1;
        regions.pause(|| Clock(now));
        let done = match Message::parse(line) {
            Some(Message::Begin(name)) => regions.begin(name),
            Some(Message::End(name, operations)) => regions.end(name, operations),
            None => continue,
        };
        if done.is_err() {
            break;
        }
        regions.resume(|| Clock(now));
    }
    let mut entries = 0;
    for sum in regions.sums() {
        assert_eq!(name(sum.name.as_bytes()), Ok(sum.name.as_str()));
        assert!(sum.amounts.0 <= now);
        entries += sum.entries;
    }
    assert!(entries <= now);
});
