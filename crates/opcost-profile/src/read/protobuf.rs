//! Decodes the wire format of protocol buffers (<https://protobuf.dev/programming-guides/encoding/>) as
//! far as pprof's profiles use it.

use super::text::TextError;
use opcost_record::leb128::{self, ReadError};

/// A field's value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Value<'b> {
    Number(u64),
    Bytes(&'b [u8]),
    /// Four or eight bytes; pprof has no such field.
    Fixed,
}

impl<'b> Value<'b> {
    pub(super) fn number(self) -> Option<u64> {
        if let Value::Number(number) = self { Some(number) } else { None }
    }

    pub(super) fn bytes(self) -> Option<&'b [u8]> {
        if let Value::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

fn cut_field() -> TextError {
    TextError::Cut("a field goes on behind the end".into())
}

/// An iterator over the fields of a message, in their order.
pub(super) struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    pub(super) fn of(message: &'b [u8]) -> Fields<'b> {
        Fields { rest: message }
    }

    fn take(&mut self, bytes: u64) -> Result<&'b [u8], TextError> {
        let bytes = usize::try_from(bytes).map_err(|_| cut_field())?;
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or_else(cut_field)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, TextError> {
        leb128::read(&mut self.rest).map_err(|error| match error {
            ReadError::Cut => cut_field(),
            ReadError::TooLarge => TextError::Content(
                "it has a number of more than 64 bits, so it is no pprof profile".into(),
            ),
        })
    }

    fn field(&mut self) -> Result<(u64, Value<'b>), TextError> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let bytes = self.varint()?;
                Value::Bytes(self.take(bytes)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            other => {
                let why = format!("it has a field of wire type {other}, so it is no pprof profile");
                return Err(TextError::Content(why));
            }
        };
        Ok((tag >> 3, value))
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u64, Value<'b>), TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Calls `add` with the numbers of a repeated field, packed or not.
pub(super) fn numbers(value: Value<'_>, add: &mut impl FnMut(u64)) -> Result<(), TextError> {
    match value {
        Value::Number(number) => add(number),
        Value::Bytes(packed) => {
            let mut packed = Fields::of(packed);
            while !packed.rest.is_empty() {
                add(packed.varint()?);
            }
        }
        Value::Fixed => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_format_are_read() {
        let message = [
            &[0x08, 0x96, 0x01, 0x12, 0x07][..],
            b"testing",
            &[0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05],
        ];
        let message = message.concat();
        let fields: Vec<_> = Fields::of(&message).map(Result::unwrap).collect();
        assert_eq!(fields[0], (1, Value::Number(150)));
        assert_eq!(fields[1], (2, Value::Bytes(b"testing")));
        let mut packed = Vec::new();
        numbers(fields[2].1, &mut |number| packed.push(number)).unwrap();
        assert_eq!((fields[2].0, packed), (6, vec![3, 270, 86942]));
    }

    #[test]
    fn what_is_cut_short_is_an_error_and_ends() {
        for bytes in
            [&[0x08][..], &[0x08, 0x80], &[0x12, 0x07, b't'], &[0x09, 1, 2], &[0xff; 11], &[0x0b]]
        {
            let fields: Vec<_> = Fields::of(bytes).collect();
            assert!(fields.len() == 1 && fields[0].is_err(), "{bytes:?}");
        }
    }
}
