//! Records of a sampling event, as the kernel writes them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_profile::ring::{Layout, read, records};

fuzz_target!(|input: (bool, u64, Vec<u64>)| {
    let (call_chain, user_registers_mask, words) = input;
    for record in records(&words).flatten() {
        let _ = read(record, Layout { call_chain, user_registers_mask });
    }
});
