//! A recording for others: private names are replaced, each by the same word everywhere.
//!
//! The values of `--env`, the names of users, hosts and folders are private. Names of files stay, and those of folders
//! that systems and build tools share. Texts are found by serde, so a new field is searched as the others are.

use super::{MachineState, Recording};
use opcost_record::{
    Dictionary, Function, METRICS, MetricKey, Module, Outcome, Profile, Record, TWIN, WORK,
};
use opcost_work::{WORKLOADS, WorkloadSpec};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Fields whose text is the path of a folder; those whose text is a file's path.
const FOLDERS: [&str; 2] = ["cwd", "tree"];
const FILES: [&str; 6] = ["program", "path", "input", "file", "module", "source"];

/// Folders that a distribution or a compiler made, with all in them.
const SYSTEM: [&str; 16] = [
    "/bin/",
    "/boot/",
    "/etc/",
    "/gnu/store/",
    "/lib/",
    "/lib32/",
    "/lib64/",
    "/nix/store/",
    "/proc/",
    "/rustc/",
    "/sbin/",
    "/sys/",
    "/usr/bin/",
    "/usr/lib/",
    "/usr/lib64/",
    "/usr/share/",
];

/// Names of folders and accounts that tell of nobody.
const SHARED: [&str; 57] = [
    ".cache",
    ".cargo",
    ".config",
    ".local",
    ".rustup",
    "Users",
    "bench",
    "benches",
    "bin",
    "build",
    "cache",
    "crates",
    "data",
    "debug",
    "deps",
    "dev",
    "dist",
    "doc",
    "docs",
    "etc",
    "examples",
    "home",
    "include",
    "kernel",
    "lib",
    "libexec",
    "linux",
    "local",
    "localhost",
    "main",
    "master",
    "media",
    "mnt",
    "nobody",
    "obj",
    "opt",
    "out",
    "proc",
    "registry",
    "release",
    "root",
    "run",
    "sbin",
    "script",
    "scripts",
    "share",
    "shm",
    "src",
    "srv",
    "sys",
    "target",
    "test",
    "tests",
    "tmp",
    "usr",
    "var",
    "work",
];

/// The shortest value or folder, and the shortest user or host, that is replaced away from a slash; a shorter one is too
/// often another word.
const LONE_BYTES_MIN: usize = 4;
const PERSON_BYTES_MIN: usize = 3;

/// The shortest value that is replaced within a longer word.
const WITHIN_BYTES_MIN: usize = 8;

/// A kind of private names.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum PrivateKind {
    /// The value of a variable of `--env`.
    Value,
    /// A user.
    User,
    /// A computer.
    Host,
    /// A folder.
    Folder,
}

impl PrivateKind {
    /// The word that replaces a name, before its number.
    fn word(self) -> &'static str {
        match self {
            PrivateKind::Value => "value",
            PrivateKind::User => "user",
            PrivateKind::Host => "host",
            PrivateKind::Folder => "folder",
        }
    }
}

/// The private names of recordings, with what replaces each.
#[derive(Clone, Debug, Default)]
pub struct PrivateNames {
    /// The names in the order in which they were found, without duplicates.
    found: Vec<(PrivateKind, String)>,
    known: BTreeSet<(PrivateKind, String)>,
    /// The variables of `--env` with their values.
    variables: BTreeSet<(String, String)>,
    /// Names of files, which stay.
    files: BTreeSet<String>,
}

/// Where a name is replaced.
#[derive(Clone, Copy, Debug)]
enum Extent {
    Anywhere,
    Word,
    BesideSlash,
}

impl PrivateNames {
    /// Makes a list of the names that this computer knows of its users and itself.
    pub fn new(users: &[String], hosts: &[String]) -> PrivateNames {
        let mut names = PrivateNames::default();
        users.iter().for_each(|name| names.add(PrivateKind::User, name));
        for host in hosts {
            names.add(PrivateKind::Host, host);
            names.add(PrivateKind::Host, host.split('.').next().unwrap_or_default());
        }
        names
    }

    /// Adds the names in a recording.
    ///
    /// # Errors
    /// The recording cannot be written as JSON.
    pub fn learn(&mut self, recording: &Recording) -> Result<(), serde_json::Error> {
        for variant in &recording.plan.variants {
            for (variable, value) in &variant.env {
                self.add(PrivateKind::Value, value);
                self.variables.insert((variable.clone(), value.clone()));
            }
        }
        let mut texts = vec![
            serde_json::to_value(&recording.plan)?,
            serde_json::to_value(&recording.machine)?,
            serde_json::to_value(recording.dictionary.keys())?,
        ];
        for record in &recording.records {
            texts.push(serde_json::to_value(&record.invariants)?);
            if let Outcome::Failed(failure) = &record.outcome {
                texts.push(serde_json::to_value(failure)?);
            }
        }
        // Many runs have the same functions.
        let mut of_code: BTreeSet<&str> = BTreeSet::new();
        for (_, profile) in &recording.profiles {
            for function in &profile.functions {
                let Function { symbol, module, source, mangled } = function;
                of_code.extend([symbol.as_str(), module.as_str()]);
                of_code.extend(source.as_deref().into_iter().chain(mangled.as_deref()));
            }
            for Module { path, soname, program: _ } in &profile.modules {
                of_code.insert(path);
                of_code.extend(soname.as_deref());
            }
        }
        let code = Value::from(of_code.into_iter().collect::<Vec<_>>());
        texts.push(serde_json::json!({ "module": code }));
        // What is known to be a file stays also where a command names it, so typed fields come first.
        for typed in [true, false] {
            texts.iter().for_each(|text| self.learn_from(text, "", typed));
        }
        Ok(())
    }

    fn learn_from(&mut self, value: &Value, field: &str, typed: bool) {
        match value {
            // The path of data is that of a file or of a folder.
            Value::Object(fields) if field == "data" => {
                fields.values().for_each(|below| self.learn_from(below, field, typed));
            }
            Value::Object(fields) => {
                fields.iter().for_each(|(name, below)| self.learn_from(below, name, typed));
            }
            Value::Array(items) => {
                if let Some(text) = bytes_text(items).filter(|_| !typed) {
                    paths(&text).into_iter().for_each(|path| self.learn_path(path, None));
                }
                items.iter().for_each(|below| self.learn_from(below, field, typed));
            }
            Value::String(text) => {
                let is_path = text.starts_with('/');
                if typed && is_path && FOLDERS.contains(&field) {
                    self.learn_path(text, Some(true));
                } else if typed && is_path && FILES.contains(&field) {
                    self.learn_path(text, Some(false));
                } else if !typed {
                    paths(text).into_iter().for_each(|path| self.learn_path(path, None));
                }
            }
            _ => {}
        }
    }

    /// Adds the folders of a path.
    ///
    /// `is_folder`: whether the whole path names a folder; `None` if a command or another text names it.
    fn learn_path(&mut self, path: &str, is_folder: Option<bool>) {
        if SYSTEM.iter().any(|system| path.starts_with(system)) {
            return;
        }
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let Some((last, folders)) = parts.split_last() else { return };
        let mut before = "";
        for folder in folders {
            self.add_folder(folder, before);
            before = folder;
        }
        let has_ending = Path::new(last).extension().is_some_and(|ending| {
            let is_letter = |char: char| char.is_ascii_alphabetic();
            ending.to_str().is_some_and(|ending| ending.contains(is_letter) && ending.len() < 8)
        });
        match is_folder {
            Some(true) => self.add_folder(last, before),
            Some(false) => _ = self.files.insert((*last).to_string()),
            None if has_ending || folders.is_empty() => {}
            None => self.add_folder(last, before),
        }
    }

    fn add_folder(&mut self, name: &str, parent: &str) {
        if let Some(user) = name.strip_prefix('~') {
            return self.add(PrivateKind::User, user);
        }
        let is_home = ["home", "Users"].contains(&parent);
        self.add(if is_home { PrivateKind::User } else { PrivateKind::Folder }, name);
    }

    fn add(&mut self, kind: PrivateKind, name: &str) {
        let tells = match kind {
            PrivateKind::Value => !name.is_empty(),
            _ => !SHARED.contains(&name) && name.contains(|char: char| char.is_alphabetic()),
        };
        if tells && self.known.insert((kind, name.to_string())) {
            self.found.push((kind, name.to_string()));
        }
    }

    /// The names with the words that replace them.
    fn replacements(&self) -> Vec<(PrivateKind, &str, String)> {
        let mut counts = BTreeMap::new();
        let stays = |kind: PrivateKind, name: &str| {
            kind == PrivateKind::Folder && self.files.contains(name)
        };
        let found = self.found.iter().filter(|(kind, name)| !stays(*kind, name));
        let numbered = found.map(|(kind, name)| {
            let count = counts.entry(*kind).or_insert(0);
            *count += 1;
            (*kind, name.as_str(), format!("{}-{count}", kind.word()))
        });
        numbered.collect()
    }

    /// Makes what replaces the names.
    pub fn replacer(&self) -> Replacer {
        let replacements = self.replacements();
        let values = replacements.iter().filter(|(kind, ..)| *kind == PrivateKind::Value);
        let values: BTreeMap<String, String> =
            values.map(|(_, value, word)| ((*value).to_string(), word.clone())).collect();
        let mut names = BTreeMap::new();
        for (variable, value) in &self.variables {
            let Some(word) = values.get(value) else { continue };
            for form in forms(value) {
                let word = format!("{variable}={word}");
                names.insert(format!("{variable}={form}"), (word, Extent::Word));
            }
        }
        for (kind, name, word) in replacements {
            for form in forms(name) {
                let is_person = [PrivateKind::User, PrivateKind::Host].contains(&kind);
                let bytes_min = if is_person { PERSON_BYTES_MIN } else { LONE_BYTES_MIN };
                let is_lone = form.len() >= bytes_min && !is_ours(&form);
                let extent = match kind {
                    PrivateKind::Value if !is_lone => continue,
                    PrivateKind::Value if form.len() >= WITHIN_BYTES_MIN => Extent::Anywhere,
                    _ if is_lone => Extent::Word,
                    _ => Extent::BesideSlash,
                };
                names.entry(form).or_insert((word.clone(), extent));
            }
        }
        let mut names: Vec<Replaced> = names
            .into_iter()
            .map(|(name, (word, extent))| Replaced { name, word, extent })
            .collect();
        // If two names begin at one place, the text means the longer one.
        names.sort_by_key(|replaced| std::cmp::Reverse(replaced.name.len()));
        let mut by_start: BTreeMap<u8, Vec<Replaced>> = BTreeMap::new();
        for replaced in names {
            by_start.entry(replaced.name.as_bytes()[0]).or_default().push(replaced);
        }
        Replacer { by_start, values, used: RefCell::default() }
    }

    /// What was replaced, a line for each kind; values are not shown, but their variables.
    pub fn told(&self, by: &Replacer) -> Vec<String> {
        let replacements = self.replacements();
        let shown = |(kind, name, word): &(PrivateKind, &str, String)| {
            let variables = self.variables.iter().filter(|(_, value)| value == name);
            let variables: Vec<&str> = variables.map(|(variable, _)| variable.as_str()).collect();
            match kind {
                PrivateKind::Value => format!("{} = {word}", variables.join(", ")),
                _ => format!("{name} = {word}"),
            }
        };
        let mut lines = Vec::new();
        for (kind, plural) in [
            (PrivateKind::Value, "values of --env"),
            (PrivateKind::User, "users"),
            (PrivateKind::Host, "hosts"),
            (PrivateKind::Folder, "folders"),
        ] {
            let is_used = |word: &String| by.used.borrow().contains(word);
            let of_kind =
                replacements.iter().filter(|(known, _, word)| *known == kind && is_used(word));
            let all: Vec<String> = of_kind.map(shown).collect();
            if !all.is_empty() {
                lines.push(format!("{plural}: {}", all.join("; ")));
            }
        }
        lines
    }
}

/// The forms in which a name stands in a recording: as it is, and as a shell and a page quote it.
fn forms(name: &str) -> BTreeSet<String> {
    let quoted = shlex::try_quote(name).map(std::borrow::Cow::into_owned).ok();
    let printable = opcost_record::printable::printable(name);
    [name.to_string(), printable].into_iter().chain(quoted).collect()
}

/// Whether a word has a meaning of opcost's.
fn is_ours(word: &str) -> bool {
    let is_parameter = |spec: &WorkloadSpec| {
        let mut parameters = spec.all_params().into_iter();
        parameters.any(|param| param.name == word || param.values.split('|').any(|one| one == word))
    };
    METRICS.iter().any(|row| row.name == word || row.source == word)
        || WORKLOADS.iter().any(|spec| spec.name == word || is_parameter(spec))
        || [WORK, TWIN].contains(&word)
}

/// The paths in a text that begin at the root, at a home or at the working folder.
fn paths(text: &str) -> Vec<&str> {
    let ends = |char: char| {
        char.is_whitespace() || char.is_control() || "'\"`:;,()[]{}<>|&$*?=\\".contains(char)
    };
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find('/').map(|at| from + at) {
        let head = &text[from..at];
        // The word before the slash, from the last character that ends a path.
        let word = head.rsplit(ends).next().unwrap_or_default();
        let rest = &text[at..];
        let length = rest.find(ends).unwrap_or(rest.len());
        let is_switch = word.len() == 2 && word.starts_with('-');
        if head.ends_with(':') && rest.starts_with("//") && !rest.starts_with("///") {
            // An address of the network.
        } else if word.is_empty() || is_switch {
            found.push(&rest[..length]);
        } else if [".", ".."].contains(&word) {
            found.push(&rest[1..length]);
        } else if word.starts_with('~') {
            found.push(&text[at - word.len()..at + length]);
        }
        from = at + length.max(1);
    }
    found
}

/// The text of a word that is not UTF-8, which JSON holds as a list of bytes.
fn bytes_text(items: &[Value]) -> Option<String> {
    let byte = |item: &Value| item.as_u64().and_then(|byte| u8::try_from(byte).ok());
    let bytes: Vec<u8> = items.iter().map(byte).collect::<Option<_>>()?;
    String::from_utf8(bytes).err().map(|error| String::from_utf8_lossy(error.as_bytes()).into())
}

/// A name with what replaces it.
#[derive(Clone, Debug)]
struct Replaced {
    name: String,
    word: String,
    extent: Extent,
}

/// Replaces private names.
#[derive(Clone, Debug)]
pub struct Replacer {
    /// The names by their first byte, the longest first.
    by_start: BTreeMap<u8, Vec<Replaced>>,
    /// The word for each value of `--env`.
    values: BTreeMap<String, String>,
    /// The words that stand in a text by now.
    used: RefCell<BTreeSet<String>>,
}

impl Replacer {
    /// A text without private names.
    pub fn text(&self, text: &str) -> String {
        let is_word = |char: Option<char>| char.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let mut made = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let before = text[..text.len() - rest.len()].chars().next_back();
            let here = self.by_start.get(&rest.as_bytes()[0]).map_or(&[][..], Vec::as_slice);
            let found = here.iter().find_map(|replaced| {
                let behind = rest.strip_prefix(replaced.name.as_str())?;
                let after = behind.chars().next();
                let alone = !is_word(before) && !is_word(after);
                let is_meant = match replaced.extent {
                    Extent::Anywhere => true,
                    Extent::Word => alone,
                    Extent::BesideSlash => alone && [before, after].contains(&Some('/')),
                };
                is_meant.then_some((replaced.word.as_str(), behind))
            });
            match found {
                Some((word, behind)) => {
                    made += word;
                    self.use_word(word.split('=').next_back().unwrap_or(word));
                    rest = behind;
                }
                None => {
                    made.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        made
    }

    /// A recording without private names, the boot's identifier, boot parameters and CPU features.
    ///
    /// # Errors
    /// The recording cannot be written as JSON, or read again.
    pub fn recording(&self, recording: &Recording) -> Result<Recording, serde_json::Error> {
        let Recording {
            id,
            created_unix_ns,
            arrived_unix_ns,
            state,
            plan,
            machine,
            dictionary,
            records,
            profiles,
        } = recording;
        let mut shared = self.all(plan)?;
        // A value is private whatever it is, also where it is too short to be found in texts.
        for (variant, own) in shared.variants.iter_mut().zip(&plan.variants) {
            for ((_, value), (_, own)) in variant.env.iter_mut().zip(&own.env) {
                if let Some(word) = self.values.get(own) {
                    value.clone_from(word);
                    self.use_word(word);
                }
            }
        }
        let mut machine: Vec<MachineState> = self.all(machine)?;
        for state in &mut machine {
            state.boot_id = None;
            state.boot_parameters = None;
            state.cpu_flags = None;
        }
        let keys: Vec<MetricKey> = self.all(&dictionary.keys().to_vec())?;
        let records = records.iter().map(|record| self.record(record));
        let profiles = profiles.iter().map(|(slot, profile)| (*slot, self.profile(profile)));
        Ok(Recording {
            id: id.clone(),
            created_unix_ns: *created_unix_ns,
            arrived_unix_ns: *arrived_unix_ns,
            state: *state,
            plan: shared,
            machine,
            dictionary: Dictionary::from_keys(keys),
            records: records.collect::<Result<_, _>>()?,
            profiles: profiles.collect(),
        })
    }

    fn use_word(&self, word: &str) {
        self.used.borrow_mut().insert(word.to_string());
    }

    fn record(&self, record: &Record) -> Result<Record, serde_json::Error> {
        let outcome = match &record.outcome {
            Outcome::Failed(failure) => Outcome::Failed(self.all(failure)?),
            Outcome::Finished => Outcome::Finished,
        };
        let invariants = self.all(&record.invariants)?;
        Ok(Record { outcome, invariants, ..record.clone() })
    }

    fn profile(&self, profile: &Profile) -> Profile {
        let functions = profile.functions.iter().map(|function| Function {
            symbol: self.text(&function.symbol),
            module: self.text(&function.module),
            source: function.source.as_deref().map(|source| self.text(source)),
            mangled: function.mangled.as_deref().map(|mangled| self.text(mangled).into()),
        });
        let modules = profile.modules.iter().map(|module| Module {
            path: self.text(&module.path),
            soname: module.soname.as_deref().map(|soname| self.text(soname)),
            program: module.program,
        });
        Profile {
            functions: functions.collect(),
            modules: modules.collect(),
            contexts: profile.contexts.clone(),
            cycles: profile.cycles.clone(),
            addresses: profile.addresses.clone(),
            transfers: profile.transfers.clone(),
            // A value may be a secret, and assembly names nothing.
            steps: profile.steps.as_ref().map(|steps| Box::new(steps.without_values())),
        }
    }

    /// A value with every text in it replaced, but for words that its type fixes.
    fn all<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<T, serde_json::Error> {
        let before = serde_json::to_value(value)?;
        let mut after = before.clone();
        let mut changed = 0;
        self.rewrite(&mut after, &mut |_| {
            changed += 1;
            true
        });
        if let Ok(made) = serde_json::from_value(after) {
            return Ok(made);
        }
        // A private name may be spelled like a word of the type: such places stay, found one by one.
        let mut kept = BTreeSet::new();
        for tried in 0..changed {
            let mut alone = before.clone();
            let mut place = 0;
            self.rewrite(&mut alone, &mut |_| {
                place += 1;
                place - 1 == tried
            });
            if serde_json::from_value::<T>(alone).is_err() {
                kept.insert(tried);
            }
        }
        let mut after = before;
        let mut place = 0;
        self.rewrite(&mut after, &mut |_| {
            place += 1;
            !kept.contains(&(place - 1))
        });
        serde_json::from_value(after)
    }

    /// Replaces the names in each text for which `take` says so; `take` is asked where a name would be replaced.
    fn rewrite(&self, value: &mut Value, take: &mut dyn FnMut(&str) -> bool) {
        let text = match value {
            Value::String(text) => Some(text.clone()),
            Value::Array(items) => bytes_text(items),
            _ => None,
        };
        if let Some(text) = text {
            let replaced = self.text(&text);
            if replaced != text && take(&text) {
                *value = Value::String(replaced);
                return;
            }
        }
        match value {
            Value::Object(fields) => {
                fields.values_mut().for_each(|below| self.rewrite(below, take));
            }
            Value::Array(items) => items.iter_mut().for_each(|below| self.rewrite(below, take)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> PrivateNames {
        let mut names = PrivateNames::new(&["zoe".into()], &["mill.example.org".into()]);
        for typed in [true, false] {
            names.learn_from(&serde_json::json!({ "path": "/srv/anvil/hammer" }), "", typed);
            for text in texts {
                names.learn_from(&Value::from(*text), "", typed);
            }
        }
        names
    }

    #[test]
    fn folders_are_found_in_texts_and_files_and_the_systems_folders_stay() {
        let table = [
            ("cat /home/ann/secret/x.txt", "cat /home/user-2/folder-2/x.txt"),
            (
                "cc -I/deep/inner/include -L/usr/lib/gcc/12",
                "cc -I/folder-2/folder-3/include -L/usr/lib/gcc/12",
            ),
            ("A=/vault/keys:/vault/more", "A=/folder-2/folder-3:/folder-2/folder-4"),
            (
                "./tools/run ../../other/run ~/mine/run",
                "./folder-2/run ../../folder-3/run ~/folder-4/run",
            ),
            ("~ann/x/y.c", "~user-2/folder-2/y.c"),
            ("cd /srv/anvil && ./anvil/hammer", "cd /srv/folder-1 && ./folder-1/hammer"),
            (
                "file:///deep/a.c https://example.com/a/b",
                "file:///folder-2/a.c https://example.com/a/b",
            ),
            ("zoe@mill zoe_x mill.example.org", "user-1@host-2 zoe_x host-1"),
            ("sed s/one/two/ 3/4 /op (/etc/passwd)", "sed s/one/two/ 3/4 /op (/etc/passwd)"),
            (
                "/proc/self/maps /tmp/123/x.c /usr/bin/cc",
                "/proc/self/maps /tmp/123/x.c /usr/bin/cc",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(names(&[text]).replacer().text(text), expected);
        }
    }

    #[test]
    fn words_of_opcost_stay_but_in_paths() {
        let text = names(&["/q/seccomp/perf_event/twin/x.c"]).replacer();
        let before = "seccomp=cached perf_event twin in /q/seccomp/perf_event/twin/x.c";
        assert_eq!(
            text.text(before),
            "seccomp=cached perf_event twin in /folder-2/folder-3/folder-4/folder-5/x.c"
        );
    }

    #[test]
    fn values_are_replaced_where_they_are_meant() {
        let mut names = names(&["/w/wall/x.c"]);
        for (variable, value) in
            [("N", "1"), ("KEY", "it\'s so"), ("M", "wall"), ("P", "longsecret")]
        {
            names.add(PrivateKind::Value, value);
            names.variables.insert((variable.into(), value.into()));
        }
        let text = names.replacer();
        let table = [
            ("--env N=1 -n 1", "--env N=value-1 -n 1"),
            ("--env \"KEY=it\'s so\"", "--env \"KEY=value-2\""),
            ("it\'s so", "value-2"),
            ("wall/op M=wall", "folder-3/op M=value-3"),
            ("xlongsecrety P=longsecret", "xvalue-4y P=value-4"),
        ];
        for (before, after) in table {
            assert_eq!(text.text(before), after);
        }
        let told = names.told(&text).join("\n");
        assert!(told.contains("values of --env: N = value-1; KEY = value-2"), "{told}");
        assert!(!told.contains("longsecret") && !told.contains("zoe"), "{told}");
    }

    #[test]
    fn a_name_that_is_a_word_of_the_type_stays_there_and_nowhere_else() {
        let names = PrivateNames::new(&["kernel_only".into(), "interrupted".into()], &[]);
        #[derive(Debug, PartialEq, serde::Deserialize, Serialize)]
        #[serde(rename_all = "snake_case")]
        enum Word {
            Interrupted,
        }
        let made = names.replacer().all(&(Word::Interrupted, "interrupted".to_string())).unwrap();
        assert_eq!(made, (Word::Interrupted, "user-2".to_string()));
    }
}
