//! `Opcost-accept: CASE [METRIC] +2.1%`: the trailer by which a commit's message accepts a cost.

use opcost_record::printable::printable;

/// The trailer's name.
pub const TRAILER: &str = "Opcost-accept";

/// A cost that a commit accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The case.
    pub case: String,
    /// The metric; `None` for every metric of the case.
    pub metric: Option<String>,
    /// The accepted amount.
    pub amount: Amount,
    /// The commit, shortened.
    pub commit: String,
    /// The text of the trailer.
    pub text: String,
}

/// The accepted amount.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// An increase as a share of the baseline.
    Ratio {
        /// The share.
        ratio: f64,
        /// Half of the weight of the last digit given.
        rounding: f64,
    },
    /// An increase as a figure.
    Absolute(f64),
    /// A case that the base does not have.
    New,
}

/// A trailer that opcost cannot read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Misunderstood {
    /// The commit, shortened.
    pub commit: String,
    /// The text of the trailer.
    pub text: String,
}

impl Accepted {
    /// Reads a trailer's value.
    ///
    /// # Errors
    /// The trailer is malformed.
    pub fn parse(commit: &str, text: &str) -> Result<Accepted, Misunderstood> {
        let misunderstood = || Misunderstood { commit: commit.into(), text: printable(text) };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (case, metric, amount) = match words[..] {
            [case, amount] => (case, None, amount),
            [case, metric, amount] => (case, Some(metric), amount),
            _ => return Err(misunderstood()),
        };
        let amount = Amount::parse(amount).ok_or_else(misunderstood)?;
        Ok(Accepted {
            case: case.into(),
            metric: metric.map(String::from),
            amount,
            commit: commit.into(),
            text: printable(text),
        })
    }
}

impl Amount {
    fn parse(text: &str) -> Option<Amount> {
        if text == "new" {
            return Some(Amount::New);
        }
        let number = text.strip_prefix('+')?;
        let value = |digits: &str| -> Option<f64> {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            digits.parse().ok().filter(|value: &f64| plain && value.is_finite())
        };
        let Some(percent) = number.strip_suffix('%') else {
            return Some(Amount::Absolute(value(&number.replace(',', ""))?));
        };
        let decimals = percent.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let rounding = 0.5 * 10f64.powi(-(decimals as i32)) / 100.0;
        Some(Amount::Ratio { ratio: value(percent)? / 100.0, rounding })
    }
}

/// Whether trailers together accept an increase of a figure by `size` over a baseline.
///
/// Several trailers for one figure add up, as each is in a commit of its own.
pub(super) fn accepts(trailers: &[&Accepted], baseline: f64, size: f64) -> bool {
    let amounts = trailers.iter().filter_map(|trailer| match trailer.amount {
        Amount::Ratio { ratio, rounding } => Some((ratio + rounding) * baseline),
        Amount::Absolute(size) => Some(size),
        Amount::New => None,
    });
    let allowed: f64 = amounts.sum();
    // An increase equal to the accepted amount is accepted, rounding aside.
    allowed > 0.0 && size <= allowed * (1.0 + 1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_accepted_is_read() {
        let amount = |text: &str| Accepted::parse("c0ffee", text).map(|accepted| accepted.amount);
        let Ok(Amount::Ratio { ratio, rounding }) = amount("parse +2.1%") else { panic!() };
        assert!((ratio - 0.021).abs() < 1e-12 && (rounding - 0.0005).abs() < 1e-12);
        assert_eq!(amount("parse +12,000"), Ok(Amount::Absolute(12_000.0)));
        assert_eq!(amount("parse new"), Ok(Amount::New));
        let of_metric = Accepted::parse("c0ffee", "parse  page-faults +3").unwrap();
        assert_eq!(of_metric.metric.as_deref(), Some("page-faults"));
        for wrong in
            ["", "parse", "parse 2%", "parse -2%", "parse +", "parse +%", "parse +1e9", "a b c +1"]
        {
            assert!(amount(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn trailers_of_several_commits_add_up() {
        let read = |text| Accepted::parse("c0ffee", text).unwrap();
        let (one, two, new) = (read("parse +2.1%"), read("parse +100"), read("parse new"));
        assert!(accepts(&[&one], 1e6, 21_500.0), "2.15 % is 2.1 % with one decimal");
        assert!(!accepts(&[&one], 1e6, 21_501.0));
        assert!(accepts(&[&one, &two], 1e6, 21_600.0));
        assert!(accepts(&[&two], 0.0, 100.0) && !accepts(&[&two], 0.0, 101.0));
        assert!(!accepts(&[&new], 1e6, 1.0) && !accepts(&[], 1e6, 0.0));
    }
}
