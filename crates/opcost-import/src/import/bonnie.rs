//! The CSV line of bonnie++, format 2 (bonnie++ 1.90 and later; bon_csv2html(1), FORMAT).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind, number};
use opcost_model::plan::Omission;

/// The index of the first figure; before it are the versions of the format and of bonnie++, the machine, …
const FIRST_FIGURE: usize = 9;
/// Each test has two fields: its rate and its share of the CPU.
const TESTS: &[(&str, &str)] = &[
    ("putc", "K/s"),
    ("put-block", "K/s"),
    ("rewrite", "K/s"),
    ("getc", "K/s"),
    ("get-block", "K/s"),
    ("seeks", "seeks/s"),
];

/// Whether a line is bonnie++'s: it begins with two versions and has enough fields.
fn is_line(line: &str) -> bool {
    // Detection sees lines of any length.
    let fields: Vec<&str> = line.split(',').take(4).collect();
    let is_version =
        |text: &str| text.starts_with(|c: char| c.is_ascii_digit()) && text.contains('.');
    fields.len() > 3 && is_version(fields[0]) && is_version(fields[1])
}

pub(super) fn detect(text: &str) -> bool {
    text.lines().any(is_line)
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed::default();
    for (index, line) in input.text.lines().enumerate().filter(|(_, line)| is_line(line)) {
        input.take_line(line)?;
        let at = index + 1;
        let fields: Vec<&str> = line.split(',').collect();
        if fields.len() < FIRST_FIGURE + 2 * TESTS.len() {
            let why = format!("{} fields of bonnie++'s line", fields.len());
            return Err(Problem::at(at, ProblemKind::Truncated(why)));
        }
        parsed.version = Some(fields[1].to_string());
        for (test, (name, unit)) in TESTS.iter().enumerate() {
            let field = FIRST_FIGURE + 2 * test;
            let cpu = format!("{name} CPU");
            for (metric, unit, text) in
                [(*name, *unit, fields[field]), (cpu.as_str(), "%", fields[field + 1])]
            {
                if text.is_empty() {
                    continue;
                }
                if text.starts_with('+') {
                    let why = "too fast for bonnie++ to give a figure";
                    parsed.omitted.push(Omission::new(metric, why));
                    continue;
                }
                let series = Series::new(metric, unit, Data::run(number(metric, text, at)?)).at(at);
                parsed.series.push(if unit == "%" { series } else { series.higher() });
            }
        }
    }
    Ok(parsed)
}
