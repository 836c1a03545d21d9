//! divan: `--sample-count 1 --sample-size N` times one sample of N iterations, with two readings of the clock, the last ones of the
//! program (src/bench/mod.rs).

use super::{Framework, Subject, contains, crate_version, exact, unknown_readings};
use crate::clock::{Orders, Window};
use crate::runner::{Counted, Runner, Trial};
use anyhow::Result;

pub(super) const ROW: Framework = Framework {
    name: "divan",
    driven: "`--sample-size`, and opcost's clock to find the sample",
    tried: &["0.1.21"],
    recognise: |bytes| match crate_version(bytes, "divan") {
        Some(version) => Some(Some(version)),
        None => contains(bytes, "DIVAN_SAMPLE_SIZE").then_some(None),
    },
    list,
    trials,
    steadiness: exact,
    is_interpreted: false,
};

fn list(runner: &Runner<'_>, subject: &Subject) -> Result<Vec<String>> {
    let all = subject.invocation.with([
        "--bench",
        "--color",
        "never",
        "--sample-count",
        "1",
        "--sample-size",
        "1",
    ]);
    Ok(leaves(&runner.printed(&all)?))
}

/// The names of a tree's leaves, as `--exact` takes them.
fn leaves(tree: &str) -> Vec<String> {
    let mut path: Vec<String> = Vec::new();
    let mut names = Vec::new();
    let lines = tree.lines().skip_while(|line| !line.contains("fastest"));
    let rows: Vec<(usize, &str)> = lines
        .filter_map(|line| {
            let start = line.find(['├', '╰'])?;
            let name = line[start..].trim_start_matches(['├', '╰', '─', ' ']);
            let name = name.split("  ").next()?.split(" │").next()?.trim();
            (!name.is_empty()).then(|| (line[..start].chars().count() / 3 + 1, name))
        })
        .collect();
    let Some(root) = tree.lines().find(|line| line.contains("fastest")) else { return names };
    path.push(root.split_whitespace().next().unwrap_or_default().to_owned());
    for (index, (depth, name)) in rows.iter().enumerate() {
        path.truncate(*depth);
        path.push((*name).to_owned());
        if rows.get(index + 1).is_none_or(|(next, _)| next <= depth) {
            names.push(path.join("::"));
        }
    }
    names
}

fn trials(runner: &Runner<'_>, subject: &Subject, name: &str, _: usize) -> Result<Vec<Trial>> {
    let with = |samples: u64, iterations: u64| {
        let (samples, iterations) = (samples.to_string(), iterations.to_string());
        let own = ["--bench", "--color", "never", "--timer", "os", "--threads", "1"];
        let of_sample = ["--sample-count", &samples, "--sample-size", &iterations, "--exact", name];
        subject.invocation.with(own.into_iter().chain(of_sample))
    };
    let orders = Orders::step(1_000);
    let one = runner.probe(&with(1, 10), &orders)?;
    if runner.probe(&with(2, 10), &orders)?.readings != one.readings + 2 {
        return Err(unknown_readings("a further sample does not read the clock twice"));
    }
    if iterations_printed(&one.printed) != Some("10") {
        return Err(unknown_readings(
            "its sample has another number of iterations than --sample-size asks for",
        ));
    }
    let window = Window::between(one.readings - 1, one.readings);
    let trial = |iterations: u64| {
        let orders = Orders { window: Some(window), ..orders.clone() };
        Trial { invocation: with(1, iterations), window: Counted::Clock(orders), iterations }
    };
    Ok([1, 10, 20, 40].map(trial).to_vec())
}

/// The number in the last column of a table. Rows of counters and allocations, which follow a benchmark's own, have none.
fn iterations_printed(table: &str) -> Option<&str> {
    let rows = table.lines().rev().filter_map(|line| line.rsplit_once('│'));
    rows.map(|(_, column)| column.trim()).find(|column| !column.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_with_a_counter_has_its_iterations_in_the_row_above() {
        let table = "words    fastest       │ samples │ iters\n\
            ╰─ 8     1 ns          │ 1       │ 10\n         \
            8 Gitem/s     │         │\n         1 alloc       │         │\n";
        assert_eq!(iterations_printed(table), Some("10"));
        assert_eq!(iterations_printed("nothing"), None);
    }

    #[test]
    fn the_leaves_of_a_tree_are_the_benchmarks() {
        let tree = "Timer precision: 20 ns\n\
            words           fastest       │ slowest       │ samples │ iters\n\
            ├─ count        1 ns          │ 1 ns          │ 1       │ 1\n\
            ├─ sort                       │               │         │\n\
            │  ├─ 8         1 ns          │ 1 ns          │ 1       │ 1\n\
            │  ╰─ 16        1 ns          │ 1 ns          │ 1       │ 1\n\
            ╰─ last         1 ns          │ 1 ns          │ 1       │ 1\n";
        assert_eq!(
            leaves(tree),
            ["words::count", "words::sort::8", "words::sort::16", "words::last"]
        );
        assert_eq!(leaves("nothing here\n"), [""; 0]);
    }
}
