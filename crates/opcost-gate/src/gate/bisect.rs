//! The result of a bisection: the changes that moved a figure, each with its contribution.

use super::floor::Floor;
use super::report::{FigureReport, Outcome};
use super::search::Untestable;
use opcost_analysis::comparison::FunctionComparison;
use opcost_record::{Better, Unit};

/// A finished bisection.
#[derive(Clone, Debug)]
pub struct Bisection {
    /// The case.
    pub case: String,
    /// The command or workload of the case.
    pub work: String,
    /// The kind of the suspects.
    pub kind: SuspectKind,
    /// The good end and the bad end.
    pub ends: [Suspect; 2],
    /// The figure reported first.
    pub figure: BisectedFigure,
    /// Points between the ends, including the bad end.
    pub points: usize,
    /// Points counted, including the ends.
    pub counted: usize,
    /// Points whose counts an earlier opcost had stored.
    pub known: usize,
    /// Where the figures moved, in order.
    pub steps: Vec<BisectStep>,
    /// The part of the figure's change that the steps do not explain.
    pub rest: i128,
    /// The part of the change that steps without open points explain, from 0 to 1.
    pub explained: f64,
    /// What ended the search before its goal; `None` if it reached its goal.
    pub ended: Option<EarlyEnd>,
    /// Neighbouring points that could not be tested for one reason.
    pub untestable: Vec<UntestableSuspects>,
    /// Notes that the reader should know beside the answer.
    pub notes: Vec<String>,
    /// The command that repeats the bisection.
    pub command: String,
}

/// What ends a search before its goal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EarlyEnd {
    /// The user ended it.
    Interrupted,
    /// This computer changed, so that counts no longer compare; in words.
    ComputerChanged(String),
}

/// The kind of points on a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SuspectKind {
    /// Commits of a repository.
    Commit,
    /// Options of a kernel's configuration.
    Option,
    /// Words of a list: of a kernel's command line, of CPU features, of compiler flags.
    Word,
}

impl SuspectKind {
    /// The noun for `count` suspects.
    pub fn words(self, count: usize) -> &'static str {
        match (self, count) {
            (SuspectKind::Commit, 1) => "commit",
            (SuspectKind::Commit, _) => "commits",
            (SuspectKind::Option, 1) => "option",
            (SuspectKind::Option, _) => "options",
            (SuspectKind::Word, 1) => "word",
            (SuspectKind::Word, _) => "words",
        }
    }
}

/// A commit, option or word that may have moved a figure.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Suspect {
    /// A commit's hash, an option, or a word.
    pub id: String,
    /// A commit's subject, or an option's change: `n → y`.
    pub title: String,
    /// Author and date; `None` if the suspect is no commit.
    pub author: Option<String>,
}

/// Neighbouring suspects that could not be tested for one reason.
#[derive(Clone, Debug)]
pub struct UntestableSuspects {
    /// The suspects that were tried; the first and the last of the group are among them.
    pub tried: Vec<Suspect>,
    /// The suspects of the group; those between others that failed alike need not have been tried.
    pub count: usize,
    /// Why the first of them could not be tested.
    pub why: String,
}

/// The figure of a bisection.
#[derive(Clone, Debug)]
pub struct BisectedFigure {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// The direction that is better.
    pub better: Better,
    /// The values of the good end and of the bad end.
    pub values: [u64; 2],
    /// How far seeds and layouts alone move the figure.
    pub floor: Option<Floor>,
    /// The largest move that is not a step.
    pub least_step: u64,
}

/// A place where the figures moved.
#[derive(Clone, Debug)]
pub struct BisectStep {
    /// The suspects: one, unless points between could not be tested or are not counted yet. Of many, the first and the last.
    pub suspects: Vec<Suspect>,
    /// The number of suspects.
    pub count: usize,
    /// Whether points between are not counted yet.
    pub is_open: bool,
    /// The figure before the step.
    pub from: u64,
    /// The change of the figure at the step.
    pub change: i128,
    /// The functions whose own instructions changed, each with its change, the largest first.
    pub functions: Vec<(String, i128)>,
    /// The effect of the option alone, on top of the good end. `None` for commits, and if it could not be counted.
    pub alone: Option<Alone>,
    /// The steps within a merge.
    pub inside: Vec<BisectStep>,
    /// The change that the merge itself caused, beside the commits it brought; `None` if the step is no merge.
    pub of_merge: Option<i128>,
    /// The culprit compared with the point before, by a whole experiment; `None` if there are several suspects.
    pub check: Option<Check>,
}

/// The effect of an option on top of the good end, without the options that precede it on the line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Alone {
    /// The option moves the figure by this much. The rest of the step's change comes from the preceding options.
    Moves(i128),
    /// The option cannot be set without others.
    NeedsOthers,
}

/// A culprit compared with its parent.
#[derive(Clone, Debug)]
pub struct Check {
    /// The recording.
    pub recording: String,
    /// The answer in a sentence, or why there is none.
    pub conclusion: String,
    /// Whether the figure moves in every layout as it did in the search; `None` if the runs cannot tell.
    pub confirmed: Option<bool>,
    /// The functions that explain the change.
    pub functions: Option<FunctionComparison>,
    /// Kernel options that differ, even if the commit's message does not mention them.
    pub differences: Vec<String>,
}

/// The most suspects of a step that are all named.
const SUSPECTS_MAX: usize = 100;

impl BisectStep {
    /// A step between two points, of which nothing but the change is known.
    ///
    /// `suspects`: the points behind the first one, up to the second.
    pub fn between<'a>(
        suspects: impl ExactSizeIterator<Item = &'a Suspect>,
        from: u64,
        change: i128,
    ) -> BisectStep {
        let count = suspects.len();
        let is_named = |at: &usize| count <= SUSPECTS_MAX || *at == 0 || *at + 1 == count;
        let named = suspects.enumerate().filter(|(at, _)| is_named(at));
        BisectStep {
            suspects: named.map(|(_, suspect)| suspect.clone()).collect(),
            count,
            is_open: false,
            from,
            change,
            functions: Vec::new(),
            alone: None,
            inside: Vec::new(),
            of_merge: None,
            check: None,
        }
    }

    /// The only suspect.
    pub fn culprit(&self) -> Option<&Suspect> {
        self.suspects.first().filter(|_| self.count == 1)
    }

    /// Whether other layouts do not move the figure as the layout of the search did.
    pub fn is_contradicted(&self) -> bool {
        self.check.as_ref().is_some_and(|check| check.confirmed == Some(false))
    }
}

impl Bisection {
    /// The change from the good end to the bad end.
    pub fn change(&self) -> i128 {
        let [good, bad] = self.figure.values;
        i128::from(bad) - i128::from(good)
    }

    /// A change of the figure in the form of a gate's report.
    pub fn as_figure(&self, from: u64, change: i128) -> FigureReport {
        FigureReport {
            metric: self.figure.name.clone(),
            unit: self.figure.unit,
            better: self.figure.better,
            baseline: Some(from as f64),
            value: Some((i128::from(from) + change) as f64),
            floor: self.figure.floor,
            exact: None,
            in_layouts: None,
            over_commits: None,
            limit: None,
            outcome: Outcome::Exceeded,
        }
    }

    /// The steps with a single culprit that its check does not contradict.
    pub fn culprits(&self) -> impl Iterator<Item = &BisectStep> {
        self.steps.iter().filter(|step| step.count == 1 && !step.is_contradicted())
    }

    /// The answer in a sentence.
    pub fn headline(&self) -> String {
        let culprits: Vec<&BisectStep> = self.culprits().collect();
        let found = match &culprits[..] {
            [] if self.steps.is_empty() => return "no step was found".into(),
            [] => None,
            [one] => Some(format!("the culprit is {}", one.suspects[0].shown())),
            many => Some(format!("{} culprits were found", many.len())),
        };
        let sizes = self.steps.iter().filter(|step| step.count > 1 && !step.is_open);
        let sizes: Vec<String> =
            sizes.map(|step| format!("one of {} {}", step.count, self.kind.words(2))).collect();
        let open =
            (!sizes.is_empty()).then(|| format!("{} cannot be told apart", sizes.join(" and ")));
        let contradicted = self.steps.iter().filter(|step| step.is_contradicted());
        let names: Vec<String> = contradicted.map(|step| step.suspects[0].shown()).collect();
        let contradicted = (!names.is_empty())
            .then(|| format!("{} moves it in the layout of the search only", names.join(" and ")));
        let left = match self.steps.iter().filter(|step| step.is_open).count() {
            0 => None,
            1 => Some("1 stretch of the line is not searched yet".to_string()),
            many => Some(format!("{many} stretches of the line are not searched yet")),
        };
        [found, open, contradicted, left].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

impl Suspect {
    /// The name for people: twelve digits of a commit, or the whole identifier.
    pub fn name(&self) -> &str {
        match self.author {
            Some(_) => opcost_kernel::short_commit(&self.id),
            None => &self.id,
        }
    }

    /// The name, followed by the title in parentheses.
    pub fn shown(&self) -> String {
        match self.title.is_empty() {
            true => self.name().to_string(),
            false => format!("{} ({})", self.name(), self.title),
        }
    }
}

impl Untestable {
    /// The failure of a suspect. A build's failure is told apart by its status and by the first line of its output that names an
    /// error, without numbers: another commit has the same mistake in another line.
    pub fn of(suspect: &Suspect, why: &str) -> Untestable {
        let shown = format!("{}: ", suspect.shown());
        let why = why.split_once(&shown).map_or(why, |(_, why)| why).to_string();
        let lines = [Some(why.lines().next().unwrap_or_default()), telling_line(&why)];
        let lines = lines.into_iter().flatten();
        let lines: Vec<String> = lines.map(|line| without_numbers(line, suspect.name())).collect();
        Untestable { cause: lines.join("\n"), why }
    }
}

/// The line of a failed build's output that says most: the first that names an error, else the last.
pub fn telling_line(why: &str) -> Option<&str> {
    let said: Vec<&str> = why.lines().skip(1).filter(|line| line.starts_with("    ")).collect();
    // A linker names the symbol first, and then that there was an error.
    let marks = ["error", "undefined reference", "undefined symbol"];
    let is_error = |line: &&&str| marks.iter().any(|mark| line.to_lowercase().contains(mark));
    said.iter().find(is_error).or(said.last()).map(|line| line.trim())
}

/// A text without what differs from commit to commit: numbers, digests, the commit's name.
fn without_numbers(text: &str, name: &str) -> String {
    const DIGEST_DIGITS_MIN: usize = 8;
    let words = text.split_inclusive(|char: char| !char.is_alphanumeric());
    words
        .map(|word| {
            let (body, end) = match word.char_indices().next_back() {
                Some((at, char)) if !char.is_alphanumeric() => word.split_at(at),
                _ => (word, ""),
            };
            let is_hex = body.chars().all(|char| char.is_ascii_hexdigit());
            let body = match body {
                "" => String::new(),
                _ if body == name || (is_hex && body.len() >= DIGEST_DIGITS_MIN) => "#".into(),
                _ => {
                    let runs = body
                        .as_bytes()
                        .chunk_by(|one, other| one.is_ascii_digit() == other.is_ascii_digit());
                    let shown = |run: &[u8]| match run[0].is_ascii_digit() {
                        true => "#".into(),
                        false => String::from_utf8_lossy(run).into_owned(),
                    };
                    runs.map(shown).collect()
                }
            };
            body + end
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_fail_alike_if_they_name_the_same_error() {
        let suspect = |id: &str, title: &str| Suspect {
            id: id.repeat(40),
            title: title.into(),
            author: Some("a".into()),
        };
        let failed = |of: &Suspect, side: &str, status: u32, lines: &str| {
            let why = format!(
                "{side} {}: the build 'make' ended with status {status}{lines}\n  all that it printed is in /c/{}.log",
                of.shown(),
                of.id
            );
            Untestable::of(of, &why)
        };
        let [one, two] = [suspect("a", "Add x"), suspect("b", "Add y: more")];
        let lines = |tree: &str, line: u32| {
            format!(
                "\n    /c/trees/{tree}/tree/x.c:{line}:3: error: unknown type\n    make: *** [Makefile:{line}] Error 1"
            )
        };
        let first = failed(&one, "count 3,", 2, &lines("0123abcd0123abcd", 7));
        assert_eq!(first.why.lines().next(), Some("the build 'make' ended with status 2"));
        assert_eq!(first.cause, failed(&two, "good", 2, &lines("ffffffffffffffff", 1234)).cause);
        let other = "\n    x.c:7:3: error: unknown value";
        assert_ne!(first.cause, failed(&one, "count 3,", 2, other).cause);
        let linker = "\n    x.c:(.text+0x9): undefined reference to `pow10'\n    collect2: error: ld returned 1 exit status";
        let why = failed(&one, "count 3,", 2, linker).why;
        assert_eq!(telling_line(&why), Some("x.c:(.text+0x9): undefined reference to `pow10'"));
        assert_eq!(
            Untestable::of(&one, "its counts depend on other things").cause.lines().count(),
            1
        );
    }

    #[test]
    fn many_suspects_are_counted_and_the_ends_named() {
        let all: Vec<Suspect> =
            (0..5_000).map(|at| Suspect { id: at.to_string(), ..Suspect::default() }).collect();
        let step = BisectStep::between(all.iter(), 10, -3);
        let names: Vec<&str> = step.suspects.iter().map(Suspect::name).collect();
        assert_eq!((step.count, &names[..], step.culprit()), (5_000, &["0", "4999"][..], None));
        let one = BisectStep::between(all[7..8].iter(), 10, -3);
        assert_eq!(one.culprit(), Some(&all[7]));
    }
}
