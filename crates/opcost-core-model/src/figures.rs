//! A core file: reading, checking and writing it back.

use crate::class::{Class, Queue};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: u64 = 64;

/// Largest number of execution units in a file: one bit each.
const UNITS_MAX: usize = 32;

/// Largest number of groups of units in a file.
pub(crate) const GROUPS_MAX: usize = 64;

/// Version of the model: raised whenever equal figures would give other cycles.
const MODEL_VERSION: u64 = 4;

/// The reason why a text describes no core.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CoreError {
    /// The text is no TOML, lacks a key, or has an unknown key.
    #[error("the core file is wrong in line {line}, column {column}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// A class of instructions has no row.
    #[error(
        "the core file has no row for the class '{0}' of instructions; add one under [class], \
         such as {0} = {{ latency = 1, ports = \"alu\" }}"
    )]
    MissingClass(&'static str),
    /// A row's key is no class of instructions.
    #[error("the core file has a row '{class}'{at}, which is no class of instructions; remove it or correct its name", at = in_line(*.line))]
    UnknownClass {
        /// The row's key.
        class: String,
        /// Line, from 1.
        line: Option<usize>,
    },
    /// A figure is outside its bounds: 0 where 0 is impossible, or larger than the model's tables.
    #[error("the core file has {key} = {value}{at}, which must be from {min} to {max}", at = in_line(*.line))]
    Range {
        /// The key with its sections.
        key: String,
        /// The figure.
        value: u64,
        /// The smallest permitted value.
        min: u64,
        /// The largest permitted value.
        max: u64,
        /// Line, from 1.
        line: Option<usize>,
    },
    /// A row names no ports, or ports that the file does not have.
    #[error(
        "the class '{class}' of the core file needs 'ports' to name a group of units under [ports]{at}; it names {named}",
        at = in_line(*.line),
        named = .ports.as_ref().map_or("none".to_string(), |ports| format!("'{ports}'"))
    )]
    Ports {
        /// The row's key.
        class: String,
        /// The name of the ports, if any.
        ports: Option<String>,
        /// Line, from 1.
        line: Option<usize>,
    },
    /// A group has no unit, or the file has too many groups or units.
    #[error("the group '{group}' of ports makes the core file unusable{at}: {why}", at = in_line(*.line))]
    Group {
        /// The group.
        group: String,
        /// The fault of the group.
        why: &'static str,
        /// Line, from 1.
        line: Option<usize>,
    },
    /// A cache or TLB whose number of sets is no power of two.
    #[error(
        "{key} of the core file has {entries} entries in {ways} ways{at}; the number of sets must be a power of two",
        at = in_line(*.line)
    )]
    Sets {
        /// The key with its sections.
        key: String,
        /// Lines or pages.
        entries: u64,
        /// Ways.
        ways: u64,
        /// Line, from 1.
        line: Option<usize>,
    },
    /// More than one row has a shorter latency towards its own class.
    #[error("the classes '{0}' and '{1}' of the core file both have 'chained'; only one class may")]
    Chained(&'static str, &'static str),
}

fn in_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" in line {line}"))
}

/// Operations a cycle.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Width {
    /// Operations that the front end delivers.
    pub fetch: u64,
    /// Places of operations that the decoders fill in a cycle, for code that the instruction cache did not hold.
    pub decode: u64,
    /// Operations that enter the window.
    pub dispatch: u64,
    /// Operations that leave the window.
    pub retire: u64,
    /// Width of a vector unit in bytes; an operation on larger registers takes its unit twice.
    pub vector_bytes: u64,
}

/// Entries of the core's queues.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Operations in flight.
    pub reorder_buffer: u64,
    /// Operations that wait for integer units.
    pub queue_integer: u64,
    /// Loads and stores that wait for their units.
    pub queue_address: u64,
    /// Operations that wait for vector units.
    pub queue_vector: u64,
    /// Operations in front of the vector queue, which they enter in order.
    pub queue_vector_front: u64,
    /// Loads in flight.
    pub load_queue: u64,
    /// Stores that are not in L1 yet.
    pub store_queue: u64,
    /// The largest number of cycles by which fetch runs ahead of dispatch.
    pub fetch_ahead: u64,
    /// The largest number of lines of code by which prediction runs ahead of fetch and requests lines.
    pub lines_ahead: u64,
}

/// The operations that register renaming does without an execution unit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// Moves between general registers.
    pub moves: bool,
    /// Moves between vector registers.
    pub vector_moves: bool,
    /// `xor` of a register with itself, and similar idioms.
    pub zero_idioms: bool,
    /// Fusion of comparisons with the branch behind them.
    pub fuses_comparisons: bool,
    /// Fusion of additions, subtractions and logic with the branch behind them.
    pub fuses_arithmetic: bool,
    /// Loads of stack slots that were just stored.
    pub stack_slots: bool,
    /// Loads whose value comes from the same number of stores back as before.
    pub stored_values: bool,
}

/// Size of a cache of 64-byte lines.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FirstLevel {
    /// Bytes.
    pub bytes: u64,
    /// Ways.
    pub ways: u64,
}

/// A cache behind the first level.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Bytes.
    pub bytes: u64,
    /// Ways.
    pub ways: u64,
    /// Cycles from a load to its value.
    pub latency: u64,
    /// Cycles between two lines.
    pub line_cycles: u64,
}

/// Memory behind the caches.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Cycles from a load to its value.
    pub latency: u64,
    /// Cycles between two lines.
    pub line_cycles: u64,
}

/// The caches, and properties of accesses to them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// The data cache.
    pub l1: FirstLevel,
    /// The second level.
    pub l2: Level,
    /// The third level.
    pub l3: Level,
    /// Memory.
    pub memory: Dram,
    /// The instruction cache; a miss costs the second level's latency.
    pub code: FirstLevel,
    /// Cycles between two lines that enter one set of L1.
    pub same_set: u64,
    /// The number of lines that L1 can wait for at one time.
    pub misses: u64,
    /// Extra cycles of a load that crosses into another line.
    pub split: u64,
    /// Extra cycles of a load whose address has a scaled index.
    pub scaled: u64,
    /// Stores to one line that enter L1 in one cycle.
    pub commits: u64,
}

/// Forwarding from stores in flight to loads.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    /// Cycles from a store's data to the load's value.
    pub latency: u64,
    /// Cycles from a store's data to the value of a vector load.
    pub latency_vector: u64,
    /// Cycles from a store's data to the value of a load that the store covers only in part.
    pub failure: u64,
    /// Cycles from a store's data to the value of a load that renaming serves.
    pub renamed: u64,
    /// Extra cycles of a load that renaming serves, if its instruction has an operation as well.
    pub renamed_operand: u64,
}

/// Size of a table of pages or jumps.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TableGeometry {
    /// Pages or jumps.
    pub entries: u64,
    /// Ways.
    pub ways: u64,
}

/// A TLB behind the first level.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SecondTlb {
    /// Pages.
    pub entries: u64,
    /// Ways.
    pub ways: u64,
    /// Extra cycles of an access to a page that only this TLB holds.
    pub latency: u64,
}

/// Translation of addresses.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Translation {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// The first TLB of data.
    pub first: TableGeometry,
    /// The second TLB of data.
    pub second: SecondTlb,
    /// Extra cycles of an access to a page that no TLB holds.
    pub walk: u64,
    /// Cycles between the starts of two walks.
    pub walk_cycles: u64,
}

/// Prefetchers.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetch {
    /// The number of loads whose strides are remembered.
    pub strides: u64,
    /// The number of strides that the prefetcher runs ahead.
    pub stride_distance: u64,
    /// The number of streams of lines that are remembered.
    pub streams: u64,
    /// The number of lines that a stream runs ahead.
    pub stream_distance: u64,
}

/// Prediction of control flow, and delivery of code into the window.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Cycles from the result of a mispredicted branch to the entry of the right instructions.
    pub restart: u64,
    /// Cycles without fetch behind a taken jump, beyond the end of its own cycle.
    pub taken: u64,
    /// Extra cycles of a return.
    pub returned: u64,
    /// Extra cycles of an indirect jump that goes to more than one place.
    pub indirect: u64,
    /// Cycles of a taken jump whose target only the second table knows.
    pub target_second: u64,
    /// Cycles of a taken jump that no table knows and that names its target.
    pub target_unknown: u64,
    /// The first table of jump targets.
    pub targets_first: TableGeometry,
    /// The second table of jump targets.
    pub targets_second: TableGeometry,
    /// The number of remembered return addresses.
    pub returns: u64,
}

/// The cost of a class of instructions.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Cycles from operands to result.
    pub latency: u64,
    /// The group of units; the class takes one of them. `nop` has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<String>,
    /// Cycles for which the unit is occupied.
    #[serde(default = "one")]
    pub occupancy: u64,
    /// Places in the window.
    #[serde(default = "one")]
    pub slots: u64,
    /// The latency towards an instruction of the same class, if shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chained: Option<u64>,
}

fn one() -> u64 {
    1
}

/// A core: widths, sizes, latencies and units by class of instruction.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    name: String,
    /// Operations a cycle.
    pub width: Width,
    /// Entries of queues.
    pub window: Window,
    /// The operations that need no execution.
    pub rename: Rename,
    /// Caches.
    pub cache: Caches,
    /// Loads from stores in flight.
    pub forward: Forward,
    /// Translation of addresses.
    pub translation: Translation,
    /// Prefetchers.
    pub prefetch: Prefetch,
    /// Prediction of control flow.
    pub prediction: Prediction,
    /// Units by group.
    ports: BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing)]
    class: BTreeMap<String, Row>,
}

/// A row, in the form that the model uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) latency: u16,
    pub(crate) occupancy: u16,
    pub(crate) slots: u8,
    pub(crate) group: u8,
    /// Cycles saved towards the same class.
    pub(crate) chained: u8,
}

impl Core {
    /// The shipped cores: name and text of each.
    pub const SHIPPED: &[(&str, &str)] = &[
        ("zen4", include_str!("../cores/zen4.toml")),
        ("zen5", include_str!("../cores/zen5.toml")),
    ];

    /// Reads a core's file.
    ///
    /// # Errors
    /// The first fault of the text, with its place if there is one.
    pub fn parse(text: &str) -> Result<Core, CoreError> {
        let core: Core = toml::from_str(text).map_err(|error| {
            let before = &text[..error.span().map_or(0, |span| span.start.min(text.len()))];
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            CoreError::Syntax { line, column, message: error.message().trim().replace('\n', " ") }
        })?;
        core.check(text)?;
        Ok(core)
    }

    /// Returns the text of a shipped core, by name.
    pub fn shipped_text(name: &str) -> Option<&'static str> {
        Core::SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
    }

    /// Returns a shipped core, by name.
    pub fn shipped(name: &str) -> Option<Core> {
        Core::parse(Core::shipped_text(name)?).ok()
    }

    /// Returns the core's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the core's name.
    pub fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Returns a hash of everything that determines cycles: all figures and the model's version, not the name.
    pub fn fingerprint(&self) -> String {
        let mut unnamed = self.clone();
        unnamed.name.clear();
        // FNV-1a, whose constants are its definition.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ MODEL_VERSION;
        for byte in unnamed.to_text().bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        format!("{hash:016x}")
    }

    /// Returns the row of a class.
    pub fn row(&self, class: Class) -> &Row {
        &self.class[class.key()]
    }

    /// Replaces latency and occupancy of a class by measured values.
    ///
    /// # Errors
    /// The changed core is invalid; the core keeps its old values.
    pub fn set_row(&mut self, class: Class, latency: u64, occupancy: u64) -> Result<(), CoreError> {
        let mut changed = self.clone();
        if let Some(row) = changed.class.get_mut(class.key()) {
            (row.latency, row.occupancy) = (latency, occupancy);
        }
        changed.check("")?;
        *self = changed;
        Ok(())
    }

    /// Returns the text of a file that reads as this core.
    pub fn to_text(&self) -> String {
        // Serialising cannot fail: TOML has strings, integers, booleans and tables of them.
        let mut text = toml::to_string(self).unwrap_or_default();
        text.push_str("\n[class]\n");
        for class in Class::ALL {
            let row = self.row(*class);
            let _ = write!(text, "{} = {{ latency = {}", class.key(), row.latency);
            if let Some(ports) = &row.ports {
                let _ = write!(text, ", ports = {}", toml::Value::from(ports.as_str()));
            }
            for (key, value) in [("occupancy", row.occupancy), ("slots", row.slots)] {
                if value != 1 {
                    let _ = write!(text, ", {key} = {value}");
                }
            }
            if let Some(chained) = row.chained {
                let _ = write!(text, ", chained = {chained}");
            }
            text.push_str(" }\n");
        }
        text
    }

    /// Checks all figures; `text`: the file in which the lines of faults are looked up.
    fn check(&self, text: &str) -> Result<(), CoreError> {
        for (key, value, min, max) in self.ranges() {
            if value < min || value > max {
                let (key, line) = (key.to_string(), line_of(text, key));
                return Err(CoreError::Range { key, value, min, max, line });
            }
        }
        let jumps = (self.prediction.targets_first, self.prediction.targets_second);
        for (key, entries, ways) in [
            ("cache.l1", self.cache.l1.bytes / LINE_BYTES, self.cache.l1.ways),
            ("cache.l2", self.cache.l2.bytes / LINE_BYTES, self.cache.l2.ways),
            ("cache.l3", self.cache.l3.bytes / LINE_BYTES, self.cache.l3.ways),
            ("cache.code", self.cache.code.bytes / LINE_BYTES, self.cache.code.ways),
            ("translation.first", self.translation.first.entries, self.translation.first.ways),
            ("translation.second", self.translation.second.entries, self.translation.second.ways),
            ("prediction.targets_first", jumps.0.entries, jumps.0.ways),
            ("prediction.targets_second", jumps.1.entries, jumps.1.ways),
            ("prefetch.strides", self.prefetch.strides, 1),
            ("translation.page_bytes", self.translation.page_bytes, 1),
        ] {
            if entries % ways != 0 || !(entries / ways).is_power_of_two() {
                let (key, line) = (key.to_string(), line_of(text, key));
                return Err(CoreError::Sets { key, entries, ways, line });
            }
        }
        self.check_ports(text)?;
        self.check_rows(text)
    }

    fn check_ports(&self, text: &str) -> Result<(), CoreError> {
        let fault = |group: &str, why| {
            let line = line_of(text, &format!("ports.{group}"));
            Err(CoreError::Group { group: group.to_string(), why, line })
        };
        if self.ports.len() > GROUPS_MAX {
            let last = self.ports.keys().next_back().map_or("", String::as_str);
            return fault(last, "there are more than 64 groups");
        }
        for (group, units) in &self.ports {
            if units.is_empty() {
                return fault(group, "it has no unit");
            }
        }
        match self.units().len() > UNITS_MAX {
            true => fault("", "all groups together have more than 32 units"),
            false => Ok(()),
        }
    }

    fn check_rows(&self, text: &str) -> Result<(), CoreError> {
        for class in self.class.keys() {
            if !Class::ALL.iter().any(|known| known.key() == class) {
                let line = line_of(text, &format!("class.{class}"));
                return Err(CoreError::UnknownClass { class: class.clone(), line });
            }
        }
        let mut chained = None;
        for class in Class::ALL {
            let key = class.key();
            let row = self.class.get(key).ok_or(CoreError::MissingClass(key))?;
            let line = || line_of(text, &format!("class.{key}"));
            let known = row.ports.as_ref().is_some_and(|ports| self.ports.contains_key(ports));
            if known == (class.queue() == Queue::None) {
                let (class, ports) = (key.to_string(), row.ports.clone());
                return Err(CoreError::Ports { class, ports, line: line() });
            }
            // The limits keep every result within the rings of units and queues.
            let least = u64::from(class.queue() != Queue::None);
            for (figure, value, min, max) in [
                ("latency", row.latency, least, 1000),
                ("occupancy", row.occupancy, 1, 500),
                ("slots", row.slots, 1, 200),
                (
                    "chained",
                    row.chained.unwrap_or(row.latency),
                    row.latency.saturating_sub(255),
                    row.latency,
                ),
            ] {
                if value < min || value > max {
                    let key = format!("class.{key}.{figure}");
                    return Err(CoreError::Range { key, value, min, max, line: line() });
                }
            }
            if row.chained.is_some()
                && let Some(other) = chained.replace(key)
            {
                return Err(CoreError::Chained(other, key));
            }
        }
        Ok(())
    }

    /// Returns keys with their figures and bounds.
    fn ranges(&self) -> Vec<(&'static str, u64, u64, u64)> {
        let Core { width, window, cache, forward, translation, prefetch, prediction, .. } = self;
        let latency_max = 5000;
        vec![
            ("width.fetch", width.fetch, 1, 64),
            ("width.decode", width.decode, 1, 64),
            ("width.dispatch", width.dispatch, 1, 64),
            ("width.retire", width.retire, 1, 64),
            ("width.vector_bytes", width.vector_bytes, 16, 64),
            ("window.reorder_buffer", window.reorder_buffer, width.dispatch, 4096),
            ("window.queue_integer", window.queue_integer, 1, 1024),
            ("window.queue_address", window.queue_address, 1, 1024),
            ("window.queue_vector", window.queue_vector, 1, 1024),
            ("window.queue_vector_front", window.queue_vector_front, 1, 1024),
            ("window.load_queue", window.load_queue, 1, 1024),
            ("window.store_queue", window.store_queue, 1, 1024),
            ("window.fetch_ahead", window.fetch_ahead, 1, 1000),
            ("window.lines_ahead", window.lines_ahead, 1, 1024),
            ("cache.l1.ways", cache.l1.ways, 1, 64),
            ("cache.l2.ways", cache.l2.ways, 1, 64),
            ("cache.l3.ways", cache.l3.ways, 1, 64),
            ("cache.code.ways", cache.code.ways, 1, 64),
            ("cache.l1.bytes", cache.l1.bytes, LINE_BYTES, 1 << 30),
            ("cache.l2.bytes", cache.l2.bytes, LINE_BYTES, 1 << 30),
            ("cache.l3.bytes", cache.l3.bytes, LINE_BYTES, 1 << 30),
            ("cache.code.bytes", cache.code.bytes, LINE_BYTES, 1 << 30),
            ("cache.l2.latency", cache.l2.latency, 1, latency_max),
            ("cache.l3.latency", cache.l3.latency, 1, latency_max),
            ("cache.memory.latency", cache.memory.latency, 1, latency_max),
            ("cache.l2.line_cycles", cache.l2.line_cycles, 1, 1000),
            ("cache.l3.line_cycles", cache.l3.line_cycles, 1, 1000),
            ("cache.memory.line_cycles", cache.memory.line_cycles, 1, 1000),
            ("cache.same_set", cache.same_set, 0, 1000),
            ("cache.misses", cache.misses, 1, 1024),
            ("cache.split", cache.split, 0, 1000),
            ("cache.scaled", cache.scaled, 0, 1000),
            ("cache.commits", cache.commits, 1, 16),
            ("forward.latency", forward.latency, 1, 1000),
            ("forward.latency_vector", forward.latency_vector, 1, 1000),
            ("forward.failure", forward.failure, 1, 1000),
            ("forward.renamed", forward.renamed, 0, 1000),
            ("forward.renamed_operand", forward.renamed_operand, 0, 1000),
            ("translation.page_bytes", translation.page_bytes, 64, 1 << 30),
            ("translation.first.ways", translation.first.ways, 1, 64),
            ("translation.second.ways", translation.second.ways, 1, 64),
            ("translation.first.entries", translation.first.entries, 1, 1 << 20),
            ("translation.second.entries", translation.second.entries, 1, 1 << 20),
            ("translation.second.latency", translation.second.latency, 0, latency_max),
            ("translation.walk", translation.walk, 0, latency_max),
            ("translation.walk_cycles", translation.walk_cycles, 1, 1000),
            ("prefetch.strides", prefetch.strides, 1, 4096),
            ("prefetch.stride_distance", prefetch.stride_distance, 0, 64),
            ("prefetch.streams", prefetch.streams, 1, 256),
            ("prefetch.stream_distance", prefetch.stream_distance, 0, 64),
            ("prediction.restart", prediction.restart, 1, 1000),
            ("prediction.taken", prediction.taken, 0, 100),
            ("prediction.returned", prediction.returned, 0, 100),
            ("prediction.indirect", prediction.indirect, 0, 100),
            ("prediction.target_second", prediction.target_second, 0, 100),
            ("prediction.target_unknown", prediction.target_unknown, 0, 1000),
            ("prediction.targets_first.ways", prediction.targets_first.ways, 1, 64),
            ("prediction.targets_second.ways", prediction.targets_second.ways, 1, 64),
            ("prediction.targets_first.entries", prediction.targets_first.entries, 1, 1 << 20),
            ("prediction.targets_second.entries", prediction.targets_second.entries, 1, 1 << 20),
            ("prediction.returns", prediction.returns, 1, 4096),
        ]
    }

    /// Returns the names of all units, in the order in which they are taken: units of the fewest groups first.
    fn units(&self) -> Vec<&str> {
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        for unit in self.ports.values().flatten() {
            *uses.entry(unit).or_default() += 1;
        }
        let mut units: Vec<(usize, &str)> =
            uses.iter().map(|(unit, uses)| (*uses, *unit)).collect();
        units.sort_unstable();
        units.into_iter().map(|(_, unit)| unit).collect()
    }

    /// Returns the units of each group, one bit each.
    pub(crate) fn groups(&self) -> [u32; GROUPS_MAX] {
        let units = self.units();
        let mut groups = [0; GROUPS_MAX];
        for (group, members) in groups.iter_mut().zip(self.ports.values()) {
            for (place, unit) in units.iter().enumerate() {
                *group |= u32::from(members.iter().any(|member| member == unit)) << place;
            }
        }
        groups
    }

    /// Returns the row of a class in the form that the model uses.
    pub(crate) fn cost(&self, class: Class) -> Cost {
        let row = self.row(class);
        let group = self.ports.keys().position(|group| Some(group) == row.ports.as_ref());
        Cost {
            latency: row.latency as u16,
            occupancy: row.occupancy as u16,
            slots: row.slots as u8,
            group: group.unwrap_or(0) as u8,
            chained: row.chained.map_or(0, |chained| (row.latency - chained) as u8),
        }
    }
}

/// Returns the line of a key, from 1; sections are lines in brackets, or tables within a line.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let mut section = String::new();
    let mut best = None;
    for (place, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let full = match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(name) => {
                section = format!("{name}.");
                name.to_string()
            }
            None => {
                let name = line.split('=').next().unwrap_or_default().trim();
                format!("{section}{name}")
            }
        };
        // The key itself, or the inline table that holds the key.
        let within = key.strip_prefix(full.as_str()).is_some_and(|rest| rest.starts_with('.'));
        if !full.is_empty() && (full == key || within) {
            best = Some(place + 1);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_cores_are_read_and_written_back() {
        for (name, text) in Core::SHIPPED {
            let core = Core::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(core.name(), *name);
            let again = Core::parse(&core.to_text()).unwrap();
            assert_eq!(again, core);
            assert_eq!(again.fingerprint(), core.fingerprint());
        }
    }
}
