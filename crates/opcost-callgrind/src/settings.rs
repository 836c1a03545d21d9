//! The choices of a run, as the command hands them to the plugin.

use crate::cache::Shape;
use serde::{Deserialize, Serialize};

/// The place of messages.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Log {
    /// Standard error.
    #[default]
    Stderr,
    /// An open file descriptor.
    Descriptor(i32),
    /// A file, by the pattern of its name.
    File(String),
}

/// The choices of a run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields have the names of callgrind's options, which its manual explains"
)]
pub struct Settings {
    pub out_file: String,
    pub log: Log,
    pub quiet: bool,
    pub trace_children: bool,
    pub trace_children_skip: Vec<String>,
    pub trace_children_skip_by_arg: Vec<String>,
    pub child_silent_after_fork: bool,
    pub demangle: bool,
    pub show_below_main: bool,
    pub dump_line: bool,
    pub dump_instr: bool,
    pub compress_strings: bool,
    pub compress_pos: bool,
    pub combine_dumps: bool,
    pub dump_before: Vec<String>,
    pub zero_before: Vec<String>,
    pub dump_after: Vec<String>,
    pub instr_atstart: bool,
    pub collect_atstart: bool,
    pub toggle_collect: Vec<String>,
    /// Jumps are asked for. opcost counts instructions and calls only, and says so.
    pub collect_jumps: bool,
    pub separate_threads: bool,
    pub separate_recs: u32,
    pub skip_plt: bool,
    pub fn_skip: Vec<String>,
    pub cache_sim: bool,
    /// First-level caches of instructions and data, and the last level.
    pub caches: [Shape; 3],
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            out_file: "callgrind.out.%p".into(),
            log: Log::Stderr,
            quiet: false,
            trace_children: false,
            trace_children_skip: Vec::new(),
            trace_children_skip_by_arg: Vec::new(),
            child_silent_after_fork: false,
            demangle: true,
            show_below_main: false,
            dump_line: true,
            dump_instr: false,
            compress_strings: true,
            compress_pos: true,
            combine_dumps: false,
            dump_before: Vec::new(),
            zero_before: Vec::new(),
            dump_after: Vec::new(),
            instr_atstart: true,
            collect_atstart: true,
            toggle_collect: Vec::new(),
            collect_jumps: false,
            separate_threads: false,
            separate_recs: 2,
            skip_plt: true,
            fn_skip: Vec::new(),
            cache_sim: false,
            caches: Shape::DEFAULTS,
        }
    }
}

impl Settings {
    /// Returns the settings as a word of letters and digits, which QEMU passes to the plugin unchanged.
    pub fn encode(&self) -> String {
        // Only types that postcard can write are in the settings.
        let bytes = postcard::to_stdvec(self).unwrap_or_default();
        opcost_record::printable::hexadecimal(&bytes)
    }

    /// Reads what [`encode`](Self::encode) wrote; `None` for any other text.
    pub fn decode(word: &str) -> Option<Settings> {
        let digit =
            |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let pairs = word.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> = pairs
            .map(|pair| match pair {
                [high, low] => Some(digit(high)? << 4 | digit(low)?),
                _ => None,
            })
            .collect();
        postcard::from_bytes(&bytes?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_as_they_were() {
        let settings = Settings {
            toggle_collect: vec!["*::bench, ü::*".into()],
            log: Log::File("log.%p".into()),
            ..Settings::default()
        };
        let word = settings.encode();
        assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{word}");
        assert_eq!(Settings::decode(&word), Some(settings));
        for word in ["", "0", "zz", "ff00"] {
            assert_eq!(Settings::decode(word), None, "{word}");
        }
    }
}
