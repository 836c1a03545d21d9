//! The instruction that a CPU refused to execute, and the feature that it lacks.

use crate::a64_feature;
use iced_x86::{Decoder, DecoderOptions, Formatter, Mnemonic, NasmFormatter};
use opcost_record::Architecture;

/// The longest instruction of x86 (Intel SDM, volume 2, 2.3.11).
const X86_BYTES_MAX: usize = 15;

/// An instruction for which a program died.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    /// Its text.
    pub text: String,
    /// The features that it needs; none if they are not known.
    pub features: Vec<String>,
    /// Whether no CPU has it.
    pub is_on_purpose: bool,
}

impl Refused {
    /// Reads the instruction at the start of a program's code.
    ///
    /// `address`: of its first byte, by which jumps name their targets.
    ///
    /// Returns `None` if the bytes are no instruction.
    #[must_use]
    pub fn read(code: &[u8], address: u64, architecture: Architecture) -> Option<Refused> {
        match architecture {
            Architecture::X86_64 => Refused::x86(code, address),
            Architecture::Aarch64 => Refused::a64(code),
        }
    }

    fn x86(code: &[u8], address: u64) -> Option<Refused> {
        let code = &code[..code.len().min(X86_BYTES_MAX)];
        let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
        let mut text = String::new();
        NasmFormatter::new().format(&instruction, &mut text);
        let features = instruction.cpuid_features().iter();
        let undefined = [Mnemonic::Ud0, Mnemonic::Ud1, Mnemonic::Ud2];
        (!instruction.is_invalid()).then(|| Refused {
            text,
            features: features.map(|feature| format!("{feature:?}")).collect(),
            is_on_purpose: undefined.contains(&instruction.mnemonic()),
        })
    }

    fn a64(code: &[u8]) -> Option<Refused> {
        let word = u32::from_le_bytes(*code.first_chunk()?);
        let (text, feature) = a64_feature::describe(word);
        let features = feature.into_iter().map(String::from).collect();
        Some(Refused { text, features, is_on_purpose: a64_feature::is_undefined(word) })
    }
}
