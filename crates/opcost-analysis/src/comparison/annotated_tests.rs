use super::*;
use opcost_attribution::annotation::{CodeFacts, Flow, annotate};
use opcost_profile::annotate::{SourceState, SourceText};
use opcost_profile::symbolise::{CodeLines, LineAt, SourceFile};
use opcost_record::Function;
use opcost_size::{Code, Instruction};

/// A function with one instruction for each of these lines, which has a cost in each run.
fn side(text: &str, first: u32, costs: &[(u32, &[u64])], state: SourceState) -> Annotation {
    let instructions = (0..costs.len() as u64)
        .map(|offset| Instruction {
            offset,
            text: format!("i{}", costs[offset as usize].0),
            ..Instruction::default()
        })
        .collect();
    let at = |line: u32| LineAt { function: Some("f".into()), file: Some(0), line: Some(line) };
    let lines = CodeLines {
        places: costs.iter().map(|(line, _)| vec![at(*line)]).collect(),
        files: vec![SourceFile::default()],
        without: None,
    };
    let mut source: Vec<String> = vec!["above".into(); first as usize - 1];
    source.extend(text.lines().map(str::to_string));
    let source = if state.is_shown() { source } else { Vec::new() };
    let runs: Vec<Vec<(u64, Own)>> = (0..costs[0].1.len())
        .map(|run| {
            let own = |cost: u64| Own { cost, samples: cost, executions: 0 };
            costs.iter().enumerate().map(|(at, (_, cost))| (at as u64, own(cost[run]))).collect()
        })
        .collect();
    let bytes = costs.len() as u64;
    annotate(CodeFacts {
        function: &Function::new("f", "/bin/f"),
        pieces: vec![Code { address: 0, bytes, instructions }],
        lines: &lines,
        sources: vec![SourceText { path: "/src/f.c".into(), lines: source, state }],
        runs: &runs,
        totals: vec![1000; runs.len()],
        flow: Flow::default(),
    })
}

fn names() -> [String; 2] {
    ["a".into(), "b".into()]
}

fn counted(one: Annotation, two: Annotation) -> AnnotatedDifference {
    let ones = [&one, &two].map(|side| vec![1; side.own.len()]);
    counted_difference(names(), [one, two], ones, true)
}

/// The numbers and the costs of both sides, and the verdict of each row with code.
fn shown(difference: &AnnotatedDifference) -> Vec<([Option<u32>; 2], [u64; 2], FunctionVerdict)> {
    let rows = difference.rows.iter();
    let with_code = rows.filter_map(|row| Some((row.numbers, row.figures.as_ref()?)));
    with_code.map(|(numbers, figures)| (numbers, figures.cost, figures.verdict)).collect()
}

#[test]
fn lines_that_moved_are_the_same_and_changed_ones_are_exact() {
    use FunctionVerdict::{Changed, Unchanged};
    let one = side(
        "{\n  a();\n  b();\n}",
        10,
        &[(10, &[1, 1]), (11, &[5, 5]), (12, &[7, 7])],
        SourceState::Older,
    );
    // Three lines above the function, a line more in it, another indent, and b() costs more.
    let two = side(
        "{\n    a();\n  new();\n  b();\n}",
        13,
        &[(13, &[1, 1]), (14, &[5, 5]), (15, &[2, 2]), (16, &[9, 9])],
        SourceState::Older,
    );
    let difference = counted(one, two);
    assert_eq!(difference.paired_by, PairedBy::Sources);
    assert_eq!(
        shown(&difference),
        [
            ([Some(10), Some(13)], [2, 2], Unchanged),
            ([Some(11), Some(14)], [10, 10], Unchanged),
            ([None, Some(15)], [0, 4], Changed),
            ([Some(12), Some(16)], [14, 18], Changed),
        ]
    );
    let figures: Vec<f64> =
        difference.rows.iter().filter_map(|row| Some(row.figures.as_ref()?.own.change)).collect();
    assert_eq!(figures, [0.0, 0.0, 2.0, 2.0], "per run, as each run is one operation");
    assert_eq!(difference.total.own.change, figures.iter().sum::<f64>(), "the lines add up");
    assert!(difference.is_exact, "both runs of each side are alike");
    let last = difference.rows.iter().find(|row| row.numbers == [Some(12), Some(16)]).unwrap();
    assert_eq!(last.instructions, [Aligned::Differs(Some(0), Some(0))], "i12 became i16");
}

#[test]
fn without_sources_lines_are_paired_by_their_distance_from_the_first() {
    let one = side("", 10, &[(10, &[1]), (12, &[5])], SourceState::Missing);
    let two = side("", 20, &[(20, &[1]), (21, &[3]), (22, &[6])], SourceState::Changed);
    let difference = counted(one, two);
    assert_eq!(difference.paired_by, PairedBy::Numbers);
    let numbers: Vec<_> = shown(&difference).into_iter().map(|(numbers, ..)| numbers).collect();
    assert_eq!(numbers, [[Some(10), Some(20)], [Some(11), Some(21)], [Some(12), Some(22)]]);
    let verdicts: Vec<_> = shown(&difference).into_iter().map(|(.., verdict)| verdict).collect();
    use FunctionVerdict::{Differs, Unchanged};
    assert_eq!(verdicts, [Unchanged, Differs, Differs], "one run a side: exact for these two");
}

#[test]
fn lines_of_few_samples_are_judged_together() {
    let few: Vec<(u32, [u64; 1])> = (1..=40).map(|line| (line, [1])).collect();
    let none: Vec<(u32, [u64; 1])> = (1..=40).map(|line| (line, [0])).collect();
    let rows = |few: &[(u32, [u64; 1])], last: u64| {
        let text = (1..=41).map(|line| format!("line {line}\n")).collect::<String>();
        let last = [last];
        let mut costs: Vec<(u32, &[u64])> =
            few.iter().map(|(line, cost)| (*line, &cost[..])).collect();
        costs.push((41, &last));
        side(&text, 1, &costs, SourceState::Older)
    };
    let (one, two) = (rows(&few, 500), rows(&none, 510));
    let difference = compare(names(), [one, two], &Scale::sampled_once([1000, 1000]));
    assert_eq!(difference.judged, Judged::Sampling);
    let (number, pooled) = difference.pooled.as_ref().unwrap();
    assert_eq!((*number, pooled.samples, pooled.verdict), (40, [40, 0], FunctionVerdict::Differs));
    let alone: Vec<_> =
        difference.rows.iter().filter(|row| !row.is_pooled && row.figures.is_some()).collect();
    assert_eq!(alone.len(), 1);
    assert_eq!(
        alone[0].figures.as_ref().unwrap().verdict,
        FunctionVerdict::Inconclusive,
        "10 of 500 is chance"
    );
}

#[test]
fn a_first_line_without_code_on_one_side_is_the_same_line() {
    let text = "int f(int n)\n{\nreturn n;\n}";
    let old = side(text, 1, &[(2, &[1]), (3, &[5]), (4, &[1])], SourceState::Older);
    let new = side(text, 2, &[(4, &[5])], SourceState::Older);
    let pairs = |new: Annotation| -> Vec<_> {
        let rows = counted(old.clone(), new).rows;
        rows.iter().map(|row| (row.numbers, row.is_same)).collect()
    };
    let pair = |old, new| ([Some(old), Some(new)], true);
    assert_eq!(pairs(new), [pair(2, 3), pair(3, 4), pair(4, 5)]);
    // A line that is new stays new.
    let changed = text.replace('{', "{ int k = 1;");
    let found = pairs(side(&changed, 2, &[(3, &[2]), (4, &[5])], SourceState::Older));
    let (first, last) = found.split_at(found.len() - 2);
    assert_eq!(last, [pair(3, 4), pair(4, 5)], "{found:?}");
    assert!(first.iter().all(|(_, same)| !same), "{found:?}");
}

#[test]
fn lines_of_inlined_code_are_paired_by_the_sources_difference() {
    let side = |in_own_file: bool, path: &str, text: &str, costs: &[(u32, u64)]| {
        let file = u32::from(!in_own_file);
        let at = |function: &str, file: u32, line: u32| LineAt {
            function: Some(function.into()),
            file: Some(file),
            line: Some(line),
        };
        let instruction = |offset: u64| Instruction { offset, ..Instruction::default() };
        let runs = [costs
            .iter()
            .zip(0..)
            .map(|((_, cost), at)| (at, Own { cost: *cost, samples: 0, executions: *cost }))];
        let source = |path: &str, text: &str| SourceText {
            path: path.into(),
            lines: text.lines().map(str::to_string).collect(),
            state: SourceState::Checked,
        };
        annotate(CodeFacts {
            function: &Function::new("f", "/bin/f"),
            pieces: vec![Code {
                address: 0,
                bytes: costs.len() as u64,
                instructions: (0..costs.len() as u64).map(instruction).collect(),
            }],
            lines: &CodeLines {
                places: costs
                    .iter()
                    .map(|(line, _)| vec![at("f", 0, 1), at("g", file, *line)])
                    .collect(),
                files: vec![SourceFile::default(); 2],
                without: None,
            },
            sources: vec![
                source(path, if in_own_file { text } else { "g();" }),
                source("/a/g.h", text),
            ],
            runs: &runs.map(Iterator::collect),
            totals: vec![1000],
            flow: Flow::default(),
        })
    };
    // Also where both are in a file whose name changed.
    for in_own_file in [false, true] {
        let old = [(1, 5), (2, 7), (3, 1), (1, 5)];
        let old = side(in_own_file, "/a/f.c", "one\ntwo\nthree", &old);
        let new = [(1, 3), (3, 10), (4, 9)];
        let new = side(in_own_file, "/b/f-2.c", "new\nnew\none\nthree", &new);
        let difference = counted(old, new);
        let lines: Vec<_> = difference.rows[0]
            .inlined
            .iter()
            .map(|one| (one.function.as_str(), one.places.map(|at| Some(at?.1)), one.cost))
            .collect();
        assert_eq!(
            lines,
            [
                ("g", [Some(3), Some(4)], [1, 9]),
                ("g", [Some(2), None], [7, 0]),
                ("g", [None, Some(1)], [0, 3]),
                ("g", [Some(1), Some(3)], [10, 10]),
            ],
            "{in_own_file}"
        );
    }
}
