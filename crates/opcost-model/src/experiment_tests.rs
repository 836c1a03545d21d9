//! Experiments read, changed and written back.

use super::*;
use opcost_record::printable::is_obeyed;

fn read(text: &str, sets: &[&str]) -> Result<Experiment> {
    let file = tempfile::Builder::new().prefix("exp").suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    Experiment::read(file.path(), &sets, &Experiment::default())
}

const TWO: &str = "pairs = 4\n[[variant]]\nname = 'off'\nworkload = 'syscall'\n\
                   [[variant]]\nname = 'on'\nworkload = 'syscall'\nparams = { seccomp = true }\n";

#[test]
fn a_file_is_read_and_written_back() {
    let experiment = read(TWO, &[]).unwrap();
    assert_eq!(experiment.pairs, Some(4));
    assert_eq!(experiment.variants[1].params["seccomp"].text(), "on");
    let again = read(&experiment.to_toml().unwrap(), &[]).unwrap();
    assert_eq!(again, experiment);
}

proptest::proptest! {
    #[test]
    fn a_written_file_has_every_text_and_no_character_that_acts(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..12),
    ) {
        let text = pieces.concat();
        let mut experiment = read(TWO, &[]).unwrap();
        experiment.variants[0].env = BTreeMap::from([(format!("A{text}"), text.clone())]);
        experiment.question = Some(text);
        let written = experiment.to_toml().unwrap();
        assert!(!written.chars().any(|char| is_obeyed(char) && !['\n', '\t'].contains(&char)), "{written}");
        let again: Experiment = toml::from_str(&written).unwrap();
        assert_eq!(again, experiment);
    }
}

/// Pieces of texts that a file of TOML writes in different ways.
const PIECES: &[&str] = &[
    "a",
    "\u{202e}",
    "\u{2028}",
    "\u{feff}",
    "\u{e0041}",
    "\u{9b}",
    "\x1b[2J",
    "'",
    "''",
    "'''",
    "\"",
    "\"\"\"",
    "\\",
    "\\u202e",
    "\n",
    "\r",
    "\t",
    "#",
    "=",
    " ",
    "ä",
];

#[test]
fn set_reaches_fields_variants_and_parameters() {
    let sets = [
        "pairs=10",
        "primary=task-clock",
        "variant.on.params.ops=5",
        "variant.0.params.ops=6",
        "timeout=2s",
    ];
    let experiment = read(TWO, &sets).unwrap();
    assert_eq!(experiment.pairs, Some(10));
    assert_eq!(experiment.primary.as_deref(), Some("task-clock"));
    assert_eq!(experiment.variants[1].params["ops"].text(), "5");
    assert_eq!(experiment.variants[0].params["ops"].text(), "6");
    assert_eq!(experiment.timeout.unwrap().limit_ms, 2000);
}

#[test]
fn errors_name_line_column_and_what_was_expected() {
    let error = format!("{:#}", read("pairs = 4\npairz = 5\n", &[]).unwrap_err());
    assert!(error.contains("line 2, column 1"), "{error}");
    assert!(error.contains("unknown field `pairz` (did you mean pairs?)"), "{error}");
    let error = format!("{:#}", read("pairs = 'many'\n", &[]).unwrap_err());
    assert!(error.contains("line 1, column 9"), "{error}");
    assert!(error.contains("expected u32"), "{error}");
    let error = format!("{:#}", read("pairs = \n", &[]).unwrap_err());
    assert!(error.contains("line 1"), "{error}");
    let error = format!("{:#}", read(TWO, &["pairz=3"]).unwrap_err());
    assert!(error.contains("--set pairz=3: unknown field `pairz`"), "{error}");
    let error = format!("{:#}", read(TWO, &["variant.maybe.params.ops=1"]).unwrap_err());
    assert!(error.contains("no variant 'maybe'; there are: off, on"), "{error}");
    let error = format!("{:#}", read("timeout = '0s'\n", &[]).unwrap_err());
    assert!(error.contains("out of range"), "{error}");
}

#[test]
fn time_limits_are_read() {
    for (text, limit_ms) in [("30s", 30_000), ("1500ms", 1500), ("2m", 120_000), ("0.5", 500)] {
        assert_eq!(text.parse::<TimeLimit>().unwrap().limit_ms, limit_ms);
    }
    for text in ["", "s", "5 parsecs", "-1s", "nan"] {
        assert!(text.parse::<TimeLimit>().is_err(), "{text}");
    }
}
