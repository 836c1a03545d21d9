//! Events in perf's syntax: `cycles:u`, `{a,b}:k`, `r01c2`, `cpu/event=0x3c,umask=1/u`,
//! `syscalls:sys_enter_getpid` (`perf-list(1)`, `perf-stat(1)`).

use super::sysfs::{self, Code};
use crate::nearest::nearest;
use crate::plan::EventPlan;
use crate::source;
use opcost_record::{Domain, METRICS, MetricKey, MetricRow};
use opcost_sys::perf::constants;
use std::path::Path;

/// What is wrong with an event.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum SyntaxError {
    /// No event has this name.
    #[error("unknown event '{name}'{near}; see opcost list events")]
    Unknown {
        /// The name.
        name: String,
        /// Names that resemble it.
        near: String,
    },
    /// The text is not an event list.
    #[error("event '{text}': {what}")]
    Malformed {
        /// The part that is wrong.
        text: String,
        /// What is wrong with it.
        what: String,
    },
}

pub(super) fn malformed(text: &str, what: impl Into<String>) -> SyntaxError {
    SyntaxError::Malformed { text: text.to_string(), what: what.into() }
}

/// Parses event lists into counters to open.
///
/// `texts` are the arguments of `-e`, each a comma-separated list; `sysfs` is where sysfs is
/// mounted. Names of metrics that other sources always read (`wall`, `tsc`) are accepted and
/// give no counter.
///
/// # Errors
/// [`SyntaxError`] names the event and what is wrong with it.
pub fn parse(texts: &[&str], sysfs: &Path) -> Result<Vec<EventPlan>, SyntaxError> {
    let mut events = Vec::new();
    let mut groups = 0;
    for text in texts {
        for item in split(text)? {
            match item.strip_prefix('{') {
                None => events.extend(parse_event(item, "", None, sysfs)?),
                Some(rest) => {
                    let (inner, modifiers) = rest
                        .rsplit_once('}')
                        .ok_or_else(|| malformed(item, "the group's '}' is missing"))?;
                    let modifiers = match modifiers.strip_prefix(':') {
                        Some(modifiers) => modifiers,
                        None if modifiers.is_empty() => "",
                        None => {
                            return Err(malformed(item, "only ':' and modifiers may follow '}'"));
                        }
                    };
                    for member in split(inner)? {
                        events.extend(parse_event(member, modifiers, Some(groups), sysfs)?);
                    }
                    groups += 1;
                }
            }
        }
    }
    Ok(events)
}

/// The label a metric has in tables, for a name as the user may write it (`cs:u` → `context-switches:u`).
pub fn canonical(text: &str) -> String {
    let (name, suffix) = match text.split_once(':') {
        Some((name, suffix)) => (name, format!(":{suffix}")),
        None => (text, String::new()),
    };
    match MetricRow::find(name) {
        Some(row) => format!("{}{suffix}", row.name),
        None => text.to_string(),
    }
}

/// Splits a list at commas that are outside braces and slashes.
fn split(text: &str) -> Result<Vec<&str>, SyntaxError> {
    let mut items = Vec::new();
    let (mut start, mut braces, mut in_slashes) = (0, 0usize, false);
    for (at, c) in text.char_indices() {
        match c {
            '/' => in_slashes = !in_slashes,
            '{' if !in_slashes => braces += 1,
            '}' if !in_slashes => {
                braces = braces.checked_sub(1).ok_or_else(|| malformed(text, "'}' without '{'"))?;
            }
            ',' if braces == 0 && !in_slashes => {
                items.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(text[start..].trim());
    if braces > 0 {
        return Err(malformed(text, "the group's '}' is missing"));
    }
    if in_slashes {
        return Err(malformed(text, "the closing '/' is missing"));
    }
    if items.iter().any(|item| item.is_empty()) {
        return Err(malformed(text, "an event is empty; separate events by single commas"));
    }
    Ok(items)
}

fn parse_event(
    text: &str,
    group_modifiers: &str,
    group: Option<u32>,
    sysfs: &Path,
) -> Result<Option<EventPlan>, SyntaxError> {
    if text.contains(['{', '}']) {
        return Err(malformed(text, "a group cannot hold a group"));
    }
    let (name, own_modifiers) = split_modifiers(text);
    let modifiers = Modifiers::parse(text, own_modifiers, group_modifiers)?;
    let code = match name.split_once('/') {
        Some((pmu, terms)) => sysfs::resolve(sysfs, text, pmu, terms.trim_end_matches('/'))?,
        None => match named(name, sysfs)? {
            Some(code) => code,
            None if own_modifiers.is_empty() && group.is_none() => return Ok(None),
            None => {
                return Err(malformed(
                    text,
                    "read by another source, so it takes no modifier and no group",
                ));
            }
        },
    };
    let name = MetricRow::find(name).map_or(name, |row| row.name);
    Ok(Some(EventPlan {
        key: MetricKey::new(name, modifiers.domain, super::NAME),
        kind: code.kind,
        config: code.config,
        config1: code.config1,
        config2: code.config2,
        pinned: modifiers.pinned,
        group,
    }))
}

/// Splits off the modifiers: after the last '/' of a PMU event, else after a ':' that is not a
/// tracepoint's.
fn split_modifiers(text: &str) -> (&str, &str) {
    if let Some(end) = text.rfind('/') {
        let (name, modifiers) = text.split_at(end + 1);
        return (name, modifiers.strip_prefix(':').unwrap_or(modifiers));
    }
    match text.rsplit_once(':') {
        Some((name, modifiers))
            if !modifiers.is_empty() && modifiers.chars().all(|c| "ukhpPGHDISeWbR".contains(c)) =>
        {
            (name, modifiers)
        }
        _ => (text, ""),
    }
}

struct Modifiers {
    domain: Domain,
    pinned: bool,
}

impl Modifiers {
    fn parse(text: &str, own: &str, of_group: &str) -> Result<Modifiers, SyntaxError> {
        let (mut user, mut kernel, mut pinned) = (false, false, false);
        for c in own.chars().chain(of_group.chars()) {
            match c {
                'u' => user = true,
                'k' => kernel = true,
                'D' => pinned = true,
                'p' | 'P' => {
                    return Err(malformed(
                        text,
                        "':p' asks for precise sampling; counting takes u, k and D",
                    ));
                }
                _ => {
                    return Err(malformed(
                        text,
                        format!("unknown modifier '{c}'; known are u, k and D"),
                    ));
                }
            }
        }
        let domain = match (user, kernel) {
            (true, false) => Domain::User,
            (false, true) => Domain::Kernel,
            _ => Domain::All,
        };
        Ok(Modifiers { domain, pinned })
    }
}

/// Resolves an event given by a plain name; `None` for a metric that another source reads.
fn named(name: &str, sysfs: &Path) -> Result<Option<Code>, SyntaxError> {
    if let Some(event) = constants::generic_event(name) {
        return Ok(Some(Code { kind: event.kind, config: event.config, ..Code::default() }));
    }
    if MetricRow::find(name).is_some_and(|row| row.source != super::NAME) {
        return Ok(None);
    }
    if let Some(digits) =
        name.strip_prefix('r').filter(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()))
    {
        if !digits.is_empty() {
            let config = u64::from_str_radix(digits, 16)
                .map_err(|_| malformed(name, "a raw code has at most 16 digits"))?;
            return Ok(Some(Code { kind: constants::KIND_RAW, config, ..Code::default() }));
        }
    }
    if let Some((system, event)) = name.split_once(':') {
        return sysfs::tracepoint(sysfs, name, system, event).map(Some);
    }
    if let Some(code) = sysfs::core_event(sysfs, name)? {
        return Ok(Some(code));
    }
    let known: Vec<String> = METRICS
        .iter()
        .filter(|row| source::is_selectable(row))
        .flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied()))
        .map(str::to_string)
        .chain(sysfs::core_events(sysfs))
        .collect();
    Err(SyntaxError::Unknown {
        name: name.to_string(),
        near: nearest(name, known.iter().map(String::as_str)),
    })
}
