//! Turns the figures of files into a recording by giving each figure its variant and metric.

use super::ImportFormat;
use super::parsed::{Data, Parsed, Series};
use super::problem::{Problem, ProblemKind};
use super::unit::Measure;
use opcost_model::plan::{
    Aslr, EnvironmentPolicy, Hooks, IMPORT, IgnoredStatuses, ImportPlan, ImportSource,
    ImportedFigures, ImportedMetric, Omission, PairsOfVariants, Plan, StopPlan, Target,
    VariantPlan, WorkPlan,
};
use opcost_model::recording::MachineState;
use opcost_record::printable::printable;
use opcost_record::{Better, Domain, Family, MetricKey, MetricRow, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A file that was read.
pub struct ReadFile {
    /// Name of the file's variant, unless the file names variants itself.
    pub label: String,
    /// The path, as it was given.
    pub path: String,
    /// The format it was read in.
    pub format: &'static ImportFormat,
    /// The file's figures.
    pub parsed: Parsed,
}

/// The user's choices beside the files.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Name of the experiment.
    pub experiment: Option<String>,
    /// The variant to compare the others with.
    pub baseline: Option<String>,
    /// The metric that decides.
    pub primary: Option<String>,
    /// Number of runs of each mean whose file does not give it.
    pub runs: Option<u64>,
}

/// Imported figures, ready to be stored.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// The plan of a recording without runs, which holds the figures.
    pub plan: Plan,
    /// The machine as the files describe it.
    pub machine: MachineState,
}

/// Gives every figure its variant, metric and unit.
///
/// If there are several files, each file is a variant and its benchmarks are metrics. If there is one file, its benchmarks,
/// commands or named variants are the variants. Files with a single, different benchmark each are variants named after their
/// benchmarks.
///
/// # Errors
/// Mixed units, figures given twice, or a missing baseline or primary metric.
pub fn assemble(files: &[ReadFile], options: &Options) -> Result<Assembled, Problem> {
    let naming = Naming::of(files);
    let mut import = ImportPlan::default();
    let mut variants: Vec<String> = Vec::new();
    let mut measures: Vec<Measure> = Vec::new();
    for file in files {
        for series in &file.parsed.series {
            let variant = naming.variant(file, series);
            let variant_index = place(&mut variants, variant.clone());
            let (key, row) = key_of(naming.case(series), &series.metric);
            let measure = Measure::of(&series.unit);
            check_unit(series, row, &measure)?;
            let at = import.metrics.iter().position(|metric| metric.key == key);
            let at = at.unwrap_or_else(|| {
                import.metrics.push(metric(key, row, series, &measure));
                measures.push(measure.clone());
                import.metrics.len() - 1
            });
            let metric = &mut import.metrics[at];
            if !measures[at].fits(&measure) || metric.per_op != series.per_op {
                return Err(mixed(series, &measures[at], metric.per_op));
            }
            let (figures, resolution) = converted(series, measure.factor, options.runs)?;
            metric.resolution = metric.resolution.min(resolution);
            metric.figures.resize(metric.figures.len().max(variant_index + 1), None);
            join(&mut metric.figures[variant_index], figures).ok_or_else(|| {
                let kind = ProblemKind::Twice { variant, metric: series.metric.clone() };
                Problem { line: series.line, kind }
            })?;
        }
        import.sources.push(ImportSource {
            file: file.path.clone(),
            format: file.format.name.to_string(),
            tool: file.parsed.tool.clone(),
            version: file.parsed.version.clone(),
            date: file.parsed.date.clone(),
        });
        import.omitted.extend(file.parsed.omitted.iter().cloned());
        import.claims.extend(file.parsed.claims.iter().cloned());
        import.formulas.extend(file.parsed.formulas.iter().cloned());
        import.threads = import.threads.or(file.parsed.threads);
    }
    for metric in &mut import.metrics {
        metric.figures.resize(variants.len(), None);
    }
    import.omitted.extend(unknown_numbers(&import, options.runs));
    if let Some(baseline) = &options.baseline {
        put_first(baseline, &mut variants, &mut import)?;
    }
    let said =
        |of: fn(&Parsed) -> &Option<String>| files.iter().find_map(|file| of(&file.parsed).clone());
    // If files are the variants, the benchmark is part of a metric's name.
    let primary = options.primary.clone().or_else(|| {
        said(|parsed| &parsed.primary).filter(|name| {
            let wanted = key_of(None, name).0;
            import.metrics.iter().any(|metric| metric.key == wanted)
        })
    });
    let experiment = options.experiment.clone().or_else(|| said(|parsed| &parsed.experiment));
    let machine = MachineState {
        opcost_version: env!("CARGO_PKG_VERSION").to_string(),
        cpu_model: said(|parsed| &parsed.cpu),
        kernel_release: said(|parsed| &parsed.kernel),
        ..MachineState::default()
    };
    let plan = plan(
        printable(&experiment.unwrap_or_else(|| stem(Path::new(&files[0].path)))),
        said(|parsed| &parsed.question),
        &variants,
        primary_of(&import, primary.as_deref())?,
        import,
    );
    Ok(Assembled { plan, machine })
}

/// The roles of files and of the benchmarks in them.
struct Naming {
    files_are_variants: bool,
    cases_are_variants: bool,
    several_cases: bool,
}

impl Naming {
    fn of(files: &[ReadFile]) -> Naming {
        let cases = |file: &ReadFile| -> BTreeSet<Option<String>> {
            file.parsed.series.iter().map(|series| series.case.clone()).collect()
        };
        let all: BTreeSet<Option<String>> = files.iter().flat_map(cases).collect();
        let labels: BTreeSet<&String> = files.iter().map(|file| &file.label).collect();
        let one_each = files.iter().all(|file| cases(file).len() == 1) && all.len() == files.len();
        let several_files = labels.len() > 1;
        Naming {
            files_are_variants: several_files && (!one_each || all.contains(&None)),
            cases_are_variants: !several_files || one_each,
            several_cases: all.len() > 1,
        }
    }

    fn variant(&self, file: &ReadFile, series: &Series) -> String {
        let case =
            series.case.clone().filter(|_| self.cases_are_variants && !self.files_are_variants);
        series.variant.clone().or(case).unwrap_or_else(|| file.label.clone())
    }

    /// The benchmark, if it is part of the metric's name.
    fn case<'a>(&self, series: &'a Series) -> Option<&'a str> {
        let is_part = self.several_cases && (self.files_are_variants || series.variant.is_some());
        series.case.as_deref().filter(|_| is_part)
    }
}

/// The metric's key, and the row of the metric's description.
fn key_of(case: Option<&str>, text: &str) -> (MetricKey, Option<&'static MetricRow>) {
    let (name, domain) = match text.rsplit_once(':') {
        Some((name, "u")) => (name, Domain::User),
        Some((name, "k")) => (name, Domain::Kernel),
        _ => (text, Domain::All),
    };
    let row = MetricRow::find(name);
    let name = row.map_or(name, |row| row.name);
    let name = case.map_or(name.to_string(), |case| format!("{case} {name}"));
    (MetricKey::new(&name, domain, IMPORT), row)
}

/// Checks that a metric with a known name has a unit of the known kind.
fn check_unit(series: &Series, row: Option<&MetricRow>, measure: &Measure) -> Result<(), Problem> {
    let Some(row) = row else { return Ok(()) };
    let expected = match row.unit {
        Unit::Ns => "is a time, in ns, us, ms or s",
        Unit::Bytes => "is in bytes",
        Unit::Count | Unit::Ticks => "is a count, without a unit",
    };
    let same = match row.unit {
        Unit::Ticks => measure.unit == Unit::Count,
        unit => measure.unit == unit,
    };
    if same && measure.written.is_none() {
        return Ok(());
    }
    let (metric, found) = (series.metric.clone(), series.unit.clone());
    Err(Problem { line: series.line, kind: ProblemKind::WrongUnit { metric, expected, found } })
}

fn mixed(series: &Series, first: &Measure, per_op: bool) -> Problem {
    let name =
        |text: &str, per_op: bool| format!("{text}{}", if per_op { " per operation" } else { "" });
    let kind = ProblemKind::MixedUnits {
        metric: series.metric.clone(),
        one: name(first.name(), per_op),
        other: name(Measure::of(&series.unit).name(), series.per_op),
    };
    Problem { line: series.line, kind }
}

fn metric(
    key: MetricKey,
    row: Option<&'static MetricRow>,
    series: &Series,
    measure: &Measure,
) -> ImportedMetric {
    let lower = measure.unit != Unit::Count;
    let guessed = if lower { Better::Lower } else { Better::Neither };
    let family = row.map(|row| row.family).filter(|family| *family != Family::Control);
    ImportedMetric {
        key,
        unit: measure.unit,
        unit_written: measure.written.clone(),
        factor: measure.factor,
        better: series.better.or(row.map(|row| row.better)).unwrap_or(guessed),
        family: family.unwrap_or(Family::Rest),
        per_op: series.per_op,
        resolution: f64::MAX,
        figures: Vec::new(),
    }
}

/// The figures in opcost's unit, with the weight of their last digit.
fn converted(
    series: &Series,
    factor: f64,
    runs: Option<u64>,
) -> Result<(ImportedFigures, f64), Problem> {
    // A figure in a unit that only the file knows may be a difference.
    let may_be_negative = Measure::of(&series.unit).written.is_some();
    let check = |value: f64| {
        let what = series.metric.clone();
        // Check the converted value too, as opcost's unit is smaller.
        let kind = if !(value * factor).is_finite() {
            ProblemKind::NotFinite { what, text: value.to_string() }
        } else if value < 0.0 && !may_be_negative {
            ProblemKind::Negative { what, value }
        } else {
            return Ok(value * factor);
        };
        Err(Problem { line: series.line, kind })
    };
    let spread = |sd: f64| {
        if sd.is_finite() && sd >= 0.0 {
            return Ok(sd * factor);
        }
        let what = format!("the spread of {}", series.metric);
        let kind = if sd < 0.0 {
            ProblemKind::Negative { what, value: sd }
        } else {
            ProblemKind::NotFinite { what, text: sd.to_string() }
        };
        Err(Problem { line: series.line, kind })
    };
    Ok(match &series.data {
        Data::Runs { values, .. } if values.is_empty() => {
            let kind = ProblemKind::NoFigures(format!("; {} has no run", series.metric));
            return Err(Problem { line: series.line, kind });
        }
        Data::Runs { values, blocks } => {
            let resolution = values.iter().map(|value| last_digit(*value)).fold(f64::MAX, f64::min);
            let values = values.iter().map(|value| check(*value)).collect::<Result<_, _>>()?;
            (ImportedFigures::Runs { values, blocks: blocks.clone() }, resolution * factor)
        }
        // The mean of one run is that run's figure.
        Data::Mean { mean, sd: None, n: Some(1) } => {
            let values = vec![check(*mean)?];
            (ImportedFigures::Runs { values, blocks: Vec::new() }, last_digit(*mean) * factor)
        }
        Data::Mean { mean, sd, n } => {
            let sd = sd.map(spread).transpose()?;
            let n = n.or(runs);
            (ImportedFigures::Mean { mean: check(*mean)?, sd, n }, last_digit(*mean) * factor)
        }
        Data::Error { mean, error } => {
            let error = spread(*error)?;
            let sd = runs.map(|runs| error * (runs as f64).sqrt());
            let figures = ImportedFigures::Mean { mean: check(*mean)?, sd, n: runs };
            (figures, last_digit(*mean) * factor)
        }
    })
}

/// The weight of the last digit of a number in its shortest notation.
fn last_digit(value: f64) -> f64 {
    let text = value.to_string();
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    0.1f64.powi(decimals as i32)
}

/// Adds figures to those of the same metric and variant; `None` if the two cannot be joined.
fn join(place: &mut Option<ImportedFigures>, more: ImportedFigures) -> Option<()> {
    match (place.as_mut(), more) {
        (None, figures) => *place = Some(figures),
        (
            Some(ImportedFigures::Runs { values, blocks }),
            ImportedFigures::Runs { values: more, blocks: their_blocks },
        ) => {
            values.extend(more);
            blocks.extend(their_blocks);
        }
        _ => return None,
    }
    Some(())
}

/// The note that the number of runs behind a mean is unknown, if it is.
fn unknown_numbers(import: &ImportPlan, runs: Option<u64>) -> Option<Omission> {
    let unknown =
        |figures: &ImportedFigures| matches!(figures, ImportedFigures::Mean { n: None, .. });
    let any = import.metrics.iter().flat_map(|metric| &metric.figures).flatten().any(unknown);
    let why = "the file does not give it; if you know it, say --runs N";
    (any && runs.is_none()).then(|| Omission::new("the number of runs", why))
}

fn place(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

/// Makes a variant the baseline.
fn put_first(name: &str, variants: &mut [String], import: &mut ImportPlan) -> Result<(), Problem> {
    let Some(at) = variants.iter().position(|variant| variant == name) else {
        let why = format!("--baseline {name}: there are only '{}'", variants.join("', '"));
        return Err(Problem::whole(ProblemKind::Senseless(why)));
    };
    variants[..=at].rotate_right(1);
    for metric in &mut import.metrics {
        metric.figures[..=at].rotate_right(1);
    }
    Ok(())
}

/// The primary metric: the metric asked for, else elapsed time, else the first metric.
fn primary_of(import: &ImportPlan, name: Option<&str>) -> Result<MetricKey, Problem> {
    let keys = || import.metrics.iter().map(|metric| &metric.key);
    let Some(name) = name else {
        let wall = keys().find(|key| key.label() == "wall");
        return Ok(wall.or_else(|| keys().next()).expect("files have figures").clone());
    };
    let (wanted, _) = key_of(None, name);
    keys().find(|key| **key == wanted).cloned().ok_or_else(|| {
        let labels: Vec<String> = keys().map(MetricKey::label).collect();
        let why =
            format!("--primary {name}: there is no such metric; there are: {}", labels.join(", "));
        Problem::whole(ProblemKind::Senseless(why))
    })
}

/// The plan of a recording with figures and without runs.
fn plan(
    experiment: String,
    question: Option<String>,
    variants: &[String],
    primary: MetricKey,
    import: ImportPlan,
) -> Plan {
    let variant = |name: &String| VariantPlan {
        ops: None,
        name: printable(name),
        work: WorkPlan::Command { program: "".into(), argv: Vec::new(), line: printable(name) },
        env: Vec::new(),
        cwd: None,
        input: None,
        output: None,
        prepare: None,
        conclude: None,
        setup: None,
        cleanup: None,
        guest: None,
        revision: None,
        tree: None,
        scanned: BTreeMap::new(),
    };
    Plan {
        experiment,
        question,
        label: None,
        invocation: None,
        target: Target::Imported(import),
        variants: variants.iter().map(variant).collect(),
        pairs_of_variants: PairsOfVariants::Baseline,
        primary,
        events: Vec::new(),
        unavailable: Vec::new(),
        pairs: 0,
        fewest_pairs: 0,
        stop: StopPlan::default(),
        in_process: None,
        block: None,
        repeats_last: false,
        primary_if_busy: None,
        shards: None,
        warmup: 0,
        seed: 0,
        blocks: Vec::new(),
        timeout_ms: None,
        cpu: None,
        aslr: Aslr::Inherit,
        environment: EnvironmentPolicy::Inherit,
        show_output: false,
        ignore_failure: IgnoredStatuses::None,
        allow: Vec::new(),
        matches: Vec::new(),
        hooks: Hooks::default(),
    }
}

/// The name of a file without its extension.
pub fn stem(path: &Path) -> String {
    path.file_stem().map_or("imported".into(), |stem| stem.to_string_lossy().into_owned())
}
