//! Events that the kernel names in sysfs and tracefs
//! (`Documentation/ABI/testing/sysfs-bus-event_source-devices-*`).

use super::syntax::{SyntaxError, malformed};
use opcost_record::nearest::did_you_mean;
use opcost_sys::perf::{constants, generic_events};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The fields of `perf_event_attr` that identify an event.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Code {
    pub(super) kind: u32,
    pub(super) config: u64,
    pub(super) config1: u64,
    pub(super) config2: u64,
}

fn devices(sysfs: &Path) -> PathBuf {
    sysfs.join("bus/event_source/devices")
}

/// Whether a PMU counts events of CPU cores, so that its events may be given without its name.
///
/// Hybrid x86 and Arm drivers list their CPUs in `cpus`; the two oldest names have no such file.
fn is_core(dir: &Path, pmu: &str) -> bool {
    pmu == "cpu" || pmu == "cpum_cf" || dir.join("cpus").is_file()
}

/// Whether a file of an `events` folder describes the event before its last dot.
fn is_companion(name: &str) -> bool {
    [".unit", ".scale", ".per-pkg", ".snapshot"].iter().any(|ending| name.ends_with(ending))
}

/// Resolves `pmu/terms/`.
///
/// Each term is `name` or `name=value` with a name from the PMU's `format` folder, or the name of one of its `events`; a generic
/// event may have any of its names. Counts are raw: the factor of an `event.scale` file is not applied.
pub(super) fn resolve(
    sysfs: &Path,
    text: &str,
    pmu: &str,
    terms: &str,
) -> Result<Code, SyntaxError> {
    let dir = devices(sysfs).join(pmu);
    let kind = read(&dir.join("type")).filter(|_| is_file_name(pmu));
    let kind = kind
        .and_then(|kind| kind.parse().ok())
        .ok_or_else(|| malformed(text, no_such_pmu(sysfs, pmu)))?;
    if let Some(cpus) = read(&dir.join("cpumask")).filter(|cpus| !cpus.is_empty()) {
        return Err(malformed(
            text,
            format!(
                "PMU '{pmu}' counts for all processes together (read on CPUs {cpus}), never for one; choose an event of a core PMU"
            ),
        ));
    }
    let mut code = Code { kind, ..Code::default() };
    if !terms.is_empty() {
        for term in terms.split(',') {
            set_term(&dir, text, term, &mut code, true)?;
        }
    }
    Ok(code)
}

fn no_such_pmu(sysfs: &Path, pmu: &str) -> String {
    let pmus = names(&devices(sysfs));
    let near = did_you_mean(pmu, pmus.iter().map(String::as_str));
    let list = if pmus.is_empty() { "none, or sysfs is hidden".into() } else { pmus.join(", ") };
    let none = if core_pmus(sysfs).is_empty() {
        "; none of them counts for the CPU's cores (opcost doctor says why)"
    } else {
        ""
    };
    format!("no PMU '{pmu}' here{near}; there are: {list}{none}")
}

/// Terms that perf uses for sampling.
const SAMPLING_TERMS: [&str; 7] =
    ["period", "freq", "time", "call-graph", "stack-size", "max-stack", "branch_type"];

fn set_term(
    dir: &Path,
    text: &str,
    term: &str,
    code: &mut Code,
    aliases: bool,
) -> Result<(), SyntaxError> {
    let term = term.trim();
    let (name, value) = match term.split_once('=') {
        // The name for tables; the parser has read it already.
        Some(("name", _)) if aliases => return Ok(()),
        Some((name, value)) => {
            let number = number(value).ok_or_else(|| {
                malformed(text, format!("{name}='{value}' is not a number of 64 bits"))
            })?;
            (name, Some(number))
        }
        None => (term, None),
    };
    match name {
        "" => return Err(malformed(text, "a term is empty; separate terms by single commas")),
        "config" => code.config = value.unwrap_or(1),
        "config1" => code.config1 = value.unwrap_or(1),
        "config2" => code.config2 = value.unwrap_or(1),
        _ if SAMPLING_TERMS.contains(&name) => {
            return Err(malformed(
                text,
                format!("'{name}' is for sampling; leave it out to count"),
            ));
        }
        _ => {
            if let Some(format) = read(&dir.join("format").join(name)) {
                return set_field(text, name, &format, value.unwrap_or(1), code);
            }
            let alias = event_terms(dir, name).filter(|_| aliases && value.is_none());
            let Some(alias) = alias else {
                let mut known = names(&dir.join("events"));
                known.retain(|name| !is_companion(name));
                known.extend(names(&dir.join("format")));
                let near = did_you_mean(name, known.iter().map(String::as_str));
                return Err(malformed(text, format!("no event or term '{name}'{near}")));
            };
            for term in alias.split(',') {
                set_term(dir, text, term, code, false)?;
            }
        }
    }
    Ok(())
}

/// The terms that a PMU's event stands for. sysfs has one name of a generic event (`cpu-cycles`), and users may give another
/// (`cycles`).
fn event_terms(dir: &Path, name: &str) -> Option<String> {
    if is_companion(name) {
        return None;
    }
    let terms_of = |name: &str| read(&dir.join("events").join(name));
    terms_of(name).or_else(|| {
        let row = generic_events().find(|row| row.name == name || row.aliases.contains(&name))?;
        std::iter::once(row.name).chain(row.aliases.iter().copied()).find_map(terms_of)
    })
}

/// Stores a value in the bits that a format file names: `config:0-7,32-35`.
fn set_field(
    text: &str,
    name: &str,
    format: &str,
    value: u64,
    code: &mut Code,
) -> Result<(), SyntaxError> {
    let unreadable = || {
        malformed(
            text,
            format!("the kernel describes term '{name}' as '{format}', which is unknown here"),
        )
    };
    let (word, ranges) = format.split_once(':').ok_or_else(unreadable)?;
    let target = match word {
        "config" => &mut code.config,
        "config1" => &mut code.config1,
        "config2" => &mut code.config2,
        _ => return Err(unreadable()),
    };
    let mut rest = value;
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let low: u32 = low.trim().parse().map_err(|_| unreadable())?;
        let high: u32 = high.trim().parse().map_err(|_| unreadable())?;
        if low > high || high > 63 {
            return Err(unreadable());
        }
        let bits = high - low + 1;
        let mask = u64::MAX >> (64 - bits);
        *target = *target & !(mask << low) | (rest & mask) << low;
        rest = rest.checked_shr(bits).unwrap_or(0);
    }
    if rest != 0 {
        return Err(malformed(
            text,
            format!("{value:#x} does not fit term '{name}' (bits {ranges} of {word})"),
        ));
    }
    Ok(())
}

/// Resolves `system:event` through tracefs.
pub(super) fn tracepoint(
    sysfs: &Path,
    text: &str,
    system: &str,
    event: &str,
) -> Result<Code, SyntaxError> {
    if text.contains(['*', '?', '[']) {
        return Err(malformed(text, "patterns are not expanded; name one tracepoint"));
    }
    if !is_file_name(system) || !is_file_name(event) {
        return Err(malformed(text, "neither an event nor a tracepoint (system:event)"));
    }
    let root = tracefs(sysfs).map_err(|what| malformed(text, what))?;
    let id = match std::fs::read_to_string(root.join(system).join(event).join("id")) {
        Ok(id) => id.trim().parse().ok(),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(malformed(text, TRACEFS_FORBIDDEN));
        }
        Err(_) => None,
    };
    let config = id.ok_or_else(|| {
        let dir = root.join(system);
        let (what, given, known) = if dir.is_dir() {
            (format!("'{system}' has no tracepoint '{event}'"), event, names(&dir))
        } else {
            (format!("'{system}' is neither an event nor has tracepoints"), system, names(&root))
        };
        malformed(text, format!("{what}{}", did_you_mean(given, known.iter().map(String::as_str))))
    })?;
    Ok(Code { kind: constants::KIND_TRACEPOINT, config, ..Code::default() })
}

const TRACEFS_FORBIDDEN: &str = "the numbers of tracepoints are in tracefs, which this user may not read; \
     run as root, or: mount -o remount,mode=755 /sys/kernel/tracing";

/// The folder of the tracepoints, or why it cannot be read.
fn tracefs(sysfs: &Path) -> Result<PathBuf, &'static str> {
    let mut forbidden = false;
    for dir in ["kernel/tracing/events", "kernel/debug/tracing/events"] {
        let root = sysfs.join(dir);
        match std::fs::metadata(&root) {
            Ok(found) if found.is_dir() => return Ok(root),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => forbidden = true,
            _ => {}
        }
    }
    Err(if forbidden {
        TRACEFS_FORBIDDEN
    } else {
        "the numbers of tracepoints are in tracefs, which is not mounted; mount -t tracefs tracefs /sys/kernel/tracing"
    })
}

/// Resolves an event of a core PMU without the PMU's name; `None` if no core PMU has the event.
///
/// # Errors
/// Several core PMUs have the event, and each would count on its own CPUs only.
pub(super) fn core_event(sysfs: &Path, name: &str) -> Result<Option<Code>, SyntaxError> {
    if !is_file_name(name) || is_companion(name) {
        return Ok(None);
    }
    let pmus = core_pmus(sysfs);
    let having = |pmu: &&String| devices(sysfs).join(pmu).join("events").join(name).is_file();
    match pmus.iter().filter(having).collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        [pmu] => resolve(sysfs, name, pmu, name).map(Some),
        several => {
            let named: Vec<String> = several.iter().map(|pmu| format!("{pmu}/{name}/")).collect();
            Err(malformed(
                name,
                format!(
                    "each kind of core counts it for itself; choose {} and keep the runs on its CPUs with --cpu",
                    named.join(" or ")
                ),
            ))
        }
    }
}

fn core_pmus(sysfs: &Path) -> Vec<String> {
    let mut pmus = names(&devices(sysfs));
    pmus.retain(|pmu| is_core(&devices(sysfs).join(pmu), pmu));
    pmus
}

/// Names of the events of the core PMUs.
pub(super) fn core_events(sysfs: &Path) -> Vec<String> {
    let events = |pmu: String| names(&devices(sysfs).join(pmu).join("events"));
    core_pmus(sysfs).into_iter().flat_map(events).filter(|name| !is_companion(name)).collect()
}

/// Every event named in sysfs, as `pmu/event/`.
pub fn all_events(sysfs: &Path) -> Vec<String> {
    let mut events = Vec::new();
    for pmu in names(&devices(sysfs)) {
        for event in names(&devices(sysfs).join(&pmu).join("events")) {
            if !is_companion(&event) {
                events.push(format!("{pmu}/{event}/"));
            }
        }
    }
    events
}

/// Whether a text is a plain file name, without parts that lead to another folder.
fn is_file_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('/') && text != "." && text != ".."
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

/// A number in perf's notation: decimal, or hexadecimal after `0x`, without a sign.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    let plain = digits.chars().all(|c| c.is_digit(radix));
    plain.then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}

#[cfg(test)]
#[path = "sysfs_tests.rs"]
mod tests;
