//! Tests every macro at every level: what reaches the logger, what is evaluated, and what the sites hold.

use patchpoint_log::{Level, LevelFilter, Log, Metadata, Record};
use patchpoint_log::{debug, error, info, log, log_enabled, trace, warn};
use std::sync::Mutex;

struct Lines(Mutex<Vec<String>>);

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() != "unwanted"
    }
    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{} {} {}", record.level(), record.target(), record.args());
            self.0.lock().unwrap().push(line);
        }
    }
    fn flush(&self) {}
}

static LINES: Lines = Lines(Mutex::new(Vec::new()));
/// The levels belong to one test at a time.
static LEVELS: Mutex<()> = Mutex::new(());

/// Executes every kind of statement; returns the number of evaluated arguments, and the logged lines.
#[inline(never)]
fn all(level: Level) -> (usize, Vec<String>) {
    let mut evaluated = 0;
    let mut count = || {
        evaluated += 1;
        evaluated
    };
    error!("{}", count());
    warn!(target: "other", "{}", count());
    info!("{:?}", count());
    debug!("{} {}", count(), "two");
    trace!("{number}", number = count());
    log!(level, "{}", count());
    log!(target: "unwanted", level, "{}", count());
    let lines = std::mem::take(&mut *LINES.0.lock().unwrap());
    (evaluated, lines)
}

#[test]
fn each_level_executes_its_statements_and_those_above() {
    let _levels = LEVELS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let _ = patchpoint_log::set_logger(&LINES);
    let wanted = [
        "ERROR it::levels 1",
        "WARN other 2",
        "INFO it::levels 3",
        "DEBUG it::levels 4 two",
        "TRACE it::levels 5",
    ];
    for pass in 0..2 {
        for (number, filter) in LevelFilter::iter().enumerate() {
            patchpoint_log::set_max_level(filter).unwrap();
            assert_eq!(patchpoint_log::max_level(), filter);
            for level in Level::iter() {
                let more = usize::from(level <= filter);
                let (evaluated, lines) = all(level);
                // The logger's own refusal of a target comes after the arguments were evaluated, as with `log`.
                assert_eq!(evaluated, number + 2 * more, "pass {pass}, {filter}, {level}");
                assert_eq!(lines.len(), number + more, "{lines:?}");
                assert_eq!(lines[..number], wanted[..number]);
                assert_eq!(log_enabled!(level), level <= filter);
                assert!(!log_enabled!(target: "unwanted", level));
            }
            assert_eq!(log_enabled!(Level::Trace), filter == LevelFilter::Trace);
        }
        patchpoint::init().unwrap();
    }
    patchpoint_log::set_max_level(LevelFilter::Off).unwrap();
}

#[test]
fn a_level_that_log_was_given_is_taken_over() {
    let _levels = LEVELS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    patchpoint_log::set_max_level(LevelFilter::Off).unwrap();
    let executed = || {
        let mut executed = 0;
        debug!("{}", {
            executed += 1;
            executed
        });
        executed
    };
    ::log::set_max_level(LevelFilter::Debug);
    assert_eq!(executed(), 0);
    assert_eq!(patchpoint_log::refresh().unwrap(), LevelFilter::Debug);
    assert_eq!(executed(), 1);
    // Lowered by `log` alone: its own check still holds.
    ::log::set_max_level(LevelFilter::Off);
    assert_eq!(executed(), 0);
    assert_eq!(patchpoint_log::refresh().unwrap(), LevelFilter::Off);
}

/// One statement with nothing around it.
#[inline(never)]
fn traced(number: u64) -> u64 {
    trace!("{number}");
    number.rotate_left(3)
}

#[test]
fn a_disabled_statement_is_a_nop_and_an_enabled_one_a_jump() {
    let _levels = LEVELS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for (filter, word) in
        [(LevelFilter::Off, "nop"), (LevelFilter::Trace, "jump"), (LevelFilter::Debug, "nop")]
    {
        patchpoint_log::set_max_level(filter).unwrap();
        assert_eq!(traced(8), 64);
        let key = patchpoint_log::level::TRACE.raw();
        let all = patchpoint::sites().unwrap();
        let of_trace: Vec<_> = all.iter().filter(|site| std::ptr::eq(site.key, key)).collect();
        // Without sites, as on other architectures, statements load and test their keys.
        assert!(all.is_empty() || of_trace.len() >= 2, "{of_trace:?}");
        for site in of_trace {
            assert_eq!(site.state, word, "{site:?}");
        }
    }
    patchpoint_log::set_max_level(LevelFilter::Off).unwrap();
}
