//! The functions at whose entries the plugin reads amounts; opcost writes them for the plugin, beside the symbols.

use super::{Amount, Measure, Pointer};
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
    /// The memory that it allocates or frees.
    pub pointer: Pointer,
    /// Index into [`Watch::sums`]. A function that another one of the same sum called adds nothing.
    pub sum: u32,
}

/// A metric that amounts add up to.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Sum {
    /// Its name; with [`Measure::Failures`], the name before the error's.
    pub name: String,
    /// Its domain.
    pub domain: Domain,
    /// What is added up.
    pub measure: Measure,
}

/// The functions at whose entries the plugin reads amounts.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Watch {
    /// The functions.
    pub watched: Vec<Watched>,
    /// The metrics that their amounts add up to.
    pub sums: Vec<Sum>,
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

    fn sample() -> Watch {
        Watch {
            watched: vec![Watched {
                function: 7,
                amount: Amount::Product(0, 1),
                pointer: Pointer::Stored,
                sum: 0,
            }],
            sums: vec![Sum {
                name: "allocated-bytes".into(),
                domain: Domain::User,
                measure: Measure::Amounts,
            }],
        }
    }

    #[test]
    fn a_list_is_read_whole_or_not_at_all() {
        check_message(&FORMAT, &sample());
        let mut wrong = sample();
        wrong.watched[0].sum = 1;
        assert_eq!(contradiction(&FORMAT, &wrong), "no such sum");
    }
}
