//! Published claims, recomputed: whether each follows from the figures published with it, and whether these figures show a change.

use super::imported::{WelchRow, t_text};
use super::{Figures, Row, Verdict};
use opcost_base::number::percent;
use opcost_model::plan::{Claim, Formula, ImportPlan, Plan};
use serde::Serialize;

/// One published claim and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimRow {
    /// The metric.
    pub metric: String,
    /// The variant.
    pub variant: String,
    /// The figure as published.
    pub published: String,
    /// The figure recomputed; `None` if the published figures do not give it.
    pub recomputed: Option<f64>,
    /// Whether the claim holds.
    pub outcome: ClaimOutcome,
    /// The reason in words.
    pub reason: String,
}

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimOutcome {
    /// The claim follows from the figures, and the figures show a change. A formula only has to follow.
    Holds,
    /// The claim follows, but the figures are no evidence of a change.
    NotShown,
    /// The claim follows, but the figures cannot tell whether there is a change.
    CannotTell,
    /// The figures give another result.
    DoesNotFollow,
}

impl ClaimOutcome {
    /// The outcome in a word or three.
    pub fn words(self) -> &'static str {
        match self {
            ClaimOutcome::Holds => "holds",
            ClaimOutcome::NotShown => "not shown",
            ClaimOutcome::CannotTell => "cannot be told",
            ClaimOutcome::DoesNotFollow => "does not follow",
        }
    }
}

/// Recomputes every claim and formula.
pub(super) fn claims(
    import: &ImportPlan,
    plan: &Plan,
    rows: &[Row],
    welch: &[WelchRow],
) -> Vec<ClaimRow> {
    let table = Table { import, plan, rows, welch };
    let changes = import.claims.iter().map(|claim| table.change(claim));
    let formulas = import.formulas.iter().flat_map(|formula| table.formula(formula));
    changes.chain(formulas).collect()
}

struct Table<'a> {
    import: &'a ImportPlan,
    plan: &'a Plan,
    rows: &'a [Row],
    welch: &'a [WelchRow],
}

impl Table<'_> {
    /// Index of a metric by the name that the file gives it.
    fn metric(&self, name: &str) -> Option<usize> {
        let wanted = opcost_record::MetricRow::find(name).map_or(name, |row| row.name);
        self.import.metrics.iter().position(|metric| metric.key.label() == wanted)
    }

    /// The figure of a metric and a variant in the file's unit.
    fn written(&self, metric: usize, variant: usize) -> Option<f64> {
        let figures = self.rows[metric].values[variant].as_ref()?;
        Some(figures.center() / self.import.metrics[metric].factor)
    }

    /// How far rounding may have shifted a figure, as a share of the figure.
    fn rounding(&self, metric: usize, variant: usize) -> f64 {
        let metric_plan = &self.import.metrics[metric];
        self.written(metric, variant)
            .filter(|value| *value != 0.0)
            .map_or(0.0, |value| 0.5 * metric_plan.resolution / metric_plan.factor / value.abs())
    }

    fn change(&self, claim: &Claim) -> ClaimRow {
        let published =
            format!("{} %", format!("{:+.*}", claim.decimals, claim.percent).replace('-', "−"));
        let mut made = ClaimRow {
            metric: claim.metric.clone(),
            variant: claim.variant.clone(),
            published,
            recomputed: None,
            outcome: ClaimOutcome::DoesNotFollow,
            reason: "the table has no figures for it".into(),
        };
        let variant = self.plan.variants.iter().position(|variant| variant.name == claim.variant);
        let comparison = variant
            .and_then(|variant| self.plan.comparisons().iter().position(|pair| pair.1 == variant));
        let (Some(metric), Some(variant), Some(comparison)) =
            (self.metric(&claim.metric), variant, comparison)
        else {
            return made;
        };
        let change = &self.rows[metric].changes[comparison];
        let (baseline, _) = self.plan.comparisons()[comparison];
        let centers = [baseline, variant]
            .map(|side| self.rows[metric].values[side].as_ref().map(Figures::center));
        let [Some(one), Some(two)] = centers else { return made };
        if one == 0.0 {
            return made;
        }
        let ratio = two / one - 1.0;
        made.recomputed = Some(ratio);
        let last = 0.1f64.powi(claim.decimals as i32);
        let rounding = self.rounding(metric, baseline) + self.rounding(metric, variant);
        let allowed = last + 100.0 * rounding * (1.0 + ratio);
        // The factor allows for the last bit of a difference of two decimal numbers.
        if (100.0 * ratio - claim.percent).abs() > allowed * (1.0 + 1e-9) {
            made.reason = format!("the figures give {}", percent(ratio));
            return made;
        }
        let label = &self.rows[metric].label;
        let t = self.welch.iter().find(|row| row.label == *label && row.comparison == comparison);
        let t = t.map_or(String::new(), |row| format!("Welch's t {}", t_text(row.t)));
        (made.outcome, made.reason) = match change.verdict {
            Verdict::Changed => (ClaimOutcome::Holds, t),
            Verdict::Unchanged => {
                let would = change.mde_ratio.map(|mde| {
                    format!("{} or more would have been found", opcost_base::number::magnitude(mde))
                });
                let parts = [Some(t).filter(|t| !t.is_empty()), would];
                (ClaimOutcome::NotShown, parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
            }
            _ => {
                let t = if t.is_empty() { t } else { format!(" ({t})") };
                (ClaimOutcome::CannotTell, format!("{}{t}", change.reason))
            }
        };
        made
    }

    /// Compares each variant's figure with the result of the formula.
    fn formula(&self, formula: &Formula) -> Vec<ClaimRow> {
        let mut found = Vec::new();
        for (variant, plan) in self.plan.variants.iter().enumerate() {
            let Some(metric) = self.metric(&formula.metric) else { continue };
            let Some(value) = self.written(metric, variant) else { continue };
            let Some((result, rounding)) = self.evaluate(formula, variant) else { continue };
            let resolution =
                self.import.metrics[metric].resolution / self.import.metrics[metric].factor;
            let allowed = resolution + rounding * result.abs();
            let follows = (result - value).abs() <= allowed * (1.0 + 1e-9);
            let decimals = (-resolution.log10()).round().max(0.0) as usize;
            found.push(ClaimRow {
                metric: formula.metric.clone(),
                variant: plan.name.clone(),
                published: format!("{value:.decimals$}"),
                recomputed: Some(result),
                outcome: if follows { ClaimOutcome::Holds } else { ClaimOutcome::DoesNotFollow },
                reason: if follows {
                    format!("follows from {}", in_words(formula))
                } else {
                    format!("{} gives {result:.*}", in_words(formula), decimals)
                },
            });
        }
        found
    }

    /// The result of a formula, and the share by which rounding may have shifted it.
    fn evaluate(&self, formula: &Formula, variant: usize) -> Option<(f64, f64)> {
        let mut result = formula.factor;
        let mut rounding = 0.0;
        for (names, under) in [(&formula.over, false), (&formula.under, true)] {
            for name in names {
                let metric = self.metric(name)?;
                let value =
                    self.written(metric, variant).filter(|value| !under || *value != 0.0)?;
                result = if under { result / value } else { result * value };
                rounding += self.rounding(metric, variant);
            }
        }
        Some((result, rounding))
    }
}

/// The formula without its constant, which only converts units.
fn in_words(formula: &Formula) -> String {
    let over = formula.over.join(" · ");
    if formula.under.is_empty() { over } else { format!("{over} / {}", formula.under.join(" / ")) }
}
