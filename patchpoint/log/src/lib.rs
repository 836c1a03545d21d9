//! The macros of the crate `log`, whose disabled statements are one nop each.
//!
//! A statement of `log` loads the maximum level and compares it each time. Here each level has a key of
//! [`patchpoint`], and a statement is a site of its level's key: one nop where the level is off, and a
//! jump to the statement of `log` where it is on. Loggers, targets, filters and arguments stay `log`'s own.
//!
//! ```
//! use patchpoint_log::{LevelFilter, debug, info};
//!
//! patchpoint_log::set_max_level(LevelFilter::Info)?; // instead of log::set_max_level
//! info!("ready");
//! debug!("not shown, and its arguments are not evaluated: {}", unreachable!());
//! # Ok::<(), patchpoint_log::Error>(())
//! ```
//!
//! To convert a program, replace `use log::` by `use patchpoint_log::` in the files whose statements are hot, and call
//! [`refresh`] after any code that sets the maximum level of `log` itself, such as `env_logger::init`. Before that call no
//! statement of this crate's macros is executed. Files with `log`'s own macros are unaffected.
//!
//! Statements that are removed at compile time (`log`'s features `max_level_…` and `release_max_level_…`) leave no site.
//! The documentation of [`patchpoint`] lists the duties of a program with sites.

#![forbid(unsafe_code)]

pub use log::{
    Level, LevelFilter, Log, Metadata, MetadataBuilder, ParseLevelError, Record, RecordBuilder,
};
pub use log::{STATIC_MAX_LEVEL, SetLoggerError, logger, max_level, set_boxed_logger, set_logger};
pub use patchpoint::Error;
use patchpoint::{Branch, Transaction};

#[doc(hidden)]
pub use {log as __log, patchpoint as __patchpoint};

/// The key of each level: whether statements of the level are executed.
///
/// [`set_max_level`] and [`refresh`] change them together with the level of `log`; a tool that changes keys of a running
/// process (`opcost attach`) finds them by the names `log_error` to `log_trace`, and `log`'s own level still decides what a
/// statement does.
pub mod level {
    use super::Branch;

    /// Key of [`error!`](crate::error!).
    pub static ERROR: Branch = Branch::new(c"log_error", false);
    /// Key of [`warn!`](crate::warn!).
    pub static WARN: Branch = Branch::new(c"log_warn", false);
    /// Key of [`info!`](crate::info!).
    pub static INFO: Branch = Branch::new(c"log_info", false);
    /// Key of [`debug!`](crate::debug!).
    pub static DEBUG: Branch = Branch::new(c"log_debug", false);
    /// Key of [`trace!`](crate::trace!).
    pub static TRACE: Branch = Branch::new(c"log_trace", false);
}

/// Sets the maximum level of `log` and, in one transaction, the keys of all levels.
///
/// # Errors
/// [`Error`] as [`Transaction::commit`]: then neither the level nor a key has changed.
pub fn set_max_level(filter: LevelFilter) -> Result<(), Error> {
    let mut change = Transaction::new();
    change.set_branch(&level::ERROR, filter >= LevelFilter::Error);
    change.set_branch(&level::WARN, filter >= LevelFilter::Warn);
    change.set_branch(&level::INFO, filter >= LevelFilter::Info);
    change.set_branch(&level::DEBUG, filter >= LevelFilter::Debug);
    change.set_branch(&level::TRACE, filter >= LevelFilter::Trace);
    change.commit()?;
    log::set_max_level(filter);
    Ok(())
}

/// Sets the keys to `log`'s maximum level, for programs that set the level by `log` itself. Returns the level.
///
/// # Errors
/// [`Error`] as [`set_max_level`].
pub fn refresh() -> Result<LevelFilter, Error> {
    let filter = log::max_level();
    set_max_level(filter)?;
    Ok(filter)
}

/// Whether statements of a level are executed. This is a site, unless the level is removed at compile time.
#[doc(hidden)]
#[macro_export]
macro_rules! __executed {
    ($level:ident, $key:ident) => {
        $crate::Level::$level <= $crate::STATIC_MAX_LEVEL
            && $crate::__patchpoint::unlikely!($crate::level::$key)
    };
    // If the level is a constant, as it is nearly everywhere, one of these arms is left.
    ($level:expr) => {
        match $level {
            $crate::Level::Error => $crate::__executed!(Error, ERROR),
            $crate::Level::Warn => $crate::__executed!(Warn, WARN),
            $crate::Level::Info => $crate::__executed!(Info, INFO),
            $crate::Level::Debug => $crate::__executed!(Debug, DEBUG),
            $crate::Level::Trace => $crate::__executed!(Trace, TRACE),
        }
    };
}

/// As `log::error!`.
#[macro_export]
macro_rules! error {
    ($($argument:tt)+) => {
        if $crate::__executed!(Error, ERROR) {
            $crate::__log::error!($($argument)+)
        }
    };
}

/// As `log::warn!`.
#[macro_export]
macro_rules! warn {
    ($($argument:tt)+) => {
        if $crate::__executed!(Warn, WARN) {
            $crate::__log::warn!($($argument)+)
        }
    };
}

/// As `log::info!`.
#[macro_export]
macro_rules! info {
    ($($argument:tt)+) => {
        if $crate::__executed!(Info, INFO) {
            $crate::__log::info!($($argument)+)
        }
    };
}

/// As `log::debug!`.
#[macro_export]
macro_rules! debug {
    ($($argument:tt)+) => {
        if $crate::__executed!(Debug, DEBUG) {
            $crate::__log::debug!($($argument)+)
        }
    };
}

/// As `log::trace!`.
#[macro_export]
macro_rules! trace {
    ($($argument:tt)+) => {
        if $crate::__executed!(Trace, TRACE) {
            $crate::__log::trace!($($argument)+)
        }
    };
}

/// As `log::log!`.
#[macro_export]
macro_rules! log {
    (target: $target:expr, $level:expr, $($argument:tt)+) => {{
        let level: $crate::Level = $level;
        if $crate::__executed!(level) {
            $crate::__log::log!(target: $target, level, $($argument)+)
        }
    }};
    ($level:expr, $($argument:tt)+) => {{
        let level: $crate::Level = $level;
        if $crate::__executed!(level) {
            $crate::__log::log!(level, $($argument)+)
        }
    }};
}

/// As `log::log_enabled!`.
#[macro_export]
macro_rules! log_enabled {
    (target: $target:expr, $level:expr) => {{
        let level: $crate::Level = $level;
        $crate::__executed!(level) && $crate::__log::log_enabled!(target: $target, level)
    }};
    ($level:expr) => {{
        let level: $crate::Level = $level;
        $crate::__executed!(level) && $crate::__log::log_enabled!(level)
    }};
}
