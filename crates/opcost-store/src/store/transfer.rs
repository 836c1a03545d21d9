//! One recording as a file for sending: a packed store with nothing else in it.
//!
//! Rows are copied unchanged, with their checksums, so a recording arrives to the last digit.

use super::schema::{Column, StoreTable, TABLES};
use super::{Store, StoreError, StoreErrorKind, codec};
use opcost_model::recording::{Recording, State};
use opcost_record::printable::printable;
use opcost_sys::budget::{Budget, Exceeded};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, TransactionBehavior};
use std::collections::BTreeMap;
use std::fs::File;
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
        alone.copy(self, &recording, None)?;
        // In this mode the store is one file.
        alone.sql(|connection| connection.pragma_update(None, "journal_mode", "delete"))?;
        drop(alone);
        packed(&path)
            .map_err(|error| StoreError::new(&path, StoreErrorKind::Other(error.to_string())))
    }

    /// Takes over every recording of another store, and notes that it arrived. A recording that is damaged there, or a different
    /// recording of the same identifier here, ends the transfer; recordings transferred before stay.
    ///
    /// `now_unix_ns`: the time of arrival. Returns the identifier and the outcome of each recording.
    ///
    /// # Errors
    /// [`StoreError`] names the store at fault.
    pub fn take_over(
        &mut self,
        other: &Store,
        now_unix_ns: u64,
    ) -> Result<Vec<(String, Arrival)>, StoreError> {
        let mut arrived = Vec::new();
        let listed = other.list_all()?;
        if let Some(damaged) = listed.damaged.into_iter().next() {
            return Err(other.damage(damaged));
        }
        for head in listed.heads {
            check_id(&head.id)
                .map_err(|why| StoreError::new(&other.path, StoreErrorKind::Packed(why)))?;
            let theirs = other.read(&head.id)?;
            let here: bool = self.sql(|connection| {
                let query = "SELECT count(*) > 0 FROM recordings WHERE id = ?1";
                connection.query_row(query, [&head.id], |row| row.get(0))
            })?;
            let arrival = match here {
                false => {
                    self.copy(other, &theirs, Some(now_unix_ns))?;
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

    /// Copies a recording value by value: by the names of this version's columns, and only values of their types. No name that is
    /// stored in the other file becomes part of a statement.
    ///
    /// `arrived_unix_ns`: when the recording arrived in a file; `None` in a file for sending.
    fn copy(
        &mut self,
        other: &Store,
        recording: &Recording,
        arrived_unix_ns: Option<u64>,
    ) -> Result<(), StoreError> {
        let number = other.number_of(&recording.id)?;
        let mut read = Vec::new();
        for table in TABLES.iter().filter(|table| table.is_in(other.version)) {
            let rows = other.sql(|connection| rows(connection, table, other, number));
            read.push((table, rows.map_err(|error| other.of_recording(number, error))?));
        }
        let ended = recording.state != State::Running;
        let connection = &mut self.connection;
        let copy = || -> rusqlite::Result<()> {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let query = "SELECT coalesce(max(number), 0) + 1 FROM recordings";
            let free: i64 = transaction.query_row(query, [], |row| row.get(0))?;
            for (table, rows) in read {
                let mut insert = transaction.prepare(&table.insertion())?;
                for mut row in rows {
                    let sum = table.checksum(|name| Some(row.get(name)?.into())).map(i64::from);
                    for (name, value) in &mut row {
                        match *name {
                            name if name == table.key => *value = free.into(),
                            "arrived_unix_ns" => {
                                *value = arrived_unix_ns.map(|ns| ns as i64).into()
                            }
                            // Rows of older versions lack both.
                            "checksum" => *value = sum.into(),
                            "runs_at_end" if ended => {
                                *value = (recording.records.len() as i64).into()
                            }
                            _ => {}
                        }
                    }
                    let values = table.columns.iter().map(|column| row.get(column.name));
                    insert.execute(rusqlite::params_from_iter(values))?;
                }
            }
            transaction.commit()
        };
        copy().map_err(|error| StoreError::from_sqlite(&self.path, &error))
    }
}

/// A recording's rows of a table, each with a value for every column of this version; absent columns are `NULL`.
fn rows(
    connection: &Connection,
    table: &StoreTable,
    of: &Store,
    number: i64,
) -> rusqlite::Result<Vec<BTreeMap<&'static str, Value>>> {
    let present: Vec<&Column> = table.columns_of(of.version).collect();
    let names: Vec<&str> = present.iter().map(|column| column.name).collect();
    let query = format!("SELECT {} FROM {} WHERE {} = ?1", names.join(", "), table.name, table.key);
    let mut statement = connection.prepare(&query)?;
    let row = |row: &Row<'_>| {
        of.step_row(row)?;
        let mut values: BTreeMap<&'static str, Value> =
            table.columns.iter().map(|column| (column.name, Value::Null)).collect();
        for (at, column) in present.iter().enumerate() {
            let value = row.get_ref(at)?;
            if !column.takes(value) {
                let what = format!("{} of {} is {}", column.name, table.name, value.data_type());
                return Err(codec::corrupt(at, what));
            }
            values.insert(column.name, value.try_into()?);
        }
        Ok(values)
    };
    statement.query_map([number], row)?.collect()
}

/// Refuses an identifier that no opcost draws: it becomes part of names of files and of commands that opcost suggests.
fn check_id(id: &str) -> Result<(), String> {
    let is_drawn = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match id.len() <= 40 && id.contains('-') && !id.starts_with('-') && id.bytes().all(is_drawn) {
        true => Ok(()),
        false => Err(format!("its identifier '{}' is none that opcost draws", printable(id))),
    }
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
/// `path`: the file, for errors; `file`: opened, at its start; `scratch`: a folder for the unpacked store alone; `limit_bytes`: what
/// reading the file may take ([`Budget`]).
///
/// # Errors
/// [`StoreError`]: the file has another version, is cut short or damaged, unpacks to too much, or `scratch` has no room.
pub fn unpacked(
    path: &Path,
    mut file: File,
    scratch: &Path,
    limit_bytes: u64,
) -> Result<Store, StoreError> {
    let error = |kind| StoreError::new(path, kind);
    let damaged = |why: &dyn std::fmt::Display| {
        error(StoreErrorKind::Packed(format!("it is cut short or damaged ({why}); copy it again")))
    };
    let mut header = Vec::new();
    let read = Read::by_ref(&mut file).take(HEADER.len() as u64).read_to_end(&mut header);
    read.map_err(|why| damaged(&why))?;
    if header != HEADER {
        let Some(version) = header.strip_prefix(NAME) else {
            return Err(error(StoreErrorKind::Foreign));
        };
        let version = version.split(|byte| *byte == b'\n').next().unwrap_or_default();
        return Err(error(StoreErrorKind::Packed(format!(
            "its version is {}, and this opcost reads 1; update opcost",
            String::from_utf8_lossy(version)
        ))));
    }
    let store = scratch.join("unpacked.sqlite");
    let unpack = || -> io::Result<()> {
        let budget = Budget::new(limit_bytes, file.metadata()?.len());
        let decoder = zstd::Decoder::new(file)?.single_frame();
        let mut decoder = budget.unpacker(decoder);
        io::copy(&mut decoder, &mut File::create(&store)?)?;
        let rest = decoder.into_inner().finish();
        // A buffering reader may already have read some of the rest.
        let mut behind = Vec::new();
        rest.take(1).read_to_end(&mut behind)?;
        match behind.is_empty() {
            true => Ok(()),
            false => Err(io::Error::other("something follows its end")),
        }
    };
    unpack().map_err(|why| match (why.kind(), Exceeded::of(&why)) {
        (_, Some(exceeded)) => error(StoreErrorKind::Exceeded(exceeded)),
        (io::ErrorKind::StorageFull, _) => StoreError::new(&store, StoreErrorKind::Full),
        _ => damaged(&why),
    })?;
    Store::open_foreign(&store, path, limit_bytes).map_err(|inner| match inner.kind {
        StoreErrorKind::Foreign | StoreErrorKind::Absent | StoreErrorKind::Corrupt(_) => {
            error(StoreErrorKind::Packed("it holds no recording of opcost".into()))
        }
        StoreErrorKind::Altered(why) => error(StoreErrorKind::Packed(format!(
            "its tables are not as opcost makes them ({why}); ask its sender for another export"
        ))),
        kind => error(kind),
    })
}
