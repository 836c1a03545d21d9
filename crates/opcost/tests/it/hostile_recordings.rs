//! Recordings in files of somebody else's: they change nothing but what they add, and run nothing.

use crate::lab::{Lab, TINY};
use rusqlite::Connection;
use std::fs;

const HEADER: &[u8] = b"opcost-recording 1\n";

/// A lab with a recording, its identifier, and an exported file of another recording.
fn with_file() -> (Lab, String) {
    let lab = Lab::new();
    lab.output(&[&["--store", "theirs.sqlite"], &TINY[..]].concat());
    lab.output(&["--store", "theirs.sqlite", "export", "-q", "-o", "good.opcost"]);
    lab.output(&TINY);
    let id = lab.recordings()[0]["id"].as_str().unwrap().to_string();
    (lab, id)
}

/// Writes `name`: `good.opcost` with a change of its tables.
fn altered(lab: &Lab, name: &str, change: impl Fn(&Connection)) {
    let packed = fs::read(lab.path("good.opcost")).unwrap();
    let store = zstd::decode_all(packed.strip_prefix(HEADER).unwrap()).unwrap();
    let path = lab.write("altered.sqlite", store);
    let connection = Connection::open(&path).unwrap();
    change(&connection);
    connection.execute_batch("VACUUM").unwrap();
    drop(connection);
    let store = zstd::encode_all(&*fs::read(&path).unwrap(), 1).unwrap();
    lab.write(name, [HEADER, &store].concat());
}

/// The SQL that the name of a column would smuggle into the copying of rows: it exchanges the variants of every stored run.
fn smuggling(connection: &Connection) -> String {
    let mut statement = connection.prepare("PRAGMA table_info(runs)").unwrap();
    let names: Vec<String> =
        statement.query_map([], |row| row.get("name")).unwrap().map(Result::unwrap).collect();
    let values: Vec<String> = names
        .iter()
        .map(|name| match name.as_str() {
            "variant" => "1 - r.variant".into(),
            "checksum" => "NULL".into(),
            name => format!("r.{name}"),
        })
        .collect();
    let column = format!(
        "slot) SELECT {}, r.slot FROM runs r WHERE ?{} IS NULL OR 1 ON CONFLICT(recording, slot)
         DO UPDATE SET variant = excluded.variant, checksum = NULL -- ",
        values.join(", "),
        names.len() + 1
    );
    format!("ALTER TABLE runs ADD COLUMN \"{column}\" TEXT")
}

#[test]
fn a_file_of_others_changes_nothing_here() {
    let (lab, id) = with_file();
    let before = lab.output(&["show", &id, "--json"]);
    let refused = |change: &dyn Fn(&Connection), words: &[&str]| {
        altered(&lab, "evil.opcost", change);
        lab.run(&["import", "evil.opcost"]).expect(5).says(&[&["'evil.opcost'"], words].concat());
        assert_eq!(lab.recordings().len(), 1);
        assert_eq!(lab.output(&["show", &id, "--json"]), before);
        lab.run(&["gather", "evil.opcost"]).expect(5).says(words);
        let store = fs::copy(lab.path("altered.sqlite"), lab.path("store-of-others.sqlite"));
        store.unwrap();
        lab.run(&["gather", "store-of-others.sqlite"]).expect(5).says(words);
    };
    let refused_sql = |sql: &str, words: &[&str]| {
        refused(&|connection| connection.execute_batch(sql).unwrap(), words);
    };
    let tables = "its tables are not as opcost makes them";
    refused(
        &|connection| connection.execute_batch(&smuggling(connection)).unwrap(),
        &[tables, "table runs has a column 'slot) SELECT"],
    );
    refused_sql(
        "DROP TABLE runs;
         CREATE VIEW runs(recording, slot) AS WITH RECURSIVE c(x) AS
         (SELECT 0 UNION ALL SELECT x + 1 FROM c) SELECT 1, x FROM c",
        &[tables, "'runs' is no table, but a view"],
    );
    refused_sql(
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
        &[tables, "a trigger 't'"],
    );
    refused_sql("CREATE TABLE notes(text TEXT)", &[tables, "a table 'notes'"]);
    refused_sql("CREATE INDEX i ON runs(abs(ops))", &[tables, "an index 'i'"]);
    refused_sql("DROP TABLE profiles", &[tables, "a table is missing"]);
    refused_sql("ALTER TABLE runs DROP COLUMN ops", &[tables, "table runs lacks a column"]);
    refused_sql(
        "ALTER TABLE runs DROP COLUMN ops;
         ALTER TABLE runs ADD COLUMN ops INTEGER GENERATED ALWAYS AS (slot) VIRTUAL",
        &[tables, "has a column 'ops' of its own"],
    );
    for table in ["recordings", "runs", "metrics", "invariants"] {
        let sql = format!("UPDATE {table} SET checksum = NULL");
        altered(&lab, "evil.opcost", |connection| connection.execute_batch(&sql).unwrap());
        let ended = lab.run(&["import", "evil.opcost"]);
        let error = format!("{table}: {}", ended.stderr);
        assert!(ended.status != Some(0) && error.contains("it has no checksum"), "{error}");
    }
    assert_eq!(lab.output(&["show", &id, "--json"]), before);
}

/// The checksum of a recording's row.
fn checksum(id: &str, plan: &str) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    for part in [id.as_bytes(), plan.as_bytes()] {
        sum.update(&(part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    sum.finalize()
}

#[test]
fn commands_of_others_run_only_if_they_are_trusted() {
    let (lab, id) = with_file();
    altered(&lab, "evil.opcost", |connection| {
        let query = "SELECT id, plan FROM recordings";
        let (id, plan): (String, String) =
            connection.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let mut plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        plan["hooks"]["setup"] = "touch ran".into();
        plan["hooks"]["cwd"] = lab.path("").to_str().unwrap().into();
        let plan = plan.to_string();
        let sql = "UPDATE recordings SET plan = ?1, checksum = ?2, state = 'interrupted', runs_at_end = 1";
        connection.execute(sql, rusqlite::params![plan, checksum(&id, &plan)]).unwrap();
        let sql = "DELETE FROM runs WHERE slot > (SELECT min(slot) FROM runs)";
        connection.execute_batch(sql).unwrap();
    });
    let imported = lab.run(&["import", "evil.opcost"]);
    assert!(imported.stdout.contains("arrived in a file"), "{}", imported.stdout);
    assert!(!imported.stdout.contains("opcost resume"), "{}", imported.stdout);
    let recordings = lab.recordings();
    let theirs = recordings.iter().find(|one| one["id"] != *id).unwrap();
    assert!(theirs["arrived_unix_ns"].is_u64(), "{theirs}");
    let theirs = theirs["id"].as_str().unwrap();
    // Without a name, the last that was made here.
    lab.run(&["resume"]).expect(2).says(&[&format!("recording {id} is complete")]);
    let parts = ["arrived in a file", "setup: touch ran (in /", "executes the workload", "--trust"];
    lab.run(&["resume", theirs]).expect(2).says(&parts);
    assert!(!lab.path("ran").exists());
    lab.run(&["resume", theirs, "--trust"]).expect(0).says(&["setup: touch ran (in /"]);
    assert!(lab.path("ran").exists());
    // To resume it does not make it one of this computer's.
    lab.run(&["resume"]).expect(2).says(&[&format!("recording {id} is complete")]);
}

#[test]
fn an_identifier_of_others_is_no_path() {
    let (lab, _) = with_file();
    for id in ["../../x-1", "last", "-rf", "a b-c", "\u{1b}[2J-"] {
        let rename = |connection: &Connection| {
            let plan: String =
                connection.query_row("SELECT plan FROM recordings", [], |row| row.get(0)).unwrap();
            let sql = "UPDATE recordings SET id = ?1, checksum = ?2";
            connection.execute(sql, rusqlite::params![id, checksum(id, &plan)]).unwrap();
        };
        altered(&lab, "evil.opcost", rename);
        let ended = lab.run(&["import", "evil.opcost"]).expect(5).says(&["none that opcost draws"]);
        assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
    }
    assert_eq!(lab.recordings().len(), 1);
}

#[test]
fn a_store_whose_tables_are_not_ours_is_never_written() {
    let lab = Lab::new();
    lab.output(&TINY);
    let store = Connection::open(lab.store()).unwrap();
    let sql = "ALTER TABLE metrics RENAME TO hidden; CREATE VIEW metrics AS SELECT * FROM hidden";
    store.execute_batch(sql).unwrap();
    drop(store);
    for args in [&["show"][..], &TINY] {
        lab.run(args).expect(5).says(&["'metrics' is no table, but a view", "nothing was changed"]);
    }
}
