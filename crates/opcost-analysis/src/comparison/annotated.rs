//! The difference of a function of two builds, line by line.
//!
//! Lines are paired by the difference of the two source texts, so a line that only moved is the same line. Without both texts they
//! are paired by their distance from the function's first line. The verdicts are those of functions in profiles of files
//! ([`profile_files`](super::profile_files)): counts are exact, and samples are tested together as one family with the same share
//! of false positives. A line whose samples could never differ by more than chance would only make the test of the others
//! stricter. Such lines are pooled, and tested as one row.

use super::function_changes::{FunctionVerdict, Sides};
use super::profile_files::{FALSE_SHARE, Figures, Judged, Measure, SAMPLES_MIN, Scale, judge};
use opcost_attribution::annotation::{AnnotatedLine, Annotation, InlinedLine, InlinedPart, Own};
use opcost_size::{Aligned, align_lines, align_pieces};
use opcost_stats::summary::mean;
use std::collections::{BTreeMap, HashMap};

/// How the lines of both sides were paired.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PairedBy {
    /// By the difference of the source texts.
    Sources,
    /// By their distance from the function's first line.
    Numbers,
}

/// A function of two builds by line.
#[derive(Clone, Debug)]
pub struct AnnotatedDifference {
    /// The names of both sides.
    pub names: [String; 2],
    /// The function on each side.
    pub sides: [Annotation; 2],
    /// The lines in the order of the source.
    pub rows: Vec<LineChange>,
    /// The lines that have too few samples each for a verdict, together.
    pub pooled: Option<(usize, LineFigures)>,
    /// The whole function.
    pub total: LineFigures,
    /// The basis of the verdicts.
    pub judged: Judged,
    /// The scale of the figures.
    pub measure: Measure,
    /// How lines were paired.
    pub paired_by: PairedBy,
    /// Whether costs were counted, and every run of a side executed each instruction equally often.
    pub is_exact: bool,
}

/// The figures of a line, or of several.
#[derive(Clone, Debug)]
pub struct LineFigures {
    /// The figures, as means over a side's runs.
    pub own: Sides,
    /// The costs, in all runs of a side.
    pub cost: [u64; 2],
    /// The samples, in all runs of a side.
    pub samples: [u64; 2],
    /// The verdict; `Inconclusive` for a line that is judged as one of [`AnnotatedDifference::pooled`].
    pub verdict: FunctionVerdict,
    /// The adjusted p-value, if the line was tested.
    pub p_adjusted: Option<f64>,
}

/// A line on both sides.
#[derive(Clone, Debug)]
pub struct LineChange {
    /// The number of the line on each side, if the side has it.
    pub numbers: [Option<u32>; 2],
    /// The source file on each side, an index into [`Annotation::sources`].
    pub sources: [Option<usize>; 2],
    /// The place of the line in [`Annotation::lines`], if it has code there.
    pub lines: [Option<usize>; 2],
    /// Whether the source says the same on both sides; unknown texts count as the same.
    pub is_same: bool,
    /// The figures; `None` for a line without code.
    pub figures: Option<LineFigures>,
    /// Whether the line is judged together with others that have few samples.
    pub is_pooled: bool,
    /// The functions inlined there, with their costs in all runs of each side.
    pub parts: Vec<(String, [u64; 2])>,
    /// The lines of the code inlined there, the largest change first.
    pub inlined: Vec<InlinedChange>,
    /// The instructions in pairs, places in [`AnnotatedLine::instructions`].
    pub instructions: Vec<Aligned>,
}

/// A line of inlined code on both sides.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InlinedChange {
    /// The innermost function that the code is inlined from.
    pub function: String,
    /// The function's file, an index into [`Annotation::sources`], and the line, if the side has it.
    pub places: [Option<(usize, u32)>; 2],
    /// The costs in all runs of each side.
    pub cost: [u64; 2],
}

/// Compares a function of two builds whose instructions were counted.
///
/// `sides`: with a run for each of `ones`; `ones`: the cost that is 1 in each run, its operations where `per_op`.
pub fn counted_difference(
    names: [String; 2],
    sides: [Annotation; 2],
    ones: [Vec<u64>; 2],
    per_op: bool,
) -> AnnotatedDifference {
    compare(names, sides, &Scale::counted(ones, per_op))
}

/// Compares a function of two builds.
///
/// `scale`: of the profiles that the costs are from, whose runs are those of the annotations.
pub(super) fn compare(
    names: [String; 2],
    sides: [Annotation; 2],
    scale: &Scale,
) -> AnnotatedDifference {
    let (mut rows, paired_by) = pair(&sides);
    let line = |side: usize, row: &LineChange| Some(&sides[side].lines[row.lines[side]?]);
    let mut figures: Vec<Option<Figures>> = Vec::new();
    let partners = inlined_partners(&sides);
    for row in &mut rows {
        let lines: [Option<&AnnotatedLine>; 2] = [0, 1].map(|side| line(side, row));
        row.parts = parts(lines);
        row.inlined = inlined(&sides, lines, &partners);
        row.instructions = instructions(lines);
        let any = lines.iter().any(Option::is_some);
        figures
            .push(any.then(|| figures_of(lines.map(|line| line.map(|line| &line.own[..])), scale)));
    }
    let is_small = |figures: &Figures| is_small(figures, scale);
    let mut judged: Vec<Figures> = Vec::new();
    let mut places: Vec<usize> = Vec::new();
    let mut small: Option<(usize, Figures)> = None;
    for (at, of_line) in figures.iter().enumerate() {
        let Some(of_line) = of_line else { continue };
        if is_small(of_line) {
            rows[at].is_pooled = true;
            let (number, sum) = small.get_or_insert_with(|| (0, zero(scale)));
            *number += 1;
            for side in [0, 1] {
                let add = |sum: &mut Vec<u64>, of: &[u64]| {
                    sum.iter_mut().zip(of).for_each(|(sum, one)| *sum = sum.saturating_add(*one));
                };
                add(&mut sum.cost[side], &of_line.cost[side]);
                add(&mut sum.samples[side], &of_line.samples[side]);
            }
        } else {
            places.push(at);
            judged.push(of_line.clone());
        }
    }
    let lone = places.len();
    judged.extend(small.iter().map(|(_, figures)| figures.clone()));
    let all: Vec<&Figures> = judged.iter().collect();
    let (basis, mut verdicts) = judge(&all, scale);
    let with_verdict = |figures: &Figures, verdict: Option<&super::profile_files::Row>| {
        let values =
            [0, 1].map(|side| mean(&scale.values(side, &figures.cost[side])).unwrap_or(0.0));
        let sum = |of: &[Vec<u64>; 2]| of.each_ref().map(|runs| runs.iter().sum());
        LineFigures {
            own: Sides::of(values),
            cost: sum(&figures.cost),
            samples: sum(&figures.samples),
            verdict: verdict.map_or(FunctionVerdict::Inconclusive, |row| row.verdict),
            p_adjusted: verdict.and_then(|row| row.p_adjusted),
        }
    };
    let of_pool = verdicts.rows.split_off(lone);
    let pooled = small.map(|(number, figures)| (number, with_verdict(&figures, of_pool.first())));
    for (at, figures) in figures.iter().enumerate() {
        let verdict = places.binary_search(&at).ok().map(|number| &verdicts.rows[number]);
        rows[at].figures = figures.as_ref().map(|figures| with_verdict(figures, verdict));
    }
    // The function itself is a family of its own, as in a report by function.
    let whole = figures_of([0, 1].map(|side: usize| Some(&sides[side].own[..])), scale);
    let (_, mut of_whole) = judge(&[&whole], scale);
    let total = with_verdict(&whole, of_whole.rows.pop().as_ref());
    let repeats = |side: &Annotation| {
        let mut instructions = side.lines.iter().flat_map(|line| &line.instructions);
        instructions.all(|one| one.own.iter().all(|own| *own == one.own[0]))
    };
    let is_exact =
        scale.exposures().is_none() && basis != Judged::Nothing && sides.iter().all(repeats);
    AnnotatedDifference {
        is_exact,
        names,
        sides,
        rows,
        pooled,
        total,
        judged: basis,
        measure: scale.measure,
        paired_by,
    }
}

fn zero(scale: &Scale) -> Figures {
    let none = || scale.files().map(|runs| vec![0; runs]);
    Figures { cost: none(), samples: none() }
}

fn figures_of(own: [Option<&[Own]>; 2], scale: &Scale) -> Figures {
    let mut figures = zero(scale);
    for (side, own) in own.into_iter().enumerate() {
        for (run, own) in own.unwrap_or_default().iter().enumerate() {
            figures.cost[side][run] = own.cost;
            figures.samples[side][run] = own.samples;
        }
    }
    figures
}

/// Whether a line has so few samples that no distribution of them over the sides would be a difference.
fn is_small(figures: &Figures, scale: &Scale) -> bool {
    let Some([one, two]) = scale.exposures() else { return false };
    let samples: u64 = figures.samples.iter().flatten().sum();
    let runs = scale.files();
    if runs != [1, 1] {
        return samples < SAMPLES_MIN * runs.iter().sum::<usize>() as u64;
    }
    // The least p-value of the test of two rates: all samples on the side that is less exposed.
    let least = one.min(two) / (one + two);
    2.0 * least.powf(samples as f64) > FALSE_SHARE
}

/// The functions inlined into a line of both sides, the dearest first.
fn parts(lines: [Option<&AnnotatedLine>; 2]) -> Vec<(String, [u64; 2])> {
    let mut found: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for (side, line) in lines.iter().enumerate() {
        for InlinedPart { function, own } in line.iter().flat_map(|line| &line.parts) {
            found.entry(function).or_default()[side] += Annotation::cost(own);
        }
    }
    let mut found: Vec<_> =
        found.into_iter().map(|(name, cost)| (name.to_string(), cost)).collect();
    found.sort_by_key(|(_, cost)| u64::MAX - cost[0].max(cost[1]));
    found
}

/// An inlined function and the name of its file.
type InlinedFrom = (String, String);

/// The name of a line's file, without folders: builds have different ones. The file of the function itself has none, since it
/// is the same whatever its name.
fn file_name(side: &Annotation, source: usize) -> &str {
    if side.main == Some(source) {
        return "";
    }
    let path = side.sources[source].path.as_str();
    path.rsplit('/').next().unwrap_or(path)
}

/// The pairs of lines of each function that is inlined on both sides, as [`pair`] pairs them where both texts are known.
fn inlined_partners(sides: &[Annotation; 2]) -> HashMap<InlinedFrom, HashMap<u32, u32>> {
    let ranges = sides.each_ref().map(|side| {
        let mut ranges: HashMap<InlinedFrom, (usize, u32, u32)> = HashMap::new();
        for InlinedLine { function, place: (source, number), .. } in
            side.lines.iter().flat_map(|line| &line.inlined)
        {
            let key = (function.clone(), file_name(side, *source).to_string());
            let range = ranges.entry(key).or_insert((*source, *number, *number));
            (range.1, range.2) = (range.1.min(*number), range.2.max(*number));
        }
        ranges
    });
    let text = |side: usize, (source, first, last): (usize, u32, u32)| {
        let lines = &sides[side].sources[source].lines;
        lines.get((first as usize).checked_sub(1)?..(last as usize).min(lines.len()))
    };
    let mut partners = HashMap::new();
    for (key, old) in &ranges[0] {
        let Some(new) = ranges[1].get(key) else { continue };
        let (Some(texts), firsts) = (text(0, *old).zip(text(1, *new)), (old.1, new.1)) else {
            continue;
        };
        let pairs = align_lines([texts.0, texts.1]).into_iter().filter_map(|aligned| {
            let (Aligned::Same(one, two) | Aligned::Differs(Some(one), Some(two))) = aligned else {
                return None;
            };
            Some((firsts.0 + one as u32, firsts.1 + two as u32))
        });
        partners.insert(key.clone(), pairs.collect());
    }
    partners
}

/// The lines of the code inlined into a line of both sides, the largest change first. Without texts, lines are paired by number.
fn inlined(
    sides: &[Annotation; 2],
    lines: [Option<&AnnotatedLine>; 2],
    partners: &HashMap<InlinedFrom, HashMap<u32, u32>>,
) -> Vec<InlinedChange> {
    let mut found: BTreeMap<(InlinedFrom, bool, u32), InlinedChange> = BTreeMap::new();
    for (side, line) in lines.iter().enumerate() {
        for InlinedLine { function, place, own } in line.iter().flat_map(|line| &line.inlined) {
            let from = (function.clone(), file_name(&sides[side], place.0).to_string());
            let partner = match partners.get(&from).filter(|_| side == 0) {
                Some(pairs) => pairs.get(&place.1).copied(),
                None => Some(place.1),
            };
            let key = (from, partner.is_none(), partner.unwrap_or(place.1));
            let change = found.entry(key).or_insert_with(|| InlinedChange {
                function: function.clone(),
                places: [None; 2],
                cost: [0; 2],
            });
            change.places[side] = Some(*place);
            change.cost[side] += Annotation::cost(own);
        }
    }
    let mut found: Vec<InlinedChange> = found.into_values().collect();
    found.sort_by_key(|one| u64::MAX - one.cost[0].abs_diff(one.cost[1]));
    found
}

/// The instructions of a line in pairs.
fn instructions(lines: [Option<&AnnotatedLine>; 2]) -> Vec<Aligned> {
    let code = lines.map(|line| {
        let all = line.iter().flat_map(|line| &line.instructions);
        all.map(|instruction| &instruction.code).collect::<Vec<_>>()
    });
    align_pieces([&code[0], &code[1]])
}

/// Pairs the first and the last lines that have code on one side only with those that stand at the same distance on the other, if
/// the texts are the same: code tells where a function begins and ends, and its first line may have none.
fn pair_ends(sides: &[Annotation; 2], pairs: &mut [([Option<u32>; 2], bool)]) {
    let text = |side: usize, number: u32| sides[side].text(sides[side].main, number);
    let paired = |(numbers, same): &([Option<u32>; 2], bool)| match *numbers {
        [Some(old), Some(new)] if *same => Some([old, new]),
        _ => None,
    };
    let first = pairs.iter().position(|pair| paired(pair).is_some());
    let last = pairs.iter().rposition(|pair| paired(pair).is_some());
    let mut walk = |from: Option<usize>, step: i32| {
        let Some(mut at) = from else { return };
        let Some(mut numbers) = paired(&pairs[at]) else { return };
        while let Some(next) = at.checked_add_signed(step as isize).filter(|at| *at < pairs.len()) {
            let [Some(old), Some(new)] = numbers.map(|number| number.checked_add_signed(step))
            else {
                return;
            };
            let is_one = matches!(pairs[next].0, [Some(one), None] if one == old)
                || matches!(pairs[next].0, [None, Some(one)] if one == new);
            if !is_one || text(0, old).is_none() || text(0, old) != text(1, new) {
                return;
            }
            pairs[next] = ([Some(old), Some(new)], true);
            (at, numbers) = (next, [old, new]);
        }
    };
    walk(first, -1);
    walk(last, 1);
}

/// Pairs the lines of both sides, in the order of the source.
fn pair(sides: &[Annotation; 2]) -> (Vec<LineChange>, PairedBy) {
    let places = sides.each_ref().map(|side| {
        let place = |(at, line): (usize, &AnnotatedLine)| ((line.source, line.number), at);
        side.lines.iter().enumerate().map(place).collect::<HashMap<_, _>>()
    });
    let row = |sources: [Option<usize>; 2], numbers: [Option<u32>; 2], is_same: bool| LineChange {
        lines: [0, 1].map(|side: usize| {
            let number = numbers[side]?;
            places[side].get(&(sources[side], number)).copied()
        }),
        numbers,
        sources,
        is_same,
        figures: None,
        is_pooled: false,
        parts: Vec::new(),
        inlined: Vec::new(),
        instructions: Vec::new(),
    };
    let mains = sides.each_ref().map(|side| side.main);
    let mut rows = Vec::new();
    let mut paired_by = PairedBy::Numbers;
    if let [Some(one), Some(two)] = sides.each_ref().map(Annotation::range) {
        let texts = [(0, one), (1, two)].map(|(side, (first, last)): (usize, (u32, u32))| {
            let lines = &sides[side].sources[mains[side]?].lines;
            lines.get(first as usize - 1..(last as usize).min(lines.len()))
        });
        match texts {
            [Some(old), Some(new)] if !old.is_empty() && !new.is_empty() => {
                paired_by = PairedBy::Sources;
                let number = |first: u32, at: Option<usize>| at.map(|at| first + at as u32);
                let mut pairs: Vec<([Option<u32>; 2], bool)> = align_lines([old, new])
                    .into_iter()
                    .map(|aligned| match aligned {
                        Aligned::Same(old, new) => ([Some(old), Some(new)], true),
                        Aligned::Differs(old, new) => ([old, new], false),
                    })
                    .map(|(ats, same)| ([number(one.0, ats[0]), number(two.0, ats[1])], same))
                    .collect();
                pair_ends(sides, &mut pairs);
                rows.extend(pairs.into_iter().map(|(numbers, same)| row(mains, numbers, same)));
            }
            _ => {
                let distances = (one.1 - one.0).max(two.1 - two.0);
                for distance in 0..=distances {
                    let number = |(first, last): (u32, u32)| {
                        first.checked_add(distance).filter(|number| *number <= last)
                    };
                    let row = row(mains, [number(one), number(two)], true);
                    // Without texts, only lines with code are worth a row.
                    rows.extend(Some(row).filter(|row| row.lines != [None, None]));
                }
            }
        }
    }
    // Code of other files, such as macros: by file name and line.
    let taken: [Vec<usize>; 2] =
        [0, 1].map(|side| rows.iter().filter_map(|row: &LineChange| row.lines[side]).collect());
    let mut others: BTreeMap<(bool, String, u32), LineChange> = BTreeMap::new();
    for side in [0, 1] {
        let taken: std::collections::HashSet<usize> = taken[side].iter().copied().collect();
        for (at, line) in sides[side].lines.iter().enumerate().filter(|(at, _)| !taken.contains(at))
        {
            let name = line.source.map_or("", |source| file_name(&sides[side], source));
            let key = (line.source.is_none(), name.to_string(), line.number);
            let found = others.entry(key).or_insert_with(|| row([None; 2], [None; 2], true));
            (found.sources[side], found.numbers[side]) = (line.source, Some(line.number));
            found.lines[side] = Some(at);
        }
    }
    rows.extend(others.into_values());
    (rows, paired_by)
}

#[cfg(test)]
#[path = "annotated_tests.rs"]
mod tests;
