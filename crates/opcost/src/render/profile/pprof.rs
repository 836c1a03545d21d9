//! pprof's format: a gzipped protocol buffer
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>), each variant a sample type.
//!
//! The few messages are written by hand: numbers of fields are those of that file.

use crate::comparison::call_tree::CallTree;
use anyhow::{Context, Result};
use flate2::{Compression, write::GzEncoder};
use std::collections::HashMap;
use std::io::Write;

/// The gzipped profile.
pub(super) fn render(tree: &CallTree) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&message(tree)).context("pprof's profile")?;
    encoder.finish().context("pprof's profile")
}

fn message(tree: &CallTree) -> Vec<u8> {
    let mut strings = Strings::default();
    let mut profile = Message::default();
    for side in &tree.sides {
        let mut value_type = Message::default();
        value_type.integer(1, strings.number(&side.name));
        // A unit of another name would stand behind every figure.
        value_type.integer(2, strings.number("count"));
        profile.message(1, &value_type);
    }
    for (at, node) in tree.nodes.iter().enumerate() {
        if node.own.iter().all(|own| *own == 0) {
            continue;
        }
        let mut stack: Vec<u64> = tree.stack(at).into_iter().map(id).collect();
        // The leaf comes first.
        stack.reverse();
        let mut sample = Message::default();
        sample.integers(1, &stack);
        sample.integers(2, &node.own);
        profile.message(2, &sample);
    }
    for (at, name) in tree.names().iter().enumerate() {
        let mut line = Message::default();
        line.integer(1, id(at));
        let mut location = Message::default();
        location.integer(1, id(at));
        location.message(4, &line);
        profile.message(4, &location);
        let mut function = Message::default();
        function.integer(1, id(at));
        function.integer(2, strings.number(name));
        function.integer(3, strings.number(&tree.functions[at].symbol));
        function.integer(4, strings.number(&tree.functions[at].module));
        profile.message(5, &function);
    }
    let comments: Vec<u64> = tree
        .sides
        .iter()
        .map(|side| {
            let ops =
                if tree.per_op { format!(", {} operations", side.ops) } else { String::new() };
            let from = format!(
                "{}: {} of {} runs{ops}, recording {}",
                side.name, tree.metric, side.runs, side.recording
            );
            strings.number(&from)
        })
        .collect();
    profile.integers(13, &comments);
    for string in &strings.all {
        profile.bytes(6, string.as_bytes());
    }
    profile.0
}

/// The identifier of a function and of its one location; 0 would be none.
fn id(function: usize) -> u64 {
    function as u64 + 1
}

/// The table of strings, the empty one first.
struct Strings {
    all: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Default for Strings {
    fn default() -> Strings {
        Strings { all: vec![String::new()], numbers: HashMap::from([(String::new(), 0)]) }
    }
}

impl Strings {
    fn number(&mut self, string: &str) -> u64 {
        if let Some(number) = self.numbers.get(string) {
            return *number;
        }
        let number = self.all.len() as u64;
        self.all.push(string.to_string());
        self.numbers.insert(string.to_string(), number);
        number
    }
}

/// A message of the wire format (<https://protobuf.dev/programming-guides/encoding/>).
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number; 0 is what an absent one is.
    fn integer(&mut self, field: u64, value: u64) {
        if value > 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    /// Numbers, packed.
    fn integers(&mut self, field: u64, values: &[u64]) {
        let mut packed = Message::default();
        values.iter().for_each(|value| packed.varint(*value));
        self.message(field, &packed);
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded_as_the_wire_format_says() {
        let mut message = Message::default();
        // 150 in field 1, "testing" in field 2: the examples of the wire format's description.
        message.integer(1, 150);
        message.bytes(2, b"testing");
        message.integer(3, 0);
        message.integers(6, &[3, 270, 86942]);
        let expected = [
            &[0x08, 0x96, 0x01, 0x12, 0x07][..],
            b"testing",
            &[0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05],
        ];
        assert_eq!(message.0, expected.concat());
    }
}
