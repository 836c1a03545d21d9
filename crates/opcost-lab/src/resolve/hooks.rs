//! Commands around the runs: one for all variants, or one for each.

use super::scan::placeholder;
use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_model::experiment::{Experiment, Variant};

/// One kind of command around the runs.
struct Kind {
    flag: &'static str,
    all: fn(&mut Experiment) -> &mut Vec<String>,
    own: fn(&mut Variant) -> &mut Option<String>,
    /// Whether a variant's own command takes the place of the experiment's; else both run.
    replaces: bool,
}

const KINDS: [Kind; 4] = [
    Kind { flag: "--setup", all: |of| &mut of.setup, own: |of| &mut of.setup, replaces: false },
    Kind {
        flag: "--prepare",
        all: |of| &mut of.prepare,
        own: |of| &mut of.prepare,
        replaces: true,
    },
    Kind {
        flag: "--conclude",
        all: |of| &mut of.conclude,
        own: |of| &mut of.conclude,
        replaces: true,
    },
    Kind {
        flag: "--cleanup",
        all: |of| &mut of.cleanup,
        own: |of| &mut of.cleanup,
        replaces: false,
    },
];

/// Gives each variant its own commands where the experiment has one for each variant, or one that names a scanned parameter.
/// A command without words is none.
///
/// # Errors
/// The commands of a kind are neither one nor as many as the variants.
pub(super) fn distribute(experiment: &Experiment) -> Result<Experiment> {
    let mut given = experiment.clone();
    for Kind { flag, all, own, replaces } in &KINDS {
        let lines = std::mem::take(all(&mut given));
        let variants = given.variants.len();
        match &lines[..] {
            [] => {}
            [line] => {
                let is_scanned =
                    given.scan.iter().any(|scan| line.contains(&placeholder(&scan.name)));
                let has_own = given.variants.iter_mut().any(|variant| own(variant).is_some());
                if is_scanned || *replaces && has_own {
                    for variant in &mut given.variants {
                        own(variant).get_or_insert_with(|| line.clone());
                    }
                } else if !line.trim().is_empty() {
                    *all(&mut given) = lines;
                }
            }
            _ if lines.len() == variants => {
                for (variant, line) in given.variants.iter_mut().zip(lines) {
                    own(variant).get_or_insert(line);
                }
            }
            _ => {
                let why = format!(
                    "{} {flag} for {variants} variants; give it once for all, or once for each",
                    lines.len()
                );
                return Err(fail(Status::Usage, why));
            }
        }
        for variant in &mut given.variants {
            let own = own(variant);
            *own = own.take().filter(|line| !line.trim().is_empty());
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_model::experiment::{Scalar, Scan};

    fn experiment(lines: &[&str], own: &[Option<&str>]) -> Experiment {
        let variant = |own: &Option<&str>| Variant {
            conclude: own.map(str::to_string),
            cleanup: own.map(str::to_string),
            ..Variant::default()
        };
        let lines: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
        Experiment {
            conclude: lines.clone(),
            cleanup: lines,
            variants: own.iter().map(variant).collect(),
            ..Experiment::default()
        }
    }

    /// The commands for all variants and for each, by kind.
    fn distributed(asked: &Experiment) -> [String; 2] {
        let given = distribute(asked).unwrap();
        let own = |of: fn(&Variant) -> &Option<String>| {
            let texts = given.variants.iter().map(|variant| of(variant).as_deref().unwrap_or("-"));
            texts.collect::<Vec<_>>().join(" ")
        };
        [
            format!("{:?} {}", given.conclude, own(|of| &of.conclude)),
            format!("{:?} {}", given.cleanup, own(|of| &of.cleanup)),
        ]
    }

    #[test]
    fn one_is_for_all_and_several_are_for_each() {
        for (lines, own, conclude, cleanup) in [
            (&["a"][..], [None, None], r#"["a"] - -"#, r#"["a"] - -"#),
            (&["a"], [None, Some("b")], r#"[] a b"#, r#"["a"] - b"#),
            (&["a"], [None, Some("")], r#"[] a -"#, r#"["a"] - -"#),
            (&["a", ""], [None, None], "[] a -", "[] a -"),
            (&["a", "c"], [None, Some("b")], "[] a b", "[] a b"),
            (&[""], [None, None], "[] - -", "[] - -"),
        ] {
            assert_eq!(distributed(&experiment(lines, &own)), [conclude, cleanup], "{lines:?}");
        }
    }

    #[test]
    fn a_command_that_names_a_parameter_is_for_each() {
        let mut asked = experiment(&["a {n}"], &[None, Some("b")]);
        let values = vec![Scalar::Integer(1)];
        asked.scan = vec![Scan { name: "n".into(), values, ..Scan::default() }];
        assert_eq!(distributed(&asked), ["[] a {n} b"; 2]);
    }

    #[test]
    fn another_number_is_refused() {
        let asked = experiment(&["a", "b"], &[None; 3]);
        let said = distribute(&asked).unwrap_err().to_string();
        assert_eq!(said, "2 --conclude for 3 variants; give it once for all, or once for each");
    }
}
