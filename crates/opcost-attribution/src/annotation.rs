//! The cost of a function by source line and by instruction.
//!
//! The lines of an instruction are those of debug information: the line in the function itself, which is the line of the call
//! where other functions were inlined. What was inlined is folded into that line, as one part for each function called there.
//! Every cost of the function belongs to one instruction, so the lines add up to the function.

pub use opcost_profile::annotate::Own;
use opcost_profile::annotate::{LineOwn, Lines, Program, SourceText};
use opcost_profile::symbolise::CodeLines;
use opcost_record::Function;
use opcost_size::{Code, CodeError, CodeNames, Instruction, disassemble_at};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Adds costs run by run.
fn add(sum: &mut [Own], other: &[Own]) {
    sum.iter_mut().zip(other).for_each(|(sum, other)| sum.add(*other));
}

/// The facts about a function's code.
pub struct CodeFacts<'a> {
    /// The function.
    pub function: &'a Function,
    /// The code, piece by piece, by address.
    pub pieces: Vec<Code>,
    /// The lines of each instruction, in the order of the pieces.
    pub lines: &'a CodeLines,
    /// The source files, in the order of the lines' files.
    pub sources: Vec<SourceText>,
    /// The cost of each address, run by run, by address.
    pub runs: &'a [Vec<(u64, Own)>],
    /// The cost of the whole profile, run by run.
    pub totals: Vec<u64>,
    /// Where the function's calls went.
    pub flow: Flow,
}

/// Where the calls of a counted function went, in all runs; empty for samples.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Flow {
    /// The targets of indirect calls and jumps: the instruction's address, the target's function and address, and how often.
    pub transfers: Vec<(u64, (String, u64), u64)>,
    /// The functions that were called, and how often; several functions may have one name.
    pub callees: Vec<(String, u64)>,
    /// The instructions in one pass of each retpoline.
    pub retpolines: BTreeMap<String, u64>,
}

/// A function by line and by instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// The function.
    pub function: Function,
    /// The source files; the first line's is the function's own.
    pub sources: Vec<SourceText>,
    /// The source file that has most of the function's code; `None` without debug information.
    pub main: Option<usize>,
    /// The lines: those of the main file by number, then the others; last the instructions without a line.
    pub lines: Vec<AnnotatedLine>,
    /// The function's cost, run by run.
    pub own: Vec<Own>,
    /// The cost of the whole profile, run by run.
    pub totals: Vec<u64>,
    /// The number of instructions.
    pub instructions: usize,
    /// Whether instructions have texts; opcost disassembles 64-bit x86 and 64-bit ARM only.
    pub is_disassembled: bool,
    /// Where the function's calls went.
    pub flow: Flow,
}

/// A line of the function's source with the code that was compiled from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnnotatedLine {
    /// Index into [`Annotation::sources`]; `None` for instructions without a line.
    pub source: Option<usize>,
    /// The line, from 1; 0 for instructions without a line.
    pub number: u32,
    /// The line's cost, run by run.
    pub own: Vec<Own>,
    /// The functions that were inlined there, the dearest first.
    pub parts: Vec<InlinedPart>,
    /// The lines of everything inlined there, the dearest first; empty if the profile names lines itself.
    pub inlined: Vec<InlinedLine>,
    /// The instructions, by address.
    pub instructions: Vec<AnnotatedInstruction>,
}

/// A function that was inlined into a line, with everything inlined into it.
#[derive(Clone, Debug, PartialEq)]
pub struct InlinedPart {
    /// The inlined function.
    pub function: String,
    /// The cost, run by run.
    pub own: Vec<Own>,
}

/// A line of inlined code.
#[derive(Clone, Debug, PartialEq)]
pub struct InlinedLine {
    /// The innermost function that the code is inlined from.
    pub function: String,
    /// The index of the function's file, and the line.
    pub place: (usize, u32),
    /// The cost, run by run.
    pub own: Vec<Own>,
}

/// An instruction with its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnotatedInstruction {
    /// The address, as linked.
    pub address: u64,
    /// The instruction; without text if it was not disassembled.
    pub code: Instruction,
    /// The cost, run by run.
    pub own: Vec<Own>,
    /// The function that the instruction is inlined from, the innermost one, and its file's index and line.
    pub inlined: Option<(String, Option<(usize, u32)>)>,
}

/// The names of a program's code.
///
/// # Errors
/// [`CodeError`].
pub fn code_names(program: &Program) -> Result<CodeNames, CodeError> {
    CodeNames::read(&program.bytes, program.debug.as_deref())
}

/// Disassembles pieces of a program's code. Code of other machines is shown by the addresses that have costs.
///
/// `names`: those of the program.
///
/// # Errors
/// [`CodeError`].
pub fn decoded(
    program: &Program,
    names: &CodeNames,
    pieces: &[Range<u64>],
    runs: &[Vec<(u64, Own)>],
) -> Result<Vec<Code>, CodeError> {
    let one = |piece: &Range<u64>| match disassemble_at(&program.bytes, names, piece.clone()) {
        Err(CodeError::Architecture) => Ok(undecoded(piece, runs)),
        decoded => decoded,
    };
    pieces.iter().map(one).collect()
}

/// A piece of code that is not disassembled: the addresses that have costs.
fn undecoded(piece: &Range<u64>, runs: &[Vec<(u64, Own)>]) -> Code {
    let all = runs.iter().flatten().map(|(address, _)| *address);
    let mut addresses: Vec<u64> = all.filter(|address| piece.contains(address)).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let instruction =
        |address: u64| Instruction { offset: address - piece.start, ..Instruction::default() };
    Code {
        address: piece.start,
        bytes: piece.end - piece.start,
        instructions: addresses.into_iter().map(instruction).collect(),
    }
}

/// The addresses of the instructions of pieces.
pub fn addresses(pieces: &[Code]) -> Vec<u64> {
    let of = |code: &Code| {
        let address = code.address;
        code.instructions
            .iter()
            .map(move |one| address.saturating_add(one.offset))
            .collect::<Vec<_>>()
    };
    pieces.iter().flat_map(of).collect()
}

/// Charges the costs of a function to its instructions and lines.
pub fn annotate(facts: CodeFacts<'_>) -> Annotation {
    let CodeFacts { function, pieces, lines, sources, runs, totals, flow } = facts;
    let starts = addresses(&pieces);
    let is_disassembled =
        pieces.iter().flat_map(|code| &code.instructions).any(|one| !one.text.is_empty());
    let ends: Vec<(u64, u64)> =
        pieces.iter().map(|code| (code.address, code.address.saturating_add(code.bytes))).collect();
    let none = || vec![Own::default(); runs.len()];
    let mut costs = vec![none(); starts.len()];
    for (run, rows) in runs.iter().enumerate() {
        for (address, own) in rows {
            if !ends.iter().any(|(start, end)| (start..end).contains(&address)) {
                continue;
            }
            // A sample may stand behind an instruction's first byte.
            let behind = starts.partition_point(|start| start <= address);
            if let Some(cost) = behind.checked_sub(1).and_then(|at| costs.get_mut(at)) {
                cost[run].add(*own);
            }
        }
    }
    let mut grouped: BTreeMap<(Option<u32>, u32), AnnotatedLine> = BTreeMap::new();
    let mut inlined_at = HashMap::new();
    let mut sum = none();
    let code = pieces.into_iter().flat_map(|code| code.instructions);
    for (((address, code), own), at) in starts.iter().zip(code).zip(costs).zip(&lines.places) {
        add(&mut sum, &own);
        let outer = at.first().filter(|outer| outer.line.is_some() && outer.file.is_some());
        let key = outer.map_or((None, 0), |outer| (outer.file, outer.line.unwrap_or(0)));
        let line = grouped.entry(key).or_insert_with(|| AnnotatedLine {
            source: key.0.map(|file| file as usize),
            number: key.1,
            own: none(),
            ..AnnotatedLine::default()
        });
        add(&mut line.own, &own);
        let name = |at: Option<&opcost_profile::symbolise::LineAt>| {
            at.map(|at| at.function.clone().unwrap_or_else(|| "?".into()))
        };
        if let Some(called) = name(at.get(1)) {
            add(line.part(&called, none), &own);
        }
        let innermost = at.get(1..).and_then(|inlined| inlined.last());
        let inlined = innermost.map(|inner| {
            let place = inner.file.zip(inner.line).map(|(file, line)| (file as usize, line));
            (inner.function.clone().unwrap_or_else(|| "?".into()), place)
        });
        if let Some((function, Some(place))) = &inlined {
            let at = inlined_at.entry((key, function.clone(), *place)).or_insert_with(|| {
                let (function, place) = (function.clone(), *place);
                line.inlined.push(InlinedLine { function, place, own: none() });
                line.inlined.len() - 1
            });
            add(&mut line.inlined[*at].own, &own);
        }
        line.instructions.push(AnnotatedInstruction { address: *address, code, own, inlined });
    }
    let mut by_file: BTreeMap<usize, usize> = BTreeMap::new();
    for line in grouped.values() {
        if let Some(source) = line.source {
            *by_file.entry(source).or_default() += line.instructions.len();
        }
    }
    let main =
        by_file.into_iter().max_by_key(|(_, instructions)| *instructions).map(|(file, _)| file);
    let found = in_order(grouped.into_values().collect(), main);
    Annotation {
        function: function.clone(),
        sources,
        main,
        instructions: starts.len(),
        lines: found,
        own: sum,
        totals,
        is_disassembled,
        flow,
    }
}

/// Charges the costs of a function to the lines that its profile names; no line has instructions.
///
/// `sources`: the texts of the lines' files; `totals`: the cost of the whole profile, run by run.
pub fn annotate_lines(
    function: &Function,
    lines: &Lines,
    sources: Vec<SourceText>,
    totals: Vec<u64>,
) -> Annotation {
    let none = || vec![Own::default(); lines.runs.len()];
    let mut grouped: BTreeMap<(usize, u32), AnnotatedLine> = BTreeMap::new();
    let mut sum = none();
    for (run, rows) in lines.runs.iter().enumerate() {
        for LineOwn { file, line: number, inlined, own } in rows {
            let line = grouped.entry((*file, *number)).or_insert_with(|| AnnotatedLine {
                source: Some(*file),
                number: *number,
                own: none(),
                ..AnnotatedLine::default()
            });
            line.own[run].add(*own);
            sum[run].add(*own);
            if let Some(called) = inlined {
                line.part(called, none)[run].add(*own);
            }
        }
    }
    let mut by_file: BTreeMap<usize, u64> = BTreeMap::new();
    for ((file, _), line) in &grouped {
        *by_file.entry(*file).or_default() += Annotation::cost(&line.own);
    }
    let main = by_file.into_iter().max_by_key(|(_, cost)| *cost).map(|(file, _)| file);
    let lines = in_order(grouped.into_values().collect(), main);
    let function = function.clone();
    Annotation {
        function,
        sources,
        main,
        lines,
        own: sum,
        totals,
        instructions: 0,
        is_disassembled: false,
        flow: Flow::default(),
    }
}

/// Sorts lines, those of the main file first, and what was inlined there, the dearest first.
fn in_order(mut lines: Vec<AnnotatedLine>, main: Option<usize>) -> Vec<AnnotatedLine> {
    lines
        .sort_by_key(|line| (line.source.is_none(), line.source != main, line.source, line.number));
    for line in &mut lines {
        line.inlined.sort_by_key(|one| (u64::MAX - Annotation::cost(&one.own), one.place));
        line.parts.sort_by(|one, two| {
            let cost = |part: &InlinedPart| Annotation::cost(&part.own);
            cost(two).cmp(&cost(one)).then_with(|| one.function.cmp(&two.function))
        });
    }
    lines
}

impl AnnotatedLine {
    /// The costs of a function that is inlined there.
    fn part(&mut self, called: &str, none: impl Fn() -> Vec<Own>) -> &mut Vec<Own> {
        let known = self.parts.iter().position(|part| part.function == called);
        let at = known.unwrap_or_else(|| {
            self.parts.push(InlinedPart { function: called.into(), own: none() });
            self.parts.len() - 1
        });
        &mut self.parts[at].own
    }
}

impl Annotation {
    /// Returns the text of a line, if the source is shown.
    pub fn text(&self, source: Option<usize>, number: u32) -> Option<&str> {
        let lines = &self.sources.get(source?)?.lines;
        Some(lines.get((number as usize).checked_sub(1)?)?)
    }

    /// Returns the numbers of the first and the last line of the function in its main file.
    pub fn range(&self) -> Option<(u32, u32)> {
        let numbers =
            self.lines.iter().filter(|line| line.source.is_some() && line.source == self.main);
        let numbers: Vec<u32> = numbers.map(|line| line.number).collect();
        Some((*numbers.iter().min()?, *numbers.iter().max()?))
    }

    /// Returns the sum of a cost over the runs.
    pub fn cost(own: &[Own]) -> u64 {
        own.iter().fold(0, |sum, own| sum.saturating_add(own.cost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_profile::annotate::SourceState;
    use opcost_profile::symbolise::{LineAt, SourceFile};

    fn at(function: &str, file: u32, line: u32) -> LineAt {
        LineAt { function: Some(function.into()), file: Some(file), line: Some(line) }
    }

    #[test]
    fn costs_go_to_lines_and_what_was_inlined_to_the_line_of_its_call() {
        let text = |offset: u64| Instruction {
            offset,
            text: format!("i{offset}"),
            ..Instruction::default()
        };
        let pieces = vec![
            Code { address: 0x100, bytes: 8, instructions: vec![text(0), text(3), text(5)] },
            Code { address: 0x400, bytes: 2, instructions: vec![text(0)] },
        ];
        let lines = CodeLines {
            places: vec![
                vec![at("f", 0, 7)],
                vec![at("f", 0, 9), at("g", 1, 3), at("h", 1, 30)],
                vec![],
                vec![at("f", 0, 9)],
            ],
            files: vec![SourceFile::default(), SourceFile::default()],
            without: None,
        };
        let sources = ["f.c", "g.h"].map(|path| SourceText {
            path: path.into(),
            lines: (1..10).map(|line| format!("{path} {line}")).collect(),
            state: SourceState::Older,
        });
        let own = |cost: u64| Own { cost, samples: 1, executions: cost };
        // The second run has samples behind the first byte of an instruction, and beyond the function.
        let runs = [
            vec![(0x100, own(5)), (0x103, own(7)), (0x400, own(1))],
            vec![(0x104, own(2)), (0x105, own(4)), (0x3ff, own(100)), (0x402, own(100))],
        ];
        let function = Function::new("f", "/bin/f");
        let found = annotate(CodeFacts {
            function: &function,
            pieces,
            lines: &lines,
            sources: sources.into(),
            runs: &runs,
            totals: vec![13, 206],
            flow: Flow::default(),
        });
        let costs = |own: &[Own]| own.iter().map(|own| own.cost).collect::<Vec<_>>();
        let rows: Vec<_> =
            found.lines.iter().map(|line| (line.source, line.number, costs(&line.own))).collect();
        assert_eq!(
            rows,
            [(Some(0), 7, vec![5, 0]), (Some(0), 9, vec![8, 2]), (None, 0, vec![0, 4])]
        );
        assert_eq!(costs(&found.own), [13, 6], "the lines add up");
        let line = &found.lines[1];
        assert_eq!((line.parts[0].function.as_str(), costs(&line.parts[0].own)), ("g", vec![7, 2]));
        assert_eq!(line.instructions[0].inlined, Some(("h".into(), Some((1, 30)))));
        let [InlinedLine { function, place, own }] = &line.inlined[..] else { panic!("{line:?}") };
        assert_eq!((function.as_str(), *place, costs(own)), ("h", (1, 30), vec![7, 2]));
        assert_eq!(line.own[0].executions, 7, "as often as its most frequent instruction");
        assert_eq!((found.main, found.range()), (Some(0), Some((7, 9))));
        assert_eq!(found.text(Some(0), 7), Some("f.c 7"));
        assert_eq!(
            (found.text(Some(0), 10), found.text(None, 0), found.text(Some(0), 0)),
            (None, None, None)
        );
        assert_eq!(addresses(&[undecoded(&(0x100..0x106), &runs)]), [0x100, 0x103, 0x104, 0x105]);
    }
}
