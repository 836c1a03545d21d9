//! The tables of a store: one declaration, from which stores are made, brought up to this version, checked and copied.

use super::checksum::{self, checksum};
use super::codec;
use opcost_model::recording::State;
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, Row, TransactionBehavior, params};

/// `PRAGMA application_id`: "opco".
pub(super) const APPLICATION_ID: i32 = 0x6f70_636f;
/// `PRAGMA user_version` of this schema. Version 1 had no profiles, version 2 no checksums. In version 3, rows of older versions
/// had none; since version 4 every row has one, and a recording from a file says when it arrived.
pub(super) const SCHEMA_VERSION: i32 = 4;
/// The first version with columns of checksums.
pub(super) const CHECKSUMS_SINCE: i32 = 3;
/// The first version in which every row has its checksum.
pub(super) const CHECKSUMS_ALWAYS_SINCE: i32 = 4;
/// The first version that says which recordings arrived in a file.
pub(super) const ARRIVALS_SINCE: i32 = 4;

/// A table of the store.
pub(super) struct StoreTable {
    pub(super) name: &'static str,
    /// The column of the recording's number.
    pub(super) key: &'static str,
    since: i32,
    pub(super) columns: &'static [Column],
    /// The statement's end after the columns, where the table is made.
    end: &'static str,
}

/// A column of a table.
pub(super) struct Column {
    pub(super) name: &'static str,
    kind: Type,
    is_nullable: bool,
    since: i32,
    /// Another constraint of the column.
    constraint: &'static str,
}

const fn column(name: &'static str, kind: Type) -> Column {
    Column { name, kind, is_nullable: false, since: 1, constraint: "" }
}

const fn nullable(name: &'static str, kind: Type, since: i32) -> Column {
    Column { name, kind, is_nullable: true, since, constraint: "" }
}

const CHECKSUM: Column = nullable("checksum", Type::Integer, CHECKSUMS_SINCE);
const RECORDING: Column = column("recording", Type::Integer);
const BY_ID: &str = ", PRIMARY KEY(recording, id)) WITHOUT ROWID";
const BY_SLOT: &str = ", PRIMARY KEY(recording, slot)) WITHOUT ROWID";

/// Every table.
pub(super) const TABLES: [StoreTable; 5] = [
    StoreTable {
        name: "recordings",
        key: "number",
        since: 1,
        columns: &[
            Column { constraint: " PRIMARY KEY", ..nullable("number", Type::Integer, 1) },
            Column { constraint: " UNIQUE", ..column("id", Type::Text) },
            column("created_unix_ns", Type::Integer),
            column("experiment", Type::Text),
            column("state", Type::Text),
            column("plan", Type::Text),
            column("machine", Type::Text),
            CHECKSUM,
            nullable("runs_at_end", Type::Integer, CHECKSUMS_SINCE),
            nullable("arrived_unix_ns", Type::Integer, ARRIVALS_SINCE),
        ],
        end: ")",
    },
    StoreTable {
        name: "metrics",
        key: "recording",
        since: 1,
        columns: &[
            RECORDING,
            column("id", Type::Integer),
            column("name", Type::Text),
            column("domain", Type::Text),
            column("source", Type::Text),
            column("region", Type::Text),
            CHECKSUM,
        ],
        end: BY_ID,
    },
    StoreTable {
        name: "invariants",
        key: "recording",
        since: 1,
        columns: &[RECORDING, column("id", Type::Integer), column("items", Type::Text), CHECKSUM],
        end: BY_ID,
    },
    StoreTable {
        name: "runs",
        key: "recording",
        since: 1,
        columns: &[
            RECORDING,
            column("slot", Type::Integer),
            column("variant", Type::Integer),
            nullable("block", Type::Integer, 1),
            column("started_unix_ns", Type::Integer),
            nullable("exit_code", Type::Integer, 1),
            nullable("failure", Type::Text, 1),
            nullable("ops", Type::Integer, 1),
            column("invariants", Type::Integer),
            column("samples", Type::Blob),
            CHECKSUM,
        ],
        end: BY_SLOT,
    },
    StoreTable {
        name: "profiles",
        key: "recording",
        since: 2,
        columns: &[
            RECORDING,
            column("slot", Type::Integer),
            column("profile", Type::Blob),
            CHECKSUM,
        ],
        end: BY_SLOT,
    },
];

impl StoreTable {
    /// The columns that the table has in a version.
    pub(super) fn columns_of(&self, version: i32) -> impl Iterator<Item = &'static Column> {
        self.columns.iter().filter(move |column| column.since <= version)
    }

    /// The statement that inserts a row with all columns of this version.
    pub(super) fn insertion(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        let places: Vec<String> = (1..=names.len()).map(|n| format!("?{n}")).collect();
        format!("INSERT INTO {}({}) VALUES({})", self.name, names.join(", "), places.join(", "))
    }

    /// Whether a version has the table.
    pub(super) fn is_in(&self, version: i32) -> bool {
        self.since <= version
    }

    /// The checksum of a row; `None` if its contents have other types.
    ///
    /// `value`: returns the value of a column.
    pub(super) fn checksum<'a>(&self, value: impl Fn(&str) -> Option<ValueRef<'a>>) -> Option<u32> {
        let bytes = |name| value(name)?.as_bytes().ok();
        let integer = |name| value(name)?.as_i64_or_null().ok();
        Some(match self.name {
            "recordings" => checksum([bytes("id")?, bytes("plan")?]),
            "metrics" => {
                checksum([bytes("name")?, bytes("domain")?, bytes("source")?, bytes("region")?])
            }
            "invariants" => checksum([bytes("items")?]),
            "runs" => {
                let integers = [
                    integer("slot")?,
                    integer("variant")?,
                    integer("block")?,
                    integer("started_unix_ns")?,
                    integer("exit_code")?,
                    integer("ops")?,
                    integer("invariants")?,
                ];
                let failure = value("failure")?.as_str_or_null().ok()?;
                checksum::of_run(integers, failure, bytes("samples")?)
            }
            _ => checksum([&integer("slot")??.to_le_bytes(), bytes("profile")?]),
        })
    }

    /// Adds the checksums that rows of older versions lack. A row with other types than its columns stays as it is: without a
    /// checksum it is refused.
    fn add_checksums(&self, connection: &Connection) -> rusqlite::Result<()> {
        let place = if self.key == "number" { "number" } else { self.columns[1].name };
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        let select = format!(
            "SELECT {}, {place} FROM {} WHERE checksum IS NULL",
            names.join(", "),
            self.name
        );
        let update = format!(
            "UPDATE {} SET checksum = ?1 WHERE {} = ?2 AND {place} = ?3",
            self.name, self.key
        );
        // A statement that changes the rows that it goes over may meet a row twice, so the keys are collected first.
        let mut select = connection.prepare(&select)?;
        let sums = |row: &Row<'_>| {
            let at = |name: &str| names.iter().position(|known| *known == name);
            let made = self.checksum(|name| row.get_ref(at(name)?).ok());
            let key: i64 = row.get(at(self.key).expect("a key is a column"))?;
            Ok((made, key, row.get::<_, i64>(names.len())?))
        };
        let sums: Vec<_> = select.query_map([], sums)?.collect::<rusqlite::Result<_>>()?;
        let mut update = connection.prepare(&update)?;
        for (made, key, place) in sums {
            if let Some(made) = made {
                update.execute(params![made, key, place])?;
            }
        }
        Ok(())
    }
}

impl Column {
    /// Its declaration where its table is made, or where it is added.
    fn declaration(&self) -> String {
        let null = if self.is_nullable { "" } else { " NOT NULL" };
        format!("{} {}{null}{}", self.name, self.kind_word(), self.constraint)
    }

    fn kind_word(&self) -> &'static str {
        match self.kind {
            Type::Integer => "INTEGER",
            Type::Text => "TEXT",
            _ => "BLOB",
        }
    }

    /// Whether the column may have a value.
    pub(super) fn takes(&self, value: ValueRef<'_>) -> bool {
        let kind = value.data_type();
        kind == self.kind || kind == Type::Null && self.is_nullable
    }
}

/// Adds the tables, columns and checksums that an older store lacks.
pub(super) fn bring_up(connection: &Connection) -> rusqlite::Result<()> {
    // Immediate: if two processes do this at the same time, the second waits and then finds nothing to do.
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let version: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version >= SCHEMA_VERSION {
        return Ok(());
    }
    for table in &TABLES {
        let name = table.name;
        if !table.is_in(version) {
            let columns: Vec<String> = table.columns.iter().map(Column::declaration).collect();
            let sql = format!("CREATE TABLE {name}({}{}", columns.join(", "), table.end);
            transaction.execute_batch(&sql)?;
            continue;
        }
        for column in table.columns.iter().filter(|column| column.since > version) {
            let sql = format!("ALTER TABLE {name} ADD COLUMN {}", column.declaration());
            transaction.execute_batch(&sql)?;
        }
        table.add_checksums(&transaction)?;
    }
    transaction.execute(
        "UPDATE recordings SET runs_at_end = (SELECT count(*) FROM runs WHERE recording = number)
         WHERE runs_at_end IS NULL AND state != ?1",
        [State::Running.word()],
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}

/// Refuses a store whose tables differ from those of its version: a view or a virtual table can stand in for a table, and run code
/// of whoever made the file.
///
/// `alone`: whether nothing else may be in the store.
pub(super) fn check(connection: &Connection, version: i32, alone: bool) -> rusqlite::Result<()> {
    let refuse = |why: String| Err(codec::corrupt(0, why));
    let mut statement = connection
        .prepare("SELECT type, name, coalesce(rootpage, 0), sql IS NULL FROM sqlite_schema")?;
    let mut rows = statement.query([])?;
    let mut found = 0;
    while let Some(row) = rows.next()? {
        let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
        let (has_pages, is_automatic) = (row.get::<_, i64>(2)? > 0, row.get(3)?);
        let ours = TABLES.iter().any(|table| table.name == name && table.is_in(version));
        match kind.as_str() {
            "table" if ours && has_pages => found += 1,
            // SQLite's own index of a unique column has no statement.
            "index" if is_automatic => {}
            _ if ours => return refuse(format!("'{name}' is no table, but a {kind}")),
            _ if alone => {
                let article = if kind == "index" { "an" } else { "a" };
                return refuse(format!("it has {article} {kind} '{name}', which no store has"));
            }
            _ => {}
        }
    }
    if found != TABLES.iter().filter(|table| table.is_in(version)).count() {
        return refuse("a table is missing".into());
    }
    for table in TABLES.iter().filter(|table| table.is_in(version)) {
        // The third argument: hidden and generated columns, too (<https://sqlite.org/pragma.html#pragma_table_xinfo>).
        let mut statement = connection.prepare(&format!("PRAGMA table_xinfo({})", table.name))?;
        let columns: Vec<(String, String, i64)> = statement
            .query_map([], |row| Ok((row.get("name")?, row.get("type")?, row.get("hidden")?)))?
            .collect::<rusqlite::Result<_>>()?;
        let expected: Vec<&Column> = table.columns_of(version).collect();
        for (name, kind, hidden) in &columns {
            let known = expected.iter().find(|column| column.name == name);
            let is_same = known.is_some_and(|known| known.kind_word() == kind && *hidden == 0);
            if !is_same {
                return refuse(format!("table {} has a column '{name}' of its own", table.name));
            }
        }
        if columns.len() != expected.len() {
            return refuse(format!("table {} lacks a column", table.name));
        }
    }
    Ok(())
}
