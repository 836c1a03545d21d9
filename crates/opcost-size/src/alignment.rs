//! Finds the instructions that two functions have in common.

use super::code::{Code, Instruction};
use similar::{Algorithm, DiffTag, capture_diff_slices};
use std::collections::HashMap;

/// A row of the two columns; holds indices of instructions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Aligned {
    /// The same instruction on both sides.
    Same(usize, usize),
    /// Different instructions at the same place, or an instruction that only one side has.
    Differs(Option<usize>, Option<usize>),
}

/// Aligns two functions by a longest common subsequence of their instructions.
///
/// A branch within the function counts as the same if it leads to the same instruction on the other
/// side, however far that instruction moved.
pub fn align(sides: [&Code; 2]) -> Vec<Aligned> {
    let mut rows =
        paired(sides.map(|code| code.instructions.iter().map(shape).collect::<Vec<_>>()));
    let partner: HashMap<usize, usize> = rows
        .iter()
        .filter_map(|row| match row {
            Aligned::Same(one, two) | Aligned::Differs(Some(one), Some(two)) => Some((*one, *two)),
            Aligned::Differs(..) => None,
        })
        .collect();
    for row in &mut rows {
        if let Aligned::Same(one, two) = *row
            && !leads_alike(sides, [one, two], &partner)
        {
            *row = Aligned::Differs(Some(one), Some(two));
        }
    }
    rows
}

/// Aligns two pieces of code by the texts of their instructions, wherever branches within the function lead.
pub fn align_pieces(sides: [&[&Instruction]; 2]) -> Vec<Aligned> {
    paired_soon(sides.map(|piece| piece.iter().map(|instruction| shape(instruction)).collect()))
}

/// The most pairs of texts that a longest common subsequence may have to look at.
const PAIRS_MAX: usize = 8 << 20;

/// Aligns two rows of texts. Where too much lies between what both begin and end with, texts are aligned by their place there.
fn paired_soon(shapes: [Vec<String>; 2]) -> Vec<Aligned> {
    let [old, new] = &shapes;
    let before = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (olds, news) = (&old[before..], &new[before..]);
    let behind =
        olds.iter().rev().zip(news.iter().rev()).take_while(|(old, new)| old == new).count();
    let middle = [olds.len() - behind, news.len() - behind];
    if middle[0].saturating_mul(middle[1]) <= PAIRS_MAX {
        return paired(shapes);
    }
    let same = |at: usize| Aligned::Same(at, at);
    let within = (0..middle[0].max(middle[1])).map(|at| {
        let place = |side: usize| (at < middle[side]).then_some(before + at);
        match [place(0), place(1)] {
            [Some(one), Some(two)] if old[one] == new[two] => Aligned::Same(one, two),
            [one, two] => Aligned::Differs(one, two),
        }
    });
    let ends = [before + middle[0], before + middle[1]];
    let end = (0..behind).map(|at| Aligned::Same(ends[0] + at, ends[1] + at));
    (0..before).map(same).chain(within).chain(end).collect()
}

/// Aligns two rows of texts.
fn paired(shapes: [Vec<String>; 2]) -> Vec<Aligned> {
    let mut rows = Vec::new();
    for change in capture_diff_slices(Algorithm::Myers, &shapes[0], &shapes[1]) {
        let (tag, old, new) = change.as_tag_tuple();
        if tag == DiffTag::Equal {
            rows.extend(old.zip(new).map(|(one, two)| Aligned::Same(one, two)));
            continue;
        }
        let rest = old.len().max(new.len());
        let nth = |range: &std::ops::Range<usize>, row: usize| {
            Some(range.start + row).filter(|index| range.contains(index))
        };
        rows.extend((0..rest).map(|row| Aligned::Differs(nth(&old, row), nth(&new, row))));
    }
    rows
}

/// Aligns the lines of two texts by the difference of the texts; lines that are indented otherwise are the same.
pub fn align_lines(sides: [&[String]; 2]) -> Vec<Aligned> {
    paired_soon(sides.map(|lines| lines.iter().map(|line| line.trim().to_string()).collect()))
}

/// Returns an instruction's text without the distance of a branch within the function.
fn shape(instruction: &Instruction) -> String {
    match instruction.target {
        Some(target) => instruction.text.replace(&format!("+{target:#x}"), "+"),
        None => instruction.text.clone(),
    }
}

/// Whether two branches lead to instructions that are aligned with each other.
fn leads_alike(sides: [&Code; 2], rows: [usize; 2], partner: &HashMap<usize, usize>) -> bool {
    let targets = [0, 1].map(|side: usize| {
        let code = &sides[side].instructions;
        let target = code[rows[side]].target?;
        Some(code.binary_search_by_key(&target, |instruction| instruction.offset))
    });
    match targets {
        [None, None] => true,
        [Some(Ok(one)), Some(Ok(two))] => partner.get(&one) == Some(&two),
        // A branch into the middle of an instruction: only the same distance counts as the same.
        _ => sides[0].instructions[rows[0]].target == sides[1].instructions[rows[1]].target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(lines: &[(&str, Option<u64>)]) -> Code {
        let made = |(index, (text, target)): (usize, &(&str, Option<u64>))| Instruction {
            offset: index as u64,
            text: target.map_or((*text).into(), |target| format!("{text} +{target:#x}")),
            target: *target,
            is_constant: false,
        };
        Code {
            address: 0,
            bytes: lines.len() as u64,
            instructions: lines.iter().enumerate().map(made).collect(),
        }
    }

    #[test]
    fn a_branch_that_leads_to_the_same_instruction_is_the_same() {
        let one = code(&[("jne", Some(2)), ("nop", None), ("ret", None)]);
        let two = code(&[("jne", Some(3)), ("nop", None), ("inc", None), ("ret", None)]);
        let rows = align([&one, &two]);
        let expected = [
            Aligned::Same(0, 0),
            Aligned::Same(1, 1),
            Aligned::Differs(None, Some(2)),
            Aligned::Same(2, 3),
        ];
        assert_eq!(rows, expected);
        let other = code(&[("jne", Some(1)), ("nop", None), ("ret", None)]);
        assert_eq!(align([&one, &other])[0], Aligned::Differs(Some(0), Some(0)));
    }

    #[test]
    fn texts_that_have_little_in_common_are_aligned_by_place() {
        let lines = |kind: &str, many: usize| {
            let mut lines = vec!["begin".to_string()];
            lines.extend((0..many).map(|at| format!("{kind} {at}")));
            lines.extend(["same".to_string(), "end".to_string()]);
            lines
        };
        let rows = align_lines([&lines("old", 40_000), &lines("new", 50_000)]);
        assert_eq!(rows[..2], [Aligned::Same(0, 0), Aligned::Differs(Some(1), Some(1))]);
        assert_eq!(rows[40_001], Aligned::Differs(None, Some(40_001)));
        assert_eq!(rows[50_001..], [Aligned::Same(40_001, 50_001), Aligned::Same(40_002, 50_002)]);
        // A line more at the begin of a long text moves the others.
        let rows = align_lines([&lines("a", 40_000), &lines("a", 40_001)]);
        assert_eq!(rows.iter().filter(|row| matches!(row, Aligned::Same(..))).count(), 40_003);
    }

    #[test]
    fn what_was_replaced_stands_beside_its_replacement() {
        let one = code(&[("a", None), ("b", None), ("z", None)]);
        let two = code(&[("a", None), ("c", None), ("d", None), ("z", None)]);
        let rows = align([&one, &two]);
        assert_eq!(
            rows[1..3],
            [Aligned::Differs(Some(1), Some(1)), Aligned::Differs(None, Some(2))]
        );
        assert!(align([&Code::default(), &Code::default()]).is_empty());
    }
}
