//! Limits for stores that somebody else made. SQLite's advice for such files is <https://sqlite.org/security.html>.

use super::codec;
use opcost_sys::budget::Budget;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, Row, Statement};
use std::cell::Cell;

/// The most steps of SQLite's virtual machine for one store. Reading a run takes some 60.
const STEPS_MAX: u64 = 500_000_000;
/// Steps between two calls of the handler that counts them.
const STEPS_AT_ONCE: i32 = 10_000;
/// The longest value, bytes: no plan and no packed profile is as long.
const VALUE_BYTES_MAX: i32 = 128 << 20;
/// The memory that a value of a row takes beside its bytes.
const VALUE_BYTES: u64 = 64;

/// Makes a connection distrust its file: nothing that is stored in the file is executed.
pub(super) fn distrust(connection: &Connection) -> rusqlite::Result<()> {
    let off = [
        DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA,
        DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
        DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
    ];
    for option in off {
        connection.set_db_config(option, false)?;
    }
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.pragma_update(None, "cell_size_check", true)
}

/// Bounds the work that a file of somebody else's can cause.
pub(super) fn bound(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_COLUMN, 64)?;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, 16 << 10)?;
    let mut steps = 0;
    let count = move || {
        steps += STEPS_AT_ONCE as u64;
        steps > STEPS_MAX
    };
    connection.progress_handler(STEPS_AT_ONCE, Some(count))
}

/// The bytes that a store may still yield: never more than its file has, since sound values do not share bytes.
pub(super) struct Bytes {
    file: u64,
    left: Cell<u64>,
    pub(super) budget: Budget,
}

impl Bytes {
    /// `file`: length of the file, bytes; `limit_bytes`: what reading it may take.
    pub(super) fn new(file: u64, limit_bytes: u64) -> Bytes {
        Bytes { file, left: Cell::new(file), budget: Budget::new(limit_bytes, file) }
    }

    /// Begins to read anew.
    pub(super) fn begin(&self) {
        self.left.set(self.file);
    }

    /// Draws a row from the budget, and returns the bytes of its texts and blobs.
    pub(super) fn step(&self, row: &Row<'_>) -> rusqlite::Result<u64> {
        let columns = AsRef::<Statement<'_>>::as_ref(row).column_count();
        let mut taken: u64 = 0;
        for column in 0..columns {
            taken += row.get_ref(column)?.as_bytes().map_or(0, |bytes| bytes.len() as u64);
        }
        self.budget.step(taken + columns as u64 * VALUE_BYTES).map_err(codec::exceeded)?;
        Ok(taken)
    }

    /// Takes the bytes of a row's texts and blobs off.
    pub(super) fn take(&self, row: &Row<'_>) -> rusqlite::Result<()> {
        let taken = self.step(row)?;
        match self.left.get().checked_sub(taken) {
            Some(left) => self.left.set(left),
            None => return Err(codec::corrupt(0, "its values have more bytes than the file")),
        }
        Ok(())
    }
}
