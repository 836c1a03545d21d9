//! Parameters whose values a command line scans, in hyperfine's words.

use anyhow::Result;
use clap::Args;
use opcost_base::exit::{Status, fail};
use opcost_model::experiment::{Scalar, Scan};

const PARAMETERS: &str = "Parameters";

/// Scanned parameters.
#[derive(Args, Clone, Debug, Default)]
pub struct ScanArgs {
    /// A variant for each number from MIN to MAX: {NAME} in commands, workloads, --prepare and
    /// --boot stands for it; may be repeated
    #[arg(long, short = 'P', num_args = 3, value_names = ["NAME", "MIN", "MAX"], allow_hyphen_values = true, help_heading = PARAMETERS)]
    parameter_scan: Vec<String>,

    /// From one number of --parameter-scan to the next [default: 1]
    #[arg(
        long,
        short = 'D',
        value_name = "STEP",
        requires = "parameter_scan",
        allow_hyphen_values = true,
        help_heading = PARAMETERS
    )]
    parameter_step_size: Option<String>,

    /// A variant for each of these values, separated by commas (\, is a comma); if it is repeated, for
    /// each combination
    #[arg(long, short = 'L', num_args = 2, value_names = ["NAME", "VALUES"], allow_hyphen_values = true, help_heading = PARAMETERS)]
    parameter_list: Vec<String>,
}

impl ScanArgs {
    /// The scans.
    ///
    /// # Errors
    /// A list without values.
    pub fn scans(&self) -> Result<Vec<Scan>> {
        let text = |text: &str| Scalar::Text(text.to_string());
        let stepped = self.parameter_scan.chunks_exact(3).map(|words| {
            Ok(Scan {
                name: words[0].clone(),
                min: Some(text(&words[1])),
                max: Some(text(&words[2])),
                step: self.parameter_step_size.as_deref().map(text),
                ..Scan::default()
            })
        });
        let listed = self.parameter_list.chunks_exact(2).map(|words| {
            let values = values(&words[1]);
            if values.iter().all(String::is_empty) {
                let why = format!("--parameter-list {}: there are no values", words[0]);
                return Err(fail(Status::Usage, why));
            }
            let values = values.iter().map(|value| text(value)).collect();
            Ok(Scan { name: words[0].clone(), values, ..Scan::default() })
        });
        stepped.chain(listed).collect()
    }
}

/// The values between commas; a comma behind a backslash belongs to its value.
fn values(list: &str) -> Vec<String> {
    let (mut values, mut value) = (Vec::new(), String::new());
    let mut characters = list.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if matches!(characters.peek(), Some(',' | '\\')) => {
                value.extend(characters.next())
            }
            ',' => values.push(std::mem::take(&mut value)),
            other => value.push(other),
        }
    }
    values.push(value);
    values
}

#[cfg(test)]
mod tests {
    use super::values;

    #[test]
    fn commas_separate_values_unless_a_backslash_precedes() {
        assert_eq!(values("a,b\\,c,,d\\n"), ["a", "b,c", "", "d\\n"]);
    }
}
