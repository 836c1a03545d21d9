//! Errors of a store, with its file name.

use opcost_base::exit::{HasStatus, Status};
use opcost_record::printable::printable;
use opcost_sys::budget::Exceeded;
use rusqlite::ErrorCode;
use std::fmt;
use std::path::{Path, PathBuf};

/// The number of recordings that an error lists.
const IDS_SHOWN: usize = 8;

/// An error of the store, with its file.
#[derive(Debug)]
pub struct StoreError {
    /// The file.
    pub path: PathBuf,
    /// The kind of the error.
    pub kind: StoreErrorKind,
}

/// The kind of an error of the store.
#[derive(Debug, Eq, PartialEq)]
pub enum StoreErrorKind {
    /// The file is missing or empty.
    Absent,
    /// The file or its folder cannot be created.
    CannotCreate(String),
    /// The file cannot be opened.
    CannotOpen(String),
    /// A newer opcost wrote the store.
    Newer {
        /// Its schema version.
        found: i32,
        /// The newest version that this program knows.
        known: i32,
    },
    /// The file is another program's database.
    Foreign,
    /// The store is damaged, or the file is not a database.
    Corrupt(String),
    /// The store's tables are not as opcost makes them.
    Altered(String),
    /// One recording is damaged.
    Damaged {
        /// The damaged recording.
        recording: String,
        /// The damage.
        why: String,
    },
    /// The store cannot be written.
    ReadOnly,
    /// The disk is full.
    Full,
    /// Another process locked the store for too long.
    Busy,
    /// No recording has this identifier.
    NoRecording(String),
    /// Every recording arrived in a file.
    NoneMadeHere,
    /// The identifiers of several recordings begin with this text.
    Ambiguous(String, Vec<String>),
    /// The recording is being made, or the process that made it was killed.
    Running(String),
    /// The recording was deleted while it was being made.
    Forgotten(String),
    /// The file was removed or replaced while this recording was written to it.
    Gone(String),
    /// The recording is complete.
    Complete(String),
    /// The store has another recording with this identifier.
    Taken(String),
    /// A file with a recording cannot be unpacked.
    Packed(String),
    /// Reading the file takes more than it may.
    Exceeded(Exceeded),
    /// Another process is working on the recording.
    InUse {
        /// The recording.
        recording: String,
        /// The slot that is already stored.
        slot: u32,
    },
    /// Another error of SQLite.
    Other(String),
}

impl StoreError {
    pub(super) fn new(path: &Path, kind: StoreErrorKind) -> StoreError {
        StoreError { path: path.to_path_buf(), kind }
    }

    pub(super) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> StoreError {
        let kind = match error {
            rusqlite::Error::SqliteFailure(failure, message) => {
                let message = message.clone().unwrap_or_else(|| failure.to_string());
                // Readers and writers share memory through a file on the same disk.
                if failure.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE {
                    return StoreError::new(path, StoreErrorKind::Full);
                }
                match failure.code {
                    ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => {
                        StoreErrorKind::Corrupt(message)
                    }
                    ErrorCode::ReadOnly => StoreErrorKind::ReadOnly,
                    ErrorCode::DiskFull => StoreErrorKind::Full,
                    ErrorCode::OperationInterrupted => StoreErrorKind::Corrupt(
                        "to read it takes more steps than any store needs".into(),
                    ),
                    ErrorCode::TooBig => {
                        StoreErrorKind::Corrupt("it has a longer value than any store".into())
                    }
                    ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreErrorKind::Busy,
                    ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
                        StoreErrorKind::CannotOpen(message)
                    }
                    ErrorCode::SystemIoFailure => StoreErrorKind::Other(format!(
                        "{message} (SQLite's code {}); check the disk, and \
                         the limit of file sizes (ulimit -f)",
                        failure.extended_code
                    )),
                    _ => StoreErrorKind::Other(message),
                }
            }
            rusqlite::Error::FromSqlConversionFailure(_, _, why) if why.is::<Exceeded>() => {
                match why.downcast_ref() {
                    Some(exceeded) => StoreErrorKind::Exceeded(*exceeded),
                    None => StoreErrorKind::Other(why.to_string()),
                }
            }
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => {
                StoreErrorKind::Corrupt(match error {
                    // opcost's own decoder reports invalid contents of a row.
                    rusqlite::Error::FromSqlConversionFailure(_, _, why) => why.to_string(),
                    _ => error.to_string(),
                })
            }
            other => StoreErrorKind::Other(other.to_string()),
        };
        StoreError::new(path, kind)
    }
}

impl StoreErrorKind {
    /// Whether the cause may be that the files beside the store could not be created.
    pub(super) fn denies_side_files(&self) -> bool {
        matches!(
            self,
            StoreErrorKind::CannotOpen(_)
                | StoreErrorKind::ReadOnly
                | StoreErrorKind::Full
                | StoreErrorKind::Other(_)
        )
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.kind {
            StoreErrorKind::Absent => write!(
                f,
                "store '{path}': nothing recorded yet; make a recording with opcost compare"
            ),
            StoreErrorKind::CannotCreate(why) => {
                write!(
                    f,
                    "store '{path}': cannot be created: {why}, or choose another place with --store or OPCOST_STORE"
                )
            }
            StoreErrorKind::CannotOpen(why) => {
                write!(
                    f,
                    "store '{path}': cannot be opened: {why}; check that it is a readable file in a writable folder"
                )
            }
            StoreErrorKind::Newer { found, known } => write!(
                f,
                "store '{path}': written by a newer opcost (schema {found}, this one knows {known}); \
                 update opcost or choose another store with --store; nothing was changed"
            ),
            StoreErrorKind::Foreign => {
                write!(
                    f,
                    "store '{path}': a database, but not opcost's; choose another file with --store; nothing was changed"
                )
            }
            StoreErrorKind::Corrupt(why) => write!(
                f,
                "store '{path}': damaged or not a database ({why}); move it aside and restore a copy, \
                 or choose another with --store; nothing was changed"
            ),
            StoreErrorKind::Altered(why) => write!(
                f,
                "store '{path}': its tables are not as opcost makes them ({}); restore a copy of the store, or choose \
                 another with --store; nothing was changed",
                printable(why)
            ),
            StoreErrorKind::Damaged { recording, why } => write!(
                f,
                "store '{path}': recording {recording} is damaged ({why}); restore a copy of the store, or \
                 delete the recording with opcost forget {recording}; opcost list recordings has the others"
            ),
            StoreErrorKind::ReadOnly => {
                write!(
                    f,
                    "store '{path}': cannot be written (read-only file or file system); choose another with --store"
                )
            }
            StoreErrorKind::Full => {
                write!(
                    f,
                    "store '{path}': the disk is full, or the file is as large as ulimit -f permits; all runs stored so far are kept, free some space and resume"
                )
            }
            StoreErrorKind::Gone(id) => {
                write!(
                    f,
                    "store '{path}': the file was removed or replaced while recording {id} was written to it, \
                     and the recording with it; run again, with a store that nothing else touches (--store)"
                )
            }
            StoreErrorKind::Busy => {
                write!(
                    f,
                    "store '{path}': another process held it for more than 10 s; try again, or use another store"
                )
            }
            StoreErrorKind::NoRecording(id) => {
                write!(f, "store '{path}': no recording '{id}'; see opcost list recordings")
            }
            StoreErrorKind::NoneMadeHere => write!(
                f,
                "store '{path}': no recording was made here, and last means none that arrived in a file; name the \
                 recording (opcost list recordings)"
            ),
            StoreErrorKind::Ambiguous(id, ids) => {
                let shown = ids.len().min(IDS_SHOWN);
                write!(
                    f,
                    "store '{path}': '{id}' begins {} recordings: {}{}; give more of it",
                    ids.len(),
                    ids[..shown].join(", "),
                    if shown < ids.len() { ", …" } else { "" }
                )
            }
            StoreErrorKind::Taken(id) => write!(
                f,
                "store '{path}': another recording {id} is there already; choose another store with --store"
            ),
            StoreErrorKind::Packed(why) => write!(f, "'{path}': {why}"),
            StoreErrorKind::Exceeded(exceeded) => write!(f, "'{path}': {exceeded}"),
            StoreErrorKind::Complete(id) => {
                write!(f, "store '{path}': recording {id} is complete; see opcost show {id}")
            }
            StoreErrorKind::Running(id) => write!(
                f,
                "store '{path}': recording {id} is being made, or its opcost was killed; wait for it, or \
                 delete it all the same with --running; nothing was deleted"
            ),
            StoreErrorKind::Forgotten(id) => write!(
                f,
                "store '{path}': recording {id} was deleted while it was being made (opcost forget); \
                 begin anew"
            ),
            StoreErrorKind::InUse { recording, slot } => write!(
                f,
                "store '{path}': run {slot} of recording {recording} is there already: another opcost is working on it"
            ),
            StoreErrorKind::Other(why) => write!(f, "store '{path}': {why}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl HasStatus for StoreError {
    fn status(&self) -> Status {
        match self.kind {
            // The store is sound; the user named a wrong recording.
            StoreErrorKind::NoRecording(_)
            | StoreErrorKind::NoneMadeHere
            | StoreErrorKind::Ambiguous(..)
            | StoreErrorKind::Running(_)
            | StoreErrorKind::Complete(_) => Status::Usage,
            _ => Status::Missing,
        }
    }
}
