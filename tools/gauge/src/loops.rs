//! The table of loops that measure the cost of one instruction; `kernels/loops.c` fills it at link time.

use crate::kernel;
use opcost_record::gauge::Measured;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};

/// Bits of `needs`, as in `kernels/loops.c`.
const NEEDS_L3: u64 = 1;
const NEEDS_V3: u64 = 2;
const NEEDS_AES: u64 = 4;
const NEEDS_SHA: u64 = 8;

/// The length of a loop's long run, in short runs.
pub(crate) const LONG: u64 = 3;

/// A row of the table, as in `kernels/loops.c`.
#[repr(C)]
struct Row {
    key: *const c_char,
    less: *const c_char,
    times: u64,
    needs: u64,
    iterations: u64,
    operations: u64,
    minus: u64,
    run: extern "C" fn(u64),
}

unsafe extern "C" {
    static __start_gauge_loops: Row;
    static __stop_gauge_loops: Row;
}

/// A loop that measures one figure.
pub(crate) struct Loop {
    /// The name of the figure, explained in `kernels/loops.c`.
    pub(crate) key: String,
    /// The key of a loop whose figure is subtracted.
    less: Option<String>,
    /// The factor applied to the difference.
    times: u64,
    needs: u64,
    iterations: u64,
    operations: u64,
    /// Cycles of an operation that other instructions of its chain take.
    minus: u64,
    run: extern "C" fn(u64),
}

impl Loop {
    /// Puts caches and registers into the state that the loop expects; not timed.
    pub(crate) fn before(&self) {
        kernel::clear_uppers();
        if self.needs & NEEDS_L3 != 0 {
            kernel::warm_l3();
        }
    }

    /// Runs the loop once; the run is `times` as long as the shortest one.
    #[inline(always)]
    pub(crate) fn run(&self, times: u64) {
        (self.run)(times * self.iterations);
    }

    /// The cycles of one operation, by the difference between a short run and a run that is [`LONG`] times as long: the cost of the
    /// code around the loop is in both.
    pub(crate) fn of_one(&self, short: Measured, long: Measured) -> Measured {
        let operations = (LONG - 1) * self.iterations * self.operations;
        let of_one = |(short, long): (u64, u64)| {
            (long.saturating_sub(short) / operations).saturating_sub(self.minus * 1000)
        };
        Measured {
            kept: short.kept.min(long.kept),
            taken: short.taken.min(long.taken),
            cycles_milli: short.cycles_milli.zip(long.cycles_milli).map(of_one),
        }
    }

    /// Whether this CPU can run the loop.
    fn runs_here(&self) -> bool {
        let aes = || is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq");
        (self.needs & NEEDS_V3 == 0 || kernel::has_v3())
            && (self.needs & NEEDS_AES == 0 || aes())
            && (self.needs & NEEDS_SHA == 0 || is_x86_feature_detected!("sha"))
    }
}

/// The loops that this CPU can run.
pub(crate) fn all() -> Vec<Loop> {
    // SAFETY: the section is an array of rows, which C wrote with the same layout, between the two symbols.
    let rows = unsafe {
        let (start, stop) = (&raw const __start_gauge_loops, &raw const __stop_gauge_loops);
        std::slice::from_raw_parts(start, stop.offset_from(start) as usize)
    };
    rows.iter().map(of_row).filter(Loop::runs_here).collect()
}

fn of_row(row: &Row) -> Loop {
    let text = |text: *const c_char| {
        // SAFETY: each is null or a literal of C, which ends with a zero byte and lives as long as the program.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    Loop {
        key: text(row.key).unwrap_or_default(),
        less: text(row.less),
        times: row.times,
        needs: row.needs,
        iterations: row.iterations,
        operations: row.operations,
        minus: row.minus,
        run: row.run,
    }
}

/// Subtracts figures of `less` from those of their loops. If either is missing, the result is missing.
pub(crate) fn combine(
    loops: &[Loop],
    measured: Vec<(String, Measured)>,
) -> Vec<(String, Measured)> {
    let figures: BTreeMap<String, Option<u64>> =
        measured.iter().map(|(key, figures)| (key.clone(), figures.cycles_milli)).collect();
    let mut combined = measured;
    for (it, (_, measured)) in loops.iter().zip(&mut combined) {
        let Some(less) = &it.less else { continue };
        let rest = |cycles: u64| {
            Some(cycles.saturating_sub((*figures.get(less)?)?).saturating_mul(it.times))
        };
        measured.cycles_milli = measured.cycles_milli.and_then(rest);
    }
    combined
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_enough_loops_and_each_has_a_key_of_its_own() {
        let keys: Vec<String> = all().into_iter().map(|it| it.key).collect();
        let distinct: BTreeSet<&String> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        // Some loops need instructions that not every CPU has.
        assert!(keys.len() >= 130, "{} loops", keys.len());
        let kinds = ["latency", "throughput", "core", "half"];
        let kind = |key: &&String| kinds.iter().any(|kind| key.starts_with(&format!("{kind}.")));
        assert!(keys.iter().all(|key| kind(&key)), "{keys:?}");
    }

    #[test]
    fn the_other_half_of_a_figure_is_a_loop() {
        let all = all();
        for less in all.iter().filter_map(|it| it.less.as_ref()) {
            assert!(all.iter().any(|it| it.key == *less), "{less}");
        }
    }

    #[test]
    fn a_difference_needs_both_halves() {
        let all: Vec<Loop> = all()
            .into_iter()
            .filter(|it| {
                it.key.contains("branch.same") || it.less.as_deref() == Some("half.branch.same")
            })
            .collect();
        let measured = |milli: Option<u64>| Measured { kept: 9, taken: 9, cycles_milli: milli };
        let combined = |same: Option<u64>| -> Vec<Option<u64>> {
            let figures = all.iter().map(|it| match it.less {
                Some(_) => (it.key.clone(), measured(Some(9000))),
                None => (it.key.clone(), measured(same)),
            });
            let combined = combine(&all, figures.collect());
            combined
                .into_iter()
                .filter(|(key, _)| key.starts_with("core."))
                .map(|it| it.1.cycles_milli)
                .collect()
        };
        assert_eq!(combined(Some(1500)), [Some(15_000)]);
        assert_eq!(combined(None), [None]);
    }

    #[test]
    fn a_figure_is_of_one_operation() {
        let all = all();
        let division = all.iter().find(|it| it.key == "latency.divide_32.div").unwrap();
        let of = |kept, cycles_milli| Measured { kept, taken: 40, cycles_milli };
        // 100 cycles around the loop; 13 for a division with the OR in its chain.
        let cycles =
            |times: u64| 100_000 + times * division.iterations * division.operations * 13_000;
        let figures = division.of_one(of(40, Some(cycles(1))), of(39, Some(cycles(LONG))));
        assert_eq!(figures, of(39, Some(12_000)));
        assert_eq!(division.of_one(of(40, Some(1)), of(2, None)), of(2, None));
    }

    #[test]
    fn every_loop_ends() {
        let _alone = kernel::alone();
        kernel::kernels();
        for it in all() {
            it.before();
            it.run(1);
        }
    }
}
