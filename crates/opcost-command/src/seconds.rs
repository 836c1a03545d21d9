//! Seconds as command lines take them.

/// Reads a number of seconds, from a millisecond to about a month.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=2.6e6).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds, 0.001 to 2,600,000".into()),
    }
}
