//! Numbers of bytes as text.

use opcost_base::number::{grouped, percent};

/// Bytes with their thousands separated; a dash for `None`.
pub(super) fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "–".into(), grouped)
}

/// A change with its sign: `+1,204`.
pub(super) fn signed(change: i64) -> String {
    let sign = if change < 0 { '−' } else { '+' };
    format!("{sign}{}", grouped(change.unsigned_abs()))
}

/// A change of bytes, `=` for none.
pub(super) fn bytes_change(change: i64) -> String {
    if change == 0 { "=".into() } else { signed(change) }
}

/// The change relative to the bytes before; empty if there were none, or no change.
pub(super) fn relative(bytes: [Option<u64>; 2]) -> String {
    match bytes {
        [Some(before), Some(after)] if before > 0 && before != after => {
            percent((after as f64 - before as f64) / before as f64)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_is_not_none_and_equal_is_not_a_change() {
        assert_eq!(
            (bytes(None), bytes(Some(0)), bytes(Some(1234))),
            ("–".into(), "0".into(), "1,234".into())
        );
        assert_eq!(
            (bytes_change(0), bytes_change(1234), bytes_change(-5)),
            ("=".into(), "+1,234".into(), "−5".into())
        );
        assert_eq!(relative([Some(200), Some(250)]), "+25.00 %");
        assert_eq!(
            relative([Some(0), Some(5)])
                + &relative([None, Some(5)])
                + &relative([Some(5), Some(5)]),
            ""
        );
    }
}
