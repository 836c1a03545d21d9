//! Selects the samples of a file that the user wants.

use std::ops::RangeInclusive;

/// The conditions on a sample: for each kind with values, the sample must have one of the values.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Filter {
    /// Threads' names.
    commands: Vec<String>,
    pids: Vec<i32>,
    tids: Vec<i32>,
    /// Files of the interrupted code, by path or file name; `[kernel]` is one.
    modules: Vec<String>,
    /// Times, nanoseconds since the first sample.
    spans_ns: Vec<RangeInclusive<u64>>,
}

/// Why a text is not a filter.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FilterError {
    /// The text has another form.
    #[error(
        "'{0}' is no filter; known are comm=NAME, pid=NUMBER, tid=NUMBER, dso=FILE, time=FROM..TO"
    )]
    Form(String),
    /// A process or thread that is not a number.
    #[error("'{0}': expected the number of a process or thread, such as pid=1234")]
    Number(String),
    /// A time of another form.
    #[error(
        "'{0}': expected seconds since the first sample, such as time=0.5..2, time=1.. or time=..2"
    )]
    Time(String),
}

/// The facts about a sample that a filter reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts<'s> {
    pub(super) command: Option<&'s str>,
    pub(super) pid: Option<i32>,
    pub(super) tid: Option<i32>,
    pub(super) module: Option<&'s str>,
    /// Nanoseconds since the first sample.
    pub(super) time_ns: Option<u64>,
}

impl Filter {
    /// Adds a filter that the user wrote.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn add(&mut self, text: &str) -> Result<(), FilterError> {
        let (key, value) = text
            .split_once('=')
            .filter(|(_, value)| !value.is_empty())
            .ok_or_else(|| FilterError::Form(text.into()))?;
        let number = || value.parse().map_err(|_| FilterError::Number(text.into()));
        match key {
            "comm" => self.commands.push(value.into()),
            "dso" => self.modules.push(value.into()),
            "pid" => self.pids.push(number()?),
            "tid" => self.tids.push(number()?),
            "time" => {
                self.spans_ns.push(span(value).ok_or_else(|| FilterError::Time(text.into()))?);
            }
            _ => return Err(FilterError::Form(text.into())),
        }
        Ok(())
    }

    /// Whether the filter keeps every sample.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Whether the filter selects processes.
    pub(super) fn has_pid(&self) -> bool {
        !self.pids.is_empty()
    }

    /// Whether a sample is wanted; a fact that is unknown matches no value.
    pub(super) fn keeps(&self, facts: &Facts<'_>) -> bool {
        let known = |list: &[String], value: Option<&str>| {
            let is = |wanted: &String| Some(wanted.as_str()) == value;
            list.is_empty() || list.iter().any(is)
        };
        let number = |list: &[i32], value: Option<i32>| {
            list.is_empty() || value.is_some_and(|value| list.contains(&value))
        };
        let module = facts.module.map(|path| path.rsplit('/').next().unwrap_or(path));
        let time =
            |span: &RangeInclusive<u64>| facts.time_ns.is_some_and(|time| span.contains(&time));
        known(&self.commands, facts.command)
            && number(&self.pids, facts.pid)
            && number(&self.tids, facts.tid)
            && (known(&self.modules, facts.module) || known(&self.modules, module))
            && (self.spans_ns.is_empty() || self.spans_ns.iter().any(time))
    }
}

/// Parses `FROM..TO`, in seconds; either end may be missing.
fn span(text: &str) -> Option<RangeInclusive<u64>> {
    let (from, to) = text.split_once("..")?;
    let ns = |text: &str, without: u64| match text {
        "" => Some(without),
        text => {
            let seconds: f64 = text.parse().ok()?;
            (seconds.is_finite() && seconds >= 0.0).then(|| (seconds * 1e9).round() as u64)
        }
    };
    let (from, to) = (ns(from, 0)?, ns(to, u64::MAX)?);
    (from <= to).then_some(from..=to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(texts: &[&str]) -> Filter {
        let mut filter = Filter::default();
        texts.iter().for_each(|text| filter.add(text).unwrap());
        filter
    }

    #[test]
    fn values_of_one_kind_add_up_and_kinds_exclude() {
        let facts = Facts {
            command: Some("node"),
            pid: Some(7),
            tid: Some(8),
            module: Some("/lib/libc.so.6"),
            time_ns: Some(1_500_000_000),
        };
        let keeps = |texts: &[&str]| filter(texts).keeps(&facts);
        assert!(keeps(&[]) && filter(&[]).is_empty());
        assert!(keeps(&["comm=sh", "comm=node"]));
        assert!(!keeps(&["comm=node", "pid=8"]));
        assert!(keeps(&["tid=8", "pid=7", "dso=libc.so.6"]) && keeps(&["dso=/lib/libc.so.6"]));
        assert!(!keeps(&["dso=libc.so"]));
        assert!(
            keeps(&["time=1.5..1.5"]) && keeps(&["time=1.."]) && keeps(&["time=..2", "time=3.."])
        );
        assert!(!keeps(&["time=1.6.."]) && !keeps(&["time=..0.1"]));
        // An unknown fact matches no value.
        for text in ["comm=x", "pid=1", "tid=1", "dso=x", "time=.."] {
            assert!(!filter(&[text]).keeps(&Facts::default()), "{text}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        let refused = |text: &str| Filter::default().add(text).unwrap_err().to_string();
        assert!(refused("node").contains("comm=NAME"));
        assert!(refused("comm=").contains("comm=NAME"));
        assert!(refused("user=root").contains("comm=NAME"));
        assert!(refused("pid=x").contains("pid=1234"));
        for text in ["time=1", "time=2..1", "time=a..b", "time=-1..2"] {
            assert!(refused(text).contains("time=0.5..2"), "{text}");
        }
    }
}
