//! Go's `testing.B`: `-test.benchtime=Nx` runs N iterations.
//!
//! **A copy of the program is counted whose runtime keeps still.** Its `sysmon`, which interrupts goroutines by time, only waits.
//! `runtime.GC`, which `testing` calls before each run, returns at once. `ReadMemStats` does too: it stops the world, so its thousands of
//! instructions depend on when threads began. With one processor of Go's, without its collector, goroutines then run in the same order
//! each time. opcost counts from the beginning of `ReadMemStats`, which `StartTimer` and `ResetTimer` call, to that of `StopTimer`, all
//! threads together.
//!
//! Pages come to the heap as threads began, which differs. Functions that two counts show different are left out, and named; so are those
//! of the page heap, and locks where they do not cost the same for each iteration.

use super::{Framework, Steadiness, Subject, contains};
use crate::line::Name;
use crate::runner::{Bounds, Counted, Runner, Trial};
use anyhow::{Context, Result};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use opcost_base::exit::{Status, WithStatus, fail};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(super) const ROW: Framework = Framework {
    name: "Go",
    driven: "`-test.benchtime=Nx`; a copy of the program without preemption by time, garbage collection and ReadMemStats, between StartTimer and StopTimer",
    tried: &["1.26.8"],
    recognise: |bytes| contains(bytes, "test.benchtime").then(|| version(bytes)),
    list,
    trials,
    steadiness,
    is_interpreted: false,
};

/// Functions of the page heap, and locks, which it takes.
const PAGES: [&str; 15] = [
    "runtime.(*mheap)",
    "runtime.(*pageAlloc)",
    "runtime.(*pallocBits)",
    "runtime.(*pallocData)",
    "runtime.(*pageBits)",
    "runtime.(*pageCache)",
    "runtime.(*scavenge",
    "runtime.(*scavChunk",
    "runtime.(*sysMemStat)",
    "runtime.(*spanInlineMarkBits)",
    "runtime.mergeSummaries",
    "runtime.sys",
    "runtime.lock",
    "runtime.unlock",
    "runtime.futex",
];

fn steadiness(name: &Name) -> Steadiness {
    match PAGES.iter().any(|page| name.0.starts_with(page)) {
        true => Steadiness::OnLine,
        false => Steadiness::Repeated,
    }
}

/// What the runtime's functions do in the counted copy: `sysmon` calls pause(2) for ever, and the others return.
const STILL: [(&str, &[u8]); 3] = [
    ("runtime.sysmon", &[0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7]),
    ("runtime.GC", &[0xc3]),
    ("runtime.ReadMemStats", &[0xc3]),
];

/// The part of the program's work that follows a result.
const RESULT: &str = "testing.BenchmarkResult.String";

/// The program's copy, in opcost's folder.
fn still(runner: &Runner<'_>, program: &Path) -> Result<PathBuf> {
    let below = program.strip_prefix("/").unwrap_or(program);
    let copy = runner.folder().join("still").join(below);
    if copy.exists() {
        return Ok(copy);
    }
    let mut bytes = std::fs::read(program)
        .with_context(|| format!("cannot read {}", program.display()))
        .status(Status::Usage)?;
    for (function, code) in STILL {
        let place = place(&bytes, function)
            .and_then(|place| bytes.get_mut(place..place + code.len()))
            .ok_or_else(|| {
                fail(
                    Status::WorkFailed,
                    format!("its program has no symbol {function}; build it without -ldflags=-s"),
                )
            })?;
        place.copy_from_slice(code);
    }
    std::fs::create_dir_all(copy.parent().unwrap_or(&copy))
        .and_then(|()| std::fs::write(&copy, bytes))
        .and_then(|()| std::fs::set_permissions(&copy, Permissions::from_mode(0o700)))
        .with_context(|| format!("cannot write {}", copy.display()))
        .status(Status::Missing)?;
    Ok(copy)
}

/// The place of a function's code in the program's file.
fn place(bytes: &[u8], function: &str) -> Option<usize> {
    let file = object::File::parse(bytes).ok()?;
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(function))?;
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    let below = symbol.address().checked_sub(section.address())?;
    usize::try_from(section.file_range()?.0 + below).ok()
}

fn version(bytes: &[u8]) -> Option<String> {
    // The linker writes the version behind this mark (debug/buildinfo).
    let at = super::find(bytes, b"\xff Go buildinf:")?;
    let rest = &bytes[at + 32..bytes.len().min(at + 64)];
    let text = String::from_utf8_lossy(rest);
    let text = &text[text.find("go1")? + 2..];
    let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    Some(text[..end].to_owned())
}

fn list(runner: &Runner<'_>, subject: &Subject) -> Result<Vec<String>> {
    let printed = runner.printed(&subject.invocation.with([
        "-test.run=^$",
        "-test.bench=.",
        "-test.benchtime=1x",
        "-test.cpu=1",
    ]))?;
    let lines =
        printed.lines().filter(|line| line.starts_with("Benchmark") && line.contains("ns/op"));
    Ok(lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

fn trials(runner: &Runner<'_>, subject: &Subject, name: &str, _: usize) -> Result<Vec<Trial>> {
    // Go matches each part between slashes by itself.
    let parts: Vec<String> =
        name.split('/').map(|part| format!("^{}$", super::literal(part))).collect();
    let pattern = format!("-test.bench={}", parts.join("/"));
    let program = still(runner, &subject.invocation.program)?;
    let trial = |iterations: u64| {
        let count = format!("-test.benchtime={iterations}x");
        let mut invocation =
            subject.invocation.with(["-test.run=^$", &pattern, &count, "-test.cpu=1"]);
        invocation.program.clone_from(&program);
        invocation.variables.extend([
            ("GOMAXPROCS".into(), "1".into()),
            ("GOGC".into(), "off".into()),
            ("GODEBUG".into(), "asyncpreemptoff=1".into()),
        ]);
        let bounds =
            Bounds { from: "runtime.ReadMemStats", to: "testing.(*B).StopTimer", without: RESULT };
        Trial { invocation, window: Counted::Functions(bounds), iterations }
    };
    Ok([1, 10, 20, 40].map(trial).to_vec())
}
