//! A function's code in two files, side by side or one below the other.

use crate::render::Style;
use crate::render::page::{BOLD, DIM, GREEN, PLAIN, Page, RED, YELLOW, fit};
use opcost_base::number::grouped;
use opcost_record::printable::{Output, safe};
use opcost_size::{Aligned, Code, FunctionDifference};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// From this width on, both columns fit.
const WIDE_COLUMNS: usize = 110;

/// The page that `opcost size --function` prints.
pub fn code_text(difference: &FunctionDifference, style: &Style) -> String {
    let mut page = Page::new(style);
    for line in heading(difference) {
        page.wrap(BOLD, "", &line);
    }
    page.line("");
    if page.width >= WIDE_COLUMNS {
        beside(&mut page, difference);
    } else {
        for (mark, line) in unified(difference) {
            let color = match mark {
                '-' => GREEN,
                '+' => RED,
                _ => PLAIN,
            };
            let line = page.paint(color, &format!("{mark} {line}"));
            page.line(&line);
        }
    }
    page.line("");
    page.wrap(DIM, "", &verdict(difference));
    page.into_text()
}

/// The code of both files, for a mail or a pull request.
pub fn code_markdown(difference: &FunctionDifference) -> String {
    let mut text = String::new();
    for line in heading(difference) {
        let _ = writeln!(text, "{}\n", super::super::escape(&line));
    }
    text.push_str("```diff\n");
    for (mark, line) in unified(difference) {
        let _ = writeln!(text, "{mark} {}", safe(&line, Output::MarkdownFence));
    }
    let _ = writeln!(text, "```\n\n{}", super::super::escape(&verdict(difference)));
    text
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

fn heading(difference: &FunctionDifference) -> [String; 2] {
    [0, 1].map(|side: usize| {
        let code = &difference.code[side];
        format!(
            "{}: {} · {} bytes · {} instructions",
            ["A", "B"][side],
            format_args!("{} in {}", difference.names[side], difference.files[side]),
            grouped(code.bytes),
            grouped(code.instructions.len() as u64)
        )
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

fn beside(page: &mut Page, difference: &FunctionDifference) {
    let width = (page.width - 3) / 2;
    let [one, two] = &difference.code;
    let column = |code: &Code, index: Option<usize>| {
        fit(&index.map(|index| line(code, index)).unwrap_or_default(), width)
    };
    for row in &difference.rows {
        let (left, mark, right) = match *row {
            Aligned::Same(left, right) => (Some(left), ' ', Some(right)),
            Aligned::Differs(left, right) => {
                let mark = match (left, right) {
                    (Some(_), Some(_)) => '|',
                    (Some(_), None) => '<',
                    _ => '>',
                };
                (left, mark, right)
            }
        };
        let text = format!("{} {mark} {}", column(one, left), column(two, right));
        let color = match mark {
            '|' => YELLOW,
            '<' => GREEN,
            '>' => RED,
            _ => PLAIN,
        };
        let painted = page.paint(color, text.trim_end());
        page.line(&painted);
    }
}

/// Lines with their marks; removed lines stand before added lines.
fn unified(difference: &FunctionDifference) -> Vec<(char, String)> {
    let [one, two] = &difference.code;
    let mut lines = Vec::new();
    let mut added: Vec<(char, String)> = Vec::new();
    for row in &difference.rows {
        match *row {
            Aligned::Same(_, index) => {
                lines.append(&mut added);
                lines.push((' ', line(two, index)));
            }
            Aligned::Differs(left, right) => {
                lines.extend(left.map(|index| ('-', line(one, index))));
                added.extend(right.map(|index| ('+', line(two, index))));
            }
        }
    }
    lines.append(&mut added);
    lines
}
