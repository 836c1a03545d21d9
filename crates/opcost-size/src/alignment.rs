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
    paired(sides.map(|piece| piece.iter().map(|instruction| shape(instruction)).collect()))
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
    paired(sides.map(|lines| lines.iter().map(|line| line.trim().to_string()).collect()))
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
