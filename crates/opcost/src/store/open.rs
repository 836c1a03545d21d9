//! Opens a store: creates it, distinguishes it from other files, and reads where nothing can be written.

use super::{Store, StoreError, StoreErrorKind};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// `PRAGMA application_id`: "opco".
const APPLICATION_ID: i32 = 0x6f70_636f;
/// `PRAGMA user_version` of the schema below. Version 1 had no profiles, version 2 no checksums.
const SCHEMA_VERSION: i32 = 3;
/// The longest wait for another opcost that is writing.
const BUSY_LIMIT: Duration = Duration::from_secs(10);

const SCHEMA: &str = "
CREATE TABLE recordings(
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    created_unix_ns INTEGER NOT NULL,
    experiment TEXT NOT NULL,
    state TEXT NOT NULL,
    plan TEXT NOT NULL,
    machine TEXT NOT NULL
);
CREATE TABLE metrics(
    recording INTEGER NOT NULL, id INTEGER NOT NULL,
    name TEXT NOT NULL, domain TEXT NOT NULL, source TEXT NOT NULL, region TEXT NOT NULL,
    PRIMARY KEY(recording, id)
) WITHOUT ROWID;
CREATE TABLE invariants(
    recording INTEGER NOT NULL, id INTEGER NOT NULL, items TEXT NOT NULL,
    PRIMARY KEY(recording, id)
) WITHOUT ROWID;
CREATE TABLE runs(
    recording INTEGER NOT NULL, slot INTEGER NOT NULL, variant INTEGER NOT NULL, block INTEGER,
    started_unix_ns INTEGER NOT NULL, exit_code INTEGER, failure TEXT, ops INTEGER,
    invariants INTEGER NOT NULL, samples BLOB NOT NULL,
    PRIMARY KEY(recording, slot)
) WITHOUT ROWID;
";

/// The addition of version 2: the profile of each run that has one.
const PROFILES: &str = "
CREATE TABLE profiles(
    recording INTEGER NOT NULL, slot INTEGER NOT NULL, profile BLOB NOT NULL,
    PRIMARY KEY(recording, slot)
) WITHOUT ROWID;
";

/// The additions of version 3: a checksum of every row that is written once and read back, and the number of runs at a recording's
/// end, since a lost row has no checksum. Both are `NULL` in rows of older versions; the number is `NULL` until the recording has
/// ended.
const CHECKSUMS: &str = "
ALTER TABLE recordings ADD COLUMN checksum INTEGER;
ALTER TABLE recordings ADD COLUMN runs_at_end INTEGER;
ALTER TABLE metrics ADD COLUMN checksum INTEGER;
ALTER TABLE invariants ADD COLUMN checksum INTEGER;
ALTER TABLE runs ADD COLUMN checksum INTEGER;
ALTER TABLE profiles ADD COLUMN checksum INTEGER;
";

impl Store {
    /// Opens the store for adding, and creates a missing file. A store of an older version is brought up to this version.
    ///
    /// # Errors
    /// [`StoreError`] names the file: it is not a store, is newer than this program or read-only, or the disk is full.
    pub fn open_for_writing(path: &Path) -> Result<Store, StoreError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            let why = format!("there is no folder '{}'; make it", folder.display());
            return Err(StoreError::new(path, StoreErrorKind::CannotCreate(why)));
        }
        // Recordings have environments and paths. SQLite gives its side files the permissions of the store.
        let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        // The default flags would take a name that begins with "file:" for a URI.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let store = Store::connect(path, path, flags)?;
        let version = store.check_version()?;
        store.sql(use_wal)?;
        if version < SCHEMA_VERSION {
            store.sql(bring_up_schema)?;
        }
        Ok(Store { version: SCHEMA_VERSION, ..store })
    }

    /// Opens the store for reading; a missing store is an error of its own.
    ///
    /// # Errors
    /// As [`open_for_writing`](Self::open_for_writing).
    pub fn open_for_reading(path: &Path) -> Result<Store, StoreError> {
        if !path.exists() {
            return Err(StoreError::new(path, StoreErrorKind::Absent));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let opened = Store::connect(path, path, flags)
            .and_then(|store| store.check_version().map(|version| (store, version)));
        let (store, version) = match opened {
            Err(error) if error.kind.denies_side_files() && !has_log(path) => {
                // Readers too create files beside the store, to learn of writers. If they cannot, nobody can write, and without a
                // log the store itself contains everything (<https://sqlite.org/wal.html#read_only_databases>).
                let flags = flags | OpenFlags::SQLITE_OPEN_URI;
                let store = Store::connect(path, immutable_uri(path).as_ref(), flags)?;
                let version = store.check_version()?;
                (store, version)
            }
            opened => opened?,
        };
        if version == 0 {
            return Err(StoreError::new(path, StoreErrorKind::Absent));
        }
        Ok(Store { version, ..store })
    }

    fn connect(path: &Path, name: &Path, flags: OpenFlags) -> Result<Store, StoreError> {
        if path.is_dir() {
            let why = StoreErrorKind::CannotOpen("it is a folder".into());
            return Err(StoreError::new(path, why));
        }
        let error = |source: rusqlite::Error| StoreError::from_sqlite(path, &source);
        // Only one thread at a time uses a connection, so it needs no locks.
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(name, flags).map_err(error)?;
        connection.busy_timeout(BUSY_LIMIT).map_err(error)?;
        Ok(Store { connection, path: Arc::new(path.to_path_buf()), version: 0 })
    }

    /// The version of the store, 0 for an empty file; an error if the store is newer or the file is no store.
    fn check_version(&self) -> Result<i32, StoreError> {
        let (application, version, tables): (i32, i32, i64) = self.sql(|connection| {
            // Read from one snapshot, since another process may just be creating the store.
            let snapshot = connection.unchecked_transaction()?;
            Ok((
                snapshot.pragma_query_value(None, "application_id", |row| row.get(0))?,
                snapshot.pragma_query_value(None, "user_version", |row| row.get(0))?,
                snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?,
            ))
        })?;
        match (application, version) {
            (0, 0) if tables == 0 => Ok(0),
            (APPLICATION_ID, known @ 1..=SCHEMA_VERSION) => Ok(known),
            (APPLICATION_ID, newer) if newer > SCHEMA_VERSION => Err(StoreError::new(
                &self.path,
                StoreErrorKind::Newer { found: newer, known: SCHEMA_VERSION },
            )),
            _ => Err(StoreError::new(&self.path, StoreErrorKind::Foreign)),
        }
    }
}

fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    let begun = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            // If two processes change the mode at the same time, SQLite does not wait by itself
            // (<https://sqlite.org/c3ref/busy_handler.html>).
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && begun.elapsed() < BUSY_LIMIT =>
            {
                sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
            Ok(()) => return connection.pragma_update(None, "synchronous", "normal"),
        }
    }
}

/// Adds the tables and columns that an older store lacks.
fn bring_up_schema(connection: &Connection) -> rusqlite::Result<()> {
    // Immediate: if two processes do this at the same time, the second waits and then finds nothing to do.
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let version: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version < 1 {
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    if version < 2 {
        transaction.execute_batch(PROFILES)?;
    }
    if version < 3 {
        transaction.execute_batch(CHECKSUMS)?;
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    transaction.commit()
}

/// Whether the write-ahead log may contain runs that are not in the store itself.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

/// A URI that opens the store as an immutable file (<https://sqlite.org/uri.html>).
fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from(if path.is_absolute() { "file://" } else { "file:" });
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => {
                let _ = write!(uri, "%{byte:02x}");
            }
        }
    }
    uri + "?immutable=1"
}
