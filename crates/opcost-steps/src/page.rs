//! Two operations side by side as a part of a report.

use crate::align::{Line, LineKind, SteppedDifference};
use crate::parting::{Branched, Parting, Why};
use opcost_page::document::{Block, Cell, Code, Column, Document, Mark, Row, Table, Tone};
use serde_json::{Value, json};

/// The most lines of a table; the page for a browser has them all.
const SHOWN_MAX: usize = 48;
/// The most lines of a call of one side that a table shows.
const INSIDE_MAX: usize = 6;
/// The deepest indent of a table.
const INDENT_MAX: usize = 12;
/// The most lines in JSON.
const JSON_MAX: usize = 10_000;

/// The conclusion if only what stands apart differs.
const ELSEWHERE: &str = "the task in which the work began has the same steps on both sides; interrupts, other tasks or other CPUs \
                         make the difference: --steps=FUNCTION shows a call of theirs";

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn change(line: &Line) -> String {
    let [one, other] = line.total.map(|total| total.unwrap_or(0));
    change_of(one, other)
}

fn change_of(one: u64, other: u64) -> String {
    match other.cmp(&one) {
        std::cmp::Ordering::Equal => "=".into(),
        std::cmp::Ordering::Greater => format!("+{}", grouped(other - one)),
        std::cmp::Ordering::Less => format!("−{}", grouped(one - other)),
    }
}

fn calls(number: u64) -> String {
    format!("{} call{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// What one of so many repetitions costs: the change, or on one side its instructions.
fn each(line: &Line, times: u64) -> String {
    match line.total.map(|total| total.map(|total| total / times)) {
        [Some(one), Some(other)] => change_of(one, other),
        [one, other] => grouped(one.or(other).unwrap_or(0)),
    }
}

/// The words for a line.
fn label(line: &Line) -> String {
    match line.kind {
        LineKind::Same(1) => format!("… {}, the same", line.name),
        LineKind::Same(number) => format!("… {}, the same", calls(number)),
        LineKind::Again(number, lines) => {
            let what = match lines {
                1 => line.name.clone(),
                lines => format!("these {lines}"),
            };
            format!("… {} more of {what}, each {}", grouped(number), each(line, number))
        }
        LineKind::Above => "… inside, as above".into(),
        LineKind::Inside(_, number) => format!("… {} inside", calls(number)),
        LineKind::Apart => "[interrupts, other tasks]".into(),
        LineKind::Both | LineKind::One(_) => line.name.clone(),
    }
}

/// What the operations of a side are, in words.
fn subject(found: &SteppedDifference, side: usize) -> String {
    let [operation, told, all, _] = found.operations[side];
    match (operation, told) {
        (0, _) => "the whole run".into(),
        (operation, told) => {
            let [.., median, _] = found.ranges[side];
            let word = if median == found.totals[side] { ", a median one" } else { "" };
            let of =
                if told < all { format!("{} told apart", grouped(told)) } else { grouped(told) };
            format!("operation {} of {of}{word}", grouped(operation))
        }
    }
}

/// Whether there is one side only.
fn is_alone(found: &SteppedDifference) -> bool {
    found.sides[0] == found.sides[1]
}

/// Adds the comparison to a report, with its first lines.
pub fn add(document: &mut Document, found: &SteppedDifference) {
    add_lines(document, found, &brief(&found.lines), SHOWN_MAX);
}

/// The comparison with all lines.
pub fn whole(found: &SteppedDifference) -> Document {
    let mut document = Document::default();
    add_lines(&mut document, found, &found.lines, usize::MAX);
    document
}

fn add_lines(document: &mut Document, found: &SteppedDifference, lines: &[Line], most: usize) {
    let sides = [0, 1].map(|side| subject(found, side));
    let alone = is_alone(found);
    let [one, other] = found.totals.map(grouped);
    let heading = match (alone, sides[0] == sides[1]) {
        (true, _) => format!("step by step: {}, {other} instructions", sides[1]),
        (false, true) => format!("step by step: {}, {one} → {other} instructions", sides[1]),
        (false, false) => format!(
            "step by step: {} of {} ({}) and {} of {} ({}) instructions",
            one, found.names[0], sides[0], other, found.names[1], sides[1]
        ),
    };
    document.section(heading);
    let rows = lines.iter().take(most).map(|line| row(line, alone));
    let mut columns = vec![Column::fixed("call")];
    if !alone {
        columns.extend(found.names.iter().map(Column::named));
        columns.push(Column::fixed("change"));
    } else {
        columns.push(Column::fixed("instructions"));
    }
    columns.push(Column::optional("own", 1));
    document.table(Table { caption: None, columns, rows: rows.collect() });
    if lines.len() > most {
        let more = grouped((lines.len() - most) as u64);
        document.say(Mark::Note, format!("{more} more lines: opcost show --steps"));
    }
    if found.is_cut {
        document.say(Mark::Note, "lines beyond these are left out");
    }
    for sentence in notes(found) {
        document.say(Mark::Note, sentence);
    }
    if let Some(parting) = &found.parting {
        document.say(Mark::Conclusion, sentence(found, "the paths part", parting));
        if let Some(parting) = &found.calls_part {
            document.say(Mark::Conclusion, sentence(found, "their calls first differ", parting));
        }
    } else if !alone && found.totals[0] != found.totals[1] {
        document.say(Mark::Conclusion, ELSEWHERE);
    } else if !alone {
        document.say(Mark::Conclusion, "the operations have the same steps");
    }
}

/// What a reader must know of the operations.
fn notes(found: &SteppedDifference) -> Vec<String> {
    let mut notes = Vec::new();
    let sides = if is_alone(found) { 1..2 } else { 0..2 };
    for side in sides {
        let name = &found.names[side];
        let [operation, told, all, alike] = found.operations[side];
        let [least, median, most] = found.ranges[side].map(grouped);
        if operation == 0 && all > 1 {
            notes.push(format!(
                "{name}: its {} operations cannot be told apart by their calls",
                grouped(all)
            ));
        } else if operation > 0 && found.ranges[side][0] != found.ranges[side][2] {
            notes.push(format!(
                "{name}: operations take {least} to {most} instructions, the median {median}; {} of {} have \
                 these steps",
                grouped(alike),
                grouped(told)
            ));
        }
        if found.beyond[side] > 0 {
            notes.push(format!(
                "{name}: the room for steps was used up; {} instructions that followed are not shown",
                grouped(found.beyond[side])
            ));
        }
    }
    notes.dedup();
    notes
}

fn row(line: &Line, alone: bool) -> Row {
    let total = |side: usize| Cell::figure(line.total[side].map(grouped).unwrap_or_default());
    let own = match line.own {
        [Some(one), Some(other)] if one != other && !alone => {
            format!("{} → {}", grouped(one), grouped(other))
        }
        [one, other] => other.or(one).map(grouped).unwrap_or_default(),
    };
    let behind = if line.parts { " ◀ parts" } else { "" };
    let mut cells = vec![Cell::Name(label(line), behind.into())];
    if !alone {
        let change = match line.kind {
            LineKind::Inside(..) | LineKind::Above => String::new(),
            _ => change(line),
        };
        cells.extend([total(0), total(1), Cell::figure(change)]);
    } else {
        cells.push(total(1));
    }
    cells.push(Cell::figure(own));
    let [one, other] = line.total.map(|total| total.unwrap_or(0));
    let tone = match other.cmp(&one) {
        _ if alone => Tone::Plain,
        std::cmp::Ordering::Greater => Tone::Worse,
        std::cmp::Ordering::Less => Tone::Better,
        std::cmp::Ordering::Equal => Tone::Quiet,
    };
    Row { depth: line.depth.min(INDENT_MAX), strong: line.parts, ..Row::toned(tone, cells) }
}

/// The lines of a table: of a call that one side makes alone, only the first calls inside.
fn brief(lines: &[Line]) -> Vec<Line> {
    let mut shown: Vec<Line> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = &lines[at];
        let LineKind::One(side) = line.kind else {
            shown.push(line.clone());
            at += 1;
            continue;
        };
        let inside = lines[at + 1..].iter().take_while(|next| next.depth > line.depth).count();
        shown.push(line.clone());
        let few = if inside > INSIDE_MAX { INSIDE_MAX - 1 } else { inside };
        shown.extend(lines[at + 1..=at + few].iter().cloned());
        if few < inside {
            let rest = (inside - few) as u64;
            shown.push(Line {
                depth: line.depth + 1,
                kind: LineKind::Inside(side, rest),
                name: String::new(),
                is_entry: false,
                own: [None; 2],
                total: [None; 2],
                parts: false,
            });
        }
        at += 1 + inside;
    }
    shown
}

/// Says where the paths part.
fn sentence(found: &SteppedDifference, what: &str, parting: &Parting) -> String {
    let function = parting.path.last().map(String::as_str).unwrap_or_default();
    let place = match &parting.after {
        Some(after) => format!("{what} in {function}, behind its call of {after}"),
        None => format!("{what} in {function}, before its first call"),
    };
    let [one, other] = [0, 1].map(|side| &parting.sides[side]);
    let next = [0, 1].map(|side| {
        let does = match &parting.sides[side].next {
            Some(next) => format!("goes on to {next}"),
            None => "calls nothing more there".into(),
        };
        format!("{} {does}", found.names[side])
    });
    let goes_on = match one.next == other.next {
        true => format!(
            "with {} and {} own instructions to the next call",
            grouped(one.own),
            grouped(other.own)
        ),
        false => next.join(", "),
    };
    let decided = match (parting.why, &one.branch, &other.branch) {
        (Why::Branch, Some(left), Some(right)) => {
            let ways = [(0, left), (1, right)].map(|(side, branch)| {
                let way = if branch.taken { "taken" } else { "not taken" };
                format!("{way} in {}{}", found.names[side], values(branch))
            });
            format!("`{}`{} is {}", left.text, at(left), ways.join(", "))
        }
        (Why::Pointer, ..) => "one instruction calls two functions".into(),
        (_, None, None) => "no conditional branch in between tells why".into(),
        _ => {
            let of = [(0, &one.branch), (1, &other.branch)].map(|(side, branch)| match branch {
                Some(branch) => format!(
                    "{} has `{}`{}, {}{}",
                    found.names[side],
                    branch.text,
                    at(branch),
                    if branch.taken { "taken" } else { "not taken" },
                    values(branch)
                ),
                None => format!("{} has no branch", found.names[side]),
            });
            format!("the code differs: {}", of.join("; "))
        }
    };
    format!("{place}: {decided}; {goes_on}")
}

fn at(branch: &Branched) -> String {
    match &branch.line {
        Some(line) => format!(" at {:#x} ({line})", branch.address),
        None => format!(" at {:#x}", branch.address),
    }
}

fn values(branch: &Branched) -> String {
    match branch.values {
        Some([left, right]) => format!(" (comparing {left:#x} with {right:#x})"),
        None => " (its values cannot be read)".into(),
    }
}

/// The whole comparison as parts that a reader unfolds.
pub fn tree_of(found: &SteppedDifference) -> Document {
    let mut document = Document::default();
    let alone = is_alone(found);
    document.blocks = folds(&found.lines, alone);
    document
}

fn summary(line: &Line, alone: bool) -> String {
    let total = |side: usize| line.total[side].map_or("–".into(), grouped);
    let parts = if line.parts { " ◀ the paths part here" } else { "" };
    match alone || matches!(line.kind, LineKind::Same(_)) {
        _ if line.kind == LineKind::Above => label(line),
        true => format!("{} · {}{parts}", label(line), total(1)),
        false => {
            format!("{} · {} → {} ({}){parts}", label(line), total(0), total(1), change(line))
        }
    }
}

fn folds(lines: &[Line], alone: bool) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut plain: Vec<String> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = &lines[at];
        let inside = lines[at + 1..].iter().take_while(|next| next.depth > line.depth).count();
        if inside == 0 {
            plain.push(summary(line, alone));
        } else {
            if !plain.is_empty() {
                let lines = std::mem::take(&mut plain);
                blocks.push(Block::Code(Code { language: "", lines }));
            }
            let parts = folds(&lines[at + 1..=at + inside], alone);
            blocks.push(Block::Fold(summary(line, alone), parts));
        }
        at += 1 + inside;
    }
    if !plain.is_empty() {
        blocks.push(Block::Code(Code { language: "", lines: plain }));
    }
    blocks
}

/// The comparison as JSON.
pub fn json(found: &SteppedDifference) -> Value {
    let lines: Vec<Value> = found
        .lines
        .iter()
        .take(JSON_MAX)
        .map(|line| {
            let (kind, calls) = match line.kind {
                LineKind::Both => ("both", 1),
                LineKind::One(0) => ("baseline", 1),
                LineKind::One(_) => ("variant", 1),
                LineKind::Same(calls) => ("same", calls),
                LineKind::Again(times, _) => ("again", times),
                LineKind::Above => ("above", 0),
                LineKind::Inside(_, calls) => ("inside", calls),
                LineKind::Apart => ("apart", 0),
            };
            json!({
                "depth": line.depth, "kind": kind, "calls": calls, "function": line.name,
                "repeated_lines": if let LineKind::Again(_, lines) = line.kind { Some(lines) } else { None },
                "own_baseline": line.own[0], "own": line.own[1],
                "total_baseline": line.total[0], "total": line.total[1],
            })
        })
        .collect();
    let parting = |parting: &Parting| {
        let side = |side: usize| {
            let one = &parting.sides[side];
            let branch = one.branch.as_ref().map(|branch| {
                json!({
                    "address": format!("{:#x}", branch.address), "code": branch.text,
                    "taken": branch.taken, "line": branch.line,
                    "values": branch.values.map(|values| values.map(|value| format!("{value:#x}"))),
                })
            });
            json!({ "branch": branch, "next": one.next, "own": one.own })
        };
        let why = match parting.why {
            Why::Branch => "branch",
            Why::Pointer => "pointer",
            Why::Code => "code",
        };
        json!({
            "path": parting.path, "after": parting.after, "why": why,
            "baseline": side(0), "variant": side(1),
        })
    };
    let side = |side: usize| {
        let [operation, told, all, alike] = found.operations[side];
        json!({
            "name": found.names[side], "operation": operation, "told_apart": told, "operations": all,
            "alike": alike, "instructions": found.totals[side], "least": found.ranges[side][0],
            "median": found.ranges[side][1], "most": found.ranges[side][2],
            "beyond": found.beyond[side],
        })
    };
    json!({
        "baseline": if is_alone(found) { Value::Null } else { side(0) }, "variant": side(1),
        "parting": found.parting.as_ref().map(parting),
        "calls_part": found.calls_part.as_ref().map(parting), "lines": lines, "lines_cut": found.is_cut || found.lines.len() > JSON_MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(depth: usize, kind: LineKind, total: [Option<u64>; 2]) -> Line {
        let (name, own) = (format!("f{depth}"), [None; 2]);
        Line { depth, kind, name, is_entry: false, own, total, parts: false }
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_table_shows_the_first_calls_inside_a_call_of_one_side() {
        let mut lines = vec![line(0, LineKind::Both, [Some(1), Some(9)])];
        lines.push(line(1, LineKind::One(1), [None, Some(8)]));
        lines.extend((0..20).map(|_| line(2, LineKind::One(1), [None, Some(1)])));
        lines.push(line(1, LineKind::Same(3), [Some(5); 2]));
        let shown = brief(&lines);
        assert_eq!(shown.len(), 2 + 5 + 1 + 1);
        assert_eq!(label(&shown[7]), "… 15 calls inside");
        assert_eq!(label(&shown[8]), "… 3 calls, the same");
        assert_eq!(change(&lines[1]), "+8");
        let again = |lines, total| label(&line(1, LineKind::Again(1000, lines), total));
        assert_eq!(again(1, [Some(5000), Some(4000)]), "… 1,000 more of f1, each −1");
        assert_eq!(again(3, [None, Some(4000)]), "… 1,000 more of these 3, each 4");
    }

    #[test]
    fn a_difference_of_other_tasks_is_not_called_the_same() {
        let conclusion = |totals| {
            let found = SteppedDifference {
                sides: [0, 1],
                names: ["a", "b"].map(String::from),
                operations: [[0; 4]; 2],
                ranges: [[0; 3]; 2],
                totals,
                beyond: [0; 2],
                lines: Vec::new(),
                is_cut: false,
                parting: None,
                calls_part: None,
            };
            format!("{:?}", whole(&found).blocks.last())
        };
        assert!(conclusion([10, 10]).contains("the operations have the same steps"));
        assert!(conclusion([10, 12]).contains("other tasks or other CPUs make the difference"));
    }

    #[test]
    fn what_is_inside_a_call_is_folded_below_it() {
        let lines = [
            line(0, LineKind::Both, [Some(10), Some(12)]),
            line(1, LineKind::Same(2), [Some(5); 2]),
            line(1, LineKind::Both, [Some(4), Some(6)]),
            line(2, LineKind::One(1), [None, Some(2)]),
        ];
        let [Block::Fold(summary, inside)] = &folds(&lines, false)[..] else { panic!() };
        assert_eq!(summary, "f0 · 10 → 12 (+2)");
        let [Block::Code(code), Block::Fold(below, _)] = &inside[..] else { panic!() };
        assert_eq!(code.lines, ["… 2 calls, the same · 5"]);
        assert_eq!(below, "f1 · 4 → 6 (+2)");
    }
}
