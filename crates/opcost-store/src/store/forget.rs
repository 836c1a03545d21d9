//! Deletes whole recordings and releases the room that they took.

use super::schema::TABLES;
use super::{Store, StoreError, StoreErrorKind};
use opcost_model::recording::State;
use rusqlite::{TransactionBehavior, params};

/// The room that a store takes on disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Room {
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Bytes of the file that deleted recordings left unused.
    pub free_bytes: u64,
}

impl Store {
    /// Deletes recordings with all their runs, in one transaction: all of them or none.
    ///
    /// `ids`: whole identifiers; `running`: whether to delete also recordings that are being made, or whose process was killed.
    ///
    /// # Errors
    /// [`StoreError`]: a recording does not exist or is being made, or the store cannot be written.
    pub fn forget(&mut self, ids: &[String], running: bool) -> Result<(), StoreError> {
        let mut numbers = Vec::new();
        for id in ids {
            numbers.push(self.number_of(id)?);
        }
        let connection = &mut self.connection;
        let mut open = None;
        let mut forget = || -> rusqlite::Result<()> {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for (number, id) in numbers.iter().zip(ids) {
                // Checked within the transaction, since a process may just have resumed the recording.
                let state: String = transaction.query_row(
                    "SELECT state FROM recordings WHERE number = ?1",
                    [number],
                    |row| row.get(0),
                )?;
                if state == State::Running.word() && !running {
                    open = Some(id.clone());
                    return Ok(());
                }
                for table in &TABLES {
                    let statement = format!("DELETE FROM {} WHERE {} = ?1", table.name, table.key);
                    transaction.execute(&statement, params![number])?;
                }
            }
            transaction.commit()
        };
        forget().map_err(|error| StoreError::from_sqlite(&self.path, &error))?;
        match open {
            Some(id) => Err(StoreError::new(&self.path, StoreErrorKind::Running(id))),
            None => Ok(()),
        }
    }

    /// The room that the store takes.
    pub fn room(&self) -> Result<Room, StoreError> {
        self.sql(|connection| {
            let number = |name: &str| -> rusqlite::Result<u64> {
                connection
                    .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
                    .map(|value| value as u64)
            };
            let page = number("page_size")?;
            let pages = number("page_count")?;
            let free = number("freelist_count")?;
            Ok(Room { bytes: pages * page, free_bytes: free * page })
        })
    }

    /// Rewrites the store without the unused room of deleted recordings.
    ///
    /// The rewriting temporarily needs the same room again (<https://sqlite.org/lang_vacuum.html>).
    ///
    /// # Errors
    /// [`StoreError`]: another process has the store open, or the disk is full; the store is unchanged then.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.sql(|connection| {
            connection.execute_batch("VACUUM")?;
            // The log contains the new store until this checkpoint, and would keep its length.
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        })
    }
}
