//! A gate's report in every format.

use opcost_analysis::comparison::{
    CallerRow, FunctionComparison, FunctionRow, FunctionVerdict, Sides,
};
use opcost_gate::gate::bisect::{
    Alone, BisectStep, BisectedFigure, Bisection, Check, Suspect, SuspectKind, UntestableSuspects,
};
use opcost_gate::gate::branch::Branch;
use opcost_gate::gate::exact::ExactChange;
use opcost_gate::gate::floor::Floor;
use opcost_gate::gate::key::{FigureKey, KeyDifference};
use opcost_gate::gate::report::{
    Against, CaseFailure, CaseReport, FigureReport, GateReport, GateVerdict, Outcome, Recount,
    RevisionSide, SourceLine,
};
use opcost_gate::gate::series::{Series, SeriesFigure, SeriesRow};
use opcost_gate::gate::suite_change::SuiteChange;
use opcost_gate::gate::trailer::Accepted;
use opcost_page::writer;
use opcost_record::{Better, Unit};
use opcost_report::render::Style;
use opcost_report::render::gate::{
    GATE_FORMATS, GateView, bisect as bisect_page, document as gate_document, render,
    series as series_page,
};
use quick_xml::events::Event;

fn side(name: &str, commit: char) -> RevisionSide {
    RevisionSide {
        name: name.into(),
        commit: commit.to_string().repeat(40),
        subject: "Say | what <it> does".into(),
    }
}

fn figure(metric: &str, sides: [f64; 2], limit: Option<&str>, outcome: Outcome) -> FigureReport {
    FigureReport {
        metric: metric.into(),
        unit: Unit::Count,
        better: Better::Lower,
        baseline: Some(sides[0]),
        value: Some(sides[1]),
        floor: Some(Floor { most: 210, layouts: Some(11) }),
        exact: None,
        in_layouts: None,
        over_commits: None,
        limit: limit.map(|limit| limit.parse().unwrap()),
        outcome,
    }
}

fn case(name: &str, figures: Vec<FigureReport>) -> CaseReport {
    CaseReport {
        name: name.into(),
        work: format!("./bench {name}"),
        figures,
        failure: None,
        functions: None,
        exact: (Vec::new(), 0),
        functions_missing: None,
        recordings: [Some("261123-1a".into()), Some("261123-2b".into())],
        key: FigureKey::new([
            ("arch", "x86_64"),
            ("cpu", "max"),
            ("emulator", "7.2.22"),
            ("work", name),
        ]),
        counted: Some("counted with Linux 6.1.192 (command), QEMU 7.2.22".into()),
        recounted: None,
        place: None,
    }
}

fn sides(value_baseline: f64, value: f64) -> Sides {
    Sides { value_baseline, value, change: value - value_baseline }
}

fn functions() -> FunctionComparison {
    let caller = |symbol: &str, one, two| CallerRow {
        symbol: symbol.into(),
        module: "/tree/bench".into(),
        own: sides(one, two),
        calls: sides(1.0, 1.0),
    };
    let row = |symbol: &str, module: &str, one, two, callers| {
        let mut row = FunctionRow::default();
        (row.symbol, row.module, row.own) = (symbol.into(), module.into(), sides(one, two));
        (row.appeared, row.callers) = (one == 0.0, callers);
        row
    };
    FunctionComparison {
        baseline: 0,
        variant: 1,
        per_op: false,
        modelled: false,
        sampled: None,
        total: sides(1_000_000.0, 1_005_000.0),
        verdict: FunctionVerdict::FewLayouts,
        layouts: None,
        profiled_layouts: None,
        rows: vec![
            row(
                "parse_line",
                "/tree/bench",
                100_000.0,
                104_000.0,
                vec![caller("main", 60_000.0, 63_000.0), caller("again<T>", 40_000.0, 41_000.0)],
            ),
            row("check", "/tree/bench", 0.0, 1_200.0, vec![caller("parse_line", 0.0, 1_200.0)]),
            row("clear_page", "[kernel]", 5_300.0, 5_000.0, Vec::new()),
        ],
        unattributed: sides(0.0, 100.0),
        modules: Vec::new(),
        unmatched: None,
    }
}

/// A report with every outcome.
pub(crate) fn everything() -> GateReport {
    let limit = Some("0.1% or 1000");
    let accepted = Accepted::parse("bbbbbbbbbbbb", "print +2.1%").unwrap();
    let mut parse = case(
        "parse",
        vec![
            figure("instructions", [1e6, 1_005_000.0], limit, Outcome::Exceeded),
            figure("page-faults", [52.0, 52.0], None, Outcome::Same),
            figure("function:again<T>", [0.0, 12.0], limit, Outcome::WithinLimit),
        ],
    );
    parse.functions = Some(functions());
    let updated = KeyDifference {
        part: "emulator".into(),
        baseline: Some("7.2.1".into()),
        now: Some("7.2.22".into()),
    };
    parse.recounted = Some(Recount { written: side("", 'd'), differences: vec![updated] });
    parse.place = Some(SourceLine { file: "src/parse.c".into(), line: 17 });
    let other = KeyDifference {
        part: "cpu".into(),
        baseline: Some("Skylake-Client-v1".into()),
        now: Some("max".into()),
    };
    let mut wall =
        figure("wall", [0.0; 2], Some("5%"), Outcome::Unchanged("; 1.20 % would have been".into()));
    (wall.unit, wall.baseline, wall.value, wall.floor) =
        (Unit::Ns, Some(2.5e6), Some(2.51e6), None);
    let mut cases = vec![
        parse,
        case(
            "print",
            vec![figure(
                "instructions",
                [500_000.0, 510_000.0],
                limit,
                Outcome::Accepted(vec![accepted]),
            )],
        ),
        case("sort", vec![figure("instructions", [7e5, 6e5], limit, Outcome::Improved)]),
        case("read", vec![figure("instructions", [7e5, 700_100.0], limit, Outcome::WithinFloor)]),
        case(
            "write",
            vec![figure("instructions", [1.0, 1.0], limit, Outcome::NotComparable(vec![other]))],
        ),
        case("time", vec![wall]),
        case(
            "odd",
            vec![figure(
                "instructions",
                [1.0, 1.0],
                limit,
                Outcome::Refused("its counts do not repeat: 1, then 2".into()),
            )],
        ),
    ];
    for figure in cases.iter_mut().flat_map(|case| &mut case.figures) {
        match figure.outcome {
            Outcome::NotComparable(_) => (figure.baseline, figure.floor) = (None, None),
            Outcome::Refused(_) => {
                (figure.baseline, figure.value, figure.floor) = (None, None, None)
            }
            _ => {}
        }
    }
    cases.push(CaseReport {
        failure: Some(CaseFailure::New { why: "there is no ./fresh".into(), accepted: None }),
        ..case("fresh", Vec::new())
    });
    GateReport {
        against: Against::Base(side("merge base with origin/main", 'a')),
        tip: side("HEAD", 'b'),
        branch: Some(Branch { left: "e".repeat(40), head: side("", 'f'), commits: 3 }),
        cases,
        suite_changes: vec![SuiteChange {
            case: "count".into(),
            setting: "limit".into(),
            from: "0.10 %".into(),
            to: "900 %".into(),
            kept: false,
        }],
        orphans: vec!["gone".into()],
        notes: vec!["HEAD is measured: changes of 2 files are left out".into()],
        updated: false,
    }
}

fn shown(report: &GateReport, format: &str, soft: bool) -> String {
    render(format, &GateView { report, style: &Style::plain(), soft }).unwrap()
}

#[test]
fn every_format_shows_every_outcome() {
    let report = everything();
    assert_eq!(report.verdict(), GateVerdict::Exceeded);
    let view = GateView { report: &report, style: &Style::plain(), soft: false };
    crate::facts::check(&gate_document(&view));
    for format in GATE_FORMATS {
        let text = shown(&report, format.name, false);
        let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        insta::assert_snapshot!(format!("gate_{}", format.name), text);
    }
    let text = shown(&report, "text", false);
    let long = text.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None);
}

#[test]
fn what_programs_read_is_what_they_expect() {
    let report = everything();
    let json: serde_json::Value = serde_json::from_str(&shown(&report, "json", false)).unwrap();
    assert_eq!(json["verdict"], "exceeded");
    assert_eq!(json["cases"][0]["figures"][0]["change_ratio"], 0.005);
    let bencher: serde_json::Value =
        serde_json::from_str(&shown(&report, "bencher", false)).unwrap();
    assert_eq!(bencher["parse"]["instructions"]["value"], 1_005_000.0);
    assert!(bencher.get("fresh").is_none() && bencher.get("odd").is_none(), "nothing is not 0");
    let junit = shown(&report, "junit", false);
    let mut xml = quick_xml::Reader::from_str(&junit);
    let mut cases = 0;
    loop {
        match xml.read_event().unwrap() {
            Event::Eof => break,
            Event::Start(element) if element.name().as_ref() == "testcase" => cases += 1,
            _ => {}
        }
    }
    assert_eq!(cases, 11);
    let soft = shown(&report, "annotations", true);
    assert!(
        !soft.contains("::error") && soft.contains("::warning file=src/parse.c,line=17,"),
        "{soft}"
    );
}

#[test]
fn a_comment_is_never_too_long() {
    let mut report = everything();
    let many = report.cases[0].clone();
    for number in 0..400 {
        let name = format!("case-{number}-{}", "x".repeat(60));
        report.cases.push(CaseReport { name, ..many.clone() });
    }
    let text = shown(&report, "markdown", false);
    assert!(text.chars().count() <= 65_536, "{}", text.chars().count());
    assert!(text.starts_with("<!-- opcost gate -->\n❌ **The change must not land: parse instructions +0.50 %, and 400 more.**"));
    assert!(text.ends_with("have it.\n"));
}

#[test]
fn the_worst_case_decides() {
    let verdict = |change: &dyn Fn(&mut GateReport)| {
        let mut report = everything();
        change(&mut report);
        report.verdict()
    };
    let keep = |names: &'static [&str]| {
        move |report: &mut GateReport| {
            report.orphans.clear();
            report.cases.retain(|case| names.contains(&case.name.as_str()));
        }
    };
    assert_eq!(verdict(&keep(&["print", "sort", "read", "time"])), GateVerdict::MayLand);
    for open in ["write", "odd", "fresh"] {
        let of_one = |report: &mut GateReport| {
            report.orphans.clear();
            report.cases.retain(|case| case.name == open);
        };
        assert_eq!(verdict(&of_one), GateVerdict::NoAnswer, "{open}");
    }
    assert_eq!(verdict(&keep(&[])), GateVerdict::NoAnswer, "nothing matched");
    // A baseline without a case is no pass.
    let orphan = |report: &mut GateReport| report.cases.retain(|case| case.name == "read");
    assert_eq!(verdict(&orphan), GateVerdict::NoAnswer);
    let failed = |report: &mut GateReport| {
        report.cases[1].failure = Some(CaseFailure::Failed("the build failed".into()));
    };
    assert_eq!(verdict(&failed), GateVerdict::Failed);
    // Cases with the same failed build share one message.
    let mut report = everything();
    for case in report.cases.iter_mut().take(2) {
        case.failure =
            Some(CaseFailure::Failed("tip: the build 'make' failed\n    a.c:3: error".into()));
        case.figures.clear();
    }
    let text = shown(&report, "text", false);
    assert_eq!(text.matches("a.c:3: error").count(), 1, "{text}");
    assert!(
        text.contains(
            "parse, print: what failed\n    tip: the build 'make' failed\n        a.c:3: error\n"
        ),
        "{text}"
    );
    assert!(report.headline().ends_with("failed: parse, print tip: the build 'make' failed."));
    let accepted = |report: &mut GateReport| {
        keep(&["fresh"])(report);
        let by = Accepted::parse("bbbbbbbbbbbb", "fresh new").ok();
        report.cases[0].failure = Some(CaseFailure::New { why: String::new(), accepted: by });
    };
    assert_eq!(verdict(&accepted), GateVerdict::MayLand);
}

/// A series of five commits.
pub(crate) fn series() -> Series {
    let figure = |case: &str, base: Result<u64, String>| SeriesFigure {
        case: case.into(),
        metric: "instructions".into(),
        unit: Unit::Count,
        better: Better::Lower,
        base,
        floor: Some(Floor { most: 50, layouts: Some(11) }),
    };
    let failed =
        || Err("parse: the build 'make' ended with status 2\n    main.c:3: error".to_string());
    // One commit changed functions that no layout moves.
    let exact = |commit: char| match commit {
        'b' => [("parse_line", [500, 530], [1, 1]), ("check", [0, 90], [0, 30])]
            .map(|(function, own, calls)| ExactChange {
                function: function.into(),
                own,
                calls,
                is_kernel: false,
            })
            .to_vec(),
        _ => Vec::new(),
    };
    let row = |commit: char, parse: Result<u64, String>| SeriesRow {
        side: RevisionSide {
            subject:
                "Parse lines that are longer than any terminal is wide, whatever it takes to do so"
                    .into(),
            ..side("", commit)
        },
        functions: vec![exact(commit), Vec::new()],
        values: vec![parse, Ok(7_000)],
    };
    Series {
        base: side("main", 'a'),
        range: "main..HEAD".into(),
        figures: vec![figure("parse", Ok(1_000_000)), figure("sort", Ok(7_000))],
        rows: vec![
            row('b', Ok(1_280_000)),
            row('c', failed()),
            row('d', Ok(1_000_040)),
            row('e', Ok(1_000_080)),
            row('f', Ok(1_005_000)),
        ],
        notes: vec!["case 'sort' has no-functions, so its metric is instructions".into()],
    }
}

#[test]
fn a_series_adds_up_in_every_format() {
    let series = series();
    crate::facts::check(&series_page::document(&series));
    let text = writer::text::text(&series_page::document(&series), &Style::plain());
    let mail = writer::mail::mail(&series_page::document(&series), &Style::plain());
    for (shown, width) in [(&text, 80), (&mail, 72)] {
        assert_eq!(shown.lines().find(|line| line.chars().count() > width), None);
    }
    insta::assert_snapshot!("series_text", text);
    insta::assert_snapshot!("series_mail", mail);
    let json: serde_json::Value =
        serde_json::from_str(&series_page::json(&series).unwrap()).unwrap();
    let steps = json["figures"][0]["steps"].as_array().unwrap();
    let sum: i64 = steps.iter().filter_map(|step| step["change"].as_i64()).sum();
    assert_eq!(json["figures"][0]["total"]["change"], sum);
    assert_eq!(sum, 5_000);
    assert_eq!(json["notes"][0], series.notes[0]);
    assert!(steps[1]["unknown"].as_str().unwrap().contains("status 2"));
}

fn step(suspects: Vec<Suspect>, change: i128) -> BisectStep {
    BisectStep {
        functions: vec![("parse_line".into(), change), ("hash".into(), -change)],
        ..BisectStep::between(suspects.iter(), 1_000_000, change)
    }
}

/// A bisection with a merge and a step that could not be told apart.
pub(crate) fn bisection() -> Bisection {
    let suspect = |commit: char, title: &str| Suspect {
        id: commit.to_string().repeat(40),
        title: title.into(),
        author: Some("A Developer <dev@example.org>, 2026-01-02".into()),
    };
    let check = Check {
        recording: "261121-c0ffee".into(),
        conclusion:
            "bbbbbbbbbbbb against parent: instructions +28.0 %, real (in each of 5 layouts)".into(),
        confirmed: Some(true),
        functions: Some(functions()),
        differences: vec!["CONFIG_PARAVIRT: n, then y".into()],
    };
    let long = "Parse lines that are longer than any terminal is wide, whatever it takes to do so";
    let merge = BisectStep {
        inside: vec![BisectStep { check: Some(check), ..step(vec![suspect('b', long)], 280_000) }],
        of_merge: Some(4_000),
        ..step(vec![suspect('c', "Merge branch 'lines'")], 284_000)
    };
    let open = step(vec![suspect('d', "Break the build"), suspect('e', "Mend it")], -9_500);
    Bisection {
        case: "parse".into(),
        work: "./bench parse".into(),
        kind: SuspectKind::Commit,
        ends: [suspect('a', "Begin"), suspect('f', "End")],
        figure: BisectedFigure {
            name: "instructions".into(),
            unit: Unit::Count,
            better: Better::Lower,
            values: [1_000_000, 1_274_700],
            floor: Some(Floor { most: 50, layouts: Some(11) }),
            least_step: 1_400,
        },
        points: 40,
        counted: 12,
        known: 3,
        steps: vec![merge, open],
        rest: 200,
        explained: 0.97,
        ended: None,
        untestable: vec![UntestableSuspects {
            tried: vec![suspect('d', "Break the build")],
            count: 1,
            why: "the build 'make' ended with status 2".into(),
        }],
        notes: vec!["v1 came by a merge".into()],
        command: "opcost bisect --good v1 --bad HEAD".into(),
    }
}

#[test]
fn a_bisection_adds_up_in_every_format() {
    let bisection = bisection();
    crate::facts::check(&bisect_page::document(&bisection));
    let text = writer::text::text(&bisect_page::document(&bisection), &Style::plain());
    let mail = writer::mail::mail(&bisect_page::document(&bisection), &Style::plain());
    for (shown, width) in [(&text, 80), (&mail, 72)] {
        assert_eq!(shown.lines().skip(1).find(|line| line.chars().count() > width), None);
    }
    insta::assert_snapshot!("bisect_text", text);
    insta::assert_snapshot!("bisect_mail", mail);
    let json: serde_json::Value =
        serde_json::from_str(&bisect_page::json(&bisection).unwrap()).unwrap();
    let steps = json["steps"].as_array().unwrap();
    let sum: i64 = steps.iter().map(|step| step["change"].as_i64().unwrap()).sum();
    assert_eq!(json["change"], sum + json["rest"].as_i64().unwrap());

    // Options: each has its effect alone, unless it needs others.
    let option = |id: &str, change, alone| BisectStep {
        alone: Some(alone),
        functions: Vec::new(),
        ..step(vec![Suspect { id: id.into(), title: "n → y".into(), author: None }], change)
    };
    let options = Bisection {
        kind: SuspectKind::Option,
        steps: vec![
            option("CONFIG_GUEST", 900, Alone::Moves(900)),
            option("CONFIG_XEN", 40_000, Alone::Moves(30_000)),
            option("CONFIG_XEN_PV", 233_600, Alone::NeedsOthers),
        ],
        untestable: Vec::new(),
        notes: Vec::new(),
        ..bisection
    };
    let text = writer::text::text(&bisect_page::document(&options), &Style::plain());
    assert_eq!(text.matches("alone").count(), 3, "{text}");
    for part in
        ["alone +30,000, the rest by what", "cannot be set alone: it needs what came before"]
    {
        assert!(text.contains(part), "no '{part}' in {text}");
    }
    let mut moved = options.clone();
    moved.figure.floor = Some(Floor { most: 10_000, layouts: Some(11) });
    let text = writer::text::text(&bisect_page::document(&moved), &Style::plain());
    assert!(!text.contains("alone +30,000"), "layouts alone move it by as much: {text}");
    let json: serde_json::Value =
        serde_json::from_str(&bisect_page::json(&options).unwrap()).unwrap();
    assert_eq!(options.headline(), "3 culprits were found");
    let of = |at: usize| (json["steps"][at]["alone"].as_i64(), &json["steps"][at]["needs_others"]);
    assert_eq!(of(1), (Some(30_000), &false.into()));
    assert_eq!(of(2), (None, &true.into()));

    // A step that other layouts do not show is no culprit.
    let mut options = options;
    options.steps[1].check = Some(Check {
        recording: String::new(),
        conclusion: "with against without: instructions −0.03 %, real".into(),
        confirmed: Some(false),
        functions: None,
        differences: Vec::new(),
    });
    let only =
        "2 culprits were found; CONFIG_XEN (n → y) moves it in the layout of the search only";
    assert_eq!(options.headline(), only);
    let text = writer::text::text(&bisect_page::document(&options), &Style::plain());
    assert!(text.contains("other layouts do not move it so"), "{text}");
    options.steps = vec![options.steps.remove(1)];
    let mail = writer::mail::mail(&bisect_page::document(&options), &Style::plain());
    assert!(mail.starts_with("Subject: [regression] instructions of parse: +27.47 %\n"), "{mail}");
}
