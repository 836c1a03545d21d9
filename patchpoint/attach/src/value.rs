//! Converts values of keys from and to text.

use crate::survey::{Key, Kind};
use crate::symbol::Function;

/// The error in a value that the user gave.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ValueError {
    /// A branch's value is neither on nor off.
    #[error("--to {text}: '{key}' is a branch; give on or off")]
    NoTruth { key: String, text: String },
    /// A value's text is no number.
    #[error("--to {text}: '{key}' is a value of {size} bytes; give a number, decimal or 0x…")]
    NoNumber {
        key: String,
        text: String,
        /// Bytes of the value.
        size: u8,
    },
    /// The number does not fit into the value's bytes.
    #[error("--to {text}: '{key}' has {size} bytes, for which the number is too large")]
    TooLarge {
        key: String,
        text: String,
        /// Bytes of the value.
        size: u8,
    },
    /// A switch has no such way.
    #[error("--to {text}: '{key}' is a switch of {ways} ways; give a number from 0 to {}", ways - 1)]
    NoWay { key: String, text: String, ways: u8 },
    /// No function has this name.
    #[error(
        "--to {text}: '{key}' is a call, and no function of that name is known in the process{near}; \
         give the name of a function in its symbol table, or an address as 0x…"
    )]
    NoFunction {
        key: String,
        text: String,
        /// A hint: " (did you mean …?)", files whose functions are unknown, or nothing.
        near: String,
    },
    /// Several functions have this name.
    #[error(
        "--to {text}: {count} functions of that name are in the process ({places}); give one's address"
    )]
    ManyFunctions { text: String, count: usize, places: String },
    /// The address holds no code.
    #[error("--to {text}: no code of the process is at that address, so '{key}' cannot call it")]
    NoCode { key: String, text: String },
}

/// Parses a branch's value: on or off.
///
/// # Errors
/// [`ValueError::NoTruth`].
pub fn truth(key: &Key, text: &str) -> Result<u64, ValueError> {
    match text {
        "on" | "true" | "yes" | "1" => Ok(1),
        "off" | "false" | "no" | "0" => Ok(0),
        _ => Err(ValueError::NoTruth { key: key.name.clone(), text: text.into() }),
    }
}

/// Parses a value's number, cut to its size; a negative number is in two's complement.
///
/// # Errors
/// The text is no number, or the number is too large.
pub fn number(key: &Key, text: &str) -> Result<u64, ValueError> {
    let size = key.size.clamp(1, 8);
    let wrong = || ValueError::NoNumber { key: key.name.clone(), text: text.into(), size };
    let number: i128 = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => i128::from(u64::from_str_radix(digits, 16).map_err(|_| wrong())?),
        None => text.parse().map_err(|_| wrong())?,
    };
    let bits = 8 * u32::from(size);
    if number >= 1 << bits || number < -(1 << (bits - 1)) {
        return Err(ValueError::TooLarge { key: key.name.clone(), text: text.into(), size });
    }
    Ok((number & ((1 << bits) - 1)) as u64)
}

/// Parses the number of a switch's way.
///
/// # Errors
/// [`ValueError::NoWay`].
pub fn way(key: &Key, text: &str) -> Result<u64, ValueError> {
    let ways = key.size.max(1);
    let number = text.parse().ok().filter(|way| *way < u64::from(ways));
    number.ok_or_else(|| ValueError::NoWay { key: key.name.clone(), text: text.into(), ways })
}

/// Finds the address of a function by name or `0x…`.
///
/// `functions`: the functions of the process; those of the key's own file have priority. `is_code`:
/// whether an address is executable. `nearest`: a hint at names that the user may have meant.
///
/// # Errors
/// No function matches, or several do.
pub fn function(
    key: &Key,
    text: &str,
    functions: &[Function],
    is_code: impl Fn(u64) -> bool,
    nearest: impl Fn(&str) -> String,
) -> Result<u64, ValueError> {
    let owned = || (key.name.clone(), text.to_string());
    if let Some(digits) = text.strip_prefix("0x") {
        let address = u64::from_str_radix(digits, 16).ok().filter(|address| is_code(*address));
        let (key, text) = owned();
        return address.ok_or(ValueError::NoCode { key, text });
    }
    let named: Vec<&Function> = functions.iter().filter(|known| known.name == text).collect();
    let own: Vec<&Function> =
        named.iter().filter(|known| known.path == key.path).copied().collect();
    match if own.is_empty() { named.as_slice() } else { own.as_slice() } {
        [] => {
            let (key, text) = owned();
            Err(ValueError::NoFunction { near: nearest(&text), key, text })
        }
        [one] => Ok(one.address),
        many => {
            let places: Vec<String> = many
                .iter()
                .map(|known| format!("{:#x} of {}", known.address, known.path))
                .collect();
            let text = text.to_string();
            Err(ValueError::ManyFunctions { text, count: many.len(), places: places.join(", ") })
        }
    }
}

/// A key's value as text: on or off, a number, an address.
pub fn show(key: &Key, slot: u64) -> String {
    match key.kind {
        Kind::Branch if slot == 0 => "off".into(),
        Kind::Branch => "on".into(),
        Kind::Value | Kind::Switch => slot.to_string(),
        Kind::Call => format!("{slot:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchpoint::{Form, State};

    fn key(kind: Kind, size: u8) -> Key {
        Key {
            address: 0,
            name: "k".into(),
            kind,
            size,
            state: State { value: 0, form: Form::AS_COMPILED, body: [0; 7] },
            bound: false,
            ops: 0,
            imports: Vec::new(),
            registry: 0,
            path: "/bin/own".into(),
            sites: Vec::new(),
        }
    }

    #[test]
    fn branches_are_on_or_off() {
        let branch = key(Kind::Branch, 1);
        assert_eq!((truth(&branch, "on"), truth(&branch, "off")), (Ok(1), Ok(0)));
        let error = truth(&branch, "42").unwrap_err().to_string();
        assert_eq!(error, "--to 42: 'k' is a branch; give on or off");
        assert_eq!((show(&branch, 1), show(&branch, 0)), ("on".into(), "off".into()));
    }

    #[test]
    fn ways_of_a_switch_are_counted_from_0() {
        let switch = key(Kind::Switch, 3);
        assert_eq!((way(&switch, "0"), way(&switch, "2")), (Ok(0), Ok(2)));
        for text in ["3", "-1", "on", ""] {
            let error = way(&switch, text).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("--to {text}: 'k' is a switch of 3 ways; give a number from 0 to 2")
            );
        }
        assert_eq!(show(&switch, 2), "2");
    }

    #[test]
    fn numbers_fit_their_size() {
        let byte = key(Kind::Value, 1);
        assert_eq!(number(&byte, "255"), Ok(255));
        assert_eq!(number(&byte, "-1"), Ok(255));
        assert_eq!(number(&byte, "0x7f"), Ok(127));
        for (text, what) in [("256", "too large"), ("-129", "too large"), ("on", "give a number")] {
            assert!(number(&byte, text).unwrap_err().to_string().contains(what), "{text}");
        }
        let wide = key(Kind::Value, 8);
        assert_eq!(number(&wide, "-1"), Ok(u64::MAX));
        assert_eq!(number(&wide, "18446744073709551615"), Ok(u64::MAX));
        assert!(number(&wide, "18446744073709551616").is_err());
    }

    #[test]
    fn functions_are_found_by_name_those_of_the_keys_file_first() {
        let call = key(Kind::Call, 8);
        let known = |name: &str, address, path: &str| Function {
            name: name.into(),
            address,
            path: path.into(),
        };
        let functions = [
            known("f", 1, "/lib/other"),
            known("f", 2, "/bin/own"),
            known("g", 3, "/lib/one"),
            known("g", 4, "/lib/two"),
        ];
        let find = |text: &str| {
            function(
                &call,
                text,
                &functions,
                |address| address == 16,
                |_| " (did you mean f?)".into(),
            )
        };
        assert_eq!((find("f"), find("0x10")), (Ok(2), Ok(16)));
        assert!(matches!(find("g"), Err(ValueError::ManyFunctions { count: 2, .. })));
        assert!(matches!(find("0x11"), Err(ValueError::NoCode { .. })));
        assert!(find("h").unwrap_err().to_string().contains("did you mean f?"));
    }
}
