//! The keys and sites of a process, as a table and as JSON.

use anyhow::Result;
use opcost_base::number::grouped;
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
    /// The listing as a table.
    pub(super) fn text(&self) -> String {
        let Listing { process, survey, functions } = self;
        let plural = |count: usize, what: &str| {
            format!("{} {what}{}", grouped(count as u64), if count == 1 { "" } else { "s" })
        };
        let mut text = format!(
            "{} (process {}) · {} · {} · {}\n",
            process.name,
            process.pid,
            plural(process.thread_count(), "thread"),
            plural(survey.keys.len(), "key"),
            plural(survey.site_count(), "site")
        );
        text += &match self.ops() {
            Some(0) => "counts no operations of its own (patchpoint_ops_add)\n".to_string(),
            Some(ops) => format!("counts its operations: {} so far\n", grouped(ops)),
            None => "its library is too old to count operations\n".to_string(),
        };
        if !self.at_rest() {
            text += "a transaction was open; repeat to see its end\n";
        }
        for key in &survey.keys {
            let now = shown(key, key.state.value, functions);
            let head = format!("{}  {} = {now}", key.name, key.kind.word());
            text += &format!("\n{}  {}\n", head, file_name(&key.path));
            for site in key.sites.iter().take(SITES_SHOWN) {
                text += &site_line(site, key);
            }
            if key.sites.len() > SITES_SHOWN {
                let more = plural(key.sites.len() - SITES_SHOWN, "more site");
                text += &format!("  … and {more} (--json lists all)\n");
            }
        }
        text
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

fn site_line(site: &Site, key: &Key) -> String {
    let bytes = hex(&site.now);
    let mut line = format!("  {:#14x}  {:<9}  {bytes:<32}", site.place.code, site.state);
    if site.path != key.path {
        line += &format!("  {}", file_name(&site.path));
    }
    format!("{}\n", line.trim_end())
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
