//! Reads callgrind's and cachegrind's files: counted cost by function and call (Valgrind manual, "Callgrind Format
//! Specification" and "Cachegrind Output File Format").
//!
//! Callgrind writes a file for each part of a run and each thread, and cachegrind's files have no calls.

use super::about::About;
use super::text::TextError;
use crate::code_costs::{CodeCosts, CountedFrom, LineCost, PlaceCost};
use crate::space::{CodeFile, CodeKind};
use crate::table::{Edge, FunctionCost, FunctionTable};
use opcost_record::Function;
use opcost_symbols::demangle::{demangle, mangled, printable};
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::Budget;
use std::path::{Path, PathBuf};

/// Names by their numbers: `fn=(3) main` gives `main` the number 3, later `fn=(3)` means `main`.
#[derive(Default)]
struct Names<'t>(KeyedMap<&'t str, &'t str>);

impl<'t> Names<'t> {
    /// Returns the name that a specification means.
    fn name(&mut self, text: &'t str) -> Option<&'t str> {
        let text = text.trim();
        let Some(rest) = text.strip_prefix('(') else { return Some(text) };
        let (number, name) = rest.split_once(')')?;
        // Some names begin like that: `(below main)`.
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(text);
        }
        let name = name.trim();
        if name.is_empty() {
            return self.0.get(number).copied();
        }
        self.0.insert(number, name);
        Some(name)
    }
}

/// A function as the file names it.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
struct Named<'t> {
    name: &'t str,
    object: &'t str,
    /// The source file; it tells functions of the same name apart.
    file: &'t str,
}

/// A call whose inclusive cost is on the next line.
struct Call<'t> {
    callee: Named<'t>,
    calls: u64,
}

/// The format's name.
pub(super) const NAME: &str = "callgrind.out";
/// Callgrind's placeholder for an unknown source file.
const NO_FILE: &str = "???";

/// The state of reading a file.
#[derive(Default)]
struct CallgrindReader<'t> {
    /// The event whose cost is wanted.
    wanted: Option<&'t str>,
    /// Whether callgrind wrote the file, and not cachegrind.
    with_calls: bool,
    files_read: u32,
    events: Vec<&'t str>,
    chosen: usize,
    positions: Positions,
    files: Names<'t>,
    objects: Names<'t>,
    functions: Names<'t>,
    object: &'t str,
    file: &'t str,
    /// The function, and its number once it has a cost.
    function: Option<(Named<'t>, Option<usize>)>,
    called_object: Option<&'t str>,
    called_file: Option<&'t str>,
    called: Option<&'t str>,
    call: Option<Call<'t>>,
    /// Whether the line before was a jump; the line below a jump has a position and no cost.
    jump: bool,
    numbers: KeyedMap<Named<'t>, usize>,
    costs: Vec<FunctionCost>,
    /// The lines and addresses of the functions' own costs.
    places: Vec<OwnCost<'t>>,
    /// The sum of the functions' own costs.
    own: u64,
    edges: KeyedMap<(usize, usize), (u64, u64)>,
    totals: Option<u64>,
    summary: Option<u64>,
    command: Option<&'t str>,
}

/// Whether a text looks like callgrind's or cachegrind's.
pub fn is_callgrind(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next().is_some_and(|line| line.starts_with("# callgrind format"))
        || text.lines().take(60).any(|line| line.starts_with("events:"))
}

/// Returns the names under which callgrind writes the other files of a run: `NAME.2` for a part, `NAME-03` for a thread,
/// `NAME.2-03` for both. The file `NAME` may be empty.
///
/// `path`: the file that the user named.
pub fn parts(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_part = |found: &str| {
        let Some(rest) = found.strip_prefix(name) else { return false };
        let (part, thread) = match rest.split_once('-') {
            Some((part, thread)) => (part, Some(thread)),
            None => (rest, None),
        };
        let is_part = part.is_empty() || part.strip_prefix('.').is_some_and(digits);
        is_part && thread.is_none_or(digits) && !rest.is_empty()
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten();
    let found = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_part));
    let mut found: Vec<PathBuf> =
        found.map(|entry| path.with_file_name(entry.file_name())).collect();
    found.sort();
    found
}

/// The lines that all files of one run have alike.
pub fn run_of(text: &str) -> Vec<&str> {
    let header = text.lines().take(30);
    header.filter(|line| line.starts_with("pid:") || line.starts_with("cmd:")).collect()
}

/// Reads the texts of one run's files, and adds their costs up.
///
/// `text`: the first file, which may be empty; `parts`: the others' names and texts; `event`: the event whose cost is wanted, for
/// example `Ir`; `None` is the first one; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: a line that callgrind does not write, or no such event; more than the budget.
pub fn read<'t>(
    text: &'t str,
    parts: impl IntoIterator<Item = (&'t str, &'t str)>,
    event: Option<&'t str>,
    budget: &Budget,
) -> Result<(About, FunctionTable, CodeCosts), TextError> {
    let mut reading = CallgrindReader { wanted: event, ..CallgrindReader::default() };
    reading.file(text, budget)?;
    for (name, text) in parts {
        reading.file(text, budget).map_err(|source| match source {
            TextError::Exceeded(exceeded) => TextError::Exceeded(exceeded),
            source => TextError::Part { name: printable(name), source: Box::new(source) },
        })?;
    }
    reading.finish()
}

impl<'t> CallgrindReader<'t> {
    fn file(&mut self, text: &'t str, budget: &Budget) -> Result<(), TextError> {
        self.files_read += u32::from(!text.is_empty());
        // Each file has numbers of its own.
        (self.files, self.objects, self.functions) = Default::default();
        (self.object, self.file, self.function, self.call) = ("", "", None, None);
        (self.called_object, self.called_file, self.called) = (None, None, None);
        (self.positions, self.jump) = (Positions::default(), false);
        for (index, line) in text.lines().enumerate() {
            budget.step(line.len() as u64)?;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fail = |what| TextError::line(index, line, what);
            if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
                self.cost_line(line).map_err(fail)?;
                budget.step(size_of::<OwnCost<'_>>() as u64)?;
            } else if let Some((key, value)) = line.split_once('=')
                && key.bytes().all(|byte| byte.is_ascii_lowercase())
            {
                self.position_line(key, value).map_err(fail)?;
            } else if let Some((key, value)) = line.split_once(':') {
                self.header_line(key, value.trim())?;
            } else {
                return Err(fail("none of callgrind's"));
            }
        }
        Ok(())
    }

    fn header_line(&mut self, key: &str, value: &'t str) -> Result<(), TextError> {
        match key {
            "events" => {
                self.events = value.split_whitespace().collect();
                let Some(first) = self.events.first() else { return Err(TextError::Empty) };
                // A later part of the run may have its events in another order.
                let wanted = *self.wanted.get_or_insert(first);
                let found = self.events.iter().position(|event| *event == wanted);
                self.chosen = found.ok_or_else(|| TextError::NoEvent {
                    wanted: wanted.to_string(),
                    known: self.events.join(", "),
                })?;
            }
            "version" | "creator" => self.with_calls = true,
            "positions" => {
                self.with_calls = true;
                self.positions = Positions::of(value);
            }
            "cmd" => self.command = Some(value),
            // A file of several parts has several lines; their sum is the file's.
            "totals" => {
                self.totals = Some(self.totals.unwrap_or(0).saturating_add(self.total(value)))
            }
            "summary" => {
                self.summary = Some(self.summary.unwrap_or(0).saturating_add(self.total(value)))
            }
            _ => {}
        }
        Ok(())
    }

    fn total(&self, value: &str) -> u64 {
        let figure = value.split_whitespace().nth(self.chosen);
        figure.and_then(|figure| figure.parse().ok()).unwrap_or(0)
    }

    fn position_line(&mut self, key: &str, value: &'t str) -> Result<(), &'static str> {
        const UNKNOWN: &str = "a name by a number that no name was given";
        match key {
            "ob" => self.object = self.objects.name(value).ok_or(UNKNOWN)?,
            "fl" | "fi" | "fe" => self.file = self.files.name(value).ok_or(UNKNOWN)?,
            "fn" => {
                let name = self.functions.name(value).ok_or(UNKNOWN)?;
                let named = Named { name, object: self.object, file: self.file };
                self.function = Some((named, None));
            }
            "cob" => self.called_object = Some(self.objects.name(value).ok_or(UNKNOWN)?),
            "cfi" | "cfl" => self.called_file = Some(self.files.name(value).ok_or(UNKNOWN)?),
            // The place that a jump to another function leads to; a name may get its number here.
            "jfi" => {
                self.files.name(value).ok_or(UNKNOWN)?;
            }
            "jfn" => {
                self.functions.name(value).ok_or(UNKNOWN)?;
            }
            "cfn" => self.called = Some(self.functions.name(value).ok_or(UNKNOWN)?),
            "calls" => {
                let calls = value.split_whitespace().next().and_then(number);
                let calls = calls.ok_or("calls without their number")?;
                self.with_calls = true;
                let name = self.called.take().ok_or("calls without 'cfn='")?;
                let object = self.called_object.take().unwrap_or(self.object);
                let file = self.called_file.take().unwrap_or(self.file);
                self.call = Some(Call { callee: Named { name, object, file }, calls });
            }
            "jump" | "jcnd" => self.jump = true,
            _ => return Err("none of callgrind's"),
        }
        Ok(())
    }

    fn cost_line(&mut self, line: &str) -> Result<(), &'static str> {
        let mut fields = line.split_whitespace();
        self.positions.next(&mut fields);
        if std::mem::take(&mut self.jump) {
            return Ok(());
        }
        if self.events.is_empty() {
            return Err("a cost before the line 'events:'");
        }
        let (function, known) = self.function.ok_or("a cost before any 'fn='")?;
        // Callgrind leaves out events at the end of a line if they are 0.
        let cost = match fields.nth(self.chosen) {
            // Old versions of cachegrind write a full stop for 0.
            Some(".") | None => 0,
            Some(cost) if cost.starts_with(['+', '-', '*']) => {
                return Err("a cost relative to another; only positions are, so write whole costs");
            }
            Some(cost) => number(cost).ok_or("a cost that is no number")?,
        };
        let here = known.unwrap_or_else(|| self.number(function));
        self.function = Some((function, Some(here)));
        match self.call.take() {
            None => {
                self.own = self.own.checked_add(cost).ok_or("a cost beyond 64 bits")?;
                self.costs[here].own += cost;
                self.place(here, cost);
            }
            Some(Call { callee, calls }) => {
                let callee = self.number(callee);
                let edge = self.edges.entry((here, callee)).or_default();
                *edge = (edge.0.saturating_add(cost), edge.1.saturating_add(calls));
            }
        }
        Ok(())
    }

    /// Charges the current line of a function.
    fn place(&mut self, function: usize, cost: u64) {
        let Positions { line, address, .. } = self.positions;
        let place = OwnCost { function, file: self.file, line, address, cost };
        match self.places.last_mut().filter(|last| last.is_at(&place)) {
            Some(last) => last.cost = last.cost.saturating_add(cost),
            None if cost > 0 => self.places.push(place),
            None => {}
        }
    }

    fn number(&mut self, function: Named<'t>) -> usize {
        let costs = &mut self.costs;
        *self.numbers.entry(function).or_insert_with(|| {
            let Named { name, object, file } = function;
            let file = file.rsplit('/').next().filter(|file| !file.is_empty() && *file != NO_FILE);
            let source = file.map(printable);
            let shown = demangle(name);
            let mangled = mangled(name, &shown);
            let function = Function { source, mangled, ..Function::new(shown, printable(object)) };
            costs.push(FunctionCost {
                function,
                own: 0,
                inclusive: None,
                samples: None,
                calls: None,
                bytes: None,
                inlined_samples: 0,
            });
            costs.len() - 1
        })
    }

    fn finish(mut self) -> Result<(About, FunctionTable, CodeCosts), TextError> {
        let own = self.own;
        if self.events.is_empty() || self.costs.is_empty() {
            return Err(TextError::Empty);
        }
        let circle = circles(self.costs.len(), &self.edges);
        let mut inclusive: Vec<u64> = self.costs.iter().map(|cost| cost.own).collect();
        for ((caller, callee), (cost, calls)) in &self.edges {
            if caller != callee {
                inclusive[*caller] = inclusive[*caller].saturating_add(*cost);
            }
            let known = &mut self.costs[*callee].calls;
            *known = Some(known.unwrap_or(0).saturating_add(*calls));
        }
        for (at, cost) in self.costs.iter_mut().enumerate() {
            cost.inclusive = (!circle[at] && self.with_calls).then_some(inclusive[at]);
        }
        let edges = self.edges.iter().map(|((caller, callee), (cost, calls))| Edge {
            caller: Some(*caller),
            callee: *callee,
            cost: *cost,
            calls: Some(*calls),
        });
        let total = self.totals.or(self.summary).unwrap_or(own).max(own);
        let (edges, unattributed) = (edges.collect(), total - own);
        let (table, numbers) =
            FunctionTable { edges, functions: self.costs, total, unattributed }.numbered();
        let code = code_costs(self.places, &numbers, &table);
        let about = About {
            format: if self.with_calls { "callgrind" } else { "cachegrind" },
            files: self.files_read,
            event: self.events[self.chosen].to_string(),
            events: self.events.iter().map(|event| event.to_string()).collect(),
            command: self.command.map(str::to_string),
            ..About::default()
        };
        Ok((about, table, code))
    }
}

/// The positions on lines of costs, which may count from the line before.
#[derive(Clone, Copy)]
struct Positions {
    /// Whether the first is an instruction's address.
    with_address: bool,
    /// Whether there are lines.
    with_line: bool,
    address: Option<u64>,
    /// 0 is none.
    line: u64,
}

impl Default for Positions {
    fn default() -> Positions {
        Positions { with_address: false, with_line: true, address: None, line: 0 }
    }
}

impl Positions {
    /// `names`: of the line `positions:`.
    fn of(names: &str) -> Positions {
        let has = |wanted| names.split_whitespace().any(|name| name == wanted);
        let with_address = has("instr");
        Positions { with_address, with_line: !with_address || has("line"), ..Positions::default() }
    }

    /// Takes the positions from a line.
    fn next<'t>(&mut self, fields: &mut impl Iterator<Item = &'t str>) {
        let mut take = |before: u64| {
            let field = fields.next().unwrap_or_default();
            let by = |digits| number(digits).unwrap_or(0);
            match field.as_bytes().first() {
                Some(b'*') => before,
                Some(b'+') => before.saturating_add(by(&field[1..])),
                Some(b'-') => before.saturating_sub(by(&field[1..])),
                _ => by(field),
            }
        };
        if self.with_address {
            self.address = Some(take(self.address.unwrap_or(0)));
        }
        if self.with_line {
            self.line = take(self.line);
        }
    }
}

/// A function's own cost at a place.
struct OwnCost<'t> {
    function: usize,
    file: &'t str,
    line: u64,
    address: Option<u64>,
    cost: u64,
}

impl OwnCost<'_> {
    fn is_at(&self, other: &OwnCost<'_>) -> bool {
        let key = |one: &OwnCost<'_>| (one.function, one.line, one.address);
        key(self) == key(other) && self.file == other.file
    }
}

/// The costs of lines and addresses.
///
/// `numbers`: the place of each function in `table`, as the file's reader numbered them.
fn code_costs(places: Vec<OwnCost<'_>>, numbers: &[usize], table: &FunctionTable) -> CodeCosts {
    let mut code = CodeCosts { counted_from: CountedFrom::Link, ..CodeCosts::default() };
    let mut sources: KeyedMap<&str, u32> = KeyedMap::default();
    let mut objects: KeyedMap<&str, u32> = KeyedMap::default();
    // Files and functions number no more than the lines of a text in memory.
    for OwnCost { function, file, line, address, cost } in places {
        let function = numbers[function];
        let module = &table.functions[function].function.module;
        let function = function as u32;
        if let Ok(line @ 1..) = u32::try_from(line)
            && !file.is_empty()
            && file != NO_FILE
        {
            let source = *sources.entry(file).or_insert_with(|| {
                code.sources.push(printable(file));
                code.sources.len() as u32 - 1
            });
            code.lines.push(LineCost { function, inlined: None, source, line, cost, samples: 0 });
        }
        if !module.starts_with('/') {
            continue;
        }
        let file = *objects.entry(module).or_insert_with(|| {
            let path = module.clone().into_bytes();
            code.files.push(CodeFile { kind: CodeKind::File, path, build_id: None });
            code.files.len() as u32 - 1
        });
        code.places.extend(address.map(|offset| PlaceCost {
            file,
            offset,
            function,
            inlined: Vec::new(),
            cost,
            samples: 0,
        }));
    }
    code
}

/// Parses a number, decimal or hexadecimal.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Finds the functions that call themselves by way of others: functions that reach each other.
/// (Kosaraju's algorithm: the order in which calls return, then the same backwards.)
fn circles(functions: usize, edges: &KeyedMap<(usize, usize), (u64, u64)>) -> Vec<bool> {
    let mut callees = vec![Vec::new(); functions];
    let mut callers = vec![Vec::new(); functions];
    for (caller, callee) in edges.keys() {
        callees[*caller].push(*callee);
        callers[*callee].push(*caller);
    }
    let mut order = Vec::with_capacity(functions);
    let mut seen = vec![false; functions];
    for start in 0..functions {
        walk(start, &callees, &mut seen, &mut |function| order.push(function));
    }
    let mut in_circle = vec![false; functions];
    let mut seen = vec![false; functions];
    for start in order.into_iter().rev() {
        let mut members = Vec::new();
        walk(start, &callers, &mut seen, &mut |function| members.push(function));
        if members.len() > 1 {
            members.iter().for_each(|member| in_circle[*member] = true);
        }
    }
    in_circle
}

/// Calls `give` for `start` and everything it leads to that was not seen, callees before callers.
fn walk(start: usize, to: &[Vec<usize>], seen: &mut [bool], give: &mut impl FnMut(usize)) {
    if std::mem::replace(&mut seen[start], true) {
        return;
    }
    let mut path = vec![(start, 0)];
    while let Some((at, next)) = path.last_mut() {
        match to[*at].get(*next) {
            Some(reached) => {
                *next += 1;
                if !std::mem::replace(&mut seen[*reached], true) {
                    path.push((*reached, 0));
                }
            }
            None => {
                give(*at);
                path.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the format's specification, with a second object, compressed names, relative
    /// positions and a jump.
    const TEXT: &str = "\
# callgrind format
version: 1
creator: callgrind-3.19.0
cmd: ./work
positions: instr line
events: Ir Dr
fl=(1) file1.c
ob=(1) /bin/work
fn=(1) main
0x16 16 20 3
cfn=(2) func1
calls=1 0x50 50
+3 * 400 9
cfi=(2) file2.c
cfn=(3) _Z5func2v
calls=3 0x20 20
+3 +1 400
jcnd=1/2 +3 *
* *
fn=(2)
+30 51 100
cob=(2) /lib/b.so
cfi=(2)
cfn=(3)
calls=2 0x20 20
+1 -1 300 7

fl=(2)
ob=(2)
fn=(3)
* 20 700
totals: 900 12
";

    fn rows(table: &FunctionTable) -> Vec<String> {
        let row = |cost: &FunctionCost| {
            let FunctionCost { function, own, inclusive, calls, .. } = cost;
            format!("{} {} {own} {inclusive:?} {calls:?}", function.symbol, function.module)
        };
        table.functions.iter().map(row).collect()
    }

    #[test]
    fn own_and_inclusive_costs_are_told_apart() {
        let (about, table, _) = read(TEXT, [], None, &Budget::default()).unwrap();
        let expected = [
            "func2() /lib/b.so 700 Some(700) Some(2)",
            "func1 /bin/work 100 Some(400) Some(1)",
            "main /bin/work 20 Some(820) None",
            "func2() /bin/work 0 Some(0) Some(3)",
        ];
        assert_eq!(rows(&table), expected);
        assert_eq!((table.total, table.unattributed), (900, 80));
        assert_eq!((about.event.as_str(), about.command.as_deref()), ("Ir", Some("./work")));
        let callers: Vec<_> =
            table.callers(0).map(|edge| (edge.caller, edge.cost, edge.calls)).collect();
        assert_eq!(callers, [(Some(1), 300, Some(2))]);
    }

    #[test]
    fn functions_of_one_name_are_told_apart_by_their_files() {
        let text = "events: Ir\nob=(1) /bin/work\nfl=(1) /src/one.c\nfn=(1) helper\n1 5\nfl=(2) two.c\n\
                    fn=(2) helper\n1 7\nfi=(3) list.h\n9 2\nfe=(2)\nfl=(4) main.c\nfn=(3) main\n1 1\n\
                    cfi=(1)\ncfn=(1)\ncalls=1 1\n1 5\ncfi=(2)\ncfn=(2)\ncalls=2 1\n1 9\n\
                    fl=(5) ???\nfn=(4) other\n1 3\n";
        let (_, table, _) = read(text, [], None, &Budget::default()).unwrap();
        let source = |cost: &FunctionCost| cost.function.source.clone().unwrap_or_default();
        let naming = table.naming();
        let shown: Vec<String> = (table.functions.iter())
            .map(|cost| format!("{} {} {}", naming.symbol(&cost.function), cost.own, source(cost)))
            .collect();
        let expected =
            ["helper [two.c] 9 two.c", "helper [one.c] 5 one.c", "other 3 ", "main 1 main.c"];
        assert_eq!(shown, expected);
        assert_eq!(
            table.functions.iter().map(|cost| cost.calls).collect::<Vec<_>>(),
            [Some(2), Some(1), None, None]
        );
    }

    #[test]
    fn another_event_is_another_column() {
        let (_, table, _) = read(TEXT, [], Some("Dr"), &Budget::default()).unwrap();
        assert_eq!(rows(&table)[0], "main /bin/work 3 Some(12) None");
        assert_eq!(table.total, 12);
        let error = read(TEXT, [], Some("Dw"), &Budget::default()).unwrap_err().to_string();
        assert_eq!(error, "it has no event Dw; it has Ir, Dr");
    }

    #[test]
    fn of_a_circle_inclusive_costs_are_not_known() {
        let call = |from: &str, to: &str| format!("fn={from}\n1 1\ncfn={to}\ncalls=1 1\n1 50\n");
        let text = format!(
            "events: Ir\n{}{}{}{}",
            call("main", "a"),
            call("a", "b"),
            call("b", "a"),
            call("self", "self")
        );
        let (_, table, _) = read(&text, [], None, &Budget::default()).unwrap();
        let known = |name: &str| {
            let found = table.functions.iter().find(|cost| cost.function.symbol == name);
            found.unwrap().inclusive
        };
        assert_eq!(
            [known("main"), known("a"), known("b"), known("self")],
            [Some(51), None, None, Some(1)]
        );
    }

    #[test]
    fn lines_and_addresses_count_from_those_before() {
        let (_, table, code) = read(TEXT, [], None, &Budget::default()).unwrap();
        let symbol = |function: u32| table.functions[function as usize].function.symbol.clone();
        let lines: Vec<_> = (code.lines.iter())
            .map(|line| {
                let source = code.sources[line.source as usize].as_str();
                (symbol(line.function), source, line.line, line.cost)
            })
            .collect();
        // Calls and jumps move the position and cost nothing of their own.
        let expected = [
            ("main".to_string(), "file1.c", 16, 20),
            ("func1".into(), "file1.c", 51, 100),
            ("func2()".into(), "file2.c", 20, 700),
        ];
        assert_eq!(lines, expected);
        let place = |place: &PlaceCost| {
            let path = String::from_utf8_lossy(&code.files[place.file as usize].path).into_owned();
            (path, place.offset, place.cost)
        };
        let places: Vec<_> = code.places.iter().map(place).collect();
        let expected = [
            ("/bin/work".into(), 0x16, 20),
            ("/bin/work".into(), 0x3a, 100),
            ("/lib/b.so".into(), 0x3b, 700),
        ];
        assert_eq!((places, code.counted_from), (expected.to_vec(), CountedFrom::Link));
    }

    #[test]
    fn broken_lines_are_named() {
        let fault = |text: &str| read(text, [], None, &Budget::default()).unwrap_err().to_string();
        assert!(fault("events: Ir\nfn=(7)\n").starts_with("line 2 is a name by a number"));
        assert!(fault("events: Ir\n1 1\n").contains("before any 'fn='"));
        assert!(fault("fn=a\n1 1\n").contains("before the line 'events:'"));
        assert!(fault("events: Ir\nfn=a\ncalls=1 1\n").contains("without 'cfn='"));
        assert!(fault("events: Ir\nfn=a\n1 x\n").contains("no number"));
        assert!(fault("events: Ir\nfn=a\n1 9\n* +4\n").starts_with("line 4 is a cost relative"));
        assert!(fault("events: Ir\nrubbish\n").contains("none of callgrind's"));
        assert_eq!(fault("events: Ir\n"), TextError::Empty.to_string());
    }
}
