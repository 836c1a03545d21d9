//! Bytes by class, as size(1) counts them.

use object::elf;
use serde::{Deserialize, Serialize};

/// What a section counts as (binutils, size(1), the Berkeley format).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Code, and what cannot be written.
    Text,
    /// What can be written and has contents.
    Data,
    /// What begins as zeros.
    Bss,
    /// What is not in memory when the program runs: debug information, notes of the compiler.
    NotLoaded,
}

impl Class {
    /// The classes that are in memory, in the order of size(1).
    pub const LOADED: [Class; 3] = [Class::Text, Class::Data, Class::Bss];

    /// The class of a section.
    pub(super) fn of(sh_type: elf::SectionType, sh_flags: elf::SectionFlags) -> Class {
        if !sh_flags.contains(elf::SHF_ALLOC) {
            Class::NotLoaded
        } else if sh_flags.contains(elf::SHF_EXECINSTR) || !sh_flags.contains(elf::SHF_WRITE) {
            Class::Text
        } else if sh_type == elf::SHT_NOBITS {
            Class::Bss
        } else {
            Class::Data
        }
    }

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Class::Text => "text",
            Class::Data => "data",
            Class::Bss => "bss",
            Class::NotLoaded => "not loaded",
        }
    }
}

/// Bytes of a file by class, as size(1) prints them.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Totals {
    /// Code, and what cannot be written.
    pub text_bytes: u64,
    /// What can be written and has contents.
    pub data_bytes: u64,
    /// What begins as zeros.
    pub bss_bytes: u64,
}

impl Totals {
    /// The bytes of one class; 0 for what is not loaded.
    pub fn of(&self, class: Class) -> u64 {
        match class {
            Class::Text => self.text_bytes,
            Class::Data => self.data_bytes,
            Class::Bss => self.bss_bytes,
            Class::NotLoaded => 0,
        }
    }

    /// The classes in memory, each with its bytes.
    pub fn parts(&self) -> [(Class, u64); 3] {
        Class::LOADED.map(|class| (class, self.of(class)))
    }

    /// All bytes in memory.
    pub fn sum(&self) -> u64 {
        self.text_bytes + self.data_bytes + self.bss_bytes
    }

    pub(super) fn add(&mut self, class: Class, bytes: u64) {
        match class {
            Class::Text => self.text_bytes += bytes,
            Class::Data => self.data_bytes += bytes,
            Class::Bss => self.bss_bytes += bytes,
            Class::NotLoaded => {}
        }
    }
}
