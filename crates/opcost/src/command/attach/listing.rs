//! The keys and sites of a process, as a document and as JSON.

use anyhow::Result;
use opcost_base::number::grouped;
use opcost_page::document::{Cell, Document, Mark};
use patchpoint_attach::process::Process;
use patchpoint_attach::survey::{Key, Kind, Site, Survey};
use patchpoint_attach::symbol::Function;
use patchpoint_attach::value;
use patchpoint_attach::writes::hex;
use serde_json::{Value, json};

/// Sites of a key that the table shows; JSON has all.
const SITES_SHOWN: usize = 20;

/// A process with its keys, sites and functions, to be listed.
pub(super) struct Listing<'a> {
    pub(super) process: &'a Process,
    pub(super) survey: &'a Survey,
    /// Functions that have names.
    pub(super) functions: &'a [Function],
}

impl Listing<'_> {
    /// The listing for people.
    pub(super) fn document(&self) -> Document {
        let Listing { process, survey, functions } = self;
        let plural = |count: usize, what: &str| {
            format!("{} {what}{}", grouped(count as u64), if count == 1 { "" } else { "s" })
        };
        let mut document = Document::titled(format!(
            "{} (process {}) · {} · {} · {}",
            process.name,
            process.pid,
            plural(process.thread_count(), "thread"),
            plural(survey.keys.len(), "key"),
            plural(survey.site_count(), "site")
        ));
        document.say(
            Mark::None,
            match self.ops() {
                Some(0) => "counts no operations of its own (patchpoint_ops_add)".to_string(),
                Some(ops) => format!("counts its operations: {} so far", grouped(ops)),
                None => "its library is too old to count operations".to_string(),
            },
        );
        if !self.at_rest() {
            document.say(Mark::Doubt, "a transaction was open; repeat to see its end");
        }
        for key in &survey.keys {
            let now = shown(key, key.state.value, functions);
            let (kind, file) = (key.kind.word(), file_name(&key.path));
            document.section(format!("{} ({kind}) = {now} · {file}", key.name));
            document.rows(key.sites.iter().take(SITES_SHOWN).map(|site| site_row(site, key)));
            if key.sites.len() > SITES_SHOWN {
                let more = plural(key.sites.len() - SITES_SHOWN, "more site");
                document.say(Mark::Note, format!("… and {more} (--json lists all)"));
            }
        }
        document
    }

    /// The listing as JSON: sites with the fields of `patchpoint-dump --json`, and keys.
    pub(super) fn json(&self) -> Result<String> {
        let keys: Vec<Value> = self
            .survey
            .keys
            .iter()
            .map(|key| {
                json!({
                    "key": key.name,
                    "kind": key.kind.word(),
                    "value": shown(key, key.state.value, self.functions),
                    "size_bytes": (key.kind == Kind::Value).then_some(key.size),
                    "object": key.path,
                    "sites": key.sites.len(),
                })
            })
            .collect();
        let sites =
            self.survey.keys.iter().flat_map(|key| key.sites.iter().map(move |site| (key, site)));
        let sites: Vec<Value> = sites
            .map(|(key, site)| {
                json!({
                    "key": key.name,
                    "kind": site.kind.word(),
                    "address": format!("{:#x}", site.place.code),
                    "object": site.path,
                    "state": site.state,
                    "bytes_original": site.original().map(|bytes| hex(&bytes)),
                    "bytes_now": hex(&site.now),
                })
            })
            .collect();
        let listed = json!({
            "schema": 1,
            "pid": self.process.pid,
            "program": self.process.name,
            "keys": keys,
            "sites": sites,
            "transaction_open": !self.at_rest(),
            "ops": self.ops(),
        });
        opcost_base::json::document(&listed, "sites")
    }

    /// The number of operations that the program counted; `None` if no copy of the library has a counter.
    fn ops(&self) -> Option<u64> {
        self.survey.registries.iter().filter_map(|registry| registry.ops).reduce(u64::wrapping_add)
    }

    fn at_rest(&self) -> bool {
        self.survey.registries.iter().all(|registry| registry.at_rest())
    }
}

fn site_row(site: &Site, key: &Key) -> Vec<Cell> {
    let elsewhere = if site.path == key.path { "" } else { file_name(&site.path) };
    let cells = [&format!("{:#x}", site.place.code), site.state, &hex(&site.now), elsewhere];
    cells.map(Cell::text).to_vec()
}

/// A key's value as people read it: a function by its name, if it has one.
pub(super) fn shown(key: &Key, slot: u64, functions: &[Function]) -> String {
    let named = functions.iter().find(|function| function.address == slot);
    match named.filter(|_| key.kind == Kind::Call) {
        Some(function) => function.name.clone(),
        None => value::show(key, slot),
    }
}

/// The last part of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
