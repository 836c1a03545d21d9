//! The instruction that a CPU refused to execute, and the feature that it lacks.

use crate::a64_feature;
use iced_x86::{Decoder, DecoderOptions, Formatter, Mnemonic, NasmFormatter};
use opcost_record::Architecture;
use opcost_record::printable::printable;

/// The longest instruction of x86 (Intel SDM, volume 2, 2.3.11).
const X86_BYTES_MAX: usize = 15;

/// The advice for random number instructions in a guest that went on from a kept state.
const FRESH_BOOTS: &str = "guests that go on from a kept state have no random number instructions: give --fresh-boots, and \
                           a CPU model that has them";

/// The advice for what QEMU emulates on no CPU model.
const NO_MODEL: &str = "QEMU emulates it for no model: build the program without it, for example with -march=x86-64-v3";

/// The features that QEMU emulates on no CPU model.
const IN_NO_MODEL: [&str; 3] = ["AVX512", "AMX", "AVX10"];

/// The machine on which a program ran.
#[derive(Clone, Copy, Debug)]
pub enum Ran<'a> {
    /// This computer.
    Here,
    /// An emulated CPU.
    Emulated {
        /// The CPU model.
        model: &'a str,
        /// Its architecture.
        architecture: Architecture,
        /// Whether the guest went on from a kept state, and so had no random number instructions.
        kept: bool,
    },
    /// The one CPU model of `opcost callgrind` and `opcost bench`.
    Callgrind {
        /// The CPU model.
        model: &'a str,
    },
}

impl Ran<'_> {
    /// Says why SIGILL killed a program, and what helps.
    ///
    /// `refused`: the instruction, if it is known; `place`: its address, and its file if that is known.
    #[must_use]
    pub fn cause(self, refused: Option<&Refused>, place: Option<&str>) -> String {
        let cpu = match self {
            Ran::Here => "this computer's CPU".to_string(),
            Ran::Emulated { model, .. } | Ran::Callgrind { model } => {
                format!("the CPU model {}", printable(model))
            }
        };
        let at = place.map_or(String::new(), |place| format!(" at {place}"));
        let Some(Refused { text, features, is_on_purpose }) = refused else {
            let remedy = self.remedy(&[]);
            return format!("it executed an instruction{at} that {cpu} does not have; {remedy}");
        };
        if *is_on_purpose {
            return format!(
                "it executed {text}{at}, by which programs end themselves (a failed check, __builtin_trap)"
            );
        }
        let remedy = self.remedy(features);
        if features.is_empty() {
            return format!("it executed '{text}'{at}; {cpu} lacks it; {remedy}");
        }
        // Whether the model has them is then not known.
        let lacks = if remedy == FRESH_BOOTS { String::new() } else { format!("; {cpu} lacks it") };
        format!("it executed '{text}'{at}, which needs {}{lacks}; {remedy}", features.join(" and "))
    }

    /// The advice for features that a machine lacks; none are named if they are not known.
    fn remedy(self, features: &[String]) -> &'static str {
        let any = |names: &[&str]| {
            features.iter().any(|feature| names.iter().any(|name| feature.starts_with(name)))
        };
        match self {
            Ran::Here => "build it for this CPU, without -march of another",
            Ran::Emulated { architecture: Architecture::Aarch64, .. } => {
                "give a CPU model that has it (--cpu-model max has the most), or build the program without it (-march=armv8-a)"
            }
            Ran::Emulated { kept: true, .. } if any(&["RDRAND", "RDSEED"]) => FRESH_BOOTS,
            _ if any(&IN_NO_MODEL) => NO_MODEL,
            Ran::Callgrind { .. } => {
                "build the program without it, for example with -march=x86-64-v3, or count it with \
                 opcost measure --machine emulated --cpu-model"
            }
            Ran::Emulated { kept: true, .. } if features.is_empty() => {
                "give a CPU model that has it (--cpu-model), --fresh-boots if it may be RDRAND, or build the program \
                 without it (-march=x86-64-v2)"
            }
            Ran::Emulated { .. } => {
                "give a CPU model that has it (--cpu-model), or build the program without it (-march=x86-64-v2)"
            }
        }
    }
}

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
