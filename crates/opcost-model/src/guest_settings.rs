//! The settings of a guest that have one value: one row each.
//!
//! A row is all that there is of a setting, unless code asks for its value: its flag and help, its key in files and for `--set`, its
//! check, its place in plans and in docs/schema.json, its part of a gate's key and of comparisons, the words of reports, and QEMU's
//! arguments. A new row needs a default that changes no guest: plans without the setting mean the default.

use crate::experiment::{Experiment, Variant};
use opcost_record::architecture::Architecture;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

/// Calls a macro with the rows, and with the tokens behind the macro's name.
///
/// A row: help, name of the field, name of the flag's value, type, and the rest as a [`GuestSetting`].
macro_rules! guest_settings {
    ($with:ident $($given:tt)*) => {
        $with! {
            [
                /// Memory of the emulated machine, MiB [default: 1024]
                memory_mib "MIB": u32 = GuestSetting {
                    field: "memory-mib",
                    key: "memory",
                    words: "memory, MiB",
                    unit: "MiB",
                    default: || MEMORY_MIB,
                    check: |mib| if (64..=65_536).contains(mib) { Ok(()) } else { Err("give 64 to 65536") },
                    arguments: |mib| vec!["-m".into(), format!("{mib}M")],
                    always: true,
                    in_all_keys: true,
                    without_kernel: None,
                    apart: None,
                };
                /// CPUs of the emulated machine, up to 8; they take turns on one thread, so that counts stay exact
                /// (QEMU 10.0 or later) [default: 1]
                cpus "N": u32 = GuestSetting {
                    field: "cpus",
                    key: "cpus",
                    words: "number of CPUs",
                    unit: "CPUs",
                    default: || 1,
                    // The plugin distinguishes no more.
                    check: |cpus| if (1..=8).contains(cpus) { Ok(()) } else { Err("give 1 to 8") },
                    arguments: |cpus| if *cpus > 1 { vec!["-smp".into(), cpus.to_string()] } else { Vec::new() },
                    always: false,
                    in_all_keys: true,
                    without_kernel: Some(", since the program has one thread there"),
                    apart: None,
                };
                /// Architecture of the emulated machine, x86-64 or arm64, for which --kernel is taken; variants of both
                /// stand beside each other and are not compared [default: x86-64]
                architecture "NAME": Architecture = GuestSetting {
                    field: "architecture",
                    key: "architecture",
                    words: "architecture",
                    unit: "architecture",
                    default: || Architecture::X86_64,
                    check: |_| Ok(()),
                    // QEMU has a program for each architecture.
                    arguments: |_| Vec::new(),
                    always: false,
                    in_all_keys: false,
                    without_kernel: None,
                    apart: Some("other architecture"),
                };
            ]
            $($given)*
        }
    };
}
pub(crate) use guest_settings;

/// Default memory of an emulated machine, MiB. With less than 512 MiB of usable memory a kernel makes no huge pages by itself
/// (mm/huge_memory.c, hugepage_init), as no user's machine does.
const MEMORY_MIB: u32 = 1024;

/// A setting, beside its name, type and help.
pub(crate) struct GuestSetting<T> {
    /// The key of files, and the flag without its dashes.
    pub(crate) field: &'static str,
    /// The name in gates' keys.
    pub(crate) key: &'static str,
    /// The name in sentences.
    pub(crate) words: &'static str,
    /// The unit of the value, where a guest is described or a variant is named after the value.
    unit: &'static str,
    default: fn() -> T,
    /// What to give in place of a wrong value.
    check: fn(&T) -> Result<(), &'static str>,
    /// QEMU's arguments.
    arguments: fn(&T) -> Vec<String>,
    /// Whether plans and descriptions have the default, too.
    always: bool,
    /// Whether gates' keys have the default, too. A setting that is younger than baselines leaves their keys as they are.
    in_all_keys: bool,
    /// Refuses the setting without a kernel; the text goes on with the reason.
    without_kernel: Option<&'static str>,
    /// If figures of guests with different values have nothing in common, the words for that.
    apart: Option<&'static str>,
}

/// The value of a setting.
pub struct GuestValue {
    /// The key of files, and the flag without its dashes.
    pub field: &'static str,
    /// The value as text.
    pub text: String,
    /// The value's unit.
    pub unit: &'static str,
    /// Whether descriptions have the value.
    pub shown: bool,
    /// If the value has no meaning without a kernel, how the refusal goes on.
    pub without_kernel: Option<&'static str>,
    /// QEMU's arguments.
    pub arguments: Vec<String>,
}

/// A setting as plans store it.
pub struct StoredSetting {
    /// The name.
    pub name: &'static str,
    /// The default.
    pub default: Value,
    /// The text of its part of the JSON schema.
    pub schema: &'static str,
}

/// A type of values.
trait Stored {
    /// The text of its JSON schema.
    const SCHEMA: &str;
}

impl Stored for u32 {
    const SCHEMA: &str = r#"{"type": "integer", "minimum": 0}"#;
}

impl Stored for String {
    const SCHEMA: &str = r#"{"type": "string"}"#;
}

impl Stored for Architecture {
    const SCHEMA: &str = r#"{"enum": ["x86-64", "arm64"]}"#;
}

macro_rules! declare {
    ([ $( $(#[$($help:tt)*])* $field:ident $value:tt: $type:ident = $row:expr; )* ]) => {
        /// The rows.
        pub(crate) mod rows {
            use super::*;
            $( pub(crate) const fn $field() -> GuestSetting<$type> { $row } )*
        }

        /// The settings of a guest that have one value.
        #[derive(Clone, Debug, Deserialize, PartialEq)]
        #[serde(default)]
        pub struct GuestSettings {
            $( $(#[$($help)*])* pub $field: $type, )*
        }

        impl Default for GuestSettings {
            fn default() -> GuestSettings {
                GuestSettings { $( $field: (rows::$field().default)(), )* }
            }
        }

        impl Serialize for GuestSettings {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let mut map = to.serialize_map(None)?;
                $( if rows::$field().has(&self.$field) {
                    map.serialize_entry(stringify!($field), &self.$field)?;
                } )*
                map.end()
            }
        }

        impl GuestSettings {
            /// The settings of a variant's guest.
            ///
            /// # Errors
            /// In words: a value that no guest can have.
            pub fn resolve(experiment: &Experiment, variant: &Variant) -> Result<GuestSettings, String> {
                Ok(GuestSettings { $( $field: rows::$field().resolve([&variant.$field, &experiment.$field])?, )* })
            }

            /// Gives a variant an experiment's settings where it has none of its own.
            pub fn inherit(variant: &mut Variant, experiment: &Experiment) {
                $( variant.$field = variant.$field.take().or_else(|| experiment.$field.clone()); )*
            }

            /// Writes the settings into a variant that makes the same guest again.
            pub(crate) fn write_to(&self, variant: &mut Variant) {
                $( variant.$field = Some(self.$field.clone()).filter(|value| rows::$field().has(value)); )*
            }

            /// All values, in the order of the rows.
            pub fn values(&self) -> Vec<GuestValue> {
                vec![ $( rows::$field().value(&self.$field), )* ]
            }

            /// The words for the first setting whose difference leaves the figures of two guests nothing in common.
            pub fn apart(&self, other: &GuestSettings) -> Option<&'static str> {
                let apart = [ $( rows::$field().apart.filter(|_| self.$field != other.$field), )* ];
                apart.into_iter().flatten().next()
            }

            /// All settings, as plans store them.
            pub fn stored() -> Vec<StoredSetting> {
                vec![ $( StoredSetting {
                    name: stringify!($field),
                    default: json!((rows::$field().default)()),
                    schema: <$type as Stored>::SCHEMA,
                }, )* ]
            }
        }
    };
}
guest_settings! { declare }

impl<T: Clone + PartialEq + ToString> GuestSetting<T> {
    /// Whether plans and descriptions have a value.
    fn has(&self, value: &T) -> bool {
        self.always || *value != (self.default)()
    }

    /// A value as settings have it.
    ///
    /// `in_key`: whether it becomes a part of a gate's key.
    pub(crate) fn value_of_setting(&self, value: &T, in_key: bool) -> Option<String> {
        (!in_key || self.in_all_keys || self.has(value)).then(|| value.to_string())
    }

    /// The first given value, else the default.
    fn resolve(&self, given: [&Option<T>; 2]) -> Result<T, String> {
        let given = given.into_iter().flatten().next();
        let value = given.cloned().unwrap_or_else(self.default);
        match (self.check)(&value) {
            Ok(()) => Ok(value),
            Err(give) => Err(format!("--{} {}: {give}", self.field, value.to_string())),
        }
    }

    fn value(&self, value: &T) -> GuestValue {
        GuestValue {
            field: self.field,
            text: value.to_string(),
            unit: self.unit,
            shown: self.has(value),
            without_kernel: self.without_kernel.filter(|_| *value != (self.default)()),
            arguments: (self.arguments)(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_takes_the_settings_of_its_experiment_and_keeps_its_own() {
        let arm = Some(Architecture::Aarch64);
        let of = Experiment { memory_mib: Some(256), architecture: arm, ..Experiment::default() };
        let mut variant = Variant { memory_mib: Some(512), ..Variant::default() };
        GuestSettings::inherit(&mut variant, &of);
        assert_eq!(
            (variant.memory_mib, variant.architecture, variant.cpus),
            (Some(512), arm, None)
        );
        let other = Experiment { cpus: Some(2), ..Experiment::default() };
        let one = GuestSettings::resolve(&other, &variant).unwrap();
        let two = GuestSettings { cpus: 1, ..one.clone() };
        assert_eq!(one.apart(&two), None);
        let two = GuestSettings { architecture: Architecture::X86_64, ..two };
        assert_eq!(
            (one.apart(&two), two.apart(&one)),
            (Some("other architecture"), Some("other architecture"))
        );
    }
}
