//! criterion's files of one benchmark: `sample.json` has the runs, `estimates.json` has means only
//! (<https://bheisler.github.io/criterion.rs/book/>).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind};
use opcost_model::plan::Omission;
use serde::Deserialize;
use std::path::Path;

/// `sample.json`: iterations and total nanoseconds of each sample.
#[derive(Deserialize)]
struct Sample {
    iters: Vec<f64>,
    times: Vec<f64>,
}

/// `estimates.json`: nanoseconds of one iteration.
#[derive(Deserialize)]
struct Estimates {
    mean: Estimate,
    std_dev: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
}

pub(super) fn detect(text: &str) -> bool {
    let has = |names: &[&str]| names.iter().all(|name| text.contains(&format!("\"{name}\"")));
    text.trim_start().starts_with('{')
        && (has(&["iters", "times"]) || has(&["mean", "std_dev", "point_estimate"]))
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed::default();
    let data = if input.text.contains("\"iters\"") {
        let sample: Sample = input.json("criterion")?;
        if sample.iters.len() != sample.times.len() {
            let why = format!(
                "{} numbers of iterations and {} times",
                sample.iters.len(),
                sample.times.len()
            );
            return Err(Problem::foreign("criterion", why));
        }
        if sample.iters.iter().any(|iterations| *iterations <= 0.0) {
            let why = "a sample of no iterations".to_string();
            return Err(Problem::whole(ProblemKind::Senseless(why)));
        }
        Data::runs(sample.times.iter().zip(&sample.iters).map(|(ns, n)| ns / n).collect())
    } else {
        let estimates: Estimates = input.json("criterion")?;
        parsed.omitted.push(Omission::new(
            "the number of samples",
            "estimates.json does not say it; import sample.json beside it",
        ));
        let sd = Some(estimates.std_dev.point_estimate);
        Data::Mean { mean: estimates.mean.point_estimate, sd, n: None }
    };
    let series = Series::new("wall", "ns", data).per_op();
    parsed.series.push(match case_of(input.path) {
        Some(case) => series.of(&case),
        None => series,
    });
    Ok(parsed)
}

/// The benchmark's name, taken from the path: `target/criterion/GROUP/NAME/new/sample.json`.
fn case_of(path: &Path) -> Option<String> {
    let parts: Vec<String> =
        path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let [above @ .., _, _] = parts.as_slice() else { return None };
    let begin = above
        .iter()
        .rposition(|part| part == "criterion")
        .map_or(above.len().saturating_sub(1), |criterion| criterion + 1);
    Some(above[begin..].join("/")).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_names_the_benchmark() {
        let case = |path: &str| case_of(Path::new(path));
        assert_eq!(case("target/criterion/sort/1000/new/sample.json"), Some("sort/1000".into()));
        assert_eq!(case("sum/new/sample.json"), Some("sum".into()));
        assert_eq!(case("sample.json"), None);
    }
}
