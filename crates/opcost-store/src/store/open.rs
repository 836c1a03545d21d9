//! Opens a store: creates it, distinguishes it from other files, and reads where nothing can be written.

use super::schema::{self, APPLICATION_ID, SCHEMA_VERSION};
use super::{Store, StoreError, StoreErrorKind, foreign};
use opcost_sys::foreign_file;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest wait for another opcost that is writing.
const BUSY_LIMIT: Duration = Duration::from_secs(10);

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
        if version != 0 {
            store.check_schema(version)?;
        }
        if version < SCHEMA_VERSION {
            store.sql(schema::bring_up)?;
        }
        Ok(Store { version: SCHEMA_VERSION, ..store })
    }

    /// Opens the store for reading; a missing store is an error of its own.
    ///
    /// # Errors
    /// As [`open_for_writing`](Self::open_for_writing).
    pub fn open_for_reading(path: &Path) -> Result<Store, StoreError> {
        Store::read_only(path, None)
    }

    /// Opens a store that somebody else made: only for reading, with limits, and only if it has the tables of a store and nothing else.
    ///
    /// `shown`: the file that the user named, for errors; `limit_bytes`: what reading may take ([`Budget`](opcost_sys::budget::Budget)).
    ///
    /// # Errors
    /// As [`open_for_writing`](Self::open_for_writing); also if reading exceeds a limit.
    pub fn open_foreign(path: &Path, shown: &Path, limit_bytes: u64) -> Result<Store, StoreError> {
        // SQLite would wait for a pipe's writer.
        if let Err(error) = foreign_file::open(path, u64::MAX)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(StoreError::new(shown, StoreErrorKind::CannotOpen(error.to_string())));
        }
        let store = Store::read_only(path, Some(limit_bytes));
        let store = store.map_err(|error| StoreError { path: shown.to_owned(), ..error })?;
        Ok(Store { path: Arc::new(shown.to_owned()), ..store })
    }

    fn read_only(path: &Path, foreign_limit_bytes: Option<u64>) -> Result<Store, StoreError> {
        if !path.exists() {
            return Err(StoreError::new(path, StoreErrorKind::Absent));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connect = |name: &Path, flags| -> Result<(Store, i32), StoreError> {
            let mut store = Store::connect(path, name, flags)?;
            if let Some(limit_bytes) = foreign_limit_bytes {
                let bound = foreign::bound(&mut store.connection);
                bound.map_err(|error| StoreError::from_sqlite(path, &error))?;
                let length = std::fs::metadata(path).map_or(0, |file| file.len());
                store.foreign = Some(foreign::Bytes::new(length + log_bytes(path), limit_bytes));
            }
            let version = store.check_version()?;
            Ok((store, version))
        };
        let (store, version) = match connect(path, flags) {
            Err(error) if error.kind.denies_side_files() && !has_log(path) => {
                // Readers too create files beside the store, to learn of writers. If they cannot, nobody can write, and without a
                // log the store itself contains everything (<https://sqlite.org/wal.html#read_only_databases>).
                connect(immutable_uri(path).as_ref(), flags | OpenFlags::SQLITE_OPEN_URI)?
            }
            opened => opened?,
        };
        if version == 0 {
            return Err(StoreError::new(path, StoreErrorKind::Absent));
        }
        store.check_schema(version)?;
        Ok(Store { version, ..store })
    }

    /// Refuses a store whose tables differ from those of its version.
    fn check_schema(&self, version: i32) -> Result<(), StoreError> {
        let alone = self.foreign.is_some();
        self.sql(|connection| schema::check(connection, version, alone)).map_err(
            |error| match error.kind {
                StoreErrorKind::Corrupt(why) => {
                    StoreError::new(&self.path, StoreErrorKind::Altered(why))
                }
                _ => error,
            },
        )
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
        foreign::distrust(&connection).map_err(error)?;
        Ok(Store { connection, path: Arc::new(path.to_path_buf()), version: 0, foreign: None })
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

/// Whether the write-ahead log may contain runs that are not in the store itself.
fn has_log(path: &Path) -> bool {
    log_bytes(path) > 0
}

/// Length of the write-ahead log, bytes.
fn log_bytes(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or(0, |log| log.len())
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
