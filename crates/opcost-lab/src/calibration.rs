//! Makes a core's file from the figures that opcost-gauge measured on a CPU and from the file of a similar core.
//!
//! A measured figure near a whole number replaces the similar core's figure. Otherwise the similar
//! core's figure stays. A comment behind a figure says how it was obtained.

use opcost_core_model::{Class, Core, CoreError};
use opcost_record::gauge::{Cpu, GaugeReport};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// A figure that is further from a whole number than this is unclean, in cycles or as a share.
const UNCLEAN_CYCLES: f64 = 0.07;
const UNCLEAN_SHARE: f64 = 0.012;
/// The cycles of a mispredicted branch's condition: load, shift, logic, test.
const CONDITION_CYCLES: f64 = 8.0;
/// From this many cycles on, one unit limits the throughput: each instruction occupies it for longer, or there is only one.
const ONE_UNIT_CYCLES: f64 = 0.75;

/// A core that ships, and its CPUs: maker, family, ranges of models (first, last), the core's name.
type KnownCore = (&'static str, u32, &'static [(u32, u32)], &'static str);

const KNOWN: [KnownCore; 2] = [
    ("AuthenticAMD", 0x19, &[(0x10, 0x1f), (0x60, 0xaf)], "zen4"),
    ("AuthenticAMD", 0x1a, &[(0, 0xff)], "zen5"),
];

/// Instructions that represent classes whose instructions differ: prefix of the figure, class,
/// instruction. In all other classes most instructions agree.
const REPRESENTATIVES: [(&str, &str, &str); 10] = [
    ("latency.", "convert_float", "cvtdq2ps"),
    ("latency.", "divide_64", "div"),
    ("latency.", "exchange", "xadd"),
    ("latency.", "float_add", "addsd"),
    ("latency.", "lea_complex", "three"),
    ("latency.", "load", "mov"),
    ("latency.", "vector_shuffle_lanes", "vpermd"),
    ("latency.", "x87_add", "fadd"),
    ("throughput.", "store", "mov"),
    ("throughput.", "vector_shuffle", "pshufd"),
];

/// Figures that vary from run to run and are therefore rounded to the nearest whole number.
const ROUNDED: [&str; 6] = [
    "forward.latency",
    "cache.l3.latency",
    "cache.memory.latency",
    "cache.l2.line_cycles",
    "cache.l3.line_cycles",
    "cache.memory.line_cycles",
];

/// A core's file, made from measurements.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Calibrated {
    /// The file.
    pub text: String,
    /// The name of the core whose file calibration started from.
    pub base: String,
    /// Why calibration started from this core, in words.
    pub why: String,
    /// The number of figures that were measured, changed or not.
    pub measured: usize,
    /// Each changed figure in words: its path, the old and the new value.
    pub changed: Vec<String>,
    /// Each measured figure that could not be used, in words; the old figure stays.
    pub unclean: Vec<String>,
}

/// The median cycles of each key that more than half of the reports have.
fn medians(reports: &[GaugeReport]) -> BTreeMap<&str, f64> {
    let mut figures: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (key, measured) in reports.iter().flat_map(|report| &report.loops) {
        figures.entry(key).or_default().extend(measured.cycles_milli);
    }
    figures
        .into_iter()
        .filter(|(_, all)| all.len() * 2 > reports.len())
        .map(|(key, mut all)| {
            all.sort_unstable();
            (key, all[(all.len() - 1) / 2] as f64 / 1000.0)
        })
        .collect()
}

/// The whole number that a figure is close to, if there is one.
fn whole(cycles: f64) -> Option<u64> {
    let nearest = cycles.round();
    let clean = (cycles - nearest).abs() <= UNCLEAN_CYCLES.max(UNCLEAN_SHARE * cycles);
    (nearest >= 1.0 && clean).then_some(nearest as u64)
}

/// Makes a core's file.
///
/// `reports`: the measured loops; `name`: the new core's name; `begin`: name and text of the core to begin with, if one was chosen.
///
/// # Errors
/// The measured figures make no valid core.
pub fn calibrate(
    reports: &[GaugeReport],
    name: &str,
    begin: Option<(&str, &str)>,
) -> Result<Calibrated, CoreError> {
    let figures = medians(reports);
    let cpu = reports.first().map(|report| report.cpu.clone()).unwrap_or_default();
    let (base, why) = match begin {
        Some((base, _)) => (base.to_string(), "it was chosen".to_string()),
        None => like(&cpu, &figures),
    };
    let text =
        begin.map(|(_, text)| text).or_else(|| Core::shipped_text(&base)).unwrap_or_default();
    let mut core = Core::parse(text)?;
    core.set_name(name);
    let mut file = File {
        table: toml::from_str(&core.to_text()).unwrap_or_default(),
        notes: BTreeMap::new(),
        changed: Vec::new(),
        unclean: Vec::new(),
    };
    file.latencies(&figures);
    file.pairs(&figures);
    file.throughputs(&figures);
    file.others(&figures);
    let measured = file.notes.values().filter(|note| note.starts_with("measured")).count();
    let core = Core::parse(&toml::to_string(&file.table).unwrap_or_default())?;
    let head = format!(
        "# {cpu}, measured by opcost doctor --calibrate-core.\n#\n# It began as the core {base}: {why}.\n# Behind each figure stands \
         how it was got; where nothing stands it was taken over from {base}.\n\n"
    );
    Ok(Calibrated {
        text: head + &annotated(&core.to_text(), &file.notes),
        base,
        why,
        measured,
        changed: file.changed,
        unclean: file.unclean,
    })
}

/// The core to begin with: the core of this CPU, else the core with the nearest latencies.
fn like(cpu: &Cpu, figures: &BTreeMap<&str, f64>) -> (String, String) {
    let of = |(vendor, family, models, _): &&KnownCore| {
        *vendor == cpu.vendor
            && *family == cpu.family
            && models.iter().any(|(first, last)| (*first..=*last).contains(&cpu.model))
    };
    if let Some((.., core)) = KNOWN.iter().find(of) {
        let why = format!("it is of {} family {:#x}, as this CPU", cpu.vendor, cpu.family);
        return (core.to_string(), why);
    }
    let distance = |name: &str| {
        let core = Core::shipped(name);
        let latency = |class: &str| {
            let class = Class::ALL.iter().find(|it| it.key() == class)?;
            Some(core.as_ref()?.row(*class).latency)
        };
        let off = |(key, cycles): (&&str, &f64)| {
            let class = key.strip_prefix("latency.")?.split('.').next()?;
            Some((latency(class)? as f64 / cycles.max(0.1)).ln().abs())
        };
        figures.iter().filter_map(off).sum::<f64>()
    };
    let names = Core::SHIPPED.iter().map(|(name, _)| *name);
    let nearest = names.min_by(|one, two| distance(one).total_cmp(&distance(two)));
    let why = "no core that ships is of this CPU, and its latencies are the nearest".into();
    (nearest.unwrap_or_default().to_string(), why)
}

/// A core's file that is being made.
struct File {
    table: Table,
    /// The note behind each figure, by the figure's path.
    notes: BTreeMap<String, String>,
    changed: Vec<String>,
    unclean: Vec<String>,
}

impl File {
    fn get(&self, path: &str) -> Option<&Value> {
        let mut words = path.split('.');
        let first = self.table.get(words.next()?)?;
        words.try_fold(first, |value, word| value.get(word))
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.get(path)?.as_integer()?.try_into().ok()
    }

    /// Sets a figure, and records the change if the value differs. A class may get a new key.
    fn set(&mut self, path: &str, value: Value) {
        let before = self.get(path).cloned();
        let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
        let parent = parent.split('.').try_fold(&mut self.table, |table, word| {
            table.get_mut(word).and_then(Value::as_table_mut)
        });
        if let Some(parent) = parent {
            parent.insert(key.to_string(), value.clone());
        }
        if before.as_ref() != Some(&value) {
            let before = before.map_or("nothing".to_string(), |before| before.to_string());
            self.changed.push(format!("{path}: {before} → {value}"));
        }
    }

    fn set_number(&mut self, path: &str, value: u64) {
        // A missing occupancy means one cycle.
        if value == 1 && path.ends_with(".occupancy") && self.get(path).is_none() {
            return;
        }
        self.set(path, Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn note(&mut self, path: &str, note: String) {
        let all = self.notes.entry(path.to_string()).or_default();
        *all = if all.is_empty() { note } else { format!("{all}; {note}") };
    }

    /// Sets the latency of each class to the figure that most of its instructions have.
    fn latencies(&mut self, figures: &BTreeMap<&str, f64>) {
        for (class, found) in by_class(figures, "latency.") {
            if class.contains('+') || self.number(&format!("class.{class}.latency")).is_none() {
                continue;
            }
            let said = in_words(&found);
            let stand: Vec<(&str, f64)> = representative("latency.", class, &found);
            let wholes: Vec<u64> = stand.iter().filter_map(|(_, cycles)| whole(*cycles)).collect();
            let votes = |value: u64| wholes.iter().filter(|other| **other == value).count();
            // The least of equally frequent figures: a slower instruction is an exception of its class.
            let best = wholes.iter().copied().max_by_key(|value| (votes(*value), u64::MAX - value));
            match best {
                Some(best) => {
                    self.set_number(&format!("class.{class}.latency"), best);
                    self.note(&format!("class.{class}"), format!("measured: latency of {said}"));
                }
                None => {
                    self.unclean.push(format!("latency of {class}: {said}"));
                    self.note(
                        &format!("class.{class}"),
                        format!("taken over: {said} is no whole number"),
                    );
                }
            }
        }
    }

    /// Sums of two classes: subtracts the second class's latency and sets the rest as the first's.
    fn pairs(&mut self, figures: &BTreeMap<&str, f64>) {
        let mut pairs = by_class(figures, "latency.");
        pairs.retain(|(class, _)| class.contains('+'));
        // The other pairs depend on how this round trip is divided.
        pairs.sort_by_key(|(class, _)| *class != "vector_from_integer+vector_to_integer");
        let mut settled: Vec<&str> = Vec::new();
        for (classes, found) in pairs {
            let Some((first, second)) = classes.split_once('+') else { continue };
            let said = in_words(&found);
            let second_cycles = self.number(&format!("class.{second}.latency")).unwrap_or_default();
            let rest = found.first().and_then(|(_, sum)| whole(*sum)?.checked_sub(second_cycles));
            let Some(rest) = rest.filter(|rest| *rest > 0) else {
                self.unclean.push(format!("latency of {first} and {second}: {said}"));
                continue;
            };
            if settled.contains(&first) {
                continue;
            }
            settled.extend([first, second]);
            let path = format!("class.{first}.latency");
            let own = self.number(&path).unwrap_or_default();
            self.note(&format!("class.{first}"), format!("measured: {said} with {second}"));
            if first != "float_add" {
                self.set_number(&path, rest);
            } else if rest > own {
                // An addition hands its result to another addition sooner than to a multiplication.
                self.set_number(&path, rest);
                self.set_number(&format!("class.{first}.chained"), own);
            } else if let Some(row) = self.table.get_mut("class").and_then(|it| it.get_mut(first)) {
                row.as_table_mut().and_then(|row| row.remove("chained"));
            }
        }
    }

    /// Sets each class's number of units, or its occupancy of a unit, from its throughput.
    fn throughputs(&mut self, figures: &BTreeMap<&str, f64>) {
        let width = self.number("width.dispatch").unwrap_or(1);
        for (class, found) in by_class(figures, "throughput.") {
            let row = format!("class.{class}");
            let Some(group) = self.get(&format!("{row}.ports")).and_then(Value::as_str) else {
                continue;
            };
            let group = group.to_string();
            let units = self.get(&format!("ports.{group}")).and_then(Value::as_array).cloned();
            let (units, said) = (units.unwrap_or_default(), in_words(&found));
            let stand = representative("throughput.", class, &found);
            let best = stand.iter().map(|(_, cycles)| *cycles).fold(f64::INFINITY, f64::min);
            let count = units.len() as u64;
            let note = format!("measured: one in {said}");
            let occupancy = self.number(&format!("{row}.occupancy")).unwrap_or(1);
            // Speed changes within a sample, so a rate may be some percent too high.
            let as_now = occupancy as f64 / count as f64;
            if (0.83..1.18).contains(&(best / as_now)) {
                self.note(&row, note);
                continue;
            }
            if best < ONE_UNIT_CYCLES {
                let rate = (1.0 / best).round() as u64;
                if rate >= width || rate == count {
                    self.set_number(&format!("{row}.occupancy"), 1);
                    self.note(&row, note);
                } else if rate < count {
                    self.narrow(class, &units[..rate as usize]);
                    self.note(&row, note);
                } else if let Some(wider) = self.wider(&units, rate) {
                    self.set(&format!("{row}.ports"), Value::String(wider));
                    self.set_number(&format!("{row}.occupancy"), 1);
                    self.note(&row, note);
                } else {
                    self.unclean.push(format!(
                        "throughput of {class}: one in {said}, more than its {count} units"
                    ));
                }
                continue;
            }
            match whole(best) {
                Some(1) if count > 1 => {
                    self.narrow(class, &units[..1]);
                    self.note(&row, note);
                }
                Some(cycles) => {
                    self.set_number(&format!("{row}.occupancy"), cycles * count);
                    self.note(&row, note);
                }
                None => self.unclean.push(format!("throughput of {class}: one in {said}")),
            }
        }
    }

    /// The name of a group of `count` units that contains all of `units`.
    fn wider(&self, units: &[Value], count: u64) -> Option<String> {
        let ports = self.table.get("ports").and_then(Value::as_table)?;
        let fits = |group: &[Value]| {
            group.len() as u64 == count && units.iter().all(|unit| group.contains(unit))
        };
        let mut fitting =
            ports.iter().filter(|(_, group)| group.as_array().is_some_and(|it| fits(it)));
        fitting.next().map(|(name, _)| name.clone())
    }

    /// Restricts a class to some units of its group, and makes a group of these units if there is none.
    fn narrow(&mut self, class: &str, units: &[Value]) {
        let same = self.table.get("ports").and_then(Value::as_table).and_then(|ports| {
            ports.iter().find(|(_, group)| group.as_array().is_some_and(|it| it == units))
        });
        let group = match same {
            Some((name, _)) => name.clone(),
            None => {
                let name = format!("{class}_units");
                self.set(&format!("ports.{name}"), Value::Array(units.to_vec()));
                name
            }
        };
        self.set(&format!("class.{class}.ports"), Value::String(group));
        self.set_number(&format!("class.{class}.occupancy"), 1);
    }

    /// Sets all figures that belong to no class.
    fn others(&mut self, figures: &BTreeMap<&str, f64>) {
        let load = self.number("class.load.latency").unwrap_or_default() as f64;
        for (key, cycles) in figures {
            let Some(path) = key.strip_prefix("core.") else { continue };
            let found = match path {
                // The loop has one operation of another kind in 240.
                "width.dispatch" => Some((1.0 / cycles).round()),
                "prediction.taken" => whole(*cycles).map(|cycles| (cycles - 1) as f64),
                "prediction.restart" => Some((cycles - CONDITION_CYCLES).round()),
                // The store in the chain takes one of these cycles.
                "forward.renamed" => whole(*cycles).map(|cycles| (cycles - 1) as f64),
                // Less than a load from L1: the core renamed the location, so the forwarding latency did not show.
                "forward.latency" if *cycles < load => None,
                _ if ROUNDED.contains(&path) => Some(cycles.round()),
                _ => whole(*cycles).map(|cycles| cycles as f64),
            };
            match found.filter(|found| *found >= 0.0 && self.number(path).is_some()) {
                Some(found) => {
                    self.set_number(path, found as u64);
                    self.note(path, format!("measured: {cycles:.2}"));
                }
                None => {
                    let why = match path == "forward.latency" && *cycles < load {
                        true => "is less than a load takes: the core renames the place",
                        false => "is no whole number",
                    };
                    self.unclean.push(format!("{path}: {cycles:.2} {why}"));
                    self.note(path, format!("taken over: {cycles:.2} {why}"));
                }
            }
        }
        // The number of units does not limit a move that needs no unit.
        let unit = |key: &str| figures.get(key).copied();
        for (path, moves, units) in [
            ("rename.moves", "throughput.rename_moves.mov", "throughput.alu.add"),
            (
                "rename.vector_moves",
                "throughput.rename_vector_moves.movdqa",
                "throughput.vector_logic.pand",
            ),
            ("rename.zero_idioms", "throughput.rename_zero_idioms.xor", "throughput.alu.add"),
        ] {
            if let (Some(moves), Some(units)) = (unit(moves), unit(units)) {
                self.set(path, Value::Boolean(moves < 0.9 * units));
                self.note(
                    path,
                    format!("measured: one in {moves:.2}, where a unit takes {units:.2}"),
                );
            }
        }
    }
}

/// The figures under a prefix, by class, with their instructions.
fn by_class<'f>(
    figures: &BTreeMap<&'f str, f64>,
    prefix: &str,
) -> Vec<(&'f str, Vec<(&'f str, f64)>)> {
    let mut classes: Vec<(&str, Vec<(&str, f64)>)> = Vec::new();
    for (key, cycles) in figures {
        let Some((class, instruction)) = key.strip_prefix(prefix).and_then(|it| it.split_once('.'))
        else {
            continue;
        };
        match classes.iter_mut().find(|(known, _)| *known == class) {
            Some((_, all)) => all.push((instruction, *cycles)),
            None => classes.push((class, vec![(instruction, *cycles)])),
        }
    }
    classes
}

/// The figures that represent a class: its representative's figure, else all.
fn representative<'f>(prefix: &str, class: &str, found: &[(&'f str, f64)]) -> Vec<(&'f str, f64)> {
    let named = REPRESENTATIVES.iter().find(|(of, known, _)| *of == prefix && *known == class);
    let own =
        named.and_then(|(.., name)| found.iter().find(|(instruction, _)| instruction == name));
    own.map_or_else(|| found.to_vec(), |one| vec![*one])
}

/// `add 0.99, neg 1.00`
fn in_words(found: &[(&str, f64)]) -> String {
    let all: Vec<String> =
        found.iter().map(|(name, cycles)| format!("{name} {cycles:.2}")).collect();
    all.join(", ")
}

/// The file's text with each figure's note behind the figure.
fn annotated(text: &str, notes: &BTreeMap<String, String>) -> String {
    let (mut section, mut annotated) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = format!("{name}.");
        }
        let path = line.split_once(" = ").map(|(key, _)| format!("{section}{key}"));
        match path.and_then(|path| notes.get(&path)) {
            Some(note) => annotated += &format!("{line} # {note}\n"),
            None => annotated += &format!("{line}\n"),
        }
    }
    annotated
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::gauge::Measured;

    fn report(cpu: (&str, u32, u32), loops: &[(&str, f64)]) -> GaugeReport {
        let measured = |cycles: f64| Measured {
            kept: 40,
            taken: 40,
            cycles_milli: (cycles > 0.0).then_some((cycles * 1000.0) as u64),
        };
        GaugeReport {
            cpu: Cpu { vendor: cpu.0.into(), family: cpu.1, model: cpu.2, ..Cpu::default() },
            loops: loops.iter().map(|(key, cycles)| (key.to_string(), measured(*cycles))).collect(),
            ..GaugeReport::default()
        }
    }

    const ZEN4: (&str, u32, u32) = ("AuthenticAMD", 25, 17);

    fn made(loops: &[(&str, f64)]) -> (Calibrated, Core) {
        let calibrated = calibrate(&[report(ZEN4, loops)], "mine", None).unwrap();
        let core = Core::parse(&calibrated.text).unwrap();
        (calibrated, core)
    }

    #[test]
    fn what_was_measured_replaces_what_the_core_had_and_the_rest_is_taken_over() {
        let (made, core) = made(&[
            ("latency.divide_32.div", 21.1),
            ("latency.alu.add", 0.99),
            ("latency.alu.slow", 2.99),
            ("latency.alu.neg", 1.0),
            ("latency.crc32.crc32", 3.5),
            ("core.forward.latency", 5.97),
            ("core.cache.l3.latency", 61.4),
            ("core.prediction.taken", 1.01),
            ("core.prediction.restart", 24.4),
            ("half.branch.same", 2.0),
        ]);
        let base = Core::shipped("zen4").unwrap();
        assert_eq!((made.base.as_str(), core.name()), ("zen4", "mine"));
        assert_eq!(core.row(Class::Divide32).latency, 21);
        assert_eq!(core.row(Class::Alu).latency, 1, "most of its instructions");
        assert_eq!(core.row(Class::Crc32), base.row(Class::Crc32));
        assert_eq!((core.forward.latency, core.cache.l3.latency), (6, 61));
        assert_eq!((core.prediction.taken, core.prediction.restart), (0, 16));
        assert_eq!(core.window, base.window);
        assert_eq!(made.unclean, ["latency of crc32: crc32 3.50"]);
        assert!(
            made.text.contains("# measured: latency of add 0.99, neg 1.00, slow 2.99"),
            "{}",
            made.text
        );
        assert!(made.text.contains("# taken over: crc32 3.50 is no whole number"));
        assert!(made.text.contains("latency = 6 # measured: 5.97"));
        assert!(
            made.changed
                .iter()
                .any(|it| it.starts_with("class.divide_32.latency: ") && it.ends_with("→ 21"))
        );
        assert_eq!(made.measured, 6);
        assert_ne!(core.fingerprint(), base.fingerprint());
    }

    #[test]
    fn a_place_that_the_core_renames_says_nothing_of_forwarding() {
        let base = Core::shipped("zen4").unwrap();
        let renames = [("core.forward.latency", 1.9), ("core.forward.renamed", 0.98)];
        let (made, core) = made(&renames);
        assert_eq!((core.forward.latency, core.forward.renamed), (base.forward.latency, 0));
        assert_eq!(
            made.unclean,
            ["forward.latency: 1.90 is less than a load takes: the core renames the place"]
        );
    }

    #[test]
    fn nothing_measured_is_the_core_as_it_was() {
        let (made, core) = made(&[]);
        assert_eq!(core.fingerprint(), Core::shipped("zen4").unwrap().fingerprint());
        assert_eq!((made.measured, made.changed.len()), (0, 0));
    }

    #[test]
    fn throughput_tells_how_many_units_or_how_long_one_is_taken() {
        let units = |core: &Core, class: Class| {
            let row = core.row(class);
            let text = core.to_text();
            let table: Table = toml::from_str(&text).unwrap();
            let group = row.ports.clone().unwrap();
            (table["ports"][group.as_str()].as_array().unwrap().len(), row.occupancy)
        };
        let base = Core::shipped("zen4").unwrap();
        assert_eq!(units(&base, Class::Alu), (4, 1), "this test is of that core");
        let (made, core) = made(&[
            ("throughput.alu.add", 0.5),
            ("throughput.vector_logic.pand", 0.22),
            ("throughput.divide_64.div", 20.1),
            ("throughput.shift.shl", 1.0),
            ("throughput.crc32.crc32", 1.5),
            ("throughput.multiply_64.imul", 0.34),
            ("throughput.set_flag.setz", 0.26),
        ]);
        assert_eq!(units(&core, Class::Alu), (2, 1));
        assert_eq!(units(&core, Class::VectorLogic), (4, 1));
        assert_eq!(units(&core, Class::Divide64), (1, 20));
        assert_eq!(units(&core, Class::Shift), (1, 1));
        assert_eq!(units(&base, Class::SetFlag), (2, 1), "this test is of that core");
        assert_eq!(units(&core, Class::SetFlag), (4, 1), "a group that has its units, too");
        assert_eq!(core.row(Class::Crc32), base.row(Class::Crc32));
        assert_eq!(core.row(Class::Multiply64), base.row(Class::Multiply64));
        let unclean = made.unclean.join("; ");
        assert!(
            unclean.contains("throughput of crc32") && unclean.contains("more than its 1 units"),
            "{unclean}"
        );
    }

    #[test]
    fn of_two_classes_in_one_chain_the_first_takes_what_is_left() {
        let (_, core) = made(&[
            ("latency.vector_from_integer+vector_to_integer.movq", 9.02),
            ("latency.vector_extract+vector_from_integer.pextrq", 10.0),
            ("latency.float_add.addsd", 2.0),
            ("latency.float_add.maxsd", 1.0),
            ("latency.float_add.cmpltsd", 1.0),
            ("latency.float_multiply.mulsd", 3.0),
            ("latency.float_add+float_multiply.mixed", 6.0),
        ]);
        let latency = |class: Class| core.row(class).latency;
        assert_eq!(latency(Class::VectorFromInteger) + latency(Class::VectorToInteger), 9);
        assert_eq!(latency(Class::VectorExtract) + latency(Class::VectorFromInteger), 10);
        let add = core.row(Class::FloatAdd);
        assert_eq!((add.latency, add.chained), (3, Some(2)));
        // On this core an addition takes equally long, whatever follows it.
        let (_, core) = made(&[
            ("latency.float_add.addsd", 3.0),
            ("latency.float_multiply.mulsd", 3.0),
            ("latency.float_add+float_multiply.mixed", 6.0),
        ]);
        let add = core.row(Class::FloatAdd);
        assert_eq!((add.latency, add.chained), (3, None));
    }

    #[test]
    fn a_cpu_that_nobody_knows_begins_as_the_nearest_core() {
        let zen5 = Core::shipped("zen5").unwrap();
        let own = |class: Class| zen5.row(class).latency as f64;
        let figures = [
            ("latency.divide_64.div", own(Class::Divide64)),
            ("latency.float_divide_64.divsd", own(Class::FloatDivide64)),
            ("latency.vector_integer.paddd", own(Class::VectorInteger)),
            ("latency.vector_shuffle.pshufd", own(Class::VectorShuffle)),
        ];
        let unknown =
            calibrate(&[report(("GenuineIntel", 6, 151), &figures)], "mine", None).unwrap();
        assert_eq!(unknown.base, "zen5");
        assert!(unknown.why.contains("nearest"), "{}", unknown.why);
        let zen4 = Core::shipped_text("zen4").map(|text| ("zen4", text));
        let chosen =
            calibrate(&[report(("GenuineIntel", 6, 151), &figures)], "mine", zen4).unwrap();
        assert_eq!((chosen.base.as_str(), chosen.why.as_str()), ("zen4", "it was chosen"));
        let known = calibrate(&[report(("AuthenticAMD", 26, 2), &[])], "mine", None).unwrap();
        assert_eq!(known.base, "zen5");
        assert!(
            known.text.starts_with("# AuthenticAMD family 26 model 2, measured by"),
            "{}",
            known.text
        );
    }

    #[test]
    fn the_median_of_several_processes_counts_and_one_alone_does_not() {
        let reports =
            [21.0, 25.0, 21.1].map(|cycles| report(ZEN4, &[("latency.crc32.crc32", cycles)]));
        let core = Core::parse(&calibrate(&reports, "mine", None).unwrap().text).unwrap();
        assert_eq!(core.row(Class::Crc32).latency, 21);
        let mut lonely = reports.clone();
        for report in &mut lonely[..2] {
            report.loops[0].1.cycles_milli = None;
        }
        assert_eq!(calibrate(&lonely, "mine", None).unwrap().measured, 0);
    }
}
