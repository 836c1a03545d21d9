//! The call chains that lead to a function, as an indented tree.

use super::{View, behind, share};
use opcost_base::number::grouped;
use opcost_page::document::{Cell, Row};
use opcost_profile::symbolise::Sampled;
use opcost_profile::table::{CallerTree, caller_tree};

/// A caller with a smaller part of the function's cost is not shown by itself.
const PART_MIN: f64 = 0.05;
/// The same limit if only one function is shown.
const PART_MIN_ALONE: f64 = 0.005;
/// Levels of callers followed if many functions are shown.
const DEPTH_MAX: usize = 12;

/// The tree below a function's row.
pub(super) fn tree(view: &View<'_>, at: usize) -> Vec<Row> {
    let cost = &view.profile.table.functions[at];
    if cost.own == 0 && view.function.is_none() {
        return Vec::new();
    }
    match &view.profile.sampled {
        Some(sampled) if cost.own > 0 => {
            let functions = &sampled.profile.functions;
            let number = functions.iter().position(|function| *function == cost.function);
            let Some(number) = number else { return Vec::new() };
            let root = caller_tree(sampled, number as u32);
            let drawing = Drawing {
                view,
                sampled,
                whole: root.cost,
                part_min: if view.function.is_some() { PART_MIN_ALONE } else { PART_MIN },
                depth_max: if view.function.is_some() { usize::MAX } else { DEPTH_MAX },
            };
            let mut rows = Vec::new();
            drawing.callers(&mut rows, &root, 1, 0);
            rows
        }
        _ => edges(view, at),
    }
}

/// A row of callers, `depth` below the function's row.
fn chain(depth: usize, part: String, names: Vec<String>) -> Row {
    let cells = [Cell::Chain(part, names)].into_iter();
    Row { depth, ..Row::of(cells.chain((0..4).map(|_| Cell::Empty)).collect()) }
}

/// The direct callers of a function, if only those are known.
fn edges(view: &View<'_>, at: usize) -> Vec<Row> {
    let table = &view.profile.table;
    let edges = table.callers(at).filter_map(|edge| {
        let calls = edge.calls.map_or(String::new(), |calls| format!(", {} calls", grouped(calls)));
        let caller = &table.functions[edge.caller?].function;
        let name = format!("{}{}", view.naming.symbol(caller), behind(caller));
        Some(chain(1, format!("{} with all it calls{calls}", view.share(edge.cost)), vec![name]))
    });
    edges.collect()
}

struct Drawing<'a> {
    view: &'a View<'a>,
    sampled: &'a Sampled,
    /// The function's own cost.
    whole: u64,
    part_min: f64,
    depth_max: usize,
}

impl Drawing<'_> {
    /// Adds the callers of a tree's root; `steps`: the callers between the function and the root.
    fn callers(&self, rows: &mut Vec<Row>, tree: &CallerTree, depth: usize, steps: usize) {
        let worth = |caller: &&CallerTree| {
            caller.cost as f64 >= self.part_min * self.whole as f64 && steps < self.depth_max
        };
        let shown: Vec<&CallerTree> = tree.callers.iter().filter(worth).collect();
        for caller in &shown {
            // Callers share a row as long as the chain does not branch.
            let mut last = *caller;
            let mut names = vec![self.name(last)];
            let mut steps = steps + 1;
            while let [next] = &last.callers[..]
                && next.cost == last.cost
                && steps < self.depth_max
            {
                names.push(self.name(next));
                last = next;
                steps += 1;
            }
            rows.push(chain(depth, share(caller.cost, self.whole), names));
            self.callers(rows, last, depth + 1, steps);
        }
        let rest = tree.callers.len() - shown.len();
        if rest > 0 && !shown.is_empty() && steps < self.depth_max {
            let cost: u64 = tree.callers.iter().filter(|one| !worth(one)).map(|one| one.cost).sum();
            let ending = if rest == 1 { "" } else { "s" };
            let others = vec![format!("{rest} other caller{ending}")];
            rows.push(chain(depth, share(cost, self.whole), others));
        }
    }

    fn name(&self, tree: &CallerTree) -> String {
        let function = &self.sampled.profile.functions[tree.function as usize];
        self.view.naming.symbol(function).into_owned()
    }
}
