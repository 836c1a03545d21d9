//! Functions that changed exactly between two revisions: no seed and no layout moves them.

use super::counts::{FunctionCounts, PER_OPERATIONS};
use opcost_analysis::comparison::function_changes::exact_in_words;
use opcost_analysis::split::{Split, split};
use opcost_record::metric::SYNCHRONOUS;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// A function's own instructions on two revisions, the same in every layout of the base.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExactChange {
    /// The function.
    pub function: String,
    /// Its own instructions before and after.
    pub own: [u64; 2],
    /// Its calls before and after.
    pub calls: [u64; 2],
    /// Whether it is a function of the kernel.
    pub is_kernel: bool,
}

impl ExactChange {
    /// The change of the own instructions.
    pub fn change(&self) -> i128 {
        i128::from(self.own[1]) - i128::from(self.own[0])
    }

    /// Own instructions and calls before and after, as figures.
    fn figures(&self) -> [[f64; 2]; 2] {
        [self.own, self.calls].map(|sides| sides.map(|count| count as f64))
    }

    /// The parts of the change: more or fewer calls, and dearer or cheaper calls. `None` if a side has cost and no calls.
    pub fn split(&self) -> Option<Split> {
        let [own, calls] = self.figures();
        split(own, calls)
    }

    /// The change in words: `do_mmap +7 a call`.
    pub fn words(&self) -> String {
        let [own, calls] = self.figures();
        let alike = self.calls[0] == self.calls[1] && self.calls[0] > 0;
        let per_call = alike.then(|| (own[1] - own[0]) / calls[0]);
        exact_in_words(&self.function, own, calls, per_call, "")
    }
}

impl Serialize for ExactChange {
    /// Writes the fields, and the parts of the change.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let split = self.split();
        let mut fields = to.serialize_struct("ExactChange", 6)?;
        fields.serialize_field("function", &self.function)?;
        fields.serialize_field("own", &self.own)?;
        fields.serialize_field("calls", &self.calls)?;
        fields.serialize_field("change_from_calls", &split.map(|split| split.from_calls))?;
        fields.serialize_field("change_from_price", &split.map(|split| split.from_price))?;
        fields.serialize_field("is_kernel", &self.is_kernel)?;
        fields.end()
    }
}

/// The functions that changed exactly, the largest changes first: in none of the layouts of either revision did a function spend other
/// instructions than in the first. Empty if the base was counted in one layout only, or without profiles.
pub fn exact_changes(base: &FunctionCounts, tip: &FunctionCounts) -> Vec<ExactChange> {
    if base.layouts < 2 || base.own.is_empty() || tip.own.is_empty() {
        return Vec::new();
    }
    let mut names: Vec<&String> = base.own.keys().chain(tip.own.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let of = |name: &String| {
        let [before, after] = [base, tip].map(|side| side.own.get(name).copied());
        let [before, after] = [before.unwrap_or_default(), after.unwrap_or_default()];
        let is_steady = !base.varying.contains(name) && !tip.varying.contains(name);
        (is_steady && before.own != after.own).then(|| ExactChange {
            function: name.clone(),
            own: [before.own, after.own],
            calls: [before.calls, after.calls],
            is_kernel: before.is_kernel || after.is_kernel,
        })
    };
    let mut changes: Vec<ExactChange> = names.into_iter().filter_map(of).collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.change().unsigned_abs()));
    changes
}

/// The changes of functions whose instructions a metric counts; none for a metric that counts no instructions, or only those of a
/// region, of one CPU, of ticks or of deferred work. [`SYNCHRONOUS`] leaves out those that its functions spend in deferred work.
pub fn of_metric<'a>(changes: &'a [ExactChange], metric: &str) -> Vec<&'a ExactChange> {
    let metric = metric.strip_suffix(PER_OPERATIONS).unwrap_or(metric);
    let name = metric.split(':').next().unwrap_or(metric);
    if !["instructions", SYNCHRONOUS].contains(&name) {
        return Vec::new();
    }
    let is_counted = |change: &&ExactChange| match metric.rsplit_once(':') {
        Some((_, "k")) => change.is_kernel,
        Some((_, "u")) => !change.is_kernel,
        _ => true,
    };
    changes.iter().filter(is_counted).collect()
}

/// The largest changes in words, the others as a number: `do_mmap +7 a call, vfs_read +3 a call and 2 more functions`.
pub fn list(changes: &[&ExactChange], most: usize) -> String {
    let mut words: Vec<String> = changes.iter().take(most).map(|change| change.words()).collect();
    match changes.len() - words.len() {
        0 => {}
        1 => words.push("1 more function".into()),
        more => words.push(format!("{more} more functions")),
    }
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::counts::OwnCount;

    fn counts(layouts: u32, varying: &[&str], of: &[(&str, u64, u64)]) -> FunctionCounts {
        let own = |&(name, own, calls): &(&str, u64, u64)| {
            let is_kernel = name != "main";
            (name.to_string(), OwnCount { own, calls, is_kernel })
        };
        FunctionCounts {
            own: of.iter().map(own).collect(),
            varying: varying.iter().map(|name| name.to_string()).collect(),
            layouts,
            ..FunctionCounts::default()
        }
    }

    fn words(changes: &[ExactChange]) -> Vec<String> {
        changes.iter().map(ExactChange::words).collect()
    }

    #[test]
    fn what_layouts_move_is_not_exact() {
        let base = counts(
            11,
            &["free_pages"],
            &[("do_mmap", 500, 10), ("free_pages", 900, 3), ("main", 50, 1), ("old", 20, 4)],
        );
        let tip = counts(
            1,
            &[],
            &[("do_mmap", 570, 10), ("free_pages", 90_000, 90), ("main", 40, 1), ("check", 60, 10)],
        );
        let changes = exact_changes(&base, &tip);
        assert_eq!(
            words(&changes),
            [
                "do_mmap +7 a call",
                "check (new, 6 a call)",
                "old (gone, 5 a call before)",
                "main −10 a call"
            ]
        );
        assert_eq!(changes.iter().map(ExactChange::change).sum::<i128>(), 70 + 60 - 20 - 10);
        let named =
            |metric| words(&of_metric(&changes, metric).into_iter().cloned().collect::<Vec<_>>());
        assert_eq!(named("instructions:u"), ["main −10 a call"]);
        assert_eq!(named("instructions:u/Mop"), ["main −10 a call"]);
        assert_eq!(named("instructions:k").len(), 3);
        assert_eq!(named("instructions-synchronous:k"), named("instructions:k"));
        for other in ["page-faults", "instructions-tick:k", "instructions-cpu0"] {
            assert_eq!(named(other), Vec::<String>::new(), "{other}");
        }
        let all: Vec<&ExactChange> = changes.iter().collect();
        assert_eq!(list(&all, 2), "do_mmap +7 a call, check (new, 6 a call) and 2 more functions");
        assert_eq!(list(&all[..1], 2), "do_mmap +7 a call");
        let more = ExactChange {
            function: "kmalloc".into(),
            own: [1000, 1240],
            calls: [10, 12],
            is_kernel: true,
        };
        assert_eq!(more.words(), "kmalloc +240 (calls +2: +200, dearer: +40)");
        let same_price = ExactChange { own: [1000, 1200], ..more };
        assert_eq!(same_price.words(), "kmalloc +200 (calls +2)");
        // One layout of the base says nothing about layouts.
        assert_eq!(exact_changes(&FunctionCounts { layouts: 1, ..base.clone() }, &tip), []);
        // A function that other layouts of the tip move is not exact either.
        let tip = FunctionCounts { varying: ["do_mmap".to_string()].into(), layouts: 11, ..tip };
        assert_eq!(exact_changes(&base, &tip)[0].function, "check");
        assert_eq!(exact_changes(&base, &base), []);
    }
}
