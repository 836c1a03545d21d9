//! Writes callgrind's format (Valgrind manual, "Callgrind Format Specification").

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// A place in the code.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct CodePosition {
    /// Index into [`Dump::files`].
    pub file: usize,
    /// The line; 0 if it is not known.
    pub line: u32,
    /// The instruction's address.
    pub address: u64,
}

/// Calls from a place.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Call {
    /// The calling instruction.
    pub from: CodePosition,
    /// Index into [`Dump::functions`].
    pub callee: usize,
    /// The first instruction of the callee.
    pub to: CodePosition,
    /// The number of calls.
    pub calls: u64,
    /// The inclusive costs, one for each event.
    pub costs: Vec<u64>,
}

/// The costs of a function.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Function {
    /// The name.
    pub name: String,
    /// The path of the file with its code.
    pub object: String,
    /// Index of its source file in [`Dump::files`].
    pub file: usize,
    /// Its own costs, one for each event.
    pub own: Vec<(CodePosition, Vec<u64>)>,
    /// Its calls.
    pub calls: Vec<Call>,
}

/// The contents of a file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[allow(missing_docs, reason = "the format's manual explains the fields")]
pub struct Dump {
    pub pid: u32,
    pub command: String,
    pub part: u32,
    pub thread: Option<u32>,
    /// The caches, if they are simulated.
    pub caches: [String; 3],
    /// The first and last block that was executed.
    pub blocks: (u64, u64),
    pub trigger: String,
    pub events: Vec<&'static str>,
    pub files: Vec<String>,
    pub functions: Vec<Function>,
}

/// How the contents are spelled.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are options of callgrind")]
pub struct Style {
    pub instr: bool,
    pub line: bool,
    pub compress_strings: bool,
    pub compress_pos: bool,
}

impl Dump {
    /// The sums of the functions' own costs.
    pub fn totals(&self) -> Vec<u64> {
        let mut sums = vec![0u64; self.events.len()];
        for (_, costs) in self.functions.iter().flat_map(|function| &function.own) {
            add(&mut sums, costs);
        }
        sums
    }
}

fn add(sums: &mut [u64], costs: &[u64]) {
    sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum = sum.saturating_add(*cost));
}

/// Writes the file.
pub fn write(dump: &Dump, style: Style) -> String {
    let totals = numbers(&dump.totals());
    let mut text = format!(
        "# callgrind format\nversion: 1\ncreator: opcost-{}\npid: {}\ncmd:  {}\npart: {}\n",
        env!("CARGO_PKG_VERSION"),
        dump.pid,
        word_line(&dump.command),
        dump.part,
    );
    if let Some(thread) = dump.thread {
        let _ = writeln!(text, "thread: {thread}");
    }
    let [code, data, last] = &dump.caches;
    // Lines are the positions if nothing else is.
    let positions = match (style.instr, style.line) {
        (true, true) => "instr line",
        (true, false) => "instr",
        (false, _) => "line",
    };
    let _ = write!(
        text,
        "\n\ndesc: I1 cache: {code}\ndesc: D1 cache: {data}\ndesc: LL cache: {last}\n\ndesc: Timerange: Basic block {} - {}\n\
         desc: Trigger: {}\n\npositions: {positions}\nevents: {}\nsummary: {totals}\n\n",
        dump.blocks.0,
        dump.blocks.1,
        word_line(&dump.trigger),
        dump.events.join(" "),
    );
    let mut writer = Writer { dump, style, known: Default::default(), last: (0, 0), text };
    for function in &dump.functions {
        writer.function(function);
    }
    let _ = writeln!(writer.text, "\ntotals: {totals}");
    writer.text
}

fn numbers(costs: &[u64]) -> String {
    costs.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// A text within a line.
fn word_line(text: &str) -> String {
    opcost_record::printable::printable(&text.replace(['\n', '\r'], " "))
}

/// Objects, files and functions are numbered apart.
const OBJECT: usize = 0;
const FILE: usize = 1;
const NAME: usize = 2;

struct Writer<'d> {
    dump: &'d Dump,
    style: Style,
    known: [HashMap<String, usize>; 3],
    /// The position of the last line: address and line.
    last: (u64, u32),
    text: String,
}

impl Writer<'_> {
    fn name(&mut self, key: &str, kind: usize, name: &str) {
        let name = if name.is_empty() { "???".into() } else { word_line(name) };
        let _ = if !self.style.compress_strings {
            writeln!(self.text, "{key}={name}")
        } else if let Some(number) = self.known[kind].get(&name) {
            writeln!(self.text, "{key}=({number})")
        } else {
            let number = self.known[kind].len() + 1;
            let written = writeln!(self.text, "{key}=({number}) {name}");
            self.known[kind].insert(name, number);
            written
        };
    }

    /// The position, relative to the last one if that is asked for.
    fn position(&mut self, place: CodePosition) -> String {
        let Style { instr, line, compress_pos, .. } = self.style;
        let at = place.line;
        let (last_address, last_line) = std::mem::replace(&mut self.last, (place.address, at));
        let mut parts = Vec::new();
        if instr {
            let (now, last) = (place.address, last_address);
            parts.push(match compress_pos && last != 0 {
                true if now == last => "*".into(),
                true if now > last => format!("+{}", now - last),
                true => format!("-{}", last - now),
                false => format!("{now:#x}"),
            });
        }
        if line || !instr {
            parts.push(match compress_pos && last_line != 0 {
                true if at == last_line => "*".into(),
                true if at > last_line => format!("+{}", at - last_line),
                true => format!("-{}", last_line - at),
                false => at.to_string(),
            });
        }
        parts.join(" ")
    }

    fn function(&mut self, function: &Function) {
        // Costs at one position are one line.
        let instr = self.style.instr;
        let merged = |place: CodePosition| CodePosition {
            address: if instr { place.address } else { 0 },
            line: if self.style.line { place.line } else { 0 },
            ..place
        };
        let mut own: BTreeMap<CodePosition, Vec<u64>> = BTreeMap::new();
        let mut calls: BTreeMap<(CodePosition, usize), (CodePosition, u64, Vec<u64>)> =
            BTreeMap::new();
        let events = self.dump.events.len();
        for (place, costs) in &function.own {
            add(own.entry(merged(*place)).or_insert_with(|| vec![0; events]), costs);
        }
        for call in &function.calls {
            let sums = calls
                .entry((merged(call.from), call.callee))
                .or_insert_with(|| (merged(call.to), 0, vec![0; events]));
            sums.1 += call.calls;
            add(&mut sums.2, &call.costs);
        }
        own.retain(|_, costs| costs.iter().any(|cost| *cost > 0));
        if own.is_empty() && calls.is_empty() {
            return;
        }
        self.text.push('\n');
        let file_of =
            |file: usize| self.dump.files.get(file).map(String::as_str).unwrap_or_default();
        self.name("ob", OBJECT, &function.object);
        self.name("fl", FILE, file_of(function.file));
        self.name("fn", NAME, &function.name);
        let mut files: Vec<usize> = own
            .keys()
            .map(|place| place.file)
            .chain(calls.keys().map(|(place, _)| place.file))
            .collect();
        files.sort_unstable_by_key(|file| (*file != function.file, *file));
        files.dedup();
        for file in files {
            if file != function.file {
                self.name("fi", FILE, file_of(file));
            }
            for (place, costs) in own.iter().filter(|(place, _)| place.file == file) {
                let position = self.position(*place);
                let _ = writeln!(self.text, "{position} {}", numbers(costs));
            }
            for ((from, callee), (to, count, costs)) in
                calls.iter().filter(|((place, _), _)| place.file == file)
            {
                let callee = &self.dump.functions[*callee];
                if callee.object != function.object {
                    self.name("cob", OBJECT, &callee.object);
                }
                self.name("cfi", FILE, file_of(callee.file));
                self.name("cfn", NAME, &callee.name);
                // callgrind_annotate takes the cost of no calls for the caller's own.
                let calls = (*count).max(1);
                // Readers do not count on from a target.
                let last = std::mem::take(&mut self.last);
                let target = self.position(*to);
                self.last = last;
                let _ = writeln!(self.text, "calls={calls} {target}");
                let position = self.position(*from);
                let _ = writeln!(self.text, "{position} {}", numbers(costs));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump() -> Dump {
        let place = |file, line, address| CodePosition { file, line, address };
        Dump {
            pid: 7,
            command: "./prog a\nb".into(),
            part: 1,
            thread: None,
            blocks: (0, 5),
            trigger: "Program termination".into(),
            events: vec!["Ir"],
            files: vec!["a.c".into(), "b.h".into()],
            functions: vec![
                Function {
                    name: "main".into(),
                    object: "/bin/prog".into(),
                    file: 0,
                    own: vec![
                        (place(0, 3, 0x10), vec![2]),
                        (place(0, 3, 0x12), vec![5]),
                        (place(1, 9, 0x14), vec![1]),
                        (place(0, 5, 0x16), vec![0]),
                    ],
                    calls: vec![Call {
                        from: place(0, 4, 0x15),
                        callee: 1,
                        to: place(1, 1, 0x40),
                        calls: 2,
                        costs: vec![30],
                    }],
                },
                Function {
                    name: "leaf".into(),
                    object: "/lib/c".into(),
                    file: 1,
                    own: vec![(place(1, 1, 0x40), vec![30])],
                    calls: Vec::new(),
                },
            ],
            ..Dump::default()
        }
    }

    fn body(style: Style) -> String {
        let text = write(&dump(), style);
        text.split_once("\n\n\nob=").map(|(_, body)| format!("ob={body}")).unwrap_or(text)
    }

    #[test]
    fn lines_sum_and_files_change() {
        let style =
            Style { instr: false, line: true, compress_strings: false, compress_pos: false };
        let expected = "ob=/bin/prog\nfl=a.c\nfn=main\n3 7\ncob=/lib/c\ncfi=b.h\ncfn=leaf\ncalls=2 1\n4 30\nfi=b.h\n9 1\n\n\
                        ob=/lib/c\nfl=b.h\nfn=leaf\n1 30\n\ntotals: 38\n";
        assert_eq!(body(style), expected);
        let text = write(&dump(), style);
        assert!(text.starts_with("# callgrind format\nversion: 1\ncreator: opcost-"), "{text}");
        for line in ["cmd:  ./prog a b", "positions: line", "events: Ir", "summary: 38"] {
            assert!(text.lines().any(|own| own == line), "{line}: {text}");
        }
    }

    #[test]
    fn names_and_positions_are_compressed() {
        let style = Style { instr: true, line: true, compress_strings: true, compress_pos: true };
        let expected = "ob=(1) /bin/prog\nfl=(1) a.c\nfn=(1) main\n0x10 3 2\n+2 * 5\ncob=(2) /lib/c\ncfi=(2) b.h\ncfn=(2) leaf\n\
                        calls=2 0x40 1\n+3 +1 30\nfi=(2)\n-1 +5 1\n\nob=(2)\nfl=(2)\nfn=(2)\n+44 -8 30\n\ntotals: 38\n";
        assert_eq!(body(style), expected);
    }
}
