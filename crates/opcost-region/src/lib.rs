//! Regions of your own program that opcost counts separately.
//!
//! ```
//! # fn parse() {}
//! let region = opcost_region::begin("parse");
//! for _ in 0..1000 {
//!     parse();
//! }
//! region.end(1000);
//! ```
//!
//! Run the program with `opcost measure --regions ./program`. The report has a row for each name. The row is per operation if you
//! pass a number of operations, and for all entries together if you pass 0.
//!
//! Without opcost a call is a load, a comparison and a jump. Regions may nest and overlap. A name has at most 200 bytes and no
//! blanks. docs/regions.md of opcost says what counts. `include/opcost.h` offers the same for C and C++.

#![warn(missing_docs)]

mod mark;

use mark::mark;
use std::borrow::Cow;
use std::env;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU8, Ordering};

/// The variable with which opcost asks for regions.
const VARIABLE: &str = "OPCOST_REGIONS";

const UNKNOWN: u8 = 0;
const ABSENT: u8 = 1;
/// Instructions without effect that the emulator recognises.
const MARKS: u8 = 2;
/// A socket; opcost reads the counters at its other end.
const SOCKET: u8 = 3;

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// An open region; dropping the value ends the region without a number of operations.
#[derive(Debug)]
#[must_use = "a region that is dropped at once counts nothing"]
pub struct Region<'a> {
    name: Cow<'a, str>,
    open: bool,
}

/// Begins a region.
///
/// `name`: at most 200 bytes without blanks; opcost refuses other names.
#[inline]
pub fn begin<'a>(name: impl Into<Cow<'a, str>>) -> Region<'a> {
    let region = Region { name: name.into(), open: true };
    match mode() {
        ABSENT => {}
        SOCKET => send('b', &region.name, 0),
        _ => {
            mark::<0x10>();
            mark_name(&region.name);
            mark::<0x11>();
        }
    }
    region
}

/// Does work in a region; `operations`: the number that the work performs, 0 if operations have no number.
#[inline]
pub fn measured<R>(name: &str, operations: u64, work: impl FnOnce() -> R) -> R {
    let region = begin(name);
    let result = work();
    region.end(operations);
    result
}

/// Whether opcost counts regions of this program.
#[inline]
pub fn is_counted() -> bool {
    mode() != ABSENT
}

impl Region<'_> {
    /// Ends the region; `operations`: the number performed since the begin, 0 if operations have no number.
    #[inline]
    pub fn end(mut self, operations: u64) {
        self.close(operations);
    }

    #[inline]
    fn close(&mut self, operations: u64) {
        self.open = false;
        match mode() {
            ABSENT => {}
            SOCKET => send('e', &self.name, operations),
            _ => {
                mark::<0x20>();
                mark_name(&self.name);
                mark::<0x21>();
                mark_number(operations);
                mark::<0x22>();
            }
        }
    }
}

impl Drop for Region<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.open {
            self.close(0);
        }
    }
}

#[inline]
fn mode() -> u8 {
    match MODE.load(Ordering::Relaxed) {
        UNKNOWN => find(),
        known => known,
    }
}

#[cold]
fn find() -> u8 {
    let mode = match env::var_os(VARIABLE) {
        Some(value) if value == "mark" && mark::EXISTS => MARKS,
        Some(value) if value.as_encoded_bytes().first() == Some(&b'/') => SOCKET,
        _ => ABSENT,
    };
    MODE.store(mode, Ordering::Relaxed);
    mode
}

#[cold]
fn mark_name(name: &str) {
    for byte in name.bytes() {
        mark::digit(byte & 15);
        mark::digit(byte >> 4);
    }
}

#[cold]
fn mark_number(mut number: u64) {
    while number > 0 {
        mark::digit((number & 15) as u8);
        number >>= 4;
    }
}

/// Sends a message and waits until opcost has read the counters.
#[cold]
fn send(kind: char, name: &str, operations: u64) {
    let Some(path) = env::var_os(VARIABLE) else { return };
    // A zero byte ends the message; opcost refuses any other control character.
    let name = name.replace('\0', "\u{1}");
    let message = format!("{kind}{operations} {name}\0");
    // If opcost does not answer, opcost itself has reported why.
    let Ok(mut stream) = UnixStream::connect(path) else { return };
    if stream.write_all(message.as_bytes()).is_ok() {
        let _ = stream.read(&mut [0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_opcost_nothing_is_counted_and_nothing_happens() {
        assert!(!is_counted());
        begin("a region").end(1);
        let open = begin(String::from("another"));
        assert_eq!(measured("inside", 1, || 7), 7);
        drop(open);
    }
}
