//! One document in every format: the same facts, and nothing that a reader's program obeys.

use opcost_page::document::{
    Block, Cell, Column, ColumnPlace, Document, Head, MailHead, Mark, Row, Sides, Table, Tone,
};
use opcost_page::style::Style;
use opcost_page::writer::{html, mail, markdown, text};
use opcost_record::printable::{Output, safe};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

const CPP: &str = "company::engine::Container<std::string, std::less<int> >::recompute(std::vector<int> const&, int)";
const RUST: &str = "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop";
const GO: &str = "github.com/company/engine/container.(*Container).Recompute";

fn wide() -> Style {
    Style { width: 400, full_names: true, ..Style::plain() }
}

fn of_width(width: usize) -> Style {
    Style { width, ..Style::plain() }
}

fn functions() -> Table {
    let row = |name: &str, figures: [&str; 3], verdict: (&'static str, &str, Tone), from: &str| {
        let [one, two, change] = figures.map(Cell::figure);
        let verdict = Cell::verdict(verdict.0, verdict.1, verdict.2);
        let from = Cell::List("←", vec![(from.to_string(), "+61.2".to_string())]);
        Row::toned(
            Tone::Worse,
            vec![
                Cell::Name(name.into(), " (libengine.so)".into()),
                one,
                two,
                change,
                Cell::figure("0.1 … 0.3"),
                verdict,
                from,
            ],
        )
    };
    Table {
        caption: None,
        columns: vec![
            Column::fixed("function"),
            Column::named("native"),
            Column::named("paravirt"),
            Column::fixed("change"),
            Column::optional("interval", 1),
            Column::fixed("verdict"),
            Column::below("called from"),
        ],
        rows: vec![
            row(
                CPP,
                ["1,234,567", "2,234,567", "+1,000,000"],
                ("▲", "real", Tone::Worse),
                "handle_mm_fault",
            ),
            row(RUST, ["0.5", "0.7", "+0.2"], ("", "none found", Tone::Quiet), "unmap_vmas"),
            row(
                GO,
                ["–", "96.0", "+96.0"],
                ("▲", "not comparable", Tone::Unsure),
                "main.(*Server).run",
            ),
            Row::sum(vec![
                Cell::text("total"),
                Cell::figure("1,234,567.5"),
                Cell::figure("2,234,663.7"),
                Cell::figure("+1,000,096.2"),
                Cell::Empty,
                Cell::Empty,
                Cell::Empty,
            ]),
        ],
    }
}

fn report() -> Document {
    let mut report = Document::titled("mmap · 1,000,000 ops · emulated machine");
    report.say(Mark::None, "Does it matter?");
    report.section("where the +1,000,096.2 instructions/op come from:");
    report.table(functions());
    report.say(Mark::Note, "of 96 functions");
    report.gap();
    report.say(Mark::Conclusion, "paravirt against native: instructions +81.01 %, real");
    report.say(Mark::Doubt, "doubtful: 3 runs failed");
    report.code("sh", vec!["opcost gate --base 0123456789abcdef --tip 'two words' --case a-case-with-a-name --store x.sqlite".into()]);
    let mut fold = Document::default();
    fold.say(Mark::Item(0), "QEMU 7.2.0 counts 8 layouts");
    report.fold("How it was measured", fold);
    report.mail = Some(MailHead {
        subject: "instructions +81.01 %".into(),
        cc: vec!["A Person <a@b.example>".into()],
        trailers: Vec::new(),
    });
    report
}

/// Text without the places where it is broken into lines.
fn joined(text: &str) -> String {
    text.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn missing(facts: &[String], text: &str, output: Output) -> Vec<String> {
    let text = joined(text);
    facts
        .iter()
        .map(|fact| safe(fact, output))
        .filter(|fact| !text.contains(&joined(fact)))
        .collect()
}

fn check_facts(document: &Document) {
    let facts = document.facts();
    let none: Vec<String> = Vec::new();
    assert_eq!(missing(&facts, &text::text(document, &wide()), Output::Line), none);
    assert_eq!(missing(&facts, &markdown::markdown(document, &wide()), Output::Markdown), none);
    let whole = html::html(document).into_string();
    let own = facts.iter().filter(|fact| fact.width() <= 60).cloned().collect::<Vec<_>>();
    assert_eq!(missing(&own, &whole, Output::Xml), none);
    let mail = mail::mail(document, &wide());
    // A mail breaks a name that is longer than its lines.
    let bare = |text: &str| joined(text).replace(' ', "");
    let found = |fact: &&String| bare(&mail).contains(&bare(&safe(fact, Output::Line)));
    let lost: Vec<&String> = facts.iter().filter(|fact| !found(fact)).collect();
    assert_eq!(lost, Vec::<&String>::new(), "{mail}");
}

#[test]
fn every_format_has_every_name_and_figure() {
    let report = report();
    assert!(
        report.facts().contains(&CPP.to_string())
            && report.facts().contains(&"+1,000,096.2".to_string())
    );
    check_facts(&report);
}

#[test]
fn a_narrow_page_keeps_verdicts_and_what_tells_functions_apart() {
    for width in [60, 72, 80, 100, 120, 200] {
        let shown = text::text(&report(), &of_width(width));
        let long: Vec<&str> = shown
            .lines()
            .filter(|line| line.width() > width && !line.contains("opcost gate"))
            .collect();
        assert!(long.is_empty(), "{width}: {long:?}\n{shown}");
        for word in [
            "recompute",
            "drop",
            "Recompute",
            "▲ real",
            "none found",
            "▲ not comparable",
            "1,234,567",
            "+1,000,096.2",
        ] {
            assert!(shown.contains(word), "{word} at {width}:\n{shown}");
        }
        assert_eq!(shown.contains("0.1 … 0.3"), width >= 100, "{width}:\n{shown}");
    }
}

#[test]
fn a_mail_has_a_head_and_no_long_line() {
    let mail = mail::mail(&report(), &Style { color: true, ascii: true, ..Style::plain() });
    assert!(
        mail.starts_with("Subject: instructions +81.01 %\nCc: A Person <a@b.example>\n\nmmap ·"),
        "{mail}"
    );
    assert!(mail.lines().all(|line| line.width() <= mail::MAIL_WIDTH), "{mail}");
    assert!(mail.contains(" \\\n"), "a command is broken as a shell joins it:\n{mail}");
}

#[test]
fn a_locale_without_utf_8_gets_ascii() {
    let mut report = report();
    report.say(Mark::None, "a name in Latin: é");
    report.blocks.push(opcost_page::document::Block::Figure(vec![Some(1.0), None, Some(2.0)]));
    let shown = text::text(&report, &Style { ascii: true, ..Style::plain() });
    assert!(shown.is_ascii(), "{shown}");
    for word in ["^ real", "-> paravirt", "<- handle_mm_fault", "a name in Latin: \\u{e9}", "_-#"] {
        assert!(shown.contains(word), "{word}:\n{shown}");
    }
    let long =
        shown.lines().filter(|line| line.width() > 80 && !line.contains("opcost gate")).count();
    assert_eq!(long, 0, "{shown}");
}

#[test]
fn long_names_of_variants_get_letters_in_text_only() {
    let mut table = functions();
    table.columns[2].head = Head::Name("gcc -O3 -march=native -flto".into());
    let mut report = Document::default();
    report.table(table);
    let shown = text::text(&report, &Style::plain());
    assert!(
        shown.contains("A: native\n") && shown.contains("B: gcc -O3 -march=native -flto\n"),
        "{shown}"
    );
    assert!(
        markdown::markdown(&report, &Style::plain())
            .contains("| native | gcc -O3 -march=native -flto |")
    );
    assert!(
        !text::text(&report, &of_width(160)).contains("A: native")
            || "gcc -O3 -march=native -flto".width() > 24
    );
}

#[test]
fn figures_that_do_not_fit_beside_one_another_stand_in_parts_below() {
    let columns = (0..12).map(|number| Column::named(format!("variant number {number}")));
    let row = |name: &str, shift: usize| {
        let figures = (0..12).map(|number| Cell::figure(format!("{}.00 ▲", 100 + shift + number)));
        Row::of([Cell::text(name)].into_iter().chain(figures).collect())
    };
    let mut report = Document::default();
    report.table(Table {
        caption: None,
        columns: [Column::fixed("")].into_iter().chain(columns).collect(),
        rows: vec![row("instructions/op", 0), row("branches/op", 20)],
    });
    check_facts(&report);
    for width in [20, 60, 80, 120] {
        let shown = text::text(&report, &of_width(width));
        for number in (0..12).chain(20..32) {
            assert_eq!(shown.matches(&format!("{}.00 ▲", 100 + number)).count(), 1, "{shown}");
        }
        assert!(shown.lines().all(|line| line.width() <= width), "{width}:\n{shown}");
        // A letter stands for one variant in all parts; a wide page has the names.
        let letters =
            shown.lines().filter(|line| line.contains(": variant")).map(|line| &line[..1]);
        let letters: String = letters.collect();
        assert_eq!(letters, if width < 110 { "ABCDEFGHIJKL" } else { "" }, "{width}:\n{shown}");
    }
}

/// Callers have as many lines as they take, and each name says which function it is.
#[test]
fn chains_of_callers_are_broken_between_names() {
    let names = vec![CPP.to_string(), "main".into(), RUST.to_string(), GO.to_string()];
    let mut report = Document::default();
    report.table(Table {
        caption: None,
        columns: vec![Column::fixed("function"), Column::fixed("self")],
        rows: vec![
            Row::of(vec![Cell::Name("leaf".into(), String::new()), Cell::figure("7.5 ms")]),
            Row { depth: 1, ..Row::of(vec![Cell::Chain("61.20 %".into(), names), Cell::Empty]) },
        ],
    });
    check_facts(&report);
    assert!(text::text(&report, &wide()).contains("\n    61.20 % ← company::engine::Container"));
    for width in [60, 80, 120] {
        let shown = text::text(&report, &of_width(width));
        assert!(shown.lines().all(|line| line.width() <= width), "{width}:\n{shown}");
        for name in ["recompute", "← main", "drop", "Recompute"] {
            assert!(shown.contains(name), "{name} at {width}:\n{shown}");
        }
    }
}

#[test]
fn two_codes_stand_side_by_side_where_both_fit() {
    let line = |first: Option<&str>, second: Option<&str>, is_same| Sides {
        first: first.map(str::to_string),
        second: second.map(str::to_string),
        is_same,
    };
    let mut report = Document::default();
    report.blocks.push(Block::Sides(vec![
        line(Some("+0  push %rbp"), Some("+0  push %rbp"), true),
        line(Some("+1  mov %rsp, %rbp"), Some("+1  nop"), false),
        line(None, Some("+2  ret"), false),
    ]));
    check_facts(&report);
    let beside = text::text(&report, &of_width(110));
    assert!(beside.lines().nth(1).unwrap().starts_with("+1  mov %rsp, %rbp  "), "{beside}");
    assert!(beside.contains(" | +1  nop\n") && beside.contains(" > +2  ret\n"), "{beside}");
    let below = "  +0  push %rbp\n- +1  mov %rsp, %rbp\n+ +1  nop\n+ +2  ret\n";
    assert_eq!(text::text(&report, &of_width(109)), below);
    let markdown = markdown::markdown(&report, &Style::plain());
    assert_eq!(markdown, format!("```diff\n{below}```\n"));
}

#[test]
fn foreign_text_is_harmless_in_every_format() {
    let evil = "a\x1b[2J|<b>`c`\u{202e}@someone\n::error::";
    let mut report = Document::titled(evil);
    report.section(evil);
    for mark in
        [Mark::None, Mark::Note, Mark::Conclusion, Mark::Doubt, Mark::Missing, Mark::Item(1)]
    {
        report.say(mark, evil);
    }
    let cells = vec![
        Cell::Name(evil.into(), evil.into()),
        Cell::text(evil),
        Cell::Brief(evil.into()),
        Cell::figure(evil),
        Cell::Spread(evil.into(), evil.into()),
        Cell::File(evil.into()),
        Cell::verdict("", evil, Tone::Plain),
        Cell::List("←", vec![(evil.into(), evil.into())]),
        Cell::Code(evil.into()),
        Cell::Chain(evil.into(), vec![evil.into()]),
    ];
    let columns =
        cells.iter().map(|_| Column { head: Head::Name(evil.into()), place: ColumnPlace::Fixed });
    report.table(Table {
        caption: Some(evil.into()),
        columns: columns.collect(),
        rows: vec![Row::of(cells)],
    });
    report.code("sh", vec![evil.into()]);
    let line = Sides { first: Some(evil.into()), second: Some(evil.into()), is_same: false };
    report.blocks.push(Block::Sides(vec![line]));
    report.rows([vec![Cell::Chain(evil.into(), vec![evil.into()])]]);
    report.fold(evil, Document::titled(evil));
    report.mail =
        Some(MailHead { subject: evil.into(), cc: vec![evil.into()], trailers: vec![evil.into()] });
    let shown = [
        text::text(&report, &Style::plain()),
        text::text(&report, &wide()),
        mail::mail(&report, &Style::plain()),
        markdown::markdown(&report, &Style::plain()),
        html::html(&report).into_string(),
    ];
    for text in &shown {
        assert!(!text.contains('\x1b') && !text.contains('\u{202e}'), "{text:?}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("::error")), "{text}");
    }
    let [.., markdown, html] = &shown;
    assert!(!html.contains("<b>"), "{html}");
    assert!(!markdown.contains(" @someone") && !markdown.contains("J<b>"), "{markdown}");
    let rows: Vec<&str> = markdown.lines().filter(|line| line.starts_with('|')).collect();
    let bars = |line: &&str| line.replace("\\|", "").matches('|').count();
    assert_eq!(rows.iter().map(bars).collect::<Vec<_>>(), [11, 11, 11, 2, 2, 2], "{markdown}");
}

fn cell() -> impl Strategy<Value = Cell> {
    let word = "[a-z_]{1,12}( [a-z]{1,9}){0,3}";
    prop_oneof![
        Just(Cell::Empty),
        "[0-9]{1,3},[0-9]{3}( ms)?".prop_map(Cell::figure),
        word.prop_map(Cell::text),
        ("[a-z_]{1,20}(::[a-z_<>]{1,20}){0,4}", "( \\(lib[a-z]{1,9}.so\\))?")
            .prop_map(|(name, behind)| Cell::Name(name, behind)),
        word.prop_map(|word| Cell::verdict("▲", word, Tone::Better)),
    ]
}

fn place() -> impl Strategy<Value = ColumnPlace> {
    prop_oneof![3 => Just(ColumnPlace::Fixed), 1 => (0u8..4).prop_map(ColumnPlace::Optional), 1 => Just(ColumnPlace::Below)]
}

fn table() -> impl Strategy<Value = Table> {
    (1usize..7).prop_flat_map(|columns| {
        let rows = prop::collection::vec(prop::collection::vec(cell(), columns), 1..6);
        (prop::collection::vec(("[a-z]{0,9}", place()), columns), rows).prop_map(
            |(columns, rows)| Table {
                caption: None,
                columns: columns
                    .into_iter()
                    .map(|(head, place)| Column { head: Head::Word(head), place })
                    .collect(),
                rows: rows.into_iter().map(Row::of).collect(),
            },
        )
    })
}

proptest! {
    /// Whatever the table, all formats have the same names and figures, and nothing panics at any width.
    #[test]
    fn the_same_facts_stand_in_every_format(tables in prop::collection::vec(table(), 1..3), width in 1usize..130) {
        let mut report = Document::titled("1 of 2");
        for table in tables {
            report.section("with 3 rows");
            report.table(table);
        }
        check_facts(&report);
        let narrow = joined(&text::text(&report, &of_width(width)));
        let verdicts = report.blocks.iter().filter_map(|block| match block {
            opcost_page::document::Block::Table(table) => Some(table),
            _ => None,
        });
        for table in verdicts {
            for row in &table.rows {
                for (at, (cell, column)) in row.cells.iter().zip(&table.columns).enumerate() {
                    if let (Cell::Verdict(verdict), ColumnPlace::Fixed) = (cell, column.place) && at > 0 {
                        prop_assert!(narrow.contains(&verdict.word), "{}:\n{}", verdict.word, narrow);
                    }
                }
            }
        }
    }
}

/// A function's name in C++, Rust or Go, and the part of it that tells which function it is.
fn function() -> impl Strategy<Value = (String, String)> {
    let own = "[a-z][a-z_]{3,14}";
    let path = || prop::collection::vec("[a-z]{2,9}", 0..5);
    let types = prop_oneof![
        Just(String::new()),
        Just("<int, std::less<int> >".to_string()),
        Just("<std::map<int, std::vector<long> > >".to_string()),
    ];
    let cpp = (path(), types, own, any::<bool>()).prop_map(|(path, types, own, is_const)| {
        let class = format!("Container{types}");
        let path = path.into_iter().chain([class]).collect::<Vec<_>>().join("::");
        let end = if is_const { " const" } else { "" };
        (format!("{path}::{own}(std::vector<int> const&, unsigned long){end}"), own)
    });
    let rust = (path(), own, any::<bool>()).prop_map(|(path, own, is_of_trait)| {
        let path = path.into_iter().chain(["part".into()]).collect::<Vec<_>>().join("::");
        let name = match is_of_trait {
            true => format!("<{path}::Table<K,V> as {path}::Reader>::{own}"),
            false => format!("{path}::{own}::<alloc::string::String>"),
        };
        (name, own)
    });
    let go = (path(), own, 0..3).prop_map(|(path, own, form)| {
        let path = ["github.com".into()].into_iter().chain(path).collect::<Vec<_>>().join("/");
        let name = match form {
            0 => format!("{path}/engine.(*Container).{own}"),
            1 => format!("{path}/engine.{own}[go.shape.int,go.shape.string]"),
            _ => format!("{path}/engine.{own}"),
        };
        (name, own)
    });
    prop_oneof![cpp, rust, go]
}

proptest! {
    /// However narrow the page, a row's name says which function it is, and its verdict stands whole.
    #[test]
    fn a_row_says_which_function_it_is(
        functions in prop::collection::vec(function(), 1..5), behind in "( \\(lib[a-z]{1,9}\\.so\\.[0-9]\\))?", width in 60usize..130,
    ) {
        let row = |(name, own): &(String, String)| {
            let figures = ["1,234,567", "2,234,567", "+1,000,000"].map(Cell::figure);
            let name = Cell::Name(name.clone(), behind.clone());
            let callers = Cell::List("←", vec![(own.clone(), "+61.2".into())]);
            let verdict = Cell::verdict("▲", "not comparable", Tone::Unsure);
            Row::of([name].into_iter().chain(figures).chain([verdict, callers]).collect())
        };
        let heads = ["function", "native", "paravirt", "change", "verdict"].map(Column::fixed);
        let mut report = Document::default();
        report.table(Table {
            caption: None,
            columns: heads.into_iter().chain([Column::below("called from")]).collect(),
            rows: functions.iter().map(row).collect(),
        });
        let shown = text::text(&report, &of_width(width));
        prop_assert!(shown.lines().all(|line| line.width() <= width), "{}", shown);
        prop_assert_eq!(shown.matches("▲ not comparable").count(), functions.len());
        // Callers have the names, too, so each stands once more.
        let mut owns: Vec<&String> = functions.iter().map(|(_, own)| own).collect();
        owns.sort_unstable();
        owns.dedup();
        for own in owns {
            let expected = functions.iter().filter(|(_, known)| known == own).count();
            prop_assert!(shown.matches(own.as_str()).count() >= 2 * expected, "{own} in {}", shown);
        }
    }
}
