//! The clock of a benchmark: it moves by a chosen step at each reading, so the number of iterations that a framework chooses by time
//! depends on the steps alone.
//!
//! **The clock is a library in front of the C library's.** A vDSO, a libc and a standard library read the clock in different ways, but
//! all dynamically linked programs find `clock_gettime` by its name. The emulator does not see these readings in QEMU 10, where the
//! program has a vDSO. A static program keeps the computer's clock, so its benchmarks can be counted only if the framework takes a
//! number of iterations.

use anyhow::{Context, Result};
use opcost_base::exit::{Status, WithStatus};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The variable with the clock's orders (`clock.c`).
pub(crate) const VARIABLE: &str = "OPCOST_BENCH";

#[cfg(has_clock)]
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));
#[cfg(not(has_clock))]
const LIBRARY: &[u8] = &[];

/// A step after which any framework has had enough, nanoseconds: ten seconds.
pub(crate) const LONG_NS: u64 = 10_000_000_000;

/// Writes the library to a folder.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("clock.so");
    std::fs::write(&path, LIBRARY)
        .with_context(|| format!("cannot write {}", path.display()))
        .status(Status::Missing)?;
    Ok(path)
}

/// The readings between which the program's instructions count. Readings are numbered from 1.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Window {
    /// The first reading of the window.
    pub(crate) first: u64,
    /// The last one, which ends the program.
    pub(crate) last: u64,
    /// The number of readings after which the pattern begins again.
    pub(crate) period: u64,
    /// The place in the period after which instructions count.
    pub(crate) on: u64,
    /// The place in the period before which they stop to count.
    pub(crate) off: u64,
}

impl Window {
    /// What the program does between two readings.
    pub(crate) fn between(first: u64, last: u64) -> Window {
        Window { first, last, period: last + 1 - first, on: 0, off: last - first }
    }
}

/// What the clock does in one run of a program.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Orders {
    /// From which reading on the clock moves by how many nanoseconds at each reading.
    pub(crate) steps: Vec<(u64, u64)>,
    /// What counts; `None` lets the program end by itself.
    pub(crate) window: Option<Window>,
    /// Whether only readings by the library's own timer are numbered.
    pub(crate) named: bool,
}

impl Orders {
    /// A clock that moves by the same step at each reading.
    pub(crate) fn step(ns: u64) -> Orders {
        Orders { steps: vec![(1, ns)], ..Orders::default() }
    }

    /// The orders as the library reads them. `out`: the file for the number of readings.
    pub(crate) fn encode(&self, out: &Path) -> String {
        let steps: Vec<String> =
            self.steps.iter().map(|(from, ns)| format!("{from}:{ns}")).collect();
        let mut text = format!("steps={}", steps.join("/"));
        if let Some(Window { first, last, period, on, off }) = self.window {
            // Writing to a String does not fail.
            let _ = write!(text, ";first={first};last={last};period={period};on={on};off={off}");
        }
        if self.named {
            text.push_str(";named=1");
        }
        let _ = write!(text, ";out={}", out.display());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_written_as_the_library_reads_them() {
        let orders = Orders {
            steps: vec![(1, 10), (7, 2_000)],
            window: Some(Window { first: 3, last: 9, period: 4, on: 1, off: 2 }),
            named: true,
        };
        let text = orders.encode(Path::new("/tmp/out"));
        assert_eq!(
            text,
            "steps=1:10/7:2000;first=3;last=9;period=4;on=1;off=2;named=1;out=/tmp/out"
        );
        assert_eq!(Window::between(3, 4), Window { first: 3, last: 4, period: 2, on: 0, off: 1 });
    }
}
