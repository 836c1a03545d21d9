//! The call chains that lead to a function, as an indented tree.

use super::{View, behind, share};
use crate::render::page::{DIM, Page, align};
use opcost_base::number::grouped;
use opcost_profile::symbolise::Sampled;
use opcost_profile::table::{CallerTree, caller_tree};
use unicode_width::UnicodeWidthStr;

/// A caller with a smaller part of the function's cost is not shown by itself.
const PART_MIN: f64 = 0.05;
/// The same limit if only one function is shown.
const PART_MIN_ALONE: f64 = 0.005;
/// Columns that a line must leave for a name.
const NAME_WIDTH: usize = 40;
/// Levels of callers followed if many functions are shown.
const DEPTH_MAX: usize = 12;

/// Writes the tree below a function's row.
pub(super) fn tree(page: &mut Page, view: &View<'_>, at: usize) {
    let cost = &view.profile.table.functions[at];
    if cost.own == 0 && view.function.is_none() {
        return;
    }
    match &view.profile.sampled {
        Some(sampled) if cost.own > 0 => {
            let functions = &sampled.profile.functions;
            let number = functions.iter().position(|function| *function == cost.function);
            let Some(number) = number else { return };
            let root = caller_tree(sampled, number as u32);
            let drawing = Drawing {
                view,
                sampled,
                whole: root.cost,
                part_min: if view.function.is_some() { PART_MIN_ALONE } else { PART_MIN },
                depth_max: if view.function.is_some() { usize::MAX } else { DEPTH_MAX },
            };
            drawing.callers(page, &root, 4, 0);
        }
        _ => edges(page, view, at),
    }
}

/// Writes the direct callers of a function, if only those are known.
fn edges(page: &mut Page, view: &View<'_>, at: usize) {
    let table = &view.profile.table;
    for edge in table.callers(at) {
        let Some(caller) = edge.caller else { continue };
        let calls = edge.calls.map_or(String::new(), |calls| format!(", {} calls", grouped(calls)));
        let caller = &table.functions[caller].function;
        let name = page.name(&view.naming.symbol(caller), &behind(caller), page.width - 6);
        page.wrap(
            DIM,
            "    ← ",
            &format!("{name} {} with all it calls{calls}", view.share(edge.cost)),
        );
    }
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
    fn callers(&self, page: &mut Page, tree: &CallerTree, indent: usize, depth: usize) {
        let worth = |caller: &&CallerTree| {
            caller.cost as f64 >= self.part_min * self.whole as f64 && depth < self.depth_max
        };
        let shown: Vec<&CallerTree> = tree.callers.iter().filter(worth).collect();
        for caller in &shown {
            // Callers share a line as long as the chain does not branch.
            let mut last = *caller;
            let mut names = vec![self.name(last)];
            let mut deep = depth + 1;
            while let [next] = &last.callers[..]
                && next.cost == last.cost
                && deep < self.depth_max
            {
                names.push(self.name(next));
                last = next;
                deep += 1;
            }
            let part = align(&share(caller.cost, self.whole), 9);
            // At great depth, names need the room more than the indent.
            let room = indent.min(page.width / 2);
            self.line(page, &format!("{}{part} ", " ".repeat(room)), &names);
            self.callers(page, last, indent + 2, deep);
        }
        let rest = tree.callers.len() - shown.len();
        if rest > 0 && !shown.is_empty() && depth < self.depth_max {
            let cost: u64 = tree.callers.iter().filter(|one| !worth(one)).map(|one| one.cost).sum();
            let part = align(&share(cost, self.whole), 9);
            let room = indent.min(page.width / 2);
            let ending = if rest == 1 { "" } else { "s" };
            let line = format!("{}{part} ← {rest} other caller{ending}", " ".repeat(room));
            let line = page.paint(DIM, &line);
            page.line(&line);
        }
    }

    fn line(&self, page: &mut Page, mark: &str, names: &[String]) {
        let mut line = mark.to_string();
        for name in names {
            let most = name.width().min(NAME_WIDTH);
            if line.width() + 2 + most > page.width && line.width() > mark.width() {
                let painted = page.paint(DIM, &line);
                page.line(&painted);
                line = " ".repeat(mark.width());
            }
            let room = page.width.saturating_sub(line.width() + 3).max(10);
            let name = page.name(name, "", room);
            line += &format!("← {name} ");
        }
        let painted = page.paint(DIM, line.trim_end());
        page.line(&painted);
    }

    fn name(&self, tree: &CallerTree) -> String {
        let function = &self.sampled.profile.functions[tree.function as usize];
        self.view.naming.symbol(function).into_owned()
    }
}
