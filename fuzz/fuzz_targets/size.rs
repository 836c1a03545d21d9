//! Two files: accepted files are compared, the rows add up, and functions are disassembled.
//!
//! The first two bytes are the size of the first file, in units of 64 bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_size::{Measured, align, compare, disassemble};

fuzz_target!(|bytes: &[u8]| {
    let Some((size, files)) = bytes.split_first_chunk() else { return };
    let size = usize::from(u16::from_le_bytes(*size)) * 64;
    let (one, two) = files.split_at(size.min(files.len()));
    let (Ok(one), Ok(two)) = (Measured::read("one", one), Measured::read("two", two)) else {
        return;
    };
    if let Ok(difference) = compare([&one, &two]) {
        let parts: i64 = difference.parts().iter().map(|part| part.change()).sum();
        assert_eq!(parts, difference.change());
    }
    let code = |file: &Measured<'_>| {
        let function = file.inventory.symbols.iter().find(|symbol| symbol.code)?;
        disassemble(file.bytes, function).ok()
    };
    if let (Some(one), Some(two)) = (code(&one), code(&two)) {
        align([&one, &two]);
    }
});
