//! A plain CSV, one figure of one run in each row: `variant,metric,value[,unit][,block]`.

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind, number};
use opcost_sys::budget::Exceeded;

/// A CSV with named columns.
pub(super) struct CsvTable {
    head: Vec<String>,
    rows: Vec<(usize, csv::StringRecord)>,
}

impl CsvTable {
    /// Reads a table that must have the columns `must`; lines that begin with `#` are comments.
    pub(super) fn read(
        input: &Input<'_>,
        format: &'static str,
        must: &[&str],
        may: &[&str],
    ) -> Result<CsvTable, Problem> {
        let mut reader = csv::ReaderBuilder::new()
            .comment(Some(b'#'))
            .trim(csv::Trim::All)
            .from_reader(input.budget.reader(input.text.as_bytes()));
        let wrong = |error: csv::Error| {
            if let csv::ErrorKind::Io(error) = error.kind()
                && let Some(exceeded) = Exceeded::of(error)
            {
                return exceeded.into();
            }
            let line = error.position().map(|position| position.line() as usize);
            let why = match error.kind() {
                csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                    format!("{len} fields where the heading has {expected_len}")
                }
                _ => error.to_string(),
            };
            Problem { line, kind: ProblemKind::Foreign { format, why } }
        };
        let head: Vec<String> =
            reader.headers().map_err(wrong)?.iter().map(str::to_lowercase).collect();
        if let Some(missing) = must.iter().find(|name| !head.iter().any(|found| found == *name)) {
            return Err(Problem::foreign(format, format!("there is no column '{missing}'")));
        }
        // A name with a star stands for all that begin so.
        let is_known = |name: &&String| {
            let begins =
                |known: &&str| known.strip_suffix('*').is_some_and(|begin| name.starts_with(begin));
            [must, may].iter().any(|known| known.contains(&name.as_str())) || may.iter().any(begins)
        };
        if let Some(other) = head.iter().find(|name| !is_known(name)) {
            let columns = [must, may].concat().join(", ");
            return Err(Problem::foreign(
                format,
                format!("column '{other}' means nothing; there are: {columns}"),
            ));
        }
        let rows = reader.into_records().map(|row| {
            let row = row.map_err(wrong)?;
            Ok((row.position().map_or(0, |position| position.line() as usize), row))
        });
        Ok(CsvTable { head, rows: rows.collect::<Result<_, Problem>>()? })
    }

    /// The rows, each with its line.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, Fields<'_>)> {
        self.rows.iter().map(|(line, row)| (*line, Fields { head: &self.head, row }))
    }
}

/// One row of a table.
pub(super) struct Fields<'a> {
    head: &'a [String],
    row: &'a csv::StringRecord,
}

impl Fields<'_> {
    /// A field by the name of its column; `None` if the field is empty or the column is missing.
    pub(super) fn get(&self, column: &str) -> Option<&str> {
        let at = self.head.iter().position(|name| name == column)?;
        self.row.get(at).filter(|field| !field.is_empty())
    }

    /// A field that must not be empty.
    pub(super) fn need(&self, column: &str, line: usize) -> Result<&str, Problem> {
        self.get(column).ok_or_else(|| {
            Problem::at(line, ProblemKind::Senseless(format!("'{column}' is empty")))
        })
    }
}

pub(super) fn detect(text: &str) -> bool {
    has_columns(text, &["variant", "metric", "value"])
}

/// The longest header of a CSV that is looked at, bytes.
const HEAD_BYTES_MAX: usize = 4096;

/// Whether the header of a CSV has these columns.
pub(super) fn has_columns(text: &str, columns: &[&str]) -> bool {
    let head = text.lines().find(|line| !line.starts_with('#') && !line.trim().is_empty());
    // A bomb may be one line.
    head.filter(|head| head.len() <= HEAD_BYTES_MAX).is_some_and(|head| {
        let found: Vec<String> =
            head.split(',').map(|name| name.trim().trim_matches('"').to_lowercase()).collect();
        columns.iter().all(|column| found.iter().any(|name| name == column))
    })
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let must = ["variant", "metric", "value"];
    let table = CsvTable::read(input, "a CSV of samples", &must, &["unit", "block"])?;
    let mut parsed = Parsed::default();
    for (line, fields) in table.rows() {
        let metric = fields.need("metric", line)?;
        let value = number(metric, fields.need("value", line)?, line)?;
        let blocks = match fields.get("block") {
            None => vec![],
            Some(block) => vec![block.parse().map_err(|_| {
                let (what, text) = ("the block".into(), block.into());
                Problem::at(line, ProblemKind::NoNumber { what, text })
            })?],
        };
        let data = Data::Runs { values: vec![value], blocks };
        let series = Series::new(metric, fields.get("unit").unwrap_or_default(), data).at(line);
        let variant = Some(fields.need("variant", line)?.to_string());
        parsed.series.push(Series { variant, ..series });
    }
    Ok(parsed)
}
