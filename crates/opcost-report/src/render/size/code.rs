//! A function's code in two files, side by side or one below the other.

use opcost_base::number::grouped;
use opcost_page::document::{Block, Document, Mark, Sides};
use opcost_size::{Aligned, Code, FunctionDifference};
use serde_json::{Value, json};

/// The report of `opcost size --function`.
pub fn code_document(difference: &FunctionDifference) -> Document {
    let mut document = Document::default();
    for side in [0, 1] {
        let code = &difference.code[side];
        document.blocks.push(Block::Title(format!(
            "{}: {} in {} · {} bytes · {} instructions",
            ["A", "B"][side],
            difference.names[side],
            difference.files[side],
            grouped(code.bytes),
            grouped(code.instructions.len() as u64)
        )));
    }
    document.gap();
    let [one, two] = &difference.code;
    let rows = difference.rows.iter().map(|row| {
        let (first, second, is_same) = match *row {
            Aligned::Same(first, second) => (Some(first), Some(second), true),
            Aligned::Differs(first, second) => (first, second, false),
        };
        let [first, second] =
            [(one, first), (two, second)].map(|(code, index)| Some(line(code, index?)));
        Sides { first, second, is_same }
    });
    document.blocks.push(Block::Sides(rows.collect()));
    document.gap();
    document.say(Mark::Note, verdict(difference));
    document
}

/// The code of both files, for programs.
pub fn code_json(difference: &FunctionDifference) -> Value {
    let column = |side: usize, index: Option<usize>| {
        index.map(|index| {
            let instruction = &difference.code[side].instructions[index];
            json!({ "offset": instruction.offset, "text": instruction.text, "target": instruction.target })
        })
    };
    let row = |row: &Aligned| {
        let (mark, one, two) = match *row {
            Aligned::Same(one, two) => ("same", Some(one), Some(two)),
            Aligned::Differs(one, two) => ("differs", one, two),
        };
        json!({ "mark": mark, "baseline": column(0, one), "variant": column(1, two) })
    };
    let side = |side: usize| {
        json!({
            "name": difference.files[side],
            "function": difference.names[side],
            "bytes": difference.code[side].bytes,
            "instructions": difference.code[side].instructions.len(),
        })
    };
    json!({
        "schema": 1,
        "baseline": side(0),
        "variant": side(1),
        "differing": difference.differing(),
        "rows": difference.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn verdict(difference: &FunctionDifference) -> String {
    match difference.differing() {
        0 => "the same instructions; what only moved counts as the same".into(),
        rows => format!(
            "{} of {} rows differ; what only moved counts as the same",
            grouped(rows as u64),
            grouped(difference.rows.len() as u64)
        ),
    }
}

/// `+1c  mov %rax, %rbx`.
fn line(code: &Code, index: usize) -> String {
    let instruction = &code.instructions[index];
    format!("{:>6}  {}", format!("+{:x}", instruction.offset), instruction.text)
}
