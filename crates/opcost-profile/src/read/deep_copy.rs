//! Reads what Instruments copies of a call tree (Edit, Deep Copy): a table with tabs, a row for each node, and a space before the
//! name for each caller. Figures are as exact as Instruments shows them.
//!
//! ```text
//! Weight          Self Weight     Symbol Name
//! 20.0 ms 100.0%  0 s              main
//! 15.0 ms  75.0%  15.0 ms           scan
//! ```

use super::about::{About, EventAbout};
use super::stack::Stacks;
use super::text::TextError;
use crate::symbolise::Sampled;
use opcost_record::Function;
use opcost_symbols::demangle::demangle;
use opcost_sys::budget::Budget;

/// The columns of a node's whole cost, and the event of each.
const WHOLE: [(&str, &str); 3] =
    [("Weight", "time"), ("Running Time", "time"), ("Bytes Used", "bytes")];
/// The event of a weight in cycles.
const CYCLES: &str = "cycles";
/// Units: the name, the event, and what one is in nanoseconds, bytes or cycles.
const UNITS: [(&str, &str, f64); 19] = [
    ("ns", "time", 1.0),
    ("µs", "time", 1e3),
    ("us", "time", 1e3),
    ("ms", "time", 1e6),
    ("s", "time", 1e9),
    ("min", "time", 60e9),
    ("h", "time", 3600e9),
    ("c", CYCLES, 1.0),
    ("cycles", CYCLES, 1.0),
    ("Kc", CYCLES, 1e3),
    ("Mc", CYCLES, 1e6),
    ("Gc", CYCLES, 1e9),
    ("Bytes", "bytes", 1.0),
    ("KB", "bytes", 1024.0),
    ("KiB", "bytes", 1024.0),
    ("MB", "bytes", 1_048_576.0),
    ("MiB", "bytes", 1_048_576.0),
    ("GB", "bytes", 1_073_741_824.0),
    ("GiB", "bytes", 1_073_741_824.0),
];

/// The columns of a table.
struct Columns {
    whole: usize,
    event: &'static str,
    /// The column of a node's own cost, and the unit in its name, `Self (ms)`.
    own: Option<(usize, Option<&'static str>)>,
    symbol: usize,
}

impl Columns {
    fn of(header: &str) -> Option<Columns> {
        let names: Vec<&str> = header.split('\t').map(str::trim).collect();
        let place = |wanted: &str| names.iter().position(|name| *name == wanted);
        let (whole, event) = WHOLE.iter().find_map(|(name, event)| Some((place(name)?, *event)))?;
        let symbol = place("Symbol Name").or_else(|| place("Symbol Names"))?;
        let own = names.iter().enumerate().find_map(|(at, name)| {
            let name = name.strip_prefix("Self")?;
            Some((
                at,
                UNITS.iter().map(|(unit, ..)| *unit).find(|unit| name == format!(" ({unit})")),
            ))
        });
        Some(Columns { whole, event, own, symbol })
    }
}

/// Whether a text looks like a copy of Instruments.
pub fn is_deep_copy(text: &str) -> bool {
    text.lines().next().and_then(Columns::of).is_some()
}

/// Parses `4.93 s  100.0%`; returns the event and the cost. A figure without a unit has the column's.
fn cost(text: &str, unit: Option<&str>) -> Option<(Option<&'static str>, u64)> {
    let text = text.trim();
    let end = text.find(|of: char| !of.is_ascii_digit() && of != '.').unwrap_or(text.len());
    let (figure, rest) = text.split_at(end);
    let figure: f64 = figure.parse().ok()?;
    let unit = rest.split_whitespace().next().or(unit);
    if figure == 0.0 {
        return Some((None, 0));
    }
    let (_, event, factor) = UNITS.iter().find(|(name, ..)| Some(*name) == unit)?;
    let cost = (figure * factor).round();
    (cost < 1e18).then_some((Some(*event), cost as u64))
}

/// A node whose callees may follow.
struct Node {
    function: u32,
    whole: u64,
    /// The own cost, if a column has it.
    own: Option<u64>,
    callees: u64,
}

/// Reads the text. Rows of another form are left out and counted.
///
/// `event`: the event that is wanted; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: another event, or no cost; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let mut lines = text.lines().enumerate();
    let columns = lines.next().and_then(|(_, header)| Columns::of(header));
    let columns =
        columns.ok_or_else(|| TextError::line(0, text, "not the header of a deep copy"))?;
    let mut stacks = Stacks::new(budget);
    let mut found = None;
    let mut first_depth = None;
    let mut open: Vec<Node> = Vec::new();
    for (index, line) in lines {
        budget.step(line.len() as u64 + size_of::<Node>() as u64)?;
        if line.trim().is_empty() {
            continue;
        }
        let row = Columns::row(&columns, line).filter(|row| row.depth >= first_depth.unwrap_or(0));
        let row = row.filter(|row| row.depth - first_depth.unwrap_or(row.depth) <= open.len());
        let same = |of: Option<&'static str>| of.is_none() || found.is_none() || of == found;
        let Some(row) = row.filter(|row| same(row.event)) else {
            stacks.losses.odd_lines.add(index, line);
            continue;
        };
        found = found.or(row.event);
        let depth = row.depth - *first_depth.get_or_insert(row.depth);
        close(&mut open, depth, &mut stacks)?;
        if let Some(caller) = open.last_mut() {
            caller.callees = caller.callees.saturating_add(row.whole);
        }
        let function = stacks.function(Function::new(demangle(row.name), ""));
        open.push(Node { function, whole: row.whole, own: row.own, callees: 0 });
    }
    close(&mut open, 0, &mut stacks)?;
    let known = found.unwrap_or(columns.event);
    if let Some(wanted) = event.filter(|wanted| *wanted != known) {
        return Err(TextError::no_event(wanted, &[known.to_string()]));
    }
    stacks.finish(About {
        format: "Instruments' deep copy",
        sampling: Some(EventAbout {
            clock: known == "time",
            bytes: known == "bytes",
            with_callers: true,
            ..EventAbout::default()
        }),
        event: known.into(),
        events: vec![known.into()],
        ..About::default()
    })
}

/// A row of the table.
struct Row<'t> {
    depth: usize,
    name: &'t str,
    event: Option<&'static str>,
    whole: u64,
    own: Option<u64>,
}

impl Columns {
    fn row<'t>(&self, line: &'t str) -> Option<Row<'t>> {
        let field = |at: usize| line.split('\t').nth(at);
        let name = field(self.symbol)?;
        let (event, whole) = cost(field(self.whole)?, None)?;
        let own = match self.own {
            // A dash is a cost of nothing.
            Some((at, unit)) => Some(cost(field(at)?, unit).map_or(0, |(_, own)| own)),
            None => None,
        };
        let depth = name.len() - name.trim_start_matches(' ').len();
        let name = name.trim();
        (!name.is_empty()).then_some(Row { depth, name, event, whole, own })
    }
}

/// Closes the nodes from a depth on, and charges each with its own cost.
fn close(open: &mut Vec<Node>, depth: usize, stacks: &mut Stacks<'_>) -> Result<(), TextError> {
    while open.len() > depth {
        let stack: Vec<u32> = open.iter().map(|node| node.function).collect();
        let Some(node) = open.pop() else { break };
        let own = node.own.unwrap_or(node.whole.saturating_sub(node.callees));
        stacks.add(&stack, own, 0, false)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FunctionTable;

    fn rows(text: &str) -> (Vec<(String, u64)>, About, Sampled) {
        let (about, sampled) = read(text, None, &Budget::default()).unwrap();
        let table = FunctionTable::of(&sampled);
        let row = |cost: &crate::table::FunctionCost| (cost.function.symbol.clone(), cost.own);
        (table.functions.iter().map(row).filter(|(_, own)| *own > 0).collect(), about, sampled)
    }

    fn row(symbol: &str, own: u64) -> (String, u64) {
        (symbol.into(), own)
    }

    #[test]
    fn a_nodes_own_cost_is_its_own_column_in_any_unit() {
        let (found, about, _) = rows(include_str!("../../tests/data/deep-copy.txt"));
        let expected =
            [row("scan(int*)", 16_000_000), row("memcpy", 3_000_000), row("hash", 1_000_000)];
        assert_eq!((&found[..], about.event.as_str()), (&expected[..], "time"));
        // Other versions pad names and shares, and have the unit in the column's name.
        let text = "Weight\tSelf Weight\tSymbol Names\n1.10 min  100.0%\t0 s\t   start\n2.45 s  \u{2007}0.0%\t846.00 ms\t    a\n";
        assert_eq!(rows(text).0, [row("a", 846_000_000)]);
        let text = "Running Time\tSelf (ms)\t\tSymbol Name\n9.0ms   90%\t0\t \tmain\n7.0ms   70%\t6\t \t f\n";
        assert_eq!(rows(text).0, [row("f", 6_000_000)]);
        let (found, about, _) =
            rows("Weight\tSelf Weight\t\tSymbol Name\n4.05 Gc 99%\t404.75 Mc\t \tf\n");
        assert_eq!((found, about.event.as_str()), (vec![row("f", 404_750_000)], "cycles"));
    }

    #[test]
    fn bytes_have_no_column_of_their_own() {
        let text = "Bytes Used\tCount\t\tSymbol Name\n 2.50 MB     100.0%\t9\t \tmain\n 512 Bytes   1.0%\t4\t \t f\n 1.00 KB   1.0%\t4\t \t f\n";
        let (found, about, sampled) = rows(text);
        assert_eq!(found, [row("main", 2_621_440 - 1536), row("f", 1536)]);
        assert!(about.sampling.unwrap().bytes && sampled.samples_known().is_none());
    }

    #[test]
    fn rows_of_another_form_are_left_out() {
        let text = "Weight\tSelf Weight\t\tSymbol Name\n9 ms 1%\t1 ms\t \tf\n1 ms 1%\t1 ms\t \t   deep\n1 lb 1%\t1 lb\t \t g\n3 Mc 1%\t1 Mc\t \t h\nodd\n2 ms 1%\t2 ms\t \t k\n";
        let (found, _, sampled) = rows(text);
        assert_eq!(found, [row("k", 2_000_000), row("f", 1_000_000)]);
        assert_eq!(
            (sampled.losses.odd_lines.lines, sampled.losses.odd_lines.first.unwrap().0),
            (4, 3)
        );
        let error = read(text, Some("bytes"), &Budget::default()).unwrap_err().to_string();
        assert_eq!(error, "it has no event bytes; it has time");
        assert!(!is_deep_copy("Weight 7\n") && is_deep_copy("Symbol Name\tWeight\n"));
    }
}
