//! A kernel's symbols: accepted symbols ascend, and are the same in the message for the emulator's plugin.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_record::symbols::Symbols;
use opcost_symbols::assemble::join;
use opcost_symbols::kernel::KernelSymbols;

fuzz_target!(|text: &str| {
    if let Ok(kernel) = KernelSymbols::parse(text) {
        let symbols = join(Some(&kernel), &[]);
        assert_eq!(Symbols::decode(&symbols.encode()).as_ref(), Ok(&symbols));
    }
});
