//! The differences between the suites of a change and of its base.
//!
//! The cases come from the tip, so a change can raise its own limit or remove the case that it would fail. The report names every such
//! change, and a base whose suite has `protect = true` keeps its cases, figures and limits.

use super::suite::{Case, Drift, Suite, WatchedFigure};
use opcost_analysis::comparison::limit::Limit;
use serde::Serialize;
use std::fmt;
use toml::{Table, Value};

/// A difference between the suites of base and tip that may hide a cost.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct SuiteChange {
    /// The case's name.
    pub case: String,
    /// The setting, as the suite names it; `case` where the case went.
    pub setting: String,
    /// The base's value.
    pub from: String,
    /// The tip's value.
    pub to: String,
    /// Whether the tip is judged by the base's value all the same.
    pub kept: bool,
}

impl fmt::Display for SuiteChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SuiteChange { case, setting, from, to, .. } = self;
        match setting.as_str() {
            "case" => write!(f, "case {case} went"),
            _ => write!(f, "{setting} of {case}: {from} → {to}"),
        }
    }
}

/// The value of a setting that is not there.
const NONE: &str = "none";

/// Compares the suites of base and tip, and keeps what the base protects.
///
/// Cases that are new in the tip are no change: they have their own sentence in the report.
///
/// `tip`: the tip's suite; cases that went, looser limits and lacking figures are put back if the base protects its suite.
pub fn compared(base: &Suite, tip: &mut Suite) -> Vec<SuiteChange> {
    let mut changes = Vec::new();
    for old in &base.cases {
        let case = old.name.clone();
        let Some(new) = tip.cases.iter_mut().find(|new| new.name == case) else {
            let setting = "case".into();
            let (from, to) = ("there".into(), "gone".into());
            changes.push(SuiteChange { case, setting, from, to, kept: base.protect });
            if base.protect {
                tip.cases.push(old.clone());
            }
            continue;
        };
        let mut differs = |setting: &str, from: String, to: String, kept: bool| {
            if from != to {
                changes.push(SuiteChange {
                    case: case.clone(),
                    setting: setting.into(),
                    from,
                    to,
                    kept,
                });
            }
        };
        let is_looser = looser(old.limit, new.limit);
        differs("limit", limit_words(old), limit_words(new), base.protect && is_looser);
        let drift = |case: &Case| case.drift.map_or(NONE.into(), |drift| drift.to_string());
        let drifts_more = is_looser_drift(old.drift, new.drift);
        differs("drift", drift(old), drift(new), base.protect && drifts_more);
        let lacks = figures(old).iter().any(|figure| !figures(new).contains(figure));
        let words = |case: &Case| figures(case).join(", ");
        differs("metric", words(old), words(new), base.protect && lacks);
        let of_build = |case: &Case| {
            [
                ("build", case.build.clone().unwrap_or(NONE.into())),
                ("artifact", case.artifact.join(", ")),
                ("compiler", case.compiler.clone().unwrap_or(NONE.into())),
                ("fixup", fixup_words(case)),
            ]
        };
        for ((setting, from), (_, to)) in of_build(old).into_iter().zip(of_build(new)) {
            differs(setting, from, to, false);
        }
        let (before, after) = (settings(old), settings(new));
        let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let words = |of: &Table| of.get(key).map_or(NONE.into(), Value::to_string);
            differs(key, words(&before), words(&after), false);
        }
        if base.protect && is_looser {
            new.limit = old.limit;
        }
        if base.protect && drifts_more {
            new.drift = old.drift;
        }
        if base.protect && lacks {
            new.watched.clone_from(&old.watched);
            new.experiment.primary.clone_from(&old.experiment.primary);
        }
    }
    changes
}

/// Whether the second limit permits a change that the first does not; without a limit, only the layout floor is permitted.
fn looser(old: Option<Limit>, new: Option<Limit>) -> bool {
    let part = |old: Option<f64>, new: Option<f64>| match (old, new) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(old), Some(new)) => new > old,
    };
    let Some(new) = new else { return false };
    let Some(old) = old else { return true };
    // A change is permitted that is within either part.
    let value = |limit: Limit| limit.absolute.map(|absolute| absolute.value);
    let unit = |limit: Limit| limit.absolute.map(|absolute| absolute.unit);
    part(old.ratio, new.ratio)
        || part(value(old), value(new))
        || (unit(old) != unit(new) && new.absolute.is_some())
}

/// Whether the second drift permits a sum of changes that the first does not; fewer commits permit the same sum more often.
fn is_looser_drift(old: Option<Drift>, new: Option<Drift>) -> bool {
    let Some(old) = old else { return false };
    new.is_none_or(|new| new.commits < old.commits || looser(Some(old.limit), Some(new.limit)))
}

fn fixup_words(case: &Case) -> String {
    let fixups: Vec<String> = case.fixups.iter().map(ToString::to_string).collect();
    if fixups.is_empty() { NONE.into() } else { fixups.join(", ") }
}

fn limit_words(case: &Case) -> String {
    case.limit.map_or("the layout floor".into(), |limit| limit.to_string())
}

/// The names of the figures by which a case is judged.
fn figures(case: &Case) -> Vec<String> {
    match &case.watched[..] {
        [] => vec![case.usual_metric()],
        watched => watched
            .iter()
            .map(|figure| match figure {
                WatchedFigure::Metric(name) => name.clone(),
                WatchedFigure::Function(name) => format!("function {name}"),
            })
            .collect(),
    }
}

/// The settings of a case's experiment: what is run, and where.
fn settings(case: &Case) -> Table {
    let mut table = Table::try_from(&case.experiment).unwrap_or_default();
    // The name has the case's, and the figures stand by themselves.
    table.remove("name");
    table.remove("primary");
    if let Some(Value::Array(variants)) = table.remove("variant") {
        table.extend(
            variants.into_iter().filter_map(|variant| variant.try_into::<Table>().ok()).flatten(),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "limit = '0.1%'\n[case.count]\ncommand = './words count'\nbuild = 'make'\n\
                        metric = ['instructions', 'branches']\n[case.sort]\ncommand = './words sort'\n";

    fn changes(base: &str, tip: &str) -> (Vec<String>, Suite) {
        let mut suite = Suite::parse(tip).unwrap();
        let changes = compared(&Suite::parse(base).unwrap(), &mut suite);
        (changes.iter().map(ToString::to_string).collect(), suite)
    }

    #[test]
    fn the_same_suite_and_further_cases_are_no_change() {
        let more = format!("{BASE}[case.text]\ncommand = './words text'\n");
        assert_eq!(changes(BASE, &more).0, Vec::<String>::new());
    }

    #[test]
    fn each_setting_that_changed_is_named() {
        let tip = "limit = '900%'\n[case.count]\ncommand = './words nothing'\nbuild = 'true'\nseed = 5\n\
                   metric = 'branches'\n[[fixup]]\ncommits = '..v2'\nrun = 'true'\n";
        let (named, suite) = changes(BASE, tip);
        assert_eq!(
            named,
            [
                "limit of count: 0.10 % → 900.0 %",
                "metric of count: instructions, branches → branches",
                "build of count: make → true",
                "fixup of count: none → true (..v2)",
                "command of count: \"./words count\" → \"./words nothing\"",
                "seed of count: none → 5",
                "case sort went",
            ]
        );
        assert_eq!(suite, Suite::parse(tip).unwrap(), "nothing is protected");
    }

    #[test]
    fn a_protected_suite_keeps_cases_limits_and_figures() {
        let base = format!("protect = true\n{BASE}");
        let tip = "limit = '900%'\n[case.count]\ncommand = './words count'\nbuild = 'make'\nmetric = 'wall'\n";
        let (_, suite) = changes(&base, tip);
        let kept = Suite::parse(&base).unwrap();
        assert_eq!(suite.cases, kept.cases);
        let mut tighter = Suite::parse(&base.replace("0.1%", "0.05%")).unwrap();
        let made = compared(&kept, &mut tighter);
        assert!(made.iter().all(|change| !change.kept), "{made:?}");
        assert_eq!(tighter.cases[0].limit.unwrap().ratio, Some(0.0005));
    }

    #[test]
    fn a_protected_drift_is_not_loosened() {
        let with = |drift: &str| format!("protect = true\n{drift}{BASE}");
        let base = with("drift = '1% in 20'\n");
        for looser in ["", "drift = '2% in 20'\n", "drift = '1% in 10'\n"] {
            let (named, suite) = changes(&base, &with(looser));
            assert!(named[0].starts_with("drift of count: 1.00 % in 20 → "), "{named:?}");
            assert_eq!(suite.cases, Suite::parse(&base).unwrap().cases, "{looser}");
        }
        let stricter = with("drift = '0.5% in 30'\n");
        assert_eq!(changes(&base, &stricter).1, Suite::parse(&stricter).unwrap());
    }

    #[test]
    fn a_limit_is_looser_if_it_permits_more() {
        let limit = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        for (old, new, expected) in [
            ("", "0%", true),
            ("1%", "", false),
            ("1%", "1%", false),
            ("1%", "1.1%", true),
            ("1%", "1% or 5", true),
            ("1% or 5", "1%", false),
            ("1% or 5", "0.5% or 6", true),
            ("5ms", "5KiB", true),
            ("5ms", "1%", true),
        ] {
            assert_eq!(looser(limit(old), limit(new)), expected, "{old} → {new}");
        }
    }
}
