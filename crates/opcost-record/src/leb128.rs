//! Integers of seven bits a byte, least bits first (DWARF 5, 7.6; protocol buffers call them varints).

/// Why bytes do not begin with an integer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReadError {
    /// The bytes end within the integer.
    Cut,
    /// The integer has more than 64 bits.
    TooLarge,
}

/// Appends an integer.
pub fn write(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes an integer from the front of `bytes`.
///
/// # Errors
/// [`ReadError`]; `bytes` is then anywhere within the integer.
pub fn read(bytes: &mut &[u8]) -> Result<u64, ReadError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(ReadError::Cut)?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return Err(ReadError::TooLarge);
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ReadError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_bytes_are_read_and_wrong_ones_named() {
        // DWARF 5, figure 7.1.
        for (value, bytes) in [(2, &[2][..]), (128, &[0x80, 1]), (12_857, &[0xb9, 0x64])] {
            assert_eq!(read(&mut &*bytes), Ok(value));
        }
        assert_eq!(read(&mut &[][..]), Err(ReadError::Cut));
        assert_eq!(read(&mut &[0x80][..]), Err(ReadError::Cut));
        let nine = [0xff; 9];
        assert_eq!(read(&mut &*[&nine[..], &[1]].concat()), Ok(u64::MAX));
        assert_eq!(read(&mut &*[&nine[..], &[2]].concat()), Err(ReadError::TooLarge));
        assert_eq!(read(&mut &*[&nine[..], &[0x81, 0]].concat()), Err(ReadError::TooLarge));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(values in prop::collection::vec(any::<u64>(), 0..8)) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| write(&mut bytes, *value));
            let mut rest = &*bytes;
            for value in values {
                prop_assert_eq!(read(&mut rest), Ok(value));
            }
            prop_assert!(rest.is_empty());
        }
    }
}
