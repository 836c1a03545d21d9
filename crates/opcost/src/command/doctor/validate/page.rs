//! The findings of a validation, for people.

use super::{Found, LeftOut};
use opcost_base::number::{digits, grouped, magnitude};
use opcost_model::plan::guest::CORE_DEFAULT;
use opcost_model::validation::statistics::{BANDS, CLAIM_RATIO, DIFFER_RATIO, Group, Hits};
use opcost_page::document::{Cell, Column, Document, Mark, Row, Table, Tone};

pub(super) fn document(found: &Found) -> Document {
    let report = &found.report;
    let mut document =
        Document::titled(format!("validation · core {} · {}", found.core, found.cpu));
    let counted = match found.clock {
        "tsc" => "cycles by the time stamp counter and a chain of multiplications",
        _ => "cycles by the PMU",
    };
    let kernels = format!(
        "{} builds of kernels; {counted}{}",
        report.all.model.kernels,
        left_out(&found.left_out)
    );
    document.say(Mark::None, kernels);
    document.section("errors of modelled cycles, and of instructions alone");
    let of_classes = report.classes.iter().chain([&report.all]).map(|group| errors(group, ""));
    let of_confidences = report.confidences.iter().map(|group| errors(group, "confidence "));
    let heads = ["of", "builds", "model: half <", "9 of 10 <", "instructions: half <", "9 of 10 <"];
    document.table(table(heads, of_classes.chain(of_confidences)));
    document.section("direction, over pairs of builds");
    let wrong = |hits: Hits| Hits { right: hits.pairs - hits.right, ..hits };
    let pairs = |hits: Hits| hits.pairs.to_string();
    let (model, instructions) = (&report.model, &report.instructions);
    let mut rows: Vec<Row> = BANDS
        .iter()
        .enumerate()
        .map(|(band, from)| {
            let name = match BANDS.get(band + 1) {
                Some(to) => format!("differ by {:.0} to {:.0} %", from * 100.0, to * 100.0),
                None => format!("differ by more than {:.0} %", from * 100.0),
            };
            let hits = [model.bands[band], instructions.bands[band]];
            figures(&name, [pairs(hits[0]), share(hits[0]), share(hits[1])])
        })
        .collect();
    let all = format!("all that differ by more than {:.0} %", DIFFER_RATIO * 100.0);
    rows.push(figures(&all, [pairs(model.all), share(model.all), share(instructions.all)]));
    let claims = format!("claims above {:.0} % that are right", CLAIM_RATIO * 100.0);
    rows.push(figures(&claims, ["".into(), share(model.claims), share(instructions.claims)]));
    let [equal, by_instructions] = [model.equal, instructions.equal].map(wrong);
    let false_claims = "false claims about equal builds";
    rows.push(figures(false_claims, [pairs(equal), share(equal), share(by_instructions)]));
    let ratio = |error: Option<f64>| error.map_or("–".to_string(), magnitude);
    let errors = [model.ratio_error_median, instructions.ratio_error_median].map(ratio);
    let [of_model, of_instructions] = errors;
    rows.push(figures("error of a ratio, half <", ["".into(), of_model, of_instructions]));
    document.table(table(["", "pairs", "model", "instructions"], rows));
    document.section("furthest off");
    let worst = report.worst.iter().map(|worst| {
        let [truth, modelled] = [worst.truth, worst.modelled].map(|cycles| cycles.round() as u64);
        let mut row =
            figures(&worst.kernel, [grouped(truth), grouped(modelled), digits(worst.ratio)]);
        row.cells.push(Cell::text(worst.confidence.to_string()));
        row
    });
    document.table(table(["build", "true cycles", "model", "ratio", "confidence"], worst));
    document.gap();
    match report.decides_from_ratio {
        Some(ratio) => document.say_in(
            Mark::Conclusion,
            Tone::Better,
            format!("nine of ten claims are right from {} on", magnitude(ratio)),
        ),
        None => {
            let none = "claims of no size are right nine times in ten";
            document.say_in(Mark::Conclusion, Tone::Unsure, none);
        }
    }
    let core = match found.given == CORE_DEFAULT {
        true => String::new(),
        false => format!(" --core {}", found.given),
    };
    match &found.kept {
        Some(path) => document.say_in(
            Mark::Conclusion,
            Tone::Plain,
            format!("estimates by --cycles{core} cite this from now on; kept in {}", path.display()),
        ),
        None if found.chosen => document.say_in(
            Mark::Conclusion,
            Tone::Plain,
            "some kernels alone say too little, so the result is not kept",
        ),
        None => document.say(
            Mark::Doubt,
            "neither XDG_CACHE_HOME nor HOME says where to keep this, so later estimates cannot cite it",
        ),
    }
    document
}

/// A table of figures with a name each.
fn table<const N: usize>(heads: [&str; N], rows: impl IntoIterator<Item = Row>) -> Table {
    let columns = heads.map(Column::fixed).to_vec();
    Table { caption: None, columns, rows: rows.into_iter().collect() }
}

fn figures<const N: usize>(name: &str, figures: [String; N]) -> Row {
    Row::of([Cell::text(name)].into_iter().chain(figures.map(Cell::figure)).collect())
}

fn left_out(left_out: &LeftOut) -> String {
    let LeftOut { noisy, not_here, not_emulated } = left_out;
    let parts: Vec<String> = [
        (noisy, "had too few quiet samples"),
        (not_here, "need instructions that this CPU lacks"),
        (
            not_emulated,
            "have no count: the emulated CPU lacks their instructions, or a tick fell into them",
        ),
    ]
    .into_iter()
    .filter(|(count, _)| **count > 0)
    .map(|(count, why)| format!("{count} {why}"))
    .collect();
    if parts.is_empty() { String::new() } else { format!("; left out: {}", parts.join(", ")) }
}

fn errors(group: &Group, of: &str) -> Row {
    let (model, instructions) = (&group.model, &group.instructions);
    let errors =
        [model.error_median, model.error_p90, instructions.error_median, instructions.error_p90];
    let [one, two, three, four] = errors.map(magnitude);
    let builds = model.kernels.to_string();
    figures(&format!("{of}{}", group.name), [builds, one, two, three, four])
}

fn share(hits: Hits) -> String {
    hits.share().map_or("–".into(), |share| format!("{:.0} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_core_model::Confidence;
    use opcost_model::validation::{Case, report};
    use opcost_page::style::Style;
    use opcost_page::writer::text::text;
    use opcost_record::gauge::KernelName;

    fn found() -> Found {
        let case = |kernel: &str, build: &str, truth: f64, modelled: f64| Case {
            name: KernelName {
                class: "sorting".into(),
                kernel: kernel.into(),
                build: build.into(),
            },
            truth,
            modelled,
            instructions: 1000.0,
            confidence: Confidence::High,
        };
        let cases = [
            case("heapsort", "gcc-O1", 1000.0, 1100.0),
            case("heapsort", "clang-O2", 1500.0, 1400.0),
            case("bubble", "gcc-O1", 123_456.0, 7.0),
        ];
        Found {
            schema: 1,
            core: "zen4".into(),
            given: "zen4".into(),
            fingerprint: "0".into(),
            cpu: "AMD EPYC (AuthenticAMD family 25 model 17)".into(),
            clock: "tsc",
            left_out: LeftOut { noisy: 2, not_here: 0, not_emulated: 5 },
            report: report(&cases).unwrap(),
            chosen: false,
            kept: Some("/home/user/.cache/opcost/validations/0.toml".into()),
            seconds: 1.0,
        }
    }

    #[test]
    fn the_page_has_errors_directions_and_the_worst_and_fits_its_width() {
        let text = text(&document(&found()), &Style::plain());
        for part in [
            "3 builds of kernels; cycles by the time stamp counter",
            "left out: 2 had too few quiet samples, 5 have no count",
            "differ by more than 30 %              1    100 %           0 %",
            "sorting:bubble@gcc-O1",
            "claims of no size are right",
            "estimates by --cycles cite this from now on",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn another_core_and_a_missing_home_are_said() {
        let mut found = found();
        (found.core, found.given) = ("mine".into(), "./mine.toml".into());
        assert!(
            text(&document(&found), &Style::plain()).contains("--cycles --core ./mine.toml cite")
        );
        found.kept = None;
        found.left_out = LeftOut::default();
        found.chosen = true;
        assert!(text(&document(&found), &Style::plain()).contains("so the result is not kept"));
        found.chosen = false;
        let text = text(&document(&found), &Style::plain());
        assert!(text.contains("neither XDG_CACHE_HOME nor HOME") && !text.contains("left out"));
    }
}
