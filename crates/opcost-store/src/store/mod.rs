//! The store: recordings in one SQLite file, one transaction for each run.
//!
//! A recording is stored before its first run (plan and machine state) and then grows by one row for each run. Apart from its state
//! and machine states, nothing stored is changed; a whole recording can be deleted. Write-ahead logging without a sync for each
//! transaction makes appending cheap. Recordings survive the death of the process, and at most the last runs are lost if the
//! machine dies (<https://sqlite.org/wal.html>).

mod checksum;
mod codec;
mod error;
mod foreign;
mod forget;
mod open;
mod profile;
mod schema;
mod transfer;
mod write;

pub use error::{StoreError, StoreErrorKind};
pub use forget::Room;
pub use transfer::{Arrival, is_packed, unpacked};
pub use write::RecordingWriter;

use checksum::checksum;
use codec::Packed;
use opcost_model::plan::{Plan, Revision};
use opcost_model::recording::{MachineState, Recording, State};
use opcost_record::printable::printable;
use opcost_record::{Dictionary, Domain, Failure, Invariant, MetricKey, Outcome, Profile, Record};
use opcost_sys::budget::{Budget, Exceeded};
use rusqlite::{Connection, OptionalExtension, Row};
use schema::{ARRIVALS_SINCE, CHECKSUMS_ALWAYS_SINCE, CHECKSUMS_SINCE};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;

/// A line of the list of recordings.
#[derive(Clone, Debug)]
pub struct RecordingHead {
    /// Identifier, as `show` takes it.
    pub id: String,
    /// Its place in the order in which recordings were stored, whatever their dates.
    pub number: i64,
    /// The time when the recording began, nanoseconds since the Unix epoch.
    pub created_unix_ns: u64,
    /// Name of the experiment.
    pub experiment: String,
    /// Its state.
    pub state: State,
    /// Number of stored runs.
    pub runs: u64,
    /// As [`Recording::arrived_unix_ns`].
    pub arrived_unix_ns: Option<u64>,
    /// Names of the variants.
    pub variants: Vec<String>,
    /// The user's label of the recording.
    pub label: Option<String>,
    /// The commit of each variant's sources, without repetition.
    pub revisions: Vec<Revision>,
    /// Whether the recording has imported figures instead of runs.
    pub imported: bool,
}

/// The recordings of a store.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The readable recordings, the newest last.
    pub heads: Vec<RecordingHead>,
    /// The unreadable recordings.
    pub damaged: Vec<DamagedRecording>,
}

/// The recordings of a store that are listed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Choice<'a> {
    /// Only those of this experiment.
    pub experiment: Option<&'a str>,
    /// Only those whose label contains this text.
    pub label: Option<&'a str>,
    /// Only the newest so many.
    pub last: Option<usize>,
    /// In the order of their dates; otherwise in the order in which they were stored.
    pub by_date: bool,
}

/// A recording that cannot be read.
#[derive(Clone, Debug)]
pub struct DamagedRecording {
    /// Identifier, if it can be read.
    pub id: Option<String>,
    /// The identifier, or another description of the recording.
    pub name: String,
    /// The damage.
    pub why: String,
}

/// Number of runs whose samples are decoded together while SQLite reads the next runs.
const BATCH_RUNS: usize = 1024;
/// Number of batches that may wait for decoding.
const BATCHES_WAITING: usize = 4;

/// The recordings whose identifiers begin with a text, as a range of the index of identifiers; U+10FFFF is the last character.
const BY_BEGINNING: &str =
    "SELECT number, id FROM recordings WHERE id BETWEEN ?1 AND ?1 || char(1114111)";

/// An open store file.
pub struct Store {
    connection: Connection,
    path: Arc<PathBuf>,
    /// Version of the schema.
    version: i32,
    /// For a store of somebody else's: what reading it may still yield.
    foreign: Option<foreign::Bytes>,
}

/// How a store keeps checksums.
#[derive(Clone, Copy)]
struct Sums {
    /// The column.
    column: &'static str,
    /// Whether every row has a checksum.
    always: bool,
}

impl Store {
    /// Begins a new recording.
    pub fn begin(
        self,
        plan: &Plan,
        machine: &MachineState,
        created_unix_ns: u64,
    ) -> Result<RecordingWriter, StoreError> {
        RecordingWriter::begin(self, plan, machine, created_unix_ns)
    }

    /// Stores a recording whose runs were made elsewhere, under a new identifier, with its time of arrival.
    ///
    /// # Errors
    /// [`StoreError`]; the part stored so far then stays marked as running.
    pub fn keep(self, recording: &Recording) -> Result<(Store, String), StoreError> {
        RecordingWriter::whole(self, recording)
    }

    /// Resumes a recording that is not complete.
    pub fn resume(
        self,
        id: &str,
        machine: &MachineState,
    ) -> Result<(RecordingWriter, Recording), StoreError> {
        let recording = self.read(id)?;
        let writer = RecordingWriter::resume(self, &recording, machine)?;
        Ok((writer, recording))
    }

    /// Lists the readable recordings, the newest last.
    ///
    /// # Errors
    /// As [`list_all`](Self::list_all).
    pub fn list(&self) -> Result<Vec<RecordingHead>, StoreError> {
        Ok(self.list_all()?.heads)
    }

    /// Lists all recordings; a damaged recording does not hide the others.
    ///
    /// # Errors
    /// The store as a whole cannot be read.
    pub fn list_all(&self) -> Result<Listed, StoreError> {
        self.list_chosen(&Choice::default())
    }

    /// Lists the chosen recordings as [`list_all`](Self::list_all) does; reads no more of them than it lists, and those of other labels.
    ///
    /// A damaged recording has no label that is known, so it is listed with any, and counts as none of the newest.
    ///
    /// # Errors
    /// The store as a whole cannot be read.
    pub fn list_chosen(&self, choice: &Choice<'_>) -> Result<Listed, StoreError> {
        let _snapshot = self
            .connection
            .unchecked_transaction()
            .map_err(|error| StoreError::from_sqlite(&self.path, &error))?;
        let numbers: Vec<i64> = self.sql(|connection| {
            let order = if choice.by_date { "created_unix_ns DESC, " } else { "" };
            let mut statement = connection.prepare(&format!(
                "SELECT number FROM recordings WHERE ?1 IS NULL OR experiment = ?1 ORDER BY {order}number DESC"
            ))?;
            statement.query_map([choice.experiment], |row| row.get(0))?.collect()
        })?;
        let is_chosen = |head: &RecordingHead| {
            let label = head.label.as_deref().unwrap_or_default();
            choice.label.is_none_or(|text| label.contains(text))
        };
        let mut listed = Listed::default();
        for number in numbers {
            if choice.last.is_some_and(|last| listed.heads.len() >= last) {
                break;
            }
            match self.head(number) {
                Ok(head) if is_chosen(&head) => listed.heads.push(head),
                Ok(_) => {}
                Err(error) => match error.kind {
                    StoreErrorKind::Corrupt(why) => listed.damaged.push(self.damaged(number, why)),
                    _ => return Err(error),
                },
            }
        }
        listed.heads.reverse();
        listed.damaged.reverse();
        Ok(listed)
    }

    /// The names of all experiments, in alphabetical order.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn experiments(&self) -> Result<Vec<String>, StoreError> {
        self.sql(|connection| {
            let mut statement = connection
                .prepare("SELECT DISTINCT experiment FROM recordings ORDER BY experiment")?;
            statement.query_map([], |row| row.get(0))?.collect()
        })
    }

    fn damaged(&self, number: i64, why: String) -> DamagedRecording {
        let id: Option<String> = self
            .sql(|connection| {
                let query = "SELECT id FROM recordings WHERE number = ?1";
                connection.query_row(query, [number], |row| row.get(0))
            })
            .ok();
        let name = id.clone().unwrap_or_else(|| format!("number {number} of the store"));
        DamagedRecording { id, name, why }
    }

    fn head(&self, number: i64) -> Result<RecordingHead, StoreError> {
        self.sql(|connection| {
            let sums = self.sums();
            let mut statement = connection.prepare_cached(&format!(
                "SELECT id, created_unix_ns, experiment, state,
                        (SELECT count(*) FROM runs WHERE runs.recording = number), plan, {}, {}, {}
                 FROM recordings WHERE number = ?1",
                sums.column,
                self.runs_column(),
                self.arrived_column()
            ))?;
            statement.query_row([number], |row| {
                check_plan(row, (0, 5, 6), sums)?;
                check_number(row.get(7)?, row.get(4)?, state(row, 3)?, sums)?;
                let plan: NamesOfPlan = json(row, 5, self.budget())?;
                Ok(RecordingHead {
                    id: row.get(0)?,
                    number,
                    created_unix_ns: unsigned(row, 1)?,
                    experiment: row.get(2)?,
                    state: state(row, 3)?,
                    runs: unsigned(row, 4)?,
                    arrived_unix_ns: row.get::<_, Option<i64>>(8)?.map(|ns| ns as u64),
                    imported: plan.imported.is_some(),
                    label: plan.label,
                    revisions: revisions(&plan.variants),
                    variants: plan.variants.into_iter().map(|variant| variant.name).collect(),
                })
            })
        })
    }

    /// The column of arrivals.
    fn arrived_column(&self) -> &'static str {
        if self.version >= ARRIVALS_SINCE { "arrived_unix_ns" } else { "NULL" }
    }

    /// The column of the number of runs at the recording's end.
    fn runs_column(&self) -> &'static str {
        if self.version >= CHECKSUMS_SINCE { "runs_at_end" } else { "NULL" }
    }

    /// The column of checksums, and whether every row has one. A store of somebody else's is held to it one version earlier: this
    /// opcost can bring only its own stores up.
    fn sums(&self) -> Sums {
        let always = if self.foreign.is_some() { CHECKSUMS_SINCE } else { CHECKSUMS_ALWAYS_SINCE };
        Sums {
            column: if self.version >= CHECKSUMS_SINCE { "checksum" } else { "NULL" },
            always: self.version >= always,
        }
    }

    /// The budget of reading a store of somebody else's.
    fn budget(&self) -> Option<&Budget> {
        self.foreign.as_ref().map(|bytes| &bytes.budget)
    }

    /// Draws a row of somebody else's store from the budget.
    fn step_row(&self, row: &Row<'_>) -> rusqlite::Result<()> {
        self.foreign.as_ref().map_or(Ok(()), |bytes| bytes.step(row).map(|_| ()))
    }

    /// Counts the bytes of a row of somebody else's store.
    fn take_bytes(&self, row: &Row<'_>) -> rusqlite::Result<()> {
        self.foreign.as_ref().map_or(Ok(()), |bytes| bytes.take(row))
    }

    /// Reads a recording.
    ///
    /// `id` is an identifier, the beginning of an identifier, or `last`.
    ///
    /// # Errors
    /// No or more than one recording matches; the store is corrupt.
    pub fn read(&self, id: &str) -> Result<Recording, StoreError> {
        // Read from one snapshot, since another process may be adding to the recording.
        let _snapshot = self
            .connection
            .unchecked_transaction()
            .map_err(|error| StoreError::from_sqlite(&self.path, &error))?;
        if let Some(bytes) = &self.foreign {
            bytes.begin();
        }
        let number = self.number_of(id)?;
        let sums = self.sums();
        let of = |error: StoreError| self.of_recording(number, error);
        let recording = self.sql(|connection| {
            connection.query_row(
                &format!(
                    "SELECT id, created_unix_ns, state, plan, machine, {}, {} FROM recordings
                     WHERE number = ?1",
                    sums.column,
                    self.arrived_column()
                ),
                [number],
                |row| {
                    self.take_bytes(row)?;
                    check_plan(row, (0, 3, 5), sums)?;
                    Ok(Recording {
                        id: row.get(0)?,
                        created_unix_ns: unsigned(row, 1)?,
                        arrived_unix_ns: row.get::<_, Option<i64>>(6)?.map(|ns| ns as u64),
                        state: state(row, 2)?,
                        plan: json(row, 3, self.budget())?,
                        machine: json(row, 4, self.budget())?,
                        dictionary: Dictionary::default(),
                        records: Vec::new(),
                        profiles: Vec::new(),
                    })
                },
            )
        });
        let mut recording = recording.map_err(of)?;
        recording.dictionary = Dictionary::from_keys(self.read_keys(number).map_err(of)?);
        let variants = recording.plan.variants.len();
        recording.records = self.read_records(number, variants).map_err(of)?;
        recording.choose_primary();
        let at_end = self.sql(|connection| {
            let query = format!("SELECT {} FROM recordings WHERE number = ?1", self.runs_column());
            let at_end = connection.query_row(&query, [number], |row| row.get(0))?;
            check_number(at_end, recording.records.len() as i64, recording.state, sums)
        });
        at_end.map_err(of)?;
        // Profiles exist since version 2.
        if self.version >= 2 {
            recording.profiles = self.read_profiles(number).map_err(of)?;
        }
        Ok(recording)
    }

    /// An error of reading one recording: damage concerns this recording, not the whole store.
    fn of_recording(&self, number: i64, error: StoreError) -> StoreError {
        match error.kind {
            StoreErrorKind::Corrupt(why) => self.damage(self.damaged(number, why)),
            _ => error,
        }
    }

    /// The error of a damaged recording; a file of somebody else's is not the user's store.
    fn damage(&self, DamagedRecording { name, why, .. }: DamagedRecording) -> StoreError {
        let kind = match self.foreign {
            None => StoreErrorKind::Damaged { recording: name, why },
            Some(_) => StoreErrorKind::Packed(format!(
                "recording {} is damaged ({}); copy the file again, or ask its sender for another export",
                printable(&name),
                printable(&why)
            )),
        };
        StoreError::new(&self.path, kind)
    }

    /// The identifier of the newest recording that this store's user made.
    ///
    /// # Errors
    /// There is none.
    pub fn last_made_here(&self) -> Result<String, StoreError> {
        let query = format!(
            "SELECT id FROM recordings WHERE {} IS NULL ORDER BY number DESC LIMIT 1",
            self.arrived_column()
        );
        let last = self.sql(|sql| sql.query_row(&query, [], |row| row.get(0)).optional())?;
        last.ok_or_else(|| StoreError::new(&self.path, StoreErrorKind::NoneMadeHere))
    }

    /// The whole identifier for the beginning of an identifier or for `last`.
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
        let sums = self.sums();
        self.sql(|connection| {
            let mut statement = connection.prepare(&format!(
                "SELECT name, domain, source, region, {} FROM metrics WHERE recording = ?1 ORDER BY id",
                sums.column
            ))?;
            let keys = statement.query_map([number], |row| {
                self.take_bytes(row)?;
                let part = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_bytes()?);
                let made = checksum([part(0)?, part(1)?, part(2)?, part(3)?]);
                compare_checksums(row, (4, sums), made, || "a metric's name".into())?;
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
        let sums = self.sums();
        self.sql(|connection| {
            let mut statement = connection.prepare(&format!(
                "SELECT items, {} FROM invariants WHERE recording = ?1 ORDER BY id",
                sums.column
            ))?;
            let set = |row: &Row<'_>| {
                self.take_bytes(row)?;
                let made = checksum([row.get_ref(0)?.as_bytes()?]);
                compare_checksums(row, (1, sums), made, || "invariants".into())?;
                let set: Vec<Invariant> = json(row, 0, self.budget())?;
                Ok((set, row.get_ref(0)?.as_bytes()?.len() as u64))
            };
            let sets: Vec<(Vec<Invariant>, u64)> =
                statement.query_map([number], set)?.collect::<rusqlite::Result<_>>()?;
            let mut statement = connection.prepare(&format!(
                "SELECT slot, variant, block, started_unix_ns, exit_code, failure, ops, invariants, samples, {}
                 FROM runs WHERE recording = ?1 ORDER BY slot",
                sums.column
            ))?;
            let record = |row: &Row<'_>| {
                self.take_bytes(row)?;
                check_run(row, sums)?;
                let variant: u16 = row.get(1)?;
                if usize::from(variant) >= variants {
                    return Err(codec::corrupt(1, "unknown variant"));
                }
                let set = usize::try_from(row.get::<_, i64>(7)?).ok();
                let (invariants, bytes) = set
                    .and_then(|set| sets.get(set))
                    .ok_or_else(|| codec::corrupt(7, "unknown set of invariants"))?;
                if let Some(budget) = self.budget() {
                    budget.step(*bytes).map_err(codec::exceeded)?;
                }
                let failure: Option<Failure> = match row.get_ref(5)?.as_str_or_null()? {
                    Some(_) => Some(json(row, 5, self.budget())?),
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
                    invariants: invariants.clone(),
                    samples: Vec::new(),
                })
            };
            let mut records: Vec<Record> = Vec::new();
            let (read, samples) = thread::scope(|scope| {
                let (send, received) = mpsc::sync_channel::<Packed>(BATCHES_WAITING);
                let decode_all = move || {
                    let mut samples = Vec::new();
                    received.iter().try_for_each(|batch| batch.decode(&mut samples))?;
                    Some(samples)
                };
                let mut decode_all = Some(decode_all);
                let mut decoder = None;
                let mut packed = Packed::default();
                let mut read = || -> rusqlite::Result<()> {
                    let mut rows = statement.query([number])?;
                    while let Some(row) = rows.next()? {
                        records.push(record(row)?);
                        packed.push(row.get_ref(8)?.as_blob()?);
                        if packed.runs() == BATCH_RUNS {
                            decoder = decoder.take().or_else(|| Some(scope.spawn(decode_all.take()?)));
                            // A decoder that ended has found damage, which it reports itself.
                            if send.send(std::mem::take(&mut packed)).is_err() {
                                break;
                            }
                        }
                    }
                    Ok(())
                };
                let read = read();
                drop(send);
                // A panic of the decoder continues in this thread.
                let samples = match decoder {
                    None => Some(Vec::new()),
                    Some(decoder) => {
                        decoder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    }
                };
                let samples = samples.and_then(|mut samples| {
                    packed.decode(&mut samples)?;
                    Some(samples)
                });
                (read, samples)
            });
            // Only samples of rows that are otherwise sound are decoded, so their damage comes first.
            let samples = samples.ok_or_else(|| codec::corrupt(8, "samples"))?;
            read?;
            for (record, samples) in records.iter_mut().zip(samples) {
                record.samples = samples;
            }
            Ok(records)
        })
    }

    fn read_profiles(&self, number: i64) -> Result<Vec<(u32, Profile)>, StoreError> {
        let sums = self.sums();
        self.sql(|connection| {
            let mut statement = connection.prepare(&format!(
                "SELECT slot, profile, {} FROM profiles WHERE recording = ?1 ORDER BY slot",
                sums.column
            ))?;
            let profiles = statement.query_map([number], |row| {
                self.take_bytes(row)?;
                let slot: i64 = row.get(0)?;
                let made = checksum([&slot.to_le_bytes(), row.get_ref(1)?.as_blob()?]);
                compare_checksums(row, (2, sums), made, || format!("the profile of run {slot}"))?;
                let profile = profile::decode(row.get_ref(1)?.as_blob()?, self.budget())?;
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
            let mut statement = connection.prepare_cached(BY_BEGINNING)?;
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

/// The parts of a plan that a list shows, so that the rest need not be deserialised.
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

/// Refuses a plan that differs from the one written; `columns` are those of identifier, plan and checksum.
fn check_plan(row: &Row<'_>, columns: (usize, usize, usize), sums: Sums) -> rusqlite::Result<()> {
    let (id, plan, sum) = columns;
    let made = checksum([row.get_ref(id)?.as_bytes()?, row.get_ref(plan)?.as_bytes()?]);
    compare_checksums(row, (sum, sums), made, || "its plan".into())
}

/// Refuses a recording whose number of runs differs from the number at its end.
fn check_number(at_end: Option<i64>, found: i64, state: State, sums: Sums) -> rusqlite::Result<()> {
    match at_end {
        Some(at_end) if at_end != found => {
            Err(codec::corrupt(0, format!("{found} runs are there, and it ended with {at_end}")))
        }
        None if sums.always && state != State::Running => {
            Err(codec::corrupt(0, "it ended without a number of runs"))
        }
        _ => Ok(()),
    }
}

/// Refuses a run that differs from the one written.
fn check_run(row: &Row<'_>, sums: Sums) -> rusqlite::Result<()> {
    let slot: i64 = row.get(0)?;
    let integers =
        [Some(slot), row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(6)?, row.get(7)?];
    let failure = row.get_ref(5)?.as_str_or_null()?;
    let made = checksum::of_run(integers, failure, row.get_ref(8)?.as_blob()?);
    compare_checksums(row, (9, sums), made, || format!("run {slot}"))
}

/// Compares a row's stored checksum with the computed one; rows of older versions have none.
fn compare_checksums(
    row: &Row<'_>,
    (column, sums): (usize, Sums),
    made: u32,
    what: impl FnOnce() -> String,
) -> rusqlite::Result<()> {
    match row.get::<_, Option<i64>>(column)? {
        Some(stored) if stored != i64::from(made) => {
            Err(codec::corrupt(column, format!("{}: its checksum does not fit", what())))
        }
        None if sums.always => {
            Err(codec::corrupt(column, format!("{}: it has no checksum", what())))
        }
        _ => Ok(()),
    }
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)? as u64)
}

fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<State> {
    State::from_word(row.get_ref(column)?.as_str()?)
        .ok_or_else(|| codec::corrupt(column, "unknown state"))
}

/// Parses a column's JSON; that of somebody else's store value by value, drawn from the budget.
fn json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
    budget: Option<&Budget>,
) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    let read = match budget {
        None => serde_json::from_str(text),
        Some(budget) => serde_json::from_reader(BufReader::new(budget.reader(text.as_bytes()))),
    };
    read.map_err(|error| {
        let what = error.to_string();
        let exceeded = Exceeded::of(&io::Error::from(error)).map(codec::exceeded);
        exceeded.unwrap_or_else(|| codec::corrupt(column, what))
    })
}

#[cfg(test)]
mod tests;
