//! Messages of a program about its own regions, assembled from marks.

use opcost_record::marker::RegionMark;
use opcost_record::program_region::NAME_BYTES_MAX;

/// The largest number of digits in a number of operations.
const NUMBER_DIGITS_MAX: u32 = 16;

/// A complete message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Message {
    /// A region begins.
    Begin(Vec<u8>),
    /// A region ends after the given number of operations.
    End(Vec<u8>, u64),
}

/// The message that is being sent.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    current: Option<Partial>,
}

#[derive(Debug)]
struct Partial {
    begins: bool,
    name: Vec<u8>,
    /// The lower half of the name's next byte.
    half: Option<u8>,
    /// The value of the digits so far, and their count.
    operations: Option<(u64, u32)>,
}

impl Messages {
    /// Takes the next mark and returns the message that it completes, if any.
    ///
    /// # Errors
    /// The mark does not continue the message.
    pub(crate) fn take(&mut self, mark: RegionMark) -> Result<Option<Message>, String> {
        let current = self.current.take();
        let partial = match (mark, current) {
            (RegionMark::Begin | RegionMark::Stop, None) => {
                let begins = mark == RegionMark::Begin;
                Partial { begins, name: Vec::new(), half: None, operations: None }
            }
            (RegionMark::Digit(digit), Some(partial)) => partial.digit(digit)?,
            (RegionMark::Start, Some(Partial { begins: true, name, half: None, .. })) => {
                return Ok(Some(Message::Begin(name)));
            }
            (
                RegionMark::Operations,
                Some(partial @ Partial { begins: false, half: None, operations: None, .. }),
            ) => Partial { operations: Some((0, 0)), ..partial },
            (RegionMark::End, Some(Partial { name, operations: Some((operations, _)), .. })) => {
                return Ok(Some(Message::End(name, operations)));
            }
            _ => {
                return Err("two threads or processes marked their regions at the same moment, or a \
                            process ended in the middle of a mark; let one of them mark regions, or \
                            run them one after the other"
                    .into());
            }
        };
        self.current = Some(partial);
        Ok(None)
    }

    /// Forgets an incomplete message.
    pub(crate) fn forget(&mut self) {
        self.current = None;
    }
}

impl Partial {
    fn digit(mut self, digit: u8) -> Result<Partial, String> {
        match (&mut self.operations, self.half.take()) {
            (Some((number, digits)), _) if *digits < NUMBER_DIGITS_MAX => {
                *number |= u64::from(digit) << (4 * *digits);
                *digits += 1;
            }
            (Some(_), _) => {
                return Err(
                    "a region's number of operations is longer than 64 bits; the header or \
                            crate that marks it is damaged"
                        .into(),
                );
            }
            (None, None) => self.half = Some(digit),
            // A name that is too long is refused when the message is complete; its end is not kept.
            (None, Some(_)) if self.name.len() > NAME_BYTES_MAX => {}
            (None, Some(half)) => self.name.push(half | digit << 4),
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RegionMark::{Begin, Digit, End, Operations, Start, Stop};

    fn digits(bytes: &[u8]) -> Vec<RegionMark> {
        bytes.iter().flat_map(|byte| [Digit(byte & 15), Digit(byte >> 4)]).collect()
    }

    fn take(marks: &[RegionMark]) -> Result<Option<Message>, String> {
        let mut messages = Messages::default();
        let mut last = Ok(None);
        for mark in marks {
            assert_eq!(last, Ok(None), "{marks:?}");
            last = messages.take(*mark);
        }
        last
    }

    #[test]
    fn messages_are_put_together() {
        let marks = [&[Begin][..], &digits("parse/é".as_bytes()), &[Start]].concat();
        assert_eq!(take(&marks), Ok(Some(Message::Begin("parse/é".into()))));
        let number = 0xfedc_ba98_7654_3210_u64;
        let name = digits(b"a");
        let marks =
            [&[Stop][..], &name, &[Operations], &digits(&number.to_le_bytes()), &[End]].concat();
        assert_eq!(take(&marks), Ok(Some(Message::End("a".into(), number))));
        let marks = [&[Stop][..], &name, &[Operations, End]].concat();
        assert_eq!(take(&marks), Ok(Some(Message::End("a".into(), 0))));
    }

    #[test]
    fn a_name_of_any_length_takes_bounded_memory() {
        let marks = [&[Begin][..], &digits(&[b'x'; 5000]), &[Start]].concat();
        let Ok(Some(Message::Begin(name))) = take(&marks) else { panic!("no message") };
        assert_eq!(name.len(), NAME_BYTES_MAX + 1);
    }

    #[test]
    fn messages_that_meet_are_refused() {
        for marks in [
            &[Digit(1)][..],
            &[Start],
            &[End],
            &[Operations],
            &[Begin, Begin],
            &[Begin, Digit(1), Stop],
            &[Begin, Digit(1), Start],
            &[Begin, Operations],
            &[Stop, Start],
            &[Stop, End],
            &[Stop, Operations, Operations],
        ] {
            let error = take(marks).unwrap_err();
            assert!(error.contains("at the same moment"), "{marks:?}: {error}");
        }
        let long = [&[Stop][..], &digits(b"a"), &[Operations], &digits(&[1; 9])].concat();
        assert!(take(&long[..long.len() - 1]).unwrap_err().contains("64 bits"));
    }
}
