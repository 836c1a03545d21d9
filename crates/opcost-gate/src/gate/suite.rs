//! `opcost.toml`: the cases by which a repository checks its changes.
//!
//! A key above the first table is the default of every case.

use super::fixup::Fixup;
use opcost_analysis::comparison::limit::Limit;
use opcost_model::experiment::{Command, Experiment, Scalar, Seed, Variant};
use opcost_model::plan::MachineKind;
use opcost_model::plan::guest::{NO_KERNEL, Question, counts_apart};
use opcost_record::nearest::did_you_mean;
use opcost_record::printable::printable;
use serde::de::value::Error as FieldsError;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The cases of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// The cases by name.
    pub cases: Vec<Case>,
    /// Whether a change is judged by the cases, figures and limits of its base where it has looser ones.
    pub protect: bool,
}

/// One case: work that each revision does.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The name.
    pub name: String,
    /// The figures held to the limit; if empty, the experiment's primary metric, else the default one.
    pub watched: Vec<WatchedFigure>,
    /// How much worse a figure may become; `None` allows as much as layouts alone move it.
    pub limit: Option<Limit>,
    /// How much worse a figure may become over so many commits; `None` allows any sum of allowed changes.
    pub drift: Option<Drift>,
    /// The command that builds a revision; `None` if the case needs no build.
    pub build: Option<String>,
    /// Files that the build must produce, relative to the revision's tree.
    pub artifact: Vec<String>,
    /// The program whose version identifies the compiler of a build; `None` means cc.
    pub compiler: Option<String>,
    /// What opcost changes in the files of some commits before it builds them.
    pub fixups: Vec<Fixup>,
    /// The benchmarks of a framework that the command has, by parts of their names; `None` if the command itself is counted.
    pub bench: Option<Vec<String>>,
    /// The remaining fields, with one variant.
    pub experiment: Experiment,
}

/// The most that a figure may become worse over a number of commits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The limit of the sum.
    pub limit: Limit,
    /// The number of commits.
    pub commits: u32,
}

/// The most commits of a drift.
const DRIFT_COMMITS_MAX: u32 = 10_000;

impl std::str::FromStr for Drift {
    type Err = String;

    fn from_str(text: &str) -> Result<Drift, String> {
        let why = || {
            format!(
                "'{}' is no drift; write for example '1% in 20', for the last 20 commits together",
                printable(text)
            )
        };
        let (limit, commits) = text.rsplit_once(" in ").ok_or_else(why)?;
        let commits: u32 = commits.trim().parse().map_err(|_| why())?;
        match commits {
            2..=DRIFT_COMMITS_MAX => Ok(Drift { limit: limit.parse()?, commits }),
            _ => Err(format!("'{}': give 2 to {DRIFT_COMMITS_MAX} commits", printable(text))),
        }
    }
}

impl std::fmt::Display for Drift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in {}", self.limit, self.commits)
    }
}

/// One figure of a case.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WatchedFigure {
    /// A metric, as tables show it.
    Metric(String),
    /// The instructions of a function's own code.
    Function(String),
}

/// Why a text is not a suite.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct SuiteError(String);

/// The fields of a case in addition to those of an experiment.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[derive(Default)]
struct CaseFields {
    command: Option<Command>,
    workload: Option<String>,
    params: BTreeMap<String, Scalar>,
    metric: OneOrMany,
    function: OneOrMany,
    limit: Option<String>,
    drift: Option<String>,
    build: Option<String>,
    artifact: OneOrMany,
    compiler: Option<String>,
    bench: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a string or a list of strings")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        OneOrMany::Many(Vec::new())
    }
}

impl OneOrMany {
    fn is_empty(&self) -> bool {
        matches!(self, OneOrMany::Many(texts) if texts.is_empty())
    }
}

impl From<OneOrMany> for Vec<String> {
    fn from(texts: OneOrMany) -> Vec<String> {
        match texts {
            OneOrMany::One(text) => vec![text],
            OneOrMany::Many(texts) => texts,
        }
    }
}

/// Fields of an experiment that the gate decides itself, each with the alternative.
const DECIDED: [(&str, &str); 15] = [
    ("name", "the case's name is its own"),
    ("label", "recordings of a gate are labelled with what they measured"),
    ("primary", "write metric"),
    ("variant", "the two revisions are the variants"),
    ("pairs-of-variants", "there are two revisions"),
    ("until-settled", "opcost gate decides how many runs it makes"),
    ("in-process", "two revisions are two programs"),
    ("blocks-per-process", "two revisions are two programs"),
    ("rebuild", "write build"),
    ("blocks-per-build", "each revision is built once"),
    ("setup", "write build, or prepare"),
    ("cleanup", "opcost removes what it made"),
    ("kernels", "name a kernel by kernel"),
    ("tree", "guests have the revision's tree at /tree"),
    ("fresh-boots", "leave it out"),
];

/// A kernel's name begins so if it is a file of the revision's tree.
pub const OF_REVISION: &str = "./";

/// The machine whose figures vary, as a suite names it.
const HOST: &str = "host";

/// Fields for the number of runs, which exact counts do not need.
const LENGTHS: [&str; 6] = ["pairs", "runs", "min-runs", "until-width", "budget", "warmup"];

impl Suite {
    /// Reads a file's text.
    ///
    /// # Errors
    /// The line and column, or the case and the key, with what was expected there.
    pub fn parse(text: &str) -> Result<Suite, SuiteError> {
        let mut defaults: Table = text
            .parse()
            .map_err(|error: toml::de::Error| SuiteError(error.to_string().trim_end().into()))?;
        let cases = match defaults.remove("case") {
            Some(Value::Table(cases)) if !cases.is_empty() => cases,
            Some(_) => return Err(SuiteError("write a case as a table: [case.NAME]".into())),
            None => {
                return Err(SuiteError(
                    "there is no case; add one, [case.NAME] with a command".into(),
                ));
            }
        };
        let protect = match defaults.remove("protect") {
            None => false,
            Some(Value::Boolean(protect)) => protect,
            Some(_) => return Err(SuiteError("above the cases: protect is true or false".into())),
        };
        let fixups = defaults.remove("fixup").map_or(Ok(Vec::new()), Fixup::read_all);
        let fixups = fixups.map_err(SuiteError)?;
        check_keys(&defaults).map_err(|what| SuiteError(format!("above the cases: {what}")))?;
        let cases = cases.into_iter().map(|(name, of_case)| {
            let wrong = |what: String| SuiteError(format!("case '{}': {what}", printable(&name)));
            if name.is_empty()
                || !name.chars().all(|char| char.is_alphanumeric() || "-_.+/".contains(char))
            {
                return Err(wrong("a case's name has letters, digits and -_.+/ only".into()));
            }
            let Value::Table(of_case) = of_case else {
                return Err(wrong(format!("write it as a table: [case.{name}]")));
            };
            check_keys(&of_case).map_err(&wrong)?;
            let mut table = defaults.clone();
            if of_case.get("machine").or(table.get("machine")).and_then(Value::as_str) == Some(HOST)
            {
                // The default is for cases whose figures add up.
                table.remove("drift");
            }
            table.extend(of_case);
            let mut case = Case::read(&name, table).map_err(wrong)?;
            if case.tests_kernel() && !fixups.is_empty() {
                return Err(wrong(
                    "fixup: opcost builds the kernels of kernel-config as they are; name a build and a kernel that it makes, \
                     as in kernel = './bzImage'"
                        .into(),
                ));
            }
            case.fixups.clone_from(&fixups);
            Ok(case)
        });
        Ok(Suite { cases: cases.collect::<Result<_, _>>()?, protect })
    }

    /// The cases of these names; all, if none is named.
    ///
    /// # Errors
    /// A name without a case.
    pub fn select(mut self, names: &[String]) -> Result<Suite, SuiteError> {
        let known: Vec<String> = self.cases.iter().map(|case| case.name.clone()).collect();
        for name in names {
            if !known.contains(name) {
                let near = did_you_mean(name, known.iter().map(String::as_str));
                let known = known.join(", ");
                return Err(SuiteError(format!(
                    "--case {name}: there is no such case{near}; there are: {known}"
                )));
            }
        }
        self.cases.retain(|case| names.is_empty() || names.contains(&case.name));
        Ok(self)
    }

    /// Notes about the cases' metrics that a report of two revisions has to have.
    pub fn notes(&self) -> Vec<String> {
        self.cases.iter().filter_map(|case| case.contains_ticks(case.of_revisions())).collect()
    }
}

impl Case {
    /// A case without a suite: the work's default primary metric is watched.
    pub fn of_variant(name: &str, variant: Variant, build: Option<String>) -> Case {
        let experiment = Experiment {
            name: Some(Case::experiment_name(name)),
            machine: Some(MachineKind::Emulated),
            variants: vec![variant],
            ..Experiment::default()
        };
        Case {
            name: name.into(),
            watched: Vec::new(),
            limit: None,
            drift: None,
            build,
            artifact: Vec::new(),
            compiler: None,
            fixups: Vec::new(),
            bench: None,
            experiment,
        }
    }

    fn experiment_name(name: &str) -> String {
        format!("gate/{name}")
    }

    fn read(name: &str, mut table: Table) -> Result<Case, String> {
        let mut own = Table::new();
        for key in fields_of::<CaseFields>() {
            own.extend(table.remove(*key).map(|value| (key.to_string(), value)));
        }
        let message = |error: toml::de::Error| error.to_string().trim_end().replace('\n', " ");
        let fields: CaseFields = own.try_into().map_err(message)?;
        let given: Vec<String> = table.keys().cloned().collect();
        let mut experiment: Experiment = table.try_into().map_err(message)?;
        let machine = *experiment.machine.get_or_insert(MachineKind::Emulated);
        let length = LENGTHS.iter().find(|length| given.iter().any(|key| key == *length));
        if let (MachineKind::Emulated, Some(length)) = (machine, length) {
            return Err(format!(
                "{length}: counts of the emulated machine repeat, so opcost gate makes one run a side; leave it out"
            ));
        }
        for (key, values) in [
            ("kernel", &experiment.kernel),
            ("boot", &experiment.boot),
            ("cpu-model", &experiment.cpu_model),
            ("like", &experiment.like),
            ("disk", &experiment.disk),
            ("root", &experiment.root),
            ("service", &experiment.service),
            ("ready", &experiment.ready),
        ] {
            if values.len() > 1 {
                return Err(format!("{key}: a case has one; write a case for each"));
            }
        }
        if experiment.seed == Some(Seed::RANDOM) {
            return Err(
                "seed: figures of a case are compared with later ones; give a number".into()
            );
        }
        if fields.bench.is_some() {
            let other = given.iter().find(|key| key.as_str() != "cwd").map(String::as_str);
            let of_case = [
                ("metric", !fields.metric.is_empty()),
                ("function", !fields.function.is_empty()),
                ("drift", fields.drift.is_some()),
            ];
            let other = other.or(of_case.iter().find(|(_, given)| *given).map(|(key, _)| *key));
            if let Some(key) = other {
                return Err(format!(
                    "{key} has no meaning beside bench: the figures are the benchmarks' instructions of an iteration"
                ));
            }
            if fields.command.is_none() {
                return Err(
                    "bench: give it the command that has the benchmarks, as for opcost bench"
                        .into(),
                );
            }
            experiment.kernel = vec![NO_KERNEL.into()];
        }
        if fields.command.is_none() == fields.workload.is_none() {
            return Err("give it a command or a workload, and not both".into());
        }
        let limit = fields.limit.map(|limit| limit.parse().map_err(|why| format!("limit: {why}")));
        let drift = fields.drift.map(|drift| drift.parse().map_err(|why| format!("drift: {why}")));
        let drift: Option<Drift> = drift.transpose()?;
        if drift.is_some() && machine == MachineKind::Host {
            return Err(
                "drift: figures of this host vary from one measurement to the next; leave machine out, or drift".into(),
            );
        }
        let metrics = Vec::from(fields.metric).into_iter().map(WatchedFigure::Metric);
        let functions = Vec::from(fields.function).into_iter().map(WatchedFigure::Function);
        let watched: Vec<WatchedFigure> = metrics.chain(functions).collect();
        if watched.iter().any(|figure| figure.name().is_empty()) {
            return Err("a metric or function without a name".into());
        }
        let function = watched.iter().find(|figure| matches!(figure, WatchedFigure::Function(_)));
        let why = match machine {
            MachineKind::Host => {
                Some("functions are counted on the emulated machine only; leave machine out")
            }
            MachineKind::Emulated if experiment.no_functions => {
                Some("a case with no-functions counts totals only; leave no-functions out")
            }
            _ => None,
        };
        if let (Some(function), Some(why)) = (function, why) {
            return Err(format!("function {}: {why}", function.name()));
        }
        experiment.name = Some(Case::experiment_name(name));
        experiment.variants = vec![Variant {
            command: fields.command,
            workload: fields.workload,
            params: fields.params,
            ..Variant::default()
        }];
        let mut case = Case {
            name: name.into(),
            watched,
            limit: limit.transpose()?,
            drift,
            build: fields.build,
            artifact: fields.artifact.into(),
            compiler: fields.compiler,
            fixups: Vec::new(),
            bench: fields.bench.map(Vec::from),
            experiment,
        };
        case.ask(case.of_revisions());
        Ok(case)
    }

    /// The question that two revisions put: each may be the kernel of the case.
    pub fn of_revisions(&self) -> Question {
        let of_tree = self.experiment.kernel.iter().any(|kernel| kernel.starts_with(OF_REVISION));
        Question::of(self.tests_kernel() || of_tree, false, self.is_command())
    }

    /// Makes the metric that decides a question the primary one, unless the case names figures.
    pub fn ask(&mut self, question: Question) {
        if question == Question::KernelPath && self.is_exact() && self.watched.is_empty() {
            let apart = counts_apart(self.boots_kernel(), self.experiment.no_functions);
            self.experiment.primary = apart.then(|| question.metric(apart));
        }
    }

    /// The name of the metric that decides if the case names no figure.
    pub fn usual_metric(&self) -> String {
        self.experiment.primary.clone().unwrap_or_else(|| Question::Whole.metric(false))
    }

    /// Why a question about a kernel's paths is answered by a metric that contains ticks; `None` if it is not.
    pub fn contains_ticks(&self, question: Question) -> Option<String> {
        let apart = counts_apart(self.boots_kernel(), self.experiment.no_functions);
        let answers =
            question == Question::KernelPath && self.is_exact() && self.watched.is_empty();
        (answers && self.boots_kernel() && !apart).then(|| {
            format!(
                "case '{}' has no-functions, so its metric is {} with the kernel's ticks and deferred work; leave \
                 no-functions out for {}",
                self.name,
                question.metric(apart),
                question.metric(true),
            )
        })
    }

    /// Whether a command is run, not a workload.
    pub fn is_command(&self) -> bool {
        self.experiment.variants.iter().any(|variant| variant.command.is_some())
    }

    /// Whether the emulated machine boots a kernel.
    pub fn boots_kernel(&self) -> bool {
        let kernel = self.experiment.kernel.first();
        self.is_exact() && kernel.is_none_or(|name| name != NO_KERNEL)
    }

    /// Whether each revision is the kernel to boot: kernels are configured, but none is named.
    pub fn tests_kernel(&self) -> bool {
        let Experiment { kernel, kernel_tree, kernel_config, .. } = &self.experiment;
        !kernel_config.is_empty() && kernel.is_empty() && kernel_tree.is_none()
    }

    /// Whether the counts are exact, as on the emulated machine.
    pub fn is_exact(&self) -> bool {
        self.experiment.machine == Some(MachineKind::Emulated)
    }
}

impl WatchedFigure {
    /// The prefix of a function's label.
    pub const OF_FUNCTION: &'static str = "function:";

    /// The name in reports and baseline files.
    pub fn label(&self) -> String {
        match self {
            WatchedFigure::Metric(metric) => metric.clone(),
            WatchedFigure::Function(function) => format!("{}{function}", Self::OF_FUNCTION),
        }
    }

    fn name(&self) -> &str {
        let (WatchedFigure::Metric(name) | WatchedFigure::Function(name)) = self;
        name
    }
}

/// Refuses unknown keys, and keys that a gate decides.
fn check_keys(table: &Table) -> Result<(), String> {
    let known: Vec<&str> =
        fields_of::<CaseFields>().iter().chain(fields_of::<Experiment>()).copied().collect();
    for key in table.keys() {
        if let Some((_, instead)) = DECIDED.iter().find(|(decided, _)| decided == key) {
            return Err(format!("{key} has no meaning for a gate: {instead}"));
        }
        if !known.contains(&key.as_str()) {
            let given = known.iter().filter(|known| DECIDED.iter().all(|(name, _)| name != *known));
            let near = did_you_mean(key, given.copied());
            return Err(format!("unknown key '{}'{near}", printable(key)));
        }
    }
    Ok(())
}

/// The names of a struct's fields, taken from its `Deserialize` implementation.
fn fields_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    struct Fields<'a>(&'a mut &'static [&'static str]);
    impl<'de> Deserializer<'de> for Fields<'_> {
        type Error = FieldsError;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, FieldsError> {
            Err(FieldsError::custom("no struct"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, FieldsError> {
            *self.0 = fields;
            Err(FieldsError::custom("the fields are all that is asked for"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
            unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }
    let mut fields: &'static [&'static str] = &[];
    let _ = T::deserialize(Fields(&mut fields));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Suite::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_case_is_an_experiment_with_a_limit() {
        let text = "build = 'make'\nlimit = '0.1% or 10000'\n\n\
                    [case.parse]\ncommand = './bench parse'\nartifact = 'bench'\n\n\
                    [case.print]\ncommand = ['./bench', 'print']\nlimit = '1%'\nmetric = ['instructions', 'page-faults']\n\
                    function = 'print_line'\ncpu-model = 'Skylake-Client-v1'\n\n\
                    [case.wall]\nmachine = 'host'\ncommand = './bench'\nbudget = '5s'\nbuild = 'make fast'\n";
        let cases = Suite::parse(text).unwrap().cases;
        let [parse, print, wall] = &cases[..] else { panic!("{cases:?}") };
        assert_eq!((parse.name.as_str(), parse.build.as_deref()), ("parse", Some("make")));
        assert_eq!(parse.artifact, ["bench"]);
        assert_eq!(parse.limit, Some("0.1% or 10000".parse().unwrap()));
        assert!(parse.is_exact() && parse.watched.is_empty());
        assert_eq!(parse.experiment.name.as_deref(), Some("gate/parse"));
        let labels: Vec<String> = print.watched.iter().map(WatchedFigure::label).collect();
        assert_eq!(labels, ["instructions", "page-faults", "function:print_line"]);
        assert_eq!(print.limit, Some("1%".parse().unwrap()));
        assert_eq!(print.experiment.cpu_model, ["Skylake-Client-v1"]);
        assert_eq!(wall.build.as_deref(), Some("make fast"));
        assert!(!wall.is_exact() && wall.experiment.budget.is_some());
    }

    #[test]
    fn a_drift_is_a_limit_for_so_many_commits() {
        let text = "drift = '1% in 20'\n[case.a]\ncommand = 'x'\n[case.b]\ncommand = 'x'\ndrift = '0.5% or 900 in 7'\n\
                    [case.c]\ncommand = 'x'\nmachine = 'host'\n";
        let cases = Suite::parse(text).unwrap().cases;
        let words = |case: &Case| case.drift.map(|drift| drift.to_string());
        assert_eq!(words(&cases[0]).as_deref(), Some("1.00 % in 20"));
        assert_eq!(words(&cases[1]).as_deref(), Some("0.50 % or 900 in 7"));
        assert_eq!(words(&cases[2]), None, "figures of the host do not add up");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("", "there is no case; add one"),
            ("case = 1", "write a case as a table"),
            ("[case]", "write a case as a table"),
            ("case.a = 1", "case 'a': write it as a table: [case.a]"),
            ("[case.a]\ncomand = 'x'", "case 'a': unknown key 'comand' (did you mean command?)"),
            (
                "limt = '1%'\n[case.a]\ncommand = 'x'",
                "above the cases: unknown key 'limt' (did you mean limit?)",
            ),
            ("[case.a]\ncommand = 'x'\nmemory_mib = 1", "did you mean memory-mib?"),
            ("[case.a]", "case 'a': give it a command or a workload"),
            ("[case.a]\ncommand = 'x'\nworkload = 'mmap'", "and not both"),
            ("[case.a]\ncommand = 1", "case 'a': "),
            (
                "[case.a]\ncommand = 'x'\nlimit = '5 parsecs'",
                "case 'a': limit: '5 parsecs' is no limit",
            ),
            (
                "[case.a]\ncommand = 'x'\ndrift = '1%'",
                "drift: '1%' is no drift; write for example '1% in 20'",
            ),
            (
                "[case.a]\ncommand = 'x'\ndrift = '1% in 1'",
                "drift: '1% in 1': give 2 to 10000 commits",
            ),
            ("[case.a]\ncommand = 'x'\ndrift = '1x in 9'", "drift: '1x' is no limit"),
            (
                "[case.a]\ncommand = 'x'\nmachine = 'host'\ndrift = '1% in 9'",
                "drift: figures of this host vary",
            ),
            ("[case.a]\ncommand = 'x'\npairs = 3", "pairs: counts of the emulated machine repeat"),
            (
                "[case.a]\ncommand = 'x'\nprimary = 'wall'",
                "primary has no meaning for a gate: write metric",
            ),
            ("[case.a]\ncommand = 'x'\ncpu-model = ['a', 'b']", "cpu-model: a case has one"),
            (
                "[case.a]\ncommand = 'x'\nmachine = 'host'\nfunction = 'f'",
                "function f: functions are counted on",
            ),
            (
                "[case.a]\ncommand = 'x'\nno-functions = true\nfunction = 'f'",
                "function f: a case with no-functions counts totals only",
            ),
            ("[case.a]\ncommand = 'x'\nmetric = ''", "a metric or function without a name"),
            ("[case.'a b']\ncommand = 'x'", "case 'a b': a case's name has letters"),
            ("[case.a\n", "line 1, column"),
            ("fixup = 1\n[case.a]\ncommand = 'x'", "write each fixup as a table"),
            (
                "[[fixup]]\ncommits = 'a..b'\nrun = ':'\n[case.a]\nworkload = 'mmap'\nkernel-config = ['x']",
                "case 'a': fixup: opcost builds the kernels",
            ),
        ] {
            let error = error(text);
            assert!(error.contains(part), "{text}\n{error}");
        }
    }

    #[test]
    fn a_kernel_of_the_revision_is_judged_by_what_programs_ask_of_it() {
        let usual = |fields: &str| {
            let text = format!("[case.a]\nworkload = 'mmap'\n{fields}");
            let case = Suite::parse(&text).unwrap().cases.remove(0);
            (case.usual_metric(), case.contains_ticks(case.of_revisions()).is_some())
        };
        let [path, whole] = ["instructions-synchronous:k", "instructions"].map(String::from);
        let kernel = "kernel-config = ['small.config']";
        assert_eq!(usual(kernel), (path.clone(), false));
        assert_eq!(usual("kernel = './arch/x86/boot/bzImage'"), (path.clone(), false));
        // One kernel for all revisions is not in question.
        assert_eq!(usual(""), (whole.clone(), false));
        assert_eq!(usual("kernel = 'debian:cloud'"), (whole.clone(), false));
        let one_kernel = "kernel-tree = 'linux'\nkernel = 'v6.12'\n";
        assert_eq!(usual(&format!("{one_kernel}{kernel}")), (whole.clone(), false));
        // Totals do not tell ticks apart, and the report says so.
        assert_eq!(usual(&format!("{kernel}\nno-functions = true")), (whole.clone(), true));
        // The case's own figures decide.
        let named = format!("{kernel}\nmetric = 'instructions:k'");
        let case = Suite::parse(&format!("[case.a]\nworkload = 'mmap'\n{named}")).unwrap().cases;
        assert_eq!(case[0].experiment.primary, None);
        assert_eq!(usual(&format!("{named}\nno-functions = true")), (whole, false));
    }

    #[test]
    fn cases_are_selected_by_name() {
        let suite = Suite::parse("command = 'x'\n[case.parse]\n[case.print]\n").unwrap();
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            suite
                .clone()
                .select(&names)
                .map(|suite| suite.cases.len())
                .map_err(|error| error.to_string())
        };
        assert_eq!((names(&[]), names(&["print"])), (Ok(2), Ok(1)));
        let error = names(&["pirnt"]).unwrap_err();
        assert_eq!(
            error,
            "--case pirnt: there is no such case (did you mean print?); there are: parse, print"
        );
    }

    #[test]
    fn what_a_gate_decides_are_fields_of_experiments() {
        let known = fields_of::<Experiment>();
        for (name, _) in DECIDED {
            assert!(known.contains(&name), "{name} is no field");
        }
        for name in LENGTHS {
            assert!(known.contains(&name), "{name} is no field");
        }
    }
}
