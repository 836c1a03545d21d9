//! The functions at whose entries the plugin reads amounts; opcost writes them for the plugin, beside the symbols.

use super::Amount;
use crate::Domain;
use crate::message::{Contents, Format, message};
use serde::{Deserialize, Serialize};

/// The format.
static FORMAT: Format = Format {
    letter: b'w',
    name: "the list of watched functions",
    peer: "plugin",
    empty: "the list of watched functions is empty",
    cut_short: "",
    bytes_max: 1 << 24,
    deflated: false,
};

/// A function at whose entry the plugin reads an amount.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Watched {
    /// Index into [`Symbols::functions`](crate::symbols::Symbols::functions).
    pub function: u32,
    /// The amount.
    pub amount: Amount,
    /// Index into [`Watch::sums`]. A function that another one of the same sum called adds nothing.
    pub sum: u32,
}

/// The functions at whose entries the plugin reads amounts.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Watch {
    /// The functions.
    pub watched: Vec<Watched>,
    /// The metrics that their amounts add up to.
    pub sums: Vec<(String, Domain)>,
}

impl Contents for Watch {
    fn check(&self) -> Result<(), &'static str> {
        let known = |watched: &Watched| (watched.sum as usize) < self.sums.len();
        if self.watched.iter().all(known) { Ok(()) } else { Err("no such sum") }
    }
}

message!(Watch, FORMAT);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::{check_message, contradiction};
    use crate::message::{VERSION, hash};

    fn sample() -> Watch {
        Watch {
            watched: vec![Watched { function: 7, amount: Amount::Product(0, 1), sum: 0 }],
            sums: vec![("allocated-bytes".into(), Domain::User)],
        }
    }

    #[test]
    fn a_list_is_read_whole_or_not_at_all() {
        check_message(&FORMAT, &sample());
        let mut wrong = sample();
        wrong.watched[0].sum = 1;
        assert_eq!(contradiction(&FORMAT, &wrong), "no such sum");
        let hash = hash(&sample().encode(), 0);
        assert_eq!(
            (VERSION, format!("{hash:016x}").as_str()),
            (3, ""),
            "the message changed: raise VERSION and write its new hash here"
        );
    }
}
