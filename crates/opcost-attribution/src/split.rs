//! Whether a function's cost changed because it is called more often or because each call is dearer.
//!
//! A cost is a number of calls times a price: the function's own cost of one call. The change of a cost is the change of the calls at
//! the old price plus the change of the price over the new calls. The two parts add up to the change, and no part is left over
//! (Laspeyres' difference of quantities and Paasche's difference of prices: Diewert, "Index number theory using differences rather
//! than ratios", American Journal of Economics and Sociology 64(1), 2005).
//!
//! A function that calls itself is called each time. A tail call is a call if the jump reaches the function's first instruction;
//! running on into the next symbol is none. Code that a compiler inlined belongs to its caller. If a side spends cost in a function
//! that nothing was seen to call, such as the function in which counting began, the change has no parts.

use opcost_base::number::{figure, grouped};
use opcost_record::Unit;

/// The parts of a change of a function's own cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Split {
    /// The part that comes from the change of the number of calls, at the baseline's cost of a call.
    pub from_calls: f64,
    /// The part that comes from the change of the cost of a call, over the variant's calls.
    pub from_price: f64,
}

/// Two sums of the same figures in another order differ by less than this share.
const ROUNDING: f64 = 1e-12;

/// Splits the change of a function's own cost; `own`, `calls`: own cost and calls of the baseline and of the variant.
///
/// Returns `None` if a side has own cost and no calls.
pub fn split(own: [f64; 2], calls: [f64; 2]) -> Option<Split> {
    if (0..2).any(|side| own[side] != 0.0 && calls[side] == 0.0) {
        return None;
    }
    let change = own[1] - own[0];
    // A function that was not called has no price; all of the change comes from the new calls.
    let from_calls =
        if calls[0] == 0.0 { change } else { (calls[1] - calls[0]) * (own[0] / calls[0]) };
    let from_price = change - from_calls;
    let least = ROUNDING * own[0].abs().max(own[1].abs());
    Some(match (from_calls.abs() <= least, from_price.abs() <= least) {
        (_, true) => Split { from_calls: change, from_price: 0.0 },
        (true, false) => Split { from_calls: 0.0, from_price: change },
        (false, false) => Split { from_calls, from_price },
    })
}

/// A number of calls as text; a large mean is shown as an integer, as calls are counted one by one.
pub fn calls_in_words(calls: f64) -> String {
    if calls >= CALLS_WHOLE { grouped(calls.round() as u64) } else { figure(calls, Unit::Count) }
}

/// From this many calls on, the decimals of a mean say nothing.
const CALLS_WHOLE: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::array::uniform2;
    use proptest::prelude::*;

    fn parts(own: [f64; 2], calls: [f64; 2]) -> Option<[f64; 2]> {
        split(own, calls).map(|split| [split.from_calls, split.from_price])
    }

    #[test]
    fn a_change_is_split_at_the_old_price_and_over_the_new_calls() {
        // 1 call of 57 became 2 calls of 60.1.
        let split = split([57.0, 120.2], [1.0, 2.0]).unwrap();
        assert_eq!(split.from_calls, 57.0);
        assert!((split.from_price - 6.2).abs() < 1e-9);
        assert_eq!(parts([100.0, 150.0], [10.0, 15.0]), Some([50.0, 0.0]));
        assert_eq!(parts([100.0, 150.0], [10.0, 10.0]), Some([0.0, 50.0]));
        assert_eq!(parts([100.0, 100.0], [10.0, 5.0]), Some([-50.0, 50.0]));
        assert_eq!(parts([100.0, 100.0], [10.0, 10.0]), Some([0.0, 0.0]));
    }

    #[test]
    fn a_new_function_and_one_that_is_gone_are_all_calls() {
        assert_eq!(parts([0.0, 30.0], [0.0, 3.0]), Some([30.0, 0.0]));
        assert_eq!(parts([30.0, 0.0], [3.0, 0.0]), Some([-30.0, 0.0]));
        assert_eq!(parts([0.0, 0.0], [0.0, 0.0]), Some([0.0, 0.0]));
    }

    #[test]
    fn cost_without_calls_has_no_parts() {
        assert_eq!(parts([30.0, 40.0], [0.0, 1.0]), None);
        assert_eq!(parts([30.0, 40.0], [1.0, 0.0]), None);
        assert_eq!(parts([0.0, 40.0], [0.0, 0.0]), None);
        assert_eq!(parts([30.0, 0.0], [0.0, 0.0]), None);
    }

    #[test]
    fn rounding_is_no_part() {
        let third = 1.0 / 3.0;
        assert_eq!(parts([19.0, 38.0], [third, third + third]), Some([19.0, 0.0]));
        assert_eq!(parts([19.0, 20.0], [0.1 + 0.2, 0.3]), Some([0.0, 1.0]));
    }

    #[test]
    fn many_calls_are_whole_and_few_are_as_they_are() {
        let shown = [0.0, 1.0, 0.999_999_999_999, 2.584, 99.5, 17_269.4, 1e6].map(calls_in_words);
        assert_eq!(shown, ["0", "1", "1", "2.584", "99.50", "17,269", "1,000,000"]);
    }

    proptest! {
        #[test]
        fn parts_add_up(
            own in uniform2(1u32..1_000_000),
            calls in uniform2(1u32..10_000),
            ops in 1u32..1000,
        ) {
            let [own, calls] = [own, calls].map(|of| of.map(|sum| f64::from(sum) / f64::from(ops)));
            let [more, dearer] = parts(own, calls).unwrap();
            prop_assert!((more + dearer - (own[1] - own[0])).abs() <= 1e-12 * (own[0] + own[1]));
            let at_new_calls = calls[1] * (own[1] / calls[1] - own[0] / calls[0]);
            prop_assert!((dearer - at_new_calls).abs() <= 1e-9 * (own[0] + own[1] + more.abs()));
        }
    }
}
