//! The plugin's arguments.

use crate::api;
use crate::decode::Repeat;
use crate::steps::Wanted;
use opcost_record::metric::ONE_IN_MAX;
use std::ffi::c_int;
use std::path::PathBuf;

/// When the plugin counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Window {
    /// Between markers.
    Markers,
    /// From the first instruction to the end, as one region.
    Whole,
    /// Never: the plugin only keeps the guest's clock, as in runs that count.
    Never,
}

/// The kind of memory accesses that count the iterations of each repeated string instruction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Filters {
    by_kind: [(c_int, u64); 7],
}

impl Default for Filters {
    /// Returns the filters that QEMU 7.2 needs: its inline filter R means stores and W means all accesses.
    fn default() -> Self {
        // An input writes twice: QEMU first checks whether it may write.
        let divisor = |kind: Repeat| if kind == Repeat::Ins { 2 } else { 1 };
        Filters {
            by_kind: Repeat::TABLE.map(|(kind, _, _, stores)| {
                (if stores > 0 { api::READ } else { api::WRITE }, divisor(kind))
            }),
        }
    }
}

impl Filters {
    /// Returns the filter of a kind, as QEMU takes it.
    pub(crate) fn filter(&self, kind: Repeat) -> c_int {
        self.by_kind[kind as usize].0
    }

    /// Returns the number of accesses per iteration that pass the filter.
    pub(crate) fn divisor(&self, kind: Repeat) -> u64 {
        self.by_kind[kind as usize].1
    }

    /// Reads one argument such as `filter-movs=R/1`.
    pub(crate) fn parse_one(mut self, key: &str, value: &str) -> Result<Filters, String> {
        let fail = || {
            format!(
                "argument '{key}={value}' is no filter: expected filter-KIND=FILTER/DIVISOR with \
                 KIND of {}, FILTER of R, W, RW and DIVISOR of 1 to 4",
                Repeat::TABLE.map(|(_, word, ..)| word).join(", ")
            )
        };
        let kind = key.strip_prefix("filter-").ok_or_else(fail)?;
        let (kind, ..) =
            Repeat::TABLE.iter().find(|(_, word, ..)| *word == kind).ok_or_else(fail)?;
        let (filter, divisor) = value.split_once('/').ok_or_else(fail)?;
        let filter = match filter {
            "R" => api::READ,
            "W" => api::WRITE,
            "RW" => api::READ_WRITE,
            _ => return Err(fail()),
        };
        let divisor = divisor.parse().ok().filter(|number| (1..=4).contains(number));
        self.by_kind[*kind as usize] = (filter, divisor.ok_or_else(fail)?);
        Ok(self)
    }
}

/// All arguments of the plugin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    /// Where the report goes.
    pub(crate) out: PathBuf,
    /// The file of symbols, if given.
    pub(crate) symbols: Option<PathBuf>,
    /// The file of the functions at whose entries amounts are read, if given.
    pub(crate) watch: Option<PathBuf>,
    pub(crate) window: Window,
    /// Whether each region begins and ends once a run, as around a command; further markers are forged.
    pub(crate) once: bool,
    /// Whether a whole machine is emulated.
    pub(crate) system: bool,
    /// The file of the core of which only caches and predictors are modelled.
    pub(crate) model: Option<PathBuf>,
    /// The file of the core whose cycles are modelled.
    pub(crate) cycles: Option<PathBuf>,
    /// The number of instructions that each modelled instruction stands for; 1 models all.
    pub(crate) one_in: u64,
    /// Whether cost is attributed to calling contexts.
    pub(crate) profile: bool,
    /// Whether the cost of each instruction is reported by its address, too, and where branches and indirect calls go.
    pub(crate) addresses: bool,
    /// The operation whose steps are recorded.
    pub(crate) steps: Option<Wanted>,
    /// The function whose calls are the operations that are recorded.
    pub(crate) stepped_call: Option<String>,
    /// Whether the lines and pages that the work touches are counted.
    pub(crate) footprint: bool,
    /// How many operations the work has; 0 if that is not known.
    pub(crate) operations: u64,
    /// Whether blocks may have stubs; without them the plugin counts the same, more slowly.
    pub(crate) stubs: bool,
    /// Whether raw counts of the memory filters are reported.
    pub(crate) probe: bool,
    /// The accesses that count iterations.
    pub(crate) filters: Filters,
}

impl Arguments {
    /// Reads the arguments `texts`, each `key=value`.
    ///
    /// `system`: whether QEMU emulates a whole machine.
    ///
    /// # Errors
    /// The message names the argument and its permitted values.
    pub(crate) fn parse(texts: &[String], system: bool) -> Result<Arguments, String> {
        let mut out = None;
        let mut arguments = Arguments {
            out: PathBuf::new(),
            symbols: None,
            watch: None,
            window: Window::Markers,
            once: false,
            system,
            model: None,
            cycles: None,
            one_in: 1,
            profile: true,
            addresses: false,
            steps: None,
            stepped_call: None,
            footprint: false,
            operations: 0,
            stubs: true,
            probe: false,
            filters: Filters::default(),
        };
        for text in texts {
            let (key, value) = text.split_once('=').unwrap_or((text, ""));
            let one_of = |words: [&str; 2]| {
                words.iter().position(|word| *word == value).ok_or_else(|| {
                    format!("argument '{text}' is wrong: {key} is {} or {}", words[0], words[1])
                })
            };
            match key {
                "out" if !value.is_empty() => out = Some(PathBuf::from(value)),
                "symbols" if !value.is_empty() => arguments.symbols = Some(value.into()),
                "watch" if !value.is_empty() => arguments.watch = Some(value.into()),
                "cycles" if !value.is_empty() => arguments.cycles = Some(value.into()),
                "model" if !value.is_empty() => arguments.model = Some(value.into()),
                "out" | "symbols" | "watch" | "cycles" | "model" => {
                    return Err(format!("argument '{text}' lacks a path"));
                }
                "one-in" => {
                    let number = value
                        .parse()
                        .ok()
                        .filter(|number| (1..=ONE_IN_MAX).contains(number))
                        .map(u64::from);
                    arguments.one_in = number.ok_or_else(|| {
                        format!(
                            "argument '{text}' is wrong: one-in is a number from 1 to {ONE_IN_MAX}"
                        )
                    })?;
                }
                "window" => {
                    arguments.window = match value {
                        "markers" => Window::Markers,
                        "whole" => Window::Whole,
                        "never" => Window::Never,
                        _ => {
                            return Err(format!(
                                "argument '{text}' is wrong: window is markers, whole or never"
                            ));
                        }
                    };
                }
                "steps" => {
                    let number = Some(value).filter(|value| *value != "median");
                    let number = number.map(|value| value.parse().ok().filter(|one| *one > 0));
                    let wrong = || {
                        format!("argument '{text}' is wrong: steps is median or a number from 1")
                    };
                    let operation = match number {
                        None => None,
                        Some(number) => Some(number.ok_or_else(wrong)?),
                    };
                    arguments.steps = Some(Wanted { operation, operations: 0 });
                }
                "stepped-call" => {
                    let name = from_hex(value).filter(|name| !name.is_empty());
                    let wrong = || format!("argument '{text}' is no name in hexadecimal");
                    arguments.stepped_call = Some(name.ok_or_else(wrong)?);
                }
                "operations" => {
                    let wrong = || format!("argument '{text}' is wrong: operations is a number");
                    arguments.operations = value.parse().map_err(|_| wrong())?;
                }
                "once" => arguments.once = one_of(["off", "on"])? == 1,
                "mode" => {
                    let wanted = one_of(["user", "system"])? == 1;
                    if wanted != system {
                        let here = if system { "a whole machine" } else { "one program" };
                        return Err(format!("argument '{text}', but this QEMU emulates {here}"));
                    }
                }
                "profile" => arguments.profile = one_of(["off", "on"])? == 1,
                "addresses" => arguments.addresses = one_of(["off", "on"])? == 1,
                "footprint" => arguments.footprint = one_of(["off", "on"])? == 1,
                "stubs" => arguments.stubs = one_of(["off", "on"])? == 1,
                "probe" => arguments.probe = one_of(["off", "on"])? == 1,
                key if key.starts_with("filter-") => {
                    arguments.filters = arguments.filters.parse_one(key, value)?;
                }
                _ => {
                    return Err(format!(
                        "unknown argument '{text}'; known are out, symbols, watch, window, once, mode, \
                         model, cycles, one-in, profile, addresses, steps, stepped-call, footprint, operations, stubs, probe and filter-KIND"
                    ));
                }
            }
        }
        if arguments.model.is_some() && arguments.cycles.is_some() {
            let why =
                "arguments model=PATH and cycles=PATH exclude one another: one core is modelled";
            return Err(why.into());
        }
        if arguments.one_in > 1 && arguments.cycles.is_none() {
            return Err(
                "argument one-in needs cycles=PATH: it says how many of them are modelled".into()
            );
        }
        if arguments.watch.is_some() && !arguments.profile {
            return Err("argument watch=PATH needs profile=on".into());
        }
        let modelled = arguments.model.is_some() || arguments.cycles.is_some();
        if arguments.addresses && (!arguments.profile || modelled) {
            return Err("argument addresses=on needs profile=on and no model".into());
        }
        if arguments.steps.is_some() && (!arguments.profile || modelled || arguments.addresses) {
            return Err("argument steps needs profile=on, no addresses and no model".into());
        }
        if arguments.footprint && (!arguments.profile || modelled || arguments.addresses) {
            return Err("argument footprint=on needs profile=on, no addresses and no model".into());
        }
        let operations = arguments.operations;
        arguments.steps = arguments.steps.map(|wanted| Wanted { operations, ..wanted });
        // A callback sees every block.
        arguments.stubs &= arguments.steps.is_none() && !arguments.footprint;
        arguments.out = out.ok_or("argument out=PATH is missing: where the report goes")?;
        Ok(arguments)
    }
}

/// Reads a text that is written as the hexadecimal numbers of its bytes.
fn from_hex(text: &str) -> Option<String> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    let bytes = digits.map(|pair| byte(pair).filter(|_| pair.len() == 2));
    String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[&str]) -> Result<Arguments, String> {
        Arguments::parse(&texts.iter().map(|text| text.to_string()).collect::<Vec<_>>(), false)
    }

    #[test]
    fn arguments_are_read() {
        let arguments = parse(&[
            "out=/r",
            "symbols=/s",
            "window=whole",
            "mode=user",
            "model=/c",
            "profile=off",
            "once=on",
            "filter-lods=RW/2",
        ])
        .unwrap();
        assert_eq!(arguments.out, PathBuf::from("/r"));
        assert_eq!(arguments.window, Window::Whole);
        assert_eq!(arguments.model, Some("/c".into()));
        let call = parse(&["out=/r", "steps=2", "stepped-call=662c67"]).unwrap();
        assert_eq!(call.stepped_call.as_deref(), Some("f,g"));
        assert!(arguments.once && !arguments.profile && !arguments.probe);
        assert_eq!(arguments.filters.filter(Repeat::Lods), api::READ_WRITE);
        assert_eq!(arguments.filters.divisor(Repeat::Lods), 2);
        assert_eq!(arguments.filters.filter(Repeat::Movs), api::READ);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (texts, part) in [
            (&["window=whole"][..], "out=PATH is missing"),
            (&["out="], "lacks a path"),
            (&["out=/r", "cycles="], "lacks a path"),
            (&["out=/r", "model=/c", "cycles=/c"], "exclude one another"),
            (&["out=/r", "cycles=/c", "one-in=0"], "a number from 1 to"),
            (&["out=/r", "one-in=16"], "needs cycles=PATH"),
            (&["out=/r", "profile=off", "addresses=on"], "needs profile=on"),
            (&["out=/r", "model=/c", "addresses=on"], "needs profile=on and no model"),
            (&["out=/r", "mode=system"], "emulates one program"),
            (&["out=/r", "window=door"], "window is markers, whole or never"),
            (&["out=/r", "lunch=1"], "unknown argument 'lunch=1'"),
            (&["out=/r", "steps=0"], "median or a number from 1"),
            (&["out=/r", "stepped-call=6"], "no name in hexadecimal"),
            (&["out=/r", "operations=x"], "operations is a number"),
            (&["out=/r", "steps=median", "profile=off"], "needs profile=on, no addresses"),
            (&["out=/r", "footprint=on", "model=/c"], "footprint=on needs profile=on"),
            (&["out=/r", "filter-movs=X/1"], "is no filter"),
            (&["out=/r", "filter-movs=R/9"], "is no filter"),
            (&["out=/r", "model="], "lacks a path"),
        ] {
            let message = parse(texts).unwrap_err();
            assert!(message.contains(part), "{texts:?}: {message}");
        }
    }
}
