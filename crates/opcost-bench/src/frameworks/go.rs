//! Go's `testing.B`: `-test.benchtime=Nx` runs N iterations.
//!
//! The collector, the scheduler and the allocator run when they like, so their instructions differ in each run. The program's other
//! functions do not, and these are counted. The scheduler may interrupt one, which then begins anew (morestack), so the least of several counts
//! counts. Some of them also print the result, whose digits differ: they are left out, and named.

use super::{Framework, Subject, contains};
use crate::line::Name;
use crate::runner::{Runner, Trial};
use anyhow::Result;

pub(super) const ROW: Framework = Framework {
    name: "Go",
    driven: "`-test.benchtime=Nx`; without Go's runtime, whose work differs in each run",
    tried: &["1.26.8"],
    recognise: |bytes| contains(bytes, "test.benchtime").then(|| version(bytes)),
    list,
    trials,
    counts,
    only_steady: true,
};

/// Packages whose functions run for Go itself; names of assembly code have no package.
const RUNTIME: [&str; 8] = [
    "runtime.",
    "runtime/",
    "internal/runtime/",
    "internal/abi.",
    "internal/poll.",
    "testing.",
    "sync.",
    "syscall.",
];

fn counts(name: &Name) -> bool {
    let symbol = &name.0;
    symbol.contains('.') && !RUNTIME.iter().any(|package| symbol.starts_with(package))
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

fn trials(_: &Runner<'_>, subject: &Subject, name: &str, _: usize) -> Result<Vec<Trial>> {
    // Go matches each part between slashes by itself.
    let parts: Vec<String> =
        name.split('/').map(|part| format!("^{}$", super::literal(part))).collect();
    let pattern = format!("-test.bench={}", parts.join("/"));
    let trial = |iterations: u64| {
        let count = format!("-test.benchtime={iterations}x");
        let mut invocation =
            subject.invocation.with(["-test.run=^$", &pattern, &count, "-test.cpu=1"]);
        invocation.variables.extend([
            ("GOMAXPROCS".into(), "1".into()),
            ("GOGC".into(), "off".into()),
            ("GODEBUG".into(), "asyncpreemptoff=1".into()),
        ]);
        Trial { invocation, orders: None, iterations }
    };
    Ok([1, 10, 20, 40].map(trial).to_vec())
}
