//! The benchmarks of two builds.

use crate::{FunctionShare, Measured};
use std::fmt;
use std::str::FromStr;

/// How much dearer a benchmark may become, as a share of its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit(pub f64);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let share = percent
            .filter(|percent| percent.is_finite() && *percent >= 0.0)
            .map(|percent| percent / 100.0);
        share.map(Limit).ok_or_else(|| format!("'{text}' is no limit; write for example 0.1%"))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0 * 100.0)
    }
}

/// A benchmark that both builds have, or one of them.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// Instructions an iteration before and now; `None` where there is no such benchmark, or no figure.
    pub sides: [Option<f64>; 2],
    /// The functions that differ, the largest change first, with their change of instructions and of calls an iteration.
    pub functions: Vec<(FunctionShare, f64, f64)>,
    /// Why a side has no figure.
    pub why: Option<String>,
}

impl Change {
    /// The share by which the benchmark became dearer; `None` if one side has no figure.
    pub fn ratio(&self) -> Option<f64> {
        let [Some(before), Some(now)] = self.sides else { return None };
        Some(if before == now { 0.0 } else { now / before - 1.0 })
    }

    /// Whether a limit is exceeded.
    pub fn exceeds(&self, limit: Limit) -> bool {
        self.ratio().is_some_and(|ratio| ratio > limit.0)
    }
}

/// Compares the benchmarks of two builds by name.
pub fn changes(before: &[Measured], now: &[Measured]) -> Vec<Change> {
    fn named<'a>(name: &str, all: &'a [Measured]) -> Option<&'a Measured> {
        all.iter().find(|one| one.name == name)
    }
    let gone = before.iter().filter(|one| named(&one.name, now).is_none());
    now.iter()
        .chain(gone)
        .map(|one| {
            let sides = [named(&one.name, before), named(&one.name, now)];
            let why = sides.iter().zip(["before", "now"]).find_map(|(side, when)| match side {
                None => Some(format!("no such benchmark {when}")),
                Some(Measured { cost: Err(why), .. }) => Some(format!("{when}: {why}")),
                Some(_) => None,
            });
            let costs = sides.map(|side| side.and_then(|one| one.cost.as_ref().ok()));
            let functions = match costs {
                [Some(before), Some(now)] => differences(&before.functions, &now.functions),
                _ => Vec::new(),
            };
            Change {
                name: one.name.clone(),
                sides: costs.map(|cost| cost.map(|cost| cost.instructions)),
                functions,
                why,
            }
        })
        .collect()
}

fn differences(before: &[FunctionShare], now: &[FunctionShare]) -> Vec<(FunctionShare, f64, f64)> {
    // A program's path differs where two builds lie in two folders.
    let file =
        |share: &FunctionShare| share.module.rsplit('/').next().unwrap_or_default().to_owned();
    let same = |one: &FunctionShare, other: &FunctionShare| {
        one.symbol == other.symbol && (file(one) == file(other) || is_hashed(&file(one)))
    };
    let mut all: Vec<(FunctionShare, f64, f64)> = now
        .iter()
        .map(|share| {
            let old = before.iter().find(|old| same(old, share));
            let (instructions, calls) = old.map_or((0.0, 0.0), |old| (old.instructions, old.calls));
            (share.clone(), share.instructions - instructions, share.calls - calls)
        })
        .collect();
    let gone = before.iter().filter(|old| !now.iter().any(|share| same(old, share)));
    all.extend(gone.map(|old| (old.clone(), -old.instructions, -old.calls)));
    all.retain(|(_, instructions, calls)| *instructions != 0.0 || *calls != 0.0);
    all.sort_by(|one, other| other.1.abs().total_cmp(&one.1.abs()));
    all
}

/// Whether cargo made a file's name, of which the end is a hash of the build.
fn is_hashed(file: &str) -> bool {
    file.rsplit_once('-').is_some_and(|(_, hash)| {
        hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Slope;

    fn measured(name: &str, work: f64) -> Measured {
        let share = |symbol: &str, instructions: f64| FunctionShare {
            symbol: symbol.into(),
            module: "/a/b/suite".into(),
            instructions,
            calls: 1.0,
        };
        let slope = Slope {
            instructions: work + 10.0,
            points: vec![(1, 1), (2, 2)],
            is_line: Some(true),
            functions: vec![share("work", work), share("rest", 10.0)],
        };
        Measured { name: name.into(), framework: String::new(), cost: Ok(slope), notes: Vec::new() }
    }

    #[test]
    fn a_change_names_its_function() {
        let changes =
            changes(&[measured("a", 90.0), measured("gone", 1.0)], &[measured("a", 92.0)]);
        assert_eq!(changes[0].sides, [Some(100.0), Some(102.0)]);
        assert_eq!(changes[0].functions.len(), 1);
        assert_eq!(
            (changes[0].functions[0].0.symbol.as_str(), changes[0].functions[0].1),
            ("work", 2.0)
        );
        let limit = |text: &str| text.parse::<Limit>().unwrap();
        assert!(changes[0].exceeds(limit("1%")) && !changes[0].exceeds(limit("2.5%")));
        assert_eq!(changes[1].why.as_deref(), Some("no such benchmark now"));
        assert!(!changes[1].exceeds(limit("0%")));
        assert!("much".parse::<Limit>().is_err());
    }
}
