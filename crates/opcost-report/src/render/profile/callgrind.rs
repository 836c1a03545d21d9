//! Callgrind's format (Valgrind manual, "Callgrind Format Specification"), which KCachegrind, QCachegrind and
//! callgrind_annotate show: own costs by function, and the inclusive costs and numbers of calls between functions.
//!
//! Every name is written with its number, so no name is taken for one. Positions are lines; 0 is an unknown one. Calls have the
//! first line of their caller, since nothing counts them by line.

use super::of_runs;
use opcost_analysis::comparison::call_tree::CallTree;
use opcost_profile::table::{FunctionCost, FunctionTable};
use opcost_record::Function;
use opcost_record::printable::{inert_line, printable};
use opcost_symbols::naming::Naming;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// The placeholder for an unknown file or name.
const UNKNOWN: &str = "???";

/// The source lines of functions.
pub type LineCosts = HashMap<Function, FunctionLines>;

/// The source lines of a function's code.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FunctionLines {
    /// The source file of the function itself.
    pub file: String,
    /// The function's first line; 0 if it is not known.
    pub line: u32,
    /// The costs by file and line, also of functions inlined there; they add up to the function's own cost.
    pub costs: BTreeMap<(String, u32), u64>,
}

/// What a function costs.
#[derive(Clone, Default)]
struct Costs {
    own: u64,
    /// By callee: the number of calls, and the inclusive cost.
    calls: BTreeMap<usize, (u64, u64)>,
}

impl Costs {
    fn call(&mut self, callee: usize, calls: u64, cost: u64) {
        let sums = self.calls.entry(callee).or_default();
        sums.0 = sums.0.saturating_add(calls);
        // A function that calls itself counts its inner calls again; readers leave such calls out of inclusive costs.
        sums.1 = sums.1.saturating_add(cost);
    }
}

/// The head of a file.
struct Head<'t> {
    command: &'t str,
    /// Where the costs are from.
    from: String,
    event: &'t str,
    total: u64,
}

/// The file of the first variant of a tree.
pub(super) fn render_lines(tree: &CallTree, lines: &LineCosts) -> String {
    let mut costs = vec![Costs::default(); tree.functions.len()];
    for node in &tree.nodes {
        costs[node.function].own += node.own[0];
        if let Some(parent) = node.parent {
            let caller = tree.nodes[parent].function;
            costs[caller].call(node.function, node.calls[0], node.inclusive[0]);
        }
    }
    let side = &tree.sides[0];
    let ops = if tree.per_op { format!(", {} operations", side.ops) } else { String::new() };
    let from = format!("{}: {}{}{ops}", side.recording, tree.counted.words, of_runs(side.runs));
    let head = Head { command: &side.name, from, event: &tree.counted.event, total: side.total };
    written(&head, &tree.functions.iter().collect::<Vec<_>>(), &costs, lines)
}

/// The file of a profile without stacks; `name`: the profile's.
pub(super) fn render_table(table: &FunctionTable, event: &str, name: &str) -> String {
    let own = |cost: &FunctionCost| Costs { own: cost.own, ..Costs::default() };
    let mut costs: Vec<Costs> = table.functions.iter().map(own).collect();
    for edge in &table.edges {
        if let Some(caller) = edge.caller {
            costs[caller].call(edge.callee, edge.calls.unwrap_or(0), edge.cost);
        }
    }
    let functions: Vec<&Function> = table.functions.iter().map(|cost| &cost.function).collect();
    let head = Head { command: name, from: event.to_string(), event, total: table.total };
    written(&head, &functions, &costs, &LineCosts::new())
}

fn written(head: &Head<'_>, functions: &[&Function], costs: &[Costs], lines: &LineCosts) -> String {
    let Head { command, from, event, total } = head;
    let mut text = format!(
        "# callgrind format\nversion: 1\ncreator: opcost {}\ncmd: {}\ndesc: Recording: {}\npositions: line\nevents: {}\n\
         summary: {total}\n",
        env!("CARGO_PKG_VERSION"),
        line(command),
        line(from),
        word(event),
    );
    let naming = Naming::of(functions.iter().copied());
    let mut names = Names { naming, known: Default::default() };
    for (costs, function) in costs.iter().zip(functions) {
        let calls: Vec<_> = costs.calls.iter().filter(|(_, figures)| **figures != (0, 0)).collect();
        if costs.own == 0 && calls.is_empty() {
            continue;
        }
        text.push('\n');
        let known = lines.get(*function);
        names.place(&mut text, ["ob", "fl", "fn"], function, known);
        let first = known.map_or(0, |known| known.line);
        let by_line = known.filter(|known| known.costs.values().sum::<u64>() == costs.own);
        match by_line {
            None => {
                let _ = writeln!(text, "{first} {}", costs.own);
            }
            Some(known) => {
                let mut current = &known.file;
                for ((file, line), cost) in &known.costs {
                    // The file of an inlined function, and the function's own again.
                    if file != current {
                        let key = if *file == known.file { "fe" } else { "fi" };
                        names.file(&mut text, key, file);
                        current = file;
                    }
                    let _ = writeln!(text, "{line} {cost}");
                }
                if *current != known.file {
                    names.file(&mut text, "fe", &known.file);
                }
            }
        }
        for (callee, (calls, cost)) in calls {
            let callee = functions[*callee];
            let known = lines.get(callee);
            names.place(&mut text, ["cob", "cfi", "cfn"], callee, known);
            let at = known.map_or(0, |known| known.line);
            // callgrind_annotate takes the cost of no calls for the caller's own.
            let _ = writeln!(text, "calls={} {at}\n{first} {cost}", calls.max(&1));
        }
    }
    let _ = writeln!(text, "\ntotals: {total}");
    text
}

/// A text within a line.
fn line(text: &str) -> String {
    inert_line(&printable(&text.replace(['\n', '\r'], " ")))
}

/// An event as one word.
fn word(event: &str) -> String {
    let word = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
    event.chars().map(word).collect()
}

/// The names of objects, files and functions.
struct Names {
    naming: Naming,
    /// The numbers of names.
    known: [HashMap<String, usize>; 3],
}

/// The source file that tells a function from others; `None` if a hash or an address does, or nothing.
fn source_file(function: &Function) -> Option<&str> {
    let is_hash = |digits: &str| digits.len() == 16 && u64::from_str_radix(digits, 16).is_ok();
    let is_file = |source: &&str| {
        let is_address = source.trim_start_matches('+').starts_with("0x");
        !is_address && !source.strip_prefix('h').is_some_and(is_hash)
    };
    function.source.as_deref().filter(is_file)
}

impl Names {
    /// Writes the lines that name a function: its object, its source file and itself.
    fn place(
        &mut self,
        text: &mut String,
        keys: [&str; 3],
        function: &Function,
        lines: Option<&FunctionLines>,
    ) {
        let file = lines.map(|lines| lines.file.as_str()).or(source_file(function));
        let file = file.unwrap_or_default();
        // Viewers know a function by its object, file and name alone.
        let symbol = match &function.source {
            Some(source) if file.ends_with(source) => Cow::Borrowed(function.symbol.as_str()),
            _ => self.naming.symbol(function),
        };
        let parts = [function.module.as_str(), file, &symbol];
        for ((key, part), known) in keys.into_iter().zip(parts).zip(&mut self.known) {
            name(text, known, key, part);
        }
    }

    /// Writes the line that names a source file.
    fn file(&mut self, text: &mut String, key: &str, file: &str) {
        name(text, &mut self.known[1], key, file);
    }
}

fn name(text: &mut String, known: &mut HashMap<String, usize>, key: &str, part: &str) {
    let part = if part.is_empty() { UNKNOWN } else { part };
    let next = known.len() + 1;
    let _ = match known.get(part) {
        Some(number) => writeln!(text, "{key}=({number})"),
        None => {
            known.insert(part.to_string(), next);
            writeln!(text, "{key}=({next}) {}", line(part))
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::profile::any_tree::any_tree;
    use opcost_analysis::comparison::call_tree::fixture::tree;
    use opcost_profile::read::callgrind::read;
    use opcost_sys::budget::Budget;
    use proptest::prelude::*;

    fn again(tree: &CallTree) -> FunctionTable {
        read(&render_lines(tree, &LineCosts::new()), [], None, &Budget::default()).unwrap().1
    }

    #[test]
    fn functions_calls_and_their_costs_are_written() {
        let made = tree(
            &["one"],
            &[
                (None, "main@/bin/work", &[(1, 10)]),
                (Some(0), "read", &[(5, 0)]),
                (Some(1), "(below main)@/lib/libc.so.6", &[(5, 7)]),
                (Some(0), "(below main)@/lib/libc.so.6", &[(1, 3)]),
            ],
        );
        let text = render_lines(&made, &LineCosts::new());
        let expected = "positions: line\nevents: instructions\nsummary: 20\n\nob=(1) /bin/work\nfl=(1) ???\nfn=(1) main\n0 10\n\
            cob=(2) [kernel]\ncfi=(1)\ncfn=(2) read\ncalls=5 0\n0 7\ncob=(3) /lib/libc.so.6\ncfi=(1)\ncfn=(3) (below main)\n\
            calls=1 0\n0 3\n\nob=(2)\nfl=(1)\nfn=(2)\n0 0\ncob=(3)\ncfi=(1)\ncfn=(3)\ncalls=5 0\n0 7\n\n\
            ob=(3)\nfl=(1)\nfn=(3)\n0 10\n\ntotals: 20\n";
        assert!(text.ends_with(expected), "{text}");
        let desc = "\ncmd: one\ndesc: Recording: 261121-c0ffee: instructions of 10 runs, 1000 operations\n";
        assert!(text.contains(desc), "{text}");
    }

    #[test]
    fn lines_of_inlined_functions_have_their_files() {
        let made = tree(
            &["one"],
            &[(None, "main@/bin/work", &[(1, 10)]), (Some(0), "f@/bin/work", &[(2, 5)])],
        );
        let at = |file: &str, line| (file.to_string(), line);
        let lines = |file: &str, line, costs: &[((String, u32), u64)]| FunctionLines {
            file: file.into(),
            line,
            costs: costs.iter().cloned().collect(),
        };
        let all = [(at("a.c", 3), 2), (at("list.h", 9), 7), (at("main.c", 4), 1)];
        let mut known = LineCosts::from([
            (Function::new("main", "/bin/work"), lines("a.c", 2, &all)),
            // Costs that do not add up are not told apart by line.
            (Function::new("f", "/bin/work"), lines("f.c", 7, &[(at("f.c", 8), 4)])),
        ]);
        let text = render_lines(&made, &known);
        let expected = "fl=(1) a.c\nfn=(1) main\n3 2\nfi=(2) list.h\n9 7\nfi=(3) main.c\n4 1\nfe=(1)\ncob=(1)\n\
            cfi=(4) f.c\ncfn=(2) f\ncalls=2 7\n2 5\n\nob=(1)\nfl=(4)\nfn=(2)\n7 5\n\ntotals: 15\n";
        assert!(text.ends_with(expected), "{text}");
        let table = read(&text, [], None, &Budget::default()).unwrap().1;
        let own: Vec<u64> = table.functions.iter().map(|cost| cost.own).collect();
        assert_eq!((own, table.functions[0].inclusive), (vec![10, 5], Some(15)));
        known.clear();
        assert!(render_lines(&made, &known).contains("\nfl=(1) ???\nfn=(1) main\n0 10\n"));
    }

    #[test]
    fn functions_of_one_name_stay_apart_by_file_hash_or_address() {
        let names = ["h88909c4be1a890e6", "had1a77e9ee20fb9f", "+0x169c10", "list.c", "hash.c"];
        let functions = names.map(|source| Function {
            source: Some(source.into()),
            ..Function::new("run", "/init")
        });
        let costs = |function: &Function| FunctionCost {
            function: function.clone(),
            own: 1,
            inclusive: None,
            samples: None,
            calls: None,
            bytes: None,
            inlined_samples: 0,
        };
        let table = FunctionTable {
            functions: functions.iter().map(costs).collect(),
            total: 5,
            ..FunctionTable::default()
        };
        let text = render_table(&table, "instructions", "one");
        let expected = "ob=(1) /init\nfl=(1) ???\nfn=(1) run [h88909c4be1a890e6]\n0 1\n\n\
            ob=(1)\nfl=(1)\nfn=(2) run [had1a77e9ee20fb9f]\n0 1\n\n\
            ob=(1)\nfl=(1)\nfn=(3) run [+0x169c10]\n0 1\n\n\
            ob=(1)\nfl=(2) list.c\nfn=(4) run\n0 1\n\n\
            ob=(1)\nfl=(3) hash.c\nfn=(4)\n0 1\n\ntotals: 5\n";
        assert!(text.ends_with(expected), "{text}");
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_again(tree in any_tree()) {
            prop_assume!(tree.sides[0].total > 0);
            let table = again(&tree);
            prop_assert_eq!((table.total, table.unattributed), (tree.sides[0].total, 0));
            // A profile that was read is written with all that it had.
            let text = render_table(&table, "instructions", "one");
            let third = read(&text, [], None, &Budget::default()).unwrap().1;
            prop_assert_eq!(&third, &table);
            for (at, function) in tree.functions.iter().enumerate() {
                let nodes = || tree.nodes.iter().filter(|node| node.function == at);
                let own: u64 = nodes().map(|node| node.own[0]).sum();
                let found = table.functions.iter().find(|cost| cost.function == *function);
                prop_assert_eq!(found.map_or(0, |cost| cost.own), own);
                // A node below another one of its function is within that one's inclusive cost.
                let outer = nodes().filter(|node| {
                    let above = |at: &usize| tree.nodes[*at].parent;
                    let mut callers = std::iter::successors(node.parent, above);
                    !callers.any(|caller| tree.nodes[caller].function == at)
                });
                let inclusive: u64 = outer.map(|node| node.inclusive[0]).sum();
                if let Some(known) = found.and_then(|cost| cost.inclusive) {
                    prop_assert_eq!(known, inclusive);
                }
            }
        }
    }
}
