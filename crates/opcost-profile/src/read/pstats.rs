//! Reads Python's `cProfile`: a table in Python's marshal format (`Python/marshal.c`), as `python3 -m cProfile -o FILE` writes it.
//!
//! The table has each function's own and inclusive time, its calls, and the same by caller.

use super::about::{About, EventAbout};
use super::stack::{Placed, functions};
use super::text::TextError;
use crate::table::{Edge, FunctionCost, FunctionTable};
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::Budget;

/// The bit of an object's type that gives the object a number for later references.
const NUMBERED: u8 = 0x80;
/// The event's name.
const TIME: &str = "time";
/// The memory of an object.
const OBJECT_BYTES: u64 = 64;
/// The deepest object of the format: a dictionary's callers' figures.
const DEPTH_MAX: usize = 6;

/// Whether bytes look like cProfile's: a dictionary whose first key has three parts.
pub fn is_pstats(bytes: &[u8]) -> bool {
    let [dictionary, key, rest @ ..] = bytes else { return false };
    let three = match key & !NUMBERED {
        b')' => rest.first() == Some(&3),
        b'(' => rest.starts_with(&[3, 0, 0, 0]),
        _ => false,
    };
    dictionary & !NUMBERED == b'{' && three
}

/// An object of Python.
#[derive(Clone)]
enum Object {
    Number(i64),
    Float(f64),
    Text(String),
    Tuple(Vec<Object>),
    Dictionary(Vec<(Object, Object)>),
    /// Another thing, or the end of a dictionary.
    Nothing,
}

/// A function's figures: calls that are no recursion, all calls, own and inclusive seconds.
struct Figures {
    calls: u64,
    own_ns: u64,
    inclusive_ns: u64,
}

/// The state of reading objects.
struct Marshal<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Objects by number.
    numbered: Vec<Object>,
    budget: &'b Budget,
}

impl<'b> Marshal<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], TextError> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| TextError::Cut(format!("at byte {}", self.bytes.len())))?;
        self.at += count;
        Ok(taken)
    }

    fn length(&mut self, long: bool) -> Result<usize, TextError> {
        Ok(match long {
            true => u32::from_le_bytes(self.array()?) as usize,
            false => usize::from(self.take(1)?[0]),
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], TextError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn object(&mut self, depth: usize) -> Result<Object, TextError> {
        self.budget.step(OBJECT_BYTES)?;
        let start = self.at;
        let content = |what: &str| TextError::Content(format!("it has {what} at byte {start}"));
        if depth > DEPTH_MAX {
            return Err(content("objects nested too deep for a profile"));
        }
        let kind = self.take(1)?[0];
        let number = (kind & NUMBERED != 0).then_some(self.numbered.len());
        if number.is_some() {
            self.numbered.push(Object::Nothing);
        }
        let kind = kind & !NUMBERED;
        let object = match kind {
            b'0' | b'N' | b'T' | b'F' => Object::Nothing,
            b'i' => Object::Number(i32::from_le_bytes(self.array()?).into()),
            b'I' => Object::Number(i64::from_le_bytes(self.array()?)),
            b'l' => Object::Number(self.long()?),
            b'g' => Object::Float(f64::from_le_bytes(self.array()?)),
            b'f' => {
                let count = self.length(false)?;
                let text = String::from_utf8_lossy(self.take(count)?);
                Object::Float(text.parse().map_err(|_| content("a number of another form"))?)
            }
            b'z' | b'Z' | b's' | b't' | b'u' | b'a' | b'A' => {
                let count = self.length(!matches!(kind, b'z' | b'Z'))?;
                let text = self.take(count)?;
                self.budget.step(text.len() as u64)?;
                Object::Text(String::from_utf8_lossy(text).into_owned())
            }
            b'(' | b')' => {
                let count = self.length(kind == b'(')?;
                let items = (0..count).map(|_| self.object(depth + 1));
                Object::Tuple(items.collect::<Result<_, _>>()?)
            }
            b'{' => {
                let mut entries = Vec::new();
                loop {
                    // The end of a dictionary is a key of this type.
                    if self.bytes.get(self.at) == Some(&b'0') {
                        self.at += 1;
                        break;
                    }
                    entries.push((self.object(depth + 1)?, self.object(depth + 1)?));
                }
                Object::Dictionary(entries)
            }
            b'r' => {
                let number = u32::from_le_bytes(self.array()?) as usize;
                let known = self.numbered.get(number).cloned();
                let known = known.ok_or_else(|| content("a reference to no object"))?;
                self.budget.step(known.bytes())?;
                known
            }
            _ => return Err(content("an object of a type that a profile has not")),
        };
        // Nothing refers to a dictionary.
        if let Some(number) = number.filter(|_| !matches!(object, Object::Dictionary(_))) {
            self.budget.step(object.bytes())?;
            self.numbered[number] = object.clone();
        }
        Ok(object)
    }

    /// A number of any length, in digits of 15 bits.
    fn long(&mut self) -> Result<i64, TextError> {
        let digits = i32::from_le_bytes(self.array()?);
        let mut value: i64 = 0;
        for at in 0..digits.unsigned_abs() {
            let digit = i64::from(u16::from_le_bytes(self.array()?));
            let beyond = || TextError::Content("it has a number beyond 64 bits".into());
            let part =
                1i64.checked_shl(15 * at).filter(|_| at < 4).and_then(|one| one.checked_mul(digit));
            value = part.and_then(|part| value.checked_add(part)).ok_or_else(beyond)?;
        }
        Ok(if digits < 0 { -value } else { value })
    }
}

impl Object {
    /// The memory that a copy takes.
    fn bytes(&self) -> u64 {
        match self {
            Object::Text(text) => text.len() as u64,
            Object::Tuple(items) => items.iter().map(|item| OBJECT_BYTES + item.bytes()).sum(),
            Object::Dictionary(entries) => entries
                .iter()
                .map(|(key, value)| 2 * OBJECT_BYTES + key.bytes() + value.bytes())
                .sum(),
            _ => OBJECT_BYTES,
        }
    }

    /// A function: file, line and name.
    fn place(&self) -> Option<Placed<'_>> {
        let Object::Tuple(parts) = self else { return None };
        match &parts[..] {
            [Object::Text(file), Object::Number(line), Object::Text(name)] => {
                // Functions of the interpreter itself have no file.
                let file = if file == "~" { "" } else { file };
                Some(Placed { name, file, line: u64::try_from(*line).unwrap_or(0) })
            }
            _ => None,
        }
    }

    /// The first four parts of a function's or a call's figures.
    fn figures(&self) -> Option<Figures> {
        let Object::Tuple(parts) = self else { return None };
        let ns = |object: &Object| {
            let seconds = match object {
                Object::Float(seconds) => *seconds,
                Object::Number(seconds) => *seconds as f64,
                _ => return None,
            };
            (0.0..1e10).contains(&seconds).then(|| (seconds * 1e9).round() as u64)
        };
        match &parts[..] {
            [_, Object::Number(calls), own, inclusive, ..] => Some(Figures {
                calls: u64::try_from(*calls).ok()?,
                own_ns: ns(own)?,
                inclusive_ns: ns(inclusive)?,
            }),
            _ => None,
        }
    }
}

/// Reads the bytes.
///
/// `event`: the event that is wanted; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: bytes of another form, another event; more than the budget.
pub fn read(
    bytes: &[u8],
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, FunctionTable), TextError> {
    if let Some(wanted) = event.filter(|wanted| *wanted != TIME) {
        return Err(TextError::no_event(wanted, &[TIME.to_string()]));
    }
    let mut marshal = Marshal { bytes, at: 0, numbered: Vec::new(), budget };
    let Object::Dictionary(entries) = marshal.object(0)? else { return Err(TextError::Empty) };
    let other = || TextError::Content("an entry is not a function with its times".into());
    let places = entries.iter().map(|(key, _)| key.place().ok_or_else(other));
    let places: Vec<Placed<'_>> = places.collect::<Result<_, _>>()?;
    let numbers: KeyedMap<Placed<'_>, usize> =
        places.iter().enumerate().map(|(at, place)| (*place, at)).collect();
    let (mut costs, mut edges, mut total) = (Vec::new(), Vec::new(), 0u64);
    for ((callee, function), (_, value)) in functions(&places).into_iter().enumerate().zip(&entries)
    {
        let figures = value.figures().ok_or_else(other)?;
        let beyond = || TextError::Content("its times add up to more than 64 bits".into());
        total = total.checked_add(figures.own_ns).ok_or_else(beyond)?;
        costs.push(FunctionCost {
            function,
            own: figures.own_ns,
            inclusive: Some(figures.inclusive_ns),
            samples: None,
            calls: Some(figures.calls),
            bytes: None,
            inlined_samples: 0,
        });
        let Object::Tuple(parts) = value else { continue };
        let Some(Object::Dictionary(callers)) = parts.get(4) else { continue };
        for (caller, figures) in callers {
            budget.step(OBJECT_BYTES)?;
            let figures = figures.figures().ok_or_else(other)?;
            edges.push(Edge {
                caller: Some(*numbers.get(&caller.place().ok_or_else(other)?).ok_or_else(other)?),
                callee,
                cost: figures.inclusive_ns,
                calls: Some(figures.calls),
            });
        }
    }
    if total == 0 {
        return Err(TextError::Empty);
    }
    let about = About {
        format: "cProfile",
        sampling: Some(EventAbout { clock: true, with_callers: true, ..EventAbout::default() }),
        event: TIME.into(),
        events: vec![TIME.into()],
        ..About::default()
    };
    Ok((about, FunctionTable { functions: costs, edges, total, unattributed: 0 }.sorted()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(parts: &[Vec<u8>]) -> Vec<u8> {
        [vec![b')', parts.len() as u8], parts.concat()].concat()
    }

    fn integer(number: i32) -> Vec<u8> {
        [vec![b'i'], number.to_le_bytes().to_vec()].concat()
    }

    fn seconds(number: f64) -> Vec<u8> {
        [vec![b'g'], number.to_le_bytes().to_vec()].concat()
    }

    fn place(line: i32, name: &str) -> Vec<u8> {
        let text = |text: &str| [vec![b'z', text.len() as u8], text.as_bytes().to_vec()].concat();
        tuple(&[text("/src/a.py"), integer(line), text(name)])
    }

    fn figures(calls: i32, own: f64, all: f64, more: &[Vec<u8>]) -> Vec<u8> {
        let own = [integer(calls), integer(calls), seconds(own), seconds(all)];
        tuple(&[&own[..], more].concat())
    }

    fn table() -> Vec<u8> {
        let callers =
            [b"{".to_vec(), place(1, "main"), figures(3, 0.5, 0.5, &[]), b"0".to_vec()].concat();
        let none = b"{0".to_vec();
        [
            b"{".to_vec(),
            place(1, "main"),
            figures(1, 0.25, 0.75, &[none]),
            place(7, "f"),
            figures(3, 0.5, 0.5, &[callers]),
            b"0".to_vec(),
        ]
        .concat()
    }

    #[test]
    fn times_and_calls_are_read() {
        let bytes = table();
        assert!(is_pstats(&bytes));
        let (about, table) = read(&bytes, None, &Budget::default()).unwrap();
        assert_eq!((about.event.as_str(), table.total), ("time", 750_000_000));
        let row = |cost: &FunctionCost| {
            (
                cost.function.symbol.clone(),
                cost.own / 1_000_000,
                cost.inclusive.unwrap() / 1_000_000,
                cost.calls,
            )
        };
        let rows: Vec<_> = table.functions.iter().map(row).collect();
        assert_eq!(rows, [("f".into(), 500, 500, Some(3)), ("main".into(), 250, 750, Some(1))]);
        let edge = Edge { caller: Some(1), callee: 0, cost: 500_000_000, calls: Some(3) };
        assert_eq!(table.edges, [edge]);
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        let fault = |bytes: &[u8]| read(bytes, None, &Budget::default()).unwrap_err().to_string();
        let bytes = table();
        assert!((0..bytes.len()).all(|end| read(&bytes[..end], None, &Budget::default()).is_err()));
        assert!(fault(&bytes[..30]).contains("ends too soon"));
        assert!(fault(b"{)\x03NNN0").contains("ends too soon"));
        assert!(fault(b"{)\x03NNNN0").contains("not a function with its times"));
        assert!(fault(&[b"{".to_vec(), b"))".repeat(50)].concat()).contains("nested too deep"));
        assert!(fault(b"{r\0\0\0\xff").contains("a reference to no object"));
        assert!(fault(b"{?").contains("a type that a profile has not"));
        assert_eq!(fault(b"{0"), TextError::Empty.to_string());
        let error = read(&bytes, Some("calls"), &Budget::default()).unwrap_err().to_string();
        assert_eq!(error, "it has no event calls; it has time");
    }
}
