//! One recording as a file for sending: a packed store with nothing else in it.
//!
//! Rows are copied unchanged, with their checksums, so a recording arrives to the last digit.

use super::forget::TABLES;
use super::{Store, StoreError, StoreErrorKind};
use crate::recording::{Recording, State};
use rusqlite::types::Value;
use rusqlite::{Connection, TransactionBehavior};
use std::io::{self, Read, Write};
use std::path::Path;

/// The beginning of files of every version; the version and a line end follow.
const NAME: &[u8] = b"opcost-recording ";
/// The beginning of files of this version. One frame of zstd with a checksum follows (RFC 8878).
const HEADER: &[u8] = b"opcost-recording 1\n";

/// The outcome of taking over a recording from another store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrival {
    /// The recording was added to this store.
    New,
    /// This store already had the recording.
    Known,
}

/// Whether a file begins like a packed recording.
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(NAME)
}

impl Store {
    /// Packs a recording into the contents of a file.
    ///
    /// `id`: an identifier, the beginning of one, or `last`; `scratch`: a folder for a temporary store.
    ///
    /// # Errors
    /// [`StoreError`]: the recording does not exist, is damaged or being made, or `scratch` has no room.
    pub fn pack(&self, id: &str, scratch: &Path) -> Result<Vec<u8>, StoreError> {
        let recording = self.read(id)?;
        if recording.state == State::Running {
            return Err(StoreError::new(&self.path, StoreErrorKind::Running(recording.id)));
        }
        let path = scratch.join("packed.sqlite");
        let mut alone = Store::open_for_writing(&path)?;
        alone.copy(self, &recording.id)?;
        // In this mode the store is one file.
        alone.sql(|connection| connection.pragma_update(None, "journal_mode", "delete"))?;
        drop(alone);
        packed(&path)
            .map_err(|error| StoreError::new(&path, StoreErrorKind::Other(error.to_string())))
    }

    /// Takes over every recording of another store. A recording that is damaged there, or a different recording of the same
    /// identifier here, ends the transfer; recordings transferred before stay.
    ///
    /// Returns the identifier and the outcome of each recording.
    ///
    /// # Errors
    /// [`StoreError`] names the store at fault.
    pub fn take_over(&mut self, other: &Store) -> Result<Vec<(String, Arrival)>, StoreError> {
        let mut arrived = Vec::new();
        for head in other.list()? {
            let theirs = other.read(&head.id)?;
            let here: bool = self.sql(|connection| {
                let query = "SELECT count(*) > 0 FROM recordings WHERE id = ?1";
                connection.query_row(query, [&head.id], |row| row.get(0))
            })?;
            let arrival = match here {
                false => {
                    self.copy(other, &head.id)?;
                    Arrival::New
                }
                true if is_same(&self.read(&head.id)?, &theirs) => Arrival::Known,
                true => {
                    return Err(StoreError::new(&self.path, StoreErrorKind::Taken(head.id)));
                }
            };
            arrived.push((head.id, arrival));
        }
        Ok(arrived)
    }

    fn copy(&mut self, other: &Store, id: &str) -> Result<(), StoreError> {
        let number = other.number_of(id)?;
        let mut rows = Vec::new();
        for (table, key) in tables() {
            let read = other.sql(|connection| read(connection, table, key, number))?;
            rows.push((table, key, read));
        }
        let connection = &mut self.connection;
        let mut copy = || -> rusqlite::Result<()> {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let query = "SELECT coalesce(max(number), 0) + 1 FROM recordings";
            let free: i64 = transaction.query_row(query, [], |row| row.get(0))?;
            for (table, key, (columns, rows)) in &rows {
                let places: Vec<String> = (1..=columns.len()).map(|n| format!("?{n}")).collect();
                let statement = format!(
                    "INSERT INTO {table}({}) VALUES({})",
                    columns.join(", "),
                    places.join(", ")
                );
                let mut statement = transaction.prepare(&statement)?;
                for row in rows {
                    let renumbered = columns.iter().zip(row).map(|(column, value)| {
                        if column == key { Value::Integer(free) } else { value.clone() }
                    });
                    statement.execute(rusqlite::params_from_iter(renumbered))?;
                }
            }
            transaction.commit()
        };
        copy().map_err(|error| StoreError::from_sqlite(&self.path, &error))
    }
}

/// Every table with rows of a recording, and its column of the recording's number.
fn tables() -> impl Iterator<Item = (&'static str, &'static str)> {
    std::iter::once(("recordings", "number")).chain(TABLES.map(|table| (table, "recording")))
}

type Rows = (Vec<String>, Vec<Vec<Value>>);

/// A recording's rows of a table; none if an older store lacks the table.
fn read(connection: &Connection, table: &str, key: &str, number: i64) -> rusqlite::Result<Rows> {
    let query = "SELECT count(*) FROM sqlite_schema WHERE name = ?1";
    let tables: i64 = connection.query_row(query, [table], |row| row.get(0))?;
    if tables == 0 {
        return Ok(Rows::default());
    }
    let mut statement = connection.prepare(&format!("SELECT * FROM {table} WHERE {key} = ?1"))?;
    let columns: Vec<String> = statement.column_names().map(str::to_string).collect();
    let row = |row: &rusqlite::Row<'_>| (0..columns.len()).map(|index| row.get(index)).collect();
    let rows = statement.query_map([number], row)?.collect::<rusqlite::Result<_>>()?;
    Ok((columns, rows))
}

/// Whether two recordings with the same identifier are the same recording.
fn is_same(here: &Recording, theirs: &Recording) -> bool {
    here.created_unix_ns == theirs.created_unix_ns
        && here.state == theirs.state
        && here.plan == theirs.plan
        && here.records == theirs.records
        && here.profiles.len() == theirs.profiles.len()
}

fn packed(store: &Path) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(HEADER.to_vec(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.write_all(&std::fs::read(store)?)?;
    encoder.finish()
}

/// Unpacks a file of [`Store::pack`] as a store for reading.
///
/// `path`: the file, for errors; `bytes`: its contents; `scratch`: a folder for the unpacked store alone.
///
/// # Errors
/// [`StoreError`]: the file has another version, is cut short or damaged, or `scratch` has no room.
pub fn unpacked(path: &Path, bytes: &[u8], scratch: &Path) -> Result<Store, StoreError> {
    let error = |kind| StoreError::new(path, kind);
    let frame = bytes.strip_prefix(HEADER).ok_or_else(|| match bytes.strip_prefix(NAME) {
        None => error(StoreErrorKind::Foreign),
        Some(rest) => {
            let version = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
            error(StoreErrorKind::Packed(format!(
                "its version is {}, and this opcost reads 1; update opcost",
                String::from_utf8_lossy(&version[..version.len().min(20)])
            )))
        }
    })?;
    let store = scratch.join("unpacked.sqlite");
    let unpack = || -> io::Result<()> {
        let mut decoder = zstd::Decoder::new(frame)?.single_frame();
        let mut file = std::fs::File::create(&store)?;
        io::copy(&mut decoder, &mut file)?;
        let rest = decoder.finish();
        // A buffering reader may already have read some of the rest.
        let mut behind = Vec::new();
        rest.take(1).read_to_end(&mut behind)?;
        match behind.is_empty() {
            true => Ok(()),
            false => Err(io::Error::other("something follows its end")),
        }
    };
    unpack().map_err(|why| match why.kind() {
        io::ErrorKind::StorageFull => StoreError::new(&store, StoreErrorKind::Full),
        _ => error(StoreErrorKind::Packed(format!(
            "it is cut short or damaged ({why}); copy it again"
        ))),
    })?;
    Store::open_for_reading(&store).map_err(|inner| match inner.kind {
        StoreErrorKind::Foreign | StoreErrorKind::Absent | StoreErrorKind::Corrupt(_) => {
            error(StoreErrorKind::Packed("it holds no recording of opcost".into()))
        }
        kind => error(kind),
    })
}
