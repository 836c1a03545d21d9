//! Events that the kernel names in sysfs and tracefs
//! (`Documentation/ABI/testing/sysfs-bus-event_source-devices-*`).

use super::syntax::{SyntaxError, malformed};
use crate::nearest::nearest;
use opcost_sys::perf::constants;
use std::path::{Path, PathBuf};

/// What `perf_event_attr` needs to name an event.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Code {
    pub(super) kind: u32,
    pub(super) config: u64,
    pub(super) config1: u64,
    pub(super) config2: u64,
}

/// Names of the PMUs of CPU cores, whose events may be given without the PMU's name.
const CORE_PMUS: [&str; 3] = ["cpu", "cpu_core", "cpu_atom"];

fn devices(sysfs: &Path) -> PathBuf {
    sysfs.join("bus/event_source/devices")
}

/// Resolves `pmu/terms/`.
///
/// Each term is `name`, `name=value` with a name from the PMU's `format` folder, or the name of
/// one of its `events`.
pub(super) fn resolve(
    sysfs: &Path,
    text: &str,
    pmu: &str,
    terms: &str,
) -> Result<Code, SyntaxError> {
    let dir = devices(sysfs).join(pmu);
    let kind = read(&dir.join("type")).and_then(|kind| kind.parse().ok()).ok_or_else(|| {
        let pmus = names(&devices(sysfs));
        malformed(
            text,
            format!(
                "no PMU '{pmu}' here{}; there are: {}",
                nearest(pmu, pmus.iter().map(String::as_str)),
                pmus.join(", ")
            ),
        )
    })?;
    if let Some(cpus) = read(&dir.join("cpumask")).filter(|cpus| !cpus.is_empty()) {
        return Err(malformed(
            text,
            format!(
                "PMU '{pmu}' counts whole sockets (on CPUs {cpus}), never one process; choose an event of a core PMU"
            ),
        ));
    }
    let mut code = Code { kind, ..Code::default() };
    for term in terms.split(',').filter(|term| !term.is_empty()) {
        set_term(&dir, text, term, &mut code, true)?;
    }
    Ok(code)
}

fn set_term(
    dir: &Path,
    text: &str,
    term: &str,
    code: &mut Code,
    aliases: bool,
) -> Result<(), SyntaxError> {
    let (name, value) = match term.split_once('=') {
        Some((name, value)) => (
            name,
            Some(
                number(value)
                    .ok_or_else(|| malformed(text, format!("'{value}' is not a number")))?,
            ),
        ),
        None => (term, None),
    };
    match name {
        "config" => code.config = value.unwrap_or(1),
        "config1" => code.config1 = value.unwrap_or(1),
        "config2" => code.config2 = value.unwrap_or(1),
        _ => {
            if let Some(format) = read(&dir.join("format").join(name)) {
                return set_field(text, name, &format, value.unwrap_or(1), code);
            }
            let alias = read(&dir.join("events").join(name)).filter(|_| aliases && value.is_none());
            let Some(alias) = alias else {
                let mut known = names(&dir.join("events"));
                known.retain(|name| !name.contains('.'));
                known.extend(names(&dir.join("format")));
                return Err(malformed(
                    text,
                    format!(
                        "no event or term '{name}'{}",
                        nearest(name, known.iter().map(String::as_str))
                    ),
                ));
            };
            for term in alias.split(',') {
                set_term(dir, text, term, code, false)?;
            }
        }
    }
    Ok(())
}

/// Puts a value into the bits that a format file names: `config:0-7,32-35`.
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
    let roots = ["kernel/tracing/events", "kernel/debug/tracing/events"].map(|dir| sysfs.join(dir));
    let Some(root) = roots.iter().find(|root| root.is_dir()) else {
        return Err(malformed(
            text,
            "tracepoints are read from tracefs, which is not mounted; mount -t tracefs tracefs /sys/kernel/tracing",
        ));
    };
    let config = read(&root.join(system).join(event).join("id")).and_then(|id| id.parse().ok());
    let config = config.ok_or_else(|| {
        let known = names(&root.join(system));
        let near = nearest(event, known.iter().map(String::as_str));
        malformed(text, format!("no such tracepoint{near}, or no right to read it"))
    })?;
    Ok(Code { kind: constants::KIND_TRACEPOINT, config, ..Code::default() })
}

/// Resolves an event of a core PMU given without the PMU's name.
pub(super) fn core_event(sysfs: &Path, name: &str) -> Result<Option<Code>, SyntaxError> {
    for pmu in CORE_PMUS {
        if devices(sysfs).join(pmu).join("events").join(name).is_file() {
            return resolve(sysfs, name, pmu, name).map(Some);
        }
    }
    Ok(None)
}

/// Names of the events of the core PMUs.
pub(super) fn core_events(sysfs: &Path) -> Vec<String> {
    CORE_PMUS.iter().flat_map(|pmu| names(&devices(sysfs).join(pmu).join("events"))).collect()
}

/// Every event that sysfs names, as `pmu/event/`.
pub fn all_events(sysfs: &Path) -> Vec<String> {
    let mut events = Vec::new();
    for pmu in names(&devices(sysfs)) {
        for event in names(&devices(sysfs).join(&pmu).join("events")) {
            // `event.unit`, `event.scale` describe `event`.
            if !event.contains('.') {
                events.push(format!("{pmu}/{event}/"));
            }
        }
    }
    events
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

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
