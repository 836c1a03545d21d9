//! Bytes by class, as size(1) counts them.

use object::elf;
use serde::{Deserialize, Serialize};

/// The class of a section (binutils, size(1), the Berkeley format).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Code and read-only data.
    Text,
    /// Writable data with contents.
    Data,
    /// Writable data that begins as zeros.
    Bss,
    /// Parts that are not in memory at run time: debug information, notes of the compiler.
    NotLoaded,
}

impl Class {
    /// The classes that are in memory, in the order of size(1).
    pub const LOADED: [Class; 3] = [Class::Text, Class::Data, Class::Bss];

    /// Returns the class of a section.
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

    /// The class's name.
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
    /// Code and read-only data.
    pub text_bytes: u64,
    /// Writable data with contents.
    pub data_bytes: u64,
    /// Writable data that begins as zeros.
    pub bss_bytes: u64,
}

impl Totals {
    /// Returns the bytes of a class; 0 for [`Class::NotLoaded`].
    pub fn of(&self, class: Class) -> u64 {
        match class {
            Class::Text => self.text_bytes,
            Class::Data => self.data_bytes,
            Class::Bss => self.bss_bytes,
            Class::NotLoaded => 0,
        }
    }

    /// Returns the classes in memory, each with its bytes.
    pub fn parts(&self) -> [(Class, u64); 3] {
        Class::LOADED.map(|class| (class, self.of(class)))
    }

    /// Returns the sum of all bytes in memory.
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
