//! Exit statuses with which a run counts as finished.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The exit statuses other than 0 with which a run counts as finished.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum IgnoredStatuses {
    /// None: such a run has failed.
    #[default]
    None,
    /// All of them.
    All,
    /// These, in ascending order.
    Only(Vec<u8>),
}

impl IgnoredStatuses {
    /// The word for all statuses, which hyperfine has, too.
    pub const ALL: &str = "all-non-zero";
    const NONE: &str = "none";

    /// Whether no status is ignored.
    pub fn is_none(&self) -> bool {
        *self == IgnoredStatuses::None
    }

    /// Whether a run with this status counts as finished.
    pub fn finishes(&self, status: i32) -> bool {
        match self {
            _ if status == 0 => true,
            IgnoredStatuses::None => false,
            IgnoredStatuses::All => true,
            IgnoredStatuses::Only(listed) => listed.iter().any(|one| i32::from(*one) == status),
        }
    }

    fn only(mut statuses: Vec<u8>) -> Result<IgnoredStatuses, String> {
        statuses.sort_unstable();
        statuses.dedup();
        match statuses[..] {
            [] => Err("the list has no exit status; give 1,2 or leave the list out".into()),
            _ => Ok(IgnoredStatuses::Only(statuses)),
        }
    }
}

impl fmt::Display for IgnoredStatuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IgnoredStatuses::None => f.write_str(IgnoredStatuses::NONE),
            IgnoredStatuses::All => f.write_str(IgnoredStatuses::ALL),
            IgnoredStatuses::Only(statuses) => {
                let texts: Vec<String> = statuses.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

impl FromStr for IgnoredStatuses {
    type Err = String;

    fn from_str(text: &str) -> Result<IgnoredStatuses, String> {
        match text {
            IgnoredStatuses::ALL => return Ok(IgnoredStatuses::All),
            IgnoredStatuses::NONE => return Ok(IgnoredStatuses::None),
            _ => {}
        }
        let status = |text: &str| {
            let text = text.trim();
            text.parse().map_err(|_| {
                format!("'{text}' is no exit status from 0 to 255; give a list such as 1,2")
            })
        };
        IgnoredStatuses::only(text.split(',').map(status).collect::<Result<_, String>>()?)
    }
}

/// The form in plans and experiment files.
#[derive(Deserialize, Serialize)]
#[serde(untagged, expecting = "true, false, or a list of exit statuses from 0 to 255")]
enum Stored {
    Switch(bool),
    Only(Vec<u8>),
}

impl Serialize for IgnoredStatuses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = match self {
            IgnoredStatuses::None => Stored::Switch(false),
            IgnoredStatuses::All => Stored::Switch(true),
            IgnoredStatuses::Only(statuses) => Stored::Only(statuses.clone()),
        };
        stored.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for IgnoredStatuses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IgnoredStatuses, D::Error> {
        match Stored::deserialize(deserializer)? {
            Stored::Switch(false) => Ok(IgnoredStatuses::None),
            Stored::Switch(true) => Ok(IgnoredStatuses::All),
            Stored::Only(statuses) => {
                IgnoredStatuses::only(statuses).map_err(serde::de::Error::custom)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ignores_its_statuses_alone() {
        let only: IgnoredStatuses = "2, 1,2".parse().unwrap();
        assert_eq!(only, IgnoredStatuses::Only(vec![1, 2]));
        let finishing: Vec<i32> = (-1..4).filter(|status| only.finishes(*status)).collect();
        assert_eq!(finishing, [0, 1, 2]);
        let all: IgnoredStatuses = "all-non-zero".parse().unwrap();
        assert!(all.finishes(255) && !IgnoredStatuses::None.finishes(1));
    }

    #[test]
    fn what_is_no_status_is_named() {
        let refused = |text: &str| text.parse::<IgnoredStatuses>().unwrap_err();
        assert!(refused("1,x").starts_with("'x' is no exit status from 0 to 255"));
        assert!(refused("256").starts_with("'256'"));
        assert!(refused("").starts_with("''"));
    }

    #[test]
    fn each_form_is_stored_and_read() {
        for (text, stored) in [("none", "false"), ("all-non-zero", "true"), ("1,42", "[1,42]")] {
            let value: IgnoredStatuses = text.parse().unwrap();
            assert_eq!(value.to_string(), text);
            assert_eq!(serde_json::to_string(&value).unwrap(), stored);
            assert_eq!(serde_json::from_str::<IgnoredStatuses>(stored).unwrap(), value);
        }
        for bad in ["[]", "[256]", "1"] {
            assert!(serde_json::from_str::<IgnoredStatuses>(bad).is_err(), "{bad}");
        }
    }
}
