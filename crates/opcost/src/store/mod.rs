//! The store: recordings in one SQLite file, one transaction a run.
//!
//! A recording is written before its first run (plan and machine state), then grows by a row a
//! run, and is never changed but for its state; it can be deleted whole. Write-ahead logging without a sync per
//! transaction makes an append cheap; it survives the death of the process, and loses at most
//! the last runs if the machine dies (<https://sqlite.org/wal.html>).

mod codec;
mod error;
mod forget;
mod open;
mod profile;
#[cfg(test)]
mod tests;
mod write;

pub use error::{StoreError, StoreErrorKind};
pub use forget::Room;
pub use write::RecordingWriter;

use crate::machine::MachineState;
use crate::plan::{Plan, Revision};
use opcost_record::{Dictionary, Domain, Failure, Invariant, MetricKey, Outcome, Profile, Record};
use rusqlite::{Connection, OptionalExtension, Row};
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;

/// Whether a recording is being made, was stopped or is complete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Being made; or the process died, so that nothing else could be written.
    Running,
    /// Stopped by a signal; can be resumed.
    Interrupted,
    /// Stopped because the work failed; can be resumed.
    Failed,
    /// Complete.
    Finished,
    /// Stopped by its plan, as the interval was narrow enough: as good as complete.
    StoppedWidth,
    /// Stopped by its plan, as the time was spent; can be resumed for as much time again.
    StoppedBudget,
}

impl State {
    const WORDS: [(State, &'static str); 6] = [
        (State::Running, "running"),
        (State::Interrupted, "interrupted"),
        (State::Failed, "failed"),
        (State::Finished, "finished"),
        (State::StoppedWidth, "stopped-width"),
        (State::StoppedBudget, "stopped-budget"),
    ];

    /// Whether all is made that the plan wanted made.
    pub fn is_whole(self) -> bool {
        matches!(self, State::Finished | State::StoppedWidth | State::StoppedBudget)
    }

    /// The word stored and shown.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].1
    }

    fn from_word(word: &str) -> Option<State> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(state, _)| *state)
    }
}

/// A line of the list of recordings.
#[derive(Clone, Debug)]
pub struct RecordingHead {
    /// Identifier, as `show` takes it.
    pub id: String,
    /// When it was begun, nanoseconds since the Unix epoch.
    pub created_unix_ns: u64,
    /// Name of the experiment.
    pub experiment: String,
    /// Its state.
    pub state: State,
    /// Runs stored.
    pub runs: u64,
    /// Names of the variants.
    pub variants: Vec<String>,
    /// What the user calls it.
    pub label: Option<String>,
    /// The commit of each variant's sources, without repetition.
    pub revisions: Vec<Revision>,
    /// Whether it holds imported figures and no runs.
    pub imported: bool,
}

/// A recording read back whole.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Identifier.
    pub id: String,
    /// When it was begun, nanoseconds since the Unix epoch.
    pub created_unix_ns: u64,
    /// Its state.
    pub state: State,
    /// The plan it follows.
    pub plan: Plan,
    /// The machine as it was found by each process that worked on the recording, and as each left
    /// it where it had changed.
    pub machine: Vec<MachineState>,
    /// The metrics by number.
    pub dictionary: Dictionary,
    /// The runs, in the order of the schedule.
    pub records: Vec<Record>,
    /// Instructions of the work region by calling context, with the slot of their run, in the order
    /// of the schedule; of the runs that have a profile.
    pub profiles: Vec<(u32, Profile)>,
}

impl Recording {
    /// Runs that there should be by now: the whole schedule, or what was made of it when the plan
    /// said to stop.
    pub fn runs_due(&self) -> usize {
        match self.state {
            State::StoppedWidth | State::StoppedBudget => self.records.len(),
            _ => self.plan.slot_count(),
        }
    }

    /// Pairs made, or being made.
    pub fn pairs_made(&self) -> u32 {
        match self.state {
            State::Finished => self.plan.pairs,
            _ => {
                let first = |record: &&Record| record.variant == 0 && record.block.is_some();
                self.records.iter().filter(first).count() as u32
            }
        }
    }
}

/// An open store file.
pub struct Store {
    connection: Connection,
    path: Arc<PathBuf>,
    /// Version of the schema.
    version: i32,
}

impl Store {
    /// Begins a recording.
    pub fn begin(
        self,
        plan: &Plan,
        machine: &MachineState,
        created_unix_ns: u64,
    ) -> Result<RecordingWriter, StoreError> {
        RecordingWriter::begin(self, plan, machine, created_unix_ns)
    }

    /// Goes on with a recording that is not complete.
    pub fn resume(
        self,
        id: &str,
        machine: &MachineState,
    ) -> Result<(RecordingWriter, Recording), StoreError> {
        let recording = self.read(id)?;
        let writer = RecordingWriter::resume(self, &recording, machine)?;
        Ok((writer, recording))
    }

    /// Lists the recordings, the newest last.
    pub fn list(&self) -> Result<Vec<RecordingHead>, StoreError> {
        self.sql(|connection| {
            let mut statement = connection.prepare(
                "SELECT id, created_unix_ns, experiment, state,
                        (SELECT count(*) FROM runs WHERE runs.recording = number), plan
                 FROM recordings ORDER BY number",
            )?;
            let heads = statement.query_map([], |row| {
                let plan: NamesOfPlan = json(row, 5)?;
                Ok(RecordingHead {
                    id: row.get(0)?,
                    created_unix_ns: unsigned(row, 1)?,
                    experiment: row.get(2)?,
                    state: state(row, 3)?,
                    runs: unsigned(row, 4)?,
                    imported: plan.imported.is_some(),
                    label: plan.label,
                    revisions: revisions(&plan.variants),
                    variants: plan.variants.into_iter().map(|variant| variant.name).collect(),
                })
            })?;
            heads.collect()
        })
    }

    /// Reads a recording.
    ///
    /// `id` is an identifier, the beginning of one, or `last`.
    ///
    /// # Errors
    /// No or more than one recording matches; the store is corrupt.
    pub fn read(&self, id: &str) -> Result<Recording, StoreError> {
        // One snapshot, since another process may be adding to the recording.
        let _snapshot = self
            .connection
            .unchecked_transaction()
            .map_err(|error| StoreError::from_sqlite(&self.path, &error))?;
        let number = self.number_of(id)?;
        let mut recording = self.sql(|connection| {
            connection.query_row(
                "SELECT id, created_unix_ns, state, plan, machine FROM recordings WHERE number = ?1",
                [number],
                |row| {
                    Ok(Recording {
                        id: row.get(0)?,
                        created_unix_ns: unsigned(row, 1)?,
                        state: state(row, 2)?,
                        plan: json(row, 3)?,
                        machine: json(row, 4)?,
                        dictionary: Dictionary::default(),
                        records: Vec::new(),
                        profiles: Vec::new(),
                    })
                },
            )
        })?;
        recording.dictionary = Dictionary::from_keys(self.read_keys(number)?);
        recording.records = self.read_records(number, recording.plan.variants.len())?;
        // Before version 2 there were none.
        if self.version >= 2 {
            recording.profiles = self.read_profiles(number)?;
        }
        Ok(recording)
    }

    /// The whole identifier of a recording: of the beginning of one, or of `last`.
    ///
    /// # Errors
    /// No or more than one recording matches.
    pub fn whole_id(&self, id: &str) -> Result<String, StoreError> {
        let number = self.number_of(id)?;
        self.sql(|connection| {
            connection.query_row("SELECT id FROM recordings WHERE number = ?1", [number], |row| {
                row.get(0)
            })
        })
    }

    fn read_keys(&self, number: i64) -> Result<Vec<MetricKey>, StoreError> {
        self.sql(|connection| {
            let mut statement = connection.prepare(
                "SELECT name, domain, source, region FROM metrics WHERE recording = ?1 ORDER BY id",
            )?;
            let keys = statement.query_map([number], |row| {
                let domain: String = row.get(1)?;
                Ok(MetricKey {
                    name: row.get(0)?,
                    domain: Domain::from_word(&domain)
                        .ok_or_else(|| codec::corrupt(1, "unknown domain"))?,
                    source: row.get(2)?,
                    region: row.get(3)?,
                })
            })?;
            keys.collect()
        })
    }

    fn read_records(&self, number: i64, variants: usize) -> Result<Vec<Record>, StoreError> {
        self.sql(|connection| {
            let mut statement =
                connection.prepare("SELECT items FROM invariants WHERE recording = ?1 ORDER BY id")?;
            let sets: Vec<Vec<Invariant>> =
                statement.query_map([number], |row| json(row, 0))?.collect::<rusqlite::Result<_>>()?;
            let mut statement = connection.prepare(
                "SELECT slot, variant, block, started_unix_ns, exit_code, failure, ops, invariants, samples
                 FROM runs WHERE recording = ?1 ORDER BY slot",
            )?;
            let records = statement.query_map([number], |row| {
                let variant: u16 = row.get(1)?;
                if usize::from(variant) >= variants {
                    return Err(codec::corrupt(1, "unknown variant"));
                }
                let set = usize::try_from(row.get::<_, i64>(7)?).ok();
                let failure: Option<Failure> = match row.get_ref(5)?.as_str_or_null()? {
                    Some(_) => Some(json(row, 5)?),
                    None => None,
                };
                Ok(Record {
                    slot: row.get(0)?,
                    variant,
                    block: row.get(2)?,
                    started_unix_ns: unsigned(row, 3)?,
                    exit_code: row.get(4)?,
                    outcome: failure.map_or(Outcome::Finished, Outcome::Failed),
                    ops: row.get::<_, Option<i64>>(6)?.map(|ops| ops as u64),
                    invariants: set
                        .and_then(|set| sets.get(set).cloned())
                        .ok_or_else(|| codec::corrupt(7, "unknown set of invariants"))?,
                    samples: codec::decode(row.get_ref(8)?.as_blob()?)
                        .ok_or_else(|| codec::corrupt(8, "samples"))?,
                })
            })?;
            records.collect()
        })
    }

    fn read_profiles(&self, number: i64) -> Result<Vec<(u32, Profile)>, StoreError> {
        self.sql(|connection| {
            let mut statement = connection
                .prepare("SELECT slot, profile FROM profiles WHERE recording = ?1 ORDER BY slot")?;
            let profiles = statement.query_map([number], |row| {
                let profile = profile::decode(row.get_ref(1)?.as_blob()?)
                    .map_err(|why| codec::corrupt(1, format!("profile: {why}")))?;
                Ok((row.get(0)?, profile))
            })?;
            profiles.collect()
        })
    }

    fn number_of(&self, id: &str) -> Result<i64, StoreError> {
        let matches: Vec<(i64, String)> = self.sql(|connection| {
            if id == "last" {
                let last = connection
                    .query_row(
                        "SELECT number, id FROM recordings ORDER BY number DESC LIMIT 1",
                        [],
                        |row| Ok((row.get(0)?, row.get(1)?)),
                    )
                    .optional()?;
                return Ok(last.into_iter().collect());
            }
            let mut statement = connection.prepare(
                "SELECT number, id FROM recordings WHERE substr(id, 1, length(?1)) = ?1",
            )?;
            statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })?;
        if let Some((number, _)) = matches.iter().find(|(_, whole)| whole == id) {
            return Ok(*number);
        }
        match matches.as_slice() {
            [(number, _)] => Ok(*number),
            [] => Err(StoreError::new(&self.path, StoreErrorKind::NoRecording(id.to_string()))),
            many => {
                let ids = many.iter().map(|(_, id)| id.clone()).collect();
                Err(StoreError::new(&self.path, StoreErrorKind::Ambiguous(id.to_string(), ids)))
            }
        }
    }

    fn sql<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.connection).map_err(|error| StoreError::from_sqlite(&self.path, &error))
    }
}

/// What a list shows of a plan, so that the rest of it need not be made.
#[derive(Deserialize)]
struct NamesOfPlan {
    variants: Vec<NameOfVariant>,
    imported: Option<serde::de::IgnoredAny>,
    label: Option<String>,
}

#[derive(Deserialize)]
struct NameOfVariant {
    name: String,
    revision: Option<Revision>,
}

fn revisions(variants: &[NameOfVariant]) -> Vec<Revision> {
    let mut revisions: Vec<Revision> = Vec::new();
    for revision in variants.iter().filter_map(|variant| variant.revision.as_ref()) {
        if !revisions.contains(revision) {
            revisions.push(revision.clone());
        }
    }
    revisions
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)? as u64)
}

fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<State> {
    State::from_word(row.get_ref(column)?.as_str()?)
        .ok_or_else(|| codec::corrupt(column, "unknown state"))
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?;
    serde_json::from_str(text.as_str()?).map_err(|error| codec::corrupt(column, error))
}
