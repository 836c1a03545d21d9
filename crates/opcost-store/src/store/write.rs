//! Appends to a recording, in one transaction for each run or for the runs of one process.

use super::checksum::{self, checksum};
use super::{Store, StoreError, StoreErrorKind, codec, profile};
use opcost_model::plan::Plan;
use opcost_model::recording::{MachineState, Recording, State};
use opcost_record::{Dictionary, MetricKey, Outcome, Profile, Record, Report, Sample};
use rusqlite::{Connection, ErrorCode, params};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A recording that is being made.
pub struct RecordingWriter {
    store: Store,
    id: String,
    number: i64,
    dictionary: Dictionary,
    /// Number of metrics in the dictionary that are already stored.
    metrics_stored: usize,
    /// Numbers of the stored sets of invariants, by their text.
    invariants: HashMap<String, i64>,
    /// Whether another process was found to work on the recording; the other process then stores the state.
    displaced: bool,
    /// Device and inode of the store's file.
    file: Option<(u64, u64)>,
}

/// Device and inode of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

impl RecordingWriter {
    pub(super) fn begin(
        store: Store,
        plan: &Plan,
        machine: &MachineState,
        created_unix_ns: u64,
    ) -> Result<RecordingWriter, StoreError> {
        let (id, number) = store.sql(|connection| {
            // If the identifier is taken, nothing is inserted.
            let mut insert = connection.prepare(
                "INSERT OR IGNORE INTO recordings(id, created_unix_ns, experiment, state, plan, machine, checksum)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            let (plan_text, machine_text) = (text(plan)?, text(&[machine])?);
            loop {
                let id = new_id(created_unix_ns);
                let inserted = insert.execute(params![
                    id,
                    created_unix_ns as i64,
                    plan.experiment,
                    State::Running.word(),
                    plan_text,
                    machine_text,
                    checksum([id.as_bytes(), plan_text.as_bytes()])
                ])?;
                if inserted == 1 {
                    return Ok((id, connection.last_insert_rowid()));
                }
            }
        })?;
        Ok(RecordingWriter {
            file: identity(&store.path),
            store,
            id,
            number,
            dictionary: Dictionary::default(),
            metrics_stored: 0,
            invariants: HashMap::new(),
            displaced: false,
        })
    }

    /// Stores a whole recording under a new identifier.
    pub(super) fn whole(
        store: Store,
        recording: &Recording,
    ) -> Result<(Store, String), StoreError> {
        let found = MachineState::default();
        let (first, later) = recording.machine.split_first().unwrap_or((&found, &[]));
        let mut writer = Self::begin(store, &recording.plan, first, recording.created_unix_ns)?;
        for state in later {
            writer.note_machine(state)?;
        }
        writer.store.sql(|connection| {
            connection.execute(
                "UPDATE recordings SET arrived_unix_ns = ?2 WHERE number = ?1",
                params![writer.number, recording.arrived_unix_ns.map(|ns| ns as i64)],
            )
        })?;
        writer.dictionary = recording.dictionary.clone();
        let mut profiles = recording.profiles.iter().peekable();
        let runs: Vec<(Record, Option<Profile>)> = recording
            .records
            .iter()
            .map(|record| {
                let profile = profiles.next_if(|(slot, _)| *slot == record.slot);
                (record.clone(), profile.map(|(_, profile)| profile.clone()))
            })
            .collect();
        writer.append(&runs)?;
        let id = writer.id.clone();
        Ok((writer.end(recording.state)?, id))
    }

    pub(super) fn resume(
        store: Store,
        recording: &Recording,
        machine: &MachineState,
    ) -> Result<RecordingWriter, StoreError> {
        if recording.records.len() >= recording.plan.slot_count() {
            return Err(StoreError::new(
                &store.path,
                StoreErrorKind::Complete(recording.id.clone()),
            ));
        }
        let number = store.number_of(&recording.id)?;
        let invariants = store.sql(|connection| {
            // SQLite appends to the list, since another process may have added a state after this process read it.
            connection.execute(
                "UPDATE recordings SET state = ?2, machine = json_insert(machine, '$[#]', json(?3)),
                    runs_at_end = NULL
                 WHERE number = ?1",
                params![number, State::Running.word(), text(machine)?],
            )?;
            let mut statement =
                connection.prepare("SELECT items, id FROM invariants WHERE recording = ?1")?;
            statement.query_map([number], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })?;
        Ok(RecordingWriter {
            id: recording.id.clone(),
            number,
            metrics_stored: recording.dictionary.keys().len(),
            dictionary: recording.dictionary.clone(),
            invariants,
            displaced: false,
            file: identity(&store.path),
            store,
        })
    }

    /// The recording's identifier.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Numbers the metrics of a report.
    pub fn samples(&mut self, report: &Report) -> Vec<Sample> {
        self.dictionary.samples(&report.readings)
    }

    /// The metrics numbered so far.
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// Stores runs in one transaction, each with its profile if it has one.
    ///
    /// # Errors
    /// [`StoreError`]; none of these runs is stored then, and earlier runs stay.
    pub fn append(&mut self, runs: &[(Record, Option<Profile>)]) -> Result<(), StoreError> {
        self.check_file()?;
        let (number, keys, stored) = (self.number, self.dictionary.keys(), self.metrics_stored);
        let sets_stored = self.invariants.len() as i64;
        let sets = &mut self.invariants;
        // Index of the run that is being stored, for errors.
        let mut at = 0;
        let connection = &self.store.connection;
        let id = &self.id;
        let mut is_there = true;
        let append = || -> rusqlite::Result<()> {
            // The number may belong to another recording by now.
            is_there = connection
                .prepare_cached("SELECT 1 FROM recordings WHERE number = ?1 AND id = ?2")?
                .exists(params![number, id])?;
            if !is_there {
                return Ok(());
            }
            for (id, key) in keys.iter().enumerate().skip(stored) {
                connection
                    .prepare_cached(
                        "INSERT INTO metrics(recording, id, name, domain, source, region, checksum)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    )?
                    .execute(params![
                        number,
                        id as i64,
                        key.name,
                        key.domain.word(),
                        key.source,
                        key.region,
                        metric_checksum(key)
                    ])?;
            }
            for (record, profile) in runs {
                at = record.slot;
                insert_run(connection, number, record, profile.as_ref(), sets)?;
            }
            Ok(())
        };
        let appended = in_transaction(connection, append);
        if appended.is_err() {
            self.invariants.retain(|_, set| *set < sets_stored);
        }
        appended.map_err(|error| match &error {
            rusqlite::Error::SqliteFailure(failure, _)
                if failure.code == ErrorCode::ConstraintViolation =>
            {
                self.displaced = true;
                StoreError::new(
                    &self.store.path,
                    StoreErrorKind::InUse { recording: self.id.clone(), slot: at },
                )
            }
            _ => StoreError::from_sqlite(&self.store.path, &error),
        })?;
        if !is_there {
            self.displaced = true;
            let kind = StoreErrorKind::Forgotten(self.id.clone());
            return Err(StoreError::new(&self.store.path, kind));
        }
        self.metrics_stored = self.dictionary.keys().len();
        Ok(())
    }

    /// Checks that the file written to is the one that readers find.
    fn check_file(&mut self) -> Result<(), StoreError> {
        if self.displaced || self.file == identity(&self.store.path) {
            return Ok(());
        }
        self.displaced = true;
        let kind = StoreErrorKind::Gone(self.id.clone());
        Err(StoreError::new(&self.store.path, kind))
    }

    /// Appends a changed state of the machine.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is added then.
    pub fn note_machine(&mut self, machine: &MachineState) -> Result<(), StoreError> {
        if self.displaced {
            return Ok(());
        }
        self.store.sql(|connection| {
            connection.execute(
                "UPDATE recordings SET machine = json_insert(machine, '$[#]', json(?2))
                 WHERE number = ?1 AND id = ?3",
                params![self.number, text(machine)?, self.id],
            )
        })?;
        Ok(())
    }

    /// Stores the state of this session's machine with what its runs revealed of it, in place of the state that was stored first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn complete_machine(&mut self, machine: &MachineState) -> Result<(), StoreError> {
        if self.displaced {
            return Ok(());
        }
        self.store.sql(|connection| {
            connection.execute(
                "UPDATE recordings SET machine = json_set(machine, '$[#-1]', json(?2))
                 WHERE number = ?1 AND id = ?3",
                params![self.number, text(machine)?, self.id],
            )
        })?;
        Ok(())
    }

    /// Stores how the recording ended, and returns the store.
    ///
    /// # Errors
    /// [`StoreError`]; the recording then stays marked as running.
    pub fn end(mut self, state: State) -> Result<Store, StoreError> {
        if self.displaced {
            return Ok(self.store);
        }
        self.check_file()?;
        self.store.sql(|connection| {
            connection.execute(
                "UPDATE recordings SET state = ?2,
                    runs_at_end = (SELECT count(*) FROM runs WHERE recording = ?1)
                 WHERE number = ?1 AND id = ?3",
                params![self.number, state.word(), self.id],
            )
        })?;
        Ok(self.store)
    }
}

/// Does something in a transaction that holds the right to write from its beginning.
///
/// These statements are compiled once, where [`Connection::transaction`] compiles both each time: a fifth of what storing a run took.
fn in_transaction(
    connection: &Connection,
    act: impl FnOnce() -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let execute = |word| connection.prepare_cached(word)?.execute([]);
    execute("BEGIN IMMEDIATE")?;
    let done = act().and_then(|()| execute("COMMIT"));
    if done.is_err() {
        // SQLite may have ended the transaction itself (<https://sqlite.org/lang_transaction.html>).
        let _ = execute("ROLLBACK");
    }
    done.map(drop)
}

/// Inserts one run; `sets` are the numbers of the stored sets of invariants, by their text.
fn insert_run(
    connection: &Connection,
    number: i64,
    record: &Record,
    profile: Option<&Profile>,
    sets: &mut HashMap<String, i64>,
) -> rusqlite::Result<()> {
    let failure = match &record.outcome {
        Outcome::Finished => None,
        Outcome::Failed(failure) => Some(failure),
    };
    let invariants = serde_json::to_string(&record.invariants).expect("strings are JSON");
    let fresh = sets.len() as i64;
    let set = *sets.get(&invariants).unwrap_or(&fresh);
    if set == fresh {
        connection
            .prepare_cached(
                "INSERT INTO invariants(recording, id, items, checksum) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![number, set, invariants, checksum([invariants.as_bytes()])])?;
        sets.insert(invariants, set);
    }
    let failure = failure.map(text).transpose()?;
    let samples = codec::encode(&record.samples);
    let integers = [
        Some(record.slot.into()),
        Some(record.variant.into()),
        record.block.map(Into::into),
        Some(record.started_unix_ns as i64),
        record.exit_code.map(Into::into),
        record.ops.map(|ops| ops as i64),
        Some(set),
    ];
    let sum = checksum::of_run(integers, failure.as_deref(), &samples);
    connection
        .prepare_cached(
            "INSERT INTO runs(recording, slot, variant, block, started_unix_ns, exit_code, failure, ops, invariants, samples, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            number,
            record.slot,
            record.variant,
            record.block,
            record.started_unix_ns as i64,
            record.exit_code,
            failure,
            record.ops.map(|ops| ops as i64),
            set,
            samples,
            sum
        ])?;
    if let Some(profile) = profile {
        let encoded = profile::encode(profile);
        connection
            .prepare_cached(
                "INSERT INTO profiles(recording, slot, profile, checksum) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![
                number,
                record.slot,
                encoded,
                checksum([&i64::from(record.slot).to_le_bytes(), &encoded])
            ])?;
    }
    Ok(())
}

fn metric_checksum(key: &MetricKey) -> u32 {
    let parts = [&key.name, key.domain.word(), &key.source, &key.region].map(str::as_bytes);
    checksum(parts)
}

fn text<T: serde::Serialize + ?Sized>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// A new identifier: the day, so that lists are sorted by date, and six random digits.
fn new_id(created_unix_ns: u64) -> String {
    let day = jiff::Timestamp::from_nanosecond(i128::from(created_unix_ns))
        .map_or_else(|_| "undated".to_string(), |time| time.strftime("%y%m%d").to_string());
    // The standard library seeds this state from the kernel.
    let random = RandomState::new().hash_one(created_unix_ns);
    format!("{day}-{:06x}", random & 0xff_ffff)
}
