//! A program and its debug file: accepted symbols ascend, and are the same in the message for the emulator's plugin.
//!
//! The first two bytes are the size of the debug file, in units of 64 bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_record::symbols::Symbols;
use opcost_symbols::assemble::join;
use opcost_symbols::elf::read;

fuzz_target!(|bytes: &[u8]| {
    let Some((size, files)) = bytes.split_first_chunk() else { return };
    let size = usize::from(u16::from_le_bytes(*size)) * 64;
    let (debug, file) = files.split_at(size.min(files.len()));
    let debug = (!debug.is_empty()).then_some(debug);
    if let Ok(program) = read(file, debug, "/bin/program") {
        let symbols = join(None, &[program]);
        assert_eq!(Symbols::decode(&symbols.encode()).as_ref(), Ok(&symbols));
    }
});
