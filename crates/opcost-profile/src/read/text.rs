//! Faults in the contents of a profile.

use opcost_sys::budget::{Budget, Exceeded};
use serde::de::{DeserializeOwned, DeserializeSeed};
use std::io::{self, BufReader};
use std::marker::PhantomData;

/// Why contents cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum TextError {
    /// A line of another form.
    #[error("line {line} is {what}: {text:?}")]
    Line {
        /// Line number, from 1.
        line: usize,
        what: &'static str,
        text: String,
    },
    /// The contents end too early.
    #[error("it ends too soon ({0}); it was cut short, so write or copy it again")]
    Cut(String),
    /// The contents contradict themselves, or hold something that cannot be represented.
    #[error("{0}")]
    Content(String),
    /// A fault in another file of the same run.
    #[error("in its part {name}: {source}")]
    Part {
        /// The part's file name.
        name: String,
        source: Box<TextError>,
    },
    /// The contents have no cost.
    #[error("it has no cost at all")]
    Empty,
    /// The contents lack the event that the user wants.
    #[error("it has no event {wanted}; it has {known}")]
    NoEvent { wanted: String, known: String },
    /// Reading takes more than the budget.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

impl TextError {
    /// The error for JSON that is cut short, has another form or takes too much.
    fn json(error: serde_json::Error) -> TextError {
        if error.is_eof() {
            return TextError::Cut(error.to_string());
        }
        let what = format!("it is not as the format says: {error}");
        Exceeded::of(&io::Error::from(error)).map_or(TextError::Content(what), TextError::Exceeded)
    }

    /// `wanted`: the event that the user wants; `known`: the events of the file.
    pub(super) fn no_event(wanted: &str, known: &[String]) -> TextError {
        TextError::NoEvent { wanted: wanted.to_string(), known: known.join(", ") }
    }

    /// `index`: the line's number, from 0.
    pub(super) fn line(index: usize, text: &str, what: &'static str) -> TextError {
        TextError::Line { line: index + 1, what, text: text.chars().take(120).collect() }
    }
}

/// Parses JSON, value by value: a short text can have many values.
pub(super) fn json<T: DeserializeOwned>(text: &str, budget: &Budget) -> Result<T, TextError> {
    json_seed(text, PhantomData, budget)
}

/// Parses JSON as `seed` does.
pub(super) fn json_seed<'de, S: DeserializeSeed<'de>>(
    text: &str,
    seed: S,
    budget: &Budget,
) -> Result<S::Value, TextError> {
    let text = BufReader::new(budget.reader(text.as_bytes()));
    let mut from = serde_json::Deserializer::from_reader(text);
    let value = seed.deserialize(&mut from).map_err(TextError::json)?;
    from.end().map_err(TextError::json)?;
    Ok(value)
}

/// The nodes of a tree, each with its parent's index, which is less than its own.
pub(super) type Tree<N> = Vec<(Option<usize>, N)>;

/// Parses JSON with a tree whose nodes have their inner nodes in an array `children`, and whose root is the object's `head`. A
/// tree may be deeper than a parser's own stack.
///
/// Returns the object without its tree, and the nodes without their children.
pub(super) fn json_tree<T: DeserializeOwned, N: DeserializeOwned>(
    text: &str,
    budget: &Budget,
) -> Result<(T, Tree<N>), TextError> {
    /// An object that is open, and its text without the nodes below it.
    struct Open {
        text: String,
        /// The brackets that are open in the text.
        depth: u32,
        /// Whether the outermost array is that of the children.
        in_children: bool,
    }
    let cut = || TextError::Cut("within its tree".into());
    let other = || TextError::Content("its brackets are no tree".into());
    let mut open = vec![Open { text: String::new(), depth: 0, in_children: false }];
    // The nodes by index, and the indices of those that are open.
    let mut nodes: Vec<(Option<usize>, Option<N>)> = Vec::new();
    let mut numbers: Vec<usize> = Vec::new();
    let mut key = "";
    let mut rest = text;
    while let Some(byte) = rest.bytes().next() {
        let is_root = open.len() == 1;
        let top = open.last_mut().ok_or_else(other)?;
        let taken = match byte {
            b'"' => string_bytes(rest).ok_or_else(cut)?,
            b'{' | b'[' | b'}' | b']' => 1,
            _ => rest.find(['"', '{', '[', '}', ']']).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(taken);
        rest = behind;
        let is_node = match is_root {
            true => top.depth == 1 && key == "\"head\"",
            false => top.depth == 2 && top.in_children,
        };
        if byte == b'{' && is_node {
            budget.step(size_of::<Open>() as u64 + size_of::<N>() as u64)?;
            top.text.push('0');
            nodes.push((numbers.last().copied(), None));
            numbers.push(nodes.len() - 1);
            open.push(Open { text: "{".into(), depth: 1, in_children: false });
            continue;
        }
        top.text.push_str(token);
        match byte {
            b'"' if top.depth == 1 => key = token,
            b'{' | b'[' => {
                top.in_children |= byte == b'[' && top.depth == 1 && key == "\"children\"";
                top.depth += 1;
            }
            b'}' | b']' => {
                top.depth = top.depth.checked_sub(1).ok_or_else(other)?;
                top.in_children &= top.depth > 1;
                if let (0, Some(number)) = (top.depth, numbers.last()) {
                    nodes[*number].1 = Some(json(&top.text, budget)?);
                    numbers.pop();
                    open.pop();
                }
            }
            _ => {}
        }
    }
    let [Open { text, depth: 0, .. }] = &open[..] else { return Err(cut()) };
    let nodes = nodes.into_iter().filter_map(|(parent, node)| Some((parent, node?))).collect();
    Ok((json(text, budget)?, nodes))
}

/// The length of the string that a text begins with; `None` if it has no end.
fn string_bytes(text: &str) -> Option<usize> {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    Some(end? + 2)
}
