//! The findings of a validation, for people.

use super::{Found, LeftOut};
use opcost_base::number::{digits, grouped, magnitude};
use opcost_model::plan::guest::CORE_DEFAULT;
use opcost_model::validation::statistics::{BANDS, CLAIM_RATIO, DIFFER_RATIO, Group, Hits};
use opcost_report::render::Style;
use opcost_report::render::page::{BOLD, GREEN, PLAIN, Page, YELLOW, fit};

pub(super) fn text(found: &Found, style: &Style) -> String {
    let mut page = Page::new(style);
    let report = &found.report;
    page.wrap(BOLD, "", &format!("validation · core {} · {}", found.core, found.cpu));
    let counted = match found.clock {
        "tsc" => "cycles by the time stamp counter and a chain of multiplications",
        _ => "cycles by the PMU",
    };
    let kernels = format!(
        "{} builds of kernels; {counted}{}",
        report.all.model.kernels,
        left_out(&found.left_out)
    );
    page.wrap(PLAIN, "", &kernels);
    page.line("");
    page.line("  errors                          modelled cycles       instructions alone");
    page.line("                       builds   half <   9 of 10 <    half <   9 of 10 <");
    for group in report.classes.iter().chain([&report.all]) {
        page.line(&errors(group, &group.name));
    }
    page.line("");
    page.line("  by the confidence that the model has in its estimate");
    for group in &report.confidences {
        page.line(&errors(group, &group.name));
    }
    page.line("");
    page.line("  direction, over pairs of builds         pairs   modelled   instructions");
    let bands = BANDS.iter().enumerate().map(|(band, from)| {
        let name = match BANDS.get(band + 1) {
            Some(to) => format!("differ by {:.0} to {:.0} %", from * 100.0, to * 100.0),
            None => format!("differ by more than {:.0} %", from * 100.0),
        };
        (name, report.model.bands[band], report.instructions.bands[band])
    });
    for (name, model, instructions) in bands {
        page.line(&directions(&name, model, instructions));
    }
    let all = format!("all that differ by more than {:.0} %", DIFFER_RATIO * 100.0);
    page.line(&directions(&all, report.model.all, report.instructions.all));
    let claims = format!("claims above {:.0} % that are right", CLAIM_RATIO * 100.0);
    page.line(&shares(&claims, "", report.model.claims, report.instructions.claims));
    let wrong = |hits: Hits| Hits { right: hits.pairs - hits.right, ..hits };
    let false_claims = "false claims about equal builds";
    page.line(&directions(
        false_claims,
        wrong(report.model.equal),
        wrong(report.instructions.equal),
    ));
    let ratio = |error: Option<f64>| error.map_or("–".to_string(), magnitude);
    page.line(&format!(
        "  {} {:>8} {:>10}   {:>12}",
        fit("error of a ratio, half <", 36),
        "",
        ratio(report.model.ratio_error_median),
        ratio(report.instructions.ratio_error_median)
    ));
    page.line("");
    page.line("  furthest off                                    true     modelled   ratio");
    for worst in &report.worst {
        page.line(&format!(
            "  {} {:>9}   {:>10}   {:>5}   {}",
            fit(&worst.kernel, 40),
            grouped(worst.truth.round() as u64),
            grouped(worst.modelled.round() as u64),
            digits(worst.ratio),
            worst.confidence
        ));
    }
    page.line("");
    match report.decides_from_ratio {
        Some(ratio) => page.wrap(
            GREEN,
            "→ ",
            &format!("nine of ten claims are right from {} on", magnitude(ratio)),
        ),
        None => page.wrap(YELLOW, "→ ", "claims of no size are right nine times in ten"),
    }
    let core = match found.given == CORE_DEFAULT {
        true => String::new(),
        false => format!(" --core {}", found.given),
    };
    match &found.kept {
        Some(path) => page.wrap(
            PLAIN,
            "→ ",
            &format!("estimates by --cycles{core} cite this from now on; kept in {}", path.display()),
        ),
        None if found.chosen => page.wrap(PLAIN, "→ ", "some kernels alone say too little, so the result is not kept"),
        None => page.wrap(
            YELLOW,
            "! ",
            "neither XDG_CACHE_HOME nor HOME says where to keep this, so later estimates cannot cite it",
        ),
    }
    page.into_text()
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

fn errors(group: &Group, name: &str) -> String {
    let (model, instructions) = (&group.model, &group.instructions);
    format!(
        "  {} {:>8}   {:>6}   {:>9}    {:>6}   {:>9}",
        fit(name, 18),
        model.kernels,
        magnitude(model.error_median),
        magnitude(model.error_p90),
        magnitude(instructions.error_median),
        magnitude(instructions.error_p90)
    )
}

fn share(hits: Hits) -> String {
    hits.share().map_or("–".into(), |share| format!("{:.0} %", share * 100.0))
}

fn directions(name: &str, model: Hits, instructions: Hits) -> String {
    shares(name, &model.pairs.to_string(), model, instructions)
}

fn shares(name: &str, pairs: &str, model: Hits, instructions: Hits) -> String {
    format!("  {} {pairs:>8} {:>10}   {:>12}", fit(name, 36), share(model), share(instructions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_core_model::Confidence;
    use opcost_model::validation::{Case, report};
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
        let text = text(&found(), &Style::plain());
        for part in [
            "3 builds of kernels; cycles by the time stamp counter",
            "left out: 2 had too few quiet samples, 5 have no count",
            "differ by more than 30 %                    1      100 %            0 %",
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
        assert!(text(&found, &Style::plain()).contains("--cycles --core ./mine.toml cite"));
        found.kept = None;
        found.left_out = LeftOut::default();
        found.chosen = true;
        assert!(text(&found, &Style::plain()).contains("so the result is not kept"));
        found.chosen = false;
        let text = text(&found, &Style::plain());
        assert!(text.contains("neither XDG_CACHE_HOME nor HOME") && !text.contains("left out"));
    }
}
