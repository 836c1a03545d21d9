//! Units as other tools write them.

use opcost_record::Unit;

/// The unit of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The unit after conversion; [`Unit::Count`] for everything that is neither a time nor a size.
    pub unit: Unit,
    /// The factor from the written unit to [`Measure::unit`].
    pub factor: f64,
    /// The unit as written, if opcost does not know it: `K/s`, `%CPU`.
    pub written: Option<String>,
}

/// Every unit that opcost converts, with its factor.
const UNITS: &[(&[&str], Unit, f64)] = &[
    (&["ns", "nsec", "nsecs", "nanoseconds"], Unit::Ns, 1.0),
    (&["us", "µs", "μs", "usec", "usecs", "microseconds"], Unit::Ns, 1e3),
    (&["ms", "msec", "msecs", "milliseconds"], Unit::Ns, 1e6),
    (&["s", "sec", "secs", "seconds"], Unit::Ns, 1e9),
    (&["min", "minutes"], Unit::Ns, 60e9),
    (&["B", "bytes"], Unit::Bytes, 1.0),
    (&["kB"], Unit::Bytes, 1e3),
    (&["KiB"], Unit::Bytes, 1024.0),
    (&["MB"], Unit::Bytes, 1e6),
    (&["MiB"], Unit::Bytes, 1_048_576.0),
    (&["GiB"], Unit::Bytes, 1_073_741_824.0),
    (&["", "1", "count"], Unit::Count, 1.0),
];

impl Measure {
    /// The measure of a written unit; an unknown unit is kept as written.
    pub fn of(written: &str) -> Measure {
        let written = written.trim();
        match UNITS.iter().find(|(names, _, _)| names.contains(&written)) {
            Some((_, unit, factor)) => Measure { unit: *unit, factor: *factor, written: None },
            None => Measure { unit: Unit::Count, factor: 1.0, written: Some(written.to_string()) },
        }
    }

    /// Whether converted figures of both measures can be compared.
    pub fn fits(&self, other: &Measure) -> bool {
        self.unit == other.unit && self.written == other.written
    }

    /// The unit after conversion, in words.
    pub fn name(&self) -> &str {
        match (&self.written, self.unit) {
            (Some(written), _) => written,
            (None, Unit::Ns) => "a time",
            (None, Unit::Bytes) => "bytes",
            (None, _) => "a count",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_converted_or_kept() {
        let of = |written| {
            let measure = Measure::of(written);
            (measure.unit, measure.factor, measure.written)
        };
        assert_eq!(of("msec"), (Unit::Ns, 1e6, None));
        assert_eq!(of("µs"), (Unit::Ns, 1e3, None));
        assert_eq!(of("MiB"), (Unit::Bytes, 1_048_576.0, None));
        assert_eq!(of(" "), (Unit::Count, 1.0, None));
        assert_eq!(of("K/s"), (Unit::Count, 1.0, Some("K/s".into())));
        assert!(Measure::of("s").fits(&Measure::of("ns")));
        assert!(!Measure::of("s").fits(&Measure::of("")));
        assert!(!Measure::of("K/s").fits(&Measure::of("M/s")));
    }
}
