//! pprof's format: a gzipped protocol buffer
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>). A profile's sample type is its
//! event. Of several variants each is a sample type; the period's type names the event.
//!
//! The few messages are written by hand; field numbers are those of profile.proto.

use super::of_runs;
use anyhow::{Context, Result};
use flate2::{Compression, write::GzEncoder};
use opcost_analysis::comparison::call_tree::{CallTree, Counted};
use opcost_record::printable::printable;
use opcost_record::{Function, Unit, leb128};
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
    let unit = unit(&tree.counted);
    let mut value_type = |kind: &str| {
        let mut value_type = Message::default();
        value_type.integer(1, strings.number(kind));
        value_type.integer(2, strings.number(unit));
        value_type
    };
    match &tree.sides[..] {
        [_] => profile.message(1, &value_type(&tree.counted.event)),
        several => {
            several.iter().for_each(|side| profile.message(1, &value_type(&side.name)));
        }
    }
    let period_type = value_type(&tree.counted.event);
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
        let Function { symbol, module, mangled, .. } = &tree.functions[at];
        function.integer(3, strings.number(mangled.as_deref().unwrap_or(symbol)));
        function.integer(4, strings.number(module));
        profile.message(5, &function);
    }
    let comments: Vec<u64> = tree
        .sides
        .iter()
        .map(|side| {
            let ops =
                if tree.per_op { format!(", {} operations", side.ops) } else { String::new() };
            let from = format!(
                "{}: {}{}{ops}, recording {}",
                side.name,
                tree.counted.words,
                of_runs(side.runs),
                side.recording
            );
            strings.number(&from)
        })
        .collect();
    profile.message(11, &period_type);
    profile.integer(12, tree.counted.period.unwrap_or(0));
    profile.integers(13, &comments);
    for string in &strings.all {
        profile.bytes(6, string.as_bytes());
    }
    profile.0
}

/// The unit by pprof's own name, or the word to print behind figures.
fn unit(counted: &Counted) -> &str {
    match counted.unit {
        Unit::Ns => "nanoseconds",
        Unit::Bytes => "bytes",
        // The period's type has the event with its domain, as in `instructions:u`.
        _ if counted.event.split(':').next() == Some("instructions") => "instructions",
        _ => "count",
    }
}

/// The identifier of a function and of its only location; 0 would mean none.
fn id(function: usize) -> u64 {
    function as u64 + 1
}

/// The table of strings; the empty string comes first.
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
        // pprof prints names to a terminal as they are.
        self.all.push(printable(string));
        self.numbers.insert(string.to_string(), number);
        number
    }
}

/// A message of the wire format (<https://protobuf.dev/programming-guides/encoding/>).
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Writes a number, unless it is 0: a missing number reads as 0.
    fn integer(&mut self, field: u64, value: u64) {
        if value > 0 {
            leb128::write(&mut self.0, field << 3);
            leb128::write(&mut self.0, value);
        }
    }

    /// Writes packed numbers.
    fn integers(&mut self, field: u64, values: &[u64]) {
        let mut packed = Message::default();
        values.iter().for_each(|value| leb128::write(&mut packed.0, *value));
        self.message(field, &packed);
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        leb128::write(&mut self.0, field << 3 | 2);
        leb128::write(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_analysis::comparison::call_tree::fixture::tree;

    /// A field of a message: its number with its value or its bytes.
    #[derive(Debug, PartialEq)]
    enum Field<'a> {
        Integer(u64, u64),
        Bytes(u64, &'a [u8]),
    }

    fn fields(mut rest: &[u8]) -> Vec<Field<'_>> {
        let mut found = Vec::new();
        while !rest.is_empty() {
            let key = leb128::read(&mut rest).unwrap();
            let value = leb128::read(&mut rest).unwrap();
            if key & 7 == 2 {
                let (bytes, behind) = rest.split_at(value as usize);
                found.push(Field::Bytes(key >> 3, bytes));
                rest = behind;
            } else {
                found.push(Field::Integer(key >> 3, value));
            }
        }
        found
    }

    /// The messages of one field, each as its fields; a number outside `integers` stands for its string.
    fn told(message: &[u8], number: u64, integers: &[u64]) -> Vec<Vec<String>> {
        let bytes = |wanted: u64| {
            let of = move |field| match field {
                Field::Bytes(number, bytes) if number == wanted => Some(bytes),
                _ => None,
            };
            fields(message).into_iter().filter_map(of).collect::<Vec<_>>()
        };
        let strings = bytes(6);
        let told = |field: Field<'_>| match field {
            Field::Integer(number, value) if integers.contains(&number) => value.to_string(),
            Field::Integer(_, at) => String::from_utf8(strings[at as usize].to_vec()).unwrap(),
            Field::Bytes(..) => panic!("a message within"),
        };
        bytes(number).into_iter().map(|one| fields(one).into_iter().map(told).collect()).collect()
    }

    #[test]
    fn units_and_mangled_names_are_told() {
        let mut made =
            tree(&["off", "on"], &[(None, "ns::run(int)@/bin/work", &[(1, 10), (1, 11)])]);
        made.functions[0].mangled = Some("_ZN2ns3runEi".into());
        let types = |tree: &CallTree| {
            let message = message(tree);
            [told(&message, 1, &[]), told(&message, 11, &[])].concat()
        };
        let pairs = |pairs: &[[&str; 2]]| -> Vec<Vec<String>> {
            pairs.iter().map(|pair| pair.map(String::from).to_vec()).collect()
        };
        let unit = "instructions";
        assert_eq!(types(&made), pairs(&[["off", unit], ["on", unit], [unit, unit]]));
        assert!(fields(&message(&made)).contains(&Field::Integer(12, 1)));
        let expected = ["1", "ns::run(int)", "_ZN2ns3runEi", "/bin/work"];
        assert_eq!(told(&message(&made), 5, &[1]), [expected]);
        made.counted = Counted::sampled("cpu-clock", Unit::Ns, None, Some(4000));
        let unit = "nanoseconds";
        assert_eq!(types(&made), pairs(&[["off", unit], ["on", unit], ["cpu-clock", unit]]));
        assert!(fields(&message(&made)).contains(&Field::Integer(12, 250_000)));
        made.counted = Counted::sampled("cache-misses:u", Unit::Count, Some(7), Some(4000));
        assert_eq!(types(&made)[2], ["cache-misses:u", "count"]);
        assert!(fields(&message(&made)).contains(&Field::Integer(12, 7)));
        // The sample type of one profile is its event, and memory is in bytes.
        let mut made = tree(&["heap.pb.gz"], &[(None, "main", &[(1, 10)])]);
        made.counted = Counted::sampled("alloc_space", Unit::Bytes, None, None);
        assert_eq!(types(&made), pairs(&[["alloc_space", "bytes"]; 2]));
    }

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
