//! The output of will-it-scale: a test's samples, one each second, or the table of `runtest.py`
//! (<https://github.com/antonblanchard/will-it-scale>, main.c and runtest.py).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind, number};

const HEADING: &str = "tasks,processes,processes_idle,threads,threads_idle";

pub(super) fn detect(text: &str) -> bool {
    text.starts_with("testcase:") || text.lines().any(|line| line.starts_with(HEADING))
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    if input.text.lines().any(|line| line.starts_with(HEADING)) {
        table(input)
    } else {
        samples(input)
    }
}

/// Operations per second of all tasks together, after the warm-up.
fn samples(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed::default();
    let mut case = None;
    let mut measuring = false;
    let mut ended = false;
    for (index, line) in input.text.lines().enumerate() {
        input.take_line(line)?;
        let at = index + 1;
        match line.split_once(':') {
            Some(("testcase", name)) => case = Some(name.trim().to_string()),
            Some(("average", _)) => ended = true,
            Some(("min", _)) if measuring => {
                let Some((_, total)) = line.split_once("total:") else {
                    return Err(Problem::at(at, ProblemKind::Truncated(format!("'{line}'"))));
                };
                let value = number("the total", total, at)?;
                let series = Series::new("operations", "1/s", Data::run(value)).higher().at(at);
                parsed.series.push(Series { case: case.clone(), ..series });
            }
            _ => measuring |= line.trim() == "measurement",
        }
    }
    if !ended {
        let why = "there is no line 'average:'".to_string();
        return Err(Problem::whole(ProblemKind::Truncated(why)));
    }
    Ok(parsed)
}

/// Operations per second for each number of tasks, as processes and as threads.
fn table(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed::default();
    let lines = input.text.lines().enumerate().skip_while(|(_, line)| !line.starts_with(HEADING));
    for (index, line) in lines.skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        input.take_line(line)?;
        let at = index + 1;
        let fields: Vec<&str> = line.split(',').collect();
        let [tasks, processes, _, threads, ..] = fields.as_slice() else {
            return Err(Problem::at(at, ProblemKind::Truncated(format!("'{line}'"))));
        };
        // The row of zero tasks has no information.
        if *tasks == "0" {
            continue;
        }
        for (kind, text) in [("processes", processes), ("threads", threads)] {
            let metric = format!("{tasks} {kind}");
            let data = Data::run(number(&metric, text, at)?);
            parsed.series.push(Series::new(&metric, "1/s", data).higher().at(at));
        }
    }
    Ok(parsed)
}
