//! Modules stand on floors: each imports only from the floors below it.

use super::tidy::with_ending;
use crate::lab::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of each crate's root, from the ground up; no module imports another of its floor.
const FLOORS: &[(&str, &[&[&str]])] = &[
    (
        "opcost",
        &[
            &["json", "message"],
            &["calibration", "exit", "number", "os_text", "phases", "scratch", "shipped", "source"],
            &["sampling", "time"],
            &["failure", "plan"],
            &["experiment", "hook", "progress", "recording", "stopping", "validation"],
            &["comparison", "import", "resolve", "store"],
            &["gate", "gather", "history", "work_process"],
            &["machine", "render"],
            &["run"],
            &["command"],
            &["cli"],
        ],
    ),
    (
        "opcost-attach",
        &[
            &["arch", "maps", "memory", "writes"],
            &["image", "registry", "span"],
            &["error", "survey"],
            &["body", "process"],
            &["symbol"],
            &["value"],
            &["change"],
            &["target"],
            &["guardian"],
        ],
    ),
    (
        "opcost-core-model",
        &[
            &["class", "cycles"],
            &["figures", "stamp"],
            &["cache", "code", "direction", "lane", "ports", "prefetch", "queue", "ring", "stores"],
            &["memory", "target"],
            &["machine"],
        ],
    ),
    (
        "opcost-emu",
        &[
            &[
                "api", "branch", "cache", "class", "counters", "decode", "frames", "low", "mapped",
                "message", "refusal", "slices", "vcpu",
            ],
            &["attribution", "tree"],
            &["arguments", "main_loop", "rcu", "region", "report", "stack"],
            &["repeat"],
            &["block"],
            &["blocks"],
            &["walk"],
            &["model", "timing", "totals"],
            &["costs"],
            &["core"],
            &["cuts"],
            &["callback"],
            &["translate"],
            &["events"],
            &["install"],
        ],
    ),
    (
        "opcost-gauge",
        &[&["sample"], &["clock", "kernel"], &["error", "loops"], &["program"], &["command"]],
    ),
    (
        "opcost-guest",
        &[
            &["log", "mounts", "power"],
            &["disk"],
            &["error"],
            &["kernel", "reply", "request", "variation"],
            &["command", "workload"],
            &["init"],
        ],
    ),
    (
        "opcost-kernel",
        &[
            &["disk", "error", "kconfig"],
            &["config", "functions", "image", "modules", "spec", "step"],
            &["renamed"],
            &["cache", "git", "tools"],
            &["repository", "source"],
            &["build"],
            &["debian"],
        ],
    ),
    ("opcost-page", &[&["ascii", "document", "names", "style"], &["page"], &["writer"]]),
    (
        "opcost-profile",
        &[
            &["event", "parallel", "symbols", "tree"],
            &["ring", "space"],
            &["merge", "unwind"],
            &["losses"],
            &["session"],
            &["symbolise"],
            &["table"],
            &["read"],
            &["distortion"],
        ],
    ),
    (
        "opcost-record",
        &[
            &["channel", "framing", "leb128", "nearest", "printable", "region"],
            &["disk", "gauge", "marker", "metric", "program_region", "request"],
            &["profile"],
            &["emulation", "record", "symbols"],
            &["wire"],
        ],
    ),
    (
        "opcost-size",
        &[
            &["cover", "error", "totals"],
            &["inventory"],
            &["object_file", "pairing"],
            &["archive", "family", "operand"],
            &["code", "inlined", "read"],
            &["alignment", "difference"],
            &["alone", "function"],
        ],
    ),
    ("opcost-region", &[&["mark"]]),
    ("opcost-skip", &[]),
    (
        "opcost-stats",
        &[
            &["binomial", "counts", "exact", "multiple", "normal", "random"],
            &["change_point", "schedule", "summary"],
            &[
                "autocorrelation",
                "block",
                "first_runs",
                "outliers",
                "relevance",
                "sign",
                "step",
                "walsh",
            ],
            &["bootstrap", "drift", "rank"],
            &["power"],
            &["effect", "rank_sum", "welch"],
            &["early"],
        ],
    ),
    (
        "opcost-sys",
        &[
            &[
                "affinity",
                "allocator",
                "budget",
                "capability",
                "clock",
                "entropy",
                "errno",
                "foreign_file",
                "interrupt",
                "loopback",
                "marker",
                "personality",
                "rusage",
                "seccomp",
                "session",
                "syscall",
                "user",
            ],
            &["deferred", "file_size", "orphans", "perf", "port", "xdg"],
            &["spawn"],
            &["ptrace"],
        ],
    ),
    (
        "opcost-work",
        &[
            &["error", "figure", "random", "residency", "unrolled"],
            &["gate", "invariant", "params", "patched", "walk", "work"],
            &["marker", "task"],
            &["spec", "team"],
            &[
                "build",
                "copy",
                "fileio",
                "futex",
                "immediate",
                "lock",
                "measure",
                "mmap",
                "pipe",
                "pvops",
                "syscall",
            ],
            &["mapfile"],
            &["workloads"],
        ],
    ),
    (
        "patchpoint",
        &[
            &["abi", "error", "site_native", "word"],
            &["place", "signature", "site_x86_64", "status"],
            &["key"],
            &["alternative", "call", "transaction", "variants"],
            &["site_aarch64", "site_portable"],
        ],
    ),
    ("patchpoint-log", &[]),
];

/// Modules of opcost that, like all of opcost-page and opcost-size, use no clock, file, process or variable: their input alone decides.
const PURE: [&str; 11] = [
    "calibration",
    "comparison",
    "failure",
    "gate",
    "history",
    "json",
    "number",
    "plan",
    "recording",
    "render",
    "stopping",
];

/// A crate's source without its tests and comments: the file below `src`, and its text.
fn sources(name: &str) -> Vec<(PathBuf, String)> {
    let folder = root().join("crates").join(name).join("src");
    let of_crate = with_ending("rs").into_iter().filter_map(|(path, text)| {
        let file = path.strip_prefix(&folder).ok()?.to_path_buf();
        let is_test = file.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part == "tests" || part.ends_with("tests.rs") || part == "fixture.rs"
        });
        (!is_test).then(|| (file, code(&text)))
    });
    of_crate.collect()
}

/// The text of a file without comments, and without the test modules that end it.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The names that a text takes from the crate's root: behind `crate::`, and behind as many `super::`
/// as a module `depth` below the root needs.
fn taken_from_root(text: &str, depth: usize) -> BTreeSet<String> {
    let mut taken = BTreeSet::new();
    for above in ["crate::".to_string(), "super::".repeat(depth)] {
        for (at, _) in text.match_indices(&above) {
            let is_path = text[..at]
                .ends_with(|before: char| before.is_alphanumeric() || "_:".contains(before));
            if !is_path {
                first_names(&text[at + above.len()..], &mut taken);
            }
        }
    }
    taken
}

/// The first name of a path, or of each path in braces.
fn first_names(text: &str, names: &mut BTreeSet<String>) {
    let name_of = |text: &str| {
        let name: String =
            text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        Some(name).filter(|name| !name.is_empty())
    };
    let Some(mut rest) = text.strip_prefix('{') else {
        names.extend(name_of(text));
        return;
    };
    let mut open = 1;
    names.extend(name_of(rest));
    while let Some(at) = rest.find(['{', '}', ',']) {
        let (mark, behind) = (rest.as_bytes()[at], &rest[at + 1..]);
        match mark {
            b'{' => open += 1,
            b'}' => open -= 1,
            _ if open == 1 => names.extend(name_of(behind)),
            _ => {}
        }
        if open == 0 {
            return;
        }
        rest = behind;
    }
}

/// The modules that a crate's root declares, and the names that it re-exports from them.
fn declared(name: &str) -> (BTreeSet<String>, BTreeMap<String, String>) {
    let folder = root().join("crates").join(name).join("src");
    let lib = folder.join("lib.rs");
    let file = if lib.exists() { lib } else { folder.join("main.rs") };
    let text = code(&fs::read_to_string(file).unwrap());
    let mut modules = BTreeSet::new();
    let mut exported = BTreeMap::new();
    for statement in text.split(';') {
        // Lines before the last line of an item are attributes.
        let words = statement.trim();
        let declaration = words.rsplit('\n').next().unwrap_or_default();
        if let Some((before, module)) = declaration.rsplit_once("mod ")
            && (before.is_empty() || before.starts_with("pub"))
            && !words.contains("#[cfg(test)]")
        {
            modules.insert(module.to_string());
        }
        if let Some((_, path)) = words.rsplit_once("pub use ")
            && let Some((module, items)) = path.split_once("::")
        {
            let items = items.split(|c: char| !c.is_alphanumeric() && c != '_');
            exported.extend(items.map(|item| (item.to_string(), module.to_string())));
        }
    }
    (modules, exported)
}

/// The imports of a crate that do not point down, as messages.
fn not_down(name: &str, floors: &[&[&str]]) -> Vec<String> {
    let floor_of = |module: &str| floors.iter().position(|floor| floor.contains(&module));
    let (_, exported) = declared(name);
    let mut wrong = Vec::new();
    for (file, text) in sources(name) {
        let parts: Vec<String> = file
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .filter(|part| part != "mod")
            .collect();
        let module = parts[0].as_str();
        // The module is the root itself or a module of tests.
        if floor_of(module).is_none() {
            continue;
        }
        for taken in taken_from_root(&text, parts.len()) {
            let from = exported.get(&taken).unwrap_or(&taken);
            if from != module && floor_of(from) >= floor_of(module) {
                wrong.push(format!("{name}/src/{} imports {from}", file.display()));
            }
        }
    }
    wrong
}

#[test]
fn imports_point_down() {
    for (name, floors) in FLOORS {
        let listed: BTreeSet<String> =
            floors.iter().flat_map(|floor| floor.iter()).map(ToString::to_string).collect();
        assert_eq!(listed, declared(name).0, "the floors of {name} are not its modules");
        let wrong = not_down(name, floors);
        assert!(wrong.is_empty(), "not from a floor below:\n{}", wrong.join("\n"));
    }
    let crates: BTreeSet<String> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let listed: BTreeSet<String> = FLOORS.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(listed, crates, "a crate has no floors here");
}

#[test]
fn an_import_upwards_is_seen() {
    let upside_down: Vec<&[&str]> = FLOORS[0].1.iter().rev().copied().collect();
    let wrong = not_down("opcost", &upside_down);
    for seen in ["opcost/src/time.rs imports number", "opcost/src/cli.rs imports command"] {
        assert!(wrong.iter().any(|line| line == seen), "{seen} is not among\n{}", wrong.join("\n"));
    }
    let names = |text: &str, depth| taken_from_root(text, depth).into_iter().collect::<Vec<_>>();
    assert_eq!(names("use crate::{a, b::{c, d}, e};", 1), ["a", "b", "e"]);
    assert_eq!(names("use super::x; let y = super::super::z::f();", 2), ["z"]);
    assert_eq!(names("other_crate::a + crate::b!()", 1), ["b"]);
    assert_eq!(
        code("use crate::a; // crate::b\n#[cfg(test)]\nmod tests { crate::c }"),
        "use crate::a; "
    );
}

#[test]
fn what_is_pure_sees_nothing_of_the_machine() {
    let seen =
        ["std::fs", "std::env", "std::process", "std::net", "Instant", "SystemTime", "opcost_sys"];
    let module = |file: &Path| file.iter().next().map(Path::new).unwrap().with_extension("");
    let pure = sources("opcost")
        .into_iter()
        .filter(|(file, _)| PURE.iter().any(|pure| module(file) == Path::new(pure)));
    for (file, text) in pure.chain(sources("opcost-page")).chain(sources("opcost-size")) {
        // This function only parses text.
        let text = text.replace("opcost_sys::affinity::parse_cpu_list", "");
        for what in seen {
            assert!(!text.contains(what), "{} uses {what}", file.display());
        }
    }
}

#[test]
fn every_source_file_is_part_of_its_crate() {
    for (path, _) in with_ending("rs") {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        let Some(at) = parts.iter().rposition(|part| *part == "src") else { continue };
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if !parts.contains(&"crates")
            || at + 2 > parts.len()
            || ["lib", "main"].contains(&stem.as_str())
        {
            continue;
        }
        let folder = path.parent().unwrap();
        let (module, folder) = match stem.as_str() {
            "mod" => {
                let name = folder.file_name().unwrap().to_string_lossy().into_owned();
                (name, folder.parent().unwrap())
            }
            _ => (stem.clone(), folder),
        };
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let above = folder.with_extension("rs");
        let near = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let declares = |candidate: &Path| {
            fs::read_to_string(candidate).is_ok_and(|text| {
                text.contains(&format!("mod {module};")) || text.contains(&format!("{file}\"]"))
            })
        };
        assert!(
            near.chain([above]).any(|candidate| declares(&candidate)),
            "nothing has {}",
            path.display()
        );
    }
}
