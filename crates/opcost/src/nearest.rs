//! What the user may have meant.

/// " (did you mean …?)" with up to three known names that resemble `name`, or nothing.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut near = opcost_work::nearest(name, known);
    near.truncate(3);
    if near.is_empty() { String::new() } else { format!(" (did you mean {}?)", near.join(", ")) }
}
