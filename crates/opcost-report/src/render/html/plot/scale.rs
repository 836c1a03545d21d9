//! Scales from values to pixels, and the round numbers on them.

use opcost_stats::outliers::middle;

/// A scale that may be logarithmic is so from this ratio of the largest to the smallest value on.
const LOG_RATIO_MIN: f64 = 30.0;
/// Room at both ends, as a share of the scale.
const MARGIN: f64 = 0.04;
/// A hundredth of a value closer to 0 may be too small for numbers.
const TINY: f64 = 1e-290;
/// The most ticks of a scale.
const TICKS_MAX: usize = 8;

/// A scale of values along an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    kind: Kind,
}

/// How a scale divides the space between its ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Linear,
    /// Linear, over things that are counted: there is no tick between two of them.
    Places,
    Logarithmic,
}

/// The ends of the middle of some values, between which a plot shows them; a value beyond stands at the edge.
///
/// `also` are values that the scale must hold.
pub(super) fn shown(values: &[f64], also: &[f64]) -> Vec<f64> {
    let logarithmic =
        ends(values).is_some_and(|(low, high)| low > 0.0 && high / low >= LOG_RATIO_MIN);
    let middle = match logarithmic {
        // The suited scale of such values divides its space by ratios.
        true => {
            let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            middle(&logarithms).map(|(low, high)| (low.exp(), high.exp()))
        }
        false => middle(values),
    };
    let within = middle.into_iter().flat_map(|(low, high)| [low, high]);
    within.chain(also.iter().copied()).collect()
}

/// The values beyond a plot's scale, the farthest first; `linear` as the plot has its scale.
pub(in crate::render::html) fn outside(values: &[f64], also: &[f64], linear: bool) -> Vec<f64> {
    let held = shown(values, also);
    let of = if linear { Scale::linear } else { Scale::suited };
    let Some(scale) = of(&held, (0.0, 1.0)) else { return Vec::new() };
    let mut far: Vec<f64> =
        values.iter().copied().filter(|value| value.is_finite() && !scale.holds(*value)).collect();
    let middle = scale.value(0.5);
    far.sort_by(|one, two| (two - middle).abs().total_cmp(&(one - middle).abs()));
    far
}

impl Scale {
    /// Whether a value lies on the scale.
    pub(super) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// A linear scale that holds all finite values with some room around them.
    ///
    /// `pixels`: the positions of the lower and the upper end. `None` without a finite value, or if
    /// the span of the values overflows.
    pub(super) fn linear(values: &[f64], pixels: (f64, f64)) -> Option<Scale> {
        let (low, high) = ends(values)?;
        let room = match high - low {
            span if span > 0.0 => span * MARGIN,
            // A single value stands in the middle.
            _ if low.abs() < TINY => 1.0,
            _ => low.abs() * 0.01,
        };
        let (low, high) = (low - room, high + room);
        let (from, to) = pixels;
        let kind = Kind::Linear;
        (high - low).is_finite().then_some(Scale { low, high, from, to, kind })
    }

    /// A scale of places in an order, from the first to the last.
    pub(super) fn places(places: &[f64], (from, to): (f64, f64)) -> Option<Scale> {
        let (low, high) = ends(places)?;
        Some(Scale { low: low - 0.5, high: high + 0.5, from, to, kind: Kind::Places })
    }

    /// A scale that suits the values: logarithmic if all are above 0 and far apart.
    pub(super) fn suited(values: &[f64], pixels: (f64, f64)) -> Option<Scale> {
        let (low, high) = ends(values)?;
        if low <= 0.0 || high / low < LOG_RATIO_MIN {
            return Scale::linear(values, pixels);
        }
        let room = (high / low).powf(MARGIN);
        let (low, high) = (low / room, high * room);
        if low == 0.0 || high.is_infinite() {
            return Scale::linear(values, pixels);
        }
        Some(Scale { low, high, from: pixels.0, to: pixels.1, kind: Kind::Logarithmic })
    }

    /// The position of a value, in pixels; a value outside the scale is put at the nearer end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.kind == Kind::Logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self.from + share * (self.to - self.from)
    }

    /// Whether a value lies above the scale.
    pub(super) fn is_above(&self, value: f64) -> bool {
        value > self.high
    }

    /// The value at a share of the scale.
    pub(super) fn value(&self, share: f64) -> f64 {
        match self.kind {
            Kind::Logarithmic => self.low * (self.high / self.low).powf(share),
            Kind::Linear | Kind::Places => self.low + share * (self.high - self.low),
        }
    }

    /// The word for the scale in a plot.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Logarithmic => "logarithmic",
            Kind::Linear | Kind::Places => "linear",
        }
    }

    /// The round numbers on the scale, with their texts.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let mut ticks = match self.kind {
            Kind::Logarithmic => self.ticks_log(),
            Kind::Linear | Kind::Places => self.ticks_linear(),
        };
        // Ticks coincide if the step is too small for numbers of that size.
        ticks.dedup_by(|one, two| one.1 == two.1);
        ticks
    }

    fn ticks_linear(&self) -> Vec<(f64, String)> {
        let whole = self.kind == Kind::Places;
        let rough = (self.high - self.low) / 4.0;
        let mut exponent = rough.log10().floor() as i32;
        let multiple = match rough / 10f64.powi(exponent) {
            m if m < 1.5 => 1.0,
            m if m < 3.5 => 2.0,
            m if m < 7.5 => 5.0,
            _ => 10.0,
        };
        let multiple = if whole && exponent < 0 { 1.0 } else { multiple };
        if whole {
            exponent = exponent.max(0);
        }
        // Division by a whole power of ten makes a tick the number nearest to its text.
        let times = |count: f64| match exponent {
            0.. => count * multiple * 10f64.powi(exponent),
            _ => count * multiple / 10f64.powi(-exponent),
        };
        let step = times(1.0);
        let decimals = if multiple == 10.0 { -exponent - 1 } else { -exponent };
        let first = (self.low / step).ceil();
        (0..TICKS_MAX)
            .map(|index| times(first + index as f64))
            .take_while(|tick| *tick <= self.high)
            .map(|tick| (tick, written(tick, decimals.max(0) as usize)))
            .collect()
    }

    fn ticks_log(&self) -> Vec<(f64, String)> {
        let decades = (self.low.log10().ceil() as i32, self.high.log10().floor() as i32);
        let count = decades.1 - decades.0 + 1;
        let multiples: &[f64] = if count <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (count / TICKS_MAX as i32 + 1) as usize;
        (decades.0 - 1..=decades.1)
            .flat_map(|decade| multiples.iter().map(move |multiple| (decade, multiple)))
            .map(|(decade, multiple)| match decade {
                0.. => (decade, multiple * 10f64.powi(decade)),
                _ => (decade, multiple / 10f64.powi(-decade)),
            })
            .filter(|(_, tick)| (self.low..=self.high).contains(tick))
            .step_by(every)
            .map(|(decade, tick)| (tick, written(tick, (-decade).max(0) as usize)))
            .collect()
    }
}

/// The smallest and the largest finite value.
fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    finite.fold(None, |ends, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// A round number with separated thousands; the very large and the very small have an exponent.
fn written(value: f64, decimals: usize) -> String {
    let size = value.abs();
    if size != 0.0 && (size >= 1e12 || decimals > 9) {
        return format!("{value:e}").replace('-', "−");
    }
    let text = format!("{size:.decimals$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let whole = opcost_base::number::grouped(whole.parse().unwrap_or(0));
    let sign = if value < 0.0 { "−" } else { "" };
    format!("{sign}{whole}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ticks(scale: Option<Scale>) -> Vec<String> {
        scale.unwrap().ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_stand_at_round_numbers() {
        let linear = |values: &[f64]| ticks(Scale::linear(values, (0.0, 100.0)));
        assert_eq!(linear(&[0.0, 10.0]), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(linear(&[-1.0, 1.0]), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(linear(&[57.93, 58.21]), ["58.0", "58.1", "58.2"]);
        assert_eq!(linear(&[1_957_100.0, 1_957_900.0])[0], "1,957,200");
        assert_eq!(linear(&[0.0]), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(linear(&[1e15, 3e15]), ["1e15", "1.5e15", "2e15", "2.5e15", "3e15"]);
    }

    #[test]
    fn places_have_whole_ticks_none_before_the_first() {
        let texts = |values: &[f64]| ticks(Scale::places(values, (0.0, 9.0)));
        assert_eq!(texts(&[1.0, 2.0]), ["1", "2"]);
        assert_eq!(texts(&[1.0]), ["1"]);
        assert_eq!(texts(&[1.0, 88.0]), ["20", "40", "60", "80"]);
        assert_eq!(texts(&[1.0, 22.0]), ["5", "10", "15", "20"]);
    }

    #[test]
    fn what_is_far_apart_and_above_0_has_a_logarithmic_scale() {
        let suited = |values: &[f64]| Scale::suited(values, (0.0, 100.0)).unwrap();
        assert_eq!(suited(&[1.0, 29.0]).name(), "linear");
        assert_eq!(suited(&[0.0, 1e9]).name(), "linear");
        let log = suited(&[1.0, 100.0]);
        assert_eq!(log.name(), "logarithmic");
        assert!((log.at(10.0) - 50.0).abs() < 1e-9);
        assert_eq!(ticks(Some(log)), ["1", "10", "100"]);
        assert_eq!(ticks(Some(suited(&[0.1, 4.0]))), ["0.1", "0.2", "0.5", "1", "2"]);
        assert_eq!(ticks(Some(suited(&[0.002, 0.9]))), ["0.01", "0.1", "1"]);
    }

    #[test]
    fn no_value_is_no_scale_and_one_value_stands_in_the_middle() {
        assert_eq!(Scale::linear(&[], (0.0, 100.0)), None);
        assert_eq!(Scale::suited(&[f64::NAN, f64::INFINITY], (0.0, 100.0)), None);
        assert_eq!(Scale::linear(&[f64::MAX, f64::MIN], (0.0, 100.0)), None);
        for value in [0.0, 7.0, -7.0, 1e300, 5e-324] {
            let at = Scale::suited(&[value], (0.0, 100.0)).unwrap().at(value);
            assert!((at - 50.0).abs() < 1e-6, "{value} stands at {at}");
        }
    }

    proptest! {
        #[test]
        fn every_value_and_every_tick_lies_on_the_axis(
            values in prop::collection::vec(prop_oneof![-1e9..1e9f64, -1.0..1.0f64, 1e-9..1e9f64], 1..20),

        ) {
            for scale in [Scale::linear(&values, (10.0, 90.0)), Scale::suited(&values, (10.0, 90.0))] {
                let scale = scale.unwrap();
                let ticks = scale.ticks();
                prop_assert!(ticks.len() <= 2 * TICKS_MAX);
                let texts: std::collections::BTreeSet<&String> = ticks.iter().map(|(_, text)| text).collect();
                prop_assert_eq!(texts.len(), ticks.len(), "{:?}", ticks);
                for value in values.iter().copied().chain(ticks.into_iter().map(|(tick, _)| tick)) {
                    prop_assert!((10.0..=90.0).contains(&scale.at(value)));
                }
            }
        }
    }
}
