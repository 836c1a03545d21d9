//! Events in perf's syntax: `cycles:u`, `{a,b}:k`, `r01c2`, `cpu/event=0x3c,umask=1/u`,
//! `syscalls:sys_enter_getpid` (`perf-list(1)`, `perf-stat(1)`).

use super::sysfs::{self, Code};
use super::{cache, is_clock};
use crate::source::{self, EventPlan};
use opcost_record::nearest::did_you_mean;
use opcost_record::{Domain, Family, METRICS, MetricKey, MetricRow};
use opcost_sys::perf::constants;
use std::collections::HashSet;
use std::path::Path;

/// An error in an event.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum SyntaxError {
    /// No event has this name.
    #[error("unknown event '{name}'{near}; see opcost list events")]
    Unknown {
        /// The name.
        name: String,
        /// Similar names.
        near: String,
    },
    /// The text is not an event list.
    #[error("event '{text}': {what}")]
    Malformed {
        /// The faulty part.
        text: String,
        /// The fault.
        what: String,
    },
}

pub(super) fn malformed(text: &str, what: impl Into<String>) -> SyntaxError {
    SyntaxError::Malformed { text: text.to_string(), what: what.into() }
}

/// Parses event lists into counters to open.
///
/// `texts` are the arguments of `-e`, each a comma-separated list; `sysfs` is the mount point of sysfs. Names of metrics that other
/// sources always read (`wall`, `tsc`) are accepted and give no counter. An event is named as in the table of metrics, by its
/// `name=` term, or else as it was written.
///
/// # Errors
/// [`SyntaxError`] names the event and the fault.
pub fn parse(texts: &[&str], sysfs: &Path) -> Result<Vec<EventPlan>, SyntaxError> {
    let mut events: Vec<EventPlan> = Vec::new();
    let mut groups = 0;
    for text in texts {
        for item in split(text, text)? {
            let Some(rest) = item.strip_prefix('{') else {
                events.extend(parse_event(item, "", None, sysfs)?);
                continue;
            };
            let (inner, modifiers) = rest
                .rsplit_once('}')
                .ok_or_else(|| malformed(item, "the group's '}' is missing"))?;
            let modifiers = match modifiers.strip_prefix(':') {
                Some("") => return Err(malformed(item, NO_MODIFIERS)),
                Some(modifiers) => modifiers,
                None if modifiers.is_empty() => "",
                None => return Err(malformed(item, "only ':' and modifiers may follow '}'")),
            };
            for member in split(inner, item)? {
                events.extend(parse_event(member, modifiers, Some(groups), sysfs)?);
            }
            groups += 1;
        }
    }
    for (index, event) in events.iter().enumerate() {
        let code = |event: &EventPlan| (event.kind, event.config, event.config1, event.config2);
        let same_name = events[..index].iter().find(|other| other.key == event.key);
        if same_name.is_some_and(|other| code(other) != code(event)) {
            return Err(malformed(&event.key.label(), "two different events have this name"));
        }
    }
    Ok(events)
}

const NO_MODIFIERS: &str = "the modifiers after ':' are missing; known are u, k and D";

/// A metric's label in tables, for a name as the user may write it (`cs:u` → `context-switches:u`).
pub fn canonical(text: &str) -> String {
    let text = text.trim();
    let parts = split_modifiers(text).and_then(|(name, own)| {
        let modifiers = Modifiers::parse(text, own, "")?;
        Ok(MetricKey::new(&shown_name(name), modifiers.domain, super::NAME))
    });
    match parts {
        Ok(key) if is_clock_name(&key.name) => key.name,
        Ok(key) => key.label(),
        Err(_) => text.to_string(),
    }
}

/// Splits a list at commas outside braces and slashes; `shown` is the text that errors name.
fn split<'a>(text: &'a str, shown: &str) -> Result<Vec<&'a str>, SyntaxError> {
    let mut items = Vec::new();
    let (mut start, mut braces, mut in_slashes) = (0, 0usize, false);
    for (at, c) in text.char_indices() {
        match c {
            '/' => in_slashes = !in_slashes,
            '{' if !in_slashes => braces += 1,
            '}' if !in_slashes => {
                braces =
                    braces.checked_sub(1).ok_or_else(|| malformed(shown, "'}' without '{'"))?;
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
        return Err(malformed(shown, "the group's '}' is missing"));
    }
    if in_slashes {
        return Err(malformed(shown, "the closing '/' is missing"));
    }
    if items.iter().any(|item| item.is_empty()) {
        return Err(malformed(shown, "an event is empty; separate events by single commas"));
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
        let what = match group {
            Some(_) => "a group cannot hold a group",
            None => "braces stand around a group and nothing before them: {a,b}:u",
        };
        return Err(malformed(text, what));
    }
    // Labels are words: readings are passed on with fields separated by white space.
    if text.contains(char::is_whitespace) {
        return Err(malformed(text, "white space inside an event"));
    }
    let (name, own_modifiers) = split_modifiers(text)?;
    let modifiers = Modifiers::parse(text, own_modifiers, group_modifiers)?;
    let code = match name.split_once('/') {
        Some((pmu, terms)) => {
            let terms = terms.strip_suffix('/').unwrap_or(terms);
            if terms.contains('/') {
                return Err(malformed(text, "only modifiers may follow the closing '/'"));
            }
            check_given_name(text, terms)?;
            sysfs::resolve(sysfs, text, pmu, terms)?
        }
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
    // The kernel's clocks count both modes in any case, so only the label for both modes is true.
    let clock = is_clock(code.kind, code.config);
    let domain = if clock { Domain::All } else { modifiers.domain };
    Ok(Some(EventPlan {
        key: MetricKey::new(&shown_name(name), domain, super::NAME),
        kind: code.kind,
        config: code.config,
        config1: code.config1,
        config2: code.config2,
        pinned: modifiers.pinned,
        group,
    }))
}

/// An event's name in tables: the `name=` term of a PMU's event, or else the usual name.
fn shown_name(name: &str) -> String {
    if let Some((_, terms)) = name.split_once('/') {
        return given_name(terms).unwrap_or(name).to_string();
    }
    match MetricRow::find(name) {
        Some(row) => row.name.to_string(),
        None => cache::usual_name(name).unwrap_or_else(|| name.to_string()),
    }
}

fn given_name(terms: &str) -> Option<&str> {
    terms.trim_end_matches('/').split(',').find_map(|term| term.strip_prefix("name="))
}

/// Refuses a name that is not a plain word, or that another event has.
fn check_given_name(text: &str, terms: &str) -> Result<(), SyntaxError> {
    let Some(name) = given_name(terms) else { return Ok(()) };
    let letter = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || !name.chars().all(letter) {
        return Err(malformed(text, "name= takes letters, digits, '-', '_' and '.'"));
    }
    if is_plain(name) {
        return Err(malformed(text, format!("'{name}' is the name of another event; choose one")));
    }
    Ok(())
}

/// Whether a name without ':' and '/' is an event or a metric on every machine.
fn is_plain(name: &str) -> bool {
    MetricRow::find(name).is_some() || generic(name).is_some() || raw_digits(name).is_some()
}

fn is_clock_name(name: &str) -> bool {
    constants::generic_event(name).is_some_and(|event| is_clock(event.kind, event.config))
}

/// Splits off the modifiers: after the last '/' of a PMU event, or else after the last ':' unless that ':' belongs to a tracepoint.
fn split_modifiers(text: &str) -> Result<(&str, &str), SyntaxError> {
    let (name, modifiers) = match text.rfind('/') {
        Some(end) => match text.split_at(end + 1) {
            (name, "") => return Ok((name, "")),
            (name, rest) => (name, rest.strip_prefix(':').unwrap_or(rest)),
        },
        None => match text.rsplit_once(':') {
            None => return Ok((text, "")),
            Some((name, modifiers)) => (name, modifiers),
        },
    };
    if modifiers.is_empty() {
        return Err(malformed(text, NO_MODIFIERS));
    }
    // A tracepoint is system:event; in all other events modifiers follow a ':'.
    let letters = modifiers.chars().all(|c| "ukhpPGHDISeWbR".contains(c));
    let whole = name.contains([':', '/']) || is_plain(name);
    Ok(if letters || whole { (name, modifiers) } else { (text, "") })
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

/// The generic event with this name, in any of perf's spellings.
fn generic(name: &str) -> Option<constants::GenericEvent> {
    constants::generic_event(name).or_else(|| constants::generic_event(&cache::usual_name(name)?))
}

/// The digits of a raw code, `r` and hexadecimal digits.
fn raw_digits(name: &str) -> Option<&str> {
    let digits = name.strip_prefix('r').filter(|digits| !digits.is_empty())?;
    digits.chars().all(|c| c.is_ascii_hexdigit()).then_some(digits)
}

/// Resolves an event given by a plain name; `None` for a metric that another source reads.
fn named(name: &str, sysfs: &Path) -> Result<Option<Code>, SyntaxError> {
    if let Some(event) = generic(name) {
        return Ok(Some(Code { kind: event.kind, config: event.config, ..Code::default() }));
    }
    match MetricRow::find(name).filter(|row| row.source != super::NAME) {
        Some(row) if row.family == Family::Control => {
            return Err(malformed(
                name,
                "a condition of the run, read in every run and never judged; leave it out",
            ));
        }
        Some(_) => return Ok(None),
        None => {}
    }
    if let Some(digits) = raw_digits(name) {
        let config = u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() <= 16);
        let config = config.ok_or_else(|| malformed(name, "a raw code has at most 16 digits"))?;
        return Ok(Some(Code { kind: constants::KIND_RAW, config, ..Code::default() }));
    }
    if let Some((system, event)) = name.split_once(':') {
        return sysfs::tracepoint(sysfs, name, system, event).map(Some);
    }
    if let Some(code) = sysfs::core_event(sysfs, name)? {
        return Ok(Some(code));
    }
    let known = known_names(sysfs);
    Err(SyntaxError::Unknown {
        name: name.to_string(),
        near: did_you_mean(name, known.iter().map(String::as_str)),
    })
}

/// Every name without ':' and '/' that an event can have on this machine, each once.
fn known_names(sysfs: &Path) -> Vec<String> {
    let metrics = METRICS.iter().filter(|row| source::is_selectable(row));
    let metrics = metrics.map(|row| (row.name, row.aliases));
    let generic = constants::generic_events().map(|row| (row.name, row.aliases));
    let mut names: Vec<String> = metrics
        .chain(generic)
        .flat_map(|(name, aliases)| std::iter::once(name).chain(aliases.iter().copied()))
        .map(str::to_string)
        .chain(sysfs::core_events(sysfs))
        .collect();
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

#[cfg(test)]
#[path = "syntax_tests.rs"]
mod tests;
