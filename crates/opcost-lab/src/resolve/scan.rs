//! Scans: one variant for each value of a parameter that a command, workload or hook names as `{NAME}`.

use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_model::experiment::{Command, Experiment, Scalar, Scan, Variant};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The largest number of values of one parameter.
const VALUES_MAX: i128 = 10_000;

/// Replaces the scans of an experiment by a variant for each combination of the values that a variant names. The parameter given
/// last varies fastest.
///
/// # Errors
/// A scan without values, a scan that nothing names, two scans of one name, or a place that all variants share.
pub(super) fn spread(experiment: &Experiment) -> Result<Experiment> {
    let mut spread = Experiment { scan: Vec::new(), ..experiment.clone() };
    if experiment.scan.is_empty() {
        return Ok(spread);
    }
    let mut scans: Vec<(&str, Vec<String>)> = Vec::new();
    for scan in &experiment.scan {
        if scans.iter().any(|(name, _)| *name == scan.name) {
            return Err(usage(format!("parameter '{}' is scanned twice; keep one", scan.name)));
        }
        scans.push((&scan.name, values(scan)?));
    }
    if let Some(line) = &experiment.rebuild
        && let Some((name, _)) = scans.iter().find(|(name, _)| line.contains(&placeholder(name)))
    {
        let why = format!(
            "--rebuild names {{{name}}}, but it is the same for all variants; name the parameter in \
             commands, workloads, --prepare, --input, --output, --boot, or env of a variant"
        );
        return Err(usage(why));
    }
    let mut used = vec![false; scans.len()];
    let mut variants = Vec::new();
    for template in &experiment.variants {
        let mut template = template.clone();
        if let [input] = &experiment.input[..] {
            template.input.get_or_insert_with(|| input.clone());
        }
        if let [output] = &experiment.output[..] {
            template.output.get_or_insert_with(|| output.clone());
        }
        let mut made = vec![template];
        for (index, (name, values)) in scans.iter().enumerate() {
            if !names(&made[0], name) {
                continue;
            }
            used[index] = true;
            let each = |variant: &Variant| {
                let with = |value: &String| with_value(variant, name, value);
                values.iter().map(with).collect::<Vec<_>>()
            };
            made = made.iter().flat_map(each).collect();
        }
        variants.extend(made);
    }
    if let Some(unused) = used.iter().position(|used| !used) {
        let name = scans[unused].0;
        let why = format!("nothing names {{{name}}}: write it where its values are to stand");
        return Err(usage(why));
    }
    spread.variants = variants;
    Ok(spread)
}

fn usage(why: String) -> anyhow::Error {
    fail(Status::Usage, why)
}

pub(super) fn placeholder(name: &str) -> String {
    format!("{{{name}}}")
}

/// The texts of a variant, except its name, that may name a parameter.
fn texts(variant: &mut Variant) -> Vec<&mut String> {
    let mut texts: Vec<&mut String> = Vec::new();
    match &mut variant.command {
        Some(Command::Line(line)) => texts.push(line),
        Some(Command::Argv(words)) => texts.extend(words),
        Some(Command::Words(_)) | None => {}
    }
    for value in variant.params.values_mut() {
        if let Scalar::Text(text) = value {
            texts.push(text);
        }
    }
    texts.extend(variant.env.values_mut());
    texts.extend(variant.prepare.as_mut());
    texts.extend(variant.conclude.as_mut());
    texts.extend(variant.setup.as_mut());
    texts.extend(variant.cleanup.as_mut());
    texts.extend(variant.input.as_mut());
    texts.extend(variant.output.as_mut());
    texts.extend(variant.boot.as_mut());
    texts.extend(variant.cpu_model.as_mut());
    texts.extend(variant.like.as_mut());
    texts
}

fn names(variant: &Variant, name: &str) -> bool {
    let placeholder = placeholder(name);
    let mut variant = variant.clone();
    let in_words = match &variant.command {
        Some(Command::Words(words)) => words.iter().any(|word| {
            word.as_bytes().windows(placeholder.len()).any(|part| part == placeholder.as_bytes())
        }),
        _ => false,
    };
    in_words || texts(&mut variant).iter().any(|text| text.contains(&placeholder))
}

/// A variant with one value inserted for its parameter.
fn with_value(variant: &Variant, name: &str, value: &str) -> Variant {
    let placeholder = placeholder(name);
    let mut variant = variant.clone();
    for text in texts(&mut variant) {
        *text = text.replace(&placeholder, value);
    }
    if let Some(Command::Words(words)) = &mut variant.command {
        for word in words {
            *word = replaced(word, &placeholder, value);
        }
    }
    if let Some(given) = &mut variant.name {
        *given = match given.contains(&placeholder) {
            true => given.replace(&placeholder, value),
            false => format!("{given} {name}={value}"),
        };
    }
    variant.scanned.insert(name.to_string(), value.to_string());
    variant
}

/// Inserts a parameter's value in a word that is not UTF-8.
fn replaced(word: &OsString, placeholder: &str, value: &str) -> OsString {
    let (mut rest, mut made) = (word.as_bytes(), Vec::new());
    while !rest.is_empty() {
        match rest.strip_prefix(placeholder.as_bytes()) {
            Some(behind) => {
                made.extend(value.as_bytes());
                rest = behind;
            }
            None => {
                made.push(rest[0]);
                rest = &rest[1..];
            }
        }
    }
    OsString::from_vec(made)
}

/// The values of a scan, as texts.
fn values(scan: &Scan) -> Result<Vec<String>> {
    let name = &scan.name;
    if name.is_empty() || name.contains(['{', '}']) {
        let why =
            format!("a parameter '{name}' cannot be named as {{NAME}}; use letters and digits");
        return Err(usage(why));
    }
    let of = |why: &str| usage(format!("parameter '{name}': {why}"));
    let (min, max) = match (&scan.min, &scan.max) {
        (None, None) if scan.step.is_none() && !scan.values.is_empty() => {
            return Ok(scan.values.iter().map(Scalar::text).collect());
        }
        (Some(min), Some(max)) if scan.values.is_empty() => (min, max),
        _ => return Err(of("give a list of values, or a smallest and a greatest one")),
    };
    let number = |scalar: &Scalar| {
        let text = scalar.text();
        decimal(&text)
            .ok_or_else(|| of(&format!("'{text}' is no decimal number that opcost can step")))
    };
    let step = scan.step.as_ref().map_or(Ok((1, 0)), number)?;
    let (min, max) = (number(min)?, number(max)?);
    let shown = min.1.max(step.1);
    let decimals = shown.max(max.1);
    let whole = |(digits, own): (i128, u32)| digits * 10i128.pow(decimals - own);
    let (first, last, step) = (whole(min), whole(max), whole(step));
    if step <= 0 {
        return Err(of("the step must be greater than 0"));
    }
    if first > last {
        return Err(of("the smallest value is greater than the greatest; exchange them"));
    }
    let count = (last - first) / step + 1;
    if count > VALUES_MAX {
        return Err(of(&format!("{count} values; the most is {VALUES_MAX}: take a greater step")));
    }
    Ok((0..count).map(|index| text(first + index * step, decimals, shown)).collect())
}

/// A decimal number as an integer and its number of decimals, which makes steps exact.
fn decimal(text: &str) -> Option<(i128, u32)> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{part}");
    let plain =
        !whole.is_empty() && all.len() <= 18 && all.bytes().all(|byte| byte.is_ascii_digit());
    let number: i128 = all.parse().ok().filter(|_| plain)?;
    Some((sign * number, part.len() as u32))
}

/// The number `number · 10^-decimals`, written with `shown` decimals.
fn text(number: i128, decimals: u32, shown: u32) -> String {
    let number = number / 10i128.pow(decimals - shown);
    let unit = 10i128.pow(shown);
    let sign = if number < 0 { "-" } else { "" };
    let (whole, part) = (number.abs() / unit, number.abs() % unit);
    match shown {
        0 => format!("{sign}{whole}"),
        shown => format!("{sign}{whole}.{part:0width$}", width = shown as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listed(name: &str, values: &[&str]) -> Scan {
        let values = values.iter().map(|value| Scalar::Text((*value).into())).collect();
        Scan { name: name.into(), values, ..Scan::default() }
    }

    fn stepped(min: &str, max: &str, step: Option<&str>) -> Scan {
        let scalar = |text: &str| Some(Scalar::Text(text.into()));
        let (min, max, step) = (scalar(min), scalar(max), step.and_then(scalar));
        Scan { name: "n".into(), min, max, step, ..Scan::default() }
    }

    fn experiment(commands: &[&str], scan: Vec<Scan>) -> Experiment {
        let variant = |line: &&str| Variant {
            command: Some(Command::Line((*line).into())),
            ..Variant::default()
        };
        let variants = commands.iter().map(variant).collect();
        Experiment { variants, scan, ..Experiment::default() }
    }

    fn lines(experiment: &Experiment) -> Vec<String> {
        let line = |variant: &Variant| match &variant.command {
            Some(Command::Line(line)) => line.clone(),
            other => format!("{other:?}"),
        };
        spread(experiment).unwrap().variants.iter().map(line).collect()
    }

    fn refused(experiment: &Experiment) -> String {
        spread(experiment).unwrap_err().to_string()
    }

    #[test]
    fn each_combination_of_the_values_that_a_command_names_is_a_variant() {
        let scans = vec![listed("a", &["1", "2"]), listed("b", &["x", "y"])];
        let made = lines(&experiment(&["old", "f {a} {b}", "g {b}"], scans));
        assert_eq!(made, ["old", "f 1 x", "f 1 y", "f 2 x", "f 2 y", "g x", "g y"]);
    }

    #[test]
    fn steps_are_exact_decimals() {
        for (min, max, step, expected) in [
            ("0", "3", None, "0 1 2 3"),
            ("0.1", "0.5", Some("0.2"), "0.1 0.3 0.5"),
            ("-1", "1", Some("0.5"), "-1.0 -0.5 0.0 0.5 1.0"),
            ("1", "2.9", Some("1"), "1 2"),
            ("5", "5", None, "5"),
        ] {
            assert_eq!(values(&stepped(min, max, step)).unwrap().join(" "), expected);
        }
    }

    #[test]
    fn what_differs_is_noted_and_named() {
        let mut asked = experiment(&["f {n}"], vec![listed("n", &["1", "2"])]);
        asked.variants[0].name = Some("f".into());
        asked.variants[0].setup = Some("make {n}".into());
        let made = spread(&asked).unwrap().variants;
        assert_eq!(made[1].name.as_deref(), Some("f n=2"));
        assert_eq!(made[1].setup.as_deref(), Some("make 2"));
        assert_eq!(made[1].scanned["n"], "2");
        let words = vec![OsString::from_vec(b"\xff{n}".to_vec())];
        asked.variants[0].command = Some(Command::Words(words));
        let made = spread(&asked).unwrap().variants;
        let expected = Command::Words(vec![OsString::from_vec(b"\xff1".to_vec())]);
        assert_eq!(made[0].command, Some(expected));
    }

    #[test]
    fn what_cannot_be_scanned_is_named() {
        let asked = |scan: Scan| refused(&experiment(&["f {n}"], vec![scan]));
        assert!(asked(listed("n", &[])).contains("parameter 'n': give a list of values"));
        assert!(asked(listed("m", &["1"])).contains("nothing names {m}"));
        assert!(asked(stepped("1", "2", Some("0"))).contains("greater than 0"));
        assert!(asked(stepped("1", "2", Some("-1"))).contains("greater than 0"));
        assert!(asked(stepped("3", "2", None)).contains("exchange them"));
        assert!(asked(stepped("a", "2", None)).contains("'a' is no decimal number"));
        assert!(asked(stepped("0", "10000", None)).contains("10001 values; the most is 10000"));
        assert!(asked(listed("", &["1"])).contains("cannot be named"));
        let twice = vec![listed("n", &["1"]), listed("n", &["2"])];
        assert!(refused(&experiment(&["f {n}"], twice)).contains("scanned twice"));
        let mut shared = experiment(&["f {n}"], vec![listed("n", &["1"])]);
        shared.rebuild = Some("make {n}".into());
        assert!(refused(&shared).contains("--rebuild names {n}"));
    }

    proptest! {
        #[test]
        fn every_step_is_as_far_as_the_last(first in -999i32..999, step in 1i32..99, decimals in 0u32..4) {
            let of = |number: i32| text(number.into(), decimals, decimals);
            let scan = stepped(&of(first), &of(first + 7 * step), Some(&of(step)));
            let made = values(&scan).unwrap();
            let expected: Vec<String> = (0..8).map(|index| of(first + index * step)).collect();
            prop_assert_eq!(made, expected);
        }
    }
}
