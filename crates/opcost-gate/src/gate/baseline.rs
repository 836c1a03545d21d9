//! The baseline file: the figures of a suite, committed beside the sources.
//!
//! ```text
//! opcost-baseline 2
//!
//! parse instructions 1234567 210/11 arch=x86_64;cpu=max;…
//!
//! print instructions 500123 77/11 arch=x86_64;cpu=max;…
//! ```
//!
//! One line for each figure: case, metric, value, layout floor with the number of layouts (`-` if unknown), key. Version 1 has the
//! floor alone. Lines are sorted, with an empty line before
//! each: git merges changes of neighbouring lines only if an unchanged line separates them.

use super::floor::Floor;
use super::key::{FigureKey, escaped, unescaped};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const NAME: &str = "opcost-baseline";
/// The version that this opcost writes, and the newest that it reads; it also reads all older ones.
const VERSION: u32 = 2;

/// The figures of a baseline file, by case and metric.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Baseline {
    /// The figures.
    pub figures: BTreeMap<(String, String), BaselineFigure>,
}

/// One figure.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BaselineFigure {
    /// The count.
    pub value: u64,
    /// How far seeds and layouts alone move the count; `None` if that was not measured.
    pub floor: Option<Floor>,
    /// The conditions on which the count depends.
    pub key: FigureKey,
}

/// Why a text is not a baseline file.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BaselineError {
    /// The first line is not the header.
    #[error("line 1: expected '{NAME} {VERSION}'; this is no baseline file")]
    Header,
    /// A newer opcost wrote the file.
    #[error(
        "the file has format {0}, and this opcost reads formats up to {VERSION}; use the opcost that wrote it, \
         or a newer one"
    )]
    Newer(u32),
    /// git left a merge conflict in the file.
    #[error(
        "line {0}: git left a conflict here; measure anew with --update instead of merging by hand"
    )]
    Conflict(usize),
    /// A line is malformed.
    #[error("line {line}: {what}; lines are written by --update and not by hand")]
    Line {
        /// The line's number.
        line: usize,
        /// The fault in the line.
        what: String,
    },
}

impl BaselineError {
    /// Whether `--update` may overwrite the file; a file of a newer opcost, or of another kind, stays.
    pub fn is_mended_by_update(&self) -> bool {
        !matches!(self, BaselineError::Newer(_) | BaselineError::Header)
    }
}

impl Baseline {
    /// Reads a file's text.
    ///
    /// # Errors
    /// [`BaselineError`] names the line.
    pub fn parse(text: &str) -> Result<Baseline, BaselineError> {
        let mut lines = text.lines().zip(1..);
        let conflict = |line: &str| {
            let words = ["<<<<<<<", "=======", ">>>>>>>", "|||||||"];
            words.iter().any(|word| line.starts_with(word))
        };
        let header = lines.next().map_or("", |(line, _)| line);
        if conflict(header) {
            return Err(BaselineError::Conflict(1));
        }
        let version = header.strip_prefix(NAME).and_then(|rest| rest.strip_prefix(' '));
        match version.and_then(|version| version.parse().ok()) {
            Some(1..=VERSION) => {}
            Some(newer) if newer > VERSION => return Err(BaselineError::Newer(newer)),
            _ => return Err(BaselineError::Header),
        }
        let mut baseline = Baseline::default();
        for (line, number) in lines.filter(|(line, _)| !line.is_empty()) {
            if conflict(line) {
                return Err(BaselineError::Conflict(number));
            }
            let (name, figure) =
                parse_line(line).map_err(|what| BaselineError::Line { line: number, what })?;
            if baseline.figures.contains_key(&name) {
                let what = format!("{} {} is there twice", name.0, name.1);
                return Err(BaselineError::Line { line: number, what });
            }
            baseline.figures.insert(name, figure);
        }
        Ok(baseline)
    }

    /// The file's text.
    pub fn format(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for ((case, metric), figure) in &self.figures {
            lines.push(figure.line(case, metric));
        }
        lines.sort();
        let mut text = format!("{NAME} {VERSION}\n");
        for line in lines {
            let _ = write!(text, "\n{line}\n");
        }
        text
    }

    /// The cases that have figures.
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        let mut last = None;
        self.figures.keys().filter_map(move |(case, _)| {
            (last.replace(case) != Some(case)).then_some(case.as_str())
        })
    }

    /// A figure.
    pub fn figure(&self, case: &str, metric: &str) -> Option<&BaselineFigure> {
        self.figures.get(&(case.to_string(), metric.to_string()))
    }
}

impl BaselineFigure {
    /// The figure's line in a file.
    pub fn line(&self, case: &str, metric: &str) -> String {
        let BaselineFigure { value, floor, key } = self;
        let floor = floor.map_or("-".into(), |floor| floor.to_string());
        format!("{} {} {value} {floor} {key}", escaped(case), escaped(metric))
    }
}

type Line = ((String, String), BaselineFigure);

fn parse_line(line: &str) -> Result<Line, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let [case, metric, value, floor, key] = words[..] else {
        return Err(format!(
            "expected 'CASE METRIC VALUE FLOOR KEY', and there are {} words",
            words.len()
        ));
    };
    let name = |word: &str| {
        let name = unescaped(word).filter(|name| !name.is_empty());
        name.ok_or_else(|| format!("'{word}' is no name"))
    };
    let number = |word: &str| {
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        word.parse().ok().filter(|_| digits).ok_or_else(|| format!("'{word}' is no count"))
    };
    let floor = match floor {
        "-" => None,
        floor => Some(Floor::parse(floor).ok_or_else(|| format!("'{floor}' is no floor"))?),
    };
    let key = FigureKey::parse(key).map_err(|part| format!("'{part}' is no part of a key"))?;
    Ok(((name(case)?, name(metric)?), BaselineFigure { value: number(value)?, floor, key }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &str = "arch=x86_64;cpu=max";

    fn figure() -> impl Strategy<Value = BaselineFigure> {
        let floor = prop::option::of((any::<u64>(), any::<Option<u32>>()));
        let key = prop::collection::btree_map("\\PC{1,9}", "\\PC{1,9}", 1..4);
        (any::<u64>(), floor, key).prop_map(|(value, floor, key)| BaselineFigure {
            value,
            floor: floor.map(|(most, layouts)| Floor { most, layouts }),
            key: FigureKey::new(key),
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(figures in prop::collection::btree_map(("\\PC{1,9}", "\\PC{1,9}"), figure(), 0..5)) {
            let baseline = Baseline { figures };
            prop_assert_eq!(Baseline::parse(&baseline.format()), Ok(baseline));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = Baseline::parse(&text);
            if let Ok(baseline) = Baseline::parse(&format!("opcost-baseline 1\n{text}")) {
                prop_assert_eq!(Baseline::parse(&baseline.format()), Ok(baseline));
            }
        }
    }

    #[test]
    fn lines_are_sorted_and_apart() {
        let text =
            format!("opcost-baseline 2\nb instructions 2 - {KEY}\na instructions 17 3/11 {KEY}\n");
        let baseline = Baseline::parse(&text).unwrap();
        let sorted = format!(
            "opcost-baseline 2\n\na instructions 17 3/11 {KEY}\n\nb instructions 2 - {KEY}\n"
        );
        assert_eq!(baseline.format(), sorted);
        assert_eq!(baseline.cases().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(
            baseline.figure("a", "instructions").unwrap().floor,
            Some(Floor { most: 3, layouts: Some(11) })
        );
        assert_eq!(baseline.figure("b", "instructions").unwrap().floor, None);
        let older = format!("opcost-baseline 1\na instructions 17 3 {KEY}\n");
        let older = Baseline::parse(&older).unwrap();
        let floor = older.figure("a", "instructions").unwrap().floor;
        assert_eq!(floor, Some(Floor { most: 3, layouts: None }));
    }

    #[test]
    fn damage_is_named_by_its_line() {
        let error = |lines: &str| {
            Baseline::parse(&format!("opcost-baseline 1\n{lines}")).unwrap_err().to_string()
        };
        for (lines, part) in [
            ("a instructions 17 3".into(), "line 2: expected 'CASE METRIC VALUE FLOOR KEY'"),
            (format!("a instructions 17k 3 {KEY}"), "line 2: '17k' is no count"),
            (format!("a instructions +17 3 {KEY}"), "line 2: '+17' is no count"),
            (format!("a instructions 17 3/ {KEY}"), "line 2: '3/' is no floor"),
            (format!("a instructions 17 3 {KEY};cpu=max"), "line 2: 'cpu=max' is no part of a key"),
            (format!("a i 1 1 {KEY}\n\na i 2 1 {KEY}"), "line 4: a i is there twice"),
            ("<<<<<<< HEAD".into(), "line 2: git left a conflict"),
            (format!("a i 1 1 {KEY}\n=======\n"), "line 3: git left a conflict"),
        ] {
            let error = error(&lines);
            assert!(error.starts_with(part), "{error}");
        }
        assert_eq!(Baseline::parse("opcost-baseline 3\n"), Err(BaselineError::Newer(3)));
        for other in [
            "",
            "a instructions 17 3 k=1",
            "opcost-baseline",
            "opcost-baseline one",
            "opcost-baseline 0",
        ] {
            assert_eq!(Baseline::parse(other), Err(BaselineError::Header), "{other}");
        }
        assert!(!BaselineError::Newer(3).is_mended_by_update());
        assert!(BaselineError::Conflict(3).is_mended_by_update());
    }
}
